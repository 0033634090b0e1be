/* test_aws_world.c - cloud aws and EC2 on a virtual clock: each way in which a driver can die, and
 * random lives with faults (test_clouds.c: every fault at every request).  No machine may be left
 * running, none may cost more than its lease allows, and what is reported as its cost is what EC2
 * charges.
 *
 * Seeds are new on every run and printed; SEED=n repeats one, SEEDS=n says how many (make soak:
 * many).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ec2_world.h"
#include "kit_cloud.h"
#include "ec2_driver.h"

static void
script(struct ec2_world *w, const char *action, uint32_t nth, enum ec2_fault fault, espl_time until)
{
	w->scripts[w->script_count++] = (struct ec2_script){ action, nth, fault, until };
}

/* ---- how a driver dies, and what brings it right (one test for each row of the table) ------ */

#define ROW(number_) Test(aws_world, row_##number_)

/* The lease is not in the journal: nothing was sent. */
ROW(1_dies_before_the_journal)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	ec2_driver_be_away(kit, &w, MINUTE);
	espl_kit_wait(kit, HOUR);
	cr_assert_eq(w.runs, 0);
	ec2_driver_end(kit, &w, 0);
}

ROW(2_dies_before_the_request)
{
	for (uint32_t i = 0; i < 4; i++) { /* of ssh-keygen, or for a machine */
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);
		int released = i / 2 == 1;

		espl_kit_set_fault(kit, 1 + i % 2, ESPL_KIT_KILL_BEFORE);
		(void)espl_kit_acquire(kit, SPOT, 1);
		if (released)
			(void)espl_kit_release(kit, 0);
		ec2_driver_wait_ready(kit, 0);
		if (!released)
			cr_assert_eq(w.count, 1);
		ec2_driver_end(kit, &w, 0);
	}
}

ROW(3_answer_is_lost)
{
	static const espl_kit_fault faults[] = { ESPL_KIT_KILL_AFTER, ESPL_KIT_LOSE_ANSWER };

	for (size_t i = 0; i < 2; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		w.lag_most = 100 * S;
		ec2_driver_acquire_fault(kit, &w, faults[i]);
		ec2_driver_wait_ready(kit, 0);
		cr_assert_eq(w.count, 1);
		cr_assert_eq(w.runs, 2);
		cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "%s",
		    ec2_driver_log(kit));
		ec2_driver_end(kit, &w, 0);
	}
}

/* The machine that an earlier version asked for, in other words: it is looked for, and ended. */
ROW(3_token_was_used_otherwise)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	ec2_driver_acquire_fault(kit, &w, ESPL_KIT_LOSE_ANSWER);
	cr_assert_eq(w.count, 1);
	w.machines[0].digest[5] ^= 1;
	w.machines[0].lag = 100 * S;
	ec2_driver_wait_ready(kit, 0);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s", ec2_driver_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_FAULT);
	cr_assert_eq(ec2_world_left(&w), 0);
	ec2_driver_end(kit, &w, 0);
}

ROW(4_answer_is_not_in_the_journal)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)espl_kit_acquire(kit, SPOT, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_REQUESTED, MINUTE));
	kit->cloud->leases[0]->pub.provider_id = NULL;
	kit->cloud->leases[0]->pub.state = 0;
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_ready(kit, 0);
	cr_assert_eq(w.count, 1);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
	ec2_driver_end(kit, &w, 0);
}

ROW(5_outcome_is_not_known)
{
	static const enum ec2_fault faults[] = { EC2_ERROR, EC2_ERROR_AFTER, EC2_UNAVAILABLE,
		EC2_HALF, EC2_GARBAGE, EC2_CUT_BEFORE, EC2_CUT_AFTER };

	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		script(&w, "RunInstances", 0, faults[i], 5 * MINUTE);
		(void)espl_kit_acquire(kit, SPOT, 1);
		espl_kit_wait(kit, 4 * MINUTE);
		cr_assert_lt(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "fault %zu", i);
		ec2_driver_wait_ready(kit, 0);
		cr_assert_eq(w.count, 1);
		cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "fault %zu", i);
		ec2_driver_end(kit, &w, 0);
	}
}

