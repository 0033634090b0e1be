/* s3.h - a bucket of Amazon S3 or of a compatible store: requests that the driver signs with the
 * user's keys, and URLs for nodes, which have none.
 *
 * All of it waits for the network, and is called in threads.  What fails for reasons of the network
 * or of the store is tried again for a minute.  Keys of objects begin with the prefix of the run.
 */
#ifndef ESPL__S3_H
#define ESPL__S3_H
#include "base/buf.h"
#include "base/diag.h"
#include "config/run.h"

struct espl__s3;
struct espl__s3_part {
	char *etag, *crc; /* crc NULL: none */
};

/* E_CONFIG: no region, or no keys.  Sends nothing. */
espl_status espl__s3_new(const struct espl__run_config *, const char *run, struct espl__s3 **,
    struct espl__diag *);
void espl__s3_free(struct espl__s3 *);
void espl__s3_stop(struct espl__s3 *); /* whatever waits fails soon; NULL: nothing */
/* "s3://BUCKET/PREFIX/RUN" */
const char *espl__s3_name(const struct espl__s3 *);
/* PREFIX/RUN, where all keys of objects begin. */
const char *espl__s3_root(const struct espl__s3 *);
int espl__s3_checksums(const struct espl__s3 *);
/* Is the bucket there, ours, in this region, and can it be written and listed?  Does it keep
 * versions?  Leaves the object OWNER, which no other driver may have made. */
espl_status espl__s3_check(struct espl__s3 *, const char *owner, struct espl__diag *);

/* The permission without which a bucket with versions keeps all that is removed; NULL: all is well.
 */
const char *espl__s3_lacks(const struct espl__s3 *);
/* Asks the store for its time, if that was not known 5 s ago: URLs are signed with it. */
void espl__s3_look(struct espl__s3 *);
/* Once: how the clock of this machine differs from that of the store; NULL: it does not. */
const char *espl__s3_clock(struct espl__s3 *, char text[120]);

/* For one request of a node, from now on for a quarter of an hour.  upload NULL: of no part;
 * crc NULL: none. */
espl_status espl__s3_sign_put(struct espl__s3 *, const char *key, const char *upload,
    uint64_t number, uint64_t size, const char *crc, char **url, struct espl__diag *);
espl_status espl__s3_sign_get(struct espl__s3 *, const char *key, char **url, struct espl__diag *);

/* An upload in parts. */
espl_status espl__s3_begin(struct espl__s3 *, const char *key, char **upload, struct espl__diag *);
espl_status espl__s3_finish(struct espl__s3 *, const char *key, const char *upload,
    const struct espl__s3_part *, uint64_t count, struct espl__diag *);
espl_status espl__s3_abort(struct espl__s3 *, const char *key, const char *upload,
    struct espl__diag *);

/* Bytes [from, from + size) of an object; *total: its whole size. */
espl_status espl__s3_get(struct espl__s3 *, const char *key, uint64_t from, uint64_t size,
    struct espl__buf *, uint64_t *total, struct espl__diag *);
/* The whole object, piece by piece and once each; the sink returns -1 to end it. */
typedef int espl__s3_sink(void *ctx, const void *, size_t);
espl_status espl__s3_fetch(struct espl__s3 *, const char *key, espl__s3_sink *, void *ctx,
    struct espl__diag *);
/* Only if there is none; one that is the same already is a success. */
espl_status espl__s3_put_new(struct espl__s3 *, const char *key, const void *, size_t,
    struct espl__diag *);
/* With all its versions, if the bucket keeps some and the keys may delete them. */
espl_status espl__s3_remove(struct espl__s3 *, const char *key, struct espl__diag *);
/* Each object below the run's prefix, or each upload in parts that was begun there. */
typedef void espl__s3_each(void *ctx, const char *key, const char *upload);
espl_status espl__s3_list(struct espl__s3 *, int uploads, espl__s3_each *, void *ctx,
    struct espl__diag *);
#endif
