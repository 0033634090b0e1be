/* worlds.h - the two worlds, and which of them a run is in. */
#ifndef ESPL__WORLDS_H
#define ESPL__WORLDS_H
#include "run/drive.h"

/* real/real.c: DIR's trials run as processes; needs config->cloud.  dir is absolute. */
espl_status espl__world_real(const struct espl__inputs *, const char *dir, uint64_t token,
    struct espl__world **, struct espl__diag *);
/* real/spool.c: requests to a pool that has ended are refused. */
void espl__spool_close(const char *dir);
/* sim/sim.c: virtual clock; latencies from profile and offers, metrics from trainable or curves,
 * faults from a script (NULL none; format: docs/simulation.md). */
espl_status espl__world_sim(const struct espl__inputs *, uint64_t seed, const char *faults,
    struct espl__world **, struct espl__diag *);
/* The same without training, for which no trial is needed: it reports the cloud's offers, and
 * carries out the computations of policies. */
espl_status espl__world_sold(const struct espl__run_config *, uint64_t seed, struct espl__world **,
    struct espl__diag *);
/* The rest of a run whose executor is given, from its present state on, by what was learned of it;
 * its first `next` brings what happens next. */
struct espl__learned;
espl_status espl__world_rest(const struct espl__inputs *, struct espl__exec *,
    struct espl__learned *, uint64_t seed, struct espl__world **, struct espl__diag *);
/* The world that the drive's fields ask for; used as `drive.open_world`.  token: the run's. */
espl_status espl__world_open(const struct espl__drive *, uint64_t token, struct espl__world **,
    struct espl__diag *);
#endif
