/* test_algorithm_asha.c - ASHA: a sequence worked out by hand, and whole searches at random. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define ASHA (&algorithm_asha_LTX_espalier_plugin)

static struct espl_kit *
opened(const char *options)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, ASHA, options, &error), ESPL_OK, "%s", error.text);
	return kit;
}

static void
refused(const char *options, const char *text)
{
	struct espl_kit *kit = espl_kit_new(5);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(espl_kit_open(kit, ASHA, options, &error), ESPL_E_CONFIG, "%s", options);
	cr_assert_not_null(strstr(error.text, text), "'%s' does not say '%s'", error.text, text);
	espl_kit_free(kit);
}

Test(asha, options)
{
	refused("iterations_max=9", "has no end");
	refused("trials=9", "'iterations_max' is missing");
	refused("trials=9 iterations_max=9 iterations_min=10", "iterations_min");
	refused("trials=9 iterations_max=9 eta=3 brackets=4", "more than the number of rungs");
	espl_kit_free(opened("trials=9 iterations_max=9 eta=3 brackets=3"));
}

/* Ends a trial at its budget with this loss, asks for `want` trials, and compares what was said
 * with `wanted`, in which each new configuration is the word "fresh". */
static void
then(struct espl_kit *kit, uint64_t trial, double loss, uint32_t want, const char *wanted)
{
	char said[1024] = "", line[256];
	const char *log;
	int used;
	unsigned long long id, budget;

	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_end(kit, trial, ESPL_END_BUDGET, loss), ESPL_OK);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, want), ESPL_OK);
	for (log = espl_kit_log(kit); sscanf(log, "%255[^\n]%n", line, &used) == 1;
	     log += used + 1) {
		char *end = said + strlen(said);

		if (sscanf(line, "add group=0 trial=%llu continue budget=%llu", &id, &budget) == 2)
			(void)sprintf(end, " %llu>%llu", id, budget);
		else if (sscanf(line, "add group=0 trial=%llu fresh budget=%llu", &id, &budget) ==
		    2)
			(void)sprintf(end, " fresh");
		else
			(void)sprintf(end, " %.100s", line);
		cr_assert_lt(strlen(said), 800);
	}
	cr_assert_str_eq(said, wanted, "after trial %u", (unsigned)trial);
}

/* The paper's Algorithm 2 with eta = 3, r = 1, R = 9, by hand.  n / 3 of a rung, rounded down, may
 * go on. */
Test(asha, promotes_as_the_paper_says)
{
	struct espl_kit *kit = opened("trials=10 iterations_max=9 eta=3");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 9), ESPL_OK);
	cr_assert_eq(espl_kit_trials(kit), 9);
	then(kit, 0, .90, 0, "");
	then(kit, 1, .50, 0, "");
	then(kit, 2, .70, 1, " 1>3");   /* 3 results: the best one */
	then(kit, 3, .40, 1, " 3>3");   /* 4: still one, but now another */
	then(kit, 4, .60, 1, " fresh"); /* 5: nobody, so trial 9 begins */
	then(kit, 5, .80, 1, "");       /* 6: two, both gone on; no trials left */
	then(kit, 6, .45, 1, " 6>3");   /* 7: 3 and 6; that 1 went on was a mistake */
	then(kit, 1, .30, 0, "");
	then(kit, 3, .35, 0, "");
	then(kit, 6, .35, 1, " 1>9");     /* rung 1 has 3: the best is 1 */
	then(kit, 7, .40, 0, "");         /* ties with 3, which is first by id */
	then(kit, 8, .10, 3, " 8>3 7>3"); /* 9: 8, 3, 7: by rank, not by arrival */
	then(kit, 8, .50, 0, "");
	then(kit, 7, .20, 1, " 7>9"); /* rung 1 has 5, still one: 7 now */
	then(kit, 9, .95, 1, "");
	then(kit, 1, .20, 1, "");
	then(kit, 7, .10, 1, " finish");
	espl_kit_free(kit);
}

/* Too few for anybody to be promoted: the best goes on to the end all the same, or if it fails, the
 * next one. */
