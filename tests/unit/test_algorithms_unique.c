/* test_algorithms_unique.c - no search tries a configuration twice: finite spaces are tried to the
 * last point and no further, whatever the algorithm, failures and the order of results.
 */
#include <criterion/criterion.h>
#include <espalier/kit/tried.h>
#include <math.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

/* 3 x 10 = 30 points. */
static void
thirty(struct espl_kit *kit, void *ctx)
{
	(void)ctx;
	espl_kit_choice(kit, "a", "x|y|z");
	espl_kit_int(kit, "b", 1, 10, ESPL_LINEAR);
}

/* k = p: 16 points of n; k = q: 2 x 3 of m and o; k = r: one. */
static void
conditional(struct espl_kit *kit, void *ctx)
{
	(void)ctx;
	espl_kit_choice(kit, "k", "p|q|r");
	espl_kit_int(kit, "n", 1, 16, ESPL_LOG);
	espl_kit_when(kit, "k", 0);
	espl_kit_choice(kit, "m", "s|t");
	espl_kit_when(kit, "k", 1);
	espl_kit_real(kit, "o", 0, 1, ESPL_LINEAR, 0.5);
	espl_kit_when(kit, "k", 1);
}
#define CONDITIONAL (16 + 2 * 3 + 1)

static double
first_value(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	(void)ctx;
	return trial->values[0] + play_chance(3, trial->id, iteration, 8);
}

/* Trials that began with a configuration of their own (a clone of PBT is a member's next step). */
static uint64_t
count_distinct(const struct play *play)
{
	const struct espl_space *space = espl_kit_space(play->kit);
	uint64_t i, k, count = 0;

	for (i = 0; i < play->trials; i++) {
		const struct espl_trial *a = espl_kit_trial(play->kit, i);
		int before = a->parent != ESPL_NONE;

		for (k = 0; k < i && !before; k++) {
			const struct espl_trial *b = espl_kit_trial(play->kit, k);

			before = b->parent == ESPL_NONE &&
			    space->hash(space, a->values) == space->hash(space, b->values);
		}
		count += !before;
	}
	return count;
}

static const struct {
	const struct espl_plugin *plugin;
	const char *options;
} searches[] = {
	{ &algorithm_random_LTX_espalier_plugin, "trials=100 iterations_max=2" },
	{ &algorithm_sobol_LTX_espalier_plugin, "trials=100 iterations_max=2" },
	{ &algorithm_grid_LTX_espalier_plugin, "iterations_max=2" },
	{ &algorithm_tpe_LTX_espalier_plugin, "trials=100 iterations_max=2" },
	{ &algorithm_bohb_LTX_espalier_plugin, "trials=100 iterations_max=9" },
	{ &algorithm_bohb_LTX_espalier_plugin, "passes=3 iterations_max=27 mode=sync" },
	{ &algorithm_hyperband_LTX_espalier_plugin, "trials=100 iterations_max=9" },
	{ &algorithm_hyperband_LTX_espalier_plugin, "passes=9 iterations_max=27 order=overlap" },
	{ &algorithm_asha_LTX_espalier_plugin, "trials=100 iterations_max=9" },
	{ &algorithm_asha_LTX_espalier_plugin, "trials=100 iterations_max=9 mode=stopping" },
	{ &algorithm_median_LTX_espalier_plugin, "trials=100 iterations_max=9" },
	{ &algorithm_sha_LTX_espalier_plugin, "trials=100 iterations_max=9" },
	{ &algorithm_stages_LTX_espalier_plugin, "stages=(20,1)(10,2)(50,1)(60,1)" },
	{ &algorithm_spottune_LTX_espalier_plugin, "trials=100 iterations_max=10" },
};
#define SEARCHES (sizeof searches / sizeof searches[0])

