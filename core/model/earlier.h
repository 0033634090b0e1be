/* earlier.h - earlier observations that fit this run's search space: the data of a warm start.
 *
 * They are read from the CSV of recorded curves (docs/curves.md): written by a user, converted from
 * the results of an earlier run, or this run's own copy. Unlike curves that are replayed, it may
 * contain configurations that do not fit; they are skipped and counted.
 */
#ifndef ESPL__EARLIER_H
#define ESPL__EARLIER_H
#include <espalier/algorithm.h>
#include "base/buf.h"
#include "base/diag.h"
#include "model/space.h"

struct espl__earlier;

void espl__earlier_free(struct espl__earlier *);

/* Observations in the file's order, marked ESPL_OBSERVED_EARLIER; the objective is their one
 * metric. The struct is filled for the caller, its pointers live as long as `earlier`. */
uint64_t espl__earlier_count(const struct espl__earlier *);
void espl__earlier_at(const struct espl__earlier *, uint64_t index, struct espl_observation *);
/* Distinct configurations, best first: by the iteration that they reached, then by loss, then in
 * the file's order. Those whose last value is not a number are left out. NULL beyond the last. */
const double *espl__earlier_best(const struct espl__earlier *, uint32_t rank);
/* How many configurations were there, how many of them do not fit, and why the first does not. */
uint32_t espl__earlier_configs(const struct espl__earlier *);
uint32_t espl__earlier_skipped(const struct espl__earlier *, const char **why);
/* Covers everything that an algorithm can learn from it. */
uint64_t espl__earlier_digest(const struct espl__earlier *);
#endif
