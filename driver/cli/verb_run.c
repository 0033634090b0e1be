/* verb_run.c - run, resume, simulate: loads the configuration, creates the run directory, drives
 * the run and reports its end. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/run_dir.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "cli/profile.h"
#include "cli/run_observers.h"
#include "plugin/instance.h"
#include "report/results_read.h"
#include "run/journal.h"
#include "driver/worlds.h"

/* one run from directory to exit status */
struct job {
	const struct espl__args *args;
	struct espl__inputs inputs;
	struct espl__drive drive;
	enum espl__show_as as;
	char *dir;         /* NULL: nothing is kept */
	const char *shown; /* the directory as the user would write it */
	int made, json, quiet;
	int begun; /* what is in the directory was put there by this command */
	int lock;  /* of the directory; -1 none */
	int many;  /* --runs: no events, numbers gather in `spread` */
	struct spread {
		uint64_t count;
		double sum, squares, least, most;
	} spread[3];
};

/* ---- how it ended --------------------------------------------------------------------------- */

static void
print_summary(struct job *job, const struct espl__totals *totals)
{
	struct espl__buf text = { NULL, 0, 0 };

	if (job->json) {
		espl__totals_json(totals, "summary", 0, &text);
		espl__print(&text, "\n");
	} else {
		/* Prints on standard error why it failed, and where to look. */
		espl__totals_text(totals, 0, &text);
		if (job->dir != NULL && strcmp(totals->status, "failed") != 0)
			espl__totals_logs_text(totals, job->shown, &text);
		if (job->dir != NULL)
			espl__print(&text, "  dir     %s\n", job->shown);
	}
	(void)espl__cli_print(&text);
	espl__buf_free(&text);
}

/* why: NULL or "" if it was the user. */
static void
print_resume(const struct job *job, const char *why)
{
	int known = why != NULL && why[0] != '\0';
	char *command;

	fprintf(stderr, "espalier: interrupted%s%s", known ? ": " : "", known ? why : "");
	if (job->dir == NULL || job->drive.exec.simulated) {
		fprintf(stderr, "\n");
		return;
	}
	command = espl__cli_resume(job->args, job->shown);
	fprintf(stderr, "; resume with: %s\n", command);
	free(command);
}

static void
print_failure(const struct job *job, const struct espl__totals *totals)
{
	char *command;

	if (totals->text != NULL)
		fprintf(stderr, "espalier: error: %s\n", totals->text);
	if (job->dir == NULL || job->drive.exec.simulated)
		return;
	fprintf(stderr, "hint: ");
	if (espl__run_dir_has(job->dir, "trials") || espl__run_dir_has(job->dir, "experiments"))
		fprintf(stderr, "see the output of trials in %s/%s; ", job->shown,
		    espl__totals_logs(totals));
	if (totals->over) {
		fprintf(stderr, "this run cannot be resumed; fix the cause and start a new one\n");
		return;
	}
	command = espl__cli_resume(job->args, job->shown);
	fprintf(stderr, "after fixing the cause, continue with `%s`\n", command);
	free(command);
}

/* How a run ended that the drive could not continue; NULL: there was none. */
static const char *
describe_breakdown(const struct job *job, espl_status status)
{
	int resumable = job->dir != NULL && !job->drive.exec.simulated &&
	    espl__run_dir_has(job->dir, "run.cfg");

	if (status == ESPL_OK || espl__cli_exit(status) != ESPL__EXIT_FAILED)
		return NULL;
	/* Trouble of the machine's, not of the search: a full disk, a lost file. */
	if (espl__interrupts > 0 ||
	    (resumable &&
		(status == ESPL_E_LIMIT || status == ESPL_E_REMOTE || status == ESPL_E_NOMEM)))
		return "interrupted";
	return "failed";
}

/* Before anything was begun, or instead of it. */
static int
fail_run(const struct job *job, const struct espl__diag *diag, double least_s, double least_usd)
{
	struct espl__buf text = { NULL, 0, 0 };

	if (diag->status == ESPL_E_INFEASIBLE && job->json) {
		espl__infeasible_json(least_s, least_usd, &text);
		(void)espl__cli_print(&text);
		espl__buf_free(&text);
	}
	return espl__cli_fail(diag);
}

