/* round_events.c - what happened, brought to those it concerns. */
#include <math.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/answers.h"
#include "exec/effects.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"
#include "exec/state.h"

static void
tell_report(struct espl__exec *x, struct espl__trial *t, const struct espl__event *e, double loss,
    struct espl_share share)
{
	struct espl_trial room;

	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->report != NULL)
			o->report(o->ctx, x->now, espl__exec_shown(t, &room),
			    e->as.report.iteration, loss, e->as.report.metrics, e->as.report.count,
			    share);
}

/* The share to which a measured time belongs: 1/c of a GPU only limits the number of neighbors, so
 * the trials actually there count. */
static struct espl_share
measured_share(const struct espl__exec *x, const struct espl__gang *g)
{
	const struct espl__gpu *gpu =
	    g->share.packing > 1 ? espl__gpu_at(&x->fleet, &g->slots[0], NULL) : NULL;
	struct espl_share share = g->share;
	uint32_t i, here = 0;

	for (i = 0; gpu != NULL && i < gpu->seat_count; i++)
		here += gpu->seats[i].held > 0;
	if (here > 0 && here < share.packing)
		share.packing = here;
	return share;
}

/* Updates how much slower than the profile this trial runs; its remaining work is estimated from
 * it. */
static void
update_pace(struct espl__trial *t, struct espl_share share, const struct espl_offer *on,
    double iteration_s)
{
	const struct espl__profile *p = t->search->session->profile;
	double told;

	if (p == NULL || p->guessed)
		return;
	told = espl__profile_iteration_s(p, share) / espl__profile_type_speed(p, on->gpu_type);
	if (told > 0 && told < INFINITY && iteration_s >= 0) {
		t->took_s += iteration_s;
		t->told_s += told;
	}
}

/* The executor's number of a metric -> the search's: see espl__search_metric. */
static uint32_t
number_of(const struct espl__search *s, uint32_t metric)
{
	return metric == s->objective ? 0 : metric < s->objective ? metric + 1 : metric;
}

/* The report as the algorithm sees it; metrics in the experiment's order. */
static espl_status
observe_report(struct espl__exec *x, struct espl__trial *t, struct espl__gang *g,
    const struct espl__event *e, double loss, uint64_t since, struct espl__diag *diag)
{
	struct espl__search *s = t->search;
	struct espl_observation o = ESPL_INIT(struct espl_observation);
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__reader answer;
	uint32_t count = x->searches.metrics.count;
	double room[16],
	    *metrics =
		count <= 16 ? room : espl__arena_alloc(&x->ops_arena, count * sizeof *metrics);
	struct espl_share share;
	espl_status status;

	for (uint32_t i = 0; i < count; i++)
		metrics[i] = NAN;
	for (uint32_t i = 0; i < e->as.report.count; i++)
		if (e->as.report.metrics[i].metric < count)
			metrics[number_of(s, e->as.report.metrics[i].metric)] =
			    e->as.report.metrics[i].value;
	o.trial = t->pub.id;
	o.iteration = e->as.report.iteration;
	o.loss = loss;
	o.metrics = metrics;
	o.metric_count = count;
	o.values = t->pub.values;
	o.at = x->now;
	o.iteration_s =
	    (double)(x->now - g->heard) / 1e9 / (double)(e->as.report.iteration - since);
	share = measured_share(x, g);
	if (g->warmed && g->sharers == share.packing) { /* the first one includes the start */
		uint32_t on = espl__machine_at(&x->fleet, g->slots[0].node)->pub.offer;

		if (espl__model_service_measure(&s->model, share, on, o.iteration_s))
			s->tier->why |= ESPL_WHY_PROFILE;
		update_pace(t, share, x->fleet.offers[on], o.iteration_s);
	}
	g->warmed = 1;
	g->sharers = (uint8_t)share.packing;
	o.share = g->share;
	if (s->history != NULL)
		espl__history_add(s->history, &o);
	espl__exec_turn(x, s);
	status = espl__call_report(&x->caller, s->algorithm, &t->pub, &o, &why);
	status = espl__exec_answer(x, s, s->algorithm, status, &why, &answer, diag);
	if (status == ESPL_OK)
		status = espl__exec_apply_search(x, s, &answer, diag);
	return status;
}

