/* request.c - which requests are answered at all: secrets, headers, addresses. */
#include "base/assert.h"
#include "serve/server.h"

#include <nettle/memops.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/ids.h"

/* ---- what a request must show --------------------------------------------------------------- */

int
espl__access_random(char to[2 * ESPL__ACCESS_ROOM + 1])
{
	unsigned char bytes[ESPL__ACCESS_ROOM];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return -1;
	for (size_t i = 0; i < sizeof bytes; i++)
		(void)snprintf(to + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

int
espl__access_equal(const char *given, const char *secret)
{
	ESPL__ASSERT(secret != NULL && secret[0] != '\0');
	return given != NULL && strlen(given) == strlen(secret) &&
	    memeql_sec(given, secret, strlen(secret));
}

int
espl__access_host(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *port;
	size_t digits;

	for (size_t i = 0; host != NULL && i < sizeof names / sizeof names[0]; i++) {
		if (strncasecmp(host, names[i], strlen(names[i])) != 0)
			continue;
		port = host + strlen(names[i]);
		digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
		if (*port == '\0' || (digits > 0 && digits <= 5 && port[1 + digits] == '\0'))
			return 1;
	}
	return 0;
}

int
espl__access_origin(const char *origin, const char *host)
{
	return origin == NULL ||
	    (host != NULL && strncasecmp(origin, "http://", 7) == 0 &&
		strcasecmp(origin + 7, host) == 0);
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* Digits up to `end` or the end of the text, below `limit`.  Returns what follows them, or NULL. */
static const char *
read_number(const char *at, char end, uint64_t limit, uint64_t *to)
{
	const char *from = at;

	for (*to = 0; *at >= '0' && *at <= '9' && *to < limit; at++)
		*to = 10 * *to + (uint64_t)(*at - '0');
	if (at == from || *to >= limit || *at != end)
		return NULL;
	return end != '\0' ? at + 1 : at;
}

/* "17", or "1/17" in a pool. */
static int
read_trial(const char *at, uint64_t *trial)
{
	uint64_t search = 0, number;
	const char *rest = read_number(at, '/', 1000000, &search);

	if (rest == NULL)
		search = 0;
	if (read_number(rest != NULL ? rest : at, '\0', ESPL__TRIAL_NUMBER, &number) == NULL)
		return 0;
	*trial = search << ESPL__TRIAL_BITS | number;
	return 1;
}

struct espl__route
espl__route_of(const char *url, const char *room)
{
	static const struct {
		const char *word;
		enum espl__place place;
	} all[] = { { "", ESPL__PLACE_INDEX }, { "runs", ESPL__PLACE_RUNS },
		{ "events", ESPL__PLACE_EVENTS }, { "live.js", ESPL__PLACE_LIVE_SCRIPT },
		{ "live.css", ESPL__PLACE_LIVE_STYLE }, { "report.js", ESPL__PLACE_DRAW_SCRIPT } },
	  own[] = { { "", ESPL__PLACE_RUN }, { "data", ESPL__PLACE_RUN_DATA },
		  { "events", ESPL__PLACE_RUN_EVENTS }, { "stop", ESPL__PLACE_STOP },
		  { "cancel", ESPL__PLACE_CANCEL }, { "submit", ESPL__PLACE_SUBMIT } };
	struct espl__route route = { ESPL__PLACE_NONE, 0, 0 };
	size_t length = strlen(room);
	uint64_t run;

	ESPL__ASSERT(length > 0);
	if (url[0] != '/' || strncmp(url + 1, room, length) != 0 || url[1 + length] != '/')
		return route;
	url += length + 2;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (strcmp(url, all[i].word) == 0)
			route.place = all[i].place;
	url = read_number(url, '/', UINT32_MAX, &run);
	if (url == NULL)
		return route;
	route.run = (uint32_t)run;
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		if (strcmp(url, own[i].word) == 0)
			route.place = own[i].place;
	if (strncmp(url, "log/", 4) == 0 && read_trial(url + 4, &route.trial))
		route.place = ESPL__PLACE_LOG;
	return route;
}

/* ---- admission ------------------------------------------------------------------------------ */

static const char *
find_header(const struct espl__request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* The token of the address the first time, then the cookie. */
static int
has_token(struct espl__request *r)
{
	const char *given =
	    MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "token");

	if (given != NULL) {
		r->set_token = espl__access_equal(given, r->server->token);
		return r->set_token;
	}
	return espl__access_equal(MHD_lookup_connection_value(r->connection, MHD_COOKIE_KIND,
				      "espalier"),
	    r->server->token);
}

static void
know_client(const struct espl__request *r)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct espl__client *client = info != NULL ? info->socket_context : NULL;

	if (client != NULL)
		client->known = 1;
}

static enum MHD_Result
refuse_request(struct espl__request *r, unsigned status, const char *text)
{
	r->refused = 1;
	return espl__answer_text(r, status, text);
}

static enum MHD_Result
admit_post(struct espl__request *r)
{
	if (!r->server->setup->control)
		return refuse_request(r, MHD_HTTP_FORBIDDEN,
		    "This page is read-only: espalier serve was started without --control.\n");
	if (!espl__access_equal(find_header(r, "X-Espalier-Control"), r->server->key))
		return refuse_request(r, MHD_HTTP_FORBIDDEN,
		    "This request does not come from the page of the run.\n");
	return MHD_YES;
}

enum MHD_Result
espl__request_admit(struct espl__request *r, const char *url, const char *method)
{
	const char *host = find_header(r, "Host");
	int reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
	int posts = strcmp(method, "POST") == 0;

	if (!espl__access_host(host))
		return refuse_request(r, MHD_HTTP_FORBIDDEN,
		    "The header Host must be localhost or 127.0.0.1.\n");
	if (!espl__access_origin(find_header(r, "Origin"), host))
		return refuse_request(r, MHD_HTTP_FORBIDDEN,
		    "Requests from other pages are refused.\n");
	if (!has_token(r))
		return refuse_request(r, MHD_HTTP_FORBIDDEN,
		    "Open the address that espalier serve printed: it contains the token.\n");
	know_client(r);
	r->route = espl__route_of(url, r->server->room);
	if (r->route.place == ESPL__PLACE_NONE ||
	    (r->route.place >= ESPL__PLACE_RUN &&
		r->route.run >= espl__watch_count(r->server->watch)))
		return refuse_request(r, MHD_HTTP_NOT_FOUND, "There is no such page.\n");
	if (espl__route_posts(r->route.place) ? !posts : !reads)
		return refuse_request(r, MHD_HTTP_METHOD_NOT_ALLOWED,
		    "This address does not support this method.\n");
	return posts ? admit_post(r) : MHD_YES;
}

int
espl__request_ready(struct espl__request *r)
{
	size_t size;
	int page;

	ESPL__CHECK(r->server, SERVER);
	if (r->server->ending)
		return 1;
	if (r->route.place == ESPL__PLACE_RUN_DATA) {
		espl__watch_one(r->server->watch, r->route.run);
		page = espl__watch_page(r->server->watch, r->route.run, &size);
		if (page >= 0)
			(void)close(page);
		return page >= 0;
	}
	return r->command.pid == 0;
}
