/* courier.h - espalier-courier: carries one sealed directory from a node to a bucket, or back.
 *
 * The agent starts it for one move, with the directory's path as its argument.  It has no keys: for
 * each request it asks the driver for a URL that is signed, over its standard streams, which the
 * agent joins with the driver (wire.h, TREE_LINE).  What moves is the stream of transfer/pack.h.
 *
 * to it
 *   put DIGEST PART_SIZE CHECKSUMS     DIGEST in hexadecimal; CHECKSUMS 0 or 1
 *   get DIGEST SIZE
 *   url NUMBER URL                     for one request
 *   end of file: there is nothing more to do
 * from it
 *   url NUMBER SIZE CRC                a URL is needed for this part, counted from 1 (get: 0 0 -);
 *                                      CRC as in the header x-amz-checksum-crc32c, "-" none
 *   part NUMBER ETAG CRC               this part is there
 *   sent MANIFEST_SIZE                 all parts are
 *   moved BYTES                        so far; at most once a second
 *   done                               the directory is here, whole and durable
 *   failed HOW TEXT                    1: the system or the store; 2: it is not there, or damaged;
 *                                      3: it cannot be written here
 *
 *   courier_main.c  the process and its lines
 *   courier_http.c  one request after another with one handle of libcurl
 *   courier_put.c   parts in parallel
 *   courier_get.c   one stream, continued where it was cut
 */
#ifndef ESPL__COURIER_H
#define ESPL__COURIER_H
#include <curl/curl.h>
#include "base/buf.h"
#include "base/diag.h"

#define ESPL__COURIER_PARTS 4

struct espl__courier;

/* A request that is repeated until it is answered, each time with a new URL. */
enum espl__errand_state {
	ESPL__ERRAND_FREE,
	ESPL__ERRAND_ASKED, /* for a URL */
	ESPL__ERRAND_RUNS,
	ESPL__ERRAND_RESTS /* until `at` */
};
struct espl__errand {
	struct espl__courier *of;
	enum espl__errand_state state;
	uint64_t number;
	char crc[9];
	struct espl__buf bytes; /* put: what is sent */
	size_t at_byte;
	uint64_t from;   /* get: so much is here */
	int ranged;      /* get: it continues */
	int conditional; /* the PUT must not replace anything */
	CURL *easy;
	struct curl_slist *headers;
	struct espl__buf body; /* of an error */
	char etag[200], why[CURL_ERROR_SIZE];
	unsigned tries;
	int64_t at, troubled; /* ticks; troubled: since when it fails, 0 it does not */
};

struct espl__courier {
	const char *place;
	CURLM *multi;
	int put, checksums;
	uint64_t digest, size, moved;
	size_t part_size;
	int64_t said; /* tick of the last `moved` */
	struct espl__buf in;
	struct espl__errand errands[ESPL__COURIER_PARTS];
	int over; /* nothing more to do; exit status */
	int code;
};

void espl__courier_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reports the failure and ends the errand. */
void espl__courier_fail(struct espl__courier *, int how, const char *why);
void espl__courier_moved(struct espl__courier *, uint64_t bytes);

/* courier_http.c */
void espl__errand_ask(struct espl__errand *);
void espl__errand_run(struct espl__errand *, const char *url);
/* Its transfer is over: 1 well; 0: it is tried again, or everything has failed. */
int espl__errand_over(struct espl__errand *, CURLcode);
void espl__errand_free(struct espl__errand *);

/* courier_put.c, courier_get.c */
void espl__put_begin(struct espl__courier *);
void espl__put_more(struct espl__courier *); /* fills the errands that are free */
void espl__put_done(struct espl__courier *, struct espl__errand *);
void espl__get_begin(struct espl__courier *);
size_t espl__get_write(struct espl__courier *, const void *, size_t); /* less: it failed */
void espl__get_done(struct espl__courier *);
void espl__courier_close(struct espl__courier *); /* what put or get has open */
#endif
