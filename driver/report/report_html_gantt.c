/* report_html_gantt.c - nodes and the gangs on them: a lane for each node, a row for each GPU. */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define BARS_MAX 6000u /* more are drawn as density */
#define HEIGHT_MAX 2400.0
#define MARKS_MAX 400u
#define LANE_GAP 5.0
#define SEATS 64u /* of trials that share a GPU */

struct lanes {
	struct espl__html *h;
	struct espl__html_axis a;
	double *tops; /* [node], and of the end */
	/* [gpu * SEATS]: when each is free again; NULL: nothing is shared */
	double *seats;
	struct espl__buf marks; /* drawn last, above the bars */
	uint32_t mark_count, marks_left_out;
};

/* ---- marks -------------------------------------------------------------------------------- */

/* class "x": a gang failed; "n": a node got notice; "k": a node was lost. */
static int
begin_mark(struct lanes *l, const char *path, double x, double y, const char *classes)
{
	struct espl__buf *b = &l->marks;

	if (l->mark_count++ >= MARKS_MAX) {
		l->marks_left_out++;
		return 0;
	}
	espl__print(b, "<g class=\"mk %s\" transform=\"translate(", classes);
	espl__html_number(b, x);
	espl__print(b, " ");
	espl__html_number(b, y);
	espl__print(b, ")\"><path d=\"%s\"/><title>", path);
	return 1;
}

static void
end_mark(struct lanes *l)
{
	espl__print(&l->marks, "</title></g>\n");
}

/* ---- leases ------------------------------------------------------------------------------- */

static void
describe_node(struct espl__html *h, const struct espl__html_node *n)
{
	struct espl__buf *b = &h->b;
	char t[32];

	espl__print(b, "node %lld: ", (long long)n->id);
	espl__html_text(b, n->offer, 60);
	espl__print(b, ", ");
	espl__html_text(b, n->market, 30);
	espl__print(b, ", %u %s&#10;requested at %s", (unsigned)n->gpus,
	    espl__html_unit(h, n->gpus), espl__html_seconds(n->requested_s, t));
	if (!isnan(n->booting_s))
		espl__print(b, ", booting at %s", espl__html_seconds(n->booting_s, t));
	if (!isnan(n->ready_s))
		espl__print(b, ", ready at %s", espl__html_seconds(n->ready_s, t));
	if (!isnan(n->notice_s))
		espl__print(b, ", notice at %s", espl__html_seconds(n->notice_s, t));
	if (!isnan(n->ended_s)) {
		espl__print(b, ", ended at %s (", espl__html_seconds(n->ended_s, t));
		espl__html_text(b, n->why, 80);
		espl__print(b, ")");
	}
	espl__print(b, "&#10;%s", espl__html_money(n->charged_usd, t));
}

static void
mark_node(struct lanes *l, const struct espl__html_node *n, double top, double bottom)
{
	char t[32];

	if (!isnan(n->notice_s) &&
	    begin_mark(l, "M-5-4H5L0 4Z", espl__html_at(&l->a, n->notice_s), top, "n")) {
		espl__print(&l->marks, "node %lld got an interruption notice at %s",
		    (long long)n->id, espl__html_seconds(n->notice_s, t));
		end_mark(l);
	}
	if (isnan(n->ended_s) || n->why[0] == '\0' || strcmp(n->why, "released") == 0 ||
	    strcmp(n->why, "ended") == 0)
		return;
	if (begin_mark(l, "M-4-4L4 4M4-4L-4 4", espl__html_at(&l->a, n->ended_s),
		(top + bottom) / 2, "k")) {
		espl__print(&l->marks, "node %lld at %s: ", (long long)n->id,
		    espl__html_seconds(n->ended_s, t));
		espl__html_text(&l->marks, n->why, 120);
		end_mark(l);
	}
}

