/* test_planners_effort.c - no plan takes more work than it may, whatever is asked; SEEDS=1000 tries
 * as many. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "../../plugins/allocators/planner/planner.h"
#include "test_planners.h"

#define LIVE (PLANNER_EFFORT / PLANNER_LIVE_EFFORT)
/* a step of the work that is done in any case takes no longer than so many */
#define SLACK 4

/* Hyperband in sequence, or one bracket, on small nodes with billing steps and minimum charges:
 * what takes a proof long. */
static void
hard_case(struct plan_case *c, uint64_t seed)
{
	static const double seconds[] = { 10, 5.153, 2.655, 1.368, 0 };
	static const int64_t steps_s[] = { 0, 1, 60, 60, 3600 }, least_s[] = { 0, 0, 60, 600 };
	uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 11;
	struct espl_offer *o = &c->offers[0];
	uint32_t brackets = 1 + plan_pick(&s, 4), b, n;

	plan_case_init(c);
	plan_case_latency(c, seconds);
	for (b = 0; b < brackets; b++) {
		uint32_t trials = 1 + plan_pick(&s, 27);
		uint64_t iterations = 1 + plan_pick(&s, 9);

		if (b > 0)
			plan_case_bracket(c);
		for (n = 0; n<4; n++, trials = trials / 3> 0 ? trials / 3 : 1, iterations *= 2)
			plan_case_stage(c, trials, iterations);
	}
	c->gpus_max = 8 + plan_pick(&s, 57);
	o->gpus = 1 + plan_pick(&s, 4);
	o->billing_step = steps_s[plan_pick(&s, 5)] * ESPL_SECOND;
	o->minimum_charge = least_s[plan_pick(&s, 4)] * ESPL_SECOND;
	c->provision[0] = plan_seconds(plan_pick(&s, 2) * 15, 0);
	c->profile.start = plan_seconds(3, 0);
	c->sync = plan_seconds(4, 0);
	c->setup.warm = plan_pick(&s, 2);
	c->setup.ahead = plan_pick(&s, 3) == 0;
	plan_case_model(c);
}

static espl_status
find(struct plan_case *c, int greedy, uint64_t most, struct planner_effort *effort,
    struct planner_result *result)
{
	struct planner_exact exact = { 0 };
	struct planner_greedy how = { .starts = 3 };
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct planner_task task = { .model = &c->model,
		.effort = effort,
		.experiment = &c->experiment,
		.offers = c->offer_list,
		.offer_count = 1,
		.gpus_max = c->gpus_max,
		.deadline_s = c->setup.deadline_s,
		.budget_usd = c->setup.budget_usd };

	*effort = (struct planner_effort){ 0, most };
	return greedy ? planner_find(&task, 0, planner_greedy_solve, &how, result, &error)
		      : planner_find(&task, 0, planner_exact_solve, &exact, result, &error);
}

/* With these limits, whatever comes of it, the work is limited, and a plan within the limits is
 * found if `feasible`. */
static void
check(struct plan_case *c, double deadline_s, double budget_usd, int feasible, uint64_t seed,
    uint32_t *cut)
{
	static const uint64_t most[] = { LIVE, 50000 };

	plan_case_limits(c, deadline_s, budget_usd);
	for (int i = 0; i < 4; i++) {
		struct planner_effort effort;
		struct planner_result result;
		espl_status status = find(c, i / 2, most[i % 2], &effort, &result);

		/* Bounds are made in any case: at most 20 prices, for each of the limits that are
		 * tried. */
		cr_assert(effort.spent <= most[i % 2] + SLACK * 200000,
		    "%llu %d: %llu steps, %g s, $%g", (unsigned long long)seed, i,
		    (unsigned long long)effort.spent, deadline_s, budget_usd);
		cr_assert(status == ESPL_OK ||
			(status == ESPL_E_INFEASIBLE && !(feasible && i == 0)),
		    "%llu %d: status %d", (unsigned long long)seed, i, status);
		if (status == ESPL_E_INFEASIBLE && i == 0 && isinf(budget_usd))
			cr_assert(result.least_s > deadline_s, "%g %g", result.least_s, deadline_s);
		if (status == ESPL_OK && i == 0 &&
		    (result.draft.plan.flags & ESPL_PLAN_OPTIMAL) == 0) {
			cr_assert(result.draft.plan.gap > 0 || isnan(result.draft.plan.gap));
			++*cut;
		}
		planner_draft_free(&result.draft);
	}
}

