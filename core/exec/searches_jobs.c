/* searches_jobs.c - jobs of a workload arrive, are cancelled and are summed up. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items.h"
#include "exec/searches_jobs.h"
#include "exec/searches_trials.h"

espl_status
espl__jobs_init(struct espl__search *s, const struct espl__jobs *jobs)
{
	ESPL__CHECK(s, SEARCH);
	ESPL__CHECK(jobs, JOBS);
	s->jobs = jobs;
	s->planned = 1;
	s->finished = jobs->list.count == 0;
	s->job_states = espl__alloc((jobs->list.count + (size_t)1) * sizeof *s->job_states);
	for (uint32_t i = 0; i < jobs->list.count; i++)
		s->job_states[i].arrived = s->job_states[i].started = s->job_states[i].ended =
		    ESPL_NEVER;
	return ESPL_OK;
}

void
espl__job_ended(const struct espl__trial *t)
{
	ESPL__ASSERT(t->search->jobs != NULL);
	t->search->job_states[t->pub.id].ended = t->search->exec->now;
}

/* A job cancelled before its arrival has nothing to train. */
static void
add_job(struct espl__exec *x, struct espl__search *s, uint64_t number)
{
	const struct espl_group open = { .size = (uint32_t)sizeof open,
		.flags = ESPL_GROUP_OPEN,
		.bracket = ESPL_ANY,
		.stage = ESPL_ANY };
	struct espl__trial *t;
	double values[2];

	if (number == 0)
		(void)espl__group_new(&s->trials, &open);
	values[0] = s->jobs->list.jobs[number].work_s;
	values[1] = espl__jobs_iteration_s(s->jobs, number);
	t = espl__trial_new(&s->trials, espl__group_at(&s->trials, 0), values, NULL);
	t->pub.budget = espl__jobs_iterations(s->jobs, number);
	s->job_states[number].arrived = x->now;
	s->finished = number + 1 == s->jobs->list.count || s->ending != 0;
	if (s->ending != 0)
		espl__trial_cut(&s->trials, t);
	if (s->job_states[number].cancelled || s->ending != 0) {
		espl__trial_state(&s->trials, t, ESPL_TRIAL_ENDED);
		espl__job_ended(t);
	} else {
		t->item = espl__item_new(x, t, s->jobs->list.jobs[number].weight, 0, 0);
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "job '%s' arrived",
		    s->jobs->list.jobs[number].name);
	}
	espl__trial_show(x, t);
}

/* Jobs arrive in the order of the workload, each once. A cancelled job arrives and ends as soon as
 * it is the next one. */
void
espl__job_arrive(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__search *s = espl__jobs_search(x);
	uint64_t number = e->as.number;

	if (s == NULL || number != s->trials.trials.count || number >= s->jobs->list.count ||
	    s->trials.params != 2)
		return; /* it has come, or this is a journal of other jobs */
	add_job(x, s, number);
	espl__jobs_skip(s);
}

void
espl__jobs_skip(struct espl__search *s)
{
	uint64_t next;

	ESPL__CHECK(s, SEARCH);
	while (
	    (next = s->trials.trials.count) < s->jobs->list.count && s->job_states[next].cancelled)
		add_job(s->exec, s, next);
}

void
espl__jobs_look(struct espl__exec *x)
{
	struct espl__search *s = espl__jobs_search(x);

	ESPL__CHECK(x, EXEC);
	if (s == NULL || !(s->jobs->list.redraw > 0))
		return;
	for (uint64_t i = x->items.top.items_from;
	     i < x->items.top.items_from + x->items.top.items_count; i++) {
		struct espl__item *item = (struct espl__item *)(uintptr_t)x->items.top.items[i];
		const struct espl__trial *t = item->trial;

		if (t != NULL && t->search == s)
			espl__item_redraw(item,
			    t->gang != NULL ? t->gang->iteration : espl__trial_restores(t));
	}
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Mean, 95th percentile (by nearest rank) and maximum; sorts the list. */
static void
sum_up(double *list, uint32_t count, struct espl__job_times *to)
{
	double sum = 0;

	to->mean = to->p95 = to->max = NAN;
	if (count == 0)
		return;
	qsort(list, count, sizeof *list, by_value);
	for (uint32_t i = 0; i < count; i++)
		sum += list[i];
	to->mean = sum / count;
	to->p95 = list[(uint32_t)ceil(0.95 * count) - 1];
	to->max = list[count - 1];
}

void
espl__jobs_sum(const struct espl__exec *x, struct espl__jobs_summary *to)
{
	const struct espl__search *s = espl__jobs_search(x);
	uint32_t total = 0, queue = 0;
	espl_time last = 0;
	double *list;

	memset(to, 0, sizeof *to);
	if (s == NULL)
		return;
	to->jobs = s->jobs->list.count;
	to->arrived = (uint32_t)s->trials.trials.count;
	list = espl__alloc((to->arrived + (size_t)1) * 2 * sizeof *list);
	for (uint32_t i = 0; i < to->arrived; i++) {
		const struct espl__job_state *state = &s->job_states[i];

		if (state->cancelled)
			continue;
		if (state->started != ESPL_NEVER)
			list[queue++] = (double)(state->started - state->arrived) / 1e9;
		if (state->ended != ESPL_NEVER && !espl__trial_at(&s->trials, i)->cut)
			list[to->arrived + total++] = (double)(state->ended - state->arrived) / 1e9;
		if (state->ended != ESPL_NEVER && state->ended > last)
			last = state->ended;
	}
	for (uint32_t i = to->arrived; i < to->jobs; i++)
		to->to_come += !s->job_states[i].cancelled;
	to->cancelled = s->jobs_cancelled;
	to->done = total - (uint32_t)s->failed;
	to->failed = (uint32_t)s->failed;
	sum_up(list, queue, &to->queue_s);
	sum_up(list + to->arrived, total, &to->total_s);
	to->makespan_s = total > 0 ? (double)last / 1e9 : NAN;
	free(list);
}
