/* round_alloc.c - asking the allocators, and taking each answer as one transaction.
 *
 * Grants may not exceed what the targets would hold, or what the share is that is divided; an
 * answer that does is refused whole.  The pool's allocator is asked first, then those of
 * experiments that divide a share of their own.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/answers.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/searches_plan.h"
#include "exec/state.h"

static void
ring_alarm(struct espl__tier *tier, espl_time now)
{
	if (tier->wake_at > now)
		return;
	tier->wake_at = ESPL_NEVER;
	tier->why |= ESPL_WHY_TIME;
}

void
espl__tiers_alarm(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	ring_alarm(&x->items.top, x->now);
	for (uint32_t i = 0; i < x->searches.count; i++)
		ring_alarm(x->searches.list[i]->tier, x->now);
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

/* ---- what they see ------------------------------------------------------------------------ */

static void
clear_changes(struct espl__tier *tier)
{
	for (uint32_t i = 0; i < tier->changed_count; i++)
		((struct espl__item *)(uintptr_t)tier->changed[i])->alloc_changed = 0;
	tier->changed_count = 0;
	tier->gone_count = 0;
	tier->why = 0;
}

static void
fill_view(struct espl__exec *x, struct espl__tier *tier, struct espl_alloc_view *v)
{
	uint32_t experiments = 0;

	memset(v, 0, sizeof *v);
	v->size = (uint32_t)sizeof *v;
	v->why = tier->why;
	v->now = x->now;
	v->items = tier->items + tier->items_from;
	v->item_count = (uint32_t)tier->items_count;
	v->changed = tier->changed;
	v->changed_count = tier->changed_count;
	ESPL__GROW(x->round.experiments, x->round.experiments_cap, x->searches.count);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->algorithm != NULL && x->searches.list[i]->come &&
		    !x->searches.list[i]->over)
			x->round.experiments[experiments++] = &x->searches.list[i]->experiment;
	/* The plain jobs count as one experiment without a limit: allocators add up limits. */
	if (x->searches.list[0]->jobs != NULL && !x->searches.list[0]->over)
		x->round.experiments[experiments++] = &x->searches.list[0]->experiment;
	v->experiments = x->round.experiments;
	v->experiment_count = experiments;
	v->offers = (const struct espl_offer *const *)x->fleet.offers;
	v->offer_count = x->fleet.offer_count;
	v->nodes = x->fleet.live;
	v->node_count = x->fleet.live_count;
	v->targets = x->fleet.targets;
	v->outcomes = tier->outcomes.list;
	v->outcome_count = tier->outcomes.count;
	v->gpus = x->fleet.gpus;
	v->gpus_idle = x->fleet.gpus_idle;
	v->gone = tier->gone;
	v->gone_count = tier->gone_count;
	v->gpus_granted = (uint32_t)espl__tier_gpus(tier);
	v->gpus_lost = x->fleet.lost;
	if (tier->inner != NULL)
		espl__inner_view(tier->inner, v);
}

/* ---- their answers ------------------------------------------------------------------------ */

/* GPUs that the grants in force and those of the answer take together, against what the targets
 * give: the answer is good if the first is not above the second.  A share may have become smaller
 * than what is granted of it: then it must not grow. */
static espl_status
check_fit(struct espl__exec *x, const struct espl__tier *tier, struct espl__reader r,
    struct espl__diag *why)
{
	uint64_t whole = tier->granted_whole, asked, capacity = 0, there;
	const char *who = tier->allocator->who,
		   *limit = tier->inner != NULL ? "the share of its experiment is"
						: "the nodes it asked for have";
	uint32_t parts[65];
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
	for (uint32_t c = 2; c <= 64; c++)
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
	if (tier->inner != NULL && espl__tier_gpus(tier) > capacity)
		capacity = espl__tier_gpus(tier);
	return asked <= capacity
	    ? ESPL_OK
	    : espl__fail(why, ESPL_E_REJECTED, "%s grants %llu GPUs, but %s %llu", who,
		  (unsigned long long)asked, limit, (unsigned long long)there);
}

