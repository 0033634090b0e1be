/* espalier SDK: algorithm.h - which configurations are trained, and for how many iterations.
 *
 * One instance per experiment.  Order of calls: the events of one instant first (on_report,
 * on_trial_end, in event order), then one next_group for all of them (a *round*).  So simultaneous
 * arrivals reach the allocator together, and a trial that is continued in the round in which it
 * reached its budget can keep its gang (planning.warm).  An algorithm does not save its
 * state: to resume a run, the host replays the events.
 *
 * The sink judges each call by the state before the entry was called, and what it accepts takes
 * effect when the entry has returned ESPL_OK.  So an answer cannot clone a trial that it adds, nor
 * drop one that it stops; groups that it begins, closes or finishes count at once.
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

typedef uint32_t espl_trial_state; /* ENDED and FAILED are final */
enum {
	ESPL_TRIAL_WAITING = 1, /* has a budget, no GPUs yet (or lost them) */
	ESPL_TRIAL_RUNNING,
	ESPL_TRIAL_PAUSED, /* paused, or at its budget: holds only a checkpoint */
	ESPL_TRIAL_ENDED,  /* stopped, dropped, or complete before its budget */
	ESPL_TRIAL_FAILED, /* failed, and not retried any more */
	ESPL_TRIAL_RESTING = ESPL_TRIAL_PAUSED /* deprecated name */
};

struct espl_trial {
	uint32_t size;
	espl_trial_state state;
	uint64_t id;          /* dense from 0 in order of creation, per experiment */
	uint64_t tag;         /* the algorithm's own mark, as last set */
	uint64_t group;       /* the group to which it was last added */
	uint64_t parent;      /* trial it was cloned from, or NONE */
	uint64_t iteration;   /* iterations done, the parent's included */
	uint64_t budget;      /* train up to this iteration */
	uint64_t checkpoint;  /* iteration of its newest complete checkpoint; 0 none */
	double loss;          /* last reported; NaN none */
	double gpu_s;         /* GPU-seconds held so far */
	espl_money spent;     /* its share of the bill so far */
	const double *values; /* its configuration, in the space's order */
	/* The objective as reported, lower is better; loss, but where that says that the trial
	 * misses what the user requires (ESPL_LOSS_UNMET).  NaN none. */
	double objective;
	/* How far its metrics are from what is required, relative to them: above 0 it misses that,
	 * else it meets it, with so much to spare.  NaN: not known, or nothing is required. */
	double shortfall;
};

/* Losses from here on are those of trials that miss what the user requires of their metrics: the
 * more they miss, the greater.  Any other loss is better. */
#define ESPL_LOSS_UNMET 1e100

/* from the results of an earlier run (warm start): the objective is its only metric, at is 0,
 * iteration_s NaN */
#define ESPL_OBSERVED_EARLIER 0x1u
/* One report.  loss is the objective, negated if it is maximized, or NaN if the trial reported NaN.
 * Each iteration of a trial is delivered once: the host drops what a retry repeats. */
struct espl_observation {
	uint32_t size;
	uint32_t flags;        /* ESPL_OBSERVED_* */
	uint64_t trial;        /* NONE with OBSERVED_EARLIER */
	uint64_t iteration;    /* from 1; rises from report to report of a trial */
	double loss;           /* the objective, lower is better; NaN not a number */
	const double *metrics; /* raw, experiment's order; NaN if not reported */
	uint32_t metric_count;
	uint32_t zero;
	const double *values;    /* the trial's configuration */
	espl_time at;            /* when it was reported */
	double iteration_s;      /* measured length of this iteration */
	struct espl_share share; /* the GPUs that it ran on */
};

/* Service ESPL_HISTORY.  It grows during the run; its pointers are valid until the entry returns.
 * Ask for it in create: only then are observations kept (40 bytes each, and 8 per metric).  An
 * instance that needs only the observations of an earlier run asks for it if
 * ESPL_EXPERIMENT_EARLIER is set. */
struct espl_history {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Observations in order of delivery, the earlier run's first; a model keeps a cursor. */
	uint64_t (*count)(const struct espl_history *);
	/* NULL if index >= count. */
	const struct espl_observation *(*at)(const struct espl_history *, uint64_t index);
	/* The trial with this id, in its current state; NULL: no such trial. */
	const struct espl_trial *(*trial)(const struct espl_history *, uint64_t trial);
	/* (iteration, raw value) of one metric of a trial, in order of iteration.  A clone's curve
	 * begins with that of the trials it descends from.  Returns how many; *points is valid
	 * until the entry returns. */
	uint32_t (*curve)(const struct espl_history *, uint64_t trial, uint32_t metric,
	    const struct espl_point **points);
	/* Configurations to try first, the same as in ESPL_FIRST; NULL beyond the last. */
	const double *(*first)(const struct espl_history *, uint32_t index);
};

