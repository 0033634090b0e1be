/* futures.h - the rest of a run, simulated from its present state several times: the forecast.
 *
 * A future is a child process: the executor is copied with it, and the run itself is not touched.
 * What is made follows from the journal: no clock, no other randomness (docs/forecast.md).
 */
#ifndef ESPL__FUTURES_H
#define ESPL__FUTURES_H
#include "report/outlook.h"
#include "run/drive.h"
#include "sim/learned.h"

/* The caller's executor and what was learned of it are used up: neither can continue the run.
 * made_s, zero_s and everything else of *outlook are filled in.
 * E_UNSUPPORTED: of such a run there is no forecast (the message says why); E_LIMIT: too much is
 * left to be simulated; E_UNKNOWN: too little has been observed. */
espl_status espl__futures_make(const struct espl__inputs *, struct espl__exec *,
    struct espl__learned *, int64_t zero_s, struct espl__outlook *, struct espl__diag *);

/* ---- in the driver: forecast.json is renewed now and then by a child process ------------------
 */

struct espl__foresight;
/* dir: of the run.  NULL: of runs of this configuration there are no forecasts. */
struct espl__foresight *espl__foresight_new(const struct espl__inputs *, const char *dir);
struct espl__observer *espl__foresight_observer(struct espl__foresight *);
/* After a round, and at least a few times a second.  1: forecast.json is new. */
int espl__foresight_tick(struct espl__foresight *, struct espl__exec *);
void espl__foresight_free(struct espl__foresight *); /* ends the child, if one is at work */
#endif
