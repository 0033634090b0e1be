/* comm_ring.c - collectives over TCP: every rank sends to the next and receives from the previous
 * one.
 *
 * Long vectors: reduce-scatter and all-gather round the ring. Short ones: all vectors go round and
 * every rank adds them by itself, in the same order as the ring would. A lost rank breaks its two
 * links at once; a rank that notices breaks its own links, so all know within a round trip.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "comm/comm_private.h"

#define SHORT ((uint64_t)32 << 10)   /* bytes of all ranks' vectors together */
#define SEGMENT ((uint64_t)64 << 10) /* bytes of a pipelined piece */

struct ring {
	int next, prev;
	uint8_t *room;
	size_t room_size;
};

static espl_status
break_ring(struct espl__comm *c, espl_status status)
{
	struct ring *r = c->state;

	if (c->broken == ESPL_OK)
		c->broken = status;
	(void)shutdown(r->next, SHUT_RDWR);
	(void)shutdown(r->prev, SHUT_RDWR);
	return c->broken;
}

static void *
get_room(struct ring *r, uint64_t bytes)
{
	if (r->room_size < bytes) {
		free(r->room);
		r->room = espl__alloc(bytes);
		r->room_size = bytes;
	}
	return r->room;
}

/* One side moved, or would block (0), or is lost (-1). */
static ssize_t
moved_bytes(ssize_t n, int receiving)
{
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return n == 0 && !receiving ? 0 : -1;
}

/* Sends to the next and receives from the one before at the same time. */
static espl_status
exchange_bytes(struct espl__comm *c, const void *out, uint64_t out_size, void *in, uint64_t in_size)
{
	struct ring *r = c->state;
	const uint8_t *from = out;
	uint8_t *to = in;
	int64_t deadline = espl__deadline(c->wait_limit);

	ESPL__ASSERT((out != NULL || out_size == 0) && (in != NULL || in_size == 0));
	while (out_size > 0 || in_size > 0) {
		struct pollfd p[2];
		ssize_t sent = 0, got = 0;
		int ms = -1;

		if (out_size > 0)
			sent =
			    moved_bytes(send(r->next, from, out_size, MSG_NOSIGNAL | MSG_DONTWAIT),
				0);
		if (in_size > 0)
			got = moved_bytes(recv(r->prev, to, in_size, MSG_DONTWAIT), 1);
		if (sent < 0 || got < 0)
			return break_ring(c, ESPL_E_PEER);
		/* a side that has nothing to do may have no memory either */
		if (sent > 0) {
			from += sent;
			out_size -= (uint64_t)sent;
		}
		if (got > 0) {
			to += got;
			in_size -= (uint64_t)got;
		}
		if (sent > 0 || got > 0 || (out_size == 0 && in_size == 0))
			continue;
		if (deadline != 0) {
			int64_t left = deadline - espl__tick();

			if (left <= 0)
				return break_ring(c, ESPL_E_LIMIT);
			ms = left > INT64_C(60000000000) ? 60000 : (int)((left + 999999) / 1000000);
		}
		/* A side that is done may be closed by a rank that has finished, so it is not
		 * polled. */
		p[0] = (struct pollfd){ .fd = in_size > 0 ? r->prev : -1, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = out_size > 0 ? r->next : -1, .events = POLLOUT };
		if (poll(p, 2, ms) < 0 && errno != EINTR)
			return break_ring(c, ESPL_E_PEER);
	}
	return ESPL_OK;
}

static espl_status
ring_gather(struct espl__comm *c, const void *in, void *out, uint64_t bytes)
{
	uint32_t n = c->view.world, me = c->view.rank;
	uint8_t *all = out;
	espl_status status = ESPL_OK;

	ESPL__ASSERT(me < n && bytes > 0);
	if (all + me * bytes != in)
		memmove(all + me * bytes, in, bytes);
	for (uint32_t s = 0; s + 1 < n && status == ESPL_OK; s++)
		status = exchange_bytes(c, all + (me + n - s) % n * bytes, bytes,
		    all + (me + n - s - 1) % n * bytes, bytes);
	return status;
}

