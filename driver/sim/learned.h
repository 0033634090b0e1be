/* learned.h - what a run has shown so far, and the rest of it as it may become: curves, times,
 * failures, nodes. docs/forecast.md says which draw stands for what.
 *
 * An observer learns while the run goes, or while its journal is replayed. Then one future is drawn
 * for each seed; all of it follows from what was observed and from the seed.
 */
#ifndef ESPL__LEARNED_H
#define ESPL__LEARNED_H
#include "exec/questions.h"

struct espl__learned;
struct espl__learned *espl__learned_new(void);
void espl__learned_free(struct espl__learned *);
struct espl__observer *espl__learned_observer(struct espl__learned *);

/* A step of the optimization history. */
struct espl__learned_best {
	espl_time at;
	double loss, cost_usd; /* turned: less is better */
};
/* The best that any trial had reported by then; loss NaN: none had. */
struct espl__learned_best espl__learned_best(const struct espl__learned *, espl_time at);
struct espl__learned_best espl__learned_first(const struct espl__learned *);
double espl__learned_cost(const struct espl__learned *, espl_time at); /* dollars by then, about */
/* Is enough known for a forecast?  guessed: no profile says how long an iteration takes. */
int espl__learned_enough(const struct espl__learned *, int guessed);

/* ---- one future ------------------------------------------------------------------------------ */

/* Once, before the first future: what one needs to know of the run as it stands. */
void espl__learned_settle(struct espl__learned *, const struct espl__exec *);
void espl__learned_future(struct espl__learned *, uint64_t seed);
/* The loss, as reported, of a trial that reaches this iteration; asked in order. */
double espl__learned_loss(struct espl__learned *, uint64_t trial, uint64_t iteration);
/* Has a trial in this future trained so far beyond all that were observed that its loss is a guess?
 */
int espl__learned_left_behind(const struct espl__learned *);
/* Metrics of a trial besides the objective, as last reported by it or by the one it is drawn from.
 */
const struct espl__metric *espl__learned_metrics(struct espl__learned *, uint64_t trial,
    uint32_t *count);
/* Seconds of this iteration of the trial on this share of this offer. */
double espl__learned_iteration_s(struct espl__learned *, uint64_t trial, uint64_t iteration,
    struct espl_share, uint32_t offer);
/* Does an attempt fail in this iteration? */
int espl__learned_fails(struct espl__learned *, uint64_t trial, uint32_t attempt,
    uint64_t iteration);
/* The iteration at which its program says that it is complete; UINT64_MAX: at its budget. */
uint64_t espl__learned_last(struct espl__learned *, uint64_t trial);

/* What takes time besides iterations; `given` where nothing was observed. */
enum espl__learned_span {
	ESPL__SPAN_START = 0, /* until the ranks run */
	ESPL__SPAN_WARM,      /* from there to the first report, without its iteration */
	ESPL__SPAN_SAVE,      /* from the last report to the end */
	ESPL__SPAN_RESIZE,
	ESPL__SPANS
};
const struct espl_latency *espl__learned_span(const struct espl__learned *, enum espl__learned_span,
    const struct espl_latency *given);
/* From the request to a node that is ready; NULL: none was ever. */
const struct espl_latency *espl__learned_provision(const struct espl__learned *, uint32_t offer);
/* Of requests, those that ended without a node. */
double espl__learned_refused(const struct espl__learned *, uint32_t offer);
/* Interruptions per node-hour: a draw from what is known of them; `terms` is the prior. */
double espl__learned_hazard(struct espl__learned *, uint32_t offer, const struct espl_offer *terms);
#endif
