/* planner_drive.c - from what is asked to a plan. */
#include "planner_private.h"

#define TRIES 32  /* of working limits with which a quantile may hold */
#define LITTLE 20 /* this part of the effort */

struct drive {
	const struct planner_task *task;
	struct planner_chains chains; /* of the offer at hand */
	struct planner_draft draft;
	struct planner_result *result;
	double risk;      /* 0: limits hold on the mean */
	int soonest;      /* only a budget is given */
	double bound_usd; /* over all offers: no plan costs less; NaN */
	int proven;
	double least_in_time_usd;
	uint32_t placeable; /* offers that could hold the stages */
};

/* ---- one offer ---------------------------------------------------------------------------- */

static double
taken_s(const struct drive *d, const struct espl_prediction *p)
{
	return d->risk > 0 ? p->jct_at_quantile_s : p->jct_s;
}

static double
taken_usd(const struct drive *d, const struct espl_prediction *p)
{
	return d->risk > 0 ? p->cost_at_quantile_usd : p->cost_usd;
}

/* The model's word on what the chains have found, as d->draft.  afresh: not by the samples by which
 * it was found. */
static espl_status
predict_chains(struct drive *d, uint32_t afresh, struct espl_prediction *prediction)
{
	struct espl_predict how = ESPL_INIT(struct espl_predict);
	uint32_t i;

	ESPL_ASSERT(d->chains.count > 0);
	for (i = 0; i < d->chains.count; i++)
		planner_draft_put(&d->draft, &d->chains.problems[i], d->chains.answers[i].gpus);
	memset(prediction, 0, sizeof *prediction);
	prediction->size = (uint32_t)sizeof *prediction;
	how.flags = d->task->flags | afresh;
	how.experiment = d->task->experiment->id;
	how.quantile = d->risk;
	return d->task->model->predict(d->task->model, &d->draft.plan, &how, prediction, NULL);
}

static int
fewer_gpus(const struct planner_draft *a, const struct planner_draft *b)
{
	uint32_t i;

	for (i = 0; i < a->plan.stage_count; i++)
		if (a->rows[i].gpus != b->rows[i].gpus)
			return a->rows[i].gpus < b->rows[i].gpus;
	return 0;
}

/* Takes it if it is better than what is known.  searched_usd: what the search took it to cost. */
static void
take_if_better(struct drive *d, const struct espl_prediction *prediction, double searched_usd)
{
	struct planner_result *r = d->result;
	double a[2] = { prediction->cost_usd, prediction->jct_s },
	       b[2] = { r->predicted.cost_usd, r->predicted.jct_s };
	int i, first = d->soonest, less = 0;

	for (i = 0; i < 2 && r->known; i++) {
		int k = i == 0 ? first : 1 - first;
		double noise = 10 * planner_noise(b[k]);

		if (a[k] > b[k] + noise)
			return;
		if (a[k] < b[k] - noise) {
			less = 1;
			break;
		}
	}
	if (r->known && !less && !fewer_gpus(&d->draft, &r->draft))
		return;
	planner_draft_copy(&r->draft, &d->draft);
	r->predicted = *prediction;
	r->searched_usd = searched_usd;
	r->known = 1;
}

/* Is what the search goes by not all there is to it? */
static int
is_rough(const struct drive *d)
{
	uint32_t i, constant = 1;

	for (i = 0; i < d->chains.count; i++)
		constant &= d->chains.problems[i].constant;
	return d->risk > 0 || !constant;
}

struct limits {
	double time_s, usd;   /* to search within */
	double good_s, bad_s; /* times that were: plans held, or did not; 0, INFINITY */
};

/* The next limits, after a plan that held or did not; 0: no more. */
static int
adjust_limits(const struct drive *d, const struct espl_prediction *p, struct limits *l)
{
	const struct planner_task *task = d->task;
	double more_s = taken_s(d, p) - d->chains.value.time_s, next;

	if (d->soonest) {
		if (p->meets)
			return 0;
		next = task->budget_usd - (taken_usd(d, p) - d->chains.value.cost_usd);
		l->usd = next < l->usd && next < d->chains.value.cost_usd
		    ? next
		    : d->chains.value.cost_usd * (1 - 1e-6);
		return l->usd > 0;
	}
	if (isinf(task->deadline_s) ||
	    (p->meets && (!is_rough(d) || (d->risk <= 0 && isinf(l->bad_s)))))
		return 0;
	if (p->meets)
		l->good_s = fmax(l->good_s, l->time_s);
	else
		l->bad_s = fmin(l->bad_s, l->time_s);
	next = task->deadline_s - more_s;
	if (!p->meets && next >= d->chains.value.time_s)
		next = d->chains.value.time_s * (1 - 1e-9);
	if (next >= l->bad_s || next <= l->good_s * (1 + 1e-6)) {
		if (isinf(l->bad_s) || l->good_s <= 0)
			return 0;
		next = (l->good_s + l->bad_s) / 2;
	}
	l->time_s = next;
	return isinf(l->bad_s) || l->bad_s - l->good_s > 1e-4 * l->bad_s;
}

