/* jobs.c - reads or draws the jobs of a workload, and cuts them into iterations. */
#include "base/assert.h"
#include "model/jobs.h"

#include <math.h>
#include <string.h>

#define TRACE_MAX (256u << 20) /* bytes of a trace */
#define PARTS 200              /* iterations of a job, unless these were too short or too long */

/* ---- iterations --------------------------------------------------------------------------- */

uint64_t
espl__jobs_iterations(const struct espl__jobs *jobs, uint64_t job)
{
	double work = jobs->list.jobs[job].work_s, each = jobs->iteration_s;

	ESPL__CHECK(jobs, JOBS);
	if (!(each > 0))
		each = work / PARTS < 1 ? 1 : work / PARTS > 60 ? 60 : work / PARTS;
	return work <= each ? 1 : (uint64_t)ceil(work / each - 1e-9);
}

double
espl__jobs_iteration_s(const struct espl__jobs *jobs, uint64_t job)
{
	ESPL__CHECK(jobs, JOBS);
	return jobs->list.jobs[job].work_s / (double)espl__jobs_iterations(jobs, job);
}

double
espl__jobs_speed(const struct espl__jobs *jobs, uint64_t job, uint32_t gpus)
{
	uint32_t nodes = gpus / jobs->unit;

	ESPL__CHECK(jobs, JOBS);
	return espl__job_speed(&jobs->list.jobs[job], nodes > 0 ? nodes : 1, jobs->doubling);
}

void
espl__jobs_free(struct espl__jobs *jobs)
{
	if (jobs == NULL)
		return;
	espl__workload_free(&jobs->list);
	espl__tree_free(jobs->tree);
	espl__arena_free(&jobs->room);
	jobs->magic = 0;
	free(jobs);
}
