/* first_points.c - checks experiment.first, the user's own configurations: which of them is
 * invalid, and whether the search would try them all. */
#include <string.h>
#include <espalier/model.h>

#include "base/assert.h"
#include "base/mem.h"
#include "cli/inputs.h"
#include "plugin/registry.h"

espl_status
espl__inputs_first(const struct espl__inputs *s, struct espl__diag *diag)
{
	const struct espl__node *list = s->config->first;
	double *values;
	espl_status status = ESPL_OK;

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (list == NULL)
		return ESPL_OK;
	values = espl__alloc((espl__space_count(s->space) + (size_t)1) * sizeof *values);
	for (uint32_t i = 0; i < list->child_count && status == ESPL_OK; i++) {
		struct espl__diag why = ESPL__DIAG_INIT;

		status = espl__space_point(s->space, list->children[i], values, &why);
		if (status == ESPL_OK)
			continue;
		espl__fail_at(diag, status, why.file, why.line, "experiment.first (number %u): %s",
		    i + 1, why.text);
		if (why.hint[0] != '\0')
			espl__hint(diag, "%s", why.hint);
	}
	free(values);
	return status;
}

/* The value of the algorithm's option 'trials': the configurations that it makes, by the rule of
 * all algorithms; 0: no limit, or there is no such option. */
static uint64_t
option_trials(const struct espl__inputs *s)
{
	const struct espl__section *section = &s->config->algorithm;
	static const char *const known[] = { "use", NULL };
	const struct espl__plugin *plugin;
	struct espl__values *values = NULL;
	uint64_t trials = 0;

	/* The instance has already reported what is wrong. */
	if (espl__plugin_find(ESPL_ALGORITHM, section->use, &plugin, NULL) != ESPL_OK ||
	    espl__schema_resolve(plugin->desc->options, plugin->desc->option_count,
		plugin->desc->option_size, section->group, known, section->use, section->use,
		&values, NULL) != ESPL_OK)
		return 0;
	for (uint32_t i = 0; i < plugin->desc->option_count; i++) {
		const struct espl_option *o =
		    espl__option_at(plugin->desc->options, plugin->desc->option_size, i);

		if (strcmp(o->name, "trials") == 0 && o->type == ESPL_OPT_INT &&
		    values->config.values[i].as.i > 0)
			trials = (uint64_t)values->config.values[i].as.i;
	}
	espl__values_free(values);
	return trials;
}

/* Configurations that begin in the declared stages: the first ones of each bracket, and where a
 * stage is wider than the one before it. */
static uint64_t
spec_trials(const struct espl_spec *spec)
{
	uint64_t trials = 0;

	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		uint32_t before = 0;

		for (uint32_t i = 0; i < spec->brackets[b]->stage_count; i++) {
			uint32_t now = spec->brackets[b]->stages[i]->trials;

			trials += now > before ? now - before : 0;
			before = now;
		}
	}
	return trials;
}

espl_status
espl__inputs_first_fits(const struct espl__inputs *s, const struct espl_spec *spec,
    struct espl__diag *diag)
{
	const struct espl__node *list = s->config->first;
	/* the stages count the trials of each configuration */
	uint64_t trials = spec != NULL ? spec_trials(spec) / s->config->seeds : 0;
	const struct espl__node *at;

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (list == NULL)
		return ESPL_OK;
	if (trials == 0)
		trials = option_trials(s);
	if (trials == 0 || list->child_count <= trials)
		return ESPL_OK;
	at = list->children[trials];
	espl__fail_at(diag, ESPL_E_CONFIG, at->file, at->line,
	    "experiment.first lists %u configurations, but the algorithm runs only %llu trials",
	    list->child_count, (unsigned long long)trials);
	espl__hint(diag,
	    "increase the algorithm's number of trials, or remove some configurations");
	return ESPL_E_CONFIG;
}