static void
try_all(void (*prepare)(struct espl_kit *, void *), uint64_t points)
{
	for (size_t i = 0; i < SEARCHES; i++)
		for (uint64_t seed = 1; seed <= 8; seed++) {
			struct play play = { .plugin = searches[i].plugin,
				.options = searches[i].options,
				.seed = seed,
				.fate = seed,
				.order = seed,
				.slots = seed % 2 == 0 ? 8 : 1,
				.fails = seed % 3 == 0 ? .1 : 0,
				.nans = seed % 4 == 0 ? .1 : 0,
				.loss = first_value,
				.prepare = prepare };

			play_run(&play);
			cr_expect_eq(play.trials, points, "%s %s seed %llu: %llu trials",
			    play.plugin->name, play.options, (unsigned long long)seed,
			    (unsigned long long)play.trials);
			cr_expect_eq(count_distinct(&play), play.trials, "%s %s seed %llu",
			    play.plugin->name, play.options, (unsigned long long)seed);
			play_end(&play);
		}
}

Test(unique, a_finite_space_is_tried_to_its_last_point_and_no_further)
{
	try_all(thirty, 30);
}

Test(unique, points_of_a_conditional_space_are_counted_by_what_is_active)
{
	try_all(conditional, CONDITIONAL);
}

/* Where there is a continuous parameter repeats come of integers and choices. */
static void
half_finite(struct espl_kit *kit, void *ctx)
{
	(void)ctx;
	espl_kit_choice(kit, "k", "p|q|r|s");
	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_when(kit, "k", 0);
	espl_kit_int(kit, "n", 1, 3, ESPL_LINEAR);
	espl_kit_when(kit, "k", 1);
}

Test(unique, an_infinite_space_is_tried_without_repeats)
{
	for (size_t i = 0; i < SEARCHES; i++) {
		struct play play = { .plugin = searches[i].plugin,
			.options = searches[i].options,
			.seed = 5,
			.fate = 5,
			.slots = 4,
			.loss = first_value,
			.prepare = half_finite };

		play_run(&play);
		cr_expect_eq(count_distinct(&play), play.trials, "%s %s", play.plugin->name,
		    play.options);
		play_end(&play);
	}
}

static void
thirty_and_first(struct espl_kit *kit, void *ctx)
{
	static const double one[] = { 2, 7 }, other[] = { 0, 1 };

	thirty(kit, ctx);
	espl_kit_first(kit, one);
	espl_kit_first(kit, one);
	espl_kit_first(kit, other);
}

Test(unique, a_first_point_is_tried_once_and_before_all_others)
{
	for (size_t i = 0; i < SEARCHES; i++) {
		struct play play = { .plugin = searches[i].plugin,
			.options = searches[i].options,
			.seed = 2,
			.fate = 2,
			.slots = 3,
			.loss = first_value,
			.prepare = thirty_and_first };

		play_run(&play);
		cr_expect_eq(play.trials, 30, "%s %s", play.plugin->name, play.options);
		cr_expect_eq(count_distinct(&play), play.trials, "%s", play.plugin->name);
		cr_expect_eq(espl_kit_trial(play.kit, 0)->values[1], 7);
		cr_expect_eq(espl_kit_trial(play.kit, 1)->values[1], 1);
		play_end(&play);
	}
}

Test(unique, repeats_are_made_where_they_are_allowed)
{
	struct play play = { .plugin = &algorithm_random_LTX_espalier_plugin,
		.options = "trials=100 iterations_max=1 repeats=true",
		.loss = first_value,
		.prepare = thirty };

	play_run(&play);
	cr_assert_eq(play.trials, 100);
	cr_assert_leq(count_distinct(&play), 30);
	play_end(&play);
}

Test(unique, a_population_has_no_two_equal_new_members)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct play play = { .plugin = &algorithm_pbt_LTX_espalier_plugin,
			.options = "population=40 iterations_max=8 interval=4",
			.seed = seed,
			.fate = seed,
			.fails = seed % 3 == 0 ? .1 : 0,
			.loss = first_value,
			.prepare = thirty };
		uint64_t fresh = 0;

		play_run(&play);
		for (uint64_t i = 0; i < play.trials; i++)
			fresh += espl_kit_trial(play.kit, i)->parent == ESPL_NONE;
		cr_expect_eq(count_distinct(&play), fresh, "seed %llu", (unsigned long long)seed);
		cr_expect_eq(fresh, 30, "seed %llu: %llu", (unsigned long long)seed,
		    (unsigned long long)fresh);
		play_end(&play);
	}
}

