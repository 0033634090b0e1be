/* help_find.c - help by what something is called, or by what is written about it: options of groups
 * and plugins, commands and their options. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "config/schema.h"
#include "input/input.h"
#include "plugin/registry.h"

#define LEFT 30 /* column of the text */

struct finding {
	const char *word;
	int whole; /* the name itself, else a part of the name or of the help */
	uint32_t count;
	struct espl__buf *b;
};

/* Where a word begins; strcasestr() is not in POSIX. */
static int
mentions(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (; *text != '\0'; text++)
		if (strncasecmp(text, word, length) == 0)
			return 1;
	return 0;
}

/* "deadline" and "experiment.deadline" are both the name of "experiment.deadline". */
static int
is_named(const char *full, const char *word)
{
	size_t length = strlen(full), tail = strlen(word);

	if (strcmp(full, word) == 0)
		return 1;
	return length > tail &&
	    (full[length - tail - 1] == '.' || full[length - tail - 1] == ' ') &&
	    strcmp(full + length - tail, word) == 0;
}

static void
look_at(struct finding *f, const char *group, const char *name, const char *help)
{
	char *full = espl__format("%s%s%s", group, group[0] != '\0' ? " " : "", name);
	char *dotted = espl__format("%s%s%s", group, group[0] != '\0' ? "." : "", name);
	int found = f->whole ? is_named(full, f->word) || is_named(dotted, f->word)
			     : mentions(name, f->word) || mentions(help, f->word);

	if (found) {
		f->count++;
		/* options of the core as --set names them, others behind their plugin or command */
		espl__help_entry(strpbrk(group, "/ ") == NULL && group[0] != '\0' ? dotted : full,
		    help, 2, LEFT, f->b);
	}
	free(full);
	free(dotted);
}

static void
look_at_options(struct finding *f, const char *group, const struct espl_option *options,
    uint32_t stride, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct espl_option *o = espl__option_at(options, stride, i);

		look_at(f, group, o->name, o->help != NULL ? o->help : "");
	}
}

static void
look_at_plugin(void *ctx, const struct espl__plugin *plugin)
{
	const struct espl_plugin *desc = plugin->desc;
	char group[96];

	(void)snprintf(group, sizeof group, "%s/%s", espl__kind_name(desc->kind), desc->name);
	if (!((struct finding *)ctx)->whole)
		look_at(ctx, "", group, desc->summary != NULL ? desc->summary : "");
	look_at_options(ctx, group, desc->options, desc->option_size, desc->option_count);
}

static void
look_at_verbs(struct finding *f)
{
	for (const struct espl__verb *verb = espl__verbs; verb->name != NULL; verb++) {
		const struct espl__flag *flag = verb->flags;
		char group[64];

		(void)snprintf(group, sizeof group, "espalier %s", verb->name);
		if (mentions(verb->name, f->word) || mentions(verb->summary, f->word) ||
		    mentions(verb->text, f->word)) {
			f->count++;
			espl__help_entry(group, verb->summary, 2, LEFT, f->b);
		}
		for (; flag != NULL && flag->name != NULL; flag++) {
			char name[48];

			(void)snprintf(name, sizeof name, "--%s", flag->name);
			look_at(f, group, name, flag->help);
		}
	}
}

uint32_t
espl__help_find(const char *word, int whole, struct espl__buf *b)
{
	struct finding f = { word, whole, 0, b };
	const struct espl__core_group *group;

	for (group = espl__core_groups(); group->name != NULL; group++) {
		look_at_options(&f, group->name, group->options,
		    (uint32_t)sizeof(struct espl_option), group->count);
		for (uint32_t i = 0; i < group->member_count; i++)
			look_at(&f, group->name, group->members[i].name, group->members[i].help);
	}
	espl__plugins_each(look_at_plugin, NULL, &f);
	if (!whole)
		look_at_verbs(&f);
	return f.count;
}
