/* round_nodes.c - state changes of nodes and their GPUs. */
#include <stdio.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/cluster_health.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/items_tiers.h"
#include "exec/items.h"
#include "exec/items_place.h"
#include "exec/searches_faults.h"

/* Micro-dollars in addition to the cost of a minute: a cloud is asked only now and then. */
#define CHARGE_SLACK 5000

void
espl__round_news(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (!espl__cluster_take_news(x))
		return;
	espl__searches_stale(x, 1);
	espl__tiers_ask(x, ESPL_WHY_NODES);
}

void
espl__round_mark_nodes(struct espl__exec *x)
{
	espl__tiers_ask(x, ESPL_WHY_NODES);
	espl__items_ask_placer(x, ESPL_WHY_NODES);
	espl__cluster_mark(x);
}

/* ---- states of nodes ---------------------------------------------------------------------- */

static void
kill_gangs(struct espl__exec *x, const struct espl__machine *n)
{
	for (struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (espl__gang_on(g, n->pub.id))
			espl__gangs_kill(x, g, 0);
}

/* The provider's figure is charged; a difference from ours must not go unnoticed. */
static void
compare_charge(struct espl__exec *x, const struct espl__machine *n, espl_reason reason,
    espl_money charged)
{
	espl_money due = espl__ledger_due(x->ledger, n->pub.id, x->now, reason);
	espl_money slack = CHARGE_SLACK + x->fleet.offers[n->pub.offer]->price_hour / 60;
	char theirs[32], ours[32];

	if (charged >= 0 && (charged - due >= slack || due - charged >= slack))
		espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id,
		    "node %llu: the provider charges $%s, but by the terms of its offer it costs "
		    "$%s",
		    (unsigned long long)n->pub.id, espl__format_money(charged, theirs),
		    espl__format_money(due, ours));
}

/* Did the provider take it back, as it may at any time? (Where machines are not interruptible, a
 * provider ends what has misused one, too.) */
static int
is_taken_back(const struct espl__exec *x, const struct espl__machine *n, espl_reason reason)
{
	return reason == ESPL_BY_PROVIDER && n->used && espl__exec_follows(x, ESPL__RULES_LOSSES) &&
	    (x->fleet.offers[n->pub.offer]->flags & ESPL_OFFER_REVOCABLE) != 0;
}

/* What its end says about the market: a machine that was given back during its notice would have
 * been taken back. */
static espl_reason
market_reason(const struct espl__exec *x, const struct espl__machine *n, espl_reason reason)
{
	return reason == ESPL_BY_USER && n->pub.state == ESPL_NODE_NOTICE &&
		x->fleet.offers[n->pub.offer]->lease_max == 0 &&
		espl__exec_follows(x, ESPL__RULES_MARKET)
	    ? ESPL_BY_PROVIDER
	    : reason;
}

static void
node_ended(struct espl__exec *x, struct espl__machine *n, const struct espl__event *e)
{
	static const char *const words[] = { "ended", "released", "interrupted by the provider",
		"failed", "no capacity", "over the quota", "at its time limit" };
	int useless =
	    e->as.node.reason == ESPL__BY_GIVING_UP || e->as.node.reason == ESPL__BY_REFUSAL;
	espl_reason reason = e->as.node.reason <= ESPL_BY_EXPIRY || useless ? e->as.node.reason : 0;
	/* else of an agent that was lost */
	int told = x->cluster.node_why != NULL && x->cluster.node_why_lease == n->pub.id &&
	    x->cluster.node_why_at == x->now;
	const char *why = told ? x->cluster.node_why : useless ? "given up" : words[reason];

	espl__items_evict(x, n->pub.id, ESPL_ANY, 1);
	kill_gangs(x, n);
	if (is_taken_back(x, n, reason))
		espl__searches_taken_back(x, n->pub.id);
	compare_charge(x, n, reason, e->as.node.charged);
	espl__ledger_close(x->ledger, n->pub.id, x->now, reason, e->as.node.charged);
	espl__market_ended(&x->market, n, market_reason(x, n, reason));
	espl__machine_state(&x->fleet, n, ESPL_NODE_ENDED, ESPL_ANY);
	if (reason != ESPL_BY_USER && !told)
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu: %s",
		    (unsigned long long)n->pub.id, why);
	espl__cluster_show_node(x, n, why);
	espl__lease_ended(x, n, reason, why);
	espl__round_news(x);
}

void
espl__round_node(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node.lease);
	espl_node_state state = e->as.node.state;

	ESPL__CHECK(x, EXEC);
	if (n == NULL || !n->live || (state < n->pub.state && state != ESPL_NODE_ENDED))
		return;
	espl__cluster_gpu_time(x);
	espl__round_mark_nodes(x);
	if (state == ESPL_NODE_ENDED) {
		node_ended(x, n, e);
		return;
	}
	if (e->as.node.ends_at != ESPL_NEVER)
		n->pub.ends_at = e->as.node.ends_at;
	if (state == n->pub.state)
		return;
	espl__lease_state(x, n, state, e->as.node.gpus);
	if (state == ESPL_NODE_READY)
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu%s%s%s is ready: %u %s",
		    (unsigned long long)n->pub.id, n->host != NULL ? " (" : "",
		    n->host != NULL ? n->host : "", n->host != NULL ? ")" : "",
		    (unsigned)n->pub.gpu_count, espl__exec_unit(x, n->pub.gpu_count));
	if (state == ESPL_NODE_NOTICE) {
		espl__tiers_ask(x, ESPL_WHY_NOTICE);
		espl__items_ask_placer(x, ESPL_WHY_NOTICE);
		espl__items_evict(x, n->pub.id, ESPL_ANY, 0);
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id,
		    "node %llu has an interruption notice", (unsigned long long)n->pub.id);
	}
	espl__items_freed(x, 1);
	espl__cluster_show_node(x, n, espl__node_state_word(state));
}

