/* plan_table.c - a plan for people: tables of at most 100 columns, and the text below them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cli/plan.h"
#include "report/totals.h"

enum { COLUMNS_MAX = 12, CELL_MAX = 36, LINE_MAX_ = 100 };

struct table {
	uint32_t count; /* columns */
	uint32_t rows, cap;
	uint32_t left; /* bit k: column k begins at its left edge */
	const char *titles[COLUMNS_MAX];
	char (*cells)[COLUMNS_MAX][CELL_MAX];
};

static char (*add_row(struct table *t))[CELL_MAX]
{
	ESPL__GROW(t->cells, t->cap, t->rows + 1);
	memset(t->cells[t->rows], 0, sizeof t->cells[0]);
	return t->cells[t->rows++];
}

/* Text of files in a cell: safe for a terminal, cut where it is too long. */
static void
set_name(char cell[CELL_MAX], const char *name, size_t most)
{
	struct espl__buf clean = { NULL, 0, 0 };
	const char *text;
	size_t length;

	espl__print_clean(&clean, name);
	text = espl__buf_text(&clean);
	length = strlen(text);
	if (length > most) {
		for (length = most - 1; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;
		     length--)
			;
		(void)snprintf(cell, CELL_MAX, "%.*s~", (int)length, text);
	} else {
		(void)snprintf(cell, CELL_MAX, "%s", text);
	}
	espl__buf_free(&clean);
}

