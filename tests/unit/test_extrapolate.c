/* test_extrapolate.c - learning-curve extrapolation: fits against a slow dense search, invariances,
 * prefixes drawn at random.  test_spottune.c has the published cases. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/algorithms/spottune/extrapolate.h"
#include "base/rng.h"
#include "plugins/algorithms/spottune/curve_fit.h"

#define MOST 400u

static struct espl_extrapolator
reads(const char *words)
{
	struct espl_extrapolator e;
	char text[200];
	const char *wrong = espl_extrapolator_read(&e, words, text, sizeof text);

	cr_assert_null(wrong, "%s", wrong);
	return e;
}

static double
uniform(uint64_t *state)
{
	return (double)(espl__split_mix(state) >> 11) * 0x1.0p-53;
}

static double
normal(uint64_t *state)
{
	double u = uniform(state);

	return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * uniform(state));
}

/* Curves of several shapes; returns how many points. */
static uint32_t
draw_curve(uint64_t *state, struct espl_point *points, uint32_t most)
{
	uint32_t n = 5 + (uint32_t)(uniform(state) * (most - 5)),
		 shape = (uint32_t)(uniform(state) * 5);
	double floor = uniform(state) < 0.3 ? 0 : uniform(state), height = exp(2 * normal(state));
	double rate = exp(3 * normal(state)) / n, noise = 0.05 * uniform(state) * uniform(state);
	double scale = exp(5 * normal(state)), walk = 1;

	for (uint32_t i = 0; i < n; i++) {
		double k = i + 1, y = floor;

		walk *= exp(0.1 * normal(state));
		if (shape == 0)
			y += height / (rate * rate * k * k + rate * k + 0.1);
		else if (shape == 1)
			y += height * pow(k, -2 * rate);
		else if (shape == 2)
			y += height * exp(-rate * k);
		else if (shape == 3)
			y += walk;
		else
			y += height * (k < n / 2.0 ? 1 / (1 + rate * k) : 0.1);
		points[i].x = k;
		points[i].y = scale * y * fmax(0, 1 + noise * normal(state));
	}
	return n;
}

/* ---- fits ------------------------------------------------------------------------------------ */

static struct espl_samples
sample(const struct espl_point *points, uint32_t n, int recent)
{
	struct espl_samples s = { .count = n };
	double most = 0;

	for (uint32_t i = 0; i < n; i++)
		most = fmax(most, points[i].y);
	for (uint32_t i = 0; i < n; i++) {
		s.x[i] = points[i].x / points[n - 1].x;
		s.y[i] = points[i].y / most;
		s.w[i] = recent ? exp2(-10 * (1 - s.x[i])) : 1;
	}
	return s;
}

/* The least error of s / (u x^2 + v x + 1) + a3, or of s / (u x^2 + v x) + a3. */
static double
error_of_shape(const struct espl_samples *s, double u, double v, double one)
{
	double w = 0, y = 0, r1 = 0, r2 = 0, ry = 0, det, scale, floor, sum = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		double r = 1 / (u * s->x[i] * s->x[i] + v * s->x[i] + one);

		w += s->w[i];
		y += s->w[i] * s->y[i];
		r1 += s->w[i] * r;
		r2 += s->w[i] * r * r;
		ry += s->w[i] * r * s->y[i];
	}
	det = r2 * w - r1 * r1;
	scale = det > 0 ? (ry * w - r1 * y) / det : 0;
	floor = det > 0 ? (r2 * y - r1 * ry) / det : 0;
	if (floor < 0) {
		floor = 0;
		scale = ry / r2;
	}
	if (!(scale > 0)) {
		scale = 0;
		floor = y / w;
	}
	for (uint32_t i = 0; i < s->count; i++) {
		double x = s->x[i], r = s->y[i] - floor - scale / (u * x * x + v * x + one);

		sum += s->w[i] * r * r;
	}
	return sum;
}

/* Downhill in (log u, log v) with steps that halve; -INFINITY is u = 0. */
static double
descend(const struct espl_samples *s, double u, double v, double one, double best)
{
	for (double step = 0.3; step > 1e-5; step /= 2)
		for (int moved = 1; moved;) {
			moved = 0;
			for (int dx = -1; dx <= 1; dx++)
				for (int dy = -1; dy <= 1; dy++) {
					double e = error_of_shape(s, exp(u + dx * step),
					    exp(v + dy * step), one);

					if (e < best * (1 - 1e-9)) {
						best = e;
						u += dx * step;
						v += dy * step;
						moved = 1;
					}
				}
		}
	return best;
}

