/* planner_value.h - what an allocation takes and costs: the execution model's arithmetic, without
 * its samples (docs/model.md). */
#ifndef PLANNER_VALUE_H
#define PLANNER_VALUE_H
#include "planner_problem.h"

struct planner_value {
	double time_s, cost_usd;
};

/* gpus: of each stage, 1..limit.  0: a stage cannot be placed. */
int planner_evaluate(const struct planner_problem *, const uint32_t *gpus, struct planner_value *);
/* Dollars for giving back the oldest `nodes` of the leases at *first at an instant; those that are
 * gone are taken out.  Only for offers billed by node. */
double planner_release(const struct planner_problem *, struct planner_lease *leases,
    uint32_t *first, uint32_t nodes, double at_s);

/* Cheaper; or as cheap, and sooner. */
static inline int
planner_better(const struct planner_value *a, const struct planner_value *b)
{
	double noise = planner_noise(b->cost_usd);

	if (a->cost_usd < b->cost_usd - noise)
		return 1;
	return a->cost_usd <= b->cost_usd + noise && a->time_s < b->time_s * (1 - PLANNER_NOISE);
}

#endif
