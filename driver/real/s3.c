/* s3.c - see s3.h: the operations of the store. Their requests are in s3_http.c. */
#include "real/s3_private.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "node/transfer/s3_text.h"

#define EXPIRES 900u /* s */
#define KEY_MOST 1200
#define VERSIONS_MOST 1000u

/* ---- the bucket --------------------------------------------------------------------------- */

static const char *
find_region(const struct espl__run_config *config)
{
	const char *region = config->s3_region;

	if (region == NULL)
		region = getenv("AWS_REGION");
	if (region == NULL || region[0] == '\0')
		region = getenv("AWS_DEFAULT_REGION");
	if ((region == NULL || region[0] == '\0') && config->s3_endpoint != NULL)
		return "us-east-1"; /* what compatible stores are satisfied with */
	return region != NULL && region[0] != '\0' ? region : NULL;
}

/* A bucket is a part of the host's name, unless a dot in it forbids that. */
static char *
make_base(const struct espl__run_config *config, const char *region)
{
	const char *bucket = config->s3_bucket;
	const char *domain = strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";

	if (config->s3_endpoint != NULL)
		return espl__format("%s/%s", config->s3_endpoint, bucket);
	if (strchr(bucket, '.') != NULL || strchr(bucket, '_') != NULL)
		return espl__format("https://s3.%s.%s/%s", region, domain, bucket);
	return espl__format("https://%s.s3.%s.%s", bucket, region, domain);
}

espl_status
espl__s3_new(const struct espl__run_config *config, const char *run, struct espl__s3 **out,
    struct espl__diag *diag)
{
	const char *region = find_region(config);
	struct espl__s3 *s3;
	espl_status status;

	if (region == NULL)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "the region of bucket '%s' is not known: set store.region or AWS_REGION",
		    config->s3_bucket);
	s3 = espl__alloc(sizeof *s3);
	s3->bucket = espl__strdup(config->s3_bucket);
	s3->region = espl__strdup(region);
	s3->base = make_base(config, region);
	s3->root = espl__format("%s/%s", config->s3_prefix, run);
	s3->name = espl__format("s3://%s/%s", config->s3_bucket, s3->root);
	s3->profile = espl__strdup(config->s3_profile);
	s3->owner = espl__strdup(config->s3_owner);
	s3->checksums = config->s3_checksums;
	(void)pthread_mutex_init(&s3->lock, NULL);
	status = espl__s3_open(s3, diag);
	if (status != ESPL_OK) {
		espl__s3_free(s3);
		return status;
	}
	*out = s3;
	return ESPL_OK;
}

void
espl__s3_stop(struct espl__s3 *s3)
{
	if (s3 != NULL)
		s3->stop = 1;
}

void
espl__s3_free(struct espl__s3 *s3)
{
	if (s3 == NULL)
		return;
	espl__aws_keys_clear(&s3->keys);
	(void)pthread_mutex_destroy(&s3->lock);
	free(s3->bucket);
	free(s3->region);
	free(s3->base);
	free(s3->root);
	free(s3->name);
	free(s3->profile);
	free(s3->owner);
	free(s3);
}

const char *
espl__s3_name(const struct espl__s3 *s3)
{
	return s3->name;
}

const char *
espl__s3_root(const struct espl__s3 *s3)
{
	return s3->root;
}

int
espl__s3_checksums(const struct espl__s3 *s3)
{
	return s3->checksums;
}

/* ---- requests ----------------------------------------------------------------------------- */

espl_status
espl__s3_begin(struct espl__s3 *s3, const char *key, char **upload, struct espl__diag *diag)
{
	const char *algorithm[] = { "x-amz-checksum-algorithm: CRC32C" };
	struct espl__s3_call call = { .method = "POST",
		.key = key,
		.query = "uploads=",
		.holds = "</UploadId>",
		.headers = algorithm,
		.header_count = s3->checksums ? 1 : 0 };
	char id[KEY_MOST];
	const char *at;
	espl_status status = espl__s3_ask(s3, &call, diag);

	at = espl__buf_text(&call.body);
	if (status == ESPL_OK && !espl__xml_text(&at, "UploadId", id, sizeof id))
		status = espl__fail(diag, ESPL_E_REMOTE,
		    "%s did not return an UploadId for an upload", s3->name);
	if (status == ESPL_OK)
		*upload = espl__strdup(id);
	espl__buf_free(&call.body);
	return status;
}

static char *
query_of(const char *upload, uint64_t number)
{
	struct espl__buf query = { 0 };
	char *text;

	if (number > 0)
		espl__print(&query, "partNumber=%" PRIu64 "&", number);
	espl__print(&query, "uploadId=");
	espl__url_put(&query, upload, 0);
	text = espl__strdup(espl__buf_text(&query));
	espl__buf_free(&query);
	return text;
}

