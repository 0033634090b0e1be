/* test_forecast_random.c - the execution model under noise: draws, tables, graph, determinism. */
#include "forecast/forecast_draw.h"
#include "forecast/forecast_impl.h"
#include "test_forecast.h"

/* Mean seconds from the request of `nodes` nodes (at least one) until the last of them is ready,
 * and mean seconds for which one of them is billed by then. */
static double
lead_s(struct espl__forecast *f, uint32_t offer, uint32_t nodes, double *billed_s)
{
	struct espl__terms *terms = &f->terms[offer];
	const struct espl__boot_row *row = espl__boot_row(f, terms, nodes);

	*billed_s =
	    row->mean_ready - (terms->random_from ? row->mean_froms / nodes : terms->from_s);
	return row->mean_ready;
}

/* ---- draws --------------------------------------------------------------------------- */

Test(forecast, quantiles_of_the_normal_distribution)
{
	static struct espl__normal normal_table;

	espl__normal_fill(&normal_table);
	for (double q = 0x1p-55; q < 1; q *= 1.0173) {
		double z = espl__normal_upper(&normal_table, q), back = 0.5 * erfc(z * sqrt(0.5));

		near_to(back, q, 3e-7 * q, "%g: %g gives %g", q, z, back);
		if (q <= 0.5)
			near_to(espl__normal_upper(&normal_table, 1 - q), -z,
			    1e-6 * (1 + z) / q * 1e-10 + 1e-6, "%g", q);
	}
	cr_assert_eq(espl__normal_upper(&normal_table, 0.5), 0);
}

/* Draws of plain streams and even spreads have the moments that the distribution promises. */
Test(forecast, draws_have_the_moments_of_their_distribution)
{
	static const double samples[] = { 1, 5, 2, 100, 0 };
	struct espl_latency empirical = { .kind = ESPL_EMPIRICAL,
		.samples_s = samples,
		.sample_count = 5 };
	struct espl_latency latencies[] = { normal(10, 1), normal(4, 10), normal(0, 3),
		lognormal(10, 15), empirical, seconds(7) };
	static struct espl__normal table;
	static double spread[4096];
	static uint32_t order[4096];

	espl__normal_fill(&table);
	for (size_t i = 0; i < sizeof latencies / sizeof latencies[0]; i++) {
		struct espl__dist d;
		double sum = 0, squares = 0, mean, sd;
		const uint32_t n = 200000;

		espl__dist_of(&latencies[i], &d);
		near_to(d.mean, espl__latency_mean(&latencies[i]), 1e-9 * d.mean, "%zu", i);
		for (uint32_t k = 0; k < n; k++) {
			double v = espl__dist_at(&d, &table, espl__unit(i, k));

			cr_assert_geq(v, 0);
			sum += v;
			squares += v * v;
		}
		mean = sum / n;
		sd = sqrt(squares / n - mean * mean);
		near_to(mean, d.mean, 4 * d.sd / sqrt(n) + 1e-9, "%zu: %g, not %g", i, mean,
		    d.mean);
		near_to(sd, d.sd, 0.03 * d.sd + 1e-6, "%zu: %g, not %g", i, sd, d.sd);
		memset(spread, 0, sizeof spread);
		espl__dist_spread(&d, &table, 99, 4096, order, spread, 1);
		sum = 0;
		for (uint32_t k = 0; k < 4096; k++)
			sum += spread[k];
		near_to(sum / 4096, d.mean, 0.01 * d.sd + 1e-9, "%zu: %g, not %g", i, sum / 4096,
		    d.mean);
	}
}

