/* script.c - see script.h: a scanner that knows Python's strings, comments and brackets, and
 * nothing else of the language.
 */
#include "init/script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define DEPTH_MAX 200 /* of brackets */
#define CHOICES_MAX 64u
#define NAMES_MAX 64u

struct parser { /* or a group of one, in a variable */
	const char *name, *group;
	uint32_t rivals; /* as of an option */
};
struct reader {
	struct espl__script *s;
	const char *p;
	struct parser parsers[NAMES_MAX];
	uint32_t parser_count;
	const char *err_end, *log_end; /* of a call that prints to standard error, or logs */
	const char *print_end;         /* of a call of print */
	int clicks;                    /* click.group() was called */
	char *command;                 /* of click, that has its options but not yet its name */
};

/* ---- pieces ------------------------------------------------------------------------------ */

static int
is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static const char *
skip_space(const char *p)
{
	for (;; p++) {
		if (*p == '#')
			p += strcspn(p, "\n");
		else if (*p == '\\' && p[1] == '\n')
			p++;
		else if (*p == '\0' || strchr(" \t\r\n\f", *p) == NULL)
			return p;
		if (*p == '\0')
			return p;
	}
}

/* Bytes of a string literal's prefix and opening quotes at p; 0: none begins here. */
static size_t
opens_string(const char *p, int *raw, char *quote, size_t *quotes)
{
	size_t n = 0;

	*raw = 0;
	while (n < 3 && p[n] != '\0' && strchr("rRbBfFuU", p[n]) != NULL)
		*raw |= p[n] == 'r' || p[n] == 'R', n++;
	if (n > 2 || (p[n] != '"' && p[n] != '\''))
		return 0;
	*quote = p[n];
	*quotes = p[n + 1] == *quote && p[n + 2] == *quote ? 3 : 1;
	return n + *quotes;
}

static void
put_escape(char c, struct espl__buf *to)
{
	switch (c) {
	case 'n': espl__put_u8(to, '\n'); break;
	case 't': espl__put_u8(to, '\t'); break;
	case 'r': espl__put_u8(to, '\r'); break;
	case '\n': break;
	case '\\':
	case '\'':
	case '"': espl__put_u8(to, (uint8_t)c); break;
	default: espl__put_u8(to, ' '); break; /* \x1b and the like: nothing to match */
	}
}

/* The string literal at p, decoded into `to` unless NULL.  Its end, or NULL: there is none. */
static const char *
read_string(const char *p, struct espl__buf *to)
{
	size_t quotes, open;
	char quote;
	int raw;

	open = opens_string(p, &raw, &quote, &quotes);
	if (open == 0)
		return NULL;
	for (p += open; *p != '\0'; p++) {
		if (*p == quote && (quotes == 1 || (p[1] == quote && p[2] == quote)))
			return p + quotes;
		if (*p == '\n' && quotes == 1)
			return p; /* not closed */
		if (*p == '\\' && p[1] != '\0') {
			p++;
			if (to != NULL && raw)
				espl__put(to, p - 1, 2);
			else if (to != NULL)
				put_escape(*p, to);
		} else if (to != NULL) {
			espl__put_u8(to, (uint8_t)*p);
		}
	}
	return p;
}

/* The end of an expression: a comma or a closing bracket outside of all brackets. */
static const char *
skip_value(const char *p)
{
	int depth = 0;

	while (*p != '\0') {
		const char *end = read_string(p, NULL);

		if (end != NULL) {
			p = end;
		} else if (is_word(*p)) {
			while (is_word(*p))
				p++;
		} else if (*p == '#') {
			p += strcspn(p, "\n");
		} else {
			if (depth == 0 && strchr(",)]}", *p) != NULL)
				return p;
			depth += strchr("([{", *p) != NULL;
			depth -= strchr(")]}", *p) != NULL;
			if (depth > DEPTH_MAX)
				return p + strlen(p);
			p++;
		}
	}
	return p;
}

static char *
copy_utf8(struct reader *r, const char *from, size_t size)
{
	char *to = espl__arena_alloc(&r->s->arena, size + 1);

	memcpy(to, from, size);
	for (char *p = to; *p != '\0';) { /* a configuration is UTF-8 */
		size_t n = espl__utf8_length((const unsigned char *)p);

		if (n == 0)
			*p = '?';
		p += n > 0 ? n : 1;
	}
	return to;
}

/* ---- values ------------------------------------------------------------------------------ */

/* Adjacent string literals, perhaps in parentheses, and nothing else. */
static int
read_texts(const char *p, const char *end, struct espl__buf *to)
{
	int found = 0;

	for (p = skip_space(p); p < end; p = skip_space(p)) {
		const char *after = read_string(p, to);

		if (after == NULL && *p != '(' && *p != ')')
			return 0;
		found |= after != NULL;
		p = after != NULL ? after : p + 1;
	}
	return found;
}

