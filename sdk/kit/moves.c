/* moves.c - see espalier/kit/moves.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/moves.h>

void
espl_moves_free(struct espl_moves *moves)
{
	free(moves->list);
	free(moves->slots);
	free(moves->pending);
	free(moves->work);
	memset(moves, 0, sizeof *moves);
}

uint32_t
espl_gang_find(const struct espl_place_view *view, uint64_t item)
{
	uint32_t low = 0, high = view->gang_count;

	ESPL_ASSERT(view->gangs != NULL || view->gang_count == 0);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (view->gangs[middle]->item < item)
			low = middle + 1;
		else
			high = middle;
	}
	return low < view->gang_count && view->gangs[low]->item == item ? low : ESPL_ANY;
}

int
espl_gang_is_settled(const struct espl_gang *gang)
{
	uint32_t i;

	if ((gang->flags & (ESPL_GANG_UNPLACED | ESPL_GANG_MUST)) != 0 ||
	    gang->slot_count != gang->share.gpus)
		return 0;
	for (i = 0; i < gang->slot_count; i++)
		if (gang->slots[i].packing != gang->share.packing)
			return 0;
	return 1;
}

int
espl_gang_holds(const struct espl_gang *gang)
{
	return (gang->flags & ESPL_GANG_UNPLACED) == 0 && gang->slot_count > 0;
}

static espl_status
espl_moves_wait(struct espl_moves *moves, uint64_t item)
{
	uint64_t *pending = (uint64_t *)espl_array_grow(moves->pending, &moves->pending_room,
	    moves->pending_count + 1, sizeof *pending);

	if (pending == NULL)
		return ESPL_E_NOMEM;
	moves->pending = pending;
	pending[moves->pending_count++] = item;
	return ESPL_OK;
}

espl_status
espl_moves_add(struct espl_moves *moves, struct espl_node_map *map, const struct espl_gang *gang)
{
	struct espl_move *list = (struct espl_move *)espl_array_grow(moves->list, &moves->room,
	    moves->count + 1, sizeof *list);

	ESPL_ASSERT(gang != NULL && gang->share.gpus > 0);
	if (list == NULL)
		return ESPL_E_NOMEM;
	moves->list = list;
	list += moves->count++;
	memset(list, 0, sizeof *list);
	list->gang = gang;
	list->state = ESPL_MOVE_OPEN;
	if (espl_gang_holds(gang))
		espl_node_map_drop(map, gang->slots, gang->slot_count, -1);
	return ESPL_OK;
}

static int
espl_moves_by_item(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y ? 1 : 0;
}

int
espl_moves_by_size(const void *a, const void *b)
{
	const struct espl_gang *x = ((const struct espl_move *)a)->gang;
	const struct espl_gang *y = ((const struct espl_move *)b)->gang;

	if (x->share.gpus != y->share.gpus)
		return x->share.gpus > y->share.gpus ? -1 : 1;
	if (x->share.packing != y->share.packing)
		return x->share.packing < y->share.packing ? -1 : 1;
	return x->item < y->item ? -1 : x->item > y->item ? 1 : 0;
}

int
espl_moves_needed(const struct espl_moves *moves, const struct espl_place_view *view)
{
	return view->changed_count > 0 || view->give_up_count > 0 || moves->pending_count > 0 ||
	    moves->broken;
}

/* Sorts what is not in order yet; most lists are, since items are reported by number. */
static void
sort_list(void *list, uint32_t count, size_t each, int (*order)(const void *, const void *))
{
	const char *at = list;

	for (uint32_t i = 1; i < count; i++, at += each)
		if (order(at, at + each) > 0) {
			qsort(list, count, each, order);
			return;
		}
}

espl_status
espl_moves_gather(struct espl_moves *moves, struct espl_node_map *map,
    const struct espl_place_view *view)
{
	const struct espl_gang *const *list = moves->broken ? view->gangs : view->changed;
	uint32_t i, some = moves->broken ? view->gang_count : view->changed_count;
	uint32_t all = some + moves->pending_count;
	uint64_t *work =
	    (uint64_t *)espl_array_grow(moves->work, &moves->work_room, all + 1, sizeof *work);
	espl_status status;

	ESPL_ASSERT(view->changed != NULL || view->changed_count == 0);
	moves->broken = 1; /* until the sink has been told */
	moves->count = 0;
	if (work == NULL)
		return ESPL_E_NOMEM;
	moves->work = work;
	for (i = 0; i < some; i++)
		work[i] = list[i]->item;
	if (moves->pending_count > 0)
		memcpy(work + i, moves->pending, moves->pending_count * sizeof *work);
	sort_list(work, all, sizeof *work, espl_moves_by_item);
	moves->slot_count = moves->pending_count = 0;
	status = espl_node_map_load(map, view->nodes, view->node_count);
	for (i = 0; i < all && status == ESPL_OK; i++) {
		uint32_t at =
		    i > 0 && work[i] == work[i - 1] ? ESPL_ANY : espl_gang_find(view, work[i]);

		if (at == ESPL_ANY || view->gangs[at]->share.gpus == 0 ||
		    espl_gang_is_settled(view->gangs[at]))
			continue;
		if ((view->gangs[at]->flags & ESPL_GANG_LOCKED) != 0)
			status = espl_moves_wait(moves, work[i]);
		else
			status = espl_moves_add(moves, map, view->gangs[at]);
	}
	if (status == ESPL_OK)
		sort_list(moves->list, moves->count, sizeof *moves->list, espl_moves_by_size);
	return status;
}

