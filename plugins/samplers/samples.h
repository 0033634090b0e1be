/* samples.h - what a sampler was told: configurations as points, and how good each of them is.
 *
 * A point has one number for each parameter: the index of a choice's label; else where the value
 * lies in the unit interval (integers, steps and ordinals in the middle of their cell); NaN where
 * it is inactive.
 */
#ifndef SAMPLERS_SAMPLES_H
#define SAMPLERS_SAMPLES_H
#include <espalier/algorithm.h>
#include <espalier/sampler.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/tried.h>

#define SAMPLES_LEVELS_MAX 1024u /* an ordered parameter with more is treated as continuous */
#define SAMPLES_REST_MAX 512u    /* as many untried points of a finite space are looked at each */

struct samples_axis {
	uint32_t labels;     /* of an unordered choice; 0: it is ordered */
	uint32_t levels;     /* of an ordered one with few; 0: continuous */
	double *middles;     /* [levels] */
	double *edges;       /* [levels + 1] of their cells, from 0 to 1 */
	uint32_t may_be_off; /* it has conditions */
	uint32_t zero;
};
struct samples_result { /* of a row, at an iteration */
	uint64_t iteration;
	double loss;
	uint32_t row, zero;
};
/* the sampler's; fields may be read, the functions write them */
struct samples {
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_history *earlier; /* of an earlier run, not read yet; or NULL */
	struct espl_tried tried;            /* every configuration that was told */
	struct samples_axis *axes;
	uint32_t axis_count;
	uint32_t conditional; /* a parameter has conditions */
	double *points;       /* [row][axis_count] in the order in which they were told first */
	double *values;       /* [row] estimated at one iteration; infinite: it failed */
	double *objectives;   /* [row] the loss, also of one that misses what is required */
	double *shortfalls;   /* [row] by how much it does, NaN unknown */
	uint8_t *states;      /* [row] ESPL_SAMPLE_* */
	uint32_t *ranking;    /* rows that are not pending, best first, ties by row */
	uint32_t *pending;    /* rows */
	uint32_t *rows;       /* [trial] its row + 1; 0: none */
	struct samples_result *results;
	uint64_t iteration; /* of values; 0: nothing was seen */
	uint32_t count, room, ranked, finite, pending_count, result_count, result_room;
	uint32_t row_room;            /* of rows */
	uint32_t several;             /* 1: trials were observed at different iterations */
	uint32_t stale;               /* 1: their values must be estimated again */
	double *unit, *configuration; /* room for one */
	double *rest;                 /* [SAMPLES_REST_MAX] untried configurations */
};

espl_status samples_init(struct samples *, const struct espl_host *, struct espl_error *);
void samples_free(struct samples *);
/* What an earlier run observed; once, before the first suggestion. */
espl_status samples_earlier(struct samples *, struct espl_error *);
espl_status samples_tell(struct samples *, const struct espl_sample *, struct espl_error *);
/* A configuration that is pending although it was not told yet; samples_withdraw takes the last
 * ones back. */
espl_status samples_expect(struct samples *, const double *values, struct espl_error *);
void samples_withdraw(struct samples *, uint32_t count);
/* Brings values and ranking up to date. */
espl_status samples_rank(struct samples *, struct espl_error *);
/* A configuration as a point. */
espl_status samples_point(struct samples *, const double *values, double *point);
/* A point, each coordinate anywhere in its range and none NaN, as a configuration; the point
 * becomes that of the configuration. */
espl_status samples_decode(struct samples *, double *point, double *values);
/* A uniform configuration and its point. */
espl_status samples_uniform(struct samples *, double *point, double *values);
/* A label, or a number in [0, 1). */
double samples_draw_axis(const struct samples *, uint32_t axis);
/* A standard normal number. */
double samples_normal(const struct espl_host *);
/* Which cell of an ordered axis with levels. */
uint32_t samples_cell(const struct samples_axis *, double u);

static inline const double *
samples_row(const struct samples *s, uint32_t row)
{
	return &s->points[(size_t)row * s->axis_count];
}

#endif
