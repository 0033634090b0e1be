/* test_planners_case.c - searches to be planned; see test_planners.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "test_planners.h"
#include "base/assert.h"
#include "base/rng.h"
#include "testkit.h"

const struct espl_plugin *const plan_planners[PLAN_PLANNERS] = { EXACT, GREEDY, NAIVE, STATIC };
const struct plan_variant plan_variants[PLAN_VARIANTS] = { { EXACT, "" }, { GREEDY, "" },
	{ GREEDY, "variant=literal" }, { NAIVE, "" }, { STATIC, "" } };

/* ---- the model as planners see it --------------------------------------------------------- */

static espl_status
stage(const struct espl_model *model, const struct espl_stage_query *q, struct espl_cell *cells)
{
	struct plan_case *c = model->ctx;

	return espl__forecast_cells(c->forecast, q->bracket, q->stage, q->offer, q->gpus_from,
	    q->gpus_to, cells);
}

static espl_status
speed(const struct espl_model *model, const struct espl_speed_query *q, struct espl_speed *out)
{
	const struct plan_case *c = model->ctx;

	out->iteration_s = espl__profile_iteration_s(&c->profile, q->share) * c->setup.speed /
	    espl__profile_type_speed(&c->profile, c->offers[q->offer].gpu_type);
	return ESPL_OK;
}

static espl_status
overheads(const struct espl_model *model, uint64_t experiment, uint32_t offer,
    struct espl_overheads *out)
{
	const struct plan_case *c = model->ctx;

	(void)experiment;
	(void)offer;
	out->start_s = c->profile.start.mean_s;
	out->save_s = c->setup.checkpoint ? c->profile.checkpoint.mean_s : 0;
	out->restore_s = c->setup.checkpoint ? c->profile.restore.mean_s : 0;
	out->sync_s = c->sync.mean_s;
	return ESPL_OK;
}

static espl_status
predict(const struct espl_model *model, const struct espl_plan *plan,
    const struct espl_predict *how, struct espl_prediction *out, struct espl_error *error)
{
	struct espl__forecast_stage rows[PLAN_STAGES];
	struct espl__forecast_result r;
	struct plan_case *c = model->ctx;
	espl_status status =
	    espl__forecast_plan(c->forecast, plan, how->quantile, how->samples, &r, rows, NULL);

	(void)error;
	if (status != ESPL_OK)
		return status;
	for (uint32_t i = 0; i < plan->stage_count && how->stage_ends_s != NULL; i++)
		how->stage_ends_s[i] = rows[i].ends_s;
	for (uint32_t i = 0; i < plan->stage_count && how->stage_asks_s != NULL; i++)
		how->stage_asks_s[i] = rows[i].asks_s;
	out->meets = (uint32_t)r.meets;
	out->jct_s = r.jct_s.mean;
	out->jct_sd_s = r.jct_s.sd;
	out->jct_at_quantile_s = r.jct_at_quantile_s;
	out->cost_usd = r.cost_usd.mean;
	out->cost_sd_usd = r.cost_usd.sd;
	out->cost_at_quantile_usd = r.cost_at_quantile_usd;
	return ESPL_OK;
}

/* ---- cases -------------------------------------------------------------------------------- */

struct espl_latency
plan_seconds(double mean, double sd)
{
	return (struct espl_latency){ .size = sizeof(struct espl_latency),
		.mean_s = mean,
		.sd_s = sd,
		.kind = sd > 0 ? ESPL_NORMAL : ESPL_CONSTANT };
}

