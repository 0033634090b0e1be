/* test_forecast.c - the execution model: cases worked out by hand, and what it refuses. */
#include "base/mem.h"
#include "model/ledger.h"
#include "test_forecast.h"

/* ---- cases of the literature, worked out by hand ------------------------------------- */

struct golden {
	const char *name;
	uint32_t stages[5][2]; /* trials, iterations */
	double latency[7][2];  /* GPUs, seconds; none: case_init's */
	double start, provision, init, sync, minimum, data_gb, data_price, price;
	int function, scattered;
	uint32_t plan[4];
	double jct, cost, data;
	uint32_t nodes[4], share[4];
	double lengths[4];
};

static const struct golden golden[] = {
	{ .name = "single",
	    .stages = { { 1, 6 } },
	    .plan = { 1 },
	    .jct = 60,
	    .cost = 60,
	    .nodes = { 1 },
	    .share = { 1 },
	    .lengths = { 60 } },
	{ .name = "queue",
	    .stages = { { 4, 2 } },
	    .plan = { 1 },
	    .jct = 80,
	    .cost = 80,
	    .nodes = { 1 },
	    .share = { 1 },
	    .lengths = { 80 } },
	{ .name = "two rounds",
	    .stages = { { 8, 1 } },
	    .plan = { 4 },
	    .jct = 20,
	    .cost = 20,
	    .nodes = { 1 },
	    .share = { 1 },
	    .lengths = { 20 } },
	{ .name = "parallel",
	    .stages = { { 4, 3 } },
	    .plan = { 8 },
	    .jct = 18,
	    .cost = 36,
	    .nodes = { 2 },
	    .share = { 2 },
	    .lengths = { 18 } },
	{ .name = "scale down",
	    .stages = { { 8, 2 }, { 4, 4 }, { 1, 10 } },
	    .plan = { 8, 4, 4 },
	    .jct = 100,
	    .cost = 120,
	    .nodes = { 2, 1, 1 },
	    .share = { 1, 1, 4 },
	    .lengths = { 20, 40, 40 } },
	/* 5 s unbilled, 10 + 12 s billed; then the first node is billed for 27 s, the second for 22
	   s. */
	{ .name = "scale up",
	    .stages = { { 1, 3 }, { 4, 2 } },
	    .provision = 5,
	    .init = 10,
	    .plan = { 4, 8 },
	    .jct = 54,
	    .cost = 71,
	    .nodes = { 1, 2 },
	    .share = { 4, 2 },
	    .lengths = { 27, 27 } },
	/* Held for 10 s and 50 s, both charged for 60 s. */
	{ .name = "minimum charge",
	    .stages = { { 8, 1 }, { 1, 10 } },
	    .minimum = 60,
	    .plan = { 8, 4 },
	    .jct = 50,
	    .cost = 120,
	    .nodes = { 2, 1 },
	    .share = { 1, 4 },
	    .lengths = { 10, 40 } },
	{ .name = "data",
	    .stages = { { 8, 2 }, { 1, 1 } },
	    .data_gb = 150,
	    .data_price = 0.01,
	    .plan = { 8, 4 },
	    .jct = 24,
	    .cost = 47,
	    .data = 3,
	    .nodes = { 2, 1 },
	    .share = { 1, 4 },
	    .lengths = { 20, 4 } },
	/* 6 x 20 + 2 x 2 x 18 GPU-seconds at a quarter of a dollar. */
	{ .name = "by function",
	    .stages = { { 6, 2 }, { 2, 3 } },
	    .function = 1,
	    .plan = { 6, 4 },
	    .jct = 38,
	    .cost = 48,
	    .nodes = { 2, 1 },
	    .share = { 1, 2 },
	    .lengths = { 20, 18 } },
	/* 3 GPUs each would need 4 nodes. */
	{ .name = "colocate",
	    .stages = { { 4, 3 } },
	    .plan = { 12 },
	    .jct = 18,
	    .cost = 54,
	    .nodes = { 3 },
	    .share = { 2 },
	    .lengths = { 18 } },
	{ .name = "scattered",
	    .stages = { { 4, 3 } },
	    .latency = { { 1, 12 }, { 3, 6 } },
	    .scattered = 1,
	    .plan = { 12 },
	    .jct = 18,
	    .cost = 54,
	    .nodes = { 3 },
	    .share = { 3 },
	    .lengths = { 18 } },
	/* RubberBand's Table 3, third stage: 15 GPUs are 4 nodes, on which 5 each do not stand. */
	{ .name = "table 3, stage 3",
	    .stages = { { 3, 9 } },
	    .plan = { 15 },
	    .jct = 36,
	    .cost = 144,
	    .nodes = { 4 },
	    .share = { 4 },
	    .lengths = { 36 } },
	{ .name = "two nodes each",
	    .stages = { { 2, 2 } },
	    .plan = { 16 },
	    .jct = 6,
	    .cost = 24,
	    .nodes = { 4 },
	    .share = { 8 },
	    .lengths = { 6 } },
	{ .name = "static",
	    .stages = { { 10, 1 }, { 3, 1 }, { 1, 2 } },
	    .plan = { 12, 12, 12 },
	    .jct = 20,
	    .cost = 60,
	    .nodes = { 3, 3, 3 },
	    .share = { 1, 4, 12 },
	    .lengths = { 10, 4, 6 } },
	{ .name = "barrier and start",
	    .stages = { { 4, 2 }, { 2, 2 } },
	    .start = 3,
	    .sync = 1,
	    .plan = { 2, 4 },
	    .jct = 63,
	    .cost = 63,
	    .nodes = { 1, 1 },
	    .share = { 1, 2 },
	    .lengths = { 47, 16 } },
	{ .name = "table 3",
	    .stages = { { 32, 1 }, { 10, 3 }, { 3, 9 }, { 1, 37 } },
	    .latency = { { 1, 109 }, { 2, 56 }, { 4, 35.5 }, { 8, 19 }, { 16, 17 }, { 32, 17 } },
	    .provision = 15,
	    .minimum = 60,
	    .price = 12.24,
	    .plan = { 32, 20, 12, 8 },
	    .jct = 1314.5,
	    .cost = 13.8601,
	    .nodes = { 8, 5, 3, 2 },
	    .share = { 1, 2, 4, 8 },
	    .lengths = { 124, 168, 319.5, 703 } },
};

