/* results_read.h - results.db as status, best, explain and export read it, also while it grows. */
#ifndef ESPL__RESULTS_READ_H
#define ESPL__RESULTS_READ_H
#include <sqlite3.h>
#include "report/totals.h"

struct espl__profile;

#define ESPL__READING_MAGIC 0x75626663u
struct espl__reading {
	uint32_t magic; /* ESPL__READING_MAGIC */
	sqlite3 *db;
	char *dir;
	char *algorithm; /* its name, or NULL */
	int running;     /* a driver holds the directory */
	/* status "interrupted" where the driver is gone; jct_s: now, while it is not.  Queries see
	 * what ran with a driver that is gone as waiting, as these totals do. */
	struct espl__totals totals;
};
/* Does a driver hold this directory now? */
int espl__run_held(const char *dir);
/* E_CONFIG with a hint: no run directory, no results, results of another version. */
espl_status espl__reading_open(const char *dir, struct espl__reading **, struct espl__diag *);
void espl__reading_free(struct espl__reading *);

/* A statement with up to two numbers bound (-1: none); NULL and diag on failure. */
sqlite3_stmt *espl__reading_query(struct espl__reading *, const char *sql, int64_t first,
    int64_t second, struct espl__diag *);
/* 1 a row, 0 the end, -1 failed (diag). */
int espl__reading_next(struct espl__reading *, sqlite3_stmt *, struct espl__diag *);
double espl__reading_real(sqlite3_stmt *, int column); /* NULL: NaN */

/* Of a pool: the totals' name, metric, goal and best become those of this experiment.  0: there is
 * none such. */
int espl__reading_turn(struct espl__reading *, int64_t experiment);
int espl__reading_pool(const struct espl__reading *); /* is it one? */

/* The table of groups for `status`; nothing where there are none. */
espl_status espl__reading_groups(struct espl__reading *, struct espl__buf *, struct espl__diag *);
/* Are there several brackets, begun or not?  experiment: 0, or that of a pool. */
int espl__reading_brackets(struct espl__reading *, int64_t experiment);
/* "stage 1", "bracket 0, stage 1" where there are several, "group N" where none is declared. */
void espl__reading_group_name(struct espl__reading *, int64_t group, char to[48]);

/* queue.c: the experiments and jobs of a pool, waiting or with GPUs; E_CONFIG if it is not a pool.
 */
espl_status espl__reading_queue(struct espl__reading *, int json, struct espl__buf *,
    struct espl__diag *);
/* explain.c: the decisions about a trial and their reasons, in order of time. E_UNKNOWN: no such
 * trial. */
/* The machines of a run with their health, as `espalier nodes` shows them: a table, or (json) a
 * list. 0: there are none. */
int espl__reading_machines(struct espl__reading *, int json, struct espl__buf *);
void espl__explain_run(struct espl__reading *, struct espl__buf *); /* plans, nodes, ends */
espl_status espl__explain(struct espl__reading *, uint64_t trial, struct espl__buf *,
    struct espl__diag *);
/* export.c */
espl_status espl__export_csv(struct espl__reading *, const char *table, FILE *,
    struct espl__diag *);
espl_status espl__export_json(struct espl__reading *, FILE *, struct espl__diag *);
/* tensorboard.c: an event file for each trial in DIR/NAME, NAME as in ESPALIER_TRIAL_NAME. */
espl_status espl__export_tensorboard(struct espl__reading *, const char *dir, struct espl__diag *);

/* ---- recorded_curves.c ----------------------------------------------------------------------- */

/* What the trials of a run reported, as a CSV of curves (docs/curves.md). */

/* One line a report, in order of time, with the one metric.  E_CONFIG: no run directory, or a run
 * that knows no such metric (with a hint). */
espl_status espl__recorded_curves(const char *dir, const char *metric, struct espl__buf *,
    struct espl__diag *);
/* To be replayed (input/curves.c): by trial and iteration, with all metrics and the seconds that
 * each iteration would take on one GPU by this profile's scaling.  `cut`: words, if curves end
 * before iteration `asked` because the run or their trial did. */
espl_status espl__recorded_replay(const char *dir, const char *metric, const struct espl__profile *,
    int64_t asked, struct espl__buf *, struct espl__buf *cut, struct espl__diag *);
#endif
