/* metrics.h - what a report may contain: the same limits and checks for the trial protocol, for
 * `espalier ask` and for espalier-listen.
 *
 * A report that has more metrics than the limits is taken without the excess; its objective is
 * never part of that.  Nothing is remembered here: names become known once the whole report is
 * accepted.
 */
#ifndef ESPL__METRICS_H
#define ESPL__METRICS_H
#include <jansson.h>
#include "base/map.h"

#define ESPL__REPORT_LINE ((size_t)1 << 20) /* bytes of a report, or of a request of a client */
#define ESPL__METRICS_IN_REPORT 256u
#define ESPL__METRICS_IN_RUN 1024u                     /* different ones */
#define ESPL__METRIC_NAME 128u                         /* bytes */
#define ESPL__ITERATION_MOST INT64_C(9007199254740992) /* what a double counts without gaps */

/* 1 to ESPL__METRIC_NAME bytes. */
int espl__metric_named(const char *name);
/* "nan", "inf", "infinity", with a sign, in any case. 0; -1: it is none of them. */
int espl__metric_word(const char *text, double *number);
/* A number, such a word, or null, which is NaN. 0; -1: it is none of them. */
int espl__metric_number(const json_t *value, double *number);
/* A whole number from 1 to ESPL__ITERATION_MOST, or 0. */
uint64_t espl__iteration_of(double number);
/* Formats of the warnings: for the first, the trial, the limit and the first metric dropped; for
 * the second, the value and the objective. */
#define ESPL__METRICS_DROPPED \
	"trial %s reports %s; dropping the rest, '%.128s' first (further ones are not mentioned)"
#define ESPL__METRIC_TOO_GOOD \
	"trial %s reports %s as its '%.128s', which no result can beat; it counts as NaN"
/* Infinitely good: no training reaches it, so it must not win. It counts as NaN. */
int espl__metric_is_too_good(double value, int maximize);

struct espl__metric_read {
	const char *name; /* of the object that was read */
	uint32_t number;  /* among the known names; ESPL_ANY: it is a new one */
	double value;
};
struct espl__metrics_read {
	struct espl__metric_read
	    *list;             /* in the order of the object; freed by espl__metrics_free */
	uint32_t count, fresh; /* fresh: of them, new names */
	/* what was left out, and the first of them; beyond_run: for the limit of the run alone */
	uint32_t dropped, beyond_run;
	const char *first_dropped;
	const char *wrong_name; /* of the metric that is at fault */
	enum {
		ESPL__METRICS_FINE,
		ESPL__METRICS_NO_NAME,
		ESPL__METRICS_LONG_NAME,
		ESPL__METRICS_NO_NUMBER
	} wrong;
};
/* Reads an object of metrics. `kept`: a name that is never dropped, or NULL; there is a place for
 * it even where the object lacks it. 0; -1: see `wrong`. */
int espl__metrics_read(const json_t *object, const char *kept, const struct espl__names *known,
    struct espl__metrics_read *);
void espl__metrics_free(struct espl__metrics_read *);
/* In words, which limit dropped them: "more than 256 metrics in one report". */
const char *espl__metrics_limit(const struct espl__metrics_read *);
#endif