void
plan_case_init(struct plan_case *c)
{
	static const double seconds[] = { 10, 6, 4, 0 };

	memset(c, 0, sizeof *c);
	c->spec = (struct espl_spec){ .size = sizeof c->spec, .brackets = c->bracket_list };
	plan_case_bracket(c);
	plan_case_latency(c, seconds);
	c->profile.start = c->profile.checkpoint = c->profile.restore = c->sync =
	    plan_seconds(0, 0);
	for (int i = 0; i < PLAN_OFFERS; i++) {
		c->provision[i] = c->init[i] = plan_seconds(0, 0);
		c->offers[i] = (struct espl_offer){ .size = sizeof c->offers[i],
			.number = (uint32_t)i,
			.gpus = 4,
			.nodes_max = ESPL_ANY,
			.name = i == 0 ? "first"
			    : i == 1   ? "second"
				       : "third",
			.market = "on-demand",
			.gpu_type = "",
			.zone = "",
			.price_hour = 3600 * ESPL_USD,
			.billing = ESPL_BILL_NODE,
			.billed_from = ESPL_BILL_FROM_BOOT,
			.provision = &c->provision[i],
			.init = &c->init[i] };
		c->offer_list[i] = &c->offers[i];
	}
	c->setup = (struct espl__forecast_setup){ .spec = &c->spec,
		.profile = &c->profile,
		.offers = c->offer_list,
		.offer_count = 1,
		.gpus_min = 1,
		.gpus_max = ESPL_ANY,
		.sync = &c->sync,
		.speed = 1,
		.deadline_s = INFINITY,
		.budget_usd = INFINITY,
		.risk = 0.5,
		.seed = 1,
		.samples = 128,
		.colocate = 1,
		.checkpoint = 1 };
	c->experiment = (struct espl_experiment){ .size = sizeof c->experiment,
		.name = "case",
		.gpus_limit = ESPL_ANY,
		.deadline = ESPL_NEVER,
		.budget = INT64_MAX,
		.weight = 1,
		.spec = &c->spec };
	c->model = (struct espl_model){ .size = sizeof c->model,
		.ctx = c,
		.speed = speed,
		.overheads = overheads,
		.stage = stage,
		.predict = predict };
	c->gpus_max = ESPL_ANY;
}

void
plan_case_free(struct plan_case *c)
{
	espl__forecast_free(c->forecast);
	c->forecast = NULL;
}

void
plan_case_bracket(struct plan_case *c)
{
	uint32_t b = c->spec.bracket_count++;

	c->brackets[b] =
	    (struct espl_bracket){ sizeof c->brackets[b], 0, c->stage_list + c->stage_count };
	c->bracket_list[b] = &c->brackets[b];
}

void
plan_case_stage(struct plan_case *c, uint32_t trials, uint64_t iterations)
{
	c->stages[c->stage_count] = (struct espl_stage){ sizeof c->stages[0], trials, iterations };
	c->stage_list[c->stage_count] = &c->stages[c->stage_count];
	c->stage_count++;
	c->brackets[c->spec.bracket_count - 1].stage_count++;
}

void
plan_case_latency(struct plan_case *c, const double *seconds)
{
	c->profile.iteration = plan_seconds(seconds[0], 0);
	c->profile.scaling = c->scaling;
	c->profile.scaling_count = 0;
	for (int i = 0; seconds[i] > 0; i++)
		c->scaling[c->profile.scaling_count++] =
		    (struct espl_point){ 1 << i, seconds[0] / seconds[i] };
}

void
plan_case_model(struct plan_case *c)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl_experiment *e = &c->experiment;

	espl__forecast_free(c->forecast);
	c->forecast = NULL;
	if (espl__forecast_new(&c->setup, &c->forecast, &diag) != ESPL_OK)
		ESPL__WRONG(diag.text);
	e->deadline =
	    isinf(c->setup.deadline_s) ? ESPL_NEVER : (espl_time)(c->setup.deadline_s * 1e9 + 0.5);
	e->budget = isinf(c->setup.budget_usd) ? INT64_MAX
					       : (espl_money)floor(c->setup.budget_usd * 1e6 + 0.5);
	e->risk = c->setup.risk;
	e->data_gb = c->setup.data_gb;
	e->flags = (c->setup.warm ? ESPL_EXPERIMENT_WARM : 0) |
	    (c->setup.ahead ? ESPL_EXPERIMENT_AHEAD : 0);
}

