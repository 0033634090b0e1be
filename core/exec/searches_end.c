/* searches_end.c - when a search is over, and winding it up. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/questions.h"
#include "exec/searches_configs.h"
#include "exec/searches_confirm.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_jobs.h"
#include "exec/searches_require.h"
#include "exec/searches_trials.h"

int
espl__searches_need_no_nodes(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->round.ending != 0 || espl__searches_idle(x);
}

int
espl__trial_is_found(const struct espl__trial *t)
{
	const struct espl__search *s = t->search;
	const struct espl__trial *config = espl__config_of(t);

	ESPL__CHECK(s, SEARCH);
	return s->goal.ended && config != NULL &&
	    (config->pub.id == s->best || config->pub.id == s->goal.reached);
}

/* Its trials stop where they are; their processes may save. */
void
espl__trial_stop(struct espl__exec *x, struct espl__trial *t)
{
	espl__trial_leave(x, t);
	/* one that waits for a reply and whose model is wanted is asked to save instead */
	if (t->gang != NULL && !(t->gang->awaiting && espl__trial_is_found(t)))
		espl__gangs_kill(x, t->gang, t->search->config->trial.grace);
	espl__trial_state(&t->search->trials, t, ESPL_TRIAL_ENDED);
	espl__trial_seed_stops(t);
	if (t->search->jobs != NULL)
		espl__job_ended(t);
	espl__trial_collect_later(x, t);
	espl__trial_show(x, t);
}

/* Those that the user cancels are stopped early; a failure, a limit or what the search has found
 * leaves them unfinished. */
static void
stop_all(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	const struct espl__tier *tier = s->tier;
	int cut = s->ending != ESPL__RUN_CANCELLED;

	for (uint32_t i = 0; i < s->waiter_count; i++) {
		if (cut)
			espl__trial_cut(&s->trials, s->waiters[i].trial);
		espl__trial_stop(x, s->waiters[i].trial);
	}
	s->waiter_count = 0;
	while (s->faults.held_count > 0) {
		struct espl__trial *t = s->faults.held[0].trial;

		espl__trial_unhold(t);
		if (cut)
			espl__trial_cut(&s->trials, t);
		espl__trial_stop(x, t);
	}
	for (uint64_t i = tier->items_from + tier->items_count; i > tier->items_from; i--) {
		struct espl__item *item = (struct espl__item *)(uintptr_t)tier->items[i - 1];

		if (item->trial == NULL || item->trial->search != s)
			continue;
		if (cut)
			espl__trial_cut(&s->trials, item->trial);
		espl__trial_stop(x, item->trial);
		i = tier->items_from + tier->items_count + 1; /* the list has moved */
	}
}

static void
park_trial(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__gang *g = t->gang;

	if (t->pub.state == ESPL_TRIAL_RUNNING)
		espl__trial_turns(t, ESPL_TRIAL_WAITING);
	espl__trial_hold(x, t);
	if (g != NULL)
		espl__gangs_kill(x, g, t->search->config->trial.grace);
	espl__trial_show(x, t);
}

/* It fails: its trials hold nothing, and wait for a resume. 0: they cannot. */
static int
park_trials(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	const struct espl__tier *tier = s->tier;

	ESPL__ASSERT(!s->parked && s->ending == ESPL__RUN_FAILED);
	if (s->waiter_count > 0) /* clones of trials whose checkpoints would not be there */
		return 0;
	s->parked = 1;
	for (uint64_t i = tier->items_from + tier->items_count; i > tier->items_from; i--) {
		struct espl__item *item = (struct espl__item *)(uintptr_t)tier->items[i - 1];

		if (item->trial == NULL || item->trial->search != s)
			continue;
		park_trial(x, item->trial);
		i = tier->items_from + tier->items_count + 1; /* the list has moved */
	}
	return 1;
}

uint64_t
espl__search_parked(const struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	return s->parked ? s->faults.held_count : 0;
}

