/* planner_improve.c - making a plan better by small changes; see planner_improve.h. */
#include "planner_improve.h"

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

/* Is what lies in `gpus` in time and better than what is known? */
static int
does_better(struct planner_found *found, const struct planner_net *net, double time_s,
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
	if (!does_better(found, net, time_s, &found->tried))
		return 0;
	memcpy(found->path, path, net->row_count * sizeof *path);
	found->value = found->tried;
	found->known = 1;
	return 1;
}

/* ---- changes ------------------------------------------------------------------------------ */

/* The n-th choice away from this one: 1 up, 1 down, 2 up, 2 down, 4 up, ...; NONE: there is none
 * there; no more at all when *over. */
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

/* The second half of a pair: the other way from the first. */
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
			if (does_better(found, net, time_s, &value) &&
			    planner_better(&value, best)) {
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

/* The best of all small changes; 0: none makes it better. */
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
			if (does_better(found, net, time_s, &value) &&
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
