/* line.c - see line.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "listen/line.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

#define STEPS_MAX 200000u  /* of a match; a sane pattern takes a few hundred */
#define HEAP_MAX 20000u    /* KiB */
#define MATCHES_MAX 64     /* in one line */
#define PATTERN_MAX 10000u /* bytes */
#define GROUP_NAME_MAX 32u /* bytes of PCRE2 */
#define MATCHED_MAX 65536u /* bytes of a line that a pattern sees */
#define DEPTH_MAX 16       /* of objects in a line of JSON */
#define OBJECTS_MAX 16     /* tried in a line that is more than one */
#define WHOLE_NAME_MAX 4096u
#define CALL_MAX 400u /* bytes of "tensor(...)" */
#define ESCAPE '\x1b'
/* between groups of digits in other languages: an apostrophe, spaces of several widths */
#define GROUP_SPACES "\\x{2019}\\x{a0}\\x{2009}\\x{202f}"
#define NUMBER \
	"(?<%s>[-+]?(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][-+]?[0-9]+)?%s" \
	"|[-+]?(?i:nan|inf(?:inity)?))"

struct espl__line {
	char *iteration, *metric;
	pcre2_code *code; /* NULL: lines of JSON */
	pcre2_match_data *match;
	pcre2_match_context *limits;
	/* names that are no names of groups: they are those of espalier_0, espalier_1, ... */
	struct espl__names odd;
	int escapes;            /* the pattern matches escape sequences itself */
	struct espl__buf plain; /* the line without its escape sequences */
	struct espl__said said;
	uint64_t hard;
	/* The pattern in which a number may be cut short, to find those that would be. */
	pcre2_code *loose;
	int loosely;   /* that one is being made */
	char *grouped; /* NULL: none was found */
	uint64_t grouped_lines;
};

/* ---- patterns ---------------------------------------------------------------------------- */

/* Length of the NAME of "{NAME}": any name of a parameter or metric, such as val/loss, but not a
 * quantifier, as {2,3}. */
static size_t
name_length(const char *at)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	size_t n;

	if (at[0] != '{' || at[1] == '\0' || strchr(letters, at[1]) == NULL)
		return 0;
	n = 1 +
	    strspn(at + 1,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
		"/.:@-");
	return at[n] == '}' && n - 1 <= ESPL__METRIC_NAME ? n - 1 : 0;
}

#define ODD_GROUP "espalier_"

static void
put_number(struct espl__line *l, const char *name, size_t length, char next, struct espl__buf *to)
{
	char *text = espl__format("%.*s", (int)length, name), *cut = NULL;
	int whole = strcmp(text, l->metric) == 0 && (next == '\0' || strchr("kKMG", next) == NULL);
	char marks[8] = "", *m = marks;

	/* Without this, the number in "1,234" were 1. What follows in the pattern may begin so. */
	for (const char *c = ",_x'"; *c != '\0'; c++)
		if (*c != next)
			*m++ = *c;
	*m = '\0';
	if (l->loosely)
		cut = espl__strdup("(?:[,_x'" GROUP_SPACES "][0-9][0-9.]*)*[kKMG]?");
	else if (next != '[' && next != '(' && next != '\\')
		cut = espl__format("(?![0-9.]*[%s" GROUP_SPACES "][0-9]%s)", marks,
		    whole ? "|[0-9.]*[kKMG](?![A-Za-z0-9_])" : "");
	if (length > GROUP_NAME_MAX || strpbrk(text, "/.:@-") != NULL ||
	    strncmp(text, ODD_GROUP, strlen(ODD_GROUP)) == 0) {
		char *group = espl__format(ODD_GROUP "%u", espl__names_add(&l->odd, text));

		free(text);
		text = group;
	}
	espl__print(to, NUMBER, text, cut != NULL ? cut : "");
	free(cut);
	free(text);
}

/* {NAME} becomes a group that matches a number; not after a backslash, as in \p{Lu} or \x{x}. */
static void
expand_numbers(struct espl__line *l, const char *pattern, struct espl__buf *to)
{
	for (const char *p = pattern; *p != '\0';) {
		size_t length = name_length(p);

		if (p[0] == '\\' && p[1] != '\0') {
			espl__put(to, p, 2);
			p += 2;
			if (strchr("pPkgxoN", p[-1]) == NULL || *p != '{')
				continue;
			length = strcspn(p, "}");
			espl__put(to, p, length);
			p += length;
		} else if (length > 0) {
			put_number(l, p + 1, length, p[length + 2], to);
			p += length + 2;
		} else {
			espl__put(to, p++, 1);
		}
	}
}

