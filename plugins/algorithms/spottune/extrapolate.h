/* extrapolate.h - predicts where a learning curve ends from its beginning.
 *
 * EarlyCurve (SpotTune, ICDCS'20, equations 4 to 7), the single function of SLAQ (SoCC'17), a power
 * law, a damped power law, and the last value.  A prediction is never NaN, never below 0 and never
 * above the largest value of the prefix.  Nothing is allocated; equal input gives equal output.
 *
 * The functions expect a metric that decreases and stays positive: a loss, an error, a perplexity.
 * `ceiling` turns an increasing one into such a metric: ceiling - value.  Points that are not
 * finite are ignored.
 *
 * Use: espl_extrapolator_read once, espl_extrapolate for each curve.
 */
#ifndef SPOTTUNE_EXTRAPOLATE_H
#define SPOTTUNE_EXTRAPOLATE_H
#include <stddef.h>
#include <stdint.h>
#include <espalier/fleet.h>
enum {
	ESPL_EXTRAPOLATE_LAST = 1,   /* the last value */
	ESPL_EXTRAPOLATE_EARLYCURVE, /* 1 / (a0 k^2 + a1 k + a2) + a3, fitted to the last stage */
	ESPL_EXTRAPOLATE_SLAQ,       /* the same function, fitted to all points */
	ESPL_EXTRAPOLATE_POWER,      /* a + b k^-c */
	ESPL_EXTRAPOLATE_DAMPED      /* last value + half of the change that the power law expects,
				      * limited by recent progress */
};

/* Options of a fit.  espl_extrapolator_read sets all fields; they may be changed afterwards. */
struct espl_extrapolator {
	uint32_t kind;     /* ESPL_EXTRAPOLATE_* */
	uint32_t stages;   /* 1: only points of the last stage are fitted */
	uint32_t local;    /* 1: k is counted from the stage's first point, 0: from the curve's */
	uint32_t recent;   /* 1: weights halve with each tenth of the prefix, going back */
	uint32_t anchored; /* 1: last value + the change that the fit expects */
	uint32_t zero;
	double xi, eps; /* Eq. 7: a change above xi after five below eps begins a stage */
	double ceiling; /* > 0: the metric increases and cannot be larger; 0: it decreases */
};

/* Maximum number of points in a fit: a longer prefix is reduced to means of neighboring points. */
#define ESPL_EXTRAPOLATE_POINTS 256u

/* Reads "KIND[,OPTION=VALUE...]": last, earlycurve, slaq, power or damped; xi=, eps=,
 * step=local|global, weights=uniform|recent, anchor=none|last.  Returns NULL, or what is wrong,
 * written into text. */
const char *espl_extrapolator_read(struct espl_extrapolator *extrapolator, const char *words,
    char *text, size_t size);

/* How a prediction was made: the function's return value. */
enum {
	ESPL_EXTRAPOLATED_NONE,  /* no point is finite: the prediction is infinite (for a ceiling:
				  * minus infinity) */
	ESPL_EXTRAPOLATED_FIT,   /* by the function that was selected */
	ESPL_EXTRAPOLATED_FEW,   /* the last value: fewer than five points in the stage */
	ESPL_EXTRAPOLATED_RANGE, /* the last value: some values are below 0 (or above the ceiling)
				  */
	ESPL_EXTRAPOLATED_LAST /* the last value: it was selected, or the curve has reached `at` */
};
/* Predicts the value at x = `at` of a curve of which `count` points are known; x is positive and
 * rises. */
uint32_t espl_extrapolate(const struct espl_extrapolator *extrapolator,
    const struct espl_point *points, uint32_t count, double at, double *prediction);

/* Eq. 7: writes the indices of the first points of at most `room` stages, and returns the number of
 * stages, 0 if no point is finite. */
uint32_t espl_curve_stages(const struct espl_extrapolator *extrapolator,
    const struct espl_point *points, uint32_t count, uint32_t *starts, uint32_t room);
/* Have the last five changes all been smaller than `rate`, relative to the value before? */
int espl_curve_flat(const struct espl_extrapolator *extrapolator, const struct espl_point *points,
    uint32_t count, double rate);

#endif
