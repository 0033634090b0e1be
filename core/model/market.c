/* market.c - see market.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/assert.h"
#include "base/mem.h"
#include "model/market.h"

static struct espl__market_offer *
find_offer(struct espl__market *m, uint32_t offer)
{
	ESPL__CHECK(m, MARKET);
	ESPL__ASSERT(offer < m->fleet->offer_count);
	if (offer >= m->count) {
		ESPL__GROW(m->offers, m->cap, offer + 1);
		memset(m->offers + m->count, 0, (offer + 1 - m->count) * sizeof *m->offers);
		m->count = offer + 1;
	}
	return &m->offers[offer];
}

/* Records that began at this instant or before. */
static uint32_t
count_until(const struct espl__market_offer *o, espl_time at)
{
	uint32_t low = 0, high = o->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (o->prices[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int
espl__market_price(struct espl__market *m, uint32_t offer, const struct espl_price *price)
{
	struct espl__market_offer *o = find_offer(m, offer);
	uint32_t at = count_until(o, price->from);

	if (at > 0 && o->prices[at - 1].from == price->from) {
		int changed = o->prices[at - 1].usd_hour != price->usd_hour;

		o->prices[at - 1] = *price;
		return changed && at == o->count;
	}
	ESPL__GROW(o->prices, o->cap, o->count + 1);
	memmove(o->prices + at + 1, o->prices + at, (o->count - at) * sizeof *o->prices);
	o->prices[at] = *price;
	return at == o->count++;
}

void
espl__market_watch(struct espl__market *m, uint32_t offer, uint32_t on)
{
	find_offer(m, offer)->watched = on != 0;
}

int
espl__market_watched(const struct espl__market *m, uint32_t offer)
{
	return offer < m->count && m->offers[offer].watched;
}

static double
hours_ready(const struct espl__market *m, const struct espl_node *n)
{
	return n->state >= ESPL_NODE_READY && n->ready_at <= *m->now
	    ? (double)(*m->now - n->ready_at) / 3.6e12
	    : 0;
}

void
espl__market_ended(struct espl__market *m, const struct espl__machine *n, espl_reason reason)
{
	struct espl__market_offer *o = find_offer(m, n->pub.offer);
	espl_money most = n->pub.max_price_hour;

	o->hours += hours_ready(m, &n->pub);
	o->observed += reason == ESPL_BY_PROVIDER &&
	    !(most > 0 && m->fleet->offers[n->pub.offer]->price_hour > most);
}

/* ---- the service's entries ---------------------------------------------------------------- */

static espl_status
history(const struct espl_market *pub, uint32_t offer, espl_time from, espl_time to,
    const struct espl_price **prices, uint32_t *count)
{
	const struct espl__market *m = pub->ctx;
	const struct espl__market_offer *o = offer < m->count ? &m->offers[offer] : NULL;
	uint32_t first, last;

	if (o == NULL)
		return ESPL_E_UNKNOWN;
	first = count_until(o, from);
	first -= first > 0; /* the one in force then */
	last = count_until(o, to > *m->now ? *m->now : to - 1);
	if (last <= first)
		return ESPL_E_UNKNOWN;
	*prices = o->prices + first;
	*count = last - first;
	return ESPL_OK;
}

static double
mean(const struct espl_market *pub, uint32_t offer, espl_time from, espl_time to)
{
	const struct espl__market *m = pub->ctx;
	const struct espl_price *p;
	uint32_t count;
	double sum = 0;

	if (offer >= m->fleet->offer_count)
		return NAN;
	if (offer >= m->count || m->offers[offer].count == 0)
		return (double)m->fleet->offers[offer]->price_hour;
	if (to > *m->now)
		to = *m->now;
	if (history(pub, offer, from, to > from ? to : from + 1, &p, &count) != ESPL_OK)
		return NAN;
	if (from < p[0].from)
		from = p[0].from;
	if (to <= from)
		return (double)p[0].usd_hour;
	for (uint32_t i = 0; i < count; i++) {
		espl_time begin = p[i].from > from ? p[i].from : from;
		espl_time end = i + 1 < count && p[i + 1].from < to ? p[i + 1].from : to;

		sum += (double)p[i].usd_hour * (double)(end - begin);
	}
	return sum / (double)(to - from);
}

static espl_status
hazard(const struct espl_market *pub, uint32_t offer, struct espl_hazard *out)
{
	const struct espl__market *m = pub->ctx;
	const struct espl_offer *sold;
	double events;

	if (offer >= m->fleet->offer_count)
		return ESPL_E_UNKNOWN;
	sold = m->fleet->offers[offer];
	out->hours = isnan(sold->hazard_hour) ? 0 : sold->hazard_hours;
	events = out->hours > 0 ? sold->hazard_hour * out->hours : 0;
	out->observed = offer < m->count ? m->offers[offer].observed : 0;
	out->hours += offer < m->count ? m->offers[offer].hours : 0;
	for (uint32_t i = 0; i < m->fleet->live_count; i++)
		if (m->fleet->live[i]->offer == offer)
			out->hours += hours_ready(m, m->fleet->live[i]);
	out->rate_hour = out->hours > 0 ? (events + (double)out->observed) / out->hours : NAN;
	if (!isnan(sold->hazard_hour) &&
	    !(sold->hazard_hours > 0)) /* taken as given, without evidence */
		out->rate_hour = sold->hazard_hour;
	return ESPL_OK;
}

void
espl__market_init(struct espl__market *m, const struct espl__fleet *fleet, const espl_time *now)
{
	*m = (struct espl__market){ .magic = ESPL__MARKET_MAGIC, .fleet = fleet, .now = now };
	m->pub = (struct espl_market){ .size = (uint32_t)sizeof m->pub,
		.ctx = m,
		.history = history,
		.mean = mean,
		.hazard = hazard };
}

void
espl__market_free(struct espl__market *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		free(m->offers[i].prices);
	free(m->offers);
}
