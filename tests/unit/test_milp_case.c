/* test_milp_case.c - problems for the tests and the bench of allocator milp. */
#include <espalier/util.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "milp_cbc.h"
#include "test_milp.h"

double
milp_draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (double)((*state * UINT64_C(0x2545f4914f6cdd1d)) >> 11) * 0x1p-53;
}

double
milp_draw_demand(uint64_t *state)
{
	for (;;) {
		double normal =
		    sqrt(-2 * log(1 - milp_draw(state))) * cos(2 * acos(-1) * milp_draw(state));
		double demand = exp(1.5 * normal + log(225) - 1.125);

		if (demand >= 5)
			return demand;
	}
}

struct milp_problem
milp_make(uint32_t nodes, uint32_t count, const double *node_minutes)
{
	struct milp_problem p = { nodes, 5, count, 0, calloc(count + 1u, sizeof *p.jobs) };
	uint32_t i, k;

	for (i = 0; i < count && p.jobs != NULL; i++) {
		p.jobs[i].count = 5;
		p.jobs[i].weight = 1;
		for (k = 0; k < 5; k++) {
			p.jobs[i].width[k] = 1u << k;
			p.jobs[i].rate[k] = 5 * (1 << k) * pow(0.8, k) / node_minutes[i];
			p.jobs[i].first[k] = p.jobs[i].rate[k];
		}
	}
	return p;
}

struct milp_problem
milp_make_random(uint32_t nodes, uint32_t count, uint64_t seed)
{
	double demands[1024];
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (seed + 1);
	uint32_t i;

	for (i = 0; i < 10; i++)
		(void)milp_draw(&state);
	for (i = 0; i < count && i < 1024; i++)
		demands[i] = milp_draw_demand(&state);
	return milp_make(nodes, i, demands);
}

void
milp_free(struct milp_problem *p)
{
	free(p->jobs);
	p->jobs = NULL;
}

struct milp_plan
milp_solve(const struct milp_problem *p, int kind, uint32_t effort)
{
	struct milp_plan plan;

	if (!allocator_milp_plan_init(&plan, p) || !allocator_milp_marginal(p, &plan) ||
	    !allocator_milp_exact(p, kind == 1 ? effort : 0, 0, &plan))
		plan.value = NAN;
	return plan;
}

struct found {
	double value, took_s;
	int proven;
};

static struct found
in_child(const struct milp_problem *p, int paper, double limit_s)
{
	struct milp_cbc how = { paper ? MILP_PAPER : MILP_BINARIES, 10000000, 0, 0, limit_s };
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct milp_plan plan;
	struct rusage before, after;
	struct found found = { NAN, 0, 0 };

	if (!allocator_milp_plan_init(&plan, p) || !allocator_milp_marginal(p, &plan))
		return found;
	(void)getrusage(RUSAGE_SELF, &before);
	if (milp_cbc_solve(p, &how, &plan, &error) == ESPL_OK)
		found.value = plan.value;
	(void)getrusage(RUSAGE_SELF, &after);
	found.proven = plan.status == MILP_OPTIMAL;
	found.took_s = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
	    (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6;
	return found;
}

double
milp_by_cbc(const struct milp_problem *p, int paper, double limit_s, double *took_s, int *proven)
{
	struct found found = { NAN, 0, 0 };
	int ends[2], how;
	pid_t child;

	if (pipe(ends) != 0)
		return NAN;
	(void)fflush(NULL);
	child = fork();
	if (child == 0) {
		found = in_child(p, paper, limit_s);
		_exit(write(ends[1], &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], &found, sizeof found) != (ssize_t)sizeof found)
		found.value = NAN;
	close(ends[0]);
	if (child > 0)
		(void)waitpid(child, &how, 0);
	if (took_s != NULL)
		*took_s = found.took_s;
	if (proven != NULL)
		*proven = found.proven;
	return found.value;
}
