/* test_algorithm_pbt.c - population based training: partners worked out by hand, and whole searches
 * at random. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define PBT (&algorithm_pbt_LTX_espalier_plugin)

static struct espl_kit *
opened(const char *options)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, PBT, options, &error), ESPL_OK, "%s", error.text);
	return kit;
}

static void
refused(const char *options, const char *text, uint32_t flags)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_experiment(kit)->flags = flags;
	cr_assert_eq(espl_kit_open(kit, PBT, options, &error), ESPL_E_CONFIG, "%s", options);
	cr_assert_not_null(strstr(error.text, text), "'%s' does not say '%s'", error.text, text);
	espl_kit_free(kit);
}

Test(pbt, options)
{
	refused("interval=5", "'iterations_max' is missing", 0);
	refused("iterations_max=9 interval=9", "less than", 0);
	refused("iterations_max=9 interval=3 populations=0", "has no end", 0);
	refused("iterations_max=9 interval=3", "trial.checkpoint", ESPL_EXPERIMENT_NO_SAVE);
	espl_kit_free(opened("iterations_max=9 interval=3"));
}

static double
x_of(const struct espl_kit *kit, uint64_t trial)
{
	return espl_kit_trial(kit, trial)->values[0];
}

/* The trial is a clone of `parent`, and its x one of the two near the parent's. */
static void
is_clone(const struct espl_kit *kit, uint64_t trial, uint64_t parent, uint64_t iteration)
{
	double x = x_of(kit, trial), near = x_of(kit, parent);

	cr_assert_eq(espl_kit_trial(kit, trial)->parent, parent, "trial %" PRIu64 " is of %" PRIu64,
	    trial, espl_kit_trial(kit, trial)->parent);
	cr_assert_eq(espl_kit_trial(kit, trial)->iteration, iteration);
	cr_assert(fabs(x - 0.8 * near) < 1e-12 || fabs(x - fmin(1.0, 1.2 * near)) < 1e-12,
	    "%g near %g", x, near);
}

#define NEAR " resample=0 perturb_down=0.8 perturb_up=1.2"

/* 8 members, quantile 1/4: the two worst take from the two best. */
Test(pbt, truncation_by_hand)
{
	static const double losses[8] = { 5, 1, 9, 4, 2, 8, 7, 6 }; /* best 1, 4; worst 2, 5 */
	struct espl_kit *kit =
	    opened("population=8 iterations_max=6 interval=2 mode=sync quantile=0.25" NEAR);
	uint64_t i, of_a, of_b;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 8), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 8);
	for (i = 0; i < 8; i++)
		cr_assert_eq(espl_kit_end(kit, 7 - i, ESPL_END_BUDGET, losses[7 - i]), ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, 0, 8), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 10);
	of_a = espl_kit_trial(kit, 8)->parent;
	of_b = espl_kit_trial(kit, 9)->parent;
	cr_assert((of_a == 1 || of_a == 4) && (of_b == 1 || of_b == 4));
	is_clone(kit, 8, of_a, 2);
	is_clone(kit, 9, of_b, 2);
	cr_assert_eq(espl_kit_trial(kit, 8)->tag, 2); /* the worst comes first */
	cr_assert_eq(espl_kit_trial(kit, 9)->tag, 5);
	cr_assert_not_null(strstr(espl_kit_log(kit), "drop trial=2"));
	cr_assert_not_null(strstr(espl_kit_log(kit), "drop trial=5"));
	for (i = 0; i < 10; i++)
		cr_assert_eq(espl_kit_trial(kit, i)->budget, i == 2 || i == 5 ? 2 : 4);
	espl_kit_free(kit);
}

/* NaN is always replaced, and so is one that failed, whatever the quantile; never by one that has
 * no loss. */
Test(pbt, nan_and_failed)
{
	struct espl_kit *kit =
	    opened("population=4 iterations_max=6 interval=2 mode=sync quantile=0" NEAR);
	uint64_t id;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 4), ESPL_OK);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, NAN);
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 3);
	espl_kit_end(kit, 2, ESPL_END_FAILED, NAN);
	espl_kit_end(kit, 3, ESPL_END_BUDGET, 2);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, 0, 4), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 6);
	for (id = 4; id < 6; id++)
		is_clone(kit, id, 3, 2);
	cr_assert_eq(espl_kit_trial(kit, 4)->tag, 2);
	cr_assert_eq(espl_kit_trial(kit, 5)->tag, 0);
	cr_assert_eq(espl_kit_trial(kit, 1)->budget, 4);
	espl_kit_free(kit);
}

/* Two members: each meets the other, and the worse one takes its weights. */
Test(pbt, tournament_by_hand)
{
	struct espl_kit *kit =
	    opened("population=2 iterations_max=6 interval=2 mode=sync exploit=tournament" NEAR);

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 4), ESPL_OK);
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 2);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 1);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, 0, 4), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 3);
	is_clone(kit, 2, 0, 2);
	espl_kit_end(kit, 2, ESPL_END_BUDGET, 0.5);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 0.5); /* a tie: the older one stays */
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, 1, 4), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 4);
	is_clone(kit, 3, 0, 4);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 0.5);
	espl_kit_end(kit, 3, ESPL_END_BUDGET, 0.5);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, 2, 4), ESPL_OK);
	cr_assert(espl_kit_finished(kit));
	espl_kit_free(kit);
}

