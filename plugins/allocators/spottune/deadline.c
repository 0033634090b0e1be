/* deadline.c - backward induction over the work left and the slack. */
#include <math.h>
#include <stdlib.h>
#include <espalier/kit/assert.h>
#include "deadline.h"

#define CELLS 1.0e6   /* of the grid: 0.1 s of one core, and as many bytes */
#define ROWS_MOST 2e4 /* of either side */
#define TICK_LEAST 1.0
#define LATE 1e30   /* dollars */
#define SLIGHT 1e-9 /* it does not wait for less than this share of the cost */

struct deadline {
	struct deadline_world world;
	double work_s, slack_s, tick_s, cost;
	uint32_t works, slacks; /* ticks; the grid has one row and column more */
	uint16_t *actions;      /* [works + 1][slacks + 1]; of each state two bits */
};

/* Slack that passes, in ticks: whole ones, and a share of one more. */
struct shift {
	int64_t whole;
	double share;
};

/* Expected costs for one amount of work, by slack. */
struct row {
	double *idle[2], *spot, *demand[2]; /* [1]: spot can be had */
	double *spot_stay, *demand_stay[2]; /* if nothing is changed now */
};
#define ARRAYS 8u

struct problem {
	struct deadline *to;
	struct row now, before; /* before: one tick of work less */
	double *memory;
	struct shift spot_start, demand_start, to_spot, to_demand, spot_step, spot_redo;
	double spot_start_usd, demand_start_usd; /* of one machine */
	double spot_move_usd, demand_move_usd;
	double spot_usd, demand_usd, redo_usd; /* of a tick of work */
	double lost, lost_start, lost_move; /* probabilities: in a tick of work, while starting */
	double lost_tick, back;             /* in a tick */
};

/* Chance that something of this rate happens: the mean time until it does is kept. */
static double
chance(double rate_h, double seconds)
{
	double x = rate_h * seconds / 3600;

	return x / (1 + x);
}

static struct shift
make_shift(double seconds, double tick_s)
{
	struct shift s;
	double ticks = seconds / tick_s, whole = floor(ticks);

	s.whole = (int64_t)whole;
	s.share = ticks - whole;
	return s;
}

/* The cost with less slack.  same: what stands for `row` at the same slack. */
static double
less(const double *row, const double *same, int64_t s, int64_t most, struct shift shift)
{
	int64_t high = s - shift.whole, low = high - 1;
	double h, l;

	if (shift.share == 0)
		low = high;
	if (low < 0)
		return LATE;
	if (high > most)
		high = low = most;
	l = low == s ? same[low] : row[low];
	h = high == s ? same[high] : row[high];
	if (l >= LATE || h >= LATE)
		return LATE;
	return h + (l - h) * shift.share;
}

static double
mix(double a, double b, double share_of_b)
{
	if (share_of_b <= 0)
		return a;
	return a >= LATE || b >= LATE ? LATE : a + (b - a) * share_of_b;
}

static double
add(double cost, double more)
{
	return cost >= LATE ? LATE : cost + more;
}

/* After a spot machine was lost: another one can be had, or not. */
static double
after_loss(const struct problem *p, const struct row *row, int64_t s, struct shift shift)
{
	int64_t most = p->to->slacks;

	return mix(less(row->idle[0], row->idle[0], s, most, shift),
	    less(row->idle[1], row->idle[1], s, most, shift), p->to->world.other);
}

/* Starting on spot, from nothing or from a machine on demand. */
static double
start_spot(const struct problem *p, int64_t s, struct shift start, double usd, double lost)
{
	const struct row *now = &p->now;
	double arrives = less(now->spot, now->spot_stay, s, p->to->slacks, start);

	/* a start that takes less than a tick is lost with the tick */
	if (start.whole == 0)
		start = (struct shift){ 1, 0 };
	return add(mix(arrives, after_loss(p, now, s, start), lost), usd);
}

static void
note_action(uint16_t *actions, enum deadline_state state, double cost, enum deadline_action action)
{
	if (cost >= LATE)
		action = DEADLINE_TOO_LATE;
	*actions |= (uint16_t)((unsigned)action << (2u * (unsigned)state));
}

