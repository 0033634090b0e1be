/* questions.h - what the driver, worlds and reports ask about a run. */
#ifndef ESPL__QUESTIONS_H
#define ESPL__QUESTIONS_H
#include "base/map.h"
#include "exec/executor.h"
#include "model/lowest.h"
#include "model/trials.h"

struct espl__exec_view {
	espl_time now; /* of the last round */
	int ended;     /* FX_END was given */
	/* DEADLINE or BUDGET: that ended the whole run permanently; else 0 */
	enum espl__run_end cut;
	int pool;                          /* is it one? */
	uint64_t searches;                 /* how many there are */
	const struct espl__names *metrics; /* known so far (EV_METRIC), by number */
	const struct espl__jobs *workload; /* NULL: none */
	uint64_t jobs_come;                /* how many of its jobs have arrived */
};
struct espl__exec_view espl__exec_view(const struct espl__exec *);
/* Brackets that the algorithm of this search (0, or a pool's experiment) has declared; 0: none. */
uint32_t espl__exec_brackets(const struct espl__exec *, uint64_t search);
/* Whether a trial may get more GPUs than a machine has. */
int espl__exec_spans(const struct espl__exec *);
/* A pool has experiments that failed, and that continue when it is resumed. */
int espl__exec_reopens(const struct espl__exec *);
/* Whether a trial of this experiment may ever have several ranks. */
int espl__exec_has_ranks(const struct espl__exec *, const struct espl__inputs *);
/* The execution model as policies see it: profile and measurements. */
const struct espl_model *espl__exec_model(const struct espl__exec *);
/* How often nodes of an offer are interrupted, as far as it is known. */
const struct espl_market *espl__exec_market(const struct espl__exec *);
/* Offers by number, NULL beyond the last. */
const struct espl_offer *espl__exec_offer(const struct espl__exec *, uint32_t number);
/* Names of machines of the offer that failed recently, for a new lease; at most `room`; returns how
 * many there are.  Valid until the next round. */
uint32_t espl__exec_avoid(const struct espl__exec *, uint32_t offer, const char **names,
    uint32_t room);
/* Can this node (a number, or the name of its machine) be drained, or (on 0) given back?  NULL, and
 * a lease on that machine; or why not. */
const char *espl__exec_drains(const struct espl__exec *, const char *name, int on, uint64_t *lease);
/* The most that one of the trials or jobs needs at least. */
uint32_t espl__exec_gpus_min(const struct espl__exec *);
int espl__exec_on_cpu(const struct espl__exec *); /* what counts as a GPU is a slot of a CPU */
const struct espl_trial *espl__exec_trial(const struct espl__exec *,
    uint64_t trial); /* NULL unknown */
struct espl__trial_info {
	const char *word;  /* "running", "paused", "completed", "unfinished", ...; NULL unknown */
	uint64_t restores; /* the iteration from which a start trains */
	uint64_t began;    /* iteration of its parent, as the program calls it; 0: no clone */
	int save_asked;    /* its state at the last iteration is wanted */
	int unasked;       /* config.asked: no client has got it, so it does not exist for users */
	uint64_t kept;     /* what its program calls the iteration of its checkpoint; 0: none */
	double loss;       /* as reported; NaN none */
	int meets; /* experiment.require: 1 yes, 0 no, -1 not known, or nothing is required */
	uint64_t seed_of; /* its seed is that of the trial with this number */
	uint32_t fold;    /* of a confirmation, from 1; else 0 */
	uint64_t config;  /* with experiment.seeds its configuration; NONE: none */
};
struct espl__trial_info espl__exec_trial_info(const struct espl__exec *, uint64_t trial);

/* The plain jobs of a workload; only those that started, or have ended, count in the times. */
struct espl__job_times {
	double mean, p95, max;
}; /* NaN: there is none yet */
struct espl__jobs_summary {
	/* jobs is 0 without a workload */
	uint32_t jobs, arrived, to_come, done, failed, cancelled;
	/* until it was given GPUs; until it was done */
	struct espl__job_times queue_s, total_s;
	double makespan_s; /* when the last one was done */
};
/* Searches by number: in an ordinary run 0 alone; NULL beyond the last.  Whether it has arrived, so
 * that no EV_EXPERIMENT is needed. */
const struct espl__inputs *espl__exec_search_of(const struct espl__exec *, uint64_t number);
/* Parses the name of a trial: "7", or in a pool "EXPERIMENT/7".  Returns 0 if it is malformed; the
 * trial need not exist. */
int espl__exec_named_trial(const struct espl__exec *, const char *name, uint64_t *number,
    uint64_t *trial);
/* Finds a pool's experiment (trial NONE) or plain job (its number) by name.  0: there is none. */
int espl__exec_named(const struct espl__exec *, const char *name, uint64_t *number,
    uint64_t *trial);
