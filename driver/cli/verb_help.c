/* verb_help.c - help: about verbs, plugins and the groups of a configuration file, as text,
 * Markdown (docs/config.md is made here) or the source of a manual page. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "input/input.h"
#include "plugin/registry.h"

/* The commands by task; `first` of them are shown to those who ask for no more. */
struct task {
	const char *title;
	unsigned first;
	const char *verbs[12];
};
static const struct task tasks[] = {
	{ "Prepare a search", 5, { "init", "check", "profile", "plan", "simulate" } },
	{ "Run it", 5, { "run", "resume", "stop", "ask", "trial" } },
	{ "See what it does and found", 7,
	    { "status", "best", "explain", "report", "serve", "export", "list", "forecast" } },
	{ "Its machines", 1, { "nodes", "drain", "undrain" } },
	{ "A pool of searches", 0, { "submit", "queue", "cancel" } },
	{ "espalier itself", 2, { "plugins", "help", "check-plugin", "version" } },
};

static void
list_commands(int all, struct espl__buf *b)
{
	for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
		const struct task *t = &tasks[i];

		if (all || t->first > 0)
			espl__print(b, "%s%s\n", all && i == 0 ? "" : "\n", t->title);
		for (unsigned k = 0; t->verbs[k] != NULL && (all || k < t->first); k++)
			espl__print(b, "  %-14s %s\n", t->verbs[k],
			    espl__verb_find(t->verbs[k])->summary);
	}
}

void
espl__help_overview(struct espl__buf *b)
{
	espl__print(b,
	    "espalier - elastic hyperparameter tuning\n\n"
	    "usage: espalier COMMAND [ARGUMENTS]\n");
	list_commands(0, b);
	espl__print(b,
	    "\n"
	    "See `espalier help COMMAND` for details, `espalier help commands` for all commands, "
	    "and\n"
	    "`espalier help config` for the configuration file.\n"
	    "Exit status: 0 done, 1 the run failed, 2 usage or configuration error,\n"
	    "3 infeasible, 4 interrupted (can be resumed).\n");
}

static void
flags_text(const struct espl__flag *flag, struct espl__buf *b)
{
	char left[64];

	for (; flag != NULL && flag->name != NULL; flag++) {
		espl__help_flag(flag, left);
		espl__help_entry(left, flag->help, 2, 24, b);
	}
}

void
espl__help_flag(const struct espl__flag *flag, char to[64])
{
	char letter[8] = "    ";

	if (flag->letter != 0)
		(void)snprintf(letter, sizeof letter, "-%c, ", flag->letter);
	(void)snprintf(to, 64, "%s--%s%s%s", letter, flag->name, flag->value != NULL ? " " : "",
	    flag->value != NULL ? flag->value : "");
}

void
espl__help_verb(const struct espl__verb *verb, struct espl__buf *b)
{
	char *head = espl__format("espalier %s: %s", verb->name, verb->summary);
	int indent = (int)strlen(verb->name) + 17; /* "usage: espalier VERB " */

	espl__help_wrap(head, 0, 0, b);
	espl__print(b, "\nusage: espalier %s ", verb->name);
	espl__help_wrap(verb->usage, -1, indent, b);
	if (verb->usage[0] == '\0')
		b->size--;
	if (verb->text[0] != '\0') {
		espl__print(b, "\n");
		espl__help_wrap(verb->text, 0, 0, b);
	}
	espl__print(b, "\n");
	flags_text(verb->flags, b);
	flags_text(espl__flags_common, b);
	free(head);
}

/* ---- configuration --------------------------------------------------------------------------- */

static const struct espl__core_group *
core_group(const char *name)
{
	const struct espl__core_group *group;

	for (group = espl__core_groups(); group->name != NULL; group++) {
		if (strcmp(group->name, name) == 0)
			return group;
	}
	return NULL;
}

struct listing {
	struct espl__buf *b;
	enum espl__help_form form;
	espl_kind kind, only;
};

static void
list_plugin(void *ctx, const struct espl__plugin *plugin)
{
	struct listing *l = ctx;

	if (l->only != 0 && plugin->desc->kind != l->only)
		return;
	if (l->form == ESPL__HELP_TEXT || l->form == ESPL__HELP_ALL) {
		if (plugin->desc->kind != l->kind)
			espl__print(l->b, "%s%s\n", l->kind != 0 ? "\n" : "",
			    espl__kind_name(plugin->desc->kind));
		espl__help_entry(plugin->desc->name, plugin->desc->summary, 2, 20, l->b);
	} else {
		espl__plugin_help(plugin->desc, l->form, l->b);
	}
	l->kind = plugin->desc->kind;
}

