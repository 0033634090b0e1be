/* report_html_curves.c - learning curves by rung: the furthest and best, and a sample of the rest.
 */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define CURVES_MAX 240u
#define BEST 60u /* of them: those that came furthest */
#define RUNGS_MAX 64u
#define POINTS_MAX 160u /* of a curve */
#define TOP 20.0
#define HEIGHT 330.0

struct point {
	int64_t iteration;
	double metric;
};
struct curve {
	uint32_t trial, from, count;
};
struct curves {
	struct espl__html *h;
	struct curve *list;
	uint32_t count, cap, trials; /* trials: drawn or not */
	struct point *points;
	uint32_t point_count, point_cap;
	struct espl__html_axis x, y;
	uint32_t outside; /* points above or below the frame */
};

struct rank {
	int64_t iteration, id;
	double loss;
	uint32_t trial;
	int best;
};

static int
by_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->best != y->best)
		return x->best ? -1 : 1;
	if (x->iteration != y->iteration)
		return x->iteration > y->iteration ? -1 : 1;
	if (x->loss != y->loss)
		return x->loss < y->loss ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

uint32_t *
espl__html_ranked(const struct espl__html *h, uint32_t *count)
{
	struct rank *ranks = espl__alloc((h->trial_count + (size_t)1) * sizeof *ranks);
	uint32_t *list = espl__alloc((h->trial_count + (size_t)1) * sizeof *list), i, n = 0;

	for (i = 0; i < h->trial_count; i++) {
		const struct espl__html_trial *t = &h->trials[i];

		if (h->only >= 0 && t->id >> ESPL__TRIAL_BITS != h->only)
			continue;
		ranks[n++] = (struct rank){ t->iteration, t->id,
			isnan(t->metric)            ? INFINITY
			    : h->r->totals.maximize ? 0 - t->metric
						    : t->metric,
			i, t->id == h->r->totals.best };
	}
	qsort(ranks, n, sizeof *ranks, by_rank);
	for (i = 0; i < n; i++)
		list[i] = ranks[i].trial;
	free(ranks);
	*count = n;
	return list;
}

/* ---- what is drawn ------------------------------------------------------------------------ */

