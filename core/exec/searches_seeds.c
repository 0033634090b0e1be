/* searches_seeds.c - experiment.seeds: what the algorithm learns of the trials of a configuration.
 *
 * It gets a report of a configuration when the slowest of its trials has come as far: the mean of
 * what each reported last up to there, which is not a number if one of them is not.  A trial that
 * failed for good, or that the user stopped, counts no more.  A configuration has ended when none
 * of its trials trains: with the mean of those that are left, or failed, if most of them did.
 */
#include "exec/searches_seeds.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/searches_configs.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"
#include "exec/searches_require.h"
#include "exec/searches_trials.h"

/* ---- decisions ------------------------------------------------------------------------------- */

static espl_end
end_of(const struct espl__trial *config)
{
	uint32_t failed = 0, paused = 0, itself = 0;

	for (uint32_t i = 0; i < config->search->seeds; i++) {
		const struct espl__trial *t = espl__config_trial(config, i);

		failed += t->pub.state == ESPL_TRIAL_FAILED;
		paused += t->pub.state == ESPL_TRIAL_PAUSED;
		itself += t->pub.state == ESPL_TRIAL_ENDED && t->itself;
	}
	if (failed * 2 > config->search->seeds)
		return ESPL_END_FAILED;
	if (config->repeats->verdict == ESPL_STOP)
		return ESPL_END_STOPPED;
	if (paused > 0)
		return config->repeats->verdict == ESPL_PAUSE ? ESPL_END_PAUSED : ESPL_END_BUDGET;
	return itself > 0 ? ESPL_END_ITSELF : ESPL_END_STOPPED;
}

/* It will not be continued: neither will those of its trials that are paused. */
static void
end_paused(struct espl__exec *x, const struct espl__trial *config)
{
	for (uint32_t i = 0; i < config->search->seeds; i++) {
		struct espl__trial *t = espl__config_trial(config, i);

		if (t->pub.state != ESPL_TRIAL_PAUSED)
			continue;
		espl__trial_state(&config->search->trials, t, ESPL_TRIAL_ENDED);
		espl__trial_collect_later(x, t);
		espl__trial_show(x, t);
	}
}

/* For `explain` of each of them. */
static void
note_result(struct espl__exec *x, const struct espl__trial *config)
{
	const struct espl__search *s = config->search;
	const struct espl__repeats *r = config->repeats;
	double mean = s->config->maximize ? -config->pub.objective : config->pub.objective;
	char name[64], spread[48] = "";

	if (r->counted > 1)
		(void)snprintf(spread, sizeof spread, " (standard deviation %.3g)", r->spread);
	for (uint32_t i = 0; i < s->seeds; i++)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(espl__config_trial(config, i)),
		    "%s of one configuration: mean %s %.9g%s of %u at iteration %llu",
		    espl__config_name(config, name), s->config->metric, mean, spread, r->counted,
		    (unsigned long long)config->pub.iteration);
}

/* None of its trials trains any more. */
static espl_status
end_config(struct espl__exec *x, struct espl__trial *config, struct espl__diag *diag)
{
	struct espl__search *s = config->search;
	struct espl__repeats *r = config->repeats;
	espl_end how = end_of(config);
	int paused = how == ESPL_END_BUDGET || how == ESPL_END_PAUSED;

	if (!paused)
		end_paused(x, config);
	r->verdict = 0;
	config->itself = how == ESPL_END_ITSELF;
	espl__trial_state(s->configs, config,
	    paused                       ? ESPL_TRIAL_PAUSED
		: how == ESPL_END_FAILED ? ESPL_TRIAL_FAILED
					 : ESPL_TRIAL_ENDED);
	if (how == ESPL_END_FAILED)
		espl__config_failed(x, config);
	else if (!isnan(config->pub.loss) && s->seeds > 1)
		note_result(x, config);
	return espl__config_ended(x, config, how, diag);
}

static espl_status
end_if_over(struct espl__exec *x, struct espl__trial *config, struct espl__diag *diag)
{
	return espl__trial_is_active(config) && !espl__config_trains(config)
	    ? end_config(x, config, diag)
	    : ESPL_OK;
}

espl_status
espl__config_verdict(struct espl__exec *x, struct espl__trial *config, espl_verdict verdict,
    struct espl__diag *diag)
{
	struct espl__repeats *r = config->repeats;
	espl_status status = ESPL_OK;

