/* price_file.c - see espalier/kit/prices.h.
 *
 * Files of many markets have millions of lines: no line costs an allocation or a call of the C
 * library's parsers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/prices.h>

#define TIME_MAX 4e9 /* seconds: the difference of two times does not overflow */
#define COLUMNS 64u

enum { USE_TIME = ESPL_PRICE_NAMES, USE_PRICE, USE_NODES, USE_INTERRUPTED, USE_COUNT };

static espl_status
refuse_line(struct espl_price_reader *r, const char *text)
{
	(void)snprintf(r->why, sizeof r->why, "%s", text);
	return ESPL_E_CONFIG;
}

static espl_status
refuse_text(struct espl_price_reader *r, const char *format, const struct espl_price_text *text)
{
	(void)snprintf(r->why, sizeof r->why, format, (int)(text->length < 60 ? text->length : 60),
	    text->at);
	return ESPL_E_CONFIG;
}

int
espl_price_text_is(const struct espl_price_text *text, const char *other)
{
	size_t length = strlen(other);

	return text->length == length && memcmp(text->at, other, length) == 0;
}

/* ---- lines and fields ------------------------------------------------------------------------ */

static void
trim_text(struct espl_price_text *text)
{
	while (text->length > 0 && (text->at[0] == ' ' || text->at[0] == '\t')) {
		text->at++;
		text->length--;
	}
	while (text->length > 0 &&
	    (text->at[text->length - 1] == ' ' || text->at[text->length - 1] == '\t'))
		text->length--;
}

/* A field in quotes that begins at p, which may contain commas; NULL: it is not closed. */
static const char *
quoted_field(const char *p, const char *stop, struct espl_price_text *to)
{
	const char *close = memchr(p + 1, '"', (size_t)(stop - p - 1)), *after;

	if (close == NULL)
		return NULL;
	*to = (struct espl_price_text){ p + 1, (uint64_t)(close - p - 1) };
	for (after = close + 1; after < stop && (*after == ' ' || *after == '\t'); after++)
		;
	return after == stop || *after == ',' ? after : NULL;
}

/* Splits [p, stop) into at most COLUMNS fields; 0: a quote is not closed. */
static uint32_t
split_line(const char *p, const char *stop, struct espl_price_text fields[COLUMNS])
{
	for (uint32_t count = 0; count < COLUMNS; count++, p++) {
		const char *begin = p, *comma;

		while (p < stop && (*p == ' ' || *p == '\t'))
			p++;
		if (p < stop && *p == '"') {
			p = quoted_field(p, stop, &fields[count]);
			if (p == NULL)
				return 0;
		} else {
			comma = memchr(p, ',', (size_t)(stop - p));
			p = comma != NULL ? comma : stop;
			fields[count] = (struct espl_price_text){ begin, (uint64_t)(p - begin) };
			trim_text(&fields[count]);
		}
		if (p == stop)
			return count + 1;
	}
	return COLUMNS + 1;
}

/* The next line that has fields.  ESPL_E_UNKNOWN: there is none. */
static espl_status
next_fields(struct espl_price_reader *r, struct espl_price_text fields[COLUMNS], uint32_t *count)
{
	while (r->at < r->end) {
		const char *p = r->at, *stop = memchr(p, '\n', (size_t)(r->end - p));

		r->line++;
		r->at = stop != NULL ? stop + 1 : r->end;
		stop = stop != NULL ? stop : r->end;
		if (stop > p && stop[-1] == '\r')
			stop--;
		if (p == stop || *p == '#')
			continue;
		*count = split_line(p, stop, fields);
		if (*count == 0)
			return refuse_line(r,
			    "a quotation mark is not closed, or is inside a name");
		if (*count == 1 && fields[0].length == 0)
			continue;
		return ESPL_OK;
	}
	return ESPL_E_UNKNOWN;
}

static uint32_t
use_of(const struct espl_price_text *name)
{
	static const struct {
		const char *name;
		uint32_t use;
	} known[] = { { "offer", ESPL_PRICE_OFFER }, { "name", ESPL_PRICE_OFFER },
		{ "instance_type", ESPL_PRICE_OFFER }, { "market", ESPL_PRICE_MARKET },
		{ "zone", ESPL_PRICE_ZONE }, { "availability_zone", ESPL_PRICE_ZONE },
		{ "product_description", ESPL_PRICE_PRODUCT }, { "time", USE_TIME },
		{ "from", USE_TIME }, { "timestamp", USE_TIME }, { "price", USE_PRICE },
		{ "price_hour", USE_PRICE }, { "spot_price", USE_PRICE }, { "nodes", USE_NODES },
		{ "interrupted", USE_INTERRUPTED } };

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (espl_price_text_is(name, known[i].name))
			return known[i].use;
	return USE_COUNT;
}

