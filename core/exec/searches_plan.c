/* searches_plan.c - the plan of a run: requested when the offers are known, kept, and enforced at
 * the barriers between stages.
 *
 * With a plan in force a stage is over when the last process of its trials has ended and the
 * barrier's latency has passed. So simulation, real runs and the execution model (docs/model.md)
 * agree.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_tiers.h"
#include "exec/searches_plan.h"

/* ---- where the run stands, for the model -------------------------------------------------- */

static uint32_t
first_to_come(const struct espl__search *of, uint32_t bracket)
{
	const struct espl_standing *s = &of->standing[bracket];
	uint32_t count = of->experiment.spec->brackets[bracket]->stage_count;

	return s->trials_left == 0 && s->stage + 1 >= count ? count : s->stage;
}

/* Brackets side by side are in the middle of a stage when another's is over: for how long has it
 * trained? A stage that begins in this round can still be re-planned. */
static double
trained_s(const struct espl__search *of, uint32_t bracket)
{
	const struct espl__search_pause *pause = &of->pauses[bracket];
	espl_time since = of->standing[bracket].trains_since, now = of->exec->now, until;

	if (since >= now)
		return -1.0;
	until = pause->since < now ? pause->since : now;
	return (double)(until - since - pause->total) / 1e9;
}

static void
stand(void *ctx, struct espl__forecast_setup *setup)
{
	struct espl__search *s = ctx;
	struct espl__exec *x = s->exec;
	uint32_t n = 0;

	ESPL__GROW(s->stand_next, s->stand_next_cap, s->experiment.standing_count + 1);
	ESPL__GROW(s->stand_past, s->stand_past_cap, s->experiment.standing_count + 1);
	for (uint32_t b = 0; b < s->experiment.standing_count; b++) {
		s->stand_next[b] = first_to_come(s, b);
		s->stand_past[b] = trained_s(s, b);
	}
	ESPL__GROW(s->stand_held, s->stand_held_cap, x->fleet.live_count + 1);
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl_node *node = x->fleet.live[i];
		espl_time from = espl__ledger_billed_from(x->ledger, node->id);

		if ((node->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0 ||
		    node->state == ESPL_NODE_NOTICE)
			continue;
		memset(&s->stand_held[n], 0, sizeof s->stand_held[n]);
		s->stand_held[n].offer = node->offer;
		if (node->owner != ESPL_NONE)
			s->stand_held[n].own = (uint32_t)(node->owner & ~ESPL_OWNER_BRACKET) + 1;
		s->stand_held[n].billed_s =
		    from == ESPL_NEVER || from > x->now ? -1.0 : (double)(x->now - from) / 1e9;
		n++;
	}
	setup->next_stage = s->stand_next;
	setup->past_s = s->stand_past;
	setup->plan = s->experiment.plan;
	setup->held = s->stand_held;
	setup->held_count = n;
	if (s->config->deadline != ESPL_NEVER)
		setup->deadline_s = (double)(s->config->deadline - x->now) / 1e9;
	if (s->config->budget != INT64_MAX)
		setup->budget_usd =
		    (double)(s->config->budget - espl__ledger_total(x->ledger, x->now)) / 1e6;
}

/* Not by the samples by which the plan was chosen. */
static uint32_t
afresh_flags(int from_now)
{
	return ESPL_AFRESH | (from_now ? ESPL_FROM_NOW : 0);
}

/* A plan for the whole run must meet deadline and budget; a re-plan must at least not be later than
 * the current plan. */
static espl_status
judge(void *ctx, const struct espl_plan *plan, int from_now, struct espl__diag *why)
{
	struct espl__search *s = ctx;
	struct espl__forecast_result result, before;
	struct espl__forecast *f =
	    espl__model_service_forecast(&s->model, afresh_flags(from_now), why);
	espl_status status;

	if (f == NULL)
		return why->status;
	status = espl__forecast_plan(f, plan, 0, 0, &result, NULL, why);
	if (status != ESPL_OK)
		return ESPL_E_REJECTED;
	if (result.meets)
		return ESPL_OK;
	if (from_now && s->experiment.plan != NULL &&
	    espl__forecast_plan(f, s->experiment.plan, 0, 0, &before, NULL, NULL) == ESPL_OK &&
	    result.jct_s.mean <= before.jct_s.mean)
		return ESPL_OK;
	return espl__fail(why, ESPL_E_REJECTED,
	    "a plan of %.6g s and %.6g dollars, which misses the deadline or the budget",
	    result.jct_s.mean, result.cost_usd.mean);
}

