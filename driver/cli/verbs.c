/* verbs.c - the table of verbs, and how a command line finds its verb. */
#include "cli/cli.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/calling.h"
#include "base/mem.h"
#include "model/trials.h"
#include "run/drive.h"
#include "base/text.h"
#include "cli/run_dir.h"
#include "config.h"
#include "plugin/registry.h"

#define SET_FLAG \
	{ \
		"set", 's', "PATH=VALUE", "override a value in FILE (repeatable)" \
	}
#define SECRET_FLAG \
	{ \
		"set", 's', "cloud.NAME=VALUE", \
		    "give a secret of the cloud again, which a run directory does not store" \
	}
#define TRIALS_FLAG \
	{ \
		"trials", 'n', "+N|N", \
		    "try N configurations more, or N in all, also if the search is complete" \
	}
#define JSON_FLAG \
	{ \
		"json", 'j', NULL, "print only JSON on standard output" \
	}
#define QUIET_FLAG \
	{ \
		"quiet", 'q', NULL, "print only the final summary" \
	}
#define END_FLAGS \
	{ \
		NULL, 0, NULL, NULL \
	}

static const struct espl__flag run_flags[] = {
	{ "dir", 'd', "DIR", "run directory (default: ./NAME-YYYYMMDD-HHMMSS)" }, SET_FLAG,
	QUIET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag resume_flags[] = {
	{ "accept", 0, NULL,
	    "if plugins now decide differently, keep the recorded decisions; if the journal is "
	    "damaged, discard everything after the damage" },
	TRIALS_FLAG, SECRET_FLAG, QUIET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag ask_flags[] = {
	{ "dir", 'd', "DIR",
	    "run directory; opened if it exists (default: ./NAME-YYYYMMDD-HHMMSS)" },
	TRIALS_FLAG, SET_FLAG, END_FLAGS
};
static const struct espl__flag simulate_flags[] = {
	{ "seed", 0, "N",
	    "random seed (default: experiment.seed; a pool's experiments keep their own)" },
	{ "runs", 'n', "N", "simulate N times, with consecutive seeds" },
	{ "faults", 0, "FILE", "inject the faults listed in FILE: lost nodes, failing trials" },
	{ "curves-from", 0, "RUN",
	    "replay the learning curves of RUN (a run directory or a CSV file) instead of "
	    "training" },
	{ "dir", 'd', "DIR", "store journal and results in DIR (default: store nothing)" },
	SET_FLAG, QUIET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag plan_flags[] = {
	{ "allocator", 'a', "NAME", "plan with this allocator instead of the one in FILE" },
	{ "compare", 'c', NULL, "compare all allocators that can plan" },
	{ "frontier", 'f', NULL, "show the cost of different deadlines" },
	{ "gpus", 'g', "N[,N...]", "predict this plan: GPUs per stage, or one number for all" },
	SET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag profile_flags[] = { { "output", 'o', "PROFILE.json",
						       "also write the profile to this file" },
	{ "iterations", 'n', "N",
	    "time N iterations per measurement (default: 3 to 20, as needed)" },
	{ "time-limit", 't', "SPAN", "time limit per measurement (default: 10m; 0s: none)" },
	SET_FLAG, QUIET_FLAG, JSON_FLAG, END_FLAGS };
static const struct espl__flag status_flags[] = {
	{ "watch", 'w', NULL, "print the status every second until the run ends" },
	{ "quiet", 'q', NULL, "print a single line" }, JSON_FLAG, END_FLAGS
};
static const struct espl__flag forecast_flags[] = {
	{ "at", 0, "PERCENT", "forecast as after this part of the journal, such as 50%" },
	JSON_FLAG, END_FLAGS
};
static const struct espl__flag best_flags[] = { { "top", 'n', "N", "print the best N trials" },
	JSON_FLAG, END_FLAGS };
static const struct espl__flag json_flags[] = { JSON_FLAG, END_FLAGS };
static const struct espl__flag set_flags[] = { SET_FLAG, END_FLAGS };
static const struct espl__flag export_flags[] = {
	{ "format", 'f', "csv|json|tensorboard",
	    "output format; csv exports one table, json all of them, tensorboard the metrics and "
	    "parameters" },
	{ "table", 't', "NAME",
	    "table to export as csv: trials (default), reports, gangs, stays, resizes, nodes, "
	    "charges, groups, predictions, plan, decisions, notes, trial_notes, experiments, jobs, "
	    "gpu_map, "
	    "importance or schedule" },
	{ "output", 'o', "OUT",
	    "output file (default: standard output); of tensorboard a directory (default: "
	    "DIR/tensorboard)" },
	END_FLAGS
};
static const struct espl__flag report_flags[] = {
	{ "output", 'o', "FILE.html",
	    "output file (default: DIR/report.html; -: standard output)" },
	{ "log", 'l', NULL, "start with logarithmic axes; the page offers both" }, END_FLAGS
};
static const struct espl__flag serve_flags[] = { { "port", 'p', "N",
						     "port to listen on (default: a free one)" },
	{ "control", 0, NULL,
	    "let the page stop runs, and submit to pools and cancel in them (default: read-only)" },
	END_FLAGS };
static const struct espl__flag nodes_flags[] = { { "config", 'c', "FILE",
						     "ask the cloud of this configuration file" },
	{ "release", 0, "RUN",
	    "release all machines of RUN, a run directory or the name of a run as listed" },
	{ "force", 0, NULL, "with --release: also if the directory of the run is not known here" },
	SECRET_FLAG, JSON_FLAG, END_FLAGS };
static const struct espl__flag help_flags[] = { { "all", 0, NULL,
						    "also show experimental options" },
	{ "keyword", 'k', "WORD", "list every option and command whose help mentions WORD" },
	{ "markdown", 0, NULL, "print Markdown" },
	{ "man", 0, NULL, "print the source of a manual page" },
	{ "completion", 0, "bash|zsh|fish",
	    "print a completion script: source <(espalier help --completion bash)" },
	END_FLAGS };

static const struct espl__flag check_flags[] = {
	{ "output", 'o', "LOG", "also try trial.metrics on LOG, a file of the program's output" },
	SET_FLAG, END_FLAGS
};
static const struct espl__flag init_flags[] = {
	{ "output", 'o', "FILE", "write to FILE, which must not exist (default: standard output)" },
	{ "no-ask", 'n', NULL, "only read the script: do not run it with --help" }, END_FLAGS
};

static int
verb_version(const struct espl__args *args)
{
	struct espl__buf text = { NULL, 0, 0 };
	int status;

	(void)args;
	espl__print(&text, "espalier %s\n", PACKAGE_VERSION);
	status = espl__cli_print(&text);
	espl__buf_free(&text);
	return status;
}

const struct espl__verb espl__verbs[] = {
	{ "init", "[SCRIPT] [--output FILE] [--no-ask]",
	    "write a first configuration, for a script",
	    "Reads a Python script and the modules beside it: its options (argparse, click, typer, "
	    "fire,\n"
	    "absl, Hydra, dataclasses) and the lines that it prints.  Proposes a space, a metric "
	    "and "
	    "an algorithm,\n"
	    "with reasons.  Also runs `python3 SCRIPT --help`, for at most 30 seconds, and nothing "
	    "else of it.\n"
	    "What init cannot know is marked CHANGE-ME, which `espalier check` refuses.  For a "
	    "script in another\n"
	    "language, or without SCRIPT, prints a template.\n",
	    init_flags, 0, 1, espl__verb_init },
	{ "run", "FILE [--dir DIR] [--set PATH=VALUE]... [--quiet|--json]",
	    "run the experiment described in FILE",
	    "All data of the run is stored in DIR, which must not already contain a run.\n"
	    "On a terminal espalier shows a live view, otherwise it prints log lines.  The first "
	    "Ctrl-C\n"
	    "stops the run cleanly (continue it with `espalier resume DIR`), a second stops it at "
	    "once, a\n"
	    "third kills espalier even while a plugin is stuck.\n",
	    run_flags, 1, 1, espl__verb_run },
	{ "resume", "DIR [--trials +N|N] [--accept] [--set cloud.NAME=VALUE]... [--quiet|--json]",
	    "continue an interrupted run, or extend a finished one",
	    "Replays the journal in DIR, then continues the run where it stopped.  For a finished "
	    "run,\n"
	    "prints the summary, or with --trials searches on: the algorithm keeps all that it "
	    "has learned.\n"
	    "DIR may have been moved.  A secret that the configuration itself "
	    "held is "
	    "not\n"
	    "in DIR and must be given again with --set; one that it refers to as \"env:NAME\" or "
	    "\"file:PATH\" is\n"
	    "looked up.\n",
	    resume_flags, 1, 1, espl__verb_resume },
	{ "ask", "FILE|DIR [--dir DIR] [--trials +N|N] [--set PATH=VALUE]...",
	    "hand out trials to clients, which tell the results (ask and tell)",
	    "Reads requests from standard input, one JSON object per line, and answers each with "
	    "a line:\n"
	    "{\"op\": \"ask\"} for a trial, then {\"op\": \"tell\", \"trial\": 0, \"value\": "
	    "0.25}.  Space, metric,\n"
	    "seed and algorithm are those of FILE, or of the run directory DIR.  Results are on "
	    "the disk before\n"
	    "they are acknowledged.  Several processes may open one DIR; the first drives the "
	    "search, and if\n"
	    "it ends another one continues.  The trials of a process that ends are handed out "
	    "again.\n",
	    ask_flags, 1, 1, espl__verb_ask },
	{ "plan",
	    "FILE [--allocator NAME | --gpus N[,N...]] [--compare] [--frontier] [--set "
	    "PATH=VALUE]... [--json]",
	    "predict time and cost before anything is started",
	    "The allocator plans the number of GPUs for each stage from the algorithm's stages, "
	    "the\n"
	    "trial's profile and the cloud's prices and limits.  Nothing is started; the training "
	    "program\n"
	    "need not be installed.  It chooses the cheapest plan that meets the deadline, or the "
	    "fastest\n"
	    "within the budget.  Exits with 3 if no plan is feasible and prints the smallest "
	    "deadline or\n"
	    "budget that would be.  With --allocator, options that the other allocator does not "
	    "know are\n"
	    "ignored.\n",
	    plan_flags, 1, 1, espl__verb_plan },
	{ "simulate",
	    "FILE [--seed N] [--runs N] [--curves-from RUN] [--faults FILE] [--dir DIR] [--set "
	    "PATH=VALUE]... [--quiet|--json]",
	    "simulate the run on a virtual clock",
	    "Uses the same plugins and scheduler as `run`.  Machines are simulated from the "
	    "cloud's prices\n"
	    "and limits, trials from the profile and either a trainable or recorded learning "
	    "curves (a CSV\n"
	    "file, or a previous run of any program).\n",
	    simulate_flags, 1, 1, espl__verb_simulate },
	{ "profile",
	    "FILE [-o PROFILE.json] [--iterations N] [--time-limit SPAN] [--set PATH=VALUE]... "
	    "[--quiet|--json]",
	    "measure a trial's scaling, sharing, start and checkpoint times",
	    "Runs the trial of FILE for a few iterations on 1, 2, 4, ... GPUs, up to "
	    "trial.gpus_max and the\n"
	    "limit of the cloud, as long as more GPUs help; then 2, 3, 4, ... trials on one GPU, "
	    "up to\n"
	    "trial.packing_max.  The result can be used as trial.profile.  It is also stored for "
	    "this trial\n"
	    "and hardware, where profile = \"auto\" finds it.\n",
	    profile_flags, 1, 1, espl__verb_profile },
	{ "list", "[DIR]... [--json]", "list runs and their progress",
	    "Lists the runs in each DIR (default: the current directory).\n", json_flags, 0,
	    ESPL__POSITIONAL_MAX, espl__verb_list },
	{ "status", "DIR [--watch] [--quiet|--json]",
	    "show the progress of a run, also while it is running", "", status_flags, 1, 1,
	    espl__verb_status },
	{ "forecast", "DIR [--at PERCENT] [--json]",
	    "say when a run will end, what it will cost, and what the rest is worth",
	    "Replays the run from its journal and simulates the rest of it several times, with "
	    "the times, failures,\n"
	    "interruptions and learning curves seen so far.  Bands hold the truth in 80 of 100 "
	    "cases.\n",
	    forecast_flags, 1, 1, espl__verb_forecast },
	{ "best", "DIR [--top N] [--json]", "show the best trial of a run and its parameters",
	    "The best trial is the one with the best last report among the trials that trained "
	    "longest.\n",
	    best_flags, 1, 1, espl__verb_best },
	{ "explain", "DIR [TRIAL]", "show what was decided for a run or a trial, when and why",
	    "TRIAL is a number.  In a pool, 1/3 is trial 3 of experiment 1; a plain job is given "
	    "by name.\n",
	    NULL, 1, 2, espl__verb_explain },
	{ "export", "DIR --format csv|json|tensorboard [--table NAME] [-o OUT]",
	    "export results for other programs",
	    "DIR/results.db can also be queried directly; it is an SQLite database.  The table "
	    "`gpu_map` has\n"
	    "one row for each trial and GPU it used, with the node, the start and the end.  The "
	    "table\n"
	    "`importance` tells how much of the metric's variance each parameter explains by "
	    "itself.  The table\n"
	    "`schedule` shows how the best trial was obtained: its parameters and those of the "
	    "trials it was\n"
	    "cloned from, with the iterations they apply to.  The algorithm `replay` trains along "
	    "it.\n",
	    export_flags, 1, 1, espl__verb_export },
	{ "report", "DIR [-o FILE.html] [--log]",
	    "write an HTML report of what the search found and used",
	    "The report shows the best result over time, GPU hours and dollars; learning curves; "
	    "the importance\n"
	    "of the parameters, parallel coordinates, slices and contours; all trials in a table; "
	    "nodes and trials\n"
	    "over time next to the plan; GPUs and cost over time, the use of each GPU, and the "
	    "cost and gain of\n"
	    "each resize.  It can be written while the run is in progress.  The page is a single "
	    "file that loads\n"
	    "nothing from the network.\n",
	    report_flags, 1, 1, espl__verb_report },
	{ "serve", "[DIR]... [--port N] [--control]",
	    "show runs in a browser while they are running",
	    "Serves the page of `espalier report` for the runs in each DIR (default: the current "
	    "directory) and\n"
	    "updates it as they progress, with the queue of a pool and the logs of trials.  "
	    "Listens on this\n"
	    "machine only, and requires the token in the printed address.  From another machine, "
	    "use ssh -L.\n",
	    serve_flags, 0, ESPL__POSITIONAL_MAX, espl__verb_serve },
	{ "nodes", "[DIR|--config FILE] [--release RUN [--force]] [--json]",
	    "list or release the machines that your runs hold",
	    "Asks the cloud of the run directory DIR, or of the configuration FILE, for the "
	    "machines of all\n"
	    "your runs.  The driver of a run is `running`, `stopped`, or `unknown` if the "
	    "directory "
	    "of the run\n"
	    "is neither here nor next to DIR.  The cost so far is the current price times the age; "
	    "what the\n"
	    "provider does not report is `unknown`.  --release ends the machines of a run that was "
	    "killed and\n"
	    "will not be resumed; it refuses while the driver of the run is running.  With DIR, "
	    "also shows\n"
	    "what that run knows of its machines: which are avoided or drained, and their last "
	    "failures.\n",
	    nodes_flags, 0, 1, espl__verb_nodes },
	{ "drain", "DIR NODE", "move all trials away from a machine, and hold it out",
	    "NODE is the number of a node, or the name of its machine, as `espalier nodes DIR` "
	    "shows them.\n"
	    "Trials there save and continue elsewhere; then the machine is released.  It gets no "
	    "trials until\n"
	    "`espalier undrain`, also after the run was resumed.\n",
	    NULL, 2, 2, espl__verb_drain },
	{ "undrain", "DIR NODE", "let a machine that was drained have trials again", "", NULL, 2, 2,
	    espl__verb_undrain },
	{ "trial", "stop DIR TRIAL | add DIR NAME=VALUE... | note DIR TRIAL KEY TEXT",
	    "stop one trial of a running run, add one, or write a note on one",
	    "`stop` ends a trial where it is, as if the algorithm had stopped it; its processes "
	    "may save.  One\n"
	    "that is paused stops where it would be continued.  `add` has a configuration of "
	    "yours trained next,\n"
	    "in addition to those of the algorithm; parameters that are not named take their "
	    "default.  `note`\n"
	    "attaches a text to a trial, as run.note() does in a program, also after the run has "
	    "ended; "
	    "a text with\n"
	    "the same KEY is replaced.\n"
	    "TRIAL is the number of a trial, in a pool EXPERIMENT/NUMBER.  For more trials of the "
	    "algorithm's\n"
	    "choice see `espalier resume --trials`.\n",
	    NULL, 3, ESPL__POSITIONAL_MAX, espl__verb_trial },
	{ "stop", "DIR", "stop a running run cleanly, as Ctrl-C does",
	    "Asks the driver of the run to stop: trials save their state, and `espalier resume` "
	    "continues it.\n",
	    NULL, 1, 1, espl__verb_stop },
	{ "submit", "POOL_DIR FILE [--set PATH=VALUE]...", "add an experiment to a running pool",
	    "FILE is an experiment that could also be run alone; its allocator, cloud and placer "
	    "are ignored.\n"
	    "It is copied into the pool's directory with every file it names.  If no driver is "
	    "running, the\n"
	    "experiment waits for `espalier resume POOL_DIR`.\n",
	    set_flags, 2, 2, espl__verb_submit },
	{ "cancel", "POOL_DIR NAME", "cancel an experiment or a plain job of a pool",
	    "Its trials are checkpointed and stopped, and their GPUs freed.  An experiment or job "
	    "that has not\n"
	    "arrived yet is removed.\n",
	    NULL, 2, 2, espl__verb_cancel },
	{ "queue", "POOL_DIR [--json]",
	    "show which experiments and jobs of a pool are running or waiting, and why", "",
	    json_flags, 1, 1, espl__verb_queue },
	{ "check", "FILE [--output LOG] [--set PATH=VALUE]...",
	    "validate a configuration without running it",
	    "Reads FILE and every file it names, loads the plugins and checks their options.  Then "
	    "starts the\n"
	    "cloud without leasing anything; cloud ssh tries each of its hosts.  Says what the run "
	    "may "
	    "cost at\n"
	    "worst, per hour and in all.\n",
	    check_flags, 1, 1, espl__verb_check },
	{ "plugins", "[--json]", "list the installed plugins", "", json_flags, 0, 0,
	    espl__verb_plugins },
	{ "help",
	    "[COMMAND|KIND/PLUGIN|GROUP|commands|config] [--markdown|--man|--completion SHELL]",
	    "show help for a command, plugin or configuration group",
	    "KIND is algorithm, allocator, cloud, placer, trainable or sampler.  GROUP is one of "
	    "espalier's "
	    "own\n"
	    "groups, such as experiment, trial or planning; config shows all of them.  The KIND of "
	    "a plugin\n"
	    "may be left out, and every name may be abbreviated as long as it is unique.\n",
	    help_flags, 0, 1, espl__verb_help },
	{ "check-plugin", "FILE.so", "test that a plugin loads and follows the rules of the ABI",
	    "Calls the plugin in a separate process with generated views.  Reports crashes, hangs "
	    "(120 s in\n"
	    "total), invalid answers, rejected sink calls, started processes, output, writes into "
	    "views and\n"
	    "memory leaks, each once.  The process may use 4 GiB and print 1 MiB.  Exits with 2 if "
	    "there are\n"
	    "errors.\n",
	    NULL, 1, 1, espl__verb_check_plugin },
	{ "version", "", "print the version of espalier", "", NULL, 0, 0, verb_version },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL }
};

const struct espl__verb *
espl__verb_find(const char *name)
{
	const struct espl__verb *verb;

	for (verb = espl__verbs; verb->name != NULL; verb++) {
		if (strcmp(verb->name, name) == 0)
			return verb;
	}
	return NULL;
}

int
espl__cli_exit(espl_status status)
{
	switch (status) {
	case ESPL_OK: return ESPL__EXIT_DONE;
	case ESPL_E_CONFIG:
	case ESPL_E_BUSY:
	case ESPL_E_UNSUPPORTED:
	case ESPL_E_UNKNOWN: return ESPL__EXIT_USAGE;
	case ESPL_E_INFEASIBLE: return ESPL__EXIT_INFEASIBLE;
	default: return ESPL__EXIT_FAILED;
	}
}

int
espl__cli_fail(const struct espl__diag *diag)
{
	espl__diag_print(stderr, diag);
	return espl__cli_exit(diag->status);
}

int
espl__cli_usage(const struct espl__args *args, const char *format, ...)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char text[256];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	(void)espl__fail(&diag, ESPL_E_CONFIG, "%s", text);
	espl__hint(&diag, "usage: espalier %s %s", args->verb->name, args->verb->usage);
	return espl__cli_fail(&diag);
}

/* One word for a shell, quoted where it must be. */
static void
put_word(struct espl__buf *b, const char *word)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";

	if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
		espl__print(b, "%s", word);
		return;
	}
	espl__print(b, "'");
	for (; *word != '\0'; word++)
		espl__print(b, *word == '\'' ? "'\\''" : "%c", *word);
	espl__print(b, "'");
}

