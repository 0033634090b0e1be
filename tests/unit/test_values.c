/* test_values.c - a value keeps its type and its bits on the way from the space to a program:
 * random values of each type through each way that C has.  ESPALIER_TEST_VALUES sets how many. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "config/tree.h"
#include "espalier_trial.h"
#include "model/space.h"

static uint64_t
rounds(void)
{
	const char *text = getenv("ESPALIER_TEST_VALUES");

	return text != NULL ? strtoull(text, NULL, 10) : 10000;
}

/* Any finite number: of random bits, whole, short, or at the edge of a spelling. */
static double
draw_real(struct espl__rng *rng)
{
	static const double edges[] = { 0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 1e-5, 9.999e-5, 1e14, 1e15,
		1e16, 123456789012345680.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
		9007199254740993.0 };
	uint64_t bits = espl__rng_next(rng);
	double value;

	switch (bits % 4) {
	case 0: return (double)(int64_t)(espl__rng_next(rng) >> (bits >> 8) % 60);
	case 1: return edges[(bits >> 8) % (sizeof edges / sizeof edges[0])];
	case 2:
		return (double)(int)((bits >> 8) % 1999 - 999) *
		    pow(10, (int)((bits >> 24) % 40) - 20);
	default:
		do {
			bits = espl__rng_next(rng);
			memcpy(&value, &bits, sizeof value);
		} while (!isfinite(value));
		return value;
	}
}

