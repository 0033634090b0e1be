/* trials.c - the trial state machine, checked at every step.
 *
 * Counts by state and by group are kept here so that a million trials are never scanned.
 */
#include "model/trials.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/notes.h"

uint64_t
espl__trial_seed(uint64_t run_seed, uint64_t trial)
{
	uint8_t bytes[16];

	for (int i = 0; i < 8; i++) {
		bytes[i] = (uint8_t)(run_seed >> (8 * i));
		bytes[8 + i] = (uint8_t)(trial >> (8 * i));
	}
	return espl__digest(0, bytes, sizeof bytes);
}

void
espl__trials_init(struct espl__trials *t, uint32_t params)
{
	memset(t, 0, sizeof *t);
	espl__pool_init(&t->trials, sizeof(struct espl__trial));
	espl__pool_init(&t->groups, sizeof(struct espl__trial_group));
	t->params = params;
}

static void
free_notes(struct espl__trial *trial)
{
	while (trial->notes != NULL) {
		struct espl__trial_note *note = trial->notes;

		trial->notes = note->next;
		free(note->key);
		free(note->text);
		free(note);
	}
}

void
espl__trials_free(struct espl__trials *t)
{
	for (uint64_t i = 0; i < t->trials.count; i++)
		free_notes(espl__trial_at(t, i));
	espl__pool_free(&t->trials);
	espl__pool_free(&t->groups);
	espl__arena_free(&t->values);
	free(t->open_ended);
}

struct espl__trial *
espl__trial_at(const struct espl__trials *t, uint64_t id)
{
	return id < t->trials.count ? espl__pool_at(&t->trials, id) : NULL;
}

struct espl__trial_group *
espl__group_at(const struct espl__trials *t, uint64_t id)
{
	return id < t->groups.count ? espl__pool_at(&t->groups, id) : NULL;
}

struct espl__trial_group *
espl__group_new(struct espl__trials *t, const struct espl_group *wanted)
{
	struct espl__trial_group *g = espl__pool_add(&t->groups);

	g->id = t->groups.count - 1;
	/* until the call that began it is over, see espl__group_close */
	g->flags = ESPL_GROUP_OPEN;
	g->will_close = (wanted->flags & ESPL_GROUP_OPEN) == 0;
	g->bracket = wanted->bracket;
	g->stage = wanted->stage;
	g->concurrency = wanted->concurrency;
	return g;
}

static uint64_t *
count_of(struct espl__trials *t, espl_trial_state state)
{
	switch (state) {
	case ESPL_TRIAL_WAITING: return &t->waiting;
	case ESPL_TRIAL_RUNNING: return &t->running;
	case ESPL_TRIAL_PAUSED: return &t->paused;
	case ESPL_TRIAL_ENDED: return &t->ended;
	default: return &t->failed;
	}
}

static void
note_ended(struct espl__trials *t, struct espl__trial_group *g)
{
	if ((g->flags & ESPL_GROUP_OPEN) != 0 || g->active > 0 || g->asked || t->mirror)
		return;
	for (uint32_t i = 0; i < t->ended_count; i++)
		if (t->open_ended[i] == g)
			return;
	ESPL__GROW(t->open_ended, t->ended_cap, t->ended_count + 1);
	t->open_ended[t->ended_count++] = g;
}

static void
enter_group(struct espl__trials *t, struct espl__trial *trial, struct espl__trial_group *g)
{
	trial->pub.group = g->id;
	trial->pub.state = ESPL_TRIAL_WAITING;
	t->waiting++;
	g->trials++;
	g->active++;
}

struct espl__trial *
espl__trial_new(struct espl__trials *t, struct espl__trial_group *g, const double *values,
    struct espl__trial *parent)
{
	struct espl__trial *trial = espl__pool_add(&t->trials);

