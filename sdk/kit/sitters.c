/* sitters.c - see espalier/kit/sitters.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/sitters.h>

void
espl_sitters_free(struct espl_sitters *sitters)
{
	free(sitters->undos);
	free(sitters->from);
	free(sitters->who);
	free(sitters->move_of);
	free(sitters->here);
	memset(sitters, 0, sizeof *sitters);
}

void
espl_sitters_begin(struct espl_sitters *sitters, const struct espl_place_view *view,
    struct espl_floor *floor, struct espl_moves *moves)
{
	ESPL_ASSERT(view != NULL && floor != NULL && moves != NULL);
	sitters->view = view;
	sitters->floor = floor;
	sitters->moves = moves;
	sitters->undo_count = sitters->indexed = 0;
}

/* ---- trying and taking back -------------------------------------------------------------- */

struct espl_mark
espl_sitters_mark(const struct espl_sitters *sitters)
{
	struct espl_mark mark;

	mark.steps = sitters->floor->step_count;
	mark.moves = sitters->moves->count;
	mark.slots = sitters->moves->slot_count;
	mark.undos = sitters->undo_count;
	return mark;
}

void
espl_sitters_back(struct espl_sitters *sitters, struct espl_mark mark)
{
	struct espl_moves *moves = sitters->moves;

	ESPL_ASSERT(mark.steps <= sitters->floor->step_count && mark.moves <= moves->count);
	ESPL_ASSERT(mark.slots <= moves->slot_count && mark.undos <= sitters->undo_count);
	espl_floor_undo(sitters->floor, mark.steps);
	while (sitters->undo_count > mark.undos) {
		const struct espl_undo *undo = &sitters->undos[--sitters->undo_count];

		moves->list[undo->index] = undo->was;
	}
	moves->count = mark.moves;
	moves->slot_count = mark.slots;
	sitters->indexed = 0;
}

void
espl_sitters_remember(struct espl_sitters *sitters, uint32_t index)
{
	struct espl_undo *undos = (struct espl_undo *)espl_floor_grow(sitters->undos,
	    &sitters->undo_room, sitters->undo_count + 1, sizeof *undos);

	ESPL_ASSERT(index < sitters->moves->count);
	if (undos == NULL) {
		sitters->floor->failed = 1;
		return;
	}
	sitters->undos = undos;
	undos += sitters->undo_count++;
	undos->index = index;
	undos->zero = 0;
	undos->was = sitters->moves->list[index];
}

/* ---- who sits where ---------------------------------------------------------------------- */

/* The gang's move; ESPL_ANY: it has none, or the one it had was taken back. */
static uint32_t
espl_sitters_move(const struct espl_sitters *sitters, uint32_t gang)
{
	uint32_t index = sitters->move_of[gang];

	ESPL_ASSERT(gang < sitters->view->gang_count);
	return index < sitters->moves->count &&
		sitters->moves->list[index].gang == sitters->view->gangs[gang]
	    ? index
	    : ESPL_ANY;
}

const struct espl_slot *
espl_sitters_slots(const struct espl_sitters *sitters, uint32_t gang, uint32_t *count)
{
	const struct espl_gang *g = sitters->view->gangs[gang];
	uint32_t index = espl_sitters_move(sitters, gang);

	if (index == ESPL_ANY) {
		*count = espl_gang_holds(g) ? g->slot_count : 0;
		return g->slots;
	}
	*count = sitters->moves->list[index].state == ESPL_MOVE_OPEN
	    ? 0
	    : sitters->moves->list[index].count;
	return sitters->moves->slots + sitters->moves->list[index].at;
}

/* Counts each gang once for each node it is on; with `fill` also writes it down. */
static void
espl_sitters_walk(struct espl_sitters *sitters, int fill)
{
	uint32_t g, k, count, i;

	for (g = 0; g < sitters->view->gang_count; g++) {
		const struct espl_slot *slots = espl_sitters_slots(sitters, g, &count);

		for (k = 0; k < count; k++) {
			if (k > 0 && slots[k].node == slots[k - 1].node)
				continue;
			i = espl_floor_find(sitters->floor, slots[k].node);
			if (i == ESPL_ANY)
				continue;
			if (fill) {
				ESPL_ASSERT(sitters->from[i] < sitters->who_room);
				sitters->who[sitters->from[i]] = g;
			}
			sitters->from[i]++;
		}
	}
}

