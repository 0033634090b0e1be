/* planner_draft.h - a plan under construction: a row for each stage, of which those that are over
 * are as they were. */
#ifndef PLANNER_DRAFT_H
#define PLANNER_DRAFT_H
#include "planner_problem.h"

struct planner_draft {
	struct espl_plan plan;
	struct espl_plan_stage *rows;
	const struct espl_plan_stage **list;
	uint32_t past, zero; /* rows at the beginning that are over */
};

/* Rows of all brackets from next_stage on (NULL: all), behind those that `plan` (may be NULL) has
 * of the stages before.  ESPL_E_NOMEM. */
espl_status planner_draft_make(struct planner_draft *, const struct espl_spec *,
    const uint32_t *next_stage, const struct espl_plan *plan);
void planner_draft_free(struct planner_draft *);
/* The same in all rows to come. */
void planner_draft_fill(struct planner_draft *, uint32_t offer, uint32_t gpus);
/* The rows of the problem's stages. */
void planner_draft_put(struct planner_draft *, const struct planner_problem *,
    const uint32_t *gpus);
/* Both are of the same task. */
void planner_draft_copy(struct planner_draft *, const struct planner_draft *from);

#endif
