/* space_parse.c - the `space` group of a configuration file becomes a search space.
 *
 * Every user error is found here and reported with its line, so that the rest of the program can
 * rely on a valid space.
 */
#include <math.h>
#include <string.h>
#include <inttypes.h>
#include "base/map.h"
#include "base/text.h"
#include "model/space_impl.h"

#define BOUND_MAX 9007199254740992.0 /* 2^53: integers are exact in a double up to here */
#define LABEL_MAX 65536u
#define PARAM_NAME_MAX 255

static const char *const type_names[] = { "real", "int", "choice", "ordinal" };
static const char *const scale_names[] = { "linear", "log", "reverse-log" };

/* a bound that is another parameter */
struct other_bound {
	const char *name; /* of the parameter that has it */
	const struct espl__node *bound;
};

struct parse {
	struct espl__space *s;
	struct espl__diag *diag;
	const struct espl__node *group;
	struct espl__names off; /* parameters that a constant switched off for good */
	struct other_bound *others;
	uint32_t other_count, other_cap;
};

#define FAIL(p_, node_, ...) \
	espl__fail_at((p_)->diag, ESPL_E_CONFIG, (node_)->file, (node_)->line, __VA_ARGS__)

/* What other programs call it, and what it is here. */
struct word {
	const char *theirs, *ours;
};
static const struct word type_words[] = { { "float", "real" }, { "double", "real" },
	{ "number", "real" }, { "uniform", "real" }, { "loguniform", "real" }, { "log", "real" },
	{ "integer", "int" }, { "randint", "int" }, { "bool", "choice" }, { "boolean", "choice" },
	{ "categorical", "choice" }, { "category", "choice" }, { "enum", "choice" },
	{ "string", "choice" }, { NULL, NULL } };
static const struct word scale_words[] = { { "logarithmic", "log" }, { "log10", "log" },
	{ "uniform", "linear" }, { "loguniform", "log" }, { "lin", "linear" }, { NULL, NULL } };
static const struct word key_words[] = { { "choices", "values" }, { "options", "values" },
	{ "categories", "values" }, { "min", "low" }, { "lower", "low" }, { "from", "low" },
	{ "max", "high" }, { "upper", "high" }, { "to", "high" }, { "step", "quantum" },
	{ "q", "quantum" }, { "log", "scale" }, { "distribution", "scale" },
	{ "condition", "when" }, { "mu", "mean" }, { "loc", "mean" }, { "sigma", "sd" },
	{ "std", "sd" }, { "stddev", "sd" }, { "if", "when" }, { "initial", "default" },
	{ NULL, NULL } };

static const char *
find_our_word(const struct word *words, const char *text)
{
	for (; words->theirs != NULL; words++)
		if (strcmp(words->theirs, text) == 0)
			return words->ours;
	return NULL;
}

/* Index of text in a list of names, or -1 after a message with the nearest one. */
static int
one_of(struct parse *p, const struct espl__node *n, const char *of, const char *key,
    const char *const *names, size_t count)
{
	const char *near;

	if (n->type != ESPL__STRING) {
		FAIL(p, n, "'%s' of '%s' is %s, not a string", key, of, espl__node_kind(n));
		return -1;
	}
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], n->text) == 0)
			return (int)i;
	FAIL(p, n, "'%s' is not a valid %s of a parameter", n->text, key);
	near = find_our_word(names == type_names ? type_words : scale_words, n->text);
	if (near == NULL)
		near = espl__nearest(n->text, names, count);
	if (near != NULL)
		espl__hint(p->diag, "did you mean '%s'?", near);
	else if (names == type_names)
		espl__hint(p->diag, "use real, int, choice or ordinal");
	else
		espl__hint(p->diag, "use linear, log or reverse-log");
	return -1;
}

static int
is_finite(const struct espl__node *n)
{
	struct espl__buf json = { NULL, 0, 0 };
	int is = espl__node_json(n, &json) == 0;

	espl__buf_free(&json);
	return is;
}

