/* pbt_start.c - population based training: how a member begins, anew or from another one's weights.
 */
#include <inttypes.h>
#include <string.h>
#include <espalier/util.h>
#include "pbt.h"

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
	const double *values = pbt->next;
	espl_status status = ESPL_OK;

	if (pbt->first != NULL && pbt->fresh < pbt->first->count)
		values = pbt->first->at(pbt->first, (uint32_t)pbt->fresh);
	else
		status = espl_draw(pbt->host, pbt->space, pbt->unit, pbt->next);
	pbt->members[index].population = (uint32_t)(pbt->fresh / pbt->size);
	pbt->members[index].failures = 0;
	if (status == ESPL_OK)
		status = add_fresh(pbt, index, values, sink);
	if (status == ESPL_OK)
		pbt->fresh++;
	return status;
}

/* The member goes on from the source's weights.  The checkpoint of the source's last interval; if
 * that was lost, its newest; if nothing is kept, the configuration begins anew. */
espl_status
pbt_clone(struct pbt *pbt, uint32_t index, uint32_t source, struct espl_search_sink *sink,
    struct espl_error *error)
{
	const struct member *from = &pbt->members[source];
	struct espl_start start = ESPL_INIT(struct espl_start);
	uint64_t trial = ESPL_NONE, before = pbt->members[index].trial;
	espl_status status;

	memcpy(pbt->next, values_of(pbt, source), pbt->space->param_count * sizeof *pbt->next);
	status = pbt_explore_near(&pbt->explore, pbt->host, pbt->space, pbt->next, error);
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

/* One that failed: a copy of one of the best takes its place, or (nobody is any good yet) a new
 * one. */
espl_status
pbt_replace(struct pbt *pbt, uint32_t index, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct member *m = &pbt->members[index];
	uint32_t source;
	espl_status status;

	m->flags &= (uint16_t) ~(MEMBER_FAILED | MEMBER_SCORED);
	if (m->failures > FAILURES_MAX) {
		pbt_over(pbt, m);
		return ESPL_OK;
	}
	source = pbt_source_for_failed(pbt, index);
	if (source != ESPL_ANY)
		return pbt_clone(pbt, index, source, sink, error);
	status = espl_draw(pbt->host, pbt->space, pbt->unit, pbt->next);
	return status == ESPL_OK ? add_fresh(pbt, index, pbt->next, sink) : status;
}

espl_status
pbt_go_on(struct pbt *pbt, uint32_t index, struct espl_search_sink *sink)
{
	struct member *m = &pbt->members[index];
	struct espl_start start = ESPL_INIT(struct espl_start);

	start.how = ESPL_CONTINUE;
	start.trial = m->trial;
	start.budget = pbt->sync ? pbt->until : pbt->iterations;
	start.tag = index;
	m->flags &= (uint16_t)~MEMBER_PAUSED;
	m->flags |= MEMBER_TRAINS | MEMBER_ASKED;
	return sink->add(sink, pbt->group, &start, &m->trial);
}
