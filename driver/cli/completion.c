/* completion.c - completion of the command line for bash, zsh and fish, made of the tables of
 * commands and options.
 *
 * Committed as docs/espalier.bash, .zsh and .fish; tests/runs/11-completion.test compares and tries
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "config/schema.h"
#include "input/input.h"
#include "plugin/registry.h"

/* What completes a value. */
enum fill { FILL_NOTHING, FILL_FILES, FILL_FOLDERS, FILL_CHOICES, FILL_SETTINGS, FILL_TOPICS };

static enum fill
fill_value(const char *value)
{
	static const char *const files[] = { "FILE", "OUT", "LOG", "RUN", "PROFILE.json" };
	size_t i;

	if (strcmp(value, "DIR") == 0)
		return FILL_FOLDERS;
	if (strcmp(value, "PATH=VALUE") == 0)
		return FILL_SETTINGS;
	if (value[strspn(value, "abcdefghijklmnopqrstuvwxyz|-")] == '\0')
		return FILL_CHOICES;
	for (i = 0; i < sizeof files / sizeof *files; i++) {
		if (strncmp(value, files[i], strlen(files[i])) == 0)
			return FILL_FILES;
	}
	return FILL_NOTHING;
}

/* Of the words after a command, by the first in its usage. */
static enum fill
fill_verb(const struct espl__verb *verb)
{
	const char *first = verb->usage + (verb->usage[0] == '[');

	if (verb->most == 0)
		return FILL_NOTHING;
	if (strcmp(verb->name, "help") == 0)
		return FILL_TOPICS;
	if (strstr(first, "DIR") != NULL && strstr(first, "DIR") < first + strcspn(first, " |]") &&
	    strstr(first, "DIR FILE") == NULL)
		return FILL_FOLDERS;
	return FILL_FILES;
}

/* The flags of a verb, then those of all verbs; NULL after the last. */
static const struct espl__flag *
flag_at(const struct espl__verb *verb, size_t i)
{
	const struct espl__flag *flag;

	for (flag = verb->flags; flag != NULL && flag->name != NULL; flag++) {
		if (i-- == 0)
			return flag;
	}
	for (flag = espl__flags_common; flag->name != NULL; flag++) {
		if (i-- == 0)
			return flag;
	}
	return NULL;
}

static void
put_choices(const char *value, struct espl__buf *b)
{
	for (; *value != '\0'; value++)
		espl__print(b, "%c", *value == '|' ? ' ' : *value);
}

/* Text for a string in single quotes; `special` characters get a backslash. */
static void
put_text(const char *text, const char *special, const char *quote, struct espl__buf *b)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			espl__print(b, "%s", quote);
		else
			espl__print(b, strchr(special, *text) != NULL ? "\\%c" : "%c", *text);
	}
}

/* ---- what configurations and help know ------------------------------------------------------- */

/* One line per group: its options as words "GROUP.NAME=", each once. */
struct settings {
	struct espl__buf *b;
	espl_kind kind;
	size_t from; /* where the line begins */
	const char *begin, *end;
};

static void
add_setting(struct settings *s, const char *group, const char *name)
{
	char *word = espl__format(" %s.%s= ", group, name);

	espl__print(s->b, " ");
	if (strstr(espl__buf_text(s->b) + s->from, word) == NULL)
		espl__print(s->b, "%s", word + 1);
	s->b->size--;
	free(word);
}

static void
add_plugin(void *ctx, const struct espl__plugin *plugin)
{
	struct settings *s = ctx;
	const struct espl_plugin *desc = plugin->desc;
	const char *group = desc->kind == ESPL_TRAINABLE ? "trial.options"
	    : desc->kind == ESPL_SAMPLER                 ? "algorithm.sampler"
							 : espl__kind_name(desc->kind);
	const struct espl_option *option;
	uint32_t i;

	if ((desc->caps & ESPL_CAP_EXAMPLE) != 0)
		return;
	if (desc->kind != s->kind) {
		espl__print(s->b, "%s%s", s->kind != 0 ? s->end : "", s->begin);
		s->from = s->b->size;
		add_setting(s, desc->kind == ESPL_TRAINABLE ? "trial" : group,
		    desc->kind == ESPL_TRAINABLE ? "trainable" : "use");
	}
	s->kind = desc->kind;
	for (i = 0; i < desc->option_count; i++) {
		option = (const struct espl_option *)((const char *)desc->options +
		    (size_t)i * desc->option_size);
		add_setting(s, group, option->name);
	}
}

