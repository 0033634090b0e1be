/* child.h - a process whose output is a file in memory. */
#ifndef ESPL__CHILD_H
#define ESPL__CHILD_H
#include <stdint.h>
#include <sys/types.h>

struct espl__child {
	pid_t pid; /* 0: none */
	int out;   /* -1: none */
	int well;  /* it ended with status 0 */
	int64_t since, took;
};
/* In the new process: 1; in this one: 0, or -1 with errno.  The new one has `out` and, if it is not
 * -1, *kept (whose number may change), and ends with this one if `ours`. */
int espl__child_fork(struct espl__child *, int *kept, int ours);
/* Does it run?  Else `well` and `took` say how it ended. */
int espl__child_check(struct espl__child *);
/* Kills it if it runs; its output stays. */
void espl__child_kill(struct espl__child *);
/* The same, and closes its output. */
void espl__child_end(struct espl__child *);
#endif
