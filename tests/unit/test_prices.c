/* Price files of the kit: numbers as strtod reads them, dates as timegm does, series by name. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/kit/prices.h>

static uint64_t state = 5;

static uint32_t
draw(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((state >> 33) % below);
}

/* One line after a header of time, offer, zone and price. */
static espl_status
read_line(const char *line, struct espl_price *record, char why[280])
{
	struct espl_price_reader r;
	char text[400];
	uint32_t series;
	espl_status status;

	(void)snprintf(text, sizeof text, "time,offer,zone,price\n%s\n", line);
	cr_assert_eq(espl_price_reader_open(&r, text, strlen(text)), ESPL_OK);
	status = espl_price_reader_next(&r, &series, record);
	if (why != NULL)
		(void)snprintf(why, 280, "%u: %s", r.line, r.why);
	espl_price_reader_close(&r);
	return status;
}

Test(prices, numbers_are_the_nearest)
{
	static const char *const odd[] = { "1e-3", "2.5E2", "+0.5", ".25", "5.", "0", "000.125",
		"0.09270000000000000001", "999999.999999", "1e0", "00012345678901234e-12" };
	char text[80], line[120];
	struct espl_price record;

	for (uint32_t i = 0; i < 3000 + sizeof odd / sizeof odd[0]; i++) {
		if (i >= 3000)
			(void)snprintf(text, sizeof text, "%s", odd[i - 3000]);
		else
			(void)snprintf(text, sizeof text, "%.*f", (int)draw(12),
			    (double)draw(1000000000) / pow(10, 3 + draw(8)));
		(void)snprintf(line, sizeof line, "7,a,b,%s", text);
		cr_assert_eq(read_line(line, &record, NULL), ESPL_OK, "%s", text);
		cr_expect_eq(record.usd_hour, llround(strtod(text, NULL) * 1e6), "%s", text);
		(void)snprintf(line, sizeof line, "%s,a,b,1", text);
		cr_assert_eq(read_line(line, &record, NULL), ESPL_OK, "%s", text);
		cr_expect_eq(record.from, llround(strtod(text, NULL) * 1e9), "%s", text);
	}
}

Test(prices, dates_are_those_of_the_calendar)
{
	char line[120], date[40];
	struct espl_price record;

	for (uint32_t i = 0; i < 5000; i++) {
		time_t at = (time_t)draw(UINT32_MAX) + draw(UINT32_MAX) / 2;
		struct tm tm;

		cr_assert_not_null(gmtime_r(&at, &tm));
		(void)strftime(date, sizeof date,
		    i % 2 == 0 ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
		(void)snprintf(line, sizeof line, "%s%s,a,b,1", date,
		    i % 3 == 0       ? "Z"
			: i % 3 == 1 ? ""
				     : "+02:30");
		cr_assert_eq(read_line(line, &record, NULL), ESPL_OK, "%s", line);
		cr_expect_eq(record.from, ((espl_time)at - (i % 3 == 2 ? 9000 : 0)) * ESPL_SECOND,
		    "%s", line);
	}
}

Test(prices, what_is_not_a_price_is_refused)
{
	static const struct {
		const char *line, *why;
	} bad[] = { { "7,a,b,", "the price '' is not a number" },
		{ "7,a,b,1x", "the price '1x' is not" }, { "7,a,b,nan", "the price 'nan' is not" },
		{ "7,a,b,0x10", "is not a number" }, { "7,a,b,1e", "is not a number" },
		{ "7,a,b,.", "is not a number" }, { "7,a,b,1.2.3", "is not a number" },
		{ "7,a,b,1e999", "is not a number" }, { "7,a,b,1000001", "is not a number" },
		{ "7,a,b,-0.5", "the price is negative: -0.5" },
		{ "7,a,b", "3 fields, but the header has 4" },
		{ "7,a,b,1,2", "5 fields, but the header has 4" }, { ",a,b,1", "'' is neither" },
		{ "5e9,a,b,1", "'5e9' is neither" },
		{ "2021-02-29,a,b,1", "'2021-02-29' is neither" },
		{ "2021-13-01,a,b,1", "is neither" }, { "2100-02-29,a,b,1", "is neither" },
		{ "1969-12-31,a,b,1", "is neither" }, { "2021-01-01T25:00,a,b,1", "is neither" },
		{ "2021-01-01T10,a,b,1", "is neither" }, { "2021-01-01T10:61,a,b,1", "is neither" },
		{ "2021-01-01T10:00:61,a,b,1", "is neither" },
		{ "2021-01-01T10:00:0x,a,b,1", "is neither" },
		{ "2021-01-01T10:00+15:00,a,b,1", "is neither" },
		{ "2021-01-01T10:00+1,a,b,1", "is neither" },
		{ "7,\"a,b,1", "a quotation mark is not closed" },
		{ "7,\"a\"\"b\",b,1", "or is inside a name" } };
	struct espl_price record;
	char why[280];

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		cr_expect_eq(read_line(bad[i].line, &record, why), ESPL_E_CONFIG, "%s",
		    bad[i].line);
		cr_expect(strncmp(why, "2: ", 3) == 0 && strstr(why, bad[i].why) != NULL, "%s: %s",
		    bad[i].line, why);
	}
}

