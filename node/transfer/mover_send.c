/* mover_send.c - the end that has a directory: offers it, and sends chunks as they are taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "transfer/mover_private.h"

#define MS INT64_C(1000000)
#define AHEAD ((size_t)1 << 20) /* bytes read before they may be sent */
#define WINDOW_MOST ((size_t)8 << 20)
#define CHUNK_LEAST ((size_t)4 << 10)
#define CHUNK_MOST ((size_t)64 << 10)
#define DELAY (MS / 2) /* and half of the least: chunks queue */
#define ALONE_EVERY (2000 * MS)
#define ALONE 4         /* chunks, one by one: the soonest counts */
#define ROUND 8         /* measurements that count */
#define SENDERS 4       /* directories that move at once */
#define LOOSE_SENDERS 8 /* and those that are loose: a large one must not stop the others */

void
espl__mover_open(struct espl__mover *m)
{
	static const unsigned most[] = { SENDERS, LOOSE_SENDERS };
	unsigned counts[2] = { 0, 0 }; /* [loose] */

	for (struct espl__move *v = m->moves; v != NULL; v = v->next)
		counts[v->loose] += v->outgoing && !v->over && v->stage != ESPL__MOVE_WAITING;
	for (struct espl__move *v = m->moves; v != NULL; v = v->next) {
		if (!v->outgoing || v->over || v->stage != ESPL__MOVE_WAITING ||
		    counts[v->loose] >= most[v->loose])
			continue;
		v->stage = ESPL__MOVE_OPENING;
		v->serial = ++m->serial;
		counts[v->loose]++;
		espl__move_start(v);
	}
}

/* It cannot be sent. */
static void
fail_sending(struct espl__move *v)
{
	struct espl__mover *m = v->mover;

	if (v->asked || v->stage != ESPL__MOVE_OPENING)
		espl__move_tell_end(m, ESPL__MSG_TREE_GONE, v, &v->diag);
	espl__move_finish(v, !v->asked, &v->diag);
	espl__mover_open(m);
}

/* The other end has all of it, or nothing was to be sent. */
static void
finish_loose(struct espl__move *v)
{
	struct espl__mover *m = v->mover;
	struct espl__diag diag = ESPL__DIAG_INIT;

	(void)snprintf(diag.text, sizeof diag.text, "%s", v->output_pack.note);
	espl__move_finish(v, 1, &diag);
	espl__mover_open(m);
}

static void
read_ahead(struct espl__move *v)
{
	if (v->stage == ESPL__MOVE_SENDING && !v->working && !v->read_all &&
	    v->ready.size - v->at < AHEAD)
		espl__move_start(v);
}

void
espl__move_opened(struct espl__move *v, int64_t now)
{
	if (v->diag.status != ESPL_OK) {
		fail_sending(v);
		return;
	}
	if (v->stage == ESPL__MOVE_OPENING && v->loose && v->pack.size == 0) {
		finish_loose(v); /* nothing is new */
		return;
	}
	if (v->stage == ESPL__MOVE_OPENING) {
		v->stage = ESPL__MOVE_OFFERED;
		v->since = now;
		v->digest = v->pack.digest;
		v->size = v->pack.size;
		espl__move_tell_offer(v->mover, v);
		return;
	}
	if (v->at > 0) {
		memmove(v->ready.data, v->ready.data + v->at, v->ready.size - v->at);
		v->ready.size -= v->at;
		v->at = 0;
	}
	if (v->block.size == 0)
		v->read_all = 1;
	else
		espl__put(&v->ready, v->block.data, v->block.size);
	espl__buf_clear(&v->block);
	read_ahead(v);
}

/* Chunks of the window are taken there in about the time of one alone, or they queue on the way.
 * The mean of some counts: one late chunk may be an accident. */
static void
measure_trip(struct espl__mover *m, int64_t took)
{
	if (m->alone > 0) {
		if (m->alone == ALONE || took < m->best)
			m->best = took;
		if (--m->alone == 0)
			m->least = m->mean = m->best;
		return;
	}
	m->mean += (took - m->mean) / ROUND;
	if (m->mean <= m->least + m->least / 2 + DELAY)
		m->window += m->window / 4;
	else
		m->window -= m->window / 16;
	if (m->window < ESPL__MOVE_WINDOW)
		m->window = ESPL__MOVE_WINDOW;
	if (m->window > WINDOW_MOST)
		m->window = WINDOW_MOST;
}

static void
take_credit(struct espl__move *v, uint64_t taken, int64_t now)
{
	struct espl__mover *m = v->mover;

	m->flying -= (size_t)(taken - v->known);
	v->known = taken;
	m->moved_at = now;
	if (v->probe != 0 && taken >= v->probe) {
		measure_trip(m, now - v->probe_at);
		v->probe = 0;
	}
}

