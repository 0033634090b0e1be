/* round_resume.c - a new driver: which gangs outlived the last one, and what became of the rest. */
#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items_tiers.h"
#include "exec/questions.h"
#include "exec/searches_plan.h"
#include "exec/searches_more.h"
#include "exec/searches_trials.h"

static int
has_outlived(const struct espl__exec *x, uint64_t node)
{
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (g->outlived && espl__gang_on(g, node))
			return 1;
	return 0;
}

/* The driver was restarted: processes have ended, and the states of nodes must be reported again.
 */
static void
reset_nodes(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		n->releasing = 0;
		/* A resume assumes that the cause was fixed: clear the failures of every node. */
		espl__machine_forgive(n, UINT64_MAX);
		espl__machine_flag(&x->fleet, n, 0, ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE);
		if (has_outlived(x, n->pub.id))
			continue;
		if (n->pub.state == ESPL_NODE_READY || n->pub.state == ESPL_NODE_NOTICE)
			espl__machine_state(&x->fleet, n, ESPL_NODE_BOOTING, ESPL_ANY);
	}
}

static void
reset_trial(struct espl__exec *x, struct espl__trial *t)
{
	if (t->item == NULL) {
		espl__trial_mark_unsaved(t);
		espl__trial_collect_later(x, t);
		return;
	}
	espl__trial_wait(t, ESPL_WHY_NODES);
}

/* Ends gangs that are gone; those that outlived the driver stay as they are. */
static void
drop_gangs(struct espl__exec *x)
{
	struct espl__gang *g, *next;

	espl__gangs_return(x);
	for (uint32_t i = x->items.gangs_count; i > 0; i--) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i - 1]);

		g = item->trial != NULL ? item->trial->gang : NULL;
		if (g == NULL || !g->outlived || !espl__gang_matches(g, item))
			espl__item_target(x, item, NULL, 0);
	}
	for (g = x->gangs.first; g != NULL; g = next) {
		struct espl__trial *t = g->trial;

		next = g->next;
		if (g->outlived) {
			espl__gang_seen(x, g);
			continue;
		}
		espl__gang_free(x, g, "lost with the driver");
		reset_trial(x, t);
	}
}

static void
note_return(struct espl__exec *x)
{
	uint32_t kept = 0;

	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		kept += g->outlived;
	if (kept > 0)
		espl__exec_note(x, ESPL_ABOUT_RUN, 0,
		    "the driver came back; %u of %u gangs kept running", (unsigned)kept,
		    (unsigned)x->gangs.count);
	else
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "the driver came back; %u gang%s gone",
		    (unsigned)x->gangs.count, x->gangs.count == 1 ? " is" : "s are");
}

void
espl__round_reopen(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	/* RESUME follows: it continues as one that was interrupted */
	if (x->round.ended && x->round.ending == ESPL__RUN_DONE && !x->config->pool &&
	    espl__exec_extends(x, 0) == NULL)
		x->round.ending = ESPL__RUN_INTERRUPTED;
}

void
espl__round_continue(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (x->config->pool && x->round.ended && x->round.ending == ESPL__RUN_DONE &&
	    espl__exec_reopens(x))
		x->round.ending = ESPL__RUN_INTERRUPTED; /* as above */
	espl__searches_reopen(x);
}

void
espl__round_resume(struct espl__exec *x)
{
	int forgive;

	ESPL__CHECK(x, EXEC);
	note_return(x);
	drop_gangs(x);
	reset_nodes(x);
	espl__gangs_rejoin(x);
	while (x->searches.computing_count > 0) {
		struct espl_outcome lost = ESPL_INIT(struct espl_outcome);
		struct espl__event e = { .type = ESPL__EV_OUTCOME };
		lost.status = ESPL_E_REMOTE;
		lost.token = x->searches.computing[0].token;
		e.as.outcome = &lost;
		espl__searches_outcome(x, &e);
	}
	x->round.timer = ESPL_NEVER;
	x->fleet.no_route = 0; /* it may have been mended: tried again */
	espl__round_mark_nodes(x);
	espl__searches_capacity(x);
	/* The cause of a failure may have been fixed; a deadline or a budget that was reached still
	 * is. */
	forgive = x->round.ending == ESPL__RUN_INTERRUPTED || x->round.ending == ESPL__RUN_FAILED;
	espl__lease_resume(x, forgive);
	if (forgive) {
		x->round.ending = 0;
		x->round.ended = 0;
		espl__searches_forgive(x);
	}
}
