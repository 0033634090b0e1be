/* comm_net.c - sockets that never wait beyond a deadline and never raise SIGPIPE. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/tick.h"
#include "comm/comm_private.h"

int64_t
espl__deadline(espl_span limit)
{
	return limit > 0 ? espl__tick() + limit : 0;
}

/* 1: ready, 0: the deadline has come, -1: error. */
static int
wait_for(int fd, short events, int64_t deadline)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int ms = -1, got;

		if (deadline != 0) {
			int64_t left = deadline - espl__tick();

			if (left <= 0)
				return 0;
			ms = left > INT64_C(60000000000) ? 60000 : (int)((left + 999999) / 1000000);
		}
		got = poll(&p, 1, ms);
		if (got > 0)
			return 1;
		if (got < 0 && errno != EINTR)
			return -1;
	}
}

static espl_status
poll_status(int got)
{
	return got == 0 ? ESPL_E_LIMIT : ESPL_E_PEER;
}

espl_status
espl__net_send(int fd, const void *data, size_t size, int64_t deadline)
{
	const char *at = data;

	ESPL__ASSERT(fd >= 0 && deadline >= 0);
	while (size > 0) {
		ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent >= 0) {
			at += sent;
			size -= (size_t)sent;
		} else if (errno == EAGAIN) {
			int ready = wait_for(fd, POLLOUT, deadline);

			if (ready <= 0)
				return poll_status(ready);
		} else if (errno != EINTR) {
			return ESPL_E_PEER;
		}
	}
	return ESPL_OK;
}

espl_status
espl__net_recv(int fd, void *data, size_t size, int64_t deadline)
{
	char *at = data;

	ESPL__ASSERT(fd >= 0 && deadline >= 0);
	while (size > 0) {
		ssize_t got = recv(fd, at, size, MSG_DONTWAIT);

		if (got > 0) {
			at += got;
			size -= (size_t)got;
		} else if (got < 0 && errno == EAGAIN) {
			int ready = wait_for(fd, POLLIN, deadline);

			if (ready <= 0)
				return poll_status(ready);
		} else if (got == 0 || errno != EINTR) {
			return ESPL_E_PEER;
		}
	}
	return ESPL_OK;
}

static void
no_delay(int fd)
{
	int one = 1; /* only slower if it is refused */

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* -1: try again (there is no listener yet). */
static int
try_connect(const struct sockaddr *to, socklen_t size, int64_t deadline)
{
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), failed = 0;
	socklen_t room = sizeof failed;

	if (fd < 0)
		return -1;
	if (connect(fd, to, size) != 0 && errno != EINPROGRESS && errno != EINTR)
		failed = errno;
	else if (wait_for(fd, POLLOUT, deadline) <= 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &room) != 0)
		failed = ETIMEDOUT;
	if (failed != 0) {
		close(fd);
		return -1;
	}
	no_delay(fd);
	return fd;
}

espl_status
espl__net_connect(const struct sockaddr *to, socklen_t size, int64_t deadline, int *fd)
{
	for (int pause = 1;; pause = pause < 100 ? pause * 2 : 100) {
		*fd = try_connect(to, size, deadline);
		if (*fd >= 0)
			return ESPL_OK;
		if (deadline != 0 && espl__tick() >= deadline)
			return ESPL_E_LIMIT;
		(void)poll(NULL, 0, pause);
	}
}

espl_status
espl__net_accept(int listen_fd, int64_t deadline, int *fd)
{
	ESPL__ASSERT(listen_fd >= 0);
	for (;;) {
		int ready = wait_for(listen_fd, POLLIN, deadline);

		if (ready <= 0)
			return poll_status(ready);
		*fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (*fd >= 0) {
			no_delay(*fd);
			return ESPL_OK;
		}
		if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
			return ESPL_E_PEER;
	}
}

int
espl__net_listen(const struct sockaddr *at, socklen_t size, uint16_t *port)
{
	struct sockaddr_storage any;
	socklen_t room = sizeof any;
	int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, at, size) != 0 || listen(fd, 16) != 0 ||
	    getsockname(fd, (struct sockaddr *)&any, &room) != 0) {
		close(fd);
		return -1;
	}
	*port = ntohs(any.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&any)->sin6_port
						: ((struct sockaddr_in *)&any)->sin_port);
	return fd;
}
