/* fanova.c - fANOVA over a forest: the variance of a tree's marginal along one parameter, divided
 * by the variance of the tree over the whole space.
 *
 * A tree is never stored: while it grows, each leaf adds its value to the marginals of all
 * columns, weighted with the volume of its box in the other columns.
 */
#include "report/fanova.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#define TREES 64u
#define BINS 256u /* of a column: ranges of its values, or its labels */
#define SEED 20140621u

/* the box of the node that grows, along a column: bins from <= bin < to; of a choice a set */
struct side {
	uint32_t from, to;
	uint64_t set;
	double size;
};
struct column {
	uint32_t bins, is_choice;
	double edges[BINS + 1]; /* of the bins in [0, 1] */
	double sums[BINS + 1];  /* the tree's marginal; of numbers, how it changes at each bin */
	struct side side;
};
struct forest {
	const struct espl__fanova *data;
	struct column *columns;
	unsigned char *bins; /* [column * rows + row] */
	double *metric;      /* of mean 0 and variance 1 */
	uint32_t *weights;   /* of the rows in this tree's sample */
	double square;       /* of the tree: sum of volume * value^2 */
};
struct split {
	double gain;
	uint32_t column, bin; /* a choice: this label alone; else all bins up to this one */
	uint32_t next;        /* the next bin with rows */
};
struct level {
	double sum, weight;
	uint32_t bin;
};

/* ---- columns -------------------------------------------------------------------------------- */

static int
compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Edges midway between neighboring values, as many as there is room for. */
static void
find_edges(struct column *c, double *sorted, uint32_t rows)
{
	uint32_t distinct = 1, bin = 0;

	qsort(sorted, rows, sizeof *sorted, compare_numbers);
	for (uint32_t i = 1; i < rows; i++)
		if (sorted[i] > sorted[distinct - 1] + 1e-9)
			sorted[distinct++] = sorted[i];
	c->bins = distinct < BINS ? distinct : BINS;
	c->edges[0] = 0;
	for (uint32_t i = 1; i < distinct; i++)
		if ((uint64_t)i * c->bins / distinct > bin)
			c->edges[++bin] = (sorted[i - 1] + sorted[i]) / 2;
	c->edges[c->bins] = 1;
}

