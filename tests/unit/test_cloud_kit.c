/* test_cloud_kit.c - clouds in the test kit: the contract of their events, and the cloud `local`.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <espalier/util.h>
#include "testkit.h"

#define S ESPL_SECOND
#define HOUR (3600 * S)
#define SAYS(kit_, says_) \
	cr_expect(strstr(espl_kit_log(kit_), (says_)) != NULL, "says '%s'", espl_kit_log(kit_))

extern const struct espl_plugin cloud_local_LTX_espalier_plugin;

/* ---- the contract: a cloud that reports what a test wants ---- */

static const struct espl_cloud_events *out; /* its events */
static void (*when_acquired)(uint64_t lease);

static espl_status
told_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)config, (void)error;
	*self = (void *)(uintptr_t)host->service(host, ESPL_IO);
	return ESPL_OK;
}

static void
told_destroy(void *self)
{
	(void)self;
}

static espl_status
told_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct espl_offer offer = ESPL_INIT(struct espl_offer);

	(void)self, (void)error;
	offer.number = ESPL_ANY;
	offer.gpus = 1;
	offer.nodes_max = 9;
	offer.name = "box";
	offer.market = "own";
	offer.price_hour = ESPL_USD;
	return events->offer(events, &offer);
}

static espl_status
told_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	espl_status status = told_describe(self, events, error);

	out = events;
	events->done(events, 0, status, "");
	return status;
}

static espl_status
told_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	(void)self, (void)error;
	for (uint32_t i = 0; i < count; i++)
		when_acquired(list[i]->lease);
	return ESPL_OK;
}

static espl_status
told_leases(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	(void)self, (void)list, (void)count, (void)error;
	return ESPL_OK;
}

static espl_status
told_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	(void)self, (void)lease, (void)sink, (void)error;
	return ESPL_OK;
}

static const struct espl_cloud_ops told_ops = { ESPL_TABLE(struct espl_cloud_ops),
	.start = told_start, .acquire = told_acquire, .release = told_leases, .adopt = told_leases,
	.reach = told_reach, .describe = told_describe };
static const struct espl_plugin told = { ESPL_HEAD(ESPL_CLOUD, "told"), .version = "1",
	.summary = "s", .option_size = sizeof(struct espl_option), .ops = &told_ops.head,
	.create = told_create, .destroy = told_destroy };

static struct espl_node_event
make_event(uint64_t lease, espl_node_state state)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.lease = lease;
	event.state = state;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	return event;
}

static void
report_ready(uint64_t lease)
{
	struct espl_node_event event = make_event(lease, ESPL_NODE_READY);

	event.provider_id = "m-1";
	cr_assert_eq(out->node(out, &event), ESPL_OK);
}

static void
report_nothing(uint64_t lease)
{
	(void)lease;
}

