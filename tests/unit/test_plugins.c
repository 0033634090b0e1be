/* test_plugins.c - the shipped algorithms through the test kit, as an author outside would. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "testkit.h"
#include "test_plugins.h"

static struct espl_kit *
with_space(uint64_t seed)
{
	struct espl_kit *kit = espl_kit_new(seed);

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	return kit;
}

/* Opens or fails the test. */
static struct espl_kit *
opened(const struct espl_plugin *plugin, const char *options)
{
	struct espl_kit *kit = with_space(7);
	struct espl_error error;

	cr_assert_eq(espl_kit_open(kit, plugin, options, &error), ESPL_OK, "%s", error.text);
	return kit;
}

static void
refused(const struct espl_plugin *plugin, const char *options, const char *text)
{
	struct espl_kit *kit = with_space(7);
	struct espl_error error;

	cr_assert_eq(espl_kit_open(kit, plugin, options, &error), ESPL_E_CONFIG, "%s", options);
	cr_assert_not_null(strstr(error.text, text), "'%s' does not say '%s'", error.text, text);
	espl_kit_free(kit);
}

static void
spec_is(const struct espl_plugin *plugin, const char *options, const char *stages)
{
	struct espl_kit *kit = opened(plugin, options);
	char wanted[2048] = "";
	size_t length = 0;
	unsigned trials, n = 0;
	unsigned long long iterations;
	int used;

	for (; sscanf(stages, " (%u,%llu)%n", &trials, &iterations, &used) == 2; stages += used) {
		length += (size_t)snprintf(wanted + length, sizeof wanted - length,
		    "spec bracket=0 stage=%u trials=%u iterations=%llu\n", n++, trials, iterations);
		cr_assert_lt(length, sizeof wanted);
	}
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), wanted, "%s", options);
	espl_kit_free(kit);
}

/* Worked by hand from the rule, and (incremental) RubberBand's table 3 and its like. */
Test(sha, rungs)
{
	const struct espl_plugin *sha = &algorithm_sha_LTX_espalier_plugin;

	spec_is(sha, "trials=27 iterations_max=27", "(27,1)(9,2)(3,6)(1,18)");
	spec_is(sha, "trials=32 iterations_max=50", "(32,1)(10,2)(3,6)(1,41)");
	spec_is(sha, "trials=9 iterations_min=2 iterations_max=5 eta=3", "(9,2)(3,3)");
	spec_is(sha, "trials=5 iterations_min=10 iterations_max=10", "(5,10)");
	spec_is(sha, "trials=1 iterations_max=5 eta=2", "(1,5)");
	spec_is(sha, "trials=32 iterations_max=50 rungs=incremental", "(32,1)(10,3)(3,9)(1,37)");
	spec_is(sha, "trials=64 iterations_min=4 iterations_max=508 eta=2 rungs=incremental",
	    "(64,4)(32,8)(16,16)(8,32)(4,64)(2,128)(1,256)");
	spec_is(sha, "trials=128 iterations_min=4 iterations_max=508 eta=2 rungs=incremental",
	    "(128,4)(64,8)(32,16)(16,32)(8,64)(4,128)(2,256)");
	spec_is(sha, "trials=1 iterations_max=5 eta=2 rungs=incremental", "(1,5)");
	spec_is(sha, "trials=5 iterations_min=10 iterations_max=10 eta=2 rungs=incremental",
	    "(5,10)");
	spec_is(sha, "trials=512 iterations_min=4 iterations_max=4096 eta=2 rungs=incremental",
	    "(512,4)(256,8)(128,16)(64,32)(32,64)(16,128)(8,256)(4,512)(2,1024)(1,2052)");
	spec_is(sha,
	    "trials=1000000 iterations_min=1000000000000 iterations_max=1000000000000 eta=1000000",
	    "(1000000,1000000000000)");
	refused(sha, "trials=9 iterations_max=9 iterations_min=10", "iterations_min");
	refused(sha, "iterations_max=9", "'trials' is missing");
	refused(sha, "trials=9 iterations_max=9 eta=1", "below its minimum");
	refused(sha, "trials=9 iterations_max=9 rungs=some", "cannot be some");
}

static double
distance(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	(void)ctx;
	return fabs(trial->values[0] - 0.5) + 1.0 / (double)iteration;
}

/* Ends the trials of a rung in the order given and tells its end. */
static void
end_rung(struct espl_kit *kit, uint64_t group, const uint64_t *ids, const double *losses,
    uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		cr_assert_eq(espl_kit_end(kit, ids[i],
				 isinf(losses[i]) ? ESPL_END_FAILED : ESPL_END_BUDGET, losses[i]),
		    ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, group, 9), ESPL_OK);
}

