/* test_model.c - the search space, profiles, the ledger, trials, as a user meets them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/rng.h"
#include "input/input.h"
#include "model/ledger.h"
#include "model/profile.h"
#include "model/space.h"
#include "model/trials.h"

/* ---- helpers --------------------------------------------------------------------------- */

static struct espl__tree *
tree(const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *t = NULL;

	cr_assert_eq(espl__tree_parse(text, "t.cfg", &t, &diag), ESPL_OK, "%s: %s", text,
	    diag.text);
	return t;
}

static struct espl__space *
space(const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *t = tree(text);
	struct espl__space *s = NULL;
	espl_status st = espl__space_parse(espl__tree_root(t), &s, &diag);

	cr_assert_eq(st, ESPL_OK, "%s: %s", text, diag.text);
	espl__tree_free(t); /* the space keeps nothing of it */
	return s;
}

/* A text in a file of its own; remove() and free() it. */
static char *
file_of(const char *text)
{
	char *path =
	    espl__format("%s/espl-model-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	int fd = mkstemp(path);
	size_t n = strlen(text);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
	return path;
}

static void
drop(char *path)
{
	remove(path);
	free(path);
}

/* ---- space --------------------------------------------------------------------------------- */

static const char everything[] =
    "lr = { type = \"real\"; low = 1e-5; high = 0.3; scale = \"log\"; };\n"
    "momentum = { type = \"real\"; low = -1.0; high = 1; };\n"
    "keep = { type = \"real\"; low = 0.001; high = 0.999; scale = \"reverse-log\"; };\n"
    "units = { type = \"int\"; low = 1; high = 4096; scale = \"log\"; };\n"
    "huge = { type = \"int\"; low = 1; high = 9007199254740992L; scale = \"log\"; };\n"
    "wide = { type = \"int\"; low = -9007199254740992L; high = 9007199254740992L; };\n"
    "layers = { type = \"int\"; low = 0; high = 5; };\n"
    "batch = { type = \"int\"; low = 16; high = 250; quantum = 16; };\n"
    "step = { type = \"real\"; low = 0.1; high = 0.9; quantum = 0.1; };\n"
    "decay = { type = \"real\"; low = 0.01; high = 10.0; quantum = 0.01; scale = \"log\"; };\n"
    "opt = { type = \"choice\"; values = [ \"sgd\", \"adam\", \"none\" ]; };\n"
    "nesterov = { type = \"choice\"; values = [ true, false ]; when = { opt = \"sgd\"; }; };\n"
    "damp = { type = \"real\"; low = 0.0; high = 1.0; when = { nesterov = false; layers = [ 1, 2 "
    "]; }; };\n"
    "size = { type = \"ordinal\"; values = ( 8, 16.5, \"all\" ); };\n"
    "shift = { type = \"real\"; low = 1000000.0; high = 1000000.001; };\n"
    "bell = { type = \"real\"; mean = 0.3; sd = 0.1; };\n"
    "cut = { type = \"real\"; mean = 2.0; sd = 0.5; low = 3.0; high = 9.0; };\n"
    "skew = { type = \"real\"; mean = 1e-3; sd = 1.5; scale = \"log\"; };\n"
    "count = { type = \"int\"; mean = 10; sd = 3; low = 1; };\n"
    "fifths = { type = \"real\"; mean = 10; sd = 3; quantum = 5; };\n";

Test(space, round_trips_and_conditions)
{
	struct espl__space *s = space(everything);
	const struct espl_space *v = espl__space_view(s);
	uint32_t n = espl__space_count(s), opt = v->find(v, "opt"),
		 nesterov = v->find(v, "nesterov");
	uint32_t damp = v->find(v, "damp"), layers = v->find(v, "layers"), missing = 0;
	double unit[32], values[32], back[32], again[32], snapped[32];
	struct espl__rng rng;
	int seen_damp = 0;

	cr_assert_eq(n, 20u);
	cr_assert_eq(v->find(v, "nothing"), ESPL_ANY);
	espl__rng_seed(&rng, 1, "test");
	for (int i = 0; i < 20000; i++) {
		for (uint32_t p = 0; p < n; p++)
			unit[p] = i == 0 ? 0.0 : i == 1 ? 1.0 : espl__rng_uniform(&rng);
		cr_assert_eq(v->from_unit(v, unit, values), ESPL_OK);
		cr_assert_eq(v->to_unit(v, values, back), ESPL_OK);
		cr_assert_eq(v->from_unit(v, back, again), ESPL_OK);
		memcpy(snapped, values, sizeof snapped);
		cr_assert_eq(v->snap(v, snapped, &missing), ESPL_OK);
		for (uint32_t p = 0; p < n; p++) {
			const struct espl_param *q = v->params[p];

			if (isnan(values[p])) {
				cr_assert(isnan(back[p]) && isnan(again[p]) && isnan(snapped[p]));
				continue;
			}
			cr_assert_eq(again[p], values[p], "%s: %.17g became %.17g", q->name,
			    values[p], again[p]);
			cr_assert_eq(snapped[p], values[p], "%s: %.17g snaps to %.17g", q->name,
			    values[p], snapped[p]);
			if (q->label_count == 0)
				cr_assert(values[p] >= q->low && values[p] <= q->high, "%s",
				    q->name);
			if (i == 0 || i == 1)
				cr_assert(q->label_count > 0 || q->quantum > 0 ||
					values[p] == (i == 0 ? q->low : q->high),
				    "%s", q->name);
		}
		cr_assert_eq(v->hash(v, values), v->hash(v, again));
		cr_assert_eq(isnan(values[nesterov]), values[opt] != 0);
		/* Transitive: an inactive nesterov is no `false`. */
		cr_assert_eq(!isnan(values[damp]),
		    values[opt] == 0 && values[nesterov] == 1 &&
			(values[layers] == 1 || values[layers] == 2));
		seen_damp += !isnan(values[damp]);
	}
	cr_assert_gt(seen_damp, 0);
	unit[0] = 1.5;
	cr_assert_eq(v->from_unit(v, unit, values), ESPL_E_REJECTED);
	espl__space_free(s);
}

Test(space, scales_sample_fairly)
{
	struct espl__space *s = space(everything);
	const struct espl_space *v = espl__space_view(s);
	uint32_t units = v->find(v, "units"), layers = v->find(v, "layers"),
		 keep = v->find(v, "keep");
	uint32_t ones = 0, counts[6] = { 0 }, close = 0, many = 100000;

	for (uint32_t i = 0; i < many; i++) {
		double u = (i + 0.5) / many;

		ones += v->value(v, units, u) == 1;
		counts[(int)v->value(v, layers, u)]++;
		close += v->value(v, keep, u) > 0.9;
	}
	/* [0.5, 1.5) of [0.5, 4096.5) on a log scale. */
	cr_assert_float_eq(ones, many * log(3.0) / log(4096.5 / 0.5), 3);
	for (int k = 0; k < 6; k++)
		cr_assert_float_eq(counts[k], many / 6.0, 2);
	/* Mirrored: above 0.9 lies below 0.1 of the log scale's. */
	cr_assert_float_eq(close, many * log(0.1 / 0.001) / log(0.999 / 0.001), 50);
	cr_assert_eq(v->params[units]->levels, 4096u);
	cr_assert_eq(v->params[v->find(v, "batch")]->levels, 15u);
	cr_assert_eq(v->value(v, v->find(v, "batch"), 1.0), 240.0);
	cr_assert_eq(v->params[v->find(v, "step")]->levels, 9u);
	/* not 0.30000000000000004 */
	cr_assert_eq(v->value(v, v->find(v, "step"), 0.25), 0.3);
	cr_assert_eq(v->params[v->find(v, "lr")]->levels, 0u);
	espl__space_free(s);
}

Test(space, normal_distributions)
{
	struct espl__space *s = space(everything);
	const struct espl_space *v = espl__space_view(s);
	uint32_t bell = v->find(v, "bell"), cut = v->find(v, "cut"), skew = v->find(v, "skew"),
		 count = v->find(v, "count"), fifths = v->find(v, "fifths"), many = 100000;
	double sum = 0, squares = 0, within = 0, logs = 0, log_squares = 0, counts[32] = { 0 };

	for (uint32_t i = 0; i < many; i++) {
		double u = (i + 0.5) / many, x = v->value(v, bell, u),
		       y = log(v->value(v, skew, u));

		sum += x;
		squares += (x - 0.3) * (x - 0.3);
		within += fabs(x - 0.3) < 0.1;
		logs += y;
		log_squares += (y - log(1e-3)) * (y - log(1e-3));
		counts[(int)v->value(v, count, u)]++;
	}
	cr_assert_float_eq(sum / many, 0.3, 1e-6);
	cr_assert_float_eq(sqrt(squares / many), 0.1, 1e-4);
	cr_assert_float_eq(within / many, 0.6827, 1e-3);
	cr_assert_float_eq(logs / many, log(1e-3), 1e-6);
	cr_assert_float_eq(sqrt(log_squares / many), 1.5, 2e-3);
	/* of the share above 0.5, that between 9.5 and 10.5 */
	cr_assert_float_eq(counts[10] / many, 0.13236 / 0.99923, 1e-3);
	cr_assert(counts[0] + counts[23] == 0 && counts[1] > 0 && counts[22] > 0);
	/* within four standard deviations, and the user's bounds */
	cr_assert(v->params[bell]->low == -0.1 && v->params[bell]->high == 0.7);
	cr_assert(v->params[cut]->low == 3.0 && v->params[cut]->high == 4.0);
	cr_assert_float_eq(v->value(v, cut, 0.5), 2 + 0.5 * 2.2770741, 1e-6);
	cr_assert(v->params[fifths]->low == 0 && v->params[fifths]->high == 20);
	cr_assert(v->params[fifths]->levels == 5 && v->value(v, fifths, 0.5) == 10);
	espl__space_free(s);
}

static const struct {
	const char *text;
	uint32_t line;
	const char *says, *hint;
} wrong[] = {
	{ "a = { type = \"float\"; low = 0; high = 1; };", 1, "'float' is not a valid type", "" },
	{ "\na = { type = \"rael\"; low = 0; high = 1; };", 2, "'rael' is not a valid type",
	    "'real'" },
	{ "a = { low = 0; high = 1; };", 1, "no 'type'", "real, int" },
	{ "a = { type = \"real\"; high = 1; };", 1, "no 'low'", "" },
	{ "a = { type = \"real\"; low = 0;\n hihg = 1; };", 2, "no key 'hihg'", "'high'" },
	{ "a = { type = \"real\"; low = 0; high = 1; scale = \"lgo\"; };", 1,
	    "'lgo' is not a valid scale", "'log'" },
	{ "a = { type = \"real\";\n low = 2; high = 1; };", 2, "not below", "" },
	{ "a = { type = \"real\"; mean = 1; };", 1, "needs mean and sd", "" },
	{ "a = { type = \"real\"; mu = 1; sigma = 2; };", 1, "no key 'mu'", "'mean'" },
	{ "a = { type = \"real\"; mean = 1;\n sd = 0; };", 2, "sd of 'a' must be above 0", "" },
	{ "a = { type = \"real\"; mean = 0; sd = 1; scale = \"log\"; };", 1,
	    "mean of 'a' must be above 0 on a log scale", "" },
	{ "a = { type = \"real\"; mean = 1; sd = 1; low = 6; };", 1,
	    "more than 4 standard deviations from its mean", "" },
	{ "a = { type = \"real\"; mean = 1; sd = 1;\n low = 3; high = 2; };", 2, "not below", "" },
	{ "a = { type = \"int\"; mean = 1; sd = 0.1; };", 1, "too narrow", "" },
	{ "a = { type = \"choice\"; mean = 1; };", 1, "no meaning", "" },
	{ "a = { type = \"int\"; low = 3; high = 3; };", 1, "not below", "a = 3;" },
	{ "a = { type = \"real\";\n low = 0; high = 1; scale = \"log\"; };", 2, "above 0", "" },
	{ "a = { type = \"real\"; low = 0; high = 1; quantum = 0; };", 1, "above 0", "" },
	{ "a = { type = \"real\"; low = 0; high = 1; quantum = 2; };", 1, "larger than its range",
	    "" },
	{ "a = { type = \"int\"; low = 0; high = 9; quantum = 1.5; };", 1, "whole number", "" },
	{ "a = { type = \"int\"; low = 0.5; high = 9; };", 1, "whole number", "real" },
	{ "a = { type = \"int\"; low = 0; high = 9007199254740993L; };", 1, "2^53", "" },
	{ "a = { type = \"real\"; low = \"0\"; high = 1; };", 1, "not a number", "" },
	{ "a = { type = \"choice\"; values = [ ]; };", 1, "empty", "" },
	{ "a = { type = \"choice\"; };", 1, "no 'values'", "" },
	{ "a = { type = \"choice\"; values = [ \"x\", \"y\", \"x\" ]; };", 1, "duplicate value",
	    "" },
	{ "a = { type = \"choice\"; values = ( 1, \"1\" ); };", 1, "duplicate value",
	    "one of the two is text and the other is not" },
	{ "a = { type = \"choice\"; values = ( 2, 2 ); };", 1, "duplicate value", "" },
	{ "a = { type = \"choice\"; values = [ 1 ]; low = 3; };", 1, "no meaning", "" },
	{ "a = { type = \"real\"; values = [ 1.0 ]; };", 1, "no meaning", "choice" },
	{ "\"{a}\" = { type = \"int\"; low = 0; high = 9; };", 1, "not a valid parameter name",
	    "braces" },
	{ "a = [ 1, 2 ];", 1, "an array", "choice" },
	{ "a = { type = \"int\"; low = 0; high = 9; default = 11; };", 1, "out of its bounds", "" },
	{ "a = { type = \"int\"; low = 0; high = 9; quantum = 3; default = 4; };", 1,
	    "not one of its levels", "3" },
	{ "a = { type = \"choice\"; values = [ \"adam\", \"sgd\" ]; default = \"adm\"; };", 1,
	    "not one of its values", "'adam'" },
	{ "a = { type = \"int\"; low = 0; high = 1; when = { c = 1; }; };\n"
	  "b = { type = \"int\"; low = 0; high = 1; };",
	    1, "'c', which the space does not have", "spelling" },
	{ "a = { type = \"int\"; low = 0; high = 1; when = { optimzer = \"sgd\"; }; };\n"
	  "optimizer = { type = \"choice\"; values = [ \"adam\", \"sgd\" ]; };",
	    1, "which the space does not have", "did you mean 'optimizer'?" },
	{ "a = { type = \"int\"; low = 0; high = 1; when = { a = 1; }; };", 1,
	    "depends on 'a' itself", "" },
	{ "a = { type = \"int\"; low = 0; high = 1; when = { c = 1; }; };\n"
	  "b = { type = \"int\"; low = 0; high = 1; when = { a = 1; }; };\n"
	  "c = { type = \"int\"; low = 0; high = 1; when = { b = 1; }; };",
	    2, "depends on 'b' itself", "no parameter" },
	{ "b = { type = \"int\"; low = 0; high = 1; };\n"
	  "a = { type = \"int\"; low = 0; high = 1; when = { b = 2; }; };",
	    2, "out of its bounds", "" },
	{ "b = { type = \"choice\"; values = [ \"x\", \"y\" ]; };\n"
	  "a = { type = \"int\"; low = 0; high = 1; when = { b = \"z\"; }; };",
	    2, "not one of its values", "" },
	{ "b = { type = \"real\"; low = 0; high = 1; };\n"
	  "a = { type = \"int\"; low = 0; high = 1; when = { b = 1; }; };",
	    2, "real parameter", "" },
	{ "a = { type = \"int\"; low = 0; high = 1; when = 3; };", 1, "not a group", "" },
};

/* The order of the file does not matter. */
Test(space, a_condition_may_name_a_later_parameter)
{
	struct espl__tree *tree;
	struct espl__space *s;
	const struct espl_space *view;
	struct espl__diag diag = ESPL__DIAG_INIT;
	double unit[3] = { 0.9, 0.9, 0.9 }, values[3];

	cr_assert_eq(
	    espl__tree_parse("a = { type = \"int\"; low = 0; high = 9; when = { b = 1; }; };\n"
			     "b = { type = \"int\"; low = 0; high = 1; when = { c = \"y\"; }; };\n"
			     "c = { type = \"choice\"; values = [ \"x\", \"y\" ]; };\n",
		"order", &tree, &diag),
	    ESPL_OK);
	cr_assert_eq(espl__space_parse(espl__tree_root(tree), &s, &diag), ESPL_OK, "%s", diag.text);
	view = espl__space_view(s);
	cr_assert_eq(view->param_count, 3);
	cr_assert_eq(view->find(view, "c"), 0);
	cr_assert_eq(view->find(view, "b"), 1);
	cr_assert_eq(view->find(view, "a"), 2);
	cr_assert_eq(view->from_unit(view, unit, values), ESPL_OK);
	cr_assert_eq(values[2], 9);
	unit[0] = 0.1;
	cr_assert_eq(view->from_unit(view, unit, values), ESPL_OK);
	cr_assert(isnan(values[1]) && isnan(values[2]));
	espl__space_free(s);
	espl__tree_free(tree);
}

Test(space, mistakes_are_told_with_their_line)
{
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__tree *t = tree(wrong[i].text);
		struct espl__space *s = NULL;

		cr_expect_eq(espl__space_parse(espl__tree_root(t), &s, &diag), ESPL_E_CONFIG, "%s",
		    wrong[i].text);
		cr_expect_null(s);
		cr_expect_str_eq(diag.file, "t.cfg", "%s", wrong[i].text);
		cr_expect_eq(diag.line, wrong[i].line, "%s: line %u", wrong[i].text, diag.line);
		cr_expect(strstr(diag.text, wrong[i].says) != NULL, "%s: %s", wrong[i].text,
		    diag.text);
		cr_expect(strstr(diag.hint, wrong[i].hint) != NULL, "%s: %s", wrong[i].text,
		    diag.hint);
		espl__tree_free(t);
	}
}

