/* pbt_start.c - population based training: how a member starts, with a new configuration or from
 * another one's weights.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <espalier/util.h>
#include "pbt.h"

/* Population based training's explore: each parameter is redrawn with some probability, or else
 * perturbed.
 *
 * Numbers are multiplied by a factor (on a scale that is fine near its upper end, their distance
 * from that end is); a whole number or a stepped one that would not change moves by one step; an
 * ordinal moves to a neighbor; a choice, which has none, stays. Parameters that a changed choice
 * activates are drawn.
 */
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

#define EXPLORE_TRIES 100 /* for a configuration that is not forbidden */

static double
draw_value(const struct espl_host *host, const struct espl_space *space, uint32_t param)
{
	return space->value(space, param, espl_uniform(host));
}

/* Changes `values`, a configuration of the space.  Random numbers are taken from the host in the
 * order of the parameters.  ESPL_E_BUG: the space refuses what came out. */
static espl_status
explore_near(const struct pbt_explore *how, const struct espl_host *host,
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

/* The next configuration from the one in pbt->next.  Where what comes out is forbidden, it is tried
 * again, and at last left as it was. */
static espl_status
explore_allowed(struct pbt *pbt, struct espl_error *error)
{
	size_t size = pbt->space->param_count * sizeof *pbt->next;
	double *from = pbt->tried.unit; /* only draws use it */
	espl_status status = ESPL_OK;
	int tries = 0;

	if (size > 0)
		memcpy(from, pbt->next, size);
	do {
		if (tries > 0 && size > 0)
			memcpy(pbt->next, from, size);
		if (tries == EXPLORE_TRIES)
			return ESPL_OK;
		status = explore_near(&pbt->explore, pbt->host, pbt->space, pbt->next, error);
		tries++;
	} while (status == ESPL_OK && !espl_space_allows(pbt->space, pbt->next));
	return status;
}

#define FAILURES_MAX 2u /* of one member without an interval in between */

static double *
values_of(const struct pbt *pbt, uint32_t index)
{
	return pbt->values + (size_t)index * pbt->space->param_count;
}

static void
begin_member(struct pbt *pbt, uint32_t index, uint64_t trial, uint64_t iteration,
    const double *values)
{
	struct member *m = &pbt->members[index];
	size_t size = pbt->space->param_count * sizeof *values;

	ESPL_ASSERT(index < pbt->size);
	m->trial = trial;
	m->iteration = iteration;
	m->saved = 0;
	m->flags = MEMBER_TRAINS | MEMBER_ASKED;
	if (size > 0)
		memcpy(values_of(pbt, index), values, size);
}

static espl_status
add_fresh(struct pbt *pbt, uint32_t index, const double *values, struct espl_search_sink *sink)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	uint64_t trial = ESPL_NONE;
	espl_status status;

	start.how = ESPL_FRESH;
	start.values = values;
	start.budget = pbt->sync ? pbt->until : pbt->iterations;
	start.tag = index;
	status = sink->add(sink, pbt->group, &start, &trial);
	if (status == ESPL_OK)
		begin_member(pbt, index, trial, 0, values);
	return status;
}

/* A new member: one of the user's points, or drawn. */
espl_status
pbt_new(struct pbt *pbt, uint32_t index, struct espl_search_sink *sink)
{
	const double *values;
	espl_status status =
	    espl_tried_first(&pbt->tried, pbt->first, &pbt->first_next, &values, NULL);

	ESPL_ASSERT(pbt->fresh_max == 0 || pbt->fresh < pbt->fresh_max);
	if (status == ESPL_OK && values == NULL) {
		values = pbt->next;
		status = espl_tried_new(&pbt->tried, NULL, NULL, pbt->next, NULL);
	}
	if (status == ESPL_E_LIMIT)
		status = ESPL_OK; /* one in place of a failed one was new: repeat one */
	pbt->members[index].population = (uint32_t)(pbt->fresh / pbt->size);
	pbt->members[index].failures = 0;
	if (status == ESPL_OK)
		status = add_fresh(pbt, index, values, sink);
	if (status == ESPL_OK)
		pbt->fresh++;
	return status;
}

