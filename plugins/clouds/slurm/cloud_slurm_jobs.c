/* cloud_slurm_jobs.c - leases as jobs: what squeue and the other commands say of them, for the
 * lease machine of the kit (espalier/kit/leases.h), and the commands that it wants.
 *
 * A job is found by its name, the token: it is submitted when squeue has shown none of that name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/array.h>
#include <espalier/kit/assert.h>

#include "cloud_slurm.h"

#define SOON (ESPL_SECOND / 4)
#define SILENT_MOST (60 * ESPL_SECOND)     /* between two polls, while the controller is away */
#define SETTLE (2 * ESPL_SECOND)           /* no job is gone because one squeue lacks it */
#define DOUBT (60 * ESPL_SECOND)           /* a submission without an answer may be taken */
#define SUBMIT_MOST 5                      /* tries, while squeue answers and sbatch does not */
#define AVOID_MOST (600 * ESPL_SECOND)     /* a job waits without the nodes that failed before */
#define COMPLETING_MOST (10 * ESPL_SECOND) /* then the end is told without Slurm's last word */

static espl_time
now_of(const struct slurm_cloud *cloud)
{
	return cloud->host->now(cloud->host);
}

static struct slurm_job *
job_of(struct espl_leased *lease)
{
	return (struct slurm_job *)lease;
}

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

static espl_status
submit_job(void *self, struct espl_leased *lease)
{
	struct slurm_cloud *cloud = self;
	struct cloud_words list = cloud_slurm_words_submit(cloud, job_of(lease));
	char *script = cloud_slurm_words_holder(cloud, lease->token);
	espl_status status;

	ESPL_ASSERT(cloud->inside == NULL);
	list.failed |= script == NULL;
	status =
	    cloud_slurm_jobs_run(cloud, &list, SLURM_COOKIE(lease->serial, SLURM_SBATCH), script);
	free(script);
	return status;
}

/* The number may come from a file of the run: only a job of this name is ours.  A node of the job
 * that this process is in needs no end. */
static espl_status
cancel_job(void *self, struct espl_leased *lease, const char *id)
{
	struct slurm_cloud *cloud = self;
	struct cloud_words list = { NULL, 0, 0 };

	if (cloud->inside != NULL) {
		espl_leases_cancelled(&cloud->leases, lease, ESPL_DID_GONE, "", -1, now_of(cloud));
		return ESPL_OK;
	}
	cloud_words_add(&list, "scancel");
	cloud_words_add(&list, "--name=%s", lease->token);
	cloud_words_add(&list, "%s", id);
	return cloud_slurm_jobs_run(cloud, &list, SLURM_COOKIE(lease->serial, SLURM_SCANCEL), NULL);
}

static espl_status
ask_address(void *self, struct espl_leased *lease)
{
	struct cloud_words list = { NULL, 0, 0 };

	cloud_words_add(&list, "sinfo");
	cloud_words_add(&list, "--noheader");
	cloud_words_add(&list, "--nodes=%s", job_of(lease)->node);
	cloud_words_add(&list, "--format=%%o");
	return cloud_slurm_jobs_run(self, &list, SLURM_COOKIE(lease->serial, SLURM_ADDRESS), NULL);
}

/* Nodes that failed before are better than none. */
static void
include_nodes(struct slurm_cloud *cloud, struct slurm_job *job)
{
	struct cloud_words list;

	if (job->including)
		return; /* and again with each poll, until it has succeeded */
	list = cloud_slurm_words_include(cloud, job);
	job->including = cloud_slurm_jobs_run(cloud, &list,
			     SLURM_COOKIE(job->lease.serial, SLURM_INCLUDE), NULL) == ESPL_OK;
}

