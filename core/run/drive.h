/* drive.h - a whole run: directory, lock, journal, replay, the loop over a world. */
#ifndef ESPL__DRIVE_H
#define ESPL__DRIVE_H
#include "run/journal.h"
#include "run/world.h"

/* caller fills, all borrowed */
struct espl__drive {
	/* the drive fills in `utc_start_s` and `tick`; plan_only only if simulated */
	struct espl__exec_setup exec;
	/* Makes the world of the run (espl__world_open); the core contains none.  token: the run's.
	 */
	espl_status (*open_world)(const struct espl__drive *, uint64_t token, struct espl__world **,
	    struct espl__diag *);
	/* run directory, absolute and existing; NULL: none (simulate) */
	const char *dir;
	/* the caller holds espl__drive_lock: else it is taken here */
	int locked;
	const char *faults; /* simulate: fault script, NULL none */
	int resume;         /* the directory has a journal: replay it first */
	int accept; /* keep recorded decisions if plugins now decide differently, and discard
		       everything after damage in the journal */
	/* resume: so many trials more than the configuration and earlier resumes asked for, or as
	 * many in all; 0: none */
	uint64_t trials_more, trials_total;
	uint64_t seed; /* of the simulated world and of all instances */
	/* After every round and at least 10 times a second in the real world. */
	void (*tick)(void *ctx, struct espl__exec *);
	/* The journal has been replayed, except for `rest`; `kept`: the file in the run directory
	 * to which that was moved, NULL none. */
	void (
	    *replayed)(void *ctx, struct espl__exec *, const struct espl__rest *, const char *kept);
	void *ctx;
	/* resume of a run that has ended, which is not continued then: fills the event that is
	 * recorded after its end, such as a note of the user; E_CONFIG: it has none. NULL: the run
	 * is driven. */
	espl_status (*append)(const void *append_ctx, const struct espl__exec *,
	    struct espl__event *, struct espl__diag *);
	const void *append_ctx;
	/* Set from a signal handler: 1 stop cleanly, 2 kill. */
	const volatile int *interrupt;
};
/* The lock of a run directory, taken before anything in it is changed; closing *lock releases it.
 * E_BUSY: another driver has it. It is a lock of the process (see espl__lock): the holder must not
 * call espl__locked() for the same file, which would release it. */
espl_status espl__drive_lock(const char *dir, int *lock, struct espl__diag *);
/* Replays DIR/journal, which a driver may be writing, into a fresh executor, and changes nothing:
 * all of it, or so many rounds from its beginning.  *look is filled; the executor, NULL if that
 * failed, is the caller's.  locked, resume and the like are not used. */
struct espl__drive_look {
	struct espl__exec *exec;
	uint64_t rounds;  /* replayed */
	int64_t origin_s; /* UTC second of the run's time 0, as its stops have shifted it */
};
espl_status espl__drive_look(const struct espl__drive *, uint64_t rounds_most,
    struct espl__drive_look *, struct espl__diag *);
/* How many rounds a journal has. */
espl_status espl__drive_rounds(const char *dir, uint64_t *rounds, struct espl__diag *);
/* How many further trials a resume gives this executor, whose journal has been replayed. */
uint64_t espl__drive_more(const struct espl__drive *, const struct espl__exec *);
/* Runs to the end.  *summary is filled whenever the executor came to life.  OK: see summary.how;
 * E_CONFIG: bad configuration or plugin options (exit 2); E_INFEASIBLE (exit 3); other: the run
 * failed or could not continue (message; resumable if the directory has a journal). */
espl_status espl__drive(const struct espl__drive *, struct espl__exec_summary *,
    struct espl__diag *);
#endif
