/* test_algorithm_bohb.c - bohb and tpe as plugins: what they begin, whole searches at random, and
 * whether they find more than chance does. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "test_kde.h"
#include "test_plugins.h"

#define BOHB (&algorithm_bohb_LTX_espalier_plugin)
#define TPE (&algorithm_tpe_LTX_espalier_plugin)

/* ---- options ------------------------------------------------------------------------------ */

static void
refused(const struct espl_plugin *plugin, const char *options, const char *text, uint32_t option)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, plugin, options, &error), ESPL_E_CONFIG, "%s", options);
	cr_assert_not_null(strstr(error.text, text), "'%s' does not say '%s'", error.text, text);
	cr_assert_eq(error.option, option, "%s", options);
	espl_kit_free(kit);
}

Test(bohb, options)
{
	refused(BOHB, "trials=9", "'iterations_max' is missing", 3);
	refused(BOHB, "iterations_max=9 iterations_min=10", "iterations_min", 2);
	refused(BOHB, "iterations_max=9 passes=0", "has no end", 1);
	refused(BOHB, "iterations_max=9 top_percent=100", "top_percent", 9);
	refused(TPE, "iterations_max=9", "has no end", 0);
	refused(TPE, "trials=9 candidates=0", "candidates", 7);
}

static void
declares(const struct espl_plugin *plugin, const char *options, const char *spec)
{
	struct espl_kit *kit = espl_kit_new(5);

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, plugin, options, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), spec);
	espl_kit_free(kit);
}

/* HpBandSter's brackets: floor((S + 1) / (s + 1)) eta^s configurations. */
Test(bohb, specs)
{
	declares(BOHB, "iterations_max=27 mode=sync",
	    "spec bracket=0 stage=0 trials=27 iterations=1\nspec bracket=0 stage=1 trials=9 "
	    "iterations=2\n"
	    "spec bracket=0 stage=2 trials=3 iterations=6\nspec bracket=0 stage=3 trials=1 "
	    "iterations=18\n"
	    "spec bracket=1 stage=0 trials=9 iterations=3\nspec bracket=1 stage=1 trials=3 "
	    "iterations=6\n"
	    "spec bracket=1 stage=2 trials=1 iterations=18\nspec bracket=2 stage=0 trials=6 "
	    "iterations=9\n"
	    "spec bracket=2 stage=1 trials=2 iterations=18\nspec bracket=3 stage=0 trials=4 "
	    "iterations=27\n");
	declares(BOHB, "iterations_max=27", "");
	declares(TPE, "trials=7 iterations_max=27",
	    "spec bracket=0 stage=0 trials=7 iterations=27\n");
	declares(TPE, "trials=7", "spec bracket=0 stage=0 trials=7 iterations=1\n");
}

/* ---- the first of them -------------------------------------------------------------------- */

/* The user's points come first and count; asynchronous: as many as can train; synchronous: a
 * bracket. */
Test(bohb, begins)
{
	static const double mine[] = { 0.5 };
	static const struct {
		const struct espl_plugin *plugin;
		const char *options;
		uint64_t trials;
	} all[] = { { BOHB, "iterations_max=9", 2 }, { BOHB, "iterations_max=9 mode=sync", 9 },
		{ BOHB, "iterations_max=9 trials=1", 1 }, { TPE, "trials=3", 2 },
		{ TPE, "trials=1", 1 } };
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct espl_kit *kit = espl_kit_new(5);

		espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
		espl_kit_first(kit, mine);
		cr_assert_eq(espl_kit_open(kit, all[i].plugin, all[i].options, NULL), ESPL_OK);
		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
		cr_assert_eq(espl_kit_trials(kit), all[i].trials, "%s", espl_kit_log(kit));
		cr_assert_eq(espl_kit_trial(kit, 0)->values[0], 0.5);
		espl_kit_free(kit);
	}
}

/* A promoted trial that fails for good leaves its place to the next best. */
Test(bohb, promotes_the_next_best_in_place_of_one_that_fails)
{
	static const char *const modes[] = { "iterations_max=9 mode=sync", "iterations_max=9" };

	for (int k = 0; k < 2; k++) {
		struct espl_kit *kit = espl_kit_new(5);
		uint64_t id;

		espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
		cr_assert_eq(espl_kit_open(kit, BOHB, modes[k], NULL), ESPL_OK);
		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 9), ESPL_OK);
		cr_assert_eq(espl_kit_trials(kit), 9);
		for (id = 0; id < 9; id++)
			cr_assert_eq(espl_kit_end(kit, id, ESPL_END_BUDGET, (double)id), ESPL_OK);
		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 9), ESPL_OK);
		cr_assert_not_null(strstr(espl_kit_log(kit), "trial=2 continue budget=3\n"));
		cr_assert_null(strstr(espl_kit_log(kit), "trial=3 continue"));
		cr_assert_eq(espl_kit_end(kit, 0, ESPL_END_FAILED, NAN), ESPL_OK);
		for (id = 1; id < 3; id++)
			cr_assert_eq(espl_kit_end(kit, id, ESPL_END_BUDGET, (double)id), ESPL_OK);
		espl_kit_clear(kit);
		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 1, 9), ESPL_OK);
		cr_assert_not_null(strstr(espl_kit_log(kit), "trial=3 continue budget=3\n"),
		    "%s: %s", modes[k], espl_kit_log(kit));
		cr_assert_eq(espl_kit_refused(kit), 0);
		espl_kit_free(kit);
	}
}

/* ---- a problem ---------------------------------------------------------------------------- */

static double
bowl(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	double sum = trial->values[0] == 2 ? 0 : 0.3;
	int i;

	(void)ctx;
	for (i = 1; i < 5; i++)
		sum += (trial->values[i] - 0.3) * (trial->values[i] - 0.3);
	return sum + 0.1 / (double)iteration;
}

