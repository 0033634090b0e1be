/* provider.c - a cloud over HTTP: requests and their tokens, answers for the lease machine, and
 * listings in pages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider_inner.h"

#define TOKEN_MOST (600 * ESPL_SECOND) /* then it is asked for again */
#define TOKEN_SPARE (60 * ESPL_SECOND) /* before its end */
#define TOKEN_LIMIT (60 * ESPL_SECOND) /* of the request for one */
#define UNSENT ESPL_E_UNKNOWN          /* the status of a reply to what was not sent */

/* ---- what a reply means ---- */

struct espl_answer
espl_provider_answer(const struct espl_http_reply *reply)
{
	struct espl_answer answer = { .failure = ESPL_DID_FINE,
		.reason = ESPL_BY_REFUSAL,
		.row = espl_lease_row(NULL, ESPL_STAGE_NONE) };
	uint32_t code = reply->code;

	if (reply->status != ESPL_OK) {
		answer.failure = reply->status == UNSENT ? ESPL_DID_LATER : ESPL_DID_UNSURE;
		(void)snprintf(answer.text, sizeof answer.text, "%.500s", reply->text);
		return answer;
	}
	if (code >= 200 && code < 300)
		return answer;
	answer.failure = code == 401 || code == 408 || code == 425 || code == 429 ? ESPL_DID_LATER
	    : code == 404 || code == 410                                          ? ESPL_DID_GONE
	    : code == 409                                                         ? ESPL_DID_EXIST
	    : code >= 400 && code < 500                                           ? ESPL_DID_REFUSE
										  : ESPL_DID_UNSURE;
	(void)snprintf(answer.text, sizeof answer.text, "HTTP status %u", (unsigned)code);
	return answer;
}

/* ---- requests ---- */

static void
free_call(struct espl_call *call)
{
	free(call->url);
	free(call->body);
	call->url = call->body = NULL;
}

static void
forget_token(struct espl_provider *p)
{
	if (p->token != NULL)
		memset(p->token, 0, strlen(p->token));
	free(p->token);
	p->token = NULL;
}

/* token: NULL: without one. */
static espl_status
submit_call(struct espl_provider *p, const struct espl_call *call, const char *token)
{
	struct espl_http request = ESPL_INIT(struct espl_http);
	struct espl_error error = ESPL_INIT(struct espl_error);
	char bearer[4200];
	const char *headers[3];
	espl_status status;

	if (token != NULL) {
		(void)snprintf(bearer, sizeof bearer, "Authorization: Bearer %.4100s", token);
		headers[request.header_count++] = bearer;
	}
	if (call->body != NULL)
		headers[request.header_count++] = "Content-Type: application/json";
	if (call->header != NULL)
		headers[request.header_count++] = call->header;
	request.method = call->method != NULL ? call->method : "GET";
	request.url = call->url;
	request.headers = headers;
	request.body = call->body;
	request.body_size = call->body != NULL ? strlen(call->body) : 0;
	request.limit = call->limit;
	request.cookie = call->cookie;
	request.sign_user = request.sign_secret = ESPL_ANY;
	status = p->io->http(p->io, &request, &error);
	memset(bearer, 0, sizeof bearer);
	if (status != ESPL_OK)
		p->host->log(p->host, ESPL_WARN, error.text);
	return status;
}

/* A request that could not be sent after all. */
static void
answer_unsent(struct espl_provider *p, uint64_t cookie, const char *text)
{
	struct espl_http_reply reply = ESPL_INIT(struct espl_http_reply);

	reply.status = UNSENT;
	reply.cookie = cookie;
	reply.body = "";
	reply.text = text;
	espl_provider_take(p, &reply);
}

/* Sends what waits for a token; text: why there is none. */
static void
flush_waiting(struct espl_provider *p, const char *text)
{
	struct espl_call *list = p->waiting, *next;

	p->waiting = NULL;
	for (; list != NULL; list = next) {
		next = list->next;
		if (text != NULL)
			answer_unsent(p, list->cookie, text);
		else if (submit_call(p, list, p->token) != ESPL_OK)
			answer_unsent(p, list->cookie, "the request cannot be sent");
		free_call(list);
		free(list);
	}
}