static double
dense_search(const struct espl_samples *s)
{
	double least = INFINITY;

	for (int one = 0; one <= 1; one++)
		for (int i = -1; i < 26; i++)
			for (int j = -1; j < 26; j++) {
				double u = i < 0 ? -INFINITY : -4 + 0.7 * i;
				double v = j < 0 ? -INFINITY : -4 + 0.7 * j, e;

				if (i < 0 && j < 0)
					continue;
				e = error_of_shape(s, exp(u), exp(v), one);
				if (e < least * 1.3 || (i % 6 == 0 && j % 6 == 0)) {
					e = descend(s, u, v, one, e);
					least = fmin(least, e);
				}
			}
	return least;
}

Test(extrapolate, fits_are_as_good_as_a_dense_search, .timeout = 300)
{
	struct espl_point points[MOST];
	uint32_t worse = 0, cases = getenv("ESPALIER_TEST_NIGHT") != NULL ? 300 : 100;

	for (uint64_t seed = 1; seed <= cases; seed++) {
		uint64_t state = seed;
		uint32_t n = draw_curve(&state, points, 80);
		struct espl_samples s = sample(points, n, seed % 2 == 0);
		double a[4], error = espl_fit_inverse(&s, a), best = dense_search(&s);

		for (int i = 0; i < 4; i++)
			cr_assert(a[i] >= 0);
		if (error > 1.01 * best + 1e-12) {
			worse++;
			cr_log_warn("seed %d, %u points: %g, best %g", (int)seed, n, error, best);
		}
	}
	cr_assert_leq(worse, cases / 100);
}

Test(extrapolate, power_fits_are_as_good_as_a_dense_search)
{
	struct espl_point points[MOST];

	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t state = seed;
		uint32_t n = draw_curve(&state, points, 80);
		struct espl_samples s = sample(points, n, seed % 2 == 0);
		double p[3], error = espl_fit_power(&s, p), sum = 0, best = INFINITY;

		cr_assert(p[0] >= 0 && p[1] >= 0 && p[2] > 0);
		for (uint32_t i = 0; i < n; i++)
			sum += s.w[i] * pow(s.y[i] - espl_power_at(p, s.x[i]), 2);
		cr_assert_float_eq(sum, error, 1e-6 * sum + 1e-12);
		for (double c = 0.01; c < 8; c *= 1.01) {
			/* With x -> x^-c, s / (1 / x) + a3 is the power law. */
			struct espl_samples t = s;

			for (uint32_t i = 0; i < n; i++)
				t.x[i] = pow(s.x[i], c);
			best = fmin(best, error_of_shape(&t, 0, 1, 0));
		}
		cr_assert(error <= 1.01 * best + 1e-12, "seed %d: %g, best %g", (int)seed, error,
		    best);
	}
}

/* ---- predictions ------------------------------------------------------------------------------
 */

static const char *const kinds[] = { "last", "earlycurve", "earlycurve,xi=0.5,eps=0.01,step=global",
	"earlycurve,weights=recent,anchor=last", "slaq", "slaq,weights=uniform", "power",
	"power,weights=uniform,anchor=last", "damped" };
#define KINDS (sizeof kinds / sizeof kinds[0])

Test(extrapolate, no_prefix_gives_nan_or_leaves_the_range)
{
	struct espl_point points[MOST];
	double p, q;

	for (uint64_t seed = 1; seed <= (getenv("ESPALIER_TEST_NIGHT") != NULL ? 1500 : 500);
	     seed++) {
		uint64_t state = seed;
		uint32_t n = draw_curve(&state, points, MOST);
		double most = -INFINITY;

		for (uint32_t i = 0; i < n; i++) {
			double u = uniform(&state);

			if (seed % 5 == 1 && u < 0.1)
				points[i].y = u < 0.05 ? NAN : u < 0.07 ? INFINITY : -INFINITY;
			else if (seed % 5 == 2 && u < 0.1)
				points[i].y = u < 0.05 ? DBL_MAX : 1e-310;
			else if (seed % 5 == 3)
				points[i].y = seed % 10 == 3 ? 0 : 3;
			if (isfinite(points[i].y))
				most = fmax(most, points[i].y);
		}
		for (size_t k = 0; k < KINDS && isfinite(most); k++) {
			struct espl_extrapolator e = reads(kinds[k]);
			double at = n * (1 + 3 * uniform(&state));

			(void)espl_extrapolate(&e, points, n, at, &p);
			cr_assert(p >= 0 && p <= most, "seed %d, %s: %g of %g", (int)seed, kinds[k],
			    p, most);
			(void)espl_extrapolate(&e, points, n, at, &q);
			cr_assert(memcmp(&p, &q, sizeof p) == 0);
		}
	}
}

