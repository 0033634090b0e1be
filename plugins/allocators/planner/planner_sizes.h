/* planner_sizes.h - the best cluster of one size for all stages: where a greedy search begins. */
#ifndef PLANNER_SIZES_H
#define PLANNER_SIZES_H
#include "planner_value.h"

/* Of whole nodes (of GPUs, where these are billed one by one): the cheapest within time_s, the
 * soonest of these.  gpus: scratch, [stage_count].  0: none.  *least_s: of any size; *looked is
 * added to. */
uint32_t planner_static_size(const struct planner_problem *, double time_s, uint32_t *gpus,
    double *least_s, uint64_t *looked);

#endif