static void
golden_case(const struct golden *g, struct forecast_case *c)
{
	case_init(c);
	for (uint32_t i = 0; g->stages[i][0] > 0; i++)
		case_stage(c, g->stages[i][0], g->stages[i][1], g->plan[i]);
	if (g->latency[0][0] > 0) {
		c->profile.iteration = seconds(g->latency[0][1]);
		c->profile.scaling_count = 0;
		for (uint32_t i = 0; g->latency[i][0] > 0; i++)
			c->scaling[c->profile.scaling_count++] =
			    (struct espl_point){ g->latency[i][0],
				    g->latency[0][1] / g->latency[i][1] };
	}
	c->profile.start = seconds(g->start);
	c->sync = seconds(g->sync);
	c->provision[0] = seconds(g->provision);
	c->init[0] = seconds(g->init);
	c->offers[0].minimum_charge = (espl_span)(g->minimum * 1e9);
	c->offers[0].data_gb = (espl_money)(g->data_price * 1e6);
	if (g->price > 0)
		c->offers[0].price_hour = (espl_money)(g->price * 1e6);
	c->offers[0].billing = g->function ? ESPL_BILL_FUNCTION : ESPL_BILL_NODE;
	c->setup.data_gb = g->data_gb;
	c->setup.colocate = !g->scattered;
}

