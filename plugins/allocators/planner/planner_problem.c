/* planner_problem.c - the tables for the search of a plan, read from the model, and the time and
 * cost of an allocation computed from them. */
#include "planner_private.h"

#define LIMIT_LEAST 1024u /* GPUs of a stage without any limit: this many, or one */
#define LIMIT_MOST 16384u /* for each trial of the widest stage, up to this many */

uint32_t
planner_ceiling(const struct planner_task *task, const struct espl_offer *offer)
{
	const struct espl_spec *spec = task->experiment->spec;
	uint64_t limit = task->gpus_max, sold = (uint64_t)offer->nodes_max * offer->gpus;
	uint32_t i, k;

	if (limit > task->experiment->gpus_limit)
		limit = task->experiment->gpus_limit;
	if (offer->nodes_max != ESPL_ANY && limit > sold)
		limit = sold;
	if (limit < ESPL_ANY)
		return (uint32_t)limit;
	for (limit = LIMIT_LEAST, i = 0; i < spec->bracket_count; i++)
		for (k = 0; k < spec->brackets[i]->stage_count; k++)
			if (spec->brackets[i]->stages[k]->trials > limit)
				limit = spec->brackets[i]->stages[k]->trials;
	return limit < LIMIT_MOST ? (uint32_t)limit : LIMIT_MOST;
}

/* ---- stages ------------------------------------------------------------------------------- */

static espl_status
list_stages(struct planner_problem *p, uint32_t bracket)
{
	const struct espl_spec *spec = p->task->experiment->spec;
	uint32_t i, k, count = 0;

	for (i = 0; i < spec->bracket_count; i++)
		count += spec->brackets[i]->stage_count;
	p->stages = calloc((size_t)count + 1, sizeof *p->stages);
	if (p->stages == NULL)
		return ESPL_E_NOMEM;
	for (i = 0; i < spec->bracket_count; i++) {
		uint32_t first = p->task->next_stage != NULL ? p->task->next_stage[i] : 0;

		if (bracket != ESPL_ANY && bracket != i)
			continue;
		for (k = first; k < spec->brackets[i]->stage_count; k++) {
			struct planner_stage *stage = &p->stages[p->stage_count++];

			stage->bracket = i;
			stage->stage = k;
			stage->trials = spec->brackets[i]->stages[k]->trials;
			if (k > first)
				stage->trials_before = spec->brackets[i]->stages[k - 1]->trials;
		}
	}
	ESPL_ASSERT(p->stage_count <= count);
	return ESPL_OK;
}

static espl_status
load_cells(struct planner_problem *p)
{
	struct espl_stage_query query = ESPL_INIT(struct espl_stage_query);
	espl_status status = ESPL_OK;
	uint32_t i, k, placeable;

	ESPL_ASSERT(p->limit > 0);
	query.flags = p->task->flags;
	query.experiment = p->task->experiment->id;
	query.offer = p->number;
	query.gpus_from = 1;
	query.gpus_to = p->limit;
	for (i = 0; i < p->stage_count && status == ESPL_OK; i++) {
		struct planner_stage *stage = &p->stages[i];

		stage->cells = calloc(p->limit, sizeof *stage->cells);
		if (stage->cells == NULL)
			return ESPL_E_NOMEM;
		query.bracket = stage->bracket;
		query.stage = stage->stage;
		status = p->task->model->stage(p->task->model, &query, stage->cells);
		for (placeable = 0, k = 0; k < p->limit && status == ESPL_OK; k++) {
			const struct espl_cell *cell = &stage->cells[k];

			placeable |= (cell->flags & ESPL_CELL_INVALID) == 0;
			p->skipped |= (cell->flags & ESPL_CELL_SKIPPED) != 0;
			if ((cell->flags & ESPL_CELL_INVALID) == 0 && cell->sd_s > 0)
				p->constant = 0;
		}
		if (status == ESPL_OK && !placeable)
			status = ESPL_E_INFEASIBLE;
	}
	return status;
}

