/* results_read.c - opens results.db for reading and takes the totals out of it. */
#include "base/assert.h"
#include "report/results_read.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "report/results.h"

/* Held by the driver for its life; asking takes nothing. */
int
espl__run_held(const char *dir)
{
	char *path = espl__format("%s/lock", dir);
	int busy = espl__locked(path);

	free(path);
	return busy;
}

/* file:...?immutable=1 of a path: for a directory where SQLite may not make its helper files. */
static char *
immutable_uri(const char *path)
{
	struct espl__buf b = { NULL, 0, 0 };
	char *uri;

	espl__print(&b, "file:");
	for (; *path != '\0'; path++) {
		if (strchr("?#%", *path) != NULL)
			espl__print(&b, "%%%02x", (unsigned char)*path);
		else
			espl__put_u8(&b, (uint8_t)*path);
	}
	espl__print(&b, "?immutable=1");
	uri = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	return uri;
}

static int
is_readable(sqlite3 *db)
{
	return sqlite3_exec(db, "SELECT count(*) FROM meta", NULL, NULL, NULL) == SQLITE_OK;
}

static espl_status
open_db(struct espl__reading *r, const char *path, struct espl__diag *diag)
{
	int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
	char *uri, *why;

	if (sqlite3_open_v2(path, &r->db, flags, NULL) == SQLITE_OK) {
		(void)sqlite3_busy_timeout(r->db, 2000);
		if (is_readable(r->db))
			return ESPL_OK;
	}
	why = espl__strdup(r->db != NULL ? sqlite3_errmsg(r->db) : "out of memory");
	(void)sqlite3_close(r->db);
	r->db = NULL;
	uri = immutable_uri(path);
	if (sqlite3_open_v2(uri, &r->db, flags | SQLITE_OPEN_URI, NULL) == SQLITE_OK &&
	    is_readable(r->db)) {
		free(uri);
		free(why);
		return ESPL_OK;
	}
	free(uri);
	(void)espl__fail(diag, ESPL_E_CONFIG, "cannot read '%s': %s", path, why);
	espl__hint(diag, "rebuild it from the journal with `espalier resume %s`", r->dir);
	free(why);
	return ESPL_E_CONFIG;
}

sqlite3_stmt *
espl__reading_query(struct espl__reading *r, const char *sql, int64_t first, int64_t second,
    struct espl__diag *diag)
{
	sqlite3_stmt *st = NULL;
	int bad = sqlite3_prepare_v2(r->db, sql, -1, &st, NULL) != SQLITE_OK;

	ESPL__CHECK(r, READING);
	if (!bad && first >= 0)
		bad = sqlite3_bind_int64(st, 1, first) != SQLITE_OK;
	if (!bad && second >= 0)
		bad = sqlite3_bind_int64(st, 2, second) != SQLITE_OK;
	if (bad) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "cannot read results.db: %s",
		    sqlite3_errmsg(r->db));
		(void)sqlite3_finalize(st);
		return NULL;
	}
	return st;
}

int
espl__reading_next(struct espl__reading *r, sqlite3_stmt *st, struct espl__diag *diag)
{
	int status = sqlite3_step(st);

	ESPL__CHECK(r, READING);
	if (status == SQLITE_ROW)
		return 1;
	if (status == SQLITE_DONE)
		return 0;
	(void)espl__fail(diag, ESPL_E_REMOTE, "cannot read results.db: %s", sqlite3_errmsg(r->db));
	return -1;
}

double
espl__reading_real(sqlite3_stmt *st, int column)
{
	return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN
							      : sqlite3_column_double(st, column);
}

static void
set_total(struct espl__totals *t, const char *name, sqlite3_stmt *st)
{
	const struct espl__total_field *f;
	uint32_t i;
	char *at;

	for (i = 0; i < espl__total_field_count; i++) {
		f = &espl__total_fields[i];
		if (strcmp(f->name, name) != 0)
			continue;
		at = (char *)t + f->offset;
		if (f->type == ESPL__TOTAL_TEXT)
			espl__totals_set((char **)(void *)at,
			    (const char *)sqlite3_column_text(st, 1));
		else if (f->type == ESPL__TOTAL_INT)
			*(int64_t *)(void *)at = sqlite3_column_int64(st, 1);
		else
			*(double *)(void *)at = espl__reading_real(st, 1);
	}
}