Test(forecast, worked_out_by_hand)
{
	struct espl__forecast_stage stages[STAGES_MAX];
	struct forecast_case c;

	for (size_t n = 0; n < sizeof golden / sizeof golden[0]; n++) {
		const struct golden *g = &golden[n];
		double tolerance = g->price > 0 ? 1e-4 : 1e-9;

		golden_case(g, &c);
		for (uint32_t samples = 0; samples < 2; samples++) { /* tables, then graph */
			struct espl__forecast_result r = predict(&c, samples, stages);
			double cost = 0;

			near_to(r.jct_s.mean, g->jct, 1e-9, "%s: %g s", g->name, r.jct_s.mean);
			near_to(r.cost_usd.mean, g->cost, tolerance, "%s: %.9g $", g->name,
			    r.cost_usd.mean);
			near_to(r.data_usd, g->data, 1e-9, "%s: %g $", g->name, r.data_usd);
			cr_assert_eq(r.jct_s.sd, 0);
			cr_assert_eq(r.jct_s.p95, r.jct_s.mean);
			cr_assert_eq(r.graph_nodes > 0, samples > 0);
			for (uint32_t i = 0; i < c.stage_count; i++) {
				cr_assert_eq(stages[i].nodes, g->nodes[i], "%s", g->name);
				cr_assert_eq(stages[i].gpus_per_trial, g->share[i], "%s", g->name);
				near_to(stages[i].ends_s - stages[i].starts_s, g->lengths[i], 1e-9,
				    "%s", g->name);
				cost += stages[i].cost_usd;
			}
			near_to(cost, r.cost_usd.mean, 1e-9, "%s", g->name);
		}
	}
}

/* ---- one switch at a time ------------------------------------------------------------ */

/* 4 trials then 2, 2 GPUs each, on 2 nodes: start 3 s, checkpoint 2 s, restore 1 s, barrier 5 s. */
static void
warm_case(struct forecast_case *c)
{
	case_init(c);
	case_stage(c, 4, 2, 8);
	case_stage(c, 2, 3, 8);
	c->entries[1].gpus_per_trial = 2;
	c->profile.start = seconds(3);
	c->profile.checkpoint = seconds(2);
	c->profile.restore = seconds(1);
	c->sync = seconds(5);
}

Test(forecast, warm_trials_neither_save_nor_start)
{
	struct espl__forecast_stage stages[2];
	struct forecast_case c;

	warm_case(&c);
	near_to(predict(&c, 0, stages).jct_s.mean, 3 + 12 + 2 + 5 + 3 + 1 + 18 + 2 + 5, 1e-9,
	    "cold");
	cr_assert_eq(stages[1].warm, 0);
	c.setup.warm = 1;
	near_to(predict(&c, 0, stages).jct_s.mean, 3 + 12 + 5 + 18 + 2 + 5, 1e-9, "warm");
	cr_assert_eq(stages[0].warm, 0);
	cr_assert_eq(stages[1].warm, 1);
	c.entries[1].gpus_per_trial = 4; /* another share: new processes */
	near_to(predict(&c, 0, stages).jct_s.mean, 3 + 12 + 2 + 5 + 3 + 1 + 12 + 2 + 5, 1e-9, "4");
	cr_assert_eq(stages[1].warm, 0);
	warm_case(&c);
	c.setup.warm = 1;
	c.setup.checkpoint = 0; /* nothing to save, nothing to train again */
	near_to(predict(&c, 0, NULL).jct_s.mean, 3 + 12 + 5 + 18 + 5, 1e-9, "no checkpoint");
	c.setup.warm = 0; /* 2 iterations more, from the beginning */
	near_to(predict(&c, 0, NULL).jct_s.mean, 3 + 12 + 5 + 3 + 30 + 5, 1e-9,
	    "from the beginning");
}