	trial->search = t->search;
	trial->pub.size = (uint32_t)sizeof trial->pub;
	trial->pub.id = trial->seed_of = t->trials.count - 1;
	trial->pub.parent = parent != NULL ? parent->pub.id : ESPL_NONE;
	trial->pub.loss = trial->pub.objective = trial->pub.shortfall = NAN;
	trial->source = trial->failed_on = trial->loss_on[0] = trial->loss_on[1] = ESPL_NONE;
	if (values != NULL) {
		double *copy = espl__arena_alloc(&t->values, t->params * sizeof *copy);
		memcpy(copy, values, t->params * sizeof *copy);
		trial->pub.values = copy;
	} else {
		ESPL__ASSERT(parent != NULL);
		trial->pub.values = parent->pub.values;
	}
	enter_group(t, trial, g);
	return trial;
}

/* A paused trial may be continued until it is dropped, has reached the maximum iteration, or the
 * search is over. */
static enum espl__finish
finish_of(const struct espl__trials *t, const struct espl__trial *trial)
{
	uint64_t full = t->full > 0 ? t->full : trial->pub.budget;

	if (trial->pub.state == ESPL_TRIAL_ENDED && trial->cut)
		return 0;
	if (trial->pub.state == ESPL_TRIAL_ENDED)
		return trial->itself || trial->pub.iteration >= full ? ESPL__FINISH_COMPLETED
								     : ESPL__FINISH_EARLY;
	if (trial->pub.state != ESPL_TRIAL_PAUSED)
		return 0;
	if (t->full > 0 && trial->pub.iteration >= t->full)
		return ESPL__FINISH_COMPLETED;
	return trial->dropped || t->settled ? ESPL__FINISH_EARLY : 0;
}

static void
count_finished(struct espl__trials *t, struct espl__trial *trial)
{
	enum espl__finish finish = finish_of(t, trial);

	t->finished += (uint64_t)(finish != 0) - (uint64_t)(trial->finish != 0);
	t->early += (uint64_t)(finish == ESPL__FINISH_EARLY) -
	    (uint64_t)(trial->finish == ESPL__FINISH_EARLY);
	trial->finish = (uint8_t)finish;
	if (!trial->concluded && (finish != 0 || trial->pub.state == ESPL_TRIAL_FAILED)) {
		trial->concluded = 1; /* once, also if its last checkpoint is made again */
		t->concluded++;
	}
}

void
espl__trial_cut(struct espl__trials *t, struct espl__trial *trial)
{
	ESPL__ASSERT(!trial->cut && trial->pub.state < ESPL_TRIAL_ENDED);
	trial->cut = 1;
	t->unfinished++;
}

void
espl__trial_drop(struct espl__trials *t, struct espl__trial *trial)
{
	trial->dropped = 1;
	count_finished(t, trial);
}

void
espl__trials_settle(struct espl__trials *t, int alike)
{
	t->settled = 1;
	/* the algorithm has no option for it: as far as any trial was to train */
	if (t->full == 0 && alike) {
		for (uint64_t i = 0; i < t->trials.count; i++)
			if (espl__trial_at(t, i)->pub.budget > t->full)
				t->full = espl__trial_at(t, i)->pub.budget;
	}
	for (uint64_t i = 0; i < t->trials.count; i++)
		count_finished(t, espl__trial_at(t, i));
}

void
espl__trials_unsettle(struct espl__trials *t)
{
	t->settled = 0;
	for (uint64_t i = 0; i < t->trials.count; i++)
		count_finished(t, espl__trial_at(t, i));
}

/* Where the note of this name is, or the end of the list; *count: of those before it. */
static struct espl__trial_note **
find_note(const struct espl__trial *trial, const char *key, uint32_t *count)
{
	struct espl__trial_note **at = (struct espl__trial_note **)(uintptr_t)&trial->notes;

	for (*count = 0; *at != NULL && strcmp((*at)->key, key) != 0; at = &(*at)->next)
		++*count;
	return at;
}

int
espl__trial_takes_note(const struct espl__trial *trial, const char *key)
{
	uint32_t count;

	return *find_note(trial, key, &count) != NULL || count < ESPL__NOTES_MOST;
}

int
espl__trial_note(struct espl__trial *trial, const char *key, const char *text)
{
	uint32_t count;
	struct espl__trial_note **at = find_note(trial, key, &count);

	if (*at == NULL && count >= ESPL__NOTES_MOST)
		return -1;
	if (*at == NULL) {
		*at = espl__alloc(sizeof **at);
		(*at)->key = espl__strdup(key);
	}
	free((*at)->text);
	(*at)->text = espl__strdup(text);
	return 0;
}

