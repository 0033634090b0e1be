/* static_size.c - the one cluster size: of a plan, or without one.
 *
 * A plan is the cheapest size that the model predicts to meet deadline and budget.
 */
#include <math.h>
#include "../planner/planner.h"
#include "static.h"

#define GPUS_MAX 1024u /* where neither the cloud nor the search sets a limit */

/* ---- the size ---------------------------------------------------------------------------- */

uint32_t
allocator_static_ceiling(const struct espl_offer *offer,
    const struct espl_experiment *const *experiments, uint32_t count)
{
	uint64_t limit = 0;
	uint32_t i, most = ESPL_ANY;

	if (offer->nodes_max != ESPL_ANY)
		most = least_of((uint64_t)offer->nodes_max * offer->gpus, ESPL_ANY);
	for (i = 0; i < count; i++)
		limit += experiments[i]->gpus_limit;
	return count > 0 ? least_of(limit, most) : most;
}

/* Trials of the widest moment of a spec; 0: nothing declared. */
static uint64_t
find_most_trials(const struct espl_spec *spec)
{
	uint64_t all = 0, most = 0;
	uint32_t i, k;

	for (i = 0; spec != NULL && i < spec->bracket_count; i++) {
		uint64_t width = 0;

		for (k = 0; k < spec->brackets[i]->stage_count; k++)
			if (spec->brackets[i]->stages[k]->trials > width)
				width = spec->brackets[i]->stages[k]->trials;
		all += width;
		most = width > most ? width : most;
	}
	return spec != NULL && (spec->flags & ESPL_SPEC_PARALLEL) != 0 ? all : most;
}

/* Without a price to go by: room for the widest stage, or all there is if it is free or nobody
 * knows how wide the search will be. */
static uint32_t
useful_gpus(const struct espl_offer *offer, uint64_t trials, uint32_t each, uint32_t limit)
{
	if (limit != ESPL_ANY && (offer->price_hour == 0 || trials == 0))
		return ESPL_ANY; /* within the ceiling of each moment */
	trials = trials > 0 ? trials : 1;
	return least_of(espl_room_for(least_of(trials, UINT32_MAX), each, trials * each,
			    offer->gpus),
	    ESPL_ANY);
}

/* GPUs of an accepted plan: the same in all stages; brackets side by side have each their own. */
static uint64_t
planned_gpus(const struct espl_experiment *experiment)
{
	const struct espl_plan *plan = experiment->plan;
	uint64_t gpus = 0;
	uint32_t i;

	if (plan == NULL || plan->stage_count == 0)
		return 0;
	if (experiment->spec == NULL || (experiment->spec->flags & ESPL_SPEC_PARALLEL) == 0)
		return plan->stages[0]->gpus;
	for (i = 0; i < plan->stage_count; i++)
		if (plan->stages[i]->stage == 0)
			gpus += plan->stages[i]->gpus;
	return gpus;
}

void
allocator_static_choose_size(struct fixed *fixed, const struct espl_alloc_view *view)
{
	const struct espl_offer *offer = view->offers[fixed->offer];
	uint32_t limit = allocator_static_ceiling(offer, view->experiments, view->experiment_count);
	uint32_t i, each = espl_roster_at(&fixed->roster, 0)->least;
	uint64_t trials = 0, plans = 0;

	ESPL_ASSERT(fixed->offer < view->offer_count && fixed->roster.count > 0);
	for (i = 0; i < view->experiment_count; i++) {
		plans += planned_gpus(view->experiments[i]);
		trials += find_most_trials(view->experiments[i]->spec);
	}
	if (trials == 0 && limit == ESPL_ANY)
		trials = fixed->roster.count;
	if (fixed->option > 0)
		fixed->gpus = fixed->option;
	else if (plans > 0)
		fixed->gpus = least_of(plans, ESPL_ANY);
	else
		fixed->gpus = useful_gpus(offer, trials, each > 0 ? each : 1, limit);
	if (fixed->gpus == 0)
		fixed->gpus = 1;
}

/* ---- offline ----------------------------------------------------------------------------- */

