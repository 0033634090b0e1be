/* cloud_ssh.c - machines of your own, reached by ssh.
 *
 * A lease is a whole host. Hosts with the same GPUs and price are one offer. At start every host is
 * tried; before a lease is ready its host is asked whether another run uses it. The lock itself is
 * held by the agent (cloud_ssh_commands.c), so a lease and its lock end together.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_ssh.h"

#define PROBES_MOST 16u /* at the same time */

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

static void
log_host(const struct ssh_cloud *cloud, espl_level level, const struct ssh_host *host,
    const char *text)
{
	char line[SSH_TEXT + 120];

	(void)snprintf(line, sizeof line, "host '%.80s': %s", ssh_name(host), text);
	cloud->host->log(cloud->host, level, line);
}

/* ---- offers ---- */

static int
same_offer(const struct ssh_host *a, const struct ssh_host *b)
{
	return ssh_gpus(a) == ssh_gpus(b) &&
	    strcmp(a->row[SSH_COL_TYPE].as.s, b->row[SSH_COL_TYPE].as.s) == 0 &&
	    a->row[SSH_COL_MEMORY].as.i == b->row[SSH_COL_MEMORY].as.i &&
	    a->row[SSH_COL_PRICE].as.i == b->row[SSH_COL_PRICE].as.i;
}

static void
number_offers(struct ssh_cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->count; i++) {
		uint32_t k;

		for (k = 0; k < i && !same_offer(&cloud->hosts[k], &cloud->hosts[i]); k++)
			continue;
		cloud->hosts[i].offer = k < i ? cloud->hosts[k].offer : cloud->offer_count++;
	}
}

static const struct ssh_host *
first_of(const struct ssh_cloud *cloud, uint32_t offer)
{
	uint32_t i = 0;

	while (cloud->hosts[i].offer != offer)
		i++;
	return &cloud->hosts[i];
}

/* "4xA100"; with a number if memory or price tells several apart. */
static void
name_offer(const struct ssh_cloud *cloud, uint32_t offer, char name[80])
{
	const struct ssh_host *first = first_of(cloud, offer);
	uint32_t alike = 1;
	int size = snprintf(name, 80, "%ux%.50s", ssh_gpus(first), first->row[SSH_COL_TYPE].as.s);

	for (uint32_t i = 0; i < offer; i++) {
		const struct ssh_host *other = first_of(cloud, i);

		alike += ssh_gpus(other) == ssh_gpus(first) &&
		    strcmp(other->row[SSH_COL_TYPE].as.s, first->row[SSH_COL_TYPE].as.s) == 0;
	}
	if (alike > 1)
		(void)snprintf(name + size, 80 - (size_t)size, "-%u", alike);
}

/* usable_only: hosts that failed their probe do not count; an offer without any is withdrawn. */
static espl_status
report_offers(const struct ssh_cloud *cloud, const struct espl_cloud_events *events,
    int usable_only)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	static const struct espl_latency init = { .size = sizeof init,
		.kind = ESPL_CONSTANT,
		.mean_s = 1 };
	espl_status status = ESPL_OK;

	for (uint32_t o = 0; o < cloud->offer_count && status == ESPL_OK; o++) {
		const struct ssh_host *first = first_of(cloud, o);
		struct espl_offer offer = ESPL_INIT(struct espl_offer);
		char name[80];

		name_offer(cloud, o, name);
		for (uint32_t i = 0; i < cloud->count; i++)
			offer.nodes_max +=
			    cloud->hosts[i].offer == o && (!usable_only || cloud->hosts[i].usable);
		if (offer.nodes_max == 0)
			offer.flags = ESPL_OFFER_GONE;
		offer.number = ESPL_ANY;
		offer.gpus = ssh_gpus(first);
		offer.name = name;
		offer.market = "own";
		offer.gpu_type = first->row[SSH_COL_TYPE].as.s;
		offer.zone = "";
		offer.memory_bytes = (uint64_t)first->row[SSH_COL_MEMORY].as.i;
		offer.price_hour = first->row[SSH_COL_PRICE].as.i * ssh_gpus(first);
		offer.fixed_price_hour = offer.price_hour;
		offer.billing = ESPL_BILL_NODE;
		offer.billed_from = ESPL_BILL_FROM_READY;
		offer.billing_step = ESPL_SECOND;
		offer.minimum_charge = cloud->config->values[SSH_OPT_MINIMUM].as.i;
		offer.provision = &none;
		offer.init = &init;
		offer.hazard_hour = NAN;
		status = events->offer(events, &offer);
	}
	return status;
}

