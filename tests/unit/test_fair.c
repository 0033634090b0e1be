/* test_fair.c - shares by weight, within what each item can take: held to what makes them fair. */
#include <criterion/criterion.h>
#include "fair_divide.h"

#define MOST 40

struct scene {
	struct espl_item items[MOST];
	const struct espl_item *list[MOST];
	struct espl_alloc_view view;
	struct espl_roster roster;
	uint32_t shares[MOST], room[2 * MOST + 512];
};
static uint64_t state;

static uint32_t
dice(uint32_t sides)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(state >> 33) % sides;
}

static void
add(struct scene *s, double weight, uint32_t least, uint32_t most, uint32_t flags)
{
	uint32_t n = s->view.item_count;

	s->items[n] = (struct espl_item){ .size = sizeof s->items[n],
		.id = n + 1,
		.gpus_min = least,
		.gpus_max = most,
		.unit = 1,
		.packing_max = 1,
		.weight = weight,
		.flags = flags,
		.granted = { 0, 1 } };
	s->list[n] = &s->items[n];
	s->view.items = s->view.changed = s->list;
	s->view.item_count = s->view.changed_count = n + 1;
}

static int
divide(struct scene *s, uint64_t total, uint32_t per_node)
{
	cr_assert_eq(espl_roster_sync(&s->roster, &s->view, per_node), ESPL_OK);
	return allocator_fair_divide(&s->roster, &s->view, total, s->shares, s->room);
}

static void
is(const struct scene *s, uint32_t a, uint32_t b, uint32_t c)
{
	cr_assert(s->shares[0] == a && s->shares[1] == b && s->shares[2] == c,
	    "%u %u %u, not %u %u %u", s->shares[0], s->shares[1], s->shares[2], a, b, c);
}

Test(fair, what_one_cannot_use_is_the_others)
{
	struct scene s = { .view = { 0 } };

	add(&s, 1, 1, 1, 0);
	add(&s, 1, 1, 16, 0);
	add(&s, 1, 1, 16, 0);
	cr_assert(divide(&s, 12, 4));
	cr_assert_not(allocator_fair_alike(&s.roster, &s.view));
	is(&s, 1, 6, 5);
	espl_roster_free(&s.roster);
}

Test(fair, by_weight_but_nobody_less_than_the_least)
{
	struct scene s = { .view = { 0 } }, t = { .view = { 0 } };

	add(&s, 3, 1, 16, 0);
	add(&s, 1, 1, 16, 0);
	add(&s, 2, 1, 16, 0);
	cr_assert(divide(&s, 12, 4));
	is(&s, 6, 2, 4);
	add(&t, 8, 1, 16, 0);
	add(&t, 1, 4, 16, 0);
	add(&t, 1, 1, 16, 0);
	cr_assert(divide(&t, 12, 4));
	is(&t, 7, 4, 1);
	espl_roster_free(&s.roster);
	espl_roster_free(&t.roster);
}

/* 3 + 3 + 2 are 8 GPUs, but not on two nodes of 4 where nobody may straddle. */
Test(fair, gangs_that_must_not_straddle_stand_side_by_side)
{
	struct scene s = { .view = { 0 } };

	add(&s, 3, 1, 3, ESPL_ITEM_COLOCATE);
	add(&s, 3, 1, 3, ESPL_ITEM_COLOCATE);
	add(&s, 2, 1, 2, ESPL_ITEM_COLOCATE);
	cr_assert_not(divide(&s, 8, 4));
	s.items[0].flags = 0;
	cr_assert(divide(&s, 8, 4), "one of them may");
	espl_roster_free(&s.roster);
}

/* Nothing is idle that somebody could take, and whoever has more for its weight than another has
 * its least, or the other its most, but for the rounding to whole GPUs. */
Test(fair, ten_thousand_random_sets_are_fair)
{
	for (uint32_t seed = 0; seed < 10000; seed++) {
		struct scene s = { .view = { 0 } };
		uint64_t least = 0, used = 0, total;
		uint32_t n;

		state = seed + 1;
		n = 1 + dice(12);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t low = 1 + dice(3);

			add(&s, 1 + dice(4), low, low + dice(3) * dice(20), 0);
			least += low;
		}
		total = least + dice(40);
		cr_assert(divide(&s, total, 1 + dice(8)), "nobody minds straddling");
		for (uint32_t i = 0; i < n; i++) {
			cr_assert(s.shares[i] >= s.items[i].gpus_min &&
				s.shares[i] <= s.items[i].gpus_max,
			    "seed %u", seed);
			used += s.shares[i];
		}
		cr_assert_leq(used, total, "seed %u", seed);
		for (uint32_t i = 0; i < n; i++)
			cr_assert(used == total || s.shares[i] == s.items[i].gpus_max,
			    "seed %u: %u could have more", seed, i);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < n; k++)
				cr_assert(s.shares[i] == s.items[i].gpus_min ||
					s.shares[k] == s.items[k].gpus_max ||
					(s.shares[i] - 1) / s.items[i].weight <=
					    (s.shares[k] + 1) / s.items[k].weight + 1e-9,
				    "seed %u: %u of weight %g, %u of weight %g", seed, s.shares[i],
				    s.items[i].weight, s.shares[k], s.items[k].weight);
		espl_roster_free(&s.roster);
	}
}