/* Service ESPL_FIRST: the configurations that the user wants tried first (experiment.first), then
 * the best distinct ones of a warm start.  They are the same points as espl_history's first,
 * without the memory that a history takes. */
struct espl_first {
	uint32_t size;
	uint32_t count; /* how many points there are */
	void *ctx;      /* the host's */
	/* Point `index` as a configuration in the space's order, valid until destroy; NULL if index
	 * >= count. */
	const double *(*at)(const struct espl_first *, uint32_t index);
};

typedef uint32_t espl_how; /* how a trial starts */
enum {
	ESPL_FRESH = 1, /* a new trial without a checkpoint */
	ESPL_CONTINUE,  /* promoted: its own checkpoint, same id and configuration */
	ESPL_CLONE      /* a new trial from another one's checkpoint (PBT's exploit) */
};
struct espl_start {
	uint32_t size;
	espl_how how;
	uint64_t trial; /* CONTINUE: the trial; CLONE: its source */
	/* CLONE: the source's checkpoint of this iteration.  It must be kept, or the source must be
	 * paused at or have just reported this iteration; then it saves, and the clone waits
	 * (E_UNKNOWN: neither).  0: its newest, or if it has none its next one: then the source
	 * must be paused after an iteration, waiting or running, or have just reported (E_UNKNOWN:
	 * none of these, for example a trial that was stopped earlier without a checkpoint).  The
	 * clone's iterations are counted from there. */
	uint64_t checkpoint;
	const double *values;        /* FRESH; CLONE: NULL keeps the source's */
	uint64_t budget;             /* train up to this iteration; cumulative, >= 1 */
	uint64_t tag;                /* the algorithm's own mark, kept with the trial */
	double weight;               /* hint to the allocator; 0 means 1 */
	uint32_t gpus_min, gpus_max; /* hint, within the limits of trial.gpus_*; 0: those limits */
};
#define ESPL_GROUP_OPEN 0x1u /* more trials will be added (Fluid 3.2; async) */
/* a trial group (Fluid's TrialGroup, section 3.2) */
struct espl_group {
	uint32_t size;
	uint32_t flags;          /* ESPL_GROUP_* */
	uint32_t bracket, stage; /* of the spec; ESPL_ANY: none declared */
	uint32_t concurrency;    /* trials at once, 0: as many as fit */
	uint32_t zero;
};

typedef uint32_t espl_verdict; /* takes effect at the trial's next iteration boundary */
enum {
	ESPL_SAVE = 1, /* make a checkpoint and continue (PBT at its interval) */
	ESPL_PAUSE,    /* save, free everything: PAUSED */
	ESPL_STOP      /* free everything: ENDED; checkpoints stay until the round's next_group has
			* returned, longer if a clone waits for one */
};

struct espl_search_sink {
	uint32_t size, zero;
	/* -- in next_group only -- */
	/* A new trial group; *group gets its id, rising.  A group without ESPL_GROUP_OPEN accepts
	 * trials until next_group returns.  E_REJECTED: after finish. */
	espl_status (*begin)(struct espl_search_sink *, const struct espl_group *, uint64_t *group);
	/* *trial gets the trial's id (CONTINUE: its own).  E_REJECTED: the group accepts no
	 * trials, the configuration is not in the space, the hint is invalid, the trial to continue
	 * is not paused, was dropped, or has already reached this budget, the trial to clone does
	 * not exist, or trials save no checkpoints; E_UNKNOWN: the checkpoint to clone is not kept
	 * and will not be. */
	espl_status (*add)(struct espl_search_sink *, uint64_t group, const struct espl_start *,
	    uint64_t *trial);
	/* Closes an open group to new trials: it ends when its trials have ended. */
	espl_status (*close)(struct espl_search_sink *, uint64_t group);
	/* The search is over once everything added has ended; closes open groups.
	 * If nothing at all is called: wait for results. */
	espl_status (*finish)(struct espl_search_sink *);
	/* -- in every entry; a trial without a verdict continues -- */
	/* If called more than once for a trial, the last verdict counts.  E_REJECTED: the trial
	 * has ended or does not exist. */
	espl_status (*verdict)(struct espl_search_sink *, uint64_t trial, espl_verdict);
	/* Declares that the trial will never be continued or cloned again: its checkpoints may be
	 * deleted.  E_REJECTED: it does not exist, or is waiting or running. */
	espl_status (*drop)(struct espl_search_sink *, uint64_t trial);
	/* Sets the trial's weight (>= 0, 1 normal) and limits of GPUs for the allocator; limit 0:
	 * the trial's own. */
	espl_status (*hint)(struct espl_search_sink *, uint64_t trial, double weight,
	    uint32_t gpus_min, uint32_t gpus_max);
	/* Asks to be called (ESPL_ASK_TIME) at this instant, in nanoseconds like view->now.  Of
	 * several, only the earliest is kept.  E_REJECTED: it is before now.  now itself: again in
	 * a round of its own.  A policy that is called soon again and again, although nothing
	 * changes, ends the run. */
	espl_status (*wake_at)(struct espl_search_sink *, espl_time);
};

