/* test_kde.c - the model of bohb and tpe: densities, what is good and what is bad, the choice.
 *
 * Numbers from elsewhere: statsmodels 0.15 (KDEMultivariate), scipy 1.17 (truncnorm), and
 * HpBandSter 0.7.4 with its random numbers replaced by this test's stream.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "test_kde.h"
#include "fail_alloc.h"

/* ---- a host: a stream, or numbers that the test gives ------------------------------------- */

static uint64_t
next_random(const struct espl_host *host) /* splitmix64 (Vigna, public domain) */
{
	struct stage *stage = host->ctx;
	uint64_t z;

	if (stage->given != NULL)
		return (uint64_t)(*stage->given++ * 0x1p53) << 11;
	z = stage->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static const void *
service(const struct espl_host *host, const char *id)
{
	const struct stage *stage = host->ctx;

	if (strcmp(id, ESPL_SPACE) == 0)
		return espl_kit_space(stage->kit);
	if (strcmp(id, ESPL_EXPERIMENT) == 0)
		return &stage->experiment;
	return strcmp(id, ESPL_HISTORY) == 0 ? stage->history : NULL;
}

static void
hear(const struct espl_host *host, espl_level level, const char *text)
{
	struct stage *stage = host->ctx;

	cr_assert(level == ESPL_INFO || level == ESPL_WARN);
	(void)snprintf(stage->heard, sizeof stage->heard, "%s%s",
	    level == ESPL_WARN ? "warning: " : "", text);
}

void
test_stage(struct stage *stage, uint64_t seed)
{
	memset(stage, 0, sizeof *stage);
	stage->host.ctx = stage;
	stage->host.random = next_random;
	stage->host.log = hear;
	stage->host.service = service;
	stage->state = seed;
	stage->kit = espl_kit_new(1);
}

const struct kde_setup test_defaults = { .random_fraction = 0,
	.factor = 3,
	.width_min = 1e-3,
	.top_percent = 15,
	.candidates = 64,
	.points = 512 };

void
test_open(struct kde *kde, struct stage *stage, const struct kde_setup *setup)
{
	struct espl_error error = { 0 };

	cr_assert_eq(kde_init(kde, &stage->host, setup, &error), ESPL_OK, "%s", error.text);
}

void
test_close(struct kde *kde, struct stage *stage)
{
	kde_free(kde);
	espl_kit_free(stage->kit);
}

void
test_observe(struct kde *kde, uint64_t budget, uint64_t trial, double loss, const double *values)
{
	struct espl_error error = { 0 };

	cr_assert_eq(kde_observe(kde, budget, trial, loss, values, &error), ESPL_OK, "%s",
	    error.text);
}

void
test_near(double is, double wanted, const char *what)
{
	cr_assert(fabs(is - wanted) <= 1e-12 + 1e-9 * fabs(wanted), "%s: %.17g, not %.17g", what,
	    is, wanted);
}

/* ---- one density -------------------------------------------------------------------------- */

static void
fill(struct kde_density *density, const struct kde_axis *axes, uint32_t axis_count,
    const double *rows, uint32_t count)
{
	uint32_t a, i;

	cr_assert_eq(kde_density_init(density, axes, axis_count, count), ESPL_OK);
	kde_density_begin(density, count);
	for (i = 0; i < count; i++)
		for (a = 0; a < axis_count; a++)
			density->points[a * density->room + i] = rows[i * axis_count + a];
	kde_density_fit(density, 1e-3);
}

/* Worked out by hand: of 0, 0.25 and 1 the mean is 5/12, the deviation sqrt(26)/12. */
Test(kde, density_by_hand)
{
	static const struct kde_axis line = { 0 };
	static const double rows[] = { 0, 0.25, 1 };
	double h = 1.06 * sqrt(26) / 12 * pow(3, -0.2), x = 0.5, sum = 0;
	struct kde_density density;
	uint32_t i;

	fill(&density, &line, 1, rows, 3);
	test_near(density.kernels[0].width, h, "bandwidth");
	for (i = 0; i < 3; i++)
		sum += exp(-(rows[i] - x) * (rows[i] - x) / (2 * h * h));
	test_near(kde_density_at(&density, &x, HUGE_VAL), sum / (3 * h * sqrt(2 * acos(-1))),
	    "density");
	kde_density_free(&density);
}

/* Real, unordered and ordered: statsmodels' values, for these bandwidths. */
Test(kde, density_of_three_kinds)
{
	static const struct kde_axis axes[] = { { .labels = 0 }, { .labels = 3 },
		{ .labels = 4, .ordered = 1 } };
	static const double rows[] = { 0.125, 0, 0, 0.25, 1, 1, 0.5, 1, 2, 0.75, 2, 3, 0.875, 1,
		1 };
	static const double x[3][3] = { { 0.25, 1, 1 }, { 0.5, 0, 3 }, { 1, 2, 0 } };
	static const double wanted[3] = { 0.13164468116603725, 0.04838614882859454,
		0.009172492780905471 };
	struct kde_density density;
	uint32_t i;

	fill(&density, axes, 3, rows, 5);
	test_near(density.kernels[0].width, 0.24008481492748068, "real");
	test_near(density.kernels[1].width, 0.5327003758038854, "unordered");
	test_near(density.kernels[2].rule, 0.8589535464692849, "ordered, by the rule");
	test_near(density.kernels[2].width, 0.28917242621447975, "ordered");
	for (i = 0; i < 3; i++) {
		double all = kde_density_at(&density, x[i], HUGE_VAL);

		test_near(all, wanted[i], "density");
		cr_assert_geq(kde_density_at(&density, x[i], all / 2), all / 2);
	}
	kde_density_free(&density);
}

/* An ordered kernel deviates, in labels, by what the rule says; an unordered one ends where it is
 * flat. */
Test(kde, kernels_of_labels)
{
	static const struct kde_axis axes[] = { { .labels = 200, .ordered = 1 }, { .labels = 4 },
		{ .labels = 1 } };
	static const double rows[] = { 90, 0, 0, 100, 3, 0, 110, 0, 0, 100, 3, 0 };
	struct kde_density density;
	double square = 0, mass = 0;
	int k;

	fill(&density, axes, 3, rows, 4);
	for (k = -90; k <= 90; k++) {
		const struct kde_kernel *ordered = &density.kernels[0];
		double part =
		    exp(k == 0 ? ordered->same : ordered->other + abs(k) * ordered->slope);

		mass += part;
		square += part * k * k;
	}
	cr_assert_float_eq(mass, 1, 1e-6);
	cr_assert_float_eq(sqrt(square), density.kernels[0].rule, 1e-4);
	test_near(density.kernels[1].width, 0.75, "unordered");
	test_near(density.kernels[1].same, density.kernels[1].other, "unordered");
	test_near(density.kernels[2].same, 0, "a single label");
	kde_density_free(&density);
}

/* Truncated normals, against scipy; the first number chooses the point. */
Test(kde, draws_of_reals)
{
	static const struct {
		double mean, wider, u, x;
	} all[] = { { 0.3, 600, 0.5, 0.44183020260812683 },
		{ 0.3, 600, 0.01, 0.009671866039057286 }, { 1, 3, 0.25, 0.9965489518588719 },
		{ 0, 1500, 0.875, 0.8590187616067047 }, { 0.5, 3, 0.999, 0.5092706969185035 } };
	static const struct kde_axis line = { 0 };
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct kde_density density;
		struct stage stage;
		double given[2] = { 0, 0 }, x;

		test_stage(&stage, 1);
		given[1] = all[i].u;
		stage.given = given;
		/* its bandwidth is the least, 1e-3 */
		fill(&density, &line, 1, &all[i].mean, 1);
		kde_density_draw(&density, &stage.host, all[i].wider, &x);
		test_near(x, all[i].x, "truncated normal");
		kde_density_free(&density);
		espl_kit_free(stage.kit);
	}
}

