/* prices.c - see prices.h. */
#include "input/prices.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <espalier/kit/prices.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"

#define GAP_DAYS 30
#define BLOCK (1u << 20)      /* bytes that are read at once */
#define LINE_LIMIT (1u << 26) /* bytes of a line */

/* What is read, and of which of its series (in file->list) the lines of the reader's are. */
struct reading {
	struct espl_price_reader reader;
	struct espl__price_file *file;
	const char *path;
	int fd;
	struct espl__buf text; /* whole lines, which the reader has, and the beginning of one */
	size_t whole;
	uint32_t *of; /* [of_count]; ESPL_ANY: on demand, not a market */
	uint32_t of_count, of_cap;
};

static void
free_series(struct espl__price_series *s)
{
	free(s->offer);
	free(s->zone);
	free(s->product);
	free(s->prices);
}

static char *
copy_text(const struct espl_price_text *text)
{
	char *copy = espl__alloc(text->length + 1);

	memcpy(copy, text->at, text->length);
	copy[text->length] = '\0';
	return copy;
}

/* Exports of AWS list systems with prices of their own, such as Windows, beside each other. */
static espl_status
check_product(const struct reading *r, const struct espl__price_series *s, const char *product,
    struct espl__diag *diag)
{
	if (strcmp(s->product, product) == 0)
		return ESPL_OK;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, r->path, r->reader.line,
	    "offer '%s' has prices of '%s' and of '%s'", s->offer, s->product, product);
	espl__hint(diag, "keep the lines of one product_description");
	return ESPL_E_CONFIG;
}

/* The reader found lines with names that it has not seen before. */
static espl_status
add_series(struct reading *r, struct espl__diag *diag)
{
	const struct espl_price_names *names = &r->reader.series[r->of_count];
	const struct espl_price_text *market = &names->name[ESPL_PRICE_MARKET];
	const struct espl_price_text *zone = &names->name[ESPL_PRICE_ZONE];
	struct espl__price_file *file = r->file;
	struct espl__price_series made = { 0 };
	espl_status status = ESPL_OK;
	uint32_t i;

	ESPL__GROW(r->of, r->of_cap, r->of_count + 1);
	r->of[r->of_count] = ESPL_ANY;
	if (!espl_price_text_is(market, "on-demand")) {
		made.offer = copy_text(&names->name[ESPL_PRICE_OFFER]);
		made.zone = copy_text(zone->length > 0 ? zone : market);
		made.product = copy_text(&names->name[ESPL_PRICE_PRODUCT]);
		for (i = 0; i < file->count; i++)
			if (strcmp(file->list[i].offer, made.offer) == 0 &&
			    strcmp(file->list[i].zone, made.zone) == 0)
				break;
		if (i < file->count) {
			status = check_product(r, &file->list[i], made.product, diag);
			free_series(&made);
		} else {
			ESPL__GROW(file->list, file->cap, file->count + 1);
			file->list[file->count++] = made;
		}
		r->of[r->of_count] = i;
	}
	r->of_count++;
	return status;
}

static espl_status
add_record(const struct reading *r, struct espl__price_series *s, const struct espl_price *record,
    struct espl__diag *diag)
{
	espl_time last = s->count > 0 ? s->prices[s->count - 1].from : record->from;

	if (record->from < last) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, r->path, r->reader.line,
		    "the time of offer '%s' goes back by %.0f s", s->offer,
		    (double)(last - record->from) * 1e-9);
		espl__hint(diag, "sort the file by time");
		return ESPL_E_CONFIG;
	}
	if (record->from - last > GAP_DAYS * 86400 * ESPL_SECOND) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, r->path, r->reader.line,
		    "offer '%s' has no price for %.0f days before this line", s->offer,
		    (double)(record->from - last) * 1e-9 / 86400);
		espl__hint(diag,
		    "add the missing prices, or use only the part before or after the gap");
		return ESPL_E_CONFIG;
	}
	if (s->count > 0 && record->from == last)
		s->count--; /* the later of two lines of one instant holds */
	ESPL__GROW(s->prices, s->cap, s->count + 1);
	s->prices[s->count++] = *record;
	return ESPL_OK;
}

