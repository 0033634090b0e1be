/* occupancy.c - see espalier/kit/occupancy.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/occupancy.h>

void
espl_occupancy_free(struct espl_occupancy *occupancy)
{
	free(occupancy->undos);
	free(occupancy->from);
	free(occupancy->gangs);
	free(occupancy->move_of);
	free(occupancy->counts);
	memset(occupancy, 0, sizeof *occupancy);
}

void
espl_occupancy_begin(struct espl_occupancy *occupancy, const struct espl_place_view *view,
    struct espl_node_map *map, struct espl_moves *moves)
{
	ESPL_ASSERT(view != NULL && map != NULL && moves != NULL);
	occupancy->view = view;
	occupancy->map = map;
	occupancy->moves = moves;
	occupancy->undo_count = occupancy->indexed = 0;
}

/* ---- trying and taking back -------------------------------------------------------------- */

struct espl_mark
espl_occupancy_mark(const struct espl_occupancy *occupancy)
{
	struct espl_mark mark;

	mark.steps = occupancy->map->step_count;
	mark.moves = occupancy->moves->count;
	mark.slots = occupancy->moves->slot_count;
	mark.undos = occupancy->undo_count;
	return mark;
}

void
espl_occupancy_restore(struct espl_occupancy *occupancy, struct espl_mark mark)
{
	struct espl_moves *moves = occupancy->moves;

	ESPL_ASSERT(mark.steps <= occupancy->map->step_count && mark.moves <= moves->count);
	ESPL_ASSERT(mark.slots <= moves->slot_count && mark.undos <= occupancy->undo_count);
	espl_node_map_undo(occupancy->map, mark.steps);
	while (occupancy->undo_count > mark.undos) {
		const struct espl_undo *undo = &occupancy->undos[--occupancy->undo_count];

		moves->list[undo->index] = undo->was;
	}
	moves->count = mark.moves;
	moves->slot_count = mark.slots;
	occupancy->indexed = 0;
}

void
espl_occupancy_save_move(struct espl_occupancy *occupancy, uint32_t index)
{
	struct espl_undo *undos = (struct espl_undo *)espl_array_grow(occupancy->undos,
	    &occupancy->undo_room, occupancy->undo_count + 1, sizeof *undos);

	ESPL_ASSERT(index < occupancy->moves->count);
	if (undos == NULL) {
		occupancy->map->failed = 1;
		return;
	}
	occupancy->undos = undos;
	undos += occupancy->undo_count++;
	undos->index = index;
	undos->zero = 0;
	undos->was = occupancy->moves->list[index];
}

/* ---- gangs on nodes ---------------------------------------------------------------------- */

/* The gang's move; ESPL_ANY: it has none, or the one it had was taken back. */
static uint32_t
espl_occupancy_find_move(const struct espl_occupancy *occupancy, uint32_t gang)
{
	uint32_t index = occupancy->move_of[gang];

	ESPL_ASSERT(gang < occupancy->view->gang_count);
	return index < occupancy->moves->count &&
		occupancy->moves->list[index].gang == occupancy->view->gangs[gang]
	    ? index
	    : ESPL_ANY;
}

const struct espl_slot *
espl_occupancy_slots(const struct espl_occupancy *occupancy, uint32_t gang, uint32_t *count)
{
	const struct espl_gang *g = occupancy->view->gangs[gang];
	uint32_t index = espl_occupancy_find_move(occupancy, gang);

	if (index == ESPL_ANY) {
		*count = espl_gang_holds(g) ? g->slot_count : 0;
		return g->slots;
	}
	*count = occupancy->moves->list[index].state == ESPL_MOVE_OPEN
	    ? 0
	    : occupancy->moves->list[index].count;
	return occupancy->moves->slots + occupancy->moves->list[index].at;
}

/* Counts each gang once for each node it is on; with `fill` also writes it down. */
static void
espl_occupancy_list_gangs(struct espl_occupancy *occupancy, int fill)
{
	uint32_t g, k, count, i;

	for (g = 0; g < occupancy->view->gang_count; g++) {
		const struct espl_slot *slots = espl_occupancy_slots(occupancy, g, &count);

		for (k = 0; k < count; k++) {
			if (k > 0 && slots[k].node == slots[k - 1].node)
				continue;
			i = espl_node_map_find(occupancy->map, slots[k].node);
			if (i == ESPL_ANY)
				continue;
			if (fill) {
				ESPL_ASSERT(occupancy->from[i] < occupancy->gangs_room);
				occupancy->gangs[occupancy->from[i]] = g;
			}
			occupancy->from[i]++;
		}
	}
}

