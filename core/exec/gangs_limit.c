/* gangs_limit.c - trials that have trained for trial.time_limit: their last report stands. */
#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"

/* When it has trained for as long as it may, in all its attempts; NEVER: without limit, or it is
 * being ended. */
static espl_time
may_train_until(const struct espl__gang *g)
{
	espl_span limit = g->trial->search->config->trial.time_limit;

	if (limit == 0 || g->over || g->timed_out || g->fault != NULL ||
	    g->state == ESPL__GANG_STARTING)
		return ESPL_NEVER;
	return g->began + (limit > g->trial->trained ? limit - g->trial->trained : 0);
}

static int
has_limit(const struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->config->trial.time_limit > 0)
			return 1;
	return 0;
}

static void
end_in_time(struct espl__exec *x, struct espl__gang *g)
{
	const struct espl__trial_config *c = &g->trial->search->config->trial;
	char span[32], *fault;

	g->timed_out = 1;
	if (g->state == ESPL__GANG_LEAVING)
		return; /* it has been asked to leave, and does */
	(void)espl__format_short(c->time_limit, span);
	if (!g->trial->scored) {
		fault = espl__format("no report of the metric within %s (trial.time_limit)", span);
		espl__gang_fault(x, g, fault, 1);
		free(fault);
		return;
	}
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
	    "has trained for %s (trial.time_limit) and is ended; its last report stands", span);
	espl__gangs_kill(x, g, c->grace);
}

void
espl__gangs_limit(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (struct espl__gang *g = has_limit(x) ? x->gangs.first : NULL; g != NULL; g = g->next)
		if (may_train_until(g) <= x->now)
			end_in_time(x, g);
}

espl_time
espl__gangs_limit_next(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	ESPL__CHECK(x, EXEC);
	for (const struct espl__gang *g = has_limit(x) ? x->gangs.first : NULL; g != NULL;
	     g = g->next)
		if (may_train_until(g) < at)
			at = may_train_until(g);
	return at;
}
