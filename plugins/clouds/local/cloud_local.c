/* cloud_local - this machine as a cloud: its GPUs, or slots made of its cores, as one node or
 * several.
 *
 * `nodes = N` divides it into N nodes with separate agents and disjoint devices, so that code for
 * several machines can be tried on one.
 *
 * Other runs on the machine are respected: devices that they hold are not used, and a lease waits
 * until enough devices are free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/util.h>
#include <espalier/kit/array.h>
#include <espalier/kit/assert.h>

#include "cloud_local_slots.h"

enum { OPT_NODES = 0, OPT_GPUS, OPT_DEVICE, OPT_PRICE, OPT_MINIMUM, OPT_DATA, OPT_SHARE };
enum { DEVICE_AUTO = 0, DEVICE_CPU, DEVICE_GPU };

#define FREE ESPL_NONE

static const struct espl_option options[] = {
	[OPT_NODES] = { .name = "nodes",
	    .help = "number of nodes to divide this machine into",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4096" },
	[OPT_GPUS] = { .name = "gpus",
	    .help = "number of GPUs per node, or of slots if there is no GPU (they may exceed the "
		    "cores); default: all of the machine, divided by nodes",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4096" },
	[OPT_DEVICE] = { .name = "device",
	    .help = "what a slot is: auto uses GPUs if there are any",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "auto",
	    .choices = "auto|cpu|gpu" },
	[OPT_PRICE] = { .name = "price",
	    .help = "price in dollars per node-hour",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
	[OPT_MINIMUM] = { .name = "minimum_charge",
	    .help = "minimum time charged per lease",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
	[OPT_DATA] = { .name = "data_price_gb",
	    .help = "price in dollars per GB that a new node downloads",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
	[OPT_SHARE] = { .name = "share",
	    .help = "also use slots that other runs on this machine hold; false: wait until they "
		    "are free",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false" },
};

struct pending {
	uint64_t lease;
	uint32_t node;
}; /* node ESPL_ANY: there was none left */
/* a GPU by its place in the list, or a CPU slot by number */
struct slot {
	uint32_t which;
	int lock;
};

#define LOOK_AGAIN (2 * ESPL_SECOND) /* for slots that another run holds */
#define LOOK_SOON (ESPL_SECOND / 20) /* while another run takes its own */

#define LOCAL_MAGIC 0x79cc1f6bu

struct local {
	uint32_t magic; /* LOCAL_MAGIC */
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_run *run;
	const struct espl_cloud_events *events;
	uint32_t nodes, gpus; /* gpus: of a node */
	int found, on_gpus;   /* found: looked for devices already */
	struct espl__nvml_gpu *list;
	uint32_t count, cores;
	uint64_t *held; /* [nodes] lease on it, or FREE */
	/* ours, node after node; held from READY of the first node to the end of the last */
	struct slot *slots;
	uint32_t taken;         /* 0: none are ours */
	char told[SLOT_HOLDER]; /* for whom it waits */
	int warned;             /* that there are no locks */
	char name[SLOT_HOLDER]; /* of this run, for others */
	struct pending *pending;
	uint32_t pending_count, pending_cap;
};

static int64_t
option_value(const struct local *l, uint32_t index)
{
	return l->config->values[index].as.i;
}

static int
is_set(const struct local *l, uint32_t index)
{
	return l->config->values[index].source != ESPL_UNSET;
}

