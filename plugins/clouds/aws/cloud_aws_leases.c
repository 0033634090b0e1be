/* cloud_aws_leases.c - leases: sends the requests that cloud_aws_state.c says are due, and reports
 * to the host. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

#define TICK_MOST (ESPL_SECOND / 2)
#define CAPACITY_PAUSE (120 * ESPL_SECOND) /* doubled each time, */
#define CAPACITY_PAUSE_MOST (3600 * ESPL_SECOND)
/* EC2 takes 2 requests for machines each second, and 5 at once. */
#define RUN_PAUSE (ESPL_SECOND / 2)
#define RUN_BURST 5
#define PRICE_TRIES 5u /* then the host computes the cost from what it knows */

struct aws_limits
cloud_aws_limits(const struct aws_cloud *cloud)
{
	struct aws_limits limits = { aws_number(cloud, AWS_OPT_SETTLE),
		aws_number(cloud, AWS_OPT_BOOT), aws_number(cloud, AWS_OPT_ADDRESS) == 1 };

	return limits;
}

int
cloud_aws_is_spot(const struct aws_cloud *cloud, const struct aws_lease *lease)
{
	return lease->offer != ESPL_ANY && aws_is_spot(&cloud->offers[lease->offer]);
}

static uint32_t
find_offer(const struct aws_cloud *cloud, const char *name, const char *market)
{
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		if (strcmp(cloud->offers[i].name, name) == 0 &&
		    strcmp(aws_market(&cloud->offers[i]), market) == 0)
			return i;
	return ESPL_ANY;
}

static struct aws_lease *
find_lease(const struct aws_cloud *cloud, const char *token)
{
	struct aws_lease *lease = cloud->leases;

	while (lease != NULL && strcmp(lease->token, token) != 0)
		lease = lease->next;
	return lease;
}

static struct aws_lease *
add_lease(struct aws_cloud *cloud, uint64_t number, const char *token, uint32_t offer)
{
	struct aws_lease *lease = calloc(1, sizeof *lease);

	if (lease == NULL)
		return NULL;
	cloud_aws_state_begin(lease, cloud->host->now(cloud->host));
	lease->serial = ++cloud->serial;
	lease->lease = number;
	lease->offer = offer;
	(void)snprintf(lease->token, sizeof lease->token, "%s", token);
	lease->next = cloud->leases;
	cloud->leases = lease;
	return lease;
}

static void
drop_lease(struct aws_cloud *cloud, struct aws_lease *lease)
{
	struct aws_lease **at = &cloud->leases;

	while (*at != lease)
		at = &(*at)->next;
	*at = lease->next;
	if (lease->busy) {
		cloud->io->cancel(cloud->io, AWS_COOKIE(lease->serial, AWS_KEYGEN));
		cloud->io->cancel(cloud->io, AWS_COOKIE(lease->serial, AWS_RUN));
		cloud->io->cancel(cloud->io, AWS_COOKIE(lease->serial, AWS_TERMINATE));
		cloud->io->cancel(cloud->io, AWS_COOKIE(lease->serial, AWS_REACH));
	}
	free(lease);
}

void
cloud_aws_leases_free(struct aws_cloud *cloud)
{
	while (cloud->leases != NULL) {
		cloud->leases->busy = 0;
		drop_lease(cloud, cloud->leases);
	}
	free(cloud->found);
}

/* ---- events for the host ---- */

static struct espl_node_event
make_event(const struct aws_lease *lease, espl_node_state state)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = lease->lease;
	event.token = lease->token;
	event.provider_id = lease->id[0] != '\0' ? lease->id : NULL;
	event.address = lease->address[0] != '\0' ? lease->address : NULL;
	event.detail = lease->detail[0] != '\0' ? lease->detail : NULL;
	/* EC2 names no host, so each machine is one of its own. */
	event.machine = event.provider_id;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	return event;
}

