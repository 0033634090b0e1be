/* world.h - one interface, two implementations: real (processes, clouds, clock) and simulated.
 *
 * drive.c owns the loop: next -> journal -> executor -> journal -> apply.  A world decides
 * nothing: it waits, collects what happened, and carries out effects.
 */
#ifndef ESPL__WORLD_H
#define ESPL__WORLD_H
#include "exec/questions.h"

/* filled by next; valid until next is called again */
struct espl__round {
	espl_time now; /* never decreases */
	const struct espl__event *events;
	uint32_t count; /* 0: only time passed (live view); no round is run */
};
struct espl__world {
	const struct espl__world_ops *ops;
	/* set by drive before the first call */
	struct espl__exec *exec;
	const volatile int *interrupt; /* as in struct espl__drive */
};
struct espl__world_ops {
	/* After a fresh start or a replay: begin to work.  The first `next` then brings
	 * EV_START (fresh) or EV_RESUME (resumed at `now`). */
	espl_status (*begin)(struct espl__world *, int resumed, espl_time now, struct espl__diag *);
	/* Waits for the next thing to happen (at most about 100 ms in the real world). */
	espl_status (*next)(struct espl__world *, struct espl__round *, struct espl__diag *);
	espl_status (*apply)(struct espl__world *, const struct espl__effect *, uint32_t count,
	    struct espl__diag *);
	/* The user's wish to stop: the next round carries EV_STOP.  Async-signal-safe. */
	void (*stop)(struct espl__world *);
	/* Ends everything that is left: no process, lease or descriptor remains.  Always called.
	 * `kill`: at once (second Ctrl-C, fatal error).  `left`: what is left running all the same,
	 * in words; nothing is added if nothing is. */
	void (*close)(struct espl__world *, int kill, struct espl__buf *left);
};
#endif