static uint32_t
find_bin(const struct column *c, double value)
{
	uint32_t low = 0, high = c->bins - 1;

	while (low < high) { /* the last bin that begins at or below the value */
		uint32_t middle = (low + high + 1) / 2;

		if (c->edges[middle] <= value)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static void
prepare_column(struct forest *f, uint32_t n)
{
	struct column *c = &f->columns[n];
	uint32_t rows = f->data->rows, labels = f->data->labels[n];
	const double *values = f->data->values + (size_t)n * rows;
	double *sorted;

	c->is_choice = labels > 0;
	if (c->is_choice) {
		c->bins = labels < ESPL__FANOVA_LABELS ? labels : ESPL__FANOVA_LABELS;
		for (uint32_t i = 0; i <= c->bins; i++)
			c->edges[i] = (double)i / c->bins;
		for (uint32_t i = 0; i < rows; i++)
			f->bins[(size_t)n * rows + i] =
			    (unsigned char)(values[i] < c->bins - 1 ? values[i] : c->bins - 1);
		return;
	}
	sorted = espl__alloc((rows + (size_t)1) * sizeof *sorted);
	memcpy(sorted, values, rows * sizeof *sorted);
	find_edges(c, sorted, rows);
	free(sorted);
	for (uint32_t i = 0; i < rows; i++)
		f->bins[(size_t)n * rows + i] = (unsigned char)find_bin(c, values[i]);
}

/* Large values neither overflow nor lose what distinguishes them. */
static void
scale_metric(struct forest *f)
{
	const struct espl__fanova *d = f->data;
	double most = 0, mean = 0, variance = 0;

	for (uint32_t i = 0; i < d->rows; i++)
		most = fmax(most, fabs(d->metric[i]));
	for (uint32_t i = 0; i < d->rows; i++)
		mean += (f->metric[i] = most > 0 ? d->metric[i] / most : 0) / d->rows;
	for (uint32_t i = 0; i < d->rows; i++) {
		f->metric[i] -= mean;
		variance += f->metric[i] * f->metric[i] / d->rows;
	}
	for (uint32_t i = 0; i < d->rows; i++)
		f->metric[i] = variance > 0 ? f->metric[i] / sqrt(variance) : 0;
}

/* ---- a tree -----------------------------------------------------------------------------------
 */

/* What splitting off sum and weight reduces the sum of squares by. */
static double
gain_of(struct level part, struct level all)
{
	double rest = all.sum - part.sum, weight = all.weight - part.weight;

	return part.weight > 0 && weight > 0 ? part.sum * part.sum / part.weight +
		rest * rest / weight - all.sum * all.sum / all.weight
					     : 0;
}

static struct level
level_of(const struct forest *f, uint32_t row, uint32_t bin)
{
	return (struct level){ f->weights[row] * f->metric[row], f->weights[row], bin };
}

static void
add_level(struct level *to, struct level more)
{
	to->sum += more.sum;
	to->weight += more.weight;
}

/* The bins that rows lie in, in order: of few rows each row is put in its place. */
static uint32_t
list_levels(const struct forest *f, const unsigned char *bins, const uint32_t *rows, uint32_t count,
    struct level levels[BINS])
{
	uint32_t listed = 0, to;

	if (count > 32) {
		memset(levels, 0, BINS * sizeof *levels);
		for (uint32_t i = 0; i < count; i++)
			add_level(&levels[bins[rows[i]]], level_of(f, rows[i], 0));
		for (uint32_t bin = 0; bin < BINS; bin++)
			if (levels[bin].weight > 0) {
				levels[listed] = levels[bin];
				levels[listed++].bin = bin;
			}
		return listed;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct level level = level_of(f, rows[i], bins[rows[i]]);

		for (to = listed; to > 0 && levels[to - 1].bin > level.bin; to--)
			continue;
		if (to > 0 && levels[to - 1].bin == level.bin) {
			add_level(&levels[to - 1], level);
			continue;
		}
		memmove(levels + to + 1, levels + to, (listed++ - to) * sizeof *levels);
		levels[to] = level;
	}
	return listed;
}

static void
try_column(const struct forest *f, uint32_t n, const uint32_t *rows, uint32_t count,
    struct level all, struct split *best)
{
	const struct column *c = &f->columns[n];
	struct level levels[BINS], part = { 0, 0, 0 };
	uint32_t listed = list_levels(f, f->bins + (size_t)n * f->data->rows, rows, count, levels);

	for (uint32_t i = 0; listed > 1 && i < listed - !c->is_choice; i++) {
		double gain;

		add_level(&part, levels[i]);
		gain = gain_of(c->is_choice ? levels[i] : part, all);
		if (gain > best->gain)
			*best = (struct split){ gain, n, levels[i].bin,
				c->is_choice ? 0 : levels[i + 1].bin };
	}
}

/* Midway between the two values that a split of numbers separates. */
static uint32_t
middle_bin(const struct column *c, uint32_t low, uint32_t high)
{
	double middle =
	    (c->edges[low] + c->edges[low + 1] + c->edges[high] + c->edges[high + 1]) / 4;
	uint32_t bin = find_bin(c, middle);

	if (bin > low && middle - c->edges[bin] < c->edges[bin + 1] - middle)
		bin--;
	return bin < low ? low : bin < high ? bin : high - 1;
}

/* A leaf: its value counts in the marginal of each column in the bins of its box. */
static void
add_leaf(struct forest *f, double value)
{
	double volume = 1;

	for (uint32_t n = 0; n < f->data->columns; n++)
		volume *= f->columns[n].side.size;
	f->square += volume * value * value;
	for (uint32_t n = 0; n < f->data->columns; n++) {
		struct column *c = &f->columns[n];
		double part = volume / c->side.size * value;

		for (uint32_t bin = 0; c->is_choice && bin < c->bins; bin++)
			c->sums[bin] += (c->side.set >> bin & 1) != 0 ? part : 0;
		if (!c->is_choice) {
			c->sums[c->side.from] += part;
			c->sums[c->side.to] -= part;
		}
	}
}

static void grow_branch(struct forest *f, uint32_t *rows, uint32_t count);

/* Grows one side of a split within its part of the box. */
static void
grow_side(struct forest *f, const struct split *s, int left, uint32_t *rows, uint32_t count)
{
	struct column *c = &f->columns[s->column];
	struct side before = c->side, *side = &c->side;

	if (c->is_choice) {
		side->set &= left ? 1ull << s->bin : ~(1ull << s->bin);
		side->size = (double)__builtin_popcountll(side->set) / c->bins;
	} else {
		side->from = left ? side->from : s->bin + 1;
		side->to = left ? s->bin + 1 : side->to;
		side->size = c->edges[side->to] - c->edges[side->from];
	}
	grow_branch(f, rows, count);
	c->side = before;
}

static void
grow_branch(struct forest *f, uint32_t *rows, uint32_t count)
{
	struct level all = { 0, 0, 0 };
	struct split best = { 1e-12, 0, 0, 0 };
	const unsigned char *bins;
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++)
		add_level(&all, level_of(f, rows[i], 0));
	for (uint32_t n = 0; count > 1 && n < f->data->columns; n++)
		try_column(f, n, rows, count, all, &best);
	if (best.gain <= 1e-12) {
		add_leaf(f, all.weight > 0 ? all.sum / all.weight : 0);
		return;
	}
	if (!f->columns[best.column].is_choice)
		best.bin = middle_bin(&f->columns[best.column], best.bin, best.next);
	bins = f->bins + (size_t)best.column * f->data->rows;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t row = rows[i];

		if (f->columns[best.column].is_choice ? bins[row] == best.bin
						      : bins[row] <= best.bin) {
			rows[i] = rows[left];
			rows[left++] = row;
		}
	}
	grow_side(f, &best, 1, rows, left);
	grow_side(f, &best, 0, rows + left, count - left);
}

