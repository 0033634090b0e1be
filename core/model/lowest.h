/* lowest.h - the best value ever reported: the lowest loss of any trial, at any iteration.
 *
 * It is not always the loss of the best trial, which is its last.  The executor keeps it for
 * summaries, and results.db each value that was the lowest so far: both by this rule.
 */
#ifndef ESPL__LOWEST_H
#define ESPL__LOWEST_H
#include <math.h>
#include <espalier/abi.h>
#include "base/ids.h"

struct espl__lowest {
	uint64_t trial, iteration; /* trial: ESPL_NONE if there is none */
	double loss;
	espl_time at;
};

static inline void
espl__lowest_init(struct espl__lowest *l)
{
	*l = (struct espl__lowest){ .trial = ESPL_NONE, .loss = NAN };
}

/* A report. 1: it is lower than all before. */
static inline int
espl__lowest_take(struct espl__lowest *l, espl_time now, uint64_t trial, uint64_t iteration,
    double loss)
{
	if (!isfinite(loss) || (l->trial != ESPL_NONE && !(loss < l->loss)))
		return 0;
	*l = (struct espl__lowest){ trial, iteration, loss, now };
	return 1;
}
#endif
