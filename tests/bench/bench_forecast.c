/* bench_forecast.c - figures of the execution model: tables of cells, plans predicted, critical
 * paths sampled.  One JSON object a line; processor time of one thread. */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "forecast/forecast.h"

#define STAGES 10
#define GPUS 1024
#define PATHS 1000000

static struct espl_stage stages[STAGES];
static const struct espl_stage *stage_list[STAGES];
static struct espl_bracket bracket;
static const struct espl_bracket *brackets[] = { &bracket };
static struct espl_spec spec;
static struct espl_point scaling[] = { { 1, 1 }, { 2, 1.97 }, { 4, 3.7 }, { 8, 6.4 }, { 16, 10.4 },
	{ 32, 15 } };
static struct espl__profile profile;
static struct espl_latency provision, init;
static struct espl_offer offer;
static const struct espl_offer *offers[] = { &offer };
static struct espl_plan_stage entries[STAGES];
static const struct espl_plan_stage *entry_list[STAGES];
static struct espl_plan plan;
static struct espl__forecast_setup setup;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct espl_latency
latency(double mean, double sd)
{
	return (struct espl_latency){ .size = sizeof(struct espl_latency),
		.mean_s = mean,
		.sd_s = sd,
		.kind = sd > 0 ? ESPL_NORMAL : ESPL_CONSTANT };
}

/* SHA(512, 4, 4096, 2), or a smaller one, on nodes of 4 GPUs; noise: deviation / mean. */
static void
set_up(uint32_t trials, uint32_t gpus, double iteration_noise, double noise)
{
	uint64_t iterations = 4;
	uint32_t count = 0;

	for (; trials > 0; trials /= 2, iterations *= 2, count++) {
		stages[count] = (struct espl_stage){ sizeof stages[0], trials, iterations };
		stage_list[count] = &stages[count];
		entries[count] = (struct espl_plan_stage){ .size = sizeof entries[0],
			.stage = count,
			.gpus = gpus };
		entry_list[count] = &entries[count];
	}
	bracket = (struct espl_bracket){ sizeof bracket, count, stage_list };
	spec = (struct espl_spec){ .size = sizeof spec, .bracket_count = 1, .brackets = brackets };
	profile = (struct espl__profile){ .iteration = latency(4, 4 * iteration_noise),
		.scaling = scaling,
		.scaling_count = 6,
		.start = latency(10, 10 * noise),
		.checkpoint = latency(2, 2 * noise),
		.restore = latency(2, 2 * noise) };
	provision = latency(30, 30 * noise);
	init = latency(15, 15 * noise);
	offer = (struct espl_offer){ .size = sizeof offer,
		.gpus = 4,
		.nodes_max = ESPL_ANY,
		.name = "node",
		.price_hour = 12240000,
		.billing = ESPL_BILL_NODE,
		.billed_from = ESPL_BILL_FROM_BOOT,
		.billing_step = ESPL_SECOND,
		.minimum_charge = 60 * ESPL_SECOND,
		.provision = &provision,
		.init = &init };
	plan =
	    (struct espl_plan){ .size = sizeof plan, .stage_count = count, .stages = entry_list };
	setup = (struct espl__forecast_setup){ .spec = &spec,
		.profile = &profile,
		.offers = offers,
		.offer_count = 1,
		.gpus_min = 1,
		.gpus_max = ESPL_ANY,
		.speed = 1,
		.deadline_s = INFINITY,
		.budget_usd = INFINITY,
		.risk = 0.5,
		.seed = 1,
		.samples = 128,
		.colocate = 1,
		.checkpoint = 1 };
}

static struct espl__forecast *
begin(void)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast *f = NULL;

	if (espl__forecast_new(&setup, &f, &diag) != ESPL_OK) {
		espl__diag_print(stderr, &diag);
		exit(1);
	}
	return f;
}

static void
bench_cells(const char *name, double noise)
{
	static struct espl_cell cells[GPUS];
	double begun = now(), took;
	int times = 0;

	set_up(512, 512, noise, noise);
	do {
		struct espl__forecast *f = begin();

		for (uint32_t i = 0; i < STAGES; i++)
			if (espl__forecast_cells(f, 0, i, 0, 1, GPUS, cells) != ESPL_OK)
				exit(1);
		espl__forecast_free(f);
		times++;
		took = now() - begun;
	} while (took < 1);
	printf("{\"bench\": \"forecast-cells-%s\", \"stages\": %d, \"gpus\": %d, \"table_ms\": "
	       "%.3f}\n",
	    name, STAGES, GPUS, took / times * 1e3);
}

/* Plans that differ in one stage, as planners ask for them. */
static void
bench_plans(const char *name, double noise)
{
	struct espl__forecast_result r;
	struct espl__forecast *f;
	double begun, took, sum = 0;
	uint32_t times = 0;

	set_up(512, 512, noise, noise);
	f = begin();
	begun = now();
	do {
		for (int i = 0; i < 100; i++, times++) {
			entries[times % STAGES].gpus = 4 + times * 4 % GPUS;
			if (espl__forecast_plan(f, &plan, 0, 0, &r, NULL, NULL) != ESPL_OK)
				exit(1);
			sum += r.cost_usd.mean;
		}
		took = now() - begun;
	} while (took < 1 || times < 20000);
	espl__forecast_free(f);
	printf("{\"bench\": \"forecast-plans-%s\", \"stages\": %d, \"plans_s\": %.0f, "
	       "\"stage_ns\": %.0f, \"mean_usd\": %.2f}\n",
	    name, STAGES, times / took, took / times / STAGES * 1e9, sum / times);
}

static void
bench_paths(const char *name, uint32_t trials, uint32_t gpus, double noise, int chain)
{
	struct espl__forecast_result r;
	struct espl__forecast *f;
	double begun, took;

	set_up(trials, gpus, 0.25, noise);
	setup.chain = (uint8_t)chain;
	f = begin();
	begun = now();
	if (espl__forecast_plan(f, &plan, 0.5, PATHS, &r, NULL, NULL) != ESPL_OK)
		exit(1);
	took = now() - begun;
	espl__forecast_free(f);
	printf("{\"bench\": \"forecast-paths-%s\", \"nodes\": %u, \"paths\": %d, \"took_s\": %.3f, "
	       "\"paths_s\": %.0f, \"node_ns\": %.2f, \"mean_s\": %.2f}\n",
	    name, r.graph_nodes, PATHS, took, PATHS / took, took / PATHS / r.graph_nodes * 1e9,
	    r.jct_s.mean);
}

int
main(void)
{
	bench_cells("constant", 0);
	bench_cells("noise", 0.5);
	bench_plans("constant", 0);
	bench_plans("noise", 0.5);
	bench_paths("iterations", 128, 468, 0, 1);
	bench_paths("all", 128, 468, 0.25, 1);
	bench_paths("list", 128, 64, 0, 0);
	return 0;
}
