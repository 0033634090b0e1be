/* test_algorithm_replay.c - a schedule read and trained along; schedules that are wrong. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define REPLAY (&algorithm_replay_LTX_espalier_plugin)

static void
space(struct espl_kit *kit)
{
	espl_kit_real(kit, "lr", 1e-4, 1, ESPL_LOG, 0);
	espl_kit_choice(kit, "opt", "sgd|adam, \"new\"");
	espl_kit_real(kit, "momentum", 0, 1, ESPL_LINEAR, 0);
	espl_kit_when(kit, "opt", 0);
}

static espl_status
open_it(struct espl_kit *kit, const char *text, struct espl_error *error)
{
	space(kit);
	espl_kit_set_file(kit, 0, ESPL_ANY, ESPL_ANY, text, strlen(text));
	return espl_kit_open(kit, REPLAY, "schedule=table", error);
}

static void
refused(const char *text, const char *why)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	cr_assert_eq(open_it(kit, text, &error), ESPL_E_CONFIG, "%s", text);
	cr_assert_not_null(strstr(error.text, why), "'%s' does not say '%s'", error.text, why);
	cr_assert_eq(error.option, 0);
	espl_kit_free(kit);
}

#define HEAD "from,until,momentum,opt,lr\n"

Test(replay, walks_the_table)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	cr_assert_eq(open_it(kit,
			 "from,until,momentum,width,opt,lr\n0,4,0.5,8,sgd,1e-2\r\n4,10,,8,\"adam, "
			 "\"\"new\"\"\",0.5\n10,11,0.25,8,sgd,0.5",
			 &error),
	    ESPL_OK, "%s", error.text);
	cr_assert_eq(espl_kit_spec(kit), ESPL_OK);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 0), ESPL_OK);
	espl_kit_end(kit, 0, ESPL_END_BUDGET, 1);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 1); /* the barrier has not passed */
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 2);
	cr_assert_eq(espl_kit_trial(kit, 1)->parent, 0);
	cr_assert_eq(espl_kit_trial(kit, 1)->iteration, 4);
	cr_assert_eq(espl_kit_trial(kit, 1)->budget, 10);
	cr_assert_eq(espl_kit_trial(kit, 1)->values[1], 1);
	cr_assert(isnan(espl_kit_trial(kit, 1)->values[2]));
	espl_kit_end(kit, 1, ESPL_END_BUDGET, 1);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 1, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trial(kit, 2)->parent, 1);
	espl_kit_end(kit, 2, ESPL_END_BUDGET, 1);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 2, 1), ESPL_OK);
	cr_assert(espl_kit_finished(kit));
	cr_assert_eq(espl_kit_refused(kit), 0, "%s", espl_kit_log(kit));
	espl_kit_free(kit);
}

Test(replay, a_failure_ends_it)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	cr_assert_eq(open_it(kit, HEAD "0,4,0.5,sgd,0.01\n4,10,0.5,sgd,0.5\n", &error), ESPL_OK,
	    "%s", error.text);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	espl_kit_end(kit, 0, ESPL_END_FAILED, NAN);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_GROUP, 0, 1), ESPL_OK);
	cr_assert(espl_kit_finished(kit));
	cr_assert_eq(espl_kit_trials(kit), 1);
	espl_kit_free(kit);
}

Test(replay, wrong_schedules)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	space(kit);
	espl_kit_set_file(kit, 0, ESPL_ANY, ESPL_ANY, HEAD "0,4,0.5,sgd,0.01\n",
	    sizeof HEAD "0,4,0.5,sgd,0.01\n" - 1);
	cr_assert_eq(espl_kit_open(kit, REPLAY, "schedule=table iterations_max=3", &error),
	    ESPL_E_CONFIG);
	cr_assert_eq(error.option, 1);
	espl_kit_free(kit);
	refused("", "line 1: the first columns must be");
	refused("until,from\n", "line 1: the first columns must be");
	refused("from,until,lr,opt\n", "table line 1: there is no column for parameter 'momentum'");
	refused("from,until,lr,opt,beta\n", "there is no column for parameter 'momentum'");
	refused("from,until,lr,opt,momentum,beta\n0,4,1,sgd,0.5,1\n4,6,1,sgd,0.5,2\n",
	    "table line 3, column 'beta': its value changes");
	refused("from,until,lr,opt,lr\n", "line 1, column 'lr': the column is repeated");
	refused("from,until,lr,opt,momentum,lr\n", "column 'lr': the column is repeated");
	refused("from\n", "line 1: the first columns must be");
	refused(HEAD, "the schedule is empty");
	refused(HEAD "0,4,0.5,sgd\n", "line 2: the line has fewer cells");
	refused(HEAD "0,4,0.5,sgd,1,2\n", "more cells");
	refused(HEAD "1,4,0.5,sgd,1\n", "it goes from 1 until 4; it must begin at 0");
	refused(HEAD "0,4,0.5,sgd,1\n5,6,0.5,sgd,1\n",
	    "line 3: it goes from 5 until 6; it must begin at 4");
	refused(HEAD "0,4,0.5,sgd,1\n4,4,0.5,sgd,1\n", "line 3");
	refused(HEAD "0,x,0.5,sgd,1\n",
	    "line 2, column 'until': it must be a number of iterations");
	refused(HEAD "0,-3,0.5,sgd,1\n", "number of iterations");
	refused(HEAD "0,4,0.5,lbfgs,1\n", "column 'opt': 'lbfgs' is not a value of the parameter");
	refused(HEAD "0,4,0.5,sgd,1x\n", "column 'lr': '1x' is not a number");
	refused(HEAD "0,4,0.5,sgd,2\n", "column 'lr': the value is out of");
	refused(HEAD "0,4,,sgd,1\n", "column 'momentum': the cell is empty");
	refused(HEAD "0,4,0.5,\"adam, \"\"new\"\"\",1\n",
	    "column 'momentum': the cell must be empty");
	refused(HEAD "0,4,0.5,\"sgd,1\n", "unterminated quote");
}

static void
prepare(struct espl_kit *kit, void *ctx)
{
	space(kit);
	espl_kit_set_file(kit, 0, ESPL_ANY, ESPL_ANY, ctx, strlen(ctx));
}

Test(replay, any_sequence)
{
	static char table[] = HEAD "0,4,0.5,sgd,0.01\n4,10,0.5,sgd,0.5\n10,17,0.25,sgd,0.5\n";
	struct play play = { .plugin = REPLAY,
		.options = "schedule=table",
		.prepare = prepare,
		.ctx = table,
		.loss = NULL,
		.fails = 0.01,
		.itself = 0.01,
		.nans = 0.05 };
	uint64_t seed;

	for (seed = 1; seed <= 1000; seed++) {
		play.fate = play.seed = play.order = seed;
		play_run(&play);
		cr_assert(play.trials <= 3);
		play_end(&play);
		play.iterations = play.failed = play.complete = play.reached = 0;
	}
}
