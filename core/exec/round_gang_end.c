/* round_gang_end.c - how a gang ended, the cause, and the next state of its trial. */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items.h"
#include "exec/items_place.h"
#include "exec/searches_decisions.h"
#include "exec/searches_faults.h"
#include "exec/searches_trials.h"

/* nodes lost in a row under a trial, without a checkpoint in between */
#define LOST_MOST 5u
/* from then on it runs alone on a node: what brings a node down would fail others with it */
#define SUSPECT_FROM 2u

/* What is needed of a gang that is gone. */
struct ended_gang {
	enum espl__gang_end how;
	struct espl__failure failure; /* if it failed */
};

/* ---- what is to blame --------------------------------------------------------------------- */

/* The node to blame for a gang's end; for a gang that we killed, its only node. */
static uint64_t
node_of(const struct espl__gang *g, uint64_t lease)
{
	if (lease != ESPL_NONE)
		return lease;
	for (uint32_t i = 1; i < g->share.gpus; i++)
		if (g->slots[i].node != g->slots[0].node)
			return ESPL_NONE;
	return g->slots[0].node;
}

/* It says that it is complete, and none of its reports had the metric. (A killed gang may have
 * reported it too late.) */
static int
is_without_result(const struct espl__gang *g, const struct espl__event *e)
{
	const struct espl__trial *t = g->trial;

	return e->as.ended.how == ESPL__END_FINISHED && t->item != NULL && !g->killed &&
	    !t->scored && t->unscored != NULL;
}

/* Classifies a gang's end: faults that we found are failures of the trial, unless the node caused
 * them. */
static enum espl__gang_end
read_gang_end(const struct espl__exec *x, const struct espl__gang *g, const struct espl__event *e)
{
	if (g->fault != NULL &&
	    (e->as.ended.how != ESPL__END_LOST || e->as.ended.node == ESPL_NONE))
		return ESPL__END_FAILED;
	if (g->timed_out && g->trial->item != NULL)
		return ESPL__END_FINISHED; /* what it has reported stands */
	if (e->as.ended.how == ESPL__END_UNSAVED && g->trial->search->saved &&
	    (g->trial->item != NULL || g->trial->clones_waiting > 0))
		return ESPL__END_FAILED; /* other trials do save, and its state is needed */
	if (e->as.ended.how == ESPL__END_DONE && g->trial->item != NULL &&
	    g->state != ESPL__GANG_LEAVING && !g->killed && x->round.ending == 0)
		return ESPL__END_FAILED; /* exited without being asked to */
	if (is_without_result(g, e))
		return ESPL__END_FAILED;
	return e->as.ended.how;
}

static espl_status
after_end(struct espl__exec *x, struct espl__trial *t, const struct ended_gang *g,
    struct espl__diag *diag)
{
	enum espl__gang_end how = g->how;
	espl_status status = ESPL_OK;

	if (t->search->saves && !t->search->saved &&
	    (how == ESPL__END_UNSAVED ||
		(how == ESPL__END_FAILED && t->item == NULL && espl__trial_unsaved(t))))
		espl__search_stop_saving(t->search, t,
		    how == ESPL__END_FAILED ? g->failure.text : "");
	if (how == ESPL__END_NO_CHECKPOINT) {
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "its checkpoint of iteration %llu is missing or damaged; it restarts from the "
		    "beginning",
		    (unsigned long long)t->pub.checkpoint);
		t->pub.checkpoint = 0;
		if (t->source != ESPL_NONE && t->item != NULL)
			return espl__trial_over(x, t, ESPL_END_FAILED, diag);
	}
	if (t->item == NULL) {
		/* Its result is kept, but its last checkpoint failed: count that, or it would be
		 * retried forever. */
		if (how == ESPL__END_FAILED)
			status = espl__search_fault(t, &g->failure, diag);
		if (how != ESPL__END_DONE && how != ESPL__END_FINISHED && how != ESPL__END_UNSAVED)
			espl__trial_mark_unsaved(t);
		espl__trial_collect_later(x, t);
		return status;
	}
	if (how == ESPL__END_FINISHED)
		return espl__trial_over(x, t, ESPL_END_ITSELF, diag);
	if (how == ESPL__END_FAILED)
		status = espl__search_fault(t, &g->failure, diag);
	if (status != ESPL_OK || t->item == NULL)
		return status;
	t->displaced = how == ESPL__END_DONE;
	espl__trial_wait(t, 0);
	espl__item_within(x, t->item);
	if (t->lost >= SUSPECT_FROM)
		espl__item_apart(t->item);
	if (how == ESPL__END_FAILED && t->search->algorithm != NULL && !t->search->reported)
		espl__trial_hold(x, t); /* other configurations say more about the script */
	else if (how == ESPL__END_FAILED)
		espl__item_avoid(t->item, t->failed_on, t->failed_at);
	return ESPL_OK;
}

