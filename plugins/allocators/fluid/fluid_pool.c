/* fluid_pool.c - the books of allocator fluid's rules; see fluid.h. */
#include "fluid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/roster.h>

void
allocator_fluid_pool_free(struct fluid_pool *pool)
{
	free(pool->trials);
	free(pool->shelves);
	free(pool->order);
	free(pool->keys);
	free(pool->ends);
	free(pool->nodes);
	free(pool->gangs);
	memset(pool, 0, sizeof *pool);
}

espl_status
allocator_fluid_pool_room(struct fluid_pool *pool, uint32_t count)
{
	uint32_t room = pool->room > 0 ? pool->room : 32;
	void *more;

	if (count <= pool->room)
		return ESPL_OK;
	while (room < count)
		room = room > UINT32_MAX / 2 ? count : room * 2;
	more = realloc(pool->trials, room * sizeof *pool->trials);
	if (more == NULL)
		return ESPL_E_NOMEM;
	pool->trials = more;
	more = realloc(pool->shelves, room * sizeof *pool->shelves);
	if (more == NULL)
		return ESPL_E_NOMEM;
	pool->shelves = more;
	more = realloc(pool->order, room * sizeof *pool->order);
	if (more == NULL)
		return ESPL_E_NOMEM;
	pool->order = more;
	more = realloc(pool->keys, room * sizeof *pool->keys);
	if (more == NULL)
		return ESPL_E_NOMEM;
	pool->keys = more;
	more = realloc(pool->ends, room * sizeof *pool->ends);
	if (more == NULL)
		return ESPL_E_NOMEM;
	pool->ends = more;
	more = realloc(pool->gangs, room * sizeof *pool->gangs);
	if (more == NULL)
		return ESPL_E_NOMEM;
	pool->gangs = more;
	pool->room = room;
	return ESPL_OK;
}

/* ---- widths ------------------------------------------------------------------------------ */

uint32_t
allocator_fluid_fit(const struct fluid_trial *t, uint32_t most)
{
	const struct fluid_curve *curve = t->curve;
	uint32_t best = espl_fit(t->item, t->per_node, most < t->most ? most : t->most), w;

	for (w = best; !curve->rising && w > t->least;) {
		w = espl_fit(t->item, t->per_node, w - 1);
		if (w > 0 &&
		    curve->whole[w < curve->wide ? w : curve->wide] <=
			curve->whole[best < curve->wide ? best : curve->wide])
			best = w;
	}
	return best;
}

uint32_t
allocator_fluid_wider(const struct fluid_trial *t, uint32_t gpus)
{
	uint32_t w;

	if (gpus < t->least)
		return t->least;
	for (w = gpus + 1; w <= t->most; w++)
		if (allocator_fluid_fit(t, w) == w)
			return w;
	return 0;
}

double
allocator_fluid_h(const struct fluid_trial *t, uint32_t gpus, uint32_t packing)
{
	const struct fluid_curve *curve = t->curve;

	if (packing > 1)
		return t->work *
		    curve->packed[packing < FLUID_PACKING_MAX ? packing : FLUID_PACKING_MAX];
	if (gpus > curve->wide)
		gpus = curve->wide; /* more brings nothing */
	return t->work * curve->whole[gpus];
}

/* ---- order ------------------------------------------------------------------------------- */

static int
key_order(const void *x, const void *y)
{
	const struct fluid_key *a = x, *b = y;

	if (a->a != b->a)
		return a->a > b->a ? -1 : 1;
	if (a->b != b->b)
		return a->b > b->b ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

void
allocator_fluid_sort(const struct fluid_pool *pool, uint32_t *order, uint32_t count, int by_width)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		const struct fluid_trial *t = &pool->trials[order[i]];
		struct fluid_key *key = &pool->keys[i];

		key->a = by_width ? (double)t->gpus / t->packing : 0;
		key->b = t->work;
		key->id = t->id;
		key->trial = order[i];
	}
	qsort(pool->keys, count, sizeof *pool->keys, key_order);
	for (i = 0; i < count; i++)
		order[i] = pool->keys[i].trial;
}

