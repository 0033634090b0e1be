/* allocator_milp.c - Hu et al.'s optimal allocator: the greatest progress of all jobs over a
 * horizon of steps, of which the first is carried out.
 *
 * policy = "paper" decides every period, between which idle GPUs go to those that wait, and takes
 * the printed objective; "improved" adds what turned out better, each part with a switch of its own
 * (docs/milp.md).
 */
#include <math.h>
#include <string.h>
#include "milp_jobs.h"
#include <espalier/kit/assert.h>
#include "../pool.h"

enum {
	GPUS,
	OFFER,
	ENGINE,
	POLICY,
	PERIOD,
	STEPS,
	EVENTS,
	KEEP,
	FILL,
	FLOOR,
	BETA,
	DELAY,
	SLOWDOWN,
	POOR,
	DOUBLING,
	EFFORT,
	GAP,
	WEIGHTS,
	LEVEL,
	TAIL,
	STEP,
	PREEMPT
};
enum { EXACT, MARGINAL, EQUAL };

static const struct espl_option options[] = {
	POOL_OPTIONS("jobs"),
	{ .name = "engine",
	    .help = "exact: the optimal plan, proven; marginal: the heuristic; equal: equal shares "
		    "without a plan",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "exact|marginal|equal",
	    .fallback = "exact" },
	{ .name = "policy",
	    .help = "paper: as published; improved: with the defaults marked below",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "improved|paper",
	    .fallback = "improved" },
	{ .name = "period",
	    .help = "time between two decisions",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "1s",
	    .max = "7d" },
	{ .name = "steps",
	    .help = "number of steps in the horizon",
	    .type = ESPL_OPT_INT,
	    .fallback = "5",
	    .min = "1",
	    .max = "8" },
	{ .name = "events",
	    .help = "also decide whenever a job or node arrives or leaves; improved: true, paper: "
		    "false",
	    .type = ESPL_OPT_BOOL },
	{ .name = "keep",
	    .help = "keep the number of GPUs of a job if the objective hardly changes; improved: "
		    "true, paper: false",
	    .type = ESPL_OPT_BOOL },
	{ .name = "fill",
	    .help = "give idle GPUs to the jobs that gain most; improved: true, paper: false",
	    .type = ESPL_OPT_BOOL },
	{ .name = "floor",
	    .help = "lower bound of a running job's remaining work, as a fraction of its estimate; "
		    "improved: 0.1, paper: 0",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .max = "1" },
	{ .name = "beta",
	    .help =
		"exponent of demand in progress = served work / demand^x; improved: 0.5, paper: 1",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .max = "1" },
	{ .name = "delay",
	    .help = "include the pause of a resize in the first step; improved: true, paper: false",
	    .type = ESPL_OPT_BOOL },
	{ .name = "slowdown",
	    .help = "raise the weight of jobs slowed down by more than this factor in proportion "
		    "to the slowdown; 0: never; improved: 10, paper: 0",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .max = "1e9" },
	{ .name = "poor",
	    .help = "use equal shares if more than this fraction of the jobs has no estimate or "
		    "has exceeded it; 0: never; improved: 0.3, paper: 0",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .max = "1" },
	{ .name = "doubling",
	    .help = "scaling efficiency each time a job's GPUs are doubled, if there is no profile",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.8",
	    .min = "0.51",
	    .max = "1" },
	{ .name = "effort",
	    .help = "maximum number of steps of the exact engine per decision (a million take less "
		    "than 0.1 s); at the limit, the answer reports its distance from the optimum",
	    .type = ESPL_OPT_INT,
	    .fallback = "1000000",
	    .min = "1",
	    .max = "1000000000" },
	{ .name = "gap",
	    .help = "relative optimality gap at which the search stops",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1",
	    .flags = ESPL_OPT_EXPERIMENTAL },
	{ .name = "weights",
	    .help = "weight of a job's progress; rank: the number of jobs that wait for it; size: "
		    "its share of the demand; improved: rank, paper: size",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "rank|size" },
	{ .name = "level",
	    .help = "constant added to all weights by rank, for more equal shares",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.4",
	    .min = "0",
	    .max = "1e6" },
	{ .name = "tail",
	    .help = "minimum weight by rank of the job with the most remaining time; for other "
		    "jobs in proportion to its square",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.72",
	    .min = "0",
	    .max = "1e6" },
	{ .name = "step",
	    .help = "length of a step in the horizon; improved: 1m, paper: the period",
	    .type = ESPL_OPT_SPAN,
	    .min = "1s",
	    .max = "7d" },
	{ .name = "preempt",
	    .help = "if not all jobs fit, run those with the least remaining work and preempt the "
		    "others; improved: true, paper: false",
	    .type = ESPL_OPT_BOOL },
};

#define MILP_MAGIC 0x4df53bc6u

struct milp {
	uint32_t magic; /* MILP_MAGIC */
	const struct espl_host *host;
	const char *offer_name;
	uint32_t gpus_max, offer; /* offer: ESPL_ANY: not chosen yet */
	uint32_t engine, events, effort;
	double gap;
	espl_span period;
	espl_time next; /* decision by the clock */
	struct milp_rules rules;
	struct milp_case now;
	struct espl_roster roster;
};

