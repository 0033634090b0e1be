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
	cloud->events = cloud->leases.events = events;
	if (cloud->run != NULL)
		make_folder(cloud);
	cloud_ssh_try_begin(cloud);
	return ESPL_OK;
}

/* ---- what the machine of leases wants ---- */

static espl_time
now_of(const struct ssh_cloud *cloud)
{
	return cloud->host->now(cloud->host);
}

static struct ssh_lease *
lease_of(struct espl_leased *lease)
{
	return (struct ssh_lease *)lease;
}

/* An end says nothing of the host: what it is of no use for has been logged. */
static void
fill_event(const void *self, const struct espl_leased *lease, struct espl_node_event *event)
{
	(void)self;
	event->machine = event->state != ESPL_NODE_ENDED ? lease->id : NULL;
	if (event->state == ESPL_NODE_ENDED)
		event->provider_id = event->address = event->detail = NULL;
	if (event->state == ESPL_NODE_READY)
		event->gpus = ssh_gpus(((const struct ssh_lease *)lease)->host);
}

static struct espl_lease_row
host_row(const struct ssh_host *host, const struct espl_leased *lease, enum espl_lease_stage stage)
{
	struct espl_lease_row row = espl_lease_row(lease->token, stage);

	row.id = ssh_name(host);
	row.address = host->address[0] != '\0' ? host->address : ssh_address(host);
	row.detail = host->devices;
	return row;
}

static int
comes_before(const struct ssh_host *a, const struct ssh_host *b)
{
	return a->avoided != b->avoided ? a->avoided < b->avoided : a->turn < b->turn;
}

/* The free host that was tried longest ago, so that one that fails is not tried again at once; of
 * those that are to be avoided only if there is no other. */
static struct ssh_host *
next_host(const struct ssh_cloud *cloud, const struct ssh_lease *lease)
{
	struct ssh_host *best = NULL;

	for (uint32_t i = 0; i < cloud->count; i++) {
		struct ssh_host *host = &cloud->hosts[i];

		if (host->offer == lease->offer && host->usable && host->lease == NULL &&
		    host->command == SSH_IDLE && host->turn < lease->since &&
		    (best == NULL || comes_before(host, best)))
			best = host;
	}
	return best;
}

static int
has_leased(const struct ssh_cloud *cloud)
{
	uint32_t i = 0;

	while (i < cloud->count && !ssh_is_leased(&cloud->hosts[i]))
		i++;
	return i < cloud->count;
}

/* No host is left.  One in use may become free, and one that cannot be reached may return: both are
 * worth waiting for while trials run on others. */
static void
refuse_lease(struct ssh_cloud *cloud, struct ssh_lease *lease)
{
	char text[SSH_TEXT + 120] = "all hosts of this offer are leased";

	if (lease->passed != NULL)
		(void)snprintf(text, sizeof text, "host '%.80s': %s", ssh_name(lease->passed),
		    lease->why);
	espl_leases_refused(&cloud->leases, &lease->lease, ESPL_DID_REFUSE,
	    lease->passed == NULL || lease->in_use || has_leased(cloud) ? ESPL_BY_CAPACITY
									: ESPL_BY_FAULT,
	    text, 0, now_of(cloud));
}

/* Takes the next host; `probe` asks whether it is free. */
static espl_status
take_host(void *self, struct espl_leased *leased)
{
	struct ssh_cloud *cloud = self;
	struct ssh_lease *lease = lease_of(leased);
	struct ssh_host *host = next_host(cloud, lease);
	struct espl_lease_row row;

	if (host == NULL) {
		refuse_lease(cloud, lease);
		return ESPL_OK;
	}
	if (lease->passed != NULL)
		ssh_tell(cloud, ESPL_WARN, lease->passed, lease->why);
	host->turn = ++cloud->turn;
	host->failure = 0;
	host->failures = 0;
	host->lease = lease;
	lease->host = host;
	row = host_row(host, leased, ESPL_STAGE_JOINING);
	espl_leases_made(&cloud->leases, leased, &row, now_of(cloud));
	return ESPL_OK;
}

