/* relay.c - a client of a run directory that another process has open: standard input and output,
 * to and from its socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ask/ask.h"
#include "base/file.h"
#include "base/mem.h"

#define PIECE 65536u

static int
connect_to(const char *dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof address.sun_path,
	    "/proc/self/fd/%d/" ESPL__ASK_SOCKET, folder);
	if (folder < 0 || fd < 0 ||
	    connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
		if (fd >= 0)
			(void)close(fd);
		fd = -1;
	}
	if (folder >= 0)
		(void)close(folder);
	return fd;
}

/* What there is, from one to the other.  0: that was all; -1: the other takes no more. */
static int
move_piece(int from, int to, char *piece)
{
	ssize_t got = read(from, piece, PIECE);

	if (got < 0 && errno == EINTR)
		return 1;
	if (got <= 0)
		return 0;
	return espl__write_all(to, piece, (size_t)got) == 0 ? 1 : -1;
}

espl_status
espl__ask_relay(const char *dir, struct espl__diag *diag)
{
	struct pollfd list[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = connect_to(dir), .events = POLLIN } };
	int fd = list[1].fd, done = 0, more = 1, moved;
	char *piece;

	if (fd < 0)
		return espl__fail(diag, ESPL_E_BUSY, "cannot connect to '%s/%s'", dir,
		    ESPL__ASK_SOCKET);
	piece = espl__alloc(PIECE);
	while (more) {
		if (poll(list, 2, -1) < 0 && errno != EINTR)
			break;
		moved = list[0].revents != 0 ? move_piece(STDIN_FILENO, fd, piece) : 1;
		if (moved <= 0) {
			done = moved == 0;
			list[0].fd = -1; /* answers may still come */
			list[0].revents = 0;
			(void)shutdown(fd, SHUT_WR);
		}
		if (list[1].revents != 0)
			more = move_piece(fd, STDOUT_FILENO, piece) > 0;
	}
	free(piece);
	(void)close(fd);
	return done ? ESPL_OK
		    : espl__fail(diag, ESPL_E_LIMIT,
			  "the process that has '%s' open ended; open it again", dir);
}