static void
destroy(void *self)
{
	struct milp *milp = self;

	ESPL_ASSERT(milp != NULL && milp->magic == MILP_MAGIC);
	milp->magic = 0;
	allocator_milp_case_free(&milp->now);
	espl_roster_free(&milp->roster);
	free(milp);
}

/* A part of the policy: as given, else by the policy. */
static double
policy_part(const struct espl_config *config, uint32_t option, double improved, double paper)
{
	const struct espl_value *value = &config->values[option];

	if (value->source == ESPL_UNSET)
		return config->values[POLICY].as.i == 1 ? paper : improved;
	switch (options[option].type) {
	case ESPL_OPT_REAL: return value->as.r;
	case ESPL_OPT_SPAN: return espl_seconds(value->as.i);
	default: return (double)value->as.i;
	}
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_value *v = config->values;
	struct milp *milp = calloc(1, sizeof *milp);

	if (milp == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	milp->magic = MILP_MAGIC;
	milp->host = host;
	milp->gpus_max = (uint32_t)v[GPUS].as.i;
	if (v[OFFER].source != ESPL_UNSET)
		milp->offer_name = v[OFFER].as.s;
	milp->offer = ESPL_ANY;
	milp->roster.widest = pool_widest;
	milp->engine = (uint32_t)v[ENGINE].as.i;
	milp->events = policy_part(config, EVENTS, 1, 0) > 0;
	milp->effort = (uint32_t)v[EFFORT].as.i;
	milp->gap = v[GAP].as.r;
	milp->period = v[PERIOD].as.i;
	milp->rules = (struct milp_rules){ .period_s = espl_seconds(milp->period),
		.step_s = policy_part(config, STEP, 60, espl_seconds(milp->period)),
		.steps = (uint32_t)v[STEPS].as.i,
		.delay = policy_part(config, DELAY, 1, 0) > 0,
		.keep = policy_part(config, KEEP, 1, 0) > 0,
		.fill = policy_part(config, FILL, 1, 0) > 0,
		.preempt = policy_part(config, PREEMPT, 1, 0) > 0,
		.floor = policy_part(config, FLOOR, 0.1, 0),
		.rank = policy_part(config, WEIGHTS, 0, 1) < 1,
		.beta = policy_part(config, BETA, 0.5, 1),
		.level = v[LEVEL].as.r,
		.tail = v[TAIL].as.r,
		.slowdown = policy_part(config, SLOWDOWN, 10, 0),
		.doubling = v[DOUBLING].as.r,
		.poor = policy_part(config, POOR, 0.3, 0) };
	*self = milp;
	return ESPL_OK;
}

/* ---- the answer --------------------------------------------------------------------------- */

static espl_status
grant_jobs(struct milp *milp, const struct milp_plan *plan, const uint8_t *placed,
    struct espl_alloc_sink *sink)
{
	const struct milp_case *c = &milp->now;
	uint32_t i, t, steps = c->problem.steps, horizon[MILP_STEPS];
	espl_status status = ESPL_OK;

	ESPL_ASSERT(steps > 0 && steps <= MILP_STEPS);
	for (i = 0; i < c->dropped_count && status != ESPL_E_NOMEM; i++)
		status = espl_roster_grant(&milp->roster, sink, c->dropped[i], 0, 1);
	for (i = 0; i < c->problem.job_count && status != ESPL_E_NOMEM; i++) {
		const uint8_t *choice = plan->choice + (size_t)i * steps;
		const struct espl_entry *entry =
		    espl_roster_at(&milp->roster, c->subjects[i].index);

		for (t = 0; t < steps; t++)
			horizon[t] = c->problem.jobs[i].width[choice[t]];
		horizon[0] = placed[i] ? horizon[0] : 0;
		if (entry->gpus != horizon[0] || entry->packing != 1)
			status = espl_roster_grant(&milp->roster, sink, c->subjects[i].index,
			    horizon[0], 1);
		if (status != ESPL_E_NOMEM)
			status = sink->horizon(sink, entry->id, horizon, steps);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

static int
side_by_side(const struct milp_case *c, const struct espl_alloc_view *view)
{
	uint32_t i;

	for (i = 0; i < c->problem.job_count; i++)
		if ((view->items[c->subjects[i].index]->flags & ESPL_ITEM_COLOCATE) != 0)
			return 1;
	return 0;
}

static espl_status
apply_plan(struct milp *milp, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct milp_plan *plan, const char *word)
{
	static const char *const words[] = { "heuristic", "bounded", "optimal" };
	struct milp_case *c = &milp->now;
	uint8_t *placed = malloc(c->problem.job_count + 1u);
	espl_status status;

	ESPL_ASSERT(plan->choice != NULL && plan->status < sizeof words / sizeof words[0]);
	if (placed == NULL)
		return ESPL_E_NOMEM;
	memset(placed, 1, c->problem.job_count);
	if (milp->rules.keep)
		allocator_milp_keep(c, plan);
	if (milp->rules.fill)
		allocator_milp_fill(c, plan);
	if (milp->roster.per_node > 1 && side_by_side(c, view))
		allocator_milp_place(c, plan, milp->roster.per_node, placed);
	plan->value = allocator_milp_value(&c->problem, plan->choice);
	if (plan->bound < plan->value)
		plan->bound = plan->value;
	status = grant_jobs(milp, plan, placed, sink);
	free(placed);
	if (status != ESPL_OK)
		return status;
	if (milp->host->verbose && c->dropped_count > 0)
		milp->host->note(milp->host, ESPL_ABOUT_RUN, 0,
		    "there are too few GPUs for all jobs; preempting some running ones");
	(void)sink->objective(sink, plan->value, isinf(plan->bound) ? NAN : plan->bound,
	    word != NULL ? word : words[plan->status]);
	return ESPL_OK;
}

/* Between decisions: idle GPUs to those that wait, in order of arrival, as many as they can take.
 */
static espl_status
serve_queue(struct milp *milp, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t total)
{
	struct espl_roster *roster = &milp->roster;
	uint64_t used = espl_roster_used(roster);
	uint32_t i = espl_roster_waiting(roster, 0), width[POOL_WIDTHS], count;
	espl_status status = ESPL_OK;

	for (; i < roster->count && used < total && status != ESPL_E_NOMEM;
	     i = espl_roster_waiting(roster, i + 1)) {
		count =
		    pool_widths(view->items[i], roster->per_node, total - (uint32_t)used, width);
		if (count > 0) {
			status = espl_roster_grant(roster, sink, i, width[count - 1], 1);
			used = espl_roster_used(roster);
		} else if (pool_widths(view->items[i], roster->per_node, total, width) > 0) {
			break; /* its turn comes: nobody overtakes it */
		}
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* The case of now and the heuristic's plan for it, bounded. */
static espl_status
prepare_case(struct milp *milp, const struct espl_alloc_view *view, uint32_t total,
    struct milp_plan *plan)
{
	espl_status status =
	    allocator_milp_case(&milp->now, view, &milp->roster, &milp->rules, total);

	plan->choice = NULL;
	if (status != ESPL_OK || !allocator_milp_plan_init(plan, &milp->now.problem))
		return ESPL_E_NOMEM;
	if (milp->engine == EQUAL)
		return ESPL_OK;
	if (!allocator_milp_marginal(&milp->now.problem, plan) ||
	    (milp->engine != EXACT &&
		!allocator_milp_exact(&milp->now.problem, 0, milp->gap, plan)))
		return ESPL_E_NOMEM;
	return ESPL_OK;
}

static espl_status
decide_plan(struct milp *milp, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t total)
{
	const struct milp_case *c = &milp->now;
	struct milp_plan plan;
	espl_status status = prepare_case(milp, view, total, &plan);
	const char *word = NULL;

	if (status == ESPL_OK &&
	    (milp->engine == EQUAL ||
		(milp->rules.poor > 0 && c->without > milp->rules.poor * c->problem.job_count))) {
		allocator_milp_equal(c, &plan);
		word = "equal";
	} else if (status == ESPL_OK && milp->engine == EXACT) {
		status = allocator_milp_exact(&c->problem, milp->effort, milp->gap, &plan)
		    ? ESPL_OK
		    : ESPL_E_NOMEM;
	}
	if (status == ESPL_OK)
		status = apply_plan(milp, view, sink, &plan, word);
	allocator_milp_plan_free(&plan);
	return status;
}

/* Decides if this round is one for it; otherwise only serves those that wait. */
static espl_status
act_in_round(struct milp *milp, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t total)
{
	const uint32_t changes =
	    ESPL_WHY_ARRIVAL | ESPL_WHY_DEPARTURE | ESPL_WHY_NODES | ESPL_WHY_NOTICE;
	int due = view->now >= milp->next || espl_roster_used(&milp->roster) > total ||
	    (milp->events && (view->why & changes) != 0);

	ESPL_ASSERT(milp->period > 0);
	if (view->now >= milp->next)
		milp->next = (view->now / milp->period + 1) * milp->period;
	return due ? decide_plan(milp, view, sink, total) : serve_queue(milp, view, sink, total);
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct milp *milp = self;
	espl_status status;
	uint64_t limit, aimed;

	ESPL_ASSERT(milp != NULL && milp->magic == MILP_MAGIC);
	if (!pool_begin(view, &(struct pool_wish){ milp->offer_name, OFFER, milp->gpus_max, GPUS },
		&milp->offer, &milp->roster, &limit, &status, error))
		return status;
	aimed = pool_useful(&milp->roster, limit);
	status = pool_aim(view, sink, milp->offer, limit, &aimed, error);
	if (status == ESPL_OK)
		status = act_in_round(milp, view, sink, pool_total(view, milp->offer, aimed));
	if (status == ESPL_OK && milp->roster.granted > 0)
		status = sink->wake_at(sink, milp->next);
	return status == ESPL_E_NOMEM ? espl_fail(error, status, "out of memory") : status;
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, milp) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "milp"),
	.version = "0.1",
	.summary =
	    "maximize the progress of all jobs over a horizon, with a proven plan (Hu et al.)",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