/* A value as trials will see it. */
static struct espl__label
label_of(struct espl__space *s, const struct espl__node *n)
{
	struct espl__label l = { NULL, NAN, ESPL__LABEL_TEXT };
	char room[32];

	switch (n->type) {
	case ESPL__INT:
		snprintf(room, sizeof room, "%" PRId64, n->i);
		l = (struct espl__label){ room, (double)n->i, ESPL__LABEL_NUMBER };
		break;
	case ESPL__REAL:
		l = (struct espl__label){ espl__format_value(n->r, room), n->r,
			ESPL__LABEL_NUMBER };
		break;
	case ESPL__BOOL:
		l = (struct espl__label){ n->i ? "true" : "false", n->i ? 1.0 : 0.0,
			ESPL__LABEL_BOOL };
		break;
	case ESPL__STRING: l.text = n->text; break;
	default: {
		struct espl__buf json = { NULL, 0, 0 };

		l.kind = ESPL__LABEL_JSON;
		(void)espl__node_json(n, &json); /* the caller has seen that it can be */
		l.text = espl__arena_strdup(&s->arena, espl__buf_text(&json));
		espl__buf_free(&json);
		return l;
	}
	}
	l.text = espl__arena_strdup(&s->arena, l.text);
	return l;
}

static espl_status
check_name(struct parse *p, const struct espl__node *n)
{
	size_t length = strlen(n->name);
	int ok = length > 0 && length <= PARAM_NAME_MAX && n->name[0] != ' ' &&
	    n->name[length - 1] != ' ';

	for (const char *c = n->name; *c != '\0'; c++)
		ok &= (unsigned char)*c >= ' ' && *c != 0x7f && *c != '{' && *c != '}';
	if (ok)
		return ESPL_OK;
	FAIL(p, n, "'%s' is not a valid parameter name", n->name);
	espl__hint(p->diag,
	    "a name has at most %d bytes, no braces and no control characters, and neither begins "
	    "nor ends with a space",
	    PARAM_NAME_MAX);
	return ESPL_E_CONFIG;
}

/* Only keys that mean something for the type. */
static espl_status
check_keys(struct parse *p, const struct espl__node *n, int numeric)
{
	static const char *const all[] = { "type", "default", "when", "low", "high", "scale",
		"quantum", "mean", "sd", "values" };
	const size_t count = sizeof all / sizeof all[0];

	for (uint32_t i = 0; i < n->child_count; i++) {
		const struct espl__node *c = n->children[i];
		const char *near;
		size_t k = 0;

		while (k < count && strcmp(all[k], c->name) != 0)
			k++;
		if (k == count) {
			FAIL(p, c, "parameter '%s' has no key '%s'", n->name, c->name);
			near = find_our_word(key_words, c->name);
			if (near == NULL)
				near = espl__nearest(c->name, all, count);
			if (near != NULL)
				espl__hint(p->diag, "did you mean '%s'?", near);
			else
				espl__hint(p->diag,
				    "the keys are type, low, high, scale, quantum, mean, sd, "
				    "values, default, when");
			return ESPL_E_CONFIG;
		}
		if (numeric && k == count - 1) {
			FAIL(p, c, "'values' has no meaning for the %s parameter '%s'",
			    espl__node_get(n, "type")->text, n->name);
			espl__hint(p->diag,
			    "set low and high, or use type = \"choice\" or \"ordinal\"");
			return ESPL_E_CONFIG;
		}
		if (!numeric && k >= 3 && k < count - 1) {
			FAIL(p, c, "'%s' has no meaning for the %s parameter '%s'", c->name,
			    espl__node_get(n, "type")->text, n->name);
			espl__hint(p->diag, "list its values: values = [ ... ]");
			return ESPL_E_CONFIG;
		}
	}
	return ESPL_OK;
}

