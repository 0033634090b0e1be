/* check_cloud.c - check-plugin for clouds: offers, and the life of one lease, with nothing outside.
 *
 * In the test kit timers come when they are due, and without a provider every HTTP request and
 * child process fails.  A cloud that needs them ends its start with that, in good order; one that
 * does not is taken through all its entries.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "check/check_kit.h"
#include "testkit/kit_cloud.h"

#define PATIENCE (24 * 3600 * ESPL_SECOND) /* of the kit's clock, for one thing to happen */
#define SOON (60 * ESPL_SECOND)

/* A kit with an instance that is not started. */
static int
begin_cloud(struct espl__check *check)
{
	ESPL__CHECK(check, CHECK);
	check->kit = espl_kit_new(1);
	espl_kit_set_provider(check->kit, NULL);
	check->kit->cloud->run = "check";
	return espl__check_open(check);
}

/* The next driver, after this one crashed: it knows the leases. */
static int
replace_cloud(struct espl__check *check)
{
	struct espl_kit *kit = check->kit;

	kit->cloud->dead = 1;
	espl__check_step(check, "destroy");
	espl__instance_destroy(check->instance);
	espl__kit_cloud_forget(kit);
	check->instance = espl__check_create(check, 7);
	kit->self = check->instance != NULL ? check->instance->self : NULL;
	return check->instance != NULL;
}

/* 1: it sells something.  Else the reason is in done_text, and in done_status. */
static int
start_cloud(struct espl__check *check)
{
	struct kit_cloud *c = check->kit->cloud;

	espl__check_step(check, "start");
	(void)espl_kit_start(check->kit);
	if (espl_kit_wait_done(check->kit, PATIENCE) == ESPL_E_BUSY && !c->done) {
		espl__check_error(check,
		    "start: never reported done, and is not waiting for anything");
		return 0;
	}
	return c->done_status == ESPL_OK && check->kit->offer_count > 0;
}

/* ---- the life of a lease --------------------------------------------------------------- */

static void
check_acquire(struct espl__check *check)
{
	struct espl_kit *kit = check->kit;

	espl__check_step(check, "acquire");
	(void)espl_kit_acquire(kit, 0, 1);
	if (!check->counts)
		return;
	if (!espl_kit_wait_node(kit, 0, ESPL_NODE_READY, PATIENCE))
		espl__check_error(check, "acquire: the request reached neither READY nor ENDED");
	else if (kit->cloud->leases[0]->pub.state == ESPL_NODE_ENDED)
		espl__check_ok(check,
		    "acquire: the request was rejected (reason %u), so leases were not tested",
		    kit->cloud->leases[0]->reason);
}

static void
check_again(struct espl__check *check)
{
	espl__check_step(check, "acquire"); /* as if the answer had been lost */
	(void)espl_kit_acquire_again(check->kit, 0);
	espl_kit_wait(check->kit, SOON);
	if (check->kit->cloud->leases[0]->machines > 1)
		espl__check_error(check,
		    "acquire: two requests with the same token leased two machines");
}

static void
check_reach(struct espl__check *check)
{
	espl__check_step(check, "reach");
	(void)espl_kit_reach(check->kit, 0);
	if (check->counts && !check->kit->wrong)
		espl__check_ok(check, "reach: a command, from the lease alone");
}

static void
check_adopt(struct espl__check *check)
{
	struct espl_kit *kit = check->kit;
	const struct kit_lease *lease = kit->cloud->leases[0];
	uint32_t reports = lease->reports;
	espl_time until = kit->now + PATIENCE;

	if (!start_cloud(check))
		return;
	espl__check_step(check, "adopt"); /* done of start has called it */
	while (lease->reports == reports && espl__kit_cloud_step(kit, until))
		;
	if (lease->reports == reports)
		espl__check_error(check, "adopt: did not report the current state of the lease");
	else
		espl__check_ok(check, "adopt: a lease of an earlier driver is %s",
		    lease->pub.state == ESPL_NODE_ENDED ? "reported as ended" : "known");
}

