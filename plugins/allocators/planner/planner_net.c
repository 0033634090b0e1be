/* planner_net.c - the useful choices of every stage, and improving a path through them by small
 * changes. */
#include <espalier/kit/array.h>
#include "planner_private.h"

#define NO_WAY 1e30 /* seconds until nodes come that are not sold */

/* ---- which choices ------------------------------------------------------------------------ */

static int
all_stand(const struct planner_problem *p, uint32_t stage, const struct espl_cell *cell)
{
	return (cell->flags & ESPL_CELL_INVALID) == 0 && cell->slots == p->stages[stage].trials;
}

/* GPUs of a gang, if its trials could continue in the gangs of the stage before or into those of
 * the next. */
static uint32_t
gangs(const struct planner_problem *p, uint32_t stage, const struct espl_cell *cell)
{
	uint32_t a, last = cell->nodes * p->offer->gpus, side;

	if (!p->warm || !all_stand(p, stage, cell))
		return 0;
	if (stage == 0 && planner_goes_on(p, 0, &p->before, cell) != NULL)
		return cell->gpus_per_trial;
	for (side = 0; side < 2; side++) {
		uint32_t other = side == 0 ? stage - 1 : stage + 1;

		if (other >= p->stage_count)
			continue;
		for (a = (cell->nodes - 1) * p->offer->gpus + 1; a <= last && a <= p->limit; a++) {
			const struct espl_cell *c = planner_cell(p, other, a);

			if (all_stand(p, other, c) && c->nodes == cell->nodes &&
			    c->gpus_per_trial == cell->gpus_per_trial)
				return cell->gpus_per_trial;
		}
	}
	return 0;
}

/* Whether `by` is at least as good as `a`, on as many nodes. */
static int
is_needless(const struct planner_net *net, const struct planner_choice *a,
    const struct planner_choice *by)
{
	return by->time_s <= a->time_s * (1 + PLANNER_NOISE) &&
	    by->cost_usd <= a->cost_usd * (1 + PLANNER_NOISE) &&
	    (a->gangs == by->gangs || (a->gangs == 0 && !net->problem->losses));
}

static espl_status
room_for(struct planner_row *row, uint32_t count)
{
	struct planner_choice *choices =
	    espl_array_grow(row->choices, &row->room, count, sizeof *choices);

	if (choices == NULL)
		return ESPL_E_NOMEM;
	row->choices = choices;
	return ESPL_OK;
}

/* Adds it unless one with as many nodes is as good; removes those that it dominates. */
static espl_status
add_choice(const struct planner_net *net, struct planner_row *row,
    const struct planner_choice *choice)
{
	uint32_t i, kept, first = row->count;
	espl_status status;

	while (first > 0 && row->choices[first - 1].nodes == choice->nodes)
		first--;
	for (i = first; i < row->count; i++)
		if (is_needless(net, choice, &row->choices[i]))
			return ESPL_OK;
	for (kept = i = first; i < row->count; i++)
		if (!is_needless(net, &row->choices[i], choice))
			row->choices[kept++] = row->choices[i];
	row->count = kept;
	status = room_for(row, kept + 1);
	if (status == ESPL_OK)
		row->choices[row->count++] = *choice;
	return status;
}

static double
price_of_cell(const struct planner_problem *p, const struct espl_cell *cell)
{
	return p->by_function ? p->gpu_usd_s * cell->busy_gpu_s
			      : p->node_usd_s * cell->nodes * cell->mean_s;
}

static espl_status
fill_row(struct planner_net *net, uint32_t stage)
{
	const struct planner_problem *p = net->problem;
	struct planner_row *row = &net->rows[stage];
	espl_status status = ESPL_OK;
	uint32_t a;

	for (a = 1; a <= p->limit && status == ESPL_OK; a++) {
		const struct espl_cell *cell = planner_cell(p, stage, a);
		struct planner_choice choice = { 0 };

		if ((cell->flags & ESPL_CELL_INVALID) != 0 ||
		    (net->fair && !planner_is_fair(a, p->stages[stage].trials)))
			continue;
		choice.gpus = a;
		choice.nodes = cell->nodes;
		choice.gangs = gangs(p, stage, cell);
		choice.onward = PLANNER_NONE;
		choice.time_s = cell->mean_s;
		choice.cost_usd = price_of_cell(p, cell);
		status = add_choice(net, row, &choice);
	}
	return status == ESPL_OK && row->count == 0 ? ESPL_E_INFEASIBLE : status;
}

/* ---- where nothing is remembered from stage to stage -------------------------------------- */

