/* test_curves.c - recorded learning curves: what is looked up in them, what is wrong in a file. */
#include <math.h>

#include "input/input.h"
#include "model/space.h"
#include "test_folder.h"

static struct espl__space *
space(const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *t = NULL;
	struct espl__space *s = NULL;

	cr_assert_eq(espl__tree_parse(text, "t.cfg", &t, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__space_parse(espl__tree_root(t), &s, &diag), ESPL_OK, "%s", diag.text);
	espl__tree_free(t);
	return s;
}

static const char two[] =
    "lr = { type = \"real\"; low = 0.001; high = 1.0; scale = \"log\"; };\n"
    "opt = { type = \"choice\"; values = [ \"sgd\", \"adam\" ]; };\n"
    "mom = { type = \"real\"; low = 0.0; high = 1.0; when = { opt = \"sgd\"; }; };\n";

Test(curves, lookups, .init = make_folder, .fini = drop_folder)
{
	struct espl__space *s = space(two);
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__curves *t = NULL;
	char *path = put_file("curves.csv",
	    "# recorded\r\n"
	    "config,lr,opt,mom,iteration,acc,loss,seconds\r\n"
	    "a,0.01,sgd,0.9,5,0.5,1.5,2\n"
	    "\"b,\"\"1\"\"\",0.01,adam,,10,0.7,NaN,4\n"
	    "a,0.01,sgd,0.9,10,0.6,,3\n"
	    "c,1,\"adam\",,1,0.1,9,\n");
	double exact[] = { 0.01, 0, 0.9 }, near[] = { 0.02, 1, NAN }, far[] = { 0.9, 1, NAN };

	cr_assert_eq(espl__curves_load(path, s, &t, &diag), ESPL_OK, "%u: %s", diag.line,
	    diag.text);
	cr_assert_eq(espl__curves_metric_count(t), 2u);
	cr_assert_str_eq(espl__curves_metric(t, 1), "loss");
	cr_assert_eq(espl__curves_nearest(t, exact), 0u);
	cr_assert_eq(espl__curves_nearest(t, near), 1u);
	cr_assert_eq(espl__curves_nearest(t, far), 2u);
	cr_assert(isnan(espl__curves_value(t, 0, 0, 4)));
	cr_assert_eq(espl__curves_value(t, 0, 0, 5), 0.5);
	cr_assert_eq(espl__curves_value(t, 0, 0, 9), 0.5);
	cr_assert_eq(espl__curves_value(t, 0, 0, 99), 0.6);
	cr_assert(isnan(espl__curves_value(t, 0, 1, 10)));
	cr_assert(isnan(espl__curves_value(t, 1, 1, 10)));
	cr_assert_eq(espl__curves_seconds(t, 0, 1), 2.0);
	cr_assert_eq(espl__curves_seconds(t, 0, 6), 3.0);
	cr_assert_eq(espl__curves_seconds(t, 0, 60), 3.0);
	cr_assert(isnan(espl__curves_seconds(t, 2, 1)));
	cr_assert_eq(espl__curves_last(t, 0), 10u);
	espl__curves_free(t);
	espl__space_free(s);
	free(path);
}

Test(curves, mistakes_are_told_with_their_line, .init = make_folder, .fini = drop_folder)
{
	static const struct {
		const char *text;
		uint32_t line;
		const char *says;
	} bad[] = { { "", 1, "empty" }, { "name,lr,opt,mom,iteration,acc\n", 1, "not 'config'" },
		{ "config,lr,opt,iteration,acc\n", 1, "parameter 'mom'" },
		{ "config,lr,opt,mom,rl,iteration,acc\n", 1, "'rl'" },
		{ "config,lr,opt,mom,acc\n", 1, "'acc'" },
		{ "config,lr,opt,mom,iteration\n", 1, "no metric column" },
		{ "config,lr,opt,mom,iteration,acc,acc\n", 1, "duplicate column" },
		{ "config,lr,opt,mom,iteration,acc\n", 1, "no rows" },
		{ "config,lr,opt,mom,iteration,acc\na,0.1,sgd,0.5,1\n", 2, "5 fields" },
		{ "config,lr,opt,mom,iteration,acc\na,x,sgd,0.5,1,0.5\n", 2,
		    "not a value of 'lr'" },
		{ "config,lr,opt,mom,iteration,acc\na,0.1,sgdd,0.5,1,0.5\n", 2,
		    "not one of the values" },
		{ "config,lr,opt,mom,iteration,acc\n\na,0.1,sgd,0.5,-1,0.5\n", 3,
		    "not an iteration" },
		{ "config,lr,opt,mom,iteration,acc\na,0.1,sgd,0.5,1,0.5x\n", 2, "not a number" },
		{ "config,lr,opt,mom,iteration,acc\na,0.1,sgd,0.5,2,0.5\na,0.1,sgd,0.5,2,0.6\n", 3,
		    "does not follow" },
		{ "config,lr,opt,mom,iteration,acc\na,0.1,sgd,0.5,2,0.5\na,0.2,sgd,0.5,3,0.6\n", 3,
		    "different 'lr'" },
		{ "config,lr,opt,mom,iteration,acc\n\"a,0.1,sgd,0.5,1,0.5\n", 2, "quote" } };
	struct espl__space *s = space(two);

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct espl__diag d = ESPL__DIAG_INIT;
		struct espl__curves *t = NULL;
		char *path = put_file("curves.csv", bad[i].text);

		cr_expect_neq(espl__curves_load(path, s, &t, &d), ESPL_OK, "%s", bad[i].text);
		cr_expect_str_eq(d.file, path);
		cr_expect_eq(d.line, bad[i].line, "%s: line %u", bad[i].text, d.line);
		cr_expect(strstr(d.text, bad[i].says) != NULL, "%s: %s", bad[i].text, d.text);
		free(path);
	}
	espl__space_free(s);
}
