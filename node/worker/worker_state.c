/* worker_state.c - a trial's whole state, to and from files, and from rank 0 to the others.
 *
 * Only rank 0 touches files: so a checkpoint made with one world restores into any other, and
 * ranks on other nodes need not see rank 0's disk.
 *
 * File `regions`: "ESPLREG1", u64 iteration, u64 count, then for each region u64 length of its
 * name, the name, u64 bytes, the bytes, u32 CRC-32C of them; numbers little-endian.  File `state`:
 * "ESPLSTA1", u64 iteration, then whatever the trainable's save wrote.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <espalier/host.h>
#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/tick.h"
#include "worker/worker.h"

#define REGIONS "ESPLREG1"
#define STATE "ESPLSTA1"
#define BLOCK ((uint64_t)1 << 20)
#define NAME_ROOM 256

struct region {
	char name[NAME_ROOM];
	void *data;
	uint64_t bytes;
	espl_device_kind where;
};
struct regions {
	struct espl_region_sink sink;
	struct region *list;
	uint32_t count, cap;
	int bad;
};

static espl_status
add_region(struct espl_region_sink *sink, const char *name, void *data, uint64_t bytes,
    espl_device_kind where)
{
	struct regions *r = (struct regions *)sink;

	if (name == NULL || name[0] == '\0' || strlen(name) >= NAME_ROOM ||
	    (data == NULL && bytes > 0)) {
		r->bad = 1;
		return ESPL_E_REJECTED;
	}
	ESPL__GROW(r->list, r->cap, r->count + 1);
	memcpy(r->list[r->count].name, name, strlen(name) + 1);
	r->list[r->count].data = data;
	r->list[r->count].bytes = bytes;
	r->list[r->count++].where = where;
	return ESPL_OK;
}

/* A trainable without regions has no state but its iteration: an empty list. */
static espl_status
list_regions(struct espl__worker *w, struct regions *r, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	*r = (struct regions){ .sink = { sizeof r->sink, 0, add_region } };
	if (!ESPL_HAS(struct espl_trainable_ops, w->ops, regions))
		return ESPL_OK;
	error.option = error.row = ESPL_ANY;
	status = w->ops->regions(w->trial, &r->sink, &error);
	if (status != ESPL_OK)
		return espl__diag_plugin(diag, w->who, status, &error);
	if (r->bad)
		return espl__fail(diag, ESPL_E_BUG,
		    "%s declares a region without a name or without memory", w->who);
	return ESPL_OK;
}

/* ---- files ------------------------------------------------------------------------------- */

struct file {
	FILE *f;
	char *path;
	espl_status status;
	struct espl__diag *diag;
};

static espl_status
open_file(struct file *f, const char *dir, const char *name, const char *mode,
    struct espl__diag *diag)
{
	f->path = espl__format("%s/%s", dir, name);
	f->diag = diag;
	f->f = fopen(f->path, mode);
	f->status = f->f != NULL ? ESPL_OK : espl__fail_errno(diag, "cannot open '%s'", f->path);
	return f->status;
}

static void
put_bytes(struct file *f, const void *bytes, size_t size)
{
	if (f->status == ESPL_OK && size > 0 && fwrite(bytes, 1, size, f->f) != size)
		f->status = espl__fail_errno(f->diag, "cannot write '%s'", f->path);
}

static void
get_bytes(struct file *f, void *bytes, size_t size)
{
	if (f->status != ESPL_OK || size == 0)
		return;
	errno = 0;
	if (fread(bytes, 1, size, f->f) == size)
		return;
	if (ferror(f->f))
		f->status = espl__fail_errno(f->diag, "cannot read '%s'", f->path);
	else
		f->status = espl__fail(f->diag, ESPL_E_CONFIG, "'%s' is truncated", f->path);
}

static void
put_number(struct file *f, uint64_t n)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(n >> 8 * i);
	put_bytes(f, bytes, sizeof bytes);
}

static uint64_t
get_number(struct file *f)
{
	uint8_t bytes[8] = { 0 };
	uint64_t n = 0;

	get_bytes(f, bytes, sizeof bytes);
	for (int i = 0; i < 8; i++)
		n |= (uint64_t)bytes[i] << 8 * i;
	return n;
}

static espl_status
close_file(struct file *f)
{
	if (f->f != NULL && fclose(f->f) != 0 && f->status == ESPL_OK)
		f->status = espl__fail_errno(f->diag, "cannot write '%s'", f->path);
	free(f->path);
	return f->status;
}