static void
put_xml(struct espl__buf *to, const char *text)
{
	for (; *text != '\0'; text++) {
		if (strchr("&<>\"", *text) != NULL)
			espl__print(to, "&#%d;", *text);
		else
			espl__put_u8(to, (uint8_t)*text);
	}
}

/* A repeated request for a completed upload is refused with NoSuchUpload: the caller looks at the
 * object in any case. */
espl_status
espl__s3_finish(struct espl__s3 *s3, const char *key, const char *upload,
    const struct espl__s3_part *parts, uint64_t count, struct espl__diag *diag)
{
	struct espl__buf xml = { 0 };
	struct espl__s3_call call = { .method = "POST", .key = key };
	char *query = query_of(upload, 0);
	espl_status status;

	espl__print(&xml,
	    "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (uint64_t i = 0; i < count; i++) {
		espl__print(&xml, "<Part><ETag>");
		put_xml(&xml, parts[i].etag);
		espl__print(&xml, "</ETag><PartNumber>%" PRIu64 "</PartNumber>", i + 1);
		if (parts[i].crc != NULL)
			espl__print(&xml, "<ChecksumCRC32C>%s</ChecksumCRC32C>", parts[i].crc);
		espl__print(&xml, "</Part>");
	}
	espl__print(&xml, "</CompleteMultipartUpload>");
	call.query = query;
	call.send = xml.data;
	call.send_size = xml.size;
	call.pass = 404;
	status = espl__s3_ask(s3, &call, diag);
	espl__buf_free(&call.body);
	espl__buf_free(&xml);
	free(query);
	return status;
}

espl_status
espl__s3_abort(struct espl__s3 *s3, const char *key, const char *upload, struct espl__diag *diag)
{
	char *query = query_of(upload, 0);
	struct espl__s3_call call = { .method = "DELETE", .key = key, .query = query, .pass = 404 };
	espl_status status = espl__s3_ask(s3, &call, diag);

	espl__buf_free(&call.body);
	free(query);
	return status;
}

espl_status
espl__s3_get(struct espl__s3 *s3, const char *key, uint64_t from, uint64_t size,
    struct espl__buf *to, uint64_t *total, struct espl__diag *diag)
{
	char range[80];
	const char *headers[] = { range };
	struct espl__s3_call call = { .method = "GET",
		.key = key,
		.headers = headers,
		.header_count = 1 };
	espl_status status;

	(void)snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-%" PRIu64, from,
	    from + size - 1);
	status = espl__s3_ask(s3, &call, diag);
	if (status == ESPL_OK && (call.status != 206 || call.body.size != size))
		status = espl__fail(diag, ESPL_E_REMOTE, "%s: '%s' is shorter than expected",
		    s3->name, key);
	*total = call.total;
	*to = call.body;
	return status;
}

espl_status
espl__s3_put_new(struct espl__s3 *s3, const char *key, const void *bytes, size_t size,
    struct espl__diag *diag)
{
	const char *none[] = { "If-None-Match: *" };
	struct espl__s3_call call = { .method = "PUT",
		.key = key,
		.headers = none,
		.header_count = 1,
		.send = bytes,
		.send_size = size,
		.pass = 412 };
	espl_status status = espl__s3_ask(s3, &call, diag);
	uint64_t total;

	espl__buf_free(&call.body);
	if (status != ESPL_OK || call.status != 412)
		return status;
	status = espl__s3_get(s3, key, 0, size, &call.body, &total, diag); /* perhaps our own */
	if (status == ESPL_OK && (total != size || memcmp(call.body.data, bytes, size) != 0))
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "%s: '%s' already exists, with different content", s3->name, key);
	espl__buf_free(&call.body);
	return status;
}

/* ---- removal ------------------------------------------------------------------------------ */

/* The newest version or delete marker of the object; "" in `call` : there is none. */
static espl_status
find_version(struct espl__s3 *s3, const char *key, struct espl__s3_call *call,
    struct espl__diag *diag)
{
	static const char *const headers[] = {
		"Range: bytes=0-0"
	}; /* of an answer that has a body */
	espl_status status;

	*call = (struct espl__s3_call){ .method = "GET",
		.key = key,
		.headers = headers,
		.header_count = 1,
		.pass = 404 };
	status = espl__s3_ask(s3, call, diag);
	espl__buf_free(&call->body);
	return status;
}

