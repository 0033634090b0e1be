/* report_html_gpus.c - how much of its time each GPU was used, and what each resize cost and
 * brought. */
#include "report/report_html_impl.h"

#include <math.h>

#define ROWS_MAX 64u /* more GPUs than these are drawn node by node */
#define RESIZES_MAX 50
#define TOP 6.0
#define ROW 15.0
#define PERCENT 44.0 /* to the right of the bars */

/* ---- use ---------------------------------------------------------------------------------- */

struct use {
	/* there; with anybody on it; the parts that were taken */
	double held_s, used_s, share_s;
	double end_s; /* of the stay that ends last so far */
	uint32_t stays;
};

/* The stays come in order of their begins: what two of them share of a GPU's time counts once. */
static void
add_stay(const struct espl__html *h, const struct espl__html_gang *g, struct use *use)
{
	uint32_t i;

	for (i = 0; i < g->slot_count; i++) {
		const struct espl__html_slot *slot = &h->slots[g->slot + i];
		const struct espl__html_node *n = &h->nodes[slot->node];
		struct use *u = &use[n->first_gpu + slot->gpu];
		double from = fmax(g->starting_s, n->ready_s),
		       to = fmin(g->ended_s, isnan(n->ended_s) ? h->now_s : n->ended_s);

		u->stays++;
		if (isnan(n->ready_s) || !(to > from))
			continue;
		u->share_s += (to - from) / g->packing;
		if (to > fmax(from, u->end_s))
			u->used_s += to - fmax(from, u->end_s);
		u->end_s = fmax(u->end_s, to);
	}
}

/* [GPU], in order of nodes; free() it. */
static struct use *
count_use(const struct espl__html *h)
{
	struct use *use = espl__alloc((h->gpu_count + (size_t)1) * sizeof *use);
	uint32_t i, k;

	for (i = 0; i < h->node_count; i++) {
		const struct espl__html_node *n = &h->nodes[i];
		double held = (isnan(n->ended_s) ? h->now_s : n->ended_s) - n->ready_s;

		for (k = 0; k < n->gpus; k++) {
			use[n->first_gpu + k] = (struct use){ .end_s = -INFINITY };
			use[n->first_gpu + k].held_s = held > 0 ? held : 0;
		}
	}
	for (i = 0; i < h->gang_count; i++)
		add_stay(h, &h->gangs[i], use);
	return use;
}

static struct use
sum_of(const struct use *use, uint32_t count)
{
	struct use all = { 0, 0, 0, 0, 0 };
	uint32_t i;

	for (i = 0; i < count; i++) {
		all.held_s += use[i].held_s;
		all.used_s += use[i].used_s;
		all.share_s += use[i].share_s;
		all.stays += use[i].stays;
	}
	return all;
}

static double
part_of(double part, double whole)
{
	return whole > 0 && part < whole ? part / whole : part > 0 && whole > 0 ? 1 : 0;
}

static void
draw_row(struct espl__html *h, const struct espl__html_axis *x, double y, const char *name,
    const struct use *u)
{
	char text[96], t[32];
	double used = part_of(u->used_s, u->held_s), right = espl__html_at(x, used);

	espl__print(&h->b, "<g class=\"gu\"><title>%s: %s of %s, %u gang%s</title>", name,
	    espl__html_seconds(u->used_s, text), espl__html_seconds(u->held_s, t),
	    (unsigned)u->stays, u->stays == 1 ? "" : "s");
	espl__html_rect(&h->b, "ah", x->from, y, x->to - x->from, ROW - 3);
	if (used > 0)
		espl__html_rect(&h->b, "ab", x->from, y, right - x->from, ROW - 3);
	(void)snprintf(text, sizeof text, "%.0f %%", 100 * used);
	espl__html_label(&h->b, "st", x->to + 6, y + ROW - 5.5, text);
	espl__html_label(&h->b, "ln", ESPL__HTML_LEFT - 7, y + ROW - 5.5, name);
	espl__print(&h->b, "</g>\n");
}

/* A row for each GPU, or where there are many for each node. */
static uint32_t
draw_rows(struct espl__html *h, const struct espl__html_axis *x, const struct use *use)
{
	int each = h->gpu_count <= ROWS_MAX;
	uint32_t i, k, row = 0;
	char name[48];

	for (i = 0; i < h->node_count; i++) {
		const struct espl__html_node *n = &h->nodes[i];

		for (k = 0; k < (each ? n->gpus : 1) && row < ROWS_MAX; k++, row++) {
			struct use u = sum_of(&use[n->first_gpu + k], each ? 1 : n->gpus);

			if (each)
				(void)snprintf(name, sizeof name, "node %lld, %s %u",
				    (long long)n->id, UNIT(h), (unsigned)k);
			else
				(void)snprintf(name, sizeof name, "node %lld", (long long)n->id);
			draw_row(h, x, TOP + row * ROW, name, &u);
		}
	}
	return row;
}

