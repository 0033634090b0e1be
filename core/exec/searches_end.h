/* searches_end.h - searches arrive, are cancelled and end. */
#ifndef ESPL__EXEC_SEARCHES_END_H
#define ESPL__EXEC_SEARCHES_END_H
#include "exec/state.h"

/* searches_end.c */
/* DEADLINE or BUDGET: that ended the whole run permanently; else 0. */
enum espl__run_end espl__searches_cut(const struct espl__exec *);
void espl__search_show(const struct espl__search *);
/* Ends it, and with it an ordinary run; a pool continues with the others. */
void espl__search_wind_up(struct espl__search *, enum espl__run_end, const char *format, ...)
    ESPL_PRINTF(3, 4);
/* Trials of one that failed, which wait for a resume; they count as unfinished. */
uint64_t espl__search_parked(const struct espl__search *);
void espl__search_closed(struct espl__search *); /* none of its trials runs any more */
int espl__search_came_to_nothing(const struct espl__search *, char *why,
    size_t room);                                   /* 1: why is written */
int espl__search_idle(const struct espl__search *); /* finished, and nothing is left to train */
/* Its search has ended by what it has found, and its model is wanted: the best, or the one that
 * reached the target. */
int espl__trial_is_found(const struct espl__trial *);
void espl__trial_stop(struct espl__exec *x, struct espl__trial *t);
/* of all */
espl_time espl__search_limits_at(const struct espl__exec *); /* when one of them may be due */
/* Ends experiments of a pool by their deadlines and budgets, and wakes algorithms: how many. */
uint32_t espl__searches_alarm(struct espl__exec *);
/* The round is over. The search whose algorithm was called soon once too often, in vain; or NULL.
 */
struct espl__search *espl__searches_hasty(struct espl__exec *, int in_vain);
espl_time espl__search_next(const struct espl__exec *);  /* the first alarm of any; NEVER none */
uint32_t espl__searches_open(const struct espl__exec *); /* number that are not ending */
int espl__searches_to_come(const struct espl__exec *);   /* are arrivals expected? */
int espl__searches_idle(const struct espl__exec *);      /* all are, and no arrival is expected */
int espl__searches_need_no_nodes(const struct espl__exec *);

/* ---- searches that have found enough --------------------------------------------------------- */

void espl__search_goal_init(struct espl__search *);
/* The config has reported this loss for the first time; it failed for good. */
void espl__search_goal_report(struct espl__trial *, uint64_t iteration, double loss);
void espl__search_goal_failed(const struct espl__trial *);
/* Something has happened: ends the searches that have found enough, or nothing for long enough. */
void espl__searches_goals(struct espl__exec *);
#endif
