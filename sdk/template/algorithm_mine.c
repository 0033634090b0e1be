/* algorithm_mine.c - an algorithm to begin with: random search that stops trials far behind.
 *
 * Draws configurations as GPUs come free and, after a grace of some iterations, stops each trial
 * that is worse than the best one was at the same iteration by more than a margin.  It shows the
 * three entries most algorithms need: next_group (what trains next), on_report (verdicts) and
 * spec (what a planner may know beforehand).
 *
 *	cc -shared -fPIC $(pkg-config --cflags espalier) -o algorithm_mine.so algorithm_mine.c
 *	espalier check-plugin algorithm_mine.so
 *
 * To make it yours: rename the file to algorithm_NAME.c, and `mine` in the last lines to NAME.
 */
#include <math.h>
#include <stdlib.h>
#include <espalier/algorithm.h>
#include <espalier/util.h>

/* The numbers of the options below: config->values[TRIALS] and so on. */
enum { TRIALS, ITERATIONS_MAX, GRACE, MARGIN };

static const struct espl_option options[] = {
	{ .name = "trials",
	    .help = "number of configurations",
	    .type = ESPL_OPT_INT,
	    .fallback = "20",
	    .min = "1",
	    .max = "1000000" },
	/* `iterations_max` is the name of a search's last iteration in every algorithm. */
	{ .name = "iterations_max",
	    .help = "number of iterations of a trial that is not stopped",
	    .type = ESPL_OPT_INT,
	    .fallback = "10",
	    .min = "1",
	    .max = "1000000" },
	{ .name = "grace",
	    .help = "number of iterations before a trial can be stopped",
	    .type = ESPL_OPT_INT,
	    .fallback = "2",
	    .min = "0",
	    .max = "1000000" },
	{ .name = "margin",
	    .help = "maximum excess over the best loss, as a fraction of it",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.5",
	    .min = "0",
	    .max = "1e9" },
};

/* All state is here: a plugin has no variables outside, so that several instances can live in one
 * process.  There is no saving: after a crash espalier makes a new instance and tells it the same
 * events again.  For the same reason decide nothing by the clock, the C library's random numbers or
 * addresses. */
struct mine {
	const struct espl_host *host; /* valid until destroy, as is what it serves */
	const struct espl_space *space;
	uint64_t trials, iterations, grace;
	double margin;
	uint64_t added, group;
	double *unit, *values; /* room for one configuration */
	double *best;          /* [iteration]: least loss so far */
};

static void
destroy(void *self)
{
	struct mine *mine = self;

	free(mine->unit);
	free(mine->values);
	free(mine->best);
	free(mine);
}

/* Options are checked already: types, limits and what is missing.  Only what depends on several
 * of them is left to do here; espl_blame names the option, and the user gets FILE:LINE. */
static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct mine *mine = calloc(1, sizeof *mine);
	uint64_t i;

	if (mine == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	mine->host = host;
	mine->space = host->service(host, ESPL_SPACE);
	mine->trials = (uint64_t)config->values[TRIALS].as.i;
	mine->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	mine->grace = (uint64_t)config->values[GRACE].as.i;
	mine->margin = config->values[MARGIN].as.r;
	mine->group = ESPL_NONE;
	if (mine->space == NULL || mine->grace > mine->iterations) {
		espl_status status = mine->space == NULL
		    ? espl_fail(error, ESPL_E_UNSUPPORTED,
			  "this host does not provide the search space")
		    : espl_blame(error, GRACE, "'grace' is longer than 'iterations_max'");

		destroy(mine);
		return status;
	}
	mine->unit = calloc((size_t)mine->space->param_count + 1, sizeof *mine->unit);
	mine->values = calloc((size_t)mine->space->param_count + 1, sizeof *mine->values);
	mine->best = calloc((size_t)mine->iterations + 1, sizeof *mine->best);
	if (mine->unit == NULL || mine->values == NULL || mine->best == NULL) {
		destroy(mine);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	for (i = 0; i <= mine->iterations; i++)
		mine->best[i] = INFINITY;
	*self = mine;
	return ESPL_OK;
}

/* Optional.  Trials that are stopped early only make the search cheaper than declared. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct mine *mine = self;
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);

	(void)error;
	stage.trials = (uint32_t)mine->trials;
	stage.iterations = mine->iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

/* Asked once a round: at the start, when GPUs are free, when something was reported. */
static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct mine *mine = self;
	uint32_t want = view->want;
	espl_status status = ESPL_OK;

	if (mine->added == mine->trials)
		return ESPL_OK;
	if (mine->group == ESPL_NONE) {
		struct espl_group group = ESPL_INIT(struct espl_group);

		group.flags = ESPL_GROUP_OPEN; /* trials are added one by one */
		status = sink->begin(sink, &group, &mine->group);
	}
	if (want == 0 && view->running == 0 && view->waiting == 0)
		want = 1; /* the first trial of an empty run asks for the first GPU */
	for (; want > 0 && mine->added < mine->trials && status == ESPL_OK; want--) {
		struct espl_start start = ESPL_INIT(struct espl_start);
		uint64_t trial;

		status = espl_draw(mine->host, mine->space, mine->unit, mine->values);
		start.how = ESPL_FRESH;
		start.values = mine->values; /* copied before add returns */
		start.budget = mine->iterations;
		if (status == ESPL_OK)
			status = sink->add(sink, mine->group, &start, &trial);
		if (status == ESPL_OK)
			mine->added++;
	}
	if (status == ESPL_OK && mine->added == mine->trials)
		status = sink->finish(sink);
	return status == ESPL_OK ? status : espl_fail(error, status, "a trial was rejected");
}

/* Lower is better: espalier has negated what the user maximizes. */
static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct mine *mine = self;
	double *best;

	(void)error;
	if (seen->iteration > mine->iterations)
		return ESPL_OK;
	best = &mine->best[seen->iteration];
	if (seen->loss < *best)
		*best = seen->loss;
	else if (seen->iteration > mine->grace && seen->iteration < trial->budget &&
	    !(seen->loss <= *best + fabs(*best) * mine->margin)) { /* NaN is stopped, too */
		if (mine->host->verbose)
			mine->host->note(mine->host, ESPL_ABOUT_TRIAL, trial->id,
			    "stopped: far behind the best at this iteration");
		return sink->verdict(sink, trial->id, ESPL_STOP);
	}
	return ESPL_OK;
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, mine) = {
	ESPL_HEAD(ESPL_ALGORITHM, "mine"),
	.version = "0.1",
	.summary = "random search that stops trials far behind the best",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
