/* items_tiers.c - tiers: what one allocator decides about, the lists of its items and of the
 * placer's, when it is called and what it may grant.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"

/* ---- lists ----------------------------------------------------------------------------------- */

/* The lists that items are in: those of an allocator, those of the placer, and
 * those that wait for their gang to start or to move. */

void
espl__list_remove(void *list, uint32_t *count, const void *what)
{
	void **at = list;
	uint32_t to = 0;

	for (uint32_t i = 0; i < *count; i++)
		if (at[i] != what)
			at[to++] = at[i];
	*count = to;
}

/* ---- of an allocator ---------------------------------------------------------------------- */

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

static const struct espl_item *
look_up_item(void *tier, uint64_t id)
{
	struct espl__item *item = espl__item_at(tier, id);

	return item != NULL ? &item->pub : NULL;
}

void
espl__tier_add(struct espl__tier *tier, struct espl__item *item)
{
	if (tier->items_from > 0 && tier->items_from + tier->items_count == tier->items_cap) {
		memmove(tier->items, tier->items + tier->items_from,
		    tier->items_count * sizeof *tier->items);
		tier->items_from = 0;
	}
	ESPL__GROW(tier->items, tier->items_cap, tier->items_from + tier->items_count + 1);
	tier->items[tier->items_from + tier->items_count++] = &item->pub;
}

void
espl__tier_remove(struct espl__tier *tier, const struct espl__item *item)
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
	if (item->alloc_changed)
		espl__list_remove(tier->changed, &tier->changed_count, &item->pub);
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

/* ---- of the placer ------------------------------------------------------------------------ */

/* Index of the first gang of an item with at least this id: the list is in order of ids. */
static uint32_t
find_gang(const struct espl__exec *x, uint64_t id)
{
	uint32_t low = 0, high = x->items.gangs_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (x->items.gangs_view[middle]->item < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct espl__item *
espl__item_granted(const struct espl__exec *x, uint64_t id)
{
	uint32_t at;

	ESPL__CHECK(x, EXEC);
	at = find_gang(x, id);
	return at < x->items.gangs_count && x->items.gangs_view[at]->item == id
	    ? espl__item_of_gang(x->items.gangs_view[at])
	    : NULL;
}

const struct espl_gang *
espl__item_gang(void *exec, uint64_t id)
{
	struct espl__item *item = espl__item_granted(exec, id);

	return item != NULL ? &item->view : NULL;
}

void
espl__items_ungranted(struct espl__exec *x, struct espl__item *item)
{
	uint32_t at;

	if (!item->in_gangs)
		return;
	item->in_gangs = 0;
	at = find_gang(x, item->pub.id);
	ESPL__ASSERT(at < x->items.gangs_count && x->items.gangs_view[at] == &item->view);
	x->items.gangs_count--;
	memmove(&x->items.gangs_view[at], &x->items.gangs_view[at + 1],
	    (x->items.gangs_count - at) * sizeof *x->items.gangs_view);
}

void
espl__items_granted(struct espl__exec *x, struct espl__item *item)
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
espl__item_look(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->place_changed)
		return;
	item->place_changed = 1;
	ESPL__GROW(x->items.place_list, x->items.place_cap, x->items.place_count + 1);
	x->items.place_list[x->items.place_count++] = item;
}

/* ---- of those whose gang is to start or to move ------------------------------------------- */

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

void
espl__items_settle(struct espl__exec *x, int (*waits)(struct espl__exec *, struct espl__item *))
{
	uint32_t left = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->items.pending_count; i++) {
		struct espl__item *item = x->items.pending[i];

		item->pending = waits(x, item) != 0;
		if (item->pending)
			x->items.pending[left++] = item;
	}
	x->items.pending_count = left;
}

/* ---- tiers ----------------------------------------------------------------------------------- */