/* ---- which trial uses which GPU ---------------------------------------------------------- */

static void
copy_head(const struct fluid_pool *pool, struct fluid_shelf *s)
{
	if (s->head == FLUID_NONE)
		return;
	s->work = pool->trials[s->head].work;
	s->end = pool->trials[s->head].end;
}

void
allocator_fluid_shelf_add(struct fluid_pool *pool, uint32_t shelf, uint32_t trial)
{
	struct fluid_shelf *s = &pool->shelves[shelf];
	struct fluid_trial *t = &pool->trials[trial];

	ESPL_ASSERT(shelf < pool->shelf_count && t->shelf == FLUID_NONE);
	t->shelf = shelf;
	t->next = s->head;
	s->head = trial;
	s->count++;
	copy_head(pool, s);
}

void
allocator_fluid_shelf_take(struct fluid_pool *pool, uint32_t trial)
{
	struct fluid_trial *t = &pool->trials[trial];
	struct fluid_shelf *s = &pool->shelves[t->shelf];
	uint32_t *at = &s->head;

	ESPL_ASSERT(t->shelf < pool->shelf_count && s->count > 0);
	while (*at != trial)
		at = &pool->trials[*at].next;
	*at = t->next;
	s->count--;
	t->shelf = t->next = FLUID_NONE;
	copy_head(pool, s);
}

uint32_t
allocator_fluid_new_shelf(struct fluid_pool *pool, uint32_t cap)
{
	struct fluid_shelf *s = &pool->shelves[pool->shelf_count];

	ESPL_ASSERT(pool->shelf_count < pool->room && cap > 0);
	s->node = ESPL_NONE;
	s->gpu = ESPL_ANY;
	s->head = FLUID_NONE;
	s->count = 0;
	s->cap = cap;
	return pool->shelf_count++;
}

static int
shares_gpu(const struct fluid_trial *t)
{
	return t->packing > 1 || (t->gpus == 1 && t->c > 1);
}

/* Those whose GPU is known: by node and GPU, so that neighbors follow one another. */
static void
place_known(struct fluid_pool *pool)
{
	uint32_t i, n = 0, shelf = FLUID_NONE;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if (!shares_gpu(t) || t->node == ESPL_NONE || t->gpu == ESPL_ANY)
			continue;
		pool->keys[n].a = -(double)t->node;
		pool->keys[n].b = -((double)t->gpu * FLUID_PACKING_MAX + t->packing);
		pool->keys[n].id = t->id;
		pool->keys[n++].trial = i;
	}
	qsort(pool->keys, n, sizeof *pool->keys, key_order);
	for (i = 0; i < n; i++) {
		struct fluid_trial *t = &pool->trials[pool->keys[i].trial];
		struct fluid_shelf *s = shelf == FLUID_NONE ? NULL : &pool->shelves[shelf];

		/* Where others still sit, too, a whole GPU is one that it has yet to get. */
		if (s == NULL || s->node != t->node || s->gpu != t->gpu || t->packing == 1 ||
		    pool->trials[s->head].packing != t->packing || s->count >= s->cap) {
			shelf = allocator_fluid_new_shelf(pool, t->packing > 1 ? t->packing : t->c);
			s = &pool->shelves[shelf];
			s->node = t->node;
			s->gpu = t->gpu;
		}
		allocator_fluid_shelf_add(pool, shelf, pool->keys[i].trial);
	}
}

uint32_t
allocator_fluid_emptiest(const struct fluid_pool *pool, uint32_t packing)
{
	uint32_t i, best = FLUID_NONE;

	for (i = 0; i < pool->shelf_count; i++) {
		const struct fluid_shelf *s = &pool->shelves[i];

		if (s->count < packing && s->cap == packing && s->head != FLUID_NONE &&
		    pool->trials[s->head].packing == packing &&
		    (best == FLUID_NONE || s->count <= pool->shelves[best].count))
			best = i;
	}
	return best;
}