espl_status
espl__cli_trials(const struct espl__args *args, struct espl__drive *drive, struct espl__diag *diag)
{
	const char *text = espl__arg(args, "trials"), *digits = text;
	unsigned long long count;
	char *end;

	if (text == NULL)
		return ESPL_OK;
	digits += text[0] == '+';
	count = strtoull(digits, &end, 10);
	if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || count == 0 ||
	    count > ESPL__TRIALS_MAX) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "--trials %s is not a number of trials",
		    text);
		espl__hint(diag, "--trials +50 for 50 more, --trials 150 for 150 in all");
		return ESPL_E_CONFIG;
	}
	*(text[0] == '+' ? &drive->trials_more : &drive->trials_total) = count;
	return ESPL_OK;
}

char *
espl__cli_resume(const struct espl__args *args, const char *dir)
{
	struct espl__buf b = { NULL, 0, 0 }, dirs = { NULL, 0, 0 };
	char *copy = espl__strdup(args->plugin_path), *rest = copy, *part, *full, *text;

	espl__print(&b, "espalier %s ", espl__run_dir_asked(dir) ? "ask" : "resume");
	put_word(&b, dir);
	while (rest != NULL && (part = strsep(&rest, ":")) != NULL) {
		/* An absolute path may be used from any directory, so the plugins' path must be
		 * absolute, too.
		 */
		full = dir[0] == '/' ? realpath(part, NULL) : NULL;
		if (part[0] != '\0')
			espl__print(&dirs, "%s%s", dirs.size > 0 ? ":" : "",
			    full != NULL ? full : part);
		free(full);
	}
	if (dirs.size > 0) {
		espl__print(&b, " -P ");
		put_word(&b, espl__buf_text(&dirs));
	}
	text = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	espl__buf_free(&dirs);
	free(copy);
	return text;
}