static void
draw_use(struct espl__html *h)
{
	struct espl__html_axis x = { .high = 1,
		.from = ESPL__HTML_LEFT,
		.to = ESPL__HTML_RIGHT - PERCENT };
	struct espl__buf body = { NULL, 0, 0 }, before = h->b;
	struct use *use = count_use(h), all = sum_of(use, h->gpu_count);
	uint32_t rows;
	char t[3][32];

	h->b = body; /* the height is known when all is drawn */
	rows = draw_rows(h, &x, use);
	body = h->b;
	h->b = before;
	espl__html_open(&h->b, TOP + rows * ROW,
	    h->r->totals.on_cpu ? "Fraction of the time that each slot was in use"
				: "Fraction of the time that each GPU was in use");
	espl__put(&h->b, body.data, body.size);
	espl__print(&h->b,
	    "</svg></div>\n"
	    "<p class=\"legend\"><span><i class=\"ah\"></i>held (ready)</span> <span><i "
	    "class=\"ab\"></i>used by at least one trial</span></p>\n"
	    "<p class=\"note\">%.1f %% of the time of all %s was in use: %s of %s",
	    100 * part_of(all.used_s, all.held_s), UNITS(h), espl__html_seconds(all.used_s, t[0]),
	    espl__html_seconds(all.held_s, t[1]));
	if (all.share_s < all.used_s * (1 - 1e-9))
		espl__print(&h->b, "; the trials' shares sum to %s",
		    espl__html_seconds(all.share_s, t[2]));
	espl__print(&h->b,
	    ". Which trial used which slot, and when: espalier export DIR --format csv --table "
	    "gpu_map</p>\n");
	if (rows == ROWS_MAX && (h->gpu_count > ROWS_MAX ? h->node_count : h->gpu_count) > ROWS_MAX)
		espl__print(&h->b, "<p class=\"note\">Showing the first %u of %u nodes.</p>\n",
		    ROWS_MAX, (unsigned)h->node_count);
	espl__buf_free(&body);
	free(use);
}

/* ---- resizes ------------------------------------------------------------------------------ */

enum {
	AT,
	TRIAL,
	IN_PLACE,
	GPUS_BEFORE,
	PACKING_BEFORE,
	GPUS,
	PACKING,
	PAUSE,
	BEFORE,
	AFTER,
	ITERATIONS,
	GAINED,
	MORE
};
static const char resizes_sql[] =
    "SELECT at_s, trial, in_place, gpus_before, packing_before, gpus, packing, pause_s, "
    "iteration_before_s,"
    " iteration_s, iterations, gained_s, more_gpu_s FROM resizes ORDER BY at_s, trial";

struct sums {
	int64_t count, in_place;
	int64_t moved;            /* to as many GPUs elsewhere */
	double pause_s;           /* of those of which it is known */
	double sooner_s, later_s; /* of those that got more, and of those that got less */
	double more_gpu_s, less_gpu_s;
};

static void
sum_up(struct sums *s, sqlite3_stmt *st)
{
	double pause = espl__reading_real(st, PAUSE), gained = espl__reading_real(st, GAINED),
	       more = espl__reading_real(st, MORE);
	double wider = (double)sqlite3_column_int64(st, GPUS) *
		(double)sqlite3_column_int64(st, PACKING_BEFORE) -
	    (double)sqlite3_column_int64(st, GPUS_BEFORE) *
		(double)sqlite3_column_int64(st, PACKING);

	s->count++;
	s->in_place += sqlite3_column_int64(st, IN_PLACE) != 0;
	s->moved += !(wider > 0 || wider < 0);
	s->pause_s += isfinite(pause) ? pause : 0;
	if (wider > 0)
		s->sooner_s += isfinite(gained) ? gained : 0;
	else if (wider < 0)
		s->later_s -= isfinite(gained) ? gained : 0;
	if (isfinite(more))
		*(more > 0 ? &s->more_gpu_s : &s->less_gpu_s) += fabs(more);
}