static void
draw_lease(struct lanes *l, uint32_t node)
{
	struct espl__html *h = l->h;
	const struct espl__html_node *n = &h->nodes[node];
	double top = l->tops[node], bottom = l->tops[node + 1] - LANE_GAP, height = bottom - top,
	       x[4];
	double end = isnan(n->ended_s) ? h->now_s : n->ended_s;
	char label[48];

	/* What did not come to pass ends with the lease. */
	x[0] = espl__html_at(&l->a, n->requested_s);
	x[3] = espl__html_at(&l->a, end);
	x[2] = isnan(n->ready_s) ? x[3] : espl__html_at(&l->a, n->ready_s);
	x[1] = isnan(n->booting_s) ? x[2] : espl__html_at(&l->a, n->booting_s);
	espl__print(&h->b, "<g class=\"ls\"><title>");
	describe_node(h, n);
	espl__print(&h->b, "</title>");
	if (x[1] > x[0])
		espl__html_rect(&h->b, "rq", x[0], top, x[1] - x[0], height);
	if (x[2] > x[1])
		espl__html_rect(&h->b, "bo", x[1], top, x[2] - x[1], height);
	espl__html_rect(&h->b, "rd", x[2], top, x[3] - x[2], height);
	(void)snprintf(label, sizeof label, "node %lld", (long long)n->id);
	if (height >= 9 || node % 2 == 0)
		espl__html_label(&h->b, "ln", ESPL__HTML_LEFT - 7, (top + bottom) / 2 + 3.5, label);
	espl__print(&h->b, "</g>\n");
	mark_node(l, n, top, bottom);
}

/* ---- gangs -------------------------------------------------------------------------------- */

/* Which of the parts of a shared GPU: the first that is free when the gang comes. */
static uint32_t
take_seat(struct lanes *l, const struct espl__html_gang *g, const struct espl__html_slot *slot)
{
	double *seats = l->seats + (size_t)(l->h->nodes[slot->node].first_gpu + slot->gpu) * SEATS;
	uint32_t i, last = (g->packing < SEATS ? g->packing : SEATS) - 1;

	for (i = 0; i < last && seats[i] > g->starting_s + 1e-9; i++)
		;
	seats[i] = g->ended_s;
	return i;
}

static void
describe_gang(struct espl__html *h, const struct espl__html_gang *g)
{
	struct espl__buf *b = &h->b;
	char t[2][32], name[48];
	uint32_t i;

	espl__print(b, "trial %s, gang %lld", espl__trial_name((uint64_t)g->trial, name),
	    (long long)g->id);
	if (g->stage < h->stage_count) {
		espl__print(b, ", ");
		espl__html_stage_name(h, g->stage, b);
	}
	for (i = g->turn; i != 0; i = h->turns[i].next) {
		espl__print(b, ", from %s ", espl__html_seconds(h->turns[i].at_s, t[0]));
		espl__html_stage_name(h, h->turns[i].stage, b);
	}
	espl__print(b, "&#10;%s to %s", espl__html_seconds(g->starting_s, t[0]),
	    g->over ? espl__html_seconds(g->ended_s, t[1]) : "now");
	if (g->packing > 1)
		espl__print(b, " on 1/%u of a %s", (unsigned)g->packing, UNIT(h));
	else
		espl__print(b, " on %u %s", (unsigned)g->gpus, espl__html_unit(h, g->gpus));
	if (g->number > 0)
		espl__print(b, ", resized in place");
	if (g->running_s > g->starting_s)
		espl__print(b, ", running after %s",
		    espl__html_seconds(g->running_s - g->starting_s, t[0]));
	if (g->text != NULL) {
		espl__print(b, "&#10;");
		espl__html_text(b, g->text, 120);
	}
}