/* ---- the token ---- */

/* text: one line, without what is around it. */
static void
take_token(struct espl_provider *p, const char *text, espl_span lasts)
{
	static const char blanks[] = " \t\r\n";
	espl_time now = p->host->now(p->host);
	size_t size;

	p->fetching = 0;
	text += strspn(text, blanks);
	size = strcspn(text, blanks);
	forget_token(p);
	if (size > 0 && size < 4100 && text[size + strspn(text + size, blanks)] == '\0')
		p->token = strndup(text, size);
	p->token_at = now;
	p->token_ends = now + TOKEN_MOST;
	if (lasts > 0 && lasts < TOKEN_MOST + TOKEN_SPARE)
		p->token_ends = now + (lasts > 2 * TOKEN_SPARE ? lasts - TOKEN_SPARE : lasts / 2);
	flush_waiting(p, p->token != NULL ? NULL : "the access token is empty, or is not one word");
}

static void
lack_token(struct espl_provider *p, const char *text)
{
	char line[ESPL_LEASE_TEXT];

	p->fetching = 0;
	(void)snprintf(line, sizeof line, "cannot get an access token: %.400s", text);
	flush_waiting(p, line);
}

static espl_status
spawn_token(struct espl_provider *p)
{
	const struct espl_table *table = espl_provider_table(p, ESPL_PROVIDER_TOKEN_COMMAND);
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char *words[16];

	for (; table != NULL && spawn.argc < table->row_count; spawn.argc++)
		words[spawn.argc] = table->cells[spawn.argc].as.s;
	for (; table == NULL && p->api->token_command[spawn.argc] != NULL; spawn.argc++)
		words[spawn.argc] = p->api->token_command[spawn.argc];
	spawn.argv = words;
	spawn.limit = TOKEN_LIMIT;
	spawn.cookie = PROVIDER_COOKIE(0, ESPL_CALL_TOKEN);
	return p->io->spawn(p->io, &spawn, NULL);
}

static void
fetch_token(struct espl_provider *p)
{
	const char *from = espl_provider_text(p, ESPL_PROVIDER_TOKEN), *value = NULL;
	struct espl_call call = { .limit = TOKEN_LIMIT };
	espl_status status;

	if (p->fetching)
		return;
	p->fetching = 1;
	if (strcmp(from, "command") == 0) {
		status = spawn_token(p);
	} else if (strcmp(from, "metadata") == 0) {
		p->api->token(p, &call);
		call.cookie = PROVIDER_COOKIE(0, ESPL_CALL_TOKEN);
		status = call.url != NULL ? submit_call(p, &call, NULL) : ESPL_E_NOMEM;
		free_call(&call);
	} else if (p->io->secret(p->io, from, &value) == ESPL_OK) {
		take_token(p, value, 0);
		return;
	} else {
		char text[300];

		(void)snprintf(text, sizeof text, "%.200s cannot be read", from);
		lack_token(p, text);
		return;
	}
	if (status != ESPL_OK)
		lack_token(p, "it cannot be asked for");
}

void
espl_provider_token_child(struct espl_provider *p, const struct espl_child *child)
{
	const char *err = child->err != NULL ? child->err : "";
	const struct espl_table *table = espl_provider_table(p, ESPL_PROVIDER_TOKEN_COMMAND);
	char text[400];
	size_t size;

	if (child->status == ESPL_OK && child->exit_code == 0 && child->out != NULL) {
		take_token(p, child->out, 0);
		return;
	}
	err += strspn(err, " \t\r\n");
	size = strcspn(err, "\r\n");
	(void)snprintf(text, sizeof text, "'%.60s' %s%s%.*s",
	    table != NULL ? table->cells[0].as.s : p->api->token_command[0],
	    child->status == ESPL_E_LIMIT ? "did not end in time" : "failed", size > 0 ? ": " : "",
	    (int)(size < 250 ? size : 250), err);
	lack_token(p, text);
}

