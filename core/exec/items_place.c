/* items_place.c - asking the placer, and applying its answer as one transaction.
 *
 * An answer that does not fit is refused before anything changes.  Of one that does, all
 * reservations that it replaces are released first; then the new ones are made in order.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_place.h"
#include "exec/items_tiers.h"

/* ---- trials within one machine --------------------------------------------------------------- */

/* Machines cannot reach each other: every trial stays within one of them.
 *
 * A gang whose ranks have already met on several machines keeps running.  All other trials get at
 * most what one machine has: those that wait at once, those that change at their next report. */

static void
stay_within(struct espl__exec *x, struct espl__item *item, uint32_t most)
{
	uint32_t fits = most - most % item->pub.unit;
	const struct espl__gang *g;

	if (item->trial == NULL || espl__item_runs_on_several(item))
		return;
	g = item->trial->gang;
	if (item->pub.gpus_max > fits)
		item->pub.gpus_max = fits > item->pub.gpus_min ? fits : item->pub.gpus_min;
	item->pub.flags |= ESPL_ITEM_COLOCATE;
	item->view.flags |= ESPL_GANG_COLOCATE;
	if (espl__item_slots_span(item->target, item->target_count) && g != NULL &&
	    g->state == ESPL__GANG_RUNNING && !espl__item_slots_span(g->slots, g->share.gpus)) {
		espl__item_grant(x, item, g->share, item->pub.offer); /* it stays where it is */
		espl__item_target(x, item, g->slots, g->share.gpus);
	} else if (espl__item_slots_span(item->target, item->target_count)) {
		espl__item_target(x, item, NULL, 0);
	}
	if (item->pub.granted.packing == 1 && item->pub.granted.gpus > item->pub.gpus_max) {
		espl__item_narrow(x, item, item->pub.gpus_max);
		return;
	}
	espl__inner_count(item, 1);
	espl__item_changed(item, ESPL_WHY_NODES);
}

void
espl__item_within(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (x->fleet.no_route)
		stay_within(x, item, espl__sold_most(&x->fleet));
}

static int
narrow_stray(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
    uint32_t count)
{
	uint32_t most = 0;

	ESPL__CHECK(x, EXEC);
	if (!x->fleet.no_route || !espl__item_slots_span(slots, count) ||
	    espl__item_runs_on_several(item))
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t here = 0;

		for (uint32_t k = 0; k < count; k++)
			here += slots[k].node == slots[i].node;
		most = here > most ? here : most;
	}
	most -= most % item->pub.unit;
	if (most >= item->pub.gpus_min && most > 0)
		espl__item_narrow(x, item, most);
	return 1;
}

static void
tier_within(struct espl__exec *x, struct espl__tier *tier, uint32_t most)
{
	for (uint64_t i = 0; i < tier->items_count; i++)
		stay_within(x, (struct espl__item *)(uintptr_t)tier->items[tier->items_from + i],
		    most);
}

void
espl__items_within(struct espl__exec *x)
{
	uint32_t most = espl__sold_most(&x->fleet);

	ESPL__CHECK(x, EXEC);
	tier_within(x, &x->items.top, most);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->tier != &x->items.top)
			tier_within(x, x->searches.list[i]->tier, most);
}

/* ---- the placer ------------------------------------------------------------------------------ */

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

/* The item of the next placement in the answer; NULL: there are no more. */
static struct espl__item *
next_placed(struct espl__exec *x, struct espl__reader *r, struct espl__op *op, uint32_t *mention)
{
	while (espl__op_get(r, x->caller.params, &x->ops_arena, op) == 1) {
		struct espl__item *item =
		    op->type == ESPL__OP_PLACE ? espl__item_granted(x, op->as.place.item) : NULL;

		if (item != NULL) {
			++*mention;
			return item;
		}
	}
	return NULL;
}

/* Of several placements of a gang the last one counts. */
static void
apply_places(struct espl__exec *x, struct espl__reader first)
{
	struct espl__reader r = first;
	struct espl__item *item;
	struct espl__op op;
	uint32_t mention = 0;

	x->items.stamp++;
	while ((item = next_placed(x, &r, &op, &mention)) != NULL) {
		item->mention = mention;
		if (item->stamp == x->items.stamp)
			continue;
		item->stamp = x->items.stamp;
		espl__item_target(x, item, NULL, 0);
	}
	mention = 0;
	while ((item = next_placed(x, &first, &op, &mention)) != NULL) {
		espl__item_target(x, item, NULL, 0);
		if (item->mention == mention &&
		    !narrow_stray(x, item, op.as.place.slots, op.as.place.count))
			espl__item_target(x, item, op.as.place.slots, op.as.place.count);
	}
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

static espl_status
ask_placer(struct espl__exec *x, const struct espl_place_view *view, struct espl__diag *why)
{
	espl_status status = espl__call_place(&x->caller, x->items.placer, view, why);
	struct espl__reader answer = espl__reader(x->caller.ops.data, x->caller.ops.size);

	if (status == ESPL_OK)
		status =
		    espl__answer_places(&x->caller, x->items.placer, answer, 0, &x->ops_arena, why);
	if (status == ESPL_OK)
		apply_places(x, answer);
	else
		espl__buf_clear(&x->caller.ops);
	return status;
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
	x->caller.gang = espl__item_gang;
	status = ask_placer(x, &view, &why);
	status = espl__exec_answer(x, x->items.placer, &x->items.placer_failures, status, &why,
	    &answer, diag);
	espl__exec_failed(x, x->items.placer, x->items.placer_failures, &why);
	if (status != ESPL_OK)
		return status;
	if (x->round.accept && x->round.replaying &&
	    espl__answer_places(&x->caller, x->items.placer, answer, 1, &x->ops_arena, NULL) ==
		ESPL_OK)
		apply_places(x, answer);
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
