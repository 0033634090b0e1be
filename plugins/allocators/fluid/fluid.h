/* fluid.h - allocator fluid: measured tables, the pool that its rules work on, its instance, and
 * the interfaces between its files. */
#ifndef FLUID_H
#define FLUID_H
#include <espalier/allocator.h>
#include <espalier/kit/assert.h>
#include <espalier/fleet.h>
#include <espalier/kit/roster.h>

/* ---- curves ---------------------------------------------------------------------------------- */

/* How long a trial takes with its grant, from measured tables (Fluid 4.2.2).
 *
 * Between measured points, and only there, the paper's laws hold: each trial that shares a GPU
 * makes the others take alpha times as long, and each additional GPU increases a trial's GPU time
 * by the factor beta. Nothing is known beyond the last measured point: no trial is packed or scaled
 * further.
 */

#define FLUID_PACKING_MAX 64u /* trials on a GPU, at most */

/* where sharing and scaling end */
struct fluid_rules {
	double benefit;   /* another trial on a GPU must save this fraction (O_th) */
	double gain;      /* another GPU must reduce the time by this fraction */
	uint32_t by_beta; /* 1: d by the paper's rule, else from the table */
	uint32_t zero;
};
/* The tables that it was made of, which belong to the view: to recognize it. */
struct fluid_curve {
	const struct espl_point *scaling, *packing;
	uint32_t scaling_count, packing_count;
	uint32_t c;      /* the largest number of trials on a GPU that pays, at least 1 */
	uint32_t d;      /* most GPUs that pay, at least `unit` */
	uint32_t unit;   /* GPUs on which the time is 1 */
	uint32_t wide;   /* last of `whole` */
	uint32_t room;   /* of `whole` */
	uint32_t rising; /* 1: each width up to d is faster than all narrower */
	double packed[FLUID_PACKING_MAX + 1]; /* [p]: time of each of p on one GPU, [1] is 1 */
	double *whole;                        /* [w]: time on w GPUs; infinite below `unit` */
	double alpha, beta;                   /* fitted to the tables up to c, and to their last */
};

/* O^2..O^count of T[1..count], into benefit[2..count]: the fraction of the GPU time of an iteration
 * that is saved when the p-th trial joins. */
void allocator_fluid_benefits(const double *times, uint32_t count, double *benefit);
/* The largest c such that all of O^2..O^c exceed `benefit`; times[1..count]. */
uint32_t allocator_fluid_choose_c(const double *times, uint32_t count, double benefit);
/* The largest width at which each GPU beyond a narrower width reduces the time by the fraction
 * `gain`, averaged over the GPUs between them; times[first..last]. */
uint32_t allocator_fluid_choose_d(const double *times, uint32_t first, uint32_t last, double gain);
/* The paper's: the largest integer below 1 / (beta - 1), from 1 to most. */
uint32_t allocator_fluid_d_by_beta(double beta, uint32_t most);

/* Makes the curve from two tables, as in espl_item; count 0: not measured. Reuses the memory in it.
 * ESPL_E_NOMEM. */
espl_status allocator_fluid_curve_fill(struct fluid_curve *, const struct fluid_rules *,
    uint32_t unit, const struct espl_point *scaling, uint32_t scaling_count,
    const struct espl_point *packing, uint32_t packing_count);

/* ---- probing --------------------------------------------------------------------------------- */

/* The tables of allocator fluid where the profile has none: measured while trials run.
 *
 * The first iterations show how long an iteration takes on one GPU. Larger steps are tried once:
 * one GPU gets one more trial than was measured, one trial gets twice as many GPUs, and until both
 * have been timed no other trial is packed or scaled that far.
 */

#define FLUID_STEPS 22u /* widths 1, 2, 4, ... that are tried */

