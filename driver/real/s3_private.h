/* s3_private.h - between s3.c and s3_http.c. */
#ifndef ESPL__S3_PRIVATE_H
#define ESPL__S3_PRIVATE_H
#include <pthread.h>
#include "real/aws_keys.h"
#include "real/s3.h"

struct espl__s3 {
	char *bucket, *region, *base, *root, *name, *profile, *owner;
	int checksums;
	pthread_mutex_t lock; /* of the keys */
	struct espl__aws_keys keys;
	int known;
	volatile int stop;
};
struct espl__s3_call {
	const char *method, *key; /* key "": of the bucket */
	const char *query;        /* percent-encoded; NULL none */
	const char *const *headers;
	uint32_t header_count;
	const void *send;
	size_t send_size;
	long pass;           /* a status that is no failure either */
	const char *holds;   /* a text of each whole answer; NULL: any will do */
	espl__s3_sink *sink; /* NULL: to body */
	void *sink_ctx;
	/* the answer */
	uint64_t sunk;
	int spilled; /* the sink wants no more */
	long status;
	uint64_t total; /* of Content-Range */
	struct espl__buf body;
};
/* libcurl, and the first keys. */
espl_status espl__s3_open(struct espl__s3 *, struct espl__diag *);
espl_status espl__s3_ask(struct espl__s3 *, struct espl__s3_call *, struct espl__diag *);
espl_status espl__s3_sign(struct espl__s3 *, const struct espl__s3_call *, uint32_t seconds,
    char **url, struct espl__diag *);
#endif
