/* check_model.c - the test kit's world as check-plugin makes it: a space of three parameters, two
 * offers, and an execution model in which a trial takes ten seconds per iteration and GPU.
 */
#include <math.h>
#include <string.h>

#include "check/check_kit.h"

#define ITERATION_S 10.0

/* ---- offers ------------------------------------------------------------------------ */

static const struct espl_latency boot = { .size = (uint32_t)sizeof(struct espl_latency),
	.kind = ESPL_CONSTANT,
	.mean_s = 15 };

static struct espl_offer *
add_offer(struct espl_kit *kit, const char *name, uint32_t gpus, double usd_hour)
{
	struct espl_offer *offer =
	    espl_kit_offer_at(kit, espl_kit_offer(kit, name, gpus, 2000, usd_hour));

	offer->cpus = 4 * gpus;
	offer->gpu_type = "made-up";
	offer->fixed_price_hour = offer->price_hour;
	offer->billed_from = ESPL_BILL_FROM_BOOT;
	offer->provision = offer->init = &boot;
	return offer;
}

static void
add_offers(struct espl_kit *kit, int plain)
{
	struct espl_offer *offer = add_offer(kit, "small", 4, 4);

	offer->minimum_charge = 60 * ESPL_SECOND;
	if (plain)
		return;
	offer = add_offer(kit, "large", 8, 3);
	offer->flags = ESPL_OFFER_MARKET | ESPL_OFFER_REVOCABLE;
	offer->market = "spot";
	offer->fixed_price_hour = 8 * ESPL_USD;
	offer->notice = 120 * ESPL_SECOND;
	offer->refund_before = 3600 * ESPL_SECOND;
	offer->hazard_hour = 0.05;
	offer->hazard_hours = 100;
}

/* ---- the execution model ----------------------------------------------------------- */

static const struct espl_stage *
stage_of(const struct espl_kit *kit, uint32_t bracket, uint32_t stage)
{
	const struct espl_spec *spec = kit->experiment.spec;

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
	const struct espl_kit *kit = model->ctx;
	const struct espl_stage *stage = stage_of(kit, query->bracket, query->stage);

	if (stage == NULL || query->offer >= kit->offer_count || query->gpus_from > query->gpus_to)
		return ESPL_E_UNKNOWN;
	for (uint32_t g = query->gpus_from; g <= query->gpus_to && g >= query->gpus_from; g++)
		fill_cell(stage, g, kit->offers[query->offer]->gpus, &cells[g - query->gpus_from]);
	return ESPL_OK;
}

static espl_status
model_predict(const struct espl_model *model, const struct espl_plan *plan,
    const struct espl_predict *how, struct espl_prediction *prediction, struct espl_error *error)
{
	const struct espl_kit *kit = model->ctx;
	double jct = 0, cost = 0;

	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		const struct espl_stage *stage = stage_of(kit, s->bracket, s->stage);
		struct espl_cell cell;

		if (stage == NULL || s->offer >= kit->offer_count || s->gpus == 0)
			return espl_fail(error, ESPL_E_REJECTED,
			    "stage %u of the plan is not in the spec", i);
		fill_cell(stage, s->gpus, kit->offers[s->offer]->gpus, &cell);
		jct += cell.mean_s + 30;
		cost += (double)kit->offers[s->offer]->price_hour / ESPL_USD / 3600 * cell.nodes *
		    (cell.mean_s + 30);
		if (how != NULL && how->stage_ends_s != NULL)
			how->stage_ends_s[i] = jct;
		if (how != NULL && how->stage_asks_s != NULL)
			how->stage_asks_s[i] = cell.mean_s > 30 ? cell.mean_s - 30 : 0;
	}
	prediction->jct_s = prediction->jct_at_quantile_s = jct;
	prediction->cost_usd = prediction->cost_at_quantile_usd = cost;
	prediction->jct_sd_s = prediction->cost_sd_usd = 0;
	prediction->meets = jct <= (double)kit->experiment.deadline / ESPL_SECOND &&
	    cost <= (double)kit->experiment.budget / ESPL_USD;
	return ESPL_OK;
}

/* ---- together ---------------------------------------------------------------------- */

void
espl__check_world(struct espl__check *check, int plain)
{
	struct espl_kit *kit = espl_kit_new(1);

	check->kit = kit;
	kit->next_item = 1;
	kit->round = (espl_span)(ITERATION_S * ESPL_SECOND);
	espl_kit_real(kit, "lr", 1e-4, 0.1, ESPL_LOG, 0);
	kit->params[0]->fallback = 0.01;
	espl_kit_int(kit, "units", 16, 256, ESPL_LINEAR);
	espl_kit_choice(kit, "kind", "red|green|blue");
	add_offers(kit, plain);
	kit->experiment.name = "check";
	kit->experiment.deadline = 36000 * ESPL_SECOND;
	kit->experiment.budget = 1000 * ESPL_USD;
	check->model = (struct espl_model){ .size = (uint32_t)sizeof check->model,
		.ctx = kit,
		.speed = model_speed,
		.overheads = model_overheads,
		.stage = model_stage,
		.predict = model_predict };
	espl_kit_keep_history(kit);
	espl_kit_set_service(kit, ESPL_MODEL, &check->model);
}
