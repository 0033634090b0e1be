/* drive_private.h - between drive.c (the loop) and drive_replay.c (what was before). */
#ifndef ESPL__DRIVE_PRIVATE_H
#define ESPL__DRIVE_PRIVATE_H
#include "run/drive.h"
#include "run/journal.h"

struct espl__run_state {
	const struct espl__drive *drive;
	struct espl__exec *exec;
	struct espl__world *world;
	struct espl__journal *journal; /* NULL: none is kept */
	struct espl__journal_header header;
	espl_time last;        /* time of the last round in the journal */
	espl_time begin;       /* where the clock of the run continues */
	int resumed, finished; /* finished: the journal ends with the run's end */
	/* the directory could not be locked: nothing is written */
	int look_only;
	uint64_t more;          /* trials that the resumed search is given */
	int stopped;            /* the journal ends with CLOSED */
	int killed;             /* the user interrupted it twice */
	int unsynced;           /* written, but not yet brought to the disk */
	int64_t synced;         /* tick of the last fdatasync */
	struct espl__buf round; /* encoded */
};

/* Makes the executor; the header contains the calendar, so it is known before. */
espl_status espl__drive_exec(struct espl__run_state *, struct espl__diag *);
/* Reads DIR/journal, feeds it to a fresh executor and opens it for appending. */
espl_status espl__drive_replay(struct espl__run_state *, const char *path, struct espl__diag *);
/* clock.c: writes to DIR/clock that the run's clock is at `at` now; origin_s: the UTC second of its
 * 0, which identifies the part of the run. */
void espl__drive_clock_keep(const char *dir, espl_time at, int64_t origin_s);
/* The run's clock now, by the clock since boot; 0: the machine was restarted or is a different one,
 * or DIR/clock does not belong to this part of the run. */
int espl__drive_clock_since(const char *dir, int64_t origin_s, espl_time *at);
#endif
