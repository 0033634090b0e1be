/* mover.c - see mover.h. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "transfer/mover_private.h"
#include "transfer/stored.h"

#define READ_STEP ((size_t)1 << 19) /* by one task */
#define MOVES_MOST 4096u

struct espl__mover *
espl__mover_new(const struct espl__mover_ops *ops, uint64_t first)
{
	struct espl__mover *m = espl__alloc(sizeof *m);

	m->magic = ESPL__MOVER_MAGIC;
	m->ops = *ops;
	m->serial = first;
	m->window = 2 * ESPL__MOVE_WINDOW;
	return m;
}

const struct espl__moved *
espl__mover_sums(const struct espl__mover *m, int kind)
{
	ESPL__CHECK(m, MOVER);
	ESPL__ASSERT(kind >= 0 && kind < ESPL__MOVED_KINDS);
	return &m->sums[kind];
}

void
espl__mover_free(struct espl__mover *m)
{
	struct espl__move *next;

	if (m == NULL)
		return;
	ESPL__CHECK(m, MOVER);
	m->closed = 1;
	for (struct espl__move *v = m->moves; v != NULL; v = next) {
		next = v->next;
		if (!v->over)
			espl__move_end(v);
	}
	if (m->working > 0)
		return;
	espl__buf_free(&m->notes);
	m->magic = 0;
	free(m);
}

/* ---- what is wanted ----------------------------------------------------------------------- */

void
espl__mover_put(struct espl__mover *m, const char *name)
{
	ESPL__CHECK(m, MOVER);
	ESPL__ASSERT(strlen(name) < ESPL__MOVE_NAME);
	(void)espl__move_add(m, name, 1, 0, ESPL__MOVE_WAITING);
	espl__mover_open(m);
}

void
espl__mover_cancel(struct espl__mover *m, const char *name)
{
	struct espl__move *v = espl__move_by_name(m, name, 1);

	ESPL__CHECK(m, MOVER);
	if (v == NULL || !v->loose || v->asked)
		return;
	if (v->stage == ESPL__MOVE_OFFERED || v->stage == ESPL__MOVE_SENDING) {
		struct espl__diag diag = ESPL__DIAG_INIT;

		(void)espl__fail(&diag, ESPL_E_CONFIG, "it took too long");
		espl__move_tell_end(m, ESPL__MSG_TREE_GONE, v, &diag);
		if (v->known > ESPL__MOVE_UNWRITTEN)
			v->output_pack.arrived = v->known - ESPL__MOVE_UNWRITTEN;
	}
	espl__move_end(v);
	espl__mover_open(m);
}

void
espl__mover_get(struct espl__mover *m, const char *name)
{
	ESPL__CHECK(m, MOVER);
	ESPL__ASSERT(strlen(name) < ESPL__MOVE_NAME);
	if (espl__move_by_name(m, name, 0) == NULL)
		espl__move_note(m, ESPL__MSG_TREE_ASK,
		    espl__move_add(m, name, 0, 1, ESPL__MOVE_ASKED));
	else
		espl__move_by_name(m, name, 0)->asked = 1;
}

void
espl__mover_restart(struct espl__mover *m)
{
	struct espl__move *v = m->moves, *next;

	ESPL__CHECK(m, MOVER);
	espl__buf_clear(&m->notes);
	for (struct espl__move *last = NULL; v != NULL && v != last; v = next) {
		next = v->next;
		if (v->over)
			continue;
		if (v->outgoing != v->asked) { /* our own wish; at the end of the list */
			struct espl__move *again = espl__move_add(m, v->name, v->outgoing, v->asked,
			    v->outgoing ? ESPL__MOVE_WAITING : ESPL__MOVE_ASKED);

			if (last == NULL)
				last = again;
			if (!v->outgoing)
				espl__move_note(m, ESPL__MSG_TREE_ASK, again);
			if (next == NULL)
				next = again;
		}
		espl__move_end(v);
	}
	espl__mover_open(m);
}

int
espl__mover_busy(const struct espl__mover *m, const char *prefix, int64_t since)
{
	ESPL__CHECK(m, MOVER);
	for (const struct espl__move *v = m->moves; v != NULL; v = v->next)
		if (!v->over && strncmp(v->name, prefix, strlen(prefix)) == 0)
			return m->moved_at >= since || v->since >= since;
	return 0;
}

/* ---- the thread's part -------------------------------------------------------------------- */

static void
check_place(struct espl__move *v)
{
	if (v->loose && v->size > ESPL__OUTPUT_STREAM)
		(void)espl__fail(&v->diag, ESPL_E_CONFIG, "it is too large");
	else if (v->loose)
		(void)espl__output_unpack_open(&v->output_unpack, v->place, &v->diag);
	v->same = !v->loose && espl__stored_digest(v->place) == v->digest;
	if (!v->same && !v->loose)
		(void)espl__unpack_open(&v->unpack, v->place, v->digest, v->size, &v->diag);
}

