/* gangs.c - gangs: the slots they hold, the GPU time they used, and their end. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/metrics.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_tiers.h"
#include "exec/items_place.h"

void
espl__gangs_free(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	while (x->gangs.first != NULL) {
		struct espl__gang *g = x->gangs.first;
		x->gangs.first = g->next;
		free(g->slots);
		free(g->onto);
		free(g->fault);
		free(g);
	}
	espl__map_free(&x->gangs.map);
	free(x->gangs.awaiting);
}

struct espl__gang *
espl__gang_at(const struct espl__exec *x, uint64_t id)
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

/* ---- its life ----------------------------------------------------------------------------- */

/* Its last sign of life is now: it becomes the newest. */
static void
link_by_last_seen(struct espl__exec *x, struct espl__gang *g)
{
	g->last_seen = x->now;
	g->older = x->gangs.newest;
	g->newer = NULL;
	if (x->gangs.newest != NULL)
		x->gangs.newest->newer = g;
	else
		x->gangs.oldest = g;
	x->gangs.newest = g;
}

static void
unlink_by_last_seen(struct espl__exec *x, struct espl__gang *g)
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
espl__gang_seen(struct espl__exec *x, struct espl__gang *g)
{
	unlink_by_last_seen(x, g);
	link_by_last_seen(x, g);
}

void
espl__gang_add(struct espl__exec *x, struct espl__gang *g)
{
	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(g, GANG);
	g->prev = x->gangs.last;
	if (x->gangs.last != NULL)
		x->gangs.last->next = g;
	else
		x->gangs.first = g;
	x->gangs.last = g;
	link_by_last_seen(x, g);
	x->gangs.count++;
	g->trial->search->sums.count++;
	x->gangs.gpus_busy += g->share.packing == 1 ? g->share.gpus : 1;
	espl__map_set(&x->gangs.map, g->id + 1, g);
	g->trial->gang = g;
}

void
espl__gang_account(struct espl__exec *x, struct espl__gang *g)
{
	double gpu_s =
	    (double)(x->now - g->began) / 1e9 * (double)g->share.gpus / (double)g->share.packing;
	int64_t each = (x->now - g->began) / g->share.packing;

	ESPL__CHECK(g, GANG);
	g->trial->pub.gpu_s += gpu_s;
	g->trial->trained += x->now - g->began;
	x->gangs.busy_gpu_s += gpu_s;
	g->trial->search->sums.busy_gpu_s += gpu_s;
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, g->slots[i].node);
		const struct espl_offer *o = x->fleet.offers[n->pub.offer];
		double price = x->market.pub.mean(&x->market.pub, n->pub.offer, g->began, x->now);

		espl__ledger_busy(x->ledger, g->slots[i].node, each);
		if (o->gpus > 0 && price >= 0) /* NaN: not known */
			g->trial->pub.spent +=
			    (espl_money)(price / o->gpus * ((double)each / 3.6e12));
	}
	g->began = x->now;
}

void
espl__gang_show(struct espl__exec *x, const struct espl__gang *g, enum espl__gang_phase phase,
    const char *text)
{
	ESPL__CHECK(g, GANG);
	if (!g->trial->unasked)
		ESPL__OBSERVE(x, gang, g->id, espl__trial_uid(g->trial), phase, g->share, g->slots,
		    text);
}

int
espl__gang_holds(const struct espl_slot *slots, uint32_t count, const struct espl_slot *slot)
{
	for (uint32_t i = 0; i < count; i++)
		if (memcmp(&slots[i], slot, sizeof *slot) == 0)
			return 1;
	return 0;
}

static void
free_onto(struct espl__exec *x, struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->onto_count; i++)
		if (!espl__gang_holds(g->slots, g->share.gpus, &g->onto[i]))
			espl__gpu_vacate(&x->fleet, &g->onto[i], g->trial, 1, 0);
	free(g->onto);
	g->onto = NULL;
	g->onto_count = 0;
}

/* Waiting at a barrier does not count as training. */
static void
discount_wait(const struct espl__exec *x, struct espl__gang *g)
{
	if (g->over)
		g->trial->trained -= x->now - g->over_at;
}

void
espl__gang_free(struct espl__exec *x, struct espl__gang *g, const char *text)
{
	ESPL__CHECK(x, EXEC);
	ESPL__ASSERT(g->trial->gang == g);
	espl__gang_show(x, g, ESPL__PHASE_ENDED, text);
	espl__cluster_gpu_time(x);
	espl__gang_account(x, g);
	discount_wait(x, g);
	free_onto(x, g);
	for (uint32_t i = 0; i < g->share.gpus; i++)
		espl__gpu_vacate(&x->fleet, &g->slots[i], g->trial, 1, 0);
	espl__items_freed(x, 1);
	if (g->leaves != ESPL_NONE)
		espl__item_gone(g->trial->search->tier, g->leaves, g->trial);
	if (g->awaiting)
		for (uint32_t i = 0; i < x->gangs.awaiting_count; i++)
			if (x->gangs.awaiting[i] == g)
				x->gangs.awaiting[i--] =
				    x->gangs.awaiting[--x->gangs.awaiting_count];
	unlink_by_last_seen(x, g);
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
	g->trial->search->sums.count--;
	x->gangs.gpus_busy -= g->share.packing == 1 ? g->share.gpus : 1;
	g->trial->gang = NULL;
	g->trial->can_save = 0;
	free(g->slots);
	free(g->fault);
	g->magic = 0;
	free(g);
}