/* Nothing is compared among plain jobs: they need not report any metric. */
static int
read_objective(const struct espl__search *s, const struct espl__event *e, double *loss)
{
	*loss = NAN;
	for (uint32_t i = 0; i < e->as.report.count && s->algorithm != NULL; i++)
		if (e->as.report.metrics[i].metric == s->objective) {
			double value = e->as.report.metrics[i].value;
			*loss = s->config->maximize ? -value : value;
			return 1;
		}
	return s->algorithm == NULL;
}

/* The trial is at an iteration boundary: apply an earlier verdict, then check the budget. */
static espl_status
reach_boundary(struct espl__exec *x, struct espl__trial *t, struct espl__gang *g,
    struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (t->verdict != 0 && t->pub.state == ESPL_TRIAL_RUNNING) {
		espl_verdict verdict = t->verdict;
		t->verdict = 0;
		status = espl__exec_verdict(x, t, verdict, 1, diag);
	}
	if (status == ESPL_OK && t->pub.state == ESPL_TRIAL_RUNNING &&
	    g->iteration >= t->pub.budget)
		status = espl__exec_trial_over(x, t, ESPL_END_BUDGET, diag);
	return status;
}

static espl_status
on_report(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	struct espl__gang *g = espl__exec_gang(x, e->as.report.gang);
	struct espl__trial *t;
	uint64_t iteration = e->as.report.iteration, since;
	espl_status status = ESPL_OK;
	double loss;

	if (g == NULL || g->fault != NULL)
		return ESPL_OK;
	t = g->trial;
	ESPL__GROW(x->gangs.awaiting, x->gangs.awaiting_cap, x->gangs.awaiting_count + 1);
	x->gangs.awaiting[x->gangs.awaiting_count++] = g;
	g->awaiting = 1;
	since = g->iteration;
	if (iteration <= since || g->state == ESPL__GANG_LEAVING)
		return ESPL_OK; /* settled with a plain reply */
	if (!read_objective(t->search, e, &loss)) {
		espl__gang_lacks_metric(x, g, e);
		return ESPL_OK;
	}
	if ((double)(x->now - g->heard) / 1e9 / (double)(iteration - since) > t->search->longest_s)
		t->search->longest_s =
		    (double)(x->now - g->heard) / 1e9 / (double)(iteration - since);
	g->quiet_told = 0;
	for (uint32_t i = 0; !g->reported && i < g->share.gpus; i++)
		espl__lease_proved(x, espl__machine_at(&x->fleet, g->slots[i].node));
	g->iteration = iteration;
	g->reported = t->search->reported = 1;
	t->search->unstarted.count = 0;
	espl__exec_gpu_time(x);
	if (t->item != NULL)
		espl__item_progress(x, t->item, iteration);
	t->can_save = iteration >= t->pub.iteration;
	if (iteration > t->pub.iteration) {
		x->searches.reports++;
		t->pub.iteration = iteration;
		t->pub.loss = loss;
		espl__exec_best(x, t, iteration, loss);
		tell_report(x, t, e, loss, g->share);
		t->search->why |= ESPL_ASK_RESULT;
		if (t->search->algorithm != NULL && espl__exec_hears(t->search) &&
		    t->pub.state == ESPL_TRIAL_RUNNING)
			status = observe_report(x, t, g, e, loss, since, diag);
	}
	espl__gang_heard(x, g);
	if (status == ESPL_OK && espl__exec_hears(t->search))
		status = reach_boundary(x, t, g, diag);
	return status;
}