/* What this machine has, and what of it one node gets. */
static espl_status
discover_machine(struct local *l, struct espl_error *error)
{
	const char *why = "";
	char text[240];
	int64_t device = option_value(l, OPT_DEVICE);
	espl_status status;

	if (l->found)
		return ESPL_OK;
	l->cores = local_cores();
	if (device != DEVICE_CPU) {
		status = local_gpus(&l->list, &l->count, &why);
		if (status != ESPL_OK)
			return espl_fail(error, status, "out of memory");
	}
	if (device == DEVICE_GPU && l->count == 0) {
		(void)snprintf(text, sizeof text, "this machine has no usable GPU: %s", why);
		if (error != NULL && error->status == ESPL_OK)
			(void)snprintf(error->hint, sizeof error->hint,
			    "use device = \"cpu\" for slots on its cores");
		return espl_blame(error, OPT_DEVICE, text);
	}
	l->on_gpus = l->count > 0;
	l->gpus = is_set(l, OPT_GPUS) ? (uint32_t)option_value(l, OPT_GPUS)
				      : (l->on_gpus ? l->count : l->cores) / l->nodes;
	if (l->gpus == 0 && !l->on_gpus)
		l->gpus = 1;
	if (l->on_gpus && (l->gpus == 0 || (uint64_t)l->gpus * l->nodes > l->count)) {
		(void)snprintf(text, sizeof text,
		    "%u nodes with %u GPUs each exceed the %u GPUs of this machine", l->nodes,
		    l->gpus > 0 ? l->gpus : 1, l->count);
		if (error != NULL && error->status == ESPL_OK)
			(void)snprintf(error->hint, sizeof error->hint,
			    "lower nodes or gpus, or use CPU slots with device = \"cpu\"");
		return espl_blame(error, is_set(l, OPT_GPUS) ? OPT_GPUS : OPT_NODES, text);
	}
	l->slots = calloc((size_t)l->gpus * l->nodes, sizeof *l->slots);
	if (l->slots == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	l->found = 1;
	return ESPL_OK;
}

/* ---- offers ---- */

static espl_status
report_offer(const struct local *l, const struct espl_cloud_events *events)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	static const struct espl_latency init = { .size = sizeof init,
		.kind = ESPL_CONSTANT,
		.mean_s = 0.02 };
	struct espl_offer offer = ESPL_INIT(struct espl_offer);
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	ESPL_ASSERT(l->found && l->nodes > 0);
	offer.number = ESPL_ANY;
	offer.gpus = l->gpus;
	offer.cpus = l->cores / l->nodes > 0 ? l->cores / l->nodes : 1;
	offer.nodes_max = l->nodes;
	offer.name = "local";
	offer.market = "on-demand";
	offer.gpu_type = l->on_gpus ? l->list[0].type : "cpu";
	offer.zone = "";
	if (pages > 0 && page > 0)
		offer.memory_bytes = (uint64_t)pages * (uint64_t)page / l->nodes;
	offer.gpu_memory_bytes = l->on_gpus ? l->list[0].memory_bytes : 0;
	offer.price_hour = option_value(l, OPT_PRICE);
	offer.fixed_price_hour = offer.price_hour;
	offer.data_gb = option_value(l, OPT_DATA);
	offer.billing = ESPL_BILL_NODE;
	offer.billed_from = ESPL_BILL_FROM_REQUEST;
	offer.billing_step = ESPL_SECOND;
	offer.minimum_charge = option_value(l, OPT_MINIMUM);
	offer.provision = &none;
	offer.init = &init;
	offer.hazard_hour = 0.0;
	offer.hazard_hours = 0.0;
	return events->offer(events, &offer);
}

static espl_status
local_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct local *l = self;
	espl_status status = discover_machine(l, error);

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	return status == ESPL_OK ? report_offer(l, events) : status;
}

static espl_status
local_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct local *l = self;
	espl_status status = discover_machine(l, error);

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	l->events = events;
	if (status == ESPL_OK)
		status = report_offer(l, events);
	if (status == ESPL_OK)
		events->done(events, 0, ESPL_OK, "");
	return status;
}

/* ---- slots ---- */

static void
give_slots(struct local *l)
{
	for (uint32_t i = 0; i < l->taken; i++)
		local_slot_give(l->slots[i].lock);
	l->taken = 0;
}

/* For `explain`; who they are is not kept: the journal has no paths and no pids. */
static void
note_holders(const struct local *l, const char *what, uint32_t wanted)
{
	char text[160];

	(void)snprintf(text, sizeof text, "%s: %u of %u slots are free, other runs hold the others",
	    what, l->taken, wanted);
	l->host->note(l->host, ESPL_ABOUT_RUN, 0, text);
}