/* drive could not go on: message and exit status. */
static int
report_failure(struct job *job, espl_status status, const struct espl__exec_summary *summary,
    const struct espl__totals *totals, const struct espl__diag *diag)
{
	const char *how = describe_breakdown(job, status);
	char *command;

	(void)fail_run(job, diag, summary->least_s, summary->least_usd);
	if (job->begun && summary->running == 0 && summary->reports == 0 &&
	    (status == ESPL_E_CONFIG || status == ESPL_E_INFEASIBLE ||
		status == ESPL_E_UNSUPPORTED)) {
		espl__run_dir_undo(job->dir, job->made); /* nothing was begun */
		return espl__cli_exit(status);
	}
	if (how == NULL)
		return espl__cli_exit(status);
	if (job->json)
		print_summary(job, totals); /* as far as it came */
	if (strcmp(how, "failed") == 0)
		return ESPL__EXIT_FAILED;
	if (espl__interrupts > 0) {
		print_resume(job, NULL);
	} else if (diag->hint[0] == '\0') {
		command = espl__cli_resume(job->args, job->shown);
		fprintf(stderr, "hint: after fixing this, continue with `%s`\n", command);
		free(command);
	}
	return ESPL__EXIT_INTERRUPTED;
}

static void
spread_add(struct spread *s, double value)
{
	if (isnan(value))
		return;
	s->least = s->count == 0 || value < s->least ? value : s->least;
	s->most = s->count == 0 || value > s->most ? value : s->most;
	s->count++;
	s->sum += value;
	s->squares += value * value;
}

/* Drives the job once, shows it, prints its summary.  Returns the exit status. */
static int
drive_once(struct job *job)
{
	struct espl__exec_summary summary;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__show show;
	espl_status status;
	int result = ESPL__EXIT_DONE;

	memset(&summary, 0, sizeof summary);
	summary.best = ESPL_NONE;
	job->drive.exec.inputs = &job->inputs;
	job->drive.exec.load = espl__inputs_submitted;
	job->drive.open_world = espl__world_open;
	free(job->inputs.dir);
	job->inputs.dir = espl__strdup(job->dir);
	job->drive.seed = job->inputs.config->seed;
	job->drive.dir = job->dir;
	job->drive.interrupt = &espl__interrupts;
	espl__show_begin(&show, &job->inputs, job->as, &job->drive);
	status = espl__drive(&job->drive, &summary, &diag);
	if (status == ESPL_E_INFEASIBLE)
		espl__plan_least(&diag, job->inputs.config, &summary);
	espl__show_end(&show, &summary, describe_breakdown(job, status), diag.text);
	if (status == ESPL_OK && job->inputs.config->pool && !job->drive.exec.simulated &&
	    summary.how != 0 && summary.how != ESPL__RUN_INTERRUPTED &&
	    (summary.how != ESPL__RUN_FAILED || summary.over))
		espl__spool_close(job->dir);
	if (status != ESPL_OK) {
		result = report_failure(job, status, &summary, &show.view.totals, &diag);
	} else {
		print_summary(job, &show.view.totals);
		spread_add(&job->spread[0], show.view.totals.jct_s);
		spread_add(&job->spread[1], show.view.totals.cost_usd);
		spread_add(&job->spread[2], show.view.totals.best_metric);
		if (summary.how == ESPL__RUN_FAILED) {
			result = ESPL__EXIT_FAILED;
			print_failure(job, &show.view.totals);
		} else if (summary.how == ESPL__RUN_INTERRUPTED) {
			print_resume(job, summary.text);
			result = ESPL__EXIT_INTERRUPTED;
		} else if (!job->inputs.config->pool && summary.best == ESPL_NONE) {
			/* the deadline or the budget came before any result */
			result = ESPL__EXIT_FAILED;
			fprintf(stderr,
			    "espalier: error: %s before any trial reported a number as its '%s'\n",
			    summary.how == ESPL__RUN_BUDGET ? "the budget was used up"
							    : "the deadline was reached",
			    job->inputs.config->metric);
		}
	}
	espl__show_free(&show);
	return result;
}

/* ---- the verbs ------------------------------------------------------------------------------ */

static int
job_begin(struct job *job, const struct espl__args *args)
{
	memset(job, 0, sizeof *job);
	job->args = args;
	job->lock = -1;
	job->json = espl__arg(args, "json") != NULL;
	job->quiet = espl__arg(args, "quiet") != NULL;
	job->as = job->json ? ESPL__SHOW_JSON
	    : job->quiet    ? ESPL__SHOW_NOTHING
			    : ESPL__SHOW_PROGRESS;
	if (job->json && job->quiet)
		return espl__cli_usage(args, "--quiet and --json exclude each other");
	if (job->as != ESPL__SHOW_PROGRESS)
		espl__instance_log_from(ESPL_WARN);
	return ESPL__EXIT_DONE;
}

