/* pbt_explore.h - population based training's explore: a configuration near another one.
 */
#ifndef PBT_EXPLORE_H
#define PBT_EXPLORE_H
#include "../shared.h"

struct pbt_explore {
	double resample;     /* probability that a parameter is drawn anew */
	double down, up;     /* else it is multiplied by one of these */
	unsigned char *keep; /* [params] 1: it stays as it is; NULL: none does */
};

/* Changes `values`, a configuration of the space.  Random numbers are taken from the host in the
 * order of the parameters.  ESPL_E_BUG: the space refuses what came out. */
espl_status pbt_explore_near(const struct pbt_explore *, const struct espl_host *,
    const struct espl_space *, double *values, struct espl_error *);
#endif
