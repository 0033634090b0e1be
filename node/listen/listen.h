/* listen.h - reports made from what a program prints: trial.metrics.
 *
 * A pattern is a PCRE2 expression, in which {NAME} stands for a number called NAME; or the lines
 * are JSON objects.  The value of an iteration is the last one that is printed before the next
 * iteration begins.  Since a search that waits for the next line trains what it may not need, the
 * reader learns how many lines an iteration has, and reports at the last of them from then on.
 *
 * Numbers of iterations are of two kinds.  Labels (0, 1, 2; or 1, 2, 3) name the iteration that a
 * line belongs to.  Amounts (0.5, 1.0, 1.5; 300 where 300 steps are an iteration) say how much has
 * been trained: iteration n is complete at n, and what is printed at 0 was not trained at all.
 */
#ifndef ESPL__LISTEN_H
#define ESPL__LISTEN_H
#include "base/buf.h"
#include "base/diag.h"

#define ESPL__LISTEN_LINE ((size_t)1 << 20) /* of a longer line only this much is looked at */

/* Strings are never NULL. */
struct espl__listen_spec {
	const char *from;    /* "stdout" or "stderr" */
	const char *file;    /* glob pattern of files that are read in their place (follow.h); "" */
	const char *pattern; /* "": lines of JSON */
	const char *iteration; /* the name that counts the iterations */
	const char *metric;    /* the metric of the experiment */
	int first;             /* label of the first iteration, 0 or 1; -1: to be found out */
	double per;            /* how much the printed number grows in one iteration, as steps do */
};

/* How a program prints; what one trial shows holds for the next. */
struct espl__listen_layout {
	int first;       /* as above: 0, 1, or -1 unknown */
	uint32_t begins; /* lines with the metric in the first iteration; 0: unknown */
	uint32_t each;   /* in each other one; 0: unknown */
	uint32_t after;  /* lines with other metrics after the last of them, in each */
	int amounts;     /* its numbers are amounts */
	int trailing;    /* an iteration is named after its values */
};
#define ESPL__LISTEN_LAYOUT_INIT \
	{ \
		-1, 0, 0, 0, 0, 0 \
	}
#define ESPL__LISTEN_LAYOUT_SIZE 6u

/* As JSON, from the driver to the program espalier-listen. */
char *espl__listen_spec_text(const struct espl__listen_spec *);
/* The same text, for a trial that begins when others have shown the layout. */
char *espl__listen_spec_known(const char *spec, const struct espl__listen_layout *);
/* "[-1, 1, 1, 0, 0, 0]", as a report has it in "layout"; 0: read. */
void espl__listen_layout_put(const struct espl__listen_layout *, struct espl__buf *);
int espl__listen_layout_read(const int64_t values[ESPL__LISTEN_LAYOUT_SIZE],
    struct espl__listen_layout *to);
/* Takes over what is known of `from` and not of `to`; 1: something was. */
int espl__listen_layout_learn(struct espl__listen_layout *to,
    const struct espl__listen_layout *from);
/* In words: "iterations are counted from 0; an iteration's value is the last of its lines". */
void espl__listen_layout_say(const struct espl__listen_layout *, struct espl__buf *);

struct espl__listen;
/* Fails if the pattern is wrong, or no group of it is the metric. */
espl_status espl__listen_new(const struct espl__listen_spec *, struct espl__listen **,
    struct espl__diag *);
/* The same from the JSON text; the caller's copy of `from` is 1 for standard output, else 2;
 * `file`, unless NULL, is to be freed, and NULL if there is none. */
espl_status espl__listen_new_json(const char *text, struct espl__listen **, int *from, char **file,
    struct espl__diag *);
void espl__listen_free(struct espl__listen *);
/* Iterations done at the start, the last one that is wanted for now, and the last one that may ever
 * be (0: not known). */
void espl__listen_begin(struct espl__listen *, uint64_t done, uint64_t budget, uint64_t most);
void espl__listen_budget(struct espl__listen *, uint64_t budget);
/* One line without its end.  1: `to`, cleared first, is a report, with its newline; 0: none.
 * A value that is not a number is reported as it is. */
int espl__listen_line(struct espl__listen *, const char *line, size_t, struct espl__buf *to);
/* To be called after each report until it returns 0: another one is due. */
int espl__listen_more(struct espl__listen *, struct espl__buf *to);
/* The program has ended well: what was held back is reported. */
int espl__listen_end(struct espl__listen *, struct espl__buf *to);
/* Iteration of the last report; 0 or what the start said: there was none. */
uint64_t espl__listen_last(const struct espl__listen *);
/* Valid until the next call. */
const struct espl__listen_layout *espl__listen_found(const struct espl__listen *);
/* What the whole output showed, for check. */
struct espl__listen_counts {
	uint64_t hard;    /* lines at which matching was given up: it took too many steps */
	uint64_t dropped; /* values beyond what a report can have; the metric never is */
	uint64_t before;  /* lines with the metric from before the training */
	uint64_t late;    /* lines with the metric of an iteration that had been reported */
	uint64_t beyond;  /* iterations after the last one that may be wanted */
	uint64_t unnamed; /* reports that no number of an iteration belongs to */
	/* the iteration after which the output counted from 1 again, which is left out; 0: it did
	 * not */
	uint64_t restarts;
	/* a number with grouped digits, such as 1,234.5, which is not read; NULL: none */
	const char *grouped;
	uint64_t grouped_lines; /* lines that were not used for it */
	uint64_t falling;       /* lines with the metric whose iterations count down */
	uint64_t again;         /* lines with the metric of the second training */
};
const struct espl__listen_counts *espl__listen_counts(const struct espl__listen *);
/* Lines that look as if they had the metric and were not used: what a user should know of. */
uint64_t espl__listen_unused(const struct espl__listen *);
#endif
