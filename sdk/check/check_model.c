/* check_model.c - the made-up world of check-plugin: a space of three parameters, two offers, an
 * execution model in which a trial takes ten seconds per iteration and GPU.
 */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "check/check_kit.h"

#define ITERATION_S 10.0

/* ---- space ------------------------------------------------------------------------- */

static const char *const kinds[] = { "red", "green", "blue" };
static const struct espl_param lr_param = { .size = (uint32_t)sizeof(struct espl_param),
	.type = ESPL_REAL,
	.scale = ESPL_LOG,
	.name = "lr",
	.low = 1e-4,
	.high = 0.1,
	.fallback = 0.01 };
static const struct espl_param units_param = { .size = (uint32_t)sizeof(struct espl_param),
	.type = ESPL_INT,
	.scale = ESPL_LINEAR,
	.name = "units",
	.low = 16,
	.high = 256,
	.quantum = 1,
	.fallback = NAN,
	.levels = 241 };
static const struct espl_param kind_param = { .size = (uint32_t)sizeof(struct espl_param),
	.type = ESPL_CHOICE,
	.scale = ESPL_LINEAR,
	.name = "kind",
	.labels = kinds,
	.label_count = 3,
	.fallback = NAN,
	.levels = 3 };
static const struct espl_param *const params[] = { &lr_param, &units_param, &kind_param };

static uint32_t
space_find(const struct espl_space *space, const char *name)
{
	for (uint32_t i = 0; i < space->param_count; i++)
		if (strcmp(params[i]->name, name) == 0)
			return i;
	return ESPL_ANY;
}

static double
space_value(const struct espl_space *space, uint32_t param, double u)
{
	(void)space;
	u = u < 0 ? 0 : u > 1 ? 1 : u;
	switch (param) {
	case 0: return fmin(fmax(exp(log(1e-4) + u * (log(0.1) - log(1e-4))), 1e-4), 0.1);
	case 1: return fmin(16 + floor(u * 241), 256);
	default: return fmin(floor(u * 3), 2);
	}
}

static espl_status
space_from_unit(const struct espl_space *space, const double *unit, double *values)
{
	for (uint32_t i = 0; i < 3; i++) {
		if (!(unit[i] >= 0 && unit[i] <= 1))
			return ESPL_E_REJECTED;
		values[i] = space_value(space, i, unit[i]);
	}
	return ESPL_OK;
}

static espl_status
space_to_unit(const struct espl_space *space, const double *values, double *unit)
{
	(void)space;
	unit[0] = (log(values[0]) - log(1e-4)) / (log(0.1) - log(1e-4));
	unit[1] = (values[1] - 16 + 0.5) / 241;
	unit[2] = (values[2] + 0.5) / 3;
	for (int i = 0; i < 3; i++)
		unit[i] = fmin(fmax(unit[i], 0), 1);
	return ESPL_OK;
}

static espl_status
space_snap(const struct espl_space *space, double *values, uint32_t *missing)
{
	(void)space;
	for (uint32_t i = 0; i < 3; i++)
		if (isnan(values[i])) {
			if (missing != NULL)
				*missing = i;
			return ESPL_E_UNKNOWN;
		}
	values[0] = fmin(fmax(values[0], 1e-4), 0.1);
	values[1] = fmin(fmax(rint(values[1]), 16), 256);
	values[2] = fmin(fmax(rint(values[2]), 0), 2);
	return ESPL_OK;
}

static uint64_t
space_hash(const struct espl_space *space, const double *values)
{
	return espl__digest(0, values, space->param_count * sizeof *values);
}

/* ---- offers ------------------------------------------------------------------------ */

static const struct espl_latency boot = { .size = (uint32_t)sizeof(struct espl_latency),
	.kind = ESPL_CONSTANT,
	.mean_s = 15 };
static const struct espl_offer small_offer = { .size = (uint32_t)sizeof(struct espl_offer),
	.number = 0,
	.gpus = 4,
	.cpus = 16,
	.nodes_max = 2000,
	.name = "small",
	.market = "on-demand",
	.gpu_type = "made-up",
	.zone = "",
	.price_hour = 4 * ESPL_USD,
	.fixed_price_hour = 4 * ESPL_USD,
	.billing = ESPL_BILL_NODE,
	.billed_from = ESPL_BILL_FROM_BOOT,
	.billing_step = ESPL_SECOND,
	.minimum_charge = 60 * ESPL_SECOND,
	.provision = &boot,
	.init = &boot,
	.hazard_hour = NAN };
