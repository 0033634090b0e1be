/* fuzz_config.c - any bytes as a configuration file: read, checked, printed, read again.
 *
 * What follows a byte 0x1e is taken as --set assignments, one a line.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *     -fno-sanitize-recover=undefined -I. -Icore -Isdk/include tests/fuzz/fuzz_config.c \
 *     core/config/[a-z]*.c base/[a-z]*.c -lconfig -lm -o fuzz_config
 *   ./fuzz_config -max_total_time=60 -max_len=4096 -dict=tests/fuzz/config.dict \
 *     tests/fuzz/corpus/config
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "input/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

#define CHECK(c_) \
	do { \
		if (!(c_)) \
			abort(); \
	} while (0)

static int file = -1;
static char path[64];

static void
put_text(const void *text, size_t size)
{
	if (file < 0) {
		file = memfd_create("fuzz", MFD_CLOEXEC);
		CHECK(file >= 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	}
	CHECK(ftruncate(file, 0) == 0);
	CHECK(pwrite(file, text, size, 0) == (ssize_t)size);
}

/* A tree that was printed reads back to what prints the same. */
static void
tree_round(const char *text)
{
	struct espl__tree *tree, *again;
	struct espl__buf one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (espl__tree_parse(text, "fuzz", &tree, &diag) != ESPL_OK) {
		CHECK(diag.status != ESPL_OK && diag.text[0] != '\0');
		return;
	}
	espl__node_print(espl__tree_root(tree), 0, &one);
	CHECK(espl__tree_parse(espl__buf_text(&one), "again", &again, NULL) == ESPL_OK);
	espl__node_print(espl__tree_root(again), 0, &two);
	CHECK(strcmp(espl__buf_text(&one), espl__buf_text(&two)) == 0);
	espl__tree_free(again);
	espl__tree_free(tree);
	espl__buf_free(&one);
	espl__buf_free(&two);
}

static void
run_round(const char *const *sets, uint32_t set_count, enum espl__need need)
{
	struct espl__run_config *config, *again;
	struct espl__buf one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (espl__run_load(path, sets, set_count, need, &config, &diag) != ESPL_OK) {
		CHECK(diag.status != ESPL_OK && diag.text[0] != '\0');
		return;
	}
	/* what one decision needs is no run that could be printed */
	if (need == ESPL__NEED_NOTHING) {
		espl__run_free(config);
		return;
	}
	espl__run_print(config, &one);
	put_text(one.data, one.size);
	CHECK(espl__run_load(path, NULL, 0, need, &again, NULL) == ESPL_OK);
	espl__run_print(again, &two);
	CHECK(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
	espl__run_free(again);
	espl__run_free(config);
	espl__buf_free(&one);
	espl__buf_free(&two);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *mark = size > 0 ? memchr(data, 0x1e, size) : NULL;
	size_t length = mark != NULL ? (size_t)(mark - data) : size;
	char *text = espl__alloc(size + 1), *rest, *line;
	const char *sets[8];
	uint32_t count = 0;

	if (size > 0)
		memcpy(text, data, size);
	rest = mark != NULL ? text + length + 1 : NULL;
	while (count < 8 && (line = strsep(&rest, "\n")) != NULL)
		sets[count++] = line;
	text[length] = '\0';
	tree_round(text);
	for (int need = ESPL__NEED_SEARCH; need <= ESPL__NEED_NOTHING; need++) {
		put_text(data, length);
		run_round(sets, count, (enum espl__need)need);
	}
	free(text);
	return 0;
}
