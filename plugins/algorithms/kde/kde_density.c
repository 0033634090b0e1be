/* kde_density.c - kernels, their bandwidths, sums and draws (kde.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kde.h"

#define ROOT_2 1.4142135623730951
#define ROOT_2PI 2.5066282746310002

espl_status
kde_density_init(struct kde_density *density, const struct kde_axis *axes, uint32_t axis_count,
    uint32_t points_max)
{
	uint32_t a, conditional = 0;
	size_t cells;

	ESPL_ASSERT(points_max > 0);
	memset(density, 0, sizeof *density);
	density->axes = axes;
	density->axis_count = axis_count;
	density->room = (points_max + KDE_BLOCK - 1) / KDE_BLOCK * KDE_BLOCK;
	cells = (size_t)axis_count * density->room;
	density->points = calloc(cells + 1, sizeof *density->points);
	density->kernels = calloc((size_t)axis_count + 1, sizeof *density->kernels);
	for (a = 0; a < axis_count; a++)
		conditional |= axes[a].conditional;
	if (density->points == NULL || density->kernels == NULL)
		return ESPL_E_NOMEM;
	if (conditional == 0)
		return ESPL_OK;
	density->given = calloc(cells, sizeof *density->given);
	density->active = calloc(cells + axis_count, sizeof *density->active);
	return density->given == NULL || density->active == NULL ? ESPL_E_NOMEM : ESPL_OK;
}

void
kde_density_free(struct kde_density *density)
{
	free(density->points);
	free(density->kernels);
	free(density->given);
	free(density->active);
	memset(density, 0, sizeof *density);
}

void
kde_density_begin(struct kde_density *density, uint32_t count)
{
	ESPL_ASSERT(count > 0);
	density->count = count < density->room ? count : density->room;
}

/* ---- inactive parameters --------------------------------------------------------------------- */

/* A whole number in 0..limit-1. */
static uint32_t
draw_below(const struct espl_host *host, uint32_t limit)
{
	ESPL_ASSERT(limit > 0);
	return (uint32_t)(espl_uniform(host) * limit);
}

/* A donor gives all that is still missing, as far as it has it itself; so parameters that are
 * active together keep values that were tried together. */
static void
impute_point(struct kde_density *density, const struct espl_host *host, uint32_t i)
{
	uint32_t a, b, donor;
	size_t room = density->room;

	for (a = 0; a < density->axis_count; a++) {
		const uint32_t *list = &density->active[a * (room + 1)];
		double *value = &density->points[a * room + i];

		if (!isnan(*value))
			continue;
		if (list[0] == 0) {
			*value = density->axes[a].labels > 0
			    ? (double)draw_below(host, density->axes[a].labels)
			    : espl_uniform(host);
			continue;
		}
		donor = list[1 + draw_below(host, list[0])];
		for (b = a; b < density->axis_count; b++)
			if (isnan(density->points[b * room + i]))
				density->points[b * room + i] = density->given[b * room + donor];
	}
}

void
kde_density_impute(struct kde_density *density, const struct espl_host *host)
{
	uint32_t a, i;
	size_t room = density->room;

	if (density->given == NULL)
		return;
	memcpy(density->given, density->points,
	    density->axis_count * room * sizeof *density->given);
	for (a = 0; a < density->axis_count; a++) {
		uint32_t *list = &density->active[a * (room + 1)];

		list[0] = 0;
		for (i = 0; i < density->count && density->axes[a].conditional; i++)
			if (!isnan(density->given[a * room + i]))
				list[++list[0]] = i;
	}
	for (i = 0; i < density->count; i++)
		impute_point(density, host, i);
}

/* ---- bandwidths ------------------------------------------------------------------------------ */

