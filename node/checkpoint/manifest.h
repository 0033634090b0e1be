/* manifest.h - the MANIFEST of a checkpoint, as checkpoint.h describes it, read line by line. */
#ifndef ESPL__MANIFEST_H
#define ESPL__MANIFEST_H
#include "base/buf.h"
#include "base/diag.h"

#define ESPL__MANIFEST_ENTRIES UINT64_C(1000000) /* the most that a checkpoint may have */

struct espl__sealed {
	char kind;    /* 'f', 'd', 'l' */
	char *name;   /* relative to the directory, never outside it */
	char *target; /* of a link */
	uint32_t crc; /* of a file */
	uint64_t size;
};
/* The MANIFEST in an open directory. */
espl_status espl__manifest_read(int dir, struct espl__buf *text, struct espl__diag *);
/* Its entries, with the last line cut off; NULL: it is damaged.  The text ends with a NUL that is
 * not counted. */
char *espl__manifest_lines(struct espl__buf *text, uint64_t *entries);
/* Takes a line off the front, which it changes.  1: an entry; 0: that was all; -1: damaged. */
int espl__manifest_next(char **lines, struct espl__sealed *);
#endif