static const struct espl_offer market_offer = { .size = (uint32_t)sizeof(struct espl_offer),
	.flags = ESPL_OFFER_MARKET | ESPL_OFFER_REVOCABLE,
	.number = 1,
	.gpus = 8,
	.cpus = 32,
	.nodes_max = 2000,
	.name = "large",
	.market = "spot",
	.gpu_type = "made-up",
	.zone = "",
	.price_hour = 3 * ESPL_USD,
	.fixed_price_hour = 8 * ESPL_USD,
	.billing = ESPL_BILL_NODE,
	.billed_from = ESPL_BILL_FROM_BOOT,
	.billing_step = ESPL_SECOND,
	.notice = 120 * ESPL_SECOND,
	.refund_before = 3600 * ESPL_SECOND,
	.provision = &boot,
	.init = &boot,
	.hazard_hour = 0.05,
	.hazard_hours = 100 };
static const struct espl_offer *const offers[] = { &small_offer, &market_offer };

static const struct espl_price prices[] = { { -86400 * ESPL_SECOND, 3 * ESPL_USD } };

static espl_status
market_history(const struct espl_market *market, uint32_t offer, espl_time from, espl_time to,
    const struct espl_price **list, uint32_t *count)
{
	(void)market;
	if (offer != 1 || from >= to)
		return ESPL_E_UNKNOWN;
	*list = prices;
	*count = 1;
	return ESPL_OK;
}

static double
market_mean(const struct espl_market *market, uint32_t offer, espl_time from, espl_time to)
{
	(void)market;
	return offer == 1 && from < to ? (double)(3 * ESPL_USD) : NAN;
}

/* ---- the execution model ----------------------------------------------------------- */

static const struct espl_stage *
stage_of(const struct espl__check *check, uint32_t bracket, uint32_t stage)
{
	const struct espl_spec *spec = check->experiment.spec;

	if (spec == NULL || bracket >= spec->bracket_count ||
	    stage >= spec->brackets[bracket]->stage_count)
		return NULL;
	return spec->brackets[bracket]->stages[stage];
}

static espl_status
model_speed(const struct espl_model *model, const struct espl_speed_query *query,
    struct espl_speed *speed)
{
	uint32_t gpus = query->share.gpus > 0 ? query->share.gpus : 1;

	(void)model;
	speed->evidence = ESPL_PROFILED;
	speed->iteration_s = query->share.packing > 1 ? ITERATION_S * query->share.packing / 1.6
						      : ITERATION_S / gpus;
	speed->sd_s = 0;
	speed->samples = 0;
	return ESPL_OK;
}

static espl_status
model_overheads(const struct espl_model *model, uint64_t experiment, uint32_t offer,
    struct espl_overheads *overheads)
{
	(void)model;
	(void)experiment;
	(void)offer;
	overheads->start_s = 2;
	overheads->save_s = overheads->restore_s = 1;
	overheads->resize_s = 4;
	overheads->sync_s = 0;
	overheads->boundary_s = ITERATION_S / 2;
	return ESPL_OK;
}

static void
fill_cell(const struct espl_stage *stage, uint32_t gpus, uint32_t per_node, struct espl_cell *cell)
{
	uint32_t per_trial = gpus / stage->trials > 0 ? gpus / stage->trials : 1;
	uint32_t slots = gpus / per_trial < stage->trials ? gpus / per_trial : stage->trials;
	double waves;

	memset(cell, 0, sizeof *cell);
	if (gpus == 0) {
		cell->flags = ESPL_CELL_INVALID;
		return;
	}
	waves = ceil((double)stage->trials / slots);
	cell->mean_s = waves * ((double)stage->iterations * ITERATION_S / per_trial + 2);
	cell->busy_gpu_s = (double)stage->trials * (double)stage->iterations * ITERATION_S;
	cell->nodes = (gpus + per_node - 1) / per_node;
	cell->gpus_per_trial = per_trial;
	cell->slots = slots;
}

static espl_status
model_stage(const struct espl_model *model, const struct espl_stage_query *query,
    struct espl_cell *cells)
{
	const struct espl_stage *stage = stage_of(model->ctx, query->bracket, query->stage);

	if (stage == NULL || query->offer > 1 || query->gpus_from > query->gpus_to)
		return ESPL_E_UNKNOWN;
	for (uint32_t g = query->gpus_from; g <= query->gpus_to && g >= query->gpus_from; g++)
		fill_cell(stage, g, offers[query->offer]->gpus, &cells[g - query->gpus_from]);
	return ESPL_OK;
}

