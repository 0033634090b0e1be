/* scan.c - reads configuration text before libconfig does.
 *
 * libconfig 1.5 wraps integers that do not fit, takes an unclosed comment for the end of the file,
 * opens included files by itself and reports nearly everything as "syntax error".  So the text is
 * read here first: tokens are split, numbers checked and rewritten, includes inserted, and common
 * mistakes get a message of their own.
 */
#include "base/assert.h"
#include "config/scan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

#define INCLUDE_DEPTH 10
#define INCLUDE_COUNT 1000

/* What stood before, scan->before */
#define BEFORE_NOTHING 0
#define BEFORE_NAME 'n'
#define BEFORE_EQUALS '='
#define BEFORE_VALUE 'v'
#define BEFORE_STRING 's' /* a value; in a group another string may follow and joins it */
#define BEFORE_OPEN '('
#define BEFORE_COMMA ','

struct input {
	struct espl__scan *scan;
	const char *at, *end;
	const char *file;
	uint32_t line;
	uint32_t depth; /* of includes */
	int may_include;
	struct espl__diag *diag;
};

static espl_status scan_input(struct input *);

/* ASCII only: the locale must not decide what a configuration means. */
static int
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int
is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static unsigned int
hex_digit(char c)
{
	return is_digit(c) ? (unsigned int)(c - '0') : (unsigned int)((c | 0x20) - 'a') + 10;
}

static int
is_name(char c)
{
	return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '*';
}

static void
begin_part(struct input *in)
{
	struct espl__scan *scan = in->scan;
	struct espl__scan_part *part;

	ESPL__GROW(scan->parts, scan->part_cap, scan->part_count + 1);
	part = &scan->parts[scan->part_count++];
	part->flat = scan->flat;
	part->line = in->line;
	part->file = in->file;
}

static void
put_newline(struct input *in)
{
	in->line++;
	in->scan->flat++;
	espl__put_u8(&in->scan->text, '\n');
}

/* ---- tokens ------------------------------------------------------------------------ */

static int
in_list(const struct espl__scan *scan)
{
	return scan->depth > 0 && scan->open[scan->depth - 1].what != '{';
}

/* A value begins here: may it? */
static espl_status
begin_value(struct input *in, const char *what, int string)
{
	struct espl__scan *scan = in->scan;

	if (scan->before == BEFORE_NAME) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, scan->before_line,
		    "'=' is missing after '%s'", scan->word);
		espl__hint(in->diag, "write a setting as  name = value;");
		return ESPL_E_CONFIG;
	}
	if (in_list(scan) && (scan->before == BEFORE_VALUE || scan->before == BEFORE_STRING)) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "missing comma before %s", what);
		espl__hint(in->diag,
		    "separate the elements of a list ( ) or array [ ] with commas");
		return ESPL_E_CONFIG;
	}
	if (!in_list(scan) && scan->before != BEFORE_EQUALS &&
	    !(string && scan->before == BEFORE_STRING)) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "expected a name, found %s", what);
		espl__hint(in->diag,
		    "a group contains settings of the form  name = value;  names begin with a "
		    "letter, or are put in double quotes");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static void
note_before(struct input *in, char before)
{
	in->scan->before = before;
	in->scan->before_line = in->line;
}

static espl_status
scan_number(struct input *in)
{
	const char *from = in->at;
	size_t size;
	int64_t i = 0;
	double r = 0;
	int wide;
	espl_status status;
	int hex = from + 1 < in->end && from[0] == '0' && (from[1] == 'x' || from[1] == 'X');

	in->at++;
	while (in->at < in->end &&
	    (is_letter(*in->at) || is_digit(*in->at) || *in->at == '.' || *in->at == '_' ||
		((*in->at == '+' || *in->at == '-') && !hex &&
		    (in->at[-1] == 'e' || in->at[-1] == 'E'))))
		in->at++;
	size = (size_t)(in->at - from);
	status = begin_value(in, "a number", 0);
	if (status != ESPL_OK)
		return status;
	switch (espl__scan_number(from, size, &i, &r, &wide)) {
	case 'i': espl__print(&in->scan->text, "%lldL", (long long)i); break;
	case 'r': espl__put(&in->scan->text, from, size); break;
	default: {
		int shown = size > 60 ? 60 : (int)size;

		if (wide) {
			espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
			    "the number %.*s is out of range", shown, from);
			espl__hint(in->diag,
			    "the range of integers is -2^63 to 2^63-1, of real numbers up to "
			    "1.8e308");
		} else {
			espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
			    "'%.*s' is not a number", shown, from);
			espl__hint(in->diag, "put text, time spans and sizes in quotes: \"%.*s\"",
			    shown, from);
		}
		return ESPL_E_CONFIG;
	}
	}
	note_before(in, BEFORE_VALUE);
	return ESPL_OK;
}

