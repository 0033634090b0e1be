/* report_html_strips.c - the stages as a plan had them, and as they ran, on the axis of time. */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define STRIP_ROWS 10u /* of stages side by side */
#define ROW_HEIGHT 19.0
#define LETTER 6.1 /* about the width of one */

struct box {
	double from_s, to_s;
	uint32_t colour;
	const char *classes;
	char labels[3][160]; /* the longest that has room is shown */
	struct espl__buf title;
};
struct strip {
	double ends[STRIP_ROWS];
	uint32_t rows, left_out;
};

/* The first row that is free; all boxes of a strip come in order of their begins. */
static int
find_row(struct strip *s, const struct box *box, double tiny)
{
	uint32_t i;

	for (i = 0; i < s->rows && s->ends[i] > box->from_s + tiny; i++)
		;
	if (i == STRIP_ROWS) {
		s->left_out++;
		return -1;
	}
	if (i == s->rows)
		s->rows++;
	s->ends[i] = box->to_s;
	return (int)i;
}

static void
draw_box(struct espl__html *h, struct strip *s, struct box *box, double y)
{
	struct espl__html_axis a = espl__html_time(h);
	double from = espl__html_at(&a, box->from_s), to = espl__html_at(&a, box->to_s);
	char classes[48];
	int row, i;

	if (!(box->from_s <= box->to_s) || (row = find_row(s, box, h->end_s / 1500)) < 0) {
		espl__buf_free(&box->title);
		return;
	}
	y += row * ROW_HEIGHT;
	(void)snprintf(classes, sizeof classes, "%s s%u", box->classes, (unsigned)box->colour);
	espl__print(&h->b, "<g><title>%s</title>", espl__buf_text(&box->title));
	espl__html_rect(&h->b, classes, from + 0.5, y, to - from - 1, ROW_HEIGHT - 3);
	for (i = 0; i < 3; i++) {
		if ((double)strlen(box->labels[i]) * LETTER + 8 > to - from)
			continue;
		espl__html_label(&h->b, "st", from + 5, y + 12, box->labels[i]);
		break;
	}
	espl__print(&h->b, "</g>\n");
	espl__buf_free(&box->title);
}

static void
write_title(struct espl__buf *b, const char *what, const char *name, double from, double to,
    double usd)
{
	char text[3][32];

	espl__print(b, "%s, %s: %s to %s", name, what, espl__html_seconds(from, text[0]),
	    espl__html_seconds(to, text[1]));
	if (isfinite(usd))
		espl__print(b, ", %s", espl__html_money(usd, text[2]));
}

/* ---- as planned --------------------------------------------------------------------------- */

static void
draw_row(struct espl__html *h, struct strip *s, const struct espl__html_row *r, const char *what,
    double y)
{
	struct box box = { r->starts_s, r->ends_s,
		(uint32_t)((uint64_t)r->stage % ESPL__HTML_COLOURS), "pl", { "", "", "" },
		{ NULL, 0, 0 } };
	long long stage = (long long)r->stage, trials = (long long)r->trials;
	char name[64];

	if (h->brackets)
		(void)snprintf(name, sizeof name, "bracket %lld, stage %lld", (long long)r->bracket,
		    stage);
	else
		(void)snprintf(name, sizeof name, "stage %lld", stage);
	(void)snprintf(box.labels[0], sizeof box.labels[0],
	    "%s: %lld \xc3\x97 %lld %s, %lld node%s", name, trials, (long long)r->gpus_per_trial,
	    espl__html_unit(h, r->gpus_per_trial), (long long)r->nodes, r->nodes == 1 ? "" : "s");
	(void)snprintf(box.labels[1], sizeof box.labels[1], "%s", name);
	(void)snprintf(box.labels[2], sizeof box.labels[2], "%lld", stage);
	write_title(&box.title, what, name, r->starts_s, r->ends_s, r->cost_usd);
	espl__print(&box.title,
	    "&#10;%lld trials for %lld iterations, %lld %s each, on %lld nodes of ", trials,
	    (long long)r->iterations, (long long)r->gpus_per_trial,
	    espl__html_unit(h, r->gpus_per_trial), (long long)r->nodes);
	espl__html_text(&box.title, r->offer, 60);
	draw_box(h, s, &box, y);
}

static int
by_start(const void *a, const void *b)
{
	const struct espl__html_row *x = *(const struct espl__html_row *const *)a;
	const struct espl__html_row *y = *(const struct espl__html_row *const *)b;

	if (x->starts_s != y->starts_s)
		return x->starts_s < y->starts_s ? -1 : 1;
	return x < y ? -1 : x > y; /* one array */
}

