/* test_planners_brute.c - the exact planner against all plans there are, on searches small enough.
 */
#include <criterion/criterion.h>
#include <math.h>
#include "../../plugins/allocators/planner/planner.h"
#include "test_planners.h"

#ifndef BRUTE_CASES
#define BRUTE_FROM 0
#define BRUTE_CASES 300
#endif

/* A small search with everything at random. */
static void
small_case(struct plan_case *c, uint64_t seed)
{
	uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 7;
	struct espl_offer *o = &c->offers[0];
	uint32_t count, trials = 1 + plan_pick(&s, 12);
	double seconds[8] = { 0 };

	plan_case_init(c);
	seconds[0] = plan_uniform(&s, 1, 20);
	for (int i = 1; i < 5; i++)
		seconds[i] = seconds[i - 1] * plan_uniform(&s, 0.5, 1);
	plan_case_latency(c, seconds);
	count = 1 + plan_pick(&s, 4);
	c->gpus_max = count < 3 ? 24 : count == 3 ? 16 : 10;
	for (uint32_t i = 0; i < count; i++) {
		plan_case_stage(c, trials, 1 + plan_pick(&s, 8));
		if (plan_pick(&s, 4) > 0)
			trials = 1 + plan_pick(&s, trials);
	}
	o->gpus = 1 + plan_pick(&s, 5);
	o->billing = plan_pick(&s, 4) == 0 ? ESPL_BILL_FUNCTION : ESPL_BILL_NODE;
	o->billed_from = 1 + plan_pick(&s, 3);
	o->price_hour = plan_pick(&s, 12) == 0 ? 0 : (espl_money)(plan_uniform(&s, 1, 4) * 3600e6);
	o->minimum_charge =
	    plan_pick(&s, 3) == 0 ? (espl_span)(plan_uniform(&s, 10, 200) * 1e9) : 0;
	o->billing_step = plan_pick(&s, 5) == 0 ? (espl_span)(plan_uniform(&s, 1, 90) * 1e9) : 0;
	if (plan_pick(&s, 3) == 0) {
		o->data_gb = (espl_money)(plan_uniform(&s, 0, 1) * 1e6);
		c->setup.data_gb = plan_uniform(&s, 0, 100);
	}
	if (plan_pick(&s, 2) == 0) {
		c->provision[0] = plan_seconds(plan_uniform(&s, 0, 40), 0);
		c->init[0] = plan_seconds(plan_uniform(&s, 0, 60), 0);
	}
	if (plan_pick(&s, 2) == 0) {
		c->profile.start = plan_seconds(plan_uniform(&s, 0, 20), 0);
		c->profile.checkpoint = plan_seconds(plan_uniform(&s, 0, 10), 0);
		c->profile.restore = plan_seconds(plan_uniform(&s, 0, 10), 0);
	}
	if (plan_pick(&s, 3) == 0)
		c->sync = plan_seconds(plan_uniform(&s, 0, 1) < 0.5 ? plan_uniform(&s, 0, 5)
								    : plan_uniform(&s, 5, 60),
		    0);
	c->setup.colocate = plan_pick(&s, 4) > 0;
	c->setup.checkpoint = plan_pick(&s, 4) > 0;
	c->setup.warm = plan_pick(&s, 2) == 0;
	c->setup.ahead = plan_pick(&s, 2) == 0;
	c->setup.chain = plan_pick(&s, 4) == 0;
	if (plan_pick(&s, 3) == 0)
		c->setup.gpus_max = 1 + plan_pick(&s, 4);
	if (plan_pick(&s, 6) == 0)
		c->setup.gpus_min =
		    1 + plan_pick(&s, c->setup.gpus_max < 3 ? c->setup.gpus_max : 3);
	plan_case_model(c);
}

static int
next_plan(uint32_t *gpus, uint32_t from, uint32_t count, uint32_t most)
{
	for (uint32_t i = from; i < count; i++) {
		if (gpus[i] < most) {
			gpus[i]++;
			return 1;
		}
		gpus[i] = 1;
	}
	return 0;
}

struct all {
	double least_s, least_usd;
};