static void
take_kept(struct espl__move *v, const struct espl__diag *diag, int64_t now)
{
	struct espl__mover *m = v->mover;

	m->moved_at = now;
	if (diag->status == ESPL_OK && v->stage != ESPL__MOVE_OFFERED)
		espl__move_sum(v, now);
	if (diag->status == ESPL_OK && v->loose) {
		espl__output_sent(v->place);
		finish_loose(v);
		return;
	}
	espl__move_finish(v, !v->asked, diag);
	espl__mover_open(m);
}

/* A quarter of the window: the smaller the chunks, the sooner other messages have their turn, and
 * the more of them each process on the way must handle. */
static size_t
chunk_of(const struct espl__mover *m)
{
	size_t size = m->window / 4;

	return size < CHUNK_LEAST || m->alone ? CHUNK_LEAST : size > CHUNK_MOST ? CHUNK_MOST : size;
}

/* The next sender of this kind that has something, each in its turn. */
static struct espl__move *
find_sender(struct espl__mover *m, int loose)
{
	struct espl__move *v = m->turn != NULL ? m->turn->next : m->moves;

	for (int wrapped = 0; wrapped < 2; wrapped++, v = m->moves)
		for (; v != NULL; v = v->next)
			if (v->outgoing && !v->over && v->stage == ESPL__MOVE_SENDING &&
			    v->at < v->ready.size && v->loose == loose)
				return v;
	return NULL;
}

static struct espl__move *
next_sender(struct espl__mover *m)
{
	struct espl__move *v = find_sender(m, 0);

	return v != NULL ? v : find_sender(m, 1);
}

static void
put_chunk(struct espl__mover *m, struct espl__move *v, struct espl__buf *out, int64_t now)
{
	size_t size = chunk_of(m), mark = espl__frame_begin(out, ESPL__MSG_TREE_DATA);

	size = size < v->ready.size - v->at ? size : v->ready.size - v->at;
	espl__put_v64(out, v->serial);
	espl__put_v64(out, v->passed);
	espl__put_bytes(out, v->ready.data + v->at, size);
	espl__frame_end(out, mark);
	v->at += size;
	v->passed += size;
	m->flying += size;
	m->turn = v;
	if (v->probe == 0) {
		v->probe = v->passed;
		v->probe_at = now;
	}
	read_ahead(v);
}

/* Now and then nothing is sent until all has been taken: the next chunks go one by one, and the
 * soonest shows how long the way is at present.  Chunks are never cut to fit into the window: once
 * small, they would stay small. */
static int
may_send(struct espl__mover *m, int64_t now)
{
	if (m->flying == 0 && now >= m->alone_at) {
		m->alone = ALONE;
		m->alone_at = now + ALONE_EVERY;
	}
	if (m->alone > 0)
		return m->flying == 0;
	return now < m->alone_at && m->flying + chunk_of(m) <= m->window;
}

size_t
espl__mover_pump(struct espl__mover *m, struct espl__buf *out, size_t most, int64_t now)
{
	size_t from = out->size;
	struct espl__move *v;

	ESPL__CHECK(m, MOVER);
	if (m->notes.size > 0)
		espl__put(out, m->notes.data, m->notes.size);
	espl__buf_reset(&m->notes);
	while (out->size < most && (v = next_sender(m)) != NULL && may_send(m, now))
		put_chunk(m, v, out, now);
	return out->size - from;
}

int
espl__mover_take_answer(struct espl__mover *m, uint8_t type, uint64_t serial,
    struct espl__reader *r, int64_t now)
{
	struct espl__move *v = espl__move_by_serial(m, serial, 1);
	struct espl__diag diag = ESPL__DIAG_INIT;
	uint64_t taken;

	switch (type) {
	case ESPL__MSG_TREE_WANT:
		if (v != NULL && v->stage != ESPL__MOVE_OFFERED)
			return -1;
		if (v != NULL) {
			v->stage = ESPL__MOVE_SENDING;
			if (v->stored)
				espl__move_store(v);
			else
				read_ahead(v);
		}
		return 0;
	case ESPL__MSG_TREE_TAKEN:
		taken = espl__get_v64(r);
		if (r->bad || (v != NULL && (taken > v->passed || taken < v->known)))
			return -1;
		if (v != NULL)
			take_credit(v, taken, now);
		return 0;
	default:
		espl__move_read_end(r, &diag);
		if (r->bad ||
		    (v != NULL && v->stage != ESPL__MOVE_OFFERED &&
			v->stage != ESPL__MOVE_SENDING && v->stage != ESPL__MOVE_STORING))
			return -1;
		if (v != NULL)
			take_kept(v, &diag, now);
		return 0;
	}
}
