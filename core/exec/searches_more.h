/* searches_more.h - what the user adds to a search, or takes from it, after it has begun. */
#ifndef ESPL__EXEC_SEARCHES_MORE_H
#define ESPL__EXEC_SEARCHES_MORE_H
#include "exec/state.h"

espl_status espl__search_extend(struct espl__exec *, const struct espl__event *,
    struct espl__diag *); /* EV_EXTEND */
/* The trial ends where it is, as if the algorithm had stopped it. */
espl_status espl__search_stop(struct espl__exec *, uint64_t number, uint64_t trial,
    struct espl__diag *);
/* Those that the user has stopped while they were paused, and the algorithm has continued. */
espl_status espl__search_stop_unwanted(struct espl__search *, struct espl__diag *);
void espl__search_note(struct espl__exec *, const struct espl__event *); /* EV_TRIAL_NOTE */

/* ---- experiments that failed, and continue --------------------------------------------------- */

void espl__searches_reopen(struct espl__exec *); /* those that are parked */
#endif