void
cloud_aws_report(const struct aws_cloud *cloud, struct aws_lease *lease, espl_node_state state)
{
	struct espl_node_event event = make_event(lease, state);

	if (state <= lease->reported)
		return;
	lease->reported = state;
	if (state == ESPL_NODE_NOTICE) {
		event.ends_at = lease->ends_at;
		event.text = "EC2 interrupts its spot machine in two minutes";
	}
	(void)cloud->events->node(cloud->events, &event);
}

/* BOOTING, from which on the host counts costs, means that the machine runs. */
void
cloud_aws_tell_state(const struct aws_cloud *cloud, struct aws_lease *lease)
{
	if (lease->running && lease->reported < ESPL_NODE_BOOTING)
		(void)snprintf(lease->detail, sizeof lease->detail, "billed from %lld",
		    (long long)lease->billed_s);
	cloud_aws_report(cloud, lease, lease->running ? ESPL_NODE_BOOTING : ESPL_NODE_REQUESTED);
}

/* How long an empty zone is left alone; leases that fail together count once. */
static espl_span
pause_offer(const struct aws_cloud *cloud, struct aws_offer *o)
{
	espl_time now = cloud->host->now(cloud->host);

	if (now >= o->dry_until) {
		espl_span pause = CAPACITY_PAUSE << (o->dry < 5 ? o->dry : 5);

		o->dry_until = now + (pause < CAPACITY_PAUSE_MOST ? pause : CAPACITY_PAUSE_MOST);
		o->dry++;
	}
	return o->dry_until - now;
}

/* The last word; the lease is freed. The prices of a spot machine's last hour come first. */
static void
report_end(struct aws_cloud *cloud, struct aws_lease *lease)
{
	struct espl_node_event event = make_event(lease, ESPL_NODE_ENDED);
	struct aws_offer *o = lease->offer != ESPL_ANY ? &cloud->offers[lease->offer] : NULL;

	if (o != NULL && aws_is_spot(o) && lease->launch_s != 0 && lease->priced == 0 &&
	    !lease->never) {
		if (cloud->asked[AWS_PRICES] != NULL ||
		    cloud->host->now(cloud->host) < lease->price_at)
			return;
		cloud_aws_prices_ask(cloud);
		lease->priced = cloud->asked[AWS_PRICES] != NULL ? 1 : -1;
	}
	if (lease->priced == 1)
		return;
	event.reason = lease->end_reason;
	if (o != NULL && aws_is_spot(o)) {
		event.charged = lease->priced == -1
		    ? -1
		    : cloud_aws_state_charge(lease, 1, o->prices, o->price_count);
	} else if (o != NULL) {
		struct aws_price fixed = { 0, o->price_hour };

		event.charged = cloud_aws_state_charge(lease, 0, &fixed, 1);
	}
	if (o != NULL && lease->end_reason == ESPL_BY_CAPACITY)
		event.retry_after = pause_offer(cloud, o);
	event.text = lease->end_reason != ESPL_BY_USER ? lease->why : NULL;
	(void)cloud->events->node(cloud->events, &event);
	cloud_aws_hostkey_forget(cloud, lease->token);
	drop_lease(cloud, lease);
	if (cloud->leases == NULL) /* also what a crash has left of others */
		cloud_aws_hostkey_forget_all(cloud);
}

void
cloud_aws_leases_priced(struct aws_cloud *cloud, int fine)
{
	for (struct aws_lease *lease = cloud->leases; lease != NULL; lease = lease->next) {
		if (lease->priced != 1)
			continue;
		lease->priced = fine ? 2 : ++lease->price_tries < PRICE_TRIES ? 0 : -1;
		lease->price_at = cloud->host->now(cloud->host) + ESPL_SECOND;
	}
}

/* ---- what is due ---- */

/* Before a token is sent: RUN/aws knows when that was first.  EC2 forgets it a day after the end of
 * its machine, and would make another one.  -1: it is not to be sent. */