static double
least(double a, double b)
{
	return a <= b ? a : b;
}

/* If nothing is changed. */
static void
solve_stays(struct problem *p, int64_t s, double machines)
{
	const struct row *b = &p->before;

	p->now.spot_stay[s] = add(mix(less(b->spot, b->spot, s, p->to->slacks, p->spot_step),
				      after_loss(p, b, s, p->spot_redo), p->lost),
	    machines * (p->spot_usd + p->lost * p->redo_usd));
	for (int in = 0; in < 2; in++)
		p->now.demand_stay[in][s] =
		    add(mix(b->demand[in][s], b->demand[!in][s], in ? p->lost_tick : p->back),
			machines * p->demand_usd);
}

/* All states with this slack; so many machines are at work. */
static uint16_t
solve_cell(struct problem *p, int64_t s, double machines)
{
	struct row *n = &p->now;
	int64_t most = p->to->slacks;
	struct shift tick = { 1, 0 };
	double waits, takes, rents[2], leaves, goes;
	uint16_t actions = 0;

	solve_stays(p, s, machines);
	for (int in = 0; in < 2; in++)
		rents[in] = add(less(n->demand[in], n->demand_stay[in], s, most, p->demand_start),
		    machines * p->demand_start_usd);
	waits = mix(less(n->idle[0], n->idle[0], s, most, tick),
	    less(n->idle[1], n->idle[1], s, most, tick), p->back);
	takes = start_spot(p, s, p->spot_start, machines * p->spot_start_usd, p->lost_start);
	leaves = add(less(n->demand[1], n->demand_stay[1], s, most, p->to_demand),
	    machines * p->demand_move_usd);
	goes = start_spot(p, s, p->to_spot, machines * p->spot_move_usd, p->lost_move);

	n->idle[0][s] = least(waits, rents[0]);
	n->idle[1][s] = least(takes, rents[1]);
	n->spot[s] = least(n->spot_stay[s], leaves);
	n->demand[0][s] = least(n->demand_stay[0][s], n->idle[0][s]);
	n->demand[1][s] = least(n->demand_stay[1][s], goes);
	note_action(&actions, DEADLINE_IDLE_OUT, n->idle[0][s],
	    waits < rents[0] * (1 - SLIGHT) ? DEADLINE_WAIT : DEADLINE_RENT);
	note_action(&actions, DEADLINE_IDLE_IN, n->idle[1][s],
	    takes <= rents[1] ? DEADLINE_TAKE : DEADLINE_RENT);
	note_action(&actions, DEADLINE_SPOT, n->spot[s],
	    n->spot_stay[s] <= leaves ? DEADLINE_TAKE : DEADLINE_RENT);
	note_action(&actions, DEADLINE_DEMAND_OUT, n->demand[0][s],
	    n->demand_stay[0][s] <= n->idle[0][s] ? DEADLINE_RENT : DEADLINE_WAIT);
	note_action(&actions, DEADLINE_DEMAND_IN, n->demand[1][s],
	    n->demand_stay[1][s] <= goes ? DEADLINE_RENT : DEADLINE_TAKE);
	return actions;
}

/* The grid's arrays; all of them are 0 to begin with: nothing is left to do. */
static espl_status
make_rows(struct problem *p)
{
	size_t length = (size_t)p->to->slacks + 1;
	double *at = calloc(2 * ARRAYS * length, sizeof *at);
	struct row *rows[] = { &p->now, &p->before };

	p->memory = at;
	if (at == NULL)
		return ESPL_E_NOMEM;
	for (int i = 0; i < 2; i++) {
		double **to[ARRAYS] = { &rows[i]->idle[0], &rows[i]->idle[1], &rows[i]->spot,
			&rows[i]->demand[0], &rows[i]->demand[1], &rows[i]->spot_stay,
			&rows[i]->demand_stay[0], &rows[i]->demand_stay[1] };

		for (uint32_t k = 0; k < ARRAYS; k++, at += length)
			*to[k] = at;
	}
	return ESPL_OK;
}

