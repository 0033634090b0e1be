/* fuzz_journal.c - any bytes as a journal: read to its end, every event and decision decoded.
 *
 * The checksums would stop a fuzzer at the first record, so the same bytes are also taken as the
 * payload of a ROUND and of DECISIONS.  Build and run from a configured build folder:
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Icore -Isdk/include -I. \
 *     tests/fuzz/fuzz_journal.c core/exec/event.c core/exec/journal.c core/policy/ops.c core/world/mend.c core/base/?*.c \
 *     -lm -o fuzz_journal && ./fuzz_journal -max_total_time=600 tests/fuzz/corpus/journal
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/event.h"
#include "exec/journal.h"
#include "policy/ops.h"
#include "world/mend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
decode(const uint8_t *data, size_t size)
{
	struct espl__arena  arena = { 0 };
	struct espl__reader r = espl__reader(data, size);
	struct espl__event  e;
	struct espl__op     op;
	struct espl__buf    text = { 0 };

	while (r.at < r.end && espl__event_get(&r, &arena, &e) == 0)
		espl__event_put(&e, &text);
	espl__buf_clear(&text);
	r = espl__reader(data, size);
	while (espl__op_get(&r, 3, &arena, &op) == 1) {
		espl__op_print(&op, &text);
		espl__op_put(&op, 3, &text);
	}
	espl__buf_free(&text);
	espl__arena_free(&arena);
}

static void
read_file(const uint8_t *data, size_t size)
{
	struct espl__journal_reader *reader;
	struct espl__journal_header  header;
	char path[64];
	int  fd = memfd_create("journal", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (espl__journal_open(path, &reader, &header, NULL) == ESPL_OK) {
		enum espl__record   type;
		struct espl__reader payload;
		uint64_t lost;
		struct espl__rest   rest;
		uint64_t valid;
		uint32_t chain;
		while (espl__journal_next(reader, &type, &payload, &lost, NULL) == 1)
			decode(payload.at, (size_t)(payload.end - payload.at));
		espl__journal_where(reader, &valid, &chain);
		if (espl__mend_look(path, valid, &rest, NULL) != ESPL_OK || rest.size != lost)
			abort();
		espl__journal_reader_free(reader);
	}
	(void)espl__mend_hollow(path);
	(void)close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_file(data, size);
	decode(data, size);
	return 0;
}
