/* test_milp_pool.c - allocator milp as a policy: who begins, who waits, who is resized; jobs that
 * come and go, under greedy, too. */
#include <math.h>
#include <string.h>
#include "pool_kit.h"

extern const struct espl_plugin allocator_greedy_LTX_espalier_plugin;
extern const struct espl_plugin allocator_milp_LTX_espalier_plugin;
#define GREEDY &allocator_greedy_LTX_espalier_plugin
#define MILP &allocator_milp_LTX_espalier_plugin

Test(milp_pool, paper_decides_by_the_clock)
{
	struct espl_kit *kit = pool(MILP, "policy=paper", 1, 16);
	uint64_t a = job(kit, 200), b, c;

	decide(kit);
	cr_assert_eq(gpus(kit, a), 16);
	cr_assert(strstr(espl_kit_log(kit), "optimal") != NULL, "%s", espl_kit_log(kit));
	espl_kit_set_time(kit, 100 * ESPL_SECOND);
	b = job(kit, 20);
	c = job(kit, 20);
	decide(kit);
	cr_assert(gpus(kit, a) == 16 && gpus(kit, b) == 0 && gpus(kit, c) == 0);
	espl_kit_set_time(kit, 300 * ESPL_SECOND);
	decide(kit);
	cr_assert(gpus(kit, a) > 0 && gpus(kit, b) + gpus(kit, c) > gpus(kit, a), "%s",
	    espl_kit_log(kit));
	espl_kit_free(kit);
}

Test(milp_pool, improved_decides_when_something_happens)
{
	struct espl_kit *kit = pool(MILP, "", 1, 16);
	uint64_t a = job(kit, 200), b;

	decide(kit);
	espl_kit_set_time(kit, 100 * ESPL_SECOND);
	b = job(kit, 20);
	decide(kit);
	cr_assert(gpus(kit, a) > 0 && gpus(kit, b) > 0);
	espl_kit_leave(kit, a);
	decide(kit);
	cr_assert_eq(gpus(kit, b), 16, "idle GPUs are filled: %u", gpus(kit, b));
	espl_kit_free(kit);
}

Test(milp_pool, paper_gives_no_more_than_it_takes)
{
	struct espl_kit *kit = pool(MILP, "policy=paper", 1, 16);
	uint64_t a = job(kit, 5);

	decide(kit);
	cr_assert_eq(gpus(kit, a), 1); /* done within the step on one */
	espl_kit_free(kit);
	kit = pool(MILP, "policy=paper fill=true", 1, 16);
	a = job(kit, 5);
	decide(kit);
	cr_assert_eq(gpus(kit, a), 16);
	espl_kit_free(kit);
}

Test(milp_pool, more_jobs_than_nodes_queue_in_order)
{
	struct espl_kit *kit = pool(MILP, "preempt=false", 1, 4);
	uint64_t ids[7];

	for (int i = 0; i < 7; i++)
		ids[i] = job(kit, i == 6 ? 1 : 100);
	decide(kit);
	for (int i = 0; i < 7; i++)
		cr_assert_eq(gpus(kit, ids[i]), i < 4 ? 1 : 0);
	espl_kit_leave(kit, ids[1]);
	decide(kit);
	cr_assert(gpus(kit, ids[4]) == 1 && gpus(kit, ids[5]) == 0 && gpus(kit, ids[6]) == 0);
	espl_kit_free(kit);
}

Test(milp_pool, who_has_least_left_goes_first)
{
	struct espl_kit *kit = pool(MILP, "slowdown=10", 1, 4);
	uint64_t ids[7];

	for (int i = 0; i < 7; i++)
		ids[i] = job(kit, 700 - 100 * i);
	decide(kit);
	for (int i = 0; i < 7; i++)
		cr_assert_eq(gpus(kit, ids[i]), i < 3 ? 0 : 1, "%d: %u", i, gpus(kit, ids[i]));
	espl_kit_set_time(kit, 20 * ESPL_SECOND);
	/* a little less than one that runs: no swap for that */
	ids[0] = job(kit, 350);
	decide(kit);
	cr_assert(gpus(kit, ids[0]) == 0 && gpus(kit, ids[3]) == 1);
	ids[1] = job(kit, 10);
	decide(kit);
	cr_assert(gpus(kit, ids[1]) == 1 && gpus(kit, ids[3]) == 0, "%s", espl_kit_log(kit));
	espl_kit_set_time(kit, (espl_time)6000 * 60 * ESPL_SECOND);
	ids[0] = job(kit, 1);
	/* jobs that have waited long come before new ones, however short those are */
	decide(kit);
	cr_assert_eq(gpus(kit, ids[0]), 0, "%s", espl_kit_log(kit));
	espl_kit_free(kit);
}

