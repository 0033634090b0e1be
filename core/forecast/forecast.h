/* forecast.h - the execution model: what a plan will take and cost, before it runs.
 *
 * RubberBand (EuroSys'21) 4.1 and 4.2, with the semantics of docs/model.md, which the executor
 * keeps to: both must agree.  Pure: the answers follow from the setup alone.  One table of
 * sampled latencies (common random numbers) serves all plans, so plans are compared by the same
 * ruler and the mean of a plan is exactly the sum of its stages' means.
 */
#ifndef ESPL__FORECAST_H
#define ESPL__FORECAST_H
#include <espalier/model.h>
#include "base/diag.h"
#include "base/mem.h"
#include "model/profile.h"

/* a node that is held when the forecast begins */
struct espl__forecast_node {
	uint32_t offer;
	/* 1 + the bracket that owns it; 0: the first that takes it */
	uint32_t own;
	double billed_s; /* how long it has been billed already; below 0: billing
			  * begins only now */
};
/* everything outlives the forecast */
struct espl__forecast_setup {
	const struct espl_spec *spec;
	const struct espl__profile *profile;
	const struct espl_offer *const *offers; /* [number] */
	uint32_t offer_count;
	uint32_t gpus_min, gpus_max;     /* of a trial; gpus_max ESPL_ANY: no limit */
	const struct espl_latency *sync; /* of a stage's barrier; NULL: none */
	double data_gb;                  /* that each new node downloads */
	double speed;                    /* measured seconds of an iteration / the profile's; 1 */
	double deadline_s;               /* from the forecast's start; INFINITY: none */
	double budget_usd;               /* left at the forecast's start; INFINITY: none */
	/* 0.5: limits hold on the mean; else with this probability */
	double risk;
	uint64_t seed;
	uint32_t samples;    /* of a random latency, rounded up to a power of two, at
			      * most 2^20; a stage whose trials times samples would
			      * exceed 2^20 gets fewer, but at least 8; constant
			      * latencies need one */
	uint8_t colocate;    /* trial.colocate */
	double save_every_s; /* trial.checkpoint_every; 0: only when a trial leaves */
	/* trial.checkpoint: promoted trials resume where they paused */
	uint8_t checkpoint;
	/* planning.queue = "chain": trial k follows trial k - slots */
	uint8_t chain;
	uint8_t warm, ahead; /* planning.warm, planning.acquire_ahead */
	uint8_t idle;        /* planning.release = "idle" */
	uint8_t zero[2];
	/* A run in progress (re-planning): NULL for one that has yet to begin. */
	const uint32_t *next_stage; /* [bracket]: the first stage that has not begun; a past one
				     * costs nothing, takes no time and may be left out of a
				     * plan; the stage just before tells which gangs are warm */
	/* NULL, or for each bracket how long that stage's trials have trained, below 0: not at all.
	 * A stage that has begun stays as `plan` has it: the rest of it is predicted. */
	const double *past_s;
	const struct espl_plan *plan;
	const struct espl__forecast_node *held; /* oldest first; what they cost already is spent:
						 * spent + forecast is the final bill */
	uint32_t held_count;
};

struct espl__forecast;
/* ESPL_E_CONFIG: a latency or price that no plan can have (negative, NaN). */
espl_status espl__forecast_new(const struct espl__forecast_setup *, struct espl__forecast **,
    struct espl__diag *);
void espl__forecast_free(struct espl__forecast *);
/* Are all latencies constant?  Then every answer is exact. */
int espl__forecast_exact(const struct espl__forecast *);

/* One cell for each of gpus_from..gpus_to (model.h: espl_cell), cold: trials start, restore and
 * save. One that cannot be placed has INFINITY for its times.  ESPL_E_UNKNOWN: no such stage or
 * offer. */
espl_status espl__forecast_cells(struct espl__forecast *, uint32_t bracket, uint32_t stage,
    uint32_t offer, uint32_t gpus_from, uint32_t gpus_to, struct espl_cell *cells);

/* of a plan, in the plan's order */
struct espl__forecast_stage {
	uint32_t bracket, stage, offer;
	uint32_t gpus, gpus_per_trial, nodes, slots;
	uint8_t warm; /* trials continue in the gangs of the previous stage */
	/* means; starts with its scaling-up, ends after its barrier */
	double starts_s, ends_s;
	double asks_s;   /* after its training began the nodes of the next stage are
			  * asked for (planning.acquire_ahead), unless it ends before;
			  * where that is not ahead: its mean length, with the barrier */
	double cost_usd; /* of the time between, and the data of its new nodes */
};
struct espl__spread {
	double mean, sd, p95;
};
struct espl__forecast_result {
	struct espl__spread jct_s, cost_usd;
	double data_usd;                                /* part of the mean cost */
	double jct_at_quantile_s, cost_at_quantile_usd; /* NaN unless asked for */
	int meets; /* deadline and budget, at the setup's risk */
	uint32_t stage_count;
	uint32_t graph_nodes; /* of the DAG that was sampled; 0: from the tables */
};
/* quantile: 0 or in (0, 1).  samples 0: from the tables; else that many critical paths of the
 * plan's DAG are sampled afresh (Algorithm 1), at most 2^24.  stages: NULL, or room for the plan's
 * stage_count; stages that have ended keep zeros.  diag may be NULL.  ESPL_E_CONFIG: the plan
 * leaves out a stage, has it twice, or names an unknown one; ESPL_E_INFEASIBLE: a stage cannot be
 * placed; ESPL_E_LIMIT: a DAG of more than 2^24 nodes. */
espl_status espl__forecast_plan(struct espl__forecast *, const struct espl_plan *, double quantile,
    uint32_t samples, struct espl__forecast_result *, struct espl__forecast_stage *stages,
    struct espl__diag *);

/* Do the trials of this stage continue in the gangs of the previous one?  Shared with the executor,
 * which keeps them then.  `before` and `after`: resolved stages (gpus_per_trial, nodes and slots).
 */
int espl__plan_goes_on(const struct espl__forecast_stage *before, uint32_t trials_before,
    const struct espl__forecast_stage *after, uint32_t trials_after);
/* How a stage of `trials` trials is laid out on `gpus` GPUs: gpus, gpus_per_trial, nodes and slots
 * of the stage.  gpus_per_trial and nodes 0: chosen by the rule of docs/model.md; else they are
 * kept. 0, or -1: it cannot be placed, or takes more nodes than the offer has or 2^20. */
int espl__plan_layout(const struct espl_offer *, uint32_t trials, uint32_t gpus, uint32_t gpus_min,
    uint32_t gpus_max, int colocate, struct espl__forecast_stage *);
#endif
