/* real_end_reasons.c - how a gang ended, and the reason in words that are the same on every
 * machine.
 *
 * The text goes into the journal, so it contains no path, host or process id, except in the last
 * line that the trial printed.
 */
#include "base/assert.h"
#include "real/real.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"

/* Prefixes of an agent's texts about ends that are not the trial's fault (wire.h). */
#define FOLDER "run folder: "
#define STORE "store: "
#define SAVING "saving: "
#define SETUP "setup: "
#define SHARING "sharing: "

/* How likely this rank is the cause: what could not start, then what failed by itself, then what
 * may only have been ended because another one failed. */
static int
blame_score(const struct espl__rank_end *end)
{
	if (end->text[0] != '\0')
		return 5;
	if (end->code == ESPL__EXIT_PEER)
		return 1; /* it only tells that another rank was lost */
	if (end->code > 0)
		return 4;
	if (end->code == -SIGTERM || end->code == -SIGKILL)
		return 2;
	return end->code < 0 ? 3 : 0;
}

static const struct espl__rank_end *
find_culprit(const struct espl__rgang *gang)
{
	const struct espl__rank_end *worst = NULL;
	uint32_t i;

	if (gang->directive != 0 && gang->kind->of->config->trial.metrics != NULL)
		return NULL; /* none of them knew: each died of our signal, or of a lost peer */

	for (i = 0; i < gang->end_count; i++) {
		const struct espl__rank_end *end = &gang->ends[i];

		if (blame_score(end) == 0)
			continue;
		if (worst == NULL || blame_score(end) > blame_score(worst) ||
		    (blame_score(end) == blame_score(worst) && end->rank < worst->rank))
			worst = end;
	}
	return worst;
}

static void
fail_event(struct espl__event *event, enum espl__gang_end how, uint64_t node, const char *text,
    struct espl__arena *arena)
{
	event->as.ended.how = how;
	event->as.ended.node = node;
	event->as.ended.text = espl__arena_strdup(arena, text);
}

static int
lacks_checkpoint(const struct espl__rank_end *end)
{
	return strncmp(end->text, "no checkpoint", 13) == 0;
}

/* Saves that failed in a row, each after an agent's own retries, before the run is ended; and on
 * one node while those of others succeed, before that node is set aside. */
#define SAVES_IN_VAIN 5
#define SAVES_IN_VAIN_THERE 3

static int
is_private(const struct espl__rlease *lease)
{
	return lease != NULL && lease->agent != NULL && lease->agent->mover != NULL;
}

/* The run cannot continue, whatever node its trials are on. */
static void
report_trouble(struct espl__real *real, const char *text)
{
	if (real->troubled)
		return;
	real->troubled = 1;
	espl__log(ESPL_ERROR, "%s", text);
	espl__real_event(real, ESPL__EV_TROUBLE)->as.text =
	    espl__arena_strdup(espl__real_arena(real), text);
}

/* This node is of no use; what happened there says nothing about others. */
static void
report_unfit(struct espl__real *real, struct espl__rlease *lease, const char *text)
{
	struct espl__event *event;

	if (lease == NULL || lease->unfit)
		return;
	lease->unfit = 1;
	event = espl__real_event(real, ESPL__EV_UNFIT);
	event->as.node_why.lease = lease->id;
	event->as.node_why.text = espl__arena_strdup(espl__real_arena(real), text);
}

static void
check_folder(struct espl__real *real, const struct espl__rank_end *end)
{
	struct espl__rlease *lease = espl__real_lease(real, end->lease);
	char text[500];

	(void)snprintf(text, sizeof text, "cannot write to the %s node %llu: %s",
	    is_private(lease) ? "disk of" : "run directory on", (unsigned long long)end->lease,
	    end->text + strlen(FOLDER));
	if (is_private(lease))
		report_unfit(real, lease, text);
	else
		report_trouble(real, text);
}

/* The bucket may refuse one node (a proxy, a policy by address); it is at fault itself if the next
 * one cannot fetch either. */
