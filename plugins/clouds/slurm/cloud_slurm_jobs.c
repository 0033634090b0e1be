/* cloud_slurm_jobs.c - leases as jobs: submitted once, watched by squeue, ended by scancel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/array.h>
#include <espalier/kit/assert.h>

#include "cloud_slurm.h"

#define PAUSE_FIRST (250 * ESPL_SECOND / 1000)
#define PAUSE_SILENT (60 * ESPL_SECOND)    /* most, while the controller does not answer */
#define SUBMIT_MOST 5                      /* tries, while squeue answers and sbatch does not */
#define AVOID_MOST (600 * ESPL_SECOND)     /* a job waits without the nodes that failed before */
#define COMPLETING_MOST (10 * ESPL_SECOND) /* then the end is told without Slurm's last word */

/* ---- commands ---- */

/* Variables of the user's environment that would hide a job from squeue, or keep it from scancel,
 * or let sbatch do something else. */
static struct cloud_words
begin_words(void)
{
	static const char *const names[] = { "SQUEUE_ACCOUNT", "SQUEUE_LICENSES",
		"SQUEUE_PARTITION", "SQUEUE_QOS", "SINFO_PARTITION", "SCANCEL_ACCOUNT",
		"SCANCEL_INTERACTIVE", "SCANCEL_NAME", "SCANCEL_PARTITION", "SCANCEL_QOS",
		"SCANCEL_STATE", "SCANCEL_USER", "SCANCEL_WCKEY", "SBATCH_ARRAY_INX",
		"SBATCH_WAIT" };
	struct cloud_words words = { NULL, 0, 0 };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (getenv(names[i]) == NULL)
			continue;
		if (words.count == 0)
			cloud_words_add(&words, "env");
		cloud_words_add(&words, "-u");
		cloud_words_add(&words, "%s", names[i]);
	}
	return words;
}

/* Takes over the words. */
espl_status
cloud_slurm_jobs_run(struct slurm_cloud *cloud, struct cloud_words *list, uint64_t cookie,
    const char *input)
{
	static const char *const env[] = { "SLURM_TIME_FORMAT=standard" };
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	struct cloud_words all = begin_words();
	espl_status status = ESPL_E_NOMEM;

	for (uint32_t i = 0; i < list->count; i++)
		cloud_words_add(&all, "%s", list->list[i]);
	if (!list->failed && !all.failed) {
		ESPL_ASSERT(list->count > 0);
		spawn.argc = all.count;
		spawn.argv = (const char *const *)all.list;
		spawn.env = env;
		spawn.env_count = 1;
		spawn.input = input;
		spawn.input_size = input != NULL ? strlen(input) : 0;
		spawn.limit = slurm_number(cloud, SLURM_OPT_LIMIT);
		spawn.cookie = cookie;
		status = cloud->io->spawn(cloud->io, &spawn, NULL);
	}
	cloud_words_free(&all);
	cloud_words_free(list);
	return status;
}

static void
submit_job(struct slurm_cloud *cloud, struct slurm_job *job)
{
	struct cloud_words list = cloud_slurm_words_submit(cloud, job);
	char *script = cloud_slurm_words_holder(cloud, job->token);

	list.failed |= script == NULL;
	job->submitting = cloud_slurm_jobs_run(cloud, &list, SLURM_COOKIE(job->lease, SLURM_SBATCH),
			      script) == ESPL_OK;
	if (!job->submitting)
		job->tries++;
	free(script);
}

static void
cancel_job(struct slurm_cloud *cloud, struct slurm_job *job)
{
	struct cloud_words list = { NULL, 0, 0 };

	ESPL_ASSERT(job->id[0] != '\0' && cloud->inside == NULL);
	if (job->cancelling)
		return; /* and again with each poll, until its end is seen */
	/* The number may come from a file of the run: only a job of this name is ours. */
	cloud_words_add(&list, "scancel");
	cloud_words_add(&list, "--name=%s", job->token);
	cloud_words_add(&list, "%s", job->id);
	job->cancelling = cloud_slurm_jobs_run(cloud, &list,
			      SLURM_COOKIE(job->lease, SLURM_SCANCEL), NULL) == ESPL_OK;
}