Test(forecast, sums_of_iterations_have_their_mean_and_variance)
{
	struct espl_latency latencies[] = { normal(4, 10), lognormal(1, 5), normal(10, 1) };
	static const double counts[] = { 1, 7, 16, 17, 40, 100000 };
	static struct espl__normal table;

	espl__normal_fill(&table);
	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < 6; j++) {
			struct espl__dist d;
			struct espl__sum sum;
			double all = 0, squares = 0;
			const int n = 40000;

			espl__dist_of(&latencies[i], &d);
			espl__sum_of(&d, counts[j], &sum);
			near_to(espl__sum_mean(&sum), d.mean * counts[j], 1e-9 * d.mean * counts[j],
			    "mean");
			near_to(sum.one.sd * sqrt(sum.times), d.sd * sqrt(counts[j]),
			    1e-9 * d.sd * counts[j], "sd");
			for (int k = 0; k < n; k++) {
				double v = 0;

				for (uint32_t t = 0; t < sum.times; t++)
					v += espl__dist_at(&sum.one, &table,
					    espl__unit(j * 3 + i, (uint64_t)k * sum.times + t));
				cr_assert_geq(v, 0);
				all += v;
				squares += (v - d.mean * counts[j]) * (v - d.mean * counts[j]);
			}
			near_to(all / n, d.mean * counts[j], 4 * d.sd * sqrt(counts[j] / n),
			    "%zu %zu", i, j);
			near_to(sqrt(squares / n), d.sd * sqrt(counts[j]),
			    0.2 * d.sd * sqrt(counts[j]), "%zu %zu: %g", i, j, sqrt(squares / n));
		}
}

/* Checkpoints on the way of random iterations, against trials that are really walked. */
Test(forecast, checkpoints_on_the_way_under_noise)
{
	static const double every[] = { 5, 20, 60, 61, 400 };
	static const uint64_t iterations[] = { 3, 50, 700 };
	static struct espl__normal table;
	struct espl_latency latencies[] = { normal(10, 1), lognormal(10, 10), lognormal(1, 0.2) };

	espl__normal_fill(&table);
	for (int way = 0; way < 45; way++) {
		uint64_t count = iterations[way % 3], n = 0, saves = 0;
		double rate = every[way / 3 % 5], want, got;
		struct espl__dist d;
		struct forecast_case c;

		case_init(&c);
		case_stage(&c, 1, count, 1);
		c.profile.iteration = latencies[way / 15];
		c.profile.start = seconds(4);
		want = predict(&c, 0, NULL).jct_s.mean;
		c.profile.checkpoint = seconds(100);
		c.setup.save_every_s = rate;
		got = (predict(&c, 0, NULL).jct_s.mean - want) / 100 - 1;
		espl__dist_of(&c.profile.iteration, &d);
		for (int trial = 0; trial < 2000; trial++) {
			double age = 4;

			for (uint64_t i = 1; i < count; i++) {
				age += espl__dist_at(&d, &table, espl__unit(way, n++));
				if (age >= rate) {
					saves++;
					age = 0;
				}
			}
		}
		want = (double)saves / 2000;
		near_to(got, want, 0.01 * want + 0.1,
		    "way %d, every %g s, %g s, %llu iterations: %g, not %g", way, rate, d.mean,
		    (unsigned long long)count, got, want);
	}
}

/* ---- layouts ------------------------------------------------------------------------- */

static int
legal(const struct espl_offer *o, uint32_t g, uint32_t min, uint32_t max, int colocate)
{
	return g >= min && g <= max && (!colocate || g <= o->gpus || g % o->gpus == 0);
}

static uint32_t
room(const struct espl_offer *o, uint32_t g, uint32_t nodes, int colocate)
{
	if (!colocate)
		return nodes * o->gpus / g;
	return g <= o->gpus ? o->gpus / g * nodes : nodes / (g / o->gpus);
}

/* The rule of docs/model.md by trying all shares. */
static int
search(const struct espl_offer *o, uint32_t n, uint32_t a, uint32_t min, uint32_t max, int colocate,
    struct espl__forecast_stage *s)
{
	uint32_t nodes = s->nodes ? s->nodes : (a + o->gpus - 1) / o->gpus, least = min, g;
	uint32_t most = a / n < max ? a / n : max;

