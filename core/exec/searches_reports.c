/* searches_reports.c - what a report of a trial means for its search. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/items.h"
#include "exec/items_tiers.h"
#include "exec/searches_configs.h"
#include "exec/searches_require.h"
#include "exec/searches_decisions.h"
#include "exec/searches_faults.h"
#include "exec/searches_end.h"
#include "exec/searches_seeds.h"
#include "exec/searches_trials.h"

#define STUCK_MOST 100u /* reports without any growth of a resource that is a metric */

static void
report_report(struct espl__exec *x, struct espl__trial *t, const struct espl__event *e, double loss,
    struct espl_share share)
{
	struct espl_trial room;

	ESPL__OBSERVE(x, report, espl__trial_shown(t, &room), t->pub.iteration, loss,
	    e->as.report.metrics, e->as.report.count, share);
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

	for (i = 0; gpu != NULL && i < gpu->occupant_count; i++)
		here += gpu->occupants[i].held > 0;
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
	const struct espl__profile *p = t->search->inputs->profile;
	double expected;

	if (p == NULL || p->guessed)
		return;
	expected = espl__profile_iteration_s(p, share) / espl__profile_type_speed(p, on->gpu_type);
	if (expected > 0 && expected < INFINITY && iteration_s >= 0) {
		t->took_s += iteration_s;
		t->expected_s += expected;
	}
}

/* The executor's number of a metric -> the search's: see espl__search_metric. */
static uint32_t
number_of(const struct espl__search *s, uint32_t metric)
{
	return metric == s->objective ? 0 : metric < s->objective ? metric + 1 : metric;
}

espl_status
espl__search_observe(struct espl__search *s, struct espl__trial *config,
    const struct espl_observation *o, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	struct espl__diag why;
	struct espl__reader answer;
	espl_status status;

	ESPL__CHECK(s, SEARCH);
	espl__diag_clear(&why);
	if (s->history != NULL)
		espl__history_add(s->history, o);
	espl__search_turn(s);
	status = espl__call_report(&x->caller, s->algorithm, &config->pub, o, &why);
	status = espl__search_answer(s, status, &why, &answer, diag);
	if (status == ESPL_OK)
		status = espl__search_apply(x, s, &answer, diag);
	return status;
}

/* Is it timed?  Then the model learns from it. */
static void
measure_report(struct espl__exec *x, struct espl__trial *t, struct espl__gang *g, double step_s)
{
	struct espl_share share = measured_share(x, g);
	uint32_t on;

	if (!espl__gang_timed(g, share.packing))
		return;
	on = espl__machine_at(&x->fleet, g->slots[0].node)->pub.offer;
	if (espl__model_service_measure(&t->search->model, share, on, step_s))
		espl__tier_ask(t->search->tier, ESPL_WHY_PROFILE);
	update_pace(t, share, x->fleet.offers[on], step_s);
}

/* The report as the algorithm sees it; metrics in the experiment's order. */
static espl_status
observe_report(struct espl__exec *x, struct espl__trial *t, struct espl__gang *g,
    const struct espl__event *e, double loss, uint64_t steps, uint64_t since,
    struct espl__diag *diag)
{
	struct espl__search *s = t->search;
	double took_s = (double)(x->now - g->last_seen) / 1e9;
	struct espl_observation o = ESPL_INIT(struct espl_observation);
	uint32_t count = x->searches.metrics.count;
	double room[16],
	    *metrics =
		count <= 16 ? room : espl__arena_alloc(&x->ops_arena, count * sizeof *metrics);

