/* report_html_tables.c - the tables of the page: stages, the foremost trials, what went wrong. */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define TRIALS_MAX 50u
#define STAGES_MAX 100u
#define TROUBLE_MAX 20

/* ---- stages ------------------------------------------------------------------------------- */

static void
write_cell(struct espl__buf *b, const char *classes, const char *text)
{
	if (classes != NULL)
		espl__print(b, "<td class=\"%s\">%s</td>", classes, text);
	else
		espl__print(b, "<td>%s</td>", text);
}

static void
count_cell(struct espl__buf *b, int64_t n)
{
	espl__print(b, "<td>%lld</td>", (long long)n);
}

/* From when, until when, how long, for how much. */
static void
span_cells(struct espl__buf *b, double from, double to, double usd, int shared)
{
	char t[32];

	write_cell(b, NULL, espl__html_seconds(from, t));
	write_cell(b, NULL, espl__html_seconds(to, t));
	write_cell(b, NULL, espl__html_seconds(to - from, t));
	espl__print(b, "<td>%s%s</td></tr>\n", espl__html_money(usd, t),
	    shared && isfinite(usd) ? " *" : "");
}

static void
plan_line(struct espl__html *h, const struct espl__html_row *r, const char *what)
{
	struct espl__buf *b = &h->b;

	espl__print(b, "<tr class=\"pr\"><td></td><td class=\"w\">%s</td>", what);
	count_cell(b, r->trials);
	count_cell(b, r->iterations);
	count_cell(b, r->gpus_per_trial);
	espl__print(b, "<td>%lld</td>", (long long)r->nodes);
	span_cells(b, r->starts_s, r->ends_s, r->cost_usd, 0);
}

/* What a trial of this stage trains, beyond the stage before. */
static int64_t
stage_iterations(const struct espl__html *h, uint32_t stage)
{
	int64_t before = 0;
	uint32_t i;

	for (i = 0; i < h->stage_count; i++)
		if (h->stages[i].bracket == h->stages[stage].bracket &&
		    h->stages[i].budget < h->stages[stage].budget && h->stages[i].budget > before)
			before = h->stages[i].budget;
	return h->stages[stage].budget - before;
}

static void
gpus_cell(struct espl__buf *b, const struct espl__html_stage *s)
{
	if (s->gpus_least == 0)
		write_cell(b, NULL, "-");
	else if (s->packing > 1 && s->gpus_most == 1)
		espl__print(b, "<td>1/%u</td>", (unsigned)s->packing);
	else if (s->gpus_least == s->gpus_most)
		count_cell(b, s->gpus_most);
	else
		espl__print(b, "<td>%u\xe2\x80\x93%u</td>", (unsigned)s->gpus_least,
		    (unsigned)s->gpus_most);
}

static void
stage_lines(struct espl__html *h, uint32_t stage)
{
	const struct espl__html_stage *s = &h->stages[stage];
	const struct espl__html_row *first, *last;
	struct espl__buf *b = &h->b;

	espl__print(b, "<tr class=\"sg\"><td class=\"w\"><i class=\"s%u\"></i>",
	    (unsigned)espl__html_colour(h, stage));
	espl__html_stage_name(h, stage, b);
	if (s->name != NULL) {
		espl__print(b, " ");
		espl__html_text(b, s->name, 40);
	}
	espl__print(b, "</td><td class=\"w\">%s</td>",
	    isnan(s->ended_s) && h->r->running ? "so far" : "actual");
	count_cell(b, (int64_t)s->trials);
	count_cell(b, stage_iterations(h, stage));
	gpus_cell(b, s);
	count_cell(b, s->nodes);
	span_cells(b, s->begun_s, isnan(s->ended_s) ? h->now_s : s->ended_s, s->cost_usd,
	    s->shared);
	if (h->plan_count == 0)
		return;
	first = espl__html_planned(h, 0, s->bracket, s->number);
	last = espl__html_planned(h, ESPL__HTML_LAST, s->bracket, s->number);
	if (first != NULL)
		plan_line(h, first, h->plan_count > 1 ? "first plan" : "plan");
	if (last != NULL)
		plan_line(h, last, "re-planned");
}