/* The name that a group stands for. */
static const char *
name_of_group(const struct espl__line *l, const char *group)
{
	int64_t number;

	if (strncmp(group, ODD_GROUP, strlen(ODD_GROUP)) == 0 &&
	    espl__parse_int(group + strlen(ODD_GROUP), &number) == 0 && number >= 0 &&
	    number < (int64_t)l->odd.count)
		return l->odd.names[number];
	return group;
}

static int
has_group(const struct espl__line *l, const char *name)
{
	uint32_t count = 0, each = 0;
	PCRE2_SPTR names = NULL;

	(void)pcre2_pattern_info(l->code, PCRE2_INFO_NAMECOUNT, &count);
	(void)pcre2_pattern_info(l->code, PCRE2_INFO_NAMEENTRYSIZE, &each);
	(void)pcre2_pattern_info(l->code, PCRE2_INFO_NAMETABLE, &names);
	for (uint32_t i = 0; i < count; i++, names += each)
		if (strcmp(name_of_group(l, (const char *)names + 2), name) == 0)
			return 1;
	return 0;
}

static pcre2_code *
compile_text(const struct espl__buf *text, int *code, PCRE2_SIZE *at)
{
	pcre2_compile_context *compiling = pcre2_compile_context_create(NULL);
	pcre2_code *made;

	if (compiling != NULL)
		(void)pcre2_set_max_pattern_length(compiling, PATTERN_MAX);
	made = pcre2_compile((PCRE2_SPTR)text->data, text->size,
	    PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DUPNAMES | PCRE2_NEVER_BACKSLASH_C, code,
	    at, compiling);
	pcre2_compile_context_free(compiling);
	return made;
}

static espl_status
compile_pattern(struct espl__line *l, const char *pattern, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	PCRE2_UCHAR why[200] = "";
	PCRE2_SIZE at = 0;
	int code = 0;

	l->escapes = strchr(pattern, ESCAPE) != NULL || strstr(pattern, "\\e") != NULL ||
	    strcasestr(pattern, "\\x1b") != NULL || strstr(pattern, "\\033") != NULL;
	expand_numbers(l, pattern, &text);
	(void)espl__buf_text(&text);
	l->code = compile_text(&text, &code, &at);
	if (l->code == NULL) {
		(void)pcre2_get_error_message(code, why, sizeof why);
		espl__fail(diag, ESPL_E_CONFIG,
		    "the pattern is not a valid expression: %s, at '%.40s'", (const char *)why,
		    espl__buf_text(&text) + (at < text.size ? at : text.size));
		espl__buf_free(&text);
		return ESPL_E_CONFIG;
	}
	espl__buf_clear(&text);
	l->loosely = 1;
	expand_numbers(l, pattern, &text);
	(void)espl__buf_text(&text);
	l->loose = compile_text(&text, &code, &at);
	espl__buf_free(&text);
	l->match = pcre2_match_data_create_from_pattern(l->code, NULL);
	l->limits = pcre2_match_context_create(NULL);
	if (l->match == NULL || l->limits == NULL)
		return espl__fail(diag, ESPL_E_NOMEM, "out of memory");
	(void)pcre2_set_match_limit(l->limits, STEPS_MAX);
	(void)pcre2_set_heap_limit(l->limits, HEAP_MAX);
	if (has_group(l, l->metric))
		return ESPL_OK;
	espl__fail(diag, ESPL_E_CONFIG, "the pattern has no group for the metric '%s'", l->metric);
	espl__hint(diag, "write {%s} where the number is printed", l->metric);
	return ESPL_E_CONFIG;
}

espl_status
espl__line_new(const char *pattern, const char *iteration, const char *metric,
    struct espl__line **to, struct espl__diag *diag)
{
	struct espl__line *l = espl__alloc(sizeof *l);
	espl_status status = ESPL_OK;

