/* interrupt_learn.c - see interrupt_learn.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "interrupt_learn.h"
#define REAL float
#include "lstm_net.h"

#define BATCH 64u
#define RATE 0.002f /* Adam's */
#define DAY 1440u
#define TERMS ESPL_TERMS
#define INPUTS 7u /* of a network: six features and the maximum price or margin */

struct sample {
	uint32_t minute; /* of the grid */
	int yes;
	double margin; /* dollars */
};
struct espl_learned {
	struct espl_predictor_options options;
	struct net *net; /* NULL: logistic */
	double mean[INPUTS], sd[INPUTS];
	double weights[TERMS];
	double positives; /* of the training set */
};

static double
price_of(const struct espl_price_grid *grid, uint32_t i)
{
	return (double)grid->minutes[i].price / (double)ESPL_USD;
}

/* The maximum price less the price, as training asks for it. */
static double
draw_margin(const struct espl_margin *margin, const struct espl_price_grid *grid, uint32_t i,
    uint64_t *seed)
{
	double prices[ESPL_GRID_HOUR + 1];

	if (margin->kind == ESPL_MARGIN_UNIFORM)
		return margin->low + (margin->high - margin->low) * net_draw(seed);
	if (margin->kind == ESPL_MARGIN_RELATIVE)
		return margin->low * price_of(grid, i);
	for (uint32_t k = 0; k <= ESPL_GRID_HOUR; k++)
		prices[k] = price_of(grid, i - ESPL_GRID_HOUR + k);
	return espl_alg2_max_price(prices, ESPL_GRID_HOUR + 1) - prices[ESPL_GRID_HOUR];
}

/* The six features of a minute, and the last input. */
static void
read_inputs(const struct espl_predictor_options *o, const struct espl_price_grid *grid, uint32_t i,
    double price_now, double margin, double to[INPUTS])
{
	const struct espl_minute *m = grid->minutes + i;
	uint32_t back = i < ESPL_GRID_HOUR ? i : ESPL_GRID_HOUR;
	espl_time at = (grid->first + i) * ESPL_MINUTE;
	int64_t hours = (at + o->utc) / (60 * ESPL_MINUTE);
	double since = (double)(at - m->set_at) / (double)ESPL_MINUTE;
	int64_t sum = m->price_sum + m->price - m[-(ptrdiff_t)back].price_sum;

	to[0] = price_of(grid, i);
	to[1] = (double)sum / (back + 1) / (double)ESPL_USD;
	to[2] = (double)(m->changes - m[-(ptrdiff_t)back].changes);
	to[3] = since < DAY ? since : DAY;
	to[4] = ((hours / 24 + 4) % 7 + 6) % 7 < 5; /* 1970 began on a Thursday */
	to[5] = (double)(hours % 24);
	to[6] = o->log_margin ? log(margin > 1e-6 ? margin : 1e-6) : price_now + margin;
}

static void
put_inputs(const struct espl_learned *l, const struct espl_price_grid *grid, uint32_t i,
    double price_now, double margin, float to[NET_IN])
{
	double inputs[INPUTS];

	read_inputs(&l->options, grid, i, price_now, margin, inputs);
	for (uint32_t k = 0; k < INPUTS; k++)
		to[k] = (float)((inputs[k] - l->mean[k]) / l->sd[k]);
	for (uint32_t k = INPUTS; k < NET_IN; k++)
		to[k] = 0;
}

/* RevPred: the 59 minutes before without the maximum price, and the present apart; Tributary: 60
 * minutes, each with the maximum price. */
static void
put_sample(struct espl_learned *l, const struct espl_price_grid *grid, uint32_t i, double margin,
    uint32_t row, uint32_t rows)
{
	struct net *net = l->net;
	double price = price_of(grid, i);

	ESPL_ASSERT(i >= ESPL_GRID_HOUR);
	for (uint32_t t = 0; t < net->steps; t++) {
		float *to = net->x + ((size_t)t * rows + row) * NET_IN;

		put_inputs(l, grid, i + 1 - ESPL_GRID_HOUR + t, price, margin, to);
		if (net->present)
			to[INPUTS - 1] = 0;
	}
	if (net->present)
		put_inputs(l, grid, i, price, margin, net->now + (size_t)row * NET_IN);
}