/* One stretch of GPUs: the start pale, then each stage that it worked for in its colour. */
static void
draw_stretch(struct lanes *l, const struct espl__html_gang *g, double y, double height)
{
	struct espl__html *h = l->h;
	double from = g->starting_s, to, end = espl__html_at(&l->a, g->ended_s), x;
	uint32_t i = g->turn, stage = g->stage;
	char classes[16], label[48];

	x = espl__html_at(&l->a, from);
	if (g->running_s > from && espl__html_at(&l->a, g->running_s) - x > 0.4) {
		(void)snprintf(classes, sizeof classes, "up s%u",
		    (unsigned)espl__html_colour(h, stage));
		espl__html_rect(&h->b, classes, x, y, espl__html_at(&l->a, g->running_s) - x,
		    height);
		from = g->running_s;
	} else if (isnan(g->running_s)) {
		(void)snprintf(classes, sizeof classes, "up s%u",
		    (unsigned)espl__html_colour(h, stage));
		espl__html_rect(&h->b, classes, x, y, end - x, height);
		return;
	}
	for (;;) {
		to = i != 0 && h->turns[i].at_s < g->ended_s ? h->turns[i].at_s : g->ended_s;
		if (to > from || i == 0) {
			x = espl__html_at(&l->a, from);
			(void)snprintf(classes, sizeof classes, "s%u",
			    (unsigned)espl__html_colour(h, stage));
			espl__html_rect(&h->b, classes, x, y, espl__html_at(&l->a, to) - x - 0.3,
			    height);
			from = to;
		}
		if (i == 0)
			break;
		stage = h->turns[i].stage;
		i = h->turns[i].next;
	}
	(void)espl__trial_name((uint64_t)g->trial, label);
	x = espl__html_at(&l->a, g->starting_s);
	if (height >= 8.5 && end - x > 6 + 5.6 * (double)strlen(label))
		espl__html_label(&h->b, "bt", (x + end) / 2, y + height / 2 + 3.2, label);
}

