/* planner_instance.c - a planner in a run: it follows its plan, and plans the rest again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "planner.h"

/* ---- planning again -------------------------------------------------------------------------- */

/* where the run stands */
struct rest {
	struct planner_task task;
	struct planner_effort effort;
	uint32_t *next_stage;
	struct planner_held *held;
};

/* The oldest first: these go first. */
static int
compare_age(const void *a, const void *b)
{
	const struct planner_held *x = a, *y = b;

	return x->billed_s > y->billed_s ? -1 : x->billed_s < y->billed_s;
}

static void
fill_held(struct rest *rest, const struct espl_alloc_view *view, uint32_t dry)
{
	uint32_t i, n = 0;

	for (i = 0; i < view->node_count; i++) {
		const struct espl_node *node = view->nodes[i];

		if ((node->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0 ||
		    node->state == ESPL_NODE_NOTICE ||
		    (node->offer == dry && node->state != ESPL_NODE_READY))
			continue;
		rest->held[n].offer = node->offer;
		if (node->owner != ESPL_NONE)
			rest->held[n].own = (uint32_t)(node->owner & ~ESPL_OWNER_BRACKET) + 1;
		if (node->billed_from != ESPL_NEVER && node->billed_from < view->now)
			rest->held[n].billed_s = espl_seconds(view->now - node->billed_from);
		n++;
	}
	qsort(rest->held, n, sizeof *rest->held, compare_age);
	rest->task.held = rest->held;
	rest->task.held_count = n;
}

/* ESPL_E_INFEASIBLE: no stage remains to be planned. */
static espl_status
look_around(struct rest *rest, const struct espl_alloc_view *view, uint32_t gpus_max,
    uint64_t steps, uint32_t dry, const struct espl_model *model)
{
	const struct espl_experiment *e = view->experiments[0];
	uint32_t b, left = 0;

	memset(rest, 0, sizeof *rest);
	rest->next_stage = calloc((size_t)e->spec->bracket_count + 1, sizeof *rest->next_stage);
	rest->held = calloc((size_t)view->node_count + 1, sizeof *rest->held);
	if (rest->next_stage == NULL || rest->held == NULL)
		return ESPL_E_NOMEM;
	for (b = 0; b < e->spec->bracket_count; b++) {
		uint32_t stages = e->spec->brackets[b]->stage_count;

		if (b < e->standing_count) {
			rest->next_stage[b] = e->standing[b]->stage;
			if (e->standing[b]->trials_left == 0 && e->standing[b]->stage + 1 >= stages)
				rest->next_stage[b] = stages;
		}
		left += stages - rest->next_stage[b];
	}
	rest->effort.most = steps;
	rest->task.effort = &rest->effort;
	rest->task.model = model;
	rest->task.experiment = e;
	rest->task.offers = view->offers;
	rest->task.offer_count = view->offer_count;
	rest->task.gpus_max = gpus_max > 0 && gpus_max < e->gpus_limit ? gpus_max : e->gpus_limit;
	rest->task.deadline_s =
	    e->deadline == ESPL_NEVER ? INFINITY : espl_seconds(e->deadline - view->now);
	rest->task.budget_usd =
	    e->budget == INT64_MAX ? INFINITY : (double)(e->budget - e->spent) / (double)ESPL_USD;
	rest->task.flags = ESPL_FROM_NOW;
	rest->task.next_stage = rest->next_stage;
	rest->task.plan = e->plan;
	fill_held(rest, view, dry);
	return left > 0 ? ESPL_OK : ESPL_E_INFEASIBLE;
}

/* Is the new plan worth changing to?  A thousandth is not. */
static int
is_better(const struct espl_experiment *e, const struct espl_prediction *now,
    const struct espl_prediction *then)
{
	int soonest = e->deadline == ESPL_NEVER && e->budget != INT64_MAX;

	if (now->meets != then->meets)
		return now->meets > then->meets;
	if (soonest)
		return now->jct_s < 0.999 * then->jct_s;
	if (now->cost_usd < 0.999 * then->cost_usd)
		return 1;
	return now->cost_usd <= then->cost_usd && now->jct_s < 0.999 * then->jct_s;
}

static void
report_new_plan(const struct espl_host *host, const struct espl_prediction *now,
    const struct espl_prediction *then, int taken)
{
	char text[400];

	if (!host->verbose)
		return;
	if (taken)
		(void)snprintf(text, sizeof text,
		    "the run has deviated from its plan; new plan: %.6g s and $%.6g from now on "
		    "(old plan: %.6g s and $%.6g%s)",
		    now->jct_s, now->cost_usd, then->jct_s, then->cost_usd,
		    then->meets ? "" : ", over the deadline or the budget");
	else
		(void)snprintf(text, sizeof text,
		    "the run has deviated from its plan, but no better plan was found; keeping it: "
		    "%.6g s and $%.6g from now on%s",
		    then->jct_s, then->cost_usd,
		    then->meets ? "" : ", over the deadline or the budget");
	host->note(host, ESPL_ABOUT_RUN, 0, text);
}

/* If trials were slower than profiled or nodes came late, the remaining stages are planned again
 * when the next stage begins, from the present state and with the measured speeds. The new plan is
 * adopted only if the same model rates it better than the current plan.
 * offer: number, or ESPL_ANY for the best of all.  *taken: 1 if the sink has a new plan. */
static espl_status
plan_again(const struct espl_host *host, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, uint32_t offer, uint32_t gpus_max, uint64_t steps,
    planner_solve solve, void *ctx, uint32_t *taken, struct espl_error *error)
{
	const struct espl_model *model = host->service(host, ESPL_MODEL);
	const struct espl_experiment *e = view->experiments[0];
	struct espl_predict how = ESPL_INIT(struct espl_predict);
	struct espl_prediction then = ESPL_INIT(struct espl_prediction);
	struct planner_result result;
	struct rest rest;
	espl_status status;

	*taken = 0;
	if (model == NULL)
		return ESPL_OK;
	how.experiment = e->id;
	how.flags = ESPL_FROM_NOW | ESPL_AFRESH;
	if (model->predict(model, e->plan, &how, &then, NULL) != ESPL_OK)
		return ESPL_OK; /* nothing to compare with: it goes on */
	status = look_around(&rest, view, gpus_max, steps, ESPL_ANY, model);
	if (status == ESPL_OK) {
		status = planner_find(&rest.task, offer, solve, ctx, &result, NULL);
		if (status == ESPL_OK && is_better(e, &result.predicted, &then)) {
			status = sink->plan(sink, e->id, &result.draft.plan);
			*taken = status == ESPL_OK;
		}
		if (status != ESPL_E_NOMEM)
			report_new_plan(host, &result.predicted, &then, (int)*taken);
		planner_draft_free(&result.draft);
	}
	free(rest.next_stage);
	free(rest.held);
	return status == ESPL_E_NOMEM ? espl_fail(error, status, "out of memory") : ESPL_OK;
}

/* ---- nodes that do not come --------------------------------------------------------------- */

static void
report_dry(const struct espl_host *host, const char *name, const struct espl_prediction *now,
    int taken, uint32_t held)
{
	char text[400];

	if (!host->verbose)
		return;
	if (taken)
		(void)snprintf(text, sizeof text,
		    "nodes of '%.100s' are not available; new plan without more of them: %.6g s "
		    "and $%.6g from now on",
		    name, now->jct_s, now->cost_usd);
	else
		(void)snprintf(text, sizeof text,
		    "nodes of '%.100s' are not available, and no plan without them meets the "
		    "limits: %s",
		    name,
		    held > 0
			? "the stage starts on the available nodes and adds others when they arrive"
			: "no node is available, so the stage waits");
	host->note(host, ESPL_ABOUT_RUN, 0, text);
}

/* A stage waits for nodes of the offer `dry` that do not arrive: the rest is planned as if that
 * offer had no more nodes. Such a plan is adopted if it keeps the deadline and the budget. */
static espl_status
plan_without(const struct espl_host *host, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, uint32_t offer, uint32_t gpus_max, uint64_t steps, uint32_t dry,
    planner_solve solve, void *ctx, uint32_t *taken, struct espl_error *error)
{
	const struct espl_model *model = host->service(host, ESPL_MODEL);
	const struct espl_offer **offers = calloc((size_t)view->offer_count + 1, sizeof *offers);
	struct espl_offer gone = *view->offers[dry];
	struct planner_result result = { 0 };
	struct rest rest = { 0 };
	espl_status status = offers != NULL ? ESPL_OK : ESPL_E_NOMEM;

	*taken = 0;
	if (status == ESPL_OK && model != NULL)
		status = look_around(&rest, view, gpus_max, steps, dry, model);
	if (status == ESPL_OK && model != NULL) {
		memcpy(offers, view->offers, view->offer_count * sizeof *offers);
		gone.flags |= ESPL_OFFER_GONE;
		offers[dry] = &gone;
		rest.task.offers = offers;
		status = planner_find(&rest.task, offer, solve, ctx, &result, NULL);
		if (status == ESPL_OK && result.predicted.meets) {
			status = sink->plan(sink, view->experiments[0]->id, &result.draft.plan);
			*taken = status == ESPL_OK;
		}
		if (status != ESPL_E_NOMEM)
			report_dry(host, gone.name, &result.predicted, (int)*taken,
			    rest.task.held_count);
		planner_draft_free(&result.draft);
	}
	free(rest.next_stage);
	free(rest.held);
	free(offers);
	return status == ESPL_E_NOMEM ? espl_fail(error, status, "out of memory") : ESPL_OK;
}

/* ---- instance -------------------------------------------------------------------------------- */

void
planner_instance_init(struct planner_instance *self, const struct espl_host *host,
    const struct espl_config *config)
{
	self->host = host;
	self->magic = PLANNER_MAGIC;
	self->gpus_max = (uint32_t)config->values[PLANNER_GPUS_MAX].as.i;
	if (config->values[PLANNER_OFFER].source != ESPL_UNSET)
		self->offer_name = config->values[PLANNER_OFFER].as.s;
	self->offer = ESPL_ANY;
	self->effort = PLANNER_EFFORT;
	self->follow.stays = self->offer_name != NULL;
	self->follow.model = (const struct espl_model *)host->service(host, ESPL_MODEL);
}

espl_status
planner_instance_allocate(struct planner_instance *self, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, planner_solve solve, void *ctx, struct espl_error *error)
{
	uint64_t steps = self->effort / PLANNER_LIVE_EFFORT; /* nodes are paid for meanwhile */
	uint32_t bracket, dry, taken = 0, offer;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(self->magic == PLANNER_MAGIC && solve != NULL);
	if (self->offer != ESPL_ANY && espl_offer_is_lost(view, self->offer))
		self->offer = ESPL_ANY;
	if (self->offer == ESPL_ANY)
		status = espl_choose_offer(view->offers, view->offer_count, self->offer_name,
		    PLANNER_OFFER, &self->offer, error);
	if (status != ESPL_OK)
		return status;
	offer = self->offer_name != NULL ? self->offer : ESPL_ANY;
	if (espl_follow_strays(&self->follow, view, &bracket))
		status = plan_again(self->host, view, sink, offer, self->gpus_max, steps, solve,
		    ctx, &taken, error);
	else if (espl_follow_waits(&self->follow, view, &dry))
		status = plan_without(self->host, view, sink, offer, self->gpus_max, steps, dry,
		    solve, ctx, &taken, error);
	if (status != ESPL_OK)
		return status;
	if (taken)
		return espl_follow_again(&self->follow, view, sink);
	return espl_follow(&self->follow, view, sink, self->offer, error);
}

espl_status
planner_instance_plan(struct planner_instance *self, const struct espl_plan_view *view,
    struct espl_plan_sink *sink, planner_solve solve, void *ctx, struct espl_error *error)
{
	ESPL_ASSERT(self->magic == PLANNER_MAGIC && solve != NULL);
	return planner_offline(self->host, view, sink, self->offer_name, PLANNER_OFFER,
	    self->gpus_max, self->effort, solve, ctx, error);
}
