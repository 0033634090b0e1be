/* cloud_ssh.c - machines of your own, reached by ssh.
 *
 * A lease is a whole host. Hosts with the same GPUs and price are one offer. At start every host is
 * tried (cloud_ssh_try.c); before a lease is ready its host is asked whether another run uses it.
 * The lock itself is held by the agent (cloud_ssh_commands.c), so a lease and its lock end
 * together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_ssh.h"

static const struct espl_option columns[] = {
	[SSH_COL_NAME] = { .name = "name",
	    .help = "name of the host in messages and reports",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[SSH_COL_ADDRESS] = { .name = "address",
	    .help = "host name, address or alias of ssh_config; default: name",
	    .type = ESPL_OPT_STRING },
	[SSH_COL_USER] = { .name = "user",
	    .help = "user to log in as; default: from ssh_config",
	    .type = ESPL_OPT_STRING },
	[SSH_COL_PORT] = { .name = "port",
	    .help = "port of sshd; default: from ssh_config",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "65535" },
	[SSH_COL_KEY] = { .name = "key",
	    .help = "private key file; default: from ssh_config",
	    .type = ESPL_OPT_STRING },
	[SSH_COL_GPUS] = { .name = "gpus",
	    .help = "number of GPUs to use, or of slots if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4096" },
	[SSH_COL_TYPE] = { .name = "gpu_type",
	    .help = "GPU model; \"cpu\": slots on the cores instead of GPUs",
	    .type = ESPL_OPT_STRING,
	    .fallback = "gpu" },
	[SSH_COL_MEMORY] = { .name = "memory",
	    .help = "memory of the host; 0: unknown",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .min = "0" },
	[SSH_COL_PRICE] = { .name = "price_gpu_hour",
	    .help = "price in dollars per GPU-hour",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
};
static const struct espl_option words[] = {
	{ .name = "word",
	    .help = "program or argument",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	[SSH_OPT_HOSTS] = { .name = "hosts",
	    .help = "list of hosts, one group each; may be in a file of its own: "
		    "hosts = ( @include \"FILE\" )",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = SSH_COL_COUNT,
	    .flags = ESPL_OPT_REQUIRED },
	[SSH_OPT_SSH] = { .name = "ssh",
	    .help = "program to use for ssh, with its first arguments; default: ( \"ssh\" )",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1 },
	[SSH_OPT_LIMIT] = { .name = "connect_limit",
	    .help = "longest time to wait for a connection",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "15s",
	    .min = "1s",
	    .max = "1h" },
	[SSH_OPT_AGENT] = { .name = "agent",
	    .help = "path of espalier-agent on the hosts; default: it is sent to hosts that do not "
		    "have the same one at the same path as this machine",
	    .type = ESPL_OPT_STRING },
	[SSH_OPT_MINIMUM] = { .name = "minimum_charge",
	    .help = "minimum time charged per lease",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
};

/* ---- start ---- */

static espl_status
ssh_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	(void)error;
	return cloud_ssh_offers_report(self, events, ESPL_ANY, 0);
}

/* Short: the name of a Unix socket has at most 107 characters, and ssh adds some for a while.
 * Without a folder every command has its own connection. */
static void
make_folder(struct ssh_cloud *cloud)
{
	const char *tmp = getenv("TMPDIR");

	if (tmp == NULL || tmp[0] != '/' || strlen(tmp) > 50)
		tmp = "/tmp";
	(void)snprintf(cloud->folder, sizeof cloud->folder, "%s/espalier-ssh-XXXXXX", tmp);
	if (mkdtemp(cloud->folder) == NULL)
		cloud->folder[0] = '\0';
}

static espl_status
ssh_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct ssh_cloud *cloud = self;

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = events;
	if (cloud->run != NULL)
		make_folder(cloud);
	cloud_ssh_try_begin(cloud);
	return ESPL_OK;
}

/* ---- leases ---- */

static void
report_node(const struct ssh_cloud *cloud, const struct ssh_host *host, uint64_t lease,
    espl_node_state state, espl_reason reason, const char *text)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = lease;
	event.reason = reason;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = state == ESPL_NODE_READY ? ssh_gpus(host) : ESPL_ANY;
	event.charged = -1;
	event.text = text;
	event.machine = host != NULL ? ssh_name(host) : NULL;
	if (state == ESPL_NODE_READY) {
		event.token = host->wish.token;
		event.provider_id = ssh_name(host);
		event.address = host->address[0] != '\0' ? host->address : ssh_address(host);
		event.detail = host->devices;
	}
	(void)cloud->events->node(cloud->events, &event);
}