static double
log_odds(double found, double of)
{
	return log((found + 0.5) / (of - found + 0.5));
}

/* Of the rises of the hours before whose hour is over at minute i. */
static double
share_risen(const struct espl_price_grid *grid, uint32_t i, uint32_t hours, espl_money margin)
{
	uint32_t end = i >= ESPL_GRID_HOUR ? i - ESPL_GRID_HOUR + 1 : 0, of, found;

	end = end < grid->risen ? end : grid->risen;
	found = espl_grid_exceeding(grid, end, hours * 60, margin, &of);
	return log_odds(found, of);
}

/* Of the minutes before in which the price was above what it is now, by the margin: up to now. */
static void
share_above(const struct espl_price_grid *grid, uint32_t i, espl_money most, double to[2])
{
	static const uint32_t minutes[] = { 360, DAY };
	uint32_t found = 0, at = i;

	for (uint32_t k = 0; k < 2; k++) {
		uint32_t from = i < minutes[k] ? 0 : i - minutes[k];

		for (; at > from; at--)
			found += grid->minutes[at].top > most;
		to[k] = log_odds(found, i - from);
	}
}

void
espl_learned_terms(const struct espl_price_grid *grid, uint32_t i, double margin, double to[TERMS])
{
	const struct espl_minute *m = grid->minutes + i;
	espl_money least = (espl_money)llround(margin * (double)ESPL_USD);
	uint32_t hour = i < ESPL_GRID_HOUR ? i : ESPL_GRID_HOUR, day = i < DAY ? i : DAY;
	double since = (double)((grid->first + i) * ESPL_MINUTE - m->set_at) / ESPL_MINUTE;
	double price = price_of(grid, i), sum;

	ESPL_ASSERT(i < grid->count);
	to[0] = share_risen(grid, i, 48, least);
	to[1] = share_risen(grid, i, 6, least);
	to[2] = share_risen(grid, i, 168, least);
	share_above(grid, i, m->price + least, &to[3]);
	to[5] = log1p((double)(m->changes - m[-(ptrdiff_t)hour].changes));
	to[6] = log1p(since < DAY ? since : DAY);
	sum = (double)(m->price_sum - m[-(ptrdiff_t)day].price_sum) / (double)ESPL_USD;
	to[7] = day > 0 && sum > 0 ? log(price * day / sum + 1e-6) : 0;
	to[8] = log((margin + 1e-6) / (price + 1e-6));
	hour = i < 10 ? i : 10;
	to[9] = log1p((double)(m->changes - m[-(ptrdiff_t)hour].changes));
	to[10] = 1;
}

/* a x = b for a positive definite matrix, in place. */
static void
solve_system(double a[TERMS][TERMS], double b[TERMS])
{
	for (uint32_t i = 0; i < TERMS; i++)
		for (uint32_t k = i + 1; k < TERMS; k++) {
			double factor = a[k][i] / a[i][i];

			for (uint32_t j = i; j < TERMS; j++)
				a[k][j] -= factor * a[i][j];
			b[k] -= factor * b[i];
		}
	for (uint32_t i = TERMS; i-- > 0;) {
		for (uint32_t j = i + 1; j < TERMS; j++)
			b[i] -= a[i][j] * b[j];
		b[i] /= a[i][i];
	}
}

/* Newton's method with a small ridge. */
static espl_status
fit_logistic(struct espl_learned *l, const struct espl_price_grid *grid, const struct sample *list,
    uint32_t count)
{
	double(*x)[TERMS] = (double(*)[TERMS])malloc((size_t)count * sizeof *x);

	if (x == NULL)
		return ESPL_E_NOMEM;
	for (uint32_t s = 0; s < count; s++)
		espl_learned_terms(grid, list[s].minute, list[s].margin, x[s]);
	for (uint32_t round = 0; round < 25; round++) {
		double a[TERMS][TERMS] = { { 0 } }, b[TERMS], size = 0;

		for (uint32_t i = 0; i < TERMS; i++) {
			a[i][i] = i + 1 < TERMS ? 10 : 1e-3;
			b[i] = -a[i][i] * l->weights[i];
		}
		for (uint32_t s = 0; s < count; s++) {
			double z = 0, p;

			for (uint32_t i = 0; i < TERMS; i++)
				z += x[s][i] * l->weights[i];
			p = 1 / (1 + exp(-z));
			for (uint32_t i = 0; i < TERMS; i++) {
				b[i] += x[s][i] * (list[s].yes - p);
				for (uint32_t j = 0; j < TERMS; j++)
					a[i][j] += x[s][i] * x[s][j] * (p * (1 - p) + 1e-9);
			}
		}
		solve_system(a, b);
		for (uint32_t i = 0; i < TERMS; i++)
			size = fmax(size, fabs(b[i]));
		for (uint32_t i = 0; i < TERMS; i++)
			l->weights[i] += size > 2 ? b[i] * 2 / size : b[i];
		if (size < 1e-8)
			break;
	}
	free(x);
	return ESPL_OK;
}

