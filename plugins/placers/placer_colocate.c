/* placer_colocate.c - each gang on one node, or on whole nodes, with as few moves as possible.
 *
 * RubberBand's placement controller (EuroSys'21, 4.4, algorithm 3): gangs whose share did not
 * change stay. The others are placed largest first, by best fit. Where the idle GPUs are on the
 * wrong nodes, smaller gangs are displaced and placed again. The paper leaves details open: here
 * gangs are displaced only if each of them finds another place, and of the possible displacements
 * the one with the fewest moves is used, then the fewest GPUs. Without displacement a call costs
 * O(changed + nodes).
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/occupancy.h>
#include <espalier/util.h>

#define DEPTH_MAX 3u      /* a displaced gang may displace in turn, so far */
#define TRIES_MAX 8u      /* nodes that are tried for one gang */
#define OCCUPANTS_MAX 64u /* gangs of one node that are looked at */

struct cost {
	uint32_t entry, moves, gpus;
}; /* of emptying a node, or a part of it */

#define COLOCATE_MAGIC 0x399478efu

struct colocate {
	uint32_t magic; /* COLOCATE_MAGIC */
	struct espl_node_map map;
	struct espl_moves moves;
	struct espl_occupancy occupancy;
	struct cost *costs;
	uint32_t cost_room;
	uint32_t shared;                   /* a GPU was shared once: sharers may need joining */
	uint32_t hole_entry, hole_packing; /* no hole of this degree before this node */
};

static void
destroy(void *self)
{
	struct colocate *colocate = self;

	ESPL_ASSERT(colocate != NULL && colocate->magic == COLOCATE_MAGIC);
	colocate->magic = 0;
	espl_node_map_free(&colocate->map);
	espl_moves_free(&colocate->moves);
	espl_occupancy_free(&colocate->occupancy);
	free(colocate->costs);
	free(colocate);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct colocate *colocate = calloc(1, sizeof *colocate);

	(void)host;
	(void)config;
	if (colocate == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	colocate->magic = COLOCATE_MAGIC;
	*self = colocate;
	return ESPL_OK;
}

/* ---- best fit ---------------------------------------------------------------------------- */

/* A share of a GPU: on a GPU that is shared in the same degree, else on an idle GPU of the fullest
 * node. */
static uint32_t
place_share(struct colocate *colocate, const struct espl_gang *gang, struct espl_slot *slots)
{
	struct espl_node_map *map = &colocate->map;
	uint32_t c = gang->share.packing, i, gpu = 0;
	int common = gang->offer == ESPL_ANY && gang->owner == ESPL_NONE;

	ESPL_ASSERT(c > 1);
	if (!common || colocate->hole_packing != c)
		colocate->hole_entry = 0;
	colocate->hole_packing = common ? c : 0;
	for (i = colocate->hole_entry; i < map->count; i++) {
		if (map->entries[i].idle == map->entries[i].node->gpu_count ||
		    !espl_node_map_admits(map, i, gang, ESPL_ANY))
			continue;
		gpu = espl_node_map_find_hole(map, i, c);
		if (gpu != ESPL_ANY)
			break;
	}
	colocate->hole_entry = i;
	if (i < map->count)
		return espl_node_map_join(map, i, gpu, c, slots);
	i = espl_node_map_find_fit(map, gang, ESPL_ANY, 1, 0);
	if (i == ESPL_ANY)
		return 0;
	colocate->hole_entry = i; /* the only place with room now */
	return espl_node_map_place(map, i, 1, c, slots);
}

static uint32_t
place_gang(struct colocate *colocate, const struct espl_gang *gang, struct espl_slot *slots)
{
	struct espl_node_map *map = &colocate->map;
	uint32_t i, count, gpus = gang->share.gpus, tried = ESPL_ANY;

	if (gang->share.packing > 1)
		return place_share(colocate, gang, slots);
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
			count = espl_node_map_place_across(map, gang, tried, slots);
		}
	return count;
}

/* ---- displacement ------------------------------------------------------------------------ */

