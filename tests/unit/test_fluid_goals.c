/* test_fluid_goals.c - what allocator fluid and placer pack must achieve, and what they must not
 * break. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "testkit.h"
#include "test_fluid.h"
#include "fail_alloc.h"

static struct group group;
static struct course run, other;

/* ---- how near it comes to the least possible ----------------------------------------------- */

/* Mean ratio to the malleable bound, lognormal times on 8 GPUs that share and scale moderately. */
static double
mean_ratio(uint32_t count, const char *options)
{
	uint64_t state = 77;
	double sum = 0, mean;
	uint32_t i, k;

	for (i = 0; i < 200; i++) {
		memset(&group, 0, sizeof group);
		group.count = count;
		group.gpus = 8;
		group.c = 3;
		group.alpha = 1.3;
		group.beta = 1.12;
		for (k = 0, mean = 0; k < count; k++) {
			group.h1[k] = 100 * exp(0.6 * fluid_normal(&state));
			mean += group.h1[k] / 8;
		}
		group.eps = 0.01 * mean;
		memset(&run, 0, sizeof run);
		fluid_run(&group, options, &run);
		cr_assert_str_eq(run.why, "");
		sum += run.makespan / fluid_malleable(&group);
	}
	return sum / 200;
}

Test(fluid_goals, near_the_bound)
{
	static const struct {
		uint32_t count;
		double paper, improved;
	} goals[] = { { 2, 1.08, 1.05 }, { 5, 1.24, 1.12 }, { 9, 1.22, 1.15 }, { 24, 1.16, 1.16 } };
	size_t i;

	for (i = 0; i < 4; i++) {
		double paper = mean_ratio(goals[i].count, "mode=paper");
		double improved = mean_ratio(goals[i].count, "");

		printf("# %u trials: paper %.3f, improved %.3f\n", goals[i].count, paper, improved);
		cr_assert_float_eq(paper, goals[i].paper, 0.03 * goals[i].paper);
		cr_assert_leq(improved, goals[i].improved);
	}
}

/* ---- without sharing and scaling: a list, the longest first --------------------------------- */

Test(fluid_goals, a_list_without_sharing_and_scaling)
{
	static const char *const modes[] = { "mode=paper", "mode=improved" };
	uint64_t state = 5;
	uint32_t round, mode, i, k, done[64];
	double free_at[8];

	for (round = 0; round < 200; round++)
		for (mode = 0; mode < 2; mode++) {
			memset(&group, 0, sizeof group);
			group.count = 1 + (uint32_t)(fluid_random(&state) % 40);
			group.gpus = 1 + (uint32_t)(fluid_random(&state) % 8);
			group.c = 1;
			group.alpha = group.beta = 1;
			for (i = 0; i < group.count; i++) {
				group.h1[i] = 1 + 9 * fluid_uniform(&state);
				group.d[i] = 1;
			}
			memset(&run, 0, sizeof run);
			fluid_run(&group, modes[mode], &run);
			cr_assert_str_eq(run.why, "");
			memset(done, 0, sizeof done);
			memset(free_at, 0, sizeof free_at);
			for (i = 0; i < group.count; i++) { /* the longest to the first free */
				uint32_t best = 64, at = 0;

				for (k = 0; k < group.count; k++)
					if (!done[k] &&
					    (best == 64 || group.h1[k] > group.h1[best]))
						best = k;
				for (k = 1; k < group.gpus; k++)
					at = free_at[k] < free_at[at] ? k : at;
				done[best] = 1;
				cr_assert_float_eq(run.started[best], free_at[at], 1e-7);
				free_at[at] += group.h1[best];
				cr_assert_float_eq(run.ended[best], free_at[at], 1e-7);
			}
			cr_assert_eq(run.changes, 0);
		}
}

/* ---- arrivals ------------------------------------------------------------------------------ */

Test(fluid_goals, arrivals_of_one_round_are_one_group)
{
	static const char *const modes[] = { "mode=paper resize=false", "mode=paper", "" };
	uint64_t state = 6;
	uint32_t i, round;

	for (round = 0; round < 150; round++) {
		memset(&group, 0, sizeof group);
		group.count = 16;
		group.gpus = 8;
		group.c = 3;
		group.alpha = 1.3;
		group.beta = 1.12;
		for (i = 0; i < 16; i++)
			group.h1[i] = round % 2 == 0 ? 10 + 90 * fluid_uniform(&state)
						     : 50 * exp(fluid_normal(&state));
		memset(&run, 0, sizeof run);
		memset(&other, 0, sizeof other);
		fluid_run(&group, modes[round % 3], &run);
		other.apart = 1;
		fluid_run(&group, modes[round % 3], &other);
		for (i = 0; i < 16; i++) {
			cr_assert(run.gpus[i] == other.gpus[i] &&
				run.packing[i] == other.packing[i],
			    "round %u", round);
			cr_assert_float_eq(other.started[i], round % 2 == 0 ? 0 : run.started[i],
			    1e-12, "they begin at once");
		}
	}
}

