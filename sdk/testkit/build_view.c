/* build_view.c - machines and trials made by a test, and the views made of them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "kit.h"

/* ---- offers ------------------------------------------------------------------------------ */

uint32_t
espl_kit_offer(struct espl_kit *kit, const char *name, uint32_t gpus, uint32_t nodes_max,
    double usd_hour)
{
	static const struct espl_latency none = { (uint32_t)sizeof none, ESPL_CONSTANT, 0, 0, NULL,
		0, 0 };
	struct espl_offer *offer = espl__kit_alloc(kit, sizeof *offer);
	uint32_t n = kit->offer_count;

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	offer->size = (uint32_t)sizeof *offer;
	offer->number = n;
	offer->gpus = gpus;
	offer->cpus = gpus;
	offer->nodes_max = nodes_max;
	offer->name = espl__kit_text(kit, name, strlen(name));
	offer->market = "on-demand";
	offer->gpu_type = offer->zone = "";
	offer->price_hour = (espl_money)llround(usd_hour * (double)ESPL_USD);
	offer->billing = ESPL_BILL_NODE;
	offer->billed_from = ESPL_BILL_FROM_READY;
	offer->billing_step = ESPL_SECOND;
	offer->provision = offer->init = &none;
	offer->hazard_hour = NAN;
	kit->offers = espl__kit_more(kit, kit->offers, n, sizeof *kit->offers);
	kit->targets = espl__kit_more(kit, kit->targets, n, sizeof *kit->targets);
	kit->new_targets = espl__kit_more(kit, kit->new_targets, n, sizeof *kit->new_targets);
	kit->lost = espl__kit_more(kit, kit->lost, n, sizeof *kit->lost);
	kit->offers[n] = offer;
	kit->targets[n] = kit->new_targets[n] = kit->lost[n] = 0;
	kit->offer_count = n + 1;
	return n;
}

struct espl_offer *
espl_kit_offer_at(struct espl_kit *kit, uint32_t number)
{
	if (number >= kit->offer_count)
		espl__kit_stop("there is no such offer");
	return kit->offers[number];
}

void
espl_kit_set_target(struct espl_kit *kit, uint32_t offer, uint32_t nodes)
{
	(void)espl_kit_offer_at(kit, offer);
	kit->targets[offer] = nodes;
}

uint32_t
espl_kit_target(const struct espl_kit *kit, uint32_t offer)
{
	return offer < kit->offer_count ? kit->targets[offer] : 0;
}

/* ---- nodes ------------------------------------------------------------------------------- */

uint64_t
espl_kit_node(struct espl_kit *kit, uint32_t offer, espl_node_state state)
{
	struct kit_node *node = espl__kit_alloc(kit, sizeof *node);
	uint32_t i, gpus = espl_kit_offer_at(kit, offer)->gpus;

	node->gpus = espl__kit_alloc(kit, (gpus + 1) * sizeof *node->gpus);
	for (i = 0; i < gpus; i++) {
		node->gpus[i] = espl__kit_alloc(kit, sizeof **node->gpus);
		node->gpus[i]->size = (uint32_t)sizeof **node->gpus;
	}
	node->pub.size = (uint32_t)sizeof node->pub;
	node->pub.state = state;
	node->pub.id = kit->node_count;
	node->pub.offer = offer;
	node->pub.gpu_count = node->pub.gpus_idle = gpus;
	node->pub.gpus = (const struct espl_gpu *const *)node->gpus;
	node->pub.owner = ESPL_NONE;
	node->pub.ready_at = node->pub.billed_from = kit->now;
	node->pub.ends_at = ESPL_NEVER;
	kit->nodes = espl__kit_more(kit, kit->nodes, kit->node_count, sizeof *kit->nodes);
	kit->nodes[kit->node_count++] = node;
	kit->why |= ESPL_WHY_NODES;
	return node->pub.id;
}

struct kit_node *
espl__kit_find_node(const struct espl_kit *kit, uint64_t id)
{
	return id < kit->node_count && !kit->nodes[id]->gone ? kit->nodes[id] : NULL;
}

static struct kit_node *
node_at(const struct espl_kit *kit, uint64_t id)
{
	struct kit_node *node = espl__kit_find_node(kit, id);

	if (node == NULL)
		espl__kit_stop("there is no such node");
	return node;
}

/* Gangs on a node that is no good any more are looked at again. */
static void
mark_gangs_evicted(struct espl_kit *kit, uint64_t node)
{
	uint32_t i, k;

	for (i = 0; i < kit->item_count; i++)
		for (k = 0; k < kit->items[i]->gang.slot_count; k++)
			if (kit->items[i]->slots[k].node == node) {
				kit->items[i]->changed = kit->items[i]->gang_changed = 1;
				kit->items[i]->pub.flags |= ESPL_ITEM_EVICTED;
			}
}

