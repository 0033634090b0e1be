/* node_map.c - see espalier/kit/node_map.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/node_map.h>

void
espl_node_map_free(struct espl_node_map *map)
{
	free(map->entries);
	free(map->cells);
	free(map->steps);
	free(map->heads);
	memset(map, 0, sizeof *map);
}

static void
espl_node_map_link(struct espl_node_map *map, uint32_t i)
{
	struct espl_node_map_entry *entry = &map->entries[i];

	ESPL_ASSERT(entry->idle <= map->widest);
	entry->prev = ESPL_ANY;
	entry->next = map->heads[entry->idle];
	if (entry->next != ESPL_ANY)
		map->entries[entry->next].prev = i;
	map->heads[entry->idle] = i;
}

static void
espl_node_map_unlink(struct espl_node_map *map, uint32_t i)
{
	struct espl_node_map_entry *entry = &map->entries[i];

	ESPL_ASSERT(entry->prev != ESPL_ANY ? map->entries[entry->prev].next == i
					    : map->heads[entry->idle] == i);
	if (entry->prev != ESPL_ANY)
		map->entries[entry->prev].next = entry->next;
	else
		map->heads[entry->idle] = entry->next;
	if (entry->next != ESPL_ANY)
		map->entries[entry->next].prev = entry->prev;
}

espl_status
espl_node_map_load(struct espl_node_map *map, const struct espl_node *const *nodes, uint32_t count)
{
	uint32_t i, widest = 0;
	void *at;

	ESPL_ASSERT(nodes != NULL || count == 0);
	map->count = map->cell_count = map->step_count = map->failed = 0;
	for (i = 0; i < count; i++) {
		/* espl_node_map_find searches by id. */
		ESPL_ASSERT(i == 0 || nodes[i - 1]->id < nodes[i]->id);
		if (nodes[i]->gpu_count > widest)
			widest = nodes[i]->gpu_count;
	}
	at = espl_array_grow(map->entries, &map->entry_room, count, sizeof *map->entries);
	if (at == NULL && count > 0)
		return ESPL_E_NOMEM;
	map->entries = (struct espl_node_map_entry *)at;
	at = espl_array_grow(map->heads, &map->head_room, widest + 1, sizeof *map->heads);
	if (at == NULL)
		return ESPL_E_NOMEM;
	map->heads = (uint32_t *)at;
	map->widest = widest;
	map->count = count;
	for (i = 0; i <= widest; i++)
		map->heads[i] = ESPL_ANY;
	for (i = count; i-- > 0;) { /* backwards, so that lists begin with the lowest id */
		struct espl_node_map_entry *entry = &map->entries[i];

		entry->node = nodes[i];
		entry->cells = ESPL_ANY;
		entry->usable = nodes[i]->state == ESPL_NODE_READY &&
		    (nodes[i]->flags &
			(ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) == 0;
		entry->idle = nodes[i]->gpus_idle <= nodes[i]->gpu_count ? nodes[i]->gpus_idle : 0;
		espl_node_map_link(map, i);
	}
	return ESPL_OK;
}

uint32_t
espl_node_map_find(const struct espl_node_map *map, uint64_t node)
{
	uint32_t low = 0, high = map->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (map->entries[middle].node->id < node)
			low = middle + 1;
		else
			high = middle;
	}
	return low < map->count && map->entries[low].node->id == node ? low : ESPL_ANY;
}

struct espl_node_map_gpu *
espl_node_map_cell(struct espl_node_map *map, uint32_t i, uint32_t gpu)
{
	struct espl_node_map_entry *entry = &map->entries[i];
	uint32_t k, count = entry->node->gpu_count, idle = 0;

	ESPL_ASSERT(i < map->count && gpu < count);
	if (entry->cells == ESPL_ANY) {
		struct espl_node_map_gpu *cells =
		    (struct espl_node_map_gpu *)espl_array_grow(map->cells, &map->cell_room,
			map->cell_count + count, sizeof *cells);

		if (cells == NULL) {
			map->failed = 1;
			return NULL;
		}
		map->cells = cells;
		entry->cells = map->cell_count;
		map->cell_count += count;
		for (k = 0, cells += entry->cells; k < count; k++) {
			cells[k].residents = entry->node->gpus[k]->residents;
			cells[k].packing = entry->node->gpus[k]->packing;
			cells[k].blocked = entry->node->gpus[k]->blocked;
			idle += cells[k].residents == 0 && cells[k].blocked == 0;
		}
		espl_node_map_unlink(map, i);
		entry->idle = idle;
		espl_node_map_link(map, i);
	}
	return &map->cells[entry->cells + gpu];
}

