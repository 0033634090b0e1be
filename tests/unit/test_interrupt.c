/* Interruption predictors of the kit: those that do not learn, and what all share.  test_spottune.c
 * has the golden cases. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/allocators/spottune/interrupt.h"

#define MINUTE (60 * ESPL_SECOND)
#define HOUR (60 * MINUTE)

static uint64_t state = 1;

static uint32_t
draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 33) % below);
}

/* Records at odd instants, some several in a minute. */
static uint32_t
make_prices(struct espl_price *prices, uint32_t count, uint32_t mean_seconds, espl_time from)
{
	for (uint32_t i = 0; i < count; i++) {
		prices[i].from = from;
		prices[i].usd_hour = 100000 + (espl_money)draw(100) * draw(100) * 10;
		from += (1 + (espl_time)draw(2 * mean_seconds)) * ESPL_SECOND;
	}
	return count;
}

static struct espl_predictor *
open_kind(espl_predictor_kind kind)
{
	struct espl_predictor_options options;
	struct espl_predictor *p = NULL;

	espl_predictor_defaults(&options, kind);
	cr_assert_eq(espl_predictor_open(&options, &p), ESPL_OK);
	return p;
}

/* The definition, minute by minute: of the minutes whose next hour is over, of 48 hours. */
static double
count_rises(const struct espl_price *prices, uint32_t count, espl_time now, espl_money margin)
{
	espl_time last = now - now % MINUTE, first = last - HOUR - 48 * HOUR + MINUTE;
	uint32_t found = 0, of = 0;

	for (espl_time t = first; t <= last - HOUR; t += MINUTE) {
		espl_money price = espl_price_at(prices, count, t);
		int above = 0;

		if (price < 0)
			continue;
		of++;
		for (uint32_t i = 0; i < count; i++)
			above |= prices[i].from > t && prices[i].from <= t + HOUR &&
			    prices[i].usd_hour > price + margin;
		found += above != 0;
	}
	return of > 0 ? (double)found / of : NAN;
}

Test(interrupt, empirical_is_the_share_of_known_rises)
{
	static struct espl_price prices[1500];
	static const uint32_t seconds[] = { 20, 300, 7200 };

	for (uint32_t pass = 0; pass < 3; pass++) {
		struct espl_predictor *p = open_kind(ESPL_PREDICT_EMPIRICAL);
		uint32_t count = make_prices(prices, 1500, seconds[pass], 7 * ESPL_SECOND),
			 some = 0;
		espl_time now = 0, end = prices[count - 1].from;

		for (uint32_t i = 0; i < 25; i++, now += end / 25) {
			espl_money margin = 1 + (espl_money)draw(60000);
			/* Sometimes only what is new. */
			uint32_t from = i % 3 == 1 && i > 1 ? i * 3 : 0;
			espl_money price = espl_price_at(prices, count, now);
			struct espl_market_case ask = { prices + from, count - from, 0, now,
				price < 0 ? 1 : price + margin, NAN, 0 };
			double got = espl_predictor_ask(p, &ask);
			double expected = price < 0 ? NAN : count_rises(prices, count, now, margin);

			cr_expect(isnan(expected) ? isnan(got) : fabs(got - expected) < 1e-12,
			    "%u.%u: %g for %g", pass, i, got, expected);
			some += expected > 0 && expected < 1;
		}
		cr_expect_gt(some, 5, "only %u cases between 0 and 1", some);
		espl_predictor_close(p);
	}
}

Test(interrupt, the_future_is_not_looked_at)
{
	struct espl_price prices[] = { { 0, 100 }, { 3 * HOUR + MINUTE, 900 } };
	struct espl_predictor *p = open_kind(ESPL_PREDICT_EMPIRICAL);
	struct espl_market_case ask = { prices, 2, 0, 3 * HOUR, 200, NAN, 0 };

	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	ask.now = 3 * HOUR + MINUTE; /* above what one offers now */
	cr_expect_eq(espl_predictor_ask(p, &ask), 1);
	ask.max_price = 0;
	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	espl_predictor_close(p);
}

Test(interrupt, unknown_until_an_hour_is_over)
{
	struct espl_price price = { 0, 100 };
	struct espl_predictor *p = open_kind(ESPL_PREDICT_EMPIRICAL);
	struct espl_market_case ask = { &price, 1, 0, HOUR - MINUTE, 200, NAN, 0 };

	cr_expect(isnan(espl_predictor_ask(p, &ask)));
	ask.now = HOUR;
	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	espl_predictor_close(p);
	p = open_kind(ESPL_PREDICT_EMPIRICAL);
	ask.count = 0;
	cr_expect(isnan(espl_predictor_ask(p, &ask)));
	espl_predictor_close(p);
}

