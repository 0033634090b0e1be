/* agent_tap.h - what a rank prints, copied into its trial's log up to a limit.
 *
 * A program that prints without end would fill the disk of everybody.  Its supervisor reads its
 * output and always takes all of it, so that the rank never waits for room that will not come.
 * What is beyond the limit is dropped; the end of it is kept in memory, and follows in the log if
 * the rank fails: that is where the reason stands.
 */
#ifndef ESPL__AGENT_TAP_H
#define ESPL__AGENT_TAP_H
#include <stddef.h>
#include <stdint.h>

#define ESPL__TAP_END ((size_t)16 << 10) /* bytes of the end that are kept */

struct espl__tap {
	int from, log;    /* -1: none */
	int64_t limit;    /* size of the log */
	int full;         /* everything is dropped from now on */
	uint64_t dropped; /* bytes */
	size_t kept;      /* of `end` */
	char end[2 * ESPL__TAP_END];
};
/* Takes no lock and no heap.  Takes over `log`; *theirs: where the rank is to print, CLOEXEC and at
 * least 10.  -1 with errno. */
int espl__tap_open(struct espl__tap *, int log, int64_t limit, int *theirs);
/* Takes what is there, but not for long. */
void espl__tap_read(struct espl__tap *);
/* There is no writer left. */
void espl__tap_close(struct espl__tap *, int failed);
#endif
