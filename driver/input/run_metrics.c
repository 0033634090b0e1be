/* run_metrics.c - programs that need no change: parameters in the words of trial.command, and
 * trial.metrics, which says what to read of their output.
 */
#include <string.h>

#include "base/assert.h"
#include "base/fill.h"
#include "base/mem.h"
#include "base/text.h"
#include "input/run_groups.h"
#include "listen/listen.h"
#include "listen/follow.h"

enum {
	METRICS_FILE,
	METRICS_FROM,
	METRICS_FORMAT,
	METRICS_PATTERN,
	METRICS_ITERATION,
	METRICS_FIRST,
	METRICS_PER_ITERATION,
	METRICS_BEST,
	METRICS_COUNT
};
enum { FORMAT_PATTERN, FORMAT_JSON };
enum { FROM_STDOUT, FROM_STDERR };

static const struct espl_option options[METRICS_COUNT] = {
	[METRICS_FILE] = { .name = "file",
	    .type = ESPL_OPT_STRING,
	    .help = "Files of metrics that the program writes." },
	[METRICS_FROM] = { .name = "from",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "stdout",
	    .choices = "stdout|stderr",
	    .help = "Where the program prints its metrics." },
	[METRICS_FORMAT] = { .name = "format",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "pattern|json",
	    .help = "How to read a line." },
	[METRICS_PATTERN] = { .name = "pattern",
	    .type = ESPL_OPT_STRING,
	    .help = "Regular expression with a group for each metric." },
	[METRICS_ITERATION] = { .name = "iteration",
	    .type = ESPL_OPT_STRING,
	    .fallback = "iteration",
	    .help = "Group or JSON member with the iteration." },
	[METRICS_FIRST] = { .name = "first",
	    .type = ESPL_OPT_INT,
	    .min = "0",
	    .max = "1",
	    .help = "What is printed for the first iteration." },
	[METRICS_PER_ITERATION] = { .name = "per_iteration",
	    .type = ESPL_OPT_REAL,
	    .min = "1e-9",
	    .max = "1e12",
	    .fallback = "1",
	    .help = "How much that number grows in one." },
	[METRICS_BEST] = { .name = "best",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false",
	    .help = "Compare trials by their best iteration." },
};

static struct espl__listen_spec
spec_of(const struct espl__run_config *config)
{
	const struct espl_value *values = config->metrics_values->config.values;
	const char *pattern = values[METRICS_PATTERN].as.s, *file = values[METRICS_FILE].as.s,
		   *iteration = values[METRICS_ITERATION].as.s;

	/* the names that loggers give to it */
	if (file != NULL && values[METRICS_ITERATION].source == ESPL_FALLBACK) {
		if (espl__follow_kind_of(file) == ESPL__FOLLOW_CSV)
			iteration = "epoch";
		else if (espl__follow_kind_of(file) == ESPL__FOLLOW_EVENTS)
			iteration = "step";
	}
	return (struct espl__listen_spec){ values[METRICS_FROM].as.i == FROM_STDERR ? "stderr"
										    : "stdout",
		file != NULL ? file : "", pattern != NULL ? pattern : "", iteration, config->metric,
		values[METRICS_FIRST].source != ESPL_UNSET ? (int)values[METRICS_FIRST].as.i : -1,
		values[METRICS_PER_ITERATION].as.r };
}

static void
keep_metrics(struct espl__run_config *config)
{
	struct espl__listen_spec spec = spec_of(config);

	config->trial.metrics = espl__listen_spec_text(&spec);
	config->trial.metrics_missed = spec.file[0] != '\0'
	    ? espl__format("no file '%.200s' had '%s'", spec.file, spec.metric)
	    : spec.pattern[0] == '\0'
	    ? espl__format("no line on its %s was a JSON object with '%s'", spec.from, spec.metric)
	    : espl__format("no line on its %s matched trial.metrics.pattern '%.200s'", spec.from,
		  spec.pattern);
}

/* ---- trial.metrics ----------------------------------------------------------------------- */

static espl_status
refuse_setting(const struct espl__node *at, struct espl__diag *diag, const char *text,
    const char *hint)
{
	espl__fail_at(diag, ESPL_E_CONFIG, at->file, at->line, "%s", text);
	espl__hint(diag, "%s", hint);
	return ESPL_E_CONFIG;
}