static void
check_fetch(struct espl__real *real, const struct espl__rank_end *end)
{
	struct espl__rlease *lease = espl__real_lease(real, end->lease);
	char text[500];

	(void)snprintf(text, sizeof text, "node %llu cannot fetch a checkpoint from the bucket: %s",
	    (unsigned long long)end->lease, end->text + strlen(STORE));
	if (lease == NULL || (real->unfetched != 0 && real->unfetched != end->lease + 1))
		report_trouble(real, text);
	else
		report_unfit(real, lease, text);
	real->unfetched = end->lease + 1;
}

/* A checkpoint could not be saved for a reason other than the trial. */
static void
check_save(struct espl__real *real, const struct espl__rank_end *end)
{
	struct espl__rlease *lease = espl__real_lease(real, end->lease);
	const char *why = end->text + strlen(SAVING);
	unsigned there = lease != NULL ? ++lease->saved_in_vain : 0;
	char text[500];

	espl__log(ESPL_WARN, "a checkpoint could not be saved on node %llu: %s",
	    (unsigned long long)end->lease, why);
	real->saved_in_vain++;
	if (real->saved_in_vain >= SAVES_IN_VAIN) {
		(void)snprintf(text, sizeof text,
		    "%d checkpoints in a row could not be saved; the last was on node %llu: %s",
		    SAVES_IN_VAIN, (unsigned long long)end->lease, why);
		report_trouble(real, text);
	} else if (there >= SAVES_IN_VAIN_THERE && there > real->saved_in_vain) {
		(void)snprintf(text, sizeof text,
		    "%u checkpoints in a row could not be saved on node %llu, while others were "
		    "elsewhere: %s",
		    there, (unsigned long long)end->lease, why);
		report_unfit(real, lease, text);
	}
}

/* Reports that a node, its disk or the run directory cannot be used, or that GPUs cannot be shared
 * as configured, if that ended the gang. */
static void
check_surroundings(struct espl__real *real, const struct espl__rgang *gang)
{
	const struct espl__rank_end *folder = espl__real_end_with(gang, FOLDER),
				    *saving = espl__real_end_with(gang, SAVING),
				    *store = espl__real_end_with(gang, STORE),
				    *unshared = espl__real_end_with(gang, SHARING);

	if (saving != NULL)
		check_save(real, saving);
	if (folder != NULL)
		check_folder(real, folder);
	else if (store != NULL)
		check_fetch(real, store);
	else if (unshared != NULL)
		report_unfit(real, espl__real_lease(real, unshared->lease),
		    unshared->text + strlen(SHARING));
}

/* A node that cannot be set up is of no use to a search.  In a pool the others may still use it, so
 * there it is a failure of the trial. */
static void
give_up_node(const struct espl__real *real, const struct espl__rank_end *end)
{
	struct espl__rlease *lease = end != NULL ? espl__real_lease(real, end->lease) : NULL;

	if (lease == NULL || lease->agent == NULL || real->config->pool)
		return;
	lease->agent->unfit = 1;
	espl__agent_break(lease->agent, "trial.setup failed: %s", end->text + strlen(SETUP));
}

static void
add_said(const struct espl__rank_end *end, char *text, size_t room)
{
	size_t size = strlen(text);

	if (end != NULL && end->said != NULL && end->said[0] != '\0')
		(void)snprintf(text + size, room - size, "; the last line of its log is: %s",
		    end->said);
}