static void
open_place(struct espl__move *v)
{
	struct espl__stored at = { 0 };

	if (v->loose) {
		(void)espl__output_pack_open(&v->output_pack, v->place, &v->diag);
		v->pack.digest = v->output_pack.digest;
		v->pack.size = v->output_pack.size;
		return;
	}
	v->stored =
	    v->mover->ops.store != NULL && espl__stored_read(v->place, &at, NULL) == ESPL_OK;
	v->pack.digest = at.digest;
	v->pack.size = at.size;
	espl__stored_free(&at);
	if (!v->stored)
		(void)espl__pack_open(&v->pack, v->place, &v->diag);
}

static void
write_outputs(struct espl__move *v)
{
	(void)espl__output_unpack_write(&v->output_unpack, v->block.data, v->block.size, &v->diag);
	if (v->diag.status == ESPL_OK && v->known + v->block.size == v->size)
		(void)espl__output_unpack_close(&v->output_unpack, &v->diag);
}

static void
write_block(struct espl__move *v)
{
	if (v->loose) {
		write_outputs(v);
		return;
	}
	(void)espl__unpack_write(&v->unpack, v->block.data, v->block.size, &v->diag);
	if (v->diag.status == ESPL_OK && v->known + v->block.size == v->size)
		(void)espl__unpack_close(&v->unpack, &v->diag);
}

void
espl__move_work(struct espl__move *v)
{
	ESPL__CHECK(v, MOVE);
	if (v->place == NULL || (v->loose && v->asked))
		(void)espl__fail(&v->diag, ESPL_E_CONFIG, "there can be no such directory");
	else if (v->stage == ESPL__MOVE_OPENING)
		open_place(v);
	else if (v->stage == ESPL__MOVE_SENDING && v->loose)
		(void)espl__output_pack_read(&v->output_pack, READ_STEP, &v->block, &v->diag);
	else if (v->stage == ESPL__MOVE_SENDING)
		(void)espl__pack_read(&v->pack, READ_STEP, &v->block, &v->diag);
	else if (v->stage == ESPL__MOVE_CHECKING)
		check_place(v);
	else
		write_block(v);
}

/* ---- what comes --------------------------------------------------------------------------- */

void
espl__move_done(struct espl__move *v, int64_t now)
{
	struct espl__mover *m = v->mover;

	ESPL__CHECK(v, MOVE);
	ESPL__ASSERT(v->working && m->working > 0);
	v->working = 0;
	m->working--;
	if (v->over)
		espl__move_end(v);
	else if (v->outgoing)
		espl__move_opened(v, now);
	else
		espl__move_written(v, now);
	if (m->closed && m->working == 0)
		espl__mover_free(m);
}

/* Directories that the other end may have open at a time, far more than it ever needs. */
static int
is_flooded(const struct espl__mover *m)
{
	unsigned count = 0;

	for (const struct espl__move *v = m->moves; v != NULL; v = v->next)
		count++;
	return count >= MOVES_MOST;
}

int
espl__mover_receive(struct espl__mover *m, uint8_t type, struct espl__reader *r, int64_t now)
{
	char name[ESPL__MOVE_NAME];
	uint64_t serial;
	int bad = -1;

	ESPL__CHECK(m, MOVER);
	if ((type == ESPL__MSG_TREE_ASK || type == ESPL__MSG_TREE_OFFER) && is_flooded(m))
		return -1;
	if (type == ESPL__MSG_TREE_ASK) {
		espl__get_str(r, name, sizeof name);
		if (r->bad || r->at != r->end)
			return -1;
		(void)espl__move_add(m, name, 1, 1, ESPL__MOVE_WAITING);
		espl__mover_open(m);
		return 0;
	}
	serial = espl__get_v64(r);
	if (r->bad)
		return -1;
	switch (type) {
	case ESPL__MSG_TREE_OFFER: bad = espl__mover_take_offer(m, serial, r, now); break;
	case ESPL__MSG_TREE_DATA:
		bad = espl__move_take_data(espl__move_by_serial(m, serial, 0), r, now);
		break;
	case ESPL__MSG_TREE_GONE: bad = espl__mover_take_gone(m, serial, r); break;
	case ESPL__MSG_TREE_LINE: bad = espl__mover_take_line(m, serial, r, now); break;
	case ESPL__MSG_TREE_WANT:
	case ESPL__MSG_TREE_TAKEN:
	case ESPL__MSG_TREE_KEPT: bad = espl__mover_take_answer(m, type, serial, r, now); break;
	default: break;
	}
	return bad != 0 || r->bad || r->at != r->end ? -1 : 0;
}
