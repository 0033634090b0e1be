/* items_inner.c - experiments of a pool whose share is divided by their own allocator. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"
#include "exec/items.h"

espl_status
espl__tier_new(struct espl__search *s, struct espl__tier **tier, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	struct espl__inner *inner;
	const struct espl__section *own = &s->config->allocator;
	espl_status status;

	ESPL__CHECK(x, EXEC);
	*tier = &x->items.top;
	ESPL__GROW(x->items.granted, x->items.granted_cap, s->number + 1);
	x->items.granted[s->number] = 0;
	if (!s->config->inner || !x->config->pool || s->jobs != NULL)
		return ESPL_OK;
	inner = espl__alloc(sizeof *inner);
	inner->magic = ESPL__INNER_MAGIC;
	inner->search = s;
	inner->started = inner->tier.wake_at = ESPL_NEVER;
	inner->shown = &inner->experiment;
	inner->tier.inner = inner;
	status = espl__instance_create(ESPL_ALLOCATOR, own->use, own->group, &s->env,
	    &inner->tier.allocator, diag);
	if (status == ESPL_OK) {
		espl__tier_limit(&inner->tier);
		*tier = &inner->tier;
	} else {
		espl__inner_free(inner);
	}
	return status;
}

/* Destroys the inner allocator; call before freeing what the host lent it. */
void
espl__inner_still(struct espl__inner *inner)
{
	if (inner == NULL)
		return;
	espl__instance_destroy(inner->tier.allocator);
	inner->tier.allocator = NULL;
}

void
espl__inner_free(struct espl__inner *inner)
{
	if (inner == NULL)
		return;
	espl__tier_free(&inner->tier);
	free(inner->targets);
	free(inner->offers);
	free(inner->offer_list);
	inner->magic = 0;
	free(inner);
}

static void
look_up_least(struct espl__inner *inner)
{
	const struct espl__tier *t = &inner->tier;

	if (inner->least_count > 0)
		return;
	inner->least = UINT32_MAX;
	for (uint64_t i = t->items_from; i < t->items_from + t->items_count; i++) {
		if (t->items[i]->gpus_min < inner->least) {
			inner->least = t->items[i]->gpus_min;
			inner->least_count = 0;
		}
		inner->least_count += t->items[i]->gpus_min == inner->least;
	}
}

/* What later stages of a declared search add to the work, in seconds on one GPU. */
static double
sum_later_work(const struct espl__search *s)
{
	const struct espl_spec *spec = s->experiment.spec;
	double work = 0;

	for (uint32_t b = 0; spec != NULL && b < s->experiment.standing_count; b++) {
		const struct espl_standing *at = &s->standing[b];
		uint32_t from = at->stage_started == ESPL_NEVER ? 0 : at->stage + 1;

		for (uint32_t k = from; k < spec->brackets[b]->stage_count; k++)
			work += (double)spec->brackets[b]->stages[k]->trials *
			    (double)spec->brackets[b]->stages[k]->iterations;
	}
	return work * espl__profile_iteration_s(s->inputs->profile, (struct espl_share){ 1, 1 });
}

/* ---- the item that stands for it ---------------------------------------------------------- */

/* All its trials together on this many GPUs: as many trials as get their minimum, or, with more
 * GPUs, all of them evenly. */
static double
estimate_throughput(const struct espl__inner *inner, uint64_t gpus)
{
	const struct espl__profile *p = inner->search->inputs->profile;
	uint64_t trials = inner->tier.items_count, least = inner->least, each = gpus / trials,
		 rest = gpus % trials;
	uint64_t widest = inner->most / trials;

	if (gpus <= trials * least)
		return (double)(gpus / least) *
		    (p->guessed
			    ? 1
			    : espl__profile_speed(p, (struct espl_share){ (uint32_t)least, 1 }));
	if (each >= widest)
		return (double)trials *
		    espl__profile_speed(p, (struct espl_share){ (uint32_t)widest, 1 });
	return (double)(trials - rest) *
	    espl__profile_speed(p, (struct espl_share){ (uint32_t)each, 1 }) +
	    (double)rest * espl__profile_speed(p, (struct espl_share){ (uint32_t)each + 1, 1 });
}