/* It is not requested again, but looked for until listings would have it. */
ROW(6_released_while_unknown)
{
	static const enum ec2_fault faults[] = { EC2_ERROR, EC2_ERROR_AFTER };

	for (size_t i = 0; i < 2; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		w.lag_most = 120 * S;
		script(&w, "RunInstances", 1, faults[i], ESPL_NEVER);
		(void)espl_kit_acquire(kit, SPOT, 1);
		espl_kit_wait(kit, S / 2);
		(void)espl_kit_release(kit, 0);
		espl_kit_wait(kit, 100 * S);
		ec2_driver_wait_ready(kit, 0);
		cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED);
		cr_assert_eq(w.runs, i); /* the first was not performed */
		cr_assert_geq(espl_kit_time(kit), i == 0 ? 300 * S : 0);
		ec2_driver_end(kit, &w, 0);
	}
}

/* The driver was killed after the request, and comes back to release the lease. */
ROW(6_killed_and_released)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.lag_most = 120 * S;
	script(&w, "RunInstances", 2, EC2_THROTTLED, ESPL_NEVER);
	ec2_driver_acquire_fault(kit, &w, ESPL_KIT_KILL_AFTER);
	espl_kit_wait(kit, S);
	(void)espl_kit_release(kit, 0);
	cr_assert_eq(ec2_world_left(&w), 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(ec2_world_left(&w), 0, "%s", ec2_driver_log(kit));
	ec2_driver_end(kit, &w, 0);
}

ROW(7_release_is_lost)
{
	static const enum ec2_fault faults[] = { EC2_CUT_BEFORE, EC2_CUT_AFTER, EC2_ERROR,
		EC2_ERROR_AFTER, EC2_THROTTLED, EC2_HALF, EC2_GARBAGE };

	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		(void)ec2_driver_acquire_ready(kit, ON_DEMAND);
		script(&w, "TerminateInstances", 0, faults[i], espl_kit_time(kit) + 5 * MINUTE);
		(void)espl_kit_release(kit, 0);
		ec2_driver_end(kit, &w, 0);
	}
}

/* Nobody resumes the run: in whatever state the driver dies, machines end by themselves. */
static void
die_for_good(uint64_t state, int agent, espl_span most)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	espl_time died;

	w.boot_most = 40 * S;
	w.without_agent = !agent;
	if (state == 0)
		ec2_driver_acquire_fault(kit, &w, ESPL_KIT_LOSE_ANSWER);
	else
		(void)espl_kit_acquire(kit, SPOT, 1);
	if (state == ESPL_NODE_NOTICE + 1)
		ec2_driver_wait_ready(kit, 0);
	else
		(void)espl_kit_wait_node(kit, 0, (espl_node_state)state, HOUR);
	if (state == ESPL_NODE_NOTICE + 1) /* and it is being released */
		script(&w, "TerminateInstances", 0, EC2_CUT_BEFORE, ESPL_NEVER - 1);
	if (state == ESPL_NODE_NOTICE + 1)
		(void)espl_kit_release(kit, 0);
	cr_assert_eq(ec2_world_left(&w), 1);
	ec2_world_driver_gone(&w);
	died = espl_kit_time(kit);
	espl_kit_set_time(kit, died + most);
	cr_assert_eq(ec2_world_left(&w), 0, "state %u", (unsigned)state);
	espl_kit_free(kit);
	ec2_world_free(&w);
}

ROW(8_dies_for_good)
{
	for (uint64_t state = 0; state <= ESPL_NODE_NOTICE + 1; state++)
		if (state != ESPL_NODE_NOTICE)
			die_for_good(state, 1, 15 * MINUTE + 60 * S + 40 * S);
}

ROW(9_dies_before_the_agent_comes)
{
	for (uint64_t state = 0; state <= ESPL_NODE_READY; state++)
		die_for_good(state, 0, 15 * MINUTE + 60 * S + 40 * S);
}

/* The agent never stops, but lease_max still ends the machine. */
ROW(9_agent_hangs)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	espl_kit_set_time(kit, 24 * HOUR + MINUTE);
	cr_assert_eq(ec2_world_left(&w), 0);
	ec2_driver_end(kit, &w, 0);
}