void
espl__tiers_ask(struct espl__exec *x, uint32_t why)
{
	ESPL__CHECK(x, EXEC);
	x->items.top.why |= why;
	for (uint32_t i = 0; i < x->searches.count; i++)
		x->searches.list[i]->tier->why |= why;
}

static void
ring_alarm(struct espl__tier *tier, espl_time now)
{
	if (tier->wake_at > now)
		return;
	tier->wake_at = ESPL_NEVER;
	tier->why |= ESPL_WHY_TIME;
	espl__haste_rings(&tier->haste);
}

void
espl__tiers_alarm(struct espl__exec *x)
{
	ring_alarm(&x->items.top, x->now);
	for (uint32_t i = 0; i < x->searches.count; i++)
		ring_alarm(x->searches.list[i]->tier, x->now);
}

const struct espl__tier *
espl__tiers_hasty(struct espl__exec *x, int in_vain)
{
	const struct espl__tier *hasty = NULL;

	ESPL__CHECK(x, EXEC);
	if (espl__haste_counts(&x->items.top.haste, x->now, in_vain))
		hasty = &x->items.top;
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__tier *tier = x->searches.list[i]->tier;

		if (tier != &x->items.top && espl__haste_counts(&tier->haste, x->now, in_vain))
			hasty = tier;
	}
	return hasty;
}

espl_time
espl__tiers_next(const struct espl__exec *x)
{
	espl_time next = x->items.top.wake_at;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->tier->wake_at < next)
			next = x->searches.list[i]->tier->wake_at;
	return next;
}

void
espl__tiers_forgive(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		x->searches.list[i]->tier->failures = 0;
	x->items.top.failures = x->items.placer_failures = 0;
}

void
espl__tier_limit(struct espl__tier *tier)
{
	const struct espl__values *v = tier->allocator->values;

	tier->gpus_most = 0;
	for (uint32_t i = 0; v != NULL && i < v->config.count; i++) {
		const struct espl_option *o = espl__option_at(v->options, v->option_size, i);

		if (o->type == ESPL_OPT_INT && strcmp(o->name, "gpus") == 0 &&
		    v->config.values[i].as.i > 0)
			tier->gpus_most = (uint64_t)v->config.values[i].as.i;
		if (o->type != ESPL_OPT_STRING || strcmp(o->name, "offer") != 0)
			continue;
		tier->one_offer = 1;
		if (v->config.values[i].source != ESPL_UNSET)
			tier->offer_name = v->config.values[i].as.s;
	}
}

void
espl__tier_free(struct espl__tier *tier)
{
	espl__instance_destroy(tier->allocator);
	free(tier->items);
	free(tier->changed);
	free(tier->gone);
	free(tier->gone_of);
	espl__outcomes_free(&tier->outcomes);
}

/* ---- what its allocator sees, and answers ------------------------------------------------- */

void
espl__outcomes_add(struct espl__outcomes *to, const struct espl_outcome *in)
{
	struct espl_outcome *o = espl__arena_alloc(&to->arena, sizeof *o);

	*o = *in;
	if (in->output_size > 0) {
		void *copy = espl__arena_alloc(&to->arena, (size_t)in->output_size);
		memcpy(copy, in->output, (size_t)in->output_size);
		o->output = copy;
	}
	ESPL__GROW(to->list, to->cap, to->count + 1);
	to->list[to->count++] = o;
}

void
espl__tier_outcome(struct espl__tier *tier, const struct espl_outcome *in)
{
	espl__outcomes_add(&tier->outcomes, in);
	tier->why |= ESPL_WHY_OUTCOME;
}

void
espl__outcomes_clear(struct espl__outcomes *o)
{
	o->count = 0;
	espl__arena_free(&o->arena);
}

void
espl__outcomes_free(struct espl__outcomes *o)
{
	free(o->list);
	espl__arena_free(&o->arena);
}