static espl_status
model_predict(const struct espl_model *model, const struct espl_plan *plan,
    const struct espl_predict *how, struct espl_prediction *prediction, struct espl_error *error)
{
	struct espl__check *check = model->ctx;
	double jct = 0, cost = 0;

	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		const struct espl_stage *stage = stage_of(check, s->bracket, s->stage);
		struct espl_cell cell;

		if (stage == NULL || s->offer > 1 || s->gpus == 0)
			return espl_fail(error, ESPL_E_REJECTED,
			    "stage %u of the plan is none of the spec's", i);
		fill_cell(stage, s->gpus, offers[s->offer]->gpus, &cell);
		jct += cell.mean_s + 30;
		cost += (double)offers[s->offer]->price_hour / ESPL_USD / 3600 * cell.nodes *
		    (cell.mean_s + 30);
		if (how != NULL && how->stage_ends_s != NULL)
			how->stage_ends_s[i] = jct;
		if (how != NULL && how->stage_asks_s != NULL)
			how->stage_asks_s[i] = cell.mean_s > 30 ? cell.mean_s - 30 : 0;
	}
	prediction->jct_s = prediction->jct_at_quantile_s = jct;
	prediction->cost_usd = prediction->cost_at_quantile_usd = cost;
	prediction->jct_sd_s = prediction->cost_sd_usd = 0;
	prediction->meets = jct <= (double)check->experiment.deadline / ESPL_SECOND &&
	    cost <= (double)check->experiment.budget / ESPL_USD;
	return ESPL_OK;
}

/* ---- history ----------------------------------------------------------------------- */

static uint64_t
history_count(const struct espl_history *history)
{
	return ((const struct espl__check *)history->ctx)->observation_count;
}

static const struct espl_observation *
history_at(const struct espl_history *history, uint64_t index)
{
	const struct espl__check *check = history->ctx;

	return index < check->observation_count ? check->observations[index] : NULL;
}

static const struct espl_trial *
history_trial(const struct espl_history *history, uint64_t trial)
{
	struct espl__check *check = history->ctx;

	return check->trial != NULL ? check->trial(check, trial) : NULL;
}

static uint32_t
history_curve(const struct espl_history *history, uint64_t trial, uint32_t metric,
    const struct espl_point **points)
{
	(void)history;
	(void)trial;
	(void)metric;
	*points = NULL;
	return 0;
}

static const double *
history_first(const struct espl_history *history, uint32_t index)
{
	(void)history;
	(void)index;
	return NULL;
}

static const double *
first_at(const struct espl_first *first, uint32_t index)
{
	(void)first;
	(void)index;
	return NULL;
}

/* ---- together ---------------------------------------------------------------------- */

const void *
espl__check_service(void *ctx, struct espl__instance *instance, const char *id)
{
	struct espl__check *check = ctx;

	(void)instance;
	if (strcmp(id, ESPL_SPACE) == 0)
		return &check->space;
	if (strcmp(id, ESPL_EXPERIMENT) == 0)
		return &check->experiment;
	if (strcmp(id, ESPL_HISTORY) == 0)
		return &check->history;
	if (strcmp(id, ESPL_FIRST) == 0)
		return &check->first;
	if (strcmp(id, ESPL_MODEL) == 0)
		return &check->model;
	if (strcmp(id, ESPL_MARKET) == 0)
		return &check->market;
	if (strcmp(id, ESPL_IO) == 0)
		return check->io;
	return NULL; /* computations are not offered here */
}

static void
init_experiment(struct espl__check *check)
{
	static const char *const metrics[] = { "loss" };

	check->experiment = (struct espl_experiment){ .size = (uint32_t)sizeof check->experiment,
		.name = "check",
		.metrics = metrics,
		.metric_count = 1,
		.gpus_limit = ESPL_ANY,
		.deadline = 36000 * ESPL_SECOND,
		.budget = 1000 * ESPL_USD,
		.risk = 0.5,
		.weight = 1 };
}

void
espl__check_world_init(struct espl__check *check)
{
	check->env = (struct espl__host_env){ .utc_start_s = 1700000000,
		.simulated = 1,
		.now = &check->now,
		.directory = "",
		.ctx = check,
		.service = espl__check_service };
	init_experiment(check);
	check->space = (struct espl_space){ .size = (uint32_t)sizeof check->space,
		.param_count = 3,
		.ctx = check,
		.params = params,
		.find = space_find,
		.value = space_value,
		.from_unit = space_from_unit,
		.to_unit = space_to_unit,
		.snap = space_snap,
		.hash = space_hash };
	check->history = (struct espl_history){ .size = (uint32_t)sizeof check->history,
		.ctx = check,
		.count = history_count,
		.at = history_at,
		.trial = history_trial,
		.curve = history_curve,
		.first = history_first };
	check->first = (struct espl_first){ .size = (uint32_t)sizeof check->first,
		.ctx = check,
		.at = first_at };
	check->market = (struct espl_market){ .size = (uint32_t)sizeof check->market,
		.ctx = check,
		.history = market_history,
		.mean = market_mean };
	check->model = (struct espl_model){ .size = (uint32_t)sizeof check->model,
		.ctx = check,
		.speed = model_speed,
		.overheads = model_overheads,
		.stage = model_stage,
		.predict = model_predict };
	check->offers = offers;
	check->offer_count = 2;
}
