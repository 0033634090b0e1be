/* test_stream.c - bytes in both directions over channels that break anywhere: each arrives once and
 * in order.
 *
 * SEED= repeats one case; STREAM_CASES= says how many are tried from a new seed.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "session/stream.h"

/* An end, what its user has given and received, and the channel towards it. */
struct end {
	struct espl__stream stream;
	uint8_t *given, *received;
	size_t give, gave, took; /* in all, so far */
	struct espl__buf wire;   /* on its way to this end */
};

struct pair {
	struct end ends[2];
	struct espl__rng rng;
	uint64_t seed;
	unsigned cuts;
};

static size_t
draw(struct pair *p, size_t below)
{
	return below == 0 ? 0 : (size_t)(espl__rng_uniform(&p->rng) * (double)below);
}

static void
cut_front(struct espl__buf *b, size_t count)
{
	memmove(b->data, b->data + count, b->size - count);
	b->size -= count;
}

static void
connect_ends(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		espl__buf_clear(&p->ends[i].wire); /* what was on its way is lost */
		espl__stream_connect(&p->ends[i].stream);
	}
}

static void
open_pair(struct pair *p, uint64_t seed, size_t most)
{
	memset(p, 0, sizeof *p);
	p->seed = seed;
	espl__rng_seed(&p->rng, seed, "stream");
	for (int i = 0; i < 2; i++) {
		struct end *e = &p->ends[i];

		espl__stream_init(&e->stream);
		e->give = draw(p, most);
		e->given = malloc(e->give + 1);
		e->received = malloc(most + 1);
		for (size_t k = 0; k < e->give; k++)
			e->given[k] = (uint8_t)draw(p, 256);
	}
	connect_ends(p);
}

static void
close_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		free(p->ends[i].given);
		free(p->ends[i].received);
		espl__buf_free(&p->ends[i].wire);
		espl__stream_free(&p->ends[i].stream);
	}
}

/* The user gives some bytes, or says that there are no more. */
static void
give_some(struct pair *p, struct end *e)
{
	size_t count = draw(p, e->give - e->gave + 1), room = espl__stream_room(&e->stream);

	count = count < room ? count : room;
	if (count > 0)
		espl__stream_put(&e->stream, e->given + e->gave, count);
	e->gave += count;
	if (e->gave == e->give && !e->stream.ending && draw(p, 3) == 0)
		espl__stream_end(&e->stream);
}

static void
take_some(struct pair *p, struct end *e, const struct end *from)
{
	struct espl__buf *ready = &e->stream.ready;
	size_t count = draw(p, ready->size + 1);

	cr_assert_leq(e->took + count, from->give, "seed %llu: more bytes than were given",
	    (unsigned long long)p->seed);
	if (count == 0)
		return;
	memcpy(e->received + e->took, ready->data, count);
	e->took += count;
	cut_front(ready, count);
}

/* Some of what the end has for the channel gets into it, and some of what is in it arrives. */
static void
carry(struct pair *p, struct end *e, struct end *to)
{
	struct espl__buf *out = &e->stream.out;
	size_t count;

	espl__stream_pump(&e->stream);
	count = draw(p, out->size + 1);
	if (count > 0) {
		espl__put(&to->wire, out->data, count);
		cut_front(out, count);
	}
	count = draw(p, to->wire.size + 1);
	if (count > 0) {
		cr_assert_eq(espl__stream_feed(&to->stream, to->wire.data, count), 0,
		    "seed %llu: good bytes were refused", (unsigned long long)p->seed);
		cut_front(&to->wire, count);
	}
}

static int
is_done(const struct pair *p)
{
	return espl__stream_done(&p->ends[0].stream) && espl__stream_done(&p->ends[1].stream);
}

static void
check_pair(const struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		const struct end *e = &p->ends[i], *from = &p->ends[!i];

		cr_assert_eq(e->took, from->give, "seed %llu: %zu of %zu bytes arrived",
		    (unsigned long long)p->seed, e->took, from->give);
		cr_assert(memcmp(e->received, from->given, e->took) == 0,
		    "seed %llu: other bytes arrived", (unsigned long long)p->seed);
	}
}

