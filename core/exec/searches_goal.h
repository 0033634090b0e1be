/* searches_goal.h - searches that end by what they have found. */
#ifndef ESPL__EXEC_SEARCHES_GOAL_H
#define ESPL__EXEC_SEARCHES_GOAL_H
#include "exec/state.h"

void espl__search_goal_init(struct espl__search *);
/* The trial has reported this loss for the first time; it failed for good. */
void espl__search_goal_report(struct espl__trial *, uint64_t iteration, double loss);
void espl__search_goal_failed(const struct espl__trial *);
/* Something has happened: ends the searches that have found enough, or nothing for long enough. */
void espl__searches_goals(struct espl__exec *);
#endif