/* espalier-WORD from the libexec directory or PATH, with the plugins of -P; returns where there is
 * none. */
static void
try_external(char **argv, const char *plugin_path)
{
	const char *more = getenv("ESPALIER_PLUGIN_PATH");
	char *program = espl__format("espalier-%s", argv[0]);
	const char *libexec = espl__libexec();
	char *path = espl__format("%s/%s", libexec != NULL ? libexec : ".", program);
	char *name = argv[0], *plugins = NULL;

	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_")] == '\0' &&
	    name[0] != '-') {
		argv[0] = program;
		if (plugin_path != NULL) {
			plugins = espl__format("%s%s%s", plugin_path, more != NULL ? ":" : "",
			    more != NULL ? more : "");
			(void)setenv("ESPALIER_PLUGIN_PATH", plugins, 1);
		}
		if (libexec != NULL && access(path, X_OK) == 0)
			(void)execv(path, argv);
		(void)execvp(program, argv);
		argv[0] = name;
	}
	free(plugins);
	free(program);
	free(path);
}

static int
unknown_verb(const char *word)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf list = { NULL, 0, 0 };
	const char *names[40], *near;
	size_t count = 0;
	int status;

	for (; espl__verbs[count].name != NULL; count++) {
		names[count] = espl__verbs[count].name;
		espl__print(&list, "%s%s", count > 0 ? ", " : "", names[count]);
	}
	near = espl__nearest(word, names, count);
	(void)espl__fail(&diag, ESPL_E_CONFIG,
	    "'%s' is not an espalier command, and there is no program 'espalier-%s'", word, word);
	if (near != NULL)
		espl__hint(&diag, "did you mean '%s'? (commands: %s)", near, espl__buf_text(&list));
	else
		espl__hint(&diag, "commands: %s", espl__buf_text(&list));
	status = espl__cli_fail(&diag);
	espl__buf_free(&list);
	return status;
}

