/* fill.h - words of a command with {NAME} in them.
 *
 * {NAME} stands for a value, {{ for a brace; any other brace is an ordinary character, and so is
 * ${NAME}, which belongs to a shell.  A name of letters, digits and '_' must have a value; what
 * else is between braces ({optimizer.lr}, {print $1}) is a name if it has one, or else ordinary
 * text. */
#ifndef ESPL__FILL_H
#define ESPL__FILL_H
#include "base/buf.h"

/* The value of a name, or NULL if there is none. */
typedef const char *espl__fill_find(void *ctx, const char *name);
/* Appends the word with its names replaced.  0; -1: a name has no value, and `bad`, unless NULL,
 * holds it (shortened to fit). */
int espl__fill(const char *word, espl__fill_find *, void *ctx, struct espl__buf *, char bad[64]);
/* An agent has the values of a trial, but cannot tell an inactive parameter, which has none, from
 * ordinary text.  So the driver, which has the space, escapes text: guard doubles each brace that
 * begins no name.  In its result, guarded treats every {NAME} as a name; it returns -1 if one has
 * no value. */
void espl__fill_guard(const char *word, espl__fill_find *, void *ctx, struct espl__buf *);
int espl__fill_guarded(const char *word, espl__fill_find *, void *ctx, struct espl__buf *);
/* Does a name occur in it? */
int espl__fill_any(const char *word);

/* Names that are no parameters, and the variables of docs/trial-protocol.md with their values;
 * ended by NULL. */
struct espl__fill_own {
	const char *name, *variable;
};
extern const struct espl__fill_own espl__fill_owns[];
const char *espl__fill_variable(const char *name); /* its variable; NULL: it is not one of them */
#endif
