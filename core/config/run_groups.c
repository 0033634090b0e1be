/* run_groups.c - the core's own groups as option tables: what a configuration may say besides
 * its plugins.  Parser, help and docs/config.md all come from here.
 */
#include "config/run_groups.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct espl_option experiment_options[] = {
	[EXPERIMENT_NAME] = { .name = "name",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "What the experiment is called, in reports and in the name of its folder." },
	[EXPERIMENT_METRIC] = { .name = "metric",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "The metric that decides, as the trials report it." },
	[EXPERIMENT_GOAL] = { .name = "goal",
	    .type = ESPL_OPT_CHOICE,
	    .flags = ESPL_OPT_REQUIRED,
	    .choices = "minimize|maximize",
	    .help = "Is less of the metric better, or more?" },
	[EXPERIMENT_DEADLINE] = { .name = "deadline",
	    .type = ESPL_OPT_SPAN,
	    .help = "The experiment is to be done within this time; it ends in good order then. "
		    "Absent: no deadline." },
	[EXPERIMENT_BUDGET] = { .name = "budget",
	    .type = ESPL_OPT_MONEY,
	    .help = "US dollars that machines may cost. Absent: no limit." },
	[EXPERIMENT_SEED] = { .name = "seed",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .help = "All random numbers follow from it." },
	[EXPERIMENT_DATA_GB] = { .name = "data_gb",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .help = "Gigabytes that each new node downloads; the offer's data price applies." },
	[EXPERIMENT_SYNC] = { .name = "sync",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "0s",
	    .help = "What the barrier at the end of a stage costs in the model." },
	[EXPERIMENT_WEIGHT] = { .name = "weight",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1",
	    .help = "Priority where several experiments share machines; above 0." },
	[EXPERIMENT_GPUS_MAX] = { .name = "gpus_max",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4294967294",
	    .help = "GPUs the whole experiment may hold at once. Absent: no limit." },
	[EXPERIMENT_INNER] = { .name = "inner",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help =
		"In a pool: the pool's allocator decides about the experiment as a whole, and the "
		"allocator of its own file divides its share among its trials. See docs/pool.md." },
};
static const struct espl__core_member experiment_members[] = {
	{ "first", "list of groups",
	    "Configurations to try first, each a group of parameters: ( { learning_rate = 0.1; }, "
	    "... ). Parameters left out take their default." },
	{ "warm_start.from", "path",
	    "What is known before the search begins: the folder of an earlier run, or a CSV of "
	    "curves. See docs/warm-start.md." },
	{ "warm_start.best", "integer, default 4, from 0 to 1000000",
	    "So many of the best configurations known there are tried first, after those of "
	    "`first`." },
};