/* The first plan; or of the others, for each stage, the last that had it still to come. */
static uint32_t
draw_plan(struct espl__html *h, int anew, const char *label, double *y)
{
	const struct espl__html_row **rows =
	    espl__arena_alloc(&h->arena, (h->row_count + (size_t)1) * sizeof *rows);
	uint32_t from = anew ? h->plans[0].row_count : 0,
		 to = anew ? h->row_count : h->plans[0].row_count;
	struct strip strip = { { 0 }, 0, 0 };
	uint32_t i, count = 0;

	for (i = from; i < to; i++) {
		const struct espl__html_row *r = &h->rows[i];

		if (!isnan(r->starts_s) &&
		    (!anew || espl__html_planned(h, ESPL__HTML_LAST, r->bracket, r->stage) == r))
			rows[count++] = r;
	}
	if (count > 0)
		qsort(rows, count, sizeof *rows, by_start);
	for (i = 0; i < count; i++)
		draw_row(h, &strip, rows[i], label, *y);
	if (strip.rows == 0)
		return 0;
	espl__html_label(&h->b, "ln", ESPL__HTML_LEFT - 7, *y + 12, label);
	*y += strip.rows * ROW_HEIGHT + 3;
	return strip.left_out;
}

/* ---- as they ran -------------------------------------------------------------------------- */

static int
by_begin(const void *a, const void *b)
{
	const struct espl__html_stage *x = *(const struct espl__html_stage *const *)a;
	const struct espl__html_stage *y = *(const struct espl__html_stage *const *)b;

	if (x->begun_s != y->begun_s)
		return x->begun_s < y->begun_s ? -1 : 1;
	return x < y ? -1 : x > y; /* one array */
}

static void
draw_stage(struct espl__html *h, struct strip *s, const struct espl__html_stage *stage, double y)
{
	struct box box = { stage->begun_s, isnan(stage->ended_s) ? h->now_s : stage->ended_s,
		espl__html_colour(h, (uint32_t)(stage - h->stages)), "re", { "", "", "" },
		{ NULL, 0, 0 } };
	struct espl__buf name = { NULL, 0, 0 };

	espl__html_stage_name(h, (uint32_t)(stage - h->stages), &name);
	(void)snprintf(box.labels[0], sizeof box.labels[0], "%s: %llu trial%s",
	    espl__buf_text(&name), (unsigned long long)stage->trials,
	    stage->trials == 1 ? "" : "s");
	(void)snprintf(box.labels[1], sizeof box.labels[1], "%s", espl__buf_text(&name));
	(void)snprintf(box.labels[2], sizeof box.labels[2], "%lld",
	    (long long)(h->declared ? stage->number : stage->budget));
	write_title(&box.title, "actual", espl__buf_text(&name), box.from_s, box.to_s,
	    stage->cost_usd);
	espl__print(&box.title, "&#10;%llu trials on %u different nodes",
	    (unsigned long long)stage->trials, (unsigned)stage->nodes);
	draw_box(h, s, &box, y);
	espl__buf_free(&name);
}

static uint32_t
draw_stages(struct espl__html *h, double *y)
{
	const struct espl__html_stage **sorted =
	    espl__arena_alloc(&h->arena, (h->stage_count + (size_t)1) * sizeof *sorted);
	struct strip strip = { { 0 }, 0, 0 };
	uint32_t i, count = 0;

	for (i = 0; i < h->stage_count; i++)
		if (!isnan(h->stages[i].begun_s))
			sorted[count++] = &h->stages[i];
	qsort(sorted, count, sizeof *sorted, by_begin);
	for (i = 0; i < count; i++)
		draw_stage(h, &strip, sorted[i], *y);
	if (strip.rows == 0)
		return 0;
	espl__html_label(&h->b, "ln", ESPL__HTML_LEFT - 7, *y + 12, "actual");
	*y += strip.rows * ROW_HEIGHT + 3;
	return strip.left_out;
}

uint32_t
espl__html_strips(struct espl__html *h, double *y)
{
	uint32_t left_out = 0;

	if (h->plan_count > 0)
		left_out += draw_plan(h, 0, h->plan_count > 1 ? "first plan" : "plan", y);
	if (h->plan_count > 1)
		left_out += draw_plan(h, 1, "re-planned", y);
	left_out += draw_stages(h, y);
	*y += 6;
	return left_out;
}
