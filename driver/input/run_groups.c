/* run_groups.c - the core's own groups as option tables: everything in a configuration but the
 * options of plugins.  Parser, help and docs/config.md all come from here.
 */
#include "input/run_groups.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct espl_option experiment_options[] = {
	[EXPERIMENT_NAME] = { .name = "name",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "Name of the experiment, used in reports and for its run directory." },
	[EXPERIMENT_METRIC] = { .name = "metric",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "Name of the reported metric to optimize." },
	[EXPERIMENT_GOAL] = { .name = "goal",
	    .type = ESPL_OPT_CHOICE,
	    .flags = ESPL_OPT_REQUIRED,
	    .choices = "minimize|maximize",
	    .help = "Whether to minimize or maximize the metric." },
	[EXPERIMENT_DEADLINE] = { .name = "deadline",
	    .type = ESPL_OPT_SPAN,
	    .help = "Time limit of the experiment, which ends cleanly when it is reached. Default: "
		    "no limit." },
	[EXPERIMENT_BUDGET] = { .name = "budget",
	    .type = ESPL_OPT_MONEY,
	    .help = "Maximum cost of the machines in US dollars. Default: no limit." },
	[EXPERIMENT_TARGET] = { .name = "target",
	    .type = ESPL_OPT_REAL,
	    .help = "End the search as soon as a trial reports a value of the metric that is at "
		    "least this good. Default: none." },
	[EXPERIMENT_PATIENCE] = { .name = "patience",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .help = "End the search when this many trials in a row have ended (completed, stopped "
		    "early or failed) without a new best value of the metric. Default: no limit." },
	[EXPERIMENT_SEED] = { .name = "seed",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .help = "Seed of all random numbers." },
	[EXPERIMENT_SEEDS] = { .name = "seeds",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "100",
	    .help = "Train each configuration this many times, as trials that differ in their "
		    "seed; the algorithm compares the means. Default: 1." },
	[EXPERIMENT_CONFIRM] = { .name = "confirm",
	    .type = ESPL_OPT_INT,
	    .min = "2",
	    .max = "100",
	    .help = "At the end, train the three best configurations again this many times, with "
		    "other seeds and folds; the best mean wins. Default: not." },
	[EXPERIMENT_DATA_GB] = { .name = "data_gb",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .help = "Gigabytes that each new node downloads, charged at the offer's data price." },
	[EXPERIMENT_SYNC] = { .name = "sync",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "0s",
	    .help = "Time that the model assumes for the barrier at the end of a stage." },
	[EXPERIMENT_WEIGHT] = { .name = "weight",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1",
	    .help = "Priority among experiments that share machines; above 0." },
	[EXPERIMENT_GPUS_MAX] = { .name = "gpus_max",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4294967294",
	    .help = "Maximum number of GPUs of the whole experiment. Default: no limit." },
	[EXPERIMENT_INNER] = { .name = "inner",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "In a pool: the pool's allocator treats the experiment as a single item, and "
		    "the allocator of the experiment's own file divides that share among its "
		    "trials. See docs/pool.md." },
};
static const struct espl__core_member experiment_members[] = {
	{ "first", "list of groups",
	    "Configurations to try first, each a group of parameters: ( { learning_rate = 0.1; }, "
	    "... ). Parameters that are left out use their default." },
	{ "forbid", "list of conditions",
	    "Configurations that are never tried, each a condition on parameters: [ \"layers > 8 "
	    "and "
	    "optimizer = 'sgd'\", \"{layer.width} * layers > 4096\" ]. A bound may also be another "
	    "parameter: low = \"min_size\". See docs/algorithms.md#forbidden-combinations." },
	{ "require", "list of conditions",
	    "What the metrics of a trial must meet, such as [ \"latency_ms < 20\", \"size_mb + "
	    "cache_mb <= 64\" ]: only a trial that meets all can be the best, and those that do "
	    "not count as worse than all that do, the less they miss the better. See "
	    "docs/algorithms.md#required-results." },
	{ "failures_max", "number, or a share such as 0.3 or \"30%\", default \"100%\"",
	    "How many trials may fail before the search ends: a number (0: none may), or a share "
	    "of those that have ended, once ten have. A script with which nothing has ever worked "
	    "ends the search in any case, after ten attempts. A resumed run counts from its "
	    "resume on." },
	{ "warm_start.from", "path",
	    "Prior results: the directory of an earlier run, or a CSV file of learning curves. See "
	    "docs/warm-start.md." },
	{ "warm_start.best", "integer, default 4, from 0 to 1000000",
	    "How many of the best known configurations to try first (after `first`)." },
};