/* Iterations of 10 s: checkpoints when 20 s have passed since the start, or since the last one. */
Test(forecast, checkpoints_on_the_way)
{
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 1, 6, 1);
	c.profile.checkpoint = seconds(3);
	c.profile.start = seconds(4);
	c.setup.save_every_s = 20; /* after the 2nd and the 4th, not the 6th */
	near_to(predict(&c, 0, NULL).jct_s.mean, 4 + 60 + 2 * 3 + 3, 1e-9, "every 20 s");
	near_to(predict(&c, 1, NULL).jct_s.mean, 4 + 60 + 2 * 3 + 3, 1e-9, "every 20 s, graph");
	c.profile.start = seconds(10); /* after the 1st, the 3rd, the 5th */
	near_to(predict(&c, 0, NULL).jct_s.mean, 10 + 60 + 3 * 3 + 3, 1e-9, "start counts");
	c.setup.save_every_s = 0.5; /* after every one */
	near_to(predict(&c, 0, NULL).jct_s.mean, 10 + 60 + 5 * 3 + 3, 1e-9, "every iteration");
	c.setup.checkpoint = 0;
	near_to(predict(&c, 0, NULL).jct_s.mean, 10 + 60, 1e-9, "no checkpoints");
}

Test(forecast, a_run_in_progress_stays_warm_on_its_nodes)
{
	struct forecast_case c;

	warm_case(&c);
	c.setup.warm = 1;
	c.setup.next_stage = c.next;
	c.next[0] = 1;
	c.setup.held_count = 2;
	near_to(predict(&c, 0, NULL).jct_s.mean, 18 + 2 + 5, 1e-9, "warm");
	c.setup.held_count = 1; /* a node was lost, and a gang with it */
	near_to(predict(&c, 0, NULL).jct_s.mean, 3 + 1 + 18 + 2 + 5, 1e-9, "cold");
}

Test(forecast, nodes_asked_for_ahead_are_ready_in_time)
{
	struct espl__forecast_stage stages[2];
	struct espl__forecast_result r;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 1, 10, 4); /* 40 s */
	case_stage(&c, 8, 1, 8);  /* 10 s */
	c.provision[0] = seconds(7);
	c.init[0] = seconds(5);
	r = predict(&c, 0, stages);
	near_to(r.jct_s.mean, 12 + 40 + 12 + 10, 1e-9, "%g", r.jct_s.mean);
	near_to(r.cost_usd.mean, (5 + 40 + 12 + 10) + (5 + 10), 1e-9, "%g", r.cost_usd.mean);
	c.setup.ahead = 1;
	for (uint32_t samples = 0; samples < 2; samples++) {
		r = predict(&c, samples, stages);
		near_to(stages[0].asks_s, 40 - 12, 1e-9, "%g", stages[0].asks_s);
		near_to(r.jct_s.mean, 12 + 40 + 10, 1e-9, "%g", r.jct_s.mean);
		near_to(r.cost_usd.mean, (5 + 40 + 10) + (5 + 10), 1e-9, "%g", r.cost_usd.mean);
	}
	c.provision[0] = seconds(60); /* longer than the stage before trains */
	r = predict(&c, 0, stages);
	near_to(stages[0].asks_s, 0, 1e-9, "%g", stages[0].asks_s);
	near_to(r.jct_s.mean, 65 + 65 + 10, 1e-9, "%g", r.jct_s.mean);
	near_to(r.cost_usd.mean, (5 + 65 + 10) + (5 + 10), 1e-9, "%g", r.cost_usd.mean);
}

Test(forecast, begin_of_the_bill)
{
	static const double cost[] = { 0, 30 + 20 + 60, 20 + 60, 60 };
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 1, 6, 1);
	c.provision[0] = seconds(30);
	c.init[0] = seconds(20);
	for (uint32_t from = ESPL_BILL_FROM_REQUEST; from <= ESPL_BILL_FROM_READY; from++) {
		c.offers[0].billed_from = from;
		near_to(predict(&c, 0, NULL).cost_usd.mean, cost[from], 1e-9, "%u", from);
		near_to(predict(&c, 1, NULL).cost_usd.mean, cost[from], 1e-9, "%u", from);
	}
}

Test(forecast, by_function_a_trials_whole_stay_is_paid)
{
	struct forecast_case c;

	warm_case(&c);
	c.offers[0].billing = ESPL_BILL_FUNCTION;
	c.provision[0] = seconds(100); /* neither this nor the barrier costs */
	c.offers[0].minimum_charge = 3600 * ESPL_SECOND;
	c.offers[0].data_gb = 500000;
	c.setup.data_gb = 2;
	near_to(predict(&c, 0, NULL).cost_usd.mean,
	    (4 * 2 * (3 + 12 + 2) + 2 * 2 * (3 + 1 + 18 + 2)) / 4.0 + 2, 1e-9, "by function");
}

