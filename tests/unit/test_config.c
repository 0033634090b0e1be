/* Configuration: what users write becomes checked values, or a sentence that says where and what.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "input/input.h"
#include "test_folder.h"

/* ---- helpers ----------------------------------------------------------------------- */

static struct espl__tree *
parse(const char *text)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree = NULL;

	cr_assert_eq(espl__tree_parse(text, "t.cfg", &tree, &diag), ESPL_OK, "%s: %s", text,
	    diag.text);
	return tree;
}

static const struct espl__node *
get(const struct espl__tree *tree, const char *name)
{
	return espl__node_get(espl__tree_root(tree), name);
}

/* ---- text to tree ------------------------------------------------------------------ */

Test(tree, values_and_lines)
{
	struct espl__tree *tree =
	    parse("# a comment\n"
		  "a = 1;\n"
		  "big = 5000000000; /* two\nlines */ neg = -9223372036854775808;\n"
		  "hex = 0xff; f = 1e-4; g = .5; h = 5.;\n"
		  "s = \"a \\\"q\\\" \\x41\\n\" \"joined\"; t = TRUE;\n"
		  "list = ( 1, 2.5, \"x\", ( ), { y = 1; } );\n"
		  "array = [ 1, 5000000000 ]; // and so on\n"
		  "group : { inner = false };\n"
		  "\"optimizer.lr\" = 2; \"true\" = 3; \"plain\" = 4; \"*-\" = 5;\n"
		  "\"a \\\"b\\x22 \\\\ \xc3\xa9\" : { \"1\" = 1 };\n");
	const struct espl__node *node;

	cr_assert_eq(get(tree, "a")->i, 1);
	cr_assert_eq(get(tree, "a")->line, 2);
	cr_assert_str_eq(get(tree, "a")->file, "t.cfg");
	cr_assert_eq(get(tree, "big")->i, INT64_C(5000000000), "64 bits without a mark");
	cr_assert_eq(get(tree, "neg")->i, INT64_MIN);
	cr_assert_eq(get(tree, "neg")->line, 4);
	cr_assert_eq(get(tree, "hex")->i, 255);
	cr_assert_eq(get(tree, "f")->r, 1e-4);
	cr_assert_eq(get(tree, "h")->r, 5.0);
	cr_assert_str_eq(get(tree, "s")->text, "a \"q\" A\njoined");
	cr_assert_eq(get(tree, "t")->i, 1);
	node = get(tree, "list");
	cr_assert_eq(node->type, ESPL__LIST);
	cr_assert_eq(node->child_count, 5);
	cr_assert_eq(node->line, 7);
	cr_assert_eq(espl__node_get(node->children[4], "y")->i, 1);
	cr_assert_eq(get(tree, "array")->children[1]->i, INT64_C(5000000000));
	cr_assert_eq(get(tree, "group")->type, ESPL__GROUP);
	cr_assert_eq(get(tree, "optimizer.lr")->i, 2, "quotes allow any name");
	cr_assert_eq(get(tree, "true")->i, 3);
	cr_assert_eq(get(tree, "plain")->i, 4);
	cr_assert_eq(get(tree, "*-")->i, 5);
	cr_assert_eq(espl__node_get(get(tree, "a \"b\" \\ \xc3\xa9"), "1")->i, 1);
	cr_assert_null(espl__node_get(NULL, "x"));
	cr_assert_null(get(tree, "absent"));
	espl__tree_free(tree);
}

