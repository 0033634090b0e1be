/* test_aws_hostkey.c - cloud aws and EC2 on a virtual clock: the ssh host keys that machines are
 * given, and machines that have others.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cloud_aws.h"
#include "ec2_driver.h"
#include "ec2_world.h"
#include "kit_cloud.h"

/* Whether this shell command succeeds in RUN. */
static int
holds(const struct ec2_world *w, const char *command)
{
	char text[400];

	(void)snprintf(text, sizeof text, "cd %s && %s", w->folder, command);
	return system(text) == 0;
}

static uint32_t
count_logged(struct espl_kit *kit, const char *text)
{
	uint32_t count = 0;

	for (const char *at = espl_kit_log(kit); (at = strstr(at, text)) != NULL; at++)
		count++;
	return count;
}

static int
has_key(const struct ec2_world *w, const char *token)
{
	char command[200];

	(void)snprintf(command, sizeof command, "[ -e aws.keys/%s ]", token);
	return holds(w, command);
}

/* Each machine has a key of its own; ssh knows it, and it is in RUN until the machine is known. */
Test(aws_hostkey, given)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	cr_assert(!has_key(&w, "espl-kit-0"));
	(void)espl_kit_acquire(kit, ON_DEMAND, 1);
	for (int i = 0; i < 1000 && w.runs < 2; i++)
		espl_kit_wait(kit, S / 100);
	cr_assert(holds(&w, "! grep private aws known_hosts && grep -q private2 aws.keys/*"));
	cr_assert(holds(&w, "[ $(stat -c %a aws.keys) = 700 ]"));
	ec2_driver_wait_ready(kit, 1);
	cr_assert(holds(&w, "[ -z \"$(ls aws.keys)\" ]"));
	cr_assert_eq(w.keys, 2);
	cr_assert(w.strict);
	cr_assert_not_null(strstr(w.machines[0].user_data,
	    "\n#cloud-config\nssh_deletekeys: true\nssh_keys:\n  ed25519_private: |\n"
	    "    -----BEGIN KEY-----\n    private1\n    -----END KEY-----\n"
	    "  ed25519_public: ssh-ed25519 public1\n"));
	cr_assert_not_null(strstr(w.machines[0].user_data, "\n\n#!/bin/sh\n"));
	cr_assert_not_null(strstr(w.machines[1].user_data, "    private2\n"));
	cr_assert(holds(&w,
	    "[ \"$(cat known_hosts)\" = 'espl-kit-0 ssh-ed25519 public1\n"
	    "espl-kit-1 ssh-ed25519 public2' ]"));
	cr_assert_null(strstr(espl_kit_log(kit), "private"));
	cr_assert(holds(&w, "! grep private aws known_hosts"));
	(void)espl_kit_release(kit, 0);
	(void)espl_kit_release(kit, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert(espl_kit_wait_node(kit, 1, ESPL_NODE_ENDED, HOUR));
	cr_assert(holds(&w, "[ ! -e aws.keys ]"));
	ec2_driver_end(kit, &w, 0);
}

/* The driver is killed while a request is under way, and does not come back: whoever releases the
 * machines of the run removes the keys, also if there are no machines. */
Test(aws_hostkey, abandoned)
{
	for (int releases = 0; releases < 3; releases++) {
		struct ec2_world w;
		struct espl_visit visit = ESPL_INIT(struct espl_visit);
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		espl_kit_set_fault(kit, releases == 1 ? 2 : 3,
		    releases == 1 ? ESPL_KIT_KILL_BEFORE : ESPL_KIT_LOSE_ANSWER);
		(void)espl_kit_acquire(kit, SPOT, 1);
		espl_kit_wait(kit, S / 2);
		cr_assert(has_key(&w, "espl-kit-0"), "%s", ec2_driver_log(kit));
		visit.folder = w.folder;
		visit.idle = releases > 0;
		espl_kit_set_service(kit, ESPL_RUN, NULL);
		espl_kit_set_service(kit, ESPL_VISIT, &visit);
		ec2_driver_open(kit, EC2_OPTIONS);
		ec2_driver_start(kit);
		cr_assert_eq(espl_kit_owned(kit, "kit"), ESPL_OK);
		cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
		cr_assert_eq(has_key(&w, "espl-kit-0"), releases == 0);
		espl_kit_free(kit);
		ec2_world_free(&w);
	}
}

