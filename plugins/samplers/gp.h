/* gp.h - a Gaussian process: a posterior over the loss, and the candidate with the greatest
 * expected improvement.
 *
 * Kernel: Matern 5/2, a length scale for each parameter; choices differ or not (Hamming).  Length
 * scales, amplitude and noise are the most probable ones (MAP); the length scales' prior is
 * log-normal about sqrt(axes) / 2, as wide as e, so that a space of many parameters is smooth until
 * results say otherwise (Hvarfner, Hellsten, Nardi, 2024).  Losses are bent towards a normal
 * distribution (Yeo, Johnson, 2000); failed configurations have the worst loss.  Pending ones are
 * as good as the posterior expects.  Expected improvement is compared by its logarithm (Ament and
 * others, 2023), over uniform points and steps of falling size about the best.
 *
 * The factor of the kernel matrix grows by a row for each result.  Beyond GP_ROWS_MAX results the
 * best and the latest are used; parameters are fitted to GP_FIT_MAX.  All arithmetic is in plain C
 * and portable.h: the same suggestions on every processor.
 */
#ifndef SAMPLERS_GP_H
#define SAMPLERS_GP_H
#include "portable.h"
#include "samples.h"

#define GP_ROWS_MAX 300u
#define GP_BEST_MAX 100u /* of them, the best; the others are the latest */
#define GP_PENDING_MAX 64u
#define GP_FIT_MAX 96u
#define GP_FIT_BEST 32u /* of them, the best */
#define GP_SIZE (GP_ROWS_MAX + GP_PENDING_MAX)
#define GP_LANES 8u        /* candidates that are solved for at once */
#define GP_CANDIDATES 768u /* most that are held at once */

/* logarithms: [axis_count] length scales, then amplitude and noise (variances) */
struct gp_fit {
	double *at;      /* where they are */
	uint32_t count;  /* axis_count + 2 */
	uint32_t fitted; /* 1: at is of results */
	uint64_t next;   /* number of results at which they are refitted */
	/* room */
	double *distances; /* [axis][pair] squared, of the results that are fitted to */
	double *kernel, *factor, *inverse, *alpha, *solved;
	double *gradient, *trial, *other, *step, *curvature, *change;
};
struct gp {
	struct samples *samples;
	struct gp_fit fit;
	double *features; /* [GP_SIZE][axis_count] of the rows below */
	uint32_t *rows;   /* those of the model, then the pending ones */
	double *losses;   /* [GP_SIZE] bent */
	double *factor;   /* [GP_SIZE][GP_SIZE], lower */
	double *alpha;    /* the inverse of the matrix times losses */
	double *spare,
	    *beta;     /* [GP_SIZE] what is there beyond the requirements; the inverse times it */
	double spread; /* of spare, about 0 */
	double *inverse_scales; /* [axis] 1 / squared length scale */
	double amplitude, noise, best;
	struct gp *shortfall;     /* over what is missing, once something was; or NULL */
	uint32_t is_shortfall;    /* it is that one */
	uint32_t unmet;           /* rows of the model that miss what is required */
	uint32_t count, factored; /* rows of the model; rows of factor that are right */
	double *points;           /* [GP_CANDIDATES] */
	double *gains;            /* logarithms of the expected improvement */
	double *lanes;            /* [GP_SIZE][GP_LANES] */
	double *room;
	uint32_t *order;
};

espl_status gp_init(struct gp *, struct samples *, struct espl_error *);
void gp_free(struct gp *);
/* A configuration; two or more were seen, one with a finite loss. */
espl_status gp_suggest(struct gp *, double *values, struct espl_error *);

/* ---- what tests look at ---------------------------------------------------------------------- */

/* Matern 5/2 of a scaled squared distance, without amplitude. */
double gp_kernel(double square);
/* Brings rows, losses, parameters and factor up to date with the samples. */
espl_status gp_update(struct gp *, struct espl_error *);
/* Posterior of up to GP_LANES points (as features): means and deviations, in bent losses. */
void gp_predict(struct gp *, const double *features, uint32_t count, double *means,
    double *deviations);
void gp_features(const struct samples *, const double *point, double *features);

/* ---- gp_fit.c -------------------------------------------------------------------------------- */

espl_status gp_fit_init(struct gp_fit *, uint32_t axis_count);
void gp_fit_free(struct gp_fit *);
/* Fits to `count` results (at most GP_FIT_MAX); features [count][axes]. */
void gp_fit_run(struct gp_fit *, const struct samples *, const double *features,
    const double *losses, uint32_t count);
/* Lower factor of a symmetric matrix in place, [size] apart; 0: it is not positive definite. */
int gp_factor(double *matrix, uint32_t count, uint32_t size);
/* Bends losses towards a normal distribution, with mean 0 and variance 1; room: [count]. */
void gp_bend(double *losses, uint32_t count, double *room);

#endif