static void
find_scale(struct espl_learned *l, const struct espl_price_grid *grid, const struct sample *list,
    uint32_t count)
{
	double sum[INPUTS] = { 0 }, squares[INPUTS] = { 0 }, in[INPUTS];

	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t s = 0; s < count; s++) {
			read_inputs(&l->options, grid, list[s].minute,
			    price_of(grid, list[s].minute), list[s].margin, in);
			for (uint32_t k = 0; k < INPUTS; k++) {
				if (pass == 0)
					sum[k] += in[k];
				else
					squares[k] += pow(in[k] - sum[k] / count, 2);
			}
		}
	for (uint32_t k = 0; k < INPUTS; k++) {
		l->mean[k] = sum[k] / count;
		l->sd[k] = sqrt(squares[k] / count);
		if (!(l->sd[k] > 1e-9))
			l->sd[k] = 1;
	}
}

/* Runs the network on at most one batch of samples. Returns their number. */
static uint32_t
forward_batch(struct espl_learned *l, const struct espl_price_grid *grid, const struct sample *list,
    uint32_t count)
{
	uint32_t rows = count < BATCH ? count : BATCH;

	for (uint32_t i = 0; i < rows; i++)
		put_sample(l, grid, list[i].minute, list[i].margin, i, rows);
	net_forward(l->net, rows);
	return rows;
}

/* Log loss of the corrected probabilities. */
static double
judge_net(struct espl_learned *l, const struct espl_price_grid *grid, const struct sample *list,
    uint32_t count)
{
	double loss = 0;

	for (uint32_t at = 0; at < count; at += BATCH) {
		uint32_t rows = forward_batch(l, grid, list + at, count - at);

		for (uint32_t i = 0; i < rows; i++) {
			double p = espl_correct_weights(1 / (1 + exp(-(double)l->net->logit[i])),
			    l->positives, ESPL_CORRECT_UNWEIGHT);

			p = p < 1e-6 ? 1e-6 : p > 1 - 1e-6 ? 1 - 1e-6 : p;
			loss -= log(list[at + i].yes ? p : 1 - p);
		}
	}
	return loss / count;
}

/* Samples lie in random order: an epoch takes them as they are. */
static void
train_epoch(struct espl_learned *l, const struct espl_price_grid *grid, const struct sample *list,
    uint32_t count)
{
	float d[BATCH];

	for (uint32_t at = 0; at < count; at += BATCH) {
		uint32_t rows = forward_batch(l, grid, list + at, count - at);

		for (uint32_t i = 0; i < rows; i++) {
			double weight = list[at + i].yes ? 1 - l->positives : l->positives;
			double p = 1 / (1 + exp(-(double)l->net->logit[i]));

			d[i] = (float)(2 * weight * (p - list[at + i].yes) / rows);
		}
		net_backward(l->net, rows, d);
		net_improve(l->net, RATE);
	}
}

