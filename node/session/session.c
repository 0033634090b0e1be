/* session.c - see session.h. */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/text.h"

#define STEP ((size_t)256 << 10)
#define LONGEST_MS (INT64_C(7) * 24 * 3600 * 1000)

int
espl__session_number(const char *text, int64_t *to)
{
	int64_t ms;

	if (espl__parse_int(text, &ms) != 0 || ms < 1 || ms > LONGEST_MS)
		return -1;
	*to = ms * ESPL__SESSION_MS;
	return 0;
}

void
espl__session_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

#define PIPE_SIZE (1 << 20) /* what any user may have */

void
espl__session_widen(int pipe)
{
	(void)fcntl(pipe, F_SETPIPE_SZ, PIPE_SIZE);
}

int
espl__session_write(int fd, struct espl__buf *b)
{
	size_t done = 0;
	int gone = 0;

	ESPL__ASSERT(fd >= 0);
	while (done < b->size && !gone) {
		ssize_t sent = write(fd, b->data + done, b->size - done);

		if (sent >= 0)
			done += (size_t)sent;
		else if (errno == EAGAIN)
			break;
		else
			gone = errno != EINTR;
	}
	if (done > 0) {
		memmove(b->data, b->data + done, b->size - done);
		b->size -= done;
	}
	return gone ? -1 : 0;
}

int
espl__session_read(int fd, struct espl__stream *s)
{
	static uint8_t bytes[STEP];
	size_t room = espl__stream_room(s);
	ssize_t got;

	if (room == 0)
		return 0;
	got = read(fd, bytes, room < sizeof bytes ? room : sizeof bytes);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (got <= 0)
		return -1;
	espl__stream_put(s, bytes, (size_t)got);
	return 1;
}

int
espl__session_pass(int from, int to)
{
	static uint8_t bytes[STEP];
	ssize_t got = read(from, bytes, sizeof bytes);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	return got > 0 && espl__write_all(to, bytes, (size_t)got) == 0;
}
