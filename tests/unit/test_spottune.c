/* All golden cases of SpotTune, from the file that ESPALIER_SPOTTUNE_CASES names: one function for
 * each kind of case. */
#include <criterion/criterion.h>
#include "plugins/algorithms/spottune/extrapolate.h"
#include "plugins/allocators/spottune/interrupt.h"
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

	double most;

	cr_assert_geq(count, 61, "%s", name);
	for (size_t i = 0; i < count; i++)
		prices[i] = strtod(json_string_value(json_array_get(list, i)), NULL);
	most = espl_alg2_max_price(prices, (uint32_t)count);
	expect_close(name, most, number_at(out, "max_price"), tolerance);
	if (json_object_get(out, "kept_sum") != NULL) /* what is left of 59 changes */
		expect_close(name, (most - prices[count - 1]) * 0.6 * 59,
		    number_at(out, "kept_sum"), tolerance);
	free(prices);
}

/* Eq. 3, as printed and as it undoes the weights. */
static void
check_eq3(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	double raw = number_at(in, "p_hat"), share = number_at(in, "phi_plus");

	expect_close(name, espl_correct_weights(raw, share, ESPL_CORRECT_PAPER),
	    number_at(out, "printed"), tolerance);
	expect_close(name, espl_correct_weights(raw, share, ESPL_CORRECT_UNWEIGHT),
	    number_at(out, "unweighted"), tolerance);
	cr_expect_eq(espl_correct_weights(raw, share, ESPL_CORRECT_NONE), raw, "%s", name);
}

/* Eq. 2, and which type is chosen. */
static void
check_step_cost(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	const json_t *wanted = json_object_get(out, "step_cost");
	size_t count = json_array_size(wanted);
	double *cost = espl__alloc((count + 1) * sizeof *cost);

	cr_assert_gt(count, 0, "%s", name);
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

/* A learning curve, and EarlyCurve with the case's constants; points are to be freed. */
static struct espl_point *
read_curve(const json_t *in, uint32_t *count, struct espl_extrapolator *e)
{
	const json_t *list = json_object_get(in, "metric");
	double first = json_number_value(json_object_get(in, "first_step")); /* 0: not given */
	struct espl_point *points = espl__alloc((json_array_size(list) + 1) * sizeof *points);
	char text[200];

	cr_assert_null(espl_extrapolator_read(e, "earlycurve", text, sizeof text), "%s", text);
	e->xi = number_at(in, "xi");
	e->eps = number_at(in, "eps");
	*count = (uint32_t)json_array_size(list);
	for (uint32_t i = 0; i < *count; i++)
		points[i] = (struct espl_point){ i + (first > 0 ? first : 1),
			json_number_value(json_array_get(list, i)) };
	return points;
}

/* Eq. 7. */
static void
check_stages(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	const json_t *starts = json_object_get(out, "starts");
	struct espl_extrapolator e;
	uint32_t count, got[16];
	struct espl_point *points = read_curve(in, &count, &e);

	(void)tolerance;
	cr_assert_gt(json_array_size(starts), 0, "%s", name);
	cr_assert_eq(espl_curve_stages(&e, points, count, got, 16), json_array_size(starts), "%s",
	    name);
	for (uint32_t i = 0; i < json_array_size(starts); i++)
		cr_expect_eq(got[i], json_integer_value(json_array_get(starts, i)), "%s", name);
	free(points);
}

static void
check_earlycurve(const char *name, const json_t *in, const json_t *out, double tolerance)
{
	const char *transform = json_string_value(json_object_get(in, "transform"));
	struct espl_extrapolator e;
	uint32_t count;
	double got;
	struct espl_point *points = read_curve(in, &count, &e);

	cr_assert_not_null(transform, "%s", name);
	cr_assert(strcmp(transform, "none") == 0 || strcmp(transform, "1-x") == 0, "%s: %s", name,
	    transform);
	e.ceiling = strcmp(transform, "none") != 0;
	cr_expect_eq(espl_extrapolate(&e, points, count, number_at(in, "max_trial_steps"), &got),
	    ESPL_EXTRAPOLATED_FIT, "%s", name);
	expect_close(name, got, number_at(out, "prediction"), tolerance);
	free(points);
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
} kinds[] = {
	{ "alg2", check_alg2 },
	{ "eq3", check_eq3 },
	{ "step_cost", check_step_cost },
	{ "stages", check_stages },
	{ "earlycurve", check_earlycurve },
	{ "billing", check_billing },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

Test(spottune, golden)
{
	const char *path = getenv("ESPALIER_SPOTTUNE_CASES"), *top = getenv("abs_top_srcdir");
	uint32_t of[KINDS] = { 0 };
	char text[4096];
	json_t *all, *entry;
	size_t i, k;

	(void)snprintf(text, sizeof text, "%s/../shared/golden/spottune.json",
	    top != NULL ? top : ".");
	all = json_load_file(path != NULL ? path : text, 0, NULL);
	if (all == NULL && path == NULL)
		cr_skip("no golden cases: ESPALIER_SPOTTUNE_CASES is not set, and there is no %s",
		    text);
	cr_assert_not_null(all, "%s cannot be read", path);
	json_array_foreach (json_object_get(all, "cases"), i, entry) {
		const char *kind = json_string_value(json_object_get(entry, "kind"));
		const char *name = json_string_value(json_object_get(entry, "name"));

		cr_assert(kind != NULL && name != NULL, "case %zu has no kind or no name", i + 1);
		for (k = 0; k < KINDS && strcmp(kind, kinds[k].kind) != 0; k++)
			;
		cr_assert_lt(k, KINDS, "%s: '%s' is not a known kind", name, kind);
		kinds[k].check(name, json_object_get(entry, "input"),
		    json_object_get(entry, "expected"), number_at(entry, "tolerance_rel"));
		of[k]++;
	}
	for (k = 0; k < KINDS; k++)
		cr_expect_geq(of[k], 2, "only %u cases of %s", of[k], kinds[k].kind);
	cr_expect_geq(i, 14, "only %zu cases", i);
	json_decref(all);
}

Test(spottune, certain_interruptions_are_not_for_nothing)
{
	cr_expect_float_eq(spottune_step_cost(2, 1, 0.5), 0.01, 1e-12);
	cr_expect_eq(spottune_least((double[]){ NAN, 3, 2, 2 }, 4), 2);
	cr_expect_eq(spottune_least((double[]){ NAN }, 1), UINT32_MAX);
}
