/* algorithm_random.c - random search: configurations drawn uniformly, or by a sampler, each trained
 * to the end.
 *
 * The baseline that every other search has to beat, and the one to use when nothing is known.
 * Trials are added as GPUs come free, so it costs O(new trials) and remembers none.
 */
#include <stdlib.h>
#include <espalier/util.h>
#include "shared.h"

enum { TRIALS, ITERATIONS_MAX, REPEATS, SAMPLER };

static const struct espl_option options[] = {
	SHARED_OPTION_TRIALS,
	SHARED_OPTION_ITERATIONS,
	ESPL_TRIED_OPTION,
	ESPL_SAMPLER_OPTION,
};

#define RANDOM_SEARCH_MAGIC 0x769e48acu

struct random_search {
	uint32_t magic; /* RANDOM_SEARCH_MAGIC */
	struct shared shared;
	uint64_t iterations;
};

static void
destroy(void *self)
{
	struct random_search *search = self;

	ESPL_ASSERT(search != NULL && search->magic == RANDOM_SEARCH_MAGIC);
	search->magic = 0;
	shared_free(&search->shared);
	free(search);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct random_search *search = calloc(1, sizeof *search);
	espl_status status;

	if (search == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	search->magic = RANDOM_SEARCH_MAGIC;
	search->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	status = shared_init(&search->shared, host, (uint64_t)config->values[TRIALS].as.i, TRIALS,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status != ESPL_OK) {
		destroy(search);
		return status;
	}
	*self = search;
	return ESPL_OK;
}

/* One stage, where the number of trials is known: enough for a planner. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct random_search *search = self;

	ESPL_ASSERT(search != NULL && search->magic == RANDOM_SEARCH_MAGIC);
	(void)error;
	return shared_spec(&search->shared, search->iterations, sink);
}

static espl_status
add_one(void *self, struct espl_search_sink *sink, struct espl_error *error)
{
	struct random_search *search = self;
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status = shared_values(&search->shared, NULL, NULL, &start.values, error);
	uint64_t trial;

	ESPL_ASSERT(search != NULL && search->magic == RANDOM_SEARCH_MAGIC);
	start.how = ESPL_FRESH;
	start.budget = search->iterations;
	if (status == ESPL_OK)
		status = sink->add(sink, search->shared.group, &start, &trial);
	return status == ESPL_OK ? espl_sampling_started(search->shared.sampling, trial,
				       start.budget, start.values, error)
				 : status;
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct random_search *search = self;

	ESPL_ASSERT(search != NULL && search->magic == RANDOM_SEARCH_MAGIC);
	(void)sink;
	return espl_sampling_ended(search->shared.sampling, trial, how, error);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct random_search *search = self;

	ESPL_ASSERT(search != NULL && search->magic == RANDOM_SEARCH_MAGIC);
	return shared_fill(&search->shared, shared_want(&search->shared, view),
	    search->shared.trials > 0, add_one, search, sink, error);
}

static espl_status
extend(void *self, const struct espl_extension *more, struct espl_error *error)
{
	struct random_search *search = self;

	ESPL_ASSERT(search != NULL && search->magic == RANDOM_SEARCH_MAGIC);
	return shared_extend(&search->shared, more, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
	.extend = extend,
};

ESPL_PLUGIN(algorithm, random) = {
	ESPL_HEAD(ESPL_ALGORITHM, "random"),
	.version = "0.1",
	.summary = "random search: configurations drawn uniformly, each trained to the end",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