/* The member continues from the source's weights: from the checkpoint of the source's last
 * interval; if that was lost, from its newest; if there is none, the configuration starts from the
 * beginning. */
espl_status
pbt_clone(struct pbt *pbt, uint32_t index, uint32_t source, struct espl_search_sink *sink,
    struct espl_error *error)
{
	const struct member *from = &pbt->members[source];
	struct espl_start start = ESPL_INIT(struct espl_start);
	uint64_t trial = ESPL_NONE, before = pbt->members[index].trial;
	espl_status status;

	ESPL_ASSERT(index < pbt->size && source < pbt->size && index != source);
	memcpy(pbt->next, values_of(pbt, source), pbt->space->param_count * sizeof *pbt->next);
	status = explore_allowed(pbt, error);
	if (status != ESPL_OK)
		return status;
	start.how = ESPL_CLONE;
	start.trial = from->trial;
	start.checkpoint = from->saved;
	start.values = pbt->next;
	start.budget = pbt->sync ? pbt->until : pbt->iterations;
	start.tag = index;
	status = sink->add(sink, pbt->group, &start, &trial);
	if (status == ESPL_E_UNKNOWN && start.checkpoint != 0) {
		start.checkpoint = 0;
		status = sink->add(sink, pbt->group, &start, &trial);
	}
	if (status == ESPL_E_UNKNOWN)
		return add_fresh(pbt, index, pbt->next, sink);
	if (status != ESPL_OK)
		return status;
	begin_member(pbt, index, trial, from->saved != 0 ? from->saved : from->iteration,
	    pbt->next);
	if (pbt->host->verbose) {
		char text[160];

		(void)snprintf(text, sizeof text,
		    "copies the weights of trial %" PRIu64 " and replaces trial %" PRIu64,
		    from->trial, before);
		pbt->host->note(pbt->host, ESPL_ABOUT_TRIAL, trial, text);
	}
	return ESPL_OK;
}

void
pbt_over(struct pbt *pbt, struct member *m)
{
	pbt->over += (m->flags & MEMBER_OVER) == 0;
	m->flags = MEMBER_OVER;
}

/* Replaces a failed member by a copy of one of the best, or, if none has a result yet, by a new
 * one. */
espl_status
pbt_replace(struct pbt *pbt, uint32_t index, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct member *m = &pbt->members[index];
	uint32_t source;
	espl_status status;

	ESPL_ASSERT((m->flags & MEMBER_FAILED) != 0);
	m->flags &= (uint16_t) ~(MEMBER_FAILED | MEMBER_SCORED);
	if (m->failures > FAILURES_MAX) {
		pbt_over(pbt, m);
		return ESPL_OK;
	}
	source = pbt_source_for_failed(pbt, index);
	if (source != ESPL_ANY)
		return pbt_clone(pbt, index, source, sink, error);
	status = espl_tried_new(&pbt->tried, NULL, NULL, pbt->next, error);
	if (status == ESPL_E_LIMIT) { /* all have been tried */
		pbt_over(pbt, m);
		return ESPL_OK;
	}
	return status == ESPL_OK ? add_fresh(pbt, index, pbt->next, sink) : status;
}

espl_status
pbt_go_on(struct pbt *pbt, uint32_t index, struct espl_search_sink *sink)
{
	struct member *m = &pbt->members[index];
	struct espl_start start = ESPL_INIT(struct espl_start);

	ESPL_ASSERT((m->flags & MEMBER_PAUSED) != 0);
	start.how = ESPL_CONTINUE;
	start.trial = m->trial;
	start.budget = pbt->sync ? pbt->until : pbt->iterations;
	start.tag = index;
	m->flags &= (uint16_t)~MEMBER_PAUSED;
	m->flags |= MEMBER_TRAINS | MEMBER_ASKED;
	return sink->add(sink, pbt->group, &start, &m->trial);
}
