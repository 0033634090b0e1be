/* interrupt.c - see interrupt.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "interrupt.h"
#include "interrupt_learn.h"
#include "price_grid.h"

#define HOUR (60 * ESPL_MINUTE)

struct espl_predictor {
	struct espl_predictor_options options;
	struct espl_price_grid grid;
	struct espl_learned *learned; /* NULL: not trained */
	struct espl_adapted adapted;
};

void
espl_predictor_defaults(struct espl_predictor_options *options, espl_predictor_kind kind)
{
	memset(options, 0, sizeof *options);
	options->kind = kind;
	options->window = kind == ESPL_PREDICT_ADAPTIVE ? 28 * 24 * HOUR : 48 * HOUR;
	options->prior_rate = 0.05;
	options->prior_hours = 20;
	options->margin.kind =
	    kind == ESPL_PREDICT_REVPRED ? ESPL_MARGIN_ALG2 : ESPL_MARGIN_UNIFORM;
	options->margin.low = 0.00001;
	options->margin.high = 0.2;
	options->hidden = 24;
	options->samples = 5760;
	options->epochs = 10;
}

/* By espl_predictor_train. */
static int
is_trained(espl_predictor_kind kind)
{
	return kind >= ESPL_PREDICT_LOGISTIC && kind <= ESPL_PREDICT_REVPRED;
}

espl_status
espl_predictor_open(const struct espl_predictor_options *o, struct espl_predictor **predictor)
{
	struct espl_predictor *p;

	ESPL_ASSERT(o != NULL && predictor != NULL);
	if (o->kind > ESPL_PREDICT_ADAPTIVE || o->window < HOUR || o->window > 10000 * HOUR ||
	    !(o->rate >= 0 && o->rate <= 1) || !(o->prior_rate > 0 && o->prior_rate < 1e6) ||
	    !(o->prior_hours > 0 && o->prior_hours < 1e9) || o->correct > ESPL_CORRECT_NONE ||
	    o->margin.kind > ESPL_MARGIN_ALG2 || !(o->margin.low >= 0 && o->margin.low < 1e6) ||
	    !(o->margin.high >= 0 && o->margin.high < 1e6) || o->hidden == 0 ||
	    o->hidden % 8 != 0 || o->hidden > 1024 || o->samples < 16 || o->samples > 10000000 ||
	    o->epochs == 0)
		return ESPL_E_CONFIG;
	p = (struct espl_predictor *)calloc(1, sizeof *p);
	if (p == NULL)
		return ESPL_E_NOMEM;
	p->options = *o;
	p->adapted.seed = o->seed;
	p->grid.keep = is_trained(o->kind)
	    ? ESPL_LEARN_PAST
	    : (uint32_t)(o->window / ESPL_MINUTE) + ESPL_GRID_HOUR + 1;
	*predictor = p;
	return ESPL_OK;
}

void
espl_predictor_close(struct espl_predictor *p)
{
	if (p == NULL)
		return;
	espl_grid_free(&p->grid);
	espl_learned_free(p->learned);
	free(p);
}

espl_status
espl_predictor_train(struct espl_predictor *p, const struct espl_price *prices, uint32_t count,
    espl_time from, espl_time until)
{
	struct espl_price_grid grid = { .keep = 0 };
	espl_status status;

	ESPL_ASSERT(p != NULL && (prices != NULL || count == 0) && from <= until);
	if (!is_trained(p->options.kind))
		return ESPL_OK;
	status = espl_grid_extend(&grid, prices, count, until);
	if (status == ESPL_OK)
		status = espl_learned_train(&p->options, &grid, from, &p->learned);
	espl_grid_free(&grid);
	return status;
}

/* The gamma posterior of the rate, its predictive chance of at least one interruption. */
static double
ask_hazard(const struct espl_predictor_options *o, const struct espl_market_case *ask)
{
	int known = isfinite(ask->hazard_hour) && ask->hazard_hours > 0;
	double hours = o->prior_hours + (known ? ask->hazard_hours : 0);
	double seen =
	    o->prior_rate * o->prior_hours + (known ? ask->hazard_hour * ask->hazard_hours : 0);

	ESPL_ASSERT(seen > 0 && hours > 0);
	return -expm1(seen * -log1p(1 / hours));
}

