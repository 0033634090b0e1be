/* trial_log.c - see agent_sup.h.  Several ranks, and the agents of several nodes, may append to one
 * log: what counts is its size as it is.
 */
#include "agent/agent_sup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP ((size_t)64 << 10)
#define TURNS 64 /* of STEP bytes, before the supervisor looks about again */

static const char notice[] =
    "\nespalier: the log has reached its limit (trial.log_limit); further output is dropped\n";

int
espl__tap_open(struct espl__tap *t, int log, int64_t limit, int *theirs)
{
	int ends[2], code;

	t->log = log;
	t->limit = limit;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	t->from = ends[0];
	*theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
	code = errno;
	close(ends[1]);
	if (*theirs >= 0 && fcntl(t->from, F_SETFL, O_NONBLOCK) == 0)
		return 0;
	if (*theirs >= 0) {
		code = errno;
		close(*theirs);
	}
	close(t->from);
	t->from = -1;
	errno = code;
	return -1;
}

/* How much of it went into the log: less than all when the disk is full. */
static size_t
write_log(const struct espl__tap *t, const char *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(t->log, bytes + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static void
drop_bytes(struct espl__tap *t, const char *bytes, size_t size)
{
	t->dropped += size;
	if (size > ESPL__TAP_END) {
		bytes += size - ESPL__TAP_END;
		size = ESPL__TAP_END;
	}
	if (t->kept + size > sizeof t->end) {
		memmove(t->end, t->end + t->kept - ESPL__TAP_END, ESPL__TAP_END);
		t->kept = ESPL__TAP_END;
	}
	memcpy(t->end + t->kept, bytes, size);
	t->kept += size;
}

static void
take_bytes(struct espl__tap *t, const char *bytes, size_t size)
{
	size_t room = size, done = 0;
	struct stat st;

	if (!t->full && fstat(t->log, &st) == 0 && st.st_size + (int64_t)size > t->limit) {
		t->full = 1;
		room = st.st_size < t->limit ? (size_t)(t->limit - st.st_size) : 0;
		done = write_log(t, bytes, room);
		if (st.st_size <= t->limit) /* otherwise it was reported before */
			(void)write_log(t, notice, sizeof notice - 1);
	} else if (!t->full) {
		done = write_log(t, bytes, size); /* output that a full disk cannot take is lost */
	}
	if (done < size)
		drop_bytes(t, bytes + done, size - done);
}

void
espl__tap_read(struct espl__tap *t)
{
	static char bytes[STEP];

	for (int i = 0; i < TURNS && t->from >= 0; i++) {
		ssize_t n = read(t->from, bytes, sizeof bytes);

		if (n > 0) {
			take_bytes(t, bytes, (size_t)n);
		} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
			close(t->from);
			t->from = -1;
		} else if (errno == EAGAIN) {
			return;
		}
	}
}

void
espl__tap_close(struct espl__tap *t, int failed)
{
	char line[160];
	size_t at = t->kept > ESPL__TAP_END ? t->kept - ESPL__TAP_END : 0;

	if (failed && t->dropped > 0) {
		const char *begin = at > 0 ? memchr(t->end + at, '\n', t->kept - at) : NULL;

		if (begin != NULL) /* a whole line first */
			at = (size_t)(begin + 1 - t->end);
		(void)snprintf(line, sizeof line,
		    "espalier: %llu bytes were dropped; the rank failed, and these are the last of "
		    "them:\n",
		    (unsigned long long)t->dropped);
		(void)write_log(t, line, strlen(line));
		(void)write_log(t, t->end + at, t->kept - at);
	}
	if (t->from >= 0)
		close(t->from);
	close(t->log);
}