	while (least <= max && !legal(o, least, min, max, colocate))
		least++;
	if (least > max || nodes > o->nodes_max)
		return -1;
	for (g = most; g > least; g--)
		if (legal(o, g, min, max, colocate) && room(o, g, nodes, colocate) >= n)
			break;
	if (g < least)
		g = least;
	s->slots = room(o, g, nodes, colocate);
	s->slots = s->slots < a / g ? s->slots : a / g;
	s->slots = s->slots < n ? s->slots : n;
	s->gpus_per_trial = g;
	s->nodes = nodes;
	return s->slots > 0 ? 0 : -1;
}

Test(forecast, layouts_are_the_best_there_are)
{
	struct espl_offer o = { .nodes_max = 40 };
	static const uint32_t per_node[] = { 1, 3, 4, 8 };
	uint32_t placed = 0;

	for (uint32_t k = 0; k < 200000; k++) {
		uint64_t z = espl__mix_bits(k + 1);
		uint32_t n = 1 + z % 20, a = 1 + (z >> 8) % 100, min = 1, max = ESPL_ANY;
		int colocate = (z >> 20) & 1, got, want;
		struct espl__forecast_stage s = { 0 }, t = { 0 };

		o.gpus = per_node[(z >> 24) & 3];
		if ((z >> 28) & 1)
			min = 1 + (z >> 30) % 10;
		if ((z >> 36) & 1)
			max = min + (z >> 38) % 10;
		if (((z >> 44) & 3) == 0)
			s.nodes = t.nodes = 1 + (z >> 48) % 50;
		got = espl__plan_layout(&o, n, a, min, max, colocate, &s);
		want = search(&o, n, a, min, max, colocate, &t);
		cr_assert_eq(got, want, "%u trials, %u GPUs, %u a node: %d, not %d", n, a, o.gpus,
		    got, want);
		if (want != 0)
			continue;
		placed++;
		cr_assert(s.gpus_per_trial == t.gpus_per_trial && s.nodes == t.nodes &&
			s.slots == t.slots,
		    "%u trials, %u GPUs, %u a node, %u..%u: %u not %u, %u not %u slots", n, a,
		    o.gpus, min, max, s.gpus_per_trial, t.gpus_per_trial, s.slots, t.slots);
	}
	cr_assert_gt(placed, 100000);
}

Test(forecast, layouts_that_are_none)
{
	struct espl_offer o = { .gpus = 4, .nodes_max = 3 };
	struct espl__forecast_stage s = { 0 };

	cr_assert_neq(espl__plan_layout(&o, 1, 13, 1, ESPL_ANY, 1, &s), 0, "beyond the quota");
	cr_assert_neq(espl__plan_layout(&o, 1, 0, 1, ESPL_ANY, 1, &s), 0, "no GPUs");
	cr_assert_neq(espl__plan_layout(&o, 2, 1, 2, ESPL_ANY, 1, &s), 0, "too few for one trial");
	cr_assert_neq(espl__plan_layout(&o, 1, 8, 5, 7, 1, &s), 0,
	    "neither one node nor whole ones");
	s.gpus_per_trial = 6;
	cr_assert_neq(espl__plan_layout(&o, 2, 12, 1, ESPL_ANY, 1, &s), 0, "nor if it is told");
	cr_assert_eq(espl__plan_layout(&o, 2, 12, 1, ESPL_ANY, 0, &s), 0, "unless scattered");
	o.gpus = 0;
	cr_assert_neq(espl__plan_layout(&o, 1, 1, 1, ESPL_ANY, 1, &s), 0, "no GPUs on a node");
}

/* ---- tables and graph ---------------------------------------------------------------- */

static void
noisy_case(struct forecast_case *c)
{
	case_init(c);
	case_stage(c, 32, 20, 16);
	case_stage(c, 16, 40, 32);
	case_stage(c, 2, 80, 40);
	c->profile.iteration = lognormal(10, 20);
	c->profile.start = normal(4, 3);
	c->profile.checkpoint = lognormal(2, 1);
	c->profile.restore = normal(1, 2);
	c->sync = normal(3, 2);
	c->provision[0] = lognormal(30, 20);
	c->init[0] = normal(10, 8);
}

