/* live_cloud.c - the entries of a cloud, called as a run calls them while time passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "kit_cloud.h"

#define RELEASE_PAUSE_MAX (30 * ESPL_SECOND)
#define RESUME_PAUSE (60 * ESPL_SECOND)
#define RESUMES_MAX 5 /* in a row that end with a failure */

struct kit_cloud *
espl__kit_cloud(struct espl_kit *kit)
{
	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	if (kit->cloud == NULL)
		espl__kit_stop("no cloud is open");
	return kit->cloud;
}

const struct espl_cloud_ops *
espl__kit_cloud_ops(struct espl_kit *kit, struct espl_error *error)
{
	return (const struct espl_cloud_ops *)(const void *)espl__kit_ops(kit, ESPL_CLOUD, error);
}

struct kit_lease *
espl__kit_lease(struct espl_kit *kit, uint64_t lease)
{
	struct kit_cloud *c = espl__kit_cloud(kit);

	if (lease >= c->lease_count)
		espl__kit_stop("there is no such lease");
	return c->leases[lease];
}

void
espl__kit_cloud_forget(struct espl_kit *kit)
{
	struct kit_cloud *c = espl__kit_cloud(kit);

	c->request_count = 0;
	c->dead = c->describing = c->starting = c->owning = c->up = c->done = 0;
	for (uint32_t i = 0; i < c->lease_count; i++)
		c->leases[i]->asked = 0;
}

void
espl_kit_set_provider(struct espl_kit *kit, const struct espl_kit_provider *provider)
{
	espl__kit_cloud_open(kit);
	kit->cloud->provider = provider;
}

espl_time
espl_kit_time(const struct espl_kit *kit)
{
	return kit->now;
}

/* ---- entries ----------------------------------------------------------------------------- */

espl_status
espl_kit_describe(struct espl_kit *kit)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	uint32_t requests = c->request_count;
	espl_status status;

	c->describing = 1;
	espl__kit_call(kit, "describe", NULL);
	status = ops->describe(kit->self, &c->events, &error);
	c->describing = 0;
	if (c->request_count > requests)
		espl__kit_wrong(kit, "requested I/O");
	return espl__kit_returned(kit, NULL, status, &error);
}

espl_status
espl_kit_start(struct espl_kit *kit)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	espl_status status;

	c->starting = 1;
	c->done = 0;
	espl__kit_call(kit, "start", NULL);
	status = ops->start(kit->self, &c->events, &error);
	if (status != ESPL_OK && !c->dead) {
		c->starting = 0;
		c->done = 1;
		c->done_status = status;
		(void)snprintf(c->done_text, sizeof c->done_text, "%.200s", error.text);
		espl__kit_print(kit, "start: status %d: %s", status, error.text);
	}
	return status;
}

espl_status
espl_kit_owned(struct espl_kit *kit, const char *run)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	espl_status status;

	if (!ESPL_HAS(struct espl_cloud_ops, ops, owned))
		return ESPL_E_UNSUPPORTED;
	c->owning = 1;
	c->done = 0;
	c->stray_count = 0;
	c->owned_run = run != NULL ? espl__kit_text(kit, run, strlen(run)) : NULL;
	c->request++;
	for (uint32_t i = 0; i < c->lease_count; i++)
		c->leases[i]->listed = 0;
	espl__kit_call(kit, "owned", NULL);
	status = ops->owned(kit->self, run, c->request, &error);
	if (status != ESPL_OK)
		c->owning = 0;
	return espl__kit_returned(kit, NULL, status, &error);
}

static espl_status
call_acquire(struct espl_kit *kit, struct kit_lease *const *leases, uint32_t count)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	struct espl_acquire *wanted = espl__kit_alloc(kit, (count + 1) * sizeof *wanted);
	const struct espl_acquire **list = espl__kit_alloc(kit, (count + 1) * sizeof *list);

	for (uint32_t i = 0; i < count; i++) {
		leases[i]->asked = 1;
		list[i] = &wanted[i];
		wanted[i] = (struct espl_acquire){ .size = (uint32_t)sizeof *wanted,
			.lease = leases[i]->pub.lease,
			.token = leases[i]->pub.token,
			.run = c->run,
			.offer = leases[i]->pub.offer,
			.market = leases[i]->pub.market };
	}
	espl__kit_call(kit, "acquire", list);
	return espl__kit_returned(kit, list, ops->acquire(kit->self, list, count, &error), &error);
}

static espl_status
call_adopt(struct espl_kit *kit, struct kit_lease *const *leases, uint32_t count)
{
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	struct espl_lease *views = espl__kit_alloc(kit, (count + 1) * sizeof *views);
	const struct espl_lease **list = espl__kit_alloc(kit, (count + 1) * sizeof *list);

	for (uint32_t i = 0; i < count; i++) {
		leases[i]->asked = 1;
		views[i] = leases[i]->pub;
		list[i] = &views[i];
	}
	espl__kit_call(kit, "adopt", list);
	return espl__kit_returned(kit, list, ops->adopt(kit->self, list, count, &error), &error);
}

