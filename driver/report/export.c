/* export.c - a run's results as CSV (one table) or JSON (everything), streamed from SQLite. */
#include "report/results_read.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/map.h"
#include "base/text.h"
#include "report/importance.h"

static const char *const tables[] = { "trials", "reports", "gangs", "stays", "resizes", "nodes",
	"charges", "groups", "predictions", "plan", "decisions", "notes", "experiments", "jobs",
	"trial_notes" };

static const char *
order_of(const char *table)
{
	return strcmp(table, "charges") == 0    ? "rowid"
	    : strcmp(table, "predictions") == 0 ? "plan"
	    : strcmp(table, "plan") == 0        ? "plan, bracket, stage"
	    : strcmp(table, "stays") == 0       ? "gang, number"
	    : strcmp(table, "trial_notes") == 0 ? "trial, key"
	    : strcmp(table, "resizes") == 0     ? "at_s, trial"
						: "id";
}

/* A number or nothing, as written in both formats; text must be quoted by the caller: it is
 * returned.
 */
static const char *
plain_cell(struct espl__buf *b, sqlite3_stmt *st, int column, const char *nothing)
{
	switch (sqlite3_column_type(st, column)) {
	case SQLITE_NULL: espl__print(b, "%s", nothing); return NULL;
	case SQLITE_INTEGER: espl__print(b, "%lld", sqlite3_column_int64(st, column)); return NULL;
	case SQLITE_FLOAT: espl__print_number(b, sqlite3_column_double(st, column)); return NULL;
	default: return (const char *)sqlite3_column_text(st, column);
	}
}

/* ---- CSV ------------------------------------------------------------------------------------ */

/* A spreadsheet executes text that begins like this as a formula: an apostrophe in front marks it
 * as text. */
static int
is_formula(const char *text)
{
	char *end;

	if (text == NULL || text[0] == '\0' || strchr("=+-@\t\r", text[0]) == NULL)
		return 0;
	(void)strtod(text, &end);
	return end == text || *end != '\0';
}

static void
csv_cell(struct espl__buf *b, sqlite3_stmt *st, int column)
{
	double number =
	    sqlite3_column_type(st, column) == SQLITE_FLOAT ? sqlite3_column_double(st, column) : 0;
	const char *text;

	if (isinf(number)) {
		espl__print(b, number > 0 ? "inf" : "-inf");
		return;
	}
	text = plain_cell(b, st, column, "");
	if (text != NULL)
		espl__print_csv(b, text, is_formula(text) ? "'" : "");
}

static void
csv_value(struct espl__buf *b, const json_t *value, int exact)
{
	struct espl__buf text = { NULL, 0, 0 };

	if (value == NULL)
		return;
	espl__json_value_text(value, &text);
	if (json_is_number(value) || json_is_boolean(value))
		espl__print(b, "%s", espl__buf_text(&text));
	else
		espl__print_csv(b, espl__buf_text(&text),
		    !exact && is_formula(espl__buf_text(&text)) ? "'" : "");
	espl__buf_free(&text);
}

/* Sends a line on its way; the caller looks at ferror once at the end. */
static void
send_line(struct espl__buf *b, FILE *to)
{
	espl__print(b, "\n");
	(void)fwrite(b->data, 1, b->size, to);
	espl__buf_clear(b);
}

/* The names in JSON objects, one in each row, in the order in which they come. */
static espl_status
member_names(struct espl__reading *r, const char *sql, struct espl__names *names,
    struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, sql, -1, -1, diag);
	const char *name;
	json_t *object, *value;
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		object = json_loads((const char *)sqlite3_column_text(st, 0), 0, NULL);
		json_object_foreach (object, name, value)
			(void)espl__names_add(names, name);
		json_decref(object);
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* The best trial's line: itself, the trial it was cloned from, and so on, each with the iterations
 * that count. */
static const char schedule_sql[] =
    "WITH RECURSIVE line(id, parent, until, params) AS ("
    " SELECT id, parent, (SELECT max(iteration) FROM reports WHERE trial = id), params FROM trials"
    "  WHERE id = (SELECT value FROM meta WHERE key = 'best')"
    " UNION ALL SELECT t.id, t.parent,"
    "  coalesce((SELECT min(iteration) - 1 FROM reports WHERE trial = line.id), line.until), "
    "t.params"
    "  FROM trials t JOIN line ON t.id = line.parent),"
    " part(\"from\", until, params) AS ("
    " SELECT coalesce((SELECT min(iteration) - 1 FROM reports WHERE trial = line.id), until), "
    "until, params FROM line)"
    " SELECT \"from\", until, params FROM part WHERE \"from\" < until ORDER BY \"from\"";

