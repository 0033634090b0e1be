/* spottune_offers.c - the offers at the instant of a call: prices, maximum prices, risks, nodes. */
#include <stdlib.h>
#include <string.h>
#include "spottune.h"

#define HOUR (INT64_C(3600) * ESPL_SECOND)

void
spottune_offers_free(struct spottune *st)
{
	ESPL_ASSERT(st->magic == SPOTTUNE_MAGIC);
	for (uint32_t i = 0; i < st->offer_count; i++)
		espl_predictor_close(st->offers[i].predictor);
	free(st->offers);
	free(st->costs);
}

static espl_status
grow_offers(struct spottune *st, uint32_t count)
{
	struct spottune_offer *more;
	double *costs;

	if (count <= st->offer_count)
		return ESPL_OK;
	more = realloc(st->offers, count * sizeof *more);
	if (more == NULL)
		return ESPL_E_NOMEM;
	st->offers = more;
	costs = realloc(st->costs, count * sizeof *costs);
	if (costs == NULL)
		return ESPL_E_NOMEM;
	st->costs = costs;
	memset(more + st->offer_count, 0, (count - st->offer_count) * sizeof *more);
	for (uint32_t i = st->offer_count; i < count; i++)
		more[i].asked = INT64_MIN;
	st->offer_count = count;
	return ESPL_OK;
}

static double
mean_latency(const struct espl_latency *l)
{
	double sum = 0;

	if (l == NULL)
		return 0;
	if (l->kind != ESPL_EMPIRICAL || l->sample_count == 0)
		return l->mean_s;
	for (uint32_t i = 0; i < l->sample_count; i++)
		sum += l->samples_s[i];
	return sum / l->sample_count;
}

/* Records from `from` to now; count 0: none. */
static const struct espl_price *
past_prices(const struct spottune *st, uint32_t number, espl_time from, espl_time now,
    uint32_t *count)
{
	const struct espl_price *prices = NULL;

	*count = 0;
	if (st->market != NULL &&
	    st->market->history(st->market, number, from, now + 1, &prices, count) != ESPL_OK)
		*count = 0;
	return prices;
}

static espl_money
draw_margin(struct spottune *st, const struct espl_offer *offer)
{
	const struct spottune_options *o = &st->options;
	double margin = o->margin_min + (o->margin_max - o->margin_min) * espl_uniform(st->host);

	return (espl_money)llround(
	    margin * (o->margin_relative ? (double)offer->price_hour : (double)ESPL_USD));
}

/* The most to pay for a node leased now. */
static espl_money
choose_maximum(struct spottune *st, const struct espl_offer *offer, espl_time now)
{
	const struct espl_price *prices;
	uint32_t count;
	double usd;

	if ((offer->flags & ESPL_OFFER_MARKET) == 0)
		return 0;
	switch (st->options.max_price) {
	case SPOTTUNE_FIXED: return offer->fixed_price_hour;
	case SPOTTUNE_MARGIN: return offer->price_hour + draw_margin(st, offer);
	case SPOTTUNE_ALG2:
		prices = past_prices(st, offer->number, now - 2 * HOUR, now, &count);
		usd = count > 0 ? espl_alg2_at(prices, count, now) : NAN;
		return isnan(usd) ? offer->price_hour : (espl_money)llround(usd * (double)ESPL_USD);
	default: return 0;
	}
}

/* Interruptions an hour: of logs and of this run, with what is assumed where both say little. */
static double
find_rate(const struct spottune *st, const struct espl_offer *offer)
{
	const struct spottune_options *o = &st->options;
	struct espl_hazard h = ESPL_INIT(struct espl_hazard);

	if ((offer->flags & ESPL_OFFER_REVOCABLE) == 0)
		return 0;
	if (st->market == NULL || st->market->hazard(st->market, offer->number, &h) != ESPL_OK) {
		h.rate_hour = offer->hazard_hour;
		h.hours = isnan(offer->hazard_hour) ? 0 : offer->hazard_hours;
	}
	if (!isnan(offer->hazard_hour) && !(offer->hazard_hours > 0))
		return offer->hazard_hour; /* told as a fact */
	if (isnan(h.rate_hour))
		return o->prior_rate;
	return (o->prior_rate * o->prior_hours + h.rate_hour * h.hours) /
	    (o->prior_hours + h.hours);
}

/* Capacity: how often it was lost and came back, with what is assumed.  It is out while the offer
 * is hidden because it refused, or a machine that is wanted has not come. */
static void
find_capacity(const struct spottune *st, const struct espl_alloc_view *view,
    struct spottune_offer *to, const struct espl_offer *offer)
{
	const struct spottune_options *o = &st->options;
	struct espl_hazard h = ESPL_INIT(struct espl_hazard);
	int out = (offer->flags & ESPL_OFFER_GONE) != 0;

