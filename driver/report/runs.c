/* runs.c - finds run directories: those that have a run.cfg. */
#include "base/assert.h"
#include "report/runs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static void
add_run(struct espl__runs *runs, char *name)
{
	char *path = espl__format("%s/run.cfg", name);
	struct stat st;

	if (lstat(path, &st) == 0) {
		ESPL__GROW(runs->names, runs->cap, runs->count + 1);
		runs->names[runs->count++] = name;
	} else {
		free(name);
	}
	free(path);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

espl_status
espl__runs_find(struct espl__runs *runs, const char *dir, struct espl__diag *diag)
{
	ESPL__ASSERT(runs != NULL && dir != NULL);
	DIR *list = opendir(dir);
	const struct dirent *entry;
	uint32_t before = runs->count;
	int own;

	if (list == NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "cannot open '%s': %s", dir,
		    strerror(errno));
	add_run(runs, espl__strdup(dir));
	own = runs->count > before;
	while (!own && (entry = readdir(list)) != NULL)
		if (entry->d_name[0] != '.')
			add_run(runs,
			    strcmp(dir, ".") == 0 ? espl__strdup(entry->d_name)
						  : espl__format("%s/%s", dir, entry->d_name));
	(void)closedir(list);
	if (runs->count > before)
		qsort(runs->names + before, runs->count - before, sizeof *runs->names,
		    compare_names);
	return ESPL_OK;
}

void
espl__runs_free(struct espl__runs *runs)
{
	for (uint32_t i = 0; i < runs->count; i++)
		free(runs->names[i]);
	free(runs->names);
	*runs = (struct espl__runs){ NULL, 0, 0 };
}