/* Is the first better?  Cheaper and then sooner, or the other way round. */
static int
better(const struct plan_found *x, const struct plan_found *y, int soonest)
{
	double a[2] = { x->cost_usd, x->jct_s }, b[2] = { y->cost_usd, y->jct_s };
	int first = soonest ? 1 : 0;

	if (y->status != ESPL_OK || a[first] < b[first] - 1e-9 * (fabs(b[first]) + 1))
		return 1;
	return a[first] <= b[first] + 1e-9 * (fabs(b[first]) + 1) &&
	    a[1 - first] < b[1 - first] - 1e-9 * (fabs(b[1 - first]) + 1);
}

/* The best of all plans of the stages from this one on (those before have `gpus`), within the
 * case's limits; the least of each by itself. */
static struct plan_found
best_plan(struct plan_case *c, uint32_t from, uint32_t *gpus, int fair, int soonest,
    struct all *all)
{
	struct plan_found best = { .status = ESPL_E_INFEASIBLE }, found = { 0 };
	uint32_t i;

	for (i = from; i < c->stage_count; i++)
		gpus[i] = 1;
	all->least_s = all->least_usd = INFINITY;
	do {
		for (i = from; i < c->stage_count; i++)
			if (fair && gpus[i] % c->stages[i].trials != 0 &&
			    c->stages[i].trials % gpus[i] != 0)
				break;
		if (i < c->stage_count || !plan_case_predict(c, gpus, 0, &found))
			continue;
		all->least_s = fmin(all->least_s, found.jct_s);
		all->least_usd = fmin(all->least_usd, found.cost_usd);
		if (!found.meets || !better(&found, &best, soonest))
			continue;
		best = found;
		memcpy(best.gpus, gpus, c->stage_count * sizeof *gpus);
		best.status = ESPL_OK;
	} while (next_plan(gpus, from, c->stage_count, c->gpus_max));
	return best;
}

static void
same(struct plan_case *c, const struct plan_found *got, const struct plan_found *want,
    const char *what, unsigned seed)
{
	cr_assert_eq(got->status, want->status, "%u, %s: status %d, not %d: %s", seed, what,
	    got->status, want->status, got->text);
	if (want->status != ESPL_OK)
		return;
	cr_assert(got->meets, "%u, %s: does not meet", seed, what);
	cr_assert(fabs(got->cost_usd - want->cost_usd) <= 1e-8 * fabs(want->cost_usd) + 1e-9 &&
		fabs(got->jct_s - want->jct_s) <= 1e-8 * want->jct_s,
	    "%u, %s, %u stages: $%.9g %.9g s, not $%.9g %.9g s [%u %u %u %u] [%u %u %u %u]", seed,
	    what, c->stage_count, got->cost_usd, got->jct_s, want->cost_usd, want->jct_s,
	    got->gpus[0], got->gpus[1], got->gpus[2], got->gpus[3], want->gpus[0], want->gpus[1],
	    want->gpus[2], want->gpus[3]);
	cr_assert(got->optimal, "%u, %s: not proven, gap %g of $%.9g, %.9g s", seed, what, got->gap,
	    got->cost_usd, got->jct_s);
}

static void
check_limits(struct plan_case *c, double deadline_s, double budget_usd, int fair, unsigned seed,
    const char *what)
{
	const struct espl_plugin *exact = EXACT;
	struct plan_found got, want;
	uint32_t gpus[PLAN_STAGES];
	struct all all;

	plan_case_limits(c, deadline_s, budget_usd);
	want = best_plan(c, 0, gpus, fair, isinf(deadline_s) && isfinite(budget_usd), &all);
	got = plan_case_plan(c, exact, fair ? "allocations=fair" : "");
	same(c, &got, &want, what, seed);
	if (want.status == ESPL_OK || isinf(all.least_s))
		return;
	cr_assert(fabs(got.least_s - all.least_s) <= 1e-6 * all.least_s,
	    "%u, %s: %g s, not %g s at least", seed, what, got.least_s, all.least_s);
	cr_assert(fabs(got.least_usd - all.least_usd) <= 1e-6 * all.least_usd,
	    "%u, %s: $%g, not $%g at least", seed, what, got.least_usd, all.least_usd);
}