/* all zero to begin with */
struct fluid_probe {
	struct espl_point scaling[FLUID_STEPS], packing[FLUID_PACKING_MAX];
	uint32_t scaling_count, packing_count; /* 0: not even one GPU was timed */
	double iteration_s;                    /* measured on `unit` GPUs; 0: not yet */
	uint64_t experiment;
	uint64_t trial;       /* item that holds try_wide, while it does */
	uint32_t try_wide;    /* width to be timed next; 0: none */
	uint32_t try_packing; /* trials on a GPU to be timed next; 0: none */
	uint32_t tried;       /* number under way or completed: not started again */
	uint32_t zero;
};

/* Reads the measurements so far. model may be NULL: there are none. */
void allocator_fluid_probe_read(struct fluid_probe *, const struct espl_model *,
    const struct fluid_rules *, const struct espl_item *, uint64_t experiment);

/* ---- the pool -------------------------------------------------------------------------------- */

/* Trials and GPUs as the rules of allocator fluid see them.
 *
 * The plugin fills a pool from the host's view, the rules change the shares in it, and the plugin
 * grants the differences. A GPU that is shared, or could be, is a *shelf*; a trial on two or more
 * GPUs, or one that cannot share, is on no shelf. The remaining time of a trial follows from that:
 * trials on one shelf slow each other down, and speed up when one of them leaves.
 */

#define FLUID_NONE UINT32_MAX

struct fluid_trial {
	const struct fluid_curve *curve;
	const struct espl_item *item;
	uint64_t id;
	uint32_t index;                 /* of the item in the view */
	uint32_t per_node;              /* GPUs a node: which widths are legal */
	double work;                    /* seconds left on `unit` GPUs */
	double eps;                     /* seconds that a change of its share costs */
	double late;                    /* seconds until it starts to train, before any of our
					 * changes */
	double end;                     /* seconds until its last iteration ends */
	uint32_t least, most;           /* whole GPUs: smallest legal, largest useful */
	uint32_t c;                     /* it may share a GPU with c - 1 others; 1: never */
	uint32_t gpus, packing;         /* what it holds, or is to hold */
	uint32_t had_gpus, had_packing; /* before this decision */
	uint32_t fixed;                 /* 1: must not be changed (it is changing already, or
					 * cannot) */
	uint32_t moved;                 /* 1: pays eps in this decision */
	uint32_t shelf, next;           /* its shelf, and the next trial on that shelf; or NONE */
	uint64_t node;                  /* with gpu: the GPU it shares now; NONE: unknown */
	uint32_t gpu;
	uint32_t yields;    /* 1: it must move to another shared GPU */
	uint32_t home;      /* the node it is on, or its first; NONE: unknown */
	uint32_t displaced; /* 1: it moves without a change of width, to make room for a wider
			     * trial */
};
/* spare: while places are looked for */
struct fluid_node {
	uint64_t id;
	uint32_t gpus, spare;
};
struct fluid_gang {
	uint32_t gpus, home;
};
struct fluid_shelf {
	uint64_t node;
	uint32_t gpu;         /* ESPL_ANY with node NONE: not placed yet */
	uint32_t head, count; /* first trial on it */
	uint32_t cap, zero;   /* as many may */
	double work, end;     /* of the head: iterates over all shelves */
};
struct fluid_key {
	double a, b;
	uint64_t id;
	uint32_t trial, zero;
};
/* all zero to begin with */
struct fluid_pool {
	struct fluid_trial *trials;
	struct fluid_shelf *shelves;
	uint32_t *order;        /* for the caller, [room] */
	struct fluid_key *keys; /* for sorting, [room] */
	/* those of the trials side by side, [room]: for fluid_balance.c */
	double *ends;
	uint32_t count, shelf_count, room;
	uint32_t idle;                  /* whole GPUs that are free */
	uint32_t total;                 /* GPUs in all */
	uint32_t owed;                  /* held beyond that: trials that will share one GPU but
					 * do not yet */
	double ceiling;                 /* fluid_balance.c's */
	double exchange;                /* seconds until two trials may exchange their GPUs */
	struct fluid_node *nodes;       /* by id */
	struct fluid_gang *gangs;       /* those to be placed, [room] */
	uint32_t node_count, node_room; /* node_count 0: whatever is idle will do */
	uint32_t per_node;              /* GPUs a node */
	uint32_t mover;     /* trial that would have to move, by the last search; NONE */
	uint32_t displaced; /* 1: one moves in this decision */
	uint32_t zero;
};