/* A multiple of the values gives the same multiple; a multiple of k the same, except where k is
 * counted from the stage's first point plus one. */
Test(extrapolate, predictions_scale)
{
	struct espl_point points[MOST], other[MOST];
	double p, q, r;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t state = seed;
		uint32_t n = draw_curve(&state, points, 60);

		for (size_t k = 0; k < KINDS; k++) {
			struct espl_extrapolator e = reads(kinds[k]);

			for (uint32_t i = 0; i < n; i++)
				other[i] = (struct espl_point){ points[i].x, 1024 * points[i].y };
			(void)espl_extrapolate(&e, points, n, 100, &p);
			(void)espl_extrapolate(&e, other, n, 100, &q);
			cr_assert_float_eq(q, 1024 * p, 1e-9 * q, "%s %d", kinds[k], (int)seed);
			for (uint32_t i = 0; i < n; i++)
				other[i] = (struct espl_point){ 64 * points[i].x, points[i].y };
			e.local = 0;
			(void)espl_extrapolate(&e, points, n, 100, &p);
			(void)espl_extrapolate(&e, other, n, 6400, &r);
			cr_assert_float_eq(p, r, 1e-9 * p, "%s %d", kinds[k], (int)seed);
		}
	}
}

/* 1 - accuracy is what is fitted. */
Test(extrapolate, a_ceiling_mirrors_the_curve)
{
	struct espl_point down[40], up[40];
	double p, q;

	for (size_t k = 0; k < KINDS; k++) {
		struct espl_extrapolator e = reads(kinds[k]);

		for (uint32_t i = 0; i < 40; i++) {
			down[i] = (struct espl_point){ i + 1, 0.125 + 0.5 / (1 + 0.2 * i) };
			up[i] = (struct espl_point){ i + 1, 1 - down[i].y };
		}
		cr_assert_neq(espl_extrapolate(&e, down, 40, 100, &p), ESPL_EXTRAPOLATED_FEW);
		e.ceiling = 1;
		(void)espl_extrapolate(&e, up, 40, 100, &q);
		cr_assert_float_eq(p, 1 - q, 1e-9, "%s", kinds[k]);
	}
}

Test(extrapolate, long_prefixes_are_averaged)
{
	static struct espl_point points[20000];
	double p;

	for (uint32_t i = 0; i < 20000; i++)
		points[i] = (struct espl_point){ i + 1, 0.3 + 1 / (1 + 0.001 * (i + 1)) };
	for (size_t k = 1; k < KINDS; k++) {
		struct espl_extrapolator e = reads(kinds[k]);
		double least = e.kind >= ESPL_EXTRAPOLATE_POWER ? 0.06 : 0.01;

		cr_assert_eq(espl_extrapolate(&e, points, 20000, 40000, &p), ESPL_EXTRAPOLATED_FIT);
		cr_assert_float_eq(p, 0.3 + 1.0 / 41, least, "%s: %g", kinds[k], p);
	}
}