static espl_status
remove_version(struct espl__s3 *s3, const char *key, const char *version, long *answer,
    struct espl__diag *diag)
{
	struct espl__buf query = { 0 };
	struct espl__s3_call call = { .method = "DELETE", .key = key, .pass = 403 };
	espl_status status;

	espl__print(&query, "versionId=");
	espl__url_put(&query, version, 0);
	call.query = espl__buf_text(&query);
	status = espl__s3_ask(s3, &call, diag);
	*answer = call.status;
	espl__buf_free(&call.body);
	espl__buf_free(&query);
	return status;
}

/* One after another: below a version there may be an older one, of a request whose answer was lost,
 * and a delete marker is one, too. */
static espl_status
purge_object(struct espl__s3 *s3, const char *key, struct espl__diag *diag)
{
	struct espl__s3_call found;
	espl_status status = ESPL_OK;
	long answer = 0;

	for (unsigned i = 0; i < VERSIONS_MOST && status == ESPL_OK; i++) {
		status = find_version(s3, key, &found, diag);
		if (status != ESPL_OK || found.version[0] == '\0' ||
		    (found.status == 404 && !found.marker))
			return status;
		status = remove_version(s3, key, found.version, &answer, diag);
		if (answer == 403) { /* the right is missing, or the version is locked */
			s3->unpurged = 1;
			return ESPL_OK;
		}
	}
	return status;
}

espl_status
espl__s3_remove(struct espl__s3 *s3, const char *key, struct espl__diag *diag)
{
	struct espl__s3_call call = { .method = "DELETE", .key = key, .pass = 404 };
	espl_status status;

	if (s3->versioned && !s3->unpurged) {
		status = purge_object(s3, key, diag);
		if (status != ESPL_OK || !s3->unpurged)
			return status;
	}
	status = espl__s3_ask(s3, &call, diag);
	espl__buf_free(&call.body);
	if (status != ESPL_OK || !call.marker || s3->versioned)
		return status;
	s3->versioned = 1; /* since a moment ago */
	return purge_object(s3, key, diag);
}

/* ---- listings ----------------------------------------------------------------------------- */

static int
hex_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
	    : c >= 'A' && c <= 'F'  ? c - 'A' + 10
	    : c >= 'a' && c <= 'f'  ? c - 'a' + 10
				    : -1;
}

/* Keys of listings are percent-encoded. */
static void
decode_key(char *text)
{
	char *to = text;

	for (; *text != '\0'; text++) {
		int high = *text == '%' ? hex_of(text[1]) : -1;
		int low = high >= 0 ? hex_of(text[2]) : -1;

		*to++ = low >= 0 ? (char)(high * 16 + low) : *text == '+' ? ' ' : *text;
		text += low >= 0 ? 2 : 0;
	}
	*to = '\0';
}

/* The query of the next page; NULL: that was the last. */
static char *
next_page(const struct espl__s3 *s3, int uploads, const char *body)
{
	static const char *const names[2][2] = { { "NextContinuationToken", "continuation-token" },
		{ "NextUploadIdMarker", "upload-id-marker" } };
	struct espl__buf query = { 0 };
	const char *at = body, *from = body;
	char text[KEY_MOST], key[KEY_MOST];
	char *out;

	if (body != NULL &&
	    (!espl__xml_text(&at, "IsTruncated", text, sizeof text) || strcmp(text, "true") != 0))
		return NULL;
	espl__print(&query, "%s", uploads ? "uploads=" : "list-type=2");
	espl__print(&query, "&encoding-type=url&prefix=");
	espl__url_put(&query, s3->root, 0);
	espl__print(&query, "%%2F");
	at = body;
	if (body != NULL && espl__xml_text(&at, names[uploads][0], text, sizeof text)) {
		espl__print(&query, "&%s=", names[uploads][1]);
		espl__url_put(&query, text, 0);
	}
	if (body != NULL && uploads && espl__xml_text(&from, "NextKeyMarker", key, sizeof key)) {
		decode_key(key);
		espl__print(&query, "&key-marker=");
		espl__url_put(&query, key, 0);
	}
	out = espl__strdup(espl__buf_text(&query));
	espl__buf_free(&query);
	return out;
}

espl_status
espl__s3_list(struct espl__s3 *s3, int uploads, espl__s3_each *each, void *ctx,
    struct espl__diag *diag)
{
	char *query = next_page(s3, uploads, NULL), *old, key[KEY_MOST], id[KEY_MOST] = "";
	espl_status status = ESPL_OK;