	*to = NULL;
	l->iteration = espl__strdup(iteration);
	l->metric = espl__strdup(metric);
	if (pattern[0] != '\0')
		status = compile_pattern(l, pattern, diag);
	if (status == ESPL_OK)
		*to = l;
	else
		espl__line_free(l);
	return status;
}

static void
forget_said(struct espl__said *said)
{
	for (uint32_t i = 0; i < said->names.count; i++) {
		free(said->texts[i]);
		said->texts[i] = NULL;
	}
	espl__names_free(&said->names);
	free(said->iteration);
	said->iteration = NULL;
	said->metric = 0;
	said->dropped = 0;
}

void
espl__line_free(struct espl__line *l)
{
	if (l == NULL)
		return;
	forget_said(&l->said);
	espl__names_free(&l->odd);
	espl__buf_free(&l->plain);
	pcre2_code_free(l->code);
	pcre2_code_free(l->loose);
	free(l->grouped);
	pcre2_match_data_free(l->match);
	pcre2_match_context_free(l->limits);
	free(l->iteration);
	free(l->metric);
	free(l);
}

int
espl__line_may_name(const struct espl__line *l)
{
	return l->code != NULL && has_group(l, l->iteration);
}

const char *
espl__line_grouped(const struct espl__line *l, uint64_t *lines)
{
	*lines = l->grouped_lines;
	return l->grouped;
}

uint64_t
espl__line_hard(const struct espl__line *l)
{
	return l->hard;
}

/* ---- values ------------------------------------------------------------------------------ */

const char *
espl__line_special(const char *text)
{
	char *end;
	double number;

	if (text[0] != '\0' && text[strspn(text, "+-.0123456789eE")] == '\0') {
		number = strtod(text, &end);
		if (!isinf(number) || *end != '\0')
			return NULL;
	} else if (espl__metric_word(text, &number) != 0) {
		return NULL;
	}
	return isnan(number) ? "nan" : number < 0 ? "-inf" : "inf";
}

static int
is_number(const char *text)
{
	double number;

	return espl__line_special(text) != NULL || espl__parse_real(text, &number) == 0;
}

static void
take_value(struct espl__line *l, const char *name, const char *text)
{
	struct espl__said *said = &l->said;
	int metric = strcmp(name, l->metric) == 0;
	uint32_t i;

	if (strcmp(name, l->iteration) == 0) {
		free(said->iteration);
		said->iteration = espl__strdup(text);
	}
	if (!metric && (strcmp(name, l->iteration) == 0 || !is_number(text)))
		return;
	if (!espl__metric_named(name))
		return;
	i = espl__names_find(&said->names, name);
	/* A place is reserved for the metric of the experiment. */
	if (i == ESPL_ANY && !metric &&
	    said->names.count + !said->metric >= ESPL__METRICS_IN_REPORT) {
		said->dropped++;
		return;
	}
	if (i == ESPL_ANY)
		i = espl__names_add(&said->names, name);
	free(said->texts[i]);
	said->texts[i] = espl__strdup(text);
	said->metric |= metric;
}

/* ---- lines ------------------------------------------------------------------------------- */

/* All groups that took part in the match of `code`, but those of which `skip`, unless NULL, says 1.
 */
static void
take_groups(struct espl__line *l, const pcre2_code *code, const char *line, size_t size,
    int skip(const char *line, size_t size, size_t from, size_t to))
{
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(l->match);
	PCRE2_SPTR names = NULL;
	uint32_t count = 0, each = 0;

	(void)pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &count);
	(void)pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &each);
	(void)pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &names);
	for (uint32_t i = 0; i < count; i++, names += each) {
		uint32_t group = (uint32_t)names[0] << 8 | names[1];
		char *text;

		if (ends[2 * group] == PCRE2_UNSET || ends[2 * group + 1] <= ends[2 * group] ||
		    (skip != NULL && skip(line, size, ends[2 * group], ends[2 * group + 1])))
			continue;
		text = espl__format("%.*s", (int)(ends[2 * group + 1] - ends[2 * group]),
		    line + ends[2 * group]);
		take_value(l, name_of_group(l, (const char *)names + 2), text);
		free(text);
	}
}