Test(tree, mistakes_are_told)
{
	static const struct {
		const char *text;
		uint32_t line;
		const char *says, *hint;
	} cases[] = {
		{ "a = 1;\nb = 99999999999999999999;", 2, "out of range", "2^63" },
		{ "a = 1e999;", 1, "out of range", "" },
		{ "a = 0x10000000000000000;", 1, "out of range", "" },
		{ "a = 20m;", 1, "'20m' is not a number", "\"20m\"" },
		{ "a = sha;", 1, "missing quotes around sha", "\"sha\"" },
		{ "a = ( 1, 2, );", 1, "unexpected comma before ')'", "last element" },
		{ "a = [ 1 2 ];", 1, "missing comma", "" },
		{ "a = [ \"x\" \"y\" ];", 1, "missing comma", "" },
		{ "a = [ 1, 2.5 ];", 1, "different types", "list ( )" },
		{ "a = 1;\na = 2;", 2, "duplicate name", "" },
		{ "\na \"x\";", 2, "'=' is missing after 'a'", "" },
		{ "a b = 1;", 1, "'=' is missing after 'a'", "" },
		{ "a = ;", 1, "'a' has no value", "" },
		{ "a =", 1, "'a' has no value", "" },
		{ "a = 1; 5;", 1, "expected a name", "" },
		{ "a = {\n b = (1,\n2; }", 3, "';' inside", "" },
		{ "a = {\n b = (1,\n2 }", 3, "'(' in line 2 is closed by '}'", "" },
		{ "a = {\n b = 1;", 1, "unclosed '{'", "" },
		{ "a = 1; }", 1, "unmatched '}'", "" },
		{ "a = 1;\n\n\"unclosed", 3, "unterminated string", "" },
		{ "a = 1;\nb = \"unclosed", 2, "unterminated string", "" },
		{ "a = 1;\n/* unclosed\n\n", 2, "unterminated comment", "" },
		{ "_a = 1;", 1, "unexpected '_'", "begin with a letter" },
		{ "a = 'x';", 1, "unexpected '''", "double quotes" },
		{ "a = 1;\n\x01 b = 2;", 2, "\\x01", "" },
		{ "a = \"\\x00\";", 1, "\\x00", "" },
		{ "a = \"\xff\";", 1, "UTF-8", "" },
		{ "a = \"\\xc3\";", 1, "UTF-8", "" },
		{ "@include \"x\"", 1, "only allowed in files", "" },
		{ "@nonsense", 1, "unexpected '@'", "" },
		{ "; a = 1;", 1, "without a setting", "" },
		{ "= 1;", 1, "without a name", "" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__tree *tree = NULL;

		cr_assert_eq(espl__tree_parse(cases[i].text, "t.cfg", &tree, &diag), ESPL_E_CONFIG,
		    "%s", cases[i].text);
		cr_assert_null(tree);
		cr_expect(strstr(diag.text, cases[i].says) != NULL, "%s: says '%s'", cases[i].text,
		    diag.text);
		cr_expect(strstr(diag.hint, cases[i].hint) != NULL, "%s: hints '%s'", cases[i].text,
		    diag.hint);
		cr_expect_eq(diag.line, cases[i].line, "%s: line %u", cases[i].text, diag.line);
		cr_expect_str_eq(diag.file, "t.cfg");
	}
}

Test(tree, one_without_a_line_knows_its_file)
{
	static const char *const texts[] = { "", "# nothing but words\n", "a = 1;" };

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct espl__tree *tree = parse(texts[i]);

		cr_assert_str_eq(espl__tree_root(tree)->file, "t.cfg");
		espl__tree_free(tree);
	}
}

Test(tree, nesting_has_a_limit)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree = NULL;
	char text[4000] = "a = ";

	memset(text + 4, '(', 3000);
	cr_assert_eq(espl__tree_parse(text, "t", &tree, &diag), ESPL_E_CONFIG);
	cr_assert(strstr(diag.text, "64 deep") != NULL, "%s", diag.text);
}

