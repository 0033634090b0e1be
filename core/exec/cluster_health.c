/* cluster_health.c - the ledger of machines: which failed, and which are avoided; nodes at fault.
 *
 * An offer sells machines that are not alike: one that fails is avoided for a while, whatever lease
 * it was part of.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_health.h"
#include "exec/effects.h"

/* trials that failed on a node and get further elsewhere: the node is at fault */
#define WITNESSES 3u

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

int
espl__cluster_trials_failed(struct espl__exec *x, const struct espl__machine *n)
{
	const struct espl__health *h;

	ESPL__CHECK(n, MACHINE);
	h = health_of(x, n);
	return n->avoided && !h->drained && h->fault == ESPL__HEALTH_TRIALS &&
	    x->now < h->avoid_until;
}

static void
give_back(struct espl__exec *x, struct espl__machine *n)
{
	if (!n->drained || !n->live || n->releasing)
		return; /* a machine that is being released is leased again when it is needed */
	n->drained = 0;
	espl__machine_forgive(n, UINT64_MAX);
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
 * and they are of other programs. */
static int
is_in_use(const struct espl__exec *x, const struct espl__machine *n, const struct espl__search *s)
{
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		for (uint32_t i = 0; i < g->share.gpus; i++)
			if (g->slots[i].node == n->pub.id && g->state != ESPL__GANG_LEAVING &&
			    !g->killed && (g->reported || g->id < n->failed_from) &&
			    (g->trial->search != s || s->jobs != NULL))
				return 1;
	return 0;
}

static int
is_only_node(const struct espl__exec *x, const struct espl__machine *n)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->id != n->pub.id &&
		    x->fleet.live[i]->state == ESPL_NODE_READY &&
		    (x->fleet.live[i]->flags & ESPL_NODE_QUARANTINED) == 0)
			return 0;
	return 1;
}

void
espl__cluster_failed_on(struct espl__exec *x, const struct espl__gang *g, uint64_t lease)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, lease);
	uint64_t trial = espl__trial_uid(g->trial);
	uint32_t i = 0;

	ESPL__CHECK(x, EXEC);
	if (n == NULL || !n->live)
		return;
	if (n->failed[0] == ESPL_NONE)
		n->failed_from = x->gangs.next;
	while (i + 1 < ESPL__MACHINE_FAILED && n->failed[i] != trial && n->failed[i] != ESPL_NONE)
		i++;
	n->elsewhere = (n->elsewhere & ~((2u << i) - 1)) | (n->elsewhere & ((1u << i) - 1)) << 1;
	for (; i > 0; i--) {
		n->failed[i] = n->failed[i - 1];
		n->failed_reports[i] = n->failed_reports[i - 1];
	}
	n->failed[0] = trial;
	n->failed_reports[0] = g->reports;
}

/* The trial failed there, and works elsewhere: is that the node's fault?  1: it is set aside. */
static int
witness_against(struct espl__exec *x, struct espl__machine *n, const struct espl__trial *t)
{
	uint32_t count = 0, known = 0;

	for (uint32_t i = 0; i < ESPL__MACHINE_FAILED; i++) {
		if (n->failed[i] == espl__trial_uid(t)) {
			known = 1;
			n->elsewhere |= 1u << i;
		}
		count += (n->elsewhere >> i) & 1;
	}
	if (!known || count < WITNESSES || (n->pub.flags & ESPL_NODE_QUARANTINED) != 0 ||
	    is_only_node(x, n) || is_in_use(x, n, t->search))
		return 0;
	espl__machine_flag(&x->fleet, n, ESPL_NODE_QUARANTINED, 0);
	espl__cluster_fails(x, n, ESPL__HEALTH_TRIALS, "trials that failed there work elsewhere");
	espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id,
	    "node %llu is set aside: %u trials that failed there work elsewhere, and none got as "
	    "far there in between",
	    (unsigned long long)n->pub.id, (unsigned)count);
	espl__cluster_show_node(x, n, "quarantined");
	x->cluster.dirty = 1;
	return 1;
}

/* The trial has just passed the iteration after which it failed last. */
static int
got_over_it(const struct espl__exec *x, const struct espl__gang *g, uint64_t since)
{
	const struct espl__trial *t = g->trial;

	if (t->failed_on == ESPL_NONE || !espl__exec_follows(x, ESPL__RULES_ROW))
		return t->failed_on != ESPL_NONE && g->reports == 1;
	return since <= t->ways->iteration && g->iteration > t->ways->iteration;
}

int
espl__cluster_worked(struct espl__exec *x, const struct espl__gang *g, uint64_t since)
{
	int aside = 0, over = got_over_it(x, g, since);

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, g->slots[i].node);

		if (n->failed[0] != ESPL_NONE)
			espl__machine_forgive(n, g->reports);
		if (g->reports == 1)
			n->worked_at = x->now;
	}
	for (uint32_t i = 0; over && i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n->failed[0] != ESPL_NONE)
			aside |= witness_against(x, n, g->trial);
	}
	return aside;
}
