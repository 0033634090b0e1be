/* real_ends.c - how a gang ended, and why in words that are the same on every machine.
 *
 * No path, host or process id is in the text, but for what the trial printed last: it goes into
 * the journal.
 */
#include "world/real.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/mem.h"

/* How likely this rank is the cause: what could not start, then what failed by itself, then what
 * may only have been ended because another one failed. */
static int
blame(const struct espl__rank_end *end)
{
	if (end->text[0] != '\0')
		return 5;
	if (end->code == ESPL__EXIT_PEER)
		return 1;	/* it only tells that another rank was lost */
	if (end->code > 0)
		return 4;
	if (end->code == -SIGTERM || end->code == -SIGKILL)
		return 2;
	return end->code < 0 ? 3 : 0;
}

static const struct espl__rank_end *
culprit(const struct espl__rgang *gang)
{
	const struct espl__rank_end *worst = NULL;
	uint32_t                     i;

	for (i = 0; i < gang->end_count; i++) {
		const struct espl__rank_end *end = &gang->ends[i];

		if (blame(end) == 0)
			continue;
		if (worst == NULL || blame(end) > blame(worst) ||
			(blame(end) == blame(worst) && end->rank < worst->rank))
			worst = end;
	}
	return worst;
}

static void
fail(struct espl__event *event, enum espl__gang_end how, uint64_t node, const char *text,
	struct espl__arena *arena)
{
	event->as.ended.how = how;
	event->as.ended.node = node;
	event->as.ended.text = espl__arena_strdup(arena, text);
}

static int
says_no_checkpoint(const struct espl__rank_end *end)
{
	return strncmp(end->text, "no checkpoint", 13) == 0;
}

static const struct espl__rank_end *
folder_fault(const struct espl__rgang *gang)
{
	for (uint32_t i = 0; i < gang->end_count; i++)
		if (strncmp(gang->ends[i].text, "run folder: ", 12) == 0)
			return &gang->ends[i];
	return NULL;
}

void
espl__real_gang_trouble(struct espl__real *real, const struct espl__rgang *gang)
{
	const struct espl__rank_end *end = folder_fault(gang);
	const char                  *unshared = espl__real_gpu_trouble(gang);
	struct espl__event          *event;
	char                         text[500];

	if ((end == NULL && unshared == NULL) || real->troubled)
		return;
	real->troubled = 1;
	if (end != NULL)
		(void)snprintf(text, sizeof text, "the run's folder cannot be written on node %llu: %s",
			(unsigned long long)end->lease, end->text + 12);
	else
		(void)snprintf(text, sizeof text, "%s", unshared);
	espl__log(ESPL_ERROR, "%s", text);
	event = espl__real_event(real, ESPL__EV_TROUBLE);
	event->as.trouble.text = espl__arena_strdup(espl__real_arena(real), text);
}

static void
add_said(const struct espl__rank_end *end, char *text, size_t room)
{
	size_t size = strlen(text);

	if (end != NULL && end->said != NULL && end->said[0] != '\0')
		(void)snprintf(text + size, room - size, "; its log ends: %s", end->said);
}

/* Every rank ended with status 0: was it asked to? */
static void
clean_verdict(struct espl__real *real, const struct espl__rgang *gang, struct espl__event *event)
{
	struct espl__arena *arena = espl__real_arena(real);
	char                text[500];

	event->as.ended.how = ESPL__END_DONE;
	if (gang->finished) {
		event->as.ended.how = ESPL__END_FINISHED;
	} else if (gang->told == ESPL__PAUSE) {
		if (gang->kind->of->config->trial.checkpoint && gang->saved < gang->last)
			fail(event, ESPL__END_UNSAVED, gang->parts[0].lease,
				"exited without saving a checkpoint of its last iteration", arena);
	} else if (gang->told != ESPL__STOP && gang->killed) {
		event->as.ended.how = ESPL__END_LOST;
	} else if (gang->told != ESPL__STOP && gang->last < gang->budget) {
		if (gang->last == gang->begun)
			(void)snprintf(text, sizeof text,
				"ended without reporting an iteration (does it call run.report()?)");
		else
			(void)snprintf(text, sizeof text,
				"ended at iteration %llu of %llu, before it was told to stop",
				(unsigned long long)gang->last, (unsigned long long)gang->budget);
		add_said(gang->end_count > 0 ? &gang->ends[0] : NULL, text, sizeof text);
		fail(event, ESPL__END_FAILED, gang->parts[0].lease, text, arena);
	}
}

void
espl__real_gang_verdict(
	struct espl__real *real, const struct espl__rgang *gang, struct espl__event *event)
{
	const struct espl__rank_end *end = culprit(gang);
	struct espl__arena          *arena = espl__real_arena(real);
	char                         text[500];

	event->as.ended.gang = gang->id;
	event->as.ended.how = ESPL__END_LOST;
	event->as.ended.node = ESPL_NONE;
	event->as.ended.text = "";
	if (folder_fault(gang) != NULL || espl__real_gpu_fault(gang))
		return;		/* no fault of the trial's */
	if (gang->broken != NULL) {
		fail(event, ESPL__END_FAILED, gang->parts[0].lease, gang->broken, arena);
		return;
	}
	if (gang->lost)
		return;
	if (end == NULL) {
		clean_verdict(real, gang, event);
		return;
	}
	if (says_no_checkpoint(end)) {	/* its text may name a file */
		espl__log(ESPL_WARN, "trial %llu: %s", (unsigned long long)gang->trial, end->text);
		fail(event, ESPL__END_NO_CHECKPOINT, end->lease,
			"the checkpoint to begin from is missing or damaged", arena);
		return;
	}
	if (gang->killed)
		return;		/* it did not end as asked, but ended by us */
	if (end->text[0] != '\0')
		(void)snprintf(text, sizeof text, "rank %u: %s", end->rank, end->text);
	else if (end->code > 0)
		(void)snprintf(text, sizeof text, "rank %u: exit status %d", end->rank, end->code);
	else
		(void)snprintf(
			text, sizeof text, "rank %u: killed by signal %d", end->rank, -end->code);
	if (end->text[0] == '\0')
		add_said(end, text, sizeof text);
	fail(event, ESPL__END_FAILED, end->lease, text, arena);
}
