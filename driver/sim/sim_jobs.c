/* sim_jobs.c - a simulated pool: the arrivals of experiments and plain jobs, the training time of
 * jobs, and early ends of jobs.
 *
 * An iteration of a job is a part of its work; the job's law gives its length on the job's nodes.
 * Where the workload has steps, a job is resized between two of them, in the middle of an
 * iteration. A job with a bug ends after a given training time, a job that its user ends after a
 * given amount of work.
 */
#include <math.h>
#include "base/assert.h"
#include "sim/sim_impl.h"

/* Arrivals that were due while no driver was running happen at once. */
static void
schedule_arrival(struct espl__sim *sim, enum espl__sim_due_type type, uint64_t number,
    espl_time when)
{
	espl__sim_heap_add(&sim->heap, when > sim->now ? when : sim->now, type, number, 0);
}

static void
job_comes(struct espl__sim *sim, uint64_t number)
{
	double at = sim->workload->list.jobs[number].arrives_s * 1e9;

	schedule_arrival(sim, ESPL__DUE_JOB, number,
	    at < 9.2e18 ? (espl_time)(at + 0.5) : ESPL_NEVER - 1);
}

void
espl__sim_arrivals(struct espl__sim *sim)
{
	const struct espl__exec *exec = sim->head.exec;
	uint64_t number;

	ESPL__CHECK(sim, SIM);
	if (exec == NULL)
		return;
	for (number = 0; espl__exec_search_of(exec, number) != NULL; number++)
		if (!espl__exec_has_come(exec, number))
			schedule_arrival(sim, ESPL__DUE_EXPERIMENT, number,
			    espl__exec_search_of(exec, number)->arrives);
	sim->workload = espl__exec_view(exec).workload;
	if (sim->workload == NULL)
		return;
	sim->trained_s =
	    espl__alloc((sim->workload->list.count + (size_t)1) * sizeof *sim->trained_s);
	number = espl__exec_view(exec).jobs_come;
	if (number < sim->workload->list.count)
		job_comes(sim, number);
}

void
espl__sim_job_due(struct espl__sim *sim, uint64_t number)
{
	ESPL__CHECK(sim, SIM);
	espl__sim_add_event(sim, ESPL__EV_JOB)->as.number = number;
	if (number + 1 < sim->workload->list.count)
		job_comes(sim, number + 1);
}

/* What is left of its training until a bug ends it; infinite where there is none. */
static double
find_bug_time(const struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	const struct espl__job *job = &sim->workload->list.jobs[gang->trial];
	double left = job->fate_at_s - sim->trained_s[gang->trial];

	return job->fate != ESPL__FATE_BUG ? INFINITY : left > 0 ? left : 0;
}

double
espl__sim_job_iteration_s(const struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	double seconds = (espl__jobs_iteration_s(sim->workload, gang->trial) - gang->done_s) /
	    espl__jobs_speed(sim->workload, gang->trial, gang->share.gpus);
	double left = find_bug_time(sim, gang);

	ESPL__CHECK(sim, SIM);
	return seconds < left ? seconds : left;
}

double
espl__sim_job_cut(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	const struct espl__jobs *jobs = gang->source->of->jobs;
	double since, pace, at, ends;

	ESPL__CHECK(sim, SIM);
	if (jobs == NULL || !(jobs->step_s > 0))
		return -1;
	since = gang->iteration_s -
	    (double)(gang->due - sim->now) / 1e9; /* negative: it has yet to begin */
	pace = espl__jobs_speed(jobs, gang->trial, gang->share.gpus) / gang->ratio;
	at = ceil((gang->done_s + (since > 0 ? since * pace : 0)) / jobs->step_s - 1e-9) *
	    jobs->step_s;
	ends = at > gang->done_s ? (at - gang->done_s) / pace : 0;
	if (at >= espl__jobs_iteration_s(jobs, gang->trial) * (1 - 1e-9) ||
	    ends >= gang->iteration_s)
		return -1;
	gang->done_s = at > gang->done_s ? at : gang->done_s;
	sim->trained_s[gang->trial] += ends;
	return ends > since ? ends - since : 0;
}

void
espl__sim_job_trained(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	const struct espl__job *job = &sim->workload->list.jobs[gang->trial];
	double done = (double)gang->iteration * espl__jobs_iteration_s(sim->workload, gang->trial);

	ESPL__CHECK(sim, SIM);
	sim->trained_s[gang->trial] += gang->iteration_s;
	gang->finished = find_bug_time(sim, gang) <= 0 ||
	    (job->fate == ESPL__FATE_TERMINATED && done >= job->fate_at_s);
}
