/* check_cloud.c - check-plugin for clouds: offers, and the life of one lease, with nothing outside.
 *
 * The service of I/O here has a clock of its own and no network: timers come when they are due,
 * every HTTP request and child process is answered with a failure.  A cloud that needs them ends
 * its start with that, in good order; one that does not is taken through all its entries.
 */
#include <stdlib.h>
#include <string.h>

#include <espalier/cloud.h>

#include "base/assert.h"
#include "base/mem.h"
#include "check/check_kit.h"

#define PATIENCE (24 * 3600 * ESPL_SECOND) /* of its own clock, for one thing to happen */
#define ANSWERS 100000u                    /* given meanwhile */
#define LEASE UINT64_C(4711)
#define REQUEST UINT64_C(77)

enum asked { TIMER, HTTP, CHILD };
struct request {
	enum asked what;
	uint64_t cookie;
	espl_time at;
};

struct cloud {
	struct espl__check *check;
	struct espl__instance *instance;
	const struct espl_cloud_ops *ops;
	struct espl_io io;
	struct espl_cloud_events events;
	struct request *requests;
	uint32_t request_count, request_cap;
	uint64_t asked[3];
	/* What it told */
	char offer[200], market[200]; /* of the first one */
	uint64_t offers;
	uint32_t done, wrong; /* answers to `what`; to something else */
	uint64_t what;
	espl_status done_status;
	char done_text[240];
	espl_node_state state; /* of the lease; 0: none told */
	espl_reason reason;
	char id[200], address[200], detail[200];
	int machines; /* different ones told for the lease */
	int listing;  /* owned was asked, for the run `check` */
};

#define CLOUD(events_) ((struct cloud *)(events_)->ctx)

/* ---- what it tells --------------------------------------------------------------------- */

static espl_status
on_offer(const struct espl_cloud_events *events, const struct espl_offer *offer)
{
	struct cloud *c = CLOUD(events);

	if (offer->size < sizeof *offer || offer->name == NULL || offer->market == NULL ||
	    offer->gpus == 0) {
		espl__check_error(c->check, "%s: an offer without size, name, market or GPUs",
		    c->check->shared->step);
		return ESPL_E_REJECTED;
	}
	if (c->offers++ == 0) {
		snprintf(c->offer, sizeof c->offer, "%s", offer->name);
		snprintf(c->market, sizeof c->market, "%s", offer->market);
	}
	return espl__check_call(c->check, "offer", offer->name, strlen(offer->name));
}

static espl_status
on_prices(const struct espl_cloud_events *events, const char *offer, const char *market,
    const struct espl_price *prices, uint32_t count)
{
	struct cloud *c = CLOUD(events);

	(void)offer;
	(void)market;
	for (uint32_t i = 1; i < count; i++)
		if (prices[i].from < prices[i - 1].from)
			espl__check_error(c->check,
			    "%s: prices must be reported from oldest to newest",
			    c->check->shared->step);
	return espl__check_call(c->check, "prices", prices, count * sizeof *prices);
}

static void
copy_text(char to[200], const char *text)
{
	if (text != NULL)
		snprintf(to, 200, "%s", text);
}

/* A machine that `owned` reports can be released only by its token, and only if it is the run's. */
static void
check_listed(const struct cloud *c, const struct espl_node_event *event)
{
	if (event->lease == ESPL_NONE && event->token == NULL)
		espl__check_error(c->check, "owned: reported a machine without its token");
	if (ESPL_KNOWS(struct espl_node_event, event, run) && event->run != NULL &&
	    strcmp(event->run, "check") != 0)
		espl__check_error(c->check,
		    "owned: was asked for run 'check' and reported a machine "
		    "of run '%s'",
		    event->run);
}

