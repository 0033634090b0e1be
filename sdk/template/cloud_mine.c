/* cloud_mine.c - a cloud to begin with: machines of your own, listed by name, reached by ssh.
 *
 * Nothing is bought: acquire takes a free machine of the list, release gives it back.  It shows
 * what a cloud must provide: offers, states of leases as events, idempotence (a lease that is
 * acquired twice is one machine), adoption after a crash, and the command that reaches a node.  A
 * cloud that sends requests over the network does so through the service ESPL_IO
 * (espalier/cloud.h) and never blocks.
 *
 *	cc -shared -fPIC $(pkg-config --cflags espalier) -o cloud_mine.so cloud_mine.c
 *
 * In the configuration: cloud = { use = "mine"; hosts = ( ("red", 4), ("blue", 4) ); };
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/cloud.h>
#include <espalier/util.h>

enum { HOSTS, PRICE };
enum { NAME, GPUS, COLUMNS };

static const struct espl_option columns[] = {
	{ .name = "name",
	    .help = "name of the machine for ssh",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "gpus",
	    .help = "number of GPUs",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "64" },
};
static const struct espl_option options[] = {
	{ .name = "hosts",
	    .help = "list of (name, GPUs)",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = COLUMNS },
	{ .name = "price",
	    .help = "price of a machine in dollars per hour",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
};

struct machine {
	const char *name; /* lives as long as the configuration */
	uint32_t gpus, used;
	uint64_t lease;
	char token[65];
};
struct mine {
	const struct espl_cloud_events *events; /* from start on */
	struct machine *machines;
	uint32_t count;
	espl_money price_hour;
};

static void
destroy(void *self)
{
	struct mine *mine = self;

	free(mine->machines);
	free(mine);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_table *table =
	    config->values[HOSTS].source == ESPL_UNSET ? NULL : config->values[HOSTS].as.table;
	struct mine *mine = calloc(1, sizeof *mine);
	uint32_t i;

	(void)host;
	if (mine == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	mine->price_hour = config->values[PRICE].as.i;
	mine->count = table != NULL ? table->row_count : 0;
	mine->machines = calloc((size_t)mine->count + 1, sizeof *mine->machines);
	if (mine->machines == NULL) {
		destroy(mine);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	for (i = 0; i < mine->count; i++) {
		const struct espl_value *row = table->cells + (size_t)i * table->column_count;

		mine->machines[i].name = row[NAME].as.s;
		mine->machines[i].gpus = (uint32_t)row[GPUS].as.i;
		mine->machines[i].lease = ESPL_NONE;
	}
	*self = mine;
	return ESPL_OK;
}

/* Machines with as many GPUs are one offer: "gpus-4".  It must be told the same every time. */
static espl_status
describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	static const struct espl_latency none = { (uint32_t)sizeof none, ESPL_CONSTANT, 0, 0, NULL,
		0, 0 };
	const struct mine *mine = self;
	espl_status status = mine->count > 0 ? ESPL_OK : ESPL_E_UNKNOWN;
	uint32_t i, k;

	(void)error;
	for (i = 0; i < mine->count && status == ESPL_OK; i++) {
		struct espl_offer offer = ESPL_INIT(struct espl_offer);
		char name[32];

		for (k = 0; k < i && mine->machines[k].gpus != mine->machines[i].gpus; k++)
			;
		if (k < i)
			continue; /* told already */
		(void)snprintf(name, sizeof name, "gpus-%u", mine->machines[i].gpus);
		offer.number = ESPL_ANY; /* the host gives it */
		offer.gpus = offer.cpus = mine->machines[i].gpus;
		for (k = i; k < mine->count; k++)
			offer.nodes_max += mine->machines[k].gpus == mine->machines[i].gpus;
		offer.name = name;
		offer.market = "own";
		offer.gpu_type = offer.zone = "";
		offer.price_hour = offer.fixed_price_hour = mine->price_hour;
		offer.billing = ESPL_BILL_NODE;
		offer.billed_from = ESPL_BILL_FROM_READY;
		offer.billing_step = ESPL_SECOND;
		offer.provision = offer.init = &none;
		offer.hazard_hour = NAN; /* not known */
		status = events->offer(events, &offer);
	}
	return status;
}

static espl_status
start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct mine *mine = self;
	espl_status status = mine->count > 0 ? describe(self, events, error)
					     : espl_blame(error, HOSTS, "'hosts' is empty");

	mine->events = events;
	if (status == ESPL_OK)
		events->done(events, 0, ESPL_OK, "");
	return status;
}