static espl_status
look_at_host(void *self, struct espl_leased *lease)
{
	cloud_ssh_try_want(self, lease_of(lease)->host, SSH_LOOK, 0);
	return ESPL_OK;
}

static void
stop_looking(void *self, struct espl_leased *lease)
{
	if (lease_of(lease)->host != NULL)
		cloud_ssh_try_forget(self, lease_of(lease)->host);
}

static void
free_host(struct ssh_cloud *cloud, struct ssh_lease *lease)
{
	struct ssh_host *host = lease->host;

	lease->host = NULL;
	if (host == NULL)
		return;
	host->lease = NULL;
	if (!host->usable) /* it was adopted, and has not answered yet */
		(void)cloud_ssh_offers_report(cloud, cloud->events, host->offer, 1);
}

/* Nothing is to be paid for; the lock of the host ends with its agent. */
static espl_status
cancel_host(void *self, struct espl_leased *lease, const char *id)
{
	struct ssh_cloud *cloud = self;

	(void)id;
	free_host(cloud, lease_of(lease));
	espl_leases_cancelled(&cloud->leases, lease, ESPL_DID_FINE, "", -1, now_of(cloud));
	return ESPL_OK;
}

static void
drop_lease(void *self, struct espl_leased *lease)
{
	(void)self;
	if (lease_of(lease)->host != NULL)
		lease_of(lease)->host->lease = NULL;
}

static espl_status
set_timer(void *self, espl_span after)
{
	const struct ssh_cloud *cloud = self;

	cloud->io->cancel(cloud->io, SSH_LEASE_TIMER);
	return cloud->io->timer(cloud->io, after, SSH_LEASE_TIMER);
}

static const struct espl_lease_calls calls = { .ask = take_host,
	.cancel = cancel_host,
	.probe = look_at_host,
	.stop = stop_looking,
	.drop = drop_lease,
	.timer = set_timer,
	.fill = fill_event };
static const struct espl_lease_rules rules = { .provider = "ssh",
	.noun = "host",
	.missing = "its host can no longer be used",
	.asking = "request",
	.stuck = "cannot be released",
	.waits = { [ESPL_STAGE_JOINING] = "it has not said whether it is free" },
	.lost = ESPL_LOST_FINAL,
	.cancel_ends = 1 };

/* ---- answers ---- */

/* The next host, if there is one; else the end of the lease tells why. */
static void
pass_over(struct ssh_cloud *cloud, struct ssh_host *host, int used, const char *text)
{
	struct ssh_lease *lease = host->lease;

	lease->in_use |= used;
	lease->passed = host;
	(void)snprintf(lease->why, sizeof lease->why, "%s", text);
	lease->host = NULL;
	host->lease = NULL;
	espl_leases_again(&cloud->leases, &lease->lease, now_of(cloud));
}

static void
take_look(struct ssh_cloud *cloud, struct ssh_host *host, const struct espl_child *child)
{
	struct espl_leased *lease = &host->lease->lease;
	struct espl_lease_row row;
	char text[SSH_TEXT];
	int used;

	host->failure = cloud_ssh_answer_look(cloud, host, child, &used, text);
	if (host->failure == 0) {
		row = host_row(host, lease, ESPL_STAGE_NONE);
		espl_leases_seen(&cloud->leases, lease, &row, now_of(cloud));
		espl_leases_probed(&cloud->leases, lease, 1, "", now_of(cloud));
	} else if (host->failure == SSH_CLOSED && ++host->failures < SSH_TRIES) {
		cloud_ssh_try_want(cloud, host, SSH_LOOK, cloud_ssh_try_pause(cloud, host));
	} else {
		pass_over(cloud, host, used, text);
	}
}