void
plan_case_limits(struct plan_case *c, double deadline_s, double budget_usd)
{
	/* As the host has them: in whole nanoseconds and micro-dollars. */
	c->setup.deadline_s = isinf(deadline_s) ? deadline_s : floor(deadline_s * 1e9 + 0.5) / 1e9;
	c->setup.budget_usd = isinf(budget_usd) ? budget_usd : floor(budget_usd * 1e6 + 0.5) / 1e6;
	plan_case_model(c);
}

int
plan_case_predict(struct plan_case *c, const uint32_t *gpus, uint32_t offer,
    struct plan_found *found)
{
	struct espl_plan_stage rows[PLAN_STAGES];
	const struct espl_plan_stage *list[PLAN_STAGES];
	struct espl_plan plan = { .size = sizeof plan,
		.stages = list,
		.stage_count = c->stage_count };
	struct espl__forecast_result r;
	double risk = c->setup.risk < 0.5 || c->setup.risk > 0.5 ? c->setup.risk : 0;
	uint32_t at = 0;

	for (uint32_t b = 0; b < c->spec.bracket_count; b++)
		for (uint32_t i = 0; i < c->brackets[b].stage_count; i++, at++) {
			rows[at] = (struct espl_plan_stage){ .size = sizeof rows[at],
				.bracket = b,
				.stage = i,
				.offer = offer,
				.gpus = gpus[at] };
			list[at] = &rows[at];
		}
	if (espl__forecast_plan(c->forecast, &plan, risk, 0, &r, NULL, NULL) != ESPL_OK)
		return 0;
	found->jct_s = r.jct_s.mean;
	found->cost_usd = r.cost_usd.mean;
	found->jct_at_risk_s = risk > 0 ? r.jct_at_quantile_s : r.jct_s.mean;
	found->meets = r.meets;
	return 1;
}

/* ---- planning ----------------------------------------------------------------------------- */

struct sink {
	struct espl_plan_sink pub;
	struct plan_found *found;
};

static espl_status
sink_plan(struct espl_plan_sink *pub, const struct espl_plan *plan)
{
	struct plan_found *found = ((struct sink *)(void *)pub)->found;

	for (uint32_t i = 0; i < plan->stage_count; i++) {
		found->gpus[i] = plan->stages[i]->gpus;
		found->offer = plan->stages[i]->offer;
	}
	found->optimal = plan->flags & ESPL_PLAN_OPTIMAL;
	found->gap = plan->gap;
	return ESPL_OK;
}