Test(sha, ranks_by_loss_then_id_whatever_the_order)
{
	static const uint64_t there[] = { 0, 1, 2, 3, 4, 5 }, back[] = { 5, 4, 3, 2, 1, 0 };
	static const double losses[] = { .3, .1, NAN, .1, .2, .9 };
	static const double turned[] = { .9, .2, .1, NAN, .1, .3 };
	const char *wanted =
	    "begin group=1 bracket=0 stage=1\n"
	    "add group=1 trial=1 continue budget=3\nadd group=1 trial=3 continue budget=3\n";
	static const uint64_t two[] = { 1, 3 };
	static const double good[] = { .2, .1 };
	int i;

	for (i = 0; i < 2; i++) {
		struct espl_kit *kit =
		    opened(&algorithm_sha_LTX_espalier_plugin, "trials=6 iterations_max=9");

		cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
		cr_assert_eq(espl_kit_trials(kit), 6);
		end_rung(kit, 0, i == 0 ? there : back, i == 0 ? losses : turned, 6);
		cr_assert_str_eq(espl_kit_log(kit), wanted);
		/* The others are kept until the rung above them is complete. */
		end_rung(kit, 1, two, good, 2);
		cr_assert_str_eq(espl_kit_log(kit),
		    "drop trial=4\ndrop trial=0\ndrop trial=5\ndrop trial=2\n"
		    "begin group=2 bracket=0 stage=2\nadd group=2 trial=3 continue budget=9\n");
		espl_kit_free(kit);
	}
}

Test(sha, promotes_the_next_best_in_place_of_one_that_fails)
{
	static const uint64_t all[] = { 0, 1, 2, 3, 4, 5 }, two[] = { 1, 3 }, one[] = { 4 },
			      next[] = { 0 };
	static const double losses[] = { .3, .1, .8, .15, .2, .9 };
	static const double fail_one[] = { INFINITY, .05 }, fail[] = { INFINITY }, good[] = { .2 };
	struct espl_kit *kit =
	    opened(&algorithm_sha_LTX_espalier_plugin, "trials=6 iterations_max=9");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	end_rung(kit, 0, all, losses, 6);
	end_rung(kit, 1, two, fail_one, 2);
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=2 bracket=0 stage=1\nadd group=2 trial=4 continue budget=3\n");
	end_rung(kit, 2, one, fail, 1); /* it fails as well */
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=3 bracket=0 stage=1\nadd group=3 trial=0 continue budget=3\n");
	end_rung(kit, 3, next, good, 1);
	cr_assert_str_eq(espl_kit_log(kit),
	    "drop trial=2\ndrop trial=5\n"
	    "begin group=4 bracket=0 stage=2\nadd group=4 trial=3 continue budget=9\n");
	end_rung(kit, 4, &two[1], fail, 1); /* the last rung */
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=5 bracket=0 stage=2\nadd group=5 trial=0 continue budget=9\n");
	end_rung(kit, 5, next, good, 1);
	cr_assert_str_eq(espl_kit_log(kit), "finish\n");
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);
}

Test(sha, goes_on_with_what_failures_leave)
{
	static const uint64_t ids[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
	/* An infinite loss stands for a failure here. */
	static const double losses[] = { INFINITY, INFINITY, NAN, INFINITY, INFINITY, INFINITY,
		INFINITY, .5, INFINITY };
	static const double last[] = { INFINITY, INFINITY };
	static const uint64_t two[] = { 7, 2 };
	struct espl_kit *kit =
	    opened(&algorithm_sha_LTX_espalier_plugin, "trials=9 iterations_max=9");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	end_rung(kit, 0, ids, losses, 9);
	cr_assert_str_eq(espl_kit_log(kit),
	    "begin group=1 bracket=0 stage=1\n"
	    "add group=1 trial=7 continue budget=3\nadd group=1 trial=2 continue budget=3\n");
	end_rung(kit, 1, two, last, 2);
	cr_assert_str_eq(espl_kit_log(kit), "finish\n");
	/* Nothing is asked for after that. */
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 5), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "finish\n");
	espl_kit_free(kit);
}

