/* line.h - what one line of a program's output says: numbers with names. */
#ifndef ESPL__LISTEN_LINE_H
#define ESPL__LISTEN_LINE_H
#include "base/buf.h"
#include "base/diag.h"
#include "base/metrics.h"

struct espl__line;
/* pattern "": lines of JSON. */
espl_status espl__line_new(const char *pattern, const char *iteration, const char *metric,
    struct espl__line **, struct espl__diag *);
void espl__line_free(struct espl__line *);
/* Does the pattern have a group for the iteration?  JSON may. */
int espl__line_may_name(const struct espl__line *);

/* What a line said; valid until the next one is read. */
struct espl__said {
	struct espl__names names; /* without the iteration, unless that is the metric */
	char *texts[ESPL__METRICS_IN_REPORT];
	char *iteration;  /* as printed; NULL: none was named */
	int metric;       /* the metric of the experiment is among the names */
	uint64_t dropped; /* values beyond the limit */
};
const struct espl__said *espl__line_read(struct espl__line *, const char *line, size_t);
/* "nan", "inf" and "-inf" as the protocol writes them, the latter also for numbers beyond those of
 * a double; NULL: it is none of them. */
const char *espl__line_special(const char *text);
/* The first number that was not read because its digits are grouped: "1,234.5"; NULL: none.
 * *lines: how many lines were not used for it, as it is their metric or iteration. */
const char *espl__line_grouped(const struct espl__line *, uint64_t *lines);
uint64_t espl__line_hard(const struct espl__line *); /* lines at which matching was given up */
#endif
