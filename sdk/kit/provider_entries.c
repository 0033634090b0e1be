/* provider_entries.c - a cloud over HTTP: what the host calls, the offers, and ssh. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider_inner.h"

#define TRIES_MOST 5u /* of a request of start */
#define SSH_LIMIT (20 * ESPL_SECOND)

static espl_time
now_of(const struct espl_provider *p)
{
	return p->host->now(p->host);
}

/* ---- offers ---- */

static const char *
name_market(const struct espl_provider_offer *source)
{
	return espl_provider_is_spot(source) ? "spot" : "on-demand";
}

static uint32_t
find_source(const struct espl_provider *p, const char *name, const char *market)
{
	for (uint32_t i = 0; i < p->source_count; i++)
		if (strcmp(p->sources[i].name, name) == 0 &&
		    strcmp(name_market(&p->sources[i]), market) == 0)
			return i;
	return ESPL_ANY;
}

espl_status
espl_provider_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	const struct espl_provider *p = self;
	espl_status status = ESPL_OK;

	(void)error;
	for (uint32_t i = 0; i < p->source_count && status == ESPL_OK; i++) {
		const struct espl_provider_offer *source = &p->sources[i];
		const struct espl_value *row = source->row;
		struct espl_offer offer = ESPL_INIT(struct espl_offer);
		int spot = espl_provider_is_spot(source);

		offer.flags = spot ? ESPL_OFFER_REVOCABLE : 0;
		offer.number = ESPL_ANY;
		offer.gpus = (uint32_t)row[ESPL_OFFERS_GPUS].as.i;
		offer.cpus = source->cpus;
		offer.nodes_max = (uint32_t)row[ESPL_OFFERS_NODES].as.i;
		offer.name = source->name;
		offer.market = name_market(source);
		offer.gpu_type = row[ESPL_OFFERS_GPU_TYPE].as.s;
		offer.zone = row[ESPL_OFFERS_ZONE].as.s;
		offer.memory_bytes = source->memory;
		offer.gpu_memory_bytes = source->gpu_memory;
		offer.price_hour = row[ESPL_OFFERS_PRICE].as.i;
		offer.fixed_price_hour = spot ? 0 : offer.price_hour;
		offer.billing = ESPL_BILL_NODE;
		offer.billed_from = ESPL_BILL_FROM_BOOT;
		offer.billing_step = ESPL_SECOND;
		offer.minimum_charge = p->api->minimum_charge;
		offer.refund_before = spot ? p->api->refund_before : 0;
		offer.notice = spot ? p->api->notice : 0;
		offer.provision = &none;
		offer.init = row[ESPL_OFFERS_LATENCY].as.latency;
		offer.hazard_hour = NAN;
		status = events->offer(events, &offer);
	}
	return status;
}

static espl_status
read_offers(struct espl_provider *p, struct espl_error *error)
{
	const struct espl_table *table = espl_provider_table(p, ESPL_PROVIDER_OFFERS);

	if (table == NULL || table->row_count == 0)
		return espl_blame(error, ESPL_PROVIDER_OFFERS, "'offers' is empty");
	p->sources = calloc(table->row_count, sizeof *p->sources);
	if (p->sources == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < table->row_count; i++) {
		struct espl_provider_offer *source = &p->sources[i];

		source->row = table->cells + (size_t)i * table->column_count;
		(void)snprintf(source->name, sizeof source->name, "%.49s/%.49s",
		    source->row[ESPL_OFFERS_TYPE].as.s, source->row[ESPL_OFFERS_ZONE].as.s);
		if (find_source(p, source->name, name_market(source)) != ESPL_ANY) {
			if (error != NULL && error->status == ESPL_OK) {
				error->option = ESPL_PROVIDER_OFFERS;
				error->row = i;
			}
			return espl_fail(error, ESPL_E_CONFIG, "offer %s (%s) is listed twice",
			    source->name, name_market(source));
		}
		p->source_count = i + 1;
	}
	return ESPL_OK;
}

/* ---- the lease machine ---- */

