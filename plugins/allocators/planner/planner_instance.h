/* planner_instance.h - what all planners have in common as plugins: two options, and doing what the
 * plan says. */
#ifndef PLANNER_INSTANCE_H
#define PLANNER_INSTANCE_H
#include <espalier/kit/follow.h>
#include "planner_again.h"

/* The first two options of every planner. */
enum { PLANNER_GPUS_MAX, PLANNER_OFFER, PLANNER_OWN };
/* clang-format off */
#define PLANNER_OPTIONS \
	{ .name = "gpus_max", .help = "maximum number of GPUs of the cluster; 0: the limit of " \
	  "the cloud", \
	  .type = ESPL_OPT_INT, .fallback = "0", .min = "0", .max = "1000000" }, \
	{ .name = "offer", .help = "name of the cloud offer to lease; absent: the best one", \
	  .type = ESPL_OPT_STRING }
/* clang-format on */

struct planner_instance {
	const struct espl_host *host;
	const char *offer_name;
	uint32_t gpus_max;
	uint32_t offer;  /* to run on without a plan; ESPL_ANY: not chosen yet */
	uint64_t effort; /* steps of work of a plan before the run */
	struct espl_follow follow;
};

static inline void
planner_instance_init(struct planner_instance *self, const struct espl_host *host,
    const struct espl_config *config)
{
	self->host = host;
	self->gpus_max = (uint32_t)config->values[PLANNER_GPUS_MAX].as.i;
	if (config->values[PLANNER_OFFER].source != ESPL_UNSET)
		self->offer_name = config->values[PLANNER_OFFER].as.s;
	self->offer = ESPL_ANY;
	self->effort = PLANNER_EFFORT;
	self->follow.model = (const struct espl_model *)host->service(host, ESPL_MODEL);
}

static inline espl_status
planner_instance_allocate(struct planner_instance *self, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, planner_solve solve, void *ctx, struct espl_error *error)
{
	uint64_t steps = self->effort / PLANNER_LIVE_EFFORT; /* nodes are paid for meanwhile */
	uint32_t bracket, dry, taken = 0, offer;
	espl_status status = ESPL_OK;

	if (self->offer == ESPL_ANY)
		status = espl_choose_offer(view->offers, view->offer_count, self->offer_name,
		    PLANNER_OFFER, &self->offer, error);
	if (status != ESPL_OK)
		return status;
	offer = self->offer_name != NULL ? self->offer : ESPL_ANY;
	if (espl_follow_strays(&self->follow, view, &bracket))
		status = planner_again(self->host, view, sink, offer, self->gpus_max, steps, solve,
		    ctx, &taken, error);
	else if (espl_follow_waits(&self->follow, view, &dry))
		status = planner_without(self->host, view, sink, offer, self->gpus_max, steps, dry,
		    solve, ctx, &taken, error);
	if (status != ESPL_OK)
		return status;
	if (taken)
		return espl_follow_again(&self->follow, view, sink);
	return espl_follow(&self->follow, view, sink, self->offer, error);
}

static inline espl_status
planner_instance_plan(struct planner_instance *self, const struct espl_plan_view *view,
    struct espl_plan_sink *sink, planner_solve solve, void *ctx, struct espl_error *error)
{
	return planner_offline(self->host, view, sink, self->offer_name, PLANNER_OFFER,
	    self->gpus_max, self->effort, solve, ctx, error);
}

#endif
