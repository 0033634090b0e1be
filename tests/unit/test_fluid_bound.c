/* test_fluid_bound.c - what a group's makespan is at least and at most; see test_fluid.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "test_fluid.h"

/* ---- numbers ----------------------------------------------------------------------------- */

uint64_t
fluid_random(uint64_t *state)
{
	return espl__split_mix(state);
}

double
fluid_uniform(uint64_t *state)
{
	return (double)(fluid_random(state) >> 11) * 0x1.0p-53;
}

double
fluid_normal(uint64_t *state)
{
	double u = 1 - fluid_uniform(state), v = fluid_uniform(state);

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

double
fluid_h(const struct group *g, uint32_t trial, uint32_t gpus, uint32_t packing)
{
	return packing > 1 ? g->h1[trial] * pow(g->alpha, packing - 1.0)
			   : g->h1[trial] / gpus * pow(g->beta, gpus - 1.0);
}

/* ---- bounds ------------------------------------------------------------------------------ */

static double
later(double a, double b)
{
	return a > b ? a : b;
}

/* The average load of a GPU. */
static double
average_of(const struct group *g)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < g->count; i++)
		sum += g->h1[i];
	return sum / g->gpus;
}

/* Is it due less than a GPU?  Where none is shared it gets a whole one all the same, when one is
 * free. */
static int
is_small(const struct group *g, uint32_t trial, uint32_t packing, double average)
{
	return packing > 1 || (g->c == 1 && g->h1[trial] < average * (1 - 1e-12));
}

/* P2, from the average load alone. An item whose fair share exceeds its maximum ends when it ends.
 */
double
fluid_average_bound(const struct group *g, const uint32_t *gpus, const uint32_t *packing)
{
	double average = average_of(g), bound = 0;
	uint32_t i;

	for (i = 0; i < g->count; i++)
		if (is_small(g, i, packing[i], average))
			bound =
			    later(bound, (1 + 1.0 / g->c) * pow(g->alpha, g->c - 1.0) * average);
		else if (g->h1[i] / average >= gpus[i] + 1.0)
			bound = later(bound, fluid_h(g, i, gpus[i], 1));
		else
			bound = later(bound, 2 * average * pow(g->beta, gpus[i] - 1.0));
	return bound;
}

double
fluid_bound(const struct group *g, const uint32_t *gpus, const uint32_t *packing)
{
	double large = 0, sum = 0, longest = 0, m = g->gpus, slow = pow(g->alpha, g->c - 1.0),
	       average = average_of(g);
	uint32_t i;

	for (i = 0; i < g->count; i++)
		if (is_small(g, i, packing[i], average)) {
			sum += g->h1[i];
			longest = later(longest, g->h1[i]);
		} else {
			large = later(large, fluid_h(g, i, gpus[i], 1));
			m -= gpus[i];
		}
	if (!(sum > 0))
		return large;
	return later(large, slow * (sum / (m * g->c) + (1 - 1 / (m * g->c)) * longest));
}

struct turn {
	double width, h1;
	uint32_t trial;
};

static int
turn_order(const void *x, const void *y)
{
	const struct turn *a = x, *b = y;

	if (a->width != b->width)
		return a->width > b->width ? -1 : 1;
	if (a->h1 != b->h1)
		return a->h1 > b->h1 ? -1 : 1;
	return a->trial < b->trial ? -1 : a->trial > b->trial;
}

/* Slots of each GPU with the time at which they come free: all c of one for a whole trial. */
double
fluid_list(const struct group *g, const uint32_t *gpus, const uint32_t *packing)
{
	static struct turn turns[FLUID_TRIALS];
	static double free_at[FLUID_TRIALS][64];
	double end, last = 0;
	uint32_t i, k, w, s, at, slot;

	for (i = 0; i < g->count; i++)
		turns[i] = (struct turn){ (double)gpus[i] / packing[i], g->h1[i], i };
	qsort(turns, g->count, sizeof *turns, turn_order);
	memset(free_at, 0, sizeof free_at);
	for (i = 0; i < g->count; i++) {
		uint32_t trial = turns[i].trial;

		if (packing[trial] > 1) {
			double best = INFINITY;

			for (k = at = slot = 0; k < g->gpus; k++)
				for (s = 0; s < g->c; s++)
					if (free_at[k][s] < best) {
						best = free_at[k][s];
						at = k;
						slot = s;
					}
			end = best + fluid_h(g, trial, 1, packing[trial]);
			free_at[at][slot] = end;
			last = later(last, end);
			continue;
		}
		{ /* the w GPUs that are free first, and all of them to its end */
			uint32_t chosen[FLUID_TRIALS];
			double begin = 0;

			for (w = 0; w < gpus[trial]; w++) {
				double best = INFINITY;

				for (k = 0; k < g->gpus; k++) {
					double whole = 0;
					uint32_t taken = 0;

					for (s = 0; s < g->c; s++)
						whole = later(whole, free_at[k][s]);
					for (s = 0; s < w; s++)
						taken |= chosen[s] == k;
					if (!taken && whole < best) {
						best = whole;
						chosen[w] = k;
					}
				}
				begin = later(begin, best);
			}
			end = begin + fluid_h(g, trial, gpus[trial], 1);
			for (w = 0; w < gpus[trial]; w++)
				for (s = 0; s < g->c; s++)
					free_at[chosen[w]][s] = end;
			last = later(last, end);
		}
	}
	return last;
}

/* The least GPUs with which a trial trains at that rate (1: one GPU) on average, mixing widths. */
static double
area(const struct group *g, uint32_t trial, double rate)
{
	double x[FLUID_TRIALS + 64], y[FLUID_TRIALS + 64], best = INFINITY;
	uint32_t n = 0, p, w, i, k, d = g->d[trial] > 0 ? g->d[trial] : g->gpus;

	x[n] = 0, y[n++] = 0;
	for (p = g->c; p > 1; p--)
		x[n] = pow(g->alpha, 1.0 - p), y[n++] = 1.0 / p;
	for (w = 1; w <= d && w <= g->gpus; w++)
		x[n] = w / pow(g->beta, w - 1.0), y[n++] = w;
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++) {
			double at;

			if (!(x[i] <= rate) || !(x[k] >= rate))
				continue;
			at = x[k] > x[i]  ? y[i] + (y[k] - y[i]) * (rate - x[i]) / (x[k] - x[i])
			    : y[i] < y[k] ? y[i]
					  : y[k];
			best = at < best ? at : best;
		}
	return best;
}

double
fluid_malleable(const struct group *g)
{
	double low = 0, high = 0;
	uint32_t i, step;

	for (i = 0; i < g->count; i++)
		high += g->h1[i];
	for (step = 0; step < 60; step++) {
		double t = (low + high) / 2, used = 0;

		for (i = 0; i < g->count && used <= g->gpus; i++)
			used += area(g, i, g->h1[i] / t);
		*(used <= g->gpus ? &high : &low) = t;
	}
	return high;
}
