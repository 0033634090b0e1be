/* run_observers.c - connects the observers of a run to the drive. */
#include "base/assert.h"
#include "cli/run_observers.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"
#include "base/tick.h"
#include "plugin/instance.h"

/* An interrupted run that has not ended after this long says what it waits for, and again. */
#define WAITS_AFTER (5 * ESPL_SECOND)
#define WAITS_EVERY (30 * ESPL_SECOND)

static void
on_log(void *ctx, espl_level level, const char *text)
{
	espl__fold_line(ctx, espl__tick(), level, text);
}

/* The run is stopping, and has not ended at once: what it waits for, and what ends that. */
static void
report_waits(struct espl__show *show, const struct espl__exec *exec)
{
	struct espl__buf text = { NULL, 0, 0 };
	int64_t now = espl__tick();
	char span[32];

	if (show->stopping_at == 0) {
		show->stopping_at = now;
		show->waits_at = now + WAITS_AFTER;
	}
	if (now < show->waits_at || espl__exec_view(exec).ended)
		return;
	show->waits_at = now + WAITS_EVERY;
	if (espl__exec_waits(exec, &text))
		espl__print(&text, " (what runs there ends when it has had no driver for %s)",
		    espl__format_short(show->linger, span));
	espl__log(ESPL_INFO,
	    "stopping since %s: waiting for %s; interrupt again to stop at once, which loses what "
	    "was trained since the last checkpoints",
	    espl__format_short((now - show->stopping_at) / ESPL_SECOND * ESPL_SECOND, span),
	    espl__buf_text(&text));
	espl__buf_free(&text);
}

static void
on_tick(void *ctx, struct espl__exec *exec)
{
	struct espl__show *show = ctx;

	show->view.exec = exec;
	if (show->interrupt != NULL && *show->interrupt > show->warned) {
		show->warned = *show->interrupt;
		espl__log(ESPL_INFO,
		    show->warned == 1 ? "stopping cleanly; interrupt again to stop at once"
				      : "stopping at once");
	}
	if (show->warned > 0)
		report_waits(show, exec);
	espl__fold_tick(show->fold, espl__tick());
	if (show->foresight != NULL && espl__foresight_tick(show->foresight, exec)) {
		free(show->view.totals.outlook);
		show->view.totals.outlook = espl__outlook_read(show->dir);
	}
	if (show->results != NULL)
		espl__results_tick(show->results, exec);
	if (show->live != NULL)
		espl__live_tick(show->live, exec);
	if (show->lines != NULL)
		espl__lines_tick(show->lines, exec);
	if (show->events != NULL)
		espl__events_tick(show->events);
	/* The last word of the executor, while it is there to be asked. */
	if (espl__exec_view(exec).ended)
		espl__view_refresh(&show->view, exec);
}

static void
on_replayed(void *ctx, struct espl__exec *exec, const struct espl__rest *rest, const char *kept)
{
	struct espl__show *show = ctx;
	const char *where = kept != NULL ? "; a copy is kept as " : "";

	kept = kept != NULL ? kept : "";

	espl__view_refresh(&show->view, exec);
	show->view.replaying = 0;
	if (show->lines != NULL || show->live != NULL)
		espl__instance_log_from(ESPL_INFO);
	if (show->results != NULL)
		espl__results_live(show->results, exec);
	if (rest->damaged)
		espl__log(ESPL_WARN,
		    "the journal is damaged at byte %llu; discarding its last %llu bytes and "
		    "repeating the work they recorded%s%s",
		    (unsigned long long)rest->at, (unsigned long long)rest->size, where, kept);
	else if (rest->size > 0)
		espl__log(ESPL_WARN,
		    "discarding the last %llu bytes of the journal, which were not written "
		    "completely%s%s",
		    (unsigned long long)rest->size, where, kept);
}

static void
hook_observers(struct espl__show *show, struct espl__drive *drive)
{
	struct espl__observer **tail = &drive->exec.observers;

	*tail = &show->view.observer;
	tail = &(*tail)->next;
	if (show->results != NULL) {
		*tail = espl__results_observer(show->results);
		tail = &(*tail)->next;
	}
	if (show->foresight != NULL) {
		*tail = espl__foresight_observer(show->foresight);
		tail = &(*tail)->next;
	}
	if (show->lines != NULL)
		*tail = espl__lines_observer(show->lines);
	else if (show->events != NULL)
		*tail = espl__events_observer(show->events);
	else
		*tail = NULL;
}

void
espl__show_begin(struct espl__show *show, const struct espl__inputs *s, enum espl__show_as as,
    struct espl__drive *drive)
{
	struct espl__results_setup setup = { .dir = drive->dir,
		.config = s->config,
		.space = s->space,
		.simulated = drive->exec.simulated,
		.replaying = drive->resume };

	ESPL__CHECK(s->config, RUN_CONFIG);
	memset(show, 0, sizeof *show);
	espl__view_init(&show->view, s->config, s->space, drive->exec.simulated, drive->resume);
	show->interrupt = drive->interrupt;
	/* Without a lock (a finished run on a read-only disk), show the run but write nothing. */
	if (drive->dir != NULL && drive->locked)
		show->results = espl__results_open(&setup);
	if (show->results != NULL && !drive->exec.simulated)
		show->foresight = espl__foresight_new(s, drive->dir);
	show->dir = espl__strdup(drive->dir);
	if (as == ESPL__SHOW_JSON)
		show->events = espl__events_new(&show->view, stdout);
	else if (as == ESPL__SHOW_PROGRESS && espl__live_possible())
		show->live = espl__live_new(&show->view);
	else if (as == ESPL__SHOW_PROGRESS)
		show->lines = espl__lines_new(&show->view, stdout);
	show->linger = s->config->linger;
	show->fold = show->live != NULL && espl__live_shows_log(show->live)
	    ? espl__fold_new(espl__live_log, show->live)
	    : espl__fold_new(NULL, NULL);
	espl__log_to(on_log, show->fold, ESPL_INFO);
	if (drive->resume) /* plugins have said before what they say in a replay */
		espl__instance_log_from(ESPL_WARN);
	hook_observers(show, drive);
	drive->exec.verbose = drive->dir != NULL;
	drive->tick = on_tick;
	drive->replayed = on_replayed;
	drive->ctx = show;
}

void
espl__show_end(struct espl__show *show, const struct espl__exec_summary *summary,
    const char *broken, const char *why)
{
	espl__foresight_free(show->foresight);
	show->foresight = NULL;
	espl__view_finish(&show->view, summary);
	if (broken != NULL) {
		espl__totals_set(&show->view.totals.status, broken);
		espl__totals_set(&show->view.totals.text, why);
	}
	espl__results_close(show->results, &show->view.totals);
	espl__log_to(NULL, NULL, ESPL_INFO);
	espl__fold_free(show->fold, espl__tick());
	show->fold = NULL;
	espl__live_free(show->live);
	espl__lines_free(show->lines);
	espl__events_free(show->events);
	show->results = NULL;
	show->live = NULL;
	show->lines = NULL;
	show->events = NULL;
}

void
espl__show_free(struct espl__show *show)
{
	free(show->dir);
	espl__view_free(&show->view);
}
