/* run_env.c - trial.env and trial.env_from: what is added to the environment of ranks. */
#include <string.h>

#include "input/run_groups.h"

static espl_status
refuse_variable(const struct espl__node *at, struct espl__diag *diag, const char *why,
    const char *name, const char *kind)
{
	return espl__fail_at(diag, ESPL_E_CONFIG, at->file, at->line, why, name, kind);
}

static espl_status
read_env(const struct espl__node *env, struct espl__diag *diag)
{
	if (env->type != ESPL__GROUP)
		return refuse_variable(env, diag, "trial: '%s' must be a group of strings, not %s",
		    "env", espl__node_kind(env));
	for (uint32_t i = 0; i < env->child_count; i++) {
		const struct espl__node *value = env->children[i];

		if (value->type == ESPL__STRING)
			continue;
		refuse_variable(value, diag, "trial.env: '%s' must be a string, not %s",
		    value->name, espl__node_kind(value));
		espl__hint(diag, "put the value in quotes");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_names(const struct espl__node *names, struct espl__diag *diag)
{
	int good = names->type == ESPL__ARRAY || names->type == ESPL__LIST;

	for (uint32_t i = 0; i < names->child_count && good; i++)
		good = names->children[i]->type == ESPL__STRING &&
		    names->children[i]->text[0] != '\0' &&
		    strchr(names->children[i]->text, '=') == NULL;
	if (good)
		return ESPL_OK;
	refuse_variable(names, diag, "trial: '%s' must be an array of environment variable names%s",
	    "env_from", "");
	espl__hint(diag, "for example env_from = [ \"HF_TOKEN\" ];");
	return ESPL_E_CONFIG;
}

espl_status
espl__run_read_env(struct espl__trial_config *trial, const struct espl__node *group,
    struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	trial->env = espl__node_get(group, "env");
	trial->env_from = espl__node_get(group, "env_from");
	if (trial->env != NULL)
		status = read_env(trial->env, diag);
	if (status == ESPL_OK && trial->env_from != NULL)
		status = read_names(trial->env_from, diag);
	return status;
}
