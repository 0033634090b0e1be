/* ledger.c - charges of leases, exact in 128-bit integers, rounded once per lease. */
#include <string.h>
#include "base/assert.h"
#include "base/mem.h"
#include "model/ledger.h"

__extension__ typedef __int128 wide;

#define NS_HOUR (INT64_C(3600) * ESPL_SECOND)

struct lease {
	uint32_t offer, gpus;
	espl_billing billing;
	espl_bill_start billed_from;
	espl_span step, minimum, refund_before;
	espl_money price; /* in force, micro-dollars per hour */
	espl_money data;  /* for what it downloads when it becomes ready */
	espl_time start;  /* of billing; NEVER before it */
	espl_time mark;   /* accrued up to here */
	wide accrued;     /* micro-dollars per hour times nanoseconds */
	espl_money final; /* once it is closed */
	uint64_t place;   /* in the list of open ones */
	int closed, ready;
};

#define ESPL__LEDGER_MAGIC 0x6a636261u
struct espl__ledger {
	struct espl__pool leases;
	uint32_t magic; /* ESPL__LEDGER_MAGIC */
	uint64_t *open; /* numbers of open leases, in no order */
	uint64_t open_count, open_cap;
	uint64_t closed_count;
	espl_money closed_total;
	struct espl__refunds refunds;
};

struct espl__ledger *
espl__ledger_new(void)
{
	struct espl__ledger *l = espl__alloc(sizeof *l);

	l->magic = ESPL__LEDGER_MAGIC;
	espl__pool_init(&l->leases, sizeof(struct lease));
	return l;
}

void
espl__ledger_free(struct espl__ledger *l)
{
	if (l == NULL)
		return;
	espl__pool_free(&l->leases);
	free(l->open);
	l->magic = 0;
	free(l);
}

static struct lease *
find_lease(const struct espl__ledger *l, uint64_t number)
{
	ESPL__ASSERT(number < l->leases.count);
	return espl__pool_at(&l->leases, number);
}

static int64_t
saturate_money(wide v)
{
	return v > INT64_MAX ? INT64_MAX : v < 0 ? 0 : (int64_t)v;
}

/* Charges up to `at` at the price in force. */
static void
accrue_charge(struct lease *e, espl_time at)
{
	if (e->start == ESPL_NEVER || e->billing == ESPL_BILL_FUNCTION || at <= e->mark)
		return;
	e->accrued += (wide)e->price * (at - e->mark);
	e->mark = at;
}

static void
begin_billing(struct lease *e, espl_time at)
{
	if (e->start != ESPL_NEVER)
		return;
	e->start = e->mark = at;
}

void
espl__ledger_open(struct espl__ledger *l, uint64_t number, const struct espl_offer *offer,
    double data_gb, espl_time requested)
{
	struct lease *e;

	ESPL__CHECK(l, LEDGER);
	ESPL__ASSERT(number == l->leases.count);
	e = espl__pool_add(&l->leases);
	*e = (struct lease){ .offer = offer->number,
		.gpus = offer->gpus > 0 ? offer->gpus : 1,
		.billing = offer->billing,
		.billed_from = offer->billed_from,
		.step = offer->billing_step > 0 ? offer->billing_step : 1,
		.minimum = offer->minimum_charge,
		.refund_before = offer->refund_before,
		.price = offer->price_hour,
		.start = ESPL_NEVER,
		.mark = ESPL_NEVER,
		.place = l->open_count };
	if (data_gb > 0 && offer->data_gb > 0) {
		double data = data_gb * (double)offer->data_gb + 0.5;

		e->data = data < 9e18 ? (espl_money)data : INT64_MAX;
	}
	ESPL__GROW(l->open, l->open_cap, l->open_count + 1);
	l->open[l->open_count++] = number;
	if (e->billed_from != ESPL_BILL_FROM_BOOT && e->billed_from != ESPL_BILL_FROM_READY)
		begin_billing(e, requested);
}

void
espl__ledger_state(struct espl__ledger *l, uint64_t number, espl_node_state state, espl_time at)
{
	struct lease *e = find_lease(l, number);

	if (e->closed)
		return;
	/* A cloud may skip states: ready implies booted. */
	if (state == ESPL_NODE_READY || state == ESPL_NODE_NOTICE) {
		begin_billing(e, at);
		e->ready = 1;
	} else if (state == ESPL_NODE_BOOTING && e->billed_from == ESPL_BILL_FROM_BOOT) {
		begin_billing(e, at);
	}
}

void
espl__ledger_price(struct espl__ledger *l, uint32_t offer, espl_time from, espl_money usd_hour)
{
	ESPL__CHECK(l, LEDGER);
	for (uint64_t i = 0; i < l->open_count; i++) {
		struct lease *e = find_lease(l, l->open[i]);

		if (e->offer != offer)
			continue;
		accrue_charge(e, from);
		e->price = usd_hour;
	}
}

void
espl__ledger_busy(struct espl__ledger *l, uint64_t number, int64_t gpu_ns)
{
	struct lease *e = find_lease(l, number);

	if (e->closed || e->billing != ESPL_BILL_FUNCTION || gpu_ns <= 0)
		return;
	e->accrued += (wide)e->price * gpu_ns;
}