/* Adds (sign 1) or takes away (-1) one resident.  Not logged: see the two below. */
static void
espl_node_map_apply(struct espl_node_map *map, const struct espl_node_map_step *step)
{
	struct espl_node_map_gpu *cell = espl_node_map_cell(map, step->entry, step->gpu);
	uint32_t idle;

	if (cell == NULL)
		return;
	idle = map->entries[step->entry].idle;
	if (step->sign > 0) {
		if (cell->residents++ == 0 && cell->blocked == 0)
			idle--;
		cell->packing = step->packing;
	} else if (cell->residents > 0 && --cell->residents == 0) {
		cell->packing = 0;
		idle += cell->blocked == 0;
	}
	if (idle != map->entries[step->entry].idle) {
		espl_node_map_unlink(map, step->entry);
		map->entries[step->entry].idle = idle;
		espl_node_map_link(map, step->entry);
	}
}

void
espl_node_map_change(struct espl_node_map *map, uint32_t i, uint32_t gpu, uint32_t packing,
    int32_t sign)
{
	struct espl_node_map_step *steps = (struct espl_node_map_step *)espl_array_grow(map->steps,
	    &map->step_room, map->step_count + 1, sizeof *steps);

	if (steps == NULL) {
		map->failed = 1;
		return;
	}
	map->steps = steps;
	steps += map->step_count++;
	steps->entry = i;
	steps->gpu = gpu;
	steps->packing = packing;
	steps->sign = sign;
	espl_node_map_apply(map, steps);
}

void
espl_node_map_drop(struct espl_node_map *map, const struct espl_slot *slots, uint32_t count,
    int32_t sign)
{
	uint32_t k, i = ESPL_ANY;

	for (k = 0; k < count; k++) {
		if (i == ESPL_ANY || map->entries[i].node->id != slots[k].node)
			i = espl_node_map_find(map, slots[k].node);
		if (i != ESPL_ANY && slots[k].gpu < map->entries[i].node->gpu_count)
			espl_node_map_change(map, i, slots[k].gpu, slots[k].packing, sign);
	}
}

void
espl_node_map_undo(struct espl_node_map *map, uint32_t mark)
{
	ESPL_ASSERT(mark <= map->step_count);
	while (map->step_count > mark) {
		struct espl_node_map_step step = map->steps[--map->step_count];

		step.sign = -step.sign;
		espl_node_map_apply(map, &step);
	}
}

/* It failed there.  It may stay where it runs. */
static int
espl_node_map_avoids(const struct espl_gang *gang, const struct espl_node *node)
{
	return gang->size >= offsetof(struct espl_gang, avoid) + sizeof gang->avoid &&
	    gang->slot_count == 0 && gang->avoid == node->id + 1;
}

int
espl_node_map_admits(const struct espl_node_map *map, uint32_t i, const struct espl_gang *gang,
    uint32_t offer)
{
	const struct espl_node_map_entry *entry = &map->entries[i];

	ESPL_ASSERT(i < map->count);
	return entry->usable && entry->node->owner == gang->owner &&
	    !espl_node_map_avoids(gang, entry->node) &&
	    (gang->offer == ESPL_ANY || gang->offer == entry->node->offer) &&
	    (offer == ESPL_ANY || offer == entry->node->offer);
}

/* A node at risk only where no other one fits. */
uint32_t
espl_node_map_find_fit(const struct espl_node_map *map, const struct espl_gang *gang,
    uint32_t offer, uint32_t gpus, int worst)
{
	uint32_t step, i, at_risk = ESPL_ANY;

	ESPL_ASSERT(gpus > 0);
	for (step = gpus; step <= map->widest; step++) {
		uint32_t idle = worst ? map->widest - (step - gpus) : step;

		for (i = map->heads[idle]; i != ESPL_ANY; i = map->entries[i].next) {
			if (!espl_node_map_admits(map, i, gang, offer))
				continue;
			if ((map->entries[i].node->flags & ESPL_NODE_AT_RISK) == 0)
				return i;
			if (at_risk == ESPL_ANY)
				at_risk = i;
		}
	}
	return at_risk;
}