Test(asha, few_trials_come_to_the_end)
{
	struct espl_kit *kit = opened("trials=2 iterations_max=9 eta=3");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
	then(kit, 0, .50, 1, "");
	then(kit, 1, .40, 2, " 1>3");
	then(kit, 1, .90, 2, " 1>9");
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_end(kit, 1, ESPL_END_FAILED, NAN), ESPL_OK);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 2), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "add group=0 trial=0 continue budget=3\n");
	then(kit, 0, .60, 2, " 0>9");
	then(kit, 0, .60, 2, " finish");
	espl_kit_free(kit);

	kit = opened("trials=2 iterations_max=9 eta=3 to_end=false");
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
	then(kit, 0, .50, 1, "");
	then(kit, 1, .40, 2, " finish");
	espl_kit_free(kit);

	/* Nobody has a number. */
	kit = opened("trials=2 iterations_max=9 eta=3");
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2), ESPL_OK);
	then(kit, 0, NAN, 1, " drop trial=0");
	then(kit, 1, NAN, 2, " drop trial=1 finish");
	espl_kit_free(kit);
}

/* Of several brackets it is the best of those that trained furthest. */
Test(asha, few_trials_in_brackets)
{
	struct espl_kit *kit = opened("trials=3 iterations_max=9 eta=3 brackets=2");
	uint64_t i, other = ESPL_NONE;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 3), ESPL_OK);
	for (i = 0; i < 3; i++)
		if (espl_kit_trial(kit, i)->budget == 3)
			other = i;
	cr_assert_neq(other, ESPL_NONE);
	for (i = 0; i < 3; i++)
		cr_assert_eq(espl_kit_end(kit, i, ESPL_END_BUDGET, i == other ? 9 : 1), ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 1), ESPL_OK);
	cr_assert_eq(espl_kit_trial(kit, other)->budget, 9);
	then(kit, other, 8, 1, " finish");
	espl_kit_free(kit);
}

/* The highest rung is served first, whatever lies below. */
Test(asha, highest_rung_first)
{
	struct espl_kit *kit = opened("trials=12 iterations_max=9 eta=3");
	uint64_t i;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 12), ESPL_OK);
	for (i = 0; i < 9; i++)
		cr_assert_eq(espl_kit_end(kit, i, ESPL_END_BUDGET, (double)i), ESPL_OK);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 3), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit),
	    "add group=0 trial=0 continue budget=3\n"
	    "add group=0 trial=1 continue budget=3\nadd group=0 trial=2 continue budget=3\n");
	for (i = 9; i < 12; i++)
		cr_assert_eq(espl_kit_end(kit, i, ESPL_END_BUDGET, -(double)i), ESPL_OK);
	for (i = 0; i < 2; i++)
		cr_assert_eq(espl_kit_end(kit, i, ESPL_END_BUDGET, 5), ESPL_OK);
	then(kit, 2, 4, 5, " 2>9 11>3 10>3 9>3");
	espl_kit_free(kit);
}

Test(asha, failures_and_nan_rank_last)
{
	struct espl_kit *kit = opened("trials=7 iterations_max=3 eta=3");
	uint64_t i;

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 7), ESPL_OK);
	then(kit, 0, NAN, 1, " drop trial=0"); /* never to come back: its checkpoints may go */
	cr_assert_eq(espl_kit_end(kit, 1, ESPL_END_FAILED, NAN), ESPL_OK);
	then(kit, 2, 9.0, 1, " 2>3"); /* the best of three */
	cr_assert_eq(espl_kit_end(kit, 3, ESPL_END_ITSELF, 1.0), ESPL_OK);
	for (i = 4; i < 6; i++)
		cr_assert_eq(espl_kit_end(kit, i, ESPL_END_STOPPED, .1), ESPL_OK);
	/* Of five results the complete one is the best, and cannot go on; the stopped ones have
	 * none. */
	then(kit, 6, 2.0, 5, "");
	then(kit, 2, 8.0, 5, " finish");
	espl_kit_free(kit);
}

/* One iteration of a trial; 1 if it was stopped. */
static int
stops(struct espl_kit *kit, uint64_t trial, uint64_t iteration, double loss)
{
	cr_assert_eq(espl_kit_report(kit, trial, iteration, loss), ESPL_OK);
	return espl_kit_trial(kit, trial)->state == ESPL_TRIAL_ENDED;
}

