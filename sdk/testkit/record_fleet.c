/* record_fleet.c - allocators under test: views, a sink that asks the judge, answers that are taken
 * whole or not at all.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit.h"

struct alloc_sink {
	struct espl_alloc_sink pub;
	struct espl_kit *kit;
};
struct plan_sink {
	struct espl_plan_sink pub;
	struct espl_kit *kit;
};

static struct espl_kit *
kit_of(struct espl_alloc_sink *sink)
{
	return ((struct alloc_sink *)(void *)sink)->kit;
}

/* ---- allocation -------------------------------------------------------------------------- */

static espl_status
sink_grant(struct espl_alloc_sink *sink, const struct espl_grant *grant)
{
	struct espl_kit *kit = kit_of(sink);
	struct kit_item *item = espl__kit_find(kit, grant->item);
	char offer[24] = "";
	const char *why = espl__kit_heard(kit, "grant", grant, sizeof *grant);

	if (why == NULL)
		why = espl_judge_grant(&kit->judge, grant);
	if (why == NULL && (grant->flags & ESPL_GRANT_QUEUED) == 0) {
		kit->grants =
		    espl__kit_more(kit, kit->grants, kit->grant_count, sizeof *kit->grants);
		kit->grants[kit->grant_count++] =
		    (struct espl_judge_grant){ grant->item, grant->share };
		item->granted = grant->share;
		item->asked = 1;
		item->on_bracket = (grant->flags & ESPL_GRANT_BRACKET) != 0;
	}
	if (grant->flags & ESPL_GRANT_QUEUED)
		return espl__kit_told(kit, why, "queued item=%" PRIu64 " gpus=%u/%u", grant->item,
		    grant->share.gpus, grant->share.packing);
	if (grant->offer != ESPL_ANY)
		(void)snprintf(offer, sizeof offer, " offer=%u", grant->offer);
	if (grant->share.packing > 1)
		return espl__kit_told(kit, why, "grant item=%" PRIu64 " gpus=1/%u%s", grant->item,
		    grant->share.packing, offer);
	return espl__kit_told(kit, why, "grant item=%" PRIu64 " gpus=%u%s", grant->item,
	    grant->share.gpus, offer);
}

static espl_status
sink_target(struct espl_alloc_sink *sink, const struct espl_target *target)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "target", target, sizeof *target);

	if (why == NULL)
		why = espl_judge_target(&kit->judge, target);
	if (why == NULL)
		kit->new_targets[target->offer] = target->nodes;
	return espl__kit_told(kit, why, "target offer=%u nodes=%u", target->offer, target->nodes);
}

static espl_status
sink_retire(struct espl_alloc_sink *sink, uint64_t node)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "retire", &node, sizeof node);

	if (why == NULL)
		why = espl_judge_retire(&kit->judge, node);
	return espl__kit_told(kit, why, "retire node=%" PRIu64, node);
}

static espl_status
sink_claim(struct espl_alloc_sink *sink, uint64_t id, uint32_t bracket)
{
	struct espl_kit *kit = kit_of(sink);
	uint64_t bytes[2] = { id, bracket };
	const char *why = espl__kit_heard(kit, "claim", bytes, sizeof bytes);

	if (why == NULL)
		why = espl_judge_claim(&kit->judge, id);
	if (why == NULL)
		espl__kit_find_node(kit, id)->claimed = ESPL_OWNER_BRACKET | bracket;
	return espl__kit_told(kit, why, "claim node=%" PRIu64 " bracket=%u", id, bracket);
}

static espl_status
take_plan(struct espl_kit *kit, uint64_t experiment, const struct espl_plan *plan, int replan)
{
	uint32_t i, count = plan != NULL ? plan->stage_count : 0;
	const char *why = espl__kit_heard(kit, "plan", &count, sizeof count);

	if (why == NULL)
		why = espl_judge_plan(&kit->judge, experiment, plan, replan);
	if (why != NULL)
		return espl__kit_told(kit, why, "plan stages=%u", count);
	for (i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		uint32_t bytes[5] = { s->bracket, s->stage, s->offer, s->gpus, s->nodes };

		(void)espl__kit_heard(kit, "plan", bytes, sizeof bytes);
		(void)espl__kit_told(kit, NULL, "plan bracket=%u stage=%u offer=%u gpus=%u",
		    s->bracket, s->stage, s->offer, s->gpus);
	}
	return !replan && kit->watch != NULL ? kit->watch->plan(kit->watch->ctx, plan) : ESPL_OK;
}

static espl_status
sink_replan(struct espl_alloc_sink *sink, uint64_t experiment, const struct espl_plan *plan)
{
	return take_plan(kit_of(sink), experiment, plan, 1);
}

static espl_status
sink_wake(struct espl_alloc_sink *sink, espl_time at)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "wake_at", &at, sizeof at);

	if (why == NULL)
		why = espl_judge_wake(&kit->judge, at);
	return espl__kit_told(kit, why, "wake_at %.9g s", (double)at / 1e9);
}