Test(forecast, steps_of_billing)
{
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 8, 1, 8);
	case_stage(&c, 1, 1, 4);
	c.offers[0].billing_step = 60 * ESPL_SECOND;
	near_to(predict(&c, 0, NULL).cost_usd.mean, 120, 1e-9, "10 s and 14 s");
	c.offers[0].billing_step = 5 * ESPL_SECOND;
	near_to(predict(&c, 0, NULL).cost_usd.mean, 25, 1e-9, "10 s is a whole number of steps");
	c.offers[0].minimum_charge = 11 * ESPL_SECOND;
	near_to(predict(&c, 0, NULL).cost_usd.mean, 30, 1e-9, "rounded after the minimum");
	c.offers[0].billing_step = 1;
	near_to(predict(&c, 0, NULL).cost_usd.mean, 25, 1e-9, "the minimum alone");
}

/* ---- brackets and offers ------------------------------------------------------------- */

Test(forecast, brackets_in_sequence_and_side_by_side)
{
	struct espl__forecast_stage stages[3];
	struct espl__forecast_result r;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 8, 2, 8); /* 20 s on 2 nodes */
	case_bracket(&c);
	case_stage(&c, 2, 5, 8); /* 20 s on 2 nodes, 4 GPUs each */
	case_stage(&c, 1, 5, 4); /* 20 s on 1 */
	c.init[0] = seconds(10);
	r = predict(&c, 0, stages); /* the nodes carry over */
	near_to(r.jct_s.mean, 70, 1e-9, "%g", r.jct_s.mean);
	near_to(r.cost_usd.mean, 2 * 50 + 20, 1e-9, "%g", r.cost_usd.mean);
	near_to(stages[1].starts_s, 30, 1e-9, "%g", stages[1].starts_s);
	c.spec.flags = ESPL_SPEC_PARALLEL; /* each has its own, until it ends */
	for (uint32_t samples = 0; samples < 2; samples++) {
		r = predict(&c, samples, stages);
		near_to(r.jct_s.mean, 50, 1e-9, "%g", r.jct_s.mean);
		near_to(r.cost_usd.mean, 2 * 30 + 2 * 30 + 20, 1e-9, "%g", r.cost_usd.mean);
		near_to(stages[1].starts_s, 0, 1e-9, "%g", stages[1].starts_s);
	}
}

Test(forecast, a_change_of_offer_changes_all_nodes)
{
	struct espl__forecast_result r;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 8, 1, 8); /* 10 s on 2 nodes at 1 $/s */
	case_stage(&c, 8, 1, 8); /* 10 s on 1 node of 8 at 0.5 $/s, after 5 + 3 s */
	c.setup.offer_count = 2;
	c.offers[1].gpus = 8;
	c.offers[1].price_hour /= 2;
	c.provision[1] = seconds(5);
	c.init[1] = seconds(3);
	c.entries[1].offer = 1;
	r = predict(&c, 0, NULL);
	near_to(r.jct_s.mean, 28, 1e-9, "%g", r.jct_s.mean);
	near_to(r.cost_usd.mean, 20 + 0.5 * 13, 1e-9, "%g", r.cost_usd.mean);
}

/* ---- a run in progress --------------------------------------------------------------- */

/* What is spent and what is forecast add up to the ledger's final bill: three nodes are held for
 * 100, 31 and 10 s; the oldest goes at once, the next after 20 s, the last after 60 s. */