/* Room for the index's arrays; 0: out of memory. */
static int
espl_occupancy_reserve(struct espl_occupancy *occupancy, uint32_t nodes, uint32_t gangs)
{
	uint32_t *from = (uint32_t *)espl_array_grow(occupancy->from, &occupancy->from_room,
	    nodes + 1, sizeof *from);
	uint32_t *move_of = (uint32_t *)espl_array_grow(occupancy->move_of,
	    &occupancy->move_of_room, gangs + 1, sizeof *move_of);

	if (from != NULL)
		occupancy->from = from;
	if (move_of != NULL)
		occupancy->move_of = move_of;
	return from != NULL && move_of != NULL;
}

int
espl_occupancy_index(struct espl_occupancy *occupancy)
{
	uint32_t i, total = 0, nodes = occupancy->map->count, *gangs;

	if (occupancy->indexed || occupancy->map->failed)
		return !occupancy->map->failed;
	occupancy->map->failed = 1;
	if (!espl_occupancy_reserve(occupancy, nodes, occupancy->view->gang_count))
		return 0;
	for (i = 0; i < occupancy->view->gang_count; i++)
		occupancy->move_of[i] = ESPL_ANY;
	for (i = 0; i < occupancy->moves->count; i++) {
		uint32_t gang =
		    espl_gang_find(occupancy->view, occupancy->moves->list[i].gang->item);

		if (gang != ESPL_ANY)
			occupancy->move_of[gang] = i;
	}
	memset(occupancy->from, 0, ((size_t)nodes + 1) * sizeof *occupancy->from);
	espl_occupancy_list_gangs(occupancy, 0);
	for (i = 0; i <= nodes; i++) {
		uint32_t count = occupancy->from[i];

		occupancy->from[i] = total;
		total += i < nodes ? count : 0;
	}
	gangs = (uint32_t *)espl_array_grow(occupancy->gangs, &occupancy->gangs_room, total + 1,
	    sizeof *gangs);
	if (gangs == NULL)
		return 0;
	occupancy->gangs = gangs;
	espl_occupancy_list_gangs(occupancy, 1);
	for (i = nodes; i > 0; i--) /* filling moved each start to the next one's */
		occupancy->from[i] = occupancy->from[i - 1];
	occupancy->from[0] = 0;
	occupancy->map->failed = 0;
	occupancy->indexed = 1;
	return 1;
}

void
espl_occupancy_vacate(struct espl_occupancy *occupancy, uint32_t gang)
{
	struct espl_moves *moves = occupancy->moves;
	uint32_t index = espl_occupancy_find_move(occupancy, gang);

	ESPL_ASSERT(occupancy->indexed);
	if (index == ESPL_ANY) {
		if (espl_moves_add(moves, occupancy->map, occupancy->view->gangs[gang]) == ESPL_OK)
			occupancy->move_of[gang] = moves->count - 1;
		else
			occupancy->map->failed = 1;
		return;
	}
	espl_occupancy_save_move(occupancy, index);
	espl_node_map_drop(occupancy->map, moves->slots + moves->list[index].at,
	    moves->list[index].count, -1);
	moves->list[index].state = ESPL_MOVE_OPEN;
}

int
espl_occupancy_expect(struct espl_occupancy *occupancy)
{
	const struct espl_place_view *view = occupancy->view;
	struct espl_node_map *map = occupancy->map;
	uint32_t i, k, g, wide = map->widest;
	uint32_t *counts = (uint32_t *)espl_array_grow(occupancy->counts, &occupancy->counts_room,
	    map->count * wide + 1, sizeof *counts);

	if (counts == NULL) {
		map->failed = 1;
		return 0;
	}
	occupancy->counts = counts;
	memset(counts, 0, (size_t)map->count * wide * sizeof *counts);
	for (g = 0; g < view->gang_count; g++)
		for (k = 0; espl_gang_holds(view->gangs[g]) && k < view->gangs[g]->slot_count;
		     k++) {
			i = espl_node_map_find(map, view->gangs[g]->slots[k].node);
			if (i != ESPL_ANY && view->gangs[g]->slots[k].gpu < wide)
				counts[i * wide + view->gangs[g]->slots[k].gpu]++;
		}
	for (i = 0; i < map->count; i++)
		for (k = 0; k < map->entries[i].node->gpu_count; k++) {
			const struct espl_gpu *gpu = map->entries[i].node->gpus[k];

			for (g = counts[i * wide + k]; g < gpu->residents; g++)
				espl_node_map_change(map, i, k, gpu->packing, -1);
		}
	return !map->failed;
}