/* sbatch was killed, but the controller took its job later: the lease has another one. */
static void
cancel_second(struct slurm_cloud *cloud, struct slurm_job *job, const char *id)
{
	struct cloud_words list = { NULL, 0, 0 };
	char text[SLURM_TEXT];

	if (job->cancelling_second)
		return; /* and again with each poll, until its end is seen */
	if (strcmp(job->second, id) != 0) {
		(void)snprintf(job->second, sizeof job->second, "%s", id);
		(void)snprintf(text, sizeof text,
		    "Slurm has two jobs for one node, %s and %s; cancelling the second", job->id,
		    id);
		cloud->host->log(cloud->host, ESPL_WARN, text);
	}
	cloud_words_add(&list, "scancel");
	cloud_words_add(&list, "--name=%s", job->token);
	cloud_words_add(&list, "%s", id);
	job->cancelling_second = cloud_slurm_jobs_run(cloud, &list,
				     SLURM_COOKIE(job->lease, SLURM_SECOND), NULL) == ESPL_OK;
}

static void
ask_address(struct slurm_cloud *cloud, struct slurm_job *job)
{
	struct cloud_words list = { NULL, 0, 0 };

	cloud_words_add(&list, "sinfo");
	cloud_words_add(&list, "--noheader");
	cloud_words_add(&list, "--nodes=%s", job->node);
	cloud_words_add(&list, "--format=%%o");
	job->asking = cloud_slurm_jobs_run(cloud, &list, SLURM_COOKIE(job->lease, SLURM_ADDRESS),
			  NULL) == ESPL_OK;
}

/* Nodes that failed before are better than none. */
static void
include_nodes(struct slurm_cloud *cloud, struct slurm_job *job)
{
	struct cloud_words list;

	if (job->including)
		return; /* and again with each poll, until it has succeeded */
	list = cloud_slurm_words_include(cloud, job);
	job->including = cloud_slurm_jobs_run(cloud, &list, SLURM_COOKIE(job->lease, SLURM_INCLUDE),
			     NULL) == ESPL_OK;
}

static void
ask_jobs(struct slurm_cloud *cloud)
{
	struct cloud_words list = { NULL, 0, 0 };
	char *names = NULL;
	size_t size;
	FILE *out = open_memstream(&names, &size);

	for (uint32_t i = 0; out != NULL && i < cloud->count; i++)
		(void)fprintf(out, "%s%s", i > 0 ? "," : "", cloud->jobs[i]->token);
	if (out == NULL || fclose(out) != 0)
		list.failed = 1;
	cloud_words_add(&list, "squeue");
	cloud_words_add(&list, "--noheader");
	cloud_words_add(&list, "--states=all");
	if (cloud->inside != NULL) {
		cloud_words_add(&list, "--jobs=%s", cloud->inside);
	} else {
		cloud_words_add(&list, "--me");
		cloud_words_add(&list, "--name=%s", names != NULL ? names : "");
	}
	cloud_words_add(&list, "--format=%%i|%%j|%%T|%%e|%%N|%%r");
	free(names);
	cloud->polls++;
	cloud->polling = cloud_slurm_jobs_run(cloud, &list, SLURM_SQUEUE, NULL) == ESPL_OK;
}

/* ---- when to ask ---- */

static void
wait_pause(struct slurm_cloud *cloud)
{
	if (cloud->polling || cloud->waiting || cloud->count == 0)
		return;
	cloud->waiting = cloud->io->timer(cloud->io, cloud->pause, SLURM_TIMER) == ESPL_OK;
}

/* Something has changed: ask soon. */
static void
ask_soon(struct slurm_cloud *cloud)
{
	if (cloud->silent != ESPL_NEVER)
		return;
	if (cloud->waiting)
		cloud->io->cancel(cloud->io, SLURM_TIMER);
	cloud->waiting = 0;
	cloud->pause = PAUSE_FIRST;
	wait_pause(cloud);
}

void
cloud_slurm_jobs_timer(void *self, uint64_t cookie)
{
	struct slurm_cloud *cloud = self;

	if (cookie != SLURM_TIMER)
		return;
	cloud->waiting = 0;
	if (cloud->count > 0 && !cloud->polling)
		ask_jobs(cloud);
	wait_pause(cloud); /* if it could not be asked */
}