/* A sample of the rows with replacement. */
static uint32_t
draw_sample(struct forest *f, struct espl__rng *rng, uint32_t *rows)
{
	uint32_t count = f->data->rows, drawn = 0;

	memset(f->weights, 0, count * sizeof *f->weights);
	for (uint32_t i = 0; i < count; i++)
		f->weights[(uint32_t)(espl__rng_uniform(rng) * count)]++;
	for (uint32_t i = 0; i < count; i++)
		if (f->weights[i] > 0)
			rows[drawn++] = i;
	return drawn;
}

static void
grow_tree(struct forest *f, struct espl__rng *rng, uint32_t *rows)
{
	f->square = 0;
	for (uint32_t n = 0; n < f->data->columns; n++) {
		struct column *c = &f->columns[n];

		memset(c->sums, 0, sizeof c->sums);
		c->side =
		    (struct side){ 0, c->bins, c->bins < 64 ? (1ull << c->bins) - 1 : ~0ull, 1 };
	}
	grow_branch(f, rows, draw_sample(f, rng, rows));
}

/* Adds what each column explains of the tree's variance. */
static void
add_shares(const struct forest *f, double *shares)
{
	for (uint32_t n = 0; n < f->data->columns; n++) {
		const struct column *c = &f->columns[n];
		double mean = 0, square = 0, value = 0;

		for (uint32_t bin = 0; bin < c->bins; bin++) {
			double length = c->edges[bin + 1] - c->edges[bin];

			value = c->is_choice ? c->sums[bin] : value + c->sums[bin];
			mean += length * value;
			square += length * value * value;
		}
		if (f->square - mean * mean > 1e-12)
			shares[n] += fmax(0, square - mean * mean) / (f->square - mean * mean);
	}
}

void
espl__fanova(const struct espl__fanova *data, double *shares)
{
	struct forest f = { .data = data };
	size_t rows = data->rows, columns = data->columns;
	uint32_t *order = espl__alloc((rows + 1) * sizeof *order);
	struct espl__rng rng;
	double sum = 0;

	f.columns = espl__alloc((columns + 1) * sizeof *f.columns);
	f.bins = espl__alloc(rows * columns + 1);
	f.metric = espl__alloc((rows + 1) * sizeof *f.metric);
	f.weights = espl__alloc((rows + 1) * sizeof *f.weights);
	memset(shares, 0, columns * sizeof *shares);
	scale_metric(&f);
	for (uint32_t n = 0; rows > 0 && n < columns; n++)
		prepare_column(&f, n);
	espl__rng_seed(&rng, SEED, "fanova");
	for (uint32_t tree = 0; rows > 1 && tree < TREES; tree++) {
		grow_tree(&f, &rng, order);
		add_shares(&f, shares);
	}
	for (size_t n = 0; n < columns; n++)
		sum += shares[n];
	for (size_t n = 0; sum > 0 && n < columns; n++)
		shares[n] /= sum;
	free(order);
	free(f.columns);
	free(f.bins);
	free(f.metric);
	free(f.weights);
}
