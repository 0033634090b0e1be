/* run.h - the configuration of a run, or of a pool: the core's own groups, checked; plugin groups
 * as nodes.
 *
 * Core groups go through schema.h like a plugin's, so help, docs and messages are made alike.
 * Which plugin options are right is checked later, when the plugins are known (registry.h).
 */
#ifndef ESPL__RUN_H
#define ESPL__RUN_H
#include "base/sharing.h"
#include "config/schema.h"

/* algorithm, allocator, cloud, placer */
struct espl__section {
	/* plugin's name; defaults: "random" "static" "local" "colocate" */
	const char *use;
	const struct espl__node *group; /* NULL: the section is absent */
};
struct espl__trial_config {
	const char *trainable;      /* exactly one of trainable, command, curves; or none */
	const char *const *command; /* argv, argv[0] looked up in PATH */
	uint32_t command_count;
	const char *curves; /* recorded curves (simulate): a CSV file or a run directory, absolute
			       path; readable when the configuration was loaded */
	/* a run directory's, as a CSV (input/curves.c); NULL none */
	const char *curves_text;
	/* what to warn of if some of these end before the others, and early; NULL none */
	const char *curves_cut;
	/* trial.metrics: how reports are made of the output, for espalier-listen, and what is said
	 * when there are none; NULL none */
	const char *metrics, *metrics_missed;
	int best; /* trial.metrics.best: the metric of a trial is the best that it has reported */
	const struct espl__node *options; /* trial.options: for the trainable; NULL none */
	const struct espl__node *profile; /* STRING "auto" or path; GROUP; NULL */
	const struct espl__node *files;   /* trial.files, as given: patterns; NULL none */
	const struct espl__node *setup;   /* trial.setup: strings; NULL none */
	/* GROUP of strings added to the environment, or NULL; an empty list: it is removed */
	const struct espl__node *env;
	/* ARRAY of names taken from our environment, or NULL */
	const struct espl__node *env_from;
	const char *directory;       /* working directory of commands, absolute */
	uint32_t gpus_min, gpus_max; /* gpus_max ESPL_ANY: no limit */
	uint32_t packing_max;
	enum espl__sharing sharing; /* how trials share a GPU, if they do */
	uint32_t retries;           /* how often a failed trial is retried */
	int checkpoint;             /* can save and restore */
	int colocate;
	int in_place; /* gangs of a trainable that can resize do not restart */
	/* ranks of a command have torchrun's variables; negative: if there can be several */
	int torchrun;
	int warm;                   /* starts of a Python command are forked from one process */
	espl_span checkpoint_every; /* ask for one when the last is older; 0 never */
	espl_span report_limit;     /* no report within it: the gang is ended as hung; 0 none */
	espl_span time_limit; /* trained for so long: it ends, its last report stands; 0 none */
	/* not saved this long after `pause`: the gang is killed; 0 none */
	espl_span save_limit;
	espl_span grace;   /* between asking to end and SIGKILL */
	int64_t file_max;  /* RLIMIT_FSIZE of ranks, bytes; 0 none */
	int64_t log_limit; /* of a trial's log, bytes; 0 none */
};
#define ESPL__SECONDS "seconds" /* of training, as a resource */

/* an experiment of a pool */
struct espl__entry {
	const struct espl__node *node;
	struct espl__values *values;
	const char *path; /* of its file, absolute */
	espl_span arrives;
	const char *name;  /* NULL: as its file says */
	double weight;     /* 0: as its file says */
	uint32_t gpus_max; /* 0: as its file says */
	int inner;         /* negative: as its file says */
};
#define ESPL__RUN_CONFIG_MAGIC 0x787f6455u
struct espl__run_config {
	uint32_t magic;          /* ESPL__RUN_CONFIG_MAGIC */
	struct espl__tree *tree; /* owns all nodes */
	const char *path;        /* as given */
	const char *directory;   /* absolute directory of the file: base of relative paths */
	/* experiment */
	const char *name;
	const char *metric;
	int maximize;
	espl_span deadline; /* ESPL_NEVER none */
	espl_money budget;  /* INT64_MAX none */
	int has_target;     /* experiment.target, in the metric's own direction */
	double target;
	uint64_t no_better; /* experiment.patience: trials without a new best value; 0 no limit */
	uint64_t seed;
	uint32_t seeds;   /* experiment.seeds: trials of each configuration, at least 1 */
	uint32_t confirm; /* experiment.confirm: trainings of each of the best at the end; 0 none */
	double data_gb;
	double weight;
	uint32_t gpus_limit; /* experiment.gpus_max; ESPL_ANY none */
	/* experiment.failures_max: of the trials that ended, 1 none; a number, UINT64_MAX none */
	double failures_share;
	uint64_t failures_most;
	int inner; /* in a pool: its own allocator divides what it gets */
	const struct espl_latency *sync;
	const struct espl__node *forbid;  /* experiment.forbid: list of texts, or NULL */
	const struct espl__node *require; /* experiment.require: the same */
	const struct espl__node *first;   /* experiment.first: list of groups, or NULL */
	const char *warm_from;            /* experiment.warm_start: absolute path; NULL none */
	uint32_t warm_best;
	const struct espl__node *warm_node; /* its `from` */
	struct espl__trial_config trial;
	const struct espl__node *truth; /* truth.profile: GROUP or STRING path; NULL */
	const struct espl__node *space; /* GROUP */
	struct espl__section algorithm, allocator, cloud, placer;
	/* algorithm.resource: what its iterations count in units of resource_step; "seconds" of
	 * training, or a metric that only grows.  NULL: the iterations of the program. */
	const char *resource;
	double resource_step;
	espl_span patience, linger;            /* of nodes that are reached by a command */
	const struct espl_table *after_linger; /* a word a row; NULL none */
	uint32_t give_up;                      /* failures in a row that close an offer */
	/* store: where the checkpoints of all nodes are */
	int s3; /* store.use = "s3"; else what each node needs */
	const char *s3_bucket, *s3_prefix, *s3_region, *s3_endpoint, *s3_profile, *s3_owner;
	uint64_t s3_part; /* bytes of a part */
	int s3_checksums;
	int s3_best; /* at the end only the best trial's checkpoint comes here */
	/* planning */
	int queue_chain; /* planning.queue = "chain" */
	int warm, acquire_ahead;
	int release_idle; /* planning.release = "idle" */
	uint32_t samples;
	double risk;
	int asked; /* trials are evaluated by clients, which ask for them: EV_ASK */
	int pool;  /* several experiments, or plain jobs, on one cluster */
	struct espl__entry *entries; /* its experiments */
	uint32_t entry_count;
	const struct espl__node *workload; /* plain jobs: its group, NULL none */
	const char *trace;                 /* workload.trace: absolute path; NULL: they are drawn */
	struct espl__values *workload_values;
	struct espl__values *experiment_values, *trial_values, *planning_values, *warm_values,
	    *cloud_values, *metrics_values, *store_values, *algorithm_values;
};
/* Can a trial have several ranks, as far as the file says?  What is offered may be narrower. */
static inline int
espl__run_may_have_ranks(const struct espl__run_config *config)
{
	return config->trial.gpus_max > 1 && config->gpus_limit > 1;
}
/* `trials` of the algorithm, as the file says; 0: it says nothing, or that there is no limit. */
static inline uint64_t
espl__run_trials(const struct espl__run_config *config)
{
	const struct espl__node *trials = espl__node_get(config->algorithm.group, "trials");

	return trials != NULL && trials->type == ESPL__INT && trials->i > 0 ? (uint64_t)trials->i
									    : 0;
}
#endif