/* The stage before the first one, according to the current plan: trials may continue from it. */
static espl_status
load_before(struct planner_problem *p)
{
	struct espl_stage_query query = ESPL_INIT(struct espl_stage_query);
	const struct espl_plan *plan = p->task->plan;
	struct planner_stage *stage = &p->stages[0];
	uint32_t i;

	p->before.flags = ESPL_CELL_INVALID;
	for (i = 0; p->stage_count > 0 && i < p->limit; i++)
		if ((stage->cells[i].flags & ESPL_CELL_BEGUN) != 0)
			return ESPL_OK; /* how it began does not matter any more */
	for (i = 0; plan != NULL && p->stage_count > 0 && i < plan->stage_count; i++) {
		const struct espl_plan_stage *row = plan->stages[i];

		if (row->bracket != stage->bracket || row->stage + 1 != stage->stage ||
		    row->offer != p->number)
			continue;
		query.experiment = p->task->experiment->id;
		query.flags = p->task->flags;
		query.bracket = row->bracket;
		query.stage = row->stage;
		query.offer = row->offer;
		query.gpus_from = query.gpus_to = row->gpus;
		stage->trials_before =
		    p->task->experiment->spec->brackets[row->bracket]->stages[row->stage]->trials;
		return p->task->model->stage(p->task->model, &query, &p->before);
	}
	return ESPL_OK;
}

/* The model's seconds at which each stage ends with these GPUs. */
static espl_status
probe_stages(const struct planner_problem *p, const uint32_t *gpus, double *ends_s)
{
	struct espl_prediction result = ESPL_INIT(struct espl_prediction);
	struct espl_predict how = ESPL_INIT(struct espl_predict);
	struct planner_draft draft;
	double *ends = NULL;
	uint32_t i, at = 0;
	espl_status status = planner_draft_make(&draft, p->task->experiment->spec,
	    p->task->next_stage, p->task->plan);

	if (status != ESPL_OK)
		return status;
	ends = calloc((size_t)draft.plan.stage_count + 1, sizeof *ends);
	if (ends == NULL) {
		planner_draft_free(&draft);
		return ESPL_E_NOMEM;
	}
	planner_draft_fill(&draft, p->number, p->limit);
	planner_draft_put(&draft, p, gpus);
	how.flags = p->task->flags;
	how.experiment = p->task->experiment->id;
	how.stage_ends_s = ends;
	status = p->task->model->predict(p->task->model, &draft.plan, &how, &result, NULL);
	for (i = 0; i < p->stage_count && status == ESPL_OK; i++, at++) {
		while (draft.rows[at].bracket != p->stages[i].bracket ||
		    draft.rows[at].stage != p->stages[i].stage)
			at++;
		ends_s[i] = ends[at];
	}
	free(ends);
	planner_draft_free(&draft);
	return status;
}

/* ---- nodes -------------------------------------------------------------------------------- */

static double
mean_of(const struct espl_latency *latency, int *random)
{
	double sum = 0.0;
	uint32_t i;

	if (latency == NULL)
		return 0.0;
	if (latency->kind == ESPL_EMPIRICAL && latency->sample_count > 0) {
		for (i = 0; i < latency->sample_count; i++) {
			sum += latency->samples_s[i];
			*random |= latency->samples_s[i] != latency->samples_s[0];
		}
		return sum / latency->sample_count;
	}
	*random |=
	    (latency->kind == ESPL_NORMAL || latency->kind == ESPL_LOGNORMAL) && latency->sd_s > 0;
	return latency->mean_s > 0 ? latency->mean_s : 0.0;
}

