/* espalier SDK: model.h - experiments, specs, plans, and the execution model.
 *
 * The host lends the model to all policies (RubberBand 4.2), so planners need not write one, and
 * all plans are compared by the same measure.  Its answers depend only on the profile, the offers
 * and journaled measurements: pure within a call, repeatable at replay.
 */
#ifndef ESPALIER_MODEL_H
#define ESPALIER_MODEL_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- spec: the declared shape (RubberBand fig. 6); written by algorithms --------------- */

struct espl_stage {
	uint32_t size;
	uint32_t trials;     /* that take part, at least 1 */
	uint64_t iterations; /* each trial's increment in this stage, not cumulative */
};
/* one SHA; its stages are separated by barriers */
struct espl_bracket {
	uint32_t size;
	uint32_t stage_count;                   /* at least 1 */
	const struct espl_stage *const *stages; /* [stage_count], in order of time */
};
#define ESPL_SPEC_PARALLEL 0x1u /* brackets side by side; else one after the other */
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
	uint32_t offer;          /* number of the one the stage runs on */
	uint32_t gpus;           /* of the whole stage, at least 1 (RubberBand 4.3) */
	uint32_t gpus_per_trial; /* 0: the model's choice (largest placeable <= gpus/n) */
	uint32_t nodes;          /* 0: ceil(gpus / offer's gpus) */
	uint32_t zero;
	espl_money max_price_hour; /* 0: none */
};
#define ESPL_PLAN_OPTIMAL 0x1u /* proven; else gap says how far off at most */
#define ESPL_PLAN_EFFORT 0x2u  /* effort is set; since minor 2 */
struct espl_plan {
	uint32_t size;
	uint32_t flags;       /* ESPL_PLAN_* */
	uint32_t stage_count; /* every stage of every bracket, once */
	uint32_t zero;
	const struct espl_plan_stage *const *stages; /* [stage_count] */
	double gap;                                  /* relative to a proven bound; NaN unknown */
	uint64_t searched;                           /* plans looked at, for `plan --json` */
	/* steps of work that the search took; the journal has them */
	uint64_t effort;
};

/* ---- experiment: what policies know of it ----------------------------------------------- */

/* where a bracket of a spec stands */
struct espl_standing {
	uint32_t size;
	uint32_t bracket, stage; /* of the spec: the stage that runs; with a plan in force its
				  * stage_count when its last barrier has passed */
	uint32_t trials_left;    /* of this stage, not yet at its end */
	espl_time stage_started; /* when it was begun; NEVER: not yet */
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
	const char *const *metrics;   /* [0] is the objective; others as first reported */
	uint32_t metric_count;        /* may grow */
	uint32_t gpus_limit;          /* at most this many at once; ESPL_ANY: no limit */
	espl_time arrived;            /* when it was submitted */
	espl_time deadline;           /* an instant; NEVER: none */
	espl_money budget;            /* INT64_MAX: none */
	espl_money spent;             /* so far, its share of the ledger; at most 1 s old */
	double risk;                  /* meet the deadline with this probability (docs/cli.md) */
	double weight;                /* priority among experiments, 1 normal */
	double data_gb;               /* that each new node downloads */
	const struct espl_spec *spec; /* NULL: the algorithm declares none */
	const struct espl_plan *plan; /* the accepted one; NULL none */
	const struct espl_standing *const *standing; /* one per bracket that runs */
	uint32_t standing_count;
	uint32_t zero;
	uint32_t gpus_min, gpus_max; /* of one trial (trial.gpus_min, trial.gpus_max) */
};

/* ---- predictions ------------------------------------------------------------------------- */

typedef uint32_t espl_evidence;
enum { ESPL_GUESSED = 1, ESPL_PROFILED, ESPL_MEASURED_LIKE, ESPL_MEASURED }; /* rising */

struct espl_speed_query {
	uint32_t size;
	uint32_t offer;          /* ESPL_ANY: the profile's own hardware */
	uint64_t experiment;     /* its id */
	uint64_t trial;          /* ESPL_NONE: a typical trial of it */
	struct espl_share share; /* on which it would run */
};
/* caller-owned, size set by the caller */
struct espl_speed {
	uint32_t size;
	espl_evidence evidence; /* MEASURED: this trial here; LIKE: other trials here */
	double iteration_s;     /* mean seconds of one iteration */
	double sd_s;            /* of one iteration; 0 if it is not known */
	uint64_t samples;       /* iterations that were measured for it */
};
/* caller-owned, size set by the caller; means, seconds */
struct espl_overheads {
	uint32_t size, zero;
	double start_s;           /* from the decision until a trial trains */
	double save_s, restore_s; /* of a checkpoint */
	double resize_s;          /* pause of a change of width (Fluid 4.3: epsilon) */
	double sync_s;            /* a stage's barrier (RubberBand 4.2: SYNC) */
	double boundary_s;        /* expected wait for the next iteration boundary */
	double save_every_s;      /* a running trial saves that often (trial.checkpoint_every); 0:
				   * only when it leaves; since minor 2 */
};

