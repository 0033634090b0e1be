/* sigv4.c - AWS Signature Version 4, headers and URLs ("Create a signed AWS API request"). */
#include "real/sigv4.h"
#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"

static void
erase_text(char **text)
{
	if (*text != NULL)
		memset(*text, 0, strlen(*text));
	free(*text);
	*text = NULL;
}

void
espl__aws_keys_clear(struct espl__aws_keys *keys)
{
	erase_text(&keys->id);
	erase_text(&keys->secret);
	erase_text(&keys->token);
	keys->ends = 0;
}

static void
write_hex(const uint8_t *bytes, char hex[65])
{
	uint32_t i;

	for (i = 0; i < SHA256_DIGEST_SIZE; i++) {
		hex[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	hex[64] = '\0';
}

void
espl__sha256(const void *bytes, size_t size, char hex[65])
{
	struct sha256_ctx ctx;
	uint8_t digest[SHA256_DIGEST_SIZE];

	sha256_init(&ctx);
	sha256_update(&ctx, size, bytes);
	sha256_digest(&ctx, sizeof digest, digest);
	write_hex(digest, hex);
}

static void
hash_keyed(const uint8_t *key, size_t key_size, const char *text, uint8_t out[SHA256_DIGEST_SIZE])
{
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, key_size, key);
	hmac_sha256_update(&ctx, strlen(text), (const uint8_t *)text);
	hmac_sha256_digest(&ctx, SHA256_DIGEST_SIZE, out);
	memset(&ctx, 0, sizeof ctx);
}

/* The parts of a URL, which all point into it. */
struct url_parts {
	const char *host, *path, *query;
	size_t host_size, path_size, query_size;
};

static int
split_url(const char *url, struct url_parts *parts)
{
	size_t https = strncmp(url, "https://", 8) == 0;
	const char *port = https ? ":443" : ":80";
	size_t port_size = strlen(port);

	if (!https && strncmp(url, "http://", 7) != 0)
		return -1;
	parts->host = url + 7 + https;
	parts->host_size = strcspn(parts->host, "/?#");
	parts->path = parts->host + parts->host_size;
	parts->path_size = strcspn(parts->path, "?#");
	parts->query = parts->path + parts->path_size;
	if (*parts->query == '?')
		parts->query++;
	parts->query_size = strcspn(parts->query, "#");
	/* A default port is not sent in the header Host. */
	if (parts->host_size > port_size &&
	    memcmp(parts->host + parts->host_size - port_size, port, port_size) == 0)
		parts->host_size -= port_size;
	return parts->host_size > 0 ? 0 : -1;
}

/* S3 signs the path as it is sent, all others encode it a second time. */
static void
put_path(struct espl__buf *to, const struct url_parts *parts, int again)
{
	size_t i;

	if (parts->path_size == 0)
		espl__put_u8(to, '/');
	for (i = 0; i < parts->path_size; i++) {
		if (again && parts->path[i] == '%')
			espl__print(to, "%%25");
		else
			espl__put_u8(to, (uint8_t)parts->path[i]);
	}
}

static int
compare_text(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The parameters by name, then by value; one without "=" has an empty value. While they are sorted,
 * a line break replaces "=": it precedes every character of a name. */
static void
put_query(struct espl__buf *to, const struct url_parts *parts)
{
	const char *at = parts->query, *end = at + parts->query_size;
	char **list = NULL;
	uint32_t count = 0, cap = 0, i;

	while (at < end) {
		size_t size = 0;

		while (at + size < end && at[size] != '&')
			size++;
		if (size > 0) {
			char *one = espl__alloc(size + 2), *equals;

			memcpy(one, at, size);
			equals = strchr(one, '=');
			if (equals == NULL)
				equals = one + size;
			*equals = '\n';
			ESPL__GROW(list, cap, count + 1);
			list[count++] = one;
		}
		at += size + 1;
	}
	if (count > 1)
		qsort(list, count, sizeof *list, compare_text);
	for (i = 0; i < count; i++) {
		*strchr(list[i], '\n') = '=';
		espl__print(to, "%s%s", i > 0 ? "&" : "", list[i]);
		free(list[i]);
	}
	free(list);
}

/* "name:value" with a lowercase name and the spaces of the value made single. */
static char *
clean_header(const char *line)
{
	size_t name = strcspn(line, ":"), length = 0, i;
	char *out = espl__alloc(strlen(line) + 2);
	int gap = 0;

	for (i = 0; i < name; i++)
		out[length++] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] + 32 : line[i]);
	out[length++] = ':';
	for (i = name + (line[name] == ':'); line[i] != '\0'; i++) {
		if (line[i] == ' ' || line[i] == '\t') {
			gap = length > name + 1;
			continue;
		}
		if (gap)
			out[length++] = ' ';
		gap = 0;
		out[length++] = line[i];
	}
	return out;
}

