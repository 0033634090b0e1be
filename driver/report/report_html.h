/* report_html.h - `espalier report`: a run as one page of HTML that needs nothing else. */
#ifndef ESPL__REPORT_HTML_H
#define ESPL__REPORT_HTML_H
#include <stdio.h>
#include "report/results_read.h"

struct espl__report_stage {
	double starts_s, ends_s, cost_usd;
};
/* the cheapest plan that keeps one size */
struct espl__report_fixed {
	const char *why_not; /* there is none, and this is why; NULL: there is one */
	double jct_s, cost_usd;
	struct espl__report_stage *stages;
	uint32_t stage_count;
};
/* The data of the page alone, as JSON. */
espl_status espl__report_data(struct espl__reading *, const struct espl__report_fixed *,
    int log_scale, FILE *to, struct espl__diag *);
/* fixed NULL: it is not mentioned. log_scale: of the learning curves. The caller checks ferror(to).
 */
espl_status espl__report_html(struct espl__reading *, const struct espl__report_fixed *,
    int log_scale, FILE *to, struct espl__diag *);
#endif
