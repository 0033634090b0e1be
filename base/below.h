/* below.h - files below an open directory, by relative names that come from elsewhere: from another
 * machine, or from a trial.
 *
 * A name is walked part by part and no link is followed at any of them: whatever the name is and
 * whatever lies there, nothing outside of the directory is opened, made or removed.
 */
#ifndef ESPL__BELOW_H
#define ESPL__BELOW_H
#include <sys/types.h>
#include "base/diag.h"

#define ESPL__BELOW_DEEPEST 64 /* parts of a name; more can be neither made nor removed safely */

/* Whether a name may be used below: relative, no "", "." or ".." in it, and not too deep. */
int espl__path_is_inside(const char *name);
/* Whether a link of this name leads to something in the same directory, whatever other such links
 * are there: ".." only at its front, and never above the top. */
int espl__link_is_inside(const char *name, const char *target);
/* Permissions for a file that comes from elsewhere: the owner can read and write it, nobody else
 * can write it, and it gives nobody another's rights. */
mode_t espl__mode_below(uint32_t mode);

/* All of these: -1 with errno.  ELOOP or ENOTDIR: a link or a file is in the way. */

/* The directory that holds the last part of the name, open; *last points to that part. `replace`:
 * directories that are missing are made, and a file or a link in the way is replaced by one. */
int espl__below_parent(int dir, const char *name, int replace, const char **last);
/* openat(), and O_CLOEXEC.  Opening a FIFO for reading does not wait. */
int espl__below_open(int dir, const char *name, int flags, mode_t mode);
int espl__below_mkdir(int dir, const char *name);
int espl__below_symlink(int dir, const char *name, const char *target);
ssize_t espl__below_readlink(int dir, const char *name, char *to, size_t size);
#endif
