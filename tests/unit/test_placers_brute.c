/* test_placers_brute.c - colocate against all ways to make room for one more gang, and to empty a
 * node: it finds one if there is one, with the fewest moves. */
#include <criterion/criterion.h>
#include "testkit.h"
#include "test_plugins.h"

#define CASES 4000
#define NODES 4u
#define GANGS 7u

struct floor {
	uint32_t nodes, gpus; /* per node */
	uint32_t count;       /* gangs that sit */
	uint32_t size[GANGS], node[GANGS];
	uint8_t locked[GANGS];
	uint32_t want; /* GPUs of the one that comes */
};

static uint32_t
pick(uint64_t *state, uint32_t count)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33) % count;
}

static struct floor
random_floor(uint64_t seed)
{
	uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	struct floor f = { .nodes = 2 + pick(&s, NODES - 1), .gpus = 2 + pick(&s, 5) };
	uint32_t used[NODES] = { 0 };

	while (f.count < GANGS && pick(&s, 8) > 0) {
		uint32_t node = pick(&s, f.nodes), size = 1 + pick(&s, f.gpus);

		if (used[node] + size > f.gpus)
			continue;
		f.size[f.count] = size;
		f.node[f.count] = node;
		f.locked[f.count++] = pick(&s, 8) == 0;
		used[node] += size;
	}
	f.want = 1 + pick(&s, f.gpus);
	if (pick(&s, 6) == 0)
		f.want = f.gpus * 2;
	return f;
}

/* Is there room for the new gang, on one node or on whole ones, beside gangs at these places? */
static int
fits(const struct floor *f, const uint32_t *node)
{
	uint32_t used[NODES] = { 0 }, i, empty = 0, roomy = 0;

	for (i = 0; i < f->count; i++)
		used[node[i]] += f->size[i];
	for (i = 0; i < f->nodes; i++) {
		if (used[i] > f->gpus)
			return 0;
		empty += used[i] == 0;
		roomy += f->gpus - used[i] >= f->want;
	}
	return f->want > f->gpus ? empty * f->gpus >= f->want : roomy > 0;
}

/* Fewest moves of gangs that are smaller than the new one; ESPL_ANY: no way. */
static uint32_t
fewest(const struct floor *f, uint32_t from, uint32_t *node, uint32_t moves)
{
	uint32_t best = ESPL_ANY, i, found;

	if (from == f->count)
		return fits(f, node) ? moves : ESPL_ANY;
	for (i = 0; i < f->nodes; i++) {
		if (i != f->node[from] && (f->locked[from] || f->size[from] >= f->want))
			continue;
		node[from] = i;
		found = fewest(f, from + 1, node, moves + (i != f->node[from]));
		best = found < best ? found : best;
	}
	return best;
}

