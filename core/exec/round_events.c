/* round_events.c - dispatches events to the objects that they concern. */
#include <string.h>
#include "base/assert.h"
#include "exec/cluster_health.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_place.h"
#include "exec/items_tiers.h"
#include "exec/searches_decisions.h"
#include "exec/searches_jobs.h"
#include "exec/searches_more.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"

static void
on_started(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__gang_at(x, e->as.gang);

	if (g == NULL || !espl__gang_started(x, g))
		return;
	espl__trial_handed(g->trial);
	if (g->trial->pub.state == ESPL_TRIAL_WAITING && g->trial->item != NULL) {
		espl__trial_runs(g->trial);
		espl__item_settled(x, g->trial->item);
		espl__trial_show(x, g->trial);
	}
	espl__gang_show(x, g, ESPL__PHASE_RUNNING, "");
}

static void
on_saved(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__gang_at(x, e->as.saved.gang);

	if (g == NULL)
		return;
	espl__gang_saved(x, g);
	/* A checkpoint of an iteration that was not reported would hide it from the algorithm. */
	if (g->trial->search->config->resource != NULL) {
		if (e->as.saved.iteration == g->mark.step)
			espl__trial_saved(x, g->trial, g->iteration, g->mark);
	} else if (e->as.saved.iteration <= g->trial->pub.iteration) {
		espl__trial_saved(x, g->trial, e->as.saved.iteration,
		    (struct espl__mark){ e->as.saved.iteration, 0 });
	}
}

static void
stop_for_user(struct espl__exec *x)
{
	if (x->round.ending == 0)
		x->round.user_stops = 1;
	espl__exec_wind_up(x, ESPL__RUN_INTERRUPTED, "interrupted by the user");
}

static espl_status
on_cancel(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	uint64_t number = e->as.cancel.number;

	if (e->as.cancel.trial != ESPL_NONE && number < x->searches.count &&
	    x->searches.list[number]->algorithm != NULL)
		return espl__search_stop(x, number, e->as.cancel.trial, diag);
	espl__search_cancel(x, number, e->as.cancel.trial);
	return ESPL_OK;
}

/* A record of the past changes nothing that is charged from now on. */
static void
on_price(struct espl__exec *x, const struct espl__event *e)
{
	uint32_t offer = e->as.price.offer;

	if (offer >= x->fleet.offer_count ||
	    !espl__market_price(&x->market, offer, &e->as.price.price))
		return;
	x->fleet.offers[offer]->price_hour = e->as.price.price.usd_hour;
	espl__searches_stale(x, 1);
	espl__ledger_price(x->ledger, offer, e->as.price.price.from, e->as.price.price.usd_hour);
	if (espl__market_watched(&x->market, offer))
		espl__tier_ask(&x->items.top, ESPL_WHY_PRICE);
}

/* Its slots stay held and its trials keep running; they do not count as silent. */
static void
on_reach(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.reach.lease);
	uint32_t lost = e->as.reach.reachable ? 0 : ESPL_NODE_UNREACHABLE;

	if (n == NULL || !n->live || (n->pub.flags & ESPL_NODE_UNREACHABLE) == lost)
		return;
	espl__machine_flag(&x->fleet, n, lost, ESPL_NODE_UNREACHABLE);
	for (struct espl__gang *g = x->gangs.first; g != NULL && lost == 0; g = g->next)
		if (espl__gang_on(g, n->pub.id))
			espl__gang_seen(x, g);
	espl__items_freed(x, 1);
	espl__tiers_ask(x, ESPL_WHY_NODES);
	espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id,
	    lost != 0 ? "node %llu is unreachable: %s; its trials keep running"
		      : "node %llu is reachable again after %s",
	    (unsigned long long)n->pub.id, e->as.reach.text);
}

/* Its trials save at their next report but do not move: the node may never be interrupted.  A
 * recommendation to replace it may be followed by the notice that it will be. */
static void
on_risk(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node_why.lease);

	if (n == NULL || !n->live || (n->risk != NULL && strcmp(n->risk, e->as.node_why.text) == 0))
		return;
	n->risk = espl__arena_strdup(&x->fleet.arena, e->as.node_why.text);
	espl__machine_flag(&x->fleet, n, ESPL_NODE_AT_RISK, 0);
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (espl__gang_on(g, n->pub.id))
			g->trial->save_asked = 1;
	espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id,
	    "node %llu is at risk: %s; its trials save now, and others are placed elsewhere if "
	    "possible",
	    (unsigned long long)n->pub.id, e->as.node_why.text);
}

static void
on_machine(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node_why.lease);

	espl__cluster_machine(x, e->as.node_why.lease, e->as.node_why.text);
	if (n != NULL)
		espl__lease_on_machine(x, n);
}

