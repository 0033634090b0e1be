/* fuzz_tree.c - a checkpoint or output files as a hostile node sends them.
 *
 * An even first byte: the rest is a MANIFEST without its last line, a NUL, and the files; count,
 * sum and sizes are made right, so that the contents are reached.  An odd one: it is the stream of
 * output files.  "@" stands for the directory of a victim.
 */
#include "oracle.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "transfer/outputs.h"
#include "transfer/pack.h"

int
fsync(int fd)
{
	(void)fd;
	return 0;
}
int
syncfs(int fd)
{
	(void)fd;
	return 0;
}

static void
put_expanded(struct espl__buf *to, const uint8_t *data, size_t size, const char *victim)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] == '@')
			espl__print(to, "%s", victim);
		else
			espl__put_u8(to, data[i]);
}

/* The whole stream of a MANIFEST's lines and what follows them. */
static void
make_stream(struct espl__buf *all, uint64_t *digest, const uint8_t *data, size_t size,
    const char *victim)
{
	const uint8_t *nul = memchr(data, 0, size);
	size_t lines = nul != NULL ? (size_t)(nul - data) : size;
	struct espl__buf text = { NULL, 0, 0 };
	uint64_t entries = 0;

	espl__print(&text, "%s", ESPL__CHECKPOINT_HEADER);
	put_expanded(&text, data, lines, victim);
	if (text.data[text.size - 1] != '\n')
		espl__put_u8(&text, '\n');
	for (size_t i = sizeof ESPL__CHECKPOINT_HEADER - 1; i < text.size; i++)
		entries += text.data[i] == '\n';
	espl__print(&text, "end %llu %08x\n", (unsigned long long)entries,
	    espl__crc32c(0, text.data, text.size));
	*digest = espl__digest(0, text.data, text.size);
	espl__put_u32(all, (uint32_t)text.size);
	espl__put(all, text.data, text.size);
	if (nul != NULL && lines + 1 < size)
		espl__put(all, nul + 1, size - lines - 1);
	espl__buf_free(&text);
}

static espl_status
take_checkpoint(const char *place, const uint8_t *data, size_t size, const char *victim)
{
	struct espl__buf all = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__unpack u;
	espl_status status;
	uint64_t digest;

	make_stream(&all, &digest, data, size, victim);
	status = espl__unpack_open(&u, place, digest, all.size, &diag);
	for (size_t at = 0; status == ESPL_OK && at < all.size; at += 1000)
		status = espl__unpack_write(&u, all.data + at,
		    all.size - at < 1000 ? all.size - at : 1000, &diag);
	if (status == ESPL_OK)
		status = espl__unpack_close(&u, &diag);
	espl__unpack_drop(&u);
	espl__buf_free(&all);
	if (status == ESPL_OK)
		(void)espl__checkpoint_check(place, &diag);
	return status;
}

static espl_status
take_outputs(const char *place, const uint8_t *data, size_t size)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__output_unpack u;
	espl_status status = espl__output_unpack_open(&u, place, &diag);

	for (size_t at = 0; status == ESPL_OK && at < size; at += 100)
		status = espl__output_unpack_write(&u, data + at, size - at < 100 ? size - at : 100,
		    &diag);
	if (status == ESPL_OK)
		status = espl__output_unpack_close(&u, &diag);
	espl__output_unpack_drop(&u);
	return status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	espl_status answers[2];
	double begun = fuzz_seconds();

	if (size < 2)
		return 0;
	for (int i = 0; i < 2; i++) {
		struct fuzz_place p;
		char place[96];

		fuzz_open(&p);
		snprintf(place, sizeof place, "%s/%s", p.run,
		    data[0] % 2 == 0 ? "checkpoint-1" : "output");
		/* the victim's name is as long at both times */
		answers[i] = data[0] % 2 == 0 ? take_checkpoint(place, data + 1, size - 1, p.victim)
					      : take_outputs(place, data + 1, size - 1);
		demand(espl__tree_remove(p.run, NULL) == ESPL_OK);
		fuzz_close(&p);
	}
	demand(answers[0] == answers[1]);
	demand_linear(begun, size);
	return 0;
}
