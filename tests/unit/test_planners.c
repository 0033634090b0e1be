/* test_planners.c - the planners on cases worked out by hand, and on what they are asked besides.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "test_planners.h"

/* ---- by hand ------------------------------------------------------------------------------ */

struct golden {
	const char *name;
	const struct espl_plugin *planner;
	const char *options;
	uint32_t stages[4][2], most, per_node;
	double latency[8], deadline;
	double minimum, data_gb, data_price;
	int function;
	double cost, jct; /* cost 0: there is no plan */
	uint32_t plan[4]; /* none: several are as good */
};

#define FAIR EXACT, "allocations=fair"
#define THREE \
	{ \
		{ 4, 1 }, { 2, 2 }, \
		{ \
			1, 4 \
		} \
	}
static const struct golden goldens[] = {
	/* perfect scaling to one node: a full node costs 12 node-seconds a stage */
	{ "linear", FAIR, THREE, 8, 4, { 12, 6, 3 }, 200, .cost = 36, .jct = 24 },
	{ "sublinear", FAIR, THREE, 8, 1, { 12, 8, 6 }, 60, .cost = 176, .jct = 60,
	    .plan = { 4, 4, 2 } },
	/* the least possible is 8 + 12 + 24 = 44 s */
	{ "tight", FAIR, THREE, 8, 1, { 12, 8, 6 }, 46, .cost = 242.285714, .jct = 45.714286,
	    .plan = { 8, 6, 4 } },
	{ "too tight", FAIR, THREE, 8, 1, { 12, 8, 6 }, 43, .cost = 0 },
	{ "just reached", FAIR, { { 2, 1 }, { 1, 2 } }, 4, 1, { 10, 6 }, 22, .cost = 44, .jct = 22,
	    .plan = { 2, 2 } },
	/* $30 for each new node: fewer of them win */
	{ "data", FAIR, { { 8, 2 }, { 4, 4 }, { 1, 8 } }, 16, 4, { 10, 6, 4 }, 150, .data_gb = 300,
	    .data_price = 0.1, .cost = 142, .jct = 112, .plan = { 4, 4, 4 } },
	{ "function", FAIR, { { 6, 2 }, { 3, 4 }, { 1, 8 } }, 12, 4, { 10, 6, 4 }, 90,
	    .function = 1, .cost = 94.8, .jct = 82.4, .plan = { 6, 6, 3 } },
	/* a short burst of nodes is dear if each is charged for a minute */
	{ "minimum", FAIR, { { 8, 1 }, { 4, 2 }, { 1, 4 } }, 16, 4, { 10, 6, 4 }, 80, .minimum = 60,
	    .cost = 60, .jct = 56 },
	/* 11 trials in three rounds on one node: 4 is neither a factor of 11 nor a multiple */
	{ "any", EXACT, "", { { 11, 1 }, { 1, 4 } }, 12, 4, { 10, 6, 4, 3 }, 100, .data_gb = 100,
	    .data_price = 0.1, .cost = 56, .jct = 46, .plan = { 4, 4 } },
	{ "static", STATIC, "", THREE, 8, 1, { 12, 8, 6 }, 60, .cost = 208, .jct = 52,
	    .plan = { 4, 4, 4 } },
	{ "naive", NAIVE, "", THREE, 8, 1, { 12, 8, 6 }, 80, .cost = 192, .jct = 56,
	    .plan = { 8, 4, 2 } },
	/* one GPU fewer never frees a node in the last stage: Algorithm 2 as printed is caught */
	{ "trap, literal", GREEDY, "variant=literal", { { 4, 4 }, { 1, 8 } }, 16, 4,
	    { 10, 6, 4, 3.5 }, 70, .cost = 96, .jct = 68, .plan = { 4, 8 } },
	{ "trap, literal, three starts", GREEDY, "variant=literal starts=3", { { 4, 4 }, { 1, 8 } },
	    16, 4, { 10, 6, 4, 3.5 }, 70, .cost = 96, .jct = 68, .plan = { 4, 8 } },
	{ "trap, repaired", GREEDY, "", { { 4, 4 }, { 1, 8 } }, 16, 4, { 10, 6, 4, 3.5 }, 70,
	    .cost = 80, .jct = 56, .plan = { 8, 4 } },
	{ "trap", FAIR, { { 4, 4 }, { 1, 8 } }, 16, 4, { 10, 6, 4, 3.5 }, 70, .cost = 80, .jct = 56,
	    .plan = { 8, 4 } },
};

