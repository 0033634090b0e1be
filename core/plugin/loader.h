/* loader.h - one plugin file: opened, its descriptor found and checked.  Used by registry.c. */
#ifndef ESPL__LOADER_H
#define ESPL__LOADER_H
#include <sys/types.h>
#include "base/diag.h"

struct espl__module; /* an open file */

/* Kind and name that a file's name promises; -1: it is not called <kind>_<name>.so or .la. */
int espl__module_name(const char *path, espl_kind *kind, char *name, size_t room);
/* Opens, finds the descriptor, checks it.  `path` is absolute, a regular file. */
espl_status espl__module_open(const char *path, struct espl__module **, const struct espl_plugin **,
    struct espl__diag *);
/* whole.c: E_CONFIG if the file is cut short; OK of whatever is no ELF file of this machine. */
espl_status espl__module_whole(const char *path, struct espl__diag *);
void espl__module_close(struct espl__module *); /* unloads the code */
/* The library underneath; needed once before the first open.  Counted. */
espl_status espl__modules_init(struct espl__diag *);
void espl__modules_exit(void);
#endif
