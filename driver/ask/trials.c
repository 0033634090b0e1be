/* trials.c - the trials that are open, and the events that the next round will bring. */
#include <string.h>

#include "ask/ask.h"
#include "base/assert.h"
#include "base/mem.h"

/* ---- events ------------------------------------------------------------------------------- */

struct espl__event *
espl__ask_event(struct espl__asking *ask, enum espl__event_type type)
{
	ESPL__CHECK(ask, ASK);
	return espl__batch_add(&ask->batch[ask->filling], type);
}

const char *
espl__ask_text(struct espl__asking *ask, const char *text)
{
	return espl__arena_strdup(&ask->batch[ask->filling].arena, text);
}

void
espl__ask_give_round(struct espl__asking *ask, struct espl__round *round)
{
	const struct espl__batch *batch = &ask->batch[ask->filling];

	ESPL__CHECK(ask, ASK);
	ask->urgent = 0;
	round->now = ask->now;
	round->events = batch->list;
	round->count = batch->count;
	if (batch->count == 0)
		return;
	ask->filling ^= 1;
	espl__batch_clear(&ask->batch[ask->filling]);
}

/* ---- trials ------------------------------------------------------------------------------- */

/* Which process had a trial, and whether the engine was started again, must not change the order in
 * which trials are handed out. Looks from the end that is nearer. */
static void
insert_trial(struct espl__ask_list *list, struct espl__ask_trial *t)
{
	struct espl__ask_trial *next = list->first, *prev = list->last;

	if (next != NULL && t->item < next->item + (prev->item - next->item) / 2) {
		while (next->item < t->item)
			next = next->next;
		prev = next->prev;
	} else {
		while (prev != NULL && prev->item > t->item)
			prev = prev->prev;
		next = prev != NULL ? prev->next : list->first;
	}
	t->prev = prev;
	t->next = next;
	*(prev != NULL ? &prev->next : &list->first) = t;
	*(next != NULL ? &next->prev : &list->last) = t;
	list->count++;
}

static void
unlink_trial(struct espl__asking *ask, struct espl__ask_trial *t)
{
	struct espl__ask_list *list = t->holder != NULL ? &t->holder->held : &ask->queue;

	ESPL__ASSERT(list->count > 0);
	if (t->prev != NULL)
		t->prev->next = t->next;
	else
		list->first = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	else
		list->last = t->prev;
	list->count--;
}

struct espl__ask_trial *
espl__ask_add(struct espl__asking *ask, const struct espl__effect *fx)
{
	struct espl__ask_trial *t = espl__alloc(sizeof *t);

	ESPL__CHECK(ask, ASK);
	ESPL__ASSERT(espl__map_get(&ask->by_trial, fx->as.start.trial + 1) == NULL);
	t->trial = fx->as.start.trial;
	t->gang = fx->as.start.gang;
	t->item = fx->as.start.item;
	t->iteration = fx->as.start.iteration;
	t->budget = fx->as.start.budget;
	t->source = fx->as.start.source;
	t->values = fx->as.start.values;
	espl__map_set(&ask->by_trial, t->trial + 1, t);
	espl__map_set(&ask->by_gang, t->gang + 1, t);
	insert_trial(&ask->queue, t);
	ask->open++;
	return t;
}

void
espl__ask_hold(struct espl__asking *ask, struct espl__ask_trial *t, struct espl__ask_client *client)
{
	ESPL__CHECK(ask, ASK);
	unlink_trial(ask, t);
	t->holder = client;
	insert_trial(client != NULL ? &client->held : &ask->queue, t);
	if (t->started || client == NULL)
		return;
	t->started = 1;
	ask->out++;
	espl__ask_event(ask, ESPL__EV_STARTED)->as.gang = t->gang;
}

struct espl__ask_trial *
espl__ask_hand(struct espl__asking *ask, struct espl__ask_client *client)
{
	struct espl__ask_trial *t = ask->queue.first;

	ESPL__ASSERT(client != NULL);
	if (t != NULL)
		espl__ask_hold(ask, t, client);
	return t;
}

void
espl__ask_return(struct espl__asking *ask, struct espl__ask_client *client)
{
	while (client->held.last != NULL)
		espl__ask_hold(ask, client->held.last, NULL);
}

void
espl__ask_remove(struct espl__asking *ask, struct espl__ask_trial *t)
{
	ESPL__ASSERT(ask->open > 0);
	unlink_trial(ask, t);
	(void)espl__map_remove(&ask->by_trial, t->trial + 1);
	(void)espl__map_remove(&ask->by_gang, t->gang + 1);
	ask->open--;
	ask->out -= t->started != 0;
	free(t);
}

void
espl__ask_trials_free(struct espl__asking *ask)
{
	while (ask->queue.first != NULL)
		espl__ask_remove(ask, ask->queue.first);
	ESPL__ASSERT(ask->open == 0);
	espl__map_free(&ask->by_trial);
	espl__map_free(&ask->by_gang);
	espl__names_free(&ask->metrics);
	for (int i = 0; i < 2; i++)
		espl__batch_free(&ask->batch[i]);
}
