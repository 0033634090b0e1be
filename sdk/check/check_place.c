/* check_place.c - check-plugin for placers: placements are held against the nodes: right number of
 * slots, no GPU twice.
 */
#include <stdlib.h>
#include <string.h>

#include <espalier/placer.h>

#include "base/mem.h"
#include "check/check_guard.h"

#define GPUS 4u /* of every node */

struct place {
	struct espl__check *check;
	struct espl__instance *instance;
	const struct espl_placer_ops *ops;
	struct espl_place_sink sink;
	struct espl_place_view view;
	struct espl_gang *gangs;
	const struct espl_gang **gang_list;
	struct espl_node *nodes;
	const struct espl_node **node_list;
	struct espl_gpu *gpus;
	const struct espl_gpu **gpu_list;
	struct espl_slot **slots; /* the answer, by gang */
	uint32_t *slot_counts;
	uint64_t placed;
};

static struct place *
of(struct espl_place_sink *sink)
{
	return (struct place *)(void *)((char *)sink - offsetof(struct place, sink));
}

static espl_status
sink_place(struct espl_place_sink *sink, uint64_t item, const struct espl_slot *slots,
    uint32_t count)
{
	struct place *p = of(sink);
	espl_status status = espl__check_call(p->check, "place", &item, sizeof item);
	const struct espl_gang *gang;

	if (count > 0 && slots != NULL)
		status = espl__check_call(p->check, "slots", slots, count * sizeof *slots);
	if (status != ESPL_OK)
		return status;
	if (item < 1 || item > p->view.gang_count)
		return espl__check_refuse(p->check, "place: there is no gang of item %llu",
		    (unsigned long long)item);
	gang = &p->gangs[item - 1];
	if (count > 0 && slots == NULL)
		return espl__check_refuse(p->check,
		    "place: %u slots for item %llu, but no list of them", count,
		    (unsigned long long)item);
	if (count != 0 && count != gang->share.gpus)
		return espl__check_refuse(p->check,
		    "place: %u slots for item %llu, whose grant is of %u", count,
		    (unsigned long long)item, gang->share.gpus);
	for (uint32_t i = 0; i < count; i++)
		if (slots[i].node >= p->view.node_count || slots[i].gpu >= GPUS ||
		    slots[i].packing != gang->share.packing)
			return espl__check_refuse(p->check,
			    "place: item %llu on GPU %u of node %llu with packing %u: there is no "
			    "such GPU, or it is granted with packing %u",
			    (unsigned long long)item, slots[i].gpu,
			    (unsigned long long)slots[i].node, slots[i].packing,
			    gang->share.packing);
	free(p->slots[item - 1]);
	p->slots[item - 1] = espl__alloc((count + 1) * sizeof *slots);
	if (count > 0)
		memcpy(p->slots[item - 1], slots, count * sizeof *slots);
	p->slot_counts[item - 1] = count;
	return ESPL_OK;
}

static espl_status
sink_give_up(struct espl_place_sink *sink, uint64_t node)
{
	struct place *p = of(sink);
	espl_status status = espl__check_call(p->check, "give_up", &node, sizeof node);

	if (status == ESPL_OK && node >= p->view.node_count)
		return espl__check_refuse(p->check, "give_up: there is no node %llu",
		    (unsigned long long)node);
	return status;
}

static void
forget_view(struct place *p)
{
	for (uint32_t i = 0; i < p->view.gang_count; i++)
		free(p->slots[i]);
	free(p->slots);
	free(p->slot_counts);
	free(p->gangs);
	free(p->gang_list);
	free(p->nodes);
	free(p->node_list);
	free(p->gpus);
	free(p->gpu_list);
	memset(&p->view, 0, sizeof p->view);
	p->slots = NULL;
	p->slot_counts = NULL;
	p->gangs = NULL;
	p->gang_list = NULL;
	p->nodes = NULL;
	p->node_list = NULL;
	p->gpus = NULL;
	p->gpu_list = NULL;
}

static void
make_view(struct place *p, uint32_t gangs, uint32_t nodes)
{
	/* Sums to less than there is: 1, 2, 4 GPUs and quarters of one in turn. */
	static const struct espl_share shares[] = { { 1, 1 }, { 2, 1 }, { 4, 1 }, { 1, 4 } };

	p->gangs = espl__alloc((gangs + 1) * sizeof *p->gangs);
	p->gang_list = espl__alloc((gangs + 1) * sizeof *p->gang_list);
	p->slots = espl__alloc((gangs + 1) * sizeof *p->slots);
	p->slot_counts = espl__alloc((gangs + 1) * sizeof *p->slot_counts);
	for (uint32_t i = 0; i < gangs; i++) {
		p->gangs[i] = (struct espl_gang){ .size = (uint32_t)sizeof *p->gangs,
			.flags = ESPL_GANG_UNPLACED | ESPL_GANG_COLOCATE,
			.item = i + 1,
			.share = shares[i % 4],
			.offer = ESPL_ANY,
			.owner = ESPL_NONE,
			.move_s = 3 };
		p->gang_list[i] = &p->gangs[i];
	}
	p->nodes = espl__alloc((nodes + 1) * sizeof *p->nodes);
	p->node_list = espl__alloc((nodes + 1) * sizeof *p->node_list);
	p->gpus = espl__alloc((nodes * GPUS + 1) * sizeof *p->gpus);
	p->gpu_list = espl__alloc((nodes * GPUS + 1) * sizeof *p->gpu_list);
	for (uint32_t i = 0; i < nodes * GPUS; i++) {
		p->gpus[i].size = (uint32_t)sizeof *p->gpus;
		p->gpu_list[i] = &p->gpus[i];
	}
	for (uint32_t i = 0; i < nodes; i++) {
		p->nodes[i] = (struct espl_node){ .size = (uint32_t)sizeof *p->nodes,
			.state = ESPL_NODE_READY,
			.id = i,
			.gpus_idle = GPUS,
			.gpu_count = GPUS,
			.gpus = &p->gpu_list[(size_t)i * GPUS],
			.owner = ESPL_NONE,
			.ends_at = ESPL_NEVER };
		p->node_list[i] = &p->nodes[i];
	}
	p->view = (struct espl_place_view){ .size = (uint32_t)sizeof p->view,
		.why = ESPL_WHY_ARRIVAL,
		.now = p->check->now,
		.gangs = p->gang_list,
		.changed = p->gang_list,
		.nodes = p->node_list,
		.gang_count = gangs,
		.changed_count = gangs,
		.node_count = nodes };
}

