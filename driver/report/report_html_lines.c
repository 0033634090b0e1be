/* report_html_lines.c - over time: GPUs held and busy, and money spent; beside them the plan's. */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define STEPS_MAX 1500u /* more are drawn as means */
#define BINS 500u
#define TOP 10.0
#define HEIGHT 170.0

struct step {
	double at_s, delta;
};
struct steps {
	struct step *list;
	size_t count, cap;
	double most;
};

static void
add_step(struct steps *s, double from, double to, double amount)
{
	if (!(to > from) || !(amount > 0))
		return;
	ESPL__GROW(s->list, s->cap, s->count + 2);
	s->list[s->count++] = (struct step){ from, amount };
	s->list[s->count++] = (struct step){ to, -amount };
}

static int
by_time(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	if (x->at_s != y->at_s)
		return x->at_s < y->at_s ? -1 : 1;
	return (x->delta > y->delta) - (x->delta < y->delta);
}

/* Turns changes into levels: `delta` becomes what holds from at_s on; one for each time. */
static void
sum_steps(struct steps *s)
{
	double sum = 0;
	size_t i, n = 0;

	if (s->count > 0)
		qsort(s->list, s->count, sizeof *s->list, by_time);
	for (i = 0; i < s->count; i++) {
		sum += s->list[i].delta;
		if (n == 0 || s->list[n - 1].at_s < s->list[i].at_s)
			n++;
		s->list[n - 1] = (struct step){ s->list[i].at_s, sum < 1e-9 ? 0 : sum };
	}
	s->count = n;
	for (i = 0; i < n; i++)
		s->most = s->list[i].delta > s->most ? s->list[i].delta : s->most;
}

/* Means over bins, in the place of more steps than can be seen. */
static void
thin_steps(struct steps *s, double end)
{
	double *mean, each = end / BINS, from, to, high;
	size_t i;
	uint32_t bin;

	if (s->count <= STEPS_MAX)
		return;
	mean = espl__alloc(BINS * sizeof *mean);
	for (i = 0; i < s->count; i++) {
		from = s->list[i].at_s;
		to = i + 1 < s->count ? s->list[i + 1].at_s : end;
		for (bin = from > 0 ? (uint32_t)(from / each) : 0; bin < BINS && bin * each < to;
		     bin++) {
			high = (bin + 1) * each < to ? (bin + 1) * each : to;
			if (high > from)
				mean[bin] += (high - from) / each * s->list[i].delta;
			from = high > from ? high : from;
		}
	}
	for (bin = 0; bin < BINS; bin++)
		s->list[bin] = (struct step){ bin * each, mean[bin] };
	s->list[BINS] = (struct step){ end, 0 };
	s->count = BINS + 1;
	free(mean);
}

static void
put_point(struct espl__buf *b, char what, double v)
{
	espl__print(b, "%c", what);
	espl__html_number(b, v);
}

static void
draw_steps(struct espl__html *h, const struct steps *s, const struct espl__html_axis *x,
    const struct espl__html_axis *y, const char *classes)
{
	size_t i;

	if (s->count == 0)
		return;
	espl__print(&h->b, "<path class=\"%s\" d=\"", classes);
	put_point(&h->b, 'M', espl__html_at(x, s->list[0].at_s));
	put_point(&h->b, ' ', espl__html_at(y, 0));
	for (i = 0; i < s->count; i++) {
		put_point(&h->b, 'V', espl__html_at(y, s->list[i].delta));
		put_point(&h->b, 'H',
		    espl__html_at(x, i + 1 < s->count ? s->list[i + 1].at_s : s->list[i].at_s));
	}
	espl__print(&h->b, "\"/>\n");
}

static void
write_key(struct espl__buf *b, const char *classes, const char *text)
{
	espl__print(b,
	    "<span><svg class=\"key\" viewBox=\"0 0 26 10\"><path class=\"%s\" d=\"M1 "
	    "5H25\"/></svg>%s</span> ",
	    classes, text);
}

/* ---- GPUs --------------------------------------------------------------------------------- */

/* What the plan gives its trials: all that fit at once. */
static double
planned_gpus(const struct espl__html_row *r)
{
	return r->gpus > 0 && r->gpus < 100000000 ? (double)r->gpus : 0;
}