static espl_status
ask_jobs(void *self)
{
	struct slurm_cloud *cloud = self;
	struct cloud_words list = { NULL, 0, 0 };
	char *names = NULL;
	size_t size;
	FILE *out = open_memstream(&names, &size);

	for (struct espl_leased *l = cloud->leases.first; out != NULL && l != NULL; l = l->next)
		(void)fprintf(out, "%s%s", l != cloud->leases.first ? "," : "", l->token);
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
	return cloud_slurm_jobs_run(cloud, &list, SLURM_SQUEUE, NULL);
}

static void
stop_command(void *self, struct espl_leased *lease)
{
	static const enum slurm_command commands[] = { [ESPL_LEASE_ASKS] = SLURM_SBATCH,
		[ESPL_LEASE_CANCELS] = SLURM_SCANCEL,
		[ESPL_LEASE_PROBES] = SLURM_ADDRESS };
	const struct slurm_cloud *cloud = self;

	cloud->io->cancel(cloud->io, SLURM_COOKIE(lease->serial, commands[lease->busy]));
}

static void
drop_job(void *self, struct espl_leased *lease)
{
	(void)self;
	free(job_of(lease)->avoid);
}

static espl_status
set_timer(void *self, espl_span after)
{
	const struct slurm_cloud *cloud = self;

	cloud->io->cancel(cloud->io, SLURM_TIMER);
	return cloud->io->timer(cloud->io, after, SLURM_TIMER);
}

static void
fill_event(const void *self, const struct espl_leased *lease, struct espl_node_event *event)
{
	const struct slurm_cloud *cloud = self;
	const struct slurm_job *job = (const struct slurm_job *)lease;

	if (job->provider_id[0] != '\0' && lease->id != NULL)
		event->provider_id = job->provider_id;
	event->machine = job->node[0] != '\0' ? job->node : NULL;
	if (event->state == ESPL_NODE_READY)
		event->gpus = (uint32_t)slurm_number(cloud, SLURM_OPT_GPUS);
}

static const struct espl_lease_calls calls = { .ask = submit_job,
	.cancel = cancel_job,
	.probe = ask_address,
	.list = ask_jobs,
	.stop = stop_command,
	.drop = drop_job,
	.timer = set_timer,
	.fill = fill_event };

void
cloud_slurm_jobs_begin(struct slurm_cloud *cloud)
{
	cloud->rules = (struct espl_lease_rules){ .provider = "Slurm",
		.noun = "job",
		.missing = "Slurm no longer knows its job",
		.asking = "sbatch",
		.stuck = "cannot be cancelled",
		.waits = { [ESPL_STAGE_REQUESTED] = "Slurm has not accepted it" },
		.lost = ESPL_LOST_AGAIN,
		.asks_most = SUBMIT_MOST,
		.absent_lists = 2,
		.missing_lists = 2,
		.late_lists = 3,
		.doubt = DOUBT,
		.settle = SETTLE,
		.soon = SOON,
		.least = 2 * SOON,
		.most = slurm_number(cloud, SLURM_OPT_POLL),
		.silent_most = SILENT_MOST,
		.cancel_again = slurm_number(cloud, SLURM_OPT_POLL),
		.list_first = 1,
		.gone_ends = cloud->inside != NULL };
	espl_leases_begin(&cloud->leases, &calls, &cloud->rules, cloud, cloud->host,
	    sizeof(struct slurm_job));
}

/* ---- what squeue says of a job ---- */

struct slurm_news {
	struct slurm_line line;
	char why[SLURM_TEXT]; /* it waits */
};

static void
note_node(struct slurm_job *job, const char *id, const char *node)
{
	if (job->node[0] == '\0')
		(void)snprintf(job->node, sizeof job->node, "%s", node);
	(void)snprintf(job->provider_id, sizeof job->provider_id, "%s%s%s", id,
	    job->node[0] != '\0' ? " " : "", job->node);
}

/* Nothing but the nodes that are avoided can take the job, or nothing else has for long: the others
 * may be in use for days, and those may have been repaired. */
