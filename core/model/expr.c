/* expr.c - see expr.h.  A condition is compiled to a program of a stack machine, since a search
 * asks it of every candidate. */
#include "model/expr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"

#define DEPTH_MAX \
	64u /* of parentheses, each with five values that wait at most: or, and, <, +, * */
#define WORD_MAX 128u

enum op {
	NUMBER = 1,
	NAME,
	IS_LABEL,
	IS_NOT_LABEL,
	NEGATE,
	ADD,
	SUBTRACT,
	MULTIPLY,
	DIVIDE,
	LESS,
	LESS_EQUAL,
	MORE,
	MORE_EQUAL,
	EQUAL,
	DIFFERENT,
	AND,
	OR,
	NOT
};

struct step {
	enum op op;
	uint32_t name;
	double number; /* or the index of a label */
};

#define ESPL__EXPR_MAGIC 0x65787072u
struct espl__expr {
	uint32_t magic;
	uint32_t count, cap;
	struct step *steps;
	char *text;
};

/* What a part of the text is. A name with labels and a literal get their steps when it is known
 * what they are compared with. */
enum kind { VALUE = 1, TRUTH, LABELS, LITERAL };
struct part {
	enum kind kind;
	uint32_t name;       /* of LABELS */
	double number;       /* of LITERAL; NaN: a text */
	char text[WORD_MAX]; /* of LITERAL */
};

struct parser {
	const struct espl__expr_scope *scope;
	struct espl__expr *expr;
	const char *at;
	uint32_t depth;
	const char *label, *file;
	uint32_t line;
	struct espl__diag *diag;
};

static espl_status parse_or(struct parser *, struct part *);

static espl_status
refuse(struct parser *p, const char *wrong, const char *word)
{
	(void)espl__fail_at(p->diag, ESPL_E_CONFIG, p->file, p->line, "%s \"%.200s\": %s%s%.100s%s",
	    p->label, p->expr->text, wrong, word[0] != '\0' ? " '" : "", word,
	    word[0] != '\0' ? "'" : "");
	espl__hint(p->diag, "for example \"%s\"", p->scope->example);
	return ESPL_E_CONFIG;
}

static void
emit(struct parser *p, enum op op, uint32_t name, double number)
{
	struct espl__expr *e = p->expr;

	ESPL__GROW(e->steps, e->cap, e->count + 1);
	e->steps[e->count++] = (struct step){ op, name, number };
}

static int
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static void
skip_space(struct parser *p)
{
	while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
		p->at++;
}

/* Takes a sign; of "<" and "<=" the longer one must be asked for first. */
static int
take(struct parser *p, const char *sign)
{
	size_t length = strlen(sign);

	skip_space(p);
	if (strncmp(p->at, sign, length) != 0)
		return 0;
	if (is_letter(sign[0]) && (is_letter(p->at[length]) || is_digit(p->at[length])))
		return 0;
	p->at += length;
	return 1;
}

/* A literal number becomes a value where one is wanted. */
static espl_status
need_value(struct parser *p, struct part *part)
{
	if (part->kind == LITERAL && !isnan(part->number)) {
		emit(p, NUMBER, 0, part->number);
		part->kind = VALUE;
	}
	if (part->kind == VALUE)
		return ESPL_OK;
	if (part->kind == LABELS)
		return refuse(p, "only numbers can be ordered and calculated with, not",
		    p->scope->names[part->name]);
	return part->kind == LITERAL ? refuse(p, "a number is wanted, not the text", part->text)
				     : refuse(p, "a number is wanted, not a condition", "");
}

static espl_status
need_truth(struct parser *p, const struct part *part)
{
	return part->kind == TRUTH
	    ? ESPL_OK
	    : refuse(p, "a condition is wanted, such as a < b, and not only a value", "");
}

static espl_status
read_name(struct parser *p, const char *name, struct part *part)
{
	int labels = 0;
	const char *near;

	part->name = p->scope->find(p->scope->ctx, name, &labels);
	part->kind = labels ? LABELS : VALUE;
	if (part->name != ESPL_ANY) {
		if (!labels)
			emit(p, NAME, part->name, 0);
		return ESPL_OK;
	}
	(void)espl__fail_at(p->diag, ESPL_E_CONFIG, p->file, p->line,
	    "%s \"%.200s\": '%.100s' is not %s", p->label, p->expr->text, name, p->scope->what);
	near = espl__nearest(name, p->scope->names, p->scope->name_count);
	if (near != NULL)
		espl__hint(p->diag, "did you mean '%s'?", near);
	else
		espl__hint(p->diag, "texts are written in quotes: '%s'", name);
	return ESPL_E_CONFIG;
}

