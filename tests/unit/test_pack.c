/* test_pack.c - placer pack on several nodes: gangs keep their slots until there is a place for
 * what they are to have, the widest are placed first, and one small gang may move to make room.
 */
#include <criterion/criterion.h>
#include "testkit.h"

#define GANGS 16

extern const struct espl_plugin placer_pack_LTX_espalier_plugin;

static uint64_t state;

static uint32_t
below(uint32_t limit)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % limit;
}

static struct espl_kit *
nodes(uint32_t count, uint32_t gpus)
{
	struct espl_kit *kit = espl_kit_new(1);

	cr_assert_eq(espl_kit_open(kit, &placer_pack_LTX_espalier_plugin, "", NULL), ESPL_OK);
	(void)espl_kit_offer(kit, "node", gpus, count, 1.0);
	espl_kit_set_target(kit, 0, count);
	espl_kit_provision(kit);
	return kit;
}

static uint64_t
gang(struct espl_kit *kit, uint32_t gpus)
{
	uint64_t id = espl_kit_item(kit, 1, 64);

	espl_kit_item_at(kit, id)->flags |= ESPL_ITEM_COLOCATE;
	espl_kit_item_at(kit, id)->packing_max = 4;
	if (gpus > 0)
		espl_kit_grant(kit, id, gpus, 1);
	return id;
}

static uint64_t
put(struct espl_kit *kit, uint64_t node, uint32_t gpu, uint32_t gpus)
{
	struct espl_slot slots[8];
	uint64_t id = gang(kit, gpus);
	uint32_t k;

	for (k = 0; k < gpus; k++)
		slots[k] = (struct espl_slot){ node, gpu + k, 1 };
	espl_kit_put(kit, id, slots, gpus);
	return id;
}

static uint32_t
has(const struct espl_kit *kit, uint64_t id)
{
	uint32_t count;

	(void)espl_kit_slots(kit, id, &count);
	return count;
}

/* Two that grow, and whose old slots would serve a third: none of them is without slots meanwhile.
 */
Test(pack, slots_are_kept_until_there_is_a_place)
{
	struct espl_kit *kit = nodes(2, 2);
	uint64_t a = put(kit, 0, 0, 1), b = put(kit, 1, 0, 1), c = put(kit, 0, 1, 1), d;

	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	espl_kit_lock(kit, c, 1);
	espl_kit_lock(kit, b, 1);
	espl_kit_grant(kit, a, 2, 1); /* no node has two for it */
	d = gang(kit, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_eq(has(kit, a), 1);
	cr_assert_eq(has(kit, d), 1);
	espl_kit_leave(kit, c);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_eq(has(kit, a), 2);
	espl_kit_free(kit);
}

/* The narrower one could stay where it is, and would be in the way. */
Test(pack, the_widest_is_placed_first)
{
	struct espl_kit *kit = nodes(2, 2);
	uint64_t a = put(kit, 0, 0, 2), b = put(kit, 1, 0, 1), c;

	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	espl_kit_grant(kit, a, 1, 1);
	espl_kit_lock(kit, b, 1);
	c = gang(kit, 2);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert(has(kit, a) == 1 && has(kit, b) == 1 && has(kit, c) == 2, "%s",
	    espl_kit_log(kit));
	espl_kit_free(kit);
}

Test(pack, one_small_gang_moves_where_that_makes_room)
{
	struct espl_kit *kit = nodes(2, 4);
	uint64_t a = put(kit, 0, 0, 1), b = put(kit, 1, 0, 1), c;

	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	c = gang(kit, 4);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert(has(kit, a) == 1 && has(kit, b) == 1 && has(kit, c) == 4, "%s",
	    espl_kit_log(kit));
	cr_assert_eq(espl_kit_moved(kit), 1);
	espl_kit_free(kit);
}

/* Random grants, beyond what fits, too, and shares of GPUs among them. */
Test(pack, no_gang_is_ever_left_without_slots)
{
	uint32_t seed, round, i, k;

	for (seed = 1; seed <= 300; seed++) {
		uint32_t gpus = 1u << (seed % 3 + 1), count = 2 + seed % 4, live = 0;
		struct espl_kit *kit = nodes(count, gpus);
		uint64_t ids[GANGS];

		state = seed;
		for (round = 0; round < 40; round++) {
			if (live < GANGS && below(2))
				ids[live++] = gang(kit, 0);
			if (live > 0 && below(4) == 0) {
				espl_kit_leave(kit, ids[i = below(live)]);
				ids[i] = ids[--live];
			}
			for (k = below(4); k > 0 && live > 0; k--) {
				uint32_t wide =
				    below(4) == 0 ? gpus * (1 + below(2)) : 1 + below(gpus);

				i = below(live);
				if (below(3) == 0)
					espl_kit_grant(kit, ids[i], 1, 3);
				else
					espl_kit_grant(kit, ids[i], wide, 1);
			}
			for (i = 0; i < live; i++)
				espl_kit_item_at(kit, ids[i])->elapsed_s = has(kit, ids[i]);
			cr_assert_eq(espl_kit_place(kit), ESPL_OK, "seed %u round %u\n%s", seed,
			    round, espl_kit_log(kit));
			for (i = 0; i < live; i++)
				cr_assert(has(kit, ids[i]) > 0 ||
					!(espl_kit_item_at(kit, ids[i])->elapsed_s > 0),
				    "seed %u round %u: trial %u has lost its slots\n%s", seed,
				    round, (unsigned)ids[i], espl_kit_log(kit));
		}
		espl_kit_free(kit);
	}
}