Test(milp_pool, lost_nodes_preempt_who_started_last)
{
	struct espl_kit *kit = pool(MILP, "policy=paper", 1, 3);
	uint64_t ids[3];

	for (int i = 0; i < 3; i++)
		ids[i] = job(kit, 100);
	decide(kit);
	for (int i = 0; i < 3; i++)
		espl_kit_item_at(kit, ids[i])->started = (i == 1 ? 90 : 10) * ESPL_SECOND;
	espl_kit_set_time(kit, 100 * ESPL_SECOND);
	espl_kit_offer_at(kit, 0)->nodes_max = 2;
	espl_kit_node_state(kit, 0, ESPL_NODE_ENDED);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert(gpus(kit, ids[0]) == 1 && gpus(kit, ids[1]) == 0 && gpus(kit, ids[2]) == 1, "%s",
	    espl_kit_log(kit));
	espl_kit_free(kit);
}

Test(milp_pool, what_cannot_be_saved_is_not_resized)
{
	struct espl_kit *kit = pool(MILP, "", 1, 16);
	uint64_t a = job(kit, 2000), b;

	espl_kit_item_at(kit, a)->flags |= ESPL_ITEM_NO_SAVE;
	decide(kit);
	cr_assert_eq(gpus(kit, a), 16);
	b = job(kit, 1);
	decide(kit);
	cr_assert(gpus(kit, a) == 16 && gpus(kit, b) == 0);
	espl_kit_free(kit);
}

Test(milp_pool, widths_within_the_limits)
{
	struct espl_kit *kit = pool(MILP, "", 1, 40);
	uint64_t a = espl_kit_item(kit, 3, 13), b = espl_kit_item(kit, 6, 7),
		 c = espl_kit_item(kit, 2, 64);

	espl_kit_item_at(kit, c)->unit = 2;
	for (uint64_t id = a; id <= c; id++)
		espl_kit_item_at(kit, id)->work_s = espl_kit_item_at(kit, id)->work_total_s = 1e5;
	decide(kit);
	cr_assert(gpus(kit, a) == 4 || gpus(kit, a) == 8, "%u", gpus(kit, a));
	cr_assert_eq(gpus(kit, b), 6); /* there is no power of two: the least it takes */
	cr_assert(gpus(kit, c) >= 2 && (gpus(kit, c) & (gpus(kit, c) - 1)) == 0);
	espl_kit_free(kit);
}

Test(milp_pool, equal_shares_without_estimates)
{
	struct espl_kit *kit = pool(MILP, "", 1, 16);
	uint64_t ids[4];

	for (int i = 0; i < 4; i++) {
		ids[i] = job(kit, i == 0 ? 1000 : 10);
		if (i >= 2)
			espl_kit_item_at(kit, ids[i])->work_s =
			    espl_kit_item_at(kit, ids[i])->work_total_s = NAN;
	}
	decide(kit);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(gpus(kit, ids[i]), 4);
	cr_assert(strstr(espl_kit_log(kit), "equal") != NULL);
	espl_kit_free(kit);
}

Test(milp_pool, the_floor_keeps_late_jobs_alive)
{
	/* Both outlived their estimates; the paper takes them for done and gives them one GPU. */
	for (int paper = 0; paper < 2; paper++) {
		struct espl_kit *kit =
		    pool(MILP, paper ? "policy=paper poor=0" : "fill=false poor=0", 1, 8);
		uint64_t a = job(kit, 1000), b = job(kit, 1000);

		espl_kit_item_at(kit, a)->work_s = espl_kit_item_at(kit, b)->work_s = 0;
		decide(kit);
		cr_assert_eq(gpus(kit, a) + gpus(kit, b), paper ? 2 : 8);
		espl_kit_free(kit);
	}
}