/* In an open group nobody is made to give, and nobody is widened at the beginning. */
Test(fluid_goals, open_groups_are_left_alone)
{
	uint64_t state = 8;
	uint32_t i;

	memset(&group, 0, sizeof group);
	group.count = 5;
	group.gpus = 8;
	group.c = 3;
	group.alpha = 1.3;
	group.beta = 1.12;
	for (i = 0; i < 5; i++)
		group.h1[i] = 50 + 50 * fluid_uniform(&state);
	memset(&run, 0, sizeof run);
	memset(&other, 0, sizeof other);
	run.open = 1;
	fluid_run(&group, "", &run);
	fluid_run(&group, "mode=paper resize=false", &other);
	for (i = 0; i < 5; i++)
		cr_assert(run.gpus[i] == other.gpus[i] && run.packing[i] == other.packing[i],
		    "as algorithm 1 has it");
	cr_assert_lt(run.makespan, other.makespan, "what comes free is used");
}

/* ---- large --------------------------------------------------------------------------------- */

Test(fluid_goals, a_thousand_trials)
{
	uint64_t state = 9;
	uint32_t i;

	memset(&group, 0, sizeof group);
	group.count = 1000;
	group.gpus = 1024;
	group.per_node = 8;
	group.c = 3;
	group.alpha = 1.3;
	group.beta = 1.12;
	for (i = 0; i < 1000; i++)
		group.h1[i] = 100 * exp(0.6 * fluid_normal(&state));
	group.eps = 1;
	memset(&run, 0, sizeof run);
	run.events = 200;
	fluid_run(&group, "", &run);
	cr_assert_str_eq(run.why, "");
	cr_assert(!run.crowded);
}

/* ---- loss ---------------------------------------------------------------------------------- */

static const struct espl_point scaling[] = { { 1, 1 }, { 2, 1.8 }, { 4, 3.2 }, { 8, 5 } };
static const struct espl_point packing[] = { { 1, 1 }, { 2, 1.6 }, { 3, 1.9 }, { 4, 2 } };

static struct espl_kit *
kit_of(const struct espl_plugin *plugin, const char *options, uint32_t gpus, uint32_t nodes)
{
	struct espl_kit *kit = espl_kit_new(7);
	struct espl_error error = ESPL_INIT(struct espl_error);

	cr_assert_eq(espl_kit_open(kit, plugin, options, &error), ESPL_OK, "%s", error.text);
	(void)espl_kit_offer(kit, "node", gpus, nodes, 1);
	return kit;
}

static struct espl_item *
trial(struct espl_kit *kit, uint64_t *id, double work, int measured)
{
	struct espl_item *item;

	*id = espl_kit_item(kit, 1, 8);
	item = espl_kit_item_at(kit, *id);
	item->work_s = work;
	item->packing_max = 4;
	item->resize_s = item->start_s = 1;
	item->scaling = scaling;
	item->packing = packing;
	item->scaling_count = measured ? 4 : 0;
	item->packing_count = measured ? 4 : 0;
	return item;
}

Test(fluid_goals, lost_nodes_are_left_whatever_it_costs)
{
	struct espl_kit *kit = kit_of(&allocator_fluid_LTX_espalier_plugin, "", 1, 8);
	uint64_t a, b, node;

	(void)trial(kit, &a, 100, 1);
	(void)trial(kit, &b, 100, 1);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK, "%s", espl_kit_log(kit));
	espl_kit_provision(kit);
	cr_assert_eq(espl_kit_item_at(kit, a)->granted.gpus +
		espl_kit_item_at(kit, b)->granted.gpus,
	    8);
	espl_kit_item_at(kit, a)->started = espl_kit_item_at(kit, b)->started = 0;
	espl_kit_item_at(kit, a)->resize_s = espl_kit_item_at(kit, b)->resize_s = 1e6;
	for (node = 4; node < 8; node++)
		espl_kit_node_state(kit, node, ESPL_NODE_ENDED);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_leq(espl_kit_item_at(kit, a)->granted.gpus +
		espl_kit_item_at(kit, b)->granted.gpus,
	    4);
	cr_assert(espl_kit_item_at(kit, a)->granted.gpus >= 1 &&
	    espl_kit_item_at(kit, b)->granted.gpus >= 1);
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);
}

