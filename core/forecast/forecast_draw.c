/* forecast_draw.c - distributions made ready for drawing: moments, quantiles, even spreads. */
#include "forecast/forecast_draw.h"

#define FEW 16.0  /* so many are drawn one by one */
#define CLEAR 6.0 /* so many deviations above 0 a normal sum must lie */

/* ---- quantiles of the normal distribution -------------------------------------------- */

/* z with probability p above it, by Newton's method on logarithms from a z somewhat too small. */
static double
find_upper_quantile(double p, double z)
{
	for (int i = 0; i < 8; i++) {
		double tail = 0.5 * erfc(z * sqrt(0.5));
		double density = exp(-z * z / 2) / sqrt(2 * acos(-1.0));

		z += (log(tail) - log(p)) * tail / density;
	}
	return z;
}

static double
knot_value(int i)
{
	return ldexp(1.0 + (double)(i % ESPL__NORMAL_PARTS) / ESPL__NORMAL_PARTS,
	    i / ESPL__NORMAL_PARTS - ESPL__NORMAL_OCTAVES - 1);
}

/* Hermite's cubic between neighboring knots: their values and slopes (dz/dp = -1 / density). */
void
espl__normal_fill(struct espl__normal *normal)
{
	const double root = sqrt(2 * acos(-1.0));
	int last = ESPL__NORMAL_OCTAVES * ESPL__NORMAL_PARTS;
	double right = 0.0, right_slope = -root;

	memset(normal->c[last], 0, sizeof normal->c[last]); /* p = 1/2 */
	for (int i = last - 1; i >= 0; i--) {
		double *c = normal->c[i], width = knot_value(i + 1) - knot_value(i);
		double left = find_upper_quantile(knot_value(i), right),
		       left_slope = -root * exp(left * left / 2);
		double rise = right - left, a = left_slope * width, b = right_slope * width;

		c[0] = left;
		c[1] = a;
		c[2] = 3 * rise - 2 * a - b;
		c[3] = a + b - 2 * rise;
		right = left;
		right_slope = left_slope;
	}
}

/* ---- distributions ------------------------------------------------------------------- */

static void
set_constant(struct espl__dist *d, double value)
{
	*d = (struct espl__dist){ .kind = ESPL_CONSTANT, .mean = value > 0 ? value : 0.0 };
}

/* What lies above 0 of a normal distribution. */
static void
set_truncated(struct espl__dist *d, double mean, double sd)
{
	double alpha = -mean / sd, keep = 0.5 * erfc(alpha * sqrt(0.5));
	double ratio = exp(-alpha * alpha / 2) / sqrt(2 * acos(-1.0)) / keep;
	double part = 1 + alpha * ratio - ratio * ratio;

	*d = (struct espl__dist){ .kind = ESPL_NORMAL,
		.mean = mean + sd * ratio,
		.sd = sd * sqrt(part > 0 ? part : 0.0),
		.a = mean,
		.b = sd,
		.keep = keep };
}

static void
set_lognormal(struct espl__dist *d, double mean, double sd)
{
	double square = log1p(sd / mean * (sd / mean));

	*d = (struct espl__dist){ .kind = ESPL_LOGNORMAL,
		.mean = mean,
		.sd = sd,
		.a = log(mean) - square / 2,
		.b = sqrt(square) };
}

static void
set_empirical(struct espl__dist *d, const struct espl_latency *l)
{
	double sum = 0.0, squares = 0.0, mean;
	int same = 1;

	for (uint32_t i = 0; i < l->sample_count; i++) {
		sum += l->samples_s[i];
		same &= l->samples_s[i] == l->samples_s[0];
	}
	if (same) {
		set_constant(d, l->samples_s[0]);
		return;
	}
	mean = sum / l->sample_count;
	for (uint32_t i = 0; i < l->sample_count; i++)
		squares += (l->samples_s[i] - mean) * (l->samples_s[i] - mean);
	*d = (struct espl__dist){ .kind = ESPL_EMPIRICAL,
		.mean = mean,
		.sd = sqrt(squares / l->sample_count),
		.samples = l->samples_s,
		.count = l->sample_count };
}

void
espl__dist_of(const struct espl_latency *l, struct espl__dist *d)
{
	if (l == NULL)
		set_constant(d, 0.0);
	else if (l->kind == ESPL_NORMAL && l->sd_s > 0)
		set_truncated(d, l->mean_s, l->sd_s);
	else if (l->kind == ESPL_LOGNORMAL && l->sd_s > 0 && l->mean_s > 0)
		set_lognormal(d, l->mean_s, l->sd_s);
	else if (l->kind == ESPL_EMPIRICAL && l->sample_count > 0)
		set_empirical(d, l);
	else
		set_constant(d, l->mean_s);
}

double
espl__dist_below(const struct espl__dist *d, double x)
{
	uint32_t count = 0;
	double below;

	switch (d->kind) {
	case ESPL_NORMAL:
		below = 1 - 0.5 * erfc((x - d->a) / d->b * sqrt(0.5)) / d->keep;
		return below > 0 ? below : 0.0;
	case ESPL_LOGNORMAL: return x > 0 ? 0.5 * erfc((d->a - log(x)) / d->b * sqrt(0.5)) : 0.0;
	case ESPL_EMPIRICAL:
		for (uint32_t i = 0; i < d->count; i++)
			count += d->samples[i] < x;
		return (double)count / d->count;
	default: return d->mean < x ? 1.0 : 0.0;
	}
}

void
espl__sum_of(const struct espl__dist *d, double count, struct espl__sum *sum)
{
	double mean = d->mean * count, sd = d->sd * sqrt(count);
	int clear = mean >= CLEAR * sd, few = count <= FEW;

	if (clear && espl__dist_whole(d))
		few = count <= 1; /* their sum is normal */
	sum->times = 1;
	if (d->kind == ESPL_CONSTANT || !(count > 0)) {
		set_constant(&sum->one, mean);
	} else if (few) {
		sum->one = *d;
		sum->times = (uint32_t)count;
	} else if (clear) {
		sum->one = (struct espl__dist){ .kind = ESPL_NORMAL,
			.mean = mean,
			.sd = sd,
			.a = mean,
			.b = sd,
			.keep = 1.0 };
	} else {
		set_lognormal(&sum->one, mean, sd);
	}
}

void
espl__dist_spread(const struct espl__dist *d, const struct espl__normal *normal, uint64_t key,
    uint32_t count, uint32_t *order, double *out, size_t stride)
{
	if (d->kind == ESPL_CONSTANT) {
		for (uint32_t i = 0; i < count; i++)
			out[i * stride] += d->mean;
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (uint32_t)(espl__unit(key, (uint64_t)count + i) * (i + 1));

		order[i] = order[at];
		order[at] = i;
	}
	for (uint32_t i = 0; i < count; i++)
		out[i * stride] +=
		    espl__dist_at(d, normal, (order[i] + espl__unit(key, i)) / count);
}
