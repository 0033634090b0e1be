/* planner_value.c - what an allocation takes and costs; see planner_value.h. */
#include "planner_value.h"

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

/* What is held at the start and used by the first stage: the youngest.  The others go at once,
 * and what they cost is spent already.  Returns how many are kept. */
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

/* Of what held nodes will have cost, the part that is spent already. */
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