static int
note_token(struct aws_cloud *cloud, struct aws_lease *lease)
{
	const char *first = cloud_aws_record_get(cloud, "token", lease->token);
	espl_time now = cloud->host->now(cloud->host);
	char text[AWS_TEXT], utc[30];

	if (first != NULL && cloud_aws_utc(cloud) - strtoll(first, NULL, 10) > AWS_RESEND_S) {
		lease->old = 1;
		cloud_aws_state_lost(lease, now);
		return -1;
	}
	(void)snprintf(utc, sizeof utc, "%" PRId64, cloud_aws_utc(cloud));
	if (first != NULL ||
	    (cloud_aws_record_put(cloud, "run", "", lease->run, text) == 0 &&
		cloud_aws_record_put(cloud, "token", lease->token, utc, text) == 0))
		return 0;
	cloud_aws_warn(cloud, text);
	cloud_aws_state_failed(lease, AWS_AGAIN, text, now);
	return -1;
}

/* RunInstances is sent now, be it for a check: EC2 counts all of them. */
void
cloud_aws_count_run(struct aws_cloud *cloud)
{
	espl_time now = cloud->host->now(cloud->host);

	cloud->run_at = (cloud->run_at > now ? cloud->run_at : now) + RUN_PAUSE;
}

void
cloud_aws_wish(const struct aws_cloud *cloud, const struct aws_offer *o, struct aws_wish *wish)
{
	*wish = (struct aws_wish){ .token = "",
		.run = "",
		.driver = cloud->driver,
		.type = o->row[AWS_COL_TYPE].as.s,
		.image = cloud->image,
		.subnet = o->subnet,
		.group = aws_text(cloud, AWS_OPT_GROUP),
		.key_name = aws_text(cloud, AWS_OPT_KEY_NAME),
		.user_data = cloud->user_data,
		.spot = aws_is_spot(o),
		.tags = aws_table(cloud, AWS_OPT_TAGS) };
}

static void
send_keygen(struct aws_cloud *cloud, struct aws_lease *lease)
{
	char text[AWS_TEXT];
	enum aws_class class = cloud_aws_hostkey_make(cloud, lease->token,
	    AWS_COOKIE(lease->serial, AWS_KEYGEN), text);

	lease->busy = 1;
	if (class == AWS_FINE)
		return;
	cloud_aws_warn(cloud, text);
	cloud_aws_state_failed(lease, class, text, cloud->host->now(cloud->host));
}

static void
send_run(struct aws_cloud *cloud, struct aws_lease *lease)
{
	struct aws_wish wish;
	struct aws_query query;
	espl_time now = cloud->host->now(cloud->host);
	char *own = NULL;

	if (!lease->counted && cloud->run_at > now + (RUN_BURST - 1) * RUN_PAUSE)
		return;
	if (!lease->counted)
		cloud_aws_count_run(cloud);
	lease->counted = 1; /* so that ssh-keygen does not run for all at once, either */
	if (cloud_aws_hostkey_due(cloud, lease->token)) {
		send_keygen(cloud, lease);
		return;
	}
	if (note_token(cloud, lease) != 0)
		return;
	cloud_aws_wish(cloud, &cloud->offers[lease->offer], &wish);
	wish.token = lease->token;
	wish.run = lease->run;
	wish.max_price_hour = lease->max_price_hour;
	if (cloud_aws_hostkey_pinned(cloud, lease->token)) {
		wish.user_data = own = cloud_aws_hostkey_user_data(cloud, lease->token);
		if (own == NULL) { /* the same request cannot be sent again */
			cloud_aws_state_lost(lease, now);
			return;
		}
	}
	cloud_aws_query_run(&query, &wish);
	free(own);
	lease->counted = 0;
	lease->busy = 1;
	lease->step = AWS_ASKED;
	if (cloud_aws_send(cloud, &query, "ec2", AWS_COOKIE(lease->serial, AWS_RUN)) != ESPL_OK)
		cloud_aws_state_failed(lease, AWS_AGAIN, cloud->warned, now);
}