Test(sha, whole_searches_repeat)
{
	char *first = NULL;
	int i;

	for (i = 0; i < 2; i++) {
		static const double mine[] = { 0.5 };
		struct espl_kit *kit = with_space(3);

		espl_kit_first(kit, mine);
		cr_assert_eq(espl_kit_open(kit, &algorithm_sha_LTX_espalier_plugin,
				 "trials=27 iterations_max=27", NULL),
		    ESPL_OK);
		/* The number of trials at once must not matter to a synchronous search. */
		cr_assert_eq(espl_kit_search(kit, i == 0 ? 1 : 10, 10000, distance, NULL), ESPL_OK);
		cr_assert_eq(espl_kit_refused(kit), 0);
		cr_assert_eq(espl_kit_trials(kit), 27);
		/* The user's point is the best one there can be: it must have won. */
		cr_assert_eq(espl_kit_trial(kit, 0)->values[0], 0.5);
		cr_assert_eq(espl_kit_trial(kit, 0)->iteration, 27);
		if (i == 0)
			first = strdup(espl_kit_log(kit));
		else
			cr_assert_str_eq(espl_kit_log(kit), first);
		espl_kit_free(kit);
	}
	free(first);
}

Test(sha, a_hundred_thousand_trials)
{
	struct espl_kit *kit =
	    opened(&algorithm_sha_LTX_espalier_plugin, "trials=100000 iterations_max=81");
	uint64_t i;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1000), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 100000);
	for (i = 0; i < 100000; i++)
		cr_assert_eq(espl_kit_end(kit, i, ESPL_END_BUDGET, (double)(i * 7919 % 100000)),
		    ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 1000), ESPL_OK);
	/* One begin, and each promoted trial named once. */
	cr_assert_eq(espl_kit_calls(kit), 33334);
	cr_assert_eq(espl_kit_refused(kit), 0);
	cr_assert_eq(espl_kit_group_left(kit, 1, NULL), 33333);
	espl_kit_free(kit);
}

Test(stages, as_written)
{
	const struct espl_plugin *stages = &algorithm_stages_LTX_espalier_plugin;
	struct espl_kit *kit = opened(stages, "stages=(4,1)(2,2)");

	spec_is(stages, "stages=(32,1)(10,3)(3,9)(1,37)", "(32,1)(10,3)(3,9)(1,37)");
	spec_is(stages, "stages=(8,2)(8,2)(1,1)", "(8,2)(8,2)(1,1)");
	spec_is(stages, "stages=(4,1)(5,1)", "(4,1)(5,1)"); /* a wider one: newcomers join */
	refused(stages, "stages=", "at least one");
	refused(stages, "", "'stages' is missing");
	refused(stages, "stages=(4,0)", "below its minimum");
	cr_assert_eq(espl_kit_search(kit, 3, 100, distance, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_refused(kit), 0);
	cr_assert_eq(espl_kit_trials(kit), 4);
	espl_kit_free(kit);
}

Test(random, adds_what_there_is_room_for)
{
	static const double mine[] = { 0.125 };
	struct espl_kit *kit = with_space(11), *bare;

	espl_kit_first(kit, mine);
	cr_assert_eq(espl_kit_open(kit, &algorithm_random_LTX_espalier_plugin,
			 "trials=5 iterations_max=2", NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 2);
	cr_assert_eq(espl_kit_trial(kit, 0)->values[0], 0.125);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 0), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 2);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_CAPACITY, ESPL_NONE, 9), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 5);
	cr_assert(espl_kit_finished(kit));
	cr_assert_eq(espl_kit_refused(kit), 0);
	espl_kit_free(kit);

	/* Without an end of its own it takes the experiment's. */
	refused(&algorithm_random_LTX_espalier_plugin, "", "has no end");
	bare = with_space(1);
	espl_kit_experiment(bare)->deadline = 60 * ESPL_SECOND;
	cr_assert_eq(espl_kit_open(bare, &algorithm_random_LTX_espalier_plugin, "", NULL), ESPL_OK);
	cr_assert_eq(espl_kit_ask(bare, ESPL_ASK_START, ESPL_NONE, 0), ESPL_OK);
	cr_assert_eq(espl_kit_trials(bare), 1, "something must ask for the first GPU");
	cr_assert_eq(espl_kit_ask(bare, ESPL_ASK_CAPACITY, ESPL_NONE, 100), ESPL_OK);
	cr_assert_eq(espl_kit_trials(bare), 101);
	cr_assert_eq(espl_kit_spec(bare), ESPL_OK);
	cr_assert_null(strstr(espl_kit_log(bare), "spec"));
	espl_kit_free(bare);
}

/* x in 2 points, opt sgd or adam, momentum (4 levels) under sgd alone: 2 * (4 + 1). */
static struct espl_kit *
conditional(void)
{
	struct espl_kit *kit = with_space(1);

	espl_kit_choice(kit, "opt", "sgd|adam");
	espl_kit_real(kit, "momentum", 0, 0.9, ESPL_LINEAR, 0.3);
	espl_kit_when(kit, "opt", 0);
	espl_kit_int(kit, "layers", 1, 3, ESPL_LINEAR);
	return kit;
}

