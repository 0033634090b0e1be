/* record_place.c - placers under test: the view, a sink that checks, and what becomes of gangs and
 * nodes when the answer is taken.
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

static const char *
place_wrong(struct espl_kit *kit, uint64_t id, const struct espl_slot *slots, uint32_t count)
{
	const struct kit_item *item = espl__kit_find(kit, id);
	uint32_t i;

	if (item == NULL || item->pub.granted.gpus == 0)
		return espl__kit_why(kit, KIT_REFUSED, "there is no gang of item %" PRIu64, id);
	if ((item->gang.flags & ESPL_GANG_LOCKED) != 0)
		return espl__kit_why(kit, KIT_REFUSED, "item %" PRIu64 " is locked", id);
	if (count > 0 && slots == NULL)
		return espl__kit_why(kit, KIT_REFUSED,
		    "%u slots for item %" PRIu64 ", but no list of them", count, id);
	if (count > 0 && count != item->pub.granted.gpus)
		return espl__kit_why(kit, KIT_REFUSED,
		    "%u slots for item %" PRIu64 ", whose grant is of %u", count, id,
		    item->pub.granted.gpus);
	for (i = 0; i < count; i++) {
		const struct kit_node *node = espl__kit_find_node(kit, slots[i].node);

		if (node == NULL || slots[i].gpu >= node->pub.gpu_count ||
		    slots[i].packing != item->pub.granted.packing)
			return espl__kit_why(kit, KIT_REFUSED,
			    "item %" PRIu64 " on GPU %u of node %" PRIu64
			    " with packing %u: there is no such GPU, or it is granted with "
			    "packing %u",
			    id, slots[i].gpu, slots[i].node, slots[i].packing,
			    item->pub.granted.packing);
	}
	return NULL;
}

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
		why = place_wrong(kit, id, slots, count);
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

	if (why == NULL && espl__kit_find_node(kit, node) == NULL)
		why = espl__kit_why(kit, KIT_REFUSED, "there is no node %" PRIu64, node);
	if (why == NULL) {
		kit->given_up =
		    espl__kit_more(kit, kit->given_up, kit->given_up_count, sizeof *kit->given_up);
		kit->given_up[kit->given_up_count++] = node;
	}
	return espl__kit_told(kit, why, "give_up node=%" PRIu64, node);
}

/* An unreachable node takes nothing new: a slot there must be one that the gang has. */
static int
may_reach(const struct kit_node *node, const struct kit_item *item, const struct espl_slot *slot)
{
	uint32_t k;

	for (k = 0; k < item->gang.slot_count; k++)
		if (item->slots[k].node == slot->node && item->slots[k].gpu == slot->gpu)
			return 1;
	return (node->pub.flags & ESPL_NODE_UNREACHABLE) == 0;
}

/* A gang's new slots: nodes it may use, together if it must be. */
static void
check_gang(struct espl_kit *kit, const struct kit_item *item)
{
	const struct kit_node *node = NULL;
	uint32_t i, k, on_node = 0, size = 0;
	int whole = 1;

	for (i = 0; i < item->next_count; i++) {
		const struct espl_slot *slot = &item->next[i];

		if (i == 0 || slot->node != item->next[i - 1].node) {
			whole &= i == 0 || on_node == size;
			on_node = 0;
			node = espl__kit_find_node(kit, slot->node);
			size = node != NULL ? node->pub.gpu_count : 0;
		}
		on_node++;
		if (node == NULL || node->pub.state != ESPL_NODE_READY || slot->gpu >= size ||
		    (node->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0 ||
		    !may_reach(node, item, slot) || node->gpus[slot->gpu]->blocked != 0 ||
		    node->pub.owner != item->gang.owner ||
		    (item->gang.offer != ESPL_ANY && item->gang.offer != node->pub.offer)) {
			espl__kit_wrong(kit, "item %" PRIu64 " may not use %" PRIu64 ".%u",
			    item->pub.id, slot->node, slot->gpu);
			return;
		}
		for (k = 0; k < i; k++)
			if (item->next[k].node == slot->node && item->next[k].gpu == slot->gpu)
				espl__kit_wrong(kit, "item %" PRIu64 " has a GPU twice",
				    item->pub.id);
	}
	whole &= on_node == size;
	if ((item->gang.flags & ESPL_GANG_COLOCATE) != 0 && item->next_count > 0 && !whole &&
	    item->next[0].node != item->next[item->next_count - 1].node)
		espl__kit_wrong(kit, "item %" PRIu64 " straddles nodes", item->pub.id);
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

/* The slots in force after the call, all together. */
static void
check_placement(struct espl_kit *kit)
{
	uint32_t i, k;

	for (i = 0; i < kit->item_count; i++)
		if (kit->items[i]->placed)
			check_gang(kit, kit->items[i]);
	if (kit->wrong)
		return;
	for (i = 0; i < kit->item_count; i++)
		if (kit->items[i]->placed) {
			struct kit_item *item = kit->items[i];
			int same = item->next_count == item->gang.slot_count &&
			    (item->next_count == 0 ||
				memcmp(item->next, item->slots,
				    item->next_count * sizeof *item->next) == 0);

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
	for (i = 0; i < kit->node_count; i++)
		for (k = 0; k < kit->nodes[i]->pub.gpu_count && !kit->nodes[i]->gone; k++)
			if (kit->nodes[i]->taken[k] > 256)
				espl__kit_wrong(kit,
				    "too many gangs on a GPU: %u on GPU %u of node %u",
				    kit->nodes[i]->gpus[k]->residents, k, i);
	if (!kit->wrong)
		give_up(kit);
}

/* Flags of a gang as they follow from its slots. */
static void
set_flags(const struct espl_kit *kit, struct kit_item *item)
{
	uint32_t i, flags = item->gang.flags & ESPL_GANG_LOCKED;

	if (item->gang.slot_count == 0)
		flags |= ESPL_GANG_UNPLACED;
	if ((item->pub.flags & ESPL_ITEM_COLOCATE) != 0)
		flags |= ESPL_GANG_COLOCATE;
	for (i = 0; i < item->gang.slot_count; i++) {
		const struct kit_node *node = espl__kit_find_node(kit, item->slots[i].node);

		if (node == NULL || node->pub.state == ESPL_NODE_NOTICE ||
		    (node->pub.flags & ESPL_NODE_RETIRING) != 0)
			flags |= ESPL_GANG_MUST;
	}
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
	return kit->wrong ? ESPL_E_REJECTED : ESPL_OK;
}
