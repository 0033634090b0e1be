/* listen.c - see listen.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "listen/listen.h"

#include <jansson.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/fill.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"

#define STEPS_MAX 200000u  /* of a match; a sane pattern takes a few hundred */
#define HEAP_MAX 20000u    /* KiB */
#define MATCHES_MAX 64     /* in one line */
#define PATTERN_MAX 10000u /* bytes */
#define ESCAPE '\x1b'
#define NUMBER \
	"(?<%.*s>[-+]?(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][-+]?[0-9]+)?" \
	"|[-+]?(?i:nan|inf(?:inity)?))"

struct espl__listen {
	char *iteration, *metric;
	pcre2_code *code; /* NULL: lines of JSON */
	pcre2_match_data *match;
	pcre2_match_context *limits;
	/* for the next report: metrics, and what was printed as their values */
	struct espl__names names;
	char *texts[ESPL__METRICS_IN_REPORT];
	double seen;    /* the iteration that the output named last; negative: none */
	int unnumbered; /* this line names an iteration that is none, as -1 */
	int from_zero;
	int escapes;           /* the pattern matches escape sequences itself */
	struct espl__buf line; /* without its escape sequences */
	uint64_t last, budget, hard, dropped;
};

/* ---- patterns ---------------------------------------------------------------------------- */

/* {NAME} becomes a group that matches a number; not after a backslash, as in \p{Lu} or \{x}. */
static void
expand_numbers(const char *pattern, struct espl__buf *to)
{
	for (const char *p = pattern; *p != '\0';) {
		size_t length = espl__fill_name(p);

		if (p[0] == '\\' && p[1] != '\0') {
			espl__put(to, p, 2);
			p += 2;
			if (strchr("pPkgxoN", p[-1]) == NULL || *p != '{')
				continue;
			length = strcspn(p, "}");
			espl__put(to, p, length);
			p += length;
		} else if (length > 0) {
			espl__print(to, NUMBER, (int)length, p + 1);
			p += length + 2;
		} else {
			espl__put(to, p++, 1);
		}
	}
}

static int
has_group(const struct espl__listen *l, const char *name)
{
	return pcre2_substring_nametable_scan(l->code, (PCRE2_SPTR)name, NULL, NULL) !=
	    PCRE2_ERROR_NOSUBSTRING;
}

