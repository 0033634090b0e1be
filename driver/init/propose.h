/* propose.h - a first configuration for a script: which options to tune and where, which printed
 * line holds the metric.  Guesses, all of them: the file says so, and the user edits it.
 */
#ifndef ESPL__PROPOSE_H
#define ESPL__PROPOSE_H
#include "init/script.h"

/* metric.c: the line that a script prints after an iteration. */
struct espl__py_metric {
	char *name;    /* "loss" */
	char *pattern; /* for trial.metrics; NULL: lines of JSON */
	char *line;    /* as it is in the script */
	char *member;  /* of lines of JSON: what holds the iteration; NULL "iteration" */
	int to_err;    /* it goes to standard error */
	int maximize;
	int iterations; /* the line names the iteration */
};
/* 0, or -1: no line looks like one; then the example "loss: {loss}". */
int espl__metric_guess(const struct espl__script *, struct espl__py_metric *);
void espl__metric_free(struct espl__py_metric *);

/* space.c: what is to become of an option. */
enum espl__py_role {
	ESPL__PY_LEFT,       /* keeps its default */
	ESPL__PY_TUNED,      /* `range` is its group in the space */
	ESPL__PY_SWITCH,     /* the same, and the value is the whole word, or "" */
	ESPL__PY_ITERATIONS, /* how long to train */
	ESPL__PY_OUTPUT,     /* a directory to write into */
	ESPL__PY_REQUIRED    /* the user must give it */
};
enum espl__py_role espl__space_propose(const struct espl__py_option *, struct espl__buf *range);

/* write.c: the file.  path: of the script, as the command is to name it; NULL: no script, and a
 * template. */
void espl__init_write(const struct espl__script *, const char *path, struct espl__buf *);
#endif