/* Planned stages that have not started (the run ended before, or is still running). */
static void
stages_to_come(struct espl__html *h)
{
	uint32_t plan = h->plan_count - 1, i, k;

	for (i = 0; i < h->plans[plan].row_count; i++) {
		const struct espl__html_row *r = &h->rows[h->plans[plan].row + i];

		for (k = 0; k < h->stage_count; k++)
			if (h->stages[k].number == r->stage && h->stages[k].bracket == r->bracket)
				break;
		if (k < h->stage_count || i >= STAGES_MAX)
			continue;
		espl__print(&h->b, "<tr class=\"sg\"><td class=\"w\">");
		espl__html_row_name(h, r->bracket, r->stage, &h->b);
		espl__print(&h->b, "</td><td class=\"w\" colspan=\"9\">did not start%s</td></tr>\n",
		    h->r->running ? " yet" : "");
		plan_line(h, r, plan > 0 ? "re-planned" : "plan");
	}
}

void
espl__html_stages(struct espl__html *h)
{
	struct espl__buf *b = &h->b;
	uint32_t i;
	int shared = 0;

	if (h->stage_count == 0)
		return;
	espl__print(b,
	    "<section><h2>%s</h2>\n"
	    "<div class=\"scroll\"><table class=\"stages\"><thead><tr><th "
	    "class=\"w\">%s</th><th></th><th>trials</th><th>iterations</th><th>%s per "
	    "trial</th><th>nodes</th><th>start</th><th>end</th><th>took</th><th>cost</th></tr></"
	    "thead>\n"
	    "<tbody>\n",
	    h->pool                 ? "Use by experiment"
		: h->plan_count > 0 ? "Stages: plan and actual"
				    : "Stages",
	    h->pool ? "experiment" : "stage", UNITS(h));
	for (i = 0; i < h->stage_count && i < STAGES_MAX; i++) {
		stage_lines(h, i);
		shared |= h->stages[i].shared;
	}
	if (h->plan_count > 0)
		stages_to_come(h);
	espl__print(b, "</tbody></table></div>\n");
	if (h->stage_count > STAGES_MAX)
		espl__print(b, "<p class=\"note\">Showing the first %u of %u stages.</p>\n",
		    STAGES_MAX, (unsigned)h->stage_count);
	if (h->plan_count > 0)
		espl__print(b,
		    "<p class=\"note\">The actual cost of a stage is its share of the nodes' "
		    "bills, each spread evenly over the time that the node was held; the planned "
		    "cost counts charges when they fall due. Only the totals are directly "
		    "comparable.</p>\n");
	if (shared)
		espl__print(b,
		    "<p class=\"note\">* %sthe total cost is shared in proportion to the %s time "
		    "used.</p>\n",
		    h->pool ? "" : "Stages ran in parallel: ", UNIT(h));
	espl__print(b, "</section>\n");
}

/* ---- trials ------------------------------------------------------------------------------- */