static void
job_end(struct job *job)
{
	espl__inputs_free(&job->inputs);
	free(job->dir);
	if (job->lock >= 0)
		(void)close(job->lock);
}

/* extra_sets: two more --set assignments, each may be NULL. */
static espl_status
load_inputs(struct job *job, char *const *extra_sets, struct espl__diag *diag)
{
	const char **sets;
	uint32_t count = espl__arg_all(job->args, "set", &sets);
	espl_status status;

	sets = espl__realloc(sets, (size_t)count + 2, sizeof *sets);
	for (uint32_t i = 0; extra_sets != NULL && i < 2; i++)
		if (extra_sets[i] != NULL)
			sets[count++] = extra_sets[i];
	status = espl__inputs_load_auto(job->args->positional[0], sets, count, ESPL__NEED_TRIAL,
	    job->as == ESPL__SHOW_PROGRESS, &job->inputs, diag);
	free(sets);
	return status;
}

/* Before anything in the directory is read or changed: two commands must not mix there. */
static espl_status
lock_dir(struct job *job, struct espl__diag *diag)
{
	espl_status status = espl__drive_lock(job->dir, &job->lock, diag);

	job->drive.locked = status == ESPL_OK;
	return status;
}

/* Creates the run directory, and prints its name unless the user chose it. */
static espl_status
make_dir(struct job *job, const char *given, const char *faults, struct espl__diag *diag)
{
	espl_status status =
	    espl__run_dir_make(&job->inputs, given, faults, &job->dir, &job->made, diag);

	if (status != ESPL_OK) {
		/* Nothing was started: whatever the system error, another --dir fixes it. */
		diag->status = ESPL_E_CONFIG;
		return ESPL_E_CONFIG;
	}
	job->shown = given != NULL ? given : strrchr(job->dir, '/') + 1;
	status = lock_dir(job, diag);
	job->begun = status == ESPL_OK; /* a `resume` that was faster has begun, not we */
	return status;
}

int
espl__verb_run(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct job job;
	espl_status status;
	int result = job_begin(&job, args);

	if (result != ESPL__EXIT_DONE)
		return result;
	status = load_inputs(&job, NULL, &diag);
	if (status == ESPL_OK)
		status = espl__inputs_real(&job.inputs, &diag);
	if (status == ESPL_OK)
		status = espl__inputs_check(&job.inputs, 0, &diag);
	if (status == ESPL_OK)
		status = espl__inputs_env(&job.inputs, &diag);
	if (status == ESPL_OK) {
		espl__inputs_env_report(&job.inputs);
		espl__inputs_secret_report(&job.inputs);
		espl__inputs_warm_report(&job.inputs, job.as == ESPL__SHOW_PROGRESS);
		espl__interrupt_catch(); /* from here on something is left behind */
		status = make_dir(&job, espl__arg(args, "dir"), NULL, &diag);
	}
	if (status == ESPL_OK) {
		if (job.as == ESPL__SHOW_PROGRESS && !espl__live_possible())
			printf("espalier: run directory: %s\n", job.shown);
		result = drive_once(&job);
	} else {
		result = fail_run(&job, &diag, NAN, NAN);
	}
	job_end(&job);
	return result;
}

/* What kind of run the directory holds; a driver killed before it wrote a journal left none, or an
 * empty one. */
static espl_status
look_at_journal(struct job *job, struct espl__diag *diag)
{
	struct espl__journal_reader *reader = NULL;
	struct espl__journal_header header;
	char *path = espl__format("%s/journal", job->dir);
	espl_status status = ESPL_OK;

	job->drive.resume = espl__run_dir_has(job->dir, "journal") && !espl__journal_is_empty(path);
	if (job->drive.resume) {
		status = espl__journal_open(path, &reader, &header, diag);
		if (status == ESPL_OK) {
			job->drive.exec.simulated = header.simulated;
			espl__journal_reader_free(reader);
		}
	} else if (espl__run_dir_has(job->dir, "journal")) {
		espl__log(ESPL_WARN, "the journal in '%s' is empty; starting from the beginning",
		    job->shown);
	} else if (espl__run_dir_has(job->dir, "trials")) {
		espl__log(ESPL_WARN, "the journal in '%s' is missing; starting from the beginning",
		    job->shown);
	}
	free(path);
	return status;
}

