/* forecast_course.c - a plan laid out in time: the order of stages, and the nodes that arrive, stay
 * and leave between them. None of this is random. */
#include "base/assert.h"
#include "forecast/forecast_impl.h"

#define CONFIG(...) espl__fail(diag, ESPL_E_CONFIG, __VA_ARGS__)

static int
is_over(const struct espl__forecast *f, const struct espl__stage_table *t)
{
	return f->setup.next_stage != NULL && t->number < f->setup.next_stage[t->bracket];
}

/* ---- a stage that has begun ------------------------------------------------------------ */

static const struct espl_plan_stage *
row_in_force(const struct espl__forecast *f, uint32_t bracket, uint32_t stage)
{
	for (uint32_t i = 0; i < f->setup.plan->stage_count; i++)
		if (f->setup.plan->stages[i]->bracket == bracket &&
		    f->setup.plan->stages[i]->stage == stage)
			return f->setup.plan->stages[i];
	return NULL;
}

static int
lay_out(const struct espl__forecast *f, const struct espl_plan_stage *p,
    const struct espl__stage_table *t, struct espl__forecast_stage *view)
{
	*view = (struct espl__forecast_stage){ .bracket = t->bracket,
		.stage = t->number,
		.offer = p->offer,
		.nodes = p->nodes,
		.gpus_per_trial = p->gpus_per_trial };
	return espl__plan_layout(f->setup.offers[p->offer], t->stage->trials, p->gpus,
	    f->setup.gpus_min, f->setup.gpus_max, f->setup.colocate, view);
}

const struct espl_plan_stage *
espl__begun(const struct espl__forecast *f, uint32_t table, double *past_s, int *warm)
{
	const struct espl__stage_table *t = &f->tables[table];
	const struct espl_plan_stage *row, *last;
	struct espl__forecast_stage before, now;

	ESPL__CHECK(f, FORECAST);
	if (f->setup.past_s == NULL || f->setup.plan == NULL || f->setup.next_stage == NULL ||
	    f->setup.next_stage[t->bracket] != t->number || !(f->setup.past_s[t->bracket] >= 0))
		return NULL;
	row = row_in_force(f, t->bracket, t->number);
	if (row == NULL || row->offer >= f->setup.offer_count ||
	    f->setup.offers[row->offer] == NULL || lay_out(f, row, t, &now) != 0)
		return NULL;
	*past_s = f->setup.past_s[t->bracket];
	last = t->number > 0 && f->setup.warm ? row_in_force(f, t->bracket, t->number - 1) : NULL;
	*warm = last != NULL && last->offer == row->offer &&
	    lay_out(f, last, t - 1, &before) == 0 &&
	    espl__plan_goes_on(&before, t[-1].stage->trials, &now, t->stage->trials);
	return row;
}

/* ---- the plan's entries -------------------------------------------------------------- */

static espl_status
find_places(struct espl__forecast *f, const struct espl_plan *plan, struct espl__diag *diag)
{
	const struct espl_spec *spec = f->setup.spec;

	memset(f->places, 0xff, f->table_count * sizeof *f->places);
	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *p = plan->stages[i];
		uint32_t *place;

		if (p->bracket >= spec->bracket_count ||
		    p->stage >= spec->brackets[p->bracket]->stage_count)
			return CONFIG("stage %u of bracket %u is planned, but does not exist",
			    p->stage, p->bracket);
		place = &f->places[f->first_table[p->bracket] + p->stage];
		if (*place != ESPL_ANY)
			return CONFIG("the plan contains stage %u of bracket %u twice", p->stage,
			    p->bracket);
		if (p->offer >= f->setup.offer_count || f->setup.offers[p->offer] == NULL)
			return CONFIG("offer %u of the plan does not exist (stage %u, bracket %u)",
			    p->offer, p->stage, p->bracket);
		*place = i;
	}
	for (uint32_t i = 0; i < f->table_count; i++)
		if (f->places[i] == ESPL_ANY && !is_over(f, &f->tables[i]))
			return CONFIG("the plan leaves out stage %u of bracket %u",
			    f->tables[i].number, f->tables[i].bracket);
	return ESPL_OK;
}

