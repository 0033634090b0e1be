/* searches_trials.c - trials: their best results, their checkpoints, and what observers see of
 * them. */
#include <math.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items.h"
#include "exec/searches_configs.h"
#include "exec/searches_trials.h"

/* ---- when a stage trains ------------------------------------------------------------------ */

static int
of_current_stage(const struct espl__search *s, const struct espl__trial_group *g)
{
	return g != NULL && g->bracket < s->experiment.standing_count &&
	    s->standing[g->bracket].stage == g->stage;
}

static void
end_pause(struct espl__search *s, const struct espl__trial_group *g)
{
	struct espl__search_pause *pause = &s->pauses[g->bracket];

	if (pause->since != ESPL_NEVER)
		pause->total += s->exec->now - pause->since;
	pause->since = ESPL_NEVER;
}

/* Notes since when no trial of this one's stage has had a GPU.  Such time does not count as
 * training time of the stage. */
static void
note_pause(struct espl__search *s, const struct espl__trial *t)
{
	const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);

	if (of_current_stage(s, g) && g->running == 0 &&
	    s->standing[g->bracket].trains_since != ESPL_NEVER &&
	    s->pauses[g->bracket].since == ESPL_NEVER)
		s->pauses[g->bracket].since = s->exec->now;
}

/* A trial has got its GPUs: does its stage begin to train with it? */
void
espl__trial_trains(struct espl__search *s, const struct espl__trial *t)
{
	const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);

	ESPL__CHECK(s, SEARCH);
	if (s->jobs != NULL && s->job_states[t->pub.id].started == ESPL_NEVER)
		s->job_states[t->pub.id].started = s->exec->now;
	if (!of_current_stage(s, g))
		return;
	if (s->standing[g->bracket].trains_since == ESPL_NEVER)
		s->standing[g->bracket].trains_since = s->exec->now;
	end_pause(s, g);
}

void
espl__trial_turns(struct espl__trial *t, espl_trial_state to)
{
	const struct espl__trial_group *g = espl__group_at(&t->search->trials, t->pub.group);

	ESPL__CHECK(t->search, SEARCH);
	espl__trial_state(&t->search->trials, t, to);
	espl__trial_seed_turns(t);
	if (to == ESPL_TRIAL_RUNNING && of_current_stage(t->search, g))
		end_pause(t->search, g);
	else
		note_pause(t->search, t);
}

void
espl__trial_runs(struct espl__trial *t)
{
	ESPL__ASSERT(t->item != NULL);
	espl__trial_turns(t, ESPL_TRIAL_RUNNING);
	espl__item_runs(t->search->exec, t->item);
}

void
espl__trial_wait(struct espl__trial *t, uint32_t why)
{
	ESPL__ASSERT(t->item != NULL);
	if (t->pub.state == ESPL_TRIAL_RUNNING)
		espl__trial_turns(t, ESPL_TRIAL_WAITING);
	else
		note_pause(t->search, t); /* its processes have not begun */
	espl__item_wait(t->search->exec, t->item, why);
	espl__trial_show(t->search->exec, t);
}

void
espl__trial_leave(struct espl__exec *x, struct espl__trial *t)
{
	/* with a plan, the allocator learns of its end when its GPUs are free */
	int later = t->gang != NULL && t->search->experiment.plan != NULL;
	uint64_t leaves = t->item != NULL && later ? t->item->pub.id : ESPL_NONE;

	if (t->item != NULL)
		espl__item_free(x, t->item, !later);
	t->item = NULL;
	t->verdict = 0;
	if (t->gang != NULL)
		espl__gang_over(t->gang, leaves);
}