static int
waits_in_vain(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	espl_time now = now_of(cloud);
	char why[SLURM_TEXT];

	if (job->avoids_at == ESPL_NEVER)
		job->avoids_at = now;
	return now - job->avoids_at >= AVOID_MOST ||
	    cloud_slurm_answer_reason(line->reason, why) != 0 ||
	    strncmp(line->reason, "ReqNodeNotAvail", 15) == 0;
}

static void
take_waiting(struct slurm_cloud *cloud, struct slurm_job *job, struct slurm_news *news,
    struct espl_lease_row *row)
{
	char text[SLURM_TEXT + 60];
	espl_reason never;

	if (job->lease.stage == ESPL_STAGE_READY) { /* it would be started again some time */
		espl_leases_give_up(&cloud->leases, &job->lease, ESPL_BY_PROVIDER,
		    "Slurm has put its job back into the queue", now_of(cloud));
		return;
	}
	if (job->avoid != NULL && waits_in_vain(cloud, job, &news->line)) {
		include_nodes(cloud, job);
		return;
	}
	never = cloud_slurm_answer_reason(news->line.reason, news->why);
	if (never != 0) {
		(void)snprintf(text, sizeof text, "job %s would never start: %s", news->line.id,
		    news->why);
		espl_leases_give_up(&cloud->leases, &job->lease, never, text, now_of(cloud));
		return;
	}
	row->stage = ESPL_STAGE_SCHEDULED;
	row->text = news->why;
}

static void
take_running(const struct slurm_cloud *cloud, const struct slurm_job *job,
    const struct slurm_line *line, struct espl_lease_row *row)
{
	espl_span left = line->end_s * ESPL_SECOND - cloud->io->utc_ns(cloud->io);

	row->stage = ESPL_STAGE_JOINING;
	if (job->lease.stage != ESPL_STAGE_READY || line->end_s == 0 ||
	    left > slurm_number(cloud, SLURM_OPT_NOTICE))
		return;
	row->notice = 1;
	row->ends_at = now_of(cloud) + (left > 0 ? left : 0);
	row->text = "Slurm ends its job soon: its time limit, or a preemption";
}

static void
end_row(struct espl_lease_row *row, espl_reason reason, const char *text)
{
	row->stage = ESPL_STAGE_ENDED;
	row->reason = reason;
	row->text = text;
}

/* Its processes are being killed; the reason follows later, if at all. */
static void
take_completing(const struct slurm_cloud *cloud, struct slurm_job *job,
    const struct slurm_line *line, struct espl_lease_row *row)
{
	espl_time now = now_of(cloud);

	if (job->completing == ESPL_NEVER)
		job->completing = now;
	if (job->lease.releasing || job->lease.ending || job->lease.over)
		end_row(row, ESPL_BY_USER, NULL);
	else if (now - job->completing < COMPLETING_MOST)
		return;
	else if (strcmp(line->reason, "TimeLimit") == 0)
		end_row(row, ESPL_BY_EXPIRY, "the time limit of its job is reached");
	else
		end_row(row, ESPL_BY_PROVIDER, "Slurm has ended its job");
}

/* 1: the state is one of an end. */
static int
take_end(const struct slurm_line *line, struct espl_lease_row *row)
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

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (strcmp(line->state, table[i].state) == 0) {
			end_row(row, table[i].reason, table[i].text);
			return 1;
		}
	}
	return 0;
}

/* Slurm ends a job that no node can take, and all others may be avoided: once more, anywhere. */
static int
submit_without(struct slurm_cloud *cloud, struct slurm_job *job, const struct slurm_line *line)
{
	if (!job->avoided || job->lease.releasing || job->lease.ending || job->lease.over ||
	    line->node[0] != '\0' || strcmp(line->state, "FAILED") != 0)
		return 0;
	free(job->avoid);
	job->avoid = NULL;
	job->avoided = 0;
	(void)snprintf(job->discarded, sizeof job->discarded, "%s", line->id);
	espl_leases_again(&cloud->leases, &job->lease, now_of(cloud));
	return 1;
}

