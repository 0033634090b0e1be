/* floor.c - see espalier/kit/floor.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/floor.h>

void
espl_floor_free(struct espl_floor *floor)
{
	free(floor->stands);
	free(floor->cells);
	free(floor->steps);
	free(floor->heads);
	memset(floor, 0, sizeof *floor);
}

void *
espl_floor_grow(void *at, uint32_t *room, uint32_t count, size_t size)
{
	uint32_t more = *room > 0 ? *room : 16;
	void *bigger;

	ESPL_ASSERT(size > 0);
	if (count <= *room)
		return at;
	while (more < count)
		more = more > UINT32_MAX / 2 ? count : more * 2;
	bigger = realloc(at, more * size);
	if (bigger != NULL)
		*room = more;
	return bigger;
}

static void
espl_floor_link(struct espl_floor *floor, uint32_t i)
{
	struct espl_stand *stand = &floor->stands[i];

	ESPL_ASSERT(stand->idle <= floor->widest);
	stand->prev = ESPL_ANY;
	stand->next = floor->heads[stand->idle];
	if (stand->next != ESPL_ANY)
		floor->stands[stand->next].prev = i;
	floor->heads[stand->idle] = i;
}

static void
espl_floor_unlink(struct espl_floor *floor, uint32_t i)
{
	struct espl_stand *stand = &floor->stands[i];

	ESPL_ASSERT(stand->prev != ESPL_ANY ? floor->stands[stand->prev].next == i
					    : floor->heads[stand->idle] == i);
	if (stand->prev != ESPL_ANY)
		floor->stands[stand->prev].next = stand->next;
	else
		floor->heads[stand->idle] = stand->next;
	if (stand->next != ESPL_ANY)
		floor->stands[stand->next].prev = stand->prev;
}

espl_status
espl_floor_load(struct espl_floor *floor, const struct espl_node *const *nodes, uint32_t count)
{
	uint32_t i, widest = 0;
	void *at;

	ESPL_ASSERT(nodes != NULL || count == 0);
	floor->count = floor->cell_count = floor->step_count = floor->failed = 0;
	for (i = 0; i < count; i++) {
		/* espl_floor_find searches by id. */
		ESPL_ASSERT(i == 0 || nodes[i - 1]->id < nodes[i]->id);
		if (nodes[i]->gpu_count > widest)
			widest = nodes[i]->gpu_count;
	}
	at = espl_floor_grow(floor->stands, &floor->stand_room, count, sizeof *floor->stands);
	if (at == NULL && count > 0)
		return ESPL_E_NOMEM;
	floor->stands = (struct espl_stand *)at;
	at = espl_floor_grow(floor->heads, &floor->head_room, widest + 1, sizeof *floor->heads);
	if (at == NULL)
		return ESPL_E_NOMEM;
	floor->heads = (uint32_t *)at;
	floor->widest = widest;
	floor->count = count;
	for (i = 0; i <= widest; i++)
		floor->heads[i] = ESPL_ANY;
	for (i = count; i-- > 0;) { /* backwards, so that lists begin with the lowest id */
		struct espl_stand *stand = &floor->stands[i];

		stand->node = nodes[i];
		stand->cells = ESPL_ANY;
		stand->usable = nodes[i]->state == ESPL_NODE_READY &&
		    (nodes[i]->flags &
			(ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) == 0;
		stand->idle = nodes[i]->gpus_idle <= nodes[i]->gpu_count ? nodes[i]->gpus_idle : 0;
		espl_floor_link(floor, i);
	}
	return ESPL_OK;
}

uint32_t
espl_floor_find(const struct espl_floor *floor, uint64_t node)
{
	uint32_t low = 0, high = floor->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (floor->stands[middle].node->id < node)
			low = middle + 1;
		else
			high = middle;
	}
	return low < floor->count && floor->stands[low].node->id == node ? low : ESPL_ANY;
}

