/* file.h - files as wholes: read, write so that a crash leaves the old or the new, make and
 * remove trees.  Used by config, world, runtime and cli; never by policy or executor. */
#ifndef ESPL__FILE_H
#define ESPL__FILE_H
#include <stddef.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/diag.h"
espl_status espl__file_read(const char *path, size_t limit, struct espl__buf *, struct espl__diag *);
/* Temporary name beside it, fsync, rename, fsync of the folder. */
espl_status espl__file_write(const char *path, const void *, size_t, struct espl__diag *);
espl_status espl__dir_make(const char *path, struct espl__diag *);	/* and its parents    */
espl_status espl__tree_remove(const char *path, struct espl__diag *);	/* absent is fine; follows no link */
int         espl__write_all(int fd, const void *, size_t);		/* 0, or -1 with errno */
/* Exclusive lock on a file for the life of the returned descriptor; -1 and E_BUSY if held. */
espl_status espl__lock(const char *path, int *fd, struct espl__diag *);
int         espl__locked(const char *path);	/* by another process; asking takes nothing */
#endif