Test(planners, worked_out_by_hand)
{
	for (size_t n = 0; n < sizeof goldens / sizeof goldens[0]; n++) {
		const struct golden *g = &goldens[n];
		struct plan_found found;
		struct plan_case c;

		plan_case_init(&c);
		plan_case_latency(&c, g->latency);
		for (uint32_t i = 0; i < 4 && g->stages[i][0] > 0; i++)
			plan_case_stage(&c, g->stages[i][0], g->stages[i][1]);
		c.gpus_max = g->most;
		c.offers[0].gpus = g->per_node;
		c.offers[0].minimum_charge = (espl_span)(g->minimum * 1e9);
		c.offers[0].data_gb = (espl_money)(g->data_price * 1e6);
		c.offers[0].billing = g->function ? ESPL_BILL_FUNCTION : ESPL_BILL_NODE;
		c.setup.data_gb = g->data_gb;
		plan_case_limits(&c, g->deadline, INFINITY);
		found = plan_case_plan(&c, g->planner, g->options);
		if (g->cost > 0) {
			cr_assert_eq(found.status, ESPL_OK, "%s: %s", g->name, found.text);
			cr_assert(fabs(found.cost_usd - g->cost) < 1e-5 &&
				fabs(found.jct_s - g->jct) < 1e-5,
			    "%s: $%.9g, %.9g s", g->name, found.cost_usd, found.jct_s);
			cr_assert(g->planner != EXACT || found.optimal, "%s: not proven", g->name);
			cr_assert(g->planner == EXACT || !found.optimal, "%s: who proved it?",
			    g->name);
			for (uint32_t i = 0; g->plan[0] > 0 && i < c.stage_count; i++)
				cr_assert_eq(found.gpus[i], g->plan[i], "%s: stage %u has %u GPUs",
				    g->name, i, found.gpus[i]);
		} else {
			cr_assert_eq(found.status, ESPL_E_INFEASIBLE, "%s", g->name);
			cr_assert(fabs(found.least_s - 44) < 1e-6);
			cr_assert_str_eq(found.text,
			    "none of its plans finishes within 43 s; the fastest takes 44 s");
		}
		plan_case_free(&c);
	}
}

/* ResNet101's calibration: SHA(32, 1, 50, 3) at 20, 30 and 40 minutes, as in RubberBand's Table 2.
 */
Test(planners, table_2_of_rubberband)
{
	static const struct {
		const struct espl_plugin *planner;
		const char *options;
		double usd[3];
	} rows[] = {
		{ STATIC, "", { 29.29, 16.70, 15.62 } },
		{ NAIVE, "", { 22.41, 17.04, 17.04 } },
		{ GREEDY, "variant=literal starts=3", { 29.29, 16.43, 15.62 } },
		{ EXACT, "", { 14.34, 13.86, 13.55 } },
	};
	static const double latency[] = { 109, 56, 35.5, 19, 17, 17, 0 };

	for (int minutes = 0; minutes < 3; minutes++) {
		struct plan_found greedy;
		struct plan_case c;

		plan_case_init(&c);
		plan_case_latency(&c, latency);
		plan_case_stage(&c, 32, 1);
		plan_case_stage(&c, 10, 3);
		plan_case_stage(&c, 3, 9);
		plan_case_stage(&c, 1, 37);
		c.offers[0].price_hour = 12240000;
		c.offers[0].minimum_charge = 60 * ESPL_SECOND;
		c.provision[0] = plan_seconds(15, 0);
		c.gpus_max = 512;
		plan_case_limits(&c, 1200 + 600 * minutes, INFINITY);
		for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
			struct plan_found found =
			    plan_case_plan(&c, rows[i].planner, rows[i].options);

			cr_assert_eq(found.status, ESPL_OK);
			cr_assert(fabs(found.cost_usd - rows[i].usd[minutes]) < 0.006,
			    "%d min, row %zu: $%.4f", 20 + 10 * minutes, i, found.cost_usd);
		}
		greedy = plan_case_plan(&c, GREEDY, "");
		cr_assert(greedy.cost_usd < rows[3].usd[minutes] * 1.02, "%d min: $%.4f",
		    20 + 10 * minutes, greedy.cost_usd);
		plan_case_free(&c);
	}
}

/* ---- what is asked ------------------------------------------------------------------------ */

static void
halving(struct plan_case *c)
{
	plan_case_init(c);
	plan_case_stage(c, 16, 2);
	plan_case_stage(c, 4, 6);
	plan_case_stage(c, 1, 20);
	c->gpus_max = 32;
}