static void
load_terms(struct planner_problem *p)
{
	const struct espl_offer *offer = p->offer;
	double usd_s = (double)offer->price_hour * 1e-6 / 3600.0;

	ESPL_ASSERT(offer->gpus > 0);
	p->by_function = offer->billing == ESPL_BILL_FUNCTION;
	p->sold = (offer->flags & ESPL_OFFER_GONE) == 0;
	p->warm = (p->task->experiment->flags & ESPL_EXPERIMENT_WARM) != 0;
	p->ahead = (p->task->experiment->flags & ESPL_EXPERIMENT_AHEAD) != 0;
	p->idle = (p->task->experiment->flags & ESPL_EXPERIMENT_IDLE) != 0 && !p->by_function;
	if (p->idle)
		p->constant = 0; /* what goes early is the model's to price */
	p->node_usd_s = p->by_function ? 0.0 : usd_s;
	p->gpu_usd_s = p->by_function ? usd_s / offer->gpus : 0.0;
	if (p->task->experiment->data_gb > 0) /* whole micro-dollars, as the ledger counts */
		p->data_usd =
		    floor(p->task->experiment->data_gb * (double)offer->data_gb + 0.5) * 1e-6;
	if (!p->by_function && offer->minimum_charge > 0)
		p->minimum_s = (double)offer->minimum_charge * 1e-9;
	if (!p->by_function && offer->billing_step > 1)
		p->step_ns = (double)offer->billing_step;
}

/* The wait for `fresh` nodes; numbers between it and the last known one are interpolated linearly.
 */
static uint32_t
lead_at(double *leads, uint32_t last, uint32_t fresh, double seconds)
{
	uint32_t i;

	ESPL_ASSERT(last < fresh);
	leads[fresh] = seconds;
	for (i = last + 1; i < fresh; i++)
		leads[i] = last == 0
		    ? seconds
		    : leads[last] + (seconds - leads[last]) * (i - last) / (fresh - last);
	return fresh;
}

/* The slowest of several nodes with random latencies, according to the model. The model is asked
 * for a few numbers of nodes. Between them the mean of the slowest is concave, so that linear
 * interpolation is slightly too early, never too late. */
static espl_status
probe_leads(struct planner_problem *p)
{
	uint32_t nodes = (p->limit + p->offer->gpus - 1) / p->offer->gpus, i, k, last = 0, step;
	/* that can be new */
	uint32_t most = nodes > p->held_count ? nodes - p->held_count : 0;
	uint32_t *gpus = calloc(p->stage_count, sizeof *gpus);
	double *ends = calloc((size_t)p->stage_count, sizeof *ends),
	       billed = p->billed_s[0] - p->lead_s[0];
	double *leads = calloc(2 * ((size_t)most + 1), sizeof *leads);
	espl_status status = gpus == NULL || ends == NULL || leads == NULL ? ESPL_E_NOMEM : ESPL_OK;

	for (k = 1; k <= most && status == ESPL_OK;
	     k = k < most && k + step > most ? most : k + step) {
		nodes = k + p->held_count;
		step = k < 4 ? 1 : k / 2;
		for (i = 0; i < p->stage_count;
		     i++) /* not such that trials could continue from the first */
			gpus[i] = nodes == 1 && i > 0 ? p->limit : 1;
		gpus[0] = nodes * p->offer->gpus < p->limit ? nodes * p->offer->gpus : p->limit;
		for (i = 1; i < p->stage_count; i++)
			while (gpus[i] < p->limit &&
			    (planner_cell(p, i, gpus[i])->flags & ESPL_CELL_INVALID) != 0)
				gpus[i]++;
		if ((planner_cell(p, 0, gpus[0])->flags & ESPL_CELL_INVALID) != 0)
			continue;
		status = probe_stages(p, gpus, ends);
		if (status == ESPL_E_INFEASIBLE)
			status = ESPL_OK;
		else if (status == ESPL_OK)
			last =
			    lead_at(leads, last, k, ends[0] - planner_cell(p, 0, gpus[0])->mean_s);
	}
	free(gpus);
	free(ends);
	if (status != ESPL_OK || last == 0) {
		free(leads);
		return status;
	}
	free(p->lead_s);
	p->lead_s = leads;
	p->billed_s = leads + most;
	p->lead_count = last;
	memmove(leads, leads + 1, last * sizeof *leads);
	for (i = 0; i < last; i++)
		p->billed_s[i] = p->offer->billed_from == ESPL_BILL_FROM_READY ? 0.0
		    : leads[i] + billed > 0                                    ? leads[i] + billed
									       : 0.0;
	return ESPL_OK;
}