struct espl_slot *
espl_moves_room(struct espl_moves *moves, const struct espl_gang *gang)
{
	struct espl_slot *slots = (struct espl_slot *)espl_array_grow(moves->slots,
	    &moves->slot_room, moves->slot_count + gang->share.gpus + 1, sizeof *slots);

	if (slots == NULL)
		return NULL;
	moves->slots = slots;
	return slots + moves->slot_count;
}

void
espl_moves_settle(struct espl_moves *moves, uint32_t index, uint32_t count, uint32_t state)
{
	struct espl_move *move = &moves->list[index];

	ESPL_ASSERT(index < moves->count && move->state == ESPL_MOVE_OPEN);
	ESPL_ASSERT(count > 0 && moves->slot_count + count <= moves->slot_room);
	ESPL_ASSERT(state == ESPL_MOVE_STAYS || state == ESPL_MOVE_GOES);
	move->at = moves->slot_count;
	move->count = count;
	move->state = state;
	moves->slot_count += count;
}

espl_status
espl_moves_stay(struct espl_moves *moves, struct espl_node_map *map)
{
	uint32_t i;

	for (i = 0; i < moves->count; i++) {
		const struct espl_gang *gang = moves->list[i].gang;
		struct espl_slot *slots;
		uint32_t count;

		if (moves->list[i].state != ESPL_MOVE_OPEN || !espl_gang_holds(gang))
			continue;
		slots = espl_moves_room(moves, gang);
		if (slots == NULL)
			return ESPL_E_NOMEM;
		count = espl_node_map_stay(map, gang, slots);
		if (count > 0)
			espl_moves_settle(moves, i, count, ESPL_MOVE_STAYS);
	}
	return map->failed ? ESPL_E_NOMEM : ESPL_OK;
}

espl_status
espl_moves_keep(struct espl_moves *moves, struct espl_node_map *map)
{
	uint32_t m = 0, k, i;

	while (m < moves->count) {
		const struct espl_gang *gang = moves->list[m].gang;
		uint32_t mark = map->step_count;
		struct espl_slot slot;

		k = 0;
		if (moves->list[m].state == ESPL_MOVE_OPEN && espl_gang_holds(gang) &&
		    (gang->flags & ESPL_GANG_MUST) == 0)
			for (; k < gang->slot_count; k++) {
				i = espl_node_map_find(map, gang->slots[k].node);
				if (i == ESPL_ANY ||
				    espl_node_map_join(map, i, gang->slots[k].gpu,
					gang->slots[k].packing, &slot) == 0)
					break;
			}
		if (k == 0 || k < gang->slot_count) {
			espl_node_map_undo(map, mark);
			m++;
			continue;
		}
		if (espl_moves_wait(moves, gang->item) != ESPL_OK)
			return ESPL_E_NOMEM;
		moves->list[m] = moves->list[--moves->count];
	}
	return map->failed ? ESPL_E_NOMEM : ESPL_OK;
}

/* Nothing changed for it after all (displaced, and back again). */
static int
espl_moves_idle(const struct espl_moves *moves, const struct espl_move *move)
{
	const struct espl_gang *gang = move->gang;
	uint32_t i;

	if (move->state != ESPL_MOVE_GOES || !espl_gang_holds(gang) ||
	    gang->slot_count != move->count)
		return 0;
	ESPL_ASSERT(move->at + move->count <= moves->slot_count);
	for (i = 0; i < move->count; i++) {
		const struct espl_slot *slot = &moves->slots[move->at + i];

		if (slot->node != gang->slots[i].node || slot->gpu != gang->slots[i].gpu ||
		    slot->packing != gang->slots[i].packing)
			return 0;
	}
	return 1;
}

static espl_status
espl_moves_submit_one(struct espl_moves *moves, const struct espl_move *move,
    struct espl_place_sink *sink)
{
	espl_status status;

	ESPL_ASSERT(move->count > 0 && move->at + move->count <= moves->slot_count);
	status = sink->place(sink, move->gang->item, moves->slots + move->at, move->count);
	return status == ESPL_E_REJECTED ? ESPL_OK : status; /* it is tried again */
}

espl_status
espl_moves_submit(struct espl_moves *moves, struct espl_place_sink *sink)
{
	espl_status status = ESPL_OK;
	uint32_t i, pass;

	for (i = 0; i < moves->count && status == ESPL_OK; i++) {
		const struct espl_move *move = &moves->list[i];

		if (move->state != ESPL_MOVE_STAYS && espl_gang_holds(move->gang) &&
		    !espl_moves_idle(moves, move))
			status = sink->place(sink, move->gang->item, NULL, 0);
		if (status == ESPL_E_REJECTED)
			status = ESPL_OK;
		if (status == ESPL_OK)
			status = espl_moves_wait(moves, move->gang->item);
	}
	for (pass = 0; pass < 3; pass++) /* shrink, grow, come */
		for (i = 0; i < moves->count && status == ESPL_OK; i++) {
			const struct espl_move *move = &moves->list[i];
			uint32_t when = move->state == ESPL_MOVE_GOES ? 2
			    : move->count > move->gang->slot_count    ? 1
								      : 0;

			if (move->state != ESPL_MOVE_OPEN && when == pass &&
			    !espl_moves_idle(moves, move))
				status = espl_moves_submit_one(moves, move, sink);
		}
	if (status == ESPL_OK)
		moves->broken = 0;
	return status;
}
