/* curve_fit.c - see curve_fit.h.
 *
 * 1 / (a0 x^2 + a1 x + a2) + a3 has several local optima.  So there are starts of two kinds: for
 * fixed a3, 1 / (y - a3) is linear in the others; for fixed u and v, s / (u x^2 + v x + 1) + a3 is
 * linear in s and a3.  From the best of them Gauss-Newton steps follow, each a linear problem with
 * non-negative coefficients, solved exactly by trying every set of positive ones.
 */
#include <math.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "curve_fit.h"

#define COEFFICIENTS 4u
#define GRID 15u     /* values of u, and of v */
#define STARTS 3u    /* of the grid, that are refined */
#define STEPS_MAX 60 /* Gauss-Newton */
#define HALVINGS_MAX 14
#define PIVOT_MIN 1e-13  /* less: the columns are dependent */
#define IMPROVEMENT 1e-5 /* a relative one below this ends the refinement */
#define EXPONENT_MAX 8.0 /* of the power law */
#define EXPONENT_MIN 0.01
#define EXPONENTS 20u /* scanned */

/* ---- linear problems with non-negative coefficients ------------------------------------------ */

struct normal {
	double g[COEFFICIENTS][COEFFICIENTS], h[COEFFICIENTS]; /* minimize a'ga - 2h'a */
};

/* The unconstrained optimum over the coefficients in `mask`, by Cholesky, columns scaled to unit
 * length.  0: they are dependent, or one of the solution is negative. */
static int
solve_subset(const struct normal *n, const double *scale, uint32_t mask, double *a)
{
	uint32_t at[COEFFICIENTS], count = 0;
	double l[COEFFICIENTS][COEFFICIENTS], z[COEFFICIENTS];

	for (uint32_t j = 0; j < COEFFICIENTS; j++) {
		a[j] = 0;
		if ((mask >> j & 1) != 0)
			at[count++] = j;
	}
	for (uint32_t i = 0; i < count; i++) {
		double sum;

		for (uint32_t j = 0; j <= i; j++) {
			sum = n->g[at[i]][at[j]] * scale[at[i]] * scale[at[j]];
			for (uint32_t k = 0; k < j; k++)
				sum -= l[i][k] * l[j][k];
			if (j < i)
				l[i][j] = sum * l[j][j];
			else if (sum > PIVOT_MIN)
				l[i][i] = 1 / sqrt(sum); /* the inverse */
			else
				return 0;
		}
		sum = n->h[at[i]] * scale[at[i]];
		for (uint32_t k = 0; k < i; k++)
			sum -= l[i][k] * z[k];
		z[i] = sum * l[i][i];
	}
	for (uint32_t i = count; i-- > 0;) {
		for (uint32_t k = i + 1; k < count; k++)
			z[i] -= l[k][i] * z[k];
		z[i] *= l[i][i];
		a[at[i]] = z[i] * scale[at[i]];
		if (!(a[at[i]] >= 0))
			return 0;
	}
	return 1;
}

/* At most 15 sets of positive coefficients. */
static void
solve_nonnegative(const struct normal *n, double *best)
{
	double scale[COEFFICIENTS], a[COEFFICIENTS], least = 0;
	uint32_t all = 0;

	for (uint32_t j = 0; j < COEFFICIENTS; j++) {
		best[j] = 0;
		scale[j] = n->g[j][j] > 0 ? 1 / sqrt(n->g[j][j]) : 0;
		if (scale[j] > 0 && isfinite(scale[j]))
			all |= 1u << j;
	}
	for (uint32_t mask = all; mask > 0; mask = (mask - 1) & all) {
		double value = 0;

		if (!solve_subset(n, scale, mask, a))
			continue;
		for (uint32_t j = 0; j < COEFFICIENTS; j++)
			value -= n->h[j] * a[j];
		if (value < least) {
			least = value;
			memcpy(best, a, sizeof a);
		}
		if (mask == all)
			return; /* no other can be better */
	}
}

/* ---- 1 / (a0 x^2 + a1 x + a2) + a3 ------------------------------------------------------------
 */

double
espl_inverse_at(const double a[4], double x)
{
	return 1 / ((a[0] * x + a[1]) * x + a[2]) + a[3];
}

static double
sum_inverse_error(const struct espl_samples *s, const double a[4])
{
	double sum = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		double r = s->y[i] - espl_inverse_at(a, s->x[i]);

		sum += s->w[i] * r * r;
	}
	return sum;
}