/* Allocators share the pool out among items; what an experiment may hold at most is seen to here:
 * beyond it its items get less, or wait. */
static struct espl_share
within_limit(const struct espl__exec *x, const struct espl__item *item, struct espl_share share)
{
	const struct espl__search *s = item->trial->search;
	double own = (double)item->pub.granted.gpus / item->pub.granted.packing, room;

	if (!x->config->pool || s->jobs != NULL || item->tier != &x->items.top ||
	    s->config->gpus_limit == ESPL_ANY || share.gpus == 0)
		return share;
	room = (double)s->config->gpus_limit - (s->granted - own) + 1e-9;
	if ((double)share.gpus / share.packing <= room)
		return share;
	share.gpus = share.packing == 1 && room >= 1 ? (uint32_t)room : 0;
	if (share.gpus < item->pub.gpus_min)
		share.gpus = 0;
	if (share.gpus == 0)
		share.packing = 1;
	return share;
}

static void
apply_grant(struct espl__exec *x, struct espl__tier *tier, const struct espl_grant *given)
{
	struct espl__item *item = espl__item_at(tier, given->item);
	struct espl_grant cut = *given;
	const struct espl_grant *g = &cut;

	if (item == NULL)
		return;
	if (item->trial == NULL) {
		espl__inner_grant(item, g);
		return;
	}
	if ((g->flags & ESPL_GRANT_QUEUED) == 0)
		cut.share = within_limit(x, item, g->share);
	if (cut.share.gpus != given->share.gpus)
		espl__item_changed(item, 0); /* so that the allocator sees its current grant */
	if ((g->flags & ESPL_GRANT_QUEUED) != 0) {
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
		    "waits for %u%s %s, according to %s", (unsigned)g->share.gpus,
		    g->share.packing > 1 ? " part of one" : "", espl__exec_unit(x, g->share.gpus),
		    tier->allocator->who);
		return;
	}
	if (g->share.gpus != item->pub.granted.gpus ||
	    g->share.packing != item->pub.granted.packing)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
		    "is granted %u%s %s by %s", (unsigned)g->share.gpus,
		    g->share.packing > 1 ? " part of one" : "", espl__exec_unit(x, g->share.gpus),
		    tier->allocator->who);
	item->view.owner = (g->flags & ESPL_GRANT_BRACKET) != 0
	    ? ESPL_OWNER_BRACKET | item->pub.bracket
	    : ESPL_NONE;
	espl__item_grant(x, item, g->share, g->offer);
	if ((g->flags & ESPL_GRANT_YIELD) != 0 && g->share.gpus > 0) {
		item->view.flags |= ESPL_GANG_YIELDS;
		espl__item_look(x, item);
		x->items.place_why |= ESPL_WHY_ARRIVAL;
	}
	if ((g->flags & ESPL_GRANT_AT_ONCE) != 0 && item->trial->gang != NULL &&
	    !espl__gang_matches(item->trial->gang, item))
		espl__exec_kill(x, item->trial->gang, item->trial->search->config->trial.grace,
		    NULL);
}

static void
apply_target(struct espl__exec *x, const struct espl_target *t)
{
	if (t->nodes != x->fleet.targets[t->offer])
		espl__exec_note(x, ESPL_ABOUT_OFFER, t->offer,
		    "%s wants %u node%s of '%s' (%u before)", x->items.top.allocator->who,
		    (unsigned)t->nodes, t->nodes == 1 ? "" : "s", x->fleet.offers[t->offer]->name,
		    (unsigned)x->fleet.targets[t->offer]);
	x->fleet.targets[t->offer] = t->nodes;
	x->fleet.target_price[t->offer] = t->max_price_hour;
	espl__exec_capacity(x);
	x->cluster.dirty = 1;
}

