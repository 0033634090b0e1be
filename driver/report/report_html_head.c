/* report_html_head.c - the top of the page: how the run ended, its best trial, and what time and
 * money it took beside what was planned and allowed.
 */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#include "config.h"

static void
write_meta(struct espl__html *h, const char *key)
{
	sqlite3_stmt *st = espl__reading_query(h->r,
	    "SELECT value FROM meta WHERE key = ?1 AND value IS NOT NULL", -1, -1, NULL);

	if (st != NULL && sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC) == SQLITE_OK &&
	    espl__reading_next(h->r, st, NULL) == 1) {
		espl__print(&h->b, "<span>%s ", key);
		espl__html_text(&h->b, (const char *)sqlite3_column_text(st, 0), 60);
		espl__print(&h->b, "</span> ");
	}
	(void)sqlite3_finalize(st);
}

static void
write_tile(struct espl__html *h, const char *name, const char *value)
{
	espl__print(&h->b, "<div class=\"tile\"><h3>%s</h3><p class=\"big\">%s</p>", name, value);
}

/* "1m30s (+2.1 %)": a prediction and how far reality was from it. */
static void
write_prediction(struct espl__html *h, const char *name, const char *value, double was,
    double predicted)
{
	double off = (was - predicted) / predicted * 100;

	espl__print(&h->b, "<p><b>%s</b> %s", name, value);
	if (isfinite(off) && predicted > 0 && !h->r->running)
		espl__print(&h->b, " <em>(actual %+.1f %%)</em>", fabs(off) < 0.05 ? 0 : off);
	espl__print(&h->b, "</p>");
}

static void
format_spread(char *to, size_t room, const char *mean, const char *sd, const char *p95)
{
	(void)snprintf(to, room, "%s, sd %s, p95 %s", mean, sd, p95);
}

/* ---- time and money ----------------------------------------------------------------------- */

static void
time_tile(struct espl__html *h)
{
	const struct espl__totals *t = &h->r->totals;
	char text[3][32], long_text[128];
	uint32_t i;

	write_tile(h, h->r->running ? "Time so far" : "Time",
	    espl__html_seconds(t->jct_s, text[0]));
	for (i = 0; i < h->plan_count; i++) {
		const struct espl__html_plan *p = &h->plans[i];

		if (i > 0 && i + 1 < h->plan_count)
			continue;
		(void)snprintf(long_text, sizeof long_text, "%s",
		    espl__html_seconds(p->ends_s, text[0]));
		if (p->ends_sd_s > 1e-3)
			format_spread(long_text, sizeof long_text,
			    espl__html_seconds(p->ends_s, text[0]),
			    espl__html_seconds(p->ends_sd_s, text[1]),
			    espl__html_seconds(p->ends_p95_s, text[2]));
		write_prediction(h,
		    h->plan_count == 1 ? "plan"
			: i == 0       ? "first plan"
				       : "last plan",
		    long_text, t->jct_s, p->ends_s);
	}
	if (h->fixed != NULL && h->fixed->why_not == NULL)
		write_prediction(h, "static plan", espl__html_seconds(h->fixed->jct_s, text[0]),
		    NAN, NAN);
	if (isfinite(t->deadline_s))
		espl__print(&h->b, "<p><b>deadline</b> %s%s</p>",
		    espl__html_seconds(t->deadline_s, text[0]),
		    t->jct_s > t->deadline_s * 1.000001 ? strcmp(t->status, "deadline") == 0
			    ? " <em class=\"bad\">reached</em>"
			    : " <em class=\"bad\">missed</em>"
							: "");
	espl__print(&h->b, "</div>\n");
}

static void
money_tile(struct espl__html *h)
{
	const struct espl__totals *t = &h->r->totals;
	char text[3][32], long_text[128];
	uint32_t i;

	write_tile(h, h->r->running ? "Cost so far" : "Cost",
	    espl__html_money(t->cost_usd, text[0]));
	for (i = 0; i < h->plan_count; i++) {
		const struct espl__html_plan *p = &h->plans[i];
		double before = i > 0 ? espl__html_spent(h, p->at_s) : 0;

		if (i > 0 && i + 1 < h->plan_count)
			continue;
		(void)snprintf(long_text, sizeof long_text, "%s",
		    espl__html_money(before + p->cost_usd, text[0]));
		if (p->cost_sd_usd > 1e-6)
			format_spread(long_text, sizeof long_text,
			    espl__html_money(before + p->cost_usd, text[0]),
			    espl__html_money(p->cost_sd_usd, text[1]),
			    espl__html_money(before + p->cost_p95_usd, text[2]));
		write_prediction(h,
		    h->plan_count == 1 ? "plan"
			: i == 0       ? "first plan"
				       : "last plan",
		    long_text, t->cost_usd, before + p->cost_usd);
	}
	if (h->fixed != NULL && h->fixed->why_not == NULL)
		write_prediction(h, "static plan", espl__html_money(h->fixed->cost_usd, text[0]),
		    NAN, NAN);
	if (isfinite(t->budget_usd))
		espl__print(&h->b, "<p><b>budget</b> %s%s</p>",
		    espl__html_money(t->budget_usd, text[0]),
		    t->cost_usd > t->budget_usd * 1.000001 ? strcmp(t->status, "budget") == 0
			    ? " <em class=\"bad\">reached</em>"
			    : " <em class=\"bad\">exceeded</em>"
							   : "");
	espl__print(&h->b, "</div>\n");
}