static void
share_cell(struct espl__buf *b, sqlite3_stmt *st, int gpus)
{
	int64_t packing = sqlite3_column_int64(st, gpus + 1);

	if (packing > 1)
		espl__print(b, "<td>1/%lld</td>", (long long)packing);
	else
		espl__print(b, "<td>%lld</td>", sqlite3_column_int64(st, gpus));
}

static void
time_cell(struct espl__buf *b, sqlite3_stmt *st, int column)
{
	char t[32];

	espl__print(b, "<td>%s</td>", espl__html_seconds(espl__reading_real(st, column), t));
}

static void
resize_line(struct espl__buf *b, sqlite3_stmt *st)
{
	char name[48];

	espl__print(b, "<tr class=\"rz\">");
	time_cell(b, st, AT);
	espl__print(b, "<td>%s</td>",
	    espl__trial_name((uint64_t)sqlite3_column_int64(st, TRIAL), name));
	share_cell(b, st, GPUS_BEFORE);
	share_cell(b, st, GPUS);
	espl__print(b, "<td class=\"w\">%s</td>",
	    sqlite3_column_int64(st, IN_PLACE) != 0 ? "in place" : "by checkpoint");
	time_cell(b, st, PAUSE);
	time_cell(b, st, BEFORE);
	time_cell(b, st, AFTER);
	espl__print(b, "<td>%lld</td>", sqlite3_column_int64(st, ITERATIONS));
	time_cell(b, st, GAINED);
	time_cell(b, st, MORE);
	espl__print(b, "</tr>\n");
}

static void
tell_sums(struct espl__html *h, const struct sums *s)
{
	struct espl__buf *b = &h->b;
	char t[5][32], moved[64] = "";

	if (s->moved > 0)
		(void)snprintf(moved, sizeof moved, ", %lld only moved to other %s",
		    (long long)s->moved, UNITS(h));
	espl__print(b,
	    "<p class=\"note\">%lld resize%s, %lld in place%s; the resized trials paused for %s in "
	    "total. Trials that grew finished %s %s than at their previous pace and used %s more "
	    "%s time; trials that shrank finished %s %s and freed %s of it for others.</p>\n",
	    (long long)s->count, s->count == 1 ? "" : "s", (long long)s->in_place, moved,
	    espl__html_seconds(s->pause_s, t[0]), espl__html_seconds(fabs(s->sooner_s), t[1]),
	    s->sooner_s < 0 ? "later" : "sooner", espl__html_seconds(s->more_gpu_s, t[2]), UNIT(h),
	    espl__html_seconds(fabs(s->later_s), t[3]), s->later_s < 0 ? "sooner" : "later",
	    espl__html_seconds(s->less_gpu_s, t[4]));
	if (s->count > RESIZES_MAX)
		espl__print(b,
		    "<p class=\"note\">Showing the first %d. For all, use espalier export DIR "
		    "--format csv --table resizes</p>\n",
		    RESIZES_MAX);
}

static espl_status
write_resizes(struct espl__html *h)
{
	sqlite3_stmt *st = espl__reading_query(h->r, resizes_sql, -1, -1, h->diag);
	struct espl__buf *b = &h->b;
	struct sums sums = { 0, 0, 0, 0, 0, 0, 0, 0 };
	int more = -1;

	while (st != NULL && (more = espl__reading_next(h->r, st, h->diag)) == 1) {
		if (sums.count == 0)
			espl__print(b,
			    "<section><h2>Resizes while training</h2>\n<div "
			    "class=\"scroll\"><table><thead><tr><th>at</th>"
			    "<th>trial</th><th>%s</th><th>then</th><th "
			    "class=\"w\">how</th><th>paused</th>"
			    "<th>iteration "
			    "before</th><th>after</th><th>iterations</th><th>gained</th>"
			    "<th>more %s time</th></tr></thead>\n<tbody>\n",
			    UNITS(h), UNIT(h));
		if (sums.count < RESIZES_MAX)
			resize_line(b, st);
		sum_up(&sums, st);
	}
	(void)sqlite3_finalize(st);
	if (sums.count > 0) {
		espl__print(b, "</tbody></table></div>\n");
		tell_sums(h, &sums);
		espl__print(b, "</section>\n");
	}
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__html_gpus(struct espl__html *h)
{
	if (h->node_count == 0 || h->gang_count == 0)
		return ESPL_OK;
	espl__print(&h->b, "<section><h2>Use of each %s</h2>\n", UNIT(h));
	draw_use(h);
	espl__print(&h->b, "</section>\n");
	return write_resizes(h);
}
