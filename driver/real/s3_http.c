/* s3_http.c - see s3.h: one signed request, tried again where that may help; and the user's keys,
 * looked for again before they end. */
#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <espalier/util.h>
#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "node/transfer/s3_text.h"
#include "real/s3_private.h"

#define RENEW_BEFORE 1200 /* s: longer than a URL is good for */
#define TRIES 8           /* with pauses of about a minute in all */
#define AHEAD_LEAST 30    /* s: a smaller difference is no trouble */
#define LOOK_PAUSE (5 * INT64_C(1000000000))
#define ANSWER_MOST ((size_t)64 << 10)
#define BODY_MOST ((size_t)80 << 20)

/* ---- keys --------------------------------------------------------------------------------- */

/* credential_process, or the AWS CLI. */
static espl_status
run_command(const char *command, struct espl__aws_keys *keys, struct espl_error *error)
{
	struct espl__buf text = { 0 };
	FILE *from = popen(command, "re");
	espl_status status;
	char block[4096];
	size_t got;

	while (from != NULL && text.size < ANSWER_MOST &&
	    (got = fread(block, 1, sizeof block, from)) > 0)
		espl__put(&text, block, got);
	memset(block, 0, sizeof block);
	if (from == NULL || pclose(from) != 0)
		status = espl_fail(error, ESPL_E_CONFIG,
		    "no keys for AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write a "
		    "profile to ~/.aws/credentials, or log in with the AWS CLI");
	else
		status = espl__aws_keys_parse(espl__buf_text(&text), text.size, keys, error);
	if (text.size > 0)
		memset(text.data, 0, text.size);
	espl__buf_free(&text);
	return status;
}

/* With the lock. */
static espl_status
find_keys(struct espl__s3 *s3, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	char *command = NULL;
	espl_status status;

	if (s3->known && s3->keys.ends - RENEW_BEFORE > (int64_t)time(NULL))
		return ESPL_OK;
	espl__aws_keys_clear(&s3->keys);
	s3->known = 0;
	status = espl__aws_keys_find(s3->profile, &s3->keys, &command, &error);
	if (status == ESPL_E_BUSY)
		status = run_command(command, &s3->keys, &error);
	free(command);
	s3->known = status == ESPL_OK;
	return status == ESPL_OK ? ESPL_OK : espl__fail(diag, status, "%s", error.text);
}

espl_status
espl__s3_open(struct espl__s3 *s3, struct espl__diag *diag)
{
	static int ready;

	if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return espl__fail(diag, ESPL_E_REMOTE, "cannot initialize libcurl");
	ready = 1;
	return find_keys(s3, diag);
}

/* ---- URLs --------------------------------------------------------------------------------- */

static char *
make_url(const struct espl__s3 *s3, const struct espl__s3_call *call)
{
	struct espl__buf url = { 0 };
	char *text;

	espl__print(&url, "%s/", s3->base);
	espl__url_put(&url, call->key, 1);
	if (call->query != NULL)
		espl__print(&url, "?%s", call->query);
	text = espl__strdup(espl__buf_text(&url));
	espl__buf_free(&url);
	return text;
}

espl_status
espl__s3_sign(struct espl__s3 *s3, const struct espl__s3_call *call, uint32_t seconds, char **out,
    struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	char *url = make_url(s3, call);
	struct espl__sigv4 request = { .method = call->method,
		.region = s3->region,
		.service = "s3",
		.url = url,
		.headers = call->headers,
		.header_count = call->header_count,
		.keys = &s3->keys,
		.utc = (int64_t)time(NULL) + s3->ahead_s };
	espl_status status;

	(void)pthread_mutex_lock(&s3->lock);
	status = find_keys(s3, diag);
	if (status == ESPL_OK && espl__sigv4_presign(&request, seconds, out, &error) != ESPL_OK)
		status = espl__fail(diag, ESPL_E_BUG, "%s", error.text);
	(void)pthread_mutex_unlock(&s3->lock);
	free(url);
	return status;
}

/* ---- requests ----------------------------------------------------------------------------- */

struct answer {
	struct espl__s3 *s3;
	struct espl__s3_call *call;
	CURL *easy;
	char region[40];
	int ranged;
};

