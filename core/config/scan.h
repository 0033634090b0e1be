/* scan.h - configuration text made safe for libconfig: one flat text, numbers checked, includes
 * put in, and a way back from a flat line to the user's file and line.
 */
#ifndef ESPL__SCAN_H
#define ESPL__SCAN_H
#include "base/buf.h"
#include "base/diag.h"
#include "base/mem.h"

#define ESPL__SCAN_LIMIT ((size_t)16 << 20) /* bytes of all files together */
#define ESPL__SCAN_DEPTH 64                 /* groups, lists and arrays within another */

struct espl__scan_part {
	uint32_t flat, line;
	const char *file;
}; /* from flat line on */
struct espl__scan {
	/* for libconfig: no comment, no include, all integers end in L */
	struct espl__buf text;
	struct espl__scan_part *parts;
	uint32_t part_count, part_cap;
	/* file names; may be moved to a longer life by the caller */
	struct espl__arena names;
	/* private to scan.c */
	uint32_t flat;
	uint32_t include_count;
	uint32_t depth;
	struct espl__scan_open {
		char what;
		uint32_t line;
		const char *file;
	} open[ESPL__SCAN_DEPTH];
	char before; /* kind of the last token, see scan.c */
	uint32_t before_line;
	char word[64]; /* the last name, shortened */
};
/* A file and what it includes.  Free with espl__scan_free, also after a failure. */
espl_status espl__scan_file(struct espl__scan *, const char *path, struct espl__diag *);
/* A text called `name` in messages; it may not include files. */
espl_status espl__scan_text(struct espl__scan *, const char *text, size_t size, const char *name,
    struct espl__diag *);
void espl__scan_free(struct espl__scan *);
/* Where a line of the flat text (from 1) comes from. */
void espl__scan_place(const struct espl__scan *, uint32_t flat, const char **file, uint32_t *line);
/* Names that libconfig does not take reach it as ESPL__SCAN_CODED and two hexadecimal digits for
 * each byte. */
#define ESPL__SCAN_CODED "*-"
/* Is `name` written without quotes: a letter or '*', then letters, digits, '-', '_' and '*'? */
int espl__scan_plain(const char *name);
/* Is all of `text` one number as libconfig writes them?  'i' integer, 'r' real, 0 neither (or
 * out of range: *wide is 1 then).  *i, *r are set as it fits. */
char espl__scan_number(const char *text, size_t size, int64_t *i, double *r, int *wide);
#endif
