/* searches_faults.h - why an attempt failed, and what follows (see searches_faults.c). */
#ifndef ESPL__EXEC_SEARCHES_FAULTS_H
#define ESPL__EXEC_SEARCHES_FAULTS_H
#include "exec/state.h"

/* An attempt that failed. */
struct espl__failure {
	const char *text;
	uint64_t iteration; /* the last that it reported, or began from */
	uint64_t reports;   /* that this attempt made */
	uint64_t node;      /* it ran there; NONE: on several */
	int hopeless;       /* it would fail again */
	int over;           /* it had reached its budget: its result is valid */
};
/* Counts the failure of a trial: it is retried, or recorded as failed. */
espl_status espl__search_fault(struct espl__trial *, const struct espl__failure *,
    struct espl__diag *);
/* A gang failed, on this node (NONE: on several): where nothing has ever worked, or nothing works
 * any more, it may be the script or what it needs. */
void espl__search_attempt_failed(struct espl__exec *, const struct espl__gang *, uint64_t lease,
    const char *text);
/* When this gang, if it still runs then, shows that the script can work. */
espl_time espl__search_proves_at(const struct espl__search *, const struct espl__gang *);
/* May it start one more attempt?  Not while those that run may turn out to be all that is needed to
 * know that its script is at fault. */
int espl__search_may_start(struct espl__search *);
espl_time espl__search_starts_at(const struct espl__search *); /* when it may; NEVER */
/* a trial reported the metric */
void espl__search_worked(struct espl__search *, const struct espl__gang *);
int espl__search_unscored(struct espl__search *); /* a report lacks it.  1: the first one */

/* A node was lost under the trial; what was said about the end of the last ones: NULL nothing. */
void espl__search_lost_on(struct espl__trial *, uint64_t node);
/* The provider took the node back: do not count its loss against the trials that ran there. */
void espl__searches_taken_back(const struct espl__exec *, uint64_t node);
const char *espl__search_loss_why(const struct espl__trial *);

/* A trial that failed waits without an item until other configurations have been tried. */
void espl__trial_hold(struct espl__exec *, struct espl__trial *);
void espl__trial_unhold(struct espl__trial *); /* it waits no more, and gets no item */
void espl__search_retry(struct espl__search *, uint32_t most); /* they get their items */

void espl__search_faults_forgive(struct espl__search *); /* the run is resumed */
void espl__search_faults_free(struct espl__search *);

/* A gang was asked to pause and left without a checkpoint (why: "" or how it ended): will none
 * save one? */
void espl__search_stop_saving(struct espl__search *, const struct espl__trial *, const char *why);
#endif