Test(planners, exact_is_never_beaten_by_brute_force)
{
	unsigned seed;

	for (seed = BRUTE_FROM; seed < BRUTE_FROM + BRUTE_CASES; seed++) {
		uint64_t s = seed + 99;
		uint32_t gpus[PLAN_STAGES];
		struct plan_found best;
		struct plan_case c;
		struct all all;

		small_case(&c, seed);
		best = best_plan(&c, 0, gpus, 0, 0, &all);
		check_limits(&c, INFINITY, INFINITY, 0, seed, "no limit");
		if (best.status == ESPL_OK) {
			double most =
			    all.least_s + plan_uniform(&s, 0, 1) * (best.jct_s - all.least_s);

			check_limits(&c, most, INFINITY, 0, seed, "deadline");
			check_limits(&c, all.least_s, INFINITY, 0, seed, "least deadline");
			check_limits(&c, most, INFINITY, 1, seed, "fair");
			check_limits(&c, all.least_s * 0.9, INFINITY, 0, seed,
			    "no deadline can be kept");
			check_limits(&c, INFINITY, all.least_usd * plan_uniform(&s, 1, 2) + 1e-5, 0,
			    seed, "budget");
			check_limits(&c, most, all.least_usd * plan_uniform(&s, 1, 1.5) + 1e-5, 0,
			    seed, "both");
		}
		plan_case_free(&c);
	}
}

/* ---- what is left of a run ---------------------------------------------------------------- */

/* The case in its second stage, or its first: nodes are held, of which some are billed already. */
static void
going_on(struct plan_case *c, uint64_t *s, uint32_t *gpus, struct planner_held *held)
{
	c->next[0] = c->stage_count > 1 ? plan_pick(s, 2) : 0;
	c->setup.next_stage = c->next;
	c->setup.held = c->held;
	c->setup.held_count = plan_pick(s, 5);
	for (uint32_t i = 0; i < c->setup.held_count; i++) {
		c->held[i].offer = plan_pick(s, 8) == 0 ? 1 : 0;
		c->held[i].billed_s = floor(plan_uniform(s, 0, 300 - 50.0 * i));
	}
	for (uint32_t i = 1; i < c->setup.held_count; i++) /* oldest first */
		c->held[i].billed_s = fmin(c->held[i].billed_s, c->held[i - 1].billed_s);
	for (uint32_t i = 0; i < c->setup.held_count; i++)
		held[i] = (struct planner_held){ .offer = c->held[i].offer,
			.billed_s = c->held[i].billed_s };
	c->setup.offer_count = 2;
	gpus[0] = 1 + plan_pick(s, c->gpus_max);
	plan_case_model(c);
}

Test(planners, the_rest_of_a_run_is_planned_as_well_as_a_whole_one)
{
	struct planner_exact exact = { 0 };
	uint32_t warm = 0;

	for (unsigned seed = BRUTE_FROM; seed < BRUTE_FROM + BRUTE_CASES; seed++) {
		struct planner_held held[PLAN_HELD];
		struct espl_plan_stage row = { .size = sizeof row };
		const struct espl_plan_stage *rows[] = { &row };
		struct espl_plan plan = { .size = sizeof plan, .stage_count = 1, .stages = rows };
		struct espl_error error = ESPL_INIT(struct espl_error);
		uint32_t gpus[PLAN_STAGES], tried[PLAN_STAGES];
		struct plan_found want, got = { 0 };
		struct planner_result result;
		struct planner_effort effort = { 0, PLANNER_EFFORT };
		struct planner_task task;
		uint64_t s = seed + 5;
		struct plan_case c;
		struct all all;

		small_case(&c, seed);
		if (plan_pick(&s, 6) == 0)
			c.offers[0].flags = ESPL_OFFER_GONE;
		going_on(&c, &s, gpus, held);
		want = best_plan(&c, c.next[0], gpus, 0, 0, &all);
		if (want.status == ESPL_OK && plan_pick(&s, 2) == 0) {
			plan_case_limits(&c,
			    all.least_s + plan_uniform(&s, 0, 1) * (want.jct_s - all.least_s),
			    INFINITY);
			want = best_plan(&c, c.next[0], gpus, 0, 0, &all);
		}
		row.gpus = gpus[0];
		task = (struct planner_task){ .model = &c.model,
			.effort = &effort,
			.experiment = &c.experiment,
			.offers = c.offer_list,
			.offer_count = 2,
			.gpus_max = c.gpus_max,
			.deadline_s = c.setup.deadline_s,
			.budget_usd = INFINITY,
			.flags = ESPL_FROM_NOW,
			.next_stage = c.next,
			.held_count = c.setup.held_count,
			.held = held,
			.plan = &plan };
		got.status = planner_find(&task, 0, planner_exact_solve, &exact, &result, &error);
		if (got.status == ESPL_OK) {
			cr_assert_eq(result.draft.plan.stage_count, c.stage_count);
			for (uint32_t i = 0; i < c.stage_count; i++)
				tried[i] = result.draft.rows[i].gpus;
			cr_assert_eq(tried[0] == gpus[0] || c.next[0] == 0, 1,
			    "%u: the past was changed", seed);
			cr_assert(plan_case_predict(&c, tried, 0, &got));
			memcpy(got.gpus, tried, sizeof tried);
			got.optimal = result.draft.plan.flags & ESPL_PLAN_OPTIMAL;
			got.gap = result.draft.plan.gap;
			warm += c.setup.warm && c.next[0] > 0;
		}
		same(&c, &got, &want, "the rest", seed);
		planner_draft_free(&result.draft);
		plan_case_free(&c);
	}
	cr_assert_gt(warm, BRUTE_CASES / 20);
}

