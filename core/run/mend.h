/* mend.h - a journal that does not end with a whole record: what is wrong, and what becomes of it.
 */
#ifndef ESPL__MEND_H
#define ESPL__MEND_H
#include "run/journal.h"

/* what lies behind the last record that can be read */
struct espl__rest {
	uint64_t at, size; /* bytes */
	uint64_t records;  /* whole ones, each but for one that is missing before it */
	/* 0: a write that was cut off left it, and nothing is lost but that */
	int damaged;
};
espl_status espl__mend_look(const char *path, uint64_t valid, struct espl__rest *,
    struct espl__diag *);
/* Copies what begins at `from` to a new file beside it, PATH.damaged (or PATH.damaged-2, ...), and
 * to the disk.  *kept: its name without folders, malloc'd; NULL where there is nothing. */
espl_status espl__mend_keep(const char *path, uint64_t from, char **kept, struct espl__diag *);
/* 1: the file is there, and the driver that made it was ended before it had written the header:
 * nothing followed.  0: it is not there, or there is something in it. */
int espl__mend_hollow(const char *path);
#endif