/* The row of a line; 0: it says nothing of this lease. */
static int
read_row(struct slurm_cloud *cloud, struct slurm_job *job, struct slurm_news *news,
    struct espl_lease_row *row)
{
	const struct slurm_line *line = &news->line;
	int own =
	    job->lease.id == NULL || strcmp(job->lease.id, line->id) == 0 || cloud->inside != NULL;

	if (strcmp(line->id, job->discarded) == 0)
		return 0;
	*row = espl_lease_row(job->lease.token, ESPL_STAGE_NONE);
	row->id = line->id;
	if (own && submit_without(cloud, job, line))
		return 0;
	if (take_end(line, row) || !own)
		return 1;
	note_node(job, line->id, line->node);
	if (strcmp(line->state, "COMPLETING") == 0 || strcmp(line->state, "STAGE_OUT") == 0)
		take_completing(cloud, job, line, row);
	else if (job->lease.releasing || job->lease.ending || job->lease.over)
		return 1;
	else if (strcmp(line->state, "RUNNING") == 0)
		take_running(cloud, job, line, row);
	else if (strcmp(line->state, "PENDING") == 0 || strncmp(line->state, "REQUEUE", 7) == 0 ||
	    strcmp(line->state, "SPECIAL_EXIT") == 0)
		take_waiting(cloud, job, news, row);
	/* others come and go by themselves: CONFIGURING, SUSPENDED, STOPPED, ... */
	return 1;
}

/* Inside an allocation each lease is a node of the one job. */
static void
take_jobs(struct slurm_cloud *cloud, const char *text)
{
	struct slurm_news *news = NULL;
	struct espl_lease_row *rows;
	struct slurm_line line;
	uint32_t room = 0, lines = 0, leases = 0, count = 0;

	for (struct espl_leased *l = cloud->leases.first; l != NULL; l = l->next)
		leases++;
	while (cloud_slurm_answer_line(&text, &line)) {
		struct slurm_news *more = espl_array_grow(news, &room, lines + 1, sizeof *news);

		if (more == NULL)
			break;
		news = more;
		news[lines++].line = line;
	}
	rows = calloc((size_t)leases * lines + 1, sizeof *rows);
	for (struct espl_leased *l = cloud->leases.first; rows != NULL && l != NULL; l = l->next)
		for (uint32_t i = 0; i < lines; i++)
			if (cloud->inside != NULL || strcmp(news[i].line.name, l->token) == 0)
				count += read_row(cloud, job_of(l), &news[i], &rows[count]) != 0;
	if (rows != NULL && *text == '\0')
		espl_leases_listed(&cloud->leases, rows, count, now_of(cloud));
	else
		espl_leases_unlisted(&cloud->leases, "out of memory", now_of(cloud));
	free(rows);
	free(news);
}

/* A controller that does not answer ends nothing: the jobs run without it. */
static void
take_poll(struct slurm_cloud *cloud, const struct espl_child *child)
{
	char text[SLURM_TEXT];

	if (cloud_slurm_answer_failed(cloud, "squeue", child, text) != 0)
		espl_leases_unlisted(&cloud->leases, text, now_of(cloud));
	else
		take_jobs(cloud, child->out);
}

/* ---- other answers ---- */