/* over offers and cluster sizes */
struct search {
	const struct espl_model *model;
	const struct espl_experiment *experiment;
	struct planner_draft draft;
	uint32_t beside;                /* brackets side by side; 1 otherwise */
	int soonest;                    /* rather than the cheapest */
	double risk;                    /* 0: limits hold on the mean */
	double cost_usd, jct_s;         /* of the best so far */
	double least_s, least_usd;      /* of any, for the message */
	double deadline_s, in_time_usd; /* the least of those that keep it */
	uint32_t best, offer;           /* best: 0 none */
};

/* Brackets side by side have nodes of their own: each gets the same number of whole ones, if there
 * are enough. */
static void
set_size(struct search *search, const struct espl_offer *offer, uint32_t number, uint32_t gpus)
{
	uint32_t each = gpus / search->beside;

	if (search->beside > 1 && each > offer->gpus && offer->billing != ESPL_BILL_FUNCTION)
		each = each / offer->gpus * offer->gpus;
	planner_draft_fill(&search->draft, number, each > 0 ? each : 1);
}

static int
is_better(const struct search *search, const struct espl_prediction *result)
{
	double a[2] = { result->cost_usd, result->jct_s },
	       b[2] = { search->cost_usd, search->jct_s };
	int first = search->soonest ? 1 : 0;

	if (search->best == 0 || a[first] < b[first])
		return 1;
	return a[first] <= b[first] && a[1 - first] < b[1 - first];
}

static espl_status
predict_draft(const struct search *search, uint32_t flags, struct espl_prediction *result,
    struct espl_error *error)
{
	struct espl_predict how = ESPL_INIT(struct espl_predict);

	how.experiment = search->experiment->id;
	how.flags = flags;
	how.quantile = search->risk;
	return search->model->predict(search->model, &search->draft.plan, &how, result, error);
}

static double
taken_s(const struct search *search, const struct espl_prediction *p)
{
	return search->risk > 0 ? p->jct_at_quantile_s : p->jct_s;
}

static double
taken_usd(const struct search *search, const struct espl_prediction *p)
{
	return search->risk > 0 ? p->cost_at_quantile_usd : p->cost_usd;
}

/* Sizes that may be predicted, where latencies are random or not: the draws of all of them are
 * limited. */
static uint32_t
sizes_most(const struct espl_spec *spec, int random)
{
	uint64_t draws = 1;
	uint32_t i, k;

	for (i = 0; spec != NULL && i < spec->bracket_count; i++)
		for (k = 0; k < spec->brackets[i]->stage_count; k++)
			draws += random ? UINT64_C(128) * spec->brackets[i]->stages[k]->trials : 16;
	return draws < (UINT64_C(1) << 26) ? (uint32_t)((UINT64_C(1) << 26) / draws) : 1;
}

/* The size after this one: with `fine` sizes at least up to each doubling. */
static uint32_t
next_size(uint32_t gpus, uint32_t step, uint32_t fine, uint32_t most)
{
	uint32_t nodes = gpus / step / fine;

	step *= nodes > 1 ? nodes : 1;
	return most - gpus > step ? gpus + step : most;
}

/* Every whole number of nodes (every number of GPUs where these are billed one by one), or where
 * there are too many fewer of the large ones.  They are compared by one set of samples, and held to
 * the limits by another. ESPL_E_UNSUPPORTED: there is nothing to predict from. */
static espl_status
try_sizes(struct search *search, const struct espl_offer *offer, uint32_t number, uint32_t most)
{
	uint32_t gpus = 0, step = offer->billing == ESPL_BILL_FUNCTION ? 1 : offer->gpus, fine = 8;

	while (gpus < most) {
		struct espl_prediction result = ESPL_INIT(struct espl_prediction);
		struct espl_prediction afresh = ESPL_INIT(struct espl_prediction);
		espl_status status;

		gpus = next_size(gpus, step, fine, most);
		set_size(search, offer, number, gpus);
		status = predict_draft(search, 0, &result, NULL);
		if (status == ESPL_OK)
			status = predict_draft(search, ESPL_AFRESH, &afresh, NULL);
		if (status == ESPL_E_INFEASIBLE)
			continue; /* too small for a trial, or more than is sold */
		if (status != ESPL_OK)
			return status;
		search->draft.plan.searched++;
		fine = sizes_most(search->experiment->spec, afresh.jct_sd_s > 0);
		fine = most / step <= fine ? UINT32_MAX : fine < 64 ? 8 : fine / 8;
		search->least_s = fmin(search->least_s, taken_s(search, &afresh));
		search->least_usd = fmin(search->least_usd, taken_usd(search, &afresh));
		if (taken_s(search, &afresh) <= search->deadline_s)
			search->in_time_usd = fmin(search->in_time_usd, taken_usd(search, &afresh));
		if (afresh.meets && is_better(search, &result)) {
			search->best = gpus;
			search->offer = number;
			search->cost_usd = result.cost_usd;
			search->jct_s = result.jct_s;
		}
	}
	return ESPL_OK;
}

