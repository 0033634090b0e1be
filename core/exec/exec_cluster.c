/* exec_cluster.c - the cluster: machines' states, letting go of nodes above the targets, the end of
 * the run.
 *
 * Never hold what nobody wants: a node above target drains and is released as soon as its last
 * seat is empty; when the search is over everything goes.
 */
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/state.h"
#include "model/sold.h"

#define UNUSED_MOST 50u /* leases in a row that no trial used: the allocator is broken */

void
espl__exec_gpu_time(struct espl__exec *x)
{
	x->gpu_s += (double)(x->now - x->gpu_since) / 1e9 * x->fleet.gpus_held;
	x->gpu_since = x->now;
}

/* GPUs that could ever be held at once. */
uint64_t
espl__exec_potential(const struct espl__exec *x)
{
	return espl__sold_gpus(&x->fleet, x->config->gpus_limit);
}

uint32_t
espl__exec_gpus_min(const struct espl__exec *x)
{
	uint64_t least = 1;

	for (uint32_t i = 0; i < x->search_count; i++) {
		const struct espl__search *s = x->searches[i];

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
	n->pub.billed_from = espl__ledger_billed_from(x->ledger, n->pub.id);
	n->pub.charged = espl__ledger_lease(x->ledger, n->pub.id, x->now);
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->node != NULL)
			o->node(o->ctx, x->now, &n->pub, x->fleet.offers[n->pub.offer],
			    n->pub.charged, why);
}

/* ---- states of nodes ---------------------------------------------------------------------- */

/* Whoever has a place on the node must go elsewhere. */
static void
evict(struct espl__exec *x, const struct espl__machine *n, int lost)
{
	for (uint32_t i = 0; i < x->gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->gangs_view[i]);
		uint32_t k;

		for (k = 0; k < item->target_count && item->target[k].node != n->pub.id; k++)
			;
		if (k == item->target_count)
			continue;
		item->pub.flags |= ESPL_ITEM_EVICTED;
		espl__item_changed(item, lost ? ESPL_WHY_NODES : ESPL_WHY_NOTICE);
		if (lost)
			espl__item_target(x, item, NULL, 0);
		espl__item_look(x, item);
	}
}

static void
kill_gangs(struct espl__exec *x, const struct espl__machine *n)
{
	for (struct espl__gang *g = x->gang_first; g != NULL; g = g->next) {
		int here = 0;

		for (uint32_t i = 0; i < g->share.gpus; i++)
			here |= g->slots[i].node == n->pub.id;
		for (uint32_t i = 0; i < g->onto_count; i++)
			here |= g->onto[i].node == n->pub.id;
		if (here)
			espl__exec_kill(x, g, 0, NULL);
	}
}

static void
node_ended(struct espl__exec *x, struct espl__machine *n, const struct espl__event *e)
{
	static const char *const words[] = { "ended", "released", "revoked by the provider",
		"failed", "no capacity", "over the quota", "at its time limit" };
	espl_reason reason =
	    e->as.node.reason <= ESPL_BY_EXPIRY || e->as.node.reason == ESPL__BY_GIVING_UP
	    ? e->as.node.reason
	    : 0;
	/* else of an agent that was lost */
	int told =
	    x->node_why != NULL && x->node_why_lease == n->pub.id && x->node_why_at == x->now;
	const char *why = told             ? x->node_why
	    : reason == ESPL__BY_GIVING_UP ? "given up"
					   : words[reason];

	evict(x, n, 1);
	kill_gangs(x, n);
	espl__ledger_close(x->ledger, n->pub.id, x->now, reason, e->as.node.charged);
	espl__machine_state(&x->fleet, n, ESPL_NODE_ENDED, ESPL_ANY);
	if (reason != ESPL_BY_USER && !told)
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu: %s",
		    (unsigned long long)n->pub.id, why);
	espl__exec_show_node(x, n, why);
	espl__lease_ended(x, n, reason, why);
}