/* Why a stage cannot be placed, and what would do. */
static espl_status
refuse_stage(const struct espl__forecast *f, const struct espl_plan_stage *p,
    const struct espl__stage_table *t, struct espl__diag *diag)
{
	const struct espl_offer *offer = f->setup.offers[p->offer];
	const char *name = offer->name != NULL ? offer->name : "";
	struct espl__forecast_stage view;
	struct espl_plan_stage less = *p;
	uint64_t nodes = p->nodes > 0 || offer->gpus == 0
	    ? p->nodes
	    : ((uint64_t)p->gpus + offer->gpus - 1) / offer->gpus;
	uint64_t most = 2 * ((uint64_t)f->setup.gpus_min + offer->gpus);

	if (nodes > offer->nodes_max)
		return espl__fail(diag, ESPL_E_INFEASIBLE,
		    "stage %u of bracket %u: offer '%s' has fewer nodes than needed (%u, not %llu)",
		    t->number, t->bracket, name, offer->nodes_max, (unsigned long long)nodes);
	less.gpus_per_trial = less.nodes = 0;
	for (less.gpus = 1; less.gpus < most && lay_out(f, &less, t, &view) != 0;)
		less.gpus++;
	if (less.gpus < most && less.gpus > p->gpus)
		return espl__fail(diag, ESPL_E_INFEASIBLE,
		    "stage %u of bracket %u cannot be placed on %u GPU%s of offer '%s'; "
		    "a trial needs at least %u",
		    t->number, t->bracket, p->gpus, p->gpus == 1 ? "" : "s", name, less.gpus);
	return espl__fail(diag, ESPL_E_INFEASIBLE,
	    "stage %u of bracket %u, %u trial%s, cannot be placed on %u GPU%s of offer '%s'",
	    t->number, t->bracket, t->stage->trials, t->stage->trials == 1 ? "" : "s", p->gpus,
	    p->gpus == 1 ? "" : "s", name);
}

static espl_status
lay_steps(struct espl__forecast *f, const struct espl_plan *plan, struct espl__diag *diag)
{
	int parallel = (f->setup.spec->flags & ESPL_SPEC_PARALLEL) != 0;

	f->step_count = 0;
	for (uint32_t i = 0; i < f->table_count; i++) {
		const struct espl__stage_table *t = &f->tables[i];
		struct espl__step *step = &f->steps[f->step_count];
		const struct espl_plan_stage *p, *begun;
		int warm;

		if (is_over(f, t))
			continue;
		p = plan->stages[f->places[i]];
		memset(step, 0, sizeof *step);
		step->place = f->places[i];
		step->table = i;
		step->terms = &f->terms[p->offer];
		step->first =
		    f->step_count == 0 || (parallel && step[-1].view.bracket != t->bracket);
		if (lay_out(f, p, t, &step->view) != 0)
			return refuse_stage(f, p, t, diag);
		begun = espl__begun(f, i, &step->past_s, &warm);
		if (begun != NULL && (begun->offer != p->offer || begun->gpus != p->gpus))
			return espl__fail(diag, ESPL_E_INFEASIBLE,
			    "stage %u of bracket %u cannot be moved: it runs on %u GPUs (offer %u)",
			    t->number, t->bracket, begun->gpus, begun->offer);
		step->warm |= begun != NULL && warm ? ESPL__WARM_BEFORE : 0;
		f->step_count++;
	}
	return ESPL_OK;
}

/* ---- nodes --------------------------------------------------------------------------- */

/* Releases the `count` oldest nodes at the end of `step`; ESPL_ANY: before the first, unused. */
static void
give_back(struct espl__forecast *f, uint32_t count, uint32_t step)
{
	while (count > 0) {
		struct espl__holding *oldest = &f->living[f->living_head];
		uint32_t size = oldest->to - oldest->from, take = size < count ? size : count;
		struct espl__holding *gone = &f->holdings[f->holding_count++];

		*gone = *oldest;
		gone->to = gone->from + take;
		gone->last_step = step;
		oldest->from += take;
		if (oldest->from == oldest->to)
			f->living_head++;
		count -= take;
	}
}

