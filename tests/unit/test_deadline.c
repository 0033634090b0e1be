/* The problem of a deadline on spot machines: its solution against the same problem solved plainly,
 * against a play of its policy, and in worlds that have one answer. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "deadline.h"

#define HOUR 3600.0

static const struct deadline_world usual = {
	.away_s = 180, .slower = 1, .spot_usd_h = 1, .demand_usd_h = 3, .lost_h = 0.3, .back_h = 0.6
};

static struct deadline *
solve(const struct deadline_world *w, double work_h, double slack_h)
{
	struct deadline *d = NULL;

	cr_assert_eq(deadline_solve(w, NULL, 0, work_h * HOUR, slack_h * HOUR, &d), ESPL_OK);
	return d;
}

/* splitmix64 */
static double
draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

struct played {
	double usd;
	int late;
};

/* One run in steps of five seconds; `there` is drawn. */
static struct played
play(const struct deadline *d, const struct deadline_world *w, double work_s, double slack_s,
    uint64_t *seed)
{
	const double step = 5;
	struct played p = { 0, 0 };
	double start = 0, end = work_s + slack_s;
	int there = 0, on = 0; /* 1 spot, 2 demand */

	for (double now = 0; work_s > 1e-6; now += step) {
		static const enum deadline_state states[3][2] = {
			{ DEADLINE_IDLE_OUT, DEADLINE_IDLE_IN }, { DEADLINE_SPOT, DEADLINE_SPOT },
			{ DEADLINE_DEMAND_OUT, DEADLINE_DEMAND_IN }
		};
		double slack = end - now - work_s, run = step, rate = there ? w->lost_h : w->back_h;
		enum deadline_action act;
		int to;

		there = draw(seed) < rate * step / HOUR ? !there : there;
		if (on == 1 && !there)
			on = 0, start = 0;
		act = deadline_act(d, states[on][there], work_s, slack - step);
		to = act == DEADLINE_WAIT ? 0 : act == DEADLINE_TAKE ? 1 : 2;
		if (act == DEADLINE_TOO_LATE && on == 1 && slack < w->away_s)
			to = 1;
		if (start <= 0 && to != on) {
			on = to;
			start = on != 0 ? w->away_s : 0;
		}
		if (on == 0)
			continue;
		p.usd += (on == 1 ? w->spot_usd_h : w->demand_usd_h) * step / HOUR;
		run -= start < run ? start : run;
		start = start > step ? start - step : 0;
		work_s -= run;
		p.late = now + step > end + 1e-6;
	}
	return p;
}

Test(deadline, the_policy_costs_what_it_expects_and_is_never_late)
{
	struct deadline *d = solve(&usual, 24, 6);
	uint64_t seed = 1;
	double sum = 0;
	int late = 0;

	for (int i = 0; i < 400; i++) {
		struct played p = play(d, &usual, 24 * HOUR, 6 * HOUR, &seed);

		sum += p.usd;
		late += p.late;
	}
	cr_expect_eq(late, 0, "%d late", late);
	/* the standard error of 400 runs is 0.7 % */
	cr_expect(fabs(sum / 400 / deadline_cost(d) - 1) < 0.03, "$%.2f, not $%.2f", sum / 400,
	    deadline_cost(d));
	deadline_free(d);
}

Test(deadline, it_is_late_in_no_world)
{
	uint64_t seed = 7;
	int late = 0;

	for (int i = 0; i < 60; i++) {
		struct deadline_world w = usual;
		double work = 1 + 4 * draw(&seed), slack;
		struct deadline *d;

		w.away_s = 60 + 660 * draw(&seed);
		w.lost_h = 0.05 + 3 * draw(&seed);
		w.back_h = 0.05 + 3 * draw(&seed);
		slack = w.away_s * 1.1 / HOUR + work * 0.6 * draw(&seed);
		d = solve(&w, work, slack);
		w.lost_h = 0.05 + 3 * draw(&seed); /* the truth is another one */
		w.back_h = 0.05 + 3 * draw(&seed);
		late += play(d, &w, work * HOUR, slack * HOUR, &seed).late;
		deadline_free(d);
	}
	cr_expect_eq(late, 0, "%d late", late);
}

