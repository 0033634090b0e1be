/* test_planners_more.c - the planners on brackets, random latencies and risk, side by side over
 * many cases, and without memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test_planners.h"
#include "fail_alloc.h"

/* ---- all of them over many cases ---------------------------------------------------------- */

Test(planners, exact_is_never_beaten_and_greedy_is_close)
{
	double gap[2] = { 0, 0 };
	uint32_t count[2] = { 0, 0 };

	for (uint32_t i = 0; i < 400; i++) {
		static const struct {
			const struct espl_plugin *planner;
			const char *options;
		} others[] = {
			{ GREEDY, "" },
			{ GREEDY, "variant=literal" },
			{ STATIC, "" },
			{ NAIVE, "" },
			{ EXACT, "allocations=fair" },
		};
		int by_function = i % 4 == 3;
		struct plan_found exact;
		struct plan_case c;

		plan_case_random(&c, i, (enum plan_kind)(i / 4 % PLAN_KINDS), by_function);
		exact = plan_case_plan(&c, EXACT, "");
		cr_assert_eq(exact.status, ESPL_OK, "%u: %s", i, exact.text);
		cr_assert(exact.meets && exact.optimal, "%u: gap %g", i, exact.gap);
		for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
			struct plan_found found =
			    plan_case_plan(&c, others[k].planner, others[k].options);

			if (found.status != ESPL_OK) {
				cr_assert(k > 2, "%u, planner %zu finds nothing: %s", i, k,
				    found.text);
				continue;
			}
			cr_assert(found.meets, "%u, planner %zu: too late", i, k);
			cr_assert(exact.cost_usd <= found.cost_usd * (1 + 1e-9),
			    "%u, planner %zu: $%.9g, $%.9g", i, k, exact.cost_usd, found.cost_usd);
			if (k == 0) {
				gap[by_function] += found.cost_usd / exact.cost_usd - 1;
				count[by_function]++;
			}
		}
		plan_case_free(&c);
	}
	cr_assert(gap[0] / count[0] < 0.02, "by instance: %g", gap[0] / count[0]);
	cr_assert(gap[1] / count[1] < 0.04, "by function: %g", gap[1] / count[1]);
}

/* ---- brackets ----------------------------------------------------------------------------- */

static void
hyperband(struct plan_case *c, int beside)
{
	plan_case_init(c);
	plan_case_stage(c, 9, 1);
	plan_case_stage(c, 3, 3);
	plan_case_stage(c, 1, 9);
	plan_case_bracket(c);
	plan_case_stage(c, 5, 3);
	plan_case_stage(c, 1, 9);
	plan_case_bracket(c);
	plan_case_stage(c, 3, 9);
	c->spec.flags = beside ? ESPL_SPEC_PARALLEL : 0;
	c->provision[0] = plan_seconds(5, 0);
	c->gpus_max = 48;
}

Test(planners, brackets_in_sequence_are_one_row_of_stages)
{
	struct plan_case c;

	hyperband(&c, 0);
	plan_case_limits(&c, 400, INFINITY);
	for (size_t i = 0; i < PLAN_PLANNERS; i++) {
		struct plan_found found = plan_case_plan(&c, plan_planners[i], "");

		cr_assert_eq(found.status, ESPL_OK, "%zu: %s", i, found.text);
		cr_assert(found.meets && (i > 0 || found.optimal), "%zu", i);
	}
	plan_case_free(&c);
}

/* What each bracket costs by itself. */
static double
each_alone(double deadline_s, const struct plan_case *whole)
{
	double sum = 0;

	for (uint32_t b = 0; b < whole->spec.bracket_count; b++) {
		struct plan_found found;
		struct plan_case c;

		plan_case_init(&c);
		for (uint32_t i = 0; i < whole->brackets[b].stage_count; i++)
			plan_case_stage(&c, whole->brackets[b].stages[i]->trials,
			    whole->brackets[b].stages[i]->iterations);
		c.provision[0] = whole->provision[0];
		c.gpus_max = whole->gpus_max;
		plan_case_limits(&c, deadline_s, INFINITY);
		found = plan_case_plan(&c, EXACT, "");
		cr_assert(found.status == ESPL_OK && found.optimal);
		sum += found.cost_usd;
		plan_case_free(&c);
	}
	return sum;
}

