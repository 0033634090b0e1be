/* frame.c - lays out one picture of a running search.
 *
 * Lines are composed with one-byte marks for colors, then clipped to the window, and the marks are
 * replaced by escape sequences, or by nothing. User text is cleaned first, so a mark is always
 * ours. What does not fit on a line continues on the next one; tables in a narrow window have
 * narrower columns, and fewer.
 */
#include "report/view.h"

#include <math.h>
#include <wchar.h>

#define BOLD "\001"
#define DIM "\002"
#define GREEN "\003"
#define YELLOW "\004"
#define RED "\005"
#define PLAIN "\006"

#define GROUPS_MAX 16u
#define SENTENCE_LINES 16u /* in a lower window the numbers alone */
#define TABLE_LINES 2u     /* a blank one and a heading */

struct frame {
	const struct espl__view *view;
	struct espl__frame_style style;
	struct espl__buf *out;
	struct espl__buf line, word;
	uint16_t *widths;
	uint32_t count, limit;
};

/* One character of UTF-8: its bytes and columns; broken ones count as one byte. */
static uint32_t
read_character(const unsigned char *p, int *columns)
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

/* Columns of text in which marks may stand. */
static uint32_t
width_of(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t width = 0, n;
	int columns;

	while (*p != 0) {
		n = *p <= 6 ? 1 : read_character(p, &columns);
		width += *p <= 6 ? 0 : (uint32_t)columns;
		p += n == 0 ? 1 : n;
	}
	return width;
}

static void
emit_line(struct frame *f)
{
	static const char *const marks[] = { "", "\033[1m", "\033[2m", "\033[32m", "\033[33m",
		"\033[31m", "\033[0m" };
	const unsigned char *p = (const unsigned char *)espl__buf_text(&f->line);
	uint32_t width = 0, n;
	int columns, marked = 0;

	if (f->count >= f->limit) {
		espl__buf_clear(&f->line);
		return;
	}
	while (*p != 0) {
		if (*p <= 6) {
			if (f->style.color)
				espl__print(f->out, "%s", marks[*p]);
			marked = *p != 6;
			p++;
			continue;
		}
		n = read_character(p, &columns);
		if (width + (uint32_t)columns > f->style.width)
			break;
		if (n == 0 || (n > 1 && !f->style.unicode))
			espl__put_u8(f->out, '?');
		else
			espl__put(f->out, p, n);
		width += (uint32_t)columns;
		p += n == 0 ? 1 : n;
	}
	if (marked && f->style.color)
		espl__print(f->out, "%s", marks[6]);
	espl__print(f->out, "\n");
	f->widths[f->count++] = (uint16_t)width;
	espl__buf_clear(&f->line);
}

static int
fits_line(struct frame *f, const char *gap)
{
	return width_of(espl__buf_text(&f->line)) + width_of(gap) +
	    width_of(espl__buf_text(&f->word)) <=
	    f->style.width;
}

/* Appends f->word to the line, or puts it below, indented. */
static void
put_word(struct frame *f, const char *gap, uint32_t indent)
{
	if (f->line.size > indent && !fits_line(f, gap)) {
		emit_line(f);
		espl__print(&f->line, "%*s", (int)indent, "");
	} else if (f->line.size > indent) {
		espl__print(&f->line, "%s", gap);
	}
	espl__print(&f->line, "%s", espl__buf_text(&f->word));
	espl__buf_clear(&f->word);
}

static void
draw_bar(struct frame *f, double part, uint32_t columns)
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

/* Broken between words. */
static void
draw_sentence(struct frame *f)
{
	struct espl__buf text = { NULL, 0, 0 };
	const char *at, *end;

	espl__totals_sentence(&f->view->totals, &text);
	for (at = espl__buf_text(&text); *at != '\0'; at = *end == '\0' ? end : end + 1) {
		end = at + strcspn(at, " ");
		espl__print(&f->word, "%.*s", (int)(end - at), at);
		put_word(f, " ", 0);
	}
	emit_line(f);
	espl__buf_free(&text);
}