/* What ran with a driver that is gone waits since then.  These views hide the tables of the same
 * names from all queries of this connection. */
static const char without_driver_sql[] =
    "CREATE TEMP VIEW trials AS SELECT id, parent, tag, group_id,"
    " CASE state WHEN 'running' THEN 'waiting' ELSE state END AS state,"
    " iteration, budget, checkpoint, metric, gpu_s, cost_usd, created_s,"
    " CASE state WHEN 'running' THEN (SELECT value FROM meta WHERE key = 'jct_s')"
    "  ELSE changed_s END AS changed_s, params, feasible FROM main.trials;"
    "CREATE TEMP VIEW experiments AS SELECT id, name, metric, goal,"
    " CASE status WHEN 'running' THEN 'waiting' ELSE status END AS status, arrived_s, ended_s,"
    " trials, completed, failed, best, best_metric, gpu_s, cost_usd, 0 AS gpus, text,"
    " stopped_early, ever, ever_metric, ever_iteration, ever_s"
    " FROM main.experiments;"
    "CREATE TEMP VIEW jobs AS SELECT id, name, work_s, eta_s, nodes_min, nodes_max, weight, fate,"
    " arrived_s, started_s, ended_s,"
    " CASE status WHEN 'running' THEN 'waiting' ELSE status END AS status FROM main.jobs;";

/* The same in the summaries of a pool's experiments: a text cannot hold these bytes, since its
 * quotes are escaped. */
static void
stop_experiments(char *json)
{
	static const char before[] = "\"status\": \"running\"", after[] = "\"status\": \"waiting\"";

	while (json != NULL && (json = strstr(json, before)) != NULL)
		memcpy(json, after, sizeof after - 1);
}

/* The driver may have died without recording the end, and another may be running again. */
static espl_status
set_status(struct espl__reading *r, struct espl__diag *diag)
{
	struct espl__totals *t = &r->totals;

	if (r->running) {
		espl__totals_set(&t->status, "running");
		espl__totals_set(&t->text, NULL);
		return ESPL_OK;
	}
	if (t->status == NULL || strcmp(t->status, "running") == 0) {
		espl__totals_set(&t->status, "interrupted");
		espl__totals_set(&t->text,
		    "its driver is no longer running: it was killed, or the machine went down");
	}
	(void)__builtin_add_overflow(t->waiting, t->running, &t->waiting); /* of a damaged file */
	t->running = t->gpus_busy = 0;
	stop_experiments(t->experiments);
	return sqlite3_exec(r->db, without_driver_sql, NULL, NULL, NULL) == SQLITE_OK
	    ? ESPL_OK
	    : espl__fail(diag, ESPL_E_REMOTE, "cannot read results.db: %s", sqlite3_errmsg(r->db));
}

/* The driver's clock advances even without events. */
static void
report_time(struct espl__reading *r, double reported_utc_s)
{
	struct timespec utc = { 0, 0 };
	double since;

	if (!r->running || isnan(reported_utc_s) || clock_gettime(CLOCK_REALTIME, &utc) != 0)
		return;
	since = (double)utc.tv_sec + (double)utc.tv_nsec / 1e9 - reported_utc_s;
	if (since > 0)
		espl__totals_pass(&r->totals, since);
}

static espl_status
read_totals(struct espl__reading *r, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, "PRAGMA user_version", -1, -1, diag);
	const char *key;
	double reported_utc_s = NAN;
	int more, version;

	if (st == NULL)
		return ESPL_E_CONFIG;
	version = espl__reading_next(r, st, diag) == 1 ? sqlite3_column_int(st, 0) : 0;
	(void)sqlite3_finalize(st);
	if (version == 0) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "'%s/results.db' is incomplete", r->dir);
		espl__hint(diag, "rebuild it from the journal with `espalier resume %s`", r->dir);
		return ESPL_E_CONFIG;
	}
	if (version != ESPL__RESULTS_VERSION) {
		(void)espl__fail(diag, ESPL_E_CONFIG,
		    "'%s/results.db' has format %d, but this version of espalier reads format %d",
		    r->dir, version, ESPL__RESULTS_VERSION);
		espl__hint(diag, "rebuild it from the journal with `espalier resume %s`", r->dir);
		return ESPL_E_CONFIG;
	}
	st = espl__reading_query(r, "SELECT key, value FROM meta", -1, -1, diag);
	if (st == NULL)
		return ESPL_E_CONFIG;
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		key = (const char *)sqlite3_column_text(st, 0);
		if (key == NULL) /* a damaged file */
			continue;
		set_total(&r->totals, key, st);
		if (strcmp(key, "algorithm") == 0)
			espl__totals_set(&r->algorithm, (const char *)sqlite3_column_text(st, 1));
		else if (strcmp(key, "jct_utc_s") == 0)
			reported_utc_s = espl__reading_real(st, 1);
	}
	(void)sqlite3_finalize(st);
	if (more < 0)
		return ESPL_E_CONFIG;
	report_time(r, reported_utc_s);
	return set_status(r, diag);
}

