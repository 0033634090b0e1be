/* run_groups.h - the numbers of the core's own options; shared by run_file.c, run_groups.c and
 * run_print.c. */
#ifndef ESPL__RUN_GROUPS_H
#define ESPL__RUN_GROUPS_H
#include <espalier/model.h>

#include "input/input.h"

enum {
	EXPERIMENT_NAME,
	EXPERIMENT_METRIC,
	EXPERIMENT_GOAL,
	EXPERIMENT_DEADLINE,
	EXPERIMENT_BUDGET,
	EXPERIMENT_TARGET,
	EXPERIMENT_PATIENCE,
	EXPERIMENT_SEED,
	EXPERIMENT_SEEDS,
	EXPERIMENT_CONFIRM,
	EXPERIMENT_DATA_GB,
	EXPERIMENT_SYNC,
	EXPERIMENT_WEIGHT,
	EXPERIMENT_GPUS_MAX,
	EXPERIMENT_INNER
};
enum {
	TRIAL_TRAINABLE,
	TRIAL_CURVES,
	TRIAL_DIRECTORY,
	TRIAL_GPUS_MIN,
	TRIAL_GPUS_MAX,
	TRIAL_PACKING_MAX,
	TRIAL_SHARING,
	TRIAL_CHECKPOINT,
	TRIAL_CHECKPOINT_EVERY,
	TRIAL_IN_PLACE,
	TRIAL_RETRIES,
	TRIAL_COLOCATE,
	TRIAL_REPORT_LIMIT,
	TRIAL_TIME_LIMIT,
	TRIAL_SAVE_LIMIT,
	TRIAL_GRACE,
	TRIAL_FILE_MAX,
	TRIAL_LOG_LIMIT,
	TRIAL_TORCHRUN,
	TRIAL_WARM
};
enum { WARM_FROM, WARM_BEST, WARM_COUNT };
enum { CLOUD_PATIENCE, CLOUD_LINGER, CLOUD_AFTER_LINGER, CLOUD_GIVE_UP, CLOUD_COUNT };
enum {
	STORE_USE,
	STORE_BUCKET,
	STORE_PREFIX,
	STORE_REGION,
	STORE_ENDPOINT,
	STORE_PROFILE,
	STORE_OWNER,
	STORE_PART,
	STORE_CHECKSUMS,
	STORE_COLLECT
};
enum {
	PLANNING_QUEUE,
	PLANNING_WARM,
	PLANNING_ACQUIRE_AHEAD,
	PLANNING_RELEASE,
	PLANNING_SAMPLES,
	PLANNING_RISK
};
enum {
	WORKLOAD_TRACE,
	WORKLOAD_UNIT,
	WORKLOAD_ITERATION,
	WORKLOAD_STEP,
	WORKLOAD_DOUBLING,
	WORKLOAD_ELASTIC,
	WORKLOAD_NOISE,
	WORKLOAD_REDRAW,
	WORKLOAD_JOBS,
	WORKLOAD_SMALL,
	WORKLOAD_SPAN,
	WORKLOAD_MEAN,
	WORKLOAD_M,
	WORKLOAD_SIGMA,
	WORKLOAD_LEAST,
	WORKLOAD_STRATIFIED,
	WORKLOAD_ARRIVALS,
	WORKLOAD_NODES_MAX,
	WORKLOAD_BUGS,
	WORKLOAD_TERMINATED
};

enum {
	ENTRY_FILE,
	ENTRY_ARRIVES,
	ENTRY_NAME,
	ENTRY_WEIGHT,
	ENTRY_GPUS_MAX,
	ENTRY_INNER,
	ENTRY_COUNT
};

enum { ALGORITHM_RESOURCE, ALGORITHM_RESOURCE_STEP, ALGORITHM_COUNT };

/* Places in espl__core_groups(). */
enum {
	GROUP_EXPERIMENT,
	GROUP_TRIAL,
	GROUP_SPACE,
	GROUP_ALGORITHM,
	GROUP_CLOUD,
	GROUP_STORE,
	GROUP_PLANNING,
	GROUP_WORKLOAD,
	GROUP_EXPERIMENTS,
	GROUP_TRUTH
};

/* The experiment group of a pool, which has a name and limits but no metric of its own. */
const struct espl_option *espl__pool_experiment(void);

/* A name that was given, of whomever: can it name a directory? */
espl_status espl__run_check_name(const struct espl__values *, uint32_t option, const char *who,
    struct espl__diag *);
/* run_pool.c: workload and experiments. */
espl_status espl__run_read_pool(struct espl__run_config *, struct espl__diag *);
/* When experiment and trial were read: does a pool say what only an experiment can? */
espl_status espl__run_check_pool(const struct espl__run_config *, struct espl__diag *);
void espl__run_free_pool(struct espl__run_config *);
/* run_warm.c: experiment.warm_start. */
extern const struct espl_option espl__warm_options[WARM_COUNT];
espl_status espl__run_read_warm(struct espl__run_config *, const struct espl__node *experiment,
    struct espl__diag *);
/* run_store.c: where checkpoints are. */
extern const struct espl_option espl__store_options[STORE_COLLECT + 1];
espl_status espl__run_read_store(struct espl__run_config *, struct espl__diag *);
/* run_metrics.c: trial.metrics, and the names in the words of trial.command. */
espl_status espl__run_read_metrics(struct espl__run_config *, const struct espl__node *trial,
    struct espl__diag *);
espl_status espl__run_check_words(const struct espl__run_config *, struct espl__diag *);
/* Which trials lose their work without checkpoints, if the algorithm has this shape (NULL: it is
 * not known): "promoted or retried", or "retried". */
static inline const char *
espl__unsaved_trials(const struct espl_spec *spec)
{
	uint32_t i = 0;

	while (spec != NULL && i < spec->bracket_count && spec->brackets[i]->stage_count == 1)
		i++;
	return spec != NULL && i == spec->bracket_count ? "retried" : "promoted or retried";
}
/* run_files.c: what trial.files may say; what it selects is looked at later. */
espl_status espl__run_read_files(struct espl__trial_config *, const struct espl__node *trial,
    struct espl__diag *);
/* run_env.c: trial.env and trial.env_from, and trial.torchrun when the widths are known. */
espl_status espl__run_read_env(struct espl__trial_config *, const struct espl__node *trial,
    struct espl__diag *);
static inline int
espl__env_removes(const struct espl__node *value) /* NAME = ( ); */
{
	return (value->type == ESPL__LIST || value->type == ESPL__ARRAY) && value->child_count == 0;
}
espl_status espl__run_check_torchrun(const struct espl__run_config *, struct espl__diag *);
/* Curves of the command line take the place of what the file trains; trial: its group, or NULL. */
void espl__run_drop_training(struct espl__run_config *, const struct espl__node *trial);
#endif