uint32_t
espl_node_map_place(struct espl_node_map *map, uint32_t i, uint32_t gpus, uint32_t packing,
    struct espl_slot *slots)
{
	uint32_t gpu, done = 0;

	ESPL_ASSERT(i < map->count && packing > 0);
	for (gpu = 0; gpu < map->entries[i].node->gpu_count && done < gpus; gpu++) {
		struct espl_node_map_gpu *cell = espl_node_map_cell(map, i, gpu);

		if (cell == NULL)
			break;
		if (cell->residents > 0 || cell->blocked != 0)
			continue;
		slots[done].node = map->entries[i].node->id;
		slots[done].gpu = gpu;
		slots[done].packing = packing;
		done++;
		espl_node_map_change(map, i, gpu, packing, 1);
	}
	return done;
}

uint32_t
espl_node_map_find_hole(struct espl_node_map *map, uint32_t i, uint32_t packing)
{
	uint32_t gpu;

	ESPL_ASSERT(i < map->count && packing > 1);
	for (gpu = 0; gpu < map->entries[i].node->gpu_count; gpu++) {
		struct espl_node_map_gpu *cell = espl_node_map_cell(map, i, gpu);

		if (cell == NULL)
			break;
		if (cell->residents > 0 && cell->packing == packing && cell->blocked == 0 &&
		    cell->residents < packing)
			return gpu;
	}
	return ESPL_ANY;
}

uint32_t
espl_node_map_join(struct espl_node_map *map, uint32_t i, uint32_t gpu, uint32_t packing,
    struct espl_slot *slot)
{
	const struct espl_node_map_gpu *cell = espl_node_map_cell(map, i, gpu);

	ESPL_ASSERT(packing > 0);
	if (cell == NULL || cell->blocked != 0 ||
	    (cell->residents > 0 &&
		(packing == 1 || cell->packing != packing || cell->residents >= packing)))
		return 0;
	slot->node = map->entries[i].node->id;
	slot->gpu = gpu;
	slot->packing = packing;
	espl_node_map_change(map, i, gpu, packing, 1);
	return 1;
}

uint32_t
espl_node_map_place_on_nodes(struct espl_node_map *map, const struct espl_gang *gang,
    struct espl_slot *slots)
{
	uint32_t size, first, i, next, done = 0;

	ESPL_ASSERT(gang->share.gpus > 0);
	for (size = map->widest; size > 0; size--) {
		if (gang->share.gpus % size != 0)
			continue;
		for (first = map->heads[size]; first != ESPL_ANY;
		     first = map->entries[first].next) {
			uint32_t offer = map->entries[first].node->offer, found = 0;

			for (i = first; i != ESPL_ANY; i = map->entries[i].next)
				found += espl_node_map_admits(map, i, gang, offer) &&
				    map->entries[i].node->gpu_count == size;
			if (found < gang->share.gpus / size)
				continue;
			for (i = first; i != ESPL_ANY && done < gang->share.gpus; i = next) {
				next = map->entries[i].next;
				if (espl_node_map_admits(map, i, gang, offer) &&
				    map->entries[i].node->gpu_count == size)
					done += espl_node_map_place(map, i, size, 1, slots + done);
			}
			return done;
		}
	}
	return 0;
}

uint32_t
espl_node_map_place_rest(struct espl_node_map *map, const struct espl_gang *gang, uint32_t offer,
    struct espl_slot *slots, uint32_t done)
{
	uint32_t mark = map->step_count;

	ESPL_ASSERT(done <= gang->share.gpus);
	while (done < gang->share.gpus) {
		uint32_t left = gang->share.gpus - done;
		uint32_t i = espl_node_map_find_fit(map, gang, offer, left, 0);

		if (i == ESPL_ANY)
			i = espl_node_map_find_fit(map, gang, offer, 1, 1);
		if (i == ESPL_ANY) {
			espl_node_map_undo(map, mark);
			return 0;
		}
		if (left > map->entries[i].idle)
			left = map->entries[i].idle;
		left = espl_node_map_place(map, i, left, 1, slots + done);
		if (left == 0) {
			espl_node_map_undo(map, mark);
			return 0;
		}
		done += left;
	}
	return done;
}