/* As observers see it: with the ids that it has outside. */
const struct espl_trial *
espl__trial_shown(const struct espl__trial *t, struct espl_trial *room)
{
	uint64_t upper = (uint64_t)t->search->number << ESPL__TRIAL_BITS;

	if (upper == 0 && !t->search->config->asked && t->search->config->resource == NULL &&
	    t->search->required == NULL)
		return &t->pub;
	*room = t->pub;
	room->loss = t->pub.objective;
	room->checkpoint = espl__trial_kept(t);
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
espl__trial_show(struct espl__exec *x, struct espl__trial *t)
{
	struct espl_trial room;

	ESPL__CHECK(x, EXEC);
	if (!t->unasked)
		ESPL__OBSERVE(x, trial, espl__trial_shown(t, &room));
}

void
espl__trial_unasked(struct espl__trial *t)
{
	ESPL__CHECK(t->search, SEARCH);
	ESPL__ASSERT(!t->unasked && t->gang == NULL);
	t->unasked = 1;
	t->search->unasked++;
}

void
espl__trial_handed(struct espl__trial *t)
{
	struct espl__search *s = t->search;

	ESPL__CHECK(s, SEARCH);
	if (!t->unasked)
		return;
	ESPL__ASSERT(s->unasked > 0);
	t->unasked = 0;
	s->unasked--;
	espl__trial_show(s->exec, t);
	if (t->gang != NULL)
		espl__gang_show(s->exec, t->gang, ESPL__PHASE_STARTING, "");
}

/* The search has ended: trials that are paused count as stopped early. */
void
espl__search_settle(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	if (s->trials.settled)
		return;
	espl__trials_settle(&s->trials, s->jobs == NULL);
	if (s->apart)
		espl__trials_settle(s->configs, 1);
	for (uint64_t i = 0; i < s->trials.trials.count; i++) {
		struct espl__trial *t = espl__trial_at(&s->trials, i);

		if (t->pub.state != ESPL_TRIAL_ENDED && t->pub.state != ESPL_TRIAL_FAILED)
			espl__trial_show(s->exec, t);
	}
}

void
espl__trial_best_is(struct espl__trial *t, uint64_t iteration, double loss)
{
	struct espl__search *s = t->search;
	struct espl__trial *before = espl__trial_at(s->configs, s->best);

	ESPL__CHECK(s, SEARCH);
	s->best = t->pub.id;
	s->best_iteration = iteration;
	s->best_loss = loss;
	if (before != NULL && before != t)
		espl__config_collect_later(s->exec, before);
}

/* Best: of the trials that have not failed, the lowest loss among reports at the largest iteration
 * that any of them reached; ties to the lower id.  Independent of the order in which reports
 * arrive.  A trial that failed for good is best only where there is no other.  The one
 * that ended the search by reaching the target stays the best. */
void
espl__trial_best(struct espl__exec *x, struct espl__trial *t, uint64_t iteration, double loss)
{
	struct espl__search *s = t->search;
	struct espl__trial *before = espl__trial_at(s->configs, s->best);
	int failed = t->pub.state == ESPL_TRIAL_FAILED,
	    before_failed = before != NULL && before->pub.state == ESPL_TRIAL_FAILED;

	ESPL__CHECK(x, EXEC);
	if (isnan(loss))
		return;
	if (s->goal.ended && s->best == s->goal.reached && before != NULL && !before_failed)
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
	espl__trial_best_is(t, iteration, loss);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

void
espl__trial_collect_later(struct espl__exec *x, struct espl__trial *t)
{
	ESPL__CHECK(x, EXEC);
	ESPL__GROW(x->searches.collect, x->searches.collect_cap, x->searches.collect_count + 1);
	x->searches.collect[x->searches.collect_count++] = t;
}

/* Those of its trials. */
void
espl__config_collect_later(struct espl__exec *x, const struct espl__trial *config)
{
	for (uint32_t i = 0; i < config->search->seeds; i++)
		espl__trial_collect_later(x, espl__config_trial(config, i));
}

static int
is_checkpoint_needed(const struct espl__trial *t)
{
	const struct espl__trial *of = espl__config_of(t);
	/* not NONE, which s->best is while no trial is best */
	uint64_t config = of != NULL ? of->pub.id : ESPL_NONE - 1;

	if (t->clones_waiting > 0 || t->gang != NULL || t->item != NULL ||
	    config == t->search->best || config == t->search->best_failed ||
	    config == t->search->goal.reached)
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
	espl__trial_collect_later(x, source);
}

void
espl__searches_collect(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.collect_count; i++) {
		struct espl__trial *t = x->searches.collect[i];

		/* a paused clone may continue, and has only its source's checkpoint until it saves
		 */
		if (t->source != ESPL_NONE && t->item == NULL && t->gang == NULL &&
		    !espl__clone_waits(t) && (t->pub.state != ESPL_TRIAL_PAUSED || t->dropped))
			release_source(x, t);
		if (t->pub.checkpoint == 0 || is_checkpoint_needed(t))
			continue;
		struct espl__effect *e = espl__exec_effect(x, ESPL__FX_COLLECT);
		e->as.collect.experiment = t->search->number;
		e->as.collect.trial = t->pub.id;
		e->as.collect.keep = 0;
		t->pub.checkpoint = 0;
		espl__trial_show(x, t);
	}
	x->searches.collect_count = 0;
}

void
espl__trial_saved(struct espl__exec *x, struct espl__trial *t, uint64_t iteration,
    struct espl__mark mark)
{
	if (iteration < t->pub.checkpoint || iteration == 0)
		return;
	if (iteration > t->pub.checkpoint)
		espl__cluster_paid_off(x);
	t->pub.checkpoint = iteration;
	t->mark = mark;
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
		e->as.collect.keep = mark.step;
	}
	espl__trial_show(x, t);
}