/* ---- what is told ---- */

static void
report_node(const struct slurm_cloud *cloud, const struct slurm_job *job, espl_node_state state,
    espl_reason reason, const char *address, espl_time ends_at, const char *text)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char id[SLURM_NAME + 40];

	(void)snprintf(id, sizeof id, "%s%s%s", job->id, job->node[0] != '\0' ? " " : "",
	    job->node);
	event.state = state;
	event.lease = job->lease;
	event.token = job->token;
	event.provider_id = job->id[0] != '\0' ? id : NULL;
	event.address = address;
	event.at = ESPL_NEVER;
	event.ends_at = ends_at;
	event.reason = reason;
	event.gpus =
	    state == ESPL_NODE_READY ? (uint32_t)slurm_number(cloud, SLURM_OPT_GPUS) : ESPL_ANY;
	event.charged = -1;
	event.text = text;
	event.machine = job->node[0] != '\0' ? job->node : NULL;
	(void)cloud->events->node(cloud->events, &event);
}

static struct slurm_job *
job_of(const struct slurm_cloud *cloud, const char *token)
{
	for (uint32_t i = 0; i < cloud->count; i++)
		if (strcmp(cloud->jobs[i]->token, token) == 0)
			return cloud->jobs[i];
	return NULL;
}

static struct slurm_job *
add_job(struct slurm_cloud *cloud, uint64_t lease, const char *token)
{
	struct slurm_job *job = calloc(1, sizeof *job),
			 **list = espl_array_grow(cloud->jobs, &cloud->capacity, cloud->count + 1,
			     sizeof *list);

	if (list != NULL)
		cloud->jobs = list;
	if (list == NULL || job == NULL) {
		free(job);
		return NULL;
	}
	job->lease = lease;
	job->since = cloud->polls + 1;
	job->completing = job->avoids_at = ESPL_NEVER;
	(void)snprintf(job->token, sizeof job->token, "%s", token);
	cloud->jobs[cloud->count++] = job;
	return job;
}

/* The last word about a lease; its job is freed. */
static void
end_job(struct slurm_cloud *cloud, struct slurm_job *job, espl_reason reason, const char *text)
{
	uint32_t i = 0;

	while (i < cloud->count && cloud->jobs[i] != job)
		i++;
	ESPL_ASSERT(i < cloud->count);
	cloud->jobs[i] = cloud->jobs[--cloud->count];
	if (job->releasing)
		report_node(cloud, job, ESPL_NODE_ENDED, ESPL_BY_USER, NULL, ESPL_NEVER, NULL);
	else if (job->over != 0)
		report_node(cloud, job, ESPL_NODE_ENDED, job->over, NULL, ESPL_NEVER,
		    job->why_over);
	else
		report_node(cloud, job, ESPL_NODE_ENDED, reason, NULL, ESPL_NEVER, text);
	free(job->avoid);
	free(job);
}

/* A job that is no longer needed.  Its lease ends when Slurm shows that the job has ended: until
 * then scancel is repeated. */
static void
give_up(struct slurm_cloud *cloud, struct slurm_job *job, espl_reason reason, const char *text)
{
	if (cloud->inside != NULL) { /* the job of this process, too */
		end_job(cloud, job, reason, text);
		return;
	}
	job->over = reason;
	(void)snprintf(job->why_over, sizeof job->why_over, "%s", text);
	cancel_job(cloud, job);
}

/* ---- what squeue says of a job ---- */

/* Nothing but the nodes that are avoided can take the job, or nothing else has for long: the others
 * may be in use for days, and those may have been repaired. */
static int
waits_in_vain(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	espl_time now = cloud->host->now(cloud->host);
	char why[SLURM_TEXT];

	if (job->avoids_at == ESPL_NEVER)
		job->avoids_at = now;
	return now - job->avoids_at >= AVOID_MOST ||
	    cloud_slurm_answer_reason(line->reason, why) != 0 ||
	    strncmp(line->reason, "ReqNodeNotAvail", 15) == 0;
}

