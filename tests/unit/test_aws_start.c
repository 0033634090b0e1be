/* test_aws_start.c - cloud aws and EC2 on a virtual clock: what a start asks for and records,
 * machines that do not end, and what leases have cost, to the micro-dollar.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "cloud_aws.h"
#include "ec2_driver.h"
#include "ec2_world.h"
#include "kit_cloud.h"

/* Each offer is checked before anything is leased; later the check is left out, because machines
 * must be found and ended even if EC2 would refuse new ones. */
Test(aws_world, dry_runs)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	cr_assert_eq(w.dry_runs, 3);
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_up(kit);
	cr_assert_eq(w.dry_runs, 6);
	(void)ec2_driver_acquire_ready(kit, SPOT);
	ec2_driver_be_away(kit, &w, MINUTE);
	ec2_driver_wait_up(kit);
	cr_assert_eq(w.dry_runs, 6);
	ec2_driver_end(kit, &w, 0);
}

/* RequestLimitExceeded means throttling, not a quota: the run can be resumed. */
Test(aws_start, throttled)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin(&w, 1);

	w.scripts[w.script_count++] =
	    (struct ec2_script){ "RunInstances", 0, EC2_THROTTLED, 100 * HOUR };
	(void)espl_kit_start(kit);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_E_REMOTE);
	cr_assert_null(strstr(espl_kit_log(kit), "quota"));
	w.script_count = 0;
	espl_kit_restart(kit);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	ec2_driver_end(kit, &w, 0);
}

/* Where machines are only listed or released, nothing is checked that only a lease needs, and
 * nothing is written.  They are looked for where the run leases them, or not at all. */
Test(aws_start, visit)
{
	struct ec2_world w;
	struct espl_visit visit = ESPL_INIT(struct espl_visit);
	struct espl_kit *kit = espl_kit_new(1);
	const char *options = strchr(EC2_OPTIONS, ' ');
	char path[100];
	struct stat before, after;

	cr_assert_eq(setenv("AWS_REGION", "us-east-1", 1), 0);
	ec2_world_begin(&w, kit, 1);
	ec2_driver_write_fact(&w, "region", "", "eu-central-1");
	ec2_driver_write_fact(&w, "run", "", "kit");
	ec2_driver_write_fact(&w, "driver", "", "somebody@elsewhere:/run");
	(void)snprintf(path, sizeof path, "%s/aws", w.folder);
	cr_assert_eq(stat(path, &before), 0);
	visit.folder = w.folder;
	espl_kit_set_service(kit, ESPL_RUN, NULL);
	espl_kit_set_service(kit, ESPL_VISIT, &visit);
	ec2_driver_open(kit, options);
	ec2_driver_start(kit);
	cr_assert_eq(w.dry_runs, 0);
	cr_assert_not_null(strstr(espl_kit_log(kit), "g5.xlarge/eu-central-1a"));
	cr_assert_eq(stat(path, &after), 0);
	cr_assert_eq(after.st_size, before.st_size);
	ec2_driver_write_fact(&w, "account", "", "321");
	(void)espl_kit_restart(kit);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_E_REMOTE);
	cr_assert_not_null(strstr(espl_kit_log(kit), "this run began in account 321"));
	espl_kit_free(kit);
	ec2_world_free(&w);
}

/* The prices of two days are there when the start ends, for policies that judge by them. */
Test(aws_start, history)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin(&w, 1);
	const char *log, *prices;

	for (w.price_count = 1; w.price_count < 9; w.price_count++) {
		w.prices[w.price_count].from = ((espl_time)w.price_count - 10) * 5 * HOUR;
		w.prices[w.price_count].usd_hour = 400000 + w.price_count;
	}
	w.prices[0].from = -100 * HOUR; /* in force two days ago */
	ec2_driver_start(kit);
	log = espl_kit_log(kit);
	prices = strstr(log, "prices g5.xlarge/eu-central-1a spot count=9");
	cr_assert_not_null(prices, "%s", log);
	cr_assert_not_null(strstr(prices, "done"), "they come after the start\n%s", log);
	ec2_driver_end(kit, &w, 0);
}

