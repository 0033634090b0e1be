/* fluid_serve.c - trials that arrive and wait: planned as one group, served in order; see fluid.h.
 */
#include "fluid.h"

#define TOLD_MAX 1000u /* that wait: more say nothing new */

/* ---- serving those that wait -------------------------------------------------------------- */

/* Room for what trial `i`, the pool's last, is to have?  Then it has it.  together: on a GPU that
 * is shared already rather than on an idle one. */
static int
place_trial(struct fluid_pool *pool, uint32_t i, uint32_t want, uint32_t packing, int together)
{
	struct fluid_trial *t = &pool->trials[i];
	uint32_t best = FLUID_NONE, whole = want == FLUID_SMALL ? t->least : want;

	ESPL_ASSERT(i + 1 == pool->count && t->shelf == FLUID_NONE);
	if (pool->owed > 0)
		return 0;
	if (want == FLUID_SMALL && packing > 1) {
		best = pool->idle == 0 || together ? allocator_fluid_emptiest(pool, packing)
						   : FLUID_NONE;
		if (pool->idle == 0 && best == FLUID_NONE)
			return 0;
		whole = 1;
	} else if (pool->idle < whole) {
		return 0;
	} else {
		packing = 1;
		while (whole > 0 && !allocator_fluid_places_with(pool, i, whole, 0))
			/* nodes cut what is idle in pieces */
			whole = allocator_fluid_fit(t, whole - 1);
		if (whole == 0)
			return 0;
	}
	t->gpus = whole;
	t->packing = packing;
	if (best != FLUID_NONE || packing > 1 || (whole == 1 && t->c > 1)) {
		if (best == FLUID_NONE) {
			ESPL_ASSERT(pool->idle > 0);
			best = allocator_fluid_new_shelf(pool, packing > 1 ? packing : t->c);
			pool->idle--;
		}
		allocator_fluid_shelf_add(pool, best, i);
		allocator_fluid_shelf_ends(pool, best);
	} else {
		pool->idle -= whole;
		allocator_fluid_end(pool, i);
	}
	return 1;
}

/* Adds the first of the queue as the pool's last trial; 0: the queue is empty. */
static int
next_waiting(struct fluid *fluid, const struct espl_alloc_view *view, espl_status *status)
{
	while (fluid->head < fluid->tail) {
		uint32_t index = allocator_fluid_index(fluid, fluid->queue[fluid->head]);

		if (index != ESPL_ANY && espl_roster_at(&fluid->roster, index)->gpus == 0 &&
		    espl_roster_at(&fluid->roster, index)->least > 0 &&
		    espl_roster_at(&fluid->roster, index)->least <= fluid->limit) {
			*status = allocator_fluid_add_trial(fluid, view, index);
			return *status == ESPL_OK;
		}
		fluid->head++; /* it left, or can never run here */
	}
	return 0;
}

/* Are there so many in the queue that may share, and a GPU to try it on? */
static uint32_t
try_packing(const struct fluid *fluid, const struct fluid_trial *t)
{
	uint32_t p = fluid->probe.try_packing;

	if (!fluid->probing || p == 0 || t->item->packing_count > 0 || t->least != 1 ||
	    fluid->probe.tried >= p || fluid->pool.idle == 0 ||
	    fluid->tail - fluid->head < p + fluid->pool.idle - 1) /* else they would spread */
		return 0;
	return p;
}

