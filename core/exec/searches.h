/* searches.h - the searches of a run, from their arrival to their end. */
#ifndef ESPL__EXEC_SEARCHES_H
#define ESPL__EXEC_SEARCHES_H
#include "exec/state.h"

/* searches.c */
espl_status espl__search_add(struct espl__exec *, const struct espl__session *,
    struct espl__diag *);
espl_status espl__search_declare(struct espl__search *,
    struct espl__diag *); /* allocator and placer are there */
void espl__search_free(struct espl__search *);
espl_status espl__search_arrive(struct espl__exec *, uint64_t number, struct espl__diag *);
void espl__search_cancel(struct espl__exec *, uint64_t number, uint64_t trial);
espl_status espl__search_suits(const struct espl__search *,
    struct espl__diag *);                        /* can its trials ever run? */
void espl__search_metric(struct espl__search *); /* the executor knows one more */
void espl__search_spent(struct espl__exec *);    /* each one's part of what was spent */

/* searches_end.c */
void espl__exec_show_search(const struct espl__search *);
/* Ends it, and with it an ordinary run; a pool continues with the others. */
void espl__search_wind_up(struct espl__search *, enum espl__run_end, const char *format, ...)
    ESPL_PRINTF(3, 4);
void espl__search_closed(struct espl__search *); /* none of its trials runs any more */
int espl__search_came_to_nothing(const struct espl__search *, char *why,
    size_t room);                              /* 1: why is written */
void espl__search_alarms(struct espl__exec *); /* deadlines and budgets of a pool's experiments */
espl_time espl__search_limits_at(const struct espl__exec *); /* when one of them may be due */
int espl__search_idle(const struct espl__search *); /* finished, and nothing is left to train */
uint32_t espl__searches_open(
    const struct espl__exec *);                         /* number of searches that are not ending */
int espl__exec_to_come(const struct espl__exec *);      /* are arrivals expected? */
int espl__exec_idle(const struct espl__exec *);         /* all are, and no arrival is expected */
espl_time espl__search_next(const struct espl__exec *); /* the first alarm of any; NEVER none */
int espl__exec_needs_no_nodes(const struct espl__exec *);
void espl__trial_stop(struct espl__exec *x, struct espl__trial *t);

/* searches_jobs.c */
void espl__job_arrive(struct espl__exec *, const struct espl__event *);
void espl__jobs_skip(struct espl__search *); /* the next ones that were cancelled arrive and end */
void espl__jobs_sum(const struct espl__exec *, struct espl__jobs_summary *);
void espl__jobs_look(struct espl__exec *); /* redraws estimates */
#endif