/* Completes a request of a lease, and sends it. */
static espl_status
send_ask(void *self, struct espl_leased *lease)
{
	struct espl_provider *p = self;
	struct espl_machine *m = (struct espl_machine *)lease;
	struct espl_call call = { .method = NULL };

	p->api->ask(p, m, &call);
	return espl_provider_send(p, ESPL_CALL_ASK, m, &call);
}

static espl_status
send_look(void *self, struct espl_leased *lease)
{
	struct espl_provider *p = self;
	struct espl_machine *m = (struct espl_machine *)lease;
	struct espl_call call = { .method = NULL };

	p->api->look(p, m, &call);
	return espl_provider_send(p, ESPL_CALL_LOOK, m, &call);
}

static espl_status
send_cancel(void *self, struct espl_leased *lease, const char *id)
{
	struct espl_provider *p = self;
	struct espl_machine *m = (struct espl_machine *)lease;
	struct espl_call call = { .method = NULL };

	p->api->cancel(p, m, id, &call);
	return espl_provider_send(p, ESPL_CALL_CANCEL, m, &call);
}

static espl_status
send_probe(void *self, struct espl_leased *lease)
{
	struct espl_provider *p = self;
	struct espl_machine *m = (struct espl_machine *)lease;
	struct espl_call call = { .method = NULL };

	if (p->api->probe == NULL || m->probed)
		return espl_provider_ssh(p, m);
	p->api->probe(p, m, &call);
	return espl_provider_send(p, ESPL_CALL_PROBE, m, &call);
}

static void
stop_requests(void *self, struct espl_leased *lease)
{
	espl_provider_stop(self, lease->serial);
}

static espl_status
set_timer(void *self, espl_span after)
{
	const struct espl_provider *p = self;
	uint64_t cookie = PROVIDER_COOKIE(0, PROVIDER_TIMER);

	p->io->cancel(p->io, cookie);
	return p->io->timer(p->io, after, cookie);
}

static const struct espl_lease_calls calls = { .ask = send_ask,
	.look = send_look,
	.cancel = send_cancel,
	.probe = send_probe,
	.list = espl_provider_list,
	.stop = stop_requests,
	.timer = set_timer };

static void
begin_leases(struct espl_provider *p)
{
	espl_span poll = p->config->values[ESPL_PROVIDER_POLL].as.i;
	espl_span boot = p->config->values[ESPL_PROVIDER_BOOT].as.i;

	p->rules = (struct espl_lease_rules){ .provider = p->api->name,
		.noun = "machine",
		.missing = "its machine is no longer there, and this run has not ended it",
		.asking = "request",
		.stuck = "cannot be released",
		.listing = p->api->name,
		.waits = { [ESPL_STAGE_REQUESTED] = "its request has not been accepted",
		    [ESPL_STAGE_SCHEDULED] = "the provider has no room for it yet",
		    [ESPL_STAGE_STARTING] = "the provider is starting it",
		    [ESPL_STAGE_JOINING] = "ssh has not reached it" },
		.limits = { [ESPL_STAGE_REQUESTED] = 3 * boot,
		    [ESPL_STAGE_SCHEDULED] = boot,
		    [ESPL_STAGE_STARTING] = boot,
		    [ESPL_STAGE_JOINING] = boot },
		.told = { [ESPL_STAGE_STARTING] = ESPL_NODE_BOOTING,
		    [ESPL_STAGE_JOINING] = ESPL_NODE_BOOTING },
		.lost = ESPL_LOST_AGAIN,
		.absent_lists = 2,
		.missing_lists = 2,
		.late_lists = 3,
		.doubt = 60 * ESPL_SECOND,
		.settle = poll,
		.soon = poll,
		.least = poll,
		.most = 2 * poll,
		.silent_most = 12 * poll,
		.cancel_again = 2 * poll,
		.cancel_by_token = 1,
		.gone_ends = 1 };
	espl_leases_begin(&p->leases, &calls, &p->rules, p, p->host, p->api->machine_size);
}

/* ---- ssh ---- */