static espl_status
load_leads(struct planner_problem *p)
{
	int random = 0;
	double provision = mean_of(p->offer->provision, &random),
	       init = mean_of(p->offer->init, &random);

	p->lead_s = calloc(2, sizeof *p->lead_s);
	if (p->lead_s == NULL)
		return ESPL_E_NOMEM;
	p->billed_s = p->lead_s + 1;
	p->lead_count = 1;
	p->lead_s[0] = provision + init;
	p->billed_s[0] = p->offer->billed_from == ESPL_BILL_FROM_READY ? 0.0
	    : p->offer->billed_from == ESPL_BILL_FROM_BOOT             ? init
								       : provision + init;
	if (!random)
		return ESPL_OK;
	p->constant = 0;
	return p->sold && p->stage_count > 0 ? probe_leads(p) : ESPL_OK;
}

static espl_status
load_held(struct planner_problem *p, uint32_t bracket)
{
	uint32_t i, own, all = p->task->held_count;

	p->held = calloc((size_t)all + 1, sizeof *p->held);
	if (p->held == NULL)
		return ESPL_E_NOMEM;
	for (i = 0; i < all; i++) {
		own = p->task->held[i].own;
		if (p->task->held[i].offer == p->number &&
		    (own == 0 || bracket == ESPL_ANY || own == bracket + 1))
			p->held[p->held_count++] =
			    p->task->held[i].billed_s > 0 ? p->task->held[i].billed_s : 0.0;
	}
	p->leases = calloc((size_t)p->held_count + p->stage_count + 1, sizeof *p->leases);
	return p->leases != NULL ? ESPL_OK : ESPL_E_NOMEM;
}

/* ---- going on ----------------------------------------------------------------------------- */

static int
holds_all_trials(const struct planner_problem *p, uint32_t stage, uint32_t gpus)
{
	const struct espl_cell *cell = planner_cell(p, stage, gpus);

	return (cell->flags & ESPL_CELL_INVALID) == 0 && cell->slots == p->stages[stage].trials;
}

/* Seconds that a trial of `stage` with this layout spends repeating earlier training: all of it if
 * there are no checkpoints. The length of an iteration shows whether there are. */
static double
repeated_work(const struct planner_problem *p, uint32_t stage, const struct espl_cell *cell,
    double work_s)
{
	const struct planner_stage *s = &p->stages[stage];
	const struct espl_bracket *bracket = p->task->experiment->spec->brackets[s->bracket];
	struct espl_speed_query query = ESPL_INIT(struct espl_speed_query);
	struct espl_speed speed = ESPL_INIT(struct espl_speed);
	double earlier = 0.0, all;
	uint32_t i;

	for (i = 0; i < s->stage; i++)
		earlier += (double)bracket->stages[i]->iterations;
	all = earlier + (double)bracket->stages[s->stage]->iterations;
	query.offer = p->number;
	query.experiment = p->task->experiment->id;
	query.trial = ESPL_NONE;
	query.share.gpus = cell->gpus_per_trial;
	query.share.packing = 1;
	if (p->task->model->speed == NULL ||
	    p->task->model->speed(p->task->model, &query, &speed) != ESPL_OK)
		return 0.0;
	return fabs(work_s - all * speed.iteration_s) <
		fabs(work_s - (all - earlier) * speed.iteration_s)
	    ? work_s * earlier / all
	    : 0.0;
}

/* The saving if `stage` continues in the gangs of the stage before. When billed by GPU-seconds, the
 * gangs of that stage are charged until its barrier ends, which may cost more than is saved. */
