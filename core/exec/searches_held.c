/* searches_held.c - what is held back while nothing has ever worked: retries, until the algorithm
 * has no other configuration to try, and starts beyond those that decide about the script; and how
 * that ends (see searches_faults.c). */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/items.h"
#include "exec/searches_faults.h"
#include "exec/searches_trials.h"

/* ---- starts ------------------------------------------------------------------------------- */

/* A gang that runs for much longer than any attempt that failed shows that the script can work. */
espl_time
espl__search_proves_at(const struct espl__search *s, const struct espl__gang *g)
{
	ESPL__CHECK(s, SEARCH);
	return g->began + 2 * s->faults.longest + ESPL_SECOND;
}

int
espl__search_may_start(struct espl__search *s)
{
	const struct espl__exec *x = s->exec;
	uint32_t running = 0;

	ESPL__CHECK(s, SEARCH);
	s->faults.starts_wait = 0;
	if (s->reported || s->faults.attempts == 0 || s->config->asked)
		return 1;
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next) {
		if (g->trial->search != s || g->state == ESPL__GANG_LEAVING ||
		    (g->killed && g->fault == NULL))
			continue;
		if (g->fault == NULL && x->now >= espl__search_proves_at(s, g))
			return 1;
		running++;
	}
	s->faults.starts_wait =
	    running > 0 && s->faults.attempts + running >= ESPL__SCRIPT_ATTEMPTS;
	return !s->faults.starts_wait;
}

espl_time
espl__search_starts_at(const struct espl__search *s)
{
	espl_time at = ESPL_NEVER;

	if (!s->faults.starts_wait || s->ending != 0 || s->exec->round.ending != 0)
		return ESPL_NEVER;
	for (const struct espl__gang *g = s->exec->gangs.first; g != NULL; g = g->next)
		if (g->trial->search == s && !g->killed && espl__search_proves_at(s, g) < at)
			at = espl__search_proves_at(s, g);
	return at > s->exec->now ? at : ESPL_NEVER;
}

void
espl__search_worked(struct espl__search *s, const struct espl__gang *g)
{
	ESPL__CHECK(s, SEARCH);
	s->reported = 1;
	s->faults.attempts = 0;
	if (g->id >= s->faults.row_from)
		s->faults.row_count = 0;
}

int
espl__search_unscored(struct espl__search *s)
{
	int first = !s->faults.unscored;

	ESPL__CHECK(s, SEARCH);
	s->faults.unscored = 1;
	return first;
}

/* ---- retries ------------------------------------------------------------------------------ */

void
espl__trial_hold(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__search *s = t->search;
	struct espl__faults *f = &s->faults;
	const struct espl_item *item = &t->item->pub;

	ESPL__CHECK(x, EXEC);
	ESPL__ASSERT(!t->held && t->pub.state == ESPL_TRIAL_WAITING);
	ESPL__ASSERT(t->gang == NULL || s->parked);
	ESPL__GROW(f->held, f->held_cap, f->held_count + 1);
	f->held[f->held_count++] = (struct espl__waiter){ .trial = t,
		.weight = item->weight / s->config->weight,
		.gpus_min = item->gpus_min,
		.gpus_max = item->gpus_max };
	t->held = 1;
	espl__trial_leave(x, t);
}

void
espl__trial_unhold(struct espl__trial *t)
{
	struct espl__faults *f = &t->search->faults;
	uint32_t left = 0;

	for (uint32_t i = 0; i < f->held_count; i++)
		if (f->held[i].trial != t)
			f->held[left++] = f->held[i];
	ESPL__ASSERT(t->held && left + 1 == f->held_count);
	f->held_count = left;
	t->held = 0;
}

void
espl__search_retry(struct espl__search *s, uint32_t most)
{
	struct espl__exec *x = s->exec;

	ESPL__CHECK(s, SEARCH);
	for (; most > 0 && s->faults.held_count > 0; most--) {
		struct espl__waiter w = s->faults.held[0];

		espl__trial_unhold(w.trial);
		w.trial->item = espl__item_new(x, w.trial, w.weight, w.gpus_min, w.gpus_max);
		espl__item_avoid(w.trial->item, w.trial->failed_on, w.trial->failed_at);
	}
}

/* ---- the end ------------------------------------------------------------------------------ */

void
espl__search_faults_forgive(struct espl__search *s)
{
	struct espl__faults *f = &s->faults;
	int limited = s->config->failures_most != UINT64_MAX || s->config->failures_share < 1;

	ESPL__CHECK(s, SEARCH);
	f->attempts = f->alike_count = f->row_count = 0;
	f->failed_before = s->failed;
	f->ended_before = s->trials.trials.count - s->trials.running - s->trials.waiting;
	if (s->failed > 0 && limited)
		espl__exec_warn(s->exec, ESPL_ABOUT_RUN, 0,
		    "%llu trial%s failed so far; experiment.failures_max counts from here on",
		    (unsigned long long)s->failed, s->failed == 1 ? " has" : "s have");
}

void
espl__search_faults_free(struct espl__search *s)
{
	free(s->faults.held);
	free(s->faults.alike);
	free(s->faults.row);
}
