/* cloud_sim_prices.h - the sim cloud's price file (docs/simulation.md): which records are of which
 * offer.
 *
 * Part of cloud_sim.c: a plugin has one global symbol, so all here is static.
 */
#ifndef CLOUD_SIM_PRICES_H
#define CLOUD_SIM_PRICES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/cloud.h>
#include <espalier/util.h>
#include <espalier/kit/prices.h>

struct cloud_sim_offer {
	struct espl_offer offer;
	struct espl_price *prices; /* malloc'ed, relative to the run's start */
	uint32_t price_count, price_cap;
	int priced; /* the configuration has a price */
	int zoned;  /* zone_seen is that of a record */
	struct espl_price_text zone_seen;
};

/* The offers that a series of the file belongs to. */
struct cloud_sim_series {
	uint32_t first, count; /* in `belong` */
};
struct cloud_sim_reading {
	struct espl_price_reader reader;
	struct cloud_sim_offer *list;
	uint32_t offers;
	struct cloud_sim_series *series; /* [series_count], as the reader's */
	uint32_t series_count;
	uint32_t *belong; /* numbers of offers */
	uint32_t belong_count;
	int used; /* a record belonged to an offer */
	espl_time first;
	uint32_t option; /* to blame */
	struct espl_error *error;
};

static espl_status
refuse_line(struct cloud_sim_reading *r, const char *text)
{
	espl_status status;

	if (r->error != NULL && r->error->status == ESPL_OK)
		r->error->option = r->option;
	status = espl_fail(r->error, ESPL_E_CONFIG, "prices: line %u: %s", r->reader.line, text);
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

/* An offer without a zone takes the records of one. */
static espl_status
check_zone(struct cloud_sim_reading *r, struct cloud_sim_offer *sold,
    const struct espl_price_text *zone)
{
	char text[200];

	if (zone->length == 0 || sold->offer.zone[0] != '\0')
		return ESPL_OK;
	if (!sold->zoned) {
		sold->zone_seen = *zone;
		sold->zoned = 1;
	}
	if (sold->zone_seen.length == zone->length &&
	    memcmp(sold->zone_seen.at, zone->at, zone->length) == 0)
		return ESPL_OK;
	(void)snprintf(text, sizeof text,
	    "offer '%.60s' has prices of several zones; give it one with zone = \"%.*s\"",
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
			status = check_zone(r, &r->list[i], &name[ESPL_PRICE_ZONE]);
		}
	return status;
}

static espl_status
keep_record(struct cloud_sim_offer *sold, const struct espl_price *record)
{
	if (sold->price_count == sold->price_cap) {
		uint32_t cap = sold->price_cap > 0 ? sold->price_cap * 2 : 64;
		struct espl_price *more = realloc(sold->prices, cap * sizeof *more);

		if (more == NULL)
			return ESPL_E_NOMEM;
		sold->prices = more;
		sold->price_cap = cap;
	}
	sold->prices[sold->price_count++] = *record;
	return ESPL_OK;
}

static espl_status
read_records(struct cloud_sim_reading *r)
{
	struct espl_price record;
	espl_status status;
	uint32_t series;

	while ((status = espl_price_reader_next(&r->reader, &series, &record)) == ESPL_OK) {
		const struct cloud_sim_series *s;

		if (series == r->series_count)
			status = add_series(r);
		if (status != ESPL_OK)
			return status;
		s = &r->series[series];
		if (s->count == 0)
			continue;
		if (!r->used || record.from < r->first)
			r->first = record.from;
		r->used = 1;
		for (uint32_t i = s->first; i < s->first + s->count && status == ESPL_OK; i++)
			status = keep_record(&r->list[r->belong[i]], &record);
		if (status != ESPL_OK)
			return status;
	}
	if (status == ESPL_E_CONFIG)
		return refuse_line(r, r->reader.why);
	return status == ESPL_E_UNKNOWN ? ESPL_OK : status;
}

/* The instant of the file at which the run begins. */
static espl_status
find_start(const struct cloud_sim_reading *r, const char *start, uint32_t option, espl_time *zero)
{
	int32_t calendar = r->reader.calendar, given;

	*zero = calendar == 1 ? r->first : 0;
	if (start == NULL)
		return ESPL_OK;
	if (espl_price_time(start, strlen(start), zero, &given) == 0 &&
	    (calendar < 0 || given == calendar))
		return ESPL_OK;
	return espl_blame(r->error, option,
	    calendar == 1 ? "start must be a date, like the times in the price file"
			  : "start must be in seconds, like the times in the price file");
}

/* Reads the CSV and gives its records to the offers they belong to.  `start`: the instant of the
 * file at which the run begins; NULL: not given.  Errors blame these options. */
static espl_status
cloud_sim_prices(struct cloud_sim_offer *list, uint32_t count, const void *bytes, uint64_t size,
    const char *start, uint32_t prices_option, uint32_t start_option, struct espl_error *error)
{
	struct cloud_sim_reading r = { .list = list,
		.offers = count,
		.option = prices_option,
		.error = error };
	espl_time zero = 0;
	espl_status status = espl_price_reader_open(&r.reader, bytes, size);

	if (status != ESPL_OK)
		(void)refuse_line(&r, r.reader.why);
	else
		status = read_records(&r);
	if (status == ESPL_OK)
		status = find_start(&r, start, start_option, &zero);
	espl_price_reader_close(&r.reader);
	free(r.series);
	free(r.belong);
	if (status != ESPL_OK)
		return status;
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t p = 0; p < list[i].price_count; p++)
			list[i].prices[p].from -= zero;
		if (list[i].price_count > 0)
			list[i].offer.flags |= ESPL_OFFER_MARKET;
	}
	return ESPL_OK;
}
#endif
