/* searches_jobs.h - what arrives in a pool: experiments, and the jobs of a workload. */
#ifndef ESPL__EXEC_SEARCHES_JOBS_H
#define ESPL__EXEC_SEARCHES_JOBS_H
#include "exec/questions.h"
#include "exec/state.h"

/* The search that holds the plain jobs, which is the first; NULL: none. */
static inline struct espl__search *
espl__jobs_search(const struct espl__exec *x)
{
	return x->searches.count > 0 && x->searches.list[0]->jobs != NULL ? x->searches.list[0]
									  : NULL;
}

/* searches.c */
espl_status espl__search_arrive(struct espl__exec *, uint64_t number, struct espl__diag *);
void espl__search_cancel(struct espl__exec *, uint64_t number, uint64_t trial);
espl_status espl__search_suits(struct espl__search *,
    struct espl__diag *); /* can its trials ever run? */

/* searches_jobs.c */
espl_status espl__jobs_init(struct espl__search *, const struct espl__jobs *);
void espl__job_arrive(struct espl__exec *, const struct espl__event *);
void espl__jobs_skip(struct espl__search *); /* the next ones that were cancelled arrive and end */
void espl__job_ended(const struct espl__trial *);
void espl__jobs_sum(const struct espl__exec *, struct espl__jobs_summary *);
void espl__jobs_look(struct espl__exec *); /* redraws estimates */
#endif
