/* words.h - builds the argument list of a command, such as ssh or sbatch; and reads a request. */
#ifndef CLOUD_WORDS_H
#define CLOUD_WORDS_H
#include <espalier/cloud.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cloud_words {
	char **list; /* NULL-terminated */
	uint32_t count;
	int failed; /* out of memory */
};

/* Takes over the text; NULL: there was no memory for it. */
static inline void
cloud_words_take(struct cloud_words *words, char *text)
{
	char **list = text != NULL ? realloc(words->list, (words->count + 2) * sizeof *list) : NULL;

	if (list == NULL) {
		free(text);
		words->failed = 1;
		return;
	}
	words->list = list;
	list[words->count++] = text;
	list[words->count] = NULL;
}

static inline void __attribute__((format(printf, 2, 3)))
cloud_words_add(struct cloud_words *words, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	cloud_words_take(words, text);
}

static inline void
cloud_words_free(struct cloud_words *words)
{
	for (uint32_t i = 0; i < words->count; i++)
		free(words->list[i]);
	free(words->list);
	*words = (struct cloud_words){ NULL, 0, 0 };
}

/* How many machines are to be avoided; a host built for an older header knows none. */
static inline uint32_t
cloud_avoid_count(const struct espl_acquire *wanted)
{
	return wanted->size >= offsetof(struct espl_acquire, avoid) + sizeof wanted->avoid
	    ? wanted->avoid_count
	    : 0;
}

static inline int
cloud_avoids(const struct espl_acquire *wanted, const char *machine)
{
	for (uint32_t i = 0; i < cloud_avoid_count(wanted); i++)
		if (strcmp(wanted->avoid[i], machine) == 0)
			return 1;
	return 0;
}
#endif
