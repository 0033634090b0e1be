/* request.c - which requests are answered at all. */
#include "base/assert.h"
#include "serve/server.h"

#include <string.h>

#include "base/tick.h"

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
		    "This address does not answer to this method.\n");
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
