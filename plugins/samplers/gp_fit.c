/* gp_fit.c - length scales, amplitude and noise: the most probable ones, by BFGS; and how losses
 * are bent.  See gp.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "gp.h"

#define ROOT_5 2.2360679774997897
#define JITTER 1e-8
#define STEPS_FIRST 25u /* of BFGS: at first, and from where the last fit ended */
#define STEPS_LATER 10u

/* priors of the logarithms, normal: mean and deviation */
#define SCALE_MEAN (-0.69) /* log(1/2), and half the logarithm of the number of parameters */
#define SCALE_SPREAD 1.0
#define AMPLITUDE_SPREAD 1.0
#define NOISE_MEAN (-9.0)
#define NOISE_SPREAD 3.0

espl_status
gp_fit_init(struct gp_fit *fit, uint32_t axis_count)
{
	size_t n = axis_count + (size_t)2, cells = (size_t)GP_FIT_MAX * GP_FIT_MAX;

	memset(fit, 0, sizeof *fit);
	fit->count = (uint32_t)n;
	fit->at = calloc(n, sizeof *fit->at);
	fit->distances = calloc(cells * (axis_count + (size_t)1), sizeof *fit->distances);
	fit->kernel = calloc(cells, sizeof *fit->kernel);
	fit->factor = calloc(cells, sizeof *fit->factor);
	fit->inverse = calloc(cells, sizeof *fit->inverse);
	fit->alpha = calloc(GP_FIT_MAX, sizeof *fit->alpha);
	fit->solved = calloc(GP_FIT_MAX, sizeof *fit->solved);
	fit->gradient = calloc(n, sizeof *fit->gradient);
	fit->trial = calloc(n, sizeof *fit->trial);
	fit->other = calloc(n, sizeof *fit->other);
	fit->step = calloc(n, sizeof *fit->step);
	fit->change = calloc(n, sizeof *fit->change);
	fit->curvature = calloc(n * n, sizeof *fit->curvature);
	return fit->at != NULL && fit->distances != NULL && fit->kernel != NULL &&
		fit->factor != NULL && fit->inverse != NULL && fit->alpha != NULL &&
		fit->solved != NULL && fit->gradient != NULL && fit->trial != NULL &&
		fit->other != NULL && fit->step != NULL && fit->change != NULL &&
		fit->curvature != NULL
	    ? ESPL_OK
	    : ESPL_E_NOMEM;
}

void
gp_fit_free(struct gp_fit *fit)
{
	free(fit->at);
	free(fit->distances);
	free(fit->kernel);
	free(fit->factor);
	free(fit->inverse);
	free(fit->alpha);
	free(fit->solved);
	free(fit->gradient);
	free(fit->trial);
	free(fit->other);
	free(fit->step);
	free(fit->change);
	free(fit->curvature);
}

int
gp_factor(double *matrix, uint32_t count, uint32_t size)
{
	uint32_t i, j, k;

	for (i = 0; i < count; i++) {
		double *row = &matrix[(size_t)i * size];

		for (j = 0; j <= i; j++) {
			const double *other = &matrix[(size_t)j * size];
			double sum = row[j];

			for (k = 0; k < j; k++)
				sum -= row[k] * other[k];
			if (j < i)
				row[j] = sum / other[j];
			else if (!(sum > 1e-14))
				return 0;
			else
				row[j] = sqrt(sum);
		}
	}
	return 1;
}

/* ---- how probable they are ------------------------------------------------------------------- */

static double
prior_mean(const struct gp_fit *fit, uint32_t i)
{
	if (i + 2 < fit->count)
		return SCALE_MEAN + 0.5 * portable_log(fit->count - 2.0);
	return i + 2 == fit->count ? 0 : NOISE_MEAN;
}

static double
prior_spread(const struct gp_fit *fit, uint32_t i)
{
	if (i + 2 < fit->count)
		return SCALE_SPREAD;
	return i + 2 == fit->count ? AMPLITUDE_SPREAD : NOISE_SPREAD;
}

static double
clamp(const struct gp_fit *fit, uint32_t i, double value)
{
	double low = i + 2 < fit->count ? -5 : i + 2 == fit->count ? -4 : -16;
	double high = i + 2 < fit->count ? 5 : i + 2 == fit->count ? 4 : 1;

	return value < low ? low : value > high ? high : value;
}

