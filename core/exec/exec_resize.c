/* exec_resize.c - gangs that go over to other seats while they live: grow, shrink and move in
 * place.
 *
 * From the order to the world's word that it is done a gang holds its old seats and the new ones,
 * and trains on the old ones; what is decided meanwhile comes after.  If anything fails on the way
 * the gang has ended, its trial goes on from its last checkpoint, and is not resized in place
 * again.
 */
#include <string.h>

#include <espalier/trainable.h>
#include "exec/state.h"
#include "plugin/registry.h"

/* A simulation knows what it takes from the profile alone. */
int
espl__exec_in_place(const struct espl__search *s)
{
	const struct espl__trial_config *trial = &s->config->trial;
	int simulated = s->exec->setup.simulated;
	const struct espl__plugin *plugin;
	const struct espl_trainable_ops *ops;

	if (!trial->in_place || (simulated && (s->profile == NULL || !s->profile->resizes)))
		return 0;
	if (simulated && s->jobs != NULL)
		return 1;
	if (trial->trainable == NULL)
		return simulated && trial->curves != NULL;
	if (espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, NULL) != ESPL_OK)
		return 0; /* who starts it will say why */
	ops = (const struct espl_trainable_ops *)(const void *)plugin->desc->ops;
	return ESPL_HAS(struct espl_trainable_ops, ops, resize);
}

static int
holds(const struct espl_slot *slots, uint32_t count, const struct espl_slot *slot)
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

	if (!t->search->in_place || t->restarts || g->state != ESPL__GANG_RUNNING || g->killed ||
	    g->fault != NULL || g->over || g->onto != NULL || x->ending != 0 ||
	    item->target_count == 0 || item->target[0].packing != g->share.packing ||
	    !espl__seats_clear(x, item))
		return 0;
	g->onto_count = item->target_count;
	g->onto = espl__alloc(g->onto_count * sizeof *g->onto);
	memcpy(g->onto, item->target, g->onto_count * sizeof *g->onto);
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!holds(g->slots, g->share.gpus, &g->onto[i]))
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
	    "goes from %u to %u %s in place, after iteration %llu", (unsigned)g->share.gpus,
	    (unsigned)g->onto_count, espl__exec_unit(x, g->onto_count),
	    (unsigned long long)g->iteration);
	return 1;
}

void
espl__gang_resize_off(struct espl__exec *x, struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!holds(g->slots, g->share.gpus, &g->onto[i]))
			espl__seat_unset(&x->fleet, &g->onto[i], g->trial, 1, 0);
	free(g->onto);
	g->onto = NULL;
	g->onto_count = 0;
}

static void
take_seats(struct espl__exec *x, struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++)
		if (!holds(g->onto, g->onto_count, &g->slots[i]))
			espl__seat_unset(&x->fleet, &g->slots[i], g->trial, 1, 0);
	x->seats_freed = 1;
	if (g->share.packing == 1)
		x->gpus_busy += g->onto_count - g->share.gpus;
	if (g->share.gpus != g->onto_count)
		x->resizes++;
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
	    "is on %u %s now: nothing was trained for %.3f s", (unsigned)g->share.gpus,
	    espl__exec_unit(x, g->share.gpus), took_s);
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next) {
		if (o->resized != NULL)
			o->resized(o->ctx, x->now, g->id, took_s);
		if (o->gang != NULL)
			o->gang(o->ctx, x->now, g->id, espl__trial_uid(g->trial), "resized",
			    g->share, g->slots, "");
	}
	item = g->trial->item;
	if (item == NULL)
		return;
	item->pub.resize_s = s->resized_s / (double)s->resized;
	espl__item_settled(x, item);
	if (!espl__gang_matches(g, item))
		espl__item_pending(x, item);
}