/* A machine of a lease that costs something is among those that the run owns. */
static void
check_owned(struct espl__check *check, const char *when)
{
	struct espl_kit *kit = check->kit;
	const struct kit_lease *lease = kit->cloud->leases[0];
	espl_status status;

	espl__check_step(check, "owned");
	status = espl_kit_owned(kit, "check");
	if (status != ESPL_OK)
		return; /* it has none, or its failure is reported */
	status = espl_kit_wait_done(kit, PATIENCE);
	if (!kit->cloud->done)
		espl__check_error(check, "owned: never reported done");
	else if (status == ESPL_OK && lease->pub.state == ESPL_NODE_READY && !lease->listed &&
	    kit->offers[lease->offer]->price_hour > 0)
		espl__check_error(check, "owned: %s, the machine of a lease is not listed", when);
	else
		espl__check_ok(check, "owned: answers %s", when);
}

static void
check_release(struct espl__check *check)
{
	struct espl_kit *kit = check->kit;
	const struct kit_lease *lease = kit->cloud->leases[0];

	espl__check_step(check, "release");
	for (int i = 0; i < 2; i++) /* the host may ask again */
		(void)espl_kit_release(kit, 0);
	if (!espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, PATIENCE)) {
		espl__check_error(check, "release: the lease never ends");
		return;
	}
	(void)espl_kit_release(kit, 0); /* the host has not heard yet that it ended */
	espl_kit_wait(kit, SOON);
	if (lease->pub.state == ESPL_NODE_ENDED)
		espl__check_ok(check,
		    "acquire, release: a lease starts and ends, whether requested once or twice");
}

/* What `owned` has listed is released by its token alone. */
static void
check_unknown(struct espl__check *check)
{
	struct espl_kit *kit = check->kit;
	uint32_t stray = kit->cloud->stray_count;
	espl_time until = kit->now + PATIENCE;

	espl__check_step(check, "release of a lease that it does not know");
	espl__kit_add_stray(kit, "espl-check-unknown", NULL);
	espl__kit_release_stray(kit, stray);
	while (!kit->cloud->strays[stray].ended && espl__kit_cloud_step(kit, until))
		;
	if (kit->cloud->strays[stray].ended)
		espl__check_ok(check, "release: also of a token that it does not know");
	else
		espl__check_error(check,
		    "release: a token that it does not know was not reported as ENDED");
}

static void
check_live(struct espl__check *check)
{
	const struct kit_lease *lease;

	check_acquire(check);
	lease = check->kit->cloud->leases[0];
	if (lease->pub.state == ESPL_NODE_READY) {
		check_again(check);
		check_owned(check, "with a lease");
		if (!replace_cloud(check))
			return;
		check_reach(check);
		check_adopt(check);
		check_owned(check, "after a restart");
		check_release(check);
	} else {
		check_owned(check, "without a lease");
	}
	check_unknown(check);
	espl__check_step(check, "acquire");
	(void)espl_kit_acquire(check->kit, 0, 1); /* what it still waits for is taken from it */
}

/* ---- together -------------------------------------------------------------------------- */

static int
check_describe(struct espl__check *check, uint64_t *digest, uint64_t *offers)
{
	int made = begin_cloud(check);

	if (made) {
		espl__check_step(check, "describe");
		(void)espl_kit_describe(check->kit);
		*digest = check->digest;
		*offers = check->kit->offer_count;
	}
	espl__check_close(check);
	return made;
}

void
espl__check_cloud(struct espl__check *check)
{
	uint64_t one, two, offers;

	ESPL__CHECK(check, CHECK);
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
	if (begin_cloud(check)) {
		const struct espl_kit *kit = check->kit;

		if (start_cloud(check)) {
			espl__check_ok(check, "start: offers '%s'%s", kit->offers[0]->name,
			    kit->offer_count > 1 ? " and others" : "");
			check_live(check);
		} else if (kit->cloud->done && kit->cloud->done_status != ESPL_OK) {
			espl__check_ok(check,
			    "start: failed with '%s'%s, so leases were not tested",
			    kit->cloud->done_text,
			    kit->cloud->asked > 0 ? " without a network" : "");
		}
	}
	espl__check_close(check);
}
