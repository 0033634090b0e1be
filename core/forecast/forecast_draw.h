/* forecast_draw.h - random latencies, by the inverse of their distribution.
 *
 * Every draw is a function of a number in (0, 1), which is itself a function of (key, n): draws
 * can be made in any order and in any number, and spread evenly over the distribution
 * (stratified), so that the mean of few samples is close to the true one.  Constant latencies
 * cost no draw.
 */
#ifndef ESPL__FORECAST_DRAW_H
#define ESPL__FORECAST_DRAW_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <espalier/abi.h>

#include "base/rng.h"

/* Quantiles of the normal distribution: cubics over the 32 parts of each octave of the tail. */
#define ESPL__NORMAL_OCTAVES 55 /* probabilities from 2^-56 to 2^-1 */
#define ESPL__NORMAL_PARTS 32
struct espl__normal {
	double c[ESPL__NORMAL_OCTAVES * ESPL__NORMAL_PARTS + 1][4];
};
void espl__normal_fill(struct espl__normal *);

struct espl__dist {
	espl_distribution kind; /* ESPL_CONSTANT: it is `mean` */
	double mean, sd;        /* what draws have on the average */
	double a, b;            /* NORMAL: a + b z, at least 0; LOGNORMAL: its logarithm */
	double keep;            /* NORMAL: probability of being above 0 */
	const double *samples;  /* EMPIRICAL */
	uint32_t count;
};
/* What a latency draws from; NULL: 0 s. */
void espl__dist_of(const struct espl_latency *, struct espl__dist *);

/* Probability of a draw below x. */
double espl__dist_below(const struct espl__dist *, double x);

/* Is it normal, with next to nothing below 0? */
static inline int
espl__dist_whole(const struct espl__dist *d)
{
	return d->kind == ESPL_NORMAL && d->keep > 0.999;
}

/* of independent draws: `times` of `one` */
struct espl__sum {
	struct espl__dist one;
	uint32_t times;
};
/* A sum of `count` draws: each by itself while they are few, else one draw of the same mean and
 * variance: normal, or lognormal where a normal one would reach below 0. */
void espl__sum_of(const struct espl__dist *, double count, struct espl__sum *);

static inline double
espl__sum_mean(const struct espl__sum *sum)
{
	return sum->one.mean * sum->times;
}

static inline int
espl__sum_random(const struct espl__sum *sum)
{
	return sum->one.kind != ESPL_CONSTANT && sum->times > 0;
}

/* ---- random numbers ------------------------------------------------------------------ */

/* The key of the n-th stream below this one. */
static inline uint64_t
espl__subkey(uint64_t key, uint64_t n)
{
	return espl__mix_bits(key ^ espl__mix_bits(n + UINT64_C(0x9e3779b97f4a7c15)));
}

/* The n-th number of a stream, in (0, 1). */
static inline double
espl__unit(uint64_t key, uint64_t n)
{
	uint64_t z = espl__mix_bits(key + (n + 1) * UINT64_C(0x9e3779b97f4a7c15));

	return ((double)(z >> 12) + 0.5) * 0x1p-52;
}

/* z with probability q in (0, 1) above it, to about 1e-7.  Without branches: q is random. */
static inline double
espl__normal_upper(const struct espl__normal *normal, double q)
{
	double r = 1.0 - q, p = q < r ? q : r, x;
	const double *c;
	uint64_t bits;

	p = p > 0x1p-56 ? p : 0x1p-56;
	memcpy(&bits, &p, sizeof bits);
	/* 11 bits of exponent, then 5 that tell the part of the octave, then the place in it. */
	c = normal->c[(bits >> 47) - ((UINT64_C(1023) - 56) << 5)];
	x = (double)(int64_t)(bits & ((UINT64_C(1) << 47) - 1)) * 0x1p-47;
	x = c[0] + x * (c[1] + x * (c[2] + x * c[3]));
	return copysign(x, 0.5 - q);
}

static inline double
espl__dist_at(const struct espl__dist *d, const struct espl__normal *normal, double u)
{
	double v;
	uint32_t i;

	switch (d->kind) {
	case ESPL_NORMAL:
		v = d->a + d->b * espl__normal_upper(normal, (1.0 - u) * d->keep);
		return v > 0 ? v : 0.0;
	case ESPL_LOGNORMAL: return exp(d->a + d->b * espl__normal_upper(normal, 1.0 - u));
	case ESPL_EMPIRICAL:
		i = (uint32_t)(u * d->count);
		return d->samples[i < d->count ? i : d->count - 1];
	default: return d->mean;
	}
}

/* Adds `count` draws to out[0], out[stride], ...: one from each of `count` equally
 * likely parts of the distribution, in random order.  order: room for `count` numbers. */
void espl__dist_spread(const struct espl__dist *, const struct espl__normal *, uint64_t key,
    uint32_t count, uint32_t *order, double *out, size_t stride);
#endif