static struct ssh_host *
host_of(const struct ssh_cloud *cloud, const char *token)
{
	for (uint32_t i = 0; i < cloud->count; i++)
		if (cloud->hosts[i].wish.lease != ESPL_NONE &&
		    strcmp(cloud->hosts[i].wish.token, token) == 0)
			return &cloud->hosts[i];
	return NULL;
}

static void
free_host(struct ssh_host *host)
{
	host->wish.lease = ESPL_NONE;
	host->ready = 0;
}

static int
comes_before(const struct ssh_host *a, const struct ssh_host *b)
{
	return a->avoided != b->avoided ? a->avoided < b->avoided : a->turn < b->turn;
}

/* The free host that was tried longest ago, so that one that fails is not tried again at once; of
 * those that are to be avoided only if there is no other. */
static struct ssh_host *
next_host(const struct ssh_cloud *cloud, const struct ssh_wish *wish, uint32_t offer)
{
	struct ssh_host *best = NULL;

	for (uint32_t i = 0; i < cloud->count; i++) {
		struct ssh_host *host = &cloud->hosts[i];

		if (host->offer == offer && host->usable && host->wish.lease == ESPL_NONE &&
		    host->command == SSH_IDLE && host->turn < wish->since &&
		    (best == NULL || comes_before(host, best)))
			best = host;
	}
	return best;
}

static int
is_leased(const struct ssh_cloud *cloud)
{
	uint32_t i = 0;

	while (i < cloud->count && !cloud->hosts[i].ready)
		i++;
	return i < cloud->count;
}

/* Asks the next host whether it is free; without one the lease ends, and 0 is returned.  A host in
 * use may become free, and one that cannot be reached may return: both are worth waiting for while
 * trials run on others. */
static int
try_next(struct ssh_cloud *cloud, const struct ssh_wish *wish, uint32_t offer, const char *last)
{
	struct ssh_host *host = next_host(cloud, wish, offer);

	if (host != NULL) {
		host->turn = ++cloud->turn;
		host->wish = *wish;
		host->failure = 0;
		host->failures = 0;
		cloud_ssh_try_want(cloud, host, SSH_LOOK, 0);
		return 1;
	}
	report_node(cloud, NULL, wish->lease, ESPL_NODE_ENDED,
	    last == NULL || wish->in_use || is_leased(cloud) ? ESPL_BY_CAPACITY : ESPL_BY_FAULT,
	    last != NULL ? last : "all hosts of this offer are leased");
	return 0;
}

/* The next host, if there is one; else the end of the lease tells why. */
static void
pass_over(struct ssh_cloud *cloud, struct ssh_host *host, int used, const char *text)
{
	struct ssh_wish wish = host->wish;
	char named[SSH_TEXT + 120];

	free_host(host);
	wish.in_use |= used;
	(void)snprintf(named, sizeof named, "host '%.80s': %s", ssh_name(host), text);
	if (try_next(cloud, &wish, host->offer, named))
		ssh_tell(cloud, ESPL_WARN, host, text);
}

static void
take_look(struct ssh_cloud *cloud, struct ssh_host *host, const struct espl_child *child)
{
	char text[SSH_TEXT];
	int used;

	host->failure = cloud_ssh_answer_look(cloud, host, child, &used, text);
	if (host->failure == 0) {
		host->ready = 1;
		report_node(cloud, host, host->wish.lease, ESPL_NODE_READY, 0, NULL);
	} else if (host->failure == SSH_CLOSED && ++host->failures < SSH_TRIES) {
		cloud_ssh_try_want(cloud, host, SSH_LOOK, cloud_ssh_try_pause(cloud, host));
	} else {
		pass_over(cloud, host, used, text);
	}
}

static void
run_due(struct ssh_cloud *cloud)
{
	struct ssh_host *host;

	while ((host = cloud_ssh_try_due(cloud)) != NULL)
		pass_over(cloud, host, 0, "ssh cannot be started");
}

static void
ssh_on_child(void *self, const struct espl_child *child)
{
	struct ssh_cloud *cloud = self;
	struct ssh_host *host = child->cookie < cloud->count ? &cloud->hosts[child->cookie] : NULL;
	enum ssh_command command = host != NULL ? host->command : SSH_IDLE;

	if (command == SSH_IDLE)
		return;
	host->command = SSH_IDLE;
	if (command == SSH_LOOK)
		take_look(cloud, host, child);
	else
		cloud_ssh_try_child(cloud, host, command, child);
	run_due(cloud);
}