static void
read_number(const char *text, struct espl__py_value *v)
{
	char *plain = espl__strdup(text), *to = plain;
	int64_t whole;

	for (const char *p = text; *p != '\0'; p++)
		if (*p != '_')
			*to++ = *p;
	*to = '\0';
	if (espl__parse_int(plain, &whole) == 0) {
		v->kind = ESPL__LIT_INT;
		v->number = (double)whole;
	} else if (espl__parse_real(plain, &v->number) == 0) {
		v->kind = ESPL__LIT_REAL;
	}
	free(plain);
}

static void
read_value(struct reader *r, const char *p, const char *end, struct espl__py_value *v)
{
	struct espl__buf text = { NULL, 0, 0 };

	while (end > p && isspace((unsigned char)end[-1]))
		end--;
	p = skip_space(p);
	if (end < p)
		end = p;
	v->kind = ESPL__LIT_OTHER;
	v->text = copy_utf8(r, p, (size_t)(end - p));
	if (read_texts(p, end, &text)) {
		v->kind = ESPL__LIT_TEXT;
		v->text = copy_utf8(r, espl__buf_text(&text), text.size);
	} else if (strcmp(v->text, "None") == 0) {
		v->kind = ESPL__LIT_NONE;
	} else if (strcmp(v->text, "True") == 0 || strcmp(v->text, "False") == 0) {
		v->kind = ESPL__LIT_BOOL;
		v->number = v->text[0] == 'T';
	} else {
		read_number(v->text, v);
	}
	espl__buf_free(&text);
}

static void
read_choices(struct reader *r, const char *p, struct espl__py_option *o)
{
	p = skip_space(p);
	if (strncmp(p, "list(", 5) == 0)
		p += 5;
	if (*p != '[' && *p != '(')
		return;
	o->choices = espl__arena_alloc(&r->s->arena, CHOICES_MAX * sizeof *o->choices);
	for (p++; o->choice_count < CHOICES_MAX;) {
		const char *end = skip_value(p);

		if (skip_space(p) < end)
			read_value(r, p, end, &o->choices[o->choice_count++]);
		if (*end != ',')
			return;
		p = end + 1;
	}
}

/* ---- calls ------------------------------------------------------------------------------- */

/* click.FloatRange(0, 1) or (min=0, max=1): from behind the bracket on. */
static void
read_bounds(struct reader *r, const char *p, struct espl__py_option *o)
{
	struct espl__py_value *const bounds[2] = { &o->low, &o->high };

	for (int i = 0;; i++) {
		const char *end = skip_value(p);

		p = skip_space(p);
		if (strncmp(p, "min=", 4) == 0 || strncmp(p, "max=", 4) == 0)
			read_value(r, p + 4, end, bounds[p[1] == 'a']);
		else if (i < 2)
			read_value(r, p, end, bounds[i]);
		if (*end != ',')
			return;
		p = end + 1;
	}
}

static void
take_type(struct reader *r, const char *p, struct espl__py_option *o)
{
	size_t n;

	p = skip_space(p);
	n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.");
	if (p[n] != '(' || n < 6)
		return;
	if (strncmp(p + n - 6, "Choice", 6) == 0)
		read_choices(r, p + n + 1, o);
	else if (strncmp(p + n - 5, "Range", 5) == 0)
		read_bounds(r, p + n + 1, o);
}

static void
take_name(struct reader *r, const char *p, const char *end, struct espl__py_option *o)
{
	struct espl__py_value v;

	read_value(r, p, end, &v);
	if (v.kind != ESPL__LIT_TEXT || v.text[0] == '\0')
		return;
	if (o->flag[0] == '\0' || (strncmp(v.text, "--", 2) == 0 && strncmp(o->flag, "--", 2) != 0))
		o->flag = v.text;
}

static void
take_keyword(struct reader *r, const char *name, const char *p, const char *end,
    struct espl__py_option *o)
{
	struct espl__py_value v;

	read_value(r, p, end, &v);
	if (strcmp(name, "default") == 0)
		o->fallback = v;
	else if (strcmp(name, "type") == 0 && v.kind == ESPL__LIT_OTHER) {
		o->type = v.text;
		take_type(r, p, o);
	} else if (strcmp(name, "action") == 0)
		o->action = v.text;
	else if (strcmp(name, "is_flag") == 0 && v.kind == ESPL__LIT_BOOL && v.number > 0)
		o->action = "store_true";
	else if (strcmp(name, "help") == 0 && v.kind == ESPL__LIT_TEXT)
		o->help = v.text;
	else if (strcmp(name, "dest") == 0 && v.kind == ESPL__LIT_TEXT)
		o->name = v.text;
	else if (strcmp(name, "required") == 0 && v.kind == ESPL__LIT_BOOL)
		o->required = v.number > 0;
	else if (strcmp(name, "choices") == 0)
		read_choices(r, p, o);
}