Test(tree, includes, .init = make_folder, .fini = drop_folder)
{
	char *main_file = put_file("main.cfg", "a = 1;\n@include \"sub.cfg\"\nb = 2;\n"), *sub,
	     *path;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree = NULL;

	sub = put_file("sub.cfg", "c = 3;\nd = 4;");
	cr_assert_eq(espl__tree_load(main_file, &tree, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(get(tree, "d")->line, 2);
	cr_assert_str_eq(get(tree, "d")->file, sub);
	cr_assert_eq(get(tree, "b")->line, 3);
	cr_assert_str_eq(get(tree, "b")->file, main_file);
	espl__tree_free(tree);
	free(put_file("sub.cfg", "c = 3;\nd = ;"));
	cr_assert_eq(espl__tree_load(main_file, &tree, &diag), ESPL_E_CONFIG);
	cr_assert_str_eq(diag.file, sub);
	cr_assert_eq(diag.line, 2);
	free(put_file("sub.cfg", "@include \"main.cfg\""));
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__tree_load(main_file, &tree, &diag), ESPL_E_CONFIG);
	cr_assert(strstr(diag.hint, "include itself") != NULL, "%s", diag.text);
	path = put_file("lost.cfg", "\n@include \"nothere.cfg\"\n");
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_neq(espl__tree_load(path, &tree, &diag), ESPL_OK);
	cr_assert_eq(diag.line, 2, "the line that includes is to blame");
	free(path);
	/* Not text; too long. */
	path = espl__format("%s/nul.cfg", folder);
	cr_assert_eq(espl__file_write(path, "a = 1;\nb\0", 9, NULL), ESPL_OK);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__tree_load(path, &tree, &diag), ESPL_E_CONFIG);
	cr_assert(strstr(diag.text, "NUL") != NULL && diag.line == 2, "%s", diag.text);
	cr_assert_eq(truncate(path, (17 << 20)), 0);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_neq(espl__tree_load(path, &tree, &diag), ESPL_OK);
	cr_assert(strstr(diag.text, "16777216") != NULL, "%s", diag.text);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_neq(espl__tree_load(folder, &tree, &diag), ESPL_OK,
	    "a folder is no configuration");
	free(path);
	free(sub);
	free(main_file);
}

Test(tree, set_and_print)
{
	static const char *const sets[] = {
		"algorithm.eta=4",
		"experiment.deadline=20m",
		"experiment.name=plain text",
		"new.group.flag=true",
		"offers.[0].price=1.5",
		"offers.2.price=3",
		"array.1=x",
		"algorithm.list=( 1, { a = 2; } )",
		"algorithm.big=5000000000",
		"algorithm.\"optimizer.lr\"=0.5",
		"\"a=b\".\"5 \\ x\".y=1",
		"e=",
	};
	static const char *const wrong[] = {
		"novalue",
		"=1",
		"a..b=1",
		"5x=1",
		"\"a=1",
		"\"\"=1",
		"\"a\"b\"=1",
		"algorithm.eta.deep=1",
		"offers.[9].price=1",
		"a=\"unclosed",
		"a=99999999999999999999",
		"a={ b = 1; }; c = 2",
		"offers.x=1",
	};
	struct espl__tree *tree = parse("algorithm = { use = \"sha\"; eta = 3; };\n"
					"experiment = { };\noffers = ( { price = 1.0; }, { } );\n"
					"array = [ 1, 2 ];\n"),
			  *again;
	struct espl__buf one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
	const struct espl__node *node;

	for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;

		cr_assert_eq(espl__tree_set(tree, sets[i], &diag), ESPL_OK, "%s: %s", sets[i],
		    diag.text);
	}
	node = espl__node_get(get(tree, "algorithm"), "eta");
	cr_assert_eq(node->i, 4);
	cr_assert_eq(node->source, ESPL_COMMAND);
	cr_assert_str_eq(node->file, "--set");
	cr_assert_str_eq(espl__node_get(get(tree, "experiment"), "deadline")->text, "20m");
	cr_assert_eq(espl__node_get(espl__node_get(get(tree, "new"), "group"), "flag")->i, 1);
	cr_assert_eq(get(tree, "offers")->child_count, 3);
	cr_assert_eq(espl__node_get(get(tree, "offers")->children[0], "price")->r, 1.5);
	cr_assert_eq(get(tree, "array")->type, ESPL__LIST, "its elements differ now");
	cr_assert_str_eq(get(tree, "e")->text, "");
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;

		cr_expect_eq(espl__tree_set(tree, wrong[i], &diag), ESPL_E_CONFIG, "%s", wrong[i]);
		cr_expect_str_eq(diag.file, "--set");
	}
	espl__node_print(espl__tree_root(tree), 0, &one);
	again = parse(espl__buf_text(&one));
	espl__node_print(espl__tree_root(again), 0, &two);
	cr_assert_str_eq(espl__buf_text(&one), espl__buf_text(&two));
	espl__tree_free(again);
	espl__tree_free(tree);
	again = parse("s = \"\\\"\\\\ \\n\\t\\x01 \xc3\xa9\"; r = 1.0; q = 1e300;");
	espl__buf_clear(&one);
	espl__buf_clear(&two);
	espl__node_print(espl__tree_root(again), 0, &one);
	tree = parse(espl__buf_text(&one));
	cr_assert_str_eq(get(tree, "s")->text, get(again, "s")->text);
	cr_assert_eq(get(tree, "r")->type, ESPL__REAL);
	cr_assert_eq(get(tree, "q")->r, 1e300);
	espl__tree_free(again);
	espl__tree_free(tree);
	espl__buf_free(&one);
	espl__buf_free(&two);
}