static int
word_is(const char *from, size_t size, const char *word)
{
	size_t at;

	for (at = 0; at < size && word[at] != '\0'; at++)
		if ((from[at] | 0x20) != word[at])
			return 0;
	return at == size && word[at] == '\0';
}

static espl_status
scan_word(struct input *in)
{
	const char *from = in->at;
	size_t size;
	int shown;
	struct espl__scan *scan = in->scan;

	while (in->at < in->end && is_name(*in->at))
		in->at++;
	size = (size_t)(in->at - from);
	shown = size > 60 ? 60 : (int)size;
	espl__put(&scan->text, from, size);
	if (size > 1 && memcmp(from, ESPL__SCAN_CODED, 2) == 0)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "put the name %.*s in double quotes", shown, from);
	if (scan->before == BEFORE_EQUALS || in_list(scan)) {
		if (word_is(from, size, "true") || word_is(from, size, "false")) {
			espl_status status = begin_value(in, "true or false", 0);

			note_before(in, BEFORE_VALUE);
			return status;
		}
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "missing quotes around %.*s", shown, from);
		espl__hint(in->diag, "write \"%.*s\"", shown, from);
		return ESPL_E_CONFIG;
	}
	if (scan->before == BEFORE_NAME) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, scan->before_line,
		    "'=' is missing after '%s'", scan->word);
		espl__hint(in->diag, "write a setting as  name = value;");
		return ESPL_E_CONFIG;
	}
	memcpy(scan->word, from, (size_t)shown);
	scan->word[shown] = '\0';
	note_before(in, BEFORE_NAME);
	return ESPL_OK;
}

static espl_status
fail_unterminated(struct input *in, const char *from, uint32_t line)
{
	const char *stop = memchr(from, '\n', (size_t)(in->end - from));
	size_t size = (size_t)((stop != NULL ? stop : in->end) - from);

	espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, line, "unterminated string %.*s",
	    size > 40 ? 40 : (int)size, from);
	espl__hint(in->diag, "a string ends with \"; write a \" inside it as \\\"");
	return ESPL_E_CONFIG;
}

/* Where a string would not be a value, it is the name of a setting. */
static int
is_name_due(const struct espl__scan *scan)
{
	return !in_list(scan) &&
	    (scan->before == BEFORE_NOTHING || scan->before == BEFORE_OPEN ||
		scan->before == BEFORE_COMMA || scan->before == BEFORE_VALUE);
}

/* The text of a string on one line, from its first quote past its last; -1: it has no end. */
static int
take_text(struct input *in, struct espl__buf *to)
{
	static const char marks[] = "nrtf", means[] = "\n\r\t\f";

	for (in->at++; in->at < in->end && *in->at != '\n'; in->at++) {
		const char *mark;
		char c = *in->at;

		if (c == '"') {
			in->at++;
			return 0;
		}
		if (c == '\\' && in->at + 1 < in->end) {
			c = *++in->at;
			mark = strchr(marks, c);
			if (c == 'x' && in->end - in->at > 2 && is_hex(in->at[1]) &&
			    is_hex(in->at[2])) {
				c = (char)(hex_digit(in->at[1]) << 4 | hex_digit(in->at[2]));
				in->at += 2;
			} else if (mark != NULL && c != '\0') {
				c = means[mark - marks];
			}
		}
		espl__put_u8(to, (uint8_t)c);
	}
	return -1;
}

/* "optimizer.lr" = ...: a name that needs its quotes is coded for libconfig. */
static espl_status
scan_quoted_name(struct input *in)
{
	struct espl__scan *scan = in->scan;
	struct espl__buf name = { NULL, 0, 0 };
	const char *from = in->at, *text;
	espl_status status = ESPL_OK;

	if (take_text(in, &name) != 0) {
		status = fail_unterminated(in, from, in->line);
	} else if (name.size == 0 || memchr(name.data, '\0', name.size) != NULL) {
		status = espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "a name must not be empty or contain the character \\x00");
	} else {
		text = espl__buf_text(&name);
		if (espl__scan_plain(text)) {
			espl__put(&scan->text, text, name.size);
		} else {
			espl__print(&scan->text, ESPL__SCAN_CODED);
			for (size_t i = 0; i < name.size; i++)
				espl__print(&scan->text, "%02x", name.data[i]);
		}
		snprintf(scan->word, sizeof scan->word, "%s", text);
		note_before(in, BEFORE_NAME);
	}
	espl__buf_free(&name);
	return status;
}