/* GPUs of one job on 8 that runs on 4 and has so much left, after a decision. */
static uint32_t
decided(const char *options, double minutes, double resize_s)
{
	struct espl_kit *kit = leased(MILP, options, 8);
	uint64_t a;
	uint32_t has;

	a = running(kit, minutes, 4, 1);
	espl_kit_item_at(kit, a)->resize_s = resize_s;
	decide(kit);
	has = gpus(kit, a);
	espl_kit_free(kit);
	return has;
}

Test(milp_pool, a_pause_that_does_not_pay_is_not_made)
{
	cr_assert_eq(decided("policy=paper", 30, 290), 8);
	cr_assert_eq(decided("policy=paper delay=true", 30, 290), 4);
}

/* Whether 5 minutes of work end in 5 on one GPU or sooner on 4 is all the same to the printed
 * objective. */
Test(milp_pool, keep_lets_who_is_done_anyway_have_its_width)
{
	cr_assert_eq(decided("policy=paper", 5, 0), 1);
	cr_assert_eq(decided("policy=paper keep=true", 5, 0), 4);
}

Test(milp_pool, gangs_stand_side_by_side)
{
	struct espl_kit *kit = pool(MILP, "", 6, 4);
	uint32_t wide = 0, narrow = 0;

	for (int i = 0; i < 5; i++)
		espl_kit_item_at(kit, job(kit, 500))->flags |= ESPL_ITEM_COLOCATE;
	decide(kit);
	for (uint64_t id = 0; id < 5; id++) {
		wide += gpus(kit, id) == 4;
		narrow += gpus(kit, id) == 2 || gpus(kit, id) == 1;
	}
	cr_assert(wide <= 4 && wide + narrow == 5, "%s", espl_kit_log(kit));
	espl_kit_free(kit);
}

/* ---- come and go -------------------------------------------------------------------------- */

static uint32_t
draw(uint64_t *state, uint32_t below)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33) % below;
}

/* Jobs arrive, run down, leave; whatever happens grants are legal, fit (the kit refuses others),
 * and GPUs do not idle while somebody waits who could take them. */
static void
come_and_go(const struct espl_plugin *plugin, const char *options, uint32_t per_node)
{
	struct espl_kit *kit = pool(plugin, options, per_node, 24 / per_node);
	uint64_t state = 8, ids[60];
	uint32_t count = 0, round, i;

	for (round = 0; round < 400; round++) {
		uint32_t used = 0, waiting = 0;

		espl_kit_set_time(kit, (espl_time)round * 50 * ESPL_SECOND);
		for (i = 0; i < count; i++) {
			struct espl_item *item = espl_kit_item_at(kit, ids[i]);

			item->work_s -= 50.0 * item->granted.gpus;
			item->work_s = item->work_s > 0 ? item->work_s : 0;
			if (item->started == ESPL_NEVER && item->granted.gpus > 0)
				item->started = (espl_time)round * 50 * ESPL_SECOND;
		}
		if (count > 0 && draw(&state, 3) == 0) {
			i = draw(&state, count);
			espl_kit_leave(kit, ids[i]);
			ids[i] = ids[--count];
		}
		if (count < 60 && draw(&state, 5) < 2) {
			ids[count] = job(kit, 1 + draw(&state, 300));
			if (draw(&state, 4) == 0)
				espl_kit_item_at(kit, ids[count])->flags |= ESPL_ITEM_NO_SAVE;
			count++;
		}
		espl_kit_clear(kit);
		decide(kit);
		for (i = 0; i < count; i++) {
			uint32_t g = gpus(kit, ids[i]);

			cr_assert((g & (g - 1)) == 0 && g <= 16, "%u", g);
			used += g;
			waiting += g == 0;
		}
		cr_assert(used <= 24 && (used == 24 || waiting == 0), "round %u: %u used, %u wait",
		    round, used, waiting);
	}
	espl_kit_free(kit);
}

Test(milp_pool, come_and_go)
{
	come_and_go(MILP, "", 1);
	come_and_go(MILP, "policy=paper", 4);
	come_and_go(MILP, "engine=marginal period=1m", 4);
	come_and_go(MILP, "effort=1 beta=0 slowdown=2 steps=3", 1);
	come_and_go(GREEDY, "", 1);
	come_and_go(GREEDY, "halvings=one events=true", 4);
}
