/* exec_trial.c - the ends of trials, verdicts, checkpoints, and which trial is best.
 *
 * A trial's last checkpoint is kept until nobody can need it: the trial is dropped or final, no
 * clone waits for it, and it is not the best so far.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/state.h"

/* As observers see it: with the ids that it has outside. */
const struct espl_trial *
espl__exec_shown(const struct espl__trial *t, struct espl_trial *room)
{
	uint64_t upper = (uint64_t)t->search->number << ESPL__TRIAL_BITS;

	if (upper == 0)
		return &t->pub;
	*room = t->pub;
	room->id |= upper;
	if (room->parent != ESPL_NONE)
		room->parent |= upper;
	if (room->group != ESPL_NONE)
		room->group |= upper;
	return room;
}

void
espl__exec_show(struct espl__exec *x, struct espl__trial *t)
{
	struct espl_trial room;

	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->trial != NULL)
			o->trial(o->ctx, x->now, espl__exec_shown(t, &room));
}

/* The search is over: what is paused was stopped early, and is shown as that. */
void
espl__search_settle(struct espl__search *s)
{
	if (s->trials.settled)
		return;
	espl__trials_settle(&s->trials);
	for (uint64_t i = 0; i < s->trials.trials.count; i++) {
		struct espl__trial *t = espl__trial_at(&s->trials, i);

		if (t->pub.state != ESPL_TRIAL_ENDED && t->pub.state != ESPL_TRIAL_FAILED)
			espl__exec_show(s->exec, t);
	}
}

/* Best: of the trials that have not failed, the lowest loss among reports at the largest iteration
 * that any of them reached; ties to the lower id.  Independent of the order in which reports
 * arrive.  A trial that failed for good is best only where there is no other. */
void
espl__exec_best(struct espl__exec *x, struct espl__trial *t, uint64_t iteration, double loss)
{
	struct espl__search *s = t->search;
	struct espl__trial *before = espl__trial_at(&s->trials, s->best);
	int failed = t->pub.state == ESPL_TRIAL_FAILED,
	    before_failed = before != NULL && before->pub.state == ESPL_TRIAL_FAILED;

	if (isnan(loss))
		return;
	if (before != NULL && failed != before_failed) {
		if (failed)
			return;
	} else if (before != NULL) {
		if (iteration < s->best_iteration)
			return;
		if (iteration == s->best_iteration &&
		    (loss > s->best_loss || (!(loss < s->best_loss) && t->pub.id > s->best)))
			return;
	}
	s->best = t->pub.id;
	s->best_iteration = iteration;
	s->best_loss = loss;
	if (before != NULL && before != t)
		espl__exec_collect_later(x, before);
}

/* A trial failed for good.  The best of those is remembered: its checkpoint is kept, should no
 * other trial have a result.  If it was the best of all, which is best now?  O(trials), once for
 * each such failure. */
static void
forget_as_best(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__search *s = t->search;
	struct espl__trial *failed = espl__trial_at(&s->trials, s->best_failed);
	uint64_t left = t->pub.id == s->best ? s->trials.trials.count : 0;

	if (!isnan(t->pub.loss) &&
	    (failed == NULL || t->pub.iteration > failed->pub.iteration ||
		(t->pub.iteration == failed->pub.iteration && t->pub.loss < failed->pub.loss))) {
		s->best_failed = t->pub.id;
		if (failed != NULL)
			espl__exec_collect_later(x, failed);
	}
	for (uint64_t i = 0; i < left; i++) {
		struct espl__trial *other = espl__trial_at(&s->trials, i);

		if (other->pub.iteration > 0)
			espl__exec_best(x, other, other->pub.iteration, other->pub.loss);
	}
}

static espl_status
tell_end(struct espl__exec *x, struct espl__trial *t, espl_end how, struct espl__diag *diag)
{
	struct espl__search *s = t->search;
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__reader answer;
	espl_status status;

	s->why |= ESPL_ASK_RESULT;
	espl__exec_capacity(x);
	if (!espl__exec_hears(s) || s->algorithm == NULL)
		return ESPL_OK;
	espl__exec_turn(x, s);
	status = espl__call_trial_end(&x->caller, s->algorithm, &t->pub, how, &why);
	status = espl__exec_answer(x, s, s->algorithm, status, &why, &answer, diag);
	if (status == ESPL_OK)
		status = espl__exec_apply_search(x, s, &answer, diag);
	return status;
}