espl_status
allocator_fluid_serve(struct fluid *fluid, const struct espl_alloc_view *view)
{
	struct fluid_pool *pool = &fluid->pool;
	espl_status status = ESPL_OK;
	uint32_t sharing = 0, left = 0, want, packing;
	int together;

	while (next_waiting(fluid, view, &status)) {
		struct fluid_trial *t = &pool->trials[pool->count - 1];

		want = espl_roster_at(&fluid->roster, t->index)->want;
		packing = t->c;
		if (left == 0 && (sharing = try_packing(fluid, t)) > 0) {
			left = sharing;
			fluid->probe.tried = sharing;
		}
		together = 0;
		if (left > 0 && t->item->packing_max >= sharing) {
			together = left < sharing;
			want = FLUID_SMALL;
			packing = sharing;
			left--;
		}
		if (want == 0)
			want = FLUID_SMALL; /* it was never planned */
		else if (want != FLUID_SMALL && want > t->most)
			want = t->most;
		/* GPUs were lost since it was planned */
		if (want != FLUID_SMALL && want > pool->total) {
			want = allocator_fluid_fit(t, pool->total);
			want = want > 0 ? want : FLUID_SMALL;
		}
		if (!place_trial(pool, pool->count - 1, want, packing, together)) {
			pool->count--;
			return ESPL_OK;
		}
		status = allocator_fluid_add_runner(fluid, fluid->queue[fluid->head]);
		if (status != ESPL_OK)
			return status;
		fluid->head++;
	}
	return status;
}

/* ---- those that arrived in this round ------------------------------------------------------ */

static espl_status
report_queued(struct espl_alloc_sink *sink, const struct fluid_trial *t)
{
	struct espl_grant grant = ESPL_INIT(struct espl_grant);

	grant.flags = ESPL_GRANT_QUEUED;
	grant.item = t->id;
	grant.share.gpus = t->gpus;
	grant.share.packing = t->packing;
	grant.offer = ESPL_ANY;
	return sink->grant(sink, &grant);
}

espl_status
allocator_fluid_admit(struct fluid *fluid, const struct espl_alloc_view *view)
{
	struct fluid_pool *pool = &fluid->pool;
	struct espl_roster *roster = &fluid->roster;
	uint32_t i, n = 0, from = pool->count, idle = fluid->head < fluid->tail ? 0 : pool->idle;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(fluid->head <= fluid->tail);
	for (i = roster->fresh; i < roster->count && status == ESPL_OK; i++)
		if (espl_roster_at(roster, i)->gpus == 0)
			status = allocator_fluid_add_trial(fluid, view, i);
	if (status != ESPL_OK)
		return status;
	allocator_fluid_guess_work(fluid);
	for (i = from; i < pool->count; i++)
		if (pool->trials[i].least > 0)
			pool->order[n++] = i;
	allocator_fluid_static(pool, pool->order, n, idle);
	allocator_fluid_sort(pool, pool->order, n, 1);
	for (i = 0; i < n && status == ESPL_OK; i++) {
		const struct fluid_trial *t = &pool->trials[pool->order[i]];

		espl_roster_at(roster, t->index)->want = t->packing > 1 ? FLUID_SMALL : t->gpus;
		status = allocator_fluid_enqueue(fluid, (struct place){ t->id, t->item->arrived });
	}
	pool->count = from;
	fluid->admitted = n;
	return status;
}

espl_status
allocator_fluid_tell_queue(struct fluid *fluid, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink)
{
	espl_status status = ESPL_OK;
	uint32_t at, end, index;

	at = fluid->tail - fluid->head > fluid->admitted ? fluid->tail - fluid->admitted
							 : fluid->head;
	end = fluid->tail - at > TOLD_MAX ? at + TOLD_MAX : fluid->tail;
	for (; at < end && status != ESPL_E_NOMEM; at++) {
		struct fluid_trial *t;

		index = allocator_fluid_index(fluid, fluid->queue[at]);
		if (index == ESPL_ANY || index < fluid->roster.fresh)
			continue;
		status = allocator_fluid_add_trial(fluid, view, index);
		if (status != ESPL_OK)
			return status;
		t = &fluid->pool.trials[--fluid->pool.count];
		t->gpus = espl_roster_at(&fluid->roster, index)->want;
		t->packing = t->gpus == FLUID_SMALL ? t->c : 1;
		if (t->gpus == FLUID_SMALL)
			t->gpus = t->c > 1 ? 1 : t->least;
		status = report_queued(sink, t);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}