/* The machine cannot end itself: the next listing shows it, also that of another run. */
ROW(10_user_data_does_not_run)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.without_user_data = 1;
	(void)ec2_driver_acquire_ready(kit, SPOT);
	ec2_driver_be_away(kit, &w, 48 * HOUR);
	cr_assert_eq(ec2_world_left(&w), 1);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_owned(kit, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_not_null(strstr(espl_kit_log(kit), "id=i-1"), "%s", espl_kit_log(kit));
	ec2_driver_end(kit, &w, 0);
}

/* EC2 may have forgotten the token: it is looked for, and not sent again. */
ROW(11_resumed_late)
{
	static const struct {
		espl_span away;
		int runs_itself, asked;
		espl_node_state state;
	} cases[] = { { 11 * HOUR, 0, 2, ESPL_NODE_ENDED }, { 13 * HOUR, 0, 1, ESPL_NODE_ENDED },
		{ 40 * HOUR, 0, 1, ESPL_NODE_ENDED }, { 40 * HOUR, 1, 1, ESPL_NODE_READY } };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		w.without_user_data = cases[i].runs_itself;
		ec2_driver_acquire_fault(kit, &w, ESPL_KIT_LOSE_ANSWER);
		ec2_driver_be_away(kit, &w, cases[i].away);
		ec2_driver_wait_ready(kit, 0);
		cr_assert_eq(espl_kit_lease(kit, 0)->state, cases[i].state, "case %zu", i);
		cr_assert_eq(w.runs, (uint32_t)cases[i].asked, "case %zu", i);
		cr_assert_eq(w.count, 1);
		ec2_driver_end(kit, &w, 0);
	}
}

/* The run directory was copied, and resumed by another driver: it does not touch the machines while
 * they run, and begins when they have ended. */
ROW(12_two_drivers)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	char look[200];

	(void)ec2_driver_acquire_ready(kit, SPOT);
	(void)snprintf(look, sizeof look, "grep -q '^driver.*:%s$' %s/aws", w.folder, w.folder);
	cr_assert_eq(system(look), 0, "RUN/aws does not name the driver");
	ec2_driver_write_fact(&w, "driver", "", "eve@else:/run");
	w.owner = "eve@else:/run";
	espl_kit_clear(kit);
	ec2_driver_be_away(kit, &w, MINUTE);
	cr_assert_neq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_not_null(strstr(espl_kit_log(kit),
			       "machine i-1 of this run was leased by eve@else:/run, which may "
			       "still be running it"),
	    "%s", espl_kit_log(kit));
	ec2_world_driver_gone(&w);
	espl_kit_set_time(kit, espl_kit_time(kit) + 17 * MINUTE);
	cr_assert_eq(ec2_world_left(&w), 0);
	espl_kit_restart(kit);
	ec2_driver_wait_up(kit);
	ec2_driver_end(kit, &w, 0);
}

/* Where the machines of the run would not be found, or requests would make second ones. */
ROW(15_resumed_elsewhere)
{
	static const struct {
		const char *account, *options, *says;
	} cases[] = {
		{ "999", EC2_OPTIONS, "began in account 123456789012, and this is account 999" },
		{ NULL, "region=us-east-1 image=ami-1 offers=(g5.xlarge,a,,spot,4,1.006,1,cpu,20s)",
		    "began in region eu-central-1, and this is region us-east-1" },
		{ NULL,
		    "region=eu-central-1 image=ami-1 "
		    "offers=(g5.xlarge,a,subnet-9,spot,4,1.006,1,cpu,20s)",
		    "began with subnet subnet-a for g5.xlarge/eu-central-1a spot" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		if (cases[i].account != NULL)
			w.account = cases[i].account;
		ec2_driver_open(kit, cases[i].options);
		espl_kit_clear(kit);
		(void)espl_kit_start(kit);
		cr_assert_neq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
		cr_assert_not_null(strstr(espl_kit_log(kit), cases[i].says), "%s",
		    espl_kit_log(kit));
		cr_assert_eq(w.runs, 0);
		espl_kit_free(kit);
		ec2_world_free(&w);
	}
}

/* Releases are tried, and the failure is reported, until there are keys again. */
ROW(13_keys_expire)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, ON_DEMAND);
	script(&w, NULL, 0, EC2_EXPIRED, espl_kit_time(kit) + 3 * HOUR);
	(void)espl_kit_release(kit, 0);
	espl_kit_wait(kit, 2 * HOUR);
	cr_assert_lt(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED);
	cr_assert_not_null(strstr(espl_kit_log(kit), "ExpiredToken"));
	ec2_driver_end(kit, &w, 0);
}

