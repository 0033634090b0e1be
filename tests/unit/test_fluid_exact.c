/* test_fluid_exact.c - static plans of allocator fluid against the best there is without sharing
 * GPUs.
 *
 * Best: over every width of every trial and every order in which they may begin, each on the GPUs
 * that are free first.  An order by begin of the best schedule is one of these, so nothing better
 * is left out; what cannot beat the best so far is not followed.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test_fluid.h"

#define GPUS 6u
#define TRIALS 5u

struct exact {
	const struct group *g;
	double best;
	uint64_t looks;
};

static double
later(double a, double b)
{
	return a > b ? a : b;
}

static uint32_t
widest(const struct group *g, uint32_t trial)
{
	return g->d[trial] > 0 && g->d[trial] < g->gpus ? g->d[trial] : g->gpus;
}

/* No end of all that is left is before this.  beta is not below 1, so one GPU takes the least GPU
 * time. */
static double
bound_of(const struct group *g, const double *free_at, uint32_t left, double end)
{
	double sum = 0;
	uint32_t i, w;

	for (i = 0; i < g->gpus; i++)
		sum += free_at[i];
	for (i = 0; i < g->count; i++) {
		double least = INFINITY;

		if ((left >> i & 1) == 0)
			continue;
		sum += g->h1[i];
		for (w = 1; w <= widest(g, i); w++)
			least = fmin(least, free_at[w - 1] + fluid_h(g, i, w, 1));
		end = later(end, least);
	}
	return later(end, sum / g->gpus);
}

/* free_at rises; the `width` first become free at `until`. */
static void
occupy(const double *free_at, uint32_t gpus, uint32_t width, double until, double *to)
{
	uint32_t i, k, n = 0;

	for (i = width; i < gpus && free_at[i] <= until; i++)
		to[n++] = free_at[i];
	for (k = 0; k < width; k++)
		to[n++] = until;
	for (; i < gpus; i++)
		to[n++] = free_at[i];
}

static void
look(struct exact *x, const double *free_at, uint32_t left, double end)
{
	const struct group *g = x->g;
	uint32_t i, w;

	x->looks++;
	if (left == 0) {
		x->best = end < x->best ? end : x->best;
		return;
	}
	if (bound_of(g, free_at, left, end) >= x->best * (1 - 1e-12))
		return;
	for (i = 0; i < g->count; i++)
		for (w = 1; (left >> i & 1) != 0 && w <= widest(g, i); w++) {
			double after[GPUS], until = free_at[w - 1] + fluid_h(g, i, w, 1);

			if (until >= x->best)
				continue;
			occupy(free_at, g->gpus, w, until, after);
			look(x, after, left & ~(1u << i), later(end, until));
		}
}

static double
exact(const struct group *g)
{
	struct exact x = { .g = g, .best = INFINITY };
	double free_at[GPUS] = { 0 };

	cr_assert(g->count <= TRIALS && g->gpus <= GPUS && g->beta >= 1);
	look(&x, free_at, (1u << g->count) - 1, 0);
	return x.best;
}

/* ---- the solver itself --------------------------------------------------------------------- */

/* Figure 5's trials; the optima were found by another program. */
Test(fluid_exact, known_optima)
{
	static const struct {
		double beta;
		uint32_t d;
		double optimum;
	} cases[] = { { 1, 5, 10 }, { 1.05, 5, 11.03 }, { 1.10, 5, 12.10 }, { 1.12, 5, 12.54 },
		{ 1.25, 3, 15.62 } };
	struct group g = { .count = 4, .gpus = 5, .c = 1, .alpha = 1, .h1 = { 4, 4, 12, 30 } };
	uint32_t i, k;

	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		g.beta = cases[i].beta;
		for (k = 0; k < 4; k++)
			g.d[k] = cases[i].d;
		cr_assert_float_eq(exact(&g), cases[i].optimum, 0.006, "beta %g: %.4f", g.beta,
		    exact(&g));
	}
}

/* Every set of GPUs, every width, every order, every begin that is an end or 0: nothing is left
 * out. */