void
espl_kit_node_state(struct espl_kit *kit, uint64_t id, espl_node_state state)
{
	struct kit_node *node = node_at(kit, id);

	node->pub.state = state;
	node->gone = state == ESPL_NODE_ENDED;
	kit->why |= state == ESPL_NODE_NOTICE ? ESPL_WHY_NOTICE : ESPL_WHY_NODES;
	if (state == ESPL_NODE_NOTICE || state == ESPL_NODE_ENDED)
		mark_gangs_evicted(kit, id);
}

void
espl_kit_node_flags(struct espl_kit *kit, uint64_t id, uint32_t flags, uint64_t owner)
{
	struct kit_node *node = node_at(kit, id);

	node->pub.flags = flags;
	node->pub.owner = owner;
	kit->why |= ESPL_WHY_NODES;
	if ((flags & ESPL_NODE_RETIRING) != 0)
		mark_gangs_evicted(kit, id);
}

void
espl_kit_block(struct espl_kit *kit, uint64_t id, uint32_t gpu)
{
	struct kit_node *node = node_at(kit, id);

	if (gpu >= node->pub.gpu_count)
		espl__kit_stop("the node has no such GPU");
	node->gpus[gpu]->blocked = 1;
	kit->why |= ESPL_WHY_NODES;
}

uint32_t
espl_kit_nodes(const struct espl_kit *kit, uint32_t offer)
{
	uint32_t i, held = 0;

	for (i = 0; i < kit->node_count; i++)
		held += !kit->nodes[i]->gone && kit->nodes[i]->pub.offer == offer &&
		    kit->nodes[i]->pub.owner == ESPL_NONE;
	return held;
}

void
espl_kit_provision(struct espl_kit *kit)
{
	uint32_t offer;

	for (offer = 0; offer < kit->offer_count; offer++)
		while (espl_kit_nodes(kit, offer) < kit->targets[offer])
			(void)espl_kit_node(kit, offer, ESPL_NODE_READY);
}

