/* placer_pack.c - shelves of shared GPUs, and whole GPUs node by node.
 *
 * For allocators that let trials share a GPU or spread over several (Fluid, MLSys'21, 4.2). Whole
 * gangs are placed first, the largest first, each on as few nodes as possible, and grow and shrink
 * where they are. A share of a GPU goes to the GPU with the fewest sharers, because a share only
 * limits the number of neighbors and an empty GPU is fast; or, with fill, where it fits most
 * tightly. Shares of equal degree are placed in the order in which they were granted. When a whole
 * gang lacks GPUs, the sharers of the GPUs with the fewest sharers are moved to free places on
 * other GPUs. If a gang still has no place, the widest gangs of the round are placed before smaller
 * ones may stay where they are, and one small gang moves where that makes room. A gang for which
 * there is no room yet keeps its slots and continues to train.
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/occupancy.h>
#include <espalier/util.h>

#define TRIES 16u /* small gangs that may move, looked at for one that has no place */

enum { SHARES };
enum { SPREAD, FILL };

static const struct espl_option options[] = {
	{ .name = "shares",
	    .help = "spread: put a share on the GPU with the fewest trials; fill: on the one with "
		    "the most trials that still has room",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "spread|fill",
	    .fallback = "spread" },
};

struct rank {
	uint64_t item;
	uint32_t position, zero;
};
#define PACK_MAGIC 0x259ae4aau

struct pack {
	uint32_t magic; /* PACK_MAGIC */
	struct espl_node_map map;
	struct espl_moves moves;
	struct espl_occupancy occupancy;
	struct rank *ranks; /* scratch, [rank_room] */
	uint32_t rank_room;
	uint32_t fill;
	uint32_t round_count; /* gangs that this round is about */
	/* 1: GPUs are not cleared, it leaves some without a place */
	uint32_t uncleared;
	uint32_t held_room, zero;
	uint8_t *held; /* [round_count] 1: it keeps its slots */
};
struct gpu {
	uint32_t entry, gpu, residents;
};

