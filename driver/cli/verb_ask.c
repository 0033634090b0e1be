/* verb_ask.c - ask: opens a run whose trials clients evaluate, or joins the process that has it
 * open.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ask/ask.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/run_dir.h"
#include "cli/inputs.h"
#include "cli/run_observers.h"
#include "plugin/instance.h"

#define TRY_AGAIN_MS 20
#define TRIES 1500 /* 30 s: the process that has the lock replays its journal */

struct opened {
	struct espl__show show; /* first: the drive's ctx */
	void (*replayed)(void *, struct espl__exec *, const struct espl__rest *, const char *);
	struct espl__inputs inputs;
	struct espl__drive drive;
	char *dir;
	const char *shown;
	int made, begun, lock;
	struct espl__diag served;
};

/* ---- the configuration -------------------------------------------------------------------- */

/* Algorithm, options and first points, before anything is made. */
static espl_status
check_search(struct espl__inputs *s, struct espl__diag *diag)
{
	struct espl__exec_setup setup = { .inputs = s };
	struct espl__exec_plan_info info;
	struct espl__exec *exec = NULL;
	espl_status status = espl__inputs_alone(s, diag);

	if (status == ESPL_OK)
		status = espl__inputs_first(s, diag);
	if (status == ESPL_OK)
		status = espl__exec_new(&setup, &exec, diag);
	if (status != ESPL_OK)
		return status;
	espl__exec_plan_info(exec, &info);
	status = espl__inputs_first_fits(s, info.spec, diag);
	espl__exec_free(exec);
	return status;
}

static espl_status
load_file(struct opened *o, const struct espl__args *args, struct espl__diag *diag)
{
	const char **sets;
	uint32_t count = espl__arg_all(args, "set", &sets);
	espl_status status = espl__inputs_load(args->positional[0], sets, count, ESPL__NEED_SEARCH,
	    &o->inputs, diag);

	free(sets);
	if (status == ESPL_OK && o->inputs.config->pool)
		return espl__inputs_alone(&o->inputs, diag);
	if (status == ESPL_OK)
		espl__inputs_asked(o->inputs.config);
	return status == ESPL_OK ? check_search(&o->inputs, diag) : status;
}

static void
print_group(const char *use, const struct espl__node *group, struct espl__buf *b)
{
	espl__print(b, "%s", use);
	if (group != NULL)
		espl__node_print(group, 0, b);
}

/* All but the number of trials, which may grow. */
static void
print_algorithm(const struct espl__section *of, struct espl__buf *b)
{
	espl__print(b, "%s\n", of->use);
	for (uint32_t i = 0; of->group != NULL && i < of->group->child_count; i++)
		if (strcmp(of->group->children[i]->name, "trials") != 0)
			espl__node_print(of->group->children[i], 0, b);
}

/* The first thing in which the search that is asked for differs from that of a directory; NULL:
 * nothing, but that it may ask for more trials. */
static const char *
compare_searches(const struct espl__run_config *a, const struct espl__run_config *b)
{
	struct espl__buf text[2] = { { NULL, 0, 0 }, { NULL, 0, 0 } };
	const char *what = strcmp(a->metric, b->metric) != 0 ? "metric"
	    : a->maximize != b->maximize                     ? "goal"
	    : a->seed != b->seed                             ? "seed"
	    : a->seeds != b->seeds                           ? "seeds"
	    : a->confirm != b->confirm                       ? "confirm"
	    : a->has_target != b->has_target || a->target < b->target || a->target > b->target
	    ? "target"
	    : a->no_better != b->no_better ? "patience"
					   : NULL;

	for (int i = 0; i < 2 && what == NULL; i++) {
		print_group("", (i == 0 ? a : b)->space, &text[i]);
		espl__put_u8(&text[i], 0);
	}
	if (what == NULL && strcmp((char *)text[0].data, (char *)text[1].data) != 0)
		what = "space";
	for (int i = 0; i < 2 && what == NULL; i++) {
		espl__buf_clear(&text[i]);
		print_algorithm(i == 0 ? &a->algorithm : &b->algorithm, &text[i]);
		espl__put_u8(&text[i], 0);
	}
	if (what == NULL && strcmp((char *)text[0].data, (char *)text[1].data) != 0)
		what = "algorithm";
	if (what == NULL && espl__run_trials(a) < espl__run_trials(b))
		what = "number of trials";
	if (what == NULL && (espl__run_trials(a) == 0) != (espl__run_trials(b) == 0))
		what = "number of trials";
	espl__buf_free(&text[0]);
	espl__buf_free(&text[1]);
	return what;
}

