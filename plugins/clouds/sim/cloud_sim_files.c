/* cloud_sim_files.c - reads the price file and the log: which lines are of which offer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/array.h>
#include <espalier/util.h>
#include "cloud_sim_files.h"

static espl_status
refuse_line(struct cloud_sim_reading *r, const char *text)
{
	espl_status status;

	if (r->error != NULL && r->error->status == ESPL_OK)
		r->error->option = r->option;
	status =
	    espl_fail(r->error, ESPL_E_CONFIG, "%s: line %u: %s", r->what, r->reader.line, text);
	if (r->error != NULL && r->error->hint[0] == '\0')
		(void)snprintf(r->error->hint, sizeof r->error->hint, "%s", r->reader.hint);
	return status;
}

static int
belongs_to_offer(const struct cloud_sim_offer *sold, const struct espl_price_text *name)
{
	const struct espl_offer *o = &sold->offer;
	const struct espl_price_text *market = &name[ESPL_PRICE_MARKET];

	if (!espl_price_text_is(&name[ESPL_PRICE_OFFER], o->name))
		return 0;
	/* A trace without markets is one of varying prices: not of the fixed ones. */
	if (market->length > 0 ? !espl_price_text_is(market, o->market)
			       : strcmp(o->market, "on-demand") == 0 && sold->priced)
		return 0;
	return o->zone[0] == '\0' || name[ESPL_PRICE_ZONE].length == 0 ||
	    espl_price_text_is(&name[ESPL_PRICE_ZONE], o->zone);
}

/* The first text that is seen (or its beginning), or the same again. */
static int
is_same(char seen[64], const struct espl_price_text *text)
{
	size_t length = text->length < 63 ? text->length : 63;

	if (seen[0] == '\0')
		(void)snprintf(seen, 64, "%.*s", (int)length, text->at);
	return strlen(seen) == length && memcmp(seen, text->at, length) == 0;
}

/* An offer without a zone takes the records of one, and any offer those of one system: exports of
 * AWS list the prices of Windows and others beside those of Linux. */
static espl_status
check_names(struct cloud_sim_reading *r, struct cloud_sim_offer *sold,
    const struct espl_price_text name[ESPL_PRICE_NAMES])
{
	const struct espl_price_text *zone = &name[ESPL_PRICE_ZONE];
	const struct espl_price_text *product = &name[ESPL_PRICE_PRODUCT];
	char text[240];

	if (product->length > 0 && !is_same(sold->product_seen, product)) {
		(void)snprintf(text, sizeof text,
		    "offer '%.60s' has lines of '%.60s' and of '%.*s'", sold->offer.name,
		    sold->product_seen, (int)(product->length < 60 ? product->length : 60),
		    product->at);
		r->reader.hint = "keep the lines of one product_description";
		return refuse_line(r, text);
	}
	if (zone->length == 0 || sold->offer.zone[0] != '\0' || is_same(sold->zone_seen, zone))
		return ESPL_OK;
	(void)snprintf(text, sizeof text,
	    "offer '%.60s' has lines of several zones; give it one with zone = \"%.*s\"",
	    sold->offer.name, (int)(zone->length < 60 ? zone->length : 60), zone->at);
	return refuse_line(r, text);
}

/* Names that no line had before. */
static espl_status
add_series(struct cloud_sim_reading *r)
{
	const struct espl_price_text *name = r->reader.series[r->series_count].name;
	uint32_t room = r->belong_count + r->offers;
	struct cloud_sim_series *series, *to;
	uint32_t *belong = realloc(r->belong, (room > 0 ? room : 1) * sizeof *belong);
	espl_status status = ESPL_OK;

	if (belong == NULL)
		return ESPL_E_NOMEM;
	r->belong = belong;
	series = realloc(r->series, (r->series_count + (size_t)1) * sizeof *series);
	if (series == NULL)
		return ESPL_E_NOMEM;
	r->series = series;
	to = &series[r->series_count++];
	*to = (struct cloud_sim_series){ r->belong_count, 0 };
	for (uint32_t i = 0; i < r->offers && status == ESPL_OK; i++)
		if (belongs_to_offer(&r->list[i], name)) {
			belong[r->belong_count++] = i;
			to->count++;
			status = check_names(r, &r->list[i], name);
		}
	return status;
}

static espl_status
keep_price(struct cloud_sim_offer *sold, const struct espl_price *record)
{
	struct espl_price *more =
	    espl_array_grow(sold->prices, &sold->price_cap, sold->price_count + 1, sizeof *more);

	if (more == NULL)
		return ESPL_E_NOMEM;
	sold->prices = more;
	sold->prices[sold->price_count++] = *record;
	return ESPL_OK;
}

