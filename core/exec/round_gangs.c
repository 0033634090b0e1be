/* round_gangs.c - starts gangs on their slots and replies to their reports.
 *
 * Donors before receivers: a gang whose place changed leaves at its boundary when its new seats
 * are free, or when another trial wants a seat that it gives up; else it continues to train.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"
#include "exec/state.h"

/* ---- coming and going --------------------------------------------------------------------- */

static void
show_gang(struct espl__exec *x, const struct espl__gang *g, enum espl__gang_phase phase,
    const char *text)
{
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->gang != NULL)
			o->gang(o->ctx, x->now, g->id, espl__trial_uid(g->trial), phase, g->share,
			    g->slots, text);
}

static void
start_gang(struct espl__exec *x, struct espl__item *item)
{
	struct espl__trial *t = item->trial;
	struct espl__gang *g = espl__alloc(sizeof *g);
	struct espl__effect *e;
	int from_source = t->source != ESPL_NONE && t->pub.checkpoint == 0;

	g->magic = ESPL__GANG_MAGIC;
	g->id = x->gangs.next++;
	g->leaves = ESPL_NONE;
	g->trial = t;
	g->state = ESPL__GANG_STARTING;
	/* what is in place, should a wider grant still wait for its own */
	g->share.gpus = item->target_count;
	g->share.packing = item->target[0].packing;
	g->slots = espl__alloc(g->share.gpus * sizeof *g->slots);
	memcpy(g->slots, item->target, g->share.gpus * sizeof *g->slots);
	g->iteration = espl__trial_restores(t);
	g->budget = t->pub.budget;
	g->began = g->saved_at = x->now;
	for (uint32_t i = 0; i < g->share.gpus; i++)
		espl__seat_set(&x->fleet, &g->slots[i], t, 1, 1);
	g->prev = x->gangs.last;
	if (x->gangs.last != NULL)
		x->gangs.last->next = g;
	else
		x->gangs.first = g;
	x->gangs.last = g;
	espl__gang_listen(x, g);
	x->gangs.count++;
	t->search->gang_count++;
	x->gangs.gpus_busy += g->share.packing == 1 ? g->share.gpus : 1;
	espl__map_set(&x->gangs.map, g->id + 1, g);
	if (t->attempts > 0 &&
	    (t->last.gpus != g->share.gpus || t->last.packing != g->share.packing))
		x->gangs.resizes++;
	t->last = g->share;
	t->gang = g;
	espl__exec_trains(t->search, t);
	if (t->search->jobs != NULL)
		espl__job_started(t);
	item->pub.flags |= ESPL_ITEM_CHANGING;
	e = espl__exec_effect(x, ESPL__FX_START);
	x->cluster.unused = 0;
	e->as.start.gang = g->id;
	e->as.start.experiment = t->search->number;
	e->as.start.trial = t->pub.id;
	e->as.start.attempt = t->attempts++;
	e->as.start.iteration = g->iteration;
	e->as.start.budget = g->budget;
	e->as.start.source = from_source ? t->source : t->pub.id;
	e->as.start.checkpoint = g->iteration;
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
	show_gang(x, g, ESPL__PHASE_STARTING, "");
}

static int
gives_up_a_wanted_seat(const struct espl__exec *x, const struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		const struct espl__gpu *gpu = espl__gpu_at(&x->fleet, &g->slots[i], NULL);
		if (gpu != NULL && espl__seat_wanted(gpu, g->trial))
			return 1;
	}
	return 0;
}

/* A completed job saves its final state; a stopped trial does not need to. */
static enum espl__directive
leave_directive(struct espl__gang *g)
{
	const struct espl__trial *t = g->trial;

	if (!t->search->saves)
		return ESPL__STOP;
	if (t->search->algorithm == NULL && t->pub.state == ESPL_TRIAL_ENDED &&
	    t->pub.iteration >= t->pub.budget)
		return ESPL__PAUSE;
	if ((t->dropped || t->pub.state == ESPL_TRIAL_ENDED || t->pub.state == ESPL_TRIAL_FAILED) &&
	    !espl__clone_wants(t, g->iteration))
		return ESPL__STOP;
	return ESPL__PAUSE;
}

