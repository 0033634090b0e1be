/* help.c - a plugin's descriptor as text: name, what it is for, its options, how to use it. */
#include "input/input.h"

#include "plugin/registry.h"

/* The group that holds the plugin's options in a configuration. */
static void
print_example(const struct espl_plugin *plugin, struct espl__buf *buf)
{
	if (plugin->kind == ESPL_TRAINABLE)
		espl__print(buf, "trial = { trainable = \"%s\";%s };", plugin->name,
		    plugin->option_count > 0 ? " options = { ... };" : "");
	else
		espl__print(buf, "%s = { use = \"%s\";%s };", espl__kind_name(plugin->kind),
		    plugin->name, plugin->option_count > 0 ? " ..." : "");
}

static void
help_text(const struct espl_plugin *plugin, enum espl__help_form form, struct espl__buf *buf)
{
	espl__print(buf, "%s '%s' %s\n  %s\n\n  ", espl__kind_name(plugin->kind), plugin->name,
	    plugin->version, plugin->summary);
	print_example(plugin, buf);
	espl__print(buf, plugin->option_count > 0 ? "\n\nOptions:\n" : "\n\nIt has no options.\n");
	espl__schema_help(plugin->options, plugin->option_count, plugin->option_size, form, buf);
}

static void
help_markdown(const struct espl_plugin *plugin, struct espl__buf *buf)
{
	espl__print(buf, "### %s `%s`\n\n%s\n\n`", espl__kind_name(plugin->kind), plugin->name,
	    plugin->summary);
	print_example(plugin, buf);
	espl__print(buf, "`\n\n");
	if (plugin->option_count == 0) {
		espl__print(buf, "It has no options.\n\n");
		return;
	}
	espl__print(buf, "| option | value | meaning |\n| --- | --- | --- |\n");
	espl__schema_help(plugin->options, plugin->option_count, plugin->option_size,
	    ESPL__HELP_MARKDOWN, buf);
	espl__print(buf, "\n");
}

static void
help_man(const struct espl_plugin *plugin, struct espl__buf *buf)
{
	espl__print(buf, ".SS %s %s\n%s\n.PP\n.nf\n", espl__kind_name(plugin->kind), plugin->name,
	    plugin->summary);
	print_example(plugin, buf);
	espl__print(buf, "\n.fi\n");
	if (plugin->option_count == 0)
		espl__print(buf, ".PP\nIt has no options.\n");
	espl__schema_help(plugin->options, plugin->option_count, plugin->option_size,
	    ESPL__HELP_MAN, buf);
}

void
espl__plugin_help(const struct espl_plugin *plugin, enum espl__help_form form,
    struct espl__buf *buf)
{
	if (form == ESPL__HELP_MARKDOWN)
		help_markdown(plugin, buf);
	else if (form == ESPL__HELP_MAN)
		help_man(plugin, buf);
	else
		help_text(plugin, form, buf);
}
