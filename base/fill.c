/* fill.c - see fill.h. */
#include "base/fill.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const struct espl__fill_own espl__fill_owns[] = {
	{ "trial", "ESPALIER_TRIAL" },
	{ "trial_name", "ESPALIER_TRIAL_NAME" },
	{ "experiment", "ESPALIER_EXPERIMENT" },
	{ "run", "ESPALIER_RUN" },
	{ "output", "ESPALIER_OUTPUT" },
	{ "seed", "ESPALIER_SEED" },
	{ "fold", "ESPALIER_FOLD" },
	{ "iterations", "ESPALIER_ITERATIONS_MAX" },
	{ NULL, NULL },
};

const char *
espl__fill_variable(const char *name)
{
	for (const struct espl__fill_own *own = espl__fill_owns; own->name != NULL; own++)
		if (strcmp(own->name, name) == 0)
			return own->variable;
	return NULL;
}

static int
is_first(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Length of the NAME of "{NAME}" at `at`, which is text without braces; 0: there is none. */
static size_t
name_length(const char *at)
{
	size_t n;

	if (at[0] != '{')
		return 0;
	n = strcspn(at + 1, "{}");
	return at[n + 1] == '}' ? n : 0;
}

/* A name that cannot be anything else: {name} is never ordinary text. */
static int
is_plain(const char *name)
{
	if (!is_first(*name))
		return 0;
	while (is_first(*name) || (*name >= '0' && *name <= '9'))
		name++;
	return *name == '\0';
}

/* One {NAME}.  -1: it has no value. */
static int
put_value(const char *name, int all_names, espl__fill_find *find, void *ctx, struct espl__buf *to,
    char bad[64])
{
	const char *value = find(ctx, name);

	if (value != NULL)
		espl__put(to, value, strlen(value));
	else if (!all_names && !is_plain(name))
		espl__print(to, "{%s}", name);
	else if (bad != NULL)
		(void)snprintf(bad, 64, "%s", name);
	return value != NULL || (!all_names && !is_plain(name)) ? 0 : -1;
}

static int
fill(const char *word, int all_names, espl__fill_find *find, void *ctx, struct espl__buf *to,
    char bad[64])
{
	for (const char *p = word; *p != '\0';) {
		size_t length = name_length(p);
		char *name;
		int failed;

		if (p[0] == '{' && p[1] == '{') {
			espl__put(to, p, 1);
			p += 2;
			continue;
		}
		if (length == 0 || (p > word && p[-1] == '$')) {
			espl__put(to, p++, 1);
			continue;
		}
		name = espl__format("%.*s", (int)length, p + 1);
		failed = put_value(name, all_names, find, ctx, to, bad) != 0;
		free(name);
		if (failed)
			return -1;
		p += length + 2;
	}
	return 0;
}

int
espl__fill(const char *word, espl__fill_find *find, void *ctx, struct espl__buf *to, char bad[64])
{
	return fill(word, 0, find, ctx, to, bad);
}

int
espl__fill_guarded(const char *word, espl__fill_find *find, void *ctx, struct espl__buf *to)
{
	return fill(word, 1, find, ctx, to, NULL);
}

void
espl__fill_guard(const char *word, espl__fill_find *find, void *ctx, struct espl__buf *to)
{
	for (const char *p = word; *p != '\0';) {
		size_t length = name_length(p);
		char *name = espl__format("%.*s", (int)length, p + (length > 0));
		int is_text = length > 0 && !is_plain(name) && (p == word || p[-1] != '$') &&
		    find(ctx, name) == NULL;

		if (p[0] == '{' && p[1] == '{') {
			espl__put(to, p, 2);
			p += 2;
		} else {
			espl__print(to, is_text ? "{" : "");
			espl__put(to, p++, 1);
		}
		free(name);
	}
}

static const char *
find_nothing(void *ctx, const char *name)
{
	(void)ctx, (void)name;
	return NULL;
}

int
espl__fill_any(const char *word)
{
	struct espl__buf text = { NULL, 0, 0 };
	int found = espl__fill(word, find_nothing, NULL, &text, NULL) != 0;

	espl__buf_free(&text);
	return found;
}