void allocator_fluid_pool_free(struct fluid_pool *);
/* Reserves room for `count` trials and as many shelves; keeps the contents. ESPL_E_NOMEM. */
espl_status allocator_fluid_pool_room(struct fluid_pool *, uint32_t count);

/* Widest legal width of at most `most` that is faster than all narrower ones, 0: none; the next
 * such one above `gpus`, 0: none. */
uint32_t allocator_fluid_fit(const struct fluid_trial *, uint32_t most);
uint32_t allocator_fluid_wider(const struct fluid_trial *, uint32_t gpus);
/* Seconds of the trial's work on that many whole GPUs, and on 1/c of one (the paper's h). */
double allocator_fluid_h(const struct fluid_trial *, uint32_t gpus, uint32_t packing);

/* Reads the nodes, before trials are added; pool->total is known.  ESPL_E_NOMEM. */
espl_status allocator_fluid_floor(struct fluid_pool *, const struct espl_alloc_view *,
    uint32_t offer);
/* Index of a node, FLUID_NONE. */
uint32_t allocator_fluid_node(const struct fluid_pool *, uint64_t id);
/* Whether all trials can be placed with their new shares and that many whole GPUs for one trial,
 * such that any trial that has to move ends before `limit`. */
int allocator_fluid_places_with(struct fluid_pool *, uint32_t trial, uint32_t gpus, double limit);
/* Applies the result of the last search: the trial that has to move pays for the move. */
void allocator_fluid_displace(struct fluid_pool *);

/* GPUs that the grants of the trials occupy, as the host counts them: sharers are packed as tightly
 * as possible.
 */
uint64_t allocator_fluid_granted(const struct fluid_pool *);

/* Puts every trial that holds one GPU or a part of it, and may share, on a shelf: trials of the
 * same GPU together, unplaced ones on the emptiest shelf, the longest first. Then counts idle GPUs
 * and fills every trial's `end`. */
void allocator_fluid_pool_sit(struct fluid_pool *);
/* The shelf of this degree with the fewest trials that has room, the last one of equals: shelves
 * are opened in order of length, so that they fill forward and backward, as placer pack does it.
 * FLUID_NONE: none. */
uint32_t allocator_fluid_emptiest(const struct fluid_pool *, uint32_t packing);
/* An empty shelf for up to `cap` trials; the pool has room for one shelf per trial. */
uint32_t allocator_fluid_new_shelf(struct fluid_pool *, uint32_t cap);
void allocator_fluid_shelf_add(struct fluid_pool *, uint32_t shelf, uint32_t trial);
void allocator_fluid_shelf_take(struct fluid_pool *, uint32_t trial);
/* Fills `end` of one trial on no shelf, or of all trials on the shelf. */
void allocator_fluid_end(struct fluid_pool *, uint32_t trial);
void allocator_fluid_shelf_ends(struct fluid_pool *, uint32_t shelf);
/* Sorts indices of trials: wider first, longer first, then by id. */
void allocator_fluid_sort(const struct fluid_pool *, uint32_t *order, uint32_t count, int by_width);

/* ---- the rules (fluid_paper.c, fluid_balance.c) ------------------------------------------- */

/* StaticFluid (algorithm 1): the shares of the trials order[0..count) out of n GPUs. */
void allocator_fluid_static(struct fluid_pool *, const uint32_t *order, uint32_t count, uint32_t n);
/* DynamicFluid (algorithm 2): each trial of the pool holds a share, and none waits. `total` GPUs
 * count, of which `idle` are available. */