static void
draw_gpus(struct espl__html *h)
{
	struct espl__html_axis x = espl__html_time(h),
			       y = { .high = 1, .from = TOP + HEIGHT, .to = TOP };
	struct steps held = { NULL, 0, 0, 0 }, busy = held, plan = held;
	uint32_t i;

	for (i = 0; i < h->node_count; i++)
		add_step(&held, h->nodes[i].ready_s,
		    isnan(h->nodes[i].ended_s) ? h->now_s : h->nodes[i].ended_s, h->nodes[i].gpus);
	for (i = 0; i < h->gang_count; i++)
		add_step(&busy, h->gangs[i].starting_s, h->gangs[i].ended_s,
		    (double)h->gangs[i].gpus / h->gangs[i].packing);
	for (i = 0; h->plan_count > 0 && i < h->plans[0].row_count; i++) {
		const struct espl__html_row *r = &h->rows[h->plans[0].row + i];

		add_step(&plan, r->starts_s, r->ends_s, planned_gpus(r));
	}
	sum_steps(&held);
	sum_steps(&busy);
	sum_steps(&plan);
	y.high = held.most > busy.most ? held.most : busy.most;
	y.high = plan.most > y.high ? plan.most : y.high;
	y.high = y.high > 0 ? y.high * 1.08 : 1;
	thin_steps(&held, h->end_s);
	thin_steps(&busy, h->end_s);
	espl__print(&h->b, "<section><h2>%s over time</h2>\n",
	    h->r->totals.on_cpu ? "Slots" : "GPUs");
	espl__html_open(&h->b, TOP + HEIGHT + 18,
	    h->r->totals.on_cpu ? "Held and busy slots over time" : "Held and busy GPUs over time");
	espl__html_time_grid(&h->b, &x, TOP, TOP + HEIGHT);
	espl__html_value_grid(&h->b, &y, "GPUs");
	draw_steps(h, &held, &x, &y, "ah");
	draw_steps(h, &busy, &x, &y, "ab");
	draw_steps(h, &plan, &x, &y, "lp");
	espl__print(&h->b,
	    "</svg></div>\n<p class=\"legend\"><span><i class=\"ah\"></i>held (ready)</span> "
	    "<span><i class=\"ab\"></i>busy</span> ");
	if (plan.count > 0)
		write_key(&h->b, "lp", h->plan_count > 1 ? "first plan" : "plan");
	espl__print(&h->b, "</p>\n</section>\n");
	free(held.list);
	free(busy.list);
	free(plan.list);
}

/* ---- money -------------------------------------------------------------------------------- */

struct part {
	double from_s, to_s, usd;
};
struct parts {
	struct part *list;
	uint32_t count, cap;
	double base, begin_s;
};

static void
add_part(struct parts *p, double from, double to, double usd)
{
	if (!(to >= from) || !isfinite(usd))
		return;
	ESPL__GROW(p->list, p->cap, p->count + 1);
	p->list[p->count++] = (struct part){ from, to, usd };
}

static double
spent_by(const struct parts *p, double at)
{
	double usd = p->base;
	uint32_t i;

	for (i = 0; i < p->count; i++) {
		const struct part *s = &p->list[i];

		usd += at >= s->to_s  ? s->usd
		    : at <= s->from_s ? 0
				      : s->usd * (at - s->from_s) / (s->to_s - s->from_s);
	}
	return usd;
}

static double
end_of(const struct parts *p)
{
	double end = p->begin_s;
	uint32_t i;

	for (i = 0; i < p->count; i++)
		end = p->list[i].to_s > end ? p->list[i].to_s : end;
	return end;
}

static void
draw_parts(struct espl__html *h, const struct parts *p, const struct espl__html_axis *x,
    const struct espl__html_axis *y, const char *classes)
{
	double end = end_of(p), at;
	uint32_t i;

	if (p->count == 0)
		return;
	espl__print(&h->b, "<path class=\"%s\" d=\"", classes);
	for (i = 0; i <= 240; i++) {
		at = p->begin_s + (end - p->begin_s) * i / 240;
		put_point(&h->b, i == 0 ? 'M' : 'L', espl__html_at(x, at));
		put_point(&h->b, ' ', espl__html_at(y, spent_by(p, at)));
	}
	espl__print(&h->b, "\"/>\n");
}

