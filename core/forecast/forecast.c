/* forecast.c - the execution model's questions and answers; its parts are in forecast_*.c. */
#include "base/assert.h"
#include "forecast/forecast_impl.h"

#define CLOSE 1e-9 /* relative: a deadline reached exactly is kept */
#define GRAPH_SAMPLES_MAX (1u << 24)

#define CONFIG(...) espl__fail(diag, ESPL_E_CONFIG, __VA_ARGS__)

/* ---- what no plan can have ----------------------------------------------------------- */

static int
is_length(double seconds)
{
	return isfinite(seconds) && seconds >= 0;
}

static espl_status
check_latency(const struct espl_latency *l, const char *name, struct espl__diag *diag)
{
	if (l == NULL)
		return ESPL_OK;
	if (!is_length(l->mean_s) || !is_length(l->sd_s))
		return CONFIG("%s takes %g s with a deviation of %g s, which must be finite and "
			      "not negative",
		    name, l->mean_s, l->sd_s);
	for (uint32_t i = 0; l->kind == ESPL_EMPIRICAL && i < l->sample_count; i++)
		if (!is_length(l->samples_s[i]))
			return CONFIG("sample %u of %s is %g s, which must be finite and not "
				      "negative",
			    i + 1, name, l->samples_s[i]);
	return ESPL_OK;
}

static espl_status
check_offer(const struct espl_offer *offer, struct espl__diag *diag)
{
	const char *name = offer->name != NULL ? offer->name : "";
	espl_status status = check_latency(offer->provision, "a node's provision", diag);

	if (status == ESPL_OK)
		status = check_latency(offer->init, "a node's init", diag);
	if (status == ESPL_OK && offer->price_hour < 0)
		status = CONFIG("offer '%s' has a negative price", name);
	if (status == ESPL_OK && offer->data_gb < 0)
		status = CONFIG("offer '%s' has a negative price of data", name);
	return status;
}

static espl_status
check_spec(const struct espl_spec *spec, struct espl__diag *diag)
{
	uint64_t total = 0;

	if (spec->bracket_count == 0)
		return CONFIG("the search declares no stages");
	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		const struct espl_bracket *bracket = spec->brackets[b];

		if (bracket->stage_count == 0)
			return CONFIG("bracket %u of the search has no stages", b);
		for (uint32_t i = 0; i < bracket->stage_count; i++)
			if (bracket->stages[i]->trials == 0)
				return CONFIG("stage %u of bracket %u has no trials", i, b);
		total += bracket->stage_count;
	}
	if (total > ESPL__SAMPLES_MAX)
		return CONFIG("the search has %llu stages; at most %u can be planned",
		    (unsigned long long)total, ESPL__SAMPLES_MAX);
	return ESPL_OK;
}

static espl_status
check_setup(const struct espl__forecast_setup *s, struct espl__diag *diag)
{
	espl_status status = check_spec(s->spec, diag);

	if (status == ESPL_OK)
		status = check_latency(&s->profile->iteration, "an iteration", diag);
	if (status == ESPL_OK)
		status = check_latency(&s->profile->start, "a trial's start", diag);
	if (status == ESPL_OK)
		status = check_latency(&s->profile->checkpoint, "a checkpoint", diag);
	if (status == ESPL_OK)
		status = check_latency(&s->profile->restore, "a restore", diag);
	if (status == ESPL_OK)
		status = check_latency(s->sync, "a stage's barrier", diag);
	for (uint32_t i = 0; i < s->offer_count && status == ESPL_OK; i++)
		if (s->offers[i] != NULL)
			status = check_offer(s->offers[i], diag);
	if (status != ESPL_OK)
		return status;
	if (!is_length(s->speed) || s->speed <= 0)
		return CONFIG("iterations are %g times as long as the profile says", s->speed);
	if (!is_length(s->data_gb))
		return CONFIG("%g GB of data is not an amount", s->data_gb);
	if (!(s->risk > 0 && s->risk < 1))
		return CONFIG("a limit cannot be met with probability %g", s->risk);
	if (isnan(s->deadline_s) || isnan(s->budget_usd))
		return CONFIG("the deadline or the budget is not a number");
	for (uint32_t i = 0; i < s->held_count; i++)
		if (!isfinite(s->held[i].billed_s))
			return CONFIG("held node %u is billed for %g s", i, s->held[i].billed_s);
	return ESPL_OK;
}

