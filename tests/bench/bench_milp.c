/* bench_milp.c - figures of the engines of allocator milp: processor time of one thread, and what
 * is proven.  One JSON object a line. bench_milp [INSTANCES [CBC]]     190 nodes, 5 to 190 jobs;
 * CBC: instances for each of its formulations bench_milp cross [INSTANCES]     the engines against
 * one another on at most 9 jobs; exit 1 if they differ
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "part.h"
#include "milp_cbc.h"
#include "../unit/test_milp.h"

#define NODES 190
#define EFFORT 1000000

static double
cpu(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
print_times(const char *engine, double *took, uint32_t count, uint32_t proven, double worst_gap)
{
	if (count == 0)
		return;
	printf("{\"engine\": \"%s\", \"instances\": %u, \"median_ms\": %.3f, \"p95_ms\": %.3f, "
	       "\"p99_ms\": %.3f, \"max_ms\": %.3f, \"proven\": %u, \"worst_gap\": %.2e}\n",
	    engine, count, 1e3 * part(took, count, 0.5), 1e3 * part(took, count, 0.95),
	    1e3 * part(took, count, 0.99), 1e3 * part(took, count, 1), proven, worst_gap);
	(void)fflush(stdout);
}

static const uint32_t jobs[] = { 5, 10, 20, 35, 50, 70, 100, 140, 170, 190 };
#define SIZES (sizeof jobs / sizeof jobs[0])

static void
times(uint32_t instances, int kind, const char *engine)
{
	double *took = malloc((instances + 1u) * sizeof *took), worst = 0;
	uint32_t i, proven = 0;

	for (i = 0; i < instances && took != NULL; i++) {
		struct milp_problem p = milp_make_random(NODES, jobs[i % SIZES], i);
		double began = cpu(), gap;
		struct milp_plan plan = milp_solve(&p, kind, EFFORT);

		took[i] = cpu() - began;
		gap = plan.bound / plan.value - 1;
		proven += plan.status == MILP_OPTIMAL;
		worst = gap > worst ? gap : worst;
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
	if (took != NULL)
		print_times(engine, took, instances, proven, worst);
	free(took);
}

/* The same instances, as many as there is time for. */
static void
cbc_times(uint32_t instances, int paper, double limit_s, const char *engine)
{
	double *took = malloc((instances + 1u) * sizeof *took), worst = 0;
	uint32_t i, proven = 0, found = 0;

	for (i = 0; i < instances && took != NULL; i++) {
		struct milp_problem p = milp_make_random(NODES, jobs[i % SIZES], i);
		struct milp_plan best = milp_solve(&p, 1, EFFORT);
		int sure = 0;
		double value = milp_by_cbc(&p, paper, limit_s, &took[found], &sure);

		proven += (uint32_t)sure;
		if (!isnan(value)) {
			found++;
			worst = best.value / value - 1 > worst ? best.value / value - 1 : worst;
		}
		allocator_milp_plan_free(&best);
		milp_free(&p);
	}
	if (took != NULL)
		print_times(engine, took, found, proven, worst);
	free(took);
}

/* Exact against the binaries by CBC, and every tenth time the paper's formulation. */
static int
cross(uint32_t instances)
{
	uint64_t state = 4711;
	uint32_t i, differ = 0, silent = 0, paper = 0, unproven = 0;

	for (i = 0; i < instances; i++) {
		uint32_t count = 2 + (uint32_t)(8 * milp_draw(&state));
		uint32_t nodes = count + (uint32_t)(25 * milp_draw(&state));
		struct milp_problem p = milp_make_random(nodes, count, 50000u + i);
		struct milp_plan plan = milp_solve(&p, 1, EFFORT);
		int sure, form = i % 10 == 0 && count <= 5;
		double value = milp_by_cbc(&p, form, 60, NULL, &sure);

		paper += (uint32_t)form;
		unproven += plan.status != MILP_OPTIMAL;
		if (isnan(value) || !sure) {
			silent++;
		} else if (fabs(value - plan.value) > 1e-7 * plan.value) {
			differ++;
			printf("{\"instance\": %u, \"nodes\": %u, \"jobs\": %u, \"exact\": %.12g, "
			       "\"cbc\": %.12g}\n",
			    i, nodes, count, plan.value, value);
		}
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
	printf("{\"cross\": %u, \"paper_formulation\": %u, \"differ\": %u, \"no_proof_by_exact\": "
	       "%u, \"no_proof_by_cbc\": %u}\n",
	    instances, paper, differ, unproven, silent);
	return differ > 0;
}

int
main(int argc, char **argv)
{
	uint32_t instances = 600, cbc = 10;

	if (argc > 1 && strcmp(argv[1], "cross") == 0) {
		if (milp_cbc_there())
			return cross(argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000);
		puts("{\"cross\": 0, \"why\": \"built without CBC\"}");
		return 1;
	}
	if (argc > 1)
		instances = (uint32_t)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		cbc = (uint32_t)strtoul(argv[2], NULL, 10);
	times(instances, 0, "marginal, with a bound");
	times(instances, 1, "exact");
	if (milp_cbc_there() && cbc > 0) {
		cbc_times(cbc, 0, 20, "cbc, binaries");
		cbc_times(cbc, 1, 5, "cbc, the paper's formulation, 5 s each");
	}
	return 0;
}
