/* stored.h - a checkpoint whose content is in a bucket: its place contains a directory with the
 * file STORED, which describes where. Text: "espalier-stored 1", DIGEST SIZE KEY.
 */
#ifndef ESPL__STORED_H
#define ESPL__STORED_H
#include "base/diag.h"
#include <stdint.h>

#define ESPL__STORED "STORED"

struct espl__stored {
	uint64_t digest, size; /* as in transfer/pack.h */
	char *key;             /* of the bucket, malloc'd: what "/data" and "/MANIFEST" follow */
};
void espl__stored_free(struct espl__stored *);
espl_status espl__stored_read(const char *place, struct espl__stored *, struct espl__diag *);
/* In place at once, and durable; what was there is removed. */
espl_status espl__stored_write(const char *place, const struct espl__stored *, struct espl__diag *);
/* 0 if neither a sealed directory nor a record of one in a bucket is there. */
uint64_t espl__stored_digest(const char *dir);
#endif
