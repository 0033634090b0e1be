/* searches_reopen.c - an experiment of a pool that fails continues when the pool is resumed.
 *
 * As in a run of its own, the cause may have been fixed by then: what failed for good stays failed,
 * and the other trials train on from their checkpoints.  Until then they are held back like
 * retries (searches_held.c), so that no policy sees them (searches_end.c parks them).
 */
#include <stdlib.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/questions.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_reopen.h"

int
espl__exec_reopens(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->parked)
			return x->round.ending != ESPL__RUN_DEADLINE &&
			    x->round.ending != ESPL__RUN_BUDGET;
	return 0;
}

static void
reopen_search(struct espl__search *s)
{
	s->parked = 0;
	s->ending = 0;
	s->over = 0;
	s->ended = ESPL_NEVER;
	s->finished = s->was_finished;
	s->failures = 0;
	free(s->end_text);
	s->end_text = NULL;
	espl__trials_unsettle(&s->trials);
	espl__search_faults_forgive(s);
	if (s->jobs != NULL) /* no algorithm is asked before */
		espl__search_retry(s, UINT32_MAX);
	espl__exec_note(s->exec, ESPL_ABOUT_RUN, 0, "experiment '%s' failed, and continues",
	    s->config->name);
	espl__search_show(s);
}

void
espl__searches_reopen(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (!espl__exec_reopens(x))
		return;
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->parked)
			reopen_search(x->searches.list[i]);
	espl__searches_capacity(x);
}