static espl_status
on_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	struct cloud *c = CLOUD(events);

	if (c->what == ESPL_NONE) {
		espl__check_error(c->check, "describe: reported a machine, but must not know any");
		return ESPL_E_REJECTED;
	}
	if (event->state < ESPL_NODE_REQUESTED || event->state > ESPL_NODE_ENDED) {
		espl__check_error(c->check, "%s: reported an unknown state %u",
		    c->check->shared->step, event->state);
		return ESPL_E_REJECTED;
	}
	if (c->listing)
		check_listed(c, event);
	if (event->lease != LEASE) /* `owned` may find others' */
		return ESPL_OK;
	if (event->state == ESPL_NODE_ENDED && event->reason == 0)
		espl__check_error(c->check, "%s: a lease ends without a reason",
		    c->check->shared->step);
	if (event->provider_id != NULL && strcmp(event->provider_id, c->id) != 0)
		c->machines++;
	c->state = event->state;
	c->reason = event->reason;
	copy_text(c->id, event->provider_id);
	copy_text(c->address, event->address);
	copy_text(c->detail, event->detail);
	return ESPL_OK;
}

static void
on_done(const struct espl_cloud_events *events, uint64_t what, espl_status status, const char *text)
{
	struct cloud *c = CLOUD(events);

	if (what != c->what) {
		c->wrong++;
		return;
	}
	c->done++;
	c->done_status = status;
	snprintf(c->done_text, sizeof c->done_text, "%s", text != NULL ? text : "");
}

/* ---- what it asks ---------------------------------------------------------------------- */

static espl_status
queue_request(const struct espl_io *io, enum asked what, espl_span after, uint64_t cookie)
{
	struct cloud *c = io->ctx;

	ESPL__CHECK(c->check, CHECK);
	ESPL__ASSERT(c->request_count <= c->request_cap);
	if (after < 0)
		return ESPL_E_CONFIG;
	ESPL__GROW(c->requests, c->request_cap, c->request_count + 1);
	c->requests[c->request_count++] = (struct request){ what, cookie, c->check->now + after };
	c->asked[what]++;
	return ESPL_OK;
}

static espl_status
io_http(const struct espl_io *io, const struct espl_http *request, struct espl_error *error)
{
	(void)error;
	return queue_request(io, HTTP, 0, request->cookie);
}

static espl_status
io_spawn(const struct espl_io *io, const struct espl_spawn *request, struct espl_error *error)
{
	(void)error;
	return queue_request(io, CHILD, 0, request->cookie);
}

static espl_status
io_timer(const struct espl_io *io, espl_span after, uint64_t cookie)
{
	return queue_request(io, TIMER, after, cookie);
}

static void
io_cancel(const struct espl_io *io, uint64_t cookie)
{
	struct cloud *c = io->ctx;
	uint32_t left = 0;

	for (uint32_t i = 0; i < c->request_count; i++)
		if (c->requests[i].cookie != cookie)
			c->requests[left++] = c->requests[i];
	c->request_count = left;
}

static int64_t
io_utc(const struct espl_io *io)
{
	const struct cloud *c = io->ctx;

	return c->check->env.utc_start_s * ESPL_SECOND + c->check->now;
}

static espl_status
io_secret(const struct espl_io *io, const char *name, const char **value)
{
	(void)io;
	(void)name;
	*value = NULL;
	return ESPL_E_UNKNOWN;
}

