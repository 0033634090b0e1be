/* past.h - what changed about a trial since its observer saw it last, in one word. */
#ifndef ESPL__PAST_H
#define ESPL__PAST_H
#include <string.h>
#include <espalier/algorithm.h>
#include "base/mem.h"

struct espl__past {
	uint64_t group, iteration, budget;
	double   loss;			/* last reported; NaN none                              */
	espl_trial_state state;
	uint8_t  failed;		/* its gang did, and it was not told about since        */
};
struct espl__pasts { struct espl__past *list; uint64_t count, cap; };

/* The trial as it was (state 0: not seen yet); valid until the next call. */
static inline struct espl__past *
espl__past_of(struct espl__pasts *p, uint64_t trial)
{
	if (trial >= p->count) {
		ESPL__GROW(p->list, p->cap, trial + 1);
		memset(p->list + p->count, 0, (trial + 1 - p->count) * sizeof *p->list);
		p->count = trial + 1;
	}
	return &p->list[trial];
}

/* NULL: nothing that is worth telling. */
static inline const char *
espl__past_what(const struct espl__past *past, const struct espl_trial *t)
{
	if (past->state == 0)
		return "created";
	if (t->group != past->group)
		return "promoted";
	if (t->state == past->state)
		return t->budget != past->budget ? "budget" : NULL;
	switch (t->state) {
	case ESPL_TRIAL_RUNNING: return "started";
	case ESPL_TRIAL_RESTING: return t->iteration >= t->budget ? "rests" : "paused";
	case ESPL_TRIAL_ENDED:   return "ended";
	case ESPL_TRIAL_FAILED:  return "failed";
	default:
		return past->failed ? "retried" : past->state == ESPL_TRIAL_RUNNING ? "displaced" : "queued";
	}
}

static inline void
espl__past_set(struct espl__past *past, const struct espl_trial *t)
{
	past->state = t->state;
	past->group = t->group;
	past->iteration = t->iteration;
	past->budget = t->budget;
	past->loss = t->loss;
	past->failed = 0;
}

static inline const char *
espl__trial_state_name(espl_trial_state state)
{
	static const char *const names[] = { "?", "waiting", "running", "resting", "ended", "failed" };

	return names[state <= ESPL_TRIAL_FAILED ? state : 0];
}
#endif
