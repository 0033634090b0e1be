/* view.h - a running search as people look at it: groups, gangs, nodes, the best so far.
 *
 * An observer that maintains counts, so that the live view, the log lines and the JSON events can
 * each print an event in O(1). It is the first in the list of observers.
 */
#ifndef ESPL__VIEW_H
#define ESPL__VIEW_H
#include "base/map.h"
#include "report/causes.h"
#include "report/seen_trials.h"
#include "report/totals.h"

struct espl__view_group {
	uint64_t id;
	uint32_t bracket, stage; /* ESPL_ANY: none declared */
	uint32_t brackets;       /* that its algorithm declared: one need not be named */
	int ended;
	uint64_t waiting, running, done, failed;
	uint64_t budget; /* largest of its trials */
};
struct espl__view_gang {
	struct espl__view_gang *next, *previous; /* in order of coming */
	uint64_t gang, trial;
	int running; /* all ranks are there */
	struct espl_share share;
	/* GPUs of the trial before it was started or resized; 0 none */
	uint32_t before;
	uint64_t iteration, from, budget; /* done, at its start, up to */
	double metric;                    /* NaN: none yet */
};
struct espl__view {
	struct espl__observer observer;
	const struct espl__run_config *config;
	const struct espl__space *space;
	const struct espl__exec *exec; /* set at the first tick; NULL before */
	int replaying;                 /* lines and events keep silent */
	espl_time now;
	espl_time round_at; /* the executor's clock, and when it came to that */
	int64_t round_tick;
	enum espl__trial_change change; /* of the trial just told */
	int better;                     /* the report just told is the best so far */
	uint64_t best;                  /* trial, NONE */
	double best_loss;
	uint64_t best_iteration;
	char *best_params;
	struct espl__view_gang *first, *last;
	uint64_t gang_count;
	struct espl__map gangs;           /* by trial */
	struct espl__view_group **groups; /* in order of beginning */
	uint32_t group_count, group_cap;
	struct espl__map group_map;
	struct espl__seen_trials seen;
	struct espl__totals totals; /* as of the last refresh */
	struct espl__causes causes;
	struct espl__buf scratch;
};
void espl__view_init(struct espl__view *, const struct espl__run_config *,
    const struct espl__space *, int simulated, int replaying);
void espl__view_free(struct espl__view *);
/* Takes the executor's numbers into view->totals, the best trial's parameters included. */
void espl__view_refresh(struct espl__view *, const struct espl__exec *);
/* After each round, so that a refresh can say what time it is while nothing happens. */
void espl__view_clock(struct espl__view *, const struct espl__exec *);
/* The same from a summary, when the executor is gone. */
void espl__view_finish(struct espl__view *, const struct espl__exec_summary *);
double espl__view_raw(const struct espl__view *, uint64_t trial,
    double loss); /* as the trial reported it */
const char *espl__view_metric(const struct espl__view *, uint64_t trial); /* its objective's name */
const struct espl__space *espl__view_space(const struct espl__view *, uint64_t trial);
/* "stage 2", where there are several brackets "bracket 1, stage 0", "group 7". */
void espl__view_group_name(const struct espl__view_group *, char to[48]);
struct espl__view_group *espl__view_group_of(struct espl__view *, uint64_t group); /* or NULL */

/* ---- frame.c --------------------------------------------------------------------------------- */

/* The text of the live view, as lines: pure, so that a test can read it. */

struct espl__frame_style {
	uint32_t width, height; /* of the window; a frame is at most height - 1 lines */
	int color, unicode;
};
/* Appends the lines, each ended by "\n" and none wider than the window.  Returns how many;
 * `widths` (room for `height` of them) gets the columns of each. */
uint32_t espl__frame_draw(const struct espl__view *, const struct espl__frame_style *,
    struct espl__buf *, uint16_t *widths);

/* ---- live.c ---------------------------------------------------------------------------------- */

/* The live view: one picture of the run, redrawn in place on the terminal.
 *
 * Each frame is one write that hides the cursor, draws and shows it again: whatever ends the
 * program between two frames leaves the terminal as it was.  Lines of the log appear above it.
 */

struct espl__live;
/* Is there a terminal to draw on: standard output is one, and TERM is not "dumb" or empty. */
int espl__live_possible(void);
struct espl__live *espl__live_new(struct espl__view *);
/* A log line, which it shows above the frame; the context is the espl__live. */
void espl__live_log(void *live, espl_level, const char *text);
int espl__live_shows_log(const struct espl__live *); /* standard error is a terminal */
/* Draws when the last frame is older than 100 ms. */
void espl__live_tick(struct espl__live *, const struct espl__exec *);
void espl__live_free(struct espl__live *); /* wipes the frame */

/* ---- lines.c --------------------------------------------------------------------------------- */

/* A run as plain log lines, where there is no terminal to draw on. */

struct espl__lines;
struct espl__lines *espl__lines_new(struct espl__view *, FILE *to);
struct espl__observer *espl__lines_observer(struct espl__lines *);
/* After each round: flushes, and every 10 s prints the progress of the run. */
void espl__lines_tick(struct espl__lines *, const struct espl__exec *);
void espl__lines_free(struct espl__lines *);

/* ---- json.c ---------------------------------------------------------------------------------- */

/* Run --json: one object per line on standard output during a run. */

struct espl__events;
struct espl__events *espl__events_new(struct espl__view *, FILE *to);
struct espl__observer *espl__events_observer(struct espl__events *);
/* After each round: writes the collected output (at most 100 ms old). */
void espl__events_tick(struct espl__events *);
void espl__events_free(struct espl__events *); /* flushes */
#endif
