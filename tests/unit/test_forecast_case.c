/* test_forecast_case.c - builds the cases of test_forecast.h. */
#include "base/rng.h"
#include "test_forecast.h"

struct espl_latency
seconds(double mean)
{
	return (struct espl_latency){ .size = sizeof(struct espl_latency),
		.kind = ESPL_CONSTANT,
		.mean_s = mean };
}

struct espl_latency
normal(double mean, double sd)
{
	struct espl_latency l = seconds(mean);

	l.kind = ESPL_NORMAL;
	l.sd_s = sd;
	return l;
}

struct espl_latency
lognormal(double mean, double sd)
{
	struct espl_latency l = normal(mean, sd);

	l.kind = ESPL_LOGNORMAL;
	return l;
}

void
case_init(struct forecast_case *c)
{
	static const double latencies[][2] = { { 1, 10 }, { 2, 6 }, { 4, 4 }, { 8, 3 } };

	memset(c, 0, sizeof *c);
	for (int i = 0; i < 4; i++)
		c->scaling[i] = (struct espl_point){ latencies[i][0], 10 / latencies[i][1] };
	c->profile = (struct espl__profile){ .iteration = seconds(10),
		.scaling = c->scaling,
		.scaling_count = 4,
		.start = seconds(0),
		.checkpoint = seconds(0),
		.restore = seconds(0) };
	c->sync = seconds(0);
	for (uint32_t i = 0; i < OFFERS_MAX; i++) {
		c->provision[i] = c->init[i] = seconds(0);
		c->offers[i] = (struct espl_offer){ .size = sizeof(struct espl_offer),
			.number = i,
			.gpus = 4,
			.nodes_max = ESPL_ANY,
			.name = "node",
			.price_hour = INT64_C(3600000000),
			.billing = ESPL_BILL_NODE,
			.billed_from = ESPL_BILL_FROM_BOOT,
			.provision = &c->provision[i],
			.init = &c->init[i] };
		c->offer_list[i] = &c->offers[i];
	}
	c->plan = (struct espl_plan){ .size = sizeof c->plan, .stages = c->entry_list };
	c->spec = (struct espl_spec){ .size = sizeof c->spec, .brackets = c->bracket_list };
	c->setup = (struct espl__forecast_setup){ .spec = &c->spec,
		.profile = &c->profile,
		.offers = c->offer_list,
		.offer_count = 1,
		.gpus_min = 1,
		.gpus_max = ESPL_ANY,
		.sync = &c->sync,
		.speed = 1,
		.deadline_s = INFINITY,
		.budget_usd = INFINITY,
		.risk = 0.5,
		.seed = 1,
		.samples = 128,
		.colocate = 1,
		.checkpoint = 1,
		.held = c->held };
	case_bracket(c);
}

void
case_bracket(struct forecast_case *c)
{
	uint32_t b = c->spec.bracket_count++;

	c->brackets[b] = (struct espl_bracket){ .size = sizeof c->brackets[b],
		.stages = &c->stage_list[c->stage_count] };
	c->bracket_list[b] = &c->brackets[b];
}

void
case_stage(struct forecast_case *c, uint32_t trials, uint64_t iterations, uint32_t gpus)
{
	uint32_t i = c->stage_count++, b = c->spec.bracket_count - 1;

	cr_assert_lt(i, STAGES_MAX);
	c->stages[i] = (struct espl_stage){ sizeof c->stages[i], trials, iterations };
	c->stage_list[i] = &c->stages[i];
	c->entries[i] = (struct espl_plan_stage){ .size = sizeof c->entries[i],
		.bracket = b,
		.stage = c->brackets[b].stage_count++,
		.gpus = gpus };
	c->entry_list[i] = &c->entries[i];
	c->plan.stage_count++;
}

struct espl__forecast *
forecast_of(const struct forecast_case *c)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast *f = NULL;

	cr_assert_eq(espl__forecast_new(&c->setup, &f, &diag), ESPL_OK, "%s", diag.text);
	return f;
}

struct espl__forecast_result
predict(const struct forecast_case *c, uint32_t samples, struct espl__forecast_stage *stages)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast *f = forecast_of(c);
	struct espl__forecast_result r;

	cr_assert_eq(espl__forecast_plan(f, &c->plan, 0.0, samples, &r, stages, &diag), ESPL_OK,
	    "%s", diag.text);
	espl__forecast_free(f);
	return r;
}

/* ---- random cases ------------------------------------------------------------------------ */

static uint32_t
pick(struct espl__rng *rng, uint32_t low, uint32_t high)
{
	return low + (uint32_t)(espl__rng_uniform(rng) * (high - low + 1));
}

static struct espl_latency
some_latency(struct espl__rng *rng, double most, int noise)
{
	double mean = floor(espl__rng_uniform(rng) * most * 8) / 8;

	if (pick(rng, 0, 2) == 0)
		mean = 0;
	if (!noise || mean == 0 || pick(rng, 0, 3) == 0)
		return seconds(mean);
	return pick(rng, 0, 1) ? normal(mean, mean * (0.1 + espl__rng_uniform(rng)))
			       : lognormal(mean, mean * (0.1 + 0.7 * espl__rng_uniform(rng)));
}

