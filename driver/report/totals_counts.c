/* totals_counts.c - what follows from the totals of a run: sums, and how it ended. */
#include "report/totals.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A directory within the run's. */
void
espl__totals_put_checkpoint(struct espl__buf *b, uint64_t trial, int64_t iteration)
{
	char *dir = espl__trial_dir("", trial);

	espl__print(b, "%s/checkpoint-%lld", dir + 1, (long long)iteration);
	free(dir);
}

int64_t
espl__totals_paused(const struct espl__totals *t)
{
	return t->trials - espl__totals_finished(t) - t->failed - t->running - t->waiting -
	    t->unfinished;
}

int64_t
espl__totals_finished(const struct espl__totals *t)
{
	return t->completed + t->early;
}

int
espl__totals_ever_differs(const struct espl__totals *t)
{
	return t->ever >= 0 && t->best >= 0 &&
	    (t->maximize ? t->ever_metric > t->best_metric : t->ever_metric < t->best_metric);
}

/* Of a pool: all its plain jobs, or an experiment. */
static int
has_failed_part(const struct espl__totals *t)
{
	json_t *list = t->experiments == NULL ? NULL : json_loads(t->experiments, 0, NULL), *one;
	int failed = t->jobs > 0 && t->jobs_failed == t->jobs;
	size_t i;

	json_array_foreach (list, i, one) {
		const char *status = json_string_value(json_object_get(one, "status"));

		failed |= status != NULL && strcmp(status, "failed") == 0;
	}
	json_decref(list);
	return failed;
}

const char *
espl__totals_outcome(const struct espl__totals *t)
{
	if (strcmp(t->status, "running") == 0)
		return "running";
	if (strcmp(t->status, "failed") == 0 || (t->trials > 0 && t->failed == t->trials))
		return "bad";
	return strcmp(t->status, "done") != 0 || has_failed_part(t) ? "mixed" : "good";
}
