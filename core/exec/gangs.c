/* gangs.c - gangs: the slots they hold, the GPU time they used, and their end. */
#include <espalier/trainable.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/state.h"
#include "plugin/registry.h"

struct espl__gang *
espl__exec_gang(const struct espl__exec *x, uint64_t id)
{
	ESPL__CHECK(x, EXEC);
	return espl__map_get(&x->gangs.map, id + 1);
}

int
espl__gang_matches(const struct espl__gang *g, const struct espl__item *item)
{
	ESPL__CHECK(g, GANG);
	return item->target_count == g->share.gpus &&
	    memcmp(item->target, g->slots, g->share.gpus * sizeof *g->slots) == 0;
}

/* ---- who was heard of last ---------------------------------------------------------------- */

static void
unlink_heard(struct espl__exec *x, struct espl__gang *g)
{
	if (g->older != NULL)
		g->older->newer = g->newer;
	else
		x->gangs.oldest = g->newer;
	if (g->newer != NULL)
		g->newer->older = g->older;
	else
		x->gangs.newest = g->older;
	g->older = g->newer = NULL;
}

void
espl__gang_listen(struct espl__exec *x, struct espl__gang *g)
{
	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(g, GANG);
	g->heard = x->now;
	g->older = x->gangs.newest;
	g->newer = NULL;
	if (x->gangs.newest != NULL)
		x->gangs.newest->newer = g;
	else
		x->gangs.oldest = g;
	x->gangs.newest = g;
}

int
espl__gang_on(const struct espl__gang *g, uint64_t node)
{
	for (uint32_t i = 0; i < g->share.gpus; i++)
		if (g->slots[i].node == node)
			return 1;
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (g->onto[i].node == node)
			return 1;
	return 0;
}

int
espl__gang_unreachable(const struct espl__exec *x, const struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, g->slots[i].node);

		if (n != NULL && (n->pub.flags & ESPL_NODE_UNREACHABLE) != 0)
			return 1;
	}
	return 0;
}

void
espl__gang_heard(struct espl__exec *x, struct espl__gang *g)
{
	unlink_heard(x, g);
	espl__gang_listen(x, g);
}

void
espl__gang_account(struct espl__exec *x, struct espl__gang *g)
{
	double gpu_s =
	    (double)(x->now - g->began) / 1e9 * (double)g->share.gpus / (double)g->share.packing;
	int64_t each = (x->now - g->began) / g->share.packing;

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(g, GANG);
	g->trial->pub.gpu_s += gpu_s;
	x->gangs.busy_gpu_s += gpu_s;
	g->trial->search->busy_gpu_s += gpu_s;
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, g->slots[i].node);
		const struct espl_offer *o = x->fleet.offers[n->pub.offer];
		espl__ledger_busy(x->ledger, g->slots[i].node, each);
		if (o->gpus > 0)
			g->trial->pub.spent +=
			    (espl_money)((double)o->price_hour / o->gpus * ((double)each / 3.6e12));
	}
	g->began = x->now;
}

void
espl__gang_free(struct espl__exec *x, struct espl__gang *g)
{
	ESPL__CHECK(x, EXEC);
	ESPL__ASSERT(g->trial->gang == g);
	espl__exec_gpu_time(x);
	espl__gang_account(x, g);
	espl__gang_resize_off(x, g);
	for (uint32_t i = 0; i < g->share.gpus; i++)
		espl__seat_unset(&x->fleet, &g->slots[i], g->trial, 1, 0);
	x->items.seats_freed = 1;
	if (g->leaves != ESPL_NONE)
		espl__item_gone(g->trial->search->tier, g->leaves, g->trial);
	if (g->awaiting)
		for (uint32_t i = 0; i < x->gangs.awaiting_count; i++)
			if (x->gangs.awaiting[i] == g)
				x->gangs.awaiting[i--] =
				    x->gangs.awaiting[--x->gangs.awaiting_count];
	unlink_heard(x, g);
	if (g->prev != NULL)
		g->prev->next = g->next;
	else
		x->gangs.first = g->next;
	if (g->next != NULL)
		g->next->prev = g->prev;
	else
		x->gangs.last = g->prev;
	(void)espl__map_remove(&x->gangs.map, g->id + 1);
	x->gangs.count--;
	g->trial->search->gang_count--;
	x->gangs.gpus_busy -= g->share.packing == 1 ? g->share.gpus : 1;
	g->trial->gang = NULL;
	g->trial->can_save = 0;
	free(g->slots);
	free(g->fault);
	g->magic = 0;
	free(g);
}

void
espl__exec_kill(struct espl__exec *x, struct espl__gang *g, espl_span grace, const char *fault)
{
	struct espl__effect *e;

	ESPL__CHECK(g, GANG);
	if (fault != NULL && g->fault == NULL)
		g->fault = espl__strdup(fault);
	if (g->killed)
		return;
	g->killed = 1;
	e = espl__exec_effect(x, ESPL__FX_KILL);
	e->as.kill.gang = g->id;
	e->as.kill.grace = grace;
}

/* ---- answering reports -------------------------------------------------------------------- */

