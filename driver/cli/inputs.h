/* inputs.h - a configuration with all it names, loaded and checked: what run, simulate
 * and check begin with. */
#ifndef ESPL__INPUTS_H
#define ESPL__INPUTS_H
#include "cli/cli.h"
#include "exec/executor.h"
#include "input/input.h"
#include "model/profile.h"
#include "model/space.h"

/* File, core groups, space, profile, what a warm start begins with. */
espl_status espl__inputs_load(const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need, struct espl__inputs *, struct espl__diag *);
/* The same with the next seed, of the pool and each of its experiments; random jobs are redrawn. */
espl_status espl__inputs_next_seed(struct espl__inputs *, struct espl__diag *);
void espl__inputs_free(struct espl__inputs *);
/* The experiment as an allocator knows it before anything is planned; strings belong to the inputs.
 */
void espl__describe_experiment(const struct espl__inputs *, struct espl_experiment *);

/* warm_start.c: reads experiment.warm_start, once; when a search begins, reports what is left out
 * and (`all`) what is used, and of the curves that it replays which were cut off. */
espl_status espl__inputs_warm(struct espl__inputs *, struct espl__diag *);
void espl__inputs_warm_report(const struct espl__inputs *, int all);

/* Is everything set that trial.env_from names?  And a warning where a value of trial.env looks like
 * a secret. */
espl_status espl__inputs_env(const struct espl__inputs *, struct espl__diag *);
void espl__inputs_env_report(const struct espl__inputs *);
/* The curves of a run directory that trial.curves names, once. */
espl_status espl__inputs_curves(struct espl__inputs *, struct espl__diag *);

/* first_points.c: experiment.first against the space; and against the search, which must try them
 * all (spec: what it declares, or NULL). */
struct espl_spec;
espl_status espl__inputs_first(const struct espl__inputs *, struct espl__diag *);
espl_status espl__inputs_first_fits(const struct espl__inputs *, const struct espl_spec *,
    struct espl__diag *);

/* check_offers.c: E_CONFIG if a job can never run on the cloud's offers; a warning if the allocator
 * (with these options) is configured for more GPUs than are offered. */
struct espl__fleet;
struct espl__values;
uint32_t espl__inputs_least(
    const struct espl__inputs *); /* GPUs on which each trial and job can run, one at a time */
espl_status espl__inputs_jobs_suit(const struct espl__inputs *, const struct espl__fleet *,
    struct espl__diag *);
void espl__inputs_tell_gpus(const struct espl__inputs *, const struct espl__fleet *,
    const struct espl__values *);
/* E_CONFIG if it is a pool, for commands that need a single experiment. */
espl_status espl__inputs_alone(const struct espl__inputs *, struct espl__diag *);
/* For struct espl__exec_setup: its `load`. */
espl_status espl__inputs_submitted(struct espl__inputs *pool, uint64_t number,
    const struct espl__inputs **, struct espl__diag *);
/* An experiment for a pool, whose allocator and cloud it uses: whether the rest is valid. */
/* check_trainable.c: a trainable's options, and whether it takes the configurations of the space.
 */
espl_status espl__inputs_check_trainable(const struct espl__inputs *, struct espl__diag *);
espl_status espl__inputs_check_entry(const struct espl__inputs *, struct espl__diag *);

/* All plugins that are named, their options and files; starts nothing. */
espl_status espl__inputs_check(struct espl__inputs *, int simulated, struct espl__diag *);
/* E_CONFIG where the cloud exists in simulation only. */
espl_status espl__inputs_real(const struct espl__inputs *, struct espl__diag *);

/* Clients evaluate the trials: what would run them is of no interest. */
void espl__inputs_asked(struct espl__run_config *);

/* secret_sets.c: a warning where the configuration itself holds a secret of the cloud. */
void espl__inputs_secret_report(const struct espl__inputs *);
/* E_CONFIG if one of these `--set PATH=VALUE` is anything but a secret of the cloud:
 * the configuration of an existing run does not change. */
espl_status espl__inputs_secret_sets(const struct espl__run_config *, const char *const *sets,
    uint32_t count, struct espl__diag *);

/* The cloud's offers, one by one, as far as the configuration alone determines them. *count: their
 * number; a cloud that knows none before it starts returns 0 and no error. */
typedef void espl__offer_fn(void *ctx, const struct espl_offer *);
espl_status espl__inputs_offers(const struct espl__inputs *, espl__offer_fn *, void *ctx,
    uint32_t *count, struct espl__diag *);
/* The algorithm's declared shape into the arena; NULL where it declares none (or needs more than
 * a configuration to say). */
struct espl__arena;
const struct espl_spec *espl__inputs_spec(const struct espl__inputs *, struct espl__arena *);
/* check_unchanged.c: `check` for unchanged scripts: the command line with an example of the
 * parameters, and the reports that trial.metrics finds in a file of their output (path NULL: no
 * file). */
void espl__check_words(const struct espl__inputs *, struct espl__buf *);
espl_status espl__check_output(const struct espl__inputs *, const char *path, struct espl__buf *,
    struct espl__diag *);
#endif