static void
draw_head(struct frame *f)
{
	const struct espl__totals *t = &f->view->totals;
	double now = (double)f->view->now / 1e9;
	char span[32];

	espl__print(&f->word, BOLD);
	espl__print_clean(&f->word, t->experiment);
	espl__print(&f->word, PLAIN "   %s", espl__format_seconds(now, span));
	if (!isnan(t->deadline_s)) {
		espl__print(&f->word, " of %s", espl__format_seconds(t->deadline_s, span));
		put_word(f, "   ", 0);
		espl__print(&f->word, "%s%s left" PLAIN,
		    t->deadline_s - now < 0.1 * t->deadline_s ? YELLOW : "",
		    espl__format_seconds(t->deadline_s - now, span));
	}
	put_word(f, "   ", 0);
	if (t->simulated) {
		espl__print(&f->word, DIM "simulated" PLAIN);
		put_word(f, "   ", 0);
	}
	emit_line(f);
	if (f->limit >= SENTENCE_LINES)
		draw_sentence(f);
	espl__print(&f->word, "%lld trial%s   %lld completed", (long long)t->trials,
	    t->trials == 1 ? "" : "s", (long long)t->completed);
	put_word(f, "   ", 0);
	if (t->early > 0) {
		espl__print(&f->word, "%lld stopped early", (long long)t->early);
		put_word(f, "   ", 0);
	}
	if (espl__totals_paused(t) > 0) {
		espl__print(&f->word, "%lld paused", (long long)espl__totals_paused(t));
		put_word(f, "   ", 0);
	}
	if (t->failed > 0) {
		espl__print(&f->word, RED "%lld failed" PLAIN, (long long)t->failed);
		put_word(f, "   ", 0);
	}
	espl__print(&f->word, "%lld of %lld %s in use on %lld node%s", (long long)t->gpus_busy,
	    (long long)t->gpus, espl__slots_word(t->on_cpu, t->gpus), (long long)t->nodes,
	    t->nodes == 1 ? "" : "s");
	put_word(f, "   ", 0);
	if (t->cost_usd > 0 || !isnan(t->budget_usd)) {
		espl__print(&f->word, "%s", espl__format_usd(t->cost_usd, span));
		if (!isnan(t->budget_usd))
			espl__print(&f->word, " of %s", espl__format_usd(t->budget_usd, span));
		put_word(f, "   ", 0);
	}
	emit_line(f);
}

/* ---- the table of groups -------------------------------------------------------------------- */

enum { ITERATION, TRIALS, DONE, RUNNING, WAITING, FAILED, COLUMNS };
static const char *const column_names[COLUMNS] = { "iteration", "trials", "done", "running",
	"waiting", "failed" };

struct table {
	uint32_t name, columns[COLUMNS], bar;
}; /* widths; a column of 0 is left out */

static uint64_t
cell_value(const struct espl__view_group *g, int column)
{
	switch (column) {
	case ITERATION: return g->budget;
	case TRIALS: return g->done + g->failed + g->running + g->waiting;
	case DONE: return g->done;
	case RUNNING: return g->running;
	case WAITING: return g->waiting;
	default: return g->failed;
	}
}

static uint32_t
table_width(const struct table *t)
{
	uint32_t width = t->name;

	for (int k = 0; k < COLUMNS; k++)
		width += t->columns[k] > 0 ? t->columns[k] + 1 : 0;
	return width;
}

/* As narrow as names and numbers allow. */
static void
squeeze_columns(struct table *t, const struct espl__view *v, const uint32_t *chosen, uint32_t count)
{
	char text[48];
	uint32_t i, width;

	t->name = (uint32_t)strlen("group");
	for (i = 0; i < count; i++) {
		espl__view_group_name(v->groups[chosen[i]], text);
		t->name = strlen(text) > t->name ? (uint32_t)strlen(text) : t->name;
	}
	for (int k = 0; k < COLUMNS; k++) {
		if (t->columns[k] == 0)
			continue;
		t->columns[k] = (uint32_t)strlen(column_names[k]);
		for (i = 0; i < count; i++) {
			width = (uint32_t)snprintf(text, sizeof text, "%llu",
			    (unsigned long long)cell_value(v->groups[chosen[i]], k));
			t->columns[k] = width > t->columns[k] ? width : t->columns[k];
		}
	}
}

static struct table
lay_out(const struct frame *f, const uint32_t *chosen, uint32_t count)
{
	static const int least_wanted[] = { ITERATION, TRIALS, WAITING, RUNNING };
	struct table t = { 22, { 9, 8, 8, 8, 8, 0 }, 0 };
	uint32_t i, left;

	for (i = 0; i < count; i++) {
		if (f->view->groups[chosen[i]]->failed > 0)
			t.columns[FAILED] = 8;
	}
	if (table_width(&t) > f->style.width)
		squeeze_columns(&t, f->view, chosen, count);
	for (i = 0; i < 4 && table_width(&t) > f->style.width; i++)
		t.columns[least_wanted[i]] = 0;
	left = f->style.width > table_width(&t) ? f->style.width - table_width(&t) : 0;
	if (t.name == 22 && left > 12)
		t.bar = left - 4 < 24 ? left - 4 : 24;
	return t;
}