static void
fill_view(const struct espl__tier *tier, struct espl_alloc_view *v)
{
	v->why = tier->why;
	v->items = tier->items + tier->items_from;
	v->item_count = (uint32_t)tier->items_count;
	v->changed = tier->changed;
	v->changed_count = tier->changed_count;
	v->outcomes = tier->outcomes.list;
	v->outcome_count = tier->outcomes.count;
	v->gone = tier->gone;
	v->gone_count = tier->gone_count;
	v->gpus_granted = (uint32_t)espl__tier_gpus(tier);
}

static void
clear_changes(struct espl__tier *tier)
{
	for (uint32_t i = 0; i < tier->changed_count; i++)
		((struct espl__item *)(uintptr_t)tier->changed[i])->alloc_changed = 0;
	tier->changed_count = 0;
	tier->gone_count = 0;
	tier->why = 0;
}

void
espl__tier_count(struct espl__tier *tier, struct espl_share s, int sign)
{
	espl_sum_count(&tier->granted, s, sign);
}

uint64_t
espl__tier_gpus(const struct espl__tier *tier)
{
	return espl_sum_gpus(&tier->granted);
}

/* Do the grants in force exceed what can be leased, now that an offer pauses or is closed? */
static int
is_cut(const struct espl__exec *x, const struct espl__tier *tier)
{
	uint64_t capacity = 0;

	for (uint32_t o = 0; o < x->fleet.offer_count; o++) {
		uint32_t nodes = x->fleet.targets[o], most = espl__cluster_room(x, o);

		capacity += (uint64_t)(nodes < most ? nodes : most) * x->fleet.offers[o]->gpus;
	}
	return espl__exec_follows(x, ESPL__RULES_SUPPLY) && espl__tier_gpus(tier) > capacity;
}

/* The grants must fit the targets, or the share that is divided.  Those in force may exceed it
 * already: the share became smaller, what was idle was used, or the nodes of an offer cannot be
 * leased after all.  Then they must not grow. */
static espl_status
check_fit(struct espl__exec *x, const struct espl__tier *tier, const struct espl_alloc_view *view,
    struct espl__diag *why)
{
	const struct espl__inner *inner = tier->inner;
	const struct espl_budget budget = { .targets = inner == NULL ? x->fleet.targets : NULL,
		.limit = inner != NULL ? espl__inner_share(inner) : x->config->gpus_limit,
		.limit_is =
		    inner != NULL ? "the share of its experiment is" : "experiment.gpus_max is",
		.in_force = &tier->granted,
		.excused = inner != NULL || x->items.standing.started > 0 || is_cut(x, tier) };

	return espl__answer_grants(&x->caller, tier->allocator, view, &budget, &x->ops_arena, why);
}

espl_status
espl__tier_answer(struct espl__exec *x, struct espl__tier *tier, espl_status status,
    struct espl__diag *why, struct espl__reader *answer, struct espl__diag *diag)
{
	espl__outcomes_clear(&tier->outcomes);
	status = espl__exec_answer(x, tier->allocator, &tier->failures, status, why, answer, diag);
	if (tier->inner == NULL)
		espl__exec_failed(x, tier->allocator, tier->failures, why);
	return status;
}

espl_status
espl__tier_call(struct espl__exec *x, struct espl__tier *tier, struct espl_alloc_view *view,
    struct espl__diag *why, struct espl__reader *answer, struct espl__diag *diag)
{
	espl_status status;

	fill_view(tier, view);
	x->caller.items_ctx = tier;
	x->caller.item = look_up_item;
	x->caller.shares = tier->inner != NULL;
	status = espl__call_allocate(&x->caller, tier->allocator, view, why);
	if (status == ESPL_OK) {
		status = check_fit(x, tier, view, why);
		if (status != ESPL_OK)
			espl__buf_clear(&x->caller.ops);
	}
	clear_changes(tier);
	return espl__tier_answer(x, tier, status, why, answer, diag);
}

/* ---- sums over the trials of a share ------------------------------------------------------ */

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
