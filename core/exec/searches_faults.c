/* searches_faults.c - why an attempt failed, and what follows: the only place that decides it.
 *
 * The cause is one of four, and is found by what the same failure does elsewhere.
 *
 * configuration  The trial fails in the same way twice: at the same iteration, with the same exit
 *                status or signal and the same last words, numbers aside. It is not trained a third
 *                time. It is recorded as failed, the algorithm learns it, and the search continues.
 * script         Nothing has ever worked: no trial has reported the metric, and ten attempts
 *                failed; or ten different trials failed alike at one iteration that none has
 *                passed. The search ends. While nothing has worked, a trial that failed waits
 *                until the algorithm has no other configuration to try: ten attempts then are of
 *                ten configurations, and a search of which half the configurations work is ended
 *                in error once in a thousand times, in whatever order they come.
 * node           Trials that failed there at their start work elsewhere: the node is set aside
 *                (cluster.c). Hence a trial is retried on another node, where there is one
 *                (items.c).
 * chance         All else: tried again, as often as trial.retries says.
 *
 * If trials worked, and then ten different ones fail alike before their first report, and none that
 * began in between works, something has changed for all of them. The search ends, and can be
 * resumed, if the last words are those of a disk; else there is a warning, since a grid may well
 * try all configurations that need too much memory one after the other.
 *
 * The loss of a node or an agent is not a failure of a trial (round_gang_end.c counts them).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/items_tiers.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_trials.h"

#define SAME_MOST 2u /* failures in the same way: the configuration is at fault */
#define SUM_ROOM 240u

/* ---- ways to fail ------------------------------------------------------------------------- */

/* A word that differs from one attempt to the next: a number, a process, an address, a time. */
static int
has_digit(const char *word, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (word[i] >= '0' && word[i] <= '9')
			return 1;
	return 0;
}

static int
is_of_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    c == '_' || (c & 0x80) != 0;
}

/* What the text of a failure has in common with others of its kind: without the rank that failed
 * first, and with every number as '#', except the exit status or the signal. */
static void
sum_text(const char *text, char to[SUM_ROOM])
{
	size_t used = 0, size;
	int status;

	if (strncmp(text, "rank ", 5) == 0 && strchr(text, ':') != NULL)
		text = strchr(text, ':') + 1;
	text += strspn(text, " ");
	status =
	    strncmp(text, "exit status ", 12) == 0 || strncmp(text, "killed by signal ", 17) == 0;
	for (; *text != '\0' && used + 1 < SUM_ROOM; text += size) {
		for (size = 0; is_of_word(text[size]);)
			size++;
		if (size == 0 || (has_digit(text, size) && !status)) {
			to[used++] = size == 0 ? *text : '#';
			size += size == 0;
			continue;
		}
		status &= !has_digit(text, size); /* that number has passed */
		for (size_t i = 0; i < size && used + 1 < SUM_ROOM; i++)
			to[used++] = text[i];
	}
	to[used] = '\0';
}

/* How often the trial has failed in this way, now included. */
static uint32_t
count_way(struct espl__trial *t, const struct espl__failure *f)
{
	struct espl__arena *arena = &t->search->exec->arena;
	struct espl__way **at = &t->ways, *way;
	char sum[SUM_ROOM];

	sum_text(f->text, sum);
	while (*at != NULL && ((*at)->iteration != f->iteration || strcmp((*at)->sum, sum) != 0))
		at = &(*at)->next;
	way = *at;
	if (way != NULL) {
		*at = way->next;
	} else {
		way = espl__arena_alloc(arena, sizeof *way);
		way->iteration = f->iteration;
		way->sum = espl__arena_strdup(arena, sum);
	}
	way->next = t->ways; /* the last one comes first */
	t->ways = way;
	way->reports = f->reports;
	t->failed_on = f->node;
	t->failed_at = t->search->exec->now;
	return ++way->times;
}

/* ---- the script --------------------------------------------------------------------------- */

static int
other_nodes_work(const struct espl__exec *x, uint64_t lease)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->id != lease && x->fleet.live[i]->state == ESPL_NODE_READY &&
		    (x->fleet.live[i]->flags & ESPL_NODE_QUARANTINED) == 0)
			return 1;
	return 0;
}

/* A gang that ran when the first attempt failed, or runs for much longer than any that failed, may
 * still report. */
static int
one_may_report(const struct espl__exec *x, const struct espl__search *s,
    const struct espl__gang *ended)
{
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (g != ended && g->trial->search == s && g->state != ESPL__GANG_LEAVING &&
		    !g->killed &&
		    (g->id < s->faults.until || x->now >= espl__search_proves_at(s, g)))
			return 1;
	return 0;
}