/* ---- the rest ----------------------------------------------------------------------------- */

static void
count_tiles(struct espl__html *h)
{
	const struct espl__totals *t = &h->r->totals;
	struct espl__buf *b = &h->b;
	char text[32];

	(void)snprintf(text, sizeof text, "%lld", (long long)t->trials);
	write_tile(h, "Trials", text);
	espl__print(b, "<p><b>completed</b> %lld</p>", (long long)(t->completed - t->early));
	if (t->early > 0)
		espl__print(b, "<p><b>stopped early</b> %lld</p>", (long long)t->early);
	if (espl__totals_paused(t) > 0)
		espl__print(b, "<p><b>paused</b> %lld</p>", (long long)espl__totals_paused(t));
	if (t->failed > 0)
		espl__print(b, "<p><b>failed</b> <em class=\"bad\">%lld</em></p>",
		    (long long)t->failed);
	if (h->r->running)
		espl__print(b, "<p><b>running</b> %lld</p><p><b>waiting</b> %lld</p>",
		    (long long)t->running, (long long)t->waiting);
	espl__print(b, "<p><b>resizes while training</b> %lld</p></div>\n", (long long)h->resizes);
	(void)snprintf(text, sizeof text, "%.0f %%",
	    t->gpu_s > 0 ? 100 * t->busy_gpu_s / t->gpu_s : 0);
	write_tile(h, t->on_cpu ? "Slots busy" : "GPUs busy", text);
	espl__print(b, "<p><b>%s time used</b> %s</p>", espl__slots_word(t->on_cpu, 1),
	    espl__html_seconds(t->busy_gpu_s, text));
	espl__print(b, "<p><b>held</b> %s</p>", espl__html_seconds(t->gpu_s, text));
	espl__print(b, "<p><b>peak nodes</b> %lld</p>", (long long)t->nodes_peak);
	if (t->nodes_leaked > 0)
		espl__print(b, "<p><b>leaked</b> <em class=\"bad\">%lld</em></p>",
		    (long long)t->nodes_leaked);
	espl__print(b, "</div>\n");
}

static void
best_tile(struct espl__html *h)
{
	const struct espl__totals *t = &h->r->totals;
	struct espl__buf *b = &h->b, params = { NULL, 0, 0 };
	char text[32];

	write_tile(h, "Best", t->best < 0 ? "none" : espl__format_metric(t->best_metric, text));
	if (t->best >= 0) {
		espl__print(b, "<p>");
		espl__html_text(b, t->metric, 60);
		espl__print(b, ", trial %lld at iteration %lld</p><p class=\"pa\">",
		    (long long)t->best, (long long)t->best_iteration);
		espl__print_params(&params, t->best_params, ", ");
		espl__html_text(b, espl__buf_text(&params), 600);
		espl__print(b, "</p>");
		espl__buf_free(&params);
	}
	espl__print(b, "</div>\n");
}

void
espl__html_head(struct espl__html *h)
{
	static const char *const keys[] = { "algorithm", "allocator", "placer", "cloud", "seed" };
	const struct espl__totals *t = &h->r->totals;
	const char *good = strcmp(t->status, "done") == 0 ? "good"
	    : strcmp(t->status, "failed") == 0            ? "bad"
							  : "mid";
	struct espl__buf *b = &h->b;
	size_t i;

	espl__print(b, "<header><h1>");
	espl__html_text(b, t->experiment, 100);
	espl__print(b, "</h1><span class=\"chip %s\">", good);
	espl__html_text(b, t->status, 20);
	espl__print(b, "</span>%s\n<p class=\"sub\">",
	    t->simulated ? "<span class=\"chip mid\">simulated</span>" : "");
	for (i = 0; i < sizeof keys / sizeof keys[0]; i++)
		write_meta(h, keys[i]);
	espl__print(b, "</p>\n");
	if (t->text != NULL && t->text[0] != '\0') {
		espl__print(b, "<p class=\"why\">");
		espl__html_text(b, t->text, 600);
		espl__print(b, "</p>\n");
	}
	espl__print(b, "</header>\n<div class=\"tiles\">\n");
	time_tile(h);
	money_tile(h);
	if (!h->pool)
		best_tile(h);
	count_tiles(h);
	espl__print(b, "</div>\n");
	if (h->plan_count > 1)
		espl__print(b,
		    "<p class=\"note\">The plan was changed %u time%s during the run.</p>\n",
		    (unsigned)h->plan_count - 1, h->plan_count == 2 ? "" : "s");
	if (h->fixed != NULL && h->fixed->why_not != NULL) {
		espl__print(b, "<p class=\"note\">There is no static plan to compare with: ");
		espl__html_text(b, h->fixed->why_not, 300);
		espl__print(b, "</p>\n");
	}
}