/* Without a profile it is known only as long as no trial has more than its least. */
static void
draw_curve(struct espl__inner *inner, struct espl_item *i)
{
	uint64_t trials = inner->tier.items_count, full = trials * inner->least;
	double one = estimate_throughput(inner, i->unit);
	uint32_t n = 0;

	inner->curve_trials = (uint32_t)trials;
	inner->curve_most = i->gpus_max;
	inner->curve_unit = i->unit;
	i->scaling = inner->curve;
	i->scaling_count = 0;
	if (inner->search->inputs->profile->guessed && i->gpus_max > full)
		return;
	for (uint64_t x = i->unit, next; x <= i->gpus_max && n < ESPL__INNER_POINTS; x = next) {
		inner->curve[n++] =
		    (struct espl_point){ .x = (double)x, .y = estimate_throughput(inner, x) / one };
		next = 2 * x - (2 * x) % i->unit;
		if (x < full && next > full)
			next = full; /* where the law changes */
		if (x < i->gpus_max && next > i->gpus_max)
			next = i->gpus_max;
	}
	i->scaling_count = n;
}

static void
fill_item(struct espl__inner *inner)
{
	const struct espl__search *s = inner->search;
	struct espl_item *i = &inner->item->pub;
	uint64_t most = inner->most, potential = espl__cluster_potential(s->exec);

	look_up_least(inner);
	if (most > potential)
		most = potential;
	if (most > ESPL_ANY)
		most = ESPL_ANY;
	if (most > s->config->gpus_limit)
		most = s->config->gpus_limit;
	i->unit = i->gpus_min = inner->least;
	i->gpus_max = most > inner->least ? (uint32_t)(most - most % inner->least) : inner->least;
	i->flags = ESPL_ITEM_EXPERIMENT | (s->finished ? 0 : ESPL_ITEM_OPEN) |
	    (s->sums.count > 0 ? ESPL_ITEM_RUNNING : 0) | (s->saves ? 0 : ESPL_ITEM_NO_SAVE) |
	    (s->in_place ? ESPL_ITEM_INPLACE : 0);
	i->started = inner->started;
	i->elapsed_s =
	    inner->started == ESPL_NEVER ? 0 : (double)(s->exec->now - inner->started) / 1e9;
	if (inner->curve_trials != inner->tier.items_count || inner->curve_most != i->gpus_max ||
	    inner->curve_unit != i->unit || i->scaling == NULL)
		draw_curve(inner, i);
	i->work_s = NAN;
	if (inner->unknown == 0 && s->experiment.spec != NULL && !s->inputs->profile->guessed) {
		i->work_s = (inner->work_s > 0 ? inner->work_s : 0) + sum_later_work(s);
		i->work_s /=
		    espl__profile_speed(s->inputs->profile, (struct espl_share){ inner->least, 1 });
	}
	if (isnan(i->work_total_s))
		i->work_total_s = i->work_s;
}

/* Created again when there is something to train; it may have to queue then, like any
 * other. */
static void
begin_item(struct espl__inner *inner)
{
	struct espl__search *s = inner->search;

	inner->item = espl__item_whole(s, inner);
	inner->item->pub.work_total_s = NAN;
	fill_item(inner);
	espl__item_add(inner->item);
}

/* Returns the GPUs that it can no longer use; if that or its maximum changed, the pool's allocator
 * is called. */
static void
follow_share(struct espl__inner *inner)
{
	struct espl__item *item = inner->item;
	uint32_t most = item->pub.gpus_max, least = item->pub.gpus_min,
		 has = item->pub.granted.gpus;
	uint32_t why = inner->tier.why & (ESPL_WHY_PROFILE | ESPL_WHY_HINT);

	fill_item(inner);
	if (has > item->pub.gpus_max) {
		espl__exec_note(inner->search->exec, ESPL_ABOUT_RUN, 0,
		    "experiment '%s' can use only %u %s of %u and returns the rest",
		    inner->search->config->name, (unsigned)item->pub.gpus_max,
		    espl__exec_unit(inner->search->exec, item->pub.gpus_max), (unsigned)has);
		espl__item_grant(inner->search->exec, item,
		    (struct espl_share){ item->pub.gpus_max, 1 }, item->pub.offer);
	}
	if (item->pub.gpus_max > most || item->pub.gpus_min != least)
		why |= ESPL_WHY_ARRIVAL;
	if (item->pub.gpus_max < most)
		why |= ESPL_WHY_DEPARTURE;
	espl__item_changed(item, why);
}

void
espl__inner_look(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__inner *inner = x->searches.list[i]->tier->inner;

		if (inner == NULL || (inner->tier.items_count == 0 && inner->item == NULL))
			continue;
		if (inner->tier.items_count == 0) {
			espl__item_free(x, inner->item, 1);
			inner->item = NULL;
		} else if (inner->item == NULL) {
			begin_item(inner);
		} else if (inner->tier.why != 0 || inner->tier.changed_count > 0 ||
		    x->items.top.why != 0) {
			follow_share(inner); /* how much work is left, too */
		}
	}
}

