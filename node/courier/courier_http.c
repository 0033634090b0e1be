/* courier_http.c - see courier.h.  An error of the network or of the store's side is tried again
 * with growing pauses and a new URL; whatever else the store says is the end. */
#include "courier/courier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "transfer/s3_text.h"

#define MS INT64_C(1000000)
#define PAUSE (200 * MS)
#define PAUSE_MOST (20000 * MS)
#define TROUBLE_MOST (300000 * MS) /* of one request, until we give up */
#define BODY_MOST ((size_t)16 << 10)

void
espl__errand_ask(struct espl__errand *e)
{
	e->state = ESPL__ERRAND_ASKED;
	espl__courier_print("url %llu %zu %s", (unsigned long long)e->number, e->bytes.size,
	    e->crc[0] != '\0' ? e->crc : "-");
}

static size_t
read_part(char *to, size_t each, size_t count, void *ctx)
{
	struct espl__errand *e = ctx;
	size_t size = each * count, left = e->bytes.size - e->at_byte;

	size = size < left ? size : left;
	if (size > 0)
		memcpy(to, e->bytes.data + e->at_byte, size);
	e->at_byte += size;
	espl__courier_moved(e->of, 0);
	return size;
}

/* libcurl repeats a request itself when a kept connection turns out to be closed. */
static int
seek_part(void *ctx, curl_off_t offset, int origin)
{
	struct espl__errand *e = ctx;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > e->bytes.size)
		return CURL_SEEKFUNC_FAIL;
	e->at_byte = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

