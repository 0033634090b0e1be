/* sigv4.h - AWS Signature Version 4: the headers that authenticate a request. Pure. */
#ifndef ESPL__SIGV4_H
#define ESPL__SIGV4_H
#include <espalier/util.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

struct espl__aws_keys {
	char *id, *secret;
	char *token;  /* NULL: keys without a session */
	int64_t ends; /* UTC, in seconds; INT64_MAX: never */
};
/* Overwrites the secrets, frees them, and leaves an empty set. */
void espl__aws_keys_clear(struct espl__aws_keys *);

struct espl__sigv4 {
	const char *method, *region, *service;
	const char *url;            /* percent-encoded; without user, password and fragment */
	const char *const *headers; /* "Name: value"; Content-Type and X-Amz-* are signed */
	uint32_t header_count;
	char body_hash[65]; /* espl__sha256 of the body */
	const struct espl__aws_keys *keys;
	int64_t utc; /* now, in seconds since 1970 */
};
/* SHA-256 in lowercase hexadecimal digits. */
void espl__sha256(const void *, size_t, char hex[65]);
#define ESPL__SIGV4_LINES 4u
/* The header lines to add; free() each.  E_BUG: not an http URL. */
espl_status espl__sigv4_sign(const struct espl__sigv4 *, char *lines[ESPL__SIGV4_LINES],
    uint32_t *count, struct espl_error *);
/* The URL with the signature in it, for a request that a process without keys sends within this
 * many seconds. All headers are signed and must be sent unchanged; the body is not signed. */
espl_status espl__sigv4_presign(const struct espl__sigv4 *, uint32_t seconds, char **url,
    struct espl_error *);
/* Percent-encodes all but letters, digits and "-_.~"; `slash`: and but slashes. */
void espl__url_put(struct espl__buf *, const char *text, int slash);
#endif
