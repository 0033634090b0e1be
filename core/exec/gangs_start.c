/* gangs_start.c - gangs start, are resized in place, and get replies to their reports. */
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_tiers.h"
#include "exec/items.h"
#include "exec/items_place.h"

/* Does the trial continue with another number of GPUs than before, or with the same elsewhere? */
static void
count_change(struct espl__exec *x, const struct espl__gang *g)
{
	struct espl__trial *t = g->trial;

	if (t->attempts > 0 &&
	    (t->last.gpus != g->share.gpus || t->last.packing != g->share.packing))
		x->gangs.resizes++;
	else if (t->displaced)
		x->gangs.moves++;
	t->displaced = 0;
	t->last = g->share;
}

void
espl__gangs_start(struct espl__exec *x, struct espl__item *item)
{
	struct espl__trial *t = item->trial;
	struct espl__gang *g = espl__alloc(sizeof *g);
	struct espl__effect *e;
	int from_source = t->source != ESPL_NONE && t->pub.checkpoint == 0;

	ESPL__CHECK(x, EXEC);
	g->magic = ESPL__GANG_MAGIC;
	g->id = x->gangs.next++;
	g->leaves = ESPL_NONE;
	g->trial = t;
	g->state = ESPL__GANG_STARTING;
	/* the present slots: a wider grant may still wait for its own */
	g->share.gpus = item->target_count;
	g->share.packing = item->target[0].packing;
	g->slots = espl__alloc(g->share.gpus * sizeof *g->slots);
	memcpy(g->slots, item->target, g->share.gpus * sizeof *g->slots);
	g->iteration = espl__trial_restores(t);
	g->mark = espl__trial_restores_mark(t);
	g->budget = t->pub.budget;
	g->began = g->saved_at = x->now;
	for (uint32_t i = 0; i < g->share.gpus; i++)
		espl__gpu_occupy(&x->fleet, &g->slots[i], t, 1, 1);
	espl__gang_add(x, g);
	count_change(x, g);
	espl__item_flag(item, ESPL_ITEM_CHANGING,
	    espl__exec_follows(x, ESPL__RULES_LOCKED) ? ESPL_GANG_LOCKED : 0);
	espl__cluster_used(x);
	e = espl__exec_effect(x, ESPL__FX_START);
	e->as.start.gang = g->id;
	e->as.start.item = item->pub.id;
	e->as.start.experiment = t->search->number;
	e->as.start.trial = t->pub.id;
	e->as.start.attempt = t->attempts++;
	e->as.start.iteration = g->mark.step;
	e->as.start.budget = espl__gang_budget(g);
	e->as.start.source = from_source ? t->source : t->pub.id;
	e->as.start.checkpoint = g->mark.step;
	e->as.start.share = g->share;
	e->as.start.slots = g->slots;
	e->as.start.values = t->pub.values;
	if (x->setup.verbose)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "gang %llu starts on %u %s (node %llu%s), from iteration %llu to %llu",
		    (unsigned long long)g->id, (unsigned)g->share.gpus,
		    espl__exec_unit(x, g->share.gpus), (unsigned long long)g->slots[0].node,
		    item->pub.node_count > 1 ? " and others" : "", (unsigned long long)g->iteration,
		    (unsigned long long)g->budget);
	espl__gang_show(x, g, ESPL__PHASE_STARTING, "");
}

int
espl__gang_started(struct espl__exec *x, struct espl__gang *g)
{
	if (g->state != ESPL__GANG_STARTING)
		return 0;
	g->state = ESPL__GANG_RUNNING;
	g->counted = x->now;
	espl__gang_seen(x, g);
	return 1;
}

/* ---- in place ----------------------------------------------------------------------------- */

/* Its ranks, old and new, would have to meet from several machines. */
static int
leaves_machine(const struct espl__gang *g, const struct espl__item *item)
{
	for (uint32_t i = 0; i < item->target_count; i++)
		if (item->target[i].node != g->slots[0].node)
			return 1;
	for (uint32_t i = 1; i < g->share.gpus; i++)
		if (g->slots[i].node != g->slots[0].node)
			return 1;
	return 0;
}