/* Both at once: EC2 takes it, and that is what counts. */
ROW(14_interrupted_while_released)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	espl_kit_wait(kit, 2 * HOUR);
	script(&w, "TerminateInstances", 0, EC2_CUT_BEFORE, espl_kit_time(kit) + MINUTE);
	(void)espl_kit_release(kit, 0);
	ec2_world_interrupt(&w, &w.machines[0], 0);
	ec2_driver_wait_ready(kit, 0);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_PROVIDER);
	ec2_driver_end(kit, &w, 0);
}

ROW(16_machine_is_stopped)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	w.machines[0].stopped = espl_kit_time(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_FAULT);
	cr_assert_eq(ec2_world_left(&w), 0);
	ec2_driver_end(kit, &w, 0);
}

Test(aws_world, unreachable)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.unreachable = 1;
	(void)espl_kit_acquire(kit, SPOT, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 11 * MINUTE), "%s",
	    ec2_driver_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_FAULT);
	cr_assert_not_null(strstr(espl_kit_log(kit), "Connection refused"));
	ec2_driver_end(kit, &w, 0);
}

/* Each state of a start is explained after 30 s, once, and ends. */
Test(aws_world, each_state_of_a_start_is_explained_and_ends)
{
	static const struct {
		const char *text;
		enum ec2_fault fault; /* of all RunInstances */
		espl_span boot;
		int unreachable;
		espl_reason reason;
		espl_span most;
	} cases[] = {
		{ "waits: EC2 has not accepted its request, for 3", EC2_THROTTLED, 0, 0,
		    ESPL_BY_CAPACITY, 32 * MINUTE },
		{ "waits: EC2 has not accepted its request, for 3", EC2_ERROR, 0, 0,
		    ESPL_BY_CAPACITY, 38 * MINUTE }, /* each might have made a machine */
		{ "machine i-1 waits: EC2 is starting it, for 3", 0, 20 * HOUR, 0, ESPL_BY_FAULT,
		    11 * MINUTE },
		{ "machine i-1 waits: it runs, and ssh has not reached it, for 3", 0, 0, 1,
		    ESPL_BY_FAULT, 11 * MINUTE },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);
		const char *said;

		w.boot_most = cases[i].boot;
		w.unreachable = cases[i].unreachable;
		if (cases[i].fault != 0)
			script(&w, "RunInstances", 0, cases[i].fault, ESPL_NEVER - 1);
		(void)espl_kit_acquire(kit, SPOT, 1);
		if (w.count > 0)
			w.machines[0].running = espl_kit_time(kit) + cases[i].boot;
		espl_kit_wait(kit, 25 * S);
		cr_assert_null(strstr(espl_kit_log(kit), " waits: "), "case %zu\n%s", i,
		    ec2_driver_log(kit));
		espl_kit_wait(kit, MINUTE);
		said = strstr(espl_kit_log(kit), cases[i].text);
		cr_assert_not_null(said, "case %zu\n%s", i, ec2_driver_log(kit));
		cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, cases[i].most),
		    "case %zu\n%s", i, ec2_driver_log(kit));
		cr_assert_null(strstr(said + 1, cases[i].text));
		cr_assert_eq(espl_kit_reason(kit, 0), cases[i].reason, "case %zu", i);
		cr_assert_eq(ec2_world_left(&w), 0);
		ec2_driver_end(kit, &w, 0);
	}
}

/* ---- money --------------------------------------------------------------------------------- */

/* EC2 takes a machine at this age, with a notice; it is released as soon as that is known, or not.
 */