/* The factor of the matrix; kernel keeps (1 + sqrt 5 r) exp(-sqrt 5 r), which the
 * gradient needs. */
static int
factor_at(struct gp_fit *fit, const double *at, uint32_t n)
{
	uint32_t a, i, k, axes = fit->count - 2;
	double amplitude = portable_exp(at[axes]), noise = portable_exp(at[axes + 1]);

	memset(fit->kernel, 0, (size_t)n * n * sizeof *fit->kernel);
	for (a = 0; a < axes; a++) {
		double scale = portable_exp(-2 * at[a]);
		const double *d = &fit->distances[(size_t)a * GP_FIT_MAX * GP_FIT_MAX];

		for (i = 0; i < n; i++)
			for (k = 0; k < i; k++)
				fit->kernel[(size_t)i * n + k] += scale * d[(size_t)i * n + k];
	}
	for (i = 0; i < n; i++) {
		for (k = 0; k < i; k++) {
			double square = fit->kernel[(size_t)i * n + k], r = ROOT_5 * sqrt(square);
			double decay = portable_exp(-r);

			fit->factor[(size_t)i * n + k] =
			    amplitude * (1 + r + 5.0 / 3 * square) * decay;
			fit->kernel[(size_t)i * n + k] = (1 + r) * decay;
		}
		fit->factor[(size_t)i * n + i] = amplitude + noise + JITTER;
	}
	return gp_factor(fit->factor, n, n);
}

/* alpha: the inverse times the losses.  Returns the data's part of the negative logarithm. */
static double
solve_losses(struct gp_fit *fit, const double *losses, uint32_t n)
{
	double value = 0;
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		double sum = losses[i];

		for (k = 0; k < i; k++)
			sum -= fit->factor[(size_t)i * n + k] * fit->solved[k];
		fit->solved[i] = sum / fit->factor[(size_t)i * n + i];
		value += 0.5 * fit->solved[i] * fit->solved[i] +
		    portable_log(fit->factor[(size_t)i * n + i]);
	}
	for (i = n; i-- > 0;) {
		double sum = fit->solved[i];

		for (k = i + 1; k < n; k++)
			sum -= fit->factor[(size_t)k * n + i] * fit->alpha[k];
		fit->alpha[i] = sum / fit->factor[(size_t)i * n + i];
	}
	return value;
}

/* The inverse of the matrix from its factor, its lower half: of the factor first, then the product
 * with itself. */
static void
invert_factor(struct gp_fit *fit, uint32_t n)
{
	double *inverse = fit->inverse;
	const double *factor = fit->factor;
	uint32_t i, j, k;

	for (i = 0; i < n; i++) {
		double *row = &inverse[(size_t)i * n];

		memset(row, 0, i * sizeof *row);
		for (k = 0; k < i; k++) {
			double part = factor[(size_t)i * n + k];
			const double *other = &inverse[(size_t)k * n];

			for (j = 0; j <= k; j++)
				row[j] -= part * other[j];
		}
		row[i] = 1;
		for (j = 0; j <= i; j++)
			row[j] /= factor[(size_t)i * n + i];
	}
	/* row i of the product needs rows i and below: from the top down, in place */
	for (i = 0; i < n; i++)
		for (j = 0; j <= i; j++) {
			double sum = 0;

			for (k = i; k < n; k++)
				sum += inverse[(size_t)k * n + i] * inverse[(size_t)k * n + j];
			fit->factor[(size_t)i * n + j] = sum;
		}
}