static void
draw_group(struct frame *f, const struct espl__view_group *g, const struct table *t)
{
	uint64_t all = cell_value(g, TRIALS);
	char name[48];

	espl__view_group_name(g, name);
	espl__print(&f->line, "%s%-*s%s", g->ended ? DIM : "", (int)t->name, name,
	    g->ended ? PLAIN : "");
	for (int k = 0; k < COLUMNS; k++) {
		if (t->columns[k] == 0)
			continue;
		espl__print(&f->line, " %s%*llu%s", k == FAILED && g->failed > 0 ? RED : "",
		    (int)t->columns[k], (unsigned long long)cell_value(g, k),
		    k == FAILED && g->failed > 0 ? PLAIN : "");
	}
	if (t->bar > 0) {
		espl__print(&f->line, "  ");
		draw_bar(f, all > 0 ? (double)(g->done + g->failed) / (double)all : 0, t->bar);
	}
	emit_line(f);
}

/* The open ones, latest first choice, then the ones that ended last; in their order. */
static void
draw_groups(struct frame *f, uint32_t room)
{
	const struct espl__view *v = f->view;
	uint32_t chosen[GROUPS_MAX], count = 0, i, j, swap;
	struct table table;
	int ended;

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
	table = lay_out(f, chosen, count);
	emit_line(f);
	espl__print(&f->line, DIM "%-*s", (int)table.name, "group");
	for (int k = 0; k < COLUMNS; k++) {
		if (table.columns[k] > 0)
			espl__print(&f->line, " %*s", (int)table.columns[k], column_names[k]);
	}
	espl__print(&f->line, PLAIN);
	emit_line(f);
	for (i = 0; i < count; i++)
		draw_group(f, v->groups[chosen[i]], &table);
}

/* ---- the table of trials -------------------------------------------------------------------- */

struct widths {
	int trial, bar, progress, metric, gpus;
};

static struct widths
gang_widths(const struct frame *f)
{
	struct widths w = { 8, 20, 13, 14, 5 };
	int left;

	if (f->style.width >= 77) /* with what a trial does at its end */
		return w;
	w = (struct widths){ 6, 0, 11, 12, 4 };
	left = (int)f->style.width - 50;
	if (left >= 4)
		w.bar = left < 20 ? left : 20;
	return w;
}

static void
draw_gang(struct frame *f, const struct espl__view_gang *g, const struct widths *w)
{
	int trains = espl__seen_trial_state(&f->view->seen, g->trial) == ESPL_TRIAL_RUNNING;
	char share[32], number[32], progress[48], name[48];

	if (g->share.packing > 1)
		(void)snprintf(share, sizeof share, "1/%u", g->share.packing);
	else
		(void)snprintf(share, sizeof share, "%u", g->share.gpus);
	(void)snprintf(progress, sizeof progress, "%llu/%llu", (unsigned long long)g->iteration,
	    (unsigned long long)g->budget);
	espl__print(&f->line, "%*s  ", w->trial, espl__trial_name(g->trial, name));
	if (w->bar > 0) {
		draw_bar(f, g->budget > 0 ? (double)g->iteration / (double)g->budget : 0,
		    (uint32_t)w->bar);
		espl__print(&f->line, " ");
	}
	espl__print(&f->line, "%*s  %*s  %*s%s", w->progress, progress, w->metric,
	    espl__format_metric(g->metric, number), w->gpus, share,
	    !g->running  ? DIM "  starting" PLAIN
		: trains ? ""
			 : DIM "  ending" PLAIN);
	emit_line(f);
}