/* low = "other": not below the other parameter, where that is active. */
static espl_status
read_other(struct parse *p, const struct espl__node *n, const struct espl__node *b, int integer,
    double *to)
{
	int low = strcmp(b->name, "low") == 0;
	const struct espl__param *other = NULL;

	for (uint32_t i = 0; i < p->s->count; i++)
		if (strcmp(p->s->params[i].pub.name, b->text) == 0)
			other = &p->s->params[i];
	if (other == NULL || other->labels != NULL) {
		FAIL(p, b,
		    "'%s' of '%s' is \"%.100s\", neither a number nor another numeric parameter",
		    b->name, n->name, b->text);
		return ESPL_E_CONFIG;
	}
	*to = low ? other->pub.low : other->pub.high;
	if (integer)
		*to = low ? ceil(*to) : floor(*to);
	ESPL__GROW(p->others, p->other_cap, p->other_count + 1);
	p->others[p->other_count++] = (struct other_bound){ n->name, b };
	return ESPL_OK;
}

/* Once all are there: what is beyond a bound that is another parameter is forbidden. */
static espl_status
add_other_rules(struct parse *p)
{
	espl_status st = ESPL_OK;

	for (uint32_t i = 0; i < p->other_count && st == ESPL_OK; i++) {
		const struct espl__node *b = p->others[i].bound;
		char *rule = espl__format("{%s} %s {%s}", p->others[i].name,
		    strcmp(b->name, "low") == 0 ? "<" : ">", b->text);

		st = espl__space_rule(p->s, rule, "space:", b->file, b->line, p->diag);
		free(rule);
	}
	return st;
}

static espl_status
read_bound(struct parse *p, const struct espl__node *n, const char *key, int integer, double *to)
{
	const struct espl__node *b = espl__node_get(n, key);

	if (b == NULL) {
		FAIL(p, n, "parameter '%s' has no '%s'", n->name, key);
		espl__hint(p->diag, "a %s parameter needs low and high",
		    espl__node_get(n, "type")->text);
		return ESPL_E_CONFIG;
	}
	if (b->type == ESPL__STRING && espl__parse_real(b->text, to) != 0)
		return read_other(p, n, b, integer, to);
	if (!is_number(b))
		return FAIL(p, b, "'%s' of '%s' is %s, not a number", key, n->name,
		    espl__node_kind(b));
	if (!isfinite(b->r))
		return FAIL(p, b, "'%s' of '%s' is not finite", key, n->name);
	if (integer && b->r != floor(b->r)) {
		FAIL(p, b, "'%s' of the int parameter '%s' is not a whole number", key, n->name);
		espl__hint(p->diag, "use type = \"real\" for fractions");
		return ESPL_E_CONFIG;
	}
	/* The double of an integer beyond 2^53 is already rounded: look at the integer. */
	if (integer &&
	    (fabs(b->r) > BOUND_MAX ||
		(b->type == ESPL__INT &&
		    (b->i > (INT64_C(1) << 53) || b->i < -(INT64_C(1) << 53)))))
		return FAIL(p, b, "'%s' of the int parameter '%s' is beyond +-2^53", key, n->name);
	if (fabs(b->r) > 1e300)
		return FAIL(p, b, "'%s' of '%s' is too large", key, n->name);
	*to = b->r;
	return ESPL_OK;
}

static espl_status
read_scale(struct parse *p, const struct espl__node *n, const struct espl__node *scale,
    struct espl__param *q)
{
	q->pub.scale = ESPL_LINEAR;
	if (scale != NULL) {
		int k = one_of(p, scale, n->name, "scale", scale_names, 3);

		if (k < 0)
			return ESPL_E_CONFIG;
		q->pub.scale = ESPL_LINEAR + (espl_scale)k;
	}
	return ESPL_OK;
}

