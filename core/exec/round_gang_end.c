/* round_gang_end.c - how a gang ended, what is to blame, and what becomes of its trial.
 *
 * A failure counts against trial.retries; what is certain to happen again is not retried: a report
 * without the metric, and a program that does not start at all.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/searches_trials.h"
#include "exec/state.h"

/* nodes in a row that went away under a trial, without a checkpoint in between */
#define LOST_MOST 5u
#define ALIKE_MOST 3u /* trials that fail alike: the program is at fault */
/* trials in a row that end before their first report: the program is at fault */
#define UNSTARTED_MOST 3u
/* What is needed of a gang that is gone. */
struct ended_gang {
	enum espl__gang_end how;
	const char *text;
	int hopeless; /* it would fail again */
	int over;     /* it had reached its budget: its result is valid */
};

/* ---- what is to blame --------------------------------------------------------------------- */

/* Several different trials failing quickly on one node: the node is faulty, not the trials. */
static void
blame_node(struct espl__exec *x, const struct espl__gang *g, uint64_t lease)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, lease);

	if (n == NULL || !n->live || x->config->asked ||
	    n->failed_trial == espl__trial_uid(g->trial))
		return;
	if (n->proved && espl__trial_restores(g->trial) > 0)
		/* trials run there, and this one has trained before: it is at fault */
		return;
	n->failed_trial = espl__trial_uid(g->trial);
	n->failures++;
	if (n->failures < 3 || (n->pub.flags & ESPL_NODE_QUARANTINED) != 0)
		return;
	espl__machine_flag(&x->fleet, n, ESPL_NODE_QUARANTINED, 0);
	espl__exec_note(x, ESPL_ABOUT_NODE, lease,
	    "node %llu is set aside: 3 different trials failed there at their start, and none "
	    "succeeded in between",
	    (unsigned long long)lease);
	espl__exec_show_node(x, n, "quarantined");
	x->cluster.dirty = 1;
	espl__exec_why(x, ESPL_WHY_NODES);
	x->items.place_why |= ESPL_WHY_NODES;
}

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

static int
other_nodes_work(const struct espl__exec *x, uint64_t lease)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->id != lease && x->fleet.live[i]->state == ESPL_NODE_READY &&
		    (x->fleet.live[i]->flags & ESPL_NODE_QUARANTINED) == 0)
			return 1;
	return 0;
}

/* A gang that ran when the row of failures began may still report. */
static int
one_may_report(const struct espl__exec *x, const struct espl__search *s,
    const struct espl__gang *ended)
{
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (g != ended && g->trial->search == s && g->id < s->unstarted.until &&
		    g->state != ESPL__GANG_LEAVING && !g->killed)
			return 1;
	return 0;
}

/* Trials that end before their first report, one after the other and wherever they run: so will all
 * others. Where some trial has reported, it takes as many different ones; else two, one of them
 * tried again. */
static void
count_unstarted(struct espl__exec *x, const struct espl__gang *g, uint64_t lease, const char *text)
{
	struct espl__search *s = g->trial->search;
	struct espl__unstarted *row = &s->unstarted;
	uint64_t trial = g->trial->pub.id;
	int one_node =
	    row->count == 0 || (row->one_node && row->node == lease && lease != ESPL_NONE);
	uint32_t i = 0;

	if (s->algorithm == NULL || s->ending != 0 || x->round.ending != 0 || s->config->asked ||
	    g->trial->pub.iteration > g->trial->began)
		return; /* the program did run for this trial */
	if (row->count == 0)
		*row = (struct espl__unstarted){ .until = x->gangs.next,
			.trials = { ESPL_NONE, ESPL_NONE, ESPL_NONE } };
	row->count++;
	row->node = lease;
	row->one_node = (uint8_t)one_node;
	while (i < UNSTARTED_MOST && row->trials[i] != trial && row->trials[i] != ESPL_NONE)
		i++;
	if (i < UNSTARTED_MOST && row->trials[i] == ESPL_NONE) {
		row->trials[i] = trial;
		row->different++;
	}
	if (row->count < UNSTARTED_MOST || row->different < (s->reported ? UNSTARTED_MOST : 2) ||
	    one_may_report(x, s, g))
		return;
	if (row->one_node && other_nodes_work(x, lease)) {
		/* the node may be the cause: later trials there will show */
		row->count = row->different = 0;
		return;
	}
	espl__search_wind_up(s, ESPL__RUN_FAILED,
	    "%u attempts in a row ended before their first report; the last was trial %llu: %s",
	    row->count, (unsigned long long)trial, text);
}