/* Its trials are not processes of ours. */
static espl_status
refuse_asked(const struct job *job, struct espl__diag *diag)
{
	if (!espl__run_dir_asked(job->dir))
		return ESPL_OK;
	(void)espl__fail(diag, ESPL_E_CONFIG, "the trials of '%s' are evaluated by clients",
	    job->shown);
	espl__hint(diag, "open it with `espalier ask %s`", job->shown);
	return ESPL_E_CONFIG;
}

/* What was resolved when the run began, and the secrets that its directory does not store. */
static espl_status
load_again(struct job *job, const char *config, struct espl__diag *diag)
{
	const char **sets;
	uint32_t count = espl__arg_all(job->args, "set", &sets);
	espl_status status =
	    espl__inputs_load(config, sets, count, ESPL__NEED_TRIAL, &job->inputs, diag);

	if (status == ESPL_OK)
		status = espl__inputs_secret_sets(job->inputs.config, sets, count, diag);
	free(sets);
	return status;
}

int
espl__verb_resume(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT, locking = ESPL__DIAG_INIT;
	struct job job;
	char *config = NULL, *faults = NULL;
	espl_status status;
	int result = job_begin(&job, args);

	if (result != ESPL__EXIT_DONE)
		return result;
	job.shown = args->positional[0];
	job.drive.accept = espl__arg(args, "accept") != NULL;
	status = espl__cli_trials(args, &job.drive, &diag);
	if (status == ESPL_OK)
		status = espl__run_dir_find(args->positional[0], &job.dir, &diag);
	if (status == ESPL_OK)
		status = espl__run_dir_check(job.dir, &diag);
	if (status == ESPL_OK)
		status = refuse_asked(&job, &diag);
	/* A finished run can be shown without a lock (read-only disk).  Only the driver knows if it
	 * is finished. */
	if (status == ESPL_OK && lock_dir(&job, &locking) == ESPL_E_BUSY) {
		status = ESPL_E_BUSY;
		diag = locking;
	}
	if (status == ESPL_OK)
		status = look_at_journal(&job, &diag);
	if (status == ESPL_OK) {
		config = espl__format("%s/run.cfg", job.dir);
		status = load_again(&job, config, &diag);
	}
	/* Without a journal only the cloud shows whether it was simulated. */
	if (status == ESPL_OK && !job.drive.resume)
		status = espl__inputs_real(&job.inputs, &diag);
	if (status == ESPL_OK && !job.drive.exec.simulated)
		status = espl__inputs_env(&job.inputs, &diag);
	if (status == ESPL_OK && espl__run_dir_has(job.dir, "faults"))
		faults = espl__format("%s/faults", job.dir);
	job.drive.faults = faults;
	if (status == ESPL_OK) {
		espl__interrupt_catch();
		result = drive_once(&job);
	} else {
		result = fail_run(&job, &diag, NAN, NAN);
	}
	free(config);
	free(faults);
	job_end(&job);
	return result;
}

static void
put_spread(struct espl__buf *b, const char *name, const struct spread *s)
{
	double mean = s->count > 0 ? s->sum / (double)s->count : NAN;
	double variance = s->count > 1 ? (s->squares - s->sum * mean) / (double)(s->count - 1) : 0;

	espl__json_open(b, name, '{');
	espl__json_real(b, "mean", mean);
	espl__json_real(b, "sd", s->count == 0 ? NAN : variance > 0 ? sqrt(variance) : 0);
	espl__json_real(b, "min", s->count > 0 ? s->least : NAN);
	espl__json_real(b, "max", s->count > 0 ? s->most : NAN);
	espl__print(b, "}");
}

static void
text_spread(struct espl__buf *b, const char *name, const struct spread *s)
{
	double mean = s->count > 0 ? s->sum / (double)s->count : NAN;
	double variance = s->count > 1 ? (s->squares - s->sum * mean) / (double)(s->count - 1) : 0;

	if (s->count > 0)
		espl__print(b, "  %-12s mean %.6g, sd %.6g, from %.6g to %.6g\n", name, mean,
		    variance > 0 ? sqrt(variance) : 0, s->least, s->most);
}

