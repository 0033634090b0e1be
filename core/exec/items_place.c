/* items_place.c - asking the placer, and applying its answer as one transaction.
 *
 * All reservations that the answer replaces are released first, then the new ones are made in
 * order; if one does not fit, everything is restored and the answer is refused.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/items_lists.h"
#include "exec/items_place.h"
#include "exec/items_within.h"

/* The places that an answer replaces, to restore them if the answer is invalid. */
struct undo {
	struct espl__item *item;
	struct espl_slot *slots;
	uint32_t count;
};

static int
must_move(const struct espl__exec *x, const struct espl__item *item)
{
	for (uint32_t i = 0; i < item->target_count; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, item->target[i].node);
		if (n->pub.state != ESPL_NODE_READY ||
		    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			return 1;
	}
	return 0;
}

static void
fill_changed(struct espl__exec *x)
{
	ESPL__GROW(x->items.place_view, x->items.place_view_cap, x->items.place_count);
	for (uint32_t i = 0; i < x->items.place_count; i++) {
		struct espl__item *item = x->items.place_list[i];
		const struct espl__gang *g = item->trial->gang;

		item->view.flags &= ~(ESPL_GANG_MUST | ESPL_GANG_LOCKED);
		if (must_move(x, item))
			item->view.flags |= ESPL_GANG_MUST;
		else if (g != NULL && (g->state != ESPL__GANG_RUNNING || g->onto != NULL) &&
		    item->target_count > 0)
			item->view.flags |= ESPL_GANG_LOCKED;
		x->items.place_view[i] = &item->view;
	}
}

/* Gangs on nodes that will be lost are checked whenever nodes change. */
static void
look_at_movers(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->items.gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i]);
		if (must_move(x, item))
			espl__item_look(x, item);
	}
}

static int
fits_all(const struct espl__exec *x, const struct espl__item *item, const struct espl_slot *slots,
    uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct espl__machine *n;
		struct espl__gpu *g = espl__gpu_at(&x->fleet, &slots[i], &n);
		if (g == NULL || !n->live || n->pub.owner != item->view.owner ||
		    !espl__gpu_fits(g, item->trial, slots[i].packing, 0))
			return 0;
	}
	return count == 0 || count == item->pub.granted.gpus;
}

static int
transact_placement(struct espl__exec *x, struct espl__reader first, struct espl__diag *why)
{
	struct espl__reader r = first;
	struct undo *undo = NULL;
	uint32_t undo_count = 0, undo_cap = 0;
	struct espl__op op;
	int good = 1;

	x->items.stamp++;
	while (espl__op_get(&r, x->caller.params, &x->ops_arena, &op) == 1) {
		struct espl__item *item =
		    op.type == ESPL__OP_PLACE ? espl__item_granted(x, op.as.place.item) : NULL;
		if (item == NULL || item->stamp == x->items.stamp)
			continue;
		item->stamp = x->items.stamp;
		ESPL__GROW(undo, undo_cap, undo_count + 1);
		undo[undo_count].item = item;
		undo[undo_count].count = item->target_count;
		undo[undo_count].slots = espl__arena_alloc(&x->ops_arena,
		    (item->target_count + 1) * sizeof(struct espl_slot));
		if (item->target_count > 0)
			memcpy(undo[undo_count].slots, item->target,
			    item->target_count * sizeof(struct espl_slot));
		undo_count++;
		espl__item_target(x, item, NULL, 0);
	}
	r = first;
	while (good && espl__op_get(&r, x->caller.params, &x->ops_arena, &op) == 1) {
		struct espl__item *item =
		    op.type == ESPL__OP_PLACE ? espl__item_granted(x, op.as.place.item) : NULL;
		char name[48];

		if (item == NULL)
			continue;
		espl__item_target(x, item, NULL, 0);
		good = fits_all(x, item, op.as.place.slots, op.as.place.count);
		if (good && !espl__item_strays(x, item, op.as.place.slots, op.as.place.count))
			espl__item_target(x, item, op.as.place.slots, op.as.place.count);
		else if (!good)
			(void)espl__fail(why, ESPL_E_REJECTED,
			    "%s places trial %s on occupied slots", x->items.placer->who,
			    espl__trial_name(espl__trial_uid(item->trial), name));
	}
	for (uint32_t i = 0; !good && i < undo_count; i++)
		espl__item_target(x, undo[i].item, NULL, 0);
	for (uint32_t i = 0; !good && i < undo_count; i++)
		espl__item_target(x, undo[i].item, undo[i].slots, undo[i].count);
	free(undo);
	return good;
}

