/* backlog.c - see backlog.h. */
#include "agent/backlog.h"

#include <string.h>

#include "node/wire.h"

#define LIMIT ((size_t)1 << 20) /* more: the gang cannot be continued by another driver */

void
espl__backlog_free(struct espl__backlog *b)
{
	espl__buf_free(&b->frames);
}

void
espl__backlog_keep(struct espl__backlog *b, const void *frame, size_t size)
{
	if (b->frames.size < LIMIT)
		espl__put(&b->frames, frame, size);
}

void
espl__backlog_answered(struct espl__backlog *b)
{
	struct espl__reader r;
	size_t at = 0, used;
	uint8_t type;

	while (espl__frame_get(&b->frames, at, &type, &r, &used) == 1) {
		at += used;
		if (type != ESPL__MSG_LINE)
			continue;
		memmove(b->frames.data, b->frames.data + at, b->frames.size - at);
		b->frames.size -= at;
		return;
	}
}

int
espl__backlog_waits(const struct espl__backlog *b)
{
	struct espl__reader r;
	size_t at = 0, used;
	uint8_t type;

	while (espl__frame_get(&b->frames, at, &type, &r, &used) == 1) {
		at += used;
		if (type == ESPL__MSG_LINE)
			return 1;
	}
	return 0;
}

void
espl__backlog_state(const struct espl__backlog *b, uint64_t gang, uint64_t ranks,
    struct espl__buf *to)
{
	int whole = ranks > 0 && b->frames.size < LIMIT;
	size_t mark = espl__frame_begin(to, ESPL__MSG_STATE);

	espl__put_v64(to, gang);
	espl__put_v64(to, whole ? ranks : 0);
	espl__frame_end(to, mark);
	if (whole && b->frames.size > 0)
		espl__put(to, b->frames.data, b->frames.size);
}