static espl_status
sink_least(struct espl_plan_sink *pub, double deadline_s, double budget_usd)
{
	struct plan_found *found = ((struct sink *)(void *)pub)->found;

	found->least_s = deadline_s;
	found->least_usd = budget_usd;
	return ESPL_OK;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct plan_found
plan_case_plan(struct plan_case *c, const struct espl_plugin *plugin, const char *options)
{
	const struct espl_allocator_ops *ops = (const void *)plugin->ops;
	struct plan_found found = { .gap = NAN, .least_s = NAN, .least_usd = NAN };
	struct sink sink = { { sizeof sink.pub, 0, sink_plan, sink_least }, &found };
	struct espl_plan_view view = { .size = sizeof view,
		.gpus_max = c->gpus_max,
		.experiment = &c->experiment,
		.offers = c->offer_list,
		.offer_count = c->setup.offer_count };
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl_kit *kit = espl_kit_new(1);
	double began;

	espl_kit_set_service(kit, ESPL_MODEL, &c->model);
	found.status = espl_kit_open(kit, plugin, options, &error);
	if (found.status == ESPL_OK) {
		began = now();
		found.status = ops->plan(espl_kit_self(kit), &view, &sink.pub, &error);
		found.took_s = now() - began;
	}
	espl_kit_free(kit);
	if (found.status == ESPL_OK)
		(void)plan_case_predict(c, found.gpus, found.offer, &found);
	(void)snprintf(found.text, sizeof found.text, "%s", error.text);
	return found;
}

/* ---- at random ---------------------------------------------------------------------------- */

double
plan_uniform(uint64_t *state, double low, double high)
{
	return low + (high - low) * ((double)(espl__split_mix(state) >> 11) * 0x1p-53);
}

uint32_t
plan_pick(uint64_t *state, uint32_t count)
{
	return (uint32_t)plan_uniform(state, 0, count);
}

void
plan_case_halving(struct plan_case *c, uint32_t trials, uint64_t r, uint64_t most)
{
	uint64_t sum = 0;

	for (;; trials = trials / 2 > 0 ? trials / 2 : 1, r *= 2) {
		int last = trials == 1 || sum + r >= most;

		plan_case_stage(c, trials, last ? most - sum : r);
		sum += r;
		if (last)
			return;
	}
}

static void
random_scaling(struct plan_case *c, uint64_t *state, enum plan_kind kind)
{
	static const double resnet101[] = { 109, 56, 35.5, 19, 17, 17, 0 };
	static const double good[] = { 1, 1.97, 3.7, 6.4, 10.4, 15 };
	double seconds[8] = { 0 }, first, power;

	if (kind == PLAN_RESNET101) {
		plan_case_latency(c, resnet101);
		return;
	}
	first = plan_uniform(state, 1, 40);
	power = plan_uniform(state, 0.3, 0.98);
	for (int i = 0; i < 6; i++)
		seconds[i] = kind == PLAN_RESNET50 ? first / good[i] : first * pow(1 << i, -power);
	plan_case_latency(c, seconds);
}

static void
random_stages(struct plan_case *c, uint64_t *state)
{
	uint32_t count = 3 + plan_pick(state, 6), eta = 2 + plan_pick(state, 3),
		 trials = 8 + plan_pick(state, 121);
	uint64_t iterations = 1 + plan_pick(state, 4);

	for (uint32_t i = 0; i < count; i++) {
		plan_case_stage(c, trials, iterations);
		if (trials == 1 && i >= 2)
			break;
		trials = trials / eta > 0 ? trials / eta : 1;
		iterations *= eta;
	}
}

/* Least seconds of a static cluster of whole nodes. */
static double
fastest_static(struct plan_case *c)
{
	uint32_t gpus[PLAN_STAGES];
	double least = INFINITY;

	for (uint32_t size = c->offers[0].gpus; size <= c->gpus_max; size += c->offers[0].gpus) {
		struct plan_found found;

		for (uint32_t i = 0; i < c->stage_count; i++)
			gpus[i] = size;
		if (plan_case_predict(c, gpus, 0, &found))
			least = fmin(least, found.jct_s);
	}
	return least;
}

void
plan_case_random(struct plan_case *c, uint64_t seed, enum plan_kind kind, int by_function)
{
	static const uint32_t per_node[] = { 1, 4, 8 };
	static const double data_gb[] = { 0, 0.15, 150 };
	uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
	struct espl_offer *o = &c->offers[0];

	plan_case_init(c);
	random_scaling(c, &state, kind);
	random_stages(c, &state);
	o->gpus = per_node[plan_pick(&state, 3)];
	o->price_hour = (espl_money)(plan_uniform(&state, 2, 4) * o->gpus * 1e6);
	o->billing = by_function ? ESPL_BILL_FUNCTION : ESPL_BILL_NODE;
	o->minimum_charge = plan_pick(&state, 2) * 60 * ESPL_SECOND;
	o->data_gb = (espl_money)(plan_uniform(&state, 0, 0.02) * 1e6);
	c->setup.data_gb = data_gb[plan_pick(&state, 3)];
	c->provision[0] =
	    plan_seconds(plan_pick(&state, 3) == 0 ? 0 : plan_uniform(&state, 0, 60), 0);
	c->init[0] = plan_seconds(plan_pick(&state, 3) == 0 ? 0 : plan_uniform(&state, 0, 100), 0);
	if (plan_pick(&state, 2) == 0)
		o->billed_from = ESPL_BILL_FROM_READY;
	c->gpus_max = 192;
	plan_case_model(c);
	plan_case_limits(c, fastest_static(c) * exp(plan_uniform(&state, log(1.02), log(6))),
	    INFINITY);
}
