/* report_html.c - `espalier report`: the page report.html, with its data as JSON.
 *
 * report.sql defines the data, report.js draws them; without scripts the page shows the summary
 * that `espalier status` prints.
 */
#include "base/assert.h"
#include "report/report_html.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/buf.h"
#include "config.h"
#include "report/importance.h"
#include "report/report_page.h"
#include "report/wait_times.h"

#define TEXT_MAX 20000 /* bytes of a text; report.sql takes less of most */

struct page {
	struct espl__reading *r;
	struct espl__diag *diag;
	FILE *to;
	struct espl__buf b; /* JSON that is not yet sent */
	struct espl__waits *waits;
	double now_s, fixed_s;
	double only; /* the experiment of a pool that it belongs to; -1: the search */
};

/* ---- JSON --------------------------------------------------------------------------------- */

/* No text within the page can end the element that holds the data. */
static void
send_data(struct page *p)
{
	for (size_t i = 0; i < p->b.size; i++) {
		if (p->b.data[i] == '<')
			(void)fputs("\\u003c", p->to);
		else
			(void)fputc(p->b.data[i], p->to);
	}
	espl__buf_clear(&p->b);
}

static void
put_number(struct espl__buf *b, double value)
{
	if (isfinite(value))
		espl__print(b, "%.10g", value);
	else
		espl__print(b, "null");
}

static void
put_text(struct espl__buf *b, const char *text)
{
	char start[TEXT_MAX + 1];

	if (text != NULL && strlen(text) > TEXT_MAX) {
		(void)snprintf(start, sizeof start, "%.*s", TEXT_MAX, text);
		text = start;
	}
	espl__print_json(b, text);
}

static void
put_value(struct espl__buf *b, sqlite3_stmt *st, int column)
{
	switch (sqlite3_column_type(st, column)) {
	case SQLITE_NULL: espl__print(b, "null"); break;
	case SQLITE_INTEGER: espl__print(b, "%lld", sqlite3_column_int64(st, column)); break;
	case SQLITE_FLOAT: put_number(b, sqlite3_column_double(st, column)); break;
	default: put_text(b, (const char *)sqlite3_column_text(st, column)); break;
	}
}

/* {"columns": [names], "rows": [[values], ...]} */
static int
put_rows(struct page *p, sqlite3_stmt *st)
{
	const char *before = "";
	int columns = sqlite3_column_count(st), more;

	espl__print(&p->b, "{\"columns\":[");
	for (int i = 0; i < columns; i++)
		espl__print(&p->b, "%s\"%s\"", i > 0 ? "," : "", sqlite3_column_name(st, i));
	espl__print(&p->b, "],\"rows\":[");
	while ((more = espl__reading_next(p->r, st, p->diag)) == 1) {
		espl__print(&p->b, "%s\n[", before);
		for (int i = 0; i < columns; i++) {
			espl__print(&p->b, "%s", i > 0 ? "," : "");
			put_value(&p->b, st, i);
		}
		espl__print(&p->b, "]");
		before = ",";
		if (p->b.size > (1u << 16))
			send_data(p);
	}
	espl__print(&p->b, "]}");
	return more;
}

