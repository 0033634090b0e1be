/* items_tiers.h - tiers: when an allocator is called, what it sees and what it may grant. */
#ifndef ESPL__EXEC_ITEMS_TIERS_H
#define ESPL__EXEC_ITEMS_TIERS_H
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
#endif