static void
print_runs(struct job *job, int64_t runs)
{
	struct espl__buf b = { NULL, 0, 0 };

	if (job->json) {
		espl__json_open(&b, NULL, '{');
		espl__json_text(&b, "event", "runs");
		espl__json_text(&b, "experiment", job->inputs.config->name);
		espl__json_int(&b, "runs", runs);
		put_spread(&b, "jct_s", &job->spread[0]);
		put_spread(&b, "cost_usd", &job->spread[1]);
		put_spread(&b, "metric", &job->spread[2]);
		espl__print(&b, "}\n");
	} else {
		espl__print(&b, "%lld runs of %s\n", (long long)runs, job->inputs.config->name);
		text_spread(&b, "time (s)", &job->spread[0]);
		text_spread(&b, "cost ($)", &job->spread[1]);
		text_spread(&b, "best metric", &job->spread[2]);
	}
	(void)espl__cli_print(&b);
	espl__buf_free(&b);
}

static int
simulate_runs(struct job *job, int64_t runs)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	int result = ESPL__EXIT_DONE, one;
	int64_t i;

	if (job->many) {
		job->as = ESPL__SHOW_NOTHING;
		espl__instance_log_from(ESPL_WARN);
	}
	for (i = 0; i < runs && espl__interrupts == 0; i++) {
		if (i > 0 && espl__inputs_next_seed(&job->inputs, &diag) != ESPL_OK)
			return fail_run(job, &diag, NAN, NAN);
		one = drive_once(job);
		result = one > result ? one : result;
		if (one == ESPL__EXIT_USAGE || one == ESPL__EXIT_INFEASIBLE)
			return one; /* no seed will mend that */
	}
	if (job->many && i > 0)
		print_runs(job, i);
	return result;
}

/* --curves-from as a --set of trial.curves, which replaces the trainable in the file. */
static espl_status
set_curves_from(const struct espl__args *args, char **set, struct espl__diag *diag)
{
	const char *from = espl__arg(args, "curves-from");
	struct espl__buf text = { NULL, 0, 0 };
	char full[PATH_MAX];

	if (from == NULL)
		return ESPL_OK;
	if (realpath(from, full) == NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "--curves-from: cannot open '%s': %s", from,
		    strerror(errno));
	espl__print(&text, "trial.curves=");
	espl__print_quoted(&text, full);
	*set = espl__strdup(espl__buf_text(&text));
	espl__buf_free(&text);
	return ESPL_OK;
}

int
espl__verb_simulate(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct job job;
	int64_t runs = 1, seed = -1;
	char *sets[2] = { NULL, NULL };
	const char *dir = espl__arg(args, "dir");
	espl_status status;
	int result = job_begin(&job, args);

	if (result != ESPL__EXIT_DONE)
		return result;
	job.many = espl__arg(args, "runs") != NULL;
	if (job.many && dir != NULL)
		return espl__cli_usage(args,
		    "--dir stores a single run and cannot be combined with --runs");
	status = espl__arg_number(args, "runs", 1, 1000000, 1, &runs, &diag);
	if (status == ESPL_OK)
		status = espl__arg_number(args, "seed", 0, INT64_MAX, -1, &seed, &diag);
	if (status == ESPL_OK && seed >= 0)
		sets[0] = espl__format("experiment.seed=%lld%s", (long long)seed,
		    seed > INT32_MAX ? "L" : "");
	if (status == ESPL_OK)
		status = set_curves_from(args, &sets[1], &diag);
	if (status == ESPL_OK)
		status = load_inputs(&job, sets, &diag);
	if (status == ESPL_OK && sets[1] != NULL && job.inputs.config->pool)
		status = espl__fail(&diag, ESPL_E_CONFIG,
		    "--curves-from works for a single experiment; in a pool, set trial.curves in "
		    "the experiment's file");
	job.drive.exec.simulated = 1;
	job.drive.faults = espl__arg(args, "faults");
	if (status == ESPL_OK)
		status = espl__inputs_check(&job.inputs, 1, &diag);
	if (status == ESPL_OK && dir != NULL)
		status = make_dir(&job, dir, job.drive.faults, &diag);
	if (status == ESPL_OK) {
		espl__inputs_warm_report(&job.inputs, job.as == ESPL__SHOW_PROGRESS);
		espl__interrupt_catch();
		result = simulate_runs(&job, runs);
	} else {
		result = fail_run(&job, &diag, NAN, NAN);
	}
	free(sets[0]);
	free(sets[1]);
	job_end(&job);
	return result;
}
