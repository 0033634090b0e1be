/* fluid_paper.c - algorithms 1 and 2 of Fluid (MLSys'21), and a decision where the paper leaves one
 * open.
 *
 * Shares are compared with a tolerance, so that equal trials on as many GPUs get one each despite
 * rounding. Algorithm 2 works on the remaining time, decides first which trials give up GPUs, then
 * serves the longest trial first, each as far as idle GPUs allow; a reduced width has to pay, too.
 * A trial gives up a whole GPU for a part of one only if another trial takes it. A loss of GPUs is
 * not optional: it is carried out at any cost. (docs/fluid.md)
 */
#include "fluid.h"

#include <math.h>

#define NOISE 1e-12

static void
set_share(struct fluid_trial *t, uint32_t gpus, uint32_t packing)
{
	t->gpus = gpus;
	t->packing = packing;
}

/* ---- algorithm 1 ------------------------------------------------------------------------- */

struct width {
	uint32_t gpus, packing;
};

static struct width
share_of(const struct fluid_trial *t, double sum, uint32_t n)
{
	struct width w = { 0, 1 };
	double part = sum > 0 ? t->work * n / sum * (1 + NOISE) : 0;

	if (part >= 1 || t->c <= 1)
		w.gpus = allocator_fluid_fit(t, part >= UINT32_MAX ? UINT32_MAX : (uint32_t)part);
	if (w.gpus == 0 && t->c > 1)
		w = (struct width){ 1, t->c };
	else if (w.gpus == 0)
		w.gpus = t->least;
	return w;
}

static double
sum_of(const struct fluid_pool *pool, const uint32_t *order, uint32_t count)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		sum += pool->trials[order != NULL ? order[i] : i].work;
	return sum;
}

void
allocator_fluid_static(struct fluid_pool *pool, const uint32_t *order, uint32_t count, uint32_t n)
{
	double sum = sum_of(pool, order, count);
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct fluid_trial *t = &pool->trials[order[i]];
		struct width w = share_of(t, sum, n);

		set_share(t, w.gpus, w.packing);
	}
}

/* ---- algorithm 2 ------------------------------------------------------------------------- */

static double
size_of(uint32_t gpus, uint32_t packing)
{
	return (double)gpus / packing;
}

/* Removes the trial from its GPUs. Returns how many become idle. */
static uint32_t
lift_trial(struct fluid_pool *pool, uint32_t i)
{
	struct fluid_trial *t = &pool->trials[i];
	uint32_t shelf = t->shelf;

	if (shelf == FLUID_NONE)
		return t->gpus;
	allocator_fluid_shelf_take(pool, i);
	return pool->shelves[shelf].count == 0;
}

/* Would the trial scale up to that width? */
static int
would_grow(const struct fluid_trial *t, uint32_t gpus)
{
	return gpus > 0 && size_of(gpus, 1) > size_of(t->gpus, t->packing) &&
	    allocator_fluid_h(t, gpus, 1) + t->eps <
	    allocator_fluid_h(t, t->gpus, t->packing) * (1 - NOISE);
}

/* Whether the trial would scale down, to fewer whole GPUs or to a part of one. */
static int
would_shrink(const struct fluid_trial *t, struct width w)
{
	double size = size_of(w.gpus, w.packing);

	return size < size_of(t->gpus, t->packing) &&
	    size * (allocator_fluid_h(t, w.gpus, w.packing) + t->eps) <
	    size_of(t->gpus, t->packing) * allocator_fluid_h(t, t->gpus, t->packing) * (1 - NOISE);
}

/* The widest step towards `want` that idle GPUs allow and that pays; 0: none. */
static uint32_t
affordable_width(struct fluid_pool *pool, const struct fluid_trial *t, uint32_t want)
{
	uint32_t own = t->packing == 1                                     ? t->gpus
	    : t->shelf != FLUID_NONE && pool->shelves[t->shelf].count == 1 ? 1
									   : 0;
	uint32_t most = own + pool->idle < want ? own + pool->idle : want;
	uint32_t w = allocator_fluid_fit(t, most);

	while (would_grow(t, w) &&
	    !allocator_fluid_places_with(pool, (uint32_t)(t - pool->trials), w, 0))
		w = allocator_fluid_fit(t, w - 1);
	return would_grow(t, w) ? w : 0;
}

/* A shelf with a hole that is not the trial's own; FLUID_NONE. */
static uint32_t
find_hole(const struct fluid_pool *pool, const struct fluid_trial *t)
{
	uint32_t i;

	for (i = 0; i < pool->shelf_count; i++) {
		const struct fluid_shelf *s = &pool->shelves[i];

		if (i != t->shelf && s->count > 0 && s->count < s->cap && s->cap == t->c &&
		    pool->trials[s->head].packing == t->c)
			return i;
	}
	return FLUID_NONE;
}

/* Number of GPUs missing for the trials that would scale up. */
static uint32_t
count_lacking(const struct fluid_pool *pool, const struct width *want)
{
	uint32_t i, need = 0;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if (!t->fixed && want[i].packing == 1 && would_grow(t, want[i].gpus))
			need += want[i].gpus - (t->packing == 1 ? t->gpus : 0);
	}
	return need > pool->idle ? need - pool->idle : 0;
}

