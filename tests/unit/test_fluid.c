/* test_fluid.c - the rules of allocator fluid against cases with known answers.
 *
 * Widths and makespans of whole groups, and the limits c and d, were worked out from the published
 * paper (Fluid, MLSys'21) with exact fractions, changes while trials run by hand, apart from this
 * code.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../plugins/allocators/fluid/fluid.h"
#include "test_fluid.h"

/* ---- static ------------------------------------------------------------------------------ */

struct plan {
	const char *name;
	/* count: of h1, or all alike as h1[0]; d[0] 0: any */
	uint32_t count, gpus, c, d[12];
	double alpha, beta, h1[12];
	const char *widths; /* one for all, or one each */
	double makespan;
};

static const struct plan plans[] = {
	/* The paper's figure 5: 30 s on three GPUs, both of 4 s share one. */
	{ "figure 5", 4, 5, 2, { 0 }, 1, 1, { 4, 4, 12, 30 }, "1/2 1/2 1 3", 12 },
	/* (1/49) * 49 is below 1 in doubles. */
	{ "exact 49", 49, 49, 4, { 0 }, 1, 1, { 1 }, "1", 1 },
	{ "one more than GPUs", 5, 4, 2, { 0 }, 1.2, 1, { 10 }, "1/2", 12 },
	{ "the floor leaves two idle", 3, 8, 2, { 0 }, 1, 1, { 12 }, "2", 6 },
	{ "d caps", 2, 8, 1, { 3, 3 }, 1, 1.1, { 30, 10 }, "3 2", 12.1 },
	{ "d of each trial", 3, 8, 2, { 2, 8, 8 }, 1, 1, { 30, 30, 20 }, "2 3 2", 15 },
	{ "the longest shares, too", 9, 3, 2, { 0 }, 1.5, 1, { 9, 3, 3, 3, 3, 3, 3, 3, 3 }, "1/2",
	    13.5 },
	{ "no sharing is a list", 5, 2, 1, { 0 }, 1, 1, { 5, 4, 3, 3, 1 }, "1", 8 },
	/* The optimum is 32.63: twice the optimum is no bound. */
	{ "theorem 1", 6, 5, 4, { 0 }, 1, 1, { 100, 30.51, 30.51, 30.51, 30.51, 30.51 },
	    "1 1/4 1/4 1/4 1/4 1/4", 100 },
	{ "one trial", 1, 8, 2, { 4 }, 1, 1.1, { 42 }, "4", 13.9755 },
	{ "mixed", 3, 4, 3, { 0 }, 1.2, 1.05, { 1500, 2500, 4000 }, "1/3 1 2", 2500 },
	{ "two rounds", 12, 2, 3, { 0 }, 1.3, 1, { 10 }, "1/3", 33.8 },
};

static void
read_width(const char **at, uint32_t *gpus, uint32_t *packing)
{
	int used = 0;

	*packing = 1;
	if (sscanf(*at, " %u/%u%n", gpus, packing, &used) < 2) {
		*packing = 1;
		cr_assert_eq(sscanf(*at, " %u%n", gpus, &used), 1);
	}
	*at += used;
}

Test(fluid_static, known_plans)
{
	static struct group g;
	static struct course run;
	uint32_t i, k;

	for (i = 0; i < sizeof plans / sizeof plans[0]; i++) {
		const struct plan *p = &plans[i];
		const char *widths = p->widths;
		uint32_t gpus = 0, packing = 1;

		memset(&g, 0, sizeof g);
		g.count = p->count;
		g.gpus = p->gpus;
		g.c = p->c;
		g.alpha = p->alpha;
		g.beta = p->beta;
		for (k = 0; k < g.count; k++) {
			g.h1[k] = k < 12 && p->h1[k] > 0 ? p->h1[k] : p->h1[0];
			g.d[k] = k < 12 && p->d[k] > 0 ? p->d[k] : p->d[0];
		}
		memset(&run, 0, sizeof run);
		run.hard = 1;
		fluid_run(&g, "mode=paper resize=false", &run);
		cr_assert_str_eq(run.why, "", "%s: %s", p->name, run.why);
		for (k = 0; k < g.count; k++) {
			if (*widths != '\0')
				read_width(&widths, &gpus, &packing);
			cr_assert(run.gpus[k] == gpus && run.packing[k] == packing,
			    "%s: trial %u gets %u/%u, not %u/%u", p->name, k, run.gpus[k],
			    run.packing[k], gpus, packing);
		}
		cr_assert_float_eq(run.makespan, p->makespan, 1e-6 * p->makespan, "%s: %.9g",
		    p->name, run.makespan);
	}
}

