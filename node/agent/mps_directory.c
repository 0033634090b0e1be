/* mps_directory.c - the directory of an MPS daemon: short, private, and always removed.
 *
 * It is not in the run directory, because names of sockets are short and network disks cannot hold
 * them. Its name is random and its agent holds a lock on it. So if a process has this name in its
 * environment and the lock is free, its agent is dead.
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

#include "base/file.h"
#include "base/mem.h"
#include "agent/agent_gpu.h"
#include "agent/sweep.h"

#define NAME "espalier-mps-"
/* longest parent directory: the path of a socket in it must be short enough */
#define ROOM 60

static const char *
base_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp != NULL && tmp[0] == '/' && strlen(tmp) <= ROOM ? tmp : "/tmp";
}

/* -1: it cannot be opened, or another agent holds it (errno EWOULDBLOCK). */
static int
lock_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), high;

	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	close(fd);
	if (high >= 0 && flock(high, LOCK_EX | LOCK_NB) != 0) {
		int code = errno;

		close(high);
		errno = code;
		return -1;
	}
	return high;
}

static int
try_make(struct espl__mps_directory *d)
{
	char *log;
	int made;

	d->lock = -1;
	d->path = espl__format("%s/" NAME "XXXXXX", base_dir());
	if (mkdtemp(d->path) == NULL) {
		free(d->path);
		d->path = NULL;
		return -1;
	}
	log = espl__format("%s/log", d->path);
	d->lock = lock_dir(d->path);
	made = d->lock >= 0 && mkdir(log, 0700) == 0;
	free(log);
	if (!made)
		espl__mps_directory_remove(d);
	return made ? 0 : -1;
}

/* Another agent that looks for left-overs may find it before it is locked. */
int
espl__mps_directory_make(struct espl__mps_directory *d, const char **why)
{
	for (int i = 0; i < 3; i++)
		if (try_make(d) == 0)
			return 0;
	*why = "cannot create a directory for its daemon";
	return -1;
}

void
espl__mps_directory_remove(struct espl__mps_directory *d)
{
	if (d->path == NULL)
		return;
	(void)espl__tree_remove(d->path, NULL); /* what is left, another agent's sweep finds */
	if (d->lock >= 0)
		close(d->lock);
	free(d->path);
	d->path = NULL;
	d->lock = -1;
}

size_t
espl__mps_directories_sweep(void)
{
	const char *base = base_dir();
	DIR *dir = opendir(base);
	struct dirent *entry;
	size_t ended = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		struct espl__mps_directory d = { NULL, -1 };
		struct stat st;
		char *mark;

		if (strncmp(entry->d_name, NAME, strlen(NAME)) != 0)
			continue;
		d.path = espl__format("%s/%s", base, entry->d_name);
		d.lock = lock_dir(d.path);
		if (d.lock < 0 || fstat(d.lock, &st) != 0 || st.st_uid != geteuid()) {
			if (d.lock >= 0)
				close(d.lock);
			free(d.path);
			continue;
		}
		mark = espl__format("CUDA_MPS_PIPE_DIRECTORY=%s", d.path);
		ended += espl__sweep_marked(mark);
		free(mark);
		espl__mps_directory_remove(&d);
	}
	if (dir != NULL)
		(void)closedir(dir);
	return ended;
}
