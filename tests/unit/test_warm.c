/* test_warm.c - which commands run Python, and how, so that they can be forked after their imports.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "agent/agent_python.h"

static char dir[] = "/tmp/espalier-warm-XXXXXX";

static char *
put_file(const char *name, const char *text)
{
	char *path = espl__format("%s/%s", dir, name);

	cr_assert_eq(espl__file_write(path, text, strlen(text), NULL), ESPL_OK);
	cr_assert_eq(chmod(path, 0700), 0);
	return path;
}

static void
make_files(void)
{
	cr_assert(mkdtemp(dir) != NULL);
	free(put_file("main.py", "import sys\n"));
	free(put_file("app.pyz", "PK\003\004"));
	free(put_file("python3", "\177ELF"));
	free(put_file("python", "#!/bin/sh\nexec python3 \"$@\"\n"));
	free(put_file("sh", "\177ELF"));
}

static void
remove_files(void)
{
	cr_assert_eq(espl__tree_remove(dir, NULL), ESPL_OK);
}

/* The answer to a command of at most eight words. */
static const char *
parse(struct espl__python *p, const char *program, const char *const words[8])
{
	char *path = espl__format("%s/%s", dir, program);
	size_t count = 0;
	const char *why;

	while (count < 8 && words[count] != NULL)
		count++;
	why = espl__python_parse(path, (char *const *)(uintptr_t)words, count, dir, dir, p);
	free(path);
	return why;
}

TestSuite(warm, .init = make_files, .fini = remove_files);

Test(warm, a_script_and_its_arguments)
{
	struct espl__python p;

	cr_assert_null(parse(&p, "python3",
	    (const char *const[8]){ "python3", "-u", "-BO", "main.py", "-m", "x" }));
	cr_assert_str_eq(p.entry, "main.py");
	cr_assert_eq(p.module, 0);
	cr_assert_eq(p.skip, 4);
	cr_assert_eq(p.argv.count, 6);
	cr_assert_eq(p.options.count, 3);
	cr_assert_str_eq(p.options.list[2], "-BO");
	cr_assert_str_eq(p.name, "python3");
	espl__python_free(&p);
}

Test(warm, a_module_and_its_arguments)
{
	struct espl__python p;

	cr_assert_null(
	    parse(&p, "python3", (const char *const[8]){ "python3", "-m", "pkg.train", "--lr=1" }));
	cr_assert_str_eq(p.entry, "pkg.train");
	cr_assert(p.module);
	cr_assert_eq(p.skip, 3);
	espl__python_free(&p);
}

Test(warm, a_script_names_its_interpreter)
{
	struct espl__python p;
	char *text = espl__format("#! %s/python3 -u\nimport sys\n", dir);
	char *path = put_file("tool", text);

	cr_assert_null(parse(&p, "tool", (const char *const[8]){ "tool", "a" }));
	cr_assert_str_eq(p.entry, path);
	cr_assert_str_eq(p.name, "tool");
	cr_assert_eq(p.skip, 3);
	cr_assert_eq(p.argv.count, 4);
	cr_assert_str_eq(p.argv.list[3], "a");
	espl__python_free(&p);
	free(text);
	free(path);
	free(put_file("env", "#!/usr/bin/env python3\n"));
	cr_assert_null(parse(&p, "env", (const char *const[8]){ "env" }));
	cr_assert_str_eq(p.name, "python3");
	cr_assert_str_eq(p.argv.list[0], "python3");
	espl__python_free(&p);
}

Test(warm, what_cannot_be_forked_has_a_reason)
{
	static const struct {
		const char *program, *words[8], *why;
	} cases[] = {
		{ "sh", { "sh", "-c", "python3 main.py" }, "neither Python nor a script" },
		{ "python3", { "python3" }, "no script" },
		{ "python3", { "python3", "-c", "import sys" }, "an option" },
		{ "python3", { "python3", "-I", "main.py" }, "an option" },
		{ "python3", { "python3", "-X", "dev", "main.py" }, "an option" },
		{ "python3", { "python3", "-" }, "an option" },
		{ "python3", { "python3", "-m" }, "an option" },
		{ "python3", { "python3", "missing.py" }, "a script's source" },
		{ "python3", { "python3", "." }, "a script's source" },
		{ "python3", { "python3", "app.pyz" }, "a script's source" },
		{ "python", { "python", "main.py" }, "its interpreter is a script" },
		{ "main.py", { "main.py" }, "neither Python nor a script" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__python p;
		const char *why = parse(&p, cases[i].program, cases[i].words);

		cr_expect(why != NULL && strstr(why, cases[i].why) != NULL, "case %zu: %s", i,
		    why != NULL ? why : "none");
		espl__python_free(&p);
	}
}