void
espl__search_wind_up(struct espl__search *s, enum espl__run_end how, const char *format, ...)
{
	struct espl__exec *x = s->exec;
	char text[512];

	ESPL__CHECK(s, SEARCH);
	ESPL__FORMAT(text, format);
	if (!x->config->pool) {
		espl__exec_wind_up(x, how, "%s", text);
		return;
	}
	if (s->ending != 0 || s->over)
		return;
	s->ending = how;
	s->end_text = espl__strdup(text);
	s->was_finished = s->finished;
	s->finished = 1;
	s->wake_at = s->barrier_at = ESPL_NEVER;
	if (how == ESPL__RUN_FAILED)
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0, "experiment '%s' failed: %s", s->config->name,
		    text);
	else
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "experiment '%s' ends: %s", s->config->name,
		    text);
	if (how != ESPL__RUN_FAILED || !park_trials(s))
		stop_all(s);
	espl__search_show(s);
}

/* Every trial that was given the largest budget has failed: 1, and that budget. */
static int
largest_budget_failed(const struct espl__search *s, uint64_t *budget)
{
	int good = 1;

	*budget = 0;
	for (uint64_t i = 0; i < s->configs->trials.count && s->failed > 0; i++) {
		const struct espl__trial *t = espl__trial_at(s->configs, i);

		if (t->pub.budget > *budget)
			good = 0;
		if (t->pub.budget >= *budget)
			good |= t->pub.state != ESPL_TRIAL_FAILED;
		*budget = t->pub.budget > *budget ? t->pub.budget : *budget;
	}
	return !good;
}

int
espl__search_came_to_nothing(const struct espl__search *s, char *why, size_t room)
{
	uint64_t budget;

	if (s->best == ESPL_NONE && espl__search_unmet(s, why, room))
		return 1;
	if (s->best == ESPL_NONE)
		(void)snprintf(why, room, "no trial reported a number as its '%.100s'",
		    s->config->metric);
	else if (largest_budget_failed(s, &budget))
		(void)snprintf(why, room,
		    "every trial with the largest budget (%llu iteration%s) failed",
		    (unsigned long long)budget, budget == 1 ? "" : "s");
	else
		return 0;
	return 1;
}

void
espl__search_closed(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	char why[200];

	ESPL__CHECK(s, SEARCH);
	s->over = 1;
	s->ended = x->now;
	espl__search_settle(s);
	if (s->ending == 0 && s->jobs == NULL && espl__search_came_to_nothing(s, why, sizeof why)) {
		s->ending = ESPL__RUN_FAILED;
		s->end_text = espl__strdup(why);
	} else if (s->ending == 0) {
		s->ending = ESPL__RUN_DONE;
	}
	if (s->jobs == NULL)
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "experiment '%s' finished", s->config->name);
	espl__search_show(s);
}

/* ---- all of them -------------------------------------------------------------------------- */

uint32_t
espl__searches_open(const struct espl__exec *x)
{
	uint32_t open = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		open += x->searches.list[i]->ending == 0;
	return open;
}

int
espl__searches_idle(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (!espl__search_idle(x->searches.list[i]))
			return 0;
	return 1;
}

int
espl__searches_to_come(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];

		if (!s->over && (!s->come || (s->jobs != NULL && !s->finished)))
			return 1;
	}
	return 0;
}

espl_time
espl__search_next(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];

		at = s->wake_at < at ? s->wake_at : at;
		at = s->barrier_at < at ? s->barrier_at : at;
		if (espl__search_starts_at(s) < at)
			at = espl__search_starts_at(s);
	}
	return at;
}

static int
is_limited(const struct espl__search *s)
{
	return s->come && s->algorithm != NULL && s->ending == 0 && !espl__search_idle(s);
}

static void
end_limited(struct espl__exec *x)
{
	for (uint32_t i = 0; x->config->pool && i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		if (!is_limited(s))
			continue;
		if (x->now > s->experiment.deadline)
			espl__search_wind_up(s, ESPL__RUN_DEADLINE, "its deadline was reached");
		else if (s->experiment.spent >= s->experiment.budget)
			espl__search_wind_up(s, ESPL__RUN_BUDGET, "its budget was used up");
	}
}

uint32_t
espl__searches_alarm(struct espl__exec *x)
{
	uint32_t woken = 0;

	ESPL__CHECK(x, EXEC);
	end_limited(x);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		if (s->wake_at > x->now)
			continue;
		s->wake_at = ESPL_NEVER;
		s->why |= ESPL_ASK_TIME;
		espl__haste_rings(&s->haste);
		woken++;
	}
	return woken;
}