/* ---- kinds of GPU --------------------------------------------------------------------------- */

/* Offers of three types of GPU, two of them in the profile. */
static void
kinds_case(struct plan_case *c, uint64_t seed)
{
	static struct espl__gpu_speed speeds[] = { { "K80", 0.0 }, { "V100", 0.0 } };
	static const char *const types[] = { "K80", "V100", "P100" };
	uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 77;

	small_case(c, seed);
	speeds[0].speed = plan_uniform(&s, 0.3, 1);
	speeds[1].speed = plan_uniform(&s, 1, 6);
	c->profile.speeds = speeds;
	c->profile.speed_count = 2;
	for (uint32_t i = 0; i < PLAN_OFFERS; i++) {
		c->offers[i].gpu_type = types[i];
		c->offers[i].gpus = 1 + plan_pick(&s, 4);
		c->offers[i].price_hour = (espl_money)(plan_uniform(&s, 1, 12) * 3600e6);
	}
	if (c->stage_count > 2)
		c->gpus_max = 8;
	c->setup.offer_count = PLAN_OFFERS;
	plan_case_model(c);
}

Test(planners, each_offer_is_as_fast_as_its_gpus)
{
	uint32_t taken[PLAN_OFFERS] = { 0 };

	for (unsigned seed = BRUTE_FROM; seed < BRUTE_FROM + BRUTE_CASES / 3; seed++) {
		struct plan_found best = { .status = ESPL_E_INFEASIBLE }, found = { 0 }, got;
		uint32_t gpus[PLAN_STAGES], k;
		double least_s = INFINITY;
		uint64_t s = seed;
		struct plan_case c;

		kinds_case(&c, seed);
		for (int limited = 0; limited < 3; limited++) {
			for (k = 0; k < PLAN_OFFERS; k++) {
				for (uint32_t i = 0; i < c.stage_count; i++)
					gpus[i] = 1;
				do {
					if (!plan_case_predict(&c, gpus, k, &found))
						continue;
					least_s = fmin(least_s, found.jct_s);
					if (!found.meets || !better(&found, &best, 0))
						continue;
					best = found;
					best.offer = k;
					best.status = ESPL_OK;
				} while (next_plan(gpus, 0, c.stage_count, c.gpus_max));
			}
			got = plan_case_plan(&c, EXACT, "");
			same(&c, &got, &best, "kinds of GPU", seed);
			if (best.status == ESPL_OK)
				taken[best.offer]++;
			else if (isfinite(least_s))
				cr_assert(fabs(got.least_s - least_s) <= 1e-6 * least_s,
				    "%u: %g s, not %g s at least", seed, got.least_s, least_s);
			if (isinf(least_s))
				break;
			plan_case_limits(&c,
			    least_s * (limited == 0 ? plan_uniform(&s, 1, 3) : 0.9), INFINITY);
			best.status = ESPL_E_INFEASIBLE;
		}
		plan_case_free(&c);
	}
	for (uint32_t k = 0; k < PLAN_OFFERS; k++)
		cr_assert_gt(taken[k], 5, "offer %u was taken %u times", k, taken[k]);
}

