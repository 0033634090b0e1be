/* results_impl.h - what the files that write results.db share. */
#ifndef ESPL__RESULTS_IMPL_H
#define ESPL__RESULTS_IMPL_H
#include <math.h>
#include <sqlite3.h>
#include "report/causes.h"
#include "report/seen_trials.h"
#include "report/results.h"
#include "report/trial_text.h"

enum statement {
	PUT_META,
	PUT_TRIAL,
	SET_TRIAL,
	SET_USAGE,
	PUT_REPORT,
	PUT_IMPROVEMENT,
	PUT_CONFIGURATION,
	PUT_NAME,
	PUT_METRIC,
	PUT_GANG,
	SET_GANG,
	PUT_MOVE,
	MOVE_GANG,
	FAIL_GANG,
	PUT_NODE,
	PUT_MACHINE,
	PUT_CHARGE,
	PUT_GROUP,
	END_GROUP,
	PUT_DECISION,
	PUT_NOTE,
	PUT_TRIAL_NOTE,
	PUT_PREDICTION,
	PUT_PLAN,
	PUT_EXPERIMENT,
	PUT_JOB,
	SET_JOB,
	BEGIN,
	COMMIT,
	STATEMENT_COUNT
};

struct planned {
	struct espl__forecast_stage stage;
	int64_t plan;
	double at_s; /* NaN: it could not be predicted */
};

#define ESPL__RESULTS_MAGIC 0x75627472u
struct espl__results {
	struct espl__observer observer;
	uint32_t magic; /* ESPL__RESULTS_MAGIC */
	struct espl__results_setup setup;
	struct espl__totals totals;
	char *path, *fresh; /* results.db, results.db.new */
	sqlite3 *db;        /* NULL: given up */
	sqlite3_stmt *statements[STATEMENT_COUNT];
	int open; /* a transaction is */
	uint32_t rows;
	int64_t begun;    /* tick at BEGIN, or of the last look */
	espl_time now;    /* of the executor's last round, */
	int64_t now_tick; /* and when that was; 0: none yet */
	uint32_t names;   /* metric names written */
	struct espl__seen_trials seen;
	uint64_t *used; /* trials whose gangs ended since the last tick */
	uint32_t used_count, used_cap;
	espl_money *charged; /* [node] */
	uint64_t charged_count, charged_cap;
	struct espl__lowest *lowest; /* [search] */
	uint64_t lowest_count, lowest_cap;
	struct espl__causes causes;
	int jobs_listed;         /* those that were to come then */
	int64_t plans;           /* that came in force */
	struct planned *planned; /* their stages, until they are written */
	uint32_t planned_count, planned_cap;
	struct espl__buf text;
};

/* results_db.c.  0, or -1: sqlite3_errmsg(db), if there is a db. */
int espl__results_db_open(struct espl__results *, const char *path, int make);
void espl__results_db_close(struct espl__results *);
/* Removes the file of an earlier driver (itself: 1) and what SQLite left beside it: a stale log
 * must never be applied to a new file. */
void espl__results_db_remove(const char *path, int itself);
int espl__results_sql(struct espl__results *, const char *sql);
/* Warns, and writes nothing more. */
void espl__results_give_up(struct espl__results *, const char *what);
/* One row: types i (int64), n (uint64, NONE is NULL), r (double, NaN is NULL), t (text). */
void espl__results_put(struct espl__results *, enum statement, const char *types, ...);
void espl__results_begin(struct espl__results *);  /* a transaction, unless there is one */
void espl__results_commit(struct espl__results *); /* it, if there is one */

static inline double
espl__results_s(espl_time t)
{
	return t == ESPL_NEVER ? NAN : (double)t / 1e9;
}

/* results_space.c: of this experiment of a pool; 0: of the search. */
void espl__results_space(struct espl__results *, uint64_t experiment, const struct espl__space *);

/* results_pool.c: rows of a pool. */
void espl__results_job(struct espl__results *, espl_time now, const struct espl_trial *, int fresh);
void espl__results_jobs(struct espl__results *,
    const struct espl__exec *); /* those still to come */
void espl__results_experiment(void *results, espl_time now, uint64_t number,
    const struct espl__search_summary *);
void espl__results_experiments(struct espl__results *,
    const struct espl__exec *); /* rewrite all of them */
#endif