static void
random_offers(struct forecast_case *c, struct espl__rng *rng, int noise)
{
	static const uint32_t gpus[] = { 1, 4, 8 };

	c->setup.offer_count = pick(rng, 1, OFFERS_MAX);
	for (uint32_t i = 0; i < c->setup.offer_count; i++) {
		c->offers[i].gpus = gpus[pick(rng, 0, 2)];
		c->offers[i].price_hour = pick(rng, 0, 9) * INT64_C(1234567);
		c->offers[i].data_gb = pick(rng, 0, 1) * INT64_C(12345);
		c->offers[i].billed_from = pick(rng, 1, 3);
		c->offers[i].billing = pick(rng, 0, 3) ? ESPL_BILL_NODE : ESPL_BILL_FUNCTION;
		c->offers[i].minimum_charge = pick(rng, 0, 2) * 60 * ESPL_SECOND;
		c->offers[i].billing_step = pick(rng, 0, 2) * 7 * ESPL_SECOND;
		c->provision[i] = some_latency(rng, 60, noise);
		c->init[i] = some_latency(rng, 100, noise);
	}
}

static void
random_stages(struct forecast_case *c, struct espl__rng *rng)
{
	uint32_t brackets = pick(rng, 1, 3);

	for (uint32_t b = 0; b < brackets; b++) {
		uint32_t trials = pick(rng, 1, 40), count = pick(rng, 1, 5);

		if (b > 0)
			case_bracket(c);
		for (uint32_t i = 0; i < count; i++) {
			uint32_t at = c->stage_count;

			case_stage(c, trials, pick(rng, 1, 40), pick(rng, 1, 48));
			c->entries[at].offer =
			    pick(rng, 0, 2) ? 0 : pick(rng, 0, c->setup.offer_count - 1);
			if (i > 0 && pick(rng, 0, 1)) { /* as before: may go on warm */
				c->entries[at].offer = c->entries[at - 1].offer;
				c->entries[at].gpus = c->entries[at - 1].gpus;
				c->entries[at].gpus_per_trial = 1;
				c->entries[at - 1].gpus_per_trial = 1;
			}
			if (pick(rng, 0, 1))
				trials = trials / pick(rng, 1, 4);
			trials = trials > 0 ? trials : 1;
		}
	}
	c->spec.flags = pick(rng, 0, 1) ? ESPL_SPEC_PARALLEL : 0;
}

void
case_random(struct forecast_case *c, uint64_t seed, int noise)
{
	struct espl__rng rng;

	case_init(c);
	espl__rng_seed(&rng, seed, "forecast case");
	random_offers(c, &rng, noise);
	random_stages(c, &rng);
	c->profile.iteration = noise ? lognormal(10, 1 + 9 * espl__rng_uniform(&rng)) : seconds(10);
	c->profile.start = some_latency(&rng, 20, noise);
	c->profile.checkpoint = some_latency(&rng, 10, noise);
	c->profile.restore = some_latency(&rng, 10, noise);
	c->sync = some_latency(&rng, 5, noise);
	c->setup.seed = seed;
	c->setup.data_gb = pick(&rng, 0, 1) * 1.5;
	c->setup.speed = 0.5 + espl__rng_uniform(&rng);
	c->setup.colocate = (uint8_t)pick(&rng, 0, 1);
	c->setup.checkpoint = (uint8_t)pick(&rng, 0, 1);
	c->setup.chain = (uint8_t)pick(&rng, 0, 1);
	c->setup.warm = (uint8_t)pick(&rng, 0, 1);
	c->setup.ahead = (uint8_t)pick(&rng, 0, 1);
	c->setup.save_every_s = pick(&rng, 0, 1) ? 0 : 5 + 50 * espl__rng_uniform(&rng);
	if (pick(&rng, 0, 1)) {
		c->setup.held_count = pick(&rng, 0, 20);
		for (uint32_t i = 0; i < c->setup.held_count; i++)
			c->held[i] = (struct espl__forecast_node){ .offer = pick(&rng, 0,
								       c->setup.offer_count - 1),
				.billed_s = (20 - i) * 9.5 - (pick(&rng, 0, 9) == 0 ? 1e6 : 0) };
		c->setup.next_stage = c->next;
		for (uint32_t b = 0; b < c->spec.bracket_count; b++)
			c->next[b] = pick(&rng, 0, c->brackets[b].stage_count);
		if ((c->spec.flags & ESPL_SPEC_PARALLEL) == 0) { /* one of them has begun */
			for (uint32_t b = 1; b < c->spec.bracket_count; b++)
				c->next[b] = 0;
		}
	}
	c->setup.idle = (uint8_t)pick(&rng, 0, 1);
}