/* Whether a result lacks the checkpoint that should have been kept. */
int
espl__trial_unsaved(const struct espl__trial *t)
{
	if (t->source != ESPL_NONE && espl__trial_restores(t) == 0)
		return 0; /* a clone that never began */
	return t->search->saves && (!t->dropped || t->clones_waiting > 0) &&
	    t->pub.checkpoint < t->pub.iteration && t->pub.state == ESPL_TRIAL_PAUSED;
}

void
espl__trial_mark_unsaved(struct espl__trial *t)
{
	struct espl__search *s = t->search;

	if (t->unsaved || !espl__trial_unsaved(t))
		return;
	t->unsaved = 1;
	ESPL__GROW(s->unsaved, s->unsaved_cap, s->unsaved_count + 1);
	s->unsaved[s->unsaved_count++] = t;
}

void
espl__trial_train_again(struct espl__exec *x, struct espl__trial *t)
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

/* At the end of the search, results whose last checkpoint was lost with the driver are trained
 * again from the checkpoint before it, so that every result has its model. They stay in the group
 * in which they ended. */
int
espl__search_salvage(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	int any = 0;

	ESPL__CHECK(s, SEARCH);
	for (uint32_t i = 0; i < s->unsaved_count; i++) {
		struct espl__trial *t = s->unsaved[i];

		if (!t->unsaved || t->item != NULL || !espl__trial_unsaved(t))
			continue;
		if (t->failures > s->config->trial.retries) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "its last checkpoint cannot be created; its result remains valid");
			continue;
		}
		espl__trial_train_again(x, t);
		any = 1;
	}
	s->unsaved_count = 0;
	return any;
}

/* ---- clones ---------------------------------------------------------------------------------- */

/* Clones, and their wait for the checkpoint of their source. */

/* Lets a clone begin from its source's checkpoint, or (0) as one that may wait. */
void
espl__clone_let_in(struct espl__exec *x, struct espl__trial *t, uint64_t checkpoint,
    const struct espl__waiter *w)
{
	t->source_checkpoint = t->pub.iteration = t->began = checkpoint;
	t->source_mark = espl__trial_at(&t->search->trials, t->source)->mark;
	t->item = espl__item_new(x, t, w->weight, w->gpus_min, w->gpus_max);
}

void
espl__clone_wait(struct espl__exec *x, const struct espl__waiter *w)
{
	struct espl__search *s = w->trial->search;
	const struct espl__trial *source = espl__trial_at(&s->trials, w->trial->source);
	char name[48];

	w->trial->source_checkpoint = 0;
	w->trial->pub.iteration = w->wanted;
	ESPL__GROW(s->waiters, s->waiter_cap, s->waiter_count + 1);
	s->waiters[s->waiter_count++] = *w;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(w->trial),
	    "waits until trial %s has saved", espl__trial_name(espl__trial_uid(source), name));
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