Test(planners, without_limits_the_cheapest_and_for_nothing_the_soonest)
{
	struct plan_found paid, free_of_charge, soonest;
	uint32_t all[] = { 32, 32, 32 };
	struct plan_case c;

	halving(&c);
	plan_case_model(&c);
	paid = plan_case_plan(&c, EXACT, "");
	c.offers[0].price_hour = 0;
	plan_case_model(&c);
	free_of_charge = plan_case_plan(&c, EXACT, "");
	cr_assert(plan_case_predict(&c, all, 0, &soonest));
	cr_assert_eq(paid.status, ESPL_OK);
	cr_assert(paid.optimal && free_of_charge.optimal);
	cr_assert(
	    free_of_charge.cost_usd <= 0 && free_of_charge.jct_s <= soonest.jct_s * (1 + 1e-9));
	cr_assert(paid.jct_s > soonest.jct_s);
	for (int i = 0; i < 3; i++) { /* and with no more GPUs than that takes */
		struct plan_found less;

		memcpy(all, free_of_charge.gpus, sizeof all);
		if (all[i]-- > 1 && plan_case_predict(&c, all, 0, &less))
			cr_assert(less.jct_s > free_of_charge.jct_s, "stage %d", i);
	}
	plan_case_free(&c);
}

/* Billed by GPU-seconds, trials that wait at a barrier for the next stage are charged for the wait:
 * better that they leave, which they do where the next stage has other nodes. */
Test(planners, going_on_in_gangs_may_cost_more_than_it_saves)
{
	struct plan_found found;
	struct plan_case c;
	double train = (4 + 4 + 2) * 10 / 4.0;

	plan_case_init(&c);
	plan_case_stage(&c, 4, 1);
	plan_case_stage(&c, 4, 1);
	plan_case_stage(&c, 2, 1);
	c.offers[0].billing = ESPL_BILL_FUNCTION;
	c.setup.warm = 1;
	c.sync = plan_seconds(25, 0);
	plan_case_limits(&c, INFINITY, INFINITY);
	cr_assert(plan_case_predict(&c, (const uint32_t[]){ 4, 4, 2 }, 0, &found));
	cr_assert_float_eq(found.cost_usd, train + (4 + 4) * 25 / 4.0, 1e-9, "$%g", found.cost_usd);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_OK);
	cr_assert_float_eq(found.cost_usd, train, 1e-9, "$%g", found.cost_usd);
	cr_assert_float_eq(found.jct_s, 3 * (10 + 25), 1e-9, "%g s", found.jct_s);
	cr_assert(found.optimal);
	/* In a hurry for a start of 20 s they go on all the same. */
	c.profile.start = plan_seconds(20, 0);
	plan_case_limits(&c, 20 + 3 * (10 + 25), INFINITY);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_OK, "%s", found.text);
	cr_assert(found.meets && found.optimal);
	plan_case_free(&c);
}

Test(planners, a_budget_buys_the_soonest_plan)
{
	for (size_t i = 0; i < PLAN_VARIANTS; i++) {
		struct plan_found cheap, soon, none;
		struct plan_case c;

		halving(&c);
		plan_case_model(&c);
		cheap = plan_case_plan(&c, plan_variants[i].planner, plan_variants[i].options);
		plan_case_limits(&c, INFINITY, cheap.cost_usd * 1.3);
		soon = plan_case_plan(&c, plan_variants[i].planner, plan_variants[i].options);
		cr_assert_eq(soon.status, ESPL_OK, "%zu: %s", i, soon.text);
		cr_assert(soon.meets && soon.jct_s <= cheap.jct_s &&
		    soon.cost_usd >= cheap.cost_usd - 1e-9);
		cr_assert(i > 0 || soon.optimal);
		plan_case_limits(&c, INFINITY, cheap.cost_usd * 0.9);
		none = plan_case_plan(&c, plan_variants[i].planner, plan_variants[i].options);
		cr_assert_eq(none.status, ESPL_E_INFEASIBLE);
		cr_assert(fabs(none.least_usd - cheap.cost_usd) < 1e-6 * cheap.cost_usd,
		    "%zu: $%g, $%g", i, none.least_usd, cheap.cost_usd);
		cr_assert(strstr(none.text, "the cheapest costs") != NULL, "%s", none.text);
		plan_case_free(&c);
	}
}

Test(planners, deadline_and_budget_together)
{
	struct plan_found found, none;
	struct plan_case c;

	halving(&c);
	plan_case_limits(&c, 200, INFINITY);
	found = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(found.status, ESPL_OK);
	plan_case_limits(&c, 200, found.cost_usd + 1);
	cr_assert_eq(plan_case_plan(&c, EXACT, "").status, ESPL_OK);
	plan_case_limits(&c, 200, found.cost_usd - 1);
	none = plan_case_plan(&c, EXACT, "");
	cr_assert_eq(none.status, ESPL_E_INFEASIBLE);
	cr_assert(strstr(none.text, "that finish within 200 s") != NULL &&
		strstr(none.text, "the cheapest costs $") != NULL,
	    "%s", none.text);
	plan_case_free(&c);
}