/* The first plan that the search found: is it the best by the search's own samples? */
static void
look_at_proof(struct drive *d, const struct espl_prediction *searched, int proven)
{
	const struct planner_chains *c = &d->chains;

	d->bound_usd = fmin(d->bound_usd, c->bound_usd) + 0 * c->bound_usd;
	d->proven &= proven &&
	    fabs(searched->cost_usd - c->value.cost_usd) <= 1e-6 * fabs(c->value.cost_usd) + 1e-9 &&
	    fabs(searched->jct_s - c->value.time_s) <= 1e-6 * c->value.time_s;
}

static espl_status
solve_fastest(struct planner_chains *c)
{
	espl_status status = planner_chains_solve(c, c->least_s * (1 + 1e-9));
	int proven;

	if (status == ESPL_E_INFEASIBLE && c->count > 1) { /* not all brackets at their fastest */
		status = planner_quota_fastest(c);
		if (status == ESPL_OK)
			status = planner_chains_solve(c, c->least_s * (1 + 1e-9));
	}
	return status == ESPL_E_INFEASIBLE ? planner_chains_soonest(c, INFINITY, &proven) : status;
}

/* The limits were taken too low: what can be done at all?  That is the fastest, or the cheapest
 * where only a budget is given. */
static espl_status
solve_extreme(struct drive *d, struct limits *l)
{
	espl_status status =
	    d->soonest ? planner_chains_solve(&d->chains, INFINITY) : solve_fastest(&d->chains);

	if (status == ESPL_OK && !d->soonest)
		l->time_s = d->chains.value.time_s * (1 + 1e-9);
	return status;
}

/* Searches until what is found holds by the model's word. */
static espl_status
search_offer(struct drive *d)
{
	struct planner_chains *c = &d->chains;
	struct limits l = { d->task->deadline_s, d->task->budget_usd, 0.0, INFINITY };
	espl_status status = ESPL_OK;
	int tries, extreme = 0;

	for (tries = 0; tries < TRIES && status == ESPL_OK; tries++) {
		struct espl_prediction searched, prediction;
		int proven = 1, last = tries + 1 == TRIES && !d->result->known;

		status = last && !extreme ? ESPL_E_INFEASIBLE
		    : d->soonest          ? planner_chains_soonest(c, l.usd, &proven)
					  : planner_chains_solve(c, l.time_s);
		if (status == ESPL_E_INFEASIBLE && (tries > 0 || is_rough(d)) && l.good_s <= 0 &&
		    !extreme) {
			extreme = 1;
			proven = 0;
			status = solve_extreme(d, &l);
		}
		if (status == ESPL_OK)
			status = predict_chains(d, 0, &searched);
		if (status == ESPL_OK)
			status = predict_chains(d, ESPL_AFRESH, &prediction);
		if (status != ESPL_OK)
			break;
		if (tries == 0)
			look_at_proof(d, &searched, proven);
		if (taken_s(d, &prediction) <= d->task->deadline_s)
			d->least_in_time_usd =
			    fmin(d->least_in_time_usd, taken_usd(d, &prediction));
		if (prediction.meets)
			take_if_better(d, &prediction, searched.cost_usd);
		if (!adjust_limits(d, &prediction, &l))
			break;
	}
	return status;
}

/* Nothing on this offer will do: what would?  The cheapest is worth a search only where there is a
 * budget, and the fastest is known from the bounds. */
