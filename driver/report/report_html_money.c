/* report_html_money.c - what was spent by when, and by which stage.
 *
 * Charges are told when a machine changes its state; between two of them its cost grows evenly.
 */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

struct change {
	double at_s, rate, jump;
}; /* dollars a second from now on; at once */
struct changes {
	struct change *list;
	size_t count, cap;
};

static void
add_change(struct changes *c, double at, double rate, double jump)
{
	ESPL__GROW(c->list, c->cap, c->count + 1);
	c->list[c->count++] = (struct change){ at, rate, jump };
}

static void
add_spending(struct changes *c, double from, double to, double usd)
{
	if (!isfinite(usd) || usd == 0)
		return;
	if (to - from > 1e-9 && usd > 0) {
		add_change(c, from, usd / (to - from), 0);
		add_change(c, to, -usd / (to - from), 0);
	} else { /* data, the first minute; or what was given back */
		add_change(c, to, 0, usd);
	}
}

static int
by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->at_s != y->at_s)
		return x->at_s < y->at_s ? -1 : 1;
	if (x->rate != y->rate)
		return x->rate < y->rate ? -1 : 1;
	return (x->jump > y->jump) - (x->jump < y->jump);
}

static void
add_point(struct espl__html *h, double at, double usd)
{
	ESPL__GROW(h->spent, h->spent_cap, h->spent_count + 1);
	h->spent[h->spent_count++] = (struct espl__html_point){ at, usd };
}

static void
sum_up(struct espl__html *h, struct changes *c)
{
	double at = 0, usd = 0, rate = 0;
	size_t i;

	if (c->count > 0)
		qsort(c->list, c->count, sizeof *c->list, by_time);
	add_point(h, 0, 0);
	for (i = 0; i < c->count; i++) {
		const struct change *x = &c->list[i];

		if (x->at_s > at) {
			usd += rate * (x->at_s - at);
			at = x->at_s;
			add_point(h, at, usd);
		}
		rate += x->rate;
		usd += x->jump;
		if (x->jump != 0)
			add_point(h, at, usd);
	}
	if (h->now_s > at)
		add_point(h, h->now_s, usd);
}

static double
limit_to_now(const struct espl__html *h, double at)
{
	return at > 0 ? at < h->now_s ? at : h->now_s : 0;
}

/* What machines that are still held have cost since they were charged last. */
static void
spend_rest(struct espl__html *h, struct changes *c, const double *last, double charged)
{
	double rest = h->r->totals.cost_usd - charged, weight = 0;
	uint32_t i;

	if (!(rest > 1e-6))
		return;
	for (i = 0; i < h->node_count; i++)
		if (isnan(h->nodes[i].ended_s) && h->nodes[i].price_hour > 0)
			weight += (h->now_s - last[i]) * h->nodes[i].price_hour;
	for (i = 0; i < h->node_count && weight > 0; i++)
		if (isnan(h->nodes[i].ended_s) && h->nodes[i].price_hour > 0)
			add_spending(c, last[i], h->now_s,
			    rest * (h->now_s - last[i]) * h->nodes[i].price_hour / weight);
	if (!(weight > 0))
		add_spending(c, h->now_s, h->now_s, rest);
}

static espl_status
read_charges(struct espl__html *h, struct changes *c)
{
	sqlite3_stmt *st = espl__reading_query(h->r,
	    "SELECT node, at_s, usd FROM charges ORDER BY node, rowid", -1, -1, h->diag);
	double *last = espl__alloc((h->node_count + (size_t)1) * sizeof *last), at, usd,
	       charged = 0;
	uint32_t i;
	int more = -1;

	for (i = 0; i < h->node_count; i++) {
		const struct espl__html_node *n = &h->nodes[i];

		last[i] = limit_to_now(h, !isnan(n->billed_s) ? n->billed_s : n->requested_s);
	}
	i = 0;
	while (st != NULL && (more = espl__reading_next(h->r, st, h->diag)) == 1) {
		while (i < h->node_count && h->nodes[i].id < sqlite3_column_int64(st, 0))
			i++;
		at = limit_to_now(h, espl__reading_real(st, 1));
		usd = espl__reading_real(st, 2);
		if (!isfinite(usd))
			continue;
		charged += usd;
		if (i < h->node_count && h->nodes[i].id == sqlite3_column_int64(st, 0)) {
			add_spending(c, last[i], at, usd);
			last[i] = at > last[i] ? at : last[i];
		} else {
			add_spending(c, at, at, usd);
		}
	}
	(void)sqlite3_finalize(st);
	spend_rest(h, c, last, charged);
	free(last);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

double
espl__html_spent(const struct espl__html *h, double at)
{
	uint32_t low = 0, high = h->spent_count, middle;
	const struct espl__html_point *p, *q;

	while (low < high) { /* the first point later than `at` */
		middle = low + (high - low) / 2;
		if (h->spent[middle].at_s <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	p = &h->spent[low - 1];
	if (low == h->spent_count)
		return p->usd;
	q = &h->spent[low];
	return p->usd + (q->usd - p->usd) * (at - p->at_s) / (q->at_s - p->at_s);
}

static double
end_of_stage(const struct espl__html *h, const struct espl__html_stage *s)
{
	return isnan(s->ended_s) ? h->now_s : s->ended_s;
}

/* A stage costs what was spent between its begin and its end.  Where stages ran side by side, all
 * is shared out by the GPU time that they used. */
static void
cost_stages(struct espl__html *h)
{
	double busy = 0;
	uint32_t i, k;

	for (i = 0; i < h->stage_count; i++) {
		struct espl__html_stage *s = &h->stages[i];

		busy += s->busy_gpu_s;
		for (k = 0; k < h->stage_count && !s->shared; k++)
			s->shared = k != i && h->stages[k].begun_s < end_of_stage(h, s) - 1e-9 &&
			    end_of_stage(h, &h->stages[k]) > s->begun_s + 1e-9;
	}
	for (i = 0; i < h->stage_count; i++) {
		struct espl__html_stage *s = &h->stages[i];

		if (!s->shared)
			s->cost_usd = espl__html_spent(h, end_of_stage(h, s)) -
			    espl__html_spent(h, s->begun_s);
	}
	for (i = 0, k = h->pool != 0; i < h->stage_count; i++)
		k += h->stages[i].shared != 0;
	for (i = 0; i < h->stage_count && k > 0; i++) {
		h->stages[i].shared = 1;
		if (busy > 0)
			h->stages[i].cost_usd =
			    espl__html_spent(h, h->now_s) * h->stages[i].busy_gpu_s / busy;
	}
}

espl_status
espl__html_load_money(struct espl__html *h)
{
	struct changes c = { NULL, 0, 0 };
	espl_status status = read_charges(h, &c);

	sum_up(h, &c);
	free(c.list);
	cost_stages(h);
	return status;
}
