/* planner_exact.c - the cheapest plan within a deadline, proven: bounds, then labels, then, where a
 * lease costs more than its time, best-first search. */
#include "planner_exact.h"
#include "planner_search.h"

#define FOREVER 1e29 /* seconds: no deadline */
#define SIZES 1000   /* of a cluster, tried in any case */
#define STEPS 32     /* of work for each label and beginning of a plan that may be kept */

struct work {
	struct planner_net net;
	struct planner_bound bound;
	struct planner_found found;
	struct planner_labels labels;
	double time_s;
	double least_s; /* of any plan that was met */
};

static void
on_path_met(void *ctx, const uint32_t *path)
{
	struct work *w = ctx;

	(void)planner_found_try(&w->found, &w->net, path, w->time_s);
	if (w->found.tried.time_s < w->least_s)
		w->least_s = w->found.tried.time_s;
}

/* The same nodes in all stages: good where leases are not to be given back early, and where effort
 * is short. */
static void
try_static(struct work *w, uint32_t *path)
{
	const struct planner_row *row = &w->net.rows[0];
	uint32_t i, k, most = w->net.problem->limit / w->net.problem->offer->gpus;

	for (k = 0; k < row->count && (k < SIZES || !planner_is_spent(w->net.problem)); k++) {
		if (k > 0 && row->choices[k].nodes == row->choices[k - 1].nodes)
			continue;
		for (i = 0; i < w->net.row_count; i++)
			path[i] = planner_net_find(&w->net, i,
			    row->choices[k].nodes <= most
				? row->choices[k].nodes * w->net.problem->offer->gpus
				: w->net.problem->limit);
		(void)planner_found_try(&w->found, &w->net, path, w->time_s);
	}
}

static espl_status
labels_within(struct work *w, double cost_usd, size_t most)
{
	planner_labels_free(&w->labels);
	planner_bound_limits(&w->bound, w->time_s, cost_usd);
	return planner_labels_make(&w->labels, &w->net, &w->bound, most);
}

/* A path costs the sum of its parts: the labels hold the best one.  Few labels are left if the
 * limit is little above what the best one costs, so that low limits are tried first. */
static espl_status
solve_linear(struct work *w, size_t most, double *bound_usd, uint32_t *path)
{
	static const double parts[] = { 0.02, 0.15, 1.0 };
	double least = w->bound.least_usd,
	       room = w->found.known ? w->found.value.cost_usd - least : INFINITY;
	uint32_t i = isfinite(room) ? 0 : 2;
	espl_status status = ESPL_OK;

	for (; i < 3 && status == ESPL_OK; i++) {
		double limit = isfinite(room) ? least + parts[i] * room : room;

		status = labels_within(w, limit, most);
		if (status != ESPL_OK || !planner_labels_best(&w->labels, w->time_s, path))
			continue;
		(void)planner_found_try(&w->found, &w->net, path, w->time_s);
		*bound_usd = w->found.known ? w->found.value.cost_usd : least;
		return ESPL_OK;
	}
	*bound_usd = status == ESPL_OK && w->found.known ? w->found.value.cost_usd : least;
	return status;
}

/* Of nodes that are held, more may be paid already than the time they were billed for: at most so
 * much less than for its time will a plan cost. */
static double
prepaid_usd(const struct planner_problem *p)
{
	double usd = 0.0;
	uint32_t i;

	for (i = 0; i < p->held_count; i++)
		usd += p->node_usd_s * (planner_billable(p, p->held[i]) - p->held[i]);
	return usd;
}

static espl_status
solve_net(struct work *w, double *bound_usd, uint32_t *path)
{
	struct planner_effort *effort = w->net.problem->task->effort;
	espl_status status = planner_bound_make(&w->bound, &w->net, w->time_s, on_path_met, w);
	double prepaid = prepaid_usd(w->net.problem);
	uint64_t all = effort->most, left = effort->spent < all ? all - effort->spent : 0;
	size_t most = (size_t)(left / STEPS);

	effort->most = all - left / 8; /* small changes of what was found have the rest */
	*bound_usd = w->bound.least_usd - prepaid;
	if (status == ESPL_OK && w->net.linear) {
		status = solve_linear(w, most, bound_usd, path);
	} else if (status == ESPL_OK) {
		try_static(w, path);
		planner_improve(&w->found, &w->net, w->time_s, 1);
		status = labels_within(w,
		    w->found.known ? w->found.value.cost_usd + prepaid : INFINITY, most);
		if (status == ESPL_OK)
			status = planner_search(&w->found, &w->labels, w->time_s, most, bound_usd);
		if (!(*bound_usd >= w->bound.least_usd - prepaid))
			*bound_usd = w->bound.least_usd - prepaid;
	}
	effort->most = all;
	if (status == ESPL_E_LIMIT) { /* what is there is good, if not proven */
		if (w->net.linear)
			try_static(w, path);
		planner_improve(&w->found, &w->net, w->time_s, 1);
		status = ESPL_OK;
	}
	return status == ESPL_OK && !w->found.known ? ESPL_E_INFEASIBLE : status;
}

espl_status
planner_exact_solve(void *ctx, struct planner_problem *p, double deadline_s,
    struct planner_answer *answer)
{
	const struct planner_exact *exact = ctx;
	struct work w;
	uint32_t *path = calloc((size_t)p->stage_count + 1, sizeof *path), i;
	espl_status status;

	memset(&w, 0, sizeof w);
	w.time_s = deadline_s < FOREVER ? deadline_s * (1 + PLANNER_CLOSE) : FOREVER;
	w.least_s = INFINITY;
	status = path != NULL ? planner_net_make(&w.net, p, exact->fair != 0) : ESPL_E_NOMEM;
	if (status == ESPL_OK)
		status = planner_found_make(&w.found, &w.net);
	if (status == ESPL_OK)
		status = solve_net(&w, &answer->bound_usd, path);
	answer->least_s = w.least_s;
	for (i = 0; status == ESPL_OK && i < p->stage_count; i++)
		answer->gpus[i] = w.net.rows[i].choices[w.found.path[i]].gpus;
	answer->value = w.found.value;
	answer->looked += w.found.looked + w.labels.list.count;
	if (p->skipped || p->idle || (!p->constant && (!w.net.linear || p->warm || p->ahead)))
		/* of what is random the tables know the means alone, of idle nodes nothing */
		answer->bound_usd = NAN;
	planner_labels_free(&w.labels);
	planner_found_free(&w.found);
	planner_bound_free(&w.bound);
	planner_net_free(&w.net);
	free(path);
	return status;
}
