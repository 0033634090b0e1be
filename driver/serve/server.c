/* server.c - listens on this machine alone, and serves until it is told to end. */
#include "base/assert.h"
#include "serve/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"

#define SECOND INT64_C(1000000000)
#define CLIENTS_MAX 64u        /* connections at once */
#define STRANGERS_MAX 32u      /* of them without a token */
#define STRANGER (5 * SECOND)  /* to show it */
#define IDLE_S 30u             /* without a byte */
#define REQUEST_BYTES 32768u   /* headers of a request, and what is to be sent of an answer */
#define VALUE_MAX 4096u        /* bytes in a form */
#define COMMAND (120 * SECOND) /* until it is killed */
#define TICK_MS 100
#define ACCEPT_PAUSE (SECOND / 2)

/* ---- connections -------------------------------------------------------------------------- */

/* A flood of strangers pushes out strangers only. */
static void
drop_stranger(struct espl__server *server)
{
	struct espl__client *oldest = NULL;
	uint32_t strangers = 0;

	for (struct espl__client *c = server->clients; c != NULL; c = c->next) {
		if (c->known || c->fd < 0)
			continue;
		strangers++;
		if (oldest == NULL || c->since < oldest->since)
			oldest = c;
	}
	if (strangers > STRANGERS_MAX) {
		(void)shutdown(oldest->fd, SHUT_RDWR);
		oldest->fd = -1;
	}
}

static void
note_connection(void *cls, struct MHD_Connection *connection, void **context,
    enum MHD_ConnectionNotificationCode what)
{
	struct espl__server *server = cls;
	struct espl__client *client = *context, **at = &server->clients;
	const union MHD_ConnectionInfo *info;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		client = espl__alloc(sizeof *client);
		client->fd = info != NULL ? info->connect_fd : -1;
		client->since = espl__tick();
		client->next = server->clients;
		server->clients = *context = client;
		server->client_count++;
		drop_stranger(server);
		return;
	}
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	server->client_count--;
	free(client);
	*context = NULL;
}

static void
drop_late_strangers(struct espl__server *server)
{
	int64_t now = espl__tick();

	for (struct espl__client *c = server->clients; c != NULL; c = c->next) {
		if (c->known || c->fd < 0 || now - c->since < STRANGER)
			continue;
		(void)shutdown(c->fd, SHUT_RDWR); /* libmicrohttpd closes it */
		c->fd = -1;
	}
}

/* ---- requests ----------------------------------------------------------------------------- */

static enum MHD_Result
take_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *file, const char *type,
    const char *encoding, const char *data, uint64_t at, size_t size)
{
	struct espl__request *r = cls;

	(void)kind;
	(void)file;
	(void)type;
	(void)encoding;
	if (strcmp(key, "value") != 0)
		return MHD_YES;
	if (at != r->value.size || size > VALUE_MAX - r->value.size || memchr(data, '\0', size)) {
		espl__buf_clear(&r->value);
		return MHD_NO;
	}
	espl__put(&r->value, data, size);
	return MHD_YES;
}

static enum MHD_Result
answer_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
    const char *version, const char *data, size_t *size, void **context)
{
	struct espl__server *server = cls;
	struct espl__request *r = *context;

	(void)version;
	if (r == NULL) {
		r = espl__alloc(sizeof *r);
		*r = (struct espl__request){ .server = server,
			.connection = connection,
			.command = { .out = -1 },
			.next = server->requests };
		server->requests = *context = r;
		return espl__request_admit(r, url, method);
	}
	if (r->refused)
		return MHD_YES;
	if (*size == 0)
		return espl__request_answer(r);
	if (espl__route_posts(r->route.place) && r->post == NULL)
		r->post = MHD_create_post_processor(connection, 1024, take_field, r);
	if (r->post != NULL)
		(void)MHD_post_process(r->post, data, *size);
	*size = 0;
	return MHD_YES;
}

static void
end_request(void *cls, struct MHD_Connection *connection, void **context,
    enum MHD_RequestTerminationCode how)
{
	struct espl__server *server = cls;
	struct espl__request *r = *context, **at = &server->requests;

	(void)connection;
	(void)how;
	if (r == NULL)
		return;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (r->post != NULL)
		(void)MHD_destroy_post_processor(r->post);
	espl__child_end(&r->command);
	espl__buf_free(&r->value);
	free(r);
	*context = NULL;
}

/* Resumes requests whose page is drawn, or whose command has ended. */
static void
wake_requests(struct espl__server *server)
{
	int64_t now = espl__tick();

	for (struct espl__request *r = server->requests; r != NULL; r = r->next) {
		if (r->command.pid > 0 && espl__child_check(&r->command) &&
		    (server->ending || now - r->since > COMMAND))
			espl__child_kill(&r->command);
		if (r->suspended && espl__request_ready(r)) {
			r->suspended = 0;
			MHD_resume_connection(r->connection);
		}
	}
}

/* ---- life --------------------------------------------------------------------------------- */