static void
take_submitted(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	struct espl_lease_row row = espl_lease_row(job->lease.token, ESPL_STAGE_NONE);
	char text[SLURM_TEXT] = "sbatch printed no number of a job", id[32];
	const char *out = child->out;
	int failed = cloud_slurm_answer_failed(cloud, "sbatch", child, text);
	espl_reason reason = failed != 0 ? cloud_slurm_answer_refusal(child) : 0;

	(void)snprintf(id, sizeof id, "%.*s", failed == 0 ? (int)strspn(out, "0123456789") : 0,
	    out); /* JOB or JOB;CLUSTER */
	if (id[0] != '\0') {
		row.id = id;
		note_node(job, id, "");
		espl_leases_made(&cloud->leases, &job->lease, &row, now_of(cloud));
	} else if (job->avoid != NULL && reason != 0) {
		free(job->avoid); /* perhaps for that: once more without it */
		job->avoid = NULL;
		espl_leases_again(&cloud->leases, &job->lease, now_of(cloud));
	} else {
		espl_leases_refused(&cloud->leases, &job->lease,
		    reason != 0 ? ESPL_DID_REFUSE : ESPL_DID_UNSURE, reason, text, 0,
		    now_of(cloud));
	}
}

static void
take_address(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	struct espl_lease_row row = espl_lease_row(job->lease.token, ESPL_STAGE_NONE);
	char address[SLURM_NAME];
	const char *out = child->status == ESPL_OK && child->exit_code == 0 ? child->out : "";

	(void)snprintf(address, sizeof address, "%.*s", (int)strcspn(out, "\n"), out);
	row.address = address[0] != '\0' ? address : job->node;
	espl_leases_seen(&cloud->leases, &job->lease, &row, now_of(cloud));
	espl_leases_probed(&cloud->leases, &job->lease, 1, "", now_of(cloud));
}

/* Ignores a job that has ended meanwhile. */
static void
take_cancelled(struct slurm_cloud *cloud, struct slurm_job *job, const struct espl_child *child)
{
	char text[SLURM_TEXT] = "";
	int failed = cloud_slurm_answer_failed(cloud, "scancel", child, text);
	int gone = strstr(text, "Invalid job id") != NULL || strstr(text, "already comp") != NULL;

	espl_leases_cancelled(&cloud->leases, &job->lease,
	    failed == 0 ? ESPL_DID_FINE
		: gone  ? ESPL_DID_GONE
			: ESPL_DID_LATER,
	    text, -1, now_of(cloud));
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
	espl_leases_hurry(&cloud->leases, now_of(cloud));
}

static void
take_answer(struct slurm_cloud *cloud, struct slurm_job *job, enum slurm_command command,
    const struct espl_child *child)
{
	if (command == SLURM_SBATCH && job->lease.busy == ESPL_LEASE_ASKS)
		take_submitted(cloud, job, child);
	else if (command == SLURM_ADDRESS && job->lease.busy == ESPL_LEASE_PROBES)
		take_address(cloud, job, child);
	else if (command == SLURM_SCANCEL && job->lease.busy == ESPL_LEASE_CANCELS)
		take_cancelled(cloud, job, child);
	else if (command == SLURM_INCLUDE)
		take_included(cloud, job, child);
}

void
cloud_slurm_jobs_child(struct slurm_cloud *cloud, const struct espl_child *child)
{
	struct espl_leased *lease =
	    espl_leases_serial(&cloud->leases, child->cookie / SLURM_COMMANDS);

	if (child->cookie == SLURM_SQUEUE)
		take_poll(cloud, child);
	else if (lease != NULL)
		take_answer(cloud, job_of(lease),
		    (enum slurm_command)(child->cookie % SLURM_COMMANDS), child);
	espl_leases_due(&cloud->leases, now_of(cloud));
}

/* ---- entries ---- */

static int
is_leased(const struct slurm_cloud *cloud, const char *node)
{
	struct espl_leased *l = cloud->leases.first;

	while (l != NULL && (l->over || strcmp(job_of(l)->node, node) != 0))
		l = l->next;
	return l != NULL;
}

/* Inside an allocation: a node that is not leased, of this name or (NULL) of any.  wanted: what it
 * avoids; NULL: nothing. */