static int
by_time(const void *a, const void *b)
{
	const struct planner_choice *x = a, *y = b;

	if (x->time_s != y->time_s)
		return x->time_s < y->time_s ? -1 : 1;
	if (x->cost_usd != y->cost_usd)
		return x->cost_usd < y->cost_usd ? -1 : 1;
	return x->gpus < y->gpus ? -1 : x->gpus > y->gpus;
}

static int
by_nodes(const void *a, const void *b)
{
	const struct planner_choice *x = a, *y = b;

	if (x->nodes != y->nodes)
		return x->nodes < y->nodes ? -1 : 1;
	return x->gpus < y->gpus ? -1 : x->gpus > y->gpus;
}

/* New nodes take no time and cost nothing extra: the number of earlier nodes does not matter. */
static void
drop_dominated(struct planner_row *row)
{
	uint32_t i, kept = 1;

	qsort(row->choices, row->count, sizeof *row->choices, by_time);
	for (i = 1; i < row->count; i++)
		if (row->choices[i].cost_usd <
		    row->choices[kept - 1].cost_usd * (1 - PLANNER_NOISE))
			row->choices[kept++] = row->choices[i];
	row->count = kept;
	qsort(row->choices, row->count, sizeof *row->choices, by_nodes);
}

/* ---- what leads from one to the next ------------------------------------------------------ */

static int
same_gangs(const struct planner_choice *before, const struct planner_choice *after)
{
	return after->gangs > 0 && before->gangs == after->gangs && before->nodes == after->nodes;
}

static const struct planner_gain *
gain_of(const struct planner_net *net, uint32_t stage, const struct planner_choice *choice)
{
	const struct planner_problem *p = net->problem;
	const struct planner_row *before = stage > 0 ? &net->rows[stage - 1] : NULL;
	uint32_t i;

	if (stage == 0)
		return planner_goes_on(p, 0, &p->before, planner_cell(p, 0, choice->gpus));
	for (i = 0; choice->gangs > 0 && i < before->count; i++)
		if (same_gangs(&before->choices[i], choice))
			return planner_goes_on(p, stage,
			    planner_cell(p, stage - 1, before->choices[i].gpus),
			    planner_cell(p, stage, choice->gpus));
	return NULL;
}

/* Adds, after each choice into which trials may continue, the variant in which they do. */
static espl_status
add_warm(struct planner_net *net, uint32_t stage)
{
	const struct planner_problem *p = net->problem;
	struct planner_row *row = &net->rows[stage], old = *row;
	espl_status status = ESPL_OK;
	uint32_t i;

	memset(row, 0, sizeof *row);
	for (i = 0; i < old.count && status == ESPL_OK; i++) {
		const struct planner_gain *gain = gain_of(net, stage, &old.choices[i]);
		struct planner_choice *choice;

		status = room_for(row, row->count + 2);
		if (status != ESPL_OK)
			break;
		choice = &row->choices[row->count];
		*choice = old.choices[i];
		choice->base = row->count++;
		if (gain == NULL)
			continue;
		choice[1] = choice[0];
		choice[1].time_s -= gain->enter_s;
		choice[1].cost_usd -= p->node_usd_s * choice->nodes * gain->enter_s;
		row->count++;
	}
	free(old.choices);
	return status;
}

static void
set_waits(const struct planner_problem *p, struct planner_choice *choice, int first)
{
	double wait = p->sold ? p->lead_s[0] : NO_WAY,
	       each = p->node_usd_s * p->billed_s[0] + p->data_usd;

	choice->come_usd = choice->nodes * each;
	if (p->ahead && !first)
		wait = wait > choice->time_s ? wait - choice->time_s : 0.0;
	choice->wait_s = wait;
	choice->wait_usd =
	    (p->sold ? choice->nodes * p->node_usd_s * wait : 0.0) - choice->nodes * each;
}

static void
link_rows(struct planner_net *net, uint32_t stage)
{
	const struct planner_problem *p = net->problem;
	struct planner_row *row = &net->rows[stage], *next = row + 1;
	uint32_t i, k, above = 0;

	for (i = 0; i < row->count; i++) {
		struct planner_choice *choice = &row->choices[i];

		while (above < next->count && next->choices[above].nodes <= choice->nodes)
			above++;
		choice->above = above;
		for (k = above;
		     choice->gangs > 0 && k-- > 0 && next->choices[k].nodes == choice->nodes;)
			if (next->choices[k].base != k && same_gangs(choice, &next->choices[k])) {
				const struct planner_gain *gain = planner_goes_on(p, stage + 1,
				    planner_cell(p, stage, choice->gpus),
				    planner_cell(p, stage + 1, next->choices[k].gpus));

				if (gain == NULL)
					continue;
				choice->onward = k;
				choice->onward_s = gain->leave_s;
				choice->onward_usd =
				    gain->usd + p->node_usd_s * choice->nodes * gain->leave_s;
			}
	}
	for (i = 0, k = 0; k < next->count; k++) {
		while (i < row->count && row->choices[i].nodes < next->choices[k].nodes)
			i++;
		next->choices[k].from = i;
	}
}

