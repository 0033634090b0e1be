/* requirements.h - experiment.require: what the metrics of a trial must meet (expr.h), such as
 * "latency_ms < 20".
 *
 * Only a trial of which all are known to hold can be the best.  Algorithms see it in the loss: that
 * of a trial which misses one is ESPL_LOSS_UNMET or more, and the more it misses the greater.
 */
#ifndef ESPL__REQUIREMENTS_H
#define ESPL__REQUIREMENTS_H
#include "base/diag.h"
#include "config/tree.h"

struct espl__space;
struct espl__requirements; /* immutable */

/* A list of conditions, which may name metrics alone.  NULL: *out is NULL.  E_CONFIG with file and
 * line. */
espl_status espl__requirements_parse(const struct espl__node *, const struct espl__space *,
    struct espl__requirements **out, struct espl__diag *);
void espl__requirements_free(struct espl__requirements *); /* may be NULL */
/* The metrics that are named, each once. */
uint32_t espl__requirements_count(const struct espl__requirements *);
const char *espl__requirements_metric(const struct espl__requirements *, uint32_t);
/* How far the metrics are from what is required: above 0 something does not hold, else all does
 * (espl__expr_shortfall), NaN that is not known yet.  metrics: [count], NaN where one was not
 * reported. */
double espl__requirements_shortfall(const struct espl__requirements *, const double *metrics);
/* The first that does not hold, or is not known to; NULL: all hold. */
const char *espl__requirements_missed(const struct espl__requirements *, const double *metrics);
#endif