/* Every rank ended with status 0: was it asked to? */
static void
clean_verdict(struct espl__real *real, const struct espl__rgang *gang, struct espl__event *event)
{
	struct espl__arena *arena = espl__real_arena(real);
	const char *missed = gang->kind->of->config->trial.metrics_missed;
	char text[500];

	event->as.ended.how = ESPL__END_DONE;
	if (gang->finished) {
		event->as.ended.how = ESPL__END_FINISHED;
	} else if (gang->directive == ESPL__PAUSE) {
		if (gang->kind->of->config->trial.checkpoint && gang->saved < gang->last)
			fail_event(event, ESPL__END_UNSAVED, gang->parts[0].lease,
			    "exited without saving a checkpoint of its last iteration", arena);
	} else if (gang->directive != ESPL__STOP && gang->killed) {
		event->as.ended.how = ESPL__END_LOST;
	} else if (gang->directive != ESPL__STOP && gang->last < gang->budget) {
		if (gang->last == gang->begun)
			(void)snprintf(text, sizeof text,
			    "ended without reporting %s iteration (%s)",
			    gang->begun > 0 ? "a further" : "an",
			    missed != NULL ? missed : "does it call run.report()?");
		else
			(void)snprintf(text, sizeof text,
			    "exited at iteration %llu of %llu without being asked to stop",
			    (unsigned long long)gang->last, (unsigned long long)gang->budget);
		add_said(gang->end_count > 0 ? &gang->ends[0] : NULL, text, sizeof text);
		fail_event(event, ESPL__END_FAILED, gang->parts[0].lease, text, arena);
	}
}

/* How and why a gang ended, in words. */
static void
word_end(struct espl__real *real, const struct espl__rgang *gang, struct espl__event *event)
{
	const struct espl__rank_end *end = find_culprit(gang);
	struct espl__arena *arena = espl__real_arena(real);
	char text[500], name[48];

	ESPL__CHECK(gang, RGANG);
	event->as.ended.gang = gang->id;
	event->as.ended.how = ESPL__END_LOST;
	event->as.ended.node = ESPL_NONE;
	event->as.ended.text = "";
	if (espl__real_end_with(gang, SAVING) != NULL)
		event->as.ended.node = espl__real_end_with(gang, SAVING)->lease;
	if (espl__real_end_with(gang, SETUP) != NULL && !real->config->pool)
		return;
	if (espl__real_end_with(gang, FOLDER) != NULL || espl__real_end_with(gang, STORE) != NULL ||
	    espl__real_end_with(gang, SAVING) != NULL || espl__real_gpu_fault(gang) || gang->unmet)
		return; /* no fault of the trial's */
	if (gang->lost) {
		event->as.ended.node = gang->parts[0].lease;
		for (uint32_t i = 0; i < gang->part_count; i++)
			if (gang->parts[i].lost)
				event->as.ended.node = gang->parts[i].lease;
		return;
	}
	if (gang->broken != NULL) {
		fail_event(event, ESPL__END_FAILED, gang->parts[0].lease, gang->broken, arena);
		return;
	}
	if (end == NULL) {
		clean_verdict(real, gang, event);
		return;
	}
	if (lacks_checkpoint(end)) { /* its text may name a file */
		espl__log(ESPL_WARN, "trial %s: %s", espl__trial_name(gang->trial, name),
		    end->text);
		fail_event(event, ESPL__END_NO_CHECKPOINT, end->lease,
		    "the checkpoint to start from is missing or damaged", arena);
		return;
	}
	if (gang->killed)
		return; /* it did not end as asked, but ended by us */
	if (strncmp(end->text, SETUP, strlen(SETUP)) == 0) {
		(void)snprintf(text, sizeof text, "trial.setup failed: %s",
		    end->text + strlen(SETUP));
		fail_event(event, ESPL__END_FAILED, end->lease, text, arena);
		return;
	}
	if (end->text[0] != '\0')
		(void)snprintf(text, sizeof text, "rank %u: %s", end->rank, end->text);
	else if (end->code > 0)
		(void)snprintf(text, sizeof text, "rank %u: exit status %d", end->rank, end->code);
	else
		(void)snprintf(text, sizeof text, "rank %u: killed by signal %d", end->rank,
		    -end->code);
	if (end->text[0] == '\0')
		add_said(end, text, sizeof text);
	fail_event(event, ESPL__END_FAILED, end->lease, text, arena);
}

void
espl__real_gang_finish(struct espl__real *real, struct espl__rgang *gang)
{
	struct espl__event *event;

	check_surroundings(real, gang); /* before the end: nothing starts in between */
	give_up_node(real, espl__real_end_with(gang, SETUP));
	event = espl__real_event(real, ESPL__EV_ENDED);
	word_end(real, gang, event);
	espl__real_gang_free(real, gang);
}
