/* fluid_placement.c - do the widths of a pool stand side by side on its nodes?  See fluid.h.
 *
 * Gangs that may not straddle nodes make a number of idle GPUs worth less than it says.  What does
 * not change in this decision stays where it is; what changes may go anywhere and is placed as
 * placer pack does it, the widest first, each at home if it can.  If one finds no place, one small
 * trial may move.
 */
#include "fluid.h"

#include <stdlib.h>

uint32_t
allocator_fluid_node(const struct fluid_pool *pool, uint64_t id)
{
	uint32_t low = 0, high = pool->node_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (pool->nodes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < pool->node_count && pool->nodes[low].id == id ? low : FLUID_NONE;
}

espl_status
allocator_fluid_floor(struct fluid_pool *pool, const struct espl_alloc_view *view, uint32_t offer)
{
	uint32_t i, k, per_node = view->offers[offer]->gpus,
		       most = view->node_count + pool->total / per_node + 1, sum = 0;
	struct fluid_node *nodes;

	ESPL_ASSERT(per_node > 0);
	pool->node_count = 0;
	pool->per_node = per_node;
	if (per_node < 2 || pool->total <= per_node ||
	    (view->items[0]->flags & ESPL_ITEM_COLOCATE) == 0)
		return ESPL_OK;
	if (most > pool->node_room) {
		nodes = realloc(pool->nodes, most * sizeof *nodes);
		if (nodes == NULL)
			return ESPL_E_NOMEM;
		pool->nodes = nodes;
		pool->node_room = most;
	}
	for (i = 0; i < view->node_count; i++) {
		const struct espl_node *node = view->nodes[i];
		uint32_t gpus = node->state == ESPL_NODE_READY ? 0 : per_node;

		if (node->offer != offer || node->state > ESPL_NODE_READY ||
		    (node->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			continue;
		for (k = 0; k < node->gpu_count && node->state == ESPL_NODE_READY; k++)
			gpus += node->gpus[k]->blocked == 0 &&
			    ((node->flags & ESPL_NODE_UNREACHABLE) == 0 ||
				node->gpus[k]->residents > 0);
		pool->nodes[pool->node_count++] = (struct fluid_node){ node->id, gpus, 0 };
		sum += gpus;
	}
	for (; sum < pool->total; sum += per_node) /* those that will be asked for */
		pool->nodes[pool->node_count++] = (struct fluid_node){ ESPL_NONE, per_node, 0 };
	ESPL_ASSERT(pool->node_count <= pool->node_room);
	return ESPL_OK;
}

/* Is it to stay where it is? */
static int
keeps_place(const struct fluid_trial *t)
{
	return t->home != FLUID_NONE && t->gpus == t->had_gpus && t->packing == t->had_packing &&
	    !t->yields && !t->displaced;
}

static void
occupy_node(struct fluid_pool *pool, uint32_t node, uint32_t gpus)
{
	if (node != FLUID_NONE)
		pool->nodes[node].spare -=
		    gpus < pool->nodes[node].spare ? gpus : pool->nodes[node].spare;
}

/* Gangs that stay take their GPUs, those that go are listed.  How many. */
static uint32_t
list_gangs(struct fluid_pool *pool)
{
	uint32_t i, k, n = 0;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if (t->gpus == 0 || t->shelf != FLUID_NONE)
			continue;
		if (!keeps_place(t))
			pool->gangs[n++] = (struct fluid_gang){ t->gpus, t->home };
		else if (t->item->node_count == 1)
			occupy_node(pool, t->home, t->gpus);
		else
			for (k = 0; k < t->item->node_count; k++)
				occupy_node(pool, allocator_fluid_node(pool, t->item->nodes[k]),
				    pool->per_node);
	}
	return n;
}

/* The same with shared GPUs, which stay as long as a trial on them does. */
static uint32_t
list_shelves(struct fluid_pool *pool, uint32_t n)
{
	uint32_t i, k;

	for (i = 0; i < pool->shelf_count; i++) {
		uint32_t home = FLUID_NONE, sitters = 0, stay = 0;

		for (k = pool->shelves[i].head; k != FLUID_NONE; k = pool->trials[k].next) {
			if (pool->trials[k].shelf != i)
				continue; /* it is tried elsewhere */
			sitters++;
			if (!stay)
				home = pool->trials[k].home;
			stay |= keeps_place(&pool->trials[k]);
		}
		if (stay)
			occupy_node(pool, home, 1);
		else if (sitters > 0)
			pool->gangs[n++] = (struct fluid_gang){ 1, home };
	}
	ESPL_ASSERT(n <= pool->room);
	return n;
}

static int
wider_first(const void *a, const void *b)
{
	const struct fluid_gang *x = a, *y = b;

	if (x->gpus != y->gpus)
		return x->gpus > y->gpus ? -1 : 1;
	return x->home < y->home ? -1 : x->home > y->home;
}

/* The node with the least room that is enough, but for one; FLUID_NONE. */
static uint32_t
best_fit(const struct fluid_pool *pool, uint32_t gpus, uint32_t but)
{
	uint32_t i, best = FLUID_NONE;

	for (i = 0; i < pool->node_count; i++)
		if (i != but && pool->nodes[i].spare >= gpus &&
		    (best == FLUID_NONE || pool->nodes[i].spare < pool->nodes[best].spare))
			best = i;
	return best;
}

static int
place_wide(struct fluid_pool *pool, const struct fluid_gang *gang)
{
	uint32_t i, need = (gang->gpus + pool->per_node - 1) / pool->per_node, found = 0;

	for (i = 0; i < pool->node_count; i++)
		found += pool->nodes[i].spare >= pool->per_node;
	if (found < need)
		return 0;
	if (gang->home != FLUID_NONE && pool->nodes[gang->home].spare >= pool->per_node) {
		occupy_node(pool, gang->home, pool->per_node);
		need--;
	}
	for (i = 0; i < pool->node_count && need > 0; i++)
		if (pool->nodes[i].spare >= pool->per_node) {
			occupy_node(pool, i, pool->per_node);
			need--;
		}
	ESPL_ASSERT(need == 0);
	return 1;
}

static int
place_gang(struct fluid_pool *pool, const struct fluid_gang *gang)
{
	uint32_t at = gang->home;

	if (gang->gpus > pool->per_node)
		return place_wide(pool, gang);
	if (at == FLUID_NONE || pool->nodes[at].spare < gang->gpus)
		at = best_fit(pool, gang->gpus, FLUID_NONE);
	occupy_node(pool, at, gang->gpus);
	return at != FLUID_NONE;
}

/* May the trial, alone on GPUs of one node, move for a gang of that many? */
static int
may_move(const struct fluid_pool *pool, const struct fluid_trial *t, uint32_t gpus)
{
	return t->gpus > 0 && t->gpus < gpus && t->packing == 1 && !t->fixed && keeps_place(t) &&
	    t->item->node_count == 1 &&
	    (t->shelf == FLUID_NONE || pool->shelves[t->shelf].count == 1);
}

/* Seats a gang by moving a small trial that stays otherwise: the smallest, of these the one with
 * the least left. */
static int
place_by_move(struct fluid_pool *pool, const struct fluid_gang *gang)
{
	uint32_t i, best = FLUID_NONE,
		    goal = gang->gpus < pool->per_node ? gang->gpus : pool->per_node;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if (!may_move(pool, t, gang->gpus) || pool->nodes[t->home].spare + t->gpus < goal ||
		    best_fit(pool, t->gpus, t->home) == FLUID_NONE)
			continue;
		if (best == FLUID_NONE || t->gpus < pool->trials[best].gpus ||
		    (t->gpus == pool->trials[best].gpus && t->work < pool->trials[best].work))
			best = i;
	}
	if (best == FLUID_NONE)
		return 0;
	pool->mover = best;
	pool->nodes[pool->trials[best].home].spare += pool->trials[best].gpus;
	return place_gang(pool, gang) &&
	    place_gang(pool, &(struct fluid_gang){ pool->trials[best].gpus, FLUID_NONE });
}

/* Whether all trials can be placed with their new shares. */
static int
place_trials(struct fluid_pool *pool)
{
	uint32_t i, n;

	pool->mover = FLUID_NONE;
	for (i = 0; i < pool->node_count; i++)
		pool->nodes[i].spare = pool->nodes[i].gpus;
	if (pool->node_count == 0)
		return 1;
	n = list_gangs(pool);
	n = list_shelves(pool, n);
	qsort(pool->gangs, n, sizeof *pool->gangs, wider_first);
	for (i = 0; i < n; i++)
		if (!place_gang(pool, &pool->gangs[i]) &&
		    (pool->displaced || pool->mover != FLUID_NONE ||
			!place_by_move(pool, &pool->gangs[i])))
			return 0;
	return 1;
}

int
allocator_fluid_places_with(struct fluid_pool *pool, uint32_t i, uint32_t gpus, double limit)
{
	struct fluid_trial *t = &pool->trials[i], was = *t;
	int good;

	ESPL_ASSERT(i < pool->count && gpus > 0);
	if (pool->node_count == 0)
		return 1;
	t->gpus = gpus;
	t->packing = 1;
	t->yields = 0;
	t->shelf = FLUID_NONE;
	good = place_trials(pool);
	*t = was;
	return good &&
	    (pool->mover == FLUID_NONE ||
		pool->trials[pool->mover].end + pool->trials[pool->mover].eps < limit);
}

void
allocator_fluid_displace(struct fluid_pool *pool)
{
	struct fluid_trial *t;

	if (pool->node_count == 0 || pool->mover == FLUID_NONE)
		return;
	ESPL_ASSERT(pool->mover < pool->count);
	t = &pool->trials[pool->mover];
	t->displaced = t->moved = 1;
	pool->displaced = 1;
	if (t->shelf != FLUID_NONE)
		allocator_fluid_shelf_ends(pool, t->shelf);
	else
		allocator_fluid_end(pool, pool->mover);
}
