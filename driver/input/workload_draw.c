/* workload_draw.c - ModelArts' jobs as far as Hu et al. tell of them, drawn from a seed.
 *
 * Work is log-normal, cut off below `least_s`, with the given mean *after* the cut.  What comes of
 * a draw depends on its few longest jobs: stratified draws all have as many of each length, so that
 * a mean over few seeds is nearer to one over many.  Each property has a stream of its own: the
 * same seed gives the same jobs at the same instants, whatever is drawn besides.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "input/workload_input.h"

#define JOBS_MAX 1000000u
#define BEGIN_S 51941.0 /* the trace's first job came at 14:25:41 */
#define DAY_S 86400.0
#define NIGHT_PART 0.2 /* of the arrivals of the day, from 22 to 9 o'clock */
#define BATCH_S 300.0
#define BATCH_MOST 7u   /* from 1 to 7: four on average */
#define SMALL_RATE 1.36 /* 805 jobs under 5 minutes: 1.95 minutes on average */
#define BUG_S 300.0

/* ---- instants ----------------------------------------------------------------------------- */

static int
by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
draw_arrival(struct espl__rng *rng, const struct espl__workload_draw *d)
{
	for (;;) {
		double at = d->span_s * espl__rng_uniform(rng);
		double hour = fmod(BEGIN_S + at, DAY_S) / 3600;

		if (d->arrivals == ESPL__UNIFORM || (hour >= 9 && hour < 22) ||
		    espl__rng_uniform(rng) < NIGHT_PART)
			return at;
	}
}

static void
draw_instants(const struct espl__workload_draw *d, double *at, uint32_t count)
{
	struct espl__rng rng, batches;
	uint32_t i, left = 0;
	double begin = 0;

	espl__rng_seed(&rng, d->seed, "workload.arrivals");
	espl__rng_seed(&batches, d->seed, "workload.batches");
	for (i = 0; i < count; i++) {
		if (d->arrivals != ESPL__BATCHES) {
			at[i] = draw_arrival(&rng, d);
			continue;
		}
		if (left == 0) {
			left = 1 + (uint32_t)(espl__rng_next(&batches) % BATCH_MOST);
			begin = draw_arrival(&rng, d);
		}
		left--;
		at[i] = begin + BATCH_S * espl__rng_uniform(&batches);
	}
	qsort(at, count, sizeof *at, by_time);
}

/* ---- work --------------------------------------------------------------------------------- */

/* Mean of a log-normal variable cut off below `least`. */
static double
mean_above(double mu, double sigma, double least)
{
	double z = (mu - log(least)) / sigma;

	return exp(mu + sigma * sigma / 2) * erfc(-(z + sigma) / sqrt(2)) / erfc(-z / sqrt(2));
}

