/* milp_widths.c - from the plan of a horizon to the widths of now (milp_jobs.h). */
#include "milp_jobs.h"
#include <math.h>
#include <string.h>

#define HARDLY 1e-7 /* part of the objective that all jobs' keeping may cost together */
#define NOBODY UINT32_MAX

/* GPUs that the first step leaves. */
static uint64_t
idle_gpus(const struct milp_case *c, const struct milp_plan *plan)
{
	uint64_t used = 0;
	uint32_t i;

	for (i = 0; i < c->problem.job_count; i++)
		used += c->problem.jobs[i].width[plan->choice[(size_t)i * c->problem.steps]];
	return used < c->problem.total ? c->problem.total - used : 0;
}

void
allocator_milp_keep(const struct milp_case *c, struct milp_plan *plan)
{
	const struct milp_problem *p = &c->problem;
	double allowed = HARDLY * fabs(plan->value);
	uint64_t left = idle_gpus(c, plan);
	uint32_t i, k, round;

	for (round = 0; round < 2; round++) /* those who take less now make room for more */
		for (i = 0; i < p->job_count; i++) {
			const struct milp_job *job = &p->jobs[i];
			uint8_t *choice = plan->choice + (size_t)i * p->steps, was = choice[0];
			double loss;

			for (k = 0; k < job->count && job->width[k] != c->subjects[i].now; k++)
				;
			if (k == job->count || k == was || job->width[k] > job->width[was] + left)
				continue;
			loss = allocator_milp_worth(job, choice, p->steps);
			choice[0] = (uint8_t)k;
			loss -= allocator_milp_worth(job, choice, p->steps);
			if (loss > allowed) {
				choice[0] = was;
				continue;
			}
			allowed -= loss > 0 ? loss : 0;
			left = left + job->width[was] - job->width[k];
		}
}

/* Seconds until the job ends, if it stays at that width. */
static double
ends_in(const struct milp_case *c, uint32_t i, uint32_t choice)
{
	const struct milp_job *job = &c->problem.jobs[i];
	double pause = job->width[choice] == c->subjects[i].now ? 0 : c->subjects[i].pause_s;

	return pause + c->step_s / job->rate[choice];
}

/* What the next width gains per node; 0: it does not fit, or is no use. */
static double
gain_per_node(const struct milp_case *c, const struct milp_plan *plan, uint32_t i, uint64_t left)
{
	const struct milp_job *job = &c->problem.jobs[i];
	uint32_t k = plan->choice[(size_t)i * c->problem.steps];

	if (k + 1 >= job->count || job->width[k + 1] - job->width[k] > left ||
	    ends_in(c, i, k + 1) >= ends_in(c, i, k))
		return 0;
	return job->weight * (job->rate[k + 1] - job->rate[k]) /
	    (job->width[k + 1] - job->width[k]);
}

void
allocator_milp_fill(const struct milp_case *c, struct milp_plan *plan)
{
	uint64_t left = idle_gpus(c, plan);
	uint32_t i;

	while (left > 0) {
		const struct milp_job *job;
		double best = 0, here;
		uint32_t who = NOBODY;
		uint8_t *choice;

		for (i = 0; i < c->problem.job_count; i++) {
			here = gain_per_node(c, plan, i, left);
			if (here > best) {
				best = here;
				who = i;
			}
		}
		if (who == NOBODY)
			return;
		job = &c->problem.jobs[who];
		choice = plan->choice + (size_t)who * c->problem.steps;
		left -= job->width[*choice + 1] - job->width[*choice];
		++*choice;
	}
}

void
allocator_milp_equal(const struct milp_case *c, struct milp_plan *plan)
{
	const struct milp_problem *p = &c->problem;
	uint64_t left;
	uint32_t i;

	memset(plan->choice, 0, (size_t)p->job_count * p->steps);
	for (left = idle_gpus(c, plan); left > 0;) {
		uint32_t who = NOBODY, least = UINT32_MAX, k;

		for (i = 0; i < p->job_count; i++) {
			k = plan->choice[(size_t)i * p->steps];
			if (k + 1 < p->jobs[i].count &&
			    p->jobs[i].width[k + 1] - p->jobs[i].width[k] <= left &&
			    p->jobs[i].width[k] < least) {
				least = p->jobs[i].width[k];
				who = i;
			}
		}
		if (who == NOBODY)
			break;
		k = plan->choice[(size_t)who * p->steps];
		left -= p->jobs[who].width[k + 1] - p->jobs[who].width[k];
		memset(plan->choice + (size_t)who * p->steps, (int)k + 1, p->steps);
	}
	plan->value = allocator_milp_value(p, plan->choice);
	plan->bound = NAN;
	plan->status = MILP_HEURISTIC;
}

/* ---- side by side ------------------------------------------------------------------------- */

/* Occupies a place for the width; 0: there is none. free[g]: nodes with g GPUs free. */
static int
take_place(uint32_t *free_nodes, uint32_t per_node, uint32_t width)
{
	uint32_t whole = (width + per_node - 1) / per_node, g;

	if (width >= per_node) {
		if (free_nodes[per_node] < whole)
			return 0;
		free_nodes[per_node] -= whole;
		free_nodes[0] += whole;
		return 1;
	}
	for (g = width; g <= per_node && free_nodes[g] == 0; g++)
		;
	if (g > per_node)
		return 0;
	free_nodes[g]--;
	free_nodes[g - width]++;
	return 1;
}

void
allocator_milp_place(const struct milp_case *c, struct milp_plan *plan, uint32_t per_node,
    uint8_t *placed)
{
	const struct milp_problem *p = &c->problem;
	uint32_t free_nodes[1025] = { 0 }, i, widest, next = 0;

	memset(placed, 1, p->job_count);
	if (per_node > 1024 || p->total == 0)
		return;
	free_nodes[per_node] = p->total / per_node;
	free_nodes[p->total % per_node]++;
	memset(placed, 0, p->job_count);
	for (i = 0; i < p->job_count; i++) {
		widest = p->jobs[i].width[plan->choice[(size_t)i * p->steps]];
		next = widest > next ? widest : next;
	}
	/* The widest first; who finds no place tries again among the narrower ones. */
	for (widest = next; widest > 0; widest = next) {
		for (i = 0, next = 0; i < p->job_count; i++) {
			uint8_t *choice = plan->choice + (size_t)i * p->steps;
			uint32_t width = p->jobs[i].width[*choice];

			if (placed[i] == 0 && width == widest) {
				if (take_place(free_nodes, per_node, width))
					placed[i] = 1;
				else if (*choice > 0)
					width = p->jobs[i].width[--*choice];
			}
			if (placed[i] == 0 && width < widest && width > next)
				next = width;
		}
	}
}
