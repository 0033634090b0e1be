/* bench_deadline.c - deadlines on spot machines: how long a problem takes to solve, and what a
 *policy that knows the future would pay.
 *
 *	bench_deadline                 times of deadline_solve, one JSON object a line
 *	bench_deadline omniscient      costs in dollars of the worlds of standard input, one a line:
 *	    WORK START DEADLINE SPOT DEMAND COUNT FROM TO ...
 * in seconds and dollars per hour; COUNT pairs of instants between which there is spot capacity.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/kit/assert.h>
#include "deadline.h"

#define TICK 60.0 /* of the omniscient policy, seconds */
#define LATE 1e30f

static double
read_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int
time_solve(double work_h, double slack, double start_s)
{
	struct deadline_world w = { .away_s = start_s,
		.redo_s = 60,
		.slower = 1,
		.spot_usd_h = 0.918,
		.demand_usd_h = 3.06,
		.lost_h = 0.3,
		.back_h = 0.6 };
	struct deadline *solved = NULL;
	double begun = read_clock();

	if (deadline_solve(&w, NULL, 0, work_h * 3600, slack * work_h * 3600, &solved) != ESPL_OK)
		return 1;
	printf("{\"work_h\": %g, \"slack\": %g, \"start_s\": %g, \"solve_ms\": %.1f, "
	       "\"cost_usd\": %.2f}\n",
	    work_h, slack, start_s, (read_clock() - begun) * 1e3, deadline_cost(solved));
	deadline_free(solved);
	return 0;
}

/* ---- who knows the future -------------------------------------------------------------------- */

struct past {
	uint32_t ticks, work, start;
	float spot, demand; /* of a tick */
	unsigned char *there;
};
enum { IDLE, SPOT, DEMAND, MODES };

static float *
values(const struct past *p, float *room, uint32_t tick, int mode)
{
	return room +
	    ((size_t)(tick % (p->start + 2)) * MODES + (size_t)mode) * ((size_t)p->work + 1);
}

static float
least(float a, float b)
{
	return a < b ? a : b;
}

/* One tick before the others; starts are whole, and are not begun where they would be lost. */
static void
step_back(const struct past *p, float *room, uint32_t t)
{
	float *now[MODES], *next[MODES], *later[MODES];
	int whole = t + p->start <= p->ticks;

	for (int m = 0; m < MODES; m++) {
		now[m] = values(p, room, t, m);
		next[m] = values(p, room, t + 1, m);
		later[m] = values(p, room, t + p->start, m);
		now[m][0] = 0;
	}
	for (uint32_t k = 0; k < p->start && t + k < p->ticks; k++)
		whole = whole && p->there[t + k];
	for (uint32_t w = 1; w <= p->work; w++) {
		float begun = LATE, rented = LATE;
		float spot = p->there[t] ? next[SPOT][w - 1] + p->spot : LATE;
		float demand = next[DEMAND][w - 1] + p->demand;

		if (p->start == 0) {
			begun = spot;
			rented = demand;
		} else if (t + p->start <= p->ticks) {
			begun = whole ? later[SPOT][w] + p->spot * (float)p->start : LATE;
			rented = later[DEMAND][w] + p->demand * (float)p->start;
		}
		now[IDLE][w] = least(next[IDLE][w], least(begun, rented));
		now[SPOT][w] = least(spot, now[IDLE][w]);
		now[DEMAND][w] = least(demand, now[IDLE][w]);
	}
}

static double
pay_least(const struct past *p)
{
	size_t size = (size_t)(p->start + 2) * MODES * ((size_t)p->work + 1);
	float *room = malloc(size * sizeof *room);
	double cost;

	ESPL_ASSERT(room != NULL);
	for (size_t i = 0; i < size; i++)
		room[i] = LATE;
	for (int m = 0; m < MODES; m++)
		values(p, room, p->ticks, m)[0] = 0;
	for (uint32_t t = p->ticks; t-- > 0;)
		step_back(p, room, t);
	cost = (double)values(p, room, 0, IDLE)[p->work];
	free(room);
	return cost;
}

static int
answer_worlds(void)
{
	double work, start, deadline, spot, demand, from, to;
	unsigned count;

	while (scanf("%lf %lf %lf %lf %lf %u", &work, &start, &deadline, &spot, &demand, &count) ==
	    6) {
		struct past p = { .ticks = (uint32_t)floor(deadline / TICK + 1e-6),
			.work = (uint32_t)ceil(work / TICK - 1e-6),
			.start = (uint32_t)floor(start / TICK + 0.5),
			.spot = (float)(spot * TICK / 3600),
			.demand = (float)(demand * TICK / 3600) };

		p.there = calloc((size_t)p.ticks + 1, 1);
		ESPL_ASSERT(p.there != NULL);
		for (unsigned i = 0; i < count && scanf("%lf %lf", &from, &to) == 2; i++)
			for (uint32_t t = 0; t < p.ticks; t++)
				if (t * TICK >= from && t * TICK < to)
					p.there[t] = 1;
		printf("%.6f\n", pay_least(&p));
		(void)fflush(stdout);
		free(p.there);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "omniscient") == 0)
		return answer_worlds();
	return time_solve(24, 0.04, 180) || time_solve(48, 0.25, 180) || time_solve(96, 0.6, 60) ||
	    time_solve(96, 0.6, 720);
}