/* ---- save -------------------------------------------------------------------------------- */

static void
put_region(struct espl__worker *w, struct file *f, const struct region *r)
{
	uint8_t *block = NULL;
	uint32_t crc = 0;

	put_number(f, strlen(r->name));
	put_bytes(f, r->name, strlen(r->name));
	put_number(f, r->bytes);
	if (r->where != ESPL_CPU)
		block = espl__alloc(BLOCK);
	for (uint64_t at = 0, m; at < r->bytes && f->status == ESPL_OK; at += m) {
		const uint8_t *from = (const uint8_t *)r->data + at;

		m = r->bytes - at < BLOCK ? r->bytes - at : BLOCK;
		if (block != NULL) {
			espl_status status =
			    w->device.ops->to_host(&w->device, block, from, m, r->where);

			if (status != ESPL_OK)
				f->status = espl__fail(f->diag, status,
				    "cannot copy region '%s' from the device", r->name);
			from = block;
		}
		crc = espl__crc32c(crc, from, m);
		put_bytes(f, from, m);
	}
	free(block);
	put_number(f, crc);
}

static espl_status
save_regions(struct espl__worker *w, struct espl__diag *diag)
{
	struct regions r;
	struct file f;
	espl_status status = list_regions(w, &r, diag);

	if (status == ESPL_OK && open_file(&f, w->env.save, "regions", "wb", diag) == ESPL_OK) {
		put_bytes(&f, REGIONS, 8);
		put_number(&f, w->iteration);
		put_number(&f, r.count);
		for (uint32_t i = 0; i < r.count; i++)
			put_region(w, &f, &r.list[i]);
	}
	if (status == ESPL_OK)
		status = close_file(&f);
	free(r.list);
	return status;
}

struct file_sink {
	struct espl_byte_sink sink;
	struct file *file;
};

static espl_status
sink_write(struct espl_byte_sink *sink, const void *bytes, uint64_t count)
{
	struct file *f = ((struct file_sink *)sink)->file;

	put_bytes(f, bytes, count);
	return f->status;
}

static espl_status
save_state(struct espl__worker *w, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct file f;
	struct file_sink s = { { sizeof s.sink, 0, sink_write }, &f };

	error.option = error.row = ESPL_ANY;
	if (open_file(&f, w->env.save, "state", "wb", diag) == ESPL_OK) {
		espl_status status;

		put_bytes(&f, STATE, 8);
		put_number(&f, w->iteration);
		status = w->ops->save(w->trial, &s.sink, &error);
		if (status != ESPL_OK && f.status == ESPL_OK)
			f.status = espl__diag_plugin(diag, w->who, status, &error);
	}
	return close_file(&f);
}

static int
saves_itself(const struct espl__worker *w)
{
	return ESPL_HAS(struct espl_trainable_ops, w->ops, save) &&
	    ESPL_HAS(struct espl_trainable_ops, w->ops, load);
}

espl_status
espl__worker_save(struct espl__worker *w, struct espl__diag *diag)
{
	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(w->env.rank == 0);
	return saves_itself(w) ? save_state(w, diag) : save_regions(w, diag);
}

/* ---- restore ----------------------------------------------------------------------------- */

static void
get_region(struct espl__worker *w, struct file *f, const struct region *r)
{
	char name[NAME_ROOM] = "";
	uint8_t *block;
	uint64_t length = get_number(f), bytes;
	uint32_t crc = 0;

	if (f->status == ESPL_OK && length < NAME_ROOM)
		get_bytes(f, name, length);
	bytes = f->status == ESPL_OK && length < NAME_ROOM ? get_number(f) : 0;
	if (f->status == ESPL_OK && (strcmp(name, r->name) != 0 || bytes != r->bytes))
		f->status = espl__fail(f->diag, ESPL_E_CONFIG,
		    "the checkpoint has %" PRIu64 " bytes of '%s' where %s has %" PRIu64
		    " of '%s' (was it created with other options?)",
		    bytes, name, w->who, r->bytes, r->name);
	if (f->status != ESPL_OK)
		return;
	block = espl__alloc(BLOCK);
	for (uint64_t at = 0, m; at < bytes && f->status == ESPL_OK; at += m) {
		espl_status status;

		m = bytes - at < BLOCK ? bytes - at : BLOCK;
		get_bytes(f, block, m);
		crc = espl__crc32c(crc, block, m);
		status = w->device.ops->from_host(&w->device, (uint8_t *)r->data + at, block, m,
		    r->where);
		if (status != ESPL_OK && f->status == ESPL_OK)
			f->status = espl__fail(f->diag, status,
			    "cannot copy region '%s' to where it belongs", name);
	}
	free(block);
	if (get_number(f) != crc && f->status == ESPL_OK)
		f->status = espl__fail(f->diag, ESPL_E_CONFIG, "'%s' is damaged in region '%s'",
		    f->path, name);
}

