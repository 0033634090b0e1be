/* test_algorithm_hyperband.c - Hyperband: its table, when brackets begin, and whole searches at
 * random. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "brackets.h"
#include "test_plugins.h"

#define HYPERBAND (&algorithm_hyperband_LTX_espalier_plugin)

static struct espl_kit *
opened(const char *options)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, HYPERBAND, options, &error), ESPL_OK, "%s", error.text);
	return kit;
}

static void
refused(const char *options, const char *text, uint32_t option)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, HYPERBAND, options, &error), ESPL_E_CONFIG, "%s", options);
	cr_assert_not_null(strstr(error.text, text), "'%s' does not say '%s'", error.text, text);
	cr_assert_eq(error.option, option, "%s", options);
	espl_kit_free(kit);
}

/* table: brackets separated by '|', in each "n r" of its rungs, r cumulative as the paper writes
 * it. */
static void
table_is(const char *options, const char *table)
{
	struct espl_kit *kit = opened(options);
	char wanted[4096] = "", rung[32];
	unsigned n, bracket = 0, stage = 0;
	unsigned long long r, before = 0;
	int used;

	while (sscanf(table, " %u %llu%n", &n, &r, &used) == 2) {
		(void)sprintf(wanted + strlen(wanted),
		    "spec bracket=%u stage=%u trials=%u iterations=%llu\n", bracket, stage++, n,
		    r - before);
		before = r;
		table += used;
		if (sscanf(table, " %1[|]%n", rung, &used) == 1) {
			table += used;
			bracket++;
			stage = 0;
			before = 0;
		}
		cr_assert_lt(strlen(wanted), sizeof wanted - 200);
	}
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), wanted, "%s", options);
	espl_kit_free(kit);
}

Test(hyperband, tables)
{
	/* R = 81, eta = 3.  The paper's Algorithm 1: n = ceil(5 * 3^s / (s + 1)), n_i = floor(n /
	 * 3^i). */
	table_is("iterations_max=81",
	    "81 1  27 3  9 9  3 27  1 81 | 34 3  11 9  3 27  1 81 | 15 9  5 27  1 81 | 8 27  2 81 "
	    "| 5 81");
	/* Table 1 as its first version and most programs have it: floor(5 / (s + 1)) * 3^s. */
	table_is("iterations_max=81 rounding=down",
	    "81 1  27 3  9 9  3 27  1 81 | 27 3  9 9  3 27  1 81 | 9 9  3 27  1 81 | 6 27  2 81 | "
	    "5 81");
	table_is("iterations_max=81 rounding=up",
	    "81 1  27 3  9 9  3 27  1 81 | 54 3  18 9  6 27  2 81 | 18 9  6 27  2 81 | 9 27  3 81 "
	    "| 5 81");
	/* The first r is no less than iterations_min; r is rounded down. */
	table_is("iterations_max=50 iterations_min=2", "9 5  3 16  1 50 | 5 16  1 50 | 3 50");
	/* Anchored: asha's rungs, so the last one may be nearer than eta times the one before. */
	table_is("iterations_max=50 iterations_min=2 rungs=anchored",
	    "27 2  9 6  3 18  1 50 | 12 6  4 18  1 50 | 6 18  2 50 | 4 50");
	table_is("iterations_max=81 rungs=anchored",
	    "81 1  27 3  9 9  3 27  1 81 | 34 3  11 9  3 27  1 81 | 15 9  5 27  1 81 | 8 27  2 81 "
	    "| 5 81");
	table_is("iterations_max=7 iterations_min=7 rungs=anchored", "1 7");
	table_is("iterations_max=8 iterations_min=7 rungs=anchored", "3 7  1 8 | 2 8");
	table_is("iterations_max=50 iterations_min=2 rungs=anchored trials=30",
	    "27 2  9 6  3 18  1 50 | 3 6  1 50");
	table_is("iterations_max=1000000000000 iterations_min=1 eta=1000000 rungs=anchored "
		 "brackets=1 trials=5",
	    "5 1  1 1000000000000");
	table_is("iterations_max=8 eta=2", "8 1  4 2  2 4  1 8 | 6 2  3 4  1 8 | 4 4  2 8 | 4 8");
	table_is("iterations_max=8 eta=2 brackets=2", "8 1  4 2  2 4  1 8 | 6 2  3 4  1 8");
	table_is("iterations_max=9 passes=2",
	    "9 1  3 3  1 9 | 5 3  1 9 | 3 9 | 9 1  3 3  1 9 | 5 3  1 9 | 3 9");
	table_is("iterations_max=1", "1 1");
	/* Exactly so many: 9 + 5 + 3 in a pass, then 9, then 4 of 5. */
	table_is("iterations_max=9 trials=30",
	    "9 1  3 3  1 9 | 5 3  1 9 | 3 9 | 9 1  3 3  1 9 | 4 3  1 9");
	table_is("iterations_max=9 trials=2", "2 1  1 9");
	table_is("iterations_max=9 trials=1", "1 9");
	/* Nobody knows when these begin: none. */
	table_is("iterations_max=9 order=overlap", "");
}

