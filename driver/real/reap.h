/* reap.h - the driver as the last parent: whatever an agent left behind is found and ended.
 *
 * The driver is a "child subreaper": when an agent dies, its orphans become the driver's
 * children.  A child that the driver did not start itself is such an orphan.
 */
#ifndef ESPL__REAP_H
#define ESPL__REAP_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
/* children we started (or had before) */
struct espl__pids {
	pid_t *list;
	uint32_t count, cap;
};
void espl__pids_add(struct espl__pids *, pid_t);
void espl__pids_remove(struct espl__pids *, pid_t);
void espl__pids_free(struct espl__pids *);
/* Makes this process a subreaper; its present children are added to *known. */
int espl__reap_init(struct espl__pids *known); /* 0, or -1 with errno */
/* This child is ours as well, whatever world is open: the one that makes forecasts; 0: none. */
void espl__reap_spare(pid_t);
/* Sends SIGKILL to all unknown children and their descendants, except those that `spares` (may be
 * NULL) is true for, until none is left or `limit_ms` have passed. Returns how many were killed;
 * *left: those that remain. */
uint32_t espl__reap_orphans(const struct espl__pids *known, int (*spares)(const void *ctx, pid_t),
    const void *ctx, uint32_t limit_ms, uint32_t *left);
/* The epoch of the session (node/session/session.h) that this process keeps; 0: it is no keeper. */
uint64_t espl__reap_epoch(pid_t);
#endif
