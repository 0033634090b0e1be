/* searches_failed.c - trials that failed for good: counted against experiment.failures_max. */
#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"

#define SHARE_LEAST 10 /* trials that have ended before a share of them says anything */

void
espl__search_count_failed(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	const struct espl__run_config *c = s->config;
	uint64_t failed, ended;

	ESPL__CHECK(s, SEARCH);
	s->failed++;
	failed = s->failed - s->faults.failed_before;
	ended = s->trials.trials.count - s->trials.running - s->trials.waiting;
	ended -= s->faults.ended_before < ended ? s->faults.ended_before : ended;
	if (s->ending != 0 || x->round.ending != 0)
		return;
	if (failed > c->failures_most)
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu trial%s failed, and experiment.failures_max is %llu; the last failure: "
		    "%s",
		    (unsigned long long)failed, failed == 1 ? "" : "s",
		    (unsigned long long)c->failures_most,
		    x->searches.last_failure != NULL ? x->searches.last_failure : "");
	else if (ended >= SHARE_LEAST && (double)failed > c->failures_share * (double)ended)
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu of %llu trials failed, and experiment.failures_max is %.6g%%; the last "
		    "failure: %s",
		    (unsigned long long)failed, (unsigned long long)ended, 100 * c->failures_share,
		    x->searches.last_failure != NULL ? x->searches.last_failure : "");
}
