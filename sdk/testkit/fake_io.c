/* fake_io.c - ESPL_IO of a kit: requests wait for the test's provider, and time is the kit's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/util.h>
#include "kit_cloud.h"

#define LATENCY (ESPL_SECOND / 10)        /* of a request */
#define HTTP_LIMIT (60 * ESPL_SECOND)     /* where the request has none */
#define CHILDREN_LIMIT (60 * ESPL_SECOND) /* after which a child whose connection is lost ends */

static const char no_network[] = "check-plugin does not provide a network";

static struct espl_kit *
kit_of(const struct espl_io *io)
{
	struct espl_kit *kit = io->ctx;

	ESPL_ASSERT(kit->magic == KIT_MAGIC && kit->cloud != NULL);
	return kit;
}

/* ---- copies of requests ------------------------------------------------------------------ */

static const char *
copy_text(struct espl_kit *kit, const char *text)
{
	return text != NULL ? espl__kit_text(kit, text, strlen(text)) : NULL;
}

static const char *const *
copy_words(struct espl_kit *kit, const char *const *words, uint32_t count)
{
	const char **copy = espl__kit_alloc(kit, ((size_t)count + 1) * sizeof *copy);

	for (uint32_t i = 0; i < count; i++)
		copy[i] = copy_text(kit, words[i]);
	return copy;
}

static const void *
copy_bytes(struct espl_kit *kit, const void *bytes, uint64_t size)
{
	return bytes != NULL ? espl__kit_text(kit, bytes, (size_t)size) : NULL;
}

static void
print_words(char *to, size_t room, const char *const *words, uint32_t count)
{
	size_t used = 0;

	to[0] = '\0';
	for (uint32_t i = 0; i < count && used < room; i++)
		used += (size_t)snprintf(to + used, room - used, " %s", words[i]);
}

/* ---- answers ----------------------------------------------------------------------------- */

/* By the provider, into what r->cookie gets. */
static void
perform_http(struct espl_kit *kit, const struct kit_request *r, struct espl_http_reply *reply)
{
	const struct espl_kit_provider *provider = kit->cloud->provider;

	*reply = (struct espl_http_reply){ .size = (uint32_t)sizeof *reply,
		.cookie = r->cookie,
		.code = 200,
		.body = "",
		.text = "" };
	if (provider != NULL && provider->http != NULL) {
		provider->http(provider->ctx, &r->http, reply);
		return;
	}
	reply->status = ESPL_E_REMOTE;
	reply->code = 0;
	reply->text = no_network;
}

static void
perform_child(struct espl_kit *kit, const struct kit_request *r, struct espl_child *child)
{
	const struct espl_kit_provider *provider = kit->cloud->provider;

	*child = (struct espl_child){ .size = (uint32_t)sizeof *child,
		.cookie = r->cookie,
		.out = "",
		.err = "" };
	if (provider != NULL && provider->child != NULL) {
		provider->child(provider->ctx, &r->spawn, child);
		return;
	}
	child->status = ESPL_E_REMOTE;
	child->err = no_network;
	child->err_size = sizeof no_network - 1;
}

static void
perform_unseen(struct espl_kit *kit, const struct kit_request *r)
{
	struct espl_http_reply reply;
	struct espl_child child;

	if (r->kind == KIT_HTTP)
		perform_http(kit, r, &reply);
	else if (r->kind == KIT_CHILD)
		perform_child(kit, r, &child);
}

static void
add_request(struct espl_kit *kit, const struct kit_request *r)
{
	struct kit_cloud *c = kit->cloud;

	c->requests = espl__kit_more(kit, c->requests, c->request_count, sizeof *c->requests);
	c->requests[c->request_count++] = *r;
}

/* It has not ended yet: the provider is asked again. 0: its time is over. */
static int
ask_again(struct espl_kit *kit, const struct kit_request *r)
{
	struct kit_request again = *r;

	again.at = kit->now + ESPL_SECOND;
	if (again.until == ESPL_NEVER || again.at < again.until)
		add_request(kit, &again);
	return again.until == ESPL_NEVER || again.at < again.until;
}

static int
is_wanted(const struct espl_kit *kit, uint64_t cookie)
{
	for (uint32_t i = 0; i < kit->cloud->request_count; i++)
		if (kit->cloud->requests[i].kind == KIT_HTTP &&
		    kit->cloud->requests[i].cookie == cookie)
			return 1;
	return 0;
}

