/* profile_measure.c - one measurement: the trial runs for a few iterations on a number of GPUs, or
 * several trials run on one GPU, driven like any other run, and an observer records the times.
 *
 * On GPUs of its own a trial trains in two stages, so that it is paused and resumed once: start,
 * checkpoint and restore are measured as in a search. The first iteration of a gang warms up and
 * counts as part of the start. How many iterations are enough is not known in advance. It is
 * decided during the run, which is then stopped as if by the user.
 *
 * Resizes in place need a second trial: the first one makes room for it while its processes live,
 * or both start side by side, and the one that is not stopped also gets the other's GPUs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "cli/run_dir.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "model/earlier.h"
#include "plugin/instance.h"
#include "report/totals.h"
#include "run/drive.h"
#include "driver/worlds.h"

#define CLEAR 0.02 /* a standard error of the mean that is small enough */
#define LOG_LINES 8
#define APART_S 120.0 /* starts of programs on one GPU are at most this far apart */
#define PATIENCE 20   /* iterations after which one of two has probably been stopped */

/* a gang */
struct watched {
	uint64_t gang, trial;
	espl_time starting, last; /* last: of the last report */
	uint32_t reports;
	int again; /* goes on from a checkpoint */
	int over;  /* at its budget */
	int ended;
};
struct measure {
	const struct espl__measure_ask *ask;
	struct espl__measurement *to;
	struct espl__inputs inputs;
	struct espl__observer observer;
	struct watched *gangs;
	uint32_t count, cap;
	uint32_t warm;     /* gangs past their first report and not at their budget */
	espl_time full;    /* since when all trials are */
	int paused;        /* it is paused in between */
	int64_t began;     /* tick of the first start; 0: none yet */
	volatile int wish; /* request to the drive: 1 stop cleanly, 2 kill */
	uint32_t still;    /* iterations without a resize */
	int enough, late;
	uint64_t failed; /* trial, ESPL_NONE none */
	char why[512];
};

/* ---- observing ------------------------------------------------------------------------------ */

static struct watched *
gang_of(struct measure *m, uint64_t trial)
{
	for (uint32_t i = m->count; i-- > 0;)
		if (m->gangs[i].trial == trial && !m->gangs[i].ended)
			return &m->gangs[i];
	return NULL;
}

static double
seconds_between(espl_time from, espl_time to)
{
	return (double)(to - from) / 1e9;
}

static void
gang_starts(struct measure *m, espl_time now, uint64_t gang, uint64_t trial)
{
	struct watched *g;
	int again = 0;

	for (uint32_t i = 0; i < m->count; i++)
		again |= m->gangs[i].trial == trial;
	ESPL__GROW(m->gangs, m->cap, m->count + 1);
	g = &m->gangs[m->count++];
	memset(g, 0, sizeof *g);
	g->gang = gang;
	g->trial = trial;
	g->starting = now;
	g->again = again;
	if (m->began == 0 && m->inputs.config->trial.setup == NULL)
		m->began = espl__tick();
}

/* The time that trial.setup takes on a new node belongs to no start of a trial. */
static void
gang_runs(struct measure *m, espl_time now, struct watched *g)
{
	if (m->inputs.config->trial.setup == NULL)
		return;
	g->starting = now;
	if (m->began == 0)
		m->began = espl__tick();
}

static void
gang_ends(struct measure *m, espl_time now, struct watched *g, const char *text)
{
	if (g->over && m->wish == 0 && m->inputs.config->trial.checkpoint)
		espl__tally_add(&m->to->save, seconds_between(g->last, now));
	if (g->reports > 0 && !g->over)
		m->warm--;
	g->ended = 1;
	if (text != NULL && text[0] != '\0' && m->wish == 0)
		(void)snprintf(m->why, sizeof m->why, "%s", text);
}

static void
on_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct measure *m = ctx;
	struct watched *g;

	(void)share, (void)slots;
	if (phase == ESPL__PHASE_STARTING)
		gang_starts(m, now, gang, trial);
	else if (phase == ESPL__PHASE_RUNNING && (g = gang_of(m, trial)) != NULL)
		gang_runs(m, now, g);
	else if (phase == ESPL__PHASE_ENDED && (g = gang_of(m, trial)) != NULL && g->gang == gang)
		gang_ends(m, now, g, text);
}

static void
on_resized(void *ctx, espl_time now, uint64_t gang, double took_s)
{
	struct measure *m = ctx;

	(void)now, (void)gang;
	espl__tally_add(&m->to->resize, took_s);
	m->enough |= m->ask->resize != ESPL__RESIZE_NONE;
}