/* Three trials that fail at the same iteration with the same words, where no trial got beyond it:
 * so will all others. */
static void
count_alike(struct espl__exec *x, const struct espl__trial *t, const char *text)
{
	struct espl__search *s = t->search;
	struct espl__alike *a = &s->alike;
	uint32_t i = 0;

	if (s->algorithm == NULL || s->ending != 0 || x->round.ending != 0 ||
	    t->pub.iteration == 0 || t->item == NULL || s->config->asked)
		return;
	if (a->text == NULL || a->iteration != t->pub.iteration ||
	    !espl__text_alike(a->text, text)) {
		free(a->text);
		*a = (struct espl__alike){ .text = espl__strdup(text),
			.iteration = t->pub.iteration };
	}
	while (i < a->count && a->trials[i] != t->pub.id)
		i++;
	if (i < a->count)
		return;
	a->trials[a->count++] = t->pub.id;
	if (a->count < ALIKE_MOST)
		return;
	a->count = 0;
	for (uint64_t k = 0; k < s->trials.trials.count; k++)
		if (espl__trial_at(&s->trials, k)->pub.iteration > t->pub.iteration)
			return;
	espl__search_wind_up(s, ESPL__RUN_FAILED,
	    "%u trials failed in the same way after iteration %llu, and none got further; the last "
	    "was trial %llu: %s",
	    ALIKE_MOST, (unsigned long long)t->pub.iteration, (unsigned long long)t->pub.id, text);
}

void
espl__gang_lacks_metric(struct espl__exec *x, struct espl__gang *g, const struct espl__event *e)
{
	const struct espl__search *s = g->trial->search;
	struct espl__buf b = { NULL, 0, 0 };

	ESPL__CHECK(g, GANG);
	espl__print(&b, "trial %llu reports no metric '%s' (experiment.metric)",
	    (unsigned long long)g->trial->pub.id, s->config->metric);
	for (uint32_t i = 0; i < e->as.report.count && i < 8; i++)
		if (e->as.report.metrics[i].metric < x->searches.metrics.count)
			espl__print(&b, "%s'%s'", i == 0 ? "; it reports " : ", ",
			    x->searches.metrics.names[e->as.report.metrics[i].metric]);
	if (!s->reported) {
		espl__search_wind_up(g->trial->search, ESPL__RUN_FAILED, "%s", espl__buf_text(&b));
		x->searches.futile = !x->config->pool;
	}
	g->hopeless = 1;
	/* without the trial: the caller names it */
	espl__exec_kill(x, g, s->config->trial.grace, strstr(espl__buf_text(&b), "reports no"));
	espl__buf_free(&b);
}

static void
praise_nodes(struct espl__exec *x, const struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, g->slots[i].node);
		n->failures = 0;
		n->failed_trial = ESPL_NONE;
	}
}

static espl_status
count_failure(struct espl__exec *x, struct espl__trial *t, const struct ended_gang *g,
    struct espl__diag *diag)
{
	const char *text = g->text;
	uint32_t retries = t->search->config->trial.retries;
	struct espl_trial room;
	char trial[48], *name, *folder;

