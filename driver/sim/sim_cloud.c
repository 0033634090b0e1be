/* sim_cloud.c - the offers of the configured cloud, requested once by `describe`, and its price
 * trace. */
#include <math.h>
#include <string.h>
#include "base/assert.h"
#include "plugin/instance.h"
#include "sim/sim_impl.h"

static struct espl__sim_offer *
find_offer(struct espl__sim *sim, const char *name, const char *market)
{
	for (uint32_t i = 0; i < sim->offer_count; i++)
		if (strcmp(sim->offers[i].terms.name, name) == 0 &&
		    strcmp(sim->offers[i].terms.market, market) == 0)
			return &sim->offers[i];
	return NULL;
}

static const char *
copy_text(struct espl__sim *sim, const char *text)
{
	return text != NULL ? espl__arena_strdup(&sim->arena, text) : "";
}

static const struct espl_latency *
copy_latency(struct espl__sim *sim, const struct espl_latency *from)
{
	struct espl_latency *to = espl__arena_alloc(&sim->arena, sizeof *to);
	double *samples;

	to->kind = ESPL_CONSTANT;
	if (from != NULL)
		memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
	to->size = (uint32_t)sizeof *to;
	if (to->sample_count > 0) {
		samples = espl__arena_alloc(&sim->arena, to->sample_count * sizeof *samples);
		memcpy(samples, to->samples_s, to->sample_count * sizeof *samples);
		to->samples_s = samples;
	} else {
		to->samples_s = NULL;
	}
	return to;
}

static espl_status
on_offer(const struct espl_cloud_events *events, const struct espl_offer *from)
{
	struct espl__sim *sim = events->ctx;
	struct espl_offer terms = { .market = "on-demand",
		.nodes_max = ESPL_ANY,
		.hazard_hour = NAN };
	struct espl__sim_offer *offer;

	memcpy(&terms, from, from->size < sizeof terms ? from->size : sizeof terms);
	terms.size = (uint32_t)sizeof terms;
	if (terms.market == NULL)
		terms.market = "on-demand";
	if (terms.name == NULL || terms.name[0] == '\0' || terms.gpus == 0 || terms.price_hour < 0)
		return ESPL_E_REJECTED;
	offer = find_offer(sim, terms.name, terms.market);
	if (offer == NULL) {
		if (terms.flags & ESPL_OFFER_GONE)
			return ESPL_OK;
		ESPL__GROW(sim->offers, sim->offer_cap, sim->offer_count + 1);
		offer = &sim->offers[sim->offer_count];
		memset(offer, 0, sizeof *offer);
		offer->first = ESPL_NONE;
		offer->supply.machines = ESPL_ANY;
		offer->supply_at = ESPL_NEVER;
		terms.number = sim->offer_count++;
	} else {
		terms.number = offer->terms.number;
	}
	terms.name = copy_text(sim, terms.name);
	terms.market = copy_text(sim, terms.market);
	terms.gpu_type = copy_text(sim, terms.gpu_type);
	terms.zone = copy_text(sim, terms.zone);
	terms.provision = copy_latency(sim, terms.provision);
	terms.init = copy_latency(sim, terms.init);
	offer->terms = terms;
	offer->hazard_hour = terms.hazard_hour;
	return ESPL_OK;
}

static espl_status
on_interruptions(const struct espl_cloud_events *events, const char *name, const char *market,
    double rate_hour, const struct espl_interruption *log, uint32_t count)
{
	struct espl__sim *sim = events->ctx;
	struct espl__sim_offer *offer = find_offer(sim, name, market);

	if (offer == NULL)
		return ESPL_E_UNKNOWN;
	for (uint32_t i = 0; i < count; i++)
		if (!(log[i].share >= 0 && log[i].share <= 1) ||
		    (i > 0 && log[i].at < log[i - 1].at))
			return ESPL_E_REJECTED;
	offer->hazard_hour = rate_hour;
	offer->log = espl__arena_alloc(&sim->arena, (count + (size_t)1) * sizeof *log);
	if (count > 0)
		memcpy(offer->log, log, count * sizeof *log);
	offer->log_count = count;
	return ESPL_OK;
}

