/* clients.c - those that ask and tell: standard input and output, and a socket in the run
 * directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ask/ask.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/tick.h"

#define READ_BYTES 65536u
/* A client that does not read its answers is not read from either. */
#define OUTPUT_MAX ((size_t)4 << 20)
#define CLIENTS_MAX 1000u
#define ACCEPT_PAUSE INT64_C(500000000) /* ns */
#define PIPE_SURE 4096u /* what a pipe that is ready takes without blocking: PIPE_BUF */

static struct espl__ask_client *
add_client(struct espl__asking *ask, int in, int out)
{
	struct espl__ask_client *client = espl__alloc(sizeof *client);

	client->in = in;
	client->out = out;
	if (ask->clients == NULL) {
		client->next = client;
	} else {
		client->next = ask->clients->next;
		ask->clients->next = client;
	}
	ask->clients = client; /* the last; the ring begins behind it */
	return client;
}

/* Standard input and output are left to nothing if others are still served: the client that has
 * gone sees the end of them. */
static void
close_client(const struct espl__ask_client *client, int others)
{
	int nothing;

	if (client->in > STDERR_FILENO) {
		(void)close(client->in);
		return;
	}
	nothing = others ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
	if (nothing < 0)
		return;
	(void)dup2(nothing, client->in);
	(void)dup2(nothing, client->out);
	(void)close(nothing);
}

static void
forget_client(struct espl__asking *ask, struct espl__ask_client *client)
{
	struct espl__ask_client *before = client;

	while (before->next != client)
		before = before->next;
	before->next = client->next;
	if (ask->clients == client)
		ask->clients = before == client ? NULL : before;
	if (ask->turn == client)
		ask->turn = NULL;
	if (ask->request.client == client)
		ask->request.client = NULL;
	espl__ask_return(ask, client);
	close_client(client, ask->clients != NULL);
	espl__buf_free(&client->input);
	espl__buf_free(&client->output);
	free(client);
}

espl_status
espl__ask_listen(struct espl__asking *ask, struct espl__diag *diag)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char *path = espl__format("%s/" ESPL__ASK_SOCKET, ask->dir);
	int folder = open(ask->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), bound;
	espl_status status = ESPL_OK;
	mode_t mask = umask(0177);

	ESPL__CHECK(ask, ASK);
	(void)unlink(path);
	/* The name of a socket is short; the way to it may be long. */
	(void)snprintf(address.sun_path, sizeof address.sun_path,
	    "/proc/self/fd/%d/" ESPL__ASK_SOCKET, folder);
	ask->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bound = folder >= 0 && ask->listener >= 0 &&
	    bind(ask->listener, (const struct sockaddr *)&address, sizeof address) == 0 &&
	    listen(ask->listener, 64) == 0;
	if (!bound)
		status = espl__fail_errno(diag, "cannot listen on '%s'", path);
	(void)umask(mask);
	if (folder >= 0)
		(void)close(folder);
	free(path);
	add_client(ask, STDIN_FILENO, STDOUT_FILENO);
	return status;
}

/* ---- lines -------------------------------------------------------------------------------- */

/* A complete line, or the last partial line of a client that has disconnected. 0: there is none.
 * Of a line that is too long nothing is kept: *line is NULL once its end has come. */
static int
take_line(struct espl__ask_client *client, char **line, size_t *size)
{
	char *from = (char *)client->input.data + client->parsed, *end;
	size_t left = client->input.size - client->parsed;

	end = left > client->searched
	    ? memchr(from + client->searched, '\n', left - client->searched)
	    : NULL;
	client->searched = end == NULL ? left : 0;
	if (end == NULL && !client->hung_up) {
		if (left > ESPL__REPORT_LINE || client->too_long) {
			client->too_long = 1;
			client->parsed = client->input.size;
			client->searched = 0;
		}
		return 0;
	}
	if (end == NULL && left == 0 && !client->too_long)
		return 0;
	if (end == NULL) {
		espl__put_u8(&client->input, 0);
		from = (char *)client->input.data + client->parsed;
		end = from + left;
		client->searched = 0;
	}
	*end = '\0';
	*size = (size_t)(end - from);
	client->parsed += *size + 1;
	*line = client->too_long || *size > ESPL__REPORT_LINE ? NULL : from;
	client->too_long = 0;
	return 1;
}

struct espl__ask_client *
espl__ask_line(struct espl__asking *ask, char **line, size_t *size)
{
	struct espl__ask_client *first = ask->turn != NULL ? ask->turn : ask->clients,
				*client = first;

	ESPL__CHECK(ask, ASK);
	if (first == NULL)
		return NULL;
	do {
		if (take_line(client, line, size)) {
			ask->turn = client->next;
			return client;
		}
		client = client->next;
	} while (client != first);
	return NULL;
}

/* ---- reading and writing ------------------------------------------------------------------ */

static void
read_client(struct espl__ask_client *client)
{
	ssize_t got;

	if (client->parsed > 0) {
		memmove(client->input.data, client->input.data + client->parsed,
		    client->input.size - client->parsed);
		client->input.size -= client->parsed;
		client->parsed = 0;
	}
	espl__buf_reserve(&client->input, READ_BYTES);
	got = read(client->in, client->input.data + client->input.size, READ_BYTES);
	if (got > 0)
		client->input.size += (size_t)got;
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		client->hung_up = 1;
}

