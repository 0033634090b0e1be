/* test_algorithm_spottune.c - SpotTune's search: which trials continue, by hand and at random. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define SPOTTUNE (&algorithm_spottune_LTX_espalier_plugin)

static struct espl_kit *
opened(const char *options)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, SPOTTUNE, options, &error), ESPL_OK, "%s", error.text);
	return kit;
}

static void
refused(const char *options, const char *why)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, SPOTTUNE, options, &error), ESPL_E_CONFIG, "%s", options);
	cr_assert_not_null(strstr(error.text, why), "%s: %s", options, error.text);
	espl_kit_free(kit);
}

Test(spottune, options)
{
	refused("trials=8 iterations_max=10 extrapolator=best", "'best' is not an extrapolator");
	refused("trials=8 iterations_max=10 extrapolator=last,xi=1", "which has none");
}

/* 0.7 of 10 is 7, not 8; theta = 1 leaves one stage of all trials. */
Test(spottune, stages)
{
	struct espl_kit *kit = opened("trials=8 iterations_max=10");

	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_not_null(strstr(espl_kit_log(kit), "stage=0 trials=8 iterations=7\n"), "%s",
	    espl_kit_log(kit));
	cr_assert_not_null(strstr(espl_kit_log(kit), "stage=1 trials=3 iterations=3\n"));
	espl_kit_free(kit);
	kit = opened("trials=2 iterations_max=10");
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_not_null(strstr(espl_kit_log(kit), "stage=1 trials=2 iterations=3\n"));
	espl_kit_free(kit);
	kit = opened("trials=8 iterations_max=10 theta=1");
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_not_null(strstr(espl_kit_log(kit), "stage=0 trials=8 iterations=10\n"));
	cr_assert_null(strstr(espl_kit_log(kit), "stage=1"));
	espl_kit_free(kit);
}

/* Trial 0 is flat at 0.5; trial 1 falls, and is at 0.52; trial 2 is far behind; trial 3 reports a
 * NaN last. */
static double
crossing_loss(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	(void)ctx;
	switch (trial->id) {
	case 0: return 0.5;
	case 1: return 0.2 + 2.24 / (double)iteration;
	case 2: return 3;
	default: return iteration == 7 ? NAN : 0.1;
	}
}

/* Which one of four trials continues. */
static uint64_t
winner(const char *options)
{
	struct play play = { .plugin = SPOTTUNE, .options = options, .loss = crossing_loss };
	uint64_t best = ESPL_NONE;

	play_run(&play);
	cr_assert_eq(play.trials, 4);
	cr_assert_eq(play.iterations, 4 * 7 + 3);
	for (uint64_t i = 0; i < 4; i++)
		if (espl_kit_trial(play.kit, i)->iteration == 10)
			best = i;
	play_end(&play);
	return best;
}

Test(spottune, ranks_by_the_prediction)
{
	cr_assert_eq(winner("trials=4 iterations_max=10 mcnt=1 extrapolator=last"), 0);
	cr_assert_eq(winner("trials=4 iterations_max=10 mcnt=1 extrapolator=earlycurve"), 1);
	cr_assert_eq(winner("trials=4 iterations_max=10 mcnt=1 extrapolator=power"), 1);
	cr_assert_eq(winner("trials=4 iterations_max=10 mcnt=1"), 1);
}

/* An accuracy: what is fitted is 1 - accuracy.  With a ceiling that it exceeds, the last value
 * ranks and a warning says so. */
static double
rising_loss(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	return crossing_loss(ctx, trial, iteration) - 1;
}

static void
maximize(struct espl_kit *kit, void *ctx)
{
	(void)ctx;
	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_experiment(kit)->flags |= ESPL_EXPERIMENT_MAXIMIZE;
}

Test(spottune, maximizes)
{
	struct play play = { .plugin = SPOTTUNE,
		.options = "trials=4 iterations_max=10 mcnt=1",
		.prepare = maximize,
		.loss = rising_loss };

	play_run(&play);
	cr_assert_eq(espl_kit_trial(play.kit, 1)->iteration, 10);
	cr_assert_null(strstr(espl_kit_log(play.kit), "above 'ceiling'"));
	play_end(&play);
	play.options = "trials=4 iterations_max=10 mcnt=1 ceiling=0.3";
	play_run(&play);
	cr_assert_eq(espl_kit_trial(play.kit, 0)->iteration, 10);
	cr_assert_not_null(strstr(espl_kit_log(play.kit), "above 'ceiling'"));
	play_end(&play);
}

/* Flat trials are paused at iteration 6: five changes, and 30 % done; the best of them continue. */
Test(spottune, plateau)
{
	struct play play = { .plugin = SPOTTUNE,
		.options = "trials=4 iterations_max=10 mcnt=2 plateau=0.001",
		.loss = crossing_loss };

	play_run(&play);
	cr_assert_eq(play.paused, 3); /* trials 0, 2, and 3, which is flat until then */
	cr_assert_eq(espl_kit_trial(play.kit, 0)->iteration, 6);
	cr_assert_eq(espl_kit_trial(play.kit, 1)->iteration, 10);
	cr_assert_eq(espl_kit_trial(play.kit, 2)->iteration, 6);
	cr_assert_eq(espl_kit_trial(play.kit, 3)->iteration, 10);
	play_end(&play);
}

/* trials = 0: each combination once, as in grid (16 in the space of algo_play.h). */
static void
grid_is_whole(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 8 + 4 + 4);
}

Test(spottune, a_grid)
{
	struct play play = { .plugin = SPOTTUNE,
		.options = "trials=0 points=2 iterations_max=10",
		.fails = .05,
		.nans = .1 };

	play_seeds(&play, 100, grid_is_whole);
	play_orders(&play, 30);
}

static void
stages_are_full(struct play *play, uint64_t seed)
{
	cr_assert_eq(play->trials, 16);
	if (seed % 4 != 0)
		return;
	cr_assert_eq(play->iterations, 16 * 7 + 3 * 3);
	cr_assert_eq(play_reached(play, 10), 3);
}

Test(spottune, a_thousand_searches)
{
	struct play play = { .plugin = SPOTTUNE,
		.options = "trials=16 iterations_max=10",
		.fails = .05,
		.itself = .02,
		.nans = .1 };

	play_seeds(&play, 300, stages_are_full);
	play_orders(&play, 100);
	play.options = "trials=16 iterations_max=10 extrapolator=earlycurve plateau=0.05";
	play_seeds(&play, 300, NULL);
	play_orders(&play, 100);
}