static espl_status
reduce_short(struct espl__comm *c, void *data, uint64_t count, espl_dtype type, espl_reduce how)
{
	size_t each = espl__dtype_size(type);
	uint64_t bytes = count * each;
	uint8_t *all = get_room(c->state, bytes * c->view.world);
	espl_status status = ring_gather(c, data, all, bytes);

	for (uint32_t k = 0; k < c->view.world && status == ESPL_OK; k++) {
		uint64_t lo = espl__chunk(count, c->view.world, k),
			 hi = espl__chunk(count, c->view.world, k + 1);

		espl__fold((uint8_t *)data + lo * each, all + lo * each, bytes, c->view.world, k,
		    hi - lo, type, how);
	}
	return status;
}

static espl_status
ring_reduce(struct espl__comm *c, void *data, uint64_t count, espl_dtype type, espl_reduce how)
{
	uint32_t n = c->view.world, me = c->view.rank;
	size_t each = espl__dtype_size(type);
	uint8_t *v = data, *partial;
	espl_status status = ESPL_OK;

	ESPL__ASSERT(me < n && n > 1 && each > 0);
	if (count * each * n <= SHORT || count < n)
		return reduce_short(c, data, count, type, how);
	partial = get_room(c->state, (count / n + 1) * each);
	for (uint32_t s = 0; s + 1 < n && status == ESPL_OK; s++) {
		uint32_t out = (me + n - s) % n, in = (me + n - s - 1) % n;
		uint64_t a = espl__chunk(count, n, out), b = espl__chunk(count, n, out + 1);
		uint64_t lo = espl__chunk(count, n, in), hi = espl__chunk(count, n, in + 1);

		status = exchange_bytes(c, v + a * each, (b - a) * each, partial, (hi - lo) * each);
		if (status != ESPL_OK)
			break;
		espl__combine(partial, v + lo * each, hi - lo, type, how);
		memcpy(v + lo * each, partial, (hi - lo) * each);
	}
	for (uint32_t s = 0; s + 1 < n && status == ESPL_OK; s++) {
		uint32_t out = (me + 1 + n - s) % n, in = (me + n - s) % n;
		uint64_t a = espl__chunk(count, n, out), b = espl__chunk(count, n, out + 1);
		uint64_t lo = espl__chunk(count, n, in), hi = espl__chunk(count, n, in + 1);

		status = exchange_bytes(c, v + a * each, (b - a) * each, v + lo * each,
		    (hi - lo) * each);
	}
	return status;
}

/* Down the ring from root, piece by piece: a rank passes one on while the next comes in. */
static espl_status
ring_broadcast(struct espl__comm *c, void *data, uint64_t bytes, uint32_t root)
{
	uint32_t n = c->view.world, place = (c->view.rank + n - root) % n;
	uint8_t *at = data;
	uint64_t have = 0, in;
	espl_status status = ESPL_OK;

	ESPL__ASSERT(root < n && n > 1);
	if (place == 0)
		return exchange_bytes(c, at, bytes, NULL, 0);
	for (uint64_t got = 0; got < bytes && status == ESPL_OK; got += in) {
		in = bytes - got < SEGMENT ? bytes - got : SEGMENT;
		status = exchange_bytes(c, at + got - have, place + 1 < n ? have : 0, at + got, in);
		have = in;
	}
	if (status == ESPL_OK && place + 1 < n)
		status = exchange_bytes(c, at + bytes - have, have, NULL, 0);
	return status;
}

static espl_status
ring_barrier(struct espl__comm *c)
{
	uint8_t *all = get_room(c->state, c->view.world);

	all[c->view.rank] = 1;
	return ring_gather(c, all + c->view.rank, all, 1); /* it takes a word from everybody */
}

/* ---- shards ------------------------------------------------------------------------------ */

static void
add_own(uint8_t *sum, const uint8_t *shards, uint64_t stride, uint64_t at, uint64_t count,
    uint32_t mine, int begun, espl_dtype type)
{
	size_t each = espl__dtype_size(type);

	for (uint32_t i = 0; i < mine; i++) {
		const uint8_t *shard = shards + i * stride + at * each;

		if (!begun && i == 0)
			memcpy(sum, shard, count * each);
		else
			espl__combine(sum, shard, count, type, ESPL_SUM);
	}
}

