/* stream.c - see stream.h. */
#include "session/stream.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

#define HEAD 13u
#define TAIL 4u
#define PAYLOAD_MAX ((size_t)64 << 10)
#define OUT_MAX ((size_t)256 << 10)
#define ACK_EVERY ((uint64_t)64 << 10) /* bytes received without an answer */

enum { GREETING = 1, DATA, END, ACK };

void
espl__stream_init(struct espl__stream *s)
{
	memset(s, 0, sizeof *s);
	s->magic = ESPL__STREAM_MAGIC;
}

void
espl__stream_free(struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	espl__buf_free(&s->kept);
	espl__buf_free(&s->in);
	espl__buf_free(&s->out);
	espl__buf_free(&s->ready);
	s->magic = 0;
}

static void
put_frame(struct espl__stream *s, uint8_t type, uint64_t number, const void *payload, size_t size)
{
	size_t mark = s->out.size;

	ESPL__ASSERT(size <= PAYLOAD_MAX);
	espl__put_u8(&s->out, type);
	espl__put_u64(&s->out, number);
	espl__put_u32(&s->out, (uint32_t)size);
	if (size > 0)
		espl__put(&s->out, payload, size);
	espl__put_u32(&s->out, espl__crc32c(0, s->out.data + mark, s->out.size - mark));
}

static void
drop_front(struct espl__buf *b, size_t count)
{
	if (count == 0)
		return;
	ESPL__ASSERT(count <= b->size);
	memmove(b->data, b->data + count, b->size - count);
	b->size -= count;
}

static size_t
count_kept(const struct espl__stream *s)
{
	return s->kept.size - s->gone;
}

/* Moves the rest to the front only when half of it has been removed: each byte moves once on
 * average. */
static void
drop_kept(struct espl__stream *s, size_t count)
{
	ESPL__ASSERT(count <= count_kept(s));
	s->gone += count;
	if (s->gone > s->kept.size / 2) {
		drop_front(&s->kept, s->gone);
		s->gone = 0;
	}
}

/* Bytes (END among them) that the user has. */
static uint64_t
count_taken(const struct espl__stream *s)
{
	return s->got - s->ready.size - (s->over && s->ready.size > 0);
}

void
espl__stream_connect(struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	s->open = 0;
	s->sent = 0;
	s->end_sent = 0;
	espl__buf_clear(&s->in);
	espl__buf_clear(&s->out);
	put_frame(s, GREETING, s->got, NULL, 0);
	s->acked = s->got;
}

/* ---- received ----------------------------------------------------------------------------- */

/* The other end has all bytes before `number`. */
static int
take_ack(struct espl__stream *s, uint64_t number)
{
	uint64_t end = s->base + count_kept(s);
	size_t count;

	if (number > (s->open ? s->base + s->sent : end) + s->end_sent)
		return -1; /* more than it was given */
	if (number > end) {
		s->end_known = 1;
		number = end;
	}
	if (number <= s->base)
		return 0; /* the greeting said more */
	count = (size_t)(number - s->base);
	drop_kept(s, count);
	s->base = number;
	s->sent = s->sent > count ? s->sent - count : 0;
	return 0;
}

static int
take_greeting(struct espl__stream *s, uint64_t number)
{
	if (s->open)
		return -1;
	s->end_sent = s->ending; /* it may have arrived over an earlier channel */
	if (number < s->base || take_ack(s, number) != 0)
		return -1;
	s->end_sent = s->end_known;
	s->open = 1;
	return 0;
}

static int
take_frame(struct espl__stream *s, uint8_t type, uint64_t number, const uint8_t *payload,
    size_t size)
{
	if (type == GREETING)
		return size == 0 ? take_greeting(s, number) : -1;
	if (!s->open)
		return -1;
	switch (type) {
	case DATA:
		if (number != s->got || s->over || size == 0)
			return -1;
		espl__put(&s->ready, payload, size);
		s->got += size;
		return 0;
	case END:
		if (number != s->got || s->over || size != 0)
			return -1;
		s->over = 1;
		s->got++;
		return 0;
	case ACK: return size == 0 ? take_ack(s, number) : -1;
	default: return -1;
	}
}

/* 1: a frame was taken off the front of what is at `at`; 0: it is not whole; -1: it is none. */
static int
read_frame(struct espl__stream *s, size_t *at)
{
	struct espl__reader r;
	const uint8_t *frame;
	size_t size;
	uint64_t number;
	uint8_t type;

	if (s->in.size - *at < HEAD)
		return 0;
	r = espl__reader(s->in.data + *at, s->in.size - *at);
	frame = r.at;
	type = espl__get_u8(&r);
	number = espl__get_u64(&r);
	size = espl__get_u32(&r);
	if (type < GREETING || type > ACK || size > PAYLOAD_MAX)
		return -1;
	if (s->in.size - *at < HEAD + size + TAIL)
		return 0;
	r.at += size;
	if (espl__get_u32(&r) != espl__crc32c(0, frame, HEAD + size))
		return -1;
	*at += HEAD + size + TAIL;
	return take_frame(s, type, number, frame + HEAD, size) == 0 ? 1 : -1;
}

int
espl__stream_feed(struct espl__stream *s, const void *bytes, size_t count)
{
	size_t at = 0;
	int got;

	ESPL__CHECK(s, STREAM);
	espl__put(&s->in, bytes, count);
	while ((got = read_frame(s, &at)) == 1)
		;
	drop_front(&s->in, at);
	return got;
}

/* ---- sent --------------------------------------------------------------------------------- */

size_t
espl__stream_room(const struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	return s->ending || count_kept(s) >= ESPL__STREAM_WINDOW
	    ? 0
	    : ESPL__STREAM_WINDOW - count_kept(s);
}

void
espl__stream_put(struct espl__stream *s, const void *bytes, size_t count)
{
	ESPL__CHECK(s, STREAM);
	ESPL__ASSERT(count <= espl__stream_room(s));
	espl__put(&s->kept, bytes, count);
}

void
espl__stream_end(struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	s->ending = 1;
}

void
espl__stream_ack(struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	if (!s->open)
		return;
	s->acked = count_taken(s);
	put_frame(s, ACK, s->acked, NULL, 0);
}

void
espl__stream_pump(struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	ESPL__ASSERT(s->sent <= count_kept(s));
	if (!s->open)
		return;
	if (count_taken(s) > s->acked && (s->over || count_taken(s) - s->acked >= ACK_EVERY))
		espl__stream_ack(s);
	while (s->sent < count_kept(s) && s->out.size < OUT_MAX) {
		size_t left = count_kept(s) - s->sent;
		size_t size = left < PAYLOAD_MAX ? left : PAYLOAD_MAX;

		put_frame(s, DATA, s->base + s->sent, s->kept.data + s->gone + s->sent, size);
		s->sent += size;
	}
	if (s->ending && !s->end_sent && s->sent == count_kept(s) && s->out.size < OUT_MAX) {
		put_frame(s, END, s->base + s->sent, NULL, 0);
		s->end_sent = 1;
	}
}

int
espl__stream_done(const struct espl__stream *s)
{
	ESPL__CHECK(s, STREAM);
	return s->end_known && s->over && s->ready.size == 0 && s->acked == s->got;
}
