/* call.c - calling the allocator and the placer, and what all calls share.
 *
 * Sinks refuse what cannot be (unknown ids, shares outside an item's limits, slots that do not
 * exist) at once, with a warning in the plugin's name; sums are checked by the executor.
 */
#include "base/assert.h"
#include "policy/call.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include <espalier/kit/rules.h>
#include <espalier/util.h>

#include "base/log.h"
#include "base/text.h"
#include "policy/call_private.h"

#define REFUSALS_TOLD 20u /* one line each; a plugin that is wrong is wrong often */
#define PLAN_STAGES_MOST 1000000u
#define HORIZON_MOST 10000u /* steps */
#define ANSWERS_MAX \
	4000000u /* limit per call, so that a plugin in a loop does not use up all memory */

void
espl__caller_free(struct espl__caller *c)
{
	espl__buf_free(&c->ops);
	for (uint32_t i = 0; i < c->submitted_count; i++)
		free((void *)(uintptr_t)c->submitted[i].request.input);
	free(c->submitted);
}

espl_status
espl__call_refuse(struct espl__call *call, const char *format, ...)
{
	char text[400];

	ESPL__ASSERT(call->caller != NULL && call->instance != NULL);
	if (++call->caller->rejected > REFUSALS_TOLD)
		return ESPL_E_REJECTED;
	ESPL__FORMAT(text, format);
	espl__log(ESPL_WARN, "%s misbehaves: %s", call->instance->who, text);
	if (call->caller->rejected == REFUSALS_TOLD)
		espl__log(ESPL_WARN, "%u plugin calls rejected; further ones are not logged",
		    REFUSALS_TOLD);
	return ESPL_E_REJECTED;
}

void
espl__call_record(struct espl__call *call, const struct espl__op *op)
{
	ESPL__ASSERT(call->caller != NULL && call->instance != NULL);
	if (call->caller->answered++ < ANSWERS_MAX)
		espl__op_put(op, call->caller->params, &call->caller->ops);
	else if (call->caller->answered == ANSWERS_MAX + 1)
		espl__log(ESPL_WARN,
		    "%s has answered %u times in one call and continues; ignoring the answer of "
		    "that call",
		    call->instance->who, ANSWERS_MAX);
}

espl_status
espl__call_wake(struct espl__call *call, espl_time at, espl_time now)
{
	const struct espl__op op = { .type = ESPL__OP_WAKE, .as.at = at };
	char text[200];
	const char *wrong = espl_wake_wrong(at, now, text, sizeof text);

	ESPL__ASSERT(call->caller != NULL);
	if (wrong != NULL)
		return espl__call_refuse(call, "a wake_at at %s", wrong);
	espl__call_record(call, &op);
	return ESPL_OK;
}

void
espl__call_begin(struct espl__call *call, struct espl__caller *c, struct espl__instance *i,
    const char *entry)
{
	ESPL__CHECK(i, INSTANCE);
	call->caller = c;
	call->instance = i;
	/* Its texts are long, and calls many: they are not cleared beyond their ends. */
	call->error.size = (uint32_t)sizeof call->error;
	call->error.status = ESPL_OK;
	call->error.option = call->error.row = ESPL_ANY;
	call->error.text[0] = call->error.hint[0] = '\0';
	espl__buf_clear(&c->ops);
	for (uint32_t k = 0; k < c->submitted_count; k++)
		free((void *)(uintptr_t)c->submitted[k].request.input);
	c->submitted_count = 0;
	c->answered = 0;
	c->calls++;
	c->stamp++;
	espl__instance_calls(i, entry);
	call->began = c->tick != NULL ? c->tick() : 0;
}

espl_status
espl__call_end(struct espl__call *call, espl_status status, struct espl__diag *diag)
{
	struct espl__caller *c = call->caller;
	uint64_t decided = c->answered > 0 && status == ESPL_OK ? c->answered : 1;

	ESPL__ASSERT(c->submitted_count == 0 || c->submitted != NULL);
	espl__calling_end();
	c->decisions += decided;
	if (c->tick != NULL) {
		int64_t took = c->tick() - call->began;
		espl__quantiles_add(&c->call_times, took);
		espl__quantiles_add_many(&c->times, took / (int64_t)decided, decided);
	}
	if (status == ESPL_OK && c->answered > ANSWERS_MAX) {
		espl__buf_clear(&c->ops);
		return espl__fail(diag, ESPL_E_REJECTED,
		    "%s: answered more than %u times in one call", call->instance->who,
		    ANSWERS_MAX);
	}
	if (status != ESPL_OK) {
		espl__buf_clear(&c->ops);
		if (status != ESPL_E_BUSY) {
			(void)espl__diag_plugin(diag, call->instance->who, status, &call->error);
			espl__values_blame(call->instance->values, &call->error, diag);
		}
	}
	return status;
}