static void
get_head(struct file *f, const char *magic, uint64_t *iteration)
{
	char head[8];

	get_bytes(f, head, sizeof head);
	if (f->status == ESPL_OK && memcmp(head, magic, sizeof head) != 0)
		f->status = espl__fail(f->diag, ESPL_E_CONFIG,
		    "'%s' is not a checkpoint of a trainable", f->path);
	*iteration = get_number(f);
}

static espl_status
read_regions(struct espl__worker *w, const struct regions *r, uint64_t *iteration,
    struct espl__diag *diag)
{
	struct file f;

	if (open_file(&f, w->env.checkpoint, "regions", "rb", diag) == ESPL_OK) {
		get_head(&f, REGIONS, iteration);
		if (get_number(&f) != r->count && f.status == ESPL_OK)
			f.status = espl__fail(diag, ESPL_E_CONFIG,
			    "'%s' and %s differ in their number of regions", f.path, w->who);
		for (uint32_t i = 0; i < r->count && f.status == ESPL_OK; i++)
			get_region(w, &f, &r->list[i]);
	}
	return close_file(&f);
}

static uint64_t
shape_of(const struct regions *r)
{
	uint64_t digest = r->count;

	for (uint32_t i = 0; i < r->count; i++) {
		uint64_t words[2] = { r->list[i].bytes, r->list[i].where };

		digest = espl__digest(digest, r->list[i].name, strlen(r->list[i].name));
		digest = espl__digest(digest, words, sizeof words);
	}
	return digest;
}

/* From rank 0's memory to that of all. */
static espl_status
share_regions(struct espl__worker *w, struct espl__comm *comm, const struct regions *r,
    uint64_t *iteration, struct espl__diag *diag)
{
	uint64_t words[2] = { shape_of(r), *iteration };
	espl_status status = espl__comm_send_all(comm, words, sizeof words, 0);

	if (status == ESPL_OK && words[0] != shape_of(r))
		return espl__fail(diag, ESPL_E_BUG,
		    "%s declares other regions on rank %" PRIu32 " than on rank 0", w->who,
		    w->env.rank);
	*iteration = words[1];
	for (uint32_t i = 0; i < r->count && status == ESPL_OK; i++) {
		const struct region *one = &r->list[i];

		if (one->where == w->device.view.kind)
			status =
			    comm->view.broadcast(&comm->view, one->data, one->bytes, ESPL_U8, 0);
		else
			status = espl__comm_send_all(comm, one->data, one->bytes, 0);
	}
	if (status == ESPL_OK)
		status = comm->view.wait(&comm->view);
	return status == ESPL_OK ? ESPL_OK
				 : espl__fail(diag, status, "a rank was lost while restoring");
}

struct memory_source {
	struct espl_byte_source source;
	const uint8_t *at;
};

static espl_status
source_read(struct espl_byte_source *source, void *bytes, uint64_t count)
{
	struct memory_source *m = (struct memory_source *)source;

	if (count > source->left)
		return ESPL_E_LIMIT;
	if (count > 0)
		memcpy(bytes, m->at, count);
	m->at += count;
	source->left -= count;
	return ESPL_OK;
}

/* words: iteration, size. */
static espl_status
read_state(struct espl__worker *w, uint8_t **bytes, uint64_t words[2], struct espl__diag *diag)
{
	struct file f;
	struct stat st;

	if (open_file(&f, w->env.checkpoint, "state", "rb", diag) == ESPL_OK) {
		get_head(&f, STATE, &words[0]);
		if (f.status == ESPL_OK && fstat(fileno(f.f), &st) != 0)
			f.status = espl__fail_errno(diag, "cannot read '%s'", f.path);
		if (f.status == ESPL_OK) {
			words[1] = (uint64_t)st.st_size - 16;
			*bytes = espl__alloc(words[1] + 1);
			get_bytes(&f, *bytes, words[1]);
		}
	}
	return close_file(&f);
}

