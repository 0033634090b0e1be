/* kde_density.h - a density over configurations, estimated from some of them with product kernels.
 *
 * A configuration is a point with one number for each parameter: REAL and INT their place in the
 * unit interval, CHOICE and ORDINAL the index of the label.  Kernels: Gaussian; Aitchison and
 * Aitken's for unordered labels; Wang and van Ryzin's for ordered ones.  Bandwidths: the normal
 * reference rule.
 */
#ifndef KDE_DENSITY_H
#define KDE_DENSITY_H
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include "../shared.h"

/* Points are kept axis by axis, in blocks of so many: what a compiler can do side by side. */
#define KDE_BLOCK 16u

struct kde_axis {
	uint32_t labels;     /* 0: continuous */
	uint8_t ordered;     /* the labels are */
	uint8_t conditional; /* it may be inactive */
	uint16_t zero;
};
/* of one axis; logarithms, as products become sums */
struct kde_kernel {
	double width;              /* bandwidth: Gaussian's deviation; the mass that an unordered
				    * label gives to others; the ratio of neighboring ordered
				    * ones */
	double rule;               /* what the rule says: 1.06 deviations n^(-1/(4 + axes)) */
	double scale;              /* continuous: 1 / (sqrt 2 width) */
	double same, other, slope; /* labels: equal; unequal; and for each label between */
};
struct kde_density {
	uint32_t axis_count, count, room; /* room: points, a multiple of KDE_BLOCK */
	uint32_t zero;
	const struct kde_axis *axes; /* the caller's */
	/* axis a of point i: [a * room + i]; NaN: inactive, to be imputed */
	double *points;
	double *given;    /* as they were; NULL: every parameter is always active */
	uint32_t *active; /* for each axis how many points have it, and which */
	struct kde_kernel *kernels;
	/* of the sum of kernels: 1 / (count * the Gaussians' norms) */
	double factor;
};

/* axes stay the caller's.  ESPL_E_NOMEM: free it all the same. */
espl_status kde_density_init(struct kde_density *, const struct kde_axis *axes, uint32_t axis_count,
    uint32_t points_max);
void kde_density_free(struct kde_density *);
/* Forgets the points and makes room for `count` of them, at most points_max; the caller writes
 * them. */
void kde_density_begin(struct kde_density *, uint32_t count);
/* Gives every inactive parameter of a point the values of another point, drawn among those in which
 * it is active; or, where there is none, a uniform one. */
void kde_density_impute(struct kde_density *, const struct espl_host *);
/* Kernels for the points as they are now; no bandwidth is below width_min. */
void kde_density_fit(struct kde_density *, double width_min);
/* The density at x.  If it is `enough` or more the answer may be less than it, but not less than
 * `enough`. */
double kde_density_at(const struct kde_density *, const double *x, double enough);
/* A point near one of the density's, each as likely: continuous axes and ordered labels from a
 * kernel `wider` times as wide, cut off at the ends; unordered labels from the kernel itself. */
void kde_density_draw(const struct kde_density *, const struct espl_host *, double wider,
    double *x);

#endif