static void
bowl_space(struct espl_kit *kit, void *ctx)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	int i;

	(void)ctx;
	espl_kit_choice(kit, "kind", "x|y|z");
	for (i = 0; i < 4; i++)
		espl_kit_real(kit, names[i], 0, 1, ESPL_LINEAR, 0);
}

/* ---- whole searches ----------------------------------------------------------------------- */

static void
exactly_forty(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 40);
}

static void
one_pass(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 9 + 3 + 3);
	if (play->failed + play->complete == 0)
		cr_assert_eq(play->iterations, (9 + 3 * 2 + 6) + (3 * 3 + 6) + 3 * 9);
}

static void
many(const struct espl_plugin *plugin, const char *options, void (*check)(struct play *, uint64_t),
    int any_order)
{
	struct play play = { .plugin = plugin,
		.options = options,
		.fails = .05,
		.itself = .02,
		.nans = .1 };

	play_seeds(&play, 1000, check);
	if (any_order)
		play_orders(&play, 200);
}

Test(bohb, a_thousand_asynchronous)
{
	many(BOHB, "iterations_max=9 candidates=8", one_pass, 0);
}
Test(bohb, a_thousand_synchronous)
{
	many(BOHB, "iterations_max=9 mode=sync candidates=8", one_pass, 1);
}
Test(bohb, a_thousand_of_forty)
{
	many(BOHB, "iterations_max=9 trials=40 candidates=4", exactly_forty, 0);
}
Test(bohb, two_hundred_of_forty_in_any_order)
{
	struct play play = { .plugin = BOHB,
		.options = "iterations_max=9 trials=40 mode=sync candidates=4",
		.fails = .05,
		.itself = .02,
		.nans = .1 };

	play_orders(&play, 200);
}
Test(tpe, a_thousand)
{
	many(TPE, "trials=40 iterations_max=3 candidates=4", exactly_forty, 0);
}

static void
until_a_deadline(struct espl_kit *kit, void *ctx)
{
	bowl_space(kit, ctx);
	espl_kit_experiment(kit)->deadline = 1000 * ESPL_SECOND;
}

Test(bohb, without_end)
{
	struct play play = { .plugin = BOHB,
		.options = "iterations_max=9 passes=0",
		.endless = 1,
		.events = 3000,
		.fails = .02,
		.prepare = until_a_deadline };

	play_seeds(&play, getenv("ESPALIER_TEST_NIGHT") != NULL ? 20 : 6, NULL);
	play.plugin = TPE;
	play.options = "iterations_max=3";
	play_seeds(&play, getenv("ESPALIER_TEST_NIGHT") != NULL ? 20 : 6, NULL);
}

/* ---- what they find ----------------------------------------------------------------------- */

/* Mean over 20 seeds of the least loss of 80 trials trained to the end. */
static double
finds(const struct espl_plugin *plugin, const char *options)
{
	struct play play = { .plugin = plugin,
		.options = options,
		.prepare = bowl_space,
		.loss = bowl,
		.slots = 4 };
	double sum = 0;
	uint64_t id;

	for (play.seed = 1; play.seed <= 20; play.seed++) {
		double least = HUGE_VAL;

		play.fate = play.order = play.seed;
		play_run(&play);
		for (id = 0; id < play.trials; id++)
			least = fmin(least, espl_kit_trial(play.kit, id)->loss);
		play_end(&play);
		sum += least / 20;
	}
	return sum;
}

Test(tpe, finds_more_than_chance)
{
	double model = finds(TPE, "trials=80"), chance = finds(TPE, "trials=80 startup=80");

	cr_assert_lt(model - 0.1, (chance - 0.1) * 2 / 3, "%g against %g", model, chance);
}

Test(bohb, finds_more_than_chance)
{
	double model = finds(BOHB, "iterations_max=9 trials=80");
	double chance = finds(BOHB, "iterations_max=9 trials=80 random_fraction=1");

	cr_assert_lt(model - 0.1 / 9, (chance - 0.1 / 9) * 2 / 3, "%g against %g", model, chance);
}

/* ---- no memory ---------------------------------------------------------------------------- */

Test(bohb, out_of_memory)
{
	static const struct {
		const struct espl_plugin *plugin;
		const char *options;
	} all[] = { { BOHB, "iterations_max=9" }, { BOHB, "iterations_max=9 mode=sync" },
		{ TPE, "trials=9" } };
	size_t i;
	uint32_t n;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct espl_kit *kit = espl_kit_new(1);
		espl_status status = ESPL_E_NOMEM;

		espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
		for (n = 1; status != ESPL_OK; n++) {
			test_left = n;
			status = espl_kit_open(kit, all[i].plugin, all[i].options, NULL);
			test_left = UINT32_MAX;
			cr_assert(status == ESPL_OK || (status == ESPL_E_NOMEM && n < 100), "%u",
			    n);
		}
		cr_assert_gt(n, 9);
		for (n = 1, status = ESPL_E_NOMEM; status != ESPL_OK; n++) {
			test_left = n;
			status = espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1);
			test_left = UINT32_MAX;
			cr_assert(status == ESPL_OK || (status == ESPL_E_NOMEM && n < 100), "%u",
			    n);
		}
		cr_assert_gt(espl_kit_trials(kit), 0);
		test_left = 1;
		status = espl_kit_end(kit, 0, ESPL_END_BUDGET, 1);
		test_left = UINT32_MAX;
		/* tpe has kept room for the result since the trial began */
		cr_assert_eq(status, all[i].plugin == TPE ? ESPL_OK : ESPL_E_NOMEM);
		espl_kit_free(kit);
	}
}