static void
ssh_on_timer(void *self, uint64_t cookie)
{
	struct ssh_cloud *cloud = self;

	if (cookie != SSH_TIMER)
		return;
	cloud->timer_at = ESPL_NEVER;
	run_due(cloud);
}

static void
mark_avoided(const struct ssh_cloud *cloud, const struct espl_acquire *wanted)
{
	for (uint32_t i = 0; i < cloud->count; i++)
		cloud->hosts[i].avoided = cloud_avoids(wanted, ssh_name(&cloud->hosts[i]));
}

static espl_status
ssh_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct ssh_cloud *cloud = self;

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		const struct ssh_host *host = host_of(cloud, list[i]->token);
		struct ssh_wish wish = { .lease = list[i]->lease, .since = cloud->turn + 1 };

		if (host != NULL) { /* asked again: the same host */
			if (host->ready)
				report_node(cloud, host, wish.lease, ESPL_NODE_READY, 0, NULL);
			continue;
		}
		(void)snprintf(wish.token, sizeof wish.token, "%s", list[i]->token);
		mark_avoided(cloud, list[i]);
		(void)try_next(cloud, &wish, cloud_ssh_offers_find(cloud, list[i]->offer), NULL);
	}
	run_due(cloud);
	return ESPL_OK;
}

static espl_status
ssh_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct ssh_cloud *cloud = self;

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		struct ssh_host *host = host_of(cloud, list[i]->token);

		if (host != NULL) {
			cloud_ssh_try_forget(cloud, host);
			free_host(host);
			if (!host->usable) /* it was adopted, and has not answered yet */
				(void)cloud_ssh_offers_report(cloud, cloud->events, host->offer, 1);
		}
		report_node(cloud, NULL, list[i]->lease, ESPL_NODE_ENDED, ESPL_BY_USER, NULL);
	}
	run_due(cloud);
	return ESPL_OK;
}

static struct ssh_host *
named_host(const struct ssh_cloud *cloud, const char *name)
{
	for (uint32_t i = 0; name != NULL && i < cloud->count; i++)
		if (strcmp(ssh_name(&cloud->hosts[i]), name) == 0)
			return &cloud->hosts[i];
	return NULL;
}

/* The agent of the earlier driver ends by itself; ours waits for its lock.  A host that does not
 * answer now is not given up for that: the session to it has its own patience. */
static espl_status
ssh_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct ssh_cloud *cloud = self;

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		struct ssh_host *host = named_host(cloud, list[i]->provider_id);

		if (host == NULL || host->failure == SSH_UNFIT || host->wish.lease != ESPL_NONE) {
			report_node(cloud, NULL, list[i]->lease, ESPL_NODE_ENDED, ESPL_BY_FAULT,
			    "its host can no longer be used");
			continue;
		}
		host->wish.lease = list[i]->lease;
		(void)snprintf(host->wish.token, sizeof host->wish.token, "%s", list[i]->token);
		host->ready = 1;
		if (!host->usable)
			(void)cloud_ssh_offers_report(cloud, cloud->events, host->offer, 1);
		report_node(cloud, host, list[i]->lease, ESPL_NODE_READY, 0, NULL);
	}
	return ESPL_OK;
}

/* Hosts carry no label of ours but the lock, which ends with the run: what this process holds. */
static espl_status
ssh_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	const struct ssh_cloud *cloud = self;

	(void)run;
	(void)error;
	for (uint32_t i = 0; i < cloud->count; i++)
		if (cloud->hosts[i].ready)
			report_node(cloud, &cloud->hosts[i], cloud->hosts[i].wish.lease,
			    ESPL_NODE_READY, 0, NULL);
	if (cloud->events != NULL)
		cloud->events->done(cloud->events, what, ESPL_OK, "");
	return ESPL_OK;
}

static espl_status
ssh_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const struct ssh_cloud *cloud = self;
	const struct ssh_host *host = named_host(cloud, lease->provider_id);
	struct cloud_words list;
	espl_status status;

	if (host == NULL)
		return espl_fail(error, ESPL_E_UNKNOWN, "no host '%s' is configured",
		    lease->provider_id != NULL ? lease->provider_id : "");
	list = cloud_ssh_words_agent(cloud, host, lease);
	if (list.list == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (cloud->config->values[SSH_OPT_AGENT].source != ESPL_UNSET && sink->agent != NULL)
		sink->agent(sink, "espalier-agent"); /* the script knows its path */
	status = sink->argv(sink, (const char *const *)list.list, list.count);
	cloud_words_free(&list);
	return status;
}