struct espl_floor_gpu *
espl_floor_cell(struct espl_floor *floor, uint32_t i, uint32_t gpu)
{
	struct espl_stand *stand = &floor->stands[i];
	uint32_t k, count = stand->node->gpu_count, idle = 0;

	ESPL_ASSERT(i < floor->count && gpu < count);
	if (stand->cells == ESPL_ANY) {
		struct espl_floor_gpu *cells =
		    (struct espl_floor_gpu *)espl_floor_grow(floor->cells, &floor->cell_room,
			floor->cell_count + count, sizeof *cells);

		if (cells == NULL) {
			floor->failed = 1;
			return NULL;
		}
		floor->cells = cells;
		stand->cells = floor->cell_count;
		floor->cell_count += count;
		for (k = 0, cells += stand->cells; k < count; k++) {
			cells[k].residents = stand->node->gpus[k]->residents;
			cells[k].packing = stand->node->gpus[k]->packing;
			cells[k].blocked = stand->node->gpus[k]->blocked;
			idle += cells[k].residents == 0 && cells[k].blocked == 0;
		}
		espl_floor_unlink(floor, i);
		stand->idle = idle;
		espl_floor_link(floor, i);
	}
	return &floor->cells[stand->cells + gpu];
}

/* Adds (sign 1) or takes away (-1) one resident.  Not logged: see the two below. */
static void
espl_floor_change(struct espl_floor *floor, const struct espl_step *step)
{
	struct espl_floor_gpu *cell = espl_floor_cell(floor, step->stand, step->gpu);
	uint32_t idle;

	if (cell == NULL)
		return;
	idle = floor->stands[step->stand].idle;
	if (step->sign > 0) {
		if (cell->residents++ == 0 && cell->blocked == 0)
			idle--;
		cell->packing = step->packing;
	} else if (cell->residents > 0 && --cell->residents == 0) {
		cell->packing = 0;
		idle += cell->blocked == 0;
	}
	if (idle != floor->stands[step->stand].idle) {
		espl_floor_unlink(floor, step->stand);
		floor->stands[step->stand].idle = idle;
		espl_floor_link(floor, step->stand);
	}
}

void
espl_floor_do(struct espl_floor *floor, uint32_t i, uint32_t gpu, uint32_t packing, int32_t sign)
{
	struct espl_step *steps = (struct espl_step *)espl_floor_grow(floor->steps,
	    &floor->step_room, floor->step_count + 1, sizeof *steps);

	if (steps == NULL) {
		floor->failed = 1;
		return;
	}
	floor->steps = steps;
	steps += floor->step_count++;
	steps->stand = i;
	steps->gpu = gpu;
	steps->packing = packing;
	steps->sign = sign;
	espl_floor_change(floor, steps);
}

void
espl_floor_drop(struct espl_floor *floor, const struct espl_slot *slots, uint32_t count,
    int32_t sign)
{
	uint32_t k, i = ESPL_ANY;

	for (k = 0; k < count; k++) {
		if (i == ESPL_ANY || floor->stands[i].node->id != slots[k].node)
			i = espl_floor_find(floor, slots[k].node);
		if (i != ESPL_ANY && slots[k].gpu < floor->stands[i].node->gpu_count)
			espl_floor_do(floor, i, slots[k].gpu, slots[k].packing, sign);
	}
}

void
espl_floor_undo(struct espl_floor *floor, uint32_t mark)
{
	ESPL_ASSERT(mark <= floor->step_count);
	while (floor->step_count > mark) {
		struct espl_step step = floor->steps[--floor->step_count];

		step.sign = -step.sign;
		espl_floor_change(floor, &step);
	}
}

int
espl_floor_admits(const struct espl_floor *floor, uint32_t i, const struct espl_gang *gang,
    uint32_t offer)
{
	const struct espl_stand *stand = &floor->stands[i];

	ESPL_ASSERT(i < floor->count);
	return stand->usable && stand->node->owner == gang->owner &&
	    (gang->offer == ESPL_ANY || gang->offer == stand->node->offer) &&
	    (offer == ESPL_ANY || offer == stand->node->offer);
}

/* A node at risk only where no other one fits. */
uint32_t
espl_floor_fit(const struct espl_floor *floor, const struct espl_gang *gang, uint32_t offer,
    uint32_t gpus, int worst)
{
	uint32_t step, i, at_risk = ESPL_ANY;

	ESPL_ASSERT(gpus > 0);
	for (step = gpus; step <= floor->widest; step++) {
		uint32_t idle = worst ? floor->widest - (step - gpus) : step;

		for (i = floor->heads[idle]; i != ESPL_ANY; i = floor->stands[i].next) {
			if (!espl_floor_admits(floor, i, gang, offer))
				continue;
			if ((floor->stands[i].node->flags & ESPL_NODE_AT_RISK) == 0)
				return i;
			if (at_risk == ESPL_ANY)
				at_risk = i;
		}
	}
	return at_risk;
}