/* The mu that gives this mean; it rises with mu. */
static double
find_mu(double mean, double sigma, double least)
{
	double low = log(least) - 6 * sigma, high = log(mean) + 1;

	for (int i = 0; i < 200; i++) {
		double middle = (low + high) / 2;

		if (mean_above(middle, sigma, least) < mean)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

static double
draw_work(struct espl__rng *rng, double mu, double sigma, double least)
{
	for (int tries = 0; tries < 100000; tries++) {
		double work = exp(mu + sigma * espl__rng_normal(rng));

		if (work >= least)
			return work;
	}
	return least;
}

/* The work that the part `above` of all jobs exceeds, in (0, 1]. */
static double
work_above(double above, double mu, double sigma, double least)
{
	double all = erfc((log(least) - mu) / (sigma * sqrt(2))), low = log(least),
	       high = mu + 40 * sigma;

	for (int i = 0; i < 64; i++) {
		double middle = (low + high) / 2;

		if (erfc((middle - mu) / (sigma * sqrt(2))) > above * all)
			low = middle;
		else
			high = middle;
	}
	return fmax(least, exp((low + high) / 2));
}

/* One work out of each of `count` ranges that are equally likely, in random order.  Free it. */
static double *
draw_strata(struct espl__rng *rng, uint32_t count, double mu, double sigma, double least)
{
	double *works = espl__alloc(count * sizeof *works);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = (uint32_t)(espl__rng_next(rng) % (i + 1));

		works[i] = works[j];
		works[j] =
		    work_above((count - i - espl__rng_uniform(rng)) / count, mu, sigma, least);
	}
	return works;
}

/* Training time shorter than `least`: exponential, cut off there; the mean is 0.39 of it, as at
 * ModelArts. */
static double
draw_small(struct espl__rng *rng, double least)
{
	double u = espl__rng_uniform(rng),
	       work = -log1p(-u * -expm1(-SMALL_RATE)) / SMALL_RATE * least;

	return work > 0.001 * least ? work : 0.001 * least;
}

/* ---- a workload --------------------------------------------------------------------------- */

static void
draw_jobs(struct espl__workload *w, const struct espl__workload_draw *d)
{
	struct espl__rng kind, work, small, eta, fate;
	double mu = find_mu(d->mean_s * d->m, d->sigma, d->least_s);
	double *strata = NULL, *next;
	uint32_t left = d->small, i;

	espl__rng_seed(&kind, d->seed, "workload.kind");
	espl__rng_seed(&work, d->seed, "workload.work");
	espl__rng_seed(&small, d->seed, "workload.small");
	espl__rng_seed(&eta, d->seed, "workload.eta");
	espl__rng_seed(&fate, d->seed, "workload.fate");
	if (d->stratified && d->jobs > 0)
		strata = draw_strata(&work, d->jobs, mu, d->sigma, d->least_s);
	next = strata;
	for (i = 0; i < w->count; i++) {
		struct espl__job *job = &w->jobs[i];
		double u = espl__rng_uniform(&fate), v = espl__rng_uniform(&fate);
		char name[32];
		int is_small = espl__rng_uniform(&kind) * (double)(w->count - i) < (double)left;

		left -= is_small ? 1 : 0;
		(void)snprintf(name, sizeof name, "job-%u", i + 1);
		job->name = espl__arena_strdup(&w->room, name);
		job->weight = 1;
		job->nodes_min = 1;
		job->nodes_max = d->nodes_max;
		job->nodes_asked = d->m < 1 ? 1
		    : d->m < d->nodes_max   ? (uint32_t)d->m
					    : d->nodes_max;
		if (is_small)
			job->work_s = d->m * draw_small(&small, d->least_s);
		else
			job->work_s =
			    next != NULL ? *next++ : draw_work(&work, mu, d->sigma, d->least_s);
		job->eta_s = job->work_s * (1 + d->noise * (2 * espl__rng_uniform(&eta) - 1));
		if (u < d->bugs) {
			job->fate = ESPL__FATE_BUG;
			job->fate_at_s = v * BUG_S;
		} else if (u < d->bugs + d->terminated) {
			job->fate = ESPL__FATE_TERMINATED;
			job->fate_at_s = v * job->work_s;
		}
	}
	free(strata);
}

static espl_status
out_of_range(struct espl__diag *diag, const char *what)
{
	return espl__fail(diag, ESPL_E_CONFIG, "generated workload: %s", what);
}

espl_status
espl__workload_draw(struct espl__workload *w, const struct espl__workload_draw *d,
    struct espl__diag *diag)
{
	uint32_t i, count = d->jobs + d->small;
	double *at;

	memset(w, 0, sizeof *w);
	if (d->jobs > JOBS_MAX || d->small > JOBS_MAX || count == 0)
		return out_of_range(diag, "the number of jobs must be from 1 to 1000000");
	if (!(d->span_s >= 0 && d->span_s <= 1e9) || !(d->least_s > 0 && d->least_s <= 1e8))
		return out_of_range(diag, "'span' must be from 0 to 1e9 s, and 'least' above 0");
	if (!(d->m > 0 && d->m <= 1e4) || !(d->mean_s <= 1e9))
		return out_of_range(diag,
		    "'m' must be above 0 and at most 10000, 'mean' at most 1e9 s");
	if (!(d->mean_s * d->m >= 1.05 * d->least_s))
		return out_of_range(diag,
		    "mean work ('mean' times 'm') must be at least 1.05 times 'least'");
	if (!(d->sigma >= 0.05 && d->sigma <= 5))
		return out_of_range(diag, "'sigma' must be from 0.05 to 5");
	if (d->nodes_max == 0 || d->nodes_max > JOBS_MAX)
		return out_of_range(diag, "'nodes_max' must be from 1 to 1000000");
	if (!(d->noise >= 0 && d->noise < 1))
		return out_of_range(diag, "'noise' must be at least 0 and below 1");
	if (!(d->bugs >= 0 && d->terminated >= 0 && d->bugs + d->terminated <= 1))
		return out_of_range(diag,
		    "'bugs' and 'terminated' are fractions of all jobs and must not exceed 1 in "
		    "total");
	w->jobs = espl__alloc(count * sizeof *w->jobs);
	w->count = w->cap = count;
	w->seed = d->seed;
	w->redraw = d->redraw ? d->noise : 0;
	at = espl__alloc(count * sizeof *at);
	draw_instants(d, at, count);
	for (i = 0; i < count; i++)
		w->jobs[i].arrives_s = at[i];
	free(at);
	draw_jobs(w, d);
	return ESPL_OK;
}
