/* drive_replay.c - resume: the journal is fed to a fresh executor, and every decision is compared.
 *
 * Effects of replayed rounds are never applied: EV_RESUME leads to those that must be repeated. If
 * the decisions of the last round were not written, they are made now and appended.
 *
 * After a clean stop the clock continues from where it stopped. After a crash the time since then
 * counts as spent (leases ran on): by the clock since boot, or after a restart by the wall clock.
 */
#include "base/assert.h"
#include "model/trials.h"
#include "run/drive_private.h"
#include <string.h>
#include <time.h>
#include "base/log.h"
#include "base/mem.h"
#include "config.h"

#define WORTH_TELLING (3600 * ESPL_SECOND) /* added by a clock that may be wrong */

struct replay {
	struct espl__run_state *run;
	struct espl__journal_reader *reader;
	enum espl__record type; /* of the record at hand */
	struct espl__reader payload;
	uint64_t lost;
	uint64_t before; /* where the record at hand begins */
	uint32_t before_chain;
	/* a last round without decisions fails again: it begins at `before` */
	int stuck;
	uint64_t rounds, rounds_most;
	int64_t origin_s; /* UTC second of the run's time 0, shifted by its stops */
	struct espl__arena arena;
	struct espl__event *events;
	uint32_t count, cap;
	struct espl__buf tail; /* decisions of the last round, to be added */
};

static espl_status
refuse_damaged(const struct replay *replay, const char *what, struct espl__diag *diag)
{
	(void)espl__fail(diag, ESPL_E_CONFIG, "the journal's round %llu %s",
	    (unsigned long long)replay->rounds, what);
	espl__hint(diag, "it was written by espalier %s, but this is espalier %s",
	    replay->run->header.version, PACKAGE_VERSION);
	return ESPL_E_CONFIG;
}

static espl_status
take_round(struct replay *replay, struct espl__diag *diag)
{
	uint64_t delta = espl__get_v64(&replay->payload), count = espl__get_v64(&replay->payload),
		 i;

	if (replay->payload.bad || delta > (uint64_t)(INT64_MAX - replay->run->last) ||
	    count > UINT32_MAX)
		return refuse_damaged(replay, "cannot be read", diag);
	replay->run->last += (espl_time)delta;
	replay->count = 0;
	for (i = 0; i < count; i++) {
		ESPL__GROW(replay->events, replay->cap, replay->count + 1);
		memset(&replay->events[replay->count], 0, sizeof replay->events[0]);
		if (espl__event_get(&replay->payload, &replay->arena,
			&replay->events[replay->count]) != 0)
			return refuse_damaged(replay, "contains an event that cannot be read",
			    diag);
		replay->count++;
	}
	if (replay->payload.at != replay->payload.end)
		return refuse_damaged(replay, "is longer than its events", diag);
	return ESPL_OK;
}

static void
take_closed(struct replay *replay)
{
	uint64_t at = espl__get_v64(&replay->payload);
	int64_t utc_s = espl__get_z64(&replay->payload);

	if (replay->payload.bad || at > (uint64_t)INT64_MAX || (espl_time)at < replay->run->last)
		return;
	replay->run->begin = (espl_time)at;
	replay->run->stopped = utc_s == 0;
	if (utc_s != 0)
		replay->origin_s = utc_s - (int64_t)(at / UINT64_C(1000000000));
}

static int
next_record(struct replay *replay, struct espl__diag *diag)
{
	espl__journal_where(replay->reader, &replay->before, &replay->before_chain);
	return espl__journal_next(replay->reader, &replay->type, &replay->payload, &replay->lost,
	    diag);
}

/* One round; then `type` and `payload` are at the next record that is not its own.  Returns 1, 0 at
 * the end, -1 failed. */
