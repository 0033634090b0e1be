/* run_set.c - applies --set, removes values for check, resolves paths and checks names, and
 * recognizes files that are not a configuration. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "input/input.h"
#include "input/run_groups.h"

/* Errors in its first settings may mean that it is a file of another kind. */
void
espl__run_say_format(const char *path, struct espl__diag *diag)
{
	const char *end = strrchr(path, '.');
	size_t used = strlen(diag->hint);

	if (end == NULL || strcmp(end, ".cfg") == 0 || strcmp(end, ".conf") == 0)
		return;
	if (strcmp(end, ".py") == 0) {
		(void)snprintf(diag->hint, sizeof diag->hint,
		    "this is a script; `espalier init %.200s -o search.cfg` writes a configuration "
		    "for it",
		    path);
		return;
	}
	(void)snprintf(diag->hint + used, sizeof diag->hint - used,
	    used > 0 ? " (a configuration is a libconfig file: see `espalier help config`)"
		     : "a configuration is a libconfig file: see `espalier help config`");
}

espl_status
espl__run_set(struct espl__tree *tree, const char *text, struct espl__diag *diag)
{
	size_t length = strlen(ESPL__RUN_WITHOUT);
	char group[64], *dot;

	if (strncmp(text, ESPL__RUN_WITHOUT, length) != 0)
		return espl__tree_set(tree, text, diag);
	(void)snprintf(group, sizeof group, "%s", text + length);
	dot = strchr(group, '.');
	if (dot != NULL)
		*dot = '\0';
	espl__tree_drop(tree, dot != NULL ? group : NULL, dot != NULL ? dot + 1 : group);
	return ESPL_OK;
}

/* `espalier init` writes this word for what it cannot know. */
static const char mark[] = "CHANGE-ME";

espl_status
espl__run_refuse_marks(const struct espl__node *node, const char *path, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (node->type == ESPL__STRING && strstr(node->text, mark) != NULL) {
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: %s stands for what is to be filled in", path, mark);
		espl__hint(diag, "replace it; the comments in the file say with what");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < node->child_count && status == ESPL_OK; i++) {
		const struct espl__node *child = node->children[i];
		char *full =
		    espl__format("%s%s%s", path, path[0] != '\0' && child->name != NULL ? "." : "",
			child->name != NULL ? child->name : "");

		status = espl__run_refuse_marks(child, full, diag);
		free(full);
	}
	return status;
}

char *
espl__run_path(const struct espl__run_config *config, const char *path)
{
	ESPL__CHECK(config, RUN_CONFIG);
	if (path[0] == '/')
		return espl__strdup(path);
	return espl__format("%s/%s", config->directory, path);
}

espl_status
espl__run_check_name(const struct espl__values *values, uint32_t option, const char *who,
    struct espl__diag *diag)
{
	const char *name = values->config.values[option].as.s;
	espl_status status = ESPL_OK;

	ESPL__CHECK(values, VALUES);
	if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL || strlen(name) > 128) {
		status = espl__fail_at(diag, ESPL_E_CONFIG, values->files[option],
		    values->config.values[option].line, "%s: 'name' must be a valid directory name",
		    who);
		espl__hint(diag, "use at most 128 bytes, no '/' and no leading dot");
	}
	for (const char *c = name; status == ESPL_OK && *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			status = espl__fail_at(diag, ESPL_E_CONFIG, values->files[option],
			    values->config.values[option].line,
			    "%s: 'name' contains a control character", who);
	return status;
}