/* Repeated when another run has them: the run named before may have ended. */
static void
report_waiting(struct local *l, uint32_t wanted, const char *holder)
{
	char text[SLOT_HOLDER + 200];

	if (strcmp(l->told, holder) == 0)
		return;
	(void)snprintf(l->told, sizeof l->told, "%s", holder);
	(void)snprintf(text, sizeof text,
	    "waiting for slots of this machine: only %u of %u are free, others are held by %s "
	    "(set cloud.share = true to share them)",
	    l->taken, wanted, holder);
	l->host->log(l->host, ESPL_WARN, text);
	note_holders(l, "waits for slots of this machine", wanted);
}

static void
report_fewer(struct local *l, uint32_t wanted, const char *holder)
{
	char text[SLOT_HOLDER + 200];

	(void)snprintf(text, sizeof text,
	    "using %u of this machine's %u slots; the others are held by %s", l->taken, wanted,
	    holder);
	l->host->log(l->host, ESPL_WARN, text);
	note_holders(l, "takes what is free", wanted);
}

/* Calls local_slot_take, and warns once if there is no lock. */
static int
take_slot(struct local *l, const char *slot, char holder[SLOT_HOLDER])
{
	char text[SLOT_HOLDER + 100];
	int lock = local_slot_take(slot, l->name, holder);

	if (lock != -2 || holder[0] == '\0' || l->warned)
		return lock;
	l->warned = 1;
	(void)snprintf(text, sizeof text,
	    "cannot lock slots, so other runs may use them at the same time: %s", holder);
	l->host->log(l->host, ESPL_WARN, text);
	return lock;
}

/* Takes the slots of all nodes at once, or none: two runs that each held some and waited for more
 * would wait forever. 0, or the time after which to try again. */
static espl_span
take_slots(struct local *l)
{
	uint32_t wanted = l->gpus * l->nodes, least = wanted;
	uint32_t all = l->on_gpus ? l->count : l->cores > wanted ? l->cores : wanted;
	int shares = l->config->values[OPT_SHARE].as.i != 0, turn = -2;
	char holder[SLOT_HOLDER] = "", one[SLOT_HOLDER], number[32];

	if (l->taken > 0)
		return 0;
	ESPL_ASSERT(l->found && l->slots != NULL);
	if (l->name[0] == '\0')
		local_slots_name(l->name, l->run != NULL ? l->run->folder : NULL);
	if (!shares) /* two runs that try at once would each get a part, and return it */
		turn = take_slot(l, "turn", one);
	if (turn == -1)
		return LOOK_SOON;
	for (uint32_t i = 0; i < all && l->taken < wanted; i++) {
		int lock = -2;

		(void)snprintf(number, sizeof number, "cpu-%u", i);
		if (!shares)
			lock = take_slot(l, l->on_gpus ? l->list[i].uuid : number, one);
		if (lock != -1)
			l->slots[l->taken++] = (struct slot){ i, lock };
		else if (holder[0] == '\0')
			memcpy(holder, one, sizeof holder);
	}
	local_slot_give(turn);
	if (l->taken == wanted)
		return 0;
	/* All devices were asked for, not a number: the free ones are enough if every trial fits on
	 * them. */
	if (l->nodes == 1 && !is_set(l, OPT_GPUS)) {
		least = l->run != NULL && l->run->gpus_min > 1 ? l->run->gpus_min : 1;
		if (least > wanted)
			least = wanted;
	}
	if (l->taken >= least) {
		report_fewer(l, wanted, holder);
		return 0;
	}
	report_waiting(l, least, holder);
	give_slots(l);
	return LOOK_AGAIN;
}

/* The devices of a node: only a single node may have fewer than it should. */
static uint32_t
slots_of_node(const struct local *l)
{
	return l->nodes == 1 ? l->taken : l->gpus;
}

/* ---- leases ---- */

static uint32_t
node_of(const struct local *l, uint64_t lease)
{
	uint32_t i;

	for (i = 0; i < l->nodes; i++)
		if (l->held[i] == lease)
			return i;
	return ESPL_ANY;
}