/* Copies from `from` up to a closing sign, which is skipped. */
static espl_status
read_quoted(struct parser *p, char close, char word[WORD_MAX])
{
	const char *end = strchr(++p->at, close);

	if (end == NULL || (size_t)(end - p->at) >= WORD_MAX)
		return refuse(p, "what begins here has no end:", p->at - 1);
	memcpy(word, p->at, (size_t)(end - p->at));
	word[end - p->at] = '\0';
	p->at = end + 1;
	return ESPL_OK;
}

static espl_status
read_number(struct parser *p, struct part *part)
{
	size_t length = 0;
	char c, before = '\0';

	for (; c = p->at[length],
	       is_digit(c) || is_letter(c) || c == '.' ||
		 ((c == '+' || c == '-') && (before == 'e' || before == 'E'));
	     length++)
		before = c;
	if (length >= WORD_MAX)
		return refuse(p, "not a number:", p->at);
	memcpy(part->text, p->at, length);
	if (espl__parse_real(part->text, &part->number) != 0)
		return refuse(p, "not a number:", part->text);
	p->at += length;
	return ESPL_OK;
}

static espl_status
parse_atom(struct parser *p, struct part *part)
{
	char word[WORD_MAX];
	size_t length;
	espl_status status;

	memset(part, 0, sizeof *part);
	skip_space(p);
	if (take(p, "(")) {
		if (++p->depth > DEPTH_MAX)
			return refuse(p, "too many parentheses", "");
		status = parse_or(p, part);
		p->depth--;
		if (status == ESPL_OK && !take(p, ")"))
			status = refuse(p, "a ')' is missing", "");
		return status;
	}
	if (*p->at == '{') {
		status = read_quoted(p, '}', word);
		return status == ESPL_OK ? read_name(p, word, part) : status;
	}
	part->kind = LITERAL;
	part->number = NAN;
	if (*p->at == '\'' || *p->at == '"')
		return read_quoted(p, *p->at, part->text);
	if (is_digit(*p->at) || *p->at == '.')
		return read_number(p, part);
	for (length = 0; is_letter(p->at[length]) || is_digit(p->at[length]); length++)
		;
	if (length == 0 || length >= WORD_MAX)
		return *p->at == '\0' ? refuse(p, "something is missing at the end", "")
				      : refuse(p, "this is not understood:", p->at);
	memcpy(word, p->at, length);
	word[length] = '\0';
	p->at += length;
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
		memcpy(part->text, word, length + 1);
		return ESPL_OK;
	}
	return read_name(p, word, part);
}

static espl_status
parse_unary(struct parser *p, struct part *part)
{
	uint32_t minus = 0;
	espl_status status;

	while (take(p, "-"))
		minus++;
	status = parse_atom(p, part);
	if (status != ESPL_OK || minus == 0)
		return status;
	status = need_value(p, part);
	if (minus % 2 == 1)
		emit(p, NEGATE, 0, 0);
	return status;
}

static espl_status
parse_product(struct parser *p, struct part *part)
{
	espl_status status = parse_unary(p, part);

	for (;;) {
		struct part right;
		enum op op = 0;

		if (status == ESPL_OK)
			op = take(p, "*") ? MULTIPLY : take(p, "/") ? DIVIDE : 0;
		if (op == 0)
			return status;
		status = need_value(p, part);
		if (status == ESPL_OK)
			status = parse_unary(p, &right);
		if (status == ESPL_OK)
			status = need_value(p, &right);
		emit(p, op, 0, 0);
	}
}

static espl_status
parse_sum(struct parser *p, struct part *part)
{
	espl_status status = parse_product(p, part);

	for (;;) {
		struct part right;
		enum op op = 0;

		if (status == ESPL_OK)
			op = take(p, "+") ? ADD : take(p, "-") ? SUBTRACT : 0;
		if (op == 0)
			return status;
		status = need_value(p, part);
		if (status == ESPL_OK)
			status = parse_product(p, &right);
		if (status == ESPL_OK)
			status = need_value(p, &right);
		emit(p, op, 0, 0);
	}
}

static enum op
take_comparison(struct parser *p)
{
	static const struct {
		const char *sign;
		enum op op;
	} signs[] = { { "<=", LESS_EQUAL }, { ">=", MORE_EQUAL }, { "==", EQUAL },
		{ "!=", DIFFERENT }, { "<", LESS }, { ">", MORE }, { "=", EQUAL } };

	for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
		if (take(p, signs[i].sign))
			return signs[i].op;
	return 0;
}

