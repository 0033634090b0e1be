/* planner_quota.c - brackets side by side share what may be leased.
 *
 * The cost of a bracket by the nodes that it may have is a staircase: a plan that is the cheapest
 * with n nodes and takes m of them is so for every number from m to n.  All steps of all brackets
 * are computed, from the top down; then a table over brackets and nodes tells which ones together
 * cost the least.  Where that is too much work, one bracket after another gets by with less, until
 * all of them fit.
 */
#include "planner_private.h"

#define TABLE_MOST ((uint64_t)1 << 22) /* brackets times nodes */

uint64_t
planner_quota_excess(const struct planner_chains *c)
{
	uint64_t all = 0;
	uint32_t i;

	for (i = 0; i < c->count; i++)
		all += planner_chains_peak(c, i);
	return c->count > 1 && all > c->limit ? all - c->limit : 0;
}

/* ---- step by step ------------------------------------------------------------------------- */

/* One bracket gets by with fewer GPUs: that for which they cost the least.  ESPL_E_INFEASIBLE: none
 * can. */
static espl_status
cut_bracket(struct planner_chains *c, uint64_t excess, double deadline_s)
{
	uint32_t i, best = PLANNER_NONE, best_limit = 0, step = c->problems[0].offer->gpus;
	uint64_t size = excess / c->count / step * step;
	double least = INFINITY;
	espl_status status;

	if (size < step)
		size = step;
	for (i = 0; i < c->count; i++) {
		struct planner_problem *p = &c->problems[i];
		double was = c->answers[i].value.cost_usd, more;
		uint32_t limit = p->limit, most = planner_chains_peak(c, i);

		if (most <= size)
			continue;
		p->limit = most - (uint32_t)size;
		status = planner_chains_solve_one(c, i, deadline_s);
		if (status != ESPL_OK && status != ESPL_E_INFEASIBLE)
			return status;
		more = status == ESPL_OK ? (c->answers[i].value.cost_usd - was) /
			(double)(most - planner_chains_peak(c, i))
					 : INFINITY;
		if (more < least) {
			least = more;
			best = i;
			best_limit = p->limit;
		}
		p->limit = limit;
		status = planner_chains_solve_one(c, i, deadline_s);
		if (status != ESPL_OK)
			return status;
	}
	if (best == PLANNER_NONE)
		return size > step ? cut_bracket(c, (uint64_t)step * c->count, deadline_s)
				   : ESPL_E_INFEASIBLE;
	c->problems[best].limit = best_limit;
	return planner_chains_solve_one(c, best, deadline_s);
}

/* ---- all at once -------------------------------------------------------------------------- */

/* of a bracket: its cheapest plan with at most `most` nodes, which takes `nodes` of them */
struct step {
	uint32_t nodes, most;
	struct planner_value value;
	double bound_usd;
	uint32_t *gpus; /* [stage_count] */
};
struct stairs {
	struct step *steps; /* by nodes, falling */
	uint32_t count, room;
};
struct quota {
	struct planner_chains *chains;
	struct stairs *stairs; /* [chains->count] */
	uint32_t nodes;        /* of all together */
	double time_s;         /* only plans that end before count */
	double *costs;         /* [chains->count + 1][nodes + 1] */
};

/* The nodes of these GPUs. */
static uint32_t
nodes_of(const struct planner_chains *c, uint32_t gpus)
{
	uint32_t per_node = c->problems[0].offer->gpus;

	return gpus / per_node + (gpus % per_node != 0);
}

static void
limit_nodes(struct planner_chains *c, uint32_t i, uint32_t nodes)
{
	uint64_t gpus = (uint64_t)nodes * c->problems[i].offer->gpus;

	c->problems[i].limit = gpus < c->limit ? (uint32_t)gpus : c->limit;
}

/* Keeps the bracket's answer as its next step. */
static espl_status
add_step(struct quota *q, uint32_t i, uint32_t most)
{
	const struct planner_answer *answer = &q->chains->answers[i];
	size_t bytes = ((size_t)q->chains->problems[i].stage_count + 1) * sizeof(uint32_t);
	struct stairs *stairs = &q->stairs[i];
	struct step *step;

	if (stairs->count == stairs->room) {
		uint32_t room = stairs->room > 0 ? 2 * stairs->room : 16;

		step = realloc(stairs->steps, room * sizeof *step);
		if (step == NULL)
			return ESPL_E_NOMEM;
		stairs->steps = step;
		stairs->room = room;
	}
	step = &stairs->steps[stairs->count];
	step->gpus = calloc(1, bytes);
	if (step->gpus == NULL)
		return ESPL_E_NOMEM;
	stairs->count++;
	memcpy(step->gpus, answer->gpus, bytes - sizeof(uint32_t));
	step->most = most;
	step->nodes = nodes_of(q->chains, planner_chains_peak(q->chains, i));
	step->value = answer->value;
	step->bound_usd = answer->bound_usd;
	return ESPL_OK;
}

