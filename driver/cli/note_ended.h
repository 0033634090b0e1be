/* note_ended.h - a note on a trial of a run that has ended. */
#ifndef ESPL__NOTE_ENDED_H
#define ESPL__NOTE_ENDED_H
#include "base/diag.h"

/* Has the run in this directory ended, so that a resume would have nothing to do? */
int espl__run_over(const char *dir);
/* Adds the note to the run's journal and its results. */
espl_status espl__note_ended(const char *dir, const char *trial, const char *key, const char *text,
    struct espl__diag *);
#endif