Test(asha, stopping_keeps_the_best_of_those_before)
{
	struct espl_kit *kit = opened("trials=20 iterations_max=9 mode=stopping");

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 20), ESPL_OK);
	cr_assert_eq(espl_kit_trial(kit, 0)->budget, 9);
	cr_assert(!stops(kit, 0, 1, .5));  /* the first: 1 of 1 */
	cr_assert(stops(kit, 1, 1, .6));   /* 2nd of 2 */
	cr_assert(!stops(kit, 2, 1, .4));  /* 1st of 3 */
	cr_assert(!stops(kit, 3, 1, .45)); /* 2nd of 4: ceil(4/3) = 2 */
	cr_assert(stops(kit, 4, 1, .49));  /* 3rd of 5 */
	cr_assert(stops(kit, 5, 1, NAN));
	cr_assert(!stops(kit, 0, 2, .9)); /* between rungs nothing is cut */
	cr_assert(!stops(kit, 0, 3, .9));
	cr_assert(!stops(kit, 2, 2, .4));
	cr_assert(stops(kit, 2, 3, .95));
	cr_assert(!stops(kit, 6, 4, .1)); /* skipped two rungs: best at both */
	cr_assert(!stops(kit, 7, 4, .2)); /* 2nd of 8, and 2nd of 4 */
	cr_assert(stops(kit, 8, 4, .3));  /* 3rd of 9, but 3rd of 5 */
	espl_kit_free(kit);
}

/* ---- whole searches ----------------------------------------------------------------------- */

struct seen {
	double loss;
	uint64_t trial;
	int nan;
};

static int
seen_order(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->nan != y->nan)
		return x->nan - y->nan;
	if (!x->nan && x->loss != y->loss)
		return x->loss < y->loss ? -1 : 1;
	return x->trial < y->trial ? -1 : x->trial > y->trial;
}

/* What the rung at `until` saw in the end, worked out from the trials alone: those that came to it,
 * and those that failed after `before` and so count as the last ones. */
static uint32_t
gather(const struct play *play, uint64_t before, uint64_t until, struct seen *list)
{
	uint32_t count = 0;
	uint64_t id;

	for (id = 0; id < play->trials; id++) {
		const struct espl_trial *trial = espl_kit_trial(play->kit, id);
		int failed = trial->state == ESPL_TRIAL_FAILED && trial->budget == until;
		int complete = trial->state == ESPL_TRIAL_ENDED && trial->iteration < until &&
		    trial->iteration > before && trial->budget == until;

		if (trial->iteration < until && !failed && !complete)
			continue;
		list[count].trial = id;
		list[count].loss =
		    play_loss((void *)(uintptr_t)play, trial, complete ? trial->iteration : until);
		list[count].nan = failed ||
		    play_chance(play->fate, id, complete ? trial->iteration : until, 4) <
			play->nans;
		count++;
	}
	qsort(list, count, sizeof *list, seen_order);
	return count;
}

/* Nobody is starved: when the search is over, all of the best third of every rung have gone on. */
static void
nobody_starved(struct play *play, uint64_t seed)
{
	static const uint64_t levels[] = { 0, 1, 3, 9, 27 };
	struct seen *list = calloc(play->trials, sizeof *list);
	uint32_t k, i, count;

	cr_assert_not_null(list);
	cr_assert_eq(play->trials, 40);
	for (k = 1; k < 4; k++) {
		count = gather(play, levels[k - 1], levels[k], list);
		for (i = 0; i < count / 3; i++) {
			const struct espl_trial *trial = espl_kit_trial(play->kit, list[i].trial);

			cr_assert(list[i].nan || trial->budget > levels[k] ||
				trial->state == ESPL_TRIAL_ENDED,
			    "seed %u: trial %u is number %u of %u at %u and rests", (unsigned)seed,
			    (unsigned)trial->id, i + 1, count, (unsigned)levels[k]);
		}
	}
	free(list);
}

/* No line "add ... continue" comes twice. */
static void
nobody_twice(struct play *play)
{
	const char *log = espl_kit_log(play->kit);
	char line[256];
	int used;

	for (; sscanf(log, "%255[^\n]%n", line, &used) == 1; log += used + 1)
		cr_assert(strstr(line, "continue") == NULL || strstr(log + used, line) == NULL,
		    "%s", line);
}

