/* test_algorithm_hypersched.c - decisions before a deadline, worked out by hand; whole searches at
 * random. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define HYPERSCHED (&algorithm_hypersched_LTX_espalier_plugin)

/* A model in which an iteration takes 10 s on one GPU, less on more; a start 5 s, a change of width
 * `resize`. */
static double resize_s;

static espl_status
speed(const struct espl_model *model, const struct espl_speed_query *query,
    struct espl_speed *speed)
{
	static const double scaling[] = { 0, 1.0, 2.0, 2.5, 4.0 };

	(void)model;
	if (query->share.gpus == 0 || query->share.gpus > 4)
		return ESPL_E_UNKNOWN;
	speed->iteration_s = 10 / scaling[query->share.gpus];
	return ESPL_OK;
}

static espl_status
overheads(const struct espl_model *model, uint64_t experiment, uint32_t offer,
    struct espl_overheads *o)
{
	(void)model;
	(void)experiment;
	(void)offer;
	o->start_s = 5;
	o->resize_s = resize_s;
	return ESPL_OK;
}

static const struct espl_model the_model = { .size = (uint32_t)sizeof the_model,
	.speed = speed,
	.overheads = overheads };

static struct espl_kit *
opened(const char *options, double deadline_s, uint32_t gpus_max)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_set_service(kit, ESPL_MODEL, &the_model);
	espl_kit_experiment(kit)->deadline = (espl_time)(deadline_s * 1e9);
	espl_kit_experiment(kit)->gpus_min = 1;
	espl_kit_experiment(kit)->gpus_max = gpus_max;
	cr_assert_eq(espl_kit_open(kit, HYPERSCHED, options, &error), ESPL_OK, "%s", error.text);
	return kit;
}

static void
ask_at(struct espl_kit *kit, double now_s, uint32_t want)
{
	espl_kit_set_time(kit, (espl_time)(now_s * 1e9));
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, want), ESPL_OK);
	cr_assert_eq(espl_kit_refused(kit), 0, "%s", espl_kit_log(kit));
}

static int
says(const struct espl_kit *kit, const char *text)
{
	return strstr(espl_kit_log(kit), text) != NULL;
}

Test(hypersched, needs_a_deadline)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, HYPERSCHED, "iterations_max=16", &error), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(error.text, "deadline"));
	espl_kit_free(kit);
}

/* Rungs 1, 4, 16.  To the first rung it takes 5 + 10 s, to the second 5 + 40 s. */
Test(hypersched, stops_exploring)
{
	struct espl_kit *kit = opened("iterations_max=16 eta=4", 100, 1);
	uint64_t i;

	ask_at(kit, 0, 4);
	cr_assert_eq(espl_kit_trials(kit), 4);
	cr_assert(says(kit, "wake_at 85"), "%s", espl_kit_log(kit)); /* 100 - 15 */
	for (i = 0; i < 4; i++)
		espl_kit_end(kit, i, ESPL_END_BUDGET, (double)i);
	ask_at(kit, 15, 4); /* trial 0 is promoted, three new ones start */
	cr_assert(says(kit, "trial=0 continue budget=4"), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_trials(kit), 7);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 0.5);
	/* rung 2 is reached, and 45 s are left: just enough to follow */
	ask_at(kit, 55, 1);
	cr_assert_eq(espl_kit_trials(kit), 8);
	espl_kit_end(kit, 4, ESPL_END_BUDGET, 9);
	ask_at(kit, 55.001, 1); /* not any more */
	cr_assert_eq(espl_kit_trials(kit), 8);
	for (i = 5; i < 8; i++)
		espl_kit_end(kit, i, ESPL_END_BUDGET, 10 + (double)i);
	ask_at(kit, 60, 4); /* two of eight are the best 1/4 */
	cr_assert(says(kit, "trial=1 continue budget=4"), "%s", espl_kit_log(kit));
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 0.6);
	/* nobody is to be promoted: the best goes on all the same */
	ask_at(kit, 70, 4);
	cr_assert(says(kit, "trial=0 continue budget=16"), "%s", espl_kit_log(kit));
	cr_assert(!espl_kit_finished(kit));
	espl_kit_end(kit, 0, ESPL_END_FAILED, NAN);
	ask_at(kit, 99, 4); /* no time for a start and an iteration */
	cr_assert(espl_kit_finished(kit));
	espl_kit_free(kit);
}

/* A start of 5 s and the first iterations of 10 s each do not fit in: told before anything begins.
 */
