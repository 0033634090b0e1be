/* algorithm_tpe.c - a tree-structured Parzen estimator: each trial trains to the end, and its
 * configuration comes from a model of those that have.
 *
 * The model is the sampler's of that name (plugins/samplers/tpe.h): `use = "tpe"` is random search
 * with it.  A run that began before there were samplers keeps BOHB's model with one budget (kde.h):
 * Bergstra, Bardenet, Bengio, Kegl, "Algorithms for Hyper-Parameter Optimization" (NeurIPS 2011),
 * in the form of Falkner, Klein, Hutter (ICML 2018).
 */
#include <math.h>
#include <stdlib.h>
#include "kde.h"
#include "../../samplers/model.h"

enum { TRIALS, ITERATIONS_MAX, STARTUP, REPEATS, KDE };

/* What only the earlier model has; of its other options the defaults were others. */
#define EARLIER "; only for runs that an earlier version began"
#define EARLIER_RANDOM_FRACTION 0.2
#define EARLIER_TOP_PERCENT 15

/* clang-format off */
static const struct espl_option options[] = {
	SHARED_OPTION_TRIALS,
	SHARED_OPTION_ITERATIONS,
	{ .name = "startup",
	    .help = "number of configurations drawn uniformly before the model is used, including "
		    "those of 'first' and of an earlier run",
	    .type = ESPL_OPT_INT, .fallback = "10", .min = "0", .max = "1000000000" },
	ESPL_TRIED_OPTION,
	/* as KDE_OPTIONS */
	{ .name = "random_fraction",
	    .help = "fraction of configurations drawn uniformly instead of from the model; "
		    "without it none", .type = ESPL_OPT_REAL, .min = "0", .max = "1" },
	{ .name = "top_percent",
	    .help = "percentage of the results that count as good, at most 25 of them; without it "
		    "10", .type = ESPL_OPT_INT, .min = "1", .max = "99" },
	{ .name = "min_points", .help = "minimum number of results before a model is built" EARLIER,
	    .type = ESPL_OPT_INT, .fallback = "8", .min = "0", .max = "1000000" },
	{ .name = "candidates",
	    .help = "number of points drawn near the good ones; the best one is used",
	    .type = ESPL_OPT_INT, .fallback = "24", .min = "1", .max = "100000" },
	{ .name = "bandwidth_factor", .help = "factor by which kernels are widened" EARLIER,
	    .type = ESPL_OPT_REAL, .fallback = "3", .min = "0.01", .max = "1000" },
	{ .name = "bandwidth_min", .help = "minimum bandwidth" EARLIER,
	    .type = ESPL_OPT_REAL, .fallback = "0.001", .min = "1e-6", .max = "0.5" },
	{ .name = "points", .help = "maximum number of results in the model" EARLIER,
	    .type = ESPL_OPT_INT, .fallback = "512", .min = "16", .max = "100000" },
};
/* clang-format on */

#define TPE_MAGIC 0x16be57f3u

struct tpe_search {
	uint32_t magic; /* TPE_MAGIC */
	struct shared shared;
	uint64_t iterations, startup;
	/* one of them: */
	struct model model;
	struct kde kde;
	struct espl_sampling sampling; /* the model, as of a sampler; ctx NULL: it is kde */
};

static void
destroy(void *self)
{
	struct tpe_search *tpe = self;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	tpe->magic = 0;
	if (tpe->model.magic != 0)
		model_free(&tpe->model);
	kde_free(&tpe->kde);
	shared_free(&tpe->shared);
	free(tpe);
}

/* ---- its model ---------------------------------------------------------------------------------
 */

static espl_status
tell_model(const struct espl_sampling *sampling, const struct espl_sample *sample,
    struct espl_error *error)
{
	return model_tell(sampling->ctx, sample, error);
}

static espl_status
ask_model(const struct espl_sampling *sampling, const struct espl_wish *wish, double *values,
    struct espl_error *error)
{
	return model_ask(sampling->ctx, wish->count, values, error);
}

static espl_status
make_model(struct tpe_search *tpe, const struct espl_host *host, const struct espl_config *config,
    struct espl_error *error)
{
	static const uint32_t earlier[] = { KDE_MIN_POINTS, KDE_FACTOR, KDE_WIDTH_MIN, KDE_POINTS };
	const struct espl_value *values = &config->values[KDE];
	struct model_setup setup = { .kind = MODEL_TPE, .startup = tpe->startup, .top = 0.1 };
	size_t i;