Test(hyperband, options)
{
	refused("trials=9", "'iterations_max' is missing", 3);
	refused("iterations_max=9 iterations_min=10", "iterations_min", 2);
	refused("iterations_max=9 passes=0", "has no end", 1);
	refused("iterations_max=9 passes=0 order=side-by-side", "side by side", 8);
	refused("iterations_max=1000000000000 eta=2", "more than", 2);
	refused("iterations_max=1000000000000 eta=2 trials=1000001", "above its maximum", 0);
	table_is("iterations_max=1000000000000 eta=1000000 trials=3", "3 1  1 1000000000000");
}

/* ---- when brackets begin ------------------------------------------------------------------ */

static void
end_all(struct espl_kit *kit, uint64_t from, uint64_t to, double first)
{
	for (; from < to; from++, first += 1)
		cr_assert_eq(espl_kit_end(kit, from, ESPL_END_BUDGET, first), ESPL_OK);
	espl_kit_clear(kit);
}

Test(hyperband, one_bracket_after_the_other)
{
	struct espl_kit *kit = opened("iterations_max=3");
	uint64_t i;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 9), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 3); /* free GPUs or not */
	end_all(kit, 0, 3, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 9), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=1 bracket=0 stage=1\n"
	    "add group=1 trial=0 continue budget=3\n");
	end_all(kit, 0, 1, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 1, 9), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 5);
	for (i = 3; i < 5; i++)
		cr_assert_eq(espl_kit_trial(kit, i)->budget, 3);
	end_all(kit, 3, 5, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 2, 9), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "finish\n");
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 9), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "finish\n");
	espl_kit_free(kit);
}

Test(hyperband, all_brackets_at_once)
{
	struct espl_kit *kit = opened("iterations_max=9 order=side-by-side");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 17);
	/* The second one is faster. */
	end_all(kit, 9, 14, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 1, 1), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=3 bracket=1 stage=1\n"
	    "add group=3 trial=9 continue budget=9\n");
	espl_kit_free(kit);
}

Test(hyperband, promotes_the_next_best_in_place_of_one_that_fails)
{
	struct espl_kit *kit = opened("iterations_max=9 order=side-by-side");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	end_all(kit, 9, 14, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 1, 1), ESPL_OK);
	cr_assert_eq(espl_kit_end(kit, 9, ESPL_END_FAILED, NAN), ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 3, 1), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=4 bracket=1 stage=1\nadd group=4 trial=10 continue budget=9\n");
	cr_assert_eq(espl_kit_end(kit, 10, ESPL_END_BUDGET, 1), ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 4, 1), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "drop trial=11\ndrop trial=12\ndrop trial=13\n");
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);
}

/* A bracket begins when GPUs are free and no other can use them. */
Test(hyperband, overlapping_brackets)
{
	struct espl_kit *kit = opened("iterations_max=9 order=overlap");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 4), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 9);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 0), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 9);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 14); /* 9 + 5 */
	end_all(kit, 0, 9, 0);
	/* Its end is not told yet: what is free may be for those who go on. */
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 3), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 14);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 3), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 14); /* three go on: nothing is left */
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 17);
	espl_kit_free(kit);
}

/* ---- configurations drawn one by one, for models ------------------------------------------ */

struct lazy {
	struct brackets b;
	struct espl_kit *kit;
	uint32_t drawn;
};

static espl_status
count_draws(void *ctx, uint32_t kind, double *values, struct espl_error *error)
{
	/* of algo_play's space, or of x alone */
	static const double middle[] = { 0.5, 0.5, 1, NAN };
	struct lazy *lazy = ctx;

	(void)error;
	cr_assert_lt(kind, 3);
	lazy->drawn++;
	memcpy(values, middle, lazy->b.space->param_count * sizeof *values);
	return ESPL_OK;
}

static espl_status
lazy_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct lazy *lazy = calloc(1, sizeof *lazy);
	struct brackets_setup setup = { .iterations_min = 1,
		.iterations_max = 9,
		.eta = 3,
		.passes = 1,
		.order = BRACKETS_OVERLAP,
		.lazy = 1,
		.repeats = 1 };

	(void)config;
	cr_assert_not_null(lazy);
	*self = lazy;
	return brackets_init(&lazy->b, host, &setup, count_draws, lazy, error);
}

static void
lazy_destroy(void *self)
{
	struct lazy *lazy = self;

	brackets_free(&lazy->b);
	free(lazy);
}

static espl_status
lazy_next(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct lazy *lazy = self;

	return brackets_next(&lazy->b, view, sink, error);
}

static espl_status
lazy_ended(void *self, const struct espl_trial *trial, espl_end how, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct lazy *lazy = self;

	(void)sink;
	(void)error;
	brackets_ended(&lazy->b, trial, how);
	return ESPL_OK;
}