static void
destroy(void *self)
{
	struct pack *pack = self;

	ESPL_ASSERT(pack != NULL && pack->magic == PACK_MAGIC);
	pack->magic = 0;
	espl_node_map_free(&pack->map);
	espl_moves_free(&pack->moves);
	espl_occupancy_free(&pack->occupancy);
	free(pack->ranks);
	free(pack->held);
	free(pack);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct pack *pack = calloc(1, sizeof *pack);

	(void)host;
	if (pack == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	pack->magic = PACK_MAGIC;
	pack->fill = config->values[SHARES].as.i == FILL;
	*self = pack;
	return ESPL_OK;
}

/* ---- shares ------------------------------------------------------------------------------ */

/* Is this GPU shared in that degree, with a hole?  Its number of residents; 0: no. */
static uint32_t
count_sharers(struct pack *pack, uint32_t i, uint32_t gpu, uint32_t c)
{
	const struct espl_node_map_gpu *cell = espl_node_map_cell(&pack->map, i, gpu);

	return cell != NULL && cell->blocked == 0 && cell->packing == c && cell->residents < c
	    ? cell->residents
	    : 0;
}

/* Does the gang make room on this very GPU? */
static int
yields_gpu(const struct pack *pack, const struct espl_gang *gang, uint32_t i, uint32_t gpu)
{
	return (gang->flags & ESPL_GANG_YIELDS) != 0 && espl_gang_holds(gang) &&
	    gang->slots[0].gpu == gpu && gang->slots[0].node == pack->map.entries[i].node->id;
}

/* The shelf for one share more, with the fewest on it, or the most; the last such one, so that what
 * comes in order of length is dealt out and back. */
static struct gpu
find_shelf(struct pack *pack, const struct espl_gang *gang)
{
	struct gpu best = { ESPL_ANY, 0, 0 };
	uint32_t i, k;

	for (i = 0; i < pack->map.count; i++) {
		const struct espl_node_map_entry *entry = &pack->map.entries[i];

		if (entry->idle == entry->node->gpu_count ||
		    !espl_node_map_admits(&pack->map, i, gang, ESPL_ANY))
			continue;
		for (k = 0; k < entry->node->gpu_count; k++) {
			uint32_t n = count_sharers(pack, i, k, gang->share.packing);

			if (n > 0 && !yields_gpu(pack, gang, i, k) &&
			    (best.entry == ESPL_ANY ||
				(pack->fill ? n >= best.residents : n <= best.residents)))
				best = (struct gpu){ i, k, n };
		}
	}
	return best;
}

static uint32_t
place_share(struct pack *pack, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t c = gang->share.packing, i;
	struct gpu at = { ESPL_ANY, 0, 0 };

	if (pack->fill || (gang->flags & ESPL_GANG_YIELDS) != 0)
		at = find_shelf(pack, gang);
	if (at.entry != ESPL_ANY)
		return espl_node_map_join(&pack->map, at.entry, at.gpu, c, slots);
	i = espl_node_map_find_fit(&pack->map, gang, ESPL_ANY, 1, 0);
	if (i != ESPL_ANY)
		return espl_node_map_place(&pack->map, i, 1, c, slots);
	at = find_shelf(pack, gang);
	return at.entry == ESPL_ANY ? 0
				    : espl_node_map_join(&pack->map, at.entry, at.gpu, c, slots);
}

/* ---- whole GPUs -------------------------------------------------------------------------- */

/* More idle GPUs for a gang that has `done`, all of one offer. */
static uint32_t
add_whole(struct pack *pack, const struct espl_gang *gang, uint32_t offer, struct espl_slot *slots,
    uint32_t done)
{
	done = espl_node_map_place_rest(&pack->map, gang, offer, slots, done);
	qsort(slots, done, sizeof *slots, espl_slot_order);
	return done;
}

/* A gang that may straddle nodes keeps its slots and gets more, on any nodes. */
static uint32_t
grow_gang(struct pack *pack, const struct espl_gang *gang, struct espl_slot *slots)
{
	struct espl_node_map *map = &pack->map;
	uint32_t mark = map->step_count, k, i = ESPL_ANY;

	if (!espl_gang_holds(gang) || (gang->flags & (ESPL_GANG_MUST | ESPL_GANG_COLOCATE)) != 0 ||
	    gang->share.packing > 1 || gang->slot_count >= gang->share.gpus)
		return 0;
	for (k = 0; k < gang->slot_count; k++) {
		i = espl_node_map_find(map, gang->slots[k].node);
		if (i == ESPL_ANY || !espl_node_map_admits(map, i, gang, ESPL_ANY) ||
		    gang->slots[k].gpu >= map->entries[i].node->gpu_count ||
		    espl_node_map_join(map, i, gang->slots[k].gpu, 1, &slots[k]) == 0)
			break;
	}
	if (k == gang->slot_count &&
	    add_whole(pack, gang, map->entries[i].node->offer, slots, k) == gang->share.gpus)
		return gang->share.gpus;
	espl_node_map_undo(map, mark);
	return 0;
}

static uint32_t
place_whole(struct pack *pack, const struct espl_gang *gang, struct espl_slot *slots)
{
	struct espl_node_map *map = &pack->map;
	uint32_t count = grow_gang(pack, gang, slots), i, gpus = gang->share.gpus, tried = ESPL_ANY;

	if (count > 0)
		return count;
	i = espl_node_map_find_fit(map, gang, ESPL_ANY, gpus, 0);
	if (i != ESPL_ANY)
		return espl_node_map_place(map, i, gpus, 1, slots);
	count = espl_node_map_place_on_nodes(map, gang, slots);
	if (count > 0 || (gang->flags & ESPL_GANG_COLOCATE) != 0)
		return count;
	for (i = 0; i < map->count && count == 0; i++) /* offers, as they are met */
		if (espl_node_map_admits(map, i, gang, ESPL_ANY) &&
		    map->entries[i].node->offer != tried) {
			tried = map->entries[i].node->offer;
			count = add_whole(pack, gang, tried, slots, 0);
		}
	return count;
}

/* ---- clearing shelves -------------------------------------------------------------------- */

/* Gangs on a GPU, that all may move; 0: one may not, or there is none. */
static uint32_t
list_residents(struct pack *pack, uint32_t i, uint32_t gpu, uint32_t *who, uint32_t room)
{
	const struct espl_occupancy *occupancy = &pack->occupancy;
	uint32_t k, count, n = 0;

	for (k = occupancy->from[i]; k < occupancy->from[i + 1]; k++) {
		uint32_t gang = occupancy->gangs[k];
		const struct espl_slot *slots = espl_occupancy_slots(occupancy, gang, &count);

		if (count != 1 || slots[0].gpu != gpu || slots[0].packing == 1)
			continue;
		if ((occupancy->view->gangs[gang]->flags & ESPL_GANG_LOCKED) != 0 || n == room)
			return 0;
		who[n++] = gang;
	}
	return n;
}

/* Holes on shelves of this degree, apart from one GPU. */
static uint32_t
count_holes(struct pack *pack, uint32_t c, uint32_t entry, uint32_t gpu)
{
	uint32_t i, k, found = 0;

	for (i = 0; i < pack->map.count; i++)
		for (k = 0; k < pack->map.entries[i].node->gpu_count; k++) {
			uint32_t n = (i == entry && k == gpu) || !pack->map.entries[i].usable
			    ? 0
			    : count_sharers(pack, i, k, c);

			found += n > 0 ? c - n : 0;
		}
	return found;
}

/* Gangs that must make room leave their GPUs at once. */
static espl_status
lift_yielding(struct pack *pack, const struct espl_place_view *view)
{
	struct espl_moves *moves = &pack->moves;
	uint32_t i, k, count = moves->count;

	for (i = 0; i < view->changed_count; i++) {
		const struct espl_gang *gang = view->changed[i];

		if ((gang->flags & ESPL_GANG_YIELDS) == 0 || gang->share.packing == 1 ||
		    (gang->flags & ESPL_GANG_LOCKED) != 0 || !espl_gang_is_settled(gang))
			continue; /* or it is lifted already */
		for (k = 0; k < count && moves->list[k].gang != gang; k++)
			continue;
		if (k == count && espl_moves_add(moves, &pack->map, gang) != ESPL_OK)
			return ESPL_E_NOMEM;
	}
	return ESPL_OK;
}

/* Moves all gangs off the GPU with the fewest sharers, if there are holes for them; they are placed
 * again when all whole gangs are.  1: a GPU became idle. */
static int
clear_one(struct pack *pack, const struct espl_gang *gang, uint32_t *promised)
{
	struct espl_node_map *map = &pack->map;
	struct gpu best = { ESPL_ANY, 0, UINT32_MAX };
	uint32_t i, k, n, who[64], c = 0;

	if (!espl_occupancy_index(&pack->occupancy))
		return 0;
	for (i = 0; i < map->count; i++) {
		if (!espl_node_map_admits(map, i, gang, ESPL_ANY))
			continue;
		for (k = 0; k < map->entries[i].node->gpu_count; k++) {
			const struct espl_node_map_gpu *cell = espl_node_map_cell(map, i, k);

			if (cell == NULL || cell->packing < 2 || cell->residents == 0 ||
			    cell->residents >= best.residents ||
			    list_residents(pack, i, k, who, 64) != cell->residents)
				continue;
			best = (struct gpu){ i, k, cell->residents };
			c = cell->packing;
		}
	}
	if (best.entry == ESPL_ANY ||
	    count_holes(pack, c, best.entry, best.gpu) < best.residents + *promised)
		return 0;
	n = list_residents(pack, best.entry, best.gpu, who, 64);
	for (i = 0; i < n; i++)
		espl_occupancy_vacate(&pack->occupancy, who[i]);
	pack->occupancy.indexed = 0;
	*promised += n;
	return !map->failed;
}

/* ---- the order --------------------------------------------------------------------------- */

static int
rank_order(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	return x->item < y->item ? -1 : x->item > y->item;
}

/* Larger gangs first, shares last; of one size those that wait longer, then as they were granted.
 */
static int
move_order(const void *a, const void *b)
{
	const struct espl_move *x = a, *y = b;
	const struct espl_share *s = &x->gang->share, *t = &y->gang->share;

	if (s->gpus != t->gpus)
		return s->gpus > t->gpus ? -1 : 1;
	if (s->packing != t->packing)
		return s->packing < t->packing ? -1 : 1;
	if (x->zero != y->zero)
		return x->zero < y->zero ? -1 : 1;
	return x->gang->item < y->gang->item ? -1 : x->gang->item > y->gang->item;
}

/* The host names changed gangs in the order of their grants. */
static espl_status
sort_by_grant(struct pack *pack, const struct espl_place_view *view)
{
	struct espl_moves *moves = &pack->moves;
	struct rank *ranks =
	    espl_array_grow(pack->ranks, &pack->rank_room, view->changed_count + 1, sizeof *ranks);
	uint32_t i;

	if (ranks == NULL)
		return ESPL_E_NOMEM;
	pack->ranks = ranks;
	for (i = 0; i < view->changed_count; i++)
		ranks[i] = (struct rank){ view->changed[i]->item, i + 1, 0 };
	qsort(ranks, view->changed_count, sizeof *ranks, rank_order);
	for (i = 0; i < moves->count; i++) {
		struct rank key = { moves->list[i].gang->item, 0, 0 };
		const struct rank *found =
		    bsearch(&key, ranks, view->changed_count, sizeof key, rank_order);

		moves->list[i].zero = found != NULL ? found->position : 0;
	}
	if (moves->count > 0)
		qsort(moves->list, moves->count, sizeof *moves->list, move_order);
	return ESPL_OK;
}

/* ---- one round --------------------------------------------------------------------------- */

/* A gang of the round to be placed; 0: it has a place, or keeps the one it has. */
static int
is_open(const struct pack *pack, uint32_t i)
{
	return pack->moves.list[i].state == ESPL_MOVE_OPEN &&
	    !(i < pack->round_count && pack->held[i]);
}

/* Gangs of list[from .. to) keep their place if their new share fits there, except those that must
 * make room. */
static espl_status
stay_in_place(struct pack *pack, uint32_t from, uint32_t to)
{
	struct espl_moves *moves = &pack->moves;
	uint32_t i, count;

	for (i = from; i < to; i++) {
		const struct espl_gang *gang = moves->list[i].gang;
		struct espl_slot *slots;

		if (!is_open(pack, i) || !espl_gang_holds(gang) ||
		    ((gang->flags & ESPL_GANG_YIELDS) != 0 && gang->share.packing > 1))
			continue;
		slots = espl_moves_room(moves, gang);
		if (slots == NULL)
			return ESPL_E_NOMEM;
		count = espl_node_map_stay(&pack->map, gang, slots);
		if (count > 0)
			espl_moves_settle(moves, i, count, ESPL_MOVE_STAYS);
	}
	return pack->map.failed ? ESPL_E_NOMEM : ESPL_OK;
}

static uint32_t
place_one(struct pack *pack, uint32_t index, uint32_t *promised)
{
	const struct espl_gang *gang = pack->moves.list[index].gang;
	struct espl_slot *slots = espl_moves_room(&pack->moves, gang);
	uint32_t count = 0;

	if (slots == NULL)
		pack->map.failed = 1;
	while (!pack->map.failed) {
		count = gang->share.packing > 1 ? place_share(pack, gang, slots)
						: place_whole(pack, gang, slots);
		if (count > 0 || gang->share.packing > 1 || pack->uncleared ||
		    !clear_one(pack, gang, promised))
			break;
	}
	if (count > 0)
		espl_moves_settle(&pack->moves, index, count, ESPL_MOVE_GOES);
	return count;
}

/* A gang that this round is not about moves elsewhere, the smallest that makes room for a wider
 * one.  1: done. */
static int
move_small(struct pack *pack, uint32_t index, uint32_t *promised)
{
	const struct espl_place_view *view = pack->occupancy.view;
	struct espl_moves *moves = &pack->moves;
	const struct espl_gang *large = moves->list[index].gang;
	uint32_t wide = large->share.gpus, size, g, tries = TRIES, idle = 0;

	for (g = 0; g < pack->map.count; g++)
		idle += espl_node_map_admits(&pack->map, g, large, ESPL_ANY)
		    ? pack->map.entries[g].idle
		    : 0;
	if (idle < wide || (large->flags & ESPL_GANG_COLOCATE) == 0)
		return 0;
	for (size = 1; size < wide; size++)
		for (g = 0; g < view->gang_count && tries > 0 && !pack->map.failed; g++) {
			const struct espl_gang *gang = view->gangs[g];
			struct espl_mark mark = espl_occupancy_mark(&pack->occupancy);

			if (gang->slot_count != size || gang->share.packing > 1 ||
			    !espl_gang_is_settled(gang) || (gang->flags & ESPL_GANG_LOCKED) != 0 ||
			    !espl_occupancy_index(&pack->occupancy) ||
			    pack->occupancy.move_of[g] != ESPL_ANY)
				continue;
			tries--;
			espl_occupancy_vacate(&pack->occupancy, g);
			if (place_one(pack, index, promised) > 0 &&
			    place_one(pack, moves->count - 1, promised) > 0)
				return 1;
			espl_occupancy_restore(&pack->occupancy, mark);
			moves->list[index].state = ESPL_MOVE_OPEN;
		}
	return 0;
}

enum { STAY_FIRST, WIDEST_FIRST, MOVE_ONE, WAYS };

/* Seats the round's gangs, larger ones first; clearing appends shares.  How many whole ones found
 * no place. */
static uint32_t
place_all(struct pack *pack, int way)
{
	struct espl_moves *moves = &pack->moves;
	uint32_t i, k, promised = 0, lacking = 0, moved = way != MOVE_ONE;

	if (way == STAY_FIRST && stay_in_place(pack, 0, moves->count) != ESPL_OK)
		return 0;
	for (i = 0; i < moves->count && !pack->map.failed; i = k) {
		const struct espl_share share = moves->list[i].gang->share;

		for (k = i + 1; k < moves->count && moves->list[k].gang->share.gpus == share.gpus;
		     k++)
			;
		if (way != STAY_FIRST && stay_in_place(pack, i, k) != ESPL_OK)
			return 0;
		for (; i < k; i++) {
			if (!is_open(pack, i) || place_one(pack, i, &promised) > 0 ||
			    share.packing > 1)
				continue;
			if (!moved && move_small(pack, i, &promised))
				moved = 1;
			else
				lacking++;
		}
	}
	return lacking;
}

/* The round as it was before place_all. */
static void
begin_again(struct pack *pack, struct espl_mark mark)
{
	uint32_t i;

	espl_occupancy_restore(&pack->occupancy, mark);
	for (i = 0; i < pack->moves.count; i++)
		pack->moves.list[i].state = ESPL_MOVE_OPEN;
}

/* Gangs without a new place whose old slots were given to others: they must keep the old ones. 1:
 * such gangs exist. */
static int
find_squeezed(struct pack *pack)
{
	struct espl_moves *moves = &pack->moves;
	uint32_t i, k, at, found = 0, mark = pack->map.step_count;
	struct espl_slot slot;

	for (i = 0; i < moves->count; i++) {
		const struct espl_gang *gang = moves->list[i].gang;

		if (!is_open(pack, i) || !espl_gang_holds(gang) ||
		    (gang->flags & ESPL_GANG_MUST) != 0)
			continue;
		for (k = 0; k < gang->slot_count; k++) {
			at = espl_node_map_find(&pack->map, gang->slots[k].node);
			if (at == ESPL_ANY ||
			    espl_node_map_join(&pack->map, at, gang->slots[k].gpu,
				gang->slots[k].packing, &slot) == 0)
				break;
		}
		if (k == gang->slot_count)
			continue;
		found = 1;
		if (i < pack->round_count)
			pack->held[i] = 1;
		else
			pack->uncleared = 1; /* it was only to make room */
	}
	espl_node_map_undo(&pack->map, mark);
	return found;
}

/* The slots of those that keep them: taken (1), or given back to espl_moves_keep (-1). */
static void
hold_slots(struct pack *pack, int32_t sign)
{
	uint32_t i;

	for (i = 0; i < pack->round_count; i++)
		if (pack->held[i])
			espl_node_map_drop(&pack->map, pack->moves.list[i].gang->slots,
			    pack->moves.list[i].gang->slot_count, sign);
}

/* Seats the round in the way that leaves the fewest without a place; returns how many. */
static uint32_t
place_best(struct pack *pack, int *best)
{
	struct espl_mark mark = espl_occupancy_mark(&pack->occupancy);
	uint32_t lacking, least = UINT32_MAX;
	int way;

	for (way = STAY_FIRST; way < WAYS && least > 0; way++) {
		lacking = place_all(pack, way);
		if (lacking < least) {
			least = lacking;
			*best = way;
		}
		if (least > 0)
			begin_again(pack, mark);
	}
	return least > 0 ? place_all(pack, *best) : 0;
}

/* No gang gives up slots for a share that has no place now. */
static espl_status
place_round(struct pack *pack)
{
	struct espl_mark mark = espl_occupancy_mark(&pack->occupancy);
	uint8_t *held = espl_array_grow(pack->held, &pack->held_room, pack->moves.count + 1, 1);
	int best = STAY_FIRST;

	if (held == NULL)
		return ESPL_E_NOMEM;
	pack->held = held;
	pack->round_count = pack->moves.count;
	pack->uncleared = 0;
	memset(held, 0, pack->round_count);
	if (place_best(pack, &best) > 0) {
		begin_again(pack, mark);
		if (espl_occupancy_expect(&pack->occupancy)) {
			mark = espl_occupancy_mark(&pack->occupancy);
			(void)place_best(pack, &best);
		}
	}
	while (!pack->map.failed && find_squeezed(pack)) {
		begin_again(pack, mark);
		hold_slots(pack, 1);
		(void)place_all(pack, best);
	}
	hold_slots(pack, -1);
	return pack->map.failed ? ESPL_E_NOMEM : ESPL_OK;
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
    struct espl_error *error)
{
	struct pack *pack = self;
	struct espl_moves *moves = &pack->moves;
	espl_status status;

	ESPL_ASSERT(pack != NULL && pack->magic == PACK_MAGIC);
	if (!espl_moves_needed(moves, view))
		return ESPL_OK;
	status = espl_moves_gather(moves, &pack->map, view);
	if (status == ESPL_OK)
		status = lift_yielding(pack, view);
	if (status == ESPL_OK)
		status = sort_by_grant(pack, view);
	espl_occupancy_begin(&pack->occupancy, view, &pack->map, moves);
	if (status == ESPL_OK)
		status = place_round(pack);
	if (status == ESPL_OK)
		status = espl_moves_keep(moves, &pack->map);
	if (status == ESPL_OK)
		status = espl_moves_submit(moves, sink);
	if (status == ESPL_OK)
		espl_node_map_give_up(&pack->map, view, sink);
	if (status == ESPL_OK && pack->map.failed)
		status = ESPL_E_NOMEM;
	return status == ESPL_OK ? status : espl_fail(error, status, "placing failed");
}

static const struct espl_placer_ops ops = {
	ESPL_TABLE(struct espl_placer_ops),
	.place = place,
};

ESPL_PLUGIN(placer, pack) = {
	ESPL_HEAD(ESPL_PLACER, "pack"),
	.version = "0.1",
	.summary = "separate GPUs for sharing, the emptiest first, and whole GPUs node by node",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