/* GPUs of its node that become idle if the gang leaves; 0: it must not be moved for a gang of
 * `below` GPUs. Only the last sharer of a GPU frees it; it counts as smaller than any gang on whole
 * GPUs. */
static uint32_t
movable_gpus(struct colocate *colocate, uint32_t gang, uint32_t below)
{
	const struct espl_gang *g = colocate->occupancy.view->gangs[gang];
	uint32_t count, i;
	const struct espl_slot *slots = espl_occupancy_slots(&colocate->occupancy, gang, &count);
	const struct espl_node_map_gpu *cell;

	ESPL_ASSERT(gang < colocate->occupancy.view->gang_count);
	if ((g->flags & ESPL_GANG_LOCKED) != 0 || count == 0 ||
	    slots[0].node != slots[count - 1].node ||
	    colocate->occupancy.move_of[gang] != ESPL_ANY) /* placed in this very call */
		return 0;
	if (slots[0].packing == 1)
		return count < below ? count : 0;
	i = espl_node_map_find(&colocate->map, slots[0].node);
	cell = i == ESPL_ANY ? NULL : espl_node_map_cell(&colocate->map, i, slots[0].gpu);
	return cell != NULL && cell->residents == 1 ? 1 : 0;
}

/* Takes back an attempt that failed. */
static void
take_back(struct colocate *colocate, struct espl_mark mark)
{
	espl_occupancy_restore(&colocate->occupancy, mark);
	colocate->hole_entry = 0;
}

static void
vacate_gang(struct colocate *colocate, uint32_t gang)
{
	espl_occupancy_vacate(&colocate->occupancy, gang);
	colocate->hole_entry = 0;
}