/* Each whole line by itself; the reply keeps what follows the last one. */
static void
answer_lines(struct espl_kit *kit, const struct espl_cloud_ops *ops, struct espl_http_reply *reply,
    int busy)
{
	const char *at = reply->body, *end;

	while (!kit->cloud->dead && (end = strchr(at, '\n')) != NULL) {
		struct espl_http_reply line = { .size = (uint32_t)sizeof line,
			.cookie = reply->cookie,
			.code = 200,
			.text = "",
			.more = 1 };

		line.body = espl__kit_text(kit, at, (size_t)(end - at));
		line.body_size = (uint64_t)(end - at);
		at = end + 1;
		ops->on_http(kit->self, &line);
		if (busy && !is_wanted(kit, reply->cookie))
			return; /* cancelled meanwhile */
	}
	reply->body = at;
	reply->body_size = strlen(at);
}

static void
answer_http(struct espl_kit *kit, const struct espl_cloud_ops *ops, const struct kit_request *r)
{
	struct espl_http_reply reply;
	int busy;

	if (r->lost == ESPL_KIT_BUSY)
		reply = (struct espl_http_reply){ .code = 503, .body = "busy", .body_size = 4 };
	else if (r->lost != 0)
		reply = (struct espl_http_reply){ .status = r->lost == ESPL_KIT_LOSE_ANSWER
			    ? ESPL_E_LIMIT
			    : ESPL_E_REMOTE,
			.body = "",
			.text = "the connection was lost" };
	else
		perform_http(kit, r, &reply);
	reply.size = (uint32_t)sizeof reply;
	reply.cookie = r->cookie;
	if (reply.text == NULL)
		reply.text = "";
	busy = reply.status == ESPL_E_BUSY;
	if (busy && !ask_again(kit, r)) {
		reply = (struct espl_http_reply){ .size = (uint32_t)sizeof reply,
			.status = ESPL_E_LIMIT,
			.cookie = r->cookie,
			.body = "",
			.text = "its time is over" };
		busy = 0;
	}
	if (r->http.lines && reply.code == 200)
		answer_lines(kit, ops, &reply, busy);
	if (!busy && !kit->cloud->dead)
		ops->on_http(kit->self, &reply);
}

static void
answer_child(struct espl_kit *kit, const struct espl_cloud_ops *ops, const struct kit_request *r)
{
	static const char busy[] = "the service is busy", cut[] = "the connection was lost";
	struct espl_child child;

	if (r->lost == ESPL_KIT_BUSY)
		child = (struct espl_child){ .exit_code = 1,
			.out = "",
			.err = busy,
			.err_size = sizeof busy - 1 };
	else if (r->lost != 0)
		child = (struct espl_child){ .status = r->spawn.limit > 0 ? ESPL_E_LIMIT : ESPL_OK,
			.exit_code = r->spawn.limit > 0 ? -9 : 1,
			.out = "",
			.err = cut,
			.err_size = sizeof cut - 1 };
	else
		perform_child(kit, r, &child);
	if (child.status == ESPL_E_BUSY && ask_again(kit, r))
		return;
	if (child.status == ESPL_E_BUSY)
		child = (struct espl_child){ .status = ESPL_E_LIMIT,
			.exit_code = -9,
			.out = "",
			.err = "" };
	child.size = (uint32_t)sizeof child;
	child.cookie = r->cookie;
	ops->on_child(kit->self, &child);
}

int
espl__kit_cloud_answer(struct espl_kit *kit, espl_time until)
{
	struct kit_cloud *c = espl__kit_cloud(kit);
	struct espl_error error;
	const struct espl_cloud_ops *ops = espl__kit_cloud_ops(kit, &error);
	struct kit_request r;
	uint32_t first = 0;

	for (uint32_t i = 1; i < c->request_count; i++)
		if (c->requests[i].at < c->requests[first].at)
			first = i;
	if (c->request_count == 0 || c->requests[first].at > until)
		return 0;
	r = c->requests[first];
	memmove(&c->requests[first], &c->requests[first + 1],
	    (--c->request_count - first) * sizeof r);
	if (r.at > kit->now)
		kit->now = r.at;
	espl__kit_call(kit,
	    r.kind == KIT_TIMER      ? "on_timer"
		: r.kind == KIT_HTTP ? "on_http"
				     : "on_child",
	    NULL);
	if (r.kind == KIT_TIMER && ESPL_HAS(struct espl_cloud_ops, ops, on_timer))
		ops->on_timer(kit->self, r.cookie);
	else if (r.kind == KIT_HTTP && ESPL_HAS(struct espl_cloud_ops, ops, on_http))
		answer_http(kit, ops, &r);
	else if (r.kind == KIT_CHILD && ESPL_HAS(struct espl_cloud_ops, ops, on_child))
		answer_child(kit, ops, &r);
	else
		espl__kit_wrong(kit, "requested I/O, but has no function for the answer");
	return 1;
}