/* What is held at the beginning. */
static void
set_start(struct planner_net *net)
{
	const struct planner_problem *p = net->problem;
	const struct planner_row *first = &net->rows[0];
	struct planner_choice *start = &net->start;
	uint32_t k;

	start->nodes = p->held_count;
	start->onward = PLANNER_NONE;
	set_waits(p, start, 1);
	while (start->above < first->count && first->choices[start->above].nodes <= p->held_count)
		start->above++;
	for (k = 0; k < first->count; k++)
		/* of the one layout with which trials go on */
		if (first->choices[k].base != k) {
			start->onward = k;
			start->onward_usd = gain_of(net, 0, &first->choices[k])->usd;
		}
}

/* ---- together ----------------------------------------------------------------------------- */

espl_status
planner_net_make(struct planner_net *net, struct planner_problem *p, int fair)
{
	int free_nodes =
	    p->lead_count == 1 && p->lead_s[0] <= 0 && p->data_usd <= 0 && p->sold && !p->warm;
	uint32_t i, k;
	espl_status status = ESPL_OK;

	memset(net, 0, sizeof *net);
	net->problem = p;
	net->fair = fair != 0;
	net->linear = p->by_function ? p->lead_count == 1 && !p->losses
				     : p->lead_count == 1 && p->minimum_s <= 0 && p->step_ns <= 0;
	net->rows = calloc((size_t)p->stage_count + 1, sizeof *net->rows);
	if (net->rows == NULL)
		return ESPL_E_NOMEM;
	net->row_count = p->stage_count;
	for (i = 0; i < p->stage_count && status == ESPL_OK; i++) {
		status = fill_row(net, i);
		if (status == ESPL_OK && free_nodes && net->linear)
			drop_dominated(&net->rows[i]);
		for (k = 0; k < net->rows[i].count; k++)
			net->rows[i].choices[k].base = k;
	}
	for (i = p->stage_count; p->warm && i-- > 0 && status == ESPL_OK;)
		status = add_warm(net, i);
	for (i = 0; i < p->stage_count && status == ESPL_OK; i++) {
		for (k = 0; k < net->rows[i].count; k++)
			set_waits(p, &net->rows[i].choices[k], 0);
		link_rows(net, i);
		if (net->rows[i].count > net->widest)
			net->widest = net->rows[i].count;
	}
	if (status == ESPL_OK)
		set_start(net);
	return status;
}

void
planner_net_free(struct planner_net *net)
{
	uint32_t i;

	for (i = 0; i < net->row_count; i++)
		free(net->rows[i].choices);
	free(net->rows);
	memset(net, 0, sizeof *net);
}

