/* agent_jobs.c - what waits for a disk.
 *
 * It runs in a thread; its pointer comes back through a pipe, so that everything but the job's own
 * work happens in the loop, in one thread.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "agent/agent.h"

struct job_call {
	struct espl__task *job;
	int to;
};

static void
hand_back(int to, struct espl__task *job)
{
	/* A pointer is far below PIPE_BUF: whole or not at all. */
	while (write(to, &job, sizeof job) < 0 && errno == EINTR)
		;
}

static void *
job_thread(void *p)
{
	struct job_call call = *(struct job_call *)p;

	free(p);
	call.job->run(call.job);
	hand_back(call.to, call.job);
	return NULL;
}

void
espl__agent_job(struct espl__agent *a, struct espl__task *job)
{
	struct job_call *call = espl__alloc(sizeof *call);
	pthread_attr_t attr;
	pthread_t thread;
	int failed;

	ESPL__CHECK(a, AGENT);
	ESPL__ASSERT(job->run != NULL && job->done != NULL);
	*call = (struct job_call){ job, a->jobs_in };
	a->jobs++;
	failed = pthread_attr_init(&attr);
	if (failed == 0) {
		(void)pthread_attr_setstacksize(&attr, (size_t)512 << 10);
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		failed = pthread_create(&thread, &attr, job_thread, call);
		(void)pthread_attr_destroy(&attr);
	}
	if (failed != 0)
		(void)job_thread(call); /* cannot create a thread: do it here, and block */
}

void
espl__jobs_finish(struct espl__agent *a)
{
	struct espl__task *job;

	ESPL__CHECK(a, AGENT);
	while (read(a->jobs_out, &job, sizeof job) == (ssize_t)sizeof job) {
		ESPL__ASSERT(a->jobs > 0);
		a->jobs--;
		job->done(a, job);
	}
}