static void
on_host(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node_why.lease);

	if (n != NULL && n->live)
		n->host = espl__arena_strdup(&x->fleet.arena, e->as.node_why.text);
}

/* The offers are known: can a trial of this search ever run?  Where nodes are held already, by a
 * run that is resumed, offers may have been given up since. */
static espl_status
on_cloud(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	espl_status status = espl__cluster_cloud(x, e, diag);
	int holds = x->fleet.live_count > 0 && espl__exec_follows(x, ESPL__RULES_SUPPLY);

	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK && !holds; i++)
		status = espl__search_suits(x->searches.list[i], diag);
	if (status == ESPL_OK)
		espl__tiers_ask(x, ESPL_WHY_NODES);
	return status;
}

espl_status
espl__round_event(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	ESPL__CHECK(x, EXEC);
	switch (e->type) {
	case ESPL__EV_START: espl__searches_begun(x); return ESPL_OK;
	case ESPL__EV_RESUME: espl__round_resume(x); return ESPL_OK;
	case ESPL__EV_OFFER:
		espl__searches_stale(x, 1);
		espl__lease_offered(x, espl__fleet_offer(&x->fleet, e->as.offer));
		return ESPL_OK;
	case ESPL__EV_PRICE: on_price(x, e); return ESPL_OK;
	case ESPL__EV_CLOUD: return on_cloud(x, e, diag);
	case ESPL__EV_NODE: espl__round_node(x, e); return ESPL_OK;
	case ESPL__EV_NODE_WHY:
		espl__cluster_node_why(x, e->as.node_why.lease, e->as.node_why.text);
		return ESPL_OK;
	case ESPL__EV_RETRY:
		espl__lease_retry(x, e->as.retry.lease, e->as.retry.after);
		return ESPL_OK;
	case ESPL__EV_REACH: on_reach(x, e); return ESPL_OK;
	case ESPL__EV_NO_ROUTE: espl__round_no_route(x, e); return ESPL_OK;
	case ESPL__EV_RISK: on_risk(x, e); return ESPL_OK;
	case ESPL__EV_HOST: on_host(x, e); return ESPL_OK;
	case ESPL__EV_MACHINE: on_machine(x, e); return ESPL_OK;
	case ESPL__EV_OUTLIVED:
		if (espl__gang_at(x, e->as.gang) != NULL)
			espl__gang_outlived(espl__gang_at(x, e->as.gang));
		return ESPL_OK;
	case ESPL__EV_UNFIT: espl__round_unfit(x, e); return ESPL_OK;
	case ESPL__EV_DRAIN: espl__round_drain(x, e); return ESPL_OK;
	case ESPL__EV_METRIC: espl__searches_metric(x, e->as.metric); return ESPL_OK;
	case ESPL__EV_STARTED: on_started(x, e); return ESPL_OK;
	case ESPL__EV_REPORT: return espl__search_report(x, e, diag);
	case ESPL__EV_SAVED: on_saved(x, e); return ESPL_OK;
	case ESPL__EV_ENDED: return espl__round_gang_ended(x, e, diag);
	case ESPL__EV_RESIZED:
		if (espl__gang_resized(x, e))
			espl__searches_capacity(x);
		return ESPL_OK;
	case ESPL__EV_GPU: espl__round_gpu(x, e); return ESPL_OK;
	case ESPL__EV_JOB: espl__job_arrive(x, e); return ESPL_OK;
	case ESPL__EV_EXPERIMENT: return espl__search_arrive(x, e->as.number, diag);
	case ESPL__EV_CANCEL: return on_cancel(x, e, diag);
	case ESPL__EV_REOPEN: espl__round_continue(x); return ESPL_OK;
	case ESPL__EV_EXTEND: espl__round_reopen(x); return espl__search_extend(x, e, diag);
	case ESPL__EV_TRIAL_NOTE: espl__search_note(x, e); return ESPL_OK;
	case ESPL__EV_OUTCOME: espl__searches_outcome(x, e); return ESPL_OK;
	case ESPL__EV_HELD: espl__gangs_held(x, e->as.late); return ESPL_OK;
	case ESPL__EV_ASK: espl__searches_asked(x, e->as.count); return ESPL_OK;
	case ESPL__EV_TIMER: x->round.timer = ESPL_NEVER; return ESPL_OK;
	case ESPL__EV_STOP: stop_for_user(x); return ESPL_OK;
	case ESPL__EV_NOTE: espl__exec_note(x, ESPL_ABOUT_RUN, 0, "%s", e->as.text); return ESPL_OK;
	case ESPL__EV_TROUBLE: espl__exec_interrupt(x, "%s", e->as.text); return ESPL_OK;
	}
	return ESPL_OK;
}
