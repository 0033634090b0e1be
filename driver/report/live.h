/* live.h - the live view: one picture of the run, redrawn in place on the terminal.
 *
 * Each frame is one write that hides the cursor, draws and shows it again: whatever ends the
 * program between two frames leaves the terminal as it was.  Lines of the log appear above it.
 */
#ifndef ESPL__LIVE_H
#define ESPL__LIVE_H
#include "report/view.h"

struct espl__live;
/* Is there a terminal to draw on: standard output is one, and TERM is not "dumb" or empty. */
int espl__live_possible(void);
struct espl__live *espl__live_new(struct espl__view *); /* takes the log if stderr is a terminal */
/* Draws when the last frame is older than 100 ms. */
void espl__live_tick(struct espl__live *, const struct espl__exec *);
void espl__live_free(struct espl__live *); /* wipes the frame, gives the log back */
#endif