static size_t
take_body(char *bytes, size_t each, size_t count, void *ctx)
{
	struct answer *a = ctx;
	size_t size = each * count;
	long status = 0;

	(void)curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
	if (a->call->sink != NULL && status / 100 == 2) {
		a->call->spilled = (status == 206) != a->ranged ||
		    a->call->sink(a->call->sink_ctx, bytes, size) != 0;
		a->call->sunk += a->call->spilled ? 0 : size;
		return a->call->spilled ? 0 : size;
	}
	if (a->call->body.size + size > BODY_MOST)
		return 0;
	espl__put(&a->call->body, bytes, size);
	return size;
}

/* The clock may be set while we run, or not have run while the machine slept. */
static void
note_clock(struct espl__s3 *s3, const char *text)
{
	time_t date = curl_getdate(text, NULL);
	int64_t ahead_s = date >= 0 ? (int64_t)date - (int64_t)time(NULL) : 0;

	if (date < 0)
		return;
	s3->ahead_s = ahead_s > AHEAD_LEAST || ahead_s < -AHEAD_LEAST ? ahead_s : 0;
	s3->looked = espl__tick();
}

static size_t
take_header(char *line, size_t each, size_t count, void *ctx)
{
	struct answer *a = ctx;
	size_t size = each * count;
	char text[ESPL__S3_VERSION + 40];

	(void)snprintf(text, sizeof text, "%.*s",
	    (int)(size < sizeof text ? size : sizeof text - 1), line);
	text[strcspn(text, "\r\n")] = '\0';
	if (strncasecmp(text, "content-range:", 14) == 0 && strchr(text, '/') != NULL)
		a->call->total = strtoull(strchr(text, '/') + 1, NULL, 10);
	if (strncasecmp(text, "x-amz-bucket-region:", 20) == 0)
		(void)sscanf(text + 20, " %38[a-z0-9-]", a->region);
	if (strncasecmp(text, "x-amz-version-id:", 17) == 0)
		(void)sscanf(text + 17, " %1099s", a->call->version);
	if (strncasecmp(text, "x-amz-delete-marker:", 20) == 0)
		a->call->marker = strstr(text + 20, "true") != NULL;
	if (strncasecmp(text, "date:", 5) == 0)
		note_clock(a->s3, text + 5);
	return size;
}

static int
may_go_on(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct answer *answer = ctx;

	(void)a, (void)b, (void)c, (void)d;
	return answer->s3->stop;
}

static struct curl_slist *
add_line(struct curl_slist *list, const char *line)
{
	return curl_slist_append(list, line);
}

/* All headers, with the signature. */
static espl_status
sign_call(struct espl__s3 *s3, const struct espl__s3_call *call, const char *url,
    struct curl_slist **list, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	char *lines[ESPL__SIGV4_LINES], *own = NULL;
	const char *headers[8];
	struct espl__sigv4 request = { .method = call->method,
		.region = s3->region,
		.service = "s3",
		.url = url,
		.headers = headers,
		.keys = &s3->keys,
		.utc = (int64_t)time(NULL) + s3->ahead_s };
	uint32_t count = 0;
	espl_status status;

	for (uint32_t i = 0; i < call->header_count; i++)
		headers[request.header_count++] = call->headers[i];
	if (s3->owner != NULL)
		headers[request.header_count++] = own =
		    espl__format("x-amz-expected-bucket-owner: %s", s3->owner);
	espl__sha256(call->send_size > 0 ? call->send : "", call->send_size, request.body_hash);
	for (uint32_t i = 0; i < request.header_count; i++)
		*list = add_line(*list, headers[i]);
	if (call->sunk > 0) {
		char range[64];

		(void)snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-", call->sunk);
		*list = add_line(*list, range);
	}
	*list = add_line(add_line(*list, "Expect:"), "Content-Type:");
	(void)pthread_mutex_lock(&s3->lock);
	status = find_keys(s3, diag);
	if (status == ESPL_OK && espl__sigv4_sign(&request, lines, &count, &error) != ESPL_OK)
		status = espl__fail(diag, ESPL_E_BUG, "%s", error.text);
	(void)pthread_mutex_unlock(&s3->lock);
	for (uint32_t i = 0; i < count; i++) {
		*list = add_line(*list, lines[i]);
		memset(lines[i], 0, strlen(lines[i]));
		free(lines[i]);
	}
	free(own);
	return status;
}

