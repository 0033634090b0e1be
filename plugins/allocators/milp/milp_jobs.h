/* milp_jobs.h - selects the jobs of a decision, turns them into numbers (milp_problem.h), and
 * adapts the plan before it is applied. */
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
	uint32_t preempt; /* 1: jobs with the least remaining work first */
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

/* ESPL_E_NOMEM. */
espl_status allocator_milp_case(struct milp_case *, const struct espl_alloc_view *,
    struct espl_roster *, const struct milp_rules *, uint32_t total);
void allocator_milp_case_free(struct milp_case *);

/* ---- after the plan -------------------------------------------------------------------------- */

/* What is done with a plan before it is applied, and how to do without one.
 *
 * The objective does not care about many things that jobs do: within a step it is all the same when
 * they end, and whether nodes stay idle.
 */

/* Lets jobs have the width they have, where the objective hardly changes. */
void allocator_milp_keep(const struct milp_case *, struct milp_plan *);
/* Gives idle nodes of the first step away: what gains most speed per node and demand first, as long
 * as the job ends sooner by it. */
void allocator_milp_fill(const struct milp_case *, struct milp_plan *);
/* Equal widths for all, whatever they have left: the smallest is doubled first. */
void allocator_milp_equal(const struct milp_case *, struct milp_plan *);
/* Narrows jobs in the first step until all fit side by side on nodes of per_node GPUs, each on one
 * node or on whole ones.  placed[job] is 0 for a job that does not fit. */
void allocator_milp_place(const struct milp_case *, struct milp_plan *, uint32_t per_node,
    uint8_t *placed);

#endif