Test(planners, brackets_side_by_side_are_planned_each_on_its_own)
{
	struct plan_found found, fewer, soon;
	struct plan_case c;
	uint32_t peaks = 0, limit;

	hyperband(&c, 1);
	plan_case_limits(&c, 120, INFINITY);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_OK, "%s", found.text);
	cr_assert(found.meets && found.optimal);
	cr_assert(fabs(found.cost_usd - each_alone(120, &c)) < 1e-6);
	/* With fewer GPUs in all than they would take together, some bracket must do with less. */
	for (uint32_t i = 0, at = 0; i < c.spec.bracket_count; i++) {
		uint32_t most = 0;

		for (uint32_t k = 0; k < c.brackets[i].stage_count; k++, at++)
			most = found.gpus[at] > most ? found.gpus[at] : most;
		peaks += (most + 3) / 4 * 4;
	}
	limit = peaks - 4;
	c.gpus_max = limit;
	fewer = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(fewer.status, ESPL_OK, "%s", fewer.text);
	cr_assert(fewer.meets && fewer.cost_usd >= found.cost_usd - 1e-9);
	cr_assert(fewer.optimal || fewer.gap >= fewer.cost_usd / found.cost_usd - 1 - 1e-9);
	peaks = 0;
	for (uint32_t i = 0, at = 0; i < c.spec.bracket_count; i++) {
		uint32_t most = 0;

		for (uint32_t k = 0; k < c.brackets[i].stage_count; k++, at++)
			most = fewer.gpus[at] > most ? fewer.gpus[at] : most;
		peaks += (most + 3) / 4 * 4;
	}
	cr_assert_leq(peaks, limit);
	/* A budget: all of them get the same, soonest, deadline. */
	c.gpus_max = 48;
	plan_case_limits(&c, INFINITY, found.cost_usd);
	soon = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(soon.status, ESPL_OK, "%s", soon.text);
	cr_assert(soon.meets && soon.jct_s <= found.jct_s * (1 + 1e-9));
	plan_case_free(&c);
}

/* ---- what is random ----------------------------------------------------------------------- */

static void
noisy(struct plan_case *c)
{
	plan_case_init(c);
	plan_case_stage(c, 16, 4);
	plan_case_stage(c, 4, 12);
	plan_case_stage(c, 1, 40);
	c->profile.iteration = plan_seconds(10, 4);
	c->profile.start = plan_seconds(5, 2);
	c->provision[0] = plan_seconds(20, 10);
	c->init[0] = plan_seconds(10, 3);
	c->offers[0].minimum_charge = 60 * ESPL_SECOND;
	c->gpus_max = 32;
}

Test(planners, random_latencies_are_planned_by_their_means)
{
	uint32_t gpus[3];
	struct plan_found found;
	struct plan_case c;
	double best = INFINITY;

	noisy(&c);
	plan_case_limits(&c, 500, INFINITY);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_OK, "%s", found.text);
	cr_assert(found.meets && !found.optimal && isnan(found.gap)); /* only means are known */
	for (gpus[0] = 1; gpus[0] <= 32; gpus[0]++)
		for (gpus[1] = 1; gpus[1] <= 32; gpus[1]++)
			for (gpus[2] = 1; gpus[2] <= 32; gpus[2]++) {
				struct plan_found other;

				if (plan_case_predict(&c, gpus, 0, &other) && other.meets)
					best = fmin(best, other.cost_usd);
			}
	cr_assert(found.cost_usd <= best * 1.005, "$%g, not $%g", found.cost_usd, best);
	/* Without a minimum charge and with nodes that are there at once, the mean of a plan is the
	 * sum of its parts' means, and the proof holds. */
	c.provision[0] = c.init[0] = plan_seconds(0, 0);
	c.offers[0].minimum_charge = 0;
	plan_case_model(&c);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert(found.status == ESPL_OK && found.optimal);
	plan_case_free(&c);
}

