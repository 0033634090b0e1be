/* cloud_command.c - machines of any provider, by three commands of the user's own.
 *
 * `acquire`, `release` and `list` read a JSON object and print one (docs/command.md). `list` runs
 * at the start, so that a command that cannot work is found before anything is leased, and then
 * again and again as long as there are leases.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_command.h"

static const struct espl_option columns[] = {
	[COMMAND_COL_NAME] = { .name = "name",
	    .help = "name of the offer; the command acquire gets it",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[COMMAND_COL_GPUS] = { .name = "gpus",
	    .help = "GPUs per machine, or slots if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4096" },
	[COMMAND_COL_TYPE] = { .name = "gpu_type",
	    .help = "GPU model; \"cpu\": slots on the cores instead of GPUs",
	    .type = ESPL_OPT_STRING,
	    .fallback = "gpu" },
	[COMMAND_COL_CPUS] = { .name = "cpus",
	    .help = "cores per machine; 0: unknown",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "65536" },
	[COMMAND_COL_MEMORY] = { .name = "memory",
	    .help = "memory per machine; 0: unknown",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .min = "0" },
	[COMMAND_COL_PRICE] = { .name = "price_hour",
	    .help = "price in dollars per machine-hour",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
	[COMMAND_COL_MARKET] = { .name = "market",
	    .help = "whether the provider may interrupt the machine (spot) or not",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "on-demand|spot",
	    .fallback = "on-demand" },
	[COMMAND_COL_NODES] = { .name = "nodes_max",
	    .help = "maximum number of machines of this offer at one time",
	    .type = ESPL_OPT_INT,
	    .flags = ESPL_OPT_REQUIRED,
	    .min = "1",
	    .max = "100000" },
	[COMMAND_COL_BOOT] = { .name = "boot",
	    .help = "time from the request until the machine is ready",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "60s" },
	[COMMAND_COL_MINIMUM] = { .name = "minimum_charge",
	    .help = "minimum time charged per lease",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s",
	    .min = "0s" },
	[COMMAND_COL_STEP] = { .name = "billing_step",
	    .help = "a lease is rounded up to a multiple of it",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "1s",
	    .min = "0s" },
};
static const struct espl_option words[] = {
	{ .name = "word",
	    .help = "program or argument",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	[COMMAND_OPT_ACQUIRE] = { .name = "acquire",
	    .help = "command that creates a machine: ( \"program\", \"argument\" )",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1,
	    .flags = ESPL_OPT_REQUIRED },
	[COMMAND_OPT_RELEASE] = { .name = "release",
	    .help = "command that ends a machine",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1,
	    .flags = ESPL_OPT_REQUIRED },
	[COMMAND_OPT_LIST] = { .name = "list",
	    .help = "command that lists machines",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1,
	    .flags = ESPL_OPT_REQUIRED },
	[COMMAND_OPT_REACH] = { .name = "reach",
	    .help = "command that runs another command on a machine, for example "
		    "( \"ssh\", \"{address}\" ); also {id} and {token}",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1,
	    .flags = ESPL_OPT_REQUIRED },
	[COMMAND_OPT_OFFERS] = { .name = "offers",
	    .help = "list of what can be leased, one group each",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = COMMAND_COL_COUNT,
	    .flags = ESPL_OPT_REQUIRED },
	[COMMAND_OPT_LIMIT] = { .name = "limit",
	    .help = "time limit of acquire, release and list",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "1s",
	    .max = "1h" },
	[COMMAND_OPT_POLL] = { .name = "poll",
	    .help = "time between two calls of list while there are machines",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "15s",
	    .min = "1s",
	    .max = "1h" },
};

/* ---- offers ---- */

static espl_status
command_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	const struct command_cloud *cloud = self;
	espl_status status = ESPL_OK;

	(void)error;
	for (uint32_t i = 0; i < cloud->offer_count && status == ESPL_OK; i++) {
		const struct espl_value *row = cloud->offers[i].row;
		struct espl_offer offer = ESPL_INIT(struct espl_offer);
		int spot = row[COMMAND_COL_MARKET].as.i == 1;

		offer.flags = spot ? ESPL_OFFER_REVOCABLE : 0;
		offer.number = ESPL_ANY;
		offer.gpus = (uint32_t)row[COMMAND_COL_GPUS].as.i;
		offer.cpus = (uint32_t)row[COMMAND_COL_CPUS].as.i;
		offer.nodes_max = (uint32_t)row[COMMAND_COL_NODES].as.i;
		offer.name = row[COMMAND_COL_NAME].as.s;
		offer.market = spot ? "spot" : "on-demand";
		offer.gpu_type = row[COMMAND_COL_TYPE].as.s;
		offer.zone = "";
		offer.memory_bytes = (uint64_t)row[COMMAND_COL_MEMORY].as.i;
		offer.price_hour = row[COMMAND_COL_PRICE].as.i;
		offer.fixed_price_hour = spot ? 0 : offer.price_hour;
		offer.billing = ESPL_BILL_NODE;
		offer.billed_from = ESPL_BILL_FROM_BOOT;
		offer.billing_step = row[COMMAND_COL_STEP].as.i;
		offer.minimum_charge = row[COMMAND_COL_MINIMUM].as.i;
		offer.provision = &none;
		offer.init = row[COMMAND_COL_BOOT].as.latency;
		offer.hazard_hour = NAN;
		status = events->offer(events, &offer);
	}
	return status;
}