static espl_status
keep_seen(struct cloud_sim_reading *r, struct cloud_sim_offer *sold,
    const struct cloud_sim_seen *seen)
{
	struct cloud_sim_seen *more;

	if (sold->seen_count > 0 && seen->at < sold->seen[sold->seen_count - 1].at) {
		r->reader.hint = "sort the file by time";
		return refuse_line(r, "the time of its offer goes back");
	}
	more = espl_array_grow(sold->seen, &sold->seen_cap, sold->seen_count + 1, sizeof *more);
	if (more == NULL)
		return ESPL_E_NOMEM;
	sold->seen = more;
	sold->seen[sold->seen_count++] = *seen;
	return ESPL_OK;
}

/* One line; ESPL_E_UNKNOWN: the end. */
static espl_status
read_one(struct cloud_sim_reading *r)
{
	struct espl_price price = { 0, 0 };
	struct cloud_sim_seen seen = { 0, 0, 0 };
	const struct cloud_sim_series *s;
	uint32_t series;
	espl_status status;

	if (r->reader.log)
		status = espl_interruptions_next(&r->reader, &series, &seen.at, &seen.nodes,
		    &seen.interrupted);
	else
		status = espl_price_reader_next(&r->reader, &series, &price);
	if (status == ESPL_E_CONFIG)
		return refuse_line(r, r->reader.why);
	if (status == ESPL_OK && series == r->series_count)
		status = add_series(r);
	if (status != ESPL_OK)
		return status;
	s = &r->series[series];
	if (s->count == 0)
		return ESPL_OK;
	price.from = r->reader.log ? seen.at : price.from;
	if (!r->used || price.from < r->first)
		r->first = price.from;
	if (!r->used || price.from > r->last)
		r->last = price.from;
	r->used = 1;
	for (uint32_t i = s->first; i < s->first + s->count && status == ESPL_OK; i++) {
		struct cloud_sim_offer *sold = &r->list[r->belong[i]];

		status = r->reader.log ? keep_seen(r, sold, &seen) : keep_price(sold, &price);
	}
	return status;
}

espl_status
cloud_sim_read(struct cloud_sim_reading *r, const void *bytes, uint64_t size, uint32_t log)
{
	espl_status status = log ? espl_interruptions_open(&r->reader, bytes, size)
				 : espl_price_reader_open(&r->reader, bytes, size);

	if (status != ESPL_OK)
		(void)refuse_line(r, r->reader.why);
	while (status == ESPL_OK)
		status = read_one(r);
	return status == ESPL_E_UNKNOWN ? ESPL_OK : status;
}

void
cloud_sim_read_end(struct cloud_sim_reading *r)
{
	espl_price_reader_close(&r->reader);
	free(r->series);
	free(r->belong);
}

espl_time
cloud_sim_first_price(const struct cloud_sim_offer *sold)
{
	espl_time first = ESPL_NEVER;

	for (uint32_t i = 0; i < sold->price_count; i++)
		first = sold->prices[i].from < first ? sold->prices[i].from : first;
	return first;
}

espl_time
cloud_sim_all_priced(const struct cloud_sim_offer *list, uint32_t count)
{
	espl_time all = 0, first = ESPL_NEVER;

	for (uint32_t i = 0; i < count; i++) {
		espl_time own = cloud_sim_first_price(&list[i]);

		first = own < first ? own : first;
		if (!list[i].priced && own != ESPL_NEVER && own > all)
			all = own;
	}
	return all > 0 || first == ESPL_NEVER ? all : first;
}

void
cloud_sim_sum_log(const struct cloud_sim_offer *sold, double *rate_hour, double *hours)
{
	double interrupted = 0;

	*hours = 0;
	for (uint32_t i = 0; i < sold->seen_count && sold->seen[i].at <= 0; i++) {
		const struct cloud_sim_seen *s = &sold->seen[i];

		interrupted += i > 0 ? s->interrupted : 0;
		*hours += i > 0 ? s->nodes * espl_seconds(s->at - s[-1].at) / 3600 : 0;
	}
	*rate_hour = *hours > 0 ? interrupted / *hours : NAN;
}

/* The rest of it interrupts nodes. */
static espl_status
cut_log(struct cloud_sim_offer *sold)
{
	sold->log = calloc(sold->seen_count > 0 ? sold->seen_count : 1, sizeof *sold->log);
	if (sold->log == NULL)
		return ESPL_E_NOMEM;
	for (uint32_t i = 0; i < sold->seen_count; i++) {
		const struct cloud_sim_seen *s = &sold->seen[i];

		if (s->at > 0 && s->interrupted > 0)
			sold->log[sold->log_count++] =
			    (struct espl_interruption){ s->at, s->interrupted / s->nodes };
	}
	return ESPL_OK;
}

espl_status
cloud_sim_begin_at(struct cloud_sim_offer *list, uint32_t count, espl_time zero)
{
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < count && status == ESPL_OK; i++) {
		for (uint32_t p = 0; p < list[i].price_count; p++)
			list[i].prices[p].from -= zero;
		for (uint32_t p = 0; p < list[i].seen_count; p++)
			list[i].seen[p].at -= zero;
		if (list[i].price_count > 0)
			list[i].offer.flags |= ESPL_OFFER_MARKET;
		status = cut_log(&list[i]);
	}
	return status;
}
