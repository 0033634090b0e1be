/* cloud_sim_prices.h - the sim cloud's price file: CSV with a header, a line a price change.
 *
 * Columns are found by name (docs/simulation.md), so the providers' own exports can be used as
 * they are.  Part of cloud_sim.c: a plugin has one global symbol, so all here is static.
 */
#ifndef CLOUD_SIM_PRICES_H
#define CLOUD_SIM_PRICES_H
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/cloud.h>
#include <espalier/util.h>

#define TIME_MAX 4e9 /* seconds: the difference of two times does not overflow */

struct cloud_sim_offer {
	struct espl_offer offer;
	struct espl_price *prices; /* malloc'ed, relative to the run's start */
	uint32_t price_count, price_cap;
	int priced;            /* the configuration told a price */
	const char *zone_seen; /* of the price records; into the file's bytes */
	uint32_t zone_length;
	uint32_t name_length; /* of offer.name: a file may have millions of records */
};

enum {
	FIELD_OFFER = 0,
	FIELD_MARKET,
	FIELD_ZONE,
	FIELD_TIME,
	FIELD_PRICE,
	FIELD_COUNT,
	FIELD_OTHER
};
struct field {
	const char *at;
	uint32_t length;
};
struct csv {
	const char *at, *end;
	uint32_t line;
	uint32_t map[64], fields; /* field of each column */
	int calendar;             /* times are dates: -1 not yet known */
	int used;                 /* a record belonged to an offer */
	espl_time first;
	uint32_t option;
	struct espl_error *error;
};

static espl_status
bad_line(struct csv *csv, const char *text)
{
	if (csv->error != NULL && csv->error->status == ESPL_OK)
		csv->error->option = csv->option;
	return espl_fail(csv->error, ESPL_E_CONFIG, "prices: line %u: %s", csv->line, text);
}

/* Splits the next line that is not empty; 0 at the end.  Quotes are taken off, "" is not known. */
static uint32_t
next_line(struct csv *csv, struct field *fields, uint32_t room)
{
	while (csv->at < csv->end) {
		const char *stop = memchr(csv->at, '\n', (size_t)(csv->end - csv->at));
		const char *p = csv->at, *eol = stop != NULL ? stop : csv->end;
		uint32_t count = 0;

		csv->line++;
		csv->at = stop != NULL ? stop + 1 : csv->end;
		if (eol > p && eol[-1] == '\r')
			eol--;
		if (p == eol || *p == '#')
			continue;
		for (;;) {
			const char *comma = memchr(p, ',', (size_t)(eol - p)), *from = p;
			const char *to = comma != NULL ? comma : eol;

			while (from < to && (*from == ' ' || *from == '\t'))
				from++;
			while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
				to--;
			if (to - from >= 2 && *from == '"' && to[-1] == '"') {
				from++;
				to--;
			}
			if (count < room)
				fields[count] = (struct field){ from, (uint32_t)(to - from) };
			count++;
			if (comma == NULL)
				break;
			p = comma + 1;
		}
		return count;
	}
	return 0;
}

static int
equals_text(const struct field *field, const char *text)
{
	return field->length == strlen(text) && memcmp(field->at, text, field->length) == 0;
}

static espl_status
read_header(struct csv *csv)
{
	static const struct {
		const char *name;
		uint32_t field;
	} names[] = { { "offer", FIELD_OFFER }, { "name", FIELD_OFFER },
		{ "instance_type", FIELD_OFFER }, { "market", FIELD_MARKET },
		{ "zone", FIELD_ZONE }, { "availability_zone", FIELD_ZONE }, { "from", FIELD_TIME },
		{ "time", FIELD_TIME }, { "timestamp", FIELD_TIME }, { "price", FIELD_PRICE },
		{ "price_hour", FIELD_PRICE }, { "spot_price", FIELD_PRICE } };
	struct field fields[64];
	uint32_t seen[FIELD_COUNT] = { 0 };

	csv->fields = next_line(csv, fields, 64);
	if (csv->fields == 0)
		return bad_line(csv, "the file is empty");
	if (csv->fields > 64)
		return bad_line(csv, "more than 64 columns");
	for (uint32_t i = 0; i < csv->fields; i++) {
		csv->map[i] = FIELD_OTHER;
		for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
			if (equals_text(&fields[i], names[n].name))
				csv->map[i] = names[n].field;
		if (csv->map[i] < FIELD_COUNT && seen[csv->map[i]]++ > 0)
			return bad_line(csv, "two columns have the same meaning");
	}
	if (!seen[FIELD_OFFER])
		return bad_line(csv, "the header has no column 'offer' (or 'instance_type')");
	if (!seen[FIELD_TIME])
		return bad_line(csv, "the header has no column 'time' (or 'from', 'timestamp')");
	if (!seen[FIELD_PRICE])
		return bad_line(csv, "the header has no column 'price' (or 'spot_price')");
	return ESPL_OK;
}