static void
send_terminate(struct aws_cloud *cloud, struct aws_lease *lease)
{
	espl_time now = cloud->host->now(cloud->host);
	struct aws_query query;

	cloud_aws_query_begin(&query, "TerminateInstances", "2016-11-15");
	cloud_aws_query_add(&query, lease->id, "InstanceId.1");
	lease->busy = 1;
	if (lease->asked_at == ESPL_NEVER)
		lease->asked_at = now;
	if (cloud_aws_send(cloud, &query, "ec2", AWS_COOKIE(lease->serial, AWS_TERMINATE)) !=
	    ESPL_OK) {
		(void)snprintf(lease->trouble, sizeof lease->trouble, "%s", cloud->warned);
		cloud_aws_state_terminated(lease, AWS_AGAIN, "", now);
	}
}

/* Again and again, with longer pauses, while a machine that was to end may cost money. */
static void
warn_late(struct aws_cloud *cloud, struct aws_lease *lease)
{
	espl_time now = cloud->host->now(cloud->host);
	const struct aws_offer *o = lease->offer != ESPL_ANY ? &cloud->offers[lease->offer] : NULL;
	char text[AWS_TEXT], what[160] = "";
	espl_money usd;

	if (lease->over || lease->asked_at == ESPL_NEVER ||
	    !(lease->releasing || lease->ending || lease->doubted) ||
	    now - lease->asked_at < cloud_aws_state_patience(lease->warnings))
		return;
	/* EC2 may take a minute to show the end of a machine. */
	if (lease->warnings++ == 0 && lease->trouble[0] == '\0')
		return;
	if (o != NULL) {
		usd = o->price_count > 0 ? o->prices[o->price_count - 1].usd_hour : o->price_hour;
		(void)snprintf(what, sizeof what, " (%.60s, %s, $%.4f an hour)", o->name,
		    aws_market(o), (double)usd / 1e6);
	}
	(void)snprintf(text, sizeof text,
	    "machine %s%s may still be running, %lld minutes after its end was first requested; "
	    "trying again: %.300s",
	    lease->id, what, (long long)((now - lease->asked_at) / (60 * ESPL_SECOND)),
	    lease->trouble[0] != '\0' ? lease->trouble
				      : "EC2 accepts the request and does not end it");
	cloud->host->log(cloud->host, ESPL_WARN, text);
}

/* Collects the words of `reach` for a command of our own. */
struct probe {
	struct espl_argv_sink sink;
	struct aws_cloud *cloud;
	uint64_t cookie;
};

static espl_status
spawn_probe(struct espl_argv_sink *sink, const char *const *argv, uint32_t argc)
{
	const struct probe *probe = (const struct probe *)sink;
	const struct espl_io *io = probe->cloud->io;
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char *words[64];

	if (argc == 0 || argc + 1 > sizeof words / sizeof words[0])
		return ESPL_E_LIMIT;
	memcpy(words, argv, argc * sizeof words[0]);
	words[argc] = "true";
	spawn.argc = argc + 1;
	spawn.argv = words;
	spawn.limit = 20 * ESPL_SECOND;
	spawn.cookie = probe->cookie;
	return io->spawn(io, &spawn, NULL);
}

static void
send_probe(struct aws_cloud *cloud, struct aws_lease *lease)
{
	struct probe probe = { { (uint32_t)sizeof probe.sink, 0, spawn_probe, NULL }, cloud,
		AWS_COOKIE(lease->serial, AWS_REACH) };
	struct espl_lease view = ESPL_INIT(struct espl_lease);
	struct aws_limits limits = cloud_aws_limits(cloud);

	view.token = lease->token;
	view.address = lease->address;
	lease->busy = 1;
	if (cloud_aws_reach(cloud, &view, &probe.sink, NULL) != ESPL_OK)
		cloud_aws_state_reached(lease, 0, "ssh cannot be started", &limits,
		    cloud->host->now(cloud->host));
}

void
cloud_aws_do(struct aws_cloud *cloud, struct aws_lease *lease)
{
	switch (cloud_aws_state_duty(lease, cloud->host->now(cloud->host))) {
	case AWS_SEND_RUN: send_run(cloud, lease); break;
	case AWS_SEND_TERMINATE: send_terminate(cloud, lease); break;
	case AWS_PROBE: send_probe(cloud, lease); break;
	case AWS_TELL_END: report_end(cloud, lease); break;
	default: break;
	}
}

