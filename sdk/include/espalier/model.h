/* espalier SDK: model.h - experiments, specs, plans, and the execution model.
 *
 * The host provides the model to all policies (RubberBand 4.2), so planners need not write one, and
 * all plans are compared in the same way.  Its answers depend only on the profile, the offers and
 * journaled measurements: pure within a call, repeatable at replay.
 */
#ifndef ESPALIER_MODEL_H
#define ESPALIER_MODEL_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- spec: the declared shape of a search (RubberBand fig. 6); written by algorithms ---- */

struct espl_stage {
	uint32_t size;
	uint32_t trials;     /* trials that take part, at least 1 */
	uint64_t iterations; /* each trial's increment in this stage, not cumulative */
};
/* one run of successive halving; its stages are separated by barriers */
struct espl_bracket {
	uint32_t size;
	uint32_t stage_count;                   /* at least 1 */
	const struct espl_stage *const *stages; /* [stage_count], in order of time */
};
#define ESPL_SPEC_PARALLEL 0x1u /* brackets run at the same time; else one after the other */
/* nothing waits for the last trial of a stage: there is no barrier (experiment.sync) */
#define ESPL_SPEC_OPEN 0x2u
struct espl_spec {
	uint32_t size;
	uint32_t flags;         /* ESPL_SPEC_* */
	uint32_t bracket_count; /* at least 1 */
	uint32_t zero;
	const struct espl_bracket *const *brackets; /* [bracket_count] */
};

/* ---- plan: GPUs of the whole experiment per stage; written by allocators ---------------- */

struct espl_plan_stage {
	uint32_t size;
	uint32_t bracket, stage; /* of the spec */
	uint32_t offer;          /* number of the offer that the stage runs on */
	uint32_t gpus;           /* GPUs of the whole stage, at least 1 (RubberBand 4.3) */
	uint32_t gpus_per_trial; /* 0: chosen by the model (the largest that can be placed, at most
				  * gpus / trials) */
	uint32_t nodes;          /* 0: ceil(gpus / offer's gpus) */
	uint32_t zero;
	espl_money max_price_hour; /* 0: none */
};
#define ESPL_PLAN_OPTIMAL 0x1u /* proven; else gap is the largest distance from the optimum */
#define ESPL_PLAN_EFFORT 0x2u  /* effort is set; since minor 2 */
struct espl_plan {
	uint32_t size;
	uint32_t flags;       /* ESPL_PLAN_* */
	uint32_t stage_count; /* every stage of every bracket, once */
	uint32_t zero;
	const struct espl_plan_stage *const *stages; /* [stage_count] */
	double gap;                                  /* relative to a proven bound; NaN unknown */
	uint64_t searched;                           /* plans examined, for `plan --json` */
	/* search steps that were needed, as journaled */
	uint64_t effort;
};

/* ---- experiment: what policies know about it ----------------------------------------------- */

/* where a bracket of a spec stands */
struct espl_standing {
	uint32_t size;
	uint32_t bracket, stage; /* of the spec: the running stage; with a plan in force,
				  * stage_count once the last barrier has passed */
	uint32_t trials_left;    /* trials that have not ended this stage */
	espl_time stage_started; /* when it began; NEVER: not yet */
	espl_time trains_since;  /* when its first trial got its GPUs; NEVER: none yet */
};
#define ESPL_EXPERIMENT_MAXIMIZE 0x1u /* the user's goal; espl losses are always minimized */
#define ESPL_EXPERIMENT_WARM 0x2u     /* planning.warm: promoted trials keep their gang */
#define ESPL_EXPERIMENT_AHEAD 0x4u    /* planning.acquire_ahead: targets may rise early */
#define ESPL_EXPERIMENT_CHAIN 0x8u    /* planning.queue = "chain": trial k follows k - slots */
#define ESPL_EXPERIMENT_NO_SAVE 0x10u /* trial.checkpoint = false: no trial can be cloned */
#define ESPL_EXPERIMENT_EARLIER 0x20u /* ESPL_HISTORY begins with what an earlier run observed */
/* planning.release = "idle": nodes that neither a waiting trial nor the next stage needs are
 * released as soon as they are empty; since minor 2 */
#define ESPL_EXPERIMENT_IDLE 0x40u
struct espl_experiment {
	uint32_t size;
	uint32_t flags;               /* ESPL_EXPERIMENT_* */
	uint64_t id;                  /* unique in the run */
	const char *name;             /* the user's */
	const char *const *metrics;   /* [0] is the objective; others as they were first reported */
	uint32_t metric_count;        /* may grow */
	uint32_t gpus_limit;          /* at most this many at once; ESPL_ANY: no limit */
	espl_time arrived;            /* when it was submitted */
	espl_time deadline;           /* an instant; NEVER: none */
	espl_money budget;            /* INT64_MAX: none */
	espl_money spent;             /* its share of the cost so far; at most 1 s old */
	double risk;                  /* meet the deadline with this probability (docs/cli.md) */
	double weight;                /* priority among experiments, 1 normal */
	double data_gb;               /* GB that each new node downloads */
	const struct espl_spec *spec; /* NULL: the algorithm declares none */
	const struct espl_plan *plan; /* the plan in force; NULL none */
	const struct espl_standing *const *standing; /* one for each bracket that runs */
	uint32_t standing_count;
	uint32_t zero;
	uint32_t gpus_min, gpus_max; /* limits of one trial (trial.gpus_min, trial.gpus_max) */
};

/* ---- predictions ------------------------------------------------------------------------- */

typedef uint32_t espl_evidence;
enum { ESPL_GUESSED = 1, ESPL_PROFILED, ESPL_MEASURED_LIKE, ESPL_MEASURED }; /* rising */