/* A trial that takes its nodes down with it would be trained, and leased for, without end. */
static int
lost_too_often(struct espl__trial *t)
{
	uint64_t at = espl__trial_restores(t);

	if (t->lost == 0 || at > t->lost_at) {
		t->lost = 0;
		t->lost_at = at;
	}
	return ++t->lost > LOST_MOST;
}

/* Was a node lost that may be the trial's fault? One whose provider had announced its end is not;
 * where the announcement is lost with it, espl__searches_taken_back() has the last word. */
static int
is_blamed_loss(const struct espl__exec *x, enum espl__gang_end how, uint64_t lease)
{
	const struct espl__machine *n = espl__machine_at(&x->fleet, lease);

	if (how != ESPL__END_LOST || lease == ESPL_NONE)
		return 0;
	return !espl__exec_follows(x, ESPL__RULES_LOSSES) || n == NULL ||
	    n->pub.state != ESPL_NODE_NOTICE;
}

/* Why the gang ended, for people; freed by the caller. */
static char *
end_text(const struct espl__gang *g, const struct espl__event *e, enum espl__gang_end how)
{
	if (how != ESPL__END_FAILED)
		return espl__strdup(e->as.ended.text);
	if (g->fault != NULL)
		return espl__strdup(g->fault);
	if (is_without_result(g, e))
		return espl__format("it says that it is complete, and %s", g->trial->unscored);
	return espl__strdup(
	    e->as.ended.text[0] != '\0' ? e->as.ended.text : "it exited without being asked to");
}

espl_status
espl__round_gang_ended(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	struct espl__gang *g = espl__gang_at(x, e->as.ended.gang);
	struct ended_gang ended;
	enum espl__gang_end how;
	struct espl__trial *t;
	uint64_t lease;
	int hopeless, blamed;
	espl_status status;
	char *text;

	ESPL__CHECK(x, EXEC);
	if (g == NULL)
		return ESPL_OK;
	t = g->trial;
	how = read_gang_end(x, g, e);
	if (g->onto != NULL && g->fault == NULL && how == ESPL__END_FAILED) {
		how = ESPL__END_LOST; /* the change may be at fault: by checkpoint from now on */
		t->restarts = 1;
	}
	text = end_text(g, e, how);
	blamed = is_blamed_loss(x, how, e->as.ended.node);
	if (blamed && lost_too_often(t)) {
		const char *why = espl__search_loss_why(t);

		free(text);
		how = ESPL__END_FAILED;
		text = espl__format("its node or agent was lost %u times in a row, without a "
				    "checkpoint in between%s%s",
		    (unsigned)t->lost, why != NULL ? "; the machine's end: " : "",
		    why != NULL ? why : "");
	}
	if (blamed && how == ESPL__END_LOST)
		espl__search_lost_on(t, e->as.ended.node);
	lease = node_of(g, e->as.ended.node);
	hopeless = g->hopeless || is_without_result(g, e); /* which it would be again */
	ended = (struct ended_gang){ how,
		{ text, g->iteration, g->reports, lease, hopeless, g->over } };
	if (how == ESPL__END_FAILED) {
		if (!hopeless && (!g->reported || espl__exec_follows(x, ESPL__RULES_ROW)))
			espl__cluster_failed_on(x, g, lease);
		espl__search_attempt_failed(x, g, lease, text);
	}
	espl__gang_free(x, g, text);
	espl__searches_capacity(x);
	status = after_end(x, t, &ended, diag);
	espl__trial_show(x, t);
	free(text);
	return status;
}