static espl_status
refuse_file(const struct reading *r, espl_status status, struct espl__diag *diag)
{
	if (status == ESPL_E_NOMEM)
		return espl__fail(diag, status, "not enough memory to read '%s'", r->path);
	(void)espl__fail_at(diag, status, r->path, r->reader.line, "%s", r->reader.why);
	if (r->reader.hint[0] != '\0')
		espl__hint(diag, "%s", r->reader.hint);
	return status;
}

/* The next whole lines, 0 bytes at the end.  A file of many markets is larger than memory should be
 * spent on. */
static espl_status
read_block(struct reading *r, struct espl__diag *diag)
{
	struct espl__buf *b = &r->text;
	ssize_t got;

	if (r->whole > 0)
		memmove(b->data, b->data + r->whole, b->size - r->whole);
	b->size -= r->whole;
	for (r->whole = 0; r->whole == 0;) {
		if (b->size > LINE_LIMIT)
			return espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a text file", r->path);
		espl__buf_reserve(b, BLOCK);
		got = read(r->fd, b->data + b->size, BLOCK);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return espl__fail_errno(diag, "cannot read '%s'", r->path);
		b->size += (size_t)got;
		for (r->whole = b->size; got > 0 && r->whole > 0; r->whole--)
			if (b->data[r->whole - 1] == '\n')
				break;
		if (got == 0)
			break;
	}
	return ESPL_OK;
}

static espl_status
read_records(struct reading *r, struct espl__diag *diag)
{
	struct espl_price record;
	espl_status status;
	uint32_t series;

	while ((status = espl_price_reader_next(&r->reader, &series, &record)) == ESPL_OK) {
		if (series == r->of_count)
			status = add_series(r, diag);
		if (status == ESPL_OK && r->of[series] != ESPL_ANY)
			status = add_record(r, &r->file->list[r->of[series]], &record, diag);
		if (status != ESPL_OK)
			return status;
	}
	return status == ESPL_E_UNKNOWN ? ESPL_OK : refuse_file(r, status, diag);
}

static espl_status
read_lines(struct reading *r, struct espl__diag *diag)
{
	espl_status status = read_block(r, diag);

	if (status != ESPL_OK)
		return status;
	status = espl_price_reader_open(&r->reader, r->text.data, r->whole);
	if (status != ESPL_OK)
		return refuse_file(r, status, diag);
	while (status == ESPL_OK && r->whole > 0) {
		status = read_records(r, diag);
		if (status == ESPL_OK)
			status = read_block(r, diag);
		if (status == ESPL_OK)
			espl_price_reader_more(&r->reader, r->text.data, r->whole);
	}
	if (status == ESPL_OK && r->file->count == 0)
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' has no prices", r->path);
	r->file->calendar = r->reader.calendar == 1;
	return status;
}

espl_status
espl__prices_read(const char *path, struct espl__price_file *file, struct espl__diag *diag)
{
	struct reading r = { .file = file, .path = path };
	espl_status status;

	*file = (struct espl__price_file){ NULL, 0, 0, 0 };
	r.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (r.fd < 0)
		return espl__fail_errno(diag, "cannot open '%s'", path);
	status = read_lines(&r, diag);
	close(r.fd);
	espl_price_reader_close(&r.reader);
	free(r.of);
	espl__buf_free(&r.text);
	return status;
}

void
espl__prices_free(struct espl__price_file *file)
{
	for (uint32_t i = 0; i < file->count; i++)
		free_series(&file->list[i]);
	free(file->list);
	*file = (struct espl__price_file){ NULL, 0, 0, 0 };
}
