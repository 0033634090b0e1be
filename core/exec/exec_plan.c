/* exec_plan.c - the plan of a run: asked for when the offers are known, kept, and held to at the
 * barriers between stages.
 *
 * With a plan in force a stage is over when the last process of its trials is gone and the
 * barrier's latency has passed; so what is simulated, what runs and what the execution model
 * says (docs/model.md) are the same.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/state.h"

/* ---- where the run stands, for the model ---------------------------------------------------------- */

static uint32_t
first_to_come(const struct espl__exec *x, uint32_t bracket)
{
	const struct espl_standing *s = &x->standing[bracket];
	uint32_t count = x->experiment.spec->brackets[bracket]->stage_count;

	return s->trials_left == 0 && s->stage + 1 >= count ? count : s->stage;
}

static void
stand(void *ctx, struct espl__forecast_setup *setup)
{
	struct espl__exec *x = ctx;
	uint32_t n = 0;

	ESPL__GROW(x->stand_next, x->stand_next_cap, x->experiment.standing_count + 1);
	for (uint32_t b = 0; b < x->experiment.standing_count; b++)
		x->stand_next[b] = first_to_come(x, b);
	ESPL__GROW(x->stand_held, x->stand_held_cap, x->fleet.live_count + 1);
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl_node *node = x->fleet.live[i];
		espl_time from = espl__ledger_billed_from(x->ledger, node->id);

		if ((node->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0 || node->state == ESPL_NODE_NOTICE)
			continue;
		memset(&x->stand_held[n], 0, sizeof x->stand_held[n]);
		x->stand_held[n].offer = node->offer;
		x->stand_held[n].billed_s = from == ESPL_NEVER || from > x->now ? -1.0 : (double)(x->now - from) / 1e9;
		n++;
	}
	setup->next_stage = x->stand_next;
	setup->held = x->stand_held;
	setup->held_count = n;
	if (x->config->deadline != ESPL_NEVER)
		setup->deadline_s = (double)(x->config->deadline - x->now) / 1e9;
	if (x->config->budget != INT64_MAX)
		setup->budget_usd = (double)(x->config->budget - espl__ledger_total(x->ledger, x->now)) / 1e6;
}

/* A plan for the whole run must hold deadline and budget; one for the rest of it at least not be
 * later than what is in force. */
static espl_status
judge(void *ctx, const struct espl_plan *plan, int from_now, struct espl__diag *why)
{
	struct espl__exec *x = ctx;
	struct espl__forecast_result result, before;
	struct espl__forecast *f = espl__model_service_forecast(&x->model, from_now, why);
	espl_status status;

	if (f == NULL)
		return why->status;
	status = espl__forecast_plan(f, plan, 0, 0, &result, NULL, why);
	if (status != ESPL_OK)
		return ESPL_E_REJECTED;
	if (result.meets)
		return ESPL_OK;
	if (from_now && x->experiment.plan != NULL &&
	    espl__forecast_plan(f, x->experiment.plan, 0, 0, &before, NULL, NULL) == ESPL_OK &&
	    result.jct_s.mean <= before.jct_s.mean)
		return ESPL_OK;
	return espl__fail(why, ESPL_E_REJECTED, "a plan of %.6g s and %.6g dollars, which does not keep the deadline and the budget",
	    result.jct_s.mean, result.cost_usd.mean);
}

void
espl__exec_plan_init(struct espl__exec *x)
{
	espl__model_service_init(&x->model, x->config, x->setup.profile, &x->experiment, &x->fleet);
	x->model.stand = stand;
	x->model.ctx = x;
	x->caller.judge = judge;
	x->caller.judge_ctx = x;
	x->caller.least_s = x->caller.least_usd = NAN;
}

void
espl__exec_plan_free(struct espl__exec *x)
{
	espl__model_service_free(&x->model);
	free(x->stand_next);
	free(x->stand_held);
	free(x->barred);
}

/* ---- taking a plan ----------------------------------------------------------------------------------- */

static void
lay_out(struct espl__exec *x, const struct espl_plan *plan, struct espl__forecast_stage *rows)
{
	const struct espl__trial_config *t = &x->config->trial;

	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		rows[i].bracket = s->bracket;
		rows[i].stage = s->stage;
		rows[i].offer = s->offer;
		rows[i].gpus = s->gpus;
		rows[i].gpus_per_trial = s->gpus_per_trial;
		rows[i].nodes = s->nodes;
		(void)espl__plan_layout(x->fleet.offers[s->offer],
		    x->experiment.spec->brackets[s->bracket]->stages[s->stage]->trials, s->gpus, t->gpus_min, t->gpus_max,
		    t->colocate, &rows[i]);
	}
}