espl_status
espl_provider_send(struct espl_provider *p, enum espl_call_kind kind, struct espl_machine *machine,
    struct espl_call *call)
{
	struct espl_call *copy, **at = &p->waiting;
	espl_status status = ESPL_E_NOMEM;

	call->cookie = PROVIDER_COOKIE(machine != NULL ? machine->lease.serial : 0, kind);
	call->next = NULL;
	if (p->token != NULL && p->host->now(p->host) < p->token_ends && call->url != NULL) {
		status = submit_call(p, call, p->token);
		free_call(call);
		return status;
	}
	copy = call->url != NULL ? malloc(sizeof *copy) : NULL;
	if (copy == NULL) {
		free_call(call);
		return ESPL_E_NOMEM;
	}
	*copy = *call;
	while (*at != NULL)
		at = &(*at)->next;
	*at = copy;
	fetch_token(p);
	return ESPL_OK;
}

/* Those of one lease, or (serial 0) of none. */
void
espl_provider_stop(struct espl_provider *p, uint64_t serial)
{
	struct espl_call **at = &p->waiting;

	while (*at != NULL) {
		struct espl_call *call = *at;

		if (call->cookie / PROVIDER_KINDS != serial) {
			at = &call->next;
			continue;
		}
		*at = call->next;
		free_call(call);
		free(call);
	}
	for (uint64_t kind = ESPL_CALL_ASK; kind <= ESPL_CALL_PROBE; kind++)
		p->io->cancel(p->io, PROVIDER_COOKIE(serial, kind));
	p->io->cancel(p->io, PROVIDER_COOKIE(serial, PROVIDER_SSH));
}

/* ---- listings ---- */

struct espl_provider_page {
	struct espl_provider_row *rows;
	uint32_t count, room;
};

static void
free_page(struct espl_provider *p, enum espl_call_kind kind)
{
	struct espl_provider_page **at = &p->pages[kind == ESPL_CALL_OWNED];

	for (uint32_t i = 0; *at != NULL && i < (*at)->count; i++) {
		const struct espl_provider_row *r = &(*at)->rows[i];
		const char *const texts[] = { r->row.token, r->row.id, r->row.address,
			r->row.machine, r->row.detail, r->row.text, r->run, r->offer, r->market };

		for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
			free((void *)(uintptr_t)texts[k]);
	}
	if (*at != NULL)
		free((*at)->rows);
	free(*at);
	*at = NULL;
}

int
espl_provider_row(struct espl_provider *p, enum espl_call_kind kind,
    const struct espl_provider_row *row)
{
	struct espl_provider_page *page = p->pages[kind == ESPL_CALL_OWNED];
	struct espl_provider_row copy = *row;
	const char **const texts[] = { &copy.row.token, &copy.row.id, &copy.row.address,
		&copy.row.machine, &copy.row.detail, &copy.row.text, &copy.run, &copy.offer,
		&copy.market };
	int failed = page == NULL;

	if (page != NULL && page->count == page->room) {
		uint32_t room = page->room > 0 ? 2 * page->room : 16;
		struct espl_provider_row *rows = realloc(page->rows, room * sizeof *rows);

		if (rows == NULL)
			return -1;
		page->rows = rows;
		page->room = room;
	}
	for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
		const char *text = failed ? NULL : *texts[k];

		*texts[k] = text != NULL ? strdup(text) : NULL;
		failed |= text != NULL && *texts[k] == NULL;
	}
	if (page != NULL)
		page->rows[page->count++] = copy; /* what was copied is freed with it */
	return failed ? -1 : 0;
}

