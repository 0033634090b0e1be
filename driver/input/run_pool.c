/* run_pool.c - the sections of a pool: several experiments, and plain jobs, on one cluster.
 *
 * Experiments are files of their own, which could be run alone; what they say of allocator, cloud
 * and placer does not count here.  Only where they lie is read now.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "input/run_groups.h"

/* A file named by the user: it must be there and readable. */
static espl_status
check_file(const char *path, const char *what, const char *file, uint32_t line,
    struct espl__diag *diag)
{
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct stat st;

	if (stat(path, &st) != 0 || access(path, R_OK) != 0) {
		espl__fail_errno(&inner, "%s: '%s'", what, path);
		espl__fail_at(diag, ESPL_E_CONFIG, file, line, "%s", inner.text);
		espl__hint(diag, "relative paths start at the directory of the configuration file");
		return ESPL_E_CONFIG;
	}
	if (S_ISDIR(st.st_mode))
		return espl__fail_at(diag, ESPL_E_CONFIG, file, line, "%s: '%s' is a directory",
		    what, path);
	return ESPL_OK;
}

/* A trace says itself what the options from `jobs` on would have drawn.  At its default none of
 * them says anything: a run's own run.cfg has them all. */
static espl_status
refuse_drawn(const struct espl__values *values, struct espl__diag *diag)
{
	const struct espl__core_group *core = &espl__core_groups()[GROUP_WORKLOAD];
	struct espl__values *plain = NULL;
	espl_status status;

	status = espl__schema_resolve(core->options, core->count,
	    (uint32_t)sizeof(struct espl_option), NULL, NULL, core->name, core->name, &plain, diag);
	for (uint32_t i = WORKLOAD_JOBS; status == ESPL_OK && i <= WORKLOAD_TERMINATED; i++) {
		struct espl__buf is = { NULL, 0, 0 }, was = { NULL, 0, 0 };

		(void)espl__values_print(values, i, &is);
		(void)espl__values_print(plain, i, &was);
		if (strcmp(espl__buf_text(&is), espl__buf_text(&was)) != 0) {
			status = espl__fail_at(diag, ESPL_E_CONFIG, values->files[i],
			    values->config.values[i].line,
			    "workload: '%s' applies to generated jobs, but these jobs come from a "
			    "trace",
			    core->options[i].name);
			espl__hint(diag, "remove one of the two");
		}
		espl__buf_free(&is);
		espl__buf_free(&was);
	}
	espl__values_free(plain);
	if (status == ESPL_OK && values->config.values[WORKLOAD_NOISE].as.r > 0 &&
	    values->config.values[WORKLOAD_REDRAW].as.i == 0) {
		status = espl__fail_at(diag, ESPL_E_CONFIG, values->files[WORKLOAD_NOISE],
		    values->config.values[WORKLOAD_NOISE].line,
		    "workload: 'noise' does not apply to a trace, which has its own estimates "
		    "(eta_s)");
		espl__hint(diag,
		    "remove it, or add redraw = true to draw new estimates at each decision");
	}
	return status;
}

