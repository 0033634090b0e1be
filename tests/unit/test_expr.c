/* test_expr.c - conditions that a user writes: what holds, random ones against another reading of
 * them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "model/expr.h"

/* a = 1, b = 2, c = 0.5, gone: not there, color: "red" of red, green, blue */
static const char *const names[] = { "a", "b", "c", "gone", "color", "odd name" };
static const double values[] = { 1, 2, 0.5, NAN, 0, 7 };

static uint32_t
find(const void *ctx, const char *name, int *labels)
{
	(void)ctx;
	for (uint32_t i = 0; i < 6; i++)
		if (strcmp(names[i], name) == 0) {
			*labels = i == 4;
			return i;
		}
	return ESPL_ANY;
}

static uint32_t
label(const void *ctx, uint32_t name, const char *text, double number)
{
	static const char *const colors[] = { "red", "green", "blue" };

	(void)ctx;
	(void)name;
	(void)number;
	for (uint32_t i = 0; i < 3; i++)
		if (strcmp(colors[i], text) == 0)
			return i;
	return ESPL_ANY;
}

static double
value(const void *ctx, uint32_t name)
{
	(void)ctx;
	return values[name];
}

static const struct espl__expr_scope scope = { .find = find,
	.label = label,
	.what = "a name",
	.example = "a > b",
	.names = names,
	.name_count = 6 };

static int
holds(const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__expr *e;
	double far;
	int result;

	cr_assert_eq(espl__expr_parse(text, &scope, "test", NULL, 0, &e, &diag), ESPL_OK, "%s: %s",
	    text, diag.text);
	cr_assert_str_eq(espl__expr_text(e), text);
	far = espl__expr_shortfall(e, value, NULL);
	result = espl__expr_holds(e, value, NULL);
	if (!isnan(far)) /* a value is not there */
		cr_assert_eq(far <= 0, result, "%s: %g", text, far);
	cr_assert(isnan(far) || fabs(far) <= 1, "%s: %g", text, far);
	espl__expr_free(e);
	return result;
}

