/* listen.h - reports made from what a program prints: trial.metrics.
 *
 * A pattern is a PCRE2 expression, in which {NAME} stands for a number called NAME; or the lines
 * are JSON objects.  A line that brings the metric of the experiment is a report.  What other
 * matching lines bring is kept for the next one.  A line whose iteration cannot be counted, such as
 * -1, is no report, and nothing is kept for it.
 */
#ifndef ESPL__LISTEN_H
#define ESPL__LISTEN_H
#include "base/buf.h"
#include "base/diag.h"

#define ESPL__LISTEN_LINE ((size_t)64 << 10) /* of a longer line only this much is looked at */

/* Strings are never NULL. */
struct espl__listen_spec {
	const char *from;      /* "stdout" or "stderr" */
	const char *pattern;   /* "": lines of JSON */
	const char *iteration; /* the name that counts the iterations */
	const char *metric;    /* the metric of the experiment */
};
/* As JSON, from the driver to the program espalier-listen. */
void espl__listen_spec_put(const struct espl__listen_spec *, struct espl__buf *);

struct espl__listen;
/* Fails if the pattern is wrong, or no group of it is the metric. */
espl_status espl__listen_new(const struct espl__listen_spec *, struct espl__listen **,
    struct espl__diag *);
/* The same from the JSON text; the caller's copy of `from` is 1 for standard output, else 2. */
espl_status espl__listen_new_json(const char *text, struct espl__listen **, int *from,
    struct espl__diag *);
void espl__listen_free(struct espl__listen *);
/* Iterations done at the start, and the last one that is wanted for now. */
void espl__listen_begin(struct espl__listen *, uint64_t done, uint64_t budget);
void espl__listen_budget(struct espl__listen *, uint64_t budget);
/* One line without its end.  1: `to`, cleared first, is the report, with its newline; 0: none.
 * A value that is not a number is reported as it is. */
int espl__listen_line(struct espl__listen *, const char *line, size_t, struct espl__buf *to);
/* Iteration of the last report; 0 or what the start said: there was none. */
uint64_t espl__listen_last(const struct espl__listen *);
/* Lines at which matching was given up because it took too many steps. */
uint64_t espl__listen_hard(const struct espl__listen *);
/* Values that were left out because a report has too many; the metric never is. */
uint64_t espl__listen_dropped(const struct espl__listen *);
#endif