static espl_status
need_columns(struct espl_price_reader *r, const uint32_t seen[USE_COUNT + 1])
{
	static const struct {
		uint32_t use;
		const char *text;
	} needed[] = { { ESPL_PRICE_OFFER,
			   "the header has no column 'offer' (or 'instance_type')" },
		{ USE_TIME, "the header has no column 'time' (or 'timestamp')" },
		{ USE_PRICE, "the header has no column 'price' (or 'spot_price')" },
		{ USE_NODES, "the header has no column 'nodes'" },
		{ USE_INTERRUPTED, "the header has no column 'interrupted'" } };

	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
		if (!seen[needed[i].use] &&
		    (needed[i].use <= USE_TIME || (needed[i].use == USE_PRICE) == !r->log))
			return refuse_line(r, needed[i].text);
	return ESPL_OK;
}

static espl_status
read_header(struct espl_price_reader *r)
{
	struct espl_price_text fields[COLUMNS];
	uint32_t seen[USE_COUNT + 1] = { 0 };
	espl_status status = next_fields(r, fields, &r->columns);

	r->hint = r->log ? "a log begins with a line such as time,offer,zone,nodes,interrupted"
			 : "a price file begins with a line such as time,offer,zone,price";
	if (status == ESPL_E_UNKNOWN)
		return refuse_line(r, "the file is empty");
	if (status != ESPL_OK)
		return status;
	if (r->columns > COLUMNS)
		return refuse_line(r, "more than 64 columns");
	for (uint32_t i = 0; i < r->columns; i++) {
		r->uses[i] = use_of(&fields[i]);
		if (r->uses[i] < USE_COUNT && seen[r->uses[i]]++ > 0)
			return refuse_text(r, "another column before '%.*s' has the same meaning",
			    &fields[i]);
	}
	status = need_columns(r, seen);
	if (status == ESPL_OK)
		r->hint = "";
	return status;
}

/* ---- numbers and times ----------------------------------------------------------------------- */

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The digits of a decimal number, without its point: number * 10^*scale.  -1: there are none. */
static int
read_digits(const char **at, const char *end, uint64_t *number, int *scale)
{
	const char *p = *at;
	int point = 0, digits = 0;

	*number = 0;
	*scale = 0;
	for (; p < end && (is_digit(*p) || (*p == '.' && !point)); p++) {
		if (*p == '.') {
			point = 1;
			continue;
		}
		digits++;
		if (*number < UINT64_C(1000000000000000000)) {
			*number = *number * 10 + (uint64_t)(*p - '0');
			*scale -= point;
		} else {
			*scale += !point;
		}
	}
	*at = p;
	return digits > 0 ? 0 : -1;
}

