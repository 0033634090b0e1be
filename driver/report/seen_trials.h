/* seen_trials.h - what changed about a trial since its observer saw it last. */
#ifndef ESPL__SEEN_TRIALS_H
#define ESPL__SEEN_TRIALS_H
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include "base/ids.h"
#include "base/mem.h"

enum espl__trial_change {
	ESPL__CHANGE_NONE, /* nothing that is worth a line */
	ESPL__CHANGE_CREATED,
	ESPL__CHANGE_PROMOTED,
	ESPL__CHANGE_BUDGET,
	ESPL__CHANGE_STARTED,
	ESPL__CHANGE_RETRIED,
	ESPL__CHANGE_DISPLACED,
	ESPL__CHANGE_QUEUED,
	ESPL__CHANGE_STATE /* it paused, ended or failed, as its state says */
};

struct espl__seen_trial {
	uint64_t group, iteration, budget;
	double loss; /* last reported; NaN none */
	espl_trial_state state;
	uint8_t failed;    /* its gang ended, and no later state was reported */
	uint8_t concluded; /* it ended or paused before */
	uint16_t gpus;     /* it had last; 0 none yet (a part of one is 1) */
};
struct espl__seen_list {
	struct espl__seen_trial *list;
	uint64_t count, cap;
};
/* by number of the search */
struct espl__seen_trials {
	struct espl__seen_list *searches;
	uint64_t count, cap;
};

/* Is this its first end or pause, or its failure? */
static inline int
espl__seen_trial_concludes(struct espl__seen_trial *past, const struct espl_trial *t)
{
	if (t->state == past->state || t->state < ESPL_TRIAL_PAUSED ||
	    (past->concluded && t->state != ESPL_TRIAL_FAILED))
		return 0;
	past->concluded = 1;
	return 1;
}

/* The trial as it was (state 0: not seen yet); valid until the next call. */
static inline struct espl__seen_trial *
espl__seen_trial_of(struct espl__seen_trials *all, uint64_t trial)
{
	uint64_t search = trial >> ESPL__TRIAL_BITS, number = trial & ESPL__TRIAL_NUMBER;
	struct espl__seen_list *p;

	if (search >= all->count) {
		ESPL__GROW(all->searches, all->cap, search + 1);
		memset(all->searches + all->count, 0,
		    (search + 1 - all->count) * sizeof *all->searches);
		all->count = search + 1;
	}
	p = &all->searches[search];
	if (number >= p->count) {
		ESPL__GROW(p->list, p->cap, number + 1);
		memset(p->list + p->count, 0, (number + 1 - p->count) * sizeof *p->list);
		p->count = number + 1;
	}
	return &p->list[number];
}

/* 0: not seen yet. */
static inline espl_trial_state
espl__seen_trial_state(const struct espl__seen_trials *all, uint64_t trial)
{
	uint64_t search = trial >> ESPL__TRIAL_BITS, number = trial & ESPL__TRIAL_NUMBER;

	return search < all->count && number < all->searches[search].count
	    ? all->searches[search].list[number].state
	    : (espl_trial_state)0;
}

static inline void
espl__seen_trials_free(struct espl__seen_trials *all)
{
	for (uint64_t i = 0; i < all->count; i++)
		free(all->searches[i].list);
	free(all->searches);
}

static inline enum espl__trial_change
espl__seen_trial_change(const struct espl__seen_trial *past, const struct espl_trial *t)
{
	if (past->state == 0)
		return ESPL__CHANGE_CREATED;
	if (t->group != past->group)
		return ESPL__CHANGE_PROMOTED;
	if (t->state == past->state)
		return t->budget != past->budget ? ESPL__CHANGE_BUDGET : ESPL__CHANGE_NONE;
	switch (t->state) {
	case ESPL_TRIAL_RUNNING: return ESPL__CHANGE_STARTED;
	case ESPL_TRIAL_PAUSED:
	case ESPL_TRIAL_ENDED:
	case ESPL_TRIAL_FAILED: return ESPL__CHANGE_STATE;
	default:
		return past->failed                     ? ESPL__CHANGE_RETRIED
		    : past->state == ESPL_TRIAL_RUNNING ? ESPL__CHANGE_DISPLACED
							: ESPL__CHANGE_QUEUED;
	}
}

static inline void
espl__seen_trial_set(struct espl__seen_trial *past, const struct espl_trial *t)
{
	past->state = t->state;
	past->group = t->group;
	past->iteration = t->iteration;
	past->budget = t->budget;
	past->loss = t->loss;
	past->failed = 0;
}
#endif