/* The trial has no more to train for now: its item goes; the algorithm hears why.  Its gang, if
 * there is one, is told when the round is settled. */
espl_status
espl__exec_trial_over(struct espl__exec *x, struct espl__trial *t, espl_end how,
    struct espl__diag *diag)
{
	static const char *const words[] = { "", "reached its budget", "says that it is complete",
		"is paused", "is stopped", "failed for good" };
	struct espl__search *s = t->search;
	int silent = t->unsaved; /* it only made its last checkpoint again */
	int rests = s->algorithm != NULL && (how == ESPL_END_BUDGET || how == ESPL_END_PAUSED);

	if (t->item != NULL)
		espl__item_free(x, t->item);
	else
		espl__clone_gone(t);
	t->item = NULL;
	t->verdict = 0;
	if (t->gang != NULL)
		t->gang->over = 1;
	t->unsaved = 0;
	if (t->pub.group != ESPL_NONE && s->experiment.spec != NULL) {
		const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);
		if (g->bracket < s->experiment.standing_count &&
		    s->standing[g->bracket].trials_left > 0)
			s->standing[g->bracket].trials_left--;
	}
	t->itself = how == ESPL_END_ITSELF;
	espl__trial_state(&s->trials, t,
	    rests                        ? ESPL_TRIAL_RESTING
		: how == ESPL_END_FAILED ? ESPL_TRIAL_FAILED
					 : ESPL_TRIAL_ENDED);
	if (how == ESPL_END_FAILED) {
		s->failed++;
		forget_as_best(x, t);
	}
	if (s->jobs != NULL)
		espl__job_ended(t);
	if ((how == ESPL_END_BUDGET || how == ESPL_END_ITSELF) && s->jobs == NULL)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "%s at iteration %llu with %s %.9g", words[how],
		    (unsigned long long)t->pub.iteration, s->config->metric,
		    s->config->maximize ? -t->pub.loss : t->pub.loss);
	else
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "%s at iteration %llu",
		    words[how], (unsigned long long)t->pub.iteration);
	espl__exec_collect_later(x, t);
	espl__exec_show(x, t);
	return silent ? ESPL_OK : tell_end(x, t, how, diag);
}

espl_status
espl__exec_verdict(struct espl__exec *x, struct espl__trial *t, espl_verdict verdict,
    int at_boundary, struct espl__diag *diag)
{
	int awaiting = t->gang != NULL && t->gang->awaiting && t->gang->state != ESPL__GANG_LEAVING;

	if (verdict == ESPL_SAVE) {
		t->save_asked = 1;
		return ESPL_OK;
	}
	if (t->pub.state == ESPL_TRIAL_RESTING) {
		if (verdict == ESPL_STOP) {
			espl__trial_state(&t->search->trials, t, ESPL_TRIAL_ENDED);
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "is stopped while it rests");
			espl__exec_collect_later(x, t);
			espl__exec_show(x, t);
			return tell_end(x, t, ESPL_END_STOPPED, diag);
		}
		return ESPL_OK;
	}
	if (t->item == NULL && !espl__clone_waits(t))
		return ESPL_OK;
	if (t->gang != NULL && !awaiting && !at_boundary) {
		t->verdict = (uint8_t)verdict; /* at its next boundary */
		return ESPL_OK;
	}
	return espl__exec_trial_over(x, t,
	    verdict == ESPL_STOP ? ESPL_END_STOPPED : ESPL_END_PAUSED, diag);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

void
espl__exec_collect_later(struct espl__exec *x, struct espl__trial *t)
{
	ESPL__GROW(x->collect, x->collect_cap, x->collect_count + 1);
	x->collect[x->collect_count++] = t;
}

static int
needed(const struct espl__trial *t)
{
	if (t->clones_waiting > 0 || t->gang != NULL || t->item != NULL ||
	    t->pub.id == t->search->best || t->pub.id == t->search->best_failed)
		return 1;
	if (t->dropped || t->pub.state == ESPL_TRIAL_FAILED)
		return 0;
	/* Stopped: never continued, and clones ask in the round of its end.  Complete by itself:
	 * its result stays. */
	if (t->pub.state == ESPL_TRIAL_ENDED)
		return (!isnan(t->pub.loss) || t->search->algorithm == NULL) &&
		    t->pub.iteration >= t->pub.budget;
	return 1;
}

