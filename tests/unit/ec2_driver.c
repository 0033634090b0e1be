/* ec2_driver.c - cloud aws in the test kit: see ec2_driver.h. */
#include "ec2_driver.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit_cloud.h"

void
ec2_driver_open(struct espl_kit *kit, const char *options)
{
	struct espl_error error;

	cr_assert_eq(espl_kit_open(kit, &cloud_aws_LTX_espalier_plugin, options, &error), ESPL_OK,
	    "%s", error.text);
}

struct espl_kit *
ec2_driver_begin(struct ec2_world *w, uint64_t seed)
{
	struct espl_kit *kit = espl_kit_new(seed);

	ec2_world_begin(w, kit, seed);
	ec2_driver_open(kit, EC2_OPTIONS);
	return kit;
}

void
ec2_driver_start(struct espl_kit *kit)
{
	espl_status status;
	int tries = 0;

	(void)espl_kit_start(kit);
	while ((status = espl_kit_wait_done(kit, HOUR)) != ESPL_OK && ++tries < 10)
		espl_kit_restart(kit);
	cr_assert_eq(status, ESPL_OK, "%s", espl_kit_log(kit));
}

void
ec2_driver_wait_up(struct espl_kit *kit)
{
	for (int i = 0; !kit->cloud->up && i < 1000; i++)
		espl_kit_wait(kit, 10 * S);
	cr_assert(kit->cloud->up, "%s", espl_kit_log(kit));
}

struct espl_kit *
ec2_driver_begin_started(struct ec2_world *w)
{
	struct espl_kit *kit = ec2_driver_begin(w, 1);

	ec2_driver_start(kit);
	return kit;
}

const char *
ec2_driver_log(struct espl_kit *kit)
{
	const char *log = espl_kit_log(kit);
	size_t size = strlen(log);

	return size > 60000 ? log + size - 60000 : log;
}

void
ec2_driver_be_away(struct espl_kit *kit, struct ec2_world *w, espl_span span)
{
	ec2_world_driver_gone(w);
	espl_kit_set_time(kit, espl_kit_time(kit) + span);
	ec2_world_settle(w);
	ec2_world_driver_back(w);
	espl_kit_restart(kit);
}

/* Lists the machines of the run, and releases those that it does not know, as a run does. */
static void
sweep(struct espl_kit *kit)
{
	struct kit_cloud *c = kit->cloud;
	uint32_t restarts;

	do {
		restarts = c->restarts;
		if (espl_kit_owned(kit, "kit") != ESPL_OK)
			return;
		if (espl_kit_wait_done(kit, HOUR) != ESPL_OK)
			return;
	} while (c->restarts != restarts);
	for (uint32_t i = 0; i < c->stray_count; i++)
		espl__kit_release_stray(kit, i);
}

/* What EC2 charges for the machine of a lease, and what was reported: not less, but for the seconds
 * by which answers lag, and not more than from the launch until the end was reported. */
static void
check_cost(struct espl_kit *kit, struct ec2_world *w, uint32_t lease, uint64_t seed)
{
	const struct kit_lease *l = kit->cloud->leases[lease];
	const struct ec2_machine *m = ec2_world_machine(w, l->pub.token);
	espl_money bill, most, least;
	espl_span lag = w->stale_most + 2 * S;

	if (m == NULL) {
		cr_assert_leq(l->charged, 0, "SEED=%llu: lease %u cost %lld without a machine\n%s",
		    (unsigned long long)seed, lease, (long long)l->charged, ec2_driver_log(kit));
		return;
	}
	cr_assert_leq(m->end, l->ended_at, "SEED=%llu: the machine of lease %u outlives it\n%s",
	    (unsigned long long)seed, lease, ec2_driver_log(kit));
	bill = ec2_world_bill(w, m);
	if (l->charged < 0 || (m->wants_spot && !m->spot))
		return;
	most = ec2_world_charge(w, m, m->launch, l->ended_at + S);
	least = bill == 0 || m->end - m->running < 3600 * S + 2 * lag ? 0 : bill;
	if (strcmp(m->why, "Server.SpotInstanceTermination") != 0)
		least = bill;
	if (m->end < m->running + 60 * S) { /* a minute, at the price of another second */
		least = least > 0 ? 60 * 200000 / 3600 : 0;
		most += 60 * 1100000 / 3600;
	}
	least -= 1006000 * (2 * lag / S) / 3600;
	cr_assert(l->charged >= least && l->charged <= most,
	    "SEED=%llu: lease %u: EC2 charges %lld, reported %lld, at most %lld\n%s",
	    (unsigned long long)seed, lease, (long long)bill, (long long)l->charged,
	    (long long)most, ec2_driver_log(kit));
}

