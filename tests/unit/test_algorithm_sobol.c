/* test_algorithm_sobol.c - Sobol: the textbook's first points, and evenness under scrambling. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo_play.h"
#include "test_plugins.h"

#define SOBOL (&algorithm_sobol_LTX_espalier_plugin)

/* A unit cube of that many dimensions, and so many points in it. */
static struct espl_kit *
cube(uint32_t dimensions, const char *options, uint64_t seed)
{
	struct espl_kit *kit = espl_kit_new(seed);
	struct espl_error error;
	char name[16];
	uint32_t i;

	for (i = 0; i < dimensions; i++) {
		(void)snprintf(name, sizeof name, "x%u", i);
		espl_kit_real(kit, name, 0, 1, ESPL_LINEAR, 0);
	}
	cr_assert_eq(espl_kit_open(kit, SOBOL, options, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 5000), ESPL_OK);
	cr_assert_eq(espl_kit_refused(kit), 0);
	return kit;
}

/* From the recurrence by hand: dimension 2 has m = 1, 3, 5, 15; 3 has m = 1, 3, 1, ... in Gray code
 * order. */
Test(sobol, first_points)
{
	static const double wanted[8][3] = { { 0, 0, 0 }, { .5, .5, .5 }, { .75, .25, .25 },
		{ .25, .75, .75 }, { .375, .375, .625 }, { .875, .875, .125 }, { .625, .125, .875 },
		{ .125, .625, .375 } };
	struct espl_kit *kit = cube(3, "trials=8 scramble=false", 1);
	uint64_t i;
	uint32_t k;

	for (i = 0; i < 8; i++)
		for (k = 0; k < 3; k++)
			cr_assert_eq(espl_kit_trial(kit, i)->values[k], wanted[i][k],
			    "point %u, %u: %g", (unsigned)i, k, espl_kit_trial(kit, i)->values[k]);
	cr_assert(espl_kit_finished(kit));
	espl_kit_free(kit);
}

/* Each of 2^m equal boxes, 2^a parts of parameter i by 2^(m - a) of k, holds one of the first 2^m
 * points. */
static int
is_even(struct espl_kit *kit, uint32_t i, uint32_t k, uint32_t m, uint32_t a)
{
	uint8_t *there = calloc(1u << m, 1);
	uint64_t id;
	int even = 1;

	cr_assert_not_null(there);
	for (id = 0; id < 1u << m; id++) {
		const double *x = espl_kit_trial(kit, id)->values;
		uint32_t box = (uint32_t)(x[i] * (double)(1u << a)) << (m - a) |
		    (uint32_t)(x[k] * (double)(1u << (m - a)));

		even = even && !there[box];
		there[box] = 1;
	}
	free(there);
	return even;
}

Test(sobol, even_in_every_dimension)
{
	uint64_t seed;
	uint32_t i, m, a;

	for (seed = 0; seed < 4; seed++) {
		struct espl_kit *kit =
		    cube(101, seed == 0 ? "trials=1024 scramble=false" : "trials=1024", seed);

		for (i = 0; i < 101; i++)
			for (m = 1; m <= 10; m++)
				cr_assert(is_even(kit, i, i, m, m), "dimension %u of 2^%u points",
				    i, m);
		/* The first two make a (0, m, 2)-net: even in boxes of every shape. */
		for (m = 1; m <= 10; m++)
			for (a = 0; a <= m; a++)
				cr_assert(is_even(kit, 0, 1, m, a));
		espl_kit_free(kit);
	}
}

/* No two of the 101 dimensions are alike, and few pairs are as bad as they may be: Joe and Kuo's
 * numbers were chosen for that. */
Test(sobol, dimensions_differ)
{
	struct espl_kit *kit = cube(101, "trials=1024 scramble=false", 1);
	uint32_t i, k, id, even = 0;

	for (i = 0; i < 101; i++)
		for (k = 0; k < i; k++) {
			for (id = 0; id < 1024; id++) {
				const double *x = espl_kit_trial(kit, id)->values;

				if (x[i] != x[k])
					break;
			}
			cr_assert_lt(id, 1024);
			even += (uint32_t)is_even(kit, k, i, 10, 2);
		}
	cr_assert_gt(even, 101 * 100 / 2 / 8, "%u", even);
	espl_kit_free(kit);
}

/* Scrambled, a point is uniform whatever its number: the mean of a hundred seeds is near the
 * middle. */
Test(sobol, scrambled_by_the_seed)
{
	double mean[4] = { 0 };
	uint64_t seed, i;

	for (seed = 0; seed < 400; seed++) {
		struct espl_kit *kit = cube(2, "trials=4", seed);

		for (i = 0; i < 4; i++)
			mean[i] += espl_kit_trial(kit, i)->values[1] / 400;
		espl_kit_free(kit);
	}
	for (i = 0; i < 4; i++)
		cr_assert_float_eq(mean[i], 0.5, 0.06, "%g", mean[i]);
}

Test(sobol, integrates_better_than_chance)
{
	struct espl_kit *kit = cube(8, "trials=4096", 3);
	double sum = 0;
	uint64_t i;
	uint32_t k;

	/* The integral of the product of (1 + (x - 1/2)) is 1; with random points its error is
	 * about .02. */
	for (i = 0; i < 4096; i++) {
		double product = 1;

		for (k = 0; k < 8; k++)
			product *= espl_kit_trial(kit, i)->values[k] + 0.5;
		sum += product / 4096;
	}
	cr_assert_float_eq(sum, 1, 0.002, "%g", sum);
	espl_kit_free(kit);
}

Test(sobol, too_many_parameters)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;
	char name[16];
	uint32_t i;

	for (i = 0; i < 102; i++) {
		(void)snprintf(name, sizeof name, "x%u", i);
		espl_kit_real(kit, name, 0, 1, ESPL_LINEAR, 0);
	}
	cr_assert_eq(espl_kit_open(kit, SOBOL, "trials=4", &error), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(error.text, "102 parameters"));
	espl_kit_free(kit);
	kit = espl_kit_new(1);
	cr_assert_eq(espl_kit_open(kit, SOBOL, "", &error), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(error.text, "has no end"));
	espl_kit_free(kit);
}

static void
check_count(struct play *play, uint64_t seed)
{
	(void)seed;
	cr_assert_eq(play->trials, 25);
}

Test(sobol, a_thousand_searches)
{
	struct play play = { .plugin = SOBOL,
		.options = "trials=25 iterations_max=3",
		.fails = .05,
		.itself = .05,
		.nans = .1 };

	play_seeds(&play, 1000, check_count);
	play_orders(&play, 200);
}
