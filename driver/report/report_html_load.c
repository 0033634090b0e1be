/* report_html_load.c - what the page draws, out of results.db: nodes, trials, stages, plans, and
 * every gang with the stage that it worked for.
 */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#define STAGES_MAX 1000u /* beyond, all are one */
#define BUDGETS_MAX 12   /* more different ones are no rungs */
#define NODE_GPUS 1024

static double
read_real(sqlite3_stmt *st, int column)
{
	double v = espl__reading_real(st, column);

	return isfinite(v) ? v : NAN;
}

static const char *
read_text(struct espl__html *h, sqlite3_stmt *st, int column)
{
	const char *t = (const char *)sqlite3_column_text(st, column);

	return t != NULL && t[0] != '\0' ? espl__arena_strdup(&h->arena, t) : "";
}

static uint32_t
clamp_value(int64_t v, int64_t least, int64_t most)
{
	return (uint32_t)(v < least ? least : v > most ? most : v);
}

typedef void row_fn(struct espl__html *, sqlite3_stmt *);

static espl_status
read_rows(struct espl__html *h, const char *sql, row_fn *take)
{
	sqlite3_stmt *st = espl__reading_query(h->r, sql, -1, -1, h->diag);
	int more = -1;

	while (st != NULL && (more = espl__reading_next(h->r, st, h->diag)) == 1)
		take(h, st);
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- nodes, trials, plans -------------------------------------------------------------------- */

static void
take_node(struct espl__html *h, sqlite3_stmt *st)
{
	struct espl__html_node *n;

	ESPL__GROW(h->nodes, h->node_cap, h->node_count + 1);
	n = &h->nodes[h->node_count++];
	n->id = sqlite3_column_int64(st, 0);
	n->offer = read_text(h, st, 1);
	n->market = read_text(h, st, 2);
	n->gpus = clamp_value(sqlite3_column_int64(st, 3), 1, NODE_GPUS);
	n->first_gpu = h->gpu_count;
	h->gpu_count += n->gpus;
	n->state = read_text(h, st, 4);
	n->requested_s = read_real(st, 5);
	n->booting_s = read_real(st, 6);
	n->ready_s = read_real(st, 7);
	n->notice_s = read_real(st, 8);
	n->ended_s = read_real(st, 9);
	n->billed_s = read_real(st, 10);
	n->price_hour = read_real(st, 11);
	n->charged_usd = read_real(st, 12);
	n->why = read_text(h, st, 13);
}

static void
take_trial(struct espl__html *h, sqlite3_stmt *st)
{
	const char *state = (const char *)sqlite3_column_text(st, 1);
	struct espl__html_trial *t;

	ESPL__GROW(h->trials, h->trial_cap, h->trial_count + 1);
	t = &h->trials[h->trial_count++];
	t->id = sqlite3_column_int64(st, 0);
	(void)snprintf(t->state, sizeof t->state, "%s", state != NULL ? state : "");
	t->iteration = sqlite3_column_int64(st, 2);
	t->metric = read_real(st, 3);
	t->gpu_s = read_real(st, 4);
	t->cost_usd = read_real(st, 5);
	t->stage = ESPL__HTML_NO_STAGE;
	t->gang = 0;
}

struct espl__html_trial *
espl__html_trial(struct espl__html *h, int64_t id)
{
	uint32_t low = 0, high = h->trial_count, middle;

	if (id >= 0 && id < (int64_t)h->trial_count && h->trials[id].id == id)
		return &h->trials[id];
	while (low < high) {
		middle = low + (high - low) / 2;
		if (h->trials[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < h->trial_count && h->trials[low].id == id ? &h->trials[low] : NULL;
}

static void
take_plan(struct espl__html *h, sqlite3_stmt *st)
{
	struct espl__html_plan *p;

	ESPL__GROW(h->plans, h->plan_cap, h->plan_count + 1);
	p = &h->plans[h->plan_count++];
	p->number = sqlite3_column_int64(st, 0);
	p->at_s = read_real(st, 1);
	p->ends_s = read_real(st, 2);
	p->ends_sd_s = read_real(st, 3);
	p->ends_p95_s = read_real(st, 4);
	p->cost_usd = read_real(st, 5);
	p->cost_sd_usd = read_real(st, 6);
	p->cost_p95_usd = read_real(st, 7);
	p->optimal = sqlite3_column_int(st, 8);
	p->gap = read_real(st, 9);
	p->row = p->row_count = 0;
}

const struct espl__html_row *
espl__html_planned(const struct espl__html *h, uint32_t plan, int64_t bracket, int64_t stage)
{
	uint32_t first = plan == ESPL__HTML_LAST ? 1 : plan,
		 at = plan == ESPL__HTML_LAST ? h->plan_count : plan + 1;
	uint32_t i;

	for (; at > first; at--)
		for (i = 0; i < h->plans[at - 1].row_count; i++) {
			const struct espl__html_row *r = &h->rows[h->plans[at - 1].row + i];

			if (r->stage == stage && r->bracket == bracket)
				return r;
		}
	return NULL;
}

/* In the order of their plans, as these are. */
static void
take_row(struct espl__html *h, sqlite3_stmt *st)
{
	int64_t plan = sqlite3_column_int64(st, 0);
	uint32_t i = h->plan_count;
	struct espl__html_row *r;

	while (i > 0 && h->plans[i - 1].number > plan)
		i--;
	if (i == 0 || h->plans[i - 1].number != plan)
		return;
	ESPL__GROW(h->rows, h->row_cap, h->row_count + 1);
	if (h->plans[i - 1].row_count++ == 0)
		h->plans[i - 1].row = h->row_count;
	r = &h->rows[h->row_count++];
	r->bracket = sqlite3_column_int64(st, 1);
	r->stage = sqlite3_column_int64(st, 2);
	r->trials = sqlite3_column_int64(st, 3);
	r->iterations = sqlite3_column_int64(st, 4);
	r->gpus = sqlite3_column_int64(st, 5);
	r->gpus_per_trial = sqlite3_column_int64(st, 6);
	r->nodes = sqlite3_column_int64(st, 7);
	r->offer = read_text(h, st, 8);
	r->starts_s = read_real(st, 9);
	r->ends_s = read_real(st, 10);
	r->cost_usd = read_real(st, 11);
	r->warm = sqlite3_column_int64(st, 12);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static uint32_t
stage_of(struct espl__html *h, int64_t bracket, int64_t number)
{
	struct espl__html_stage *s;
	uint32_t i;

	for (i = h->stage_count; i > 0; i--) /* newer ones are asked for more often */
		if (h->stages[i - 1].number == number && h->stages[i - 1].bracket == bracket)
			return i - 1;
	if (h->stage_count == STAGES_MAX)
		return STAGES_MAX - 1;
	ESPL__GROW(h->stages, h->stage_cap, h->stage_count + 1);
	s = &h->stages[h->stage_count];
	memset(s, 0, sizeof *s);
	s->bracket = bracket;
	s->number = number;
	s->begun_s = s->ended_s = s->cost_usd = NAN;
	s->used = espl__arena_alloc(&h->arena, h->node_count / 8 + (size_t)1);
	return h->stage_count++;
}

/* Of one bracket and stage there may be several groups. */
static void
take_group(struct espl__html *h, sqlite3_stmt *st)
{
	struct espl__html_stage *s;
	double begun = read_real(st, 2), ended = read_real(st, 3);
	uint32_t before = h->stage_count;
	uint32_t at = stage_of(h, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1));

	s = &h->stages[at];
	if (h->stage_count > before) {
		s->begun_s = begun;
		s->ended_s = ended;
	} else {
		if (begun < s->begun_s)
			s->begun_s = begun;
		if (isnan(ended) || ended > s->ended_s)
			s->ended_s = ended;
	}
	h->declared = 1;
}

static void
take_budget(struct espl__html *h, sqlite3_stmt *st)
{
	uint32_t at = stage_of(h, -1, h->stage_count);

	h->stages[at].budget = sqlite3_column_int64(st, 0);
}

static void
take_search(struct espl__html *h, sqlite3_stmt *st)
{
	uint32_t at = stage_of(h, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 0));
	struct espl__html_stage *s = &h->stages[at];

	s->begun_s = read_real(st, 1);
	s->ended_s = read_real(st, 2);
	s->name = s->number > 0 ? read_text(h, st, 3) : NULL;
	h->pool = h->declared = 1;
}

/* Where no stages are declared, few budgets that all trials share are as good.  Of a pool, what
 * matters most is whose a trial is. */
static espl_status
load_stages(struct espl__html *h)
{
	espl_status status = read_rows(h,
	    "SELECT id, arrived_s, ended_s, name FROM experiments WHERE arrived_s IS NOT NULL"
	    " UNION ALL SELECT 0, min(arrived_s), CASE WHEN count(*) = count(ended_s) THEN "
	    "max(ended_s) END, NULL FROM jobs"
	    " GROUP BY NULL HAVING count(arrived_s) > 0 ORDER BY 1",
	    take_search);

	if (status != ESPL_OK || h->pool)
		return status;
	h->brackets = espl__reading_brackets(h->r, 0);
	status = read_rows(h,
	    "SELECT bracket, stage, begun_s, ended_s FROM groups"
	    " WHERE bracket IS NOT NULL AND stage IS NOT NULL ORDER BY bracket, stage, id",
	    take_group);

	if (status == ESPL_OK && !h->declared) {
		status = read_rows(h,
		    "SELECT DISTINCT budget FROM decisions WHERE what IN ('created', 'promoted', "
		    "'budget') AND budget IS NOT NULL ORDER BY 1 LIMIT 13",
		    take_budget);
		if (h->stage_count > BUDGETS_MAX)
			h->stage_count = 0;
	}
	return status;
}

void
espl__html_stage_name(const struct espl__html *h, uint32_t stage, struct espl__buf *b)
{
	const struct espl__html_stage *s;

	if (stage >= h->stage_count)
		return;
	s = &h->stages[stage];
	if (h->pool)
		espl__print(b, s->number > 0 ? "experiment %lld" : "plain jobs",
		    (long long)s->number);
	else if (!h->declared)
		espl__print(b, "up to iteration %lld", (long long)s->budget);
	else
		espl__html_row_name(h, s->bracket, s->number, b);
}

void
espl__html_row_name(const struct espl__html *h, int64_t bracket, int64_t stage, struct espl__buf *b)
{
	if (h->brackets)
		espl__print(b, "bracket %lld, ", (long long)bracket);
	espl__print(b, "stage %lld", (long long)stage);
}

uint32_t
espl__html_colour(const struct espl__html *h, uint32_t stage)
{
	return stage >= h->stage_count
	    ? 0
	    : (uint32_t)((uint64_t)h->stages[stage].number % ESPL__HTML_COLOURS);
}

/* ---- gangs, and when their trials changed stage ---------------------------------------------- */

static void
take_slots(struct espl__html *h, struct espl__html_gang *g, const char *json)
{
	uint64_t pair[2];
	uint32_t have = 0, low, high, middle;

	g->slot = h->slot_count;
	for (; json != NULL && *json != '\0'; json++) {
		if (*json < '0' || *json > '9')
			continue;
		for (pair[have] = 0; *json >= '0' && *json <= '9'; json++)
			if (pair[have] < UINT32_MAX)
				pair[have] = pair[have] * 10 + (uint64_t)(*json - '0');
		json--;
		if (++have < 2)
			continue;
		have = 0;
		for (low = 0, high = h->node_count; low < high;) {
			middle = low + (high - low) / 2;
			if (h->nodes[middle].id < (int64_t)pair[0])
				low = middle + 1;
			else
				high = middle;
		}
		if (low == h->node_count || h->nodes[low].id != (int64_t)pair[0])
			continue;
		ESPL__GROW(h->slots, h->slot_cap, h->slot_count + 1);
		h->slots[h->slot_count].node = low;
		h->slots[h->slot_count++].gpu =
		    clamp_value((int64_t)pair[1], 0, h->nodes[low].gpus - 1);
	}
	g->slot_count = h->slot_count - g->slot;
}

static void
take_gang(struct espl__html *h, sqlite3_stmt *st)
{
	struct espl__html_gang *g;

	ESPL__GROW(h->gangs, h->gang_cap, h->gang_count + 1);
	g = &h->gangs[h->gang_count++];
	memset(g, 0, sizeof *g);
	g->id = sqlite3_column_int64(st, 0);
	g->trial = sqlite3_column_int64(st, 1);
	g->gpus = clamp_value(sqlite3_column_int64(st, 2), 1, 1000000);
	g->packing = clamp_value(sqlite3_column_int64(st, 3), 1, 1024);
	take_slots(h, g, (const char *)sqlite3_column_text(st, 4));
	g->starting_s = read_real(st, 5);
	if (isnan(g->starting_s))
		g->starting_s = 0;
	g->running_s = read_real(st, 6);
	g->ended_s = read_real(st, 7);
	g->over = !isnan(g->ended_s);
	if (!g->over)
		g->ended_s = h->now_s;
	if (!(g->ended_s >= g->starting_s))
		g->ended_s = g->starting_s;
	g->text = sqlite3_column_type(st, 8) == SQLITE_NULL ? NULL : read_text(h, st, 8);
	g->number = clamp_value(sqlite3_column_int64(st, 9), 0, UINT32_MAX - 1);
	g->stage = ESPL__HTML_NO_STAGE;
}

/* Gangs that start before `at`: each works for the stage its trial is in. */
static void
start_gangs(struct espl__html *h, uint32_t *next, double before)
{
	struct espl__html_trial *t;

	for (; *next < h->gang_count && h->gangs[*next].starting_s < before; (*next)++) {
		t = espl__html_trial(h, h->gangs[*next].trial);
		if (t == NULL)
			continue;
		h->gangs[*next].stage = t->stage;
		t->gang = *next + 1;
	}
}

/* A turn in a trial's life: from now on it is in `stage`. */
static void
add_turn(struct espl__html *h, struct espl__html_trial *t, double at, uint32_t stage)
{
	struct espl__html_gang *g = t->gang > 0 ? &h->gangs[t->gang - 1] : NULL;
	struct espl__html_turn *new;

	if (t->stage == stage)
		return;
	t->stage = stage;
	h->stages[stage].trials++;
	if (g == NULL || g->ended_s <= at)
		return;
	if (h->turn_count == 0)
		h->turn_count = 1; /* 0 is none */
	ESPL__GROW(h->turns, h->turn_cap, h->turn_count + 1);
	new = &h->turns[h->turn_count];
	*new = (struct espl__html_turn){ at, stage, 0 };
	if (g->turn == 0)
		g->turn = h->turn_count;
	else
		h->turns[g->turn_last].next = h->turn_count;
	g->turn_last = h->turn_count++;
}

static uint32_t
stage_at(struct espl__html *h, sqlite3_stmt *st)
{
	uint32_t i;
	int64_t search = sqlite3_column_int64(st, 1) >> ESPL__TRIAL_BITS;

	if (h->pool)
		return stage_of(h, search, search);
	if (h->declared)
		return sqlite3_column_type(st, 3) == SQLITE_NULL
		    ? ESPL__HTML_NO_STAGE
		    : stage_of(h, sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3));
	for (i = 0; i < h->stage_count; i++)
		if (h->stages[i].budget == sqlite3_column_int64(st, 4))
			return i;
	return ESPL__HTML_NO_STAGE;
}

static espl_status
walk_decisions(struct espl__html *h)
{
	sqlite3_stmt *st = espl__reading_query(h->r,
	    "SELECT d.at_s, d.trial, g.bracket, g.stage, d.budget"
	    " FROM decisions d LEFT JOIN groups g ON g.id = d.group_id"
	    " WHERE d.what IN ('created', 'promoted', 'budget') ORDER BY d.id",
	    -1, -1, h->diag);
	struct espl__html_trial *t;
	uint32_t next = 0, stage;
	int more = -1;

	while (st != NULL && (more = espl__reading_next(h->r, st, h->diag)) == 1) {
		double at = read_real(st, 0);

		stage = stage_at(h, st);
		t = espl__html_trial(h, sqlite3_column_int64(st, 1));
		start_gangs(h, &next, at);
		if (t == NULL || stage == ESPL__HTML_NO_STAGE)
			continue;
		if (h->declared && sqlite3_column_int64(st, 4) > h->stages[stage].budget)
			h->stages[stage].budget = sqlite3_column_int64(st, 4);
		add_turn(h, t, at, stage);
	}
	(void)sqlite3_finalize(st);
	start_gangs(h, &next, INFINITY);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- what became of the stages --------------------------------------------------------------- */

/* A gang's work for one stage, from..to. */
static void
count_work(struct espl__html *h, const struct espl__html_gang *g, uint32_t stage, double from,
    double to)
{
	struct espl__html_stage *s;
	uint32_t i;

	if (stage >= h->stage_count)
		return;
	s = &h->stages[stage];
	if (to > from)
		s->busy_gpu_s += (to - from) * g->gpus / g->packing;
	if (s->gpus_least == 0 || g->gpus < s->gpus_least)
		s->gpus_least = g->gpus;
	if (g->gpus > s->gpus_most)
		s->gpus_most = g->gpus;
	if (g->packing > s->packing)
		s->packing = g->packing;
	for (i = 0; i < g->slot_count; i++) {
		uint32_t node = h->slots[g->slot + i].node;

		if ((s->used[node / 8] >> node % 8 & 1) == 0) {
			s->used[node / 8] |= (uint8_t)(1u << node % 8);
			s->nodes++;
		}
	}
	if (h->declared)
		return;
	if (!(s->begun_s <= from))
		s->begun_s = from;
	if (!(s->ended_s >= to))
		s->ended_s = to;
}

static void
count_gangs(struct espl__html *h)
{
	uint32_t i, t, stage;
	double from;

	for (i = 0; i < h->gang_count; i++) {
		const struct espl__html_gang *g = &h->gangs[i];

		stage = g->stage;
		from = g->starting_s;
		for (t = g->turn; t != 0; t = h->turns[t].next) {
			count_work(h, g, stage, from, h->turns[t].at_s);
			stage = h->turns[t].stage;
			from = h->turns[t].at_s;
		}
		count_work(h, g, stage, from, g->ended_s);
	}
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Up to the end of the run or of the plan; a deadline that is near is in sight. */
static void
set_end(struct espl__html *h)
{
	double end = h->now_s, deadline = h->r->totals.deadline_s;
	uint32_t i;

	for (i = 0; i < h->plan_count; i++)
		if (h->plans[i].ends_s > end)
			end = h->plans[i].ends_s;
	if (h->fixed != NULL && h->fixed->why_not == NULL && h->fixed->jct_s > end)
		end = h->fixed->jct_s;
	if (deadline > end && deadline < end * 1.3)
		end = deadline;
	h->end_s = end > 0 && end < 1e15 ? end * 1.01 : 1;
}

/* Each change of a share has its line in the view `resizes`, which tells what it cost. */
static void
take_resizes(struct espl__html *h, sqlite3_stmt *st)
{
	h->resizes = sqlite3_column_int64(st, 0);
}

espl_status
espl__html_load(struct espl__html *h)
{
	espl_status status;

	h->now_s = isfinite(h->r->totals.jct_s) && h->r->totals.jct_s > 0 ? h->r->totals.jct_s : 0;
	status = read_rows(h,
	    "SELECT id, offer, market, gpus, state, requested_s, booting_s, ready_s, notice_s, "
	    "ended_s, billed_from_s, price_hour, charged_usd, why FROM nodes ORDER BY id",
	    take_node);
	if (status == ESPL_OK)
		status = read_rows(h,
		    "SELECT id, state, iteration, metric, gpu_s, cost_usd FROM trials ORDER BY id",
		    take_trial);
	if (status == ESPL_OK)
		status = read_rows(h,
		    "SELECT plan, at_s, ends_s, ends_sd_s, ends_p95_s, cost_usd, cost_sd_usd, "
		    "cost_p95_usd, optimal, gap FROM predictions ORDER BY plan",
		    take_plan);
	if (status == ESPL_OK)
		status = read_rows(h,
		    "SELECT plan, bracket, stage, trials, iterations, gpus, gpus_per_trial, nodes, "
		    "offer, starts_s, ends_s, cost_usd, warm FROM plan ORDER BY plan, starts_s, "
		    "bracket, stage",
		    take_row);
	if (status == ESPL_OK)
		status = load_stages(h);
	if (status == ESPL_OK)
		status = read_rows(h,
		    "SELECT s.gang, s.trial, s.gpus, s.packing, s.slots, s.from_s, CASE WHEN "
		    "s.number = 0 THEN g.running_s ELSE s.from_s END, s.until_s, CASE WHEN "
		    "s.until_s = g.ended_s THEN g.text END, s.number"
		    " FROM stays s JOIN gangs g ON g.id = s.gang ORDER BY s.from_s, s.gang, "
		    "s.number",
		    take_gang);
	if (status == ESPL_OK)
		status = read_rows(h, "SELECT count(*) FROM changes", take_resizes);
	if (status == ESPL_OK)
		status = walk_decisions(h);
	if (status != ESPL_OK)
		return status;
	count_gangs(h);
	set_end(h);
	return espl__html_load_money(h);
}

void
espl__html_free(struct espl__html *h)
{
	free(h->stages);
	free(h->nodes);
	free(h->slots);
	free(h->gangs);
	free(h->turns);
	free(h->trials);
	free(h->rows);
	free(h->plans);
	free(h->spent);
	espl__buf_free(&h->b);
	espl__arena_free(&h->arena);
}
