/* fuzz_session.c - what comes over the channel of a session, at either end, and what a relay asks a
 * keeper: any bytes in any pieces. */
#include "oracle.h"

#include "session/keep.h"
#include "session/stream.h"

static uint64_t
digest_of(uint64_t seed, const struct espl__buf *b)
{
	for (size_t i = 0; i < b->size; i++)
		seed = seed * 31 + b->data[i];
	return seed + b->size;
}

static uint64_t
feed_stream(const uint8_t *data, size_t size)
{
	struct espl__stream s;
	uint64_t answer = 0;

	espl__stream_init(&s);
	espl__stream_connect(&s);
	for (size_t at = 0; at < size;) {
		size_t step = 1 + data[at] % 64;

		step = step < size - at ? step : size - at;
		if (espl__stream_feed(&s, data + at, step) != 0)
			espl__stream_connect(&s);
		at += step;
		if (espl__stream_room(&s) >= 3 && step % 3 == 0)
			espl__stream_put(&s, "abc", 3);
		espl__stream_pump(&s);
		answer = digest_of(digest_of(answer, &s.out), &s.ready);
		demand(s.ready.size <= size && s.in.size <= size);
		espl__buf_clear(&s.out);
	}
	espl__stream_free(&s);
	return answer;
}

static uint64_t
feed_keeper(const uint8_t *data, size_t size)
{
	struct espl__keep k;
	int64_t now = 1;
	uint64_t answer = 0;
	char line[80];

	demand(espl__keep_init(&k, "1f.2", ESPL__SESSION_MS, now) == 0);
	for (size_t at = 0; at < size; now += ESPL__SESSION_MS * 10) {
		size_t step = data[at] % 79, left = size - at - 1;
		int what = data[at] >> 6;

		step = step < left ? step : left;
		memcpy(line, data + at + 1, step);
		line[step] = '\0';
		if (what == 0)
			answer = answer * 3 + (unsigned)espl__keep_admit(&k, line, now);
		else if (what == 1 && k.relay)
			answer = answer * 5 +
			    (unsigned)(espl__keep_receive(&k, data + at + 1, step, now) + 1);
		else if (what == 2 && step > 0 && k.out && espl__keep_reads(&k))
			espl__keep_send(&k, data + at + 1, step);
		else if (what == 3 && k.relay)
			espl__keep_lose(&k);
		espl__keep_pass(&k, now);
		answer = digest_of(answer, &k.down) + (unsigned)espl__keep_tend(&k, now);
		espl__buf_clear(&k.down);
		espl__buf_clear(&k.stream.out);
		at += 1 + step;
	}
	espl__keep_free(&k);
	return answer;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double begun = fuzz_seconds();

	if (size < 2)
		return 0;
	if (data[0] % 2 == 0)
		demand(feed_stream(data + 1, size - 1) == feed_stream(data + 1, size - 1));
	else
		demand(feed_keeper(data + 1, size - 1) == feed_keeper(data + 1, size - 1));
	demand_linear(begun, size);
	return 0;
}
