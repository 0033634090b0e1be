/* journal.c - the journal's file: framed, chained by checksum, cut off where it is damaged.
 *
 * Writing collects records and writes them with one call; a failed write is undone with ftruncate,
 * so that a full disk never leaves half a record after a whole one. Reading maps nothing and trusts
 * nothing: sizes are bounded by the rest of the file.
 */
#include "base/assert.h"
#include "run/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#define HEAD ESPL__JOURNAL_HEAD
#define FRAME ESPL__JOURNAL_FRAME
#define WINDOW (1u << 20)

#define ESPL__JOURNAL_MAGIC 0x6d687275u
struct espl__journal {
	uint32_t magic; /* ESPL__JOURNAL_MAGIC */
	int fd;
	uint32_t chain;
	uint64_t size;      /* bytes in the file, all whole records */
	uint64_t mark_size; /* in the file and gathered, see espl__journal_mark */
	uint32_t mark_chain;
	struct espl__buf gathered;
	char *path;
};

#define ESPL__JOURNAL_READER_MAGIC 0x64617b7cu
struct espl__journal_reader {
	uint32_t magic; /* ESPL__JOURNAL_READER_MAGIC */
	int fd;
	uint32_t chain;
	uint64_t valid; /* bytes of whole records so far */
	uint64_t file_size;
	struct espl__buf window; /* bytes read but not yet consumed start at `from` */
	size_t from;
	char *path;
};

static void
frame_record(struct espl__buf *b, uint32_t *chain, enum espl__record type, const void *payload,
    size_t size)
{
	size_t start = b->size;
	uint32_t crc;

	espl__put_u32(b, (uint32_t)size);
	espl__put_u8(b, (uint8_t)type);
	espl__put(b, payload, size);
	crc = espl__crc32c(*chain, b->data + start, b->size - start);
	espl__put_u32(b, crc);
	*chain = crc;
}

static void
put_header(struct espl__buf *b, const struct espl__journal_header *h)
{
	espl__put(b, ESPL__JOURNAL_TITLE, ESPL__JOURNAL_TITLE_SIZE);
	espl__put_u32(b, h->format);
	espl__put_str(b, h->version);
	espl__put_u64(b, h->seed);
	espl__put_u64(b, h->token);
	espl__put_u64(b, h->digest);
	espl__put_u64(b, (uint64_t)h->utc_start_s);
	espl__put_u8(b, h->simulated != 0);
}

static espl_status
open_writer(const char *path, int flags, struct espl__journal **out, struct espl__diag *diag)
{
	struct espl__journal *j = espl__alloc(sizeof *j);

	j->magic = ESPL__JOURNAL_MAGIC;
	j->fd = open(path, flags | O_WRONLY | O_CLOEXEC, 0644);
	if (j->fd < 0) {
		espl_status status = espl__fail_errno(diag, "cannot open the journal '%s'", path);
		free(j);
		return status;
	}
	j->path = espl__strdup(path);
	*out = j;
	return ESPL_OK;
}

espl_status
espl__journal_create(const char *path, const struct espl__journal_header *header,
    struct espl__journal **out, struct espl__diag *diag)
{
	struct espl__buf payload = { 0 };
	espl_status status = open_writer(path, O_CREAT | O_EXCL, out, diag);

	if (status != ESPL_OK)
		return status;
	put_header(&payload, header);
	espl__journal_add(*out, ESPL__REC_HEADER, payload.data, payload.size);
	espl__buf_free(&payload);
	status = espl__journal_commit(*out, 1, diag);
	if (status != ESPL_OK) {
		(void)unlink(path);
		(void)espl__journal_close(*out, NULL);
		*out = NULL;
	}
	return status;
}

espl_status
espl__journal_append_to(const char *path, uint64_t valid, uint32_t chain,
    struct espl__journal **out, struct espl__diag *diag)
{
	espl_status status = open_writer(path, 0, out, diag);

	ESPL__ASSERT(valid > 0 && out != NULL);
	if (status != ESPL_OK)
		return status;
	if (ftruncate((*out)->fd, (off_t)valid) != 0 || lseek((*out)->fd, 0, SEEK_END) < 0) {
		status = espl__fail_errno(diag,
		    "cannot truncate the journal '%s' to its last complete record", path);
		(void)close((*out)->fd);
		free((*out)->path);
		free(*out);
		*out = NULL;
		return status;
	}
	(*out)->size = valid;
	(*out)->chain = chain;
	return ESPL_OK;
}

