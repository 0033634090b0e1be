/* tail.h - the end of a trial's log. */
#ifndef ESPL__TAIL_H
#define ESPL__TAIL_H
#include "base/buf.h"
#include "base/diag.h"

/* At most its last `most` bytes, from the beginning of a line; E_UNKNOWN where there is none.
 * Follows no link below the run directory. */
espl_status espl__tail_log(const char *dir, uint64_t trial, size_t most, struct espl__buf *,
    struct espl__diag *);
#endif