uint64_t
allocator_fluid_granted(const struct fluid_pool *pool)
{
	uint32_t sharers[FLUID_PACKING_MAX + 1] = { 0 }, i;
	uint64_t gpus = 0;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if (t->packing > 1)
			sharers[t->packing < FLUID_PACKING_MAX ? t->packing : FLUID_PACKING_MAX]++;
		else
			gpus += t->gpus;
	}
	for (i = 2; i <= FLUID_PACKING_MAX; i++)
		gpus += (sharers[i] + i - 1) / i;
	return gpus;
}

static uint32_t
count_held(const struct fluid_pool *pool)
{
	uint32_t i, gpus = pool->shelf_count;

	for (i = 0; i < pool->count; i++)
		if (!shares_gpu(&pool->trials[i]))
			gpus += pool->trials[i].gpus;
	return gpus;
}

void
allocator_fluid_pool_sit(struct fluid_pool *pool)
{
	uint32_t i, n = 0, used;

	pool->shelf_count = 0;
	for (i = 0; i < pool->count; i++)
		pool->trials[i].shelf = pool->trials[i].next = FLUID_NONE;
	place_known(pool);
	for (i = 0; i < pool->count; i++) {
		struct fluid_trial *t = &pool->trials[i];

		if (!shares_gpu(t) || t->shelf != FLUID_NONE)
			continue;
		if (t->packing == 1)
			allocator_fluid_shelf_add(pool, allocator_fluid_new_shelf(pool, t->c), i);
		else
			pool->order[n++] = i;
	}
	used = count_held(pool);
	allocator_fluid_sort(pool, pool->order, n, 0);
	for (i = 0; i < n; i++) {
		uint32_t trial = pool->order[i], packing = pool->trials[trial].packing;
		uint32_t shelf =
		    used < pool->total ? FLUID_NONE : allocator_fluid_emptiest(pool, packing);

		if (shelf == FLUID_NONE) {
			shelf = allocator_fluid_new_shelf(pool, packing);
			used++;
		}
		allocator_fluid_shelf_add(pool, shelf, trial);
	}
	pool->idle = used < pool->total ? pool->total - used : 0;
	pool->owed = used > pool->total ? used - pool->total : 0;
	for (i = 0; i < pool->count; i++)
		if (pool->trials[i].shelf == FLUID_NONE)
			allocator_fluid_end(pool, i);
	for (i = 0; i < pool->shelf_count; i++)
		allocator_fluid_shelf_ends(pool, i);
}

/* ---- when it ends ------------------------------------------------------------------------ */

static double
pause_of(const struct fluid_trial *t)
{
	return t->late + (t->moved ? t->eps : 0);
}

void
allocator_fluid_end(struct fluid_pool *pool, uint32_t trial)
{
	struct fluid_trial *t = &pool->trials[trial];

	t->end = t->gpus == 0 ? INFINITY : pause_of(t) + allocator_fluid_h(t, t->gpus, t->packing);
	pool->ends[trial] = t->end;
}

/* The shortest leaves first, and those behind it are faster from then on. */
void
allocator_fluid_shelf_ends(struct fluid_pool *pool, uint32_t shelf)
{
	uint32_t sitters[FLUID_PACKING_MAX], n = 0, i, k;
	double at = 0, done = 0;

	for (i = pool->shelves[shelf].head; i != FLUID_NONE && n < FLUID_PACKING_MAX;
	     i = pool->trials[i].next) {
		for (k = n++; k > 0 && pool->trials[sitters[k - 1]].work > pool->trials[i].work;
		     k--)
			sitters[k] = sitters[k - 1];
		sitters[k] = i;
	}
	for (k = 0; k < n; k++) {
		struct fluid_trial *t = &pool->trials[sitters[k]];

		at += (t->work - done) * t->curve->packed[n - k];
		done = t->work;
		t->end = pause_of(t) + at;
		pool->ends[sitters[k]] = t->end;
	}
	copy_head(pool, &pool->shelves[shelf]);
}