void
espl__journal_add(struct espl__journal *j, enum espl__record type, const void *payload, size_t size)
{
	ESPL__CHECK(j, JOURNAL);
	frame_record(&j->gathered, &j->chain, type, payload, size);
}

void
espl__journal_mark(struct espl__journal *j)
{
	ESPL__CHECK(j, JOURNAL);
	j->mark_size = j->size + j->gathered.size;
	j->mark_chain = j->chain;
}

espl_status
espl__journal_take_back(struct espl__journal *j, struct espl__diag *diag)
{
	ESPL__CHECK(j, JOURNAL);
	j->chain = j->mark_chain;
	if (j->mark_size >= j->size) {
		j->gathered.size = (size_t)(j->mark_size - j->size);
		return ESPL_OK;
	}
	j->gathered.size = 0;
	if (ftruncate(j->fd, (off_t)j->mark_size) != 0 ||
	    lseek(j->fd, (off_t)j->mark_size, SEEK_SET) < 0)
		return espl__fail_errno(diag, "cannot remove the last record of the journal '%s'",
		    j->path);
	j->size = j->mark_size;
	return ESPL_OK;
}

espl_status
espl__journal_commit(struct espl__journal *j, int sync, struct espl__diag *diag)
{
	ESPL__CHECK(j, JOURNAL);
	if (j->gathered.size > 0) {
		if (espl__write_all(j->fd, j->gathered.data, j->gathered.size) != 0) {
			espl_status status = espl__fail_errno(diag, "cannot write the journal");
			if (ftruncate(j->fd, (off_t)j->size) != 0 ||
			    lseek(j->fd, (off_t)j->size, SEEK_SET) < 0)
				espl__hint(diag,
				    "its end may be incomplete; it is truncated when the run is "
				    "continued");
			else
				espl__hint(diag, "free some disk space, then continue the run");
			j->gathered.size = 0;
			return status;
		}
		j->size += j->gathered.size;
		j->gathered.size = 0;
	}
	if (sync && fdatasync(j->fd) != 0 && errno != EINVAL && errno != EROFS)
		return espl__fail_errno(diag, "cannot sync the journal");
	return ESPL_OK;
}

size_t
espl__journal_pending(const struct espl__journal *j)
{
	ESPL__CHECK(j, JOURNAL);
	return j->gathered.size;
}

espl_status
espl__journal_close(struct espl__journal *j, struct espl__diag *diag)
{
	espl_status status;

	if (j == NULL)
		return ESPL_OK;
	status = espl__journal_commit(j, 0, diag);
	if (close(j->fd) != 0 && status == ESPL_OK)
		status = espl__fail_errno(diag, "cannot close the journal");
	espl__buf_free(&j->gathered);
	free(j->path);
	j->magic = 0;
	free(j);
	return status;
}

/* ---- reading --------------------------------------------------------------------------- */

/* At least `need` unread bytes in the window; 0 at the file's end, -1 on an error. */
static int
fill_window(struct espl__journal_reader *r, size_t need, struct espl__diag *diag)
{
	if (r->window.size - r->from >= need)
		return 1;
	if (r->from > 0) {
		memmove(r->window.data, r->window.data + r->from, r->window.size - r->from);
		r->window.size -= r->from;
		r->from = 0;
	}
	while (r->window.size < need) {
		ssize_t got;

		espl__buf_reserve(&r->window, need > WINDOW ? need : WINDOW);
		got = read(r->fd, r->window.data + r->window.size, r->window.cap - r->window.size);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			(void)espl__fail_errno(diag, "cannot read the journal '%s'", r->path);
			return -1;
		}
		if (got == 0)
			return 0;
		r->window.size += (size_t)got;
	}
	return 1;
}

int
espl__journal_next(struct espl__journal_reader *r, enum espl__record *type,
    struct espl__reader *payload, uint64_t *lost, struct espl__diag *diag)
{
	struct espl__reader head, tail;
	uint32_t size, crc;
	int got;