/* What the reference pages hold: the plugins that every build has, so that the pages are the same
 * whatever libraries a machine has. */
static void
list_reference(void *ctx, const struct espl__plugin *plugin)
{
	if ((plugin->desc->caps & ESPL_CAP_EXAMPLE) == 0)
		list_plugin(ctx, plugin);
}

static void
config_text(struct espl__buf *b)
{
	const struct espl__core_group *group;
	struct listing l = { b, ESPL__HELP_TEXT, 0, 0 };

	espl__print(b,
	    "The configuration file uses libconfig syntax: groups of name = value;.  The groups "
	    "of\n"
	    "espalier itself (`espalier help GROUP` lists their options):\n\n");
	for (group = espl__core_groups(); group->name != NULL; group++)
		espl__help_entry(group->name, group->summary, 2, 20, b);
	espl__print(b,
	    "\n"
	    "The groups of the plugins selected with `use` (`espalier help KIND/NAME` lists "
	    "options):\n\n");
	espl__plugins_each(list_plugin, NULL, &l);
}

static void
config_markdown(struct espl__buf *b)
{
	const struct espl__core_group *group;
	struct listing l = { b, ESPL__HELP_MARKDOWN, 0, 0 };

	espl__print(b,
	    "# The configuration file, option by option\n\n"
	    "*For everyone who writes a configuration: every option of every group and plugin, "
	    "with its type, default and meaning.*\n\n"
	    "This page is generated by `espalier help --markdown config` from the tables with "
	    "which\n"
	    "espalier itself reads files. The syntax is that of libconfig: groups of `name = "
	    "value;`, a name with\n"
	    "other characters than letters, digits, `-` and `_` in double quotes; `#` "
	    "starts a comment, lists are written `( ... )`, arrays of one type `[ ... ]`. Spans "
	    "are\n"
	    "written `\"90s\"`, `\"1h30m\"`, `\"250ms\"`, sizes `\"64KiB\"`, `\"1.5GB\"` or in "
	    "bytes, all\n"
	    "other numbers without quotes; money is a number of US dollars. Latencies are a span, "
	    "or\n"
	    "`{ dist = \"normal\"; mean = \"15s\"; sd = \"2s\"; }` with `normal`, `lognormal` or "
	    "`empirical`\n"
	    "(`samples = [ ... ]`). Relative paths start at the directory of the file.\n"
	    "`--set PATH=VALUE` overrides a value, as in `--set algorithm.eta=4`.\n\n"
	    "## Groups of espalier\n\n");
	for (group = espl__core_groups(); group->name != NULL; group++) {
		espl__core_group_help(group, ESPL__HELP_MARKDOWN, b);
		espl__print(b, "\n");
	}
	espl__print(b,
	    "## Groups of the plugins\n\n"
	    "`algorithm`, `allocator`, `cloud` and `placer` each select a plugin with `use`; all "
	    "other\n"
	    "values in the group are options of that plugin. The options of a trainable go into\n"
	    "`trial.options`; `espalier help trainable/NAME` lists them.\n\n");
	espl__plugins_each(list_reference, NULL, &l);
	/* One newline at the end. */
	while (b->size > 1 && b->data[b->size - 1] == '\n' && b->data[b->size - 2] == '\n')
		b->size--;
}