/* Makes the experiment's plan of the rows: what policies and the barriers go by. */
static void
publish(struct espl__exec *x, const struct espl_plan *given, const struct espl__forecast_stage *rows)
{
	struct espl_plan *plan = espl__arena_alloc(&x->arena, sizeof *plan);
	struct espl_plan_stage *stages = espl__arena_alloc(&x->arena, given->stage_count * sizeof *stages);
	const struct espl_plan_stage **list = espl__arena_alloc(&x->arena, given->stage_count * sizeof *list);

	*plan = *given;
	for (uint32_t i = 0; i < given->stage_count; i++) {
		stages[i] = *given->stages[i];
		stages[i].gpus_per_trial = rows[i].gpus_per_trial;
		stages[i].nodes = rows[i].nodes;
		list[i] = &stages[i];
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "plan: bracket %u stage %u on %u GPUs, %u to a trial, on %u nodes of '%s'",
		    (unsigned)rows[i].bracket, (unsigned)rows[i].stage, (unsigned)rows[i].gpus,
		    (unsigned)rows[i].gpus_per_trial, (unsigned)rows[i].nodes, x->fleet.offers[rows[i].offer]->name);
	}
	plan->stages = list;
	x->experiment.plan = plan;
}

static int
names_what_is(const struct espl__exec *x, const struct espl_plan *plan)
{
	const struct espl_spec *spec = x->experiment.spec;

	for (uint32_t i = 0; spec != NULL && i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		if (s->bracket >= spec->bracket_count || s->stage >= spec->brackets[s->bracket]->stage_count ||
		    s->offer >= x->fleet.offer_count)
			return 0;
	}
	return spec != NULL;
}

/* Puts a plan in force; what it predicts is kept for whoever reports. */
void
espl__exec_take_plan(struct espl__exec *x, const struct espl_plan *plan, int from_now)
{
	struct espl__forecast_stage *rows;
	struct espl__forecast *f;

	if (!names_what_is(x, plan))
		return;			/* only a recorded decision of another version comes here */
	rows = espl__arena_alloc(&x->arena, (plan->stage_count + (size_t)1) * sizeof *rows);
	memset(rows, 0, plan->stage_count * sizeof *rows);
	memset(&x->plan_result, 0, sizeof x->plan_result);
	x->plan_result.jct_s.mean = x->plan_result.cost_usd.mean = NAN;
	f = espl__model_service_forecast(&x->model, from_now, NULL);
	if (f == NULL || espl__forecast_plan(f, plan, 0, 0, &x->plan_result, rows, NULL) != ESPL_OK)
		lay_out(x, plan, rows);
	for (uint32_t i = 0; i < plan->stage_count; i++) {	/* what is over stays what it was */
		const struct espl__forecast_stage *before = espl__exec_planned(x, plan->stages[i]->bracket, plan->stages[i]->stage);
		if (from_now && before != NULL && rows[i].nodes == 0)
			rows[i] = *before;
	}
	x->plan_rows = rows;
	x->plan_count = plan->stage_count;
	publish(x, plan, rows);
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->plan != NULL)
			o->plan(o->ctx, x->now, x->plan_rows, x->plan_count, &x->plan_result, x->experiment.plan);
}

const struct espl__forecast_stage *
espl__exec_planned(const struct espl__exec *x, uint32_t bracket, uint32_t stage)
{
	for (uint32_t i = 0; i < x->plan_count; i++)
		if (x->plan_rows[i].bracket == bracket && x->plan_rows[i].stage == stage)
			return &x->plan_rows[i];
	return NULL;
}

/* ---- asking for it --------------------------------------------------------------------------------------- */

/* allocator.offer, if there is such an option and it names one; else the first. */
static uint32_t
chosen_offer(const struct espl__exec *x)
{
	const struct espl__values *v = x->allocator->values;

	for (uint32_t k = 0; k < v->config.count; k++)
		if (strcmp(espl__option_at(v->options, v->option_size, k)->name, "offer") == 0 &&
		    v->config.values[k].source != ESPL_UNSET && v->config.values[k].as.s != NULL)
			for (uint32_t o = 0; o < x->fleet.offer_count; o++)
				if (strcmp(x->fleet.offers[o]->name, v->config.values[k].as.s) == 0)
					return o;
	return 0;
}

