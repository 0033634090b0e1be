/* forecast_saves.c - how many checkpoints a trial makes on its way (trial.checkpoint_every).
 *
 * One is made at the end of the iteration after which the last one, or the trial's start, is so
 * old; none at the last iteration, after which the trial leaves.  So they are a renewal process
 * counted in iterations: of the first and of each later distance this takes mean and variance,
 * and of their sums that they are normal.  Constant latencies leave nothing to chance.
 */
#include "forecast/forecast_impl.h"

#define SURE 8.0         /* deviations beyond which nothing is left */
#define NS 1e-9          /* instants are whole nanoseconds: so are constants */
#define STEPS_MAX 4096.0 /* more are not counted one by one */

struct gap {
	double mean, variance;
}; /* between checkpoints, in iterations */

/* What passes before the iterations that are counted, and one of these, in seconds. */
struct ages {
	const struct espl__dist *iteration;
	double ratio, before, before_variance, each, each_variance, every;
};

static double
round_to_ns(double seconds)
{
	return floor(seconds / NS + 0.5) * NS;
}

static double
normal_below(double x)
{
	return 0.5 * erfc(-x * sqrt(0.5));
}

/* Probability that the age is still below `every` after n >= 1 iterations; something is random. */
static double
age_below_probability(const struct ages *a, double n)
{
	double mean = a->before + n * a->each, sd = sqrt(a->before_variance + n * a->each_variance);
	double square;

	if (n == 1 && !(a->before_variance > 0))
		return espl__dist_below(a->iteration, (a->every - a->before) / a->ratio);
	if (a->iteration->kind != ESPL_LOGNORMAL)
		return normal_below((a->every - mean) / sd);
	square = log1p(sd / mean * (sd / mean));
	return normal_below((log(a->every / mean) + square / 2) / sqrt(square));
}

/* Iterations until the age has reached `every`, at least one. */
static struct gap
gap_of(const struct ages *a)
{
	double middle = fmax(0.0, (a->every - a->before) / a->each);
	double spread = sqrt(a->before_variance + (middle + 1) * a->each_variance) / a->each;
	double low = fmax(1.0, floor(middle - SURE * (spread + 1)));
	double high = middle + SURE * (spread + 1), square = a->each_variance / (a->each * a->each);
	struct gap gap = { 0.0, 0.0 };

	if (!(a->before_variance + a->each_variance > 0)) {
		gap.mean = fmax(1.0, ceil((a->every - NS / 4 - a->before) / a->each));
		return gap;
	}
	if (spread > STEPS_MAX / (4 * SURE)) /* the last one overshoots, half on the average */
		return (struct gap){ middle + 0.5 * (1 + square), spread * spread };
	/* The mean of a count is the sum of the probabilities of being above 0, 1, 2, ...; up to
	 * `low` all of these are 1. */
	gap.mean = low;
	gap.variance = low * low;
	for (double n = low; n <= high || n < low + 2; n++) {
		double above = age_below_probability(a, n);

		gap.mean += above;
		gap.variance += (2 * n + 1) * above;
	}
	gap.variance = fmax(0.0, gap.variance - gap.mean * gap.mean);
	return gap;
}

/* Mean number of renewals among the first `last` iterations. */
static double
count_renewals(const struct gap *first, const struct gap *next, double last)
{
	double sum = 0.0, sure;

	if (!(first->variance + next->variance > 0)) {
		if (last < first->mean)
			return 0.0;
		return 1.0 + floor((last - first->mean) / next->mean + 1e-9);
	}
	/* That many are certain: the next one is SURE deviations early. */
	sure = floor((last - first->mean) / next->mean -
	    SURE *
		(sqrt(fmax(last, 1.0) / next->mean * next->variance + first->variance) /
			next->mean +
		    1));
	sum = sure > 0 ? sure : 0.0;
	for (double k = sum;; k++) {
		double mean = first->mean + k * next->mean;
		double sd = sqrt(first->variance + k * next->variance + 1e-12);

		if (mean - SURE * sd > last + 1)
			return sum;
		sum += normal_below((last + 0.5 - mean) / sd);
	}
}

double
espl__saves_on_the_way(const struct espl__forecast *f, const struct espl__stage_table *t,
    const struct espl__terms *terms, int restores, uint32_t gpus, uint32_t warm)
{
	double ratio = espl__ratio(f, terms, gpus);
	double last = (double)t->stage->iterations - 1;
	struct ages a = { .iteration = &f->iteration,
		.ratio = ratio,
		.every = f->setup.save_every_s,
		.each = f->iteration.mean * ratio };
	struct gap first, next;

	if (!f->setup.checkpoint || !(a.every > 0.0) || !(a.each > 0.0) || last < 1)
		return 0.0;
	a.each_variance = f->iteration.sd * ratio * (f->iteration.sd * ratio);
	if (f->iteration.kind == ESPL_CONSTANT)
		a.each = round_to_ns(a.each) > 0 ? round_to_ns(a.each) : a.each;
	next = gap_of(&a);
	if ((warm & ESPL__WARM_BEFORE) == 0) {
		a.before = round_to_ns(f->start.mean + (restores ? f->restore.mean : 0.0));
		a.before_variance = f->start.sd * f->start.sd;
		if (restores)
			a.before_variance += f->restore.sd * f->restore.sd;
	}
	first = gap_of(&a);
	return count_renewals(&first, &next, last);
}