	for (uint32_t i = 0; i < count; i++)
		metrics[i] = NAN;
	for (uint32_t i = 0; i < e->as.report.count; i++)
		if (e->as.report.metrics[i].metric < count)
			metrics[number_of(s, e->as.report.metrics[i].metric)] =
			    e->as.report.metrics[i].value;
	o.trial = t->pub.id;
	o.iteration = g->iteration;
	o.loss = loss;
	o.metrics = metrics;
	o.metric_count = count;
	o.values = t->pub.values;
	o.at = x->now;
	o.iteration_s = took_s / (double)(g->iteration - since);
	o.share = g->share;
	measure_report(x, t, g, took_s / (double)steps);
	return s->apart ? espl__trial_seed_reports(x, t, &o, diag)
			: espl__search_observe(s, t, &o, diag);
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

/* "reports no metric 'loss' (experiment.metric); it reports 'a', 'b'" */
static void
name_metrics(const struct espl__search *s, const struct espl__event *e, struct espl__buf *b)
{
	const struct espl__names *names = &s->exec->searches.metrics;

	espl__print(b, "reports no metric '%s' (experiment.metric)", s->config->metric);
	for (uint32_t i = 0; i < e->as.report.count && i < 8; i++)
		if (e->as.report.metrics[i].metric < names->count)
			espl__print(b, "%s'%s'", i == 0 ? "; it reports " : ", ",
			    names->names[e->as.report.metrics[i].metric]);
}

/* A report without the metric passes the iteration: not every epoch is validated.  But a trial that
 * has reached its budget without ever reporting it has no result. */
static void
miss_metric(struct espl__exec *x, struct espl__gang *g, const struct espl__event *e,
    uint64_t iteration)
{
	struct espl__trial *t = g->trial;
	struct espl__buf b = { NULL, 0, 0 };
	char name[48];

	name_metrics(t->search, e, &b);
	if (t->unscored == NULL && !t->scored)
		t->unscored = espl__arena_strdup(&x->arena, espl__buf_text(&b));
	if (espl__search_unscored(t->search))
		espl__exec_warn(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "trial %s, iteration %llu: %s; a trial that never reports it fails",
		    espl__trial_name(espl__trial_uid(t), name),
		    (unsigned long long)e->as.report.iteration, espl__buf_text(&b));
	if (!t->scored && iteration >= t->pub.budget && t->pub.state == ESPL_TRIAL_RUNNING)
		espl__gang_fault(x, g, espl__buf_text(&b), 1);
	espl__buf_free(&b);
}

/* It got further than at its last report, which was of `since`: its nodes work, and perhaps others
 * do not. */
static void
prove_nodes(struct espl__exec *x, struct espl__gang *g, uint64_t since)
{
	for (uint32_t i = 0; i < g->share.gpus && g->reports == 1; i++)
		espl__lease_proved(x, espl__machine_at(&x->fleet, g->slots[i].node));
	espl__items_got_further(x, g);
	if (g->reports > 1 && !espl__exec_follows(x, ESPL__RULES_ROW))
		return;
	if (!espl__cluster_worked(x, g, since))
		return;
	espl__tiers_ask(x, ESPL_WHY_NODES);
	espl__items_ask_placer(x, ESPL_WHY_NODES);
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
		status = espl__trial_verdict(x, t, verdict, 1, diag);
	}
	if (status == ESPL_OK && t->pub.state == ESPL_TRIAL_RUNNING &&
	    g->iteration >= t->pub.budget)
		status = espl__trial_over(x, t, ESPL_END_BUDGET, diag);
	return status;
}

/* What a report says that the trial has used of the resource, if that is a metric; NaN. */
static double
read_resource(const struct espl__search *s, const struct espl__event *e)
{
	uint32_t number = espl__names_find(&s->exec->searches.metrics, s->config->resource);

	for (uint32_t i = 0; i < e->as.report.count; i++)
		if (e->as.report.metrics[i].metric == number)
			return e->as.report.metrics[i].value;
	return NAN;
}

/* What is wrong with the resource of a report that has the objective: it would never reach a rung.
 * Malloc'd; NULL: nothing. */
static char *
find_resource_fault(const struct espl__gang *g, double used)
{
	const char *resource = g->trial->search->config->resource;

	if (isnan(used))
		return espl__format("reports no number as its '%s' (algorithm.resource)", resource);
	return g->stuck < STUCK_MOST
	    ? NULL
	    : espl__format("its '%s' (algorithm.resource) has not grown in %u reports", resource,
		  STUCK_MOST);
}