/* ---- option tables ----------------------------------------------------------------- */

enum { FLAG, COUNT, RATIO, NAME, MODE, PERIOD, SIZE, PRICE, DELAY, TABLE, KEY, OPTIONS };
enum { C_NAME, C_GPUS, C_PRICE };
static const struct espl_option columns[] = {
	{ .name = "name", .help = "h", .type = ESPL_OPT_STRING, .flags = ESPL_OPT_REQUIRED },
	{ .name = "gpus", .help = "h", .type = ESPL_OPT_INT, .fallback = "1", .min = "1" },
	{ .name = "price", .help = "h", .type = ESPL_OPT_MONEY },
};
static const struct espl_option options[OPTIONS] = {
	[FLAG] = { .name = "flag", .help = "h", .type = ESPL_OPT_BOOL },
	[COUNT] = { .name = "count",
	    .help = "how many",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "9",
	    .flags = ESPL_OPT_REQUIRED },
	[RATIO] = { .name = "ratio",
	    .help = "h",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .fallback = "0.25" },
	[NAME] = { .name = "name", .help = "h", .type = ESPL_OPT_STRING },
	[MODE] = { .name = "mode",
	    .help = "h",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "first|best",
	    .fallback = "best" },
	[PERIOD] = { .name = "period", .help = "h", .type = ESPL_OPT_SPAN, .max = "1h" },
	[SIZE] = { .name = "size", .help = "h", .type = ESPL_OPT_BYTES },
	[PRICE] = { .name = "price", .help = "h", .type = ESPL_OPT_MONEY },
	[DELAY] = { .name = "delay", .help = "h", .type = ESPL_OPT_LATENCY, .fallback = "15s" },
	[TABLE] = { .name = "table",
	    .help = "h",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = 3,
	    .max = "3" },
	[KEY] = { .name = "key", .help = "h", .type = ESPL_OPT_STRING, .flags = ESPL_OPT_SECRET },
};
#define STRIDE ((uint32_t)sizeof(struct espl_option))

static espl_status
resolve(const char *text, struct espl__tree **tree, struct espl__values **values,
    struct espl__diag *diag)
{
	static const char *const known[] = { "use", NULL };

	*tree = parse(text);
	return espl__schema_resolve(options, OPTIONS, STRIDE, get(*tree, "g"), known,
	    "allocator 'x'", "x", values, diag);
}