static double
standard_deviation(const double *x, uint32_t count)
{
	double mean = 0, sum = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		mean += x[i];
	mean /= count;
	for (i = 0; i < count; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	return sqrt(sum / count);
}

/* The ratio of neighboring labels that gives a two-sided geometric kernel (1 - w) w^|k| / 2 this
 * deviation, in labels: w (1 + w) / (1 - w)^2 = deviation^2. */
static double
geometric_ratio(double rule)
{
	double square = rule * rule;

	return 2 * square / (1 + 2 * square + sqrt(1 + 8 * square));
}

static void
set_kernel(const struct kde_axis *axis, struct kde_kernel *kernel, double width_min)
{
	double h, labels = axis->labels, evenly = (labels - 1) / labels;

	kernel->same = kernel->other = kernel->slope = kernel->scale = 0;
	if (axis->labels == 0) {
		kernel->width = fmax(kernel->rule, width_min);
		kernel->scale = 1 / (ROOT_2 * kernel->width);
	} else if (axis->labels == 1) {
		kernel->width = width_min; /* nothing to tell apart */
	} else if (axis->ordered) {
		kernel->width = h = fmin(fmax(geometric_ratio(kernel->rule), width_min), 0.999);
		kernel->same = log(1 - h);
		kernel->other = log((1 - h) / 2);
		kernel->slope = log(h);
	} else {
		/* Beyond `evenly` a label would count less than those it is not. */
		kernel->width = h = fmin(fmax(kernel->rule, width_min), evenly);
		kernel->same = log(1 - h);
		kernel->other = log(h / (labels - 1));
	}
}

void
kde_density_fit(struct kde_density *density, double width_min)
{
	double shrink = pow(density->count, -1.0 / (4.0 + density->axis_count));
	uint32_t a;

	ESPL_ASSERT(density->count > 0 && density->count <= density->room);
	density->factor = 1.0 / density->count;
	for (a = 0; a < density->axis_count; a++) {
		struct kde_kernel *kernel = &density->kernels[a];

		kernel->rule = 1.06 * shrink *
		    standard_deviation(&density->points[(size_t)a * density->room], density->count);
		set_kernel(&density->axes[a], kernel, width_min);
		if (density->axes[a].labels == 0)
			density->factor /= ROOT_2PI * kernel->width;
	}
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Adds the logarithms of one axis' kernels, between x and a block of points.  Without branches: a
 * compiler can do several points at a time. */
static void
add_axis(const struct kde_axis *axis, const struct kde_kernel *kernel, double x,
    const double *points, double *sums)
{
	double scale = kernel->scale, other = kernel->other, more = kernel->same - other;
	double slope = kernel->slope;
	uint32_t i;

	if (axis->labels == 0) {
		for (i = 0; i < KDE_BLOCK; i++) {
			double t = (points[i] - x) * scale;

			sums[i] -= t * t;
		}
	} else if (axis->ordered) {
		for (i = 0; i < KDE_BLOCK; i++)
			sums[i] +=
			    other + (points[i] == x ? more : 0.0) + fabs(points[i] - x) * slope;
	} else {
		for (i = 0; i < KDE_BLOCK; i++)
			sums[i] += other + (points[i] == x ? more : 0.0);
	}
}

double
kde_density_at(const struct kde_density *density, const double *x, double enough)
{
	double sums[KDE_BLOCK], sum = 0;
	uint32_t a, i, from;

	for (from = 0; from < density->count && !(sum * density->factor >= enough);
	     from += KDE_BLOCK) {
		uint32_t left = density->count - from;

		memset(sums, 0, sizeof sums);
		for (a = 0; a < density->axis_count; a++)
			add_axis(&density->axes[a], &density->kernels[a], x[a],
			    &density->points[(size_t)a * density->room + from], sums);
		for (i = 0; i < KDE_BLOCK && i < left; i++)
			sum += exp(sums[i]);
	}
	return sum * density->factor;
}

/* ---- draws ----------------------------------------------------------------------------------- */

static double
evaluate_polynomial(const double *c, double x)
{
	double sum = c[7];
	uint32_t i;

	for (i = 7; i > 0; i--)
		sum = sum * x + c[i - 1];
	return sum;
}

/* Where the standard normal distribution reaches p: Wichura, "The percentage points of the normal
 * distribution" (Applied Statistics 37, 1988), to 1e-15. */
static double
normal_quantile(double p)
{
	static const double near_up[8] = { 3.3871328727963666080e0, 1.3314166789178437745e2,
		1.9715909503065514427e3, 1.3731693765509461125e4, 4.5921953931549871457e4,
		6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3 };
	static const double near_low[8] = { 1.0, 4.2313330701600911252e1, 6.8718700749205790830e2,
		5.3941960214247511077e3, 2.1213794301586595867e4, 3.9307895800092710610e4,
		2.8729085735721942674e4, 5.2264952788528545610e3 };
	static const double mid_up[8] = { 1.42343711074968357734e0, 4.63033784615654529590e0,
		5.76949722146069140550e0, 3.64784832476320460504e0, 1.27045825245236838258e0,
		2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4 };
	static const double mid_low[8] = { 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
		6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
		5.47593808499534494600e-4, 1.05075007164441684324e-9 };
	static const double far_up[8] = { 6.65790464350110377720e0, 5.46378491116411436990e0,
		1.78482653991729133580e0, 2.96560571828504891230e-1, 2.65321895265761230930e-2,
		1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7 };
	static const double far_low[8] = { 1.0, 5.99832206555887937690e-1,
		1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
		1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15 };
	double from_middle = p - 0.5, r;

	if (fabs(from_middle) <= 0.425) {
		r = 0.180625 - from_middle * from_middle;
		return from_middle * evaluate_polynomial(near_up, r) /
		    evaluate_polynomial(near_low, r);
	}
	r = sqrt(-log(from_middle < 0 ? p : 1 - p));
	r = r <= 5 ? evaluate_polynomial(mid_up, r - 1.6) / evaluate_polynomial(mid_low, r - 1.6)
		   : evaluate_polynomial(far_up, r - 5) / evaluate_polynomial(far_low, r - 5);
	return from_middle < 0 ? -r : r;
}

/* Normal about `mean` in [0, 1], cut off at 0 and 1. */
static double
truncated_normal(const struct espl_host *host, double mean, double width)
{
	double low = 0.5 * erfc(mean / (width * ROOT_2));
	double high = 0.5 * erfc((mean - 1) / (width * ROOT_2));
	double p = low + espl_uniform(host) * (high - low);

	if (p <= 0)
		return 0;
	if (p >= 1)
		return 1;
	return fmin(fmax(mean + width * normal_quantile(p), 0), 1);
}

/* A label: its probability falls by `ratio` with each step from `middle`, which has twice its part.
 */
static double
geometric_label(const struct espl_host *host, double middle, double ratio, uint32_t labels)
{
	double up = middle, sum, part, u;
	uint32_t i, below_it = (uint32_t)middle, above = labels - 1 - below_it;

	ESPL_ASSERT(below_it < labels && ratio < 1);
	sum = 2 + (ratio - pow(ratio, below_it + 1.0)) / (1 - ratio) +
	    (ratio - pow(ratio, above + 1.0)) / (1 - ratio);
	u = espl_uniform(host) * sum - 2;
	for (i = 1, part = ratio; u >= 0 && i < labels; i++, part *= ratio) {
		if (i <= below_it && (u -= part) < 0)
			up = middle - i;
		else if (i <= above && u >= 0 && (u -= part) < 0)
			up = middle + i;
	}
	return up;
}

void
kde_density_draw(const struct kde_density *density, const struct espl_host *host, double wider,
    double *x)
{
	uint32_t a, i = draw_below(host, density->count);

	for (a = 0; a < density->axis_count; a++) {
		const struct kde_axis *axis = &density->axes[a];
		const struct kde_kernel *kernel = &density->kernels[a];
		double point = density->points[(size_t)a * density->room + i];

		if (axis->labels == 0)
			x[a] = truncated_normal(host, point, wider * kernel->width);
		else if (axis->ordered)
			x[a] = geometric_label(host, point,
			    fmin(fmax(geometric_ratio(wider * kernel->rule), kernel->width), 0.999),
			    axis->labels);
		else if (espl_uniform(host) < 1 - kernel->width)
			x[a] = point;
		else
			x[a] = (double)draw_below(host, axis->labels);
	}
}
