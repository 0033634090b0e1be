/* curves.h - recorded learning curves as trials (simulate): a table of configurations, each with
 * the metric's value at each iteration.  Format: docs/curves.md.
 */
#ifndef ESPL__CURVES_H
#define ESPL__CURVES_H
#include "config/run.h"
#include "model/space.h"

struct espl__curves;
struct espl__buf;
/* CSV: one line a (configuration, iteration): `config` first column, parameter columns named as in
 * the space, `iteration`, metric columns, optional `seconds` (length of the iteration on one GPU).
 */
espl_status espl__curves_load(const char *path, const struct espl__space *, struct espl__curves **,
    struct espl__diag *);
/* The same from text, which is cut up; `name` for messages. */
espl_status espl__curves_parse(const char *name, struct espl__buf *text, const struct espl__space *,
    struct espl__curves **, struct espl__diag *);
/* Those of a trial: of its file, or what was read of its run directory. */
espl_status espl__curves_of(const struct espl__trial_config *, const struct espl__space *,
    struct espl__curves **, struct espl__diag *);
void espl__curves_free(struct espl__curves *);
/* Row of the configuration nearest in the unit cube (inactive ones ignored; ties: first). */
uint32_t espl__curves_nearest(const struct espl__curves *, const double *values);
uint32_t espl__curves_metric_count(const struct espl__curves *);
const char *espl__curves_metric(const struct espl__curves *, uint32_t metric);
/* The value at an iteration (the last at or before it; NaN before the first).  `last`: the
 * curve's last iteration, beyond which the trial is complete. */
double espl__curves_value(const struct espl__curves *, uint32_t row, uint32_t metric,
    uint64_t iteration);
double espl__curves_seconds(const struct espl__curves *, uint32_t row,
    uint64_t iteration); /* NaN unknown */
uint64_t espl__curves_last(const struct espl__curves *, uint32_t row);
#endif