/* ---- its share ---------------------------------------------------------------------------- */

void
espl__inner_grant(struct espl__item *item, const struct espl_grant *g)
{
	const struct espl__search *s = item->whole->search;
	struct espl__exec *x = s->exec;

	if ((g->flags & ESPL_GRANT_QUEUED) == 0 && g->share.gpus != item->pub.granted.gpus)
		espl__exec_note(x, ESPL_ABOUT_RUN, 0,
		    "experiment '%s' is granted %u %s instead of %u by %s", s->config->name,
		    (unsigned)g->share.gpus, espl__exec_unit(x, g->share.gpus),
		    (unsigned)item->pub.granted.gpus, x->items.top.allocator->who);
	if ((g->flags & ESPL_GRANT_QUEUED) == 0)
		espl__item_grant(x, item, g->share, g->offer);
}

/* The share may lie on machines of any offer, whichever its allocator counts in. */
static void
view_offers(struct espl__inner *inner, struct espl_alloc_view *v)
{
	ESPL__GROW(inner->offers, inner->offers_cap, v->offer_count);
	ESPL__GROW(inner->offer_list, inner->offer_list_cap, v->offer_count);
	for (uint32_t o = 0; o < v->offer_count; o++) {
		inner->offers[o] = *v->offers[o];
		inner->offers[o].nodes_max = ESPL_ANY;
		inner->offer_list[o] = &inner->offers[o];
	}
	v->offers = inner->offer_list;
}

/* The pool's machines, of which it has a part. */
void
espl__inner_view(struct espl__inner *inner, struct espl_alloc_view *v)
{
	const struct espl__exec *x = inner->search->exec;
	uint32_t share = espl__inner_share(inner), had = inner->targets_cap;
	uint64_t used = espl__tier_gpus(&inner->tier), left = share > used ? share - used : 0;

	ESPL__CHECK(inner, INNER);
	inner->experiment = inner->search->experiment;
	if (share < inner->experiment.gpus_limit)
		inner->experiment.gpus_limit = share;
	v->experiments = &inner->shown;
	v->experiment_count = 1;
	ESPL__GROW(inner->targets, inner->targets_cap, x->fleet.offer_count);
	if (inner->targets_cap > had)
		memset(inner->targets + had, 0,
		    (inner->targets_cap - had) * sizeof *inner->targets);
	v->targets = inner->targets;
	view_offers(inner, v);
	if (v->gpus > share)
		v->gpus = share;
	if (v->gpus_idle > left)
		v->gpus_idle = (uint32_t)left;
	v->gpus_lost = NULL; /* the pool makes up for them */
}

void
espl__inner_target(struct espl__inner *inner, const struct espl_target *t)
{
	ESPL__CHECK(inner, INNER);
	if (t->offer < inner->targets_cap)
		inner->targets[t->offer] = t->nodes;
}

/* The share is now smaller than the sum of its grants: the latest trials get fewer GPUs, then none.
 * Trials that are being resized are left alone. */
void
espl__inner_cut(struct espl__inner *inner)
{
	struct espl__exec *x = inner->search->exec;
	const struct espl__tier *t = &inner->tier;
	uint32_t share = espl__inner_share(inner);

	ESPL__CHECK(inner, INNER);
	if (share == 0) /* already reported to the pool's allocator */
		inner->tier.why &= ~(ESPL_WHY_PROFILE | ESPL_WHY_HINT);
	for (int pass = 0; pass < 2; pass++)
		for (uint64_t i = t->items_from + t->items_count;
		     i > t->items_from && espl__tier_gpus(t) > share; i--) {
			struct espl__item *item = (struct espl__item *)(uintptr_t)t->items[i - 1];
			uint32_t has = item->pub.granted.gpus, least = item->pub.gpus_min;
			uint64_t over = espl__tier_gpus(t) - share;
			struct espl_share to = { 0, 1 };

			if (has == 0 || (item->pub.flags & ESPL_ITEM_CHANGING) != 0)
				continue;
			if (pass == 0 &&
			    (item->pub.granted.packing > 1 || has <= least ||
				(item->pub.flags & ESPL_ITEM_NO_SAVE) != 0))
				continue;
			if (pass == 0)
				to.gpus = has - least > over ? has - (uint32_t)over : least;
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
			    "is granted %u %s: the share of its experiment is %u",
			    (unsigned)to.gpus, espl__exec_unit(x, to.gpus), (unsigned)share);
			espl__item_grant(x, item, to, item->pub.offer);
			espl__item_changed(item, 0);
		}
}