	ESPL__CHECK(x, EXEC);
	ESPL__ASSERT(r != NULL);
	if (config->pub.state == ESPL_TRIAL_PAUSED && verdict == ESPL_STOP) {
		end_paused(x, config);
		espl__trial_state(config->search->configs, config, ESPL_TRIAL_ENDED);
		return espl__config_ended(x, config, ESPL_END_STOPPED, diag);
	}
	if (!espl__trial_is_active(config))
		return ESPL_OK;
	if (verdict != ESPL_SAVE)
		r->verdict = (uint8_t)verdict;
	for (uint32_t i = 0; i < config->search->seeds && status == ESPL_OK; i++) {
		struct espl__trial *t = espl__config_trial(config, i);

		if (espl__trial_is_active(t))
			status = espl__trial_verdict(x, t, verdict, 0, diag);
	}
	return status == ESPL_OK ? end_if_over(x, config, diag) : status;
}

/* ---- reports --------------------------------------------------------------------------------- */

static struct espl__seed_reports *
reports_of(const struct espl__trial *t)
{
	struct espl__repeats *r = espl__config_of(t)->repeats;

	return &r->of[t->pub.id - r->first];
}

/* The next iteration of the configuration: all that still train have passed it, and each of them
 * has reported since the last one.  0: there is none yet. */
static uint64_t
next_iteration(const struct espl__trial *config)
{
	const struct espl__search *s = config->search;
	uint64_t at = 0;

	for (uint32_t i = 0; i < s->seeds; i++) {
		const struct espl__seed_reports *r = &config->repeats->of[i];

		if (r->left_out)
			continue;
		if (r->from < r->count && r->list[r->from].iteration > at)
			at = r->list[r->from].iteration;
		else if (r->from == r->count &&
		    espl__trial_is_active(espl__config_trial(config, i)))
			return 0;
	}
	for (uint32_t i = 0; i < s->seeds; i++) {
		const struct espl__trial *t = espl__config_trial(config, i);

		if (!config->repeats->of[i].left_out && espl__trial_is_active(t) &&
		    t->pub.iteration < at)
			return 0;
	}
	return at;
}

static void
take_reports(struct espl__seed_reports *r, uint64_t at)
{
	while (r->from < r->count && r->list[r->from].iteration <= at) {
		espl__config_forget_report(&r->last);
		r->last = r->list[r->from++];
	}
	if (r->from == r->count)
		r->from = r->count = 0;
}

/* Of the losses of those that count. */
static void
sum_losses(struct espl__trial *config)
{
	struct espl__repeats *r = config->repeats;
	double sum = 0, squares = 0;

	r->counted = 0;
	for (uint32_t i = 0; i < config->search->seeds; i++)
		if (!r->of[i].left_out && r->of[i].last.iteration > 0) {
			sum += r->of[i].last.loss;
			r->counted++;
		}
	if (r->counted == 0)
		return;
	config->pub.objective = sum / r->counted;
	for (uint32_t i = 0; i < config->search->seeds; i++)
		if (!r->of[i].left_out && r->of[i].last.iteration > 0)
			squares += (r->of[i].last.loss - config->pub.objective) *
			    (r->of[i].last.loss - config->pub.objective);
	r->spread = r->counted > 1 ? sqrt(squares / (r->counted - 1)) : NAN;
}

/* The mean of a metric; NaN: one of them lacks it. */
static double
mean_metric(const struct espl__trial *config, uint32_t metric)
{
	const struct espl__repeats *r = config->repeats;
	double sum = 0;

	for (uint32_t i = 0; i < config->search->seeds; i++) {
		const struct espl__seed_report *last = &r->of[i].last;

		if (!r->of[i].left_out && last->iteration > 0)
			sum += metric < last->metric_count ? last->metrics[metric] : NAN;
	}
	return sum / r->counted;
}

static espl_status
observe_config(struct espl__exec *x, struct espl__trial *config, struct espl__diag *diag)
{
	struct espl__search *s = config->search;
	const struct espl__repeats *r = config->repeats;
	struct espl_observation o = ESPL_INIT(struct espl_observation);
	uint32_t count = x->searches.metrics.count;
	double *metrics = espl__arena_alloc(&x->ops_arena, (count + 1) * sizeof *metrics);

	for (uint32_t i = 0; i < count; i++)
		metrics[i] = mean_metric(config, i);
	o.trial = config->pub.id;
	o.iteration = config->pub.iteration;
	o.loss = config->pub.loss;
	o.metrics = metrics;
	o.metric_count = count;
	o.values = config->pub.values;
	o.at = x->now;
	for (uint32_t i = 0; i < s->seeds; i++)
		if (!r->of[i].left_out && r->of[i].last.iteration > 0)
			o.iteration_s += r->of[i].last.iteration_s / r->counted;
	o.share = r->share;
	return espl__search_observe(s, config, &o, diag);
}