static int
is_refunded(const struct lease *e, espl_time at, espl_reason reason)
{
	return reason == ESPL_BY_PROVIDER && e->refund_before > 0 && e->start != ESPL_NEVER &&
	    at - e->start < e->refund_before;
}

/* What the lease costs if it ends at `at` for this reason. */
static espl_money
charge_of_lease(const struct lease *e, espl_time at, espl_reason reason)
{
	wide accrued = e->accrued, per;
	int64_t length;
	int ours =
	    reason == ESPL_BY_USER || reason == ESPL__BY_GIVING_UP || reason == ESPL__BY_REFUSAL;

	if (e->closed)
		return e->final;
	if (e->start == ESPL_NEVER)
		return e->ready ? e->data : 0;
	length = at > e->start ? at - e->start : 0;
	if (is_refunded(e, at, reason) || reason == ESPL_BY_CAPACITY || reason == ESPL_BY_QUOTA)
		return 0;
	if (e->billing == ESPL_BILL_FUNCTION) {
		per = (wide)NS_HOUR * e->gpus;
	} else {
		wide billed = length;

		if (ours && billed < e->minimum)
			billed = e->minimum;
		if (billed + e->step <= INT64_MAX) /* as always; 128 bits divide slowly */
			billed = ((int64_t)billed + e->step - 1) / e->step * e->step;
		else
			billed = (billed + e->step - 1) / e->step * e->step;
		/* The part beyond what is accrued is charged at the price in force. */
		if ((wide)e->start + billed > e->mark)
			accrued += (wide)e->price * ((wide)e->start + billed - e->mark);
		per = NS_HOUR;
	}
	return saturate_money((accrued + per / 2) / per + (e->ready ? e->data : 0));
}

/* The closed total is the sum of the closed leases: looked at whole while they are few, later
 * at every 256th change, so that closing a lease stays cheap. */
static void
check_totals(const struct espl__ledger *l)
{
	espl_money sum = 0;

	if (l->closed_count > 256 && l->closed_count % 256 != 0)
		return;
	for (uint64_t i = 0; i < l->leases.count; i++) {
		const struct lease *e = find_lease(l, i);

		if (e->closed)
			sum += e->final;
	}
	ESPL__ASSERT(sum == l->closed_total);
	ESPL__ASSERT(l->open_count + l->closed_count == l->leases.count);
}

void
espl__ledger_close(struct espl__ledger *l, uint64_t number, espl_time at, espl_reason reason,
    espl_money provider_says)
{
	struct lease *e = find_lease(l, number);
	espl_money whole;
	uint64_t last;

	ESPL__CHECK(l, LEDGER);
	if (e->closed)
		return;
	accrue_charge(e, at);
	e->final = provider_says >= 0 ? provider_says : charge_of_lease(e, at, reason);
	whole = charge_of_lease(e, at, ESPL_BY_EXPIRY);
	/* The provider may have charged it all the same. */
	if (is_refunded(e, at, reason) && e->final < whole) {
		l->refunds.usd += whole - e->final;
		if (e->final == 0)
			l->refunds.gpu_s += (double)(at - e->start) / 1e9 * e->gpus;
	}
	e->closed = 1;
	last = l->open[--l->open_count];
	l->open[e->place] = last;
	find_lease(l, last)->place = e->place;
	l->closed_count++;
	l->closed_total += e->final;
	check_totals(l);
}

espl_money
espl__ledger_due(const struct espl__ledger *l, uint64_t number, espl_time at, espl_reason reason)
{
	return charge_of_lease(find_lease(l, number), at, reason);
}

espl_money
espl__ledger_lease(const struct espl__ledger *l, uint64_t number, espl_time now)
{
	return charge_of_lease(find_lease(l, number), now, ESPL_BY_USER);
}

espl_money
espl__ledger_total(const struct espl__ledger *l, espl_time now)
{
	espl_money sum = l->closed_total;

	ESPL__CHECK(l, LEDGER);
	for (uint64_t i = 0; i < l->open_count; i++)
		sum += charge_of_lease(find_lease(l, l->open[i]), now, ESPL_BY_USER);
	return sum;
}

double
espl__ledger_rate(const struct espl__ledger *l)
{
	double rate = 0.0;
	wide sum = 0;

	ESPL__CHECK(l, LEDGER);
	for (uint64_t i = 0; i < l->open_count; i++) {
		const struct lease *e = find_lease(l, l->open[i]);

		if (e->start != ESPL_NEVER && e->billing != ESPL_BILL_FUNCTION)
			sum += e->price;
	}
	rate = (double)sum / 3600.0;
	return rate;
}

espl_time
espl__ledger_billed_from(const struct espl__ledger *l, uint64_t number)
{
	return find_lease(l, number)->start;
}

struct espl__refunds
espl__ledger_refunds(const struct espl__ledger *l)
{
	ESPL__CHECK(l, LEDGER);
	return l->refunds;
}
