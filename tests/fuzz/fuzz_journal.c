/* fuzz_journal.c - any bytes as a journal: read to its end, every event and decision decoded.
 *
 * The checksums would stop a fuzzer at the first record, so the bytes are also taken as a journal
 * whose checksums are made right first, as a ROUND's payload, and as events and decisions without
 * one. What is accepted must survive being written and read again.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
 *     -D_GNU_SOURCE -I. -Icore -Isdk/include tests/fuzz/fuzz_journal.c core/exec/event.c \
 *     core/run/journal.c core/policy/ops.c core/run/journal_repair.c base/[a-z]*.c -lm -o
 * fuzz_journal
 *   ./fuzz_journal -max_total_time=600 -max_len=4096 tests/fuzz/corpus/journal
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "exec/event.h"
#include "run/journal.h"
#include "policy/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
demand(int truth)
{
	if (!truth)
		abort();
}

static void
event_round(const struct espl__event *e, struct espl__arena *arena)
{
	struct espl__buf one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
	struct espl__event again;
	struct espl__reader r;

	espl__event_put(e, &one);
	r = espl__reader(one.data, one.size);
	demand(espl__event_get(&r, arena, &again) == 0 && r.at == r.end);
	espl__event_put(&again, &two);
	demand(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
	espl__buf_free(&one);
	espl__buf_free(&two);
}

static void
op_round(const struct espl__op *op, uint32_t params, struct espl__arena *arena)
{
	struct espl__buf one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
	struct espl__op again;
	struct espl__reader r;

	espl__op_print(op, &two);
	espl__buf_clear(&two);
	espl__op_put(op, params, &one);
	r = espl__reader(one.data, one.size);
	demand(espl__op_get(&r, params, arena, &again) == 1 && r.at == r.end);
	espl__op_put(&again, params, &two);
	demand(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
	espl__buf_free(&one);
	espl__buf_free(&two);
}

static void
events(struct espl__reader r)
{
	struct espl__arena arena = { 0 };
	struct espl__event e;

	while (r.at < r.end && espl__event_get(&r, &arena, &e) == 0)
		event_round(&e, &arena);
	espl__arena_free(&arena);
}

static void
ops(struct espl__reader r, uint32_t params)
{
	struct espl__arena arena = { 0 };
	struct espl__op op;

	while (espl__op_get(&r, params, &arena, &op) == 1)
		op_round(&op, params, &arena);
	espl__arena_free(&arena);
}

/* Time and count stand before a round's events. */
static void
events_of_round(struct espl__reader r)
{
	(void)espl__get_v64(&r);
	(void)espl__get_v64(&r);
	if (!r.bad)
		events(r);
}

/* A call's number and its answer, again and again; the search says how many parameters there are.
 */
static void
decisions(struct espl__reader r)
{
	while (r.at < r.end && !r.bad) {
		size_t size = 0;
		const void *answer;

		(void)espl__get_v64(&r);
		answer = espl__get_bytes(&r, &size);
		for (uint32_t params = 0; answer != NULL && params < 4; params++)
			ops(espl__reader(answer, size), params);
	}
}

static void
read_file(const uint8_t *data, size_t size)
{
	struct espl__journal_reader *reader;
	struct espl__journal_header header;
	char path[64];
	int fd = memfd_create("journal", MFD_CLOEXEC);

	demand(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (espl__journal_open(path, &reader, &header, NULL) == ESPL_OK) {
		enum espl__record type;
		struct espl__reader payload;
		struct espl__rest rest;
		uint64_t valid, lost;
		uint32_t chain;

		while (espl__journal_next(reader, &type, &payload, &lost, NULL) == 1)
			if (type == ESPL__REC_ROUND)
				events_of_round(payload);
			else
				decisions(payload);
		espl__journal_where(reader, &valid, &chain);
		demand(espl__journal_find_rest(path, valid, &rest, NULL) == ESPL_OK &&
		    rest.size == lost);
		espl__journal_reader_free(reader);
	}
	(void)espl__journal_is_empty(path);
	(void)close(fd);
}

/* Every record gets the checksum that it should have. */
static void
read_mended(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	uint32_t chain = 0;

	demand(copy != NULL);
	memcpy(copy, data, size);
	for (size_t at = 0; size - at >= ESPL__JOURNAL_FRAME;) {
		struct espl__reader r = espl__reader(copy + at, 4);
		size_t n = espl__get_u32(&r);

		if (n > size - at - ESPL__JOURNAL_FRAME)
			break;
		n += ESPL__JOURNAL_HEAD;
		chain = espl__crc32c(chain, copy + at, n);
		for (size_t i = 0; i < 4; i++)
			copy[at + n + i] = (uint8_t)(chain >> 8 * i);
		at += n + 4;
	}
	read_file(copy, size);
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct espl__reader r;

	if (size == 0)
		return 0;
	read_file(data, size);
	read_mended(data, size);
	r = espl__reader(data, size);
	events(r);
	events_of_round(r);
	ops(r, 3);
	decisions(r);
	return 0;
}
