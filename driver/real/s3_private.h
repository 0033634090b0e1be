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
	volatile int versioned; /* what is deleted without its version stays, and is paid for */
	volatile int unpurged;  /* and the keys may not delete versions */
	/* s that the clock of the store is ahead of ours: its answers say so, and it refuses
	 * signatures of another time. */
	volatile int64_t ahead_s;
	volatile int64_t looked; /* tick of the last answer that said so; 0: none did */
	volatile int off_told;   /* that the clocks differ */
};
#define ESPL__S3_VERSION 1100
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
	uint64_t total;                 /* of Content-Range */
	char version[ESPL__S3_VERSION]; /* of the object, or of its delete marker; "" none */
	int marker;                     /* it is a delete marker */
	struct espl__buf body;
};
/* libcurl, and the first keys. */
espl_status espl__s3_open(struct espl__s3 *, struct espl__diag *);
espl_status espl__s3_ask(struct espl__s3 *, struct espl__s3_call *, struct espl__diag *);
espl_status espl__s3_sign(struct espl__s3 *, const struct espl__s3_call *, uint32_t seconds,
    char **url, struct espl__diag *);
#endif
