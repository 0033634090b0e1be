/* test_fluid.h - a small world in which allocator fluid and placer pack run one group of trials.
 *
 * Time is continuous and iterations are infinitely short; a trial that is changed stands still for
 * eps while it holds what it got.  Two clocks: with `hard` shares a packed trial is as slow as if
 * its GPU were full (Fluid's rectangles), otherwise only those that are there slow it down.
 */
#ifndef TEST_FLUID_H
#define TEST_FLUID_H
#include <espalier/abi.h>

#define FLUID_TRIALS 1024

extern const struct espl_plugin allocator_fluid_LTX_espalier_plugin;
extern const struct espl_plugin placer_pack_LTX_espalier_plugin;

struct group {
	uint32_t count, gpus, per_node; /* per_node 0: one GPU a node */
	uint32_t c, d[FLUID_TRIALS];    /* d 0: as many as there are GPUs */
	double h1[FLUID_TRIALS];
	double alpha, beta, eps;
};
/* what came of it */
struct course {
	uint32_t hard, open;    /* in: the clock; the group may grow (1) */
	uint32_t colocate;      /* in: gangs stay on one node, or on whole ones (1) */
	uint32_t apart;         /* in: every trial is a group of its own (1) */
	uint32_t events;        /* in: it is cut off after this many; 0: never */
	uint32_t lose, lose_at; /* in: so many nodes are lost before that event; 0: none */
	const uint32_t *order;  /* in: arrivals in this order, or NULL */
	double makespan;
	double started[FLUID_TRIALS], ended[FLUID_TRIALS];
	/* as first decided (also of who waits) */
	uint32_t gpus[FLUID_TRIALS], packing[FLUID_TRIALS];
	uint32_t changes;   /* trials changed while they ran, in all */
	uint32_t crowded;   /* 1: a GPU held more than it may */
	uint32_t held_lost; /* 1: a trial stayed on a node that was lost */
	uint32_t stuck;     /* 1: not all trials came to an end */
	double slowest_s;   /* call of the allocator, by the processor's clock */
	char why[256];
};

/* Runs the group with these options of the allocator. */
void fluid_run(const struct group *, const char *options, struct course *);
/* Makespan of given widths by list scheduling with hard shares (shares as gpus / packing). */
double fluid_list(const struct group *, const uint32_t *gpus, const uint32_t *packing);
/* The bound P1 on that makespan. */
double fluid_bound(const struct group *, const uint32_t *gpus, const uint32_t *packing);
/* The bound P2, looser: twice the average load of a GPU where nothing costs anything. */
double fluid_average_bound(const struct group *, const uint32_t *gpus, const uint32_t *packing);
/* No schedule at all ends sooner: trials may be cut into parts of any width at any time. */
double fluid_malleable(const struct group *);
double fluid_h(const struct group *, uint32_t trial, uint32_t gpus, uint32_t packing);
uint64_t fluid_random(uint64_t *state);
double fluid_uniform(uint64_t *state);
double fluid_normal(uint64_t *state);
#endif