static int
is_same(double a, double b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

/* YAML 1.1: [-+]?([0-9][0-9_]*)\.[0-9.]*([eE][-+][0-9]+)?  */
static int
is_yaml_real(const char *text)
{
	text += *text == '-';
	if (strspn(text, "0123456789") == 0)
		return 0;
	text += strspn(text, "0123456789");
	if (*text != '.' || strspn(text + 1, "0123456789") == 0)
		return 0;
	text += 1 + strspn(text + 1, "0123456789");
	if (*text == '\0')
		return 1;
	return *text == 'e' && (text[1] == '-' || text[1] == '+') &&
	    strlen(text + 2) == strspn(text + 2, "0123456789") && text[2] != '\0';
}

Test(values, a_real_is_read_as_a_real_by_all)
{
	struct espl__rng rng;

	espl__rng_seed(&rng, 36, "values");
	for (uint64_t i = 0; i < rounds(); i++) {
		double value = draw_real(&rng);
		char text[32], member[64];
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__tree *t = NULL;
		const struct espl__node *n;
		json_t *json;

		espl__format_value(value, text);
		cr_assert(is_same(strtod(text, NULL), value), "%s", text);
		cr_assert(is_yaml_real(text), "%s", text);
		json = json_loads(text, JSON_DECODE_ANY, NULL);
		cr_assert(json_is_real(json) && is_same(json_real_value(json), value), "%s", text);
		json_decref(json);
		(void)snprintf(member, sizeof member, "x = %s;", text);
		cr_assert_eq(espl__tree_parse(member, "t.cfg", &t, &diag), ESPL_OK, "%s: %s",
		    member, diag.text);
		n = espl__tree_root(t)->children[0];
		cr_assert(n->type == ESPL__REAL && is_same(n->r, value), "%s", text);
		espl__tree_free(t);
	}
}

static const char *const labels[] = { "1", "-7", "4000000000", "9007199254740993", "true", "1.0",
	"0.5", "1.0e-05", "-2.0e+20", "\"1\"", "\"1.0\"", "\"true\"", "\"a b'{}$\\\"\"", "\"\"",
	"\"null\"" };
enum { LABELS = sizeof labels / sizeof labels[0] };

/* A setting as it stands in the JSON, in the words and in the configuration that it came from. */
static void
check_setting(const struct espl_setting *s, const json_t *json, const struct espl__node *from,
    const char *all)
{
	const json_t *value = json_object_get(json, s->name);
	struct espalier_trial trial = { .params = (char *)(uintptr_t)all };

	switch (from->type) {
	case ESPL__INT:
		cr_assert(json_is_integer(value) && json_integer_value(value) == from->i, "%s",
		    all);
		cr_assert_eq(strtoll(s->text, NULL, 10), from->i);
		break;
	case ESPL__REAL:
		cr_assert(json_is_real(value) && is_same(json_real_value(value), from->r), "%s",
		    all);
		cr_assert(is_yaml_real(s->text) && is_same(strtod(s->text, NULL), from->r));
		cr_assert(is_same(espalier_number(&trial, s->name, NAN), from->r), "%s", all);
		break;
	case ESPL__BOOL:
		cr_assert(json_is_boolean(value) && json_is_true(value) == (from->i != 0));
		break;
	default:
		cr_assert(json_is_string(value), "%s", all);
		cr_assert_str_eq(json_string_value(value), from->text);
		cr_assert_str_eq(s->text, from->text);
	}
}

/* A space of two choices, a real, an int and two constants; each value set by hand. */
static void
check_space(struct espl__rng *rng)
{
	const char *one = labels[espl__rng_next(rng) % LABELS], *two = one;
	struct espl__buf text = { NULL, 0, 0 }, all = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *t = NULL, *first = NULL;
	struct espl__settings settings;
	struct espl__space *s = NULL;
	double values[4], real = draw_real(rng), at;
	int64_t whole = (int64_t)(espl__rng_next(rng) >> 12) - (INT64_C(1) << 51);
	char constant[32], middle[32];
	json_t *json;

	while (strcmp(two, one) == 0 || strchr(two, '"') != NULL)
		two = labels[espl__rng_next(rng) % LABELS];
	at = (double)(espl__rng_next(rng) % 2000001) / 1e6 - 1;
	espl__format_value(real, constant);
	(void)snprintf(middle, sizeof middle, "%.6f", at); /* a space rounds finer ones */
	espl__print(&text,
	    "a = { type = \"choice\"; values = ( %s, %s ); };\n"
	    "b = { type = \"ordinal\"; values = ( \"no\", %s ); };\n"
	    "c = { type = \"real\"; low = -1; high = 1; };\n"
	    "d = { type = \"int\"; low = -9007199254740992L; high = 9007199254740992L; };\n"
	    "e = %s; f = %lldL;",
	    one, two, two, constant, (long long)whole);
	cr_assert_eq(espl__tree_parse(espl__buf_text(&text), "t.cfg", &t, &diag), ESPL_OK, "%s: %s",
	    espl__buf_text(&text), diag.text);
	if (espl__space_parse(espl__tree_root(t), &s, &diag) != ESPL_OK) {
		/* 1 and "1" are one word for a program. */
		cr_assert(strstr(diag.text, "duplicate") != NULL, "%s", diag.text);
		goto end;
	}
	espl__buf_clear(&text);
	espl__print(&text, "a = %s; b = %s; c = %s; d = %lldL; e = %s; f = %lldL;", one, two,
	    middle, (long long)whole, constant, (long long)whole);
	cr_assert_eq(espl__tree_parse(espl__buf_text(&text), "f.cfg", &first, &diag), ESPL_OK);
	cr_assert_eq(espl__space_point(s, espl__tree_root(first), values, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__space_json(s, values, &all);
	espl__space_settings(s, values, &settings);
	json = json_loads(espl__buf_text(&all), 0, NULL);
	cr_assert(json != NULL && settings.count == 6, "%s", espl__buf_text(&all));
	for (uint32_t i = 0; i < settings.count; i++)
		check_setting(&settings.list[i], json,
		    espl__node_get(espl__tree_root(first), settings.list[i].name),
		    espl__buf_text(&all));
	json_decref(json);
	espl__settings_free(&settings);
	espl__space_free(s);
end:
	espl__tree_free(first);
	espl__tree_free(t);
	espl__buf_free(&all);
	espl__buf_free(&text);
}

Test(values, every_type_leaves_the_space_as_it_came)
{
	struct espl__rng rng;

	espl__rng_seed(&rng, 37, "values");
	for (uint64_t i = 0; i < rounds() / 6 + 1; i++)
		check_space(&rng);
}

Test(values, a_whole_real_and_an_integer_are_two_choices)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf all = { NULL, 0, 0 };
	struct espl__tree *t = NULL;
	struct espl__space *s = NULL;
	const double one = 0, two = 1;

	cr_assert_eq(espl__tree_parse("m = { type = \"choice\"; values = ( 1, 1.0 ); };", "t.cfg",
			 &t, &diag),
	    ESPL_OK);
	cr_assert_eq(espl__space_parse(espl__tree_root(t), &s, &diag), ESPL_OK, "%s", diag.text);
	espl__space_json(s, &one, &all);
	espl__space_json(s, &two, &all);
	cr_assert_str_eq(espl__buf_text(&all), "{\"m\": 1}{\"m\": 1.0}");
	espl__buf_free(&all);
	espl__space_free(s);
	espl__tree_free(t);
}