static void
show_config(struct espl__exec *x, const struct espl__trial *config)
{
	uint64_t upper = espl__trial_uid(config) & ~ESPL__TRIAL_NUMBER;
	const struct espl__config_report report = { .number = espl__trial_uid(config),
		.first = espl__trial_uid(espl__config_trial(config, 0)),
		.shown = upper | espl__config_shown(config),
		.seeds = config->search->seeds,
		.counted = config->repeats->counted,
		.iteration = config->pub.iteration,
		.loss = config->pub.objective,
		.spread = config->repeats->spread };

	ESPL__OBSERVE(x, config, &report);
}

/* What all of its trials have reported, until it is to pause or to stop: then they end at different
 * iterations. */
static espl_status
observe_all(struct espl__exec *x, struct espl__trial *config, struct espl__diag *diag)
{
	struct espl__search *s = config->search;
	espl_status status = ESPL_OK;
	uint64_t at;

	while (status == ESPL_OK && espl__trial_is_active(config) &&
	    config->repeats->verdict == 0 && (at = next_iteration(config)) > 0) {
		for (uint32_t i = 0; i < s->seeds; i++)
			take_reports(&config->repeats->of[i], at);
		if (at <= config->pub.iteration)
			continue;
		config->pub.iteration = at;
		sum_losses(config);
		espl__config_required(x, config);
		config->pub.loss = espl__trial_compared(config, config->pub.objective);
		espl__config_scored(x, config);
		show_config(x, config);
		s->why |= ESPL_ASK_RESULT;
		if (espl__search_gets_results(s))
			status = observe_config(x, config, diag);
	}
	return status;
}

espl_status
espl__trial_seed_reports(struct espl__exec *x, struct espl__trial *t,
    const struct espl_observation *o, struct espl__diag *diag)
{
	struct espl__trial *config = espl__config_of(t);
	struct espl__seed_reports *r;
	struct espl__seed_report *to;

	ESPL__CHECK(x, EXEC);
	if (config == NULL)
		return ESPL_OK;
	r = reports_of(t);
	ESPL__GROW(r->list, r->cap, r->count + 1);
	to = &r->list[r->count++];
	*to = (struct espl__seed_report){ .iteration = o->iteration,
		.loss = o->loss,
		.iteration_s = o->iteration_s,
		.metric_count = o->metric_count };
	to->metrics = espl__alloc((o->metric_count + (size_t)1) * sizeof *to->metrics);
	memcpy(to->metrics, o->metrics, o->metric_count * sizeof *to->metrics);
	config->repeats->share = o->share;
	return observe_all(x, config, diag);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Most of them have failed: no result will come of the others. */
static int
has_mostly_failed(const struct espl__trial *config)
{
	uint32_t failed = 0;

	for (uint32_t i = 0; i < config->search->seeds; i++)
		failed += espl__config_trial(config, i)->pub.state == ESPL_TRIAL_FAILED;
	return failed * 2 > config->search->seeds;
}

espl_status
espl__trial_seed_over(struct espl__exec *x, struct espl__trial *t, espl_end how,
    struct espl__diag *diag)
{
	struct espl__trial *config = espl__config_of(t);
	struct espl__seed_reports *r;
	espl_status status;

	ESPL__CHECK(x, EXEC);
	if (config == NULL)
		return ESPL_OK;
	r = reports_of(t);
	if (how == ESPL_END_FAILED ||
	    (how == ESPL_END_STOPPED && config->repeats->verdict != ESPL_STOP)) {
		espl__config_forget(r);
		r->left_out = 1;
	}
	if (!espl__trial_is_active(config))
		return ESPL_OK;
	if (how == ESPL_END_FAILED && has_mostly_failed(config) &&
	    config->repeats->verdict != ESPL_STOP)
		return espl__config_verdict(x, config, ESPL_STOP, diag);
	status = observe_all(x, config, diag);
	return status == ESPL_OK ? end_if_over(x, config, diag) : status;
}