/* ---- curves ------------------------------------------------------------------------------ */

static const struct fluid_rules rules = { 0.1, 0, 0, 0 };

/* h(w) = h1 alpha^(1/w - 1), h1 / w beta^(w - 1): also where only some widths were measured. */
Test(fluid_curve, run_times)
{
	const struct espl_point scaling[] = { { 1, 1 }, { 4, 4 / (1.1 * 1.1 * 1.1) } };
	const struct espl_point packing[] = { { 1, 1 }, { 4, 4 / (1.2 * 1.2 * 1.2) } };
	struct fluid_curve curve;

	memset(&curve, 0, sizeof curve);
	cr_assert_eq(allocator_fluid_curve_fill(&curve, &rules, 1, scaling, 2, packing, 2),
	    ESPL_OK);
	cr_assert_float_eq(100 * curve.packed[4], 172.8, 1e-9);
	cr_assert_float_eq(100 * curve.packed[2], 120, 1e-9);
	cr_assert_float_eq(100 * curve.whole[1], 100, 1e-9);
	cr_assert_float_eq(100 * curve.whole[2], 55, 1e-9);
	cr_assert_float_eq(100 * curve.whole[4], 33.275, 1e-9);
	cr_assert(curve.packed[5] > 1e300, "nothing is said beyond what was measured");
	cr_assert_eq(curve.wide, 4);
	cr_assert_float_eq(curve.alpha, 1.2, 1e-9);
	cr_assert_float_eq(curve.beta, 1.1, 1e-9);
	free(curve.whole);
}

Test(fluid_curve, nothing_measured)
{
	struct fluid_curve curve;

	memset(&curve, 0, sizeof curve);
	cr_assert_eq(allocator_fluid_curve_fill(&curve, &rules, 1, NULL, 0, NULL, 0), ESPL_OK);
	cr_assert_eq(curve.c, 1);
	cr_assert_eq(curve.d, 1);
	free(curve.whole);
}

Test(fluid_curve, sharing_ends_at_the_first_failure)
{
	const double strict[] = { 0, 1, 1.2, 1.44, 1.728, 2.0736 }, gap[] = { 0, 1, 1.9, 2.0, 2.1 };
	double saved[6];

	allocator_fluid_benefits(strict, 5, saved);
	cr_assert_float_eq(saved[2], 0.4, 1e-9);
	cr_assert_float_eq(saved[3], 0.2, 1e-9);
	cr_assert_float_eq(saved[4], 0.1, 1e-9);
	cr_assert_float_eq(saved[5], 0.04, 1e-9);
	cr_assert_eq(allocator_fluid_choose_c(strict, 5, 0.1), 3, "0.1 is not above 0.1");
	allocator_fluid_benefits(gap, 4, saved);
	cr_assert_float_eq(saved[2], 0.05, 1e-9);
	cr_assert_float_eq(saved[3], 0.29824561403508776, 1e-9);
	cr_assert_float_eq(saved[4], 0.2124999999999999, 1e-9);
	cr_assert_eq(allocator_fluid_choose_c(gap, 4, 0.1), 1);
}

Test(fluid_curve, scaling_ends_where_it_does_not_gain)
{
	const double times[] = { 0, 100, 55, 40, 38, 39, 30 };

	cr_assert_eq(allocator_fluid_choose_d(times, 1, 6, 0), 6, "the fastest, beyond a bump");
	cr_assert_eq(allocator_fluid_choose_d(times, 1, 5, 0), 4);
	cr_assert_eq(allocator_fluid_choose_d(times, 1, 6, 0.1), 3,
	    "38 takes less than a tenth off");
	cr_assert_eq(allocator_fluid_d_by_beta(1.25, 8), 3, "strictly below 4");
	cr_assert_eq(allocator_fluid_d_by_beta(1, 8), 8);
	cr_assert_eq(allocator_fluid_d_by_beta(3, 8), 1);
}

/* ---- algorithm 2 ------------------------------------------------------------------------- */

struct change {
	uint32_t gpus, c;
	double alpha, beta, eps, left[2];
	uint32_t had[2][2], gets[2][2]; /* { gpus, packing } */
};