/* ---- answers ---- */

static struct aws_lease *
lease_of(const struct aws_cloud *cloud, uint64_t cookie)
{
	struct aws_lease *lease = cloud->leases;

	while (lease != NULL && lease->serial != cookie / 32)
		lease = lease->next;
	return lease;
}

static void
take_run(struct aws_cloud *cloud, struct aws_lease *lease, const struct espl_http_reply *reply)
{
	espl_time now = cloud->host->now(cloud->host);
	struct aws_element *document;
	char text[AWS_TEXT];
	enum aws_class class = cloud_aws_check_reply(cloud, reply, "RunInstances", &document, text);
	struct aws_machine m = { .id = "" };

	if (class == AWS_FINE)
		cloud_aws_answer_machine(cloud_aws_answer_find(document, "instancesSet/item"),
		    cloud_aws_utc(cloud), &m);
	cloud_aws_answer_free(document);
	if (class == AWS_FINE && m.id[0] == '\0') {
		class = AWS_UNKNOWN;
		(void)snprintf(text, sizeof text, "RunInstances: the answer names no machine");
	}
	if (class == AWS_FINE) {
		cloud_aws_state_made(lease, &m, cloud_aws_is_spot(cloud, lease), now);
		cloud_aws_tell_state(cloud, lease);
		cloud->list_at = now;
	} else {
		cloud_aws_state_failed(lease, class, text, now);
		if (!lease->over)
			cloud_aws_warn(cloud, text);
	}
	cloud_aws_do(cloud, lease);
}

void
cloud_aws_leases_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	struct aws_lease *lease = lease_of(cloud, reply->cookie);
	struct aws_element *document;
	char text[AWS_TEXT];
	enum aws_class class;

	switch (reply->cookie % 32) {
	case AWS_LISTING: cloud_aws_listing_reply(cloud, reply); return;
	case AWS_SPOTS: cloud_aws_spots_reply(cloud, reply); return;
	case AWS_OWNED: cloud_aws_owned_reply(cloud, reply); return;
	default: break;
	}
	if (lease == NULL)
		return;
	if (reply->cookie % 32 == AWS_RUN) {
		take_run(cloud, lease, reply);
		return;
	}
	class = cloud_aws_check_reply(cloud, reply, "TerminateInstances", &document, text);
	if (class != AWS_FINE && class != AWS_MISSING)
		cloud_aws_warn(cloud, text); /* and again, until its end is seen */
	(void)snprintf(lease->trouble, sizeof lease->trouble, "%s", class != AWS_FINE ? text : "");
	cloud_aws_state_terminated(lease, class,
	    cloud_aws_answer_text(document, "instancesSet/item/previousState/name"),
	    cloud->host->now(cloud->host));
	cloud_aws_answer_free(document);
	cloud->list_at = cloud->host->now(cloud->host);
}

static void
take_key(struct aws_cloud *cloud, struct aws_lease *lease, const struct espl_child *child)
{
	char text[AWS_TEXT];
	enum aws_class class = cloud_aws_hostkey_take(cloud, lease->token, child, text);

	lease->busy = 0;
	if (class != AWS_FINE) {
		cloud_aws_warn(cloud, text);
		cloud_aws_state_failed(lease, class, text, cloud->host->now(cloud->host));
	}
	cloud_aws_do(cloud, lease);
}

/* Another host key than it was given: nothing was sent there. */
static void
take_stranger(struct aws_cloud *cloud, struct aws_lease *lease, char text[AWS_TEXT])
{
	int first = lease->strange_at == ESPL_NEVER && !lease->releasing && !lease->ending, waits;
	char warning[AWS_TEXT];

	(void)snprintf(text, AWS_TEXT,
	    "machine %s at %s does not have the ssh host key that espalier gave it", lease->id,
	    lease->address);
	waits = cloud_aws_state_strange(lease, text, cloud->host->now(cloud->host));
	(void)snprintf(warning, sizeof warning, "%.300s; it is ended%s", text,
	    waits ? " unless it has that key within 30 s" : "");
	if (first)
		cloud->host->log(cloud->host, ESPL_WARN, warning);
}

