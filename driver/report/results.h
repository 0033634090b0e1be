/* results.h - DIR/results.db: a run as SQLite tables for users to query, and for status, best,
 * explain and export to read while it is written.
 *
 * It is a projection of the journal: `espalier resume` rebuilds it if it is lost or stale. Errors
 * (a full disk, a read-only directory) are reported once and never disturb the run. Tables:
 * docs/results.md.
 */
#ifndef ESPL__RESULTS_H
#define ESPL__RESULTS_H
#include "report/totals.h"

struct espl__results;

/* borrowed until close */
struct espl__results_setup {
	const char *dir; /* the run directory */
	const struct espl__run_config *config;
	const struct espl__space *space;
	int simulated;
	int replaying; /* built beside the old one until espl__results_live */
};
/* Never NULL; where the file cannot be made it has warned and swallows everything. */
struct espl__results *espl__results_open(const struct espl__results_setup *);
struct espl__observer *espl__results_observer(struct espl__results *);
/* After each round: names of metrics, and now and then the totals and a commit. */
void espl__results_tick(struct espl__results *, const struct espl__exec *);
/* Replay is done: puts the new file in the old one's place. */
void espl__results_live(struct espl__results *, const struct espl__exec *);
/* Last totals (NULL: keep those of the last tick), commit, close, free. */
void espl__results_close(struct espl__results *, const struct espl__totals *);

#define ESPL__RESULTS_VERSION 9 /* PRAGMA user_version */

/* The schema, for the reader and its tests. */
extern const char espl__results_schema[];
#endif
