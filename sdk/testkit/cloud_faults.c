/* cloud_faults.c - the life of two leases, again and again, each time with one fault at one
 * request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit_cloud.h"

#define LEASES 2u
#define REQUESTS_MAX 500u /* of one life that a fault may strike */
#define STARTS_MAX 5      /* that may fail in a row */
#define HOUR (3600 * ESPL_SECOND)
#define SETTLE (24 * HOUR)
#define SWEEPS 5 /* `owned` and releases at the end */

static const char *const faults[] = { "no fault", "lost request", "lost answer", "busy",
	"kill before", "kill after" };

/* Waits until the provider is reached: a start that fails ends a run, and the user resumes it. */
static int
start_cloud(struct espl_kit *kit)
{
	(void)espl_kit_start(kit);
	for (int i = 0; i < STARTS_MAX; i++) {
		espl_status status = espl_kit_wait_done(kit, HOUR);

		if (status == ESPL_OK)
			return 1;
		if (status == ESPL_E_BUSY)
			return 0;
		espl_kit_restart(kit);
	}
	return 0;
}

/* Lists the machines of the run, and releases those that it does not know. */
static espl_status
release_strays(struct espl_kit *kit)
{
	struct kit_cloud *c = kit->cloud;
	espl_status status;
	uint32_t restarts;

	do {
		restarts = c->restarts;
		status = espl_kit_owned(kit, c->run);
		if (status == ESPL_E_UNSUPPORTED)
			return ESPL_OK;
		if (status == ESPL_OK)
			status = espl_kit_wait_done(kit, HOUR);
	} while (c->restarts != restarts);
	for (uint32_t i = 0; status == ESPL_OK && i < c->stray_count; i++)
		espl__kit_release_stray(kit, i);
	return status;
}

static int
has_wrong(const struct espl_kit *kit)
{
	const char *log = espl_kit_log(kit);

	return kit->refused > 0 || strncmp(log, "!!", 2) == 0 || strstr(log, "\n!!") != NULL;
}

static int
end_all(struct espl_kit *kit)
{
	struct kit_cloud *c = kit->cloud;

	for (uint32_t i = 0; i < c->lease_count; i++)
		if (c->leases[i]->pub.state != ESPL_NODE_ENDED && c->leases[i]->releases == 0)
			(void)espl_kit_release(kit, i);
	for (uint32_t i = 0; i < c->lease_count; i++)
		if (!espl_kit_wait_node(kit, i, ESPL_NODE_ENDED, SETTLE))
			return 0;
	return 1;
}

/* An acquire that failed as a whole made no lease. */
static void
acquire_nodes(struct espl_kit *kit, uint32_t offer)
{
	struct kit_cloud *c = kit->cloud;
	uint32_t nodes = espl_kit_offer_at(kit, offer)->nodes_max;

	(void)espl_kit_acquire(kit, offer, nodes < LEASES ? nodes : LEASES);
	for (uint32_t i = 0; i < c->lease_count; i++)
		(void)espl_kit_wait_node(kit, i, ESPL_NODE_READY, SETTLE);
}

static void
count_machines(struct espl_kit *kit, uint32_t *machines, uint32_t *leases)
{
	const struct kit_cloud *c = kit->cloud;

	*machines = c->provider->machines(c->provider->ctx);
	*leases = 0;
	for (uint32_t i = 0; i < c->lease_count; i++)
		*leases += c->leases[i]->pub.state != ESPL_NODE_ENDED;
}

static void
live_once(struct espl_kit *kit)
{
	struct kit_cloud *c = kit->cloud;
	uint32_t machines, leases;

	if (!start_cloud(kit)) {
		espl__kit_print(kit, "!! start: never succeeded");
		return;
	}
	acquire_nodes(kit, 0);
	for (uint32_t i = 0; i < c->lease_count; i++) {
		if (c->leases[i]->pub.state < ESPL_NODE_READY) {
			espl__kit_print(kit, "!! lease %u reached neither READY nor ENDED", i);
			return;
		}
		if (c->leases[i]->pub.state == ESPL_NODE_READY)
			(void)espl_kit_reach(kit, i);
	}
	count_machines(kit, &machines, &leases);
	if (machines > leases)
		espl__kit_print(kit, "!! machines: %u, leases: %u", machines, leases);
	(void)release_strays(kit);
	if (!end_all(kit)) {
		espl__kit_print(kit, "!! a lease that was released has not ended");
		return;
	}
	for (int i = 0; i < SWEEPS && c->provider->machines(c->provider->ctx) > 0; i++) {
		if (release_strays(kit) != ESPL_OK)
			espl__kit_print(kit, "!! owned: failed");
		espl_kit_wait(kit, HOUR);
	}
	if (c->provider->machines(c->provider->ctx) > 0)
		espl__kit_print(kit, "!! machines that are left: %u",
		    c->provider->machines(c->provider->ctx));
}

/* 1: the fault occurred. */
static int
try_fault(struct espl_kit *kit, const struct espl_plugin *plugin, const char *options,
    uint32_t request, espl_kit_fault fault)
{
	struct espl_error error;
	struct kit_cloud *c = espl__kit_cloud(kit);

	espl_kit_clear(kit);
	espl__kit_print(kit, "%s at request %u", faults[fault], request);
	c->provider->reset(c->provider->ctx);
	if (espl_kit_open(kit, plugin, options, &error) != ESPL_OK) {
		espl__kit_print(kit, "!! create: %s", error.text);
		return 0;
	}
	espl_kit_set_fault(kit, request, fault);
	live_once(kit);
	return kit->cloud->struck;
}

espl_status
espl_kit_trouble(struct espl_kit *kit, const struct espl_plugin *plugin, const char *options)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	uint32_t lives = 0;

	if (c->provider == NULL || c->provider->reset == NULL || c->provider->machines == NULL)
		espl__kit_stop("espl_kit_trouble needs a provider with reset and machines");
	(void)try_fault(kit, plugin, options, 0, 0);
	if (has_wrong(kit))
		return ESPL_E_REJECTED;
	for (espl_kit_fault fault = ESPL_KIT_LOSE_REQUEST; fault <= ESPL_KIT_KILL_AFTER; fault++)
		for (uint32_t n = 1, struck = 1; struck && n <= REQUESTS_MAX; n++) {
			struck = (uint32_t)try_fault(kit, plugin, options, n, fault);
			if (has_wrong(kit)) {
				espl__kit_print(kit, "!! %s at request %u", faults[fault], n);
				return ESPL_E_REJECTED;
			}
			lives += struck;
		}
	espl_kit_clear(kit);
	espl__kit_print(kit, "trouble: %u faults", lives);
	return ESPL_OK;
}
