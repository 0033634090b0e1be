/* nth_call.c - preloaded: the Nth call of a function in one of espalier's programs fails, or the
 * program dies before or after it.  For tests (nth_call.test).
 *
 *   NTH_CALL=FUNCTION:N:HOW   HOW: the number of an errno; half (a short write); before, after
 *   NTH_ROLE=NAME             in programs of this name (espalier, espalier-agent, ...)
 *   NTH_FIRED=FILE            is made when it happened: then never again, in no process
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#pragma GCC visibility push(default) /* a hidden symbol replaces no other */

enum { UNREAD, OFF, ON };
static int state = UNREAD, error_number, half, before, after;
static long nth, seen;
static char function[32];
static const char *fired;

static void
read_orders(void)
{
	const char *call = getenv("NTH_CALL"), *role = getenv("NTH_ROLE");
	char how[16];

	fired = getenv("NTH_FIRED");
	state = OFF;
	if (call == NULL || role == NULL || fired == NULL ||
	    strcmp(program_invocation_short_name, role) != 0 ||
	    sscanf(call, "%31[a-z_]:%ld:%15s", function, &nth, how) != 3)
		return;
	half = strcmp(how, "half") == 0;
	before = strcmp(how, "before") == 0;
	after = strcmp(how, "after") == 0;
	error_number = atoi(how);
	state = ON;
}

static void
die(void)
{
	(void)kill(getpid(), SIGKILL);
	for (;;)
		(void)pause();
}

/* Is it this call's turn? */
static int
strikes(const char *name)
{
	int fd;

	if (state == UNREAD)
		read_orders();
	if (state != ON || strcmp(name, function) != 0 ||
	    __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED) != nth)
		return 0;
	fd = open(fired, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return 0;
	(void)close(fd);
	if (before)
		die();
	errno = error_number;
	return 1;
}

/* clang-format off */
#define REAL(name_) ((__typeof__(&name_))(uintptr_t)dlsym(RTLD_NEXT, #name_))
#define WRAP(type_, name_, params_, args_) \
	type_ name_ params_; \
	type_ name_ params_ \
	{ \
		int struck = strikes(#name_), kept; \
		type_ result; \
		if (struck && !after) { errno = error_number; return (type_)-1; } \
		result = REAL(name_) args_; \
		kept = errno; \
		if (struck) die(); \
		errno = kept; \
		return result; \
	}
/* clang-format on */

ssize_t
write(int fd, const void *data, size_t size)
{
	/* What fits is written to a pipe as a whole, or not at all (POSIX). */
	struct stat st;
	int whole = half && size <= PIPE_BUF && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode),
	    struck = !whole && strikes("write");
	ssize_t done;

	if (struck && !after && !half)
		return -1;
	done = REAL(write)(fd, data, struck && half && size > 1 ? size / 2 : size);
	if (struck && after)
		die();
	return done;
}

WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat, (int x, const char *a, int y, const char *b), (x, a, y, b))
WRAP(int, mkdir, (const char *a, mode_t m), (a, m))
WRAP(int, mkdirat, (int x, const char *a, mode_t m), (x, a, m))
WRAP(int, unlink, (const char *a), (a))
WRAP(int, unlinkat, (int x, const char *a, int f), (x, a, f))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
WRAP(int, pipe2, (int ends[2], int flags), (ends, flags))
WRAP(int, renameat2, (int x, const char *a, int y, const char *b, unsigned f), (x, a, y, b, f))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, socketpair, (int d, int t, int p, int ends[2]), (d, t, p, ends))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))

pid_t
fork(void)
{
	int struck = strikes("fork");
	pid_t child;

	if (struck && !after)
		return -1;
	child = REAL(fork)();
	if (struck && child > 0)
		die();
	return child;
}