/* A pool of plain jobs alone ends as a run does: what waits may be resumed. */
static void
blame_script(struct espl__search *s, const struct espl__trial *t, const char *text)
{
	struct espl__exec *x = s->exec;
	unsigned attempts = s->faults.attempts;
	char name[48];

	if (s->jobs == NULL) {
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "no trial has reported the metric, and %u attempts failed; the last was trial "
		    "%s: %s",
		    attempts, espl__trial_name(espl__trial_uid(t), name), text);
	} else if (x->searches.count == 1) {
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "no job has ever reported, and %u attempts failed; the last was job %s: %s",
		    attempts, s->jobs->list.jobs[t->pub.id].name, text);
	} else {
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "no plain job has ever reported, and %u attempts failed; the last was job %s: "
		    "%s",
		    attempts, s->jobs->list.jobs[t->pub.id].name, text);
	}
}

/* ---- trials that stop working -------------------------------------------------------------- */

/* Messages of the C library and of Python about disks.  A configuration does not cause these. */
static int
is_of_disk(const char *text)
{
	static const char *const words[] = { "No space left on device", "Disk quota exceeded",
		"Read-only file system", "Stale file handle", "Input/output error" };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strstr(text, words[i]) != NULL)
			return 1;
	return 0;
}

/* A gang that began after the first of the row, and runs for much longer than any of them, works.
 */
static int
one_works(const struct espl__search *s)
{
	const struct espl__exec *x = s->exec;
	const struct espl__faults *f = &s->faults;

	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (g->trial->search == s && g->id >= f->row_from && !g->killed &&
		    g->state != ESPL__GANG_LEAVING &&
		    x->now >= g->began + 2 * f->row_longest + ESPL_SECOND)
			return 1;
	return 0;
}

static void
judge_row(struct espl__search *s, const struct espl__trial *t, const char *text)
{
	struct espl__exec *x = s->exec;
	char name[48];

	if (s->faults.row_count < ESPL__SCRIPT_ATTEMPTS || one_works(s))
		return;
	(void)espl__trial_name(espl__trial_uid(t), name);
	if (is_of_disk(text) && !s->config->asked && espl__exec_follows(x, ESPL__RULES_ROW)) {
		if (x->config->pool)
			espl__search_wind_up(s, ESPL__RUN_FAILED,
			    "trials worked, and the last %u that began failed alike; the last was "
			    "trial %s: %s",
			    ESPL__SCRIPT_ATTEMPTS, name, text);
		else
			espl__exec_interrupt(x,
			    "trials worked, and the last %u that began failed alike; the last was "
			    "trial %s: %s",
			    ESPL__SCRIPT_ATTEMPTS, name, text);
		return;
	}
	if (!s->faults.row_said)
		espl__exec_warn(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "trials worked, and the last %u that began failed alike before they reported; "
		    "the last was trial %s: %s (if the cause is not in their configurations, "
		    "interrupt the run, and resume it when that is fixed; experiment.failures_max "
		    "limits failures)",
		    ESPL__SCRIPT_ATTEMPTS, name, text);
	s->faults.row_said = 1;
}

/* Some trial has worked. Jobs have programs of their own. */
static void
count_row(struct espl__search *s, const struct espl__gang *g, const char *text)
{
	struct espl__exec *x = s->exec;
	struct espl__faults *f = &s->faults;
	espl_span took = x->now - g->began;
	char sum[SUM_ROOM];
	uint32_t i = 0;

	if (s->jobs != NULL || g->reported)
		return;
	sum_text(text, sum);
	if (f->row == NULL || f->row_count == 0 || strcmp(f->row, sum) != 0) {
		free(f->row);
		f->row = espl__strdup(sum);
		f->row_from = x->gangs.next;
		f->row_count = 0;
		f->row_longest = 0;
		f->row_said = 0;
	}
	f->row_longest = took > f->row_longest ? took : f->row_longest;
	while (i < f->row_count && f->row_trials[i] != g->trial->pub.id)
		i++;
	if (i == f->row_count && i < ESPL__SCRIPT_ATTEMPTS)
		f->row_trials[f->row_count++] = g->trial->pub.id;
	judge_row(s, g->trial, text);
}

/* ---- an attempt --------------------------------------------------------------------------- */

void
espl__search_attempt_failed(struct espl__exec *x, const struct espl__gang *g, uint64_t lease,
    const char *text)
{
	struct espl__search *s = g->trial->search;
	struct espl__faults *f = &s->faults;
	espl_span took = x->now - g->began;

	ESPL__CHECK(x, EXEC);
	if (s->ending != 0 || x->round.ending != 0)
		return;
	if (s->reported) {
		count_row(s, g, text);
		return;
	}
	if (f->attempts++ == 0) {
		f->until = x->gangs.next;
		f->longest = 0;
		f->one_node = 1;
	} else if (lease != f->node) {
		f->one_node = 0;
	}
	f->one_node &= lease != ESPL_NONE;
	f->node = lease;
	f->longest = took > f->longest ? took : f->longest;
	if (f->attempts < ESPL__SCRIPT_ATTEMPTS || one_may_report(x, s, g) ||
	    (f->one_node && other_nodes_work(x, lease)))
		return;
	blame_script(s, g->trial, text);
}

static int
was_passed(const struct espl__search *s, uint64_t iteration)
{
	for (uint64_t i = 0; i < s->trials.trials.count; i++)
		if (espl__trial_at(&s->trials, i)->pub.iteration > iteration)
			return 1;
	return 0;
}

