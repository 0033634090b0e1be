/* algorithm_tpe.c - a tree-structured Parzen estimator: each trial trains to the end, and its
 * configuration comes from a model of those that have.
 *
 * The model is BOHB's (kde.h) with one budget: Bergstra, Bardenet, Bengio, Kegl, "Algorithms for
 * Hyper-Parameter Optimization" (NeurIPS 2011), in the form of Falkner, Klein, Hutter (ICML 2018).
 * Departures from the former: one density over all parameters in place of one for each, so that it
 * sees what goes well together; the best `top_percent` of all, however many; a fraction stays uniform.
 */
#include <math.h>
#include <stdlib.h>
#include "kde.h"

enum { TRIALS, ITERATIONS_MAX, STARTUP, KDE };

static const struct espl_option options[] = {
	{ .name = "trials", .help = "how many configurations to try; 0: as many as the deadline "
	  "or the budget allows", .type = ESPL_OPT_INT, .fallback = "0", .min = "0",
	  .max = "1000000000" },
	{ .name = "iterations_max", .help = "iterations that each of them trains",
	  .type = ESPL_OPT_INT, .fallback = "1", .min = "1", .max = "1000000000000" },
	{ .name = "startup", .help = "so many configurations before the model is asked, drawn "
	  "uniformly; those of 'first' and an earlier run's count", .type = ESPL_OPT_INT,
	  .fallback = "10", .min = "0", .max = "1000000000" },
	KDE_OPTIONS("0.2", "8", "24"),
};

struct tpe {
	const struct espl_host  *host;
	const struct espl_first *first;	/* NULL: the user has none */
	struct kde kde;
	double   *values;
	uint64_t  trials;		/* 0 no limit */
	uint64_t  iterations, startup;
	uint64_t  added, group;
};

static void
destroy(void *self)
{
	struct tpe *tpe = self;

	kde_free(&tpe->kde);
	free(tpe->values);
	free(tpe);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
       struct espl_error *error)
{
	struct tpe *tpe = calloc(1, sizeof *tpe);
	struct kde_setup setup;
	espl_status status;

	if (tpe == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	tpe->host = host;
	tpe->first = host->service(host, ESPL_FIRST);
	tpe->trials = (uint64_t)config->values[TRIALS].as.i;
	tpe->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	tpe->startup = (uint64_t)config->values[STARTUP].as.i;
	tpe->group = ESPL_NONE;
	kde_read(&config->values[KDE], &setup);
	status = kde_init(&tpe->kde, host, &setup, error);
	if (status == ESPL_OK && tpe->trials == 0 && !shared_has_end(host))
		status = espl_blame(error, TRIALS, "the search would never end: give 'trials', or the "
		                    "experiment a deadline or a budget");
	if (status == ESPL_OK) {
		tpe->values = calloc((size_t)tpe->kde.axis_count + 1, sizeof *tpe->values);
		if (tpe->values == NULL)
			status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	if (status != ESPL_OK) {
		destroy(tpe);
		return status;
	}
	*self = tpe;
	return ESPL_OK;
}

/* One stage, where the number of trials is known: enough for a planner. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct tpe *tpe = self;
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);

	(void)error;
	if (tpe->trials == 0)
		return ESPL_OK;
	stage.trials = (uint32_t)tpe->trials;
	stage.iterations = tpe->iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

/* A trial that says itself that it is complete would not get any better with more iterations. */
static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
             struct espl_search_sink *sink, struct espl_error *error)
{
	struct tpe *tpe = self;

	(void)sink;
	if (how != ESPL_END_BUDGET && how != ESPL_END_ITSELF && how != ESPL_END_FAILED)
		return ESPL_OK;
	return kde_observe(&tpe->kde, tpe->iterations, trial->id,
	                   how == ESPL_END_FAILED ? (double)NAN : trial->loss, trial->values, error);
}

static espl_status
add_one(struct tpe *tpe, struct espl_search_sink *sink, struct espl_error *error)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status = ESPL_OK;
	uint64_t    trial;

	start.how = ESPL_FRESH;
	start.budget = tpe->iterations;
	start.values = tpe->values;
	if (tpe->first != NULL && tpe->added < tpe->first->count)
		start.values = tpe->first->at(tpe->first, (uint32_t)tpe->added);
	else if (tpe->added + tpe->kde.learned < tpe->startup)
		status = espl_draw(tpe->host, tpe->kde.space, tpe->kde.unit, tpe->values);
	else
		status = kde_suggest(&tpe->kde, tpe->values, error);
	if (status == ESPL_OK)
		status = sink->add(sink, tpe->group, &start, &trial);
	if (status == ESPL_OK)
		tpe->added++;
	return status;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
           struct espl_error *error)
{
	struct tpe *tpe = self;
	uint64_t    want = view->want;
	espl_status status = kde_earlier(&tpe->kde, &tpe->iterations, 1, error);

	if (tpe->trials > 0 && tpe->added == tpe->trials)
		return status;
	if (tpe->group == ESPL_NONE && status == ESPL_OK) {
		struct espl_group group = ESPL_INIT(struct espl_group);

		group.flags = ESPL_GROUP_OPEN;
		group.bracket = group.stage = tpe->trials > 0 ? 0 : ESPL_ANY;
		status = sink->begin(sink, &group, &tpe->group);
	}
	/* Something must ask for GPUs, or there will never be any. */
	if (want == 0 && view->running == 0 && view->waiting == 0)
		want = 1;
	for (; want > 0 && status == ESPL_OK; want--) {
		status = add_one(tpe, sink, error);
		if (status == ESPL_OK && tpe->added == tpe->trials)
			return sink->finish(sink);
	}
	return status == ESPL_OK ? status :
		espl_fail(error, status, "trial %llu was refused", (unsigned long long)tpe->added);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, tpe) = {
	ESPL_HEAD(ESPL_ALGORITHM, "tpe"),
	.version = "0.1",
	.summary = "tree-structured Parzen estimator: a model of good and bad configurations",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
