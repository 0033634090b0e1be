/* keep.c - see keep.h. */
#include "session/keep.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/wire.h"

#define AWAITED (5000 * ESPL__SESSION_MS) /* a driver that waits asks more often */

/* Reads EPOCH or EPOCH.DRIVER. */
static int
read_id(const char *id, size_t size, char epoch[ESPL__KEEP_WORD + 1], uint64_t *driver)
{
	const char *dot = memchr(id, '.', size);
	size_t length = dot != NULL ? (size_t)(dot - id) : size;
	char number[20], *end = number;

	*driver = 0;
	if (length == 0 || length > ESPL__KEEP_WORD)
		return -1;
	memcpy(epoch, id, length);
	epoch[length] = '\0';
	if (dot == NULL)
		return 0;
	size -= length + 1;
	if (size == 0 || size > 16)
		return -1;
	memcpy(number, dot + 1, size);
	number[size] = '\0';
	*driver = strtoull(number, &end, 16);
	return *end == '\0' ? 0 : -1;
}

int
espl__keep_init(struct espl__keep *k, const char *id, int64_t linger, int64_t now)
{
	memset(k, 0, sizeof *k);
	k->magic = ESPL__KEEP_MAGIC;
	k->linger = linger;
	k->received_at = now;
	k->in = k->out = 1;
	espl__stream_init(&k->stream);
	return read_id(id, strlen(id), k->epoch, &k->driver);
}

void
espl__keep_free(struct espl__keep *k)
{
	ESPL__CHECK(k, KEEP);
	espl__stream_free(&k->stream);
	espl__buf_free(&k->down);
	espl__buf_free(&k->up);
	k->magic = 0;
}

void
espl__keep_end(struct espl__keep *k, int64_t now)
{
	ESPL__CHECK(k, KEEP);
	if (!k->in)
		return;
	k->in = 0;
	k->kill_at = now + ESPL__SESSION_AGENT;
}

void
espl__keep_lose(struct espl__keep *k)
{
	ESPL__CHECK(k, KEEP);
	k->relay = 0;
	k->stream.open = 0;
}

/* What was on its way from or to the last driver is of no use to the next. */
static void
forget_driver(struct espl__keep *k)
{
	espl__keep_lose(k);
	espl__stream_free(&k->stream);
	espl__stream_init(&k->stream);
}

int
espl__keep_admit(struct espl__keep *k, const char *line, int64_t now)
{
	const char *what = strchr(line, ' ');
	char epoch[ESPL__KEEP_WORD + 1];
	uint64_t driver;
	int same;

	ESPL__CHECK(k, KEEP);
	if (what == NULL || read_id(line, (size_t)(what - line), epoch, &driver) != 0)
		return 0;
	what++;
	same = strcmp(epoch, k->epoch) == 0 && k->kill_at == 0 && strcmp(what, "end") != 0;
	if (!same) {
		int fresh = strcmp(what, "new") == 0 || strcmp(what, "end") == 0;

		if (fresh)
			espl__keep_end(k, now); /* what an earlier driver left */
		/* One that comes too late hears that its session is gone, or that it saves: then it
		 * asks again, unless it is killed. */
		if (!fresh && strcmp(epoch, k->epoch) == 0 && k->leaving && k->in)
			k->awaited_until = now + AWAITED;
		else
			k->claimed |= fresh || strcmp(epoch, k->epoch) == 0;
		return 0;
	}
	/* A channel of a driver that was killed may come up after those of the next one. */
	if (driver < k->driver || (driver > k->driver && strcmp(what, "again") == 0))
		return 0;
	if (strcmp(what, "rejoin") == 0)
		forget_driver(k);
	if (!k->out) { /* the agent ended while there was no driver */
		espl__stream_end(&k->stream);
		k->close_by = now + ESPL__SESSION_CLOSE;
	}
	k->driver = driver;
	k->relay = 1;
	k->received_at = k->acked_at = now;
	espl__stream_connect(&k->stream);
	return 1;
}

int
espl__keep_receive(struct espl__keep *k, const void *bytes, size_t count, int64_t now)
{
	ESPL__CHECK(k, KEEP);
	ESPL__ASSERT(k->relay);
	if (espl__stream_feed(&k->stream, bytes, count) != 0) {
		espl__keep_lose(k);
		return -1;
	}
	k->received_at = now;
	k->claimed |= k->stream.end_known;
	return 0;
}

/* How many bytes the whole messages at the front have, `room` at most; *broken: then comes
 * something that is none. */
