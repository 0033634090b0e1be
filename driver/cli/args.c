/* args.c - the words of a command line against the flags that a verb knows. */
#include "base/assert.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "input/input.h"

/* Every verb has these. */
const struct espl__flag espl__flags_common[] = { { "help", 'h', NULL, "show this help" },
	{ "plugins", 'P', "DIR", "search this directory for plugins first" },
	{ NULL, 0, NULL, NULL } };

static const struct espl__flag *
find_in(const struct espl__flag *list, const char *name, size_t length, char letter)
{
	for (; list != NULL && list->name != NULL; list++) {
		if (letter != 0
			? list->letter == letter
			: strlen(list->name) == length && strncmp(list->name, name, length) == 0)
			return list;
	}
	return NULL;
}

static const struct espl__flag *
find_flag(const struct espl__verb *verb, const char *name, size_t length, char letter)
{
	const struct espl__flag *flag = find_in(verb->flags, name, length, letter);

	return flag != NULL ? flag : find_in(espl__flags_common, name, length, letter);
}

/* Of the experiment: what people look for on the command line (deadline, budget, metric, ...). */
static int
is_setting(const char *name)
{
	const struct espl__core_group *group;
	uint32_t i;

	for (group = espl__core_groups(); group->name != NULL; group++)
		for (i = 0; strcmp(group->name, "experiment") == 0 && i < group->count; i++)
			if (strcmp(group->options[i].name, name) == 0)
				return 1;
	return 0;
}

static espl_status
refuse_unknown_flag(const struct espl__verb *verb, const char *word, struct espl__diag *diag)
{
	const struct espl__flag *lists[2] = { verb->flags, espl__flags_common }, *flag;
	const char *names[32], *near;
	char name[64];
	size_t count = 0, i;

	for (i = 0; i < 2; i++) {
		for (flag = lists[i]; flag != NULL && flag->name != NULL && count < 32; flag++)
			names[count++] = flag->name;
	}
	(void)snprintf(name, sizeof name, "%s", word + strspn(word, "-"));
	name[strcspn(name, "=")] = '\0';
	near = espl__nearest(name, names, count);
	(void)espl__fail(diag, ESPL_E_CONFIG, "`espalier %s` has no option '%.*s'", verb->name,
	    (int)strcspn(word, "="), word);
	if (near != NULL)
		espl__hint(diag, "did you mean '--%s'?", near);
	else if (is_setting(name) && find_in(verb->flags, "set", 3, 0) != NULL)
		espl__hint(diag, "it is a configuration setting: use --set experiment.%s=VALUE",
		    name);
	else
		espl__hint(diag, "see `espalier help %s`", verb->name);
	return ESPL_E_CONFIG;
}

static void
add_flag(struct espl__args *args, const struct espl__flag *flag, const char *value)
{
	char *joined;

	if (flag == &espl__flags_common[0]) {
		args->help = 1;
	} else if (flag == &espl__flags_common[1]) {
		joined = args->plugin_path == NULL
		    ? espl__strdup(value)
		    : espl__format("%s:%s", args->plugin_path, value);
		free(args->plugin_path);
		args->plugin_path = joined;
	} else {
		ESPL__GROW(args->given, args->given_cap, args->given_count + 1);
		args->given[args->given_count++] = (struct espl__given){ flag, value };
	}
}

/* One word that begins with a dash; *at moves on where the value is the next word. */
static espl_status
take_flag(struct espl__args *args, int argc, const char *const *argv, int *at,
    struct espl__diag *diag)
{
	const char *word = argv[*at], *value = NULL, *name = word + 2;
	const struct espl__flag *flag;

	if (word[1] == '-') {
		flag = find_flag(args->verb, name, strcspn(name, "="), 0);
		if (strchr(name, '=') != NULL)
			value = strchr(name, '=') + 1;
	} else {
		flag = find_flag(args->verb, NULL, 0, word[1]);
		if (word[2] != '\0')
			value = word + 2;
	}
	if (flag == NULL)
		return refuse_unknown_flag(args->verb, word, diag);
	if (flag->value == NULL && value != NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "option '--%s' takes no value", flag->name);
	if (flag->value != NULL && value == NULL) {
		if (*at + 1 >= argc)
			return espl__fail(diag, ESPL_E_CONFIG,
			    "option '--%s' needs a value: --%s %s", flag->name, flag->name,
			    flag->value);
		value = argv[++*at];
	}
	add_flag(args, flag, value != NULL ? value : "");
	return ESPL_OK;
}

espl_status
espl__args_parse(const struct espl__verb *verb, int argc, const char *const *argv,
    struct espl__args *args, struct espl__diag *diag)
{
	int i, plain = 0;
	espl_status status;

	ESPL__ASSERT(verb->most <= ESPL__POSITIONAL_MAX);
	memset(args, 0, sizeof *args);
	args->verb = verb;
	for (i = 0; i < argc; i++) {
		if (!plain && strcmp(argv[i], "--") == 0) {
			plain = 1;
		} else if (!plain && argv[i][0] == '-' && argv[i][1] != '\0') {
			status = take_flag(args, argc, argv, &i, diag);
			if (status != ESPL_OK)
				return status;
		} else if (args->count < verb->most) {
			args->positional[args->count++] = argv[i];
		} else {
			(void)espl__fail(diag, ESPL_E_CONFIG, "unexpected argument '%s'", argv[i]);
			espl__hint(diag, "usage: espalier %s %s", verb->name, verb->usage);
			return ESPL_E_CONFIG;
		}
	}
	if (args->count < verb->least && !args->help) {
		const char *missing = verb->usage; /* begins with the positional arguments */

		for (uint32_t k = 0; k < args->count; k++)
			missing += strcspn(missing, " ") + 1;
		(void)espl__fail(diag, ESPL_E_CONFIG, "`espalier %s` needs %.*s", verb->name,
		    (int)strcspn(missing, " "), missing);
		espl__hint(diag, "usage: espalier %s %s", verb->name, verb->usage);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

void
espl__args_free(struct espl__args *args)
{
	free(args->given);
	free(args->plugin_path);
	memset(args, 0, sizeof *args);
}

const char *
espl__arg(const struct espl__args *args, const char *name)
{
	uint32_t i;

	for (i = args->given_count; i > 0; i--) {
		if (strcmp(args->given[i - 1].flag->name, name) == 0)
			return args->given[i - 1].value;
	}
	return NULL;
}

uint32_t
espl__arg_all(const struct espl__args *args, const char *name, const char ***values)
{
	uint32_t i, count = 0;

	*values = espl__alloc((args->given_count + 1) * sizeof **values);
	for (i = 0; i < args->given_count; i++) {
		if (strcmp(args->given[i].flag->name, name) == 0)
			(*values)[count++] = args->given[i].value;
	}
	return count;
}

espl_status
espl__arg_number(const struct espl__args *args, const char *name, int64_t least, int64_t most,
    int64_t otherwise, int64_t *to, struct espl__diag *diag)
{
	const char *text = espl__arg(args, name);
	int64_t value;

	ESPL__ASSERT(least <= most && to != NULL);
	*to = otherwise;
	if (text == NULL)
		return ESPL_OK;
	if (espl__parse_int(text, &value) < 0)
		return espl__fail(diag, ESPL_E_CONFIG, "--%s: '%s' is not a whole number", name,
		    text);
	if (value < least || value > most)
		return espl__fail(diag, ESPL_E_CONFIG, "--%s: %lld is out of range (%lld to %lld)",
		    name, (long long)value, (long long)least, (long long)most);
	*to = value;
	return ESPL_OK;
}