/* ---- requests ---------------------------------------------------------------------------- */

static espl_kit_fault
find_fault(const struct kit_cloud *c)
{
	for (uint32_t i = 0; i < c->fault_count; i++)
		if (c->faults[i].at == c->sent)
			return c->faults[i].kind;
	return 0;
}

/* It leaves now, unless a fault of this kit befalls it. */
static espl_status
send_request(struct espl_kit *kit, struct kit_request *r)
{
	struct kit_cloud *c = kit->cloud;
	espl_span limit = r->kind == KIT_HTTP ? r->http.limit : r->spawn.limit;
	espl_kit_fault fault;

	r->at = kit->now + LATENCY;
	r->until = limit > 0      ? kit->now + limit
	    : r->kind == KIT_HTTP ? kit->now + HTTP_LIMIT
				  : ESPL_NEVER;
	c->asked++;
	c->sent++;
	fault = find_fault(c);
	if (fault == 0) {
		add_request(kit, r);
		return ESPL_OK;
	}
	c->struck = 1;
	if (fault == ESPL_KIT_LOSE_REQUEST || fault == ESPL_KIT_LOSE_ANSWER) {
		espl__kit_print(kit,
		    fault == ESPL_KIT_LOSE_REQUEST ? "lost: the request" : "lost: the answer");
		if (fault == ESPL_KIT_LOSE_ANSWER)
			perform_unseen(kit, r);
		r->at = kit->now +
		    (limit > 0                    ? limit
			    : r->kind == KIT_HTTP ? HTTP_LIMIT
						  : CHILDREN_LIMIT);
	} else if (fault == ESPL_KIT_KILL_BEFORE || fault == ESPL_KIT_KILL_AFTER) {
		espl__kit_print(kit,
		    fault == ESPL_KIT_KILL_BEFORE ? "killed before the request left"
						  : "killed before the answer");
		for (uint32_t i = 0; fault == ESPL_KIT_KILL_AFTER && i < c->request_count; i++)
			perform_unseen(kit, &c->requests[i]);
		if (fault == ESPL_KIT_KILL_AFTER)
			perform_unseen(kit, r);
		c->dead = 1;
		return ESPL_OK;
	}
	r->lost = (int)fault;
	add_request(kit, r);
	return ESPL_OK;
}

static espl_status
refuse_request(struct espl_kit *kit, const char *call, struct espl_error *error, const char *why)
{
	(void)espl__kit_heard(kit, call, NULL, 0);
	kit->weight = KIT_GRAVE;
	(void)espl__kit_told(kit, why, "%s", call);
	return error != NULL ? espl_fail(error, ESPL_E_CONFIG, "%s", why) : ESPL_E_CONFIG;
}

static const char *
http_wrong(const struct espl_http *request)
{
	if (request->size < sizeof *request)
		return "the size of its struct is not set (ESPL_INIT does it)";
	if (request->method == NULL || request->url == NULL)
		return "method or url is missing";
	if (strncmp(request->url, "https://", 8) != 0 && strncmp(request->url, "http://", 7) != 0)
		return "the URL begins with neither https:// nor http://";
	if (request->limit < 0)
		return "the limit is negative";
	for (uint32_t i = 0; i < request->header_count; i++)
		if (request->headers[i] == NULL || strchr(request->headers[i], ':') == NULL)
			return "a header is not \"Name: value\"";
	return NULL;
}

