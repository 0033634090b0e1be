/* test_args.c - the words of a command line: what is taken, what is refused, what is proposed. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "cli/cli.h"

Test(args, arguments)
{
	const struct espl__verb *run = espl__verb_find("run");
	struct espl__args args;
	struct espl__diag diag = ESPL__DIAG_INIT;
	const char **sets;
	const char *good[] = { "--set", "a=1", "x.cfg", "-sb=2", "--dir=out", "--set=c=3", "-P",
		"here" };
	const char *many[] = { "x.cfg", "y.cfg" }, *odd[] = { "--dirr", "x" },
		   *bare[] = { "x", "--dir" };
	const char *flag[] = { "x", "--json=1" }, *dashes[] = { "--", "--dir" };

	cr_assert_eq(espl__args_parse(run, 8, good, &args, &diag), ESPL_OK, "%s", diag.text);
	cr_expect_str_eq(args.positional[0], "x.cfg");
	cr_expect_str_eq(espl__arg(&args, "dir"), "out");
	cr_expect(espl__arg(&args, "json") == NULL);
	cr_expect_str_eq(args.plugin_path, "here");
	cr_assert_eq(espl__arg_all(&args, "set", &sets), 3);
	cr_expect(strcmp(sets[0], "a=1") == 0 && strcmp(sets[1], "b=2") == 0 &&
	    strcmp(sets[2], "c=3") == 0);
	free(sets);
	espl__args_free(&args);
	cr_assert_eq(espl__args_parse(run, 2, dashes, &args, NULL), ESPL_OK);
	cr_expect_str_eq(args.positional[0], "--dir");
	espl__args_free(&args);
	cr_expect_eq(espl__args_parse(run, 2, many, &args, NULL), ESPL_E_CONFIG);
	espl__args_free(&args);
	cr_expect_eq(espl__args_parse(run, 0, NULL, &args, NULL), ESPL_E_CONFIG);
	espl__args_free(&args);
	cr_expect_eq(espl__args_parse(run, 2, bare, &args, NULL), ESPL_E_CONFIG);
	espl__args_free(&args);
	cr_expect_eq(espl__args_parse(run, 2, flag, &args, NULL), ESPL_E_CONFIG);
	espl__args_free(&args);
	cr_expect_eq(espl__args_parse(run, 2, odd, &args, &diag), ESPL_E_CONFIG);
	cr_expect_str_eq(diag.hint, "did you mean '--dir'?");
	espl__args_free(&args);
}
