/* cluster_health.c - the ledger of machines: which failed, and which are avoided; nodes at fault.
 *
 * An offer sells machines that are not alike: one that fails is avoided for a while, whatever lease
 * it was part of.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_health.h"
#include "exec/effects.h"

static struct espl__health *
health_of(struct espl__exec *x, const struct espl__machine *n)
{
	return espl__health_of(&x->cluster.health, n->pub.offer, n->machine, n->pub.id);
}

static void
show_machine(struct espl__exec *x, const struct espl__health *h)
{
	ESPL__OBSERVE(x, machine, h, x->fleet.offers[h->offer]);
}

/* A machine with a name can be known again, so its lease is given back; another one is kept, but
 * gets no trials. */
static void
hold_out(struct espl__exec *x, struct espl__machine *n)
{
	n->drained = 1;
	espl__machine_flag(&x->fleet, n,
	    ESPL_NODE_QUARANTINED | (n->machine != NULL ? ESPL_NODE_RETIRING : 0), 0);
	x->cluster.dirty = 1;
	espl__cluster_show_node(x, n, "drained");
}

void
espl__cluster_machine(struct espl__exec *x, uint64_t lease, const char *machine)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, lease);
	struct espl__health *h;

	ESPL__CHECK(x, EXEC);
	if (n == NULL || !n->live || (n->machine != NULL && strcmp(n->machine, machine) == 0))
		return;
	n->machine = espl__arena_strdup(&x->fleet.arena, machine);
	h = health_of(x, n);
	n->avoided = h->drained ||
	    espl__health_is_avoided(h, espl__cluster_failing_since(x, n->pub.offer), x->now);
	if (n->drained && !h->drained) { /* it was before its machine had a name */
		espl__health_drain(&x->cluster.health,
		    espl__health_of(&x->cluster.health, n->pub.offer, NULL, lease), 0);
		espl__health_drain(&x->cluster.health, h, 1);
	}
	show_machine(x, h);
	espl__exec_note(x, ESPL_ABOUT_NODE, lease, "node %llu is on machine '%s'",
	    (unsigned long long)lease, machine);
	if (h->drained)
		hold_out(x, n);
}

void
espl__cluster_fails(struct espl__exec *x, const struct espl__machine *n,
    enum espl__health_fault fault, const char *why)
{
	struct espl__health *h = health_of(x, n);

	ESPL__CHECK(n, MACHINE);
	espl__health_fails(h, fault, why, x->now);
	show_machine(x, h);
}

void
espl__cluster_works(struct espl__exec *x, const struct espl__machine *n)
{
	struct espl__health *h;

	ESPL__CHECK(n, MACHINE);
	if (n->machine == NULL)
		return;
	h = health_of(x, n);
	if (h->reported_at != ESPL_NEVER && h->failures == 0)
		return;
	espl__health_works(h, x->now);
	show_machine(x, h);
}

void
espl__cluster_forgive_machines(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->cluster.health.count; i++) {
		espl__health_forgive(x->cluster.health.list[i]);
		show_machine(x, x->cluster.health.list[i]);
	}
}

espl_time
espl__cluster_avoided_until(struct espl__exec *x, const struct espl__machine *n)
{
	const struct espl__health *h;

	ESPL__CHECK(n, MACHINE);
	h = health_of(x, n);
	return espl__health_is_avoided(h, ESPL_NEVER, x->now) ? h->avoid_until : ESPL_NEVER;
}

static void
give_back(struct espl__exec *x, struct espl__machine *n)
{
	if (!n->drained || !n->live || n->releasing)
		return; /* a machine that is being released is leased again when it is needed */
	n->drained = 0;
	espl__machine_forgive(n);
	if (n->unfit == NULL)
		espl__machine_flag(&x->fleet, n, 0, ESPL_NODE_QUARANTINED | ESPL_NODE_RETIRING);
	espl__cluster_show_node(x, n, espl__node_state_word(n->pub.state));
}

