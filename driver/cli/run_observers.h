/* run_observers.h - the outputs of a run: results.db, and the live view, log lines or JSON events.
 */
#ifndef ESPL__RUN_OBSERVERS_H
#define ESPL__RUN_OBSERVERS_H
#include "cli/inputs.h"
#include "report/fold.h"
#include "report/view.h"
#include "report/results.h"
#include "run/drive.h"
#include "driver/futures.h"

enum espl__show_as { ESPL__SHOW_NOTHING = 1, ESPL__SHOW_PROGRESS, ESPL__SHOW_JSON };
struct espl__show {
	struct espl__view view;
	struct espl__results *results; /* NULL: no directory */
	struct espl__live *live;       /* one of these three, or none */
	struct espl__lines *lines;
	struct espl__events *events;
	struct espl__foresight *foresight; /* makes forecasts; NULL: none are made */
	char *dir;                         /* of the run; NULL none */
	struct espl__fold *fold;           /* the log passes through it */
	const volatile int *interrupt;
	int warned;          /* that the run is being interrupted */
	int64_t stopping_at; /* tick since which it is; 0: it is not */
	int64_t waits_at;    /* tick at which to say what it still waits for */
	espl_span linger;    /* of what runs on nodes that are out of reach */
};
/* dir NULL: nothing is kept.  Hooks the observers and callbacks into *drive. */
void espl__show_begin(struct espl__show *, const struct espl__inputs *, enum espl__show_as,
    struct espl__drive *drive);
/* The run has ended: copies the final numbers into view.totals and closes everything but the view.
 * `broken` and `why`: how a run ended that could not continue; NULL: as the summary says. */
void espl__show_end(struct espl__show *, const struct espl__exec_summary *, const char *broken,
    const char *why);
void espl__show_free(struct espl__show *);
#endif
