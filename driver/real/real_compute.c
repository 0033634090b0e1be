/* real_compute.c - computations of policies (compute.h) on the real world's loop.
 *
 * The loop watches a copy of the job's descriptor, because the job closes its own when it is done.
 */
#include "base/assert.h"
#include "real/real.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "driver/compute.h"

struct espl__compute_job {
	struct espl__compute_job *next;
	struct espl__real *real;
	struct espl__compute *job;
	uv_poll_t poll;
	pid_t pid;
	int fd;
};

static void
report_outcome(struct espl__real *real, const struct espl_outcome *from)
{
	struct espl__arena *arena = espl__real_arena(real);
	struct espl_outcome *outcome = espl__arena_alloc(arena, sizeof *outcome);
	void *bytes;

	*outcome = *from;
	if (from->output_size > 0) {
		bytes = espl__arena_alloc(arena, (size_t)from->output_size);
		memcpy(bytes, from->output, (size_t)from->output_size);
		outcome->output = bytes;
	}
	espl__real_event(real, ESPL__EV_OUTCOME)->as.outcome = outcome;
}

static void
job_closed(uv_handle_t *handle)
{
	struct espl__compute_job *job = handle->data, **at;

	for (at = &job->real->jobs; *at != job;)
		at = &(*at)->next;
	*at = job->next;
	(void)close(job->fd);
	free(job);
}

static void
end_job(struct espl__compute_job *job, int telling)
{
	if (uv_is_closing((uv_handle_t *)&job->poll))
		return;
	if (telling)
		report_outcome(job->real, espl__compute_outcome(job->job));
	espl__compute_free(job->job);
	job->job = NULL;
	espl__pids_remove(&job->real->pids, job->pid);
	uv_close((uv_handle_t *)&job->poll, job_closed);
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
	struct espl__compute_job *job = poll->data;

	(void)status;
	(void)events;
	if (job->job != NULL && espl__compute_step(job->job))
		end_job(job, 1);
}

void
espl__real_compute(struct espl__real *real, const struct espl__effect *fx)
{
	struct espl__compute *compute;
	struct espl__compute_job *job;
	int fd;

	ESPL__CHECK(real, REAL);
	compute = espl__compute_start(fx->as.compute.config, fx->as.compute.kind,
	    fx->as.compute.token, fx->as.compute.request, 0);
	fd = espl__compute_fd(compute) >= 0 ? fcntl(espl__compute_fd(compute), F_DUPFD_CLOEXEC, 3)
					    : -1;
	if (fd < 0) { /* done already, or no descriptor left to watch it with */
		if (espl__compute_fd(compute) >= 0)
			espl__compute_wait(compute);
		report_outcome(real, espl__compute_outcome(compute));
		espl__compute_free(compute);
		return;
	}
	job = espl__alloc(sizeof *job);
	job->real = real;
	job->job = compute;
	job->fd = fd;
	job->pid = espl__compute_pid(compute);
	espl__pids_add(&real->pids, job->pid);
	(void)uv_poll_init(&real->loop, &job->poll, fd);
	job->poll.data = job;
	job->next = real->jobs;
	real->jobs = job;
	(void)uv_poll_start(&job->poll, UV_READABLE | UV_DISCONNECT, on_poll);
}

void
espl__real_compute_tick(struct espl__real *real, int64_t tick)
{
	struct espl__compute_job *job;

	ESPL__CHECK(real, REAL);
	for (job = real->jobs; job != NULL; job = job->next)
		if (job->job != NULL && tick >= espl__compute_deadline(job->job) &&
		    espl__compute_step(job->job))
			end_job(job, 1);
}

void
espl__real_compute_close(struct espl__real *real)
{
	struct espl__compute_job *job;

	ESPL__CHECK(real, REAL);
	for (job = real->jobs; job != NULL; job = job->next)
		if (job->job != NULL)
			end_job(job, 0);
}
