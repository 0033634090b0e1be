/* items.c - items: how allocators and the placer see a trial. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/state.h"

enum { UNLIMITED_GPUS_MAX = 1024 }; /* of a trial, where neither user nor cloud sets a limit */

uint64_t
espl__trial_restores(const struct espl__trial *t)
{
	return t->pub.checkpoint > 0 ? t->pub.checkpoint
	    : t->source != ESPL_NONE ? t->source_checkpoint
				     : 0;
}

struct espl__search *
espl__inner_search(const struct espl__inner *inner)
{
	ESPL__CHECK(inner, INNER);
	return inner->search;
}

uint32_t
espl__inner_share(const struct espl__inner *inner)
{
	ESPL__CHECK(inner, INNER);
	return inner->item != NULL ? inner->item->pub.granted.gpus : 0;
}

/* ---- sums over its trials ----------------------------------------------------------------- */

static void
uncount_item(struct espl__inner *inner, const struct espl__item *item)
{
	inner->most -= item->counted_most;
	if (isnan(item->counted_work))
		inner->unknown--;
	else
		inner->work_s -= item->counted_work;
	if (item->counted_least == inner->least && inner->least_count > 0)
		inner->least_count--;
}

void
espl__inner_count(struct espl__item *item, int there)
{
	struct espl__inner *inner = item->tier->inner;
	const struct espl_item *i = &item->pub;

	if (inner == NULL || item->trial == NULL)
		return;
	if (item->counted && there && i->gpus_max == item->counted_most &&
	    i->gpus_min == item->counted_least && !isnan(i->work_s) && !isnan(item->counted_work)) {
		/* most often only the remaining work has changed */
		inner->work_s += i->work_s - item->counted_work;
		item->counted_work = i->work_s;
		return;
	}
	if (item->counted)
		uncount_item(inner, item);
	item->counted = (uint8_t)there;
	if (!there)
		return;
	item->counted_most = i->gpus_max;
	item->counted_least = i->gpus_min;
	item->counted_work = i->work_s;
	inner->most += i->gpus_max;
	if (isnan(i->work_s))
		inner->unknown++;
	else
		inner->work_s += i->work_s;
	if (inner->least_count > 0 && i->gpus_min == inner->least) {
		inner->least_count++;
	} else if (inner->least_count > 0 && i->gpus_min < inner->least) {
		inner->least = i->gpus_min;
		inner->least_count = 1;
	}
}

void
espl__inner_granted(struct espl__item *item)
{
	struct espl__inner *inner = item->whole;
	uint32_t gpus = item->pub.granted.gpus;

	inner->tier.why |= ESPL_WHY_NODES;
	if (gpus > 0 && inner->started == ESPL_NEVER)
		inner->started = inner->search->exec->now;
}