static espl_status
trial_line(struct espl__html *h, sqlite3_stmt *st, const struct espl__html_trial *t, uint32_t rank)
{
	struct espl__buf *b = &h->b, params = { NULL, 0, 0 };
	char text[32], name[48];
	int more;

	if (sqlite3_reset(st) != SQLITE_OK || sqlite3_bind_int64(st, 1, t->id) != SQLITE_OK)
		return espl__fail(h->diag, ESPL_E_REMOTE, "cannot read results.db: %s",
		    sqlite3_errmsg(h->r->db));
	more = espl__reading_next(h->r, st, h->diag);
	espl__print(b, "<tr%s><td>%u</td><td>%s</td><td class=\"w\">",
	    t->id == h->r->totals.best ? " class=\"first\"" : "", (unsigned)rank,
	    espl__trial_name((uint64_t)t->id, name));
	espl__html_text(b, t->state, 16);
	espl__print(b, "</td><td class=\"w\">");
	if (t->stage < h->stage_count)
		espl__print(b, "<i class=\"s%u\"></i>", (unsigned)espl__html_colour(h, t->stage));
	espl__html_stage_name(h, t->stage, b);
	espl__print(b, "</td>");
	count_cell(b, t->iteration);
	write_cell(b, NULL, espl__format_metric(t->metric, text));
	write_cell(b, NULL, espl__html_seconds(t->gpu_s, text));
	write_cell(b, NULL, espl__html_money(t->cost_usd, text));
	espl__print(b, "<td class=\"w pa\">");
	if (more == 1)
		espl__print_params(&params, (const char *)sqlite3_column_text(st, 0), ", ");
	espl__html_text(b, espl__buf_text(&params), 400);
	espl__print(b, "</td></tr>\n");
	espl__buf_free(&params);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__html_trials(struct espl__html *h)
{
	sqlite3_stmt *st;
	uint32_t *ranked, i, n, count;
	struct espl__buf *b = &h->b;
	espl_status status = ESPL_OK;

	if (h->trial_count == 0)
		return ESPL_OK;
	st = espl__reading_query(h->r, "SELECT params FROM trials WHERE id = ?1", -1, -1, h->diag);
	if (st == NULL)
		return ESPL_E_REMOTE;
	ranked = espl__html_ranked(h, &count);
	n = count < TRIALS_MAX ? count : TRIALS_MAX;
	espl__html_heading(h, "Trials");
	espl__print(b,
	    "<div class=\"scroll\"><table><thead><tr><th></th><th>trial</th>"
	    "<th class=\"w\">state</th><th class=\"w\">%s</th><th>iterations</th><th>",
	    h->pool                  ? "of"
		: h->stage_count > 0 ? "reached"
				     : "");
	espl__html_text(b, h->r->totals.metric, 40);
	espl__print(b,
	    "</th><th>%s time</th><th>cost</th><th "
	    "class=\"w\">parameters</th></tr></thead>\n<tbody>\n",
	    UNIT(h));
	for (i = 0; i < n && status == ESPL_OK; i++)
		status = trial_line(h, st, &h->trials[ranked[i]], i + 1);
	espl__print(b, "</tbody></table></div>\n");
	if (count > n)
		espl__print(b,
		    "<p class=\"note\">Showing the %u of %u trials that trained longest, the best "
		    "first. For all, use espalier export DIR --format csv</p>\n",
		    (unsigned)n, (unsigned)count);
	espl__print(b, "</section>\n");
	(void)sqlite3_finalize(st);
	free(ranked);
	return status;
}

/* ---- what went wrong ---------------------------------------------------------------------- */

/* Gangs that ended badly, by how; nodes that were lost. */
static const char trouble_sql[] = "SELECT min(ended_s), max(ended_s), count(*), 'gang', text FROM "
				  "gangs WHERE text IS NOT NULL AND text <> ''"
				  "  GROUP BY text"
				  " UNION ALL SELECT min(ended_s), max(ended_s), count(*), 'node', "
				  "why FROM nodes WHERE state = 'ended'"
				  "  AND why NOT IN ('released', 'ended', '') GROUP BY why"
				  " UNION ALL SELECT min(notice_s), max(notice_s), count(*), "
				  "'node', 'notice of its end' FROM nodes"
				  "  WHERE notice_s IS NOT NULL GROUP BY NULL"
				  " ORDER BY 3 DESC, 1 LIMIT 21";

espl_status
espl__html_trouble(struct espl__html *h)
{
	sqlite3_stmt *st = espl__reading_query(h->r, trouble_sql, -1, -1, h->diag);
	struct espl__buf *b = &h->b;
	char t[32];
	int more = -1, count = 0;

	while (st != NULL && (more = espl__reading_next(h->r, st, h->diag)) == 1) {
		if (count++ == 0)
			espl__print(b,
			    "<section><h2>Failures</h2>\n"
			    "<div class=\"scroll\"><table><thead><tr><th>times</th><th "
			    "class=\"w\">kind</th><th>first</th><th>last</th><th "
			    "class=\"w\">what</th></tr></thead>\n"
			    "<tbody>\n");
		if (count > TROUBLE_MAX)
			continue;
		espl__print(b, "<tr>");
		count_cell(b, sqlite3_column_int64(st, 2));
		write_cell(b, "w", (const char *)sqlite3_column_text(st, 3));
		write_cell(b, NULL, espl__html_seconds(espl__reading_real(st, 0), t));
		write_cell(b, NULL, espl__html_seconds(espl__reading_real(st, 1), t));
		espl__print(b, "<td class=\"w pa\">");
		espl__html_text(b, (const char *)sqlite3_column_text(st, 4), 300);
		espl__print(b, "</td></tr>\n");
	}
	(void)sqlite3_finalize(st);
	if (count > 0)
		espl__print(b, "</tbody></table></div>\n%s</section>\n",
		    count > TROUBLE_MAX
			? "<p class=\"note\">Less frequent failures are omitted. For all, use "
			  "espalier export DIR --format csv --table gangs</p>\n"
			: "");
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}