static espl_status
io_http(const struct espl_io *io, const struct espl_http *request, struct espl_error *error)
{
	struct espl_kit *kit = kit_of(io);
	struct kit_request r = { .kind = KIT_HTTP, .cookie = request->cookie };
	const char *wrong = http_wrong(request);

	if (kit->cloud->dead)
		return ESPL_OK;
	if (wrong != NULL)
		return refuse_request(kit, "http", error, wrong);
	r.http = *request;
	r.http.method = copy_text(kit, request->method);
	r.http.url = copy_text(kit, request->url);
	r.http.headers = copy_words(kit, request->headers, request->header_count);
	r.http.body = copy_bytes(kit, request->body, request->body_size);
	r.http.sign = copy_text(kit, request->sign);
	espl__kit_print(kit, "http %s %s", r.http.method, r.http.url);
	return send_request(kit, &r);
}

static espl_status
io_spawn(const struct espl_io *io, const struct espl_spawn *request, struct espl_error *error)
{
	struct espl_kit *kit = kit_of(io);
	struct kit_request r = { .kind = KIT_CHILD, .cookie = request->cookie };
	char words[600];

	if (kit->cloud->dead)
		return ESPL_OK;
	if (request->size < sizeof *request)
		return refuse_request(kit, "spawn", error,
		    "the size of its struct is not set (ESPL_INIT does it)");
	if (request->argc == 0 || request->argv == NULL || request->argv[0] == NULL)
		return refuse_request(kit, "spawn", error, "there is no program");
	if (request->limit < 0)
		return refuse_request(kit, "spawn", error, "the limit is negative");
	r.spawn = *request;
	r.spawn.argv = copy_words(kit, request->argv, request->argc);
	r.spawn.env = copy_words(kit, request->env, request->env_count);
	r.spawn.input = copy_bytes(kit, request->input, request->input_size);
	print_words(words, sizeof words, r.spawn.argv, r.spawn.argc);
	espl__kit_print(kit, "child%s", words);
	return send_request(kit, &r);
}

static espl_status
io_timer(const struct espl_io *io, espl_span after, uint64_t cookie)
{
	struct espl_kit *kit = kit_of(io);
	struct kit_request r = { .kind = KIT_TIMER, .cookie = cookie, .at = kit->now + after };

	if (kit->cloud->dead)
		return ESPL_OK;
	if (after < 0)
		return refuse_request(kit, "timer", NULL, "its time is negative");
	add_request(kit, &r);
	return ESPL_OK;
}

static void
io_cancel(const struct espl_io *io, uint64_t cookie)
{
	struct espl_kit *kit = kit_of(io);
	struct kit_cloud *c = kit->cloud;
	uint32_t left = 0;

	if (c->dead)
		return;
	for (uint32_t i = 0; i < c->request_count; i++) {
		if (c->requests[i].cookie != cookie)
			c->requests[left++] = c->requests[i];
		else /* it has left, and only its answer is not wanted any more */
			perform_unseen(kit, &c->requests[i]);
	}
	c->request_count = left;
}

static int64_t
io_utc(const struct espl_io *io)
{
	const struct espl_kit *kit = kit_of(io);

	return kit->host.utc_start_s * ESPL_SECOND + kit->now;
}

static espl_status
io_secret(const struct espl_io *io, const char *name, const char **value)
{
	const struct espl_kit_provider *provider = kit_of(io)->cloud->provider;

	*value = provider != NULL && provider->secret != NULL
	    ? provider->secret(provider->ctx, name)
	    : NULL;
	return *value != NULL ? ESPL_OK : ESPL_E_UNKNOWN;
}

void
espl__kit_cloud_io(struct espl_kit *kit)
{
	kit->cloud->io = (struct espl_io){ .size = (uint32_t)sizeof kit->cloud->io,
		.ctx = kit,
		.http = io_http,
		.spawn = io_spawn,
		.timer = io_timer,
		.cancel = io_cancel,
		.utc_ns = io_utc,
		.secret = io_secret };
}

void
espl_kit_set_fault(struct espl_kit *kit, uint32_t request, espl_kit_fault fault)
{
	struct kit_cloud *c = espl__kit_cloud(kit);

	c->faults[0] = (struct kit_fault){ request, fault };
	c->fault_count = 1;
	c->sent = 0;
	c->struck = 0;
}

void
espl_kit_add_fault(struct espl_kit *kit, uint32_t request, espl_kit_fault fault)
{
	struct kit_cloud *c = espl__kit_cloud(kit);

	if (c->fault_count == KIT_FAULTS)
		espl__kit_stop("there are too many faults");
	c->faults[c->fault_count++] = (struct kit_fault){ request, fault };
}
