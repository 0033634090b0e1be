/* agent_home.c - the private directory of an agent that does not see the run directory, removed at
 * the agent's end.
 *
 * The agent holds a lock on it, so the agent of an unlocked one is dead.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "agent/agent.h"

#define NAME "espalier-run-"
#define TRIES 3

/* Where checkpoints have room: a user's cache, unless the machine names a place. */
static char *
find_base(void)
{
	const char *tmp = getenv("TMPDIR"), *home = getenv("HOME");

	if (tmp != NULL && tmp[0] == '/')
		return espl__strdup(tmp);
	if (home != NULL && home[0] == '/' && home[1] != '\0')
		return espl__format("%s/.cache/espalier", home);
	return espl__strdup("/tmp");
}

/* -1: another process has it, or it is not ours. */
static int
lock_home(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), high;
	struct stat st, now;

	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	close(fd);
	if (high < 0)
		return -1;
	if (fstat(high, &st) == 0 && st.st_uid == geteuid() &&
	    flock(high, LOCK_EX | LOCK_NB) == 0 && lstat(path, &now) == 0 &&
	    now.st_ino == st.st_ino)
		return high;
	close(high);
	return -1;
}

static void
sweep_homes(const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		char *path;
		int lock;

		if (strncmp(e->d_name, NAME, strlen(NAME)) != 0)
			continue;
		path = espl__format("%s/%s", base, e->d_name);
		lock = lock_home(path);
		if (lock >= 0) {
			(void)espl__tree_remove(path, NULL);
			close(lock);
		}
		free(path);
	}
	if (dir != NULL)
		(void)closedir(dir);
}

/* Another agent that sweeps may find it before it is locked: then it is made again. */
static char *
make_home(const char *base, int *lock)
{
	for (int i = 0; i < TRIES; i++) {
		char *path = espl__format("%s/" NAME "XXXXXX", base);

		if (mkdtemp(path) != NULL) {
			*lock = lock_home(path);
			if (*lock >= 0)
				return path;
		}
		free(path);
	}
	return NULL;
}

int
espl__home_make(struct espl__agent *a)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *base = find_base(), *path = NULL;
	int lock = -1;

	ESPL__CHECK(a, AGENT);
	if (espl__dir_make(base, &diag) == ESPL_OK) {
		sweep_homes(base);
		path = make_home(base, &lock);
		if (path == NULL)
			(void)espl__fail_errno(&diag, "cannot create a directory in '%s'", base);
	}
	free(base);
	if (path == NULL) {
		espl__agent_log(a, ESPL_ERROR, "%s", diag.text);
		return -1;
	}
	free(a->dir);
	a->dir = path;
	a->own_dir = 1; /* its lock is held as long as the process lives */
	a->home_fd = lock;
	return 0;
}

/* What an agent left that was killed is found by the next one; or, if its processes still had the
 * lock then, now. */
void
espl__home_leave(struct espl__agent *a)
{
	char *base = find_base();

	ESPL__CHECK(a, AGENT);
	(void)espl__tree_remove(a->dir, NULL);
	sweep_homes(base);
	free(base);
}

int
espl__home_is_gone(int fd, const char *path)
{
	struct stat held, now;

	return fstat(fd, &held) == 0 &&
	    (held.st_nlink == 0 ||
		(lstat(path, &now) != 0 ? errno == ENOENT || errno == ENOTDIR
					: now.st_ino != held.st_ino));
}