Test(interrupt, a_long_silence_costs_nothing)
{
	struct espl_price prices[] = { { -HOUR, 100 }, { 0, 200 }, { 400000 * HOUR, 100 } };
	struct espl_predictor *p = open_kind(ESPL_PREDICT_EMPIRICAL);
	struct espl_market_case ask = { prices, 3, 0, HOUR, 300, NAN, 0 };

	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	ask.max_price = 201; /* 1 above: the rise by 100 in the first hour is one of an hour */
	cr_expect_float_eq(espl_predictor_ask(p, &ask), 60.0 / 61, 1e-12);
	ask.now = 500000 * HOUR;
	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	espl_predictor_close(p);
}

/* Of a past that is too old nothing is left to answer from. */
Test(interrupt, what_is_too_old_is_not_asked)
{
	struct espl_price old[] = { { 0, 100 }, { 2 * HOUR, 150 } };
	struct espl_price present = { 1000 * HOUR + MINUTE / 6, 100 };
	struct espl_predictor *p = open_kind(ESPL_PREDICT_EMPIRICAL);
	struct espl_market_case ask = { old, 2, 0, 4 * HOUR, 151, NAN, 0 };

	cr_expect_gt(espl_predictor_ask(p, &ask), 0);
	ask.prices = &present;
	ask.count = 1;
	ask.now = 1000 * HOUR + MINUTE / 2;
	ask.max_price = 101;
	cr_expect(isnan(espl_predictor_ask(p, &ask)));
	espl_predictor_close(p);
}

Test(interrupt, the_plain_kinds)
{
	struct espl_price prices[] = { { 0, 100 }, { HOUR, 300 }, { 9 * HOUR, 100 } };
	struct espl_predictor_options options;
	struct espl_predictor *p = open_kind(ESPL_PREDICT_NEVER);
	struct espl_market_case ask = { prices, 3, 0, 1, 200, NAN, 0 };

	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	espl_predictor_close(p);
	p = open_kind(ESPL_PREDICT_ORACLE);
	cr_expect_eq(espl_predictor_ask(p, &ask), 1);
	ask.max_price = 300; /* not strictly above */
	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	ask.now = 8 * HOUR;
	cr_expect_eq(espl_predictor_ask(p, &ask), 0);
	ask.now = 8 * HOUR + 1;
	cr_expect(isnan(espl_predictor_ask(p, &ask)), "past the records");
	espl_predictor_close(p);
	espl_predictor_defaults(&options, ESPL_PREDICT_CONSTANT);
	options.rate = 0.25;
	cr_assert_eq(espl_predictor_open(&options, &p), ESPL_OK);
	cr_expect_eq(espl_predictor_ask(p, &ask), 0.25);
	espl_predictor_close(p);
	options.rate = 1.5;
	cr_expect_eq(espl_predictor_open(&options, &p), ESPL_E_CONFIG);
}

Test(interrupt, hazard_is_the_posterior)
{
	struct espl_predictor *p = open_kind(ESPL_PREDICT_HAZARD);
	struct espl_market_case ask = { NULL, 0, 0, 0, 0, NAN, 0 };

	/* prior: shape 1, 20 hours */
	cr_expect_float_eq(espl_predictor_ask(p, &ask), 1 - 20.0 / 21, 1e-12);
	ask.hazard_hour = 0; /* 0 interruptions in 150 hours */
	ask.hazard_hours = 150;
	cr_expect_float_eq(espl_predictor_ask(p, &ask), 1 - 170.0 / 171, 1e-12);
	ask.hazard_hour = 0.175;
	ask.hazard_hours = 1e6;
	cr_expect_float_eq(espl_predictor_ask(p, &ask), 1 - exp(-0.175), 1e-5);
	espl_predictor_close(p);
}

Test(interrupt, algorithm_2_from_records)
{
	struct espl_price prices[62];
	double dollars[61];

	for (uint32_t i = 0; i < 62; i++)
		prices[i] = (struct espl_price){ (i + 1) * MINUTE, 100000 + draw(1000) };
	for (uint32_t i = 0; i < 61; i++)
		dollars[i] = (double)prices[i].usd_hour / (double)ESPL_USD;
	cr_expect_float_eq(espl_alg2_at(prices, 62, 61 * MINUTE), espl_alg2_max_price(dollars, 61),
	    1e-12);
	cr_expect_gt(espl_alg2_at(prices, 62, 61 * MINUTE), dollars[60]);
	cr_expect(isnan(espl_alg2_at(prices, 62, 60 * MINUTE)));
}
