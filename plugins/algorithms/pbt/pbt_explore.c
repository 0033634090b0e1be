/* pbt_explore.c - population based training's explore: each parameter is drawn anew with some
 * probability, or else perturbed.
 *
 * Numbers are multiplied by a factor (one on a scale that is fine near its upper end: its distance
 * from there); a whole number or a stepped one that would stay moves by one step; an ordinal moves
 * to a neighbour; a choice, which has none, stays.  What a changed choice switches on is drawn.
 */
#include <math.h>
#include <espalier/util.h>
#include "pbt_explore.h"

static double
perturb_value(const struct espl_param *p, double value, double factor)
{
	double step = p->quantum > 0 ? p->quantum : p->type == ESPL_INT ? 1.0 : 0.0, moved;

	if (p->type == ESPL_CHOICE)
		return value;
	if (p->type == ESPL_ORDINAL) {
		moved = factor < 1.0 ? value - 1.0 : value + 1.0;
		return moved < 0.0                 ? 0.0
		    : moved > p->label_count - 1.0 ? p->label_count - 1.0
						   : moved;
	}
	moved = p->scale == ESPL_REVERSE_LOG
	    ? p->low + p->high - (p->low + p->high - value) * factor
	    : value * factor;
	if (step > 0.0 && fabs(moved - value) < step)
		moved = value +
		    (moved < value          ? -step
			    : moved > value ? step
			    : factor < 1.0  ? -step
					    : step);
	return moved < p->low ? p->low : moved > p->high ? p->high : moved;
}

static double
draw_value(const struct espl_host *host, const struct espl_space *space, uint32_t param)
{
	return space->value(space, param, espl_uniform(host));
}

espl_status
pbt_explore_near(const struct pbt_explore *how, const struct espl_host *host,
    const struct espl_space *space, double *values, struct espl_error *error)
{
	uint32_t i, missing = ESPL_ANY, left = space->param_count;
	espl_status status;

	for (i = 0; i < space->param_count; i++) {
		if (isnan(values[i]) || (how->keep != NULL && how->keep[i]))
			continue;
		if (espl_uniform(host) < how->resample)
			values[i] = draw_value(host, space, i);
		else
			values[i] = perturb_value(space->params[i], values[i],
			    (host->random(host) >> 63) != 0 ? how->up : how->down);
	}
	while ((status = space->snap(space, values, &missing)) == ESPL_E_UNKNOWN && left-- > 0)
		values[missing] = draw_value(host, space, missing);
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, ESPL_E_BUG, "the space rejected a perturbed configuration");
}
