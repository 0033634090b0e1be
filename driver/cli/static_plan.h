/* static_plan.h - the cheapest plan that keeps one size, with which a report compares a planned
 * run. */
#ifndef ESPL__STATIC_PLAN_H
#define ESPL__STATIC_PLAN_H
#include "base/mem.h"
#include "report/report_html.h"

/* Was the run planned?  There is nothing to compare with otherwise. */
int espl__static_plan_asked(struct espl__reading *);
/* An unnamed file for what espl__static_plan_find finds; -1: errno. */
int espl__static_plan_open(void);
/* Looks for the plan, for some seconds at most. */
void espl__static_plan_find(const char *config_path, int fd);
/* fd -1, or nothing found in it: why_not says so. */
void espl__static_plan_read(int fd, struct espl__arena *, struct espl__report_fixed *);
#endif
