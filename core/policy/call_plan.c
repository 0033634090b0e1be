/* call_plan.c - asking an allocator for its plan, and holding every plan to the model.
 *
 * The host does not believe what a planner says of its plan: it predicts it again, and refuses
 * one that leaves out a stage, cannot be placed, or does not meet deadline and budget.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "policy/call.h"
#include "policy/call_private.h"

struct plan_call {
	struct espl_plan_sink sink;
	struct espl__call call;
	uint64_t experiment;
};

static espl_status
sink_plan(struct espl_plan_sink *sink, const struct espl_plan *plan)
{
	struct plan_call *p = (struct plan_call *)sink;

	return espl__call_take_plan(&p->call, p->experiment, plan, 0);
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
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct plan_call p;
	espl_status status;
	int64_t began;

	ESPL__CHECK(i, INSTANCE);
	error.option = ESPL_ANY;
	error.row = ESPL_ANY;
	memset(&p, 0, sizeof p);
	p.sink.size = (uint32_t)sizeof p.sink;
	p.sink.plan = sink_plan;
	p.sink.least = sink_least;
	p.experiment = view->experiment->id;
	c->least_s = c->least_usd = NAN;
	began = espl__call_begin(c, i, "plan", &p.call);
	espl__calling_asked("offers", view->offer_count, "GPUs at most", view->gpus_max, NULL, 0);
	status = ops->plan(i->self, view, &p.sink, &error);
	if (status != ESPL_E_BUSY)
		return espl__call_end(&p.call, began, status, &error, diag);
	/* what it submitted counts */
	(void)espl__call_end(&p.call, began, ESPL_OK, &error, diag);
	return status;
}