static CURLcode
set_call(CURL *easy, struct espl__s3_call *call, const char *url, struct curl_slist *list,
    struct answer *answer, char *why)
{
	const char *authorities = espl__find_authorities();
	CURLcode bad = CURLE_OK;

	bad |= curl_easy_setopt(easy, CURLOPT_URL, url);
	if (authorities != NULL)
		bad |= curl_easy_setopt(easy, CURLOPT_CAINFO, authorities);
	bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	bad |= curl_easy_setopt(easy, CURLOPT_USERAGENT, "espalier");
	bad |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, 15L);
	bad |= curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	bad |= curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, 30L);
	bad |= curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	bad |= curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, may_go_on);
	bad |= curl_easy_setopt(easy, CURLOPT_XFERINFODATA, answer);
	bad |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
	bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
	bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
	bad |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	bad |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, answer);
	if (strcmp(call->method, "PUT") == 0 || strcmp(call->method, "POST") == 0) {
		bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
		    (curl_off_t)call->send_size);
		bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
		    call->send_size > 0 ? call->send : "");
	}
	bad |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
	return bad;
}

/* "16 minutes behind that" */
static const char *
format_ahead(const struct espl__s3 *s3, char text[80])
{
	long long ahead_s = s3->ahead_s, size = llabs(ahead_s);

	if (ahead_s == 0)
		(void)snprintf(text, 80, "not that");
	else
		(void)snprintf(text, 80, "%lld %s %s that", size >= 120 ? size / 60 : size,
		    size >= 120 ? "minutes" : "s", ahead_s > 0 ? "behind" : "ahead of");
	return text;
}

/* ESPL_E_BUSY: worth another try. */
static espl_status
explain_skew(const struct espl__s3 *s3, const char *why, struct espl__diag *diag)
{
	char ahead[80];
	espl_status status =
	    espl__fail(diag, ESPL_E_BUSY, "%s: the clock of this machine is %s of the store: %s",
		s3->name, format_ahead(s3, ahead), why);

	espl__hint(diag, "set the clock, for example with `timedatectl set-ntp true`");
	return status;
}

static int
is_locked(const char *why)
{
	static const char *const words[] = { "Content-MD5", "x-amz-sdk-checksum-algorithm",
		"Object Lock", "object lock", "ObjectLock" };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strstr(why, words[i]) != NULL)
			return 1;
	return 0;
}

/* ESPL_E_BUSY: worth another try. */
static espl_status
explain_failure(const struct espl__s3 *s3, const struct espl__s3_call *call,
    const struct answer *answer, const char *text, struct espl__diag *diag)
{
	char why[400];
	long status = call->status;

	espl__s3_why(status, text, why, sizeof why);
	if (espl__s3_is_skew(text))
		return explain_skew(s3, why, diag);
	if (espl__s3_again(status, text))
		return espl__fail(diag, ESPL_E_BUSY, "%s: %s", s3->name, why);
	if (answer->region[0] != '\0' && strcmp(answer->region, s3->region) != 0)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "bucket '%s' is in region '%s', not in '%s': set store.region", s3->bucket,
		    answer->region, s3->region);
	if (is_locked(why)) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "bucket '%s' refuses an object: %s",
		    s3->bucket, why);
		espl__hint(diag,
		    "it has Object Lock, which keeps what is deleted: use a bucket without");
		return ESPL_E_CONFIG;
	}
	if (strncmp(why, "NoSuchBucket", 12) == 0)
		return espl__fail(diag, ESPL_E_CONFIG, "there is no bucket '%s' (%s)", s3->bucket,
		    why);
	if (strncmp(why, "AccessDenied", 12) == 0)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "bucket '%s' refuses access: it belongs to another account, or the keys lack "
		    "a permission (%s %s: %s)",
		    s3->bucket, call->method, call->key, why);
	return espl__fail(diag, ESPL_E_CONFIG, "%s: %s", s3->name, why);
}

