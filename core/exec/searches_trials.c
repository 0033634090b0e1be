/* searches_trials.c - trials: their best results, their checkpoints, and what observers see of
 * them. */
#include <math.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/searches_trials.h"
#include "exec/state.h"

/* Lets a clone begin from its source's checkpoint, or (0) as one that may wait. */
void
espl__clone_let_in(struct espl__exec *x, struct espl__trial *t, uint64_t checkpoint,
    const struct espl__waiter *w)
{
	t->source_checkpoint = t->pub.iteration = t->began = checkpoint;
	t->item = espl__item_new(x, t, w->weight, w->gpus_min, w->gpus_max);
}

void
espl__clone_begin(struct espl__exec *x, struct espl__trial *t, const struct espl_start *s)
{
	struct espl__trial *source = espl__trial_at(&t->search->trials, s->trial);
	struct espl__waiter w = { .trial = t,
		.wanted = s->checkpoint,
		.weight = s->weight,
		.gpus_min = s->gpus_min,
		.gpus_max = s->gpus_max };

	t->source = source->pub.id;
	source->clones_waiting++;
	if (source->pub.checkpoint > 0 && (w.wanted == 0 || w.wanted == source->pub.checkpoint)) {
		espl__clone_let_in(x, t, source->pub.checkpoint, &w);
		return;
	}
	espl__clone_wait(x, &w);
}

void
espl__clone_wait(struct espl__exec *x, const struct espl__waiter *w)
{
	struct espl__search *s = w->trial->search;

	w->trial->source_checkpoint = 0;
	w->trial->pub.iteration = w->wanted;
	ESPL__GROW(s->waiters, s->waiter_cap, s->waiter_count + 1);
	s->waiters[s->waiter_count++] = *w;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(w->trial),
	    "waits until trial %llu has saved", (unsigned long long)w->trial->source);
}

/* The clone does not wait any more: it was stopped, or cannot begin. */
void
espl__clone_gone(const struct espl__trial *t)
{
	struct espl__search *s = t->search;
	uint32_t left = 0;

	for (uint32_t i = 0; i < s->waiter_count; i++)
		if (s->waiters[i].trial != t)
			s->waiters[left++] = s->waiters[i];
	ESPL__ASSERT(left + 1 == s->waiter_count);
	s->waiter_count = left;
}

int
espl__clone_waits(const struct espl__trial *t)
{
	return t->source != ESPL_NONE && t->item == NULL && t->pub.state == ESPL_TRIAL_WAITING;
}

int
espl__clone_wants(const struct espl__trial *source, uint64_t iteration)
{
	const struct espl__search *s = source->search;

	if (source->clones_waiting == 0 || source->pub.checkpoint >= iteration)
		return 0;
	for (uint32_t i = 0; i < s->waiter_count; i++)
		if (s->waiters[i].trial->source == source->pub.id &&
		    s->waiters[i].wanted <= iteration)
			return 1;
	return 0;
}

/* ---- what was answered -------------------------------------------------------------------- */

/* A trial has got its GPUs: does its stage begin to train with it? */
void
espl__exec_trains(struct espl__search *s, const struct espl__trial *t)
{
	const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);

	ESPL__CHECK(s, SEARCH);
	if (g != NULL && g->bracket < s->experiment.standing_count &&
	    s->standing[g->bracket].stage == g->stage &&
	    s->standing[g->bracket].trains_since == ESPL_NEVER)
		s->standing[g->bracket].trains_since = s->exec->now;
}

/* As observers see it: with the ids that it has outside. */
const struct espl_trial *
espl__exec_shown(const struct espl__trial *t, struct espl_trial *room)
{
	uint64_t upper = (uint64_t)t->search->number << ESPL__TRIAL_BITS;

	if (upper == 0 && !t->search->config->asked)
		return &t->pub;
	*room = t->pub;
	if (t->search->config->asked)
		room->checkpoint = 0; /* its client keeps it */
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

	ESPL__CHECK(x, EXEC);
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->trial != NULL)
			o->trial(o->ctx, x->now, espl__exec_shown(t, &room));
}

/* The search is over: what is paused was stopped early, and is shown as that. */
void
espl__search_settle(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
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

/* ---- checkpoints -------------------------------------------------------------------------- */

void
espl__exec_collect_later(struct espl__exec *x, struct espl__trial *t)
{
	ESPL__CHECK(x, EXEC);
	ESPL__GROW(x->searches.collect, x->searches.collect_cap, x->searches.collect_count + 1);
	x->searches.collect[x->searches.collect_count++] = t;
}

static int
is_checkpoint_needed(const struct espl__trial *t)
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
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.collect_count; i++) {
		struct espl__trial *t = x->searches.collect[i];

		/* a paused clone may continue, and has only its source's checkpoint until it saves
		 */
		if (t->source != ESPL_NONE && t->item == NULL && t->gang == NULL &&
		    !espl__clone_waits(t) && (t->pub.state != ESPL_TRIAL_RESTING || t->dropped))
			release_source(x, t);
		if (t->pub.checkpoint == 0 || is_checkpoint_needed(t))
			continue;
		struct espl__effect *e = espl__exec_effect(x, ESPL__FX_COLLECT);
		e->as.collect.experiment = t->search->number;
		e->as.collect.trial = t->pub.id;
		e->as.collect.keep = 0;
		t->pub.checkpoint = 0;
		espl__exec_show(x, t);
	}
	x->searches.collect_count = 0;
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
	    "is stopped early: it will not be promoted");
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

/* Whether a result lacks the checkpoint that should have been kept. */
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
	    t->pub.checkpoint > 0 ? "the checkpoint of its last iteration was lost; training again "
				    "from iteration %llu"
				  : "it has no checkpoint; training again from iteration %llu",
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

	ESPL__CHECK(s, SEARCH);
	for (uint32_t i = 0; i < s->unsaved_count; i++) {
		struct espl__trial *t = s->unsaved[i];

		if (!t->unsaved || t->item != NULL || !espl__exec_unsaved(t))
			continue;
		if (t->failures > s->config->trial.retries) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "its last checkpoint cannot be created; its result remains valid");
			continue;
		}
		espl__exec_train_again(x, t);
		any = 1;
	}
	s->unsaved_count = 0;
	return any;
}
