/* milp_queue.h - who takes part in a decision of allocator milp, and who is preempted or waits. */
#ifndef MILP_QUEUE_H
#define MILP_QUEUE_H
#include "milp_jobs.h"

/* Fills c->problem.jobs (widths alone), c->subjects (index and width in force) and c->dropped, by
 * index. 0: out of memory. */
int allocator_milp_gather(struct milp_case *, const struct espl_alloc_view *, struct espl_roster *,
    const struct milp_rules *, uint32_t total);

#endif