espl_status
espl__caller_submit(struct espl__caller *c, const struct espl_compute_request *request,
    uint64_t *token, struct espl_error *error)
{
	struct espl__submission *s;
	struct espl__op op = { .type = ESPL__OP_SUBMIT };
	void *copy;

	if (request->limit <= 0 || request->assumed < 0 ||
	    (request->input == NULL && request->input_size > 0))
		return espl_fail(error, ESPL_E_REJECTED,
		    "a computation needs an input and a limit above 0");
	ESPL__GROW(c->submitted, c->submitted_cap, c->submitted_count + 1);
	s = &c->submitted[c->submitted_count++];
	s->token = c->compute_next++;
	s->request = *request;
	copy = espl__alloc((size_t)request->input_size + 1);
	if (request->input_size > 0)
		memcpy(copy, request->input, (size_t)request->input_size);
	s->request.input = copy;
	s->request.what = "computation";
	op.as.id = s->token;
	espl__op_put(&op, c->params, &c->ops);
	c->answered++;
	*token = s->token;
	return ESPL_OK;
}

/* ---- allocator ---------------------------------------------------------------------------- */

static const char of_others[] =
    "a claim or retirement of a node, or a watch on prices, by an allocator that does not "
    "control the cluster";

struct alloc_call {
	struct espl_alloc_sink sink;
	struct espl__call call;
	const struct espl_alloc_view *view;
};

static espl_status
alloc_grant(struct espl_alloc_sink *sink, const struct espl_grant *g)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_GRANT, .as.grant = *g };
	char text[200];
	const char *wrong =
	    espl_grant_wrong(g, a->call.caller->item(a->call.caller->items_ctx, g->item),
		a->view->offer_count, text, sizeof text);

	if (wrong != NULL)
		return espl__call_refuse(&a->call, "a grant of %s", wrong);
	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

static espl_status
alloc_target(struct espl_alloc_sink *sink, const struct espl_target *t)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_TARGET, .as.target = *t };
	char text[200];
	const char *wrong =
	    espl_target_wrong(t, a->view->offers, a->view->offer_count, text, sizeof text);

	if (wrong != NULL)
		return espl__call_refuse(&a->call, "a target of %s", wrong);
	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

/* NULL if the node does not exist or has ended. */
static const struct espl__machine *
find_live(const struct espl__caller *c, uint64_t node)
{
	const struct espl__machine *n = c->fleet != NULL ? espl__machine_at(c->fleet, node) : NULL;

	return n != NULL && n->live ? n : NULL;
}

static espl_status
alloc_retire(struct espl_alloc_sink *sink, uint64_t node)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	struct espl__op op = { .type = ESPL__OP_RETIRE, .as.id = node };

	if (a->call.caller->shares)
		return espl__call_refuse(&a->call, "%s", of_others);
	if (find_live(a->call.caller, node) == NULL)
		return espl__call_refuse(&a->call, "retirement of node %llu, which does not exist",
		    LLU(node));
	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

static espl_status
alloc_claim(struct espl_alloc_sink *sink, uint64_t node, uint32_t bracket)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	struct espl__op op = { .type = ESPL__OP_CLAIM, .as.claim = { node, bracket } };
	const struct espl__machine *n = find_live(a->call.caller, node);

	if (a->call.caller->shares)
		return espl__call_refuse(&a->call, "%s", of_others);
	if (n == NULL || n->occupants > 0)
		return espl__call_refuse(&a->call,
		    "claim of node %llu, which does not exist or is in use", LLU(node));
	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

static int
well_formed(const struct espl_plan *plan)
{
	if (plan == NULL || plan->stage_count == 0 || plan->stage_count > PLAN_STAGES_MOST ||
	    plan->stages == NULL)
		return 0;
	for (uint32_t i = 0; i < plan->stage_count; i++)
		if (plan->stages[i] == NULL || plan->stages[i]->gpus == 0)
			return 0;
	return 1;
}

