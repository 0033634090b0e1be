/* drive.c - a whole run: directory, lock, journal, and the one loop over a world.
 *
 * Events are in the journal before the executor receives them, and decisions before they are
 * carried out. Effects that cost money (leasing or releasing a machine) wait until the journal is
 * synced to the disk.
 */
#include "base/assert.h"
#include "run/drive.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "config.h"
#include "run/drive_private.h"

#define SYNC_EVERY \
	INT64_C(100000000) /* ns: at most this much of a real run is only in the kernel's memory \
			    */
#define SIM_GATHER (256u << 10) /* bytes gathered before a simulation writes */

espl_status
espl__drive_exec(struct espl__run_state *run, struct espl__diag *diag)
{
	struct espl__exec_setup setup;

	ESPL__ASSERT(run->drive != NULL);
	setup = run->drive->exec;
	setup.utc_start_s = run->header.utc_start_s;
	setup.rules = run->header.format;
	setup.tick = espl__tick;
	return espl__exec_new(&setup, &run->exec, diag);
}

/* Writes CLOSED: the clock is stopped at `at`. utc_s: 0 where the run stopped; where it continues,
 * the wall clock at that moment, so that a crash after it can be dated. */
static void
record_close(struct espl__run_state *run, espl_time at, int64_t utc_s)
{
	if (run->journal == NULL)
		return;
	espl__buf_clear(&run->round);
	espl__put_v64(&run->round, (uint64_t)at);
	espl__put_z64(&run->round, utc_s);
	espl__journal_add(run->journal, ESPL__REC_CLOSED, run->round.data, run->round.size);
}

static espl_status
random_token(uint64_t *token, struct espl__diag *diag)
{
	if (getrandom(token, sizeof *token, 0) != (ssize_t)sizeof *token)
		return espl__fail_errno(diag, "cannot get random bytes from the system");
	return ESPL_OK;
}

static espl_status
open_new_journal(struct espl__run_state *run, const char *path, struct espl__diag *diag)
{
	espl_status status;

	run->header.format = ESPL__JOURNAL_FORMAT;
	run->header.seed = run->drive->seed;
	(void)snprintf(run->header.version, sizeof run->header.version, "%s", PACKAGE_VERSION);
	run->header.simulated = run->drive->exec.simulated;
	if (run->drive->exec.simulated) {
		run->header.token = run->drive->seed;
	} else {
		run->header.utc_start_s = (int64_t)time(NULL);
		status = random_token(&run->header.token, diag);
		if (status != ESPL_OK)
			return status;
	}
	status = espl__drive_exec(run, diag);
	if (status != ESPL_OK || path == NULL)
		return status;
	run->header.digest = espl__exec_digest(run->exec);
	if (espl__journal_is_empty(path)) {
		char *kept;

		status = espl__journal_keep_rest(path, 0, &kept, diag);
		free(kept);
		if (status == ESPL_OK && unlink(path) != 0)
			status = espl__fail_errno(diag, "cannot remove '%s'", path);
		if (status != ESPL_OK)
			return status;
	}
	return espl__journal_create(path, &run->header, &run->journal, diag);
}

/* ---- one round ---- */

static void
encode_round(struct espl__run_state *run, const struct espl__round *round)
{
	uint32_t i;

	espl__buf_clear(&run->round);
	espl__put_v64(&run->round, (uint64_t)(round->now - run->last));
	espl__put_v64(&run->round, round->count);
	for (i = 0; i < round->count; i++)
		espl__event_put(&round->events[i], &run->round);
}

static int
costs_money(const struct espl__effect *effects, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (effects[i].type == ESPL__FX_ACQUIRE || effects[i].type == ESPL__FX_RELEASE)
			return 1;
	return 0;
}

static espl_status
commit_journal(struct espl__run_state *run, int must, struct espl__diag *diag)
{
	int64_t tick;
	espl_status status;
	int sync;

	if (run->journal == NULL)
		return ESPL_OK;
	if (run->drive->exec.simulated)
		return espl__journal_pending(run->journal) >= SIM_GATHER
		    ? espl__journal_commit(run->journal, 0, diag)
		    : ESPL_OK;
	tick = espl__tick();
	run->unsynced |= espl__journal_pending(run->journal) > 0;
	sync = run->unsynced && (must || tick - run->synced >= SYNC_EVERY);
	status = espl__journal_commit(run->journal, sync, diag);
	if (sync && status == ESPL_OK) {
		run->unsynced = 0;
		run->synced = espl__tick();
	}
	return status;
}

/* The events are in the file before they are processed: if the driver dies meanwhile, they can be
 * replayed. */
static espl_status
write_events(struct espl__run_state *run, const struct espl__round *round, struct espl__diag *diag)
{
	if (run->journal == NULL)
		return ESPL_OK;
	encode_round(run, round);
	espl__journal_mark(run->journal);
	espl__journal_add(run->journal, ESPL__REC_ROUND, run->round.data, run->round.size);
	if (run->drive->exec.simulated)
		return ESPL_OK;
	run->unsynced = 1;
	return espl__journal_commit(run->journal, 0, diag);
}