/* A line that a full disk has cut off does not take the next one with it. */
Test(aws_start, record_cut)
{
	char folder[] = "/tmp/espalier-record-XXXXXX", path[100], text[AWS_TEXT];
	struct espl_run run = ESPL_INIT(struct espl_run);
	struct aws_cloud *cloud = calloc(1, sizeof *cloud);
	struct rlimit limit = { 30, RLIM_INFINITY };

	cr_assert_not_null(cloud);
	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(path, sizeof path, "%s/aws", folder);
	run.folder = folder;
	cloud->run = &run;
	cr_assert_eq(cloud_aws_record_put(cloud, "run", "one", "1", text), 0);
	(void)signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(cloud_aws_record_put(cloud, "token", "espl-run-7", "1764200000", text), -1);
	cr_assert_not_null(strstr(text, path));
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(cloud_aws_record_put(cloud, "token", "espl-run-7", "1764200001", text), 0);
	cr_assert_eq(cloud_aws_record_read(cloud, text), 0);
	cr_assert_not_null(cloud_aws_record_get(cloud, "token", "espl-run-7"));
	cr_assert_str_eq(cloud_aws_record_get(cloud, "token", "espl-run-7"), "1764200001");
	cr_assert_str_eq(cloud_aws_record_get(cloud, "run", "one"), "1");
	cloud_aws_record_free(cloud);
	free(cloud);
	cr_assert_eq(remove(path) | remove(folder), 0);
}

/* Paths that differ only behind the length of a tag, or in characters that a tag does not hold. */
Test(aws_start, tags)
{
	char one[600], other[600], tag[AWS_DRIVER], other_tag[AWS_DRIVER];

	cloud_aws_record_tag("ann@box:/home/ann/run", tag);
	cr_assert_str_eq(tag, "ann@box:/home/ann/run");
	memset(one, 'a', sizeof one);
	memcpy(one, "ann@box:/", 9);
	one[500] = '\0';
	memcpy(other, one, sizeof other);
	other[499] = 'b';
	cloud_aws_record_tag(one, tag);
	cloud_aws_record_tag(other, other_tag);
	cr_assert_str_neq(tag, other_tag);
	cr_assert_lt(strlen(tag), AWS_DRIVER);
	cr_assert_eq(strncmp(tag, one, 150), 0);
	cloud_aws_record_tag("ann@box:/a b", tag);
	cloud_aws_record_tag("ann@box:/a_b", other_tag);
	cr_assert_str_neq(tag, other_tag);
}

/* ---- money --------------------------------------------------------------------------------- */

/* The lease has cost what EC2 charges from the last answer that shows its machine pending to the
 * first that shows its end, at the prices of each second. */
static void
cost_exactly(struct espl_kit *kit, struct ec2_world *w, uint32_t lease, espl_span least)
{
	const struct ec2_machine *m = &w->machines[lease];
	espl_money charge = ec2_world_charge(w, m, m->shown_pending, m->shown_end);

	cr_assert_eq(kit->cloud->leases[lease]->charged, charge, "%lld, not %lld\n%s",
	    (long long)kit->cloud->leases[lease]->charged, (long long)charge, ec2_driver_log(kit));
	cr_assert_geq(m->shown_end - m->shown_pending, least);
}

static void
set_prices(struct ec2_world *w)
{
	for (w->price_count = 1; w->price_count < 12; w->price_count++) {
		w->prices[w->price_count].from = (w->price_count * 701 - 300) * S;
		w->prices[w->price_count].usd_hour = 250000 + 7919 * (espl_money)w->price_count;
	}
}

/* ---- machines that do not end --------------------------------------------------------------- */

/* Listings lack a machine that runs: it is ended before its lease is. */
Test(aws_start, unlisted)
{
	for (int released = 0; released < 2; released++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin_started(&w);

		(void)ec2_driver_acquire_ready(kit, SPOT);
		espl_kit_wait(kit, 20 * MINUTE);
		w.machines[0].unlisted = 1;
		if (released)
			(void)espl_kit_release(kit, 0);
		cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR), "%s",
		    ec2_driver_log(kit));
		cr_assert_eq(ec2_world_left(&w), 0, "%s", ec2_driver_log(kit));
		cr_assert_eq(espl_kit_reason(kit, 0), released ? ESPL_BY_USER : ESPL_BY_FAULT);
		ec2_driver_end(kit, &w, 0);
	}
}

/* It ended while nobody looked, and EC2 has forgotten it: the lease ends, too. */
Test(aws_start, forgotten)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	(void)ec2_driver_acquire_ready(kit, SPOT);
	ec2_world_end(&w, &w.machines[0], "Client.InstanceInitiatedShutdown");
	ec2_driver_be_away(kit, &w, 3 * HOUR);
	ec2_driver_wait_up(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR), "%s", ec2_driver_log(kit));
	cr_assert_not_null(strstr(ec2_driver_log(kit), "no longer lists its machine"));
	ec2_driver_end(kit, &w, 0);
}

static unsigned
count_texts(const char *text, const char *wanted)
{
	unsigned count = 0;

	for (; (text = strstr(text, wanted)) != NULL; text++)
		count++;
	return count;
}

