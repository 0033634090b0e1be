/* milp_dual.h - prices of nodes in each step at which the linear relaxation over sequences is
 * optimal.
 *
 * Column generation: the master problem chooses a mix of sequences for every job so that no step
 * takes more than there is; its prices make milp_price.h find sequences that it lacks.  Any prices
 * give a true bound, so an inexact end costs tightness and nothing else.
 */
#ifndef MILP_DUAL_H
#define MILP_DUAL_H
#include "milp_problem.h"

/* Starts from a feasible plan's choices.  price[steps] is written, none negative.  0: out of
 * memory. */
int allocator_milp_dual(const struct milp_problem *, const uint8_t *start, double *price);

#endif