static int
replay_round(struct replay *replay, struct espl__diag *diag)
{
	struct espl__run_state *run = replay->run;
	struct espl__buf recorded = { NULL, 0, 0 };
	const struct espl__buf *made;
	uint64_t begins = replay->before;
	uint32_t chain = replay->before_chain;
	espl_status status;
	int got, own;

	if (take_round(replay, diag) != ESPL_OK)
		return -1;
	run->stopped = 0;
	got = next_record(replay, diag);
	if (got < 0)
		return -1;
	own = got == 1 && replay->type == ESPL__REC_DECISIONS;
	if (own) {
		recorded.data = (uint8_t *)(uintptr_t)replay->payload.at;
		recorded.size = (size_t)(replay->payload.end - replay->payload.at);
	}
	/* The last round of a journal may lack its decisions: decide now. */
	status = espl__exec_round(run->exec, run->last, replay->events, replay->count,
	    got == 1 ? &recorded : NULL, run->drive->accept, diag);
	espl__arena_free(&replay->arena);
	memset(&replay->arena, 0, sizeof replay->arena);
	if (status != ESPL_OK) {
		if (diag != NULL && status == ESPL_E_BUG && got == 1)
			diag->status = ESPL_E_CONFIG;
		replay->stuck = got == 0;
		replay->before = begins;
		replay->before_chain = chain;
		return -1;
	}
	replay->rounds++;
	if (got == 0) {
		made = espl__exec_decisions(run->exec);
		espl__put(&replay->tail, made->data, made->size);
		return 0;
	}
	return own ? next_record(replay, diag) : 1;
}

static espl_status
replay_all(struct replay *replay, struct espl__diag *diag)
{
	int got = next_record(replay, diag);

	while (got == 1 && replay->rounds < replay->rounds_most) {
		switch (replay->type) {
		case ESPL__REC_ROUND: got = replay_round(replay, diag); break;
		case ESPL__REC_CLOSED:
			take_closed(replay);
			got = next_record(replay, diag);
			break;
		default: return refuse_damaged(replay, "is followed by an unexpected record", diag);
		}
	}
	if (got >= 0)
		return ESPL_OK;
	return diag != NULL && diag->status != ESPL_OK ? diag->status : ESPL_E_CONFIG;
}

/* Whether the journal belongs to this run. */
static espl_status
check_header(const struct espl__run_state *run, struct espl__diag *diag)
{
	const struct espl__journal_header *header = &run->header;
	int other =
	    strcmp(header->version, PACKAGE_VERSION) != 0 || header->format != ESPL__JOURNAL_FORMAT;

	if (header->simulated != run->drive->exec.simulated)
		return espl__fail(diag, ESPL_E_CONFIG, "the journal is from a %s run",
		    header->simulated ? "simulated" : "real");
	if (header->seed != run->drive->seed) {
		(void)espl__fail(diag, ESPL_E_CONFIG,
		    "the run started with seed %llu, but the seed is now %llu",
		    (unsigned long long)header->seed, (unsigned long long)run->drive->seed);
		espl__hint(diag, "do not change run.cfg in the run directory");
		return ESPL_E_CONFIG;
	}
	if (header->digest == espl__exec_digest(run->exec))
		return ESPL_OK;
	if (other || run->drive->accept) { /* decisions are compared one by one */
		espl__log(ESPL_WARN,
		    "the journal was written by espalier %s with other plugins or options (%s)",
		    header->version, PACKAGE_VERSION);
		return ESPL_OK;
	}
	(void)espl__fail(diag, ESPL_E_CONFIG,
	    "the configuration, an input file or a plugin has changed since the start of the run");
	espl__hint(diag,
	    "undo the change, or keep the recorded decisions with `espalier resume --accept`");
	return ESPL_E_CONFIG;
}