static espl_status
compare_label(struct parser *p, const struct part *name, const struct part *literal, enum op op)
{
	uint32_t index;

	if (literal->kind != LITERAL || (op != EQUAL && op != DIFFERENT))
		return refuse(p, "only = and != with one of its values can be asked of",
		    p->scope->names[name->name]);
	index = p->scope->label(p->scope->ctx, name->name, literal->text, literal->number);
	if (index == ESPL_ANY)
		return refuse(p,
		    "this is not one of the values it is compared with:", literal->text);
	emit(p, op == EQUAL ? IS_LABEL : IS_NOT_LABEL, name->name, (double)index);
	return ESPL_OK;
}

static espl_status
parse_comparison(struct parser *p, struct part *part)
{
	espl_status status = parse_sum(p, part);
	struct part left = *part, right;
	enum op op = status == ESPL_OK ? take_comparison(p) : 0;
	uint32_t steps;

	if (op == 0)
		return status;
	/* 8 < layers: the step of a literal comes before those of what it is compared with. */
	steps = p->expr->count;
	if (left.kind == LITERAL && !isnan(left.number))
		emit(p, NUMBER, 0, left.number);
	status = parse_sum(p, &right);
	if (status != ESPL_OK)
		return status;
	if (left.kind == LABELS) {
		status = compare_label(p, &left, &right, op);
	} else if (right.kind == LABELS) {
		p->expr->count = steps;
		status = compare_label(p, &right, &left, op);
	} else {
		if (left.kind != LITERAL || isnan(left.number))
			status = need_value(p, &left);
		if (status == ESPL_OK)
			status = need_value(p, &right);
		emit(p, op, 0, 0);
	}
	part->kind = TRUTH;
	if (status == ESPL_OK && take_comparison(p) != 0)
		status = refuse(p, "a < b < c is written a < b and b < c", "");
	return status;
}

static espl_status
parse_not(struct parser *p, struct part *part)
{
	uint32_t nots = 0;
	espl_status status;

	for (;;) {
		skip_space(p);
		if (strncmp(p->at, "!=", 2) == 0 || (!take(p, "not") && !take(p, "!")))
			break;
		nots++;
	}
	status = parse_comparison(p, part);
	if (status == ESPL_OK && nots > 0)
		status = need_truth(p, part);
	if (nots % 2 == 1)
		emit(p, NOT, 0, 0);
	return status;
}

static espl_status
parse_chain(struct parser *p, struct part *part,
    espl_status (*inner)(struct parser *, struct part *), const char *word, const char *sign,
    enum op op)
{
	espl_status status = inner(p, part);

	while (status == ESPL_OK && (take(p, word) || take(p, sign))) {
		status = need_truth(p, part);
		if (status == ESPL_OK)
			status = inner(p, part);
		if (status == ESPL_OK)
			status = need_truth(p, part);
		emit(p, op, 0, 0);
	}
	return status;
}

static espl_status
parse_and(struct parser *p, struct part *part)
{
	return parse_chain(p, part, parse_not, "and", "&&", AND);
}

static espl_status
parse_or(struct parser *p, struct part *part)
{
	return parse_chain(p, part, parse_and, "or", "||", OR);
}

espl_status
espl__expr_parse(const char *text, const struct espl__expr_scope *scope, const char *label,
    const char *file, uint32_t line, struct espl__expr **out, struct espl__diag *diag)
{
	struct parser p = { .scope = scope,
		.label = label,
		.file = file,
		.line = line,
		.diag = diag };
	struct part part;
	espl_status status;

	*out = NULL;
	p.expr = espl__alloc(sizeof *p.expr);
	p.expr->magic = ESPL__EXPR_MAGIC;
	p.expr->text = espl__strdup(text);
	p.at = p.expr->text;
	status = parse_or(&p, &part);
	if (status == ESPL_OK)
		status = need_truth(&p, &part);
	skip_space(&p);
	if (status == ESPL_OK && *p.at != '\0')
		status = refuse(&p, "this is not understood:", p.at);
	if (status == ESPL_OK)
		*out = p.expr;
	else
		espl__expr_free(p.expr);
	return status;
}

void
espl__expr_free(struct espl__expr *e)
{
	if (e == NULL)
		return;
	ESPL__CHECK(e, EXPR);
	e->magic = 0;
	free(e->steps);
	free(e->text);
	free(e);
}