/* A decimal number, perhaps with an exponent.  Up to 15 digits it is the nearest double. */
static int
read_number(const struct espl_price_text *text, double *value)
{
	static const double powers[] = { 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
		1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	const char *p = text->at, *end = p + text->length;
	int negative = p < end && *p == '-', scale, raise = 0;
	uint64_t number;

	p += negative || (p < end && *p == '+');
	if (read_digits(&p, end, &number, &scale) != 0)
		return -1;
	if (p < end && (*p == 'e' || *p == 'E')) {
		int down = ++p < end && *p == '-';

		p += p < end && (*p == '-' || *p == '+');
		if (p == end)
			return -1;
		for (; p < end && is_digit(*p) && raise < 1000; p++)
			raise = raise * 10 + (*p - '0');
		scale += down ? -raise : raise;
	}
	if (p != end)
		return -1;
	*value = (double)number;
	if (scale < 0)
		*value = scale >= -22 ? *value / powers[-scale] : *value * pow(10, scale);
	else if (scale > 0)
		*value = scale <= 22 ? *value * powers[scale] : *value * pow(10, scale);
	if (negative)
		*value = -*value;
	return isfinite(*value) ? 0 : -1;
}

/* Days since 1970-01-01 of a date of the Gregorian calendar. */
static int64_t
days_since_1970(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = y / 400, of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Two digits; -1: they are not there. */
static int
read_pair(const char *p, const char *end)
{
	return end - p >= 2 && is_digit(p[0]) && is_digit(p[1]) ? (p[0] - '0') * 10 + p[1] - '0'
								: -1;
}

/* "2020-03-01": where it begins. */
static int
read_day(const char *p, const char *end, espl_time *start)
{
	static const char length[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int high, low, month, day, year;

	if (end - p < 10 || p[4] != '-' || p[7] != '-')
		return -1;
	high = read_pair(p, end);
	low = read_pair(p + 2, end);
	month = read_pair(p + 5, end);
	day = read_pair(p + 8, end);
	year = high * 100 + low;
	if (high < 0 || low < 0 || year < 1970 || year > 2200 || month < 1 || month > 12 ||
	    day < 1 || day > length[month - 1] ||
	    (month == 2 && day == 29 && (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0))))
		return -1;
	*start = days_since_1970(year, month, day) * 86400 * ESPL_SECOND;
	return 0;
}

/* "T12:30", "T12:30:00.5" after the day; returns where it ends, NULL: it is not a time. */
static const char *
read_clock(const char *p, const char *end, espl_time *at)
{
	int hour, minute, second = 0;
	espl_time fraction = 0, unit = ESPL_SECOND / 10;

	hour = read_pair(p + 1, end);
	minute = end - p >= 6 && p[3] == ':' ? read_pair(p + 4, end) : -1;
	p += 6;
	if (minute >= 0 && p < end && *p == ':') {
		second = read_pair(p + 1, end);
		p += 3;
	}
	if (hour < 0 || hour > 24 || minute < 0 || minute > 59 || second < 0 || second > 60)
		return NULL;
	if (p < end && *p == '.')
		for (p++; p < end && is_digit(*p); p++, unit /= 10)
			fraction += (*p - '0') * unit;
	*at += (hour * 3600 + minute * 60 + second) * ESPL_SECOND + fraction;
	return p;
}

/* What follows the day. */
static int
read_time_of_day(const char *p, const char *end, espl_time *at)
{
	int hours, minutes = 0;

	if (p < end && (*p == 'T' || *p == ' ')) {
		p = read_clock(p, end, at);
		if (p == NULL)
			return -1;
	}
	if (p < end && *p == 'Z') {
		p++;
	} else if (p < end && (*p == '+' || *p == '-')) {
		int sign = *p++ == '+' ? 1 : -1;

		hours = read_pair(p, end);
		p += 2;
		if (hours >= 0 && p < end) {
			p += *p == ':';
			minutes = read_pair(p, end);
			p += 2;
		}
		if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59)
			return -1;
		*at -= sign * (hours * 3600 + minutes * 60) * ESPL_SECOND;
	}
	return p == end ? 0 : -1;
}

/* *calendar: is it a date? */
static int
read_time(struct espl_price_reader *r, const struct espl_price_text *text, espl_time *at,
    int32_t *calendar)
{
	double seconds;

	*calendar = text->length >= 10 && text->at[4] == '-';
	if (!*calendar) {
		if (read_number(text, &seconds) != 0 || fabs(seconds) > TIME_MAX)
			return -1;
		*at = (espl_time)llround(seconds * 1e9);
		return 0;
	}
	/* Most lines have the day of the line before. */
	if (memcmp(r->day, text->at, sizeof r->day) != 0) {
		if (read_day(text->at, text->at + text->length, &r->day_start) != 0)
			return -1;
		memcpy(r->day, text->at, sizeof r->day);
	}
	*at = r->day_start;
	return read_time_of_day(text->at + 10, text->at + text->length, at);
}

int
espl_price_time(const char *text, uint64_t length, espl_time *at, int32_t *calendar)
{
	struct espl_price_reader none = { .line = 0 };
	struct espl_price_text all = { text, length };

	ESPL_ASSERT(text != NULL && at != NULL && calendar != NULL);
	trim_text(&all);
	return read_time(&none, &all, at, calendar);
}

/* ---- series ---------------------------------------------------------------------------------- */

static int
same_names(const struct espl_price_names *a, const struct espl_price_text name[ESPL_PRICE_NAMES])
{
	for (uint32_t i = 0; i < ESPL_PRICE_NAMES; i++)
		if (a->name[i].length != name[i].length ||
		    memcmp(a->name[i].at, name[i].at, name[i].length) != 0)
			return 0;
	return 1;
}

static uint64_t
hash_names(const struct espl_price_text name[ESPL_PRICE_NAMES])
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint32_t i = 0; i < ESPL_PRICE_NAMES; i++) {
		for (uint64_t k = 0; k < name[i].length; k++)
			hash = (hash ^ (unsigned char)name[i].at[k]) * UINT64_C(0x100000001b3);
		hash = (hash ^ 0xff) * UINT64_C(0x100000001b3);
	}
	return hash;
}