	while (status == ESPL_OK && query != NULL) {
		struct espl__s3_call call = { .method = "GET",
			.key = "",
			.query = query,
			.holds =
			    uploads ? "</ListMultipartUploadsResult>" : "</ListBucketResult>" };
		const char *at, *body;

		status = espl__s3_ask(s3, &call, diag);
		body = at = espl__buf_text(&call.body);
		while (status == ESPL_OK && espl__xml_text(&at, "Key", key, sizeof key) &&
		    (!uploads || espl__xml_text(&at, "UploadId", id, sizeof id))) {
			decode_key(key);
			each(ctx, key, id);
		}
		old = query;
		query = status == ESPL_OK ? next_page(s3, uploads, body) : NULL;
		free(old);
		espl__buf_free(&call.body);
	}
	return status;
}

espl_status
espl__s3_fetch(struct espl__s3 *s3, const char *key, espl__s3_sink *sink, void *ctx,
    struct espl__diag *diag)
{
	struct espl__s3_call call = { .method = "GET", .key = key, .sink = sink, .sink_ctx = ctx };
	espl_status status = espl__s3_ask(s3, &call, diag);

	espl__buf_free(&call.body);
	return status;
}

/* ---- what nodes may do -------------------------------------------------------------------- */

espl_status
espl__s3_sign_put(struct espl__s3 *s3, const char *key, const char *upload, uint64_t number,
    uint64_t size, const char *crc, char **url, struct espl__diag *diag)
{
	char length[64], sum[80];
	/* An URL is good for many requests: without a condition it could overwrite what is sealed.
	 */
	const char *headers[3] = { length, "if-none-match: *" };
	uint32_t count = upload != NULL ? 1 : 2; /* parts of an upload take no condition */
	char *query = upload != NULL ? query_of(upload, number) : NULL;
	struct espl__s3_call call = { .method = "PUT",
		.key = key,
		.query = query,
		.headers = headers };
	espl_status status;

	if (crc != NULL)
		headers[count++] = sum;
	call.header_count = count;

	(void)snprintf(length, sizeof length, "content-length: %" PRIu64, size);
	(void)snprintf(sum, sizeof sum, "x-amz-checksum-crc32c: %.20s", crc != NULL ? crc : "");
	status = espl__s3_sign(s3, &call, EXPIRES, url, diag);
	free(query);
	return status;
}

espl_status
espl__s3_sign_get(struct espl__s3 *s3, const char *key, char **url, struct espl__diag *diag)
{
	struct espl__s3_call call = { .method = "GET", .key = key };

	return espl__s3_sign(s3, &call, EXPIRES, url, diag);
}

/* ---- at the start ------------------------------------------------------------------------- */

static void
ignore_key(void *ctx, const char *key, const char *upload)
{
	(void)ctx, (void)key, (void)upload;
}

/* Another store may not know the question: then its answer to a PUT names a version, or not. */
static void
find_versioning(struct espl__s3 *s3)
{
	struct espl__s3_call call = { .method = "GET",
		.key = "",
		.query = "versioning=",
		.pass = 403 };
	struct espl__diag ignored = ESPL__DIAG_INIT;
	const char *at;
	char text[40];

	if (espl__s3_ask(s3, &call, &ignored) == ESPL_OK && call.status == 200) {
		at = espl__buf_text(&call.body);
		/* Suspended: older versions stay, and a deletion leaves a marker */
		s3->versioned |= espl__xml_text(&at, "Status", text, sizeof text) &&
		    (strcmp(text, "Enabled") == 0 || strcmp(text, "Suspended") == 0);
	}
	espl__buf_free(&call.body);
}

/* Whether versions can be deleted: tried with an object of our own. */
static espl_status
try_purge(struct espl__s3 *s3, struct espl__diag *diag)
{
	char *key = espl__format("%s/VERSIONS", s3->root);
	espl_status status = espl__s3_put_new(s3, key, "1", 1, diag);

	if (status == ESPL_OK)
		status = espl__s3_remove(s3, key, diag);
	free(key);
	return status;
}

const char *
espl__s3_lacks(const struct espl__s3 *s3)
{
	return s3->versioned && s3->unpurged ? "s3:DeleteObjectVersion" : NULL;
}

espl_status
espl__s3_check(struct espl__s3 *s3, const char *owner, struct espl__diag *diag)
{
	char *key = espl__format("%s/OWNER", s3->root);
	espl_status status = espl__s3_list(s3, 0, ignore_key, NULL, diag);

	if (status == ESPL_OK)
		find_versioning(s3);
	if (status == ESPL_OK)
		status = espl__s3_put_new(s3, key, owner, strlen(owner), diag);
	if (status == ESPL_OK && s3->versioned)
		status = try_purge(s3, diag);
	free(key);
	return status;
}