Test(hypersched, a_deadline_too_short_for_anything)
{
	static const struct {
		double deadline;
		const char *options;
		int fits;
	} cases[] = { { 15, "iterations_max=16", 1 }, { 14.9, "iterations_max=16", 0 },
		{ 100, "iterations_min=9 iterations_max=16", 1 },
		{ 94, "iterations_min=9 iterations_max=16", 0 } };
	uint32_t i;

	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl_kit *kit = espl_kit_new(5);
		struct espl_error error;

		espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
		espl_kit_set_service(kit, ESPL_MODEL, &the_model);
		espl_kit_experiment(kit)->deadline = (espl_time)(cases[i].deadline * 1e9);
		cr_assert_eq(espl_kit_open(kit, HYPERSCHED, cases[i].options, &error),
		    cases[i].fits ? ESPL_OK : ESPL_E_INFEASIBLE, "case %u: %s", i, error.text);
		cr_assert(cases[i].fits ||
			strstr(error.text, "no trial can report before the deadline") != NULL,
		    "%s", error.text);
		espl_kit_free(kit);
	}
}

/* The best of the highest rung fails on its way: the next best goes on, and others as long as they
 * can get to the end. */
Test(hypersched, the_next_best_follows_a_failure)
{
	struct espl_kit *kit = opened("trials=3 iterations_max=16 eta=4", 1000, 1);
	uint64_t i;

	ask_at(kit, 0, 3);
	for (i = 0; i < 3; i++)
		espl_kit_end(kit, i, ESPL_END_BUDGET, 3 - (double)i);
	ask_at(kit, 15, 3);
	cr_assert(says(kit, "trial=2 continue budget=4"), "%s", espl_kit_log(kit));
	espl_kit_end(kit, 2, ESPL_END_FAILED, NAN);
	ask_at(kit, 30, 3);
	cr_assert(says(kit, "trial=1 continue budget=4"), "%s", espl_kit_log(kit));
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 2);
	ask_at(kit, 80, 3);
	cr_assert(says(kit, "trial=1 continue budget=16"), "%s", espl_kit_log(kit));
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 2);
	/* one has come to the end; there is time for another */
	ask_at(kit, 300, 3);
	cr_assert(says(kit, "trial=0 continue budget=4"), "%s", espl_kit_log(kit));
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 2);
	ask_at(kit, 876, 3); /* 12 iterations more would take 125 s */
	cr_assert(espl_kit_finished(kit));
	espl_kit_free(kit);
}

/* Two trials train on a GPU each, 40 s are left, and neither gets to its rung, 5 iterations away.
 * The better one would do 4 iterations; with the other's GPU, after a pause, (40 - pause) / 5: more
 * if the pause is less than 20 s. */
Test(hypersched, widens_the_best_if_it_is_worth_it)
{
	static const struct {
		double resize;
		int worth;
	} cases[] = { { 0, 1 }, { 19.9, 1 }, { 20.1, 0 } };
	uint32_t i;

	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl_kit *kit =
		    opened("trials=2 iterations_min=10 iterations_max=16 eta=2", 120, 3);

		resize_s = cases[i].resize;
		ask_at(kit, 0, 2);
		cr_assert_eq(espl_kit_trials(kit), 2);
		espl_kit_report(kit, 0, 5, 2);
		espl_kit_report(kit, 1, 5, 1);
		ask_at(kit, 80, 0);
		cr_assert_eq(says(kit, "hint trial=1"), cases[i].worth, "%s", espl_kit_log(kit));
		cr_assert_eq(says(kit, "verdict trial=0"), cases[i].worth, "%s", espl_kit_log(kit));
		cr_assert_eq(espl_kit_trial(kit, 0)->state,
		    cases[i].worth ? ESPL_TRIAL_ENDED : ESPL_TRIAL_RUNNING);
		espl_kit_free(kit);
	}
}

/* With 50 s left both get to their rung: nobody is stopped for the other. */
Test(hypersched, stops_nobody_who_gets_there)
{
	struct espl_kit *kit = opened("trials=2 iterations_min=10 iterations_max=16 eta=2", 120, 3);

	resize_s = 0;
	ask_at(kit, 0, 2);
	espl_kit_report(kit, 0, 5, 2);
	espl_kit_report(kit, 1, 5, 1);
	ask_at(kit, 70, 0);
	cr_assert_str_eq(espl_kit_log(kit), "");
	espl_kit_free(kit);
}

/* ---- whole searches ----------------------------------------------------------------------- */

static void
prepare(struct espl_kit *kit, void *ctx)
{
	(void)ctx;
	resize_s = 3;
	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_set_service(kit, ESPL_MODEL, &the_model);
	espl_kit_experiment(kit)->deadline = 400 * ESPL_SECOND;
	espl_kit_experiment(kit)->gpus_min = 1;
	espl_kit_experiment(kit)->gpus_max = 4;
}

static void
prepare_blind(struct espl_kit *kit, void *ctx)
{
	prepare(kit, ctx);
	espl_kit_set_service(kit, ESPL_MODEL, NULL);
}

Test(hypersched, any_sequence)
{
	struct play play = { .plugin = HYPERSCHED,
		.options = "iterations_max=64 eta=3",
		.prepare = prepare,
		.fails = 0.01,
		.itself = 0.01,
		.nans = 0.02 };

	play_seeds(&play, 500, NULL);
	play.options = "iterations_max=27 eta=3 trials=20";
	play.prepare = prepare_blind;
	play_seeds(&play, 500, NULL);
}