int
espl__seats_clear(const struct espl__exec *x, const struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < item->target_count; i++) {
		struct espl__machine *n;
		const struct espl__gpu *gpu = espl__gpu_at(&x->fleet, &item->target[i], &n);
		if (gpu == NULL || n->pub.state != ESPL_NODE_READY ||
		    !espl__seat_clear(gpu, item->trial, item->target[i].packing))
			return 0;
	}
	return item->target_count > 0;
}

/* A simulation knows what it takes from the profile alone. */
int
espl__exec_in_place(const struct espl__search *s)
{
	const struct espl__trial_config *trial = &s->config->trial;
	int simulated = s->exec->setup.simulated;
	const struct espl__plugin *plugin;
	const struct espl_trainable_ops *ops;

	if (!trial->in_place ||
	    (simulated && (s->session->profile == NULL || !s->session->profile->resizes)))
		return 0;
	if (simulated && s->jobs != NULL)
		return 1;
	if (trial->trainable == NULL)
		return simulated && trial->curves != NULL;
	if (espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, NULL) != ESPL_OK)
		return 0; /* starting it reports the error */
	ops = (const struct espl_trainable_ops *)(const void *)plugin->desc->ops;
	return ESPL_HAS(struct espl_trainable_ops, ops, resize);
}

int
espl__gang_holds(const struct espl_slot *slots, uint32_t count, const struct espl_slot *slot)
{
	for (uint32_t i = 0; i < count; i++)
		if (memcmp(&slots[i], slot, sizeof *slot) == 0)
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
	    !espl__seats_clear(x, item))
		return 0;
	g->onto_count = item->target_count;
	g->onto = espl__alloc(g->onto_count * sizeof *g->onto);
	memcpy(g->onto, item->target, g->onto_count * sizeof *g->onto);
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!espl__gang_holds(g->slots, g->share.gpus, &g->onto[i]))
			espl__seat_set(&x->fleet, &g->onto[i], t, 1, 0);
	t->item->pub.flags |= ESPL_ITEM_CHANGING;
	t->item->view.flags |= ESPL_GANG_LOCKED;
	e = espl__exec_effect(x, ESPL__FX_RESIZE);
	e->as.resize.gang = g->id;
	e->as.resize.trial = t->pub.id;
	e->as.resize.attempt = t->attempts;
	e->as.resize.iteration = g->iteration;
	e->as.resize.share = (struct espl_share){ g->onto_count, g->share.packing };
	e->as.resize.slots = g->onto;
	e->as.resize.values = t->pub.values;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "resizes in place from %u to %u %s after iteration %llu", (unsigned)g->share.gpus,
	    (unsigned)g->onto_count, espl__exec_unit(x, g->onto_count),
	    (unsigned long long)g->iteration);
	return 1;
}

void
espl__gang_resize_off(struct espl__exec *x, struct espl__gang *g)
{
	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(g, GANG);
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!espl__gang_holds(g->slots, g->share.gpus, &g->onto[i]))
			espl__seat_unset(&x->fleet, &g->onto[i], g->trial, 1, 0);
	free(g->onto);
	g->onto = NULL;
	g->onto_count = 0;
}

static void
take_seats(struct espl__exec *x, struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++)
		if (!espl__gang_holds(g->onto, g->onto_count, &g->slots[i]))
			espl__seat_unset(&x->fleet, &g->slots[i], g->trial, 1, 0);
	x->items.seats_freed = 1;
	if (g->share.packing == 1)
		x->gangs.gpus_busy += g->onto_count - g->share.gpus;
	if (g->share.gpus != g->onto_count)
		x->gangs.resizes++;
	free(g->slots);
	g->slots = g->onto;
	g->share.gpus = g->onto_count;
	g->onto = NULL;
	g->onto_count = 0;
	g->trial->last = g->share;
}

void
espl__gang_resized(struct espl__exec *x, const struct espl__event *e)
{
	struct espl__gang *g = espl__exec_gang(x, e->as.resized.gang);
	struct espl__search *s;
	struct espl__item *item;
	double took_s = (double)e->as.resized.took / 1e9;

	ESPL__CHECK(x, EXEC);
	if (g == NULL || g->onto == NULL)
		return;
	espl__exec_gpu_time(x);
	espl__gang_account(x, g);
	take_seats(x, g);
	espl__gang_heard(x, g);
	s = g->trial->search;
	s->resized++;
	s->resized_s += took_s;
	espl__exec_capacity(x);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
	    "runs on %u %s after a pause of %.3f s", (unsigned)g->share.gpus,
	    espl__exec_unit(x, g->share.gpus), took_s);
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next) {
		if (o->resized != NULL)
			o->resized(o->ctx, x->now, g->id, took_s);
		if (o->gang != NULL)
			o->gang(o->ctx, x->now, g->id, espl__trial_uid(g->trial),
			    ESPL__PHASE_RESIZED, g->share, g->slots, "");
	}
	item = g->trial->item;
	if (item == NULL)
		return;
	item->pub.resize_s = s->resized_s / (double)s->resized;
	espl__item_settled(x, item);
	if (!espl__gang_matches(g, item))
		espl__item_pending(x, item);
}