static espl_status
ssh_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	(void)error;
	return report_offers(self, events, 0);
}

/* ---- commands ---- */

/* The answer comes under the number of the host. */
static espl_status
run_command(struct ssh_cloud *cloud, struct ssh_host *host, enum ssh_command command)
{
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	struct cloud_words list = command == SSH_PROBE
	    ? cloud_ssh_words_probe(cloud, host)
	    : cloud_ssh_words_look(cloud, host, host->wish.token);
	espl_status status = ESPL_E_NOMEM;

	if (list.list != NULL) {
		spawn.argc = list.count;
		spawn.argv = (const char *const *)list.list;
		spawn.limit = cloud->config->values[SSH_OPT_LIMIT].as.i + SSH_ANSWER_MORE;
		spawn.cookie = (uint64_t)(host - cloud->hosts);
		status = cloud->io->spawn(cloud->io, &spawn, NULL);
	}
	if (status == ESPL_OK)
		host->command = command;
	cloud_words_free(&list);
	return status;
}

/* ---- start ---- */

static void
end_start(struct ssh_cloud *cloud)
{
	char text[SSH_TEXT + 200];
	uint32_t usable = 0;

	for (uint32_t i = 0; i < cloud->count; i++)
		usable += cloud->hosts[i].usable != 0;
	(void)report_offers(cloud, cloud->events, 1);
	if (usable > 0) {
		cloud->events->done(cloud->events, 0, ESPL_OK, "");
		return;
	}
	if (cloud->count == 1)
		(void)snprintf(text, sizeof text, "%s", cloud->why);
	else
		(void)snprintf(text, sizeof text,
		    "none of the %u hosts can be used; the last one: %s", cloud->count, cloud->why);
	cloud->events->done(cloud->events, 0, ESPL_E_REMOTE, text);
}

static void
fail_probe(struct ssh_cloud *cloud, const struct ssh_host *host, const char *text)
{
	(void)snprintf(cloud->why, sizeof cloud->why, "host '%.80s': %s", ssh_name(host), text);
	if (cloud->count > 1)
		log_host(cloud, ESPL_WARN, host, text);
}

static void
probe_more(struct ssh_cloud *cloud)
{
	while (cloud->asked < cloud->count && cloud->asked - cloud->answered < PROBES_MOST) {
		struct ssh_host *host = &cloud->hosts[cloud->asked++];

		if (run_command(cloud, host, SSH_PROBE) != ESPL_OK) {
			cloud->answered++;
			fail_probe(cloud, host, "ssh cannot be started");
		}
	}
	if (cloud->answered == cloud->count)
		end_start(cloud);
}