static void
take_at(espl_span age, int released, espl_reason reason, int is_free)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	struct ec2_machine *m;

	w.boot_most = 40 * S;
	(void)ec2_driver_acquire_ready(kit, SPOT);
	m = &w.machines[0];
	espl_kit_wait(kit, m->running + age - 2 * MINUTE - espl_kit_time(kit));
	ec2_world_interrupt(&w, m, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, MINUTE));
	if (released)
		(void)espl_kit_release(kit, 0);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), reason, "%s", ec2_driver_log(kit));
	cr_assert_eq(kit->cloud->leases[0]->charged == 0, is_free, "%s", ec2_driver_log(kit));
	ec2_driver_end(kit, &w, 0);
}

Test(aws_world, first_hour)
{
	take_at(59 * MINUTE + 45 * S, 0, ESPL_BY_PROVIDER, 1);
	take_at(59 * MINUTE + 45 * S, 1, ESPL_BY_PROVIDER, 1); /* EC2 is let end it */
	take_at(60 * MINUTE + 15 * S, 0, ESPL_BY_PROVIDER, 0);
	take_at(60 * MINUTE + 15 * S, 1, ESPL_BY_USER, 0); /* it is ended at once */
}

/* The notice is taken back, or EC2 does not do what it has announced. */
Test(aws_world, notice_without_an_end)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	ec2_world_interrupt(&w, &w.machines[0], 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, MINUTE));
	w.machines[0].late = 24 * HOUR;
	(void)espl_kit_release(kit, 0);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 10 * MINUTE), "%s",
	    ec2_driver_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_USER);
	ec2_driver_end(kit, &w, 0);
}

static uint64_t
count_requests(struct espl_kit *kit)
{
	uint64_t count = 0;

	for (const char *at = espl_kit_log(kit); (at = strstr(at, "http POST")) != NULL; at++)
		count++;
	return count;
}

/* ---- limits of EC2 ------------------------------------------------------------------------- */

/* Many machines at once: no request is refused because there are too many. */
Test(aws_world, rate)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)espl_kit_acquire(kit, SPOT, 20);
	for (uint64_t i = 0; i < 20; i++)
		ec2_driver_wait_ready(kit, i);
	cr_assert_eq(w.run_denied, 0);
	cr_assert_eq(w.count, 20);
	ec2_driver_end(kit, &w, 0);
}

/* EC2 limits the rate of requests, or the login has ended: there are fewer, and soon more again. */
Test(aws_world, listings_that_fail_become_rare)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	uint64_t before;

	(void)ec2_driver_acquire_ready(kit, SPOT);
	script(&w, "DescribeInstances", 0, EC2_THROTTLED, espl_kit_time(kit) + HOUR);
	script(&w, "DescribeSpotInstanceRequests", 0, EC2_THROTTLED, espl_kit_time(kit) + HOUR);
	before = count_requests(kit);
	espl_kit_wait(kit, HOUR);
	cr_assert_leq(count_requests(kit) - before, 140); /* of 1,320 */
	cr_assert_geq(count_requests(kit) - before, 50);
	espl_kit_wait(kit, 2 * MINUTE);
	ec2_world_interrupt(&w, &w.machines[0], 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, 10 * S));
	ec2_driver_end(kit, &w, 0);
}

/* An empty zone is left alone for two minutes, then for longer and longer, up to an hour. */
Test(aws_world, cool_down)
{
	static const espl_span pauses[] = { 120 * S, 240 * S, 480 * S, 960 * S, 1920 * S, 3600 * S,
		3600 * S };
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.dry_until = ESPL_NEVER;
	for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
		uint64_t lease = espl_kit_acquire(kit, SPOT, 1);

		cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, MINUTE));
		cr_assert_eq(espl_kit_reason(kit, lease), ESPL_BY_CAPACITY);
		cr_assert_eq(espl_kit_retry_after(kit, lease), pauses[i], "pause %zu", i);
		cr_assert_eq(w.runs, i + 1);
		espl_kit_wait(kit, pauses[i]);
	}
	w.dry_until = 0;
	(void)ec2_driver_acquire_ready(kit, SPOT);
	w.dry_until = ESPL_NEVER; /* a machine was made: it begins anew, in each zone */
	for (uint32_t offer = 0; offer < 3; offer += 2) {
		uint64_t lease = espl_kit_acquire(kit, offer, 1);

		cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, MINUTE));
		cr_assert_eq(espl_kit_retry_after(kit, lease), pauses[0]);
	}
	ec2_driver_end(kit, &w, 0);
}

