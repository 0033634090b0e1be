/* output_pack.c - from an output directory to a stream; see outputs.h. */
#include "transfer/outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/below.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#define DEPTH_MOST 32
#define HEAD (UINT64_C(4) + 1 + 4 + 8 + 8) /* what a file takes beside its name and content */
#define SENT "-sent"       /* behind the path of the record: what the other end has */
#define SENDING "-sending" /* ... and what it has after this stream */

/* ---- the record of what was sent ------------------------------------------------------ */

static char *
find_record(const char *dir)
{
	const char *slash = strrchr(dir, '/');

	return espl__format("%.*s/.output", (int)(slash - dir), dir);
}

static int
compare_prints(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;

	return one < two ? -1 : one > two;
}

/* If there is no record, every file is new. */
static void
mark_known(struct espl__output_pack *p)
{
	char *path = espl__format("%s" SENT, p->record);
	struct espl__buf text = { NULL, 0, 0 };
	size_t count;

	if (espl__file_read(path, ESPL__OUTPUT_FILES * sizeof(uint64_t), &text, NULL) == ESPL_OK &&
	    (count = text.size / sizeof(uint64_t)) > 0) {
		qsort(text.data, count, sizeof(uint64_t), compare_prints);
		for (size_t i = 0; i < p->count; i++)
			p->files[i].known = bsearch(&p->files[i].print, text.data, count,
						sizeof(uint64_t), compare_prints) != NULL;
	}
	espl__buf_free(&text);
	free(path);
}

static void
write_record(const struct espl__output_pack *p)
{
	char *path = espl__format("%s" SENDING, p->record);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), bad = 0;
	struct espl__buf text = { NULL, 0, 0 };

	for (size_t i = 0; i < p->count; i++)
		if (p->files[i].known)
			espl__put(&text, &p->files[i].print, sizeof p->files[i].print);
	if (fd >= 0) {
		bad = text.size > 0 && espl__write_all(fd, text.data, text.size) != 0;
		close(fd);
	}
	if (bad) /* a full disk: all of it is sent again */
		(void)unlink(path);
	espl__buf_free(&text);
	free(path);
}

/* The record of a stream that did not arrive. */
static void
drop_record(const struct espl__output_pack *p)
{
	char *path = espl__format("%s" SENDING, p->record);

	(void)unlink(path);
	free(path);
}

void
espl__output_sent(const char *dir)
{
	char *record = find_record(dir);
	char *from = espl__format("%s" SENDING, record), *to = espl__format("%s" SENT, record);

	(void)rename(from, to);
	free(from);
	free(to);
	free(record);
}

/* ---- listing -------------------------------------------------------------------------- */

static uint64_t
make_print(const char *name, const struct stat *st)
{
	uint64_t of[] = { (uint64_t)st->st_size, (uint64_t)st->st_ino, st->st_mode,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec };

	return espl__digest(espl__digest(0, of, sizeof of), name, strlen(name));
}

/* The first reason is kept. */
static void
add_note(struct espl__output_pack *p, const char *name, const char *why)
{
	if (p->note[0] == '\0')
		(void)snprintf(p->note, sizeof p->note, "'%.200s' %s", name, why);
}

/* 1: the link is to be sent. */
static int
read_link(int dir, const char *entry, const char *name, struct stat *st)
{
	char target[ESPL__OUTPUT_NAME + 1];
	ssize_t size = readlinkat(dir, entry, target, sizeof target);

	if (size <= 0 || (size_t)size >= sizeof target)
		return 0;
	target[size] = '\0';
	st->st_size = size;
	return espl__link_is_inside(name, target);
}

static void list_dir(struct espl__output_pack *, int fd, const char *prefix, int depth);