void
espl__search_plan_init(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	espl__model_service_init(&s->model, s->config, s->inputs->profile, &s->experiment,
	    &s->exec->fleet);
	s->model.as_asked = s->exec->setup.plan_gpus_count > 0;
	s->model.stand = stand;
	s->model.ctx = s;
	s->exec->caller.foretell = judge;
	s->exec->caller.foretell_ctx = s->exec->searches.list[0];
}

void
espl__search_plan_free(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	espl__model_service_free(&s->model);
	free(s->stand_next);
	free(s->stand_held);
	free(s->stand_past);
	free(s->barred);
}

/* ---- taking a plan ------------------------------------------------------------------------ */

static void
lay_out(struct espl__search *s, const struct espl_plan *plan, struct espl__forecast_stage *rows)
{
	const struct espl__trial_config *t = &s->config->trial;
	uint32_t widest = s->model.as_asked
	    ? t->gpus_max
	    : espl__sold_widest(&s->exec->fleet, t, s->inputs->profile);

	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *p = plan->stages[i];
		rows[i].bracket = p->bracket;
		rows[i].stage = p->stage;
		rows[i].offer = p->offer;
		rows[i].gpus = p->gpus;
		rows[i].gpus_per_trial = p->gpus_per_trial;
		rows[i].nodes = p->nodes;
		(void)espl__plan_layout(s->exec->fleet.offers[p->offer],
		    s->experiment.spec->brackets[p->bracket]->stages[p->stage]->trials, p->gpus,
		    t->gpus_min, widest, t->colocate, &rows[i]);
	}
}

/* Makes the experiment's plan from the rows; policies and the barriers follow it. */
static void
publish_plan(struct espl__search *s, const struct espl_plan *given,
    const struct espl__forecast_stage *rows)
{
	struct espl__exec *x = s->exec;
	struct espl_plan *plan = espl__arena_alloc(&x->arena, sizeof *plan);
	struct espl_plan_stage *stages =
	    espl__arena_alloc(&x->arena, given->stage_count * sizeof *stages);
	const struct espl_plan_stage **list =
	    espl__arena_alloc(&x->arena, given->stage_count * sizeof *list);

	*plan = *given;
	for (uint32_t i = 0; i < given->stage_count; i++) {
		stages[i] = *given->stages[i];
		stages[i].gpus_per_trial = rows[i].gpus_per_trial;
		stages[i].nodes = rows[i].nodes;
		list[i] = &stages[i];
		espl__exec_note(x, ESPL_ABOUT_RUN, 0,
		    "plan: bracket %u stage %u on %u %s, %u per trial, on %u node%s of '%s'",
		    (unsigned)rows[i].bracket, (unsigned)rows[i].stage, (unsigned)rows[i].gpus,
		    espl__exec_unit(x, rows[i].gpus), (unsigned)rows[i].gpus_per_trial,
		    (unsigned)rows[i].nodes, rows[i].nodes == 1 ? "" : "s",
		    x->fleet.offers[rows[i].offer]->name);
	}
	plan->stages = list;
	s->experiment.plan = plan;
}

static int
names_what_is(const struct espl__search *s, const struct espl_plan *plan)
{
	const struct espl_spec *spec = s->experiment.spec;

	for (uint32_t i = 0; spec != NULL && i < plan->stage_count; i++) {
		const struct espl_plan_stage *p = plan->stages[i];
		if (p->bracket >= spec->bracket_count ||
		    p->stage >= spec->brackets[p->bracket]->stage_count ||
		    p->offer >= s->exec->fleet.offer_count)
			return 0;
	}
	return spec != NULL;
}

static const struct espl__forecast_stage *
find_planned(const struct espl__search *s, uint32_t bracket, uint32_t stage)
{
	for (uint32_t i = 0; i < s->plan_count; i++)
		if (s->plan_rows[i].bracket == bracket && s->plan_rows[i].stage == stage)
			return &s->plan_rows[i];
	return NULL;
}

