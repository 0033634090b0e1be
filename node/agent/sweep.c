/* sweep.c - finds descendants in /proc.
 *
 * A trial's program may fork twice, change its session and clear its environment; but it cannot
 * change that orphans are given to the nearest subreaper above. So ancestry alone shows which trial
 * a process belongs to; no name or mark in it has to be trusted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/sweep.h"

struct entry {
	pid_t pid, parent;
	char state;
};
struct table {
	struct entry *list;
	size_t count, room;
};

/* what getdents64 writes */
struct dirent64_head {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type;
	char name[];
};

static pid_t
parse_pid(const char *text)
{
	pid_t pid = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		pid = pid * 10 + (*text - '0');
	return *text == '\0' ? pid : 0;
}

/* "PID (any name) S PPID ..." */
static int
read_stat(int proc, const char *name, struct entry *e)
{
	char path[32], text[512], *at;
	size_t length = strlen(name);
	ssize_t got;
	int fd;

	if (length > 16)
		return -1;
	memcpy(path, name, length);
	memcpy(path + length, "/stat", 6);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, sizeof text - 1);
	close(fd);
	if (got <= 0)
		return -1;
	text[got] = '\0';
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ' || at[2] == '\0' || at[3] != ' ')
		return -1;
	e->state = at[2];
	e->parent = 0;
	for (at += 4; *at >= '0' && *at <= '9'; at++)
		e->parent = e->parent * 10 + (*at - '0');
	return 0;
}

static int
add_entry(struct table *t, const struct entry *e)
{
	if (t->count == t->room) {
		size_t room = t->room == 0 ? 4096 : t->room * 2;
		void *list = mmap(NULL, room * sizeof *t->list, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (list == MAP_FAILED)
			return -1;
		if (t->room > 0) {
			memcpy(list, t->list, t->count * sizeof *t->list);
			munmap(t->list, t->room * sizeof *t->list);
		}
		t->list = list;
		t->room = room;
	}
	t->list[t->count++] = *e;
	return 0;
}

static void
take_snapshot(struct table *t)
{
	_Alignas(8) char block[8192];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long got;

	if (proc < 0)
		return;
	while ((got = syscall(SYS_getdents64, proc, block, sizeof block)) > 0)
		for (long at = 0; at < got;) {
			const struct dirent64_head *d = (const void *)(block + at);
			struct entry e;

			at += d->size;
			e.pid = parse_pid(d->name);
			if (e.pid > 0 && read_stat(proc, d->name, &e) == 0 && add_entry(t, &e) != 0)
				got = 0;
		}
	close(proc);
}

static int
is_among(pid_t pid, const pid_t *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == pid)
			return 1;
	return 0;
}

/* The parent of a process, 0 if it is not in the table.  /proc lists by rising number. */
static pid_t
parent_of(const struct table *t, pid_t pid)
{
	size_t lo = 0, hi = t->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->list[mid].pid < pid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->count && t->list[lo].pid == pid ? t->list[lo].parent : 0;
}

/* The chain of parents is bounded: process ids may be reused while it is read. */
static int
descends_from(const struct table *t, const struct entry *e, pid_t root, const pid_t *spare,
    size_t spares)
{
	pid_t at = e->pid;
	size_t steps = 0;

	do {
		if (is_among(at, spare, spares))
			return 0;
		at = at == e->pid ? e->parent : parent_of(t, at);
		if (at == root)
			return 1;
	} while (at > 1 && steps++ < t->count);
	return 0;
}

size_t
espl__sweep(pid_t root, const pid_t *spare, size_t spares, int sig)
{
	struct table t = { NULL, 0, 0 };
	size_t living = 0;

	take_snapshot(&t);
	for (size_t i = 0; i < t.count; i++) {
		if (t.list[i].state == 'Z' || t.list[i].state == 'X' ||
		    !descends_from(&t, &t.list[i], root, spare, spares))
			continue;
		living++;
		(void)kill(t.list[i].pid, sig);
	}
	if (t.room > 0)
		munmap(t.list, t.room * sizeof *t.list);
	return living;
}

static pid_t
parent_now(pid_t pid)
{
	struct entry e;
	char name[16];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad;

	(void)snprintf(name, sizeof name, "%d", (int)pid);
	bad = proc < 0 || read_stat(proc, name, &e) != 0;
	if (proc >= 0)
		close(proc);
	return bad ? 0 : e.parent;
}

int
espl__descends(pid_t pid, pid_t root)
{
	for (int steps = 0; pid > 1 && steps < 1000; steps++) {
		if (pid == root)
			return 1;
		pid = parent_now(pid);
	}
	return 0;
}

/* ---- by a mark: the second net, for what has lost all its ancestors ------------------------ */

/* Is the mark a whole entry of its environment?  What is not ours to read is not ours. */
static int
is_marked(pid_t pid, const char *mark)
{
	size_t length = strlen(mark) + 1, size = 0, room = (size_t)256 << 10;
	char path[40], *text = malloc(room);
	ssize_t got = 0;
	int fd, found = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	fd = text != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	while (fd >= 0 && size < room && (got = read(fd, text + size, room - size)) != 0) {
		if (got < 0 && errno != EINTR)
			break;
		size += got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0)
		close(fd);
	for (size_t at = 0; at + length <= size && !found; at += strnlen(text + at, size - at) + 1)
		found = memcmp(text + at, mark, length) == 0;
	free(text);
	return found;
}

size_t
espl__sweep_marked(const char *mark)
{
	struct timespec pause = { 0, 5000000 };
	size_t ended = 0;

	for (int i = 0; i < 200; i++) {
		struct table t = { NULL, 0, 0 };
		size_t here = 0;

		take_snapshot(&t);
		for (size_t k = 0; k < t.count; k++)
			if (t.list[k].state != 'Z' && t.list[k].state != 'X' &&
			    t.list[k].pid != getpid() && is_marked(t.list[k].pid, mark)) {
				here++;
				(void)kill(t.list[k].pid, SIGKILL);
			}
		if (t.room > 0)
			munmap(t.list, t.room * sizeof *t.list);
		if (here > ended)
			ended = here;
		if (here == 0)
			break;
		(void)nanosleep(&pause, NULL);
	}
	return ended;
}

static void
close_range_slowly(int low, int high)
{
	long most = sysconf(_SC_OPEN_MAX);

	if (most < 0 || most > 65536)
		most = 65536;
	if (high < 0 || high >= most)
		high = (int)most - 1;
	for (int fd = low; fd <= high; fd++)
		(void)close(fd);
}

/* high -1: to the end. */
static void
close_between(int low, int high)
{
	if (high >= 0 && low > high)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)low, high < 0 ? ~0u : (unsigned)high, 0u) == 0)
		return;
#endif
	close_range_slowly(low, high);
}

void
espl__close_others(const int *keep, size_t count)
{
	int low = 3;

	for (size_t i = 0; i < count; i++) {
		if (keep[i] < low)
			continue;
		if (keep[i] > low)
			close_between(low, keep[i] - 1);
		low = keep[i] + 1;
	}
	close_between(low, -1);
}