static void
list_entry(struct espl__output_pack *p, int dir, const char *entry, const char *prefix, int depth)
{
	char *name = espl__format("%s%s", prefix, entry);
	struct espl__output_file *f;
	struct stat st;
	int fd;

	if (fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		; /* it has just vanished */
	} else if (S_ISDIR(st.st_mode) && depth < DEPTH_MOST) {
		fd = openat(dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			char *below = espl__format("%s/", name);

			list_dir(p, fd, below, depth + 1);
			free(below);
		} else if (errno != ENOENT) {
			add_note(p, name, "cannot be read");
		}
	} else if (strlen(name) > ESPL__OUTPUT_NAME || S_ISDIR(st.st_mode)) {
		add_note(p, name, "is too deep in the directory");
	} else if (!S_ISREG(st.st_mode) &&
	    !(S_ISLNK(st.st_mode) && read_link(dir, entry, name, &st))) {
		add_note(p, name, "is not a file, or is a link that leads out of the directory");
	} else if (p->count == ESPL__OUTPUT_FILES) {
		add_note(p, name, "is one file too many (the limit is 10000)");
		p->full = 1;
	} else {
		ESPL__GROW(p->files, p->cap, p->count + 1);
		f = &p->files[p->count++];
		memset(f, 0, sizeof *f);
		f->print = make_print(name, &st);
		f->size = (uint64_t)st.st_size;
		f->mode = st.st_mode & 0777;
		f->kind = S_ISREG(st.st_mode) ? 'f' : 'l';
		f->name = name;
		return;
	}
	free(name);
}

