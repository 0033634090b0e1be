/* planner_private.h - what the files of the planner share. */
#ifndef PLANNER_PRIVATE_H
#define PLANNER_PRIVATE_H
#include "planner.h"

/* ---- chains ---------------------------------------------------------------------------------- */

/* The rows of stages that are planned together on one offer: a single one, or one for each of the
 * brackets that run side by side and share the GPUs. */

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
/* One of them by itself, within its problem's limit. */
espl_status planner_chains_solve_one(struct planner_chains *, uint32_t which, double deadline_s);
/* GPUs of the whole nodes of its largest stage. */
uint32_t planner_chains_peak(const struct planner_chains *, uint32_t which);
/* The cheapest within the deadline. */
espl_status planner_chains_solve(struct planner_chains *, double deadline_s);
/* The fastest plan within the budget, the cheapest of equals. *proven: 1 if every bound used was
 * reached. */
espl_status planner_chains_soonest(struct planner_chains *, double budget_usd, int *proven);

/* ---- quota ----------------------------------------------------------------------------------- */

/* Brackets side by side share what may be leased: each has as many nodes to itself as its largest
 * stage takes, and together these are no more than there are. */

/* By how many GPUs the brackets, each planned without regard to the others, take too many; 0. */
uint64_t planner_quota_excess(const struct planner_chains *);
/* Gives each bracket its part, such that the plans cost as little as possible. The answers are
 * those of the whole limit; a new value of c->bound_usd. ESPL_E_INFEASIBLE: no parts will do. */
espl_status planner_quota_divide(struct planner_chains *, double deadline_s);
/* The parts with which the last bracket ends soonest, which is c->least_s. ESPL_E_INFEASIBLE: not
 * even one node for each. */
espl_status planner_quota_fastest(struct planner_chains *);

/* Whether it is proven that no plan costs less. A thousandth of the ledger's unit does not count.
 */
static inline int
planner_is_proven(double cost_usd, double bound_usd)
{
	return cost_usd <= bound_usd + 2e-9 * fabs(cost_usd) + 1e-9;
}

/* ---- net ------------------------------------------------------------------------------------- */

/* The useful choices of every stage, and the transitions from one stage to the next.
 *
 * Of all allocations with the same nodes, only the fastest can be part of a best plan (billed by
 * GPU-seconds: those for which none is both faster and cheaper), and those that let trials continue
 * in their gangs. A plan is a path: one choice for each stage. A transition costs nothing where
 * nodes are released; where new nodes are added, it costs a wait and a sum of one part that depends
 * on the earlier choice and one that depends on the later one. The best successors are therefore
 * minima over the front and the back of the sorted list, not over pairs.
 */

struct planner_choice {
	uint32_t gpus, nodes;
	/* GPUs per trial, if trials may continue from the stage before or into the next; else 0 */
	uint32_t gangs;
	/* the same choice with new gangs: itself unless trials continue into it */
	uint32_t base;
	/* the next stage's choice that continues in its gangs, or NONE */
	uint32_t onward;
	uint32_t above;              /* of the next stage: the first choice with more nodes */
	uint32_t from;               /* of the stage before: the first with as many nodes */
	double time_s, cost_usd;     /* from the start of its training to the end of its barrier */
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
	uint32_t fair;               /* only factors and multiples of the stage's number of
				      * trials */
	uint32_t linear;             /* the best path costs the sum of its parts, no more */
	struct planner_choice start; /* of what is held before the first stage */
};

/* ESPL_E_NOMEM; ESPL_E_INFEASIBLE: a stage has no choice. */
espl_status planner_net_make(struct planner_net *, struct planner_problem *, int fair);
void planner_net_free(struct planner_net *);
/* A choice that is as good as these GPUs; if there is none, one with about as many nodes. */
uint32_t planner_net_find(const struct planner_net *, uint32_t stage, uint32_t gpus);

static inline int
planner_is_fair(uint32_t gpus, uint32_t trials)
{
	return gpus >= trials ? gpus % trials == 0 : trials % gpus == 0;
}

/* ---- bound ----------------------------------------------------------------------------------- */

/* Lower bounds on the cost of the beginning of a plan, for several prices of time.
 *
 * With a price on each second, the best way to a choice is described by one number instead of a
 * list of labels, so all choices are computed in a few passes. For every price, the weighted sum of
 * a whole plan is at least that number plus the weighted sum of its end. This tells which ends no
 * plan within the limits can have (Lagrangian bounds). The prices are found by narrowing in on the
 * one at which the cheapest way just keeps the deadline.
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
/* Called for each plan found on the way. */
typedef void (*planner_met)(void *ctx, const uint32_t *path);

/* The fastest plan is found first. ESPL_E_NOMEM; ESPL_E_INFEASIBLE: even that one does not end
 * within time_s. */
espl_status planner_bound_make(struct planner_bound *, const struct planner_net *, double time_s,
    planner_met, void *ctx);
void planner_bound_free(struct planner_bound *);
/* From now on only plans that cost at most this count. */
void planner_bound_limits(struct planner_bound *, double time_s, double cost_usd);

/* Whether a plan within the limits can continue from `choice` of `row` to its end like this. */
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

/* Improving a plan by small changes: another choice for one stage, or one stage up while another
 * goes down. */

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
/* Adopts the path if it ends within time_s and is better than the best known one. Returns whether
 * it did. */
int planner_found_try(struct planner_found *, const struct planner_net *, const uint32_t *path,
    double time_s);
/* Repeats until no small change is an improvement, or the effort is spent. pairs: also two stages
 * at once. */
void planner_improve(struct planner_found *, const struct planner_net *, double time_s, int pairs);

/* ---- labels ---------------------------------------------------------------------------------- */

/* All non-dominated ways to the end of a plan, for each choice.
 *
 * A label is (seconds, dollars) from the start of a choice's training to the end of the plan; a
 * front holds those labels of a choice for which none is both faster and cheaper. Fronts are
 * computed from the last stage backwards, without labels that no plan within the limits can have. A
 * front is exact where the cost of a path is the sum of its parts, and a lower bound elsewhere.
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

/* Within the limits of the bound. ESPL_E_NOMEM; ESPL_E_LIMIT: too many labels, or the effort is
 * spent. */
espl_status planner_labels_make(struct planner_labels *, const struct planner_net *,
    const struct planner_bound *, size_t most);
void planner_labels_free(struct planner_labels *);
/* The cheapest path within time_s, the fastest of equals; 0: none. */
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

/* The fastest way to the end from a choice that has one. */
static inline double
planner_labels_least_s(const struct planner_labels *labels, uint32_t row, uint32_t choice)
{
	return labels->list.all[labels->fronts[labels->bound->first[row] + choice].at].time_s;
}

#endif