/* Makes a plan the current one; its predictions are kept for reports. */
void
espl__search_take_plan(struct espl__search *s, const struct espl_plan *plan, int from_now)
{
	struct espl__exec *x = s->exec;
	struct espl__forecast_stage *rows;
	struct espl__forecast *f;

	ESPL__CHECK(s, SEARCH);
	if (!names_what_is(s, plan))
		return; /* only a recorded decision of another version comes here */
	rows = espl__arena_alloc(&x->arena, (plan->stage_count + (size_t)1) * sizeof *rows);
	memset(rows, 0, plan->stage_count * sizeof *rows);
	memset(&s->plan_result, 0, sizeof s->plan_result);
	s->plan_result.jct_s.mean = s->plan_result.cost_usd.mean = NAN;
	f = espl__model_service_forecast(&s->model, afresh_flags(from_now), NULL);
	if (f == NULL || espl__forecast_plan(f, plan, 0, 0, &s->plan_result, rows, NULL) != ESPL_OK)
		lay_out(s, plan, rows);
	for (uint32_t i = 0; i < plan->stage_count; i++) { /* completed stages stay as they are */
		const struct espl__forecast_stage *before =
		    find_planned(s, plan->stages[i]->bracket, plan->stages[i]->stage);
		if (from_now && before != NULL && rows[i].nodes == 0)
			rows[i] = *before;
	}
	s->plan_rows = rows;
	s->plan_count = plan->stage_count;
	publish_plan(s, plan, rows);
	ESPL__OBSERVE(x, plan, s->plan_rows, s->plan_count, &s->plan_result, s->experiment.plan);
}

/* ---- asking for it ------------------------------------------------------------------------ */

/* allocator.offer, if there is such an option and it names one; else the first. */
static uint32_t
chosen_offer(const struct espl__exec *x)
{
	const struct espl__values *v = x->items.top.allocator->values;

	for (uint32_t k = 0; k < v->config.count; k++)
		if (strcmp(espl__option_at(v->options, v->option_size, k)->name, "offer") == 0 &&
		    v->config.values[k].source != ESPL_UNSET && v->config.values[k].as.s != NULL)
			for (uint32_t o = 0; o < x->fleet.offer_count; o++)
				if (strcmp(x->fleet.offers[o]->name, v->config.values[k].as.s) == 0)
					return o;
	return 0;
}

/* GPUs of each stage as the user gave them (espalier plan --gpus): one number for all, or one each.
 */
static espl_status
use_given_plan(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	const struct espl_spec *spec = s->experiment.spec;
	const uint32_t *gpus = x->setup.plan_gpus;
	struct espl_plan plan = { .size = (uint32_t)sizeof plan, .gap = NAN };
	struct espl_plan_stage *stages;
	const struct espl_plan_stage **list;
	struct espl__forecast_result result;
	struct espl__forecast *f = espl__model_service_forecast(&s->model, afresh_flags(0), diag);
	espl_status status;
	uint32_t n = 0, offer = chosen_offer(x);

	for (uint32_t b = 0; b < spec->bracket_count; b++)
		plan.stage_count += spec->brackets[b]->stage_count;
	if (x->setup.plan_gpus_count != 1 && x->setup.plan_gpus_count != plan.stage_count)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "%u numbers of GPUs were given, but the search has %u stages",
		    (unsigned)x->setup.plan_gpus_count, (unsigned)plan.stage_count);
	stages = espl__arena_alloc(&x->arena, plan.stage_count * sizeof *stages);
	list = espl__arena_alloc(&x->arena, plan.stage_count * sizeof *list);
	for (uint32_t b = 0; b < spec->bracket_count; b++)
		for (uint32_t k = 0; k < spec->brackets[b]->stage_count; k++, n++) {
			memset(&stages[n], 0, sizeof stages[n]);
			stages[n].size = (uint32_t)sizeof stages[n];
			stages[n].bracket = b;
			stages[n].stage = k;
			stages[n].offer = offer;
			stages[n].gpus = gpus[x->setup.plan_gpus_count == 1 ? 0 : n];
			list[n] = &stages[n];
		}
	plan.stages = list;
	if (f == NULL)
		return diag != NULL ? diag->status : ESPL_E_UNSUPPORTED;
	for (n = 0; n < plan.stage_count; n++)
		if (stages[n].gpus > s->experiment.gpus_limit)
			return espl__fail(diag, ESPL_E_INFEASIBLE,
			    "stage %u of bracket %u cannot have %u GPUs; the experiment may use at "
			    "most %u (experiment.gpus_max)",
			    (unsigned)stages[n].stage, (unsigned)stages[n].bracket,
			    (unsigned)stages[n].gpus, (unsigned)s->experiment.gpus_limit);
	status = espl__forecast_plan(f, &plan, 0, 0, &result, NULL, diag);
	if (status == ESPL_OK)
		espl__search_take_plan(s, &plan, 0);
	return status;
}