static struct espl_kit *
open_told(void (*acquired)(uint64_t lease))
{
	struct espl_kit *kit = espl_kit_new(1);

	when_acquired = acquired;
	cr_assert_eq(espl_kit_open(kit, &told, "", NULL), ESPL_OK);
	cr_assert_eq(espl_kit_start(kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_eq(espl_kit_acquire(kit, 0, 1), 0);
	return kit;
}

/* Each of these events is refused, with this reason. */
Test(cloud_kit, events)
{
	static const struct {
		int ready; /* the lease is READY before */
		espl_node_state state;
		espl_reason reason;
		uint32_t gpus;
		espl_money charged;
		espl_span retry_after;
		const char *why;
	} cases[] = {
		{ 0, ESPL_NODE_READY, 0, 0, -1, 0, "READY with 0 GPUs" },
		{ 0, 9, 0, 1, -1, 0, "unknown state 9" },
		{ 0, ESPL_NODE_ENDED, 0, 1, -1, 0, "a lease ends without a reason" },
		{ 0, ESPL_NODE_ENDED, 77, 1, -1, 0, "unknown reason 77" },
		{ 1, ESPL_NODE_ENDED, ESPL_BY_CAPACITY, 1, -1, 0, "but the machine was READY" },
		{ 1, ESPL_NODE_ENDED, ESPL_BY_REFUSAL, 1, -1, 0, "but the machine was READY" },
		{ 0, ESPL_NODE_ENDED, ESPL_BY_USER, 1, -1, 0, "but release was not called" },
		{ 0, ESPL_NODE_ENDED, ESPL_BY_FAULT, 1, -1, S, "retry_after is for" },
		{ 0, ESPL_NODE_ENDED, ESPL_BY_QUOTA, 1, -1, -S, "retry_after is for" },
		{ 0, ESPL_NODE_ENDED, ESPL_BY_FAULT, 1, -2, 0, "charged is negative" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl_kit *kit = open_told(cases[i].ready ? report_ready : report_nothing);
		struct espl_node_event event = make_event(0, cases[i].state);

		event.reason = cases[i].reason;
		event.gpus = cases[i].gpus;
		event.charged = cases[i].charged;
		event.retry_after = cases[i].retry_after;
		cr_expect_eq(espl_kit_refused(kit), 0);
		cr_expect_eq(out->node(out, &event), ESPL_E_REJECTED, "case %zu", i);
		cr_expect_eq(espl_kit_refused(kit), 1);
		SAYS(kit, cases[i].why);
		espl_kit_free(kit);
	}
}

Test(cloud_kit, lease)
{
	struct espl_kit *kit = open_told(report_ready);
	struct espl_node_event event = make_event(0, ESPL_NODE_ENDED);

	cr_assert_str_eq(espl_kit_lease(kit, 0)->token, "espl-kit-0");
	cr_assert_str_eq(espl_kit_lease(kit, 0)->provider_id, "m-1");
	cr_assert_eq(espl_kit_release(kit, 0), ESPL_OK);
	espl_kit_wait(kit, 60 * S); /* asked again: after 1, 2, 4, ... seconds */
	event.reason = ESPL_BY_USER;
	event.charged = 0;
	cr_expect_eq(out->node(out, &event), ESPL_E_REJECTED);
	SAYS(kit, "charged is 0");
	event.charged = 5;
	event.at = 0;
	cr_expect_eq(out->node(out, &event), ESPL_E_REJECTED);
	SAYS(kit, "its `at` is 0");
	event.at = ESPL_NEVER;
	event.text = "none left\n";
	cr_expect_eq(out->node(out, &event), ESPL_E_REJECTED);
	SAYS(kit, "more than one line");
	event.text = "none left";
	cr_expect_eq(out->node(out, &event), ESPL_OK);
	cr_expect_eq(out->node(out, &event), ESPL_OK); /* repeated: ignored */
	cr_expect_eq(espl_kit_reason(kit, 0), ESPL_BY_USER);
	event.state = ESPL_NODE_READY;
	cr_expect_eq(out->node(out, &event), ESPL_E_REJECTED);
	SAYS(kit, "reported READY of a lease that has ENDED");
	event = make_event(77, ESPL_NODE_READY);
	cr_expect_eq(out->node(out, &event), ESPL_E_REJECTED);
	SAYS(kit, "not a lease of this run");
	cr_expect_eq(espl_kit_reach(kit, 0), ESPL_OK);
	SAYS(kit, "!! reported a command 0 times");
	espl_kit_clear(kit);
	out->done(out, 0, ESPL_OK, "");
	SAYS(kit, "done twice");
	espl_kit_free(kit);
}

Test(cloud_kit, requests)
{
	struct espl_kit *kit = open_told(report_ready);
	const struct espl_io *io = espl_kit_self(kit);
	struct espl_http request = ESPL_INIT(struct espl_http);
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);

	request.method = "GET";
	request.url = "ftp://x";
	cr_expect_eq(io->http(io, &request, NULL), ESPL_E_CONFIG);
	SAYS(kit, "neither https:// nor http://");
	cr_expect_eq(io->spawn(io, &spawn, NULL), ESPL_E_CONFIG);
	SAYS(kit, "there is no program");
	cr_expect_eq(io->timer(io, -1, 3), ESPL_E_CONFIG);
	cr_expect_eq(io->timer(io, 5 * S, 3), ESPL_OK);
	io->cancel(io, 3);
	espl_kit_wait(kit, HOUR);
	cr_expect_eq(espl_kit_time(kit), HOUR);
	cr_expect_eq(io->timer(io, 5 * S, 3), ESPL_OK);
	espl_kit_wait(kit, HOUR);
	SAYS(kit, "!! requested I/O, but has no function for the answer");
	espl_kit_free(kit);
}

/* ---- cloud local ---- */

Test(cloud_local, cuts_the_machine_into_nodes_that_share_nothing)
{
	struct espl_kit *kit = espl_kit_new(1);
	const char *second;

	cr_assert_eq(espl_kit_open(kit, &cloud_local_LTX_espalier_plugin,
			 "nodes=2 gpus=3 device=cpu price=1.5 minimum_charge=60s", NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_start(kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, 0), ESPL_OK);
	cr_assert_eq(espl_kit_offer_at(kit, 0)->gpus, 3);
	cr_assert_eq(espl_kit_offer_at(kit, 0)->nodes_max, 2);
	cr_assert_eq(espl_kit_offer_at(kit, 0)->price_hour, 1500000);
	cr_assert_eq(espl_kit_offer_at(kit, 0)->minimum_charge, 60 * S);
	(void)espl_kit_acquire(kit, 0, 3);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, 0, "answered from within");
	for (uint64_t i = 0; i < 3; i++)
		cr_assert(espl_kit_wait_node(kit, i, ESPL_NODE_READY, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 2), ESPL_BY_CAPACITY);
	second = espl_kit_lease(kit, 1)->detail;
	cr_assert_str_neq(espl_kit_lease(kit, 0)->detail, second);
	cr_assert_eq(espl_kit_reach(kit, 0), ESPL_OK);
	SAYS(kit, "reach lease=0 env ESPALIER_AGENT_DEVICES=cpu:3");
	cr_assert_eq(espl_kit_release(kit, 0), ESPL_OK);
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_USER);
	espl_kit_clear(kit);
	espl_kit_restart(kit); /* taken back after a crash: on the node it had */
	SAYS(kit, "node lease=1 READY");
	cr_assert_str_eq(espl_kit_lease(kit, 1)->detail, second);
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);
}