/* The most GPUs of this offer that a plan may have. */
static uint32_t
plan_limit(const struct fixed *fixed, const struct espl_plan_view *view, uint32_t number)
{
	uint32_t limit = least_of(view->gpus_max,
	    allocator_static_ceiling(view->offers[number], &view->experiment, 1));

	return fixed->gpus_max > 0 ? least_of(fixed->gpus_max, limit) : limit;
}

/* The best size of the offer of this number (ESPL_ANY: of all) into search->best. */
static espl_status
choose_plan(const struct fixed *fixed, const struct espl_plan_view *view, uint32_t number,
    struct search *search)
{
	uint32_t i, limit,
	    first = number != ESPL_ANY ? number
				       : espl_find_offer(view->offers, view->offer_count, NULL);
	espl_status status =
	    fixed->option > 0 || search->model == NULL ? ESPL_E_UNSUPPORTED : ESPL_OK;

	for (i = 0; i < view->offer_count && status == ESPL_OK; i++) {
		if (view->offers[i] == NULL || view->offers[i]->gpus == 0 ||
		    (number != ESPL_ANY && number != i))
			continue;
		limit = plan_limit(fixed, view, i);
		status =
		    try_sizes(search, view->offers[i], i, limit != ESPL_ANY ? limit : GPUS_MAX);
	}
	if (status == ESPL_OK || status == ESPL_E_NOMEM)
		return status;
	limit = plan_limit(fixed, view, first);
	search->offer = first;
	search->best = fixed->option > 0
	    ? least_of(fixed->option, limit)
	    : useful_gpus(view->offers[first], find_most_trials(view->experiment->spec), 1, limit);
	return ESPL_OK;
}

/* A size that the user has fixed is not searched for, but is it enough? */
static espl_status
keeps_limits(const struct fixed *fixed, struct search *search, struct espl_plan_sink *sink,
    struct espl_error *error)
{
	struct espl_prediction result = ESPL_INIT(struct espl_prediction);
	espl_status status;

	if (fixed->option == 0 || search->model == NULL)
		return ESPL_OK;
	status = predict_draft(search, ESPL_AFRESH, &result, error);
	if (status == ESPL_E_UNSUPPORTED && error != NULL)
		error->status = ESPL_OK;
	if (status == ESPL_E_UNSUPPORTED || (status == ESPL_OK && result.meets))
		return ESPL_OK;
	if (status != ESPL_OK)
		return status;
	(void)sink->least(sink, taken_s(search, &result), taken_usd(search, &result));
	status = espl_fail(error, ESPL_E_INFEASIBLE,
	    "with %u GPUs the search takes %.6g s and costs $%.6g, which exceeds the deadline or "
	    "the budget",
	    search->best, taken_s(search, &result), taken_usd(search, &result));
	if (error != NULL)
		(void)snprintf(error->hint, sizeof error->hint,
		    "remove 'gpus' to use the cheapest sufficient size");
	return status;
}

/* Of the widths that take a stage's trials equally long, the narrowest: more GPUs gain nothing, and
 * were measured as slower where a profile leaves them out. */
static espl_status
narrow_trials(const struct search *search, struct espl_plan_stage *row)
{
	struct espl_stage_query query = ESPL_INIT(struct espl_stage_query);
	struct espl_cell widest, *cells;
	uint32_t i = 0;

	query.experiment = search->experiment->id;
	query.bracket = row->bracket;
	query.stage = row->stage;
	query.offer = row->offer;
	query.gpus_from = query.gpus_to = row->gpus;
	if (search->model->stage(search->model, &query, &widest) != ESPL_OK ||
	    (widest.flags & ESPL_CELL_INVALID) != 0)
		return ESPL_OK;
	row->gpus_per_trial = widest.gpus_per_trial;
	if (row->gpus_per_trial == 1)
		return ESPL_OK;
	cells = calloc(row->gpus, sizeof *cells);
	if (cells == NULL)
		return ESPL_E_NOMEM;
	query.gpus_from = 1;
	if (search->model->stage(search->model, &query, cells) == ESPL_OK) {
		while ((cells[i].flags & ESPL_CELL_INVALID) != 0 || cells[i].mean_s > widest.mean_s)
			i++;
		row->gpus_per_trial = cells[i].gpus_per_trial;
	}
	free(cells);
	return ESPL_OK;
}