Test(forecast, held_nodes_cost_what_the_ledger_will_say)
{
	static const double held[] = { 100, 31, 10 }, stays[] = { 0, 20, 60 };
	struct espl__ledger *ledger = espl__ledger_new();
	struct forecast_case c;
	double spent, bill;

	case_init(&c);
	case_stage(&c, 99, 99, 99); /* over */
	case_stage(&c, 8, 2, 8);
	case_stage(&c, 1, 10, 4);
	c.offers[0].minimum_charge = 60 * ESPL_SECOND;
	c.offers[0].billing_step = 7 * ESPL_SECOND;
	c.setup.next_stage = c.next;
	c.next[0] = 1;
	c.setup.held_count = 3;
	for (uint32_t i = 0; i < 3; i++) {
		c.held[i].billed_s = held[i];
		espl__ledger_open(ledger, i, &c.offers[0], 0, 0);
		espl__ledger_state(ledger, i, ESPL_NODE_BOOTING,
		    (espl_time)((100 - held[i]) * ESPL_SECOND));
	}
	spent = (double)espl__ledger_total(ledger, 100 * ESPL_SECOND) * 1e-6;
	for (uint32_t i = 0; i < 3; i++)
		espl__ledger_close(ledger, i, (espl_time)((100 + stays[i]) * ESPL_SECOND),
		    ESPL_BY_USER, -1);
	bill = (double)espl__ledger_total(ledger, 999 * ESPL_SECOND) * 1e-6;
	near_to(predict(&c, 0, NULL).jct_s.mean, 60, 1e-9, "time");
	near_to(spent + predict(&c, 0, NULL).cost_usd.mean, bill, 1e-6, "tables");
	near_to(spent + predict(&c, 1, NULL).cost_usd.mean, bill, 1e-6, "graph");
	espl__ledger_free(ledger);
}

Test(forecast, earlier_stages_may_be_left_out_and_cost_nothing)
{
	struct espl__forecast_stage stages[3];
	struct espl__forecast_result r;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 9, 9, 9);
	case_stage(&c, 1, 10, 4);
	c.setup.next_stage = c.next;
	c.next[0] = 1;
	r = predict(&c, 0, stages);
	near_to(r.jct_s.mean, 40, 1e-9, "%g", r.jct_s.mean);
	near_to(r.cost_usd.mean, 40, 1e-9, "%g", r.cost_usd.mean);
	cr_assert_eq(stages[0].ends_s, 0);
	cr_assert_eq(stages[0].cost_usd, 0);
	c.entry_list[0] = c.entry_list[1];
	c.plan.stage_count = 1;
	near_to(predict(&c, 0, stages).cost_usd.mean, 40, 1e-9, "left out");
	c.next[0] = 2; /* all is over */
	r = predict(&c, 0, stages);
	cr_assert(r.jct_s.mean == 0 && r.cost_usd.mean == 0);
}

/* One bracket is in the middle of its first stage, when the last one of another begins: 8 trials of
 * 20 s on two nodes have trained for 15 s, and 40 s on one of them are still to come; the other
 * gives a node back. */
