/* cloud_slurm.c - nodes of a Slurm cluster: each lease is a job.
 *
 * Slurm is driven by its commands, each with a time limit. One squeue asks for all jobs at once,
 * soon after a change and then less and less often. A controller that does not answer is waited
 * for: it ends no lease. Inside an allocation nothing is submitted: its nodes are the leases.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_slurm.h"

#define START_PAUSE (2 * ESPL_SECOND)
#define START_PAUSE_MOST (30 * ESPL_SECOND)
#define START_MOST (600 * ESPL_SECOND) /* a run waits for a controller that does not answer */

static const struct espl_option words[] = {
	{ .name = "word", .help = "argument", .type = ESPL_OPT_STRING, .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	[SLURM_OPT_PARTITION] = { .name = "partition",
	    .help = "partition to submit jobs to; default: the cluster's default partition",
	    .type = ESPL_OPT_STRING },
	[SLURM_OPT_QOS] = { .name = "qos",
	    .help = "quality of service of the jobs",
	    .type = ESPL_OPT_STRING },
	[SLURM_OPT_ACCOUNT] = { .name = "account",
	    .help = "account that the jobs are charged to",
	    .type = ESPL_OPT_STRING },
	[SLURM_OPT_CONSTRAINT] = { .name = "constraint",
	    .help = "features that a node must have, as for sbatch",
	    .type = ESPL_OPT_STRING },
	[SLURM_OPT_GRES] = { .name = "gres",
	    .help = "generic resources per node; default: \"gpu:N\" with N from gpus",
	    .type = ESPL_OPT_STRING },
	[SLURM_OPT_CPUS] = { .name = "cpus",
	    .help = "cores per node; default: Slurm's, or one per slot if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "65536" },
	[SLURM_OPT_MEMORY] = { .name = "memory",
	    .help = "memory per node; default: Slurm's",
	    .type = ESPL_OPT_BYTES,
	    .min = "1" },
	[SLURM_OPT_TIME] = { .name = "time",
	    .help = "time limit of a job, rounded up to minutes; default: Slurm's",
	    .type = ESPL_OPT_SPAN,
	    .min = "1m" },
	[SLURM_OPT_ARGUMENTS] = { .name = "arguments",
	    .help = "additional arguments for sbatch",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1 },
	[SLURM_OPT_NODES] = { .name = "nodes_max",
	    .help = "maximum number of nodes, and so of jobs, at one time",
	    .type = ESPL_OPT_INT,
	    .fallback = "4",
	    .min = "1",
	    .max = "4096" },
	[SLURM_OPT_GPUS] = { .name = "gpus",
	    .help = "number of GPUs per node, or of slots if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4096" },
	[SLURM_OPT_TYPE] = { .name = "gpu_type",
	    .help = "GPU model, in messages and reports; \"cpu\": slots on cores instead of GPUs",
	    .type = ESPL_OPT_STRING,
	    .fallback = "gpu" },
	[SLURM_OPT_PRICE] = { .name = "price_gpu_hour",
	    .help = "price in dollars per GPU-hour",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
	[SLURM_OPT_AGENT] = { .name = "agent",
	    .help = "path of espalier-agent on the nodes; default: it is sent to nodes that do not "
		    "have the same one at the same path as this machine",
	    .type = ESPL_OPT_STRING },
	[SLURM_OPT_POLL] = { .name = "poll",
	    .help = "longest time between two polls of the jobs",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5s",
	    .min = "1s",
	    .max = "5m" },
	[SLURM_OPT_LIMIT] = { .name = "answer_limit",
	    .help = "longest time to wait for a Slurm command",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "30s",
	    .min = "1s",
	    .max = "10m" },
	[SLURM_OPT_NOTICE] = { .name = "notice",
	    .help = "how long before the end of a job its trials are moved",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "2m",
	    .min = "0s" },
	[SLURM_OPT_IDLE] = { .name = "idle",
	    .help = "a job ends after this time without an agent",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "15m",
	    .min = "10s" },
	[SLURM_OPT_INSIDE] = { .name = "inside",
	    .help = "use the nodes of the job that espalier runs in, and submit nothing",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false" },
};

/* ---- offers ---- */

static espl_status
slurm_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	static const struct espl_latency init = { .size = sizeof init,
		.kind = ESPL_CONSTANT,
		.mean_s = 2 };
	const struct slurm_cloud *cloud = self;
	struct espl_offer offer = ESPL_INIT(struct espl_offer);
	const char *type = slurm_text(cloud, SLURM_OPT_TYPE);
	uint32_t gpus = (uint32_t)slurm_number(cloud, SLURM_OPT_GPUS);
	char name[80];

	(void)error;
	slurm_offer_name(cloud, name);
	offer.number = ESPL_ANY;
	offer.gpus = gpus;
	offer.nodes_max = (uint32_t)slurm_number(cloud, SLURM_OPT_NODES);
	if (cloud->node_count > 0 && cloud->node_count < offer.nodes_max)
		offer.nodes_max = cloud->node_count;
	offer.name = name;
	offer.market = cloud->inside != NULL ? "allocation" : "job";
	offer.gpu_type = type;
	offer.zone = "";
	if (slurm_is_set(cloud, SLURM_OPT_MEMORY))
		offer.memory_bytes = (uint64_t)slurm_number(cloud, SLURM_OPT_MEMORY);
	offer.price_hour = slurm_number(cloud, SLURM_OPT_PRICE) * gpus;
	offer.fixed_price_hour = offer.price_hour;
	offer.billing = ESPL_BILL_NODE;
	offer.billed_from = ESPL_BILL_FROM_READY;
	offer.billing_step = ESPL_SECOND;
	offer.provision = &none;
	offer.init = &init;
	offer.hazard_hour = NAN;
	return events->offer(events, &offer);
}

/* ---- start ---- */

static espl_status
ask_partitions(struct slurm_cloud *cloud)
{
	struct cloud_words list = { NULL, 0, 0 };

	cloud_words_add(&list, "sinfo");
	cloud_words_add(&list, "--noheader");
	cloud_words_add(&list, "--format=%%R|%%P|%%a|%%G");
	return cloud_slurm_jobs_run(cloud, &list, SLURM_SINFO, NULL);
}

static espl_status
ask_nodes(struct slurm_cloud *cloud, const char *nodes)
{
	struct cloud_words list = { NULL, 0, 0 };

	cloud_words_add(&list, "scontrol");
	cloud_words_add(&list, "show");
	cloud_words_add(&list, "hostnames");
	cloud_words_add(&list, "%s", nodes);
	return cloud_slurm_jobs_run(cloud, &list, SLURM_HOSTNAMES, NULL);
}

static espl_status
slurm_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct slurm_cloud *cloud = self;
	const char *nodes = getenv("SLURM_JOB_NODELIST");

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = cloud->leases.events = events;
	cloud->began = cloud->host->now(cloud->host);
	if (cloud->inside == NULL)
		return ask_partitions(cloud);
	if (nodes == NULL || nodes[0] == '\0')
		return espl_fail(error, ESPL_E_REMOTE, "SLURM_JOB_NODELIST is not set");
	return ask_nodes(cloud, nodes);
}

static void
end_start(struct slurm_cloud *cloud, espl_status status, const char *text)
{
	if (status == ESPL_OK)
		(void)slurm_describe(cloud, cloud->events, NULL);
	cloud->events->done(cloud->events, 0, status, text);
}

/* A run waits for a controller that does not answer; 0: it has waited for long enough. */
static int
ask_again(struct slurm_cloud *cloud, const char *why)
{
	espl_span pause = START_PAUSE;
	char line[SLURM_TEXT + 60];

	if (cloud->run == NULL || cloud->host->now(cloud->host) - cloud->began >= START_MOST)
		return 0;
	for (uint32_t i = 0; i < cloud->start_tries && pause < START_PAUSE_MOST; i++)
		pause *= 2;
	if (cloud->start_tries++ == 0) {
		(void)snprintf(line, sizeof line, "%s; waiting for it", why);
		cloud->host->log(cloud->host, ESPL_WARN, line);
	}
	return cloud->io->timer(cloud->io, pause < START_PAUSE_MOST ? pause : START_PAUSE_MOST,
		   SLURM_START_TIMER) == ESPL_OK;
}

static void
take_partitions(struct slurm_cloud *cloud, const struct espl_child *child)
{
	char text[SLURM_TEXT] = "";
	int failed = cloud_slurm_answer_failed(cloud, "sinfo", child, text);

	if (failed != 0 && cloud_slurm_answer_refusal(child) == 0 && ask_again(cloud, text))
		return;
	if (failed == 0)
		failed = cloud_slurm_answer_partition(cloud, child->out, text);
	if (failed > 0)
		cloud->host->log(cloud->host, ESPL_WARN, text);
	end_start(cloud, failed >= 0 ? ESPL_OK : ESPL_E_REMOTE, text);
}

static void
slurm_on_timer(void *self, uint64_t cookie)
{
	struct slurm_cloud *cloud = self;

	if (cookie != SLURM_START_TIMER)
		espl_leases_timer(&cloud->leases, cloud->host->now(cloud->host));
	else if (ask_partitions(cloud) != ESPL_OK)
		end_start(cloud, ESPL_E_REMOTE, "sinfo cannot be started");
}

static void
take_nodes(struct slurm_cloud *cloud, const struct espl_child *child)
{
	char text[SLURM_TEXT] = "";
	int failed = cloud_slurm_answer_failed(cloud, "scontrol", child, text);
	const char *line = failed == 0 ? child->out : "";

	while (failed == 0 && *line != '\0') {
		size_t size = strcspn(line, "\n");
		char **list = realloc(cloud->nodes, (cloud->node_count + 1) * sizeof *list);
		char *name = strndup(line, size);

		if (list != NULL)
			cloud->nodes = list;
		if (list == NULL || name == NULL) {
			free(name);
			end_start(cloud, ESPL_E_NOMEM, "out of memory");
			return;
		}
		cloud->nodes[cloud->node_count++] = name;
		line += size + (line[size] != '\0');
	}
	if (failed == 0 && cloud->node_count == 0) {
		(void)snprintf(text, sizeof text, "this job has no nodes");
		failed = -1;
	}
	end_start(cloud, failed == 0 ? ESPL_OK : ESPL_E_REMOTE, text);
}

static void
slurm_on_child(void *self, const struct espl_child *child)
{
	struct slurm_cloud *cloud = self;

	if (child->cookie == SLURM_SINFO)
		take_partitions(cloud, child);
	else if (child->cookie == SLURM_HOSTNAMES)
		take_nodes(cloud, child);
	else if (child->cookie == SLURM_OWNED)
		cloud_slurm_owned_take(cloud, child);
	else
		cloud_slurm_jobs_child(cloud, child);
}

/* ---- the rest ---- */

/* The lease contains its job and node as its provider's id, "JOB NODE". */
static espl_status
slurm_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const struct slurm_cloud *cloud = self;
	const char *node = lease->provider_id != NULL ? strchr(lease->provider_id, ' ') : NULL;
	struct cloud_words list;
	espl_status status;
	char job[32];

	if (node == NULL)
		return espl_fail(error, ESPL_E_UNKNOWN, "its job has not started");
	(void)snprintf(job, sizeof job, "%.*s", (int)(node - lease->provider_id),
	    lease->provider_id);
	list = cloud_slurm_words_reach(cloud, job, node + 1, lease->token);
	if (list.list == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (slurm_is_set(cloud, SLURM_OPT_AGENT) && sink->agent != NULL)
		sink->agent(sink, NULL); /* the step knows its path */
	status = sink->argv(sink, (const char *const *)list.list, list.count);
	cloud_words_free(&list);
	return status;
}

static void
slurm_destroy(void *self)
{
	struct slurm_cloud *cloud = self;

	espl_leases_free(&cloud->leases);
	for (uint32_t i = 0; i < cloud->node_count; i++)
		free(cloud->nodes[i]);
	free(cloud->nodes);
	free(cloud->inside);
	free(cloud);
}

/* One word that is no option of a command. */
static int
is_plain(const char *text)
{
	for (const char *c = text; *c != '\0'; c++)
		if (*c <= ' ' || *c == 127)
			return 0;
	return text[0] != '-';
}

/* Jobs of an array have other numbers than the one that sbatch prints. */
static int
wants_array(const struct slurm_cloud *cloud)
{
	const struct espl_table *more = slurm_is_set(cloud, SLURM_OPT_ARGUMENTS)
	    ? cloud->config->values[SLURM_OPT_ARGUMENTS].as.table
	    : NULL;

	for (uint32_t i = 0; more != NULL && i < more->row_count; i++)
		if (strncmp(more->cells[i].as.s, "--array", 7) == 0 ||
		    strncmp(more->cells[i].as.s, "-a", 2) == 0)
			return 1;
	return 0;
}

static espl_status
check_options(const struct slurm_cloud *cloud, struct espl_error *error)
{
	static const uint32_t plain[] = { SLURM_OPT_PARTITION, SLURM_OPT_QOS, SLURM_OPT_ACCOUNT,
		SLURM_OPT_GRES, SLURM_OPT_TYPE };

	if (wants_array(cloud))
		return espl_blame(error, SLURM_OPT_ARGUMENTS,
		    "an array of jobs cannot be used: each node is a job of its own");
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		if (!is_plain(slurm_text(cloud, plain[i])))
			return espl_blame(error, plain[i], "it must be one word");
	if (slurm_is_set(cloud, SLURM_OPT_TIME) &&
	    slurm_number(cloud, SLURM_OPT_TIME) <= slurm_number(cloud, SLURM_OPT_NOTICE))
		return espl_blame(error, SLURM_OPT_TIME, "'time' must be longer than 'notice'");
	if (cloud->config->values[SLURM_OPT_INSIDE].as.i != 0 && getenv("SLURM_JOB_ID") == NULL)
		return espl_blame(error, SLURM_OPT_INSIDE,
		    "'inside' is set, but this is not inside a job (SLURM_JOB_ID is not set)");
	return ESPL_OK;
}

static espl_status
slurm_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct slurm_cloud *cloud = calloc(1, sizeof *cloud);
	espl_status status;

	if (cloud == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	cloud->host = host;
	cloud->config = config;
	cloud->io = host->service(host, ESPL_IO);
	cloud->run = host->service(host, ESPL_RUN);
	cloud->owned_what = ESPL_NONE;
	(void)snprintf(cloud->partition, sizeof cloud->partition, "%s",
	    slurm_text(cloud, SLURM_OPT_PARTITION));
	status = check_options(cloud, error);
	if (status == ESPL_OK && config->values[SLURM_OPT_INSIDE].as.i != 0) {
		cloud->inside = strdup(getenv("SLURM_JOB_ID"));
		if (cloud->inside == NULL)
			status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	if (status != ESPL_OK) {
		slurm_destroy(cloud);
		return status;
	}
	cloud_slurm_jobs_begin(cloud);
	*self = cloud;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = slurm_start,
	.acquire = cloud_slurm_jobs_acquire,
	.release = cloud_slurm_jobs_release,
	.adopt = cloud_slurm_jobs_adopt,
	.owned = cloud_slurm_owned_ask,
	.reach = slurm_reach,
	.describe = slurm_describe,
	.on_child = slurm_on_child,
	.on_timer = slurm_on_timer,
};

ESPL_PLUGIN(cloud, slurm) = {
	ESPL_HEAD(ESPL_CLOUD, "slurm"),
	.version = "1",
	.summary = "nodes of a Slurm cluster, as jobs or inside an allocation",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = slurm_create,
	.destroy = slurm_destroy,
};