/* `tests` samples of the last day, after `count` others, choose the epoch. */
static espl_status
fit_net(struct espl_learned *l, const struct espl_price_grid *grid, struct sample *list,
    uint32_t count, uint32_t tests)
{
	int present = l->options.kind == ESPL_PREDICT_REVPRED;
	double best = INFINITY;

	l->net = net_make(l->options.hidden, present ? ESPL_GRID_HOUR - 1 : ESPL_GRID_HOUR, present,
	    BATCH, l->options.seed);
	if (l->net == NULL)
		return ESPL_E_NOMEM;
	find_scale(l, grid, list, count);
	for (uint32_t epoch = 0; epoch < l->options.epochs; epoch++) {
		double loss;

		train_epoch(l, grid, list, count);
		loss = judge_net(l, grid, list + count, tests);
		if (loss < best) {
			best = loss;
			memcpy(l->net->best, l->net->w, l->net->count * sizeof(float));
		}
	}
	memcpy(l->net->w, l->net->best, l->net->count * sizeof(float));
	return ESPL_OK;
}

/* `count` samples of the minutes [from, to), in random order. */
static void
draw_samples(const struct espl_predictor_options *o, const struct espl_price_grid *grid,
    uint32_t from, uint32_t to, struct sample *list, uint32_t count, uint64_t *seed)
{
	for (uint32_t s = 0; s < count; s++) {
		uint32_t i = from + (uint32_t)(net_draw(seed) * (to - from));
		double margin = draw_margin(&o->margin, grid, i, seed);

		list[s].minute = i;
		list[s].margin = margin;
		list[s].yes = grid->rises[i] > (espl_money)llround(margin * (double)ESPL_USD);
	}
}

espl_status
espl_learned_train(const struct espl_predictor_options *o, const struct espl_price_grid *grid,
    espl_time from, struct espl_learned **made)
{
	int64_t skip = from / ESPL_MINUTE - grid->first;
	uint32_t least = o->kind == ESPL_PREDICT_LOGISTIC ? 2 * ESPL_GRID_HOUR : ESPL_GRID_HOUR;
	uint32_t first = skip > (int64_t)least ? (uint32_t)skip : least, yes = 0;
	uint32_t count = o->samples, tests = count / 8 + 1, last = 0;
	uint64_t seed = o->seed;
	struct sample *list;
	struct espl_learned *l;
	espl_status status;

	/* A day to train on, an hour whose rises reach into the last day, and that day. */
	if (grid->risen < DAY || grid->risen - DAY < first + DAY + ESPL_GRID_HOUR)
		return ESPL_E_UNKNOWN;
	last = grid->risen - DAY;
	list = (struct sample *)calloc((size_t)count + tests, sizeof *list);
	l = (struct espl_learned *)calloc(1, sizeof *l);
	if (list == NULL || l == NULL) {
		free(list);
		free(l);
		return ESPL_E_NOMEM;
	}
	l->options = *o;
	/* Only a network needs the last day for the choice of an epoch. */
	draw_samples(o, grid, first,
	    o->kind == ESPL_PREDICT_LOGISTIC ? grid->risen : last - ESPL_GRID_HOUR, list, count,
	    &seed);
	draw_samples(o, grid, last, grid->risen, list + count, tests, &seed);
	for (uint32_t s = 0; s < count; s++)
		yes += list[s].yes;
	l->positives = (double)yes / count;
	if (yes == 0 || yes == count)
		status = ESPL_E_UNKNOWN;
	else if (o->kind == ESPL_PREDICT_LOGISTIC)
		status = fit_logistic(l, grid, list, count);
	else
		status = fit_net(l, grid, list, count, tests);
	free(list);
	if (status != ESPL_OK) {
		espl_learned_free(l);
		return status;
	}
	espl_learned_free(*made);
	*made = l;
	return ESPL_OK;
}

void
espl_learned_free(struct espl_learned *l)
{
	if (l == NULL)
		return;
	net_free(l->net);
	free(l);
}

double
espl_learned_ask(struct espl_learned *l, const struct espl_price_grid *grid, double margin)
{
	double terms[TERMS], z = 0;

	if (grid->count < 2 * ESPL_GRID_HOUR + 1)
		return NAN;
	if (l->net != NULL) {
		put_sample(l, grid, grid->count - 1, margin, 0, 1);
		net_forward(l->net, 1);
		return espl_correct_weights(1 / (1 + exp(-(double)l->net->logit[0])), l->positives,
		    l->options.correct);
	}
	espl_learned_terms(grid, grid->count - 1, margin, terms);
	for (uint32_t i = 0; i < TERMS; i++)
		z += terms[i] * l->weights[i];
	return 1 / (1 + exp(-z));
}