static espl_status
read_moment(struct parse *p, const struct espl__node *n, const char *key, double *to)
{
	const struct espl__node *m = espl__node_get(n, key);

	if (m == NULL)
		return FAIL(p, n, "a normal distribution of '%s' needs mean and sd", n->name);
	if (!is_number(m))
		return FAIL(p, m, "'%s' of '%s' is %s, not a number", key, n->name,
		    espl__node_kind(m));
	if (!isfinite(m->r) || fabs(m->r) > 1e300)
		return FAIL(p, m, "'%s' of '%s' is too large", key, n->name);
	*to = m->r;
	return ESPL_OK;
}

/* In 12 digits: no 0.30000000000000004. */
static double
tidy(double value)
{
	char *text = espl__format("%.12g", value);
	double number = value;

	(void)espl__parse_real(text, &number);
	free(text);
	return number;
}

/* mean and sd; bounds are what they leave, or the user's, whichever is narrower. */
static espl_status
read_normal(struct parse *p, const struct espl__node *n, struct espl__param *q)
{
	int logs = q->pub.scale == ESPL_LOG, integer = q->pub.type == ESPL_INT;
	const struct espl__node *low = espl__node_get(n, "low"), *high = espl__node_get(n, "high");
	const struct espl__node *quantum = espl__node_get(n, "quantum");
	double least, most, step = quantum != NULL && is_number(quantum) ? quantum->r : integer;
	espl_status st = read_moment(p, n, "mean", &q->mean);

	if (st == ESPL_OK)
		st = read_moment(p, n, "sd", &q->sd);
	if (st != ESPL_OK)
		return st;
	if (!(q->sd > 0))
		return FAIL(p, espl__node_get(n, "sd"), "sd of '%s' must be above 0", n->name);
	if (q->pub.scale == ESPL_REVERSE_LOG || (logs && !(q->mean > 0)))
		return FAIL(p, espl__node_get(n, "mean"),
		    logs ? "mean of '%s' must be above 0 on a log scale"
			 : "a normal distribution of '%s' is on a linear or a log scale",
		    n->name);
	if (low != NULL && high != NULL && !(q->pub.low < q->pub.high))
		return ESPL_OK; /* the caller says it */
	q->mean = logs ? log(q->mean) : q->mean;
	least = q->mean - ESPL__NORMAL_MOST * q->sd;
	most = q->mean + ESPL__NORMAL_MOST * q->sd;
	least = tidy(logs ? exp(least) : least);
	most = tidy(logs ? exp(most) : most);
	if (step > 0) {
		least = tidy(ceil(least / step) * step);
		most = tidy(floor(most / step) * step);
	}
	if (!isfinite(most) || !(least < most) || (logs && !(least > 0)) ||
	    (integer && (least < -BOUND_MAX || most > BOUND_MAX)))
		return FAIL(p, n, "the normal distribution of '%s' is too %s", n->name,
		    least < most ? "wide" : "narrow");
	if (low == NULL || q->pub.low < least)
		q->pub.low = least;
	if (high == NULL || q->pub.high > most)
		q->pub.high = most;
	if (q->pub.low < q->pub.high)
		return ESPL_OK;
	return FAIL(p, n, "the bounds of '%s' are more than %g standard deviations from its mean",
	    n->name, ESPL__NORMAL_MOST);
}