static void
check_slots(struct place *p)
{
	uint32_t *used = espl__alloc((p->view.node_count * GPUS + 1) * sizeof *used);
	int twice = 0;

	for (uint32_t g = 0; g < p->view.gang_count; g++)
		for (uint32_t i = 0; i < p->slot_counts[g]; i++) {
			const struct espl_slot *slot = &p->slots[g][i];
			uint32_t *use = &used[slot->node * GPUS + slot->gpu];

			/* In parts of 256, so that unlike shares of one GPU are found too. */
			*use += 256 / (slot->packing > 0 ? slot->packing : 1);
			twice |= *use > 256;
		}
	if (twice)
		espl__check_error(p->check, "place: a GPU is given to more gangs than it holds");
	p->placed = 0;
	for (uint32_t g = 0; g < p->view.gang_count; g++)
		p->placed += p->slot_counts[g] > 0;
	free(used);
}

static void
decide(struct place *p, const char *what, uint32_t gangs, uint32_t nodes)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl__extent parts[4];
	espl_status status;
	uint64_t before;

	espl__check_step(p->check, "place, %s", what);
	p->check->view = what;
	forget_view(p);
	make_view(p, gangs, nodes);
	error.option = error.row = ESPL_ANY;
	parts[0] = (struct espl__extent){ &p->view, sizeof p->view };
	parts[1] = (struct espl__extent){ p->gangs, gangs * sizeof *p->gangs };
	parts[2] = (struct espl__extent){ p->nodes, nodes * sizeof *p->nodes };
	parts[3] = (struct espl__extent){ p->gpus, (size_t)nodes * GPUS * sizeof *p->gpus };
	before = espl__parts_digest(parts, sizeof parts / sizeof parts[0]);
	status = p->ops->place(p->instance->self, &p->view, &p->sink, &error);
	espl__parts_same(p->check, "place", parts, sizeof parts / sizeof parts[0], before);
	if (!espl__check_returned(p->check, "place", status, &error) || p->check->refuse)
		return;
	check_slots(p);
	if (gangs > 0 && nodes >= gangs && p->placed == 0)
		espl__check_error(p->check, "place: nothing was placed though all is free");
	p->check->now += 10 * ESPL_SECOND;
}

static int
script(struct espl__check *check, int refuse, uint64_t *digest)
{
	struct place p;
	int made;

	memset(&p, 0, sizeof p);
	p.check = check;
	p.ops = (const struct espl_placer_ops *)(const void *)check->plugin->desc->ops;
	p.sink = (struct espl_place_sink){ .size = (uint32_t)sizeof p.sink,
		.place = sink_place,
		.give_up = sink_give_up };
	check->now = 0;
	espl__check_begin(check, refuse);
	p.instance = espl__check_create(check, 7);
	made = p.instance != NULL;
	if (made) {
		decide(&p, "nothing there", 0, 0);
		decide(&p, "gangs without nodes", 5, 0);
		decide(&p, "4 gangs, 4 nodes", 4, 4);
		decide(&p, "12 gangs, 2 nodes", 12, 2);
		decide(&p, "1000 gangs, 1000 nodes", 1000, 1000);
	}
	*digest = check->digest;
	check->view = NULL;
	espl__check_step(check, "destroy");
	espl__instance_destroy(p.instance);
	forget_view(&p);
	return made;
}

static void
live(struct espl__check *check)
{
	uint64_t digest;

	(void)script(check, 0, &digest);
}

void
espl__check_place(struct espl__check *check)
{
	uint64_t one, two;
	unsigned before = espl__check_found(check);

	if (!script(check, 0, &one))
		return;
	if (espl__check_found(check) == before)
		espl__check_ok(check, "place: answers fit, for no gangs, a few and 1000");
	(void)script(check, 0, &two);
	if (one != two)
		espl__check_error(check,
		    "the same views led to other placements: it is not deterministic");
	else
		espl__check_ok(check, "the same views lead to the same placements");
	(void)script(check, 1, &two);
	espl__check_ok(check, "place: returns when every call is refused");
	espl__check_leaks(check, live);
}
