/* frame.c - lays out one picture of a running search.
 *
 * Lines are composed with one-byte marks for colours, then clipped to the window and the marks
 * made escape sequences, or nothing.  User text is cleaned before, so a mark is always ours.
 */
#include "report/frame.h"

#include <math.h>
#include <wchar.h>

#include "base/text.h"

#define BOLD   "\001"
#define DIM    "\002"
#define GREEN  "\003"
#define YELLOW "\004"
#define RED    "\005"
#define PLAIN  "\006"

#define GROUPS_MAX 16u

struct frame {
	const struct espl__view *view;
	struct espl__frame_style style;
	struct espl__buf *out;
	struct espl__buf  line;
	uint16_t *widths;
	uint32_t  count, limit;
};

/* One character of UTF-8: its bytes and columns; broken ones count as one byte. */
static uint32_t
character(const unsigned char *p, int *columns)
{
	uint32_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
	uint32_t i, code;

	*columns = 1;
	if (n <= 1)
		return n;
	code = p[0] & (0xffu >> (n + 1));
	for (i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	*columns = wcwidth((wchar_t)code);
	if (*columns < 0)
		*columns = 1;
	return n;
}

static void
emit(struct frame *f)
{
	static const char *const marks[] = { "", "\033[1m", "\033[2m", "\033[32m", "\033[33m",
	                                     "\033[31m", "\033[0m" };
	const unsigned char *p = (const unsigned char *)espl__buf_text(&f->line);
	uint32_t width = 0, n;
	int      columns, marked = 0;

	if (f->count >= f->limit) {
		espl__buf_clear(&f->line);
		return;
	}
	while (*p != 0) {
		if (*p <= 6) {
			if (f->style.colour)
				espl__print(f->out, "%s", marks[*p]);
			marked = *p != 6;
			p++;
			continue;
		}
		n = character(p, &columns);
		if (width + (uint32_t)columns > f->style.width)
			break;
		if (n == 0 || (n > 1 && !f->style.unicode))
			espl__put_u8(f->out, '?');
		else
			espl__put(f->out, p, n);
		width += (uint32_t)columns;
		p += n == 0 ? 1 : n;
	}
	if (marked && f->style.colour)
		espl__print(f->out, "%s", marks[6]);
	espl__print(f->out, "\n");
	f->widths[f->count++] = (uint16_t)width;
	espl__buf_clear(&f->line);
}

static void
bar(struct frame *f, double part, uint32_t columns)
{
	uint32_t i, full;

	part = part >= 0 && part <= 1 ? part : part > 1 ? 1 : 0;
	full = (uint32_t)(part * columns + 0.5);
	espl__print(&f->line, GREEN);
	for (i = 0; i < full; i++)
		espl__print(&f->line, "%s", f->style.unicode ? "\xe2\x94\x81" : "#");
	espl__print(&f->line, PLAIN DIM);
	for (; i < columns; i++)
		espl__print(&f->line, "%s", f->style.unicode ? "\xe2\x94\x80" : "-");
	espl__print(&f->line, PLAIN);
}

static void
draw_head(struct frame *f)
{
	const struct espl__totals *t = &f->view->totals;
	double now = (double)f->view->now / 1e9;
	char   span[32];

	espl__print(&f->line, BOLD);
	espl__print_clean(&f->line, t->experiment);
	espl__print(&f->line, PLAIN "   %s", espl__format_seconds(now, span));
	if (!isnan(t->deadline_s)) {
		espl__print(&f->line, " of %s", espl__format_seconds(t->deadline_s, span));
		espl__print(&f->line, "   %s%s left" PLAIN,
		            t->deadline_s - now < 0.1 * t->deadline_s ? YELLOW : "",
		            espl__format_seconds(t->deadline_s - now, span));
	}
	if (t->simulated)
		espl__print(&f->line, DIM "   simulated" PLAIN);
	emit(f);
	espl__print(&f->line, "%lld trial%s   %lld completed", (long long)t->trials,
	            t->trials == 1 ? "" : "s", (long long)t->completed);
	if (t->failed > 0)
		espl__print(&f->line, "   " RED "%lld failed" PLAIN, (long long)t->failed);
	espl__print(&f->line, "   %lld of %lld GPUs in use on %lld node%s",
	            (long long)t->gpus_busy, (long long)t->gpus, (long long)t->nodes,
	            t->nodes == 1 ? "" : "s");
	if (t->cost_usd > 0 || !isnan(t->budget_usd))
		espl__print(&f->line, "   $%.2f", t->cost_usd);
	if (!isnan(t->budget_usd))
		espl__print(&f->line, " of $%.2f", t->budget_usd);
	emit(f);
}

static void
draw_group(struct frame *f, const struct espl__view_group *g, uint32_t bar_columns)
{
	uint64_t done = g->done + g->failed, all = done + g->running + g->waiting;
	char     name[48];

	espl__view_group_name(g, name);
	espl__print(&f->line, "%s%-22s%s %9llu %8llu %8llu %8llu %8llu", g->ended ? DIM : "", name,
	            g->ended ? PLAIN : "", (unsigned long long)g->budget, (unsigned long long)all,
	            (unsigned long long)done, (unsigned long long)g->running,
	            (unsigned long long)g->waiting);
	if (bar_columns > 0) {
		espl__print(&f->line, "  ");
		bar(f, all > 0 ? (double)done / (double)all : 0, bar_columns);
	}
	emit(f);
}

/* Those that are open, latest first choice, then the latest ended ones; in their order. */
static void
draw_groups(struct frame *f, uint32_t room)
{
	const struct espl__view *v = f->view;
	uint32_t chosen[GROUPS_MAX], count = 0, i, j, swap;
	uint32_t bar_columns = f->style.width > 80 ? f->style.width - 72 : 0;
	int      ended;

	if (room > GROUPS_MAX)
		room = GROUPS_MAX;
	for (ended = 0; ended <= 1; ended++) {
		for (i = v->group_count; i > 0 && count < room; i--) {
			if (v->groups[i - 1]->ended == ended)
				chosen[count++] = i - 1;
		}
	}
	for (i = 1; i < count; i++) {
		for (j = i; j > 0 && chosen[j - 1] > chosen[j]; j--) {
			swap = chosen[j];
			chosen[j] = chosen[j - 1];
			chosen[j - 1] = swap;
		}
	}
	if (count == 0)
		return;
	emit(f);
	espl__print(&f->line, DIM "%-22s %9s %8s %8s %8s %8s" PLAIN, "group", "iteration", "trials",
	            "done", "running", "waiting");
	emit(f);
	if (bar_columns > 24)
		bar_columns = 24;
	for (i = 0; i < count; i++)
		draw_group(f, v->groups[chosen[i]], bar_columns);
}

static void
draw_gang(struct frame *f, const struct espl__view_gang *g)
{
	const struct espl__pasts *pasts = &f->view->pasts;
	int  trains = g->trial < pasts->count && pasts->list[g->trial].state == ESPL_TRIAL_RUNNING;
	char share[32], number[32], progress[48];

	if (g->share.packing > 1)
		(void)snprintf(share, sizeof share, "1/%u", g->share.packing);
	else
		(void)snprintf(share, sizeof share, "%u", g->share.gpus);
	(void)snprintf(progress, sizeof progress, "%llu/%llu", (unsigned long long)g->iteration,
	               (unsigned long long)g->budget);
	espl__print(&f->line, "%8llu  ", (unsigned long long)g->trial);
	bar(f, g->budget > 0 ? (double)g->iteration / (double)g->budget : 0, 20);
	espl__print(&f->line, " %13s  %14s  %5s%s", progress, espl__format_metric(g->metric, number),
	            share, !g->running ? DIM "  starting" PLAIN
	            : trains ? "" : DIM "  ending" PLAIN);
	emit(f);
}

static void
draw_gangs(struct frame *f, uint32_t room)
{
	const struct espl__view_gang *g;
	struct espl__buf metric = { NULL, 0, 0 };
	uint64_t shown = 0, more;

	if (f->view->gang_count == 0 || room < 2)
		return;
	emit(f);
	espl__print(&f->line, DIM "%8s  %-20s %13s  ", "trial", "", "iteration");
	espl__print_clean(&metric, f->view->config->metric);
	espl__print(&f->line, "%14.14s  %5s" PLAIN, espl__buf_text(&metric), "GPUs");
	espl__buf_free(&metric);
	emit(f);
	room = f->view->gang_count > room ? room - 1 : room;
	for (g = f->view->first; g != NULL && shown < room; g = g->next, shown++)
		draw_gang(f, g);
	more = f->view->gang_count - shown;
	if (more > 0) {
		espl__print(&f->line, DIM "          and %llu more" PLAIN, (unsigned long long)more);
		emit(f);
	}
}

static void
draw_best(struct frame *f)
{
	const struct espl__totals *t = &f->view->totals;
	char number[32];

	emit(f);
	if (t->best < 0) {
		espl__print(&f->line, DIM "best  none yet" PLAIN);
		emit(f);
		return;
	}
	espl__print(&f->line, BOLD "best" PLAIN "  trial %lld: ", (long long)t->best);
	espl__print_clean(&f->line, t->metric);
	espl__print(&f->line, " " GREEN "%s" PLAIN " at iteration %lld",
	            espl__format_metric(t->best_metric, number), (long long)t->best_iteration);
	emit(f);
	espl__print(&f->line, "      ");
	espl__print_params(&f->line, t->best_params);
	emit(f);
}

uint32_t
espl__frame_draw(const struct espl__view *view, const struct espl__frame_style *style,
                 struct espl__buf *out, uint16_t *widths)
{
	struct frame f = { .view = view, .style = *style, .out = out, .widths = widths };
	uint32_t rows, groups;

	f.limit = style->height > 1 ? style->height - 1 : 1;
	/* Head 2, best 3, and two tables with a blank line and a heading each. */
	rows = f.limit > 9 ? f.limit - 9 : 0;
	draw_head(&f);
	if (rows >= 3) {
		groups = view->gang_count + view->group_count <= rows ? view->group_count : rows / 3;
		groups = groups > 0 ? groups : 1;
		groups = groups < view->group_count ? groups : view->group_count;
		draw_groups(&f, groups);
		draw_gangs(&f, rows - groups);
	}
	if (f.limit >= 5)
		draw_best(&f);
	espl__buf_free(&f.line);
	return f.count;
}