static void
on_started(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__exec_gang(x, e->as.started.gang);

	if (g == NULL || g->state != ESPL__GANG_STARTING)
		return;
	g->state = ESPL__GANG_RUNNING;
	espl__gang_heard(x, g);
	if (g->trial->pub.state == ESPL_TRIAL_WAITING && g->trial->item != NULL) {
		struct espl__item *item = g->trial->item;
		espl__trial_state(&g->trial->search->trials, g->trial, ESPL_TRIAL_RUNNING);
		if (item->pub.started == ESPL_NEVER)
			item->pub.started = x->now;
		item->pub.flags |= ESPL_ITEM_RUNNING;
		item->pub.flags &= ~ESPL_ITEM_EVICTED;
		espl__item_settled(x, item);
		espl__exec_show(x, g->trial);
	}
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->gang != NULL)
			o->gang(o->ctx, x->now, g->id, espl__trial_uid(g->trial),
			    ESPL__PHASE_RUNNING, g->share, g->slots, "");
}

static void
on_saved(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__exec_gang(x, e->as.saved.gang);

	if (g == NULL)
		return;
	g->saved_at = x->now;
	espl__gang_heard(x, g);
	/* A checkpoint of an iteration that was not reported would hide it from the algorithm. */
	if (e->as.saved.iteration <= g->trial->pub.iteration)
		espl__exec_saved(x, g->trial, e->as.saved.iteration);
}

/* The offers are known: can a trial of this search ever run? */
static espl_status
on_cloud(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	const struct espl__section *s = &x->config->cloud;
	espl_status status = ESPL_OK;

	x->cluster.cloud_waits = 0;
	if (e->as.cloud.status != ESPL_OK)
		return espl__fail_at(diag,
		    e->as.cloud.status == ESPL_E_CONFIG || e->as.cloud.status == ESPL_E_UNSUPPORTED
			? ESPL_E_CONFIG
			: e->as.cloud.status,
		    s->group != NULL ? s->group->file : NULL, s->group != NULL ? s->group->line : 0,
		    "cloud '%s': %s", s->use, e->as.cloud.text);
	x->cluster.cloud_ready = 1;
	x->cluster.dirty = 1;
	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK; i++)
		status = espl__search_suits(x->searches.list[i], diag);
	if (status == ESPL_OK)
		espl__exec_why(x, ESPL_WHY_NODES);
	return status;
}

static void
mark_models_stale(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		espl__model_service_stale(&x->searches.list[i]->model, 1);
}

static void
stop_for_user(struct espl__exec *x)
{
	if (x->round.ending == 0)
		x->round.user_stops = 1;
	espl__exec_wind_up(x, ESPL__RUN_INTERRUPTED, "interrupted by the user");
}

static void
on_node_why(struct espl__exec *x, const struct espl__event *e)
{
	free(x->cluster.node_why);
	x->cluster.node_why = espl__strdup(e->as.node_why.text);
	x->cluster.node_why_lease = e->as.node_why.lease;
	x->cluster.node_why_at = x->now;
	espl__exec_note(x, ESPL_ABOUT_NODE, e->as.node_why.lease, "node %llu: %s",
	    (unsigned long long)e->as.node_why.lease, x->cluster.node_why);
}

static void
on_begun(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->come)
			x->searches.list[i]->why |= ESPL_ASK_START | ESPL_ASK_CAPACITY;
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
	mark_models_stale(x);
	espl__ledger_price(x->ledger, offer, e->as.price.price.from, e->as.price.price.usd_hour);
	if (espl__market_watched(&x->market, offer))
		x->items.top.why |= ESPL_WHY_PRICE;
}

static void
on_metric(struct espl__exec *x, const struct espl__event *e)
{
	(void)espl__names_add(&x->searches.metrics, e->as.metric.name);
	for (uint32_t i = 0; i < x->searches.count; i++)
		espl__search_metric(x->searches.list[i]);
}