static espl_status
ask_planner(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	struct espl_plan_view view = ESPL_INIT(struct espl_plan_view);
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__reader answer;
	struct espl__op op;
	uint64_t potential = espl__cluster_potential(x);
	espl_status status;

	view.gpus_max = potential >= UINT32_MAX / 2 ? ESPL_ANY : (uint32_t)potential;
	view.experiment = &s->experiment;
	view.offers = (const struct espl_offer *const *)x->fleet.offers;
	view.offer_count = x->fleet.offer_count;
	view.outcomes = x->items.top.outcomes.list;
	view.outcome_count = x->items.top.outcomes.count;
	status = espl__call_plan(&x->caller, x->items.top.allocator, &view, &why);
	if (status != ESPL_OK && status != ESPL_E_BUSY) {
		if (diag != NULL)
			*diag = why;
		return status; /* nothing has begun: the run is refused */
	}
	s->planned = status == ESPL_OK;
	status = espl__tier_answer(x, &x->items.top, status, &why, &answer, diag);
	while (status == ESPL_OK && espl__exec_next_op(x, &answer, &op)) {
		if (op.type == ESPL__OP_PLAN)
			espl__search_take_plan(s, &op.as.plan.plan, 0);
		else if (op.type == ESPL__OP_SUBMIT)
			espl__searches_submit(x, NULL, &x->items.top, op.as.id);
	}
	return status;
}

/* Once, before anything is leased.  An allocator without a plan, an algorithm that declares no
 * stages and a search without a profile run without a plan. */
espl_status
espl__search_plan(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	const struct espl_allocator_ops *ops =
	    (const struct espl_allocator_ops *)x->items.top.allocator->ops;
	espl_status status = ESPL_OK;

	ESPL__CHECK(s, SEARCH);
	if (s->planned || !x->cluster.cloud_ready ||
	    (x->searches.computing_count > 0 && x->items.top.outcomes.count == 0))
		return ESPL_OK;
	if (x->setup.plan_only && !espl__model_service_can(&s->model))
		return espl__fail(diag, ESPL_E_CONFIG,
		    s->experiment.spec == NULL
			? "%s does not declare its stages, so nothing can be planned"
			: "the trial has no profile (trial.profile), so nothing can be planned for "
			  "%s",
		    s->algorithm->who);
	if (x->setup.plan_gpus_count > 0) {
		s->planned = 1;
		status = use_given_plan(s, diag);
	} else if (!ESPL_HAS(struct espl_allocator_ops, ops, plan)) {
		s->planned = 1;
		if (x->setup.plan_only)
			return espl__fail(diag, ESPL_E_CONFIG, "%s cannot plan",
			    x->items.top.allocator->who);
	} else if (!espl__model_service_can(&s->model)) {
		s->planned = 1;
	} else {
		status = ask_planner(s, diag);
	}
	/* its tables are large, and seldom asked again */
	espl__model_service_stale(&s->model, 1);
	if (status == ESPL_OK && s->planned && x->setup.plan_only)
		espl__exec_wind_up(x, ESPL__RUN_DONE, "the plan is ready");
	return status;
}

/* ---- barriers ----------------------------------------------------------------------------- */

/* Whether the trials of this stage wait at its end, in their processes, for the decision about
 * them. */