static espl_status
try_call(struct espl__s3 *s3, struct espl__s3_call *call, const char *url, struct espl__diag *diag)
{
	char why[CURL_ERROR_SIZE] = "";
	struct curl_slist *list = NULL;
	CURL *easy = curl_easy_init();
	struct answer answer = { .s3 = s3, .call = call, .easy = easy, .ranged = call->sunk > 0 };
	espl_status status = sign_call(s3, call, url, &list, diag);
	CURLcode result;
	const char *text;

	call->status = 0;
	call->total = 0;
	call->version[0] = '\0';
	call->marker = 0;
	espl__buf_clear(&call->body);
	if (status == ESPL_OK && (easy == NULL || set_call(easy, call, url, list, &answer, why)))
		status = espl__fail(diag, ESPL_E_REMOTE, "libcurl takes no request");
	if (status == ESPL_OK) {
		result = curl_easy_perform(easy);
		(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &call->status);
		text = espl__buf_text(&call->body);
		if (call->spilled)
			status = espl__fail(diag, ESPL_E_REMOTE, "%s: '%s' cannot be taken",
			    s3->name, call->key);
		else if (result != CURLE_OK)
			status = espl__fail(diag, ESPL_E_BUSY, "%s: %s", s3->name,
			    why[0] != '\0' ? why : curl_easy_strerror(result));
		else if (call->status == call->pass && !espl__s3_again(call->status, text))
			;
		else if (call->status / 100 != 2)
			status = explain_failure(s3, call, &answer, text, diag);
		else if (strcmp(call->method, "POST") == 0 && strstr(text, "<Error") != NULL) {
			/* S3 begins its answer before it knows. */
			call->status = strstr(text, "<Code>NoSuchUpload<") != NULL ? 404 : 500;
			if (call->status != call->pass)
				status = explain_failure(s3, call, &answer, text, diag);
		} else if (call->holds != NULL && strstr(text, call->holds) == NULL) {
			status = espl__fail(diag, ESPL_E_BUSY,
			    "%s: the answer (HTTP status %ld) is not one of S3, or it is cut off",
			    s3->name, call->status);
		}
	}
	curl_slist_free_all(list);
	curl_easy_cleanup(easy);
	return status;
}

void
espl__s3_look(struct espl__s3 *s3)
{
	struct espl__s3_call call = { .method = "GET", .key = "", .query = "versioning=" };
	struct espl__diag ignored = ESPL__DIAG_INIT;
	char *url;

	if (s3->looked != 0 && espl__tick() - s3->looked < LOOK_PAUSE)
		return;
	url = make_url(s3, &call);
	(void)try_call(s3, &call, url, &ignored);
	s3->looked = espl__tick();
	espl__buf_free(&call.body);
	free(url);
}

const char *
espl__s3_clock(struct espl__s3 *s3, char text[120])
{
	char ahead[80];

	if (s3->ahead_s == 0 || s3->off_told)
		return NULL;
	s3->off_told = 1;
	(void)snprintf(text, 120,
	    "the clock of this machine is %s of the store, whose time is used",
	    format_ahead(s3, ahead));
	return text;
}

espl_status
espl__s3_ask(struct espl__s3 *s3, struct espl__s3_call *call, struct espl__diag *diag)
{
	char *url = make_url(s3, call);
	espl_status status = ESPL_E_BUSY;

	for (unsigned i = 0; i < TRIES && status == ESPL_E_BUSY && (i == 0 || !s3->stop); i++) {
		struct espl__diag fresh = ESPL__DIAG_INIT;
		uint64_t before = call->sunk;

		if (i > 0)
			(void)usleep((useconds_t)(100000u << i) / 2 +
			    (useconds_t)(espl__tick() % (50000 << i)));
		if (diag != NULL)
			*diag = fresh;
		status = try_call(s3, call, url, diag);
		if (call->sunk > before)
			i = 0;
		if (strcmp(call->method, "PUT") == 0 && call->version[0] != '\0')
			s3->versioned = 1;
		if (status == ESPL_E_BUSY &&
		    strstr(espl__buf_text(&call->body), "xpired") != NULL) {
			(void)pthread_mutex_lock(&s3->lock);
			s3->known = 0; /* look for newer keys */
			(void)pthread_mutex_unlock(&s3->lock);
		}
	}
	free(url);
	if (status == ESPL_E_BUSY) {
		status = ESPL_E_REMOTE;
		if (diag != NULL)
			diag->status = status;
	}
	return status;
}
