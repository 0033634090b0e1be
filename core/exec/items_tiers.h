/* items_tiers.h - tiers: when an allocator is called, what it sees and what it may grant. */
#ifndef ESPL__EXEC_ITEMS_TIERS_H
#define ESPL__EXEC_ITEMS_TIERS_H
#include "base/assert.h"
#include "exec/state.h"

void espl__tiers_ask(struct espl__exec *, uint32_t why); /* all of them, in this round */
void espl__tiers_alarm(struct espl__exec *);             /* allocators whose wake_at has passed */
/* The round is over. The tier whose allocator was called soon once too often, in vain; or NULL. */
const struct espl__tier *espl__tiers_hasty(struct espl__exec *, int in_vain);
espl_time espl__tiers_next(const struct espl__exec *); /* when the first wants to be; NEVER */
void espl__tiers_forgive(struct espl__exec *);         /* the failures of allocators and placer */
/* Its allocator is there: how much the user lets it grant. */
void espl__tier_limit(struct espl__tier *);
void espl__tier_free(struct espl__tier *); /* lists and allocator */

/* Calls its allocator with this view, in which what the tier has is filled in, and takes its answer
 * as espl__exec_answer does; one with grants that do not fit is none. */
espl_status espl__tier_call(struct espl__exec *, struct espl__tier *, struct espl_alloc_view *,
    struct espl__diag *why, struct espl__reader *answer, struct espl__diag *);
/* Takes the answer of a call of its allocator, which has seen the outcomes. */
espl_status espl__tier_answer(struct espl__exec *, struct espl__tier *, espl_status,
    struct espl__diag *why, struct espl__reader *answer, struct espl__diag *);
void espl__tier_count(struct espl__tier *, struct espl_share, int sign); /* a grant comes, goes */
uint64_t espl__tier_gpus(const struct espl__tier *);                     /* of grants in force */

void espl__tier_outcome(struct espl__tier *, const struct espl_outcome *); /* its allocator asked */
void espl__outcomes_add(struct espl__outcomes *, const struct espl_outcome *);
void espl__outcomes_clear(struct espl__outcomes *);
void espl__outcomes_free(struct espl__outcomes *);

static inline void
espl__tier_ask(struct espl__tier *tier, uint32_t why)
{
	tier->why |= why;
}

/* Its allocator asks to be called. */
static inline void
espl__tier_asks(struct espl__tier *tier, espl_time at, espl_time now)
{
	espl__haste_asks(&tier->haste, at, now);
	if (at < tier->wake_at)
		tier->wake_at = at;
}

static inline void
espl__tier_wake(struct espl__tier *tier, espl_time at)
{
	tier->wake_at = at;
}

/* ---- shares of experiments of a pool --------------------------------------------------------- */

void espl__inner_count(struct espl__item *,
    int there); /* an item of a trial was added, changed or (0) removed */
void espl__inner_granted(struct espl__item *); /* its share has changed */

static inline uint32_t
espl__inner_share(const struct espl__inner *inner) /* GPUs */
{
	ESPL__CHECK(inner, INNER);
	return inner->item != NULL ? inner->item->pub.granted.gpus : 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* of an allocator: items that exist, that changed since its last call, that are gone */
struct espl__item *espl__item_at(const struct espl__tier *, uint64_t id);
void espl__tier_add(struct espl__tier *, struct espl__item *);
void espl__tier_remove(struct espl__tier *, const struct espl__item *);
void espl__item_changed(struct espl__item *, uint32_t why);
void espl__item_gone(struct espl__tier *, uint64_t id,
    const struct espl__trial *); /* the allocator sees it in its next view */

/* of the placer: items with a grant, and of them those that it must look at */
struct espl__item *espl__item_granted(const struct espl__exec *,
    uint64_t id); /* NULL: it has no grant */
const struct espl_gang *espl__item_gang(void *exec, uint64_t id);
void espl__items_granted(struct espl__exec *, struct espl__item *);
void espl__items_ungranted(struct espl__exec *, struct espl__item *);
void espl__item_look(struct espl__exec *, struct espl__item *);

static inline void
espl__items_ask_placer(struct espl__exec *x, uint32_t why)
{
	x->items.place_why |= why;
}

/* 1: slots came free in this round, so that the placer may look again. */
static inline void
espl__items_freed(struct espl__exec *x, int freed)
{
	x->items.slots_freed = (uint8_t)freed;
}

/* of items whose gang must start or move; settle: keeps those that still wait */
void espl__item_pending(struct espl__exec *, struct espl__item *);
void espl__items_settle(struct espl__exec *,
    int (*waits)(struct espl__exec *, struct espl__item *));

void espl__list_remove(void *list, uint32_t *count, const void *what);

static inline struct espl__item *
espl__item_of_gang(const struct espl_gang *view)
{
	return (struct espl__item *)((char *)(uintptr_t)view - offsetof(struct espl__item, view));
}
#endif
