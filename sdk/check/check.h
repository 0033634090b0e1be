/* check.h - `espalier check-plugin FILE.so`: does a plugin keep the rules, before a run finds out?
 */
#ifndef ESPL__CHECK_H
#define ESPL__CHECK_H
#include <stdio.h>

/* Loads the file and tries it on made-up views in a child process: a crash or a loop is a finding,
 * not the end.  One line "ok ..." or "error ..." each to `out`.  0: no error; 1: some. */
int espl__check_plugin(const char *path, FILE *out);
#endif