static void
report_node(struct local *l, uint64_t lease, uint32_t node, espl_node_state state,
    espl_reason reason)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char id[32], detail[16];

	ESPL_ASSERT(l->events != NULL && (node == 0 || node < l->nodes));
	event.lease = lease;
	event.state = state;
	event.reason = reason;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = state == ESPL_NODE_READY ? slots_of_node(l) : ESPL_ANY;
	event.charged = -1;
	if (state == ESPL_NODE_READY) {
		(void)snprintf(id, sizeof id, "local-%u", node);
		(void)snprintf(detail, sizeof detail, "%u", node);
		event.provider_id = id;
		event.detail = detail;
		event.address = "127.0.0.1";
	}
	(void)l->events->node(l->events, &event);
}

/* Answers come from the event loop, as those of other clouds do. */
static espl_status
answer_later(struct local *l, uint64_t lease, uint32_t node, espl_span after)
{
	struct pending *more =
	    espl_array_grow(l->pending, &l->pending_cap, l->pending_count + 1, sizeof *more);

	ESPL_ASSERT(l->io != NULL);
	if (more == NULL)
		return ESPL_E_NOMEM;
	l->pending = more;
	l->pending[l->pending_count].lease = lease;
	l->pending[l->pending_count++].node = node;
	return l->io->timer(l->io, after, lease);
}

static uint32_t
nodes_held(const struct local *l)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < l->nodes; i++)
		count += l->held[i] != FREE;
	return count;
}

static uint32_t
take_node(struct local *l, uint64_t lease, uint32_t wanted)
{
	uint32_t node = node_of(l, lease);

	if (node != ESPL_ANY)
		return node;
	node = wanted < l->nodes && l->held[wanted] == FREE ? wanted : node_of(l, FREE);
	if (node != ESPL_ANY)
		l->held[node] = lease;
	return node;
}

static espl_status
local_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct local *l = self;
	uint32_t i;

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	for (i = 0; i < count; i++) {
		uint32_t node = take_node(l, list[i]->lease, ESPL_ANY);

		if (answer_later(l, list[i]->lease, node, 0) != ESPL_OK)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	return ESPL_OK;
}

