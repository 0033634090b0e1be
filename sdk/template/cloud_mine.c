/* cloud_mine.c - a cloud to begin with: machines of a provider that has a command-line program.
 *
 * The provider is made up.  Its program `mine` prints a machine as a line "NAME STATE ADDRESS RUN":
 *
 *	mine create TYPE NAME RUN    makes a machine of this name, or prints the one that exists;
 *	                             exit status 3: none is left (prints for how many seconds),
 *	                             4: not allowed
 *	mine list [RUN]              prints the machines, of one run or of all
 *	mine delete NAME             ends it; exit status 0 also if there is none
 *
 * States are booting, running, leaving (the provider takes it away in a minute) and gone.  With an
 * HTTP API a cloud is the same: io->http instead of io->spawn, on_http instead of on_child.
 *
 *	cc -shared -fPIC $(pkg-config --cflags espalier) -o cloud_mine.so cloud_mine.c
 *
 * In the configuration: cloud = { use = "mine"; types = ( ("small", 1, 0.5), ("big", 8, 3.9) ); };
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/cloud.h>
#include <espalier/util.h>

#define POLL (10 * ESPL_SECOND)   /* between two lists while there are leases */
#define LIMIT (60 * ESPL_SECOND)  /* of a command */
#define NOTICE (60 * ESPL_SECOND) /* that the provider gives */
#define MISSING 2                 /* lists in a row without a machine: it is gone */

enum { TYPES };
enum { NAME, GPUS, PRICE, COLUMNS };
static const struct espl_option columns[] = {
	{ .name = "name",
	    .help = "type of machine",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "gpus",
	    .help = "number of GPUs",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "64" },
	{ .name = "price",
	    .help = "dollars per hour",
	    .type = ESPL_OPT_MONEY,
	    .min = "0",
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	{ .name = "types",
	    .help = "list of (name, GPUs, price)",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = COLUMNS,
	    .flags = ESPL_OPT_REQUIRED },
};

enum { START, LIST, OWNED, TIMER, MACHINES }; /* cookies; from MACHINES on, those of machines */
enum job { IDLE, CREATE, DELETE };

struct machine { /* of a lease */
	struct machine *next;
	uint64_t cookie, lease;
	char token[65], address[64];
	espl_node_state told;
	espl_reason ending; /* it is to be deleted, and why; 0: it is wanted */
	enum job job;       /* the command that is under way */
	int missing;
};
struct mine {
	const struct espl_host *host;
	const struct espl_io *io;
	const struct espl_table *types;
	const struct espl_cloud_events *events; /* from start on */
	struct machine *machines;
	uint64_t cookie, what; /* what: the number of the last `owned` */
	int timing;
};

/* The answer comes to on_child. */
static espl_status
run_mine(const struct mine *mine, uint64_t cookie, const char *command, const char *one,
    const char *two, const char *three)
{
	const char *argv[] = { "mine", command, one, two, three };
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);

	spawn.argv = argv;
	spawn.argc = one == NULL ? 2 : two == NULL ? 3 : 5;
	spawn.limit = LIMIT;
	spawn.cookie = cookie;
	return mine->io->spawn(mine->io, &spawn, NULL);
}

/* ---- machines ---- */

static struct machine *
find_machine(const struct mine *mine, const char *token)
{
	struct machine *m = mine->machines;

	while (m != NULL && strcmp(m->token, token) != 0)
		m = m->next;
	return m;
}

/* The same token is the same machine. */
static struct machine *
add_machine(struct mine *mine, uint64_t lease, const char *token)
{
	struct machine *m = find_machine(mine, token);

	if (m != NULL || (m = calloc(1, sizeof *m)) == NULL)
		return m;
	m->cookie = mine->cookie++;
	m->lease = lease;
	(void)snprintf(m->token, sizeof m->token, "%s", token);
	m->next = mine->machines;
	mine->machines = m;
	if (!mine->timing)
		mine->timing = mine->io->timer(mine->io, POLL, TIMER) == ESPL_OK;
	return m;
}

static struct espl_node_event
make_event(espl_node_state state, uint64_t lease, const char *token)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = lease;
	event.token = event.provider_id = token;
	event.at = event.ends_at = ESPL_NEVER; /* the provider does not say */
	event.gpus = ESPL_ANY;                 /* as offered */
	event.charged = -1;                    /* not known */
	return event;
}

static void
report_state(const struct mine *mine, struct machine *m, espl_node_state state, espl_reason reason,
    espl_span retry_after, const char *text)
{
	struct espl_node_event event = make_event(state, m->lease, m->token);

	m->told = state;
	event.address = m->address[0] != '\0' ? m->address : NULL;
	if (state == ESPL_NODE_NOTICE)
		event.ends_at = mine->host->now(mine->host) + NOTICE;
	event.reason = reason;
	event.retry_after = retry_after;
	event.text = text;
	(void)mine->events->node(mine->events, &event);
}

#define QUOTE 200

/* The first line of what the program says: events have no more text. */
static const char *
quote_line(char text[QUOTE], const char *said)
{
	(void)snprintf(text, QUOTE, "%.*s", (int)strcspn(said, "\n"), said);
	return text;
}

