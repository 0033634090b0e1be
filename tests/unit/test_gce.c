/* test_gce.c - cloud gce with Compute Engine on a virtual clock: what it asks for, and what follows
 * from the answers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <espalier/util.h>
#include "gce_server.h"

#define S ESPL_SECOND
#define HOUR (3600 * S)

static struct gce_server server;

static struct espl_kit *
open_started(const char *options)
{
	struct espl_kit *kit = gce_server_open(&server, 1);

	cr_assert_eq(espl_kit_open(kit, &cloud_gce_LTX_espalier_plugin, options, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_start(kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK, "%s", espl_kit_log(kit));
	return kit;
}

static void
close_kit(struct espl_kit *kit)
{
	cr_expect_eq(espl_kit_refused(kit), 0, "%s", espl_kit_log(kit));
	espl_kit_free(kit);
}

static int
logs(struct espl_kit *kit, const char *text)
{
	return strstr(espl_kit_log(kit), text) != NULL;
}

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

Test(gce, a_machine_boots_is_reached_and_ends)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	const json_t *body, *scheduling, *gpu, *items;
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	cr_expect_str_eq(espl_kit_lease(kit, lease)->provider_id, "us-central1-a/espl-kit-0");
	cr_expect_str_eq(espl_kit_lease(kit, lease)->address, "192.0.2.7");
	cr_expect_eq(espl_kit_reach(kit, lease), ESPL_OK);
	cr_expect(logs(kit, "-oStrictHostKeyChecking=yes"), "%s", espl_kit_log(kit));
	cr_expect(logs(kit, "getGuestAttributes"));
	body = server.machines[0].body;
	scheduling = json_object_get(body, "scheduling");
	gpu = json_array_get(json_object_get(body, "guestAccelerators"), 0);
	items = json_object_get(json_object_get(body, "metadata"), "items");
	cr_expect_str_eq(text_of(scheduling, "provisioningModel"), "SPOT");
	cr_expect_str_eq(text_of(scheduling, "instanceTerminationAction"), "DELETE");
	cr_expect_str_eq(text_of(json_object_get(scheduling, "maxRunDuration"), "seconds"),
	    "86400");
	cr_expect_str_eq(text_of(gpu, "acceleratorType"),
	    "zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4");
	cr_expect_str_eq(text_of(json_array_get(items, 0), "key"), "startup-script");
	cr_expect_null(json_object_get(body, "serviceAccounts"), "it was not asked for");
	cr_expect_eq(espl_kit_release(kit, lease), ESPL_OK);
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	cr_expect_eq(espl_kit_reason(kit, lease), ESPL_BY_USER);
	cr_expect_eq(gce_server_machines(&server), 0);
	cr_expect_eq(server.tokens, 1);
	close_kit(kit);
}

Test(gce, a_refusal_has_the_class_of_its_code)
{
	static const struct {
		const char *operation, *at_once;
		espl_reason reason;
	} cases[] = {
		{ "ZONE_RESOURCE_POOL_EXHAUSTED", NULL, ESPL_BY_CAPACITY },
		{ "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", NULL, ESPL_BY_CAPACITY },
		{ "QUOTA_EXCEEDED", NULL, ESPL_BY_QUOTA },
		{ "RESOURCE_NOT_FOUND", NULL, ESPL_BY_REFUSAL },
		{ "INTERNAL_ERROR", NULL, ESPL_BY_FAULT },
		{ NULL, "403 quotaExceeded", ESPL_BY_QUOTA },
		{ NULL, "403 forbidden", ESPL_BY_REFUSAL },
		{ NULL, "400 invalid", ESPL_BY_REFUSAL },
		{ NULL, "404 notFound", ESPL_BY_REFUSAL },
		/* repeated for three times boot_timeout */
		{ NULL, "403 rateLimitExceeded", ESPL_BY_CAPACITY },
		{ NULL, "503 backendError", ESPL_BY_CAPACITY },
	};
	struct espl_kit *kit = open_started(GCE_OPTIONS);

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint64_t lease;

		server.refuse = cases[i].operation;
		server.refuse_at_once = cases[i].at_once;
		lease = espl_kit_acquire(kit, 0, 1);
		cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR), "case %zu", i);
		cr_expect_eq(espl_kit_reason(kit, lease), cases[i].reason, "case %zu: %s", i,
		    espl_kit_log(kit));
	}
	cr_expect(logs(kit, "ZONE_RESOURCE_POOL_EXHAUSTED: by the test"), "%s", espl_kit_log(kit));
	close_kit(kit);
}

Test(gce, a_spot_machine_that_is_taken_back)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	gce_server_interrupt(&server, 0);
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_NOTICE, 12 * S), "within two polls");
	cr_expect_eq(espl_kit_lease(kit, lease)->state, ESPL_NODE_NOTICE);
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, 90 * S));
	cr_expect_eq(espl_kit_reason(kit, lease), ESPL_BY_PROVIDER);
	close_kit(kit);
}

Test(gce, one_that_was_taken_back_between_two_listings)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	server.machines[0].there = 0;
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, 90 * S));
	cr_expect_eq(espl_kit_reason(kit, lease), ESPL_BY_PROVIDER);
	close_kit(kit);
}

Test(gce, a_stopped_machine_costs_its_disk_and_is_deleted)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 1, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	server.machines[0].status = "TERMINATED"; /* powered off from within */
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, 90 * S));
	cr_expect_eq(espl_kit_reason(kit, lease), ESPL_BY_FAULT);
	cr_expect_eq(gce_server_machines(&server), 0);
	cr_expect_geq(server.deletes, 1);
	close_kit(kit);
}