static espl_status
sink_watch(struct espl_alloc_sink *sink, uint32_t offer, uint32_t on)
{
	struct espl_kit *kit = kit_of(sink);
	uint32_t bytes[2] = { offer, on };
	const char *why = espl__kit_heard(kit, "watch_prices", bytes, sizeof bytes);

	if (why == NULL)
		why = espl_judge_watch(&kit->judge, offer);
	return espl__kit_told(kit, why, "watch_prices offer=%u %s", offer, on ? "on" : "off");
}

static espl_status
sink_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	struct espl_kit *kit = kit_of(sink);
	double bytes[2] = { value, bound };
	const char *why = espl__kit_heard(kit, "objective", bytes, sizeof bytes);

	if (why == NULL)
		why = espl_judge_objective(&kit->judge, status);
	return espl__kit_told(kit, why, "objective %.9g bound %.9g %s", value, bound,
	    status != NULL ? status : "");
}

static espl_status
sink_horizon(struct espl_alloc_sink *sink, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	struct espl_kit *kit = kit_of(sink);
	const char *wrong = espl_judge_horizon(&kit->judge, item, gpus, steps);
	const char *why =
	    espl__kit_heard(kit, "horizon", gpus, wrong != NULL ? 0 : steps * sizeof *gpus);

	if (why == NULL)
		why = wrong;
	return espl__kit_told(kit, why, "horizon item=%" PRIu64 " steps=%u", item, steps);
}

static struct espl_sum
grants_in_force(const struct espl_kit *kit)
{
	struct espl_sum sum = { 0, { 0 }, 0 };
	uint32_t i;

	for (i = 0; i < kit->item_count; i++)
		espl_sum_count(&sum, kit->items[i]->pub.granted, 1);
	return sum;
}

/* The answer as a whole. */
static void
check_allocation(struct espl_kit *kit)
{
	const struct espl_sum in_force = grants_in_force(kit);
	const struct espl_budget budget = { .targets = kit->new_targets,
		.limit = kit->experiment.gpus_limit,
		.limit_is = "experiment.gpus_max is",
		.in_force = &in_force };
	const char *why = espl_judge_grants(&kit->judge, kit->grants, kit->grant_count, &budget);

	if (why != NULL)
		espl__kit_wrong(kit, "%s", why);
}

static const struct espl_item *
known_item(void *ctx, uint64_t id)
{
	const struct kit_item *item = espl__kit_find(ctx, id);

	return item != NULL ? &item->pub : NULL;
}

static void
know_fleet(struct espl_kit *kit)
{
	struct espl_judge *judge = espl__kit_judge(kit);

	judge->item = known_item;
	judge->offers = (const struct espl_offer *const *)kit->offers;
	judge->offer_count = kit->offer_count;
	judge->experiments = kit->experiments;
	judge->experiment_count = 1;
	kit->grant_count = 0;
}

static void
take_allocation(struct espl_kit *kit)
{
	uint32_t i;

	for (i = 0; i < kit->offer_count; i++)
		kit->targets[i] = kit->new_targets[i];
	for (i = 0; i < kit->node_count; i++)
		if (kit->nodes[i]->claimed != ESPL_NONE)
			kit->nodes[i]->pub.owner = kit->nodes[i]->claimed;
	for (i = 0; i < kit->item_count; i++) {
		struct kit_item *item = kit->items[i];

		if (item->asked) {
			item->pub.granted = item->granted;
			if (item->on_bracket)
				item->gang.owner = ESPL_OWNER_BRACKET | item->pub.bracket;
			item->gang_changed = 1;
		}
	}
}

/* Lists of what the view points at. */
struct lists {
	const struct espl_item **items, **changed;
	const struct espl_node **nodes;
};

void *
espl__kit_list(uint32_t count)
{
	void *list = calloc((size_t)count + 1, sizeof(void *));

	if (list == NULL)
		espl__kit_stop("out of memory");
	return list;
}

/* The nodes an item stands on, and its GPU, from its gang's slots. */
static void
report_place(struct espl_kit *kit, struct kit_item *item)
{
	uint32_t i, n = 0, count = item->gang.slot_count;

	if (count > item->node_room) {
		item->nodes = espl__kit_alloc(kit, 2 * count * sizeof *item->nodes);
		item->node_room = 2 * count;
	}
	for (i = 0; i < count; i++)
		if (n == 0 || item->nodes[n - 1] != item->slots[i].node)
			item->nodes[n++] = item->slots[i].node;
	item->pub.nodes = item->nodes;
	item->pub.node_count = n;
	item->pub.gpu = count == 1 ? item->slots[0].gpu : ESPL_ANY;
}

