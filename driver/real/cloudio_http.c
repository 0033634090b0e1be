/* cloudio_http.c - HTTP for cloud plugins: libcurl's multi interface driven by libuv.
 *
 * Plugins never see secrets in requests: requests are signed here.
 */
#include <curl/curl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/util.h>
#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "real/cloudio_private.h"

#define BODY_MAX (64u << 20)
#define HEADERS_MAX 256u

/* What the signature of a request for AWS is made of, until its keys are known. */
struct aws_part {
	char *url, *method, *region, *service;
	char body_hash[65];
};

struct exchange {
	struct exchange *next;
	struct espl__http_hub *hub;
	CURL *easy;
	struct curl_slist *headers;
	uint64_t cookie;
	int cancelled, too_long;
	int lines;            /* each line is handed over as it comes */
	struct aws_part *aws; /* NULL: not signed for AWS */
	int waits;            /* for keys: curl has not seen it */
	struct espl__buf body;
	char **got; /* header lines of the last response */
	uint32_t got_count, got_cap;
	char why[CURL_ERROR_SIZE];
};

struct socket_watch {
	uv_poll_t poll;
	struct espl__http_hub *hub;
	curl_socket_t fd;
};

struct espl__http_hub {
	struct espl__cloudio *io;
	CURLM *multi;
	uv_timer_t timer;
	uint32_t handles;
	struct exchange *list;
	int stopped;
};

static void
free_aws_part(struct aws_part *aws)
{
	if (aws == NULL)
		return;
	free(aws->url);
	free(aws->method);
	free(aws->region);
	free(aws->service);
	free(aws);
}

static void
exchange_free(struct exchange *x)
{
	uint32_t i;

	free_aws_part(x->aws);
	curl_easy_cleanup(x->easy);
	curl_slist_free_all(x->headers);
	espl__buf_free(&x->body);
	for (i = 0; i < x->got_count; i++)
		free(x->got[i]);
	free(x->got);
	free(x);
}

static void
unlink_exchange(struct exchange *x)
{
	struct exchange **at = &x->hub->list;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
}

static void
answer_plugin(struct exchange *x, CURLcode result)
{
	struct espl__cloudio *io = x->hub->io;
	struct espl_http_reply reply = ESPL_INIT(struct espl_http_reply);
	long code = 0;

	if (x->cancelled || io->instance == NULL ||
	    !ESPL_HAS(struct espl_cloud_ops, io->ops, on_http))
		return;
	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &code);
	reply.cookie = x->cookie;
	reply.text = "";
	if (result == CURLE_OK) {
		if (x->aws != NULL && (code == 400 || code == 401 || code == 403) &&
		    strstr(espl__buf_text(&x->body), "Expired") != NULL)
			espl__io_keys_refused(io); /* ExpiredToken, RequestExpired, ... */
		reply.status = ESPL_OK;
		reply.code = (uint32_t)code;
		reply.header_count = x->got_count;
		reply.headers = (const char *const *)x->got;
	} else {
		reply.status = result == CURLE_OPERATION_TIMEDOUT ? ESPL_E_LIMIT
		    : result == CURLE_LOGIN_DENIED                ? ESPL_E_CONFIG /* no keys */
								  : ESPL_E_REMOTE;
		if (x->too_long) {
			reply.status = ESPL_E_LIMIT;
			reply.text = "the response is longer than 64 MiB";
		} else {
			reply.text = x->why[0] != '\0' ? x->why : curl_easy_strerror(result);
		}
	}
	reply.body = espl__buf_text(&x->body);
	reply.body_size = x->body.size;
	io->setup.enter(io->setup.ctx);
	io->ops->on_http(io->instance->self, &reply);
}