static espl_status
compile_pattern(struct espl__listen *l, const char *pattern, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	pcre2_compile_context *compiling = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR why[200] = "";
	PCRE2_SIZE at = 0;
	int code = 0;

	l->escapes = strchr(pattern, ESCAPE) != NULL || strstr(pattern, "\\e") != NULL ||
	    strcasestr(pattern, "\\x1b") != NULL || strstr(pattern, "\\033") != NULL;
	expand_numbers(pattern, &text);
	if (compiling != NULL)
		(void)pcre2_set_max_pattern_length(compiling, PATTERN_MAX);
	l->code = pcre2_compile((PCRE2_SPTR)espl__buf_text(&text), text.size,
	    PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DUPNAMES | PCRE2_NEVER_BACKSLASH_C, &code,
	    &at, compiling);
	pcre2_compile_context_free(compiling);
	if (l->code == NULL) {
		(void)pcre2_get_error_message(code, why, sizeof why);
		espl__fail(diag, ESPL_E_CONFIG,
		    "the pattern is not a valid expression: %s, at '%.40s'", (const char *)why,
		    espl__buf_text(&text) + (at < text.size ? at : text.size));
		espl__buf_free(&text);
		return ESPL_E_CONFIG;
	}
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

/* ---- the description --------------------------------------------------------------------- */

void
espl__listen_spec_put(const struct espl__listen_spec *spec, struct espl__buf *to)
{
	espl__json_open(to, NULL, '{');
	espl__json_text(to, "from", spec->from);
	espl__json_text(to, "pattern", spec->pattern);
	espl__json_text(to, "iteration", spec->iteration);
	espl__json_text(to, "metric", spec->metric);
	espl__print(to, "}");
}

espl_status
espl__listen_new(const struct espl__listen_spec *spec, struct espl__listen **to,
    struct espl__diag *diag)
{
	struct espl__listen *l = espl__alloc(sizeof *l);
	espl_status status = ESPL_OK;

	*to = NULL;
	l->iteration = espl__strdup(spec->iteration);
	l->metric = espl__strdup(spec->metric);
	l->seen = -1;
	l->budget = UINT64_MAX;
	if (spec->pattern[0] != '\0')
		status = compile_pattern(l, spec->pattern, diag);
	if (status == ESPL_OK)
		*to = l;
	else
		espl__listen_free(l);
	return status;
}

espl_status
espl__listen_new_json(const char *text, struct espl__listen **to, int *from,
    struct espl__diag *diag)
{
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	struct espl__listen_spec spec = { json_string_value(json_object_get(root, "from")),
		json_string_value(json_object_get(root, "pattern")),
		json_string_value(json_object_get(root, "iteration")),
		json_string_value(json_object_get(root, "metric")) };
	espl_status status;

	*to = NULL;
	if (spec.from == NULL || spec.pattern == NULL || spec.iteration == NULL ||
	    spec.metric == NULL) {
		json_decref(root);
		return espl__fail(diag, ESPL_E_CONFIG, "not a valid SPEC: %s", text);
	}
	*from = strcmp(spec.from, "stderr") == 0 ? 2 : 1;
	status = espl__listen_new(&spec, to, diag);
	json_decref(root);
	return status;
}

static void
drop_values(struct espl__listen *l)
{
	for (uint32_t i = 0; i < l->names.count; i++) {
		free(l->texts[i]);
		l->texts[i] = NULL;
	}
	espl__names_free(&l->names);
}

void
espl__listen_free(struct espl__listen *l)
{
	if (l == NULL)
		return;
	drop_values(l);
	espl__buf_free(&l->line);
	pcre2_code_free(l->code);
	pcre2_match_data_free(l->match);
	pcre2_match_context_free(l->limits);
	free(l->iteration);
	free(l->metric);
	free(l);
}

void
espl__listen_begin(struct espl__listen *l, uint64_t done, uint64_t budget)
{
	l->last = done;
	l->budget = budget;
}

void
espl__listen_budget(struct espl__listen *l, uint64_t budget)
{
	l->budget = budget;
}

uint64_t
espl__listen_last(const struct espl__listen *l)
{
	return l->last;
}

uint64_t
espl__listen_hard(const struct espl__listen *l)
{
	return l->hard;
}

uint64_t
espl__listen_dropped(const struct espl__listen *l)
{
	return l->dropped;
}

/* ---- values ------------------------------------------------------------------------------ */

/* "nan", "inf" and "-inf" as the protocol writes them, the latter also for numbers beyond those of
 * a double; NULL: it is none of them. */
static const char *
special_of(const char *text)
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

	return special_of(text) != NULL || espl__parse_real(text, &number) == 0;
}

/* The iteration that a line names. One that cannot be counted, such as -1 before the first or nan,
 * makes the line no report; a part of one, such as 0.5, is left out of account. */
static void
take_iteration(struct espl__listen *l, const char *text)
{
	double number;

	if (special_of(text) != NULL) {
		l->unnumbered = 1;
	} else if (espl__parse_real(text, &number) == 0) {
		if (number < 0 || number > (double)ESPL__ITERATION_MOST) {
			l->unnumbered = 1;
		} else if (floor(number) == number) {
			l->from_zero |= l->seen < 0 && number == 0;
			l->seen = number;
		}
	}
}

/* Takes one value of a line; 1: it is the metric of the experiment. */
static int
take_value(struct espl__listen *l, const char *name, const char *text)
{
	int metric = strcmp(name, l->metric) == 0;
	uint32_t i;

	if (strcmp(name, l->iteration) == 0)
		take_iteration(l, text);
	if (!metric && (strcmp(name, l->iteration) == 0 || !is_number(text)))
		return 0;
	if (!espl__metric_named(name))
		return 0;
	i = espl__names_find(&l->names, name);
	/* A place is reserved for the metric of the experiment. */
	if (i == ESPL_ANY && !metric &&
	    l->names.count + (espl__names_find(&l->names, l->metric) == ESPL_ANY) >=
		ESPL__METRICS_IN_REPORT) {
		l->dropped++;
		return 0;
	}
	if (i == ESPL_ANY)
		i = espl__names_add(&l->names, name);
	free(l->texts[i]);
	l->texts[i] = espl__strdup(text);
	return metric;
}

static void
put_value(const char *name, const char *printed, struct espl__buf *to)
{
	const char *special = special_of(printed);
	double number;

	if (special == NULL && espl__parse_real(printed, &number) == 0) {
		char text[32];

		espl__json_raw(to, name, espl__format_real(number, text));
	} else {
		char *text = espl__format("%.100s", special != NULL ? special : printed);

		espl__json_text(to, name, text);
		free(text);
	}
}

