/* queue.c - a pool's experiments and plain jobs, as `espalier queue` shows them. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "report/wait_times.h"

/* Both alike: kind, name, status, arrived, waits since, trials, GPUs now. */
static const char list_sql[] =
    "SELECT 'experiment', e.name, e.status, e.arrived_s, CASE WHEN e.status = 'waiting' THEN "
    "(SELECT min(t.changed_s) FROM trials t WHERE t.id >> 40 = e.id"
    " AND t.state = 'waiting') END, e.trials, (SELECT total(g.gpus * 1.0 / g.packing) FROM gangs g "
    "WHERE g.ended_s IS NULL AND g.trial >> 40 = e.id), e.id"
    " FROM experiments e UNION ALL"
    " SELECT 'job', j.name, j.status, j.arrived_s, CASE WHEN j.status = 'waiting' THEN (SELECT "
    "t.changed_s FROM trials t WHERE t.id = j.id) END, 1, (SELECT total(g.gpus * 1.0 / g.packing) "
    "FROM gangs g WHERE g.ended_s IS NULL AND g.trial = j.id), j.id"
    " FROM jobs j ORDER BY 1, 8";

static const char *
text_of(sqlite3_stmt *st, int column)
{
	const char *text = (const char *)sqlite3_column_text(st, column);

	return text != NULL ? text : "";
}

/* Why it waits now; `w`: loaded with the first that does. */
static espl_status
ask_why(struct espl__reading *r, sqlite3_stmt *st, struct espl__waits **w, struct espl__wait *why,
    struct espl__diag *diag)
{
	int64_t id = sqlite3_column_int64(st, 7);
	espl_status status = *w != NULL ? ESPL_OK : espl__waits_open(r, w, diag);

	if (status == ESPL_OK)
		espl__waits_now(*w,
		    strcmp(text_of(st, 0), "job") == 0 ? ESPL__WAITS_JOB(id)
						       : ESPL__WAITS_EXPERIMENT(id),
		    espl__reading_real(st, 4), r->totals.jct_s, why);
	return status;
}

/* A second line, where there is something to say. */
static void
put_why(const struct espl__wait *why, struct espl__buf *b)
{
	struct espl__buf text = { NULL, 0, 0 };

	espl__wait_text(why, &text);
	if (text.size > 0) {
		espl__print(b, "  %-10s   ", "");
		espl__print_clean(b, espl__buf_text(&text));
		espl__print(b, "\n");
	}
	espl__buf_free(&text);
}

/* why NULL: it does not wait. */
static void
put_row(const struct espl__reading *r, sqlite3_stmt *st, const struct espl__wait *why, int json,
    int first, struct espl__buf *b)
{
	double arrived = espl__reading_real(st, 3), since = espl__reading_real(st, 4);
	char at[32], waits[32];

	if (json) {
		espl__json_open(b, NULL, '{');
		espl__json_text(b, "kind", text_of(st, 0));
		espl__json_text(b, "name", text_of(st, 1));
		espl__json_text(b, "status", text_of(st, 2));
		espl__json_real(b, "arrived_s", arrived);
		espl__json_real(b, "waiting_since_s", since);
		espl__json_int(b, "trials", sqlite3_column_int64(st, 5));
		espl__json_real(b, "gpus", r->running ? sqlite3_column_double(st, 6) : 0);
		if (why != NULL) {
			espl__json_key(b, "why");
			espl__wait_json(why, b);
		} else {
			espl__json_text(b, "why", NULL);
		}
		espl__print(b, "}");
		return;
	}
	if (first)
		espl__print(b, "  %-10s %-24s %-10s %12s %12s %8s %8s\n", "", "name", "status",
		    "arrived", "waits", "trials", espl__slots_word(r->totals.on_cpu, 0));
	espl__print(b, "  %-10s ", text_of(st, 0));
	espl__print_clean(b, text_of(st, 1));
	espl__print(b, "%*s %-10s %12s %12s %8lld %8.4g\n",
	    (int)(strlen(text_of(st, 1)) < 24 ? 24 - strlen(text_of(st, 1)) : 0), "",
	    text_of(st, 2), isnan(arrived) ? "-" : espl__format_seconds(arrived, at),
	    isnan(since) ? "-" : espl__format_seconds(r->totals.jct_s - since, waits),
	    (long long)sqlite3_column_int64(st, 5),
	    r->running ? sqlite3_column_double(st, 6) : 0.0);
	if (why != NULL)
		put_why(why, b);
}

espl_status
espl__reading_queue(struct espl__reading *r, int json, struct espl__buf *b, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, list_sql, -1, -1, diag);
	struct espl__waits *waits = NULL;
	struct espl__wait why;
	espl_status status = ESPL_OK;
	int more = 0, count = 0, waiting;

	ESPL__CHECK(r, READING);
	if (st == NULL)
		return diag != NULL ? diag->status : ESPL_E_CONFIG;
	if (json) {
		espl__print(b, "{");
		espl__json_text(b, "event", "queue");
		espl__json_text(b, "status", r->totals.status);
		espl__json_real(b, "now_s", r->totals.jct_s);
		espl__json_open(b, "queue", '[');
	}
	while (status == ESPL_OK && (more = espl__reading_next(r, st, diag)) == 1) {
		waiting = sqlite3_column_type(st, 4) != SQLITE_NULL;
		if (waiting)
			status = ask_why(r, st, &waits, &why, diag);
		if (status == ESPL_OK)
			put_row(r, st, waiting ? &why : NULL, json, count++ == 0, b);
	}
	(void)sqlite3_finalize(st);
	espl__waits_free(waits);
	if (status != ESPL_OK)
		return status;
	if (more == 0 && count == 0) {
		more = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is not a pool, or nothing has been submitted to it yet", r->dir);
		espl__hint(diag, "see a single experiment with `espalier status %s`", r->dir);
	}
	if (json)
		espl__print(b, "]}\n");
	return more == 0 ? ESPL_OK : ESPL_E_CONFIG;
}