static const char *
find_own(void *ctx, const char *name)
{
	(void)ctx;
	return espl__fill_variable(name) != NULL ? "" : NULL;
}

static espl_status
check_file(const struct espl__run_config *config, const struct espl__node *group,
    struct espl__diag *diag)
{
	const struct espl_value *values = config->metrics_values->config.values;
	const struct espl__node *file = espl__node_get(group, "file"),
				*pattern = espl__node_get(group, "pattern");
	struct espl__buf text = { NULL, 0, 0 };
	char bad[64];
	int unknown;

	if (values[METRICS_FROM].source != ESPL_FALLBACK &&
	    values[METRICS_FROM].source != ESPL_UNSET)
		return refuse_setting(espl__node_get(group, "from"), diag,
		    "trial.metrics: 'file' and 'from' exclude each other", "remove one of the two");
	if (pattern != NULL && espl__follow_kind_of(values[METRICS_FILE].as.s) != ESPL__FOLLOW_JSON)
		return refuse_setting(pattern, diag,
		    "trial.metrics: a CSV or event file takes no 'pattern'", "remove it");
	unknown = espl__fill(values[METRICS_FILE].as.s, find_own, NULL, &text, bad);
	espl__buf_free(&text);
	if (unknown == 0)
		return ESPL_OK;
	espl__fail_at(diag, ESPL_E_CONFIG, file->file, file->line,
	    "trial.metrics: 'file' cannot have {%s}", bad);
	espl__hint(diag, "{output} is the directory of the trial; also {trial}, {run}, {seed}");
	return ESPL_E_CONFIG;
}

static espl_status
check_format(const struct espl__run_config *config, const struct espl__node *group,
    struct espl__diag *diag)
{
	const struct espl_value *values = config->metrics_values->config.values;
	const struct espl__node *pattern = espl__node_get(group, "pattern");
	int json = values[METRICS_FORMAT].source != ESPL_UNSET &&
	    values[METRICS_FORMAT].as.i == FORMAT_JSON;
	struct espl__listen_spec spec = spec_of(config);
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct espl__listen *listen;