static espl_status
scan_string(struct input *in)
{
	const char *from = in->at;
	uint32_t line = in->line;
	espl_status status = begin_value(in, "a string", 1);

	if (status != ESPL_OK)
		return status;
	espl__put_u8(&in->scan->text, '"');
	for (in->at++; in->at < in->end; in->at++) {
		char c = *in->at;

		if (c == '\n') {
			put_newline(in);
			continue;
		}
		espl__put_u8(&in->scan->text, (uint8_t)c);
		if (c == '"')
			break;
		if (c != '\\' || in->at + 1 >= in->end || in->at[1] == '\n')
			continue;
		in->at++;
		espl__put_u8(&in->scan->text, (uint8_t)*in->at);
		if ((*in->at == 'x' || *in->at == 'X') && in->end - in->at > 2 &&
		    in->at[1] == '0' && in->at[2] == '0')
			return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
			    "a string must not contain the character \\x00");
	}
	if (in->at >= in->end)
		return fail_unterminated(in, from, line);
	in->at++;
	note_before(in, BEFORE_STRING);
	return ESPL_OK;
}

static espl_status
scan_open(struct input *in)
{
	struct espl__scan *scan = in->scan;
	char what[] = { '\'', *in->at, '\'', '\0' };
	espl_status status = begin_value(in, what, 0);

	if (status != ESPL_OK)
		return status;
	if (scan->depth == ESPL__SCAN_DEPTH)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "groups and lists are nested more than %d deep", ESPL__SCAN_DEPTH);
	scan->open[scan->depth].what = *in->at;
	scan->open[scan->depth].line = in->line;
	scan->open[scan->depth].file = in->file;
	scan->depth++;
	espl__put_u8(&scan->text, (uint8_t)*in->at++);
	note_before(in, BEFORE_OPEN);
	return ESPL_OK;
}

static espl_status
scan_close(struct input *in)
{
	struct espl__scan *scan = in->scan;
	char close = *in->at;
	char open = close == '}' ? '{' : close == ')' ? '(' : '[';

	if (scan->depth == 0) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line, "unmatched '%c'", close);
		espl__hint(in->diag, "remove the extra '%c', or add the missing '%c' before it",
		    close, open);
		return ESPL_E_CONFIG;
	}
	if (scan->open[scan->depth - 1].what != open) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "'%c' in line %u is closed by '%c'", scan->open[scan->depth - 1].what,
		    scan->open[scan->depth - 1].line, close);
		espl__hint(in->diag, "write groups as { }, lists as ( ), arrays as [ ]");
		return ESPL_E_CONFIG;
	}
	if (open == '{' && (scan->before == BEFORE_NAME || scan->before == BEFORE_EQUALS)) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, scan->before_line,
		    "'%s' has no value", scan->word);
		return ESPL_E_CONFIG;
	}
	if (open != '{' && scan->before == BEFORE_COMMA) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "unexpected comma before '%c'", close);
		espl__hint(in->diag, "remove the comma after the last element");
		return ESPL_E_CONFIG;
	}
	scan->depth--;
	espl__put_u8(&scan->text, (uint8_t)*in->at++);
	note_before(in, BEFORE_VALUE);
	return ESPL_OK;
}

static espl_status
scan_mark(struct input *in)
{
	struct espl__scan *scan = in->scan;
	char c = *in->at++;

	espl__put_u8(&scan->text, (uint8_t)c);
	if (c == '=' || c == ':') {
		if (scan->before != BEFORE_NAME)
			return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
			    "'%c' without a name before it", c);
		note_before(in, BEFORE_EQUALS);
		return ESPL_OK;
	}
	if (scan->before == BEFORE_NAME || scan->before == BEFORE_EQUALS)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "'%s' has no value", scan->word);
	if (in_list(scan)) {
		if (c == ';' || (scan->before != BEFORE_VALUE && scan->before != BEFORE_STRING)) {
			espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
			    c == ';' ? "';' inside a list or array"
				     : "unexpected comma without an element before it");
			espl__hint(in->diag,
			    "write one comma between two elements of the list or array that starts "
			    "in line %u",
			    scan->open[scan->depth - 1].line);
			return ESPL_E_CONFIG;
		}
	} else if (scan->before != BEFORE_VALUE && scan->before != BEFORE_STRING) {
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "'%c' without a setting before it", c);
	}
	note_before(in, BEFORE_COMMA);
	return ESPL_OK;
}

