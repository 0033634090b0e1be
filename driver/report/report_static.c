/* report_static.c - the part of the page of `espalier report` that works without scripts.
 *
 * It reads the temporary tables that report.sql made for the data of the page.
 */
#include "report/report_static.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/ids.h"
#include "base/json_value.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#define COLUMNS 12u /* of parameters */

/* ---- text ----------------------------------------------------------------------------------- */

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

/* ---- figures -------------------------------------------------------------------------------- */

#define LEFT 104.0
#define RIGHT 1104.0
#define BOTTOM 180.0
#define LANE 20.0 /* height of a stage or a node */

struct point {
	int color;
	double line, x, y; /* a new line where `line` changes */
};
struct points {
	struct point *list;
	uint32_t count, cap;
};

static void
begin_figure(FILE *to, const char *title, double height)
{
	(void)fprintf(to,
	    "<section><h2>%s</h2><div class=\"scroll\"><svg class=\"still\" role=\"img\" "
	    "viewBox=\"0 0 1120 %.0f\" aria-label=\"%s\">",
	    title, height, title);
}

static void
end_figure(FILE *to, const char *subject, const char *note)
{
	(void)fputs("</svg></div><p class=\"note\">", to);
	espl__report_text(to, subject, 60);
	(void)fprintf(to, "%s</p></section>\n", note);
}

/* The axis below a figure, from 0 to `end`, a time or a number. */
static void
send_axis(FILE *to, double bottom, double end, int is_time)
{
	char text[32];

	(void)snprintf(text, sizeof text, "%.5g", end);
	(void)fprintf(to,
	    "<path class=\"gd\" d=\"M104 10V%.0fH1104\" fill=\"none\"/>"
	    "<text class=\"tm\" x=\"104\" y=\"%.0f\">%s</text>"
	    "<text class=\"vl\" x=\"1104\" y=\"%.0f\">%s</text>",
	    bottom, bottom + 15, is_time ? "0s" : "0", bottom + 15,
	    is_time ? espl__format_seconds(end, text) : text);
}

/* Within the frame, whatever the value. */
static double
scale_to_frame(double value, double low, double high, double from, double to)
{
	double part = high > low ? (value - low) / (high - low) : 0.5;

	return from + (to - from) * (part > 0 ? fmin(1, part) : 0);
}

