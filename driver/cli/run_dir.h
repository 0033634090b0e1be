/* run_dir.h - run directories: making and recognizing them. */
#ifndef ESPL__RUN_DIR_H
#define ESPL__RUN_DIR_H
#include "cli/inputs.h"

/* Writes run.cfg, with copies of the files that it names, into a directory that exists. */
espl_status espl__run_dir_write(const struct espl__inputs *, const char *dir, struct espl__diag *);
/* The directory of a new run: `given`, or NAME-YYYYMMDD-HHMMSS here where it is NULL.  Refuses one
 * that holds a run (E_CONFIG).  Copies the input files, writes run.cfg; nothing else is begun.
 * *dir: absolute, malloc'd; *made: it did not exist before. */
espl_status espl__run_dir_make(const struct espl__inputs *, const char *given, const char *faults,
    char **dir, int *made, struct espl__diag *);
/* Removes what espl__run_dir_make and a driver that never started left there. */
void espl__run_dir_undo(const char *dir, int made);
/* The absolute path of an existing run directory; E_CONFIG with a hint where it is none. */
espl_status espl__run_dir_find(const char *given, char **dir, struct espl__diag *);
/* E_CONFIG with a hint if another user owns or can write the directory, run.cfg, a copied input, or
 * those of a pool's experiment, or if a link replaces a directory: their contents are run with the
 * rights of the caller. */
espl_status espl__run_dir_check(const char *dir, struct espl__diag *);
/* Are the trials of the run in this directory evaluated by clients (`espalier ask`)? */
int espl__run_dir_asked(const char *dir);
/* DIR/NAME exists. */
int espl__run_dir_has(const char *dir, const char *name);
#endif