/* A plan given to a sink: judged by the model, then recorded. */
static espl_status
take_plan(struct espl__call *call, uint64_t experiment, const struct espl_plan *plan, int from_now)
{
	struct espl__caller *c = call->caller;
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__op op = { .type = ESPL__OP_PLAN };
	espl_status status;

	if (!well_formed(plan))
		return espl__call_refuse(call, "a plan without stages, or a stage without GPUs");
	status = c->judge != NULL ? c->judge(c->judge_ctx, plan, from_now, &why) : ESPL_OK;
	if (status != ESPL_OK) {
		(void)espl__call_refuse(call, "%s", why.text);
		return ESPL_E_REJECTED;
	}
	op.as.plan.experiment = experiment;
	memcpy(&op.as.plan.plan, plan, offsetof(struct espl_plan, effort));
	if (plan->size >= sizeof *plan)
		op.as.plan.plan.effort = plan->effort;
	else
		op.as.plan.plan.flags &= ~ESPL_PLAN_EFFORT;
	espl__call_record(call, &op);
	return ESPL_OK;
}

static espl_status
alloc_plan(struct espl_alloc_sink *sink, uint64_t experiment, const struct espl_plan *plan)
{
	struct alloc_call *a = (struct alloc_call *)sink;

	return a->call.caller->shares
	    ? espl__call_refuse(&a->call,
		  "a plan for an experiment that only has a share of a cluster")
	    : take_plan(&a->call, experiment, plan, 1);
}

static espl_status
alloc_wake(struct espl_alloc_sink *sink, espl_time at)
{
	struct alloc_call *a = (struct alloc_call *)sink;

	return espl__call_wake(&a->call, at, a->call.caller->now != NULL ? a->view->now : at);
}

static espl_status
alloc_watch(struct espl_alloc_sink *sink, uint32_t offer, uint32_t on)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	struct espl__op op = { .type = ESPL__OP_WATCH, .as.watch = { offer, on != 0 } };

	if (a->call.caller->shares)
		return espl__call_refuse(&a->call, "%s", of_others);
	if (offer >= a->view->offer_count)
		return espl__call_refuse(&a->call, "watch_prices of offer %u, which does not exist",
		    offer);
	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

static espl_status
alloc_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_OBJECTIVE,
		.as.objective = { value, bound,
		    status != NULL && strlen(status) < 64 ? status : "" } };

	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

static espl_status
alloc_horizon(struct espl_alloc_sink *sink, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	struct alloc_call *a = (struct alloc_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_HORIZON,
		.as.horizon = { item, steps, gpus } };

	if (a->call.caller->item(a->call.caller->items_ctx, item) == NULL || steps > HORIZON_MOST)
		return espl__call_refuse(&a->call,
		    "a horizon of %u steps for item %llu, which does not exist, or a horizon that "
		    "is too long",
		    steps, LLU(item));
	espl__call_record(&a->call, &op);
	return ESPL_OK;
}

espl_status
espl__call_allocate(struct espl__caller *c, struct espl__instance *i,
    const struct espl_alloc_view *view, struct espl__diag *diag)
{
	const struct espl_allocator_ops *ops = (const struct espl_allocator_ops *)i->ops;
	struct alloc_call a = { .view = view,
		.sink = { .size = (uint32_t)sizeof a.sink,
		    .grant = alloc_grant,
		    .target = alloc_target,
		    .retire = alloc_retire,
		    .plan = alloc_plan,
		    .wake_at = alloc_wake,
		    .watch_prices = alloc_watch,
		    .objective = alloc_objective,
		    .horizon = alloc_horizon,
		    .claim = alloc_claim } };

	espl__call_begin(&a.call, c, i, "allocate");
	espl__calling_asked("items", view->item_count, "nodes", view->node_count, "second",
	    view->now / ESPL_SECOND);
	return espl__call_end(&a.call, ops->allocate(i->self, view, &a.sink, &a.call.error), diag);
}

/* ---- placer ------------------------------------------------------------------------------- */

struct place_call {
	struct espl_place_sink sink;
	struct espl__call call;
};

static int
slots_good(const struct espl__fleet *fleet, const struct espl_item *item,
    const struct espl_slot *slots, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		struct espl__machine *n;
		if (espl__gpu_at(fleet, &slots[k], &n) == NULL ||
		    slots[k].packing != item->granted.packing ||
		    (n->pub.state != ESPL_NODE_READY && n->pub.state != ESPL_NODE_NOTICE) ||
		    (item->offer != ESPL_ANY && n->pub.offer != item->offer))
			return 0;
		for (uint32_t j = 0; j < k; j++)
			if (slots[j].node == slots[k].node && slots[j].gpu == slots[k].gpu)
				return 0;
	}
	return 1;
}

