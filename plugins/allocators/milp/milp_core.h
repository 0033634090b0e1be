/* milp_core.h - the best plan among those that lose little at given prices.
 *
 * At prices with the bound UB, a sequence loses what its profit lacks to its job's best, an unused
 * node its price, and a plan is worth UB less all its losses.  So plans within a loss R consist of
 * sequences of at most that loss, which are few if R is small: dynamic programming finds the best
 * of them, or that there is none.
 */
#ifndef MILP_CORE_H
#define MILP_CORE_H
#include "milp_problem.h"

enum milp_core_result { MILP_CORE_NOMEM = -1, MILP_CORE_NONE, MILP_CORE_FOUND };
struct milp_core {
	const struct milp_problem *problem;
	const double *price; /* [steps] */
	double radius;       /* R: of the loss */
	uint64_t effort;     /* steps of work, after which few states are kept */
	uint64_t spent;      /* out: steps of work */
	uint32_t states;     /* kept at most at a time */
	uint32_t cut;        /* out: 1: some were dropped, nothing is proven */
	uint8_t *choice;     /* out, where FOUND: [job * steps + step] */
};

enum milp_core_result allocator_milp_core(struct milp_core *);

#endif
