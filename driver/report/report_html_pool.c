/* report_html_pool.c - a pool over time: for each experiment and each plain job when it came, how
 * long it waited and why, and on how many GPUs it trained.
 */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#include "report/waits.h"

#define ROWS_MAX 200u /* of them that are drawn; the table lists as many */
#define WHY_MAX 400u  /* characters */
#define ROW_HEIGHT 14.0
#define TOP 22.0

struct step {
	double at_s;
	double gpus;
};
struct row {
	const char *name, *status;
	double arrived_s, ended_s; /* NaN: not yet */
	double queued_s;           /* until it had its first GPU; NaN: it has none yet */
	const char *why;           /* it waited; "": it did not */
	double most, gpu_s;        /* GPUs at once; their time */
	int64_t id;
	struct step *steps;
	uint32_t count, cap;
	int job;
};
struct pool {
	struct row *rows;
	uint32_t count, cap, left_out;
	double most;
};

/* At `at_s` the number of its GPUs changes by this; steps are in order of time. */
static void
add_step(struct row *row, double at_s, double more)
{
	double before = row->count > 0 ? row->steps[row->count - 1].gpus : 0;

	if (row->count > 0 && !(row->steps[row->count - 1].at_s < at_s)) {
		row->steps[row->count - 1].gpus = before + more;
	} else {
		ESPL__GROW(row->steps, row->cap, row->count + 1);
		row->steps[row->count++] = (struct step){ at_s, before + more };
	}
	if (isnan(row->queued_s))
		row->queued_s = at_s - row->arrived_s;
	if (row->steps[row->count - 1].gpus > row->most)
		row->most = row->steps[row->count - 1].gpus;
}

/* Both statements tell (at, more GPUs) of one experiment or job, in order of time. */
static const char experiment_sql[] =
    "SELECT starting_s AS at, gpus * 1.0 / packing FROM gangs WHERE trial >> 40 = ?1 UNION ALL"
    " SELECT ended_s, -gpus * 1.0 / packing FROM gangs WHERE trial >> 40 = ?1 AND ended_s IS NOT "
    "NULL ORDER BY 1, 2";
/* Its gang may have been resized in place: reports tell on how many GPUs each iteration was
 * trained. */
static const char job_sql[] =
    "SELECT at, gpus - coalesce(lag(gpus) OVER (ORDER BY at, n), 0) FROM ("
    " SELECT starting_s AS at, gpus, 1 AS n FROM gangs WHERE trial = ?1 UNION ALL"
    " SELECT ended_s, 0, 0 FROM gangs WHERE trial = ?1 AND ended_s IS NOT NULL UNION ALL"
    " SELECT at_s, gpus, 2 FROM reports WHERE trial = ?1 AND EXISTS (SELECT 1 FROM gangs g WHERE "
    "g.trial = ?1"
    " AND g.starting_s <= at_s AND (g.ended_s IS NULL OR g.ended_s > at_s))) ORDER BY at, n";

static espl_status
load_steps(struct espl__html *h, struct row *row, int64_t id)
{
	sqlite3_stmt *st =
	    espl__reading_query(h->r, row->job ? job_sql : experiment_sql, id, -1, h->diag);
	double more;
	int got;

	if (st == NULL)
		return ESPL_E_REMOTE;
	while ((got = espl__reading_next(h->r, st, h->diag)) == 1) {
		more = espl__reading_real(st, 1);
		if (isfinite(more) && (more > 0 || more < 0))
			add_step(row, espl__reading_real(st, 0), more);
	}
	(void)sqlite3_finalize(st);
	return got < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* So long it waited for its first GPU, or does yet. */
static double
waited_seconds(const struct espl__html *h, const struct row *row)
{
	return isfinite(row->queued_s)
	    ? row->queued_s
	    : (isfinite(row->ended_s) ? row->ended_s : h->now_s) - row->arrived_s;
}

static void
load_why(struct espl__html *h, const struct espl__waits *w, struct row *row)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__wait wait;

	espl__waits_first(w, row->job ? ESPL__WAITS_JOB(row->id) : ESPL__WAITS_EXPERIMENT(row->id),
	    row->arrived_s, isfinite(row->ended_s) ? row->ended_s : h->now_s, &wait);
	espl__wait_text(&wait, &text);
	row->why = espl__arena_strdup(&h->arena, espl__buf_text(&text));
	espl__buf_free(&text);
}

