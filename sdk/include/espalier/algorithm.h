/* espalier SDK: algorithm.h - which configurations train, how far, which survive.
 *
 * One instance per experiment.  Order of calls: the events of one instant first (on_report,
 * on_trial_end, in event order), then one next_group for all of them (a *round*).  So
 * simultaneous arrivals reach the allocator together, and a trial that
 * is continued in the round in which it reached its budget can keep its gang (planning.warm).
 * There is no save or restore: at resume the host replays the events.
 */
#ifndef ESPALIER_ALGORITHM_H
#define ESPALIER_ALGORITHM_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#include <espalier/host.h>
#include <espalier/model.h>
#include <espalier/space.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t espl_trial_state; /* ENDED and FAILED are for good */
enum {
	ESPL_TRIAL_WAITING = 1, /* has a budget, no GPUs yet (or lost them) */
	ESPL_TRIAL_RUNNING,
	ESPL_TRIAL_RESTING, /* at its budget, or paused: a checkpoint and nothing else */
	ESPL_TRIAL_ENDED,   /* stopped, dropped, or finished by itself */
	ESPL_TRIAL_FAILED   /* after its retries */
};

struct espl_trial {
	uint32_t size;
	espl_trial_state state;
	uint64_t id;          /* dense from 0 in order of creation, per experiment */
	uint64_t tag;         /* the algorithm's own mark, as given last */
	uint64_t group;       /* it was added to last */
	uint64_t parent;      /* trial it was cloned from, or NONE */
	uint64_t iteration;   /* done, the parent's included */
	uint64_t budget;      /* train up to this iteration */
	uint64_t checkpoint;  /* iteration of the newest complete one; 0 none */
	double loss;          /* last reported; NaN none */
	double gpu_s;         /* GPU-seconds held so far */
	espl_money spent;     /* its share of the bill so far */
	const double *values; /* its configuration, in the space's order */
};

/* loss: the objective, negated if it is maximized; NaN if the trial reported NaN.  Each
 * iteration of a trial is delivered once: the host filters what a retry repeats. */
#define ESPL_OBSERVED_EARLIER \
	0x1u /* from an earlier run's results (warm start): the \
	      * objective is its one metric, at is 0, iteration_s NaN */
struct espl_observation {
	uint32_t size;
	uint32_t flags;        /* ESPL_OBSERVED_* */
	uint64_t trial;        /* NONE with OBSERVED_EARLIER */
	uint64_t iteration;    /* from 1; rises from report to report of a trial */
	double loss;           /* the objective, less is better; NaN not a number */
	const double *metrics; /* raw, experiment's order; NaN if not reported */
	uint32_t metric_count;
	uint32_t zero;
	const double *values;    /* the trial's configuration */
	espl_time at;            /* when it was reported */
	double iteration_s;      /* measured length of this iteration */
	struct espl_share share; /* that it ran on */
};

/* Service ESPL_HISTORY.  Contents grow; pointers valid until the entry returns.  Ask for it in
 * create: observations are kept (40 bytes and 8 a metric) only for instances that did.  An
 * instance that needs only those of an earlier run asks if ESPL_EXPERIMENT_EARLIER is set. */
struct espl_history {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Observations in order of delivery, the earlier run's first; a model keeps a cursor. */
	uint64_t (*count)(const struct espl_history *);
	/* NULL from count on. */
	const struct espl_observation *(*at)(const struct espl_history *, uint64_t index);
	/* The trial with this id, in its present state; NULL: none has it. */
	const struct espl_trial *(*trial)(const struct espl_history *, uint64_t trial);
	/* (iteration, raw value) of one metric of a trial, ancestors' part included, iterations
	 * rising.  Returns how many; *points is valid until the entry returns. */
	uint32_t (*curve)(const struct espl_history *, uint64_t trial, uint32_t metric,
	    const struct espl_point **points);
	/* Configurations to be tried first, as ESPL_FIRST has them; NULL beyond the last. */
	const double *(*first)(const struct espl_history *, uint32_t index);
};

/* Service ESPL_FIRST: the configurations that the user wants tried first (experiment.first), then
 * the best distinct ones of a warm start.  It does not need the history and its memory.  The same
 * points as espl_history's first. */
struct espl_first {
	uint32_t size;
	uint32_t count; /* how many points there are */
	void *ctx;      /* the host's */
	/* Point `index` as a configuration in the space's order, valid until destroy; NULL from
	 * `count` on. */
	const double *(*at)(const struct espl_first *, uint32_t index);
};

typedef uint32_t espl_how; /* how a trial starts */
enum {
	ESPL_FRESH = 1, /* a new trial from nothing */
	ESPL_CONTINUE,  /* promoted: its own checkpoint, same id and configuration */
	ESPL_CLONE      /* a new trial from another one's checkpoint (PBT's exploit) */
};
struct espl_start {
	uint32_t size;
	espl_how how;
	uint64_t trial;              /* CONTINUE: which; CLONE: the source */
	uint64_t checkpoint;         /* CLONE: exactly this iteration's, kept, or where the
				      * source is paused or has just reported: it saves
				      * there and the clone waits (E_UNKNOWN: neither).
				      * 0: the newest, or if there is none the next one.
				      * Iterations are counted on from there. */
	const double *values;        /* FRESH; CLONE: NULL keeps the source's */
	uint64_t budget;             /* train up to this iteration; cumulative, >= 1 */
	uint64_t tag;                /* the algorithm's own mark, kept with the trial */
	double weight;               /* hint to the allocator; 0: 1 */
	uint32_t gpus_min, gpus_max; /* hint, within the trial's; 0: the trial's */
};
#define ESPL_GROUP_OPEN 0x1u /* more trials will be added (Fluid 3.2; async) */
/* a TrialGroup (Fluid 3.2) */
struct espl_group {
	uint32_t size;
	uint32_t flags;          /* ESPL_GROUP_* */
	uint32_t bracket, stage; /* of the spec; ESPL_ANY: none declared */
	uint32_t concurrency;    /* trials at once, 0: as many as fit */
	uint32_t zero;
};

