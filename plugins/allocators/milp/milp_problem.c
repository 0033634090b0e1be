/* milp_problem.c - what a plan is worth and takes. */
#include "milp_problem.h"
#include <string.h>

double
allocator_milp_worth(const struct milp_job *job, const uint8_t *choice, uint32_t steps)
{
	double served = 0, sum = 0;
	uint32_t t;

	for (t = 0; t < steps; t++) {
		served += milp_gain(job, t, choice[t]);
		if (served > 1)
			served = 1;
		sum += served;
	}
	return job->weight * sum;
}

double
allocator_milp_value(const struct milp_problem *problem, const uint8_t *choice)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < problem->job_count; i++)
		sum += allocator_milp_worth(&problem->jobs[i], choice + (size_t)i * problem->steps,
		    problem->steps);
	return sum;
}

int
allocator_milp_used(const struct milp_problem *problem, const uint8_t *choice, uint64_t *used)
{
	uint32_t i, t;
	int fits = 1;

	for (t = 0; t < problem->steps; t++)
		used[t] = 0;
	for (i = 0; i < problem->job_count; i++)
		for (t = 0; t < problem->steps; t++)
			used[t] += problem->jobs[i].width[choice[(size_t)i * problem->steps + t]];
	for (t = 0; t < problem->steps; t++)
		fits &= used[t] <= problem->total;
	return fits;
}

int
allocator_milp_plan_init(struct milp_plan *plan, const struct milp_problem *problem)
{
	memset(plan, 0, sizeof *plan);
	plan->choice = calloc((size_t)problem->job_count * problem->steps + 1, 1);
	return plan->choice != NULL;
}

void
allocator_milp_plan_free(struct milp_plan *plan)
{
	free(plan->choice);
	plan->choice = NULL;
}