/* ---- the directory --------------------------------------------------------------------------- */

/* An existing run directory, with its own configuration; `given`: the configuration that the user
 * asked for, or not loaded. */
static espl_status
load_dir(struct opened *o, const char *dir, struct espl__diag *diag)
{
	struct espl__inputs given = o->inputs;
	const char *differs = NULL;
	char *path;
	espl_status status;

	memset(&o->inputs, 0, sizeof o->inputs);
	o->shown = dir;
	status = espl__run_dir_find(dir, &o->dir, diag);
	if (status == ESPL_OK)
		status = espl__run_dir_check(o->dir, diag);
	if (status == ESPL_OK) {
		path = espl__format("%s/run.cfg", o->dir);
		status = espl__inputs_load(path, NULL, 0, ESPL__NEED_SEARCH, &o->inputs, diag);
		free(path);
	}
	if (status == ESPL_OK && strcmp(o->inputs.config->cloud.use, ESPL__ASK_CLOUD) != 0) {
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' contains a run whose trials are processes; it was not opened by "
		    "`espalier ask`",
		    dir);
		espl__hint(diag, "choose another --dir");
	}
	if (status == ESPL_OK && given.config != NULL)
		differs = compare_searches(given.config, o->inputs.config);
	if (differs != NULL) {
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' was opened with another configuration: the %s differs", dir, differs);
		espl__hint(diag,
		    "open it as it is with `espalier ask %s`, or choose another --dir; with "
		    "experiment.warm_start = { from = \"%s\"; } the new study uses its results",
		    dir, dir);
	}
	if (given.config != NULL && espl__run_trials(given.config) > o->drive.trials_total)
		o->drive.trials_total = espl__run_trials(given.config);
	if (given.config != NULL)
		espl__inputs_free(&given);
	if (status == ESPL_OK)
		espl__inputs_asked(o->inputs.config);
	return status;
}

static void
sleep_ms(long ms)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

/* Creates the run directory. If several processes do so at once, one wins and the others open its
 * directory. */
static espl_status
make_dir(struct opened *o, const char *dir, struct espl__diag *diag)
{
	struct stat st;
	espl_status status = espl__run_dir_make(&o->inputs, dir, NULL, &o->dir, &o->made, diag);
	int there = dir != NULL && stat(dir, &st) == 0 && S_ISDIR(st.st_mode);

	for (int i = 0; status != ESPL_OK && there && i < 50; i++) {
		if (espl__run_dir_has(dir, "run.cfg")) {
			*diag = (struct espl__diag)ESPL__DIAG_INIT;
			return load_dir(o, dir, diag);
		}
		sleep_ms(TRY_AGAIN_MS);
	}
	if (status != ESPL_OK)
		return diag->status = ESPL_E_CONFIG;
	o->shown = dir != NULL ? dir : strrchr(o->dir, '/') + 1;
	o->begun = 1;
	return ESPL_OK;
}