/* ---- begin and end ------------------------------------------------------------------- */

static void
init_draws(struct espl__forecast *f)
{
	const struct espl__profile *profile = f->setup.profile;

	espl__dist_of(&profile->iteration, &f->iteration);
	espl__dist_of(&profile->start, &f->start);
	espl__dist_of(f->setup.checkpoint ? &profile->checkpoint : NULL, &f->checkpoint);
	espl__dist_of(f->setup.checkpoint ? &profile->restore : NULL, &f->restore);
	espl__dist_of((f->setup.spec->flags & ESPL_SPEC_OPEN) == 0 ? f->setup.sync : NULL,
	    &f->sync);
	f->exact = f->iteration.kind == ESPL_CONSTANT && f->start.kind == ESPL_CONSTANT &&
	    f->checkpoint.kind == ESPL_CONSTANT && f->restore.kind == ESPL_CONSTANT &&
	    f->sync.kind == ESPL_CONSTANT;
	for (uint32_t i = 0; i < f->setup.offer_count; i++) {
		if (f->setup.offers[i] == NULL)
			continue;
		espl__dist_of(f->setup.offers[i]->provision, &f->terms[i].provision);
		espl__dist_of(f->setup.offers[i]->init, &f->terms[i].init);
		f->exact = f->exact && f->terms[i].provision.kind == ESPL_CONSTANT &&
		    f->terms[i].init.kind == ESPL_CONSTANT;
	}
	f->samples = 1;
	while (!f->exact && f->samples < f->setup.samples && f->samples < ESPL__SAMPLES_MAX)
		f->samples *= 2;
	if (!f->exact) {
		f->normal = espl__alloc(sizeof *f->normal);
		espl__normal_fill(f->normal);
	}
}

espl_status
espl__forecast_new(const struct espl__forecast_setup *setup, struct espl__forecast **out,
    struct espl__diag *diag)
{
	espl_status status = check_setup(setup, diag);
	struct espl__forecast *f;

	if (status != ESPL_OK)
		return status;
	f = espl__alloc(sizeof *f);
	f->magic = ESPL__FORECAST_MAGIC;
	f->setup = *setup;
	for (uint32_t b = 0; b < setup->spec->bracket_count; b++)
		f->table_count += setup->spec->brackets[b]->stage_count;
	f->terms = espl__alloc((setup->offer_count + 1) * sizeof *f->terms);
	f->tables = espl__alloc(f->table_count * sizeof *f->tables);
	f->first_table = espl__alloc(setup->spec->bracket_count * sizeof *f->first_table);
	f->places = espl__alloc(f->table_count * sizeof *f->places);
	f->taken = espl__alloc(setup->held_count + 1);
	f->taker = espl__alloc(((size_t)setup->held_count + 1) * sizeof *f->taker);
	f->steps = espl__alloc(f->table_count * sizeof *f->steps);
	f->moments = espl__alloc(f->table_count * sizeof *f->moments);
	/* A step brings one holding and may cut another in two. */
	f->holdings =
	    espl__alloc((3 * (size_t)f->table_count + setup->held_count + 2) * sizeof *f->holdings);
	f->living =
	    espl__alloc(((size_t)f->table_count + setup->held_count + 1) * sizeof *f->living);
	init_draws(f);
	f->jct = espl__alloc(2 * (size_t)f->samples * sizeof *f->jct);
	f->cost = f->jct + f->samples;
	f->order = espl__alloc(f->samples * sizeof *f->order);
	espl__tables_init(f);
	*out = f;
	return ESPL_OK;
}