static void
draw_gangs(struct frame *f, uint32_t room)
{
	const struct espl__view_gang *g;
	struct espl__buf metric = { NULL, 0, 0 };
	struct widths w = gang_widths(f);
	uint64_t shown = 0, more;

	emit_line(f);
	espl__print(&f->line, DIM "%*s  %-*s%*s  ", w.trial, "trial", w.bar > 0 ? w.bar + 1 : 0, "",
	    w.progress, "iteration");
	espl__print_clean(&metric, f->view->config->metric);
	espl__print(&f->line, "%*.*s  %*s" PLAIN, w.metric, w.metric, espl__buf_text(&metric),
	    w.gpus, espl__slots_word(f->view->totals.on_cpu, 0));
	espl__buf_free(&metric);
	emit_line(f);
	room = f->view->gang_count > room ? room - 1 : room;
	for (g = f->view->first; g != NULL && shown < room; g = g->next, shown++)
		draw_gang(f, g, &w);
	more = f->view->gang_count - shown;
	if (more > 0) {
		espl__print(&f->line, DIM "%*s  and %llu more" PLAIN, w.trial, "",
		    (unsigned long long)more);
		emit_line(f);
	}
}

static void
draw_tables(struct frame *f, uint32_t room)
{
	const struct espl__view *v = f->view;
	uint32_t trials = v->gang_count < 2 ? (uint32_t)v->gang_count : 2, rows, groups;

	if (room <= TABLE_LINES)
		return;
	if (trials == 0 || room < 2 * TABLE_LINES + 1 + trials) {
		draw_groups(f, room - TABLE_LINES);
		return;
	}
	rows = room - 2 * TABLE_LINES;
	groups = v->gang_count + v->group_count <= rows ? v->group_count : rows / 3;
	groups = groups > 0 ? groups : 1;
	groups = groups < v->group_count ? groups : v->group_count;
	draw_groups(f, groups);
	draw_gangs(f, rows - groups);
}

/* ---- the best ------------------------------------------------------------------------------- */

static void
draw_params(struct frame *f)
{
	struct espl__buf list = { NULL, 0, 0 };
	const char *at, *end;

	espl__print_params(&list, f->view->totals.best_params, "\n");
	espl__print(&f->line, "%*s", 6, "");
	for (at = espl__buf_text(&list); *at != '\0'; at = *end == '\0' ? end : end + 1) {
		end = at + strcspn(at, "\n");
		espl__print(&f->word, "%.*s", (int)(end - at), at);
		if (!fits_line(f, "  ") && f->line.size > 6 && f->count + 1 >= f->limit) {
			espl__buf_clear(&f->word);
			espl__print(&f->line, " ...");
			break;
		}
		put_word(f, "  ", 6);
	}
	emit_line(f);
	espl__buf_free(&list);
}

static void
draw_best(struct frame *f)
{
	const struct espl__totals *t = &f->view->totals;
	char number[32];

	emit_line(f);
	if (t->best < 0) {
		espl__print(&f->line, DIM "best  none so far" PLAIN);
		emit_line(f);
		return;
	}
	espl__print(&f->line, BOLD "best" PLAIN "  trial %lld: ", (long long)t->best);
	espl__print_clean(&f->line, t->metric);
	espl__print(&f->line, " " GREEN "%s" PLAIN " at iteration %lld",
	    espl__format_metric(t->best_metric, number), (long long)t->best_iteration);
	emit_line(f);
	draw_params(f);
	if (!espl__totals_ever_differs(t))
		return;
	espl__print(&f->line, DIM "%*s%s seen: %s (trial %lld at iteration %lld)" PLAIN, 6, "",
	    t->maximize ? "highest" : "lowest", espl__format_metric(t->ever_metric, number),
	    (long long)t->ever, (long long)t->ever_iteration);
	emit_line(f);
}

uint32_t
espl__frame_draw(const struct espl__view *view, const struct espl__frame_style *style,
    struct espl__buf *out, uint16_t *widths)
{
	struct espl__buf foot = { NULL, 0, 0 };
	struct frame f = { .view = view, .style = *style, .out = out, .widths = widths };
	struct frame best = { .view = view, .style = *style, .out = &foot };

	f.limit = style->height > 1 ? style->height - 1 : 1;
	draw_head(&f);
	/* The footer first: its number of lines determines the room left for the tables. */
	best.limit = 3 + f.limit / 8;
	if (best.limit > f.limit - f.count)
		best.limit = f.limit - f.count;
	best.widths = espl__alloc((best.limit + 1) * sizeof *best.widths);
	if (best.limit >= 3)
		draw_best(&best);
	draw_tables(&f, f.limit - f.count - best.count);
	espl__put(out, foot.data, foot.size);
	memcpy(widths + f.count, best.widths, best.count * sizeof *widths);
	espl__buf_free(&f.line);
	espl__buf_free(&f.word);
	espl__buf_free(&best.line);
	espl__buf_free(&best.word);
	espl__buf_free(&foot);
	free(best.widths);
	return f.count + best.count;
}
