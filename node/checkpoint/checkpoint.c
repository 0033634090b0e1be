/* checkpoint.c - checkpoints that are either whole or not there.
 *
 * A rank writes files into a saving directory; the agent seals it (check sums, all of it durable,
 * MANIFEST last) and renames it.  Before a restore every byte is read again: a damaged file is
 * found here and not by the trial.  Names in these directories are the trial's: everything is
 * reached through descriptors, and no symbolic link is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

#define DEEPEST 32

#define SYNCED 64 /* entries synced one by one; syncfs() for the rest */

#define TRIES 5 /* of ours, if it is the system that fails */
#define COPY ESPL__MANIFEST ".copy"

struct seal {
	struct espl__buf text; /* of the MANIFEST */
	struct espl__diag *diag;
	uint64_t bytes, entries, files;
	uint8_t *block; /* for reading */
	/* of the attempts before */
	struct espl__buf seen; /* the longest text: the trial's content */
	uint64_t durable;      /* entries known to be on disk */
	unsigned tries;
};

static void
put_name(struct espl__buf *b, const char *name)
{
	for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++)
		if (*c <= 0x20 || *c == 0x7f || *c == '%')
			espl__print(b, "%%%02x", *c);
		else
			espl__put_u8(b, *c);
}

int
espl__checkpoint_sum(int fd, uint8_t *block, uint32_t *crc, uint64_t *size)
{
	*crc = 0;
	*size = 0;
	for (;;) {
		ssize_t got = read(fd, block, ESPL__STORE_BLOCK);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			return 0;
		*crc = espl__crc32c(*crc, block, (size_t)got);
		*size += (uint64_t)got;
	}
}

/* What the trial did to an entry is its own failure; everything else the system's. */
static espl_status
fail_entry(struct espl__diag *diag, const char *what, const char *path)
{
	int code = errno;

	if (code == EACCES || code == EPERM || code == ELOOP || code == ENOTDIR || code == ENOENT ||
	    code == ENXIO)
		return espl__fail(diag, ESPL_E_CONFIG, "cannot %s '%s' of the checkpoint: %s", what,
		    path, strerror(code));
	return espl__fail_errno(diag, "cannot %s '%s' of the checkpoint", what, path);
}

/* A file system that cannot sync a directory says EINVAL: there is nothing more to do then. */
static int
sync_fd(int fd)
{
	return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : -1;
}

/* Thousands of small files, each waiting for the disk, would take minutes: after the first few, one
 * syncfs() at the end replaces the rest. */
static int
sync_entry(const struct seal *s, int fd)
{
	return s->entries > SYNCED ? 0 : sync_fd(fd);
}

/* What a failed fsync() left behind is marked as written and will not be written again: a copy
 * will. */
static int
write_copy(const struct seal *s, int dir, const char *name, int from)
{
	struct stat st;
	ssize_t got = -1;
	int to = openat(dir, COPY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), code;

	ESPL__ASSERT(from >= 0);
	if (to < 0)
		return -1;
	if (fstat(from, &st) == 0 && fchmod(to, st.st_mode & 0777) == 0 &&
	    lseek(from, 0, SEEK_SET) == 0)
		while ((got = read(from, s->block, ESPL__STORE_BLOCK)) > 0 ||
		    (got < 0 && errno == EINTR))
			if (got > 0 && espl__write_all(to, s->block, (size_t)got) != 0) {
				got = -1;
				break;
			}
	if (got == 0 && sync_fd(to) == 0 && renameat(dir, COPY, dir, name) == 0) {
		close(to);
		return 0;
	}
	code = errno;
	(void)unlinkat(dir, COPY, 0);
	close(to);
	errno = code;
	return -1;
}

/* Brings the file's content to the disk. */
static int
sync_file(struct seal *s, int dir, const char *name, int fd)
{
	int again = s->tries > 0 && s->entries > s->durable;

	ESPL__ASSERT(s->durable <= s->entries);
	if ((again ? write_copy(s, dir, name, fd) : sync_entry(s, fd)) != 0)
		return -1;
	if ((again || s->entries <= SYNCED) && s->durable < s->entries)
		s->durable = s->entries;
	return 0;
}

/* A trial restores what it finds there, and what it restores may be a program: whatever its umask
 * was, no other user can write it.  Files of another user stay as they are. */