static const char trials_sql[] =
    "SELECT id AS trial, state, iteration, budget, group_id, parent, tag, metric, best_metric,"
    " gpu_s, cost_usd, created_s, changed_s, checkpoint, feasible,"
    " (SELECT json_group_object(key, text) FROM trial_notes WHERE trial = id) AS notes, params"
    " FROM trials LEFT JOIN"
    " (SELECT trial AS of, CASE WHEN ?1 THEN max(metric) ELSE min(metric) END AS best_metric"
    "  FROM reports GROUP BY trial) ON of = id ORDER BY id";

/* With experiment.seeds also its configuration, and the mean of that. */
static const char seeds_trials_sql[] =
    "SELECT t.id AS trial, c.id AS configuration, state, t.iteration, budget, group_id, parent,"
    " tag, t.metric, best_metric, c.metric AS mean_metric, spread,"
    " gpu_s, cost_usd, created_s, changed_s, checkpoint, feasible,"
    " (SELECT json_group_object(key, text) FROM trial_notes WHERE trial = t.id) AS notes, params"
    " FROM trials t LEFT JOIN configurations c ON t.id >= first_trial AND"
    " t.id < first_trial + trials LEFT JOIN"
    " (SELECT trial AS of, CASE WHEN ?1 THEN max(metric) ELSE min(metric) END AS best_metric"
    "  FROM reports GROUP BY trial) ON of = t.id ORDER BY t.id";

static const char *
trials_query(const struct espl__reading *r)
{
	return r->totals.seeds > 1 ? seeds_trials_sql : trials_sql;
}

/* A query whose last column is params, and perhaps the one before notes: writes a column for each
 * parameter, and for each note, in their place. The schedule is read back by an algorithm, so its
 * texts get no apostrophe. */
struct wide {
	sqlite3_stmt *st;
	int plain; /* columns before those */
	int exact;
	struct espl__names params, notes;
};

static void
put_heads(const struct wide *w, struct espl__buf *b)
{
	uint32_t n;
	int i;

	for (i = 0; i < w->plain; i++)
		espl__print(b, "%s%s", i > 0 ? "," : "", sqlite3_column_name(w->st, i));
	for (n = 0; n < w->params.count; n++) {
		for (i = 0;
		     i < w->plain && strcmp(sqlite3_column_name(w->st, i), w->params.names[n]) != 0;
		     i++)
			;
		espl__print(b, i < w->plain && !w->exact ? ",params_" : ",");
		espl__print_csv(b, w->params.names[n], "");
	}
	for (n = 0; n < w->notes.count; n++) {
		espl__print(b, ",");
		espl__print_csv(b, w->notes.names[n], "notes_");
	}
}

static void
put_members(const struct wide *w, int column, const struct espl__names *names, struct espl__buf *b)
{
	json_t *object = json_loads((const char *)sqlite3_column_text(w->st, column), 0, NULL);

	for (uint32_t n = 0; n < names->count; n++) {
		espl__print(b, ",");
		csv_value(b, json_object_get(object, names->names[n]), w->exact);
	}
	json_decref(object);
}

static void
put_row(const struct wide *w, struct espl__buf *b)
{
	for (int i = 0; i < w->plain; i++) {
		espl__print(b, i > 0 ? "," : "");
		csv_cell(b, w->st, i);
	}
	put_members(w, sqlite3_column_count(w->st) - 1, &w->params, b);
	if (w->notes.count > 0)
		put_members(w, w->plain, &w->notes, b);
}

static espl_status
csv_params(struct espl__reading *r, const char *sql, int64_t bound, FILE *to,
    struct espl__diag *diag)
{
	struct wide w = { .exact = sql == schedule_sql };
	struct espl__buf b = { NULL, 0, 0 };
	espl_status status =
	    member_names(r, "SELECT params FROM trials ORDER BY id", &w.params, diag);
	int more = -1;