/* ---- nodes that are set aside -------------------------------------------------------------- */

/* Its trials save, if they can, and continue elsewhere. */
static void
move_away(struct espl__exec *x, const struct espl__machine *n)
{
	espl__tiers_ask(x, ESPL_WHY_NOTICE);
	espl__items_ask_placer(x, ESPL_WHY_NOTICE);
	espl__items_evict(x, n->pub.id, ESPL_ANY, 0);
	espl__items_freed(x, 1);
	espl__round_mark_nodes(x);
}

void
espl__round_unfit(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node_why.lease);

	ESPL__CHECK(x, EXEC);
	if (n == NULL || !n->live || n->unfit != NULL)
		return;
	espl__cluster_gpu_time(x);
	if (!espl__lease_unfit(x, n, ESPL__HEALTH_NODE, e->as.node_why.text))
		espl__exec_interrupt(x, "%s", e->as.node_why.text);
	move_away(x, n);
}

void
espl__round_drain(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.drain.lease);

	ESPL__CHECK(x, EXEC);
	if (n == NULL)
		return;
	espl__cluster_gpu_time(x);
	espl__cluster_drain(x, n, e->as.drain.on);
	if (n->live && e->as.drain.on)
		move_away(x, n);
	else
		espl__round_mark_nodes(x);
}

static void
note_sharing(struct espl__exec *x, const struct espl__gang *g, const struct espl__event *e)
{
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial), "shares its GPU by %s%s%s",
	    e->as.gpu.number == ESPL__SHARE_MPS ? "MPS" : "time slicing",
	    e->as.gpu.text[0] != '\0' ? ": " : "", e->as.gpu.text);
}

static void
note_memory(struct espl__exec *x, struct espl__trial *t, uint64_t bytes)
{
	if (bytes <= t->gpu_memory)
		return;
	t->gpu_memory = bytes;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "uses %llu MiB of a GPU's memory",
	    (unsigned long long)((bytes + (1u << 20) - 1) >> 20));
	if (t->item != NULL)
		espl__item_memory(t->item, bytes);
}

/* Items with a target there need a new one; a node without a usable GPU is given back, if another
 * could be had instead, or set aside as a whole. */
static void
set_gpu_aside(struct espl__exec *x, struct espl__machine *n, uint32_t gpu, const char *why)
{
	char text[200];

	if (gpu >= n->pub.gpu_count || n->gpus[gpu].pub.blocked)
		return;
	espl__cluster_gpu_time(x);
	espl__fleet_block(&x->fleet, n, gpu);
	espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "GPU %u of node %llu is set aside: %s",
	    (unsigned)gpu, (unsigned long long)n->pub.id, why);
	espl__items_evict(x, n->pub.id, gpu, 1);
	for (uint32_t i = 0; i < n->pub.gpu_count; i++)
		if (!n->gpus[i].pub.blocked)
			gpu = ESPL_ANY;
	if (gpu == ESPL_ANY || (n->pub.flags & ESPL_NODE_QUARANTINED) != 0) {
		espl__round_mark_nodes(x);
		return;
	}
	if (espl__exec_follows(x, ESPL__RULES_SUPPLY) && n->unfit == NULL &&
	    espl__lease_replaces(x, n)) {
		(void)snprintf(text, sizeof text, "none of its GPUs can be used: %.160s", why);
		(void)espl__lease_unfit(x, n, ESPL__HEALTH_GPU, text);
	} else {
		espl__machine_flag(&x->fleet, n, ESPL_NODE_QUARANTINED, 0);
		espl__cluster_show_node(x, n, "quarantined");
	}
	espl__round_mark_nodes(x);
}

void
espl__round_gpu(struct espl__exec *x, const struct espl__event *e)
{
	int about_gang = e->as.gpu.what == ESPL__GPU_SHARED || e->as.gpu.what == ESPL__GPU_MEMORY;
	struct espl__gang *g = about_gang ? espl__gang_at(x, e->as.gpu.id) : NULL;
	struct espl__machine *n = about_gang ? NULL : espl__machine_at(&x->fleet, e->as.gpu.id);

	ESPL__CHECK(x, EXEC);
	if (e->as.gpu.what == ESPL__GPU_SHARED && g != NULL)
		note_sharing(x, g, e);
	else if (e->as.gpu.what == ESPL__GPU_MEMORY && g != NULL)
		note_memory(x, g->trial, e->as.gpu.number);
	else if (e->as.gpu.what == ESPL__GPU_FAULT && n != NULL)
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id,
		    "GPU %llu of node %llu: %s; not counted as a failure of any trial",
		    (unsigned long long)e->as.gpu.number, (unsigned long long)n->pub.id,
		    e->as.gpu.text);
	else if (e->as.gpu.what == ESPL__GPU_ASIDE && n != NULL && n->live)
		set_gpu_aside(x, n, (uint32_t)e->as.gpu.number, e->as.gpu.text);
}
