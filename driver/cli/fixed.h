/* fixed.h - the cheapest plan that keeps one size, with which a report compares a planned run. */
#ifndef ESPL__FIXED_H
#define ESPL__FIXED_H
#include "base/mem.h"
#include "report/report_html.h"

/* Was the run planned?  There is nothing to compare with otherwise. */
int espl__fixed_asked(struct espl__reading *);
/* An unnamed file for what espl__fixed_find finds; -1: errno. */
int espl__fixed_open(void);
/* Looks for the plan, for some seconds at most. */
void espl__fixed_find(const char *config_path, int fd);
/* fd -1, or nothing found in it: why_not says so. */
void espl__fixed_read(int fd, struct espl__arena *, struct espl__report_fixed *);
#endif
