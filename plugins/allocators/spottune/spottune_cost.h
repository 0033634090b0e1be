/* spottune_cost.h - the arithmetic of SpotTune's provisioner (ICDCS'20, Eqs. 1 and 2). */
#ifndef SPOTTUNE_COST_H
#define SPOTTUNE_COST_H
#include <math.h>
#include <stdint.h>

/* An interruption is never certain: with 1 every such machine would cost 0. */
#define SPOTTUNE_CERTAIN 0.99

/* What a step is expected to cost on a machine that takes this long for it and is interrupted
 * within its first, then refunded, hour with probability p.  Dollars per hour times seconds. */
static inline double
spottune_step_cost(double step_s, double p, double price_hour)
{
	return step_s * (1 - (p < SPOTTUNE_CERTAIN ? p : SPOTTUNE_CERTAIN)) * price_hour;
}

/* Index of the least, the first of equal ones; NaN is none.  UINT32_MAX: there is none. */
static inline uint32_t
spottune_least(const double *cost, uint32_t count)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < count; i++)
		if (!isnan(cost[i]) && (best == UINT32_MAX || cost[i] < cost[best]))
			best = i;
	return best;
}
#endif
