/* planner_draft.c - a plan under construction. */
#include "planner.h"

/* Is this a stage before those to come? */
static int
is_over(const struct espl_spec *spec, const uint32_t *next_stage, const struct espl_plan_stage *row)
{
	return next_stage != NULL && row->bracket < spec->bracket_count &&
	    row->stage < next_stage[row->bracket];
}

espl_status
planner_draft_make(struct planner_draft *draft, const struct espl_spec *spec,
    const uint32_t *next_stage, const struct espl_plan *plan)
{
	uint32_t i, k, count = plan != NULL ? plan->stage_count : 0;

	memset(draft, 0, sizeof *draft);
	for (i = 0; i < spec->bracket_count; i++)
		count += spec->brackets[i]->stage_count;
	draft->rows = calloc((size_t)count + 1, sizeof *draft->rows);
	draft->list = calloc((size_t)count + 1, sizeof *draft->list);
	if (draft->rows == NULL || draft->list == NULL) {
		planner_draft_free(draft);
		return ESPL_E_NOMEM;
	}
	for (i = 0; plan != NULL && i < plan->stage_count; i++)
		if (is_over(spec, next_stage, plan->stages[i]))
			draft->rows[draft->past++] = *plan->stages[i];
	for (count = draft->past, i = 0; i < spec->bracket_count; i++)
		for (k = next_stage != NULL ? next_stage[i] : 0; k < spec->brackets[i]->stage_count;
		     k++, count++) {
			draft->rows[count].size = (uint32_t)sizeof *draft->rows;
			draft->rows[count].bracket = i;
			draft->rows[count].stage = k;
		}
	for (i = 0; i < count; i++)
		draft->list[i] = &draft->rows[i];
	draft->plan.size = (uint32_t)sizeof draft->plan;
	draft->plan.stage_count = count;
	draft->plan.stages = draft->list;
	draft->plan.gap = NAN;
	return ESPL_OK;
}

void
planner_draft_free(struct planner_draft *draft)
{
	free(draft->rows);
	free(draft->list);
	memset(draft, 0, sizeof *draft);
}

void
planner_draft_fill(struct planner_draft *draft, uint32_t offer, uint32_t gpus)
{
	uint32_t i;

	for (i = draft->past; i < draft->plan.stage_count; i++) {
		draft->rows[i].offer = offer;
		draft->rows[i].gpus = gpus;
	}
}

void
planner_draft_put(struct planner_draft *draft, const struct planner_problem *p,
    const uint32_t *gpus)
{
	uint32_t i, at = draft->past;

	for (i = 0; i < p->stage_count; i++) { /* both are in the order of the spec */
		const struct planner_stage *stage = &p->stages[i];

		while (draft->rows[at].bracket != stage->bracket ||
		    draft->rows[at].stage != stage->stage) {
			at++;
			ESPL_ASSERT(at < draft->plan.stage_count);
		}
		draft->rows[at].offer = p->number;
		draft->rows[at].gpus = gpus[i];
	}
}

void
planner_draft_copy(struct planner_draft *draft, const struct planner_draft *from)
{
	ESPL_ASSERT(draft->plan.stage_count == from->plan.stage_count);
	memcpy(draft->rows, from->rows, from->plan.stage_count * sizeof *draft->rows);
	draft->plan.flags = from->plan.flags;
	draft->plan.gap = from->plan.gap;
	draft->plan.searched = from->plan.searched;
	draft->plan.effort = from->plan.effort;
}
