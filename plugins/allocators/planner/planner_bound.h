/* planner_bound.h - the least that the beginning of a plan can cost, for several prices of time.
 *
 * With a price on each second the best way to a choice needs no list of labels but one number, so
 * all choices are done in a few passes.  For every price the sum of a plan's beginning and end is
 * at least that number plus the end's: this tells which ends no plan within the limits can have
 * (Lagrangian bounds).  The prices are found by narrowing in on the one at which the cheapest way
 * just keeps the deadline.
 */
#ifndef PLANNER_BOUND_H
#define PLANNER_BOUND_H
#include "planner_net.h"

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

#endif