static void
set_gain(const struct planner_problem *p, uint32_t stage, const struct espl_cell *before,
    const struct espl_cell *cell, const struct espl_overheads *o, struct planner_gain *gain)
{
	const struct planner_stage *s = &p->stages[stage];
	double enter = o->start_s + o->restore_s;

	enter += repeated_work(p, stage, cell, cell->mean_s - enter - o->save_s - o->sync_s);
	gain->gpus_per_trial = cell->gpus_per_trial;
	gain->leave_s = stage > 0 ? o->save_s : 0.0;
	gain->enter_s = enter;
	gain->usd = p->gpu_usd_s * cell->gpus_per_trial * s->trials * (gain->leave_s + enter);
	if (before != NULL)
		gain->usd -= p->gpu_usd_s *
		    (s->trials_before * (double)cell->gpus_per_trial * before->mean_s -
			before->busy_gpu_s);
}

/* Whether the stage before can have the same layout as this one with `gpus`, all trials at once.
 * The stage before the first has only one layout, and its cost is already spent: *twin is NULL
 * then. */
static int
has_twin(const struct planner_problem *p, uint32_t stage, uint32_t gpus,
    const struct espl_cell **twin)
{
	const struct espl_cell *cell = planner_cell(p, stage, gpus);
	uint32_t a = (cell->nodes - 1) * p->offer->gpus + 1, last = cell->nodes * p->offer->gpus;

	*twin = NULL;
	if (stage == 0)
		return (p->before.flags & ESPL_CELL_INVALID) == 0 &&
		    p->before.nodes == cell->nodes &&
		    p->before.gpus_per_trial == cell->gpus_per_trial &&
		    cell->nodes <= p->held_count && p->before.slots == p->stages[0].trials_before;
	for (; a <= last && a <= p->limit; a++) {
		*twin = planner_cell(p, stage - 1, a);
		if (holds_all_trials(p, stage - 1, a) && (*twin)->nodes == cell->nodes &&
		    (*twin)->gpus_per_trial == cell->gpus_per_trial)
			return 1;
	}
	return 0;
}

static espl_status
load_gains(struct planner_problem *p)
{
	struct espl_overheads overheads = ESPL_INIT(struct espl_overheads);
	const struct espl_model *model = p->task->model;
	uint32_t i, k, a;

	if (model->overheads == NULL ||
	    model->overheads(model, p->task->experiment->id, p->number, &overheads) != ESPL_OK)
		return ESPL_OK;
	for (i = 0; i < p->stage_count; i++) {
		struct planner_stage *s = &p->stages[i];

		for (a = 1; a <= p->limit && s->trials_before >= s->trials; a++) {
			const struct espl_cell *cell = planner_cell(p, i, a), *twin;

			if (!holds_all_trials(p, i, a))
				continue;
			for (k = 0; k < s->gain_count; k++)
				if (s->gains[k].gpus_per_trial == cell->gpus_per_trial)
					break;
			if (k < s->gain_count || !has_twin(p, i, a, &twin))
				continue;
			if (s->gains == NULL)
				s->gains = calloc(p->limit, sizeof *s->gains);
			if (s->gains == NULL)
				return ESPL_E_NOMEM;
			set_gain(p, i, twin, cell, &overheads, &s->gains[s->gain_count++]);
			p->losses |= s->gains[s->gain_count - 1].usd < 0;
		}
	}
	return ESPL_OK;
}

/* ---- together ----------------------------------------------------------------------------- */

espl_status
planner_problem_load(struct planner_problem *p, const struct planner_task *task, uint32_t offer,
    uint32_t bracket, uint32_t limit)
{
	espl_status status;

	memset(p, 0, sizeof *p);
	p->task = task;
	p->offer = task->offers[offer];
	p->number = offer;
	p->limit = limit;
	p->constant = 1;
	if (limit == 0 || p->offer->gpus == 0)
		return ESPL_E_INFEASIBLE;
	load_terms(p);
	status = list_stages(p, bracket);
	if (status == ESPL_OK)
		status = load_cells(p);
	if (status == ESPL_OK)
		status = load_held(p, bracket);
	if (status == ESPL_OK)
		status = load_before(p);
	if (status == ESPL_OK)
		status = load_leads(p);
	if (status == ESPL_OK && p->warm)
		status = load_gains(p);
	return status;
}