static void
apply_answer(struct espl__exec *x, struct espl__tier *tier, struct espl__reader *r)
{
	struct espl__op op;

	while (espl__exec_next_op(x, r, &op)) {
		struct espl__machine *n;
		switch (op.type) {
		case ESPL__OP_GRANT: apply_grant(x, tier, &op.as.grant); break;
		case ESPL__OP_TARGET:
			if (tier->inner != NULL)
				espl__inner_target(tier->inner, &op.as.target);
			else if (op.as.target.offer < x->fleet.offer_count)
				apply_target(x, &op.as.target);
			break;
		case ESPL__OP_RETIRE:
			n = espl__machine_at(&x->fleet, op.as.id);
			if (n != NULL && n->live) {
				espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
				x->items.place_why |= ESPL_WHY_NODES;
				x->cluster.dirty = 1;
			}
			break;
		case ESPL__OP_CLAIM:
			n = espl__machine_at(&x->fleet, op.as.claim.node);
			if (n != NULL && n->live)
				n->pub.owner = ESPL_OWNER_BRACKET | op.as.claim.bracket;
			break;
		case ESPL__OP_WATCH:
			espl__market_watch(&x->market, op.as.watch.offer, op.as.watch.on);
			break;
		case ESPL__OP_WAKE:
			if (op.as.at < tier->wake_at)
				tier->wake_at = op.as.at;
			break;
		case ESPL__OP_PLAN:
			espl__exec_take_plan(x->searches.list[0], &op.as.plan.plan, 1);
			break;
		case ESPL__OP_SUBMIT: espl__exec_submit(x, NULL, tier, op.as.id); break;
		default: break;
		}
	}
}

static int
is_asked(const struct espl__tier *tier)
{
	return tier->why != 0 &&
	    (tier->items_count > 0 || tier->outcomes.count > 0 ||
		(tier->why & ESPL_WHY_DEPARTURE) !=
		    0); /* of an item, or of a bracket whose barrier has passed */
}

static espl_status
ask_allocator(struct espl__exec *x, struct espl__tier *tier, struct espl__diag *diag)
{
	struct espl_alloc_view view;
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__reader answer;
	struct espl__search *s = tier->inner != NULL ? espl__inner_search(tier->inner) : NULL;
	espl_status status;

	fill_view(x, tier, &view);
	x->caller.items_ctx = tier;
	x->caller.item = espl__item_lookup;
	x->caller.shares = tier->inner != NULL;
	status = espl__call_allocate(&x->caller, tier->allocator, &view, &why);
	if (status == ESPL_OK) {
		status =
		    check_fit(x, tier, espl__reader(x->caller.ops.data, x->caller.ops.size), &why);
		if (status != ESPL_OK)
			espl__buf_clear(&x->caller.ops);
	}
	clear_changes(tier);
	tier->outcomes.count = 0;
	status = espl__exec_answer(x, s, tier->allocator, status, &why, &answer, diag);
	if (s != NULL && s->ending != 0)
		x->items.top.wake_at = x->now; /* it failed: its share is for others */
	espl__arena_free(&tier->outcomes.arena);
	if (status == ESPL_OK)
		apply_answer(x, tier, &answer);
	return status;
}

/* Without a share there is nothing to divide: take back the grants; report changes when there is a
 * share again. */
static espl_status
divide_share(struct espl__exec *x, struct espl__tier *tier, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (espl__inner_share(tier->inner) > 0 && is_asked(tier)) {
		espl__model_service_stale(&espl__inner_search(tier->inner)->model, 0);
		status = ask_allocator(x, tier, diag);
	} else if (espl__inner_share(tier->inner) == 0) {
		tier->why &= ~(ESPL_WHY_PROFILE |
		    ESPL_WHY_HINT); /* already reported to the pool's allocator */
	}
	espl__inner_cut(tier->inner);
	return status;
}

espl_status
espl__exec_allocate(struct espl__exec *x, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (!x->cluster.cloud_ready)
		return ESPL_OK;
	espl__inner_look(x);
	if (is_asked(&x->items.top)) {
		for (uint32_t i = 0; i < x->searches.count; i++)
			espl__model_service_stale(&x->searches.list[i]->model, 0);
		espl__jobs_look(x);
		status = ask_allocator(x, &x->items.top, diag);
	}
	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK && x->round.ending == 0;
	     i++)
		if (x->searches.list[i]->tier->inner != NULL && !x->searches.list[i]->over)
			status = divide_share(x, x->searches.list[i]->tier, diag);
	return status;
}