static enum espl__directive
choose_directive(struct espl__exec *x, struct espl__gang *g)
{
	struct espl__trial *t = g->trial;
	struct espl__item *item = t->item;
	const struct espl__trial_config *c = &t->search->config->trial;
	espl_span every = c->checkpoint_every;

	if (x->round.ending != 0)
		return t->search->saves ? ESPL__PAUSE : ESPL__STOP;
	if (item == NULL || g->over)
		return leave_directive(g);
	if (!espl__gang_matches(g, item) && g->onto == NULL && !espl__gang_resize(x, g, item)) {
		if (item->target_count == 0 || espl__seats_clear(x, item) ||
		    gives_up_a_wanted_seat(x, g)) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "leaves its GPUs at iteration %llu: %s",
			    (unsigned long long)g->iteration,
			    item->target_count == 0 ? "it lost its place"
						    : "it moves to another place");
			return leave_directive(g);
		}
		item->pub.flags |= ESPL_ITEM_CHANGING;
	}
	/* A resize happens with "continue", not with "save": if an iteration takes longer than
	 * `every`, a gang being resized saves at every second report. */
	if (g->onto != NULL && t->pub.checkpoint + 1 >= g->iteration)
		every = 0;
	if (t->search->saves &&
	    (t->save_asked || espl__clone_wants(t, g->iteration) ||
		(every > 0 && x->now - g->saved_at >= every)))
		return ESPL__CHECKPOINT;
	return ESPL__CONTINUE;
}

static void
reply_to_gang(struct espl__exec *x, struct espl__gang *g)
{
	struct espl__effect *e;
	enum espl__directive d;

	g->awaiting = 0;
	if (g->fault != NULL)
		return;
	d = g->state == ESPL__GANG_LEAVING || g->killed ? leave_directive(g)
							: choose_directive(x, g);
	/* No answer both saves and raises the budget of a gang that stays (docs/trial-protocol.md).
	 */
	if (d == ESPL__CHECKPOINT && g->trial->pub.budget != g->budget)
		d = espl__clone_wants(g->trial, g->iteration) ? ESPL__PAUSE : ESPL__CONTINUE;
	e = espl__exec_effect(x, ESPL__FX_REPLY);
	e->as.reply.gang = g->id;
	e->as.reply.trial = g->trial->pub.id;
	e->as.reply.directive = d;
	g->told = (uint8_t)d;
	if (d == ESPL__CONTINUE || d == ESPL__STOP)
		g->trial->can_save = 0;
	if (d == ESPL__PAUSE || d == ESPL__STOP) {
		g->state = ESPL__GANG_LEAVING;
		if (g->trial->item != NULL)
			g->trial->item->view.flags |= ESPL_GANG_LOCKED;
	} else if (g->trial->pub.budget != g->budget) {
		g->budget = g->trial->pub.budget;
		e->as.reply.budget = g->budget;
	}
	if (d == ESPL__CHECKPOINT)
		g->saved_at = x->now;
}

/* Replies first (they free and claim), then everything that can start now starts. */
void
espl__exec_settle(struct espl__exec *x)
{
	uint32_t left = 0, held = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->gangs.awaiting_count; i++) {
		struct espl__gang *g = x->gangs.awaiting[i];
		if (g->awaiting && g->over && g->state == ESPL__GANG_RUNNING && !g->killed &&
		    espl__exec_waits_warm(x, g->trial))
			/* its reply comes when the barrier has passed */
			x->gangs.awaiting[held++] = g;
		else if (g->awaiting)
			reply_to_gang(x, g);
	}
	x->gangs.awaiting_count = held;
	if (x->round.ending != 0)
		return;
	for (uint32_t i = 0; i < x->items.pending_count; i++) {
		struct espl__item *item = x->items.pending[i];
		const struct espl__gang *g = item->trial->gang;

		if (g == NULL && espl__seats_clear(x, item))
			start_gang(x, item);
		/* at its next boundary; if that is the last, there is nothing to change for */
		else if (g != NULL && !espl__gang_matches(g, item) &&
		    g->iteration + 1 < item->trial->pub.budget)
			(void)espl__gang_resize(x, item->trial->gang, item);
		g = item->trial->gang;
		if (item->target_count > 0 && (g == NULL || !espl__gang_matches(g, item))) {
			x->items.pending[left++] = item;
			continue;
		}
		item->pending = 0;
		/* it was to change, and has its old place again */
		if (item->target_count > 0 && g->state == ESPL__GANG_RUNNING && g->onto == NULL &&
		    (item->pub.flags & ESPL_ITEM_CHANGING) != 0)
			espl__item_settled(x, item);
	}
	x->items.pending_count = left;
}