static espl_status
read_range(struct parse *p, const struct espl__node *n, struct espl__param *q)
{
	int integer = q->pub.type == ESPL_INT;
	int normal = espl__node_get(n, "mean") != NULL || espl__node_get(n, "sd") != NULL;
	const struct espl__node *low = espl__node_get(n, "low"), *high = espl__node_get(n, "high"),
				*scale = espl__node_get(n, "scale");
	espl_status st = ESPL_OK;

	q->pub.low = 0;
	q->pub.high = 1;
	if (low != NULL || !normal)
		st = read_bound(p, n, "low", integer, &q->pub.low);
	if (st == ESPL_OK && (high != NULL || !normal))
		st = read_bound(p, n, "high", integer, &q->pub.high);
	if (st == ESPL_OK)
		st = read_scale(p, n, scale, q);
	if (st == ESPL_OK && normal)
		st = read_normal(p, n, q);
	if (st != ESPL_OK)
		return st;
	if (!(q->pub.low < q->pub.high)) {
		FAIL(p, espl__node_get(n, "low"), "low of '%s' is not below its high", n->name);
		if (q->pub.low == q->pub.high)
			espl__hint(p->diag, "write a constant as  %s = %s;", n->name,
			    espl__node_get(n, "low")->text);
		return ESPL_E_CONFIG;
	}
	if (q->pub.scale != ESPL_LINEAR && q->pub.low <= 0) {
		FAIL(p, espl__node_get(n, "low"), "low of '%s' must be above 0 on a %s scale",
		    n->name, scale->text);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_quantum(struct parse *p, const struct espl__node *n, struct espl__param *q)
{
	const struct espl__node *quantum = espl__node_get(n, "quantum");
	double span = q->pub.high - q->pub.low;

	if (quantum == NULL)
		return ESPL_OK;
	if (!is_number(quantum))
		return FAIL(p, quantum, "'quantum' of '%s' is %s, not a number", n->name,
		    espl__node_kind(quantum));
	if (!(quantum->r > 0) || !isfinite(quantum->r))
		return FAIL(p, quantum, "quantum of '%s' must be above 0", n->name);
	if (quantum->r > span)
		return FAIL(p, quantum, "quantum of '%s' is larger than its range", n->name);
	if (span / quantum->r > 1e9 && q->pub.type == ESPL_REAL) {
		FAIL(p, quantum, "quantum of '%s' results in more than 10^9 levels", n->name);
		espl__hint(p->diag, "remove it for continuous values");
		return ESPL_E_CONFIG;
	}
	if (q->pub.type == ESPL_INT && quantum->r != floor(quantum->r))
		return FAIL(p, quantum, "quantum of the int parameter '%s' is not a whole number",
		    n->name);
	q->pub.quantum = quantum->r;
	return ESPL_OK;
}

/* Values are known by their text, in arguments, results and tables: 1 and 1.0 are two, but 1 and
 * "1" are one. */
static espl_status
refuse_duplicate(struct parse *p, const struct espl__param *q, const struct espl__node *at,
    const struct espl__label *l)
{
	enum espl__label_kind before = q->labels[espl__param_label(q, l->text, NAN)].kind;

	FAIL(p, at, "duplicate value '%s' of '%s'", l->text, q->pub.name);
	if (before != l->kind)
		espl__hint(p->diag,
		    "one of the two is text and the other is not, but in an argument of a program "
		    "and "
		    "in results both are %s: give the text another name",
		    l->text);
	return ESPL_E_CONFIG;
}

static espl_status
read_labels(struct parse *p, const struct espl__node *n, struct espl__param *q)
{
	const struct espl__node *v = espl__node_get(n, "values");
	const char **texts;

	if (v == NULL) {
		FAIL(p, n, "parameter '%s' has no 'values'", n->name);
		espl__hint(p->diag, "values = [ \"a\", \"b\" ];");
		return ESPL_E_CONFIG;
	}
	if (v->type != ESPL__LIST && v->type != ESPL__ARRAY) {
		FAIL(p, v, "'values' of '%s' is %s, not a list", n->name, espl__node_kind(v));
		espl__hint(p->diag,
		    "write a list in brackets and text in quotes: values = [ \"a\", \"b\" ];");
		return ESPL_E_CONFIG;
	}
	if (v->child_count == 0)
		return FAIL(p, v, "'values' of '%s' is empty", n->name);
	if (v->child_count > LABEL_MAX)
		return FAIL(p, v, "'values' of '%s' has more than %u values", n->name, LABEL_MAX);
	q->labels = espl__arena_alloc(&p->s->arena, v->child_count * sizeof *q->labels);
	texts = espl__arena_alloc(&p->s->arena, v->child_count * sizeof *texts);
	for (uint32_t i = 0; i < v->child_count; i++) {
		const struct espl__node *c = v->children[i];
		struct espl__label l;

		if (!is_finite(c))
			return FAIL(p, c, "value %u of '%s' is not finite", i + 1, n->name);
		l = label_of(p->s, c);
		if (espl__param_label(q, l.text, NAN) != ESPL_ANY)
			return refuse_duplicate(p, q, c, &l);
		q->labels[i] = l;
		texts[i] = l.text;
		q->pub.label_count = i + 1;
	}
	q->pub.labels = texts;
	return ESPL_OK;
}

/* One value of a condition on parameter `of`. */
static espl_status
read_when_value(struct parse *p, const struct espl__node *n, uint32_t of, struct espl_when *w)
{
	const struct espl__param *q = &p->s->params[of];

	if (q->pub.type == ESPL_REAL) {
		FAIL(p, n, "a condition cannot depend on the real parameter '%s'", q->pub.name);
		espl__hint(p->diag, "use an int, choice or ordinal parameter");
		return ESPL_E_CONFIG;
	}
	*w = (struct espl_when){ .param = of };
	return espl__param_read(q, n, "condition on", &w->value, p->diag);
}

/* `when` of n names what the space does not have. */
static espl_status
refuse_unknown(struct parse *p, const struct espl__node *n, const struct espl__node *c)
{
	const char **names = espl__alloc((p->group->child_count + 1) * sizeof *names), *near;
	size_t count = 0;

	for (uint32_t i = 0; i < p->group->child_count; i++)
		if (strcmp(p->group->children[i]->name, n->name) != 0)
			names[count++] = p->group->children[i]->name;
	near = espl__nearest(c->name, names, count);
	FAIL(p, c, "the condition of '%s' refers to '%s', which the space does not have", n->name,
	    c->name);
	if (near != NULL)
		espl__hint(p->diag, "did you mean '%s'?", near);
	else
		espl__hint(p->diag, "check the spelling of '%s'", c->name);
	free(names);
	return ESPL_E_CONFIG;
}

/* One member of `when`.  *never is set if a constant, or a parameter that is never active,
 * makes it false for good. */
static espl_status
read_condition(struct parse *p, const struct espl__node *n, const struct espl__node *c,
    struct espl_when *list, uint32_t *count, int *never)
{
	const struct espl__setting *item = espl__space_item(p->s, c->name);
	int many = c->type == ESPL__LIST || c->type == ESPL__ARRAY, met = 0;
	const struct espl__node *const one[] = { c };
	const struct espl__node *const *values =
	    many ? (const struct espl__node *const *)c->children : one;
	uint32_t value_count = many ? c->child_count : 1;

	if (value_count == 0)
		return FAIL(p, c, "the condition of '%s' on '%s' has no value", n->name, c->name);
	if (item == NULL && espl__names_find(&p->off, c->name) != ESPL_ANY) {
		*never = 1;
		return ESPL_OK;
	}
	if (item == NULL)
		return refuse_unknown(p, n, c);
	for (uint32_t i = 0; i < value_count; i++) {
		espl_status st = ESPL_OK;

		if (item->param == ESPL_ANY)
			met |= espl__constant_is(&item->constant, values[i]);
		else
			st = read_when_value(p, values[i], item->param, &list[(*count)++]);
		if (st != ESPL_OK)
			return st;
	}
	if (item->param == ESPL_ANY && !met)
		*never = 1;
	return ESPL_OK;
}

static espl_status
read_when(struct parse *p, const struct espl__node *n, struct espl__param *q, int *never)
{
	const struct espl__node *when = espl__node_get(n, "when");
	struct espl_when *list;
	uint32_t room = 0;

	if (when == NULL)
		return ESPL_OK;
	if (when->type != ESPL__GROUP) {
		FAIL(p, when, "'when' of '%s' is %s, not a group", n->name, espl__node_kind(when));
		espl__hint(p->diag, "when = { optimizer = \"sgd\"; };");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < when->child_count; i++)
		room += when->children[i]->child_count + 1;
	list = espl__arena_alloc(&p->s->arena, (room + 1) * sizeof *list);
	for (uint32_t i = 0; i < when->child_count; i++) {
		espl_status st =
		    read_condition(p, n, when->children[i], list, &q->pub.when_count, never);
		if (st != ESPL_OK)
			return st;
	}
	q->pub.when = list;
	return ESPL_OK;
}

static espl_status
read_type(struct parse *p, const struct espl__node *n, espl_param_type *type)
{
	const struct espl__node *t = espl__node_get(n, "type");
	int k;

	if (n->type != ESPL__GROUP) {
		FAIL(p, n, "parameter '%s' is %s", n->name, espl__node_kind(n));
		espl__hint(p->diag, "write  %s = { type = \"choice\"; values = [ ... ]; };",
		    n->name);
		return ESPL_E_CONFIG;
	}
	if (t == NULL) {
		FAIL(p, n, "parameter '%s' has no 'type'", n->name);
		espl__hint(p->diag, "use real, int, choice or ordinal");
		return ESPL_E_CONFIG;
	}
	k = one_of(p, t, n->name, "type", type_names, 4);
	if (k < 0)
		return ESPL_E_CONFIG;
	*type = ESPL_REAL + (espl_param_type)k;
	return ESPL_OK;
}

/* Reads into the next free parameter.  *never: it can never be active; it is left out then. */
static espl_status
read_param(struct parse *p, const struct espl__node *n, int *never)
{
	struct espl__param *q = &p->s->params[p->s->count];
	const struct espl__node *fallback = espl__node_get(n, "default");
	espl_status st;
	int numeric;

	*q = (struct espl__param){ .pub = { .size = sizeof q->pub, .scale = ESPL_LINEAR },
		.file = n->file,
		.line = n->line };
	q->pub.fallback = NAN;
	q->pub.name = espl__arena_strdup(&p->s->arena, n->name);
	st = read_type(p, n, &q->pub.type);
	if (st != ESPL_OK)
		return st;
	numeric = q->pub.type == ESPL_REAL || q->pub.type == ESPL_INT;
	st = check_keys(p, n, numeric);
	if (st == ESPL_OK && numeric)
		st = read_range(p, n, q);
	if (st == ESPL_OK && numeric)
		st = read_quantum(p, n, q);
	if (st == ESPL_OK && !numeric)
		st = read_labels(p, n, q);
	if (st == ESPL_OK) {
		espl__param_prepare(q);
		if (fallback != NULL)
			st = espl__param_read(q, fallback, "the default of", &q->pub.fallback,
			    p->diag);
	}
	if (st == ESPL_OK)
		st = read_when(p, n, q, never);
	return st;
}

/* A constant or a parameter becomes the next of the space. */
static espl_status
read_member(struct parse *p, const struct espl__node *n)
{
	struct espl__space *s = p->s;
	struct espl__setting *item = &s->items[s->item_count];
	espl_status st = check_name(p, n);
	int never = 0;

	if (st != ESPL_OK)
		return st;
	if (is_scalar(n)) { /* a list may be meant as a choice */
		if (!is_finite(n))
			return FAIL(p, n, "the constant '%s' is not finite", n->name);
		item->name = espl__arena_strdup(&s->arena, n->name);
		item->param = ESPL_ANY;
		item->constant = label_of(s, n);
		s->item_count++;
		return ESPL_OK;
	}
	st = read_param(p, n, &never);
	if (st != ESPL_OK)
		return st;
	if (never) {
		espl__names_add(&p->off, n->name);
		return ESPL_OK;
	}
	item->name = s->params[s->count].pub.name;
	item->param = s->count++;
	s->item_count++;
	return ESPL_OK;
}

/* where a member stands while members are put in order */
enum { UNREAD, WAITS, DONE };

/* A member that the conditions or bounds of this one name and that was not read yet; ESPL_ANY:
 * none.
 */
static uint32_t
find_unread(const struct espl__node *group, uint32_t member, const uint8_t *states)
{
	static const char *const bounds[] = { "low", "high" };
	const struct espl__node *when = espl__node_get(group->children[member], "when");

	for (uint32_t i = 0; i < 2; i++) {
		const struct espl__node *b = espl__node_get(group->children[member], bounds[i]);

		for (uint32_t k = 0; b != NULL && b->type == ESPL__STRING && k < group->child_count;
		     k++)
			if (states[k] != DONE && strcmp(group->children[k]->name, b->text) == 0)
				return k;
	}
	if (when == NULL || when->type != ESPL__GROUP)
		return ESPL_ANY;
	for (uint32_t i = 0; i < when->child_count; i++)
		for (uint32_t k = 0; k < group->child_count; k++)
			if (states[k] != DONE &&
			    strcmp(group->children[k]->name, when->children[i]->name) == 0)
				return k;
	return ESPL_ANY;
}

/* In the file's order, but what a condition names before the parameter that it governs. */
static espl_status
read_all(struct parse *p, const struct espl__node *group)
{
	uint32_t count = group->child_count;
	uint8_t *states = espl__arena_alloc(&p->s->arena, count);
	uint32_t *waiter = espl__arena_alloc(&p->s->arena, count * sizeof *waiter);

	memset(states, UNREAD, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = states[i] == DONE ? ESPL_ANY : i, next;

		waiter[i] = ESPL_ANY;
		while (at != ESPL_ANY) {
			const struct espl__node *n = group->children[at];
			espl_status st;

			next = n->type == ESPL__GROUP ? find_unread(group, at, states) : ESPL_ANY;
			if (next != ESPL_ANY && (next == at || states[next] == WAITS)) {
				FAIL(p, n, "the condition of '%s' depends on '%s' itself", n->name,
				    n->name);
				espl__hint(p->diag,
				    "no parameter can depend on one that depends on it");
				return ESPL_E_CONFIG;
			}
			if (next != ESPL_ANY) {
				states[at] = WAITS;
				waiter[next] = at;
				at = next;
				continue;
			}
			st = read_member(p, n);
			if (st != ESPL_OK)
				return st;
			states[at] = DONE;
			at = waiter[at];
		}
	}
	return ESPL_OK;
}

espl_status
espl__space_parse(const struct espl__node *group, struct espl__space **out, struct espl__diag *diag)
{
	struct espl__space *s = espl__alloc(sizeof *s);
	struct parse p = { .s = s, .diag = diag, .group = group };
	espl_status st = ESPL_OK;

	s->magic = ESPL__SPACE_MAGIC;
	*out = NULL;
	if (group != NULL && group->type != ESPL__GROUP) {
		st = FAIL(&p, group, "'space' is %s, not a group", espl__node_kind(group));
	} else if (group != NULL && group->child_count == 0) {
		st = FAIL(&p, group, "the search space has no parameters");
		espl__hint(diag,
		    "space = { lr = { type = \"real\"; low = 1e-4; high = 1e-1; scale = \"log\"; "
		    "}; };");
	} else if (group != NULL) {
		s->params = espl__arena_alloc(&s->arena, group->child_count * sizeof *s->params);
		s->items = espl__arena_alloc(&s->arena, group->child_count * sizeof *s->items);
		st = read_all(&p, group);
	}
	if (st == ESPL_OK) {
		espl__space_ready(s);
		st = add_other_rules(&p);
	}
	free(p.others);
	espl__names_free(&p.off);
	if (st != ESPL_OK) {
		espl__space_free(s);
		return st;
	}
	*out = s;
	return ESPL_OK;
}
