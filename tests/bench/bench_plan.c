/* bench_plan.c - figures of the planners: how far the cheap ones are from the proven optimum over
 * random cases, and how long each takes.  One JSON object a line; processor time of one thread.
 * bench_plan [CASES] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "part.h"
#include "../unit/test_planners.h"

#define CASES 1000
#define TIMES 9 /* of which the median counts */

/* ---- gaps --------------------------------------------------------------------------------- */

struct planner {
	const char *name, *options;
	const struct espl_plugin *plugin;
};
static const struct planner planners[] = {
	{ "elastic-exact", "", &allocator_elastic_exact_LTX_espalier_plugin },
	{ "elastic-exact fair", "allocations=fair", &allocator_elastic_exact_LTX_espalier_plugin },
	{ "elastic-greedy", "", &allocator_elastic_greedy_LTX_espalier_plugin },
	{ "elastic-greedy literal", "variant=literal starts=3",
	    &allocator_elastic_greedy_LTX_espalier_plugin },
	{ "static", "", &allocator_static_LTX_espalier_plugin },
	{ "naive-elastic", "", &allocator_naive_elastic_LTX_espalier_plugin },
};
#define PLANNERS (sizeof planners / sizeof planners[0])

struct tally {
	uint32_t found, optimal, below, late;
	double gap, worst;
	double *took;
};

static void
add(struct tally *t, const struct plan_found *found, const struct plan_found *exact)
{
	double gap;

	t->took[t->found] = found->took_s;
	if (found->status != ESPL_OK)
		return;
	t->found++;
	gap = exact->cost_usd > 0 ? found->cost_usd / exact->cost_usd - 1 : 0;
	t->optimal += gap <= 1e-9;
	t->below += gap < -1e-9;
	t->late += !found->meets;
	t->gap += gap;
	t->worst = fmax(t->worst, gap);
}

static int
gaps(uint32_t cases, enum plan_kind kind, const char *name, int by_function)
{
	struct tally tallies[PLANNERS] = { 0 };
	uint32_t unproven = 0, done = 0;
	int wrong = 0;

	for (size_t k = 0; k < PLANNERS; k++)
		tallies[k].took = calloc(cases + 1, sizeof(double));
	for (uint32_t i = 0; i < cases; i++) {
		struct plan_found found[PLANNERS];
		struct plan_case c;

		plan_case_random(&c, (uint64_t)i * PLAN_KINDS + kind + (by_function ? 1000003 : 0),
		    kind, by_function);
		for (size_t k = 0; k < PLANNERS; k++)
			found[k] = plan_case_plan(&c, planners[k].plugin, planners[k].options);
		plan_case_free(&c);
		if (found[0].status != ESPL_OK)
			continue;
		done++;
		unproven += !found[0].optimal;
		for (size_t k = 0; k < PLANNERS; k++)
			add(&tallies[k], &found[k], &found[0]);
	}
	for (size_t k = 0; k < PLANNERS; k++) {
		struct tally *t = &tallies[k];

		printf("{\"bench\": \"plan-gap\", \"profile\": \"%s\", \"billing\": \"%s\", "
		       "\"planner\": \"%s\", \"cases\": %u, \"found\": %u, \"optimal\": %.4f, "
		       "\"mean_gap\": %.5f, \"worst_gap\": %.4f, \"below\": %u, \"late\": %u, "
		       "\"unproven\": %u, \"median_ms\": %.3f, \"p95_ms\": %.3f, \"max_ms\": "
		       "%.3f}\n",
		    name, by_function ? "function" : "instance", planners[k].name, done, t->found,
		    t->found > 0 ? (double)t->optimal / t->found : 0.0,
		    t->found > 0 ? t->gap / t->found : 0.0, t->worst, t->below, t->late,
		    k == 0 ? unproven : 0, 1e3 * part(t->took, t->found, 0.5),
		    1e3 * part(t->took, t->found, 0.95), 1e3 * part(t->took, t->found, 1));
		wrong |= t->below > 0 || t->late > 0;
		free(t->took);
	}
	return wrong;
}

/* ---- times -------------------------------------------------------------------------------- */

/* SHA(trials, 4, most, 2) on nodes of 4 GPUs, a deadline of twice the fastest. */
static void
times(uint32_t trials, uint64_t most, uint32_t gpus, const struct planner *p, double minimum_s)
{
	double took[TIMES];
	struct plan_found found, least;
	struct plan_case c;
	uint32_t all[PLAN_STAGES];
	static const double seconds[] = { 4, 4 / 1.97, 4 / 3.7, 4 / 6.4, 4 / 10.4, 4 / 15.0, 0 };

	plan_case_init(&c);
	plan_case_latency(&c, seconds);
	plan_case_halving(&c, trials, 4, most);
	c.provision[0] = plan_seconds(15, 0);
	c.init[0] = plan_seconds(10, 0);
	c.offers[0].price_hour = 12240000;
	c.offers[0].minimum_charge = (espl_span)(minimum_s * 1e9);
	c.gpus_max = gpus;
	plan_case_model(&c);
	for (uint32_t i = 0; i < c.stage_count; i++)
		all[i] = gpus;
	(void)plan_case_predict(&c, all, 0, &least);
	plan_case_limits(&c, 2 * least.jct_s, INFINITY);
	for (int i = 0; i < TIMES; i++) {
		plan_case_model(&c);
		found = plan_case_plan(&c, p->plugin, p->options);
		took[i] = found.took_s;
	}
	printf("{\"bench\": \"plan-time\", \"planner\": \"%s\", \"trials\": %u, \"stages\": %u, "
	       "\"gpus\": %u, \"minimum_s\": %g, \"found\": %s, \"optimal\": %s, \"cost_usd\": "
	       "%.6f, \"median_ms\": %.3f, \"max_ms\": %.3f}\n",
	    p->name, trials, c.stage_count, gpus, minimum_s,
	    found.status == ESPL_OK ? "true" : "false", found.optimal ? "true" : "false",
	    found.cost_usd, 1e3 * part(took, TIMES, 0.5), 1e3 * part(took, TIMES, 1));
	plan_case_free(&c);
}

int
main(int argc, char **argv)
{
	uint32_t cases = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : CASES;
	int wrong = 0;

	for (size_t k = 0; k < PLANNERS; k++)
		for (int minimum = 0; minimum < 2; minimum++) {
			times(64, 508, 256, &planners[k], minimum * 60.0);
			times(512, 508, 1024, &planners[k], minimum * 60.0);
			times(512, 4096, 1024, &planners[k], minimum * 60.0);
		}
	/* three quarters by instance, one quarter by function */
	wrong |= gaps(cases / 4, PLAN_RESNET101, "resnet101", 0);
	wrong |= gaps(cases / 4, PLAN_RESNET50, "resnet50", 0);
	wrong |= gaps(cases / 4, PLAN_POWER, "power", 0);
	wrong |= gaps(cases / 12, PLAN_RESNET101, "resnet101", 1);
	wrong |= gaps(cases / 12, PLAN_RESNET50, "resnet50", 1);
	wrong |= gaps(cases / 12, PLAN_POWER, "power", 1);
	return wrong;
}