void
espl__gangs_kill(struct espl__exec *x, struct espl__gang *g, espl_span grace)
{
	struct espl__effect *e;

	ESPL__CHECK(g, GANG);
	if (g->killed)
		return;
	g->killed = 1;
	e = espl__exec_effect(x, ESPL__FX_KILL);
	e->as.kill.gang = g->id;
	e->as.kill.grace = grace;
}

void
espl__gang_fault(struct espl__exec *x, struct espl__gang *g, const char *fault, int hopeless)
{
	if (g->fault == NULL)
		g->fault = espl__strdup(fault);
	g->hopeless |= (uint8_t)hopeless;
	espl__gangs_kill(x, g, g->trial->search->config->trial.grace);
}

/* ---- reports ------------------------------------------------------------------------------ */

void
espl__gang_await(struct espl__exec *x, struct espl__gang *g)
{
	ESPL__GROW(x->gangs.awaiting, x->gangs.awaiting_cap, x->gangs.awaiting_count + 1);
	x->gangs.awaiting[x->gangs.awaiting_count++] = g;
	g->awaiting = 1;
}

void
espl__gangs_sweep(struct espl__exec *x)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < x->gangs.awaiting_count; i++)
		if (x->gangs.awaiting[i]->awaiting)
			x->gangs.awaiting[left++] = x->gangs.awaiting[i];
	x->gangs.awaiting_count = left;
}

int
espl__gang_report(struct espl__gang *g, uint64_t iteration)
{
	int first = !g->reported;

	g->quiet_reported = 0;
	g->iteration = iteration;
	g->reported = 1;
	g->reports++;
	return first;
}

uint64_t
espl__gang_counts(struct espl__exec *x, struct espl__gang *g, uint64_t step, double used)
{
	const struct espl__run_config *c = g->trial->search->config;
	double units, before = g->mark.resource;

	ESPL__CHECK(g, GANG);
	g->mark.step = step;
	if (c->resource == NULL)
		return step;
	if (strcmp(c->resource, ESPL__SECONDS) == 0)
		g->mark.resource += (double)(x->now - g->counted) / 1e9;
	else if (used > g->mark.resource)
		g->mark.resource = used;
	g->counted = x->now;
	g->stuck = g->mark.resource > before ? 0 : g->stuck + 1;
	units = floor(g->mark.resource / c->resource_step);
	/* All that reach a rung are compared there, however far the report is beyond it. */
	return units < (double)g->trial->pub.budget ? (uint64_t)units : g->trial->pub.budget;
}

uint64_t
espl__gang_budget(const struct espl__gang *g)
{
	ESPL__CHECK(g, GANG);
	return g->trial->search->config->resource == NULL ? g->budget : ESPL__ITERATION_MOST;
}

int
espl__gang_timed(struct espl__gang *g, uint32_t sharers)
{
	int timed = g->warmed && g->sharers == sharers; /* the first one includes the start */

	g->warmed = 1;
	g->sharers = (uint8_t)sharers;
	return timed;
}

void
espl__gang_saved(struct espl__exec *x, struct espl__gang *g)
{
	g->saved_at = x->now;
	espl__gang_seen(x, g);
}

void
espl__gang_over(struct espl__gang *g, uint64_t item)
{
	g->over = 1;
	g->over_at = g->trial->search->exec->now;
	if (item != ESPL_NONE)
		g->leaves = item;
}

void
espl__gang_keep(struct espl__exec *x, struct espl__gang *g)
{
	discount_wait(x, g);
	g->over = 0;
	if (g->trial->search->experiment.plan != NULL)
		g->saved_at = x->now; /* trial.checkpoint_every counts from the barrier on */
	if (g->leaves != ESPL_NONE)
		espl__item_gone(g->trial->search->tier, g->leaves, g->trial);
	g->leaves = ESPL_NONE;
}

/* ---- a new driver ------------------------------------------------------------------------- */

void
espl__gang_outlived(struct espl__gang *g)
{
	g->outlived = 1;
}

void
espl__gangs_return(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->gangs.awaiting_count; i++)
		x->gangs.awaiting[i]->awaiting = x->gangs.awaiting[i]->outlived;
	espl__gangs_sweep(x);
}

void
espl__gangs_rejoin(struct espl__exec *x)
{
	for (struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		g->outlived = 0;
}
