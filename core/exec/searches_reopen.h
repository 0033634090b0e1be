/* searches_reopen.h - experiments of a pool that failed continue when it is resumed. */
#ifndef ESPL__SEARCHES_REOPEN_H
#define ESPL__SEARCHES_REOPEN_H
#include "exec/searches.h"

void espl__searches_reopen(struct espl__exec *); /* those that are parked */
#endif