static void
try_all(const struct group *g, uint32_t left, double (*spans)[GPUS][TRIALS][2], uint32_t *counts,
    double end, double *best)
{
	uint32_t i, set, k, s;

	if (left == 0 && end < *best)
		*best = end;
	for (i = 0; i < g->count; i++)
		for (set = 1; (left >> i & 1) != 0 && set < 1u << g->gpus; set++) {
			uint32_t width = (uint32_t)__builtin_popcount(set);
			double begin = 0, long_ = fluid_h(g, i, width, 1);
			int again = 1;

			if (width > widest(g, i))
				continue;
			while (again) /* the first gap that is wide enough on all of them */
				for (again = 0, k = 0; k < g->gpus && !again; k++)
					for (s = 0; (set >> k & 1) != 0 && s < counts[k] && !again;
					     s++)
						if (begin < (*spans)[k][s][1] - 1e-12 &&
						    begin + long_ > (*spans)[k][s][0] + 1e-12) {
							begin = (*spans)[k][s][1];
							again = 1;
						}
			for (k = 0; k < g->gpus; k++)
				if ((set >> k & 1) != 0) {
					(*spans)[k][counts[k]][0] = begin;
					(*spans)[k][counts[k]++][1] = begin + long_;
				}
			try_all(g, left & ~(1u << i), spans, counts, later(end, begin + long_),
			    best);
			for (k = 0; k < g->gpus; k++)
				counts[k] -= set >> k & 1;
		}
}

static void
draw(struct group *g, uint64_t *state, uint32_t trials, uint32_t gpus)
{
	uint32_t i, kind = (uint32_t)(fluid_random(state) % 4),
		    limited = (uint32_t)(fluid_random(state) % 2);

	memset(g, 0, sizeof *g);
	g->count = 1 + (uint32_t)(fluid_random(state) % trials);
	g->gpus = 1 + (uint32_t)(fluid_random(state) % gpus);
	g->c = 1 + (uint32_t)(fluid_random(state) % 4);
	g->alpha = g->c == 1 ? 1 : 1 + (1.0 * g->c / (g->c - 1) - 1) * 0.95 * fluid_uniform(state);
	g->beta = fluid_random(state) % 3 == 0 ? 1 : 1 + 0.4 * fluid_uniform(state);
	if (fluid_random(state) % 3 == 0) /* nothing costs anything: the tightest */
		g->alpha = g->beta = 1;
	for (i = 0; i < g->count; i++) {
		g->h1[i] = kind == 0 ? 1 + 99 * fluid_uniform(state)
		    : kind == 1      ? 50 * exp(fluid_normal(state))
		    : kind == 2      ? 42
		    : i == 0         ? 100
				     : 20 + 20 * fluid_uniform(state);
		g->d[i] = limited ? 1 + (uint32_t)(fluid_random(state) % g->gpus) : 0;
	}
}

Test(fluid_exact, no_schedule_beats_it)
{
	static double spans[GPUS][TRIALS][2];
	struct group g;
	uint64_t state = 21;
	uint32_t seed, counts[GPUS];

	for (seed = 0; seed < 300; seed++) {
		double best = INFINITY;

		draw(&g, &state, 3, 3);
		memset(counts, 0, sizeof counts);
		try_all(&g, (1u << g.count) - 1, &spans, counts, 0, &best);
		cr_assert_float_eq(exact(&g), best, 1e-9 * best, "group %u: %.9g, not %.9g", seed,
		    exact(&g), best);
	}
}

/* ---- what a static plan is worth ------------------------------------------------------------- */

/* By how much it may be later: trials of a GPU or more by the first, those that share one by the
 * second. */
static double
factor(const struct group *g)
{
	uint32_t i, d = 1;

	for (i = 0; i < g->count; i++)
		d = widest(g, i) > d ? widest(g, i) : d;
	return later(2 * pow(g->beta, d - 1.0), (1 + 1.0 / g->c) * pow(g->alpha, g->c - 1.0));
}

Test(fluid_exact, a_static_plan_is_near_the_best_without_sharing)
{
	static struct course run;
	struct group g;
	uint64_t state = 22;
	uint32_t seed, ideal = 0;
	double sum = 0, worst = 0, worst_ideal = 0;

	for (seed = 0; seed < 3000; seed++) {
		double best, ratio;

		draw(&g, &state, TRIALS, GPUS);
		memset(&run, 0, sizeof run);
		run.hard = 1;
		fluid_run(&g, "mode=paper resize=false benefit=0", &run);
		cr_assert(run.why[0] == '\0' && !run.crowded && !run.stuck, "group %u: %s", seed,
		    run.why);
		best = exact(&g);
		ratio = run.makespan / best;
		cr_assert(ratio <= factor(&g) * (1 + 1e-9), "group %u: %g times %g, more than %g",
		    seed, ratio, best, factor(&g));
		sum += ratio;
		worst = later(worst, ratio);
		if (g.beta == 1 && g.alpha == 1) {
			worst_ideal = later(worst_ideal, ratio);
			ideal++;
		}
	}
	printf("# static / best without sharing: mean %.3f, at most %.3f; without overheads at "
	       "most %.3f (%u groups)\n",
	    sum / 3000, worst, worst_ideal, ideal);
	cr_assert(ideal > 300 && worst_ideal <= 2 * (1 + 1e-9));
	cr_assert_gt(worst, 1.5, "the groups do not try the bound: %g", worst);
}
