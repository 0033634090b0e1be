/* file.h - files as wholes: read, write so that a crash leaves the old or the new, make and
 * remove trees.  Used by config, world, runtime and cli; never by policy or executor. */
#ifndef ESPL__FILE_H
#define ESPL__FILE_H
#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/diag.h"
espl_status espl__file_read(const char *path, size_t limit, struct espl__buf *,
    struct espl__diag *);
/* A file of a run directory: a regular file (no link, no pipe that would be waited for) that
 * belongs to us or root, and that no other user can write; else E_CONFIG. */
espl_status espl__file_read_own(const char *path, size_t limit, struct espl__buf *,
    struct espl__diag *);
/* The open file, from where it stands to its end; `name` is for messages. */
espl_status espl__fd_read(int fd, const char *name, size_t limit, struct espl__buf *,
    struct espl__diag *);
/* Temporary name beside it, fsync, rename, fsync of the directory.  Whatever the umask, no other
 * user can write it. */
espl_status espl__file_write(const char *path, const void *, size_t, struct espl__diag *);
espl_status espl__file_write_private(const char *path, const void *, size_t,
    struct espl__diag *); /* mode 0600 */
/* E_CONFIG unless the file or directory belongs to us or root, and no other user can write it. */
espl_status espl__check_owner(const char *path, struct espl__diag *);
/* The same, and that it is a regular file or a directory. */
espl_status espl__check_own(const char *path, struct espl__diag *);
/* espl__file_write in an open directory, which the caller syncs. */
espl_status espl__file_put(int dir, const char *name, const void *, size_t, struct espl__diag *);
espl_status espl__dir_make(const char *path,
    struct espl__diag *); /* and its parents; only we can write there */
espl_status espl__dir_make_private(const char *path,
    struct espl__diag *);              /* new, mode 0700; parents as usual */
DIR *espl__dir_open(const char *path); /* opendir() that follows no link at the end of path */
espl_status espl__tree_remove(const char *path,
    struct espl__diag *);                            /* absent is fine; follows no link */
int espl__tree_remove_at(int dir, const char *name); /* 0, or -1 with errno */
int espl__write_all(int fd, const void *, size_t);   /* 0, or -1 with errno */
/* Exclusive lock on a file (no link) for the life of the returned descriptor; -1 and E_BUSY if
 * held. */
espl_status espl__lock(const char *path, int *fd, struct espl__diag *);
int espl__locked(const char *path); /* by another process; asking takes nothing */
/* Process ID of the holder; 0: not held, -1: held by a process without an ID here. */
pid_t espl__lock_owner(const char *path);
/* This system's list of certificate authorities for TLS, which a libcurl that was built on another
 * distribution does not find, or NULL. CURL_CA_BUNDLE and SSL_CERT_FILE name another. */
const char *espl__find_authorities(void);
#endif