static void
match_line(struct espl__line *l, const char *line, size_t size)
{
	PCRE2_SIZE at = 0;

	for (int i = 0; i < MATCHES_MAX && at <= size; i++) {
		const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(l->match);
		int got = pcre2_match(l->code, (PCRE2_SPTR)line, size, at, 0, l->match, l->limits);

		l->hard += got == PCRE2_ERROR_MATCHLIMIT || got == PCRE2_ERROR_HEAPLIMIT ||
		    got == PCRE2_ERROR_DEPTHLIMIT;
		if (got > 0)
			take_groups(l, l->code, line, size, NULL);
		if (got <= 0 || ends[1] <= at)
			return;
		at = ends[1];
	}
}

/* Bytes of what may stand between groups of digits; 0: it is nothing of this kind. */
static size_t
group_mark(const char *p, size_t size)
{
	static const char *const wide[] = { "\xe2\x80\x99", "\xc2\xa0", "\xe2\x80\x89",
		"\xe2\x80\xaf" };

	if (strchr(",_x'", *p) != NULL)
		return *p != '\0';
	for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
		if (size >= strlen(wide[i]) && memcmp(p, wide[i], strlen(wide[i])) == 0)
			return strlen(wide[i]);
	return 0;
}

/* Does a number end here that is cut short: 1 of 1,234 or 3.2 of 3.2k? */
static int
is_cut(const char *p, size_t size)
{
	size_t mark = group_mark(p, size);

	if (mark > 0 && mark < size && isdigit((uint8_t)p[mark]))
		return 1;
	return strchr("kKMG", *p) != NULL && *p != '\0' &&
	    (size == 1 || !(isalnum((uint8_t)p[1]) || p[1] == '_'));
}

static int
has_groups(const char *line, size_t size)
{
	for (size_t i = 1; i < size; i++)
		if (isdigit((uint8_t)line[i - 1]) && is_cut(line + i, size - i))
			return 1;
	return 0;
}

/* The end of a number with grouped digits, which begins at `from`, and at `to` if it is cut short;
 * 0: it is whole. */
static size_t
grouped_end(const char *line, size_t size, size_t from, size_t to)
{
	while (to < size && to - from < 40) {
		size_t mark = group_mark(line + to, size - to);

		if (mark == 0 && !isxdigit((uint8_t)line[to]) && strchr(".kKMG", line[to]) == NULL)
			break;
		to += mark > 0 ? mark : 1;
	}
	return has_groups(line + from, to - from) ? to : 0;
}

static int
is_grouped(const char *line, size_t size, size_t from, size_t to)
{
	return grouped_end(line, size, from, to) > 0;
}

/* A line that does not match, since one of its numbers has grouped digits: without that number it
 * says what it says, unless it is the metric, or the iteration. */
static void
read_grouped(struct espl__line *l, const char *line, size_t size)
{
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(l->match);
	PCRE2_SPTR names = NULL;
	uint32_t count = 0, each = 0;
	int lost = 0;

	if (pcre2_match(l->loose, (PCRE2_SPTR)line, size, 0, 0, l->match, l->limits) <= 0)
		return;
	(void)pcre2_pattern_info(l->loose, PCRE2_INFO_NAMECOUNT, &count);
	(void)pcre2_pattern_info(l->loose, PCRE2_INFO_NAMEENTRYSIZE, &each);
	(void)pcre2_pattern_info(l->loose, PCRE2_INFO_NAMETABLE, &names);
	for (uint32_t i = 0; i < count; i++, names += each) {
		uint32_t group = (uint32_t)names[0] << 8 | names[1];
		const char *name = name_of_group(l, (const char *)names + 2);
		size_t from = ends[2 * group], to = ends[2 * group + 1], end;

		if (from == PCRE2_UNSET || to <= from)
			continue;
		end = grouped_end(line, size, from, to);
		if (end == 0)
			continue;
		lost |= strcmp(name, l->metric) == 0 || strcmp(name, l->iteration) == 0;
		if (l->grouped == NULL)
			l->grouped = espl__format("%.*s", (int)(end - from), line + from);
	}
	l->grouped_lines += (uint64_t)lost;
	if (!lost)
		take_groups(l, l->loose, line, size, is_grouped);
}