/* Characters, not bytes. */
static int
text_columns(const char *text)
{
	int n = 0;

	for (; *text != '\0'; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

/* Of each column; all of them with the gaps before them. */
static int
measure_columns(const struct table *t, int width[COLUMNS_MAX])
{
	int all = 0;

	for (uint32_t k = 0; k < t->count; k++) {
		width[k] = text_columns(t->titles[k]);
		for (uint32_t i = 0; i < t->rows; i++)
			width[k] = text_columns(t->cells[i][k]) > width[k]
			    ? text_columns(t->cells[i][k])
			    : width[k];
		all += width[k] + 2;
	}
	return all;
}

static void
print_table(const struct table *t, struct espl__buf *b)
{
	int width[COLUMNS_MAX];

	(void)measure_columns(t, width);
	for (uint32_t i = 0; i <= t->rows; i++) {
		for (uint32_t k = 0; k < t->count; k++) {
			const char *cell = i == 0 ? t->titles[k] : t->cells[i - 1][k];
			int pad = width[k] - text_columns(cell), left = (t->left >> k & 1) != 0;

			espl__print(b, "  %*s%s", left ? 0 : pad, "", cell);
			if (left && k + 1 < t->count)
				espl__print(b, "%*s", pad, "");
		}
		espl__print(b, "\n");
	}
}

/* ---- the stages --------------------------------------------------------------------------- */

static void
print_stages(const struct espl__plan_answer *a, struct espl__buf *b)
{
	const char *const titles[] = { "bracket", "stage", "trials", "iterations",
		espl__slots_word(a->on_cpu, 0), "per trial", "nodes", "offer", "start", "end",
		"cost" };
	uint32_t from = a->brackets > 1 ? 0 : 1, offer = 7 - from;
	int width[COLUMNS_MAX], room;
	struct table t = { .count = sizeof titles / sizeof titles[0] - from };

	memcpy(t.titles, titles + from, t.count * sizeof *titles);
	t.left = 1u << offer;
	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct espl__plan_row *r = &a->rows[i];
		char(*cells)[CELL_MAX] = add_row(&t);
		uint32_t k = 0;

		if (from == 0)
			(void)snprintf(cells[k++], CELL_MAX, "%u", r->bracket);
		(void)snprintf(cells[k++], CELL_MAX, "%u", r->stage);
		(void)snprintf(cells[k++], CELL_MAX, "%u", r->trials);
		(void)snprintf(cells[k++], CELL_MAX, "%llu", (unsigned long long)r->iterations);
		(void)snprintf(cells[k++], CELL_MAX, "%u", r->gpus);
		(void)snprintf(cells[k++], CELL_MAX, "%u", r->gpus_per_trial);
		(void)snprintf(cells[k++], CELL_MAX, "%u", r->nodes);
		k++;
		(void)espl__plan_span(r->starts_s, cells[k++]);
		(void)espl__plan_span(r->ends_s, cells[k++]);
		(void)espl__plan_part(r->cost_usd, a->cost_usd.mean / 10, cells[k++]);
	}
	/* The names get what the numbers leave. */
	room = LINE_MAX_ - measure_columns(&t, width) + width[offer];
	room = room < width[offer] ? width[offer] : room > 20 ? 20 : room;
	for (uint32_t i = 0; i < a->row_count; i++)
		set_name(t.cells[i][offer], a->rows[i].offer, (size_t)room);
	print_table(&t, b);
	free(t.cells);
}

/* ---- what it comes to --------------------------------------------------------------------- */

typedef const char *say_fn(double, char[32]);

static void
print_spread(struct espl__buf *b, const char *name, const struct espl__spread *s,
    const char *interrupted, say_fn *say)
{
	char mean[32], sd[32], p95[32];

	espl__print(b, "  %-9s %s", name, say(s->mean, mean));
	if (interrupted != NULL)
		espl__print(b, " without interruptions");
	else if (s->sd > 0)
		espl__print(b, " on average, sd %s, p95 %s", say(s->sd, sd), say(s->p95, p95));
	espl__print(b, "\n");
}

/* A limit, and how far the mean is from it. */
static void
print_limit(struct espl__buf *b, const char *name, double limit, double mean, double risk,
    const char *interrupted, say_fn *say)
{
	char all[32], off[32];

	espl__print(b, "  %-9s %s, %s %s", name, say(limit, all), say(fabs(limit - mean), off),
	    mean <= limit ? "to spare" : "short");
	if (interrupted != NULL)
		espl__print(b, " without interruptions");
	else if (risk > 0 && risk != 0.5)
		espl__print(b, ", required with probability %.4g", risk);
	espl__print(b, "\n");
}

static void
print_proof(struct espl__buf *b, const struct espl__plan_answer *a)
{
	static const char among[] =
	    "            among plans with one node type, no GPU sharing and no interruptions\n";

	espl__print(b, "  %-9s ", "search");
	if (a->plans > 0)
		espl__print(b, "%llu plan%s", (unsigned long long)a->plans,
		    a->plans == 1 ? "" : "s");
	else
		espl__print(b, "done");
	espl__print(b, " in %.*f ms; ",
	    a->elapsed_ms < 10        ? 2
		: a->elapsed_ms < 100 ? 1
				      : 0,
	    a->elapsed_ms);
	if (a->optimal)
		espl__print(b, "proven optimal\n%s", among);
	else if (isfinite(a->gap))
		espl__print(b, "within %.3g %% of the optimum\n%s", a->gap * 100, among);
	else
		espl__print(b, "not proven optimal\n");
}

/* The effects that the model leaves out, and the results of simulated runs. */
static void
print_interruptions(struct espl__buf *b, const struct espl__plan_answer *a,
    const struct espl__run_config *c)
{
	const struct espl__plan_tries *t = &a->tries;
	int limited = c->deadline != ESPL_NEVER || c->budget != INT64_MAX;
	char time[32], cost[32];

	espl__print(b, "  %-9s nodes of '", "warning");
	espl__print_clean(b, a->interrupted);
	if (a->lease_max_s > 0)
		espl__print(b, "' end after %s (lease_max); the plan ignores interruptions\n",
		    espl__plan_span(a->lease_max_s, time));
	else
		espl__print(b,
		    "' are interrupted %.3g times an hour; the plan ignores interruptions\n",
		    a->hazard_hour);
	if (t->runs == 0)
		return;
	espl__print(b, "  %-9s ", "simulated");
	if (limited)
		espl__print(b, "%u of %u runs met the %s; ", (unsigned)t->kept, (unsigned)t->runs,
		    c->budget == INT64_MAX          ? "deadline"
			: c->deadline == ESPL_NEVER ? "budget"
						    : "limits");
	espl__print(b, "on average %s, %s\n", espl__plan_span(t->jct_s, time),
	    espl__plan_money(t->cost_usd, cost));
}

static void
print_answer(const struct espl__plan_view *v, struct espl__buf *b)
{
	const struct espl__plan_answer *a = v->answer;
	const struct espl__run_config *c = v->config;
	char idle[32];

	espl__print_clean(b, c->name);
	if (v->given)
		espl__print(b, ": the given plan%s\n\n",
		    a->meets ? "" : ", which misses the deadline or the budget");
	else
		espl__print(b, ": plan by allocator %s\n\n", a->allocator);
	print_stages(a, b);
	espl__print(b, "\n");
	print_spread(b, "time", &a->jct_s, a->interrupted, espl__plan_span);
	print_spread(b, "cost", &a->cost_usd, a->interrupted, espl__plan_money);
	if (isfinite(a->idle_usd))
		espl__print(b,
		    "  %-9s %s if idle nodes are released within a stage (planning.release = "
		    "\"idle\")\n",
		    "", espl__plan_money(a->idle_usd, idle));
	if (c->deadline != ESPL_NEVER)
		print_limit(b, "deadline", (double)c->deadline / 1e9, a->jct_s.mean, c->risk,
		    a->interrupted, espl__plan_span);
	if (c->budget != INT64_MAX)
		print_limit(b, "budget", (double)c->budget / 1e6, a->cost_usd.mean, c->risk,
		    a->interrupted, espl__plan_money);
	if (a->interrupted != NULL)
		print_interruptions(b, a, c);
	if (!v->given)
		print_proof(b, a);
}

/* ---- side by side ------------------------------------------------------------------------- */

/* "8 5 6 2", brackets apart by a bar; what does not fit is cut. */
static void
print_nodes(const struct espl__plan_answer *a, int room, struct espl__buf *b)
{
	char number[24];
	int used = 0, length;

	for (uint32_t i = 0; i < a->row_count; i++) {
		int bar = i > 0 && a->rows[i].bracket != a->rows[i - 1].bracket;

		length = snprintf(number, sizeof number, "%s%s%u", i > 0 ? " " : "",
		    bar ? "| " : "", a->rows[i].nodes);
		if (used + length > room - (i + 1 < a->row_count ? 4 : 0)) {
			espl__print(b, " ...");
			return;
		}
		espl__print(b, "%s", number);
		used += length;
	}
}

static void
print_why_not(const struct espl__plan_answer *a, int room, struct espl__buf *b)
{
	struct espl__buf clean = { NULL, 0, 0 };
	char time[32], cost[32];
	const char *text;

	if (a->status == ESPL_E_INFEASIBLE && (isfinite(a->least_s) || isfinite(a->least_usd))) {
		espl__print(b, "no plan");
		if (isfinite(a->least_s))
			espl__print(b, "; the fastest takes %s", espl__plan_span(a->least_s, time));
		if (isfinite(a->least_usd))
			espl__print(b, "%s cheapest costs %s",
			    isfinite(a->least_s) ? ", the" : "; the",
			    espl__plan_money(a->least_usd, cost));
		return;
	}
	espl__print_clean(&clean, a->diag.text);
	text = espl__buf_text(&clean);
	/* Whose words these are, the first column says. */
	if (strncmp(text, "allocator '", 11) == 0 && strstr(text, "': ") != NULL)
		text = strstr(text, "': ") + 3;
	espl__print(b, "%.*s%s", (int)strlen(text) > room ? room - 4 : room, text,
	    (int)strlen(text) > room ? " ..." : "");
	espl__buf_free(&clean);
}

static void
print_compare(const struct espl__plan_view *v, struct espl__buf *b)
{
	const struct espl__plan_answer *fixed = NULL;
	char time[32], cost[32], saving[32];
	int saved = 0;

	for (uint32_t i = 0; i < v->compare_count; i++)
		if (strcmp(v->compare[i].allocator, "static") == 0 &&
		    v->compare[i].status == ESPL_OK)
			fixed = &v->compare[i];
	espl__print(b, "\n  %-16s %9s %12s %7s  %s\n", "allocator", "time", "cost", "saving",
	    "nodes per stage");
	for (uint32_t i = 0; i < v->compare_count; i++) {
		const struct espl__plan_answer *a = &v->compare[i];
		char name[CELL_MAX];

		set_name(name, a->allocator, 16);
		espl__print(b, "  %-16s ", name);
		if (a->status != ESPL_OK) {
			print_why_not(a, LINE_MAX_ - 19, b);
			espl__print(b, "\n");
			continue;
		}
		saving[0] = '\0';
		if (fixed != NULL && fixed != a && fixed->cost_usd.mean > 0) {
			saved = 1;
			(void)snprintf(saving, sizeof saving, "%.1f %%",
			    100 * (1 - a->cost_usd.mean / fixed->cost_usd.mean));
		}
		espl__print(b, "%9s %12s %7s  ", espl__plan_span(a->jct_s.mean, time),
		    espl__plan_money(a->cost_usd.mean, cost), saving);
		print_nodes(a, LINE_MAX_ - 52, b);
		espl__print(b, "\n");
	}
	if (saved)
		espl__print(b, "  (saving: compared with static)\n");
}

/* ---- the frontier ------------------------------------------------------------------------- */

static void
print_frontier(const struct espl__plan_view *v, struct espl__buf *b)
{
	const struct espl__frontier *f = v->frontier;
	char deadline[32], time[32], cost[32];
	struct espl__buf rows[2] = { { NULL, 0, 0 }, { NULL, 0, 0 } };
	int same = 0;

	if (f->count == 0) {
		espl__print(b, "\n  no frontier: ");
		espl__print_clean(b,
		    f->diag.status != ESPL_OK
			? f->diag.text
			: "the allocator does not know the shortest possible time");
		espl__print(b, "\n");
		return;
	}
	espl__print(b, "\n  %9s %9s %12s  %s\n", "deadline", "time", "cost", "nodes per stage");
	for (uint32_t i = 0; i < f->count; i++) {
		const struct espl__plan_answer *a = &f->answers[i];
		struct espl__buf *row = &rows[i & 1], *above = &rows[(i & 1) ^ 1];

		espl__buf_clear(row);
		if (a->status == ESPL_OK) {
			espl__print(row, "%9s %12s  ", espl__plan_span(a->jct_s.mean, time),
			    espl__plan_money(a->cost_usd.mean, cost));
			print_nodes(a, LINE_MAX_ - 38, row);
		} else {
			print_why_not(a, LINE_MAX_ - 12, row);
		}
		if (i > 0 && strcmp(espl__buf_text(row), espl__buf_text(above)) == 0) {
			same = 1;
			continue;
		}
		espl__print(b, "  %9s %s\n", espl__plan_span(f->deadline_s[i], deadline),
		    espl__buf_text(row));
	}
	if (same)
		espl__print(b,
		    "  (computed up to %s; between rows, the plan of the row above remains the "
		    "best)\n",
		    espl__plan_span(f->deadline_s[f->count - 1], deadline));
	espl__buf_free(&rows[0]);
	espl__buf_free(&rows[1]);
	if (v->config->budget != INT64_MAX)
		espl__print(b, "  (the budget is ignored)\n");
}

void
espl__plan_text(const struct espl__plan_view *v, struct espl__buf *b)
{
	ESPL__ASSERT(v->answer != NULL && v->config != NULL);
	if (v->answer->status == ESPL_OK)
		print_answer(v, b);
	else if (v->answer->status == ESPL_E_UNSUPPORTED)
		espl__print(b, "%s; allocators that can:\n", v->answer->diag.text);
	if (v->compare != NULL)
		print_compare(v, b);
	if (v->frontier != NULL)
		print_frontier(v, b);
}