static void
draw_spent(struct espl__html *h, const struct espl__html_axis *x, const struct espl__html_axis *y)
{
	uint32_t i, n = h->spent_count > STEPS_MAX ? BINS : h->spent_count;
	double at, usd;

	espl__print(&h->b, "<path class=\"lr\" d=\"");
	for (i = 0; i < n; i++) {
		at = n == BINS ? h->now_s * i / (BINS - 1) : h->spent[i].at_s;
		usd = n == BINS ? espl__html_spent(h, at) : h->spent[i].usd;
		put_point(&h->b, i == 0 ? 'M' : 'L', espl__html_at(x, at));
		put_point(&h->b, ' ', espl__html_at(y, usd));
	}
	espl__print(&h->b, "\"/>\n");
}

static struct parts
planned_parts(const struct espl__html *h, uint32_t plan)
{
	struct parts p = { NULL, 0, 0, 0, 0 };
	const struct espl__html_plan *from = &h->plans[plan];
	uint32_t i;

	p.begin_s = from->at_s > 0 ? from->at_s : 0;
	p.base = plan > 0 ? espl__html_spent(h, p.begin_s) : 0;
	for (i = 0; i < from->row_count; i++) {
		const struct espl__html_row *r = &h->rows[from->row + i];

		add_part(&p, r->starts_s, r->ends_s, r->cost_usd);
	}
	return p;
}

static void
money_legend(struct espl__html *h, const struct parts *parts)
{
	struct espl__buf *b = &h->b;

	espl__print(b, "<p class=\"legend\">");
	write_key(b, "lr", "actual");
	if (parts[0].count > 0)
		write_key(b, "lp", h->plan_count > 1 ? "first plan" : "plan");
	if (parts[1].count > 0)
		write_key(b, "lq", "last plan");
	if (parts[2].count > 0)
		write_key(b, "lf", "cheapest static plan");
	espl__print(b, "</p>\n");
}

static void
draw_money(struct espl__html *h)
{
	struct espl__html_axis x = espl__html_time(h),
			       y = { .high = 1, .from = TOP + HEIGHT, .to = TOP };
	static const char *const classes[] = { "lp", "lq", "lf" };
	struct parts parts[3];
	double total = espl__html_spent(h, h->now_s), most = total,
	       budget = h->r->totals.budget_usd;
	uint32_t i;

	memset(parts, 0, sizeof parts);
	if (h->plan_count > 0)
		parts[0] = planned_parts(h, 0);
	if (h->plan_count > 1)
		parts[1] = planned_parts(h, h->plan_count - 1);
	for (i = 0; h->fixed != NULL && h->fixed->why_not == NULL && i < h->fixed->stage_count; i++)
		add_part(&parts[2], h->fixed->stages[i].starts_s, h->fixed->stages[i].ends_s,
		    h->fixed->stages[i].cost_usd);
	for (i = 0; i < 3; i++)
		most = fmax(most, spent_by(&parts[i], end_of(&parts[i])));
	if (most > 0) {
		y.high = budget > most && budget < most * 1.5 ? budget * 1.03 : most * 1.05;
		espl__print(&h->b, "<section><h2>Cost over time</h2>\n");
		espl__html_open(&h->b, TOP + HEIGHT + 18, "Dollars spent, over time");
		espl__html_time_grid(&h->b, &x, TOP, TOP + HEIGHT);
		espl__html_value_grid(&h->b, &y, "$");
		for (i = 3; i > 0; i--)
			draw_parts(h, &parts[i - 1], &x, &y, classes[i - 1]);
		draw_spent(h, &x, &y);
		if (budget <= y.high) {
			espl__html_line(&h->b, "dl", ESPL__HTML_LEFT, espl__html_at(&y, budget),
			    ESPL__HTML_RIGHT, espl__html_at(&y, budget));
			espl__html_label(&h->b, "dt", ESPL__HTML_RIGHT - 4,
			    espl__html_at(&y, budget) + 12, "budget");
		}
		espl__print(&h->b, "</svg></div>\n");
		money_legend(h, parts);
		espl__print(&h->b, "</section>\n");
	}
	for (i = 0; i < 3; i++)
		free(parts[i].list);
}

void
espl__html_lines(struct espl__html *h)
{
	if (h->node_count > 0)
		draw_gpus(h);
	draw_money(h);
}
