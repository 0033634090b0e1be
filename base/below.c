/* below.c - see below.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/below.h"
#include "base/mem.h"

static int
is_part(const char *at, size_t size)
{
	return size > 0 && !(size == 1 && at[0] == '.') &&
	    !(size == 2 && at[0] == '.' && at[1] == '.');
}

int
espl__path_is_inside(const char *name)
{
	int depth = 0;

	for (const char *at = name;; at++) {
		size_t size = strcspn(at, "/");

		if (!is_part(at, size) || ++depth > ESPL__BELOW_DEEPEST)
			return 0;
		at += size;
		if (*at == '\0')
			return 1;
	}
}

/* Only at the front is ".." known to lead to the directory above: behind a name, which may be a
 * link itself, it can lead anywhere. */
int
espl__link_is_inside(const char *name, const char *target)
{
	int above = 0;

	for (const char *at = name; *at != '\0'; at++)
		above += *at == '/';
	while (strncmp(target, "../", 3) == 0 && above-- > 0)
		target += 3;
	if (strcmp(target, ".") == 0)
		return 1;
	return (strcmp(target, "..") == 0 && above > 0) || espl__path_is_inside(target);
}

mode_t
espl__mode_below(uint32_t mode)
{
	return (mode & 0755) | 0600;
}

/* Closes a descriptor and keeps errno. */
static void
close_quietly(int fd)
{
	int code = errno;

	if (fd >= 0)
		close(fd);
	errno = code;
}

/* A directory in another one. */
static int
enter_dir(int dir, const char *name, int replace)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = openat(dir, name, flags);

	if (fd >= 0 || !replace || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP))
		return fd;
	if (errno != ENOENT && unlinkat(dir, name, 0) != 0)
		return -1;
	if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST)
		return -1;
	return openat(dir, name, flags);
}

int
espl__below_parent(int dir, const char *name, int replace, const char **last)
{
	int at, next;
	const char *slash;

	ESPL__ASSERT(dir >= 0 && last != NULL);
	*last = name;
	if (!espl__path_is_inside(name)) {
		errno = EINVAL;
		return -1;
	}
	at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	while (at >= 0 && (slash = strchr(name, '/')) != NULL) {
		char *part = espl__format("%.*s", (int)(slash - name), name);

		next = enter_dir(at, part, replace);
		close_quietly(at);
		free(part);
		at = next;
		name = slash + 1;
	}
	*last = name;
	return at;
}

int
espl__below_open(int dir, const char *name, int flags, mode_t mode)
{
	const char *last;
	int parent = espl__below_parent(dir, name, 0, &last), fd = -1;

	if (parent >= 0)
		fd = openat(parent, last, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		    mode);
	close_quietly(parent);
	return fd;
}

int
espl__below_mkdir(int dir, const char *name)
{
	const char *last;
	int parent = espl__below_parent(dir, name, 0, &last);
	int rc = parent < 0 ? -1 : mkdirat(parent, last, 0755);

	close_quietly(parent);
	return rc;
}

int
espl__below_symlink(int dir, const char *name, const char *target)
{
	const char *last;
	int parent = espl__below_parent(dir, name, 0, &last);
	int rc = parent < 0 ? -1 : symlinkat(target, parent, last);

	close_quietly(parent);
	return rc;
}

ssize_t
espl__below_readlink(int dir, const char *name, char *to, size_t size)
{
	const char *last;
	int parent = espl__below_parent(dir, name, 0, &last);
	ssize_t got = parent < 0 ? -1 : readlinkat(parent, last, to, size);

	close_quietly(parent);
	return got;
}