/* ESPL_E_LIMIT: too much work. */
static espl_status
climb_down(struct quota *q, uint32_t i, double deadline_s)
{
	const struct stairs *stairs = &q->stairs[i];
	espl_status status = add_step(q, i, nodes_of(q->chains, q->chains->limit));

	while (status == ESPL_OK && stairs->steps[stairs->count - 1].nodes > 1) {
		uint32_t most = stairs->steps[stairs->count - 1].nodes - 1;

		limit_nodes(q->chains, i, most);
		status = planner_chains_solve_one(q->chains, i, deadline_s);
		if (status == ESPL_OK)
			status = add_step(q, i, most);
		if (status == ESPL_OK && planner_is_spent(&q->chains->problems[i]))
			status = ESPL_E_LIMIT;
	}
	return status == ESPL_E_INFEASIBLE ? ESPL_OK : status;
}

static double
step_usd(const struct step *step, int bound)
{
	return bound ? step->bound_usd : step->value.cost_usd;
}

/* Fills q->costs: of the first brackets, with so many nodes. */
static void
fill_table(struct quota *q, int bound)
{
	size_t width = (size_t)q->nodes + 1, n;
	uint32_t i, k;

	for (n = 0; n < width; n++)
		q->costs[n] = 0.0;
	for (i = 0; i < q->chains->count; i++) {
		const double *before = q->costs + i * width;
		double *here = q->costs + (i + 1) * width;

		for (n = 0; n < width; n++)
			here[n] = INFINITY;
		planner_spend(&q->chains->problems[i], q->stairs[i].count);
		for (k = 0; k < q->stairs[i].count; k++) {
			const struct step *step = &q->stairs[i].steps[k];

			for (n = step->nodes; n < width && step->value.time_s < q->time_s; n++)
				here[n] =
				    fmin(here[n], before[n - step->nodes] + step_usd(step, bound));
		}
	}
}

/* The steps that the table tells become the answers. */
static void
take_steps(struct quota *q)
{
	size_t width = (size_t)q->nodes + 1, n = q->nodes;
	struct planner_chains *c = q->chains;
	uint32_t i, k;

	for (i = c->count; i-- > 0;) {
		const struct stairs *stairs = &q->stairs[i];
		const struct step *best = NULL;
		double least = INFINITY;

		for (k = 0; k < stairs->count; k++) {
			const struct step *step = &stairs->steps[k];
			double usd = step->nodes > n || step->value.time_s >= q->time_s
			    ? INFINITY
			    : q->costs[i * width + n - step->nodes] + step->value.cost_usd;

			if (usd < least) {
				least = usd;
				best = step;
			}
		}
		ESPL_ASSERT(best != NULL);
		n -= best->nodes;
		limit_nodes(c, i, best->most);
		c->answers[i].value = best->value;
		c->answers[i].bound_usd = best->bound_usd;
		memcpy(c->answers[i].gpus, best->gpus,
		    c->problems[i].stage_count * sizeof *best->gpus);
	}
}

/* As planner_quota_divide.  ESPL_E_LIMIT: too much work. */
static espl_status
divide_exactly(struct quota *q, double deadline_s)
{
	struct planner_chains *c = q->chains;
	struct planner_effort *effort = c->task->effort;
	uint64_t all = effort->most, left = effort->spent < all ? all - effort->spent : 0;
	size_t last = (size_t)c->count * (q->nodes + (size_t)1) + q->nodes;
	espl_status status = ESPL_OK;
	double least;
	int known = 1;
	uint32_t i, k;

	if (((uint64_t)c->count + 1) * ((uint64_t)q->nodes + 1) > TABLE_MOST)
		return ESPL_E_LIMIT;
	effort->most = all - left / 2;
	for (i = 0; i < c->count && status == ESPL_OK; i++)
		status = climb_down(q, i, deadline_s);
	effort->most = all;
	if (status != ESPL_OK)
		return status;
	q->costs = calloc(last + 1, sizeof *q->costs);
	if (q->costs == NULL)
		return ESPL_E_NOMEM;
	for (i = 0; i < c->count; i++)
		for (k = 0; k < q->stairs[i].count; k++)
			known &= !isnan(q->stairs[i].steps[k].bound_usd);
	if (known && !isnan(c->bound_usd)) {
		fill_table(q, 1);
		c->bound_usd = q->costs[last];
	} else {
		c->bound_usd = NAN;
	}
	fill_table(q, 0);
	if (isinf(q->costs[last]))
		return ESPL_E_INFEASIBLE;
	for (least = q->costs[last]; q->costs[last] <= least + planner_noise(least);
	     fill_table(q, 0)) { /* of those that cost as little, the soonest */
		take_steps(q);
		q->time_s = 0.0;
		for (i = 0; i < c->count; i++)
			q->time_s = fmax(q->time_s, c->answers[i].value.time_s);
		q->time_s *= 1 - PLANNER_NOISE;
	}
	return ESPL_OK;
}