static void
config_man(struct espl__buf *b)
{
	const struct espl__core_group *group;
	struct listing l = { b, ESPL__HELP_MAN, 0, 0 };

	espl__print(b,
	    ".\\\" Made by `espalier help --man config`.\n"
	    ".TH ESPALIER\\-CONFIG 5 \"\" espalier \"File formats\"\n"
	    ".SH NAME\n"
	    "espalier\\-config \\- the configuration file of espalier\n"
	    ".SH DESCRIPTION\n"
	    "The file's syntax is that of libconfig: groups of\n"
	    ".IR name = value ;\n"
	    "a\n"
	    ".B #\n"
	    "begins a comment, lists are written ( ... ), arrays of one type [ ... ].\n"
	    ".PP\n"
	    "Spans of time are written \"90s\", \"1h30m\" or \"250ms\", sizes \"64KiB\" or "
	    "\"1.5GB\", money as a\n"
	    "number of US dollars. A latency is a span, or { dist = \"normal\"; mean = \"15s\"; sd "
	    "= \"2s\"; }\n"
	    "with normal, lognormal or empirical (samples = [ ... ]). Relative paths start at the "
	    "directory\n"
	    "of the file. The option\n"
	    ".B \\-\\-set\n"
	    ".IR PATH = VALUE\n"
	    "overrides a value.\n"
	    ".SH EXAMPLE\n"
	    ".nf\n"
	    "experiment = { name = \"digits\"; metric = \"val_accuracy\"; goal = \"maximize\"; "
	    "deadline = \"20m\"; };\n"
	    "trial = { command = [ \"python3\", \"train.py\" ]; gpus_max = 4; };\n"
	    "space = {\n"
	    "  learning_rate = { type = \"real\"; low = 1e\\-4; high = 1e\\-1; scale = \"log\"; "
	    "};\n"
	    "  optimizer     = { type = \"choice\"; values = [ \"sgd\", \"adam\" ]; };\n"
	    "  momentum      = { type = \"real\"; low = 0.0; high = 0.99; when = { optimizer = "
	    "\"sgd\"; }; };\n"
	    "};\n"
	    "algorithm = { use = \"sha\"; trials = 27; iterations_max = 27; };\n"
	    "allocator = { use = \"fair\"; };\n"
	    "cloud     = { use = \"local\"; };\n"
	    ".fi\n"
	    ".SH GROUPS OF ESPALIER ITSELF\n");
	for (group = espl__core_groups(); group->name != NULL; group++)
		espl__core_group_help(group, ESPL__HELP_MAN, b);
	espl__print(b,
	    ".SH GROUPS OF THE PLUGINS\n"
	    "The groups algorithm, allocator, cloud and placer each select a plugin with\n"
	    ".BR use ;\n"
	    "all other values in the group are options of that plugin. The options of a trainable "
	    "go into\n"
	    ".BR trial.options ;\n"
	    ".B \"espalier help trainable/\\fINAME\\fP\"\n"
	    "lists them.\n");
	espl__plugins_each(list_reference, NULL, &l);
	espl__print(b, ".SH SEE ALSO\n.BR espalier (1),\n.BR espalier\\-plugin (7)\n");
}

static void
kind_list(espl_kind kind, enum espl__help_form form, struct espl__buf *b)
{
	struct listing l = { b, form, 0, kind };

	espl__plugins_each(list_plugin, NULL, &l);
	if (l.kind == 0)
		espl__print(b, "There is no %s plugin.\n", espl__kind_name(kind));
}

/* ---- the verb -------------------------------------------------------------------------------- */

static espl_status
plugin_topic(const char *topic, enum espl__help_form form, struct espl__buf *b,
    struct espl__diag *diag)
{
	const char *slash = strchr(topic, '/');
	char name[32];
	espl_kind kind;
	const struct espl__plugin *plugin;
	espl_status status;

	(void)snprintf(name, sizeof name, "%.*s", (int)(slash - topic), topic);
	kind = espl__kind_find(name);
	if (kind == 0) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a plugin kind", name);
		espl__hint(diag,
		    "the kinds are algorithm, allocator, cloud, placer, trainable and sampler");
		return ESPL_E_CONFIG;
	}
	status = espl__plugin_find(kind, slash + 1, &plugin, diag);
	if (status == ESPL_OK)
		espl__plugin_help(plugin->desc, form, b);
	return status;
}

/* All that help is about, by name or by how the name begins. */
struct topics {
	const char *word;
	size_t length;
	const struct espl__plugin *plugin;
	const char *name;
	uint32_t count;
	struct espl__buf list;
};

static int
matches_topic(const struct topics *t, const char *name)
{
	return t->length > 0 ? strncmp(name, t->word, t->length) == 0
			     : espl__plugin_name_equal(name, t->word);
}

static void
add_topic(struct topics *t, const char *kind, const char *name)
{
	if (!matches_topic(t, name))
		return;
	t->name = name;
	espl__print(&t->list, "%s%s%s%s", t->count++ > 0 ? ", " : "", kind,
	    kind[0] != '\0' ? "/" : "", name);
}

static void
add_plugin(void *ctx, const struct espl__plugin *plugin)
{
	struct topics *t = ctx;
	uint32_t before = t->count;

	add_topic(t, espl__kind_name(plugin->desc->kind), plugin->desc->name);
	if (t->count > before)
		t->plugin = plugin;
}

static void
find_topics(struct topics *t)
{
	const struct espl__core_group *group;

	t->plugin = NULL;
	t->name = NULL;
	t->count = 0;
	espl__buf_clear(&t->list);
	for (const struct espl__verb *verb = espl__verbs; t->length > 0 && verb->name != NULL;
	     verb++)
		add_topic(t, "", verb->name);
	for (group = espl__core_groups(); t->length > 0 && group->name != NULL; group++)
		add_topic(t, "", group->name);
	espl__plugins_each(add_plugin, NULL, t);
}