static int
cost_order(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;

	if (x->moves != y->moves)
		return x->moves < y->moves ? -1 : 1;
	if (x->gpus != y->gpus)
		return x->gpus < y->gpus ? -1 : 1;
	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Chooses gangs of fewer than `below` GPUs that leave node i so that `need` GPUs become idle: the
 * smallest single one that suffices, else the largest and so on.  0: impossible. */
static uint32_t
choose_movers(struct colocate *colocate, uint32_t i, uint32_t need, uint32_t below,
    uint32_t *chosen)
{
	uint32_t sizes[OCCUPANTS_MAX], gangs[OCCUPANTS_MAX];
	uint32_t k, at, best, n = 0, count = 0;

	ESPL_ASSERT(colocate->occupancy.indexed && i < colocate->map.count);
	for (k = colocate->occupancy.from[i]; k < colocate->occupancy.from[i + 1]; k++) {
		uint32_t size = n == OCCUPANTS_MAX
		    ? 0
		    : movable_gpus(colocate, colocate->occupancy.gangs[k], below);

		if (size > 0) {
			sizes[n] = size;
			gangs[n++] = colocate->occupancy.gangs[k];
		}
	}
	while (need > 0) {
		for (best = ESPL_ANY, at = 0; at < n; at++) {
			if (sizes[at] == 0)
				continue;
			if (best == ESPL_ANY ||
			    (sizes[best] < need ? sizes[at] > sizes[best]
						: sizes[at] >= need && sizes[at] < sizes[best]))
				best = at;
		}
		if (best == ESPL_ANY)
			return 0;
		chosen[count++] = gangs[best];
		need -= sizes[best] < need ? sizes[best] : need;
		sizes[best] = 0;
	}
	return count;
}

static int move_gang(struct colocate *, uint32_t index, uint32_t depth);

/* Places all gangs removed since move `first` again; 0: not all of them found room. */
static int
move_since(struct colocate *colocate, uint32_t first, uint32_t depth)
{
	uint32_t i, last = colocate->moves.count;

	if (last - first > 1)
		qsort(colocate->moves.list + first, last - first, sizeof *colocate->moves.list,
		    espl_moves_by_size);
	colocate->occupancy.indexed = 0;
	for (i = first; i < last; i++)
		if (!move_gang(colocate, i, depth))
			return 0;
	return 1;
}

/* Makes room for the move's gang on node i at the cost of smaller ones. */
static int
try_node(struct colocate *colocate, uint32_t index, uint32_t i, uint32_t depth)
{
	struct espl_mark mark = espl_occupancy_mark(&colocate->occupancy);
	const struct espl_gang *gang = colocate->moves.list[index].gang;
	uint32_t chosen[OCCUPANTS_MAX], k, count, gpus = gang->share.gpus;
	struct espl_slot *slots;

	if (!espl_occupancy_index(&colocate->occupancy))
		return 0;
	count = choose_movers(colocate, i, gpus - colocate->map.entries[i].idle, gpus, chosen);
	for (k = 0; k < count; k++)
		vacate_gang(colocate, chosen[k]);
	slots = espl_moves_room(&colocate->moves, gang);
	if (slots == NULL)
		colocate->map.failed = 1;
	if (count > 0 && slots != NULL && colocate->map.entries[i].idle >= gpus &&
	    espl_node_map_place(&colocate->map, i, gpus, 1, slots) == gpus) {
		espl_occupancy_save_move(&colocate->occupancy, index);
		espl_moves_settle(&colocate->moves, index, gpus, ESPL_MOVE_GOES);
		if (move_since(colocate, mark.moves, depth + 1) && !colocate->map.failed)
			return 1;
	}
	take_back(colocate, mark);
	return 0;
}

static struct cost *
cost_room(struct colocate *colocate, uint32_t count)
{
	struct cost *costs =
	    espl_array_grow(colocate->costs, &colocate->cost_room, count, sizeof *costs);

	if (costs == NULL)
		colocate->map.failed = 1;
	else
		colocate->costs = costs;
	return costs;
}

/* Tries these nodes, in order of the number of gangs that must leave, and uses the one with the
 * fewest moves in total: displaced gangs may displace others in turn. */
static int
try_nodes(struct colocate *colocate, uint32_t index, const struct cost *tries, uint32_t count,
    uint32_t depth)
{
	struct espl_mark mark = espl_occupancy_mark(&colocate->occupancy);
	uint32_t k, best = ESPL_ANY, fewest = ESPL_ANY;

	for (k = 0; k < count && tries[k].moves < fewest && !colocate->map.failed; k++) {
		uint32_t moves;

		if (!try_node(colocate, index, tries[k].entry, depth))
			continue;
		moves = colocate->moves.count - mark.moves;
		if (depth > 0 || moves == tries[k].moves) /* the least there can be from here on */
			return 1;
		if (moves < fewest) {
			fewest = moves;
			best = k;
		}
		take_back(colocate, mark);
	}
	return best != ESPL_ANY && !colocate->map.failed &&
	    try_node(colocate, index, tries[best].entry, depth);
}

static int
displace_on_one(struct colocate *colocate, uint32_t index, uint32_t depth)
{
	struct espl_node_map *map = &colocate->map;
	const struct espl_gang *gang = colocate->moves.list[index].gang;
	uint32_t gpus = gang->share.gpus, i, k, n = 0, chosen[OCCUPANTS_MAX];
	struct cost tries[TRIES_MAX], *costs = cost_room(colocate, map->count + 1);

	for (i = 0; i < map->count && costs != NULL; i++) {
		struct cost cost = { i, 0, 0 };
		uint32_t count;

		if (!espl_node_map_admits(map, i, gang, ESPL_ANY) ||
		    map->entries[i].node->gpu_count < gpus)
			continue;
		ESPL_ASSERT(map->entries[i].idle < gpus);
		cost.moves = choose_movers(colocate, i, gpus - map->entries[i].idle, gpus, chosen);
		for (k = 0; k < cost.moves; k++) {
			(void)espl_occupancy_slots(&colocate->occupancy, chosen[k], &count);
			cost.gpus += count;
		}
		if (cost.moves > 0)
			costs[n++] = cost;
	}
	if (n == 0)
		return 0;
	qsort(costs, n, sizeof *costs, cost_order);
	n = n < TRIES_MAX ? n : TRIES_MAX;
	memcpy(tries, costs, n * sizeof *costs); /* trying reuses the array */
	return try_nodes(colocate, index, tries, n, depth);
}

/* The cost of emptying a whole node; moves ESPL_ANY: it cannot be emptied. again: gangs placed in
 * this call may be moved, too. */
static struct cost
cost_of_emptying(struct colocate *colocate, uint32_t i, int again)
{
	struct cost cost = { i, 0, 0 };
	uint32_t k;

	ESPL_ASSERT(colocate->occupancy.indexed);
	for (k = colocate->occupancy.from[i]; k < colocate->occupancy.from[i + 1]; k++) {
		uint32_t gang = colocate->occupancy.gangs[k], count;
		const struct espl_slot *slots =
		    espl_occupancy_slots(&colocate->occupancy, gang, &count);
		const struct espl_gang *g = colocate->occupancy.view->gangs[gang];

		if ((g->flags & ESPL_GANG_LOCKED) != 0 || slots[0].node != slots[count - 1].node ||
		    (!again && colocate->occupancy.move_of[gang] != ESPL_ANY)) {
			cost.moves = ESPL_ANY;
			break;
		}
		cost.moves++;
		cost.gpus += count;
	}
	return cost;
}

/* Empties whole nodes of one offer and size for a gang larger than a node. */
static int
displace_nodes(struct colocate *colocate, uint32_t index, uint32_t offer, uint32_t size,
    uint32_t depth)
{
	struct espl_node_map *map = &colocate->map;
	const struct espl_gang *gang = colocate->moves.list[index].gang;
	uint32_t i, k, n = 0, need = gang->share.gpus / size, done = 0;
	struct cost *costs = cost_room(colocate, map->count + 1);
	struct espl_mark mark = espl_occupancy_mark(&colocate->occupancy);
	struct espl_slot *slots;

	ESPL_ASSERT(size > 0 && gang->share.gpus % size == 0);
	for (i = 0; i < map->count && costs != NULL; i++) {
		if (!espl_node_map_admits(map, i, gang, offer) ||
		    map->entries[i].node->gpu_count != size)
			continue;
		costs[n] = cost_of_emptying(colocate, i, 0);
		if (costs[n].moves != ESPL_ANY &&
		    (costs[n].moves > 0 || map->entries[i].idle == size))
			n++;
	}
	if (costs == NULL || n < need)
		return 0;
	qsort(costs, n, sizeof *costs, cost_order);
	for (i = 0; i < need; i++) {
		uint32_t last = colocate->occupancy.from[costs[i].entry + 1];

		for (k = colocate->occupancy.from[costs[i].entry]; k < last; k++)
			vacate_gang(colocate, colocate->occupancy.gangs[k]);
	}
	slots = espl_moves_room(&colocate->moves, gang);
	if (slots == NULL)
		map->failed = 1;
	for (i = 0; i < need && slots != NULL; i++)
		done += espl_node_map_place(map, costs[i].entry, size, 1, slots + done);
	if (done == gang->share.gpus) {
		espl_occupancy_save_move(&colocate->occupancy, index);
		espl_moves_settle(&colocate->moves, index, done, ESPL_MOVE_GOES);
		if (move_since(colocate, mark.moves, depth + 1) && !map->failed)
			return 1;
	}
	take_back(colocate, mark);
	return 0;
}

/* Fragmentation: GPUs enough are idle, but not together. */
static int
displace_for_gang(struct colocate *colocate, uint32_t index, uint32_t depth)
{
	struct espl_node_map *map = &colocate->map;
	const struct espl_gang *gang = colocate->moves.list[index].gang;
	uint32_t gpus = gang->share.gpus, i, size, offer, widest = 0, tried = ESPL_ANY;
	uint64_t idle = 0;

	if (gang->share.packing > 1 || depth >= DEPTH_MAX || (gpus == 1 && !colocate->shared))
		return 0;
	for (i = 0; i < map->count; i++)
		if (espl_node_map_admits(map, i, gang, ESPL_ANY)) {
			idle += map->entries[i].idle;
			if (map->entries[i].node->gpu_count > widest)
				widest = map->entries[i].node->gpu_count;
		}
	/* Gangs that share GPUs can be packed more tightly, which frees GPUs that are not idle now.
	 */
	if ((idle < gpus && !colocate->shared) || !espl_occupancy_index(&colocate->occupancy))
		return 0;
	if (gpus <= widest)
		return displace_on_one(colocate, index, depth);
	for (i = 0; i < map->count; i++) {
		size = map->entries[i].node->gpu_count;
		offer = map->entries[i].node->offer;
		if (size == 0 || gpus % size != 0 || offer == tried ||
		    !espl_node_map_admits(map, i, gang, ESPL_ANY))
			continue;
		tried = offer;
		if (espl_occupancy_index(&colocate->occupancy) &&
		    displace_nodes(colocate, index, offer, size, depth))
			return 1;
	}
	return 0;
}

static int
move_gang(struct colocate *colocate, uint32_t index, uint32_t depth)
{
	const struct espl_gang *gang = colocate->moves.list[index].gang;
	struct espl_slot *slots = espl_moves_room(&colocate->moves, gang);
	uint32_t count;

	ESPL_ASSERT(
	    index < colocate->moves.count && colocate->moves.list[index].state == ESPL_MOVE_OPEN);
	if (slots == NULL || colocate->map.failed) {
		colocate->map.failed = 1;
		return 0;
	}
	count = place_gang(colocate, gang, slots);
	if (count == 0)
		return displace_for_gang(colocate, index, depth);
	espl_occupancy_save_move(&colocate->occupancy, index);
	espl_moves_settle(&colocate->moves, index, count, ESPL_MOVE_GOES);
	colocate->occupancy.indexed = 0;
	return 1;
}

/* ---- giving up --------------------------------------------------------------------------- */

/* Moves everybody off node i, to places that are free. */
static int
empty_node(struct colocate *colocate, uint32_t i)
{
	struct espl_mark mark = espl_occupancy_mark(&colocate->occupancy);
	uint32_t k, n = 0, open[OCCUPANTS_MAX], first = colocate->occupancy.from[i];
	uint32_t last = colocate->occupancy.from[i + 1];

	ESPL_ASSERT(colocate->occupancy.indexed);
	if (last - first > OCCUPANTS_MAX)
		return 0;
	colocate->map.entries[i].usable = 0;
	for (k = first; k < last; k++) {
		vacate_gang(colocate, colocate->occupancy.gangs[k]);
		open[n++] = colocate->occupancy.move_of[colocate->occupancy.gangs[k]];
	}
	for (k = 0; k < n && !colocate->map.failed; k++)
		if (!move_gang(colocate, open[k], DEPTH_MAX))
			break;
	if (k == n && !colocate->map.failed)
		return 1;
	take_back(colocate, mark);
	colocate->map.entries[i].usable = 1;
	return 0;
}

/* Chooses up to `want` nodes of an offer: empty ones, oldest first, then those that can be emptied
 * with the fewest moves. They are closed; nodes receives them. */
static uint32_t
choose_nodes(struct colocate *colocate, uint32_t offer, uint32_t want, uint64_t *nodes)
{
	struct espl_node_map *map = &colocate->map;
	struct cost *costs = cost_room(colocate, map->count + 1);
	uint32_t i, n = 0, done = 0;

	for (i = 0; i < map->count && costs != NULL; i++) {
		struct espl_node_map_entry *entry = &map->entries[i];

		if (!entry->usable || entry->node->offer != offer ||
		    entry->node->owner != ESPL_NONE || done == want)
			continue;
		if (espl_node_map_is_empty(map, i)) {
			entry->usable = 0;
			nodes[done++] = entry->node->id;
		} else {
			costs[n++].entry = i;
		}
	}
	if (costs == NULL || done == want)
		return done;
	if (!espl_occupancy_index(&colocate->occupancy))
		return done;
	for (i = 0; i < n; i++)
		costs[i] = cost_of_emptying(colocate, costs[i].entry, 1);
	qsort(costs, n, sizeof *costs, cost_order);
	for (i = 0; i < n && done < want && costs[i].moves != ESPL_ANY && !map->failed; i++) {
		uint32_t entry = costs[i].entry;

		if (espl_occupancy_index(&colocate->occupancy) && empty_node(colocate, entry))
			nodes[done++] = map->entries[entry].node->id;
	}
	return done;
}

/* ---- the entry --------------------------------------------------------------------------- */

static espl_status
answer_gangs(struct colocate *colocate, struct espl_place_sink *sink)
{
	const struct espl_place_view *view = colocate->occupancy.view;
	uint64_t *nodes = NULL;
	uint32_t i, total = 0;
	espl_status status;

	if (view->give_up_count > 0) {
		nodes = calloc((size_t)view->node_count + 1, sizeof *nodes);
		if (nodes == NULL)
			return ESPL_E_NOMEM;
		for (i = 0; i < view->give_up_count; i++)
			total += choose_nodes(colocate, view->give_up[i].offer,
			    view->give_up[i].nodes, nodes + total);
	}
	ESPL_ASSERT(total <= view->node_count);
	status = colocate->map.failed ? ESPL_E_NOMEM : espl_moves_submit(&colocate->moves, sink);
	for (i = 0; i < total && status == ESPL_OK; i++) {
		status = sink->give_up(sink, nodes[i]);
		if (status == ESPL_E_REJECTED)
			status = ESPL_OK;
	}
	free(nodes);
	return status;
}

/* Whether the second gang cannot be placed where the first one could not. */
static int
is_alike(const struct espl_gang *a, const struct espl_gang *b)
{
	return a != NULL && a->share.gpus == b->share.gpus &&
	    a->share.packing == b->share.packing && a->offer == b->offer && a->owner == b->owner &&
	    ((a->flags ^ b->flags) & ESPL_GANG_COLOCATE) == 0;
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
    struct espl_error *error)
{
	struct colocate *colocate = self;
	struct espl_moves *moves = &colocate->moves;
	const struct espl_gang *homeless = NULL;
	espl_status status;
	uint32_t i, count;

	ESPL_ASSERT(colocate != NULL && colocate->magic == COLOCATE_MAGIC);
	if (!espl_moves_needed(moves, view))
		return ESPL_OK;
	status = espl_moves_gather(moves, &colocate->map, view);
	if (status == ESPL_OK)
		status = espl_moves_stay(moves, &colocate->map);
	espl_occupancy_begin(&colocate->occupancy, view, &colocate->map, moves);
	colocate->hole_entry = 0;
	for (i = 0; i < view->changed_count; i++)
		colocate->shared |= view->changed[i]->share.packing > 1;
	count = moves->count; /* displacement appends more */
	for (i = 0; i < count && status == ESPL_OK; i++) {
		const struct espl_gang *gang = moves->list[i].gang;

		if (moves->list[i].state == ESPL_MOVE_OPEN && !is_alike(homeless, gang) &&
		    !move_gang(colocate, i, 0))
			homeless = gang;
		if (colocate->map.failed)
			status = ESPL_E_NOMEM;
	}
	if (status == ESPL_OK)
		status = espl_moves_keep(moves, &colocate->map);
	if (status == ESPL_OK)
		status = answer_gangs(colocate, sink);
	return status == ESPL_OK ? status : espl_fail(error, status, "placing failed");
}

static const struct espl_placer_ops ops = {
	ESPL_TABLE(struct espl_placer_ops),
	.place = place,
};

ESPL_PLUGIN(placer, colocate) = {
	ESPL_HEAD(ESPL_PLACER, "colocate"),
	.version = "0.1",
	.summary = "keep a gang on one node or on whole nodes, moving few trials",
	.caps = ESPL_CAP_PURE,
	.option_size = (uint32_t)sizeof(struct espl_option),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