void
espl__exec_node(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node.lease);
	espl_node_state state = e->as.node.state;

	(void)diag;
	if (n == NULL || !n->live || (state < n->pub.state && state != ESPL_NODE_ENDED))
		return;
	espl__exec_gpu_time(x);
	espl__exec_why(x, ESPL_WHY_NODES);
	x->place_why |= ESPL_WHY_NODES;
	x->cluster_dirty = 1;
	if (state == ESPL_NODE_ENDED) {
		node_ended(x, n, e);
		return;
	}
	if (e->as.node.ends_at != ESPL_NEVER)
		n->pub.ends_at = e->as.node.ends_at;
	if (state == n->pub.state)
		return;
	espl__ledger_state(x->ledger, n->pub.id, state, x->now);
	if (state == ESPL_NODE_READY) {
		n->pub.ready_at = x->now;
		espl__lease_ready(x, n);
	}
	espl__machine_state(&x->fleet, n, state, e->as.node.gpus);
	if (state == ESPL_NODE_READY)
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu is ready: %u %s",
		    (unsigned long long)n->pub.id, (unsigned)n->pub.gpu_count,
		    espl__exec_unit(x, n->pub.gpu_count));
	if (state == ESPL_NODE_NOTICE) {
		espl__exec_why(x, ESPL_WHY_NOTICE);
		x->place_why |= ESPL_WHY_NOTICE;
		evict(x, n, 0);
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu has notice",
		    (unsigned long long)n->pub.id);
	}
	if (x->fleet.placeable_count > x->nodes_peak)
		x->nodes_peak = x->fleet.placeable_count;
	x->seats_freed = 1;
	espl__exec_show_node(x, n,
	    state == ESPL_NODE_READY        ? "ready"
		: state == ESPL_NODE_NOTICE ? "notice"
					    : "booting");
}

/* The driver comes back: processes are gone, nodes must be told again. */
static void
reset_nodes(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		n->releasing = 0;
		/* Whoever resumes has looked at what was wrong: every node gets another chance. */
		n->failures = 0;
		n->failed_trial = ESPL_NONE;
		if ((n->pub.flags & ESPL_NODE_QUARANTINED) != 0)
			espl__machine_flag(&x->fleet, n, 0, ESPL_NODE_QUARANTINED);
		if (n->pub.state == ESPL_NODE_READY || n->pub.state == ESPL_NODE_NOTICE)
			espl__machine_state(&x->fleet, n, ESPL_NODE_BOOTING, ESPL_ANY);
	}
}

static void
reset_trial(struct espl__exec *x, struct espl__trial *t)
{
	if (t->item == NULL) {
		espl__exec_mark_unsaved(t);
		espl__exec_collect_later(x, t);
		return;
	}
	if (t->pub.state == ESPL_TRIAL_RUNNING)
		espl__trial_state(&t->search->trials, t, ESPL_TRIAL_WAITING);
	t->item->pub.flags &= ~(ESPL_ITEM_RUNNING | ESPL_ITEM_CHANGING);
	espl__item_progress(x, t->item, espl__trial_restores(t));
	espl__item_changed(t->item, ESPL_WHY_NODES);
	espl__exec_show(x, t);
}

void
espl__exec_resume(struct espl__exec *x)
{
	espl__exec_note(x, ESPL_ABOUT_RUN, 0, "the driver came back; %u gang%s gone",
	    (unsigned)x->gang_count, x->gang_count == 1 ? " is" : "s are");
	x->awaiting_count = 0;
	for (struct espl__gang *g = x->gang_first; g != NULL; g = g->next)
		g->awaiting = 0;
	for (uint32_t i = x->gangs_count; i > 0; i--) {
		struct espl__item *item = espl__item_of_gang(x->gangs_view[i - 1]);
		espl__item_target(x, item, NULL, 0);
	}
	while (x->gang_first != NULL) {
		struct espl__gang *g = x->gang_first;
		struct espl__trial *t = g->trial;
		for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
			if (o->gang != NULL)
				o->gang(o->ctx, x->now, g->id, espl__trial_uid(t), "ended",
				    g->share, g->slots, "lost with the driver");
		espl__gang_free(x, g);
		reset_trial(x, t);
	}
	reset_nodes(x);
	for (uint32_t i = 0; i < x->computing_count; i++) {
		struct espl_outcome lost = ESPL_INIT(struct espl_outcome);
		struct espl__event e = { .type = ESPL__EV_OUTCOME };
		lost.status = ESPL_E_REMOTE;
		lost.token = x->computing[i].token;
		e.as.outcome.outcome = &lost;
		(void)espl__exec_event(x, &e, NULL);
		i--;
	}
	x->timer = ESPL_NEVER;
	x->cluster_dirty = 1;
	x->cloud_waits = 1;
	x->cloud_ready = 0;
	espl__exec_why(x, ESPL_WHY_NODES);
	x->place_why |= ESPL_WHY_NODES;
	espl__exec_capacity(x);
	/* What made it fail may have been mended; a deadline or a budget stays what it was. */
	if (x->ending == ESPL__RUN_INTERRUPTED || x->ending == ESPL__RUN_FAILED) {
		x->ending = 0;
		x->ended = 0;
		for (uint32_t i = 0; i < x->search_count; i++)
			x->searches[i]->failures = x->searches[i]->tier->failures = 0;
		x->top.failures = x->placer_failures = 0;
		x->unused = 0;
		espl__lease_records_reset(x);
	}
}

