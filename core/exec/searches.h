/* searches.h - the searches of a run, from their arrival to their end. */
#ifndef ESPL__EXEC_SEARCHES_H
#define ESPL__EXEC_SEARCHES_H
#include "exec/executor.h"
#include "exec/gangs.h"
#include "exec/items.h"
#include "model/jobs.h"
#include "model/lowest.h"
#include "policy/model_service.h"

/* A clone that waits for its source's checkpoint, with what its item will need. */
struct espl__waiter {
	struct espl__trial *trial;
	uint64_t wanted; /* iteration of that checkpoint; 0: whichever comes first */
	double weight;
	uint32_t gpus_min, gpus_max;
};

struct espl__job_state {
	espl_time arrived, started, ended; /* NEVER: not yet */
	uint8_t cancelled;                 /* by the user, perhaps before it came */
};

struct espl__pending_compute {
	uint64_t token;
	struct espl__search *search; /* its algorithm asked; NULL: */
	struct espl__tier *tier;     /* the allocator of this tier did */
};

#define ESPL__SCRIPT_ATTEMPTS 10u /* that fail before the script is blamed */
/* What the failures of a search say about its script, and how many it may have. */
struct espl__faults {
	/* attempts that failed while no trial had reported the metric */
	uint32_t attempts;
	uint64_t until;      /* gangs below this number ran when the first of them failed */
	espl_span longest;   /* that one of them took */
	uint64_t node;       /* of the last one */
	uint8_t one_node;    /* all were on it */
	uint8_t unscored;    /* that a report lacks the metric was said */
	uint8_t starts_wait; /* until one of those that run has failed, or runs for longer */
	/* different trials in a row that failed alike at an iteration that none has passed */
	char *alike;
	uint64_t alike_at, alike_trials[ESPL__SCRIPT_ATTEMPTS];
	uint32_t alike_count;
	/* different trials that failed alike before they reported, one after the other, while no
	 * gang from `row_from` on has reported */
	char *row;
	uint64_t row_from, row_trials[ESPL__SCRIPT_ATTEMPTS];
	uint32_t row_count;
	uint8_t row_said;
	espl_span row_longest; /* that one of them took */
	/* trials whose retry waits until other configurations have been tried */
	struct espl__waiter *held;
	uint32_t held_count, held_cap;
	/* trials that had failed, and those that had ended, when the run was resumed last */
	uint64_t failed_before, ended_before;
};

/* What a search has found, for experiment.target and experiment.patience (searches_end.c). */
struct espl__goal {
	uint64_t best;    /* config that reported the lowest loss of those not failed; NONE */
	double lowest;    /* that loss */
	uint64_t counted; /* trials that had ended when it was reported */
	/* the first config that reached the target, NONE; when, and with which loss */
	uint64_t reached, reached_at;
	double reached_loss;
	uint8_t ended; /* this is what ended the search */
};

/* The best configurations, trained again (searches_confirm.c). */
struct espl__confirm {
	uint8_t stage;
	uint32_t count; /* of configs */
	uint64_t configs[ESPL__CONFIRM_MOST];
	uint64_t first; /* trial; fold by fold, one of each configuration */
};

#define ESPL__SEARCH_MAGIC 0x75636774u
/* What belongs to one experiment.  The plain jobs of a pool are the trials of a search that has no
 * algorithm: the executor itself begins them when they arrive. */
struct espl__search {
	uint32_t magic; /* ESPL__SEARCH_MAGIC */
	struct espl__exec *exec;
	uint32_t number;
	const struct espl__inputs *inputs;
	const struct espl__run_config *config; /* = inputs->config */
	struct espl__host_env env;
	struct espl__instance *algorithm; /* NULL: the jobs of a workload */
	struct espl__tier *tier;          /* that its trials' items are in */
	struct espl__trials trials;       /* what is trained */
	/* what the algorithm decides about: those trials, or with experiment.seeds the
	 * configurations of which each has several (searches_configs.h) */
	struct espl__trials *configs, repeated;
	uint32_t seeds; /* trials of a configuration */
	uint8_t apart;  /* configs are not the trials */
	struct espl__confirm confirm;
	struct espl__history *history; /* NULL until asked for */
	uint32_t objective;            /* its number among the executor's metrics */
	const char **metrics;          /* the executor's, the objective first; NULL: they are */
	uint32_t metrics_cap;
	struct espl_experiment experiment;
	struct espl_standing *standing;
	/* [bracket]: none of the stage's trials has had a GPU since; for how long in all before */
	struct espl__search_pause {
		espl_time since, total;
	} * pauses;
	const struct espl_standing **standing_list;
	const double **first; /* the user's first points */
	uint32_t first_count;
	struct espl_first first_service;
	struct espl__outcomes outcomes;

	/* the plan (searches_plan.c) */
	struct espl__model_service model;
	struct espl__forecast_stage *plan_rows; /* as laid out and predicted, in the arena */
	struct espl__forecast_result plan_result;
	uint32_t plan_count;
	uint32_t *stand_next, stand_next_cap; /* lent to the model's forecasts from now on */
	double *stand_past;
	uint32_t stand_past_cap;
	struct espl__forecast_node *stand_held;
	uint32_t stand_held_cap;
	struct espl__trial_group **barred; /* ended, but their barrier has not passed */
	uint32_t barred_count, barred_cap;
	espl_time barrier_at; /* when the next one will; NEVER */

