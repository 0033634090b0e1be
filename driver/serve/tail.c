/* tail.c - reads the end of a trial's log. */
#include "base/assert.h"
#include "serve/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.h"

/* Each step of the path for itself: a trial may have put a link anywhere. */
static int
open_log(const char *dir, uint64_t trial)
{
	char *path = espl__trial_folder(".", trial), *rest = path, *part;
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;

	while (at >= 0 && (part = strsep(&rest, "/")) != NULL) {
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(at);
		at = next;
	}
	free(path);
	if (at < 0)
		return -1;
	next = openat(at, "log", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	(void)close(at);
	return next;
}

static espl_status
read_tail(int fd, size_t most, struct espl__buf *to, struct espl__diag *diag)
{
	struct stat st;
	off_t from;
	ssize_t n = 1;
	const uint8_t *line;
	size_t cut;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return espl__fail(diag, ESPL_E_UNKNOWN, "the log is not a file");
	from = st.st_size > (off_t)most ? st.st_size - (off_t)most : 0;
	espl__buf_reserve(to, most);
	while (n > 0 && to->size < most) {
		n = pread(fd, to->data + to->size, most - to->size, from + (off_t)to->size);
		if (n < 0)
			return espl__fail_errno(diag, "cannot read the log");
		to->size += (size_t)n;
	}
	line = from > 0 ? memchr(to->data, '\n', to->size) : NULL;
	if (line != NULL) {
		cut = (size_t)(line + 1 - to->data);
		memmove(to->data, to->data + cut, to->size - cut);
		to->size -= cut;
	}
	return ESPL_OK;
}

espl_status
espl__tail_log(const char *dir, uint64_t trial, size_t most, struct espl__buf *to,
    struct espl__diag *diag)
{
	ESPL__ASSERT(most > 0);
	char name[48];
	int fd = open_log(dir, trial);
	espl_status status;

	if (fd < 0)
		return espl__fail(diag, ESPL_E_UNKNOWN, "trial %s has no log: %s",
		    espl__trial_name(trial, name), strerror(errno));
	status = read_tail(fd, most, to, diag);
	(void)close(fd);
	return status;
}
