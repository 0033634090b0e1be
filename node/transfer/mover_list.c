/* mover_list.c - the moves of a mover, and the short messages about one of them. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/ids.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "transfer/mover_private.h"

struct espl__move *
espl__move_add(struct espl__mover *m, const char *name, int outgoing, int asked,
    enum espl__move_stage stage)
{
	struct espl__move *v = espl__alloc(sizeof *v), **at = &m->moves;
	uint64_t trial;

	v->magic = ESPL__MOVE_MAGIC;
	v->mover = m;
	v->name = espl__strdup(name);
	v->place = m->ops.place(m->ops.ctx, name, !outgoing);
	v->loose = espl__output_name(name, &trial) == 0;
	v->outgoing = outgoing;
	v->asked = asked;
	v->stage = stage;
	v->pack.dir = v->pack.file = v->unpack.dir = v->unpack.file = -1;
	while (*at != NULL)
		at = &(*at)->next;
	*at = v;
	return v;
}

struct espl__move *
espl__move_by_name(const struct espl__mover *m, const char *name, int outgoing)
{
	for (struct espl__move *v = m->moves; v != NULL; v = v->next)
		if (!v->over && v->outgoing == outgoing && strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

struct espl__move *
espl__move_by_serial(const struct espl__mover *m, uint64_t serial, int outgoing)
{
	for (struct espl__move *v = m->moves; v != NULL; v = v->next)
		if (!v->over && v->outgoing == outgoing && v->serial == serial && serial != 0)
			return v;
	return NULL;
}

static void
free_move(struct espl__move *v)
{
	struct espl__mover *m = v->mover;
	struct espl__move **at = &m->moves;

	while (*at != v)
		at = &(*at)->next;
	*at = v->next;
	if (m->turn == v)
		m->turn = NULL;
	if (m->ops.gone != NULL)
		m->ops.gone(m->ops.ctx, v);
	espl__pack_close(&v->pack);
	espl__unpack_drop(&v->unpack);
	espl__output_pack_close(&v->output_pack);
	espl__output_unpack_drop(&v->output_unpack);
	espl__buf_free(&v->ready);
	espl__buf_free(&v->block);
	free(v->name);
	free(v->place);
	v->magic = 0;
	free(v);
}

/* It is of no more use; a thread that has it is waited for. */
void
espl__move_end(struct espl__move *v)
{
	ESPL__CHECK(v, MOVE);
	if (v->outgoing && !v->over)
		v->mover->flying -= (size_t)(v->passed - v->known);
	v->over = 1;
	if (!v->working)
		free_move(v);
}

/* The same, and reports the outcome to the user, who may want the directory again at once. */
void
espl__move_finish(struct espl__move *v, int tell, const struct espl__diag *how)
{
	const struct espl__mover_ops *ops = &v->mover->ops;
	struct espl__diag diag = *how; /* may be the move's own */
	char *name = espl__strdup(v->name);
	int outgoing = v->outgoing;

	espl__move_end(v);
	if (tell)
		(outgoing ? ops->put : ops->got)(ops->ctx, name, &diag);
	free(name);
}

void
espl__move_start(struct espl__move *v)
{
	ESPL__ASSERT(!v->working && !v->over);
	v->working = 1;
	v->mover->working++;
	v->mover->ops.work(v->mover->ops.ctx, v);
}

/* ---- messages ----------------------------------------------------------------------------- */

static size_t
begin_note(struct espl__mover *m, enum espl__message type, const struct espl__move *v)
{
	size_t mark = espl__frame_begin(&m->notes, type);

	if (type == ESPL__MSG_TREE_ASK)
		espl__put_str(&m->notes, v->name);
	else
		espl__put_v64(&m->notes, v->serial);
	return mark;
}

void
espl__move_note(struct espl__mover *m, enum espl__message type, const struct espl__move *v)
{
	espl__frame_end(&m->notes, begin_note(m, type, v));
}

void
espl__move_tell_offer(struct espl__mover *m, const struct espl__move *v)
{
	size_t mark = begin_note(m, ESPL__MSG_TREE_OFFER, v);

	espl__put_str(&m->notes, v->name);
	espl__put_u64(&m->notes, v->digest);
	espl__put_v64(&m->notes, v->size);
	espl__frame_end(&m->notes, mark);
}

void
espl__move_tell_taken(struct espl__mover *m, const struct espl__move *v)
{
	size_t mark = begin_note(m, ESPL__MSG_TREE_TAKEN, v);

	espl__put_v64(&m->notes, v->told);
	espl__frame_end(&m->notes, mark);
}

/* How it ended here; `diag` NULL: well. */
void
espl__move_tell_end(struct espl__mover *m, enum espl__message type, const struct espl__move *v,
    const struct espl__diag *diag)
{
	size_t mark = begin_note(m, type, v);
	int bad = diag != NULL && diag->status != ESPL_OK;

	if (type == ESPL__MSG_TREE_GONE)
		espl__put_str(&m->notes, v->name);
	espl__put_u8(&m->notes, !bad ? 0 : espl__checkpoint_is_system(diag->status) ? 1 : 2);
	espl__put_str(&m->notes, bad ? diag->text : "");
	espl__frame_end(&m->notes, mark);
}

void
espl__move_read_end(struct espl__reader *r, struct espl__diag *diag)
{
	uint8_t how = espl__get_u8(r);
	char text[600];

	espl__get_str(r, text, sizeof text);
	if (!r->bad && how != 0)
		(void)espl__fail(diag, how == 1 ? ESPL_E_REMOTE : ESPL_E_CONFIG, "%s", text);
}

void
espl__move_sum(const struct espl__move *v, int64_t now)
{
	struct espl__moved *sum =
	    &v->mover->sums[v->loose ? (int)ESPL__MOVED_OUTPUTS : v->outgoing != 0];

	sum->count++;
	sum->bytes += v->size;
	sum->ns += v->since != 0 ? now - v->since : 0;
}