void allocator_fluid_dynamic(struct fluid_pool *);
/* GPUs were lost: shrinks trials until their grants fit `total`, at any cost. */
void allocator_fluid_shrink(struct fluid_pool *);

/* Gives GPUs to the trial that ends last, as long as that makes it end sooner. open: only idle
 * GPUs, also to other trials when the last one cannot use more; otherwise also GPUs that other
 * trials can spare. */
void allocator_fluid_balance(struct fluid_pool *, int open);

/* ---- an instance ----------------------------------------------------------------------------- */

/* An instance of allocator fluid, and the interfaces between its files.
 *
 * Runners are the items that hold GPUs. The queue contains the waiting items, in the order in which
 * they will be served. Both persist from call to call. The pool is rebuilt in each call: its trials
 * are the runners in their order, then the items that got a share in this call.
 */

/* a roster entry's `want`: a part of a GPU; else that many whole ones */
#define FLUID_SMALL ESPL_ANY

struct place {
	uint64_t id;
	espl_time arrived;
}; /* an item, to be found in the roster */
/* an item that holds GPUs */
struct runner {
	struct place place;
	espl_time since, ends; /* time of the last prediction, and the predicted end */
};

#define FLUID_MAGIC 0x58c19cecu

struct fluid {
	uint32_t magic; /* FLUID_MAGIC */
	const struct espl_host *host;
	const struct espl_model *model;
	const char *offer_name;
	uint32_t gpus_max; /* 0 no limit of ours */
	uint32_t offer;    /* ESPL_ANY: not chosen yet */
	uint32_t paper, resize, probing;
	uint32_t curve_count, curve_room;
	uint32_t runner_count, runner_room;
	uint32_t head, tail, queue_room; /* the queue is queue[head .. tail) */
	uint32_t admitted;               /* how many items at the end of the queue arrived in
					  * this call */
	uint32_t broken;                 /* 1: a call failed half way: plan all trials again */
	uint64_t limit;                  /* GPUs that may ever be held */
	/* assumed work of trials whose work is unknown; NaN: there is none yet */
	double typical_s;
	struct fluid_rules rules;
	struct fluid_curve **curves; /* [curve_room], the first curve_count of this call */
	struct runner *runners;
	struct place *queue;
	struct fluid_pool pool;
	struct fluid_probe probe;
	struct espl_roster roster;
};

/* ---- books (fluid_items.c) --------------------------------------------------------------- */

/* Index of an item in the view, or ESPL_ANY if it left. */
uint32_t allocator_fluid_index(const struct fluid *, struct place);
espl_status allocator_fluid_enqueue(struct fluid *, struct place);
espl_status allocator_fluid_add_runner(struct fluid *, struct place);
/* Drops runners that left, and adds those that the host has started. Runners whose grant did not
 * take effect wait again, at the front of the queue. */
espl_status allocator_fluid_keep_runners(struct fluid *, const struct espl_alloc_view *);
/* Appends the item of that index to the pool, with its current grant. */
espl_status allocator_fluid_add_trial(struct fluid *, const struct espl_alloc_view *,
    uint32_t index);
/* From now on unknown work is assumed to be the median of the known work. */
void allocator_fluid_guess_work(struct fluid *);

/* ---- those that wait (fluid_serve.c) ------------------------------------------------------ */

/* Plans the items that arrived in this round as one group: shares by algorithm 1 of the free GPUs,
 * then appends them to the queue. */
espl_status allocator_fluid_admit(struct fluid *, const struct espl_alloc_view *);
/* Serves the queue from its head as far as there is room. */
espl_status allocator_fluid_serve(struct fluid *, const struct espl_alloc_view *);
/* Reports the intended shares of the items that arrived in this round and wait. */
espl_status allocator_fluid_tell_queue(struct fluid *, const struct espl_alloc_view *,
    struct espl_alloc_sink *);

#endif
