/* searches_require.c - see searches_require.h.
 *
 * A trial is judged by the last values that it has reported of each metric, so that one which is
 * measured now and then, or once at the end, need not be in each report.  Until all are there it is
 * not known whether the trial meets what is required: it may train on, but is not the best.
 */
#include "exec/searches_require.h"

#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/executor.h"
#include "exec/questions.h"
#include "exec/searches_configs.h"
#include "exec/searches_trials.h"
#include "model/requirements.h"

void
espl__search_require(struct espl__search *s)
{
	const struct espl__requirements *r = s->inputs->requirements;
	uint32_t count = r != NULL ? espl__requirements_count(r) : 0;

	ESPL__CHECK(s, SEARCH);
	if (r == NULL)
		return;
	s->required = espl__arena_alloc(&s->exec->arena, (count + 1) * sizeof *s->required);
	for (uint32_t i = 0; i < count; i++)
		s->required[i] =
		    espl__names_add(&s->exec->searches.metrics, espl__requirements_metric(r, i));
}

/* O(trials), where the best one has stopped to meet what is required. */
static void
find_best(struct espl__exec *x, struct espl__search *s)
{
	s->best = ESPL_NONE;
	for (uint64_t i = 0; i < s->configs->trials.count; i++) {
		struct espl__trial *t = espl__trial_at(s->configs, i);

		if (t->pub.iteration > 0)
			espl__trial_best(x, t, t->pub.iteration,
			    espl__trial_eligible(t, t->pub.objective));
	}
}

/* [count] of the metrics that are required, NaN at first. */
static double *
make_values(struct espl__trial *t, uint32_t count)
{
	if (t->required != NULL)
		return t->required;
	t->required =
	    espl__arena_alloc(&t->search->trials.values, (count + 1) * sizeof *t->required);
	for (uint32_t i = 0; i < count; i++)
		t->required[i] = NAN;
	return t->required;
}

/* Of a configuration. */
static void
judge(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__search *s = t->search;

	t->pub.shortfall = espl__requirements_shortfall(s->inputs->requirements, t->required);
	if (t->pub.shortfall <= 0 && !isnan(t->pub.objective)) /* of an iteration before, so far */
		espl__trial_best(x, t, t->pub.iteration, t->pub.objective);
	else if (t->pub.shortfall > 0 && t->pub.id == s->best)
		find_best(x, s);
}

void
espl__trial_required(struct espl__exec *x, struct espl__trial *t, const struct espl__event *e)
{
	struct espl__search *s = t->search;
	uint32_t count;
	double *values;

	ESPL__CHECK(s, SEARCH);
	if (s->required == NULL)
		return;
	count = espl__requirements_count(s->inputs->requirements);
	values = make_values(t, count);
	for (uint32_t i = 0; i < e->as.report.count; i++)
		for (uint32_t k = 0; k < count; k++)
			if (s->required[k] == e->as.report.metrics[i].metric)
				values[k] = e->as.report.metrics[i].value;
	if (!s->apart)
		judge(x, t);
}

void
espl__config_required(struct espl__exec *x, struct espl__trial *config)
{
	struct espl__search *s = config->search;
	uint32_t count, trials = 0;
	double *values;
	int before;

	ESPL__CHECK(s, SEARCH);
	ESPL__ASSERT(s->apart);
	if (s->required == NULL)
		return;
	count = espl__requirements_count(s->inputs->requirements);
	values = make_values(config, count);
	for (uint32_t k = 0; k < count; k++)
		values[k] = 0;
	for (uint32_t i = 0; i < s->seeds; i++) {
		const struct espl__trial *t = espl__config_trial(config, i);

		if (config->repeats->of[i].left_out)
			continue;
		trials++;
		for (uint32_t k = 0; k < count; k++)
			values[k] += t->required != NULL ? t->required[k] : (double)NAN;
	}
	for (uint32_t k = 0; k < count; k++)
		values[k] = trials > 0 ? values[k] / trials : (double)NAN;
	before = espl__trial_meets(config);
	judge(x, config);
	for (uint32_t i = 0; i < s->seeds && espl__trial_meets(config) != before; i++)
		espl__trial_show(x, espl__config_trial(config, i));
}

double
espl__trial_compared(const struct espl__trial *t, double loss)
{
	if (t->search->required == NULL || !(t->pub.shortfall > 0) || isnan(loss))
		return loss;
	return ESPL_LOSS_UNMET * (1 + t->pub.shortfall);
}

double
espl__trial_eligible(const struct espl__trial *t, double loss)
{
	return t->search->required == NULL || t->pub.shortfall <= 0 ? loss : (double)NAN;
}

int
espl__trial_meets(const struct espl__trial *t)
{
	return t->search->required == NULL || isnan(t->pub.shortfall) ? -1 : t->pub.shortfall <= 0;
}

/* The first metric that is required and that no trial has reported; NULL: there is none. */
static const char *
find_unheard(const struct espl__search *s)
{
	const struct espl__requirements *r = s->inputs->requirements;

	for (uint32_t k = 0; k < espl__requirements_count(r); k++) {
		int heard = 0;

		for (uint64_t i = 0; i < s->trials.trials.count && !heard; i++) {
			const struct espl__trial *t = espl__trial_at(&s->trials, i);

			heard = t->required != NULL && !isnan(t->required[k]);
		}
		if (!heard)
			return espl__requirements_metric(r, k);
	}
	return NULL;
}

int
espl__search_unmet(const struct espl__search *s, char *text, size_t room)
{
	const struct espl__trial *closest = NULL;
	const char *unheard;
	char name[64];

	ESPL__CHECK(s, SEARCH);
	for (uint64_t i = 0; i < s->configs->trials.count; i++) {
		const struct espl__trial *t = espl__trial_at(s->configs, i);

		if (t->required != NULL && !isnan(t->pub.objective) &&
		    t->pub.state != ESPL_TRIAL_FAILED &&
		    (closest == NULL || t->pub.shortfall < closest->pub.shortfall))
			closest = t;
	}
	if (closest == NULL)
		return 0;
	unheard = find_unheard(s);
	if (unheard != NULL)
		(void)snprintf(text, room,
		    "no trial has reported '%.100s', which experiment.require names", unheard);
	else
		(void)snprintf(text, room,
		    "no trial meets experiment.require; the closest, %s, misses \"%.100s\"",
		    espl__config_name(closest, name),
		    espl__requirements_missed(s->inputs->requirements, closest->required));
	return 1;
}