/* ---- comments and includes --------------------------------------------------------- */

static espl_status
skip_comment(struct input *in)
{
	uint32_t line = in->line;

	if (*in->at == '#' || in->at[1] == '/') {
		while (in->at < in->end && *in->at != '\n')
			in->at++;
		return ESPL_OK;
	}
	espl__put_u8(&in->scan->text, ' ');
	for (in->at += 2; in->at + 1 < in->end; in->at++) {
		if (in->at[0] == '*' && in->at[1] == '/') {
			in->at += 2;
			return ESPL_OK;
		}
		if (*in->at == '\n')
			put_newline(in);
	}
	espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, line, "unterminated comment");
	espl__hint(in->diag, "a comment that starts with /* ends with */");
	return ESPL_E_CONFIG;
}

static espl_status
check_bytes(struct input *in, size_t size)
{
	const char *nul = memchr(in->at, '\0', size);

	if (nul != NULL) {
		uint32_t line = 1;

		for (const char *c = in->at; c < nul; c++)
			line += *c == '\n';
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, line,
		    "the file contains a NUL byte, so it is not a text file");
	}
	if (size > ESPL__SCAN_LIMIT - in->scan->text.size)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, 0,
		    "the configuration is larger than 16 MiB");
	return ESPL_OK;
}

static espl_status
scan_path(struct espl__scan *scan, const char *path, uint32_t depth, struct espl__diag *diag)
{
	struct espl__buf buf = { NULL, 0, 0 };
	struct input in = { .scan = scan,
		.line = 1,
		.depth = depth,
		.may_include = 1,
		.diag = diag };
	struct espl__diag inner = ESPL__DIAG_INIT;
	espl_status status = ESPL_OK;

	if (espl__file_read(path, ESPL__SCAN_LIMIT, &buf, &inner) != ESPL_OK)
		status = espl__fail(diag, ESPL_E_CONFIG, "%s", inner.text);
	if (status == ESPL_OK) {
		in.file = espl__arena_strdup(&scan->names, path);
		in.at = (const char *)buf.data;
		in.end = in.at + buf.size;
		status = check_bytes(&in, buf.size);
	}
	if (status == ESPL_OK && buf.size > 0)
		status = scan_input(&in);
	espl__buf_free(&buf);
	return status;
}

static espl_status
include_file(struct input *in, const char *name, size_t size)
{
	const char *slash = strrchr(in->file, '/');
	char *path;
	espl_status status;
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct stat st;

	if (!in->may_include)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "@include is only allowed in files");
	if (in->depth + 1 > INCLUDE_DEPTH || ++in->scan->include_count > INCLUDE_COUNT) {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "too many files are included (%d deep or %d in all)", INCLUDE_DEPTH,
		    INCLUDE_COUNT);
		espl__hint(in->diag, "does a file include itself?");
		return ESPL_E_CONFIG;
	}
	if (size == 0 || size > 4000)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "@include needs the name of a file");
	if (name[0] == '/' || slash == NULL)
		path = espl__format("%.*s", (int)size, name);
	else
		path =
		    espl__format("%.*s/%.*s", (int)(slash - in->file), in->file, (int)size, name);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* opening a pipe could block forever */
		status = espl__fail(&inner, ESPL_E_CONFIG, "'%.*s' is not a regular file",
		    (int)size, name);
	else
		status = scan_path(in->scan, path, in->depth + 1, &inner);
	if (status != ESPL_OK) {
		if (inner.line == 0) /* the file itself cannot be read: blame this line */
			espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line, "@include: %s",
			    inner.text);
		else
			espl__fail_at(in->diag, ESPL_E_CONFIG, inner.file, inner.line, "%s",
			    inner.text);
		if (inner.hint[0] != '\0')
			espl__hint(in->diag, "%s", inner.hint);
	}
	free(path);
	return status;
}

static espl_status
scan_include(struct input *in)
{
	static const char word[] = "@include";
	const char *from = in->at, *name;
	espl_status status;

	if ((size_t)(in->end - in->at) < sizeof word - 1 ||
	    memcmp(in->at, word, sizeof word - 1) != 0)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line, "unexpected '@'");
	from += sizeof word - 1;
	while (from < in->end && (*from == ' ' || *from == '\t'))
		from++;
	name = ++from;
	while (from < in->end && *from != '"' && *from != '\n')
		from++;
	if (name >= in->end || name[-1] != '"' || from >= in->end || *from != '"') {
		espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "@include needs a file name in quotes");
		espl__hint(in->diag, "write  @include \"file.cfg\"");
		return ESPL_E_CONFIG;
	}
	in->at = from + 1;
	status = include_file(in, name, (size_t)(from - name));
	if (status != ESPL_OK)
		return status;
	espl__put_u8(&in->scan->text, '\n'); /* ends the included file's last line */
	in->scan->flat++;
	begin_part(in);
	return ESPL_OK;
}

