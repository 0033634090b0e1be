/* prices.c - see prices.h. */
#include "input/prices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "input/csv.h"

#define GAP_DAYS 30
#define TIME_MAX 4e9              /* seconds: the difference of two times does not overflow */
#define LIMIT (UINT64_C(1) << 31) /* bytes of a file */

enum column {
	COL_OFFER,
	COL_MARKET,
	COL_ZONE,
	COL_TIME,
	COL_PRICE,
	COL_PRODUCT,
	COL_COUNT,
	COL_OTHER
};

static enum column
name_column(const char *name)
{
	static const struct {
		const char *name;
		enum column column;
	} known[] = { { "offer", COL_OFFER }, { "name", COL_OFFER }, { "instance_type", COL_OFFER },
		{ "market", COL_MARKET }, { "zone", COL_ZONE }, { "availability_zone", COL_ZONE },
		{ "time", COL_TIME }, { "from", COL_TIME }, { "timestamp", COL_TIME },
		{ "price", COL_PRICE }, { "price_hour", COL_PRICE }, { "spot_price", COL_PRICE },
		{ "product_description", COL_PRODUCT } };

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].column;
	return COL_OTHER;
}

static espl_status
read_header(const struct espl__csv *csv, uint32_t at[COL_COUNT], struct espl__diag *diag)
{
	static const char *const words[COL_COUNT] = { "offer' or 'instance_type", "market", "zone",
		"time' or 'timestamp", "price' or 'spot_price", "product_description" };

	for (uint32_t i = 0; i < COL_COUNT; i++)
		at[i] = UINT32_MAX;
	for (uint32_t i = 0; i < csv->count; i++) {
		enum column column = name_column(csv->fields[i]);

		if (column != COL_OTHER && at[column] == UINT32_MAX)
			at[column] = i;
	}
	for (uint32_t i = 0; i < COL_COUNT; i++)
		if (at[i] == UINT32_MAX && i != COL_ZONE && i != COL_MARKET && i != COL_PRODUCT) {
			(void)espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
			    "the header has no column '%s'", words[i]);
			espl__hint(diag,
			    "a price file begins with a line such as time,offer,zone,price");
			return ESPL_E_CONFIG;
		}
	return ESPL_OK;
}

/* "2020-03-01T12:30:00.5Z" or "2020-03-01 12:30", with or without an offset from UTC. */
static int
read_date(const char *text, espl_time *at)
{
	int year, month, day, hour = 0, minute = 0, used = 0, some = 0, off_hour, off_minute = 0;
	double second = 0;
	struct tm tm = { 0 };

	if (sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &used) != 3 || used != 10)
		return -1;
	text += used;
	if (*text == 'T' || *text == ' ') {
		if (sscanf(text + 1, "%2d:%2d%n", &hour, &minute, &used) != 2)
			return -1;
		text += 1 + used;
		if (*text == ':') {
			if (sscanf(text + 1, "%lf%n", &second, &used) != 1)
				return -1;
			text += 1 + used;
		}
	}
	tm = (struct tm){ .tm_year = year - 1900,
		.tm_mon = month - 1,
		.tm_mday = day,
		.tm_hour = hour,
		.tm_min = minute };
	if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 ||
	    hour < 0 || hour > 24 || minute < 0 || minute > 59 || !(second >= 0 && second < 61))
		return -1;
	*at = (espl_time)timegm(&tm) * ESPL_SECOND + llround(second * 1e9);
	if (hour < 24 && tm.tm_mday != day) /* no such day in this month */
		return -1;
	if (*text == '+' || *text == '-') {
		if (sscanf(text + 1, "%2d%n:%2d%n", &off_hour, &used, &off_minute, &some) < 1 ||
		    off_hour < 0 || off_hour > 14 || off_minute < 0 || off_minute > 59)
			return -1;
		*at -= (*text == '+' ? 1 : -1) * (off_hour * 3600 + off_minute * 60) * ESPL_SECOND;
		text += 1 + (some > used ? some : used);
	} else if (*text == 'Z') {
		text++;
	}
	return *text == '\0' ? 0 : -1;
}

static espl_status
read_record(const struct espl__csv *csv, const uint32_t at[COL_COUNT], int *calendar,
    struct espl_price *to, struct espl__diag *diag)
{
	const char *time = csv->fields[at[COL_TIME]], *price = csv->fields[at[COL_PRICE]];
	double seconds, usd;
	int date = read_date(time, &to->from) == 0;

	if (!date &&
	    (espl__csv_number(time, &seconds) != 0 || !(fabs(seconds) < TIME_MAX))) /* NaN: empty */
		return espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
		    "'%s' is neither a number of seconds nor a date such as 2020-03-01T12:00:00Z",
		    time);
	if (*calendar >= 0 && *calendar != date)
		return espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
		    "times in seconds and dates must not be mixed");
	*calendar = date;
	if (!date)
		to->from = (espl_time)llround(seconds * 1e9);
	if (espl__csv_number(price, &usd) != 0 || !(usd <= 1e6))
		return espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
		    "the price '%s' is not a number of dollars", price);
	if (usd < 0) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
		    "the price is negative: %s", price);
		espl__hint(diag, "remove the line; the price before it holds until the next one");
		return ESPL_E_CONFIG;
	}
	to->usd_hour = llround(usd * (double)ESPL_USD);
	return ESPL_OK;
}

