/* portable.c - see portable.h. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "portable.h"

#define LN2_HIGH 6.93147180369123816490e-01 /* 32 bits, so that k * LN2_HIGH is exact */
#define LN2_LOW 1.90821492927058770002e-10
#define ROOT_2PI 2.5066282746310005
#define TAIL 3.0 /* beyond it the continued fraction converges quickly */

double
portable_exp(double x)
{
	double k, r, sum = 1;
	uint64_t bits;
	int i;

	if (x < -708)
		return 0;
	if (x > 709)
		x = 709;
	k = floor(x * 1.4426950408889634 + 0.5);
	r = (x - k * LN2_HIGH) - k * LN2_LOW;
	for (i = 13; i > 0; i--)
		sum = 1 + sum * r / i;
	bits = (uint64_t)((int64_t)k + 1023) << 52;
	memcpy(&k, &bits, sizeof k);
	return sum * k;
}

double
portable_log(double x)
{
	double s, square, sum = 0;
	int e, i;

	if (!(x > 0))
		return -708;
	x = frexp(x, &e);
	if (x < 0.70710678118654752) {
		x *= 2;
		e--;
	}
	s = (x - 1) / (x + 1);
	square = s * s;
	for (i = 21; i > 0; i -= 2)
		sum = sum * square + 1.0 / i;
	return e * LN2_HIGH + (2 * s * sum + e * LN2_LOW);
}

/* x >= TAIL: T in Phi(-x) / phi(x) = 1 / (x + T), a continued fraction. */
static double
tail_fraction(double x)
{
	double t = 0;
	int i;

	for (i = 60; i > 0; i--)
		t = i / (x + t);
	return t;
}

static double
density(double x)
{
	return portable_exp(-0.5 * x * x) / ROOT_2PI;
}

double
portable_normal(double x)
{
	double term = x, sum = x;
	int k;

	if (x > TAIL)
		return 1 - portable_normal(-x);
	if (x < -TAIL)
		return density(x) / (-x + tail_fraction(-x));
	for (k = 1; k < 60; k++) {
		term *= x * x / (2 * k + 1);
		sum += term;
	}
	return 0.5 + density(x) * sum;
}

double
portable_log_improvement(double z)
{
	double t;

	if (z >= -TAIL)
		return portable_log(density(z) + z * portable_normal(z));
	/* phi(z) (1 - |z| / (|z| + T)), without the difference */
	t = tail_fraction(-z);
	return -0.5 * z * z - portable_log(ROOT_2PI) + portable_log(t / (t - z));
}

void
portable_table_init(struct portable_table *table)
{
	uint32_t i;

	for (i = 0; i <= PORTABLE_STEPS; i++) {
		double x = -8 + i * (16.0 / PORTABLE_STEPS);

		table->value[i] = portable_normal(x);
		table->slope[i] = density(x) * (16.0 / PORTABLE_STEPS);
	}
}

double
portable_table_normal(const struct portable_table *table, double x)
{
	double at = (x + 8) * (PORTABLE_STEPS / 16.0), t, rest;
	uint32_t i;

	if (!(at > 0))
		return 0;
	if (at >= PORTABLE_STEPS)
		return 1;
	i = (uint32_t)at;
	t = at - i;
	rest = 1 - t;
	return (1 + 2 * t) * rest * rest * table->value[i] + t * rest * rest * table->slope[i] +
	    t * t * (3 - 2 * t) * table->value[i + 1] - t * t * rest * table->slope[i + 1];
}
