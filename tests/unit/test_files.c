/* test_files.c - what .espalierignore leaves out. */
#include <criterion/criterion.h>
#include "input/run_files.h"

static const char rules[] = "# comment\n\n*.pyc\n__pycache__/\n/top.txt\r\ndata/*.bin  \nlib/old\n"
			    "**/*.key\n**/sub/x\n";

Test(files, ignored)
{
	static const char *const yes[] = { "a.pyc", "lib/deep/a.pyc", "top.txt", "data/x.bin",
		"lib/old", "with space\nand more/b.pyc", "a.key", "lib/deep/a.key", "sub/x",
		"lib/sub/x" };
	static const char *const no[] = { "a.py", "lib/top.txt", "data/deep/x.bin", "other/lib/old",
		"# comment", "__pycache__", "a.keys", "sub/deep/x", "" };

	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		cr_expect(espl__files_ignored(rules, yes[i], 0), "%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		cr_expect(!espl__files_ignored(rules, no[i], 0), "%s", no[i]);
}

Test(files, folders)
{
	cr_expect(espl__files_ignored(rules, "__pycache__", 1));
	cr_expect(espl__files_ignored(rules, "lib/__pycache__", 1));
	cr_expect(!espl__files_ignored(rules, "lib", 1));
	cr_expect(!espl__files_ignored("", "lib", 1));
	cr_expect(espl__files_ignored("lib", "lib", 1), "the last line needs no end");
}
