/* fluid.h - an instance of allocator fluid, and what its files do for each other.
 *
 * Runners are the items that hold GPUs, the queue those that wait, in the order in which they will
 * be served; both are kept from call to call.  The pool (fluid_pool.h) is made anew in each call:
 * its trials are the runners in their order, then those that got something in this call.
 */
#ifndef FLUID_H
#define FLUID_H
#include <espalier/kit/roster.h>
#include "fluid_pool.h"
#include "fluid_probe.h"

/* a roster entry's `want`: a part of a GPU; else that many whole ones */
#define FLUID_SMALL ESPL_ANY

struct place {
	uint64_t id;
	espl_time arrived;
}; /* an item, to be found in the roster */
/* an item that holds GPUs */
struct runner {
	struct place place;
	espl_time since, ends; /* when it was last foretold, and to end when */
};

struct fluid {
	const struct espl_host *host;
	const struct espl_model *model;
	const char *offer_name;
	uint32_t gpus_max; /* 0 no limit of ours */
	uint32_t offer;    /* ESPL_ANY: not chosen yet */
	uint32_t paper, resize, probing;
	uint32_t curve_count, curve_room;
	uint32_t runner_count, runner_room;
	uint32_t head, tail, queue_room; /* the queue is queue[head .. tail) */
	uint32_t admitted;               /* the last so many of the queue came in this call */
	uint32_t broken;                 /* 1: a call failed half way: plan everybody anew */
	uint64_t limit;                  /* GPUs that may ever be held */
	/* work of trials of which it is not known; NaN: no such yet */
	double typical_s;
	struct fluid_rules rules;
	struct fluid_curve **curves; /* [curve_room], the first curve_count of this call */
	struct runner *runners;
	struct place *queue;
	struct fluid_pool pool;
	struct fluid_probe probe;
	struct espl_roster roster;
};

/* ---- books (fluid_books.c) --------------------------------------------------------------- */

/* Index of an item in the view, or ESPL_ANY: it left. */
uint32_t allocator_fluid_index(const struct fluid *, struct place);
espl_status allocator_fluid_enqueue(struct fluid *, struct place);
espl_status allocator_fluid_add_runner(struct fluid *, struct place);
/* Drops runners that left; those whose grant did not come into force wait again, in front. */
espl_status allocator_fluid_keep_runners(struct fluid *, espl_time now);
/* Appends the view's item of that index to the pool, with the grant it has. */
espl_status allocator_fluid_add_trial(struct fluid *, const struct espl_alloc_view *,
    uint32_t index);
/* Work that is not known is taken for the median of what is, from now on. */
void allocator_fluid_guess_work(struct fluid *);

/* ---- those that wait (fluid_serve.c) ------------------------------------------------------ */

/* Those that arrived in this round, as one group: shares by algorithm 1 of the GPUs that nobody
 * holds, then into the queue. */
espl_status allocator_fluid_admit(struct fluid *, const struct espl_alloc_view *);
/* Seats the queue's trials, head first, as far as there is room. */
espl_status allocator_fluid_serve(struct fluid *, const struct espl_alloc_view *);
/* Says what is meant for those that arrived in this round and wait. */
espl_status allocator_fluid_tell_queue(struct fluid *, const struct espl_alloc_view *,
    struct espl_alloc_sink *);
#endif