static const struct espl_option trial_options[] = {
	[TRIAL_TRAINABLE] = { .name = "trainable",
	    .type = ESPL_OPT_STRING,
	    .help =
		"Trainable plugin that runs the trial. Set one of trainable, command and curves." },
	[TRIAL_CURVES] = { .name = "curves",
	    .type = ESPL_OPT_PATH,
	    .help = "Recorded learning curves to use instead of training (simulate only): a CSV "
		    "file or a run directory. See docs/curves.md." },
	[TRIAL_DIRECTORY] = { .name = "directory",
	    .type = ESPL_OPT_PATH,
	    .help = "Working directory of commands. Default: the directory of the configuration "
		    "file." },
	[TRIAL_GPUS_MIN] = { .name = "gpus_min",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4294967294",
	    .help = "Minimum number of GPUs per trial." },
	[TRIAL_GPUS_MAX] = { .name = "gpus_max",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4294967294",
	    .help =
		"Maximum number of GPUs per trial. Default: those of one machine, or the most GPUs "
		"of which the profile knows the speed. A trial on N GPUs runs as N processes "
		"(ranks); set 1 if the program "
		"can use only one GPU or slot." },
	[TRIAL_PACKING_MAX] = { .name = "packing_max",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "64",
	    .help = "Maximum number of trials per GPU (1: no sharing). The allocator decides "
		    "whether to share; 'fair' does so only with its option packing." },
	[TRIAL_SHARING] = { .name = "sharing",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "auto",
	    .choices = "auto|mps|timeslice|exclusive",
	    .help =
		"How trials share a GPU: auto uses MPS if it works and time slicing otherwise; mps "
		"stops the run if MPS does not work; exclusive forbids sharing. See docs/gpu.md." },
	[TRIAL_CHECKPOINT] = { .name = "checkpoint",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Whether the trial can save and restore a checkpoint." },
	[TRIAL_CHECKPOINT_EVERY] = { .name = "checkpoint_every",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "60s",
	    .min = "0s",
	    .help = "Ask a running trial for a checkpoint when its last one is older than this. "
		    "0s: never." },
	[TRIAL_IN_PLACE] = { .name = "in_place",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Resize trainables that support it without restarting their processes; false: "
		    "save and restart, as commands do. Simulated if the profile has `resize`." },
	[TRIAL_RETRIES] = { .name = "retries",
	    .type = ESPL_OPT_INT,
	    .fallback = "2",
	    .min = "0",
	    .max = "1000000",
	    .help = "How often a failed trial is retried." },
	[TRIAL_COLOCATE] = { .name = "colocate",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Give a trial GPUs of a single node, or whole nodes; false: any GPUs." },
	[TRIAL_REPORT_LIMIT] = { .name = "report_limit",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "1h",
	    .min = "0s",
	    .help = "Kill a trial that has not reported for this long. 0s: never." },
	[TRIAL_TIME_LIMIT] = { .name = "time_limit",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s",
	    .min = "0s",
	    .help = "End a trial that has trained for this long, in all its attempts; its last "
		    "report stands, and it is not retried. 0s: no limit." },
	[TRIAL_SAVE_LIMIT] = { .name = "save_limit",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "10m",
	    .min = "0s",
	    .help = "Time limit for saving a checkpoint when paused; on timeout the trial fails. "
		    "0s: unlimited." },
	[TRIAL_GRACE] = { .name = "grace",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "10s",
	    .min = "0s",
	    .help = "Time between asking a trial to exit and killing it. When pausing, counted "
		    "from the end of the checkpoint." },
	[TRIAL_FILE_MAX] = { .name = "file_max",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .help = "Maximum size of a file that a trial writes. 0: no limit." },
	[TRIAL_LOG_LIMIT] = { .name = "log_limit",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "64MiB",
	    .help = "Maximum size of a trial's log. Further output is dropped, except for the last "
		    "lines of a failing rank. 0: no limit." },
	[TRIAL_TORCHRUN] = { .name = "torchrun",
	    .type = ESPL_OPT_BOOL,
	    .help = "Whether a command finds the variables that torchrun sets (RANK, WORLD_SIZE, "
		    "MASTER_ADDR, ...) when it is a single rank. Default: if its trial can have "
		    "several ranks, so not with gpus_max = 1. See docs/trial-protocol.md." },
	[TRIAL_WARM] = { .name = "warm",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "Fork each start of a Python command from a process that has imported its "
		    "installed packages; a command that cannot be forked safely starts as usual, "
		    "and the log says why. See docs/warm-starts.md." },
};
static const struct espl__core_member trial_members[] = {
	{ "command", "array of strings",
	    "Program that runs the trial: [ \"python3\", \"train.py\", \"--lr={lr}\" ]. The first "
	    "word is looked up in PATH; no shell is involved. {NAME} is the value of a parameter, "
	    "or one of {trial}, {experiment}, {run}, {output}, {seed}, {fold} and {iterations}; {{ "
	    "is a "
	    "brace." },
	{ "metrics.file", "string",
	    "Files of metrics that the program writes, in place of its output: CSV (.csv), "
	    "TensorBoard's events (tfevents in the name), else lines of JSON or of "
	    "metrics.pattern. "
	    "A glob pattern; {output} is the directory of the trial." },
	{ "metrics.from", "\"stdout\" or \"stderr\", default \"stdout\"",
	    "Read the metrics from what the command prints there. The program needs no change and "
	    "saves no checkpoints. See docs/unchanged-scripts.md." },
	{ "metrics.format", "\"pattern\" or \"json\"",
	    "How to read a line: by metrics.pattern, or as a JSON object of metrics. Default: "
	    "pattern if it is set." },
	{ "metrics.pattern", "string",
	    "Regular expression (PCRE2) with a group named like experiment.metric; {NAME} stands "
	    "for "
	    "a number called NAME: \"loss: {loss}, accuracy: {accuracy}\". A line with the metric "
	    "is a report." },
	{ "metrics.iteration", "string, default \"iteration\"",
	    "Group or JSON member with the iteration. If it does not occur, reports are counted." },
	{ "metrics.first", "0 or 1",
	    "What the program prints for its first iteration; smaller numbers are from before the "
	    "training. Default: found out from the output." },
	{ "metrics.per_iteration", "real above 0, default 1",
	    "How much the printed number of the iteration grows in one iteration: 300 where steps "
	    "are printed and 300 of them are an iteration." },
	{ "metrics.best", "true or false, default false",
	    "Trials are compared by the best value that they have reported, not by the last. Alone "
	    "in the group it is for programs that report by themselves." },
	{ "options", "group", "Options of the trainable." },
	{ "profile", "string or group",
	    "Measured performance of the trial: \"auto\" (the default: the profile that `espalier "
	    "profile` stored for this trial on this hardware), a group { iteration; scaling; "
	    "packing; latency; start; checkpoint; restore; resize; speed; }, or the name of a JSON "
	    "or libconfig file with these values. Without a stored profile, run measures while it "
	    "runs and simulate assumes 1 s per iteration." },
	{ "files", "array of patterns, or a directory",
	    "Files that trials need: [ \"train.py\", \"lib/\", \"*.json\" ], relative to the "
	    "working directory, except what .espalierignore names there. The run keeps a copy of "
	    "them in its "
	    "directory, and trials work in that copy; nodes that do not see it receive a copy. A "
	    "string names a directory whose contents are copied." },
	{ "setup", "array of strings",
	    "Command that prepares a node, such as [ \"sh\", \"setup.sh\" ]. It runs in the "
	    "working directory before the node's first trial, and the node's trials wait for it. "
	    "If it fails or takes longer than 30 minutes, the node is given up." },
	{ "env", "group of strings, or ( )",
	    "Variables added to the environment of every rank: { HF_HOME = \"/data/hf\"; "
	    "LOCAL_RANK = ( ); }. They replace those that are inherited or that espalier sets, "
	    "except the ESPALIER_ ones of the trial protocol; ( ) removes a variable. The values "
	    "are stored in the run directory in a file that only you can read; put secrets into "
	    "env_from." },
	{ "env_from", "array of strings",
	    "Names of variables that every rank inherits from the environment of `espalier run` or "
	    "`espalier resume`: [ \"HF_TOKEN\" ]. Their values are not stored." },
};

static const struct espl__core_member truth_members[] = {
	{ "profile", "string or group",
	    "As trial.profile: how long iterations, starts and checkpoints really take. Policies "
	    "and plans go by trial.profile, until they have measured." },
};

static const struct espl__core_member space_members[] = {
	{ "NAME.type", "\"real\", \"int\", \"choice\" or \"ordinal\"",
	    "Type of the parameter. A plain value instead of a group defines a constant." },
	{ "NAME.low, NAME.high", "number", "Inclusive bounds of a real or int." },
	{ "NAME.scale", "\"linear\", \"log\" or \"reverse-log\"",
	    "Scale on which values are sampled; default linear." },
	{ "NAME.quantum", "number", "Step between values, starting at low." },
	{ "NAME.mean, NAME.sd", "number",
	    "A normal distribution of a real or int, within four standard deviations and within "
	    "low and high, which need not be given. On a log scale mean is the median, and sd that "
	    "of the natural logarithm: values are lognormal." },
	{ "NAME.values", "array or list",
	    "Values of a choice or ordinal: texts, numbers, booleans; in a list also arrays, lists "
	    "and "
	    "groups, which programs get as JSON: ( [ 64, 64 ], { width = 9; }, () ). The empty "
	    "list () "
	    "is null." },
	{ "NAME.default", "value",
	    "Value used if a configuration in experiment.first or of a warm start lacks the "
	    "parameter." },
	{ "NAME.when", "group",
	    "Makes the parameter active only if other parameters have these values: { "
	    "optimizer = \"sgd\"; } or { layers = [ 2, 3 ]; }." },
};

static const struct espl_option words[] = {
	{ .name = "word",
	    .help = "program or argument",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option cloud_options[] = {
	[CLOUD_PATIENCE] = { .name = "patience",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "0s",
	    .max = "24h",
	    .help = "How long a node that is reached by a command, such as ssh, may be "
		    "unreachable before it counts as lost; its trials keep running meanwhile. "
		    "0s: a node is lost when its connection breaks (the default for local)." },
	[CLOUD_LINGER] = { .name = "linger",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "10m",
	    .min = "1s",
	    .max = "24h",
	    .help = "How long trials keep running on a node that receives nothing from "
		    "espalier; `resume` within this time continues with them. Then every "
		    "process of the run on the node is killed. At least patience." },
	[CLOUD_AFTER_LINGER] = { .name = "after_linger",
	    .type = ESPL_OPT_TABLE,
	    .columns = words,
	    .column_count = 1,
	    .min = "1",
	    .max = "32",
	    .help = "Command that a node runs after that, for example to shut itself down: "
		    "( \"sudo\", \"-n\", \"poweroff\" ). It is killed after one minute. Needs "
		    "patience above "
		    "0s." },
	[CLOUD_GIVE_UP] = { .name = "give_up",
	    .type = ESPL_OPT_INT,
	    .fallback = "5",
	    .min = "1",
	    .max = "1000",
	    .help = "Stop leasing nodes of an offer after this many consecutive failures. A node "
		    "that ends before any trial on it has reported is a failure; missing capacity "
		    "and exceeded quotas are not. The first failure is followed by a pause of 5 s, "
		    "which doubles each time, up to 10m. If no offer is left, the run is "
		    "interrupted and can be resumed." },
};

static const struct espl_option planning_options[] = {
	[PLANNING_QUEUE] = { .name = "queue",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "list|chain",
	    .fallback = "list",
	    .help = "Order of queued trials in the model: on the next free GPUs (list), or in "
		    "fixed chains (chain)." },
	[PLANNING_WARM] = { .name = "warm",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help =
		"Let a promoted trial continue in its running processes, without a checkpoint." },
	[PLANNING_ACQUIRE_AHEAD] = { .name = "acquire_ahead",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "Request the nodes of the next stage before it starts." },
	[PLANNING_RELEASE] = { .name = "release",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "stage|idle",
	    .fallback = "stage",
	    .help = "When to release nodes that the next stage does not need: at the end of the "
		    "stage, or once they are idle and no trial waits." },
	[PLANNING_SAMPLES] = { .name = "samples",
	    .type = ESPL_OPT_INT,
	    .fallback = "128",
	    .min = "1",
	    .max = "1000000",
	    .help = "Number of Monte Carlo samples per prediction." },
	[PLANNING_RISK] = { .name = "risk",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.5",
	    .min = "0",
	    .max = "1",
	    .help =
		"Probability with which deadline and budget must be met; above 0 and below 1." },
};

static const struct espl_option workload_options[] = {
	[WORKLOAD_TRACE] = { .name = "trace",
	    .type = ESPL_OPT_PATH,
	    .help = "CSV file of jobs with the columns job, arrives_s, work_s, nodes_min and "
		    "nodes_max; see docs/pool.md for further columns. Default: random jobs are "
		    "generated from `jobs` and the options after it." },
	[WORKLOAD_UNIT] = { .name = "unit",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "65536",
	    .help = "Number of GPUs per node of the trace; grants are multiples of it." },
	[WORKLOAD_ITERATION] = { .name = "iteration",
	    .type = ESPL_OPT_SPAN,
	    .min = "0s",
	    .fallback = "0s",
	    .help = "Duration of an iteration on one node; a job reports and can be resized at the "
		    "end of each. 0s: 1/200 of the job's work, between 1 s and 60 s." },
	[WORKLOAD_STEP] = { .name = "step",
	    .type = ESPL_OPT_SPAN,
	    .min = "0s",
	    .fallback = "0s",
	    .help = "Simulation only: duration of a step on one node; a job resized in place "
		    "finishes the current step instead of the iteration. 0s: a step is an "
		    "iteration, as in a real run." },
	[WORKLOAD_DOUBLING] = { .name = "doubling",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.8",
	    .min = "0.5",
	    .max = "1",
	    .help = "Scaling efficiency of a job each time its nodes are doubled; used if the "
		    "trace has no table." },
	[WORKLOAD_ELASTIC] = { .name = "elastic",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Whether jobs may be resized; false: every job runs on exactly the nodes its "
		    "user requested." },
	[WORKLOAD_NOISE] = { .name = "noise",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .help = "Maximum relative error of the estimates of a job's work, for generated jobs "
		    "and with `redraw`." },
	[WORKLOAD_REDRAW] = { .name = "redraw",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "At each decision give the allocator the true remaining work with a new random "
		    "error of up to `noise`." },
	[WORKLOAD_JOBS] = { .name = "jobs",
	    .type = ESPL_OPT_INT,
	    .fallback = "447",
	    .min = "0",
	    .max = "1000000",
	    .help = "Generated jobs: number of jobs of at least `least`." },
	[WORKLOAD_SMALL] = { .name = "small",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "1000000",
	    .help = "Generated jobs: number of additional shorter jobs." },
	[WORKLOAD_SPAN] = { .name = "span",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "178896s",
	    .min = "1s",
	    .help = "Generated jobs: period in which they arrive." },
	[WORKLOAD_MEAN] = { .name = "mean",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "13956s",
	    .min = "1s",
	    .help = "Generated jobs: mean training time." },
	[WORKLOAD_M] = { .name = "m",
	    .type = ESPL_OPT_REAL,
	    .fallback = "2",
	    .min = "0",
	    .max = "10000",
	    .help = "Generated jobs: number of nodes that `mean` refers to; the work is that many "
		    "times larger." },
	[WORKLOAD_SIGMA] = { .name = "sigma",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1.5",
	    .min = "0.05",
	    .max = "5",
	    .help = "Generated jobs: standard deviation of the logarithm of the training time." },
	[WORKLOAD_LEAST] = { .name = "least",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "300s",
	    .min = "1s",
	    .help = "Generated jobs: minimum work on one node." },
	[WORKLOAD_STRATIFIED] = { .name = "stratified",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "Generated jobs: stratified sampling; draw the work of each job from a "
		    "different quantile range, which reduces the variance between seeds." },
	[WORKLOAD_ARRIVALS] = { .name = "arrivals",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "uniform|diurnal|batches",
	    .fallback = "uniform",
	    .help = "Generated jobs: arrival pattern; uniform, with quiet nights, or additionally "
		    "in bursts of four." },
	[WORKLOAD_NODES_MAX] = { .name = "nodes_max",
	    .type = ESPL_OPT_INT,
	    .fallback = "16",
	    .min = "1",
	    .max = "65536",
	    .help = "Generated jobs: maximum number of nodes per job." },
	[WORKLOAD_BUGS] = { .name = "bugs",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .help = "Generated jobs: fraction that ends within 5 minutes of training (simulation "
		    "only)." },
	[WORKLOAD_TERMINATED] = { .name = "terminated",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .help = "Generated jobs: fraction that is cancelled by its user at a random time "
		    "(simulation only)." },
};

static const struct espl_option entry_options[ENTRY_COUNT] = {
	[ENTRY_FILE] = { .name = "file",
	    .type = ESPL_OPT_PATH,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "Configuration file of the experiment, which could also be run alone." },
	[ENTRY_ARRIVES] = { .name = "arrives",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s",
	    .min = "0s",
	    .help = "Arrival time of the experiment after the start of the pool." },
	[ENTRY_NAME] = { .name = "name",
	    .type = ESPL_OPT_STRING,
	    .help = "Name of the experiment in the pool. Default: the name in its file." },
	[ENTRY_WEIGHT] = { .name = "weight",
	    .type = ESPL_OPT_REAL,
	    .help = "Priority of the experiment, above 0. Default: the weight in its file." },
	[ENTRY_GPUS_MAX] = { .name = "gpus_max",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "4294967294",
	    .help = "Maximum number of GPUs of the experiment. Default: gpus_max in its file." },
	[ENTRY_INNER] = { .name = "inner",
	    .type = ESPL_OPT_BOOL,
	    .help = "Whether the pool's allocator treats the experiment as a single item whose "
		    "share the allocator of its file divides. Default: the value in its file." },
};

static const struct espl_option algorithm_options[] = {
	[ALGORITHM_RESOURCE] = { .name = "resource",
	    .type = ESPL_OPT_STRING,
	    .fallback = "iterations",
	    .help = "What the algorithm's iterations count: the iterations that trials report, "
		    "\"seconds\" of training, or the name of a metric that only grows, such as "
		    "tokens or FLOPs." },
	[ALGORITHM_RESOURCE_STEP] = { .name = "resource_step",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1",
	    .help = "How much of the resource is one iteration of the algorithm: 60 counts "
		    "minutes in seconds." },
};

#define COUNT(array_) ((uint32_t)(sizeof(array_) / sizeof((array_)[0])))

const struct espl__core_group *
espl__core_groups(void)
{
	static const struct espl__core_group groups[] = {
		[GROUP_EXPERIMENT] = { "experiment", "The objective of the search and its limits.",
		    experiment_options, COUNT(experiment_options), COUNT(experiment_members),
		    experiment_members },
		[GROUP_TRIAL] = { "trial", "How a trial is run.", trial_options,
		    COUNT(trial_options), COUNT(trial_members), trial_members },
		[GROUP_SPACE] = { "space", "The hyperparameters; NAME is the name of one of them.",
		    NULL, 0, COUNT(space_members), space_members },
		[GROUP_ALGORITHM] = { "algorithm",
		    "Options of every algorithm, in addition to those of the plugin. See "
		    "docs/algorithms.md.",
		    algorithm_options, ALGORITHM_COUNT, 0, NULL },
		[GROUP_CLOUD] = { "cloud",
		    "Options of every cloud, in addition to those of the plugin. See "
		    "docs/sessions.md.",
		    cloud_options, COUNT(cloud_options), 0, NULL },
		[GROUP_STORE] = { "store",
		    "Where checkpoints are kept during a run. See docs/stores.md.",
		    espl__store_options, STORE_COLLECT + 1, 0, NULL },
		[GROUP_PLANNING] = { "planning",
		    "Options of the execution model, used by plan, simulate and run alike.",
		    planning_options, COUNT(planning_options), 0, NULL },
		[GROUP_WORKLOAD] = { "workload",
		    "Plain training jobs that arrive over time, instead of a search. See "
		    "docs/pool.md.",
		    workload_options, COUNT(workload_options), 0, NULL },
		[GROUP_EXPERIMENTS] = { "experiments",
		    "The experiments of a pool: a list of groups with these options, instead of "
		    "space and algorithm. See docs/pool.md.",
		    entry_options, ENTRY_COUNT, 0, NULL },
		[GROUP_TRUTH] = { "truth",
		    "Where the simulated world differs from what policies know. Only "
		    "simulations "
		    "of a single experiment use it. See docs/simulation.md.",
		    NULL, 0, COUNT(truth_members), truth_members },
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
print_group_head(const struct espl__core_group *group, struct espl__buf *buf)
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
		print_group_head(group, buf);
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