static struct espl_kit *
set_up(const struct floor *f)
{
	struct espl_kit *kit = espl_kit_new(7);
	uint32_t used[NODES] = { 0 }, i, k;
	struct espl_error error;

	cr_assert_eq(espl_kit_open(kit, &placer_colocate_LTX_espalier_plugin, "", &error), ESPL_OK,
	    "%s", error.text);
	(void)espl_kit_offer(kit, "node", f->gpus, 100, 1.0);
	for (i = 0; i < f->nodes; i++)
		(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	for (i = 0; i < f->count; i++) {
		uint64_t id = espl_kit_item(kit, 1, 100);
		struct espl_slot slots[16];

		espl_kit_item_at(kit, id)->flags |= ESPL_ITEM_COLOCATE;
		for (k = 0; k < f->size[i]; k++) {
			slots[k].node = f->node[i];
			slots[k].gpu = used[f->node[i]]++;
			slots[k].packing = 1;
		}
		espl_kit_grant(kit, id, f->size[i], 1);
		espl_kit_put(kit, id, slots, f->size[i]);
		espl_kit_lock(kit, id, f->locked[i]);
	}
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	return kit;
}

/* Can gangs from `from` on, those of `node`, sit elsewhere, nobody else being moved? */
static int
can_leave(const struct floor *f, uint32_t node, uint32_t from, uint32_t *used)
{
	uint32_t i;

	while (from < f->count && f->node[from] != node)
		from++;
	if (from == f->count)
		return 1;
	for (i = 0; i < f->nodes && !f->locked[from]; i++) {
		int can = i != node && used[i] + f->size[from] <= f->gpus;

		if (!can)
			continue;
		used[i] += f->size[from];
		can = can_leave(f, node, from + 1, used);
		used[i] -= f->size[from];
		if (can)
			return 1;
	}
	return 0;
}

/* Fewest moves that empty a node; ESPL_ANY: none can be emptied. */
static uint32_t
fewest_to_empty(const struct floor *f)
{
	uint32_t used[NODES] = { 0 }, node, i, best = ESPL_ANY;

	for (i = 0; i < f->count; i++)
		used[f->node[i]] += f->size[i];
	for (node = 0; node < f->nodes; node++) {
		uint32_t moves = 0;

		for (i = 0; i < f->count; i++)
			moves += f->node[i] == node;
		if (moves < best && can_leave(f, node, 0, used))
			best = moves;
	}
	return best;
}

Test(colocate, empties_a_node_that_is_not_needed)
{
	uint32_t missed = 0, more = 0, emptied = 0;

	for (uint64_t seed = 0; seed < CASES; seed++) {
		struct floor f = random_floor(seed);
		struct espl_kit *kit = set_up(&f);
		uint32_t best = fewest_to_empty(&f), moved, given;

		espl_kit_clear(kit);
		espl_kit_surplus(kit, 0, 1);
		cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
		cr_assert_eq(espl_kit_refused(kit), 0);
		moved = espl_kit_moved(kit);
		given = f.nodes - espl_kit_nodes(kit, 0);
		cr_assert(given <= 1 && (given == 1 || moved == 0), "%d: %u moved, %u given up",
		    (int)seed, moved, given);
		cr_assert(best != ESPL_ANY || given == 0, "%d: given up with gangs on it",
		    (int)seed);
		missed += best != ESPL_ANY && given == 0;
		more += given == 1 && moved > best;
		emptied += given == 1 && moved > 0;
		espl_kit_free(kit);
	}
	cr_assert_eq(missed, 0, "%u times no node was emptied that could be", missed);
	cr_assert_eq(more, 0, "%u times more gangs were moved than had to be", more);
	cr_assert_gt(emptied, CASES / 50);
}

Test(colocate, makes_room_as_well_as_any_other_way)
{
	uint32_t impossible = 0, at_once = 0, missed = 0, more = 0, displaced = 0;

	for (uint64_t seed = 0; seed < CASES; seed++) {
		struct floor f = random_floor(seed);
		struct espl_kit *kit = set_up(&f);
		uint32_t node[GANGS], best = fewest(&f, 0, node, 0), count = 0, moved;
		uint64_t id = espl_kit_item(kit, 1, 100);

		espl_kit_item_at(kit, id)->flags |= ESPL_ITEM_COLOCATE;
		espl_kit_grant(kit, id, f.want, 1);
		espl_kit_clear(kit);
		cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
		cr_assert_eq(espl_kit_refused(kit), 0);
		moved = espl_kit_moved(kit);
		(void)espl_kit_slots(kit, id, &count);
		if (best == ESPL_ANY) {
			cr_assert_eq(count, 0, "%d: impossible, yet placed", (int)seed);
			cr_assert_eq(moved, 0, "%d: moved for nothing", (int)seed);
			impossible++;
		} else if (count == 0) {
			missed++;
		} else {
			cr_assert(moved >= best, "%d: %u moves, %u at least", (int)seed, moved,
			    best);
			at_once += best == 0;
			displaced += best > 0;
			more += moved > best;
		}
		espl_kit_free(kit);
	}
	cr_assert_eq(missed, 0, "%u times no room was made where there is a way", missed);
	cr_assert_eq(more, 0, "%u times more gangs were moved than had to be", more);
	cr_assert(impossible > CASES / 10 && at_once > CASES / 10 && displaced > CASES / 50);
}

/* Three GPUs, two of one node and one of another: the first node is going, or a bracket's own. */
Test(colocate, straddles_nodes_behind_one_it_cannot_have)
{
	for (uint32_t own = 0; own < 2; own++) {
		struct floor f = { .nodes = 3,
			.gpus = 4,
			.count = 2,
			.size = { 2, 2 },
			.node = { 1, 2 },
			.want = 3 };
		struct espl_kit *kit = set_up(&f);
		uint64_t id = espl_kit_item(kit, 1, 100);
		uint32_t count = 0;

		espl_kit_node_flags(kit, 0, own ? 0 : ESPL_NODE_RETIRING,
		    own ? ESPL_OWNER_BRACKET : ESPL_NONE);
		espl_kit_grant(kit, id, f.want, 1);
		cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
		(void)espl_kit_slots(kit, id, &count);
		cr_assert_eq(count, 3, "%s", espl_kit_log(kit));
		espl_kit_free(kit);
	}
}
