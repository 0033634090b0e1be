/* planner.h - the interface of libplanner.la, which the planning allocators link: a problem, a plan
 * under construction, the planners, and a planner as a plugin. */
#ifndef PLANNER_H
#define PLANNER_H
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/allocator.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/follow.h>
#include <espalier/kit/roster.h>
#include <espalier/model.h>
#include <espalier/util.h>

#define PLANNER_NONE UINT32_MAX
/* Default number of work steps for a plan: less than 2 s. A re-plan of a live run gets this
 * fraction of them, because its driver has other work to do. */
#define PLANNER_EFFORT 100000000
#define PLANNER_LIVE_EFFORT 20
/* Sums of the same seconds or dollars in a different order differ by less than this fraction. */
#define PLANNER_NOISE 1e-10
/* A limit counts as kept if it is exceeded by less than this fraction: slightly less than the model
 * allows. */
#define PLANNER_CLOSE 0.9e-9

/* ---- problem --------------------------------------------------------------------------------- */

/* The space in which a plan is searched: one offer, one row of stages, as tables.
 *
 * The tables are read from the execution model once. The search is then arithmetic on them, which
 * agrees with the model wherever latencies are constant. The stages are those of a whole search, or
 * the remaining ones of a running search with the nodes held at its start.
 */

/* a node that is there already */
struct planner_held {
	uint32_t offer;
	/* 1 + the bracket that owns it; 0: the first bracket that uses it will own it */
	uint32_t own;
	double billed_s; /* for so long */
};
/* The work of a plan, counted in steps that take about equally long. No clock is read, so that a
 * replay arrives at the same plan. */
struct planner_effort {
	uint64_t spent, most;
};

/* a planner's input; all of it outlives the search */
struct planner_task {
	const struct espl_model *model;
	const struct espl_experiment *experiment;
	const struct espl_offer *const *offers; /* [number] */
	uint32_t offer_count;
	uint32_t gpus_max;             /* of the whole cluster; ESPL_ANY: no limit */
	double deadline_s, budget_usd; /* from now on; INFINITY: none */
	struct planner_effort *effort;
	/* Only the remaining stages (ESPL_FROM_NOW), else 0, NULL and 0. */
	uint32_t flags;
	uint32_t held_count;
	const uint32_t *next_stage;      /* [bracket]: the first one to plan */
	const struct planner_held *held; /* oldest first */
	/* the current plan: its rows for earlier stages are kept; may be NULL */
	const struct espl_plan *plan;
};

/* of continuing in the gangs of the stage before */
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
	uint32_t held_count, losses; /* losses: continuing in gangs may cost more than it saves */
	/* seconds they are billed for, those of this offer, oldest first */
	double *held;
	struct planner_lease *leases; /* scratch: [stage_count + held_count + 1] */
};

/* Most GPUs that a stage may have of this offer. */
uint32_t planner_ceiling(const struct planner_task *, const struct espl_offer *);
/* bracket: one of several that run side by side; ESPL_ANY: all of them, in sequence. limit: from
 * planner_ceiling, or less. ESPL_E_NOMEM; an error of the model; ESPL_E_INFEASIBLE: a stage cannot
 * be placed. */
espl_status planner_problem_load(struct planner_problem *, const struct planner_task *,
    uint32_t offer, uint32_t bracket, uint32_t limit);
void planner_problem_free(struct planner_problem *);

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

/* Seconds that are charged for a lease of this many: the ledger's rule, which counts whole
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

/* Do the trials of `stage` continue in the gangs of the previous stage? */
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

/* ---- value ----------------------------------------------------------------------------------- */

/* The time and cost of an allocation: the execution model's arithmetic, without its samples
 * (docs/model.md). */

struct planner_value {
	double time_s, cost_usd;
};

/* gpus: of each stage, 1..limit.  0: a stage cannot be placed. */
int planner_evaluate(const struct planner_problem *, const uint32_t *gpus, struct planner_value *);
/* The cost of releasing the oldest `nodes` of the leases at *first at an instant; removes the
 * released leases. Only for offers billed by node. */
double planner_release(const struct planner_problem *, struct planner_lease *leases,
    uint32_t *first, uint32_t nodes, double at_s);

/* Cheaper; or as cheap, and sooner. */
static inline int
planner_better(const struct planner_value *a, const struct planner_value *b)
{
	double noise = planner_noise(b->cost_usd);

	if (a->cost_usd < b->cost_usd - noise)
		return 1;
	return a->cost_usd <= b->cost_usd + noise && a->time_s < b->time_s * (1 - PLANNER_NOISE);
}

/* ---- draft ----------------------------------------------------------------------------------- */

/* A plan under construction: a row for each stage. Rows of completed stages are kept unchanged. */

struct planner_draft {
	struct espl_plan plan;
	struct espl_plan_stage *rows;
	const struct espl_plan_stage **list;
	uint32_t past, zero; /* rows at the beginning that are over */
};

/* Makes rows for all brackets from next_stage on (NULL: all), after the rows that `plan` (may be
 * NULL) has for earlier stages. ESPL_E_NOMEM. */
espl_status planner_draft_make(struct planner_draft *, const struct espl_spec *,
    const uint32_t *next_stage, const struct espl_plan *plan);
void planner_draft_free(struct planner_draft *);
/* The same in all rows to come. */
void planner_draft_fill(struct planner_draft *, uint32_t offer, uint32_t gpus);
/* The rows of the problem's stages. */
void planner_draft_put(struct planner_draft *, const struct planner_problem *,
    const uint32_t *gpus);
