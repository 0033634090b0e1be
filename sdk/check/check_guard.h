/* check_guard.h - bounds for what check-plugin tries: processes, output, memory; leaks. */
#ifndef ESPL__CHECK_GUARD_H
#define ESPL__CHECK_GUARD_H
#include <sys/types.h>

#include "check/check_kit.h"

/* In the parent, before the child: a file for what it prints, of limited size; -1 none. */
int espl__guard_open(void);
/* In the child, before the file is loaded, and when it is known what kind it is of. */
void espl__guard_enter(struct espl__check_shared *, int output);
void espl__guard_kind(espl_kind);
/* In the child, when all was tried: what it printed and started are errors. */
void espl__guard_leave(struct espl__check *, int output);
/* In the parent, when the child has ended: kills what it has left, shows what it printed if `show`.
 */
void espl__guard_close(pid_t child, int output, int show);

/* Runs one life of an instance again and again: does the heap grow each time? */
void espl__check_leaks(struct espl__check *, void (*life)(struct espl__check *));
#endif
