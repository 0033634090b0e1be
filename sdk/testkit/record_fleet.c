/* record_fleet.c - allocators under test: views, sinks that check, answers that are taken whole or
 * not at all.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/rules.h>
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
	char text[200], offer[24] = "";
	const char *why =
	    espl__kit_handed(kit, "grant", grant, sizeof *grant, sizeof *grant, grant->zero);

	if (why == NULL)
		why = espl_grant_wrong(grant, item != NULL ? &item->pub : NULL, kit->offer_count,
		    text, sizeof text);
	if (why == NULL && (grant->flags & ESPL_GRANT_QUEUED) == 0) {
		if (item->asked)
			espl__kit_wrong(kit,
			    "item %" PRIu64
			    " is granted twice in one answer, which is refused whole",
			    grant->item);
		item->granted = grant->share;
		item->asked = 1;
		if ((grant->flags & ESPL_GRANT_BRACKET) != 0)
			item->gang.owner = ESPL_OWNER_BRACKET | item->pub.bracket;
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
	char text[200];
	const char *why =
	    espl__kit_handed(kit, "target", target, sizeof *target, sizeof *target, target->zero);

	if (why == NULL)
		why = espl_target_wrong(target, (const struct espl_offer *const *)kit->offers,
		    kit->offer_count, text, sizeof text);
	if (why == NULL)
		kit->new_targets[target->offer] = target->nodes;
	return espl__kit_told(kit, why, "target offer=%u nodes=%u", target->offer, target->nodes);
}

static espl_status
sink_retire(struct espl_alloc_sink *sink, uint64_t node)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "retire", &node, sizeof node);

	if (why == NULL && espl__kit_find_node(kit, node) == NULL)
		why = espl__kit_why(kit, KIT_REFUSED, "there is no node %" PRIu64, node);
	return espl__kit_told(kit, why, "retire node=%" PRIu64, node);
}

static espl_status
sink_claim(struct espl_alloc_sink *sink, uint64_t id, uint32_t bracket)
{
	struct espl_kit *kit = kit_of(sink);
	struct kit_node *node = espl__kit_find_node(kit, id);
	uint64_t bytes[2] = { id, bracket };
	const char *why = espl__kit_heard(kit, "claim", bytes, sizeof bytes);

	if (why == NULL && node == NULL)
		why = espl__kit_why(kit, KIT_REFUSED, "there is no node %" PRIu64, id);
	else if (why == NULL && node->pub.gpus_idle < node->pub.gpu_count)
		why = espl__kit_why(kit, KIT_REFUSED, "node %" PRIu64 " is in use", id);
	if (why == NULL)
		node->claimed = ESPL_OWNER_BRACKET | bracket;
	return espl__kit_told(kit, why, "claim node=%" PRIu64 " bracket=%u", id, bracket);
}

static espl_status
take_plan(struct espl_kit *kit, const struct espl_plan *plan, int judged)
{
	const char *why =
	    espl__kit_heard(kit, "plan", &plan->stage_count, sizeof plan->stage_count);
	uint32_t i;

	for (i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		uint32_t bytes[5] = { s->bracket, s->stage, s->offer, s->gpus, s->nodes };
		const char *wrong = espl__kit_heard(kit, "plan", bytes, sizeof bytes);

		if (wrong == NULL && (s->gpus == 0 || s->offer >= kit->offer_count))
			wrong = why = espl__kit_why(kit, KIT_REFUSED,
			    "stage %u of bracket %u has no GPUs, or an offer that does not exist",
			    s->stage, s->bracket);
		(void)espl__kit_told(kit, wrong, "plan bracket=%u stage=%u offer=%u gpus=%u",
		    s->bracket, s->stage, s->offer, s->gpus);
	}
	if (why != NULL)
		return ESPL_E_REJECTED;
	return judged && kit->watch != NULL ? kit->watch->plan(kit->watch->ctx, plan) : ESPL_OK;
}

static espl_status
sink_replan(struct espl_alloc_sink *sink, uint64_t experiment, const struct espl_plan *plan)
{
	(void)experiment;
	return take_plan(kit_of(sink), plan, 0);
}

static espl_status
sink_wake(struct espl_alloc_sink *sink, espl_time at)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "wake_at", &at, sizeof at);
	char text[200];

	if (why == NULL && espl_wake_wrong(at, kit->now, text, sizeof text) != NULL)
		why = espl__kit_why(kit, KIT_REFUSED, "%s", text);
	return espl__kit_told(kit, why, "wake_at %.9g s", (double)at / 1e9);
}

static espl_status
sink_watch(struct espl_alloc_sink *sink, uint32_t offer, uint32_t on)
{
	struct espl_kit *kit = kit_of(sink);
	uint32_t bytes[2] = { offer, on };
	const char *why = espl__kit_heard(kit, "watch_prices", bytes, sizeof bytes);

	if (why == NULL && offer >= kit->offer_count)
		why =
		    espl__kit_why(kit, KIT_REFUSED, "watch_prices: offer %u does not exist", offer);
	return espl__kit_told(kit, why, "watch_prices offer=%u %s", offer, on ? "on" : "off");
}

static espl_status
sink_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	struct espl_kit *kit = kit_of(sink);
	double bytes[2] = { value, bound };

	return espl__kit_told(kit, espl__kit_heard(kit, "objective", bytes, sizeof bytes),
	    "objective %.9g bound %.9g %s", value, bound, status);
}

static espl_status
sink_horizon(struct espl_alloc_sink *sink, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	struct espl_kit *kit = kit_of(sink);
	int wrong = espl__kit_find(kit, item) == NULL || steps > 10000;
	const char *why = espl__kit_heard(kit, "horizon", gpus, wrong ? 0 : steps * sizeof *gpus);

	if (why == NULL && wrong)
		why = espl__kit_why(kit, KIT_REFUSED,
		    "%u steps for item %" PRIu64 ": there is no such item, or they are too many",
		    steps, item);
	return espl__kit_told(kit, why, "horizon item=%" PRIu64 " steps=%u", item, steps);
}

/* GPUs that all grants take, sharers of a degree packed as close as they go.  next: as answered
 * by the running call, else those in force. */