/* Labels come as often as the kernels say: chi-squared over 7 + 4 labels stays in its range. */
Test(kde, draws_of_labels)
{
	static const struct kde_axis axes[] = { { .labels = 7, .ordered = 1 }, { .labels = 4 } };
	static const double rows[] = { 2, 0, 2, 0, 5, 3, 2, 0, 3, 0 };
	enum { DRAWS = 40000 };
	double part[7], sum, chi[2] = { 0, 0 }, x[2], wanted[7] = { 0 };
	uint32_t count[2][7] = { { 0 } }, i, k;
	struct kde_density density;
	struct stage stage;

	test_stage(&stage, 11);
	fill(&density, axes, 2, rows, 5);
	for (i = 0; i < DRAWS; i++) {
		kde_density_draw(&density, &stage.host, 1, x);
		count[0][(int)x[0]]++;
		count[1][(int)x[1]]++;
	}
	for (i = 0; i < 5; i++) {
		for (sum = 0, k = 0; k < 7; k++)
			sum += part[k] = k == rows[2 * i]
			    ? 2
			    : pow(density.kernels[0].width, fabs(k - rows[2 * i]));
		for (k = 0; k < 7; k++)
			wanted[k] += DRAWS / 5.0 * part[k] / sum;
	}
	for (k = 0; k < 7; k++)
		chi[0] += (count[0][k] - wanted[k]) * (count[0][k] - wanted[k]) / wanted[k];
	for (k = 0; k < 4; k++) {
		double h = density.kernels[1].width, from = k == 0 ? 0.8 : k == 3 ? 0.2 : 0;
		double expected = DRAWS * (from * (1 - h) + h / 4);

		chi[1] += (count[1][k] - expected) * (count[1][k] - expected) / expected;
	}
	cr_assert_lt(chi[0], 22.5, "%g", chi[0]); /* 0.1 % of 6 degrees of freedom */
	cr_assert_lt(chi[1], 16.3, "%g", chi[1]); /* 0.1 % of 3 */
	kde_density_free(&density);
	espl_kit_free(stage.kit);
}