Test(forecast, a_plans_mean_is_the_sum_of_its_cells)
{
	struct forecast_case c;
	struct espl__forecast *f;
	struct espl__forecast_result r;
	double jct = 0, usd = 0, lead, billed = 0;
	uint32_t nodes = 0;

	noisy_case(&c);
	f = forecast_of(&c);
	cr_assert_eq(espl__forecast_exact(f), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct espl_cell cell;

		cr_assert_eq(espl__forecast_cells(f, 0, i, 0, c.entries[i].gpus, c.entries[i].gpus,
				 &cell),
		    ESPL_OK);
		cr_assert_gt(cell.sd_s, 0);
		lead = nodes < cell.nodes ? lead_s(f, 0, cell.nodes - nodes, &billed) : 0;
		jct += lead + cell.mean_s;
		usd += cell.nodes * cell.mean_s + nodes * lead + (cell.nodes - nodes) * billed;
		nodes = cell.nodes;
	}
	cr_assert_eq(espl__forecast_plan(f, &c.plan, 0, 0, &r, NULL, NULL), ESPL_OK);
	near_to(r.jct_s.mean, jct, 1e-9 * jct, "%.12g, not %.12g", r.jct_s.mean, jct);
	near_to(r.cost_usd.mean, usd, 1e-9 * usd, "%.12g, not %.12g", r.cost_usd.mean, usd);
	espl__forecast_free(f);
}

/* Draws are the same whatever the allocation: twice the speed is exactly half the time. */
Test(forecast, all_allocations_have_the_same_luck)
{
	struct forecast_case c;
	struct espl_cell cells[8];
	struct espl__forecast *f;

	case_init(&c);
	case_stage(&c, 4, 20, 4);
	c.profile.iteration = lognormal(10, 8);
	c.scaling[1].y = 2;
	f = forecast_of(&c);
	cr_assert_eq(espl__forecast_cells(f, 0, 0, 0, 1, 8, cells), ESPL_OK);
	near_to(cells[7].mean_s * 2, cells[3].mean_s, 1e-9 * cells[3].mean_s, "mean");
	near_to(cells[7].sd_s * 2, cells[3].sd_s, 1e-9 * cells[3].mean_s, "sd");
	near_to(cells[7].busy_gpu_s, cells[0].busy_gpu_s, 1e-9 * cells[0].busy_gpu_s, "busy");
	for (uint32_t i = 1; i < 4; i++)
		cr_assert(cells[i].mean_s < cells[i - 1].mean_s && cells[i].slots == i + 1);
	cr_assert_eq(espl__forecast_cells(f, 0, 1, 0, 1, 1, cells), ESPL_E_UNKNOWN);
	cr_assert_eq(espl__forecast_cells(f, 0, 0, 1, 1, 1, cells), ESPL_E_UNKNOWN);
	espl__forecast_free(f);
}

/* A trial that must follow a given one waits longer than one that takes what is free (64 trials
 * on 16 slots, spread as long as the mean: about 30 % longer; at a quarter of it 5 %). */
Test(forecast, a_chain_is_longer_than_a_list)
{
	static const double spread[] = { 1, 0.25, 0 }, low[] = { 1.15, 1.02, 1 },
			    high[] = { 1.45, 1.08, 1 };
	struct forecast_case c;

	for (int i = 0; i < 3; i++) {
		double list, chain;

		case_init(&c);
		case_stage(&c, 64, 1, 16);
		c.profile.iteration = normal(10, 10 * spread[i]);
		list = predict(&c, 0, NULL).jct_s.mean;
		c.setup.chain = 1;
		chain = predict(&c, 0, NULL).jct_s.mean;
		cr_assert(chain >= low[i] * list && chain <= high[i] * list, "%g and %g", chain,
		    list);
	}
}