/* {"val": {"loss": 1}} has the metric val/loss. */
static void
take_members(struct espl__line *l, const json_t *object, const char *above, int depth)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		char *whole = espl__format("%s%s%s", above, above[0] != '\0' ? "/" : "", name);
		const char *text = json_string_value(value);
		char number[40];

		if (strlen(whole) > WHOLE_NAME_MAX) { /* no metric has such a name */
			free(whole);
			continue;
		}
		if (json_is_object(value) && depth < DEPTH_MAX)
			take_members(l, value, whole, depth + 1);
		if (json_is_number(value))
			text = espl__format_real(json_number_value(value), number);
		/* An iteration of 1.0 is an amount of training, one of 1 the name of an epoch. */
		if (json_is_real(value) && text[strcspn(text, ".eEn")] == '\0')
			text = strcat(number, ".0");
		if (text != NULL)
			take_value(l, whole, text);
		free(whole);
	}
}

/* np.float64(0.5), tensor(0.5, device='cuda:0'), Array(0.5, dtype=float32): a number as NumPy,
 * PyTorch and JAX print it, is replaced by what is in its parentheses. Its length; 0: there is
 * none. */
static size_t
put_call(const char *p, size_t length, size_t size, struct espl__buf *to)
{
	static const char *const words[][2] = { { "nan", "NaN" }, { "inf", "Infinity" },
		{ "-inf", "-Infinity" } };
	int numpy = length > 3 && strncmp(p, "np.", 3) == 0;
	const char *in = p + length + 1, *close, *comma;
	size_t n;

	if (!numpy && !(length == 6 && memcmp(p, "tensor", 6) == 0) &&
	    !(length == 5 && memcmp(p, "Array", 5) == 0))
		return 0;
	close = memchr(in, ')', size - length - 1 < CALL_MAX ? size - length - 1 : CALL_MAX);
	if (close == NULL)
		return 0;
	n = (size_t)(close - in);
	if (!numpy && n > 0 && in[0] == '[') { /* several numbers are no metric */
		espl__print(to, "null");
		return (size_t)(close - p) + 1;
	}
	comma = numpy ? NULL : memchr(in, ',', n);
	if (comma != NULL)
		n = (size_t)(comma - in);
	for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
		if (n == strlen(words[k][0]) && memcmp(in, words[k][0], n) == 0) {
			espl__print(to, "%s", words[k][1]);
			return (size_t)(close - p) + 1;
		}
	/* PyTorch prints "2." for 2.0 */
	espl__put(to, in, n);
	if (n > 0 && in[n - 1] == '.')
		espl__put_u8(to, '0');
	return (size_t)(close - p) + 1;
}

/* A word of Python in that of JSON; its length, 0: there is none. */
static size_t
put_python_word(const char *p, size_t size, struct espl__buf *to)
{
	static const char *const words[][2] = { { "None", "null" }, { "True", "true" },
		{ "False", "false" }, { "nan", "NaN" }, { "inf", "Infinity" } };
	size_t length = 0;

	while (
	    length < size && (p[length] == '.' || p[length] == '_' || isalnum((uint8_t)p[length])))
		length++;
	if (length < size && p[length] == '(') {
		size_t call = put_call(p, length, size, to);

		if (call > 0)
			return call;
	}
	for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
		if (length == strlen(words[k][0]) && memcmp(p, words[k][0], length) == 0) {
			espl__print(to, "%s", words[k][1]);
			return length;
		}
	espl__put(to, p, length);
	return length;
}

/* A Python dictionary as it prints itself: 'loss' in place of "loss", None, True, False. */
static void
requote(const char *line, size_t size, struct espl__buf *to)
{
	char quote = '\0';

	for (size_t i = 0; i < size;) {
		char c = line[i];
		size_t word = quote == '\0' ? put_python_word(line + i, size - i, to) : 0;

		if (word > 0) {
			i += word;
			continue;
		}
		i++;
		if (c == quote || (quote == '\0' && (c == '\'' || c == '"'))) {
			quote = quote == '\0' ? c : '\0';
			espl__put_u8(to, '"');
		} else if (quote == '\'' && c == '"') {
			espl__print(to, "\\\"");
		} else if (quote != '\0' && c == '\\' && i < size) {
			if (line[i] != '\'') /* JSON knows no such escape */
				espl__put_u8(to, '\\');
			espl__put_u8(to, (uint8_t)line[i++]);
		} else {
			espl__put_u8(to, (uint8_t)c);
		}
	}
}