static long
status_of(const struct espl__errand *e)
{
	long status = 0;

	(void)curl_easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static int
is_good(const struct espl__errand *e)
{
	long status = status_of(e);

	/* 412: it is there; an earlier answer was lost. The driver compares what is there. */
	return status == (e->ranged ? 206 : 200) || (e->conditional && status == 412);
}

static size_t
take_body(char *bytes, size_t each, size_t count, void *ctx)
{
	struct espl__errand *e = ctx;
	size_t size = each * count;

	if (!e->of->put && is_good(e)) {
		size_t taken = espl__get_write(e->of, bytes, size);

		e->from += taken;
		return taken;
	}
	if (e->body.size < BODY_MOST)
		espl__put(&e->body, bytes, size);
	return size;
}

static size_t
take_header(char *line, size_t each, size_t count, void *ctx)
{
	struct espl__errand *e = ctx;
	size_t size = each * count, used = 0;

	if (size > 5 && strncasecmp(line, "etag:", 5) == 0)
		for (size_t i = 5; i < size && used + 1 < sizeof e->etag; i++)
			if ((unsigned char)line[i] > ' ')
				e->etag[used++] = line[i];
	if (used > 0)
		e->etag[used] = '\0';
	return size;
}

static int
set_common(struct espl__errand *e, const char *url)
{
	const char *authorities = espl__find_authorities();
	CURLcode bad = CURLE_OK;

	bad |= curl_easy_setopt(e->easy, CURLOPT_URL, url);
	bad |= curl_easy_setopt(e->easy, CURLOPT_PRIVATE, e);
	bad |= curl_easy_setopt(e->easy, CURLOPT_NOSIGNAL, 1L);
	bad |= curl_easy_setopt(e->easy, CURLOPT_USERAGENT, "espalier");
	bad |= curl_easy_setopt(e->easy, CURLOPT_CONNECTTIMEOUT, 15L);
	bad |= curl_easy_setopt(e->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	bad |= curl_easy_setopt(e->easy, CURLOPT_LOW_SPEED_TIME, 30L);
	bad |= curl_easy_setopt(e->easy, CURLOPT_ERRORBUFFER, e->why);
	bad |= curl_easy_setopt(e->easy, CURLOPT_WRITEFUNCTION, take_body);
	bad |= curl_easy_setopt(e->easy, CURLOPT_WRITEDATA, e);
	bad |= curl_easy_setopt(e->easy, CURLOPT_HEADERFUNCTION, take_header);
	bad |= curl_easy_setopt(e->easy, CURLOPT_HEADERDATA, e);
	if (authorities != NULL)
		bad |= curl_easy_setopt(e->easy, CURLOPT_CAINFO, authorities);
	return bad != CURLE_OK;
}

static int
set_put(struct espl__errand *e)
{
	CURLcode bad = CURLE_OK;
	char line[64];

	e->headers = curl_slist_append(e->headers, "Expect:");
	if (e->conditional)
		e->headers = curl_slist_append(e->headers, "If-None-Match: *");
	if (e->crc[0] != '\0') {
		(void)snprintf(line, sizeof line, "x-amz-checksum-crc32c: %s", e->crc);
		e->headers = curl_slist_append(e->headers, line);
	}
	bad |= curl_easy_setopt(e->easy, CURLOPT_UPLOAD, 1L);
	bad |= curl_easy_setopt(e->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)e->bytes.size);
	bad |= curl_easy_setopt(e->easy, CURLOPT_READFUNCTION, read_part);
	bad |= curl_easy_setopt(e->easy, CURLOPT_READDATA, e);
	bad |= curl_easy_setopt(e->easy, CURLOPT_SEEKFUNCTION, seek_part);
	bad |= curl_easy_setopt(e->easy, CURLOPT_SEEKDATA, e);
	return bad != CURLE_OK;
}

void
espl__errand_run(struct espl__errand *e, const char *url)
{
	char range[64];
	int bad;

	if (e->easy == NULL)
		e->easy = curl_easy_init();
	else
		curl_easy_reset(e->easy);
	curl_slist_free_all(e->headers);
	e->headers = NULL;
	espl__buf_clear(&e->body);
	e->at_byte = 0;
	e->etag[0] = e->why[0] = '\0';
	e->ranged = e->from > 0;
	e->conditional = e->of->put && strstr(url, "if-none-match") != NULL; /* it was signed */
	bad = e->easy == NULL || set_common(e, url) || (e->of->put && set_put(e));
	if (!bad && e->ranged) {
		(void)snprintf(range, sizeof range, "Range: bytes=%llu-",
		    (unsigned long long)e->from);
		e->headers = curl_slist_append(e->headers, range);
	}
	if (!bad && e->headers != NULL)
		bad = curl_easy_setopt(e->easy, CURLOPT_HTTPHEADER, e->headers) != CURLE_OK;
	e->state = ESPL__ERRAND_RUNS;
	if (bad || curl_multi_add_handle(e->of->multi, e->easy) != CURLM_OK)
		espl__courier_fail(e->of, 1, "libcurl takes no request");
}

/* After a pause that grows, and differs between nodes. */
static void
rest_errand(struct espl__errand *e, int64_t now)
{
	int64_t pause = PAUSE << (e->tries < 10 ? e->tries : 10);

	pause = pause < PAUSE_MOST ? pause : PAUSE_MOST;
	e->tries++;
	e->state = ESPL__ERRAND_RESTS;
	e->at = now + pause / 2 + (int64_t)(random() % 1000) * (pause / 2000);
}

int
espl__errand_over(struct espl__errand *e, CURLcode result)
{
	int64_t now = espl__tick();
	long status = status_of(e);
	char why[CURL_ERROR_SIZE + 100];

	(void)curl_multi_remove_handle(e->of->multi, e->easy);
	if (e->of->over)
		return 0;
	if ((result == CURLE_OK && is_good(e)) || (e->from > 0 && e->from == e->of->size)) {
		e->tries = 0;
		e->troubled = 0;
		return 1;
	}
	if (result != CURLE_OK)
		(void)snprintf(why, sizeof why, "%s",
		    e->why[0] != '\0' ? e->why : curl_easy_strerror(result));
	else
		espl__s3_why(status, espl__buf_text(&e->body), why, sizeof why);
	if (e->troubled == 0)
		e->troubled = now;
	if ((result != CURLE_OK || espl__s3_again(status, espl__buf_text(&e->body))) &&
	    now - e->troubled < TROUBLE_MOST)
		rest_errand(e, now);
	else
		espl__courier_fail(e->of, !e->of->put && status == 404 ? 2 : 1, why);
	return 0;
}

void
espl__errand_free(struct espl__errand *e)
{
	if (e->easy != NULL) {
		(void)curl_multi_remove_handle(e->of->multi, e->easy);
		curl_easy_cleanup(e->easy);
	}
	curl_slist_free_all(e->headers);
	espl__buf_free(&e->bytes);
	espl__buf_free(&e->body);
}
