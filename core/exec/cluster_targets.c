/* cluster_targets.c - the cluster follows its targets.
 *
 * Never hold what nothing needs: a node above target drains and is released as soon as its last
 * slot is free.
 */
#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"

#define UNUSED_MOST 50u /* leases in a row that no trial used: the allocator is broken */

/* Nodes above target, by offer: nodes that are not ready are released first, the placer chooses the
 * others. */
void
espl__cluster_give_ups(struct espl__exec *x, int needed)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.give_up_count = 0;
	for (uint32_t o = 0; o < x->fleet.offer_count; o++) {
		uint32_t target = needed ? x->fleet.targets[o] : 0;
		uint32_t held = espl__fleet_nodes(&x->fleet, o, 0);

		for (uint32_t i = x->fleet.live_count; i > 0 && held > target; i--) {
			struct espl__machine *n =
			    espl__machine_at(&x->fleet, x->fleet.live[i - 1]->id);
			if (n->stands_for != o || (n->pub.flags & ESPL_NODE_RETIRING) != 0 ||
			    (n->pub.state != ESPL_NODE_REQUESTED &&
				n->pub.state != ESPL_NODE_BOOTING) ||
			    x->cluster.cloud_waits)
				continue;
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
			held--;
		}
		if (held <= target)
			continue;
		ESPL__GROW(x->cluster.give_up, x->cluster.give_up_cap,
		    x->cluster.give_up_count + 1);
		x->cluster.give_up[x->cluster.give_up_count].offer = o;
		x->cluster.give_up[x->cluster.give_up_count++].nodes = held - target;
	}
}

/* Releases surplus nodes that the placer did not name: idle ones above target now, the others as
 * soon as they are empty. */
static void
retire_surplus(struct espl__exec *x, int needed)
{
	x->cluster.surplus = 0;
	for (uint32_t k = 0; k < x->cluster.give_up_count; k++) {
		uint32_t left = x->cluster.give_up[k].nodes;

		for (uint32_t i = x->fleet.live_count; i > 0 && left > 0; i--) {
			struct espl__machine *n =
			    espl__machine_at(&x->fleet, x->fleet.live[i - 1]->id);
			if (n->stands_for != x->cluster.give_up[k].offer ||
			    (n->pub.flags & ESPL_NODE_RETIRING) != 0 || n->releasing ||
			    (n->occupants > 0 && needed))
				continue;
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
			left--;
		}
		x->cluster.surplus |= left > 0;
	}
	x->cluster.give_up_count = 0;
}

static void
release_empty(struct espl__exec *x)
{
	int unused = 0;

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		if ((n->pub.flags & ESPL_NODE_RETIRING) == 0 || n->occupants > 0 || n->releasing ||
		    x->cluster.cloud_waits)
			continue;
		n->releasing = 1;
		unused |= !n->used && !n->drained && !n->withdrawn && n->unfit == NULL;
		if (n->used)
			x->cluster.unused = 0;
		espl__exec_effect(x, ESPL__FX_RELEASE)->as.lease = n->pub.id;
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu is released",
		    (unsigned long long)n->pub.id);
	}
	/* Counted once for all nodes released before the next lease: a cancelled experiment may
	 * leave any number of booting nodes. */
	if (!unused || !x->cluster.leased)
		return;
	x->cluster.leased = 0;
	if (++x->cluster.unused > UNUSED_MOST && x->round.ending == 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "nodes were leased and released %u times in a row before anything ran on them; "
		    "%s requests nodes and then gives them up",
		    (unsigned)x->cluster.unused, x->items.top.allocator->who);
}

/* If its provider ends it, it is refunded, or the minimum charge does not apply: a release would
 * cost more. */
static int
is_cheaper_kept(const struct espl__machine *n, const struct espl_offer *offer)
{
	return n->pub.billed_from != ESPL_NEVER && n->pub.ends_at != ESPL_NEVER &&
	    (n->pub.ends_at - n->pub.billed_from < offer->refund_before ||
		n->pub.ends_at - n->pub.billed_from < offer->minimum_charge);
}

/* The program is not at fault, as one that has never reported may be, and another machine could be
 * had.  One that the user drains without its machine having a name is kept, since it would not be
 * known again. */
static int
is_worth_replacing(const struct espl__exec *x, const struct espl__machine *n)
{
	return espl__exec_follows(x, ESPL__RULES_SUPPLY) && !n->drained &&
	    (x->searches.reports > 0 || x->config->pool) && espl__lease_replaces(x, n);
}

/* Nodes that cost money and take nothing new are released, and others are leased up to the target:
 * those under notice, and quarantined ones unless the cloud has no others. */
void
espl__cluster_let_go(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		const struct espl_offer *offer = x->fleet.offers[n->pub.offer];
		int go = n->pub.state == ESPL_NODE_NOTICE
		    ? !is_cheaper_kept(n, offer)
		    : (n->pub.flags & ESPL_NODE_QUARANTINED) != 0 &&
			(offer->nodes_max == ESPL_ANY || is_worth_replacing(x, n));

		if (go && (n->pub.flags & ESPL_NODE_RETIRING) == 0)
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
	}
}

int
espl__cluster_give_up(struct espl__exec *x, struct espl__machine *n)
{
	ESPL__CHECK(n, MACHINE);
	for (uint32_t i = 0; i < x->cluster.give_up_count; i++)
		if (x->cluster.give_up[i].offer == n->stands_for &&
		    x->cluster.give_up[i].nodes > 0) {
			x->cluster.give_up[i].nodes--;
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
			x->cluster.dirty = 1;
			return 1;
		}
	return 0;
}

void
espl__cluster_follow(struct espl__exec *x, int needed)
{
	ESPL__CHECK(x, EXEC);
	if (!x->cluster.dirty && needed &&
	    !(x->items.slots_freed && (x->cluster.surplus || x->fleet.retiring > 0)) &&
	    espl__lease_retry_at(x) > x->now)
		return;
	x->cluster.dirty = 0;
	espl__cluster_give_ups(x, needed);
	espl__cluster_let_go(x);
	retire_surplus(x, needed);
	release_empty(x);
	if (needed && x->round.ending == 0)
		espl__lease_nodes(x);
	else
		espl__lease_forget_retries(x);
}
