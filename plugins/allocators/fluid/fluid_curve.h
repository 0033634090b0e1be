/* fluid_curve.h - how long a trial takes on what it is granted, from measured tables (Fluid 4.2.2).
 *
 * Between measured points, and only there, the paper's laws hold: a trial that shares a GPU takes
 * alpha times as long for each one more that shares it, and a trial's GPU time grows by beta with
 * each GPU.  Beyond the last measured point nothing is said: nobody is packed or scaled there.
 */
#ifndef FLUID_CURVE_H
#define FLUID_CURVE_H
#include <espalier/fleet.h>

#define FLUID_PACKING_MAX 64u /* trials on a GPU, at most */

/* where sharing and scaling end */
struct fluid_rules {
	double benefit;   /* one more on a GPU must save this part (O_th) */
	double gain;      /* one more GPU must take off this part of the time */
	uint32_t by_beta; /* 1: d by the paper's rule, else from the table */
	uint32_t zero;
};
/* The tables it was made of, which are the view's: to know it again. */
struct fluid_curve {
	const struct espl_point *scaling, *packing;
	uint32_t scaling_count, packing_count;
	uint32_t c;      /* most trials on a GPU that pay, at least 1 */
	uint32_t d;      /* most GPUs that pay, at least `unit` */
	uint32_t unit;   /* GPUs on which the time is 1 */
	uint32_t wide;   /* last of `whole` */
	uint32_t room;   /* of `whole` */
	uint32_t rising; /* 1: each width up to d is faster than all narrower */
	double packed[FLUID_PACKING_MAX + 1]; /* [p]: time of each of p on one GPU, [1] is 1 */
	double *whole;                        /* [w]: time on w GPUs; infinite below `unit` */
	double alpha, beta;                   /* fitted to the tables up to c, and to their last */
};

/* O^2..O^count of T[1..count], into benefit[2..count]: the part of the GPU time of a trial's
 * iteration that is saved when the p-th joins. */
void allocator_fluid_benefits(const double *times, uint32_t count, double *benefit);
/* The largest c of which all of O^2..O^c exceed `benefit`; times[1..count]. */
uint32_t allocator_fluid_choose_c(const double *times, uint32_t count, double benefit);
/* The widest of which each GPU beyond a narrower width takes off the part `gain`, on average over
 * those between them; times[first..last]. */
uint32_t allocator_fluid_choose_d(const double *times, uint32_t first, uint32_t last, double gain);
/* The paper's: the largest integer below 1 / (beta - 1), from 1 to most. */
uint32_t allocator_fluid_d_by_beta(double beta, uint32_t most);

/* Makes the curve of two tables, as espl_item has them; count 0: not measured.  Memory in it is
 * used again.  ESPL_E_NOMEM. */
espl_status allocator_fluid_curve_fill(struct fluid_curve *, const struct fluid_rules *,
    uint32_t unit, const struct espl_point *scaling, uint32_t scaling_count,
    const struct espl_point *packing, uint32_t packing_count);
#endif