/* The iteration of the report that is due now; 0: there is nothing new to report. */
static uint64_t
next_iteration(const struct espl__listen *l)
{
	uint64_t n = l->last + 1;

	if (l->seen >= 0)
		n = (uint64_t)l->seen + (l->from_zero ? 1 : 0);
	if (n <= l->last || l->last >= l->budget)
		return 0;
	return n < l->budget ? n : l->budget; /* a step over the budget has reached it */
}

static int
put_report(struct espl__listen *l, struct espl__buf *to)
{
	uint64_t iteration = next_iteration(l);

	if (iteration > 0) {
		l->last = iteration;
		espl__json_open(to, NULL, '{');
		espl__json_int(to, "iteration", (int64_t)iteration);
		espl__json_open(to, "metrics", '{');
		for (uint32_t i = 0; i < l->names.count; i++)
			put_value(l->names.names[i], l->texts[i], to);
		espl__print(to, "}}\n");
	}
	drop_values(l);
	return iteration > 0;
}

/* ---- lines ------------------------------------------------------------------------------- */

/* All groups that took part in the match; 1: the metric is among them. */
static int
take_groups(struct espl__listen *l, const char *line)
{
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(l->match);
	PCRE2_SPTR names = NULL;
	uint32_t count = 0, each = 0;
	int found = 0;

	(void)pcre2_pattern_info(l->code, PCRE2_INFO_NAMECOUNT, &count);
	(void)pcre2_pattern_info(l->code, PCRE2_INFO_NAMEENTRYSIZE, &each);
	(void)pcre2_pattern_info(l->code, PCRE2_INFO_NAMETABLE, &names);
	for (uint32_t i = 0; i < count; i++, names += each) {
		uint32_t group = (uint32_t)names[0] << 8 | names[1];
		char *text;

		if (ends[2 * group] == PCRE2_UNSET || ends[2 * group + 1] <= ends[2 * group])
			continue;
		text = espl__format("%.*s", (int)(ends[2 * group + 1] - ends[2 * group]),
		    line + ends[2 * group]);
		found |= take_value(l, (const char *)names + 2, text);
		free(text);
	}
	return found;
}

static int
match_line(struct espl__listen *l, const char *line, size_t size)
{
	PCRE2_SIZE at = 0;
	int found = 0;

	for (int i = 0; i < MATCHES_MAX && at <= size; i++) {
		const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(l->match);
		int got = pcre2_match(l->code, (PCRE2_SPTR)line, size, at, 0, l->match, l->limits);

		l->hard += got == PCRE2_ERROR_MATCHLIMIT || got == PCRE2_ERROR_HEAPLIMIT ||
		    got == PCRE2_ERROR_DEPTHLIMIT;
		if (got <= 0 || ends[1] <= at)
			return found | (got > 0 ? take_groups(l, line) : 0);
		found |= take_groups(l, line);
		at = ends[1];
	}
	return found;
}

static int
take_object(struct espl__listen *l, const char *line, size_t size)
{
	struct espl__buf quoted = { NULL, 0, 0 };
	size_t length = size;
	const char *clean = espl__json_quote(line, &length, &quoted), *name;
	json_t *root = json_loadb(clean, length, 0, NULL), *value;
	int found = 0;

	json_object_foreach (root, name, value) {
		const char *text = json_string_value(value);
		char number[32];

		if (json_is_number(value))
			text = espl__format_real(json_number_value(value), number);
		if (text != NULL)
			found |= take_value(l, name, text);
	}
	json_decref(root);
	espl__buf_free(&quoted);
	return found;
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
drop_escapes(struct espl__listen *l, const char *line, size_t *size)
{
	const char *end = line + *size;

	if (l->escapes || memchr(line, ESCAPE, *size) == NULL)
		return line;
	espl__buf_clear(&l->line);
	while (line < end) {
		const char *from = line;

		line = memchr(from, ESCAPE, (size_t)(end - from));
		line = line != NULL ? line : end;
		espl__put(&l->line, from, (size_t)(line - from));
		if (line < end)
			line = skip_escape(line, end);
	}
	*size = l->line.size;
	return espl__buf_text(&l->line);
}

int
espl__listen_line(struct espl__listen *l, const char *line, size_t size, struct espl__buf *to)
{
	int found;

	espl__buf_clear(to);
	l->unnumbered = 0;
	if (size > ESPL__LISTEN_LINE)
		size = ESPL__LISTEN_LINE;
	line = drop_escapes(l, line, &size);
	if (l->code != NULL)
		found = match_line(l, line, size);
	else
		found = memchr(line, '{', size) != NULL && take_object(l, line, size);
	if (l->unnumbered) {
		drop_values(l);
		return 0;
	}
	return found && put_report(l, to);
}
