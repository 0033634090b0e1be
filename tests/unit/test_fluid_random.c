/* test_fluid_random.c - 10,000 random closed groups through allocator fluid and placer pack. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "test_fluid.h"

#define GROUPS 10000u

static uint32_t
from_to(uint64_t *state, uint32_t low, uint32_t high)
{
	return low + (uint32_t)(fluid_random(state) % (high - low + 1));
}

static void
draw_times(struct group *g, uint64_t *state)
{
	uint32_t kind = from_to(state, 0, 4), i;
	double sd = 0.2 + 0.8 * fluid_uniform(state);

	for (i = 0; i < g->count; i++)
		switch (kind) {
		case 0: /* anything */ g->h1[i] = 1 + 99 * fluid_uniform(state); break;
		case 1: /* around a mean */ g->h1[i] = 50 * exp(sd * fluid_normal(state)); break;
		case 2: /* stages of a halving */
			g->h1[i] =
			    3 * pow(3, from_to(state, 0, 3)) * exp(0.2 * fluid_normal(state));
			break;
		case 3: /* all the same */ g->h1[i] = 42; break;
		default: /* a long one among short ones */
			g->h1[i] = i == 0 ? 100 : 2 + 5 * fluid_uniform(state);
		}
}

static void
draw(struct group *g, uint64_t *state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 6, 8, 8, 8, 12, 16 };
	uint32_t i, limits = from_to(state, 0, 2);
	double mean = 0;

	memset(g, 0, sizeof *g);
	g->gpus = sizes[from_to(state, 0, 10)];
	g->per_node = g->gpus % 4 == 0 && from_to(state, 0, 1) ? 4 : 1;
	g->count = from_to(state, 1, from_to(state, 0, 1) ? 8 : 32);
	g->c = from_to(state, 1, 4);
	g->alpha = g->c == 1 ? 1 : 1 + (1.0 * g->c / (g->c - 1) - 1) * 0.95 * fluid_uniform(state);
	g->beta = 1 + 0.4 * fluid_uniform(state) * fluid_uniform(state);
	draw_times(g, state);
	for (i = 0; i < g->count; i++) {
		g->d[i] = limits == 0 ? 0 : from_to(state, 1, limits == 1 ? 4 : g->gpus);
		mean += g->h1[i] / g->gpus;
	}
	g->eps = mean * 0.03 * fluid_uniform(state);
}

static void
sound(const struct course *run, uint32_t seed, const char *what)
{
	cr_assert_str_eq(run->why, "", "group %u, %s: %s", seed, what, run->why);
	cr_assert(!run->crowded, "group %u, %s: a GPU holds more than it may", seed, what);
	cr_assert(!run->stuck, "group %u, %s: it does not end", seed, what);
}

static struct group group;
static struct course fixed, paper, better, again;

/* The static plan: its widths, its makespan as by list scheduling, and the bound it must keep. */
Test(fluid_random, static_plans_keep_the_bound)
{
	uint64_t state = 1;
	uint32_t seed, i, large, small;

	for (seed = 0; seed < GROUPS; seed++) {
		double expected, bound;

		draw(&group, &state);
		memset(&fixed, 0, sizeof fixed);
		fixed.hard = 1;
		fluid_run(&group, "mode=paper resize=false benefit=0", &fixed);
		sound(&fixed, seed, "static");
		for (i = large = small = 0; i < group.count; i++) {
			cr_assert(fixed.packing[i] == 1 || fixed.packing[i] == group.c, "group %u",
			    seed);
			cr_assert(
			    fixed.gpus[i] >= 1 && (group.d[i] == 0 || fixed.gpus[i] <= group.d[i]));
			small += fixed.packing[i] > 1;
			large += fixed.packing[i] > 1 || group.c == 1 ? 0 : fixed.gpus[i];
		}
		cr_assert(large + (small > 0) <= group.gpus,
		    "group %u: no GPU is left for small trials", seed);
		expected = fluid_list(&group, fixed.gpus, fixed.packing);
		bound = fluid_bound(&group, fixed.gpus, fixed.packing);
		cr_assert_float_eq(fixed.makespan, expected, 1e-6 * expected,
		    "group %u: %.9g, not %.9g", seed, fixed.makespan, expected);
		cr_assert(fixed.makespan <= bound * (1 + 1e-9), "group %u: %g beyond %g", seed,
		    fixed.makespan, bound);
		bound = fluid_average_bound(&group, fixed.gpus, fixed.packing);
		cr_assert(fixed.makespan <= bound * (1 + 1e-9),
		    "group %u: %g beyond %g, by the average", seed, fixed.makespan, bound);
	}
}

