/* csv.c - see csv.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "input/csv.h"

#define FIELDS_MAX 4096u

void
espl__csv_open(struct espl__csv *c, const char *file, struct espl__buf *text)
{
	*c = (struct espl__csv){ .file = file };
	(void)espl__buf_text(text);
	c->at = (char *)text->data;
	c->end = c->at + text->size;
	if (text->size >= 3 && memcmp(c->at, "\xef\xbb\xbf", 3) == 0)
		c->at += 3;
}

void
espl__csv_close(struct espl__csv *c)
{
	free(c->fields);
	c->fields = NULL;
	c->count = c->cap = 0;
}

/* Takes the quotes off a field in place: "a ""b""" -> a "b".  NULL: it is not closed properly. */
static char *
unquote_field(char *field)
{
	char *to = field, *from = field + 1;

	for (;;) {
		if (*from == '\0')
			return NULL;
		if (*from == '"') {
			if (from[1] != '"')
				break;
			from++;
		}
		*to++ = *from++;
	}
	if (from[1] != '\0')
		return NULL;
	*to = '\0';
	return field;
}

static char *
trim_field(char *field)
{
	size_t n;

	while (*field == ' ' || *field == '\t')
		field++;
	n = strlen(field);
	while (n > 0 && (field[n - 1] == ' ' || field[n - 1] == '\t'))
		field[--n] = '\0';
	return field;
}

/* Where the field that begins at p ends: at its comma or at the end of the line. */
static char *
field_end(char *p)
{
	int quoted = 0;

	for (; *p != '\0' && (quoted || *p != ','); p++)
		if (*p == '"')
			quoted = !quoted;
	return p;
}

static espl_status
split_line(struct espl__csv *c, char *line, struct espl__diag *diag)
{
	int last;

	c->count = 0;
	do {
		char *end = field_end(line);
		char *field;

		last = *end == '\0';
		*end = '\0';
		field = trim_field(line);
		if (field[0] == '"' && unquote_field(field) == NULL)
			return espl__fail_at(diag, ESPL_E_CONFIG, c->file, c->line,
			    "unterminated quote in field %u", c->count + 1);
		if (c->count == FIELDS_MAX)
			return espl__fail_at(diag, ESPL_E_CONFIG, c->file, c->line,
			    "more than %u fields", FIELDS_MAX);
		ESPL__GROW(c->fields, c->cap, c->count + 1);
		c->fields[c->count++] = field;
		line = end + 1;
	} while (!last);
	return ESPL_OK;
}

espl_status
espl__csv_next(struct espl__csv *c, int *more, struct espl__diag *diag)
{
	*more = 0;
	while (c->at < c->end) {
		char *line = c->at;
		char *stop = memchr(line, '\n', (size_t)(c->end - line));
		size_t n;

		if (stop == NULL)
			stop = c->end;
		c->at = stop < c->end ? stop + 1 : c->end;
		c->line++;
		n = (size_t)(stop - line);
		if (n > 0 && line[n - 1] == '\r')
			n--;
		line[n] = '\0';
		if (memchr(line, '\0', n) != NULL)
			return espl__fail_at(diag, ESPL_E_CONFIG, c->file, c->line,
			    "the line contains a NUL byte, so this is not a text file");
		if (line[strspn(line, " \t")] == '\0' || line[0] == '#')
			continue;
		*more = 1;
		return split_line(c, line, diag);
	}
	return ESPL_OK;
}

int
espl__csv_number(const char *field, double *to)
{
	static const char *const none[] = { "", "nan", "NaN", "inf", "-inf", "Infinity",
		"-Infinity" };

	*to = NAN;
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		if (strcmp(field, none[i]) == 0)
			return 0;
	return espl__parse_real(field, to);
}