static void
take_waiting(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	char why[SLURM_TEXT], text[SLURM_TEXT + 60];
	espl_reason never;

	if (job->releasing || job->over != 0)
		return;
	if (job->ready) { /* Slurm took the node and would start the job again some time */
		give_up(cloud, job, ESPL_BY_PROVIDER, "Slurm has put its job back into the queue");
		return;
	}
	if (job->avoid != NULL && waits_in_vain(cloud, job, line)) {
		include_nodes(cloud, job);
		return;
	}
	if (strcmp(line->reason, job->reason) == 0)
		return;
	(void)snprintf(job->reason, sizeof job->reason, "%s", line->reason);
	never = cloud_slurm_answer_reason(line->reason, why);
	if (never != 0) {
		(void)snprintf(text, sizeof text, "job %s would never start: %s", job->id, why);
		give_up(cloud, job, never, text);
		return;
	}
	(void)snprintf(text, sizeof text, "job %s waits: %s", job->id, why);
	report_node(cloud, job, ESPL_NODE_BOOTING, 0, NULL, ESPL_NEVER, text);
}

static void
take_running(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	espl_span left = line->end_s * ESPL_SECOND - cloud->io->utc_ns(cloud->io);

	if (job->releasing || job->over != 0)
		return;
	if (job->node[0] == '\0')
		(void)snprintf(job->node, sizeof job->node, "%s", line->node);
	if (!job->ready) {
		if (!job->asking)
			ask_address(cloud, job);
		return;
	}
	if (job->noticed || line->end_s == 0 || left > slurm_number(cloud, SLURM_OPT_NOTICE))
		return;
	job->noticed = 1;
	report_node(cloud, job, ESPL_NODE_NOTICE, 0, NULL,
	    cloud->host->now(cloud->host) + (left > 0 ? left : 0),
	    "Slurm ends its job soon: its time limit, or a preemption");
}

/* Its processes are being killed; the reason follows later, if at all. */
static void
take_completing(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	espl_time now = cloud->host->now(cloud->host);

	if (job->completing == ESPL_NEVER)
		job->completing = now;
	if (job->releasing || job->over != 0)
		end_job(cloud, job, ESPL_BY_USER, NULL);
	else if (now - job->completing < COMPLETING_MOST)
		return;
	else if (strcmp(line->reason, "TimeLimit") == 0)
		end_job(cloud, job, ESPL_BY_EXPIRY, "the time limit of its job is reached");
	else
		end_job(cloud, job, ESPL_BY_PROVIDER, "Slurm has ended its job");
}

/* Slurm ends a job that no node can take, and all others may be avoided: once more, anywhere. */
static void
submit_without(struct slurm_job *job)
{
	free(job->avoid);
	job->avoid = NULL;
	job->avoided = 0;
	memcpy(job->discarded, job->id, sizeof job->discarded);
	job->id[0] = job->reason[0] = '\0';
}

/* 1: the state is one of an end. */
static int
take_end(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	static const struct {
		const char *state;
		espl_reason reason;
		const char *text;
	} table[] = {
		{ "CANCELLED", ESPL_BY_PROVIDER, "its job was cancelled (scancel)" },
		{ "TIMEOUT", ESPL_BY_EXPIRY, "the time limit of its job is reached" },
		{ "DEADLINE", ESPL_BY_EXPIRY, "the deadline of its job is reached" },
		{ "PREEMPTED", ESPL_BY_PROVIDER, "its job was preempted" },
		{ "REVOKED", ESPL_BY_PROVIDER, "its job was revoked" },
		{ "NODE_FAIL", ESPL_BY_FAULT, "its node failed" },
		{ "BOOT_FAIL", ESPL_BY_FAULT, "its node could not be started" },
		{ "OUT_OF_MEMORY", ESPL_BY_FAULT, "its job ran out of memory" },
		{ "FAILED", ESPL_BY_FAULT,
		    "the script of its job failed (can it write to /tmp of the node?)" },
		{ "COMPLETED", ESPL_BY_FAULT,
		    "its job ended because it had no agent for the time `idle`" },
	};

	if (job->avoided && !job->releasing && job->over == 0 && line->node[0] == '\0' &&
	    strcmp(line->state, "FAILED") == 0) {
		submit_without(job);
		return 1;
	}
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (strcmp(line->state, table[i].state) == 0) {
			end_job(cloud, job, table[i].reason, table[i].text);
			return 1;
		}
	}
	return 0;
}