static const struct espl_option trial_options[] = {
	[TRIAL_TRAINABLE] = { .name = "trainable",
	    .type = ESPL_OPT_STRING,
	    .help = "A trainable plugin that trains. One of trainable, command and curves." },
	[TRIAL_CURVES] = { .name = "curves",
	    .type = ESPL_OPT_PATH,
	    .help = "Recorded learning curves in place of training, simulate only: a CSV, or a run "
		    "directory. See docs/curves.md." },
	[TRIAL_DIRECTORY] = { .name = "directory",
	    .type = ESPL_OPT_PATH,
	    .help = "Folder in which commands run. Absent: the configuration's own." },
	[TRIAL_GPUS_MIN] = { .name = "gpus_min",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4294967294",
	    .help = "Fewest GPUs a trial can run on." },
	[TRIAL_GPUS_MAX] = { .name = "gpus_max",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4294967294",
	    .help = "Most GPUs a trial can use. Absent: no limit. A trial on N GPUs is N processes "
		    "(ranks): set 1 for a program that trains on one GPU or slot only." },
	[TRIAL_PACKING_MAX] = { .name = "packing_max",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "64",
	    .help = "Trials that may share one GPU; 1: none does. Whether they do is the "
		    "allocator's choice: 'fair' packs only with its option packing." },
	[TRIAL_SHARING] = { .name = "sharing",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "auto",
	    .choices = "auto|mps|timeslice|exclusive",
	    .help = "How trials share a GPU: auto takes MPS where it works and time slicing where "
		    "it does not; with mps the run stops where it does not; exclusive: they do not "
		    "share. See docs/gpu.md." },
	[TRIAL_CHECKPOINT] = { .name = "checkpoint",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Can trials save their state and go on from it?" },
	[TRIAL_CHECKPOINT_EVERY] = { .name = "checkpoint_every",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "60s",
	    .min = "0s",
	    .help = "A running trial is asked for a checkpoint when its last one is older; 0s: "
		    "never." },
	[TRIAL_IN_PLACE] = { .name = "in_place",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "A trainable that can be resized grows, shrinks and moves while its processes "
		    "live; false: it saves and starts anew, as commands do. Simulated where the "
		    "profile has `resize`." },
	[TRIAL_RETRIES] = { .name = "retries",
	    .type = ESPL_OPT_INT,
	    .fallback = "2",
	    .min = "0",
	    .max = "1000000",
	    .help = "Failures a trial may have and still go on." },
	[TRIAL_COLOCATE] = { .name = "colocate",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Grants fit one node or are whole nodes; false: any number of GPUs anywhere." },
	[TRIAL_REPORT_LIMIT] = { .name = "report_limit",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "1h",
	    .min = "0s",
	    .help = "A trial that reports nothing for so long has hung and is ended; 0s: never." },
	[TRIAL_SAVE_LIMIT] = { .name = "save_limit",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "10m",
	    .min = "0s",
	    .help = "A trial that was told to pause and has not saved within it is ended, and has "
		    "failed; 0s: it may take any time." },
	[TRIAL_GRACE] = { .name = "grace",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "10s",
	    .min = "0s",
	    .help = "Time between asking a trial to end and killing it. One that was told to pause "
		    "has it from its checkpoint on." },
	[TRIAL_FILE_MAX] = { .name = "file_max",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .help = "Largest file a trial may write; 0: no limit." },
	[TRIAL_LOG_LIMIT] = { .name = "log_limit",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "64MiB",
	    .help = "Size of a trial's log. What is printed beyond it is dropped, but for the end "
		    "of what a failing rank printed; 0: no limit." },
};
static const struct espl__core_member trial_members[] = {
	{ "command", "array of strings",
	    "A program in any language that trains: [ \"python3\", \"train.py\" ]. The first is "
	    "looked up in PATH; no shell is between." },
	{ "options", "group", "Options of the trainable." },
	{ "profile", "string or group",
	    "What training takes: \"auto\", the default (what `espalier profile` has kept of this "
	    "trial on this hardware, if it has), a group { iteration; scaling; packing; latency; "
	    "start; checkpoint; restore; resize; }, or the name of a file that holds these, JSON "
	    "or libconfig. Nothing kept: measured while it runs; simulate takes 1 s an "
	    "iteration." },
	{ "env", "group of strings",
	    "Added to the environment of every rank. The values are kept in the run directory, in "
	    "a file of their own that only you can read: secrets belong into env_from." },
	{ "env_from", "array of strings",
	    "Names of variables that every rank gets from the environment of `espalier run`, and "
	    "of `espalier resume` later: [ \"HF_TOKEN\" ]. Their values are written nowhere." },
};

static const struct espl__core_member space_members[] = {
	{ "NAME.type", "\"real\", \"int\", \"choice\" or \"ordinal\"",
	    "Kind of parameter. A bare value in place of the group is a constant." },
	{ "NAME.low, NAME.high", "number", "Bounds of a real or int, both included." },
	{ "NAME.scale", "\"linear\", \"log\" or \"reverse-log\"",
	    "How it is sampled; default linear." },
	{ "NAME.quantum", "number", "Values are multiples of it from low on." },
	{ "NAME.values", "array", "Labels of a choice or ordinal." },
	{ "NAME.default", "value", "Where a configuration of the user's leaves it out." },
	{ "NAME.when", "group",
	    "Active only if other parameters, written before it, have these values: { optimizer = "
	    "\"sgd\"; } or { layers = [ 2, 3 ]; }." },
};

static const struct espl_option planning_options[] = {
	[PLANNING_QUEUE] = { .name = "queue",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "list|chain",
	    .fallback = "list",
	    .help = "How queued trials follow: on the GPUs that come free first (list), or "
		    "serially one after another (chain)." },
	[PLANNING_WARM] = { .name = "warm",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "A trial promoted at its budget goes on in its gang, without a checkpoint." },
	[PLANNING_ACQUIRE_AHEAD] = { .name = "acquire_ahead",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "Nodes of the next stage are asked for before it begins." },
	[PLANNING_SAMPLES] = { .name = "samples",
	    .type = ESPL_OPT_INT,
	    .fallback = "128",
	    .min = "1",
	    .max = "1000000",
	    .help = "Monte Carlo runs of a prediction." },
	[PLANNING_RISK] = { .name = "risk",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.5",
	    .min = "0",
	    .max = "1",
	    .help = "Probability with which deadline and budget must hold; above 0 and below 1." },
};

static const struct espl_option workload_options[] = {
	[WORKLOAD_TRACE] = { .name = "trace",
	    .type = ESPL_OPT_PATH,
	    .help = "The jobs, a CSV file with the columns job, arrives_s, work_s, nodes_min and "
		    "nodes_max; docs/pool.md tells of others. Absent: they are drawn, as the "
		    "options from `jobs` on say." },
	[WORKLOAD_UNIT] = { .name = "unit",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "65536",
	    .help = "GPUs that a node of the trace stands for; grants are multiples of it." },
	[WORKLOAD_ITERATION] = { .name = "iteration",
	    .type = ESPL_OPT_SPAN,
	    .min = "0s",
	    .fallback = "0s",
	    .help = "Work of an iteration on one node: a job reports, and may be resized, at its "
		    "end. 0s: a two-hundredth of the job's work, from 1 s to 60 s." },
	[WORKLOAD_STEP] = { .name = "step",
	    .type = ESPL_OPT_SPAN,
	    .min = "0s",
	    .fallback = "0s",
	    .help = "Work of a step on one node; simulated: a job that is resized in place ends "
		    "the step that it is in, not the iteration. 0s: the iteration, as for real." },
	[WORKLOAD_DOUBLING] = { .name = "doubling",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.8",
	    .min = "0.5",
	    .max = "1",
	    .help = "What a doubling of a job's nodes keeps of the speed of each; where the trace "
		    "has no table." },
	[WORKLOAD_ELASTIC] = { .name = "elastic",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "false: every job runs on just the nodes its user asked for." },
	[WORKLOAD_NOISE] = { .name = "noise",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .help = "Estimates of a job's work are off by up to this part of it: in drawn jobs, "
		    "and with `redraw`." },
	[WORKLOAD_REDRAW] = { .name = "redraw",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "The allocator is told the true work left, off by up to `noise`, drawn anew at "
		    "each decision." },
	[WORKLOAD_JOBS] = { .name = "jobs",
	    .type = ESPL_OPT_INT,
	    .fallback = "447",
	    .min = "0",
	    .max = "1000000",
	    .help = "Drawn: how many jobs of at least `least`." },
	[WORKLOAD_SMALL] = { .name = "small",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "1000000",
	    .help = "Drawn: shorter ones besides." },
	[WORKLOAD_SPAN] = { .name = "span",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "178896s",
	    .min = "1s",
	    .help = "Drawn: they arrive within." },
	[WORKLOAD_MEAN] = { .name = "mean",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "13956s",
	    .min = "1s",
	    .help = "Drawn: mean training time." },
	[WORKLOAD_M] = { .name = "m",
	    .type = ESPL_OPT_REAL,
	    .fallback = "2",
	    .min = "0",
	    .max = "10000",
	    .help = "Drawn: nodes it was measured on; the work is so many times as much." },
	[WORKLOAD_SIGMA] = { .name = "sigma",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1.5",
	    .min = "0.05",
	    .max = "5",
	    .help = "Drawn: standard deviation of the training time's logarithm." },
	[WORKLOAD_LEAST] = { .name = "least",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "300s",
	    .min = "1s",
	    .help = "Drawn: the least work on one node." },
	[WORKLOAD_STRATIFIED] = { .name = "stratified",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "Drawn: one job's work out of each of as many equally likely ranges as there "
		    "are jobs, so that a mean over few seeds is nearer to one over many." },
	[WORKLOAD_ARRIVALS] = { .name = "arrivals",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "uniform|diurnal|batches",
	    .fallback = "uniform",
	    .help = "Drawn: evenly, with quiet nights, or four at a time besides." },
	[WORKLOAD_NODES_MAX] = { .name = "nodes_max",
	    .type = ESPL_OPT_INT,
	    .fallback = "16",
	    .min = "1",
	    .max = "65536",
	    .help = "Drawn: most nodes of a job." },
	[WORKLOAD_BUGS] = { .name = "bugs",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .help = "Drawn: part of the jobs that end within 5 minutes of training; simulated." },
	[WORKLOAD_TERMINATED] = { .name = "terminated",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .help =
		"Drawn: part of the jobs that are ended by their users at any time; simulated." },
};

static const struct espl_option entry_options[ENTRY_COUNT] = {
	[ENTRY_FILE] = { .name = "file",
	    .type = ESPL_OPT_PATH,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "The experiment, a file that could be run alone." },
	[ENTRY_ARRIVES] = { .name = "arrives",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s",
	    .min = "0s",
	    .help = "When it arrives, after the pool's start." },
	[ENTRY_NAME] = { .name = "name",
	    .type = ESPL_OPT_STRING,
	    .help = "What it is called in the pool. Absent: as its file says." },
	[ENTRY_WEIGHT] = { .name = "weight",
	    .type = ESPL_OPT_REAL,
	    .help = "Its priority, above 0. Absent: as its file says." },
	[ENTRY_GPUS_MAX] = { .name = "gpus_max",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4294967294",
	    .help = "GPUs it may hold at once. Absent: as its file says." },
	[ENTRY_INNER] = { .name = "inner",
	    .type = ESPL_OPT_BOOL,
	    .help = "Is it one item to the pool's allocator, and its share divided by the "
		    "allocator of its file? Absent: as its file says." },
};

#define COUNT(array_) ((uint32_t)(sizeof(array_) / sizeof((array_)[0])))

const struct espl__core_group *
espl__core_groups(void)
{
	static const struct espl__core_group groups[] = {
		[GROUP_EXPERIMENT] = { "experiment",
		    "What is searched for, and within which limits.", experiment_options,
		    COUNT(experiment_options), COUNT(experiment_members), experiment_members },
		[GROUP_TRIAL] = { "trial", "How one configuration is trained.", trial_options,
		    COUNT(trial_options), COUNT(trial_members), trial_members },
		[GROUP_SPACE] = { "space", "The parameters; NAME is one of them.", NULL, 0,
		    COUNT(space_members), space_members },
		[GROUP_PLANNING] = { "planning",
		    "Switches of the execution model; prediction, simulation and run take the "
		    "same.",
		    planning_options, COUNT(planning_options), 0, NULL },
		[GROUP_WORKLOAD] = { "workload",
		    "Plain training jobs that arrive over time, in place of a search: see "
		    "docs/pool.md.",
		    workload_options, COUNT(workload_options), 0, NULL },
		[GROUP_EXPERIMENTS] = { "experiments",
		    "A pool's experiments: a list of groups of these, in place of space and "
		    "algorithm: see docs/pool.md.",
		    entry_options, ENTRY_COUNT, 0, NULL },
		{ NULL, NULL, NULL, 0, 0, NULL },
	};

	return groups;
}

const struct espl_option *
espl__pool_experiment(void)
{
	static struct espl_option options[COUNT(experiment_options)];

	memcpy(options, experiment_options, sizeof options);
	options[EXPERIMENT_NAME].flags &= ~ESPL_OPT_REQUIRED;
	options[EXPERIMENT_METRIC].flags &= ~ESPL_OPT_REQUIRED;
	options[EXPERIMENT_GOAL].flags &= ~ESPL_OPT_REQUIRED;
	return options;
}

static void
head(const struct espl__core_group *group, struct espl__buf *buf)
{
	char *text = espl__format("%s: %s", group->name, group->summary);

	espl__help_wrap(text, 0, 0, buf);
	free(text);
}

void
espl__core_group_help(const struct espl__core_group *group, enum espl__help_form form,
    struct espl__buf *buf)
{
	if (form == ESPL__HELP_MARKDOWN)
		espl__print(buf,
		    "### %s\n\n%s\n\n| option | value | meaning |\n| --- | --- | --- |\n",
		    group->name, group->summary);
	else if (form == ESPL__HELP_MAN)
		espl__print(buf, ".SS %s\n%s\n", group->name, group->summary);
	else
		head(group, buf);
	espl__schema_help(group->options, group->count, (uint32_t)sizeof(struct espl_option), form,
	    buf);
	for (uint32_t i = 0; i < group->member_count; i++) {
		/* An option without defaults and limits is printed the same way. */
		const struct espl__core_member *member = &group->members[i];

		if (form == ESPL__HELP_MARKDOWN)
			espl__print(buf, "| `%s` | %s | %s |\n", member->name, member->type,
			    member->help);
		else if (form == ESPL__HELP_MAN)
			espl__print(buf, ".TP\n.B %s\n(%s)\n.br\n%s\n", member->name, member->type,
			    member->help);
		else {
			espl__help_entry(member->name, member->type, 2, 18, buf);
			espl__help_wrap(member->help, 0, 6, buf);
		}
	}
}