void
espl__forecast_free(struct espl__forecast *f)
{
	if (f == NULL)
		return;
	espl__tables_free(f);
	free(f->normal);
	free(f->terms);
	free(f->tables);
	free(f->first_table);
	free(f->places);
	free(f->taken);
	free(f->taker);
	free(f->steps);
	free(f->moments);
	free(f->holdings);
	free(f->living);
	free(f->jct);
	free(f->order);
	free(f->trials_s);
	free(f->slots_s);
	free(f->leases);
	free(f->runners);
	free(f->unit_busy);
	free(f->unit_ends);
	f->magic = 0;
	free(f);
}

int
espl__forecast_exact(const struct espl__forecast *f)
{
	ESPL__CHECK(f, FORECAST);
	return f->exact;
}

#define CELLS_DRAWS 67108864.0     /* 2^26: about a second */
#define CELLS_DRAWS_LIVE 4194304.0 /* nodes are paid for meanwhile */
#define CELLS_LEAST 8u

/* ---- cells --------------------------------------------------------------------------- */

static uint32_t
held_of(const struct espl__forecast *f, uint32_t offer)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < f->setup.held_count; i++)
		count += f->setup.held[i].offer == offer;
	return count;
}

/* Of a stage that has begun. */
static void
leave_rest(struct espl_cell *cell, double past_s)
{
	double part = cell->mean_s > past_s ? 1 - past_s / cell->mean_s : 0.0;

	cell->busy_gpu_s *= part;
	cell->mean_s *= part;
	cell->flags = ESPL_CELL_BEGUN;
}

/* Number of draws for all cells of a stage with at most this many GPUs, one cell per layout. */
static double
cells_draws(const struct espl__forecast *f, const struct espl__stage_table *t, uint32_t gpus)
{
	double trials = t->stage->trials, layouts = fmin(gpus, trials + gpus / trials);

	return t->random ? layouts * espl__samples_for(f, t->stage->trials) * trials : 0.0;
}

/* How many cells of a stage are computed: the draws of all stages together are limited, for a run
 * in progress more than before it. */
static uint32_t
cells_most(const struct espl__forecast *f, uint32_t table, uint32_t first, uint32_t stages,
    uint32_t gpus)
{
	double limit = f->setup.next_stage != NULL ? CELLS_DRAWS_LIVE : CELLS_DRAWS, all = 0.0,
	       each;
	uint32_t trials = f->tables[table].stage->trials;

	for (uint32_t i = 0; i < stages; i++)
		all += cells_draws(f, &f->tables[first + i], gpus);
	each = (double)espl__samples_for(f, trials) * trials;
	if (all <= limit || cells_draws(f, &f->tables[table], gpus) <= limit / stages)
		return UINT32_MAX;
	return (uint32_t)fmax(limit / stages / each, CELLS_LEAST);
}

/* If a stage has more layouts than the limit, compute only those with the fewest GPUs for a few
 * rounds of trials, a whole number for each trial, or a number of whole nodes with few significant
 * bits. */
static int
is_computed(uint32_t gpus, uint32_t trials, uint32_t per_node, uint32_t most)
{
	uint32_t rounds = (uint32_t)(((uint64_t)trials + gpus - 1) / gpus), nodes = gpus / per_node;
	uint32_t fine = most >= 8 * CELLS_LEAST ? 7 : 1;

	if (gpus % trials == 0)
		return gpus / trials <= most / 4;
	if (rounds <= most / 2 &&
	    (gpus == 1 || ((uint64_t)trials + gpus - 2) / (gpus - 1) > rounds))
		return 1;
	if (gpus % per_node != 0)
		return 0;
	while (nodes > fine && nodes % 2 == 0)
		nodes /= 2;
	return nodes <= fine;
}