Test(schema, values)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree;
	struct espl__values *values = NULL;
	struct espl__buf buf = { NULL, 0, 0 };
	const struct espl_value *v;
	const struct espl_table *table;

	cr_assert_eq(
	    resolve("g = { use = \"x\"; count = 5; flag = true; ratio = 1; period = \"1m30s\";\n"
		    "size = \"4KiB\"; price = 12.24; delay = { mean = \"2s\"; sd = \"1s\"; };\n"
		    "key = \"hush\"; table = ( ( \"a\", 2 ),\n{ name = \"b\"; price = 1; } ); };",
		&tree, &values, &diag),
	    ESPL_OK, "%s", diag.text);
	v = values->config.values;
	cr_assert_eq(values->config.count, OPTIONS);
	cr_assert_eq(v[COUNT].as.i, 5);
	cr_assert_eq(v[COUNT].source, ESPL_FILE);
	cr_assert_eq(v[COUNT].line, 1);
	cr_assert_eq(v[FLAG].as.i, 1);
	cr_assert_eq(v[RATIO].as.r, 1.0, "an integer is a number");
	cr_assert_eq(v[NAME].source, ESPL_UNSET);
	cr_assert_eq(v[MODE].as.i, 1);
	cr_assert_eq(v[MODE].source, ESPL_FALLBACK);
	cr_assert_eq(v[PERIOD].as.i, 90 * ESPL_SECOND);
	cr_assert_eq(v[SIZE].as.i, 4096);
	cr_assert_eq(v[PRICE].as.i, 12240000);
	cr_assert_eq(v[DELAY].as.latency->kind, ESPL_NORMAL);
	cr_assert_eq(v[DELAY].as.latency->mean_s, 2.0);
	table = v[TABLE].as.table;
	cr_assert_eq(table->row_count, 2);
	cr_assert_eq(table->cells[C_GPUS].as.i, 2);
	cr_assert_str_eq(table->cells[3 + C_NAME].as.s, "b");
	cr_assert_eq(table->cells[3 + C_GPUS].as.i, 1, "a column's default");
	cr_assert_eq(table->cells[3 + C_PRICE].as.i, ESPL_USD);
	cr_assert_eq(table->cells[C_PRICE].source, ESPL_UNSET);
	/* A plugin blames a row: its line is found. */
	{
		struct espl_error error = { .size = sizeof error, .option = TABLE, .row = 1 };

		espl__values_blame(values, &error, &diag);
		cr_assert_eq(diag.line, 4);
		cr_assert_str_eq(diag.file, "t.cfg");
	}
	cr_assert_eq(espl__values_print(values, KEY, &buf), 0, "secrets are never printed");
	cr_assert_eq(espl__values_print(values, NAME, &buf), 0);
	cr_assert_eq(espl__values_print(values, TABLE, &buf), 1);
	cr_assert(strstr(espl__buf_text(&buf), "name = \"b\"") != NULL);
	espl__buf_free(&buf);
	espl__values_free(values);
	espl__tree_free(tree);
}