static espl_status
listen_here(uint16_t *port, int *to, struct espl__diag *diag)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;

	*to = -1;
	if (fd < 0)
		return espl__fail_errno(diag, "cannot make a socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(fd, (struct sockaddr *)(void *)&address, size) != 0 || listen(fd, 64) != 0 ||
	    getsockname(fd, (struct sockaddr *)(void *)&address, &size) != 0) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "cannot listen on port %u: %s", *port,
		    strerror(errno));
		if (errno == EADDRINUSE)
			espl__hint(diag, "without --port, a free port is chosen");
		(void)close(fd);
		return ESPL_E_CONFIG;
	}
	*port = ntohs(address.sin_port);
	*to = fd;
	return ESPL_OK;
}

/* We accept ourselves: without descriptors libmicrohttpd would try again without end. */
static espl_status
start_daemon(struct espl__server *server, struct MHD_Daemon **to, struct espl__diag *diag)
{
	*to = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET,
	    0, NULL, NULL, answer_request, server, MHD_OPTION_CONNECTION_LIMIT, CLIENTS_MAX,
	    MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	    (size_t)REQUEST_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
	    end_request, server, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
	    MHD_OPTION_END);
	return *to != NULL ? ESPL_OK
			   : espl__fail(diag, ESPL_E_REMOTE, "libmicrohttpd cannot be started");
}

static void
accept_clients(struct espl__server *server, struct MHD_Daemon *daemon)
{
	while (server->client_count < CLIENTS_MAX) {
		struct sockaddr_in from;
		socklen_t size = sizeof from;
		int fd = accept4(server->door, (struct sockaddr *)(void *)&from, &size,
		    SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		/* libmicrohttpd closes what it does not take. */
		if (fd < 0 ||
		    MHD_add_connection(daemon, fd, (struct sockaddr *)(void *)&from, size) !=
			MHD_YES) {
			server->accept_at = espl__tick() + ACCEPT_PAUSE;
			return;
		}
	}
}

/* Waits until there is something to do, and does it; at most a tick. -1: it cannot go on. */
static int
turn_daemon(struct espl__server *server, struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int accepts = server->client_count < CLIENTS_MAX && espl__tick() >= server->accept_at;
	struct pollfd fds[2] = { { .fd = info != NULL ? info->epoll_fd : -1, .events = POLLIN },
		{ .fd = accepts ? server->door : -1, .events = POLLIN } };
	MHD_UNSIGNED_LONG_LONG most = TICK_MS;

	if (MHD_get_timeout(daemon, &most) != MHD_YES || most > TICK_MS)
		most = TICK_MS;
	(void)poll(fds, 2, (int)most);
	if (fds[1].revents != 0)
		accept_clients(server, daemon);
	return MHD_run(daemon) == MHD_YES ? 0 : -1;
}

static void
tick_server(struct espl__server *server)
{
	espl__watch_tick(server->watch);
	wake_requests(server);
	espl__feed_tick(server);
	drop_late_strangers(server);
}

/* Nothing may be suspended when the daemon stops. */
static void
end_daemon(struct espl__server *server, struct MHD_Daemon *daemon)
{
	server->ending = 1;
	tick_server(server);
	(void)MHD_run_wait(daemon, 0);
	(void)MHD_run_wait(daemon, 0);
	MHD_stop_daemon(daemon);
}

espl_status
espl__serve(const struct espl__serve_setup *setup, struct espl__diag *diag)
{
	struct espl__server *server = espl__alloc(sizeof *server);
	struct MHD_Daemon *daemon = NULL;
	uint16_t port = setup->port;
	espl_status status = espl__watch_open(setup, &server->watch, diag);

	server->magic = ESPL__SERVER_MAGIC;
	server->setup = setup;
	server->door = -1;
	if (status == ESPL_OK &&
	    (espl__access_random(server->token) != 0 || espl__access_random(server->room) != 0 ||
		espl__access_random(server->key) != 0))
		status = espl__fail_errno(diag, "cannot get random bytes from the system");
	server->room[16] = '\0'; /* not a secret: two servers must not have the same */
	if (status == ESPL_OK)
		status = listen_here(&port, &server->door, diag);
	if (status == ESPL_OK)
		status = start_daemon(server, &daemon, diag);
	if (status == ESPL_OK) {
		char *address = espl__format("http://127.0.0.1:%u/%s/?token=%s", port, server->room,
		    server->token);

		espl__answer_scripts(server);
		setup->ready(address, port, espl__watch_count(server->watch));
		free(address);
		while (!*setup->ended && turn_daemon(server, daemon) == 0)
			tick_server(server);
		if (!*setup->ended)
			status = espl__fail(diag, ESPL_E_REMOTE, "libmicrohttpd has failed");
		end_daemon(server, daemon);
	}
	if (server->door >= 0)
		(void)close(server->door);
	espl__watch_free(server->watch);
	espl__buf_free(&server->draw_script);
	server->magic = 0;
	free(server);
	return status;
}
