/* run_warm.c - earlier results: experiment.warm_start, with which a search begins, and curves given
 * on the command line, which a simulation replays.
 *
 * Only the groups are read here and the place looked for; what lies there is read when the search
 * space is known.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "input/run_groups.h"

const struct espl_option espl__warm_options[WARM_COUNT] = {
	[WARM_FROM] = { .name = "from",
	    .type = ESPL_OPT_PATH,
	    .flags = ESPL_OPT_REQUIRED,
	    .help = "Directory of an earlier run, or a CSV file of learning curves." },
	[WARM_BEST] = { .name = "best",
	    .type = ESPL_OPT_INT,
	    .fallback = "4",
	    .min = "0",
	    .max = "1000000",
	    .help = "How many of its best configurations to try first." },
};

/* A run directory or a file, there and readable. */
static espl_status
check_source(const struct espl__node *from, const char *path, struct espl__diag *diag)
{
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct stat st;

	if (stat(path, &st) == 0 && access(path, S_ISDIR(st.st_mode) ? X_OK : R_OK) == 0)
		return ESPL_OK;
	espl__fail_errno(&inner, "experiment.warm_start.from: '%s'", path);
	espl__fail_at(diag, ESPL_E_CONFIG, from->file, from->line, "%s", inner.text);
	espl__hint(diag, "relative paths start at the directory of the configuration file");
	return ESPL_E_CONFIG;
}

espl_status
espl__run_read_warm(struct espl__run_config *config, const struct espl__node *experiment,
    struct espl__diag *diag)
{
	const struct espl__node *group = espl__node_get(experiment, "warm_start");
	const struct espl_value *values;
	espl_status status;

	ESPL__CHECK(config, RUN_CONFIG);
	if (group == NULL)
		return ESPL_OK;
	if (group->type != ESPL__GROUP) {
		espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
		    "experiment: 'warm_start' must be a group, not %s", espl__node_kind(group));
		espl__hint(diag, "warm_start = { from = \"DIR\"; best = 4; };");
		return ESPL_E_CONFIG;
	}
	status = espl__schema_resolve(espl__warm_options, WARM_COUNT,
	    (uint32_t)sizeof(struct espl_option), group, NULL, "experiment.warm_start",
	    "warm_start", &config->warm_values, diag);
	if (status != ESPL_OK)
		return status;
	values = config->warm_values->config.values;
	config->warm_node = espl__node_get(group, "from");
	config->warm_best = (uint32_t)values[WARM_BEST].as.i;
	config->warm_from = espl__run_path(config, values[WARM_FROM].as.s);
	return check_source(config->warm_node, config->warm_from, diag);
}

void
espl__run_drop_training(struct espl__run_config *config, const struct espl__node *trial)
{
	static const char *const names[] = { "trainable", "command", "options" };
	const struct espl__node *curves = espl__node_get(trial, "curves");

	ESPL__CHECK(config, RUN_CONFIG);
	for (uint32_t i = 0;
	     curves != NULL && curves->source == ESPL_COMMAND && i < sizeof names / sizeof names[0];
	     i++) {
		const struct espl__node *node = espl__node_get(trial, names[i]);

		if (node != NULL && node->source != ESPL_COMMAND)
			espl__tree_drop(config->tree, "trial", names[i]);
	}
}