struct espl__search *
espl__searches_hasty(struct espl__exec *x, int in_vain)
{
	struct espl__search *hasty = NULL;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (espl__haste_counts(&x->searches.list[i]->haste, x->now, in_vain))
			hasty = x->searches.list[i];
	return hasty;
}

/* No search's share of the cost can grow faster than the cost of the whole cluster. */
espl_time
espl__search_limits_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; x->config->pool && i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];
		double rate, left;

		if (!is_limited(s) || x->round.ending != 0)
			continue;
		if (s->experiment.deadline != ESPL_NEVER && s->experiment.deadline + 1 < at)
			at = s->experiment.deadline + 1;
		rate = s->experiment.budget != INT64_MAX ? espl__ledger_rate(x->ledger) : 0;
		left = (double)(s->experiment.budget - s->experiment.spent);
		if (rate > 0 && left / rate < 1e9) {
			espl_time then =
			    x->now + ESPL_SECOND + (espl_time)(left > 0 ? left / rate * 1e9 : 0);
			at = then < at ? then : at;
		}
	}
	return at;
}

enum espl__run_end
espl__searches_cut(const struct espl__exec *x)
{
	return x->round.ended &&
		(x->round.ending == ESPL__RUN_DEADLINE || x->round.ending == ESPL__RUN_BUDGET)
	    ? x->round.ending
	    : 0;
}

int
espl__search_idle(const struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	return s->over ||
	    (s->finished && s->trials.running + s->trials.waiting == espl__search_parked(s) &&
		s->waiter_count == 0);
}

int
espl__exec_search_sum(const struct espl__exec *x, uint64_t number, struct espl__search_summary *to)
{
	const struct espl__search *s = number < x->searches.count ? x->searches.list[number] : NULL;
	enum espl__run_end cut = espl__searches_cut(x);

	ESPL__CHECK(x, EXEC);
	memset(to, 0, sizeof *to);
	if (s == NULL || s->jobs != NULL)
		return 0;
	to->name = s->config->name;
	to->metric = s->config->metric;
	to->maximize = s->config->maximize;
	to->text = s->end_text;
	to->how = s->over ? s->ending : 0;
	/* it ended with the pool, if not by its own limits at the same time */
	if (cut != 0 && !s->over) {
		to->how = s->ending != 0 ? s->ending : cut;
		to->text = s->ending != 0       ? s->end_text
		    : cut == ESPL__RUN_DEADLINE ? "the pool's deadline was reached"
						: "the pool's budget was used up";
	}
	to->come = s->come;
	to->arrived = s->come ? s->experiment.arrived : ESPL_NEVER;
	to->ended = cut != 0 && !s->over ? x->now : s->ended;
	to->trials = s->trials.trials.count;
	to->finished = s->trials.finished;
	to->early = s->trials.early;
	to->failed = s->failed;
	to->running = s->trials.running;
	to->waiting = s->trials.waiting - espl__search_parked(s);
	to->unfinished = s->trials.unfinished + espl__search_parked(s);
	to->best = espl__search_best(s);
	to->best_iteration = s->best_iteration;
	to->best_loss = s->best_loss;
	to->seeds = s->seeds;
	to->best_spread = espl__search_best_spread(s, &to->best_counted);
	to->lowest = s->lowest;
	to->gpu_s = s->sums.busy_gpu_s;
	to->spent = s->experiment.spent;
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		to->gpus += g->trial->search == s ? g->share.gpus : 0;
	return 1;
}

void
espl__search_show(const struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	struct espl__search_summary sum;

	ESPL__CHECK(s, SEARCH);
	if (x->setup.observers == NULL || !x->config->pool ||
	    !espl__exec_search_sum(x, s->number, &sum))
		return;
	ESPL__OBSERVE(x, experiment, s->number, &sum);
}

/* ---- searches that have found enough --------------------------------------------------------- */

/* Searches that end by what they have found: experiment.target, and
 * experiment.patience.
 *
 * Both are decided from reports and ends of trials, one event after the other, so that a replay, a
 * simulation and a study of ask and tell come to the same end.
 *
 * target    A trial has reported a number at least as good.  What counts is the first report of an
 *           iteration: one that is trained again after a loss changes nothing.
 * patience  So many trials have ended since the best value was reported, not counting the one that
 *           reported it.  The best value is the lowest loss that any trial has reported, at any
 *           iteration; until there is one nothing is counted (searches_faults.c ends a search with
 *           which nothing works).  A trial has ended when it is completed, stopped early or failed
 *           for good; one that is paused may be continued, and has not. */

