/* milp_jobs.h - which jobs a decision is about, and what they become as numbers (milp_problem.h).
 *
 * Who takes part is found in milp_queue.h, how much each counts in milp_weigh.h; the rest is here.
 */
#ifndef MILP_JOBS_H
#define MILP_JOBS_H
#include <espalier/kit/roster.h>
#include "milp_problem.h"

/* options; what they mean is said there */
struct milp_rules {
	double period_s, step_s; /* between decisions; of the horizon */
	uint32_t steps;
	uint32_t delay, keep, fill; /* 1: yes */
	double floor;               /* part of the estimate */
	double beta;
	double slowdown; /* 0: no cap */
	double doubling;
	double poor; /* 0: never */
	/* 1: weights by rank, with level and tail; 0: by size, with beta */
	uint32_t rank;
	uint32_t preempt; /* 1: who has least left goes first */
	double level, tail;
};
/* of a job of the problem */
struct milp_subject {
	uint32_t index;  /* in view and roster */
	uint32_t now;    /* width in force, 0: it waits */
	double demand_s; /* work left, on `unit` GPUs */
	double pause_s;  /* of a change of width; 0: none, or not known */
};
/* all zero to begin with; room is kept */
struct milp_case {
	struct milp_problem problem;
	struct milp_subject *subjects; /* [problem.job_count] */
	uint32_t room, dropped_count, dropped_room;
	uint32_t without;  /* jobs without a good estimate */
	double step_s;     /* of the horizon */
	uint32_t *dropped; /* indices of those to be preempted */
};

/* Work left, not below the floor; NaN: no estimate. */
double allocator_milp_left(const struct espl_item *, const struct milp_rules *);
/* How many times as long it takes as on its widest alone, if it has that from now on. */
double allocator_milp_slowdown(const struct espl_item *, double left_s, double best, espl_time now);
/* ESPL_E_NOMEM. */
espl_status allocator_milp_case(struct milp_case *, const struct espl_alloc_view *,
    struct espl_roster *, const struct milp_rules *, uint32_t total);
void allocator_milp_case_free(struct milp_case *);

#endif
