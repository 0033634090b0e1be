/* file.c - files as wholes: a crash at any point leaves the old content or the new one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"

enum { READ_STEP = 64 * 1024, TREE_DEPTH = 256 };

espl_status
espl__fd_read(int fd, const char *path, size_t limit, struct espl__buf *to, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	ESPL__ASSERT(fd >= 0 && to != NULL);
	espl__buf_clear(to);
	for (;;) {
		ssize_t got;

		espl__buf_reserve(to, READ_STEP);
		got = read(fd, to->data + to->size, READ_STEP);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			status = espl__fail_errno(diag, "cannot read '%s'", path);
		if (got <= 0)
			break;
		to->size += (size_t)got;
		if (to->size > limit) {
			status = espl__fail(diag, ESPL_E_LIMIT, "'%s' is larger than %zu bytes",
			    path, limit);
			break;
		}
	}
	return status;
}

espl_status
espl__file_read(const char *path, size_t limit, struct espl__buf *to, struct espl__diag *diag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	espl_status status;

	espl__buf_clear(to);
	if (fd < 0)
		return espl__fail_errno(diag, "cannot open '%s'", path);
	status = espl__fd_read(fd, path, limit, to, diag);
	close(fd);
	return status;
}

int
espl__write_all(int fd, const void *bytes, size_t size)
{
	const char *p = bytes;

	ESPL__ASSERT(fd >= 0 && (bytes != NULL || size == 0));
	while (size > 0) {
		ssize_t done = write(fd, p, size);

		if (done >= 0) {
			p += done;
			size -= (size_t)done;
		} else if (errno == EAGAIN) {
			struct pollfd wait = { .fd = fd, .events = POLLOUT };

			if (poll(&wait, 1, -1) < 0 && errno != EINTR)
				return -1;
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

/* The directory of path, so that the rename itself survives a power cut. */
static int
sync_dir(const char *path)
{
	char *dir = espl__strdup(path), *slash = strrchr(dir, '/');
	int fd, rc, code;

	if (slash == NULL)
		fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else {
		slash[slash == dir ? 1 : 0] = '\0';
		fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	free(dir);
	if (fd < 0)
		return -1;
	rc = fsync(fd);
	code = errno;
	close(fd);
	errno = code;
	/* Some file systems have nothing to do for a directory and say so. */
	return rc != 0 && code != EINVAL && code != ENOTSUP ? -1 : 0;
}

static int
write_new(int dir, const char *name, mode_t mode, const void *bytes, size_t size)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode), rc, code;

	if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0)
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -1;
	rc = espl__write_all(fd, bytes, size);
	if (rc == 0)
		rc = fsync(fd);
	code = errno;
	if (close(fd) != 0 && rc == 0) {
		rc = -1;
		code = errno;
	}
	errno = code;
	return rc;
}

static espl_status
replace_file(int dir, const char *name, mode_t mode, const void *bytes, size_t size,
    struct espl__diag *diag)
{
	char *draft = espl__format("%s.tmp-%ld", name, (long)getpid());
	espl_status status = ESPL_OK;

	if (write_new(dir, draft, mode, bytes, size) != 0 || renameat(dir, draft, dir, name) != 0) {
		status = espl__fail_errno(diag, "cannot write '%s'", name);
		(void)unlinkat(dir, draft, 0); /* may never have been made */
	}
	free(draft);
	return status;
}

espl_status
espl__file_put(int dir, const char *name, const void *bytes, size_t size, struct espl__diag *diag)
{
	return replace_file(dir, name, 0644, bytes, size, diag);
}

static espl_status
write_durably(const char *path, mode_t mode, const void *bytes, size_t size,
    struct espl__diag *diag)
{
	espl_status status = replace_file(AT_FDCWD, path, mode, bytes, size, diag);

	if (status == ESPL_OK && sync_dir(path) != 0)
		status = espl__fail_errno(diag, "cannot sync '%s'", path);
	return status;
}

espl_status
espl__file_write(const char *path, const void *bytes, size_t size, struct espl__diag *diag)
{
	return write_durably(path, 0644, bytes, size, diag);
}

espl_status
espl__file_write_private(const char *path, const void *bytes, size_t size, struct espl__diag *diag)
{
	return write_durably(path, 0600, bytes, size, diag);
}

static espl_status
check_stat(const char *path, const struct stat *st, struct espl__diag *diag)
{
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return espl__fail(diag, ESPL_E_CONFIG, "'%s' belongs to another user (number %lu)",
		    path, (unsigned long)st->st_uid);
	if (S_ISLNK(st->st_mode) || (st->st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return ESPL_OK;
	(void)espl__fail(diag, ESPL_E_CONFIG, "'%s' can be written by other users", path);
	espl__hint(diag, "if you trust its contents, run: chmod go-w '%s'", path);
	return ESPL_E_CONFIG;
}

espl_status
espl__check_owner(const char *path, struct espl__diag *diag)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return espl__fail_errno(diag, "cannot stat '%s'", path);
	return check_stat(path, &st, diag);
}

espl_status
espl__check_own(const char *path, struct espl__diag *diag)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return espl__fail_errno(diag, "cannot stat '%s'", path);
	if (S_ISLNK(st.st_mode))
		return espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is a symbolic link; a run directory must not contain links", path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a file or directory", path);
	return check_stat(path, &st, diag);
}