static void
fill_view(struct espl_kit *kit, struct espl_alloc_view *view, struct lists *lists)
{
	struct espl_sum sum;
	uint32_t i;

	lists->items = espl__kit_list(kit->item_count);
	lists->changed = espl__kit_list(kit->item_count);
	lists->nodes = espl__kit_list(kit->node_count);
	memset(view, 0, sizeof *view);
	view->size = (uint32_t)sizeof *view;
	view->why = kit->why;
	view->now = kit->now;
	view->items = lists->items;
	view->changed = lists->changed;
	view->nodes = lists->nodes;
	view->experiments = kit->experiments;
	view->experiment_count = 1;
	view->offers = (const struct espl_offer *const *)kit->offers;
	view->offer_count = kit->offer_count;
	view->targets = kit->targets;
	view->gpus_lost = kit->lost;
	view->item_count = kit->item_count;
	view->gone = kit->gone;
	view->gone_count = kit->gone_count;
	sum = grants_in_force(kit);
	view->gpus_granted = (uint32_t)espl_sum_gpus(&sum);
	for (i = 0; i < kit->item_count; i++) {
		report_place(kit, kit->items[i]);
		lists->items[i] = &kit->items[i]->pub;
		if (kit->items[i]->changed)
			lists->changed[view->changed_count++] = &kit->items[i]->pub;
	}
	for (i = 0; i < kit->node_count; i++) {
		const struct espl_node *node = &kit->nodes[i]->pub;

		if (kit->nodes[i]->gone)
			continue;
		lists->nodes[view->node_count++] = node;
		view->gpus += node->state == ESPL_NODE_READY ? kit->nodes[i]->sound : 0;
		view->gpus_idle += node->gpus_idle;
	}
}

espl_status
espl_kit_allocate(struct espl_kit *kit)
{
	struct espl_error error;
	const struct espl_allocator_ops *ops =
	    (const void *)espl__kit_ops(kit, ESPL_ALLOCATOR, &error);
	struct alloc_sink sink = { { (uint32_t)sizeof sink.pub, 0, sink_grant, sink_target,
				       sink_retire, sink_replan, sink_wake, sink_watch,
				       sink_objective, sink_horizon, sink_claim },
		kit };
	struct espl_alloc_view view;
	struct lists lists;
	espl_status status;
	uint32_t i;

	espl__kit_count(kit);
	fill_view(kit, &view, &lists);
	for (i = 0; i < kit->item_count; i++) {
		kit->items[i]->granted = kit->items[i]->pub.granted;
		kit->items[i]->asked = kit->items[i]->changed = 0;
	}
	for (i = 0; i < kit->offer_count; i++)
		kit->new_targets[i] = kit->targets[i];
	for (i = 0; i < kit->node_count; i++)
		kit->nodes[i]->claimed = ESPL_NONE;
	kit->why = kit->gone_count = 0;
	know_fleet(kit);
	espl__kit_call(kit, "allocate", &view);
	status = espl__kit_returned(kit, &view, ops->allocate(kit->self, &view, &sink.pub, &error),
	    &error);
	free(lists.items);
	free(lists.changed);
	free(lists.nodes);
	if (status != ESPL_OK)
		return status;
	check_allocation(kit);
	if (kit->wrong)
		return ESPL_E_REJECTED;
	take_allocation(kit);
	return ESPL_OK;
}

static espl_status
sink_plan(struct espl_plan_sink *sink, const struct espl_plan *plan)
{
	return take_plan(((struct plan_sink *)(void *)sink)->kit, 0, plan, 0);
}

static espl_status
sink_least(struct espl_plan_sink *sink, double deadline_s, double budget_usd)
{
	struct espl_kit *kit = ((struct plan_sink *)(void *)sink)->kit;
	double bytes[2] = { deadline_s, budget_usd };

	return espl__kit_told(kit, espl__kit_heard(kit, "least", bytes, sizeof bytes),
	    "least deadline=%.9g budget=%.9g", deadline_s, budget_usd);
}

espl_status
espl_kit_plan(struct espl_kit *kit, uint32_t gpus_max)
{
	struct espl_error error;
	const struct espl_allocator_ops *ops =
	    (const void *)espl__kit_ops(kit, ESPL_ALLOCATOR, &error);
	struct plan_sink sink = { { (uint32_t)sizeof sink.pub, 0, sink_plan, sink_least }, kit };
	struct espl_plan_view view = ESPL_INIT(struct espl_plan_view);

	if (!ESPL_HAS(struct espl_allocator_ops, ops, plan) || kit->experiment.spec == NULL)
		espl__kit_stop("the allocator plans nothing, or the experiment has no spec");
	view.gpus_max = gpus_max;
	view.experiment = &kit->experiment;
	view.offers = (const struct espl_offer *const *)kit->offers;
	view.offer_count = kit->offer_count;
	know_fleet(kit);
	espl__kit_call(kit, "plan", &view);
	return espl__kit_returned(kit, &view, ops->plan(kit->self, &view, &sink.pub, &error),
	    &error);
}
