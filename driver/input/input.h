/* input.h - what the driver reads: a run's configuration file, recorded curves, what a warm start
 * begins with; and how it describes plugins and measurements. */
#ifndef ESPL__INPUT_H
#define ESPL__INPUT_H
#include <espalier/fleet.h>
#include "config/run.h"
#include "config/schema.h"
#include "model/space.h"

struct espl__earlier;
struct espl__profile;

/* ---- run_file.c: read, checked, changed by --set, printed ------------------------------------ */

/* Which sections must be there: those of a search (experiment, space, algorithm); also something
 * that trains; or none, as for one decision of an allocator. */
enum espl__need { ESPL__NEED_SEARCH, ESPL__NEED_TRIAL, ESPL__NEED_NOTHING };
/* sets: --set assignments.  Checks all core groups, unknown top-level names, and that what is
 * needed is there.  Without an experiment its members are as if nothing but a name were given. */
espl_status espl__run_load(const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need, struct espl__run_config **, struct espl__diag *);
/* One assignment of --set; or of `check` alone, without this section, or this value of one:
 * "\001GROUP.NAME". */
#define ESPL__RUN_WITHOUT "\001"
espl_status espl__run_set(struct espl__tree *, const char *text, struct espl__diag *);
/* Refuses a configuration that still has CHANGE-ME in a string; path: of the node, "" the root's.
 */
espl_status espl__run_refuse_marks(const struct espl__node *, const char *path,
    struct espl__diag *);
void espl__run_say_format(const char *path, struct espl__diag *); /* adds to the hint */
void espl__run_free(struct espl__run_config *);
/* The resolved configuration as a file that loads back to the same run: all paths in it
 * absolute, secrets left out. */
void espl__run_print(const struct espl__run_config *, struct espl__buf *);
/* The same; `map` is called for each input file (trial.curves, a profile's file, warm_start.from,
 * PATH options of plugins; trial.env, with "" for a path; not trial.directory) and returns the path
 * to write in its place (borrowed until the next call; relative: to the directory of the file that
 * is printed), or NULL for `absolute`.  So a run directory can hold copies of its inputs and be
 * moved.
 */
typedef const char *espl__run_map_fn(void *ctx, const struct espl__node *, const char *absolute);
void espl__run_print_mapped(const struct espl__run_config *, espl__run_map_fn *, void *ctx,
    struct espl__buf *);
/* Path as the user wrote it -> absolute by config->directory.  Malloc'd. */
char *espl__run_path(const struct espl__run_config *, const char *path);
/* The core's groups for help and docs; name NULL at the end of the list.  `members` are those
 * that no option type can express (trial.command); each has a name, a type and help. */
struct espl__core_member {
	const char *name, *type, *help;
};
struct espl__core_group {
	const char *name, *summary;
	const struct espl_option *options;
	uint32_t count, member_count;
	const struct espl__core_member *members;
};
const struct espl__core_group *espl__core_groups(void);
void espl__core_group_help(const struct espl__core_group *, enum espl__help_form,
    struct espl__buf *);

/* ---- curves.c -------------------------------------------------------------------------------- */

/* Recorded learning curves as trials (simulate): a table of configurations, each with
 * the metric's value at each iteration.  Format: docs/curves.md.
 */

struct espl__curves;
/* CSV: one line a (configuration, iteration): `config` first column, parameter columns named as in
 * the space, `iteration`, metric columns, optional `seconds` (length of the iteration on one GPU).
 */
espl_status espl__curves_load(const char *path, const struct espl__space *, struct espl__curves **,
    struct espl__diag *);
/* The same from text, which is cut up; `name` for messages.  space NULL: parameters are ignored,
 * and espl__curves_nearest may not be called. */
espl_status espl__curves_parse(const char *name, struct espl__buf *text, const struct espl__space *,
    struct espl__curves **, struct espl__diag *);
/* Those of a trial: of its file, or what was read of its run directory. */
espl_status espl__curves_of(const struct espl__trial_config *, const struct espl__space *,
    struct espl__curves **, struct espl__diag *);
void espl__curves_free(struct espl__curves *);
/* Row of the configuration nearest in the unit cube (inactive ones ignored; ties: first). */
uint32_t espl__curves_nearest(const struct espl__curves *, const double *values);
uint32_t espl__curves_rows(const struct espl__curves *); /* configurations */
/* (iteration, value) of a metric, into `to` unless it is NULL; returns how many. */
uint32_t espl__curves_points(const struct espl__curves *, uint32_t row, uint32_t metric,
    struct espl_point *to);
uint32_t espl__curves_metric_count(const struct espl__curves *);
const char *espl__curves_metric(const struct espl__curves *, uint32_t metric);
/* The value at an iteration (the last at or before it; NaN before the first).  `last`: the
 * curve's last iteration, beyond which the trial is complete. */
double espl__curves_value(const struct espl__curves *, uint32_t row, uint32_t metric,
    uint64_t iteration);
double espl__curves_seconds(const struct espl__curves *, uint32_t row,
    uint64_t iteration); /* NaN unknown */
uint64_t espl__curves_last(const struct espl__curves *, uint32_t row);

/* ---- earlier_read.c -------------------------------------------------------------------------- */

/* Reads what a warm start begins with. */

/* The text is cut up.  metric: the objective, which must be one of the columns.  `name` for
 * messages.  E_CONFIG also where nothing fits, or nothing was observed. */
espl_status espl__earlier_parse(const char *name, struct espl__buf *text,
    const struct espl__space *, const char *metric, int maximize, struct espl__earlier **,
    struct espl__diag *);
/* As a CSV from which the same can be read again. */
void espl__earlier_print(const struct espl__earlier *, struct espl__buf *);
/* A field of such a CSV, quoted where it must be. */
void espl__earlier_field(struct espl__buf *, const char *text);

/* ---- plugin_help.c --------------------------------------------------------------------------- */

/* What a plugin is and takes, printed for people. */

/* Text for terminals; a section of docs/config.md; a .SS of a man page. */
void espl__plugin_help(const struct espl_plugin *, enum espl__help_form, struct espl__buf *);

/* ---- profile_read.c -------------------------------------------------------------------------- */

/* node: GROUP in place, STRING path of a JSON or libconfig file (relative to directory), STRING
 * "auto" or NULL: the guessed one.  Refused: rising latency, falling or non-positive throughput,
 * unsorted or repeated points. */
espl_status espl__profile_load(const struct espl__node *, const char *directory,
    struct espl__profile **, struct espl__diag *);

/* ---- profile_fit.c --------------------------------------------------------------------------- */

/* From single measurements to a profile: means with their spread, and throughput
 * that does not fall.
 */

/* Mean and spread of what was added, in one pass (Welford). */
struct espl__tally {
	uint64_t count;
	double mean, squares;
};
void espl__tally_add(struct espl__tally *, double);
/* As if the other's had been added, too. */
void espl__tally_merge(struct espl__tally *, const struct espl__tally *);
double espl__tally_sd(const struct espl__tally *); /* of the sample; 0 below two values */
/* Standard error of the mean as a part of the mean; INFINITY below two values or at mean 0. */
double espl__tally_error(const struct espl__tally *);

/* The nearest non-decreasing values: weighted least squares (pool adjacent violators).  The
 * first one is kept, and values below it are raised to it.  Weights above 0. */
void espl__fit_rising(double *values, const double *weights, uint32_t count);
#endif
