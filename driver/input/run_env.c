/* run_env.c - what a trial finds in its environment: trial.env, trial.env_from and trial.torchrun.
 */
#include <string.h>

#include "base/assert.h"
#include "base/variables.h"
#include "input/input.h"
#include "input/run_groups.h"

/* A variable of which only espalier may say what it is. `given`: where the name stands. */
static espl_status
check_name(const struct espl__trial_config *trial, const char *option, const char *name,
    const struct espl__node *given, struct espl__diag *diag)
{
	enum espl__variable kind = espl__variable_of(name);

	if (kind == ESPL__VARIABLE_PROTOCOL) {
		espl__fail_at(diag, ESPL_E_CONFIG, given->file, given->line,
		    "trial.%s: '%s' belongs to the trial protocol; espalier alone sets it", option,
		    name);
		espl__hint(diag, "docs/trial-protocol.md lists these names; use another one");
		return ESPL_E_CONFIG;
	}
	if (kind == ESPL__VARIABLE_TORCHRUN && trial->trainable != NULL) {
		espl__fail_at(diag, ESPL_E_CONFIG, given->file, given->line,
		    "trial.%s: '%s' is read by the worker of a trainable; espalier alone sets it",
		    option, name);
		espl__hint(diag, "it can be replaced where the trial is a command");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_env(const struct espl__trial_config *trial, struct espl__diag *diag)
{
	const struct espl__node *env = trial->env;

	if (env->type != ESPL__GROUP)
		return espl__fail_at(diag, ESPL_E_CONFIG, env->file, env->line,
		    "trial: 'env' must be a group of strings, not %s", espl__node_kind(env));
	for (uint32_t i = 0; i < env->child_count; i++) {
		const struct espl__node *value = env->children[i];

		if (check_name(trial, "env", value->name, value, diag) != ESPL_OK)
			return ESPL_E_CONFIG;
		if (value->type == ESPL__STRING || espl__env_removes(value))
			continue;
		espl__fail_at(diag, ESPL_E_CONFIG, value->file, value->line,
		    "trial.env: '%s' must be a string, not %s", value->name,
		    espl__node_kind(value));
		espl__hint(diag, "put the value in quotes; %s = ( ); removes the variable",
		    value->name);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_names(const struct espl__trial_config *trial, struct espl__diag *diag)
{
	const struct espl__node *names = trial->env_from;
	int good = names->type == ESPL__ARRAY || names->type == ESPL__LIST;

	for (uint32_t i = 0; i < names->child_count && good; i++)
		good = names->children[i]->type == ESPL__STRING &&
		    names->children[i]->text[0] != '\0' &&
		    strchr(names->children[i]->text, '=') == NULL;
	if (!good) {
		espl__fail_at(diag, ESPL_E_CONFIG, names->file, names->line,
		    "trial: 'env_from' must be an array of environment variable names");
		espl__hint(diag, "for example env_from = [ \"HF_TOKEN\" ];");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < names->child_count; i++) {
		const struct espl__node *name = names->children[i];

		if (check_name(trial, "env_from", name->text, name, diag) != ESPL_OK)
			return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

espl_status
espl__run_read_env(struct espl__trial_config *trial, const struct espl__node *group,
    struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	trial->env = espl__node_get(group, "env");
	trial->env_from = espl__node_get(group, "env_from");
	if (trial->env != NULL)
		status = read_env(trial, diag);
	if (status == ESPL_OK && trial->env_from != NULL)
		status = read_names(trial, diag);
	return status;
}

/* Ranks find one another by these variables: without them each would train alone. */
espl_status
espl__run_check_torchrun(const struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__trial_config *trial = &config->trial;
	const struct espl__values *values = config->trial_values;
	const char *file = values->files[TRIAL_TORCHRUN];
	uint32_t line = values->config.values[TRIAL_TORCHRUN].line;

	if (trial->torchrun != 0)
		return ESPL_OK;
	if (trial->trainable != NULL) {
		espl__fail_at(diag, ESPL_E_CONFIG, file, line,
		    "trial: torchrun = false is for commands; the worker of a trainable needs the "
		    "variables");
		espl__hint(diag, "remove it");
		return ESPL_E_CONFIG;
	}
	if (trial->command_count == 0 || !espl__run_may_have_ranks(config))
		return ESPL_OK;
	espl__fail_at(diag, ESPL_E_CONFIG, file, line,
	    "trial: torchrun = false, but a trial can have several ranks, which need these "
	    "variables");
	espl__hint(diag,
	    "set trial.gpus_max = 1, or let trial.env remove single ones: { LOCAL_RANK "
	    "= ( ); }");
	return ESPL_E_CONFIG;
}
