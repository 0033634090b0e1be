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
#include "base/text.h"
#include "config.h"
#include "plugin/registry.h"

#define SET_FLAG \
	{ \
		"set", 's', "PATH=VALUE", "override one value of the file; repeatable" \
	}
#define JSON_FLAG \
	{ \
		"json", 'j', NULL, "print JSON, and nothing else, on standard output" \
	}
#define QUIET_FLAG \
	{ \
		"quiet", 'q', NULL, "no progress, only how it ended" \
	}
#define END_FLAGS \
	{ \
		NULL, 0, NULL, NULL \
	}

static const struct espl__flag run_flags[] = {
	{ "dir", 'd', "DIR", "folder of the run; default NAME-YYYYMMDD-HHMMSS here" }, SET_FLAG,
	QUIET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag resume_flags[] = {
	{ "accept", 0, NULL,
	    "go on from the recorded decisions where plugins decide otherwise now, and without "
	    "what lies behind damage in the journal" },
	QUIET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag simulate_flags[] = {
	{ "seed", 0, "N",
	    "seed of everything random, but of a pool's experiments, which have their files'; "
	    "default experiment.seed" },
	{ "runs", 'n', "N", "simulate N times, with seeds that count up from the first" },
	{ "faults", 0, "FILE", "script of faults: lost nodes, failing trials" },
	{ "curves-from", 0, "RUN",
	    "replay what the trials of this run reported (its folder, or a CSV) in place of "
	    "training" },
	{ "dir", 'd', "DIR", "keep journal and results there; default: keep nothing" }, SET_FLAG,
	QUIET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag plan_flags[] = {
	{ "allocator", 'a', "NAME", "plan with this allocator in place of the file's" },
	{ "compare", 'c', NULL, "all allocators that can plan, side by side" },
	{ "frontier", 'f', NULL, "what each deadline would cost" },
	{ "gpus", 'g', "N[,N...]", "predict this plan, GPUs per stage or one number for all" },
	SET_FLAG, JSON_FLAG, END_FLAGS
};
static const struct espl__flag profile_flags[] = { { "output", 'o', "PROFILE.json",
						       "write the profile there too" },
	{ "iterations", 'n', "N",
	    "time N iterations on each; default 3 to 20, as many as it takes" },
	{ "time-limit", 't', "SPAN", "train no longer than that on each; default 10m, 0s none" },
	SET_FLAG, QUIET_FLAG, JSON_FLAG, END_FLAGS };
static const struct espl__flag status_flags[] = {
	{ "watch", 'w', NULL, "print it again every second, until the run ends" },
	{ "quiet", 'q', NULL, "one line only" }, JSON_FLAG, END_FLAGS
};
static const struct espl__flag best_flags[] = {
	{ "top", 'n', "N", "the best N trials in place of one" }, JSON_FLAG, END_FLAGS
};
static const struct espl__flag json_flags[] = { JSON_FLAG, END_FLAGS };
static const struct espl__flag set_json_flags[] = { SET_FLAG, JSON_FLAG, END_FLAGS };
static const struct espl__flag set_flags[] = { SET_FLAG, END_FLAGS };
static const struct espl__flag export_flags[] = { { "format", 'f', "csv|json",
						      "csv: one table; json: everything" },
	{ "table", 't', "NAME",
	    "csv: trials (default), reports, gangs, stays, resizes, nodes, charges, groups, "
	    "predictions, plan, decisions, notes, experiments, jobs, gpu_map or schedule" },
	{ "output", 'o', "OUT", "write there; default standard output" }, END_FLAGS };
static const struct espl__flag report_flags[] = {
	{ "output", 'o', "FILE.html",
	    "write there; default DIR/report.html; - is standard output" },
	{ "log", 'l', NULL, "logarithmic axes for the learning curves" }, END_FLAGS
};
static const struct espl__flag help_flags[] = { { "markdown", 0, NULL, "print Markdown" },
	{ "man", 0, NULL, "print the source of a manual page" },
	{ "completion", 0, NULL,
	    "print what completes the command line in bash: source <(espalier help --completion)" },
	END_FLAGS };

const struct espl__verb espl__verbs[] = {
	{ "run", "FILE [--dir DIR] [--set PATH=VALUE]... [--quiet|--json]",
	    "run the experiment of FILE",
	    "Everything about the run is kept in DIR; a folder that holds a run already is "
	    "refused.\n"
	    "On a terminal the run is shown live, elsewhere as log lines.  The first Ctrl-C stops "
	    "it\n"
	    "cleanly (then `espalier resume DIR` goes on), a second one ends it at once, a third "
	    "one even if\n"
	    "a policy computes and does not come back.\n",
	    run_flags, 1, 1, espl__verb_run },
	{ "resume", "DIR [--accept] [--quiet|--json]", "continue an interrupted run",
	    "The journal in DIR is replayed, then the run goes on where it was.  A finished run "
	    "prints\n"
	    "its summary.  DIR may have been moved.\n",
	    resume_flags, 1, 1, espl__verb_resume },
	{ "plan",
	    "FILE [--allocator NAME | --gpus N[,N...]] [--compare] [--frontier] [--set "
	    "PATH=VALUE]... [--json]",
	    "what the search will take and cost, before a cent is spent",
	    "The allocator plans how many GPUs each stage gets, from the algorithm's stages, the "
	    "trial's\n"
	    "profile and the cloud's terms; nothing is started, and nothing that trains is needed. "
	    " It\n"
	    "takes the cheapest plan that meets the deadline, or the soonest that a budget allows. "
	    " Exit\n"
	    "status 3: none does; the least that would do is said.  Another allocator gets those "
	    "of the\n"
	    "file's options that it knows too.\n",
	    plan_flags, 1, 1, espl__verb_plan },
	{ "simulate",
	    "FILE [--seed N] [--runs N] [--curves-from RUN] [--faults FILE] [--dir DIR] [--set "
	    "PATH=VALUE]... [--quiet|--json]",
	    "the same run on a virtual clock",
	    "The policies and the executor are those of `run`; machines and trials are simulated "
	    "from\n"
	    "the cloud's terms, the profile, and a trainable or recorded curves: a CSV, or those "
	    "of a\n"
	    "run of any program.\n",
	    simulate_flags, 1, 1, espl__verb_simulate },
	{ "profile",
	    "FILE [-o PROFILE.json] [--iterations N] [--time-limit SPAN] [--set PATH=VALUE]... "
	    "[--quiet|--json]",
	    "measure the trial: scaling, sharing, start, checkpoint",
	    "The trial of FILE is run for a few iterations on 1, 2, 4, ... GPUs, up to "
	    "trial.gpus_max and\n"
	    "what the cloud has, as long as that brings something, and 2, 3, 4, ... on one GPU, up "
	    "to\n"
	    "trial.packing_max.  The result is what trial.profile reads.  It is also kept for this "
	    "trial\n"
	    "on this hardware: profile = \"auto\" finds it there.\n",
	    profile_flags, 1, 1, espl__verb_profile },
	{ "list", "[FOLDER]... [--json]", "the runs in a folder, and how far each is",
	    "Without a FOLDER: those in the current one.\n", json_flags, 0, ESPL__POSITIONAL_MAX,
	    espl__verb_list },
	{ "status", "DIR [--watch] [--quiet|--json]", "how far a run is, also while it works", "",
	    status_flags, 1, 1, espl__verb_status },
	{ "best", "DIR [--top N] [--json]", "the best trial of a run and its parameters",
	    "The best trial is the one with the best last report among those that trained "
	    "furthest.\n",
	    best_flags, 1, 1, espl__verb_best },
	{ "explain", "DIR [TRIAL]", "what was decided for the run or one trial, when and why",
	    "TRIAL is a number; of a pool, 1/3 is trial 3 of experiment 1, and a plain job has a "
	    "name.\n",
	    NULL, 1, 2, espl__verb_explain },
	{ "export", "DIR --format csv|json [--table NAME] [-o OUT]", "results for other programs",
	    "DIR/results.db can also be queried directly: it is an SQLite file.  The table "
	    "`gpu_map` has a\n"
	    "line for each GPU that a trial sat on, with its node and from when until when.  "
	    "`schedule` is how\n"
	    "the best trial came about: its parameters and those of the trials it was cloned from, "
	    "with the\n"
	    "iterations they count for.  The algorithm `replay` trains along it.\n",
	    export_flags, 1, 1, espl__verb_export },
	{ "report", "DIR [-o FILE.html] [--log]", "plan and reality on one page, for a browser",
	    "Nodes and trials over time beside the plan, GPUs and cost over time, how much each "
	    "GPU was used,\n"
	    "what each resize cost and brought, learning curves and tables, also while the run "
	    "goes on.  The\n"
	    "page is one file that fetches nothing.\n",
	    report_flags, 1, 1, espl__verb_report },
	{ "submit", "POOL_DIR FILE [--set PATH=VALUE]...", "add an experiment to a running pool",
	    "FILE is an experiment that could be run alone; what it says of allocator, cloud and "
	    "placer does\n"
	    "not count.  It is copied into the pool's folder with all that it names.  Where no "
	    "driver is at\n"
	    "work it waits for `espalier resume POOL_DIR`.\n",
	    set_flags, 2, 2, espl__verb_submit },
	{ "cancel", "POOL_DIR NAME", "end an experiment, or a plain job, of a pool",
	    "Its trials may save and are ended; the others get their GPUs.  One that is still to "
	    "come does not.\n",
	    NULL, 2, 2, espl__verb_cancel },
	{ "queue", "POOL_DIR [--json]", "who of a pool waits and why, who trains, on how many GPUs",
	    "", json_flags, 1, 1, espl__verb_queue },
	{ "allocate", "FILE VIEW.json [--set PATH=VALUE]... [--json]",
	    "one online decision of FILE's allocator on a given view",
	    "For authors of allocators, and for tests.  VIEW.json holds now_s, event (arrival,\n"
	    "departure, nodes or period), nodes, gpus_per_node and items; each item has id, "
	    "work_s\n"
	    "(what is left, in seconds on one GPU), and where they matter arrived_s, started_s,\n"
	    "gpus_min, gpus_max, granted and open.\n",
	    set_json_flags, 2, 2, espl__verb_allocate },
	{ "check", "FILE [--set PATH=VALUE]...", "validate a configuration, start nothing",
	    "Reads FILE and every file it names, loads the plugins and checks their options.\n",
	    set_flags, 1, 1, espl__verb_check },
	{ "plugins", "[--json]", "the plugins that are found", "", json_flags, 0, 0,
	    espl__verb_plugins },
	{ "help", "[VERB|KIND/PLUGIN|GROUP|config] [--markdown|--man|--completion]",
	    "about a verb, a plugin's options, or the configuration file",
	    "KIND is algorithm, allocator, cloud, placer or trainable; GROUP one of the groups "
	    "that\n"
	    "belong to espalier itself, such as experiment, trial or planning; config means them "
	    "all.\n"
	    "A plugin's name alone will do, and so does the beginning of any name that is "
	    "unique.\n",
	    help_flags, 0, 1, espl__verb_help },
	{ "check-plugin", "FILE.so", "does this plugin load, and does it keep the rules?",
	    "Tries it in a process of its own, with views made up for it: what crashes, what does "
	    "not come\n"
	    "back within 120 s (of all that is tried), answers that a run would refuse, calls of "
	    "its sinks\n"
	    "that are refused, processes that it starts, what it prints, writes into views and "
	    "memory that\n"
	    "stays behind are errors, each told once.  It may use 4 GiB and print 1 MiB.  Exit "
	    "status 2:\n"
	    "there are some.\n",
	    NULL, 1, 1, espl__verb_check_plugin },
	{ "version", "", "the version of espalier", "", NULL, 0, 0, espl__verb_version },
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

int
espl__cli_print(struct espl__buf *b)
{
	if (fwrite(b->data, 1, b->size, stdout) != b->size || fflush(stdout) != 0) {
		if (errno != EPIPE)
			fprintf(stderr, "espalier: error: cannot write the output: %s\n",
			    strerror(errno));
		return ESPL__EXIT_FAILED;
	}
	return ESPL__EXIT_DONE;
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

char *
espl__cli_resume(const struct espl__args *args, const char *dir)
{
	struct espl__buf b = { NULL, 0, 0 }, folders = { NULL, 0, 0 };
	char *copy = espl__strdup(args->plugin_path), *rest = copy, *part, *full, *text;

	espl__print(&b, "espalier resume ");
	put_word(&b, dir);
	while (rest != NULL && (part = strsep(&rest, ":")) != NULL) {
		/* A folder that is said in full may be used from anywhere: so must the plugins be.
		 */
		full = dir[0] == '/' ? realpath(part, NULL) : NULL;
		if (part[0] != '\0')
			espl__print(&folders, "%s%s", folders.size > 0 ? ":" : "",
			    full != NULL ? full : part);
		free(full);
	}
	if (folders.size > 0) {
		espl__print(&b, " -P ");
		put_word(&b, espl__buf_text(&folders));
	}
	text = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	espl__buf_free(&folders);
	free(copy);
	return text;
}

/* espalier-WORD from the libexec folder or PATH; returns where there is none. */
static void
try_external(char **argv)
{
	char *program = espl__format("espalier-%s", argv[0]);
	const char *libexec = espl__libexec();
	char *path = espl__format("%s/%s", libexec != NULL ? libexec : ".", program);
	char *name = argv[0];

	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_")] == '\0' &&
	    name[0] != '-') {
		argv[0] = program;
		if (libexec != NULL && access(path, X_OK) == 0)
			(void)execv(path, argv);
		(void)execvp(program, argv);
		argv[0] = name;
	}
	free(program);
	free(path);
}

static int
unknown_verb(const char *word)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf list = { NULL, 0, 0 };
	const char *names[32], *near;
	size_t count = 0;
	int status;

	for (; espl__verbs[count].name != NULL; count++) {
		names[count] = espl__verbs[count].name;
		espl__print(&list, "%s%s", count > 0 ? ", " : "", names[count]);
	}
	near = espl__nearest(word, names, count);
	(void)espl__fail(&diag, ESPL_E_CONFIG,
	    "there is no verb '%s', and no program 'espalier-%s'", word, word);
	if (near != NULL)
		espl__hint(&diag, "did you mean '%s'? (the verbs: %s)", near,
		    espl__buf_text(&list));
	else
		espl__hint(&diag, "the verbs: %s", espl__buf_text(&list));
	status = espl__cli_fail(&diag);
	espl__buf_free(&list);
	return status;
}

int
espl__verb_version(const struct espl__args *args)
{
	struct espl__buf text = { NULL, 0, 0 };
	int status;

	(void)args;
	espl__print(&text, "espalier %s\n", PACKAGE_VERSION);
	status = espl__cli_print(&text);
	espl__buf_free(&text);
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
		status = espl__verb_version(NULL);
	} else if (i < argc && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
		espl__help_overview(&text);
		status = espl__cli_print(&text);
	} else if (i >= argc) {
		espl__help_overview(&text);
		(void)fwrite(text.data, 1, text.size, stderr);
		status = ESPL__EXIT_USAGE;
	} else {
		if (argv[i][0] != '-')
			try_external(argv + i);
		status = unknown_verb(argv[i]);
	}
	espl__buf_free(&text);
	free(plugin_path);
	return status;
}
