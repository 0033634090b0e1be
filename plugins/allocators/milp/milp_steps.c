/* milp_steps.c - a knapsack for each step (milp_problem.h). */
#include <espalier/kit/array.h>
#include "milp_problem.h"
#include <math.h>
#include <string.h>

#define SEVERAL 255u

/* The loss of each choice of a job in a step, never done; the least is 0. */
static void
fill_losses(const struct milp_problem *problem, const struct milp_job *job, const double *price,
    uint32_t t, double *loss)
{
	double best = -INFINITY;
	uint32_t c;

	for (c = 0; c < job->count; c++) {
		loss[c] = job->weight * (problem->steps - t) * milp_gain(job, t, c) -
		    price[t] * job->width[c];
		if (loss[c] > best)
			best = loss[c];
	}
	for (c = 0; c < job->count; c++)
		loss[c] = best - loss[c];
}

int
allocator_milp_steps_fits(const struct milp_problem *problem, const struct milp_job *job,
    const double *price, double radius)
{
	double loss[MILP_WIDTHS], served = 0;
	uint32_t t, c;

	for (t = 0; t < problem->steps; t++) {
		double most = 0;

		fill_losses(problem, job, price, t, loss);
		for (c = 0; c < job->count; c++)
			if (loss[c] <= radius && milp_gain(job, t, c) > most)
				most = milp_gain(job, t, c);
		served += most;
	}
	return served <= 1;
}

int
allocator_milp_steps_add(struct milp_steps *steps, uint32_t job)
{
	uint32_t *more =
	    espl_array_grow(steps->members, &steps->room, steps->count + 1, sizeof *more);

	if (more == NULL)
		return 0;
	steps->members = more;
	steps->members[steps->count++] = job;
	return 1;
}

/* Adds a member with several choices to the table of those before; the largest index in use goes
 * up. */
static void
add_member(const struct milp_job *job, const double *loss, double radius, uint32_t total,
    double *table, double *old, uint8_t *taken, uint32_t *top)
{
	uint32_t c, u, widest = 0;

	memcpy(old, table, (*top + 1) * sizeof *old);
	for (u = 0; u <= *top; u++)
		table[u] = INFINITY;
	for (c = 0; c < job->count; c++) {
		if (loss[c] > radius)
			continue;
		widest = job->width[c];
		for (u = 0; u <= *top && u + widest <= total; u++) {
			double sum = old[u] + loss[c];

			if (sum <= radius && sum < table[u + widest]) {
				table[u + widest] = sum;
				taken[u + widest] = (uint8_t)c;
			}
		}
	}
	*top = *top + widest <= total ? *top + widest : total;
}

static void
fill_step(struct milp_steps *steps, const struct milp_problem *problem, const double *price,
    double radius, uint32_t t, double *old)
{
	struct milp_step *step = &steps->step[t];
	uint32_t i, c, u, top, total = problem->total;
	uint64_t fixed = 0;
	double loss[MILP_WIDTHS];

	for (i = 0; i < steps->count; i++) { /* most members have no choice */
		const struct milp_job *job = &problem->jobs[steps->members[i]];
		uint32_t within = 0;

		fill_losses(problem, job, price, t, loss);
		for (c = 0; c < job->count; c++)
			if (loss[c] <= radius && within++ == 0)
				step->only[i] = (uint8_t)c;
		if (within > 1)
			step->only[i] = SEVERAL;
		else
			fixed += job->width[step->only[i]];
	}
	for (u = 0; u <= total; u++)
		step->table[u] = INFINITY;
	if (fixed > total)
		return;
	top = (uint32_t)fixed;
	step->table[top] = 0;
	for (i = 0; i < steps->count; i++) {
		const struct milp_job *job = &problem->jobs[steps->members[i]];

		if (step->only[i] != SEVERAL)
			continue;
		fill_losses(problem, job, price, t, loss);
		add_member(job, loss, radius, total, step->table, old,
		    step->taken + (size_t)i * (total + 1u), &top);
	}
	for (u = 1; u <= total; u++) /* nodes that stay unused cost their price */
		if (step->table[u - 1] + price[t] < step->table[u]) {
			step->table[u] = step->table[u - 1] + price[t];
			step->unused[u] = 1;
		}
}

void
allocator_milp_steps_choose(const struct milp_steps *steps, const struct milp_problem *problem,
    uint32_t t, uint32_t nodes, uint8_t *choice)
{
	const struct milp_step *step = &steps->step[t];
	uint32_t i = steps->count;

	while (step->unused[nodes])
		nodes--;
	for (; i-- > 0;) { /* the last one added comes off first */
		uint32_t c = step->only[i];

		if (c == SEVERAL) {
			c = step->taken[(size_t)i * (problem->total + 1u) + nodes];
			nodes -= problem->jobs[steps->members[i]].width[c];
		}
		choice[(size_t)steps->members[i] * problem->steps + t] = (uint8_t)c;
	}
}

int
allocator_milp_steps_fill(struct milp_steps *steps, const struct milp_problem *problem,
    const double *price, double radius)
{
	size_t size = (size_t)problem->total + 1;
	double *old = malloc(size * sizeof *old);
	uint32_t t;

	for (t = 0; t < problem->steps && old != NULL; t++) {
		struct milp_step *step = &steps->step[t];

		step->table = malloc(size * sizeof *step->table);
		step->unused = calloc(size, 1);
		step->only = malloc(steps->count + 1u);
		step->taken = malloc(size * steps->count + 1);
		if (step->table == NULL || step->unused == NULL || step->only == NULL ||
		    step->taken == NULL)
			break;
		fill_step(steps, problem, price, radius, t, old);
	}
	free(old);
	return t == problem->steps;
}

void
allocator_milp_steps_free(struct milp_steps *steps)
{
	uint32_t t;

	for (t = 0; t < MILP_STEPS; t++) {
		free(steps->step[t].table);
		free(steps->step[t].unused);
		free(steps->step[t].only);
		free(steps->step[t].taken);
	}
	free(steps->members);
	memset(steps, 0, sizeof *steps);
}