static int
protect(int fd, const struct stat *st)
{
	mode_t most = S_ISDIR(st->st_mode) ? 07755 : 0755;

	return (st->st_mode & 07777 & ~most) == 0 || fchmod(fd, st->st_mode & most) == 0 ||
		errno == EPERM
	    ? 0
	    : -1;
}

static espl_status
seal_file(struct seal *s, int dir, const char *name, const char *path)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	espl_status status = ESPL_OK;
	struct stat st;
	uint32_t crc;
	uint64_t size;

	if (fd < 0)
		return fail_entry(s->diag, "open", path);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || protect(fd, &st) != 0 ||
	    espl__checkpoint_sum(fd, s->block, &crc, &size) != 0 || fstat(fd, &st) != 0) {
		status = espl__fail_errno(s->diag, "cannot read '%s' of the checkpoint", path);
	} else if ((uint64_t)st.st_size != size) {
		status = espl__fail(s->diag, ESPL_E_CONFIG,
		    "'%s' changed after the trial reported it as saved", path);
	} else {
		espl__print(&s->text, "f %08" PRIx32 " %" PRIu64 " ", crc, size);
		put_name(&s->text, path);
		espl__put_u8(&s->text, '\n');
		s->bytes += size;
		s->files++;
		if (sync_file(s, dir, name, fd) != 0)
			status =
			    espl__fail_errno(s->diag, "cannot store '%s' of the checkpoint", path);
	}
	close(fd);
	return status;
}