/* Answers the request that is due first. */
static void
answer_next(struct cloud *c)
{
	static const char no_network[] = "check-plugin does not provide a network";
	struct espl_http_reply reply = { .size = (uint32_t)sizeof reply,
		.status = ESPL_E_REMOTE,
		.body = "",
		.text = no_network };
	struct espl_child child = { .size = (uint32_t)sizeof child,
		.status = ESPL_E_REMOTE,
		.out = "",
		.err = no_network,
		.err_size = sizeof no_network - 1 };
	struct request r;
	uint32_t first = 0;

	ESPL__ASSERT(c->request_count > 0);
	for (uint32_t i = 1; i < c->request_count; i++)
		if (c->requests[i].at < c->requests[first].at)
			first = i;
	r = c->requests[first];
	memmove(&c->requests[first], &c->requests[first + 1],
	    (--c->request_count - first) * sizeof r);
	if (r.at > c->check->now)
		c->check->now = r.at;
	reply.cookie = child.cookie = r.cookie;
	if (r.what == TIMER && ESPL_HAS(struct espl_cloud_ops, c->ops, on_timer))
		c->ops->on_timer(c->instance->self, r.cookie);
	else if (r.what == HTTP && ESPL_HAS(struct espl_cloud_ops, c->ops, on_http))
		c->ops->on_http(c->instance->self, &reply);
	else if (r.what == CHILD && ESPL_HAS(struct espl_cloud_ops, c->ops, on_child))
		c->ops->on_child(c->instance->self, &child);
	else
		espl__check_error(c->check, "%s: requested I/O, but has no function for the answer",
		    c->check->shared->step);
}

/* Until the counter or state says so.  0: that never happens. */
static int
wait_done(struct cloud *c)
{
	espl_time until = c->check->now + PATIENCE;

	for (uint32_t n = 0;
	     c->done == 0 && c->request_count > 0 && n < ANSWERS && c->check->now < until; n++)
		answer_next(c);
	if (c->done > 1 || c->wrong > 0)
		espl__check_error(c->check,
		    "%s: reported done %u times, and %u times for another request",
		    c->check->shared->step, c->done, c->wrong);
	return c->done > 0;
}

static int
wait_state(struct cloud *c, espl_node_state one, espl_node_state other)
{
	espl_time until = c->check->now + PATIENCE;

	for (uint32_t n = 0; c->state != one && c->state != other && c->request_count > 0 &&
	     n < ANSWERS && c->check->now < until;
	     n++)
		answer_next(c);
	return c->state == one || c->state == other;
}

/* ---- an instance ----------------------------------------------------------------------- */

static int
begin_cloud(struct cloud *c, struct espl__check *check)
{
	ESPL__CHECK(check, CHECK);
	memset(c, 0, sizeof *c);
	c->check = check;
	c->ops = (const struct espl_cloud_ops *)(const void *)check->plugin->desc->ops;
	c->io = (struct espl_io){ .size = (uint32_t)sizeof c->io,
		.ctx = c,
		.http = io_http,
		.spawn = io_spawn,
		.timer = io_timer,
		.cancel = io_cancel,
		.utc_ns = io_utc,
		.secret = io_secret };
	c->events = (struct espl_cloud_events){ .size = (uint32_t)sizeof c->events,
		.ctx = c,
		.offer = on_offer,
		.prices = on_prices,
		.node = on_node,
		.done = on_done };
	check->io = &c->io;
	espl__check_begin(check);
	c->instance = espl__check_create(check, 7);
	return c->instance != NULL;
}

/* With whatever it still waits for. */
static void
end_cloud(struct cloud *c)
{
	ESPL__CHECK(c->check, CHECK);
	espl__check_step(c->check, "destroy");
	espl__instance_destroy(c->instance);
	c->check->io = NULL;
	free(c->requests);
}

/* 1: it sells something.  Else the reason is in *error, or in done_text. */
static int
start_cloud(struct cloud *c, struct espl_error *error)
{
	espl_status status;

	*error = (struct espl_error)ESPL_INIT(struct espl_error);
	error->option = error->row = ESPL_ANY;
	espl__check_step(c->check, "start");
	c->what = 0;
	status = c->ops->start(c->instance->self, &c->events, error);
	if (status != ESPL_OK) {
		snprintf(c->done_text, sizeof c->done_text, "%s", error->text);
		c->done_status = status;
		return 0;
	}
	if (!wait_done(c)) {
		espl__check_error(c->check,
		    "start: never reported done, and is not waiting for anything");
		return 0;
	}
	if (c->done_status == ESPL_OK && c->offers == 0)
		espl__check_error(c->check, "start: reported done without any offer");
	return c->done_status == ESPL_OK && c->offers > 0;
}