/* Whatever a change costs, and whenever it happens: nobody stays, and all come to their end. */
Test(fluid_goals, no_trial_stays_on_a_lost_node)
{
	static const char *const modes[] = { "benefit=0", "mode=paper benefit=0",
		"resize=false benefit=0" };
	uint64_t state = 10;
	uint32_t seed, i, moved = 0;

	for (seed = 0; seed < 3000; seed++) {
		memset(&group, 0, sizeof group);
		group.gpus = 2 + (uint32_t)(fluid_random(&state) % 15);
		group.per_node = group.gpus % 4 == 0 ? 4 : group.gpus % 2 == 0 ? 2 : 1;
		group.count = 1 + (uint32_t)(fluid_random(&state) % 24);
		group.c = 1 + (uint32_t)(fluid_random(&state) % 4);
		group.alpha = group.c > 1 ? 1.2 : 1;
		group.beta = 1.08;
		for (i = 0; i < group.count; i++)
			group.h1[i] = 50 * exp(0.7 * fluid_normal(&state));
		group.eps = seed % 2 == 0 ? 0.5 : 1e4;
		memset(&run, 0, sizeof run);
		run.lose = 1 + (uint32_t)(fluid_random(&state) % 3);
		run.lose_at = 2 + (uint32_t)(fluid_random(&state) % 4);
		run.open = seed % 5 == 0;
		fluid_run(&group, modes[seed % 3], &run);
		cr_assert(run.why[0] == '\0' && !run.crowded && !run.held_lost && !run.stuck,
		    "group %u: %s", seed, run.why[0] != '\0' ? run.why : "it does not end");
		moved += run.changes > 0;
	}
	cr_assert_gt(moved, 1000, "hardly anybody had to move: %u", moved);
}

/* ---- not measured -------------------------------------------------------------------------- */

struct speeds {
	struct espl_model pub;
	double whole[9], packed[5];
	uint32_t samples;
};

static espl_status
speed(const struct espl_model *model, const struct espl_speed_query *q, struct espl_speed *out)
{
	const struct speeds *s = (const struct speeds *)(const void *)model;
	double t = q->share.packing > 1 ? q->share.packing < 5 ? s->packed[q->share.packing] : 0
	    : q->share.gpus < 9         ? s->whole[q->share.gpus]
					: 0;

	if (!(t > 0))
		return ESPL_E_UNKNOWN;
	out->evidence = ESPL_MEASURED_LIKE;
	out->samples = s->samples;
	out->iteration_s = t;
	out->sd_s = 0;
	return ESPL_OK;
}

static uint32_t
count_of(struct espl_kit *kit, uint64_t first, uint64_t last, uint32_t gpus, uint32_t cap)
{
	uint32_t n = 0;

	for (; first <= last; first++)
		n += espl_kit_item_at(kit, first)->granted.gpus == gpus &&
		    espl_kit_item_at(kit, first)->granted.packing == cap;
	return n;
}

/* Without tables everybody gets one GPU; then one step at a time is tried, by one trial. */
Test(fluid_goals, tables_are_measured_one_step_at_a_time)
{
	struct speeds s = { .pub = { .size = (uint32_t)sizeof s.pub, .speed = speed },
		.samples = 3 };
	struct espl_kit *kit = espl_kit_new(1);
	uint64_t id, k;

	espl_kit_set_service(kit, ESPL_MODEL, &s);
	cr_assert_eq(espl_kit_open(kit, &allocator_fluid_LTX_espalier_plugin, "", NULL), ESPL_OK);
	(void)espl_kit_offer(kit, "node", 4, 1, 1);
	for (k = 0; k < 10; k++)
		(void)trial(kit, &id, 100 + (double)k, 0);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(count_of(kit, 0, 9, 1, 1), 4);
	espl_kit_provision(kit);
	espl_kit_leave(kit, 9);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(count_of(kit, 0, 8, 1, 1), 4, "one GPU was not timed yet");
	s.whole[1] = 10;
	espl_kit_leave(kit, 8);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(count_of(kit, 0, 7, 1, 2), 2, "two try to share: %s", espl_kit_log(kit));
	espl_kit_leave(kit, 7);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(count_of(kit, 0, 6, 1, 2), 2, "no others before these were timed");
	s.packed[2] = 11;
	s.packed[3] = 16; /* brings 1 - 2 / 3 * 16 / 11 = 0.03: too little */
	espl_kit_leave(kit, 6);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(count_of(kit, 0, 5, 1, 3), 0);
	for (k = 1; k < 6; k++)
		espl_kit_leave(kit, k);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(espl_kit_item_at(kit, 0)->granted.gpus, 2, "one tries two GPUs: %s",
	    espl_kit_log(kit));
	s.whole[2] = 12; /* slower than one */
	(void)trial(kit, &id, 50, 0);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(espl_kit_item_at(kit, id)->granted.gpus, 1);
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);
}

