/* schema.h - option tables become checked values: one parser for plugins and for the core's
 * own groups, for files, --set and defaults.
 */
#ifndef ESPL__SCHEMA_H
#define ESPL__SCHEMA_H
#include "config/tree.h"

#define ESPL__VALUES_MAGIC 0x70676a73u
/* owns everything the values point to */
struct espl__values {
	struct espl_config config; /* handed to the plugin */
	uint32_t magic;            /* ESPL__VALUES_MAGIC */
	const struct espl_option *options;
	uint32_t option_size; /* stride of options */
	const char **files;   /* [option] FILE of the value, NULL when not set */
	void *arena;
};
/* The option number i of a table with a stride. */
const struct espl_option *espl__option_at(const struct espl_option *, uint32_t stride, uint32_t i);

/* `group` may be NULL (all defaults).  `who` for messages ("allocator 'fair'").  `known`: names
 * (NULL-ended) in the same group that other code reads ("use"); they are skipped.
 * Errors: unknown key (nearest name as hint), wrong type, out of limits, not a choice,
 * missing, twice; all as FILE:LINE. */
espl_status espl__schema_resolve(const struct espl_option *, uint32_t count, uint32_t stride,
    const struct espl__node *group, const char *const *known, const char *who, const char *instance,
    struct espl__values **, struct espl__diag *);
void espl__values_free(struct espl__values *);
/* Puts another text in place of a STRING option's; copied. */
void espl__values_replace(struct espl__values *, uint32_t option, const char *text);
/* Is the table itself sane?  Unique names, defaults that parse and lie within the limits,
 * choices present, known types, columns only in TABLE.  Used by the loader and check-plugin. */
espl_status espl__schema_check(const struct espl_option *, uint32_t count, uint32_t stride,
    const char *who, struct espl__diag *);
/* A latency: a span ("15s", or 0) or { dist; mean; sd; samples }; without `dist` it is empirical if
 * there are samples, normal if sd is not 0, else constant.  samples: spans, or seconds as
 * numbers.  `name` for messages.  Memory from the arena. */
struct espl__arena;
espl_status espl__latency_parse(const struct espl__node *, const char *name, struct espl__arena *,
    const struct espl_latency **, struct espl__diag *);
/* Blames option/row of a plugin's error: fills file and line, unless the option was not set. */
void espl__values_blame(const struct espl__values *, const struct espl_error *,
    struct espl__diag *);
/* Prints one option's value as libconfig text (without name); 0: secret, or it has none. */
int espl__values_print(const struct espl__values *, uint32_t option, struct espl__buf *);
/* Help: "  name   type, default X, from MIN to MAX\n      help" for terminals; a Markdown table
 * row set; groff for man pages. */
#define ESPL__HELP_WIDTH 84 /* columns that help for terminals takes */
/* Text broken at spaces, each line after `indent` blanks.  column: 0, or -1 where the first line's
 * are there. */
void espl__help_wrap(const char *text, int column, int indent, struct espl__buf *);
/* "  LEFT      TEXT", the text wrapped beside it, or below it where LEFT is too long. */
void espl__help_entry(const char *left, const char *text, int indent, int column,
    struct espl__buf *);
void espl__help_groff(const char *text,
    struct espl__buf *); /* for a manual page, in one paragraph */
/* ALL: text, with the experimental options, which TEXT only counts */
enum espl__help_form { ESPL__HELP_TEXT = 1, ESPL__HELP_MARKDOWN, ESPL__HELP_MAN, ESPL__HELP_ALL };
void espl__schema_help(const struct espl_option *, uint32_t count, uint32_t stride,
    enum espl__help_form, struct espl__buf *);
#endif
