/* cluster.c - the cluster: what is held, what it could hold, and which nodes are at fault. */
#include "base/assert.h"
#include "exec/cluster_health.h"
#include "exec/effects.h"

void
espl__cluster_init(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.cloud_waits = 1;
}

void
espl__cluster_free(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->cluster.record_count; i++)
		free(x->cluster.records[i].reason);
	free(x->cluster.records);
	espl__health_free(&x->cluster.health);
	free(x->cluster.node_why);
	free(x->cluster.give_up);
}

int
espl__cluster_take_news(struct espl__exec *x)
{
	int news = x->cluster.offers_changed;

	ESPL__CHECK(x, EXEC);
	x->cluster.offers_changed = 0;
	return news;
}

void
espl__cluster_gpu_time(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.gpu_s += (double)(x->now - x->cluster.gpu_since) / 1e9 * x->fleet.gpus_held;
	x->cluster.gpu_since = x->now;
}

/* GPUs that could ever be held at once. */
uint64_t
espl__cluster_potential(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return espl__sold_gpus(&x->fleet, x->config->gpus_limit);
}

void
espl__cluster_show_node(struct espl__exec *x, struct espl__machine *n, const char *why)
{
	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(n, MACHINE);
	n->pub.billed_from = espl__ledger_billed_from(x->ledger, n->pub.id);
	n->pub.charged = espl__ledger_lease(x->ledger, n->pub.id, x->now);
	ESPL__OBSERVE(x, node, &n->pub, x->fleet.offers[n->pub.offer], n->host, n->pub.charged,
	    why);
}

void
espl__cluster_mark(struct espl__exec *x)
{
	x->cluster.dirty = 1;
}

void
espl__cluster_used(struct espl__exec *x)
{
	x->cluster.unused = 0;
}

/* ---- what the world reports --------------------------------------------------------------- */

espl_status
espl__cluster_cloud(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	const struct espl__section *s = &x->config->cloud;
	char who[120];

	ESPL__CHECK(x, EXEC);
	x->cluster.cloud_waits = 0;
	(void)snprintf(who, sizeof who, "cloud '%s'", s->use);
	if (e->as.cloud.status != ESPL_OK)
		return espl__diag_said(diag,
		    e->as.cloud.status == ESPL_E_UNSUPPORTED ? ESPL_E_CONFIG : e->as.cloud.status,
		    s->group != NULL ? s->group->file : NULL, s->group != NULL ? s->group->line : 0,
		    who, e->as.cloud.text);
	x->cluster.cloud_ready = 1;
	x->cluster.dirty = 1;
	return ESPL_OK;
}

void
espl__cluster_paid_off(struct espl__exec *x)
{
	x->cluster.interrupted = 0;
}

void
espl__cluster_resume(struct espl__exec *x, int forgive)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.dirty = 1;
	x->cluster.cloud_waits = 1;
	x->cluster.cloud_ready = 0;
	if (!forgive)
		return;
	x->cluster.unused = x->cluster.interrupted = 0;
	espl__cluster_forgive_machines(x);
	for (uint32_t i = 0; i < x->cluster.record_count; i++) {
		struct espl__offer_record *r = &x->cluster.records[i];

		if (r->closed || r->hidden)
			x->fleet.offers[i]->flags &= ~ESPL_OFFER_GONE;
		free(r->reason);
		*r = (struct espl__offer_record){ .retry_at = ESPL_NEVER,
			.not_before = ESPL_NEVER,
			.refused_since = ESPL_NEVER };
	}
}

void
espl__cluster_node_why(struct espl__exec *x, uint64_t lease, const char *text)
{
	ESPL__CHECK(x, EXEC);
	free(x->cluster.node_why);
	x->cluster.node_why = espl__strdup(text);
	x->cluster.node_why_lease = lease;
	x->cluster.node_why_at = x->now;
	espl__exec_note(x, ESPL_ABOUT_NODE, lease, "node %llu: %s", (unsigned long long)lease,
	    text);
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
