/* option_secrets.c - secrets that an option refers to: "env:NAME" and "file:PATH".
 *
 * run.cfg keeps a reference, never a secret: a run whose driver was killed can be resumed, and its
 * machines can be listed and released, with nothing but its directory.  What was written in the
 * configuration itself is not kept; run.cfg then holds ESPL__SECRET_OMITTED in its place, and
 * `--set` gives it again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "plugin/instance.h"

#define SECRET_LIMIT ((size_t)65536)

/* Where the blame lies: the option, and the line that sets it. */
struct place {
	const struct espl__instance *instance;
	const struct espl_option *option;
	uint32_t index, line;
};

static espl_status
refuse_secret(const struct place *at, struct espl__diag *diag, const char *text, const char *hint)
{
	espl__fail_at(diag, ESPL_E_CONFIG, at->instance->values->files[at->index], at->line,
	    "%s: '%s' %s", at->instance->who, at->option->name, text);
	espl__hint(diag, "%s", hint);
	return ESPL_E_CONFIG;
}

static espl_status
refuse_omitted(const struct place *at, struct espl__diag *diag)
{
	char hint[300];

	(void)snprintf(hint, sizeof hint,
	    "pass it again: --set '%s.%s=\"...\"'; a configuration that refers to it as "
	    "\"env:NAME\" or \"file:PATH\" makes that unnecessary",
	    espl__kind_name(at->instance->plugin->desc->kind), at->option->name);
	return refuse_secret(at, diag, "is a secret, which a run directory does not store", hint);
}

static espl_status
read_variable(const struct place *at, const char *name, struct espl__buf *to,
    struct espl__diag *diag)
{
	const char *value = getenv(name);
	char text[200], hint[200];

	if (value != NULL && value[0] != '\0') {
		espl__put(to, value, strlen(value));
		return ESPL_OK;
	}
	(void)snprintf(text, sizeof text,
	    "refers to the environment variable '%.100s', which is %s", name,
	    value == NULL ? "not set" : "empty");
	(void)snprintf(hint, sizeof hint, "export %.100s with the secret as its value", name);
	return refuse_secret(at, diag, text, hint);
}

static espl_status
read_secret_file(const struct place *at, const char *path, struct espl__buf *to,
    struct espl__diag *diag)
{
	const char *dir = at->instance->env->directory;
	struct espl__diag inner = ESPL__DIAG_INIT;
	char *full, *text;
	espl_status status;

	full = path[0] == '/' || dir == NULL || dir[0] == '\0' ? espl__strdup(path)
							       : espl__format("%s/%s", dir, path);
	status = espl__file_read(full, SECRET_LIMIT, to, &inner);
	while (status == ESPL_OK && to->size > 0 &&
	    (to->data[to->size - 1] == '\n' || to->data[to->size - 1] == '\r'))
		to->size--;
	if (status != ESPL_OK || to->size == 0) {
		text = espl__format("refers to the file '%s': %s", full,
		    status != ESPL_OK ? inner.text : "it is empty");
		status = refuse_secret(at, diag, text,
		    "relative paths start at the directory of the configuration file");
		free(text);
	}
	free(full);
	return status;
}

int
espl__secret_is_reference(const char *text)
{
	return strncmp(text, "env:", 4) == 0 || strncmp(text, "file:", 5) == 0;
}

espl_status
espl__secrets_read(struct espl__instance *instance, struct espl__diag *diag)
{
	struct espl__values *values = instance->values;
	espl_status status = ESPL_OK;

	ESPL__CHECK(instance, INSTANCE);
	for (uint32_t i = 0; i < values->config.count && status == ESPL_OK; i++) {
		const struct espl_value *value = &values->config.values[i];
		struct place at = { .instance = instance,
			.option = espl__option_at(values->options, values->option_size, i),
			.index = i,
			.line = value->line };
		struct espl__buf secret = { NULL, 0, 0 };

		if ((at.option->flags & ESPL_OPT_SECRET) == 0 ||
		    at.option->type != ESPL_OPT_STRING || value->source == ESPL_UNSET)
			continue;
		if (strcmp(value->as.s, ESPL__SECRET_OMITTED) == 0) {
			status = refuse_omitted(&at, diag);
			continue;
		}
		if (!espl__secret_is_reference(value->as.s))
			continue;
		status = strncmp(value->as.s, "env:", 4) == 0
		    ? read_variable(&at, value->as.s + 4, &secret, diag)
		    : read_secret_file(&at, value->as.s + 5, &secret, diag);
		if (status == ESPL_OK && memchr(secret.data, '\0', secret.size) != NULL)
			status = refuse_secret(&at, diag, "refers to a value with a NUL byte",
			    "a secret is text");
		if (status == ESPL_OK)
			espl__values_replace(values, i, espl__buf_text(&secret));
		espl__buf_free(&secret);
	}
	return status;
}
