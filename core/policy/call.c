/* call.c - calling the allocator and the placer, and what all calls share.
 *
 * Sinks ask the judge (sdk/kit/judge.h), which the test kit asks, too.  What it refuses is refused
 * at once, with a warning in the plugin's name; call_whole.c judges answers as a whole.
 */
#include "base/assert.h"
#include "policy/call.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include <espalier/util.h>

#include "base/log.h"
#include "base/text.h"
#include "policy/call_private.h"

#define REFUSALS_TOLD 20u /* one line each; a plugin that is wrong is wrong often */
#define ANSWERS_MAX \
	4000000u /* limit per call, so that a plugin in a loop does not use up all memory */

void
espl__caller_free(struct espl__caller *c)
{
	espl__buf_free(&c->ops);
	free(c->closed);
	free(c->scratch);
	for (uint32_t i = 0; i < c->submitted_count; i++)
		free((void *)(uintptr_t)c->submitted[i].request.input);
	free(c->submitted);
}

espl_status
espl__call_refuse(struct espl__call *call, const char *why)
{
	struct espl__caller *c = call->caller;

	ESPL__ASSERT(c != NULL && call->instance != NULL);
	(void)snprintf(c->why, sizeof c->why, "%s", why);
	if (call->judge.status == ESPL_E_UNKNOWN)
		return ESPL_E_UNKNOWN; /* not a mistake: it may have been there before */
	if (++c->rejected > REFUSALS_TOLD)
		return ESPL_E_REJECTED;
	espl__log(ESPL_WARN, "%s misbehaves: %s", call->instance->who, why);
	if (c->rejected == REFUSALS_TOLD)
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
espl__call_take(struct espl__call *call, const char *why, const struct espl__op *op)
{
	if (why != NULL)
		return espl__call_refuse(call, why);
	espl__call_record(call, op);
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
	memset(&call->judge, 0, offsetof(struct espl_judge, status));
	call->judge.status = ESPL_E_REJECTED;
	call->judge.now = c->now != NULL ? *c->now : INT64_MIN;
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

struct alloc_call {
	struct espl_alloc_sink sink;
	struct espl__call call;
};

const struct espl_item *
espl__caller_item(void *ctx, uint64_t id)
{
	const struct espl__caller *c = ctx;

	return c->item(c->items_ctx, id);
}

const struct espl_node *
espl__caller_node(void *ctx, uint64_t id)
{
	const struct espl__caller *c = ctx;
	const struct espl__machine *n = c->fleet != NULL ? espl__machine_at(c->fleet, id) : NULL;

	return n != NULL && n->live ? &n->pub : NULL;
}

static espl_status
alloc_grant(struct espl_alloc_sink *sink, const struct espl_grant *g)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_GRANT, .as.grant = *g };

	return espl__call_take(call, espl_judge_grant(&call->judge, g), &op);
}

static espl_status
alloc_target(struct espl_alloc_sink *sink, const struct espl_target *t)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_TARGET, .as.target = *t };

	return espl__call_take(call, espl_judge_target(&call->judge, t), &op);
}

static espl_status
alloc_retire(struct espl_alloc_sink *sink, uint64_t node)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_RETIRE, .as.id = node };

	return espl__call_take(call, espl_judge_retire(&call->judge, node), &op);
}

static espl_status
alloc_claim(struct espl_alloc_sink *sink, uint64_t node, uint32_t bracket)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_CLAIM, .as.claim = { node, bracket } };

	return espl__call_take(call, espl_judge_claim(&call->judge, node), &op);
}

/* A plan given to a sink: judged by its form, then by the model. */
static espl_status
take_plan(struct espl__call *call, uint64_t experiment, const struct espl_plan *plan, int from_now)
{
	struct espl__caller *c = call->caller;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__op op = { .type = ESPL__OP_PLAN };
	const char *why = espl_judge_plan(&call->judge, experiment, plan, from_now);

	if (why == NULL && c->foretell != NULL &&
	    c->foretell(c->foretell_ctx, plan, from_now, &diag) != ESPL_OK)
		why = diag.text;
	if (why != NULL)
		return espl__call_refuse(call, why);
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
	return take_plan(&((struct alloc_call *)sink)->call, experiment, plan, 1);
}