/* All totals that the page shows: without policy times, and a pool's experiments. */
static void
put_totals(struct page *p)
{
	const struct espl__totals *t = &p->r->totals;
	struct espl__buf text = { NULL, 0, 0 };
	const char *before = "{";

	for (uint32_t i = 0; i < espl__total_field_count; i++) {
		const struct espl__total_field *f = &espl__total_fields[i];
		const char *at = (const char *)t + f->offset;

		if (strstr(f->name, "_us") != NULL && strstr(f->name, "_usd") == NULL)
			continue;
		if (!espl__total_applies(t, f))
			continue;
		if (strcmp(f->name, "experiments") == 0 || strncmp(f->name, "selected_", 9) == 0)
			continue;
		espl__print(&p->b, "%s\"%s\":", before, f->name);
		before = ",\n";
		if (f->type == ESPL__TOTAL_TEXT)
			put_text(&p->b, *(char *const *)(const void *)at);
		else if (f->type == ESPL__TOTAL_INT)
			espl__print(&p->b, "%lld", (long long)*(const int64_t *)(const void *)at);
		else
			put_number(&p->b, *(const double *)(const void *)at);
	}
	espl__totals_sentence(t, &text);
	espl__print(&p->b, ",\n\"sentence\":");
	put_text(&p->b, espl__buf_text(&text));
	espl__buf_clear(&text);
	if (espl__totals_outlook(t) != NULL) {
		espl__outlook_json(t->outlook, &text);
		espl__print(&p->b, ",\n\"forecast\":%s", espl__buf_text(&text));
	}
	espl__buf_free(&text);
	if (t->confirmed != NULL) {
		struct espl__buf lines = { NULL, 0, 0 };

		espl__confirmed_text(t->confirmed, t->maximize != 0, 0, &lines);
		espl__print(&p->b, ",\n\"confirmation\":");
		put_text(&p->b, espl__buf_text(&lines));
		espl__buf_free(&lines);
	}
	espl__print(&p->b, ",\n\"finished\":%lld,\"paused\":%lld,\"outcome\":\"%s\"}",
	    (long long)espl__totals_finished(t), (long long)espl__totals_paused(t),
	    espl__totals_outcome(t));
}

static void
put_fixed(struct page *p, const struct espl__report_fixed *fixed)
{
	if (fixed == NULL) {
		espl__print(&p->b, "null");
		return;
	}
	espl__print(&p->b, "{\"jct_s\":");
	put_number(&p->b, fixed->jct_s);
	espl__print(&p->b, ",\"cost_usd\":");
	put_number(&p->b, fixed->cost_usd);
	if (fixed->why_not != NULL) {
		espl__print(&p->b, ",\"why_not\":");
		put_text(&p->b, fixed->why_not);
	}
	espl__print(&p->b, ",\"stages\":[");
	for (uint32_t i = 0; fixed->why_not == NULL && i < fixed->stage_count; i++) {
		espl__print(&p->b, i > 0 ? ",[" : "[");
		put_number(&p->b, fixed->stages[i].starts_s);
		espl__print(&p->b, ",");
		put_number(&p->b, fixed->stages[i].ends_s);
		espl__print(&p->b, ",");
		put_number(&p->b, fixed->stages[i].cost_usd);
		espl__print(&p->b, "]");
	}
	espl__print(&p->b, "]}");
}

/* ---- report.sql --------------------------------------------------------------------------- */

static void
bind_values(const struct page *p, sqlite3_stmt *st)
{
	const struct espl__totals *t = &p->r->totals;
	const struct {
		const char *name;
		double value;
	} values[] = { { ":now", p->now_s }, { ":deadline", t->deadline_s },
		{ ":fixed", p->fixed_s }, { ":only", p->only }, { ":best", (double)t->best },
		{ ":sign", t->maximize ? -1 : 1 } };

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		int at = sqlite3_bind_parameter_index(st, values[i].name);

		if (at > 0 && isfinite(values[i].value))
			(void)sqlite3_bind_double(st, at, values[i].value);
	}
}

/* Skips comments, and finds the name of the statement behind them: "" none. */
static const char *
find_name(const char *sql, char name[32])
{
	name[0] = '\0';
	while (*sql == '\n' || strncmp(sql, "--", 2) == 0) {
		if (strncmp(sql, "-- @", 4) == 0)
			(void)snprintf(name, 32, "%.*s", (int)strcspn(sql + 4, "\n"), sql + 4);
		sql += strcspn(sql, "\n") + (*sql != '\0');
	}
	return sql;
}