/* As much as it takes now. */
static void
write_client(struct espl__ask_client *client)
{
	struct pollfd ready = { .fd = client->out, .events = POLLOUT };

	while (client->sent < client->output.size && client->out >= 0) {
		const uint8_t *from = client->output.data + client->sent;
		size_t left = client->output.size - client->sent;
		int stream = client->out == client->in;
		ssize_t did;

		if (!stream && poll(&ready, 1, 0) != 1)
			return;
		did = stream ? send(client->out, from, left, MSG_NOSIGNAL | MSG_DONTWAIT)
			     : write(client->out, from, left < PIPE_SURE ? left : PIPE_SURE);
		if (did < 0 && errno == EINTR)
			continue;
		if (did < 0 && errno == EAGAIN)
			return;
		if (did < 0) { /* it has gone, with what was to be said to it */
			client->hung_up = 1;
			client->output.size = client->sent = 0;
			return;
		}
		client->sent += (size_t)did;
	}
	espl__buf_reset(&client->output);
	client->sent = 0;
}

/* Nothing more will come, and all of it is answered. */
static int
has_gone(const struct espl__ask_client *client)
{
	return client->hung_up && client->parsed == client->input.size && !client->too_long &&
	    client->output.size == 0;
}

static espl_status
sync_journal(struct espl__asking *ask, struct espl__diag *diag)
{
	struct stat st;

	if (!ask->unsynced || ask->journal < 0)
		return ESPL_OK;
	if (fdatasync(ask->journal) != 0 && errno != EINVAL && errno != EROFS)
		return espl__fail_errno(diag, "cannot sync the journal");
	if (fstat(ask->journal, &st) == 0 && st.st_nlink == 0)
		return espl__fail(diag, ESPL_E_REMOTE,
		    "the journal in '%s' was deleted, so that results cannot be kept", ask->dir);
	ask->unsynced = 0;
	return ESPL_OK;
}

espl_status
espl__ask_flush(struct espl__asking *ask, struct espl__diag *diag)
{
	struct espl__ask_client *client, *next;
	espl_status status = sync_journal(ask, diag);

	ESPL__CHECK(ask, ASK);
	if (status != ESPL_OK)
		return status;
	if (ask->clients == NULL)
		return ESPL_OK;
	client = ask->clients->next;
	ask->clients->next = NULL; /* a list for now */
	for (struct espl__ask_client *c = client; c != NULL; c = c->next)
		write_client(c);
	ask->clients->next = client;
	for (uint32_t again = 1; again && ask->clients != NULL;) {
		again = 0;
		for (client = ask->clients->next;; client = next) {
			next = client->next;
			if (has_gone(client)) {
				forget_client(ask, client);
				again = 1;
				break;
			}
			if (client == ask->clients)
				break;
		}
	}
	return ESPL_OK;
}

/* Accepts clients beside the `count` that are there. */
static void
accept_clients(struct espl__asking *ask, uint32_t count)
{
	while (count < CLIENTS_MAX) {
		int fd = accept4(ask->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			(void)add_client(ask, fd, fd);
			count++;
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			/* Without descriptors the listener stays ready, and looking at it again at
			 * once would not help. */
			ask->accept_at = espl__tick() + ACCEPT_PAUSE;
			return;
		}
	}
}

void
espl__ask_wait(struct espl__asking *ask, int64_t ns)
{
	static struct pollfd list[2 * CLIENTS_MAX + 1];
	struct espl__ask_client *who[2 * CLIENTS_MAX + 1], *client = ask->clients;
	uint32_t count = 0, clients = 0;
	int accepts;

	ESPL__CHECK(ask, ASK);
	while (client != NULL && clients < CLIENTS_MAX) {
		client = client->next;
		clients++;
		if (!client->hung_up && client->output.size < OUTPUT_MAX) {
			who[count] = client;
			list[count++] = (struct pollfd){ .fd = client->in, .events = POLLIN };
		}
		if (client->output.size > 0) {
			who[count] = client;
			list[count++] = (struct pollfd){ .fd = client->out, .events = POLLOUT };
		}
		if (client == ask->clients)
			break;
	}
	accepts = clients < CLIENTS_MAX && espl__tick() >= ask->accept_at;
	list[count] = (struct pollfd){ .fd = accepts ? ask->listener : -1, .events = POLLIN };
	if (poll(list, count + 1, (int)((ns + 999999) / 1000000)) <= 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		if ((list[i].events & POLLOUT) != 0 && list[i].revents != 0)
			write_client(who[i]);
		else if (list[i].revents != 0)
			read_client(who[i]);
	}
	if (list[count].revents != 0)
		accept_clients(ask, clients);
}

void
espl__ask_hang_up(struct espl__asking *ask)
{
	char *path = espl__format("%s/" ESPL__ASK_SOCKET, ask->dir);

	while (ask->clients != NULL)
		forget_client(ask, ask->clients);
	if (ask->listener >= 0) {
		(void)unlink(path);
		(void)close(ask->listener);
	}
	ask->listener = -1;
	free(path);
}
