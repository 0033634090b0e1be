/* report_html_density.c - many nodes and gangs: lanes of nodes, coloured by how busy they were. */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define LANES_MAX 110u
#define BINS 250u
#define LEVELS 4u /* of how busy; drawn as opacity */

struct density {
	struct espl__html *h;
	uint32_t lanes, each; /* nodes to a lane */
	float *held;          /* [lane][bin]: GPU seconds */
	float *busy;          /* [lane][bin][colour] */
};

/* Adds gpus * (the seconds of each bin that from..to covers). */
static void
cover_bins(const struct espl__html *h, float *bins, uint32_t stride, double from, double to,
    double gpus)
{
	double each = h->end_s / BINS, low, high;
	uint32_t i, last;

	if (!(to > from) || !(from >= 0) || from >= h->end_s)
		return;
	last = to >= h->end_s ? BINS - 1 : (uint32_t)(to / each);
	for (i = (uint32_t)(from / each); i < BINS && i <= last; i++) {
		low = i * each > from ? i * each : from;
		high = (i + 1) * each < to ? (i + 1) * each : to;
		if (high > low)
			bins[i * stride] += (float)((high - low) * gpus);
	}
}

static float *
busy_of(const struct density *d, uint32_t node, uint32_t stage)
{
	return d->busy + (size_t)(node / d->each) * BINS * ESPL__HTML_COLOURS +
	    espl__html_colour(d->h, stage);
}

static void
add_gang(const struct density *d, const struct espl__html_gang *g)
{
	const struct espl__html *h = d->h;
	uint32_t i, t, stage;
	double from, gpus = 1.0 / g->packing;

	for (i = 0; i < g->slot_count; i++) {
		uint32_t node = h->slots[g->slot + i].node;

		stage = g->stage;
		from = g->starting_s;
		for (t = g->turn; t != 0; t = h->turns[t].next) {
			cover_bins(h, busy_of(d, node, stage), ESPL__HTML_COLOURS, from,
			    h->turns[t].at_s, gpus);
			stage = h->turns[t].stage;
			from = h->turns[t].at_s;
		}
		cover_bins(h, busy_of(d, node, stage), ESPL__HTML_COLOURS, from, g->ended_s, gpus);
	}
}

/* 0: nothing is held; 1: idle; 2 + colour * LEVELS + level. */
static uint32_t
shade_of_cell(const struct density *d, size_t cell)
{
	const float *busy = d->busy + cell * ESPL__HTML_COLOURS;
	float sum = 0, part;
	uint32_t i, most = 0, level;

	for (i = 0; i < ESPL__HTML_COLOURS; i++) {
		sum += busy[i];
		if (busy[i] > busy[most])
			most = i;
	}
	if (!(sum > 0))
		return d->held[cell] > 0;
	part = d->held[cell] > sum ? sum / d->held[cell] : 1;
	level = (uint32_t)(part * LEVELS);
	return 2 + most * LEVELS + (level < LEVELS ? level : LEVELS - 1);
}

/* Runs of one shade become one stretch; all stretches of a shade one path. */
static void
draw_cells(struct density *d, double top, double height)
{
	struct espl__html *h = d->h;
	struct espl__html_axis a = espl__html_time(h);
	struct espl__buf paths[2 + ESPL__HTML_COLOURS * LEVELS];
	uint32_t lane, i, run, which;
	double x;

	memset(paths, 0, sizeof paths);
	for (lane = 0; lane < d->lanes; lane++)
		for (i = 0; i < BINS; i += run) {
			which = shade_of_cell(d, (size_t)lane * BINS + i);
			for (run = 1; i + run < BINS &&
			     shade_of_cell(d, (size_t)lane * BINS + i + run) == which;
			     run++)
				;
			if (which == 0)
				continue;
			x = espl__html_at(&a, h->end_s * i / BINS);
			espl__print(&paths[which], "M");
			espl__html_number(&paths[which], x);
			espl__print(&paths[which], " ");
			espl__html_number(&paths[which], top + (lane + 0.5) * height);
			espl__print(&paths[which], "h");
			espl__html_number(&paths[which],
			    espl__html_at(&a, h->end_s * (i + run) / BINS) - x);
		}
	for (i = 1; i < 2 + ESPL__HTML_COLOURS * LEVELS; i++) {
		if (paths[i].size > 0 && i == 1)
			espl__print(&h->b, "<path class=\"de rd\" stroke-width=\"%.1f\" d=\"",
			    height * 0.84);
		else if (paths[i].size > 0)
			espl__print(&h->b,
			    "<path class=\"de s%u\" stroke-width=\"%.1f\" opacity=\"%.2f\" d=\"",
			    (unsigned)((i - 2) / LEVELS), height * 0.84,
			    0.4 + 0.2 * ((i - 2) % LEVELS));
		if (paths[i].size > 0) {
			espl__put(&h->b, paths[i].data, paths[i].size);
			espl__print(&h->b, "\"/>\n");
		}
		espl__buf_free(&paths[i]);
	}
}

static void
draw_names(struct density *d, double top, double height)
{
	struct espl__html *h = d->h;
	uint32_t lane, last, every = height >= 11 ? 1 : (uint32_t)ceil(11 / height);
	char text[64];

	for (lane = 0; lane < d->lanes; lane += every) {
		last = (lane + 1) * d->each - 1;
		last = last < h->node_count ? last : h->node_count - 1;
		if (d->each == 1)
			(void)snprintf(text, sizeof text, "node %lld",
			    (long long)h->nodes[lane].id);
		else
			(void)snprintf(text, sizeof text, "nodes %lld\xe2\x80\x93%lld",
			    (long long)h->nodes[lane * d->each].id, (long long)h->nodes[last].id);
		espl__html_label(&h->b, "ln", ESPL__HTML_LEFT - 7,
		    top + (lane + 0.5) * height + 3.5, text);
	}
}

void
espl__html_density(struct espl__html *h, double *y)
{
	struct density d = { .h = h };
	double height;
	uint32_t i;

	if (h->node_count == 0)
		return;
	d.each = (h->node_count + LANES_MAX - 1) / LANES_MAX;
	d.lanes = (h->node_count + d.each - 1) / d.each;
	d.held = espl__alloc((size_t)d.lanes * BINS * sizeof *d.held);
	d.busy = espl__alloc((size_t)d.lanes * BINS * ESPL__HTML_COLOURS * sizeof *d.busy);
	for (i = 0; i < h->node_count; i++) {
		const struct espl__html_node *n = &h->nodes[i];

		cover_bins(h, d.held + (size_t)(i / d.each) * BINS, 1, n->requested_s,
		    isnan(n->ended_s) ? h->now_s : n->ended_s, n->gpus);
	}
	for (i = 0; i < h->gang_count; i++)
		add_gang(&d, &h->gangs[i]);
	height = 1000.0 / d.lanes;
	height = height > 22 ? 22 : height;
	draw_cells(&d, *y, height);
	draw_names(&d, *y, height);
	*y += height * d.lanes + 4;
	free(d.held);
	free(d.busy);
}
