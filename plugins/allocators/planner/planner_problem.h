/* planner_problem.h - what a plan is searched in: one offer, one row of stages, as tables.
 *
 * The tables are pulled from the execution model once; the search is then arithmetic on them,
 * which comes to the model's figures wherever latencies are constant.  The stages are those of a
 * whole search or what is left of one that runs, with nodes held at its start.
 */
#ifndef PLANNER_PROBLEM_H
#define PLANNER_PROBLEM_H
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/model.h>
#include <espalier/util.h>
#include "planner.h"

/* a node that is there already */
struct planner_held {
	uint32_t offer;
	/* 1 + the bracket whose own it is; 0: whose takes it first */
	uint32_t own;
	double billed_s; /* for so long */
};
/* The work of a plan, counted in steps that take about as long as one another: no clock is looked
 * at, so that a replay comes to the same plan. */
struct planner_effort {
	uint64_t spent, most;
};

/* what is asked of a planner; all outlives the search */
struct planner_task {
	const struct espl_model *model;
	const struct espl_experiment *experiment;
	const struct espl_offer *const *offers; /* [number] */
	uint32_t offer_count;
	uint32_t gpus_max;             /* of the whole cluster; ESPL_ANY: no limit */
	double deadline_s, budget_usd; /* from now on; INFINITY: none */
	struct planner_effort *effort;
	/* Only what is left (ESPL_FROM_NOW), else 0, NULL and 0. */
	uint32_t flags;
	uint32_t held_count;
	const uint32_t *next_stage;      /* [bracket]: the first one to plan */
	const struct planner_held *held; /* oldest first */
	/* in force: what it says of stages before those stays; may be NULL */
	const struct espl_plan *plan;
};

/* of going on in the gangs of the stage before */
struct planner_gain {
	uint32_t gpus_per_trial, zero;
	double leave_s, enter_s; /* that the stage before and this one save */
	double usd;              /* likewise, if GPU-seconds are billed; may be a loss */
};
struct planner_stage {
	uint32_t bracket, stage, trials;
	uint32_t trials_before;     /* of the stage from which they come; 0: they begin here */
	struct espl_cell *cells;    /* [gpus - 1] */
	struct planner_gain *gains; /* by gpus_per_trial */
	uint32_t gain_count, zero;
};
struct planner_lease {
	uint32_t nodes, zero;
	double from_s;
}; /* that are billed from then on */

struct planner_problem {
	const struct planner_task *task;
	const struct espl_offer *offer;
	uint32_t number; /* of the offer */
	uint32_t limit;  /* GPUs of a stage */
	uint32_t stage_count;
	uint32_t by_function, warm, ahead;
	uint32_t constant; /* no latency is random, and nodes stay to the end of their stage */
	uint32_t idle;     /* planning.release = "idle" */
	uint32_t skipped;  /* 1: not all allocations were looked at */
	uint32_t sold;     /* 0: only what is held can be had */
	struct planner_stage *stages;
	double node_usd_s, gpu_usd_s; /* price; one of them is 0 */
	double data_usd;              /* of a new node */
	double minimum_s, step_ns;    /* 0: none */
	/* New nodes: from the request until all are ready, and how much of it is billed. */
	/* [new - 1]; one element where the number does not matter */
	double *lead_s, *billed_s;
	uint32_t lead_count;
	struct espl_cell before;     /* layout of the stage before the first; INVALID: none */
	uint32_t held_count, losses; /* losses: going on in gangs may cost more than it saves */
	/* seconds they are billed for, those of this offer, oldest first */
	double *held;
	struct planner_lease *leases; /* scratch: [stage_count + held_count + 1] */
};

/* Most GPUs that a stage may have of this offer. */
uint32_t planner_ceiling(const struct planner_task *, const struct espl_offer *);
/* bracket: one of several side by side; ESPL_ANY: all, in sequence.  limit: from planner_ceiling,
 * or less.  ESPL_E_NOMEM; what the model answers; ESPL_E_INFEASIBLE: a stage cannot be placed. */
espl_status planner_problem_load(struct planner_problem *, const struct planner_task *,
    uint32_t offer, uint32_t bracket, uint32_t limit);
void planner_problem_free(struct planner_problem *);
/* The model's seconds at which each stage ends with these GPUs. */
espl_status planner_problem_probe(const struct planner_problem *, const uint32_t *gpus,
    double *ends_s);

static inline void
planner_spend(const struct planner_problem *p, uint64_t steps)
{
	p->task->effort->spent += steps;
}

static inline int
planner_is_spent(const struct planner_problem *p)
{
	return p->task->effort->spent >= p->task->effort->most;
}

/* By how much sums of the same dollars may differ. */
static inline double
planner_noise(double usd)
{
	return PLANNER_NOISE * (fabs(usd) + 1.0);
}

static inline const struct espl_cell *
planner_cell(const struct planner_problem *p, uint32_t stage, uint32_t gpus)
{
	return &p->stages[stage].cells[gpus - 1];
}

static inline double
planner_lead(const struct planner_problem *p, uint32_t fresh, double *billed_s)
{
	uint32_t i = fresh <= p->lead_count ? fresh - 1 : p->lead_count - 1;

	*billed_s = p->billed_s[i];
	return p->lead_s[i];
}

/* Seconds that are charged for a lease of so many: the ledger's rule, whose instants are whole
 * nanoseconds. */
static inline double
planner_billable(const struct planner_problem *p, double seconds)
{
	if (seconds < p->minimum_s)
		seconds = p->minimum_s;
	if (p->step_ns > 0)
		seconds = ceil(floor(seconds * 1e9 + 0.5) / p->step_ns) * p->step_ns * 1e-9;
	return seconds;
}

/* Do the trials of `stage` go on in the gangs of the stage before? */
static inline const struct planner_gain *
planner_goes_on(const struct planner_problem *p, uint32_t stage, const struct espl_cell *before,
    const struct espl_cell *after)
{
	const struct planner_stage *s = &p->stages[stage];
	uint32_t i;

	if (!p->warm || s->trials_before < s->trials || before->slots != s->trials_before ||
	    after->slots != s->trials || before->nodes != after->nodes ||
	    before->gpus_per_trial != after->gpus_per_trial ||
	    (stage == 0 && after->nodes > p->held_count))
		return NULL;
	for (i = 0; i < s->gain_count; i++)
		if (s->gains[i].gpus_per_trial == after->gpus_per_trial)
			return &s->gains[i];
	return NULL;
}

#endif
