/* cluster.c - the cluster: what is held, what it could hold, and what the world reports. */
#include "base/assert.h"
#include "exec/effects.h"

void
espl__cluster_init(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.cloud_waits = 1;
	x->cluster.clock_at = ESPL_NEVER;
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

/* GPUs that could ever be held at once.  An offer that pauses will be back: a trial that begins
 * meanwhile must not be kept narrow for good. */
uint64_t
espl__cluster_potential(const struct espl__exec *x)
{
	uint64_t limit = x->config->gpus_limit, gpus;

	ESPL__CHECK(x, EXEC);
	gpus = espl__sold_gpus(&x->fleet, limit);
	for (uint32_t i = 0; i < x->cluster.record_count && gpus < limit; i++) {
		const struct espl_offer *o = x->fleet.offers[i];

		if (x->cluster.records[i].hidden)
			gpus += o->nodes_max == ESPL_ANY ? UINT32_MAX / 2
							 : (uint64_t)o->nodes_max * o->gpus;
	}
	return gpus < limit ? gpus : limit;
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

espl_time
espl__cluster_failing_since(const struct espl__exec *x, uint32_t offer)
{
	ESPL__CHECK(x, EXEC);
	return offer < x->cluster.record_count ? x->cluster.records[offer].failing_since
					       : ESPL_NEVER;
}

void
espl__cluster_paid_off(struct espl__exec *x)
{
	x->cluster.interrupted = 0;
}

void
espl__cluster_node_why(struct espl__exec *x, uint64_t lease, const char *text)
{
	ESPL__CHECK(x, EXEC);
	free(x->cluster.node_why);
	x->cluster.node_why = espl__strdup(text);
	x->cluster.node_why_lease = lease;
	x->cluster.node_why_at = x->now;
	if (espl__machine_at(&x->fleet, lease) != NULL)
		espl__machine_at(&x->fleet, lease)->last =
		    espl__arena_strdup(&x->fleet.arena, text);
	espl__exec_note(x, ESPL_ABOUT_NODE, lease, "node %llu: %s", (unsigned long long)lease,
	    text);
}