static void
on_failure(void *ctx, espl_time now, const struct espl_trial *trial)
{
	struct measure *m = ctx;

	(void)now;
	if (m->wish == 0 && m->failed == ESPL_NONE)
		m->failed = trial->id;
}

static void
on_report(void *ctx, espl_time now, const struct espl_trial *trial, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct measure *m = ctx;
	const struct espl__measure_ask *ask = m->ask;
	struct espl__tally *t = &m->to->iteration;
	struct watched *g = gang_of(m, trial->id);

	(void)loss, (void)metrics, (void)count;
	if (g == NULL || m->enough)
		return;
	if (ask->resize != ESPL__RESIZE_NONE) {
		m->enough = ask->resize == ESPL__RESIZE_MORE && ++m->still > PATIENCE;
		return;
	}
	if (g->reports++ == 0) {
		espl__tally_add(g->again ? &m->to->again : &m->to->begin,
		    seconds_between(g->starting, now));
		if (++m->warm == ask->packing)
			m->full = now;
	} else if (m->warm == ask->packing && g->last >= m->full && share.packing == ask->packing) {
		espl__tally_add(t, seconds_between(g->last, now));
	}
	g->last = now;
	if (iteration >= trial->budget) {
		g->over = 1;
		m->warm--;
	}
	if (!m->paused || m->to->again.count > 0)
		m->enough = t->count >= (uint64_t)ask->most * ask->packing ||
		    (t->count >= (uint64_t)ask->least * ask->packing &&
			espl__tally_error(t) <= CLEAR);
}

