/* fuzz_abi.c - any bytes as a plugin's descriptor: refused or accepted, never read beyond its size.
 *
 * Numbers come from the input as they are; pointers are chosen by it among memory that is really
 * there (strings, tables of just the size they claim) and NULL.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *     -fno-sanitize-recover=undefined -I. -Icore -Isdk/include tests/fuzz/fuzz_abi.c \
 *     core/plugin/abi_check.c core/config/[a-z]*.c base/[a-z]*.c -lconfig -lm -o fuzz_abi
 *   ./fuzz_abi -max_total_time=60 tests/fuzz/corpus/abi
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plugin/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

struct input {
	const uint8_t *at, *end;
	void *blocks[64]; /* of exact size, so that the sanitizer guards their ends */
	size_t block_count;
};

static uint8_t
byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint32_t
word(struct input *in)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 8 | byte(in);
	return value;
}

static void *
block(struct input *in, size_t size)
{
	void *p;

	if (in->block_count == sizeof in->blocks / sizeof in->blocks[0])
		return NULL;
	p = calloc(1, size > 0 ? size : 1);
	if (p == NULL)
		abort();
	in->blocks[in->block_count++] = p;
	return p;
}

static const char *
text(struct input *in)
{
	static const char *const common[] = { "", "a", "1", "10", "fair", "name", "x|y|z", "90s",
		"1KiB", "{ mean = \"1s\"; sd = \"1s\"; }", "( ( 1 ) )", "true", "-1", "0.5",
		"use" };
	uint8_t choice = byte(in);
	char *own;
	size_t size;

	if (choice == 0)
		return NULL;
	if (choice < 1 + sizeof common / sizeof common[0])
		return common[choice - 1];
	size = choice % 80;
	own = block(in, size + 1);
	for (size_t i = 0; own != NULL && i < size; i++)
		own[i] = (char)byte(in);
	return own;
}

static void
entry(void)
{
}

static const struct espl_option *
options(struct input *in, uint32_t count, uint32_t stride, int columns)
{
	char *table;

	if (byte(in) == 255)
		return NULL;
	/* A stride or count that must be refused gets no memory to read. */
	if (stride < sizeof(struct espl_option) || stride > 256 || stride % sizeof(void *) != 0 ||
	    count > 6)
		return block(in, 1);
	table = block(in, (size_t)count * stride);
	for (uint32_t i = 0; table != NULL && i < count; i++) {
		struct espl_option option = { .name = text(in),
			.help = text(in),
			.fallback = text(in),
			.min = text(in),
			.max = text(in),
			.choices = text(in),
			.type = byte(in),
			.flags = byte(in) };

		if (columns && byte(in) % 4 == 0) {
			option.column_count = byte(in) % 4;
			option.columns = options(in, option.column_count, stride, 0);
		}
		memcpy(table + (size_t)i * stride, &option, sizeof option);
	}
	return (const struct espl_option *)(const void *)table;
}

static const struct espl_ops *
ops(struct input *in)
{
	uint32_t size = byte(in) % 4 == 0 ? word(in) : (byte(in) % 32u) * 8u;
	size_t real = size < sizeof(struct espl_ops) ? sizeof(struct espl_ops)
	    : size > 4096                            ? sizeof(struct espl_ops)
						     : size;
	struct espl_ops *table;
	uint64_t filled = (uint64_t)word(in) << 32 | word(in);

	if (byte(in) == 255)
		return NULL;
	if (size > 4096 && size <= 65536)
		size = 70000; /* what is claimed must be there, or be refused */
	table = block(in, real);
	if (table == NULL)
		return NULL;
	table->size = size;
	for (size_t i = 1; i < real / sizeof(void *) && i < 64; i++)
		if (filled >> i & 1) {
			void (*pointer)(void) = entry;

			memcpy((char *)table + i * sizeof(void *), &pointer, sizeof pointer);
		}
	return table;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { .at = data, .end = data + size };
	struct espl_plugin plugin = { .magic = ESPL_MAGIC, .abi = ESPL_ABI, .size = sizeof plugin };
	uint8_t wild = byte(&in);
	struct espl__diag diag = ESPL__DIAG_INIT;
	espl_kind kind = byte(&in) % 8;
	void *descriptor;
	size_t room;
	void (*pointer)(void) = entry;

	if (wild & 1)
		plugin.magic = word(&in);
	if (wild & 2)
		plugin.abi = word(&in);
	if (wild & 4)
		plugin.size = word(&in);
	plugin.kind = wild & 8 ? word(&in) : byte(&in) % 6;
	plugin.name = text(&in);
	plugin.version = text(&in);
	plugin.summary = text(&in);
	plugin.caps = wild & 16 ? (uint64_t)word(&in) << 32 | word(&in) : 0;
	plugin.option_count = wild & 32 ? word(&in) : byte(&in) % 6;
	plugin.option_size =
	    wild & 64 ? word(&in) : sizeof(struct espl_option) + (byte(&in) % 4) * 8;
	if (plugin.option_count <= 4096 && plugin.option_count > 6)
		plugin.option_count = 6;
	if (plugin.option_size > 256 && plugin.option_size <= 4096)
		plugin.option_size = 256;
	plugin.options = options(&in, plugin.option_count, plugin.option_size, 1);
	plugin.ops = ops(&in);
	memcpy(&plugin.create, &pointer, sizeof plugin.create);
	memcpy(&plugin.destroy, &pointer, sizeof plugin.destroy);
	/* Only the bytes that the descriptor claims are there; the frozen head always is. */
	if (plugin.size > sizeof plugin && plugin.size <= 65536)
		plugin.size = sizeof plugin;
	room = plugin.size < sizeof plugin ? plugin.size : sizeof plugin;
	if (room < 24)
		room = 24;
	descriptor = block(&in, room);
	if (descriptor != NULL) {
		memcpy(descriptor, &plugin, room);
		if (espl__abi_check(descriptor, kind == 7 ? 0 : kind, NULL, "fuzz.so", &diag) !=
			ESPL_OK &&
		    (diag.status == ESPL_OK || diag.text[0] == '\0'))
			abort();
	}
	for (size_t i = 0; i < in.block_count; i++)
		free(in.blocks[i]);
	return 0;
}
