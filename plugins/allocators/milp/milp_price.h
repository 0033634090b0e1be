/* milp_price.h - the best sequences of widths of one job, where nodes have a price in each step.
 *
 * A sequence's profit is what it earns less what its nodes cost.  Found by depth-first search, cut
 * off by two bounds: every step as if the job were never done, and as if it were done from here on.
 * After a job is done only its least width is looked at, and no width above the first that ends it:
 * others cost more and earn no more.  Prices must not be negative.
 */
#ifndef MILP_PRICE_H
#define MILP_PRICE_H
#include "milp_problem.h"

struct milp_seq {
	uint8_t choice[MILP_STEPS];
	double profit;
};

/* Takes a sequence; answers the least profit that is of interest from now on. */
typedef double milp_take(void *ctx, const uint8_t *choice, double profit, double least);

/* widths of a job that are looked at in a search; 5 widths in 5 steps need 3905 */
#define MILP_LOOKS 40000u

/* Hands over every sequence of at least that profit.  Returns a bound of what was not looked at,
 * which is less than any profit (-INFINITY) unless there is too much. */
double allocator_milp_sequences(const struct milp_problem *, const struct milp_job *,
    const double *price, double least, milp_take *, void *ctx);
/* The most profitable one of more than `above`, into *best; 0: none was found.  *bound (may be
 * NULL): no sequence's profit exceeds both it and what was found. */
int allocator_milp_best(const struct milp_problem *, const struct milp_job *, const double *price,
    double above, struct milp_seq *best, double *bound);
double allocator_milp_profit(const struct milp_problem *, const struct milp_job *,
    const double *price, const uint8_t *choice);
/* An upper bound of the objective from these prices: what the nodes cost and every job's best
 * profit. */
double allocator_milp_bound(const struct milp_problem *, const double *price);

#endif