static void
take_back_events(struct espl__run_state *run)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (run->journal != NULL && espl__journal_take_back(run->journal, &diag) != ESPL_OK)
		espl__log(ESPL_WARN, "%s", diag.text);
}

static espl_status
one_round(struct espl__run_state *run, const struct espl__round *round, struct espl__diag *diag)
{
	const struct espl__effect *effects;
	const struct espl__buf *decisions;
	uint32_t count;
	espl_status status;

	status = write_events(run, round, diag);
	if (status != ESPL_OK)
		return status;
	status =
	    espl__exec_round(run->exec, round->now, round->events, round->count, NULL, 0, diag);
	if (status != ESPL_OK) { /* nothing followed from it: it would only fail again */
		take_back_events(run);
		return status;
	}
	decisions = espl__exec_decisions(run->exec);
	if (run->journal != NULL && decisions->size > 0)
		espl__journal_add(run->journal, ESPL__REC_DECISIONS, decisions->data,
		    decisions->size);
	run->last = round->now;
	effects = espl__exec_effects(run->exec, &count);
	status = commit_journal(run, costs_money(effects, count), diag);
	if (status != ESPL_OK)
		return status;
	return run->world != NULL ? run->world->ops->apply(run->world, effects, count, diag)
				  : ESPL_OK;
}

/* One event after the end, which changes what is known of the run and not how it went. */
static espl_status
append_event(struct espl__run_state *run, struct espl__diag *diag)
{
	struct espl__event event;
	struct espl__round round = { .now = run->last, .events = &event, .count = 1 };
	espl_status status = ESPL_OK;

	memset(&event, 0, sizeof event);
	if (!run->finished)
		status = espl__fail(diag, ESPL_E_CONFIG, "the run has not ended");
	if (status == ESPL_OK)
		status = run->drive->append(run->drive->append_ctx, run->exec, &event, diag);
	if (status == ESPL_OK)
		status = one_round(run, &round, diag);
	if (status == ESPL_OK)
		status = espl__journal_commit(run->journal, 1, diag);
	if (status == ESPL_OK && run->drive->tick != NULL)
		run->drive->tick(run->drive->ctx, run->exec);
	return status;
}

static int
pending_interrupt(const struct espl__run_state *run)
{
	return run->drive->interrupt != NULL ? *run->drive->interrupt : 0;
}

uint64_t
espl__drive_more(const struct espl__drive *drive, const struct espl__exec *exec)
{
	uint64_t asked =
	    espl__run_trials(drive->exec.inputs->config) + espl__exec_extended(exec, 0);

	return drive->trials_more > 0     ? drive->trials_more
	    : drive->trials_total > asked ? drive->trials_total - asked
					  : 0;
}

/* The first round of a resumed run, and before all else that the user wants more. */
static espl_status
extended_round(struct espl__run_state *run, const struct espl__round *first,
    struct espl__diag *diag)
{
	struct espl__event *events = espl__alloc((first->count + (size_t)1) * sizeof *events);
	struct espl__round round = *first;
	espl_status status;

	events[0] = (struct espl__event){ .type = ESPL__EV_EXTEND };
	events[0].as.extend.trials = run->more;
	memcpy(events + 1, first->events, first->count * sizeof *events);
	round.events = events;
	round.count++;
	status = one_round(run, &round, diag);
	free(events);
	run->more = 0;
	return status;
}

static espl_status
run_rounds(struct espl__run_state *run, struct espl__diag *diag)
{
	struct espl__round round;
	espl_status status;
	int stopping = 0, rounds = 0;

	/* For the executor, a stopped run has ended until EV_RESUME arrives. */
	while (rounds == 0 || !espl__exec_view(run->exec).ended) {
		if (pending_interrupt(run) >= 2) {
			run->killed = 1; /* what that leaves is known when the world is closed */
			return ESPL_E_LIMIT;
		}
		if (pending_interrupt(run) == 1 && !stopping) {
			stopping = 1;
			run->world->ops->stop(run->world);
		}
		memset(&round, 0, sizeof round);
		status = run->world->ops->next(run->world, &round, diag);
		if (status != ESPL_OK)
			return status;
		status = round.count == 0 ? commit_journal(run, 0, diag)
		    : run->more > 0       ? extended_round(run, &round, diag)
					  : one_round(run, &round, diag);
		if (status != ESPL_OK)
			return status;
		rounds |= round.count > 0;
		if (run->drive->tick != NULL)
			run->drive->tick(run->drive->ctx, run->exec);
	}
	return ESPL_OK;
}

/* ---- the whole ---- */

static espl_status
open_world(struct espl__run_state *run, struct espl__diag *diag)
{
	const struct espl__drive *drive = run->drive;
	espl_status status = drive->open_world(drive, run->header.token, &run->world, diag);

	if (status == ESPL_OK) {
		run->world->exec = run->exec;
		run->world->interrupt = drive->interrupt;
	}
	return status;
}

