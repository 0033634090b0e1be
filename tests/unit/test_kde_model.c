/* test_kde_model.c - which observations make the model of bohb and tpe, at which budget, and poor
 * data. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "test_kde.h"

/* ---- what is good and what is bad --------------------------------------------------------- */

/* A model of x and y in [0, 1]: rows observed at budget 1 with the losses 0, 1, 2, ... */
static void
open_square(struct kde *kde, struct stage *stage, const struct kde_setup *setup)
{
	test_stage(stage, 3);
	espl_kit_real(stage->kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_real(stage->kit, "y", 0, 1, ESPL_LINEAR, 0);
	test_open(kde, stage, setup);
}

static void
feed(struct kde *kde, uint64_t budget, uint32_t from, uint32_t until)
{
	double values[2] = { 0, 0.5 };

	for (; from < until; from++) {
		values[0] = from % 64 / 64.0;
		test_observe(kde, budget, from, from, values);
	}
}

/* As in HpBandSter: parameters + 1 good ones and as many bad ones, later 15 and 85 percent, rounded
 * down. */
Test(kde, split)
{
	static const uint32_t all[][3] = { /* observations, good, bad; 0: no model */
		{ 5, 0, 0 }, { 6, 3, 3 }, { 7, 3, 4 }, { 26, 3, 22 }, { 27, 4, 22 }, { 40, 6, 34 },
		{ 100, 15, 85 }, { 101, 15, 85 }, { 119, 17, 101 }
	};
	struct stage stage;
	struct kde kde;
	uint32_t n = 0;
	size_t i;

	open_square(&kde, &stage, &test_defaults);
	for (i = 0; i < sizeof all / sizeof all[0]; n = all[i++][0]) {
		feed(&kde, 1, n, all[i][0]);
		cr_assert_eq(kde_fit(&kde), all[i][1] > 0);
		cr_assert_eq(kde.good.count, all[i][1], "%u observations", all[i][0]);
		cr_assert_eq(kde.bad.count, all[i][2], "%u observations", all[i][0]);
	}
	/* The last of the good, the first and the last of the bad; the worst two are left out by
	 * rounding. */
	cr_assert_eq(kde.good.points[16], 16 / 64.0);
	cr_assert_eq(kde.bad.points[0], 17 / 64.0);
	cr_assert_eq(kde.bad.points[100], 117 % 64 / 64.0);
	test_close(&kde, &stage);
}

/* min_points holds for the good ones, too. */
Test(kde, least_points)
{
	struct kde_setup setup = test_defaults;
	struct stage stage;
	struct kde kde;

	setup.min_points = 10;
	setup.top_percent = 50;
	open_square(&kde, &stage, &setup);
	feed(&kde, 1, 0, 12);
	cr_assert(!kde_fit(&kde));
	feed(&kde, 1, 12, 13);
	cr_assert(kde_fit(&kde));
	cr_assert_eq(kde.good.count, 10);
	cr_assert_eq(kde.bad.count, 3);
	test_close(&kde, &stage);
}

/* NaN, infinities and failures rank last, in order of trials, and are never good; a budget at which
 * too few have succeeded has no model. */
Test(kde, failures)
{
	static const double values[2] = { 0.125, 0.75 };
	struct stage stage;
	struct kde kde;
	uint32_t i;

	open_square(&kde, &stage, &test_defaults);
	for (i = 0; i < 50; i++)
		test_observe(&kde, 1, i,
		    i % 3 == 0       ? (double)NAN
			: i % 3 == 1 ? HUGE_VAL
				     : -HUGE_VAL,
		    values);
	cr_assert(!kde_fit(&kde));
	feed(&kde, 1, 50, 52);
	cr_assert(!kde_fit(&kde));
	feed(&kde, 1, 52, 53);
	cr_assert(kde_fit(&kde));
	cr_assert_eq(kde.good.count, 3); /* in place of 15 percent: 7 */
	cr_assert_eq(kde.good.points[2], 52 / 64.0);
	cr_assert_eq(kde.bad.count, 45);
	for (i = 0; i < 50; i++)
		cr_assert_eq(kde.budgets[0].ranking[i + 3], i);
	test_close(&kde, &stage);
}

/* Equal losses rank by trial, in whatever order they come. */
Test(kde, ties)
{
	struct stage stage[2];
	struct kde kde[2];
	uint32_t i, k;

	for (k = 0; k < 2; k++) {
		open_square(&kde[k], &stage[k], &test_defaults);
		for (i = 0; i < 60; i++) {
			uint32_t trial = k == 0 ? i : 59 - i;
			double values[2] = { trial / 64.0, 0.5 };

			test_observe(&kde[k], 1, trial, trial % 4, values);
		}
		cr_assert(kde_fit(&kde[k]));
		for (i = 0; i < 9; i++)
			cr_assert_eq(kde[k].good.points[i], 4 * i / 64.0);
	}
	for (i = 0; i < 51; i++)
		cr_assert_eq(kde[0].bad.points[i], kde[1].bad.points[i]);
	for (k = 0; k < 2; k++)
		test_close(&kde[k], &stage[k]);
}

/* The largest budget with enough observations; those of smaller budgets are dropped. */
Test(kde, budgets)
{
	struct stage stage;
	struct kde kde;

	open_square(&kde, &stage, &test_defaults);
	feed(&kde, 9, 0, 5);
	feed(&kde, 3, 5, 40);
	feed(&kde, 1, 40, 45);
	cr_assert(kde_fit(&kde));
	cr_assert_eq(kde.budgets[0].budget, 3);
	cr_assert_eq(kde.budget_count, 2);
	feed(&kde, 1, 45, 99); /* too late */
	cr_assert_eq(kde.budget_count, 2);
	feed(&kde, 9, 99, 100);
	cr_assert(kde_fit(&kde));
	cr_assert_eq(kde.budgets[0].budget, 9);
	cr_assert_eq(kde.budget_count, 1);
	cr_assert_eq(kde.good.count, 3);
	feed(&kde, 27, 100, 101);
	cr_assert_eq(kde.budgets[0].budget, 9);
	test_close(&kde, &stage);
}

/* ---- poor data ---------------------------------------------------------------------------- */

static void
suggest_valid(struct kde *kde, struct stage *stage, uint32_t times)
{
	const struct espl_space *space = espl_kit_space(stage->kit);
	struct espl_error error = { 0 };
	double values[8];
	uint32_t i, missing;

	for (; times > 0; times--) {
		double snapped[8];

		cr_assert_eq(kde_suggest(kde, values, &error), ESPL_OK, "%s", error.text);
		memcpy(snapped, values, sizeof values);
		cr_assert_eq(space->snap(space, snapped, &missing), ESPL_OK);
		for (i = 0; i < space->param_count; i++)
			cr_assert(
			    values[i] == snapped[i] || (isnan(values[i]) && isnan(snapped[i])));
	}
}

Test(kde, all_equal)
{
	static const double values[2] = { 0.25, 1 };
	struct stage stage;
	struct kde kde;
	uint32_t i;

	open_square(&kde, &stage, &test_defaults);
	for (i = 0; i < 30; i++)
		test_observe(&kde, 1, i, 0.5, values);
	suggest_valid(&kde, &stage, 10);
	test_near(kde.good.kernels[0].width, 1e-3, "bandwidth");
	test_close(&kde, &stage);
}

Test(kde, no_parameters)
{
	struct stage stage;
	struct kde kde;
	uint32_t i;

	test_stage(&stage, 3);
	test_open(&kde, &stage, &test_defaults);
	for (i = 0; i < 3; i++) {
		test_observe(&kde, 1, i, i, NULL);
		cr_assert_eq(kde_fit(&kde), i > 0);
	}
	suggest_valid(&kde, &stage, 3);
	test_close(&kde, &stage);
}

/* A choice of one; a parameter that was never active; an integer. */
Test(kde, poor_parameters)
{
	struct stage stage;
	struct kde kde;
	uint32_t i;

	test_stage(&stage, 3);
	espl_kit_choice(stage.kit, "only", "this");
	espl_kit_choice(stage.kit, "kind", "a|b");
	espl_kit_real(stage.kit, "rare", 1, 100, ESPL_LOG, 0);
	espl_kit_when(stage.kit, "kind", 1);
	espl_kit_int(stage.kit, "whole", 1, 4, ESPL_LINEAR);
	test_open(&kde, &stage, &test_defaults);
	for (i = 0; i < 30; i++) {
		double values[4] = { 0, 0, NAN, 1 + i % 4 };

		test_observe(&kde, 1, i, i % 4, values);
	}
	suggest_valid(&kde, &stage, 50);
	cr_assert_eq(kde.modelled, 1);
	for (i = 0; i < kde.good.count; i++)
		cr_assert(kde.good.points[2 * kde.good.room + i] >= 0);
	test_close(&kde, &stage);
}

/* More observations than fit into a density: an even sample, the best among them; suggestions go
 * where the good ones are. */
Test(kde, sampled)
{
	struct kde_setup setup = test_defaults;
	struct espl_error error = { 0 };
	struct stage stage;
	struct kde kde;
	double values[2], mean = 0;
	uint32_t i;

	setup.points = 50;
	open_square(&kde, &stage, &setup);
	for (i = 0; i < 2000; i++) {
		values[0] = i * 977 % 2000 / 2000.0;
		values[1] = i * 331 % 2000 / 2000.0;
		test_observe(&kde, 1, i, fabs(values[0] - 0.75), values);
	}
	cr_assert(kde_fit(&kde));
	cr_assert_eq(kde.good.count, 50);
	cr_assert_eq(kde.bad.count, 50);
	cr_assert_eq(kde.good.points[0], 0.75);
	cr_assert_float_eq(fabs(kde.good.points[49] - 0.75), 0.075 * 49 / 50, 0.001);
	cr_assert_float_eq(fabs(kde.bad.points[0] - 0.75), 0.075, 0.001);
	for (i = 0; i < 50; i++) {
		cr_assert_eq(kde_suggest(&kde, values, &error), ESPL_OK);
		mean += values[0] / 50;
	}
	cr_assert_float_eq(mean, 0.75, 0.05);
	test_close(&kde, &stage);
}

/* ---- an earlier run ----------------------------------------------------------------------- */

static const struct espl_observation *
earlier_at(const struct espl_history *history, uint64_t index)
{
	static struct espl_observation seen;
	static double values[2];

	if (index >= *(const uint64_t *)history->ctx)
		return NULL;
	seen.flags = index < 40 ? ESPL_OBSERVED_EARLIER : 0;
	seen.trial = ESPL_NONE;
	seen.iteration = 1 + index % 3;
	seen.loss = index == 0 ? (double)NAN : (double)index;
	seen.values = values;
	values[0] = values[1] = (double)index / 64;
	return &seen;
}

Test(kde, earlier)
{
	static const uint64_t budgets[] = { 9, 3, 2, 3 };
	uint64_t count = 50;
	struct espl_history history = { .ctx = &count, .at = earlier_at };
	struct espl_error error = { 0 };
	struct stage stage;
	struct kde kde;

	test_stage(&stage, 3);
	stage.history = &history;
	espl_kit_real(stage.kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_real(stage.kit, "y", 0, 1, ESPL_LINEAR, 0);
	test_open(&kde, &stage, &test_defaults);
	cr_assert_null(kde.earlier); /* nobody said that there is one */
	kde_free(&kde);
	stage.experiment.flags = ESPL_EXPERIMENT_EARLIER;
	test_open(&kde, &stage, &test_defaults);
	cr_assert_eq(kde_earlier(&kde, budgets, 4, &error), ESPL_OK);
	cr_assert_eq(kde.learned, 26); /* 2 and 3 of the first 40, three by three */
	cr_assert_str_eq(stage.heard,
	    "the model starts with 26 observations of an earlier run; the others are at iterations "
	    "at which this search does not compare trials");
	cr_assert_eq(kde.budgets[0].budget, 3); /* seen after the others */
	cr_assert_eq(kde.budgets[0].count, 13);
	cr_assert_eq(kde_earlier(&kde, budgets, 4, &error), ESPL_OK);
	cr_assert_eq(kde.learned, 26);
	kde_free(&kde);
	test_open(&kde, &stage, &test_defaults);
	cr_assert_eq(kde_earlier(&kde, budgets, 1, &error), ESPL_OK);
	cr_assert_eq(kde.learned, 0); /* nothing was seen at 9 */
	cr_assert_not_null(
	    strstr(stage.heard, "warning: the model cannot use the earlier run: none of its 40"));
	test_close(&kde, &stage);
}

/* ---- no memory ---------------------------------------------------------------------------- */

Test(kde, out_of_memory)
{
	static const double values[2] = { 0.5, 0.5 };
	struct espl_error error;
	espl_status status = ESPL_E_NOMEM;
	struct stage stage;
	struct kde kde;
	uint32_t n, i;

	for (n = 1; status != ESPL_OK; n++) {
		test_stage(&stage, 3);
		espl_kit_choice(stage.kit, "kind", "a|b");
		espl_kit_real(stage.kit, "rare", 1, 100, ESPL_LOG, 0);
		espl_kit_when(stage.kit, "kind", 1);
		memset(&error, 0, sizeof error);
		test_left = n;
		status = kde_init(&kde, &stage.host, &test_defaults, &error);
		test_left = UINT32_MAX;
		cr_assert(status == ESPL_OK || (status == ESPL_E_NOMEM && n < 20), "%u: %s", n,
		    error.text);
		test_close(&kde, &stage);
	}
	cr_assert_eq(n, 14);
	for (n = 1, status = ESPL_E_NOMEM; status != ESPL_OK; n++) {
		open_square(&kde, &stage, &test_defaults);
		memset(&error, 0, sizeof error);
		test_left = n;
		status = kde_observe(&kde, 1, 0, 1, values, &error);
		test_left = UINT32_MAX;
		cr_assert(status == ESPL_OK || (status == ESPL_E_NOMEM && n < 20), "%u: %s", n,
		    error.text);
		for (i = 1; i < 9; i++)
			test_observe(&kde, 1, i, 1, values);
		test_close(&kde, &stage);
	}
	cr_assert_eq(n, 7);
}