void
planner_problem_free(struct planner_problem *p)
{
	uint32_t i;

	for (i = 0; i < p->stage_count; i++) {
		free(p->stages[i].cells);
		free(p->stages[i].gains);
	}
	free(p->stages);
	free(p->lead_s);
	free(p->held);
	free(p->leases);
	memset(p, 0, sizeof *p);
}

/* ---- value ----------------------------------------------------------------------------------- */

double
planner_release(const struct planner_problem *p, struct planner_lease *leases, uint32_t *first,
    uint32_t nodes, double at_s)
{
	double usd = 0.0;

	while (nodes > 0) {
		struct planner_lease *oldest = &leases[*first];
		uint32_t take = oldest->nodes < nodes ? oldest->nodes : nodes;

		usd += take * p->node_usd_s * planner_billable(p, at_s - oldest->from_s);
		oldest->nodes -= take;
		nodes -= take;
		if (oldest->nodes == 0)
			++*first;
	}
	return usd;
}

/* The nodes that are held at the start and used by the first stage: the youngest. The others are
 * released at once, and their cost is already spent. Returns how many are kept. */
static uint32_t
take_held(const struct planner_problem *p, uint32_t nodes, struct planner_lease *leases)
{
	uint32_t i, kept = p->held_count < nodes ? p->held_count : nodes;

	for (i = 0; i < kept; i++) {
		leases[i].nodes = 1;
		leases[i].from_s = -p->held[p->held_count - kept + i];
	}
	return kept;
}

/* The part of the cost of held nodes that is already spent. */
static double
spent_on(const struct planner_problem *p, uint32_t kept)
{
	double usd = 0.0;
	uint32_t i;

	for (i = p->held_count - kept; i < p->held_count; i++)
		usd += p->node_usd_s * planner_billable(p, p->held[i]);
	return usd;
}

int
planner_evaluate(const struct planner_problem *p, const uint32_t *gpus, struct planner_value *value)
{
	const struct espl_cell *before = NULL, *cell;
	struct planner_lease *leases = p->leases;
	uint32_t i, first = 0, count = 0, nodes = 0;
	double now = 0.0, train = 0.0, usd = 0.0;

	planner_spend(p, p->stage_count);
	for (i = 0; i < p->stage_count; i++, before = cell) {
		const struct planner_gain *gain = NULL;

		cell = planner_cell(p, i, gpus[i]);
		if ((cell->flags & ESPL_CELL_INVALID) != 0)
			return 0;
		if (i == 0) {
			nodes = count = take_held(p, cell->nodes, leases);
			usd = -spent_on(p, count);
			before = &p->before;
		}
		gain = planner_goes_on(p, i, before, cell);
		if (gain != NULL) {
			now -= gain->leave_s;
			usd -= gain->usd;
		}
		if (cell->nodes > nodes && !p->sold)
			return 0;
		if (cell->nodes > nodes) {
			double billed, wait = planner_lead(p, cell->nodes - nodes, &billed);

			if (p->ahead && i > 0)
				wait = wait > now - train ? wait - (now - train) : 0.0;
			now += wait;
			leases[count].nodes = cell->nodes - nodes;
			leases[count++].from_s = now - billed;
			usd += p->data_usd * (cell->nodes - nodes);
		} else if (!p->by_function) {
			usd += planner_release(p, leases, &first, nodes - cell->nodes, now);
		}
		nodes = cell->nodes;
		train = now;
		now += cell->mean_s - (gain != NULL ? gain->enter_s : 0.0);
		usd += p->gpu_usd_s * cell->busy_gpu_s;
	}
	if (!p->by_function)
		usd += planner_release(p, leases, &first, nodes, now);
	value->time_s = now;
	value->cost_usd = usd;
	return 1;
}