/* Does what is due, for leases and for hosts. */
static void
do_due(struct ssh_cloud *cloud)
{
	struct ssh_host *host;

	espl_leases_due(&cloud->leases, now_of(cloud));
	while ((host = cloud_ssh_try_due(cloud)) != NULL) {
		pass_over(cloud, host, 0, "ssh cannot be started");
		espl_leases_due(&cloud->leases, now_of(cloud));
	}
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
	do_due(cloud);
}

static void
ssh_on_timer(void *self, uint64_t cookie)
{
	struct ssh_cloud *cloud = self;

	if (cookie == SSH_TIMER)
		cloud->timer_at = ESPL_NEVER;
	else
		espl_leases_timer(&cloud->leases, now_of(cloud));
	do_due(cloud);
}

/* ---- entries ---- */

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

	for (uint32_t i = 0; i < count; i++) {
		int fresh;
		struct espl_leased *lease =
		    espl_leases_acquire(&cloud->leases, list[i], &fresh, now_of(cloud));

		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (!fresh)
			continue;
		lease_of(lease)->offer = cloud_ssh_offers_find(cloud, list[i]->offer);
		lease_of(lease)->since = cloud->turn + 1;
		mark_avoided(cloud, list[i]);
		espl_leases_due(&cloud->leases, now_of(cloud));
	}
	do_due(cloud);
	return ESPL_OK;
}

static espl_status
ssh_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct ssh_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct espl_lease_row row = espl_lease_row(list[i]->token, ESPL_STAGE_NONE);
		struct espl_leased *lease =
		    espl_leases_release(&cloud->leases, list[i], now_of(cloud));

		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (lease->claimed) /* no host is held for it here */
			espl_leases_seen(&cloud->leases, lease, &row, now_of(cloud));
	}
	do_due(cloud);
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

	for (uint32_t i = 0; i < count; i++) {
		struct ssh_host *host = named_host(cloud, list[i]->provider_id);
		struct espl_leased *lease =
		    espl_leases_adopt(&cloud->leases, list[i], now_of(cloud));
		struct espl_lease_row row = espl_lease_row(list[i]->token, ESPL_STAGE_NONE);

		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (host == NULL || host->failure == SSH_UNFIT ||
		    (host->lease != NULL && host->lease != lease_of(lease))) {
			espl_leases_give_up(&cloud->leases, lease, ESPL_BY_FAULT,
			    "its host can no longer be used", now_of(cloud));
		} else {
			host->lease = lease_of(lease);
			host->lease->host = host;
			row = host_row(host, lease, ESPL_STAGE_READY);
			if (!host->usable)
				(void)cloud_ssh_offers_report(cloud, cloud->events, host->offer, 1);
		}
		espl_leases_seen(&cloud->leases, lease, &row, now_of(cloud));
	}
	espl_leases_due(&cloud->leases, now_of(cloud));
	return ESPL_OK;
}

/* Hosts carry no label of ours but the lock, which ends with the run: what this process holds. */
static espl_status
ssh_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	const struct ssh_cloud *cloud = self;

	(void)run;
	(void)error;
	for (uint32_t i = 0; i < cloud->count; i++) {
		struct espl_node_event event;

		if (!ssh_is_leased(&cloud->hosts[i]))
			continue;
		event = espl_leases_event(&cloud->hosts[i].lease->lease, ESPL_NODE_READY);
		fill_event(cloud, &cloud->hosts[i].lease->lease, &event);
		(void)cloud->events->node(cloud->events, &event);
	}
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

	espl_leases_free(&cloud->leases);
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
		status = check_host(cloud, i, error);
	}
	if (status != ESPL_OK) {
		ssh_destroy(cloud);
		return status;
	}
	cloud_ssh_offers_number(cloud);
	espl_leases_begin(&cloud->leases, &calls, &rules, cloud, host, sizeof(struct ssh_lease));
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