static void
release_source(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__trial *source = espl__trial_at(&t->search->trials, t->source);

	t->source = ESPL_NONE;
	if (source == NULL)
		return;
	ESPL__ASSERT(source->clones_waiting > 0);
	source->clones_waiting--;
	espl__exec_collect_later(x, source);
}

void
espl__exec_collect(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->collect_count; i++) {
		struct espl__trial *t = x->collect[i];

		/* one at rest may go on, and has nothing but its source's until it saves */
		if (t->source != ESPL_NONE && t->item == NULL && t->gang == NULL &&
		    !espl__clone_waits(t) && (t->pub.state != ESPL_TRIAL_RESTING || t->dropped))
			release_source(x, t);
		if (t->pub.checkpoint == 0 || needed(t))
			continue;
		struct espl__effect *e = espl__exec_effect(x, ESPL__FX_COLLECT);
		e->as.collect.experiment = t->search->number;
		e->as.collect.trial = t->pub.id;
		e->as.collect.keep = 0;
		t->pub.checkpoint = 0;
		espl__exec_show(x, t);
	}
	x->collect_count = 0;
}

void
espl__exec_drop(struct espl__exec *x, struct espl__trial *t)
{
	if (t->dropped)
		return;
	espl__trial_drop(&t->search->trials, t);
	if (t->pub.state == ESPL_TRIAL_RESTING)
		espl__exec_show(x, t);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "is dropped: it will not be continued");
	espl__exec_collect_later(x, t);
}

void
espl__exec_saved(struct espl__exec *x, struct espl__trial *t, uint64_t iteration)
{
	if (iteration < t->pub.checkpoint || iteration == 0)
		return;
	t->pub.checkpoint = iteration;
	t->search->saved = 1;
	t->save_asked = 0;
	if (iteration == t->pub.iteration)
		t->can_save = 0;
	if (t->unsaved && t->item == NULL)
		t->unsaved = 0;
	if (t->source != ESPL_NONE)
		release_source(x, t);
	if (t->clones_waiting == 0) {
		struct espl__effect *e = espl__exec_effect(x, ESPL__FX_COLLECT);
		e->as.collect.experiment = t->search->number;
		e->as.collect.trial = t->pub.id;
		e->as.collect.keep = iteration;
	}
	espl__exec_show(x, t);
}

/* Is a result here whose checkpoint is wanted and not there? */
int
espl__exec_unsaved(const struct espl__trial *t)
{
	if (t->source != ESPL_NONE && espl__trial_restores(t) == 0)
		return 0; /* a clone that never began */
	return t->search->saves && (!t->dropped || t->clones_waiting > 0) &&
	    t->pub.checkpoint < t->pub.iteration && t->pub.state == ESPL_TRIAL_RESTING;
}

void
espl__exec_mark_unsaved(struct espl__trial *t)
{
	struct espl__search *s = t->search;

	if (t->unsaved || !espl__exec_unsaved(t))
		return;
	t->unsaved = 1;
	ESPL__GROW(s->unsaved, s->unsaved_cap, s->unsaved_count + 1);
	s->unsaved[s->unsaved_count++] = t;
}

void
espl__exec_train_again(struct espl__exec *x, struct espl__trial *t)
{
	t->unsaved = 1;
	espl__trial_again(&t->search->trials, t);
	t->item = espl__item_new(x, t, 1.0, 0, 0);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    t->pub.checkpoint > 0 ? "the checkpoint of its last iteration was lost; it is trained "
				    "again from iteration %llu"
				  : "it has no checkpoint; it is trained again from iteration %llu",
	    (unsigned long long)espl__trial_restores(t));
}

/* When the search is over: results whose last checkpoint was lost with the driver are trained
 * again from the checkpoint before it, so that every result has its model.  They stay in the
 * group they ended in. */
int
espl__exec_salvage(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	int any = 0;

	for (uint32_t i = 0; i < s->unsaved_count; i++) {
		struct espl__trial *t = s->unsaved[i];

		if (!t->unsaved || t->item != NULL || !espl__exec_unsaved(t))
			continue;
		if (t->failures > s->config->trial.retries) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "its last checkpoint cannot be made; its result stands");
			continue;
		}
		espl__exec_train_again(x, t);
		any = 1;
	}
	s->unsaved_count = 0;
	return any;
}
