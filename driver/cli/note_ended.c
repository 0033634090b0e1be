/* note_ended.c - a note on a trial of a run that has ended: no driver is there to take it, so it is
 * added to the journal here, and to what is made of that.
 */
#include "cli/note_ended.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/notes.h"
#include "cli/run_dir.h"
#include "cli/run_observers.h"
#include "driver/worlds.h"
#include "plugin/instance.h"
#include "report/results_read.h"
#include "run/journal.h"

/* Borrowed. */
struct note {
	const char *trial, *key, *text;
};

int
espl__run_over(const char *given)
{
	struct espl__reading *r = NULL;
	char *dir = NULL;
	int over = 0;

	if (espl__run_dir_find(given, &dir, NULL) == ESPL_OK && !espl__run_held(dir) &&
	    espl__reading_open(dir, &r, NULL) == ESPL_OK) {
		over = strcmp(r->totals.status, "interrupted") != 0 &&
		    (strcmp(r->totals.status, "failed") != 0 || r->totals.over);
		espl__reading_free(r);
	}
	free(dir);
	return over;
}

static espl_status
make_event(const void *ctx, const struct espl__exec *exec, struct espl__event *event,
    struct espl__diag *diag)
{
	const struct note *note = ctx;
	uint64_t number, trial;
	const char *why = note->text[espl__note_length(note->text)] != '\0'
	    ? "a text longer than 4096 bytes"
	    : espl__note_misnamed(note->key);

	if (why == NULL && !espl__exec_named_trial(exec, note->trial, &number, &trial))
		why = "no such trial";
	if (why == NULL) {
		trial |= number << ESPL__TRIAL_BITS;
		why = espl__exec_notes(exec, trial, note->key);
	}
	if (why != NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "'%s of trial %s' was not noted: %s",
		    note->key, note->trial, why);
	event->type = ESPL__EV_TRIAL_NOTE;
	event->as.trial_note.trial = trial;
	event->as.trial_note.key = note->key;
	event->as.trial_note.text = note->text;
	return ESPL_OK;
}

static espl_status
load(const char *dir, struct espl__inputs *inputs, struct espl__drive *drive,
    struct espl__diag *diag)
{
	struct espl__journal_reader *reader = NULL;
	struct espl__journal_header header;
	int asked = espl__run_dir_asked(dir);
	char *config = espl__format("%s/run.cfg", dir), *journal = espl__format("%s/journal", dir);
	espl_status status = espl__journal_open(journal, &reader, &header, diag);

	if (status == ESPL_OK) {
		drive->exec.simulated = header.simulated;
		espl__journal_reader_free(reader);
		status = espl__inputs_load(config, NULL, 0,
		    asked ? ESPL__NEED_SEARCH : ESPL__NEED_TRIAL, inputs, diag);
	}
	if (status == ESPL_OK && asked)
		espl__inputs_asked(inputs->config);
	free(config);
	free(journal);
	return status;
}

static espl_status
append_note(const char *dir, const struct note *note, int lock, struct espl__diag *diag)
{
	struct espl__inputs inputs;
	struct espl__drive drive;
	struct espl__exec_summary summary;
	struct espl__show show;
	espl_status status;

	memset(&inputs, 0, sizeof inputs);
	memset(&drive, 0, sizeof drive);
	memset(&summary, 0, sizeof summary);
	status = load(dir, &inputs, &drive, diag);
	if (status == ESPL_OK) {
		inputs.dir = espl__strdup(dir);
		drive.exec.inputs = &inputs;
		drive.exec.load = espl__inputs_submitted;
		drive.open_world = espl__world_open;
		drive.seed = inputs.config->seed;
		drive.dir = dir;
		drive.locked = lock >= 0;
		drive.resume = 1;
		drive.append = make_event;
		drive.append_ctx = note;
		espl__instance_log_from(ESPL_WARN);
		espl__show_begin(&show, &inputs, ESPL__SHOW_NOTHING, &drive);
		status = espl__drive(&drive, &summary, diag);
		espl__show_end(&show, &summary, NULL, diag->text);
		espl__show_free(&show);
	}
	espl__inputs_free(&inputs);
	return status;
}

espl_status
espl__note_ended(const char *given, const char *trial, const char *key, const char *text,
    struct espl__diag *diag)
{
	const struct note note = { trial, key, text };
	char *dir = NULL;
	int lock = -1;
	espl_status status = espl__run_dir_find(given, &dir, diag);

	if (status == ESPL_OK)
		status = espl__run_dir_check(dir, diag);
	if (status == ESPL_OK)
		status = espl__drive_lock(dir, &lock, diag);
	if (status == ESPL_OK)
		status = append_note(dir, &note, lock, diag);
	if (lock >= 0)
		(void)close(lock);
	free(dir);
	return status;
}
