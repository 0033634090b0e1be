/* tpe.h - a tree-structured Parzen estimator: draws near the best tenth of what was seen, and takes
 * the candidate where good ones are densest in comparison with the others.
 *
 * Bergstra, Bardenet, Bengio, Kegl (NeurIPS 2011), with product kernels over all parameters, which
 * capture interactions between them.  Each density has a uniform kernel besides those of its
 * points (the prior); a kernel is as wide as the distance to the farther neighbor, but no less than
 * a hundredth.  Pending trials count as bad, so that workers spread.  A parameter that is inactive
 * in a point is uniform in its kernel.
 */
#ifndef SAMPLERS_TPE_H
#define SAMPLERS_TPE_H
#include "portable.h"
#include "samples.h"

#define TPE_GOOD_MAX 25u
#define TPE_BAD_MAX 192u /* a sample, evenly over time: limits the time of a suggestion */
#define TPE_PENDING_MAX 64u

struct tpe_kernels {
	uint32_t count;                  /* of points; one uniform kernel comes behind them */
	double *points;                  /* [axis][TPE_KERNELS_MAX] */
	double *widths, *scales, *norms; /* of ordered axes: 1 / width, logarithm of the factor */
	double *weights;                 /* logarithms */
};
struct tpe {
	struct samples *samples;
	double top;          /* fraction that is good */
	uint32_t candidates; /* drawn for a suggestion */
	struct portable_table table;
	struct tpe_kernels good, bad;
	uint8_t *is_good; /* [row] */
	uint32_t is_room;
	double *points; /* [candidates][axis_count] */
	double *sums;   /* of one candidate's kernels */
	double *sorted; /* room for one axis */
	uint32_t *rows; /* of the points of a density */
};

espl_status tpe_init(struct tpe *, struct samples *, double top, uint32_t candidates,
    struct espl_error *);
void tpe_free(struct tpe *);
/* A configuration; something was seen with a finite loss. */
espl_status tpe_suggest(struct tpe *, double *values, struct espl_error *);

#endif
