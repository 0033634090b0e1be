/* planner_chains.c - the rows of stages that are planned together. */
#include "planner_private.h"

#define HALVINGS 60 /* of the time within which the soonest plan lies */

/* ---- begin and end ------------------------------------------------------------------------ */

espl_status
planner_chains_load(struct planner_chains *c, const struct planner_task *task, uint32_t offer,
    planner_solve solve, void *ctx)
{
	const struct espl_spec *spec = task->experiment->spec;
	int beside = (spec->flags & ESPL_SPEC_PARALLEL) != 0;
	uint32_t i, brackets = beside ? spec->bracket_count : 1;
	espl_status status = ESPL_OK;

	memset(c, 0, sizeof *c);
	c->task = task;
	c->solve = solve;
	c->ctx = ctx;
	c->limit = planner_ceiling(task, task->offers[offer]);
	for (i = 0; i < task->held_count; i++)
		c->shared |= task->held[i].own == 0 && task->held[i].offer == offer;
	c->problems = calloc(brackets, sizeof *c->problems);
	c->answers = calloc(brackets, sizeof *c->answers);
	if (c->problems == NULL || c->answers == NULL)
		return ESPL_E_NOMEM;
	for (i = 0; i < brackets && status == ESPL_OK; i++) {
		if (beside && task->next_stage != NULL &&
		    task->next_stage[i] >= spec->brackets[i]->stage_count)
			continue;
		status = planner_problem_load(&c->problems[c->count], task, offer,
		    beside ? i : ESPL_ANY, c->limit);
		c->answers[c->count].gpus =
		    calloc((size_t)c->problems[c->count].stage_count + 1, sizeof(uint32_t));
		if (c->answers[c->count++].gpus == NULL)
			status = ESPL_E_NOMEM;
	}
	return status;
}

void
planner_chains_free(struct planner_chains *c)
{
	uint32_t i;

	for (i = 0; i < c->count; i++) {
		planner_problem_free(&c->problems[i]);
		free(c->answers[i].gpus);
	}
	free(c->problems);
	free(c->answers);
	memset(c, 0, sizeof *c);
}

/* ---- within a deadline -------------------------------------------------------------------- */

espl_status
planner_chains_solve_one(struct planner_chains *c, uint32_t i, double deadline_s)
{
	struct planner_effort *effort = c->task->effort;
	uint64_t all = effort->most, left = effort->spent < all ? all - effort->spent : 0;
	espl_status status;

	c->answers[i].looked = 0;
	effort->most = all - left / 4; /* what follows needs some, too */
	status = c->solve(c->ctx, &c->problems[i], deadline_s, &c->answers[i]);
	effort->most = all;
	c->looked += c->answers[i].looked;
	return status;
}

/* GPUs of the whole nodes of its largest stage. */
uint32_t
planner_chains_peak(const struct planner_chains *c, uint32_t i)
{
	uint32_t k, most = 0, per_node = c->problems[i].offer->gpus;

	for (k = 0; k < c->problems[i].stage_count; k++)
		if (c->answers[i].gpus[k] > most)
			most = c->answers[i].gpus[k];
	most = most < UINT32_MAX - per_node ? (most + per_node - 1) / per_node * per_node : most;
	return most < c->limit ? most : c->limit;
}

static void
sum_up(struct planner_chains *c)
{
	uint32_t i;

	c->value.time_s = c->value.cost_usd = 0.0;
	for (i = 0; i < c->count; i++) {
		c->value.time_s = fmax(c->value.time_s, c->answers[i].value.time_s);
		c->value.cost_usd += c->answers[i].value.cost_usd;
	}
}

/* Of the nodes held at the start, what the first stage leaves to the brackets after it. */
static uint32_t
left_by(const struct planner_problem *p, const struct planner_answer *answer)
{
	uint32_t nodes = answer->gpus[0] > 0 ? planner_cell(p, 0, answer->gpus[0])->nodes : 0;

	return p->held_count - (nodes < p->held_count ? nodes : p->held_count);
}

espl_status
planner_chains_solve(struct planner_chains *c, double deadline_s)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	c->bound_usd = c->least_s = 0.0;
	for (i = 0; i < c->count; i++) {
		espl_status one;

		c->problems[i].limit = c->limit;
		if (i > 0 && c->shared)
			c->problems[i].held_count =
			    left_by(&c->problems[i - 1], &c->answers[i - 1]);
		one = planner_chains_solve_one(c, i, deadline_s);
		if (one != ESPL_OK && (status == ESPL_OK || one != ESPL_E_INFEASIBLE))
			status = one;
		if (c->answers[i].least_s > c->least_s)
			c->least_s = c->answers[i].least_s;
		/* without the others: nothing is less */
		c->bound_usd += c->answers[i].bound_usd;
		if (i > 0 && c->shared)
			/* who takes which of the held nodes was not tried out */
			c->bound_usd = NAN;
	}
	if (status == ESPL_OK && planner_quota_excess(c) > 0)
		status = planner_quota_divide(c, deadline_s);
	if (status == ESPL_OK)
		sum_up(c);
	return status;
}

/* ---- within a budget ---------------------------------------------------------------------- */

espl_status
planner_chains_soonest(struct planner_chains *c, double budget_usd, int *proven)
{
	struct planner_effort *effort = c->task->effort;
	double most = budget_usd * (1 + PLANNER_CLOSE), low, high;
	espl_status status = planner_chains_solve(c, INFINITY);
	uint64_t all = effort->most;
	uint32_t i;

	*proven = status == ESPL_OK && planner_is_proven(c->value.cost_usd, c->bound_usd);
	if (status != ESPL_OK)
		return status;
	if (c->value.cost_usd > most)
		return ESPL_E_INFEASIBLE;
	high = c->value.time_s;
	low = c->least_s < high ? c->least_s : high;
	if (effort->spent < all) /* the last search has as much as any before it */
		effort->most = all - (all - effort->spent) / 2;
	for (i = 0; i < HALVINGS && high - low > 1e-9 * high; i++) {
		double deadline_s = i == 0 ? low : (low + high) / 2;

		if (effort->spent >= effort->most) {
			*proven = 0;
			break;
		}
		status = planner_chains_solve(c, deadline_s);
		if (status != ESPL_OK && status != ESPL_E_INFEASIBLE)
			break;
		if (status == ESPL_OK && !planner_is_proven(c->value.cost_usd, c->bound_usd))
			*proven = 0;
		if (status == ESPL_OK && c->value.cost_usd <= most)
			high = c->value.time_s < deadline_s ? c->value.time_s : deadline_s;
		else
			low = deadline_s;
		if (i == 0 && high <= low)
			break;
	}
	effort->most = all;
	if (status != ESPL_OK && status != ESPL_E_INFEASIBLE)
		return status;
	return planner_chains_solve(c, high);
}