static int
run_verb(const struct espl__verb *verb, int argc, char **argv, const char *plugin_path)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__args args;
	struct espl__buf text = { NULL, 0, 0 };
	char *path;
	int status;

	if (espl__args_parse(verb, argc, (const char *const *)argv, &args, &diag) != ESPL_OK) {
		status = espl__cli_fail(&diag);
	} else if (args.help) {
		espl__help_verb(verb, &text);
		status = espl__cli_print(&text);
	} else {
		if (plugin_path != NULL) {
			path = args.plugin_path == NULL
			    ? espl__strdup(plugin_path)
			    : espl__format("%s:%s", plugin_path, args.plugin_path);
			free(args.plugin_path);
			args.plugin_path = path;
		}
		espl__calling_watch();
		status = espl__plugins_init(args.plugin_path, &diag) == ESPL_OK
		    ? verb->run(&args)
		    : espl__cli_fail(&diag);
		espl__plugins_exit();
	}
	espl__args_free(&args);
	espl__buf_free(&text);
	return status;
}

int
espl__main_one(const struct espl__verb *verb, int argc, char **argv)
{
	(void)setlocale(LC_CTYPE, "");
	return run_verb(verb, argc - 1, argv + 1, NULL);
}

int
espl__main(int argc, char **argv)
{
	const struct espl__verb *verb;
	struct espl__buf text = { NULL, 0, 0 };
	char *plugin_path = NULL, *longer;
	int i = 1, status;

	(void)setlocale(LC_CTYPE, "");
	for (; i + 1 < argc && (strcmp(argv[i], "-P") == 0 || strcmp(argv[i], "--plugins") == 0);
	     i += 2) {
		longer = plugin_path == NULL ? espl__strdup(argv[i + 1])
					     : espl__format("%s:%s", plugin_path, argv[i + 1]);
		free(plugin_path);
		plugin_path = longer;
	}
	verb = i < argc ? espl__verb_find(argv[i]) : NULL;
	if (verb != NULL) {
		status = run_verb(verb, argc - i - 1, argv + i + 1, plugin_path);
	} else if (i < argc && strcmp(argv[i], "--version") == 0) {
		status = verb_version(NULL);
	} else if (i < argc && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
		espl__help_overview(&text);
		status = espl__cli_print(&text);
	} else if (i >= argc) {
		espl__help_overview(&text);
		(void)fwrite(text.data, 1, text.size, stderr);
		status = ESPL__EXIT_USAGE;
	} else {
		if (argv[i][0] != '-')
			try_external(argv + i, plugin_path);
		status = unknown_verb(argv[i]);
	}
	espl__buf_free(&text);
	free(plugin_path);
	return status;
}