struct espl_speed_query {
	uint32_t size;
	uint32_t offer;          /* ESPL_ANY: the profile's own hardware */
	uint64_t experiment;     /* its id */
	uint64_t trial;          /* ESPL_NONE: a typical trial of it */
	struct espl_share share; /* the GPUs that it would run on */
};
/* caller-owned, size set by the caller */
struct espl_speed {
	uint32_t size;
	espl_evidence evidence; /* MEASURED: this trial on this offer; LIKE: others on it */
	double iteration_s;     /* mean seconds of one iteration */
	double sd_s;            /* standard deviation of one iteration; 0 if it is not known */
	uint64_t samples;       /* number of iterations measured */
};
/* caller-owned, size set by the caller; means, seconds */
struct espl_overheads {
	uint32_t size, zero;
	double start_s;           /* from the decision until a trial trains */
	double save_s, restore_s; /* to write a checkpoint, to restore one */
	double resize_s;          /* pause when the number of GPUs changes (Fluid 4.3: epsilon) */
	double sync_s;            /* a stage's barrier (RubberBand 4.2: SYNC) */
	double boundary_s;        /* expected wait for the next iteration boundary */
	double save_every_s; /* interval of checkpoints of a running trial (trial.checkpoint_every);
			      * 0: only when it gives up its GPUs; since minor 2 */
};

/* predict only the rest: nodes held, work done and money spent are taken into account */
#define ESPL_FROM_NOW 0x1u
/* for predict: draws samples of its own instead of those that `stage` and other predictions share.
 * The plan that looks best of many on shared samples was partly lucky, so reports and limits use
 * this flag.  No effect without randomness. */
#define ESPL_AFRESH 0x2u
struct espl_stage_query {
	uint32_t size;
	uint32_t flags;              /* ESPL_FROM_NOW or 0 */
	uint64_t experiment;         /* its id */
	uint32_t bracket, stage;     /* of its spec */
	uint32_t offer;              /* number; ESPL_ANY: the profile's own hardware */
	uint32_t gpus_from, gpus_to; /* inclusive; one cell each */
	uint32_t zero;
};
#define ESPL_CELL_INVALID 0x1u /* cannot be placed on this offer */
/* the stage has begun (ESPL_FROM_NOW) and keeps its GPUs: this cell is the rest of it, and all
 * other cells of the stage are INVALID */
#define ESPL_CELL_BEGUN 0x2u
/* set with INVALID: not computed, because there are too many random cells; since minor 2 */
#define ESPL_CELL_SKIPPED 0x4u
/* frozen, 40 bytes */
struct espl_cell {
	double mean_s, sd_s;     /* starts + training + queueing + sync; no scaling-up */
	double busy_gpu_s;       /* for ESPL_BILL_FUNCTION */
	uint32_t nodes;          /* nodes that the stage holds */
	uint32_t gpus_per_trial; /* the largest share that can be placed */
	uint32_t slots;          /* trials that train at once */
	uint32_t flags;          /* ESPL_CELL_* */
};
/* how to predict */
struct espl_predict {
	uint32_t size;
	uint32_t flags;      /* ESPL_FROM_NOW, ESPL_AFRESH */
	uint64_t experiment; /* its id */
	double quantile;     /* in (0, 1), for the at_quantile fields; 0: means only */
	uint32_t samples;    /* 0: sum of the stages, whose mean is exact; else Monte Carlo */
	uint32_t zero;
	double *stage_ends_s; /* plan's stage_count elements, or NULL */
	double *stage_asks_s; /* likewise: when the nodes of the next stage are requested, in
			       * seconds after this stage's trials start */
};
/* caller-owned */
struct espl_prediction {
	uint32_t size;
	uint32_t meets;               /* 1: deadline and budget hold at the experiment's risk */
	double jct_s, jct_sd_s;       /* job completion time: from the start to the last end */
	double jct_at_quantile_s;     /* NaN unless quantile is set */
	double cost_usd, cost_sd_usd; /* whole bill: leases, minimum charges, data */
	double cost_at_quantile_usd;  /* NaN unless quantile is set */
};

/* service ESPL_MODEL (RubberBand 4.2) */
struct espl_model {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Predicts the length of an iteration (SpotTune's M[inst][hp], HyperSched's resize test).
	 * E_UNKNOWN: neither measured nor profiled (Fluid then neither packs nor scales). */
	espl_status (*speed)(const struct espl_model *, const struct espl_speed_query *,
	    struct espl_speed *);
	/* E_UNKNOWN: no such experiment or offer. */
	espl_status (*overheads)(const struct espl_model *, uint64_t experiment, uint32_t offer,
	    struct espl_overheads *);
	/* Cells for gpus_from..gpus_to at once: the table on which a dynamic program runs
	 * (docs/model.md).  The planner adds scaling up (provision, init, data) between stages from
	 * the offer.  cells: an array of the caller with gpus_to - gpus_from + 1 elements.
	 * E_UNKNOWN: no such stage; E_UNSUPPORTED: this host has no stage tables. */
	espl_status (*stage)(const struct espl_model *, const struct espl_stage_query *,
	    struct espl_cell *cells);
	/* Predicts a whole plan with scaling up, minimum charges, data and refunds: the reference
	 * for plans.  error may be NULL.  E_CONFIG: the plan leaves out a stage or names an unknown
	 * one; E_INFEASIBLE: a stage cannot be placed; E_UNSUPPORTED: this host predicts nothing.
	 */
	espl_status (*predict)(const struct espl_model *, const struct espl_plan *,
	    const struct espl_predict *, struct espl_prediction *, struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
