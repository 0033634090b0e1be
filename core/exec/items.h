/* items.h - the items that represent trials to allocators and the placer. */
#ifndef ESPL__EXEC_ITEMS_H
#define ESPL__EXEC_ITEMS_H
#include <espalier/allocator.h>

#include "base/mem.h"
#include "exec/executor.h"
#include "kit/judge.h"
#include "model/haste.h"
#include "model/jobs.h"
#include "model/trials.h"

/* for the next view of one instance */
struct espl__outcomes {
	const struct espl_outcome **list;
	uint32_t count, cap;
	struct espl__arena arena;
};

/* How long a trial may wait beside idle slots that it could use, before it is started on them
 * whatever allocator and placer say; a plan's trials from five seconds after its nodes should be
 * there. */
#define ESPL__IDLE_PAUSE (10 * ESPL_SECOND)

/* What one allocator decides about: the cluster, or, of a pool's experiment with an allocator of
 * its own, that experiment's share. */
struct espl__tier {
	struct espl__inner *inner; /* the share that it divides; NULL: the cluster */
	struct espl__instance *allocator;
	struct espl__outcomes outcomes;
	uint32_t why;      /* what its next call is for */
	espl_time wake_at; /* when it wants to be called; NEVER */
	struct espl__haste haste;
	uint8_t failures;               /* in a row */
	const struct espl_item **items; /* live ones by id, from items_from on */
	uint64_t items_from, items_count, items_cap;
	const struct espl_item **changed;
	uint32_t changed_count, changed_cap;
	uint64_t *gone, *gone_of; /* items, and the trials (espl__trial_uid) they stood for */
	uint32_t gone_count, gone_cap;
	struct espl_sum granted; /* grants in force */
	const char *offer_name; /* its option `offer`: what the user wants it to lease; NULL: any */
	/* idle slots went to a trial that its allocator had granted nothing, and it has granted
	 * none since: the next ones do so at once */
	uint8_t helped;
	uint8_t one_offer;  /* it has that option: it leases one offer */
	uint64_t gpus_most; /* its allocator's option `gpus`, the most that it grants; 0: none */
};

struct espl__item {
	struct espl_item pub;      /* first: the allocator sees it */
	struct espl_gang view;     /* the placer sees it */
	struct espl__tier *tier;   /* the one whose allocator decides about it */
	struct espl__trial *trial; /* NULL: it stands for a whole experiment: */
	struct espl__inner *whole; /* this one */
	struct espl_slot *target;  /* the placement in force (= view.slots) */
	uint32_t target_count, target_cap;
	uint64_t *nodes; /* of the target, distinct (= pub.nodes) */
	uint32_t node_cap;
	uint32_t stamp;        /* of the answer that mentioned it last */
	uint32_t mention;      /* of the placer's answer that counts: its last one */
	uint8_t alloc_changed; /* is in tier->changed */
	uint8_t place_changed; /* is in exec->place_changed */
	uint8_t pending;       /* is in exec->pending */
	uint8_t in_gangs;      /* is in exec->gangs_view */
	/* it waits beside idle slots that it could use, and did so at that look (items_idle.c) */
	espl_time stands_since;
	uint64_t stood_look;
	uint8_t helped;  /* times that it was started there without its allocator's word */
	uint8_t counted; /* in the sums of its experiment (items.c), as: */
	uint32_t counted_least, counted_most;
	double counted_work;
	/* items.c */
	uint8_t avoids; /* is in exec->avoiding: placed on view.avoid only if nothing else helps, */
	uint8_t apart;  /* is in exec->apart: it has a node of its own */
	uint8_t avoid_over; /* another trial has got further on that node than this one did */
	espl_time avoid_since, avoid_until;
};

/* An experiment of a pool whose share its own allocator divides. */
#define ESPL__INNER_POINTS 40u /* of the curve: doublings, and the two ends of each law */

#define ESPL__INNER_MAGIC 0x6c6b6b60u
struct espl__inner {
	struct espl__tier tier; /* of its trials */
	uint32_t magic;         /* ESPL__INNER_MAGIC */
	struct espl__search *search;
	struct espl__item *item;           /* in the pool's tier; NULL: nothing to train */
	struct espl_experiment experiment; /* as its allocator sees it: limited to the share */
	const struct espl_experiment *shown;
	uint32_t *targets; /* as its allocator asked; the machines are the pool's */
	uint32_t targets_cap;
	struct espl_offer *offers; /* the pool's, without nodes_max: the share alone limits */
	const struct espl_offer **offer_list;
	uint32_t offers_cap, offer_list_cap;
	uint64_t most;        /* sum of what the trials can use */
	uint32_t least;       /* of their least grants */
	uint32_t least_count; /* trials that have it; 0: it has to be looked up */
	double work_s;        /* sum of their work */
	uint64_t unknown;     /* trials of which it is not known */
	espl_time started;    /* when it was granted anything first; NEVER */
	uint32_t curve_trials, curve_most, curve_unit; /* that the curve was made for */
	struct espl_point curve[ESPL__INNER_POINTS];
};

/* Trials that wait while slots that they could use are paid for and idle (items_idle.c). */
struct espl__standing {
	espl_time act_at;  /* when the first of them is started there; NEVER */
	espl_time seen_at; /* of the last look */
	uint32_t count;    /* of them, then */
	double total_s;    /* time with any of them */
	double longest_s;  /* the longest that one of them stood */
	double late_s;     /* time that they stood after ESPL__IDLE_PAUSE */
	uint64_t started;  /* trials that were started on such slots */
	uint64_t looks;    /* ever */
};