static void
linearize(const struct espl_samples *s, const double *a, struct normal *n)
{
	double g00 = 0, g01 = 0, g02 = 0, g12 = 0, g22 = 0, g03 = 0, g13 = 0, g23 = 0, g33 = 0;
	double r0 = 0, r1 = 0, r2 = 0, r3 = 0;

	/* The derivatives are -x^2 / q^2, -x / q^2, -1 / q^2 and 1. */
	for (uint32_t i = 0; i < s->count; i++) {
		double x = s->x[i], p = 1 / ((a[0] * x + a[1]) * x + a[2]), d = -p * p;
		double w = s->w[i], wd = w * d, wdd = wd * d, wr = w * (s->y[i] - p - a[3]);
		double xx = x * x;

		g22 += wdd;
		g12 += wdd * x;
		g02 += wdd * xx;
		g01 += wdd * xx * x;
		g00 += wdd * xx * xx;
		g23 += wd;
		g13 += wd * x;
		g03 += wd * xx;
		g33 += w;
		r3 += wr;
		r2 += wr * d;
		r1 += wr * d * x;
		r0 += wr * d * xx;
	}
	*n = (struct normal){
		.g = { { g00, g01, g02, g03 }, { g01, g02, g12, g13 }, { g02, g12, g22, g23 },
		    { g03, g13, g23, g33 } },
		.h = { r0, r1, r2, r3 },
	};
	for (uint32_t i = 0; i < COEFFICIENTS; i++)
		for (uint32_t j = 0; j < COEFFICIENTS; j++)
			n->h[i] += n->g[i][j] * a[j];
}

/* Improves a given a by Gauss-Newton steps. */
static double
improve_inverse(const struct espl_samples *s, double a[4])
{
	double sse = sum_inverse_error(s, a);

	for (int step = 0; step < STEPS_MAX && sse > 0 && isfinite(sse); step++) {
		struct normal n;
		double target[COEFFICIENTS], next[COEFFICIENTS], less = sse, share = 1;
		int halving = 0;

		linearize(s, a, &n);
		solve_nonnegative(&n, target);
		for (; halving < HALVINGS_MAX; halving++, share /= 2) {
			for (uint32_t j = 0; j < COEFFICIENTS; j++)
				next[j] = a[j] + share * (target[j] - a[j]);
			less = sum_inverse_error(s, next);
			if (less < sse)
				break;
		}
		if (halving == HALVINGS_MAX)
			break;
		memcpy(a, next, sizeof next);
		share = sse - less;
		sse = less;
		if (share < IMPROVEMENT * sse)
			break;
	}
	return sse;
}

/* ---- its starts -------------------------------------------------------------------------------
 */

struct start {
	double a[COEFFICIENTS], sse;
};

/* For a3 = floor: 1 / (y - a3) = a0 x^2 + a1 x + a2, weighted with (y - a3)^4 so that errors
 * count as those of y. */
static void
try_floor(const struct espl_samples *s, double floor, struct start *best)
{
	struct normal n = { 0 };
	double a[COEFFICIENTS], sse;

	for (uint32_t i = 0; i < s->count; i++) {
		double x = s->x[i], d = s->y[i] - floor, w = s->w[i] * d * d * d * d, xx = x * x;

		n.g[2][2] += w;
		n.g[1][2] += w * x;
		n.g[0][2] += w * xx;
		n.g[0][1] += w * xx * x;
		n.g[0][0] += w * xx * xx;
		n.h[2] += w / d;
		n.h[1] += w / d * x;
		n.h[0] += w / d * xx;
	}
	n.g[1][1] = n.g[0][2];
	n.g[1][0] = n.g[0][1];
	n.g[2][0] = n.g[0][2];
	n.g[2][1] = n.g[1][2];
	solve_nonnegative(&n, a);
	a[3] = floor;
	sse = sum_inverse_error(s, a);
	if (sse < best->sse) {
		memcpy(best->a, a, sizeof a);
		best->sse = sse;
	}
}

static void
scan_floors(const struct espl_samples *s, struct start *best)
{
	static const double shares[] = { 0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995 };
	double least = s->y[0];

	for (uint32_t i = 1; i < s->count; i++)
		least = s->y[i] < least ? s->y[i] : least;
	if (least > 0)
		for (uint32_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
			try_floor(s, shares[i] * least, best);
}

struct sums {
	double w, y, yy, wy[ESPL_EXTRAPOLATE_POINTS];
};

/* s / (u x^2 + v x + 1) + a3: the best s and a3, neither negative. */
static struct start
fit_shape(const struct espl_samples *s, const struct sums *sums, double u, double v)
{
	double r1 = 0, r2 = 0, ry = 0, scale, floor, det, sse;

	for (uint32_t i = 0; i < s->count; i++) {
		double r = 1 / ((u * s->x[i] + v) * s->x[i] + 1), wr = s->w[i] * r;

		r1 += wr;
		r2 += wr * r;
		ry += sums->wy[i] * r;
	}
	det = r2 * sums->w - r1 * r1;
	scale = det > 0 ? (ry * sums->w - r1 * sums->y) / det : 0;
	floor = det > 0 ? (r2 * sums->y - r1 * ry) / det : 0;
	if (!(floor >= 0)) {
		floor = 0;
		scale = ry / r2;
	}
	if (!(scale > 0))
		return (struct start){ { 0, 0, 0, 0 }, INFINITY };
	sse = sums->yy + scale * (scale * r2 - 2 * ry) +
	    floor * (floor * sums->w - 2 * sums->y + 2 * scale * r1);
	return (struct start){ { u / scale, v / scale, 1 / scale, floor }, sse };
}

static void
scan_shapes(const struct espl_samples *s, struct start best[STARTS])
{
	struct sums sums = { .w = 0 };
	double u = 0, v;

	for (uint32_t i = 0; i < s->count; i++) {
		sums.wy[i] = s->w[i] * s->y[i];
		sums.w += s->w[i];
		sums.y += sums.wy[i];
		sums.yy += sums.wy[i] * s->y[i];
	}
	for (uint32_t i = 0; i < GRID; i++, u = u == 0 ? 0.1 : 2.6 * u) {
		v = 0;
		for (uint32_t j = 0; j < GRID; j++, v = v == 0 ? 0.1 : 2.6 * v) {
			struct start start = fit_shape(s, &sums, u, v);
			uint32_t at = STARTS;

			if ((i == 0 && j == 0) || !(start.sse < best[STARTS - 1].sse))
				continue;
			while (at > 0 && start.sse < best[at - 1].sse)
				at--;
			memmove(best + at + 1, best + at, (STARTS - 1 - at) * sizeof *best);
			best[at] = start;
		}
	}
}

/* The constant: the value of a curve that does not fall. */
static double
fit_constant(const struct espl_samples *s, double a[4])
{
	double w = 0, y = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		w += s->w[i];
		y += s->w[i] * s->y[i];
	}
	a[0] = a[1] = 0;
	a[2] = INFINITY;
	a[3] = y / w;
	return sum_inverse_error(s, a);
}

