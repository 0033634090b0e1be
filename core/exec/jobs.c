/* jobs.c - jobs of a workload: what each of them is to an allocator. */
#include "base/assert.h"
#include "exec/state.h"

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

struct espl__search *
espl__jobs_search(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->jobs != NULL)
			return x->searches.list[i];
	return NULL;
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