/* The answers as they were at first: of the whole limit. */
static void
restore_answers(struct quota *q)
{
	struct planner_chains *c = q->chains;
	uint32_t i;

	for (i = 0; i < c->count && q->stairs[i].count > 0; i++) {
		const struct step *step = &q->stairs[i].steps[0];

		c->problems[i].limit = c->limit;
		c->answers[i].value = step->value;
		c->answers[i].bound_usd = step->bound_usd;
		memcpy(c->answers[i].gpus, step->gpus,
		    c->problems[i].stage_count * sizeof *step->gpus);
	}
}

espl_status
planner_quota_divide(struct planner_chains *c, double deadline_s)
{
	struct quota q = { .chains = c, .time_s = INFINITY };
	espl_status status;
	uint64_t excess;
	uint32_t i, k;

	ESPL_ASSERT(c->count > 1);
	q.nodes = c->limit / c->problems[0].offer->gpus;
	q.stairs = calloc(c->count, sizeof *q.stairs);
	if (q.stairs == NULL)
		return ESPL_E_NOMEM;
	status = divide_exactly(&q, deadline_s);
	if (status == ESPL_E_LIMIT) {
		restore_answers(&q);
		status = ESPL_OK;
		while (status == ESPL_OK && (excess = planner_quota_excess(c)) > 0)
			status = cut_bracket(c, excess, deadline_s);
	}
	for (i = 0; i < c->count; i++) {
		for (k = 0; k < q.stairs[i].count; k++)
			free(q.stairs[i].steps[k].gpus);
		free(q.stairs[i].steps);
	}
	free(q.stairs);
	free(q.costs);
	return status;
}

/* ---- as soon as possible ------------------------------------------------------------------ */

/* How soon a bracket can end with at most so many nodes; INFINITY: it cannot be placed. */
static espl_status
least_with(struct planner_chains *c, uint32_t i, uint32_t nodes, double *least_s)
{
	espl_status status;

	limit_nodes(c, i, nodes);
	c->answers[i].least_s = INFINITY;
	status = planner_chains_solve_one(c, i, 0.0);
	*least_s = c->answers[i].least_s;
	return status == ESPL_E_INFEASIBLE ? ESPL_OK : status;
}

espl_status
planner_quota_fastest(struct planner_chains *c)
{
	uint32_t i, slowest, left = c->limit / c->problems[0].offer->gpus;
	uint32_t *nodes = calloc(c->count, sizeof *nodes);
	double *least_s = calloc(c->count, sizeof *least_s);
	espl_status status = nodes != NULL && least_s != NULL ? ESPL_OK : ESPL_E_NOMEM;

	ESPL_ASSERT(c->count > 0);
	if (status == ESPL_OK && left < c->count)
		status = ESPL_E_INFEASIBLE;
	for (i = 0; i < c->count && status == ESPL_OK; i++, left--)
		status = least_with(c, i, nodes[i] = 1, &least_s[i]);
	for (slowest = 0; status == ESPL_OK;) { /* only more for the last one helps */
		for (i = 0; i < c->count; i++)
			if (least_s[i] > least_s[slowest])
				slowest = i;
		if (left-- == 0 || planner_is_spent(&c->problems[0]))
			break;
		status = least_with(c, slowest, ++nodes[slowest], &least_s[slowest]);
	}
	if (status == ESPL_OK)
		c->least_s = least_s[slowest];
	if (status == ESPL_OK && isinf(c->least_s))
		status = ESPL_E_INFEASIBLE;
	free(nodes);
	free(least_s);
	return status;
}