	if (to->out)
		to->out_s += espl_seconds(view->now - to->seen);
	to->seen = view->now;
	if (to->out && !out && to->live > 0) {
		to->backs++;
		to->out = 0;
	} else if (out) {
		to->out = 1;
	}
	to->back_h = (o->back_h * o->prior_hours + to->backs) / (o->prior_hours + to->out_s / 3600);
	to->lost_h = o->lost_h;
	if ((offer->flags & ESPL_OFFER_REVOCABLE) == 0)
		return;
	if (st->market != NULL && st->market->hazard(st->market, offer->number, &h) == ESPL_OK &&
	    !isnan(h.rate_hour))
		to->lost_h = (o->lost_h * o->prior_hours + h.rate_hour * h.hours) /
		    (o->prior_hours + h.hours);
	if (!isnan(offer->hazard_hour) && !(offer->hazard_hours > 0))
		to->lost_h = offer->hazard_hour; /* told as a fact */
}

/* The chance that counts in Eq. 2: only what is refunded makes a machine cheaper. */
static espl_status
find_risk(struct spottune *st, struct spottune_offer *to, const struct espl_offer *offer,
    espl_time now)
{
	struct espl_market_case ask = { .now = now, .max_price = to->most };
	espl_time from = now - st->options.predictor.window - 2 * HOUR;
	espl_status status = ESPL_OK;

	to->p = 0;
	if (!st->options.refund || offer->refund_before <= 0 ||
	    (offer->flags & ESPL_OFFER_REVOCABLE) == 0)
		return ESPL_OK;
	if (st->options.predictor.kind == ESPL_PREDICT_HAZARD) {
		to->p = -expm1(-to->rate_hour);
		return ESPL_OK;
	}
	if (to->predictor == NULL)
		status = espl_predictor_open(&st->options.predictor, &to->predictor);
	if (status != ESPL_OK)
		return status;
	ask.prices =
	    past_prices(st, offer->number, to->asked > from ? to->asked : from, now, &ask.count);
	to->asked = now;
	to->p = espl_predictor_ask(to->predictor, &ask);
	if (isnan(to->p))
		to->p = 0; /* nothing is known: no refund to count on */
	return ESPL_OK;
}

static void
count_nodes(struct spottune *st, const struct espl_alloc_view *view)
{
	for (uint32_t i = 0; i < view->node_count; i++) {
		const struct espl_node *n = view->nodes[i];
		struct spottune_offer *o = &st->offers[n->offer];

		if (n->state == ESPL_NODE_NOTICE)
			o->cool_until = view->now + st->cooldown;
		if ((n->flags & ESPL_NODE_RETIRING) != 0)
			continue;
		o->live++;
		o->spare += n->state == ESPL_NODE_READY && n->gpus_idle == n->gpu_count &&
		    (n->flags & ESPL_NODE_QUARANTINED) == 0;
	}
}

static void
see_spot(struct spottune *st, const struct espl_alloc_view *view)
{
	uint32_t i;

	for (i = 0; i < view->node_count; i++)
		if (view->nodes[i]->state == ESPL_NODE_READY &&
		    (view->offers[view->nodes[i]->offer]->flags & ESPL_OFFER_REVOCABLE) != 0)
			break;
	if (i < view->node_count)
		st->without = ESPL_NEVER;
	else if (st->without == ESPL_NEVER)
		st->without = view->now;
}

espl_status
spottune_look(struct spottune *st, const struct espl_alloc_view *view)
{
	espl_status status = grow_offers(st, view->offer_count);

	st->cooldown =
	    st->options.asks_again && spottune_may_wait(st, view) ? 0 : st->options.cooldown;
	for (uint32_t i = 0; i < view->offer_count && status == ESPL_OK; i++) {
		struct spottune_offer *to = &st->offers[i];
		const struct espl_offer *offer = view->offers[i];
		double mean = st->market != NULL
		    ? st->market->mean(st->market, i, view->now - HOUR, view->now)
		    : NAN;

		to->live = to->spare = to->want = to->waits = 0;
		to->price_hour =
		    (isnan(mean) ? (double)offer->price_hour : mean) / (double)ESPL_USD;
		to->most = choose_maximum(st, offer, view->now);
		to->rate_hour = find_rate(st, offer);
		to->boot_s = mean_latency(offer->provision) + mean_latency(offer->init);
		status = find_risk(st, to, offer, view->now);
	}
	if (status != ESPL_OK)
		return status;
	count_nodes(st, view);
	see_spot(st, view);
	for (uint32_t i = 0; i < view->offer_count; i++)
		find_capacity(st, view, &st->offers[i], view->offers[i]);
	return ESPL_OK;
}
