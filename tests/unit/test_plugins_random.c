/* test_plugins_random.c - allocators and placers together, driven at random for many rounds.
 *
 * The kit refuses every answer that a real host would: over capacity, outside limits, on a
 * blocked or foreign GPU, straddling nodes.  Beyond that: no GPU stays idle that somebody waits
 * for, and the same rounds give the same answers.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "testkit.h"
#include "test_plugins.h"

struct setting {
	const struct espl_plugin *allocator, *placer;
	const char *options;
	uint64_t seed;
	uint32_t gpus, nodes, flags;
};
/* one kit for each plugin, with the same items */
struct pair {
	struct espl_kit *alloc, *place;
	uint64_t state;
	uint64_t live[256];
	uint32_t count, unit;
};

static uint32_t
below(struct pair *pair, uint32_t limit)
{
	pair->state = pair->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(pair->state >> 33) % limit;
}

static void
arrive(struct pair *pair, const struct setting *setting)
{
	static const struct espl_point packing[] = { { 1, 1 }, { 2, 1.7 }, { 3, 2 }, { 4, 2.2 } };
	uint32_t min = below(pair, 3) == 0 ? 1 + below(pair, setting->gpus) : 1;
	uint32_t max = below(pair, 2) == 0 ? 1000 : min + below(pair, 4);
	uint64_t id = espl_kit_item(pair->alloc, min, max);
	struct espl_kit *kits[2];
	int i;

	cr_assert_eq(espl_kit_item(pair->place, min, max), id);
	kits[0] = pair->alloc;
	kits[1] = pair->place;
	for (i = 0; i < 2; i++) {
		struct espl_item *item = espl_kit_item_at(kits[i], id);

		item->flags |= setting->flags;
		item->packing_max = 4;
		item->packing = packing;
		item->packing_count = 4;
	}
	pair->live[pair->count++] = id;
}

static void
leave(struct pair *pair)
{
	uint32_t at = below(pair, pair->count);

	espl_kit_leave(pair->alloc, pair->live[at]);
	espl_kit_leave(pair->place, pair->live[at]);
	memmove(&pair->live[at], &pair->live[at + 1], (--pair->count - at) * sizeof pair->live[0]);
}

/* The grants cross over; nodes come and go after the targets. */
static void
carry(struct pair *pair)
{
	uint32_t i, held, target = espl_kit_target(pair->alloc, 0);

	for (i = 0; i < pair->count; i++) {
		struct espl_share share = espl_kit_item_at(pair->alloc, pair->live[i])->granted;
		struct espl_share known = espl_kit_item_at(pair->place, pair->live[i])->granted;

		if (share.gpus != known.gpus || share.packing != known.packing)
			espl_kit_grant(pair->place, pair->live[i], share.gpus, share.packing);
	}
	espl_kit_set_target(pair->place, 0, target);
	if (below(pair, 3) > 0) /* machines may be late */
		espl_kit_provision(pair->place);
	held = espl_kit_nodes(pair->place, 0);
	if (held > target)
		espl_kit_surplus(pair->place, 0, held - target);
}

/* Nobody who needs one GPU waits while one is idle. */
static void
nothing_wasted(struct pair *pair, const struct setting *setting)
{
	uint32_t i, count, taken = 0, hungry = 0;

	for (i = 0; i < pair->count; i++) {
		struct espl_share share = espl_kit_item_at(pair->place, pair->live[i])->granted;

		(void)espl_kit_slots(pair->place, pair->live[i], &count);
		if (share.packing > 1)
			return; /* sharers make the counting harder than it is worth */
		taken += count;
		hungry += share.gpus == 1 && count == 0;
	}
	cr_assert(hungry == 0 || taken == espl_kit_nodes(pair->place, 0) * setting->gpus,
	    "%u wait while %u GPUs of %u are taken\n%s", hungry, taken,
	    espl_kit_nodes(pair->place, 0) * setting->gpus, espl_kit_log(pair->place));
}

