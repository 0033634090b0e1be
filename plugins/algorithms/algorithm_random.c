/* algorithm_random.c - random search: configurations drawn uniformly, each trained to the end.
 *
 * The baseline that every other search has to beat, and the one to use when nothing is known.
 * Trials are added as GPUs come free, so it costs O(new trials) and remembers none.
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include <espalier/util.h>

enum { TRIALS, ITERATIONS_MAX };

static const struct espl_option options[] = {
	{ .name = "trials", .help = "how many configurations to try; 0: as many as the deadline "
	  "or the budget allows", .type = ESPL_OPT_INT, .fallback = "0", .min = "0",
	  .max = "1000000000" },
	{ .name = "iterations_max", .help = "iterations that each of them trains",
	  .type = ESPL_OPT_INT, .fallback = "1", .min = "1", .max = "1000000000000" },
};

struct random_search {
	const struct espl_host  *host;
	const struct espl_space *space;
	const struct espl_first *first;	/* NULL: the user has none */
	double   *unit, *values;
	uint64_t  trials;		/* 0 no limit */
	uint64_t  iterations;
	uint64_t  added, group;
};

static void
destroy(void *self)
{
	struct random_search *search = self;

	free(search->unit);
	free(search->values);
	free(search);
}

/* A search without an end of its own needs one from elsewhere. */
static espl_status
check_end(const struct random_search *search, struct espl_error *error)
{
	const struct espl_host *host = search->host;
	const struct espl_experiment *experiment = host->service(host, ESPL_EXPERIMENT);

	if (search->trials > 0 || (experiment != NULL && (experiment->deadline != ESPL_NEVER ||
	                                                  experiment->budget != INT64_MAX)))
		return ESPL_OK;
	return espl_blame(error, TRIALS, "the search would never end: give 'trials', or the "
	                  "experiment a deadline or a budget");
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
       struct espl_error *error)
{
	struct random_search *search = calloc(1, sizeof *search);
	espl_status status;

	if (search == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	search->host = host;
	search->space = host->service(host, ESPL_SPACE);
	search->first = host->service(host, ESPL_FIRST);
	search->trials = (uint64_t)config->values[TRIALS].as.i;
	search->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	search->group = ESPL_NONE;
	status = search->space == NULL ?
		espl_fail(error, ESPL_E_UNSUPPORTED, "this host offers no search space") :
		check_end(search, error);
	if (status == ESPL_OK) {
		size_t count = (size_t)search->space->param_count + 1;

		search->unit = calloc(count, sizeof *search->unit);
		search->values = calloc(count, sizeof *search->values);
		if (search->unit == NULL || search->values == NULL)
			status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
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
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);

	(void)error;
	if (search->trials == 0)
		return ESPL_OK;
	stage.trials = (uint32_t)search->trials;
	stage.iterations = search->iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

static espl_status
add_one(struct random_search *search, struct espl_search_sink *sink)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status = ESPL_OK;
	uint64_t    trial;

	start.how = ESPL_FRESH;
	start.budget = search->iterations;
	start.values = search->values;
	if (search->first != NULL && search->added < search->first->count)
		start.values = search->first->at(search->first, (uint32_t)search->added);
	else
		status = espl_draw(search->host, search->space, search->unit, search->values);
	if (status == ESPL_OK)
		status = sink->add(sink, search->group, &start, &trial);
	if (status == ESPL_OK)
		search->added++;
	return status;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
           struct espl_error *error)
{
	struct random_search *search = self;
	uint64_t    want = view->want;
	espl_status status = ESPL_OK;

	if (search->trials > 0 && search->added == search->trials)
		return ESPL_OK;
	if (search->group == ESPL_NONE) {
		struct espl_group group = ESPL_INIT(struct espl_group);

		group.flags = ESPL_GROUP_OPEN;
		group.bracket = group.stage = search->trials > 0 ? 0 : ESPL_ANY;
		status = sink->begin(sink, &group, &search->group);
	}
	/* Something must ask for GPUs, or there will never be any. */
	if (want == 0 && view->running == 0 && view->waiting == 0)
		want = 1;
	for (; want > 0 && status == ESPL_OK; want--) {
		status = add_one(search, sink);
		if (status == ESPL_OK && search->added == search->trials)
			return sink->finish(sink);
	}
	return status == ESPL_OK ? status :
		espl_fail(error, status, "trial %llu was refused",
		          (unsigned long long)search->added);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, random) = {
	ESPL_HEAD(ESPL_ALGORITHM, "random"),
	.version = "0.1",
	.summary = "random search: uniform draws, each trained to the end",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
