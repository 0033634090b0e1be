/* test_plugins_nomem.c - every allocation of a plugin fails once: it says so, leaks nothing, and
 * the next call works.
 *
 * This program is compiled with calloc and realloc renamed (plugins.am); the kit is not.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "testkit.h"
#include "test_plugins.h"
#include "fail_alloc.h"

/* Calls until the n-th allocation is no more than the call needs, n = 1, 2, ...: each failure must
 * be told as such, and undone by a call with memory. */
static uint32_t
fail_each(struct espl_kit *kit, espl_status (*call)(struct espl_kit *))
{
	uint32_t n;

	for (n = 1; n < 100; n++) {
		espl_status status;

		test_left = n;
		status = call(kit);
		if (test_left > 0 && status == ESPL_OK) {
			test_left = UINT32_MAX;
			return n;
		}
		test_left = UINT32_MAX;
		cr_assert_eq(status, ESPL_E_NOMEM, "status %d: %s", status, espl_kit_log(kit));
	}
	return n;
}

static const struct espl_plugin *opening;
static const char *opening_with;

static espl_status
open_it(struct espl_kit *kit)
{
	return espl_kit_open(kit, opening, opening_with, NULL);
}

static espl_status
start_it(struct espl_kit *kit)
{
	return espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2);
}

Test(nomem, algorithms)
{
	static const struct {
		const struct espl_plugin *plugin;
		const char *options;
	} all[] = {
		{ &algorithm_random_LTX_espalier_plugin, "trials=2" },
		{ &algorithm_grid_LTX_espalier_plugin, "points=2" },
		{ &algorithm_stages_LTX_espalier_plugin, "stages=(2,1)(1,1)" },
		{ &algorithm_sha_LTX_espalier_plugin, "trials=3 iterations_max=3" },
		{ &algorithm_sobol_LTX_espalier_plugin, "trials=2" },
		{ &algorithm_spottune_LTX_espalier_plugin, "trials=3 iterations_max=3" },
		{ &algorithm_spottune_LTX_espalier_plugin, "trials=0 iterations_max=3" },
		{ &algorithm_asha_LTX_espalier_plugin, "trials=2 iterations_max=3 brackets=2" },
		{ &algorithm_hyperband_LTX_espalier_plugin, "trials=5 iterations_max=3" },
		{ &algorithm_hyperband_LTX_espalier_plugin, "iterations_max=3 order=side-by-side" },
		{ &algorithm_hypersched_LTX_espalier_plugin, "trials=2 iterations_max=3" },
		{ &algorithm_median_LTX_espalier_plugin, "trials=2 iterations_max=3" },
		{ &algorithm_pbt_LTX_espalier_plugin, "population=2 iterations_max=3 interval=1" },
	};
	static const double mine[] = { 0.5 };
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct espl_kit *kit = espl_kit_new(1);

		espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
		espl_kit_first(kit, mine);
		espl_kit_experiment(kit)->deadline = 1000 * ESPL_SECOND;
		opening = all[i].plugin;
		opening_with = all[i].options;
		cr_assert_gt(fail_each(kit, open_it), 3);
		cr_assert_lt(fail_each(kit, start_it), 100);
		cr_assert_gt(espl_kit_trials(kit), 1);
		espl_kit_free(kit);
	}
}

Test(nomem, replay)
{
	static const char table[] = "from,until,x\n0,3,0.5\n3,4,0.25\n";
	struct espl_kit *kit = espl_kit_new(1);

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_set_file(kit, 0, ESPL_ANY, ESPL_ANY, table, sizeof table - 1);
	opening = &algorithm_replay_LTX_espalier_plugin;
	opening_with = "schedule=table";
	cr_assert_gt(fail_each(kit, open_it), 4);
	cr_assert_gt(fail_each(kit, espl_kit_spec), 2);
	espl_kit_free(kit);
}

static void
crowd(struct espl_kit *kit, uint32_t count)
{
	while (count-- > 0)
		espl_kit_item_at(kit, espl_kit_item(kit, 1, 4))->flags |= ESPL_ITEM_COLOCATE;
}

Test(nomem, allocators)
{
	static const struct espl_plugin *const all[] = { &allocator_static_LTX_espalier_plugin,
		&allocator_fair_LTX_espalier_plugin };
	size_t i;

	for (i = 0; i < 2; i++) {
		struct espl_kit *kit = espl_kit_new(1);

		opening = all[i];
		opening_with = "gpus=400";
		cr_assert_eq(fail_each(kit, open_it), 2);
		(void)espl_kit_offer(kit, "node", 4, 100, 1);
		crowd(kit, 100);
		cr_assert_gt(fail_each(kit, espl_kit_allocate), 3);
		cr_assert_eq(espl_kit_item_at(kit, 99)->granted.gpus, 4);
		espl_kit_free(kit);
	}
}

Test(nomem, placers)
{
	static const struct espl_plugin *const all[] = { &placer_colocate_LTX_espalier_plugin,
		&placer_scatter_LTX_espalier_plugin };
	uint32_t i, k, count;

	for (i = 0; i < 2; i++) {
		struct espl_kit *kit = espl_kit_new(1);
		struct espl_slot slots[2] = { { 0, 1, 1 }, { 1, 2, 1 } };

		opening = all[i];
		opening_with = "";
		cr_assert_eq(fail_each(kit, open_it), 2);
		(void)espl_kit_offer(kit, "node", 4, 100, 1);
		for (k = 0; k < 3; k++)
			(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
		crowd(kit, 3);
		for (k = 0; k < 2; k++) {
			espl_kit_grant(kit, k, 1, 1);
			espl_kit_put(kit, k, &slots[k], 1);
		}
		espl_kit_grant(kit, 2, 8, 1); /* two whole nodes: one must be emptied */
		cr_assert_gt(fail_each(kit, espl_kit_place), 2);
		(void)espl_kit_slots(kit, 2, &count);
		cr_assert_eq(count, i == 0 ? 8 : 0, "%s", espl_kit_log(kit));
		espl_kit_surplus(kit, 0, 1);
		cr_assert_lt(fail_each(kit, espl_kit_place), 100);
		espl_kit_free(kit);
	}
}
