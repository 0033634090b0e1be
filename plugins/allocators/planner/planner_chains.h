/* planner_chains.h - the rows of stages that are planned together on one offer: one, or as many as
 * there are brackets side by side, which share the GPUs. */
#ifndef PLANNER_CHAINS_H
#define PLANNER_CHAINS_H
#include "planner_drive.h"

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

#endif
