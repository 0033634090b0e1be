/* exec_jobs.c - the plain jobs of a pool: trials that nobody searches with.
 *
 * A job begins when the world says that it has come, trains to the end of its work, and is not
 * continued. What allocators are told of it is its estimate, which may be wrong: a job that
 * outlives its own goes on with no work left, as far as anybody knows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/state.h"

espl_status
espl__jobs_init(struct espl__search *s, const struct espl__jobs *jobs)
{
	s->jobs = jobs;
	s->planned = 1;
	s->finished = jobs->list.count == 0;
	s->job_states = espl__alloc((jobs->list.count + (size_t)1) * sizeof *s->job_states);
	for (uint32_t i = 0; i < jobs->list.count; i++)
		s->job_states[i].arrived = s->job_states[i].started = s->job_states[i].ended =
		    ESPL_NEVER;
	return ESPL_OK;
}

static struct espl__search *
search_of(const struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->search_count; i++)
		if (x->searches[i]->jobs != NULL)
			return x->searches[i];
	return NULL;
}

/* One that was cancelled before it came has nothing to train. */
static void
come(struct espl__exec *x, struct espl__search *s, uint64_t number)
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
	s->finished = number + 1 == s->jobs->list.count;
	if (s->job_states[number].cancelled) {
		espl__trial_state(&s->trials, t, ESPL_TRIAL_ENDED);
		espl__job_ended(t);
	} else {
		t->item = espl__item_new(x, t, s->jobs->list.jobs[number].weight, 0, 0);
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "job '%s' has come",
		    s->jobs->list.jobs[number].name);
	}
	espl__exec_show(x, t);
}

/* They come in the order of the workload, each once.  Nobody waits for one that was cancelled: when
 * it is next, it comes and has ended. */
void
espl__job_arrive(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__search *s = search_of(x);
	uint64_t number = e->as.job.number;

	if (s == NULL || number != s->trials.trials.count || number >= s->jobs->list.count ||
	    s->trials.params != 2)
		return; /* it has come, or this is a journal of other jobs */
	come(x, s, number);
	espl__jobs_skip(s);
}

void
espl__jobs_skip(struct espl__search *s)
{
	uint64_t next;

	while (
	    (next = s->trials.trials.count) < s->jobs->list.count && s->job_states[next].cancelled)
		come(s->exec, s, next);
}

/* ---- what allocators see ------------------------------------------------------------------ */

double
espl__job_left(const struct espl__trial *t, uint64_t iteration)
{
	const struct espl__search *s = t->search;
	double served = (double)iteration * espl__jobs_iteration_s(s->jobs, t->pub.id);

	return espl__workload_left(&s->jobs->list, (uint32_t)t->pub.id, served,
	    s->exec->caller.calls);
}

void
espl__job_item(const struct espl__trial *t, struct espl_item *i)
{
	const struct espl__jobs *jobs = t->search->jobs;
	const struct espl__job *job = &jobs->list.jobs[t->pub.id];
	uint64_t potential = espl__exec_potential(t->search->exec);
	uint64_t most = (uint64_t)job->nodes_max * jobs->unit;

	if (most > potential)
		most = potential - potential % jobs->unit;
	i->flags &= ~ESPL_ITEM_OPEN;
	i->unit = jobs->unit;
	i->packing_max = 1;
	i->gpus_min = job->nodes_min * jobs->unit;
	i->gpus_max = most > i->gpus_min ? (uint32_t)most : i->gpus_min;
	i->scaling = jobs->scaling[t->pub.id];
	i->scaling_count = jobs->scaling_count[t->pub.id];
	i->packing = NULL;
	i->packing_count = 0;
	i->work_total_s = job->eta_s;
}

void
espl__jobs_look(struct espl__exec *x)
{
	struct espl__search *s = search_of(x);

	if (s == NULL || !(s->jobs->list.redraw > 0))
		return;
	for (uint64_t i = x->top.items_from; i < x->top.items_from + x->top.items_count; i++) {
		struct espl__item *item = (struct espl__item *)(uintptr_t)x->top.items[i];
		const struct espl__trial *t = item->trial;

		if (t == NULL || t->search != s)
			continue;
		item->pub.work_s = espl__job_left(t,
		    t->gang != NULL ? t->gang->iteration : espl__trial_restores(t));
		espl__item_changed(item, 0);
	}
}

/* ---- how long they waited, and took ------------------------------------------------------- */

void
espl__job_started(const struct espl__trial *t)
{
	struct espl__job_state *state = &t->search->job_states[t->pub.id];

	if (state->started == ESPL_NEVER)
		state->started = t->search->exec->now;
}

void
espl__job_ended(const struct espl__trial *t)
{
	t->search->job_states[t->pub.id].ended = t->search->exec->now;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Mean, 95th percentile (the least that so many do not exceed) and maximum; sorts the list. */
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
	const struct espl__search *s = search_of(x);
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
		if (state->ended != ESPL_NEVER)
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

uint64_t
espl__exec_jobs_come(const struct espl__exec *x)
{
	const struct espl__search *s = search_of(x);

	return s != NULL ? s->trials.trials.count : 0;
}

int
espl__exec_job_cancelled(const struct espl__exec *x, uint64_t number)
{
	const struct espl__search *s = search_of(x);

	return s != NULL && number < s->jobs->list.count && s->job_states[number].cancelled;
}

const struct espl__jobs *
espl__exec_workload(const struct espl__exec *x)
{
	const struct espl__search *s = search_of(x);

	return s != NULL ? s->jobs : NULL;
}