/* Hands over the whole lines that have come; the plugin may close the hub. */
static void
answer_lines(struct exchange *x)
{
	struct espl__http_hub *hub = x->hub;
	size_t begin = 0;
	long code = 0;

	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &code);
	while (code == 200 && begin < x->body.size) {
		struct espl__cloudio *io = hub->io;
		struct espl_http_reply reply = ESPL_INIT(struct espl_http_reply);
		char *line = (char *)x->body.data + begin;
		char *end = memchr(line, '\n', x->body.size - begin);

		if (end == NULL)
			break;
		*end = '\0';
		begin += (size_t)(end - line) + 1;
		if (x->cancelled || io->instance == NULL ||
		    !ESPL_HAS(struct espl_cloud_ops, io->ops, on_http))
			continue;
		reply.cookie = x->cookie;
		reply.text = "";
		reply.status = ESPL_OK;
		reply.code = (uint32_t)code;
		reply.body = line;
		reply.body_size = (uint64_t)(end - line);
		reply.more = 1;
		io->setup.enter(io->setup.ctx);
		io->ops->on_http(io->instance->self, &reply);
		if (hub->stopped)
			return;
	}
	memmove(x->body.data, x->body.data + begin, x->body.size - begin);
	x->body.size -= begin;
}

static void
collect_done(struct espl__http_hub *hub)
{
	CURLMsg *message;
	int left;

	for (struct exchange *x = hub->list; x != NULL; x = x->next) {
		if (x->lines && x->body.size > 0)
			answer_lines(x);
		if (hub->stopped)
			return;
	}
	while ((message = curl_multi_info_read(hub->multi, &left)) != NULL) {
		struct exchange *x = NULL;
		CURLcode result;

		if (message->msg != CURLMSG_DONE)
			continue;
		result = message->data.result;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&x);
		(void)curl_multi_remove_handle(hub->multi, x->easy);
		unlink_exchange(x);
		answer_plugin(x, result);
		exchange_free(x);
		if (hub->stopped)
			return;
	}
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
	struct socket_watch *watch = poll->data;
	struct espl__http_hub *hub = watch->hub;
	int flags = 0, running;

	if (status < 0)
		flags = CURL_CSELECT_ERR;
	if (events & UV_READABLE)
		flags |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		flags |= CURL_CSELECT_OUT;
	(void)curl_multi_socket_action(hub->multi, watch->fd, flags, &running);
	collect_done(hub);
}

static void
watch_closed(uv_handle_t *handle)
{
	struct socket_watch *watch = handle->data;

	watch->hub->handles--;
	free(watch);
}

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
	struct espl__http_hub *hub = ctx;
	struct socket_watch *watch = socket_ctx;
	int events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (watch != NULL) {
			(void)curl_multi_assign(hub->multi, fd, NULL);
			(void)uv_poll_stop(&watch->poll);
			uv_close((uv_handle_t *)&watch->poll, watch_closed);
		}
		return 0;
	}
	if (watch == NULL) {
		watch = espl__alloc(sizeof *watch);
		watch->hub = hub;
		watch->fd = fd;
		if (uv_poll_init_socket(hub->io->setup.loop, &watch->poll, fd) != 0) {
			free(watch);
			return -1;
		}
		watch->poll.data = watch;
		hub->handles++;
		(void)curl_multi_assign(hub->multi, fd, watch);
	}
	if (what & CURL_POLL_IN)
		events |= UV_READABLE;
	if (what & CURL_POLL_OUT)
		events |= UV_WRITABLE;
	return uv_poll_start(&watch->poll, events, on_poll) == 0 ? 0 : -1;
}