static espl_status
seal_link(struct seal *s, int dir, const char *name, const char *path)
{
	char target[4096];
	ssize_t size = readlinkat(dir, name, target, sizeof target - 1);

	if (size <= 0)
		return espl__fail_errno(s->diag, "cannot read the link '%s' of the checkpoint",
		    path);
	target[size] = '\0';
	espl__print(&s->text, "l ");
	put_name(&s->text, target);
	espl__put_u8(&s->text, ' ');
	put_name(&s->text, path);
	espl__put_u8(&s->text, '\n');
	return ESPL_OK;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
free_names(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* The names in a directory, sorted, "." and ".." left out.  -1 with errno. */
static int
list_dir(int fd, char ***names, size_t *count)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), failed;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	size_t cap = 0;

	*names = NULL;
	*count = 0;
	if (dir == NULL) {
		if (copy >= 0)
			close(copy);
		return -1;
	}
	while (errno = 0, (e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		ESPL__GROW(*names, cap, *count + 1);
		(*names)[(*count)++] = espl__strdup(e->d_name);
	}
	failed = errno;
	closedir(dir);
	errno = failed;
	if (failed != 0) {
		free_names(*names, *count);
		return -1;
	}
	if (*count > 0)
		qsort(*names, *count, sizeof **names, by_name);
	return 0;
}

static espl_status seal_dir(struct seal *, int fd, const char *path, unsigned depth);

static espl_status
seal_entry(struct seal *s, int dir, const char *name, const char *path, unsigned depth)
{
	espl_status status;
	struct stat st;
	int fd;

	ESPL__ASSERT(name[0] != '\0' && depth <= DEEPEST);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return fail_entry(s->diag, "look at", path);
	if (++s->entries > ESPL__MANIFEST_ENTRIES)
		return espl__fail(s->diag, ESPL_E_CONFIG,
		    "the checkpoint has more than %" PRIu64 " files and directories",
		    ESPL__MANIFEST_ENTRIES);
	if (S_ISREG(st.st_mode))
		return seal_file(s, dir, name, path);
	if (S_ISLNK(st.st_mode))
		return seal_link(s, dir, name, path);
	if (!S_ISDIR(st.st_mode))
		return espl__fail(s->diag, ESPL_E_CONFIG,
		    "a checkpoint may contain only files, directories and links, but '%s' is "
		    "something else",
		    path);
	if (depth >= DEEPEST)
		return espl__fail(s->diag, ESPL_E_CONFIG,
		    "the checkpoint's directories are nested more than %d deep", DEEPEST);
	espl__print(&s->text, "d ");
	put_name(&s->text, path);
	espl__put_u8(&s->text, '\n');
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail_entry(s->diag, "open", path);
	status = seal_dir(s, fd, path, depth + 1);
	close(fd);
	return status;
}

static espl_status
seal_dir(struct seal *s, int fd, const char *path, unsigned depth)
{
	espl_status status = ESPL_OK;
	struct stat st;
	char **names;
	size_t count;

	ESPL__ASSERT(fd >= 0);
	if (fstat(fd, &st) != 0 || protect(fd, &st) != 0)
		return espl__fail_errno(s->diag, "cannot protect the checkpoint's directory '%s'",
		    path);
	if (list_dir(fd, &names, &count) != 0)
		return espl__fail_errno(s->diag, "cannot list the checkpoint's directory '%s'",
		    path);
	for (size_t i = 0; i < count && status == ESPL_OK; i++) {
		char *inner = path[0] == '\0' ? espl__strdup(names[i])
					      : espl__format("%s/%s", path, names[i]);

		if (strcmp(inner, ESPL__MANIFEST) == 0)
			status = espl__fail(s->diag, ESPL_E_CONFIG,
			    "a checkpoint must not contain a file named " ESPL__MANIFEST
			    "; the name is reserved by espalier");
		else
			status = seal_entry(s, fd, names[i], inner, depth);
		free(inner);
	}
	free_names(names, count);
	if (status == ESPL_OK && sync_entry(s, fd) != 0)
		status = espl__fail_errno(s->diag, "cannot sync the checkpoint's directory");
	return status;
}

/* Whether it is still what the trial saved. The disk may have lost data that could not be written.
 */
static espl_status
compare_seal(struct seal *s)
{
	size_t size = s->seen.size < s->text.size ? s->seen.size : s->text.size;

	if (size > 0 && memcmp(s->seen.data, s->text.data, size) != 0) {
		s->tries = TRIES;
		return espl__fail(s->diag, ESPL_E_REMOTE,
		    "the disk has lost the files that the trial saved");
	}
	if (s->seen.size < s->text.size) {
		s->seen.size = 0;
		espl__put(&s->seen, s->text.data, s->text.size);
	}
	return ESPL_OK;
}

/* After a failure MANIFEST is not there. */
static espl_status
seal_saving(struct seal *s, int dir)
{
	struct espl__diag inner = ESPL__DIAG_INIT, *diag = s->diag;
	espl_status status, same;

	s->text.size = 0;
	s->bytes = s->entries = s->files = 0;
	espl__print(&s->text, ESPL__CHECKPOINT_HEADER);
	status = seal_dir(s, dir, "", 0);
	same = compare_seal(s);
	if (status == ESPL_OK)
		status = same;
	if (status == ESPL_OK && s->files == 0)
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the directory ESPALIER_SAVE contains no files");
	if (status == ESPL_OK && s->entries > SYNCED && syncfs(dir) != 0)
		status = espl__fail_errno(diag, "cannot sync the checkpoint");
	if (status == ESPL_OK) {
		uint32_t crc = espl__crc32c(0, s->text.data, s->text.size);

		s->durable = s->entries;
		espl__print(&s->text, "end %" PRIu64 " %08" PRIx32 "\n", s->entries, crc);
		status = espl__file_put(dir, ESPL__MANIFEST, s->text.data, s->text.size, &inner);
		if (status != ESPL_OK)
			(void)espl__fail(diag, status,
			    "cannot write the checkpoint's " ESPL__MANIFEST ": %s",
			    espl__reason(&inner));
		else if (sync_fd(dir) != 0)
			status = espl__fail_errno(diag, "cannot sync the checkpoint's directory");
		if (status != ESPL_OK)
			(void)unlinkat(dir, ESPL__MANIFEST, 0);
	}
	return status;
}

/* ---- publish ----------------------------------------------------------------------------- */

struct publication {
	int parent, dir;      /* the trial's directory; what was sealed in it */
	char *saving, *ready; /* names in parent */
	const char *place;
	int exchanged; /* an older one of the same iteration is `ready` */
};

/* Is the name still that of the directory that was opened?  A trial's process can rename anything
 * there. */
static int
is_same(int parent, const char *name, int dir)
{
	struct stat a, b;

	return fstatat(parent, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* An older one of the same iteration makes room at once, so that there is a whole one at any
 * moment. The new one leaves `saving` first: nothing but an empty directory may ever be seen there
 * again. */
static int
take_place(struct publication *p)
{
	struct stat st;
	int in = p->parent, code;

	if (renameat2(in, p->saving, in, p->place, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST && fstatat(in, p->place, &st, AT_SYMLINK_NOFOLLOW) != 0)
		/* a file system without NOREPLACE */
		return renameat(in, p->saving, in, p->place);
	if (renameat(in, p->saving, in, p->ready) != 0)
		return -1;
	if (renameat2(in, p->ready, in, p->place, RENAME_EXCHANGE) == 0) {
		p->exchanged = 1;
		return 0;
	}
	if (espl__tree_remove_at(in, p->place) == 0 && renameat(in, p->ready, in, p->place) == 0)
		return 0;
	code = errno;
	(void)renameat(in, p->ready, in, p->saving);
	errno = code;
	return -1;
}

static void
give_back(struct publication *p)
{
	if (p->exchanged)
		(void)renameat2(p->parent, p->ready, p->parent, p->place, RENAME_EXCHANGE);
	(void)renameat(p->parent, p->exchanged ? p->ready : p->place, p->parent, p->saving);
}

static espl_status
publish_checkpoint(struct publication *p, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (take_place(p) != 0)
		return espl__fail_errno(diag, "cannot move the checkpoint into place");
	if (!is_same(p->parent, p->place, p->dir))
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the directory ESPALIER_SAVE was replaced while the checkpoint was saved");
	else if (sync_fd(p->parent) != 0)
		status = espl__fail_errno(diag, "cannot sync the checkpoint");
	if (status != ESPL_OK)
		give_back(p);
	else if (p->exchanged)
		/* collected later if it stays */
		(void)espl__tree_remove_at(p->parent, p->ready);
	return status;
}

static espl_status
open_saving(struct publication *p, const char *trial, struct espl__diag *diag)
{
	struct stat st;

	p->parent = open(trial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->parent < 0)
		return espl__fail_errno(diag, "cannot open the trial's directory");
	p->dir = openat(p->parent, p->saving, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->dir >= 0)
		return ESPL_OK;
	if (fstatat(p->parent, p->saving, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return espl__fail(diag, ESPL_E_CONFIG,
		    "the directory ESPALIER_SAVE was replaced by a symbolic link; write the files "
		    "into the directory itself");
	return espl__fail_errno(diag, "cannot open the directory it was saved to");
}

static espl_status
keep_checkpoint(struct seal *s, const char *saving, const char *place)
{
	struct publication p = { .parent = -1, .dir = -1 };
	char *trial = espl__strdup(saving), *slash = strrchr(trial, '/');
	espl_status status;

	*slash = '\0';
	p.saving = slash + 1;
	p.ready = espl__format("%s.ready", p.saving);
	p.place = strrchr(place, '/') + 1;
	status = open_saving(&p, trial, s->diag);
	if (status == ESPL_OK)
		status = seal_saving(s, p.dir);
	if (status == ESPL_OK) {
		status = publish_checkpoint(&p, s->diag);
		if (status != ESPL_OK)
			(void)unlinkat(p.dir, ESPL__MANIFEST, 0);
	}
	if (p.dir >= 0)
		close(p.dir);
	if (p.parent >= 0)
		close(p.parent);
	free(p.ready);
	free(trial);
	return status;
}

espl_status
espl__checkpoint_keep(const char *saving, const char *place, uint64_t *bytes,
    struct espl__diag *diag)
{
	struct espl__diag last = ESPL__DIAG_INIT;
	struct seal s = { .diag = &last };
	espl_status status;

	s.block = espl__alloc(ESPL__STORE_BLOCK);
	while ((status = keep_checkpoint(&s, saving, place)) != ESPL_OK &&
	    espl__checkpoint_is_system(status) && ++s.tries < TRIES) {
		long wait_ms = 100L << (2 * (s.tries - 1)); /* 0.1, 0.4, 1.6, 6.4 s */
		struct timespec pause = { wait_ms / 1000, wait_ms % 1000 * 1000000 };

		(void)nanosleep(&pause, NULL);
		last = (struct espl__diag)ESPL__DIAG_INIT;
	}
	if (status != ESPL_OK)
		(void)espl__fail(diag, status, "%s", last.text);
	*bytes = s.bytes;
	free(s.block);
	espl__buf_free(&s.text);
	espl__buf_free(&s.seen);
	return status;
}

int
espl__checkpoint_is_system(espl_status status)
{
	return status != ESPL_OK && status != ESPL_E_CONFIG && status != ESPL_E_UNKNOWN;
}

const char *
espl__reason(const struct espl__diag *diag)
{
	const char *at = diag->text, *next;

	while ((next = strstr(at, ": ")) != NULL)
		at = next + 2;
	return at;
}