/* page NULL: the first one. */
static espl_status
ask_page(struct espl_provider *p, enum espl_call_kind kind, const char *page)
{
	const char *run = kind == ESPL_CALL_OWNED ? p->owned_run : p->run_name;
	struct espl_call call = { .method = NULL };

	if (page == NULL) {
		free_page(p, kind);
		p->pages[kind == ESPL_CALL_OWNED] = calloc(1, sizeof **p->pages);
		if (p->pages[kind == ESPL_CALL_OWNED] == NULL)
			return ESPL_E_NOMEM;
	}
	p->api->list(p, run, page, &call);
	return espl_provider_send(p, kind, NULL, &call);
}

espl_status
espl_provider_list(void *self)
{
	return ask_page(self, ESPL_CALL_LIST, NULL);
}

static void
end_listing(struct espl_provider *p, const char *failed)
{
	const struct espl_provider_page *page = p->pages[0];
	espl_time now = p->host->now(p->host);
	struct espl_lease_row *rows =
	    failed == NULL ? calloc(page->count + (size_t)1, sizeof *rows) : NULL;

	for (uint32_t i = 0; rows != NULL && i < page->count; i++)
		rows[i] = page->rows[i].row;
	if (rows != NULL)
		espl_leases_listed(&p->leases, rows, page->count, now);
	else
		espl_leases_unlisted(&p->leases, failed != NULL ? failed : "out of memory", now);
	free(rows);
	free_page(p, ESPL_CALL_LIST);
}

static void
end_owned(struct espl_provider *p, const char *failed)
{
	const struct espl_provider_page *page = p->pages[1];
	uint64_t what = p->owned_what;

	for (uint32_t i = 0; failed == NULL && i < page->count; i++) {
		const struct espl_provider_row *r = &page->rows[i];
		struct espl_node_event event = ESPL_INIT(struct espl_node_event);

		if (r->row.stage == ESPL_STAGE_ENDED)
			continue;
		event.state = r->row.notice              ? ESPL_NODE_NOTICE
		    : r->row.stage >= ESPL_STAGE_JOINING ? ESPL_NODE_READY
							 : ESPL_NODE_BOOTING;
		event.lease = ESPL_NONE;
		event.token = r->row.token;
		event.run = r->run;
		event.provider_id = r->row.id;
		event.address = r->row.address;
		event.at = event.ends_at = ESPL_NEVER;
		event.gpus = ESPL_ANY;
		event.charged = -1;
		event.offer = r->offer;
		event.market = r->market;
		event.billed_utc_s = r->billed_utc_s;
		(void)p->events->node(p->events, &event);
	}
	free_page(p, ESPL_CALL_OWNED);
	free(p->owned_run);
	p->owned_run = NULL;
	p->owned_what = ESPL_NONE;
	p->events->done(p->events, what, failed != NULL ? ESPL_E_REMOTE : ESPL_OK,
	    failed != NULL ? failed : "");
}

static void
take_page(struct espl_provider *p, enum espl_call_kind kind, const struct espl_answer *answer)
{
	const char *failed = answer->failure == ESPL_DID_FINE ? NULL
	    : answer->text[0] != '\0'                         ? answer->text
							      : "the listing failed";

	if (p->pages[kind == ESPL_CALL_OWNED] == NULL)
		return; /* it is not asked for any more */
	if (failed == NULL && answer->page != NULL && answer->page[0] != '\0') {
		if (ask_page(p, kind, answer->page) == ESPL_OK)
			return;
		failed = "the next page cannot be asked for";
	}
	if (kind == ESPL_CALL_LIST)
		end_listing(p, failed);
	else
		end_owned(p, failed);
}

espl_status
espl_provider_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct espl_provider *p = self;

	if (p->owned_what != ESPL_NONE)
		return espl_fail(error, ESPL_E_BUSY,
		    "an earlier request has not been answered yet");
	p->owned_run = run != NULL ? strdup(run) : NULL;
	if ((run != NULL && p->owned_run == NULL) ||
	    ask_page(p, ESPL_CALL_OWNED, NULL) != ESPL_OK) {
		free_page(p, ESPL_CALL_OWNED);
		free(p->owned_run);
		p->owned_run = NULL;
		return espl_fail(error, ESPL_E_NOMEM, "the listing cannot be asked for");
	}
	p->owned_what = what;
	return ESPL_OK;
}

