/* secret_sets.c - `--set` on an existing run: it gives again the secrets that a run directory does
 * not store, and changes nothing else.
 */
#include <string.h>

#include "base/log.h"
#include "cli/inputs.h"
#include "plugin/instance.h"
#include "plugin/registry.h"

/* Is this option of the run's cloud a secret?  `name` is followed by "=VALUE". */
static int
is_secret(const struct espl_plugin *desc, const char *name)
{
	size_t length = strcspn(name, "=");

	for (uint32_t i = 0; i < desc->option_count; i++) {
		const struct espl_option *option =
		    espl__option_at(desc->options, desc->option_size, i);

		if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
			return (option->flags & ESPL_OPT_SECRET) != 0;
	}
	return 0;
}

void
espl__inputs_secret_report(const struct espl__inputs *s)
{
	const struct espl__node *group = s->config->cloud.group;
	const struct espl__plugin *plugin;

	if (espl__plugin_find(ESPL_CLOUD, s->config->cloud.use, &plugin, NULL) != ESPL_OK)
		return;
	for (uint32_t i = 0; i < plugin->desc->option_count; i++) {
		const struct espl_option *option =
		    espl__option_at(plugin->desc->options, plugin->desc->option_size, i);
		const struct espl__node *node = espl__node_get(group, option->name);

		if ((option->flags & ESPL_OPT_SECRET) != 0 && node != NULL && node->text != NULL &&
		    !espl__secret_is_reference(node->text))
			espl__log(ESPL_WARN,
			    "cloud.%s is a secret that the run directory does not store: `espalier "
			    "resume` and `espalier nodes` will need --set cloud.%s=VALUE; refer to "
			    "it as \"env:NAME\" or \"file:PATH\" instead",
			    option->name, option->name);
	}
}

espl_status
espl__inputs_secret_sets(const struct espl__run_config *config, const char *const *sets,
    uint32_t count, struct espl__diag *diag)
{
	const struct espl__plugin *plugin;
	espl_status status;

	if (count == 0)
		return ESPL_OK;
	status = espl__plugin_find(ESPL_CLOUD, config->cloud.use, &plugin, diag);
	if (status != ESPL_OK)
		return status;
	for (uint32_t i = 0; i < count; i++) {
		if (strncmp(sets[i], "cloud.", 6) == 0 && is_secret(plugin->desc, sets[i] + 6))
			continue;
		(void)espl__fail(diag, ESPL_E_CONFIG,
		    "--set %.*s: a run keeps its configuration; only a secret of its cloud can be "
		    "given again",
		    (int)strcspn(sets[i], "="), sets[i]);
		espl__hint(diag,
		    "to build on its results, start a new run with experiment.warm_start = { from "
		    "= \"DIR\"; };");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}