static espl_status
read_workload(struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__core_group *core = &espl__core_groups()[GROUP_WORKLOAD];
	const struct espl__values *values;
	espl_status status;

	status =
	    espl__schema_resolve(core->options, core->count, (uint32_t)sizeof(struct espl_option),
		config->workload, NULL, core->name, core->name, &config->workload_values, diag);
	values = config->workload_values;
	if (status != ESPL_OK || values->config.values[WORKLOAD_TRACE].source == ESPL_UNSET)
		return status;
	if (refuse_drawn(values, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	config->trace = espl__run_path(config, values->config.values[WORKLOAD_TRACE].as.s);
	return check_file(config->trace, "workload.trace", values->files[WORKLOAD_TRACE],
	    values->config.values[WORKLOAD_TRACE].line, diag);
}

static espl_status
read_entry(struct espl__run_config *config, const struct espl__node *node,
    struct espl__entry *entry, struct espl__diag *diag)
{
	const struct espl_value *values;
	espl_status status;

	entry->node = node;
	if (node->type != ESPL__GROUP) {
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    "experiments: each element must be a group, not %s", espl__node_kind(node));
		espl__hint(diag, "experiments = ( { file = \"a.cfg\"; arrives = \"0s\"; }, ... );");
		return ESPL_E_CONFIG;
	}
	status = espl__schema_resolve(espl__core_groups()[GROUP_EXPERIMENTS].options, ENTRY_COUNT,
	    (uint32_t)sizeof(struct espl_option), node, NULL, "experiments", "experiments",
	    &entry->values, diag);
	if (status != ESPL_OK)
		return status;
	values = entry->values->config.values;
	entry->path = espl__run_path(config, values[ENTRY_FILE].as.s);
	entry->arrives = values[ENTRY_ARRIVES].as.i;
	if (values[ENTRY_NAME].source != ESPL_UNSET &&
	    espl__run_check_name(entry->values, ENTRY_NAME, "experiments", diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (values[ENTRY_WEIGHT].source != ESPL_UNSET && !(values[ENTRY_WEIGHT].as.r > 0))
		return espl__fail_at(diag, ESPL_E_CONFIG, entry->values->files[ENTRY_WEIGHT],
		    values[ENTRY_WEIGHT].line, "experiments: the weight must be above 0");
	entry->name = values[ENTRY_NAME].source != ESPL_UNSET ? values[ENTRY_NAME].as.s : NULL;
	entry->weight = values[ENTRY_WEIGHT].source != ESPL_UNSET ? values[ENTRY_WEIGHT].as.r : 0;
	entry->gpus_max =
	    values[ENTRY_GPUS_MAX].source != ESPL_UNSET ? (uint32_t)values[ENTRY_GPUS_MAX].as.i : 0;
	entry->inner =
	    values[ENTRY_INNER].source != ESPL_UNSET ? values[ENTRY_INNER].as.i != 0 : -1;
	return check_file(entry->path, "experiments.file", node->file, values[ENTRY_FILE].line,
	    diag);
}

static espl_status
read_entries(struct espl__run_config *config, const struct espl__node *list,
    struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (list->type != ESPL__LIST || list->child_count == 0) {
		espl__fail_at(diag, ESPL_E_CONFIG, list->file, list->line,
		    "'experiments' must be a list of one or more groups");
		espl__hint(diag, "experiments = ( { file = \"a.cfg\"; arrives = \"0s\"; }, ... );");
		return ESPL_E_CONFIG;
	}
	config->entries = espl__alloc(list->child_count * sizeof *config->entries);
	for (uint32_t i = 0; status == ESPL_OK && i < list->child_count; i++, config->entry_count++)
		status = read_entry(config, list->children[i], &config->entries[i], diag);
	return status;
}

espl_status
espl__run_read_pool(struct espl__run_config *config, struct espl__diag *diag)
{
	static const char *const alone[] = { "space", "algorithm" };
	const struct espl__node *root = espl__tree_root(config->tree),
				*list = espl__node_get(root, "experiments");
	espl_status status = ESPL_OK;

	ESPL__CHECK(config, RUN_CONFIG);
	config->workload = espl__node_get(root, "workload");
	config->pool = config->workload != NULL || list != NULL;
	for (size_t i = 0; i < 2 && config->pool; i++) {
		const struct espl__node *node = espl__node_get(root, alone[i]);

		if (node == NULL)
			continue;
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    "a pool must not have '%s'", alone[i]);
		espl__hint(diag, "put it into the file of an experiment; plain jobs do not search");
		return ESPL_E_CONFIG;
	}
	if (config->workload != NULL)
		status = read_workload(config, diag);
	if (status == ESPL_OK && list != NULL)
		status = read_entries(config, list, diag);
	return status;
}

/* What would be passed over is refused.  At its default it says nothing: a run's own run.cfg has
 * gpus_min. */
espl_status
espl__run_check_pool(const struct espl__run_config *config, struct espl__diag *diag)
{
	const struct {
		const struct espl__values *of;
		uint32_t option;
		const char *what, *hint;
	} list[] = {
		{ config->experiment_values, EXPERIMENT_METRIC, "a pool must not have 'metric'",
		    "put it into the file of an experiment; plain jobs are not compared" },
		{ config->experiment_values, EXPERIMENT_GOAL, "a pool must not have 'goal'",
		    "put it into the file of an experiment; plain jobs are not compared" },
		{ config->experiment_values, EXPERIMENT_TARGET, "a pool must not have 'target'",
		    "put it into the file of an experiment; plain jobs are not compared" },
		{ config->experiment_values, EXPERIMENT_PATIENCE, "a pool must not have 'patience'",
		    "put it into the file of an experiment; plain jobs are not compared" },
		{ config->trial_values, TRIAL_GPUS_MIN,
		    "a pool's 'trial' must not set the number of GPUs",
		    "for jobs use nodes_min and nodes_max of the trace, or workload.nodes_max; for "
		    "trials trial.gpus_min of the experiment's file" },
		{ config->trial_values, TRIAL_GPUS_MAX,
		    "a pool's 'trial' must not set the number of GPUs",
		    "for jobs use nodes_min and nodes_max of the trace, or workload.nodes_max; for "
		    "trials trial.gpus_max of the experiment's file" },
	};

	ESPL__CHECK(config, RUN_CONFIG);
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		const struct espl_value *value = &list[i].of->config.values[list[i].option];

		if (value->source < ESPL_FILE ||
		    (list[i].of == config->trial_values && list[i].option == TRIAL_GPUS_MIN &&
			value->as.i == 1))
			continue;
		(void)espl__fail_at(diag, ESPL_E_CONFIG, list[i].of->files[list[i].option],
		    value->line, "%s", list[i].what);
		espl__hint(diag, "%s", list[i].hint);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

void
espl__run_free_pool(struct espl__run_config *config)
{
	ESPL__CHECK(config, RUN_CONFIG);
	for (uint32_t i = 0; i < config->entry_count; i++) {
		espl__values_free(config->entries[i].values);
		free((void *)config->entries[i].path);
	}
	free(config->entries);
	espl__values_free(config->workload_values);
	free((void *)config->trace);
}