/* By name alone: a name that begins another one comes first. */
static int
compare_header(const void *left, const void *right)
{
	const char *a = *(char *const *)left, *b = *(char *const *)right;
	size_t a_size = strcspn(a, ":"), b_size = strcspn(b, ":");
	int order = strncmp(a, b, a_size < b_size ? a_size : b_size);

	return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static int
is_signed(const char *line)
{
	return strncasecmp(line, "content-type:", 13) == 0 || strncasecmp(line, "x-amz-", 6) == 0;
}

/* The canonical headers, a blank line, and the list of their names: also to `names`. */
static void
put_headers(struct espl__buf *to, const struct espl__sigv4 *request, const struct url_parts *parts,
    char *const *lines, uint32_t line_count, int all, struct espl__buf *names)
{
	char **list = espl__alloc((request->header_count + line_count + 1) * sizeof *list);
	uint32_t count = 0, i;

	list[count++] = espl__format("host:%.*s", (int)parts->host_size, parts->host);
	for (i = 0; i < request->header_count; i++)
		if (all || is_signed(request->headers[i]))
			list[count++] = clean_header(request->headers[i]);
	for (i = 0; i < line_count; i++)
		list[count++] = clean_header(lines[i]);
	qsort(list, count, sizeof *list, compare_header);
	for (i = 0; i < count; i++) {
		espl__print(to, "%s\n", list[i]);
		espl__print(names, "%s%.*s", i > 0 ? ";" : "", (int)strcspn(list[i], ":"), list[i]);
		memset(list[i], 0, strlen(list[i])); /* it may be the session's token */
		free(list[i]);
	}
	free(list);
	espl__print(to, "\n%s\n", espl__buf_text(names));
}

static void
sign_text(const struct espl__sigv4 *request, const char *day, const char *text, char hex[65])
{
	char *first = espl__format("AWS4%s", request->keys->secret);
	uint8_t a[SHA256_DIGEST_SIZE], b[SHA256_DIGEST_SIZE];

	hash_keyed((const uint8_t *)first, strlen(first), day, a);
	erase_text(&first);
	hash_keyed(a, sizeof a, request->region, b);
	hash_keyed(b, sizeof b, request->service, a);
	hash_keyed(a, sizeof a, "aws4_request", b);
	hash_keyed(b, sizeof b, text, a);
	write_hex(a, hex);
	memset(b, 0, sizeof b);
}

espl_status
espl__sigv4_sign(const struct espl__sigv4 *request, char *lines[ESPL__SIGV4_LINES], uint32_t *count,
    struct espl_error *error)
{
	struct espl__buf canonical = { 0 }, names = { 0 };
	int s3 = strcmp(request->service, "s3") == 0;
	char stamp[32], hex[65], *scope, *text;
	time_t now = (time_t)request->utc;
	struct url_parts parts;
	struct tm utc;

	ESPL__ASSERT(request->keys->id != NULL && request->keys->secret != NULL);
	*count = 0;
	if (split_url(request->url, &parts) != 0 || gmtime_r(&now, &utc) == NULL)
		return espl_fail(error, ESPL_E_BUG, "cannot sign a request for '%s'", request->url);
	(void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
	lines[(*count)++] = espl__format("X-Amz-Date: %s", stamp);
	if (request->keys->token != NULL)
		lines[(*count)++] = espl__format("X-Amz-Security-Token: %s", request->keys->token);
	if (s3)
		lines[(*count)++] = espl__format("X-Amz-Content-Sha256: %s", request->body_hash);

	espl__print(&canonical, "%s\n", request->method);
	put_path(&canonical, &parts, !s3);
	espl__put_u8(&canonical, '\n');
	put_query(&canonical, &parts);
	espl__put_u8(&canonical, '\n');
	put_headers(&canonical, request, &parts, lines, *count, 0, &names);
	espl__print(&canonical, "%s", request->body_hash);
	espl__sha256(canonical.data, canonical.size, hex);

	scope = espl__format("%.8s/%s/%s/aws4_request", stamp, request->region, request->service);
	text = espl__format("AWS4-HMAC-SHA256\n%s\n%s\n%s", stamp, scope, hex);
	stamp[8] = '\0';
	sign_text(request, stamp, text, hex);
	lines[(*count)++] = espl__format("Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, "
					 "SignedHeaders=%s, Signature=%s",
	    request->keys->id, scope, espl__buf_text(&names), hex);
	free(scope);
	free(text);
	espl__buf_free(&canonical);
	espl__buf_free(&names);
	return ESPL_OK;
}

void
espl__url_put(struct espl__buf *to, const char *text, int slash)
{
	for (; *text != '\0'; text++) {
		if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
		    (*text >= '0' && *text <= '9') || strchr("-_.~", *text) != NULL ||
		    (slash && *text == '/'))
			espl__put_u8(to, (uint8_t)*text);
		else
			espl__print(to, "%%%02X", (unsigned)(uint8_t)*text);
	}
}

/* The URL with everything but the signature. */
static char *
add_parameters(const struct espl__sigv4 *request, const char *scope, const char *stamp,
    uint32_t seconds, const char *names)
{
	struct espl__buf url = { 0 }, one = { 0 };
	char *text;

	espl__print(&url, "%s%sX-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=", request->url,
	    strchr(request->url, '?') != NULL ? "&" : "?");
	espl__print(&one, "%s/%s", request->keys->id, scope);
	espl__url_put(&url, espl__buf_text(&one), 0);
	espl__print(&url, "&X-Amz-Date=%s&X-Amz-Expires=%u&X-Amz-SignedHeaders=", stamp, seconds);
	espl__url_put(&url, names, 0);
	if (request->keys->token != NULL) {
		espl__print(&url, "&X-Amz-Security-Token=");
		espl__url_put(&url, request->keys->token, 0);
	}
	text = espl__strdup(espl__buf_text(&url));
	espl__buf_free(&url);
	espl__buf_free(&one);
	return text;
}

espl_status
espl__sigv4_presign(const struct espl__sigv4 *request, uint32_t seconds, char **out,
    struct espl_error *error)
{
	struct espl__buf headers = { 0 }, names = { 0 }, canonical = { 0 };
	char stamp[32], hex[65], *scope, *url, *text;
	time_t now = (time_t)request->utc;
	struct url_parts parts;
	struct tm utc;

	ESPL__ASSERT(request->keys->id != NULL && request->keys->secret != NULL);
	if (split_url(request->url, &parts) != 0 || gmtime_r(&now, &utc) == NULL)
		return espl_fail(error, ESPL_E_BUG, "cannot sign a URL like '%s'", request->url);
	(void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
	put_headers(&headers, request, &parts, NULL, 0, 1, &names);
	scope = espl__format("%.8s/%s/%s/aws4_request", stamp, request->region, request->service);
	url = add_parameters(request, scope, stamp, seconds, espl__buf_text(&names));
	(void)split_url(url, &parts);
	espl__print(&canonical, "%s\n", request->method);
	put_path(&canonical, &parts, strcmp(request->service, "s3") != 0);
	espl__put_u8(&canonical, '\n');
	put_query(&canonical, &parts);
	espl__print(&canonical, "\n%sUNSIGNED-PAYLOAD", espl__buf_text(&headers));
	espl__sha256(canonical.data, canonical.size, hex);
	text = espl__format("AWS4-HMAC-SHA256\n%s\n%s\n%s", stamp, scope, hex);
	stamp[8] = '\0';
	sign_text(request, stamp, text, hex);
	*out = espl__format("%s&X-Amz-Signature=%s", url, hex);
	free(scope);
	free(url);
	free(text);
	espl__buf_free(&headers);
	espl__buf_free(&names);
	espl__buf_free(&canonical);
	return ESPL_OK;
}
