/* forecast_boot.c - offers as the model sees them: prices, and how long new nodes take.
 *
 * Draws belong to the offer and the ordinal of the new node.  Several scale-ups of a plan use the
 * same rows, each from another sample on, so that an error of their means would add up: these are
 * corrected by those of a much larger sample.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "forecast/forecast_impl.h"

#define MANY 16384u /* draws of the large sample */

/* ---- the large sample ---------------------------------------------------------------- */

struct espl__boot_means {
	double ready[MANY]; /* a node's, ascending */
	double below[MANY]; /* probability that all nodes are ready by then */
};

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct espl__boot_means *
draw_many(struct espl__forecast *f, const struct espl__terms *terms)
{
	struct espl__boot_means *many = espl__alloc(sizeof *many);
	uint32_t *order = espl__realloc(NULL, MANY, sizeof *order);
	uint64_t key = espl__subkey(terms->key, UINT64_MAX);

	espl__dist_spread(&terms->provision, f->normal, espl__subkey(key, 0), MANY, order,
	    many->ready, 1);
	espl__dist_spread(&terms->init, f->normal, espl__subkey(key, 1), MANY, order, many->ready,
	    1);
	free(order);
	qsort(many->ready, MANY, sizeof *many->ready, by_size);
	for (uint32_t i = 0; i < MANY; i++)
		many->below[i] = 1.0;
	return many;
}

/* Mean time until one more node than at the call before is ready. */
static double
next_mean(struct espl__boot_means *many)
{
	double sum = 0.0, before = 0.0;

	for (uint32_t i = 0; i < MANY; i++) {
		many->below[i] *= (i + 1.0) / MANY;
		sum += many->ready[i] * (many->below[i] - before);
		before = many->below[i];
	}
	return sum;
}

/* ---- rows ---------------------------------------------------------------------------- */

/* Stretches the row so that its mean is that of the large sample, while that one is the better:
 * it has MANY / nodes independent groups of so many nodes. */
static void
correct_row(struct espl__forecast *f, struct espl__terms *terms, struct espl__boot_row *row,
    uint32_t nodes)
{
	double factor = 1.0, mean;

	if ((uint64_t)nodes * f->samples <= MANY) {
		if (terms->means == NULL)
			terms->means = draw_many(f, terms);
		mean = next_mean(terms->means);
		if (nodes > 1 && row->mean_ready > 0)
			factor = mean / row->mean_ready;
	} else {
		free(terms->means); /* rows are made in order: it is of no more use */
		terms->means = NULL;
	}
	row->mean_ready *= factor;
	for (uint32_t s = 0; s < row->samples; s++)
		row->ready[s] = row->last[s] * factor;
}

static void
draw_row(struct espl__forecast *f, struct espl__terms *terms, uint32_t number)
{
	struct espl__boot_row *row = &terms->rows[number];
	const struct espl__boot_row *before = number > 0 ? row - 1 : NULL;
	uint64_t key = espl__subkey(terms->key, number);
	uint32_t n, width = 1;

	while (width <= number) /* fewer samples only where the number of nodes doubles */
		width *= 2;
	row->samples = n = espl__samples_for(f, width);
	row->from = espl__alloc(4 * (size_t)n * sizeof *row->from);
	row->last = row->from + n;
	row->ready = row->last + n;
	row->froms = row->ready + n;
	espl__dist_spread(&terms->provision, f->normal, espl__subkey(key, 0), n, f->order,
	    row->last, 1);
	if (terms->offer->billed_from == ESPL_BILL_FROM_BOOT)
		memcpy(row->from, row->last, n * sizeof *row->from);
	espl__dist_spread(&terms->init, f->normal, espl__subkey(key, 1), n, f->order, row->last, 1);
	if (terms->offer->billed_from == ESPL_BILL_FROM_READY)
		memcpy(row->from, row->last, n * sizeof *row->from);
	for (uint32_t s = 0; s < n; s++) {
		row->froms[s] = row->from[s] + (before != NULL ? before->froms[s] : 0.0);
		if (before != NULL && before->last[s] > row->last[s])
			row->last[s] = before->last[s];
		row->mean_ready += row->last[s] / n;
		row->mean_froms += row->froms[s] / n;
	}
	terms->froms[number] = row->from;
	correct_row(f, terms, row, number + 1);
}

const struct espl__boot_row *
espl__boot_row(struct espl__forecast *f, struct espl__terms *terms, uint32_t nodes)
{
	if (nodes > terms->row_count) {
		uint32_t cap = terms->row_cap;

		ESPL__GROW(terms->rows, terms->row_cap, nodes);
		ESPL__GROW(terms->froms, cap, nodes);
		memset(terms->rows + terms->row_count, 0,
		    (nodes - terms->row_count) * sizeof *terms->rows);
		while (terms->row_count < nodes)
			draw_row(f, terms, terms->row_count++);
	}
	return &terms->rows[nodes - 1];
}

/* ---- begin and end ------------------------------------------------------------------- */

void
espl__terms_init(struct espl__forecast *f, uint32_t number)
{
	const struct espl_offer *offer = f->setup.offers[number];
	struct espl__terms *terms = &f->terms[number];
	struct {
		uint64_t seed, offer;
	} name = { f->setup.seed, number };

	ESPL__CHECK(f, FORECAST);
	if (offer == NULL)
		return;
	terms->offer = offer;
	terms->function = offer->billing == ESPL_BILL_FUNCTION;
	terms->usd_s = (double)offer->price_hour * 1e-6 / 3600.0;
	if (terms->function && offer->gpus > 0)
		terms->usd_s /= offer->gpus;
	if (f->setup.data_gb > 0) /* in whole micro-dollars, as the ledger counts */
		terms->data_usd = floor(f->setup.data_gb * (double)offer->data_gb + 0.5) * 1e-6;
	if (!terms->function && offer->minimum_charge > 0)
		terms->minimum_s = (double)offer->minimum_charge * 1e-9;
	if (!terms->function && offer->billing_step > 1)
		terms->step_ns = (double)offer->billing_step;
	terms->stepped = terms->minimum_s > 0 || terms->step_ns > 0;
	terms->random = terms->provision.kind != ESPL_CONSTANT || terms->init.kind != ESPL_CONSTANT;
	terms->ready_s = terms->provision.mean + terms->init.mean;
	if (offer->billed_from == ESPL_BILL_FROM_BOOT) {
		terms->from_s = terms->provision.mean;
		terms->random_from = terms->provision.kind != ESPL_CONSTANT;
	} else if (offer->billed_from == ESPL_BILL_FROM_READY) {
		terms->from_s = terms->ready_s;
		terms->random_from = terms->random;
	}
	terms->key = espl__digest(~f->setup.seed, &name, sizeof name);
}

void
espl__terms_free(struct espl__terms *terms)
{
	for (uint32_t r = 0; r < terms->row_count; r++)
		free(terms->rows[r].from);
	free(terms->rows);
	free(terms->froms);
	free(terms->means);
}

uint32_t
espl__samples_for(const struct espl__forecast *f, uint64_t draws_each)
{
	uint32_t samples = f->samples;

	ESPL__CHECK(f, FORECAST);
	while (samples > ESPL__SAMPLES_MIN && samples * draws_each > ESPL__DRAWS_MAX)
		samples /= 2;
	return samples;
}