/* A gang that waited for its reply in this time was neither silent nor training. */
static void
on_held(struct espl__exec *x, const struct espl__event *e)
{
	for (struct espl__gang *g = x->gangs.first; g != NULL && e->as.held.late > 0; g = g->next)
		g->heard =
		    g->heard < x->now - e->as.held.late ? g->heard + e->as.held.late : x->now;
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
			espl__gang_heard(x, g);
	x->items.seats_freed = 1;
	espl__exec_why(x, ESPL_WHY_NODES);
	espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id,
	    lost != 0 ? "node %llu is unreachable: %s; its trials keep running"
		      : "node %llu is reachable again after %s",
	    (unsigned long long)n->pub.id, e->as.reach.text);
}

/* Running and waiting trials are held by clients, or are handed out before new ones. */
static void
on_ask(struct espl__exec *x, const struct espl__event *e)
{
	const struct espl__trials *trials = &x->searches.list[0]->trials;

	x->searches.places = trials->running + trials->waiting + e->as.ask.count;
	espl__exec_capacity(x);
}

/* Its trials save at their next report but do not move: the node may never be interrupted. */
static void
on_risk(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, e->as.node_why.lease);

	if (n == NULL || !n->live || (n->pub.flags & ESPL_NODE_AT_RISK) != 0)
		return;
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
on_outlived(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__exec_gang(x, e->as.started.gang);

	if (g != NULL)
		g->outlived = 1;
}

espl_status
espl__exec_event(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	ESPL__CHECK(x, EXEC);
	switch (e->type) {
	case ESPL__EV_START: on_begun(x); return ESPL_OK;
	case ESPL__EV_RESUME: espl__exec_resume(x); return ESPL_OK;
	case ESPL__EV_OFFER:
		mark_models_stale(x);
		(void)espl__fleet_offer(&x->fleet, e->as.offer.offer);
		return ESPL_OK;
	case ESPL__EV_PRICE: on_price(x, e); return ESPL_OK;
	case ESPL__EV_CLOUD: return on_cloud(x, e, diag);
	case ESPL__EV_NODE: espl__exec_node(x, e, diag); return ESPL_OK;
	case ESPL__EV_NODE_WHY: on_node_why(x, e); return ESPL_OK;
	case ESPL__EV_RETRY:
		espl__lease_retry(x, e->as.retry.lease, e->as.retry.after);
		return ESPL_OK;
	case ESPL__EV_REACH: on_reach(x, e); return ESPL_OK;
	case ESPL__EV_RISK: on_risk(x, e); return ESPL_OK;
	case ESPL__EV_OUTLIVED: on_outlived(x, e); return ESPL_OK;
	case ESPL__EV_METRIC: on_metric(x, e); return ESPL_OK;
	case ESPL__EV_STARTED: on_started(x, e); return ESPL_OK;
	case ESPL__EV_REPORT: return on_report(x, e, diag);
	case ESPL__EV_SAVED: on_saved(x, e); return ESPL_OK;
	case ESPL__EV_ENDED: return espl__gang_ended(x, e, diag);
	case ESPL__EV_RESIZED: espl__gang_resized(x, e); return ESPL_OK;
	case ESPL__EV_GPU: espl__exec_gpu(x, e); return ESPL_OK;
	case ESPL__EV_JOB: espl__job_arrive(x, e); return ESPL_OK;
	case ESPL__EV_EXPERIMENT: return espl__search_arrive(x, e->as.experiment.number, diag);
	case ESPL__EV_CANCEL:
		espl__search_cancel(x, e->as.cancel.number, e->as.cancel.trial);
		return ESPL_OK;
	case ESPL__EV_OUTCOME: espl__exec_outcome(x, e); return ESPL_OK;
	case ESPL__EV_HELD: on_held(x, e); return ESPL_OK;
	case ESPL__EV_ASK: on_ask(x, e); return ESPL_OK;
	case ESPL__EV_TIMER: x->round.timer = ESPL_NEVER; return ESPL_OK;
	case ESPL__EV_STOP: stop_for_user(x); return ESPL_OK;
	case ESPL__EV_TROUBLE: espl__exec_interrupt(x, "%s", e->as.trouble.text); return ESPL_OK;
	}
	return ESPL_OK;
}