struct ssh_words {
	const char *list[48];
	char texts[6][4300];
	uint32_t count, used;
};

static void __attribute__((format(printf, 2, 3)))
add_word(struct ssh_words *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(words->texts[words->used], sizeof words->texts[0], format, args);
	va_end(args);
	words->list[words->count++] = words->texts[words->used++];
}

espl_status
espl_provider_reach_by(const struct espl_provider_way *way, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	static const char *const plain[] = { "-T", "-oBatchMode=yes", "-oServerAliveInterval=15",
		"-oConnectTimeout=10", "-oControlMaster=no", "-oControlPath=none" };
	uint32_t rows = way->ssh != NULL ? way->ssh->row_count : 0;
	struct ssh_words *words;
	espl_status status;

	if (way->address == NULL || way->address[0] == '\0')
		return espl_fail(error, ESPL_E_UNKNOWN, "its machine has no address yet");
	if (rows > ESPL_PROVIDER_SSH_WORDS)
		return espl_fail(error, ESPL_E_LIMIT, "'ssh' has more than %u words",
		    ESPL_PROVIDER_SSH_WORDS);
	words = calloc(1, sizeof *words);
	if (words == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < rows; i++)
		words->list[words->count++] = way->ssh->cells[i].as.s;
	if (words->count == 0)
		words->list[words->count++] = "ssh";
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		words->list[words->count++] = plain[i];
	words->list[words->count++] =
	    way->pinned ? "-oStrictHostKeyChecking=yes" : "-oStrictHostKeyChecking=accept-new";
	if (way->pinned)
		words->list[words->count++] = "-oUpdateHostKeys=no";
	add_word(words, "-oHostKeyAlias=%s", way->token);
	if (way->folder != NULL) /* in quotes: a space would begin the name of another file */
		add_word(words, "-oUserKnownHostsFile=\"%.4200s/known_hosts\"", way->folder);
	if (way->key[0] != '\0') {
		words->list[words->count++] = "-oIdentitiesOnly=yes";
		add_word(words, "-i%.4200s", way->key);
	}
	if (way->user[0] != '\0')
		add_word(words, "-l%.200s", way->user);
	words->list[words->count++] = "--";
	words->list[words->count++] = way->address;
	if (way->agent[0] != '\0' && sink->agent != NULL)
		sink->agent(sink, way->agent);
	status = sink->argv(sink, words->list, words->count);
	free(words);
	return status;
}

espl_status
espl_provider_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const struct espl_provider *p = self;
	const struct espl_provider_way way = { .ssh = espl_provider_table(p, ESPL_PROVIDER_SSH),
		.token = lease->token,
		.address = lease->address,
		.folder = p->run != NULL ? p->run->folder : NULL,
		.key = espl_provider_text(p, ESPL_PROVIDER_KEY),
		.user = espl_provider_text(p, ESPL_PROVIDER_USER),
		.agent = espl_provider_text(p, ESPL_PROVIDER_AGENT),
		.pinned = p->pinned };

	return espl_provider_reach_by(&way, sink, error);
}

/* Collects the words of `reach` for a command of our own. */
struct ssh_probe {
	struct espl_argv_sink sink;
	const struct espl_io *io;
	uint64_t cookie;
};

static espl_status
spawn_probe(struct espl_argv_sink *sink, const char *const *argv, uint32_t argc)
{
	const struct ssh_probe *probe = (const struct ssh_probe *)sink;
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char *words[50];

	memcpy(words, argv, argc * sizeof words[0]);
	words[argc] = "true";
	spawn.argc = argc + 1;
	spawn.argv = words;
	spawn.limit = SSH_LIMIT;
	spawn.cookie = probe->cookie;
	return probe->io->spawn(probe->io, &spawn, NULL);
}

espl_status
espl_provider_ssh(struct espl_provider *p, struct espl_machine *m)
{
	struct ssh_probe probe = { { (uint32_t)sizeof probe.sink, 0, spawn_probe, NULL }, p->io,
		PROVIDER_COOKIE(m->lease.serial, PROVIDER_SSH) };
	struct espl_lease view = ESPL_INIT(struct espl_lease);

	view.token = m->lease.token;
	view.address = m->lease.address;
	return espl_provider_reach(p, &view, &probe.sink, NULL);
}