/* The iteration of a report. */
static uint64_t
count_iteration(struct espl__exec *x, struct espl__gang *g, const struct espl__event *e)
{
	const struct espl__search *s = g->trial->search;
	const char *resource = s->config->resource;
	int timed = resource == NULL || strcmp(resource, ESPL__SECONDS) == 0;
	double loss, used = timed ? NAN : read_resource(s, e);
	uint64_t counts = espl__gang_counts(x, g, e->as.report.iteration, used);
	char *fault;

	if (timed || !read_objective(s, e, &loss))
		return counts;
	fault = find_resource_fault(g, used);
	if (fault == NULL)
		return counts;
	espl__gang_fault(x, g, fault, 1);
	free(fault);
	return 0;
}

void
espl__config_scored(struct espl__exec *x, struct espl__trial *config)
{
	struct espl__search *s = config->search;
	double eligible = espl__trial_eligible(config, config->pub.objective);

	ESPL__CHECK(x, EXEC);
	espl__trial_best(x, config, config->pub.iteration, eligible);
	(void)espl__lowest_take(&s->lowest, x->now, espl__config_shown(config),
	    config->pub.iteration, eligible);
	espl__search_goal_report(config, config->pub.iteration, eligible);
}

espl_status
espl__search_report(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	struct espl__gang *g = espl__gang_at(x, e->as.report.gang);
	struct espl__trial *t;
	uint64_t iteration, since, step;
	espl_status status = ESPL_OK;
	double loss, raw, iteration_s;
	int scored;

	ESPL__CHECK(x, EXEC);
	if (g == NULL || g->fault != NULL)
		return ESPL_OK;
	t = g->trial;
	espl__gang_await(x, g);
	since = g->iteration;
	step = g->mark.step;
	if (e->as.report.iteration <= step || g->state == ESPL__GANG_LEAVING)
		return ESPL_OK; /* settled with a plain reply */
	iteration = count_iteration(x, g, e);
	if (iteration <= since)
		return ESPL_OK; /* it has used too little of the resource to count */
	scored = read_objective(t->search, e, &loss);
	if (!scored)
		miss_metric(x, g, e, iteration);
	if (g->fault != NULL)
		return ESPL_OK;
	iteration_s =
	    (double)(x->now - g->last_seen) / 1e9 / (double)(e->as.report.iteration - step);
	if (iteration_s > t->search->longest_s)
		t->search->longest_s = iteration_s;
	(void)espl__gang_report(g, iteration);
	prove_nodes(x, g, since);
	espl__cluster_gpu_time(x);
	if (t->item != NULL)
		espl__item_progress(x, t->item, iteration);
	t->can_save = iteration >= t->pub.iteration;
	if (scored) {
		t->scored = 1;
		espl__search_worked(t->search, g);
	}
	if (iteration > t->pub.iteration)
		espl__trial_required(x, t, e);
	if (iteration > t->pub.iteration && !scored) {
		t->pub.iteration = iteration;
		report_report(x, t, e, NAN, g->share);
	} else if (iteration > t->pub.iteration) {
		raw = loss;
		if (!t->search->apart) /* else the mean is judged */
			loss = espl__trial_compared(t, loss);
		/* fmin: NaN is never the best */
		if (t->search->config->trial.best)
			loss = fmin(t->pub.loss, loss);
		x->searches.reports++;
		t->pub.iteration = iteration;
		t->pub.objective = loss < ESPL_LOSS_UNMET ? loss : raw;
		t->pub.loss = loss;
		if (!t->search->apart)
			espl__config_scored(x, t);
		report_report(x, t, e, raw, g->share);
		t->search->why |= ESPL_ASK_RESULT;
		/* with experiment.seeds the mean is also kept when nothing is decided any more */
		if (t->search->algorithm != NULL && t->pub.state == ESPL_TRIAL_RUNNING &&
		    (espl__search_gets_results(t->search) || t->search->apart))
			status = observe_report(x, t, g, e, loss, e->as.report.iteration - step,
			    since, diag);
	}
	espl__gang_seen(x, g);
	if (status == ESPL_OK && espl__search_gets_results(t->search))
		status = reach_boundary(x, t, g, diag);
	return status;
}