Test(forecast, what_has_begun_goes_on_on_its_own_nodes)
{
	double past_s[] = { 15, -1 };
	struct espl_plan_stage wider;
	struct espl__forecast_result r;
	struct espl_cell cells[2];
	struct espl__forecast *f;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 8, 2, 8);
	case_stage(&c, 1, 10, 4);
	case_bracket(&c);
	case_stage(&c, 2, 5, 8);
	case_stage(&c, 1, 5, 4);
	c.spec.flags = ESPL_SPEC_PARALLEL;
	c.setup.next_stage = c.next;
	c.next[1] = 1;
	c.setup.past_s = past_s;
	c.setup.plan = &c.plan;
	c.setup.held_count = 4;
	for (uint32_t i = 0; i < 4; i++)
		c.held[i] = (struct espl__forecast_node){ .own = 1 + i % 2, .billed_s = 15 };
	for (uint32_t samples = 0; samples < 2; samples++) {
		past_s[0] = 15;
		r = predict(&c, samples, NULL);
		near_to(r.jct_s.mean, 45, 1e-9, "%g", r.jct_s.mean);
		near_to(r.cost_usd.mean, 2 * 5 + 40 + 20, 1e-9, "%g", r.cost_usd.mean);
		past_s[0] = 25; /* longer than it was to take: it is over at once */
		r = predict(&c, samples, NULL);
		near_to(r.jct_s.mean, 40, 1e-9, "%g", r.jct_s.mean);
		near_to(r.cost_usd.mean, 40 + 20, 1e-9, "%g", r.cost_usd.mean);
	}
	past_s[0] = 15;
	f = forecast_of(&c);
	cr_assert_eq(espl__forecast_cells(f, 0, 0, 0, 8, 8, cells), ESPL_OK);
	cr_assert_eq(cells[0].flags, ESPL_CELL_BEGUN);
	near_to(cells[0].mean_s, 5, 1e-9, "%g", cells[0].mean_s);
	near_to(cells[0].busy_gpu_s, 8 * 5, 1e-9, "%g", cells[0].busy_gpu_s);
	cr_assert_eq(espl__forecast_cells(f, 0, 0, 0, 12, 13, cells), ESPL_OK);
	cr_assert(cells[0].flags == ESPL_CELL_INVALID && cells[1].flags == ESPL_CELL_INVALID);
	c.setup.plan = &(struct espl_plan){ .size = sizeof c.plan,
		.stage_count = 4,
		.stages = (const struct espl_plan_stage *[]){ &wider, &c.entries[1], &c.entries[2],
		    &c.entries[3] } };
	wider = c.entries[0];
	wider.gpus = 16;
	espl__forecast_free(f);
	/* it is on 16 now, and the plan would have it on 8 */
	f = forecast_of(&c);
	cr_assert_eq(espl__forecast_plan(f, &c.plan, 0, 0, &r, NULL, NULL), ESPL_E_INFEASIBLE);
	espl__forecast_free(f);
}

/* ---- limits -------------------------------------------------------------------------- */

Test(forecast, limits_are_inclusive)
{
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 3, 1, 1);
	c.profile.iteration = seconds(0.1); /* 0.1 + 0.1 + 0.1 is more than 0.3 */
	c.setup.deadline_s = 0.3;
	c.setup.budget_usd = 0.3;
	cr_assert_eq(predict(&c, 0, NULL).meets, 1);
	c.setup.deadline_s = 0.2999;
	cr_assert_eq(predict(&c, 0, NULL).meets, 0);
	c.setup.deadline_s = INFINITY;
	c.setup.budget_usd = 0.2999;
	cr_assert_eq(predict(&c, 0, NULL).meets, 0);
}

Test(forecast, risk_asks_for_a_quantile)
{
	struct espl__forecast_result r;
	struct espl__forecast *f;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 4, 20, 4);
	c.profile.iteration = lognormal(10, 8);
	c.setup.risk = 0.9;
	f = forecast_of(&c);
	cr_assert_eq(espl__forecast_plan(f, &c.plan, 0.9, 0, &r, NULL, NULL), ESPL_OK);
	cr_assert(r.jct_s.mean < r.jct_at_quantile_s && r.jct_at_quantile_s < r.jct_s.p95);
	cr_assert(r.cost_usd.mean < r.cost_at_quantile_usd);
	espl__forecast_free(f);
	c.setup.deadline_s = r.jct_at_quantile_s;
	cr_assert_eq(predict(&c, 0, NULL).meets, 1);
	c.setup.deadline_s = r.jct_at_quantile_s * 0.999;
	cr_assert_eq(predict(&c, 0, NULL).meets, 0);
	c.setup.risk = 0.5; /* the mean keeps it easily */
	cr_assert_eq(predict(&c, 0, NULL).meets, 1);
	cr_assert(isnan(predict(&c, 0, NULL).jct_at_quantile_s));
}

static double
quantile(const struct forecast_case *c, double part, uint32_t samples)
{
	struct espl__forecast *f = forecast_of(c);
	struct espl__forecast_result r;

	cr_assert_eq(espl__forecast_plan(f, &c->plan, part, samples, &r, NULL, NULL), ESPL_OK);
	espl__forecast_free(f);
	return r.jct_at_quantile_s;
}