/* The negative logarithm of how probable they are, and its gradient; infinite: not possible. */
static double
evaluate_fit(struct gp_fit *fit, const double *at, const double *losses, uint32_t n,
    double *gradient)
{
	uint32_t a, i, k, axes = fit->count - 2;
	double amplitude = portable_exp(at[axes]), noise = portable_exp(at[axes + 1]);
	double value, trace = 0, whole = 0; /* of the weights; of the weights times the matrix */

	if (!factor_at(fit, at, n))
		return HUGE_VAL;
	value = solve_losses(fit, losses, n);
	invert_factor(fit, n); /* into factor */
	memset(gradient, 0, fit->count * sizeof *gradient);
	for (i = 0; i < n; i++) {
		double own = fit->factor[(size_t)i * n + i] - fit->alpha[i] * fit->alpha[i];

		trace += own;
		whole += 1 - losses[i] * fit->alpha[i];
		for (k = 0; k < i; k++) {
			size_t at_pair = (size_t)i * n + k;
			double weight = fit->factor[at_pair] - fit->alpha[i] * fit->alpha[k];

			fit->kernel[at_pair] *= weight;
		}
	}
	for (a = 0; a < axes; a++) {
		const double *d = &fit->distances[(size_t)a * GP_FIT_MAX * GP_FIT_MAX];
		double sum = 0;

		for (i = 0; i < n; i++)
			for (k = 0; k < i; k++)
				sum += fit->kernel[(size_t)i * n + k] * d[(size_t)i * n + k];
		gradient[a] = sum * amplitude * 5.0 / 3 * portable_exp(-2 * at[a]);
	}
	gradient[axes] = 0.5 * (whole - trace * (noise + JITTER));
	gradient[axes + 1] = 0.5 * trace * noise;
	for (i = 0; i < fit->count; i++) {
		double spread = prior_spread(fit, i), off = (at[i] - prior_mean(fit, i)) / spread;

		value += 0.5 * off * off;
		gradient[i] += off / spread;
	}
	return value;
}

/* ---- BFGS ------------------------------------------------------------------------------------ */

static void
reset_curvature(struct gp_fit *fit)
{
	uint32_t i;

	memset(fit->curvature, 0, (size_t)fit->count * fit->count * sizeof *fit->curvature);
	for (i = 0; i < fit->count; i++)
		fit->curvature[(size_t)i * fit->count + i] = 1;
}

/* Downhill by the curvature seen so far, at most 2 in each coordinate; the slope there. */
static double
choose_step(struct gp_fit *fit)
{
	double slope = 0, most = 0;
	uint32_t i, k;

	for (i = 0; i < fit->count; i++) {
		fit->step[i] = 0;
		for (k = 0; k < fit->count; k++)
			fit->step[i] -=
			    fit->curvature[(size_t)i * fit->count + k] * fit->gradient[k];
		most = fabs(fit->step[i]) > most ? fabs(fit->step[i]) : most;
	}
	for (i = 0; i < fit->count; i++) {
		fit->step[i] *= most > 2 ? 2 / most : 1;
		slope += fit->step[i] * fit->gradient[i];
	}
	return slope;
}

/* The inverse of the curvature, after a change of place (step) and of gradient (change). */
static void
update_curvature(struct gp_fit *fit)
{
	uint32_t i, k, n = fit->count;
	double along = 0, square = 0;
	double *h = fit->curvature, *product = fit->trial;

	for (i = 0; i < n; i++)
		along += fit->step[i] * fit->change[i];
	if (!(along > 1e-10))
		return;
	for (i = 0; i < n; i++) {
		product[i] = 0;
		for (k = 0; k < n; k++)
			product[i] += h[(size_t)i * n + k] * fit->change[k];
	}
	for (i = 0; i < n; i++)
		square += fit->change[i] * product[i];
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++)
			h[(size_t)i * n + k] +=
			    (1 + square / along) * fit->step[i] * fit->step[k] / along -
			    (product[i] * fit->step[k] + fit->step[i] * product[k]) / along;
}

static void
minimize(struct gp_fit *fit, const double *losses, uint32_t n, uint32_t steps)
{
	double value = evaluate_fit(fit, fit->at, losses, n, fit->gradient);
	uint32_t i, tries;

	reset_curvature(fit);
	for (; steps > 0 && value < HUGE_VAL; steps--) {
		double slope = choose_step(fit), length = 1, next = HUGE_VAL;

		if (!(slope < 0)) {
			reset_curvature(fit);
			slope = choose_step(fit);
		}
		if (slope > -1e-5)
			return;
		for (tries = 0; tries < 6; tries++, length *= 0.35) {
			for (i = 0; i < fit->count; i++)
				fit->trial[i] = clamp(fit, i, fit->at[i] + length * fit->step[i]);
			next = evaluate_fit(fit, fit->trial, losses, n, fit->other);
			if (next <= value + 1e-4 * length * slope)
				break;
		}
		if (!(next < value))
			return;
		for (i = 0; i < fit->count; i++) {
			fit->step[i] = fit->trial[i] - fit->at[i];
			fit->change[i] = fit->other[i] - fit->gradient[i];
			fit->at[i] = fit->trial[i];
			fit->gradient[i] = fit->other[i];
		}
		value = next;
		update_curvature(fit);
	}
}