typedef uint32_t espl_verdict; /* taken at the trial's next iteration boundary */
enum {
	ESPL_SAVE = 1, /* continue, but make a checkpoint (PBT at its interval) */
	ESPL_PAUSE,    /* save, free everything: RESTING */
	ESPL_STOP      /* free everything: ENDED; checkpoints stay until the round's next_group has
			  returned, longer if a clone waits for one */
};

struct espl_search_sink {
	uint32_t size, zero;
	/* -- in next_group only -- */
	/* A new trial group; *group gets its id, rising.  A group without ESPL_GROUP_OPEN takes
	 * trials until this call returns.  E_REJECTED: after finish. */
	espl_status (*begin)(struct espl_search_sink *, const struct espl_group *, uint64_t *group);
	/* *trial gets the trial's id (CONTINUE: its own).  E_REJECTED: the group takes none, the
	 * configuration is not the space's, the trial to continue is not paused or has reached
	 * the budget; E_UNKNOWN: the checkpoint to clone is not kept. */
	espl_status (*add)(struct espl_search_sink *, uint64_t group, const struct espl_start *,
	    uint64_t *trial);
	/* An open group takes no more: it ends when its trials have. */
	espl_status (*close)(struct espl_search_sink *, uint64_t group);
	/* The search is over once everything added has ended; closes open groups.
	 * If nothing at all is called: wait for results. */
	espl_status (*finish)(struct espl_search_sink *);
	/* -- in every entry; without a verdict the trial continues -- */
	/* E_REJECTED: the trial has ended, or there is none.  The last one counts. */
	espl_status (*verdict)(struct espl_search_sink *, uint64_t trial, espl_verdict);
	/* Will never be continued or cloned again: its checkpoints may be collected. */
	espl_status (*drop)(struct espl_search_sink *, uint64_t trial);
	/* Weight (>= 0, 1 normal) and limits of GPUs for the allocator; 0: the trial's own. */
	espl_status (*hint)(struct espl_search_sink *, uint64_t trial, double weight,
	    uint32_t gpus_min, uint32_t gpus_max);
	/* Be asked (ESPL_ASK_TIME) at this instant; the earliest one wins, once. */
	espl_status (*wake_at)(struct espl_search_sink *, espl_time);
};

#define ESPL_ASK_START 0x01u /* the first call */
#define ESPL_ASK_GROUP \
	0x02u                   /* every trial of `group` is RESTING, ENDED, FAILED; \
				 * one call for each group that ended in the round */
#define ESPL_ASK_CAPACITY 0x04u /* `want` trials more could run now */
#define ESPL_ASK_RESULT 0x08u   /* something was reported or ended */
#define ESPL_ASK_TIME 0x10u
#define ESPL_ASK_OUTCOME 0x20u
struct espl_search_view {
	uint32_t size;
	uint32_t why; /* ESPL_ASK_* */
	espl_time now;
	uint64_t group;            /* with ASK_GROUP; else NONE */
	uint64_t trials;           /* created so far */
	uint32_t want;             /* that could be started at once, 0 when full */
	uint32_t running, waiting; /* trials in these states */
	uint32_t gpus, gpus_max;   /* held; most the experiment could ever hold */
	uint32_t outcome_count;
	const struct espl_outcome *const *outcomes; /* of computations, with ASK_OUTCOME */
};

typedef uint32_t espl_end;
enum {
	ESPL_END_BUDGET = 1, /* reached its budget: RESTING, as soon as that is reported */
	ESPL_END_ITSELF,     /* said it is complete: ENDED */
	ESPL_END_PAUSED,     /* by the verdict: RESTING */
	ESPL_END_STOPPED,    /* by the verdict, or by the user: ENDED */
	ESPL_END_FAILED      /* for good, after its retries: FAILED */
};

struct espl_spec_sink {
	uint32_t size, zero;
	/* Once.  E_REJECTED: an empty bracket or stage. */
	espl_status (*spec)(struct espl_spec_sink *, const struct espl_spec *);
};

struct espl_algorithm_ops {
	struct espl_ops head;
	/* Mandatory.  Not asked any more once the search is finished. */
	espl_status (*next_group)(void *self, const struct espl_search_view *,
	    struct espl_search_sink *, struct espl_error *);
	/* Optional: NULL if nothing is to be learned there.  The trial as it stands after the
	 * report; verdicts are taken before its next iteration. */
	espl_status (*on_report)(void *self, const struct espl_trial *,
	    const struct espl_observation *, struct espl_search_sink *, struct espl_error *);
	/* Optional.  Once for each start: a continued trial ends again. */
	espl_status (*on_trial_end)(void *self, const struct espl_trial *, espl_end,
	    struct espl_search_sink *, struct espl_error *);
	/* Optional: called once, after create, before anything runs; also by `plan`. */
	espl_status (*spec)(void *self, struct espl_spec_sink *, struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