static void
take_line(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	if (job->id[0] == '\0')
		(void)snprintf(job->id, sizeof job->id, "%s", line->id);
	if (take_end(cloud, job, line))
		return;
	if ((job->releasing || job->over != 0) && job->completing == ESPL_NEVER &&
	    strcmp(line->state, "COMPLETING") != 0 && cloud->inside == NULL)
		cancel_job(cloud, job);
	if (strcmp(line->state, "COMPLETING") == 0 || strcmp(line->state, "STAGE_OUT") == 0)
		take_completing(cloud, job, line);
	else if (strcmp(line->state, "RUNNING") == 0)
		take_running(cloud, job, line);
	else if (strcmp(line->state, "PENDING") == 0 || strncmp(line->state, "REQUEUE", 7) == 0 ||
	    strcmp(line->state, "SPECIAL_EXIT") == 0)
		take_waiting(cloud, job, line);
	/* others come and go by themselves: CONFIGURING, SUSPENDED, STOPPED, ... */
}

static void
take_missing(struct slurm_cloud *cloud, struct slurm_job *job)
{
	if (job->submitting)
		return;
	if (job->id[0] == '\0' && job->tries >= SUBMIT_MOST) {
		end_job(cloud, job, ESPL_BY_CAPACITY,
		    "Slurm has not accepted its job in 5 attempts");
		return;
	}
	if (job->id[0] == '\0' && job->submit && !job->releasing) {
		submit_job(cloud, job);
		return;
	}
	end_job(cloud, job, ESPL_BY_FAULT, "Slurm no longer knows its job");
}

/* The line of a job; one that has ended only if there is no other. */
static int
find_line(const struct slurm_job *job, const char *text, struct slurm_line *found)
{
	struct slurm_line line;
	int any = 0;

	while (cloud_slurm_answer_line(&text, &line)) {
		if (job->id[0] != '\0' ? strcmp(line.id, job->id) != 0
				       : strcmp(line.name, job->token) != 0 ||
			    strcmp(line.id, job->discarded) == 0)
			continue;
		*found = line;
		any = 1;
		if (strcmp(line.state, "PENDING") == 0 || strcmp(line.state, "RUNNING") == 0)
			break;
	}
	return any;
}

static void
cancel_seconds(struct slurm_cloud *cloud, struct slurm_job *job, const char *text)
{
	struct slurm_line line;

	while (cloud_slurm_answer_line(&text, &line))
		if (strcmp(line.name, job->token) == 0 && strcmp(line.id, job->id) != 0 &&
		    (strcmp(line.state, "PENDING") == 0 || strcmp(line.state, "RUNNING") == 0))
			cancel_second(cloud, job, line.id);
}

static void
take_jobs(struct slurm_cloud *cloud, const char *text)
{
	for (uint32_t i = cloud->count; i-- > 0;) { /* backwards: the one at i may be freed */
		struct slurm_job *job = cloud->jobs[i];
		struct slurm_line line;

		if (job->id[0] != '\0' && cloud->inside == NULL)
			cancel_seconds(cloud, job, text);
		if (find_line(job, text, &line))
			take_line(cloud, job, &line);
		else if (job->since <= cloud->polls)
			take_missing(cloud, job);
	}
}