static const struct espl_algorithm_ops lazy_ops = { ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = lazy_next, .on_trial_end = lazy_ended };
static const struct espl_plugin lazy_plugin = { ESPL_HEAD(ESPL_ALGORITHM, "lazy"), .version = "0",
	.summary = "of the tests", .caps = ESPL_CAP_PURE,
	.option_size = (uint32_t)sizeof(struct espl_option), .ops = &lazy_ops.head,
	.create = lazy_create, .destroy = lazy_destroy };

Test(brackets, lazily_filled)
{
	struct espl_kit *kit = espl_kit_new(1);
	const struct lazy *lazy;
	int open;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, &lazy_plugin, "", NULL), ESPL_OK);
	lazy = espl_kit_self(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 4), ESPL_OK);
	cr_assert_eq(lazy->drawn, 4); /* not 9 */
	end_all(kit, 0, 4, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 4), ESPL_OK);
	cr_assert_eq(lazy->drawn, 8);
	cr_assert_eq(espl_kit_group_left(kit, 0, &open), 4);
	cr_assert(open);
	end_all(kit, 4, 5, 0);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 1), ESPL_OK);
	cr_assert_eq(lazy->drawn, 9);
	(void)espl_kit_group_left(kit, 0, &open);
	cr_assert(!open);
	end_all(kit, 5, 8, 1);
	/* The next bracket takes what is free, one by one; then the first one goes on. */
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 3), ESPL_OK);
	cr_assert_eq(lazy->drawn, 12);
	cr_assert_eq(espl_kit_trial(kit, 9)->budget, 3);
	end_all(kit, 8, 9, 7);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 1), ESPL_OK);
	cr_assert_eq(lazy->drawn, 12);
	cr_assert_not_null(strstr(espl_kit_log(kit),
	    "add group=2 trial=0 continue budget=3\n"
	    "add group=2 trial=4 continue budget=3\nadd group=2 trial=1 continue budget=3\n"));
	espl_kit_free(kit);
}

Test(brackets, a_thousand_lazy_searches)
{
	struct play play = { .plugin = &lazy_plugin,
		.options = "",
		.fails = .05,
		.itself = .02,
		.nans = .1 };
	struct play one = play;

	play_seeds(&play, 1000, NULL);
	play_run(&one);
	cr_assert_eq(one.trials, 17);
	play_end(&one);
}

/* ---- whole searches ----------------------------------------------------------------------- */

/* Without failures every rung has as many trials as the table says: R = 9, two passes. */
static void
check_counts(struct play *play, uint64_t seed)
{
	cr_assert_eq(play->trials, 34);
	if (seed % 4 != 0)
		return;
	cr_assert_eq(play->failed + play->complete + play->stopped + play->paused, 0);
	cr_assert_eq(play->iterations, 2 * (9 + 3 * 2 + 6 + 5 * 3 + 6 + 3 * 9));
	cr_assert_eq(play_reached(play, 1), 34);
	cr_assert_eq(play_reached(play, 3), 2 * (3 + 5 + 3));
	cr_assert_eq(play_reached(play, 9), 2 * (1 + 1 + 3));
}

static void
many(const char *options, int any_order)
{
	struct play play = { .plugin = HYPERBAND,
		.options = options,
		.fails = .05,
		.itself = .02,
		.nans = .1 };

	play_seeds(&play, 1000, check_counts);
	if (any_order)
		play_orders(&play, 1000);
}

Test(hyperband, a_thousand_searches_in_sequence)
{
	many("iterations_max=9 passes=2", 1);
}

Test(hyperband, a_thousand_searches_side_by_side)
{
	many("iterations_max=9 passes=2 order=side-by-side", 1);
}

Test(hyperband, a_thousand_searches_that_overlap)
{
	many("iterations_max=9 passes=2 order=overlap", 0);
}

static void
check_exact(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 47);
}

Test(hyperband, exactly_as_many_as_asked_for)
{
	struct play play = { .plugin = HYPERBAND,
		.options = "iterations_max=27 trials=47",
		.fails = .05 };

	play_seeds(&play, 100, check_exact);
	play.options = "iterations_max=27 trials=47 order=overlap";
	play_seeds(&play, 100, check_exact);
}

Test(hyperband, without_end)
{
	struct play play = { .plugin = HYPERBAND,
		.options = "iterations_max=9 passes=0",
		.endless = 1,
		.events = 3000,
		.fails = .02 };

	play_seeds(&play, 20, NULL);
	play.options = "iterations_max=9 passes=0 order=overlap";
	play_seeds(&play, 20, NULL);
}

/* The user's points come first, in whatever bracket. */
static void
twelve_points(struct espl_kit *kit, void *ctx)
{
	double i;

	(void)ctx;
	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	for (i = 0; i < 12; i++) {
		double x = i / 16;

		espl_kit_first(kit, &x);
	}
}

Test(hyperband, first_points)
{
	struct play play = { .plugin = HYPERBAND,
		.options = "iterations_max=9",
		.prepare = twelve_points };
	uint64_t i;

	play_run(&play);
	for (i = 0; i < 12; i++)
		cr_assert_eq(espl_kit_trial(play.kit, i)->values[0], (double)i / 16);
	play_end(&play);
}
