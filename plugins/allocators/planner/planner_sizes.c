/* planner_sizes.c - the best cluster of one size for all stages; see planner_sizes.h. */
#include "planner_sizes.h"

uint32_t
planner_static_size(const struct planner_problem *p, double time_s, uint32_t *gpus, double *least_s,
    uint64_t *looked)
{
	uint32_t step = p->by_function ? 1 : p->offer->gpus, best = 0, size = 0, i;
	struct planner_value value, least = { INFINITY, INFINITY };

	*least_s = INFINITY;
	while (size < p->limit) {
		size = p->limit - size > step ? size + step : p->limit;
		for (i = 0; i < p->stage_count; i++)
			gpus[i] = size;
		++*looked;
		if (!planner_evaluate(p, gpus, &value))
			continue;
		*least_s = fmin(*least_s, value.time_s);
		if (value.time_s <= time_s && (best == 0 || planner_better(&value, &least))) {
			best = size;
			least = value;
		}
	}
	return best;
}