static double
worst(double worst_so_far, double got, double want, double sd, double n, double samples)
{
	double error = sd * sqrt(1 / n + 1 / samples) + 1e-9 * (1 + fabs(want));
	double off = fabs(got - want) / error;

	return off > worst_so_far ? off : worst_so_far;
}

Test(forecast, graph_and_tables_agree_within_three_standard_errors, .timeout = 300)
{
	double off_jct = 0, off_cost = 0;
	uint32_t placed = 0;

	for (uint64_t seed = 0; seed < 100; seed++) {
		struct espl__forecast_result tables, graph;
		struct espl__forecast *f;
		struct forecast_case c;

		case_random(&c, seed, 1);
		f = forecast_of(&c);
		if (espl__forecast_plan(f, &c.plan, 0, 0, &tables, NULL, NULL) == ESPL_OK) {
			cr_assert_eq(espl__forecast_plan(f, &c.plan, 0, 1500, &graph, NULL, NULL),
			    ESPL_OK);
			placed++;
			off_jct = worst(off_jct, graph.jct_s.mean, tables.jct_s.mean,
			    graph.jct_s.sd, 1500, c.setup.samples);
			off_cost = worst(off_cost, graph.cost_usd.mean, tables.cost_usd.mean,
			    graph.cost_usd.sd, 1500, c.setup.samples);
		}
		espl__forecast_free(f);
		cr_assert(off_jct <= 3, "%llu: time off by %.2f", (unsigned long long)seed,
		    off_jct);
		cr_assert(off_cost <= 3, "%llu: cost off by %.2f", (unsigned long long)seed,
		    off_cost);
	}
	cr_assert_gt(placed, 50, "%u", placed);
	cr_assert_gt(off_jct, 0.2, "the noise is not there");
}

/* Where every lease ends before its minimum, or its first step, the bill is known, come what may.
 */
Test(forecast, short_leases_cost_the_same_under_noise)
{
	struct espl__forecast_result r;
	struct forecast_case c;

	for (uint32_t way = 0; way < 16; way++) {
		noisy_case(&c); /* 4, then 8, then 10 nodes */
		c.offers[0].billed_from = 1 + way % 3;
		c.setup.ahead = way / 3 % 2;
		if (way < 8)
			c.offers[0].minimum_charge = 3600 * ESPL_SECOND;
		else
			c.offers[0].billing_step = 3600 * ESPL_SECOND;
		for (uint32_t samples = 0; samples <= 100; samples += 100) {
			r = predict(&c, samples, NULL);
			near_to(r.cost_usd.mean, 10 * 3600, 1e-6, "%u: %.9g $", way,
			    r.cost_usd.mean);
			cr_assert(r.cost_usd.sd < 1e-6 && r.jct_s.sd > 1);
		}
	}
}

/* One node that is billed while it trains, or also while it comes. */
Test(forecast, the_spread_of_the_bill_is_that_of_what_is_billed)
{
	struct espl__forecast_result r;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 4, 1, 4);
	c.provision[0] = lognormal(30, 20);
	c.init[0] = lognormal(30, 20);
	for (uint32_t samples = 0; samples <= 1000; samples += 1000) {
		c.offers[0].billed_from = ESPL_BILL_FROM_READY;
		r = predict(&c, samples, NULL);
		cr_assert(r.jct_s.sd > 20 && r.cost_usd.sd < 1e-9);
		c.offers[0].billed_from = ESPL_BILL_FROM_BOOT;
		r = predict(&c, samples, NULL);
		cr_assert(r.cost_usd.sd > 15 && r.cost_usd.sd < r.jct_s.sd - 2);
		c.offers[0].billed_from = ESPL_BILL_FROM_REQUEST;
		r = predict(&c, samples, NULL);
		near_to(r.cost_usd.sd, r.jct_s.sd, 1e-9, "%g, not %g", r.cost_usd.sd, r.jct_s.sd);
	}
}