static void
take_ssh(struct espl_provider *p, struct espl_machine *m, const struct espl_child *child)
{
	const char *last = child->err != NULL ? child->err : "";
	int reached = child->status == ESPL_OK && child->exit_code == 0;
	char text[ESPL_LEASE_TEXT];

	for (const char *line; (line = strchr(last, '\n')) != NULL && line[1] != '\0';)
		last = line + 1;
	(void)snprintf(text, sizeof text, "ssh does not reach its machine at %.60s: %.300s",
	    m->lease.address != NULL ? m->lease.address : "",
	    child->status == ESPL_E_LIMIT ? "no answer" : last);
	text[strcspn(text, "\r\n")] = '\0';
	espl_leases_probed(&p->leases, &m->lease, reached, text, now_of(p));
}

void
espl_provider_on_child(void *self, const struct espl_child *child)
{
	struct espl_provider *p = self;
	struct espl_machine *m =
	    (struct espl_machine *)espl_leases_serial(&p->leases, child->cookie / PROVIDER_KINDS);

	if (child->cookie == PROVIDER_COOKIE(0, ESPL_CALL_TOKEN))
		espl_provider_token_child(p, child);
	else if (m != NULL)
		take_ssh(p, m, child);
	espl_leases_due(&p->leases, now_of(p));
}

/* ---- start ---- */

static void
ask_step(struct espl_provider *p)
{
	struct espl_call call = { .method = NULL };

	if (!p->api->start(p, p->step, &call)) {
		(void)espl_provider_describe(p, p->events, NULL);
		p->events->done(p->events, 0, ESPL_OK, "");
	} else if (espl_provider_send(p, ESPL_CALL_START, NULL, &call) != ESPL_OK) {
		p->events->done(p->events, 0, ESPL_E_REMOTE, "its request cannot be sent");
	}
}

void
espl_provider_started(struct espl_provider *p, const struct espl_answer *answer)
{
	int again = answer->failure == ESPL_DID_LATER || answer->failure == ESPL_DID_UNSURE;

	if (answer->failure == ESPL_DID_FINE) {
		p->step++;
		p->tries = 0;
		ask_step(p);
		return;
	}
	if (again && ++p->tries < TRIES_MOST &&
	    p->io->timer(p->io, p->tries * ESPL_SECOND / 2, PROVIDER_COOKIE(0, PROVIDER_RETRY)) ==
		ESPL_OK)
		return;
	p->events->done(p->events, 0, again ? ESPL_E_REMOTE : ESPL_E_CONFIG, answer->text);
}

espl_status
espl_provider_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct espl_provider *p = self;

	if (p->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	p->events = p->leases.events = events;
	p->step = p->tries = 0;
	ask_step(p);
	return ESPL_OK;
}

void
espl_provider_on_timer(void *self, uint64_t cookie)
{
	struct espl_provider *p = self;

	if (cookie == PROVIDER_COOKIE(0, PROVIDER_RETRY))
		ask_step(p);
	else
		espl_leases_timer(&p->leases, now_of(p));
}

/* ---- leases ---- */

static espl_status
begin_machine(void *self, struct espl_leased *lease, const struct espl_acquire *wanted)
{
	struct espl_provider *p = self;
	struct espl_machine *m = (struct espl_machine *)lease;
	char *run = strdup(wanted->run);

	if (run == NULL)
		return ESPL_E_NOMEM;
	free(p->run_name);
	p->run_name = run;
	m->offer = find_source(p, wanted->offer, wanted->market);
	m->max_price_hour = wanted->max_price_hour;
	if (m->offer == ESPL_ANY)
		espl_leases_give_up(&p->leases, lease, ESPL_BY_FAULT,
		    "the configuration no longer has its offer", now_of(p));
	return ESPL_OK;
}

