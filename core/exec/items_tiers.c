/* items_tiers.c - tiers: what one allocator decides about, when it is called and what it may grant.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_lists.h"
#include "exec/items_tiers.h"

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
	if (s.gpus == 0)
		return;
	if (s.packing == 1)
		tier->granted_whole += (uint64_t)(int64_t)(sign * (int64_t)s.gpus);
	else
		tier->granted_parts[s.packing] += (uint32_t)sign;
	if (s.packing > tier->parts_most)
		tier->parts_most = s.packing;
}

uint64_t
espl__tier_gpus(const struct espl__tier *tier)
{
	uint64_t gpus = tier->granted_whole;

	for (uint32_t c = 2; c <= tier->parts_most; c++)
		gpus += (tier->granted_parts[c] + c - 1) / c;
	return gpus;
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

/* Compares the GPUs of the grants in force and of the answer with those of the targets: the answer
 * is valid if it does not need more. A share may have become smaller than its grants: then the
 * grants must not grow. */
static espl_status
check_fit(struct espl__exec *x, const struct espl__tier *tier, struct espl__reader r,
    struct espl__diag *why)
{
	uint64_t whole = tier->granted_whole, asked, capacity = 0, there;
	const char *who = tier->allocator->who,
		   *limit = tier->inner != NULL ? "the share of its experiment is"
						: "the nodes it asked for have";
	uint32_t parts[ESPL__PARTS_MOST + 1u];
	uint32_t *targets =
	    espl__arena_alloc(&x->ops_arena, (x->fleet.offer_count + 1) * sizeof *targets);
	struct espl__op op;

	x->items.stamp++;
	memcpy(parts, tier->granted_parts, sizeof parts);
	memcpy(targets, x->fleet.targets, x->fleet.offer_count * sizeof *targets);
	while (espl__op_get(&r, x->caller.params, &x->ops_arena, &op) == 1) {
		if (op.type == ESPL__OP_TARGET)
			targets[op.as.target.offer] = op.as.target.nodes;
		if (op.type != ESPL__OP_GRANT || (op.as.grant.flags & ESPL_GRANT_QUEUED) != 0)
			continue;
		struct espl__item *item = espl__item_at(tier, op.as.grant.item);
		if (item == NULL)
			continue;
		if (item->stamp == x->items.stamp)
			return espl__fail(why, ESPL_E_REJECTED,
			    "%s grants item %llu twice in one answer", who,
			    (unsigned long long)op.as.grant.item);
		item->stamp = x->items.stamp;
		if (item->pub.granted.gpus > 0 && item->pub.granted.packing == 1)
			whole -= item->pub.granted.gpus;
		else if (item->pub.granted.gpus > 0)
			parts[item->pub.granted.packing]--;
		if (op.as.grant.share.packing == 1)
			whole += op.as.grant.share.gpus;
		else
			parts[op.as.grant.share.packing]++;
	}
	asked = whole;
	for (uint32_t c = 2; c <= ESPL__PARTS_MOST; c++)
		asked += (parts[c] + c - 1) / c;
	for (uint32_t o = 0; o < x->fleet.offer_count && tier->inner == NULL; o++)
		capacity += (uint64_t)targets[o] * x->fleet.offers[o]->gpus;
	if (tier->inner != NULL) {
		capacity = espl__inner_share(tier->inner);
	} else if (x->config->gpus_limit < capacity) {
		capacity = x->config->gpus_limit;
		limit = "experiment.gpus_max is";
	}
	there = capacity;
	/* grants may exceed it already: the share became smaller, what was idle was used, or the
	 * nodes of an offer cannot be leased after all */
	if ((tier->inner != NULL || x->items.standing.started > 0 || is_cut(x, tier)) &&
	    espl__tier_gpus(tier) > capacity)
		capacity = espl__tier_gpus(tier);
	return asked <= capacity
	    ? ESPL_OK
	    : espl__fail(why, ESPL_E_REJECTED, "%s grants %llu GPUs, but %s %llu", who,
		  (unsigned long long)asked, limit, (unsigned long long)there);
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
	x->caller.item = espl__item_lookup;
	x->caller.shares = tier->inner != NULL;
	status = espl__call_allocate(&x->caller, tier->allocator, view, why);
	if (status == ESPL_OK) {
		status =
		    check_fit(x, tier, espl__reader(x->caller.ops.data, x->caller.ops.size), why);
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
