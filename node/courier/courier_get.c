/* courier_get.c - a directory from the bucket, checked while it is written; one that was cut
 * continues where it was. */
#include "courier/courier.h"

#include <string.h>

#include "checkpoint/checkpoint.h"
#include "transfer/pack.h"

static struct espl__unpack unpack = { .dir = -1, .file = -1 };

static void
fail_writing(struct espl__courier *c, const struct espl__diag *diag)
{
	espl__courier_fail(c, espl__checkpoint_is_system(diag->status) ? 3 : 2, diag->text);
	espl__unpack_drop(&unpack);
	memset(&unpack, 0, sizeof unpack);
	unpack.dir = unpack.file = -1;
}

void
espl__get_begin(struct espl__courier *c)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (espl__unpack_open(&unpack, c->place, c->digest, c->size, &diag) != ESPL_OK)
		fail_writing(c, &diag);
	else
		espl__errand_ask(&c->errands[0]);
}

size_t
espl__get_write(struct espl__courier *c, const void *bytes, size_t size)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (c->over)
		return 0;
	if (espl__unpack_write(&unpack, bytes, size, &diag) != ESPL_OK) {
		fail_writing(c, &diag);
		return 0;
	}
	espl__courier_moved(c, size);
	return size;
}

void
espl__get_done(struct espl__courier *c)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (espl__unpack_close(&unpack, &diag) != ESPL_OK) {
		fail_writing(c, &diag);
		return;
	}
	espl__unpack_drop(&unpack);
	espl__courier_print("done");
	c->over = 1;
}