static espl_status
on_supply(const struct espl_cloud_events *events, const char *name, const char *market,
    const struct espl_supply *supply)
{
	struct espl__sim *sim = events->ctx;
	struct espl__sim_offer *offer = find_offer(sim, name, market);

	if (offer == NULL)
		return ESPL_E_UNKNOWN;
	if (supply->machines == ESPL_ANY || supply->wait < 0 || !(supply->taken_s >= 0) ||
	    (supply->taken_s > 0 && !(supply->free_s > 0)))
		return ESPL_E_REJECTED;
	memcpy(&offer->supply, supply,
	    supply->size < sizeof offer->supply ? supply->size : sizeof offer->supply);
	return ESPL_OK;
}

static espl_status
on_prices(const struct espl_cloud_events *events, const char *name, const char *market,
    const struct espl_price *prices, uint32_t count)
{
	struct espl__sim *sim = events->ctx;
	struct espl__sim_offer *offer = find_offer(sim, name, market);

	if (offer == NULL)
		return ESPL_E_UNKNOWN;
	for (uint32_t i = 0; i < count; i++)
		if (prices[i].usd_hour < 0)
			return ESPL_E_REJECTED;
	ESPL__GROW(offer->prices, offer->price_cap, offer->price_count + count);
	if (count > 0)
		memcpy(offer->prices + offer->price_count, prices, count * sizeof *prices);
	offer->price_count += count;
	return ESPL_OK;
}

static espl_status
on_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	(void)events;
	(void)event;
	return ESPL_E_REJECTED; /* describe knows of no machines */
}

static void
on_done(const struct espl_cloud_events *events, uint64_t what, espl_status status, const char *text)
{
	(void)events;
	(void)what;
	(void)status;
	(void)text;
}

/* By time, with stable merges; of two records of one instant the later one counts. */
static void
sort_prices(struct espl__sim_offer *offer)
{
	struct espl_price *p = offer->prices;
	uint64_t n = offer->price_count, width;
	uint32_t kept = 0;
	struct espl_price *other = espl__realloc(NULL, n, sizeof *other);
	struct espl_price *from = p, *to = other, *swap;
	int sorted = 1;

	for (uint64_t i = 1; i < n && sorted; i++)
		sorted = p[i - 1].from <= p[i].from;
	for (width = sorted ? n : 1; width < n; width *= 2) { /* merges, stable */
		for (uint64_t low = 0; low < n; low += 2 * width) {
			uint64_t middle = n - low > width ? low + width : n;
			uint64_t high = n - low > 2 * width ? low + 2 * width : n;
			uint64_t a = low, b = middle;

			for (uint64_t i = low; i < high; i++)
				to[i] = b >= high || (a < middle && from[a].from <= from[b].from)
				    ? from[a++]
				    : from[b++];
		}
		swap = from;
		from = to;
		to = swap;
	}
	for (uint64_t i = 0; i < n; i++)
		if (i + 1 == n || from[i].from != from[i + 1].from)
			p[kept++] = from[i];
	offer->price_count = kept;
	free(other);
}

espl_status
espl__sim_describe(struct espl__sim *sim, struct espl__diag *diag)
{
	const struct espl_cloud_events events = { .size = (uint32_t)sizeof events,
		.ctx = sim,
		.offer = on_offer,
		.prices = on_prices,
		.node = on_node,
		.done = on_done,
		.interruptions = on_interruptions,
		.supply = on_supply };
	struct espl_error error = ESPL_INIT(struct espl_error);
	const struct espl__section *cloud = &sim->config->cloud;
	const struct espl_cloud_ops *ops;
	struct espl__instance *instance;
	espl_status status;

	ESPL__CHECK(sim, SIM);
	error.option = error.row = ESPL_ANY;
	status =
	    espl__instance_create(ESPL_CLOUD, cloud->use, cloud->group, &sim->env, &instance, diag);
	if (status != ESPL_OK)
		return status;
	ops = (const struct espl_cloud_ops *)(const void *)instance->ops;
	espl__instance_calls(instance, "describe");
	status = ESPL_HAS(struct espl_cloud_ops, ops, describe)
	    ? ops->describe(instance->self, &events, &error)
	    : ESPL_E_UNKNOWN;
	espl__calling_end();
	if (status == ESPL_E_UNKNOWN || (status == ESPL_OK && sim->offer_count == 0)) {
		const struct espl__node *group = cloud->group;

		status = espl__fail_at(diag, ESPL_E_CONFIG, group != NULL ? group->file : NULL,
		    group != NULL ? group->line : 0,
		    "cloud '%s' cannot list its offers without contacting the provider",
		    cloud->use);
		espl__hint(diag, "use a sim cloud: cloud = { use = \"sim\"; offers = ( ... ); };");
	} else if (status != ESPL_OK) {
		espl__values_blame(instance->values, &error, diag);
		status = espl__diag_plugin(diag, instance->who, status, &error);
	}
	espl__instance_destroy(instance);
	for (uint32_t i = 0; i < sim->offer_count && status == ESPL_OK; i++)
		if (sim->offers[i].price_count > 0)
			sort_prices(&sim->offers[i]);
	for (uint32_t i = 0; i < sim->offer_count && status == ESPL_OK; i++)
		espl__sim_supply_begin(sim, i);
	return status;
}