/* Four members are looked at 0, 1, 2 and 3 iterations after the fourth. */
Test(pbt, async_by_hand)
{
	struct espl_kit *kit =
	    opened("population=4 iterations_max=20 interval=4 quantile=0.25" NEAR);
	uint64_t id, iteration;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 4), ESPL_OK);
	for (iteration = 1; iteration <= 5; iteration++) {
		espl_kit_clear(kit);
		for (id = 4; id-- > 0;)
			cr_assert_eq(espl_kit_report(kit, id, iteration, 10.0 - (double)id),
			    ESPL_OK);
		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 0), ESPL_OK);
		if (iteration < 4)
			cr_assert_str_eq(espl_kit_log(kit), "");
		if (iteration == 4) { /* nobody to compare with */
			cr_assert_not_null(strstr(espl_kit_log(kit), "verdict trial=0"));
			cr_assert_eq(espl_kit_trials(kit), 4);
		}
	}
	/* At 5 member 1 came, which is better than member 0; that is looked at again at 8. */
	cr_assert_eq(espl_kit_trials(kit), 4);
	for (; iteration <= 8; iteration++) {
		espl_kit_clear(kit);
		for (id = 0; id < 4; id++)
			cr_assert_eq(espl_kit_report(kit, id, iteration, 10.0 - (double)id),
			    ESPL_OK);
		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 0), ESPL_OK);
		cr_assert_eq(espl_kit_trials(kit), iteration < 8 ? 4 : 5);
	}
	/* The best is member 3, as it was saved at its last look. */
	is_clone(kit, 4, 3, 7);
	cr_assert_eq(espl_kit_trial(kit, 4)->tag, 0);
	cr_assert_not_null(strstr(espl_kit_log(kit), "verdict trial=0"));
	cr_assert_eq(espl_kit_trial(kit, 0)->state, ESPL_TRIAL_ENDED);
	espl_kit_free(kit);
}

/* Each kind of parameter, perturbed upwards only. */
Test(pbt, explore)
{
	static const double first[] = { 0.5, 10, 2, 1, 0.9, 0.95 },
			    second[] = { 0.1, 1, 0, 0, 0.5, 0.2 };
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;
	const double *values;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_int(kit, "n", 1, 100, ESPL_LOG);
	espl_kit_int(kit, "small", 0, 5, ESPL_LINEAR);
	espl_kit_choice(kit, "k", "a|b|c");
	espl_kit_real(kit, "momentum", 0.5, 0.99, ESPL_REVERSE_LOG, 0);
	espl_kit_real(kit, "stepped", 0.2, 1.0, ESPL_LINEAR, 0.25);
	espl_kit_first(kit, first);
	espl_kit_first(kit, second);
	cr_assert_eq(espl_kit_open(kit, PBT,
			 "population=2 iterations_max=4 interval=2 mode=sync quantile=0.5 "
			 "resample=0 perturb_down=1 perturb_up=1.2",
			 &error),
	    ESPL_OK, "%s", error.text);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 1);
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 2);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 2), ESPL_OK, "%s", espl_kit_log(kit));
	values = espl_kit_trial(kit, 2)->values;
	cr_assert(values[0] == 0.5 || values[0] == 0.6);
	cr_assert(values[1] == 11 || values[1] == 12, "%g", values[1]); /* a step at least */
	cr_assert(values[2] == 3, "%g", values[2]);
	cr_assert_eq(values[3], 1);
	cr_assert(fabs(values[4] - 0.9) < 1e-12 || fabs(values[4] - (1.49 - 0.59 * 1.2)) < 1e-12,
	    "%g", values[4]);
	espl_kit_free(kit);
}

/* ---- whole searches ----------------------------------------------------------------------- */

static void
all_trained(struct play *play, uint64_t seed)
{
	uint64_t id, fresh = 0;

	(void)seed;
	for (id = 0; id < play->trials; id++) {
		const struct espl_trial *trial = espl_kit_trial(play->kit, id);

		fresh += trial->parent == ESPL_NONE;
		cr_assert(trial->state == ESPL_TRIAL_PAUSED || trial->state == ESPL_TRIAL_ENDED ||
		    trial->state == ESPL_TRIAL_FAILED);
		cr_assert(trial->iteration <= 20);
	}
	cr_assert(fresh >= 12);
}

Test(pbt, any_sequence)
{
	struct play play = { .plugin = PBT,
		.options = "population=6 populations=2 iterations_max=20 interval=5",
		.fails = 0.01,
		.itself = 0.003,
		.nans = 0.02 };

	play_seeds(&play, 500, all_trained);
	play.options =
	    "population=6 populations=2 iterations_max=20 interval=3 mode=sync exploit=tournament";
	play_seeds(&play, 500, all_trained);
	play.options = "population=6 populations=2 iterations_max=20 interval=7 exploit=tournament";
	play_seeds(&play, 250, all_trained);
	play.options = "population=6 populations=2 iterations_max=20 interval=6 mode=sync";
	play_seeds(&play, 250, all_trained);
}

Test(pbt, nothing_works)
{
	struct play play = { .plugin = PBT,
		.options = "population=6 iterations_max=20 interval=5",
		.fails = 1 };

	play_seeds(&play, 20, NULL);
	play.options = "population=6 iterations_max=20 interval=5 mode=sync";
	play_seeds(&play, 20, NULL);
	play.fails = 0;
	play.nans = 1;
	play_seeds(&play, 20, NULL);
}

Test(pbt, sync_does_not_depend_on_arrival)
{
	struct play play = { .plugin = PBT,
		.options = "population=6 populations=2 iterations_max=20 interval=5 mode=sync",
		.fails = 0.01,
		.itself = 0.003,
		.nans = 0.02 };

	play_orders(&play, 500);
	play.options = "population=7 iterations_max=20 interval=3 mode=sync exploit=tournament";
	play_orders(&play, 500);
}