static struct espl_lease
lease_of(const struct cloud *c)
{
	return (struct espl_lease){ .size = (uint32_t)sizeof(struct espl_lease),
		.state = c->state,
		.lease = LEASE,
		.token = "check-1",
		.offer = c->offer,
		.market = c->market,
		.provider_id = c->id[0] != '\0' ? c->id : NULL,
		.address = c->address[0] != '\0' ? c->address : NULL,
		.detail = c->detail[0] != '\0' ? c->detail : NULL };
}

static int
check_returned(struct cloud *c, const char *what, espl_status status, struct espl_error *error)
{
	int good = espl__check_returned(c->check, what, status, error);

	*error = (struct espl_error)ESPL_INIT(struct espl_error);
	error->option = error->row = ESPL_ANY;
	return good;
}

/* ---- the life of a lease --------------------------------------------------------------- */

static int
check_acquire(struct cloud *c)
{
	struct espl_acquire wanted = { .size = (uint32_t)sizeof wanted,
		.lease = LEASE,
		.token = "check-1",
		.run = "check",
		.offer = c->offer,
		.market = c->market };
	const struct espl_acquire *list[] = { &wanted };
	struct espl_error error = ESPL_INIT(struct espl_error);

	espl__check_step(c->check, "acquire");
	if (!check_returned(c, "acquire", c->ops->acquire(c->instance->self, list, 1, &error),
		&error))
		return 0;
	if (!wait_state(c, ESPL_NODE_READY, ESPL_NODE_ENDED)) {
		espl__check_error(c->check, "acquire: the request reached neither READY nor ENDED");
		return 0;
	}
	return c->state == ESPL_NODE_READY;
}

static void
check_release(struct cloud *c)
{
	struct espl_lease lease = lease_of(c);
	const struct espl_lease *list[] = { &lease };
	struct espl_error error = ESPL_INIT(struct espl_error);

	espl__check_step(c->check, "release");
	for (int i = 0; i < 2; i++) /* the host may ask again */
		if (!check_returned(c, "release",
			c->ops->release(c->instance->self, list, 1, &error), &error))
			return;
	if (!wait_state(c, ESPL_NODE_ENDED, ESPL_NODE_ENDED))
		espl__check_error(c->check, "release: the lease never ends");
	else
		espl__check_ok(c->check,
		    "acquire, release: a lease starts and ends, whether requested once or twice");
}

struct words {
	struct espl_argv_sink sink;
	uint32_t calls, words;
};

static espl_status
take_words(struct espl_argv_sink *sink, const char *const *argv, uint32_t argc)
{
	struct words *w = (struct words *)(void *)sink;

	w->calls++;
	w->words = argc;
	for (uint32_t i = 0; i < argc; i++)
		if (argv[i] == NULL)
			return ESPL_E_REJECTED;
	return ESPL_OK;
}

/* By an instance that knows nothing of it. */
static void
check_reach(const struct cloud *owner)
{
	struct words w = { { (uint32_t)sizeof w.sink, 0, take_words, NULL }, 0, 0 };
	struct espl_lease lease = lease_of(owner);
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct cloud c;

	if (!begin_cloud(&c, owner->check))
		return;
	espl__check_step(c.check, "reach");
	if (check_returned(&c, "reach, from the lease alone",
		c.ops->reach(c.instance->self, &lease, &w.sink, &error), &error)) {
		if (w.calls != 1)
			espl__check_error(c.check,
			    "reach: reported a command %u times instead of once", w.calls);
		else
			espl__check_ok(c.check,
			    "reach: a command of %u words, from the lease alone", w.words);
	}
	end_cloud(&c);
}

