/* milp_jobs.h - which jobs a decision is about, and what they become as numbers (milp_problem.h).
 *
 * All that run take part, and of those that wait the first ones, in order of arrival, as long as
 * everybody's least width fits.  If the least widths of those that run do not fit (nodes were lost), the
 * ones that started last are preempted.
 */
#ifndef MILP_JOBS_H
#define MILP_JOBS_H
#include <espalier/roster.h>
#include "milp_problem.h"

struct milp_rules {			/* options; what they mean is said there */
	double   period_s;
	uint32_t steps;
	uint32_t delay, fill;		/* 1: yes                                      */
	double   floor;			/* part of the estimate                        */
	double   beta;
	double   slowdown;		/* 0: no cap                                   */
	double   doubling;
	double   poor;			/* 0: never                                    */
};
struct milp_subject {			/* of a job of the problem                     */
	uint32_t index;			/* in view and roster                          */
	uint32_t now;			/* width in force, 0: it waits                 */
	double   demand_s;		/* work left, on `unit` GPUs                   */
	double   pause_s;		/* of a change of width; 0: none, or not known */
};
struct milp_case {			/* all zero to begin with; room is kept        */
	struct milp_problem problem;
	struct milp_subject *subjects;	/* [problem.job_count]                         */
	uint32_t  room, dropped_count, dropped_room;
	uint32_t  without;		/* jobs without a good estimate                */
	uint32_t *dropped;		/* indices of those to be preempted            */
};

/* ESPL_E_NOMEM. */
espl_status allocator_milp_case(struct milp_case *, const struct espl_alloc_view *,
                                struct espl_roster *, const struct milp_rules *, uint32_t total);
void        allocator_milp_case_free(struct milp_case *);

#endif