static espl_status
explain_failure(const struct espl_experiment *e, const struct search *search,
    struct espl_error *error)
{
	if (!isfinite(search->least_s))
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "no fixed cluster size has room for a trial of each stage");
	if (e->budget == INT64_MAX)
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "no fixed cluster size meets the deadline; the fastest takes %.6g s",
		    search->least_s);
	if (e->deadline == ESPL_NEVER)
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "no fixed cluster size meets the budget; the cheapest costs $%.6g",
		    search->least_usd);
	if (isfinite(search->in_time_usd))
		return espl_fail(error, ESPL_E_INFEASIBLE,
		    "no fixed cluster size that meets the deadline meets the budget; the cheapest "
		    "costs $%.6g",
		    search->in_time_usd);
	return espl_fail(error, ESPL_E_INFEASIBLE,
	    "no fixed cluster size meets the deadline and the budget; the fastest takes %.6g s, "
	    "the cheapest costs $%.6g",
	    search->least_s, search->least_usd);
}

espl_status
allocator_static_plan(void *self, const struct espl_plan_view *view, struct espl_plan_sink *sink,
    struct espl_error *error)
{
	struct fixed *fixed = self;
	const struct espl_experiment *e = view->experiment;
	struct search search = { .experiment = e,
		.beside = 1,
		.least_s = INFINITY,
		.least_usd = INFINITY,
		.deadline_s = INFINITY,
		.in_time_usd = INFINITY };
	espl_status status;
	uint32_t number;

	ESPL_ASSERT(fixed != NULL && fixed->magic == FIXED_MAGIC);
	status = espl_choose_offer(view->offers, view->offer_count, fixed->offer_name, STATIC_OFFER,
	    &number, error);
	if (status != ESPL_OK)
		return status;
	if (number == ESPL_ANY) {
		(void)sink->least(sink, NAN, NAN);
		return espl_fail(error, ESPL_E_INFEASIBLE, "the cloud has no offer with GPUs");
	}
	search.model = fixed->host->service(fixed->host, ESPL_MODEL);
	search.soonest = e->deadline == ESPL_NEVER && e->budget != INT64_MAX;
	if (e->deadline != ESPL_NEVER)
		search.deadline_s = espl_seconds(e->deadline - fixed->host->now(fixed->host));
	search.risk =
	    e->risk > 0 && e->risk < 1 && (e->risk < 0.5 || e->risk > 0.5) ? e->risk : 0.0;
	if ((e->spec->flags & ESPL_SPEC_PARALLEL) != 0 && e->spec->bracket_count > 0)
		search.beside = e->spec->bracket_count;
	status = planner_draft_make(&search.draft, e->spec, NULL, NULL);
	if (status == ESPL_OK)
		status = choose_plan(fixed, view, fixed->offer_name != NULL ? number : ESPL_ANY,
		    &search);
	if (status != ESPL_OK) {
		status = espl_fail(error, status, "out of memory");
	} else if (search.best == 0) {
		(void)sink->least(sink, search.least_s, search.least_usd);
		status = explain_failure(e, &search, error);
	} else {
		set_size(&search, view->offers[search.offer], search.offer, search.best);
		status = keeps_limits(fixed, &search, sink, error);
		for (number = 0; search.model != NULL && status == ESPL_OK &&
		     number < search.draft.plan.stage_count;
		     number++)
			status = narrow_trials(&search, &search.draft.rows[number]);
		if (status == ESPL_E_NOMEM)
			status = espl_fail(error, status, "out of memory");
		if (status == ESPL_OK)
			status = sink->plan(sink, &search.draft.plan);
	}
	planner_draft_free(&search.draft);
	return status;
}