/* ---- prices as time goes by ---------------------------------------------------------- */

static void
report_price(struct espl__sim *sim, uint32_t offer)
{
	struct espl__sim_offer *o = &sim->offers[offer];
	struct espl__event *event = espl__sim_add_event(sim, ESPL__EV_PRICE);

	event->as.price.offer = offer;
	event->as.price.price = o->prices[o->next];
	o->terms.price_hour = o->prices[o->next].usd_hour;
	o->next++;
}

static void
wait_price(struct espl__sim *sim, uint32_t offer)
{
	const struct espl__sim_offer *o = &sim->offers[offer];

	if (o->next < o->price_count)
		espl__sim_heap_add(&sim->heap, o->prices[o->next].from, ESPL__DUE_PRICE, offer, 0);
}

static void
wait_log(struct espl__sim *sim, uint32_t offer)
{
	struct espl__sim_offer *o = &sim->offers[offer];

	while (o->log_next < o->log_count && o->log[o->log_next].at <= sim->now)
		o->log_next++;
	if (o->log_next < o->log_count)
		espl__sim_heap_add(&sim->heap, o->log[o->log_next].at, ESPL__DUE_LOG, offer, 0);
}

void
espl__sim_tell_offers(struct espl__sim *sim)
{
	ESPL__CHECK(sim, SIM);
	for (uint32_t i = 0; i < sim->offer_count; i++) {
		struct espl__sim_offer *o = &sim->offers[i];

		for (uint32_t p = 0; p < o->price_count && o->prices[p].from <= sim->now; p++)
			o->terms.price_hour = o->prices[p].usd_hour;
		espl__sim_add_event(sim, ESPL__EV_OFFER)->as.offer = &o->terms;
	}
	for (uint32_t i = 0; i < sim->offer_count; i++) {
		struct espl__sim_offer *o = &sim->offers[i];

		while (o->next < o->price_count && o->prices[o->next].from <= sim->now)
			report_price(sim, i);
		wait_price(sim, i);
		wait_log(sim, i);
	}
	espl__sim_add_event(sim, ESPL__EV_CLOUD)->as.cloud.text = "";
}

void
espl__sim_skip_prices(struct espl__sim *sim, espl_time now)
{
	ESPL__CHECK(sim, SIM);
	for (uint32_t i = 0; i < sim->offer_count; i++) {
		struct espl__sim_offer *o = &sim->offers[i];

		while (o->next < o->price_count && o->prices[o->next].from <= now)
			o->terms.price_hour = o->prices[o->next++].usd_hour;
		wait_price(sim, i);
		wait_log(sim, i);
	}
}

void
espl__sim_price_due(struct espl__sim *sim, uint64_t offer)
{
	uint32_t number = (uint32_t)offer;

	ESPL__CHECK(sim, SIM);
	ESPL__ASSERT(offer < sim->offer_count);
	report_price(sim, number);
	espl__sim_outbid(sim, number, sim->offers[number].terms.price_hour);
	wait_price(sim, number);
}

void
espl__sim_log_due(struct espl__sim *sim, uint64_t offer)
{
	const struct espl__sim_offer *o;

	ESPL__CHECK(sim, SIM);
	ESPL__ASSERT(offer < sim->offer_count);
	o = &sim->offers[offer];
	espl__sim_interrupt(sim, (uint32_t)offer, o->log_next, o->log[o->log_next].share);
	wait_log(sim, (uint32_t)offer);
}

void
espl__sim_cloud_free(struct espl__sim *sim)
{
	ESPL__CHECK(sim, SIM);
	for (uint32_t i = 0; i < sim->offer_count; i++) {
		free(sim->offers[i].prices);
		free(sim->offers[i].machines);
	}
	free(sim->offers);
	espl__arena_free(&sim->arena);
}
