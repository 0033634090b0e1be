/* searches_failed.c - trials that failed for good: counted by the reason, and against
 * experiment.failures_max.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"

#define SHARE_LEAST 10 /* trials that have ended before a share of them says anything */
#define KINDS_MOST 20u /* of failures, that are counted apart */

static void
count_kind(struct espl__search *s, const struct espl__trial *t)
{
	struct espl__faults *f = &s->faults;
	const char *text = t->ways != NULL ? t->ways->text : "it could not start",
		   *sum = t->ways != NULL ? t->ways->sum : "";
	struct espl__fault_kind *kind;
	uint32_t i = 0;

	while (i < f->kind_count && strcmp(f->kinds[i].sum, sum) != 0)
		i++;
	if (i == f->kind_count && i == KINDS_MOST)
		i--; /* the last one stands for all others */
	if (i == f->kind_count) {
		ESPL__GROW(f->kinds, f->kind_cap, i + 1);
		f->kinds[f->kind_count++] = (struct espl__fault_kind){ .sum = espl__strdup(sum) };
	}
	kind = &f->kinds[i];
	free(kind->text);
	kind->text = espl__strdup(text);
	kind->trials++;
}

void
espl__search_count_failed(struct espl__search *s, const struct espl__trial *t)
{
	struct espl__exec *x = s->exec;
	const struct espl__run_config *c = s->config;
	uint64_t failed, ended;

	ESPL__CHECK(s, SEARCH);
	s->failed++;
	count_kind(s, t);
	failed = s->failed - s->faults.failed_before;
	ended = s->trials.trials.count - s->trials.running - s->trials.waiting;
	ended -= s->faults.ended_before < ended ? s->faults.ended_before : ended;
	if (s->ending != 0 || x->round.ending != 0)
		return;
	if (failed > c->failures_most)
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu trials failed, and experiment.failures_max is %llu; the last failure: %s",
		    (unsigned long long)failed, (unsigned long long)c->failures_most,
		    x->searches.last_failure != NULL ? x->searches.last_failure : "");
	else if (ended >= SHARE_LEAST && (double)failed > c->failures_share * (double)ended)
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu of %llu trials failed, and experiment.failures_max is %.6g%%; the last "
		    "failure: %s",
		    (unsigned long long)failed, (unsigned long long)ended, 100 * c->failures_share,
		    x->searches.last_failure != NULL ? x->searches.last_failure : "");
}