Test(prices, headers)
{
	static const struct {
		const char *text, *why;
	} bad[] = { { "", "the file is empty" }, { "# nothing\n\n", "the file is empty" },
		{ "time,price\n", "no column 'offer'" }, { "offer,price\n", "no column 'time'" },
		{ "time,offer\n", "no column 'price'" },
		{ "time,offer,price,from\n", "column before 'from' has the same meaning" } };
	struct espl_price_reader r;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		cr_expect_eq(espl_price_reader_open(&r, bad[i].text, strlen(bad[i].text)),
		    ESPL_E_CONFIG, "%s", bad[i].text);
		cr_expect(strstr(r.why, bad[i].why) != NULL && r.hint[0] != '\0', "%s: %s",
		    bad[i].text, r.why);
		espl_price_reader_close(&r);
	}
}

/* Series get numbers in the order of the file, whatever the order of the lines after that. */
Test(prices, series)
{
	enum { LINES = 20000, SERIES = 700 };
	static uint32_t wanted[LINES], numbers[SERIES];
	struct espl_price_reader r;
	struct espl_price record;
	char *text = malloc(LINES * 60 + 100), *to = text;
	uint32_t series, known = 0;

	to += sprintf(to,
	    "\xef\xbb\xbfoffer, availability_zone ,time,spot_price,other\r\n# skipped\n");
	for (uint32_t i = 0; i < LINES; i++) {
		uint32_t of = i < LINES / 2 ? draw(SERIES) : i % SERIES;

		to += sprintf(to,
		    i % 5 == 0 ? "\"m%u,large\", z%u ,%u,0.5,x\r\n" : "m%u\\large,z%u,%u,0.5,x\n",
		    of, of % 7, i);
		wanted[i] = of * 2 + (i % 5 == 0);
		if (i % 100 == 0)
			to += sprintf(to, " \n");
	}
	memset(numbers, 0xff, sizeof numbers);
	cr_assert_eq(espl_price_reader_open(&r, text, (uint64_t)(to - text)), ESPL_OK, "%s", r.why);
	for (uint32_t i = 0; i < LINES; i++) {
		const struct espl_price_text *name;
		char offer[40];

		cr_assert_eq(espl_price_reader_next(&r, &series, &record), ESPL_OK, "%s", r.why);
		cr_assert_leq(series, known, "line %u", i);
		known += series == known;
		cr_assert_eq(known, r.series_count);
		name = r.series[series].name;
		(void)snprintf(offer, sizeof offer, wanted[i] % 2 ? "m%u,large" : "m%u\\large",
		    wanted[i] / 2);
		cr_assert(espl_price_text_is(&name[ESPL_PRICE_OFFER], offer), "line %u: %.*s", i,
		    (int)name[ESPL_PRICE_OFFER].length, name[ESPL_PRICE_OFFER].at);
		(void)snprintf(offer, sizeof offer, "z%u", wanted[i] / 2 % 7);
		cr_assert(espl_price_text_is(&name[ESPL_PRICE_ZONE], offer));
		cr_assert_eq(name[ESPL_PRICE_MARKET].length, 0);
		cr_assert_eq(record.from, (espl_time)i * ESPL_SECOND);
		cr_assert_eq(record.usd_hour, 500000);
	}
	cr_assert_eq(espl_price_reader_next(&r, &series, &record), ESPL_E_UNKNOWN);
	espl_price_reader_close(&r);
	free(text);
}
