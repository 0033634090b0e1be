/* What the host knows of prices and revocations (model/market.h), and the ledger's segments. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "model/fleet.h"
#include "model/ledger.h"
#include "model/market.h"

struct bench {
	struct espl__fleet fleet;
	struct espl__market market;
	espl_time now;
};

static void
set_up(struct bench *b, double hazard_hour, double hazard_hours)
{
	struct espl_offer offer = ESPL_INIT(struct espl_offer);

	memset(b, 0, sizeof *b);
	espl__fleet_init(&b->fleet);
	espl__market_init(&b->market, &b->fleet, &b->now);
	offer.name = "a";
	offer.market = "spot";
	offer.gpus = 1;
	offer.price_hour = 500000;
	offer.hazard_hour = hazard_hour;
	offer.hazard_hours = hazard_hours;
	cr_assert_eq(espl__fleet_offer(&b->fleet, &offer), 0);
}

static void
tear_down(struct bench *b)
{
	espl__market_free(&b->market);
	espl__fleet_free(&b->fleet);
}

static int
record(struct bench *b, int64_t second, espl_money usd)
{
	struct espl_price p = { second * ESPL_SECOND, usd };

	return espl__market_price(&b->market, 0, &p);
}

static double
mean_of(struct bench *b, int64_t from, int64_t to)
{
	return b->market.pub.mean(&b->market.pub, 0, from * ESPL_SECOND, to * ESPL_SECOND);
}

Test(market, an_offer_without_records_has_its_price)
{
	struct bench b;
	const struct espl_price *p;
	uint32_t count;

	set_up(&b, NAN, 0);
	cr_expect_eq(mean_of(&b, -3600, 0), 500000);
	cr_expect(isnan(b.market.pub.mean(&b.market.pub, 7, 0, 1)));
	cr_expect_eq(b.market.pub.history(&b.market.pub, 0, 0, 1, &p, &count), ESPL_E_UNKNOWN);
	tear_down(&b);
}

Test(market, records_are_sorted_kept_once_and_seen_up_to_now)
{
	struct bench b;
	const struct espl_price *p;
	uint32_t count;

	set_up(&b, NAN, 0);
	cr_expect_eq(record(&b, -7200, 100), 1);
	cr_expect_eq(record(&b, 1800, 300), 1);
	cr_expect_eq(record(&b, 600, 200), 0, "a record of the past");
	cr_expect_eq(record(&b, 1800, 300), 0, "known already");
	cr_expect_eq(record(&b, 7200, 900), 1);
	b.now = 3600 * ESPL_SECOND;
	cr_assert_eq(b.market.pub.history(&b.market.pub, 0, 0, 9000 * ESPL_SECOND, &p, &count),
	    ESPL_OK);
	cr_expect_eq(count, 3, "the one in force at 0, and two more; not that of later");
	cr_expect(p[0].usd_hour == 100 && p[1].usd_hour == 200 && p[2].usd_hour == 300);
	cr_expect_float_eq(mean_of(&b, 0, 3600), (600 * 100 + 1200 * 200 + 1800 * 300) / 3600.0,
	    1e-9);
	cr_expect_float_eq(mean_of(&b, 0, 99999), mean_of(&b, 0, 3600), 0, "never beyond now");
	cr_expect_float_eq(mean_of(&b, -9999, -7000), 100, 0, "as far as it is known");
	cr_expect_eq(mean_of(&b, 700, 700), 200);
	cr_expect(isnan(mean_of(&b, -9999, -8000)));
	tear_down(&b);
}

Test(market, revocations_for_other_reasons_than_the_price_are_counted)
{
	struct bench b;
	struct espl_hazard h = ESPL_INIT(struct espl_hazard);
	struct espl__machine *n[3];

	set_up(&b, 0.1, 10);
	for (int i = 0; i < 3; i++) {
		n[i] = espl__machine_lease(&b.fleet, 0, 400000);
		espl__machine_state(&b.fleet, n[i], ESPL_NODE_READY, ESPL_ANY);
		n[i]->pub.ready_at = 0;
	}
	b.now = 5 * 3600 * ESPL_SECOND;
	b.fleet.offers[0]->price_hour = 300000;
	espl__market_ended(&b.market, n[0], ESPL_BY_PROVIDER);
	espl__machine_state(&b.fleet, n[0], ESPL_NODE_ENDED, ESPL_ANY);
	b.fleet.offers[0]->price_hour = 500000; /* above what was offered: that explains it */
	espl__market_ended(&b.market, n[1], ESPL_BY_PROVIDER);
	espl__machine_state(&b.fleet, n[1], ESPL_NODE_ENDED, ESPL_ANY);
	cr_assert_eq(b.market.pub.hazard(&b.market.pub, 0, &h), ESPL_OK);
	cr_expect_eq(h.observed, 1);
	cr_expect_float_eq(h.hours, 10 + 5 + 5 + 5, 1e-9);
	cr_expect_float_eq(h.rate_hour, (0.1 * 10 + 1) / 25, 1e-12);
	tear_down(&b);
}