uint32_t
espl_floor_seat(struct espl_floor *floor, uint32_t i, uint32_t gpus, uint32_t packing,
    struct espl_slot *slots)
{
	uint32_t gpu, done = 0;

	ESPL_ASSERT(i < floor->count && packing > 0);
	for (gpu = 0; gpu < floor->stands[i].node->gpu_count && done < gpus; gpu++) {
		struct espl_floor_gpu *cell = espl_floor_cell(floor, i, gpu);

		if (cell == NULL)
			break;
		if (cell->residents > 0 || cell->blocked != 0)
			continue;
		slots[done].node = floor->stands[i].node->id;
		slots[done].gpu = gpu;
		slots[done].packing = packing;
		done++;
		espl_floor_do(floor, i, gpu, packing, 1);
	}
	return done;
}

uint32_t
espl_floor_hole(struct espl_floor *floor, uint32_t i, uint32_t packing)
{
	uint32_t gpu;

	ESPL_ASSERT(i < floor->count && packing > 1);
	for (gpu = 0; gpu < floor->stands[i].node->gpu_count; gpu++) {
		struct espl_floor_gpu *cell = espl_floor_cell(floor, i, gpu);

		if (cell == NULL)
			break;
		if (cell->residents > 0 && cell->packing == packing && cell->blocked == 0 &&
		    cell->residents < packing)
			return gpu;
	}
	return ESPL_ANY;
}

uint32_t
espl_floor_join(struct espl_floor *floor, uint32_t i, uint32_t gpu, uint32_t packing,
    struct espl_slot *slot)
{
	const struct espl_floor_gpu *cell = espl_floor_cell(floor, i, gpu);

	ESPL_ASSERT(packing > 0);
	if (cell == NULL || cell->blocked != 0 ||
	    (cell->residents > 0 &&
		(packing == 1 || cell->packing != packing || cell->residents >= packing)))
		return 0;
	slot->node = floor->stands[i].node->id;
	slot->gpu = gpu;
	slot->packing = packing;
	espl_floor_do(floor, i, gpu, packing, 1);
	return 1;
}

uint32_t
espl_floor_seat_nodes(struct espl_floor *floor, const struct espl_gang *gang,
    struct espl_slot *slots)
{
	uint32_t size, first, i, next, done = 0;

	ESPL_ASSERT(gang->share.gpus > 0);
	for (size = floor->widest; size > 0; size--) {
		if (gang->share.gpus % size != 0)
			continue;
		for (first = floor->heads[size]; first != ESPL_ANY;
		     first = floor->stands[first].next) {
			uint32_t offer = floor->stands[first].node->offer, found = 0;

			for (i = first; i != ESPL_ANY; i = floor->stands[i].next)
				found += espl_floor_admits(floor, i, gang, offer) &&
				    floor->stands[i].node->gpu_count == size;
			if (found < gang->share.gpus / size)
				continue;
			for (i = first; i != ESPL_ANY && done < gang->share.gpus; i = next) {
				next = floor->stands[i].next;
				if (espl_floor_admits(floor, i, gang, offer) &&
				    floor->stands[i].node->gpu_count == size)
					done += espl_floor_seat(floor, i, size, 1, slots + done);
			}
			return done;
		}
	}
	return 0;
}

uint32_t
espl_floor_seat_more(struct espl_floor *floor, const struct espl_gang *gang, uint32_t offer,
    struct espl_slot *slots, uint32_t done)
{
	uint32_t mark = floor->step_count;

	ESPL_ASSERT(done <= gang->share.gpus);
	while (done < gang->share.gpus) {
		uint32_t left = gang->share.gpus - done;
		uint32_t i = espl_floor_fit(floor, gang, offer, left, 0);

		if (i == ESPL_ANY)
			i = espl_floor_fit(floor, gang, offer, 1, 1);
		if (i == ESPL_ANY) {
			espl_floor_undo(floor, mark);
			return 0;
		}
		if (left > floor->stands[i].idle)
			left = floor->stands[i].idle;
		left = espl_floor_seat(floor, i, left, 1, slots + done);
		if (left == 0) {
			espl_floor_undo(floor, mark);
			return 0;
		}
		done += left;
	}
	return done;
}

uint32_t
espl_floor_seat_over(struct espl_floor *floor, const struct espl_gang *gang, uint32_t offer,
    struct espl_slot *slots)
{
	return espl_floor_seat_more(floor, gang, offer, slots, 0);
}