/* GPUs of each stage as the user gave them (espalier plan --gpus): one number for all, or one each. */
static espl_status
given(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl_spec *spec = x->experiment.spec;
	const uint32_t *gpus = x->setup.plan_gpus;
	struct espl_plan plan = { .size = (uint32_t)sizeof plan, .gap = NAN };
	struct espl_plan_stage *stages;
	const struct espl_plan_stage **list;
	struct espl__forecast_result result;
	struct espl__forecast *f = espl__model_service_forecast(&x->model, 0, diag);
	espl_status status;
	uint32_t n = 0, offer = chosen_offer(x);

	for (uint32_t b = 0; b < spec->bracket_count; b++)
		plan.stage_count += spec->brackets[b]->stage_count;
	if (x->setup.plan_gpus_count != 1 && x->setup.plan_gpus_count != plan.stage_count)
		return espl__fail(diag, ESPL_E_CONFIG, "%u numbers of GPUs are given; the search has %u stages",
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
		if (stages[n].gpus > x->experiment.gpus_limit)
			return espl__fail(diag, ESPL_E_INFEASIBLE, "stage %u of bracket %u cannot have %u GPUs: the experiment may "
			    "hold %u at once (experiment.gpus_max)", (unsigned)stages[n].stage, (unsigned)stages[n].bracket,
			    (unsigned)stages[n].gpus, (unsigned)x->experiment.gpus_limit);
	status = espl__forecast_plan(f, &plan, 0, 0, &result, NULL, diag);
	if (status == ESPL_OK)
		espl__exec_take_plan(x, &plan, 0);
	return status;
}

static espl_status
ask(struct espl__exec *x, struct espl__diag *diag)
{
	struct espl_plan_view view = ESPL_INIT(struct espl_plan_view);
	struct espl__diag   why = ESPL__DIAG_INIT;
	struct espl__reader answer;
	struct espl__op     op;
	uint64_t potential = espl__exec_potential(x);
	espl_status status;

	view.gpus_max = potential >= UINT32_MAX / 2 ? ESPL_ANY : (uint32_t)potential;
	view.experiment = &x->experiment;
	view.offers = (const struct espl_offer *const *)x->fleet.offers;
	view.offer_count = x->fleet.offer_count;
	view.outcomes = x->outcomes[1].list;
	view.outcome_count = x->outcomes[1].count;
	x->caller.offer_count = x->fleet.offer_count;
	status = espl__call_plan(&x->caller, x->allocator, &view, &why);
	if (status != ESPL_OK && status != ESPL_E_BUSY) {
		if (diag != NULL)
			*diag = why;
		return status;		/* nothing has begun: the run is refused */
	}
	x->planned = status == ESPL_OK;
	x->outcomes[1].count = 0;
	status = espl__exec_answer(x, x->allocator, status, &why, &answer, diag);
	espl__arena_free(&x->outcome_arena[1]);
	while (status == ESPL_OK && espl__exec_next_op(x, &answer, &op)) {
		if (op.type == ESPL__OP_PLAN)
			espl__exec_take_plan(x, &op.as.plan.plan, 0);
		else if (op.type == ESPL__OP_SUBMIT)
			espl__exec_submit(x, op.as.id, ESPL_ALLOCATOR);
	}
	return status;
}

/* Once, before anything is leased.  An allocator without a plan, an algorithm that declares no
 * stages and a search without a profile go on without. */
espl_status
espl__exec_plan(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl_allocator_ops *ops = (const struct espl_allocator_ops *)x->allocator->ops;
	espl_status status = ESPL_OK;

	if (x->planned || !x->cloud_ready || (x->computing_count > 0 && x->outcomes[1].count == 0))
		return ESPL_OK;
	if (x->setup.plan_only && !espl__model_service_can(&x->model))
		return espl__fail(diag, ESPL_E_CONFIG, x->experiment.spec == NULL ?
		    "%s does not declare its stages, so nothing can be planned" :
		    "there is no profile of the trial (trial.profile), so nothing can be planned for %s", x->algorithm->who);
	if (x->setup.plan_gpus_count > 0) {
		x->planned = 1;
		status = given(x, diag);
	} else if (!ESPL_HAS(struct espl_allocator_ops, ops, plan)) {
		x->planned = 1;
		if (x->setup.plan_only)
			return espl__fail(diag, ESPL_E_CONFIG, "%s makes no plans", x->allocator->who);
	} else if (!espl__model_service_can(&x->model)) {
		x->planned = 1;
	} else {
		status = ask(x, diag);
	}
	espl__model_service_stale(&x->model, 1);	/* its tables are large, and seldom asked again */
	if (status == ESPL_OK && x->planned && x->setup.plan_only)
		espl__exec_wind_up(x, ESPL__RUN_DONE, "the plan is made");
	return status;
}

/* ---- barriers ------------------------------------------------------------------------------------------------ */

/* Do the trials of this stage wait at its end, in their processes, for what becomes of them? */
static int
goes_on(const struct espl__exec *x, uint32_t bracket, uint32_t stage)
{
	const struct espl__forecast_stage *row, *next;
	const struct espl_bracket *b;

	if (!x->config->warm || x->experiment.plan == NULL || bracket >= x->experiment.spec->bracket_count)
		return 0;
	b = x->experiment.spec->brackets[bracket];
	if (stage + 1 >= b->stage_count)
		return 0;
	row = espl__exec_planned(x, bracket, stage);
	next = espl__exec_planned(x, bracket, stage + 1);
	return row != NULL && next != NULL &&
	    espl__plan_goes_on(row, b->stages[stage]->trials, next, b->stages[stage + 1]->trials);
}

/* Does a trial of the group wait for GPUs?  Those at the barrier must not keep theirs then: fewer nodes are there
 * than were planned. */
static int
someone_queues(const struct espl__exec *x, uint64_t group)
{
	for (uint64_t id = 0; x->trials.waiting > 0; id++) {
		const struct espl__trial *t = espl__trial_at(&x->trials, id);

		if (t == NULL)
			break;
		if (t->pub.group == group && t->pub.state == ESPL_TRIAL_WAITING && t->gang == NULL)
			return 1;
	}
	return 0;
}

int
espl__exec_waits_warm(const struct espl__exec *x, const struct espl__trial *t)
{
	const struct espl__trial_group *g;

	if (!x->config->warm || x->experiment.plan == NULL || x->ending != 0 || t->pub.state != ESPL_TRIAL_RESTING ||
	    t->dropped || t->pub.group == ESPL_NONE)
		return 0;
	g = espl__group_at(&x->trials, t->pub.group);
	return g != NULL && !g->told && goes_on(x, g->bracket, g->stage) && !someone_queues(x, g->id);
}

static int
has_processes(const struct espl__exec *x, const struct espl__trial_group *group)
{
	for (const struct espl__gang *g = x->gang_first; g != NULL; g = g->next)
		if (g->trial->pub.group == group->id && !(g->awaiting && espl__exec_waits_warm(x, g->trial)))
			return 1;
	return 0;
}

/* A real stage ends when it ends; a simulated one takes what the user says it takes. */
static espl_time
barrier_over(const struct espl__exec *x, const struct espl__trial_group *group)
{
	struct espl__rng rng;
	char name[48];

	if (!x->setup.simulated || x->config->sync == NULL)
		return x->now;
	(void)snprintf(name, sizeof name, "barrier of group %llu", (unsigned long long)group->id);
	espl__rng_seed(&rng, x->config->seed, name);
	return x->now + (espl_span)(espl__latency_draw(x->config->sync, &rng) * 1e9 + 0.5);
}

/* The next group whose end the algorithm is to hear of. */
struct espl__trial_group *
espl__exec_group_over(struct espl__exec *x)
{
	struct espl__trial_group *g;

	while ((g = espl__group_next_ended(&x->trials)) != NULL) {
		if (x->experiment.plan == NULL || g->bracket >= x->experiment.spec->bracket_count)
			return g;
		ESPL__GROW(x->barred, x->barred_cap, x->barred_count + 1);
		g->over_at = ESPL_NEVER;
		x->barred[x->barred_count++] = g;
	}
	x->barrier_at = ESPL_NEVER;
	for (uint32_t i = 0; i < x->barred_count; i++) {
		g = x->barred[i];
		if (g->over_at == ESPL_NEVER && !has_processes(x, g))
			g->over_at = barrier_over(x, g);
		if (g->over_at <= x->now) {
			memmove(x->barred + i, x->barred + i + 1, (--x->barred_count - i) * sizeof *x->barred);
			return g;
		}
		if (g->over_at < x->barrier_at)
			x->barrier_at = g->over_at;
	}
	return NULL;
}
