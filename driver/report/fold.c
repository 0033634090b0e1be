/* fold.c - see fold.h. */
#include "report/fold.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

#define WINDOW (300 * ESPL_SECOND) /* after which a count is shown */
#define QUIET (30 * ESPL_SECOND)   /* after which it is shown, the first time */
#define KINDS 256u                 /* that are remembered at once */
#define SOURCES_SHOWN 8u           /* that say the same, in a window */
#define SOURCE_LENGTH 48u          /* a longer beginning is no source */

struct kind {
	uint64_t key, shape; /* of source and text; of the text alone */
	espl_level level;
	int64_t since;  /* of the window */
	int64_t last;   /* when one came; 0: the place is free */
	uint64_t shown; /* in this window: 0 or 1 */
	uint64_t count; /* in this window, that were not */
	char *text;     /* of the last of these */
	int was_quiet;  /* a count was shown before its window had passed */
};
#define ESPL__FOLD_MAGIC 0x666f6c64u
struct espl__fold {
	uint32_t magic; /* ESPL__FOLD_MAGIC */
	espl__log_fn *to;
	void *ctx;
	pthread_mutex_t lock;
	struct kind kinds[KINDS];
};

static void
write_line(struct espl__fold *f, espl_level level, const char *text)
{
	if (f->to != NULL)
		f->to(f->ctx, level, text);
	else
		fprintf(stderr, "espalier: %s%s\n",
		    level >= ESPL_ERROR       ? "error: "
			: level == ESPL_WARN  ? "warning: "
			: level == ESPL_DEBUG ? "debug: "
					      : "",
		    text);
}

static int
is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* The digest of a text in which all words with a digit are the same. */
static uint64_t
digest_shape(uint64_t d, const char *text)
{
	while (*text != '\0') {
		size_t n = 0, digits = 0;

		for (; is_word(text[n]); n++)
			digits += isdigit((unsigned char)text[n]) != 0;
		if (n == 0)
			d = espl__digest(d, text, 1);
		else if (digits > 0)
			d = espl__digest(d, "#", 1);
		else
			d = espl__digest(d, text, n);
		text += n > 0 ? n : 1;
	}
	return d;
}

static size_t
length_of_source(const char *text)
{
	const char *colon = strstr(text, ": ");

	return colon != NULL && colon - text <= (ptrdiff_t)SOURCE_LENGTH ? (size_t)(colon - text)
									 : 0;
}

/* ---- kinds -------------------------------------------------------------------------------- */

/* Says how often it came, unless all of them were shown. */
static void
close_window(struct espl__fold *f, struct kind *k, int64_t now)
{
	char span[32], *text;

	if (k->count > 0) {
		text = espl__format("%s (%llu time%s in %s)", k->text,
		    (unsigned long long)(k->shown + k->count), k->shown + k->count == 1 ? "" : "s",
		    espl__format_short(now - k->since, span));
		write_line(f, k->level, text);
		free(text);
	}
	free(k->text);
	k->text = NULL;
	k->count = k->shown = 0;
	k->since = now;
}

static void
close_late(struct espl__fold *f, int64_t now)
{
	for (uint32_t i = 0; i < KINDS; i++) {
		struct kind *k = &f->kinds[i];
		int over = now - k->since >= WINDOW;

		if (k->last == 0)
			continue;
		if (k->count == 0 && over) {
			k->last = 0; /* nothing has come in a whole window: it is forgotten */
		} else if (k->count > 0 && (over || (!k->was_quiet && now - k->last >= QUIET))) {
			k->was_quiet |= !over;
			close_window(f, k, now);
		}
	}
}

static struct kind *
find_kind(struct espl__fold *f, uint64_t key)
{
	for (uint32_t i = 0; i < KINDS; i++)
		if (f->kinds[i].last != 0 && f->kinds[i].key == key)
			return &f->kinds[i];
	return NULL;
}

/* A free place, or that of the kind that came longest ago. */
static struct kind *
add_kind(struct espl__fold *f, uint64_t key, uint64_t shape, espl_level level, int64_t now)
{
	struct kind *oldest = &f->kinds[0];

	for (uint32_t i = 0; i < KINDS; i++)
		if (f->kinds[i].last < oldest->last)
			oldest = &f->kinds[i];
	close_window(f, oldest, now);
	oldest->key = key;
	oldest->shape = shape;
	oldest->level = level;
	oldest->since = oldest->last = now;
	oldest->was_quiet = 0;
	return oldest;
}

static uint32_t
count_sources(const struct espl__fold *f, uint64_t shape)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < KINDS; i++)
		count += f->kinds[i].last != 0 && f->kinds[i].shape == shape;
	return count;
}

static void
keep_back(struct kind *k, int64_t now, const char *text)
{
	k->last = now;
	k->count++;
	free(k->text);
	k->text = espl__strdup(text);
}

/* The kind to which the line belongs; NULL: it is the first of its kind, and is shown. */
static void
take_warning(struct espl__fold *f, int64_t now, espl_level level, const char *text)
{
	size_t source = length_of_source(text);
	uint64_t shape = digest_shape(1, text + source),
		 key = digest_shape(espl__digest(2, text, source), text + source);
	struct kind *k = find_kind(f, key);

	if (k == NULL)
		k = find_kind(f, shape); /* of many sources */
	if (k == NULL && source > 0 && count_sources(f, shape) >= SOURCES_SHOWN)
		k = add_kind(f, shape, shape, level, now);
	if (k != NULL) {
		keep_back(k, now, text);
		return;
	}
	k = add_kind(f, key, shape, level, now);
	k->shown = 1;
	write_line(f, level, text);
}

/* ---- the interface ------------------------------------------------------------------------ */

struct espl__fold *
espl__fold_new(espl__log_fn *to, void *ctx)
{
	struct espl__fold *f = espl__alloc(sizeof *f);

	f->magic = ESPL__FOLD_MAGIC;
	f->to = to;
	f->ctx = ctx;
	(void)pthread_mutex_init(&f->lock, NULL);
	return f;
}

void
espl__fold_line(struct espl__fold *f, int64_t now, espl_level level, const char *text)
{
	ESPL__CHECK(f, FOLD);
	(void)pthread_mutex_lock(&f->lock);
	close_late(f, now);
	if (level < ESPL_WARN)
		write_line(f, level, text);
	else
		take_warning(f, now, level, text);
	(void)pthread_mutex_unlock(&f->lock);
}

void
espl__fold_tick(struct espl__fold *f, int64_t now)
{
	ESPL__CHECK(f, FOLD);
	(void)pthread_mutex_lock(&f->lock);
	close_late(f, now);
	(void)pthread_mutex_unlock(&f->lock);
}

void
espl__fold_free(struct espl__fold *f, int64_t now)
{
	if (f == NULL)
		return;
	for (uint32_t i = 0; i < KINDS; i++)
		if (f->kinds[i].last != 0)
			close_window(f, &f->kinds[i], now);
	(void)pthread_mutex_destroy(&f->lock);
	f->magic = 0;
	free(f);
}
