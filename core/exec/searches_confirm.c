/* searches_confirm.c - experiment.confirm: the best configurations, trained again at the end.
 *
 * The best of many results is partly luck.  So the three best configurations that have come
 * furthest are trained again, as often as the option says, each time with another seed and another
 * fold, which are the same for all three.  The one with the best mean is the best of the search.
 * Such trials are of no configuration (searches_configs.h): the algorithm does not know of them.
 */
#include "exec/searches_confirm.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/searches_configs.h"
#include "exec/searches_end.h"
#include "exec/searches_require.h"
#include "exec/searches_trials.h"

enum { NOT_BEGUN, TRAINS, OVER, LEFT_OUT };

int
espl__search_confirms(const struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	return s->confirm.stage == TRAINS;
}

void
espl__search_confirm_again(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	memset(&s->confirm, 0, sizeof s->confirm);
}

/* ---- which ---------------------------------------------------------------------------------- */

static int
is_before(const struct espl__trial *a, const struct espl__trial *b)
{
	return a->pub.loss < b->pub.loss || (!(b->pub.loss < a->pub.loss) && a->pub.id < b->pub.id);
}

/* Of those that have come as far as the best; equal configurations count once. */
static void
choose_configs(struct espl__search *s, uint64_t iteration)
{
	struct espl__confirm *c = &s->confirm;
	size_t size = s->trials.params * sizeof(double);

	for (uint64_t i = 0; i < s->configs->trials.count; i++) {
		const struct espl__trial *t = espl__trial_at(s->configs, i);
		uint32_t at = c->count, same = 0;

		if (t->pub.state == ESPL_TRIAL_FAILED || t->pub.iteration != iteration ||
		    isnan(espl__trial_eligible(t, t->pub.objective)))
			continue;
		for (uint32_t k = 0; k < c->count; k++)
			same |= memcmp(espl__trial_at(s->configs, c->configs[k])->pub.values,
				    t->pub.values, size) == 0;
		while (at > 0 && is_before(t, espl__trial_at(s->configs, c->configs[at - 1])))
			at--;
		if (same || at == ESPL__CONFIRM_MOST)
			continue;
		if (c->count < ESPL__CONFIRM_MOST)
			c->count++;
		memmove(c->configs + at + 1, c->configs + at,
		    (c->count - at - 1) * sizeof c->configs[0]);
		c->configs[at] = t->pub.id;
	}
}

/* ---- whether it can be afforded -------------------------------------------------------------- */

/* How long one of the trainings takes, as it did. */
static double
longest_training_s(const struct espl__search *s)
{
	double longest = 0;

	for (uint32_t i = 0; i < s->confirm.count; i++)
		for (uint32_t k = 0; k < s->seeds; k++) {
			const struct espl__trial *t =
			    espl__config_trial(espl__trial_at(s->configs, s->confirm.configs[i]),
				k);

			longest = fmax(longest, (double)t->trained / 1e9);
		}
	return longest;
}

static int
can_afford(const struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	double trials = (double)s->confirm.count * s->config->confirm,
	       each_s = longest_training_s(s), places, takes_s, costs;

	places = fmax(1, floor((double)espl__cluster_potential(x) / s->config->trial.gpus_min));
	takes_s = each_s * ceil(trials / places);
	costs = x->gangs.busy_gpu_s > 0 ? (double)s->experiment.spent * trials * each_s *
		s->config->trial.gpus_min / x->gangs.busy_gpu_s
					: 0;
	if (s->experiment.deadline != ESPL_NEVER &&
	    takes_s * 1e9 > (double)(s->experiment.deadline - x->now)) {
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0,
		    "the best configurations are not confirmed (experiment.confirm): that would "
		    "take about %.3g s, and the deadline is in %.3g s",
		    takes_s, fmax(0, (double)(s->experiment.deadline - x->now) / 1e9));
		return 0;
	}
	if (s->experiment.budget != INT64_MAX &&
	    (double)s->experiment.spent + costs > (double)s->experiment.budget) {
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0,
		    "the best configurations are not confirmed (experiment.confirm): that would "
		    "cost about $%.4g, and $%.4g of the budget are left",
		    costs / 1e6, (double)(s->experiment.budget - s->experiment.spent) / 1e6);
		return 0;
	}
	return 1;
}

static int
is_possible(const struct espl__search *s)
{
	if (s->experiment.plan == NULL)
		return 1;
	espl__exec_warn(s->exec, ESPL_ABOUT_RUN, 0,
	    "the best configurations are not confirmed (experiment.confirm): the plan of %s has no "
	    "stage for it",
	    s->tier->allocator->who);
	return 0;
}

/* ---- the trials ----------------------------------------------------------------------------- */