const char *
espl__trial_word(const struct espl__trials *t, const struct espl__trial *trial)
{
	switch (trial->pub.state) {
	case ESPL_TRIAL_WAITING: return t->settled ? "unfinished" : "waiting";
	case ESPL_TRIAL_RUNNING: return t->settled ? "unfinished" : "running";
	case ESPL_TRIAL_FAILED: return "failed";
	case ESPL_TRIAL_ENDED:
		if (trial->cut)
			return "unfinished";
		/* fall through */
	default:
		return trial->finish == ESPL__FINISH_COMPLETED ? "completed"
		    : trial->finish == ESPL__FINISH_EARLY      ? "stopped early"
							       : "paused";
	}
}

void
espl__trial_continue(struct espl__trials *t, struct espl__trial *trial, struct espl__trial_group *g)
{
	ESPL__ASSERT(trial->pub.state == ESPL_TRIAL_PAUSED);
	t->paused--;
	enter_group(t, trial, g);
	count_finished(t, trial);
}

void
espl__trial_again(struct espl__trials *t, struct espl__trial *trial)
{
	struct espl__trial_group *g = espl__group_at(t, trial->pub.group);

	espl__trial_continue(t, trial, g);
	g->trials--;
	g->asked = 1;
}

void
espl__trial_state(struct espl__trials *t, struct espl__trial *trial, espl_trial_state to)
{
	espl_trial_state from = trial->pub.state;
	struct espl__trial_group *g = espl__group_at(t, trial->pub.group);
	int was_active = from == ESPL_TRIAL_WAITING || from == ESPL_TRIAL_RUNNING;
	int is_active = to == ESPL_TRIAL_WAITING || to == ESPL_TRIAL_RUNNING;

	if (from == to)
		return;
	ESPL__ASSERT(from != ESPL_TRIAL_ENDED && from != ESPL_TRIAL_FAILED);
	ESPL__ASSERT(was_active || to == ESPL_TRIAL_ENDED); /* PAUSED comes back by continue */
	--*count_of(t, from);
	++*count_of(t, to);
	trial->pub.state = to;
	count_finished(t, trial);
	if (g != NULL && (from == ESPL_TRIAL_RUNNING || to == ESPL_TRIAL_RUNNING))
		g->running += to == ESPL_TRIAL_RUNNING ? 1 : UINT64_MAX;
	if (was_active && !is_active) {
		ESPL__ASSERT(g != NULL && g->active > 0);
		g->active--;
		note_ended(t, g);
	}
	ESPL__ASSERT(t->running + t->waiting + t->paused + t->ended + t->failed == t->trials.count);
}

void
espl__group_close(struct espl__trials *t, struct espl__trial_group *g)
{
	g->flags &= ~ESPL_GROUP_OPEN;
	note_ended(t, g);
}

struct espl__trial_group *
espl__group_next_ended(struct espl__trials *t)
{
	while (t->ended_count > 0) {
		uint32_t least = 0;
		struct espl__trial_group *g;

		for (uint32_t i = 1; i < t->ended_count; i++)
			if (t->open_ended[i]->id < t->open_ended[least]->id)
				least = i;
		g = t->open_ended[least];
		t->open_ended[least] = t->open_ended[--t->ended_count];
		if (g->active > 0)
			continue; /* cannot be: closed groups take no more trials */
		g->asked = 1;
		return g;
	}
	return NULL;
}

uint64_t
espl__trial_restores(const struct espl__trial *t)
{
	return t->pub.checkpoint > 0 ? t->pub.checkpoint
	    : t->source != ESPL_NONE ? t->source_checkpoint
				     : 0;
}

struct espl__mark
espl__trial_restores_mark(const struct espl__trial *t)
{
	return t->pub.checkpoint > 0 ? t->mark
	    : t->source != ESPL_NONE ? t->source_mark
				     : (struct espl__mark){ 0, 0 };
}

uint64_t
espl__trial_kept(const struct espl__trial *t)
{
	return t->pub.checkpoint > 0 ? t->mark.step : 0;
}
