/* milp_after.h - what is done with a plan before it is applied, and how to do without one.
 *
 * The objective does not care about many things that jobs do: within a step it is all the same when
 * they end, and whether nodes stay idle.
 */
#ifndef MILP_AFTER_H
#define MILP_AFTER_H
#include "milp_jobs.h"

/* Lets jobs have the width they have, where the objective hardly changes. */
void allocator_milp_keep(const struct milp_case *, struct milp_plan *);
/* Gives idle nodes of the first step away: what gains most speed per node and demand first, as long
 * as the job ends sooner by it. */
void allocator_milp_fill(const struct milp_case *, struct milp_plan *);
/* Equal widths for all, whatever they have left: the smallest is doubled first. */
void allocator_milp_equal(const struct milp_case *, struct milp_plan *);
/* Narrows jobs in the first step until all stand side by side on nodes of so many GPUs, each on one
 * node or on whole ones.  seated[job] 0: there is no place for it. */
void allocator_milp_seat(const struct milp_case *, struct milp_plan *, uint32_t per_node,
    uint8_t *seated);

#endif