static espl_status
alloc_wake(struct espl_alloc_sink *sink, espl_time at)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_WAKE, .as.at = at };

	return espl__call_take(call, espl_judge_wake(&call->judge, at), &op);
}

static espl_status
alloc_watch(struct espl_alloc_sink *sink, uint32_t offer, uint32_t on)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_WATCH, .as.watch = { offer, on != 0 } };

	return espl__call_take(call, espl_judge_watch(&call->judge, offer), &op);
}

static espl_status
alloc_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_OBJECTIVE,
		.as.objective = { value, bound, status } };

	return espl__call_take(call, espl_judge_objective(&call->judge, status), &op);
}

static espl_status
alloc_horizon(struct espl_alloc_sink *sink, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	struct espl__call *call = &((struct alloc_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_HORIZON,
		.as.horizon = { item, steps, gpus } };

	return espl__call_take(call, espl_judge_horizon(&call->judge, item, gpus, steps), &op);
}

static void
know_allocator(struct espl__call *call, const struct espl_alloc_view *view)
{
	struct espl_judge *judge = &call->judge;

	judge->ctx = call->caller;
	judge->node = espl__caller_node;
	judge->item = espl__caller_item;
	judge->offers = view->offers;
	judge->offer_count = view->offer_count;
	judge->experiments = view->experiments;
	judge->experiment_count = view->experiment_count;
	judge->shares = call->caller->shares;
}

espl_status
espl__call_allocate(struct espl__caller *c, struct espl__instance *i,
    const struct espl_alloc_view *view, struct espl__diag *diag)
{
	const struct espl_allocator_ops *ops = (const struct espl_allocator_ops *)i->ops;
	struct alloc_call a = { .sink = { .size = (uint32_t)sizeof a.sink,
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
	know_allocator(&a.call, view);
	espl__calling_asked("items", view->item_count, "nodes", view->node_count, "second",
	    view->now / ESPL_SECOND);
	return espl__call_end(&a.call, ops->allocate(i->self, view, &a.sink, &a.call.error), diag);
}

/* ---- placer ------------------------------------------------------------------------------- */

struct place_call {
	struct espl_place_sink sink;
	struct espl__call call;
};

const struct espl_gang *
espl__caller_gang(void *ctx, uint64_t item)
{
	const struct espl__caller *c = ctx;

	return c->gang(c->items_ctx, item);
}

static espl_status
place_place(struct espl_place_sink *sink, uint64_t item, const struct espl_slot *slots,
    uint32_t count)
{
	struct espl__call *call = &((struct place_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_PLACE, .as.place = { item, count, slots } };

	return espl__call_take(call, espl_judge_place(&call->judge, item, slots, count), &op);
}

static espl_status
place_give_up(struct espl_place_sink *sink, uint64_t node)
{
	struct espl__call *call = &((struct place_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_GIVE_UP, .as.id = node };

	return espl__call_take(call, espl_judge_give_up(&call->judge, node), &op);
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
	p.call.judge.ctx = c;
	p.call.judge.node = espl__caller_node;
	p.call.judge.gang = espl__caller_gang;
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
	p.call.judge.offers = view->offers;
	p.call.judge.offer_count = view->offer_count;
	espl__calling_asked("offers", view->offer_count, "GPUs at most", view->gpus_max, NULL, 0);
	status = ops->plan(i->self, view, &p.sink, &p.call.error);
	/* of a busy one, what it submitted counts */
	if (status == ESPL_E_BUSY)
		(void)espl__call_end(&p.call, ESPL_OK, diag);
	return status == ESPL_E_BUSY ? status : espl__call_end(&p.call, status, diag);
}
