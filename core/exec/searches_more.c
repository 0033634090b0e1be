/* searches_more.c - what the user adds to a search, or takes from it, after it has begun: further
 * trials, a configuration of his own, a trial that is to stop, a text about a trial.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/notes.h"
#include "exec/effects.h"
#include "exec/questions.h"
#include "exec/searches_confirm.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_more.h"
#include "exec/searches_trials.h"

/* ---- more trials ---------------------------------------------------------------------------- */

const char *
espl__exec_extends(const struct espl__exec *x, uint64_t number)
{
	const struct espl__search *s = number < x->searches.count ? x->searches.list[number] : NULL;

	ESPL__CHECK(x, EXEC);
	if (s == NULL || s->algorithm == NULL)
		return "no such experiment";
	if (!espl__call_can_extend(s->algorithm))
		return "the number of trials is part of the method of its algorithm";
	if (s->over || (x->config->pool && s->ending != 0))
		return "the experiment has ended";
	if (espl__search_confirms(s))
		return "the best configurations are being confirmed";
	if (s->goal.reached != ESPL_NONE)
		return "the target of the search was reached";
	if (x->round.ending != 0 && !x->round.ended)
		return "the run is ending";
	if (x->round.ending == ESPL__RUN_DEADLINE)
		return "the deadline of the run was reached";
	if (x->round.ending == ESPL__RUN_BUDGET)
		return "the budget of the run was used up";
	return NULL;
}

uint64_t
espl__exec_extended(const struct espl__exec *x, uint64_t number)
{
	ESPL__CHECK(x, EXEC);
	return number < x->searches.count ? x->searches.list[number]->extended : 0;
}

static void
unsettle(struct espl__search *s)
{
	espl__trials_unsettle(&s->trials);
	if (s->apart)
		espl__trials_unsettle(s->configs);
}

/* The algorithm has accepted them: the search continues, also if it had finished. */
static void
give_more(struct espl__search *s, const struct espl_extension *more)
{
	if (s->finished)
		unsettle(s);
	s->finished = 0;
	espl__search_confirm_again(s);
	if (s->goal.ended) { /* as long again without an improvement */
		s->goal.ended = 0;
		s->goal.counted = s->configs->concluded;
	}
	s->why |= ESPL_ASK_RESULT;
	espl__searches_capacity(s->exec);
	if (more->values != NULL) {
		espl__exec_note(s->exec, ESPL_ABOUT_RUN, 0, "the user adds a configuration");
		return;
	}
	s->extended += more->trials;
	espl__exec_note(s->exec, ESPL_ABOUT_RUN, 0, "the user wants %llu more trial%s",
	    (unsigned long long)more->trials, more->trials == 1 ? "" : "s");
}

espl_status
espl__search_extend(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	uint64_t number = e->as.extend.number;
	struct espl__search *s = number < x->searches.count ? x->searches.list[number] : NULL;
	struct espl_extension more = ESPL_INIT(struct espl_extension);
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__reader answer;
	espl_status status;

	ESPL__CHECK(x, EXEC);
	if (espl__exec_extends(x, number) != NULL || e->as.extend.trials == 0 ||
	    (e->as.extend.count > 0 && e->as.extend.count != s->trials.params))
		return ESPL_OK; /* it has ended meanwhile */
	more.flags = s->finished ? ESPL_EXTEND_OVER : 0;
	more.trials = e->as.extend.trials;
	more.values = e->as.extend.count > 0 ? e->as.extend.values : NULL;
	espl__search_turn(s);
	status = espl__call_extend(&x->caller, s->algorithm, &more, &why);
	if (status == ESPL_E_UNSUPPORTED) {
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0, "no further trials: %s", why.text);
		return ESPL_OK;
	}
	if (status == ESPL_OK)
		give_more(s, &more);
	status = espl__search_answer(s, status, &why, &answer, diag);
	return status == ESPL_OK ? espl__search_apply(x, s, &answer, diag) : status;
}

/* ---- a trial that is to stop ---------------------------------------------------------------- */

const char *
espl__exec_stops(const struct espl__exec *x, uint64_t number, uint64_t trial)
{
	const struct espl__search *s = number < x->searches.count ? x->searches.list[number] : NULL;
	const struct espl__trial *t =
	    s != NULL && s->algorithm != NULL ? espl__trial_at(&s->trials, trial) : NULL;

	ESPL__CHECK(x, EXEC);
	if (t == NULL)
		return "no such trial";
	if (t->pub.state == ESPL_TRIAL_ENDED || t->pub.state == ESPL_TRIAL_FAILED || t->dropped ||
	    s->over || s->ending != 0 || x->round.ending != 0)
		return "it has already ended";
	return t->unwanted ? "it will be stopped where it would be continued" : NULL;
}