espl_status
espl__forecast_cells(struct espl__forecast *f, uint32_t bracket, uint32_t stage, uint32_t offer,
    uint32_t gpus_from, uint32_t gpus_to, struct espl_cell *cells)
{
	const struct espl_spec *spec = f->setup.spec;
	const struct espl_plan_stage *begun;
	const struct espl_offer *o;
	const struct espl__timing *timing = NULL;
	uint32_t table, most, cells_at_most, share = 0, slots = 0;
	double past_s = 0.0;
	int warm = 0;

	ESPL__CHECK(f, FORECAST);
	if (bracket >= spec->bracket_count || stage >= spec->brackets[bracket]->stage_count ||
	    offer >= f->setup.offer_count || f->setup.offers[offer] == NULL)
		return ESPL_E_UNKNOWN;
	o = f->setup.offers[offer];
	table = f->first_table[bracket] + stage;
	most = (o->flags & ESPL_OFFER_GONE) != 0 ? held_of(f, offer) : ESPL_ANY;
	begun = espl__begun(f, table, &past_s, &warm);
	cells_at_most = cells_most(f, table, f->first_table[bracket],
	    spec->brackets[bracket]->stage_count, gpus_to);
	for (uint64_t gpus = gpus_from; gpus <= gpus_to; gpus++) {
		struct espl__forecast_stage view = { .offer = offer };
		struct espl_cell *cell = &cells[gpus - gpus_from];

		*cell = (struct espl_cell){ .mean_s = INFINITY,
			.busy_gpu_s = INFINITY,
			.flags = ESPL_CELL_INVALID };
		if (espl__plan_layout(o, f->tables[table].stage->trials, (uint32_t)gpus,
			f->setup.gpus_min, f->setup.gpus_max, f->setup.colocate, &view) != 0 ||
		    view.nodes > most ||
		    (begun != NULL && (begun->offer != offer || begun->gpus != gpus)))
			continue;
		if (begun == NULL && cells_at_most < UINT32_MAX && gpus < gpus_to &&
		    !is_computed((uint32_t)gpus, f->tables[table].stage->trials, o->gpus,
			cells_at_most)) {
			cell->flags |= ESPL_CELL_SKIPPED;
			continue;
		}
		/* Most numbers of GPUs give the layout of the number before. */
		if (timing == NULL || view.gpus_per_trial != share || view.slots != slots) {
			share = view.gpus_per_trial;
			slots = view.slots;
			espl__timings_trim(f);
			timing = espl__timing(f, table, &f->terms[offer], share, slots,
			    warm ? ESPL__WARM_BEFORE : 0);
		}
		*cell = (struct espl_cell){ .mean_s = timing->mean,
			.sd_s = timing->sd,
			.busy_gpu_s = timing->busy,
			.nodes = view.nodes,
			.gpus_per_trial = view.gpus_per_trial,
			.slots = view.slots };
		if (begun != NULL)
			leave_rest(cell, past_s);
	}
	return ESPL_OK;
}

/* ---- whole plans --------------------------------------------------------------------- */

/* The k-th smallest of values, which are put in some other order. */
static double
select_smallest(double *values, uint32_t count, uint32_t k)
{
	uint32_t low = 0, high = count - 1;

	while (low < high) {
		double pivot = values[low + (high - low) / 2], swap;
		uint32_t i = low, j = high;

		for (;;) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i >= j)
				break;
			swap = values[i];
			values[i++] = values[j];
			values[j--] = swap;
		}
		/* Below i nothing is above the pivot, behind j nothing is below it. */
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return values[k];
}

/* The least value that at least this part of the samples does not exceed. */
static double
quantile_of(double *values, uint32_t count, double part)
{
	double at = ceil(part * count - CLOSE) - 1;

	return select_smallest(values, count, at > 0 ? at < count ? (uint32_t)at : count - 1 : 0);
}