	uint32_t why;      /* what the next call of the algorithm is for */
	espl_time wake_at; /* when it wants to be called; NEVER */
	struct espl__haste haste;
	uint8_t come;     /* it has arrived */
	uint8_t over;     /* in a pool: it has completed */
	uint8_t finished; /* the algorithm called finish */
	/* in a pool: it failed, and continues when the pool is resumed (searches_more.c); was it
	 * finished before that? */
	uint8_t parked, was_finished;
	uint8_t planned;  /* the allocator was asked for a plan, if it makes any */
	uint8_t in_place; /* gangs are resized while they live */
	/* trial.checkpoint, until the program turns out to make none */
	uint8_t saves;
	uint8_t saved;      /* a checkpoint of one of its trials was complete */
	uint8_t reported;   /* one of its trials reported the metric */
	uint32_t *required; /* metrics that experiment.require names (searches_require.c); NULL */
	struct espl__faults faults; /* searches_faults.c */
	struct espl__goal goal;
	uint32_t pauses_unsaved;      /* before any trial saved */
	uint64_t unsaved_until;       /* gangs below this number ran at the first of them */
	uint8_t failures;             /* of the algorithm, in a row */
	struct espl__waiter *waiters; /* clones that cannot begin yet */
	uint32_t waiter_count, waiter_cap;
	struct espl__trial **unsaved;
	uint32_t unsaved_count, unsaved_cap;
	struct espl__trial **unwanted; /* stopped by the user, and just continued */
	uint32_t unwanted_count, unwanted_cap;
	uint64_t extended; /* trials that the user wanted in addition */
	uint64_t unasked;  /* of the trials */

	struct espl__gang_sums sums; /* of its gangs */
	enum espl__run_end ending;   /* in a pool: it is being wound up; 0: no */
	char *end_text;
	espl_time ended; /* NEVER: not yet */

	/* instead of an algorithm */
	const struct espl__jobs *jobs;      /* NULL: there is one */
	struct espl__job_state *job_states; /* by number of the trial */
	uint32_t jobs_cancelled;

	/* statistics; the best are configs */
	uint64_t best, best_iteration, failed;
	uint64_t best_failed; /* of the trials that failed for good; NONE */
	double best_loss;
	struct espl__lowest lowest; /* of all reports */
	double longest_s;           /* an iteration took, at most */
};

struct espl__searches {
	struct espl__search **list; /* by number */
	uint32_t count, cap;
	struct espl__names metrics; /* of all searches, as they were named */
	struct espl_compute compute;
	struct espl_model model; /* of whichever search is asked about */
	struct espl__pending_compute *computing;
	uint32_t computing_count, computing_cap;
	espl_time spent_at; /* when what was spent was summed last */
	uint64_t places;    /* config.asked: trials that clients hold or ask for; 0: none is asked
			     * for */
	struct espl__trial **collect; /* checkpoints to look at when the round is over */
	uint32_t collect_count, collect_cap;
	uint64_t reports, failed_attempts;
	uint8_t notes_dropped; /* the warning about notes beyond the limit of a trial was given */
	uint32_t with_goal;    /* searches that may end by what they have found */
	espl_time promoted_at; /* 0: no trial was promoted */
	espl_money promoted_cost;
	char *last_failure; /* text of the last failed gang */
	/* what ended the run is in its configuration: resume would end so, too */
	int futile;
};

void espl__searches_init(struct espl__exec *); /* services (searches_services.c) */
/* Destroys their instances: before what they were lent is freed. */
void espl__searches_still(struct espl__exec *);
void espl__searches_free(struct espl__exec *);
void espl__searches_begin(struct espl__exec *); /* a round */
void espl__searches_begun(struct espl__exec *); /* the run */
/* GPUs came free or a gang was resized: searches that wait for GPUs may start more trials. */
void espl__searches_capacity(struct espl__exec *);
/* EV_ASK: running and waiting trials are held by clients, or are given to clients before new ones.
 */
void espl__searches_asked(struct espl__exec *, uint64_t count);
void espl__searches_metric(struct espl__exec *, const char *name); /* EV_METRIC */
/* Their models are as the offers, or (0) only as the time, was. */
void espl__searches_stale(struct espl__exec *, int whole);
void espl__search_stale(struct espl__search *, int whole);
/* Trials may get more or fewer GPUs than before. */
void espl__searches_widths(struct espl__exec *);
void espl__searches_forgive(struct espl__exec *); /* the failures of their plugins */
/* Whether the algorithm receives results: also while an interrupted run stops, because it will be
 * resumed. */
int espl__search_gets_results(const struct espl__search *);
/* Calls of an algorithm are made for its search: from here on until the next one. */
void espl__search_turn(struct espl__search *);
espl_status espl__search_add(struct espl__exec *, const struct espl__inputs *, struct espl__diag *);
espl_status espl__search_declare(struct espl__search *,
    struct espl__diag *); /* allocator and placer are there */
#endif