static uint64_t
sum_of_grants(const struct espl_kit *kit, int next)
{
	uint32_t sharers[65] = { 0 }, i;
	uint64_t granted = 0;

	for (i = 0; i < kit->item_count; i++) {
		const struct espl_share *share =
		    next ? &kit->items[i]->granted : &kit->items[i]->pub.granted;

		if (share->packing > 1)
			sharers[share->packing < 64 ? share->packing : 64]++;
		else
			granted += share->gpus;
	}
	for (i = 2; i <= 64; i++)
		granted += (sharers[i] + i - 1) / i;
	return granted;
}

/* The sum of all grants against the targets. */
static void
check_allocation(struct espl_kit *kit)
{
	uint64_t held = 0, granted = sum_of_grants(kit, 1);
	uint32_t i;

	for (i = 0; i < kit->offer_count; i++)
		held += (uint64_t)kit->new_targets[i] * kit->offers[i]->gpus;
	if (granted > held)
		espl__kit_wrong(kit, "%" PRIu64 " GPUs are granted, but the targets hold %" PRIu64,
		    granted, held);
	if (kit->experiment.gpus_limit != ESPL_ANY && granted > kit->experiment.gpus_limit)
		espl__kit_wrong(kit, "%" PRIu64 " GPUs granted, the experiment may hold %u",
		    granted, kit->experiment.gpus_limit);
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
	view->gpus_granted = (uint32_t)sum_of_grants(kit, 0);
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
	return take_plan(((struct plan_sink *)(void *)sink)->kit, plan, 1);
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
	espl__kit_call(kit, "plan", &view);
	return espl__kit_returned(kit, &view, ops->plan(kit->self, &view, &sink.pub, &error),
	    &error);
}
