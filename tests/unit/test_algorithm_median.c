/* test_algorithm_median.c - the median stopping rule: medians worked out by hand, and whole
 * searches at random. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define MEDIAN (&algorithm_median_LTX_espalier_plugin)

static struct espl_kit *
opened(const char *options)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, MEDIAN, options, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 20), ESPL_OK);
	return kit;
}

/* A whole trial of four iterations. */
static void
completed(struct espl_kit *kit, uint64_t trial, double a, double b, double c, double d)
{
	double losses[4] = { a, b, c, d };
	uint64_t i;

	for (i = 0; i < 4; i++)
		cr_assert_eq(espl_kit_report(kit, trial, i + 1, losses[i]), ESPL_OK);
	cr_assert_eq(espl_kit_end(kit, trial, ESPL_END_BUDGET, d), ESPL_OK);
}

/* Is the trial told to stop by this report? */
static int
stops(struct espl_kit *kit, uint64_t trial, uint64_t iteration, double loss)
{
	char line[64];

	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_report(kit, trial, iteration, loss), ESPL_OK);
	(void)snprintf(line, sizeof line, "verdict trial=%d ", (int)trial);
	return strstr(espl_kit_log(kit), line) != NULL;
}

Test(median, options)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, MEDIAN, "iterations_max=4", &error), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(error.text, "has no end"));
	espl_kit_free(kit);
}

/* Running averages of the completed three:
 *	trial 0: 8 6 4 2 -> 8 7 6 5;  trial 1: 4 4 4 4 -> 4 4 4 4;  trial 2: 9 3 3 1 -> 9 6 5 4
 * Medians: 8 6 5 4.  A trial stops if its best so far is strictly worse. */
Test(median, by_hand)
{
	struct espl_kit *kit = opened("trials=20 iterations_max=4 trials_min=3");

	completed(kit, 0, 8, 6, 4, 2);
	completed(kit, 1, 4, 4, 4, 4);
	cr_assert(!stops(kit, 19, 1, 1000)); /* only two are complete */
	completed(kit, 2, 9, 3, 3, 1);
	cr_assert(!stops(kit, 3, 1, 8)); /* as good as the median */
	cr_assert(stops(kit, 4, 1, 8.001));
	cr_assert(!stops(kit, 3, 2, 6));
	cr_assert(!stops(kit, 5, 1, 6.5));
	cr_assert(stops(kit, 5, 2, 100)); /* its best, 6.5, is worse than 6 */
	cr_assert(!stops(kit, 6, 1, 4.5));
	cr_assert(!stops(kit, 6, 2, 100)); /* its best counts, not its last */
	cr_assert(!stops(kit, 6, 3, NAN));
	cr_assert(!stops(kit, 3, 3, 5));
	cr_assert(!stops(kit, 3, 4, 5)); /* at its end it is complete anyway */
	espl_kit_free(kit);
}

/* The median of an even number is the middle of the two; those stopped and failed do not count. */
Test(median, even_and_incomplete)
{
	struct espl_kit *kit = opened("trials=20 iterations_max=4 trials_min=2");

	completed(kit, 0, 1, 1, 1, 1);
	espl_kit_report(kit, 1, 1, 50);
	espl_kit_end(kit, 1, ESPL_END_FAILED, NAN);
	cr_assert(!stops(kit, 2, 1, 70));
	completed(kit, 3, 2, 2, 2, 2);
	cr_assert(!stops(kit, 4, 1, 1.5));
	cr_assert(stops(kit, 5, 1, 1.5001));
	espl_kit_free(kit);
}

/* NaN is no best and an infinite average. */
Test(median, nan)
{
	struct espl_kit *kit = opened("trials=20 iterations_max=4 trials_min=1");

	completed(kit, 0, 1, NAN, 1, 1); /* averages 1, inf, inf, inf */
	cr_assert(stops(kit, 1, 1, NAN));
	cr_assert(!stops(kit, 2, 1, 1));
	cr_assert(!stops(kit, 2, 2, 1000));
	espl_kit_free(kit);
}

Test(median, grace_and_interval)
{
	struct espl_kit *kit = opened("trials=20 iterations_max=4 trials_min=1 grace=3");

	completed(kit, 0, 1, 1, 1, 1);
	cr_assert(!stops(kit, 1, 1, 5));
	cr_assert(!stops(kit, 1, 2, 5));
	cr_assert(stops(kit, 1, 3, 5));
	espl_kit_free(kit);
	kit = opened("trials=20 iterations_max=4 trials_min=1 interval=2");
	completed(kit, 0, 1, 1, 1, 1);
	cr_assert(!stops(kit, 1, 1, 5));
	cr_assert(stops(kit, 1, 2, 5));
	cr_assert(!stops(kit, 2, 1, 5));
	cr_assert(stops(kit, 2, 3, 5)); /* iteration 2 was not reported */
	espl_kit_free(kit);
}

static void
as_many(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 40);
}

Test(median, any_sequence)
{
	struct play play = { .plugin = MEDIAN,
		.options = "trials=40 iterations_max=12 trials_min=3",
		.fails = 0.01,
		.itself = 0.01,
		.nans = 0.02 };

	play_seeds(&play, 500, as_many);
	play.options = "trials=40 iterations_max=12 trials_min=1 interval=4 grace=5";
	play_seeds(&play, 500, as_many);
}