/* It is removed before the end of the lease is saved: a driver that dies between the two finds out
 * that the machine has ended all the same. */
Test(aws_hostkey, end_is_not_saved)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	ec2_driver_acquire_fault(kit, &w, ESPL_KIT_LOSE_ANSWER);
	cr_assert(has_key(&w, "espl-kit-0"));
	ec2_world_end(&w, &w.machines[0], "Client.UserInitiatedShutdown");
	cr_assert(holds(&w, "rm -r aws.keys"));
	ec2_driver_be_away(kit, &w, MINUTE);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR), "%s", ec2_driver_log(kit));
	cr_assert_eq(w.count, 1);
	cr_assert_eq(w.keys, 1);
	ec2_driver_end(kit, &w, 0);
}

/* A driver that is resumed knows the key that the machine was given. */
Test(aws_hostkey, resumed)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	ec2_driver_acquire_fault(kit, &w, ESPL_KIT_KILL_AFTER);
	ec2_driver_wait_ready(kit, 0);
	cr_assert_eq(w.runs, 2);
	cr_assert_eq(w.keys, 1);
	cr_assert(
	    holds(&w, "grep -q '^espl-kit-0 ssh-ed25519 public1$' known_hosts && rm known_hosts"));
	w.strict = 0;
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_up(kit);
	espl_kit_wait(kit, MINUTE);
	cr_assert(w.strict);
	cr_assert_eq(w.keys, 1);
	cr_assert(holds(&w, "grep -q '^espl-kit-0 ssh-ed25519 public1$' known_hosts"));
	cr_assert_null(strstr(espl_kit_log(kit), "without an ssh host key"));
	ec2_driver_end(kit, &w, 0);
}

/* An older espalier has leased a machine without a key, and asked for another. */
Test(aws_hostkey, older)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	cr_assert(holds(&w, "sed -i '/^host_key/d' aws && rm -rf aws.keys known_hosts"));
	cr_assert(holds(&w, "sed -i '/^token/{p;s/kit-0/kit-1/}' aws"));
	for (int i = 0; i < 2; i++) {
		w.strict = 1;
		espl_kit_clear(kit);
		ec2_driver_be_away(kit, &w, MINUTE);
		ec2_driver_wait_up(kit);
		espl_kit_wait(kit, MINUTE);
		cr_assert_eq(w.strict, 0);
		cr_assert_eq(count_logged(kit,
				 "1 machine of this run was requested without an ssh "
				 "host key from espalier"),
		    1, "%s", ec2_driver_log(kit));
	}
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
	(void)ec2_driver_acquire_ready(kit, SPOT);
	cr_assert_eq(w.strict, 0);
	cr_assert_eq(strncmp(w.machines[1].user_data, "#!/bin/sh\n", 10), 0);
	(void)ec2_driver_acquire_ready(kit, SPOT);
	cr_assert(w.strict);
	ec2_driver_end(kit, &w, 0);
}

/* Without the private key the request cannot be repeated: its machine is looked for. */
Test(aws_hostkey, lost)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	ec2_driver_acquire_fault(kit, &w, ESPL_KIT_LOSE_ANSWER);
	cr_assert(holds(&w, "rm -r aws.keys"));
	ec2_driver_wait_ready(kit, 0);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "%s", ec2_driver_log(kit));
	cr_assert_eq(w.runs, 1);
	cr_assert(w.strict);
	ec2_driver_end(kit, &w, 0);
}

Test(aws_hostkey, no_program)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin(&w, 1);

	w.without_keygen = 1;
	(void)espl_kit_start(kit);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(espl_kit_log(kit),
	    "ssh-keygen, which makes the ssh host keys of machines, cannot be run"));
	w.without_keygen = 0;
	espl_kit_restart(kit);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	(void)ec2_driver_acquire_ready(kit, SPOT);
	w.without_keygen = 1; /* machines must be found and ended all the same */
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_up(kit);
	ec2_driver_end(kit, &w, 0);
}

