/* fluid_items.c - which trials hold GPUs, which wait, and the view's items as trials of the pool;
 * see fluid.h. */
#include "fluid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/node_map.h>
#include <espalier/util.h>

/* ---- lists ------------------------------------------------------------------------------- */

espl_status
allocator_fluid_enqueue(struct fluid *fluid, struct place place)
{
	struct place *queue;

	ESPL_ASSERT(fluid->head <= fluid->tail && fluid->tail <= fluid->queue_room);
	if (fluid->head > 0 && fluid->tail == fluid->queue_room) {
		memmove(fluid->queue, fluid->queue + fluid->head,
		    (fluid->tail - fluid->head) * sizeof *queue);
		fluid->tail -= fluid->head;
		fluid->head = 0;
	}
	queue = espl_array_grow(fluid->queue, &fluid->queue_room, fluid->tail + 1, sizeof *queue);
	if (queue == NULL)
		return ESPL_E_NOMEM;
	fluid->queue = queue;
	queue[fluid->tail++] = place;
	return ESPL_OK;
}

espl_status
allocator_fluid_add_runner(struct fluid *fluid, struct place place)
{
	struct runner *runners = espl_array_grow(fluid->runners, &fluid->runner_room,
	    fluid->runner_count + 1, sizeof *runners);

	if (runners == NULL)
		return ESPL_E_NOMEM;
	fluid->runners = runners;
	runners[fluid->runner_count++] = (struct runner){ place, 0, 0 };
	return ESPL_OK;
}

uint32_t
allocator_fluid_index(const struct fluid *fluid, struct place place)
{
	return espl_roster_find(&fluid->roster, place.id, place.arrived);
}

/* How good the forecast was, for `espalier explain`. */
static void
report_outcome(const struct fluid *fluid, const struct runner *r, espl_time now)
{
	char text[128];
	double foretold = espl_seconds(r->ends - r->since), took = espl_seconds(now - r->since);

	if (!fluid->host->verbose || !(foretold > 0))
		return;
	(void)snprintf(text, sizeof text, "predicted %.3g s more, took %.3g s (%+.1f %%)", foretold,
	    took, (took / foretold - 1) * 100);
	fluid->host->note(fluid->host, ESPL_ABOUT_ITEM, r->place.id, text);
}

static int
is_runner(const struct fluid *fluid, const struct espl_entry *entry)
{
	uint32_t i;

	for (i = 0; i < fluid->runner_count; i++)
		if (fluid->runners[i].place.id == entry->id &&
		    fluid->runners[i].place.arrived == entry->arrived)
			return 1;
	return 0;
}

/* The host starts an item of the queue itself if that has stood beside idle GPUs for long. */
static espl_status
adopt_runners(struct fluid *fluid, const struct espl_alloc_view *view)
{
	const struct espl_roster *roster = &fluid->roster;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0;
	     i < view->changed_count && status == ESPL_OK && fluid->runner_count < roster->granted;
	     i++) {
		struct place place = { view->changed[i]->id, view->changed[i]->arrived };
		uint32_t at = allocator_fluid_index(fluid, place);

		if (at < roster->fresh && espl_roster_at(roster, at)->gpus > 0 &&
		    !is_runner(fluid, espl_roster_at(roster, at)))
			status = allocator_fluid_add_runner(fluid, place);
	}
	return status;
}

espl_status
allocator_fluid_keep_runners(struct fluid *fluid, const struct espl_alloc_view *view)
{
	espl_status status = ESPL_OK;
	uint32_t i, left = 0;

	for (i = 0; i < fluid->runner_count && status == ESPL_OK; i++) {
		struct runner *r = &fluid->runners[i];
		uint32_t at = allocator_fluid_index(fluid, r->place);

		if (at == ESPL_ANY) {
			report_outcome(fluid, r, view->now);
		} else if (espl_roster_at(&fluid->roster, at)->gpus > 0) {
			fluid->runners[left++] = *r;
		} else {
			status = allocator_fluid_enqueue(fluid, r->place);
			if (status == ESPL_OK) {
				memmove(fluid->queue + fluid->head + 1, fluid->queue + fluid->head,
				    (fluid->tail - fluid->head - 1) * sizeof *fluid->queue);
				fluid->queue[fluid->head] = r->place;
			}
		}
	}
	if (status != ESPL_OK)
		return status;
	fluid->runner_count = left;
	return adopt_runners(fluid, view);
}

/* ---- trials ------------------------------------------------------------------------------ */