static void
take_probe(struct ssh_cloud *cloud, struct ssh_host *host, const struct espl_child *child)
{
	char text[SSH_TEXT];

	cloud->answered++;
	host->usable = cloud_ssh_answer_probe(cloud, host, child, text) == 0;
	if (host->usable)
		log_host(cloud, ESPL_INFO, host, text);
	else
		fail_probe(cloud, host, text);
	probe_more(cloud);
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
	probe_more(cloud);
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

/* The free host that was tried longest ago, so that one that fails is not tried again at once. */
static struct ssh_host *
next_host(const struct ssh_cloud *cloud, const struct ssh_wish *wish, uint32_t offer)
{
	struct ssh_host *best = NULL;

	for (uint32_t i = 0; i < cloud->count; i++) {
		struct ssh_host *host = &cloud->hosts[i];

		if (host->offer == offer && host->usable && host->wish.lease == ESPL_NONE &&
		    host->command == SSH_IDLE && host->turn < wish->since &&
		    (best == NULL || host->turn < best->turn))
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
	struct ssh_host *host;

	while ((host = next_host(cloud, wish, offer)) != NULL) {
		host->turn = ++cloud->turn;
		host->wish = *wish;
		if (run_command(cloud, host, SSH_LOOK) == ESPL_OK)
			return 1;
		free_host(host);
	}
	report_node(cloud, NULL, wish->lease, ESPL_NODE_ENDED,
	    last == NULL || wish->in_use || is_leased(cloud) ? ESPL_BY_CAPACITY : ESPL_BY_FAULT,
	    last != NULL ? last : "all hosts of this offer are leased");
	return 0;
}

static void
take_look(struct ssh_cloud *cloud, struct ssh_host *host, const struct espl_child *child)
{
	char text[SSH_TEXT], named[SSH_TEXT + 120];
	struct ssh_wish wish = host->wish;
	int answer = cloud_ssh_answer_look(cloud, host, child, text);

	if (answer == 0) {
		host->ready = 1;
		report_node(cloud, host, wish.lease, ESPL_NODE_READY, 0, NULL);
		return;
	}
	free_host(host);
	wish.in_use |= answer > 0;
	(void)snprintf(named, sizeof named, "host '%.80s': %s", ssh_name(host), text);
	if (try_next(cloud, &wish, host->offer, named)) /* else the end of the lease tells it */
		log_host(cloud, ESPL_WARN, host, text);
}

static void
ssh_on_child(void *self, const struct espl_child *child)
{
	struct ssh_cloud *cloud = self;
	struct ssh_host *host = child->cookie < cloud->count ? &cloud->hosts[child->cookie] : NULL;
	enum ssh_command command = host != NULL ? host->command : SSH_IDLE;

	if (host == NULL)
		return;
	host->command = SSH_IDLE;
	if (command == SSH_PROBE)
		take_probe(cloud, host, child);
	else if (command == SSH_LOOK)
		take_look(cloud, host, child);
}

static uint32_t
find_offer(const struct ssh_cloud *cloud, const char *name)
{
	char own[80];

	for (uint32_t o = 0; o < cloud->offer_count; o++) {
		name_offer(cloud, o, own);
		if (strcmp(own, name) == 0)
			return o;
	}
	return ESPL_ANY;
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
		(void)try_next(cloud, &wish, find_offer(cloud, list[i]->offer), NULL);
	}
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

		if (host != NULL && host->command != SSH_IDLE) {
			cloud->io->cancel(cloud->io, (uint64_t)(host - cloud->hosts));
			host->command = SSH_IDLE;
		}
		if (host != NULL)
			free_host(host);
		report_node(cloud, NULL, list[i]->lease, ESPL_NODE_ENDED, ESPL_BY_USER, NULL);
	}
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

/* The agent of the earlier driver ends by itself; ours waits for its lock. */
static espl_status
ssh_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct ssh_cloud *cloud = self;

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		struct ssh_host *host = named_host(cloud, list[i]->provider_id);

		if (host == NULL || !host->usable || host->wish.lease != ESPL_NONE) {
			report_node(cloud, NULL, list[i]->lease, ESPL_NODE_ENDED, ESPL_BY_FAULT,
			    "its host can no longer be used");
			continue;
		}
		host->wish.lease = list[i]->lease;
		(void)snprintf(host->wish.token, sizeof host->wish.token, "%s", list[i]->token);
		host->ready = 1;
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
	number_offers(cloud);
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
