/* test_widths.c - which widths the allocators grant where speeds were measured: random tables,
 * bumps included, and random limits.
 *
 * Every allocator: a grant is faster than every narrower one; an item that fits is granted
 * something in the end, while others come and go; no nodes are held beyond what the items can use.
 */
#include <string.h>
#include <espalier/kit/roster.h>
#include "pool_kit.h"

#define ITEMS 12
#define POINTS 12
#define TABLES 64

extern const struct espl_plugin allocator_milp_LTX_espalier_plugin,
    allocator_greedy_LTX_espalier_plugin, allocator_fair_LTX_espalier_plugin,
    allocator_fifo_LTX_espalier_plugin, allocator_static_LTX_espalier_plugin,
    allocator_fluid_LTX_espalier_plugin;

static const struct setting {
	const struct espl_plugin *plugin;
	const char *options;
} settings[] = {
	{ &allocator_milp_LTX_espalier_plugin, "" },
	{ &allocator_milp_LTX_espalier_plugin, "engine=marginal" },
	{ &allocator_milp_LTX_espalier_plugin, "policy=paper" },
	{ &allocator_greedy_LTX_espalier_plugin, "" },
	{ &allocator_fair_LTX_espalier_plugin, "" },
	{ &allocator_fair_LTX_espalier_plugin, "resize=always" },
	{ &allocator_fifo_LTX_espalier_plugin, "take=most" },
	{ &allocator_static_LTX_espalier_plugin, "" },
	{ &allocator_fluid_LTX_espalier_plugin, "" },
	{ &allocator_fluid_LTX_espalier_plugin, "mode=paper" },
};

struct world {
	struct espl_kit *kit;
	uint64_t state, live[ITEMS];
	uint32_t count, per_node, nodes, flags;
	struct espl_point tables[TABLES][POINTS]; /* of all items, by id */
};

static uint32_t
below(struct world *w, uint32_t limit)
{
	w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->state >> 33) % limit;
}

/* A table of every width up to some; each step a gain, mostly. */
static void
arrive(struct world *w)
{
	uint32_t min = 1 + (below(w, 2) ? below(w, 6) : 0),
		 max = below(w, 3) ? 16 : min + below(w, 4), i;
	uint64_t id = espl_kit_item(w->kit, min, max);
	struct espl_item *item = espl_kit_item_at(w->kit, id);
	struct espl_point *table = w->tables[id % TABLES];

	table[0] = (struct espl_point){ 1, 1 };
	item->scaling = table;
	item->scaling_count = below(w, 8) == 0 ? 0 : 1 + below(w, POINTS);
	for (i = 1; i < POINTS; i++)
		table[i] = (struct espl_point){ i + 1, table[i - 1].y * (0.8 + 0.1 * below(w, 8)) };
	item->flags |= w->flags;
	if (espl_least(item, w->per_node) == 0)
		item->gpus_max = 16; /* there is a width that it can take */
	item->work_s = item->work_total_s = 60.0 * (1 + below(w, 100));
	item->iterations_left = 100;
	item->resize_s = item->start_s = 1;
	w->live[w->count++] = id;
}

static void
leave(struct world *w, uint32_t at)
{
	espl_kit_leave(w->kit, w->live[at]);
	memmove(&w->live[at], &w->live[at + 1], (--w->count - at) * sizeof w->live[0]);
}

static int
legal(const struct world *w, const struct espl_item *item, uint32_t gpus)
{
	return gpus >= item->gpus_min && gpus <= item->gpus_max &&
	    ((item->flags & ESPL_ITEM_COLOCATE) == 0 || gpus <= w->per_node ||
		gpus % w->per_node == 0);
}

static void
look(const struct world *w, const struct setting *how, unsigned seed)
{
	uint64_t use = 0;
	uint32_t i, k, widest;

	for (i = 0; i < w->count; i++) {
		const struct espl_item *item = espl_kit_item_at(w->kit, w->live[i]);
		uint32_t got = item->granted.gpus;

		for (k = 1; k < got; k++)
			cr_assert(!legal(w, item, k) ||
				espl_throughput(item, k) < espl_throughput(item, got),
			    "%s %s seed %u: %u GPUs granted, no faster than %u", how->plugin->name,
			    how->options, seed, got, k);
		for (widest = 0, k = 1; k <= item->gpus_max; k++)
			if (legal(w, item, k) &&
			    (widest == 0 ||
				espl_throughput(item, k) > espl_throughput(item, widest)))
				widest = k;
		use += widest;
	}
	cr_assert(w->per_node > 1 || w->count == 0 ||
		how->plugin == &allocator_static_LTX_espalier_plugin ||
		espl_kit_target(w->kit, 0) <= use,
	    "%s %s seed %u: %u nodes held, %u of use", how->plugin->name, how->options, seed,
	    espl_kit_target(w->kit, 0), (unsigned)use);
}