/* ---- answers ---- */

static void
take_lease(struct espl_provider *p, enum espl_call_kind kind, struct espl_machine *m,
    struct espl_answer *a)
{
	struct espl_leases *set = &p->leases;
	espl_time now = p->host->now(p->host);

	if ((kind == ESPL_CALL_ASK || kind == ESPL_CALL_AWAIT) && a->pending)
		return;
	if (kind == ESPL_CALL_ASK || kind == ESPL_CALL_AWAIT) {
		if (a->failure == ESPL_DID_GONE)
			a->failure = ESPL_DID_REFUSE; /* what it is to be made of does not exist */
		if (a->failure == ESPL_DID_FINE)
			espl_leases_made(set, &m->lease, &a->row, now);
		else
			espl_leases_refused(set, &m->lease, a->failure, a->reason, a->text,
			    a->retry_after, now);
	} else if (kind == ESPL_CALL_LOOK) {
		espl_leases_looked(set, &m->lease, a->failure, &a->row, a->text, now);
	} else if (kind == ESPL_CALL_CANCEL) {
		if (a->failure == ESPL_DID_REFUSE || a->failure == ESPL_DID_EXIST)
			a->failure = ESPL_DID_LATER;
		espl_leases_cancelled(set, &m->lease, a->failure, a->text, a->row.charged, now);
	} else if (kind == ESPL_CALL_PROBE) {
		m->probed = a->failure == ESPL_DID_FINE;
		if (!m->probed || espl_provider_ssh(p, m) != ESPL_OK)
			espl_leases_probed(set, &m->lease, 0,
			    m->probed ? "ssh cannot be started" : a->text, now);
	}
}

void
espl_provider_take(struct espl_provider *p, const struct espl_http_reply *reply)
{
	enum espl_call_kind kind = (enum espl_call_kind)(reply->cookie % PROVIDER_KINDS);
	struct espl_machine *m =
	    (struct espl_machine *)espl_leases_serial(&p->leases, reply->cookie / PROVIDER_KINDS);
	struct espl_answer answer = espl_provider_answer(reply);

	if (reply->code == 401 && kind != ESPL_CALL_TOKEN)
		forget_token(p);
	p->api->read(p, kind, m, reply, &answer);
	if (kind == ESPL_CALL_TOKEN && answer.failure == ESPL_DID_FINE && answer.token != NULL)
		take_token(p, answer.token, answer.lasts);
	else if (kind == ESPL_CALL_TOKEN)
		lack_token(p, answer.text[0] != '\0' ? answer.text : "the answer names none");
	else if (kind == ESPL_CALL_START)
		espl_provider_started(p, &answer);
	else if (kind == ESPL_CALL_LIST || kind == ESPL_CALL_OWNED)
		take_page(p, kind, &answer);
	else if (m != NULL)
		take_lease(p, kind, m, &answer);
	if (answer.kept != NULL)
		p->api->drop(answer.kept);
	free(answer.page);
}

void
espl_provider_on_http(void *self, const struct espl_http_reply *reply)
{
	struct espl_provider *p = self;

	espl_provider_take(p, reply);
	espl_leases_due(&p->leases, p->host->now(p->host));
}

/* ---- the end ---- */

void
espl_provider_free(struct espl_provider *p)
{
	struct espl_call *next;

	espl_leases_free(&p->leases);
	for (struct espl_call *call = p->waiting; call != NULL; call = next) {
		next = call->next;
		free_call(call);
		free(call);
	}
	p->waiting = NULL;
	free_page(p, ESPL_CALL_LIST);
	free_page(p, ESPL_CALL_OWNED);
	forget_token(p);
	free(p->run_name);
	free(p->owned_run);
	free(p->sources);
	p->sources = NULL;
}