Test(aws_world, quota)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.vcpus = 4;
	(void)ec2_driver_acquire_ready(kit, SPOT);
	(void)espl_kit_acquire(kit, ON_DEMAND, 1);
	cr_assert(espl_kit_wait_node(kit, 1, ESPL_NODE_ENDED, MINUTE));
	cr_assert_eq(espl_kit_reason(kit, 1), ESPL_BY_QUOTA);
	cr_assert_eq(w.count, 1);
	ec2_driver_end(kit, &w, 0);
}

/* ---- what a listing finds ------------------------------------------------------------------ */

Test(aws_world, owned)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	struct ec2_machine *other;
	const char *log;

	w.page = 2;
	(void)espl_kit_acquire(kit, SPOT, 5);
	for (uint64_t i = 0; i < 5; i++)
		ec2_driver_wait_ready(kit, i);
	ec2_world_machine(&w, "espl-kit-1")->stopped = espl_kit_time(kit);
	ec2_world_machine(&w, "espl-kit-2")->tagged = 0; /* only its disk is */
	other = ec2_world_machine(&w, "espl-kit-3");
	(void)snprintf(other->run, sizeof other->run, "other");
	ec2_world_end(&w, ec2_world_machine(&w, "espl-kit-4"), "Client.UserInitiatedShutdown");
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_owned(kit, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	log = espl_kit_log(kit);
	cr_assert_not_null(strstr(log, "owned lease=0 "), "%s", log);
	cr_assert_not_null(strstr(log, "owned lease=1 "), "%s", log);
	cr_assert_null(strstr(log, "owned lease=2 "), "%s", log);
	cr_assert_not_null(strstr(log, " run=other"), "%s", log);
	cr_assert_null(strstr(log, "owned lease=4 "), "%s", log);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_owned(kit, "kit"), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_null(strstr(espl_kit_log(kit), "run=other"), "%s", espl_kit_log(kit));
	(void)snprintf(other->run, sizeof other->run, "kit");
	ec2_driver_end(kit, &w, 0);
}

/* A listing that fails on one page says nothing. */
Test(aws_world, half_a_listing)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.page = 1;
	(void)espl_kit_acquire(kit, SPOT, 3);
	for (uint64_t i = 0; i < 3; i++)
		ec2_driver_wait_ready(kit, i);
	for (int i = 0; i < 8; i++)
		script(&w, "DescribeInstances", 2 + (uint32_t)i * 3, EC2_GARBAGE, ESPL_NEVER);
	espl_kit_wait(kit, HOUR);
	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(espl_kit_lease(kit, i)->state, ESPL_NODE_READY, "%s",
		    ec2_driver_log(kit));
	cr_assert_eq(ec2_world_left(&w), 3);
	ec2_driver_end(kit, &w, 0);
}

/* ---- random lives -------------------------------------------------------------------------- */

static void
happen(struct espl_kit *kit, struct ec2_world *w)
{
	struct kit_cloud *c = kit->cloud;
	uint32_t lease = (uint32_t)ec2_world_draw(w, c->lease_count);
	struct ec2_machine *m = ec2_world_machine(w, c->leases[lease]->pub.token);
	uint64_t what = ec2_world_draw(w, 9);

	ec2_world_settle(w);
	if (what == 0)
		ec2_driver_be_away(kit, w, (espl_span)ec2_world_draw(w, 3 * 3600) * S);
	else if (what == 1 && c->leases[lease]->pub.state != ESPL_NODE_ENDED)
		(void)espl_kit_release(kit, lease);
	if (m == NULL || m->end != ESPL_NEVER || m->stopped != ESPL_NEVER ||
	    espl_kit_time(kit) < m->launch)
		return;
	switch (what) {
	case 2: m->stopped = espl_kit_time(kit); break;
	case 3: ec2_world_end(w, m, "Client.UserInitiatedShutdown"); break;
	case 4: ec2_world_end(w, m, "Client.InstanceInitiatedShutdown"); break;
	case 5:
	case 6:
		if (m->spot && espl_kit_time(kit) >= m->running)
			ec2_world_interrupt(w, m, what == 5);
		break;
	case 7: m->agent_until = espl_kit_time(kit); break;
	default: break;
	}
}