/* Every n-th report where there are more than can be seen, and the last. */
static espl_status
read_curve(struct curves *c, sqlite3_stmt *st, uint32_t trial)
{
	struct espl__html *h = c->h;
	struct curve curve = { trial, c->point_count, 0 };
	int64_t count = h->trials[trial].iteration, nth = count / POINTS_MAX + 1, seen = 0;
	int more;

	if (sqlite3_reset(st) != SQLITE_OK ||
	    sqlite3_bind_int64(st, 1, h->trials[trial].id) != SQLITE_OK)
		return espl__fail(h->diag, ESPL_E_REMOTE, "cannot read results.db: %s",
		    sqlite3_errmsg(h->r->db));
	while ((more = espl__reading_next(h->r, st, h->diag)) == 1) {
		struct point p = { sqlite3_column_int64(st, 0), espl__reading_real(st, 1) };

		if (!isfinite(p.metric) || p.iteration < 0 ||
		    (seen++ % nth != 0 && p.iteration != count) || curve.count >= 2 * POINTS_MAX)
			continue;
		ESPL__GROW(c->points, c->point_cap, c->point_count + 1);
		c->points[c->point_count++] = p;
		curve.count++;
	}
	if (curve.count > 0) {
		ESPL__GROW(c->list, c->cap, c->count + 1);
		c->list[c->count++] = curve;
	}
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* The foremost, and of each stage as many of the rest, evenly by rank. */
static espl_status
read_curves(struct curves *c)
{
	struct espl__html *h = c->h;
	sqlite3_stmt *st = espl__reading_query(h->r,
	    "SELECT iteration, metric FROM reports WHERE trial = ?1"
	    " ORDER BY iteration",
	    -1, -1, h->diag);
	uint32_t *ranked = espl__html_ranked(h, &c->trials), stages = h->stage_count + 1, used = 0,
		 i, s;
	uint64_t *count = espl__alloc(2 * stages * sizeof *count), *seen = count + stages, want;
	espl_status status = st != NULL ? ESPL_OK : ESPL_E_REMOTE;

	for (i = BEST; i < c->trials; i++) {
		s = h->trials[ranked[i]].stage;
		used += count[s < stages ? s : stages - 1]++ == 0;
	}
	for (i = 0; i < c->trials && c->count < 2 * CURVES_MAX && status == ESPL_OK; i++) {
		if (i >= BEST && c->trials > CURVES_MAX) {
			s = h->trials[ranked[i]].stage;
			s = s < stages ? s : stages - 1;
			want = (CURVES_MAX - BEST + used - 1) / used;
			want = want < count[s] ? want : count[s];
			seen[s]++;
			if (seen[s] * want / count[s] == (seen[s] - 1) * want / count[s])
				continue;
		}
		status = read_curve(c, st, ranked[i]);
	}
	(void)sqlite3_finalize(st);
	free(count);
	free(ranked);
	return status;
}

/* ---- axes --------------------------------------------------------------------------------- */

static int
by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double
quantile_of(const double *sorted, uint32_t count, double q)
{
	return sorted[(uint32_t)(q * (count - 1) + 0.5)];
}

/* From the best on; beyond the worst values of nearly all curves lies nothing of interest. */
static void
frame_metric(struct curves *c)
{
	double *v = espl__alloc((c->point_count + (size_t)c->count + 1) * sizeof *v);
	double low, high, sign;
	uint32_t i, k;

	sign = c->h->r->totals.maximize ? -1 : 1;
	low = high = sign * c->points[0].metric;
	for (i = 0; i < c->count; i++) {
		v[i] = -INFINITY;
		for (k = 0; k < c->list[i].count; k++) {
			double loss = sign * c->points[c->list[i].from + k].metric;

			v[i] = loss > v[i] ? loss : v[i];
			low = loss < low ? loss : low;
		}
	}
	qsort(v, c->count, sizeof *v, by_value);
	high = v[c->count - 1];
	if (c->count >= 10 && high - low > 3 * (quantile_of(v, c->count, 0.95) - low))
		high = quantile_of(v, c->count, 0.95);
	c->y.low = sign > 0 ? low : -high;
	c->y.high = sign > 0 ? high : -low;
	free(v);
	if (c->h->log_scale && c->y.low > 0) {
		c->y.kind = ESPL__HTML_LOG;
		c->y.low /= 1.15;
		c->y.high *= 1.15;
	} else {
		low = high > low ? (high - low) * 0.04 : fabs(low) > 0 ? fabs(low) * 0.1 : 1;
		c->y.low -= low;
		c->y.high += low;
	}
	if (!isfinite(c->y.high - c->y.low) || !(c->y.high > c->y.low))
		c->y = (struct espl__html_axis){ .low = -1,
			.high = 1,
			.from = c->y.from,
			.to = c->y.to };
}

static void
set_axes(struct curves *c)
{
	int64_t most = 1;
	uint32_t i;

	for (i = 0; i < c->point_count; i++)
		most = c->points[i].iteration > most ? c->points[i].iteration : most;
	c->x = (struct espl__html_axis){ .high = (double)most,
		.from = ESPL__HTML_LEFT + 8,
		.to = ESPL__HTML_RIGHT - 72 };
	c->y = (struct espl__html_axis){ .high = 1, .from = TOP + HEIGHT, .to = TOP };
	if (c->h->log_scale && most > 1) {
		c->x.kind = ESPL__HTML_LOG;
		c->x.low = 1;
	}
	frame_metric(c);
}

/* ---- drawing ------------------------------------------------------------------------------ */

/* The iterations at which rungs end, rising. */
static uint32_t
rungs_of(const struct curves *c, int64_t to[RUNGS_MAX])
{
	const struct espl__html *h = c->h;
	uint32_t count = 0, i, k;

	for (i = 0; i < h->stage_count && !h->pool && count < RUNGS_MAX; i++) {
		int64_t budget = h->stages[i].budget;

		for (k = count; k > 0 && to[k - 1] > budget; k--)
			;
		if (budget <= 0 || (double)budget > c->x.high || (k > 0 && to[k - 1] == budget))
			continue;
		memmove(to + k + 1, to + k, (count - k) * sizeof *to);
		to[k] = budget;
		count++;
	}
	return count;
}

static void
draw_rungs(struct curves *c)
{
	struct espl__html *h = c->h;
	double x, last = -100;
	uint32_t i;
	char name[32];

	for (i = 0; i < h->stage_count && !h->pool; i++) {
		if (h->stages[i].budget <= 0 || (double)h->stages[i].budget > c->x.high ||
		    h->stages[i].bracket != h->stages[0].bracket)
			continue;
		x = espl__html_at(&c->x, (double)h->stages[i].budget);
		espl__html_line(&h->b, "rg", x, TOP, x, TOP + HEIGHT);
		if (x - last < 52 || !h->declared)
			continue;
		if (h->brackets) /* the same rung is another stage in each */
			(void)snprintf(name, sizeof name, "up to %lld",
			    (long long)h->stages[i].budget);
		else
			(void)snprintf(name, sizeof name, "stage %lld",
			    (long long)h->stages[i].number);
		espl__html_label(&h->b, "rl", x, TOP - 6, name);
		last = x;
	}
}

/* Did it come to the last stage of its bracket that there was? */
static int
survived_stages(const struct espl__html *h, const struct espl__html_trial *t)
{
	uint32_t i;

	if (t->stage >= h->stage_count)
		return 0;
	for (i = 0; i < h->stage_count; i++)
		if (h->stages[i].trials > 0 &&
		    h->stages[i].bracket == h->stages[t->stage].bracket &&
		    h->stages[i].number > h->stages[t->stage].number)
			return 0;
	return 1;
}

static void
draw_curve(struct curves *c, const struct curve *curve, const char *weight)
{
	struct espl__html *h = c->h;
	const struct espl__html_trial *t = &h->trials[curve->trial];
	struct espl__buf *b = &h->b;
	char text[32], name[48];
	uint32_t i;
	double x, y;

	espl__print(b, "<g class=\"cv %s l%u\"><title>trial %s: ", weight,
	    (unsigned)espl__html_colour(h, t->stage), espl__trial_name((uint64_t)t->id, name));
	espl__html_text(b, h->r->totals.metric, 40);
	espl__print(b, " %s at iteration %lld", espl__format_metric(t->metric, text),
	    (long long)t->iteration);
	if (t->stage < h->stage_count) {
		espl__print(b, ", ");
		espl__html_stage_name(h, t->stage, b);
	}
	espl__print(b, "</title>");
	if (curve->count > 1)
		espl__print(b, "<path d=\"");
	for (i = 0; i < curve->count; i++) {
		const struct point *p = &c->points[curve->from + i];

		if (p->metric < c->y.low || p->metric > c->y.high)
			c->outside++;
		x = espl__html_at(&c->x, (double)p->iteration);
		y = espl__html_at(&c->y, p->metric);
		espl__print(b, curve->count == 1 ? "<circle r=\"2.4\" cx=\"" : i == 0 ? "M" : "L");
		espl__html_number(b, x);
		espl__print(b, curve->count == 1 ? "\" cy=\"" : " ");
		espl__html_number(b, y);
	}
	espl__print(b, "\"/></g>\n");
}

static void
draw_best(struct curves *c)
{
	const struct espl__totals *t = &c->h->r->totals;
	double x, y;
	char text[64], name[48];

	if (t->best < 0 || !isfinite(t->best_metric))
		return;
	x = espl__html_at(&c->x, (double)t->best_iteration);
	y = espl__html_at(&c->y, t->best_metric);
	espl__print(&c->h->b, "<circle class=\"be\" r=\"4\" cx=\"");
	espl__html_number(&c->h->b, x);
	espl__print(&c->h->b, "\" cy=\"");
	espl__html_number(&c->h->b, y);
	espl__print(&c->h->b, "\"/>");
	(void)snprintf(text, sizeof text, "trial %s", espl__trial_name((uint64_t)t->best, name));
	espl__html_label(&c->h->b, "bl", x + 8, y + 4, text);
}

static void
draw_all(struct curves *c)
{
	struct espl__html *h = c->h;
	uint32_t i, pass, survivors = 0;

	for (i = 0; i < c->count; i++)
		survivors += survived_stages(h, &h->trials[c->list[i].trial]) != 0;
	espl__print(&h->b, survivors > 20 ? "<g style=\"--w:1\">\n" : "<g>\n");
	/* From the back to the front: the dropped, the survivors, the best. */
	for (pass = 0; pass < 3; pass++)
		for (i = c->count; i > 0; i--) {
			const struct espl__html_trial *t = &h->trials[c->list[i - 1].trial];
			uint32_t is = t->id == h->r->totals.best ? 2
			    : survived_stages(h, t)              ? 1
								 : 0;

			if (is == pass)
				draw_curve(c, &c->list[i - 1],
				    is == 2       ? "best"
					: is == 1 ? "sv"
						  : "dr");
		}
	espl__print(&h->b, "</g>\n");
	draw_best(c);
}

static void
write_note(const struct curves *c)
{
	struct espl__buf *b = &c->h->b;

	if (c->h->pool)
		espl__print(b,
		    "<p class=\"note\">Each curve is a trial; a dot is a single report.");
	else
		espl__print(b,
		    "<p class=\"note\">Each curve is a trial, in the color of the last %s that it "
		    "reached; thick curves reached the last one; a dot is a single report.",
		    c->h->declared ? "stage" : "rung");
	if (c->trials > CURVES_MAX)
		espl__print(b,
		    " Of %u trials, %u are drawn: the %u that trained longest and a sample of %s; "
		    "%u are omitted.",
		    (unsigned)c->trials, (unsigned)c->count, BEST,
		    c->h->pool           ? "the others"
			: c->h->declared ? "each stage"
					 : "each rung",
		    (unsigned)(c->trials - c->count));
	if (c->x.kind == ESPL__HTML_LOG)
		espl__print(b,
		    c->y.kind == ESPL__HTML_LOG ? " Both axes are logarithmic."
						: " The axis of iterations is logarithmic.");
	if (c->outside > 0)
		espl__print(b, " %u points lie outside the frame.", (unsigned)c->outside);
	espl__print(b, "</p>\n");
}

espl_status
espl__html_curves(struct espl__html *h)
{
	struct curves c = { .h = h };
	espl_status status = read_curves(&c);
	int64_t rungs[RUNGS_MAX];

	if (status == ESPL_OK && c.count > 0) {
		set_axes(&c);
		espl__html_heading(h, "Learning curves");
		espl__print(&h->b, "<p class=\"axis\">");
		espl__html_text(&h->b, h->r->totals.metric, 60);
		espl__print(&h->b, " (%s is better), against the iteration</p>\n",
		    h->r->totals.maximize ? "more" : "less");
		espl__html_open(&h->b, TOP + HEIGHT + 18,
		    "The metric of each trial against its iterations");
		espl__html_iteration_grid(&h->b, &c.x, TOP, TOP + HEIGHT, rungs,
		    rungs_of(&c, rungs));
		espl__html_value_grid(&h->b, &c.y, "");
		draw_rungs(&c);
		draw_all(&c);
		espl__print(&h->b, "</svg></div>\n");
		write_note(&c);
		espl__print(&h->b, "</section>\n");
	}
	free(c.list);
	free(c.points);
	return status;
}