static espl_status
find_folder(struct opened *o, const struct espl__args *args, struct espl__diag *diag)
{
	const char *first = args->positional[0], *dir = espl__arg(args, "dir");
	struct stat st;
	espl_status status = espl__cli_trials(args, &o->drive, diag);

	if (status != ESPL_OK)
		return status;
	if (stat(first, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (dir != NULL || espl__arg(args, "set") != NULL)
			return espl__fail(diag, ESPL_E_CONFIG,
			    "--dir and --set go with a configuration file, not with the run "
			    "directory '%s'",
			    first);
		return load_dir(o, first, diag);
	}
	status = load_file(o, args, diag);
	if (status != ESPL_OK)
		return status;
	if (dir != NULL && espl__run_dir_has(dir, "run.cfg"))
		return load_dir(o, dir, diag);
	return make_dir(o, dir, diag);
}

/* ---- driving ------------------------------------------------------------------------------ */

/* A search that is complete is driven no more, but asked. */
static void
on_replayed(void *ctx, struct espl__exec *exec, const struct espl__rest *rest, const char *kept)
{
	struct opened *o = ctx;
	struct espl__exec_summary summary;

	o->replayed(ctx, exec, rest, kept);
	espl__exec_summary(exec, &summary);
	if (espl__exec_view(exec).ended && summary.how != ESPL__RUN_INTERRUPTED &&
	    summary.how != ESPL__RUN_FAILED && espl__drive_more(&o->drive, exec) == 0)
		(void)espl__ask_serve(exec, &o->inputs, o->dir, &espl__interrupts, &o->served);
}

/* A clock without a journal means that the journal was deleted. Starting a new study here would
 * overwrite what is left of the old one. */
static espl_status
check_journal(const struct opened *o, struct espl__diag *diag)
{
	if (espl__run_dir_has(o->dir, "journal") || !espl__run_dir_has(o->dir, "clock"))
		return ESPL_OK;
	(void)espl__fail(diag, ESPL_E_CONFIG,
	    "the journal in '%s' is missing: the study cannot be continued", o->shown);
	espl__hint(diag,
	    "restore it from a copy, or choose another --dir; `espalier export %s` prints the "
	    "results that are left",
	    o->shown);
	return ESPL_E_CONFIG;
}

static int
drive_search(struct opened *o)
{
	struct espl__exec_summary summary;
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *journal = espl__format("%s/journal", o->dir);
	espl_status status;
	int result;

	memset(&summary, 0, sizeof summary);
	if (check_journal(o, &diag) != ESPL_OK) {
		free(journal);
		return espl__cli_fail(&diag);
	}
	o->drive.exec.inputs = &o->inputs;
	o->inputs.dir = espl__strdup(o->dir);
	o->drive.open_world = espl__ask_open;
	o->drive.seed = o->inputs.config->seed;
	o->drive.dir = o->dir;
	o->drive.locked = 1;
	o->drive.interrupt = &espl__interrupts;
	o->drive.resume = espl__run_dir_has(o->dir, "journal") && !espl__journal_is_empty(journal);
	free(journal);
	espl__instance_log_from(ESPL_WARN);
	espl__show_begin(&o->show, &o->inputs, ESPL__SHOW_NOTHING, &o->drive);
	o->replayed = o->drive.replayed;
	o->drive.replayed = on_replayed;
	status = espl__drive(&o->drive, &summary, &diag);
	espl__show_end(&o->show, &summary, status == ESPL_OK ? NULL : "interrupted", diag.text);
	espl__show_free(&o->show);
	if (status == ESPL_OK && o->served.status != ESPL_OK) {
		status = o->served.status;
		diag = o->served;
	}
	if (status != ESPL_OK) {
		result = espl__cli_fail(&diag);
		if (o->begun && summary.trials == 0 && result == ESPL__EXIT_USAGE)
			espl__run_dir_undo(o->dir, o->made); /* nothing was begun */
		return result;
	}
	if (summary.how == ESPL__RUN_FAILED)
		fprintf(stderr, "espalier: error: %s\n", summary.text);
	return summary.how == ESPL__RUN_FAILED ? ESPL__EXIT_FAILED
	    : espl__interrupts > 0             ? ESPL__EXIT_INTERRUPTED
					       : ESPL__EXIT_DONE;
}

/* Drives the search, or joins the process that does. */
static int
open_search(struct opened *o)
{
	struct espl__diag diag, relay;
	espl_status status;

	for (int i = 0; i < TRIES && espl__interrupts == 0; i++) {
		diag = relay = (struct espl__diag)ESPL__DIAG_INIT;
		status = espl__drive_lock(o->dir, &o->lock, &diag);
		if (status == ESPL_OK)
			return drive_search(o);
		if (status != ESPL_E_BUSY)
			break;
		status = espl__ask_relay(o->dir, &relay);
		if (status == ESPL_OK)
			return ESPL__EXIT_DONE;
		if (status == ESPL_E_LIMIT) {
			(void)espl__cli_fail(&relay);
			return ESPL__EXIT_INTERRUPTED;
		}
		sleep_ms(TRY_AGAIN_MS);
	}
	return espl__interrupts > 0 ? ESPL__EXIT_INTERRUPTED : espl__cli_fail(&diag);
}

int
espl__verb_ask(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct opened *o = espl__alloc(sizeof *o);
	int result;

	o->lock = -1;
	espl__interrupt_catch();
	result = find_folder(o, args, &diag) == ESPL_OK ? open_search(o) : espl__cli_fail(&diag);
	if (o->inputs.config != NULL)
		espl__inputs_free(&o->inputs);
	free(o->dir);
	if (o->lock >= 0)
		(void)close(o->lock);
	free(o);
	return result;
}