/* Takes fd over. */
static void
list_dir(struct espl__output_pack *p, int fd, const char *prefix, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;

	if (dir == NULL) {
		close(fd);
		return;
	}
	while (!p->full && (e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			list_entry(p, dirfd(dir), e->d_name, prefix, depth);
	closedir(dir);
}

/* Small files first: if time runs out, the large ones are missing. */
static int
compare_files(const void *a, const void *b)
{
	const struct espl__output_file *one = a, *two = b;

	if (one->size != two->size)
		return one->size < two->size ? -1 : 1;
	return strcmp(one->name, two->name);
}

espl_status
espl__output_pack_open(struct espl__output_pack *p, const char *dir, struct espl__diag *diag)
{
	uint64_t bytes = 0;
	int fd;

	memset(p, 0, sizeof *p);
	p->opened = 1;
	p->file = -1;
	p->record = find_record(dir);
	drop_record(p);
	p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->dir < 0 && errno == ENOENT)
		return ESPL_OK; /* the trial has removed it */
	fd = p->dir < 0 ? -1 : fcntl(p->dir, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return espl__fail_errno(diag, "the directory cannot be opened");
	list_dir(p, fd, "", 0);
	if (p->count > 0)
		qsort(p->files, p->count, sizeof p->files[0], compare_files);
	mark_known(p);
	for (size_t i = 0; i < p->count; i++) {
		struct espl__output_file *f = &p->files[i];

		if (f->known)
			continue;
		if (f->size > ESPL__OUTPUT_BYTES - bytes) {
			add_note(p, f->name, "is too large (the limit is 1 GB at a time)");
			free(f->name);
			f->name = NULL; /* neither sent nor known */
			continue;
		}
		bytes += f->size;
		p->size += HEAD + strlen(f->name) + f->size;
		p->digest = espl__digest(p->digest, &f->print, sizeof f->print);
	}
	return ESPL_OK;
}

/* ---- reading -------------------------------------------------------------------------- */

/* The target of a link; what is not there any more is left out by read_content. */
static void
put_target(struct espl__output_pack *p, const struct espl__output_file *f, struct espl__buf *to)
{
	char target[ESPL__OUTPUT_NAME + 1];
	ssize_t size = espl__below_readlink(p->dir, f->name, target, sizeof target);

	if (size >= 0 && (uint64_t)size == f->size) {
		espl__put(to, target, (size_t)size);
		p->good = f->size;
		p->left = 0;
	}
}

static void
begin_file(struct espl__output_pack *p, struct espl__output_file *f, struct espl__buf *to)
{
	struct stat st;

	espl__put_u32(to, (uint32_t)strlen(f->name));
	espl__put(to, f->name, strlen(f->name));
	espl__put_u8(to, (uint8_t)f->kind);
	espl__put_u32(to, f->mode);
	espl__put_u64(to, f->size);
	p->begun = 1;
	p->left = f->size;
	p->good = ESPL__OUTPUT_VANISHED;
	if (f->kind == 'l') {
		put_target(p, f, to);
		return;
	}
	p->file = espl__below_open(p->dir, f->name, O_RDONLY, 0);
	if (p->file < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		add_note(p, f->name, "cannot be read");
	if (p->file >= 0 && (fstat(p->file, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(p->file);
		p->file = -1;
	}
	if (p->file >= 0)
		p->good = 0;
}

/* What cannot be read is filled up with zeros: the size was announced. */
static void
read_content(struct espl__output_pack *p, size_t most, struct espl__buf *to)
{
	size_t size = p->left < most ? (size_t)p->left : most;
	ssize_t got = 0;

	espl__buf_reserve(to, size);
	if (p->file >= 0) {
		do
			got = read(p->file, to->data + to->size, size);
		while (got < 0 && errno == EINTR);
		if (got > 0)
			p->good += (uint64_t)got;
	}
	if (got <= 0) {
		memset(to->data + to->size, 0, size);
		if (p->file >= 0)
			close(p->file);
		p->file = -1;
		got = (ssize_t)size;
	}
	to->size += (size_t)got;
	p->left -= (uint64_t)got;
}

static void
end_file(struct espl__output_pack *p, struct espl__output_file *f, struct espl__buf *to)
{
	struct stat st;

	/* one that has changed meanwhile is in the next stream, too */
	f->known = f->kind == 'l' ? p->good == f->size
				  : p->file >= 0 && p->good == f->size &&
		fstat(p->file, &st) == 0 && make_print(f->name, &st) == f->print;
	if (p->file >= 0)
		close(p->file);
	f->known = f->known ? 2 : 0;
	p->file = -1;
	p->begun = 0;
	espl__put_u64(to, p->good);
	p->at++;
}

/* The next file to send; NULL: there is none. */
static struct espl__output_file *
next_file(struct espl__output_pack *p)
{
	while (p->at < p->count && (p->files[p->at].known || p->files[p->at].name == NULL))
		p->at++;
	return p->at < p->count ? &p->files[p->at] : NULL;
}

espl_status
espl__output_pack_read(struct espl__output_pack *p, size_t most, struct espl__buf *to,
    struct espl__diag *diag)
{
	size_t from = to->size;
	struct espl__output_file *f;

	(void)diag;
	while (to->size - from < most && (f = next_file(p)) != NULL) {
		if (!p->begun)
			begin_file(p, f, to);
		if (p->left > 0)
			read_content(p, most, to);
		if (p->left == 0)
			end_file(p, f, to);
	}
	if (to->size > from && next_file(p) == NULL)
		write_record(p);
	return ESPL_OK;
}

/* What has arrived of a stream that was given up. */
static void
record_arrived(struct espl__output_pack *p)
{
	char *from = espl__format("%s" SENDING, p->record),
	     *to = espl__format("%s" SENT, p->record);
	uint64_t end = 0;

	for (size_t i = 0; i < p->count; i++) {
		struct espl__output_file *f = &p->files[i];

		if (f->known == 1 || f->name == NULL)
			continue;
		end += HEAD + strlen(f->name) + f->size;
		if (end > p->arrived)
			f->known = 0;
	}
	write_record(p);
	(void)rename(from, to);
	free(from);
	free(to);
}

void
espl__output_pack_close(struct espl__output_pack *p)
{
	if (!p->opened)
		return;
	if (p->arrived > 0)
		record_arrived(p);
	if (p->dir >= 0)
		close(p->dir);
	if (p->file >= 0)
		close(p->file);
	for (size_t i = 0; i < p->count; i++)
		free(p->files[i].name);
	free(p->files);
	free(p->record);
	memset(p, 0, sizeof *p);
}
