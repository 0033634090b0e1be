/* profile_fit.c - tallies, and the isotonic fit of throughput. */
#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "input/input.h"

void
espl__tally_add(struct espl__tally *t, double value)
{
	double off = value - t->mean;

	t->count++;
	t->mean += off / (double)t->count;
	t->squares += off * (value - t->mean);
}

void
espl__tally_merge(struct espl__tally *t, const struct espl__tally *more)
{
	double off = more->mean - t->mean, count = (double)(t->count + more->count);

	if (more->count == 0)
		return;
	t->squares += more->squares + off * off * (double)t->count * (double)more->count / count;
	t->mean += off * (double)more->count / count;
	t->count += more->count;
}

double
espl__tally_sd(const struct espl__tally *t)
{
	return t->count > 1 && t->squares > 0 ? sqrt(t->squares / (double)(t->count - 1)) : 0.0;
}

double
espl__tally_error(const struct espl__tally *t)
{
	if (t->count < 2 || !(t->mean > 0))
		return INFINITY;
	return espl__tally_sd(t) / sqrt((double)t->count) / t->mean;
}

/* With a bound from below the least squares are those without it, clipped at the bound. */
void
espl__fit_rising(double *values, const double *weights, uint32_t count)
{
	struct block {
		double mean, weight;
		uint32_t count;
	};
	struct block *blocks;
	uint32_t used = 0, at = 1;

	if (count < 2)
		return;
	blocks = espl__alloc(count * sizeof *blocks);
	for (uint32_t i = 1; i < count; i++) {
		blocks[used++] = (struct block){ values[i], weights[i], 1 };
		for (; used > 1 && blocks[used - 2].mean > blocks[used - 1].mean; used--) {
			struct block *a = &blocks[used - 2], *b = &blocks[used - 1];
			double weight = a->weight + b->weight;

			a->mean = (a->mean * a->weight + b->mean * b->weight) / weight;
			a->weight = weight;
			a->count += b->count;
		}
	}
	for (uint32_t k = 0; k < used; k++)
		for (uint32_t i = 0; i < blocks[k].count; i++)
			values[at++] = blocks[k].mean > values[0] ? blocks[k].mean : values[0];
	free(blocks);
}