/* ENDED is the last event of a lease. */
static void
end_machine(struct mine *mine, struct machine *m, espl_reason reason, espl_span retry_after,
    const char *text)
{
	struct machine **at = &mine->machines;

	report_state(mine, m, ESPL_NODE_ENDED, m->ending != 0 ? m->ending : reason, retry_after,
	    text);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	free(m);
}

static void
delete_machine(const struct mine *mine, struct machine *m, espl_reason why)
{
	m->ending = why;
	if (m->job == IDLE && run_mine(mine, m->cookie, "delete", m->token, NULL, NULL) == ESPL_OK)
		m->job = DELETE;
}

/* ---- answers ---- */

struct line {
	char name[65], state[16], address[64], run[65];
};

static int
read_line(const char **at, struct line *line)
{
	int used = 0;

	if (sscanf(*at, "%64s %15s %63s %64s%n", line->name, line->state, line->address, line->run,
		&used) != 4)
		return 0;
	*at += used;
	return 1;
}

static void
take_line(struct mine *mine, struct machine *m, const struct line *line)
{
	espl_node_state state = strcmp(line->state, "running") == 0 ? ESPL_NODE_READY
	    : strcmp(line->state, "leaving") == 0                   ? ESPL_NODE_NOTICE
								    : ESPL_NODE_BOOTING;

	m->missing = 0;
	(void)snprintf(m->address, sizeof m->address, "%s", line->address);
	if (strcmp(line->state, "gone") == 0)
		end_machine(mine, m, ESPL_BY_PROVIDER, 0, NULL);
	else if (state > m->told)
		report_state(mine, m, state, 0, 0, NULL);
}

/* A machine whose create or delete is under way may be missing, or not any more. */
static void
take_list(struct mine *mine, const char *at)
{
	struct machine *m, *next;
	struct line line;

	for (m = mine->machines; m != NULL; m = m->next)
		m->missing += m->job == IDLE;
	while (read_line(&at, &line))
		if ((m = find_machine(mine, line.name)) != NULL && m->job == IDLE)
			take_line(mine, m, &line);
	for (m = mine->machines; m != NULL; m = next) {
		next = m->next;
		if (m->missing >= MISSING)
			end_machine(mine, m, ESPL_BY_FAULT, 0, "it is no longer listed");
	}
}

/* Completes start or owned. */
static void
report_done(const struct mine *mine, uint64_t what, const struct espl_child *child, int failed)
{
	char line[QUOTE], text[QUOTE + 40] = "";

	if (failed)
		(void)snprintf(text, sizeof text, "`mine list` failed: %s",
		    quote_line(line, child->err));
	mine->events->done(mine->events, what, failed ? ESPL_E_REMOTE : ESPL_OK, text);
}

static void
take_owned(const struct mine *mine, const char *at)
{
	struct line line;

	while (read_line(&at, &line)) {
		struct espl_node_event event = make_event(ESPL_NODE_READY, ESPL_NONE, line.name);

		event.run = line.run;
		if (strcmp(line.state, "gone") != 0)
			(void)mine->events->node(mine->events, &event);
	}
}

/* Seconds until the provider may have a machine again; 0 (unknown) for anything else, or for more
 * than a day. */
static espl_span
read_retry(const char *text)
{
	char *end;
	long seconds = strtol(text, &end, 10);

	return end != text && seconds > 0 && seconds <= 86400 ? seconds * ESPL_SECOND : 0;
}

static void
take_job(struct mine *mine, struct machine *m, const struct espl_child *child, int failed)
{
	enum job job = m->job;
	const char *at = child->out;
	char text[QUOTE];
	struct line line;

	m->job = IDLE;
	if (job == DELETE && !failed)
		end_machine(mine, m, ESPL_BY_USER, 0, NULL);
	if (job == DELETE) /* a delete that failed is repeated: by the timer, or by the host */
		return;
	if (m->ending == 0 && child->status == ESPL_OK && child->exit_code == 3)
		end_machine(mine, m, ESPL_BY_CAPACITY, read_retry(at),
		    quote_line(text, child->err));
	else if (m->ending == 0 && child->status == ESPL_OK && child->exit_code == 4)
		end_machine(mine, m, ESPL_BY_REFUSAL, 0, quote_line(text, child->err));
	else if (m->ending == 0 && !failed && read_line(&at, &line))
		take_line(mine, m, &line);
	else /* it may exist although there is no answer */
		delete_machine(mine, m, m->ending != 0 ? m->ending : ESPL_BY_FAULT);
}

static void
on_child(void *self, const struct espl_child *child)
{
	struct mine *mine = self;
	struct machine *m = mine->machines;
	int failed = child->status != ESPL_OK || child->exit_code != 0;

	while (m != NULL && m->cookie != child->cookie)
		m = m->next;
	if (m != NULL)
		take_job(mine, m, child, failed);
	else if (child->cookie == LIST && !failed)
		take_list(mine, child->out);
	else if (child->cookie == START)
		report_done(mine, 0, child, failed);
	if (child->cookie == OWNED && !failed)
		take_owned(mine, child->out);
	if (child->cookie == OWNED)
		report_done(mine, mine->what, child, failed);
}