#define ESPL_FROM_NOW 0x1u /* only what is left: nodes held, work done, money spent count */
#define ESPL_AFRESH \
	0x2u /* predict: by other samples than `stage` and other predictions.  The \
	      * plan that looks best of many by some samples was lucky with them, so \
	      * reports and limits use these.  No difference without randomness */
struct espl_stage_query {
	uint32_t size;
	uint32_t flags;              /* ESPL_FROM_NOW or 0 */
	uint64_t experiment;         /* its id */
	uint32_t bracket, stage;     /* of its spec */
	uint32_t offer;              /* number; ESPL_ANY: the profile's own hardware */
	uint32_t gpus_from, gpus_to; /* inclusive; one cell each */
	uint32_t zero;
};
#define ESPL_CELL_INVALID 0x1u /* not placeable on this offer */
#define ESPL_CELL_BEGUN \
	0x2u /* the stage has begun (ESPL_FROM_NOW) and stays like this: the rest of it, \
	      * however its trials began.  All other cells of it are INVALID */
/* INVALID too: not computed, as there are too many random ones; since minor 2 */
#define ESPL_CELL_SKIPPED 0x4u
/* frozen, 40 bytes */
struct espl_cell {
	double mean_s, sd_s;     /* starts + training + queueing + sync; no scaling-up */
	double busy_gpu_s;       /* for billing by function */
	uint32_t nodes;          /* that the stage holds */
	uint32_t gpus_per_trial; /* the largest placeable share */
	uint32_t slots;          /* trials that train at once */
	uint32_t flags;          /* ESPL_CELL_* */
};
/* how to predict */
struct espl_predict {
	uint32_t size;
	uint32_t flags;      /* ESPL_FROM_NOW, ESPL_AFRESH */
	uint64_t experiment; /* its id */
	double quantile;     /* in (0, 1): of the at_quantile fields; 0: means only */
	uint32_t samples;    /* 0: the stage sum, exact in the mean; else Monte Carlo */
	uint32_t zero;
	double *stage_ends_s; /* plan's stage_count elements, or NULL */
	double *stage_asks_s; /* likewise: seconds after a stage's trials start, when
			       * the next one's nodes are asked for */
};
/* caller-owned */
struct espl_prediction {
	uint32_t size;
	uint32_t meets;               /* 1: deadline and budget hold at the experiment's risk */
	double jct_s, jct_sd_s;       /* job completion time: from the start to the last end */
	double jct_at_quantile_s;     /* NaN unless asked for */
	double cost_usd, cost_sd_usd; /* whole bill: leases, minimum charges, data */
	double cost_at_quantile_usd;  /* NaN unless asked for */
};

/* service ESPL_MODEL (RubberBand 4.2) */
struct espl_model {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* SpotTune's M[inst][hp], HyperSched's resize test, PBT's nothing.  E_UNKNOWN: neither
	 * measured nor profiled (Fluid: then neither pack nor scale). */
	espl_status (*speed)(const struct espl_model *, const struct espl_speed_query *,
	    struct espl_speed *);
	/* E_UNKNOWN: no such experiment or offer. */
	espl_status (*overheads)(const struct espl_model *, uint64_t experiment, uint32_t offer,
	    struct espl_overheads *);
	/* Cells for gpus_from..gpus_to at once: the table on which a dynamic program runs
	 * (docs/model.md).  Scaling-up (provision, init, data) between stages is the
	 * planner's to add, from the offer.  cells: the caller's, gpus_to - gpus_from + 1 of
	 * them.  E_UNKNOWN: no such stage; E_UNSUPPORTED: this host has no stage tables. */
	espl_status (*stage)(const struct espl_model *, const struct espl_stage_query *,
	    struct espl_cell *cells);
	/* Whole plan with scaling-up, minimum charges, data, refunds: the reference for plans.
	 * error may be NULL.  E_CONFIG: the plan leaves out a stage or names an unknown one;
	 * E_INFEASIBLE: a stage cannot be placed; E_UNSUPPORTED: this host predicts nothing. */
	espl_status (*predict)(const struct espl_model *, const struct espl_plan *,
	    const struct espl_predict *, struct espl_prediction *, struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