static const struct change changes[] = {
	/* Figure 5 at 4 s: 1.54 and 3.46 come down to what they have. */
	{ 5, 2, 1, 1, 0, { 8, 18 }, { { 1, 1 }, { 3, 1 } }, { { 1, 1 }, { 3, 1 } } },
	/* 3 + 0.7 is not below 3.6, but 2.625 + 0.7 is below 6. */
	{ 4, 2, 1.2, 1.05, 0.7, { 3, 5 }, { { 1, 2 }, { 1, 2 } }, { { 1, 2 }, { 2, 1 } } },
	/* Down: 10 < 2 * 5.5; up, onto what it gave: 12.1 < 16.5. */
	{ 4, 2, 1, 1.1, 0, { 10, 30 }, { { 2, 1 }, { 2, 1 } }, { { 1, 1 }, { 3, 1 } } },
	/* Equal areas: nobody scales down, and only two idle GPUs can be had. */
	{ 6, 2, 1, 1, 0, { 30, 6 }, { { 2, 1 }, { 2, 1 } }, { { 4, 1 }, { 2, 1 } } },
};

/* A pool of trials that hold what `had` says, each alone where it sits. */
static void
fill(struct fluid_pool *pool, struct fluid_curve *curve, struct espl_item *items,
    const struct change *c)
{
	static struct espl_point scaling[16], packing[4];
	uint32_t i;

	for (i = 0; i < c->gpus; i++)
		scaling[i] = (struct espl_point){ i + 1, (i + 1) / pow(c->beta, i) };
	for (i = 0; i < c->c; i++)
		packing[i] = (struct espl_point){ i + 1, (i + 1) / pow(c->alpha, i) };
	memset(curve, 0, sizeof *curve);
	cr_assert_eq(allocator_fluid_curve_fill(curve, &rules, 1, scaling, c->gpus, packing, c->c),
	    ESPL_OK);
	memset(pool, 0, sizeof *pool);
	cr_assert_eq(allocator_fluid_pool_room(pool, 2), ESPL_OK);
	pool->count = 2;
	pool->total = c->gpus;
	for (i = 0; i < 2; i++) {
		items[i] = (struct espl_item){ .size = (uint32_t)sizeof *items,
			.id = i,
			.gpus_min = 1,
			.gpus_max = c->gpus,
			.unit = 1,
			.packing_max = c->c };
		pool->trials[i] = (struct fluid_trial){ .curve = curve,
			.item = &items[i],
			.id = i,
			.per_node = 1,
			.work = c->left[i],
			.eps = c->eps,
			.least = 1,
			.most = curve->d,
			.c = curve->c,
			.gpus = c->had[i][0],
			.packing = c->had[i][1],
			.node = i,
			.gpu = 0 };
	}
	allocator_fluid_pool_sit(pool);
}

Test(fluid_dynamic, known_changes)
{
	struct espl_item items[2];
	struct fluid_curve curve;
	struct fluid_pool pool;
	uint32_t i, k;

	for (i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		fill(&pool, &curve, items, &changes[i]);
		allocator_fluid_dynamic(&pool);
		for (k = 0; k < 2; k++)
			cr_assert(pool.trials[k].gpus == changes[i].gets[k][0] &&
				pool.trials[k].packing == changes[i].gets[k][1],
			    "case %u: trial %u gets %u/%u", i, k, pool.trials[k].gpus,
			    pool.trials[k].packing);
		allocator_fluid_pool_free(&pool);
		free(curve.whole);
	}
}

/* 8 GPUs become 4: scaling down would not pay (28 > 26.6), and is done all the same. */
Test(fluid_dynamic, lost_gpus_are_lost)
{
	const struct change loss = { 4, 2, 1, 1.1, 3, { 20, 20 }, { { 4, 1 }, { 4, 1 } },
		{ { 2, 1 }, { 2, 1 } } };
	struct espl_item items[2];
	struct fluid_curve curve;
	struct fluid_pool pool;

	fill(&pool, &curve, items, &loss);
	allocator_fluid_dynamic(&pool);
	cr_assert_eq(pool.trials[0].gpus + pool.trials[1].gpus, 8, "algorithm 2 refuses");
	allocator_fluid_shrink(&pool);
	cr_assert(pool.trials[0].gpus == 2 && pool.trials[1].gpus == 2);
	pool.total = 1;
	allocator_fluid_pool_sit(&pool);
	allocator_fluid_shrink(&pool);
	cr_assert(pool.trials[0].packing == 2 && pool.trials[1].packing == 2, "both on one");
	allocator_fluid_pool_free(&pool);
	free(curve.whole);
}

/* At 10 s 2 s are left: 2 / 5 + 0.5 < 2. */
Test(fluid_dynamic, figure_5_to_its_end)
{
	static const struct group g = { .count = 4,
		.gpus = 5,
		.c = 2,
		.h1 = { 4, 4, 12, 30 },
		.alpha = 1,
		.beta = 1,
		.eps = 0.5 };
	static struct course run = { .hard = 1 };

	fluid_run(&g, "mode=paper", &run);
	cr_assert_float_eq(run.makespan, 10.9, 1e-6 * 10.9, "%.9g", run.makespan);
}