static espl_status
search_least(struct drive *d)
{
	struct planner_effort *effort = d->task->effort;
	struct planner_result *r = d->result;
	struct espl_prediction prediction;
	uint64_t all = effort->most, little = effort->spent + all / LITTLE;
	espl_status status;

	if (isinf(d->task->budget_usd) && little < all)
		effort->most = little;
	status = planner_chains_solve(&d->chains, INFINITY);
	/* Brackets side by side have to be given their parts. */
	little = effort->spent + (d->chains.count > 1 ? all / LITTLE : 0);
	effort->most = little < all ? little : all;
	if (status == ESPL_OK)
		status = predict_chains(d, ESPL_AFRESH, &prediction);
	if (status == ESPL_OK) {
		r->least_usd = fmin(r->least_usd, taken_usd(d, &prediction));
		status = solve_fastest(&d->chains);
	}
	if (status == ESPL_OK)
		status = predict_chains(d, ESPL_AFRESH, &prediction);
	if (status == ESPL_OK)
		r->least_s = fmin(r->least_s, taken_s(d, &prediction));
	effort->most = all;
	return status;
}

static espl_status
try_offer(struct drive *d, uint32_t offer, planner_solve solve, void *ctx)
{
	espl_status status = planner_chains_load(&d->chains, d->task, offer, solve, ctx);
	int was_known = d->result->known;

	ESPL_ASSERT(offer < d->task->offer_count);
	if (status == ESPL_OK) {
		d->placeable++;
		planner_draft_fill(&d->draft, offer, d->chains.limit);
		status = search_offer(d);
		if ((status == ESPL_OK || status == ESPL_E_INFEASIBLE) && !d->result->known)
			status = search_least(d);
	}
	if (status == ESPL_E_INFEASIBLE || (status == ESPL_E_UNKNOWN && was_known))
		status = ESPL_OK;
	d->result->looked += d->chains.looked;
	planner_chains_free(&d->chains);
	return status;
}

/* ---- all offers --------------------------------------------------------------------------- */

static espl_status
explain_failure(const struct drive *d, struct espl_error *error)
{
	const struct planner_task *task = d->task;
	const struct planner_result *r = d->result;
	/* The search does not price nodes that go early: it may have missed a cheaper one. */
	const char *best = (task->experiment->flags & ESPL_EXPERIMENT_IDLE) != 0
	    ? "the cheapest that was found"
	    : "the cheapest";

	if (d->placeable == 0)
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "no offer has room for a trial of each stage; check gpus_min, gpus_max and "
		    "quotas");
	if (!isfinite(r->least_s) && !isfinite(r->least_usd))
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "no plan of this kind fits the available GPUs");
	if (isfinite(task->deadline_s) && !(r->least_s <= task->deadline_s))
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "none of its plans finishes within %.10g s; the fastest takes %.6g s",
		    task->deadline_s, r->least_s);
	if (isfinite(task->deadline_s) && isfinite(d->least_in_time_usd))
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "none of its plans that finish within %.10g s costs at most $%.10g; %s "
		    "costs $%.6g",
		    task->deadline_s, task->budget_usd, best, d->least_in_time_usd);
	return espl_fail(error, ESPL_E_INFEASIBLE,
	    "none of its plans costs at most $%.10g; %s costs $%.6g", task->budget_usd, best,
	    r->least_usd);
}

/* Do nodes of this plan go when their provider likes, or may they end during the plan?  Neither
 * bounds nor samples know of that. */
static int
is_interrupted(const struct drive *d)
{
	const struct planner_draft *draft = &d->result->draft;
	uint32_t i;

	for (i = draft->past; i < draft->plan.stage_count; i++) {
		const struct espl_offer *offer = d->task->offers[draft->rows[i].offer];

		if (((offer->flags & ESPL_OFFER_REVOCABLE) != 0 && offer->hazard_hour > 0) ||
		    (offer->lease_max > 0 &&
			d->result->predicted.jct_s > espl_seconds(offer->lease_max)))
			return 1;
	}
	return 0;
}

/* What is proven of the plan. */
static void
set_proof(const struct drive *d)
{
	struct espl_plan *plan = &d->result->draft.plan;
	double cost = d->result->searched_usd;

	plan->searched = d->result->looked;
	plan->gap = NAN;
	plan->effort = d->task->effort->spent;
	plan->flags = ESPL_PLAN_EFFORT;
	if (!d->proven || d->risk > 0 || isnan(d->bound_usd) || is_interrupted(d))
		return;
	plan->gap = d->soonest || planner_is_proven(cost, d->bound_usd) ? 0.0
	    : d->bound_usd > 0 ? (cost - d->bound_usd) / d->bound_usd
			       : NAN;
	if (plan->gap <= 0) /* not NaN */
		plan->flags |= ESPL_PLAN_OPTIMAL;
}

