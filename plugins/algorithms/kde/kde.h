/* kde.h - the model of BOHB: where do good configurations lie that bad ones do not?
 *
 * Of the configurations observed at one budget (iterations trained) the best few percent make one
 * density, the others a second one; a suggestion is the candidate, drawn near the good ones, at
 * which the first is greatest in comparison with the second (a tree-structured Parzen estimator
 * with one density over all parameters).  The greatest budget with enough observations is used, and
 * what is known of lesser ones is forgotten from then on.
 *
 * Use: kde_init in create, kde_earlier before the first suggestion, kde_observe in on_trial_end,
 * kde_suggest for each new configuration, kde_free in destroy.
 */
#ifndef KDE_H
#define KDE_H
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include "../shared.h"

/* ---- kde_density.c --------------------------------------------------------------------------- */

/* A density over configurations, estimated from some of them with product kernels.
 *
 * A configuration is a point with one number for each parameter: REAL and INT their place in the
 * unit interval, CHOICE and ORDINAL the index of the label.  Kernels: Gaussian; Aitchison and
 * Aitken's for unordered labels; Wang and van Ryzin's for ordered ones.  Bandwidths: the normal
 * reference rule.
 */

/* Points are stored axis by axis, in blocks of this size, so that compilers can vectorize. */
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
/* ---- kde.c ----------------------------------------------------------------------------------- */

/* The options of a plugin with this model, after its own; defaults of some of them. */
/* clang-format off */
#define KDE_OPTIONS(random_, least_, candidates_) \
	{ .name = "random_fraction", .help = "fraction of configurations drawn uniformly " \
	  "instead of from the model", .type = ESPL_OPT_REAL, .fallback = (random_), .min = "0", \
	  .max = "1" }, \
	{ .name = "top_percent", \
	  .help = "percentage of the observations that count as good", \
	  .type = ESPL_OPT_INT, .fallback = "15", .min = "1", .max = "99" }, \
	{ .name = "min_points", \
	  .help = "minimum number of observations at one budget before a model " \
	  "is built, and of good ones among them; at least the number of " \
	  "parameters + 1, which is used for 0", \
	  .type = ESPL_OPT_INT, \
	  .fallback = (least_), .min = "0", .max = "1000000" }, \
	{ .name = "candidates", \
	  .help = "number of points drawn from the density of good " \
	  "configurations; the best one is used", \
	  .type = ESPL_OPT_INT, .fallback = (candidates_), .min = "1", \
	  .max = "100000" }, \
	{ .name = "bandwidth_factor", \
	  .help = "factor by which the kernels are widened to draw candidates", \
	  .type = ESPL_OPT_REAL, .fallback = "3", .min = "0.01", .max = "1000" }, \
	{ .name = "bandwidth_min", .help = "minimum bandwidth as a fraction of a parameter's " \
	  "range", \
	  .type = ESPL_OPT_REAL, .fallback = "0.001", .min = "1e-6", .max = "0.5" }, \
	{ .name = "points", .help = "maximum number of observations in a density (if there are " \
	  "more, a sample spread evenly over their ranks is used); limits the " \
	  "time of a suggestion", \
	  .type = ESPL_OPT_INT, .fallback = "512", \
	  .min = "16", .max = "100000" }
/* clang-format on */
enum {
	KDE_RANDOM_FRACTION,
	KDE_TOP_PERCENT,
	KDE_MIN_POINTS,
	KDE_CANDIDATES,
	KDE_FACTOR,
	KDE_WIDTH_MIN,
	KDE_POINTS,
	KDE_OPTION_COUNT
};

struct kde_setup {
	double random_fraction, factor, width_min;
	uint32_t top_percent, min_points, candidates, points;
};
/* what was observed at it; rows in order of arrival */
struct kde_budget {
	uint64_t budget;
	float *points;  /* [axis_count] a row */
	double *losses; /* infinite: failed, or not a number */
	/* break ties: earlier run's rows by arrival, own by trial */
	uint64_t *keys;
	uint32_t *ranking; /* rows, best first */
	uint32_t count, room;
	uint32_t finite; /* rows with a finite loss: the first of the ranking */
	uint32_t zero;
};
/* the plugin's; fields may be read, the functions write them */
struct kde {
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_history *earlier; /* an earlier run's, not read yet; or NULL */
	uint64_t learned;                   /* observations of an earlier run */
	struct kde_setup setup;
	struct kde_axis *axes;
	uint32_t axis_count;
	uint32_t budget_count;
	struct kde_budget *budgets; /* rising; if `modelled`, the first has the model */
	uint32_t modelled;
	/* 1: the densities are not those of the observations */
	uint32_t stale;
	struct kde_density good, bad;
	double *unit;       /* room for one configuration */
	double *candidates; /* [candidates][axis_count] */
	double *densities;  /* good's at each of them */
};

/* values: of the first of KDE_OPTIONS. */
void kde_read(const struct espl_value *values, struct kde_setup *);
/* Requests the host's services; after a failure kde_free must be called as well. */
espl_status kde_init(struct kde *, const struct espl_host *, const struct kde_setup *,
    struct espl_error *);
void kde_free(struct kde *);
/* What an earlier run observed at one of these budgets.  Once. */
espl_status kde_earlier(struct kde *, const uint64_t *budgets, uint32_t count, struct espl_error *);
/* The trial has trained `budget` iterations; loss: NaN also if it failed there. */
espl_status kde_observe(struct kde *, uint64_t budget, uint64_t trial, double loss,
    const double *values, struct espl_error *);
/* Brings the densities up to date; 0: there is no model yet. */
int kde_fit(struct kde *);
/* A new configuration: the model's, or a uniform one.  values: the caller's. */
espl_status kde_suggest(struct kde *, double *values, struct espl_error *);
#endif