/* ---- the instance ---- */

static void
ssh_destroy(void *self)
{
	struct ssh_cloud *cloud = self;
	char path[160];

	for (uint32_t i = 0; i < cloud->count; i++) {
		(void)snprintf(path, sizeof path, "%s/%u", cloud->folder, i);
		if (cloud->folder[0] != '\0')
			(void)unlink(path); /* its ssh may have been killed */
		free(cloud->hosts[i].devices);
	}
	if (cloud->folder[0] != '\0')
		(void)rmdir(cloud->folder);
	free(cloud->hosts);
	free(cloud);
}

static espl_status
blame_host(struct espl_error *error, uint32_t row, const char *text, const char *name)
{
	if (error != NULL && error->status == ESPL_OK) {
		error->option = SSH_OPT_HOSTS;
		error->row = row;
	}
	return espl_fail(error, ESPL_E_CONFIG, text, name);
}

/* Nothing that ssh or the shell would take for something else than it is. */
static int
is_plain(const struct espl_value *value)
{
	if (value->source == ESPL_UNSET)
		return 1;
	if (value->as.s[0] == '\0' || value->as.s[0] == '-')
		return 0;
	for (const char *c = value->as.s; *c != '\0'; c++)
		if ((unsigned char)*c <= ' ' || *c == 127)
			return 0;
	return 1;
}

static espl_status
check_host(const struct ssh_cloud *cloud, uint32_t row, struct espl_error *error)
{
	const struct ssh_host *host = &cloud->hosts[row];

	if (!is_plain(&host->row[SSH_COL_NAME]) || !is_plain(&host->row[SSH_COL_ADDRESS]) ||
	    !is_plain(&host->row[SSH_COL_USER]))
		return blame_host(error, row,
		    "host '%s': name, address and user must not be empty, begin with '-' or "
		    "contain spaces",
		    ssh_name(host));
	if (!is_plain(&host->row[SSH_COL_TYPE]))
		return blame_host(error, row, "host '%s': gpu_type must be one word",
		    ssh_name(host));
	for (uint32_t i = 0; i < row; i++)
		if (strcmp(ssh_name(&cloud->hosts[i]), ssh_name(host)) == 0)
			return blame_host(error, row, "host '%s' is listed twice", ssh_name(host));
	return ESPL_OK;
}

static espl_status
ssh_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_table *table = config->values[SSH_OPT_HOSTS].source != ESPL_UNSET
	    ? config->values[SSH_OPT_HOSTS].as.table
	    : NULL;
	struct ssh_cloud *cloud;
	espl_status status = ESPL_OK;

	if (table == NULL || table->row_count == 0)
		return espl_blame(error, SSH_OPT_HOSTS, "'hosts' is empty");
	cloud = calloc(1, sizeof *cloud);
	if (cloud != NULL)
		cloud->hosts = calloc(table->row_count, sizeof *cloud->hosts);
	if (cloud == NULL || cloud->hosts == NULL) {
		free(cloud);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	cloud->host = host;
	cloud->config = config;
	cloud->io = host->service(host, ESPL_IO);
	cloud->run = host->service(host, ESPL_RUN);
	cloud->count = table->row_count;
	for (uint32_t i = 0; i < cloud->count && status == ESPL_OK; i++) {
		cloud->hosts[i].row = table->cells + (size_t)i * table->column_count;
		cloud->hosts[i].wish.lease = ESPL_NONE;
		status = check_host(cloud, i, error);
	}
	if (status != ESPL_OK) {
		ssh_destroy(cloud);
		return status;
	}
	cloud_ssh_offers_number(cloud);
	*self = cloud;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = ssh_start,
	.acquire = ssh_acquire,
	.release = ssh_release,
	.adopt = ssh_adopt,
	.owned = ssh_owned,
	.reach = ssh_reach,
	.describe = ssh_describe,
	.on_child = ssh_on_child,
	.on_timer = ssh_on_timer,
};

ESPL_PLUGIN(cloud, ssh) = {
	ESPL_HEAD(ESPL_CLOUD, "ssh"),
	.version = "1",
	.summary = "machines of your own, reached by ssh",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = ssh_create,
	.destroy = ssh_destroy,
};
