/* curve_fit.h - least squares with non-negative coefficients, for extrapolate.c and its tests. */
#ifndef KIT_CURVE_FIT_H
#define KIT_CURVE_FIT_H
#include <stdint.h>
#include "extrapolate.h"

/* What is fitted: x in (0, 1], y in [0, 1], positive weights. */
struct espl_samples {
	uint32_t count, zero;
	double x[ESPL_EXTRAPOLATE_POINTS], y[ESPL_EXTRAPOLATE_POINTS], w[ESPL_EXTRAPOLATE_POINTS];
};

/* 1 / (a0 x^2 + a1 x + a2) + a3.  Returns the weighted sum of squares. */
double espl_fit_inverse(const struct espl_samples *, double a[4]);
double espl_inverse_at(const double a[4], double x);

/* p0 + p1 x^-p2.  Returns the weighted sum of squares. */
double espl_fit_power(const struct espl_samples *, double p[3]);
double espl_power_at(const double p[3], double x);
#endif
