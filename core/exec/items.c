/* items.c - items: how allocators and the placer see a trial. */
#include <string.h>

#include "base/assert.h"
#include "exec/items_apart.h"
#include "exec/items_inner.h"
#include "exec/items_lists.h"
#include "exec/items_new.h"
#include "exec/items_tiers.h"

void
espl__items_init(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->items.top.wake_at = ESPL_NEVER;
	x->items.standing.act_at = ESPL_NEVER;
	espl__pool_init(&x->items.pool, sizeof(struct espl__item));
}

espl_status
espl__items_open(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl__run_config *c = x->config;
	espl_status status = espl__instance_create(ESPL_ALLOCATOR, c->allocator.use,
	    c->allocator.group, &x->env, &x->items.top.allocator, diag);

	ESPL__CHECK(x, EXEC);
	if (status == ESPL_OK) {
		espl__tier_limit(&x->items.top);
		status = espl__instance_create(ESPL_PLACER, c->placer.use, c->placer.group, &x->env,
		    &x->items.placer, diag);
	}
	return status;
}

void
espl__items_free(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint64_t i = 0; i < x->items.pool.count; i++) {
		struct espl__item *item = espl__pool_at(&x->items.pool, i);
		free(item->target);
		free(item->nodes);
	}
	espl__pool_free(&x->items.pool);
	free(x->items.granted);
	free(x->items.spare);
	free(x->items.gangs_view);
	free(x->items.place_list);
	free(x->items.place_view);
	free(x->items.pending);
	free(x->items.avoiding);
	free(x->items.apart);
}

/* ---- grants and places -------------------------------------------------------------------- */

static void
list_nodes(struct espl__item *item)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < item->target_count; i++) {
		if (n > 0 && item->nodes[n - 1] == item->target[i].node)
			continue;
		ESPL__GROW(item->nodes, item->node_cap, n + 1);
		item->nodes[n++] = item->target[i].node;
	}
	item->pub.nodes = item->nodes;
	item->pub.node_count = n;
	item->pub.gpu = item->target_count == 1 ? item->target[0].gpu : ESPL_ANY;
}

/* A trial that waits or is paused holds no GPU, and there may be a hundred thousand of them. */
static void
free_target(struct espl__item *item)
{
	free(item->target);
	free(item->nodes);
	item->target = NULL;
	item->nodes = NULL;
	item->target_cap = item->node_cap = 0;
}

void
espl__item_target(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
    uint32_t count)
{
	int was_unplaced = item->pub.granted.gpus > 0 && item->target_count == 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < item->target_count; i++)
		espl__gpu_vacate(&x->fleet, &item->target[i], item->trial, 0, 1);
	if (item->target_count > 0)
		x->items.slots_freed = 1;
	ESPL__GROW(item->target, item->target_cap, count);
	if (count > 0)
		memcpy(item->target, slots, count * sizeof *slots);
	else
		free_target(item);
	item->target_count = count;
	for (uint32_t i = 0; i < count; i++)
		espl__gpu_occupy(&x->fleet, &item->target[i], item->trial, 0, 1);
	list_nodes(item);
	item->view.slots = item->target;
	item->view.slot_count = count;
	if (count == 0)
		item->view.flags |= ESPL_GANG_UNPLACED;
	else
		item->view.flags &= ~(ESPL_GANG_UNPLACED | ESPL_GANG_MUST);
	if (item->pub.granted.gpus > 0) {
		x->items.unplaced += count == 0;
		x->items.unplaced -= (uint32_t)was_unplaced;
		if (count == 0)
			espl__item_look(x, item);
	}
	espl__item_pending(x, item);
}

void
espl__item_grant(struct espl__exec *x, struct espl__item *item, struct espl_share share,
    uint32_t offer)
{
	int had = item->pub.granted.gpus > 0;

	ESPL__CHECK(x, EXEC);
	item->pub.offer = offer;
	item->view.offer = offer;
	if (share.gpus == item->pub.granted.gpus && share.packing == item->pub.granted.packing)
		return;
	espl__tier_count(item->tier, item->pub.granted, -1);
	espl__tier_count(item->tier, share, 1);
	if (item->trial == NULL) {
		item->pub.granted = share;
		espl__inner_granted(item);
		return;
	}
	x->items.granted[item->trial->search->number] += (double)share.gpus / share.packing -
	    (double)item->pub.granted.gpus / item->pub.granted.packing;
	if (had && item->target_count == 0)
		x->items.unplaced--;
	item->pub.granted = share;
	item->view.share = share;
	if (share.gpus > 0 && item->target_count == 0)
		x->items.unplaced++;
	if (share.gpus == 0) {
		espl__item_target(x, item, NULL, 0);
		espl__items_ungranted(x, item);
	} else {
		espl__items_granted(x, item);
		espl__item_look(x, item);
	}
	x->items.place_why |= ESPL_WHY_ARRIVAL;
}

int
espl__item_slots_span(const struct espl_slot *slots, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (slots[i].node != slots[0].node)
			return 1;
	return 0;
}

int
espl__item_runs_on_several(const struct espl__item *item)
{
	const struct espl__gang *g = item->trial->gang;

	return g != NULL && g->state == ESPL__GANG_RUNNING &&
	    espl__item_slots_span(g->slots, g->share.gpus);
}

