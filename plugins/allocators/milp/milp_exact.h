/* milp_exact.h - the best plan, proven, or with a bound on what it may lack. */
#ifndef MILP_EXACT_H
#define MILP_EXACT_H
#include "milp_problem.h"

/* Improves a plan that the heuristic made (milp_marginal.h), and bounds it.  effort: steps of work
 * at most, but for what ends a search that was cut off; 0: only bound it.  gap: the part of the
 * objective that is good enough to stop.  0: out of memory; the plan is then as good as before. */
int allocator_milp_exact(const struct milp_problem *, uint32_t effort, double gap,
    struct milp_plan *);

#endif