static uint64_t
find_item_index(const struct espl__tier *tier, uint64_t id)
{
	uint64_t low = tier->items_from, high = tier->items_from + tier->items_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (tier->items[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct espl__item *
espl__item_at(const struct espl__tier *tier, uint64_t id)
{
	uint64_t at = find_item_index(tier, id);

	if (at == tier->items_from + tier->items_count || tier->items[at]->id != id)
		return NULL;
	return (struct espl__item *)(uintptr_t)tier->items[at];
}

const struct espl_item *
espl__item_lookup(void *tier, uint64_t id)
{
	struct espl__item *item = espl__item_at(tier, id);

	return item != NULL ? &item->pub : NULL;
}

struct espl__item *
espl__item_granted(const struct espl__exec *x, uint64_t id)
{
	uint32_t low = 0, high = x->items.gangs_count;

	ESPL__CHECK(x, EXEC);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (x->items.gangs_view[middle]->item < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < x->items.gangs_count && x->items.gangs_view[low]->item == id
	    ? espl__item_of_gang(x->items.gangs_view[low])
	    : NULL;
}

const struct espl_item *
espl__item_placed(void *exec, uint64_t id)
{
	struct espl__item *item = espl__item_granted(exec, id);

	return item != NULL ? &item->pub : NULL;
}

static void
append_item(struct espl__tier *tier, struct espl__item *item)
{
	if (tier->items_from > 0 && tier->items_from + tier->items_count == tier->items_cap) {
		memmove(tier->items, tier->items + tier->items_from,
		    tier->items_count * sizeof *tier->items);
		tier->items_from = 0;
	}
	ESPL__GROW(tier->items, tier->items_cap, tier->items_from + tier->items_count + 1);
	tier->items[tier->items_from + tier->items_count++] = &item->pub;
}

static void
take_out(struct espl__tier *tier, const struct espl__item *item)
{
	uint64_t at = find_item_index(tier, item->pub.id), left = at - tier->items_from;
	uint64_t right = tier->items_count - left - 1;

	ESPL__ASSERT(tier->items[at] == &item->pub);
	if (left < right) {
		memmove(tier->items + tier->items_from + 1, tier->items + tier->items_from,
		    left * sizeof *tier->items);
		tier->items_from++;
	} else {
		memmove(tier->items + at, tier->items + at + 1, right * sizeof *tier->items);
	}
	tier->items_count--;
}

void
espl__item_changed(struct espl__item *item, uint32_t why)
{
	struct espl__tier *tier = item->tier;

	tier->why |= why;
	if (item->alloc_changed)
		return;
	item->alloc_changed = 1;
	ESPL__GROW(tier->changed, tier->changed_cap, tier->changed_count + 1);
	tier->changed[tier->changed_count++] = &item->pub;
}

/* Allocators do not touch items that are changing. If GPUs are left they are asked again now;
 * where all GPUs are granted, that would only cost time. */
void
espl__item_settled(struct espl__exec *x, struct espl__item *item)
{
	const struct espl_share *has = &item->pub.granted;
	int more = has->packing > 1 || has->gpus < item->pub.gpus_max;
	uint64_t gpus =
	    item->tier->inner != NULL ? espl__inner_share(item->tier->inner) : x->fleet.gpus;
	uint64_t used = espl__tier_gpus(item->tier);

	ESPL__CHECK(x, EXEC);
	item->pub.flags &= ~ESPL_ITEM_CHANGING;
	item->view.flags &= ~ESPL_GANG_LOCKED;
	espl__item_changed(item,
	    (more && used < gpus) || (item->tier->inner != NULL && used > gpus) ? ESPL_WHY_SETTLED
										: 0);
}

void
espl__item_look(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->place_changed)
		return;
	item->place_changed = 1;
	ESPL__GROW(x->items.place_list, x->items.place_cap, x->items.place_count + 1);
	x->items.place_list[x->items.place_count++] = item;
}

void
espl__item_pending(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->pending)
		return;
	item->pending = 1;
	ESPL__GROW(x->items.pending, x->items.pending_cap, x->items.pending_count + 1);
	x->items.pending[x->items.pending_count++] = item;
}

static void
remove_from_list(void *list, uint32_t *count, const void *what)
{
	void **at = list;
	uint32_t to = 0;

	for (uint32_t i = 0; i < *count; i++)
		if (at[i] != what)
			at[to++] = at[i];
	*count = to;
}

/* ---- making, freeing ---------------------------------------------------------------------- */

static void
fill_model(const struct espl__search *s, struct espl_item *i)
{
	const struct espl__profile *p = s->session->profile;

	i->work_s = NAN;
	i->resize_s = i->start_s = i->boundary_s = NAN;
	if (p == NULL || p->guessed)
		return;
	i->scaling = p->scaling;
	i->scaling_count = p->scaling_count;
	i->packing = p->packing;
	i->packing_count = p->packing_count;
	i->start_s = espl__latency_mean(&p->start) + espl__latency_mean(&p->checkpoint) +
	    espl__latency_mean(&p->restore);
	i->resize_s = s->resized > 0    ? s->resized_s / (double)s->resized
	    : s->in_place && p->resizes ? espl__latency_mean(&p->resize)
					: i->start_s;
	i->boundary_s = espl__latency_mean(&p->iteration) / 2;
}

static struct espl__item *
new_record(struct espl__exec *x)
{
	struct espl__item *item;
	struct espl_slot *target = NULL;
	uint64_t *nodes = NULL;
	uint32_t target_cap = 0, node_cap = 0;

	if (x->items.spare_count == 0)
		return espl__pool_add(&x->items.pool);
	item = x->items.spare[--x->items.spare_count];
	target = item->target;
	target_cap = item->target_cap;
	nodes = item->nodes;
	node_cap = item->node_cap;
	memset(item, 0, sizeof *item);
	item->target = target;
	item->target_cap = target_cap;
	item->nodes = nodes;
	item->node_cap = node_cap;
	return item;
}

static void
fill_limits(const struct espl__search *s, struct espl_item *i, uint32_t gpus_min, uint32_t gpus_max)
{
	const struct espl__trial_config *c = &s->config->trial;
	uint64_t potential = espl__exec_potential(s->exec);

	/* Without any limit, a trial said to scale would be given every node that can be named. */
	if (potential >= UINT32_MAX / 2 && c->gpus_max == ESPL_ANY)
		potential = UNLIMITED_GPUS_MAX;
	if (potential > s->config->gpus_limit)
		potential = s->config->gpus_limit;
	i->gpus_min = gpus_min > c->gpus_min && gpus_min <= c->gpus_max ? gpus_min : c->gpus_min;
	i->gpus_max = gpus_max > 0 && gpus_max < c->gpus_max && gpus_max >= i->gpus_min
	    ? gpus_max
	    : c->gpus_max;
	if (i->gpus_max > potential)
		i->gpus_max = (uint32_t)potential;
	if (i->gpus_max < i->gpus_min)
		i->gpus_max = i->gpus_min;
	i->unit = 1;
	i->packing_max = c->packing_max;
}

struct espl__item *
espl__item_new(struct espl__exec *x, struct espl__trial *t, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	struct espl__item *item = new_record(x);
	const struct espl__search *s = t->search;
	const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);
	struct espl_item *i = &item->pub;

	ESPL__CHECK(x, EXEC);
	item->trial = t;
	item->tier = s->tier;
	i->size = (uint32_t)sizeof *i;
	i->id = x->items.next++;
	i->experiment = s->algorithm != NULL ? s->number : ESPL_NONE;
	i->trial = s->algorithm != NULL ? t->pub.id : ESPL_NONE;
	i->group = s->algorithm != NULL ? t->pub.group : ESPL_NONE;
	i->bracket = g->bracket;
	i->stage = g->stage;
	i->arrived = x->now;
	i->started = ESPL_NEVER;
	i->granted.packing = 1;
	i->offer = ESPL_ANY;
	i->gpu = ESPL_ANY;
	i->weight = s->config->weight * (weight > 0 ? weight : 1.0);
	i->flags = ((g->flags & ESPL_GROUP_OPEN) && !g->will_close ? ESPL_ITEM_OPEN : 0) |
	    (s->config->trial.colocate ? ESPL_ITEM_COLOCATE : 0) |
	    (s->saves ? 0 : ESPL_ITEM_NO_SAVE) | (s->in_place ? ESPL_ITEM_INPLACE : 0);
	i->gpu_memory_bytes = item->view.gpu_memory_bytes = t->gpu_memory;
	fill_limits(s, i, gpus_min, gpus_max);
	fill_model(s, i);
	if (s->jobs != NULL)
		espl__job_item(t, i);
	espl__item_progress(x, item, espl__trial_restores(t));
	if (s->jobs == NULL)
		i->work_total_s = i->work_s;
	item->view.size = (uint32_t)sizeof item->view;
	item->view.item = i->id;
	item->view.offer = ESPL_ANY;
	item->view.owner = ESPL_NONE;
	item->view.flags =
	    ESPL_GANG_UNPLACED | (s->config->trial.colocate ? ESPL_GANG_COLOCATE : 0);
	item->view.move_s = i->start_s;
	x->items.count++;
	espl__inner_count(item, 1);
	espl__item_add(item);
	return item;
}

struct espl__item *
espl__item_whole(struct espl__search *s, struct espl__inner *inner)
{
	struct espl__exec *x = s->exec;
	struct espl__item *item = new_record(x);
	struct espl_item *i = &item->pub;

	ESPL__CHECK(s, SEARCH);
	item->whole = inner;
	item->tier = &x->items.top;
	i->size = (uint32_t)sizeof *i;
	i->id = x->items.next++;
	i->experiment = s->number;
	i->trial = i->group = ESPL_NONE;
	i->bracket = i->stage = ESPL_ANY;
	i->arrived = x->now;
	i->started = ESPL_NEVER;
	i->granted.packing = i->packing_max = i->unit = 1;
	i->offer = i->gpu = ESPL_ANY;
	i->weight = s->config->weight;
	fill_model(s, i);
	i->scaling = i->packing = NULL;
	i->scaling_count = i->packing_count = 0;
	return item;
}

void
espl__item_add(struct espl__item *item)
{
	append_item(item->tier, item);
	espl__item_changed(item, ESPL_WHY_ARRIVAL);
}

/* Iterations and work left, counted from where the trial stands now. */
void
espl__item_progress(struct espl__exec *x, struct espl__item *item, uint64_t iteration)
{
	const struct espl__profile *p = item->trial->search->session->profile;
	const struct espl_share one = { 1, 1 };
	uint64_t budget = item->trial->pub.budget;

	ESPL__CHECK(x, EXEC);
	item->pub.iterations_left = budget > iteration ? budget - iteration : 0;
	if (item->trial->search->jobs != NULL)
		item->pub.work_s = espl__job_left(item->trial, iteration);
	else if (p != NULL && !p->guessed)
		item->pub.work_s = (double)item->pub.iterations_left *
		    espl__profile_iteration_s(p, one) *
		    (item->trial->told_s > 0 && item->trial->took_s > 0
			    ? item->trial->took_s / item->trial->told_s
			    : 1);
	if (item->counted)
		espl__inner_count(item, 1);
	if (item->trial->gang != NULL)
		item->pub.elapsed_s = item->pub.started == ESPL_NEVER
		    ? 0
		    : (double)(x->now - item->pub.started) / 1e9;
}

static void
gangs_remove(struct espl__exec *x, struct espl__item *item)
{
	if (!item->in_gangs)
		return;
	item->in_gangs = 0;
	remove_from_list(x->items.gangs_view, &x->items.gangs_count, &item->view);
}

static void
gangs_add(struct espl__exec *x, struct espl__item *item)
{
	uint32_t at;

	if (item->in_gangs)
		return;
	item->in_gangs = 1;
	ESPL__GROW(x->items.gangs_view, x->items.gangs_cap, x->items.gangs_count + 1);
	for (at = x->items.gangs_count; at > 0 && x->items.gangs_view[at - 1]->item > item->pub.id;
	     at--)
		x->items.gangs_view[at] = x->items.gangs_view[at - 1];
	x->items.gangs_view[at] = &item->view;
	x->items.gangs_count++;
}

void
espl__item_gone(struct espl__tier *tier, uint64_t id, const struct espl__trial *t)
{
	if (tier->gone_count == tier->gone_cap) {
		ESPL__GROW(tier->gone, tier->gone_cap, tier->gone_count + 1);
		tier->gone_of = espl__realloc(tier->gone_of, tier->gone_cap, sizeof *tier->gone_of);
	}
	tier->gone_of[tier->gone_count] = t != NULL ? espl__trial_uid(t) : ESPL_NONE;
	tier->gone[tier->gone_count++] = id;
	tier->why |= ESPL_WHY_DEPARTURE;
}

void
espl__item_free(struct espl__exec *x, struct espl__item *item)
{
	const struct espl_share nothing = { 0, 1 };

	ESPL__CHECK(x, EXEC);
	espl__item_grant(x, item, nothing, ESPL_ANY);
	if (item->trial != NULL)
		x->items.count--;
	espl__inner_count(item, 0);
	take_out(item->tier, item);
	if (item->alloc_changed)
		remove_from_list(item->tier->changed, &item->tier->changed_count, &item->pub);
	if (item->place_changed)
		remove_from_list(x->items.place_list, &x->items.place_count, item);
	if (item->pending)
		remove_from_list(x->items.pending, &x->items.pending_count, item);
	if (item->trial != NULL && item->trial->search->experiment.plan != NULL &&
	    item->trial->gang != NULL)
		item->trial->gang->leaves = item->pub.id;
	else
		espl__item_gone(item->tier, item->pub.id, item->trial);
	ESPL__GROW(x->items.spare, x->items.spare_cap, x->items.spare_count + 1);
	x->items.spare[x->items.spare_count++] = item;
}

/* ---- grants and places -------------------------------------------------------------------- */

static void
count_grant(struct espl__tier *tier, struct espl_share s, int sign)
{
	if (s.gpus == 0)
		return;
	if (s.packing == 1)
		tier->granted_whole += (uint64_t)(int64_t)(sign * (int64_t)s.gpus);
	else
		tier->granted_parts[s.packing] += (uint32_t)sign;
}

uint64_t
espl__tier_gpus(const struct espl__tier *tier)
{
	uint64_t gpus = tier->granted_whole;

	for (uint32_t c = 2; c <= 64; c++)
		gpus += (tier->granted_parts[c] + c - 1) / c;
	return gpus;
}

void
espl__tier_free(struct espl__tier *tier)
{
	espl__instance_destroy(tier->allocator);
	free(tier->items);
	free(tier->changed);
	free(tier->gone);
	free(tier->gone_of);
	free(tier->outcomes.list);
	espl__arena_free(&tier->outcomes.arena);
}

void
espl__item_grant(struct espl__exec *x, struct espl__item *item, struct espl_share share,
    uint32_t offer)
{
	int had = item->pub.granted.gpus > 0;

	ESPL__CHECK(x, EXEC);
	item->pub.offer = offer;
	item->view.offer = offer;
	if (share.gpus == item->pub.granted.gpus && share.packing == item->pub.granted.packing)
		return;
	count_grant(item->tier, item->pub.granted, -1);
	count_grant(item->tier, share, 1);
	if (item->trial == NULL) {
		item->pub.granted = share;
		espl__inner_granted(item);
		return;
	}
	item->trial->search->granted += (double)share.gpus / share.packing -
	    (double)item->pub.granted.gpus / item->pub.granted.packing;
	if (had && item->target_count == 0)
		x->items.unplaced--;
	item->pub.granted = share;
	item->view.share = share;
	if (share.gpus > 0 && item->target_count == 0)
		x->items.unplaced++;
	if (share.gpus == 0) {
		espl__item_target(x, item, NULL, 0);
		gangs_remove(x, item);
	} else {
		gangs_add(x, item);
		espl__item_look(x, item);
	}
	x->items.place_why |= ESPL_WHY_ARRIVAL;
}

static void
list_nodes(struct espl__item *item)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < item->target_count; i++) {
		if (n > 0 && item->nodes[n - 1] == item->target[i].node)
			continue;
		ESPL__GROW(item->nodes, item->node_cap, n + 1);
		item->nodes[n++] = item->target[i].node;
	}
	item->pub.nodes = item->nodes;
	item->pub.node_count = n;
	item->pub.gpu = item->target_count == 1 ? item->target[0].gpu : ESPL_ANY;
}