Test(gce, one_listing_is_no_proof)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	server.silent_lists = 3;
	espl_kit_wait(kit, 60 * S);
	cr_expect_eq(server.silent_lists, 0);
	cr_expect_eq(espl_kit_lease(kit, lease)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	close_kit(kit);
}

Test(gce, a_listing_without_one_zone_ends_nothing)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	server.unreachable = "zones/us-central1-a";
	espl_kit_wait(kit, 300 * S);
	cr_expect_eq(espl_kit_lease(kit, lease)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	cr_expect(logs(kit, "the listing lacks zones/us-central1-a: UNREACHABLE"));
	server.unreachable = NULL;
	espl_kit_wait(kit, 120 * S);
	cr_expect(logs(kit, "Compute Engine answers again"), "%s", espl_kit_log(kit));
	close_kit(kit);
}

Test(gce, a_token_that_has_expired_is_asked_for_again)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease;
	unsigned tokens = server.tokens;

	server.expired = 1;
	lease = espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	cr_expect_eq(server.tokens, tokens + 1);
	cr_expect_eq(server.count, 1);
	cr_expect_not(logs(kit, "ya29"), "the token is no word for a log");
	close_kit(kit);
}

Test(gce, a_login_that_has_expired_ends_nothing)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t kept = espl_kit_acquire(kit, 0, 2);
	const char *first;

	cr_assert(espl_kit_wait_node(kit, kept, ESPL_NODE_READY, HOUR));
	cr_assert(espl_kit_wait_node(kit, kept + 1, ESPL_NODE_READY, HOUR));
	server.logged_out = 1;
	espl_kit_wait(kit, HOUR);
	cr_expect_eq(espl_kit_release(kit, kept + 1), ESPL_OK);
	espl_kit_wait(kit, HOUR);
	cr_expect_eq(espl_kit_lease(kit, kept)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	cr_expect_eq(gce_server_machines(&server), 2);
	first = strstr(espl_kit_log(kit), "waiting for it, the machines keep running");
	cr_assert_not_null(first, "%s", espl_kit_log(kit));
	cr_expect_null(strstr(first + 1, "waiting for it"), "once");
	server.logged_out = 0;
	cr_expect(espl_kit_wait_node(kit, kept + 1, ESPL_NODE_ENDED, 300 * S));
	cr_expect_eq(gce_server_machines(&server), 1);
	close_kit(kit);
}

Test(gce, a_machine_whose_host_key_is_not_published_is_not_used)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS " boot_timeout=3m");
	uint64_t lease;

	server.keyless = 1;
	lease = espl_kit_acquire(kit, 0, 1);
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	cr_expect_eq(espl_kit_reason(kit, lease), ESPL_BY_FAULT);
	cr_expect(logs(kit, "its ssh host keys are not published yet"), "%s", espl_kit_log(kit));
	cr_expect_eq(gce_server_machines(&server), 0);
	close_kit(kit);
}

Test(gce, a_machine_of_a_killed_run_is_adopted)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	espl_kit_restart(kit);
	espl_kit_wait(kit, 60 * S);
	cr_expect_eq(espl_kit_lease(kit, lease)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	cr_expect_eq(server.inserts, 1);
	cr_expect_eq(espl_kit_release(kit, lease), ESPL_OK);
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	cr_expect_eq(gce_server_machines(&server), 0);
	close_kit(kit);
}

Test(gce, a_machine_without_the_token_of_the_lease_is_not_deleted)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);
	uint64_t lease = espl_kit_acquire(kit, 0, 1);

	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	server.machines[0].label = "somebody-elses"; /* what leases.json names may be any machine */
	espl_kit_restart(kit);
	(void)espl_kit_release(kit, lease);
	cr_expect(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR), "%s", espl_kit_log(kit));
	cr_expect_eq(server.deletes, 0, "%s", espl_kit_log(kit));
	cr_expect_eq(gce_server_machines(&server), 1);
	close_kit(kit);
}

Test(gce, machines_of_all_runs_are_listed)
{
	struct espl_kit *kit = open_started(GCE_OPTIONS);

	(void)espl_kit_acquire(kit, 0, 2);
	cr_assert(espl_kit_wait_node(kit, 1, ESPL_NODE_READY, HOUR));
	(void)snprintf(server.machines[1].run, sizeof server.machines[1].run, "other");
	cr_assert_eq(espl_kit_owned(kit, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_expect(logs(kit, "id=us-central1-a/espl-kit-1"), "%s", espl_kit_log(kit));
	cr_expect(logs(kit, "run=other"), "%s", espl_kit_log(kit));
	close_kit(kit);
}

Test(gce, what_is_wrong_in_a_configuration)
{
	static const struct {
		const char *options, *text;
	} cases[] = {
		{ GCE_OPTIONS " token=ya29.secret", "this is not where a token comes from" },
		{ "project=a/../b image=x offers=(t,z,spot,1,1.0)", NULL },
		{ "project=a?b image=x offers=(t,z,spot,1,1.0)", "not a name of Compute Engine" },
		{ "project=a image=x offers=(t,z?,spot,1,1.0)", "type or zone is not a name" },
		{ "project=a image=x offers=(t,z,spot,1,1.0)(t,z,spot,2,1.0)", "listed twice" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl_kit *kit = gce_server_open(&server, 1);
		struct espl_error error = ESPL_INIT(struct espl_error);

		cr_expect_neq(espl_kit_open(kit, &cloud_gce_LTX_espalier_plugin, cases[i].options,
				  &error),
		    ESPL_OK, "case %zu", i);
		if (cases[i].text != NULL)
			cr_expect(strstr(error.text, cases[i].text) != NULL, "case %zu: %s", i,
			    error.text);
		espl_kit_free(kit);
	}
}