/* Both are of the same task. */
void planner_draft_copy(struct planner_draft *, const struct planner_draft *from);

/* ---- drive ----------------------------------------------------------------------------------- */

/* Turns a task into a plan: offers, brackets, deadline, budget and risk.
 *
 * A planner finds the cheapest allocation within a deadline, for one offer and one row of stages.
 * Everything else is common to all planners and happens here: every offer is tried, each of several
 * brackets that run side by side is planned separately, a budget is turned into the earliest
 * deadline that it pays for, and the model checks the result.
 */

struct planner_answer {
	uint32_t *gpus; /* [stage_count], the caller's */
	struct planner_value value;
	double bound_usd; /* no plan within the deadline costs less; NaN: nothing is proven */
	double least_s;   /* of any plan; always told */
	uint64_t looked;  /* plans */
};
/* The cheapest plan within deadline_s (INFINITY: none), the fastest of equals. ESPL_E_NOMEM;
 * ESPL_E_INFEASIBLE: there is none. */
typedef espl_status (*planner_solve)(void *ctx, struct planner_problem *, double deadline_s,
    struct planner_answer *);

struct planner_result {
	struct planner_draft draft;
	struct espl_prediction predicted; /* afresh */
	double searched_usd;              /* by the samples by which it was found */
	double least_s, least_usd;        /* if no plan meets the limits: those that would be
					   * feasible; NaN unknown */
	uint64_t looked;
	uint32_t known, zero; /* 1: the draft is a plan that meets all limits */
};

/* offer: number, or ESPL_ANY for the best of all. ESPL_E_INFEASIBLE: see least_s and least_usd.
 * ESPL_E_UNSUPPORTED: there are no predictions. Free the draft in any case. */
espl_status planner_find(const struct planner_task *, uint32_t offer, planner_solve, void *ctx,
    struct planner_result *, struct espl_error *);
/* The `plan` entry of an allocator. offer_name: NULL none; offer_option: the option to blame.
 * gpus_max: 0 none. steps: maximum number of work steps. */
espl_status planner_offline(const struct espl_host *, const struct espl_plan_view *,
    struct espl_plan_sink *, const char *offer_name, uint32_t offer_option, uint32_t gpus_max,
    uint64_t steps, planner_solve, void *ctx, struct espl_error *);

/* ---- exact ----------------------------------------------------------------------------------- */

/* The cheapest plan within a deadline, proven. */

struct planner_exact {
	uint32_t fair, zero; /* fair: only factors and multiples of a stage's trials */
};

/* A planner_solve; ctx: struct planner_exact. */
espl_status planner_exact_solve(void *ctx, struct planner_problem *, double deadline_s,
    struct planner_answer *);

/* ---- greedy ---------------------------------------------------------------------------------- */

/* RubberBand's planner (EuroSys'21, Algorithm 2), as printed and repaired.
 *
 * It begins with the best cluster of a single size and removes GPUs from one stage after another,
 * always where the most money is saved per additional second. As printed, it removes the fewest
 * GPUs such that the number left is a factor or a multiple of the stage's trials, and stops when
 * the best step is too slow. With whole-node prices that happens almost immediately, because
 * removing one GPU rarely frees a node. The repaired version considers steps to fewer nodes, near
 * and far, skips steps that are too slow, also begins with two and three times the size, and ends
 * with small changes up and down.
 */

struct planner_greedy {
	uint32_t literal;
	uint32_t starts; /* 1: the best size; 2: also twice that size; ... */
};

/* A planner_solve; ctx: struct planner_greedy. */
espl_status planner_greedy_solve(void *ctx, struct planner_problem *, double deadline_s,
    struct planner_answer *);

/* ---- instance -------------------------------------------------------------------------------- */

/* What all planners have in common as plugins: two options, and following the plan. */

/* The first two options of every planner. */
enum { PLANNER_GPUS_MAX, PLANNER_OFFER, PLANNER_OWN };
/* clang-format off */
#define PLANNER_OPTIONS \
	{ .name = "gpus_max", .help = "maximum number of GPUs of the cluster; 0: the limit of " \
	  "the cloud", \
	  .type = ESPL_OPT_INT, .fallback = "0", .min = "0", .max = "1000000" }, \
	{ .name = "offer", .help = "name of the cloud offer to lease; default: the best one", \
	  .type = ESPL_OPT_STRING }
/* clang-format on */

#define PLANNER_MAGIC 0x706c616eu

struct planner_instance {
	uint32_t magic; /* PLANNER_MAGIC */
	const struct espl_host *host;
	const char *offer_name;
	uint32_t gpus_max;
	uint32_t offer;  /* the offer used without a plan; ESPL_ANY: not chosen yet */
	uint64_t effort; /* steps of work of a plan before the run */
	struct espl_follow follow;
};

void planner_instance_init(struct planner_instance *, const struct espl_host *,
    const struct espl_config *);
/* The allocator's entries `allocate` and `plan`. */
espl_status planner_instance_allocate(struct planner_instance *, const struct espl_alloc_view *,
    struct espl_alloc_sink *, planner_solve, void *ctx, struct espl_error *);
espl_status planner_instance_plan(struct planner_instance *, const struct espl_plan_view *,
    struct espl_plan_sink *, planner_solve, void *ctx, struct espl_error *);

#endif