static void
on_timeout(uv_timer_t *timer)
{
	struct espl__http_hub *hub = timer->data;
	int running;

	(void)curl_multi_socket_action(hub->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect_done(hub);
}

static int
on_curl_timer(CURLM *multi, long ms, void *ctx)
{
	struct espl__http_hub *hub = ctx;

	(void)multi;
	if (hub->stopped)
		return 0;
	if (ms < 0)
		(void)uv_timer_stop(&hub->timer);
	else /* never at once: curl must not be entered from within itself */
		(void)uv_timer_start(&hub->timer, on_timeout, (uint64_t)ms, 0);
	return 0;
}

static size_t
on_body(char *bytes, size_t each, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	size_t size = each * count;

	if (x->body.size + size > BODY_MAX) {
		x->too_long = 1;
		return 0;
	}
	espl__put(&x->body, bytes, size);
	return size;
}

static size_t
on_header(char *bytes, size_t each, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	size_t size = each * count, length = size;
	char *line;

	while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r'))
		length--;
	if (length >= 5 &&
	    memcmp(bytes, "HTTP/", 5) == 0) { /* a new response: forget the interim one */
		while (x->got_count > 0)
			free(x->got[--x->got_count]);
		return size;
	}
	if (length == 0 || x->got_count >= HEADERS_MAX)
		return size;
	line = espl__alloc(length + 1);
	memcpy(line, bytes, length);
	ESPL__GROW(x->got, x->got_cap, x->got_count + 1);
	x->got[x->got_count++] = line;
	return size;
}

static espl_status
add_header(struct exchange *x, const char *line, struct espl_error *error)
{
	struct curl_slist *more;

	if (strpbrk(line, "\r\n") != NULL)
		return espl_fail(error, ESPL_E_BUG,
		    "a header of the request contains a line break");
	more = curl_slist_append(x->headers, line);
	if (more == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	x->headers = more;
	return ESPL_OK;
}

/* "aws:amz:REGION:SERVICE", kept until there are keys. */
static espl_status
note_aws_part(struct exchange *x, const struct espl_http *request, struct espl_error *error)
{
	const char *region = request->sign + 8, *service = strchr(region, ':');
	struct aws_part *aws;

	if (service == NULL || service == region || service[1] == '\0' ||
	    strchr(service + 1, ':') != NULL)
		return espl_fail(error, ESPL_E_BUG, "'%s' is not aws:amz:REGION:SERVICE",
		    request->sign);
	aws = x->aws = espl__alloc(sizeof *aws);
	aws->url = espl__strdup(request->url);
	aws->method = espl__strdup(request->method != NULL ? request->method : "GET");
	aws->region = espl__format("%.*s", (int)(service - region), region);
	aws->service = espl__strdup(service + 1);
	espl__sha256(request->body_size > 0 ? request->body : "", request->body_size,
	    aws->body_hash);
	return ESPL_OK;
}

/* Adds the signature to the headers that libcurl has not been given yet. */
static espl_status
sign_aws(struct exchange *x, const struct espl__aws_keys *keys, struct espl_error *error)
{
	struct espl__sigv4 request = { 0 };
	char *lines[ESPL__SIGV4_LINES];
	const char **headers = NULL;
	uint32_t count = 0, cap = 0, i;
	const struct curl_slist *one;
	espl_status status;

	for (one = x->headers; one != NULL; one = one->next) {
		ESPL__GROW(headers, cap, request.header_count + 1);
		headers[request.header_count++] = one->data;
	}
	request.method = x->aws->method;
	request.region = x->aws->region;
	request.service = x->aws->service;
	request.url = x->aws->url;
	request.headers = headers;
	memcpy(request.body_hash, x->aws->body_hash, sizeof request.body_hash);
	request.keys = keys;
	request.utc = (int64_t)time(NULL);
	status = espl__sigv4_sign(&request, lines, &count, error);
	for (i = 0; i < count; i++) {
		if (status == ESPL_OK)
			status = add_header(x, lines[i], error);
		memset(lines[i], 0, strlen(lines[i]));
		free(lines[i]);
	}
	free(headers);
	if (status == ESPL_OK &&
	    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers) != CURLE_OK)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	return status;
}

/* Signs as asked for; for AWS only what needs no keys. */
static espl_status
sign_request(struct exchange *x, const struct espl_http *request, struct espl_error *error)
{
	const struct espl_config *config;
	char *line;
	espl_status status;

	if (request->sign == NULL)
		return ESPL_OK;
	if (strncmp(request->sign, "aws:amz:", 8) == 0)
		return note_aws_part(x, request, error);
	if (strcmp(request->sign, "bearer") != 0)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "unknown signature method '%s'",
		    request->sign);
	if (x->hub->io->instance == NULL)
		return espl_fail(error, ESPL_E_BUG,
		    "a request was made before the plugin was created");
	config = &x->hub->io->instance->values->config;
	if (request->sign_secret >= config->count ||
	    config->values[request->sign_secret].source == ESPL_UNSET ||
	    config->values[request->sign_secret].as.s == NULL)
		return espl_fail(error, ESPL_E_CONFIG, "the option with the token is not set");
	line = espl__format("Authorization: Bearer %s", config->values[request->sign_secret].as.s);
	status = add_header(x, line, error);
	memset(line, 0, strlen(line));
	free(line);
	return status;
}

