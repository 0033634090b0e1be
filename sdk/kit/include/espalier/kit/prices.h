/* espalier kit: prices.h - reads files of spot prices, and logs of interruptions: CSV with a
 * header, one line per price or observation.
 *
 * Columns are found by name, so that exports of providers can be read unchanged: offer (name,
 * instance_type), time (from, timestamp), price (price_hour, spot_price) and, if the file has them,
 * market, zone (availability_zone) and product_description.  Times are seconds, or dates in UTC or
 * with an offset from it.  Lines that are empty or begin with '#' are skipped.  A log has `nodes`
 * and `interrupted` instead of the price: how many nodes were held until this time, and how many of
 * them were interrupted then.
 *
 * Use: espl_price_reader_open, espl_price_reader_next (of a log: espl_interruptions_open,
 * espl_interruptions_next) until it returns ESPL_E_UNKNOWN, espl_price_reader_close.  A file may
 * come in parts, each of whole lines: espl_price_reader_more.
 */
#ifndef ESPALIER_KIT_PRICES_H
#define ESPALIER_KIT_PRICES_H
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A field of the file; not terminated. */
struct espl_price_text {
	const char *at;
	uint64_t length;
};
enum { ESPL_PRICE_OFFER, ESPL_PRICE_MARKET, ESPL_PRICE_ZONE, ESPL_PRICE_PRODUCT, ESPL_PRICE_NAMES };
/* Lines that have all names in common; a column that is missing is empty. */
struct espl_price_names {
	struct espl_price_text name[ESPL_PRICE_NAMES];
	char *memory; /* of the names */
	uint64_t hash;
	uint32_t followed_by; /* the series of the line after the last one of this */
	uint32_t zero;
};

struct espl_price_reader {
	const char *at, *end;
	uint32_t line;     /* of the last record or error, from 1 */
	uint32_t columns;  /* of the header */
	uint32_t log;      /* 1: of interruptions */
	int32_t calendar;  /* times are dates: 1, seconds: 0, no line yet: -1 */
	uint32_t uses[64]; /* of each column */
	const char *hint;  /* after an error; "": none */
	char why[240];     /* the error, without the line */
	char day[10];      /* the last date, and its start */
	espl_time day_start;
	struct espl_price_names *series; /* in the order of the file */
	uint32_t series_count, series_room;
	uint32_t *table; /* hash table of series, [table_size], 0: empty, else number + 1 */
	uint32_t table_size, last;
};

/* Reads the header.  ESPL_E_CONFIG: see why, hint and line.  Close it in any case.  The bytes must
 * not change until the last record in them has been read. */
espl_status espl_price_reader_open(struct espl_price_reader *reader, const void *bytes,
    uint64_t size);
/* The next line: its series, time (since 1970 for dates) and price.  ESPL_E_UNKNOWN: the end;
 * ESPL_E_CONFIG; ESPL_E_NOMEM. */
espl_status espl_price_reader_next(struct espl_price_reader *reader, uint32_t *series,
    struct espl_price *record);
espl_status espl_interruptions_open(struct espl_price_reader *reader, const void *bytes,
    uint64_t size);
/* *nodes >= *interrupted, and above 0 unless both are 0. */
espl_status espl_interruptions_next(struct espl_price_reader *reader, uint32_t *series,
    espl_time *at, double *nodes, double *interrupted);
/* Continues with these bytes, after the end of the previous part. */
void espl_price_reader_more(struct espl_price_reader *reader, const void *bytes, uint64_t size);
void espl_price_reader_close(struct espl_price_reader *reader);
int espl_price_text_is(const struct espl_price_text *text, const char *other);
/* A time as in a file.  0; -1: it is neither a number of seconds nor a date. */
int espl_price_time(const char *text, uint64_t length, espl_time *at, int32_t *calendar);

#ifdef __cplusplus
}
#endif
#endif