/* Room for the index's arrays; 0: out of memory. */
static int
espl_sitters_room(struct espl_sitters *sitters, uint32_t nodes, uint32_t gangs)
{
	uint32_t *from = (uint32_t *)espl_floor_grow(sitters->from, &sitters->from_room, nodes + 1,
	    sizeof *from);
	uint32_t *move_of = (uint32_t *)espl_floor_grow(sitters->move_of, &sitters->move_of_room,
	    gangs + 1, sizeof *move_of);

	if (from != NULL)
		sitters->from = from;
	if (move_of != NULL)
		sitters->move_of = move_of;
	return from != NULL && move_of != NULL;
}

int
espl_sitters_index(struct espl_sitters *sitters)
{
	uint32_t i, total = 0, nodes = sitters->floor->count, *who;

	if (sitters->indexed || sitters->floor->failed)
		return !sitters->floor->failed;
	sitters->floor->failed = 1;
	if (!espl_sitters_room(sitters, nodes, sitters->view->gang_count))
		return 0;
	for (i = 0; i < sitters->view->gang_count; i++)
		sitters->move_of[i] = ESPL_ANY;
	for (i = 0; i < sitters->moves->count; i++) {
		uint32_t gang = espl_gang_find(sitters->view, sitters->moves->list[i].gang->item);

		if (gang != ESPL_ANY)
			sitters->move_of[gang] = i;
	}
	memset(sitters->from, 0, ((size_t)nodes + 1) * sizeof *sitters->from);
	espl_sitters_walk(sitters, 0);
	for (i = 0; i <= nodes; i++) {
		uint32_t count = sitters->from[i];

		sitters->from[i] = total;
		total += i < nodes ? count : 0;
	}
	who = (uint32_t *)espl_floor_grow(sitters->who, &sitters->who_room, total + 1, sizeof *who);
	if (who == NULL)
		return 0;
	sitters->who = who;
	espl_sitters_walk(sitters, 1);
	for (i = nodes; i > 0; i--) /* filling moved each start to the next one's */
		sitters->from[i] = sitters->from[i - 1];
	sitters->from[0] = 0;
	sitters->floor->failed = 0;
	sitters->indexed = 1;
	return 1;
}

void
espl_sitters_vacate(struct espl_sitters *sitters, uint32_t gang)
{
	struct espl_moves *moves = sitters->moves;
	uint32_t index = espl_sitters_move(sitters, gang);

	ESPL_ASSERT(sitters->indexed);
	if (index == ESPL_ANY) {
		if (espl_moves_add(moves, sitters->floor, sitters->view->gangs[gang]) == ESPL_OK)
			sitters->move_of[gang] = moves->count - 1;
		else
			sitters->floor->failed = 1;
		return;
	}
	espl_sitters_remember(sitters, index);
	espl_floor_drop(sitters->floor, moves->slots + moves->list[index].at,
	    moves->list[index].count, -1);
	moves->list[index].state = ESPL_MOVE_OPEN;
}

int
espl_sitters_expect(struct espl_sitters *sitters)
{
	const struct espl_place_view *view = sitters->view;
	struct espl_floor *floor = sitters->floor;
	uint32_t i, k, g, wide = floor->widest;
	uint32_t *here = (uint32_t *)espl_floor_grow(sitters->here, &sitters->here_room,
	    floor->count * wide + 1, sizeof *here);

	if (here == NULL) {
		floor->failed = 1;
		return 0;
	}
	sitters->here = here;
	memset(here, 0, (size_t)floor->count * wide * sizeof *here);
	for (g = 0; g < view->gang_count; g++)
		for (k = 0; espl_gang_holds(view->gangs[g]) && k < view->gangs[g]->slot_count;
		     k++) {
			i = espl_floor_find(floor, view->gangs[g]->slots[k].node);
			if (i != ESPL_ANY && view->gangs[g]->slots[k].gpu < wide)
				here[i * wide + view->gangs[g]->slots[k].gpu]++;
		}
	for (i = 0; i < floor->count; i++)
		for (k = 0; k < floor->stands[i].node->gpu_count; k++) {
			const struct espl_gpu *gpu = floor->stands[i].node->gpus[k];

			for (g = here[i * wide + k]; g < gpu->residents; g++)
				espl_floor_do(floor, i, k, gpu->packing, -1);
		}
	return !floor->failed;
}
