/* searches_clones.c - clones, and their wait for the checkpoint of their source. */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_new.h"
#include "exec/searches_decisions.h"

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
