/* csv.h - lines of comma-separated fields, with quotes, cut in place (RFC 4180 without line breaks
 * inside quotes). */
#ifndef ESPL__CSV_H
#define ESPL__CSV_H
#include "base/buf.h"
#include "base/diag.h"

struct espl__csv {
	char *at, *end; /* what is left of the text, which is written into */
	const char *file;
	uint32_t line; /* of the fields */
	char **fields;
	uint32_t count, cap;
};
/* The text (NUL after its last byte) stays the caller's and is cut up.  Lines that are empty or
 * begin with '#' are passed over. */
void espl__csv_open(struct espl__csv *, const char *file, struct espl__buf *text);
/* *more is 0 at the end.  E_CONFIG: an open quote, more than 4096 fields. */
espl_status espl__csv_next(struct espl__csv *, int *more, struct espl__diag *);
void espl__csv_close(struct espl__csv *);
/* A number; NaN where the field is empty, or nan, or infinite.  0, or -1: it is none of these. */
int espl__csv_number(const char *field, double *);
#endif