static int
read_number(const struct field *field, double *value)
{
	char text[64], *end;

	if (field->length == 0 || field->length >= sizeof text ||
	    isspace((unsigned char)field->at[0]))
		return -1;
	memcpy(text, field->at, field->length);
	text[field->length] = '\0';
	*value = strtod(text, &end);
	return *end == '\0' && isfinite(*value) ? 0 : -1;
}

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar. */
static int64_t
days_since_epoch(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400,
		of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int
read_digits(const char **p, const char *end, int count, int64_t *value)
{
	*value = 0;
	for (int i = 0; i < count; i++, (*p)++) {
		if (*p >= end || !isdigit((unsigned char)**p))
			return -1;
		*value = *value * 10 + (**p - '0');
	}
	return 0;
}

/* "2020-03-01", "2020-03-01T12:30:00Z", "2020-03-01 12:30:00.5+01:00" -> UTC nanoseconds. */
static int
read_date(const struct field *field, espl_time *at)
{
	const char *p = field->at, *end = p + field->length;
	int64_t year, month, day, hour = 0, minute = 0, second = 0, fraction = 0, unit = 100000000,
				  zone = 0;

	if (read_digits(&p, end, 4, &year) || p == end || *p++ != '-' ||
	    read_digits(&p, end, 2, &month) || p == end || *p++ != '-' ||
	    read_digits(&p, end, 2, &day) || month < 1 || month > 12 || day < 1 || day > 31 ||
	    year < 1970 || year > 2200)
		return -1;
	if (p < end && (*p == 'T' || *p == ' ')) {
		p++;
		if (read_digits(&p, end, 2, &hour) || p == end || *p++ != ':' ||
		    read_digits(&p, end, 2, &minute))
			return -1;
		if (p < end && *p == ':') {
			p++;
			if (read_digits(&p, end, 2, &second))
				return -1;
		}
		if (p < end && *p == '.')
			for (p++; p < end && isdigit((unsigned char)*p); p++, unit /= 10)
				fraction += (*p - '0') * unit;
	}
	if (p < end && *p == 'Z') {
		p++;
	} else if (p < end && (*p == '+' || *p == '-')) {
		int64_t hours, minutes = 0, sign = *p++ == '+' ? 1 : -1;

		if (read_digits(&p, end, 2, &hours))
			return -1;
		if (p < end && *p == ':')
			p++;
		if (p < end && read_digits(&p, end, 2, &minutes))
			return -1;
		zone = sign * (hours * 3600 + minutes * 60);
	}
	if (p != end || hour > 24 || minute > 59 || second > 60)
		return -1;
	second += days_since_epoch(year, month, day) * 86400 + hour * 3600 + minute * 60 - zone;
	*at = second * ESPL_SECOND + fraction;
	return 0;
}

/* Seconds or a calendar time; *calendar says which. */
static int
read_time(const struct field *field, espl_time *at, int *calendar)
{
	double seconds;

	*calendar = 1;
	if (read_date(field, at) == 0)
		return 0;
	*calendar = 0;
	if (read_number(field, &seconds) != 0 || fabs(seconds) > TIME_MAX)
		return -1;
	*at = (espl_time)llround(seconds * 1e9);
	return 0;
}

static espl_status
keep_record(struct csv *csv, struct cloud_sim_offer *sold, const struct field *zone,
    const struct espl_price *record)
{
	if (sold->price_count == sold->price_cap) {
		uint32_t cap = sold->price_cap > 0 ? sold->price_cap * 2 : 64;
		struct espl_price *more = realloc(sold->prices, cap * sizeof *more);

		if (more == NULL)
			return ESPL_E_NOMEM;
		sold->prices = more;
		sold->price_cap = cap;
	}
	if (zone->length > 0 && sold->offer.zone[0] == '\0') {
		if (sold->zone_seen == NULL) {
			sold->zone_seen = zone->at;
			sold->zone_length = zone->length;
		} else if (sold->zone_length != zone->length ||
		    memcmp(sold->zone_seen, zone->at, zone->length) != 0) {
			char text[200];

			(void)snprintf(text, sizeof text,
			    "offer '%.60s' has prices of several zones; give it one with zone = "
			    "\"%.*s\"",
			    sold->offer.name, (int)(zone->length < 60 ? zone->length : 60),
			    zone->at);
			return bad_line(csv, text);
		}
	}
	if (!csv->used || record->from < csv->first)
		csv->first = record->from;
	csv->used = 1;
	sold->prices[sold->price_count++] = *record;
	return ESPL_OK;
}

static int
belongs_to_offer(const struct cloud_sim_offer *sold, const struct field *f)
{
	const struct espl_offer *o = &sold->offer;

	uint32_t length = sold->name_length; /* names often begin alike */

	if (f[FIELD_OFFER].length != length || length == 0 ||
	    f[FIELD_OFFER].at[length - 1] != o->name[length - 1] ||
	    memcmp(f[FIELD_OFFER].at, o->name, length) != 0)
		return 0;
	/* A trace without markets is one of varying prices: not of the fixed ones. */
	if (f[FIELD_MARKET].length > 0 ? !equals_text(&f[FIELD_MARKET], o->market)
				       : strcmp(o->market, "on-demand") == 0 && sold->priced)
		return 0;
	return o->zone[0] == '\0' || f[FIELD_ZONE].length == 0 ||
	    equals_text(&f[FIELD_ZONE], o->zone);
}

static espl_status
read_records(struct cloud_sim_offer *list, uint32_t offers, struct csv *csv)
{
	struct field fields[64];
	uint32_t count;

	while ((count = next_line(csv, fields, 64)) > 0) {
		struct field f[FIELD_COUNT + 2] = { { "", 0 } };
		struct espl_price record;
		int calendar;
		double usd;

		if (count != csv->fields)
			return bad_line(csv, "the number of fields differs from the header");
		for (uint32_t i = 0; i < count; i++)
			f[csv->map[i]] = fields[i];
		if (read_time(&f[FIELD_TIME], &record.from, &calendar) != 0)
			return bad_line(csv,
			    "the time is neither a number of seconds nor a date like "
			    "2020-03-01T12:00:00Z");
		if (csv->calendar >= 0 && csv->calendar != calendar)
			return bad_line(csv, "times in seconds and dates must not be mixed");
		csv->calendar = calendar;
		if (read_number(&f[FIELD_PRICE], &usd) != 0 || usd < 0.0 || usd > 1e6)
			return bad_line(csv, "the price must be a number of dollars, 0 or more");
		record.usd_hour = llround(usd * (double)ESPL_USD);
		for (uint32_t i = 0; i < offers; i++)
			if (belongs_to_offer(&list[i], f)) {
				espl_status status =
				    keep_record(csv, &list[i], &f[FIELD_ZONE], &record);

				if (status != ESPL_OK)
					return status;
			}
	}
	return ESPL_OK;
}

/* Reads the CSV and gives its records to the offers they belong to.  `start`: the instant of the
 * file at which the run begins, NULL: not told.  Errors blame these options. */
static espl_status
cloud_sim_prices(struct cloud_sim_offer *list, uint32_t count, const void *bytes, uint64_t size,
    const char *start, uint32_t prices_option, uint32_t start_option, struct espl_error *error)
{
	struct csv csv = { .at = bytes,
		.end = (const char *)bytes + size,
		.calendar = -1,
		.option = prices_option,
		.error = error };
	espl_time zero;
	espl_status status;
	int calendar;

	if (size >= 3 && memcmp(csv.at, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
		csv.at += 3;
	status = read_header(&csv);
	if (status == ESPL_OK)
		status = read_records(list, count, &csv);
	if (status != ESPL_OK)
		return status;
	zero = csv.calendar == 1 ? csv.first : 0;
	if (start != NULL) {
		const struct field field = { start, (uint32_t)strlen(start) };

		if (read_time(&field, &zero, &calendar) != 0 ||
		    (csv.calendar >= 0 && calendar != csv.calendar))
			return espl_blame(error, start_option,
			    csv.calendar == 1
				? "start must be a date, like the times in the price file"
				: "start must be in seconds, like the times in the price file");
	}
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t p = 0; p < list[i].price_count; p++)
			list[i].prices[p].from -= zero;
		if (list[i].price_count > 0)
			list[i].offer.flags |= ESPL_OFFER_MARKET;
	}
	return ESPL_OK;
}
#endif
