/* run_folder.h - run directories: making and recognizing them. */
#ifndef ESPL__RUN_FOLDER_H
#define ESPL__RUN_FOLDER_H
#include "cli/inputs.h"

/* Writes run.cfg, with copies of the files that it names, into a directory that exists. */
espl_status espl__folder_write(const struct espl__inputs *, const char *dir, struct espl__diag *);
/* The folder of a new run: `given`, or NAME-YYYYMMDD-HHMMSS here where it is NULL.  Refuses one
 * that holds a run (E_CONFIG).  Copies the input files, writes run.cfg; nothing else is begun.
 * *dir: absolute, malloc'd; *made: it did not exist before. */
espl_status espl__folder_make(const struct espl__inputs *, const char *given, const char *faults,
    char **dir, int *made, struct espl__diag *);
/* Removes what espl__folder_make and a driver that never started left there. */
void espl__folder_undo(const char *dir, int made);
/* The absolute path of an existing run directory; E_CONFIG with a hint where it is none. */
espl_status espl__folder_find(const char *given, char **dir, struct espl__diag *);
/* E_CONFIG with a hint if another user owns or can write the folder, run.cfg, a copied input, or
 * those of a pool's experiment, or if a link replaces a folder: their contents are run with the
 * rights of the caller. */
espl_status espl__folder_check(const char *dir, struct espl__diag *);
/* Are the trials of the run in this folder evaluated by clients (`espalier ask`)? */
int espl__folder_asked(const char *dir);
/* DIR/NAME exists. */
int espl__folder_has(const char *dir, const char *name);
#endif
