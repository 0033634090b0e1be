/* fuzz_wire.c - libFuzzer: frames, START and SLOTS messages from anybody.
 *
 * The first byte says how the rest is taken: as a stream of frames whose check sums are made
 * right first (so that their contents are reached), as frames as they are, or as a START.  What
 * is accepted must survive being written and read again.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *     -fno-sanitize-recover=undefined -I. -Icore -Isdk/include tests/fuzz/fuzz_wire.c \
 *     node/wire.c base/[a-z]*.c -lm -o fuzz_wire
 *   ./fuzz_wire -max_total_time=600 -max_len=4096 tests/fuzz/corpus/wire
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "node/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
demand(int truth)
{
	if (!truth)
		abort();
}

static void
try_start(struct espl__reader r)
{
	struct espl__start s, again;
	struct espl__buf b = { NULL, 0, 0 }, c = { NULL, 0, 0 };
	struct espl__arena memory = { NULL }, other = { NULL };

	if (espl__start_get(&r, &s, &memory) != 0)
		return;
	demand(s.rank_count > 0 && s.ranks[s.rank_count - 1].rank < s.world);
	demand(s.argc == 0 || s.argv[s.argc] == NULL);
	espl__start_put(&s, &b);
	r = espl__reader(b.data, b.size);
	demand(espl__start_get(&r, &again, &other) == 0);
	espl__start_put(&again, &c);
	demand(b.size == c.size && memcmp(b.data, c.data, b.size) == 0);
	espl__buf_free(&b);
	espl__buf_free(&c);
	espl__arena_free(&memory);
	espl__arena_free(&other);
}

static void
try_slots(struct espl__reader r)
{
	struct espl__rank_slots s, again;
	struct espl__buf b = { NULL, 0, 0 }, c = { NULL, 0, 0 };
	struct espl__arena memory = { NULL }, other = { NULL };

	if (espl__rank_slots_get(&r, &s, &memory) != 0)
		return;
	for (uint32_t i = 0; i < s.count; i++)
		demand(s.ranks[i].rank <= s.meet.world);
	espl__rank_slots_put(&s, &b);
	r = espl__reader(b.data, b.size);
	demand(espl__rank_slots_get(&r, &again, &other) == 0);
	espl__rank_slots_put(&again, &c);
	demand(b.size == c.size && memcmp(b.data, c.data, b.size) == 0);
	espl__buf_free(&b);
	espl__buf_free(&c);
	espl__arena_free(&memory);
	espl__arena_free(&other);
}

static void
mend(struct espl__buf *b)
{
	for (size_t at = 0; b->size - at >= 9;) {
		size_t n = (size_t)b->data[at] | (size_t)b->data[at + 1] << 8;
		uint32_t crc;

		b->data[at + 2] = b->data[at + 3] = 0;
		if (n > b->size - at - 9)
			return;
		crc = espl__crc32c(0, b->data + at, n + 5);
		for (size_t i = 0; i < 4; i++)
			b->data[at + 5 + n + i] = (uint8_t)(crc >> 8 * i);
		at += n + 9;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__reader r;
	size_t at = 0, used;
	uint8_t type;

	if (size == 0)
		return 0;
	if (data[0] % 3 == 0) {
		try_start(espl__reader(data + 1, size - 1));
		return 0;
	}
	espl__put(&b, data + 1, size - 1);
	if (data[0] % 3 == 1 && b.size > 0)
		mend(&b);
	while (espl__frame_get(&b, at, &type, &r, &used) == 1) {
		demand(used == (size_t)(r.end - r.at) + 9 && used <= b.size - at);
		if (type == ESPL__MSG_START)
			try_start(r);
		else if (type == ESPL__MSG_SLOTS)
			try_slots(r);
		at += used;
	}
	espl__buf_free(&b);
	return 0;
}