static void
claim_machine(void *self, struct espl_leased *lease, const struct espl_lease *view)
{
	((struct espl_machine *)lease)->offer = find_source(self, view->offer, view->market);
}

espl_status
espl_provider_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct espl_provider *p = self;

	return espl_leases_acquire_all(&p->leases, list, count, begin_machine, error);
}

espl_status
espl_provider_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct espl_provider *p = self;

	return espl_leases_claim_all(&p->leases, espl_leases_release, list, count, claim_machine,
	    error);
}

espl_status
espl_provider_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct espl_provider *p = self;

	return espl_leases_claim_all(&p->leases, espl_leases_adopt, list, count, claim_machine,
	    error);
}

/* ---- the instance ---- */

static espl_status
check_options(const struct espl_provider *p, struct espl_error *error)
{
	const struct espl_table *ssh = espl_provider_table(p, ESPL_PROVIDER_SSH);
	const struct espl_table *command = espl_provider_table(p, ESPL_PROVIDER_TOKEN_COMMAND);
	const char *token = espl_provider_text(p, ESPL_PROVIDER_TOKEN);
	int known = strcmp(token, "command") == 0 || strncmp(token, "env:", 4) == 0 ||
	    strncmp(token, "file:", 5) == 0 ||
	    (p->api->token != NULL && strcmp(token, "metadata") == 0);

	if (!known)
		return espl_blame(error, ESPL_PROVIDER_TOKEN,
		    "this is not where a token comes from; the token itself does not belong into a "
		    "configuration");
	if (strcmp(token, "command") == 0 && command == NULL && p->api->token_command == NULL)
		return espl_blame(error, ESPL_PROVIDER_TOKEN_COMMAND,
		    "the command that prints a token is not set");
	if (command != NULL && (command->row_count > 16 || command->row_count == 0))
		return espl_blame(error, ESPL_PROVIDER_TOKEN_COMMAND, "it has 1 to 16 words");
	if (ssh != NULL && ssh->row_count > ESPL_PROVIDER_SSH_WORDS)
		return espl_blame(error, ESPL_PROVIDER_SSH, "there are more than 30 words");
	if (strpbrk(espl_provider_text(p, ESPL_PROVIDER_AGENT), " \t\n'\"\\$`;&|<>()*?[]#~!{}") !=
	    NULL)
		return espl_blame(error, ESPL_PROVIDER_AGENT,
		    "the path must not hold spaces or characters that a shell interprets");
	return ESPL_OK;
}

espl_status
espl_provider_create(struct espl_provider *p, const struct espl_provider_api *api,
    const struct espl_host *host, const struct espl_config *config, struct espl_error *error)
{
	espl_status status;

	p->api = api;
	p->host = host;
	p->config = config;
	p->io = host->service(host, ESPL_IO);
	p->run = host->service(host, ESPL_RUN);
	p->visit = host->service(host, ESPL_VISIT);
	p->owned_what = ESPL_NONE;
	begin_leases(p);
	status = check_options(p, error);
	return status == ESPL_OK ? read_offers(p, error) : status;
}

char *
espl_provider_switch(espl_span orphan, espl_span most)
{
	static const char text[] =
	    "#!/bin/sh\n"
	    "# espalier: shuts this machine down when it is no longer needed.\n"
	    "(\n"
	    "read -r up rest </proc/uptime\n"
	    "begin=${up%.*} used=$begin\n"
	    "while :; do\n"
	    "	read -r up rest </proc/uptime\n"
	    "	now=${up%.*}\n"
	    "	! pgrep -x espalier-agent >/dev/null || used=$now\n";
	size_t room = sizeof text + 300;
	char *script = malloc(room);

	if (script != NULL)
		(void)snprintf(script, room,
		    "%s"
		    "	[ $((now - used)) -lt %lld ] && [ $((now - begin)) -lt %lld ] || poweroff\n"
		    "	sleep 5\n"
		    "done\n"
		    ") </dev/null >/dev/null 2>&1 &\n",
		    text, (long long)(orphan / ESPL_SECOND), (long long)(most / ESPL_SECOND));
	return script;
}