static void
on_tick(void *ctx, struct espl__exec *exec)
{
	struct measure *m = ctx;

	(void)exec;
	if (m->ask->limit > 0 && m->began != 0 && espl__tick() - m->began >= m->ask->limit)
		m->late = 1;
	if (espl__interrupts > m->wish)
		m->wish = espl__interrupts;
	else if (m->wish == 0 && (m->enough || m->late))
		m->wish = 1;
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* A trial alone. One or two of its timed iterations are before the pause. */
static void
set_alone(const struct espl__measure_ask *ask, int paused, struct espl__buf *b)
{
	uint32_t before = ask->least > 2 ? 2 : 1;

	if (!paused)
		espl__print(b, "algorithm={ use=\"stages\"; stages=( (1, %u) ); }\n",
		    ask->most + 1);
	else
		espl__print(b, "algorithm={ use=\"stages\"; stages=( (1, %u), (1, %u) ); }\n",
		    before + 1, ask->most - before + 1);
	espl__print(b, "allocator={ use=\"static\"; gpus=%u;", ask->gpus);
}

/* Allocator `fair` lets trials share if the profile says that this helps, so the profile used here
 * says so. A trial that started early must not finish before the ones that started late have been
 * timed beside it. */
static void
set_packed(const struct espl__measure_ask *ask, struct espl__buf *b)
{
	double apart = ask->iteration_s > 0 ? fmin(APART_S / ask->iteration_s, 1e6) : 0;

	espl__print(b, "algorithm={ use=\"stages\"; stages=( (%u, %u) ); }\n", ask->packing,
	    2 * ask->most + 2 + (uint32_t)apart);
	espl__print(b, "trial.profile={ iteration=\"%.9fs\"; packing=( (1, 1.0)", ask->iteration_s);
	for (uint32_t i = 2; i <= ask->packing; i++)
		espl__print(b, ", (%u, %u.0)", i, i);
	espl__print(b, " ); }\nallocator={ use=\"fair\"; gpus=1; packing=%u;", ask->packing);
}

/* The second stage has room for one more trial: the first one, whose processes wait at the barrier,
 * continues on half of its GPUs. Of two trials side by side, the second to reach a rung is stopped
 * unless it is better, which happens soon. */
static void
set_resized(const struct espl__measure_ask *ask, struct espl__buf *b)
{
	espl__print(b,
	    "algorithm={ use=%s }\nallocator={ use=\"fair\"; resize=\"always\"; gpus=%u;",
	    ask->resize == ESPL__RESIZE_LESS
		? "\"stages\"; stages=( (1, 2), (2, 1000) );"
		: "\"asha\"; mode=\"stopping\"; trials=2; iterations_max=1000; eta=2;",
	    ask->gpus);
}

/* What the measurement sets, one a line. */
static void
write_sets(const struct espl__measure_ask *ask, int paused, struct espl__buf *b)
{
	uint32_t trials = ask->resize != ESPL__RESIZE_NONE ? 2 : ask->packing;
	char money[32];

	espl__print(b, "trial.profile=\"auto\"\n");
	if (ask->resize != ESPL__RESIZE_NONE)
		set_resized(ask, b);
	else if (ask->packing > 1)
		set_packed(ask, b);
	else
		set_alone(ask, paused, b);
	if (ask->subject->offer != NULL) {
		espl__print(b, " offer=");
		espl__print_quoted(b, ask->subject->offer);
		espl__print(b, ";");
	}
	espl__print(b, " }\ntrial.gpus_min=%u\ntrial.gpus_max=%u\ntrial.packing_max=%u\n",
	    ask->resize != ESPL__RESIZE_NONE ? ask->gpus / 2 : ask->gpus, ask->gpus, ask->packing);
	if (ask->torchrun)
		espl__print(b, "trial.torchrun=true\n");
	espl__print(b,
	    "trial.retries=0\ntrial.checkpoint_every=0s\nplanning.warm=%s\n"
	    "planning.acquire_ahead=false\nexperiment.first=(",
	    ask->resize != ESPL__RESIZE_NONE ? "true" : "false");
	for (uint32_t i = 0; i < trials; i++)
		espl__print(b, "%s %s", i > 0 ? "," : "", ask->subject->point);
	espl__print(b, " )\n");
	if (ask->budget != INT64_MAX)
		espl__print(b, "experiment.budget=%s\n", espl__format_money(ask->budget, money));
}

static espl_status
load_inputs(struct measure *m, struct espl__diag *diag)
{
	const struct espl__measure_ask *ask = m->ask;
	struct espl__buf text = { NULL, 0, 0 };
	const char **sets;
	char *line, *rest;
	uint32_t count = ask->set_count;
	espl_status status;

	write_sets(ask, m->paused, &text);
	sets = espl__realloc(NULL, count + 16, sizeof *sets);
	for (uint32_t i = 0; i < count; i++)
		sets[i] = ask->sets[i];
	(void)espl__buf_text(&text);
	for (rest = (char *)text.data; (line = strsep(&rest, "\n")) != NULL;)
		if (line[0] != '\0')
			sets[count++] = line;
	status = espl__inputs_load(ask->file, sets, count, ESPL__NEED_TRIAL, &m->inputs, diag);
	free(sets);
	espl__buf_free(&text);
	if (status != ESPL_OK)
		return status;
	/* They apply to a search, not to a measurement. */
	m->inputs.config->deadline = ESPL_NEVER;
	m->inputs.config->has_target = 0;
	m->inputs.config->no_better = 0;
	return ESPL_OK;
}

/* ---- how it ended --------------------------------------------------------------------------- */

/* The last lines that the trial printed, read before the log is removed. */
static void
keep_log(const struct measure *m)
{
	char *path = espl__format("%s/trials/%llu/log", m->ask->dir, (unsigned long long)m->failed);
	FILE *file = fopen(path, "re");
	char room[sizeof m->to->log];
	size_t size = 0, from;
	int lines = 0;

	free(path);
	if (file == NULL)
		return;
	if (fseek(file, -(long)(sizeof room - 1), SEEK_END) != 0)
		rewind(file);
	size = fread(room, 1, sizeof room - 1, file);
	(void)fclose(file);
	while (size > 0 && room[size - 1] == '\n')
		size--;
	for (from = size; from > 0 && lines < LOG_LINES; from--)
		lines += room[from - 1] == '\n';
	from += lines == LOG_LINES;
	memcpy(m->to->log, room + from, size - from);
	m->to->log[size - from] = '\0';
}

static espl_status
trial_failed(struct measure *m, struct espl__diag *diag)
{
	m->to->end = ESPL__MEASURE_FAILED;
	keep_log(m);
	return espl__fail(diag, ESPL_E_REMOTE, "the trial failed on %u %s%s: %s", m->ask->gpus,
	    espl__slots_word(m->ask->subject->on_cpu, m->ask->gpus),
	    m->ask->packing > 1 ? ", shared by several trials" : "",
	    m->why[0] != '\0' ? m->why : "it exited without being asked to");
}

/* Neither time nor money is used up, so it just did not happen. */
static espl_status
no_resize(struct measure *m, const struct espl__exec_summary *summary, struct espl__diag *diag)
{
	char limit[32];

	m->to->end = summary->how == ESPL__RUN_BUDGET ? ESPL__MEASURE_BROKE : ESPL__MEASURE_LATE;
	if (summary->how == ESPL__RUN_BUDGET)
		return espl__fail(diag, ESPL_E_REMOTE,
		    "the budget was used up before the trial was resized");
	if (m->late)
		return espl__fail(diag, ESPL_E_REMOTE, "the trial was not resized within %s",
		    espl__format_short(m->ask->limit, limit));
	m->to->end = ESPL__MEASURED;
	return ESPL_OK;
}

static espl_status
judge_measurement(struct measure *m, espl_status status, const struct espl__exec_summary *summary,
    struct espl__diag *diag)
{
	struct espl__measurement *to = m->to;
	char limit[32];

	if (espl__interrupts > 0) {
		to->end = ESPL__MEASURE_STOPPED;
		return espl__fail(diag, ESPL_E_LIMIT, "interrupted");
	}
	if (m->failed != ESPL_NONE)
		return trial_failed(m, diag);
	if (status != ESPL_OK)
		return status;
	/* Stopped, but not by us: a problem of the machine. */
	if (summary->how == ESPL__RUN_FAILED ||
	    (summary->how == ESPL__RUN_INTERRUPTED && m->wish == 0))
		return espl__fail(diag, ESPL_E_REMOTE, "%s", summary->text);
	if ((m->ask->resize != ESPL__RESIZE_NONE ? to->resize.count : to->iteration.count) > 0) {
		to->end = ESPL__MEASURED;
		return ESPL_OK;
	}
	if (m->ask->resize != ESPL__RESIZE_NONE)
		return no_resize(m, summary, diag);
	if (summary->how == ESPL__RUN_BUDGET) {
		to->end = ESPL__MEASURE_BROKE;
		return espl__fail(diag, ESPL_E_REMOTE,
		    "the budget was used up before an iteration was timed");
	}
	if (!m->late)
		return espl__fail(diag, ESPL_E_REMOTE,
		    "the trial completed before an iteration was timed");
	to->end = ESPL__MEASURE_LATE;
	(void)espl__fail(diag, ESPL_E_REMOTE,
	    "no iteration was timed within %s, apart from the first, which only warms up",
	    espl__format_short(m->ask->limit, limit));
	espl__hint(diag, "allow more time with --time-limit");
	return ESPL_E_REMOTE;
}

static espl_status
drive_measurement(struct measure *m, struct espl__exec_summary *summary, struct espl__diag *diag)
{
	struct espl__drive drive;
	char *dir = NULL;
	int made;
	espl_status status = espl__run_dir_make(&m->inputs, m->ask->dir, NULL, &dir, &made, diag);

	if (status != ESPL_OK)
		return status;
	memset(&drive, 0, sizeof drive);
	m->observer = (struct espl__observer){ .ctx = m,
		.report = on_report,
		.gang = on_gang,
		.resized = on_resized,
		.failure = on_failure };
	drive.exec.inputs = &m->inputs;
	drive.exec.observers = &m->observer;
	drive.open_world = espl__world_open;
	drive.seed = m->inputs.config->seed;
	drive.dir = dir;
	drive.tick = on_tick;
	drive.ctx = m;
	drive.interrupt = &m->wish;
	/* the behavior of the algorithm is not measured here */
	espl__earlier_free(m->inputs.earlier);
	m->inputs.earlier = NULL;
	espl__instance_log_from(ESPL_WARN);
	status = espl__drive(&drive, summary, diag);
	free(dir);
	return status;
}

espl_status
espl__measure(const struct espl__measure_ask *ask, struct espl__measurement *to,
    struct espl__diag *diag)
{
	struct measure m;
	struct espl__exec_summary summary;
	struct espl__diag own = ESPL__DIAG_INIT;
	int64_t began = espl__tick();
	espl_status status;

	memset(to, 0, sizeof *to);
	to->gpus = ask->gpus;
	to->packing = ask->packing;
	memset(&summary, 0, sizeof summary);
	memset(&m, 0, sizeof m);
	m.ask = ask;
	m.to = to;
	m.failed = ESPL_NONE;
	m.paused = ask->checkpoint && ask->packing == 1 && ask->resize == ESPL__RESIZE_NONE;
	status = load_inputs(&m, diag);
	if (status == ESPL_OK)
		status = espl__inputs_check(&m.inputs, 0, diag);
	if (status == ESPL_OK) {
		status =
		    judge_measurement(&m, drive_measurement(&m, &summary, &own), &summary, diag);
		if (status != ESPL_OK && diag != NULL && diag->status == ESPL_OK)
			*diag = own;
		(void)espl__tree_remove(ask->dir, NULL);
	}
	to->elapsed_s = (double)(espl__tick() - began) / 1e9;
	to->gpu_s = summary.gpu_s;
	to->cost = summary.cost;
	espl__inputs_free(&m.inputs);
	free(m.gangs);
	return status;
}