/* The rows color, line, x, y of a query in which ?1 is 1 to minimize, -1 to maximize. */
static espl_status
read_points(struct espl__reading *r, const char *sql, struct points *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, sql, -1, -1, diag);
	int more = -1;

	(void)sqlite3_bind_int(st, 1, r->totals.maximize ? -1 : 1); /* where there is ?1 */

	while (st != NULL && (more = espl__reading_next(r, st, diag)) == 1) {
		ESPL__GROW(to->list, to->cap, to->count + 1);
		to->list[to->count++] =
		    (struct point){ sqlite3_column_int(st, 0), sqlite3_column_double(st, 1),
			    sqlite3_column_double(st, 2), sqlite3_column_double(st, 3) };
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* Steps until `end`; 0: curves, up to the largest x. */
static void
send_lines(const struct points *p, double end, FILE *to)
{
	double low = p->list[0].y, high = low, furthest = end;

	for (uint32_t i = 0; i < p->count; i++) {
		low = fmin(low, p->list[i].y);
		high = fmax(high, p->list[i].y);
		furthest = fmax(furthest, p->list[i].x);
	}
	send_axis(to, BOTTOM, furthest, end > 0);
	(void)fprintf(to,
	    "<text class=\"vl\" x=\"97\" y=\"14\">%.5g</text>"
	    "<text class=\"vl\" x=\"97\" y=\"180\">%.5g</text>",
	    high, low);
	for (uint32_t i = 0; i < p->count; i++) {
		double x = scale_to_frame(p->list[i].x, 0, furthest, LEFT, RIGHT);
		double y = scale_to_frame(p->list[i].y, low, high, BOTTOM, 10);

		if (i == 0 || p->list[i].line != p->list[i - 1].line)
			(void)fprintf(to, "%s<g class=\"cv s%d\"><path d=\"M%.1f %.1fh1",
			    i > 0 ? "\"/></g>" : "", p->list[i].color, x, y);
		else if (end > 0)
			(void)fprintf(to, "H%.1fV%.1f", x, y);
		else
			(void)fprintf(to, "L%.1f %.1f", x, y);
	}
	(void)fputs(end > 0 ? "H1104\"/></g>" : "\"/></g>", to);
}

static espl_status
send_figure(struct espl__reading *r, const char *title, const char *sql, double end,
    const char *note, FILE *to, struct espl__diag *diag)
{
	struct points points = { NULL, 0, 0 };
	espl_status status = read_points(r, sql, &points, diag);

	if (points.count > 0) {
		begin_figure(to, title, 200);
		send_lines(&points, end, to);
		end_figure(to, r->totals.metric, note);
	}
	free(points.list);
	return status;
}

/* ---- stages and nodes ------------------------------------------------------------------------ */

/* Bars in lanes: first the stages (of a pool its experiments), then the nodes with their trials. */
static const char bars_sql[] =
    "WITH lane AS (SELECT s.n - 1 AS lane, abs(s.number) % 8 AS color, CASE s.kind"
    "  WHEN 'pool' THEN ifnull(s.name, 'plain jobs') WHEN 'declared' THEN 'stage ' || s.number"
    "  ELSE 'up to ' || s.key END AS name, ifnull(s.begun_s, w.from_s) AS from_s,"
    "  CASE s.kind WHEN 'budget' THEN w.until_s ELSE ifnull(s.ended_s, now) END AS until_s"
    " FROM stage s LEFT JOIN (SELECT stage, min(from_s) AS from_s, max(until_s) AS until_s"
    "  FROM work GROUP BY stage) w ON w.stage = s.n, fact ORDER BY s.n LIMIT 24),"
    " first AS (SELECT count(*) AS node FROM lane)"
    " SELECT lane, name, color, 0.0, 1.0, from_s, until_s, NULL FROM lane WHERE from_s <= until_s"
    " UNION ALL SELECT first.node + n, 'node ' || id, -1, 0.0, 1.0, ready_s, ifnull(ended_s, now),"
    "  NULL FROM machine, first, fact WHERE n < 24 AND ready_s <= ifnull(ended_s, now)"
    " UNION ALL SELECT first.node + t.node, NULL, ifnull(abs(s.number), 0) % 8,"
    "  1.0 * t.gpu / m.gpus, 1.0 / m.gpus, w.from_s, w.until_s, p.trial"
    "  FROM layout, first, work w JOIN seat t USING (gang, number) JOIN stay p USING (gang, number)"
    "  JOIN machine m ON m.n = t.node LEFT JOIN stage s ON s.n = w.stage"
    "  WHERE row > 0 AND bars <= 3000 AND t.node < 24"
    " ORDER BY 1, 8, 6, 4, 7"; /* a node before its trials */

static void
send_bar(sqlite3_stmt *st, double end, FILE *to)
{
	double y = 10 + LANE * sqlite3_column_double(st, 0), height = LANE - 4;
	double from = scale_to_frame(sqlite3_column_double(st, 5), 0, end, LEFT, RIGHT);
	double until = scale_to_frame(sqlite3_column_double(st, 6), 0, end, LEFT, RIGHT);
	int color = sqlite3_column_int(st, 2);
	char class[8] = "rd", name[48];

	if (color >= 0)
		(void)snprintf(class, sizeof class, "s%d", color % 8);
	(void)fprintf(to,
	    "<g><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", class,
	    from, y + height * sqlite3_column_double(st, 3), fmax(0.5, until - from),
	    fmax(0.5, height * sqlite3_column_double(st, 4) - 0.3));
	if (sqlite3_column_type(st, 1) != SQLITE_NULL) {
		(void)fprintf(to, "<text class=\"vl\" x=\"97\" y=\"%.1f\">", y + 12);
		espl__report_text(to, (const char *)sqlite3_column_text(st, 1), 16);
		(void)fputs("</text>", to);
	}
	if (sqlite3_column_type(st, 7) != SQLITE_NULL)
		(void)fprintf(to, "<title>trial %s</title>",
		    espl__trial_name((uint64_t)sqlite3_column_int64(st, 7), name));
	(void)fputs("</g>", to);
}

static espl_status
send_bars(struct espl__reading *r, double end, FILE *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, bars_sql, -1, -1, diag);
	double lanes = 0;
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	while ((more = espl__reading_next(r, st, diag)) == 1)
		lanes = fmax(lanes, sqlite3_column_double(st, 0) + 1);
	if (more == 0 && lanes > 0) {
		(void)sqlite3_reset(st);
		begin_figure(to, "Stages, nodes and trials", 10 + LANE * lanes + 20);
		while ((more = espl__reading_next(r, st, diag)) == 1)
			send_bar(st, end, to);
		send_axis(to, 10 + LANE * lanes, end, 1);
		end_figure(to, "", "A bar is a stage, or a trial on a node.");
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- the best trials ------------------------------------------------------------------------ */

static void
send_cell(const json_t *value, FILE *to)
{
	struct espl__buf text = { NULL, 0, 0 };
	int words = value != NULL && !json_is_number(value) && !json_is_boolean(value);

	(void)fputs(words ? "<td class=\"w\">" : "<td>", to);
	if (value != NULL)
		espl__json_value_text(value, &text);
	espl__report_text(to, espl__buf_text(&text), 60);
	(void)fputs("</td>", to);
	espl__buf_free(&text);
}

static void
send_trial(sqlite3_stmt *st, const struct espl__names *names, int priced, FILE *to)
{
	const char *text = (const char *)sqlite3_column_text(st, 5);
	json_t *params = text != NULL ? json_loads(text, 0, NULL) : NULL;
	char usd[32];

	(void)fprintf(to, "<tr><td>%lld</td><td class=\"w\">", sqlite3_column_int64(st, 0));
	espl__report_text(to, (const char *)sqlite3_column_text(st, 1), 20);
	(void)fprintf(to, "</td><td>%lld</td><td>", sqlite3_column_int64(st, 2));
	if (sqlite3_column_type(st, 3) != SQLITE_NULL)
		(void)fprintf(to, "%.6g", sqlite3_column_double(st, 3));
	(void)fputs("</td>", to);
	if (priced)
		(void)fprintf(to, "<td>%s</td>",
		    espl__format_usd(sqlite3_column_double(st, 4), usd));
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
	(void)fputs(t->cost_usd > 0 ? "</th><th>cost</th>" : "</th>", to);
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
	struct espl__names names = { 0 };
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT id, state, iteration, metric, cost_usd, params FROM ranked"
	    " ORDER BY rank LIMIT 20",
	    -1, -1, diag);
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	while ((more = espl__reading_next(r, st, diag)) == 1)
		add_names(st, &names);
	if (more == 0) {
		send_heads(&r->totals, &names, to);
		(void)sqlite3_reset(st);
		while ((more = espl__reading_next(r, st, diag)) == 1)
			send_trial(st, &names, r->totals.cost_usd > 0, to);
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

/* ---- a pool ---------------------------------------------------------------------------------- */

static espl_status
send_members(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT CASE WHEN job THEN 'job' ELSE 'experiment' END, name,"
	    " status || ifnull(': ' || substr(text, 1, 300), ''), arrived_s, "
	    "ended_s,"
	    " gpu_s FROM member ORDER BY job, id",
	    -1, -1, diag);
	char text[32];
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	(void)fputs("<section><h2>Experiments and jobs</h2><div class=\"scroll\"><table><thead><tr>"
		    "<th class=\"w\">kind</th><th class=\"w\">name</th><th class=\"w\">state</th>"
		    "<th>arrived</th><th>ended</th><th>time used</th></tr></thead><tbody>\n",
	    to);
	while ((more = espl__reading_next(r, st, diag)) == 1) {
		(void)fputs("<tr>", to);
		for (int i = 0; i < 3; i++) {
			(void)fputs("<td class=\"w\">", to);
			espl__report_text(to, (const char *)sqlite3_column_text(st, i),
			    i == 2 ? 300 : 60);
			(void)fputs("</td>", to);
		}
		for (int i = 3; i < 6; i++)
			if (sqlite3_column_type(st, i) == SQLITE_NULL)
				(void)fputs("<td>-</td>", to);
			else
				(void)fprintf(to, "<td>%s</td>",
				    espl__format_seconds(sqlite3_column_double(st, i), text));
		(void)fputs("</tr>\n", to);
	}
	(void)fputs("</tbody></table></div></section>\n", to);
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__report_static(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	static const char history[] =
	    "SELECT 0, 0, at_s, metric FROM improvements WHERE abs(metric) < 1e300"
	    " ORDER BY at_s, ?1 * metric DESC, trial, iteration";
	static const char curves[] =
	    "SELECT rank % 8, rank, r.iteration, r.metric FROM ranked t JOIN reports r"
	    " ON r.trial = t.id WHERE rank < 20 AND abs(r.metric) < 1e300 AND r.iteration >= 0"
	    " AND r.iteration % (t.iteration / 200 + 1) = 0 ORDER BY rank, r.iteration";
	double end = r->totals.jct_s;
	espl_status status;

	end = isfinite(end) && end > 0 ? end : 1;
	if (espl__reading_pool(r)) {
		status = send_bars(r, end, to, diag);
		return status == ESPL_OK ? send_members(r, to, diag) : status;
	}
	status = send_figure(r, "Best value so far", history, end, " over time, at any iteration.",
	    to, diag);
	if (status == ESPL_OK)
		status = send_figure(r, "Learning curves", curves, 0,
		    " against the iteration, of the best trials.", to, diag);
	if (status == ESPL_OK)
		status = send_bars(r, end, to, diag);
	return status == ESPL_OK ? send_trials(r, to, diag) : status;
}