	if (t->item == NULL && !espl__exec_unsaved(t))
		return ESPL_OK; /* nothing is lost */
	free(x->searches.last_failure);
	folder = espl__trial_folder("", espl__trial_uid(t));
	name = t->search->jobs != NULL
	    ? espl__format("job %s", t->search->jobs->list.jobs[t->pub.id].name)
	    : espl__format("trial %s", espl__trial_name(espl__trial_uid(t), trial));
	x->searches.last_failure = x->setup.simulated || x->config->asked
	    ? espl__format("%s: %s", name, text)
	    : espl__format("%s: %s (see %s/log)", name, text, folder + 1);
	free(name);
	free(folder);
	t->failures = g->hopeless && t->failures < retries ? retries + 1 : t->failures + 1;
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->failure != NULL)
			o->failure(o->ctx, x->now, espl__exec_shown(t, &room));
	if (g->hopeless)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "failed and is not retried: %s", text);
	else if (t->failures > retries)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "failed (attempt %u of %u, giving up): %s", (unsigned)t->failures,
		    (unsigned)retries + 1, text);
	else
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "failed (attempt %u of %u): %s", (unsigned)t->failures, (unsigned)retries + 1,
		    text);
	if (!g->hopeless)
		count_alike(x, t, text);
	if (t->failures > retries && t->item != NULL && !g->over)
		return espl__exec_trial_over(x, t, ESPL_END_FAILED, diag);
	return ESPL_OK;
}

/* The trial still has work to do: it waits for a new gang. */
static void
wait_again(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__item *item = t->item;

	if (t->pub.state == ESPL_TRIAL_RUNNING)
		espl__trial_state(&t->search->trials, t, ESPL_TRIAL_WAITING);
	item->pub.flags &= ~(ESPL_ITEM_RUNNING | ESPL_ITEM_CHANGING);
	item->view.flags &= ~ESPL_GANG_LOCKED;
	espl__item_progress(x, item, espl__trial_restores(t));
	espl__item_changed(item, 0);
	if (item->target_count > 0)
		espl__item_pending(x, item);
	espl__exec_show(x, t);
}

/* The program has never worked yet: start other trials before retrying this one. */
static void
go_to_back(struct espl__exec *x, struct espl__trial *t)
{
	const struct espl__item *old = t->item;
	double weight = old->pub.weight / t->search->config->weight;
	uint32_t least = old->pub.gpus_min, most = old->pub.gpus_max;

	espl__item_free(x, t->item);
	t->item = espl__item_new(x, t, weight, least, most);
}

/* The gang was asked to pause and left without a checkpoint (why: "" or how it ended). If no trial
 * has ever saved one, none will. */
static void
stop_saving(struct espl__search *s, const struct espl__trial *t, const char *why)
{
	struct espl__exec *x = s->exec;
	const char *colon = why[0] != '\0' ? ": " : "";

	if (s->algorithm != NULL &&
	    (s->algorithm->plugin->desc->caps & ESPL_CAP_NEEDS_SAVES) != 0) {
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "algorithm '%s' needs checkpoints, but the program does not save any: trial "
		    "%llu was asked to pause and exited without one%s%s",
		    s->algorithm->plugin->desc->name, (unsigned long long)t->pub.id, colon, why);
		x->searches.futile = !x->config->pool;
		return;
	}

	s->saves = 0;
	s->experiment.flags |= ESPL_EXPERIMENT_NO_SAVE;
	s->model.setup.checkpoint = 0;
	espl__model_service_stale(&s->model, 0);
	for (uint64_t i = 0; i < s->trials.trials.count; i++) {
		struct espl__item *item = espl__trial_at(&s->trials, i)->item;

		if (item == NULL)
			continue;
		item->pub.flags |= ESPL_ITEM_NO_SAVE;
		espl__item_changed(item, ESPL_WHY_HINT);
	}
	espl__exec_warn(x, ESPL_ABOUT_RUN, 0,
	    "%s%s%sthe program does not save checkpoints: trial %llu was asked to pause and exited "
	    "without one%s%s. From now on, trials are not paused or resized, promoted trials "
	    "restart from iteration 0, and no model is stored (set trial.checkpoint = false to "
	    "declare this)",
	    x->config->pool ? "experiment '" : "", x->config->pool ? s->config->name : "",
	    x->config->pool ? "': " : "", (unsigned long long)t->pub.id, colon, why);
}