static json_t *
parse_object(const char *text, size_t size)
{
	struct espl__buf quoted = { NULL, 0, 0 };
	size_t length = size;
	const char *clean = espl__json_quote(text, &length, &quoted);
	json_t *root = json_loadb(clean, length, 0, NULL);

	espl__buf_free(&quoted);
	if (root != NULL && !json_is_object(root)) {
		json_decref(root);
		root = NULL;
	}
	return root;
}

/* What follows the brackets that open at p; the next byte if they do not close. */
static const char *
skip_brackets(const char *p, const char *end)
{
	const char *from = p;
	int depth = 0;

	for (; p < end; p++) {
		depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
		if (depth == 0)
			return p + 1;
	}
	return from + 1;
}

/* The line has more than one object, or brackets that are none: "{rank0} {...} {done}". */
static void
take_objects(struct espl__line *l, const char *text, size_t size)
{
	struct espl__buf quoted = { NULL, 0, 0 };
	const char *p = espl__json_quote(text, &size, &quoted), *end = p + size;

	for (int i = 0; i < OBJECTS_MAX && p != NULL && p < end; i++) {
		json_error_t parsed;
		json_t *root = json_loadb(p, (size_t)(end - p), JSON_DISABLE_EOF_CHECK, &parsed);

		if (root != NULL && json_is_object(root)) {
			take_members(l, root, "", 0);
			p += parsed.position;
		} else {
			p = skip_brackets(p, end);
		}
		json_decref(root);
		if (p < end)
			p = memchr(p, '{', (size_t)(end - p));
	}
	espl__buf_free(&quoted);
}

/* The object may follow a prefix, such as a time, and be followed by words. */
static void
take_object(struct espl__line *l, const char *line, size_t size)
{
	const char *from = memchr(line, '{', size), *to = memrchr(line, '}', size);
	struct espl__buf text = { NULL, 0, 0 };
	json_t *root = NULL;

	if (from == NULL || to == NULL || to < from)
		return;
	size = (size_t)(to - from) + 1;
	root = parse_object(from, size);
	if (root == NULL && memchr(from, '\'', size) != NULL) {
		requote(from, size, &text);
		from = (const char *)text.data;
		size = text.size;
		root = parse_object(from, size);
	}
	if (root != NULL)
		take_members(l, root, "", 0);
	else
		take_objects(l, from, size);
	json_decref(root);
	espl__buf_free(&text);
}

/* The end of the escape sequence at p: a control sequence, as for colors, a string for the
 * terminal, as a title or a link, or two bytes. */
static const char *
skip_escape(const char *p, const char *end)
{
	char kind = ++p < end ? *p : '\0';

	p += p < end;
	if (kind == '[' || (kind >= ' ' && kind < '0')) {
		while (p < end && *p >= ' ' && *p < (kind == '[' ? '@' : '0'))
			p++;
		return p + (p < end);
	}
	if (kind == '\0' || strchr("]PX^_", kind) == NULL)
		return p;
	while (p < end && *p != '\a' && *p != ESCAPE)
		p++;
	return p + (p < end && *p == '\a');
}

/* The line as it is read on a terminal. */
static const char *
drop_escapes(struct espl__line *l, const char *line, size_t *size)
{
	const char *end = line + *size;

	if (l->escapes || memchr(line, ESCAPE, *size) == NULL)
		return line;
	espl__buf_clear(&l->plain);
	while (line < end) {
		const char *from = line;

		line = memchr(from, ESCAPE, (size_t)(end - from));
		line = line != NULL ? line : end;
		espl__put(&l->plain, from, (size_t)(line - from));
		if (line < end)
			line = skip_escape(line, end);
	}
	*size = l->plain.size;
	return espl__buf_text(&l->plain);
}

const struct espl__said *
espl__line_read(struct espl__line *l, const char *line, size_t size)
{
	forget_said(&l->said);
	line = drop_escapes(l, line, &size);
	if (l->code == NULL) {
		take_object(l, line, size);
		return &l->said;
	}
	size = size < MATCHED_MAX ? size : MATCHED_MAX;
	match_line(l, line, size);
	if (!l->said.metric && l->loose != NULL && has_groups(line, size))
		read_grouped(l, line, size);
	return &l->said;
}
