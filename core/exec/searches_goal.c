/* searches_goal.c - searches that end by what they have found: experiment.target, and
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
 *           for good; one that is paused may be continued, and has not.
 */
#include <math.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/searches_end.h"
#include "exec/searches_goal.h"
#include "exec/searches_trials.h"

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
	s->goal.counted = s->trials.concluded - (best != NULL && best->concluded);
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
	for (uint64_t i = 0; i < s->trials.trials.count; i++) {
		const struct espl__trial *other = espl__trial_at(&s->trials, i);

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
	const struct espl__trial *best = espl__trial_at(&s->trials, s->goal.best);

	return best != NULL ? s->trials.concluded - s->goal.counted - best->concluded : 0;
}

/* What was looked for is the result, also if other trials have trained further. */
static void
end_on_target(struct espl__search *s)
{
	struct espl__trial *t = espl__trial_at(&s->trials, s->goal.reached);
	char target[32], name[48];

	s->goal.ended = 1;
	if (t->pub.state != ESPL_TRIAL_FAILED)
		espl__trial_best_is(t, s->goal.reached_at, s->goal.reached_loss);
	espl__search_wind_up(s, ESPL__RUN_DONE,
	    "the target %s was reached by trial %s at iteration %llu",
	    espl__format_value(s->config->target, target),
	    espl__trial_name(espl__trial_uid(t), name), (unsigned long long)s->goal.reached_at);
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

		if (s->over || s->ending != 0 || x->round.ending != 0)
			continue;
		if (s->goal.reached != ESPL_NONE)
			end_on_target(s);
		else if (s->config->no_better > 0 && !espl__search_idle(s) &&
		    count_no_better(s) >= s->config->no_better)
			end_without_better(s); /* an idle one is complete, and ends by itself */
	}
}