void
espl__search_goal_init(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	s->goal.best = s->goal.reached = ESPL_NONE;
	if (s->config->has_target || s->config->no_better > 0)
		s->exec->searches.with_goal++;
}

static void
set_best(struct espl__search *s, const struct espl__trial *best)
{
	s->goal.best = best != NULL ? best->pub.id : ESPL_NONE;
	s->goal.lowest = best != NULL ? best->lowest : 0;
	/* without itself, should it have ended before */
	s->goal.counted = s->configs->concluded - (best != NULL && best->concluded);
}

static int
reaches_target(const struct espl__run_config *c, double loss)
{
	return c->has_target && loss <= (c->maximize ? -c->target : c->target);
}

void
espl__search_goal_report(struct espl__trial *t, uint64_t iteration, double loss)
{
	struct espl__search *s = t->search;

	ESPL__CHECK(s, SEARCH);
	if (!isfinite(loss))
		return;
	if (!t->measured || loss < t->lowest)
		t->lowest = loss;
	t->measured = 1;
	if (s->goal.best == ESPL_NONE || loss < s->goal.lowest)
		set_best(s, t);
	if (s->goal.reached == ESPL_NONE && reaches_target(s->config, loss)) {
		s->goal.reached = t->pub.id;
		s->goal.reached_at = iteration;
		s->goal.reached_loss = loss;
	}
}

/* If its value was the best, another's is now, and the count begins again.  O(trials), once for
 * each such failure. */
void
espl__search_goal_failed(const struct espl__trial *t)
{
	struct espl__search *s = t->search;
	const struct espl__trial *best = NULL;

	ESPL__CHECK(s, SEARCH);
	if (t->pub.id != s->goal.best)
		return;
	for (uint64_t i = 0; i < s->configs->trials.count; i++) {
		const struct espl__trial *other = espl__trial_at(s->configs, i);

		if (other->measured && other->pub.state != ESPL_TRIAL_FAILED &&
		    (best == NULL || other->lowest < best->lowest))
			best = other;
	}
	set_best(s, best);
}

/* How many other trials have ended since the best value was reported. */
static uint64_t
count_no_better(const struct espl__search *s)
{
	const struct espl__trial *best = espl__trial_at(s->configs, s->goal.best);

	return best != NULL ? s->configs->concluded - s->goal.counted - best->concluded : 0;
}

/* What was looked for is the result, also if other trials have trained further. */
static void
end_on_target(struct espl__search *s)
{
	struct espl__trial *t = espl__trial_at(s->configs, s->goal.reached);
	char target[32], name[64];

	s->goal.ended = 1;
	if (t->pub.state != ESPL_TRIAL_FAILED)
		espl__trial_best_is(t, s->goal.reached_at, s->goal.reached_loss);
	espl__search_wind_up(s, ESPL__RUN_DONE, "the target %s was reached by %s at iteration %llu",
	    espl__format_value(s->config->target, target), espl__config_name(t, name),
	    (unsigned long long)s->goal.reached_at);
}

static void
end_without_better(struct espl__search *s)
{
	unsigned long long trials = s->config->no_better;
	char why[200];

	if (espl__search_came_to_nothing(s, why, sizeof why)) {
		espl__search_wind_up(s, ESPL__RUN_FAILED, "no improvement in %llu trial%s, and %s",
		    trials, trials == 1 ? "" : "s", why);
		return;
	}
	s->goal.ended = 1;
	espl__search_wind_up(s, ESPL__RUN_DONE, "no improvement in %llu trial%s", trials,
	    trials == 1 ? "" : "s");
}

void
espl__searches_goals(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; x->searches.with_goal > 0 && i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		if (s->over || s->ending != 0 || x->round.ending != 0 || espl__search_confirms(s))
			continue;
		if (s->goal.reached != ESPL_NONE)
			end_on_target(s);
		else if (s->config->no_better > 0 && !espl__search_idle(s) &&
		    count_no_better(s) >= s->config->no_better)
			end_without_better(s); /* an idle one is complete, and ends by itself */
	}
}