/* ---- list ---- */

void
cloud_command_warn(struct command_cloud *cloud, const char *text)
{
	if (strcmp(cloud->warned, text) == 0)
		return;
	(void)snprintf(cloud->warned, sizeof cloud->warned, "%s", text);
	cloud->host->log(cloud->host, ESPL_WARN, text);
}

espl_status
cloud_command_list(const struct command_cloud *cloud, const char *run, uint64_t cookie)
{
	json_t *input = json_pack("{s:s?}", "run", run);

	return input != NULL ? cloud_command_spawn(cloud, COMMAND_OPT_LIST, input, cookie)
			     : ESPL_E_NOMEM;
}

static void
command_on_timer(void *self, uint64_t cookie)
{
	struct command_cloud *cloud = self;

	(void)cookie;
	espl_leases_timer(&cloud->leases, cloud->host->now(cloud->host));
}

/* The machines of an answer, to be released; NULL: it is none. */
static json_t *
read_list(const struct command_cloud *cloud, const struct espl_child *child,
    char text[COMMAND_TEXT])
{
	json_t *answer = cloud_command_answer(cloud, COMMAND_OPT_LIST, child, text);
	json_t *machines = json_object_get(answer, "machines");

	if (answer != NULL && !json_is_array(machines)) {
		(void)snprintf(text, COMMAND_TEXT, "'list' printed no array \"machines\"");
		machines = NULL;
	}
	for (size_t i = 0; i < json_array_size(machines); i++) {
		const json_t *one = json_array_get(machines, i);

		if (cloud_command_string(one, "id") != NULL &&
		    cloud_command_string(one, "token") != NULL &&
		    cloud_command_string(one, "state") != NULL)
			continue;
		(void)snprintf(text, COMMAND_TEXT,
		    "'list' printed a machine without id, token or state");
		machines = NULL;
	}
	json_incref(machines);
	json_decref(answer);
	return machines;
}

static void
replace_known(struct command_cloud *cloud, json_t *machines)
{
	json_decref(cloud->known);
	cloud->known = machines;
}

static void
take_list(struct command_cloud *cloud, const struct espl_child *child)
{
	char text[COMMAND_TEXT];
	json_t *machines = read_list(cloud, child, text);

	if (machines != NULL) {
		replace_known(cloud, machines);
		cloud_command_leases_listed(cloud);
	} else {
		espl_leases_unlisted(&cloud->leases, text, cloud->host->now(cloud->host));
	}
}

static void
take_owned(struct command_cloud *cloud, const struct espl_child *child)
{
	char text[COMMAND_TEXT] = "";
	json_t *machines = read_list(cloud, child, text);
	uint64_t what = cloud->owned_what;
	int64_t now_s = cloud->io->utc_ns(cloud->io) / ESPL_SECOND;

	for (size_t i = 0; i < json_array_size(machines); i++) {
		const json_t *one = json_array_get(machines, i);
		const char *state = cloud_command_string(one, "state");
		const json_t *age = json_object_get(one, "age_s");
		double age_s = json_is_number(age) ? json_number_value(age) : -1;
		struct espl_node_event event = ESPL_INIT(struct espl_node_event);

		if (strcmp(state, "ended") == 0)
			continue;
		event.state = strcmp(state, "ready") == 0 ? ESPL_NODE_READY
		    : strcmp(state, "notice") == 0        ? ESPL_NODE_NOTICE
							  : ESPL_NODE_BOOTING;
		event.lease = ESPL_NONE;
		event.token = cloud_command_string(one, "token");
		event.run = cloud_command_string(one, "run");
		event.provider_id = cloud_command_string(one, "id");
		event.address = cloud_command_string(one, "address");
		event.at = event.ends_at = ESPL_NEVER;
		event.gpus = ESPL_ANY;
		event.charged = -1;
		event.offer = cloud_command_string(one, "offer");
		event.market = cloud_command_string(one, "market");
		if (age_s >= 0 && age_s < 1e9)
			event.billed_utc_s = now_s - (int64_t)age_s;
		(void)cloud->events->node(cloud->events, &event);
	}
	cloud->owned_what = ESPL_NONE;
	cloud->events->done(cloud->events, what, machines != NULL ? ESPL_OK : ESPL_E_REMOTE, text);
	if (machines != NULL)
		replace_known(cloud, machines);
}

