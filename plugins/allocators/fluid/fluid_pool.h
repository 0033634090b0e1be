/* fluid_pool.h - trials and GPUs as the rules of allocator fluid see them.
 *
 * The plugin fills a pool from the host's view, the rules change what trials hold in it, and the
 * plugin grants the differences.  A GPU that is shared, or could be, is a *shelf*; a trial on two
 * or more GPUs, or one that cannot share, is on no shelf.  What a trial needs to its end follows
 * from that: trials on one shelf slow each other down, and speed up when one of them leaves.
 */
#ifndef FLUID_POOL_H
#define FLUID_POOL_H
#include <espalier/allocator.h>
#include "fluid_curve.h"

#define FLUID_NONE UINT32_MAX

struct fluid_trial {
	const struct fluid_curve *curve;
	const struct espl_item *item;
	uint64_t id;
	uint32_t index;                 /* of the item in the view */
	uint32_t per_node;              /* GPUs a node: which widths are legal */
	double work;                    /* seconds left on `unit` GPUs */
	double eps;                     /* seconds a change of what it holds costs it */
	double late;                    /* seconds until it trains, before any change of ours */
	double end;                     /* seconds until its last iteration ends */
	uint32_t least, most;           /* whole GPUs: smallest legal, largest useful */
	uint32_t c;                     /* it may share a GPU with c - 1 others; 1: never */
	uint32_t gpus, packing;         /* what it holds, or is to hold */
	uint32_t had_gpus, had_packing; /* before this decision */
	uint32_t fixed;                 /* 1: must stay as it is (it changes already, or cannot) */
	uint32_t moved;                 /* 1: pays eps in this decision */
	uint32_t shelf, next;           /* where it sits, and who sits there behind it; or NONE */
	uint64_t node;                  /* with gpu: the GPU it shares now; NONE: unknown */
	uint32_t gpu;
	uint32_t yields;    /* 1: it is to share another GPU than it does */
	uint32_t home;      /* the node it is on, or its first; NONE: unknown */
	uint32_t displaced; /* 1: it moves as it is, to make room for a wider one */
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
	uint32_t head, count; /* who sits there */
	uint32_t cap, zero;   /* as many may */
	double work, end;     /* the head's: all shelves are looked at, over and over */
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
	uint32_t count, shelf_count, room, shelf_room;
	uint32_t idle;                  /* whole GPUs nobody holds */
	uint32_t total;                 /* GPUs in all */
	uint32_t owed;                  /* held beyond that: trials that are to move together have
					 * not done so yet */
	double ceiling;                 /* fluid_balance.c's */
	struct fluid_node *nodes;       /* by id */
	struct fluid_gang *gangs;       /* those to be seated, [room] */
	uint32_t node_count, node_room; /* node_count 0: whatever is idle will do */
	uint32_t per_node;              /* GPUs a node */
	uint32_t mover;                 /* who would have to move, by the last look; NONE */
	uint32_t displaced;             /* 1: one moves in this decision */
	uint32_t zero;
};

void allocator_fluid_pool_free(struct fluid_pool *);
/* Room for `count` trials and as many shelves; what was there stays.  ESPL_E_NOMEM. */
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
/* Is there a place for all trials as they are to be? */
int allocator_fluid_places(struct fluid_pool *);
/* Would there be with that many whole GPUs for one trial, and end any that has to move before
 * `limit`? */
int allocator_fluid_places_with(struct fluid_pool *, uint32_t trial, uint32_t gpus, double limit);
/* What the last look found is done: the one that has to move pays for it. */
void allocator_fluid_displace(struct fluid_pool *);

/* GPUs that the trials' grants take, as the host counts them: sharers packed as close as they go.
 */
uint64_t allocator_fluid_granted(const struct fluid_pool *);

/* Puts every trial that holds one GPU or a part of it, and may share, on a shelf: those on the same
 * GPU together, those that are placed nowhere yet on the emptiest, the longest first.  Then counts
 * idle GPUs and fills every trial's `end`. */
void allocator_fluid_pool_sit(struct fluid_pool *);
/* The shelf of this degree with the fewest on it that has room, the last such one: shelves are
 * opened in order of length, so that they fill out and back, as placer pack does it.  FLUID_NONE:
 * none. */
uint32_t allocator_fluid_emptiest(const struct fluid_pool *, uint32_t packing);
/* An empty shelf for so many; the pool has room for one for each trial it has room for. */
uint32_t allocator_fluid_new_shelf(struct fluid_pool *, uint32_t cap);
void allocator_fluid_shelf_add(struct fluid_pool *, uint32_t shelf, uint32_t trial);
void allocator_fluid_shelf_take(struct fluid_pool *, uint32_t trial);
/* Fills `end` of one trial on no shelf, or of all trials on the shelf. */
void allocator_fluid_end(struct fluid_pool *, uint32_t trial);
void allocator_fluid_shelf_ends(struct fluid_pool *, uint32_t shelf);
/* Sorts indices of trials: wider first, longer first, then by id. */
void allocator_fluid_sort(const struct fluid_pool *, uint32_t *order, uint32_t count, int by_width);

/* ---- the rules (fluid_paper.c, fluid_balance.c) ------------------------------------------- */

/* StaticFluid (algorithm 1): what each of the trials order[0..count) is to hold of n GPUs. */
void allocator_fluid_static(struct fluid_pool *, const uint32_t *order, uint32_t count, uint32_t n);
/* DynamicFluid (algorithm 2): the pool's trials hold something each, and nobody waits.  `total`
 * GPUs count, of which `idle` can be had. */
void allocator_fluid_dynamic(struct fluid_pool *);
/* GPUs are gone: trials shrink until their grants fit `total`, whatever it costs them. */
void allocator_fluid_shrink(struct fluid_pool *);

/* GPUs go to whoever ends last, as long as that ends the sooner.  open: idle ones only, and to
 * others, too, when the last can use no more; else also what others can do without. */
void allocator_fluid_balance(struct fluid_pool *, int open);
#endif
