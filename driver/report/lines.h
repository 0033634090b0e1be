/* lines.h - a run as plain log lines, where there is no terminal to draw on. */
#ifndef ESPL__LINES_H
#define ESPL__LINES_H
#include "report/view.h"

struct espl__lines;
struct espl__lines *espl__lines_new(struct espl__view *, FILE *to);
struct espl__observer *espl__lines_observer(struct espl__lines *);
/* After each round: flushes, and every 10 s says how far the run is. */
void espl__lines_tick(struct espl__lines *, const struct espl__exec *);
void espl__lines_free(struct espl__lines *);
#endif
