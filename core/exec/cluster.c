/* cluster.c - the cluster: what is held, what it could hold, and which nodes are above the targets.
 *
 * Never hold what nothing needs: a node above target drains and is released as soon as its last
 * seat is empty.
 */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/state.h"
#include "model/fleet.h"

#define UNUSED_MOST 50u /* leases in a row that no trial used: the allocator is broken */

void
espl__exec_gpu_time(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.gpu_s += (double)(x->now - x->cluster.gpu_since) / 1e9 * x->fleet.gpus_held;
	x->cluster.gpu_since = x->now;
}

/* GPUs that could ever be held at once. */
uint64_t
espl__exec_potential(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return espl__sold_gpus(&x->fleet, x->config->gpus_limit);
}

uint32_t
espl__exec_gpus_min(const struct espl__exec *x)
{
	uint64_t least = 1;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];

		if (s->over)
			continue;
		if (s->jobs == NULL && s->config->trial.gpus_min > least)
			least = s->config->trial.gpus_min;
		for (uint32_t k = 0; s->jobs != NULL && k < s->jobs->list.count; k++)
			if ((uint64_t)s->jobs->list.jobs[k].nodes_min * s->jobs->unit > least)
				least = (uint64_t)s->jobs->list.jobs[k].nodes_min * s->jobs->unit;
	}
	return least < ESPL_ANY ? (uint32_t)least : ESPL_ANY;
}

void
espl__exec_show_node(struct espl__exec *x, struct espl__machine *n, const char *why)
{
	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(n, MACHINE);
	n->pub.billed_from = espl__ledger_billed_from(x->ledger, n->pub.id);
	n->pub.charged = espl__ledger_lease(x->ledger, n->pub.id, x->now);
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->node != NULL)
			o->node(o->ctx, x->now, &n->pub, x->fleet.offers[n->pub.offer],
			    n->pub.charged, why);
}

/* Nodes above target, by offer: nodes that are not ready are released first, the placer chooses the
 * others.
 */
void
espl__exec_give_ups(struct espl__exec *x, int needed)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.give_up_count = 0;
	for (uint32_t o = 0; o < x->fleet.offer_count; o++) {
		uint32_t target = needed ? x->fleet.targets[o] : 0;
		uint32_t held = espl__fleet_nodes(&x->fleet, o, 0);

		for (uint32_t i = x->fleet.live_count; i > 0 && held > target; i--) {
			struct espl__machine *n =
			    espl__machine_at(&x->fleet, x->fleet.live[i - 1]->id);
			if (n->pub.offer != o || (n->pub.flags & ESPL_NODE_RETIRING) != 0 ||
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

/* Nodes that the placer did not name: idle ones above target are released now, the others as soon
 * as they are empty. */
void
espl__cluster_retire(struct espl__exec *x, int needed)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.surplus = 0;
	for (uint32_t k = 0; k < x->cluster.give_up_count; k++) {
		uint32_t left = x->cluster.give_up[k].nodes;

		for (uint32_t i = x->fleet.live_count; i > 0 && left > 0; i--) {
			struct espl__machine *n =
			    espl__machine_at(&x->fleet, x->fleet.live[i - 1]->id);
			if (n->pub.offer != x->cluster.give_up[k].offer ||
			    (n->pub.flags & ESPL_NODE_RETIRING) != 0 || n->releasing ||
			    (n->seats > 0 && needed))
				continue;
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
			left--;
		}
		x->cluster.surplus |= left > 0;
	}
	x->cluster.give_up_count = 0;
}

void
espl__cluster_release(struct espl__exec *x)
{
	int unused = 0;

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		if ((n->pub.flags & ESPL_NODE_RETIRING) == 0 || n->seats > 0 || n->releasing ||
		    x->cluster.cloud_waits)
			continue;
		n->releasing = 1;
		unused |= !n->used;
		if (n->used)
			x->cluster.unused = 0;
		espl__exec_effect(x, ESPL__FX_RELEASE)->as.release.lease = n->pub.id;
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

/* Quarantined nodes cost money and are of no use: release them, and lease new ones up to the
 * target, unless the cloud has no others. */
void
espl__exec_let_go(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		uint32_t most = x->fleet.offers[n->pub.offer]->nodes_max;
		if ((n->pub.flags & ESPL_NODE_QUARANTINED) != 0 &&
		    (n->pub.flags & ESPL_NODE_RETIRING) == 0 && most == ESPL_ANY)
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
	}
}