/* A run that began before goes on as it began: ESPL_RULES_UNIQUE asks. */
Test(unique, a_run_that_began_by_earlier_rules_keeps_them)
{
	struct espl_host host = ESPL_INIT(struct espl_host);
	struct espl_value no = { .as.i = 0 }, yes = { .as.i = 1 };

	cr_assert_not(espl_tried_repeats(&host, &no));
	cr_assert(espl_tried_repeats(&host, &yes));
	host.rules = ESPL_RULES_UNIQUE - 1;
	cr_assert(espl_tried_repeats(&host, &no));
	host.rules = ESPL_RULES_UNIQUE;
	cr_assert_not(espl_tried_repeats(&host, &no));
}

/* ---- the kit's own ------------------------------------------------------------------------- */

static const void *
space_service(const struct espl_host *host, const char *id)
{
	return strcmp(id, ESPL_SPACE) == 0 ? espl_kit_space(host->ctx) : NULL;
}

static uint64_t
next_random(const struct espl_host *host)
{
	static uint64_t drawn;

	(void)host;
	return (uint64_t)(play_chance(1, ++drawn, 0, 0) * 0x1.0p53) << 11;
}

Test(tried, what_is_left_of_a_finite_space_is_listed)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error = ESPL_INIT(struct espl_error);
	double rest[30][2], values[2];
	struct espl_tried tried;
	struct espl_host host = ESPL_INIT(struct espl_host);
	uint32_t count;
	uint64_t limit;

	thirty(kit, NULL);
	host.ctx = kit;
	host.service = space_service;
	host.random = next_random;
	cr_assert_eq(espl_tried_init(&tried, &host, 0, &error), ESPL_OK);
	cr_assert_eq(espl_tried_limit(&tried, 1000, &limit, &error), ESPL_OK);
	cr_assert_eq(limit, 30);
	cr_assert_eq(espl_tried_limit(&tried, 30, &limit, &error), ESPL_OK);
	cr_assert_eq(limit, 30);
	for (uint32_t left = 30; left > 0; left--) {
		cr_assert_eq(espl_tried_rest(&tried, 30, rest[0], &count, &error), ESPL_OK);
		cr_assert_eq(count, left);
		cr_assert_eq(espl_tried_rest(&tried, left - 1, rest[0], &count, &error), ESPL_OK);
		cr_assert_eq(count, 0, "more than may be listed");
		cr_assert_eq(espl_tried_new(&tried, NULL, NULL, values, &error), ESPL_OK);
		cr_assert(espl_tried_has(&tried, values));
	}
	cr_assert_eq(espl_tried_new(&tried, NULL, NULL, values, &error), ESPL_E_LIMIT);
	cr_assert_eq(tried.count, 30);
	espl_tried_free(&tried);
	espl_kit_free(kit);
}

/* A continuous range may hold only a few numbers: the walk ends there, too, and finds the rest. */
Test(tried, a_range_of_a_few_numbers_is_walked_to_its_end, .timeout = 60)
{
	static const struct {
		double low, high;
		espl_scale scale;
	} ranges[] = { { 1, 1 + 0x1p-51, ESPL_LINEAR }, { 0, 0x1p-1072, ESPL_LINEAR },
		{ 1e300, 1.00000000000001e300, ESPL_LOG } };

	for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
		struct espl_kit *kit = espl_kit_new(1);
		struct espl_error error = ESPL_INIT(struct espl_error);
		struct espl_host host = ESPL_INIT(struct espl_host);
		espl_status status = ESPL_OK;
		struct espl_tried tried;
		double values[2];

		espl_kit_choice(kit, "k", "a|b");
		espl_kit_real(kit, "x", ranges[i].low, ranges[i].high, ranges[i].scale, 0);
		host.ctx = kit;
		host.service = space_service;
		host.random = next_random;
		cr_assert_eq(espl_tried_init(&tried, &host, 0, &error), ESPL_OK);
		while (status == ESPL_OK && tried.count < 1000)
			status = espl_tried_new(&tried, NULL, NULL, values, &error);
		cr_expect_eq(status, ESPL_E_LIMIT, "range %zu: %llu", i,
		    (unsigned long long)tried.count);
		cr_expect_eq(tried.count % 2, 0, "range %zu: as many with a as with b", i);
		cr_expect_geq(tried.count, 4);
		espl_tried_free(&tried);
		espl_kit_free(kit);
	}
}
