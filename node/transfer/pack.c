/* pack.c - see pack.h. */
#include "transfer/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/below.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "checkpoint/checkpoint.h"

#define LOOSE_MOST ((size_t)8 << 20)
#define SYNCED 64 /* entries synced one by one; syncfs() for the rest */
#define TEXT_MAX ((uint32_t)64 << 20)
#define FILE_MOST (UINT64_C(1) << 60)
/* Room that an arriving directory leaves on the disk for the journal: a 20th of it, at most. */
#define ROOM_LEFT (UINT64_C(256) << 20)

enum { SIZE = 0, TEXT, MODE, CONTENT, DONE };

static espl_status
fail_damaged(struct espl__diag *diag)
{
	return espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
}

static void
close_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- from a directory ------------------------------------------------------------------------ */

/* A copy of MANIFEST to be cut into lines. */
static char *
cut_lines(const struct espl__buf *text, struct espl__buf *copy, uint64_t *entries)
{
	espl__buf_clear(copy);
	if (text->size > 0)
		espl__put(copy, text->data, text->size);
	return espl__manifest_lines(copy, entries);
}

/* The size of the stream of a directory with this MANIFEST, which is cut into lines; -1: it is
 * damaged, or describes more than can exist. */
static int
size_of_stream(const struct espl__buf *text, struct espl__buf *lines, uint64_t *size)
{
	struct espl__sealed e;
	uint64_t entries, seen = 0;
	char *line = cut_lines(text, lines, &entries);
	int got = -1;

	*size = 4 + text->size;
	while (line != NULL && (got = espl__manifest_next(&line, &e)) == 1) {
		if (++seen > ESPL__MANIFEST_ENTRIES)
			return -1;
		if (e.kind == 'f' && (e.size > FILE_MOST || (*size += 4 + e.size) > FILE_MOST))
			return -1;
	}
	return got == 0 && seen == entries ? 0 : -1;
}

espl_status
espl__pack_open(struct espl__pack *p, const char *dir, struct espl__diag *diag)
{
	uint64_t entries;
	espl_status status;

	memset(p, 0, sizeof *p);
	p->file = -1;
	p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->dir < 0)
		return espl__fail_errno(diag, "its directory cannot be opened");
	status = espl__manifest_read(p->dir, &p->text, diag);
	if (status != ESPL_OK)
		return status;
	p->digest = espl__digest(0, p->text.data, p->text.size);
	if (p->text.size > TEXT_MAX || size_of_stream(&p->text, &p->lines, &p->size) != 0)
		return fail_damaged(diag);
	p->line = cut_lines(&p->text, &p->lines, &entries);
	return ESPL_OK;
}

/* Puts the next file at hand; `file` stays -1 at the end. */
static espl_status
open_next(struct espl__pack *p, struct espl__buf *to, struct espl__diag *diag)
{
	struct espl__sealed e;
	struct stat st;
	int got;

	while ((got = espl__manifest_next(&p->line, &e)) == 1 && e.kind != 'f')
		;
	if (got <= 0)
		return got == 0 ? ESPL_OK : fail_damaged(diag);
	p->file = espl__below_open(p->dir, e.name, O_RDONLY, 0);
	if (p->file < 0 || fstat(p->file, &st) != 0)
		return espl__fail_errno(diag, "'%s' cannot be opened", e.name);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e.size)
		return espl__fail(diag, ESPL_E_CONFIG, "'%s' is damaged: it has another size",
		    e.name);
	p->left = e.size;
	espl__put_u32(to, st.st_mode & 0777);
	return ESPL_OK;
}

static espl_status
read_file(struct espl__pack *p, size_t most, struct espl__buf *to, struct espl__diag *diag)
{
	size_t size = p->left < most ? (size_t)p->left : most;
	ssize_t got;

	espl__buf_reserve(to, size);
	got = read(p->file, to->data + to->size, size);
	if (got < 0 && errno == EINTR)
		return ESPL_OK;
	if (got < 0)
		return espl__fail_errno(diag, "one of its files cannot be read");
	if (got == 0)
		return espl__fail(diag, ESPL_E_CONFIG, "one of its files has become shorter");
	to->size += (size_t)got;
	p->left -= (uint64_t)got;
	return ESPL_OK;
}

espl_status
espl__pack_read(struct espl__pack *p, size_t most, struct espl__buf *to, struct espl__diag *diag)
{
	size_t from = to->size;
	espl_status status = ESPL_OK;

	if (!p->begun) {
		p->begun = 1;
		espl__put_u32(to, (uint32_t)p->text.size);
		espl__put(to, p->text.data, p->text.size);
	}
	while (status == ESPL_OK && to->size - from < most) {
		if (p->file < 0) {
			status = open_next(p, to, diag);
			if (p->file < 0)
				break;
		}
		if (status == ESPL_OK && p->left > 0)
			status = read_file(p, most, to, diag);
		if (p->left == 0)
			close_file(&p->file);
	}
	return status;
}

