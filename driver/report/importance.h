/* importance.h - how much of the metric's variance each parameter explains, from results.db. */
#ifndef ESPL__IMPORTANCE_H
#define ESPL__IMPORTANCE_H
#include "report/results_read.h"

struct espl__importance {
	char *name;
	double share;
};
struct espl__importances {
	struct espl__importance *list; /* the most important first; the shares sum up to 1 */
	uint32_t count;                /* 0: there is nothing to tell it from */
	uint32_t trials;               /* that it was told from */
	int64_t iteration;             /* at which their metrics were compared */
};
/* experiment: 0, or that of a pool.  Of the trials that reached the iteration that half of them
 * reached, at most some thousand.  A parameter that was inactive in a trial counts with its mean
 * or its most frequent label. */
espl_status espl__importances_find(struct espl__reading *, int64_t experiment,
    struct espl__importances *, struct espl__diag *);
void espl__importances_free(struct espl__importances *);
/* As CSV, or as a JSON array; for a pool, of all its experiments. */
espl_status espl__importances_csv(struct espl__reading *, FILE *, struct espl__diag *);
espl_status espl__importances_json(struct espl__reading *, FILE *, struct espl__diag *);
#endif
