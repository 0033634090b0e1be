/* reap.c - finding and killing orphans: processes of trials whose agent died without killing them.
 *
 * Killing an orphan makes its own children ours, so the search is repeated until it finds none. It
 * reads /proc, not /proc/self/task/TID/children, which not every kernel has.
 */
#include "real/reap.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/tick.h"

void
espl__pids_add(struct espl__pids *pids, pid_t pid)
{
	ESPL__GROW(pids->list, pids->cap, pids->count + 1);
	pids->list[pids->count++] = pid;
}

void
espl__pids_remove(struct espl__pids *pids, pid_t pid)
{
	uint32_t i;

	for (i = 0; i < pids->count; i++) {
		if (pids->list[i] == pid) {
			pids->list[i] = pids->list[--pids->count];
			return;
		}
	}
}

void
espl__pids_free(struct espl__pids *pids)
{
	free(pids->list);
	memset(pids, 0, sizeof *pids);
}

static int
known_pid(const struct espl__pids *pids, pid_t pid)
{
	uint32_t i;

	for (i = 0; i < pids->count; i++)
		if (pids->list[i] == pid)
			return 1;
	return 0;
}

/* Parent of a process, or -1.  The name in "PID (NAME) STATE PPID" may hold anything. */
static pid_t
parent_of(const char *pid)
{
	char path[64], text[512], *at;
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof path, "/proc/%s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, sizeof text - 1);
	(void)close(fd);
	if (got <= 0)
		return -1;
	text[got] = '\0';
	at = strrchr(text, ')');
	if (at == NULL || at[1] == '\0' || at[2] == '\0' || at[3] == '\0')
		return -1;
	return (pid_t)strtol(at + 3, NULL, 10);
}

/* Calls each child of this process. */
static void
each_child(void (*each)(void *ctx, pid_t), void *ctx)
{
	pid_t self = getpid();
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (parent_of(entry->d_name) == self)
			each(ctx, (pid_t)strtol(entry->d_name, NULL, 10));
	}
	(void)closedir(dir);
}

static void
add_pid(void *ctx, pid_t pid)
{
	espl__pids_add(ctx, pid);
}

static pid_t spared;

void
espl__reap_spare(pid_t pid)
{
	spared = pid;
}

int
espl__reap_init(struct espl__pids *known)
{
	each_child(add_pid, known);
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

struct sweep {
	const struct espl__pids *known;
	int (*spares)(const void *ctx, pid_t);
	const void *ctx;
	uint32_t found, ended;
};

static void
end_orphan(void *ctx, pid_t pid)
{
	struct sweep *sweep = ctx;
	int status;

	if (pid == spared || known_pid(sweep->known, pid) ||
	    (sweep->spares != NULL && sweep->spares(sweep->ctx, pid)))
		return;
	sweep->found++;
	if (kill(pid, SIGKILL) != 0 && errno != ESRCH)
		return;
	if (waitpid(pid, &status, WNOHANG) == pid)
		sweep->ended++;
}

uint32_t
espl__reap_orphans(const struct espl__pids *known, int (*spares)(const void *ctx, pid_t),
    const void *ctx, uint32_t limit_ms, uint32_t *left)
{
	int64_t until = espl__tick() + (int64_t)limit_ms * 1000000;
	struct sweep sweep = { known, spares, ctx, 0, 0 };
	uint32_t ended = 0;

	for (;;) {
		struct timespec pause = { 0, 2000000 };

		sweep.found = 0;
		sweep.ended = 0;
		each_child(end_orphan, &sweep);
		ended += sweep.ended;
		if (sweep.found == 0 || espl__tick() > until)
			break;
		/* Killed processes may have left children: look again. */
		if (sweep.ended < sweep.found)
			(void)nanosleep(&pause, NULL);
	}
	if (left != NULL)
		*left = sweep.found;
	return ended;
}

uint64_t
espl__reap_epoch(pid_t pid)
{
	char path[64], text[4096];
	const char *at = text, *end;
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof text - 1);
	(void)close(fd);
	if (got <= 0)
		return 0;
	text[got] = '\0';
	end = text + got;
	/* espalier-agent --keep LEASE EPOCH.DRIVER ... */
	while (at < end && strcmp(at, "--keep") != 0)
		at += strlen(at) + 1;
	for (int i = 0; i < 2 && at < end; i++)
		at += strlen(at) + 1;
	return at < end ? strtoull(at, NULL, 16) : 0;
}
