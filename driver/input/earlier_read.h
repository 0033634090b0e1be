/* earlier_read.h - reads what a warm start begins with. */
#ifndef ESPL__EARLIER_READ_H
#define ESPL__EARLIER_READ_H
#include "model/earlier.h"

/* The text is cut up.  metric: the objective, which must be one of the columns.  `name` for
 * messages.  E_CONFIG also where nothing fits, or nothing was observed. */
espl_status espl__earlier_parse(const char *name, struct espl__buf *text,
    const struct espl__space *, const char *metric, int maximize, struct espl__earlier **,
    struct espl__diag *);
#endif