static void
step_down(struct fluid_pool *pool, const struct width *want, const uint32_t *order)
{
	uint32_t k;

	for (k = 0; k < pool->count; k++) {
		struct fluid_trial *t = &pool->trials[order[k]];
		struct width w = want[order[k]];
		uint32_t to;

		if (t->fixed || !would_shrink(t, w))
			continue;
		if (w.packing == 1) {
			pool->idle += t->gpus - w.gpus;
		} else {
			to = find_hole(pool, t);
			if (to == FLUID_NONE || count_lacking(pool, want) == 0)
				continue; /* nothing would be freed, or no trial would take it */
			pool->idle += lift_trial(pool, order[k]);
			allocator_fluid_shelf_add(pool, to, order[k]);
		}
		set_share(t, w.gpus, w.packing);
		t->moved = 1;
	}
}

void
allocator_fluid_dynamic(struct fluid_pool *pool)
{
	/* The targets are stored in the keys, which sorting no longer needs. */
	struct width *want = (struct width *)(void *)pool->keys;
	double sum = sum_of(pool, NULL, pool->count);
	uint32_t i, k, *order = pool->order;

	for (i = 0; i < pool->count; i++)
		order[i] = i;
	allocator_fluid_sort(pool, order, pool->count, 0);
	for (i = 0; i < pool->count; i++)
		want[i] = share_of(&pool->trials[i], sum, pool->total);
	step_down(pool, want, order);
	for (k = 0; k < pool->count; k++) {
		struct fluid_trial *t = &pool->trials[order[k]];
		struct width w = want[order[k]];
		uint32_t gpus;

		if (t->fixed || t->moved || w.packing > 1 || !would_grow(t, w.gpus))
			continue;
		gpus = affordable_width(pool, t, w.gpus);
		if (gpus == 0)
			continue;
		pool->idle += lift_trial(pool, order[k]);
		pool->idle -= gpus;
		set_share(t, gpus, 1);
		t->moved = 1;
	}
}

/* ---- loss -------------------------------------------------------------------------------- */

/* Reduces one trial to `gpus`. Returns how many are free now. */
static uint32_t
cut_trial(struct fluid_pool *pool, uint32_t i, uint32_t gpus)
{
	struct fluid_trial *t = &pool->trials[i];
	uint32_t freed;

	if (gpus > 0 && t->packing == 1 && gpus < t->gpus) {
		freed = t->gpus - gpus;
		t->gpus = gpus;
		t->moved = 1;
		if (gpus == 1 && t->c > 1) /* others may join it there */
			allocator_fluid_shelf_add(pool, allocator_fluid_new_shelf(pool, t->c), i);
		return freed;
	}
	freed = lift_trial(pool, i);
	set_share(t, gpus, 1);
	t->moved = 1;
	return freed;
}

/* GPUs granted beyond what there is. */
static uint32_t
count_excess(const struct fluid_pool *pool)
{
	uint64_t granted = allocator_fluid_granted(pool);

	return granted > pool->total ? (uint32_t)(granted - pool->total) : 0;
}

/* Reduces whole widths: first to a share of what is left, then to the minimum. */
static void
shrink_whole(struct fluid_pool *pool, const struct width *want, int least)
{
	uint32_t k, over = count_excess(pool);

	for (k = 0; k < pool->count && over > 0; k++) {
		uint32_t i = pool->order[k], target, keep, freed;
		const struct fluid_trial *t = &pool->trials[i];

		target = least || want[i].packing > 1 ? t->least : want[i].gpus;
		if (t->packing > 1 || t->gpus <= target)
			continue;
		keep = t->gpus > over ? allocator_fluid_fit(t, t->gpus - over) : 0;
		freed = cut_trial(pool, i, keep > target ? keep : target);
		over -= freed < over ? freed : over;
	}
}

/* A shelf for the trial: one with a free place, or that of the shortest trial that has a GPU to
 * itself. */
static uint32_t
make_hole(struct fluid_pool *pool, uint32_t i)
{
	const struct fluid_trial *t = &pool->trials[i];
	uint32_t to = t->c > 1 ? find_hole(pool, t) : FLUID_NONE, k;

	for (k = pool->count; k-- > 0 && t->c > 1 && to == FLUID_NONE;) {
		struct fluid_trial *other = &pool->trials[pool->order[k]];

		if (pool->order[k] == i || other->shelf == FLUID_NONE || other->packing != 1 ||
		    other->c != t->c)
			continue;
		to = other->shelf;
		set_share(other, 1, other->c);
		other->moved = 1;
	}
	return to;
}

void
allocator_fluid_shrink(struct fluid_pool *pool)
{
	struct width *want = (struct width *)(void *)pool->keys;
	uint32_t i, k, to;
	double sum = sum_of(pool, NULL, pool->count);

	for (i = 0; i < pool->count; i++)
		pool->order[i] = i;
	allocator_fluid_sort(pool, pool->order, pool->count, 1);
	for (i = 0; i < pool->count; i++)
		want[i] = share_of(&pool->trials[i], sum, pool->total);
	shrink_whole(pool, want, 0);
	shrink_whole(pool, want, 1);
	for (k = pool->count; k-- > 0 && count_excess(pool) > 0;) { /* joins a shelf */
		i = pool->order[k];
		to = pool->trials[i].packing == 1 ? make_hole(pool, i) : FLUID_NONE;
		if (to == FLUID_NONE)
			continue;
		(void)cut_trial(pool, i, 0);
		allocator_fluid_shelf_add(pool, to, i);
		set_share(&pool->trials[i], 1, pool->trials[i].c);
	}
	for (k = pool->count; k-- > 0 && count_excess(pool) > 0;) /* or waits */
		if (pool->trials[pool->order[k]].gpus > 0)
			(void)cut_trial(pool, pool->order[k], 0);
}