static espl_status
unknown_topic(const char *topic, struct topics *found, struct espl__diag *diag)
{
	const struct espl__core_group *group;
	const char *names[64], *near;
	size_t count = 0;
	espl_kind kind;

	for (; espl__verbs[count].name != NULL; count++)
		names[count] = espl__verbs[count].name;
	for (group = espl__core_groups(); group->name != NULL && count < 56; group++)
		names[count++] = group->name;
	for (kind = ESPL_ALGORITHM; kind <= ESPL_SAMPLER; kind++)
		names[count++] = espl__kind_name(kind);
	near = espl__nearest(topic, names, count);
	(void)espl__fail(diag, ESPL_E_CONFIG, "no help found for '%s'", topic);
	if (found->count > 1)
		espl__hint(diag, "did you mean one of these? %.400s", espl__buf_text(&found->list));
	else if (near != NULL)
		espl__hint(diag, "did you mean '%s'?", near);
	else
		espl__hint(diag,
		    "`espalier help -k %.60s` finds it in the text of all help; else give a "
		    "command, "
		    "a plugin as KIND/NAME, a group or an option",
		    topic);
	return ESPL_E_CONFIG;
}

/* Neither a command nor a group: a plugin's name without its kind, or a unique prefix. */
static espl_status
other_topic(const char *topic, enum espl__help_form form, struct espl__buf *b,
    struct espl__diag *diag)
{
	struct topics found = { .word = topic };
	espl_status status = ESPL_OK;

	find_topics(&found);
	if (found.count == 0) {
		found.length = strlen(topic);
		find_topics(&found);
	}
	if (found.count != 1 && espl__help_find(topic, 1, b) > 0)
		; /* an option */
	else if (found.count != 1)
		status = unknown_topic(topic, &found, diag);
	else if (found.plugin != NULL)
		espl__plugin_help(found.plugin->desc, form, b);
	else if (espl__verb_find(found.name) != NULL)
		espl__help_verb(espl__verb_find(found.name), b);
	else
		espl__core_group_help(core_group(found.name), form, b);
	espl__buf_free(&found.list);
	return status;
}

/* "trial" is a command and a group of the configuration. */
static void
verb_topic(const char *topic, enum espl__help_form form, struct espl__buf *b)
{
	espl__help_verb(espl__verb_find(topic), b);
	if (core_group(topic) == NULL)
		return;
	espl__print(b, "\n");
	espl__core_group_help(core_group(topic), form, b);
}

int
espl__verb_help(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	const char *topic = args->positional[0], *shell = espl__arg(args, "completion");
	int markdown = espl__arg(args, "markdown") != NULL, man = espl__arg(args, "man") != NULL;
	enum espl__help_form form = markdown ? ESPL__HELP_MARKDOWN
	    : man                            ? ESPL__HELP_MAN
	    : espl__arg(args, "all") != NULL ? ESPL__HELP_ALL
					     : ESPL__HELP_TEXT;
	espl_status status = ESPL_OK;
	int result;

	if (espl__arg(args, "keyword") != NULL) {
		const char *word = espl__arg(args, "keyword");

		if (word[0] == '\0' || espl__help_find(word, 0, &b) == 0) {
			status = espl__fail(&diag, ESPL_E_CONFIG, "no help mentions '%s'", word);
			espl__hint(&diag, "docs/README.md lists the pages; try a shorter word");
		}
		result = status == ESPL_OK ? espl__cli_print(&b) : espl__cli_fail(&diag);
		espl__buf_free(&b);
		return result;
	}
	if (topic == NULL && (markdown || man))
		topic = "config";
	if (shell != NULL)
		status = espl__help_completion(shell, &b, &diag);
	else if (man && strcmp(topic, "espalier") == 0)
		espl__help_man_page(&b);
	else if (topic == NULL)
		espl__help_overview(&b);
	else if (espl__verb_find(topic) != NULL && !markdown && !man)
		verb_topic(topic, form, &b);
	else if (strcmp(topic, "commands") == 0)
		list_commands(1, &b);
	else if (strcmp(topic, "config") == 0)
		(markdown ? config_markdown : man ? config_man : config_text)(&b);
	else if (strchr(topic, '/') != NULL)
		status = plugin_topic(topic, form, &b, &diag);
	else if (core_group(topic) == NULL && espl__kind_find(topic) == 0)
		status = other_topic(topic, form, &b, &diag);
	else { /* "cloud" is both */
		if (espl__kind_find(topic) != 0)
			kind_list(espl__kind_find(topic), form, &b);
		if (core_group(topic) != NULL)
			espl__core_group_help(core_group(topic), form, &b);
	}
	result = status == ESPL_OK ? espl__cli_print(&b) : espl__cli_fail(&diag);
	espl__buf_free(&b);
	return result;
}