/* ---- up to the targets, down to the targets ----------------------------------------------- */

int
espl__exec_needs_no_nodes(const struct espl__exec *x)
{
	return x->ending != 0 || espl__exec_idle(x);
}

/* Nodes above target, by offer: not yet ready ones are let go first, the placer chooses the rest.
 */
void
espl__exec_give_ups(struct espl__exec *x)
{
	x->give_up_count = 0;
	for (uint32_t o = 0; o < x->fleet.offer_count; o++) {
		uint32_t target = espl__exec_needs_no_nodes(x) ? 0 : x->fleet.targets[o];
		uint32_t held = espl__fleet_nodes(&x->fleet, o, 0);

		for (uint32_t i = x->fleet.live_count; i > 0 && held > target; i--) {
			struct espl__machine *n =
			    espl__machine_at(&x->fleet, x->fleet.live[i - 1]->id);
			if (n->pub.offer != o || (n->pub.flags & ESPL_NODE_RETIRING) != 0 ||
			    (n->pub.state != ESPL_NODE_REQUESTED &&
				n->pub.state != ESPL_NODE_BOOTING) ||
			    x->cloud_waits)
				continue;
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
			held--;
		}
		if (held <= target)
			continue;
		ESPL__GROW(x->give_up, x->give_up_cap, x->give_up_count + 1);
		x->give_up[x->give_up_count].offer = o;
		x->give_up[x->give_up_count++].nodes = held - target;
	}
}

/* What the placer left: idle nodes above target go without being asked, the others as soon as they
 * are empty. */
static void
retire_rest(struct espl__exec *x)
{
	x->surplus = 0;
	for (uint32_t k = 0; k < x->give_up_count; k++) {
		uint32_t left = x->give_up[k].nodes;

		for (uint32_t i = x->fleet.live_count; i > 0 && left > 0; i--) {
			struct espl__machine *n =
			    espl__machine_at(&x->fleet, x->fleet.live[i - 1]->id);
			if (n->pub.offer != x->give_up[k].offer ||
			    (n->pub.flags & ESPL_NODE_RETIRING) != 0 || n->releasing ||
			    (n->seats > 0 && !espl__exec_needs_no_nodes(x)))
				continue;
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
			left--;
		}
		x->surplus |= left > 0;
	}
	x->give_up_count = 0;
}

static void
release_empty(struct espl__exec *x)
{
	int unused = 0;

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		if ((n->pub.flags & ESPL_NODE_RETIRING) == 0 || n->seats > 0 || n->releasing ||
		    x->cloud_waits)
			continue;
		n->releasing = 1;
		unused |= !n->used;
		if (n->used)
			x->unused = 0;
		espl__exec_effect(x, ESPL__FX_RELEASE)->as.release.lease = n->pub.id;
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu is released",
		    (unsigned long long)n->pub.id);
	}
	/* Once for all that go before others are leased: an experiment that is cancelled may leave
	 * any number that boot. */
	if (!unused || !x->leased)
		return;
	x->leased = 0;
	if (++x->unused > UNUSED_MOST && x->ending == 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "%u times in a row nodes were leased and released before anything ran on them: "
		    "%s asks for nodes that it gives up",
		    (unsigned)x->unused, x->top.allocator->who);
}