/* As an earlier process of the run would have left it. */
void
ec2_driver_write_fact(const struct ec2_world *w, const char *kind, const char *key,
    const char *value)
{
	char path[100];
	FILE *file;

	(void)snprintf(path, sizeof path, "%s/aws", w->folder);
	file = fopen(path, "a");
	cr_assert_not_null(file);
	(void)fprintf(file, "%s\t%s\t%s\n", kind, key, value);
	cr_assert_eq(fclose(file), 0);
}

/* All leases are released and end; then no machine is left. */
void
ec2_driver_end(struct espl_kit *kit, struct ec2_world *w, uint64_t seed)
{
	struct kit_cloud *c = kit->cloud;

	for (uint32_t i = 0; i < c->lease_count; i++)
		if (c->leases[i]->pub.state != ESPL_NODE_ENDED && c->leases[i]->releases == 0)
			(void)espl_kit_release(kit, i);
	for (uint32_t i = 0; i < c->lease_count; i++)
		cr_assert(espl_kit_wait_node(kit, i, ESPL_NODE_ENDED, 24 * HOUR),
		    "SEED=%llu: lease %u does not end\n%s", (unsigned long long)seed, i,
		    ec2_driver_log(kit));
	for (int i = 0; i < 5 && ec2_world_left(w) > 0; i++) {
		sweep(kit);
		espl_kit_wait(kit, HOUR);
	}
	cr_assert_eq(ec2_world_left(w), 0, "SEED=%llu: %u machines are left\n%s",
	    (unsigned long long)seed, ec2_world_left(w), ec2_driver_log(kit));
	for (uint32_t i = 0; i < c->lease_count; i++)
		check_cost(kit, w, i, seed);
	cr_assert_leq(w->count, c->lease_count, "SEED=%llu: a token made two machines\n%s",
	    (unsigned long long)seed, ec2_driver_log(kit));
	cr_assert_eq(w->token_zones, 0, "SEED=%llu", (unsigned long long)seed);
	cr_assert_eq(w->unknown, 0, "SEED=%llu", (unsigned long long)seed);
	cr_assert_eq(kit->refused, 0, "SEED=%llu:\n%s", (unsigned long long)seed,
	    ec2_driver_log(kit));
	espl_kit_free(kit);
	ec2_world_free(w);
}

/* Until the lease is READY or has ended. */
void
ec2_driver_wait_ready(struct espl_kit *kit, uint64_t lease)
{
	cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR), "%s", ec2_driver_log(kit));
}

void
ec2_driver_acquire_fault(struct espl_kit *kit, const struct ec2_world *w, espl_kit_fault fault)
{
	espl_kit_set_fault(kit, 2, fault); /* after ssh-keygen */
	(void)espl_kit_acquire(kit, SPOT, 1);
	for (int i = 0; i < 1000 && w->runs == 0; i++)
		espl_kit_wait(kit, S / 100);
	cr_assert_eq(w->runs, 1);
}

uint64_t
ec2_driver_acquire_ready(struct espl_kit *kit, uint32_t offer)
{
	uint64_t lease = espl_kit_acquire(kit, offer, 1);

	ec2_driver_wait_ready(kit, lease);
	cr_assert_eq(espl_kit_lease(kit, lease)->state, ESPL_NODE_READY, "%s", ec2_driver_log(kit));
	return lease;
}
