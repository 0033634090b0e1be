/* milp_weigh.h - how much a job's progress counts in the objective of allocator milp. */
#ifndef MILP_WEIGH_H
#define MILP_WEIGH_H
#include "milp_jobs.h"

/* Sets all jobs' weights, from the subjects' work left.  0: out of memory. */
int allocator_milp_weigh(struct milp_case *, const struct espl_alloc_view *,
    const struct milp_rules *);

#endif
