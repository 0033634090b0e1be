/* session_env.c - the environment of trials: what must be set, and what looks like a secret. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "cli/session.h"

static espl_status
check_names(const struct espl__node *names, struct espl__diag *diag)
{
	for (uint32_t i = 0; names != NULL && i < names->child_count; i++) {
		const struct espl__node *name = names->children[i];

		if (getenv(name->text) != NULL)
			continue;
		espl__fail_at(diag, ESPL_E_CONFIG, name->file, name->line,
		    "trial.env_from: '%s' is not set in this environment", name->text);
		espl__hint(diag, "export %s, or remove the name", name->text);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

espl_status
espl__session_env(const struct espl__session *s, struct espl__diag *diag)
{
	espl_status status = check_names(s->config->trial.env_from, diag);

	for (uint32_t i = 0; i < s->entry_count && status == ESPL_OK; i++)
		status = check_names(s->entries[i].config->trial.env_from, diag);
	return status;
}

/* A name's last word says what the value is: MAX_TOKENS is a number, AUTHOR a name. */
static int
ends_in(const char *name, const char *word)
{
	size_t size = strlen(name), length = strlen(word);

	return size >= length && strcasecmp(name + size - length, word) == 0 &&
	    (size == length || name[size - length - 1] == '_');
}

/* By its name, or by how keys of well-known services begin. */
static int
looks_secret(const struct espl__node *value)
{
	static const char *const names[] = { "TOKEN", "SECRET", "PASSWORD", "PGPASSWORD", "PASSWD",
		"PWD", "PASSPHRASE", "KEY", "APIKEY", "CREDENTIAL", "CREDENTIALS", "AUTH" };
	static const char *const values[] = { "AKIA", "ghp_", "github_pat_", "glpat-", "hf_", "sk-",
		"xox", "-----BEGIN" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (ends_in(value->name, names[i]) &&
		    strcmp(value->name, "PWD") != 0) /* the shell's own */
			return 1;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		if (strncmp(value->text, values[i], strlen(values[i])) == 0)
			return 1;
	return 0;
}

void
espl__session_env_tell(const struct espl__session *s)
{
	const struct espl__node *env = s->config->trial.env;

	for (uint32_t i = 0; env != NULL && i < env->child_count; i++)
		if (looks_secret(env->children[i]))
			espl__log(ESPL_WARN,
			    "trial.env.%s looks like a secret, but its value is stored in the run "
			    "directory; use `env_from = [ \"%s\" ]` to take it from the "
			    "environment without storing it",
			    env->children[i]->name, env->children[i]->name);
	for (uint32_t i = 0; i < s->entry_count; i++)
		espl__session_env_tell(&s->entries[i]);
}
