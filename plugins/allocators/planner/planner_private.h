/* planner_private.h - what the files of the planner share. */
#ifndef PLANNER_PRIVATE_H
#define PLANNER_PRIVATE_H
#include "planner.h"

/* ---- chains ---------------------------------------------------------------------------------- */

/* The rows of stages that are planned together on one offer: one, or as many as
 * there are brackets side by side, which share the GPUs. */

struct planner_chains {
	const struct planner_task *task;
	planner_solve solve;
	void *ctx;
	struct planner_problem *problems;
	struct planner_answer *answers;
	uint32_t count;
	uint32_t limit;  /* GPUs of all together */
	uint32_t shared; /* 1: a held node is nobody's own */
	/* What was found last. */
	struct planner_value value;
	double bound_usd, least_s;
	uint64_t looked;
};

/* As planner_problem_load. */
espl_status planner_chains_load(struct planner_chains *, const struct planner_task *,
    uint32_t offer, planner_solve, void *ctx);
void planner_chains_free(struct planner_chains *);
/* The cheapest within the deadline. */
espl_status planner_chains_solve(struct planner_chains *, double deadline_s);
/* The soonest within the budget, the cheapest of these.  *proven: 1 if every bound on the way was
 * met. */
espl_status planner_chains_soonest(struct planner_chains *, double budget_usd, int *proven);

/* Is it proven that nothing costs less?  A thousandth of what the ledger counts in does not matter.
 */
static inline int
planner_is_proven(double cost_usd, double bound_usd)
{
	return cost_usd <= bound_usd + 2e-9 * fabs(cost_usd) + 1e-9;
}

/* ---- net ------------------------------------------------------------------------------------- */

/* The choices of every stage that are worth a look, and what leads from one to the
 * next.
 *
 * Of all allocations with the same nodes only the fastest can be in a best plan (billed by
 * GPU-seconds: those where none is both faster and cheaper), and those that let trials go on in
 * their gangs.  A plan is a path: one choice of each stage.  Going from one to the next costs
 * nothing where nodes are given back; where new ones come, a wait and money that is a sum of one
 * part of the earlier and one of the later choice.  So the best successors are minima over the
 * front and the back of the sorted list, not over pairs.
 */

struct planner_choice {
	uint32_t gpus, nodes;
	/* GPUs of each, if trials may come or go on in them; else 0 */
	uint32_t gangs;
	/* the same, begun afresh: itself unless trials go on into it */
	uint32_t base;
	/* the next stage's choice that goes on in its gangs, or NONE */
	uint32_t onward;
	uint32_t above;              /* of the next stage: the first choice with more nodes */
	uint32_t from;               /* of the stage before: the first with as many nodes */
	double time_s, cost_usd;     /* from the begin of its training to its barrier's end */
	double wait_s, wait_usd;     /* added if the next choice has more nodes: its part */
	double come_usd;             /* added if the choice before has fewer: its part */
	double onward_s, onward_usd; /* saved if `onward` follows */
};
struct planner_row {
	struct planner_choice *choices;
	uint32_t count, room;
}; /* by nodes */

struct planner_net {
	struct planner_problem *problem;
	struct planner_row *rows;    /* [stage_count] */
	uint32_t row_count, widest;  /* widest: choices of a row */
	uint32_t fair;               /* only factors and multiples of the stage's trials */
	uint32_t linear;             /* the best path costs the sum of its parts, no more */
	struct planner_choice start; /* of what is held before the first stage */
};

/* ESPL_E_NOMEM; ESPL_E_INFEASIBLE: a stage has no choice. */
espl_status planner_net_make(struct planner_net *, struct planner_problem *, int fair);
void planner_net_free(struct planner_net *);
/* A choice that does as well as these GPUs; if there is none, one with about as many nodes. */
uint32_t planner_net_find(const struct planner_net *, uint32_t stage, uint32_t gpus);

static inline int
planner_is_fair(uint32_t gpus, uint32_t trials)
{
	return gpus >= trials ? gpus % trials == 0 : trials % gpus == 0;
}

/* ---- bound ----------------------------------------------------------------------------------- */

/* The least that the beginning of a plan can cost, for several prices of time.
 *
 * With a price on each second the best way to a choice needs no list of labels but one number, so
 * all choices are done in a few passes.  For every price the sum of a plan's beginning and end is
 * at least that number plus the end's: this tells which ends no plan within the limits can have
 * (Lagrangian bounds).  The prices are found by narrowing in on the one at which the cheapest way
 * just keeps the deadline.
 */

#define PLANNER_PRICES 20 /* of time, at most */