static void
create_trials(struct espl__search *s, uint64_t iteration)
{
	struct espl__exec *x = s->exec;
	struct espl__confirm *c = &s->confirm;
	const struct espl_group wanted = { .size = (uint32_t)sizeof wanted,
		.flags = ESPL_GROUP_OPEN,
		.bracket = ESPL_ANY,
		.stage = ESPL_ANY };
	struct espl__trial_group *g = espl__group_new(&s->trials, &wanted);
	char name[64];

	(void)espl__group_new(s->configs, &wanted); /* they have the same numbers */
	g->asked = g->end_reported = 1;
	c->first = s->trials.trials.count;
	for (uint32_t fold = 1; fold <= s->config->confirm; fold++)
		for (uint32_t i = 0; i < c->count; i++) {
			const struct espl__trial *config =
			    espl__trial_at(s->configs, c->configs[i]);
			struct espl__trial *t =
			    espl__trial_new(&s->trials, g, config->pub.values, NULL);

			t->config = ESPL_NONE;
			t->fold = fold;
			t->seed_of = c->first + (uint64_t)(fold - 1) * c->count;
			t->pub.budget = iteration;
			t->item = espl__item_new(x, t, 1.0, 0, 0);
			if (s->config->asked)
				espl__trial_unasked(t);
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "trains the configuration of %s again, to confirm it (fold %u of %u)",
			    espl__config_name(config, name), (unsigned)fold,
			    (unsigned)s->config->confirm);
			espl__trial_show(x, t);
		}
}

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Half of the interval that contains the mean of n values in 95 of 100 cases. */
static double
half_interval(double spread, uint32_t n)
{
	static const double t[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
		2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080,
		2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042 };

	if (n < 2)
		return NAN;
	return spread / sqrt(n) * (n - 2 < sizeof t / sizeof t[0] ? t[n - 2] : 1.96);
}

/* NaN: it failed, or has not come to its end. */
static double
loss_of(const struct espl__search *s, uint32_t config, uint32_t fold)
{
	const struct espl__trial *t = espl__trial_at(&s->trials,
	    s->confirm.first + (uint64_t)fold * s->confirm.count + config);

	return t->pub.state == ESPL_TRIAL_FAILED || t->pub.iteration < t->pub.budget ? NAN
										     : t->pub.loss;
}

/* Of the losses, or with `from` of their differences to that one's in the same folds. */
static uint32_t
sum_up(const struct espl__search *s, uint32_t config, uint32_t from, double *mean, double *half)
{
	uint32_t folds = s->config->confirm, n = 0;
	double sum = 0, squares = 0;

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t fold = 0; fold < folds; fold++) {
			double v = loss_of(s, config, fold) -
			    (from == ESPL_ANY ? 0 : loss_of(s, from, fold));

			if (isnan(v))
				continue;
			n += pass == 0;
			sum += pass == 0 ? v : 0;
			squares += pass == 1 ? (v - sum / n) * (v - sum / n) : 0;
		}
	*mean = n > 0 ? sum / n : NAN;
	*half = half_interval(n > 1 ? sqrt(squares / (n - 1)) : NAN, n);
	return n;
}

/* The best mean of those of which most trainings have come to their end; ESPL_ANY: none. */
static uint32_t
find_winner(const struct espl__search *s)
{
	uint32_t winner = ESPL_ANY;
	double least = INFINITY, mean, half;

	for (uint32_t i = 0; i < s->confirm.count; i++)
		if (sum_up(s, i, ESPL_ANY, &mean, &half) * 2 > s->config->confirm && mean < least) {
			least = mean;
			winner = i;
		}
	return winner;
}

void
espl__search_confirmation(const struct espl__search *s, struct espl__confirmation *to)
{
	const struct espl__confirm *c = &s->confirm;

	ESPL__CHECK(s, SEARCH);
	memset(to, 0, sizeof *to);
	if (c->stage != OVER)
		return;
	to->folds = s->config->confirm;
	to->count = c->count;
	to->winner = find_winner(s);
	to->first = c->first;
	for (uint32_t i = 0; i < c->count; i++) {
		const struct espl__trial *config = espl__trial_at(s->configs, c->configs[i]);
		struct espl__confirmed *one = &to->list[i];

		one->trial = espl__config_shown(config);
		one->searched = config->pub.objective;
		one->counted = sum_up(s, i, ESPL_ANY, &one->mean, &one->half);
		one->worse = one->worse_half = NAN;
		if (to->winner != ESPL_ANY && i != to->winner)
			(void)sum_up(s, i, to->winner, &one->worse, &one->worse_half);
	}
}

/* All of them have ended. */
static void
end_confirmation(struct espl__search *s)
{
	struct espl__confirm *c = &s->confirm;
	uint32_t winner;
	struct espl__trial *config;
	double mean, half;
	char name[64];

	c->stage = OVER;
	winner = find_winner(s);
	if (winner == ESPL_ANY) {
		espl__exec_warn(s->exec, ESPL_ABOUT_RUN, 0,
		    "the best configuration could not be confirmed: most of its trainings failed");
		return;
	}
	(void)sum_up(s, winner, ESPL_ANY, &mean, &half);
	config = espl__trial_at(s->configs, c->configs[winner]);
	espl__exec_note(s->exec, ESPL_ABOUT_RUN, 0,
	    "confirmed: %s, %s %.9g ± %.3g in %u trainings with other seeds",
	    espl__config_name(config, name), s->config->metric, s->config->maximize ? -mean : mean,
	    half, (unsigned)s->config->confirm);
	espl__trial_best_is(config, config->pub.iteration, config->pub.objective);
}

int
espl__search_confirm(struct espl__search *s)
{
	const struct espl__trial *best = espl__trial_at(s->configs, s->best);

	ESPL__CHECK(s, SEARCH);
	if (s->over || s->exec->round.ending != 0)
		return 0;
	if (s->confirm.stage == TRAINS)
		end_confirmation(s);
	if (s->confirm.stage != NOT_BEGUN || s->config->confirm == 0 || s->ending != 0 ||
	    s->algorithm == NULL || best == NULL || best->pub.state == ESPL_TRIAL_FAILED)
		return 0;
	choose_configs(s, best->pub.iteration);
	s->confirm.stage = LEFT_OUT;
	if (s->confirm.count == 0 || !is_possible(s) || !can_afford(s))
		return 0;
	s->confirm.stage = TRAINS;
	create_trials(s, best->pub.iteration);
	return 1;
}