static int
set_method(CURL *easy, const struct espl_http *request)
{
	const char *method = request->method != NULL ? request->method : "GET";
	int body = request->body_size > 0 || strcmp(method, "POST") == 0 ||
	    strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
	CURLcode bad = CURLE_OK;

	if (strcmp(method, "HEAD") == 0)
		return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) != CURLE_OK;
	if (body) {
		bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
		    (curl_off_t)request->body_size);
		bad |= curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS,
		    request->body_size > 0 ? request->body : "");
	}
	bad |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
	return bad != CURLE_OK;
}

static espl_status
prepare_request(struct exchange *x, const struct espl_http *request, struct espl_error *error)
{
	espl_span limit = request->limit > 0 ? request->limit : 60 * ESPL_SECOND;
	const char *authorities = espl__find_authorities();
	CURLcode bad = CURLE_OK;
	CURL *easy = x->easy;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < request->header_count && status == ESPL_OK; i++)
		status = add_header(x, request->headers[i], error);
	if (status == ESPL_OK)
		status = add_header(x, "Expect:", error);
	if (status == ESPL_OK)
		status = sign_request(x, request, error);
	if (status != ESPL_OK)
		return status;
	bad |= curl_easy_setopt(easy, CURLOPT_URL, request->url);
	if (request->size > offsetof(struct espl_http, lines)) { /* else it is of an older plugin */
		x->lines = request->lines != 0;
		if (request->socket != NULL)
			bad |= curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->socket);
	}
#if LIBCURL_VERSION_NUM >= 0x075500
	bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	if (authorities != NULL)
		bad |= curl_easy_setopt(easy, CURLOPT_CAINFO, authorities);
	bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	bad |= curl_easy_setopt(easy, CURLOPT_USERAGENT, "espalier");
	bad |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
	    (long)(limit / 1000000 + (limit % 1000000 != 0)));
	bad |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->why);
	bad |= curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
	bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, x->headers);
	bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
	bad |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	bad |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
	if (bad != CURLE_OK || set_method(easy, request))
		return espl_fail(error, ESPL_E_REMOTE, "libcurl rejected the request for %s",
		    request->url);
	return ESPL_OK;
}

espl_status
espl__http_submit(struct espl__http_hub *hub, const struct espl_http *request,
    struct espl_error *error)
{
	struct exchange *x;
	espl_status status;

