/* compute.h - a policy's computation (host.h, ESPL_COMPUTE) in a child process: solvers that may
 * abort, leak or never end.  Both worlds use it: the real one polls, the simulated one waits.
 *
 * The child is a fork.  It makes its own instance of the plugin (create with the same
 * configuration; service() answers NULL there, random 0) and calls the extension's run; what run
 * wrote comes back through a pipe.  It holds no other descriptor of ours, dies with the driver,
 * and is killed with its group at the limit.
 */
#ifndef ESPL__COMPUTE_H
#define ESPL__COMPUTE_H
#include <sys/types.h>
#include <espalier/host.h>
#include "input/input.h"

struct espl__compute;

/* Begins one.  kind: the plugin that asks (algorithm or allocator of the configuration).  Never
 * fails: what could not be started is a job that is done, its outcome says why (a line is logged).
 */
struct espl__compute *espl__compute_start(const struct espl__run_config *, espl_kind,
    uint64_t token, const struct espl_compute_request *, int simulated);
/* Readable when there is something to take; -1 once it is done. */
int espl__compute_fd(const struct espl__compute *);
/* The child's process id, so that it is not taken for an orphan; 0: none (left). */
pid_t espl__compute_pid(const struct espl__compute *);
/* Instant of espl__tick by which it is to be stepped even unreadable; INT64_MAX: none. */
int64_t espl__compute_deadline(const struct espl__compute *);
/* Reads without waiting, and enforces the limit. 1: done; 0: not yet. */
int espl__compute_step(struct espl__compute *);
void espl__compute_wait(struct espl__compute *);
/* Once done; valid until free.  `took` is measured. */
const struct espl_outcome *espl__compute_outcome(const struct espl__compute *);
/* For the simulated world: sets how long the outcome says it took. */
void espl__compute_assume(struct espl__compute *, espl_span took);
void espl__compute_free(struct espl__compute *); /* ends the child if it still runs */
#endif