/* The part of espl_floor_stay that adds GPUs: on the same node, or whole nodes to whole nodes. */
static uint32_t
espl_floor_extend(struct espl_floor *floor, const struct espl_gang *gang, uint32_t i, uint32_t kept,
    struct espl_slot *slots)
{
	uint32_t size = floor->stands[i].node->gpu_count, done = kept;

	ESPL_ASSERT(kept > 0 && kept < gang->share.gpus);
	if (slots[0].node == slots[kept - 1].node && gang->share.gpus <= size)
		return kept + espl_floor_seat(floor, i, gang->share.gpus - kept, 1, slots + kept);
	if (kept % size != 0 || gang->share.gpus % size != 0)
		return kept;
	while (done < gang->share.gpus) {
		uint32_t next = espl_floor_fit(floor, gang, floor->stands[i].node->offer, size, 0);

		if (next == ESPL_ANY || floor->stands[next].node->gpu_count != size)
			break;
		done += espl_floor_seat(floor, next, size, 1, slots + done);
	}
	return done;
}

int
espl_floor_empty(struct espl_floor *floor, uint32_t i)
{
	uint32_t gpu;

	ESPL_ASSERT(i < floor->count);
	if (floor->stands[i].idle == floor->stands[i].node->gpu_count)
		return 1;
	for (gpu = 0; gpu < floor->stands[i].node->gpu_count; gpu++) {
		const struct espl_floor_gpu *cell = espl_floor_cell(floor, i, gpu);

		if (cell == NULL || cell->residents > 0)
			return 0;
	}
	return 1;
}

int
espl_slot_order(const void *a, const void *b)
{
	const struct espl_slot *x = (const struct espl_slot *)a;
	const struct espl_slot *y = (const struct espl_slot *)b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->gpu < y->gpu ? -1 : x->gpu > y->gpu;
}

void
espl_floor_give_up(struct espl_floor *floor, const struct espl_place_view *view,
    struct espl_place_sink *sink)
{
	uint32_t i, k, left;

	for (k = 0; k < view->give_up_count; k++)
		for (i = 0, left = view->give_up[k].nodes; i < floor->count && left > 0; i++) {
			struct espl_stand *stand = &floor->stands[i];

			if (stand->usable && stand->node->offer == view->give_up[k].offer &&
			    stand->node->owner == ESPL_NONE && espl_floor_empty(floor, i) &&
			    sink->give_up(sink, stand->node->id) == ESPL_OK) {
				stand->usable = 0;
				left--;
			}
		}
}

/* May a gang of this node stay there?  On an unreachable one, too, without more GPUs. */
static int
espl_floor_keeps(const struct espl_floor *floor, uint32_t i, const struct espl_gang *gang)
{
	const struct espl_stand *stand = &floor->stands[i];

	return espl_floor_admits(floor, i, gang, ESPL_ANY) ||
	    ((stand->node->flags & ESPL_NODE_UNREACHABLE) != 0 &&
		gang->slot_count >= gang->share.gpus && stand->node->owner == gang->owner &&
		(gang->offer == ESPL_ANY || gang->offer == stand->node->offer));
}

uint32_t
espl_floor_stay(struct espl_floor *floor, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t k, i = ESPL_ANY, mark = floor->step_count, want = gang->share.gpus;
	uint32_t keep = gang->slot_count < want ? gang->slot_count : want;

	if (keep == 0 || (gang->flags & (ESPL_GANG_MUST | ESPL_GANG_UNPLACED)) != 0)
		return 0;
	for (k = 0; k < keep; k++) {
		if (i == ESPL_ANY || floor->stands[i].node->id != gang->slots[k].node)
			i = espl_floor_find(floor, gang->slots[k].node);
		if (i == ESPL_ANY || !espl_floor_keeps(floor, i, gang) ||
		    gang->slots[k].gpu >= floor->stands[i].node->gpu_count ||
		    espl_floor_join(floor, i, gang->slots[k].gpu, gang->share.packing, &slots[k]) ==
			0)
			break;
	}
	if (k == keep && k < want)
		k = espl_floor_extend(floor, gang, i, keep, slots);
	else if (k == want && (gang->flags & ESPL_GANG_COLOCATE) != 0 &&
	    slots[0].node != slots[want - 1].node && want % floor->stands[i].node->gpu_count != 0)
		k = 0; /* would straddle nodes */
	if (k == want)
		return want;
	espl_floor_undo(floor, mark);
	return 0;
}