static espl_status
stop_trial(struct espl__exec *x, struct espl__trial *t, struct espl__diag *diag)
{
	struct espl__gang *g = t->gang;
	espl_status status;

	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "is stopped by the user");
	status = espl__trial_over(x, t, ESPL_END_STOPPED, diag);
	if (g != NULL && t->gang == g && !g->awaiting)
		espl__gangs_kill(x, g, t->search->config->trial.grace);
	return status;
}

espl_status
espl__search_stop(struct espl__exec *x, uint64_t number, uint64_t trial, struct espl__diag *diag)
{
	struct espl__trial *t;

	ESPL__CHECK(x, EXEC);
	if (espl__exec_stops(x, number, trial) != NULL)
		return ESPL_OK; /* it has ended meanwhile */
	t = espl__trial_at(&x->searches.list[number]->trials, trial);
	if (t->pub.state != ESPL_TRIAL_PAUSED)
		return stop_trial(x, t, diag);
	/* The algorithm may count on it. */
	t->unwanted = 1;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "is stopped by the user while it is paused: it will not be continued");
	return ESPL_OK;
}

espl_status
espl__search_stop_unwanted(struct espl__search *s, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	ESPL__CHECK(s, SEARCH);
	while (s->unwanted_count > 0 && status == ESPL_OK) {
		struct espl__trial *t = s->unwanted[--s->unwanted_count];

		if (t->pub.state == ESPL_TRIAL_WAITING || t->pub.state == ESPL_TRIAL_RUNNING)
			status = stop_trial(s->exec, t, diag);
	}
	return status;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static struct espl__trial *
find_uid(const struct espl__exec *x, uint64_t uid)
{
	uint64_t number = uid >> ESPL__TRIAL_BITS;

	return number < x->searches.count
	    ? espl__trial_at(&x->searches.list[number]->trials, uid & ESPL__TRIAL_NUMBER)
	    : NULL;
}

const char *
espl__exec_notes(const struct espl__exec *x, uint64_t trial, const char *key)
{
	const struct espl__trial *t = find_uid(x, trial);

	ESPL__CHECK(x, EXEC);
	if (t == NULL || t->unasked)
		return "no such trial";
	return espl__trial_takes_note(t, key) ? NULL : espl__notes_full;
}

const struct espl__trial_note *
espl__exec_trial_notes(const struct espl__exec *x, uint64_t trial)
{
	const struct espl__trial *t = find_uid(x, trial);

	ESPL__CHECK(x, EXEC);
	return t != NULL ? t->notes : NULL;
}

void
espl__search_note(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__trial *t = find_uid(x, e->as.trial_note.trial);
	struct espl_trial room;
	char name[48];

	ESPL__CHECK(x, EXEC);
	if (t == NULL)
		return;
	if (espl__trial_note(t, e->as.trial_note.key, e->as.trial_note.text) != 0) {
		if (!x->searches.notes_dropped)
			espl__exec_warn(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    ESPL__NOTES_DROPPED, espl__trial_name(espl__trial_uid(t), name),
			    espl__notes_full, e->as.trial_note.key);
		x->searches.notes_dropped = 1;
		return;
	}
	ESPL__OBSERVE(x, trial_note, espl__trial_shown(t, &room), e->as.trial_note.key,
	    e->as.trial_note.text);
}

/* ---- experiments that failed, and continue --------------------------------------------------- */

/* An experiment of a pool that fails continues when the pool is resumed.
 *
 * As in a run of its own, the cause may have been fixed by then: what failed for good stays failed,
 * and the other trials train on from their checkpoints.  Until then they are held back like
 * retries (searches_held.c), so that no policy sees them (searches_end.c parks them). */

int
espl__exec_reopens(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->parked)
			return x->round.ending != ESPL__RUN_DEADLINE &&
			    x->round.ending != ESPL__RUN_BUDGET;
	return 0;
}

static void
reopen_search(struct espl__search *s)
{
	s->parked = 0;
	s->ending = 0;
	s->over = 0;
	s->ended = ESPL_NEVER;
	s->finished = s->was_finished;
	s->failures = 0;
	free(s->end_text);
	s->end_text = NULL;
	unsettle(s);
	espl__search_faults_forgive(s);
	if (s->jobs != NULL) /* no algorithm is asked before */
		espl__search_retry(s, UINT32_MAX);
	espl__exec_note(s->exec, ESPL_ABOUT_RUN, 0, "experiment '%s' failed, and continues",
	    s->config->name);
	espl__search_show(s);
}

void
espl__searches_reopen(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (!espl__exec_reopens(x))
		return;
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->parked)
			reopen_search(x->searches.list[i]);
	espl__searches_capacity(x);
}