/* By the next driver, after this one crashed. */
static void
check_adopt(const struct cloud *owner)
{
	struct espl_lease lease = lease_of(owner);
	const struct espl_lease *list[] = { &lease };
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct cloud c;

	if (!begin_cloud(&c, owner->check))
		return;
	if (start_cloud(&c, &error)) {
		espl__check_step(c.check, "adopt");
		if (check_returned(&c, "adopt", c.ops->adopt(c.instance->self, list, 1, &error),
			&error)) {
			if (wait_state(&c, ESPL_NODE_READY, ESPL_NODE_ENDED))
				espl__check_ok(c.check, "adopt: a lease of an earlier driver is %s",
				    c.state == ESPL_NODE_READY ? "known" : "reported as ended");
			else
				espl__check_error(c.check,
				    "adopt: did not report the current state of the lease");
		}
	}
	end_cloud(&c);
}

static void
ask_owned(struct cloud *c)
{
	struct espl_error error = ESPL_INIT(struct espl_error);

	if (!ESPL_HAS(struct espl_cloud_ops, c->ops, owned))
		return;
	espl__check_step(c->check, "owned");
	c->what = REQUEST;
	c->done = c->wrong = 0;
	c->listing = 1;
	if (!check_returned(c, "owned", c->ops->owned(c->instance->self, "check", REQUEST, &error),
		&error))
		return;
	if (wait_done(c))
		espl__check_ok(c->check, "owned: answers");
	else
		espl__check_error(c->check, "owned: never reported done");
	c->listing = 0;
}

static void
check_live(struct cloud *c)
{
	int ready = check_acquire(c);

	if (ready && check_acquire(c) && c->machines > 1) /* as if the answer had been lost */
		espl__check_error(c->check,
		    "acquire: two requests with the same token leased two machines");
	if (ready) {
		const struct espl_io *io = c->check->io;

		check_reach(c);
		check_adopt(c);
		c->check->io = io;
	}
	ask_owned(c);
	if (ready)
		check_release(c);
	else if (c->state == ESPL_NODE_ENDED)
		espl__check_ok(c->check,
		    "acquire: the request was rejected (reason %u), so leases were not tested",
		    c->reason);
	c->state = 0;
	(void)check_acquire(c); /* and what it still waits for is taken from it */
}

/* ---- together -------------------------------------------------------------------------- */

static int
check_describe(struct espl__check *check, uint64_t *digest, uint64_t *offers)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct cloud c;
	espl_status status;

	if (!begin_cloud(&c, check))
		return 0;
	error.option = error.row = ESPL_ANY;
	c.what = ESPL_NONE;
	espl__check_step(check, "describe");
	status = c.ops->describe(c.instance->self, &c.events, &error);
	(void)espl__check_returned(check, "describe", status, &error);
	if (c.asked[TIMER] + c.asked[HTTP] + c.asked[CHILD] > 0)
		espl__check_error(check, "describe: requested I/O");
	*digest = check->digest;
	*offers = c.offers;
	end_cloud(&c);
	return 1;
}

void
espl__check_cloud(struct espl__check *check)
{
	struct espl_error error;
	struct cloud c;
	uint64_t one, two, offers;
	int sells;

	if (!check_describe(check, &one, &offers) || !check_describe(check, &two, &offers))
		return;
	if (offers == 0 && espl__check_level(check)) { /* perhaps there was too little to go by */
		espl__check_cloud(check);
		return;
	}
	if (one != two)
		espl__check_error(check, "describe: the same options led to different offers");
	else
		espl__check_ok(check, "describe: %s",
		    offers > 0 ? "the same offers in two calls" : "no offers without a connection");
	if (!begin_cloud(&c, check))
		return;
	sells = start_cloud(&c, &error);
	if (sells) {
		espl__check_ok(check, "start: offers '%s'%s", c.offer,
		    c.offers > 1 ? " and others" : "");
		check_live(&c);
	} else if (c.done_status != ESPL_OK) {
		espl__check_ok(check, "start: failed with '%s'%s, so leases were not tested",
		    c.done_text, c.asked[HTTP] + c.asked[CHILD] > 0 ? " without a network" : "");
	}
	end_cloud(&c);
}
