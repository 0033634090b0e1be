/* past_curves.h - what the trials of a run reported, as a CSV of curves (docs/curves.md). */
#ifndef ESPL__PAST_CURVES_H
#define ESPL__PAST_CURVES_H
#include "base/buf.h"
#include "base/diag.h"
#include "model/profile.h"

/* One line a report, in order of time, with the one metric.  E_CONFIG: no run's folder, or a run
 * that knows no such metric (with a hint). */
espl_status espl__past_curves(const char *dir, const char *metric, struct espl__buf *,
    struct espl__diag *);
/* To be replayed (model/curves.h): by trial and iteration, with all metrics and the seconds that
 * each iteration would take on one GPU by this profile's scaling. */
espl_status espl__past_replay(const char *dir, const char *metric, const struct espl__profile *,
    struct espl__buf *, struct espl__diag *);
#endif
