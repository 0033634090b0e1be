/* round_gangs.c - chooses replies to reports, and starts gangs on their slots.
 *
 * Donors before receivers: a gang whose place changed leaves at its boundary when its new slots
 * are free, or when another trial wants a slot that it gives up; else it continues to train.
 */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_tiers.h"
#include "exec/items_place.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"

static int
blocks_other_trial(const struct espl__exec *x, const struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		const struct espl__gpu *gpu = espl__gpu_at(&x->fleet, &g->slots[i], NULL);
		if (gpu != NULL && espl__gpu_is_wanted(gpu, g->trial))
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
	if (espl__trial_is_found(t))
		return ESPL__PAUSE;
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
		if (item->target_count == 0 || espl__item_is_clear(x, item) ||
		    blocks_other_trial(x, g)) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "leaves its %s at iteration %llu: %s",
			    espl__exec_unit(x, g->share.gpus), (unsigned long long)g->iteration,
			    item->target_count == 0 ? "it lost its slots"
						    : "it moves to other slots");
			return leave_directive(g);
		}
		espl__item_flag(item, ESPL_ITEM_CHANGING, 0);
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
answer_report(struct espl__exec *x, struct espl__gang *g)
{
	enum espl__directive d = ESPL__STOP;

	if (g->fault == NULL)
		d = g->state == ESPL__GANG_LEAVING || g->killed ? leave_directive(g)
								: choose_directive(x, g);
	/* No answer both saves and raises the budget of a gang that stays (docs/trial-protocol.md).
	 */
	if (d == ESPL__CHECKPOINT && g->trial->pub.budget != g->budget)
		d = espl__clone_wants(g->trial, g->iteration) ? ESPL__PAUSE : ESPL__CONTINUE;
	espl__gang_reply(x, g, d);
}

/* Its gang starts or moves if it can.  1: it does not hold its place yet. */
static int
is_waiting(struct espl__exec *x, struct espl__item *item)
{
	struct espl__trial *t = item->trial;
	struct espl__gang *g = t->gang;

	if (g == NULL && espl__item_is_clear(x, item) && espl__search_may_start(t->search)) {
		espl__gangs_start(x, item);
		espl__trial_trains(t->search, t);
	} else if (g != NULL && !espl__gang_matches(g, item) && g->iteration + 1 < t->pub.budget) {
		/* at its next boundary; if that is the last, there is nothing to change for */
		(void)espl__gang_resize(x, g, item);
	}
	g = t->gang;
	if (item->target_count > 0 && (g == NULL || !espl__gang_matches(g, item)))
		return 1;
	/* it was to change, and has its old place again */
	if (item->target_count > 0 && g->state == ESPL__GANG_RUNNING && g->onto == NULL &&
	    (item->pub.flags & ESPL_ITEM_CHANGING) != 0)
		espl__item_settled(x, item);
	return 0;
}

/* Replies first (they free and claim), then everything that can start now starts. */
void
espl__round_settle(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->gangs.awaiting_count; i++) {
		struct espl__gang *g = x->gangs.awaiting[i];
		/* a gang at a barrier gets its reply when the barrier has passed */
		if (g->awaiting &&
		    !(g->over && g->state == ESPL__GANG_RUNNING && !g->killed &&
			espl__trial_waits_warm(x, g->trial)))
			answer_report(x, g);
	}
	espl__gangs_sweep(x);
	if (x->round.ending == 0)
		espl__items_settle(x, is_waiting);
}