static espl_status
place_place(struct espl_place_sink *sink, uint64_t item_id, const struct espl_slot *slots,
    uint32_t count)
{
	struct place_call *p = (struct place_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_PLACE,
		.as.place = { item_id, count, slots } };
	const struct espl_item *item = p->call.caller->item(p->call.caller->items_ctx, item_id);

	if (item == NULL || item->granted.gpus == 0)
		return espl__call_refuse(&p->call, "a placement of item %llu, which has no grant",
		    LLU(item_id));
	if (count != 0 && count != item->granted.gpus)
		return espl__call_refuse(&p->call,
		    "a placement with %u slots for item %llu, which is granted %u", count,
		    LLU(item_id), item->granted.gpus);
	if (!slots_good(p->call.caller->fleet, item, slots, count))
		return espl__call_refuse(&p->call,
		    "a placement of item %llu on a GPU or node that does not exist, is listed "
		    "twice or has another packing",
		    LLU(item_id));
	espl__call_record(&p->call, &op);
	return ESPL_OK;
}

static espl_status
place_give_up(struct espl_place_sink *sink, uint64_t node)
{
	struct place_call *p = (struct place_call *)sink;
	struct espl__op op = { .type = ESPL__OP_GIVE_UP, .as.id = node };

	if (find_live(p->call.caller, node) == NULL)
		return espl__call_refuse(&p->call, "giving up node %llu, which does not exist",
		    LLU(node));
	espl__call_record(&p->call, &op);
	return ESPL_OK;
}

espl_status
espl__call_place(struct espl__caller *c, struct espl__instance *i,
    const struct espl_place_view *view, struct espl__diag *diag)
{
	const struct espl_placer_ops *ops = (const struct espl_placer_ops *)i->ops;
	struct place_call p = { .sink = { .size = (uint32_t)sizeof p.sink,
				    .place = place_place,
				    .give_up = place_give_up } };

	espl__call_begin(&p.call, c, i, "place");
	espl__calling_asked("gangs", view->gang_count, "nodes", view->node_count, "second",
	    view->now / ESPL_SECOND);
	return espl__call_end(&p.call, ops->place(i->self, view, &p.sink, &p.call.error), diag);
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* Asking an allocator for its plan, and holding every plan to the model.
 *
 * The host does not rely on a planner's own prediction: it predicts the plan again, and refuses
 * one that leaves out a stage, cannot be placed, or does not meet deadline and budget.
 */

struct plan_call {
	struct espl_plan_sink sink;
	struct espl__call call;
	uint64_t experiment;
};

static espl_status
sink_plan(struct espl_plan_sink *sink, const struct espl_plan *plan)
{
	struct plan_call *p = (struct plan_call *)sink;

	return take_plan(&p->call, p->experiment, plan, 0);
}

static espl_status
sink_least(struct espl_plan_sink *sink, double deadline_s, double budget_usd)
{
	struct plan_call *p = (struct plan_call *)sink;

	p->call.caller->least_s = deadline_s;
	p->call.caller->least_usd = budget_usd;
	return ESPL_OK;
}

espl_status
espl__call_plan(struct espl__caller *c, struct espl__instance *i, const struct espl_plan_view *view,
    struct espl__diag *diag)
{
	const struct espl_allocator_ops *ops = (const struct espl_allocator_ops *)i->ops;
	struct plan_call p = {
		.experiment = view->experiment->id,
		.sink = { .size = (uint32_t)sizeof p.sink, .plan = sink_plan, .least = sink_least }
	};
	espl_status status;

	c->least_s = c->least_usd = NAN;
	espl__call_begin(&p.call, c, i, "plan");
	espl__calling_asked("offers", view->offer_count, "GPUs at most", view->gpus_max, NULL, 0);
	status = ops->plan(i->self, view, &p.sink, &p.call.error);
	/* of a busy one, what it submitted counts */
	if (status == ESPL_E_BUSY)
		(void)espl__call_end(&p.call, ESPL_OK, diag);
	return status == ESPL_E_BUSY ? status : espl__call_end(&p.call, status, diag);
}