/* A controller that does not answer ends nothing: the jobs run without it. */
static void
take_poll(struct slurm_cloud *cloud, const struct espl_child *child)
{
	espl_span most = slurm_number(cloud, SLURM_OPT_POLL);
	espl_time now = cloud->host->now(cloud->host);
	char text[SLURM_TEXT], line[SLURM_TEXT + 80];
	int failed = cloud_slurm_answer_failed(cloud, "squeue", child, text);

	cloud->polling = 0;
	if (failed != 0 && cloud->silent == ESPL_NEVER) {
		cloud->silent = now;
		(void)snprintf(line, sizeof line, "%s; waiting for it, the jobs keep running",
		    text);
		cloud->host->log(cloud->host, ESPL_WARN, line);
	} else if (failed == 0 && cloud->silent != ESPL_NEVER) {
		(void)snprintf(line, sizeof line, "Slurm answers again after %lld s",
		    (long long)((now - cloud->silent) / ESPL_SECOND));
		cloud->host->log(cloud->host, ESPL_WARN, line);
		cloud->silent = ESPL_NEVER;
		cloud->pause = PAUSE_FIRST;
	}
	cloud->pause *= 2;
	if (failed != 0)
		most = PAUSE_SILENT;
	if (cloud->pause > most)
		cloud->pause = most;
	if (failed == 0)
		take_jobs(cloud, child->out);
	wait_pause(cloud);
}

/* ---- other answers ---- */

static void
take_submitted(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	char text[SLURM_TEXT];
	const char *out = child->out;
	espl_reason reason;
	int failed = cloud_slurm_answer_failed(cloud, "sbatch", child, text);

	job->submitting = 0;
	job->since = cloud->polls + 1;
	if (failed == 0) /* JOB or JOB;CLUSTER */
		(void)snprintf(job->id, sizeof job->id, "%.*s", (int)strspn(out, "0123456789"),
		    out);
	else if (job->avoid != NULL && cloud_slurm_answer_refusal(child) != 0) {
		free(job->avoid); /* perhaps for that: once more without it */
		job->avoid = NULL;
	} else if ((reason = cloud_slurm_answer_refusal(child)) != 0) {
		end_job(cloud, job, reason, text);
		return;
	}
	if (job->id[0] == '\0')
		job->tries++;
	if (job->id[0] != '\0' && job->releasing)
		cancel_job(cloud, job);
	ask_soon(cloud);
}

static void
take_address(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	char address[SLURM_NAME];
	const char *out = child->status == ESPL_OK && child->exit_code == 0 ? child->out : "";

	job->asking = 0;
	(void)snprintf(address, sizeof address, "%.*s", (int)strcspn(out, "\n"), out);
	if (job->releasing || job->over != 0)
		return;
	job->ready = 1;
	report_node(cloud, job, ESPL_NODE_READY, 0, address[0] != '\0' ? address : job->node,
	    ESPL_NEVER, NULL);
}

/* A failed scancel is retried at the next poll; the second failure is logged. */
static void
take_cancelled(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	char text[SLURM_TEXT], line[SLURM_TEXT + 80];

	job->cancelling = 0;
	if (cloud_slurm_answer_failed(cloud, "scancel", child, text) == 0) {
		if (!job->cancelled)
			ask_soon(cloud);
		job->cancelled = 1;
	} else if (++job->refusals == 2) { /* the first may have come too late, after its end */
		(void)snprintf(line, sizeof line, "job %s cannot be cancelled: %s; trying again",
		    job->id, text);
		cloud->host->log(cloud->host, ESPL_WARN, line);
	}
}

static void
take_included(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	char text[SLURM_TEXT];

	job->including = 0;
	if (cloud_slurm_answer_failed(cloud, "scontrol", child, text) != 0)
		cloud->host->log(cloud->host, ESPL_WARN, text);
	free(job->avoid); /* it is not tried again */
	job->avoid = NULL;
	job->reason[0] = '\0';
	ask_soon(cloud);
}

void
cloud_slurm_jobs_child(struct slurm_cloud *cloud, const struct espl_child *child)
{
	struct slurm_job *job = NULL;

	if (child->cookie == SLURM_SQUEUE) {
		take_poll(cloud, child);
		return;
	}
	for (uint32_t i = 0; i < cloud->count; i++)
		if (cloud->jobs[i]->lease == child->cookie / SLURM_COMMANDS)
			job = cloud->jobs[i];
	if (job == NULL)
		return;
	switch (child->cookie % SLURM_COMMANDS) {
	case SLURM_SBATCH: take_submitted(cloud, job, child); break;
	case SLURM_ADDRESS: take_address(cloud, job, child); break;
	case SLURM_SCANCEL: take_cancelled(cloud, job, child); break;
	case SLURM_SECOND: job->cancelling_second = 0; break;
	case SLURM_INCLUDE: take_included(cloud, job, child); break;
	default: break;
	}
}

