/* items_within.c - machines cannot reach each other: every trial stays within one of them.
 *
 * A gang whose ranks have already met on several machines keeps running.  All other trials get at
 * most what one machine has: those that wait at once, those that change at their next report.
 */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_lists.h"
#include "exec/items_within.h"

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

int
espl__item_strays(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
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
