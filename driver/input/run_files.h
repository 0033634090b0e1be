/* run_files.h - trial.files: the copy of a search's files that its trials work in. */
#ifndef ESPL__RUN_FILES_H
#define ESPL__RUN_FILES_H
#include "config/run.h"

/* Its name in the directory of a run, or of a pool's experiment. */
#define ESPL__RUN_FILES "files"
/* Copies what trial.files selects to DIR/files, sealed; nothing without trial.files.  DIR NULL:
 * only checks that it could be.  E_CONFIG: a pattern matches nothing, a link leads out, too much.
 */
espl_status espl__run_copy_files(const struct espl__run_config *, const char *dir,
    struct espl__diag *);
/* Is a path, relative and without a slash at its end, left out by rules as in .espalierignore? */
int espl__files_ignored(const char *rules, const char *path, int dir);
#endif
