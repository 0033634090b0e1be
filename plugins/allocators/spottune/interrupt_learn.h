/* interrupt_learn.h - predictors that learn from a market's past: logistic regression, LSTMs, and
 * interrupt_adapt.c, a logistic regression that learns all the time. */
#ifndef ESPL_INTERRUPT_LEARN_H
#define ESPL_INTERRUPT_LEARN_H
#include "interrupt.h"
#include "price_grid.h"

struct espl_learned;

/* What the regressions look at: the log-odds of a rise above the margin in the past 48, 6 and 168
 * hours, and of a price above the maximum in the past 6 and 24 hours; how often and how long ago
 * the price changed; the price to that of the day, the margin to the price; 1. */
#define ESPL_TERMS 11u
void espl_learned_terms(const struct espl_price_grid *grid, uint32_t minute, double margin,
    double to[ESPL_TERMS]);

/* all zero to begin with */
struct espl_adapted {
	int started;
	int64_t next; /* the first minute that it has not learned from */
	uint64_t seed;
	double weights[ESPL_TERMS], spread[ESPL_TERMS][ESPL_TERMS]; /* their covariance */
};
/* For the grid's last minute, after it has learned from the minutes up to an hour before. */
double espl_adapted_ask(struct espl_adapted *adapted, const struct espl_price_grid *grid,
    double margin);

/* Minutes of the past that a prediction looks at, with the hour whose rises are not known yet. */
#define ESPL_LEARN_PAST (7 * 1440u + ESPL_GRID_HOUR + 1)

/* Trains on the grid's minutes from `from` on whose hour is over.  *made is replaced.
 * ESPL_E_UNKNOWN: too few minutes, or all have one label; ESPL_E_NOMEM. */
espl_status espl_learned_train(const struct espl_predictor_options *options,
    const struct espl_price_grid *grid, espl_time from, struct espl_learned **made);
void espl_learned_free(struct espl_learned *learned);
/* For the grid's last minute; NaN: less than an hour of history. */
double espl_learned_ask(struct espl_learned *learned, const struct espl_price_grid *grid,
    double margin);
#endif