static double
ask_future(const struct espl_market_case *ask)
{
	uint32_t i = espl_price_after(ask->prices, ask->count, ask->now);

	if (ask->count == 0 || ask->prices[ask->count - 1].from < ask->now + HOUR)
		return NAN;
	for (; i < ask->count && ask->prices[i].from <= ask->now + HOUR; i++)
		if (ask->prices[i].usd_hour > ask->max_price)
			return 1;
	return 0;
}

static double
ask_past(struct espl_predictor *p, espl_money margin)
{
	uint32_t of, window = (uint32_t)(p->options.window / ESPL_MINUTE), found;

	found = espl_grid_exceeding(&p->grid, p->grid.risen, window, margin, &of);
	return of > 0 ? (double)found / of : NAN;
}

double
espl_predictor_ask(struct espl_predictor *p, const struct espl_market_case *ask)
{
	espl_money price;

	ESPL_ASSERT(p != NULL && (ask->prices != NULL || ask->count == 0) && ask->max_price >= 0);
	switch (p->options.kind) {
	case ESPL_PREDICT_NEVER: return 0;
	case ESPL_PREDICT_CONSTANT: return p->options.rate;
	case ESPL_PREDICT_HAZARD: return ask_hazard(&p->options, ask);
	default: break;
	}
	if (ask->max_price == 0)
		return 0;
	if (p->options.kind != ESPL_PREDICT_ORACLE &&
	    espl_grid_extend(&p->grid, ask->prices, ask->count, ask->now) != ESPL_OK)
		return NAN;
	price = espl_price_at(ask->prices, ask->count, ask->now);
	if (price < 0 && p->grid.count > 0)
		price = p->grid.price;
	if (price < 0)
		return NAN;
	if (price > ask->max_price)
		return 1;
	if (p->options.kind == ESPL_PREDICT_ORACLE)
		return ask_future(ask);
	if (p->options.kind == ESPL_PREDICT_EMPIRICAL)
		return ask_past(p, ask->max_price - price);
	if (p->options.kind == ESPL_PREDICT_ADAPTIVE)
		return espl_adapted_ask(&p->adapted, &p->grid,
		    (double)(ask->max_price - price) / (double)ESPL_USD);
	if (p->learned == NULL)
		return NAN;
	return espl_learned_ask(p->learned, &p->grid,
	    (double)(ask->max_price - price) / (double)ESPL_USD);
}

static int
compare_numbers(const void *a, const void *b)
{
	const double *x = (const double *)a, *y = (const double *)b;

	return *x < *y ? -1 : *x > *y;
}

double
espl_alg2_max_price(const double *prices, uint32_t count)
{
	double deltas[ESPL_GRID_HOUR - 1], sum = 0;
	uint32_t length = count - 2;

	ESPL_ASSERT(prices != NULL && count >= 3 && count <= ESPL_GRID_HOUR + 1);
	for (uint32_t i = 0; i < length; i++)
		deltas[i] = fabs(prices[i + 1] - prices[i]);
	qsort(deltas, length, sizeof *deltas, compare_numbers);
	for (uint32_t i = 0; i < length; i++)
		if (i > 0.2 * length && i < 0.8 * length)
			sum += deltas[i];
	return prices[count - 1] + sum / (0.6 * length);
}

double
espl_alg2_at(const struct espl_price *prices, uint32_t count, espl_time now)
{
	double past[ESPL_GRID_HOUR + 1];

	for (uint32_t i = 0; i <= ESPL_GRID_HOUR; i++) {
		espl_money price = espl_price_at(prices, count,
		    now - (espl_time)(ESPL_GRID_HOUR - i) * ESPL_MINUTE);

		if (price < 0)
			return NAN;
		past[i] = (double)price / (double)ESPL_USD;
	}
	return espl_alg2_max_price(past, ESPL_GRID_HOUR + 1);
}

double
espl_correct_weights(double output, double positives, espl_correct correct)
{
	double yes = output, no = 1 - output;

	ESPL_ASSERT(output >= 0 && output <= 1 && positives >= 0 && positives <= 1);
	if (correct == ESPL_CORRECT_NONE || positives <= 0 || positives >= 1)
		return output;
	if (correct == ESPL_CORRECT_PAPER) {
		yes *= 1 - positives;
		no *= positives;
	} else {
		yes *= positives;
		no *= 1 - positives;
	}
	return yes / (yes + no);
}