static espl_status
load_state(struct espl__worker *w, const uint8_t *bytes, uint64_t count, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct memory_source m = { { sizeof m.source, 0, source_read, count }, bytes };
	espl_status status;

	error.option = error.row = ESPL_ANY;
	status = w->ops->load(w->trial, &m.source, &error);
	return status == ESPL_OK ? ESPL_OK : espl__diag_plugin(diag, w->who, status, &error);
}

/* From rank 0, where *bytes is not NULL, to all; words as of read_state. */
static espl_status
report_state(struct espl__comm *comm, uint8_t **bytes, uint64_t words[2], struct espl__diag *diag)
{
	espl_status status = espl__comm_send_all(comm, words, 2 * sizeof words[0], 0);

	if (status == ESPL_OK && *bytes == NULL)
		*bytes = espl__alloc(words[1] + 1);
	if (status == ESPL_OK)
		status = espl__comm_send_all(comm, *bytes, words[1], 0);
	return status == ESPL_OK ? ESPL_OK
				 : espl__fail(diag, status, "a rank was lost while restoring");
}

static espl_status
restore_state(struct espl__worker *w, uint64_t *iteration, struct espl__diag *diag)
{
	uint64_t words[2] = { 0, 0 };
	uint8_t *bytes = NULL;
	espl_status status = ESPL_OK;

	if (w->env.rank == 0)
		status = read_state(w, &bytes, words, diag);
	if (status == ESPL_OK)
		status = report_state(w->comm, &bytes, words, diag);
	if (status == ESPL_OK) {
		*iteration = words[0];
		status = load_state(w, bytes, words[1], diag);
	}
	free(bytes);
	return status;
}

espl_status
espl__worker_restore(struct espl__worker *w, struct espl__diag *diag)
{
	struct regions r;
	espl_status status;

	ESPL__CHECK(w, WORKER);
	if (saves_itself(w))
		return restore_state(w, &w->iteration, diag);
	status = list_regions(w, &r, diag);
	if (status == ESPL_OK && w->env.rank == 0)
		status = read_regions(w, &r, &w->iteration, diag);
	if (status == ESPL_OK)
		status = share_regions(w, w->comm, &r, &w->iteration, diag);
	free(r.list);
	return status;
}

/* ---- from memory to memory --------------------------------------------------------------- */

struct buffer_sink {
	struct espl_byte_sink sink;
	struct espl__buf bytes;
};

static espl_status
buffer_write(struct espl_byte_sink *sink, const void *bytes, uint64_t count)
{
	espl__put(&((struct buffer_sink *)sink)->bytes, bytes, count);
	return ESPL_OK;
}

static espl_status
share_state(struct espl__worker *w, struct espl__comm *comm, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct buffer_sink s = { { sizeof s.sink, 0, buffer_write }, { NULL, 0, 0 } };
	uint64_t words[2] = { w->iteration, 0 };
	uint8_t *bytes;
	espl_status status = ESPL_OK;

	error.option = error.row = ESPL_ANY;
	if (comm->view.rank == 0) {
		espl__buf_reserve(&s.bytes, 1);
		status = w->ops->save(w->trial, &s.sink, &error);
		if (status != ESPL_OK)
			status = espl__diag_plugin(diag, w->who, status, &error);
	}
	bytes = s.bytes.data;
	words[1] = s.bytes.size;
	if (status == ESPL_OK)
		status = report_state(comm, &bytes, words, diag);
	if (status == ESPL_OK && comm->view.rank > 0) {
		w->iteration = words[0];
		status = load_state(w, bytes, words[1], diag);
	}
	free(bytes);
	return status;
}

espl_status
espl__worker_share(struct espl__worker *w, struct espl__comm *comm, struct espl__diag *diag)
{
	uint64_t words[2] = { w->budget, (uint64_t)(espl__tick() - w->moved_at) };
	struct regions r;
	espl_status status = espl__comm_send_all(comm, words, sizeof words, 0);

	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(comm != NULL);
	if (status != ESPL_OK)
		return espl__fail(diag, status, "a rank was lost in a resize");
	w->context.budget = w->budget = words[0];
	w->moved_at = espl__tick() - (int64_t)words[1];
	if (saves_itself(w))
		return share_state(w, comm, diag);
	status = list_regions(w, &r, diag);
	if (status == ESPL_OK)
		status = share_regions(w, comm, &r, &w->iteration, diag);
	free(r.list);
	return status;
}