/* Jobs have lengths of their own, so that their iterations are not compared. */
static void
count_alike(struct espl__exec *x, const struct espl__trial *t, const struct espl__failure *f)
{
	struct espl__search *s = t->search;
	struct espl__faults *a = &s->faults;
	char sum[SUM_ROOM], name[48];
	uint32_t i = 0;

	if (s->jobs != NULL || !s->reported || s->ending != 0 || x->round.ending != 0 ||
	    t->pub.iteration == 0)
		return;
	sum_text(f->text, sum);
	if (a->alike == NULL || a->alike_at != t->pub.iteration || strcmp(a->alike, sum) != 0) {
		free(a->alike);
		a->alike = espl__strdup(sum);
		a->alike_at = t->pub.iteration;
		a->alike_count = 0;
	}
	while (i < a->alike_count && a->alike_trials[i] != t->pub.id)
		i++;
	if (i < a->alike_count)
		return;
	a->alike_trials[a->alike_count++] = t->pub.id;
	if (a->alike_count < ESPL__SCRIPT_ATTEMPTS)
		return;
	a->alike_count = 0;
	if (was_passed(s, t->pub.iteration))
		return;
	espl__search_wind_up(s, ESPL__RUN_FAILED,
	    "%u trials failed in the same way after iteration %llu, and none got further; the last "
	    "was trial %s: %s",
	    ESPL__SCRIPT_ATTEMPTS, (unsigned long long)t->pub.iteration,
	    espl__trial_name(espl__trial_uid(t), name), f->text);
}

/* ---- a failure ---------------------------------------------------------------------------- */

static void
keep_last(struct espl__exec *x, const struct espl__trial *t, const char *text)
{
	char trial[48], *name, *dir = espl__trial_dir("", espl__trial_uid(t));

	free(x->searches.last_failure);
	name = t->search->jobs != NULL
	    ? espl__format("job %s", t->search->jobs->list.jobs[t->pub.id].name)
	    : espl__format("trial %s", espl__trial_name(espl__trial_uid(t), trial));
	x->searches.last_failure = x->setup.simulated || x->config->asked
	    ? espl__format("%s: %s", name, text)
	    : espl__format("%s: %s (see %s/log)", name, text, dir + 1);
	free(name);
	free(dir);
}

espl_status
espl__search_fault(struct espl__trial *t, const struct espl__failure *f, struct espl__diag *diag)
{
	struct espl__exec *x = t->search->exec;
	uint32_t retries = t->search->config->trial.retries, attempt = t->failures + 1, same;
	espl_status status = ESPL_OK;
	struct espl_trial room;

	if (t->item == NULL && !espl__trial_unsaved(t))
		return ESPL_OK; /* nothing is lost */
	keep_last(x, t, f->text);
	same = count_way(t, f);
	t->failures = f->hopeless || same >= SAME_MOST || attempt > retries ? retries + 1 : attempt;
	x->searches.failed_attempts++;
	ESPL__OBSERVE(x, failure, espl__trial_shown(t, &room));
	if (f->hopeless)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "failed and is not retried: %s", f->text);
	else
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "failed (attempt %u of %u%s): %s", (unsigned)attempt, (unsigned)retries + 1,
		    attempt > retries       ? ", giving up"
			: same >= SAME_MOST ? ", in the same way as before: giving up"
					    : "",
		    f->text);
	if (t->item == NULL)
		return ESPL_OK;
	count_alike(x, t, f);
	if (t->failures > retries && !f->over && t->item != NULL)
		status = espl__trial_over(x, t, ESPL_END_FAILED, diag);
	return status;
}

/* ---- losses ------------------------------------------------------------------------------- */

void
espl__search_lost_on(struct espl__trial *t, uint64_t node)
{
	ESPL__ASSERT(node != ESPL_NONE);
	t->loss_on[1] = t->loss_on[0];
	t->loss_on[0] = node;
}

static void
forgive_losses(const struct espl__search *s, uint64_t node)
{
	for (uint64_t i = 0; i < s->trials.trials.count; i++) {
		struct espl__trial *t = espl__trial_at(&s->trials, i);

		if (t->loss_on[0] != node && t->loss_on[1] != node)
			continue;
		if (t->loss_on[0] == node)
			t->loss_on[0] = t->loss_on[1];
		t->loss_on[1] = ESPL_NONE;
		t->lost -= t->lost > 0;
	}
}

void
espl__searches_taken_back(const struct espl__exec *x, uint64_t node)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		forgive_losses(x->searches.list[i], node);
}

/* A machine's end may be known only some time after its trials are lost. */
const char *
espl__search_loss_why(const struct espl__trial *t)
{
	const struct espl__fleet *fleet = &t->search->exec->fleet;

	for (uint32_t i = 0; i < 2; i++) {
		const struct espl__machine *n = espl__machine_at(fleet, t->loss_on[i]);

		if (n != NULL && n->last != NULL)
			return n->last;
	}
	return NULL;
}

/* ---- programs that save nothing ----------------------------------------------------------- */

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
