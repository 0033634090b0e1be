/* interrupt_learn.h - predictors that learn from a market's past: logistic regression, LSTMs. */
#ifndef ESPL_INTERRUPT_LEARN_H
#define ESPL_INTERRUPT_LEARN_H
#include <espalier/kit/interrupt.h>
#include "price_grid.h"

struct espl_learned;

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