static void
set_clock(struct replay *replay)
{
	struct espl__run_state *run = replay->run;
	struct timespec now;
	espl_time since;

	if (run->begin < run->last)
		run->begin = run->last;
	if (run->stopped || run->header.simulated)
		return;
	if (espl__drive_clock_since(run->drive->dir, replay->origin_s, &since)) {
		if (since > run->begin)
			run->begin = since;
		return;
	}
	if (clock_gettime(CLOCK_REALTIME, &now) != 0 || (int64_t)now.tv_sec < replay->origin_s ||
	    (int64_t)now.tv_sec - replay->origin_s > INT64_C(3000000000))
		return;
	since = ((int64_t)now.tv_sec - replay->origin_s) * ESPL_SECOND;
	if (since <= run->begin)
		return;
	if (since - run->begin > WORTH_TELLING)
		espl__log(ESPL_WARN,
		    "%.1f hours have passed since the run was last active; they count toward its "
		    "deadline and cost",
		    (double)(since - run->begin) / 3600e9);
	run->begin = since;
}

/* Whole records after damage are discarded only if the user says so. */
static espl_status
look_behind(struct replay *replay, const char *path, struct espl__rest *rest,
    struct espl__diag *diag)
{
	espl_status status;
	uint32_t chain;

	espl__journal_where(replay->reader, &rest->at, &chain);
	if (replay->lost == 0)
		return ESPL_OK;
	status = espl__journal_find_rest(path, rest->at, rest, diag);
	if (status != ESPL_OK || rest->records == 0 || replay->run->drive->accept)
		return status;
	status = espl__fail(diag, ESPL_E_CONFIG,
	    "the journal is damaged at byte %llu, but %llu record%s after the damage can still be "
	    "read",
	    (unsigned long long)rest->at, (unsigned long long)rest->records,
	    rest->records == 1 ? "" : "s");
	espl__hint(diag,
	    "restore a copy of the journal if you have one; `espalier resume --accept` moves the "
	    "rest to another file and repeats the work recorded there");
	return status;
}

/* A round that failed is not in the journal, but where the driver was killed in that very moment.
 */
static void
take_back(const struct replay *replay, const char *path)
{
	struct espl__journal *journal;

	if (espl__journal_append_to(path, replay->before, replay->before_chain, &journal, NULL) ==
	    ESPL_OK)
		(void)espl__journal_close(journal, NULL);
}

/* Truncates the journal after its last valid record and opens it for appending. */
static espl_status
go_on(struct replay *replay, const char *path, const struct espl__rest *rest, char **kept,
    struct espl__diag *diag)
{
	struct espl__run_state *run = replay->run;
	uint64_t valid;
	uint32_t chain;
	espl_status status = ESPL_OK;

	espl__journal_where(replay->reader, &valid, &chain);
	if (rest->size > 0)
		status = espl__journal_keep_rest(path, valid, kept, diag);
	if (status == ESPL_OK)
		status = espl__journal_append_to(path, valid, chain, &run->journal, diag);
	if (status == ESPL_OK && replay->tail.size > 0)
		espl__journal_add(run->journal, ESPL__REC_DECISIONS, replay->tail.data,
		    replay->tail.size);
	return status;
}

static espl_status
refuse_more(const char *why, struct espl__diag *diag)
{
	(void)espl__fail(diag, ESPL_E_CONFIG, "the search cannot be given more trials: %s", why);
	espl__hint(diag,
	    "with experiment.warm_start = { from = \"DIR\"; } a new search uses its results");
	return ESPL_E_CONFIG;
}