Test(schema, mistakes_are_told)
{
	static const struct {
		const char *text, *says, *hint;
	} cases[] = {
		{ "", "needs 'count'", "how many" },
		{ "cuont = 1;", "has no option 'cuont'", "did you mean 'count'" },
		{ "zzzzzz = 1;", "has no option", "its options are: flag" },
		{ "count = 1.5;", "must be an integer, not a real number", "" },
		{ "count = \"1\";", "must be an integer, not \"1\"", "without quotes" },
		{ "count = 0;", "below its minimum 1", "the range is 1 to 9" },
		{ "count = 10;", "above its maximum 9", "" },
		{ "count = 1; flag = 1;", "must be true or false", "without quotes" },
		{ "count = 1; ratio = -0.5;", "below its minimum 0", "the minimum is 0" },
		{ "count = 1; name = 5;", "must be a string", "quotes" },
		{ "count = 1; mode = \"fist\";", "cannot be \"fist\"", "did you mean \"first\"" },
		{ "count = 1; mode = \"zzzzzzzz\";", "cannot be", "one of \"first\", \"best\"" },
		{ "count = 1; mode = ( );", "must be a string, not a list", "" },
		{ "count = 1; period = 90;", "must be a time span, not an integer", "unit" },
		{ "count = 1; period = \"90\";", "must be a time span", "unit" },
		{ "count = 1; period = \"2h\";", "above its maximum 1h", "the maximum is 1h" },
		{ "count = 1; size = 1.5;", "must be a size", "" },
		{ "count = 1; size = -1;", "must be a size", "" },
		{ "count = 1; price = \"cheap\";", "an amount of money", "12.24" },
		{ "count = 1; price = { };", "an amount of money", "" },
		{ "count = 1; price = \"2.5\";", "must be an amount of money, not \"2.5\"",
		    "without quotes" },
		{ "count = 1; delay = 15;", "must be a time span, not an integer", "" },
		{ "count = 1; delay = { mean = 3; };", "must be a time span", "" },
		{ "count = 1; delay = { dist = \"gauss\"; mean = \"1s\"; };",
		    "'gauss' is not a distribution", "one of" },
		{ "count = 1; delay = { dist = \"normal\"; };", "needs a mean", "" },
		{ "count = 1; delay = { dist = \"empirical\"; };", "needs samples", "" },
		{ "count = 1; delay = { samples = [ ]; };", "list of spans", "" },
		{ "count = 1; delay = { mean = \"1s\"; samples = [ \"1s\" ]; };",
		    "follows from the samples", "" },
		{ "count = 1; delay = { dist = \"lognormal\"; mean = 0; };", "above 0", "" },
		{ "count = 1; delay = { dist = \"constant\"; mean = \"1s\"; sd = \"1s\"; };",
		    "must not have sd", "" },
		{ "count = 1; delay = { maen = \"1s\"; };", "has no 'maen'", "'mean'" },
		{ "count = 1; table = 5;", "must be a list of rows", "" },
		{ "count = 1; table = ( 5 );", "must be a list or a group", "" },
		{ "count = 1; table = ( ( ) );", "has no 'name'", "" },
		{ "count = 1; table = ( ( \"a\", 1, 1, 1 ) );", "4 values for 3 columns", "" },
		{ "count = 1; table = ( { name = \"a\"; gpu = 1; } );", "no column 'gpu'",
		    "'gpus'" },
		{ "count = 1; table = ( ( \"a\", 0 ) );", "column 'gpus' of 'table' = 0 is below",
		    "" },
		{ "count = 1; table = ( (\"a\"), (\"b\"), (\"c\"), (\"d\") );",
		    "4 rows, more than 3", "" },
		{ "count = 1; key = 12345;", "must be a string, not an integer", "" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__tree *tree;
		struct espl__values *values = NULL;
		char *text = espl__format("\ng = { use = \"x\"; %s };", cases[i].text);

		cr_expect_eq(resolve(text, &tree, &values, &diag), ESPL_E_CONFIG, "%s", text);
		cr_expect_null(values);
		cr_expect(strstr(diag.text, cases[i].says) != NULL, "%s: says '%s'", text,
		    diag.text);
		cr_expect(strstr(diag.hint, cases[i].hint) != NULL, "%s: hints '%s'", text,
		    diag.hint);
		cr_expect_eq(diag.line, 2, "%s", text);
		cr_expect(strstr(diag.text, "12345") == NULL, "a secret's value is not repeated");
		espl__tree_free(tree);
		free(text);
	}
}

Test(schema, bad_tables_are_refused)
{
	static const struct {
		struct espl_option option;
		const char *says;
	} cases[] = {
		{ { .help = "h", .type = ESPL_OPT_INT }, "no valid name" },
		{ { .name = "1x", .help = "h", .type = ESPL_OPT_INT }, "no valid name" },
		{ { .name = "use", .help = "h", .type = ESPL_OPT_INT }, "reserved by espalier" },
		{ { .name = "a", .help = "h", .type = 99 }, "type is unknown" },
		{ { .name = "a", .type = ESPL_OPT_INT }, "no help" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_INT, .flags = 0x10 },
		    "flags are unknown" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_INT, .zero = 1 },
		    "'zero' is not 0" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_CHOICE }, "has no choices" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_CHOICE, .choices = "x||y" },
		    "empty" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_CHOICE, .choices = "x|y|x" },
		    "repeated" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_INT, .choices = "x" },
		    "is not a choice" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_INT, .min = "one" },
		    "its minimum 'one'" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_INT, .min = "5", .max = "4" },
		    "above its maximum" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_STRING, .max = "4" },
		    "limits are not allowed" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_SPAN, .fallback = "soon" },
		    "default of 'a' is invalid" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_INT, .fallback = "5", .max = "4" },
		    "default of 'a' is invalid" },
		{ { .name = "a",
		      .help = "h",
		      .type = ESPL_OPT_CHOICE,
		      .choices = "x|y",
		      .fallback = "z" },
		    "default of 'a' is invalid" },
		{ { .name = "a",
		      .help = "h",
		      .type = ESPL_OPT_INT,
		      .fallback = "1",
		      .flags = ESPL_OPT_REQUIRED },
		    "cannot have a default" },
		{ { .name = "a", .help = "h", .type = ESPL_OPT_TABLE }, "has no columns" },
		{ { .name = "a",
		      .help = "h",
		      .type = ESPL_OPT_INT,
		      .columns = columns,
		      .column_count = 1 },
		    "is not a table" },
		{ { .name = "a",
		      .help = "h",
		      .type = ESPL_OPT_TABLE,
		      .columns = &options[TABLE],
		      .column_count = 1 },
		    "tables cannot be nested" },
		{ { .name = "a",
		      .help = "h",
		      .type = ESPL_OPT_TABLE,
		      .columns = &options[KEY],
		      .column_count = 1 },
		    "secret" },
		{ { .name = "a",
		      .help = "h",
		      .type = ESPL_OPT_TABLE,
		      .columns = columns,
		      .column_count = 3,
		      .fallback = "( ( 1 ) )" },
		    "default of 'a' is invalid" },
	};
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl_option two[2] = { options[NAME], options[NAME] };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		diag = (struct espl__diag)ESPL__DIAG_INIT;
		cr_expect_eq(espl__schema_check(&cases[i].option, 1, STRIDE, "p", &diag),
		    ESPL_E_CONFIG, "%zu", i);
		cr_expect(strstr(diag.text, cases[i].says) != NULL, "%zu: says '%s'", i, diag.text);
	}
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__schema_check(two, 2, STRIDE, "p", &diag), ESPL_E_CONFIG);
	cr_assert(strstr(diag.text, "used twice") != NULL);
	cr_assert_eq(espl__schema_check(options, OPTIONS, STRIDE, "p", NULL), ESPL_OK);
	cr_assert_eq(espl__schema_check(options, OPTIONS, 8, "p", NULL), ESPL_E_CONFIG);
	cr_assert_eq(espl__schema_check(NULL, 1, STRIDE, "p", NULL), ESPL_E_CONFIG);
	cr_assert_eq(espl__schema_check(NULL, 0, 0, "p", NULL), ESPL_OK);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	for (const struct espl__core_group *group = espl__core_groups(); group->name != NULL;
	     group++) {
		/* espalier itself may have the name that it reserves. */
		uint32_t own = group->count > 0 && strcmp(group->options[0].name, "use") == 0;

		cr_assert_eq(espl__schema_check(group->options + own, group->count - own, STRIDE,
				 group->name, &diag),
		    ESPL_OK, "%s", diag.text);
	}
}

