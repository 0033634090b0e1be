/* exec_clone.c - clones: the checkpoint they begin from, and the wait for it.
 *
 * A clone whose source has still to save has no item: it holds no GPU that its source may need.
 * It is let in when the checkpoint is kept.  A source that lost it with its processes trains up to
 * there again; of one that cannot, the newest checkpoint kept is taken, and a clone of which
 * nothing is kept has failed.
 */
#include "base/assert.h"
#include "exec/state.h"

/* Lets a clone begin from its source's checkpoint, or (0) as one that may wait. */
static void
let_in(struct espl__exec *x, struct espl__trial *t, uint64_t checkpoint,
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
		let_in(x, t, source->pub.checkpoint, &w);
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

uint64_t
espl__trial_restores(const struct espl__trial *t)
{
	return t->pub.checkpoint > 0 ? t->pub.checkpoint
	    : t->source != ESPL_NONE ? t->source_checkpoint
				     : 0;
}

/* Can the source still come by a checkpoint that it has not?  One at rest that lost it trains
 * again. */
static int
will_save(struct espl__exec *x, struct espl__trial *source)
{
	if (source->gang != NULL || source->item != NULL || espl__clone_waits(source))
		return 1;
	if (!espl__exec_unsaved(source) || source->failures > source->search->config->trial.retries)
		return 0;
	espl__exec_train_again(x, source);
	return 1;
}

/* What became of the waiting clones' sources: called when trials and checkpoints may have changed.
 * The end of one that cannot begin is told to the algorithm, which may stop others: so from the
 * start again after each. */
espl_status
espl__clones_look(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < s->waiter_count && status == ESPL_OK && x->ending == 0;) {
		struct espl__waiter w = s->waiters[i];
		struct espl__trial *source = espl__trial_at(&s->trials, w.trial->source);
		uint64_t kept = source->pub.checkpoint;

		if ((kept == 0 || kept < w.wanted) && will_save(x, source)) {
			i++;
			continue;
		}
		if (kept == 0 || kept >= w.trial->pub.budget) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(w.trial),
			    "cannot begin: nothing of trial %llu that it could train on from is "
			    "kept",
			    (unsigned long long)source->pub.id);
			status = espl__exec_trial_over(x, w.trial, ESPL_END_FAILED, diag);
			i = 0;
			continue;
		}
		espl__clone_gone(w.trial);
		let_in(x, w.trial, kept, &w);
		espl__exec_show(x, w.trial);
	}
	return status;
}
