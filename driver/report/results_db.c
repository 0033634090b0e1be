/* results_db.c - results.db as SQLite sees it: opened, written row by row, given up on an error.
 * The tables are in schema.c.
 */
#include "base/assert.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tick.h"
#include "report/results_impl.h"

static const char *const statement_sql[STATEMENT_COUNT] = {
	[PUT_META] = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
	[PUT_TRIAL] = "INSERT OR REPLACE INTO trials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
		      "?10, ?11, ?12, ?12, ?13, ?14)",
	[SET_TRIAL] = "UPDATE trials SET tag = ?2, group_id = ?3, state = ?4, iteration = ?5, "
		      "budget = ?6, checkpoint = ?7, metric = ?8, gpu_s = ?9, cost_usd = ?10, "
		      "changed_s = ?11, feasible = ?12 WHERE id = ?1",
	[SET_USAGE] = "UPDATE trials SET gpu_s = ?2, cost_usd = ?3 WHERE id = ?1",
	[PUT_REPORT] = "INSERT OR REPLACE INTO reports VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[PUT_IMPROVEMENT] = "INSERT OR REPLACE INTO improvements VALUES (?1, ?2, ?3, ?4)",
	[PUT_CONFIGURATION] =
	    "INSERT OR REPLACE INTO configurations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[PUT_NAME] = "INSERT OR REPLACE INTO metric_names VALUES (?1, ?2)",
	[PUT_METRIC] = "INSERT OR REPLACE INTO metrics VALUES (?1, ?2, ?3, ?4)",
	[PUT_GANG] = "INSERT OR REPLACE INTO gangs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, NULL, "
		     "NULL, ?8, 0)",
	/* The slots that the gang leaves, before its new ones are written. */
	[PUT_MOVE] = "INSERT INTO moves SELECT id, (SELECT count(*) + 1 FROM moves WHERE gang = "
		     "?1), ?2, ?3, gpus, packing, slots FROM gangs WHERE id = ?1",
	[MOVE_GANG] = "UPDATE gangs SET gpus = ?2, packing = ?3, slots = ?4 WHERE id = ?1",
	[SET_GANG] = "UPDATE gangs SET state = ?2, running_s = coalesce(?3, running_s), ended_s = "
		     "?4, text = ?5 WHERE id = ?1",
	[FAIL_GANG] = "UPDATE gangs SET failed = 1 WHERE id = (SELECT max(id) FROM gangs WHERE "
		      "trial = ?1)",
	[PUT_NODE] =
	    "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
	    "?13, ?14, ?15) ON CONFLICT (id) DO UPDATE SET state = ?5, gpus = ?4, booting_s = "
	    "coalesce(booting_s, ?7), ready_s = coalesce(ready_s, ?8), notice_s = "
	    "coalesce(notice_s, ?9), ended_s = ?10, billed_from_s = ?11, price_hour = "
	    "?12, charged_usd = ?13, why = coalesce(?14, why), host = ?15",
	[PUT_MACHINE] =
	    "INSERT OR REPLACE INTO machines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	[PUT_CHARGE] = "INSERT INTO charges VALUES (?1, ?2, ?3)",
	[PUT_GROUP] = "INSERT OR REPLACE INTO groups VALUES (?1, ?2, ?3, ?4, NULL)",
	[END_GROUP] = "UPDATE groups SET ended_s = ?2 WHERE id = ?1",
	[PUT_DECISION] = "INSERT INTO decisions VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)",
	[PUT_NOTE] = "INSERT INTO notes VALUES (NULL, ?1, ?2, ?3, ?4, ?5)",
	[PUT_TRIAL_NOTE] = "INSERT OR REPLACE INTO trial_notes VALUES (?1, ?2, ?3, ?4)",
	[PUT_PREDICTION] =
	    "INSERT INTO predictions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
	/* Stages that are over keep their rows of the plan before. */
	[PUT_PLAN] =
	    "INSERT INTO plan SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13"
	    " WHERE NOT EXISTS (SELECT 1 FROM groups WHERE bracket = ?2 AND stage = ?3 AND"
	    " ended_s <= (SELECT at_s FROM predictions WHERE plan = ?1))",
	[PUT_EXPERIMENT] = "INSERT OR REPLACE INTO experiments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
			   "?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
			   "?19, ?20, ?21)",
	[PUT_JOB] = "INSERT OR REPLACE INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, "
		    "?10, ?11)",
	[SET_JOB] = "UPDATE jobs SET started_s = coalesce(started_s, ?2), ended_s = ?3, status = "
		    "?4 WHERE id = ?1",
	[BEGIN] = "BEGIN",
	[COMMIT] = "COMMIT"
};