/* A trial that waits or is paused holds no GPU, and there may be a hundred thousand of them. */
static void
free_target(struct espl__item *item)
{
	free(item->target);
	free(item->nodes);
	item->target = NULL;
	item->nodes = NULL;
	item->target_cap = item->node_cap = 0;
}

/* Sets the placement in force: gives the old reservations back, takes the new ones (which the
 * caller has found to fit). */
void
espl__item_target(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
    uint32_t count)
{
	int was_unplaced = item->pub.granted.gpus > 0 && item->target_count == 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < item->target_count; i++)
		espl__seat_unset(&x->fleet, &item->target[i], item->trial, 0, 1);
	if (item->target_count > 0)
		x->items.seats_freed = 1;
	ESPL__GROW(item->target, item->target_cap, count);
	if (count > 0)
		memcpy(item->target, slots, count * sizeof *slots);
	else
		free_target(item);
	item->target_count = count;
	for (uint32_t i = 0; i < count; i++)
		espl__seat_set(&x->fleet, &item->target[i], item->trial, 0, 1);
	list_nodes(item);
	item->view.slots = item->target;
	item->view.slot_count = count;
	if (count == 0)
		item->view.flags |= ESPL_GANG_UNPLACED;
	else
		item->view.flags &= ~(ESPL_GANG_UNPLACED | ESPL_GANG_MUST);
	if (item->pub.granted.gpus > 0) {
		x->items.unplaced += count == 0;
		x->items.unplaced -= (uint32_t)was_unplaced;
		if (count == 0)
			espl__item_look(x, item);
	}
	espl__item_pending(x, item);
}