	for (i = 0; i < sizeof earlier / sizeof earlier[0]; i++)
		if (values[earlier[i]].source > ESPL_FALLBACK)
			espl_logf(host, ESPL_WARN,
			    "'%s' has no effect: it is an option of the earlier model",
			    options[KDE + earlier[i]].name);
	if (values[KDE_RANDOM_FRACTION].source != ESPL_UNSET)
		setup.random_fraction = values[KDE_RANDOM_FRACTION].as.r;
	if (values[KDE_TOP_PERCENT].source != ESPL_UNSET)
		setup.top = 0.01 * (double)values[KDE_TOP_PERCENT].as.i;
	setup.candidates = (uint32_t)values[KDE_CANDIDATES].as.i;
	tpe->sampling = (struct espl_sampling){ .size = (uint32_t)sizeof tpe->sampling,
		.ctx = &tpe->model,
		.tell = tell_model,
		.ask = ask_model };
	tpe->shared.sampling = &tpe->sampling;
	return model_init(&tpe->model, host, &setup, error);
}

static espl_status
make_earlier(struct tpe_search *tpe, const struct espl_host *host, const struct espl_config *config,
    struct espl_error *error)
{
	const struct espl_value *values = &config->values[KDE];
	struct kde_setup setup;

	kde_read(values, &setup);
	if (values[KDE_RANDOM_FRACTION].source == ESPL_UNSET)
		setup.random_fraction = EARLIER_RANDOM_FRACTION;
	if (values[KDE_TOP_PERCENT].source == ESPL_UNSET)
		setup.top_percent = EARLIER_TOP_PERCENT;
	return kde_init(&tpe->kde, host, &setup, error);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct tpe_search *tpe = calloc(1, sizeof *tpe);
	espl_status status;

	if (tpe == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	tpe->magic = TPE_MAGIC;
	tpe->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	tpe->startup = (uint64_t)config->values[STARTUP].as.i;
	status = shared_init(&tpe->shared, host, (uint64_t)config->values[TRIALS].as.i, TRIALS,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status == ESPL_OK)
		status = espl_follows(host, ESPL_RULES_SAMPLERS)
		    ? make_model(tpe, host, config, error)
		    : make_earlier(tpe, host, config, error);
	if (status != ESPL_OK) {
		destroy(tpe);
		return status;
	}
	*self = tpe;
	return ESPL_OK;
}

/* ---- the search --------------------------------------------------------------------------------
 */

/* One stage, where the number of trials is known: enough for a planner. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct tpe_search *tpe = self;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	(void)error;
	return shared_spec(&tpe->shared, tpe->iterations, sink);
}

/* A trial that says itself that it is complete would not get any better with more iterations. */
static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct tpe_search *tpe = self;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	(void)sink;
	if (tpe->sampling.ctx != NULL)
		return espl_sampling_ended(&tpe->sampling, trial, how, error);
	if (how != ESPL_END_BUDGET && how != ESPL_END_ITSELF && how != ESPL_END_FAILED)
		return ESPL_OK;
	return kde_observe(&tpe->kde, tpe->iterations, trial->id,
	    how == ESPL_END_FAILED ? (double)NAN : trial->loss, trial->values, error);
}

static espl_status
suggest_values(void *ctx, double *values, struct espl_error *error)
{
	struct tpe_search *tpe = ctx;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	return kde_suggest(&tpe->kde, values, error);
}

static espl_status
add_one(void *self, struct espl_search_sink *sink, struct espl_error *error)
{
	struct tpe_search *tpe = self;
	struct espl_start start = ESPL_INIT(struct espl_start);
	int models =
	    tpe->sampling.ctx == NULL && tpe->shared.added + tpe->kde.learned >= tpe->startup;
	espl_status status =
	    shared_values(&tpe->shared, models ? suggest_values : NULL, tpe, &start.values, error);
	uint64_t trial;

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	start.how = ESPL_FRESH;
	start.budget = tpe->iterations;
	if (status == ESPL_OK)
		status = sink->add(sink, tpe->shared.group, &start, &trial);
	return status == ESPL_OK && tpe->sampling.ctx != NULL
	    ? espl_sampling_started(&tpe->sampling, trial, start.budget, start.values, error)
	    : status;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct tpe_search *tpe = self;
	espl_status status = tpe->sampling.ctx != NULL
	    ? ESPL_OK
	    : kde_earlier(&tpe->kde, &tpe->iterations, 1, error);

	ESPL_ASSERT(tpe != NULL && tpe->magic == TPE_MAGIC);
	return status != ESPL_OK ? status
				 : shared_fill(&tpe->shared, shared_want(&tpe->shared, view),
				       tpe->shared.trials > 0, add_one, tpe, sink, error);
}

static espl_status
extend(void *self, const struct espl_extension *more, struct espl_error *error)
{
	struct tpe_search *tpe = self;

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
	.summary = "tree-structured Parzen estimator: random search with the sampler tpe",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