static void
put_in_table(struct espl_price_reader *r, uint32_t number)
{
	uint32_t at = (uint32_t)(r->series[number].hash >> 32) & (r->table_size - 1);

	while (r->table[at] != 0)
		at = (at + 1) & (r->table_size - 1);
	r->table[at] = number + 1;
}

/* Room for one more; the table stays at most half full. */
static espl_status
grow_series(struct espl_price_reader *r)
{
	uint32_t room = r->series_room > 0 ? r->series_room * 2 : 64;
	struct espl_price_names *series;
	uint32_t *table;

	if (r->series_count < r->series_room)
		return ESPL_OK;
	series = realloc(r->series, room * sizeof *series);
	if (series == NULL)
		return ESPL_E_NOMEM;
	r->series = series;
	table = calloc(room * (size_t)2, sizeof *table);
	if (table == NULL)
		return ESPL_E_NOMEM;
	free(r->table);
	r->table = table;
	r->table_size = room * 2;
	r->series_room = room;
	for (uint32_t i = 0; i < r->series_count; i++)
		put_in_table(r, i);
	return ESPL_OK;
}

static espl_status
add_series(struct espl_price_reader *r, const struct espl_price_text name[ESPL_PRICE_NAMES],
    uint64_t hash)
{
	struct espl_price_names *to = &r->series[r->series_count];
	uint64_t length = 1;
	char *at;

	for (uint32_t i = 0; i < ESPL_PRICE_NAMES; i++)
		length += name[i].length;
	to->memory = at = malloc(length);
	if (at == NULL)
		return ESPL_E_NOMEM;
	for (uint32_t i = 0; i < ESPL_PRICE_NAMES; i++) {
		memcpy(at, name[i].at, name[i].length);
		to->name[i] = (struct espl_price_text){ at, name[i].length };
		at += name[i].length;
	}
	to->hash = hash;
	to->followed_by = r->series_count; /* where lines are sorted by market */
	to->zero = 0;
	put_in_table(r, r->series_count++);
	return ESPL_OK;
}

/* Lines of many markets come in the same order again and again: the one that followed last time is
 * tried first. */
static espl_status
find_series(struct espl_price_reader *r, const struct espl_price_text name[ESPL_PRICE_NAMES],
    uint32_t *series)
{
	uint32_t before = r->last, at, found = 0;
	uint64_t hash;

	if (r->series_count > 0 && r->series[before].followed_by < r->series_count &&
	    same_names(&r->series[r->series[before].followed_by], name)) {
		*series = r->last = r->series[before].followed_by;
		return ESPL_OK;
	}
	if (grow_series(r) != ESPL_OK)
		return ESPL_E_NOMEM;
	hash = hash_names(name);
	for (at = (uint32_t)(hash >> 32) & (r->table_size - 1); r->table[at] != 0;
	     at = (at + 1) & (r->table_size - 1)) {
		found = r->table[at];
		if (r->series[found - 1].hash == hash && same_names(&r->series[found - 1], name))
			break;
	}
	if (r->table[at] == 0) {
		if (add_series(r, name, hash) != ESPL_OK)
			return ESPL_E_NOMEM;
		found = r->series_count;
	}
	*series = r->last = found - 1;
	if (r->series_count > 1)
		r->series[before].followed_by = *series;
	return ESPL_OK;
}

/* ---- the reader ------------------------------------------------------------------------------ */

