/* items_within.c - machines cannot reach each other: every trial stays within one of them.
 *
 * What runs on several goes on, as its ranks have met.  The rest gets, from this round on, what one
 * machine has: at once what waits, and a changing gang at its next report.
 */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_inner.h"
#include "exec/items_lists.h"
#include "exec/items_new.h"
#include "exec/items_tiers.h"
#include "exec/items_within.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"

static int
spans_machines(const struct espl_slot *slots, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (slots[i].node != slots[0].node)
			return 1;
	return 0;
}

static int
runs_on_several(const struct espl__item *item)
{
	const struct espl__gang *g = item->trial->gang;

	return g != NULL && g->state == ESPL__GANG_RUNNING &&
	    spans_machines(g->slots, g->share.gpus) && espl__gang_matches(g, item);
}

static void
stay_within(struct espl__exec *x, struct espl__item *item, uint32_t most)
{
	uint32_t fits = most - most % item->pub.unit;
	const struct espl__gang *g;

	if (item->trial == NULL || runs_on_several(item))
		return;
	g = item->trial->gang;
	if (item->pub.gpus_max > fits)
		item->pub.gpus_max = fits > item->pub.gpus_min ? fits : item->pub.gpus_min;
	item->pub.flags |= ESPL_ITEM_COLOCATE;
	item->view.flags |= ESPL_GANG_COLOCATE;
	if (spans_machines(item->target, item->target_count) && g != NULL &&
	    g->state == ESPL__GANG_RUNNING && !spans_machines(g->slots, g->share.gpus)) {
		espl__item_grant(x, item, g->share, item->pub.offer); /* it stays where it is */
		espl__item_target(x, item, g->slots, g->share.gpus);
	} else if (spans_machines(item->target, item->target_count)) {
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

uint32_t
espl__item_width(const struct espl__exec *x, const struct espl__item *item, uint32_t offer,
    uint32_t gpus)
{
	uint32_t node;

	ESPL__CHECK(x, EXEC);
	if (!x->fleet.no_route || item->trial == NULL || offer >= x->fleet.offer_count)
		return gpus;
	node = x->fleet.offers[offer]->gpus;
	if (gpus <= node || (runs_on_several(item) && gpus == item->pub.granted.gpus))
		return gpus;
	node -= node % item->pub.unit;
	return node >= item->pub.gpus_min ? node : 0;
}

int
espl__item_strays(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
    uint32_t count)
{
	uint32_t most = 0;

	ESPL__CHECK(x, EXEC);
	if (!x->fleet.no_route || !spans_machines(slots, count) || runs_on_several(item))
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
		stay_within(x,
		    (struct espl__item *)(uintptr_t)tier->items[tier->items_from + i], most);
}

/* Jobs that need several machines fail, and a search whose trials do is over.  1: one was. */
static int
end_too_wide(struct espl__exec *x, struct espl__search *s, uint32_t most, const char *why)
{
	struct espl__tier *tier = s->tier;

	if (s->jobs == NULL) {
		if (s->config->trial.gpus_min <= most || s->over)
			return 0;
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "each trial needs %u %s, and no machine has as many: %s",
		    (unsigned)s->config->trial.gpus_min,
		    espl__exec_unit(x, s->config->trial.gpus_min), why);
		return 1;
	}
	for (uint64_t i = 0; i < tier->items_count; i++) {
		struct espl__item *item =
		    (struct espl__item *)(uintptr_t)tier->items[tier->items_from + i];

		if (item->trial == NULL || item->trial->search != s || item->pub.gpus_min <= most ||
		    runs_on_several(item))
			continue;
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
		    "fails: it needs %u %s, and no machine has as many",
		    (unsigned)item->pub.gpus_min, espl__exec_unit(x, item->pub.gpus_min));
		(void)espl__trial_over(x, item->trial, ESPL_END_FAILED, NULL);
		return 1;
	}
	return 0;
}

void
espl__items_within(struct espl__exec *x, const char *why)
{
	uint32_t most = espl__sold_most(&x->fleet);

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		s->experiment.gpus_max =
		    espl__sold_widest(&x->fleet, &s->config->trial, s->inputs->profile);
	}
	for (uint32_t i = 0; i < x->searches.count; i++)
		while (end_too_wide(x, x->searches.list[i], most, why) &&
		    x->searches.list[i]->jobs != NULL)
			; /* the list has moved */
	tier_within(x, &x->items.top, most);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->tier != &x->items.top)
			tier_within(x, x->searches.list[i]->tier, most);
	espl__searches_stale(x, 1);
	espl__tiers_ask(x, ESPL_WHY_NODES);
}