/* Why a probe has failed. */
static void
explain_probe(struct aws_cloud *cloud, struct aws_lease *lease, const struct espl_child *child,
    char text[AWS_TEXT])
{
	const char *end = child->err != NULL ? child->err : "";

	if (cloud_aws_hostkey_refused(child) && cloud_aws_hostkey_pinned(cloud, lease->token)) {
		take_stranger(cloud, lease, text);
		return;
	}
	for (const char *line; (line = strchr(end, '\n')) != NULL && line[1] != '\0';)
		end = line + 1;
	(void)snprintf(text, AWS_TEXT, "ssh does not reach its machine at %s: %.300s",
	    lease->address, child->status == ESPL_E_LIMIT ? "no answer" : end);
	text[strcspn(text, "\r\n")] = '\0';
}

void
cloud_aws_leases_child(struct aws_cloud *cloud, const struct espl_child *child)
{
	struct aws_lease *lease = lease_of(cloud, child->cookie);
	struct aws_limits limits = cloud_aws_limits(cloud);
	int answers = child->status == ESPL_OK && child->exit_code == 0;
	char text[AWS_TEXT] = "";

	if (lease == NULL)
		return;
	if (child->cookie % 32 == AWS_KEYGEN) {
		take_key(cloud, lease, child);
		return;
	}
	if (!answers)
		explain_probe(cloud, lease, child, text);
	cloud_aws_state_reached(lease, answers, text, &limits, cloud->host->now(cloud->host));
	if (!answers || lease->releasing || lease->ending)
		return;
	if (lease->offer != ESPL_ANY)
		cloud->offers[lease->offer].dry = 0;
	lease->used = 1;
	cloud_aws_report(cloud, lease, ESPL_NODE_READY);
	if (lease->notice_s != 0) /* it came before */
		cloud_aws_report(cloud, lease, ESPL_NODE_NOTICE);
}

/* ---- entries ---- */

/* What it waits for, once in each state. */
static void
tell_wait(struct aws_cloud *cloud, struct aws_lease *lease)
{
	struct espl_node_event event;
	char text[AWS_TEXT];

	if (!cloud_aws_state_waits(lease, cloud->host->now(cloud->host), text))
		return;
	if (lease->reported == 0) { /* the host knows no machine yet */
		cloud->host->log(cloud->host, ESPL_WARN, text);
		return;
	}
	event = make_event(lease, lease->reported);
	event.text = text;
	(void)cloud->events->node(cloud->events, &event);
}

void
cloud_aws_tick(struct aws_cloud *cloud)
{
	struct aws_limits limits = cloud_aws_limits(cloud);
	espl_time now = cloud->host->now(cloud->host);
	espl_span pause = aws_number(cloud, AWS_OPT_POLL);
	struct aws_lease *next;

	for (struct aws_lease *lease = cloud->leases; lease != NULL; lease = next) {
		next = lease->next;
		warn_late(cloud, lease);
		cloud_aws_state_expire(lease, &limits, now);
		tell_wait(cloud, lease);
		cloud_aws_do(cloud, lease);
	}
	if (cloud->leases == NULL || cloud->ticking)
		return;
	if (now >= cloud->list_at && cloud->asked[AWS_LISTING] == NULL)
		cloud_aws_list(cloud);
	if (now >= cloud->spots_at && cloud->asked[AWS_SPOTS] == NULL)
		cloud_aws_list_spots(cloud);
	if (now >= cloud->prices_at && cloud->asked[AWS_PRICES] == NULL && cloud->prices_at > 0)
		cloud_aws_prices_ask(cloud);
	cloud->ticking = cloud->io->timer(cloud->io, pause < TICK_MOST ? pause : TICK_MOST,
			     AWS_COOKIE(0, AWS_TICK)) == ESPL_OK;
}