static void
on_timer(void *self, uint64_t cookie)
{
	struct mine *mine = self;
	struct machine *m;

	(void)cookie;
	mine->timing = mine->machines != NULL && mine->io->timer(mine->io, POLL, TIMER) == ESPL_OK;
	for (m = mine->machines; m != NULL; m = m->next)
		if (m->ending != 0)
			delete_machine(mine, m, m->ending);
	if (mine->machines != NULL)
		(void)run_mine(mine, LIST, "list", NULL, NULL, NULL);
}

/* ---- entries ---- */

/* Without any request, and the same every time. */
static espl_status
describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	static const struct espl_latency boot = { .size = sizeof boot,
		.kind = ESPL_CONSTANT,
		.mean_s = 60 };
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	const struct mine *mine = self;
	espl_status status = ESPL_OK;
	uint32_t i;

	(void)error;
	for (i = 0; i < mine->types->row_count && status == ESPL_OK; i++) {
		const struct espl_value *row = mine->types->cells + (size_t)i * COLUMNS;
		struct espl_offer offer = ESPL_INIT(struct espl_offer);

		offer.number = ESPL_ANY; /* the host gives it */
		offer.flags = ESPL_OFFER_REVOCABLE;
		offer.gpus = (uint32_t)row[GPUS].as.i;
		offer.nodes_max = ESPL_ANY;
		offer.name = row[NAME].as.s;
		offer.market = "spot";
		offer.gpu_type = offer.zone = "";
		offer.price_hour = row[PRICE].as.i;
		offer.billing = ESPL_BILL_NODE;
		offer.billed_from = ESPL_BILL_FROM_BOOT;
		offer.billing_step = ESPL_SECOND;
		offer.notice = NOTICE;
		offer.provision = &none;
		offer.init = &boot;
		offer.hazard_hour = NAN; /* not known */
		status = events->offer(events, &offer);
	}
	return status;
}

/* A command that cannot work is found here, before anything is leased. */
static espl_status
start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct mine *mine = self;
	espl_status status = describe(self, events, error);

	mine->events = events;
	return status == ESPL_OK ? run_mine(mine, START, "list", NULL, NULL, NULL) : status;
}

static espl_status
acquire(void *self, const struct espl_acquire *const *wanted, uint32_t count,
    struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct machine *m = add_machine(mine, wanted[i]->lease, wanted[i]->token);

		if (m == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (m->job == IDLE && m->told == 0 &&
		    run_mine(mine, m->cookie, "create", wanted[i]->offer, m->token,
			wanted[i]->run) == ESPL_OK)
			m->job = CREATE;
	}
	return ESPL_OK;
}

static espl_status
release(void *self, const struct espl_lease *const *leases, uint32_t count,
    struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct machine *m = add_machine(mine, leases[i]->lease, leases[i]->token);

		if (m == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		delete_machine(mine, m, ESPL_BY_USER);
	}
	return ESPL_OK;
}

/* The next list reports the state of each. */
static espl_status
adopt(void *self, const struct espl_lease *const *leases, uint32_t count, struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t i;

	for (i = 0; i < count; i++)
		if (add_machine(mine, leases[i]->lease, leases[i]->token) == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	return run_mine(mine, LIST, "list", NULL, NULL, NULL);
}

static espl_status
owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct mine *mine = self;

	(void)error;
	mine->what = what;
	return run_mine(mine, OWNED, "list", run, NULL, NULL);
}

/* The host appends the command to run there. */
static espl_status
reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const char *argv[] = { "ssh", "-o", "BatchMode=yes", "--", NULL };

	(void)self;
	if (lease->address == NULL)
		return espl_fail(error, ESPL_E_UNKNOWN, "the address of the machine is not known");
	argv[4] = lease->address;
	return sink->argv(sink, argv, 5);
}

static void
destroy(void *self)
{
	struct mine *mine = self;

	while (mine->machines != NULL) {
		struct machine *next = mine->machines->next;

		free(mine->machines);
		mine->machines = next;
	}
	free(mine);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct mine *mine = calloc(1, sizeof *mine);

	if (mine == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	mine->host = host;
	mine->io = host->service(host, ESPL_IO);
	mine->types = config->values[TYPES].as.table;
	mine->cookie = MACHINES;
	*self = mine;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = { ESPL_TABLE(struct espl_cloud_ops), .start = start,
	.acquire = acquire, .release = release, .adopt = adopt, .owned = owned, .reach = reach,
	.describe = describe, .on_child = on_child, .on_timer = on_timer };

ESPL_PLUGIN(cloud, mine) = { ESPL_HEAD(ESPL_CLOUD, "mine"), .version = "0.1",
	.summary = "machines of a made-up provider", .caps = ESPL_NEED_IO, ESPL_OPTIONS(options),
	.ops = &ops.head, .create = create, .destroy = destroy };
