/* feed.c - server-sent events: what has changed, never how.
 *
 * A feed holds one event at a time, so that a slow client costs nothing: it gets the latest.
 */
#include "base/assert.h"
#include "serve/server.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"

#define BEAT \
	INT64_C(15000000000) /* between two signs of life, for proxies and clients whose machine \
			      * is gone \
			      */

/* Whether there are events that have not been sent. */
static int
has_news(const struct espl__feed *s)
{
	const struct espl__watch *w = s->server->watch;

	return s->all ? espl__watch_rows_version(w) != s->row
		      : espl__watch_row_version(w, s->run) != s->row ||
		espl__watch_page_version(w, s->run) != s->page;
}

static void
compose_event(struct espl__feed *s)
{
	struct espl__watch *w = s->server->watch;

	espl__buf_reset(&s->out);
	s->out_at = 0;
	if (has_news(s) && s->all) {
		s->row = espl__watch_rows_version(w);
		espl__print(&s->out, "data: {\"rows\": %llu}\n\n", (unsigned long long)s->row);
	} else if (has_news(s)) {
		const char *row = espl__watch_row(w, s->run);

		s->row = espl__watch_row_version(w, s->run);
		s->page = espl__watch_page_version(w, s->run);
		espl__print(&s->out, "data: {\"page\": %llu, \"row\": %s}\n\n",
		    (unsigned long long)s->page, row);
	} else if (espl__tick() - s->sent >= BEAT) {
		espl__print(&s->out, ": \n\n");
	} else {
		return;
	}
	s->sent = espl__tick();
}

static ssize_t
read_feed(void *cls, uint64_t at, char *to, size_t most)
{
	struct espl__feed *s = cls;
	size_t n;

	(void)at;
	if (s->server->ending)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (s->gone)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (s->out_at == s->out.size)
		compose_event(s);
	n = s->out.size - s->out_at < most ? s->out.size - s->out_at : most;
	if (n == 0) {
		s->suspended = 1;
		MHD_suspend_connection(s->connection);
		return 0;
	}
	memcpy(to, s->out.data + s->out_at, n);
	s->out_at += n;
	return (ssize_t)n;
}

static void
free_feed(void *cls)
{
	struct espl__feed *s = cls, **at = &s->server->feeds;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	espl__buf_free(&s->out);
	free(s);
}

struct MHD_Response *
espl__feed_open(struct espl__request *r, int all)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct espl__feed *s = espl__alloc(sizeof *s);
	struct MHD_Response *response;

	ESPL__CHECK(r->server, SERVER);
	*s = (struct espl__feed){ .server = r->server,
		.connection = r->connection,
		.fd = info != NULL ? info->connect_fd : -1,
		.all = all,
		.run = r->route.run,
		.row = UINT64_MAX };
	response =
	    MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_feed, s, free_feed);
	if (response == NULL) {
		free(s);
		return NULL;
	}
	s->next = r->server->feeds;
	r->server->feeds = s;
	espl__print(&s->out, "retry: 2000\n\n");
	return response;
}

/* libmicrohttpd does not look at a connection that is suspended. */
static int
is_closed(const struct espl__feed *s)
{
	struct pollfd at = { .fd = s->fd, .events = POLLRDHUP };

	return s->fd >= 0 && poll(&at, 1, 0) > 0 &&
	    (at.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void
espl__feed_tick(struct espl__server *server)
{
	ESPL__CHECK(server, SERVER);
	for (struct espl__feed *s = server->feeds; s != NULL; s = s->next) {
		if (s->all)
			espl__watch_all(server->watch);
		else
			espl__watch_one(server->watch, s->run);
		s->gone = s->gone || (s->suspended && is_closed(s));
		if (s->suspended &&
		    (server->ending || s->gone || has_news(s) || espl__tick() - s->sent >= BEAT)) {
			s->suspended = 0;
			MHD_resume_connection(s->connection);
		}
	}
}
