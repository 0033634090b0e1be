/* store.h - a checkpoint folder: sealed with check sums, put in place at once, proven whole.
 *
 * MANIFEST is text: "espalier-manifest 1", one line an entry ("f CRC32C SIZE NAME", "d NAME",
 * "l TARGET NAME"; names %-escaped, by name), then "end COUNT CRC32C" over all lines before.
 */
#ifndef ESPL__STORE_H
#define ESPL__STORE_H
#include "base/diag.h"

#define ESPL__MANIFEST "MANIFEST"

/* Writes MANIFEST for all that is in the folder, and makes all of it durable.  *bytes: sum of
 * the files' sizes.  E_CONFIG: the content is no checkpoint (empty, a special file, ...). */
espl_status espl__store_seal(const char *folder, uint64_t *bytes, struct espl__diag *);
/* Renames `saving` to `place`, durably.  If `place` exists the two change names, so that there
 * is a whole one at any moment; the old one is removed, and is never seen at `saving`. */
espl_status espl__store_publish(const char *saving, const char *place, struct espl__diag *);
/* Every entry of MANIFEST is there, with its size and check sum.  Anything else beside them is
 * not looked at.  The message begins with what is missing or damaged. */
espl_status espl__store_check(const char *folder, struct espl__diag *);
/* All messages above name files as the checkpoint knows them.  For others: what the system said
 * ("No space left on device"), without the path before it; points into the diag. */
const char *espl__reason(const struct espl__diag *);
#endif