	if (json && pattern != NULL)
		return refuse_setting(pattern, diag,
		    "trial.metrics: format = \"json\" takes no 'pattern'", "remove one of the two");
	if (spec.file[0] != '\0' && check_file(config, group, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (!json && spec.pattern[0] == '\0' && spec.file[0] == '\0')
		return refuse_setting(group, diag, "trial.metrics: 'pattern' is missing",
		    "pattern = \"loss: {loss}\"; or format = \"json\"; for lines of JSON");
	if (espl__listen_new(&spec, &listen, &inner) != ESPL_OK) {
		const struct espl__node *at = pattern != NULL ? pattern : group;

		espl__fail_at(diag, ESPL_E_CONFIG, at->file, at->line, "trial.metrics: %s",
		    inner.text);
		if (inner.hint[0] != '\0')
			espl__hint(diag, "%s", inner.hint);
		return ESPL_E_CONFIG;
	}
	espl__listen_free(listen);
	return ESPL_OK;
}

/* Nothing tells such a program to save. */
static espl_status
forbid_checkpoints(struct espl__run_config *config, const struct espl__node *trial,
    struct espl__diag *diag)
{
	const struct espl__node *node = espl__node_get(trial, "checkpoint");
	struct espl_value *value =
	    (struct espl_value *)(uintptr_t)&config->trial_values->config.values[TRIAL_CHECKPOINT];

	if (node != NULL && config->trial.checkpoint)
		return refuse_setting(node, diag,
		    "trial: 'checkpoint' cannot be true with 'metrics': a program that only prints "
		    "cannot be asked to save",
		    "remove it, or let the program report as in docs/trial-protocol.md");
	config->trial.checkpoint = 0;
	value->as.i = 0; /* a resumed run reads it as it is printed */
	return ESPL_OK;
}

espl_status
espl__run_read_metrics(struct espl__run_config *config, const struct espl__node *trial,
    struct espl__diag *diag)
{
	const struct espl__node *group = espl__node_get(trial, "metrics");
	espl_status status;

	ESPL__CHECK(config, RUN_CONFIG);
	if (group == NULL)
		return ESPL_OK;
	if (group->type != ESPL__GROUP)
		return refuse_setting(group, diag, "trial: 'metrics' must be a group",
		    "metrics = { from = \"stdout\"; pattern = \"loss: {loss}\"; };");
	/* Recorded curves take the place of a command, whose metrics stay in the file. */
	if (config->trial.command == NULL && config->trial.curves == NULL &&
	    (group->child_count != 1 || espl__node_get(group, "best") == NULL))
		return refuse_setting(group, diag, "trial: 'metrics' is only valid with a command",
		    "a trainable reports its metrics by itself");
	if (config->metric == NULL)
		return refuse_setting(group, diag, "trial: 'metrics' needs experiment.metric",
		    "experiment = { metric = \"loss\"; ... };");
	status = espl__schema_resolve(options, METRICS_COUNT, (uint32_t)sizeof(struct espl_option),
	    group, NULL, "trial.metrics", "metrics", &config->metrics_values, diag);
	if (status == ESPL_OK) {
		config->trial.best = config->metrics_values->config.values[METRICS_BEST].as.i != 0;
		if (group->child_count == 1 && espl__node_get(group, "best") != NULL)
			return ESPL_OK; /* the program reports by itself */
		status = check_format(config, group, diag);
	}
	if (status == ESPL_OK)
		status = forbid_checkpoints(config, trial, diag);
	if (status == ESPL_OK)
		keep_metrics(config);
	return status;
}

/* ---- words ------------------------------------------------------------------------------- */

static const char *
find_name(void *ctx, const char *name)
{
	const struct espl__run_config *config = ctx;

	if (config->space != NULL && espl__node_get(config->space, name) != NULL)
		return "";
	return espl__fill_variable(name) != NULL ? "" : NULL;
}

/* "lr, momentum", and the nearest to a wrong one. */
static const char *
list_names(const struct espl__node *space, const char *wrong, struct espl__buf *list)
{
	const char **names = espl__alloc((space->child_count + 1) * sizeof *names), *near;

	for (uint32_t i = 0; i < space->child_count; i++) {
		names[i] = space->children[i]->name;
		espl__print(list, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	near = espl__nearest(wrong, names, space->child_count);
	free((void *)names);
	return near;
}

/* Has a word text between braces that is nearly, but not, a name? */
static int
is_misspelled(const struct espl__run_config *config, const char *word, char bad[64])
{
	for (const char *p = word; *p != '\0'; p++) {
		size_t length = strcspn(p + 1, "{}");
		struct espl__buf list = { NULL, 0, 0 };
		int near;

		if (p[0] == '{' && p[1] == '{') {
			p++;
			continue;
		}
		if (p[0] != '{' || p[length + 1] != '}' || length == 0 || length >= 64 ||
		    (p > word && p[-1] == '$'))
			continue;
		memcpy(bad, p + 1, length);
		bad[length] = '\0';
		near = find_name((void *)(uintptr_t)config, bad) == NULL &&
		    list_names(config->space, bad, &list) != NULL;
		espl__buf_free(&list);
		if (near)
			return 1;
	}
	return 0;
}

espl_status
espl__run_check_words(const struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__node *trial = espl__node_get(espl__tree_root(config->tree), "trial");
	const struct espl__node *command = espl__node_get(trial, "command");
	espl_status status = ESPL_OK;

	ESPL__CHECK(config, RUN_CONFIG);
	if (config->space == NULL || config->trial.command == NULL || command == NULL)
		return ESPL_OK;
	for (uint32_t i = 0; i < command->child_count && status == ESPL_OK; i++) {
		const struct espl__node *word = command->children[i];
		struct espl__buf text = { NULL, 0, 0 };
		char bad[64];

		if (espl__fill(word->text, find_name, (void *)(uintptr_t)config, &text, bad) != 0 ||
		    is_misspelled(config, word->text, bad)) {
			const char *near;

			espl__buf_clear(&text);
			near = list_names(config->space, bad, &text);
			status = espl__fail_at(diag, ESPL_E_CONFIG, word->file, word->line,
			    "trial.command: '{%s}' is not a parameter of the space", bad);
			if (near != NULL)
				espl__hint(diag, "did you mean '{%s}'? Write {{ for a brace", near);
			else
				espl__hint(diag,
				    "the parameters are %.200s; the other names are trial, "
				    "trial_name, experiment, run, output, seed and iterations; "
				    "write {{ for a brace",
				    espl__buf_text(&text));
		}
		espl__buf_free(&text);
	}
	return status;
}