Test(schema, help_forms)
{
	struct espl__buf buf = { NULL, 0, 0 };

	espl__schema_help(options, OPTIONS, STRIDE, ESPL__HELP_TEXT, &buf);
	cr_assert(strstr(espl__buf_text(&buf),
		      "count              integer, required, from 1 to 9") != NULL);
	cr_assert(strstr(espl__buf_text(&buf), "\"first\" or \"best\", default best") != NULL);
	cr_assert(strstr(espl__buf_text(&buf), "      gpus") != NULL, "columns are indented");
	espl__buf_clear(&buf);
	espl__schema_help(options, OPTIONS, STRIDE, ESPL__HELP_MARKDOWN, &buf);
	cr_assert(strstr(espl__buf_text(&buf),
		      "| `table.gpus` | integer, default 1, 1 or more | h |") != NULL);
	espl__buf_clear(&buf);
	espl__schema_help(options, OPTIONS, STRIDE, ESPL__HELP_MAN, &buf);
	cr_assert(strstr(espl__buf_text(&buf), ".TP\n.B period\n(span, at most 1h)") != NULL);
	espl__buf_clear(&buf);
	espl__core_group_help(espl__core_groups(), ESPL__HELP_MARKDOWN, &buf);
	cr_assert(strstr(espl__buf_text(&buf), "### experiment") != NULL);
	espl__buf_free(&buf);
}