static int
waits_at_barrier(const struct espl__search *s, uint32_t bracket, uint32_t stage)
{
	const struct espl__forecast_stage *row, *next;
	const struct espl_bracket *b;

	if (!s->config->warm || s->experiment.plan == NULL ||
	    bracket >= s->experiment.spec->bracket_count)
		return 0;
	b = s->experiment.spec->brackets[bracket];
	if (stage + 1 >= b->stage_count)
		return 0;
	row = find_planned(s, bracket, stage);
	next = find_planned(s, bracket, stage + 1);
	return row != NULL && next != NULL &&
	    espl__plan_goes_on(row, b->stages[stage]->trials, next, b->stages[stage + 1]->trials);
}

/* Does a trial of the group wait for GPUs?  Those at the barrier must not keep theirs then: fewer
 * nodes are there than were planned. */
static int
has_queued_trial(const struct espl__search *s, uint64_t group)
{
	for (uint64_t id = 0; s->trials.waiting > 0; id++) {
		const struct espl__trial *t = espl__trial_at(&s->trials, id);

		if (t == NULL)
			break;
		if (t->pub.group == group && t->pub.state == ESPL_TRIAL_WAITING && t->gang == NULL)
			return 1;
	}
	return 0;
}

int
espl__trial_waits_warm(const struct espl__exec *x, const struct espl__trial *t)
{
	const struct espl__search *s = t->search;
	const struct espl__trial_group *g;

	ESPL__CHECK(x, EXEC);
	if (!s->config->warm || s->experiment.plan == NULL || x->round.ending != 0 ||
	    t->pub.state != ESPL_TRIAL_PAUSED || t->dropped || t->pub.group == ESPL_NONE)
		return 0;
	g = espl__group_at(&s->trials, t->pub.group);
	return g != NULL && !g->end_reported && waits_at_barrier(s, g->bracket, g->stage) &&
	    !has_queued_trial(s, g->id);
}

static int
has_processes(const struct espl__search *s, const struct espl__trial_group *group)
{
	const struct espl__exec *x = s->exec;

	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next)
		if (g->trial->search == s && g->trial->pub.group == group->id &&
		    !(g->awaiting && espl__trial_waits_warm(x, g->trial)))
			return 1;
	return 0;
}

/* A real stage ends when it ends; a simulated one takes as long as the user says. */
static espl_time
barrier_over(const struct espl__search *s, const struct espl__trial_group *group)
{
	const struct espl__exec *x = s->exec;
	struct espl__rng rng;
	char name[48];

	if (!x->setup.simulated || s->config->sync == NULL)
		return x->now;
	(void)snprintf(name, sizeof name, "barrier of group %llu", (unsigned long long)group->id);
	espl__rng_seed(&rng, s->config->seed, name);
	return x->now + (espl_span)(espl__latency_draw(s->config->sync, &rng) * 1e9 + 0.5);
}

/* A bracket whose last barrier has passed needs no node any more. */
static void
bracket_over(struct espl__search *s, const struct espl__trial_group *group)
{
	if (group->stage + 1 != s->experiment.spec->brackets[group->bracket]->stage_count)
		return;
	s->standing[group->bracket].stage = group->stage + 1;
	espl__tier_ask(s->tier, ESPL_WHY_DEPARTURE);
}

/* The next group whose end is due to be reported to the algorithm. */
struct espl__trial_group *
espl__search_group_over(struct espl__search *s)
{
	struct espl__trial_group *g;

	ESPL__CHECK(s, SEARCH);
	while ((g = espl__group_next_ended(&s->trials)) != NULL) {
		if (s->experiment.plan == NULL || g->bracket >= s->experiment.spec->bracket_count)
			return g;
		ESPL__GROW(s->barred, s->barred_cap, s->barred_count + 1);
		g->over_at = ESPL_NEVER;
		s->barred[s->barred_count++] = g;
	}
	s->barrier_at = ESPL_NEVER;
	for (uint32_t i = 0; i < s->barred_count; i++) {
		g = s->barred[i];
		if (g->over_at == ESPL_NEVER && !has_processes(s, g))
			g->over_at = barrier_over(s, g);
		if (g->over_at <= s->exec->now) {
			memmove(s->barred + i, s->barred + i + 1,
			    (--s->barred_count - i) * sizeof *s->barred);
			bracket_over(s, g);
			return g;
		}
		if (g->over_at < s->barrier_at)
			s->barrier_at = g->over_at;
	}
	return NULL;
}
