/* courier_put.c - a directory to the bucket: parts are read one after another and sent side by
 * side.
 */
#include "courier/courier.h"

#include <string.h>

#include "base/hash.h"
#include "transfer/pack.h"
#include "transfer/s3_text.h"

static struct espl__pack pack = { .dir = -1, .file = -1 };
static struct espl__buf ahead; /* read beyond a part */
static uint64_t parts, parts_done;
static int read_all;

void
espl__put_begin(struct espl__courier *c)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (espl__pack_open(&pack, c->place, &diag) != ESPL_OK)
		espl__courier_fail(c, 1, diag.text);
	else if (pack.digest != c->digest)
		espl__courier_fail(c, 2, "the checkpoint has been replaced by another one");
}

/* Fills a part; 0: there is none left, or reading failed. */
static int
read_part(struct espl__courier *c, struct espl__errand *e)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	espl__buf_clear(&e->bytes);
	if (ahead.size > 0)
		espl__put(&e->bytes, ahead.data, ahead.size);
	espl__buf_clear(&ahead);
	while (!read_all && e->bytes.size < c->part_size) {
		size_t before = e->bytes.size;

		if (espl__pack_read(&pack, c->part_size - before, &e->bytes, &diag) != ESPL_OK) {
			espl__courier_fail(c, 1, diag.text);
			return 0;
		}
		read_all = e->bytes.size == before;
	}
	if (e->bytes.size > c->part_size) { /* it reads whole heads */
		espl__put(&ahead, e->bytes.data + c->part_size, e->bytes.size - c->part_size);
		e->bytes.size = c->part_size;
	}
	return e->bytes.size > 0;
}

void
espl__put_more(struct espl__courier *c)
{
	for (int i = 0; i < ESPL__COURIER_PARTS && !c->over; i++) {
		struct espl__errand *e = &c->errands[i];

		if (e->state != ESPL__ERRAND_FREE || (read_all && ahead.size == 0) ||
		    !read_part(c, e))
			continue;
		e->number = ++parts;
		e->crc[0] = '\0';
		if (c->checksums)
			espl__crc_text(espl__crc32c(0, e->bytes.data, e->bytes.size), e->crc);
		espl__errand_ask(e);
	}
}

void
espl__put_done(struct espl__courier *c, struct espl__errand *e)
{
	espl__courier_moved(c, e->bytes.size);
	espl__courier_print("part %llu %s %s", (unsigned long long)e->number,
	    e->etag[0] != '\0' ? e->etag : "-", e->crc[0] != '\0' ? e->crc : "-");
	e->state = ESPL__ERRAND_FREE;
	parts_done++;
	espl__put_more(c);
	if (!c->over && read_all && ahead.size == 0 && parts_done == parts)
		espl__courier_print("sent %zu", pack.text.size);
}

void
espl__courier_close(struct espl__courier *c)
{
	if (c->put)
		espl__pack_close(&pack);
	espl__buf_free(&ahead);
}
