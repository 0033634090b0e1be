/* agent_argv.c - lists of words: an environment, and a command in which {NAME} becomes the value of
 * a parameter, or of a variable of the protocol. No shell is involved.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fill.h"
#include "base/json_value.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/variables.h"
#include "agent/agent.h"
#include "agent/agent_sup.h"

void
espl__strings_free(struct espl__strings *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->list[i]);
	free(s->list);
	memset(s, 0, sizeof *s);
}

static size_t
find_variable(const struct espl__strings *s, const char *name, size_t length)
{
	for (size_t i = 0; i < s->count; i++)
		if (strncmp(s->list[i], name, length) == 0 && s->list[i][length] == '=')
			return i;
	return SIZE_MAX;
}

const char *
espl__env_get(const struct espl__strings *s, const char *name)
{
	size_t length = strlen(name), at = find_variable(s, name, length);

	return at == SIZE_MAX ? NULL : s->list[at] + length + 1;
}

void
espl__words_add(struct espl__strings *s, char *text)
{
	ESPL__GROW(s->list, s->cap, s->count + 2);
	s->list[s->count++] = text;
	s->list[s->count] = NULL;
}

/* Replaces an older one of this name. */
void
espl__env_set(struct espl__strings *s, char *text)
{
	size_t at = find_variable(s, text, strcspn(text, "="));

	if (at != SIZE_MAX) {
		free(s->list[at]);
		s->list[at] = text;
		return;
	}
	espl__words_add(s, text);
}

void
espl__env_apply(struct espl__strings *s, const char *const *given, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t at;

		if (strchr(given[i], '=') != NULL) {
			espl__env_set(s, espl__strdup(given[i]));
			continue;
		}
		at = find_variable(s, given[i], strlen(given[i]));
		if (at == SIZE_MAX)
			continue;
		free(s->list[at]);
		s->list[at] = s->list[--s->count]; /* their order means nothing */
		s->list[s->count] = NULL;
	}
}

void
espl__env_inherit(struct espl__strings *s)
{
	for (char **e = environ; e != NULL && *e != NULL; e++) {
		const char *equals = strchr(*e, '=');

		if (equals != NULL && equals != *e && espl__variable_of(*e) == ESPL__VARIABLE_USER)
			espl__env_set(s, espl__strdup(*e));
	}
}

/* ---- programs ---------------------------------------------------------------------------- */

static int
is_runnable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* argv[0] with a slash is taken from the working directory on; else PATH is searched.  NULL: it
 * is nowhere. */
char *
espl__find_program(const char *name, const char *dir, const char *path)
{
	ESPL__ASSERT(name != NULL && dir != NULL);
	if (strchr(name, '/') != NULL)
		return espl__strdup(name);
	if (path == NULL || path[0] == '\0')
		path = "/usr/local/bin:/usr/bin:/bin";
	for (;;) {
		size_t length = strcspn(path, ":");
		char *try;

		if (path[0] == '/')
			try = espl__format("%.*s/%s", (int)length, path, name);
		else
			try = espl__format("%s/%.*s/%s", dir, length > 0 ? (int)length : 1,
			    length > 0 ? path : ".", name);
		if (is_runnable(try))
			return try;
		free(try);
		if (path[length] == '\0')
			return NULL;
		path += length + 1;
	}
}

/* ---- the command ---- */

struct values {
	const json_t *params;
	const struct espl__strings *env;
	struct espl__buf text;
};

static const char *
find_value(void *ctx, const char *name)
{
	struct values *v = ctx;
	const json_t *value = json_object_get(v->params, name);
	const char *variable;

	if (value != NULL) {
		espl__buf_clear(&v->text);
		espl__json_value_text(value, &v->text);
		return espl__buf_text(&v->text);
	}
	variable = espl__fill_variable(name);
	return variable != NULL ? espl__env_get(v->env, variable) : NULL;
}

/* A word that names an inactive parameter is left out, and one that is empty once it is filled. */
static void
add_words(const struct espl__start *t, struct values *v, struct espl__strings *to)
{
	struct espl__buf word = { NULL, 0, 0 };

	for (uint32_t i = 0; i < t->argc; i++) {
		espl__buf_clear(&word);
		if (espl__fill_guarded(t->argv[i], find_value, v, &word) == 0 &&
		    (word.size > 0 || t->argv[i][0] == '\0'))
			espl__words_add(to, espl__strdup(espl__buf_text(&word)));
	}
	espl__buf_free(&word);
}

char *
espl__agent_words(const struct espl__agent_rank *r, const struct espl__strings *env, int listens,
    struct espl__strings *to)
{
	const struct espl__start *t = &r->gang->start;
	struct values values = { json_loads(t->params, 0, NULL), env, { NULL, 0, 0 } };
	struct espl__strings words = { NULL, 0, 0 };
	char *path;

	ESPL__CHECK(r->gang, AGENT_GANG);
	add_words(t, &values, &words);
	json_decref((json_t *)(uintptr_t)values.params);
	espl__buf_free(&values.text);
	path = words.count > 0
	    ? espl__find_program(words.list[0], t->directory, espl__env_get(env, "PATH"))
	    : NULL;
	if (path != NULL && listens) {
		espl__words_add(to, espl__format("%s/espalier-listen", r->gang->agent->libexec));
		espl__words_add(to, espl__strdup(t->metrics));
		espl__words_add(to, path);
		path = espl__strdup(to->list[0]);
	}
	for (size_t i = 0; i < words.count; i++)
		espl__words_add(to, words.list[i]);
	words.count = 0;
	espl__strings_free(&words);
	return path;
}
