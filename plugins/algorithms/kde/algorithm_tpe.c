/* algorithm_tpe.c - a tree-structured Parzen estimator: each trial trains to the end, and its
 * configuration comes from a model of those that have.
 *
 * The model is BOHB's (kde.h) with one budget: Bergstra, Bardenet, Bengio, Kegl, "Algorithms for
 * Hyper-Parameter Optimization" (NeurIPS 2011), in the form of Falkner, Klein, Hutter (ICML 2018).
 * Departures from the former: one density over all parameters instead of one for each, which
 * captures interactions; the best `top_percent` of all, however many; a fraction stays
 * uniform.
 */
#include <math.h>
#include <stdlib.h>
#include "kde.h"

enum { TRIALS, ITERATIONS_MAX, STARTUP, REPEATS, KDE };

static const struct espl_option options[] = {
	SHARED_OPTION_TRIALS,
	SHARED_OPTION_ITERATIONS,
	{ .name = "startup",
	    .help = "number of configurations drawn uniformly before the model is used, including "
		    "those of 'first' and of an earlier run",
	    .type = ESPL_OPT_INT,
	    .fallback = "10",
	    .min = "0",
	    .max = "1000000000" },
	ESPL_TRIED_OPTION,
	KDE_OPTIONS("0.2", "8", "24"),
};

#define TPE_MAGIC 0x16be57f3u

struct tpe {
	uint32_t magic; /* TPE_MAGIC */
	struct shared shared;
	struct kde kde;
	uint64_t iterations, startup;
};

static void
destroy(void *self)
{
	struct tpe *tpe = self;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	tpe->magic = 0;
	kde_free(&tpe->kde);
	shared_free(&tpe->shared);
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
	tpe->magic = TPE_MAGIC;
	tpe->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	tpe->startup = (uint64_t)config->values[STARTUP].as.i;
	kde_read(&config->values[KDE], &setup);
	status = shared_init(&tpe->shared, host, (uint64_t)config->values[TRIALS].as.i, TRIALS,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status == ESPL_OK)
		status = kde_init(&tpe->kde, host, &setup, error);
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

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	(void)error;
	return shared_spec(&tpe->shared, tpe->iterations, sink);
}

/* A trial that says itself that it is complete would not get any better with more iterations. */
static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct tpe *tpe = self;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	(void)sink;
	if (how != ESPL_END_BUDGET && how != ESPL_END_ITSELF && how != ESPL_END_FAILED)
		return ESPL_OK;
	return kde_observe(&tpe->kde, tpe->iterations, trial->id,
	    how == ESPL_END_FAILED ? (double)NAN : trial->loss, trial->values, error);
}

static espl_status
suggest_values(void *ctx, double *values, struct espl_error *error)
{
	struct tpe *tpe = ctx;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	return kde_suggest(&tpe->kde, values, error);
}

static espl_status
add_one(void *self, struct espl_search_sink *sink, struct espl_error *error)
{
	struct tpe *tpe = self;
	struct espl_start start = ESPL_INIT(struct espl_start);
	int models = tpe->shared.added + tpe->kde.learned >= tpe->startup;
	espl_status status =
	    shared_values(&tpe->shared, models ? suggest_values : NULL, tpe, &start.values, error);
	uint64_t trial;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	start.how = ESPL_FRESH;
	start.budget = tpe->iterations;
	return status == ESPL_OK ? sink->add(sink, tpe->shared.group, &start, &trial) : status;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct tpe *tpe = self;
	espl_status status = kde_earlier(&tpe->kde, &tpe->iterations, 1, error);

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	return status != ESPL_OK ? status
				 : shared_fill(&tpe->shared, shared_want(&tpe->shared, view),
				       tpe->shared.trials > 0, add_one, tpe, sink, error);
}

static espl_status
extend(void *self, const struct espl_extension *more, struct espl_error *error)
{
	struct tpe *tpe = self;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	return shared_extend(&tpe->shared, more, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
	.extend = extend,
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
