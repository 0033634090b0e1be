/* mover_store.c - directories in a bucket: the messages that the two ends exchange instead of the
 * content. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "transfer/mover_private.h"

#define LINE_MOST 8192 /* a URL with a signature and the token of a session */

struct espl__move_view
espl__move_view(const struct espl__move *v)
{
	ESPL__CHECK(v, MOVE);
	return (struct espl__move_view){ v->name, v->place, v->outgoing, v->digest, v->size };
}

void **
espl__move_slot(struct espl__move *v)
{
	ESPL__CHECK(v, MOVE);
	return &v->slot;
}

void
espl__move_store(struct espl__move *v)
{
	v->stage = ESPL__MOVE_STORING;
	v->mover->ops.store(v->mover->ops.ctx, v);
}

void
espl__move_send_line(struct espl__move *v, const char *line)
{
	struct espl__buf *notes = &v->mover->notes;
	size_t mark;

	ESPL__CHECK(v, MOVE);
	mark = espl__frame_begin(notes, ESPL__MSG_TREE_LINE);
	espl__put_v64(notes, v->serial);
	espl__put_u8(notes, v->outgoing != 0);
	espl__put_str(notes, line);
	espl__frame_end(notes, mark);
}

int
espl__mover_take_line(struct espl__mover *m, uint64_t serial, struct espl__reader *r, int64_t now)
{
	int theirs = espl__get_u8(r);
	char line[LINE_MOST];
	struct espl__move *v;

	espl__get_str(r, line, sizeof line);
	if (r->bad || theirs > 1 || m->ops.line == NULL || strchr(line, '\n') != NULL)
		return -1;
	v = espl__move_by_serial(m, serial, !theirs);
	if (v == NULL) /* it has ended here, which the other end does not know yet */
		return 0;
	if (v->stage != ESPL__MOVE_STORING && v->stage != ESPL__MOVE_OFFERED &&
	    v->stage != ESPL__MOVE_TAKING)
		return -1;
	v->stage = ESPL__MOVE_STORING;
	m->moved_at = now;
	m->ops.line(m->ops.ctx, v, line);
	return 0;
}
