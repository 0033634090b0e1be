/* planner_greedy.c - RubberBand's planner, as printed and repaired (planner.h). */
#include "planner_private.h"

/* The best cluster of one size for all stages: of whole nodes (of GPUs, where these are billed one
 * by one) the cheapest within time_s, the soonest of these.  gpus: scratch, [stage_count].  0:
 * none. *least_s: of any size; *looked is added to. */
static uint32_t
find_static_size(const struct planner_problem *p, double time_s, uint32_t *gpus, double *least_s,
    uint64_t *looked)
{
	uint32_t step = p->by_function ? 1 : p->offer->gpus, best = 0, size = 0, i;
	struct planner_value value, least = { INFINITY, INFINITY };

	*least_s = INFINITY;
	while (size < p->limit) {
		size = p->limit - size > step ? size + step : p->limit;
		for (i = 0; i < p->stage_count; i++)
			gpus[i] = size;
		++*looked;
		if (!planner_evaluate(p, gpus, &value))
			continue;
		*least_s = fmin(*least_s, value.time_s);
		if (value.time_s <= time_s && (best == 0 || planner_better(&value, &least))) {
			best = size;
			least = value;
		}
	}
	return best;
}

struct greedy {
	const struct planner_greedy *how;
	struct planner_problem *problem;
	struct planner_net net;
	struct planner_found found, best; /* of this start; of all */
	uint32_t *gpus;
	double time_s;
};

/* Dollars saved for a second lost (eq. 1); infinite where no time is lost, the more the more is
 * saved. 0: nothing is saved. */
static double
benefit_of_step(const struct planner_value *from, const struct planner_value *to)
{
	double saved = from->cost_usd - to->cost_usd, lost = to->time_s - from->time_s;

	if (!(saved > planner_noise(from->cost_usd)))
		return 0.0;
	return lost > PLANNER_NOISE * from->time_s ? saved / lost : INFINITY;
}

static int
is_more(double a, double saved_a, double b, double saved_b)
{
	return a > b || (isinf(a) && isinf(b) && saved_a > saved_b);
}

/* ---- as printed --------------------------------------------------------------------------- */

/* The largest allocation below this one that can be shared fairly; 0: none. */
static uint32_t
next_fair(uint32_t gpus, uint32_t trials)
{
	while (--gpus > 0)
		if (planner_is_fair(gpus, trials))
			break;
	return gpus;
}

/* From all stages on `size` GPUs, in g->gpus; *value of what was found.  0: not even that will do.
 */
static int
descend_as_printed(struct greedy *g, uint32_t size, struct planner_value *value, uint64_t *looked)
{
	const struct planner_problem *p = g->problem;
	uint32_t i;

	for (i = 0; i < p->stage_count; i++)
		g->gpus[i] = size;
	++*looked;
	if (!planner_evaluate(p, g->gpus, value) || value->time_s > g->time_s)
		return 0;
	while (!planner_is_spent(p)) {
		struct planner_value best = *value, next;
		uint32_t stage = PLANNER_NONE;
		double most = 0.0;

		for (i = 0; i < p->stage_count; i++) {
			uint32_t was = g->gpus[i], fewer = next_fair(was, p->stages[i].trials);

			if (fewer == 0)
				continue;
			g->gpus[i] = fewer;
			++*looked;
			if (planner_evaluate(p, g->gpus, &next) &&
			    is_more(benefit_of_step(value, &next), -next.cost_usd, most,
				-best.cost_usd)) {
				most = benefit_of_step(value, &next);
				best = next;
				stage = i;
			}
			g->gpus[i] = was;
		}
		if (stage == PLANNER_NONE || best.time_s > g->time_s)
			return 1;
		g->gpus[stage] = next_fair(g->gpus[stage], p->stages[stage].trials);
		*value = best;
	}
	return 1;
}

/* ---- repaired ----------------------------------------------------------------------------- */