static void
apply_give_ups(struct espl__exec *x, struct espl__reader r)
{
	struct espl__op op;

	while (espl__op_get(&r, x->caller.params, &x->ops_arena, &op) == 1) {
		struct espl__machine *n =
		    op.type == ESPL__OP_GIVE_UP ? espl__machine_at(&x->fleet, op.as.id) : NULL;
		if (n == NULL || !n->live || (n->pub.flags & ESPL_NODE_RETIRING) != 0)
			continue;
		if (espl__cluster_give_up(x, n))
			espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id,
			    "is given up by %s because there are more nodes than requested",
			    x->items.placer->who);
	}
}

static void
clear_list(struct espl__exec *x)
{
	uint32_t left = 0;

	/* gangs without a place are looked at again when a slot or a node becomes free */
	for (uint32_t i = 0; i < x->items.place_count; i++) {
		struct espl__item *item = x->items.place_list[i];
		item->view.flags &= ~ESPL_GANG_YIELDS; /* asked once */
		if (item->pub.granted.gpus > 0 &&
		    (item->target_count != item->pub.granted.gpus || must_move(x, item)))
			x->items.place_list[left++] = item;
		else
			item->place_changed = 0;
	}
	x->items.place_count = left;
	x->items.place_why = 0;
}

espl_status
espl__items_place(struct espl__exec *x, struct espl__diag *diag)
{
	struct espl_place_view view = ESPL_INIT(struct espl_place_view);
	struct espl__diag why;
	struct espl__reader answer;
	espl_status status;

	ESPL__CHECK(x, EXEC);
	espl__diag_clear(&why);
	if ((x->items.place_why & (ESPL_WHY_NODES | ESPL_WHY_NOTICE)) != 0)
		look_at_movers(x);
	if (x->items.place_why == 0 && !(x->items.slots_freed && x->items.place_count > 0) &&
	    x->cluster.give_up_count == 0)
		return ESPL_OK;
	if (x->items.place_count == 0 && x->cluster.give_up_count == 0) {
		x->items.place_why = 0;
		return ESPL_OK;
	}
	fill_changed(x);
	view.why = x->items.place_why;
	view.now = x->now;
	view.gangs = x->items.gangs_view;
	view.gang_count = x->items.gangs_count;
	view.changed = x->items.place_view;
	view.changed_count = x->items.place_count;
	view.nodes = x->fleet.placeable;
	view.node_count = x->fleet.placeable_count;
	view.give_up = x->cluster.give_up;
	view.give_up_count = x->cluster.give_up_count;
	x->caller.items_ctx = x;
	x->caller.item = espl__item_placed;
	status = espl__call_place(&x->caller, x->items.placer, &view, &why);
	if (status == ESPL_OK && x->caller.ops.size > 0 &&
	    !transact_placement(x, espl__reader(x->caller.ops.data, x->caller.ops.size), &why)) {
		status = why.status;
		espl__buf_clear(&x->caller.ops);
	}
	status = espl__exec_answer(x, x->items.placer, &x->items.placer_failures, status, &why,
	    &answer, diag);
	espl__exec_failed(x, x->items.placer, x->items.placer_failures, &why);
	if (status != ESPL_OK)
		return status;
	if (x->round.accept && x->round.replaying)
		(void)transact_placement(x, answer, &why);
	apply_give_ups(x, answer);
	clear_list(x);
	return ESPL_OK;
}

int
espl__item_is_clear(const struct espl__exec *x, const struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < item->target_count; i++) {
		struct espl__machine *n;
		const struct espl__gpu *gpu = espl__gpu_at(&x->fleet, &item->target[i], &n);
		if (gpu == NULL || n->pub.state != ESPL_NODE_READY ||
		    !espl__gpu_fits(gpu, item->trial, item->target[i].packing, 1))
			return 0;
	}
	return item->target_count > 0;
}

void
espl__items_evict(struct espl__exec *x, uint64_t node, uint32_t gpu, int lost)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->items.gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i]);
		uint32_t k = 0;

		while (k < item->target_count &&
		    (item->target[k].node != node ||
			(gpu != ESPL_ANY && item->target[k].gpu != gpu)))
			k++;
		if (k == item->target_count)
			continue;
		item->pub.flags |= ESPL_ITEM_EVICTED;
		espl__item_changed(item, lost ? ESPL_WHY_NODES : ESPL_WHY_NOTICE);
		if (lost)
			espl__item_target(x, item, NULL, 0);
		espl__item_look(x, item);
	}
}