void
espl__results_db_close(struct espl__results *r)
{
	uint32_t i;

	for (i = 0; i < STATEMENT_COUNT; i++) {
		(void)sqlite3_finalize(r->statements[i]);
		r->statements[i] = NULL;
	}
	(void)sqlite3_close(r->db);
	r->db = NULL;
	r->open = 0;
}

void
espl__results_give_up(struct espl__results *r, const char *what)
{
	if (r->db == NULL)
		return;
	espl__log(ESPL_WARN,
	    "cannot write results.db: %s; the run continues without it, and it is rebuilt when "
	    "the run is resumed, or the study opened again",
	    what);
	espl__results_db_close(r);
}

void
espl__results_put(struct espl__results *r, enum statement which, const char *types, ...)
{
	sqlite3_stmt *st = r->statements[which];
	va_list list;
	int i, status = SQLITE_OK;
	uint64_t n;

	if (r->db == NULL)
		return;
	va_start(list, types);
	for (i = 0; types[i] != '\0' && status == SQLITE_OK; i++) {
		switch (types[i]) {
		case 'i': status = sqlite3_bind_int64(st, i + 1, va_arg(list, int64_t)); break;
		case 'n':
			n = va_arg(list, uint64_t);
			status = n == ESPL_NONE ? sqlite3_bind_null(st, i + 1)
						: sqlite3_bind_int64(st, i + 1, (int64_t)n);
			break;
		case 'r': status = sqlite3_bind_double(st, i + 1, va_arg(list, double)); break;
		default:
			status = sqlite3_bind_text(st, i + 1, va_arg(list, const char *), -1,
			    SQLITE_TRANSIENT);
		}
	}
	va_end(list);
	if (status == SQLITE_OK)
		status = sqlite3_step(st);
	if (status != SQLITE_DONE) {
		espl__results_give_up(r, sqlite3_errmsg(r->db));
		return;
	}
	(void)sqlite3_reset(st);
	r->rows++;
}

void
espl__results_begin(struct espl__results *r)
{
	if (r->db == NULL || r->open)
		return;
	espl__results_put(r, BEGIN, "");
	r->open = r->db != NULL;
	r->begun = espl__tick();
	r->rows = 0;
}

void
espl__results_commit(struct espl__results *r)
{
	if (r->db == NULL || !r->open)
		return;
	espl__results_put(r, COMMIT, "");
	r->open = 0;
}

static int
prepare_statements(struct espl__results *r)
{
	uint32_t i;

	for (i = 0; i < STATEMENT_COUNT; i++) {
		if (sqlite3_prepare_v3(r->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
			&r->statements[i], NULL) != SQLITE_OK)
			return -1;
	}
	return 0;
}

int
espl__results_sql(struct espl__results *r, const char *sql)
{
	return sqlite3_exec(r->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

int
espl__results_db_open(struct espl__results *r, const char *path, int make)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (make ? SQLITE_OPEN_CREATE : 0);
	int bad = sqlite3_open_v2(path, &r->db, flags, NULL) != SQLITE_OK;

	if (r->db == NULL)
		return -1;
	(void)sqlite3_busy_timeout(r->db, 2000);
	bad = bad || espl__results_sql(r, "PRAGMA synchronous = OFF") < 0 ||
	    espl__results_sql(r,
		path == r->fresh ? "PRAGMA journal_mode = OFF" : "PRAGMA journal_mode = WAL") < 0;
	if (!bad && make) {
		char *version = espl__format("PRAGMA user_version = %d", ESPL__RESULTS_VERSION);

		bad = espl__results_sql(r, espl__results_schema) < 0 ||
		    espl__results_sql(r, version) < 0;
		free(version);
	}
	return bad || prepare_statements(r) < 0 ? -1 : 0;
}

void
espl__results_db_remove(const char *path, int itself)
{
	static const char *const beside[] = { "-wal", "-shm", "-journal", "" };

	for (int i = 0; i < (itself ? 4 : 3); i++) {
		char *name = espl__format("%s%s", path, beside[i]);

		(void)unlink(name);
		free(name);
	}
}