Test(extrapolate, says_how_it_predicted)
{
	struct espl_point points[] = { { 1, 5 }, { 2, 4 }, { 3, 3 }, { 4, 2.5 }, { 5, 2.2 },
		{ 6, NAN } };
	struct espl_extrapolator e = reads("damped");
	double p;

	cr_assert_eq(espl_extrapolate(&e, points, 6, 10, &p), ESPL_EXTRAPOLATED_FIT);
	cr_assert(p < 2.2 && p > 1);
	cr_assert_eq(espl_extrapolate(&e, points, 4, 10, &p), ESPL_EXTRAPOLATED_FEW);
	cr_assert_eq(p, 2.5);
	cr_assert_eq(espl_extrapolate(&e, points, 6, 5, &p), ESPL_EXTRAPOLATED_LAST);
	cr_assert_eq(p, 2.2);
	cr_assert_eq(espl_extrapolate(&e, points + 5, 1, 10, &p), ESPL_EXTRAPOLATED_NONE);
	cr_assert(isinf(p) && p > 0);
	points[1].y = -1;
	cr_assert_eq(espl_extrapolate(&e, points, 5, 10, &p), ESPL_EXTRAPOLATED_RANGE);
	cr_assert_eq(p, 2.2);
	cr_assert_eq(espl_extrapolate(&e, points, 0, 10, &p), ESPL_EXTRAPOLATED_NONE);
}

Test(extrapolate, options)
{
	static const char *const wrong[] = { "", "best", "last,xi=1", "damped,weights=recent",
		"earlycurve,xi", "earlycurve,xi=", "earlycurve,xi=0", "earlycurve,xi=-1",
		"earlycurve,eps=nan", "earlycurve,step=none", "earlycurve,", "slaq,xi=0.1",
		"power,step=local", "earlycurve,xi=0.1x", "earlycurve,weights=recently" };
	struct espl_extrapolator e = reads("earlycurve,xi=0.5,eps=0.01,step=global,weights=recent");
	char text[200];

	cr_assert(e.xi == 0.5 && e.eps == 0.01 && e.local == 0 && e.recent == 1 && e.stages == 1);
	e = reads("slaq");
	cr_assert(e.stages == 0 && e.recent == 1 && e.anchored == 0);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		cr_assert_not_null(espl_extrapolator_read(&e, wrong[i], text, sizeof text), "%s",
		    wrong[i]);
}

Test(extrapolate, plateaus)
{
	struct espl_point points[8] = { { 1, 9 }, { 2, 1 }, { 3, 1 }, { 4, 1.0005 }, { 5, 1 },
		{ 6, 1 }, { 7, 0.9995 }, { 8, 0.9 } };
	struct espl_extrapolator e = reads("damped");

	cr_assert_not(espl_curve_flat(&e, points, 5, 0.001));
	cr_assert_not(espl_curve_flat(&e, points, 6, 0.001)); /* 9 to 1 is one of the five */
	cr_assert(espl_curve_flat(&e, points, 7, 0.001));
	cr_assert_not(espl_curve_flat(&e, points, 8, 0.001));
	cr_assert(espl_curve_flat(&e, points, 8, 0.5));
}

/* Curves whose second stage begins with a drop, 0.5 % noise: found, and predicted within 1 %. */
Test(extrapolate, stages_with_noise)
{
	struct espl_extrapolator e = reads("earlycurve"),
				 published = reads("earlycurve,xi=0.5,eps=0.01");
	double errors[150];
	uint32_t found = 0, found_published = 0, good = 0;

	for (uint64_t seed = 1; seed <= 150; seed++) {
		uint64_t state = seed;
		uint32_t drop = 30 + (uint32_t)(uniform(&state) * 21);
		double slow = 0.01 + 0.02 * uniform(&state), a = 0.4 + 0.2 * uniform(&state), p,
		       end = 0;
		struct espl_point points[100];

		for (uint32_t k = 1; k <= 100; k++) {
			double before = 1 / (slow * fmin(k, drop) + a) + 0.3;

			end = k < drop ? before
				       : before * 0.35 * (0.6 + 0.4 / (1 + 0.05 * (k - drop)));
			points[k - 1] =
			    (struct espl_point){ k, end * (1 + 0.005 * normal(&state)) };
		}
		found += espl_curve_stages(&e, points, 70, NULL, 0) == 2;
		found_published += espl_curve_stages(&published, points, 70, NULL, 0) == 2;
		(void)espl_extrapolate(&e, points, 70, 100, &p);
		errors[seed - 1] = fabs(p - end) / end;
		good += errors[seed - 1] <= 0.01;
	}
	cr_assert_geq(found, 149);
	cr_assert_gt(good, 75, "only %u of 150 within 1 %%", good); /* the median is */
	cr_assert_lt(found_published, 75); /* the published constants find few */
}