/* ---- entries ---- */

static int
is_leased(const struct slurm_cloud *cloud, const char *node)
{
	uint32_t k = 0;

	while (k < cloud->count && strcmp(cloud->jobs[k]->node, node) != 0)
		k++;
	return k < cloud->count;
}

/* Inside an allocation: a node that is not leased, of this name or (NULL) of any.  wanted: what it
 * avoids; NULL: nothing. */
static int
take_node(struct slurm_cloud *cloud, struct slurm_job *job, const char *name,
    const struct espl_acquire *wanted)
{
	for (uint32_t i = 0; i < cloud->node_count; i++) {
		if (is_leased(cloud, cloud->nodes[i]) ||
		    (name != NULL && strcmp(name, cloud->nodes[i]) != 0) ||
		    (wanted != NULL && cloud_avoids(wanted, cloud->nodes[i])))
			continue;
		(void)snprintf(job->id, sizeof job->id, "%s", cloud->inside);
		(void)snprintf(job->node, sizeof job->node, "%s", cloud->nodes[i]);
		return 0;
	}
	return -1;
}

static int
join_avoided(struct slurm_job *job, const struct espl_acquire *wanted)
{
	uint32_t count = cloud_avoid_count(wanted);
	size_t size;
	FILE *out;

	if (count == 0)
		return 0;
	job->avoided = 1;
	out = open_memstream(&job->avoid, &size);
	for (uint32_t i = 0; out != NULL && i < count; i++)
		(void)fprintf(out, "%s%s", i > 0 ? "," : "", wanted->avoid[i]);
	return out != NULL && fclose(out) == 0 ? 0 : -1;
}

espl_status
cloud_slurm_jobs_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct slurm_job *job = job_of(cloud, list[i]->token);

		if (job != NULL)
			continue; /* asked again: it is under way */
		job = add_job(cloud, list[i]->lease, list[i]->token);
		if (job == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		job->submit = cloud->inside == NULL;
		if (cloud->inside == NULL && join_avoided(job, list[i]) != 0)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (cloud->inside != NULL && take_node(cloud, job, NULL, list[i]) != 0 &&
		    take_node(cloud, job, NULL, NULL) != 0)
			end_job(cloud, job, ESPL_BY_CAPACITY, "all nodes of this job are leased");
	}
	ask_soon(cloud);
	return ESPL_OK;
}

/* What a provider's id says: "JOB NODE", or "JOB". */
static void
take_id(struct slurm_job *job, const struct espl_lease *lease)
{
	const char *id = lease->provider_id != NULL ? lease->provider_id : "";
	size_t size = strcspn(id, " ");

	(void)snprintf(job->id, sizeof job->id, "%.*s", (int)size, id);
	(void)snprintf(job->node, sizeof job->node, "%s", id[size] != '\0' ? id + size + 1 : "");
}

espl_status
cloud_slurm_jobs_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct slurm_job *job = job_of(cloud, list[i]->token);

		if (job == NULL) {
			job = add_job(cloud, list[i]->lease, list[i]->token);
			if (job == NULL)
				return espl_fail(error, ESPL_E_NOMEM, "out of memory");
			take_id(job, list[i]);
		}
		job->releasing = 1;
		if (cloud->inside != NULL)
			end_job(cloud, job, ESPL_BY_USER, NULL);
		else if (job->id[0] != '\0')
			cancel_job(cloud, job);
	}
	ask_soon(cloud);
	return ESPL_OK;
}

espl_status
cloud_slurm_jobs_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct slurm_job *job = add_job(cloud, list[i]->lease, list[i]->token);

		if (job == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		take_id(job, list[i]);
		if (cloud->inside == NULL)
			continue;
		if (strcmp(job->id, cloud->inside) == 0) {
			char node[SLURM_NAME];

			(void)snprintf(node, sizeof node, "%s", job->node);
			job->node[0] = '\0';
			if (take_node(cloud, job, node, NULL) == 0)
				continue;
		}
		end_job(cloud, job, ESPL_BY_FAULT, "its node is not in this job");
	}
	ask_soon(cloud);
	return ESPL_OK;
}