espl_status
planner_find(const struct planner_task *task, uint32_t offer, planner_solve solve, void *ctx,
    struct planner_result *result, struct espl_error *error)
{
	struct drive d = { .task = task,
		.result = result,
		.bound_usd = INFINITY,
		.proven = 1,
		.least_in_time_usd = INFINITY };
	const struct espl_spec *spec = task->experiment->spec;
	struct planner_effort *effort = task->effort;
	uint64_t all = effort->most, left;
	espl_status status;
	uint32_t i;

	ESPL_ASSERT(spec != NULL && solve != NULL);
	memset(result, 0, sizeof *result);
	result->least_s = result->least_usd = INFINITY;
	d.risk = task->experiment->risk > 0 && task->experiment->risk < 1 &&
		(task->experiment->risk < 0.5 || task->experiment->risk > 0.5)
	    ? task->experiment->risk
	    : 0.0;
	d.soonest = isinf(task->deadline_s) && isfinite(task->budget_usd);
	status = planner_draft_make(&result->draft, spec, task->next_stage, task->plan);
	if (status == ESPL_OK)
		status = planner_draft_make(&d.draft, spec, task->next_stage, task->plan);
	for (i = 0; i < task->offer_count && status == ESPL_OK; i++) {
		if ((offer != ESPL_ANY && offer != i) || task->offers[i] == NULL ||
		    task->offers[i]->gpus == 0)
			continue;
		left = all > effort->spent ? all - effort->spent : 0;
		effort->most =
		    effort->spent + (offer == ESPL_ANY ? left / (task->offer_count - i) : left);
		status = try_offer(&d, i, solve, ctx);
	}
	effort->most = all;
	planner_draft_free(&d.draft);
	if (status == ESPL_OK && result->known) {
		set_proof(&d);
		return ESPL_OK;
	}
	if (isinf(result->least_s))
		result->least_s = NAN;
	if (isinf(result->least_usd))
		result->least_usd = NAN;
	if (status == ESPL_OK)
		return explain_failure(&d, error);
	return espl_fail(error, status,
	    status == ESPL_E_NOMEM             ? "out of memory"
		: status == ESPL_E_UNSUPPORTED ? "cannot plan because the trial has no profile"
					       : "the model failed to answer");
}

espl_status
planner_offline(const struct espl_host *host, const struct espl_plan_view *view,
    struct espl_plan_sink *sink, const char *offer_name, uint32_t offer_option, uint32_t gpus_max,
    uint64_t steps, planner_solve solve, void *ctx, struct espl_error *error)
{
	const struct espl_experiment *e = view->experiment;
	struct planner_effort effort = { 0, steps };
	struct planner_task task = { .experiment = e,
		.effort = &effort,
		.offers = view->offers,
		.offer_count = view->offer_count,
		.gpus_max = view->gpus_max,
		.deadline_s = INFINITY,
		.budget_usd = INFINITY };
	struct planner_result result;
	uint32_t offer = ESPL_ANY;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(e != NULL);
	task.model = host->service(host, ESPL_MODEL);
	if (task.model == NULL || task.model->stage == NULL || task.model->predict == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "this host does not provide a model to plan with");
	if (gpus_max > 0 && gpus_max < task.gpus_max)
		task.gpus_max = gpus_max;
	if (e->deadline != ESPL_NEVER)
		task.deadline_s = espl_seconds(e->deadline - host->now(host));
	if (e->budget != INT64_MAX)
		task.budget_usd = (double)(e->budget - e->spent) / (double)ESPL_USD;
	if (offer_name != NULL)
		status = espl_choose_offer(view->offers, view->offer_count, offer_name,
		    offer_option, &offer, error);
	if (status != ESPL_OK)
		return status;
	if (offer_name != NULL && offer == ESPL_ANY) {
		(void)sink->least(sink, NAN, NAN);
		return espl_fail(error, ESPL_E_INFEASIBLE, "offer '%.100s' is no longer available",
		    offer_name);
	}
	status = planner_find(&task, offer, solve, ctx, &result, error);
	if (status == ESPL_OK)
		status = sink->plan(sink, &result.draft.plan);
	else if (status == ESPL_E_INFEASIBLE)
		(void)sink->least(sink, result.least_s, result.least_usd);
	planner_draft_free(&result.draft);
	return status;
}