espl_status
espl__reading_open(const char *dir, struct espl__reading **to, struct espl__diag *diag)
{
	struct espl__reading *r = espl__alloc(sizeof *r);
	char *path = espl__format("%s/results.db", dir);
	char *journal = espl__format("%s/journal", dir);
	struct stat st;
	espl_status status = ESPL_OK;

	r->magic = ESPL__READING_MAGIC;
	r->dir = espl__strdup(dir);
	espl__totals_init(&r->totals, NULL, 0);
	if (stat(dir, &st) < 0)
		status =
		    espl__fail(diag, ESPL_E_CONFIG, "cannot open '%s': %s", dir, strerror(errno));
	else if (stat(journal, &st) < 0 && stat(path, &st) < 0) {
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a run directory", dir);
		espl__hint(diag, "give the directory that `espalier run` created");
	} else if (stat(path, &st) < 0) {
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' has no results.db", dir);
		espl__hint(diag, "rebuild it from the journal with `espalier resume %s`", dir);
	} else if (!S_ISREG(st.st_mode)) { /* to open a pipe would wait for its other end */
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a file", path);
	}
	r->running = status == ESPL_OK && espl__run_held(dir);
	if (status == ESPL_OK)
		status = open_db(r, path, diag);
	/* Read everything from one snapshot because the run may continue meanwhile. */
	if (status == ESPL_OK && sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
		status = espl__fail(diag, ESPL_E_CONFIG, "cannot read '%s': %s", path,
		    sqlite3_errmsg(r->db));
	if (status == ESPL_OK)
		status = read_totals(r, diag);
	if (status == ESPL_OK && r->running)
		r->totals.outlook = espl__outlook_read(dir);
	free(path);
	free(journal);
	if (status != ESPL_OK) {
		espl__reading_free(r);
		r = NULL;
	}
	*to = r;
	return status;
}

void
espl__reading_free(struct espl__reading *r)
{
	if (r == NULL)
		return;
	(void)sqlite3_close(r->db);
	espl__totals_free(&r->totals);
	free(r->algorithm);
	free(r->dir);
	r->magic = 0;
	free(r);
}

int
espl__reading_pool(const struct espl__reading *r)
{
	ESPL__CHECK(r, READING);
	return r->totals.experiments != NULL || r->totals.jobs > 0;
}

int
espl__reading_turn(struct espl__reading *r, int64_t experiment)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT e.name, e.metric, e.goal = 'maximize', e.best, e.best_metric, (SELECT "
	    "max(iteration) FROM reports r WHERE r.trial = e.best AND r.metric = e.best_metric), "
	    "t.checkpoint, t.params, e.ever, e.ever_metric, e.ever_iteration, e.ever_s"
	    " FROM experiments e LEFT JOIN trials t ON t.id = e.best WHERE e.id = ?1",
	    experiment, -1, NULL);
	struct espl__totals *t = &r->totals;
	int there = st != NULL && espl__reading_next(r, st, NULL) == 1;

	ESPL__CHECK(r, READING);
	if (there) {
		espl__totals_set(&t->experiment, (const char *)sqlite3_column_text(st, 0));
		espl__totals_set(&t->metric, (const char *)sqlite3_column_text(st, 1));
		espl__totals_set(&t->best_params, (const char *)sqlite3_column_text(st, 7));
		t->maximize = sqlite3_column_int64(st, 2);
		t->best =
		    sqlite3_column_type(st, 3) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, 3);
		t->best_metric = espl__reading_real(st, 4);
		t->best_iteration = sqlite3_column_int64(st, 5);
		t->best_checkpoint = sqlite3_column_int64(st, 6);
		t->ever =
		    sqlite3_column_type(st, 8) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, 8);
		t->ever_metric = espl__reading_real(st, 9);
		t->ever_iteration = sqlite3_column_int64(st, 10);
		t->ever_s = espl__reading_real(st, 11);
	}
	(void)sqlite3_finalize(st);
	return there;
}