/* ---- the options -------------------------------------------------------------------------- */

Test(planners, the_best_of_all_offers)
{
	for (size_t i = 0; i < PLAN_PLANNERS; i++) {
		struct plan_found found, first, gone;
		struct plan_case c;

		halving(&c);
		c.setup.offer_count = 3;
		c.offers[1].price_hour /= 2;
		c.offers[2].gpus = 8;
		plan_case_limits(&c, 300, INFINITY);
		found = plan_case_plan(&c, plan_planners[i], "");
		first = plan_case_plan(&c, plan_planners[i], "offer=first");
		cr_assert_eq(found.offer, 1);
		cr_assert_eq(first.offer, 0);
		cr_assert(found.cost_usd < first.cost_usd);
		gone = plan_case_plan(&c, plan_planners[i], "offer=nonesuch");
		cr_assert_eq(gone.status, ESPL_E_CONFIG);
		cr_assert(strstr(gone.text, "no offer 'nonesuch'") != NULL, "%s", gone.text);
		c.offers[1].flags = ESPL_OFFER_GONE;
		plan_case_model(&c);
		gone = plan_case_plan(&c, plan_planners[i], "offer=second");
		cr_assert_eq(gone.status, ESPL_E_INFEASIBLE, "%d %s", gone.status, gone.text);
		cr_assert_neq(plan_case_plan(&c, plan_planners[i], "").offer, 1);
		plan_case_free(&c);
	}
}

Test(planners, no_more_gpus_than_may_be)
{
	for (size_t i = 0; i < PLAN_PLANNERS; i++)
		for (int how = 0; how < 4; how++) {
			struct plan_found found;
			struct plan_case c;

			halving(&c);
			c.offers[0].price_hour = 0; /* the more the better */
			c.gpus_max = how == 0 ? 16 : ESPL_ANY;
			c.experiment.gpus_limit = how == 1 ? 16 : ESPL_ANY;
			c.offers[0].nodes_max = how == 2 ? 4 : ESPL_ANY;
			plan_case_model(&c);
			found = plan_case_plan(&c, plan_planners[i], how == 3 ? "gpus_max=16" : "");
			cr_assert_eq(found.status, ESPL_OK, "%zu %d: %s", i, how, found.text);
			for (uint32_t k = 0; k < c.stage_count; k++)
				cr_assert_leq(found.gpus[k], 16, "%zu %d", i, how);
			plan_case_free(&c);
		}
}

Test(planners, what_no_offer_can_hold)
{
	for (size_t i = 0; i < PLAN_PLANNERS; i++) {
		struct plan_found found;
		struct plan_case c;

		halving(&c);
		c.setup.gpus_min = 64;
		plan_case_model(&c);
		found = plan_case_plan(&c, plan_planners[i], "");
		cr_assert_eq(found.status, ESPL_E_INFEASIBLE, "%zu: %d %s", i, found.status,
		    found.text);
		plan_case_free(&c);
	}
}

/* A search that is cut off says so: the gap is told, nothing is called proven, and the plan is none
 * the worse than static's. */
Test(planners, an_early_end_is_told)
{
	uint32_t told = 0;

	for (uint64_t seed = 0; seed < 40; seed++) {
		struct plan_found full, cut, fixed;
		struct plan_case c;

		plan_case_random(&c, seed, PLAN_POWER, 0);
		c.offers[0].minimum_charge = 900 * ESPL_SECOND;
		plan_case_model(&c);
		full = plan_case_plan(&c, EXACT, "effort=100000000");
		cut = plan_case_plan(&c, EXACT, "effort=1000");
		fixed = plan_case_plan(&c, STATIC, "");
		cr_assert(
		    full.status == ESPL_OK && cut.status == ESPL_OK && fixed.status == ESPL_OK);
		cr_assert(full.optimal && cut.meets);
		cr_assert(cut.cost_usd >= full.cost_usd * (1 - 1e-9) &&
		    cut.cost_usd <= fixed.cost_usd * (1 + 1e-9));
		if (!cut.optimal) {
			cr_assert(cut.gap > 0 &&
				cut.cost_usd <= full.cost_usd * (1 + cut.gap) * (1 + 1e-9),
			    "%g: $%g, $%g", cut.gap, cut.cost_usd, full.cost_usd);
			told++;
		}
		plan_case_free(&c);
	}
	cr_assert_gt(told, 0);
}