static void
take_fresh(struct espl__forecast *f, uint32_t index)
{
	struct espl__step *step = &f->steps[index];

	if (step->fresh == 0)
		return;
	f->living[f->living_tail++] =
	    (struct espl__holding){ .from_step = index, .to = step->fresh, .terms = step->terms };
}

/* The first step takes the youngest of the held nodes of its offer that nobody took yet.  They
 * are marked in `order`, which has room: what is not taken goes at once and costs no more. */
static void
take_held(struct espl__forecast *f, struct espl__step *step, uint8_t *taken)
{
	uint32_t want = step->view.nodes, first = f->setup.held_count;

	f->living_head = f->living_tail = 0;
	while (first > 0 && step->kept < want) {
		first--;
		if (f->setup.held[first].offer == step->view.offer && !taken[first] &&
		    (f->setup.held[first].own == 0 ||
			f->setup.held[first].own == step->view.bracket + 1)) {
			taken[first] = 1;
			step->kept++;
		}
	}
	for (uint32_t i = first, n = 0; i < f->setup.held_count && n < step->kept; i++) {
		if (f->setup.held[i].offer != step->view.offer || taken[i] != 1)
			continue;
		taken[i] = 2;
		f->taker[i] = (uint32_t)(step - f->steps) + 1;
		n++;
		f->living[f->living_tail++] = (struct espl__holding){ .from_step = ESPL_ANY,
			.from = i,
			.to = i + 1,
			.terms = step->terms };
	}
}

static espl_status
lay_nodes(struct espl__forecast *f, struct espl__diag *diag)
{
	uint32_t living = 0;

	f->holding_count = 0;
	memset(f->taken, 0, f->setup.held_count);
	memset(f->taker, 0, f->setup.held_count * sizeof *f->taker);
	for (uint32_t i = 0; i < f->step_count; i++) {
		struct espl__step *step = &f->steps[i];
		uint32_t nodes = step->view.nodes;

		if (step->first) {
			if (i > 0)
				give_back(f, living, i - 1);
			take_held(f, step, f->taken);
		} else if (step[-1].view.offer != step->view.offer) {
			give_back(f, living, i - 1);
		} else {
			step->kept = living < nodes ? living : nodes;
			give_back(f, living - step->kept, i - 1);
		}
		step->fresh = nodes - step->kept;
		if (f->setup.idle && step->past_s > 0) /* what is missing has gone already */
			step->fresh = 0;
		living = step->kept + step->fresh;
		take_fresh(f, i);
		if (step->fresh > 0 && (step->terms->offer->flags & ESPL_OFFER_GONE) != 0)
			return espl__fail(diag, ESPL_E_INFEASIBLE,
			    "offer '%s' is no longer available, but stage %u of bracket %u needs "
			    "%u more of its nodes",
			    step->terms->offer->name != NULL ? step->terms->offer->name : "",
			    step->view.stage, step->view.bracket, step->fresh);
	}
	if (f->step_count > 0)
		give_back(f, living, f->step_count - 1);
	return ESPL_OK;
}

/* Brackets side by side have nodes of their own: together no more than the offer has.  Each counts
 * with its largest stage: which stages will run at the same time is not certain. */
static espl_status
check_quotas(const struct espl__forecast *f, struct espl__diag *diag)
{
	uint64_t sum = 0;
	uint32_t peak = 0;

	if ((f->setup.spec->flags & ESPL_SPEC_PARALLEL) == 0)
		return ESPL_OK;
	for (uint32_t offer = 0; offer < f->setup.offer_count; offer++, sum = 0) {
		const struct espl_offer *o = f->setup.offers[offer];

		for (uint32_t i = 0; i < f->step_count; i++) {
			const struct espl__step *step = &f->steps[i];

			peak = step->first ? 0 : peak;
			if (step->view.offer != offer || step->view.nodes <= peak)
				continue;
			sum += step->view.nodes - peak;
			peak = step->view.nodes;
		}
		if (o != NULL && sum > o->nodes_max)
			return espl__fail(diag, ESPL_E_INFEASIBLE,
			    "the brackets together take %llu nodes of offer '%s', which has %u",
			    (unsigned long long)sum, o->name != NULL ? o->name : "", o->nodes_max);
	}
	return ESPL_OK;
}