/* What time, money and risk come to on the grid. */
static void
set_terms(struct problem *p)
{
	const struct deadline_world *w = &p->to->world;
	double tick = p->to->tick_s, spot = w->spot_usd_h / 3600, demand = w->demand_usd_h / 3600;
	double begin = w->spot_boot_s + w->away_s, step = tick * w->slower;

	p->spot_start = make_shift(begin, tick);
	p->demand_start = make_shift(w->demand_boot_s + w->away_s, tick);
	p->to_spot = make_shift(w->away_s, tick);
	/* a slow machine uses up slack until the other one is ready */
	p->to_demand =
	    make_shift(w->away_s + (w->slower > 1 ? w->demand_boot_s * (1 - 1 / w->slower) : 0),
		tick);
	p->spot_step = make_shift(step - tick, tick);
	p->spot_redo = make_shift(step - tick + w->redo_s, tick);
	p->spot_start_usd = begin * spot;
	p->spot_move_usd = begin * spot;
	p->demand_start_usd = p->demand_move_usd = (w->demand_boot_s + w->away_s) * demand;
	p->spot_usd = step * spot;
	p->redo_usd = w->redo_s * spot;
	p->demand_usd = tick * demand;
	p->lost = chance(w->lost_h, step);
	p->lost_tick = chance(w->lost_h, tick);
	p->lost_start = chance(w->lost_h, begin);
	p->lost_move = chance(w->lost_h, w->away_s);
	p->back = chance(w->back_h, tick);
}

static void
solve_rows(struct problem *p, const struct deadline_part *parts, uint32_t count)
{
	struct deadline *to = p->to;
	size_t length = (size_t)to->slacks + 1;
	uint32_t part = 0;

	for (uint32_t w = 1; w <= to->works; w++) {
		struct row spent = p->before;

		p->before = p->now;
		p->now = spent;
		while (part + 1 < count && parts[part].work_s < w * to->tick_s)
			part++;
		for (int64_t s = 0; s <= to->slacks; s++)
			to->actions[w * length + (size_t)s] =
			    solve_cell(p, s, count > 0 ? parts[part].machines : 1);
	}
	to->cost = to->works > 0 ? p->now.idle[0][to->slacks] : 0;
}

espl_status
deadline_solve(const struct deadline_world *world, const struct deadline_part *parts,
    uint32_t count, double work_s, double slack_s, struct deadline **solved)
{
	struct problem p = { .to = calloc(1, sizeof *p.to) };
	espl_status status = ESPL_E_NOMEM;
	double tick;

	ESPL_ASSERT(work_s > 0 && slack_s >= 0 && isfinite(work_s) && isfinite(slack_s));
	if (p.to == NULL)
		return ESPL_E_NOMEM;
	tick = sqrt(work_s * slack_s / CELLS);
	tick = tick < TICK_LEAST ? TICK_LEAST : tick;
	tick = tick < work_s / ROWS_MOST ? work_s / ROWS_MOST : tick;
	tick = tick < slack_s / ROWS_MOST ? slack_s / ROWS_MOST : tick;
	p.to->world = *world;
	p.to->work_s = work_s;
	p.to->slack_s = slack_s;
	p.to->tick_s = tick;
	p.to->works = (uint32_t)ceil(work_s / tick);
	p.to->slacks = (uint32_t)floor(slack_s / tick);
	p.to->actions =
	    calloc(((size_t)p.to->works + 1) * ((size_t)p.to->slacks + 1), sizeof *p.to->actions);
	if (p.to->actions != NULL)
		status = make_rows(&p);
	if (status == ESPL_OK) {
		set_terms(&p);
		solve_rows(&p, parts, count);
	}
	free(p.memory);
	if (status == ESPL_OK)
		*solved = p.to;
	else
		deadline_free(p.to);
	return status;
}

void
deadline_free(struct deadline *solved)
{
	if (solved != NULL)
		free(solved->actions);
	free(solved);
}

/* ---- look-ups -------------------------------------------------------------------------------- */