static void
play(const struct setting *how, unsigned seed)
{
	struct world w = { .state = seed * UINT64_C(77003) + 5 };
	uint32_t round, i;

	w.per_node = 1u << below(&w, 3);
	w.nodes = 6 + below(&w, 20);
	w.flags = w.per_node > 1 && below(&w, 2) ? ESPL_ITEM_COLOCATE : 0;
	w.kit = pool(how->plugin, how->options, w.per_node, w.nodes);
	for (round = 0; round < 60; round++) {
		for (i = round < 20 ? below(&w, 3) : 0; i > 0 && w.count < ITEMS; i--)
			arrive(&w);
		espl_kit_set_time(w.kit, round * 300 * ESPL_SECOND);
		decide(w.kit);
		look(&w, how, seed);
		for (i = w.count; i-- > 0;) { /* it trains, and ends at some time */
			struct espl_item *item = espl_kit_item_at(w.kit, w.live[i]);

			if (item->granted.gpus == 0)
				continue;
			if (item->started == ESPL_NEVER)
				item->started = round * 300 * ESPL_SECOND;
			item->flags |= ESPL_ITEM_RUNNING;
			if (round >= 20 || below(&w, 3) == 0)
				leave(&w, i);
		}
	}
	cr_assert_eq(w.count, 0, "%s %s seed %u: %u wait for ever", how->plugin->name, how->options,
	    seed, w.count);
	espl_kit_free(w.kit);
}

Test(widths, grants_are_faster_than_all_narrower_ones)
{
	unsigned seed;
	size_t k;

	for (k = 0; k < sizeof settings / sizeof settings[0]; k++)
		for (seed = 1; seed <= 200; seed++)
			play(&settings[k], seed);
}

/* The least power of two lies beyond what was measured. */
Test(widths, a_least_width_between_powers_of_two_is_granted)
{
	static const struct espl_point table[] = { { 1, 1 }, { 2, 1.8 }, { 3, 2.4 } };
	size_t k;

	for (k = 0; k < sizeof settings / sizeof settings[0]; k++) {
		struct espl_kit *kit = pool(settings[k].plugin, settings[k].options, 1, 25);
		struct espl_item *item = espl_kit_item_at(kit, espl_kit_item(kit, 3, 16));

		item->scaling = table;
		item->scaling_count = 3;
		item->work_s = item->work_total_s = 600;
		decide(kit);
		cr_assert_eq(item->granted.gpus, 3, "%s: %u GPUs", settings[k].plugin->name,
		    item->granted.gpus);
		cr_assert(strcmp(settings[k].plugin->name, "static") == 0 ||
		    espl_kit_target(kit, 0) == 3);
		espl_kit_free(kit);
	}
}

/* What one trial of yolov3 was measured to do (Pollux), and a job that only loses. */
Test(widths, the_fastest_width_is_the_most_useful)
{
	static const struct espl_point pollux[] = { { 1, 1 }, { 2, 1.88 }, { 4, 2.28 }, { 8, 0.68 },
		{ 16, 0.97 } };
	static const struct espl_point falls[] = { { 1, 1 }, { 2, 0.5 }, { 16, 0.1 } };
	size_t k, i;

	for (k = 0; k < sizeof settings / sizeof settings[0]; k++)
		for (i = 0; i < 2; i++) {
			struct espl_kit *kit = pool(settings[k].plugin, settings[k].options, 1, 16);
			struct espl_item *item = espl_kit_item_at(kit, espl_kit_item(kit, 1, 16));
			uint32_t most = i == 0 ? 4 : 1;

			item->scaling = i == 0 ? pollux : falls;
			item->scaling_count = i == 0 ? 5 : 3;
			item->work_s = item->work_total_s = 600;
			decide(kit);
			cr_assert_eq(item->granted.gpus, most, "%s: %u GPUs",
			    settings[k].plugin->name, item->granted.gpus);
			cr_assert(strcmp(settings[k].plugin->name, "static") == 0 ||
			    espl_kit_target(kit, 0) == most);
			espl_kit_free(kit);
		}
}
