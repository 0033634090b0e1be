/* report_static.c - what the page of `espalier report` shows without scripts: a figure, a table. */
#include "report/report_static.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

#define COLUMNS 12u /* of parameters */

/* ---- text ----------------------------------------------------------------------------------- */

/* May this character of UTF-8 stand in a page?  Not controls, what turns the direction of its
 * neighbors (U+202A to 202E, 2066 to 2069), U+FFFE and FFFF. */
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

void
espl__report_text(FILE *to, const char *text, uint32_t most)
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

/* ---- the best value so far ------------------------------------------------------------------ */

struct point {
	double at_s, metric;
};
struct points {
	struct point *list;
	uint32_t count, cap;
};

static espl_status
read_history(struct espl__reading *r, struct points *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT at_s, ?1 * loss FROM (SELECT at_s, ?1 * metric AS loss, trial, iteration,"
	    "  min(?1 * metric) OVER (ORDER BY at_s, trial, iteration"
	    "   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
	    "  FROM reports WHERE abs(metric) < 1e300)"
	    " WHERE before IS NULL OR loss < before ORDER BY at_s, trial, iteration",
	    -1, -1, diag);
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	(void)sqlite3_bind_int(st, 1, r->totals.maximize ? -1 : 1);
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		ESPL__GROW(to->list, to->cap, to->count + 1);
		to->list[to->count++] =
		    (struct point){ sqlite3_column_double(st, 0), sqlite3_column_double(st, 1) };
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* Within the frame, whatever the value. */
static double
place(double value, double low, double high, double from, double to)
{
	double part = high > low ? (value - low) / (high - low) : 0.5;

	return from + (to - from) * (part > 0 ? fmin(1, part) : 0);
}

static void
send_history(const struct espl__totals *t, const struct points *p, FILE *to)
{
	double end = isfinite(t->jct_s) && t->jct_s > 0 ? t->jct_s : 1;
	double first = p->list[0].metric, last = p->list[p->count - 1].metric;
	double low = fmin(first, last), high = fmax(first, last);

	(void)fputs("<section><h2>Best value so far</h2><div class=\"scroll\"><svg role=\"img\" "
		    "viewBox=\"0 0 1120 200\" aria-label=\"The best value so far over time\">",
	    to);
	(void)fprintf(to,
	    "<path class=\"gd\" d=\"M104 10V180H1104\" fill=\"none\"/>"
	    "<text class=\"vl\" x=\"97\" y=\"14\">%.5g</text>"
	    "<text class=\"vl\" x=\"97\" y=\"180\">%.5g</text>"
	    "<text class=\"tm\" x=\"104\" y=\"195\">0s</text>"
	    "<text class=\"vl\" x=\"1104\" y=\"195\">%.5gs</text>"
	    "<path class=\"lr\" d=\"",
	    high, low, end);
	for (uint32_t i = 0; i < p->count; i++) {
		double x = place(p->list[i].at_s, 0, end, 104, 1104);
		double y = place(p->list[i].metric, low, high, 180, 10);

		if (i == 0)
			(void)fprintf(to, "M%.1f %.1f", x, y);
		else
			(void)fprintf(to, "H%.1fV%.1f", x, y);
	}
	(void)fputs("H1104\"/></svg></div><p class=\"note\">", to);
	espl__report_text(to, t->metric, 60);
	(void)fputs(" over time, at any iteration.</p></section>\n", to);
}

/* ---- the foremost trials -------------------------------------------------------------------- */

static void
send_cell(const json_t *value, FILE *to)
{
	const char *text = json_string_value(value);

	(void)fputs(text != NULL ? "<td class=\"w\">" : "<td>", to);
	if (text != NULL)
		espl__report_text(to, text, 60);
	else if (json_is_boolean(value))
		(void)fputs(json_is_true(value) ? "true" : "false", to);
	else if (json_is_number(value))
		(void)fprintf(to, "%.6g", json_number_value(value));
	(void)fputs("</td>", to);
}

static void
send_trial(sqlite3_stmt *st, const struct espl__names *names, FILE *to)
{
	const char *text = (const char *)sqlite3_column_text(st, 5);
	json_t *params = text != NULL ? json_loads(text, 0, NULL) : NULL;

	(void)fprintf(to, "<tr><td>%lld</td><td class=\"w\">", sqlite3_column_int64(st, 0));
	espl__report_text(to, (const char *)sqlite3_column_text(st, 1), 20);
	(void)fprintf(to, "</td><td>%lld</td><td>", sqlite3_column_int64(st, 2));
	if (sqlite3_column_type(st, 3) != SQLITE_NULL)
		(void)fprintf(to, "%.6g", sqlite3_column_double(st, 3));
	(void)fprintf(to, "</td><td>$%.2f</td>", sqlite3_column_double(st, 4));
	for (uint32_t i = 0; i < names->count && i < COLUMNS; i++)
		send_cell(json_object_get(params, names->names[i]), to);
	(void)fputs("</tr>\n", to);
	json_decref(params);
}

static void
add_names(sqlite3_stmt *st, struct espl__names *names)
{
	const char *text = (const char *)sqlite3_column_text(st, 5), *name;
	json_t *params = text != NULL ? json_loads(text, 0, NULL) : NULL, *value;

	json_object_foreach (params, name, value)
		(void)espl__names_add(names, name);
	json_decref(params);
}

static void
send_heads(const struct espl__totals *t, const struct espl__names *names, FILE *to)
{
	(void)fputs("<section><h2>Foremost trials</h2><div class=\"scroll\"><table><thead><tr>"
		    "<th>trial</th><th class=\"w\">state</th><th>iterations</th><th>",
	    to);
	espl__report_text(to, t->metric, 40);
	(void)fputs("</th><th>cost</th>", to);
	for (uint32_t i = 0; i < names->count && i < COLUMNS; i++) {
		(void)fputs("<th>", to);
		espl__report_text(to, names->names[i], 40);
		(void)fputs("</th>", to);
	}
	(void)fputs("</tr></thead><tbody>\n", to);
}

static espl_status
send_trials(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	struct espl__names names = { NULL, 0, 0 };
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT id, state, iteration, metric, cost_usd, params FROM trials"
	    " ORDER BY id = ?2 DESC, iteration DESC, metric IS NULL, ?1 * metric, id LIMIT 20",
	    -1, r->totals.best, diag);
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	(void)sqlite3_bind_int(st, 1, r->totals.maximize ? -1 : 1);
	while ((more = espl__reading_next(r, st, diag)) == 1)
		add_names(st, &names);
	if (more == 0) {
		send_heads(&r->totals, &names, to);
		(void)sqlite3_reset(st);
		while ((more = espl__reading_next(r, st, diag)) == 1)
			send_trial(st, &names, to);
		(void)fputs("</tbody></table></div>", to);
		if (names.count > COLUMNS)
			(void)fprintf(to, "<p class=\"note\">The first %u of %u parameters.</p>",
			    COLUMNS, names.count);
		(void)fputs("</section>\n", to);
	}
	(void)sqlite3_finalize(st);
	espl__names_free(&names);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__report_static(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	struct points points = { NULL, 0, 0 };
	espl_status status;

	if (espl__reading_pool(r))
		return ESPL_OK;
	status = read_history(r, &points, diag);
	if (status == ESPL_OK && points.count > 0)
		send_history(&r->totals, &points, to);
	if (status == ESPL_OK)
		status = send_trials(r, to, diag);
	free(points.list);
	return status;
}