void
espl__pack_close(struct espl__pack *p)
{
	close_file(&p->dir);
	close_file(&p->file);
	espl__buf_free(&p->text);
	espl__buf_free(&p->lines);
}

/* ---- to a directory -------------------------------------------------------------------------- */

char *
espl__pack_part(const char *place)
{
	static unsigned number;
	const char *base = strrchr(place, '/');

	return espl__format("%.*s/" ESPL__UNPACK_PREFIX "%ld-%u-%s", (int)(base - place), place,
	    (long)getpid(), __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED), base + 1);
}

/* Refused before it fills the disk. */
static int
has_room(int dir, uint64_t size)
{
	struct statvfs fs;
	uint64_t left, room;

	if (fstatvfs(dir, &fs) != 0 || fs.f_blocks == 0) /* some file systems do not say */
		return 1;
	left = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	return size + (left < ROOM_LEFT ? left : ROOM_LEFT) <= room;
}

espl_status
espl__unpack_open(struct espl__unpack *u, const char *place, uint64_t digest, uint64_t size,
    struct espl__diag *diag)
{
	memset(u, 0, sizeof *u);
	u->dir = u->file = -1;
	if (strchr(place, '/') == NULL)
		return espl__fail(diag, ESPL_E_BUG, "'%s' is not a place", place);
	u->place = espl__strdup(place);
	u->part = espl__pack_part(place);
	u->digest = digest;
	u->size = size;
	if (size > FILE_MOST)
		return fail_damaged(diag);
	if (espl__tree_remove(u->part, diag) != ESPL_OK ||
	    espl__dir_make_private(u->part, diag) != ESPL_OK)
		return diag != NULL ? diag->status : ESPL_E_REMOTE;
	u->dir = open(u->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->dir < 0)
		return espl__fail_errno(diag, "cannot open directory '%s'", u->part);
	errno = ENOSPC;
	return has_room(u->dir, size)
	    ? ESPL_OK
	    : espl__fail_errno(diag, "no room for its %" PRIu64 " bytes", size);
}

static espl_status
end_file(struct espl__unpack *u, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (u->crc != u->want)
		status = espl__fail(diag, ESPL_E_CONFIG, "a file has a wrong checksum");
	else if (u->entries <= SYNCED && fsync(u->file) != 0)
		status = espl__fail_errno(diag, "cannot store a file");
	close_file(&u->file);
	return status;
}

/* Makes directories up to the next file, which it creates. */
static espl_status
next_file(struct espl__unpack *u, struct espl__diag *diag)
{
	struct espl__sealed e;
	int got;

	while ((got = espl__manifest_next(&u->line, &e)) == 1) {
		u->seen++;
		if (e.kind == 'd' && espl__below_mkdir(u->dir, e.name) != 0)
			return espl__fail_errno(diag, "cannot create directory '%s'", e.name);
		if (e.kind != 'f')
			continue;
		u->file = espl__below_open(u->dir, e.name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (u->file < 0)
			return espl__fail_errno(diag, "cannot create '%s'", e.name);
		u->left = e.size;
		u->want = e.crc;
		u->crc = 0;
		u->stage = MODE;
		return ESPL_OK;
	}
	u->stage = DONE;
	return got < 0 || u->seen != u->entries ? fail_damaged(diag) : ESPL_OK;
}

static espl_status
take_text(struct espl__unpack *u, struct espl__diag *diag)
{
	uint64_t size;

	if (espl__digest(0, u->text.data, u->text.size) != u->digest)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "the list of files does not match its digest");
	if (size_of_stream(&u->text, &u->lines, &size) != 0 || size != u->size)
		return fail_damaged(diag);
	u->line = cut_lines(&u->text, &u->lines, &u->entries);
	return u->line == NULL ? fail_damaged(diag) : next_file(u, diag);
}

/* The four-byte length before a line or a file's contents. */
static espl_status
take_head(struct espl__unpack *u, struct espl__diag *diag)
{
	struct espl__reader r = espl__reader(u->head.data, u->head.size);
	uint32_t value = espl__get_u32(&r);

	espl__buf_clear(&u->head);
	if (u->stage == SIZE) {
		if (value == 0 || value > TEXT_MAX)
			return fail_damaged(diag);
		u->left = value;
		u->stage = TEXT;
		return ESPL_OK;
	}
	u->stage = CONTENT;
	if (fchmod(u->file, espl__mode_below(value)) != 0)
		return espl__fail_errno(diag, "cannot set the mode of a file");
	return ESPL_OK;
}

/* The disk writes while more comes, and not all of it at the end. */
static void
write_back(struct espl__unpack *u, size_t step)
{
	u->loose += step;
	if (u->loose < LOOSE_MOST)
		return;
	u->loose = 0;
	(void)sync_file_range(u->file, 0, 0, SYNC_FILE_RANGE_WRITE);
}