/* For images that do not take keys from user data. */
Test(aws_hostkey, accept)
{
	struct ec2_world w;
	struct espl_kit *kit = espl_kit_new(1);

	ec2_world_begin(&w, kit, 1);
	w.without_keygen = 1;
	ec2_driver_open(kit, "host_key=accept " EC2_OPTIONS);
	ec2_driver_start(kit);
	(void)ec2_driver_acquire_ready(kit, SPOT);
	cr_assert_eq(w.strict, 0);
	cr_assert_eq(strncmp(w.machines[0].user_data, "#!/bin/sh\n", 10), 0);
	cr_assert(holds(&w, "[ ! -e aws.keys ]"));
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_up(kit);
	espl_kit_wait(kit, MINUTE);
	cr_assert_null(strstr(espl_kit_log(kit), "without an ssh host key"));
	ec2_driver_end(kit, &w, 0);
}

/* It may be somebody else, or cloud-init has not come to it yet. */
Test(aws_hostkey, another)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	for (int i = 0; i < 2; i++) {
		w.other_keys = 1;
		(void)espl_kit_acquire(kit, SPOT, 1);
		cr_assert(espl_kit_wait_node(kit, (uint32_t)i, ESPL_NODE_BOOTING, MINUTE));
		espl_kit_wait(kit, 20 * S);
		cr_assert_eq(espl_kit_lease(kit, (uint32_t)i)->state, ESPL_NODE_BOOTING);
		cr_assert_eq(count_logged(kit,
				 "that espalier gave it; it is ended unless it has that key "
				 "within 30 s"),
		    1 + i, "%s", ec2_driver_log(kit));
		w.other_keys = i;
		ec2_driver_wait_ready(kit, (uint32_t)i);
	}
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
	cr_assert_eq(espl_kit_reason(kit, 1), ESPL_BY_FAULT);
	cr_assert_eq(ec2_world_left(&w), 1);
	cr_assert(espl_kit_wait_node(kit, 1, ESPL_NODE_ENDED, 0));
	cr_assert_leq(espl_kit_time(kit), 2 * MINUTE);
	cr_assert_eq(count_logged(kit,
			 ": machine i-2 at 10.9.0.2 does not have the ssh host key that espalier "
			 "gave it\n"),
	    1, "%s", ec2_driver_log(kit));
	ec2_driver_end(kit, &w, 0);
}

/* A machine that was used had the right key before: the other one is not that machine. */
Test(aws_hostkey, another_later)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	espl_time back;

	(void)ec2_driver_acquire_ready(kit, SPOT);
	w.other_keys = 1;
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_up(kit);
	back = espl_kit_time(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR), "%s", ec2_driver_log(kit));
	cr_assert_leq(espl_kit_time(kit), back + 15 * S);
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_FAULT);
	cr_assert_eq(count_logged(kit, "that espalier gave it; it is ended\n"), 1, "%s",
	    ec2_driver_log(kit));
	ec2_driver_end(kit, &w, 0);
}

/* A program that fails ends the lease; one that is killed runs again. */
Test(aws_hostkey, not_made)
{
	static const espl_kit_fault faults[] = { ESPL_KIT_BUSY, ESPL_KIT_LOSE_ANSWER,
		ESPL_KIT_LOSE_REQUEST };

	for (uint32_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		espl_kit_set_fault(kit, 1, faults[i]);
		(void)espl_kit_acquire(kit, SPOT, 1);
		ec2_driver_wait_ready(kit, 0);
		if (i == 0)
			cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_REFUSAL);
		else
			cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
		cr_assert_eq(count_logged(kit,
				 "ssh-keygen has not made the ssh host key of a machine"),
		    i == 0 ? 2 : 1, "%s", ec2_driver_log(kit));
		cr_assert_eq(w.count, i > 0);
		ec2_driver_end(kit, &w, 0);
	}
}