/* Classifies a gang's end: faults that we found are failures of the trial, unless the node caused
 * them. */
static enum espl__gang_end
read_gang_end(const struct espl__exec *x, const struct espl__gang *g, const struct espl__event *e)
{
	if (g->fault != NULL &&
	    (e->as.ended.how != ESPL__END_LOST || e->as.ended.node == ESPL_NONE))
		return ESPL__END_FAILED;
	if (e->as.ended.how == ESPL__END_UNSAVED && g->trial->search->saved &&
	    (g->trial->item != NULL || g->trial->clones_waiting > 0))
		return ESPL__END_FAILED; /* other trials do save, and its state is needed */
	if (e->as.ended.how == ESPL__END_DONE && g->trial->item != NULL &&
	    g->state != ESPL__GANG_LEAVING && !g->killed && x->round.ending == 0)
		return ESPL__END_FAILED; /* exited without being asked to */
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
		(how == ESPL__END_FAILED && t->item == NULL && espl__exec_unsaved(t))))
		stop_saving(t->search, t, how == ESPL__END_FAILED ? g->text : "");
	if (how == ESPL__END_NO_CHECKPOINT) {
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "its checkpoint of iteration %llu is missing or damaged; it restarts from the "
		    "beginning",
		    (unsigned long long)t->pub.checkpoint);
		t->pub.checkpoint = 0;
		if (t->source != ESPL_NONE && t->item != NULL)
			return espl__exec_trial_over(x, t, ESPL_END_FAILED, diag);
	}
	if (t->item == NULL) {
		/* Its result stands, but its last checkpoint failed: count that, or it would be
		 * retried forever. */
		if (how == ESPL__END_FAILED)
			status = count_failure(x, t, g, diag);
		if (how != ESPL__END_DONE && how != ESPL__END_FINISHED && how != ESPL__END_UNSAVED)
			espl__exec_mark_unsaved(t);
		espl__exec_collect_later(x, t);
		return status;
	}
	if (how == ESPL__END_FINISHED)
		return espl__exec_trial_over(x, t, ESPL_END_ITSELF, diag);
	if (how == ESPL__END_FAILED)
		status = count_failure(x, t, g, diag);
	if (status != ESPL_OK || t->item == NULL)
		return status;
	wait_again(x, t);
	if (how == ESPL__END_FAILED && t->search->algorithm != NULL && !t->search->reported)
		go_to_back(x, t);
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

espl_status
espl__gang_ended(struct espl__exec *x, const struct espl__event *e, struct espl__diag *diag)
{
	struct espl__gang *g = espl__exec_gang(x, e->as.ended.gang);
	struct ended_gang ended;
	enum espl__gang_end how;
	struct espl__trial *t;
	uint64_t lease;
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
	text = espl__strdup(g->fault != NULL && how == ESPL__END_FAILED ? g->fault
		: e->as.ended.text[0] != '\0'                           ? e->as.ended.text
		: how == ESPL__END_FAILED ? "it exited without being asked to"
					  : "");
	if (how == ESPL__END_LOST && e->as.ended.node != ESPL_NONE && lost_too_often(t)) {
		free(text);
		how = ESPL__END_FAILED;
		text = espl__format("its node or agent was lost %u times in a row, without a "
				    "checkpoint in between",
		    (unsigned)t->lost);
	}
	ended = (struct ended_gang){ how, text, g->hopeless, g->over };
	lease = node_of(g, e->as.ended.node);
	if (how == ESPL__END_FAILED && !g->reported && !g->hopeless) {
		blame_node(x, g, lease);
		count_unstarted(x, g, lease, text);
	} else if (g->reported && how != ESPL__END_LOST) {
		praise_nodes(x, g);
	}
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->gang != NULL)
			o->gang(o->ctx, x->now, g->id, espl__trial_uid(t), ESPL__PHASE_ENDED,
			    g->share, g->slots, text);
	espl__gang_free(x, g);
	espl__exec_capacity(x);
	status = after_end(x, t, &ended, diag);
	espl__exec_show(x, t);
	free(text);
	return status;
}
