/* sold.h - what the cloud's offers come to, and whether a trial can ever run on them: asked before
 * anything is begun, and again when a run's cloud has said what it sells. */
#ifndef ESPL__SOLD_H
#define ESPL__SOLD_H
#include "config/run.h"
#include "model/fleet.h"
#include "model/jobs.h"

/* GPUs that could ever be held at once; at most `limit`. */
uint64_t espl__sold_gpus(const struct espl__fleet *, uint64_t limit);
/* E_CONFIG at trial.gpus_min: the search's trials need more GPUs, or others, than nodes can give.
 */
espl_status espl__sold_suits(const struct espl__fleet *, const struct espl__run_config *,
    struct espl__diag *);
/* E_CONFIG at the line of the trace if a job needs more than this many GPUs. */
espl_status espl__sold_suits_jobs(const struct espl__jobs *, uint64_t gpus, const char *cloud,
    struct espl__diag *);
#endif
