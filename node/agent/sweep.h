/* sweep.h - ends whatever descends from a process, wherever it has hidden itself. */
#ifndef ESPL__SWEEP_H
#define ESPL__SWEEP_H
#include <stddef.h>
#include <sys/types.h>

/* Sends `sig` to every process that descends from `root` (never to root), except those in `spare`
 * and their descendants. Returns how many there are that are not zombies; also 0 if /proc cannot be
 * read. It looks once: processes forked meanwhile are found by the next call. Uses no lock and no
 * heap: safe in a child of a process with threads. */
size_t espl__sweep(pid_t root, const pid_t *spare, size_t spares, int sig);
/* Is it `root`, or does it descend from it? */
int espl__descends(pid_t pid, pid_t root);
/* SIGKILL for every process of this user that has exactly `mark` ("NAME=value") in its environment,
 * and for what these start meanwhile, for a second at most.  How many there were. */
size_t espl__sweep_marked(const char *mark);
/* Closes every descriptor from 3 on but those in `keep` (sorted, ascending). */
void espl__close_others(const int *keep, size_t count);
#endif
