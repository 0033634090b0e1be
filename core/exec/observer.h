/* observer.h - who wants to see what the executor does: results.db, the live view, --json.
 *
 * Called from within the executor's step, in order, also during replay (replaying says so).
 * An observer must not fail and may not call back.  Every entry may be NULL.
 */
#ifndef ESPL__OBSERVER_H
#define ESPL__OBSERVER_H
#include <espalier/algorithm.h>
#include "exec/effect.h"
#include "exec/event.h"
#include "forecast/forecast.h"

/* What became of a gang. */
enum espl__gang_phase {
	ESPL__PHASE_STARTING = 1,
	ESPL__PHASE_RUNNING,
	ESPL__PHASE_RESIZED, /* in place */
	ESPL__PHASE_ENDED
};

struct espl__exec;
struct espl__search_summary; /* executor.h */
struct espl__observer {
	void *ctx;
	struct espl__observer *next;
	const struct espl__exec *exec; /* set when it is made: what a trial is of may be asked */
	/* A trial was made or changed state, budget, iteration, checkpoint or rung. */
	void (*trial)(void *ctx, espl_time now, const struct espl_trial *);
	void (*report)(void *ctx, espl_time now, const struct espl_trial *, uint64_t iteration,
	    double loss, const struct espl__metric *, uint32_t count, struct espl_share);
	/* A gang came into this phase, on these slots. */
	void (*gang)(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase,
	    struct espl_share, const struct espl_slot *, const char *text);
	/* It was resized in place, and did not train for `took`. A call of gang with the new slots
	 * follows.
	 */
	void (*resized)(void *ctx, espl_time now, uint64_t gang, double took_s);
	/* The end of a gang counts against its trial's retries; a call of trial with its new state
	 * follows.
	 */
	void (*failure)(void *ctx, espl_time now, const struct espl_trial *);
	void (*node)(void *ctx, espl_time now, const struct espl_node *, const struct espl_offer *,
	    espl_money charged, const char *why);
	/* A group was begun or ended. */
	void (*group)(void *ctx, espl_time now, uint64_t group, uint32_t bracket, uint32_t stage,
	    int ended);
	/* A plan is in force, with its prediction, from the start of the run or from now on. */
	void (*plan)(void *ctx, espl_time now, const struct espl__forecast_stage *, uint32_t count,
	    const struct espl__forecast_result *, const struct espl_plan *);
	/* An experiment of a pool came, ends, or is over. */
	void (*experiment)(void *ctx, espl_time now, uint64_t number,
	    const struct espl__search_summary *);
	/* Reasons, by policies (note) and by the executor, for `explain`. */
	void (*note)(void *ctx, espl_time now, const char *who, espl_subject, uint64_t id,
	    const char *text);
	void (*end)(void *ctx, espl_time now, enum espl__run_end, const char *text);
};
#endif
