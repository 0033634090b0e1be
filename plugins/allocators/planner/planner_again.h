/* planner_again.h - planning the rest anew when a run has left its plan.
 *
 * Trials were slower than the profile said, nodes came late: at the next stage's begin the rest is
 * planned from where the run stands, with what was measured.  The new plan is taken only if it is
 * better than going on as planned, by the same model; else nothing changes.
 */
#ifndef PLANNER_AGAIN_H
#define PLANNER_AGAIN_H
#include "planner_drive.h"

/* offer: number, or ESPL_ANY for the best of all.  *taken: 1 if the sink has a new plan. */
espl_status planner_again(const struct espl_host *, const struct espl_alloc_view *,
    struct espl_alloc_sink *, uint32_t offer, uint32_t gpus_max, uint64_t steps, planner_solve,
    void *ctx, uint32_t *taken, struct espl_error *);
/* A stage waits for nodes of the offer `dry` that do not come: the rest is planned as if no more of
 * them could be had.  Such a plan is taken if it keeps the deadline and the budget. */
espl_status planner_without(const struct espl_host *, const struct espl_alloc_view *,
    struct espl_alloc_sink *, uint32_t offer, uint32_t gpus_max, uint64_t steps, uint32_t dry,
    planner_solve, void *ctx, uint32_t *taken, struct espl_error *);

#endif