void
espl__kit_cloud_ask(struct espl_kit *kit)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct kit_lease **old = espl__kit_alloc(kit, (c->lease_count + 1) * sizeof(*old));
	struct kit_lease **fresh = espl__kit_alloc(kit, (c->lease_count + 1) * sizeof(*fresh));
	uint32_t old_count = 0, fresh_count = 0;

	for (uint32_t i = 0; i < c->lease_count; i++) {
		struct kit_lease *lease = c->leases[i];

		if (lease->asked || lease->pub.state == ESPL_NODE_ENDED)
			continue;
		lease->release_at = kit->now;
		if (lease->pub.provider_id != NULL || lease->pub.state >= ESPL_NODE_BOOTING)
			old[old_count++] = lease;
		else
			fresh[fresh_count++] = lease;
	}
	if (old_count > 0)
		(void)call_adopt(kit, old, old_count);
	if (fresh_count > 0 && !c->dead)
		(void)call_acquire(kit, fresh, fresh_count);
}

uint64_t
espl_kit_acquire(struct espl_kit *kit, uint32_t offer, uint32_t count)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	const struct espl_offer *from = espl_kit_offer_at(kit, offer);
	uint64_t first = c->lease_count;

	for (uint32_t i = 0; i < count; i++) {
		struct kit_lease *lease = espl__kit_alloc(kit, sizeof *lease);
		char token[64];

		(void)snprintf(token, sizeof token, "espl-%s-%u", c->run, c->lease_count);
		lease->offer = offer;
		lease->charged = -1;
		lease->ends_at = ESPL_NEVER;
		lease->pub = (struct espl_lease){ .size = (uint32_t)sizeof lease->pub,
			.lease = c->lease_count,
			.token = espl__kit_text(kit, token, strlen(token)),
			.offer = from->name,
			.market = from->market };
		c->leases = espl__kit_more(kit, c->leases, c->lease_count, sizeof(*c->leases));
		c->leases[c->lease_count++] = lease;
	}
	(void)call_acquire(kit, c->leases + first, count);
	return first;
}

espl_status
espl_kit_acquire_again(struct espl_kit *kit, uint64_t lease)
{
	struct kit_lease *one = espl__kit_lease(kit, lease);

	return call_acquire(kit, &one, 1);
}

static espl_status
call_release(struct espl_kit *kit, const struct espl_lease *lease)
{
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	struct espl_lease view = *lease;
	const struct espl_lease *list[] = { &view };

	espl__kit_call(kit, "release", list);
	return espl__kit_returned(kit, list, ops->release(kit->self, list, 1, &error), &error);
}

espl_status
espl_kit_release(struct espl_kit *kit, uint64_t lease)
{
	struct kit_lease *one = espl__kit_lease(kit, lease);
	espl_span pause = ESPL_SECOND << (one->releases < 5 ? one->releases : 5);

	one->releases++;
	one->release_at = kit->now + (pause < RELEASE_PAUSE_MAX ? pause : RELEASE_PAUSE_MAX);
	return call_release(kit, &one->pub);
}

void
espl__kit_add_stray(struct espl_kit *kit, const char *token, const char *id)
{
	struct kit_cloud *c = espl__kit_cloud(kit);

	c->strays = espl__kit_more(kit, c->strays, c->stray_count, sizeof *c->strays);
	c->strays[c->stray_count++] = (struct kit_stray){ espl__kit_text(kit, token, strlen(token)),
		id != NULL ? espl__kit_text(kit, id, strlen(id)) : NULL, 0 };
}

void
espl__kit_release_stray(struct espl_kit *kit, uint32_t stray)
{
	const struct kit_stray *one = &espl__kit_cloud(kit)->strays[stray];
	struct espl_lease lease = { .size = (uint32_t)sizeof lease,
		.state = ESPL_NODE_READY,
		.lease = KIT_STRAYS + stray,
		.token = one->token,
		.offer = "",
		.market = "",
		.provider_id = one->id };

	(void)call_release(kit, &lease);
}

struct words {
	struct espl_argv_sink sink;
	struct espl_kit *kit;
	uint64_t lease;
	uint32_t calls;
};

static espl_status
take_words(struct espl_argv_sink *sink, const char *const *argv, uint32_t argc)
{
	struct words *w = (struct words *)(void *)sink;
	const char *why = espl__kit_heard(w->kit, "argv", NULL, 0);
	char text[900] = "";
	size_t used = 0;

	w->calls++;
	for (uint32_t i = 0; i < argc && why == NULL; i++)
		if (argv[i] == NULL)
			why = "a word of the command is NULL";
		else if (used < sizeof text)
			used += (size_t)snprintf(text + used, sizeof text - used, " %s", argv[i]);
	return espl__kit_told(w->kit, why, "reach lease=%llu%s", (unsigned long long)w->lease,
	    text);
}

