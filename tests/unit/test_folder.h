/* test_folder.h - a folder for a test's files, made before it and removed after it. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

static char folder[64];

static void
make_folder(void)
{
	strncpy(folder, "/tmp/espl-config-XXXXXX", sizeof folder - 1);
	cr_assert_not_null(mkdtemp(folder));
}

static void
drop_folder(void)
{
	(void)espl__tree_remove(folder, NULL);
}

/* Its path is malloc'd. */
static char *
put_file(const char *name, const char *text)
{
	char *path = espl__format("%s/%s", folder, name);

	cr_assert_eq(espl__file_write(path, text, strlen(text), NULL), ESPL_OK);
	return path;
}
#endif