/* ---- gangs and times ----------------------------------------------------------------- */

/* Whether the step continues in the gangs of a completed stage; its nodes must still be held. */
static int
keeps_past_gangs(const struct espl__forecast *f, const struct espl_plan *plan,
    const struct espl__step *step)
{
	const struct espl__stage_table *t = &f->tables[step->table];
	struct espl__forecast_stage before;

	if (t->number == 0 || step->fresh > 0 || f->places[step->table - 1] == ESPL_ANY)
		return 0;
	return lay_out(f, plan->stages[f->places[step->table - 1]], t - 1, &before) == 0 &&
	    espl__plan_goes_on(&before, t[-1].stage->trials, &step->view, t->stage->trials);
}

static void
lay_gangs(struct espl__forecast *f, const struct espl_plan *plan)
{
	for (uint32_t i = 0; i < f->step_count; i++) {
		struct espl__step *step = &f->steps[i];
		const struct espl__stage_table *t = &f->tables[step->table];

		if (i > 0 && step[-1].view.bracket == step->view.bracket)
			step->view.warm = espl__plan_goes_on(&step[-1].view, t[-1].stage->trials,
			    &step->view, t->stage->trials);
		else
			step->view.warm = (step->warm & ESPL__WARM_BEFORE) != 0 ||
			    keeps_past_gangs(f, plan, step);
		if (!step->view.warm)
			continue;
		step->warm |= ESPL__WARM_BEFORE;
		if (i > 0 && step[-1].view.bracket == step->view.bracket)
			step[-1].warm |= ESPL__WARM_AFTER;
	}
}

static double
mean_lead(struct espl__forecast *f, struct espl__terms *terms, uint32_t nodes)
{
	return terms->random ? espl__boot_row(f, terms, nodes)->mean_ready : terms->ready_s;
}

/* Which nodes stay to the end of a step: as many as the next one has of the same offer. */
static void
lay_floors(struct espl__forecast *f)
{
	for (uint32_t i = 0; i < f->step_count; i++) {
		struct espl__step *step = &f->steps[i];
		const struct espl__step *next = i + 1 < f->step_count ? step + 1 : NULL;

		step->floor = next != NULL && !next->first && next->view.offer == step->view.offer
		    ? next->view.nodes
		    : 0;
		step->releases = (uint32_t)espl__slot_layout_of(f, step, &step->layout);
	}
}

static void
lay_times(struct espl__forecast *f)
{
	for (uint32_t i = f->step_count; i-- > 0;) {
		struct espl__step *step = &f->steps[i];
		struct espl__step *next =
		    step + 1 < f->steps + f->step_count && !step[1].first ? step + 1 : NULL;
		double before;

		step->timing = espl__timing(f, step->table, step->terms, step->view.gpus_per_trial,
		    step->view.slots, step->warm);
		step->sample_mask = f->tables[step->table].samples - 1;
		step->sample_turn = (uint32_t)espl__mix_bits(step->table + 1);
		step->view.asks_s = step->timing->mean;
		if (!f->setup.ahead || next == NULL || next->fresh == 0)
			continue;
		before = step->timing->mean - mean_lead(f, next->terms, next->fresh);
		step->view.asks_s = before > 0 ? before : 0.0;
		next->ahead = 1;
	}
}

espl_status
espl__course_lay(struct espl__forecast *f, const struct espl_plan *plan, struct espl__diag *diag)
{
	espl_status status = find_places(f, plan, diag);

	ESPL__CHECK(f, FORECAST);
	if (status == ESPL_OK)
		status = lay_steps(f, plan, diag);
	if (status == ESPL_OK)
		status = lay_nodes(f, diag);
	if (status == ESPL_OK)
		status = check_quotas(f, diag);
	if (status != ESPL_OK)
		return status;
	if (f->setup.warm)
		lay_gangs(f, plan);
	if (f->setup.idle)
		lay_floors(f);
	lay_times(f);
	return ESPL_OK;
}