/* Improved against the paper, on the clock of GPUs that are shared softly. */
Test(fluid_random, improved_is_hardly_ever_later)
{
	uint64_t state = 2;
	uint32_t seed, late = 0, worst_seed = 0;
	double sum = 0, worst = 0;

	for (seed = 0; seed < GROUPS; seed++) {
		double ratio;

		draw(&group, &state);
		fluid_run(&group, "mode=paper benefit=0", &paper);
		sound(&paper, seed, "paper");
		fluid_run(&group, "benefit=0", &better);
		sound(&better, seed, "improved");
		ratio = better.makespan / paper.makespan;
		cr_assert(better.makespan >= fluid_malleable(&group) * (1 - 1e-6), "group %u",
		    seed);
		sum += ratio;
		late += ratio > 1 + 1e-9;
		if (ratio > worst) {
			worst = ratio;
			worst_seed = seed;
		}
	}
	printf("# improved / paper: mean %.4f, later in %.2f %%, at most by %.1f %% (group %u)\n",
	    sum / GROUPS, 100.0 * late / GROUPS, (worst - 1) * 100, worst_seed);
	cr_assert(sum <= GROUPS, "on average later: %g", sum / GROUPS);
	cr_assert(late < GROUPS / 50, "later in %u groups", late);
	cr_assert(worst <= 1.15, "later by %.1f %% in group %u", (worst - 1) * 100, worst_seed);
}

/* Gangs that must not straddle nodes: widths are such, and all of them find a place in the end. */
Test(fluid_random, colocated_gangs_come_to_an_end)
{
	static const char *const modes[] = { "benefit=0", "mode=paper benefit=0" };
	uint64_t state = 4;
	uint32_t seed, i;

	for (seed = 0; seed < 2000; seed++) {
		draw(&group, &state);
		group.per_node = group.gpus % 4 == 0 ? 4 : 1;
		memset(&better, 0, sizeof better);
		better.colocate = 1;
		better.open = seed % 3 == 0;
		fluid_run(&group, modes[seed % 2], &better);
		sound(&better, seed, "colocated");
		for (i = 0; i < group.count; i++)
			cr_assert(better.gpus[i] <= group.per_node ||
			    better.gpus[i] % group.per_node == 0);
	}
}

/* The order of arrival and the unit of time do not matter, and neither does asking twice. */
Test(fluid_random, same_answers)
{
	static uint32_t order[FLUID_TRIALS];
	uint64_t state = 3;
	uint32_t seed, i;

	for (seed = 0; seed < 500; seed++) {
		draw(&group, &state);
		for (i = 0; i < group.count; i++)
			group.h1[i] *= 1 + 1e-3 * i; /* no two alike */
		for (i = 0; i < group.count; i++)
			order[i] = group.count - 1 - i;
		again.order = order;
		fluid_run(&group, "mode=paper resize=false benefit=0", &fixed);
		fluid_run(&group, "mode=paper resize=false benefit=0", &again);
		for (i = 0; i < group.count; i++)
			cr_assert(fixed.gpus[i] == again.gpus[i] &&
				fixed.packing[i] == again.packing[i],
			    "group %u, trial %u", seed, i);
		again.order = NULL;
		fluid_run(&group, "benefit=0", &better);
		fluid_run(&group, "benefit=0", &again);
		cr_assert(better.makespan >= again.makespan && better.makespan <= again.makespan);
		for (i = 0; i < group.count; i++)
			group.h1[i] *= 1024;
		group.eps *= 1024;
		fluid_run(&group, "benefit=0", &again);
		cr_assert_float_eq(again.makespan, 1024 * better.makespan, 1e-6 * again.makespan,
		    "group %u", seed);
	}
}
