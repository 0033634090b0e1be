/* milp_problem.h - one decision of allocator milp as numbers: jobs, the widths each may have, the
 * steps of the horizon, and what a plan is worth.
 *
 * A plan gives every job a width in every step; no step takes more than `total`.  A job's progress
 * is the part of its demand served so far, at most 1, and it earns its weight times that in every
 * step: the paper's objective, in which what is served early counts in all later steps again.
 */
#ifndef MILP_PROBLEM_H
#define MILP_PROBLEM_H
#include <stdint.h>
#include <stdlib.h>

#define MILP_WIDTHS 20u /* of a job, at most */
#define MILP_STEPS 12u  /* of the horizon, at most */
#define MILP_CLOSE 1e-9 /* objectives that differ by a smaller part are the same */

struct milp_job {
	uint32_t count; /* of widths, at least 1 */
	uint32_t zero;
	double weight;               /* above 0 */
	uint32_t width[MILP_WIDTHS]; /* rising */
	double rate[MILP_WIDTHS];    /* part of the demand served in a step; rising */
	double first[MILP_WIDTHS];   /* the same in the first step */
};
struct milp_problem {
	uint32_t total; /* that all jobs may take together in a step */
	uint32_t steps; /* from 1 to MILP_STEPS */
	uint32_t job_count, zero;
	struct milp_job *jobs;
};

enum milp_status { MILP_HEURISTIC, MILP_BOUNDED, MILP_OPTIMAL };
struct milp_plan {
	uint8_t *choice;     /* [job * steps + step]: index into the job's widths */
	double value, bound; /* of the objective; bound: no plan is worth more */
	enum milp_status status;
	uint32_t zero;
	uint64_t spent; /* steps of work of the exact search */
};

/* Progress made in a step on a width, by its index. */
static inline double
milp_gain(const struct milp_job *job, uint32_t step, uint32_t choice)
{
	return step == 0 ? job->first[choice] : job->rate[choice];
}

/* What a job earns with these choices, [steps]. */
double allocator_milp_worth(const struct milp_job *, const uint8_t *choice, uint32_t steps);
/* The sum over all jobs, in their order. */
double allocator_milp_value(const struct milp_problem *, const uint8_t *choice);
/* What each step takes, into used[steps]; 1: no step takes more than there is. */
int allocator_milp_used(const struct milp_problem *, const uint8_t *choice, uint64_t *used);
/* Room for the choices, all of them the least; 0: out of memory. */
int allocator_milp_plan_init(struct milp_plan *, const struct milp_problem *);
void allocator_milp_plan_free(struct milp_plan *);

#endif