	ESPL__CHECK(r, JOURNAL_READER);
	*lost = r->file_size - r->valid;
	got = fill_window(r, HEAD, diag);
	if (got <= 0)
		return got;
	head = espl__reader(r->window.data + r->from, HEAD);
	size = espl__get_u32(&head);
	if ((uint64_t)size + FRAME > r->file_size - r->valid)
		return 0;
	got = fill_window(r, (size_t)size + FRAME, diag);
	if (got <= 0)
		return got;
	tail = espl__reader(r->window.data + r->from + HEAD + size, 4);
	crc = espl__crc32c(r->chain, r->window.data + r->from, (size_t)size + HEAD);
	if (espl__get_u32(&tail) != crc)
		return 0;
	*type = (enum espl__record)r->window.data[r->from + 4];
	if (*type < ESPL__REC_HEADER || *type > ESPL__REC_CLOSED)
		return 0;
	*payload = espl__reader(r->window.data + r->from + HEAD, size);
	r->from += (size_t)size + FRAME;
	r->valid += (uint64_t)size + FRAME;
	r->chain = crc;
	*lost = r->file_size - r->valid;
	return 1;
}

static espl_status
read_header(struct espl__journal_reader *r, struct espl__journal_header *h, struct espl__diag *diag)
{
	enum espl__record type;
	struct espl__reader p;
	uint64_t lost;
	int got = espl__journal_next(r, &type, &p, &lost, diag);

	if (got < 0)
		return ESPL_E_REMOTE;
	memset(h, 0, sizeof *h);
	if (got == 0 || type != ESPL__REC_HEADER ||
	    (size_t)(p.end - p.at) < ESPL__JOURNAL_TITLE_SIZE ||
	    memcmp(p.at, ESPL__JOURNAL_TITLE, ESPL__JOURNAL_TITLE_SIZE) != 0)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is not an espalier journal, or its header is damaged", r->path);
	p.at += ESPL__JOURNAL_TITLE_SIZE;
	h->format = espl__get_u32(&p);
	if (h->format < ESPL__JOURNAL_FORMAT_LEAST || h->format > ESPL__JOURNAL_FORMAT) {
		(void)espl__fail(diag, ESPL_E_CONFIG,
		    "the journal '%s' has format %u, but this version of espalier reads format %u",
		    r->path, (unsigned)h->format, ESPL__JOURNAL_FORMAT);
		espl__hint(diag,
		    "it was written by another version of espalier; continue it with that version");
		return ESPL_E_CONFIG;
	}
	espl__get_str(&p, h->version, sizeof h->version);
	h->seed = espl__get_u64(&p);
	h->token = espl__get_u64(&p);
	h->digest = espl__get_u64(&p);
	h->utc_start_s = (int64_t)espl__get_u64(&p);
	h->simulated = espl__get_u8(&p);
	if (p.bad)
		return espl__fail(diag, ESPL_E_CONFIG, "the header of the journal '%s' is damaged",
		    r->path);
	return ESPL_OK;
}

espl_status
espl__journal_open(const char *path, struct espl__journal_reader **out,
    struct espl__journal_header *header, struct espl__diag *diag)
{
	struct espl__journal_reader *r = espl__alloc(sizeof *r);
	struct stat st;
	espl_status status;

	r->magic = ESPL__JOURNAL_READER_MAGIC;
	r->path = espl__strdup(path);
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0 || fstat(r->fd, &st) != 0) {
		status = espl__fail_errno(diag, "cannot open the journal '%s'", path);
	} else if (!S_ISREG(st.st_mode)) {
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is %s, not a journal", path,
		    S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
	} else {
		r->file_size = (uint64_t)st.st_size;
		status = read_header(r, header, diag);
	}
	if (status != ESPL_OK) {
		espl__journal_reader_free(r);
		return status;
	}
	*out = r;
	return ESPL_OK;
}

void
espl__journal_where(const struct espl__journal_reader *r, uint64_t *valid, uint32_t *chain)
{
	ESPL__CHECK(r, JOURNAL_READER);
	*valid = r->valid;
	*chain = r->chain;
}

void
espl__journal_reader_free(struct espl__journal_reader *r)
{
	if (r == NULL)
		return;
	if (r->fd >= 0)
		(void)close(r->fd);
	espl__buf_free(&r->window);
	free(r->path);
	r->magic = 0;
	free(r);
}