Test(forecast, a_quantile_is_the_least_that_suffices)
{
	static const double tosses[] = { 10, 20 };
	struct espl__forecast *f;
	struct espl__forecast_result r;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 1, 1, 1);
	c.profile.iteration = seconds(15);
	c.profile.iteration.kind = ESPL_EMPIRICAL;
	c.profile.iteration.samples_s = tosses;
	c.profile.iteration.sample_count = 2;
	near_to(predict(&c, 0, NULL).jct_s.mean, 15, 1e-12, "half of the even draws are 10");
	cr_assert_eq(quantile(&c, 0.5, 0), 10);
	cr_assert_eq(quantile(&c, 0.501, 0), 20);
	cr_assert_eq(quantile(&c, 0.001, 0), 10);
	cr_assert_eq(quantile(&c, 0.999, 0), 20);
	c.profile.iteration = lognormal(10, 5); /* 0.07 of 100 is 7, in doubles a little more */
	cr_assert_eq(quantile(&c, 0.07, 100), quantile(&c, 0.065, 100));
	cr_assert_lt(quantile(&c, 0.07, 100), quantile(&c, 0.075, 100));
	f = forecast_of(&c);
	cr_assert_eq(espl__forecast_plan(f, &c.plan, 1.0, 0, &r, NULL, NULL), ESPL_E_CONFIG);
	cr_assert_eq(espl__forecast_plan(f, &c.plan, -0.1, 0, &r, NULL, NULL), ESPL_E_CONFIG);
	espl__forecast_free(f);
}

/* Five trials of one GPU on four nodes of one: the last is alone for 10 s, on the oldest node. */
static void
idle_case(struct forecast_case *c)
{
	case_init(c);
	c->offers[0].gpus = 1;
	case_stage(c, 5, 1, 4);
	case_stage(c, 1, 1, 2);
	c->entries[1].gpus_per_trial = 1;
	c->sync = seconds(2);
}

Test(forecast, idle_nodes_go_when_no_trial_waits)
{
	struct espl__forecast_stage stages[2];
	struct forecast_case c;

	idle_case(&c);
	near_to(predict(&c, 0, NULL).cost_usd.mean, 4 * 22 + 2 * 12, 1e-9, "to the end of a stage");
	c.setup.idle = 1;
	near_to(predict(&c, 0, stages).cost_usd.mean, 4 * 10 + 2 * 12 + 10, 1e-9,
	    "two stay for the next stage, where one of them is idle");
	near_to(stages[0].cost_usd, 4 * 10 + 2 * 12, 1e-9, "the first stage");
	near_to(predict(&c, 9, NULL).cost_usd.mean, 4 * 10 + 2 * 12 + 10, 1e-9, "the graph");
	c.offers[0].minimum_charge = 15 * ESPL_SECOND;
	near_to(predict(&c, 0, NULL).cost_usd.mean, 2 * 15 + 2 * 22 + 10, 1e-9, "minimum charge");
	c.offers[0].minimum_charge = 0;
	c.offers[0].billing = ESPL_BILL_FUNCTION;
	near_to(predict(&c, 0, NULL).cost_usd.mean, 6 * 10, 1e-9, "idle time is free");
}

/* 8 stragglers: each node is paid for as long as its trial takes. */
Test(forecast, stragglers_alone_are_paid_for)
{
	struct espl__forecast_result stage, idle;
	struct forecast_case c;

	case_init(&c);
	c.offers[0].gpus = 1;
	case_stage(&c, 8, 1, 8);
	case_stage(&c, 1, 1, 1);
	c.profile.iteration = lognormal(100, 100);
	c.setup.samples = 4096;
	stage = predict(&c, 0, NULL);
	c.setup.idle = 1;
	idle = predict(&c, 0, NULL);
	near_to(idle.jct_s.mean, stage.jct_s.mean, 1e-9, "no later");
	near_to(idle.cost_usd.mean, 900, 9, "%g", idle.cost_usd.mean);
	cr_assert_gt(stage.cost_usd.mean, 2 * idle.cost_usd.mean);
	near_to(predict(&c, 200000, NULL).cost_usd.mean, 900, 9, "graph");
}