void
gp_fit_run(struct gp_fit *fit, const struct samples *s, const double *features,
    const double *losses, uint32_t count)
{
	uint32_t a, i, k, axes = fit->count - 2;

	ESPL_ASSERT(count <= GP_FIT_MAX);
	for (a = 0; a < axes; a++) {
		double *d = &fit->distances[(size_t)a * GP_FIT_MAX * GP_FIT_MAX];

		for (i = 0; i < count; i++)
			for (k = 0; k < i; k++) {
				double off =
				    features[(size_t)i * axes + a] - features[(size_t)k * axes + a];

				d[(size_t)i * count + k] =
				    s->axes[a].labels > 0 ? off != 0 : off * off;
			}
	}
	for (i = 0; i < fit->count && !fit->fitted; i++)
		fit->at[i] = i + 1 < fit->count ? prior_mean(fit, i) : -7;
	minimize(fit, losses, count, fit->fitted ? STEPS_LATER : STEPS_FIRST);
	fit->fitted = 1;
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Squares of losses near the limits of their type would not be finite: brought down by a power of
 * two, which changes nothing else. */
static void
tame(double *x, uint32_t n)
{
	double most = 0;
	uint32_t i;
	int exponent;

	for (i = 0; i < n; i++)
		most = fmax(most, fabs(x[i]));
	(void)frexp(most, &exponent);
	for (i = 0; i < n && exponent > 400; i++)
		x[i] = ldexp(x[i], -exponent);
}

static void
standardize(double *x, uint32_t n)
{
	double mean = 0, square = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		mean += x[i] / n;
	for (i = 0; i < n; i++)
		square += (x[i] - mean) * (x[i] - mean) / n;
	square = sqrt(square) + 1e-12;
	for (i = 0; i < n; i++)
		x[i] = (x[i] - mean) / square;
}

/* Yeo and Johnson's transformation, from -2 (which spreads the small ones) to 1 (as it is). */
static double
bend_one(double x, double power)
{
	double sign = 1;

	if (x < 0) {
		sign = -1;
		power = 2 - power;
		x = -x;
	}
	x = portable_log(1 + x);
	return sign * (fabs(power) < 1e-9 ? x : (portable_exp(power * x) - 1) / power);
}

static int
number_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void
gp_bend(double *losses, uint32_t count, double *room)
{
	static const double powers[] = { -2, -1.5, -1, -0.5, 0, 0.5, 1 };
	double middle, spread = 0, best = -HUGE_VAL, chosen = 1, logs = 0;
	uint32_t i, k;

	ESPL_ASSERT(count > 0);
	tame(losses, count);
	standardize(losses, count);
	memcpy(room, losses, count * sizeof *room);
	qsort(room, count, sizeof *room, number_order);
	middle = 0.5 * (room[(count - 1) / 2] + room[count / 2]);
	for (i = 0; i < count; i++) {
		losses[i] -= middle;
		logs += (losses[i] < 0 ? -1 : 1) * portable_log(1 + fabs(losses[i]));
	}
	for (k = 0; k < sizeof powers / sizeof powers[0]; k++) {
		double mean = 0, fits;

		spread = 0;
		for (i = 0; i < count; i++) {
			room[i] = bend_one(losses[i], powers[k]);
			mean += room[i] / count;
		}
		for (i = 0; i < count; i++)
			spread += (room[i] - mean) * (room[i] - mean) / count;
		fits = -0.5 * count * portable_log(spread + 1e-12) + (powers[k] - 1) * logs;
		if (fits > best) {
			best = fits;
			chosen = powers[k];
		}
	}
	for (i = 0; i < count; i++)
		losses[i] = bend_one(losses[i], chosen);
	standardize(losses, count);
}