/* Tells a state of a lease. */
static void
tell_state(const struct mine *mine, uint64_t lease, const char *token, espl_node_state state,
    espl_reason reason, const char *machine)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = lease;
	event.token = token;
	event.reason = reason;
	event.provider_id = event.address = machine;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY; /* as offered */
	event.charged = -1;
	(void)mine->events->node(mine->events, &event);
}

static struct machine *
by_token(struct mine *mine, const char *token)
{
	uint32_t i;

	for (i = 0; i < mine->count; i++)
		if (mine->machines[i].used && strcmp(mine->machines[i].token, token) == 0)
			return &mine->machines[i];
	return NULL;
}

static void
take_machine(struct machine *machine, uint64_t lease, const char *token)
{
	machine->used = 1;
	machine->lease = lease;
	(void)snprintf(machine->token, sizeof machine->token, "%s", token);
}

static espl_status
acquire(void *self, const struct espl_acquire *const *wanted, uint32_t count,
    struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t i, k;

	(void)error;
	for (i = 0; i < count; i++) {
		/* The same token again: the answer was lost, the machine is the same. */
		struct machine *machine = by_token(mine, wanted[i]->token);
		char name[32];

		for (k = 0; k < mine->count && machine == NULL; k++) {
			(void)snprintf(name, sizeof name, "gpus-%u", mine->machines[k].gpus);
			if (!mine->machines[k].used && strcmp(name, wanted[i]->offer) == 0)
				machine = &mine->machines[k];
		}
		if (machine == NULL) {
			tell_state(mine, wanted[i]->lease, wanted[i]->token, ESPL_NODE_ENDED,
			    ESPL_BY_CAPACITY, NULL);
			continue;
		}
		take_machine(machine, wanted[i]->lease, wanted[i]->token);
		tell_state(mine, machine->lease, machine->token, ESPL_NODE_READY, 0, machine->name);
	}
	return ESPL_OK;
}

static espl_status
release(void *self, const struct espl_lease *const *leases, uint32_t count,
    struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t i;

	(void)error;
	for (i = 0; i < count; i++) {
		struct machine *machine = by_token(mine, leases[i]->token);

		if (machine != NULL)
			machine->used = 0;
		tell_state(mine, leases[i]->lease, leases[i]->token, ESPL_NODE_ENDED, ESPL_BY_USER,
		    NULL);
	}
	return ESPL_OK;
}

/* After a restart of the driver: which machine a lease had is in its provider_id. */
static espl_status
adopt(void *self, const struct espl_lease *const *leases, uint32_t count, struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t i, k;

	(void)error;
	for (i = 0; i < count; i++) {
		const char *id = leases[i]->provider_id;

		for (k = 0; id != NULL && k < mine->count; k++)
			if (!mine->machines[k].used && strcmp(mine->machines[k].name, id) == 0)
				break;
		if (id == NULL || k == mine->count) {
			tell_state(mine, leases[i]->lease, leases[i]->token, ESPL_NODE_ENDED,
			    ESPL_BY_FAULT, NULL);
			continue;
		}
		take_machine(&mine->machines[k], leases[i]->lease, leases[i]->token);
		tell_state(mine, leases[i]->lease, leases[i]->token, ESPL_NODE_READY, 0, id);
	}
	return ESPL_OK;
}

/* The machines carry no label of ours: only this process knows what it took. */
static espl_status
owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	const struct mine *mine = self;
	uint32_t i;

	(void)run;
	(void)error;
	for (i = 0; i < mine->count; i++)
		if (mine->machines[i].used)
			tell_state(mine, mine->machines[i].lease, mine->machines[i].token,
			    ESPL_NODE_READY, 0, mine->machines[i].name);
	mine->events->done(mine->events, what, ESPL_OK, "");
	return ESPL_OK;
}

/* The host appends espalier-agent and its arguments. */
static espl_status
reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const char *argv[] = { "ssh", "-o", "BatchMode=yes", "--", NULL };

	(void)self;
	if (lease->address == NULL)
		return espl_fail(error, ESPL_E_UNKNOWN, "the name of the machine is unknown");
	argv[4] = lease->address;
	return sink->argv(sink, argv, 5);
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = start,
	.acquire = acquire,
	.release = release,
	.adopt = adopt,
	.owned = owned,
	.reach = reach,
	.describe = describe,
};

ESPL_PLUGIN(cloud, mine) = {
	ESPL_HEAD(ESPL_CLOUD, "mine"),
	.version = "0.1",
	.summary = "your own machines, listed by name and reached over ssh",
	.caps = 0,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
