/* runs.h - the run directories in a directory, as `list` and `serve` show them. */
#ifndef ESPL__RUNS_H
#define ESPL__RUNS_H
#include <stdint.h>
#include "base/diag.h"

struct espl__runs {
	char **names;
	uint32_t count, cap;
};
/* Adds the directory itself, if it is a run directory, or the run directories in it, by name. */
espl_status espl__runs_find(struct espl__runs *, const char *dir, struct espl__diag *);
void espl__runs_free(struct espl__runs *);
#endif
