/* run_file.c - the configuration of a run: the core's groups checked one by one and against each
 * other, the plugins' groups handed on as they are.
 */
#include "input/input.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"
#include "input/run_groups.h"

/* ---- small things ------------------------------------------------------------------ */

static const struct espl_value *
value_of(const struct espl__values *values, uint32_t option)
{
	return &values->config.values[option];
}

static int
is_set(const struct espl__values *values, uint32_t option)
{
	return value_of(values, option)->source != ESPL_UNSET;
}

static uint32_t
number_of(const struct espl__values *values, uint32_t option)
{
	return is_set(values, option) ? (uint32_t)value_of(values, option)->as.i : ESPL_ANY;
}

/* A contradiction, told at the place of an option. */
static espl_status
refuse_option(const struct espl__values *values, uint32_t option, struct espl__diag *diag,
    const char *text)
{
	return espl__fail_at(diag, ESPL_E_CONFIG, values->files[option],
	    value_of(values, option)->line, "%s", text);
}

static espl_status
refuse_node(const struct espl__node *node, struct espl__diag *diag, const char *text)
{
	return espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line, "%s", text);
}

/* ---- the top level ----------------------------------------------------------------- */

static const char *const top_names[] = {
	"experiment",
	"trial",
	"space",
	"algorithm",
	"allocator",
	"cloud",
	"placer",
	"store",
	"planning",
	"workload",
	"experiments",
	"truth",
};
#define TOP_COUNT (sizeof top_names / sizeof top_names[0])

static espl_status
check_top(const struct espl__node *root, struct espl__diag *diag)
{
	for (uint32_t i = 0; i < root->child_count; i++) {
		const struct espl__node *node = root->children[i];
		const char *near;
		size_t k;

		for (k = 0; k < TOP_COUNT && strcmp(top_names[k], node->name) != 0; k++)
			;
		if (k < TOP_COUNT)
			continue;
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line, "unknown group '%s'",
		    node->name);
		near = espl__nearest(node->name, top_names, TOP_COUNT);
		if (near != NULL)
			espl__hint(diag, "did you mean '%s'?", near);
		else
			espl__hint(diag,
			    "the groups are experiment, trial, space, algorithm, allocator, cloud, "
			    "placer, planning and truth; in a pool also experiments and workload");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
find_directory(struct espl__run_config *config, struct espl__diag *diag)
{
	const char *slash = strrchr(config->path, '/');
	char *dir, full[PATH_MAX];

	if (slash == NULL)
		dir = espl__strdup(".");
	else
		dir = espl__format("%.*s", (int)(slash - config->path) + 1, config->path);
	if (realpath(dir, full) == NULL) {
		espl__fail_errno(diag, "cannot resolve directory '%s'", dir);
		free(dir);
		return ESPL_E_CONFIG;
	}
	free(dir);
	config->directory = espl__strdup(full);
	return ESPL_OK;
}

static espl_status
resolve_group(const struct espl__run_config *config, int group, const char *const *known,
    struct espl__values **values, struct espl__diag *diag)
{
	const struct espl__core_group *core = &espl__core_groups()[group];

	const struct espl_option *options =
	    group == GROUP_EXPERIMENT && config->pool ? espl__pool_experiment() : core->options;

	return espl__schema_resolve(options, core->count, (uint32_t)sizeof(struct espl_option),
	    espl__node_get(espl__tree_root(config->tree), core->name), known, core->name,
	    core->name, values, diag);
}

/* ---- experiment -------------------------------------------------------------------- */

static espl_status
read_conditions(const struct espl__node *group, const char *name, const char *example,
    const struct espl__node **out, struct espl__diag *diag)
{
	const struct espl__node *list = espl__node_get(group, name);
	int good;

	*out = list;
	if (list == NULL)
		return ESPL_OK;
	good = list->type == ESPL__LIST || list->type == ESPL__ARRAY;
	for (uint32_t i = 0; good && i < list->child_count; i++)
		good = list->children[i]->type == ESPL__STRING;
	if (good)
		return ESPL_OK;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, list->file, list->line,
	    "experiment: '%s' must be a list of conditions", name);
	espl__hint(diag, "for example %s = [ \"%s\" ];", name, example);
	return ESPL_E_CONFIG;
}

static espl_status
read_first(struct espl__run_config *config, const struct espl__node *group, struct espl__diag *diag)
{
	const struct espl__node *first = espl__node_get(group, "first");

	config->first = first;
	if (first == NULL)
		return ESPL_OK;
	if (first->type != ESPL__LIST) {
		refuse_node(first, diag, "experiment: 'first' must be a list of configurations");
		espl__hint(diag, "for example first = ( { learning_rate = 0.1; } );");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < first->child_count; i++)
		if (first->children[i]->type != ESPL__GROUP)
			return refuse_node(first->children[i], diag,
			    "experiment: each configuration of 'first' must be a group");
	return ESPL_OK;
}