/* Returns what was said; the caller frees it. */
static char *
play(const struct setting *setting)
{
	struct pair pair = { espl_kit_new(1), espl_kit_new(2), setting->seed, { 0 }, 0, 0 };
	uint32_t round, i;
	size_t a, b;
	char *said;

	cr_assert_eq(espl_kit_open(pair.alloc, setting->allocator, setting->options, NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_open(pair.place, setting->placer, "", NULL), ESPL_OK);
	(void)espl_kit_offer(pair.alloc, "node", setting->gpus, setting->nodes, 1.0);
	(void)espl_kit_offer(pair.place, "node", setting->gpus, setting->nodes, 1.0);
	for (round = 0; round < 80; round++) {
		uint32_t what = below(&pair, 10);

		for (i = 1 + below(&pair, 6); i > 0 && what < 5 && pair.count < 200; i--)
			arrive(&pair, setting);
		for (i = 1 + below(&pair, 8); i > 0 && what >= 5 && pair.count > 0; i--)
			leave(&pair);
		espl_kit_set_time(pair.alloc, round * ESPL_SECOND);
		espl_kit_set_time(pair.place, round * ESPL_SECOND);
		cr_assert_eq(espl_kit_allocate(pair.alloc), ESPL_OK, "%s seed %u round %u\n%s",
		    setting->options, (unsigned)setting->seed, round, espl_kit_log(pair.alloc));
		cr_assert_eq(espl_kit_refused(pair.alloc), 0, "%s", espl_kit_log(pair.alloc));
		carry(&pair);
		cr_assert_eq(espl_kit_place(pair.place), ESPL_OK, "%s seed %u round %u\n%s",
		    setting->options, (unsigned)setting->seed, round, espl_kit_log(pair.place));
		cr_assert_eq(espl_kit_refused(pair.place), 0, "%s", espl_kit_log(pair.place));
		nothing_wasted(&pair, setting);
	}
	a = strlen(espl_kit_log(pair.alloc));
	b = strlen(espl_kit_log(pair.place));
	said = malloc(a + b + 1);
	cr_assert_not_null(said);
	memcpy(said, espl_kit_log(pair.alloc), a);
	memcpy(said + a, espl_kit_log(pair.place), b + 1);
	espl_kit_free(pair.alloc);
	espl_kit_free(pair.place);
	return said;
}

static void
play_all(const struct espl_plugin *allocator, const char *options, const struct espl_plugin *placer)
{
	static const uint32_t gpus[] = { 1, 2, 4, 8 };
	struct setting setting = { allocator, placer, options, 0, 0, 0, 0 };
	uint64_t seed;

	for (seed = 1; seed <= 24; seed++) {
		char *once, *twice;

		setting.seed = seed;
		setting.gpus = gpus[seed % 4];
		setting.nodes = 2 + (uint32_t)seed % 9;
		setting.flags = seed % 3 == 0 ? 0 : ESPL_ITEM_COLOCATE;
		once = play(&setting);
		twice = seed % 8 == 0 ? play(&setting) : NULL;
		if (twice != NULL)
			cr_assert_str_eq(once, twice);
		free(once);
		free(twice);
	}
}

Test(random_rounds, static_and_colocate)
{
	play_all(&allocator_static_LTX_espalier_plugin, "gpus=13",
	    &placer_colocate_LTX_espalier_plugin);
}

Test(random_rounds, fair_and_colocate)
{
	play_all(&allocator_fair_LTX_espalier_plugin, "", &placer_colocate_LTX_espalier_plugin);
	play_all(&allocator_fair_LTX_espalier_plugin, "resize=always",
	    &placer_colocate_LTX_espalier_plugin);
}

Test(random_rounds, sharing_and_colocate)
{
	play_all(&allocator_fair_LTX_espalier_plugin, "packing=4",
	    &placer_colocate_LTX_espalier_plugin);
}

Test(random_rounds, scatter)
{
	play_all(&allocator_static_LTX_espalier_plugin, "", &placer_scatter_LTX_espalier_plugin);
	play_all(&allocator_fair_LTX_espalier_plugin, "packing=3",
	    &placer_scatter_LTX_espalier_plugin);
}
