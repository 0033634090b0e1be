/* check_trainable.c - a C trainable before anything is started: are its options right, and does
 * it take the configurations of the search space?
 */
#include <stdio.h>
#include <stdlib.h>

#include <espalier/trainable.h>
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/inputs.h"
#include "plugin/instance.h"

#define SAMPLES 16u /* configurations that are tried */

/* One configuration; unit: its random coordinates. */
static espl_status
try_one(const struct espl__inputs *s, struct espl__instance *instance, double *unit, double *values,
    struct espl_error *error)
{
	const struct espl_trainable_ops *ops =
	    (const struct espl_trainable_ops *)(const void *)instance->ops;
	const struct espl_space *space = espl__space_view(s->space);
	struct espl_trial_context context = ESPL_INIT(struct espl_trial_context);
	struct espl__settings settings;
	espl_status status;

	if (space->from_unit(space, unit, values) != ESPL_OK)
		return ESPL_OK;
	espl__space_settings(s->space, values, &settings);
	context.setting_count = settings.count;
	context.settings = settings.list;
	context.budget = context.iterations_max = 1;
	context.scratch = "";
	espl__instance_calls(instance, "suits");
	status = ops->suits(instance->self, &context, error);
	espl__calling_end();
	espl__settings_free(&settings);
	return status;
}

/* No configuration suits: an error; some do not: a warning, with the first of them. */
static espl_status
try_samples(const struct espl__inputs *s, struct espl__instance *instance, struct espl__diag *diag)
{
	const struct espl__node *group = s->jobs != NULL ? s->config->workload : s->config->space;
	uint32_t params = espl__space_count(s->space), refused = 0;
	double *unit = espl__alloc((2 * (size_t)params + 1) * sizeof *unit);
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__rng rng;
	espl_status status = ESPL_OK;

	espl__rng_seed(&rng, s->config->seed, "does the trainable match the space?");
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct espl_error error = ESPL_INIT(struct espl_error);

		error.option = error.row = ESPL_ANY;
		for (uint32_t k = 0; k < params; k++)
			unit[k] = espl__rng_uniform(&rng);
		status = try_one(s, instance, unit, unit + params, &error);
		if (status != ESPL_OK && refused++ == 0)
			(void)espl__diag_plugin(&why, instance->who, status, &error);
	}
	free(unit);
	if (refused > 0 && refused < SAMPLES)
		espl__log(ESPL_WARN,
		    "%s: %u of %u configurations drawn from the space cannot be trained: %s",
		    s->config->path, (unsigned)refused, SAMPLES, why.text);
	if (refused < SAMPLES)
		return ESPL_OK;
	return espl__fail_at(diag, ESPL_E_CONFIG, group != NULL ? group->file : s->config->path,
	    group != NULL ? group->line : 0, "%s", why.text);
}

espl_status
espl__inputs_check_trainable(const struct espl__inputs *s, struct espl__diag *diag)
{
	static const espl_time zero = 0;
	struct espl__host_env env = { .seed = s->config->seed,
		.now = &zero,
		.directory = s->config->directory };
	const struct espl__trial_config *trial = &s->config->trial;
	const struct espl__node *group = espl__node_get(espl__tree_root(s->config->tree), "trial");
	const struct espl__node *use = espl__node_get(group, "trainable");
	const struct espl__plugin *plugin;
	struct espl__instance *instance;
	espl_status status = espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, diag);

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (status == ESPL_OK)
		status = espl__instance_of(plugin, trial->options, &env, &instance, diag);
	if (status != ESPL_OK) {
		/* Where a failure names no place, the line that named the plugin is it. */
		if (diag != NULL && diag->file[0] == '\0' && use != NULL && use->file != NULL) {
			(void)snprintf(diag->file, sizeof diag->file, "%s", use->file);
			diag->line = use->line;
		}
		return status;
	}
	if (s->space != NULL &&
	    ESPL_HAS(struct espl_trainable_ops,
		(const struct espl_trainable_ops *)(const void *)instance->ops, suits))
		status = try_samples(s, instance, diag);
	espl__instance_destroy(instance);
	return status;
}
