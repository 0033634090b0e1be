/* cloud_rest.c - a cloud in espalier's kit for providers with an HTTP API
 * (espalier/kit/provider.h): a made-up provider, in as few lines as a new one needs. `cloud_mine.c`
 * is a cloud without the kit.
 *
 * Its API: POST /machines makes a machine, named after the token of its lease; GET and DELETE
 * /machines/NAME; GET /machines?run=RUN lists those of a run, or of all runs.  It answers one line
 * for each machine, "NAME RUN STATE ADDRESS".  Yours answers JSON, for which jansson or cJSON will
 * do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/provider.h>

enum { REST_URL = ESPL_PROVIDER_OWN };

static const struct espl_option columns[] = { ESPL_PROVIDER_COLUMNS };
static const struct espl_option words[] = { ESPL_PROVIDER_WORDS };
static const struct espl_option options[] = {
	ESPL_PROVIDER_OPTIONS(columns, words, "env:REST_KEY",
	    "where the API key comes from: \"env:NAME\", \"file:PATH\", or \"command\"",
	    "command that prints the API key"),
	[REST_URL] = { .name = "url",
	    .help = "address of the provider",
	    .type = ESPL_OPT_STRING,
	    .fallback = "https://api.rest.example" },
};

/* ---- what is sent ---- */

/* Also for names of machines: tokens, and all that is part of an address here, hold only letters,
 * digits and hyphens. */
static void
fill_call(struct espl_provider *p, const char *method, const char *what, const char *more,
    struct espl_call *call)
{
	size_t room = strlen(espl_provider_text(p, REST_URL)) + strlen(what) + strlen(more) + 1;

	call->method = method;
	call->url = malloc(room); /* NULL: the kit tells */
	if (call->url != NULL)
		(void)snprintf(call->url, room, "%s%s%s", espl_provider_text(p, REST_URL), what,
		    more);
}

/* One request before anything is leased: is the key accepted? */
static int
rest_start(struct espl_provider *p, uint32_t step, struct espl_call *call)
{
	if (step > 0)
		return 0;
	fill_call(p, "GET", "/account", "", call);
	return 1;
}

static void
rest_ask(struct espl_provider *p, struct espl_machine *m, struct espl_call *call)
{
	const struct espl_provider_offer *offer = espl_provider_offer_of(p, m);
	char body[600];

	(void)snprintf(body, sizeof body,
	    "{\"name\":\"%s\",\"run\":\"%.100s\",\"type\":\"%.100s\",\"zone\":\"%.100s\",\"spot\":%"
	    "s}",
	    m->lease.token, p->run_name, offer->row[ESPL_OFFERS_TYPE].as.s,
	    offer->row[ESPL_OFFERS_ZONE].as.s, espl_provider_is_spot(offer) ? "true" : "false");
	call->body = strdup(body);
	if (call->body != NULL)
		fill_call(p, "POST", "/machines", "", call);
}

static void
rest_look(struct espl_provider *p, struct espl_machine *m, struct espl_call *call)
{
	fill_call(p, "GET", "/machines/", m->lease.token, call);
}

static void
rest_cancel(struct espl_provider *p, struct espl_machine *m, const char *id, struct espl_call *call)
{
	(void)id; /* it is the token */
	fill_call(p, "DELETE", "/machines/", m->lease.token, call);
}

static void
rest_list(struct espl_provider *p, const char *run, const char *page, struct espl_call *call)
{
	(void)page; /* a provider with pages names the next one in its answer: answer->page */
	fill_call(p, "GET", run != NULL ? "/machines?run=" : "/machines", run != NULL ? run : "",
	    call);
}

/* ---- what is answered ---- */

/* A line; 0: it is none.  The strings live until the next call. */
static int
read_line(const struct espl_provider *p, const char *text, struct espl_provider_row *r)
{
	static char name[65], run[65], state[20], address[65];

	if (sscanf(text, "%64s %64s %19s %64s", name, run, state, address) != 4)
		return 0;
	*r = (struct espl_provider_row){ .row = espl_lease_row(name, ESPL_STAGE_STARTING),
		.run = run };
	r->row.id = name;
	r->row.address = address;
	if (strcmp(state, "running") == 0)
		r->row.stage = ESPL_STAGE_JOINING; /* the kit tries ssh */
	if (strcmp(state, "leaving") == 0) {       /* the provider takes it back in a minute */
		r->row.notice = 1;
		r->row.ends_at = p->host->now(p->host) + 60 * ESPL_SECOND;
	}
	if (strcmp(state, "gone") == 0) {
		r->row.stage = ESPL_STAGE_ENDED;
		r->row.reason = ESPL_BY_PROVIDER;
	}
	return 1;
}

/* The kit has classified the HTTP status: what the provider says more exactly is added here. */
static void
rest_read(struct espl_provider *p, enum espl_call_kind kind, struct espl_machine *m,
    const struct espl_http_reply *reply, struct espl_answer *answer)
{
	const char *text = reply->body;
	struct espl_provider_row r;

	(void)m;
	if (answer->failure != ESPL_DID_FINE) {
		if (reply->code == 409 && strncmp(text, "none left", 9) == 0) {
			answer->failure = ESPL_DID_REFUSE;
			answer->reason = ESPL_BY_CAPACITY;
		}
		if (reply->code == 403 && strncmp(text, "over quota", 10) == 0)
			answer->reason = ESPL_BY_QUOTA;
		if (reply->status == ESPL_OK)
			(void)snprintf(answer->text, sizeof answer->text, "the provider says: %.*s",
			    (int)strcspn(text, "\r\n"), text);
	} else if (kind == ESPL_CALL_ASK || kind == ESPL_CALL_LOOK) {
		if (read_line(p, text, &r))
			answer->row = r.row;
		else
			answer->failure = ESPL_DID_UNSURE; /* the answer was cut off */
	} else if (kind == ESPL_CALL_LIST || kind == ESPL_CALL_OWNED) {
		while (answer->failure == ESPL_DID_FINE && read_line(p, text, &r)) {
			if (espl_provider_row(p, kind, &r) != 0)
				answer->failure = ESPL_DID_LATER; /* a part of a list is none */
			text += strcspn(text, "\n");
			text += *text == '\n';
		}
	}
}

/* ---- the instance ---- */

static const struct espl_provider_api api = { .name = "the provider",
	.machine_size = sizeof(struct espl_machine),
	.minimum_charge = 60 * ESPL_SECOND,
	.notice = 60 * ESPL_SECOND,
	.start = rest_start,
	.ask = rest_ask,
	.look = rest_look,
	.cancel = rest_cancel,
	.list = rest_list,
	.read = rest_read };

static void
rest_destroy(void *self)
{
	espl_provider_free(self);
	free(self);
}

static espl_status
rest_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct espl_provider *p = calloc(1, sizeof *p);
	espl_status status;

	if (p == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = espl_provider_create(p, &api, host, config, error);
	if (status != ESPL_OK)
		rest_destroy(p);
	else
		*self = p;
	return status;
}

static const struct espl_cloud_ops ops = { ESPL_PROVIDER_OPS };

ESPL_PLUGIN(cloud, rest) = {
	ESPL_HEAD(ESPL_CLOUD, "rest"),
	.version = "1",
	.summary = "machines of a made-up provider with an HTTP API",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = rest_create,
	.destroy = rest_destroy,
};