	if (request->url == NULL)
		return espl_fail(error, ESPL_E_BUG, "a request without a URL");
	x = espl__alloc(sizeof *x);
	x->hub = hub;
	x->cookie = request->cookie;
	x->easy = curl_easy_init();
	if (x->easy == NULL) {
		free(x);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	status = prepare_request(x, request, error);
	if (status != ESPL_OK) {
		exchange_free(x);
		return status;
	}
	if (x->aws != NULL) {
		const struct espl__aws_keys *keys;

		status = hub->io->instance == NULL
		    ? espl_fail(error, ESPL_E_BUG,
			  "a request was made before the plugin was created")
		    : espl__io_keys_get(hub->io, request, &keys, error);
		x->waits = status == ESPL_E_BUSY;
		if (status == ESPL_OK)
			status = sign_aws(x, keys, error);
		if (status != ESPL_OK && !x->waits) {
			exchange_free(x);
			return status;
		}
	}
	x->next = hub->list;
	hub->list = x;
	if (!x->waits && curl_multi_add_handle(hub->multi, x->easy) != CURLM_OK) {
		unlink_exchange(x);
		exchange_free(x);
		return espl_fail(error, ESPL_E_REMOTE, "libcurl rejected the request for %s",
		    request->url);
	}
	return ESPL_OK;
}

void
espl__http_keys_came(struct espl__http_hub *hub, const struct espl__aws_keys *keys,
    espl_status status, const char *why)
{
	struct exchange *x, *next, *failed = NULL;

	for (x = hub->list; x != NULL; x = next) {
		struct espl_error error = ESPL_INIT(struct espl_error);

		next = x->next;
		if (!x->waits)
			continue;
		x->waits = 0;
		if (keys != NULL && sign_aws(x, keys, &error) == ESPL_OK &&
		    curl_multi_add_handle(hub->multi, x->easy) == CURLM_OK)
			continue;
		(void)snprintf(x->why, sizeof x->why, "%s", keys == NULL ? why : error.text);
		unlink_exchange(x);
		x->next = failed;
		failed = x;
	}
	/* The plugin may send more requests, or close, when a failure is reported: the list is
	 * consistent by now. */
	for (x = failed; x != NULL; x = next) {
		next = x->next;
		if (!hub->stopped)
			answer_plugin(x,
			    status == ESPL_E_CONFIG ? CURLE_LOGIN_DENIED : CURLE_SEND_ERROR);
		exchange_free(x);
	}
}

/* The exchange itself may be in the middle of a callback of curl: it only falls silent. */
void
espl__http_cancel(struct espl__http_hub *hub, uint64_t cookie, int all)
{
	struct exchange *x;

	for (x = hub->list; x != NULL; x = x->next)
		if (all || x->cookie == cookie)
			x->cancelled = 1;
}

static void
timer_closed(uv_handle_t *handle)
{
	struct espl__http_hub *hub = handle->data;

	hub->handles--;
}

void
espl__http_stop(struct espl__http_hub *hub)
{
	if (hub->stopped)
		return;
	hub->stopped = 1;
	while (hub->list != NULL) {
		struct exchange *x = hub->list;

		hub->list = x->next;
		(void)curl_multi_remove_handle(hub->multi, x->easy);
		exchange_free(x);
	}
	(void)curl_multi_cleanup(hub->multi); /* closes idle connections: on_socket is told */
	hub->multi = NULL;
	uv_close((uv_handle_t *)&hub->timer, timer_closed);
}

int
espl__http_busy(const struct espl__http_hub *hub)
{
	return hub->handles > 0;
}

void
espl__http_free(struct espl__http_hub *hub)
{
	free(hub);
}

espl_status
espl__http_new(struct espl__cloudio *io, struct espl__http_hub **out, struct espl__diag *diag)
{
	struct espl__http_hub *hub;
	static int ready;

	ESPL__CHECK(io, CLOUDIO);
	if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return espl__fail(diag, ESPL_E_REMOTE, "cannot initialize libcurl");
	ready = 1;
	hub = espl__alloc(sizeof *hub);
	hub->io = io;
	hub->multi = curl_multi_init();
	if (hub->multi == NULL) {
		free(hub);
		return espl__fail(diag, ESPL_E_REMOTE, "cannot initialize libcurl");
	}
	(void)curl_multi_setopt(hub->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(hub->multi, CURLMOPT_SOCKETDATA, hub);
	(void)curl_multi_setopt(hub->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
	(void)curl_multi_setopt(hub->multi, CURLMOPT_TIMERDATA, hub);
	(void)uv_timer_init(io->setup.loop, &hub->timer);
	hub->timer.data = hub;
	hub->handles = 1;
	*out = hub;
	return ESPL_OK;
}