static void
take_agent(struct espl_argv_sink *sink, const char *path)
{
	const struct words *w = (struct words *)(void *)sink;

	espl__kit_print(w->kit, "agent lease=%llu %s", (unsigned long long)w->lease,
	    path != NULL ? path : "(as here)");
}

espl_status
espl_kit_reach(struct espl_kit *kit, uint64_t lease)
{
	struct espl_lease view = espl__kit_lease(kit, lease)->pub;
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	struct words w = { .sink = { .size = (uint32_t)sizeof w.sink,
			       .argv = take_words,
			       .agent = take_agent },
		.kit = kit,
		.lease = lease };
	espl_status status;

	espl__kit_call(kit, "reach", &view);
	status = ops->reach(kit->self, &view, &w.sink, &error);
	if (status == ESPL_OK && w.calls != 1)
		espl__kit_wrong(kit, "reported a command %u times instead of once", w.calls);
	return espl__kit_returned(kit, &view, status, &error);
}

/* ---- time -------------------------------------------------------------------------------- */

void
espl_kit_restart(struct espl_kit *kit)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct espl_error error = ESPL_INIT(struct espl_error);
	const struct espl_plugin *plugin = kit->plugin;

	c->dead = 1; /* what the old instance still asks and reports is not heard */
	espl_kit_close(kit);
	espl__kit_cloud_forget(kit);
	espl__kit_print(kit, "restart");
	if (plugin->create(&kit->host, &kit->config, &kit->self, &error) != ESPL_OK)
		espl__kit_stop("a second instance on the same options cannot be created");
	kit->plugin = plugin;
	c->resuming = 1;
	c->restarts++;
	(void)espl_kit_start(kit);
}

/* Restarts a driver that was killed, or whose start has failed after that. */
static void
restart_driver(struct espl_kit *kit)
{
	struct kit_cloud *c = kit->cloud;
	int failed = c->resuming && c->done && !c->up && !c->owning && !c->starting;

	if (c->up)
		c->resumes = 0;
	if (c->dead) {
		c->resumes = 0;
		espl_kit_restart(kit);
	} else if (failed && c->resumes < RESUMES_MAX) {
		c->resumes++;
		kit->now += RESUME_PAUSE;
		espl_kit_restart(kit);
	}
}

int
espl__kit_cloud_step(struct espl_kit *kit, espl_time until)
{
	struct kit_cloud *c = kit->cloud;
	struct kit_lease *next = NULL;

	restart_driver(kit);
	for (uint32_t i = 0; c->up && i < c->lease_count; i++)
		if (c->leases[i]->releases > 0 && c->leases[i]->pub.state != ESPL_NODE_ENDED &&
		    (next == NULL || c->leases[i]->release_at < next->release_at))
			next = c->leases[i];
	if (next == NULL || next->release_at > until)
		return espl__kit_cloud_answer(kit, until);
	if (espl__kit_cloud_answer(kit, next->release_at))
		return 1;
	if (next->release_at > kit->now)
		kit->now = next->release_at;
	(void)espl_kit_release(kit, next->pub.lease);
	return 1;
}

static espl_time
limit_of(const struct espl_kit *kit, espl_span span)
{
	return span > ESPL_NEVER - kit->now ? ESPL_NEVER : kit->now + span;
}

void
espl_kit_wait(struct espl_kit *kit, espl_span span)
{
	espl_time until = limit_of(kit, span);

	(void)espl__kit_cloud(kit);
	while (espl__kit_cloud_step(kit, until) || kit->cloud->dead)
		;
	if (until != ESPL_NEVER && kit->now < until)
		kit->now = until;
}

int
espl_kit_wait_node(struct espl_kit *kit, uint64_t lease, espl_node_state state, espl_span limit)
{
	const struct kit_lease *one = espl__kit_lease(kit, lease);
	espl_time until = limit_of(kit, limit);

	while (one->pub.state < state && (espl__kit_cloud_step(kit, until) || kit->cloud->dead))
		;
	return one->pub.state >= state;
}

espl_status
espl_kit_wait_done(struct espl_kit *kit, espl_span limit)
{
	const struct kit_cloud *c = espl__kit_cloud(kit);
	espl_time until = limit_of(kit, limit);

	while ((!c->done || c->dead) && (espl__kit_cloud_step(kit, until) || c->dead))
		;
	return c->done ? c->done_status : ESPL_E_BUSY;
}

const struct espl_lease *
espl_kit_lease(struct espl_kit *kit, uint64_t lease)
{
	return &espl__kit_lease(kit, lease)->pub;
}

espl_reason
espl_kit_reason(struct espl_kit *kit, uint64_t lease)
{
	return espl__kit_lease(kit, lease)->reason;
}

espl_span
espl_kit_retry_after(struct espl_kit *kit, uint64_t lease)
{
	return espl__kit_lease(kit, lease)->retry_after;
}