double
espl_fit_inverse(const struct espl_samples *s, double a[4])
{
	struct start starts[STARTS + 1];
	double least = fit_constant(s, a);

	ESPL_ASSERT(s->count > 0 && s->count <= ESPL_EXTRAPOLATE_POINTS);
	for (uint32_t i = 0; i <= STARTS; i++)
		starts[i] = (struct start){ { 0, 0, 0, 0 }, INFINITY };
	scan_floors(s, &starts[STARTS]);
	scan_shapes(s, starts);
	for (uint32_t i = 0; i <= STARTS; i++) {
		double sse = isfinite(starts[i].sse) ? improve_inverse(s, starts[i].a) : INFINITY;

		if (sse < least) {
			least = sse;
			memcpy(a, starts[i].a, sizeof starts[i].a);
		}
	}
	return least;
}

/* ---- p0 + p1 x^-p2 ----------------------------------------------------------------------------
 */

double
espl_power_at(const double p[3], double x)
{
	return p[1] > 0 ? p[0] + p[1] * exp(-p[2] * log(x)) : p[0];
}

/* For this exponent the best p0 and p1, neither negative. */
static double
fit_exponent(const struct espl_samples *s, const double *logs, double exponent, double p[3])
{
	double w = 0, y = 0, yy = 0, r1 = 0, r2 = 0, ry = 0, det;

	for (uint32_t i = 0; i < s->count; i++) {
		double r = exp(-exponent * logs[i]), wi = s->w[i], wy = wi * s->y[i];

		w += wi;
		y += wy;
		yy += wy * s->y[i];
		r1 += wi * r;
		r2 += wi * r * r;
		ry += wy * r;
	}
	det = r2 * w - r1 * r1;
	p[2] = exponent;
	p[1] = det > 0 ? (ry * w - r1 * y) / det : 0;
	p[0] = det > 0 ? (r2 * y - r1 * ry) / det : 0;
	if (!(p[1] >= 0) || !(det > 0)) {
		p[1] = 0;
		p[0] = y / w;
	} else if (p[0] < 0) {
		p[0] = 0;
		p[1] = ry / r2;
	}
	return yy + p[1] * (p[1] * r2 - 2 * ry) + p[0] * (p[0] * w - 2 * y + 2 * p[1] * r1);
}

/* A scan over exponents, then a golden section search beside the best. */
double
espl_fit_power(const struct espl_samples *s, double p[3])
{
	static const double golden = 0.6180339887498949;
	const double ratio = pow(EXPONENT_MAX / EXPONENT_MIN, 1.0 / (EXPONENTS - 1));
	double logs[ESPL_EXTRAPOLATE_POINTS], q[3], least = INFINITY, low, high;

	ESPL_ASSERT(s->count > 0 && s->count <= ESPL_EXTRAPOLATE_POINTS);
	for (uint32_t i = 0; i < s->count; i++)
		logs[i] = log(s->x[i]);
	low = EXPONENT_MIN;
	for (uint32_t i = 0; i < EXPONENTS; i++, low *= ratio) {
		double sse = fit_exponent(s, logs, low, q);

		if (sse < least) {
			least = sse;
			memcpy(p, q, sizeof q);
		}
	}
	low = p[2] / ratio;
	high = p[2] * ratio;
	for (int i = 0; i < 16; i++) {
		double one = high - golden * (high - low), two = low + golden * (high - low);
		double x[3], y[3], ex = fit_exponent(s, logs, one, x);
		double ey = fit_exponent(s, logs, two, y);

		if (ex < ey)
			high = two;
		else
			low = one;
		if (ex < least || ey < least) {
			least = ex < ey ? ex : ey;
			memcpy(p, ex < ey ? x : y, sizeof x);
		}
	}
	return least;
}