static void
put_settings(const char *begin, const char *end, struct espl__buf *b)
{
	struct settings s = { b, 0, 0, begin, end };
	const struct espl__core_group *group;
	uint32_t i;

	for (group = espl__core_groups(); group->name != NULL; group++) {
		if (group->count + group->member_count == 0)
			continue;
		espl__print(b, "%s", begin);
		s.from = b->size;
		for (i = 0; i < group->count; i++)
			add_setting(&s, group->name, group->options[i].name);
		for (i = 0; i < group->member_count; i++)
			add_setting(&s, group->name, group->members[i].name);
		espl__print(b, "%s", end);
	}
	espl__plugins_each(add_plugin, NULL, &s);
	if (s.kind != 0)
		espl__print(b, "%s", end);
}

/* The topics of `help`; plugins can change, so the scripts query them. */
static void
put_topics(struct espl__buf *b)
{
	const struct espl__verb *verb;
	const struct espl__core_group *group;

	espl__print(b, "config espalier");
	for (verb = espl__verbs; verb->name != NULL; verb++)
		espl__print(b, " %s", verb->name);
	for (group = espl__core_groups(); group->name != NULL; group++)
		espl__print(b, " %s", group->name);
}
#define LIST_PLUGINS "espalier plugins 2>/dev/null | awk 'NF > 2 { print $1 \"/\" $2 }'"

/* ---- bash ------------------------------------------------------------------------------------ */

static void
put_bash_fill(enum fill fill, const char *value, struct espl__buf *b)
{
	switch (fill) {
	case FILL_FILES: espl__print(b, "kind=-f"); break;
	case FILL_FOLDERS: espl__print(b, "kind=-d"); break;
	case FILL_SETTINGS: espl__print(b, "kind=settings"); break;
	case FILL_TOPICS: espl__print(b, "kind=topics"); break;
	case FILL_CHOICES:
		espl__print(b, "kind=-W words='");
		put_choices(value, b);
		espl__print(b, "'");
		break;
	case FILL_NOTHING: espl__print(b, "kind="); break;
	}
	espl__print(b, " ;;\n");
}

static void
put_bash_verb(const struct espl__verb *verb, struct espl__buf *b)
{
	const struct espl__flag *flag;
	size_t i;

	espl__print(b, "\t%s:-*) kind=-W words='", verb->name);
	for (i = 0; (flag = flag_at(verb, i)) != NULL; i++)
		espl__print(b, "--%s ", flag->name);
	b->size--;
	espl__print(b, "' ;;\n\t%s:*) ", verb->name);
	put_bash_fill(fill_verb(verb), NULL, b);
}