static espl_status
run_script(struct page *p, const char *sql)
{
	sqlite3_stmt *st;
	char name[32];
	int more = 0;

	for (sql = find_name(sql, name); more == 0 && *sql != '\0'; sql = find_name(sql, name)) {
		if (sqlite3_prepare_v2(p->r->db, sql, -1, &st, &sql) != SQLITE_OK)
			return espl__fail(p->diag, ESPL_E_REMOTE, "cannot read results.db: %s",
			    sqlite3_errmsg(p->r->db));
		bind_values(p, st);
		if (name[0] != '\0') {
			espl__print(&p->b, ",\n\"%s\":", name);
			more = put_rows(p, st);
		} else {
			more = espl__reading_next(p->r, st, p->diag);
		}
		(void)sqlite3_finalize(st);
		send_data(p);
	}
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* SQL: why(who, arrived_s, ended_s): the reasons why it waited for its first GPU. */
static void
answer_why(sqlite3_context *c, int count, sqlite3_value **values)
{
	struct page *p = sqlite3_user_data(c);
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__wait wait;

	(void)count;
	if (p->waits == NULL && espl__waits_open(p->r, &p->waits, p->diag) != ESPL_OK) {
		sqlite3_result_error(c, "the waits cannot be read", -1);
		return;
	}
	espl__waits_first(p->waits, sqlite3_value_int64(values[0]), sqlite3_value_double(values[1]),
	    sqlite3_value_double(values[2]), &wait);
	espl__wait_text(&wait, &text);
	sqlite3_result_text(c, espl__buf_text(&text), -1, SQLITE_TRANSIENT);
	espl__buf_free(&text);
}

/* "importance": which parameters matter; empty where that is unknown. */
static espl_status
put_importance(struct page *p)
{
	struct espl__importances found;
	espl_status status =
	    espl__importances_find(p->r, p->only < 0 ? 0 : (int64_t)p->only, &found, p->diag);

	espl__print(&p->b, ",\n\"importance\":{\"trials\":%u,\"iteration\":%lld,\"shares\":[",
	    found.trials, (long long)found.iteration);
	for (uint32_t i = 0; i < found.count; i++) {
		espl__print(&p->b, i > 0 ? ",[" : "[");
		put_text(&p->b, found.list[i].name);
		espl__print(&p->b, ",%.4g]", found.list[i].share);
	}
	espl__print(&p->b, "]}");
	espl__importances_free(&found);
	return status;
}

static espl_status
put_search(struct page *p, const char *before)
{
	espl__print(&p->b, "%s\n{\"only\":%.0f,\"totals\":", before, p->only);
	put_totals(p);
	if (run_script(p, espl__report_search_sql) != ESPL_OK || put_importance(p) != ESPL_OK)
		return ESPL_E_REMOTE;
	espl__print(&p->b, "}");
	return ESPL_OK;
}

/* The first experiment behind `last`; -1: there is none.  No statement stays open meanwhile. */
static int64_t
find_experiment(struct page *p, int64_t last)
{
	sqlite3_stmt *st = espl__reading_query(p->r,
	    "SELECT id FROM experiments WHERE arrived_s IS NOT NULL AND id > ?1 ORDER BY id", last,
	    -1, p->diag);
	int64_t id = st != NULL && espl__reading_next(p->r, st, NULL) == 1
	    ? sqlite3_column_int64(st, 0)
	    : -1;

	(void)sqlite3_finalize(st);
	return id;
}

/* Of a pool each experiment that has reported, with its own metric and best. */
static espl_status
put_searches(struct page *p)
{
	const char *before = "";
	espl_status status = ESPL_OK;

	if (!espl__reading_pool(p->r))
		return put_search(p, before);
	for (int64_t id = 0; status == ESPL_OK && (id = find_experiment(p, id)) > 0;) {
		p->only = (double)id;
		if (!espl__reading_turn(p->r, id) || p->r->totals.best < 0)
			continue;
		status = put_search(p, before);
		before = ",";
	}
	return status;
}

static espl_status
send_all(struct page *p, const struct espl__report_fixed *fixed, int log_scale)
{
	espl_status status;

	if (sqlite3_create_function(p->r->db, "why", 3, SQLITE_UTF8, p, answer_why, NULL, NULL) !=
	    SQLITE_OK)
		return espl__fail(p->diag, ESPL_E_REMOTE, "cannot read results.db: %s",
		    sqlite3_errmsg(p->r->db));
	espl__print(&p->b, "{\"version\": \"%s\",\"log\":%s,\"running\":%s,\"brackets\":%s,\n",
	    PACKAGE_VERSION, log_scale ? "true" : "false", p->r->running ? "true" : "false",
	    espl__reading_brackets(p->r, 0) ? "true" : "false");
	espl__print(&p->b, "\"totals\":");
	put_totals(p);
	espl__print(&p->b, ",\n\"fixed\":");
	put_fixed(p, fixed);
	status = run_script(p, espl__report_sql);
	if (status == ESPL_OK) {
		espl__print(&p->b, ",\n\"searches\":[");
		status = put_searches(p);
	}
	espl__print(&p->b, "]}\n");
	send_data(p);
	(void)sqlite3_create_function(p->r->db, "why", 3, SQLITE_UTF8, NULL, NULL, NULL, NULL);
	espl__waits_free(p->waits);
	return status;
}

/* ---- the page ----------------------------------------------------------------------------- */

/* Whether this character of UTF-8 is allowed in a page: no controls, no characters that change the
 * text direction (U+202A to 202E, 2066 to 2069), no U+FFFE and FFFF. */
static int
is_plain(const unsigned char *p)
{
	if (espl__utf8_length(p) < 2)
		return (*p >= 0x20 && *p < 0x7f) || *p == '\n';
	return !(p[0] == 0xc2 && p[1] < 0xa0) &&
	    !(p[0] == 0xe2 && p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) &&
	    !(p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9) &&
	    !(p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe);
}

/* Text of the page: escaped, `most` characters of it, without forbidden characters. */
static void
send_text(FILE *to, const char *text, uint32_t most)
{
	const unsigned char *p = (const unsigned char *)(text != NULL ? text : "");
	size_t length;

	for (; *p != '\0' && most > 0; p += length, most--) {
		length = espl__utf8_length(p);
		length = length > 0 ? length : 1;
		if (*p == '<' || *p == '>' || *p == '&')
			(void)fputs(*p == '<' ? "&lt;" : *p == '>' ? "&gt;" : "&amp;", to);
		else if (is_plain(p))
			(void)fwrite(p, 1, length, to);
		else
			(void)fputs("\xef\xbf\xbd", to);
	}
}

/* Up to the mark, which is left out. */
static const char *
send_until(FILE *to, const char *page, const char *mark)
{
	const char *end = strstr(page, mark);

	ESPL__ASSERT(end != NULL);
	(void)fwrite(page, 1, (size_t)(end - page), to);
	return end + strlen(mark);
}

espl_status
espl__report_data(struct espl__reading *r, const struct espl__report_fixed *fixed, int log_scale,
    FILE *to, struct espl__diag *diag)
{
	const struct espl__totals *t = &r->totals;
	struct page p = { .r = r, .diag = diag, .to = to, .fixed_s = NAN, .only = -1 };
	espl_status status;

	ESPL__CHECK(r, READING);
	p.now_s = isfinite(t->jct_s) && t->jct_s > 0 ? t->jct_s : 0;
	if (fixed != NULL && fixed->why_not == NULL)
		p.fixed_s = fixed->jct_s;
	status = send_all(&p, fixed, log_scale);
	espl__buf_free(&p.b);
	return status;
}

espl_status
espl__report_html(struct espl__reading *r, const struct espl__report_fixed *fixed, int log_scale,
    FILE *to, struct espl__diag *diag)
{
	struct espl__buf summary = { NULL, 0, 0 };
	const char *rest;
	espl_status status;

	ESPL__CHECK(r, READING);
	/* The data of a pool end with the totals of its last experiment. */
	espl__totals_text(&r->totals, 1, &summary);
	rest = send_until(to, espl__report_page, "@TITLE@");
	send_text(to, r->totals.experiment, 100);
	rest = send_until(to, rest, "@DATA@");
	status = espl__report_data(r, fixed, log_scale, to, diag);
	rest = send_until(to, rest, "@SUMMARY@");
	send_text(to, espl__buf_text(&summary), TEXT_MAX);
	espl__buf_free(&summary);
	(void)fputs(rest, to);
	return status;
}