/* Nodes that come at different times are late independently: 20 s twice is 28 s. */
Test(forecast, scale_ups_have_luck_of_their_own)
{
	struct espl__forecast_result tables, graph;
	struct forecast_case c;

	case_init(&c);
	case_stage(&c, 4, 1, 4);
	case_stage(&c, 4, 1, 8);
	c.provision[0] = lognormal(60, 20);
	c.setup.samples = 1024;
	tables = predict(&c, 0, NULL);
	graph = predict(&c, 4000, NULL);
	near_to(tables.jct_s.sd, 20 * sqrt(2), 2, "%g", tables.jct_s.sd);
	near_to(graph.jct_s.sd, 20 * sqrt(2), 2, "%g", graph.jct_s.sd);
	near_to(tables.jct_s.p95, graph.jct_s.p95, 4, "%g, not %g", tables.jct_s.p95,
	    graph.jct_s.p95);
}

/* ---- determinism --------------------------------------------------------------------- */

static void
all_of(const struct forecast_case *c, int backwards, struct espl__forecast_result *tables,
    struct espl__forecast_result *graph, struct espl__forecast_stage *stages)
{
	struct espl__forecast *f = forecast_of(c);
	struct espl_cell cell;
	double billed;

	if (backwards) {
		cr_assert_eq(espl__forecast_plan(f, &c->plan, 0.3, 300, graph, NULL, NULL),
		    ESPL_OK);
		for (uint32_t i = c->stage_count; i-- > 0;)
			(void)espl__forecast_cells(f, 0, i, 0, 3, 3, &cell);
		(void)lead_s(f, 0, 500, &billed);
	}
	cr_assert_eq(espl__forecast_plan(f, &c->plan, 0.3, 0, tables, stages, NULL), ESPL_OK);
	if (!backwards)
		cr_assert_eq(espl__forecast_plan(f, &c->plan, 0.3, 300, graph, NULL, NULL),
		    ESPL_OK);
	espl__forecast_free(f);
}

Test(forecast, same_seed_same_bits)
{
	struct espl__forecast_result tables[3], graph[3];
	struct espl__forecast_stage stages[3][3];
	struct forecast_case c;

	noisy_case(&c);
	memset(stages, 0, sizeof stages);
	for (int i = 0; i < 3; i++) {
		c.setup.seed = i < 2 ? 1 : 2;
		all_of(&c, i == 1, &tables[i], &graph[i], stages[i]);
	}
	cr_assert_eq(memcmp(&tables[0], &tables[1], sizeof tables[0]), 0);
	cr_assert_eq(memcmp(&graph[0], &graph[1], sizeof graph[0]), 0);
	cr_assert_eq(memcmp(stages[0], stages[1], sizeof stages[0]), 0);
	cr_assert_neq(tables[0].jct_s.mean, tables[2].jct_s.mean);
	cr_assert_neq(graph[0].jct_s.mean, graph[2].jct_s.mean);
}

Test(forecast, many_trials_get_fewer_samples)
{
	static const uint32_t trials[] = { 200000, 200 };
	struct espl__forecast_result low, high;
	struct espl__forecast *f;
	struct forecast_case c;

	for (int i = 0; i < 2; i++) {
		case_init(&c);
		case_stage(&c, trials[i], 20, trials[i]);
		c.profile.iteration = normal(10, 2);
		c.setup.samples = 1000;
		f = forecast_of(&c);
		cr_assert_eq(espl__forecast_plan(f, &c.plan, 0.001, 0, &low, NULL, NULL), ESPL_OK);
		cr_assert_eq(espl__forecast_plan(f, &c.plan, 0.12, 0, &high, NULL, NULL), ESPL_OK);
		espl__forecast_free(f);
		near_to(low.jct_s.mean, 200 + (i ? 2.75 : 4.45) * 2 * sqrt(20), 3, "%g",
		    low.jct_s.mean);
		cr_assert_gt(low.jct_s.sd, 0);
		/* Eight samples have no value between their least and the next. */
		cr_assert_eq(low.jct_at_quantile_s == high.jct_at_quantile_s, i == 0);
	}
}