static size_t
count_whole(const struct espl__buf *from, size_t room, int *bye, int *broken)
{
	struct espl__reader r;
	size_t at = 0, used;
	uint8_t type;
	int got;

	while ((got = espl__frame_get(from, at, &type, &r, &used)) == 1 && at + used <= room) {
		at += used;
		*bye |= type == ESPL__MSG_BYE;
	}
	*broken = got < 0;
	return at;
}

static void
drop_front(struct espl__buf *b, size_t count)
{
	if (count == 0)
		return;
	memmove(b->data, b->data + count, b->size - count);
	b->size -= count;
}

static void
pass_output(struct espl__keep *k)
{
	int bye = 0, broken;
	size_t size = count_whole(&k->up, espl__stream_room(&k->stream), &bye, &broken);

	if (size > 0)
		espl__stream_put(&k->stream, k->up.data, size);
	drop_front(&k->up, size);
}

static void
pass_input(struct espl__keep *k, int64_t now)
{
	int broken;
	size_t size = count_whole(&k->stream.ready, SIZE_MAX, &k->bye, &broken);

	if (k->leaving) { /* a driver that comes now is too late */
		espl__buf_clear(&k->stream.ready);
		return;
	}
	if (size > 0)
		espl__put(&k->down, k->stream.ready.data, size);
	drop_front(&k->stream.ready, size);
	if (broken)
		espl__keep_end(k, now);
}

int
espl__keep_reads(const struct espl__keep *k)
{
	ESPL__CHECK(k, KEEP);
	return k->out && (k->up.size < ESPL__KEEP_UP || !k->in || k->leaving);
}

void
espl__keep_send(struct espl__keep *k, const void *bytes, size_t count)
{
	ESPL__CHECK(k, KEEP);
	ESPL__ASSERT(k->out);
	espl__put(&k->up, bytes, count);
}

void
espl__keep_ended(struct espl__keep *k, int64_t now)
{
	ESPL__CHECK(k, KEEP);
	pass_output(k);
	k->out = 0;
	espl__stream_end(&k->stream);
	k->close_by = now + ESPL__SESSION_CLOSE;
}

void
espl__keep_pass(struct espl__keep *k, int64_t now)
{
	ESPL__CHECK(k, KEEP);
	if (k->out)
		pass_output(k);
	pass_input(k, now);
	if (!k->in) {
		espl__buf_clear(&k->stream.ready);
		espl__buf_clear(&k->down);
	}
	if (!k->stream.over)
		return;
	if (k->bye && k->down.size == 0)
		espl__keep_end(k, now);
	else if (!k->bye && k->kill_at == 0)
		forget_driver(k); /* it was killed; another one may come */
}

static void
leave_node(struct espl__keep *k, int64_t now)
{
	size_t mark;

	if (k->leaving || !k->in)
		return;
	k->leaving = 1;
	k->kill_at = now + ESPL__SESSION_LEAVE + ESPL__SESSION_AGENT;
	mark = espl__frame_begin(&k->down, ESPL__MSG_LEAVE);
	espl__put_str(&k->down, k->epoch);
	espl__frame_end(&k->down, mark);
}

int
espl__keep_tend(struct espl__keep *k, int64_t now)
{
	int64_t silent = now - k->received_at;
	int kill = 0;

	ESPL__CHECK(k, KEEP);
	/* A driver that lives connects again, or hears that it comes too late. */
	if (silent >= k->linger || (k->stream.open && silent >= ESPL__SESSION_SILENT))
		espl__keep_lose(k);
	if (silent >= k->linger)
		leave_node(k, now);
	if (k->kill_at != 0 && now >= k->kill_at) {
		kill = 1;
		k->kill_at = now + ESPL__SESSION_AGENT;
	}
	if (k->stream.open && now - k->acked_at >= ESPL__SESSION_ALIVE) {
		k->acked_at = now;
		espl__stream_ack(&k->stream);
	}
	espl__stream_pump(&k->stream);
	return kill;
}

int
espl__keep_over(const struct espl__keep *k, int64_t now)
{
	ESPL__CHECK(k, KEEP);
	if (k->last && !k->bye && !k->claimed &&
	    (now - k->received_at < k->linger || now < k->awaited_until))
		return 0;
	return !k->out &&
	    (now >= k->close_by || !k->relay ||
		(espl__stream_done(&k->stream) && k->stream.out.size == 0));
}

int
espl__keep_orphaned(const struct espl__keep *k, int64_t now)
{
	ESPL__CHECK(k, KEEP);
	return !k->bye && !k->claimed && now - k->received_at >= k->linger &&
	    now >= k->awaited_until;
}