/* ---- against HpBandSter ------------------------------------------------------------------- */

/* p0 and p1 in 64ths, p2 of a|b|c, p3 in 64ths if p2 = b, p4 of u|v if p2 = b or c; loss in
 * 1000ths, -1: the trial failed. */
static const int tried[40][6] = { { 7, 11, 0, 46, 0, 355 }, { 32, 27, 2, 4, 0, 147 },
	{ 50, 47, 2, 56, 1, 233 }, { 3, 46, 1, 40, 1, 94 }, { 21, 22, 0, 29, 0, -1 },
	{ 41, 22, 0, 46, 0, 293 }, { 53, 46, 2, 45, 1, 309 }, { 20, 51, 2, 59, 0, 40 },
	{ 35, 63, 2, 45, 1, 172 }, { 44, 58, 1, 28, 1, 203 }, { 34, 61, 1, 38, 1, 138 },
	{ 26, 62, 2, 46, 0, 104 }, { 1, 24, 2, 13, 0, 226 }, { 6, 34, 2, 29, 0, 111 },
	{ 17, 34, 0, 26, 0, 80 }, { 4, 7, 1, 46, 0, 415 }, { 3, 10, 0, 8, 0, 380 },
	{ 2, 47, 1, 16, 0, 83 }, { 0, 49, 2, 5, 0, 105 }, { 4, 0, 1, 14, 1, 566 },
	{ 62, 3, 1, 57, 0, 894 }, { 51, 19, 1, 28, 0, 429 }, { 13, 3, 1, 16, 1, 466 },
	{ 41, 18, 1, 33, 1, 331 }, { 53, 2, 2, 17, 0, 746 }, { 4, 16, 0, 21, 0, 310 },
	{ 29, 4, 0, 29, 1, 450 }, { 32, 10, 2, 29, 1, 356 }, { 54, 35, 2, 0, 0, 319 },
	{ 49, 52, 0, 14, 0, 259 }, { 13, 12, 0, 23, 0, 292 }, { 27, 3, 2, 59, 1, 461 },
	{ 48, 27, 2, 26, 1, 311 }, { 2, 6, 1, 23, 0, 470 }, { 46, 2, 2, 15, 1, 643 },
	{ 47, 39, 0, 52, 0, 217 }, { 39, 25, 2, 2, 1, 191 }, { 52, 62, 1, 26, 0, 335 },
	{ 36, 3, 1, 39, 0, 505 }, { 62, 24, 0, 47, 1, 603 } };