Test(planners, no_plan_takes_more_than_its_effort, .timeout = 1200)
{
	const char *many = getenv("SEEDS");
	uint64_t seeds = many != NULL ? strtoull(many, NULL, 10) : 20;
	uint32_t cut = 0;

	for (uint64_t seed = 0; seed < seeds; seed++) {
		struct planner_effort effort;
		struct planner_result result;
		struct plan_case c;
		double least_s;

		hard_case(&c, seed);
		plan_case_limits(&c, 0.001, INFINITY);
		cr_assert_eq(find(&c, 0, LIVE, &effort, &result), ESPL_E_INFEASIBLE);
		least_s = result.least_s;
		/* The least possible time is found without a search, and what is told of the
		 * cheapest takes little. */
		cr_assert(effort.spent <= LIVE / 10 + SLACK * 200000, "%llu",
		    (unsigned long long)effort.spent);
		planner_draft_free(&result.draft);
		check(&c, 0.5 * least_s, INFINITY, 0, seed, &cut);
		check(&c, least_s * (1 + 1e-6), INFINITY, 1, seed, &cut);
		check(&c, 1.3 * least_s, INFINITY, 1, seed, &cut);
		check(&c, 2 * least_s, INFINITY, 1, seed, &cut);
		check(&c, INFINITY, 0.001, 0, seed, &cut);
		check(&c, INFINITY, result.least_usd * 1.2, 1, seed, &cut);
		plan_case_free(&c);
	}
	cr_assert_gt(cut, 0);
}

/* Cells of random latencies that were computed for a stage of so many trials. */
static uint32_t
computed(struct plan_case *c, uint32_t most)
{
	struct espl_stage_query query = ESPL_INIT(struct espl_stage_query);
	struct espl_cell *cells = calloc(most, sizeof *cells);
	uint32_t count = 0;

	query.gpus_from = 1;
	query.gpus_to = most;
	cr_assert_eq(c->model.stage(&c->model, &query, cells), ESPL_OK);
	for (uint32_t i = 0; i < most; i++)
		count += (cells[i].flags & ESPL_CELL_SKIPPED) == 0;
	for (uint32_t gpus = c->offers[0].gpus; gpus <= most;
	     gpus *= 2) /* these are there for all stages */
		cr_assert_eq(cells[gpus - 1].flags, 0, "%u", gpus);
	cr_assert_eq(cells[most - 1].flags, 0);
	free(cells);
	return count;
}

/* Tables of random latencies cost time for each cell: of large ones few are computed, and no plan
 * is proven then. */
Test(planners, large_random_tables_are_not_made_in_full)
{
	for (int random = 0; random < 2; random++) {
		struct plan_found found;
		struct plan_case c;

		plan_case_init(&c);
		plan_case_halving(&c, 1024, 1, 8);
		c.profile.start = plan_seconds(3, random);
		c.gpus_max = 1000;
		plan_case_model(&c);
		if (random)
			cr_assert_lt(computed(&c, 1000), 250);
		else
			cr_assert_eq(computed(&c, 1000), 1000);
		plan_case_limits(&c, 120, INFINITY);
		found = plan_case_plan(&c, EXACT, "");
		cr_assert_eq(found.status, ESPL_OK, "%s", found.text);
		cr_assert(found.meets);
		cr_assert_eq(found.optimal, !random);
		found = plan_case_plan(&c, &allocator_static_LTX_espalier_plugin, "");
		cr_assert(found.status == ESPL_OK && found.meets);
		plan_case_free(&c);
	}
}