const struct espl__space *espl__exec_space(const struct espl__exec *, uint64_t number);
/* Can the search be given further trials?  NULL, or why not. */
const char *espl__exec_extends(const struct espl__exec *, uint64_t number);
/* Trials that it was given so. */
uint64_t espl__exec_extended(const struct espl__exec *, uint64_t number);
/* Can the user stop this trial?  NULL, or why not. */
const char *espl__exec_stops(const struct espl__exec *, uint64_t number, uint64_t trial);
/* Can this text be attached to the trial, in a pool with its search?  NULL, or why not. */
const char *espl__exec_notes(const struct espl__exec *, uint64_t trial, const char *key);
/* The first of its texts; NULL: none. */
const struct espl__trial_note *espl__exec_trial_notes(const struct espl__exec *, uint64_t trial);
/* Can it still be cancelled?  NULL, or why not. */
const char *espl__exec_cancels(const struct espl__exec *, uint64_t number, uint64_t trial);
int espl__exec_has_come(const struct espl__exec *, uint64_t number);
/* an experiment of a pool */
struct espl__search_summary {
	const char *name, *metric;
	const char *text;       /* why it ended so; NULL none */
	enum espl__run_end how; /* 0 while it runs */
	int come, maximize;
	espl_time arrived, ended; /* NEVER: not yet */
	/* finished: as in espl__exec_summary */
	uint64_t trials, finished, early, failed, running, waiting, unfinished;
	struct espl__lowest lowest;    /* of all reports; its trial as in best */
	uint64_t best, best_iteration; /* best: its number in the experiment, NONE */
	double best_loss, gpu_s;
	double best_spread; /* as in espl__exec_summary */
	uint32_t seeds, best_counted;
	espl_money spent;
	uint32_t gpus; /* that its trials hold now */
};
/* Returns 0 if the experiment does not exist.  Plain jobs belong to none. */
int espl__exec_search_sum(const struct espl__exec *, uint64_t number,
    struct espl__search_summary *);
int espl__exec_job_cancelled(const struct espl__exec *, uint64_t number);

struct espl__exec_summary {
	enum espl__run_end how; /* 0 while it runs */
	/* why it failed, or what interrupted it; "": the user did */
	char text[512];
	/* the search is complete: there is nothing to resume */
	int over;
	int found; /* it ended by experiment.target or experiment.patience, as `text` says */
	char failure[512]; /* the last failure of a trial; "": none */
	uint64_t trials, failed, running, waiting, unfinished; /* ended with their experiment */
	/* train no more and did not fail; of these, stopped early */
	uint64_t finished, early;
	uint64_t failed_attempts; /* each counted against trial.retries */
	uint64_t best;            /* trial, ESPL_NONE none */
	double best_loss;         /* turned: less is better */
	/* With experiment.seeds > 1: best_loss is the mean of so many trials of the configuration,
	 * whose first trial is best_first; best_spread: their standard deviation, NaN of one. */
	uint32_t seeds, best_counted;
	double best_spread;
	uint64_t best_first;
	struct espl__confirmation confirmation; /* of a pool: none */
	uint64_t best_iteration;                /* at which best_loss was reported */
	uint64_t best_checkpoint;               /* of the best trial, 0 none */
	struct espl__lowest lowest;             /* of all reports; of a pool: none */
	espl_time now;
	espl_money cost, budget, refunded; /* refunded: not in cost */
	espl_time promoted_at;             /* the last promotion; 0: there was none */
	espl_money promoted_cost;          /* until then */
	double refunded_gpu_s;             /* held by nodes that were free */
	double gpu_s, busy_gpu_s;          /* held by nodes; used by gangs */
	double usd_s;                      /* what is held costs a second */
	/* a trial continued with another number of GPUs than before; with the same number, although
	 * it was training, by its checkpoint or in place */
	uint64_t resizes, moves;
	/* trials that waited beside idle slots that they could use: for how long there were any,
	 * the longest of them, how long after the pause that is allowed (items.h), and how many
	 * were started there at its end */
	double standing_s, standing_longest_s, standing_late_s;
	uint64_t standing_started;
	uint32_t nodes, nodes_peak, nodes_leaked; /* held now; leases not ended at the end */
	uint32_t gpus, gpus_busy;
	int on_cpu;                         /* espl__exec_on_cpu */
	uint64_t reports, decisions, calls; /* calls of policies, and what they answered */
	double least_s, least_usd; /* after ESPL_E_INFEASIBLE: what would do; NaN unknown */
	uint32_t offers;           /* then: those with GPUs, */
	int interruptible;         /* and whether nodes of some of them may be interrupted */
	struct espl__quantiles decision_times, call_times;
	struct espl__jobs_summary jobs;
};
/* The plan in force with its prediction; NULL: none.  After a failed search for one
 * (ESPL_E_INFEASIBLE) `least_*` say what would do, NaN where it is not known. */
struct espl__exec_plan_info {
	const struct espl_plan *plan;
	const struct espl__forecast_stage *rows; /* [plan->stage_count] */
	const struct espl__forecast_result *result;
	const struct espl_spec *spec;
	double least_s, least_usd;
};
void espl__exec_plan_info(const struct espl__exec *, struct espl__exec_plan_info *);
void espl__exec_summary(const struct espl__exec *, struct espl__exec_summary *);
/* What a run that is ending still waits for, in words.  1: for a node that is out of reach, too. */
int espl__exec_waits(const struct espl__exec *, struct espl__buf *);
#endif
