/* checkpoint.h - a checkpoint directory: sealed with check sums, put in place at once, proven
 * whole.
 *
 * MANIFEST is text: "espalier-manifest 1", one line an entry ("f CRC32C SIZE NAME", "d NAME",
 * "l TARGET NAME"; names %-escaped, by name), then "end COUNT CRC32C" over all lines before.
 */
#ifndef ESPL__CHECKPOINT_H
#define ESPL__CHECKPOINT_H
#include "base/diag.h"

#define ESPL__MANIFEST "MANIFEST"

/* Makes a checkpoint of the directory `saving`: MANIFEST for all that is in it, all of it durable,
 * then renamed to `place`, a name in the same directory; an older one there is replaced at once and
 * removed, and is never seen at `saving`.  *bytes: sum of the files' sizes.  A symbolic link in
 * place of `saving` or of the directory above it is refused.  E_CONFIG: what the trial left there
 * is not a checkpoint (empty, a special file, ...).  Errors of the system are tried again, with
 * pauses of 8.5 s in all; after any failure `saving` holds what the trial left there. */
espl_status espl__checkpoint_keep(const char *saving, const char *place, uint64_t *bytes,
    struct espl__diag *);
/* Whether it was an error of the system, not of the trial's files. */
int espl__checkpoint_is_system(espl_status);
/* Checks that every entry of MANIFEST exists, with its size and checksum. Other files are ignored.
 * The message begins with the missing or damaged one. */
espl_status espl__checkpoint_check(const char *dir, struct espl__diag *);
/* Reads an open file to its end; block: room for reading.  0, or -1 with errno. */
#define ESPL__STORE_BLOCK ((size_t)1 << 18)
#define ESPL__CHECKPOINT_HEADER "espalier-manifest 1\n"
int espl__checkpoint_sum(int fd, uint8_t *block, uint32_t *crc, uint64_t *size);
/* All messages above use the checkpoint's names of files. For other uses: the system's error
 * message ("No space left on device") without the path before it; points into the diag. */
const char *espl__reason(const struct espl__diag *);
#endif