#define ESPL_ASK_START 0x01u /* the first call */
/* every trial of `group` is PAUSED, ENDED or FAILED; one call for each group that ended in the
 * round */
#define ESPL_ASK_GROUP 0x02u
#define ESPL_ASK_CAPACITY 0x04u /* `want` more trials could run now */
#define ESPL_ASK_RESULT 0x08u   /* a trial has reported or ended */
#define ESPL_ASK_TIME 0x10u
#define ESPL_ASK_OUTCOME 0x20u
struct espl_search_view {
	uint32_t size;
	uint32_t why; /* ESPL_ASK_* */
	espl_time now;
	uint64_t group;            /* the group that ended (ASK_GROUP); else NONE */
	uint64_t trials;           /* created so far */
	uint32_t want;             /* how many more trials could start now, 0 when full */
	uint32_t running, waiting; /* trials in these states */
	uint32_t gpus, gpus_max;   /* GPUs held now; the most that the experiment could ever hold */
	uint32_t outcome_count;
	const struct espl_outcome *const *outcomes; /* results of computations, with ASK_OUTCOME */
};

typedef uint32_t espl_end;
enum {
	ESPL_END_BUDGET = 1, /* reached its budget: PAUSED, once it has reported that iteration */
	ESPL_END_ITSELF,     /* reported that it is complete: ENDED */
	ESPL_END_PAUSED,     /* by a verdict: PAUSED */
	ESPL_END_STOPPED,    /* by a verdict, or by the user: ENDED */
	ESPL_END_FAILED      /* after its last retry: FAILED */
};

struct espl_spec_sink {
	uint32_t size, zero;
	/* May be called once.  E_REJECTED: it was, or a bracket or a stage is empty. */
	espl_status (*spec)(struct espl_spec_sink *, const struct espl_spec *);
};

#define ESPL_EXTEND_OVER 0x1u /* the search had finished: it is open again */
/* What the user wants in addition to what was configured. */
struct espl_extension {
	uint32_t size;
	uint32_t flags;       /* ESPL_EXTEND_* */
	uint64_t trials;      /* further configurations, >= 1 */
	const double *values; /* the user's own configuration, in the space's order, valid until
			       * extend returns: the next new trial has it, and trials is 1; NULL:
			       * the algorithm chooses */
};

struct espl_algorithm_ops {
	struct espl_ops head;
	/* Mandatory.  Not called any more after finish. */
	espl_status (*next_group)(void *self, const struct espl_search_view *,
	    struct espl_search_sink *, struct espl_error *);
	/* Optional: NULL if the algorithm does not use reports.  The trial is in its state after
	 * the report; a verdict takes effect before its next iteration. */
	espl_status (*on_report)(void *self, const struct espl_trial *,
	    const struct espl_observation *, struct espl_search_sink *, struct espl_error *);
	/* Optional.  Called once for each start: a trial that is continued ends again. */
	espl_status (*on_trial_end)(void *self, const struct espl_trial *, espl_end,
	    struct espl_search_sink *, struct espl_error *);
	/* Optional: called once, after create, before anything runs; also by `plan`. */
	espl_status (*spec)(void *self, struct espl_spec_sink *, struct espl_error *);
	/* Optional: NULL if the number of trials is part of the method.  Called between rounds,
	 * also after finish, when all groups are closed: then next_group is called again, and
	 * trials that were PAUSED may still be continued.  What `spec` declared stays as it is.
	 * E_UNSUPPORTED: with this configuration it cannot be extended. */
	espl_status (*extend)(void *self, const struct espl_extension *, struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