static int
take_node(struct slurm_cloud *cloud, struct slurm_job *job, const char *name,
    const struct espl_acquire *wanted)
{
	struct espl_lease_row row = espl_lease_row(job->lease.token, ESPL_STAGE_JOINING);

	for (uint32_t i = 0; i < cloud->node_count; i++) {
		if (is_leased(cloud, cloud->nodes[i]) ||
		    (name != NULL && strcmp(name, cloud->nodes[i]) != 0) ||
		    (wanted != NULL && cloud_avoids(wanted, cloud->nodes[i])))
			continue;
		row.id = cloud->inside;
		note_node(job, cloud->inside, cloud->nodes[i]);
		espl_leases_seen(&cloud->leases, &job->lease, &row, now_of(cloud));
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

static espl_status
acquire_job(struct slurm_cloud *cloud, const struct espl_acquire *wanted)
{
	int fresh;
	struct espl_leased *lease =
	    espl_leases_acquire(&cloud->leases, wanted, &fresh, now_of(cloud));
	struct slurm_job *job = lease != NULL ? job_of(lease) : NULL;

	if (job == NULL)
		return ESPL_E_NOMEM;
	if (!fresh)
		return ESPL_OK;
	job->completing = job->avoids_at = ESPL_NEVER;
	if (cloud->inside == NULL)
		return join_avoided(job, wanted) == 0 ? ESPL_OK : ESPL_E_NOMEM;
	if (take_node(cloud, job, NULL, wanted) != 0 && take_node(cloud, job, NULL, NULL) != 0)
		espl_leases_give_up(&cloud->leases, lease, ESPL_BY_CAPACITY,
		    "all nodes of this job are leased", now_of(cloud));
	return ESPL_OK;
}

espl_status
cloud_slurm_jobs_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++)
		if (acquire_job(cloud, list[i]) != ESPL_OK)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	espl_leases_due(&cloud->leases, now_of(cloud));
	return ESPL_OK;
}

/* What the host knows says "JOB NODE", or "JOB".  NULL: out of memory. */
static struct slurm_job *
claim_job(struct slurm_cloud *cloud, const struct espl_lease *lease,
    struct espl_leased *(*claim)(struct espl_leases *, const struct espl_lease *, espl_time))
{
	const char *id = lease->provider_id != NULL ? lease->provider_id : "";
	size_t size = strcspn(id, " ");
	int known = espl_leases_find(&cloud->leases, lease->token) != NULL;
	struct espl_lease view = *lease;
	struct espl_leased *added;
	char number[32];

	(void)snprintf(number, sizeof number, "%.*s", (int)size, id);
	view.provider_id = number[0] != '\0' ? number : NULL;
	added = claim(&cloud->leases, &view, now_of(cloud));
	if (added == NULL || known)
		return added != NULL ? job_of(added) : NULL;
	job_of(added)->completing = job_of(added)->avoids_at = ESPL_NEVER;
	note_node(job_of(added), number, id[size] != '\0' ? id + size + 1 : "");
	return job_of(added);
}

espl_status
cloud_slurm_jobs_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++)
		if (claim_job(cloud, list[i], espl_leases_release) == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	espl_leases_due(&cloud->leases, now_of(cloud));
	return ESPL_OK;
}

/* Inside an allocation: of the job that this process is in, if it is still the same. */
static void
adopt_node(struct slurm_cloud *cloud, struct slurm_job *job)
{
	char node[SLURM_NAME];

	(void)snprintf(node, sizeof node, "%s", job->node);
	job->node[0] = '\0';
	if (job->lease.id == NULL || strcmp(job->lease.id, cloud->inside) != 0 ||
	    take_node(cloud, job, node, NULL) != 0)
		espl_leases_give_up(&cloud->leases, &job->lease, ESPL_BY_FAULT,
		    "its node is not in this job", now_of(cloud));
}

espl_status
cloud_slurm_jobs_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct slurm_job *job = claim_job(cloud, list[i], espl_leases_adopt);

		if (job == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (cloud->inside != NULL)
			adopt_node(cloud, job);
	}
	espl_leases_due(&cloud->leases, now_of(cloud));
	return ESPL_OK;
}