uint32_t
espl_node_map_place_across(struct espl_node_map *map, const struct espl_gang *gang, uint32_t offer,
    struct espl_slot *slots)
{
	return espl_node_map_place_rest(map, gang, offer, slots, 0);
}

/* The part of espl_node_map_stay that adds GPUs: on the same node, or whole nodes to whole nodes.
 */
static uint32_t
espl_node_map_extend(struct espl_node_map *map, const struct espl_gang *gang, uint32_t i,
    uint32_t kept, struct espl_slot *slots)
{
	uint32_t size = map->entries[i].node->gpu_count, done = kept;

	ESPL_ASSERT(kept > 0 && kept < gang->share.gpus);
	if (slots[0].node == slots[kept - 1].node && gang->share.gpus <= size)
		return kept + espl_node_map_place(map, i, gang->share.gpus - kept, 1, slots + kept);
	if (kept % size != 0 || gang->share.gpus % size != 0)
		return kept;
	while (done < gang->share.gpus) {
		uint32_t next =
		    espl_node_map_find_fit(map, gang, map->entries[i].node->offer, size, 0);

		if (next == ESPL_ANY || map->entries[next].node->gpu_count != size)
			break;
		done += espl_node_map_place(map, next, size, 1, slots + done);
	}
	return done;
}

int
espl_node_map_is_empty(struct espl_node_map *map, uint32_t i)
{
	uint32_t gpu;

	ESPL_ASSERT(i < map->count);
	if (map->entries[i].idle == map->entries[i].node->gpu_count)
		return 1;
	for (gpu = 0; gpu < map->entries[i].node->gpu_count; gpu++) {
		const struct espl_node_map_gpu *cell = espl_node_map_cell(map, i, gpu);

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
espl_node_map_give_up(struct espl_node_map *map, const struct espl_place_view *view,
    struct espl_place_sink *sink)
{
	uint32_t i, k, left;

	for (k = 0; k < view->give_up_count; k++)
		for (i = 0, left = view->give_up[k].nodes; i < map->count && left > 0; i++) {
			struct espl_node_map_entry *entry = &map->entries[i];

			if (entry->usable && entry->node->offer == view->give_up[k].offer &&
			    entry->node->owner == ESPL_NONE && espl_node_map_is_empty(map, i) &&
			    sink->give_up(sink, entry->node->id) == ESPL_OK) {
				entry->usable = 0;
				left--;
			}
		}
}

/* May a gang of this node stay there?  On an unreachable one, too, without more GPUs. */
static int
espl_node_map_may_keep(const struct espl_node_map *map, uint32_t i, const struct espl_gang *gang)
{
	const struct espl_node_map_entry *entry = &map->entries[i];

	return espl_node_map_admits(map, i, gang, ESPL_ANY) ||
	    ((entry->node->flags & ESPL_NODE_UNREACHABLE) != 0 &&
		gang->slot_count >= gang->share.gpus && entry->node->owner == gang->owner &&
		(gang->offer == ESPL_ANY || gang->offer == entry->node->offer));
}

uint32_t
espl_node_map_stay(struct espl_node_map *map, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t k, i = ESPL_ANY, mark = map->step_count, want = gang->share.gpus;
	uint32_t keep = gang->slot_count < want ? gang->slot_count : want;

	if (keep == 0 || (gang->flags & (ESPL_GANG_MUST | ESPL_GANG_UNPLACED)) != 0)
		return 0;
	for (k = 0; k < keep; k++) {
		if (i == ESPL_ANY || map->entries[i].node->id != gang->slots[k].node)
			i = espl_node_map_find(map, gang->slots[k].node);
		if (i == ESPL_ANY || !espl_node_map_may_keep(map, i, gang) ||
		    gang->slots[k].gpu >= map->entries[i].node->gpu_count ||
		    espl_node_map_join(map, i, gang->slots[k].gpu, gang->share.packing,
			&slots[k]) == 0)
			break;
	}
	if (k == keep && k < want)
		k = espl_node_map_extend(map, gang, i, keep, slots);
	else if (k == want && (gang->flags & ESPL_GANG_COLOCATE) != 0 &&
	    slots[0].node != slots[want - 1].node && want % map->entries[i].node->gpu_count != 0)
		k = 0; /* would straddle nodes */
	if (k == want)
		return want;
	espl_node_map_undo(map, mark);
	return 0;
}