static espl_status
load_rows(struct espl__html *h, struct pool *p, const char *sql, int job)
{
	sqlite3_stmt *st = espl__reading_query(h->r, sql, -1, -1, h->diag);
	espl_status status = ESPL_OK;
	int got = 0;

	if (st == NULL)
		return ESPL_E_REMOTE;
	while (status == ESPL_OK && (got = espl__reading_next(h->r, st, h->diag)) == 1) {
		struct row *row;

		if (p->count == ROWS_MAX) {
			p->left_out++;
			continue;
		}
		ESPL__GROW(p->rows, p->cap, p->count + 1);
		row = &p->rows[p->count++];
		memset(row, 0, sizeof *row);
		row->job = job;
		row->id = sqlite3_column_int64(st, 0);
		row->gpu_s = espl__reading_real(st, 5);
		row->name = espl__arena_strdup(&h->arena, (const char *)sqlite3_column_text(st, 1));
		row->status =
		    espl__arena_strdup(&h->arena, (const char *)sqlite3_column_text(st, 2));
		row->arrived_s = espl__reading_real(st, 3);
		row->ended_s = espl__reading_real(st, 4);
		row->queued_s = NAN;
		row->why = "";
		if (isfinite(row->arrived_s))
			status = load_steps(h, row, sqlite3_column_int64(st, 0));
		p->most = row->most > p->most ? row->most : p->most;
	}
	(void)sqlite3_finalize(st);
	return status != ESPL_OK ? status : got < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- drawing ------------------------------------------------------------------------------ */

static void
draw_row(struct espl__html *h, const struct espl__html_axis *a, const struct pool *p,
    const struct row *row, double y)
{
	double end_s = isfinite(row->ended_s) ? row->ended_s : h->now_s,
	       from = espl__html_at(a, row->arrived_s);
	char waits[32];

	espl__print(&h->b,
	    "<g class=\"gang\"><title>%s %lld: ", row->job ? "plain job" : "experiment",
	    (long long)row->id);
	espl__html_text(&h->b, row->name, 60);
	espl__print(&h->b, ", %s&#10;waited %s%s", row->status,
	    espl__html_seconds(waited_seconds(h, row), waits), row->why[0] != '\0' ? ": " : "");
	espl__html_text(&h->b, row->why, WHY_MAX);
	espl__print(&h->b, "&#10;on up to %.4g %s</title>", row->most,
	    espl__html_unit(h, row->most > 1 || row->most < 1 ? 2 : 1));
	espl__html_rect(&h->b, "rq", from, y + 1, espl__html_at(a, end_s) - from, ROW_HEIGHT - 3);
	for (uint32_t i = 0; i < row->count; i++) {
		double to_s = i + 1 < row->count ? row->steps[i + 1].at_s : end_s;
		double height = row->steps[i].gpus / p->most * (ROW_HEIGHT - 3),
		       x = espl__html_at(a, row->steps[i].at_s);

		if (row->steps[i].gpus > 0 && to_s > row->steps[i].at_s)
			espl__html_rect(&h->b, row->job ? "s2" : "s0", x,
			    y + ROW_HEIGHT - 2 - height, espl__html_at(a, to_s) - x, height);
	}
	espl__print(&h->b, "<text class=\"ln\" x=\"%.1f\" y=\"%.1f\">", ESPL__HTML_LEFT - 6,
	    y + ROW_HEIGHT - 4);
	espl__html_text(&h->b, row->name, 16);
	espl__print(&h->b, "</text></g>\n");
}

static void
draw_timeline(struct espl__html *h, const struct pool *p)
{
	struct espl__html_axis a = espl__html_time(h);
	double bottom = TOP + p->count * ROW_HEIGHT;

	espl__print(&h->b, "<section><h2>Experiments and jobs</h2>\n");
	espl__html_open(&h->b, bottom + 18,
	    "Arrival of each experiment and job, and its resources over time");
	espl__html_time_grid(&h->b, &a, TOP - 4, bottom);
	for (uint32_t i = 0; i < p->count; i++)
		if (isfinite(p->rows[i].arrived_s))
			draw_row(h, &a, p, &p->rows[i], TOP + i * ROW_HEIGHT);
	espl__print(&h->b,
	    "</svg></div>\n"
	    "<p class=\"axis\">A frame spans the time from arrival to end; the filled part shows "
	    "its %s, with the full height being %.4g.",
	    UNITS(h), p->most);
	if (p->left_out > 0)
		espl__print(&h->b, " %u more are omitted.", (unsigned)p->left_out);
	espl__print(&h->b, "</p></section>\n");
}

static void
list_row(struct espl__html *h, const struct row *row)
{
	struct espl__buf *b = &h->b;
	char t[32];

	espl__print(b, "<tr><td>%lld</td><td class=\"w\">", (long long)row->id);
	espl__html_text(b, row->name, 60);
	espl__print(b, "</td><td class=\"w\">");
	espl__html_text(b, row->status, 12);
	espl__print(b, "</td><td>%s</td>", espl__html_seconds(row->arrived_s, t));
	espl__print(b, "<td>%s</td><td class=\"w\">",
	    espl__html_seconds(waited_seconds(h, row), t));
	espl__html_text(b, row->why, WHY_MAX);
	espl__print(b, "</td><td>%s</td>", espl__html_seconds(row->ended_s, t));
	espl__print(b, "<td>%s</td><td>%.4g</td>",
	    espl__html_seconds(row->ended_s - row->arrived_s, t), row->most);
	espl__print(b, "<td>%s</td></tr>\n", espl__html_seconds(row->gpu_s, t));
}

/* How long each plain job waited and trained; of experiments only where one waited. */
static void
write_table(struct espl__html *h, const struct pool *p, int job)
{
	int any = 0;

	for (uint32_t i = 0; i < p->count; i++)
		any |= p->rows[i].job == job && (job || p->rows[i].why[0] != '\0');
	if (!any)
		return;
	espl__print(&h->b,
	    "<section><h2>%s</h2>\n"
	    "<div class=\"scroll\"><table><thead><tr><th>%s</th><th class=\"w\">%s</th><th "
	    "class=\"w\">state</th><th>arrived</th><th>waited</th><th "
	    "class=\"w\">why</th><th>ended</th><th>took</th><th>peak %s</th><th>%s "
	    "time</th></tr></thead>\n"
	    "<tbody>\n",
	    job ? "Plain jobs" : "Waiting times of experiments", job ? "trial" : "number",
	    job ? "job" : "experiment", UNITS(h), UNIT(h));
	for (uint32_t i = 0; i < p->count; i++)
		if (p->rows[i].job == job)
			list_row(h, &p->rows[i]);
	espl__print(&h->b, "</tbody></table></div>\n");
	if (p->left_out > 0)
		espl__print(&h->b,
		    "<p class=\"note\">Only the first are shown. For all, use espalier export DIR "
		    "--format csv --table %s</p>\n",
		    job ? "jobs" : "experiments");
	espl__print(&h->b, "</section>\n");
}

/* What belongs to one experiment alone, whose metric is its own. */
void
espl__html_heading(struct espl__html *h, const char *what)
{
	espl__print(&h->b, "<section><h2>%s", what);
	if (h->only >= 0) {
		espl__print(&h->b, " of ");
		espl__html_text(&h->b, h->r->totals.experiment, 60);
		espl__print(&h->b, " (experiment %lld)", (long long)h->only);
	}
	espl__print(&h->b, "</h2>\n");
}

espl_status
espl__html_each_search(struct espl__html *h, espl_status (*part)(struct espl__html *))
{
	espl_status status = ESPL_OK;

	if (!h->pool)
		return part(h);
	for (uint32_t i = 0; i < h->stage_count && status == ESPL_OK; i++) {
		h->only = h->stages[i].number;
		if (h->only > 0 && espl__reading_turn(h->r, h->only) && h->r->totals.best >= 0)
			status = part(h);
	}
	h->only = -1;
	return status;
}

espl_status
espl__html_pool(struct espl__html *h)
{
	struct pool p = { NULL, 0, 0, 0, 0 };
	struct espl__waits *waits = NULL;
	espl_status status = load_rows(h, &p,
	    "SELECT id, name, status, arrived_s, ended_s, gpu_s FROM experiments"
	    " WHERE arrived_s IS NOT NULL ORDER BY id",
	    0);

	if (status == ESPL_OK)
		status = load_rows(h, &p,
		    "SELECT id, name, status, arrived_s, ended_s, (SELECT gpu_s FROM trials t "
		    "WHERE t.id = jobs.id) FROM jobs"
		    " WHERE arrived_s IS NOT NULL ORDER BY id",
		    1);
	if (status == ESPL_OK && p.count > 0)
		status = espl__waits_open(h->r, &waits, h->diag);
	for (uint32_t i = 0; waits != NULL && i < p.count; i++)
		load_why(h, waits, &p.rows[i]);
	espl__waits_free(waits);
	if (status == ESPL_OK && p.count > 0 && p.most > 0)
		draw_timeline(h, &p);
	if (status == ESPL_OK) {
		write_table(h, &p, 0);
		write_table(h, &p, 1);
	}
	for (uint32_t i = 0; i < p.count; i++)
		free(p.rows[i].steps);
	free(p.rows);
	return status;
}