static espl_status
open_reader(struct espl_price_reader *r, const void *bytes, uint64_t size, uint32_t log)
{
	ESPL_ASSERT(r != NULL && (bytes != NULL || size == 0));
	memset(r, 0, sizeof *r);
	r->log = log;
	r->at = bytes;
	r->end = r->at + size;
	r->calendar = -1;
	r->hint = "";
	if (size >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
		r->at += 3;
	return read_header(r);
}

espl_status
espl_price_reader_open(struct espl_price_reader *r, const void *bytes, uint64_t size)
{
	return open_reader(r, bytes, size, 0);
}

espl_status
espl_interruptions_open(struct espl_price_reader *r, const void *bytes, uint64_t size)
{
	return open_reader(r, bytes, size, 1);
}

void
espl_price_reader_more(struct espl_price_reader *r, const void *bytes, uint64_t size)
{
	ESPL_ASSERT(r != NULL && r->at == r->end && r->columns > 0);
	r->at = bytes;
	r->end = r->at + size;
}

void
espl_price_reader_close(struct espl_price_reader *r)
{
	ESPL_ASSERT(r != NULL);
	for (uint32_t i = 0; i < r->series_count; i++)
		free(r->series[i].memory);
	free(r->series);
	free(r->table);
	memset(r, 0, sizeof *r);
}

static espl_status
read_price(struct espl_price_reader *r, const struct espl_price_text *text, espl_money *usd_hour)
{
	double usd;

	if (read_number(text, &usd) != 0 || usd > 1e6)
		return refuse_text(r, "the price '%.*s' is not a number of dollars", text);
	if (usd < 0) {
		r->hint = "remove the line; the price before it stays valid until the next one";
		return refuse_text(r, "the price is negative: %.*s", text);
	}
	*usd_hour = llround(usd * (double)ESPL_USD);
	return ESPL_OK;
}

/* The next line's fields by use, and its time. */
static espl_status
next_line(struct espl_price_reader *r, struct espl_price_text used[USE_COUNT + 1], espl_time *at)
{
	struct espl_price_text fields[COLUMNS];
	uint32_t count;
	int32_t calendar;
	espl_status status = next_fields(r, fields, &count);

	if (status != ESPL_OK)
		return status;
	if (count != r->columns) {
		(void)snprintf(r->why, sizeof r->why, "%u fields, but the header has %u", count,
		    r->columns);
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < ESPL_PRICE_NAMES; i++)
		used[i] = (struct espl_price_text){ "", 0 };
	for (uint32_t i = 0; i < count; i++)
		used[r->uses[i]] = fields[i];
	if (read_time(r, &used[USE_TIME], at, &calendar) != 0)
		return refuse_text(r,
		    "'%.*s' is neither a number of seconds nor a date such as "
		    "2020-03-01T12:00:00Z",
		    &used[USE_TIME]);
	if (r->calendar >= 0 && r->calendar != calendar)
		return refuse_line(r, "times in seconds and dates must not be mixed");
	r->calendar = calendar;
	return ESPL_OK;
}

espl_status
espl_price_reader_next(struct espl_price_reader *r, uint32_t *series, struct espl_price *record)
{
	struct espl_price_text used[USE_COUNT + 1];
	espl_status status;

	ESPL_ASSERT(r->columns > 0 && !r->log && series != NULL && record != NULL);
	status = next_line(r, used, &record->from);
	if (status == ESPL_OK)
		status = read_price(r, &used[USE_PRICE], &record->usd_hour);
	return status == ESPL_OK ? find_series(r, used, series) : status;
}

espl_status
espl_interruptions_next(struct espl_price_reader *r, uint32_t *series, espl_time *at, double *nodes,
    double *interrupted)
{
	struct espl_price_text used[USE_COUNT + 1];
	espl_status status;

	ESPL_ASSERT(r->columns > 0 && r->log && series != NULL && at != NULL);
	status = next_line(r, used, at);
	if (status != ESPL_OK)
		return status;
	if (read_number(&used[USE_NODES], nodes) != 0 || !(*nodes >= 0 && *nodes <= 1e9))
		return refuse_text(r, "'%.*s' is not a number of nodes", &used[USE_NODES]);
	if (read_number(&used[USE_INTERRUPTED], interrupted) != 0 || !(*interrupted >= 0))
		return refuse_text(r, "'%.*s' is not a number of nodes", &used[USE_INTERRUPTED]);
	if (*interrupted > *nodes)
		return refuse_text(r, "%.*s nodes were interrupted, more than were held",
		    &used[USE_INTERRUPTED]);
	return find_series(r, used, series);
}
