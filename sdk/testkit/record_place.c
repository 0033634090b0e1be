/* record_place.c - placers under test: the view, a sink that asks the judge, and what becomes of
 * gangs and nodes when the answer is taken.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit.h"

struct place_sink {
	struct espl_place_sink pub;
	struct espl_kit *kit;
};

static espl_status
sink_place(struct espl_place_sink *sink, uint64_t id, const struct espl_slot *slots, uint32_t count)
{
	struct espl_kit *kit = ((struct place_sink *)(void *)sink)->kit;
	struct kit_item *item = espl__kit_find(kit, id);
	const char *why;
	char text[512] = " nowhere";
	size_t used = 0;
	uint32_t i;

	if (count > 0 && slots != NULL)
		(void)espl__kit_heard(kit, "slots", slots, count * sizeof *slots);
	why = espl__kit_heard(kit, "place", &id, sizeof id);
	if (why == NULL)
		why = espl_judge_place(&kit->judge, id, slots, count);
	for (i = 0; slots != NULL && i < count && used + 48 < sizeof text; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, " %" PRIu64 ".%u",
		    slots[i].node, slots[i].gpu);
	if (why == NULL) {
		item->next = espl__kit_alloc(kit, (count + 1) * sizeof *slots);
		if (count > 0)
			memcpy(item->next, slots, count * sizeof *slots);
		item->next_count = count;
		item->placed = 1;
	}
	return espl__kit_told(kit, why, "place item=%" PRIu64 "%s", id, text);
}

static espl_status
sink_give_up(struct espl_place_sink *sink, uint64_t node)
{
	struct espl_kit *kit = ((struct place_sink *)(void *)sink)->kit;
	const char *why = espl__kit_heard(kit, "give_up", &node, sizeof node);

	if (why == NULL)
		why = espl_judge_give_up(&kit->judge, node);
	if (why == NULL) {
		kit->given_up =
		    espl__kit_more(kit, kit->given_up, kit->given_up_count, sizeof *kit->given_up);
		kit->given_up[kit->given_up_count++] = node;
	}
	return espl__kit_told(kit, why, "give_up node=%" PRIu64, node);
}

static int
is_empty(const struct kit_node *node)
{
	uint32_t k, residents = 0;

	for (k = 0; k < node->pub.gpu_count; k++)
		residents += node->gpus[k]->residents;
	return residents == 0;
}

/* Nodes given up go when they are empty.  While they hold gangs they drain: no new gang is placed
 * there, and theirs must leave. */
static void
give_up(struct espl_kit *kit)
{
	uint32_t i;

	for (i = 0; i < kit->given_up_count; i++) {
		struct kit_node *node = espl__kit_find_node(kit, kit->given_up[i]);

		if (node == NULL || node->gone || node->leaves)
			continue;
		node->leaves = 1;
		if (!is_empty(node))
			espl_kit_node_flags(kit, node->pub.id, node->pub.flags | ESPL_NODE_RETIRING,
			    node->pub.owner);
	}
	for (i = 0; i < kit->node_count; i++)
		kit->nodes[i]->gone |= kit->nodes[i]->leaves && is_empty(kit->nodes[i]);
}

/* The answer as a whole: no GPU is given to more gangs than can share it. */
static void
check_placement(struct espl_kit *kit)
{
	struct espl_judge_slot *list;
	size_t count = 0;
	const char *why;
	uint32_t i, k;

	for (i = 0; i < kit->item_count; i++)
		if (kit->items[i]->placed)
			count += kit->items[i]->gang.slot_count + kit->items[i]->next_count;
	list = calloc(count + 1, sizeof *list);
	if (list == NULL)
		espl__kit_stop("out of memory");
	for (i = 0, count = 0; i < kit->item_count; i++) {
		const struct kit_item *item = kit->items[i];

		if (!item->placed)
			continue;
		for (k = 0; k < item->gang.slot_count; k++)
			list[count++] =
			    (struct espl_judge_slot){ item->slots[k], item->pub.id, -1 };
		for (k = 0; k < item->next_count; k++)
			list[count++] = (struct espl_judge_slot){ item->next[k], item->pub.id, 1 };
	}
	why = espl_judge_places(&kit->judge, list, count);
	free(list);
	if (why != NULL)
		espl__kit_wrong(kit, "%s", why);
}