Test(space, settings_points_and_json)
{
	struct espl__space *s = space(
	    "seed = 7;\n"
	    "lr = { type = \"real\"; low = 0.001; high = 1.0; scale = \"log\"; };\n"
	    "opt = { type = \"choice\"; values = [ \"sgd\", \"adam\" ]; default = \"sgd\"; };\n"
	    "nesterov = { type = \"choice\"; values = [ true, false ]; when = { opt = \"sgd\"; };"
	    " default = true; };\n"
	    "batch = { type = \"ordinal\"; values = [ 16, 32 ]; default = 32; };\n"
	    "name = \"a\\\"b\";\n"
	    "never = { type = \"int\"; low = 1; high = 2; when = { seed = 8; }; };\n"
	    "neither = { type = \"int\"; low = 1; high = 2; when = { never = 1; }; };\n"
	    "always = { type = \"int\"; low = 1; high = 2; when = { seed = 7; }; default = 1; "
	    "};\n");
	struct espl__tree *t =
	    tree("p = { lr = 0.1; };\nq = { lr = 0.1; opt = \"adam\";\n nesterov = true; };\n"
		 "r = { opt = \"sgd\"; };\nv = { lr = 5.0; };\nw = { lrr = 0.1; };\n"
		 "x = { lr = 0.1; opt = \"adam\"; seed = 7; };\ny = { lr = 0.1; seed = 8; };");
	const struct espl__node *root = espl__tree_root(t);
	static const struct {
		const char *name;
		uint32_t line;
		const char *says;
	} bad[] = { { "q", 3, "is inactive" }, { "r", 4, "does not set 'lr'" },
		{ "v", 5, "out of its bounds" }, { "w", 6, "not a parameter of the space" },
		{ "y", 8, "constant" } };
	const struct espl_space *view = espl__space_view(s);
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__settings set;
	struct espl__buf json = { NULL, 0, 0 };
	double values[8];
	uint32_t missing = 99;

	cr_assert_eq(espl__space_count(s), 5u); /* never and neither are gone */
	cr_assert_eq(espl__space_point(s, espl__node_get(root, "p"), values, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__space_json(s, values, &json);
	cr_assert_str_eq(espl__buf_text(&json),
	    "{\"seed\": 7, \"lr\": 0.1, \"opt\": \"sgd\", \"nesterov\": true, \"batch\": 32, "
	    "\"name\": \"a\\\"b\", \"always\": 1}");
	cr_assert_eq(espl__space_point(s, espl__node_get(root, "x"), values, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__space_settings(s, values, &set);
	cr_assert_eq(set.count, 6u);
	cr_assert_str_eq(set.list[0].name, "seed");
	cr_assert_str_eq(set.list[1].text, "0.1");
	cr_assert_eq(set.list[1].value, 0.1);
	cr_assert_str_eq(set.list[2].text, "adam");
	cr_assert(isnan(set.list[2].value));
	cr_assert_str_eq(set.list[3].name, "batch");
	cr_assert_eq(set.list[3].value, 32.0);
	espl__settings_free(&set);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct espl__diag d = ESPL__DIAG_INIT;

		cr_expect_neq(espl__space_point(s, espl__node_get(root, bad[i].name), values, &d),
		    ESPL_OK);
		cr_expect_eq(d.line, bad[i].line, "%s: %u", bad[i].name, d.line);
		cr_expect(strstr(d.text, bad[i].says) != NULL, "%s: %s", bad[i].name, d.text);
	}
	/* A change of the optimizer switches nesterov on: it is asked for, then all is well. */
	values[0] = 7.0;
	values[1] = 0.2;
	values[2] = NAN;
	values[3] = 0.6;
	values[4] = 1;
	cr_assert_eq(view->snap(view, values, &missing), ESPL_E_UNKNOWN);
	cr_assert_eq(missing, 2u);
	values[2] = 1;
	cr_assert_eq(view->snap(view, values, &missing), ESPL_OK);
	cr_assert_eq(values[0], 1.0);
	cr_assert_eq(values[1], 0.0);
	cr_assert_eq(values[3], 1.0);
	espl__buf_free(&json);
	espl__tree_free(t);
	espl__space_free(s);
}

/* ---- profile --------------------------------------------------------------------------- */

static espl_status
profile(const char *text, struct espl__profile **p, struct espl__diag *diag)
{
	struct espl__tree *t = tree(text);
	espl_status st =
	    espl__profile_load(espl__node_get(espl__tree_root(t), "profile"), "", p, diag);

	espl__tree_free(t);
	return st;
}

Test(profile, answers_and_forms)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__profile *p = NULL;
	char *json = file_of(
	    "{\"iteration\": {\"mean\": 4.5, \"sd\": \"0s\"}, \"scaling\": [[1, 1.0], [4, 3]],\n"
	    " \"packing\": null, \"start\": 2, \"checkpoint\": \"1s\", \"comment\": \"x\"}");
	char *text = espl__format("profile = \"%s\";", json);

	cr_assert_eq(profile("profile = { iteration = { mean = \"4s\"; sd = \"0s\"; }; scaling = ( "
			     "(1, 1.0), (2, 1.9), (4, 3.4), (8, 5.6) ); packing = ( (1, 1.0), (2, "
			     "1.6), (4, 2.2) ); start = \"2s\"; checkpoint = \"1s\"; };",
			 &p, &diag),
	    ESPL_OK, "%s", diag.text);
	cr_assert_float_eq(espl__profile_speed(p, (struct espl_share){ 3, 1 }), 2.65, 1e-12);
	cr_assert_float_eq(espl__profile_speed(p, (struct espl_share){ 64, 1 }), 5.6, 1e-12);
	cr_assert_float_eq(espl__profile_speed(p, (struct espl_share){ 1, 4 }), 0.55, 1e-12);
	cr_assert_float_eq(espl__profile_speed(p, (struct espl_share){ 1, 3 }), 1.9 / 3, 1e-12);
	cr_assert_eq(espl__profile_speed(p, (struct espl_share){ 0, 1 }), 0.0);
	cr_assert_float_eq(espl__profile_iteration_s(p, (struct espl_share){ 2, 1 }), 4 / 1.9,
	    1e-12);
	cr_assert_eq(p->start.mean_s, 2.0);
	cr_assert_eq(p->restore.mean_s, 1.0);
	cr_assert_not(p->guessed);
	espl__profile_free(p);

	cr_assert_eq(profile("profile = { latency = ( (1, 12.0), (2, \"8s\"), (4, 6) ); iteration "
			     "= { sd = \"1s\"; }; };",
			 &p, &diag),
	    ESPL_OK, "%s", diag.text);
	cr_assert_float_eq(espl__profile_iteration_s(p, (struct espl_share){ 4, 1 }), 6.0, 1e-9);
	/* Throughput, not latency, is linear in between: 12 / ((1.5 + 2) / 2). */
	cr_assert_float_eq(espl__profile_iteration_s(p, (struct espl_share){ 3, 1 }), 12 / 1.75,
	    1e-9);
	cr_assert_eq(p->iteration.kind, ESPL_NORMAL);
	espl__profile_free(p);

	cr_assert_eq(profile(text, &p, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_float_eq(espl__profile_iteration_s(p, (struct espl_share){ 4, 1 }), 1.5, 1e-9);
	cr_assert_eq(p->start.mean_s, 2.0);
	cr_assert_eq(p->packing_count, 0u);
	espl__profile_free(p);
	cr_assert_eq(espl__profile_load(NULL, "", &p, &diag), ESPL_OK);
	cr_assert(p->guessed);
	cr_assert_eq(espl__profile_iteration_s(p, (struct espl_share){ 8, 1 }), 1.0);
	espl__profile_free(p);
	free(text);
	drop(json);
}

Test(profile, mistakes)
{
	static const struct {
		const char *text, *says;
	} bad[] = { { "profile = { latency = ( (1, 4.0), (2, 5.0) ); };", "rises" },
		{ "profile = { iteration = \"1s\"; scaling = ( (1, 1.0), (2, 0.9) ); };", "falls" },
		{ "profile = { iteration = \"1s\"; scaling = ( (1, 1.0), (2, 0.0) ); };",
		    "above 0" },
		{ "profile = { iteration = \"1s\"; scaling = ( (1, 1.0), (1, 2.0) ); };",
		    "must increase" },
		{ "profile = { iteration = \"1s\"; scaling = ( (1, 1.0), (4, 2.0), (2, 2.0) ); };",
		    "must increase" },
		{ "profile = { iteration = \"1s\"; scaling = ( (2, 1.0) ); };", "must be for 1" },
		{ "profile = { iteration = \"1s\"; scaling = ( (1, 2.0) ); };", "(1, 1.0)" },
		{ "profile = { iteration = \"1s\"; scaling = ( 1, 2 ); };", "pair" },
		{ "profile = { scaling = ( (1, 1.0) ); };", "how long" },
		{ "profile = { iteration = \"1s\"; latency = ( (1, 1.0) ); };", "both" },
		{ "profile = { iteration = \"1s\"; sclaing = ( (1, 1.0) ); };", "sclaing" },
		{ "profile = { iteration = \"0s\"; };", "is 0" }, { "profile = 3;", "an integer" },
		{ "profile = \"/nonexistent/p.json\";", "/nonexistent/p.json" } };
	struct espl__profile *p = NULL;
	char *broken = file_of("{\"iteration\":\n }"),
	     *text = espl__format("profile = \"%s\";", broken);
	struct espl__diag diag = ESPL__DIAG_INIT;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct espl__diag d = ESPL__DIAG_INIT;

		cr_expect_neq(profile(bad[i].text, &p, &d), ESPL_OK, "%s", bad[i].text);
		cr_expect(strstr(d.text, bad[i].says) != NULL, "%s: %s", bad[i].text, d.text);
	}
	cr_expect_eq(profile(text, &p, &diag), ESPL_E_CONFIG);
	cr_expect_eq(diag.line, 2u);
	free(text);
	drop(broken);
}

Test(profile, draws_have_the_mean_told)
{
	double samples[] = { 1.0, 2.0, 6.0 };
	struct espl_latency all[] = { { .kind = ESPL_CONSTANT, .mean_s = 3 },
		{ .kind = ESPL_NORMAL, .mean_s = 15, .sd_s = 2 },
		{ .kind = ESPL_NORMAL, .mean_s = 1, .sd_s = 2 },
		{ .kind = ESPL_LOGNORMAL, .mean_s = 4, .sd_s = 3 },
		{ .kind = ESPL_EMPIRICAL, .samples_s = samples, .sample_count = 3 } };
	struct espl__rng rng;

	espl__rng_seed(&rng, 3, "draws");
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		double sum = 0.0;

		for (int k = 0; k < 40000; k++) {
			double v = espl__latency_draw(&all[i], &rng);

			cr_assert_geq(v, 0.0);
			sum += v;
		}
		cr_expect_float_eq(sum / 40000, espl__latency_mean(&all[i]), 0.06, "kind %u",
		    all[i].kind);
	}
}

/* ---- ledger -------------------------------------------------------------------------------- */

#define S ESPL_SECOND

Test(ledger, terms)
{
	struct espl__ledger *l = espl__ledger_new();
	struct espl_offer o = { .size = sizeof o,
		.number = 3,
		.gpus = 4,
		.price_hour = 12240000,
		.data_gb = 10000,
		.billing = ESPL_BILL_NODE,
		.billed_from = ESPL_BILL_FROM_BOOT,
		.billing_step = S,
		.minimum_charge = 60 * S,
		.refund_before = 3600 * S };

	espl__ledger_open(l, 0, &o, 150.0, 0);
	cr_assert_eq(espl__ledger_lease(l, 0, 100 * S), 0);
	cr_assert_eq(espl__ledger_billed_from(l, 0), ESPL_NEVER);
	espl__ledger_state(l, 0, ESPL_NODE_BOOTING, 10 * S);
	cr_assert_eq(espl__ledger_lease(l, 0, 11 * S), 204000); /* a minute at least */
	cr_assert_float_eq(espl__ledger_rate(l), 3400.0, 1e-9);
	espl__ledger_state(l, 0, ESPL_NODE_READY, 20 * S);
	cr_assert_eq(espl__ledger_lease(l, 0, 100 * S), 90 * 3400 + 1500000);
	/* The market doubles its price after 100 s; 0.5 s more are charged as a second. */
	espl__ledger_price(l, 3, 110 * S, 24480000);
	espl__ledger_price(l, 2, 120 * S, 1);
	espl__ledger_close(l, 0, 130 * S + S / 2, ESPL_BY_USER, -1);
	cr_assert_eq(espl__ledger_lease(l, 0, 9999 * S), 100 * 3400 + 21 * 6800 + 1500000);
	espl__ledger_open(l, 1, &o, 150.0, 0); /* revoked within the hour: free */
	espl__ledger_state(l, 1, ESPL_NODE_READY, 0);
	cr_assert_gt(espl__ledger_total(l, 3599 * S), espl__ledger_lease(l, 0, 0));
	espl__ledger_close(l, 1, 3599 * S, ESPL_BY_PROVIDER, -1);
	cr_assert_eq(espl__ledger_lease(l, 1, 0), 0);
	espl__ledger_open(l, 2, &o, 0.0, 0); /* revoked later: the time used */
	espl__ledger_state(l, 2, ESPL_NODE_READY, 0);
	espl__ledger_close(l, 2, 3600 * S, ESPL_BY_PROVIDER, -1);
	cr_assert_eq(espl__ledger_lease(l, 2, 0), 12240000);
	espl__ledger_open(l, 3, &o, 0.0, 0); /* never came */
	espl__ledger_close(l, 3, 50 * S, ESPL_BY_CAPACITY, -1);
	cr_assert_eq(espl__ledger_lease(l, 3, 0), 0);
	espl__ledger_open(l, 4, &o, 0.0, 0); /* the provider's figure goes before ours */
	espl__ledger_state(l, 4, ESPL_NODE_READY, 0);
	espl__ledger_close(l, 4, 5 * S, ESPL_BY_USER, 77);
	cr_assert_eq(espl__ledger_lease(l, 4, 0), 77);
	o.billing = ESPL_BILL_FUNCTION;
	espl__ledger_open(l, 5, &o, 0.0, 0);
	espl__ledger_state(l, 5, ESPL_NODE_READY, 0);
	espl__ledger_busy(l, 5, 3600 * S); /* one of four GPUs for an hour */
	cr_assert_eq(espl__ledger_rate(l), 0.0);
	espl__ledger_close(l, 5, 9000 * S, ESPL_BY_USER, -1);
	cr_assert_eq(espl__ledger_lease(l, 5, 0), 3060000);
	cr_assert_eq(espl__ledger_total(l, 0),
	    100 * 3400 + 21 * 6800 + 1500000 + 12240000 + 77 + 3060000);
	espl__ledger_free(l);
}

/* What the provider charges although its terms refund it is not reported as refunded. */
Test(ledger, refunds_are_what_was_not_charged)
{
	struct espl__ledger *l = espl__ledger_new();
	struct espl_offer o = { .size = sizeof o,
		.gpus = 2,
		.price_hour = 3600000,
		.billing = ESPL_BILL_NODE,
		.billed_from = ESPL_BILL_FROM_READY,
		.refund_before = 3600 * S };
	static const espl_money says[] = { -1, 0, 600000, 10000 };

	for (uint64_t i = 0; i < 4; i++) {
		espl__ledger_open(l, i, &o, 0.0, 0);
		espl__ledger_state(l, i, ESPL_NODE_READY, 0);
		espl__ledger_close(l, i, 600 * S, ESPL_BY_PROVIDER, says[i]);
	}
	cr_assert_eq(espl__ledger_total(l, 600 * S), 610000);
	cr_assert_eq(espl__ledger_refunds(l).usd, 2 * 600000 + 590000);
	cr_assert_float_eq(espl__ledger_refunds(l).gpu_s, 2 * 600.0 * 2, 1e-9);
	espl__ledger_free(l);
}

Test(ledger, random_sequences_conserve)
{
	struct espl__rng rng;

	espl__rng_seed(&rng, 5, "ledger");
	for (int run = 0; run < 20; run++) {
		struct espl__ledger *l = espl__ledger_new();
		uint64_t opened = 0;
		espl_time now = 0;
		espl_money before = 0;

		for (int i = 0; i < 600; i++) {
			uint64_t r = espl__rng_next(&rng),
				 which = opened > 0 ? (r >> 8) % opened : 0;
			struct espl_offer o = { .size = sizeof o,
				.number = (uint32_t)(r % 3),
				.gpus = 2,
				.price_hour = (espl_money)(r % 50000000),
				.data_gb = 100,
				.billing = r & 64 ? ESPL_BILL_NODE : ESPL_BILL_FUNCTION,
				.billed_from =
				    ESPL_BILL_FROM_REQUEST + (espl_bill_start)((r >> 20) % 3),
				.billing_step = r & 128 ? S : 0,
				.minimum_charge = r & 256 ? 60 * S : 0,
				.refund_before = 0 };
			espl_money sum = 0, total;

			now += (espl_time)(espl__rng_next(&rng) % (100 * (uint64_t)S));
			if (opened == 0 || r % 10 < 3)
				espl__ledger_open(l, opened++, &o, 1.5, now);
			else if (r % 10 < 6)
				espl__ledger_state(l, which,
				    r & 16 ? ESPL_NODE_BOOTING : ESPL_NODE_READY, now);
			else if (r % 10 < 7)
				espl__ledger_price(l, o.number, now, o.price_hour);
			else if (r % 10 < 8)
				espl__ledger_busy(l, which, (int64_t)(r % (uint64_t)(100 * S)));
			else
				espl__ledger_close(l, which, now, ESPL_BY_USER, -1);
			for (uint64_t k = 0; k < opened; k++)
				sum += espl__ledger_lease(l, k, now);
			total = espl__ledger_total(l, now);
			cr_assert_eq(sum, total);
			/* Without refunds money never comes back; only a price that falls may make
			 * what is still owed of a minimum less. */
			if (r % 10 != 6)
				cr_assert_geq(total, before);
			before = total;
		}
		espl__ledger_free(l);
	}
}

/* ---- trials ---------------------------------------------------------------------------------- */

Test(trials, what_trains_on_or_may_is_not_completed)
{
	static const double value[1] = { 0.5 };
	struct espl_group wanted = ESPL_INIT(struct espl_group);
	struct espl__trials t;
	struct espl__trial *trial[5];
	struct espl__trial_group *g;

	espl__trials_init(&t, 1);
	t.full = 9;
	g = espl__group_new(&t, &wanted);
	trial[4] = espl__trial_new(&t, g, value, NULL);
	for (int i = 0; i < 4; i++) {
		trial[i] = espl__trial_new(&t, g, value, NULL);
		espl__trial_state(&t, trial[i], ESPL_TRIAL_RUNNING);
		trial[i]->pub.budget = trial[i]->pub.iteration = 1;
		espl__trial_state(&t, trial[i], ESPL_TRIAL_PAUSED);
		cr_expect_str_eq(espl__trial_word(&t, trial[i]), "paused");
	}
	cr_expect(t.finished == 0 && t.early == 0);
	espl__trial_continue(&t, trial[0], espl__group_new(&t, &wanted));
	cr_expect_str_eq(espl__trial_word(&t, trial[0]), "waiting");
	trial[0]->pub.budget = trial[0]->pub.iteration = 9;
	espl__trial_state(&t, trial[0], ESPL_TRIAL_RUNNING);
	cr_expect_eq(t.finished, 0);
	espl__trial_state(&t, trial[0], ESPL_TRIAL_PAUSED);
	cr_expect_str_eq(espl__trial_word(&t, trial[0]), "completed");
	cr_expect(t.finished == 1 && t.early == 0);
	espl__trial_drop(&t, trial[1]);
	cr_expect_str_eq(espl__trial_word(&t, trial[1]), "stopped early");
	cr_expect(t.finished == 2 && t.early == 1);
	espl__trial_continue(&t, trial[2], espl__group_new(&t, &wanted));
	espl__trial_state(&t, trial[2], ESPL_TRIAL_FAILED);
	cr_expect_eq(t.finished, 2);
	espl__trials_settle(&t, 1);
	cr_expect(t.finished == 3 && t.early == 2);
	cr_expect_str_eq(espl__trial_word(&t, trial[2]), "failed");
	cr_expect_str_eq(espl__trial_word(&t, trial[3]), "stopped early");
	cr_expect_str_eq(espl__trial_word(&t, trial[4]), "unfinished");
	espl__trials_free(&t);
}