Test(planners, a_risk_is_kept_by_the_quantile)
{
	static const struct {
		const struct espl_plugin *planner;
		const char *options;
	} all[] = {
		{ EXACT, "" },
		{ GREEDY, "" },
		{ NAIVE, "" },
		{ STATIC, "" },
	};
	static const double risks[] = { 0.2, 0.5, 0.8, 0.95, 0.99 };

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		double last = 0;

		for (size_t k = 0; k < sizeof risks / sizeof risks[0]; k++) {
			struct plan_found found;
			struct plan_case c;

			noisy(&c);
			c.setup.risk = risks[k];
			plan_case_limits(&c, 600, INFINITY);
			found = plan_case_plan(&c, all[i].planner, all[i].options);
			cr_assert_eq(found.status, ESPL_OK, "%zu, %g: %s", i, risks[k], found.text);
			cr_assert(found.meets && found.jct_at_risk_s <= 600 * (1 + 1e-9), "%zu, %g",
			    i, risks[k]);
			/* Surer is no cheaper (but for what sampling and the search leave open). */
			cr_assert(found.cost_usd >= last * 0.98, "%zu, %g: $%g after $%g", i,
			    risks[k], found.cost_usd, last);
			last = found.cost_usd;
			plan_case_free(&c);
		}
	}
}

/* A deadline between what the fastest plan takes on the mean and what it takes with that
 * probability. */
Test(planners, a_risk_that_no_plan_can_take)
{
	uint32_t all[] = { 32, 32, 32 };
	struct plan_found fastest, found;
	struct plan_case c;

	noisy(&c);
	c.setup.risk = 0.95;
	plan_case_model(&c);
	cr_assert(plan_case_predict(&c, all, 0, &fastest));
	cr_assert(fastest.jct_at_risk_s > fastest.jct_s * 1.02);
	plan_case_limits(&c, (fastest.jct_s + fastest.jct_at_risk_s) / 2, INFINITY);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_E_INFEASIBLE);
	cr_assert(found.least_s > c.setup.deadline_s &&
		found.least_s <= fastest.jct_at_risk_s * 1.01,
	    "%g s, not %g s", found.least_s, fastest.jct_at_risk_s);
	plan_case_limits(&c, found.least_s * 1.001, INFINITY);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert(found.status == ESPL_OK && found.meets, "%s", found.text);
	plan_case_free(&c);
}

/* ---- without a model, without memory ------------------------------------------------------ */

static espl_status
no_table(const struct espl_model *model, const struct espl_stage_query *q, struct espl_cell *cells)
{
	(void)model;
	(void)q;
	(void)cells;
	return ESPL_E_UNSUPPORTED;
}

Test(planners, without_a_profile_there_is_nothing_to_plan_with)
{
	struct plan_found found;
	struct plan_case c;

	hyperband(&c, 0);
	plan_case_model(&c);
	c.model.stage = no_table;
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_E_UNSUPPORTED);
	cr_assert(strstr(found.text, "no profile") != NULL, "%s", found.text);
	plan_case_free(&c);
}

Test(planners, every_allocation_fails_once)
{
	for (int how = 0; how < 4; how++)
		for (size_t i = 0; i < PLAN_VARIANTS; i++) {
			struct plan_case c;
			uint32_t n;

			hyperband(&c, how == 1);
			c.gpus_max = how == 1 ? 24 : 12;
			c.offers[0].minimum_charge = how == 2 ? 60 * ESPL_SECOND : 0;
			c.setup.warm = how == 2;
			if (how == 3)
				c.provision[0] = plan_seconds(20, 10);
			plan_case_limits(&c, 700, INFINITY);
			for (n = 1; n < 3000; n++) {
				struct plan_found found;

				test_left = n;
				found = plan_case_plan(&c, plan_variants[i].planner,
				    plan_variants[i].options);
				if (test_left > 0 && found.status == ESPL_OK)
					break;
				cr_assert_eq(test_left, 0, "%d %zu: %s", how, i, found.text);
				cr_assert_eq(found.status, ESPL_E_NOMEM, "%d %zu %u: %d %s", how, i,
				    n, found.status, found.text);
				test_left = UINT32_MAX;
			}
			test_left = UINT32_MAX;
			cr_assert(n > 2 && n < 3000, "%u allocations", n);
			plan_case_free(&c);
		}
}