	if (status == ESPL_OK && !w.exact)
		status = member_names(r,
		    "SELECT json_object(key, '') FROM trial_notes GROUP BY key ORDER BY key",
		    &w.notes, diag);
	if (status == ESPL_OK)
		w.st = espl__reading_query(r, sql, bound, -1, diag);
	if (w.st != NULL) {
		w.plain = sqlite3_column_count(w.st) - (w.exact ? 1 : 2);
		put_heads(&w, &b);
		send_line(&b, to);
		while ((more = espl__reading_next(r, w.st, diag)) == 1) {
			put_row(&w, &b);
			send_line(&b, to);
		}
	}
	(void)sqlite3_finalize(w.st);
	espl__buf_free(&b);
	espl__names_free(&w.params);
	espl__names_free(&w.notes);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* SELECT with a column for each metric that the run reported. */
static char *
reports_sql(struct espl__reading *r, struct espl__diag *diag)
{
	sqlite3_stmt *st =
	    espl__reading_query(r, "SELECT id, name FROM metric_names ORDER BY id", -1, -1, diag);
	static const char columns[] = " trial iteration at_s gpus packing ";
	struct espl__buf b = { NULL, 0, 0 };
	const char *p;
	char *sql;

	if (st == NULL)
		return NULL;
	espl__print(&b, "SELECT trial, iteration, at_s, gpus, packing");
	while (espl__reading_next(r, st, diag) == 1) {
		char *word = espl__format(" %s ", (const char *)sqlite3_column_text(st, 1));
		int taken = strstr(columns, word) != NULL;

		free(word);
		if (sqlite3_column_int64(st, 0) == 0)
			espl__print(&b, ", metric AS \"");
		else
			espl__print(&b,
			    ", (SELECT value FROM metrics m WHERE m.trial = r.trial AND"
			    " m.iteration = r.iteration AND name_id = %lld) AS \"",
			    sqlite3_column_int64(st, 0));
		espl__print(&b, taken ? "metrics_" : "");
		for (p = (const char *)sqlite3_column_text(st, 1); *p != '\0'; p++)
			espl__print(&b, *p == '"' ? "\"\"" : "%c", *p);
		espl__print(&b, "\"");
	}
	(void)sqlite3_finalize(st);
	espl__print(&b, " FROM reports r ORDER BY trial, iteration");
	sql = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	return sql;
}

static espl_status
csv_plain(struct espl__reading *r, const char *sql, FILE *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, sql, -1, -1, diag);
	struct espl__buf b = { NULL, 0, 0 };
	int i, more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	for (i = 0; i < sqlite3_column_count(st); i++) {
		espl__print(&b, i > 0 ? "," : "");
		espl__print_csv(&b, sqlite3_column_name(st, i), "");
	}
	send_line(&b, to);
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		for (i = 0; i < sqlite3_column_count(st); i++) {
			espl__print(&b, i > 0 ? "," : "");
			csv_cell(&b, st, i);
		}
		send_line(&b, to);
	}
	(void)sqlite3_finalize(st);
	espl__buf_free(&b);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- GPU map --------------------------------------------------------------------------------- */

/* The GPU map as CSV: which trial used which part of which GPU, and when.
 *
 * A row for each GPU of each stay: a trial that is resized in place, or starts again, has several.
 */

/* The stay's GPUs in order of rank; none if the text is not a list of pairs. */
static void
put_stay(sqlite3_stmt *st, FILE *to, struct espl__buf *b)
{
	const char *text = (const char *)sqlite3_column_text(st, 6);
	json_t *slots = text != NULL ? json_loads(text, 0, NULL) : NULL, *slot;
	size_t rank;
	int i;

	json_array_foreach (slots, rank, slot) {
		const json_t *node = json_array_get(slot, 0), *gpu = json_array_get(slot, 1);

		if (!json_is_integer(node) || !json_is_integer(gpu))
			continue;
		espl__print(b, "%lld,%lld,%lld", (long long)json_integer_value(node),
		    (long long)json_integer_value(gpu), sqlite3_column_int64(st, 3));
		for (i = 4; i < 6; i++) {
			espl__print(b, ",");
			if (sqlite3_column_type(st, i) != SQLITE_NULL)
				espl__print_number(b, sqlite3_column_double(st, i));
		}
		for (i = 0; i < 3; i++)
			espl__print(b, ",%lld", sqlite3_column_int64(st, i));
		espl__print(b, ",%lld\n", (long long)rank);
		(void)fwrite(b->data, 1, b->size, to);
		espl__buf_clear(b);
	}
	json_decref(slots);
}

static espl_status
export_map(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT trial, gang, number, packing, from_s, until_s, slots"
	    " FROM stays ORDER BY from_s, gang, number",
	    -1, -1, diag);
	struct espl__buf b = { NULL, 0, 0 };
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	(void)fputs("node,gpu,packing,from_s,until_s,trial,gang,stay,rank\n", to);
	while ((more = espl__reading_next(r, st, diag)) == 1)
		put_stay(st, to, &b);
	(void)sqlite3_finalize(st);
	espl__buf_free(&b);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- tables -------------------------------------------------------------------------------- */

