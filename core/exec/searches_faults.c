/* searches_faults.c - trials that fail: counted, and the search ended when all others will.
 *
 * A failure counts against trial.retries; what is certain to happen again is not retried: a report
 * without the metric, and a program that does not start at all.
 */
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/items_lists.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"
#include "exec/searches_trials.h"

#define ALIKE_MOST 3u /* trials that fail alike: the program is at fault */
/* trials in a row that end before their first report: the program is at fault */
#define UNSTARTED_MOST 3u

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

/* If trials end before their first report, one after the other and on any node, all others will,
 * too. Where some trial has reported, this takes as many different ones; otherwise two, one of them
 * retried. */
void
espl__search_unstarted(struct espl__exec *x, const struct espl__gang *g, uint64_t lease,
    const char *text)
{
	struct espl__search *s = g->trial->search;
	struct espl__unstarted *row = &s->unstarted;
	char name[48];
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
	    "%u attempts in a row ended before their first report; the last was trial %s: %s",
	    row->count, espl__trial_name(espl__trial_uid(g->trial), name), text);
}

/* Three trials that fail at the same iteration with the same words, where no trial got beyond it:
 * so will all others. */
static void
count_alike(struct espl__exec *x, const struct espl__trial *t, const char *text)
{
	struct espl__search *s = t->search;
	struct espl__alike *a = &s->alike;
	char name[48];
	uint32_t i = 0;

	if (s->algorithm == NULL || s->ending != 0 || x->round.ending != 0 ||
	    t->pub.iteration == 0 || s->config->asked)
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
	    "was trial %s: %s",
	    ALIKE_MOST, (unsigned long long)t->pub.iteration,
	    espl__trial_name(espl__trial_uid(t), name), text);
}

espl_status
espl__search_fault(struct espl__trial *t, const char *text, int hopeless, int over,
    struct espl__diag *diag)
{
	struct espl__exec *x = t->search->exec;
	uint32_t retries = t->search->config->trial.retries;
	espl_status status = ESPL_OK;
	struct espl_trial room;
	char trial[48], *name, *dir;

	if (t->item == NULL && !espl__trial_unsaved(t))
		return ESPL_OK; /* nothing is lost */
	free(x->searches.last_failure);
	dir = espl__trial_dir("", espl__trial_uid(t));
	name = t->search->jobs != NULL
	    ? espl__format("job %s", t->search->jobs->list.jobs[t->pub.id].name)
	    : espl__format("trial %s", espl__trial_name(espl__trial_uid(t), trial));
	x->searches.last_failure = x->setup.simulated || x->config->asked
	    ? espl__format("%s: %s", name, text)
	    : espl__format("%s: %s (see %s/log)", name, text, dir + 1);
	free(name);
	free(dir);
	t->failures = hopeless && t->failures < retries ? retries + 1 : t->failures + 1;
	ESPL__OBSERVE(x, failure, espl__trial_shown(t, &room));
	if (hopeless)
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
	if (t->item == NULL)
		return ESPL_OK;
	if (t->failures > retries && !over)
		status = espl__trial_over(x, t, ESPL_END_FAILED, diag);
	if (status == ESPL_OK)
		count_alike(x, t, text);
	return status;
}

/* May a gang that ran at the first such pause still save, or (asked) was it asked to pause? */
static int
one_may_save(const struct espl__search *s, int asked)
{
	for (const struct espl__gang *g = s->exec->gangs.first; g != NULL; g = g->next)
		if (g->trial->search == s && g->id < s->unsaved_until && !g->killed &&
		    (g->directive == ESPL__PAUSE || (!asked && g->directive != ESPL__STOP)))
			return 1;
	return 0;
}

/* The gang was asked to pause and left without a checkpoint (why: "" or how it ended), and no trial
 * has ever saved one. If none of those that run will, none ever will. One to be resized has lost
 * its work, as will the next: then only those asked to pause are waited for. */
void
espl__search_stop_saving(struct espl__search *s, const struct espl__trial *t, const char *why)
{
	struct espl__exec *x = s->exec;
	const char *colon = why[0] != '\0' ? ": " : "";
	char name[48];
	int needed =
	    s->algorithm != NULL && (s->algorithm->plugin->desc->caps & ESPL_CAP_NEEDS_SAVES) != 0;

	if (s->pauses_unsaved++ == 0)
		s->unsaved_until = x->gangs.next;
	if (one_may_save(s, t->item != NULL || s->pauses_unsaved > 2) ||
	    (needed && (s->pauses_unsaved == 1 || x->round.ending != 0)))
		return;
	if (needed) {
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "algorithm '%s' needs checkpoints, but no trial has saved one in %u pauses; "
		    "the last to pause was trial %s%s%s",
		    s->algorithm->plugin->desc->name, s->pauses_unsaved,
		    espl__trial_name(espl__trial_uid(t), name), colon, why);
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
		espl__item_flag(item, ESPL_ITEM_NO_SAVE, 0);
		espl__item_changed(item, ESPL_WHY_HINT);
	}
	espl__exec_warn(x, ESPL_ABOUT_RUN, 0,
	    "%s%s%strial %s paused without a checkpoint%s%s. As no trial has saved one so far, "
	    "from now on none is paused or resized, and a trial that restarts begins at "
	    "iteration 0 (if the program saves none, set trial.checkpoint = false)",
	    x->config->pool ? "experiment '" : "", x->config->pool ? s->config->name : "",
	    x->config->pool ? "': " : "", espl__trial_name(espl__trial_uid(t), name), colon, why);
}