int
espl__reading_brackets(struct espl__reading *r, int64_t experiment)
{
	/* Nothing is written of one alone, nor by an espalier that did not count them. */
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT EXISTS (SELECT 1 FROM groups WHERE id >> 40 = ?1 AND bracket > 0)"
	    " OR EXISTS (SELECT 1 FROM meta WHERE key = CASE ?1 WHEN 0 THEN 'brackets' ELSE "
	    "'brackets/' || ?1 END"
	    " AND value > 1) OR ?1 = 0 AND EXISTS (SELECT 1 FROM plan WHERE bracket > 0)",
	    experiment, -1, NULL);
	int many =
	    st != NULL && espl__reading_next(r, st, NULL) == 1 && sqlite3_column_int(st, 0) != 0;

	(void)sqlite3_finalize(st);
	return many;
}

/* In a pool the number of the experiment goes before. */
static void
name_group(struct espl__reading *r, sqlite3_stmt *st, int column, int64_t group, char to[48])
{
	int64_t experiment = group >> ESPL__TRIAL_BITS;
	int used = experiment > 0 ? snprintf(to, 48, "%lld: ", (long long)experiment) : 0;

	if (sqlite3_column_type(st, column + 1) == SQLITE_NULL)
		(void)snprintf(to + used, 48 - (size_t)used, "group %lld",
		    (long long)(group & (int64_t)ESPL__TRIAL_NUMBER));
	else if (!espl__reading_brackets(r, experiment))
		(void)snprintf(to + used, 48 - (size_t)used, "stage %lld",
		    sqlite3_column_int64(st, column + 1));
	else
		(void)snprintf(to + used, 48 - (size_t)used, "bracket %lld, stage %lld",
		    sqlite3_column_int64(st, column), sqlite3_column_int64(st, column + 1));
}

void
espl__reading_group_name(struct espl__reading *r, int64_t group, char to[48])
{
	sqlite3_stmt *st = espl__reading_query(r, "SELECT bracket, stage FROM groups WHERE id = ?1",
	    group, -1, NULL);

	(void)snprintf(to, 48, "group %lld", (long long)group);
	if (st != NULL && espl__reading_next(r, st, NULL) == 1)
		name_group(r, st, 0, group, to);
	(void)sqlite3_finalize(st);
}

espl_status
espl__reading_groups(struct espl__reading *r, struct espl__buf *b, struct espl__diag *diag)
{
	/* A trial belongs to each group that it was ever in, according to the decisions. */
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT g.id, g.bracket, g.stage, max(d.budget), count(DISTINCT d.trial), "
	    "count(DISTINCT CASE WHEN t.group_id <> g.id OR t.state IN ('paused', 'completed', "
	    "'stopped early')"
	    "                     THEN t.id END), count(DISTINCT CASE WHEN t.group_id = g.id AND "
	    "t.state = 'running' THEN t.id END), count(DISTINCT CASE WHEN t.group_id = g.id AND "
	    "t.state IN ('waiting', 'unfinished') THEN t.id END), count(DISTINCT CASE WHEN "
	    "t.group_id = g.id AND "
	    "t.state = 'failed' THEN t.id END)"
	    " FROM groups g JOIN decisions d ON d.group_id = g.id JOIN trials t ON t.id = d.trial"
	    " GROUP BY g.id ORDER BY g.id",
	    -1, -1, diag);
	char name[48];
	int more, count = 0;

	if (st == NULL)
		return ESPL_E_REMOTE;
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		if (count++ == 0)
			espl__print(b, "\n  %-22s %9s %8s %8s %8s %8s %8s\n", "group", "iteration",
			    "trials", "done", "running",
			    r->totals.over || espl__totals_cut(&r->totals) ? "unfinished"
									   : "waiting",
			    "failed");
		name_group(r, st, 1, sqlite3_column_int64(st, 0), name);
		espl__print(b, "  %-22s %9lld %8lld %8lld %8lld %8lld %8lld\n", name,
		    sqlite3_column_int64(st, 3), sqlite3_column_int64(st, 4),
		    sqlite3_column_int64(st, 5), sqlite3_column_int64(st, 6),
		    sqlite3_column_int64(st, 7), sqlite3_column_int64(st, 8));
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}