static espl_status
command_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct command_cloud *cloud = self;

	if (cloud->owned_what != ESPL_NONE)
		return espl_fail(error, ESPL_E_BUSY,
		    "an earlier request has not been answered yet");
	if (cloud_command_list(cloud, run, COMMAND_OWNED) != ESPL_OK)
		return espl_fail(error, ESPL_E_NOMEM, "'list' cannot be started");
	cloud->owned_what = what;
	return ESPL_OK;
}

static espl_status
command_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct command_cloud *cloud = self;

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = cloud->leases.events = events;
	(void)command_describe(self, events, error);
	if (cloud_command_list(cloud, NULL, COMMAND_START) != ESPL_OK)
		return espl_fail(error, ESPL_E_NOMEM, "'list' cannot be started");
	return ESPL_OK;
}

static void
end_start(struct command_cloud *cloud, const struct espl_child *child)
{
	char text[COMMAND_TEXT] = "";

	replace_known(cloud, read_list(cloud, child, text));
	cloud->events->done(cloud->events, 0, cloud->known != NULL ? ESPL_OK : ESPL_E_REMOTE, text);
}

static void
command_on_child(void *self, const struct espl_child *child)
{
	struct command_cloud *cloud = self;

	switch (child->cookie) {
	case COMMAND_START: end_start(cloud, child); break;
	case COMMAND_LIST: take_list(cloud, child); break;
	case COMMAND_OWNED: take_owned(cloud, child); break;
	default: cloud_command_leases_child(cloud, child); break;
	}
	cloud_command_leases_due(cloud);
}

/* ---- the instance ---- */

static void
command_destroy(void *self)
{
	struct command_cloud *cloud = self;

	espl_leases_free(&cloud->leases);
	json_decref(cloud->known);
	free(cloud->run);
	free(cloud->offers);
	free(cloud);
}

static espl_status
check_words(const struct command_cloud *cloud, struct espl_error *error)
{
	for (uint32_t option = 0; option <= COMMAND_OPT_REACH; option++) {
		const struct espl_table *table = command_table(cloud, option);

		if (table == NULL || table->row_count == 0 || table->cells[0].as.s[0] == '\0')
			return espl_blame(error, option, "there is no program in this list");
	}
	return ESPL_OK;
}

static espl_status
read_offers(struct command_cloud *cloud, struct espl_error *error)
{
	const struct espl_table *table = command_table(cloud, COMMAND_OPT_OFFERS);

	if (table == NULL || table->row_count == 0)
		return espl_blame(error, COMMAND_OPT_OFFERS, "'offers' is empty");
	cloud->offers = calloc(table->row_count, sizeof *cloud->offers);
	if (cloud->offers == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct espl_value *row = table->cells + (size_t)i * table->column_count;
		const char *market = row[COMMAND_COL_MARKET].as.i == 1 ? "spot" : "on-demand";

		if (cloud_command_offer(cloud, row[COMMAND_COL_NAME].as.s, market) != ESPL_ANY) {
			if (error != NULL && error->status == ESPL_OK) {
				error->option = COMMAND_OPT_OFFERS;
				error->row = i;
			}
			return espl_fail(error, ESPL_E_CONFIG, "offer '%s' (%s) is listed twice",
			    row[COMMAND_COL_NAME].as.s, market);
		}
		cloud->offers[i].row = row;
		cloud->offer_count = i + 1;
	}
	return ESPL_OK;
}

static espl_status
command_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct command_cloud *cloud = calloc(1, sizeof *cloud);
	espl_status status;

	if (cloud == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	cloud->host = host;
	cloud->config = config;
	cloud->io = host->service(host, ESPL_IO);
	cloud->owned_what = ESPL_NONE;
	status = check_words(cloud, error);
	if (status == ESPL_OK)
		status = read_offers(cloud, error);
	if (status != ESPL_OK) {
		command_destroy(cloud);
		return status;
	}
	cloud_command_leases_begin(cloud);
	*self = cloud;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = command_start,
	.acquire = cloud_command_acquire,
	.release = cloud_command_release,
	.adopt = cloud_command_adopt,
	.owned = command_owned,
	.reach = cloud_command_reach,
	.describe = command_describe,
	.on_child = command_on_child,
	.on_timer = command_on_timer,
};

ESPL_PLUGIN(cloud, command) = {
	ESPL_HEAD(ESPL_CLOUD, "command"),
	.version = "1",
	.summary = "machines of any provider, by commands of your own",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = command_create,
	.destroy = command_destroy,
};
