/* report_static.h - the part of the page of `espalier report` that needs no script. */
#ifndef ESPL__REPORT_STATIC_H
#define ESPL__REPORT_STATIC_H
#include <stdio.h>
#include "report/results_read.h"

/* Text of a page: escaped, `most` characters of it, without forbidden characters. */
void espl__report_text(FILE *, const char *text, uint32_t most);
/* For a search: the best value over time, learning curves, stages and nodes, and the best trials;
 * for a pool: its experiments and jobs. Call it after espl__report_data, whose temporary tables it
 * reads. */
espl_status espl__report_static(struct espl__reading *, FILE *, struct espl__diag *);
#endif