void
espl__cluster_drain(struct espl__exec *x, struct espl__machine *n, int on)
{
	struct espl__health *h;
	char name[40];

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(n, MACHINE);
	h = health_of(x, n);
	if (h->drained == (on != 0))
		return;
	espl__health_drain(&x->cluster.health, h, on);
	x->cluster.dirty = 1;
	(void)snprintf(name, sizeof name, "of node %llu", (unsigned long long)n->pub.id);
	if (on) {
		if (n->live)
			hold_out(x, n);
	} else {
		espl__health_forgive(h);
		give_back(x, n);
	}
	show_machine(x, h);
	espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id, "machine %s is %s",
	    h->machine != NULL ? h->machine : name,
	    on ? "drained: its trials move, and it gets no others" : "no longer drained");
}

void
espl__cluster_again(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		n->unfit = NULL;
		n->since = x->now;
		if (n->drained)
			hold_out(x, n);
	}
}

int
espl__cluster_is_drained(const struct espl__exec *x, const struct espl__machine *n)
{
	ESPL__CHECK(n, MACHINE);
	for (uint32_t i = 0; i < x->cluster.health.count; i++) {
		const struct espl__health *h = x->cluster.health.list[i];

		if (h->drained &&
		    (n->machine != NULL && h->machine != NULL
			    ? h->offer == n->pub.offer && strcmp(h->machine, n->machine) == 0
			    : n->machine == h->machine && h->lease == n->pub.id))
			return 1;
	}
	return 0;
}

/* ---- nodes at fault ----------------------------------------------------------------------- */

/* Gangs run on the node that have reported, or ran before the failures began and may still report;
 * and the run would end without the node, or they are of other programs. */
static int
is_in_use(const struct espl__exec *x, const struct espl__machine *n, const struct espl__gang *ended)
{
	uint32_t others = 0;
	int last;

	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		others += x->fleet.live[i]->id != n->pub.id &&
		    (x->fleet.live[i]->flags & ESPL_NODE_QUARANTINED) == 0;
	last = others == 0 && x->fleet.offers[n->pub.offer]->nodes_max != ESPL_ANY;
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		for (uint32_t i = 0; i < g->share.gpus && g != ended; i++)
			if (g->slots[i].node == n->pub.id && g->state != ESPL__GANG_LEAVING &&
			    !g->killed && (g->reported || g->id < n->failed_from) &&
			    (last || g->trial->search != ended->trial->search ||
				g->trial->search->jobs != NULL))
				return 1;
	return 0;
}

int
espl__cluster_blame(struct espl__exec *x, const struct espl__gang *g, uint64_t lease)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, lease);
	uint64_t trial = espl__trial_uid(g->trial);

	if (n == NULL || !n->live || x->config->asked || n->failed[0] == trial)
		return 0;
	if (n->proved && espl__trial_restores(g->trial) > 0)
		/* trials run there, and this one has trained before: it is at fault */
		return 0;
	if (n->proved && x->config->pool && !g->trial->search->reported)
		return 0; /* other programs run there, and this one never has */
	if (n->failed[0] == ESPL_NONE)
		n->failed_from = x->gangs.next;
	n->failed[2] = n->failed[1];
	n->failed[1] = n->failed[0];
	n->failed[0] = trial;
	/* where trials have run, two that alternate are at fault themselves */
	if (n->failed[2] == ESPL_NONE || (n->proved && n->failed[2] == trial) ||
	    (n->pub.flags & ESPL_NODE_QUARANTINED) != 0 || is_in_use(x, n, g))
		return 0;
	espl__machine_flag(&x->fleet, n, ESPL_NODE_QUARANTINED, 0);
	espl__cluster_fails(x, n, ESPL__HEALTH_TRIALS, "trials failed there at their start");
	espl__exec_note(x, ESPL_ABOUT_NODE, lease,
	    "node %llu is set aside: %s failed there at their start, and none succeeded in between",
	    (unsigned long long)lease,
	    n->failed[2] == trial ? "3 attempts of 2 trials" : "3 different trials");
	espl__cluster_show_node(x, n, "quarantined");
	x->cluster.dirty = 1;
	return 1;
}