espl_status
espl__export_csv(struct espl__reading *r, const char *table, FILE *to, struct espl__diag *diag)
{
	char *sql;
	espl_status status;
	size_t i, count = sizeof tables / sizeof tables[0];

	ESPL__CHECK(r, READING);
	if (strcmp(table, "schedule") == 0)
		return csv_params(r, schedule_sql, -1, to, diag);
	if (strcmp(table, "gpu_map") == 0)
		return export_map(r, to, diag);
	if (strcmp(table, "importance") == 0)
		return espl__importances_csv(r, to, diag);
	for (i = 0; i < count && strcmp(tables[i], table) != 0; i++)
		continue;
	if (i == count) {
		struct espl__buf b = { NULL, 0, 0 };

		for (i = 0; i < count; i++)
			espl__print(&b, "%s%s", i > 0 ? ", " : "", tables[i]);
		status = espl__fail(diag, ESPL_E_CONFIG, "unknown table '%s'", table);
		espl__hint(diag, "the tables are %s, gpu_map, importance, schedule",
		    espl__buf_text(&b));
		espl__buf_free(&b);
		return status;
	}
	if (strcmp(table, "trials") == 0)
		return csv_params(r, trials_query(r), r->totals.maximize, to, diag);
	sql = strcmp(table, "reports") == 0
	    ? reports_sql(r, diag)
	    : espl__format("SELECT * FROM \"%s\" ORDER BY %s", table, order_of(table));
	if (sql == NULL)
		return ESPL_E_REMOTE;
	status = csv_plain(r, sql, to, diag);
	free(sql);
	return status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void
json_cell(struct espl__buf *b, sqlite3_stmt *st, int column)
{
	const char *name = sqlite3_column_name(st, column), *text;

	espl__json_key(b, name);
	text = plain_cell(b, st, column, "null");
	if (text == NULL)
		return;
	/* These are JSON already. */
	if (strcmp(name, "params") == 0 || strcmp(name, "slots") == 0 || strcmp(name, "notes") == 0)
		espl__print(b, "%s", text);
	else
		espl__print_json(b, text);
}

static void
json_row(struct espl__buf *b, sqlite3_stmt *st, int from)
{
	espl__json_open(b, NULL, '{');
	for (int i = from; i < sqlite3_column_count(st); i++)
		json_cell(b, st, i);
}

/* Both statements run in order of trials: each trial takes its own reports from the second. */
static espl_status
json_trials(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, trials_query(r), r->totals.maximize, -1, diag),
		     *reports;
	char *sql = reports_sql(r, diag);
	struct espl__buf b = { NULL, 0, 0 };
	int more = -1, report, first = 1;
	int64_t trial;

	reports = sql != NULL ? espl__reading_query(r, sql, -1, -1, diag) : NULL;
	free(sql);
	if (st != NULL && reports != NULL) {
		report = espl__reading_next(r, reports, diag);
		while ((more = espl__reading_next(r, st, diag)) == 1) {
			trial = sqlite3_column_int64(st, 0);
			espl__print(&b, first ? "" : ", ");
			json_row(&b, st, 0);
			espl__json_open(&b, "reports", '[');
			while (report == 1 && sqlite3_column_int64(reports, 0) <= trial) {
				json_row(&b, reports, 1);
				espl__print(&b, "}");
				report = espl__reading_next(r, reports, diag);
			}
			espl__print(&b, "]}");
			(void)fwrite(b.data, 1, b.size, to);
			espl__buf_clear(&b);
			first = 0;
		}
		more = report < 0 ? -1 : more;
	}
	(void)sqlite3_finalize(st);
	(void)sqlite3_finalize(reports);
	espl__buf_free(&b);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

static espl_status
json_plain(struct espl__reading *r, const char *table, FILE *to, struct espl__diag *diag)
{
	char *sql = espl__format("SELECT * FROM \"%s\" ORDER BY %s", table, order_of(table));
	sqlite3_stmt *st = espl__reading_query(r, sql, -1, -1, diag);
	struct espl__buf b = { NULL, 0, 0 };
	int more, first = 1;

	free(sql);
	if (st == NULL)
		return ESPL_E_REMOTE;
	(void)fprintf(to, ", \"%s\": [", table);
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		espl__print(&b, first ? "" : ", ");
		json_row(&b, st, 0);
		espl__print(&b, "}");
		(void)fwrite(b.data, 1, b.size, to);
		espl__buf_clear(&b);
		first = 0;
	}
	(void)fputs("]", to);
	(void)sqlite3_finalize(st);
	espl__buf_free(&b);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__export_json(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	struct espl__buf b = { NULL, 0, 0 };
	espl_status status;
	size_t i;

	ESPL__CHECK(r, READING);
	espl__print(&b, "{\"summary\": ");
	espl__totals_json(&r->totals, "summary", 1, &b);
	espl__json_open(&b, "trials", '[');
	(void)fwrite(b.data, 1, b.size, to);
	espl__buf_free(&b);
	status = json_trials(r, to, diag);
	(void)fputs("]", to);
	for (i = 2; i < sizeof tables / sizeof tables[0] && status == ESPL_OK; i++)
		status = json_plain(r, tables[i], to, diag);
	(void)fputs(", \"importance\": ", to);
	if (status == ESPL_OK)
		status = espl__importances_json(r, to, diag);
	(void)fputs("}\n", to);
	return status;
}