struct planner_price {
	double usd, per_s; /* weights of a dollar and of a second */
	double *reach;     /* [sum of the rows' counts] least to a choice's begin */
	double limit;      /* of a plan's weighted sum, set by planner_bound_limits */
};
struct planner_bound {
	const struct planner_net *net;
	size_t *first; /* [row]: of its choices in `reach` */
	struct planner_price prices[PLANNER_PRICES];
	uint32_t price_count, zero;
	double least_usd; /* proven of plans that end in time */
	uint32_t *path;   /* scratch */
};
/* Told of each plan that was met on the way. */
typedef void (*planner_met)(void *ctx, const uint32_t *path);

/* The fastest plan is met first.  ESPL_E_NOMEM; ESPL_E_INFEASIBLE: not even that ends in time_s. */
espl_status planner_bound_make(struct planner_bound *, const struct planner_net *, double time_s,
    planner_met, void *ctx);
void planner_bound_free(struct planner_bound *);
/* From now on only plans with no more than this count. */
void planner_bound_limits(struct planner_bound *, double time_s, double cost_usd);

/* Can a plan within the limits go from `choice` of `row` to its end like this? */
static inline int
planner_bound_keeps(const struct planner_bound *b, uint32_t row, uint32_t choice, double time_s,
    double cost_usd)
{
	size_t at = b->first[row] + choice;
	uint32_t i;

	for (i = 0; i < b->price_count; i++) {
		const struct planner_price *p = &b->prices[i];

		if (p->reach[at] + p->usd * cost_usd + p->per_s * time_s > p->limit)
			return 0;
	}
	return 1;
}

/* ---- improve --------------------------------------------------------------------------------- */

/* Making a plan better by small changes: a stage to another choice, and one
 * stage up while another goes down. */

/* the best plan so far */
struct planner_found {
	struct planner_value value;
	struct planner_value tried; /* the last path's, whatever became of it */
	uint32_t *path;             /* [row_count]: choices begun afresh */
	uint32_t *gpus;             /* [row_count]: scratch */
	uint32_t known, zero;       /* 0: none yet */
	uint64_t looked;            /* plans evaluated */
};

espl_status planner_found_make(struct planner_found *, const struct planner_net *);
void planner_found_free(struct planner_found *);
/* Takes the path if it ends in time_s and is better than what is known; tells whether. */
int planner_found_try(struct planner_found *, const struct planner_net *, const uint32_t *path,
    double time_s);
/* Until no small change makes it better, or the effort is spent.  pairs: two stages at once too. */
void planner_improve(struct planner_found *, const struct planner_net *, double time_s, int pairs);

/* ---- labels ---------------------------------------------------------------------------------- */

/* All ways to the end of a plan that are not outdone, choice by choice.
 *
 * A label is (seconds, dollars) from the begin of a choice's training to the end of the plan; a
 * front holds those of a choice of which none is both sooner and cheaper.  Made from the last stage
 * backwards, leaving out what no plan within the limits can have.  What a front
 * says is exact where a path costs the sum of its parts, and the least possible elsewhere.
 */

struct planner_label {
	double time_s, cost_usd;
};
struct planner_list {
	struct planner_label *all;
	size_t count, room;
};
struct planner_front {
	size_t at, count;
}; /* by time, cost falling */

struct planner_labels {
	const struct planner_net *net;
	const struct planner_bound *bound;
	struct planner_list list;
	struct planner_front *fronts;                   /* [bound->first[row] + choice] */
	struct planner_list below, above, other, parts; /* scratch */
	size_t most;                                    /* labels, at most */
};

/* Within the limits of the bound.  ESPL_E_NOMEM; ESPL_E_LIMIT: too many, or the effort is spent. */
espl_status planner_labels_make(struct planner_labels *, const struct planner_net *,
    const struct planner_bound *, size_t most);
void planner_labels_free(struct planner_labels *);
/* The cheapest path within time_s, the soonest of these; 0: none. */
int planner_labels_best(const struct planner_labels *, double time_s, uint32_t *path);

/* The cheapest way from a choice to the end within time_s; NULL: none. */
static inline const struct planner_label *
planner_labels_find(const struct planner_labels *labels, uint32_t row, uint32_t choice,
    double time_s)
{
	const struct planner_front *front = &labels->fronts[labels->bound->first[row] + choice];
	const struct planner_label *list = labels->list.all + front->at;
	size_t low = 0, high = front->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].time_s <= time_s)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? &list[low - 1] : NULL;
}

/* The soonest way from a choice that has one. */
static inline double
planner_labels_least_s(const struct planner_labels *labels, uint32_t row, uint32_t choice)
{
	return labels->list.all[labels->fronts[labels->bound->first[row] + choice].at].time_s;
}

#endif