static double
same_sum(const struct kde_density *density, uint32_t axis)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < density->count; i++)
		sum += density->points[axis * density->room + i];
	return sum;
}

/* 40 observations at one budget: bandwidths, imputed points, densities and the configurations
 * chosen are HpBandSter's, number by number. */
Test(kde, reference)
{
	static const double good_widths[] = { 0.13655341793281, 0.111762801779682,
		0.647453171651932, 0.162871796706926, 0.323726585825966 };
	static const double bad_widths[] = { 0.21745120480772, 0.218033587104121, 0.585804051595185,
		0.1515701580232, 0.355700973766153 };
	static const double bad_sums[] = { 17.109375, 12.453125, 37, 16.6875, 19 };
	static const double third[] = { 0.03125, 0.734375, 1, 0.25, 0 };
	static const double sixth[] = { 0, 0.765625, 2, 0.625, 0 }; /* p3 is another one's */
	static const double x[3][5] = { { .25, .5, 1, .5, 0 }, { .75, .125, 0, .25, 1 },
		{ .1, .9, 2, .6, 1 } };
	static const double good[] = { 0.31675099276625, 1.216846159469189e-06, 0.462186111791636 };
	static const double bad[] = { 0.110721942062359, 0.161359242394137, 0.022408524403493 };
	static const double chosen[4][5] = { { 0.17490588725032233, 0.8950127343482597, 0, NAN,
						 NAN },
		{ 0.04498361237328019, 0.6505229397341017, 2, NAN, 0 },
		{ 0.23762145536691914, 0.880807871672636, 2, NAN, 0 },
		{ 0.08450997808348559, 0.7944258136494665, 0, NAN, NAN } };
	struct espl_error error = { 0 };
	struct stage stage;
	struct kde kde;
	uint32_t i, a;

	test_stage(&stage, 7);
	espl_kit_real(stage.kit, "p0", 0, 1, ESPL_LINEAR, 0);
	espl_kit_real(stage.kit, "p1", 0, 1, ESPL_LINEAR, 0);
	espl_kit_choice(stage.kit, "p2", "a|b|c");
	espl_kit_real(stage.kit, "p3", 0, 1, ESPL_LINEAR, 0);
	espl_kit_when(stage.kit, "p2", 1);
	espl_kit_choice(stage.kit, "p4", "u|v");
	espl_kit_when(stage.kit, "p2", 1);
	espl_kit_when(stage.kit, "p2", 2);
	test_open(&kde, &stage, &test_defaults);
	for (i = 0; i < 40; i++) {
		const int *t = tried[i];
		double values[5] = { t[0] / 64.0, t[1] / 64.0, t[2],
			t[2] == 1 ? t[3] / 64.0 : (double)NAN, t[2] > 0 ? t[4] : (double)NAN };

		test_observe(&kde, 9, i, t[5] < 0 ? (double)NAN : t[5] / 1000.0, values);
	}
	cr_assert(kde_fit(&kde));
	cr_assert_eq(kde.good.count, 6);
	cr_assert_eq(kde.bad.count, 34);
	for (a = 0; a < 5; a++) {
		test_near(kde.good.kernels[a].width, good_widths[a], "good's bandwidth");
		test_near(kde.bad.kernels[a].width, bad_widths[a], "bad's bandwidth");
		test_near(kde.good.points[a * kde.good.room + 2], third[a], "third");
		test_near(kde.good.points[a * kde.good.room + 5], sixth[a], "sixth");
		test_near(same_sum(&kde.bad, a), bad_sums[a], "sum of the bad");
	}
	for (i = 0; i < 3; i++) {
		test_near(kde_density_at(&kde.good, x[i], HUGE_VAL), good[i], "good");
		test_near(kde_density_at(&kde.bad, x[i], HUGE_VAL), bad[i], "bad");
	}
	for (i = 0; i < 4; i++) {
		double values[5];

		cr_assert_eq(kde_suggest(&kde, values, &error), ESPL_OK);
		for (a = 0; a < 5; a++)
			if (isnan(chosen[i][a]))
				cr_assert(isnan(values[a]));
			else
				test_near(values[a], chosen[i][a], "chosen");
	}
	test_close(&kde, &stage);
}