Test(grid, every_combination_once)
{
	const struct espl_plugin *grid = &algorithm_grid_LTX_espalier_plugin;
	struct espl_kit *kit = conditional();
	const struct espl_space *space = espl_kit_space(kit);
	double mine[] = { 1, 1, NAN, 2 }, other[] = { 0.3, 1, NAN, 2 };
	uint64_t i, k, count;

	espl_kit_first(kit, mine);  /* on the grid */
	espl_kit_first(kit, other); /* beside it */
	espl_kit_first(kit, mine);  /* twice */
	cr_assert_eq(espl_kit_open(kit, grid, "points=2", NULL), ESPL_OK);
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "spec bracket=0 stage=0 trials=31 iterations=1\n");
	cr_assert_eq(espl_kit_search(kit, 4, 1000, distance, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_refused(kit), 0);
	count = espl_kit_trials(kit);
	cr_assert_eq(count, 2 * (4 + 1) * 3 + 1);
	cr_assert_eq(espl_kit_trial(kit, 1)->values[0], 0.3);
	for (i = 0; i < count; i++)
		for (k = 0; k < i; k++)
			cr_assert_neq(space->hash(space, espl_kit_trial(kit, i)->values),
			    space->hash(space, espl_kit_trial(kit, k)->values));
	espl_kit_free(kit);

	/* Many whole numbers: as many as wanted, and both ends. */
	kit = espl_kit_new(1);
	espl_kit_int(kit, "hidden", 1, 1024, ESPL_LOG);
	cr_assert_eq(espl_kit_open(kit, grid, "levels_max=11", NULL), ESPL_OK);
	cr_assert_eq(espl_kit_search(kit, 4, 1000, distance, NULL), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 11);
	cr_assert_eq(espl_kit_trial(kit, 1)->values[0], 2);
	cr_assert_eq(espl_kit_trial(kit, 10)->values[0], 1024);
	espl_kit_free(kit);
}

Test(grid, refuses_what_nobody_can_train)
{
	struct espl_kit *kit = conditional();
	struct espl_error error;

	cr_assert_eq(espl_kit_open(kit, &algorithm_grid_LTX_espalier_plugin, "points=100000",
			 &error),
	    ESPL_E_CONFIG);
	cr_assert_not_null(strstr(error.text, "more than"));
	cr_assert_not_null(strstr(error.hint, "points"));
	espl_kit_free(kit);
	/* A space of constants alone is one configuration. */
	kit = espl_kit_new(1);
	cr_assert_eq(espl_kit_open(kit, &algorithm_grid_LTX_espalier_plugin, "", NULL), ESPL_OK);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 5), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 1);
	cr_assert(espl_kit_finished(kit));
	espl_kit_free(kit);
}

Test(kit, refuses_as_the_host_does)
{
	struct espl_kit *kit = opened(&algorithm_random_LTX_espalier_plugin, "trials=2");
	struct espl_error error;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
	espl_kit_free(kit);
	kit = with_space(1);
	cr_assert_eq(espl_kit_open(kit, &algorithm_random_LTX_espalier_plugin, "trails=2", &error),
	    ESPL_E_CONFIG);
	cr_assert_str_eq(error.text, "'trails' is not an option");
	cr_assert_eq(espl_kit_open(kit, &algorithm_random_LTX_espalier_plugin, "trials=two",
			 &error),
	    ESPL_E_CONFIG);
	cr_assert_eq(error.option, 0);
	cr_assert_null(espl_kit_load(kit, "./algorithm_nonesuch.so"));
	cr_assert_not_null(strstr(espl_kit_log(kit), "load: "));
	espl_kit_free(kit);
}

/* Two instances in one process must not know of each other. */
Test(contract, instances_are_independent)
{
	static const struct espl_plugin *const all[] = { &algorithm_random_LTX_espalier_plugin,
		&algorithm_sha_LTX_espalier_plugin };
	uint32_t i;

	for (i = 0; i < 2; i++) {
		const char *options = i == 0 ? "trials=6" : "trials=6 iterations_max=3";
		struct espl_kit *a = opened(all[i], options), *b = opened(all[i], options);
		struct espl_kit *c = opened(all[i], options);

		cr_assert_eq(espl_kit_search(a, 2, 100, distance, NULL), ESPL_OK);
		cr_assert_eq(espl_kit_ask(b, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
		cr_assert_eq(espl_kit_search(c, 2, 100, distance, NULL), ESPL_OK);
		cr_assert_str_eq(espl_kit_log(a), espl_kit_log(c));
		espl_kit_free(a);
		espl_kit_free(b);
		espl_kit_free(c);
	}
}
