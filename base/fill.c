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

/* Length of the NAME of "{NAME}" at `at`; 0: there is none. */
static size_t
name_length(const char *at)
{
	size_t n = 1;

	if (at[0] != '{' || !is_first(at[1]))
		return 0;
	while (is_first(at[n]) || (at[n] >= '0' && at[n] <= '9'))
		n++;
	return at[n] == '}' ? n - 1 : 0;
}

int
espl__fill(const char *word, espl__fill_find *find, void *ctx, struct espl__buf *to, char bad[64])
{
	for (const char *p = word; *p != '\0';) {
		size_t length = name_length(p);
		const char *value;
		char *name;

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
		value = find(ctx, name);
		if (value != NULL)
			espl__put(to, value, strlen(value));
		else if (bad != NULL)
			(void)snprintf(bad, 64, "%s", name);
		free(name);
		if (value == NULL)
			return -1;
		p += length + 2;
	}
	return 0;
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