espl_status
espl__file_read_own(const char *path, size_t limit, struct espl__buf *to, struct espl__diag *diag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	espl_status status;
	struct stat st;

	espl__buf_clear(to);
	if (fd < 0)
		return espl__fail_errno(diag, "cannot open '%s'", path);
	if (fstat(fd, &st) != 0)
		status = espl__fail_errno(diag, "cannot stat '%s'", path);
	else if (!S_ISREG(st.st_mode))
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a regular file", path);
	else
		status = check_stat(path, &st, diag);
	if (status == ESPL_OK)
		status = espl__fd_read(fd, path, limit, to, diag);
	close(fd);
	return status;
}

espl_status
espl__dir_make(const char *path, struct espl__diag *diag)
{
	char *name = espl__strdup(path);
	espl_status status = ESPL_OK;
	struct stat st;

	for (char *p = name;; p++) {
		char end = *p;

		if (p == name || (end != '/' && end != '\0')) {
			if (end == '\0')
				break;
			continue;
		}
		*p = '\0';
		if (mkdir(name, 0755) != 0 && errno != EEXIST) {
			int code = errno;

			/* On a read-only disk a directory that is there is still good. */
			if (stat(name, &st) != 0 || !S_ISDIR(st.st_mode)) {
				errno = code;
				status =
				    espl__fail_errno(diag, "cannot create directory '%s'", name);
			}
		} else if (stat(name, &st) != 0) {
			status = espl__fail_errno(diag, "cannot create directory '%s'", name);
		} else if (!S_ISDIR(st.st_mode)) {
			errno = ENOTDIR;
			status = espl__fail_errno(diag, "cannot create directory '%s'", name);
		}
		*p = end;
		if (status != ESPL_OK || end == '\0')
			break;
	}
	free(name);
	return status;
}

espl_status
espl__dir_make_private(const char *path, struct espl__diag *diag)
{
	char *parent = espl__strdup(path);
	size_t size = strlen(parent);
	espl_status status = ESPL_OK;

	while (size > 1 && parent[size - 1] == '/')
		size--;
	while (size > 0 && parent[size - 1] != '/')
		size--;
	parent[size] = '\0';
	if (size > 1)
		status = espl__dir_make(parent, diag);
	free(parent);
	if (status == ESPL_OK && mkdir(path, 0700) != 0)
		status = espl__fail_errno(diag, "cannot create directory '%s'", path);
	return status;
}

DIR *
espl__dir_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), code;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && dir == NULL) {
		code = errno;
		close(fd);
		errno = code;
	}
	return dir;
}

static int remove_at(int parent, const char *name, unsigned depth);

static int
remove_entries(DIR *dir, unsigned depth)
{
	int failed = 0;

	for (;;) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(dir);
		if (entry == NULL)
			break;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (remove_at(dirfd(dir), entry->d_name, depth) != 0 && failed == 0)
			failed = errno;
	}
	if (failed == 0)
		failed = errno;
	errno = failed;
	return failed == 0 ? 0 : -1;
}

/* Continues after a failure, to remove as much as possible; errno is that of the first failure. */
static int
remove_at(int parent, const char *name, unsigned depth)
{
	struct stat st;
	int fd, rc, code;
	DIR *dir;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -1;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(parent, name, 0) == 0 || errno == ENOENT ? 0 : -1;
	if (depth >= TREE_DEPTH) {
		errno = ELOOP;
		return -1;
	}
	if ((st.st_mode & S_IRWXU) != S_IRWXU)
		(void)fchmodat(parent, name, (st.st_mode & 07777) | S_IRWXU, 0);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	dir = fdopendir(fd);
	if (dir == NULL) {
		code = errno;
		close(fd);
		errno = code;
		return -1;
	}
	rc = remove_entries(dir, depth + 1);
	code = errno;
	closedir(dir);
	if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
		return -1;
	errno = code;
	return rc;
}

int
espl__tree_remove_at(int dir, const char *name)
{
	ESPL__ASSERT(name != NULL && name[0] != '\0');
	return remove_at(dir, name, 0);
}

espl_status
espl__tree_remove(const char *path, struct espl__diag *diag)
{
	ESPL__ASSERT(path != NULL && path[0] != '\0');
	if (remove_at(AT_FDCWD, path, 0) != 0)
		return espl__fail_errno(diag, "cannot remove '%s'", path);
	return ESPL_OK;
}

espl_status
espl__lock(const char *path, int *to, struct espl__diag *diag)
{
	ESPL__ASSERT(to != NULL);
	/* A lock of the process, not of the open file: a child that a killed driver has forked and
	 * that is not yet another program does not hold it. */
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644), rc;

	*to = -1;
	if (fd < 0)
		return espl__fail_errno(diag, "cannot open the lock '%s'", path);
	do
		rc = fcntl(fd, F_SETLK, &lock);
	while (rc != 0 && errno == EINTR);
	if (rc != 0) {
		espl_status status;

		if (errno == EACCES || errno == EAGAIN)
			status =
			    espl__fail(diag, ESPL_E_BUSY, "'%s' is held by another process", path);
		else
			status = espl__fail_errno(diag, "cannot lock '%s'", path);
		close(fd);
		return status;
	}
	*to = fd;
	return ESPL_OK;
}

pid_t
espl__lock_owner(const char *path)
{
	ESPL__ASSERT(path != NULL);
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	pid_t owner = 0;

	if (fd < 0)
		return 0;
	/* For a process on another machine or in another container, 0 or less is reported. */
	if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		owner = lock.l_pid > 0 ? lock.l_pid : -1;
	(void)close(fd);
	return owner;
}

int
espl__locked(const char *path)
{
	return espl__lock_owner(path) != 0;
}

const char *
espl__find_authorities(void)
{
	static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
	const char *said = getenv("CURL_CA_BUNDLE");

	if (said == NULL || said[0] == '\0')
		said = getenv("SSL_CERT_FILE");
	if (said != NULL && said[0] != '\0')
		return said;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}