Test(deadline, what_has_one_answer)
{
	struct deadline_world w = usual;
	struct deadline *d = solve(&w, 10, 2);

	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_IN, 10 * HOUR, 2 * HOUR), DEADLINE_TAKE);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_OUT, 10 * HOUR, 200), DEADLINE_RENT);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_OUT, 10 * HOUR, 100), DEADLINE_TOO_LATE);
	cr_expect_eq(deadline_act(d, DEADLINE_DEMAND_IN, 10 * HOUR, 200), DEADLINE_RENT,
	    "a return trip costs more slack than is left");
	deadline_free(d);
	w.demand_boot_s = 120;
	d = solve(&w, 10, 2);
	cr_expect_eq(deadline_act(d, DEADLINE_SPOT, 10 * HOUR, 250), DEADLINE_RENT,
	    "one more interruption would be too late");
	cr_expect_eq(deadline_act(d, DEADLINE_SPOT, 10 * HOUR, 350), DEADLINE_TAKE);
	deadline_free(d);
	w.demand_boot_s = 0;

	w.spot_usd_h = 4; /* dearer than on demand: nothing to wait for */
	d = solve(&w, 10, 5);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_OUT, 10 * HOUR, 5 * HOUR), DEADLINE_RENT);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_IN, 10 * HOUR, 5 * HOUR), DEADLINE_RENT);
	cr_expect(fabs(deadline_cost(d) / (3 * (10 + 0.05)) - 1) < 0.01);
	deadline_free(d);

	w = usual;
	w.lost_h = 0; /* never lost: all of it on spot, once it is there */
	d = solve(&w, 10, 30);
	cr_expect_eq(deadline_act(d, DEADLINE_SPOT, 10 * HOUR, 10), DEADLINE_TAKE);
	cr_expect(fabs(deadline_cost(d) / 10.05 - 1) < 0.02, "$%g", deadline_cost(d));
	deadline_free(d);

	w.back_h = 0; /* and never there */
	d = solve(&w, 10, 30);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_OUT, 10 * HOUR, 30 * HOUR), DEADLINE_RENT,
	    "there is nothing to wait for");
	deadline_free(d);
}

Test(deadline, the_threshold_is_where_it_stops_waiting)
{
	struct deadline *d = solve(&usual, 24, 12);
	double least = deadline_threshold(d, 24 * HOUR);
	double lasts = deadline_lasts(d, DEADLINE_IDLE_OUT, 24 * HOUR, least + HOUR);

	cr_expect(least > 600 && least < 11 * HOUR, "%g s", least);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_OUT, 24 * HOUR, least + 1), DEADLINE_WAIT);
	cr_expect_eq(deadline_act(d, DEADLINE_IDLE_OUT, 24 * HOUR, least - 60), DEADLINE_RENT);
	cr_expect(fabs(lasts - HOUR) < 120, "for %g s, not an hour", lasts);
	cr_expect_lt(deadline_threshold(d, 6 * HOUR), least, "less work, less reserve");
	deadline_free(d);
}

/* Many machines at first, one at the end: slack is worth more while there are many. */
Test(deadline, slack_is_used_where_many_machines_run)
{
	struct deadline_part parts[] = { { 12 * HOUR, 1 }, { 24 * HOUR, 16 } };
	struct deadline *even = solve(&usual, 24, 6), *search = NULL;

	cr_assert_eq(deadline_solve(&usual, parts, 2, 24 * HOUR, 6 * HOUR, &search), ESPL_OK);
	cr_expect_lt(deadline_threshold(search, 24 * HOUR), deadline_threshold(even, 24 * HOUR));
	deadline_free(even);
	deadline_free(search);
}

Test(deadline, a_solution_covers_what_is_like_it)
{
	struct deadline *d = solve(&usual, 24, 6);
	struct deadline_world w = usual;

	cr_expect(deadline_covers(d, &w, 20 * HOUR, 5 * HOUR));
	cr_expect_not(deadline_covers(d, &w, 26 * HOUR, 5 * HOUR), "more work");
	cr_expect_not(deadline_covers(d, &w, 20 * HOUR, 8 * HOUR), "more slack");
	cr_expect_not(deadline_covers(d, &w, 5 * HOUR, 5 * HOUR), "a finer grid is worth it");
	w.lost_h = 0.4;
	cr_expect_not(deadline_covers(d, &w, 20 * HOUR, 5 * HOUR), "another rate");
	deadline_free(d);
}