/* What it gets of a grant on nodes of this offer (ESPL_ANY: any): where machines cannot reach each
 * other, no more than one has.  0: they are too small for it. */
static uint32_t
width_within(const struct espl__exec *x, const struct espl__item *item, uint32_t offer,
    uint32_t gpus)
{
	uint32_t node;

	if (!x->fleet.no_route || item->trial == NULL || offer >= x->fleet.offer_count)
		return gpus;
	node = x->fleet.offers[offer]->gpus;
	if (gpus <= node || (espl__item_runs_on_several(item) && gpus == item->pub.granted.gpus))
		return gpus;
	node -= node % item->pub.unit;
	return node >= item->pub.gpus_min ? node : 0;
}

void
espl__item_take(struct espl__exec *x, struct espl__item *item, const struct espl_grant *g)
{
	struct espl_share share = g->share;

	share.gpus = width_within(x, item, g->offer, share.gpus);
	if (share.gpus > 0 && item->pub.granted.gpus == 0)
		item->tier->helped = 0;
	item->view.owner = (g->flags & ESPL_GRANT_BRACKET) != 0
	    ? ESPL_OWNER_BRACKET | item->pub.bracket
	    : item->apart ? item->pub.id
			  : ESPL_NONE;
	espl__item_grant(x, item, share, g->offer);
	if ((g->flags & ESPL_GRANT_YIELD) != 0 && share.gpus > 0) {
		item->view.flags |= ESPL_GANG_YIELDS;
		espl__item_look(x, item);
		x->items.place_why |= ESPL_WHY_ARRIVAL;
	}
}

void
espl__item_keep(struct espl__exec *x, struct espl__item *item, const struct espl__gang *g,
    uint64_t owner)
{
	item->view.owner = owner;
	espl__item_grant(x, item, g->share, ESPL_ANY);
	espl__item_target(x, item, g->slots, g->share.gpus);
	espl__item_runs(x, item);
	espl__item_progress(x, item, g->iteration);
}

void
espl__item_narrow(struct espl__exec *x, struct espl__item *item, uint32_t gpus)
{
	item->pub.gpus_max = gpus;
	espl__inner_count(item, 1);
	espl__item_grant(x, item, (struct espl_share){ gpus, 1 }, item->pub.offer);
	espl__item_changed(item, ESPL_WHY_NODES);
	item->tier->wake_at = x->now;
}

/* ---- what becomes of it ------------------------------------------------------------------- */

void
espl__item_runs(const struct espl__exec *x, struct espl__item *item)
{
	if (item->pub.started == ESPL_NEVER)
		item->pub.started = x->now;
	item->pub.flags = (item->pub.flags | ESPL_ITEM_RUNNING) & ~ESPL_ITEM_EVICTED;
}

/* Allocators do not touch items that are changing. If GPUs are left they are asked again now;
 * where all GPUs are granted, that would only cost time. */
void
espl__item_settled(struct espl__exec *x, struct espl__item *item)
{
	const struct espl_share *has = &item->pub.granted;
	int more = has->packing > 1 || has->gpus < item->pub.gpus_max;
	uint64_t gpus =
	    item->tier->inner != NULL ? espl__inner_share(item->tier->inner) : x->fleet.gpus;
	uint64_t used = espl__tier_gpus(item->tier);

	ESPL__CHECK(x, EXEC);
	item->pub.flags &= ~ESPL_ITEM_CHANGING;
	item->view.flags &= ~ESPL_GANG_LOCKED;
	espl__item_changed(item,
	    (more && used < gpus) || (item->tier->inner != NULL && used > gpus) ? ESPL_WHY_SETTLED
										: 0);
}

void
espl__item_wait(struct espl__exec *x, struct espl__item *item, uint32_t why)
{
	ESPL__CHECK(x, EXEC);
	item->pub.flags &= ~(ESPL_ITEM_RUNNING | ESPL_ITEM_CHANGING);
	item->view.flags &= ~ESPL_GANG_LOCKED;
	espl__item_progress(x, item, espl__trial_restores(item->trial));
	espl__item_changed(item, why);
	if (item->target_count > 0)
		espl__item_pending(x, item);
}

void
espl__item_free(struct espl__exec *x, struct espl__item *item, int gone)
{
	const struct espl_share nothing = { 0, 1 };

	ESPL__CHECK(x, EXEC);
	espl__item_grant(x, item, nothing, ESPL_ANY);
	if (item->trial != NULL)
		x->items.count--;
	espl__item_join(x, item);
	espl__inner_count(item, 0);
	espl__tier_remove(item->tier, item);
	if (item->place_changed)
		espl__list_remove(x->items.place_list, &x->items.place_count, item);
	if (item->pending)
		espl__list_remove(x->items.pending, &x->items.pending_count, item);
	if (gone)
		espl__item_gone(item->tier, item->pub.id, item->trial);
	ESPL__ASSERT(item->target == NULL && item->nodes == NULL);
	ESPL__GROW(x->items.spare, x->items.spare_cap, x->items.spare_count + 1);
	x->items.spare[x->items.spare_count++] = item;
}