static void
check_promotion(struct play *play, uint64_t seed)
{
	nobody_starved(play, seed);
	nobody_twice(play);
	cr_assert_eq(play->stopped + play->paused, 0);
}

Test(asha, a_thousand_searches)
{
	struct play play = { .plugin = ASHA,
		.options = "trials=40 iterations_max=27",
		.fails = .03,
		.itself = .02,
		.nans = .05 };

	play_seeds(&play, 1000, check_promotion);
}

static void
check_count(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 30);
}

Test(asha, a_thousand_searches_with_brackets)
{
	struct play play = { .plugin = ASHA,
		.options = "trials=30 iterations_max=20 eta=2 brackets=3",
		.fails = .03,
		.itself = .02,
		.nans = .05 };

	play_seeds(&play, 1000, check_count);
}

/* Somebody is trained to the end, or says to be complete on the last stretch, unless nobody is left
 * that could. */
static void
check_end(struct play *play, uint64_t seed)
{
	uint64_t id, rests = 0, ended = 0;

	for (id = 0; id < play->trials; id++) {
		const struct espl_trial *trial = espl_kit_trial(play->kit, id);

		rests +=
		    trial->state == ESPL_TRIAL_PAUSED && trial->budget < 27 && !isnan(trial->loss);
		ended +=
		    trial->state != ESPL_TRIAL_FAILED && trial->budget == 27 && !isnan(trial->loss);
	}
	cr_assert(rests == 0 || ended > 0, "seed %u: %u rest", (unsigned)seed, (unsigned)rests);
	nobody_twice(play);
}

Test(asha, a_thousand_small_searches)
{
	struct play play = { .plugin = ASHA,
		.options = "trials=5 iterations_max=27",
		.fails = .03,
		.itself = .02,
		.nans = .05 };

	play_seeds(&play, 1000, check_end);
	play.options = "trials=7 iterations_max=27 brackets=3";
	play_seeds(&play, 300, check_end);
}

/* Every trial ends: at the last rung, stopped, failed or complete. */
static void
check_stopping(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 30);
	cr_assert_eq(play->reached + play->stopped + play->failed + play->complete, 30);
	cr_assert(play->failed > 0 || play->complete > 0 || play->reached > 0);
	cr_assert_eq(play_reached(play, 27), play->reached);
}

Test(asha, a_thousand_stopping_searches)
{
	struct play play = { .plugin = ASHA,
		.options = "trials=30 iterations_max=27 mode=stopping",
		.fails = .03,
		.itself = .02,
		.nans = .05 };

	play_seeds(&play, 1000, check_stopping);
	play.options = "trials=30 iterations_max=27 mode=stopping brackets=3";
	play_seeds(&play, 200, check_stopping);
}

Test(asha, without_end)
{
	struct play play = { .plugin = ASHA,
		.options = "iterations_max=9",
		.endless = 1,
		.events = 3000,
		.fails = .02 };
	struct play first = play;

	play_seeds(&play, 20, NULL);
	first.slots = 4;
	play_run(&first);
	cr_assert_eq(first.most, 4);
	/* About a third is promoted from each rung. */
	cr_assert_gt(play_reached(&first, 3) * 4, play_reached(&first, 1));
	cr_assert_gt(play_reached(&first, 9) * 16, play_reached(&first, 1));
	play_end(&first);
}

/* New configurations go to the brackets in Hyperband's proportions: 9 : 4.5 : 3, one at a time. */
Test(asha, brackets_in_proportion)
{
	struct espl_kit *kit = opened("trials=11 iterations_max=9 brackets=3");
	uint64_t i, begun[3] = { 0, 0, 0 };

	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 11), ESPL_OK);
	for (i = 0; i < 11; i++)
		begun[espl_kit_trial(kit, i)->budget == 1     ? 0
			: espl_kit_trial(kit, i)->budget == 3 ? 1
							      : 2]++;
	cr_assert(begun[0] == 6 && begun[1] == 3 && begun[2] == 2, "%u %u %u", (unsigned)begun[0],
	    (unsigned)begun[1], (unsigned)begun[2]);
	espl_kit_free(kit);
}
