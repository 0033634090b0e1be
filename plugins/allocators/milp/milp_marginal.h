/* milp_marginal.h - the heuristic: the step up with the best gain per node, as long as one fits. */
#ifndef MILP_MARGINAL_H
#define MILP_MARGINAL_H
#include "milp_problem.h"

/* A plan for a feasible problem, in the room that allocator_milp_plan_init made; its bound is not
 * known. 0: out of memory. */
int allocator_milp_marginal(const struct milp_problem *, struct milp_plan *);

#endif