/* "30%" or 0.3: a share; 30: a number. */
static espl_status
read_failures_max(struct espl__run_config *config, const struct espl__node *group,
    struct espl__diag *diag)
{
	const struct espl__node *node = espl__node_get(group, "failures_max");
	char *end = NULL;

	config->failures_share = 1;
	config->failures_most = UINT64_MAX;
	if (node == NULL)
		return ESPL_OK;
	if (node->type == ESPL__INT && node->i >= 0) {
		config->failures_most = (uint64_t)node->i;
		return ESPL_OK;
	}
	if (node->type == ESPL__REAL)
		config->failures_share = node->r;
	else if (node->type == ESPL__STRING)
		config->failures_share = strtod(node->text, &end) / 100;
	else
		config->failures_share = -1;
	if (node->type == ESPL__STRING && (end == node->text || strcmp(end, "%") != 0))
		config->failures_share = -1;
	if (config->failures_share >= 0 && config->failures_share <= 1)
		return ESPL_OK;
	refuse_node(node, diag,
	    "experiment: 'failures_max' must be a number of trials or a share of them");
	espl__hint(diag, "for example failures_max = 20; or failures_max = \"50%%\";");
	return ESPL_E_CONFIG;
}

static espl_status
check_names(const struct espl__values *values, struct espl__diag *diag)
{
	if (is_set(values, EXPERIMENT_NAME) &&
	    espl__run_check_name(values, EXPERIMENT_NAME, "experiment", diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (is_set(values, EXPERIMENT_METRIC) &&
	    value_of(values, EXPERIMENT_METRIC)->as.s[0] == '\0')
		return refuse_option(values, EXPERIMENT_METRIC, diag,
		    "experiment: 'metric' is empty");
	return ESPL_OK;
}

static void
no_experiment(struct espl__run_config *config)
{
	static const struct espl_latency nothing = { .kind = ESPL_CONSTANT };

	config->name = config->metric = "";
	config->deadline = ESPL_NEVER;
	config->budget = INT64_MAX;
	config->weight = 1.0;
	config->gpus_limit = ESPL_ANY;
	config->failures_share = 1;
	config->failures_most = UINT64_MAX;
	config->sync = &nothing;
}

static espl_status
check_limits(const struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__values *values = config->experiment_values;

	if (config->deadline <= 0)
		return refuse_option(values, EXPERIMENT_DEADLINE, diag,
		    "experiment: the deadline must be above 0");
	if (config->budget <= 0)
		return refuse_option(values, EXPERIMENT_BUDGET, diag,
		    "experiment: the budget must be above 0");
	if (!(config->weight > 0))
		return refuse_option(values, EXPERIMENT_WEIGHT, diag,
		    "experiment: the weight must be above 0");
	if (config->pool && config->gpus_limit != ESPL_ANY) {
		refuse_option(values, EXPERIMENT_GPUS_MAX, diag,
		    "a pool has no 'gpus_max'; its size is that of its cloud");
		espl__hint(diag,
		    "limit the cloud's nodes, or set gpus_max for each experiment in the list of "
		    "experiments");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_experiment(struct espl__run_config *config, enum espl__need need, struct espl__diag *diag)
{
	static const char *const known[] = { "first", "forbid", "require", "failures_max",
		"warm_start", NULL };
	const struct espl__node *group =
	    espl__node_get(espl__tree_root(config->tree), "experiment");
	struct espl__values *values;
	espl_status status;

	if (group == NULL && (need == ESPL__NEED_NOTHING && !config->pool)) {
		no_experiment(config);
		return ESPL_OK;
	}
	if (group == NULL && !config->pool) {
		espl__fail_at(diag, ESPL_E_CONFIG, config->path, 0,
		    "the group 'experiment' is missing");
		espl__hint(diag,
		    "experiment = { name = \"...\"; metric = \"...\"; goal = \"minimize\"; };");
		return ESPL_E_CONFIG;
	}
	status = resolve_group(config, GROUP_EXPERIMENT, known, &config->experiment_values, diag);
	if (status != ESPL_OK)
		return status;
	values = config->experiment_values;
	config->name =
	    is_set(values, EXPERIMENT_NAME) ? value_of(values, EXPERIMENT_NAME)->as.s : "pool";
	config->metric =
	    is_set(values, EXPERIMENT_METRIC) ? value_of(values, EXPERIMENT_METRIC)->as.s : "";
	config->maximize =
	    is_set(values, EXPERIMENT_GOAL) && value_of(values, EXPERIMENT_GOAL)->as.i == 1;
	config->deadline = is_set(values, EXPERIMENT_DEADLINE)
	    ? value_of(values, EXPERIMENT_DEADLINE)->as.i
	    : ESPL_NEVER;
	config->budget = is_set(values, EXPERIMENT_BUDGET)
	    ? value_of(values, EXPERIMENT_BUDGET)->as.i
	    : INT64_MAX;
	config->has_target = is_set(values, EXPERIMENT_TARGET);
	if (config->has_target)
		config->target = value_of(values, EXPERIMENT_TARGET)->as.r;
	if (is_set(values, EXPERIMENT_PATIENCE))
		config->no_better = (uint64_t)value_of(values, EXPERIMENT_PATIENCE)->as.i;
	config->seed = (uint64_t)value_of(values, EXPERIMENT_SEED)->as.i;
	config->seeds = is_set(values, EXPERIMENT_SEEDS) ? number_of(values, EXPERIMENT_SEEDS) : 1;
	config->confirm =
	    is_set(values, EXPERIMENT_CONFIRM) ? number_of(values, EXPERIMENT_CONFIRM) : 0;
	config->data_gb = value_of(values, EXPERIMENT_DATA_GB)->as.r;
	config->weight = value_of(values, EXPERIMENT_WEIGHT)->as.r;
	config->gpus_limit = number_of(values, EXPERIMENT_GPUS_MAX);
	config->inner = value_of(values, EXPERIMENT_INNER)->as.i != 0;
	config->sync = value_of(values, EXPERIMENT_SYNC)->as.latency;
	status = check_names(values, diag);
	if (status != ESPL_OK)
		return status;
	status = check_limits(config, diag);
	if (status == ESPL_OK)
		status = read_first(config, group, diag);
	if (status == ESPL_OK)
		status = read_conditions(group, "forbid", "layers > 8 and optimizer = 'sgd'",
		    &config->forbid, diag);
	if (status == ESPL_OK)
		status =
		    read_conditions(group, "require", "latency_ms < 20", &config->require, diag);
	if (status == ESPL_OK)
		status = read_failures_max(config, group, diag);
	return status == ESPL_OK ? espl__run_read_warm(config, group, diag) : status;
}

/* ---- trial ------------------------------------------------------------------------- */

/* `argv`: NULL, or where its words go. */
static espl_status
read_words(const struct espl__node *node, const char *example, const char **argv,
    struct espl__diag *diag)
{
	if ((node->type != ESPL__ARRAY && node->type != ESPL__LIST) || node->child_count == 0 ||
	    (node->children[0]->type == ESPL__STRING && node->children[0]->text[0] == '\0')) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    node->type == ESPL__ARRAY || node->type == ESPL__LIST
			? "trial: '%s' is empty"
			: "trial: '%s' must be an array of strings",
		    node->name);
		espl__hint(diag, "for example %s", example);
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < node->child_count; i++) {
		const struct espl__node *word = node->children[i];

		if (word->type != ESPL__STRING) {
			(void)espl__fail_at(diag, ESPL_E_CONFIG, word->file, word->line,
			    "trial: every word of '%s' must be a string", node->name);
			espl__hint(diag, "write numbers in quotes as well");
			return ESPL_E_CONFIG;
		}
		if (argv != NULL)
			argv[i] = word->text;
	}
	return ESPL_OK;
}

static espl_status
read_command(struct espl__trial_config *trial, const struct espl__node *node,
    struct espl__diag *diag)
{
	const char **argv;

	if (node == NULL)
		return ESPL_OK;
	argv = espl__alloc((node->child_count + 1) * sizeof *argv);
	trial->command = argv;
	trial->command_count = node->child_count;
	return read_words(node, "command = [ \"python3\", \"train.py\" ];", argv, diag);
}

static espl_status
read_nodes(struct espl__trial_config *trial, const struct espl__node *group,
    struct espl__diag *diag)
{
	trial->options = espl__node_get(group, "options");
	trial->profile = espl__node_get(group, "profile");
	trial->setup = espl__node_get(group, "setup");
	if (trial->setup != NULL &&
	    read_words(trial->setup, "setup = [ \"sh\", \"setup.sh\" ];", NULL, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (trial->options != NULL && trial->options->type != ESPL__GROUP)
		return refuse_node(trial->options, diag, "trial: 'options' must be a group");
	if (trial->options != NULL && trial->trainable == NULL) {
		refuse_node(trial->options, diag,
		    "trial: 'options' is only valid with a trainable");
		espl__hint(diag, "pass options to a command as words of 'command'");
		return ESPL_E_CONFIG;
	}
	if (trial->profile != NULL && trial->profile->type != ESPL__GROUP &&
	    (trial->profile->type != ESPL__STRING || trial->profile->text[0] == '\0')) {
		refuse_node(trial->profile, diag,
		    "trial: 'profile' must be \"auto\", a file or a group");
		return ESPL_E_CONFIG;
	}
	if (espl__run_read_files(trial, group, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	return espl__run_read_env(trial, group, diag);
}

enum { A_FILE, A_FOLDER, EITHER };

/* A file or directory named by the user: it must be there and of the kind wanted. */
static espl_status
check_file(const char *path, int kind, const char *what, const char *file, uint32_t line,
    struct espl__diag *diag)
{
	struct stat st;
	struct espl__diag inner = ESPL__DIAG_INIT;
	int there = stat(path, &st) == 0,
	    dir = kind == A_FOLDER || (kind == EITHER && there && S_ISDIR(st.st_mode));

	if (!there || access(path, dir ? X_OK : R_OK) != 0) {
		espl__fail_errno(&inner, "%s: '%s'", what, path);
		espl__fail_at(diag, ESPL_E_CONFIG, file, line, "%s", inner.text);
		espl__hint(diag,
		    "relative paths start at the directory of the configuration file%s",
		    kind != EITHER ? ""
				   : "; recorded curves come from a script or a run, see the "
				     "comments in the configuration and docs/curves.md");
		return ESPL_E_CONFIG;
	}
	if (dir && !S_ISDIR(st.st_mode))
		return espl__fail_at(diag, ESPL_E_CONFIG, file, line, "%s: '%s' is not a directory",
		    what, path);
	if (!dir && S_ISDIR(st.st_mode))
		return espl__fail_at(diag, ESPL_E_CONFIG, file, line, "%s: '%s' is a directory",
		    what, path);
	return ESPL_OK;
}

static espl_status
read_paths(struct espl__run_config *config, struct espl__diag *diag)
{
	struct espl__trial_config *trial = &config->trial;
	struct espl__values *values = config->trial_values;
	espl_status status = ESPL_OK;

	if (is_set(values, TRIAL_CURVES)) {
		trial->curves = espl__run_path(config, value_of(values, TRIAL_CURVES)->as.s);
		status = check_file(trial->curves, EITHER, "trial.curves",
		    values->files[TRIAL_CURVES], value_of(values, TRIAL_CURVES)->line, diag);
	}
	if (is_set(values, TRIAL_DIRECTORY)) {
		trial->directory = espl__run_path(config, value_of(values, TRIAL_DIRECTORY)->as.s);
		if (status == ESPL_OK)
			status = check_file(trial->directory, A_FOLDER, "trial.directory",
			    values->files[TRIAL_DIRECTORY], value_of(values, TRIAL_DIRECTORY)->line,
			    diag);
	} else {
		trial->directory = espl__strdup(config->directory);
	}
	if (status == ESPL_OK && trial->profile != NULL && trial->profile->type == ESPL__STRING &&
	    strcmp(trial->profile->text, "auto") != 0) {
		char *path = espl__run_path(config, trial->profile->text);

		status = check_file(path, A_FILE, "trial.profile", trial->profile->file,
		    trial->profile->line, diag);
		free(path);
	}
	return status;
}

static espl_status
check_trial(struct espl__run_config *config, const struct espl__node *group, enum espl__need need,
    struct espl__diag *diag)
{
	struct espl__trial_config *trial = &config->trial;
	int kinds = (trial->trainable != NULL) + (trial->command != NULL) + (trial->curves != NULL);

	if (kinds > 1) {
		refuse_node(group, diag,
		    "trial: only one of 'trainable', 'command' and 'curves' can be given");
		espl__hint(diag,
		    "'trainable' is a C plugin, 'command' any program, 'curves' recorded learning "
		    "curves");
		return ESPL_E_CONFIG;
	}
	if (kinds == 0 && need == ESPL__NEED_TRIAL && !config->pool) {
		espl__fail_at(diag, ESPL_E_CONFIG, group != NULL ? group->file : config->path,
		    group != NULL ? group->line : 0,
		    "the configuration does not say how to run a trial");
		espl__hint(diag,
		    "trial = { trainable = \"...\"; }; or trial = { command = [ \"...\" ]; };");
		return ESPL_E_CONFIG;
	}
	if (trial->gpus_min > trial->gpus_max)
		return espl__fail_at(diag, ESPL_E_CONFIG,
		    config->trial_values->files[TRIAL_GPUS_MAX],
		    value_of(config->trial_values, TRIAL_GPUS_MAX)->line,
		    "trial: gpus_min = %u is more than gpus_max = %u", trial->gpus_min,
		    trial->gpus_max);
	if (trial->sharing == ESPL__SHARE_EXCLUSIVE && trial->packing_max > 1) {
		refuse_option(config->trial_values, TRIAL_PACKING_MAX, diag,
		    "trial: packing_max lets trials share a GPU, but sharing = \"exclusive\" "
		    "forbids it");
		espl__hint(diag, "remove one of the two");
		return ESPL_E_CONFIG;
	}
	if (trial->gpus_min > config->gpus_limit) {
		espl__fail_at(diag, ESPL_E_CONFIG,
		    config->experiment_values->files[EXPERIMENT_GPUS_MAX],
		    value_of(config->experiment_values, EXPERIMENT_GPUS_MAX)->line,
		    "a trial needs %u GPUs, but the experiment may use only %u", trial->gpus_min,
		    config->gpus_limit);
		espl__hint(diag, "lower trial.gpus_min or raise experiment.gpus_max");
		return ESPL_E_CONFIG;
	}
	return espl__run_check_torchrun(config, diag);
}

static espl_status
read_trial(struct espl__run_config *config, enum espl__need need, struct espl__diag *diag)
{
	static const char *const known[] = { "command", "metrics", "options", "profile", "files",
		"setup", "env", "env_from", NULL };
	const struct espl__node *group = espl__node_get(espl__tree_root(config->tree), "trial");
	struct espl__trial_config *trial = &config->trial;
	struct espl__values *values;
	espl_status status;

	espl__run_drop_training(config, group);
	status = resolve_group(config, GROUP_TRIAL, known, &config->trial_values, diag);
	if (status != ESPL_OK)
		return status;
	values = config->trial_values;
	if (is_set(values, TRIAL_TRAINABLE)) {
		trial->trainable = value_of(values, TRIAL_TRAINABLE)->as.s;
		if (trial->trainable[0] == '\0')
			return refuse_option(values, TRIAL_TRAINABLE, diag,
			    "trial: 'trainable' is empty");
	}
	trial->gpus_min = number_of(values, TRIAL_GPUS_MIN);
	trial->gpus_max = number_of(values, TRIAL_GPUS_MAX);
	trial->packing_max = number_of(values, TRIAL_PACKING_MAX);
	trial->sharing = (enum espl__sharing)value_of(values, TRIAL_SHARING)->as.i;
	trial->retries = number_of(values, TRIAL_RETRIES);
	trial->checkpoint = (int)value_of(values, TRIAL_CHECKPOINT)->as.i;
	trial->colocate = (int)value_of(values, TRIAL_COLOCATE)->as.i;
	trial->in_place = (int)value_of(values, TRIAL_IN_PLACE)->as.i;
	trial->checkpoint_every = value_of(values, TRIAL_CHECKPOINT_EVERY)->as.i;
	trial->report_limit = value_of(values, TRIAL_REPORT_LIMIT)->as.i;
	trial->time_limit = value_of(values, TRIAL_TIME_LIMIT)->as.i;
	trial->save_limit = value_of(values, TRIAL_SAVE_LIMIT)->as.i;
	trial->grace = value_of(values, TRIAL_GRACE)->as.i;
	trial->file_max = value_of(values, TRIAL_FILE_MAX)->as.i;
	trial->log_limit = value_of(values, TRIAL_LOG_LIMIT)->as.i;
	trial->warm = (int)value_of(values, TRIAL_WARM)->as.i;
	trial->torchrun =
	    is_set(values, TRIAL_TORCHRUN) ? (int)value_of(values, TRIAL_TORCHRUN)->as.i : -1;
	status = read_command(trial, espl__node_get(group, "command"), diag);
	if (status == ESPL_OK)
		status = read_nodes(trial, group, diag);
	if (status == ESPL_OK)
		status = read_paths(config, diag);
	if (status == ESPL_OK)
		status = check_trial(config, group, need, diag);
	if (status == ESPL_OK)
		status = espl__run_read_metrics(config, group, diag);
	return status;
}

/* ---- space, planning, plugins ------------------------------------------------------ */

static espl_status
read_space(struct espl__run_config *config, enum espl__need need, struct espl__diag *diag)
{
	const struct espl__node *space = espl__node_get(espl__tree_root(config->tree), "space");

	if (space == NULL && (need == ESPL__NEED_NOTHING || config->pool))
		return ESPL_OK;
	if (space == NULL) {
		espl__fail_at(diag, ESPL_E_CONFIG, config->path, 0, "the group 'space' is missing");
		espl__hint(diag,
		    "space = { lr = { type = \"real\"; low = 1e-4; high = 0.1; scale = \"log\"; }; "
		    "};");
		return ESPL_E_CONFIG;
	}
	if (space->type != ESPL__GROUP)
		return refuse_node(space, diag, "'space' must be a group of parameters");
	if (space->child_count == 0)
		return refuse_node(space, diag,
		    "the space is empty, so there is nothing to search");
	config->space = space;
	return ESPL_OK;
}

/* What only a simulated world knows. */
static espl_status
read_truth(struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__node *truth = espl__node_get(espl__tree_root(config->tree), "truth");
	const struct espl__node *profile = espl__node_get(truth, "profile");
	espl_status status = ESPL_OK;
	char *path;

	if (truth == NULL)
		return ESPL_OK;
	if (config->pool)
		return refuse_node(truth, diag, "a pool has no group 'truth'");
	if (truth->type != ESPL__GROUP || truth->child_count != (profile != NULL))
		return refuse_node(truth, diag, "'truth' is a group that has only 'profile'");
	if (profile != NULL && profile->type != ESPL__GROUP &&
	    (profile->type != ESPL__STRING || profile->text[0] == '\0' ||
		strcmp(profile->text, "auto") == 0))
		return refuse_node(profile, diag, "truth: 'profile' must be a file or a group");
	if (profile != NULL && profile->type == ESPL__STRING) {
		path = espl__run_path(config, profile->text);
		status =
		    check_file(path, A_FILE, "truth.profile", profile->file, profile->line, diag);
		free(path);
	}
	config->truth = profile;
	return status;
}

static espl_status
read_planning(struct espl__run_config *config, struct espl__diag *diag)
{
	struct espl__values *values;
	espl_status status =
	    resolve_group(config, GROUP_PLANNING, NULL, &config->planning_values, diag);

	if (status != ESPL_OK)
		return status;
	values = config->planning_values;
	config->queue_chain = value_of(values, PLANNING_QUEUE)->as.i == 1;
	config->warm = (int)value_of(values, PLANNING_WARM)->as.i;
	config->acquire_ahead = (int)value_of(values, PLANNING_ACQUIRE_AHEAD)->as.i;
	config->release_idle = value_of(values, PLANNING_RELEASE)->as.i == 1;
	config->samples = number_of(values, PLANNING_SAMPLES);
	config->risk = value_of(values, PLANNING_RISK)->as.r;
	if (config->risk <= 0 || config->risk >= 1)
		return refuse_option(values, PLANNING_RISK, diag,
		    "planning: 'risk' must be above 0 and below 1");
	return ESPL_OK;
}

/* The core's own options of the group; the others belong to the plugin. */
/* The options of a plugin's group that belong to every plugin of its kind. */
static espl_status
read_shared(const struct espl__core_group *core, const struct espl__node *group,
    struct espl__values **values, struct espl__diag *diag)
{
	struct espl__node own, *members[CLOUD_COUNT + ALGORITHM_COUNT];

	ESPL__ASSERT(core->count <= sizeof members / sizeof members[0]);
	memset(&own, 0, sizeof own);
	if (group != NULL)
		own = *group;
	own.children = members;
	own.child_count = 0;
	for (uint32_t i = 0; i < core->count && group != NULL; i++) {
		const struct espl__node *node = espl__node_get(group, core->options[i].name);

		for (uint32_t k = 0; k < group->child_count && node != NULL; k++)
			if (group->children[k] == node)
				members[own.child_count++] = group->children[k];
	}
	return espl__schema_resolve(core->options, core->count,
	    (uint32_t)sizeof(struct espl_option), group != NULL ? &own : NULL, NULL, core->name,
	    core->name, values, diag);
}

/* What runs trials by iterations cannot say how many there will be. */
static espl_status
check_resource(const struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__values *values = config->algorithm_values;
	espl_status status;

	if (!(config->resource_step > 0) || !isfinite(config->resource_step))
		return refuse_option(values, ALGORITHM_RESOURCE_STEP, diag,
		    "algorithm: 'resource_step' must be above 0");
	if (config->resource == NULL) {
		if (value_of(values, ALGORITHM_RESOURCE_STEP)->source <= ESPL_FALLBACK)
			return ESPL_OK;
		status = refuse_option(values, ALGORITHM_RESOURCE_STEP, diag,
		    "algorithm: 'resource_step' has no meaning without 'resource'");
		espl__hint(diag, "resource = \"seconds\", or the name of a metric that only grows");
		return status;
	}
	if (!espl__metric_named(config->resource))
		return refuse_option(values, ALGORITHM_RESOURCE, diag,
		    "algorithm: 'resource' is \"seconds\" or the name of a metric");
	if (config->metric != NULL && strcmp(config->resource, config->metric) == 0) {
		status = refuse_option(values, ALGORITHM_RESOURCE, diag,
		    "algorithm: the metric that is optimized cannot be the resource");
		espl__hint(diag,
		    "a resource only grows while a trial trains, as tokens or samples do");
		return status;
	}
	for (uint32_t i = 0; i < config->trial.command_count; i++)
		if (strstr(config->trial.command[i], "{iterations}") != NULL) {
			status = refuse_option(values, ALGORITHM_RESOURCE, diag,
			    "algorithm: with a 'resource' the number of {iterations} in "
			    "trial.command is not known");
			espl__hint(diag,
			    "write a number that is large enough: a trial is ended when it has "
			    "used "
			    "what the algorithm gives it");
			return status;
		}
	return ESPL_OK;
}

/* A clone begins from the checkpoint of one trial. */
static espl_status
check_seeds(const struct espl__run_config *config, struct espl__diag *diag)
{
	static const char *const cloning[] = { "pbt", "replay" };
	uint32_t option = config->seeds > 1 ? EXPERIMENT_SEEDS : EXPERIMENT_CONFIRM;
	espl_status status;

	if (config->seeds <= 1 && config->confirm == 0)
		return ESPL_OK;
	for (uint32_t i = 0; i < sizeof cloning / sizeof cloning[0]; i++)
		if (strcmp(config->algorithm.use, cloning[i]) == 0) {
			status = espl__fail_at(diag, ESPL_E_CONFIG,
			    config->experiment_values->files[option],
			    value_of(config->experiment_values, option)->line,
			    "experiment: '%s' does not work with algorithm '%s', which clones "
			    "trials",
			    option == EXPERIMENT_SEEDS ? "seeds" : "confirm", cloning[i]);
			espl__hint(diag,
			    "use another algorithm, or run the search several times with other "
			    "values of experiment.seed");
			return status;
		}
	return ESPL_OK;
}

static espl_status
read_algorithm(struct espl__run_config *config, struct espl__diag *diag)
{
	espl_status status = read_shared(&espl__core_groups()[GROUP_ALGORITHM],
	    config->algorithm.group, &config->algorithm_values, diag);

	if (status != ESPL_OK)
		return status;
	config->resource = value_of(config->algorithm_values, ALGORITHM_RESOURCE)->as.s;
	config->resource_step = value_of(config->algorithm_values, ALGORITHM_RESOURCE_STEP)->as.r;
	if (strcmp(config->resource, "iterations") == 0)
		config->resource = NULL;
	status = check_seeds(config, diag);
	return status == ESPL_OK ? check_resource(config, diag) : status;
}

static espl_status
read_cloud(struct espl__run_config *config, struct espl__diag *diag)
{
	espl_status status = read_shared(&espl__core_groups()[GROUP_CLOUD], config->cloud.group,
	    &config->cloud_values, diag);

	if (status != ESPL_OK)
		return status;
	config->patience = value_of(config->cloud_values, CLOUD_PATIENCE)->as.i;
	if (value_of(config->cloud_values, CLOUD_PATIENCE)->source <= ESPL_FALLBACK &&
	    strcmp(config->cloud.use, "local") == 0)
		config->patience = 0; /* there is no connection that could break */
	config->linger = value_of(config->cloud_values, CLOUD_LINGER)->as.i;
	config->give_up = (uint32_t)value_of(config->cloud_values, CLOUD_GIVE_UP)->as.i;
	if (config->linger < config->patience)
		return refuse_option(config->cloud_values, CLOUD_LINGER, diag,
		    "cloud: 'linger' must not be shorter than 'patience'");
	if (value_of(config->cloud_values, CLOUD_AFTER_LINGER)->source != ESPL_UNSET)
		config->after_linger = value_of(config->cloud_values, CLOUD_AFTER_LINGER)->as.table;
	if (config->after_linger != NULL && config->after_linger->cells[0].as.s[0] == '\0')
		return refuse_option(config->cloud_values, CLOUD_AFTER_LINGER, diag,
		    "cloud: 'after_linger' must begin with a program");
	if (config->after_linger != NULL && config->patience == 0)
		return refuse_option(config->cloud_values, CLOUD_AFTER_LINGER, diag,
		    "cloud: 'after_linger' needs a 'patience' above 0s");
	return ESPL_OK;
}

static espl_status
read_section(struct espl__run_config *config, const char *name, const char *use, int required,
    struct espl__section *section, struct espl__diag *diag)
{
	const struct espl__node *group = espl__node_get(espl__tree_root(config->tree), name);
	const struct espl__node *node;

	section->group = group;
	section->use = use;
	if (group == NULL) {
		if (!required)
			return ESPL_OK;
		espl__fail_at(diag, ESPL_E_CONFIG, config->path, 0, "the group '%s' is missing",
		    name);
		espl__hint(diag, "%s = { use = \"%s\"; ... };", name, use);
		return ESPL_E_CONFIG;
	}
	if (group->type != ESPL__GROUP) {
		espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
		    "'%s' must be a group, not %s", name, espl__node_kind(group));
		espl__hint(diag, "%s = { use = \"%s\"; ... };", name, use);
		return ESPL_E_CONFIG;
	}
	node = espl__node_get(group, "use");
	if (node == NULL || node->type != ESPL__STRING || node->text[0] == '\0') {
		const struct espl__node *at = node != NULL ? node : group;

		espl__fail_at(diag, ESPL_E_CONFIG, at->file, at->line,
		    node == NULL ? "%s: 'use' is missing; name a plugin"
				 : "%s: 'use' must be the name of a plugin",
		    name);
		espl__hint(diag, "for example use = \"%s\"; `espalier plugins` lists them", use);
		return ESPL_E_CONFIG;
	}
	section->use = node->text;
	return ESPL_OK;
}

static espl_status
read_all(struct espl__run_config *config, enum espl__need need, struct espl__diag *diag)
{
	espl_status status = check_top(espl__tree_root(config->tree), diag);

	if (status == ESPL_OK)
		status = espl__run_refuse_marks(espl__tree_root(config->tree), "", diag);
	if (status == ESPL_OK)
		status = find_directory(config, diag);
	if (status == ESPL_OK)
		status = espl__run_read_pool(config, diag);
	if (status == ESPL_OK)
		status = read_experiment(config, need, diag);
	if (status == ESPL_OK)
		status = read_trial(config, need, diag);
	if (status == ESPL_OK && config->pool)
		status = espl__run_check_pool(config, diag);
	if (status == ESPL_OK)
		status = read_space(config, need, diag);
	if (status == ESPL_OK)
		status = espl__run_check_words(config, diag);
	if (status == ESPL_OK)
		status = read_section(config, "algorithm", "random",
		    need != ESPL__NEED_NOTHING && !config->pool, &config->algorithm, diag);
	if (status == ESPL_OK)
		status = read_algorithm(config, diag);
	if (status == ESPL_OK)
		status = read_section(config, "allocator", "static", 0, &config->allocator, diag);
	if (status == ESPL_OK)
		status = read_section(config, "cloud", "local", 0, &config->cloud, diag);
	if (status == ESPL_OK)
		status = read_cloud(config, diag);
	if (status == ESPL_OK)
		status = read_section(config, "placer", "colocate", 0, &config->placer, diag);
	if (status == ESPL_OK)
		status = espl__run_read_store(config, diag);
	if (status == ESPL_OK)
		status = read_planning(config, diag);
	if (status == ESPL_OK)
		status = read_truth(config, diag);
	return status;
}

espl_status
espl__run_load(const char *path, const char *const *sets, uint32_t set_count, enum espl__need need,
    struct espl__run_config **to, struct espl__diag *diag)
{
	struct espl__run_config *config = espl__alloc(sizeof *config);
	espl_status status;

	config->magic = ESPL__RUN_CONFIG_MAGIC;
	*to = NULL;
	config->path = espl__strdup(path);
	status = espl__tree_load(path, &config->tree, diag);
	if (status != ESPL_OK && diag != NULL && diag->line > 0)
		espl__run_say_format(path, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < set_count; i++)
		status = espl__run_set(config->tree, sets[i], diag);
	if (status == ESPL_OK)
		status = read_all(config, need, diag);
	if (status != ESPL_OK) {
		espl__run_free(config);
		return status;
	}
	*to = config;
	return ESPL_OK;
}

void
espl__run_free(struct espl__run_config *config)
{
	if (config == NULL)
		return;
	espl__values_free(config->experiment_values);
	espl__values_free(config->trial_values);
	espl__values_free(config->planning_values);
	espl__values_free(config->warm_values);
	espl__values_free(config->cloud_values);
	espl__values_free(config->algorithm_values);
	espl__values_free(config->metrics_values);
	espl__values_free(config->store_values);
	espl__run_free_pool(config);
	free((void *)config->warm_from);
	free((void *)config->trial.command);
	free((void *)config->trial.metrics);
	free((void *)config->trial.metrics_missed);
	free((void *)config->trial.curves);
	free((void *)config->trial.curves_text);
	free((void *)config->trial.curves_cut);
	free((void *)config->trial.directory);
	free((void *)config->directory);
	free((void *)config->path);
	espl__tree_free(config->tree);
	config->magic = 0;
	free(config);
}