/* The best step of one stage to fewer nodes that is in time; 0: none saves anything. */
static int
step_down(struct greedy *g, uint32_t *path)
{
	struct planner_found *found = &g->found;
	struct planner_value next, best = found->value;
	uint32_t i, far, stage = PLANNER_NONE, choice = 0;
	double most = 0.0;

	for (i = 0; i < g->net.row_count; i++) {
		const struct planner_row *row = &g->net.rows[i];
		uint32_t was = g->gpus[i], at = found->path[i];

		for (far = 1; far <= at; far *= 2) {
			uint32_t to = row->choices[at - far].base;

			g->gpus[i] = row->choices[to].gpus;
			found->looked++;
			if (planner_evaluate(g->problem, g->gpus, &next) &&
			    next.time_s <= g->time_s &&
			    is_more(benefit_of_step(&found->value, &next), -next.cost_usd, most,
				-best.cost_usd)) {
				most = benefit_of_step(&found->value, &next);
				best = next;
				stage = i;
				choice = to;
			}
		}
		g->gpus[i] = was;
	}
	if (stage == PLANNER_NONE)
		return 0;
	memcpy(path, found->path, g->net.row_count * sizeof *path);
	path[stage] = choice;
	g->gpus[stage] = g->net.rows[stage].choices[choice].gpus;
	return planner_found_try(found, &g->net, path, g->time_s);
}

static void
descend_repaired(struct greedy *g, uint32_t size, uint32_t *path)
{
	const struct planner_problem *p = g->problem;
	uint32_t i;

	g->found.known = 0;
	for (i = 0; i < p->stage_count; i++) {
		path[i] = planner_net_find(&g->net, i, size);
		g->gpus[i] = g->net.rows[i].choices[path[i]].gpus;
	}
	if (!planner_found_try(&g->found, &g->net, path, g->time_s))
		return;
	while (!planner_is_spent(p) && step_down(g, path))
		;
	planner_improve(&g->found, &g->net, g->time_s, 1);
	(void)planner_found_try(&g->best, &g->net, g->found.path, g->time_s);
}

/* ---- together ----------------------------------------------------------------------------- */

static espl_status
from_all_starts(struct greedy *g, uint32_t size, uint32_t *scratch, struct planner_answer *answer)
{
	uint32_t n, start, last = 0;
	int known = 0;

	for (n = 1; n <= g->how->starts; n++, last = start) {
		struct planner_value value;

		start = size < g->problem->limit / n ? size * n : g->problem->limit;
		if (start == last)
			break;
		if (!g->how->literal) {
			descend_repaired(g, start, scratch);
		} else if (descend_as_printed(g, start, &value, &answer->looked) &&
		    (!known || planner_better(&value, &answer->value))) {
			memcpy(answer->gpus, g->gpus, g->problem->stage_count * sizeof *g->gpus);
			answer->value = value;
			known = 1;
		}
	}
	if (!g->how->literal && g->best.known) {
		for (n = 0; n < g->net.row_count; n++)
			answer->gpus[n] = g->net.rows[n].choices[g->best.path[n]].gpus;
		answer->value = g->best.value;
		known = 1;
	}
	return known ? ESPL_OK : ESPL_E_INFEASIBLE;
}

espl_status
planner_greedy_solve(void *ctx, struct planner_problem *p, double deadline_s,
    struct planner_answer *answer)
{
	struct greedy g = { .how = ctx, .problem = p, .time_s = deadline_s * (1 + PLANNER_CLOSE) };
	uint32_t *scratch = calloc((size_t)p->stage_count + 1, sizeof *scratch), size;
	espl_status status;

	g.gpus = calloc((size_t)p->stage_count + 1, sizeof *g.gpus);
	answer->bound_usd = NAN;
	status = scratch == NULL || g.gpus == NULL ? ESPL_E_NOMEM : ESPL_OK;
	if (status == ESPL_OK && !g.how->literal) {
		status = planner_net_make(&g.net, p, 0);
		if (status == ESPL_OK)
			status = planner_found_make(&g.found, &g.net);
		if (status == ESPL_OK)
			status = planner_found_make(&g.best, &g.net);
	}
	if (status == ESPL_OK) {
		size = find_static_size(p, g.time_s, g.gpus, &answer->least_s, &answer->looked);
		status = from_all_starts(&g, size > 0 ? size : p->limit, scratch, answer);
		answer->looked += g.found.looked;
	}
	planner_found_free(&g.found);
	planner_found_free(&g.best);
	planner_net_free(&g.net);
	free(g.gpus);
	free(scratch);
	return status;
}
