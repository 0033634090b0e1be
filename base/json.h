/* json.h - JSON text written piece by piece; a comma comes before whatever follows a value.
 *
 * name: of a member; NULL in an array.  Objects and arrays are closed with espl__print. */
#ifndef ESPL__JSON_H
#define ESPL__JSON_H
#include "base/buf.h"

void espl__json_key(struct espl__buf *, const char *name); /* its value is printed next */
void espl__json_open(struct espl__buf *, const char *name, char bracket); /* '{' or '[' */
void espl__json_text(struct espl__buf *, const char *name, const char *); /* NULL: null */
void espl__json_int(struct espl__buf *, const char *name, int64_t);
void espl__json_real(struct espl__buf *, const char *name, double); /* not finite: null */
void espl__json_bool(struct espl__buf *, const char *name, int);
void espl__json_raw(struct espl__buf *, const char *name, const char *json);
/* Python writes NaN, Infinity and -Infinity bare: makes strings of them, in `to` if there are any.
 * Returns the text and changes *size. */
const char *espl__json_quote(const char *text, size_t *size, struct espl__buf *to);
#endif
