/* round_routes.c - machines cannot reach each other: what follows for searches, gangs and items. */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_tiers.h"
#include "exec/items_place.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"

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
		    espl__item_runs_on_several(item))
			continue;
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
		    "fails: it needs %u %s, and no machine has as many",
		    (unsigned)item->pub.gpus_min, espl__exec_unit(x, item->pub.gpus_min));
		(void)espl__trial_over(x, item->trial, ESPL_END_FAILED, NULL);
		return 1;
	}
	return 0;
}

/* A gang that needs several machines would wait for its ranks, on machines that are paid for. */
void
espl__round_no_route(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g =
	    e->as.no_route.gang != ESPL_NONE ? espl__gang_at(x, e->as.no_route.gang) : NULL;

	ESPL__CHECK(x, EXEC);
	if (g != NULL && g->onto != NULL)
		espl__gang_stay(x, g);
	if (x->fleet.no_route)
		return;
	x->fleet.no_route = 1;
	espl__exec_warn(x, ESPL_ABOUT_NODE, e->as.no_route.lease,
	    "%s; each trial stays on one machine from now on (do the firewall, security group or "
	    "network policy allow all TCP ports between the machines?)",
	    e->as.no_route.text);
	for (uint32_t i = 0; i < x->searches.count; i++)
		while (end_too_wide(x, x->searches.list[i], espl__sold_most(&x->fleet),
			   e->as.no_route.text) &&
		    x->searches.list[i]->jobs != NULL)
			; /* the list has moved */
	espl__items_within(x);
	espl__searches_widths(x);
	espl__tiers_ask(x, ESPL_WHY_NODES);
}
