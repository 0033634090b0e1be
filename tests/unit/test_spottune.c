/* Golden cases of SpotTune, from the file that ESPALIER_SPOTTUNE_CASES names: one function for each
 * kind of case. */
#include <criterion/criterion.h>
#include <espalier/kit/interrupt.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "model/ledger.h"
#include "spottune_cost.h"

static double
number_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	cr_assert(json_is_number(value), "no number '%s'", key);
	return json_number_value(value);
}

static void
expect_close(const char *name, double got, double wanted, double tolerance)
{
	cr_expect(fabs(got - wanted) <= tolerance * fabs(wanted), "%s: %.15g, not %.15g", name, got,
	    wanted);
}

/* Algorithm 2: prices are texts, so that they are exact. */
static void
check_alg2(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	const json_t *list = json_object_get(in, "prices");
	size_t count = json_array_size(list);
	double *prices = espl__alloc((count + 1) * sizeof *prices);

	for (size_t i = 0; i < count; i++)
		prices[i] = strtod(json_string_value(json_array_get(list, i)), NULL);
	expect_close(name, espl_alg2_max_price(prices, (uint32_t)count),
	    number_at(out, "max_price"), tolerance);
	free(prices);
}

/* Eq. 2, and which type is chosen. */
static void
check_step_cost(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	const json_t *wanted = json_object_get(out, "step_cost");
	size_t count = json_array_size(wanted);
	double *cost = espl__alloc((count + 1) * sizeof *cost);

	for (size_t i = 0; i < count; i++) {
		cost[i] =
		    spottune_step_cost(json_number_value(
					   json_array_get(json_object_get(in, "seconds_per_step"),
					       i)),
			json_number_value(json_array_get(json_object_get(in, "p"), i)),
			json_number_value(json_array_get(json_object_get(in, "avg_price"), i)));
		expect_close(name, cost[i], json_number_value(json_array_get(wanted, i)),
		    tolerance);
	}
	cr_expect_eq(spottune_least(cost, (uint32_t)count), (uint32_t)number_at(out, "choice"),
	    "%s", name);
	free(cost);
}

static espl_time
instant(double seconds)
{
	return (espl_time)llround(seconds * 1e9);
}

/* The ledger, told of prices as they come, up to the end of the lease and of its minimum. */
static void
check_billing(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	const json_t *events = json_object_get(in, "price_events");
	espl_time launch = instant(number_at(in, "launch")), end = instant(number_at(in, "end"));
	struct espl__ledger *ledger = espl__ledger_new();
	struct espl_offer offer = ESPL_INIT(struct espl_offer);
	int opened = 0;

	offer.billing = ESPL_BILL_NODE;
	offer.billed_from = ESPL_BILL_FROM_REQUEST;
	offer.minimum_charge = instant(number_at(in, "minimum_s"));
	if (json_is_true(json_object_get(in, "refund_first_hour")))
		offer.refund_before = 3600 * ESPL_SECOND;
	for (size_t i = 0; i <= json_array_size(events); i++) {
		const json_t *e = json_array_get(events, i);
		espl_time from =
		    e != NULL ? instant(json_number_value(json_array_get(e, 0))) : ESPL_NEVER;

		if (!opened && from > launch) {
			espl__ledger_open(ledger, 0, &offer, 0, launch);
			opened = 1;
		}
		if (from > end)
			break;
		/* in 1e-15 dollars, so that rounding a lease does not matter */
		offer.price_hour =
		    (espl_money)llround(json_number_value(json_array_get(e, 1)) * 1e15);
		if (opened)
			espl__ledger_price(ledger, 0, from, offer.price_hour);
	}
	espl__ledger_close(ledger, 0, end,
	    json_is_true(json_object_get(in, "revoked")) ? ESPL_BY_PROVIDER : ESPL_BY_USER, -1);
	expect_close(name, (double)espl__ledger_total(ledger, end) / 1e15, number_at(out, "cost"),
	    tolerance);
	espl__ledger_free(ledger);
}

static const struct {
	const char *kind;
	void (*check)(const char *name, const json_t *in, const json_t *out, double tolerance);
	uint32_t least; /* cases of it that the file has */
} kinds[] = {
	{ "alg2", check_alg2, 2 },
	{ "step_cost", check_step_cost, 3 },
	{ "billing", check_billing, 3 },
};

Test(spottune, golden)
{
	const char *path = getenv("ESPALIER_SPOTTUNE_CASES"), *top = getenv("abs_top_srcdir");
	char text[4096];
	json_t *all;

	(void)snprintf(text, sizeof text, "%s/../shared/golden/spottune.json",
	    top != NULL ? top : ".");
	all = json_load_file(path != NULL ? path : text, 0, NULL);
	if (all == NULL && path == NULL)
		cr_skip("no golden cases: ESPALIER_SPOTTUNE_CASES is not set, and there is no %s",
		    text);
	cr_assert_not_null(all, "%s cannot be read", path);
	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		uint32_t count = 0;
		json_t *entry;
		size_t i;

		json_array_foreach (json_object_get(all, "cases"), i, entry) {
			if (strcmp(json_string_value(json_object_get(entry, "kind")),
				kinds[k].kind) != 0)
				continue;
			kinds[k].check(json_string_value(json_object_get(entry, "name")),
			    json_object_get(entry, "input"), json_object_get(entry, "expected"),
			    number_at(entry, "tolerance_rel"));
			count++;
		}
		cr_expect_geq(count, kinds[k].least, "only %u cases of %s", count, kinds[k].kind);
	}
	json_decref(all);
}

Test(spottune, certain_interruptions_are_not_for_nothing)
{
	cr_expect_float_eq(spottune_step_cost(2, 1, 0.5), 0.01, 1e-12);
	cr_expect_eq(spottune_least((double[]){ NAN, 3, 2, 2 }, 4), 2);
	cr_expect_eq(spottune_least((double[]){ NAN }, 1), UINT32_MAX);
}