/* ---- the placer ---------------------------------------------------------------------------- */

/* Shares go to the emptiest GPU; a whole gang clears the GPU with the fewest. */
Test(fluid_goals, shelves_are_cleared_for_whole_gangs)
{
	struct espl_kit *kit = kit_of(&placer_pack_LTX_espalier_plugin, "", 2, 2);
	uint64_t ids[6], i;
	uint32_t count;

	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	for (i = 0; i < 5; i++) {
		(void)trial(kit, &ids[i], 10, 1);
		espl_kit_grant(kit, ids[i], 1, 4);
	}
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_slots(kit, ids[4], &count)->node, 1);
	(void)trial(kit, &ids[5], 10, 1);
	espl_kit_grant(kit, ids[5], 2, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	(void)espl_kit_slots(kit, ids[5], &count);
	cr_assert_eq(count, 2, "%s", espl_kit_log(kit));
	for (i = 0; i < 5; i++) {
		(void)espl_kit_slots(kit, ids[i], &count);
		cr_assert_eq(count, 1, "%s", espl_kit_log(kit));
	}
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);
}

/* A gang that cannot grow yet keeps what it has. */
Test(fluid_goals, who_cannot_grow_stays)
{
	struct espl_kit *kit = kit_of(&placer_pack_LTX_espalier_plugin, "", 2, 1);
	uint64_t a, b;
	uint32_t count;

	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	(void)trial(kit, &a, 10, 1);
	(void)trial(kit, &b, 10, 1);
	espl_kit_grant(kit, a, 1, 1);
	espl_kit_grant(kit, b, 1, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	espl_kit_grant(kit, a, 2, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	(void)espl_kit_slots(kit, a, &count);
	cr_assert_eq(count, 1, "it goes on with one");
	espl_kit_leave(kit, b);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	(void)espl_kit_slots(kit, a, &count);
	cr_assert_eq(count, 2);
	espl_kit_free(kit);
}

/* ---- out of memory -------------------------------------------------------------------------- */

static uint32_t
fail_each(struct espl_kit *kit, espl_status (*call)(struct espl_kit *))
{
	uint32_t n;

	for (n = 1; n < 200; n++) {
		espl_status status;

		test_left = n;
		status = call(kit);
		if (test_left > 0 && status == ESPL_OK)
			break;
		test_left = UINT32_MAX;
		cr_assert_eq(status, ESPL_E_NOMEM, "status %d: %s", status, espl_kit_log(kit));
	}
	test_left = UINT32_MAX;
	return n;
}

Test(fluid_goals, out_of_memory_is_said_and_mended)
{
	struct espl_kit *kit = kit_of(&allocator_fluid_LTX_espalier_plugin, "", 4, 8);
	uint64_t id, i;
	uint32_t granted = 0;

	for (i = 0; i < 100; i++)
		(void)trial(kit, &id, 10 + (double)i, 1);
	cr_assert_gt(fail_each(kit, espl_kit_allocate), 3);
	for (i = 0; i < 100; i++)
		granted += espl_kit_item_at(kit, i)->granted.gpus > 0;
	cr_assert_eq(granted, 96, "three on each of 32 GPUs, not %u: %s", granted, "c is 3");
	espl_kit_provision(kit);
	for (i = 0; i < 90; i++)
		espl_kit_leave(kit, i);
	cr_assert_lt(fail_each(kit, espl_kit_allocate), 200);
	cr_assert_gt(espl_kit_item_at(kit, 99)->granted.gpus, 0);
	espl_kit_free(kit);
	kit = kit_of(&placer_pack_LTX_espalier_plugin, "", 4, 8);
	for (i = 0; i < 4; i++)
		(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	for (i = 0; i < 20; i++) {
		(void)trial(kit, &id, 10, 1);
		espl_kit_grant(kit, id, i < 2 ? 6 : 1, i < 2 ? 1 : 4);
	}
	cr_assert_gt(fail_each(kit, espl_kit_place), 3);
	cr_assert_eq(espl_kit_slots(kit, 0, &granted)->packing, 1);
	cr_assert_eq(granted, 6);
	espl_kit_free(kit);
}