static int
is_near(double a, double b, double share, double slight)
{
	double d = a > b ? a - b : b - a, most = a > b ? a : b;

	return d <= slight || d <= share * most;
}

int
deadline_holds(const struct deadline *solved, double work_s, double slack_s)
{
	/* beyond the grid its edge counts, which is the careful side */
	return work_s <= 1.05 * solved->work_s && slack_s <= 1.2 * solved->slack_s + 60;
}

int
deadline_covers(const struct deadline *solved, const struct deadline_world *world, double work_s,
    double slack_s)
{
	const struct deadline_world *w = &solved->world;

	return deadline_holds(solved, work_s, slack_s) && work_s >= solved->work_s / 2 &&
	    is_near(w->spot_usd_h, world->spot_usd_h, 0.05, 0) &&
	    is_near(w->demand_usd_h, world->demand_usd_h, 0.05, 0) &&
	    is_near(w->slower, world->slower, 0.05, 0) &&
	    is_near(w->lost_h, world->lost_h, 0.15, 0.01) &&
	    is_near(w->back_h, world->back_h, 0.15, 0.01) &&
	    is_near(w->other, world->other, 0, 0.1) &&
	    is_near(w->spot_boot_s, world->spot_boot_s, 0.1, 5) &&
	    is_near(w->demand_boot_s, world->demand_boot_s, 0.1, 5) &&
	    is_near(w->away_s, world->away_s, 0.1, 5) && is_near(w->redo_s, world->redo_s, 0.1, 5);
}

static enum deadline_action
look_up(const struct deadline *solved, enum deadline_state state, int64_t work, int64_t slack)
{
	size_t row = (size_t)solved->slacks + 1;

	if (slack < 0)
		return DEADLINE_TOO_LATE;
	if (work < 1)
		work = 1;
	if (work > solved->works)
		work = solved->works;
	if (slack > solved->slacks)
		slack = solved->slacks;
	return (enum deadline_action)(
	    solved->actions[(size_t)work * row + (size_t)slack] >> (2u * (unsigned)state) & 3u);
}

static int64_t
ticks_up(const struct deadline *solved, double seconds)
{
	double ticks = ceil(seconds / solved->tick_s);

	return ticks < 1e9 ? (int64_t)ticks : 1000000000;
}

/* Seconds as whole ticks, less than none included. */
static int64_t
ticks_down(const struct deadline *solved, double seconds)
{
	double ticks = floor(seconds / solved->tick_s);

	return ticks > 1e9 ? 1000000000 : ticks < -1 ? -1 : (int64_t)ticks;
}

enum deadline_action
deadline_act(const struct deadline *solved, enum deadline_state state, double work_s,
    double slack_s)
{
	return look_up(solved, state, ticks_up(solved, work_s), ticks_down(solved, slack_s));
}

double
deadline_lasts(const struct deadline *solved, enum deadline_state state, double work_s,
    double slack_s)
{
	enum deadline_action now = deadline_act(solved, state, work_s, slack_s);
	double tick = solved->tick_s, pace = state == DEADLINE_SPOT ? solved->world.slower : 1;
	uint32_t most = solved->works + solved->slacks + 2;

	for (uint32_t i = 1; i <= most; i++) {
		double work = work_s, slack = slack_s;

		if (state == DEADLINE_IDLE_OUT || state == DEADLINE_IDLE_IN) {
			slack -= i * tick;
		} else {
			work -= i * tick;
			slack -= i * tick * (pace - 1);
		}
		if (work <= 0 || slack < 0 || deadline_act(solved, state, work, slack) != now)
			return i * tick * (state == DEADLINE_SPOT ? pace : 1);
	}
	return INFINITY;
}

double
deadline_threshold(const struct deadline *solved, double work_s)
{
	int64_t work = ticks_up(solved, work_s), s = solved->slacks;

	while (s >= 0 && look_up(solved, DEADLINE_IDLE_OUT, work, s) == DEADLINE_WAIT)
		s--;
	return (double)(s + 1) * solved->tick_s;
}

double
deadline_cost(const struct deadline *solved)
{
	return solved->cost >= LATE ? INFINITY : solved->cost;
}
