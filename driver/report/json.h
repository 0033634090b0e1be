/* json.h - run --json: one object per line on standard output during a run. */
#ifndef ESPL__JSON_H
#define ESPL__JSON_H
#include "report/view.h"

struct espl__events;
struct espl__events *espl__events_new(struct espl__view *, FILE *to);
struct espl__observer *espl__events_observer(struct espl__events *);
/* After each round: hands over what gathered (at most 100 ms old). */
void espl__events_tick(struct espl__events *);
void espl__events_free(struct espl__events *); /* flushes */
#endif