const char *
espl__expr_text(const struct espl__expr *e)
{
	ESPL__CHECK(e, EXPR);
	return e->text;
}

static double
combine(enum op op, double a, double b)
{
	switch (op) {
	case ADD: return a + b;
	case SUBTRACT: return a - b;
	case MULTIPLY: return a * b;
	case DIVIDE: return a / b;
	case LESS: return a < b;
	case LESS_EQUAL: return a <= b;
	case MORE: return a > b;
	case MORE_EQUAL: return a >= b;
	case EQUAL: return a == b;
	case DIFFERENT: return a < b || a > b; /* not of NaN */
	case AND: return a != 0 && b != 0;
	case OR: return a != 0 || b != 0;
	default: ESPL__ASSERT(0); return 0;
	}
}

/* ---- how far from holding ------------------------------------------------------------------ */

#define EDGE 1e-12 /* of what does not hold by a hair, as a < a */

static double
difference(enum op op, double a, double b)
{
	double scale = fabs(a) > fabs(b) ? fabs(a) : fabs(b), far;
	int holds = combine(op, a, b) != 0;

	if (isnan(a) || isnan(b))
		return NAN;
	far = fabs(a - b) / (scale > 0 ? scale : 1);
	if (!(far < 1)) /* also of infinities */
		far = 1;
	if (op == DIFFERENT)
		return holds ? -far : 1;
	return holds ? 0 - far : far > EDGE ? far : EDGE;
}

/* Of two parts that say how far they are. */
static double
both(enum op op, double a, double b)
{
	if (op == AND)
		return isnan(a) || isnan(b) ? (a > 0 ? a : b > 0 ? b : (double)NAN) : a > b ? a : b;
	return isnan(a) || isnan(b) ? (a <= 0 ? a : b <= 0 ? b : (double)NAN) : a < b ? a : b;
}

static double
other_than(double label, const struct step *s)
{
	int same = label == s->number;

	return isnan(label) ? label : (s->op == IS_LABEL) == same ? -1 : 1;
}

double
espl__expr_shortfall(const struct espl__expr *e, espl__expr_value *value, const void *ctx)
{
	double stack[6 * DEPTH_MAX];
	uint32_t top = 0;

	ESPL__CHECK(e, EXPR);
	for (uint32_t i = 0; i < e->count; i++) {
		const struct step *s = &e->steps[i];
		double *last = &stack[top > 0 ? top - 1 : 0];

		switch (s->op) {
		case NUMBER: stack[top++] = s->number; break;
		case NAME: stack[top++] = value(ctx, s->name); break;
		case IS_LABEL:
		case IS_NOT_LABEL: stack[top++] = other_than(value(ctx, s->name), s); break;
		case NEGATE: *last = -*last; break;
		case NOT: *last = *last == 0 ? EDGE : -*last; break;
		default:
			ESPL__ASSERT(top > 1);
			top--;
			last = &stack[top - 1];
			*last = s->op == AND || s->op == OR ? both(s->op, *last, stack[top])
			    : s->op < LESS                  ? combine(s->op, *last, stack[top])
							    : difference(s->op, *last, stack[top]);
			break;
		}
		ESPL__ASSERT(top > 0 && top < sizeof stack / sizeof stack[0]);
	}
	ESPL__ASSERT(top == 1);
	return stack[0];
}

int
espl__expr_holds(const struct espl__expr *e, espl__expr_value *value, const void *ctx)
{
	double stack[6 * DEPTH_MAX];
	uint32_t top = 0;

	ESPL__CHECK(e, EXPR);
	for (uint32_t i = 0; i < e->count; i++) {
		const struct step *s = &e->steps[i];
		double v;

		switch (s->op) {
		case NUMBER: stack[top++] = s->number; break;
		case NAME: stack[top++] = value(ctx, s->name); break;
		case IS_LABEL: stack[top++] = value(ctx, s->name) == s->number; break;
		case IS_NOT_LABEL:
			v = value(ctx, s->name);
			stack[top++] = !isnan(v) && v != s->number;
			break;
		case NEGATE: stack[top - 1] = -stack[top - 1]; break;
		case NOT: stack[top - 1] = stack[top - 1] == 0; break;
		default:
			top--;
			stack[top - 1] = combine(s->op, stack[top - 1], stack[top]);
			break;
		}
		ESPL__ASSERT(top > 0 && top < sizeof stack / sizeof stack[0]);
	}
	ESPL__ASSERT(top == 1);
	return stack[0] != 0;
}
