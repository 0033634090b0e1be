/* round_end.c - the end of the run, and the cluster follows its targets. */
#include <stdio.h>

#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/items_idle.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"
#include "exec/searches_decisions.h"
#include "exec/searches_confirm.h"
#include "exec/searches_end.h"
#include "exec/searches_trials.h"

/* calls at the instants that policies asked for, with which nothing changed */
#define IDLE_WAKES_MOST 3u

/* ---- the end ------------------------------------------------------------------------------ */

/* The algorithm has finished and no trial runs: is there a result? */
static void
search_over(struct espl__exec *x)
{
	char what[200];

	if (espl__search_came_to_nothing(x->searches.list[0], what, sizeof what))
		espl__exec_fails(x, what);
	else
		espl__exec_wind_up(x, ESPL__RUN_DONE, "the search is complete");
}

/* A pool: each search ends by itself, and the pool with the last. */
static void
pool_over(struct espl__exec *x)
{
	uint32_t over = 0, good = 0;

	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		if (!s->over && espl__search_idle(s) && s->sums.count == 0 &&
		    (s->ending != 0 || (!espl__search_salvage(s) && !espl__search_confirm(s))))
			espl__search_closed(s);
		over += s->over;
		good += s->over && s->ending != ESPL__RUN_FAILED &&
		    (s->jobs == NULL || s->failed < s->jobs->list.count);
	}
	if (over < x->searches.count)
		return;
	if (good > 0)
		espl__exec_wind_up(x, ESPL__RUN_DONE, "all experiments and jobs have ended");
	else
		espl__exec_fails(x,
		    x->searches.list[0]->jobs != NULL ? "all experiments and jobs have failed"
						      : "all experiments have failed");
}

static void
end_if_idle(struct espl__exec *x)
{
	struct espl__effect *e;

	if (x->round.ending == 0 && x->config->pool)
		pool_over(x);
	else if (x->round.ending == 0 && x->gangs.count == 0 && espl__searches_idle(x) &&
	    !espl__search_salvage(x->searches.list[0]) &&
	    !espl__search_confirm(x->searches.list[0]))
		search_over(x);
	if (x->round.ending == 0)
		return;
	for (uint32_t i = 0; i < x->items.gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i]);
		if (item->target_count > 0)
			espl__item_target(x, item, NULL, 0);
	}
	/* Also gangs that are already leaving: they might never finish. */
	for (struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		espl__gangs_kill(x, g, g->trial->search->config->trial.grace);
	if (x->gangs.count > 0 || x->fleet.live_count > 0 || x->round.ended)
		return;
	x->round.ended = 1;
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->round.ending == ESPL__RUN_DONE || x->round.ending == ESPL__RUN_DEADLINE ||
		    x->round.ending == ESPL__RUN_BUDGET || espl__searches_idle(x))
			espl__search_settle(x->searches.list[i]);
	e = espl__exec_effect(x, ESPL__FX_END);
	e->as.end.how = x->round.ending;
	e->as.end.text = x->round.end_text;
	ESPL__OBSERVE(x, end, x->round.ending, x->round.end_text);
}

/* No progress is possible.  1: ended an experiment that grants nothing of its share. */
static int
end_stuck_share(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];
		const struct espl__tier *t = s->tier;

		if (t->inner == NULL || t->items_count == 0 || espl__inner_share(t->inner) == 0 ||
		    espl__tier_gpus(t) > 0)
			continue;
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu trial%s, but %s does not grant any of its share of %u %s",
		    (unsigned long long)t->items_count, t->items_count == 1 ? " waits" : "s wait",
		    t->allocator->who, (unsigned)espl__inner_share(t->inner),
		    espl__exec_unit(x, espl__inner_share(t->inner)));
		espl__tier_wake(&x->items.top, x->now);
		return 1;
	}
	return 0;
}

/* Trials that end, nodes that come or go. */
static int
is_changing(const struct espl__exec *x)
{
	if (x->gangs.count > 0 || x->searches.computing_count > 0 || x->cluster.cloud_waits ||
	    espl__lease_retry_at(x) != ESPL_NEVER || x->cluster.health.drained > 0)
		return 1;
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		if (n->pub.state != ESPL_NODE_READY || n->releasing ||
		    (n->pub.flags & ESPL_NODE_UNREACHABLE) != 0)
			return 1;
	}
	return 0;
}

/* Whether anything can still change. An allocator that wakes up cannot place the trials that have
 * been granted GPUs, and has none left for others; without any node it may lease some. Policies may
 * wake up without effect only a limited number of times while nodes are held, or grants wait. */
static int
may_change(struct espl__exec *x)
{
	espl_time wake = espl__tiers_next(x);

	if (is_changing(x)) {
		x->round.idle_wakes = 0;
		return 1;
	}
	if (espl__items_fill_at(x) != ESPL_NEVER && espl__exec_follows(x, ESPL__RULES_LOSSES))
		return 1; /* one that waits is then started on idle slots, whatever policies say */
	if (x->items.count > 0 && x->fleet.live_count > 0 &&
	    (x->round.idle_wakes > IDLE_WAKES_MOST || x->fleet.gpus == 0))
		return 0;
	if (x->fleet.live_count == 0 && wake != ESPL_NEVER &&
	    x->round.idle_wakes <= IDLE_WAKES_MOST && espl__exec_follows(x, ESPL__RULES_SUPPLY))
		return 1; /* it may lease from another offer */
	return espl__search_next(x) != ESPL_NEVER || espl__searches_to_come(x) ||
	    (wake != ESPL_NEVER && (wake <= x->now || x->items.unplaced == 0));
}