/* A name that a configuration can have: batch_size of --batch-size. */
static const char *
plain_name(struct reader *r, const char *text)
{
	char *to, *at;

	text += strspn(text, "-_");
	at = to = copy_utf8(r, text, strlen(text));
	for (; *text != '\0'; text++)
		*at++ = isalnum((unsigned char)*text) ? *text : '_';
	return isalpha((unsigned char)to[0]) ? to : "";
}

/* From behind the opening bracket on. */
static void
read_option(struct reader *r, const char *p, const struct parser *parser)
{
	struct espl__py_option o;

	memset(&o, 0, sizeof o);
	o.flag = o.name = o.type = o.action = o.help = "";
	o.group = parser->group;
	o.rivals = parser->rivals;
	for (;;) {
		const char *word, *end;

		p = skip_space(p);
		for (word = p; is_word(*p);)
			p++;
		end = skip_space(p);
		if (p > word && end[0] == '=' && end[1] != '=') {
			char *name = copy_utf8(r, word, (size_t)(p - word));

			p = end + 1;
			end = skip_value(p);
			take_keyword(r, name, p, end, &o);
		} else {
			end = skip_value(word);
			take_name(r, word, end, &o);
		}
		if (*end != ',')
			break;
		p = end + 1;
	}
	o.positional = o.flag[0] != '-';
	o.name = plain_name(r, o.name[0] != '\0' ? o.name : o.flag);
	if (o.name[0] == '\0' || r->s->option_count == ESPL__SCRIPT_OPTIONS)
		return;
	for (uint32_t i = 0; i < r->s->option_count; i++) /* the first of a name stands for all */
		if (strcmp(r->s->options[i].flag, o.flag) == 0 &&
		    strcmp(r->s->options[i].group, o.group) == 0)
			return;
	r->s->options[r->s->option_count++] = o;
}

/* The variable's latest value counts: `p = sub.add_parser("a") ... p = sub.add_parser("b")`. */
static const struct parser *
parser_of(const struct reader *r, const char *variable)
{
	static const struct parser whole = { "", "", 0 };

	for (uint32_t i = r->parser_count; i > 0; i--)
		if (strcmp(r->parsers[i - 1].name, variable) == 0)
			return &r->parsers[i - 1];
	return &whole;
}

/* @cli.command("train") or @cli.command(), which is named after its function. */
static void
begin_command(struct reader *r, const char *p)
{
	struct espl__py_value v;
	const char *end;

	if (r->s->group_count == sizeof r->s->groups / sizeof r->s->groups[0])
		return;
	p = skip_space(p);
	if (strncmp(p, "name", 4) == 0 && skip_space(p + 4)[0] == '=')
		p = skip_space(p + 4) + 1;
	end = skip_value(p);
	read_value(r, p, end, &v);
	if (v.kind == ESPL__LIT_TEXT && v.text[0] != '\0') {
		r->command = copy_utf8(r, v.text, strlen(v.text));
	} else {
		r->command = espl__arena_alloc(&r->s->arena, 64);
		(void)snprintf(r->command, 64, "\n%u", r->s->group_count); /* not yet named */
	}
	r->s->groups[r->s->group_count++] = r->command;
}

static void
name_command(struct reader *r, const char *function)
{
	size_t n = 0;

	if (r->command != NULL && r->command[0] == '\n') {
		for (; is_word(function[n]) && n < 63; n++)
			r->command[n] = function[n] == '_' ? '-' : function[n];
		r->command[n] = '\0';
	}
	r->command = NULL;
}

static void
add_parser(struct reader *r, const char *variable, const char *group, uint32_t rivals)
{
	if (variable[0] == '\0' || r->parser_count == NAMES_MAX)
		return;
	r->parsers[r->parser_count++] =
	    (struct parser){ copy_utf8(r, variable, strlen(variable)), group, rivals };
}

/* sub.add_parser("train") */
static void
read_parser(struct reader *r, const char *p, const char *variable)
{
	struct espl__py_value v;

	read_value(r, p, skip_value(p), &v);
	if (v.kind != ESPL__LIT_TEXT || v.text[0] == '\0' ||
	    r->s->group_count == sizeof r->s->groups / sizeof r->s->groups[0])
		return;
	r->s->groups[r->s->group_count++] = v.text;
	add_parser(r, variable, v.text, 0);
}

/* ---- calls that print ------------------------------------------------------------------- */

static int
is_one_of(const char *word, const char *const *words)
{
	for (; *words != NULL && strcmp(word, *words) != 0; words++)
		;
	return *words != NULL;
}