static void
draw_gang(struct lanes *l, const struct espl__html_gang *g)
{
	struct espl__html *h = l->h;
	const struct espl__html_slot *slots = h->slots + g->slot;
	double y = 0, gpu, height = 0;
	uint32_t i, n;
	char t[32], name[48];

	espl__print(&h->b, "<g class=\"gang\"><title>");
	describe_gang(h, g);
	espl__print(&h->b, "</title>");
	for (i = 0; i < g->slot_count; i += n) {
		const struct espl__html_node *node = &h->nodes[slots[i].node];

		for (n = 1; i + n < g->slot_count && slots[i + n].node == slots[i].node &&
		     slots[i + n].gpu == slots[i].gpu + n;
		     n++)
			;
		gpu = (l->tops[slots[i].node + 1] - LANE_GAP - l->tops[slots[i].node]) / node->gpus;
		y = l->tops[slots[i].node] + slots[i].gpu * gpu;
		height = gpu * n;
		if (g->packing > 1 && l->seats != NULL) {
			height = gpu / g->packing;
			y += take_seat(l, g, &slots[i]) * height;
		}
		draw_stretch(l, g, y + 0.3, height - 0.6);
	}
	espl__print(&h->b, "</g>\n");
	if (g->text != NULL && g->over && g->slot_count > 0 &&
	    begin_mark(l, "M-3-3L3 3M3-3L-3 3", espl__html_at(&l->a, g->ended_s), y + height / 2,
		"x")) {
		espl__print(&l->marks,
		    "trial %s, gang %lld at %s: ", espl__trial_name((uint64_t)g->trial, name),
		    (long long)g->id, espl__html_seconds(g->ended_s, t));
		espl__html_text(&l->marks, g->text, 120);
		end_mark(l);
	}
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* Returns the height of a GPU's row; 0: there are too many. */
static double
row_height(const struct espl__html *h)
{
	double row = h->gpu_count > 0 ? 1100.0 / h->gpu_count : 13, most = 13;
	uint64_t bars = 0;
	uint32_t i;

	for (i = 0; i < h->gang_count; i++) /* room for those that share */
		if (h->gangs[i].packing * 9.0 > most)
			most = h->gangs[i].packing * 9.0;
	most = most < 60 ? most : 60;
	row = row > most ? most : row < 3 ? 3 : row;
	if (row * h->gpu_count + (LANE_GAP + 6) * h->node_count > HEIGHT_MAX)
		return 0;
	for (i = 0; i < h->gang_count; i++)
		bars += 1 + h->gangs[i].gpus / 8;
	return bars > BARS_MAX ? 0 : row;
}

static void
draw_lanes(struct espl__html *h, double row, double *y, uint32_t *marks_left_out)
{
	struct lanes l = { .h = h, .a = espl__html_time(h) };
	double lane;
	uint32_t i;
	int packed = 0;

	l.tops = espl__alloc((h->node_count + (size_t)1) * sizeof *l.tops);
	for (i = 0; i < h->node_count; i++) {
		lane = row * h->nodes[i].gpus;
		l.tops[i] = *y;
		*y += (lane < 11 ? 11 : lane) + LANE_GAP;
	}
	l.tops[i] = *y;
	for (i = 0; i < h->gang_count; i++)
		packed |= h->gangs[i].packing > 1;
	if (packed)
		l.seats = espl__alloc((h->gpu_count + (size_t)1) * SEATS * sizeof *l.seats);
	for (i = 0; i < h->node_count; i++)
		draw_lease(&l, i);
	for (i = 0; i < h->gang_count; i++)
		draw_gang(&l, &h->gangs[i]);
	espl__put(&h->b, l.marks.data, l.marks.size);
	*marks_left_out = l.marks_left_out;
	espl__buf_free(&l.marks);
	free(l.tops);
	free(l.seats);
}

static void
write_legend(struct espl__html *h, int density)
{
	struct espl__buf *b = &h->b;
	uint32_t i, seen = 0, colour;

	espl__print(b, "<p class=\"legend\">");
	for (i = 0; i < h->stage_count; i++) {
		colour = espl__html_colour(h, i);
		if ((seen >> colour & 1) != 0)
			continue;
		seen |= 1u << colour;
		espl__print(b, "<span><i class=\"s%u\"></i>", (unsigned)colour);
		if (h->declared && !h->pool)
			espl__print(b, "stage %lld%s", (long long)h->stages[i].number,
			    h->brackets ? " of each bracket" : "");
		else
			espl__html_stage_name(h, i, b);
		espl__print(b, "</span> ");
	}
	if (density)
		espl__print(b, "<span><i class=\"rd\"></i>held, idle</span> ");
	else
		espl__print(b,
		    "<span><i class=\"rq\"></i>requested</span> <span><i "
		    "class=\"bo\"></i>booting</span> <span><i class=\"rd\"></i>held, idle</span> "
		    "<span><i class=\"s0 up\"></i>gang starts</span> <span><i "
		    "class=\"mx\">\xc3\x97</i>failed or lost</span> <span><i "
		    "class=\"mn\">\xe2\x96\xbc</i>notice</span>");
	espl__print(b, "</p>\n");
}

void
espl__html_gantt(struct espl__html *h)
{
	struct espl__html_axis a = espl__html_time(h);
	struct espl__buf body = { NULL, 0, 0 }, before = h->b;
	double y = 14, top = 4, row = row_height(h), deadline = h->r->totals.deadline_s;
	uint32_t left_out, marks = 0;

	h->b = body; /* the height is known when all is drawn */
	left_out = espl__html_strips(h, &y);
	if (row > 0)
		draw_lanes(h, row, &y, &marks);
	else
		espl__html_density(h, &y);
	if (deadline <= h->end_s) {
		espl__html_line(&h->b, "dl", espl__html_at(&a, deadline), top,
		    espl__html_at(&a, deadline), y);
		espl__html_label(&h->b, "dt", espl__html_at(&a, deadline) - 4, top + 6, "deadline");
	}
	body = h->b;
	h->b = before;
	espl__print(&h->b, "<section><h2>Nodes and trials</h2>\n");
	espl__html_open(&h->b, y + 18, "Planned and actual stages, above the use of each node");
	espl__html_time_grid(&h->b, &a, top, y);
	espl__put(&h->b, body.data, body.size);
	espl__print(&h->b, "</svg></div>\n");
	espl__buf_free(&body);
	write_legend(h, row == 0);
	if (row == 0)
		espl__print(&h->b,
		    "<p class=\"note\">%u nodes and %u gangs are too many to draw individually. "
		    "The color is that of the stage that used most %s; a paler color means that "
		    "more of the held %s were idle.</p>\n",
		    (unsigned)h->node_count, (unsigned)h->gang_count, UNITS(h), UNITS(h));
	if (left_out > 0)
		espl__print(&h->b,
		    "<p class=\"note\">%u stages that ran at the same time as ten others are not "
		    "drawn.</p>\n",
		    (unsigned)left_out);
	if (marks > 0)
		espl__print(&h->b,
		    "<p class=\"note\">%u more failures and notices are not marked.</p>\n",
		    (unsigned)marks);
	espl__print(&h->b, "</section>\n");
}