/* The sum grows along the ring, from rank 0 on, piece by piece; the last rank has it all. */
static espl_status
chain_sum(struct espl__comm *c, const uint8_t *shards, uint8_t *out, uint64_t count,
    espl_dtype type, uint32_t first, uint32_t mine)
{
	size_t each = espl__dtype_size(type);
	uint64_t step = SEGMENT / each, m, have = 0;
	uint32_t n = c->view.world, me = c->view.rank;
	espl_status status = ESPL_OK;

	ESPL__ASSERT(step > 0 && me < n);
	for (uint64_t at = 0; at < count && status == ESPL_OK; at += m) {
		m = count - at < step ? count - at : step;
		status = exchange_bytes(c, out + (at - have) * each, me + 1 < n ? have * each : 0,
		    out + at * each, me > 0 ? m * each : 0);
		if (status == ESPL_OK)
			add_own(out + at * each, shards, count * each, at, m, mine, first > 0,
			    type);
		have = m;
	}
	if (status == ESPL_OK && me + 1 < n)
		status = exchange_bytes(c, out + (count - have) * each, have * each, NULL, 0);
	return status == ESPL_OK ? ring_broadcast(c, out, count * each, n - 1) : status;
}

/* The general case, slow: the shards are sent to all ranks one after another. */
static espl_status
one_by_one(struct espl__comm *c, const uint8_t *shards, uint8_t *out, uint64_t count,
    espl_dtype type, const struct espl__span *spans, const uint32_t *order)
{
	uint64_t bytes = count * espl__dtype_size(type);
	uint8_t *one = espl__alloc(bytes);
	espl_status status = ESPL_OK;
	int begun = 0;

	ESPL__ASSERT(bytes > 0);
	for (uint32_t k = 0; k < c->view.world; k++)
		for (uint64_t i = 0; i < spans[order[k]].mine && status == ESPL_OK; i++) {
			if (order[k] == c->view.rank)
				memcpy(one, shards + i * bytes, bytes);
			status = ring_broadcast(c, one, bytes, order[k]);
			if (status == ESPL_OK)
				add_own(out, one, bytes, 0, count, 1, begun, type);
			begun = 1;
		}
	free(one);
	return status;
}

static espl_status
ring_shards(struct espl__comm *c, const void *shards, void *out, uint64_t count, espl_dtype type,
    uint32_t first, uint32_t mine, uint32_t total)
{
	uint32_t n = c->view.world, *order = espl__alloc(n * sizeof *order);
	struct espl__span *spans = espl__alloc(n * sizeof *spans), own = { first, mine };
	espl_status status = ring_gather(c, &own, spans, sizeof own);
	uint64_t next = 0;
	int in_order = 1;

	if (status == ESPL_OK && espl__shards_order(spans, n, total, order) != 0)
		status = break_ring(c, ESPL_E_BUG);
	for (uint32_t r = 0; r < n; r++) { /* ranks with none pass on what they get */
		in_order = in_order && (spans[r].mine == 0 ? r > 0 : spans[r].first == next);
		next += spans[r].mine;
	}
	if (status == ESPL_OK)
		status = in_order
		    ? chain_sum(c, shards, out, count, type, mine == 0 ? 1 : first, mine)
		    : one_by_one(c, shards, out, count, type, spans, order);
	free(order);
	free(spans);
	return status;
}

/* ---- beginning and end ------------------------------------------------------------------- */

static espl_status
ring_look(struct espl__comm *c)
{
	const struct ring *r = c->state;
	const int fds[2] = { r->next, r->prev };
	char byte;

	for (int i = 0; i < 2; i++) {
		ssize_t got = recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return break_ring(c, ESPL_E_PEER);
	}
	return ESPL_OK;
}

static void
ring_finish(struct espl__comm *c)
{
	struct ring *r = c->state;

	close(r->next);
	close(r->prev);
	free(r->room);
	free(r);
}

const struct espl__comm_way espl__comm_ring = { ring_reduce, ring_broadcast, ring_gather,
	ring_barrier, ring_shards, ring_look, ring_finish };

espl_status
espl__ring_open(struct espl__comm *c, const struct espl__met *met)
{
	struct ring *r = espl__alloc(sizeof *r);

	ESPL__ASSERT(c->view.world > 1 && met->next >= 0 && met->prev >= 0);
	r->next = met->next;
	r->prev = met->prev;
	c->state = r;
	c->way = &espl__comm_ring;
	return ESPL_OK;
}