static void
take_placement(struct espl_kit *kit)
{
	uint32_t i;

	for (i = 0; i < kit->item_count; i++) {
		struct kit_item *item = kit->items[i];
		int same;

		if (!item->placed)
			continue;
		same = item->next_count == item->gang.slot_count &&
		    (item->next_count == 0 ||
			memcmp(item->next, item->slots, item->next_count * sizeof *item->next) ==
			    0);
		/* A gang that keeps some of its slots was resized, not moved. */
		kit->moved += !same && item->gang.slot_count > 0 && item->next_count > 0 &&
		    (item->next[0].node != item->slots[0].node ||
			item->next[0].gpu != item->slots[0].gpu);
		item->slots = item->next;
		item->gang.slots = item->slots;
		item->gang.slot_count = item->next_count;
		item->gang_changed = 0;
	}
	espl__kit_count(kit);
	give_up(kit);
}

static const struct espl_gang *
known_gang(void *ctx, uint64_t id)
{
	const struct kit_item *item = espl__kit_find(ctx, id);

	return item != NULL && item->pub.granted.gpus > 0 ? &item->gang : NULL;
}

static uint32_t
count_reserved(void *ctx, uint64_t id, uint32_t gpu, uint32_t *packing)
{
	const struct kit_node *node = espl__kit_find_node(ctx, id);

	*packing = node->gpus[gpu]->packing;
	return node->gpus[gpu]->residents;
}

/* Flags of a gang as they follow from its slots. */
static void
set_flags(const struct espl_kit *kit, struct kit_item *item)
{
	uint32_t i, flags = 0;

	if (item->gang.slot_count == 0)
		flags |= ESPL_GANG_UNPLACED;
	if ((item->pub.flags & ESPL_ITEM_COLOCATE) != 0)
		flags |= ESPL_GANG_COLOCATE;
	for (i = 0; i < item->gang.slot_count; i++) {
		const struct kit_node *node = espl__kit_find_node(kit, item->slots[i].node);

		if (node == NULL || node->pub.state != ESPL_NODE_READY ||
		    (node->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			flags |= ESPL_GANG_MUST;
	}
	if (item->locked && item->gang.slot_count > 0 && (flags & ESPL_GANG_MUST) == 0)
		flags |= ESPL_GANG_LOCKED;
	item->gang.flags = flags;
	item->gang.share = item->pub.granted;
	item->gang.slots = item->slots;
}

espl_status
espl_kit_place(struct espl_kit *kit)
{
	struct espl_error error;
	const struct espl_placer_ops *ops = (const void *)espl__kit_ops(kit, ESPL_PLACER, &error);
	struct place_sink sink = { { (uint32_t)sizeof sink.pub, 0, sink_place, sink_give_up },
		kit };
	struct espl_place_view view = ESPL_INIT(struct espl_place_view);
	const struct espl_gang **gangs = espl__kit_list(kit->item_count);
	const struct espl_gang **changed = espl__kit_list(kit->item_count);
	const struct espl_node **nodes = espl__kit_list(kit->node_count);
	struct espl_judge *judge;
	espl_status status;
	uint32_t i;

	espl__kit_count(kit);
	for (i = 0; i < kit->item_count; i++) {
		struct kit_item *item = kit->items[i];

		item->placed = 0;
		if (item->pub.granted.gpus == 0) { /* preempted: it has left its place */
			item->gang.slot_count = 0;
			continue;
		}
		set_flags(kit, item);
		gangs[view.gang_count++] = &item->gang;
		if (item->gang_changed)
			changed[view.changed_count++] = &item->gang;
		item->gang_changed = 0;
	}
	espl__kit_count(kit);
	for (i = 0; i < kit->node_count; i++)
		if (!kit->nodes[i]->gone && kit->nodes[i]->pub.state >= ESPL_NODE_READY)
			nodes[view.node_count++] = &kit->nodes[i]->pub;
	view.now = kit->now;
	view.gangs = gangs;
	view.changed = changed;
	view.nodes = nodes;
	view.give_up = kit->surplus;
	view.give_up_count = kit->surplus_count;
	kit->moved = kit->given_up_count = 0;
	judge = espl__kit_judge(kit);
	judge->gang = known_gang;
	judge->reserved = count_reserved;
	espl__kit_call(kit, "place", &view);
	status =
	    espl__kit_returned(kit, &view, ops->place(kit->self, &view, &sink.pub, &error), &error);
	kit->surplus_count = 0;
	free(gangs);
	free(changed);
	free(nodes);
	if (status != ESPL_OK)
		return status;
	check_placement(kit);
	if (kit->wrong)
		return ESPL_E_REJECTED;
	take_placement(kit);
	return ESPL_OK;
}