/* ---- the whole --------------------------------------------------------------------- */

static espl_status
scan_token(struct input *in)
{
	char c = *in->at;
	char next = in->at + 1 < in->end ? in->at[1] : '\0';

	if (c == '#' || (c == '/' && (next == '/' || next == '*')))
		return skip_comment(in);
	if (c == '"')
		return is_name_due(in->scan) ? scan_quoted_name(in) : scan_string(in);
	if (is_digit(c) || ((c == '-' || c == '+' || c == '.') && (is_digit(next) || next == '.')))
		return scan_number(in);
	if (is_letter(c) || c == '*')
		return scan_word(in);
	if (c == '{' || c == '(' || c == '[')
		return scan_open(in);
	if (c == '}' || c == ')' || c == ']')
		return scan_close(in);
	if (c == '=' || c == ':' || c == ',' || c == ';')
		return scan_mark(in);
	if (c == '@')
		return scan_include(in);
	if ((unsigned char)c < 0x20 || (unsigned char)c >= 0x7f)
		return espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line,
		    "unexpected character \\x%02x outside of a string", (unsigned char)c);
	espl__fail_at(in->diag, ESPL_E_CONFIG, in->file, in->line, "unexpected '%c'", c);
	if (c == '_')
		espl__hint(in->diag,
		    "names begin with a letter; put any other name in double quotes");
	else if (c == '\'')
		espl__hint(in->diag, "put text in double quotes: \"...\"");
	return ESPL_E_CONFIG;
}

static espl_status
scan_input(struct input *in)
{
	espl_status status = ESPL_OK;

	begin_part(in);
	if (in->end - in->at >= 3 && memcmp(in->at, "\xef\xbb\xbf", 3) == 0)
		in->at += 3; /* byte order mark of some editors */
	while (status == ESPL_OK && in->at < in->end) {
		char c = *in->at;

		if (c == '\n') {
			put_newline(in);
			in->at++;
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
			espl__put_u8(&in->scan->text, ' ');
			in->at++;
		} else {
			status = scan_token(in);
		}
	}
	return status;
}

static espl_status
scan_end(struct espl__scan *scan, struct espl__diag *diag)
{
	if (scan->depth > 0) {
		const struct espl__scan_open *open = &scan->open[scan->depth - 1];

		espl__fail_at(diag, ESPL_E_CONFIG, open->file, open->line, "unclosed '%c'",
		    open->what);
		espl__hint(diag, "write groups as { }, lists as ( ), arrays as [ ]");
		return ESPL_E_CONFIG;
	}
	if (scan->before == BEFORE_NAME || scan->before == BEFORE_EQUALS) {
		const char *file =
		    scan->part_count > 0 ? scan->parts[scan->part_count - 1].file : NULL;

		return espl__fail_at(diag, ESPL_E_CONFIG, file, scan->before_line,
		    "'%s' has no value", scan->word);
	}
	return ESPL_OK;
}

espl_status
espl__scan_file(struct espl__scan *scan, const char *path, struct espl__diag *diag)
{
	espl_status status;

	memset(scan, 0, sizeof *scan);
	scan->flat = 1;
	status = scan_path(scan, path, 0, diag);
	return status == ESPL_OK ? scan_end(scan, diag) : status;
}

espl_status
espl__scan_text(struct espl__scan *scan, const char *text, size_t size, const char *name,
    struct espl__diag *diag)
{
	struct input in = { .scan = scan, .at = text, .end = text + size, .line = 1, .diag = diag };
	espl_status status;

	ESPL__ASSERT(text != NULL || size == 0);
	memset(scan, 0, sizeof *scan);
	scan->flat = 1;
	in.file = espl__arena_strdup(&scan->names, name);
	status = check_bytes(&in, size);
	if (status == ESPL_OK)
		status = scan_input(&in);
	return status == ESPL_OK ? scan_end(scan, diag) : status;
}

void
espl__scan_free(struct espl__scan *scan)
{
	espl__buf_free(&scan->text);
	free(scan->parts);
	espl__arena_free(&scan->names);
	memset(scan, 0, sizeof *scan);
}