struct espl__items {
	struct espl__tier top; /* of the whole cluster */
	struct espl__instance *placer;
	uint8_t placer_failures; /* in a row */
	struct espl__pool pool;
	double *granted; /* GPUs, by number of the search; parts counted as such */
	uint32_t granted_cap;
	struct espl__item **spare;
	uint32_t spare_count, spare_cap;
	uint64_t next, count;                /* the next id; trials' items there are */
	const struct espl_gang **gangs_view; /* all with a grant, by item */
	uint32_t gangs_count, gangs_cap;
	struct espl__item **place_list; /* those that the placer must check */
	uint32_t place_count, place_cap;
	const struct espl_gang **place_view;
	uint32_t place_view_cap;
	uint32_t place_why;          /* what its next call is for */
	uint8_t slots_freed;         /* in this round: the placer may look again */
	uint32_t unplaced;           /* items with a grant and no target */
	struct espl__item **pending; /* to be started, or to be moved by their gang */
	uint32_t pending_count, pending_cap;
	uint32_t stamp; /* rises with every answer of allocator and placer */
	struct espl__standing standing;
	struct espl__item **avoiding, **apart; /* items.c */
	uint32_t avoiding_count, avoiding_cap, apart_count, apart_cap;
};

void espl__items_init(struct espl__exec *);
espl_status espl__items_open(struct espl__exec *, struct espl__diag *); /* allocator and placer */
void espl__items_free(struct espl__exec *);

void espl__item_grant(struct espl__exec *, struct espl__item *, struct espl_share, uint32_t offer);
/* Are they of several machines? */
int espl__item_slots_span(const struct espl_slot *, uint32_t count);
/* Its ranks run on several machines, and have met. */
int espl__item_runs_on_several(const struct espl__item *);
/* A grant of its allocator, with its flags. */
void espl__item_take(struct espl__exec *, struct espl__item *, const struct espl_grant *);
/* Sets the placement in force: releases the old reservations and makes the new ones (which the
 * caller has found to fit). */
void espl__item_target(struct espl__exec *, struct espl__item *, const struct espl_slot *,
    uint32_t count);
/* It continues in processes that wait, on their GPUs. */
void espl__item_keep(struct espl__exec *, struct espl__item *, const struct espl__gang *,
    uint64_t owner);
/* Lowers the grant, and the most that it may be, to what can be placed. */
void espl__item_narrow(struct espl__exec *, struct espl__item *, uint32_t gpus);
void espl__item_runs(const struct espl__exec *, struct espl__item *); /* its processes do */
void espl__item_settled(struct espl__exec *, struct espl__item *);    /* on its granted GPUs */
/* Its processes have ended: it waits for others; `why` its allocator is called. */
void espl__item_wait(struct espl__exec *, struct espl__item *, uint32_t why);
/* gone: the allocator is informed now (see espl__item_gone) */
void espl__item_free(struct espl__exec *, struct espl__item *, int gone);

/* Sets ESPL_ITEM_* and ESPL_GANG_* flags. */
static inline void
espl__item_flag(struct espl__item *item, uint32_t item_flags, uint32_t gang_flags)
{
	item->pub.flags |= item_flags;
	item->view.flags |= gang_flags;
}

/* ---- what an item is made of ----------------------------------------------------------------- */

struct espl__item *espl__item_new(struct espl__exec *, struct espl__trial *, double weight,
    uint32_t gpus_min, uint32_t gpus_max);
/* That of a whole experiment: to be filled, then added. */
struct espl__item *espl__item_whole(struct espl__search *, struct espl__inner *);
void espl__item_add(struct espl__item *);
/* Iterations and work left, counted from the trial's present state. */
void espl__item_progress(struct espl__exec *, struct espl__item *, uint64_t iteration);
/* Draws the estimate of a job's work again. */
void espl__item_redraw(struct espl__item *, uint64_t iteration);
/* Of the algorithm; 0: none. */
void espl__item_hint(struct espl__item *, double weight, uint32_t gpus_min, uint32_t gpus_max);
void espl__item_memory(struct espl__item *, uint64_t bytes); /* seen in use per GPU */
void espl__item_resized(struct espl__item *, double took_s); /* in place, on average */

/* ---- items apart ----------------------------------------------------------------------------- */

/* It is placed on another node than this one (NONE: on any), if another one is of use to it: until
 * a trial gets further on that node than it did, and at most for ten minutes. */
void espl__item_avoid(struct espl__item *, uint64_t node, espl_time failed_at);
/* Not even if that node is idle. */
int espl__item_shuns(const struct espl__exec *, const struct espl__item *, uint64_t node);
/* The gang has reported once more. */
void espl__items_got_further(const struct espl__exec *, const struct espl__gang *);
/* It is placed on a node where nothing else runs, and nothing is placed beside it. */
void espl__item_apart(struct espl__item *);
/* May its trial run on nodes of this offer? It was granted no other, or that one has none. */
int espl__item_may_use(const struct espl__exec *, const struct espl__item *, uint32_t offer);
/* Before the placer is asked: who may use which nodes now. */
void espl__items_part(struct espl__exec *);
espl_time espl__items_part_at(const struct espl__exec *); /* when that changes by itself; NEVER */
#endif