static struct espl__price_series *
find_series(struct espl__price_file *file, const char *offer, const char *zone)
{
	struct espl__price_series *s;

	for (uint32_t i = 0; i < file->count; i++)
		if (strcmp(file->list[i].offer, offer) == 0 &&
		    strcmp(file->list[i].zone, zone) == 0)
			return &file->list[i];
	ESPL__GROW(file->list, file->cap, file->count + 1);
	s = &file->list[file->count++];
	*s =
	    (struct espl__price_series){ .offer = espl__strdup(offer), .zone = espl__strdup(zone) };
	return s;
}

/* Exports of AWS list systems with prices of their own, such as Windows, beside each other. */
static espl_status
check_product(const struct espl__csv *csv, struct espl__price_series *s, uint32_t column,
    struct espl__diag *diag)
{
	const char *product = column != UINT32_MAX ? csv->fields[column] : "";

	if (s->product == NULL)
		s->product = espl__strdup(product);
	if (strcmp(s->product, product) == 0)
		return ESPL_OK;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
	    "offer '%s' has prices of '%s' and of '%s'", s->offer, s->product, product);
	espl__hint(diag, "keep the lines of one product_description");
	return ESPL_E_CONFIG;
}

static espl_status
add_record(const struct espl__csv *csv, struct espl__price_series *s,
    const struct espl_price *record, struct espl__diag *diag)
{
	espl_time last = s->count > 0 ? s->prices[s->count - 1].from : record->from;

	if (record->from < last) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
		    "the time of offer '%s' goes back by %.0f s", s->offer,
		    (double)(last - record->from) * 1e-9);
		espl__hint(diag, "sort the file by time");
		return ESPL_E_CONFIG;
	}
	if (record->from - last > GAP_DAYS * 86400 * ESPL_SECOND) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
		    "offer '%s' has no price for %.0f days before this line", s->offer,
		    (double)(record->from - last) * 1e-9 / 86400);
		espl__hint(diag, "add what is missing, or use only the part before or after it");
		return ESPL_E_CONFIG;
	}
	if (s->count > 0 && record->from == last)
		s->count--; /* the later of two lines of one instant holds */
	ESPL__GROW(s->prices, s->cap, s->count + 1);
	s->prices[s->count++] = *record;
	return ESPL_OK;
}

static espl_status
read_lines(struct espl__csv *csv, struct espl__price_file *file, struct espl__diag *diag)
{
	uint32_t at[COL_COUNT], columns, n;
	int more, calendar = -1;
	espl_status status = espl__csv_next(csv, &more, diag);

	if (status == ESPL_OK && !more)
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is empty", csv->file);
	if (status == ESPL_OK)
		status = read_header(csv, at, diag);
	columns = csv->count;
	for (n = 0; status == ESPL_OK; n++) {
		struct espl_price record = { 0, 0 };
		struct espl__price_series *series;
		const char *market;

		status = espl__csv_next(csv, &more, diag);
		if (status != ESPL_OK || !more)
			break;
		if (csv->count != columns)
			return espl__fail_at(diag, ESPL_E_CONFIG, csv->file, csv->line,
			    "%u fields, but the header has %u", csv->count, columns);
		market = at[COL_MARKET] != UINT32_MAX ? csv->fields[at[COL_MARKET]] : "";
		if (strcmp(market, "on-demand") == 0)
			continue;
		status = read_record(csv, at, &calendar, &record, diag);
		if (status != ESPL_OK)
			break;
		series = find_series(file, csv->fields[at[COL_OFFER]],
		    at[COL_ZONE] != UINT32_MAX ? csv->fields[at[COL_ZONE]] : market);
		status = check_product(csv, series, at[COL_PRODUCT], diag);
		if (status == ESPL_OK)
			status = add_record(csv, series, &record, diag);
	}
	if (status == ESPL_OK && file->count == 0)
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' has no prices", csv->file);
	file->calendar = calendar == 1;
	return status;
}

espl_status
espl__prices_read(const char *path, struct espl__price_file *file, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__csv csv;
	espl_status status = espl__file_read(path, LIMIT, &text, diag);

	*file = (struct espl__price_file){ NULL, 0, 0, 0 };
	if (status != ESPL_OK)
		return status;
	(void)espl__buf_text(&text);
	espl__csv_open(&csv, path, &text);
	status = read_lines(&csv, file, diag);
	espl__csv_close(&csv);
	espl__buf_free(&text);
	return status;
}

void
espl__prices_free(struct espl__price_file *file)
{
	for (uint32_t i = 0; i < file->count; i++) {
		free(file->list[i].offer);
		free(file->list[i].zone);
		free(file->list[i].product);
		free(file->list[i].prices);
	}
	free(file->list);
	*file = (struct espl__price_file){ NULL, 0, 0, 0 };
}