static struct fluid_curve *
curve_of(struct fluid *fluid, const struct espl_item *item)
{
	const struct espl_point *scaling = item->scaling, *packing = item->packing;
	uint32_t scalings = item->scaling_count, packings = item->packing_count, i;
	uint32_t unit = item->unit > 0 ? item->unit : 1;
	struct fluid_curve *curve, **more;

	if (scalings == 0) {
		scaling = fluid->probe.scaling;
		scalings = fluid->probe.scaling_count;
	}
	if (packings == 0) {
		packing = fluid->probe.packing;
		packings = fluid->probe.packing_count;
	}
	for (i = 0; i < fluid->curve_count; i++) {
		curve = fluid->curves[i];
		if (curve->scaling == scaling && curve->packing == packing && curve->unit == unit &&
		    curve->scaling_count == scalings && curve->packing_count == packings)
			return curve;
	}
	if (fluid->curve_count == fluid->curve_room) {
		more = realloc(fluid->curves, (fluid->curve_room + 1) * sizeof *more);
		if (more == NULL)
			return NULL;
		fluid->curves = more;
		more[fluid->curve_room] = calloc(1, sizeof **more);
		if (more[fluid->curve_room] == NULL)
			return NULL;
		fluid->curve_room++;
	}
	curve = fluid->curves[fluid->curve_count++];
	return allocator_fluid_curve_fill(curve, &fluid->rules, unit, scaling, scalings, packing,
		   packings) == ESPL_OK
	    ? curve
	    : NULL;
}

/* Seconds that a change costs; a trial that has not begun pays nothing. */
static double
pause_s(const struct espl_item *item)
{
	double eps = isnan(item->resize_s) ? item->start_s : item->resize_s;

	if (item->started == ESPL_NEVER)
		return 0;
	if (isnan(eps))
		eps = 0;
	return isnan(item->boundary_s) ? eps : eps + item->boundary_s;
}

/* It changes already, is in its last iteration, or would lose its work. */
static int
is_immovable(const struct espl_item *item)
{
	return (item->flags & ESPL_ITEM_CHANGING) != 0 ||
	    ((item->flags & ESPL_ITEM_RUNNING) != 0 && item->iterations_left == 1) ||
	    ((item->flags & (ESPL_ITEM_NO_SAVE | ESPL_ITEM_INPLACE)) == ESPL_ITEM_NO_SAVE &&
		item->started != ESPL_NEVER);
}

/* Seconds left on one GPU; NaN: unknown.  Without a profile they are the iterations left. */
static double
known_work(const struct fluid *fluid, const struct espl_item *item)
{
	double work = item->work_s;

	if (isnan(work) && item->iterations_left > 0)
		work = (double)item->iterations_left *
		    (fluid->probe.iteration_s > 0 ? fluid->probe.iteration_s : 1);
	if (isnan(work))
		return fluid->typical_s;
	return work < 0 ? 0 : work < 1e200 ? work : 1e200; /* sums stay finite */
}

espl_status
allocator_fluid_add_trial(struct fluid *fluid, const struct espl_alloc_view *view, uint32_t index)
{
	const struct espl_item *item = view->items[index];
	const struct espl_entry *entry = espl_roster_at(&fluid->roster, index);
	struct fluid_pool *pool = &fluid->pool;
	struct fluid_trial *t;
	espl_status status = allocator_fluid_pool_room(pool, pool->count + 1);
	uint32_t fit;

	ESPL_ASSERT(index < view->item_count && entry->id == item->id);
	if (status != ESPL_OK)
		return status;
	t = &pool->trials[pool->count];
	memset(t, 0, sizeof *t);
	t->curve = curve_of(fluid, item);
	if (t->curve == NULL)
		return ESPL_E_NOMEM;
	pool->count++;
	t->item = item;
	t->id = item->id;
	t->index = index;
	t->per_node = fluid->roster.per_node;
	t->work = known_work(fluid, item);
	t->eps = pause_s(item);
	t->late = (item->flags & ESPL_ITEM_CHANGING) != 0 ? t->eps : 0;
	t->least = entry->least;
	t->most = t->curve->d < entry->most ? t->curve->d : entry->most;
	fit = allocator_fluid_fit(t, t->most);
	t->most = fit > t->least ? fit : t->least;
	t->c = entry->least == 1 ? t->curve->c : 1;
	if (t->c > item->packing_max)
		t->c = item->packing_max > 0 ? item->packing_max : 1;
	t->gpus = t->had_gpus = entry->gpus;
	t->packing = t->had_packing = entry->packing;
	t->fixed = (uint32_t)is_immovable(item);
	t->shelf = t->next = FLUID_NONE;
	t->node = item->node_count > 0 ? item->nodes[0] : ESPL_NONE;
	t->gpu = item->gpu;
	t->home = t->node != ESPL_NONE ? allocator_fluid_node(pool, t->node) : FLUID_NONE;
	return ESPL_OK;
}

static int
number_order(const void *a, const void *b)
{
	double x = ((const struct fluid_key *)a)->a, y = ((const struct fluid_key *)b)->a;

	return x < y ? -1 : x > y;
}

void
allocator_fluid_guess_work(struct fluid *fluid)
{
	struct fluid_pool *pool = &fluid->pool;
	uint32_t i, n = 0;

	for (i = 0; i < pool->count; i++)
		if (!isnan(pool->trials[i].work))
			pool->keys[n++].a = pool->trials[i].work;
	if (n == pool->count)
		return;
	if (n > 0) {
		qsort(pool->keys, n, sizeof *pool->keys, number_order);
		fluid->typical_s = pool->keys[n / 2].a;
	} else if (isnan(fluid->typical_s)) {
		fluid->typical_s = 1;
	}
	for (i = 0; i < pool->count; i++)
		if (isnan(pool->trials[i].work))
			pool->trials[i].work = fluid->typical_s;
}