espl_status
espl__unpack_write(struct espl__unpack *u, const uint8_t *at, size_t size, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	while (status == ESPL_OK && (size > 0 || (u->stage == CONTENT && u->left == 0))) {
		size_t step = u->stage == SIZE || u->stage == MODE ? 4 - u->head.size
		    : u->left < size                               ? (size_t)u->left
								   : size;

		step = step < size ? step : size;
		if (u->stage == DONE)
			return espl__fail(diag, ESPL_E_CONFIG,
			    "received more data than was announced");
		if (u->stage == SIZE || u->stage == MODE) {
			espl__put(&u->head, at, step);
			status = u->head.size == 4 ? take_head(u, diag) : ESPL_OK;
		} else if (u->stage == TEXT) {
			espl__put(&u->text, at, step);
			u->left -= step;
			status = u->left == 0 ? take_text(u, diag) : ESPL_OK;
		} else {
			if (step > 0 && espl__write_all(u->file, at, step) != 0)
				return espl__fail_errno(diag, "cannot write a file");
			write_back(u, step);
			u->crc = espl__crc32c(u->crc, at, step);
			u->left -= step;
			if (u->left == 0) {
				status = end_file(u, diag);
				status = status == ESPL_OK ? next_file(u, diag) : status;
			}
		}
		at += step;
		size -= step;
	}
	return status;
}

/* A link that leads out of the directory is not made: it stays a line of MANIFEST, and the trial
 * that restores the checkpoint gets it (checkpoint/checkpoint_check.c).  Its place must exist. */
static int
make_link(int dir, const struct espl__sealed *e)
{
	const char *last;
	int parent;

	if (espl__link_is_inside(e->name, e->target))
		return espl__below_symlink(dir, e->name, e->target);
	parent = espl__below_parent(dir, e->name, 0, &last);
	if (parent < 0)
		return -1;
	close(parent);
	return 0;
}

/* Links, and every directory to the disk. */
static espl_status
finish_tree(struct espl__unpack *u, struct espl__diag *diag)
{
	struct espl__sealed e;

	u->line = cut_lines(&u->text, &u->lines, &u->entries);
	while (u->line != NULL && espl__manifest_next(&u->line, &e) == 1) {
		int fd;

		if (e.kind == 'l' && make_link(u->dir, &e) != 0)
			return espl__fail_errno(diag, "cannot create the link '%s'", e.name);
		if (e.kind != 'd' || u->entries > SYNCED)
			continue;
		fd = espl__below_open(u->dir, e.name, O_RDONLY | O_DIRECTORY, 0);
		if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
			return espl__fail_errno(diag, "cannot sync directory '%s'", e.name);
		close(fd);
	}
	if (u->entries > SYNCED && syncfs(u->dir) != 0)
		return espl__fail_errno(diag, "cannot sync it");
	return ESPL_OK;
}

int
espl__pack_place(const char *part, const char *place)
{
	struct stat st;

	if (lstat(place, &st) != 0)
		return rename(part, place);
	if (renameat2(AT_FDCWD, part, AT_FDCWD, place, RENAME_EXCHANGE) == 0)
		return 0; /* the older one is `part` now, and goes with it */
	return espl__tree_remove(place, NULL) == ESPL_OK ? rename(part, place) : -1;
}

static int
take_place(const struct espl__unpack *u)
{
	return fchmod(u->dir, 0755) != 0 ? -1 : espl__pack_place(u->part, u->place);
}

espl_status
espl__unpack_close(struct espl__unpack *u, struct espl__diag *diag)
{
	struct espl__diag inner = ESPL__DIAG_INIT;
	char *slash = strrchr(u->part, '/');
	espl_status status;
	int parent;

	if (u->stage != DONE)
		return espl__fail(diag, ESPL_E_CONFIG, "it is not complete");
	status = finish_tree(u, diag);
	if (status != ESPL_OK)
		return status;
	status = espl__file_put(u->dir, ESPL__MANIFEST, u->text.data, u->text.size, &inner);
	if (status != ESPL_OK)
		return espl__fail(diag, status, "cannot write its " ESPL__MANIFEST ": %s",
		    espl__reason(&inner));
	if ((fsync(u->dir) != 0 && errno != EINVAL) || take_place(u) != 0)
		return espl__fail_errno(diag, "cannot move it into place");
	*slash = '\0';
	parent = open(u->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent >= 0 && fsync(parent) != 0 && errno != EINVAL)
		status = espl__fail_errno(diag, "cannot sync the directory it is in");
	close_file(&parent);
	*slash = '/';
	return status;
}

void
espl__unpack_drop(struct espl__unpack *u)
{
	close_file(&u->dir);
	close_file(&u->file);
	if (u->part != NULL)
		(void)espl__tree_remove(u->part, NULL);
	free(u->part);
	free(u->place);
	espl__buf_free(&u->text);
	espl__buf_free(&u->lines);
	espl__buf_free(&u->head);
}