/* ---- a quota for all brackets --------------------------------------------------------------- */

/* Two or three brackets side by side on few nodes. */
static void
beside_case(struct plan_case *c, uint64_t seed)
{
	uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 31;
	uint32_t brackets = 2 + plan_pick(&s, 2);
	double seconds[4] = { 0 };

	plan_case_init(c);
	seconds[0] = plan_uniform(&s, 5, 20);
	for (int i = 1; i < 3; i++)
		seconds[i] = seconds[i - 1] * plan_uniform(&s, 0.5, 1);
	plan_case_latency(c, seconds);
	for (uint32_t b = 0; b < brackets; b++) {
		uint32_t trials = 1 + plan_pick(&s, 6);

		if (b > 0)
			plan_case_bracket(c);
		plan_case_stage(c, trials, 1 + plan_pick(&s, 8));
		if (brackets == 2)
			plan_case_stage(c, 1 + plan_pick(&s, trials), 1 + plan_pick(&s, 8));
	}
	c->spec.flags = ESPL_SPEC_PARALLEL;
	c->offers[0].gpus = 1 + plan_pick(&s, 2);
	c->offers[0].nodes_max = brackets - 1 + plan_pick(&s, 5);
	c->gpus_max = c->offers[0].gpus * c->offers[0].nodes_max;
	if (plan_pick(&s, 2) == 0)
		c->provision[0] = plan_seconds(plan_uniform(&s, 0, 30), 0);
	plan_case_model(c);
}

/* The nodes of each bracket's largest stage, all together. */
static uint32_t
nodes_together(const struct plan_case *c, const uint32_t *gpus)
{
	uint32_t sum = 0;

	for (uint32_t b = 0, at = 0; b < c->spec.bracket_count; b++) {
		uint32_t most = 0;

		for (uint32_t k = 0; k < c->brackets[b].stage_count; k++, at++)
			most = gpus[at] > most ? gpus[at] : most;
		sum += (most + c->offers[0].gpus - 1) / c->offers[0].gpus;
	}
	return sum;
}

Test(planners, brackets_side_by_side_share_the_quota_as_well_as_can_be)
{
	uint32_t tight = 0, none = 0;

	for (unsigned seed = BRUTE_FROM; seed < BRUTE_FROM + BRUTE_CASES / 2; seed++) {
		uint32_t gpus[PLAN_STAGES];
		struct plan_found best, free_of_it;
		uint64_t s = seed + 3;
		struct plan_case c;
		struct all all;

		beside_case(&c, seed);
		best = best_plan(&c, 0, gpus, 0, 0, &all);
		check_limits(&c, INFINITY, INFINITY, 0, seed, "side by side");
		if (best.status == ESPL_OK) {
			double most =
			    all.least_s + plan_uniform(&s, 0, 1) * (best.jct_s - all.least_s);

			check_limits(&c, most, INFINITY, 0, seed, "side by side, deadline");
			check_limits(&c, all.least_s, INFINITY, 0, seed, "side by side, least");
			check_limits(&c, all.least_s * 0.95, INFINITY, 0, seed,
			    "side by side, too soon");
			plan_case_limits(&c, most, INFINITY);
			for (size_t i = 0; i < PLAN_VARIANTS; i++) {
				struct plan_found found = plan_case_plan(&c,
				    plan_variants[i].planner, plan_variants[i].options);

				cr_assert(found.status != ESPL_OK ||
					nodes_together(&c, found.gpus) <= c.offers[0].nodes_max,
				    "%u, planner %zu: %u nodes of %u", seed, i,
				    nodes_together(&c, found.gpus), c.offers[0].nodes_max);
			}
			best = plan_case_plan(&c, EXACT, "");
			c.offers[0].nodes_max = ESPL_ANY;
			c.gpus_max = 24;
			plan_case_limits(&c, most, INFINITY);
			free_of_it = plan_case_plan(&c, EXACT, "");
			tight += free_of_it.cost_usd < best.cost_usd * (1 - 1e-9);
		} else {
			none++;
		}
		plan_case_free(&c);
	}
	cr_assert(tight > BRUTE_CASES / 20 && none > 0, "%u tight, %u impossible", tight, none);
}