/* ---- what is refused ----------------------------------------------------------------- */

static void
refused(const struct forecast_case *c, const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast *f = NULL;

	cr_assert_eq(espl__forecast_new(&c->setup, &f, &diag), ESPL_E_CONFIG, "%s", text);
	cr_assert(strstr(diag.text, text) != NULL, "'%s' has no '%s'", diag.text, text);
}

Test(forecast, latencies_and_prices_that_cannot_be)
{
	double samples[] = { 1, -1 };
	struct forecast_case c;

#define REFUSED(change_, text_) \
	do { \
		case_init(&c); \
		case_stage(&c, 1, 1, 1); \
		change_; \
		refused(&c, text_); \
	} while (0)
	REFUSED(c.profile.iteration = seconds(-1), "an iteration");
	REFUSED(c.profile.start = seconds(NAN), "start");
	REFUSED(c.profile.checkpoint = normal(1, -1), "checkpoint");
	REFUSED(c.profile.restore = seconds(INFINITY), "restore");
	REFUSED(c.sync.mean_s = -1, "barrier");
	REFUSED((c.init[0].kind = ESPL_EMPIRICAL, c.init[0].samples_s = samples,
		    c.init[0].sample_count = 2),
	    "sample 2");
	REFUSED(c.provision[0].sd_s = NAN, "provision");
	REFUSED(c.offers[0].price_hour = -1, "negative price");
	REFUSED(c.offers[0].data_gb = -1, "price of data");
	REFUSED(c.setup.speed = 0, "as long");
	REFUSED(c.setup.data_gb = NAN, "GB");
	REFUSED(c.setup.risk = 1, "probability");
	REFUSED(c.setup.deadline_s = NAN, "deadline");
	REFUSED(c.stages[0].trials = 0, "no trials");
	REFUSED(c.brackets[0].stage_count = 0, "no stages");
	REFUSED(c.spec.bracket_count = 0, "no stages");
#undef REFUSED
}

static void
fails(struct forecast_case *c, espl_status want, const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast *f = forecast_of(c);
	struct espl__forecast_result r;

	cr_assert_eq(espl__forecast_plan(f, &c->plan, 0, 0, &r, NULL, &diag), want, "%s", text);
	cr_assert(strstr(diag.text, text) != NULL, "'%s' has no '%s'", diag.text, text);
	espl__forecast_free(f);
}

Test(forecast, plans_that_cannot_be)
{
	struct forecast_case c;

#define FAILS(change_, status_, text_) \
	do { \
		case_init(&c); \
		case_stage(&c, 4, 1, 4); \
		case_stage(&c, 2, 1, 4); \
		change_; \
		fails(&c, status_, text_); \
	} while (0)
	FAILS(c.plan.stage_count = 1, ESPL_E_CONFIG, "leaves out stage 1");
	FAILS(c.entries[1].stage = 0, ESPL_E_CONFIG, "stage 0 of bracket 0 twice");
	FAILS(c.entries[1].stage = 2, ESPL_E_CONFIG, "stage 2 of bracket 0 is planned, but");
	FAILS(c.entries[1].bracket = 1, ESPL_E_CONFIG, "bracket 1 is planned, but");
	FAILS(c.entries[1].offer = 1, ESPL_E_CONFIG, "offer 1");
	FAILS(c.offer_list[0] = NULL, ESPL_E_CONFIG, "offer 0");
	FAILS(c.entries[1].gpus = 0, ESPL_E_INFEASIBLE,
	    "stage 1 of bracket 0 cannot be placed on 0 GPUs");
	FAILS(c.offers[0].nodes_max = 0, ESPL_E_INFEASIBLE, "has fewer nodes than needed (0, not");
	FAILS(c.offers[0].flags = ESPL_OFFER_GONE, ESPL_E_INFEASIBLE, "no longer available");
#undef FAILS
}