/* The first choice with at least this many nodes, or the last one. */
static uint32_t
first_with(const struct planner_row *row, uint32_t nodes)
{
	uint32_t low = 0, high = row->count - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (row->choices[middle].nodes < nodes)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t
planner_net_find(const struct planner_net *net, uint32_t stage, uint32_t gpus)
{
	const struct planner_problem *p = net->problem;
	const struct planner_row *row = &net->rows[stage];
	const struct espl_cell *cell = planner_cell(p, stage, gpus);
	uint32_t i, n, first;
	double usd;

	if ((cell->flags & ESPL_CELL_INVALID) != 0)
		return row->choices[0].base;
	usd = price_of_cell(p, cell);
	first = first_with(row, cell->nodes);
	for (n = 0, i = first; n < row->count; n++, i = i + 1 < row->count ? i + 1 : 0)
		if (row->choices[i].base == i &&
		    row->choices[i].time_s <= cell->mean_s * (1 + PLANNER_NOISE) &&
		    row->choices[i].cost_usd <= usd * (1 + PLANNER_NOISE))
			return i;
	return row->choices[first].base;
}

/* ---- improve --------------------------------------------------------------------------------- */

espl_status
planner_found_make(struct planner_found *found, const struct planner_net *net)
{
	memset(found, 0, sizeof *found);
	found->path = calloc((size_t)net->row_count + 1, sizeof *found->path);
	found->gpus = calloc((size_t)net->row_count + 1, sizeof *found->gpus);
	if (found->path != NULL && found->gpus != NULL)
		return ESPL_OK;
	planner_found_free(found);
	return ESPL_E_NOMEM;
}

void
planner_found_free(struct planner_found *found)
{
	free(found->path);
	free(found->gpus);
	memset(found, 0, sizeof *found);
}

/* The GPUs of a path. */
static void
lay_path(struct planner_found *found, const struct planner_net *net, const uint32_t *path)
{
	uint32_t i;

	for (i = 0; i < net->row_count; i++)
		found->gpus[i] = net->rows[i].choices[path[i]].gpus;
}

/* Whether the allocation in `gpus` is within the time limit and better than the best known one. */
static int
is_better(struct planner_found *found, const struct planner_net *net, double time_s,
    struct planner_value *value)
{
	found->looked++;
	return planner_evaluate(net->problem, found->gpus, value) && value->time_s <= time_s &&
	    (!found->known || planner_better(value, &found->value));
}

int
planner_found_try(struct planner_found *found, const struct planner_net *net, const uint32_t *path,
    double time_s)
{
	lay_path(found, net, path);
	found->tried.time_s = found->tried.cost_usd = INFINITY;
	if (!is_better(found, net, time_s, &found->tried))
		return 0;
	memcpy(found->path, path, net->row_count * sizeof *path);
	found->value = found->tried;
	found->known = 1;
	return 1;
}

/* ---- changes ------------------------------------------------------------------------------ */

/* The n-th choice away from this one: 1 up, 1 down, 2 up, 2 down, 4 up, ...; NONE: it does not
 * exist; *over: nor do later ones. */
static uint32_t
move_choice(const struct planner_row *row, uint32_t at, uint32_t n, int *over)
{
	uint32_t far = 1u << (n / 2), to;

	*over = n / 2 > 30 || (far > at && far >= row->count - at);
	if (*over || (n % 2 == 0 ? far >= row->count - at : far > at))
		return PLANNER_NONE;
	to = row->choices[n % 2 == 0 ? at + far : at - far].base;
	return to != at ? to : PLANNER_NONE;
}

struct change {
	uint32_t row, to, other_row, other_to;
};

static void
set_choice(struct planner_found *found, const struct planner_net *net, uint32_t row,
    uint32_t choice)
{
	found->gpus[row] = net->rows[row].choices[choice].gpus;
}

/* The second half of a pair: the opposite direction. */
static int
try_pairs(struct planner_found *found, const struct planner_net *net, double time_s, uint32_t row,
    uint32_t n, struct planner_value *best, struct change *change)
{
	uint32_t k, m;
	int over, better = 0;

	for (k = 0; k < net->row_count; k++) {
		if (k == row)
			continue;
		for (m = 1 - n % 2, over = 0; !over && !planner_is_spent(net->problem); m += 2) {
			struct planner_value value;
			uint32_t to = move_choice(&net->rows[k], found->path[k], m, &over);

			if (to == PLANNER_NONE)
				continue;
			set_choice(found, net, k, to);
			if (is_better(found, net, time_s, &value) && planner_better(&value, best)) {
				*best = value;
				change->other_row = k;
				change->other_to = to;
				better = 1;
			}
		}
		set_choice(found, net, k, found->path[k]);
	}
	return better;
}

/* The best of all small changes; 0: none is an improvement. */
static int
best_change(struct planner_found *found, const struct planner_net *net, double time_s, int pairs)
{
	struct planner_value best = found->value;
	struct change change = { 0 }, taken = { 0 };
	uint32_t n;
	int over, better = 0;

	for (change.row = 0; change.row < net->row_count; change.row++) {
		for (n = 0, over = 0; !over && !planner_is_spent(net->problem); n++) {
			struct planner_value value;

			change.to =
			    move_choice(&net->rows[change.row], found->path[change.row], n, &over);
			if (change.to == PLANNER_NONE)
				continue;
			set_choice(found, net, change.row, change.to);
			change.other_row = PLANNER_NONE;
			if (is_better(found, net, time_s, &value) &&
			    planner_better(&value, &best)) {
				best = value;
				taken = change;
				better = 1;
			}
			if (pairs && try_pairs(found, net, time_s, change.row, n, &best, &change)) {
				taken = change;
				better = 1;
			}
		}
		set_choice(found, net, change.row, found->path[change.row]);
	}
	if (!better)
		return 0;
	found->value = best;
	found->path[taken.row] = taken.to;
	if (taken.other_row != PLANNER_NONE)
		found->path[taken.other_row] = taken.other_to;
	return 1;
}

void
planner_improve(struct planner_found *found, const struct planner_net *net, double time_s,
    int pairs)
{
	if (!found->known)
		return;
	do
		lay_path(found, net, found->path);
	while (best_change(found, net, time_s, 0) || (pairs && best_change(found, net, time_s, 1)));
}