/* Nobody resumes the run for long enough: machines have ended themselves, where they can. */
static void
be_gone(struct espl_kit *kit, struct ec2_world *w, uint64_t seed)
{
	ec2_world_driver_gone(w);
	espl_kit_set_time(kit, espl_kit_time(kit) + w->linger + w->boot_most + 15 * MINUTE);
	cr_assert(w->without_user_data || ec2_world_left(w) == 0,
	    "SEED=%llu: %u machines outlive their driver\n%s", (unsigned long long)seed,
	    ec2_world_left(w), ec2_driver_log(kit));
	ec2_driver_be_away(kit, w, 0);
	ec2_driver_wait_up(kit);
}

static void
live(uint64_t seed)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin(&w, seed);
	uint32_t events;

	w.boot_most = (espl_span)ec2_world_draw(&w, 90) * S;
	w.lag_most = (espl_span)ec2_world_draw(&w, 120) * S;
	w.tag_lag = (espl_span)ec2_world_draw(&w, 120) * S;
	w.stale_most = (espl_span)ec2_world_draw(&w, 8) * S;
	w.late_most = (espl_span)ec2_world_draw(&w, 40) * S;
	w.page = 1 + (uint32_t)ec2_world_draw(&w, 5);
	w.unreachable = ec2_world_draw(&w, 20) == 0;
	w.without_user_data = ec2_world_draw(&w, 10) == 0;
	w.on_demand = ec2_world_draw(&w, 20) == 0;
	if (ec2_world_draw(&w, 5) == 0)
		w.vcpus = 8;
	if (ec2_world_draw(&w, 5) == 0)
		w.dry_until = (espl_time)ec2_world_draw(&w, 600) * S;
	for (w.price_count = 1; w.price_count < 8; w.price_count++) {
		w.prices[w.price_count].from =
		    w.price_count * 2400 * S + (espl_time)ec2_world_draw(&w, 2000) * S;
		w.prices[w.price_count].usd_hour = 200000 + (espl_money)ec2_world_draw(&w, 900000);
	}
	/* A pair of faults of the network or the driver, and a pair of EC2's. */
	espl_kit_set_fault(kit, 1 + (uint32_t)ec2_world_draw(&w, 40),
	    (espl_kit_fault)(1 + ec2_world_draw(&w, 5)));
	espl_kit_add_fault(kit, 1 + (uint32_t)ec2_world_draw(&w, 200),
	    (espl_kit_fault)(1 + ec2_world_draw(&w, 5)));
	for (int i = 0; i < 2; i++)
		script(&w, NULL, 1 + (uint32_t)ec2_world_draw(&w, 60),
		    (enum ec2_fault)(1 + ec2_world_draw(&w, EC2_FAULTS - 1)), ESPL_NEVER);
	ec2_driver_start(kit);
	(void)espl_kit_acquire(kit, (uint32_t)ec2_world_draw(&w, 3),
	    1 + (uint32_t)ec2_world_draw(&w, 3));
	if (ec2_world_draw(&w, 6) == 0) {
		espl_kit_wait(kit, (espl_span)ec2_world_draw(&w, 300) * S);
		be_gone(kit, &w, seed);
	}
	events = (uint32_t)ec2_world_draw(&w, 6);
	for (uint32_t i = 0; i < events; i++) {
		espl_kit_wait(kit, (espl_span)ec2_world_draw(&w, i % 2 == 0 ? 60 : 3600) * S);
		happen(kit, &w);
		ec2_driver_wait_up(kit);
		if (ec2_world_draw(&w, 4) == 0)
			(void)espl_kit_acquire(kit, (uint32_t)ec2_world_draw(&w, 3), 1);
	}
	ec2_driver_end(kit, &w, seed);
}

Test(aws_world, lives)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t seed = one != NULL ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) * 100000;
	uint64_t count = one != NULL && many == NULL ? 1
	    : many != NULL                           ? strtoull(many, NULL, 10)
						     : 50;

	cr_log_info("SEED=%llu, SEEDS=%llu", (unsigned long long)seed, (unsigned long long)count);
	for (uint64_t i = 0; i < count; i++)
		live(seed + i);
}