static espl_status
replay_file(struct replay *replay, const char *path, struct espl__diag *diag)
{
	struct espl__run_state *run = replay->run;
	struct espl__exec_summary summary;
	struct espl__rest rest;
	char *kept = NULL;
	espl_status status;

	memset(&rest, 0, sizeof rest);
	replay->origin_s = run->header.utc_start_s;
	status = check_header(run, diag);
	if (status == ESPL_OK)
		status = replay_all(replay, diag);
	if (status == ESPL_OK)
		status = look_behind(replay, path, &rest, diag);
	else if (replay->stuck && replay->lost == 0 && !run->look_only)
		take_back(replay, path);
	if (status != ESPL_OK)
		return status;
	set_clock(replay);
	espl__exec_summary(run->exec, &summary);
	run->more = espl__drive_more(run->drive, run->exec);
	if (run->more > 0 && run->drive->exec.inputs->config->pool)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "a pool cannot be extended: submit a further experiment");
	if (run->more > 0 && espl__exec_extends(run->exec, 0) != NULL)
		return refuse_more(espl__exec_extends(run->exec, 0), diag);
	if (run->more > ESPL__TRIALS_MAX - summary.trials)
		return refuse_more("a search has at most 1000000 of them", diag);
	run->finished = run->more == 0 && espl__exec_view(run->exec).ended &&
	    summary.how != ESPL__RUN_INTERRUPTED && summary.how != ESPL__RUN_FAILED &&
	    !espl__exec_reopens(run->exec);
	if ((!run->finished || run->drive->append != NULL) && !run->look_only)
		status = go_on(replay, path, &rest, &kept, diag);
	if (status == ESPL_OK && run->drive->replayed != NULL && (run->finished || !run->look_only))
		run->drive->replayed(run->drive->ctx, run->exec, &rest, kept);
	free(kept);
	return status;
}

espl_status
espl__drive_replay(struct espl__run_state *run, const char *path, struct espl__diag *diag)
{
	struct replay replay;
	espl_status status;

	ESPL__ASSERT(run->drive != NULL && run->journal == NULL);
	memset(&replay, 0, sizeof replay);
	replay.run = run;
	replay.rounds_most = UINT64_MAX;
	run->resumed = 1;
	status = espl__journal_open(path, &replay.reader, &run->header, diag);
	if (status != ESPL_OK)
		return status;
	status = espl__drive_exec(run, diag);
	if (status == ESPL_OK)
		status = replay_file(&replay, path, diag);
	espl__journal_reader_free(replay.reader);
	espl__arena_free(&replay.arena);
	espl__buf_free(&replay.tail);
	free(replay.events);
	return status;
}

espl_status
espl__drive_look(const struct espl__drive *drive, uint64_t rounds_most,
    struct espl__drive_look *look, struct espl__diag *diag)
{
	struct espl__run_state run;
	struct replay replay;
	char *path = espl__format("%s/journal", drive->dir);
	espl_status status;

	memset(look, 0, sizeof *look);
	memset(&run, 0, sizeof run);
	memset(&replay, 0, sizeof replay);
	run.drive = drive;
	run.look_only = 1;
	replay.run = &run;
	replay.rounds_most = rounds_most;
	status = espl__journal_open(path, &replay.reader, &run.header, diag);
	free(path);
	if (status != ESPL_OK)
		return status;
	replay.origin_s = run.header.utc_start_s;
	status = espl__drive_exec(&run, diag);
	if (status == ESPL_OK)
		status = check_header(&run, diag);
	if (status == ESPL_OK)
		status = replay_all(&replay, diag);
	espl__journal_reader_free(replay.reader);
	espl__arena_free(&replay.arena);
	espl__buf_free(&replay.tail);
	free(replay.events);
	if (status != ESPL_OK) {
		espl__exec_free(run.exec);
		return status;
	}
	look->exec = run.exec;
	look->rounds = replay.rounds;
	look->origin_s = replay.origin_s;
	return ESPL_OK;
}

espl_status
espl__drive_rounds(const char *dir, uint64_t *rounds, struct espl__diag *diag)
{
	char *path = espl__format("%s/journal", dir);
	struct espl__journal_reader *reader = NULL;
	struct espl__journal_header header;
	struct espl__reader payload;
	enum espl__record type;
	uint64_t lost;
	espl_status status = espl__journal_open(path, &reader, &header, diag);
	int got = 0;

	*rounds = 0;
	free(path);
	while (status == ESPL_OK &&
	    (got = espl__journal_next(reader, &type, &payload, &lost, diag)) == 1)
		*rounds += type == ESPL__REC_ROUND;
	espl__journal_reader_free(reader);
	return status == ESPL_OK && got < 0 ? diag->status : status;
}
