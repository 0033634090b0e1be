/* planner_drive.h - from what is asked to a plan: offers, brackets, deadline, budget and risk.
 *
 * A planner knows how to find the cheapest allocation within a deadline, for one offer and one row
 * of stages.  All else is the same for all of them and done here: every offer is tried, brackets
 * side by side are planned each on its own, a budget is turned into the soonest deadline that it
 * pays for, and the model has the last word.
 */
#ifndef PLANNER_DRIVE_H
#define PLANNER_DRIVE_H
#include <espalier/allocator.h>
#include <espalier/kit/roster.h>
#include "planner_draft.h"
#include "planner_value.h"

struct planner_answer {
	uint32_t *gpus; /* [stage_count], the caller's */
	struct planner_value value;
	double bound_usd; /* no plan in time costs less; NaN: nothing is proven */
	double least_s;   /* of any plan; always told */
	uint64_t looked;  /* plans */
};
/* The cheapest within deadline_s (INFINITY: none), the soonest of these.  ESPL_E_NOMEM;
 * ESPL_E_INFEASIBLE: there is none. */
typedef espl_status (*planner_solve)(void *ctx, struct planner_problem *, double deadline_s,
    struct planner_answer *);

struct planner_result {
	struct planner_draft draft;
	struct espl_prediction predicted; /* afresh */
	double searched_usd;              /* by the samples by which it was found */
	double least_s, least_usd;        /* if there is no plan: what would do; NaN unknown */
	uint64_t looked;
	uint32_t known, zero; /* 1: the draft is a plan that meets everything */
};

/* offer: number, or ESPL_ANY for the best of all.  ESPL_E_INFEASIBLE: least_s and least_usd tell;
 * ESPL_E_UNSUPPORTED: there is nothing to predict from.  Free the draft in any case. */
espl_status planner_find(const struct planner_task *, uint32_t offer, planner_solve, void *ctx,
    struct planner_result *, struct espl_error *);
/* The plan entry of an allocator.  offer_name: NULL none; offer_option: to blame.  gpus_max: 0
 * none.  steps: of work, at most. */
espl_status planner_offline(const struct espl_host *, const struct espl_plan_view *,
    struct espl_plan_sink *, const char *offer_name, uint32_t offer_option, uint32_t gpus_max,
    uint64_t steps, planner_solve, void *ctx, struct espl_error *);

#endif