/* EC2 refuses to end it for three hours: that is said again and again, but not all the time. */
Test(aws_start, not_ended)
{
	static const struct {
		int minutes;
		unsigned warnings;
	} steps[] = { { 2, 1 }, { 4, 2 }, { 6, 2 }, { 4, 3 }, { 40, 3 }, { 6, 4 }, { 50, 4 },
		{ 10, 5 }, { 60, 6 } };
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);
	char wanted[200];

	(void)ec2_driver_acquire_ready(kit, SPOT);
	w.scripts[w.script_count++] =
	    (struct ec2_script){ "TerminateInstances", 0, EC2_EXPIRED, 1000 * HOUR };
	(void)espl_kit_release(kit, 0);
	(void)snprintf(wanted, sizeof wanted, "machine %s (g5.xlarge/eu-central-1a, spot, $0.",
	    w.machines[0].id);
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		espl_kit_wait(kit, steps[i].minutes * MINUTE);
		cr_assert_eq(count_texts(espl_kit_log(kit), wanted), steps[i].warnings,
		    "step %zu: %u warnings\n%s", i, count_texts(espl_kit_log(kit), wanted),
		    ec2_driver_log(kit));
	}
	cr_assert_not_null(strstr(espl_kit_log(kit),
	    " an hour) may still be running, 60 minutes after its end was first requested; trying "
	    "again: TerminateInstances: "));
	w.script_count = 0;
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(ec2_world_left(&w), 0);
	ec2_driver_end(kit, &w, 0);
}

/* ---- money ---------------------------------------------------------------------------------- */

/* EC2 takes it, with and without a notice, in the first hour and later. */
Test(aws_start, bill_of_interrupted)
{
	static const struct {
		espl_span age;
		int notice, is_free;
	} cases[] = { { 20 * MINUTE, 1, 1 }, { 20 * MINUTE, 0, 1 }, { 58 * MINUTE, 0, 1 },
		{ 61 * MINUTE, 1, 0 }, { 61 * MINUTE, 0, 0 }, { 100 * MINUTE, 1, 0 } };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin(&w, 1 + i);
		struct ec2_machine *m = &w.machines[0];

		set_prices(&w);
		w.boot_most = 40 * S;
		w.late_most = 20 * S;
		ec2_driver_start(kit);
		(void)ec2_driver_acquire_ready(kit, SPOT);
		espl_kit_wait(kit, m->running + cases[i].age - espl_kit_time(kit));
		ec2_world_interrupt(&w, m, cases[i].notice);
		cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
		cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_PROVIDER);
		cost_exactly(kit, &w, 0, cases[i].age);
		cr_assert_eq(kit->cloud->leases[0]->charged == 0, cases[i].is_free, "case %zu", i);
		ec2_driver_end(kit, &w, 0);
	}
}

/* We end it: EC2 tells when, so where its begin is seen the bill is exactly EC2's. */
Test(aws_start, bill_of_released)
{
	static const espl_span ages[] = { 10 * S, 59 * S, 61 * S, 35 * MINUTE, 2 * HOUR };

	for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++) {
		struct ec2_world w;
		struct espl_kit *kit = ec2_driver_begin(&w, 1 + i);
		struct ec2_machine *m = &w.machines[0];

		set_prices(&w);
		ec2_driver_start(kit);
		(void)espl_kit_acquire(kit, SPOT, 1);
		espl_kit_wait(kit, ages[i]);
		(void)espl_kit_release(kit, 0);
		cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
		cr_assert_eq(kit->cloud->leases[0]->charged, ec2_world_bill(&w, m), "case %zu\n%s",
		    i, ec2_driver_log(kit));
		cr_assert_gt(kit->cloud->leases[0]->charged, 0);
		ec2_driver_end(kit, &w, 0);
	}
}

/* A clock that goes wrong while the run goes on is named, and costs no lease. */
Test(aws_start, clock)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin_started(&w);

	w.scripts[w.script_count++] =
	    (struct ec2_script){ "RunInstances", 0, EC2_SKEWED, espl_kit_time(kit) + 10 * MINUTE };
	(void)espl_kit_acquire(kit, SPOT, 1);
	espl_kit_wait(kit, 5 * MINUTE);
	cr_assert_lt(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s", ec2_driver_log(kit));
	cr_assert_not_null(strstr(espl_kit_log(kit),
			       "the clock of this machine is 15 minutes behind that of AWS, so its "
			       "requests are refused (RunInstances: AuthFailure"),
	    "%s", ec2_driver_log(kit));
	ec2_driver_wait_ready(kit, 0);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
	ec2_driver_end(kit, &w, 0);
}

/* What is not an answer is not recorded as the account of the run. */
Test(aws_start, no_account)
{
	struct ec2_world w;
	struct espl_kit *kit = ec2_driver_begin(&w, 1);

	w.account = "";
	(void)espl_kit_start(kit);
	cr_assert_neq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_not_null(strstr(espl_kit_log(kit), "the answer names no account"), "%s",
	    ec2_driver_log(kit));
	w.account = "123456789012";
	espl_kit_restart(kit);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK, "%s", ec2_driver_log(kit));
	ec2_driver_end(kit, &w, 0);
}