static void
local_on_timer(void *self, uint64_t lease)
{
	struct local *l = self;
	uint32_t i, node;
	espl_span after = 0;

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	for (i = 0; i < l->pending_count && l->pending[i].lease != lease; i++)
		continue;
	if (i == l->pending_count)
		return; /* released meanwhile */
	node = l->pending[i].node;
	l->pending[i] = l->pending[--l->pending_count];
	if (node != ESPL_ANY)
		after = take_slots(l);
	if (node == ESPL_ANY)
		report_node(l, lease, 0, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
	else if (after == 0)
		report_node(l, lease, node, ESPL_NODE_READY, 0);
	else if (answer_later(l, lease, node, after) != ESPL_OK)
		report_node(l, lease, 0, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
}

static espl_status
local_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct local *l = self;
	uint32_t i, k;

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	(void)error;
	for (i = 0; i < count; i++) {
		uint64_t lease = list[i]->lease;
		uint32_t node = node_of(l, lease);

		for (k = 0; k < l->pending_count;) /* more than one, if it was asked for twice */
			if (l->pending[k].lease == lease)
				l->pending[k] = l->pending[--l->pending_count];
			else
				k++;
		if (node != ESPL_ANY)
			l->held[node] = FREE;
		if (nodes_held(l) == 0)
			give_slots(l);
		report_node(l, lease, 0, ESPL_NODE_ENDED, ESPL_BY_USER);
	}
	return ESPL_OK;
}

/* The number in a lease's detail; ESPL_ANY if it has none. */
static uint32_t
number_in(const char *detail)
{
	char *end;
	unsigned long number;

	if (detail == NULL || detail[0] < '0' || detail[0] > '9')
		return ESPL_ANY;
	number = strtoul(detail, &end, 10);
	return *end == '\0' && number < 4096 ? (uint32_t)number : ESPL_ANY;
}

static espl_status
local_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct local *l = self;
	uint32_t i;

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	for (i = 0; i < count; i++) {
		uint32_t node = take_node(l, list[i]->lease, number_in(list[i]->detail));
		espl_span after = node != ESPL_ANY ? take_slots(l) : 0;

		if (node == ESPL_ANY)
			report_node(l, list[i]->lease, 0, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
		else if (after == 0)
			report_node(l, list[i]->lease, node, ESPL_NODE_READY, 0);
		else if (answer_later(l, list[i]->lease, node, after) == ESPL_OK)
			report_node(l, list[i]->lease, node, ESPL_NODE_REQUESTED, 0);
		else
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	return ESPL_OK;
}

static espl_status
local_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct local *l = self;

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	(void)run;
	(void)error;
	if (l->events != NULL) /* nothing of it outlives the driver */
		l->events->done(l->events, what, ESPL_OK, "");
	return ESPL_OK;
}

/* env ESPALIER_AGENT_DEVICES=...: the devices of this node, which no other node has. */
static espl_status
local_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	struct local *l = self;
	uint32_t node = number_in(lease->detail), i, count;
	size_t room, at;
	const char *argv[2];
	char *devices;
	espl_status status = discover_machine(l, error);

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	if (status != ESPL_OK)
		return status;
	if (node == ESPL_ANY || node >= l->nodes)
		return espl_fail(error, ESPL_E_UNKNOWN,
		    "this lease does not belong to this machine");
	room = 64 + (size_t)l->gpus * (ESPL__UUID_ROOM + 1);
	devices = malloc(room);
	if (devices == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	at = (size_t)snprintf(devices, room, "ESPALIER_AGENT_DEVICES=");
	/* none: the lease belongs to another process and was not adopted */
	count = l->taken > 0 ? slots_of_node(l) : l->gpus;
	ESPL_ASSERT(l->taken == 0 || node * l->gpus + count <= l->taken);
	if (!l->on_gpus)
		(void)snprintf(devices + at, room - at, "cpu:%u", count);
	for (i = 0; l->on_gpus && i < count; i++)
		at += (size_t)snprintf(devices + at, room - at, "%s%s", i > 0 ? "," : "",
		    l->list[l->taken > 0 ? l->slots[node * l->gpus + i].which : node * l->gpus + i]
			.uuid);
	argv[0] = "env";
	argv[1] = devices;
	if (sink->agent != NULL) /* it is this machine: nothing is sent */
		sink->agent(sink, NULL);
	status = sink->argv(sink, argv, 2);
	free(devices);
	return status;
}

/* ---- the instance ---- */

static void
local_destroy(void *self)
{
	struct local *l = self;

	ESPL_ASSERT(l != NULL && l->magic == LOCAL_MAGIC);
	l->magic = 0;
	give_slots(l);
	free(l->slots);
	free(l->list);
	free(l->held);
	free(l->pending);
	free(l);
}

static espl_status
local_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct local *l = calloc(1, sizeof *l);
	uint32_t i;

	if (l == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	l->magic = LOCAL_MAGIC;
	l->host = host;
	l->config = config;
	l->io =
	    host->service(host, ESPL_IO); /* not there in simulations: describe is all they call */
	l->run = host->service(host, ESPL_RUN);
	l->nodes = (uint32_t)config->values[OPT_NODES].as.i;
	l->held = malloc(l->nodes * sizeof *l->held);
	if (l->held == NULL) {
		local_destroy(l);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	for (i = 0; i < l->nodes; i++)
		l->held[i] = FREE;
	*self = l;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = local_start,
	.acquire = local_acquire,
	.release = local_release,
	.adopt = local_adopt,
	.owned = local_owned,
	.reach = local_reach,
	.describe = local_describe,
	.on_timer = local_on_timer,
};

ESPL_PLUGIN(cloud, local) = {
	ESPL_HEAD(ESPL_CLOUD, "local"),
	.version = "1",
	.summary = "this machine: its GPUs, or slots on its cores",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = local_create,
	.destroy = local_destroy,
};
