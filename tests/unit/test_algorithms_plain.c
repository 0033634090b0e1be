/* test_algorithms_plain.c - random, grid, sha and stages: whole searches at random. */
#include <criterion/criterion.h>
#include "algo_play.h"
#include "test_plugins.h"

static void
trials_are_20(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 20);
	cr_assert_eq(play->failed + play->complete + play->reached, 20);
}

Test(random, a_thousand_searches)
{
	struct play play = { .plugin = &algorithm_random_LTX_espalier_plugin,
		.options = "trials=20 iterations_max=4",
		.fails = .05,
		.itself = .05,
		.nans = .1 };

	play_seeds(&play, 1000, trials_are_20);
	play_orders(&play, 200);
	play.options = "iterations_max=2";
	play.endless = 1;
	play.events = 500;
	play_seeds(&play, 50, NULL);
}

/* k = a with 2 of x, y and z each, k = b or c without z. */
static void
grid_is_whole(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 8 + 4 + 4);
}

Test(grid, a_thousand_searches)
{
	struct play play = { .plugin = &algorithm_grid_LTX_espalier_plugin,
		.options = "points=2 iterations_max=3",
		.fails = .05,
		.itself = .05,
		.nans = .1 };

	play_seeds(&play, 1000, grid_is_whole);
	play_orders(&play, 200);
}

static void
rungs_are_full(struct play *play, uint64_t seed)
{
	cr_assert_eq(play->trials, 27);
	if (seed % 4 != 0)
		return;
	cr_assert_eq(play->iterations, 27 + 9 * 2 + 3 * 6);
	cr_assert_eq(play_reached(play, 3), 9);
	cr_assert_eq(play_reached(play, 9), 3);
}

Test(sha, a_thousand_searches)
{
	struct play play = { .plugin = &algorithm_sha_LTX_espalier_plugin,
		.options = "trials=27 iterations_max=9",
		.fails = .05,
		.itself = .03,
		.nans = .1 };

	play_seeds(&play, 1000, rungs_are_full);
	play_orders(&play, 1000);
}

static void
stages_are_full(struct play *play, uint64_t seed)
{
	if (seed % 4 != 0)
		return;
	cr_assert_eq(play->trials, 8 + 2);
	cr_assert_eq(play->iterations, 8 * 2 + 3 * 1 + 5 * 3 + 1 * 1);
	/* Newcomers train what the stage says, no more: one that wins ends at 4. */
	cr_assert_eq(play_reached(play, 6), 3);
	cr_assert_eq(play_reached(play, 7) + (play_reached(play, 4) - 3), 1);
}

/* The third stage is wider than the second: newcomers join. */
Test(stages, a_thousand_searches)
{
	struct play play = { .plugin = &algorithm_stages_LTX_espalier_plugin,
		.options = "stages=(8,2)(3,1)(5,3)(1,1)",
		.fails = .05,
		.itself = .03,
		.nans = .1 };

	play_seeds(&play, 1000, stages_are_full);
	play_orders(&play, 1000);
}
