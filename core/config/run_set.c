/* run_set.c - applies --set, removes values for check, and recognizes files that are not a
 * configuration. */
#include <string.h>

#include "config/run.h"

/* What is wrong with its first settings may be that it is another kind of file. */
void
espl__run_say_format(const char *path, struct espl__diag *diag)
{
	const char *end = strrchr(path, '.');
	size_t used = strlen(diag->hint);

	if (end == NULL || strcmp(end, ".cfg") == 0 || strcmp(end, ".conf") == 0)
		return;
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
