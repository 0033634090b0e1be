/* cluster_sources.c - offers of equal shape are sources of the same machines.
 *
 * Zones, markets and types that give the same GPUs are asked in turn, in the order of the
 * configuration: while an offer pauses, is closed or has reached its limit, what its target lacks
 * is leased from the next equal one, and counts toward that target.  Allocators that lease one
 * offer (their option `offer` names it) need not know; to them its limit is that of all its
 * sources. Policies that choose among offers themselves, and plans, see each offer as it is.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/items_tiers.h"

/* A node of `b` can do what one of `a` does. */
static int
is_equal(const struct espl_offer *a, const struct espl_offer *b)
{
	return a->gpus == b->gpus && a->gpus > 0 && strcmp(a->gpu_type, b->gpu_type) == 0 &&
	    (a->memory_bytes == 0 || b->memory_bytes == 0 || b->memory_bytes >= a->memory_bytes) &&
	    (a->gpu_memory_bytes == 0 || b->gpu_memory_bytes == 0 ||
		b->gpu_memory_bytes >= a->gpu_memory_bytes);
}

int
espl__cluster_pools(const struct espl__exec *x)
{
	const struct espl__search *first = x->searches.count > 0 ? x->searches.list[0] : NULL;

	ESPL__CHECK(x, EXEC);
	return espl__exec_follows(x, ESPL__RULES_SUPPLY) && x->items.top.one_offer &&
	    (x->config->pool || first == NULL || first->experiment.plan == NULL);
}

int
espl__cluster_is_unwanted(const struct espl__exec *x, uint32_t offer)
{
	const char *name = x->items.top.offer_name;

	ESPL__CHECK(x, EXEC);
	return espl__exec_follows(x, ESPL__RULES_SUPPLY) && name != NULL && name[0] != '\0' &&
	    strcmp(name, x->fleet.offers[offer]->name) != 0;
}

int
espl__cluster_is_source(const struct espl__exec *x, uint32_t offer, uint32_t source)
{
	const struct espl_offer *a = x->fleet.offers[offer], *b = x->fleet.offers[source];
	const char *name = x->items.top.offer_name; /* the user wants this one */

	return offer != source && is_equal(a, b) &&
	    (name == NULL || name[0] == '\0' || strcmp(name, b->name) == 0);
}

uint32_t
espl__cluster_room(const struct espl__exec *x, uint32_t offer)
{
	uint64_t nodes = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.offer_count; i++) {
		const struct espl_offer *o = x->fleet.offers[i];
		int gone = (o->flags & ESPL_OFFER_GONE) != 0;

		if (i != offer &&
		    (!espl__cluster_pools(x) || !espl__cluster_is_source(x, offer, i)))
			continue;
		if (o->nodes_max == ESPL_ANY && !(gone && i != offer))
			return ESPL_ANY;
		nodes += gone && i != offer ? espl__fleet_leased(&x->fleet, i) : o->nodes_max;
	}
	return nodes < ESPL_ANY ? (uint32_t)nodes : ESPL_ANY - 1;
}

void
espl__cluster_own_up(struct espl__exec *x, uint32_t offer)
{
	ESPL__CHECK(x, EXEC);
	if ((x->fleet.offers[offer]->flags & ESPL_OFFER_GONE) == 0 ||
	    espl__fleet_leased(&x->fleet, offer) > 0)
		return;
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		uint32_t own = n->pub.offer, held;

		if (n->stands_for != offer || own == offer)
			continue;
		espl__machine_stand(&x->fleet, n, own);
		held = espl__fleet_nodes(&x->fleet, own, 0);
		if (x->fleet.targets[own] < held)
			x->fleet.targets[own] = held;
	}
	if (x->fleet.targets[offer] > 0)
		x->fleet.targets[offer] = 0;
}