static void
spread_of(double *values, uint32_t count, struct espl__spread *spread)
{
	double sum = 0.0, squares = 0.0;

	for (uint32_t i = 0; i < count; i++)
		sum += values[i];
	spread->mean = sum / count;
	for (uint32_t i = 0; i < count; i++)
		squares += (values[i] - spread->mean) * (values[i] - spread->mean);
	spread->sd = count > 1 ? sqrt(squares / (count - 1)) : 0.0;
	spread->p95 = quantile_of(values, count, 0.95);
}

static int
keeps_limit(double value, double limit)
{
	return value <= limit + CLOSE * fabs(limit);
}

static void
sum_up(const struct espl__forecast *f, double *jct, double *cost, uint32_t count, double quantile,
    struct espl__forecast_result *r)
{
	double jct_s, cost_usd;

	spread_of(jct, count, &r->jct_s);
	spread_of(cost, count, &r->cost_usd);
	r->jct_at_quantile_s = quantile > 0 ? quantile_of(jct, count, quantile) : NAN;
	r->cost_at_quantile_usd = quantile > 0 ? quantile_of(cost, count, quantile) : NAN;
	jct_s = f->setup.risk == 0.5 ? r->jct_s.mean : quantile_of(jct, count, f->setup.risk);
	cost_usd =
	    f->setup.risk == 0.5 ? r->cost_usd.mean : quantile_of(cost, count, f->setup.risk);
	r->meets =
	    keeps_limit(jct_s, f->setup.deadline_s) && keeps_limit(cost_usd, f->setup.budget_usd);
	for (uint32_t i = 0; i < f->step_count; i++)
		r->data_usd += f->steps[i].fresh * f->steps[i].terms->data_usd;
}

/* The plan's stages in the plan's order; those that are over keep zeros. */
static void
report_stages(const struct espl__forecast *f, const struct espl_plan *plan, uint32_t count,
    struct espl__forecast_stage *stages)
{
	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *p = plan->stages[i];

		stages[i] = (struct espl__forecast_stage){ .bracket = p->bracket,
			.stage = p->stage,
			.offer = p->offer,
			.gpus = p->gpus };
	}
	for (uint32_t i = 0; i < f->step_count; i++) {
		const struct espl__step *step = &f->steps[i];
		struct espl__forecast_stage *to = &stages[step->place];

		*to = step->view;
		to->starts_s = step->begin_sum / count;
		to->ends_s = step->end_sum / count;
		to->cost_usd = step->cost_sum / count;
	}
}

espl_status
espl__forecast_plan(struct espl__forecast *f, const struct espl_plan *plan, double quantile,
    uint32_t samples, struct espl__forecast_result *result, struct espl__forecast_stage *stages,
    struct espl__diag *diag)
{
	uint32_t count = f->samples;
	espl_status status;
	double *drawn = NULL;

	ESPL__CHECK(f, FORECAST);
	memset(result, 0, sizeof *result);
	if (!(quantile >= 0 && quantile < 1))
		return CONFIG("there is no quantile %g", quantile);
	espl__timings_trim(f);
	status = espl__course_lay(f, plan, diag);
	if (status != ESPL_OK)
		return status;
	result->stage_count = plan->stage_count;
	if (samples == 0) {
		espl__walk(f);
		sum_up(f, f->jct, f->cost, count, quantile, result);
	} else {
		count = f->exact ? 1 : samples < GRAPH_SAMPLES_MAX ? samples : GRAPH_SAMPLES_MAX;
		drawn = espl__realloc(NULL, 2 * (size_t)count, sizeof *drawn);
		status = espl__dag_walk(f, count, drawn, drawn + count, &result->graph_nodes, diag);
		if (status == ESPL_OK)
			sum_up(f, drawn, drawn + count, count, quantile, result);
		free(drawn);
	}
	if (status == ESPL_OK && stages != NULL)
		report_stages(f, plan, count, stages);
	return status;
}
