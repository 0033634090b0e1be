/* cloud_local_slots.c - see cloud_local_slots.h. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sched.h>

#include <espalier/kit/assert.h>
#include "cloud_local_slots.h"

static const char *
slots_folder(void)
{
	const char *given = getenv("ESPALIER_SLOTS");
	struct stat st;

	if (given != NULL)
		return given[0] != '\0' ? given : NULL;
	/* The same for all users: where only root may write there, root does not either. */
	return stat("/run/lock", &st) == 0 && (st.st_mode & 01777) == 01777 ? "/run/lock" : "/tmp";
}

/* Replaces what must not be in a message: the text is from a file that other users can write. */
static void
clean_text(char *text)
{
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			*text = ' ';
}

void
local_slots_name(char name[SLOT_HOLDER], const char *folder)
{
	const struct passwd *user = getpwuid(getuid());
	int size = snprintf(name, SLOT_HOLDER, "process %ld", (long)getpid());

	ESPL_ASSERT(size > 0 && size < SLOT_HOLDER);
	if (user != NULL)
		size +=
		    snprintf(name + size, SLOT_HOLDER - (size_t)size, " of %.60s", user->pw_name);
	if (folder != NULL)
		(void)snprintf(name + size, SLOT_HOLDER - (size_t)size, " (%s)", folder);
	clean_text(name);
}

static void
read_name(int fd, char holder[SLOT_HOLDER])
{
	ssize_t got = pread(fd, holder, SLOT_HOLDER - 1, 0);

	holder[got > 0 ? got : 0] = '\0';
	clean_text(holder);
	if (got <= 0)
		(void)snprintf(holder, SLOT_HOLDER, "another process");
}

/* Another user's file in a folder that all may write cannot be opened with O_CREAT. */
static int
open_lock(const char *path)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd >= 0)
		/* whatever the umask: the next holder writes its name there */
		(void)fchmod(fd, 0666);
	else if (errno == EEXIST)
		fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return fd;
}

/* -2, and why. */
static int
report_unlocked(int fd, const char *path, const char *what, char why[SLOT_HOLDER])
{
	(void)snprintf(why, SLOT_HOLDER, "%.180s: %s", path, what);
	clean_text(why);
	if (fd >= 0)
		(void)close(fd);
	return -2;
}

int
local_slot_take(const char *slot, const char *name, char holder[SLOT_HOLDER])
{
	const char *in = slots_folder();
	char path[4200];
	struct stat st;
	int fd;

	ESPL_ASSERT(slot[0] != '\0' && name[0] != '\0');
	holder[0] = '\0';
	if (in == NULL)
		return -2;
	if (snprintf(path, sizeof path, "%s/espalier-slot-%s", in, slot) >= (int)sizeof path)
		return report_unlocked(-1, path, "the path is too long", holder);
	fd = open_lock(path);
	if (fd < 0)
		return report_unlocked(fd, path, strerror(errno), holder);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return report_unlocked(fd, path, "is not a regular file", holder);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			return report_unlocked(fd, path, strerror(errno), holder);
		read_name(fd, holder);
		(void)close(fd);
		return -1;
	}
	if (ftruncate(fd, 0) == 0 && pwrite(fd, name, strlen(name), 0) < 0)
		(void)ftruncate(fd, 0); /* a full disk: then without a name */
	return fd;
}

void
local_slot_give(int lock)
{
	if (lock < 0)
		return;
	(void)ftruncate(lock, 0);
	(void)close(lock);
}

/* ---- GPUs and cores -------------------------------------------------------------------------- */

/* The GPUs of this machine that we may use, and its cores. */

/* CUDA_VISIBLE_DEVICES of the user's shell holds for espalier too: numbers or UUIDs. */
static int
is_visible(const char *uuid, unsigned index)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char number[16];

	if (list == NULL)
		return 1;
	(void)snprintf(number, sizeof number, "%u", index);
	while (*list != '\0') {
		size_t length = strcspn(list, ",");

		if ((length == strlen(number) && strncmp(list, number, length) == 0) ||
		    (length >= 8 && strncmp(list, uuid, length) == 0))
			return 1;
		list += length;
		list += *list == ',';
	}
	return 0;
}

static int
by_index(const void *a, const void *b)
{
	const struct espl__nvml_gpu *x = a, *y = b;

	return x->index < y->index ? -1 : 1;
}

espl_status
local_gpus(struct espl__nvml_gpu **list, uint32_t *found, const char **why)
{
	struct espl__nvml_gpu *all = calloc(ESPL__GPUS_MAX, sizeof *all);
	uint32_t count = all != NULL ? espl__nvml_list(all, ESPL__GPUS_MAX, why) : 0;

	*list = all;
	if (all == NULL)
		return ESPL_E_NOMEM;
	if (*why == NULL)
		*why = "the NVIDIA driver is not installed";
	else if ((*why)[0] == '\0')
		*why = "the NVIDIA management library found none";
	qsort(all, count, sizeof *all, by_index);
	for (uint32_t i = 0; i < count; i++)
		if (is_visible(all[i].uuid, all[i].index))
			all[(*found)++] = all[i];
	return ESPL_OK;
}

uint32_t
local_cores(void)
{
	cpu_set_t *set = CPU_ALLOC(4096);
	size_t size = CPU_ALLOC_SIZE(4096);
	int count = 0;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (set != NULL && sched_getaffinity(0, size, set) == 0)
		count = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	if (count <= 0)
		count = online > 0 ? (int)online : 1;
	return (uint32_t)count;
}