static void
put_bash(struct espl__buf *b)
{
	const struct espl__verb *verb;
	const struct espl__flag *flag;
	size_t i;

	espl__print(b,
	    "_espalier() {\n"
	    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	    "\tlocal verb=${COMP_WORDS[1]} kind='' words=''\n"
	    "\t# bash makes three words of --NAME=VALUE.\n"
	    "\tif [ \"$prev\" = '=' ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	    "\tif [ \"$cur\" = '=' ]; then cur=''; fi\n"
	    "\tif [ \"$COMP_CWORD\" -eq 1 ]; then verb=''; fi\n"
	    "\tcase $verb:$cur in\n\t:*) kind=-W words='");
	for (verb = espl__verbs; verb->name != NULL; verb++)
		espl__print(b, "%s ", verb->name);
	espl__print(b, "--help --version' ;;\n");
	for (verb = espl__verbs; verb->name != NULL; verb++)
		put_bash_verb(verb, b);
	espl__print(b, "\tesac\n\tcase $verb:$prev in\n");
	for (verb = espl__verbs; verb->name != NULL; verb++) {
		for (i = 0; (flag = flag_at(verb, i)) != NULL; i++) {
			if (flag->value == NULL)
				continue;
			espl__print(b, "\t%s:--%s", verb->name, flag->name);
			if (flag->letter != 0)
				espl__print(b, "|%s:-%c", verb->name, flag->letter);
			espl__print(b, ") ");
			put_bash_fill(fill_value(flag->value), flag->value, b);
		}
	}
	espl__print(b,
	    "\tesac\n\tcase $kind in\n\t-W) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
	    "\t-f|-d) COMPREPLY=($(compgen \"$kind\" -- \"$cur\")) ;;\n"
	    "\ttopics)\n\t\twords=\"");
	put_topics(b);
	espl__print(b, " $(" LIST_PLUGINS ")\"\n");
	espl__print(b,
	    "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n\t\t;;\n"
	    "\tsettings)\n\t\twords='");
	put_settings("\n\t\t", "", b);
	espl__print(b,
	    "'\n\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	    "\t\tcompopt -o nospace 2>/dev/null\n\t\t;;\n"
	    "\t*) COMPREPLY=() ;;\n\tesac\n}\n"
	    "complete -o filenames -F _espalier espalier\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

#define ZSH_QUOTE "'\\''"

static void
put_zsh_fill(enum fill fill, const char *value, struct espl__buf *b)
{
	switch (fill) {
	case FILL_FILES: espl__print(b, "_files"); break;
	case FILL_FOLDERS: espl__print(b, "_files -/"); break;
	case FILL_SETTINGS: espl__print(b, "_espalier_settings"); break;
	case FILL_TOPICS: espl__print(b, "_espalier_topics"); break;
	case FILL_CHOICES:
		espl__print(b, "(");
		put_choices(value, b);
		espl__print(b, ")");
		break;
	case FILL_NOTHING: espl__print(b, " "); break;
	}
}

static void
put_zsh_flag(const struct espl__flag *flag, struct espl__buf *b)
{
	const char *equals = flag->value != NULL ? "=" : "";

	espl__print(b, " \\\n\t\t");
	if (strstr(flag->help, "(repeatable") != NULL)
		espl__print(b, "'*'");
	else if (flag->letter != 0)
		espl__print(b, "'(-%c --%s)'", flag->letter, flag->name);
	if (flag->letter != 0)
		espl__print(b, "{-%c,--%s%s}'[", flag->letter, flag->name, equals);
	else
		espl__print(b, "'--%s%s[", flag->name, equals);
	put_text(flag->help, "[]\\", ZSH_QUOTE, b);
	espl__print(b, "]");
	if (flag->value != NULL) {
		espl__print(b, ":");
		put_text(flag->value, ":\\", ZSH_QUOTE, b);
		espl__print(b, ":");
		put_zsh_fill(fill_value(flag->value), flag->value, b);
	}
	espl__print(b, "'");
}

static void
put_zsh(struct espl__buf *b)
{
	const struct espl__verb *verb;
	const struct espl__flag *flag;
	size_t i;

	espl__print(b, "_espalier_settings() {\n\tlocal -a settings\n\tsettings=(");
	put_settings("\n\t\t", "", b);
	espl__print(b,
	    ")\n\tcompadd -S '' -a settings\n}\n"
	    "_espalier_topics() {\n\tlocal -a topics\n\ttopics=(");
	put_topics(b);
	espl__print(b,
	    " ${(f)\"$(" LIST_PLUGINS ")\"})\n\tcompadd -a topics\n}\n"
	    "_espalier() {\n\tlocal verb=$words[2]\n\tlocal -a verbs\n\tverbs=(");
	for (verb = espl__verbs; verb->name != NULL; verb++) {
		espl__print(b, "\n\t\t'%s:", verb->name);
		put_text(verb->summary, ":\\", ZSH_QUOTE, b);
		espl__print(b, "'");
	}
	espl__print(b,
	    ")\n\tif (( CURRENT == 2 )); then\n"
	    "\t\tif [[ $PREFIX == -* ]]; then compadd -- --help --version; return; fi\n"
	    "\t\t_describe -t commands command verbs\n\t\treturn\n\tfi\n"
	    "\tshift words\n\t(( CURRENT-- ))\n\tcase $verb in\n");
	for (verb = espl__verbs; verb->name != NULL; verb++) {
		espl__print(b, "\t%s) _arguments", verb->name);
		for (i = 0; (flag = flag_at(verb, i)) != NULL; i++)
			put_zsh_flag(flag, b);
		if (verb->most > 0) {
			espl__print(b, " \\\n\t\t'*: :");
			put_zsh_fill(fill_verb(verb), NULL, b);
			espl__print(b, "'");
		}
		espl__print(b, " ;;\n");
	}
	espl__print(b,
	    "\tesac\n}\n"
	    "# Loaded by name from a directory of $fpath, or sourced.\n"
	    "if [[ ${funcstack[1]} == _espalier ]]; then _espalier \"$@\"; else compdef _espalier "
	    "espalier; fi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

#define FISH_QUOTE "\\'"

static void
put_fish_fill(enum fill fill, const char *value, struct espl__buf *b)
{
	switch (fill) {
	case FILL_FILES: espl__print(b, " -F"); break;
	case FILL_FOLDERS: espl__print(b, " -a '(__fish_complete_directories)'"); break;
	case FILL_SETTINGS: espl__print(b, " -a '(__espalier_settings)'"); break;
	case FILL_TOPICS: espl__print(b, " -a '(__espalier_topics)'"); break;
	case FILL_CHOICES:
		espl__print(b, " -a '");
		put_choices(value, b);
		espl__print(b, "'");
		break;
	case FILL_NOTHING: break;
	}
}

static void
put_fish_verb(const struct espl__verb *verb, struct espl__buf *b)
{
	const struct espl__flag *flag;
	enum fill fill;
	size_t i;

	espl__print(b, "\ncomplete -c espalier -n '__espalier_verb' -a %s -d '", verb->name);
	put_text(verb->summary, "\\", FISH_QUOTE, b);
	espl__print(b, "'\n");
	for (i = 0; (flag = flag_at(verb, i)) != NULL; i++) {
		espl__print(b, "complete -c espalier -n '__espalier_verb %s' -l %s", verb->name,
		    flag->name);
		if (flag->letter != 0)
			espl__print(b, " -s %c", flag->letter);
		if (flag->value != NULL) {
			fill = fill_value(flag->value);
			espl__print(b, fill == FILL_FILES ? " -r" : " -x");
			put_fish_fill(fill, flag->value, b);
		}
		espl__print(b, " -d '");
		put_text(flag->help, "\\", FISH_QUOTE, b);
		espl__print(b, "'\n");
	}
	if (verb->most > 0) {
		espl__print(b, "complete -c espalier -n '__espalier_verb %s'", verb->name);
		put_fish_fill(fill_verb(verb), NULL, b);
		espl__print(b, "\n");
	}
}

static void
put_fish(struct espl__buf *b)
{
	const struct espl__verb *verb;

	espl__print(b,
	    "# Is this the command, or, without an argument, is there none yet?\n"
	    "function __espalier_verb\n\tset -l words (commandline -opc)\n"
	    "\ttest \"$words[2]\" = \"$argv[1]\"\nend\n"
	    "function __espalier_settings\n\tprintf '%%s\\n'");
	put_settings(" \\\n\t\t", "", b);
	espl__print(b, "\nend\nfunction __espalier_topics\n\tprintf '%%s\\n' ");
	put_topics(b);
	espl__print(b, "\n\t" LIST_PLUGINS "\nend\n");
	espl__print(b,
	    "complete -c espalier -f\n"
	    "complete -c espalier -n '__espalier_verb' -l help -s h -d 'show this help'\n"
	    "complete -c espalier -n '__espalier_verb' -l version -d 'print the version'\n");
	for (verb = espl__verbs; verb->name != NULL; verb++)
		put_fish_verb(verb, b);
}

espl_status
espl__help_completion(const char *shell, struct espl__buf *b, struct espl__diag *diag)
{
	static const struct {
		const char *name, *head;
		void (*put)(struct espl__buf *);
	} shells[] = { { "bash", "", put_bash }, { "zsh", "#compdef espalier\n", put_zsh },
		{ "fish", "", put_fish } };
	size_t i;

	for (i = 0; i < sizeof shells / sizeof *shells; i++) {
		if (strcmp(shell, shells[i].name) != 0)
			continue;
		espl__print(b,
		    "%s# Completion of espalier's command line for %s.  Made by `espalier help "
		    "--completion %s`.\n",
		    shells[i].head, shell, shell);
		shells[i].put(b);
		return ESPL_OK;
	}
	(void)espl__fail(diag, ESPL_E_CONFIG, "there is no completion for shell '%s'", shell);
	espl__hint(diag, "shells: bash, zsh, fish");
	return ESPL_E_CONFIG;
}
