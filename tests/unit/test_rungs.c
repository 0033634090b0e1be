/* test_rungs.c - ASHA's rungs against the plain way: sort everything each time. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "algo_play.h"
#include "rungs.h"

#define MOST 400

struct plain {
	double loss;
	uint64_t trial;
	int settled;
};
struct plain_rung {
	struct plain list[MOST];
	uint32_t count;
};

static int
plain_order(const void *a, const void *b)
{
	const struct plain *x = a, *y = b;
	int bad_x = isnan(x->loss) != 0, bad_y = isnan(y->loss) != 0;

	if (bad_x != bad_y)
		return bad_x - bad_y;
	if (!bad_x && x->loss != y->loss)
		return x->loss < y->loss ? -1 : 1;
	return x->trial < y->trial ? -1 : x->trial > y->trial;
}

static uint32_t
quota(const struct plain_rung *rung, uint32_t eta, int up)
{
	return (rung->count + (up ? eta - 1 : 0)) / eta;
}

/* Whom the paper's get_job promotes, written as the paper writes it. */
static int
plain_promote(struct plain_rung *rungs, uint32_t count, uint32_t eta, int up, uint64_t *trial,
    uint32_t *rung)
{
	uint32_t k, i;

	for (k = count - 1; k-- > 0;)
		for (i = 0; i < quota(&rungs[k], eta, up); i++)
			if (!rungs[k].list[i].settled) {
				rungs[k].list[i].settled = 1;
				*trial = rungs[k].list[i].trial;
				*rung = k;
				return 1;
			}
	return 0;
}

static void
play_rungs(uint64_t seed, uint32_t eta, int up)
{
	static struct plain_rung plain[3];
	struct rungs rungs;
	uint64_t n, next = 0;
	uint32_t k;

	for (k = 0; k < 3; k++)
		plain[k].count = 0;
	cr_assert_eq(rungs_init(&rungs, 1, (uint64_t)eta * eta, eta, (uint32_t)up, NULL), ESPL_OK);
	cr_assert_eq(rungs.count, 3);
	for (n = 0; n < MOST; n++) {
		double chance = play_chance(seed, n, 0, 1);
		/* Few values, so that many are equal; sometimes better and better, or worse. */
		double loss = seed % 3 == 0 ? floor(8 * play_chance(seed, n, 0, 2))
		    : seed % 3 == 1         ? -(double)n
					    : (double)n * (chance < 0.3 ? -1 : 1);
		uint32_t at = chance < 0.6 ? 0 : chance < 0.9 ? 1 : 2;
		int goes = play_chance(seed, n, 0, 3) < 0.9, top, there = 0;
		struct plain *mine = &plain[at].list[plain[at].count++];
		uint64_t trial, wanted;
		uint32_t rung, from;

		if (play_chance(seed, n, 0, 4) < 0.1)
			loss = NAN;
		mine->loss = loss;
		/* ids in order, or against it */
		mine->trial = seed % 2 == 0 ? next : MOST - next;
		mine->settled = !goes || isnan(loss);
		cr_assert_eq(rungs_record(&rungs, at, mine->trial, loss, goes, &top, NULL),
		    ESPL_OK);
		wanted = mine->trial;
		qsort(plain[at].list, plain[at].count, sizeof *mine, plain_order);
		for (k = 0; k < quota(&plain[at], eta, up); k++)
			there |= plain[at].list[k].trial == wanted && !isnan(loss);
		cr_assert_eq(top, there, "seed %u result %u", (unsigned)seed, (unsigned)n);
		next++;
		while (play_chance(seed, n, next, 5) < 0.5 &&
		    plain_promote(plain, 3, eta, up, &wanted, &from)) {
			uint64_t seen;
			uint32_t where;

			cr_assert(rungs_peek(&rungs, &seen, &where));
			cr_assert(rungs_promote(&rungs, &trial, &rung));
			cr_assert_eq(trial, wanted, "seed %u: %u, not %u", (unsigned)seed,
			    (unsigned)trial, (unsigned)wanted);
			cr_assert(rung == from && seen == trial && where == rung);
		}
	}
	rungs_free(&rungs);
}

Test(rungs, as_if_sorted_each_time)
{
	uint64_t seed;

	for (seed = 0; seed < 120; seed++)
		play_rungs(seed, 2 + (uint32_t)seed % 4, seed % 5 == 0);
}

static void
levels_are(uint64_t first, uint64_t last, uint64_t eta, const uint64_t *levels, uint32_t count)
{
	struct rungs rungs;
	uint32_t i;

	cr_assert_eq(rungs_init(&rungs, first, last, eta, 0, NULL), ESPL_OK);
	cr_assert_eq(rungs.count, count);
	for (i = 0; i < count; i++)
		cr_assert_eq(rungs.rungs[i].until, levels[i]);
	rungs_free(&rungs);
}

Test(rungs, levels)
{
	static const uint64_t nine[] = { 1, 3, 9 }, odd[] = { 4, 16, 50 }, one[] = { 7 };
	static const uint64_t huge[] = { 1, 1000000, UINT64_C(1000000000000) };

	levels_are(1, 9, 3, nine, 3);
	levels_are(4, 50, 4, odd, 3);
	levels_are(7, 7, 2, one, 1);
	levels_are(1, UINT64_C(1000000000000), 1000000, huge, 3);
}