/* Quarantined nodes hold money and give nothing: they are let go, and new ones come in their place
 * (up to the target), unless the cloud has no others to give. */
void
espl__exec_let_go(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		uint32_t most = x->fleet.offers[n->pub.offer]->nodes_max;
		if ((n->pub.flags & ESPL_NODE_QUARANTINED) != 0 &&
		    (n->pub.flags & ESPL_NODE_RETIRING) == 0 && most == ESPL_ANY)
			espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
	}
}

/* ---- the end ------------------------------------------------------------------------------ */

/* The algorithm has finished and nothing trains any more: did anything come of it? */
static void
search_over(struct espl__exec *x)
{
	char what[200];

	if (espl__search_came_to_nothing(x->searches[0], what, sizeof what))
		espl__exec_fails(x, what);
	else
		espl__exec_wind_up(x, ESPL__RUN_DONE, "the search is complete");
}

/* A pool: each search ends by itself, and the pool with the last. */
static void
pool_over(struct espl__exec *x)
{
	uint32_t over = 0, good = 0;

	for (uint32_t i = 0; i < x->search_count; i++) {
		struct espl__search *s = x->searches[i];

		if (!s->over && espl__search_idle(s) && s->gang_count == 0 &&
		    (s->ending != 0 || !espl__exec_salvage(s)))
			espl__search_closed(s);
		over += s->over;
		good += s->over && s->ending != ESPL__RUN_FAILED &&
		    (s->jobs == NULL || s->failed < s->jobs->list.count);
	}
	if (over < x->search_count)
		return;
	if (good > 0)
		espl__exec_wind_up(x, ESPL__RUN_DONE, "all experiments and jobs have ended");
	else
		espl__exec_fails(x,
		    x->searches[0]->jobs != NULL ? "all experiments and jobs have failed"
						 : "all experiments have failed");
}

static void
wind_down(struct espl__exec *x)
{
	struct espl__effect *e;

	if (x->ending == 0 && x->config->pool)
		pool_over(x);
	else if (x->ending == 0 && x->gang_count == 0 && espl__exec_idle(x) &&
	    !espl__exec_salvage(x->searches[0]))
		search_over(x);
	if (x->ending == 0)
		return;
	for (uint32_t i = 0; i < x->gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->gangs_view[i]);
		if (item->target_count > 0)
			espl__item_target(x, item, NULL, 0);
	}
	/* Those that leave already, too: they might never be done. */
	for (struct espl__gang *g = x->gang_first; g != NULL; g = g->next)
		espl__exec_kill(x, g, g->trial->search->config->trial.grace, NULL);
	if (x->gang_count > 0 || x->fleet.live_count > 0 || x->ended)
		return;
	x->ended = 1;
	for (uint32_t i = 0; i < x->search_count; i++)
		if (x->ending == ESPL__RUN_DONE || x->ending == ESPL__RUN_DEADLINE ||
		    x->ending == ESPL__RUN_BUDGET || espl__exec_idle(x))
			espl__search_settle(x->searches[i]);
	e = espl__exec_effect(x, ESPL__FX_END);
	e->as.end.how = x->ending;
	e->as.end.text = x->end_text;
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->end != NULL)
			o->end(o->ctx, x->now, x->ending, x->end_text);
}

void
espl__exec_cluster(struct espl__exec *x)
{
	enum espl__run_end before;
	uint32_t open;

	wind_down(x);
	do {
		before = x->ending;
		open = espl__searches_open(x);
		if (x->cluster_dirty || espl__exec_needs_no_nodes(x) ||
		    (x->seats_freed && (x->surplus || x->fleet.retiring > 0)) ||
		    espl__lease_retry_at(x) <= x->now) {
			x->cluster_dirty = 0;
			espl__exec_give_ups(x);
			espl__exec_let_go(x);
			retire_rest(x);
			release_empty(x);
			if (!espl__exec_needs_no_nodes(x))
				espl__lease_nodes(x);
			else
				espl__lease_forget_retries(x);
		}
		espl__exec_stall(x);
		wind_down(x);
	} while (x->ending != before || (x->ending == 0 && espl__searches_open(x) != open));
}
