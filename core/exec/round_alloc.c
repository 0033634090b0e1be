/* round_alloc.c - asking the allocators, and applying each answer as one transaction.
 *
 * Grants may not exceed the GPUs of the targets, or of the share that is divided; an answer that
 * exceeds them is refused as a whole. The pool's allocator is asked first, then those of
 * experiments that divide their own share.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"
#include "exec/searches_end.h"
#include "exec/searches_jobs.h"
#include "exec/searches_plan.h"

/* ---- what they see ------------------------------------------------------------------------ */

/* An offer and those of equal shape give nodes toward one target (cluster_sources.c). */
static void
view_offers(struct espl__exec *x, struct espl_alloc_view *v)
{
	v->offers = (const struct espl_offer *const *)x->fleet.offers;
	v->offer_count = x->fleet.offer_count;
	if (!espl__cluster_pools(x) || x->fleet.offer_count < 2)
		return;
	ESPL__GROW(x->round.offers, x->round.offers_cap, x->fleet.offer_count);
	ESPL__GROW(x->round.offer_list, x->round.offer_list_cap, x->fleet.offer_count);
	for (uint32_t o = 0; o < x->fleet.offer_count; o++) {
		x->round.offers[o] = *x->fleet.offers[o];
		x->round.offers[o].nodes_max = espl__cluster_room(x, o);
		x->round.offer_list[o] = &x->round.offers[o];
	}
	v->offers = x->round.offer_list;
}

static void
fill_view(struct espl__exec *x, struct espl__tier *tier, struct espl_alloc_view *v)
{
	uint32_t experiments = 0;

	memset(v, 0, sizeof *v);
	v->size = (uint32_t)sizeof *v;
	v->now = x->now;
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
	view_offers(x, v);
	v->nodes = x->fleet.live;
	v->node_count = x->fleet.live_count;
	v->targets = x->fleet.targets;
	v->gpus = x->fleet.gpus;
	v->gpus_idle = x->fleet.gpus_idle;
	v->gpus_lost = x->fleet.lost;
	if (tier->inner != NULL)
		espl__inner_view(tier->inner, v);
}

/* ---- their answers ------------------------------------------------------------------------ */

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
	room = (double)s->config->gpus_limit - (x->items.granted[s->number] - own) + 1e-9;
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
	espl__item_take(x, item, g);
	if ((g->flags & ESPL_GRANT_AT_ONCE) != 0 && item->trial->gang != NULL &&
	    !espl__gang_matches(item->trial->gang, item))
		espl__gangs_kill(x, item->trial->gang, item->trial->search->config->trial.grace);
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
	espl__searches_capacity(x);
	espl__cluster_mark(x);
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
				espl__items_ask_placer(x, ESPL_WHY_NODES);
				espl__cluster_mark(x);
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
		case ESPL__OP_WAKE: espl__tier_asks(tier, op.as.at, x->now); break;
		case ESPL__OP_PLAN:
			espl__search_take_plan(x->searches.list[0], &op.as.plan.plan, 1);
			break;
		case ESPL__OP_SUBMIT: espl__searches_submit(x, NULL, tier, op.as.id); break;
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
	struct espl__diag why;
	struct espl__reader answer;
	struct espl__search *s = tier->inner != NULL ? tier->inner->search : NULL;
	espl_status status;

	espl__diag_clear(&why);
	fill_view(x, tier, &view);
	status = espl__tier_call(x, tier, &view, &why, &answer, diag);
	if (s != NULL && tier->failures == ESPL__FAILED_FOR_GOOD)
		espl__search_wind_up(s, ESPL__RUN_FAILED, "%s",
		    why.text[0] != '\0' ? why.text : tier->allocator->who);
	if (s != NULL && s->ending != 0) /* it failed: its share is for others */
		espl__tier_wake(&x->items.top, x->now);
	if (status == ESPL_OK)
		apply_answer(x, tier, &answer);
	return status;
}

/* Without a share there is nothing to divide: revoke the grants; report changes when there is a
 * share again. */
static espl_status
divide_share(struct espl__exec *x, struct espl__search *s, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (espl__inner_share(s->tier->inner) > 0 && is_asked(s->tier)) {
		espl__search_stale(s, 0);
		status = ask_allocator(x, s->tier, diag);
	}
	espl__inner_cut(s->tier->inner);
	return status;
}

espl_status
espl__round_allocate(struct espl__exec *x, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (!x->cluster.cloud_ready)
		return ESPL_OK;
	espl__inner_look(x);
	if (is_asked(&x->items.top)) {
		espl__searches_stale(x, 0);
		espl__jobs_look(x);
		status = ask_allocator(x, &x->items.top, diag);
	}
	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK && x->round.ending == 0;
	     i++)
		if (x->searches.list[i]->tier->inner != NULL && !x->searches.list[i]->over)
			status = divide_share(x, x->searches.list[i], diag);
	return status;
}