static unsigned
run_case(uint64_t seed, size_t most)
{
	struct pair p;
	unsigned steps = 0, until, cuts;

	open_pair(&p, seed, most);
	until = (unsigned)draw(&p, 200); /* then it breaks no more */
	while (!is_done(&p)) {
		int i = (int)draw(&p, 2);

		cr_assert_lt(++steps, 100000, "seed %llu: it does not end",
		    (unsigned long long)seed);
		switch (draw(&p, steps < until ? 8 : 7)) {
		case 0:
		case 1: give_some(&p, &p.ends[i]); break;
		case 2:
		case 3: take_some(&p, &p.ends[i], &p.ends[!i]); break;
		case 4: espl__stream_ack(&p.ends[i].stream); break;
		case 7:
			connect_ends(&p);
			p.cuts++;
			break;
		default: carry(&p, &p.ends[i], &p.ends[!i]); break;
		}
	}
	check_pair(&p);
	cuts = p.cuts;
	close_pair(&p);
	return cuts;
}

Test(stream, every_byte_arrives_once_and_in_order)
{
	const char *said = getenv("SEED"), *many = getenv("STREAM_CASES");
	uint64_t first = said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL) * 1000000;
	uint64_t count = said != NULL ? 1
	    : many != NULL            ? strtoull(many, NULL, 10)
				      : 5000,
		 cuts = 0;

	fprintf(stderr, "stream: %llu cases from SEED=%llu\n", (unsigned long long)count,
	    (unsigned long long)first);
	for (uint64_t i = 0; i < count; i++)
		cuts += run_case(first + i, i % 50 == 0 ? 200000 : 300);
	cr_assert(said != NULL || cuts > count, "the channels hardly ever broke: %llu cuts",
	    (unsigned long long)cuts);
}

Test(stream, no_more_is_kept_than_the_window)
{
	struct pair p;
	struct end *a, *b;
	static uint8_t block[65536];
	size_t most = 0;

	open_pair(&p, 1, 1);
	a = &p.ends[0];
	b = &p.ends[1];
	for (int turn = 0; turn < 2000; turn++) { /* 128 MiB, of which nothing is taken */
		size_t room = espl__stream_room(&a->stream);

		if (room > 0)
			espl__stream_put(&a->stream, block,
			    room < sizeof block ? room : sizeof block);
		for (int i = 0; i < 2; i++) {
			struct end *e = &p.ends[i], *to = &p.ends[!i];

			espl__stream_pump(&e->stream);
			cr_assert_eq(espl__stream_feed(&to->stream, e->stream.out.data,
					 e->stream.out.size),
			    0);
			espl__buf_clear(&e->stream.out);
		}
		most = b->stream.ready.size > most ? b->stream.ready.size : most;
	}
	cr_assert_eq(espl__stream_room(&a->stream), 0);
	cr_assert_eq(most, ESPL__STREAM_WINDOW);
	close_pair(&p);
}

Test(stream, bytes_that_no_peer_would_send_are_refused)
{
	static const uint8_t garbage[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	struct pair p;
	struct espl__stream *s;
	struct espl__buf frame = { NULL, 0, 0 };

	open_pair(&p, 2, 10);
	s = &p.ends[0].stream;
	cr_assert_eq(espl__stream_feed(s, garbage, sizeof garbage - 1), -1);
	espl__stream_connect(s);
	/* A greeting of somebody who has more than was ever sent. */
	p.ends[1].stream.got = 1000;
	espl__stream_connect(&p.ends[1].stream);
	espl__put(&frame, p.ends[1].stream.out.data, p.ends[1].stream.out.size);
	cr_assert_eq(espl__stream_feed(s, frame.data, frame.size), -1);
	/* One changed bit. */
	p.ends[1].stream.got = 0;
	espl__stream_connect(s);
	espl__stream_connect(&p.ends[1].stream);
	espl__buf_clear(&frame);
	espl__put(&frame, p.ends[1].stream.out.data, p.ends[1].stream.out.size);
	frame.data[5] ^= 1;
	cr_assert_eq(espl__stream_feed(s, frame.data, frame.size), -1);
	espl__buf_free(&frame);
	close_pair(&p);
}