/* Where the run's clock resumes; the note from which a later crash is dated. */
static void
start_clock(struct espl__run_state *run)
{
	int64_t utc_s = run->resumed ? (int64_t)time(NULL) : run->header.utc_start_s;

	if (run->resumed)
		record_close(run, run->begin, utc_s);
	if (run->journal != NULL)
		espl__drive_clock_keep(run->drive->dir, run->begin,
		    utc_s - run->begin / ESPL_SECOND);
}

/* Ends what the world has started, and says what is left of it. */
static void
close_world(struct espl__run_state *run, int kill, struct espl__diag *diag)
{
	struct espl__buf left = { NULL, 0, 0 };

	run->world->ops->close(run->world, kill, &left);
	run->world = NULL;
	if (run->killed) {
		(void)espl__fail(diag, ESPL_E_LIMIT, "interrupted for the second time; %s%s",
		    left.size > 0 ? "what could be reached was killed at once, but left are "
				  : "everything was killed at once",
		    left.size > 0 ? espl__buf_text(&left) : "");
		if (run->journal != NULL)
			espl__hint(diag, "continue the run with `espalier resume DIR`");
	} else if (left.size > 0) {
		espl__log(ESPL_WARN, "left are %s", espl__buf_text(&left));
	}
	espl__buf_free(&left);
}

static espl_status
drive_run(struct espl__run_state *run, struct espl__diag *diag)
{
	struct espl__exec_summary summary;
	espl_status status;

	status = open_world(run, diag);
	if (status != ESPL_OK)
		return status;
	if (!run->drive->exec.simulated)
		start_clock(run);
	status = commit_journal(run, 1, diag);
	if (status == ESPL_OK)
		status = run->world->ops->begin(run->world, run->resumed, run->begin, diag);
	if (status == ESPL_OK)
		status = run_rounds(run, diag);
	if (status == ESPL_OK) {
		espl__exec_summary(run->exec, &summary);
		if (summary.how == ESPL__RUN_INTERRUPTED || summary.how == ESPL__RUN_FAILED)
			record_close(run, run->last, 0);
		if (run->journal != NULL)
			status =
			    espl__journal_commit(run->journal, !run->drive->exec.simulated, diag);
	}
	close_world(run, status != ESPL_OK, diag);
	return status;
}

espl_status
espl__drive_lock(const char *dir, int *lock, struct espl__diag *diag)
{
	char *path = espl__format("%s/lock", dir);
	struct espl__diag own = ESPL__DIAG_INIT;
	espl_status status = espl__lock(path, lock, &own);

	free(path);
	if (status == ESPL_E_BUSY) {
		(void)espl__fail(diag, status, "another espalier process is running in '%s'", dir);
		espl__hint(diag, "see its progress with `espalier status %s`", dir);
	} else if (status != ESPL_OK) {
		(void)espl__fail(diag, status, "%s", own.text);
		espl__hint(diag, "%s", own.hint);
	}
	return status;
}

espl_status
espl__drive(const struct espl__drive *drive, struct espl__exec_summary *summary,
    struct espl__diag *diag)
{
	struct espl__run_state run;
	struct espl__diag lock_diag = ESPL__DIAG_INIT;
	char *path = NULL;
	espl_status status = ESPL_OK;
	int lock = -1;

	ESPL__ASSERT(drive->exec.inputs != NULL && summary != NULL);
	memset(&run, 0, sizeof run);
	memset(summary, 0, sizeof *summary);
	summary->least_s = summary->least_usd = NAN;
	run.drive = drive;
	if (drive->dir != NULL) {
		if (!drive->locked)
			status = espl__drive_lock(drive->dir, &lock, &lock_diag);
		/* A finished run can be read where nothing can be written. */
		run.look_only = status != ESPL_OK && status != ESPL_E_BUSY && drive->resume;
		if (status != ESPL_OK && !run.look_only) {
			if (diag != NULL && diag->status == ESPL_OK)
				*diag = lock_diag;
			return status;
		}
		path = espl__format("%s/journal", drive->dir);
	}
	status = drive->resume && path != NULL ? espl__drive_replay(&run, path, diag)
					       : open_new_journal(&run, path, diag);
	if (status == ESPL_OK && run.look_only && (!run.finished || drive->append != NULL)) {
		status = lock_diag.status;
		if (diag != NULL)
			*diag = lock_diag;
	} else if (status == ESPL_OK && drive->append != NULL) {
		status = append_event(&run, diag);
	} else if (status == ESPL_OK && !run.finished) {
		status = drive_run(&run, diag);
	}
	if (run.exec != NULL)
		espl__exec_summary(run.exec, summary);
	if (espl__journal_close(run.journal, NULL) != ESPL_OK && status == ESPL_OK)
		status = espl__fail(diag, ESPL_E_REMOTE, "cannot write the end of the journal");
	espl__exec_free(run.exec);
	espl__buf_free(&run.round);
	free(path);
	if (lock >= 0)
		(void)close(lock);
	return status;
}