/* print(..., file=sys.stderr), and logging.info(), which prints there unless it is set up. */
static void
read_print(struct reader *r, const char *p, const char *object, const char *word)
{
	static const char *const levels[] = { "debug", "info", "warning", "error", NULL };
	int to_err = 0;

	for (;;) {
		const char *from = skip_space(p), *end = skip_value(p);

		if (end > from && strncmp(from, "file", 4) == 0)
			to_err |= memmem(from, (size_t)(end - from), "stderr", 6) != NULL;
		if (*end != ',') {
			if (strcmp(word, "print") == 0)
				*(to_err ? &r->err_end : &r->print_end) = end;
			else if (strcasestr(object, "log") != NULL && is_one_of(word, levels))
				r->log_end = end;
			return;
		}
		p = end + 1;
	}
}

/* ---- the whole --------------------------------------------------------------------------- */

static void
take_line(struct reader *r, const char *at, struct espl__buf *text, const char *after)
{
	struct espl__script *s = r->s;

	ESPL__GROW(s->lines, s->line_cap, s->line_count + 1);
	s->lines[s->line_count++] = (struct espl__py_line){
		.text = copy_utf8(r, espl__buf_text(text), text->size),
		.comma = *skip_space(after) == ',',
		.print = at < r->err_end || at < r->print_end,
		.to_err = at < r->err_end || (at < r->log_end && !s->logs_to_stdout),
	};
}

struct words { /* OBJECT.WORD(, and VARIABLE = before it */
	char word[64], object[64], variable[64];
};

static void
copy_word(char to[64], const char *from, size_t size)
{
	size = size < 63 ? size : 63;
	memcpy(to, from, size);
	to[size] = '\0';
}

static const char *
take_word(struct reader *r, const char *p, struct words *w)
{
	const char *begin = p, *next;
	int member = begin > r->p && begin[-1] == '.';

	memcpy(w->object, member ? w->word : "", member ? sizeof w->object : 1);
	while (is_word(*p))
		p++;
	copy_word(w->word, begin, (size_t)(p - begin));
	next = skip_space(p);
	if (*next == '=' && next[1] != '=')
		memcpy(w->variable, w->word, sizeof w->variable);
	r->s->distributed |= strcmp(w->word, "DistributedDataParallel") == 0;
	r->s->reports |= strcmp(w->word, "espalier_trial") == 0 || strcmp(w->word, "espalier") == 0;
	r->s->logs_to_stdout |= strcmp(w->word, "stdout") == 0;
	if (strcmp(w->word, "def") == 0)
		name_command(r, next);
	if (*next != '(')
		return p;
	r->s->hydra |= strcmp(w->object, "hydra") == 0 && strcmp(w->word, "main") == 0;
	r->clicks |= strcmp(w->object, "click") == 0 && strcmp(w->word, "group") == 0;
	r->s->writes_json |= strcmp(w->word, "dumps") == 0;
	read_print(r, next + 1, w->object, w->word);
	if (strcmp(w->word, "add_argument") == 0 && member)
		read_option(r, next + 1, parser_of(r, w->object));
	else if ((strcmp(w->word, "option") == 0 || strcmp(w->word, "argument") == 0) &&
	    strcmp(w->object, "click") == 0)
		read_option(r, next + 1,
		    &(struct parser){ "", r->command != NULL ? r->command : "", 0 });
	else if (strcmp(w->word, "command") == 0 && member && r->clicks &&
	    strcmp(w->object, "click") != 0)
		begin_command(r, next + 1);
	else if (strcmp(w->word, "add_parser") == 0 && member)
		read_parser(r, next + 1, w->variable);
	else if (strcmp(w->word, "add_argument_group") == 0 && member)
		add_parser(r, w->variable, parser_of(r, w->object)->group, 0);
	else if (strcmp(w->word, "add_mutually_exclusive_group") == 0 && member &&
	    strcmp(w->variable, w->object) != 0)
		add_parser(r, w->variable, parser_of(r, w->object)->group, r->parser_count + 1);
	return p;
}

void
espl__script_read(struct espl__script *s, const char *text)
{
	struct reader r = { .s = s, .p = text };
	struct words w = { "", "", "" };
	struct espl__buf literal = { NULL, 0, 0 };

	memset(s, 0, sizeof *s);
	for (const char *p = text; *p != '\0';) {
		const char *end;

		espl__buf_clear(&literal);
		end = read_string(p, &literal);
		if (end != NULL) {
			take_line(&r, p, &literal, end);
			p = end;
		} else if (is_word(*p)) {
			p = take_word(&r, p, &w);
		} else if (*p == '#') {
			p += strcspn(p, "\n");
		} else {
			p++;
		}
	}
	espl__buf_free(&literal);
}

void
espl__script_free(struct espl__script *s)
{
	espl__arena_free(&s->arena);
	free(s->lines);
	s->lines = NULL;
}