void
espl__kit_count(struct espl_kit *kit)
{
	uint32_t i, k;

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	for (i = 0; i < kit->offer_count; i++)
		kit->lost[i] = 0;
	for (i = 0; i < kit->node_count; i++)
		for (k = 0; k < kit->nodes[i]->pub.gpu_count; k++)
			kit->nodes[i]->gpus[k]->residents = kit->nodes[i]->gpus[k]->packing = 0;
	for (i = 0; i < kit->item_count; i++)
		for (k = 0; k < kit->items[i]->gang.slot_count; k++) {
			const struct espl_slot *slot = &kit->items[i]->slots[k];
			struct kit_node *node = espl__kit_find_node(kit, slot->node);

			if (node != NULL && slot->gpu < node->pub.gpu_count) {
				node->gpus[slot->gpu]->residents++;
				node->gpus[slot->gpu]->packing = slot->packing;
			}
		}
	for (i = 0; i < kit->node_count; i++) {
		struct kit_node *node = kit->nodes[i];

		node->pub.gpus_idle = node->sound = 0;
		for (k = 0; k < node->pub.gpu_count; k++) {
			node->sound += node->gpus[k]->blocked == 0;
			node->pub.gpus_idle +=
			    node->gpus[k]->residents == 0 && node->gpus[k]->blocked == 0;
		}
		if ((node->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			node->sound = 0;
		if (!node->gone && (node->pub.flags & ESPL_NODE_RETIRING) == 0)
			kit->lost[node->pub.offer] += node->pub.gpu_count - node->sound;
		if ((node->pub.flags & ESPL_NODE_UNREACHABLE) != 0) /* only its gangs count */
			node->sound -= node->sound > 0 ? node->pub.gpus_idle : 0;
		if (node->pub.state != ESPL_NODE_READY ||
		    (node->pub.flags &
			(ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) != 0)
			node->pub.gpus_idle = 0;
	}
}

/* ---- items ------------------------------------------------------------------------------- */

uint64_t
espl_kit_item(struct espl_kit *kit, uint32_t gpus_min, uint32_t gpus_max)
{
	struct kit_item *item = espl__kit_alloc(kit, sizeof *item);
	uint64_t id = kit->next_item++;

	ESPL_ASSERT(gpus_min <= gpus_max);
	item->pub.size = (uint32_t)sizeof item->pub;
	item->pub.id = item->pub.trial = id;
	item->pub.bracket = item->pub.stage = ESPL_ANY;
	item->pub.arrived = kit->now;
	item->pub.started = ESPL_NEVER;
	item->pub.work_s = item->pub.work_total_s = NAN;
	item->pub.gpus_min = gpus_min;
	item->pub.gpus_max = gpus_max;
	item->pub.unit = item->pub.packing_max = 1;
	item->pub.granted.packing = 1;
	item->pub.offer = item->pub.gpu = ESPL_ANY;
	item->pub.weight = 1.0;
	item->pub.resize_s = item->pub.boundary_s = item->pub.start_s = NAN;
	item->gang.size = (uint32_t)sizeof item->gang;
	item->gang.item = id;
	item->gang.share.packing = 1;
	item->gang.offer = ESPL_ANY;
	item->gang.owner = ESPL_NONE;
	item->gang.move_s = NAN;
	item->changed = 1;
	kit->items = espl__kit_more(kit, kit->items, kit->item_count, sizeof *kit->items);
	kit->items[kit->item_count++] = item;
	kit->why |= ESPL_WHY_ARRIVAL;
	return id;
}

struct kit_item *
espl__kit_find(const struct espl_kit *kit, uint64_t id)
{
	uint32_t low = 0, high = kit->item_count;

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (kit->items[middle]->pub.id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < kit->item_count && kit->items[low]->pub.id == id ? kit->items[low] : NULL;
}

static struct kit_item *
item_at(const struct espl_kit *kit, uint64_t id)
{
	struct kit_item *item = espl__kit_find(kit, id);

	if (item == NULL)
		espl__kit_stop("there is no such item");
	return item;
}

struct espl_item *
espl_kit_item_at(struct espl_kit *kit, uint64_t id)
{
	struct kit_item *item = item_at(kit, id);

	item->changed = 1;
	return &item->pub;
}

void
espl_kit_leave(struct espl_kit *kit, uint64_t id)
{
	struct kit_item *item = item_at(kit, id);
	uint32_t i;

	for (i = 0; kit->items[i] != item; i++)
		;
	memmove(&kit->items[i], &kit->items[i + 1],
	    (kit->item_count - i - 1) * sizeof(struct kit_item *));
	kit->item_count--;
	for (i = kit->gone_count; i > 0 && kit->gone[i - 1] > id; i--)
		;
	kit->gone = espl__kit_more(kit, kit->gone, kit->gone_count, sizeof *kit->gone);
	memmove(&kit->gone[i + 1], &kit->gone[i], (kit->gone_count - i) * sizeof *kit->gone);
	kit->gone[i] = id;
	kit->gone_count++;
	kit->why |= ESPL_WHY_DEPARTURE;
}

void
espl_kit_grant(struct espl_kit *kit, uint64_t id, uint32_t gpus, uint32_t packing)
{
	struct kit_item *item = item_at(kit, id);

	item->pub.granted.gpus = gpus;
	item->pub.granted.packing = packing;
	item->changed = item->gang_changed = 1;
}

void
espl_kit_lock(struct espl_kit *kit, uint64_t id, int locked)
{
	struct kit_item *item = item_at(kit, id);

	item->locked = locked != 0;
	item->gang_changed = 1;
}

struct espl_gang *
espl_kit_gang_at(struct espl_kit *kit, uint64_t id)
{
	struct kit_item *item = item_at(kit, id);

	item->gang_changed = 1;
	return &item->gang;
}

void
espl_kit_put(struct espl_kit *kit, uint64_t id, const struct espl_slot *slots, uint32_t count)
{
	struct kit_item *item = item_at(kit, id);

	ESPL_ASSERT(slots != NULL || count == 0);
	item->slots = espl__kit_alloc(kit, (count + 1) * sizeof *slots);
	if (count > 0)
		memcpy(item->slots, slots, count * sizeof *slots);
	item->gang.slots = item->slots;
	item->gang.slot_count = count;
	item->gang.share = item->pub.granted;
}

const struct espl_slot *
espl_kit_slots(const struct espl_kit *kit, uint64_t id, uint32_t *count)
{
	const struct kit_item *item = item_at(kit, id);

	*count = item->gang.slot_count;
	return item->slots;
}

void
espl_kit_surplus(struct espl_kit *kit, uint32_t offer, uint32_t nodes)
{
	kit->surplus = espl__kit_more(kit, kit->surplus, kit->surplus_count, sizeof *kit->surplus);
	kit->surplus[kit->surplus_count].offer = offer;
	kit->surplus[kit->surplus_count].nodes = nodes;
	kit->surplus_count++;
}

uint32_t
espl_kit_moved(const struct espl_kit *kit)
{
	return kit->moved;
}