/* No trial is running, all nodes are ready, and granted trials cannot be placed: the free GPUs are
 * on the wrong nodes. Reduce the grants. */
static void
narrow_unplaced(struct espl__exec *x)
{
	if (x->items.unplaced == 0 || x->round.ending != 0 || x->fleet.gpus == 0 || is_changing(x))
		return;
	if (x->items.slots_freed) { /* the placer has yet to see them */
		espl__tier_wake(&x->items.top, x->now);
		return;
	}
	for (uint32_t i = x->items.gangs_count; i > 0; i--) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i - 1]);
		uint32_t gpus = item->pub.granted.gpus,
			 fewer = gpus - (gpus - 1) % item->pub.unit - 1;

		if (item->target_count > 0 || item->pub.granted.packing > 1 ||
		    fewer < item->pub.gpus_min || fewer == 0)
			continue;
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
		    "is granted %u %s instead of %u, for which %s finds no place", (unsigned)fewer,
		    espl__exec_unit(x, fewer), (unsigned)gpus, x->items.placer->who);
		espl__item_narrow(x, item, fewer);
	}
}

static void
find_stuck(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		if (s->algorithm != NULL && !s->over && !espl__search_idle(s))
			espl__search_wind_up(s, ESPL__RUN_FAILED,
			    "%s neither requests trials nor finishes the search",
			    s->algorithm->who);
	}
}

/* In a pool, ends only those that cannot be placed, and lets the others be asked about again. 1:
 * some ended. */
static int
end_unplaced(struct espl__exec *x)
{
	if (!x->config->pool || x->items.unplaced == 0)
		return 0;
	for (uint32_t i = 0; i < x->items.gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i]);
		struct espl__trial *t = item->trial;
		char name[48];

		if (item->target_count > 0)
			continue;
		if (t->search->jobs == NULL) {
			espl__search_wind_up(t->search, ESPL__RUN_FAILED,
			    "trial %s is granted %u %s, but %s finds no place for it",
			    espl__trial_name(espl__trial_uid(t), name),
			    (unsigned)item->pub.granted.gpus,
			    espl__exec_unit(x, item->pub.granted.gpus), x->items.placer->who);
		} else {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "fails: %s finds no place for its %u %s", x->items.placer->who,
			    (unsigned)item->pub.granted.gpus,
			    espl__exec_unit(x, item->pub.granted.gpus));
			(void)espl__trial_over(x, t, ESPL_END_FAILED, NULL);
		}
		espl__tier_wake(&x->items.top, x->now);
		return 1;
	}
	return 0;
}

/* The first waiting one by name, for a pool: " (job 'a' first)". */
static void
name_first(const struct espl__exec *x, char *to, size_t room)
{
	const struct espl__item *item = x->items.top.items_count > 0
	    ? (const struct espl__item *)(const void *)x->items.top.items[x->items.top.items_from]
	    : NULL;

	to[0] = '\0';
	if (!x->config->pool || item == NULL)
		return;
	if (item->trial != NULL && item->trial->search->jobs != NULL)
		(void)snprintf(to, room, " (job '%.100s' first)",
		    item->trial->search->jobs->list.jobs[item->trial->pub.id].name);
	else
		(void)snprintf(to, room, " (of experiment '%.100s' first)",
		    x->searches.list[item->pub.experiment]->config->name);
}

static void
end_stalled(struct espl__exec *x)
{
	/* on all nodes except those that are set aside individually */
	uint32_t quarantined = 0, gpus = 0;
	char first[140];

	narrow_unplaced(x);
	if (x->round.ending != 0 || may_change(x))
		return;
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		quarantined += (x->fleet.live[i]->flags & ESPL_NODE_QUARANTINED) != 0;
		for (uint32_t k = 0; k < x->fleet.live[i]->gpu_count; k++)
			gpus += !x->fleet.live[i]->gpus[k]->blocked;
	}
	name_first(x, first, sizeof first);
	if (x->fleet.gpus > 0 && (end_unplaced(x) || end_stuck_share(x)))
		return;
	if (quarantined > 0 && quarantined == x->fleet.live_count)
		espl__exec_fails(x,
		    gpus == 0 ? "every GPU is set aside"
			: x->searches.reports == 0
			? "trials fail before their first report on every node"
			: "every node is set aside because all trials fail there");
	else if (x->items.count > 0 && x->items.unplaced == 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "%llu trial%s%s, but %s does not grant %s any %s",
		    (unsigned long long)x->items.count, x->items.count == 1 ? " waits" : "s wait",
		    first, x->items.top.allocator->who, x->items.count == 1 ? "it" : "them",
		    espl__exec_unit(x, 2));
	else if (x->items.count > 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "%u trial%s been granted %s, but %s finds no place for %s", x->items.unplaced,
		    x->items.unplaced == 1 ? " has" : "s have", espl__exec_unit(x, 2),
		    x->items.placer->who, x->items.unplaced == 1 ? "it" : "them");
	else
		find_stuck(x);
}

void
espl__round_end(struct espl__exec *x)
{
	enum espl__run_end before;
	uint32_t open;

	ESPL__CHECK(x, EXEC);
	end_if_idle(x);
	do {
		before = x->round.ending;
		open = espl__searches_open(x);
		espl__cluster_follow(x, !espl__searches_need_no_nodes(x));
		espl__round_news(x);
		end_stalled(x);
		end_if_idle(x);
	} while (
	    x->round.ending != before || (x->round.ending == 0 && espl__searches_open(x) != open));
}