espl_status
cloud_aws_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct aws_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t offer = find_offer(cloud, list[i]->offer, list[i]->market);
		struct aws_lease *lease = find_lease(cloud, list[i]->token);

		if (lease != NULL)
			continue; /* asked again: it is under way */
		lease = add_lease(cloud, list[i]->lease, list[i]->token, offer);
		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		(void)snprintf(lease->run, sizeof lease->run, "%s", list[i]->run);
		lease->max_price_hour = list[i]->max_price_hour;
		lease->unsure = cloud_aws_record_get(cloud, "token", lease->token) != NULL;
		if (offer == ESPL_ANY)
			cloud_aws_state_failed(lease, AWS_REFUSED,
			    "the configuration no longer has its offer",
			    cloud->host->now(cloud->host));
	}
	cloud_aws_tick(cloud);
	return ESPL_OK;
}

/* One that this process did not make: its machine is the one that EC2 lists with its token.  The id
 * comes from a file of the run, and is nothing to terminate. */
static struct aws_lease *
add_known(struct aws_cloud *cloud, const struct espl_lease *view)
{
	struct aws_lease *lease = add_lease(cloud, view->lease, view->token,
	    find_offer(cloud, view->offer, view->market));

	if (lease == NULL)
		return NULL;
	lease->step = AWS_LOST;
	lease->unsure = 1;
	(void)snprintf(lease->id, sizeof lease->id, "%s",
	    view->provider_id != NULL ? view->provider_id : "");
	(void)snprintf(lease->address, sizeof lease->address, "%s",
	    view->address != NULL ? view->address : "");
	if (view->detail != NULL)
		lease->running =
		    sscanf(view->detail, "billed from %" SCNd64, &lease->billed_s) == 1;
	return lease;
}

espl_status
cloud_aws_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct aws_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct aws_lease *lease = find_lease(cloud, list[i]->token);

		if (lease == NULL)
			lease = add_known(cloud, list[i]);
		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		cloud_aws_state_release(lease, cloud->host->now(cloud->host));
	}
	cloud->list_at = 0;
	cloud_aws_tick(cloud);
	return ESPL_OK;
}

/* Machines of an older espalier, or of a time at which host_key was "accept". */
static void
warn_unpinned(struct aws_cloud *cloud)
{
	uint32_t count = 0;
	char text[AWS_TEXT];

	for (const struct aws_lease *lease = cloud->leases; lease != NULL; lease = lease->next)
		count += !lease->releasing && !lease->over &&
		    cloud_aws_record_get(cloud, "token", lease->token) != NULL &&
		    !cloud_aws_hostkey_pinned(cloud, lease->token);
	if (count == 0 || cloud->unpinned || aws_number(cloud, AWS_OPT_HOST_KEY) != 0)
		return;
	cloud->unpinned = 1;
	(void)snprintf(text, sizeof text,
	    "%u machine%s of this run %s requested without an ssh host key from espalier; there "
	    "ssh accepts the key of the first connection",
	    count, count == 1 ? "" : "s", count == 1 ? "was" : "were");
	cloud->host->log(cloud->host, ESPL_WARN, text);
}

espl_status
cloud_aws_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct aws_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct aws_lease *lease = find_lease(cloud, list[i]->token);

		if (lease == NULL)
			lease = add_known(cloud, list[i]);
		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		lease->reported =
		    list[i]->state == ESPL_NODE_NOTICE ? ESPL_NODE_READY : list[i]->state;
		lease->used = list[i]->state >= ESPL_NODE_READY;
		/* ssh is tried again: READY is reported again, and the driver reconnects to the
		 * agent. */
		if (lease->reported == ESPL_NODE_READY)
			lease->reported = ESPL_NODE_BOOTING;
	}
	warn_unpinned(cloud);
	cloud->list_at = cloud->spots_at = 0;
	cloud_aws_tick(cloud);
	return ESPL_OK;
}