int
espl__gang_resize(struct espl__exec *x, struct espl__gang *g, const struct espl__item *item)
{
	struct espl__trial *t = g->trial;
	struct espl__effect *e;

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(g, GANG);
	if (!t->search->in_place || t->restarts || g->state != ESPL__GANG_RUNNING || g->killed ||
	    g->fault != NULL || g->over || g->onto != NULL || x->round.ending != 0 ||
	    item->target_count == 0 || item->target[0].packing != g->share.packing ||
	    !espl__item_is_clear(x, item) || (x->fleet.no_route && leaves_machine(g, item)))
		return 0;
	g->onto_count = item->target_count;
	g->onto = espl__alloc(g->onto_count * sizeof *g->onto);
	memcpy(g->onto, item->target, g->onto_count * sizeof *g->onto);
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!espl__gang_holds(g->slots, g->share.gpus, &g->onto[i]))
			espl__gpu_occupy(&x->fleet, &g->onto[i], t, 1, 0);
	espl__item_flag(t->item, ESPL_ITEM_CHANGING, ESPL_GANG_LOCKED);
	e = espl__exec_effect(x, ESPL__FX_RESIZE);
	e->as.resize.gang = g->id;
	e->as.resize.trial = t->pub.id;
	e->as.resize.attempt = t->attempts;
	e->as.resize.iteration = g->mark.step;
	e->as.resize.share = (struct espl_share){ g->onto_count, g->share.packing };
	e->as.resize.slots = g->onto;
	e->as.resize.values = t->pub.values;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "resizes in place from %u to %u %s after iteration %llu", (unsigned)g->share.gpus,
	    (unsigned)g->onto_count, espl__exec_unit(x, g->onto_count),
	    (unsigned long long)g->iteration);
	return 1;
}

static void
release_old_slots(struct espl__exec *x, struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++)
		if (!espl__gang_holds(g->onto, g->onto_count, &g->slots[i]))
			espl__gpu_vacate(&x->fleet, &g->slots[i], g->trial, 1, 0);
	espl__items_freed(x, 1);
	if (g->share.packing == 1)
		x->gangs.gpus_busy += g->onto_count - g->share.gpus;
	if (g->share.gpus != g->onto_count)
		x->gangs.resizes++;
	else
		x->gangs.moves++;
	free(g->slots);
	g->slots = g->onto;
	g->share.gpus = g->onto_count;
	g->onto = NULL;
	g->onto_count = 0;
	g->trial->last = g->share;
}

void
espl__gang_stay(struct espl__exec *x, struct espl__gang *g)
{
	struct espl__item *item = g->trial->item;

	ESPL__CHECK(g, GANG);
	ESPL__ASSERT(g->onto != NULL);
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!espl__gang_holds(g->slots, g->share.gpus, &g->onto[i]))
			espl__gpu_vacate(&x->fleet, &g->onto[i], g->trial, 1, 0);
	espl__items_freed(x, 1);
	free(g->onto);
	g->onto = NULL;
	g->onto_count = 0;
	espl__gang_seen(x, g);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
	    "stays on %u %s: its new ranks cannot reach the others", (unsigned)g->share.gpus,
	    espl__exec_unit(x, g->share.gpus));
	if (item == NULL)
		return;
	espl__item_settled(x, item);
	if (!espl__gang_matches(g, item))
		espl__item_pending(x, item);
}

int
espl__gang_resized(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__gang_at(x, e->as.resized.gang);
	struct espl__search *s;
	struct espl__item *item;
	double took_s = (double)e->as.resized.took / 1e9;

	ESPL__CHECK(x, EXEC);
	if (g == NULL || g->onto == NULL)
		return 0;
	espl__cluster_gpu_time(x);
	espl__gang_account(x, g);
	release_old_slots(x, g);
	espl__gang_seen(x, g);
	s = g->trial->search;
	s->sums.resized++;
	s->sums.resized_s += took_s;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
	    "runs on %u %s after a pause of %.3f s", (unsigned)g->share.gpus,
	    espl__exec_unit(x, g->share.gpus), took_s);
	ESPL__OBSERVE(x, resized, g->id, took_s);
	espl__gang_show(x, g, ESPL__PHASE_RESIZED, "");
	item = g->trial->item;
	if (item == NULL)
		return 1;
	espl__item_resized(item, s->sums.resized_s / (double)s->sums.resized);
	espl__item_settled(x, item);
	if (!espl__gang_matches(g, item))
		espl__item_pending(x, item);
	return 1;
}

/* ---- replies ------------------------------------------------------------------------------ */

void
espl__gang_reply(struct espl__exec *x, struct espl__gang *g, enum espl__directive d)
{
	struct espl__effect *e;

	ESPL__CHECK(g, GANG);
	g->awaiting = 0;
	g->counted = x->now; /* it has waited for this */
	if (g->fault != NULL)
		return;
	e = espl__exec_effect(x, ESPL__FX_REPLY);
	e->as.reply.gang = g->id;
	e->as.reply.trial = g->trial->pub.id;
	e->as.reply.directive = d;
	g->directive = (uint8_t)d;
	if (d == ESPL__CONTINUE || d == ESPL__STOP)
		g->trial->can_save = 0;
	if (d == ESPL__PAUSE || d == ESPL__STOP) {
		g->state = ESPL__GANG_LEAVING;
		if (g->trial->item != NULL)
			espl__item_flag(g->trial->item, 0, ESPL_GANG_LOCKED);
	} else if (g->trial->pub.budget != g->budget) {
		g->budget = g->trial->pub.budget;
		if (g->trial->search->config->resource == NULL)
			e->as.reply.budget = g->budget;
	}
	if (d == ESPL__CHECKPOINT)
		g->saved_at = x->now;
}