Test(expr, holds)
{
	static const char *const yes[] = { "a < b", "b>a", "a=1", "a == 1.0", "a != 2", "1 < b",
		"2 >= b", "a + b = 3", "a - b - c = -1.5", "a - (b - c) = -0.5", "2 * b + 1 = 5",
		"1 + 2 * b = 5", "b / c / 2 = 2", "-a = -1", "--a = 1", "not a > b", "! (a > b)",
		"a > b or a < b", "a > b || b > a", "a > b and a > b or a < b",
		"a < b or a > b and a > b", "a < b && b < 3", "color = 'red'", "'red' == color",
		"color != \"green\"", "not color = 'blue'", "{odd name} = 7", "{a}<{b}",
		"not gone > 0", "not gone = gone", "1e3 = 1000", ".5 = c", "(((a))) = ((1))",
		"(a < b) and (color = 'red' or gone > 1)" };
	static const char *const no[] = { "a > b", "a >= b", "gone > 0", "gone <= 0", "gone != 1",
		"gone = gone", "gone + 1 > 0", "color = 'green'", "color != 'red'",
		"not (a < b or gone > 1)", "a < b and gone > 0" };
	static const char *const refused[] = { "", "a", "a + b", "a <", "< a", "a < b < c", "a b",
		"(a < b", "a < b)", "color < 'red'", "color = 'pink'", "color = a", "color + 1 > 0",
		"'red' < 1", "a = 'red'", "a < b and 1", "not a", "d < 1", "a < 1x", "{a < 1",
		"a < 1 #", "color", "a and b < c", "1 = 'red'", "(a < b) < c", "(a < b) + 1 > 0",
		"a < .", "a ! b" };

	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		cr_expect(holds(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		cr_expect_not(holds(no[i]), "%s", no[i]);
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__expr *e;

		cr_expect_eq(espl__expr_parse(refused[i], &scope, "test", "f.cfg", 7, &e, &diag),
		    ESPL_E_CONFIG, "%s", refused[i]);
		cr_expect(e == NULL && diag.line == 7 && diag.text[0] != '\0', "%s", refused[i]);
	}
}

/* A random condition as text, and whether it holds, computed while it is written. */
struct writer {
	struct espl__rng rng;
	char text[4096];
	size_t length;
};

static void
put(struct writer *w, const char *text)
{
	w->length += (size_t)snprintf(w->text + w->length, sizeof w->text - w->length, "%s", text);
}

static double
write_value(struct writer *w, int depth)
{
	uint64_t kind = espl__rng_next(&w->rng) % (depth > 0 ? 6 : 2), name;
	char number[32];
	double left, right;

	if (kind == 0) {
		name = espl__rng_next(&w->rng) % 4;
		put(w, names[name]);
		return values[name];
	}
	if (kind == 1) {
		left = (double)(espl__rng_next(&w->rng) % 9) / 2;
		(void)snprintf(number, sizeof number, "%g", left);
		put(w, number);
		return left;
	}
	put(w, "(");
	left = write_value(w, depth - 1);
	put(w, kind == 2 ? " + " : kind == 3 ? "-" : kind == 4 ? " * " : "/");
	right = write_value(w, depth - 1);
	put(w, ")");
	return kind == 2 ? left + right
	    : kind == 3  ? left - right
	    : kind == 4  ? left * right
			 : left / right;
}

static int
write_condition(struct writer *w, int depth)
{
	uint64_t kind = espl__rng_next(&w->rng) % (depth > 0 ? 5 : 2);
	double a, b;
	int left, right;

	if (kind < 2) {
		static const char *const signs[] = { " < ", "<=", ">", " >= ", " = ", "!=" };
		uint64_t sign = espl__rng_next(&w->rng) % 6;

		a = write_value(w, 2);
		put(w, signs[sign]);
		b = write_value(w, 2);
		return sign == 0 ? a < b
		    : sign == 1  ? a <= b
		    : sign == 2  ? a > b
		    : sign == 3  ? a >= b
		    : sign == 4  ? a == b
				 : !isnan(a) && !isnan(b) && a != b;
	}
	if (kind == 2) {
		put(w, "not (");
		left = write_condition(w, depth - 1);
		put(w, ")");
		return !left;
	}
	put(w, "(");
	left = write_condition(w, depth - 1);
	put(w, kind == 3 ? ") and (" : ") or (");
	right = write_condition(w, depth - 1);
	put(w, ")");
	return kind == 3 ? left && right : left || right;
}

Test(expr, random_ones)
{
	int met = 0;

	for (uint32_t seed = 0; seed < 5000; seed++) {
		struct writer w = { .length = 0 };
		char name[16];
		int expected;

		(void)snprintf(name, sizeof name, "%u", seed);
		espl__rng_seed(&w.rng, seed, "expr");
		expected = write_condition(&w, 4);
		cr_assert(w.length < sizeof w.text);
		cr_assert_eq(holds(w.text), expected, "seed %u: %s", seed, w.text);
		met += expected;
	}
	cr_assert(met > 500 && met < 4500);
}

static double
far_from(const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__expr *e;
	double far;

	cr_assert_eq(espl__expr_parse(text, &scope, "test", NULL, 0, &e, &diag), ESPL_OK);
	far = espl__expr_shortfall(e, value, NULL);
	espl__expr_free(e);
	return far;
}

/* How far a condition is from holding: relative, the worst of several that must hold, and unknown
 * only if it depends on what is not there. */
Test(expr, shortfall)
{
	cr_assert_float_eq(far_from("b < 1"), 0.5, 1e-15);
	cr_assert_float_eq(far_from("b < 4"), -0.5, 1e-15);
	cr_assert_gt(far_from("a < 1"), 0);
	cr_assert_eq(far_from("a <= 1"), 0);
	cr_assert_float_eq(far_from("b < 1 and c < 0.1"), 0.8, 1e-15);
	cr_assert_float_eq(far_from("b < 1 or c < 0.1"), 0.5, 1e-15);
	cr_assert_float_eq(far_from("not (b < 4)"), 0.5, 1e-15);
	cr_assert(isnan(far_from("gone < 1")));
	cr_assert(isnan(far_from("gone < 1 and a < 2")));
	cr_assert_float_eq(far_from("gone < 1 and b < 1"), 0.5, 1e-15);
	cr_assert(isnan(far_from("gone < 1 or b < 1")));
	cr_assert_float_eq(far_from("gone < 1 or b < 4"), -0.5, 1e-15);
}

/* Whatever the text, it is a condition or it is refused. */
Test(expr, noise)
{
	static const char signs[] = "a b<=>!&|()+-*/'\"{}.0123 andornotcolorredtruefalse\\\xff\t";
	struct espl__rng rng;

	espl__rng_seed(&rng, 7, "noise");
	for (uint32_t round = 0; round < 20000; round++) {
		char text[64];
		size_t length = espl__rng_next(&rng) % (sizeof text - 1);
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__expr *e;

		for (size_t i = 0; i < length; i++)
			text[i] = signs[espl__rng_next(&rng) % (sizeof signs - 1)];
		text[length] = '\0';
		if (espl__expr_parse(text, &scope, "test", NULL, 0, &e, &diag) == ESPL_OK) {
			(void)espl__expr_holds(e, value, NULL);
			espl__expr_free(e);
		} else {
			cr_assert(diag.text[0] != '\0');
		}
	}
}
