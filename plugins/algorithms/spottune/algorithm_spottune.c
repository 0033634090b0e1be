/* algorithm_spottune.c - SpotTune's search (ICDCS'20, Algorithm 1): all trials train theta of the
 * way, the ends of their curves are predicted, and the best `mcnt` by that train to the end.
 *
 * The two stages are a rung table (espalier/kit/rung_table.h) that ranks by the prediction instead
 * of the last loss; the predictions are extrapolate.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/rung_table.h>
#include <espalier/kit/array.h>
#include "extrapolate.h"
#include "../combinations.h"
#include "../shared.h"

enum {
	TRIALS,
	ITERATIONS_MAX,
	THETA,
	MCNT,
	EXTRAPOLATOR,
	CEILING,
	PLATEAU,
	POINTS,
	LEVELS_MAX,
	REPEATS
};

static const struct espl_option options[] = {
	{ .name = "trials",
	    .help = "number of random configurations; 0: every combination of the parameters' "
		    "values, as in grid",
	    .type = ESPL_OPT_INT,
	    .min = "0",
	    .max = "1000000",
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "iterations_max",
	    .help = "number of iterations of a whole training",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000000000",
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "theta",
	    .help = "fraction of iterations_max after which the ends of all curves are predicted; "
		    "1: every trial is trained to the end",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.7",
	    .min = "0.01",
	    .max = "1" },
	{ .name = "mcnt",
	    .help = "number of trials with the best predictions that continue to the end; if there "
		    "are no more trials than this, all continue",
	    .type = ESPL_OPT_INT,
	    .fallback = "3",
	    .min = "1",
	    .max = "1000000" },
	{ .name = "extrapolator",
	    .help = "how ends are predicted: last, damped, power, slaq or earlycurve, with options "
		    "after commas; as published: earlycurve,xi=0.5,eps=0.01",
	    .type = ESPL_OPT_STRING,
	    .fallback = "damped" },
	{ .name = "ceiling",
	    .help =
		"largest possible value of a maximized metric, such as 1 for an accuracy or 100 "
		"for a percentage",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1",
	    .min = "1e-300",
	    .max = "1e300" },
	{ .name = "plateau",
	    .help = "pause a trial before theta if its last five reports each changed by less than "
		    "this fraction and 30 % of iterations_max are done; 0: never",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1" },
	COMBINATIONS_OPTIONS("with trials = 0: "),
	ESPL_TRIED_OPTION,
};

#define PLATEAU_FROM 0.3 /* of iterations_max */

/* What a trial has reported so far. */
struct course {
	struct espl_point *points;
	uint32_t count, room;
};
#define SPOTTUNE_MAGIC 0x73706f74u

struct spottune {
	struct espl_rung_table table; /* first: the plugin's instance is one */
	uint32_t magic;               /* SPOTTUNE_MAGIC */
	int maximize, warned;
	struct espl_extrapolator extrapolator;
	struct combinations grid; /* of which trials are made; total 0: they are random */
	struct course *courses;   /* [trials] of the first stage, by id */
	uint32_t course_count;
	uint64_t iterations;
	double plateau;
};

static void
free_courses(struct spottune *search)
{
	for (uint32_t i = 0; i < search->course_count; i++)
		free(search->courses[i].points);
	free(search->courses);
	search->courses = NULL;
	search->course_count = 0;
}

static void
destroy(void *self)
{
	struct spottune *search = self;

	ESPL_ASSERT(search != NULL && search->magic == SPOTTUNE_MAGIC);
	search->magic = 0;
	free_courses(search);
	combinations_free(&search->grid);
	espl_rung_table_free(&search->table);
	free(search);
}

static espl_status
read_extrapolator(struct spottune *search, const struct espl_config *config,
    struct espl_error *error)
{
	char text[256];
	const char *wrong = espl_extrapolator_read(&search->extrapolator,
	    config->values[EXTRAPOLATOR].as.s, text, sizeof text);

	if (wrong != NULL)
		return espl_blame(error, EXTRAPOLATOR, wrong);
	if (search->maximize)
		search->extrapolator.ceiling = config->values[CEILING].as.r;
	return ESPL_OK;
}

static espl_status
take_combination(void *ctx, const double **values, struct espl_error *error)
{
	struct spottune *search = ctx;

	return combinations_next(&search->grid, values, error);
}

static espl_status
lay_grid(struct spottune *search, const struct espl_config *config, struct espl_error *error)
{
	if (config->values[TRIALS].as.i > 0)
		return ESPL_OK;
	search->table.source = take_combination;
	search->table.source_ctx = search;
	return combinations_init(&search->grid, search->table.host,
	    (uint64_t)config->values[POINTS].as.i, (uint64_t)config->values[LEVELS_MAX].as.i,
	    error);
}

static espl_status
lay_rungs(struct spottune *search, const struct espl_config *config, struct espl_error *error)
{
	uint64_t given = (uint64_t)config->values[TRIALS].as.i;
	uint32_t trials = (uint32_t)search->grid.total;
	uint32_t best = (uint32_t)config->values[MCNT].as.i;
	/* The tolerance keeps 0.7 * 10 at 7. */
	double first = ceil(config->values[THETA].as.r * (double)search->iterations * (1 - 1e-12));
	espl_status status = ESPL_OK;

	if (given > 0) {
		status = espl_rung_table_limit(&search->table, &config->values[REPEATS], given,
		    &given, error);
		trials = (uint32_t)given;
	}
	if (status == ESPL_OK && first < (double)search->iterations)
		status = espl_rung_table_add(&search->table, trials, (uint64_t)first, error);
	if (best > trials || search->table.rung_count == 0)
		best = trials;
	return status == ESPL_OK
	    ? espl_rung_table_add(&search->table, best, search->iterations, error)
	    : status;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct spottune *search = calloc(1, sizeof *search);
	const struct espl_experiment *experiment = host->service(host, ESPL_EXPERIMENT);
	espl_status status;

	if (search == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	search->magic = SPOTTUNE_MAGIC;
	search->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	search->plateau = config->values[PLATEAU].as.r;
	search->maximize =
	    experiment != NULL && (experiment->flags & ESPL_EXPERIMENT_MAXIMIZE) != 0;
	status = espl_rung_table_init(&search->table, host, error);
	if (status == ESPL_OK)
		status = read_extrapolator(search, config, error);
	if (status == ESPL_OK)
		status = lay_grid(search, config, error);
	if (status == ESPL_OK)
		status = lay_rungs(search, config, error);
	if (status == ESPL_OK) {
		search->course_count = search->table.rungs[0].trials;
		search->courses = calloc(search->course_count, sizeof *search->courses);
		if (search->courses == NULL)
			status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	if (status != ESPL_OK) {
		search->course_count = search->courses == NULL ? 0 : search->course_count;
		destroy(search);
		return status;
	}
	*self = search;
	return ESPL_OK;
}

static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct spottune *search = self;

	ESPL_ASSERT(search != NULL && search->magic == SPOTTUNE_MAGIC);
	return espl_rung_table_spec(&search->table, sink, error);
}

/* The course of a trial of the first stage, where its end is still to be predicted. */
static struct course *
find_course(struct spottune *search, const struct espl_trial *trial)
{
	return search->table.stage == 0 && search->table.rung_count > 1 &&
		trial->id < search->course_count
	    ? &search->courses[trial->id]
	    : NULL;
}

static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct spottune *search = self;
	struct course *course = find_course(search, trial);
	struct espl_point *points;

	ESPL_ASSERT(search != NULL && search->magic == SPOTTUNE_MAGIC);
	if (course == NULL)
		return ESPL_OK;
	points = espl_array_grow(course->points, &course->room, course->count + 1, sizeof *points);
	if (points == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u reports",
		    course->count + 1);
	course->points = points;
	course->points[course->count].x = (double)seen->iteration;
	course->points[course->count].y = search->maximize ? -seen->loss : seen->loss;
	course->count++;
	if (search->plateau > 0 && seen->iteration < trial->budget &&
	    (double)seen->iteration >= PLATEAU_FROM * (double)search->iterations &&
	    espl_curve_flat(&search->extrapolator, course->points, course->count, search->plateau))
		return sink->verdict(sink, trial->id, ESPL_PAUSE);
	return ESPL_OK;
}

/* The predicted loss at the last iteration, NaN for a trial that reported no number last. */
static double
predict_loss(struct spottune *search, const struct espl_trial *trial, const struct course *course,
    int paused)
{
	const struct espl_host *host = search->table.host;
	double value, at = paused ? 0 : (double)search->iterations;
	uint32_t how;
	char text[160];

	if (isnan(trial->loss))
		return NAN;
	how = espl_extrapolate(&search->extrapolator, course->points, course->count, at, &value);
	if (how == ESPL_EXTRAPOLATED_NONE)
		return NAN;
	if (how == ESPL_EXTRAPOLATED_RANGE && !search->warned) {
		search->warned = 1;
		espl_logf(host, ESPL_WARN,
		    "trial %llu reported values %s: such trials are ranked by their last value%s",
		    (unsigned long long)trial->id, search->maximize ? "above 'ceiling'" : "below 0",
		    search->maximize ? " (set algorithm.ceiling)" : "");
	}
	if (host->verbose) {
		(void)snprintf(text, sizeof text, "predicted to end at %.6g%s", value,
		    how == ESPL_EXTRAPOLATED_FIT ? "" : " (its last value)");
		host->note(host, ESPL_ABOUT_TRIAL, trial->id, text);
	}
	return search->maximize ? -value : value;
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct spottune *search = self;
	const struct course *course = find_course(search, trial);
	int paused = how == ESPL_END_PAUSED;

	ESPL_ASSERT(search != NULL && search->magic == SPOTTUNE_MAGIC);
	(void)sink;
	(void)error;
	if (course == NULL)
		espl_rung_table_trial_ended(&search->table, trial, how);
	else if (how != ESPL_END_BUDGET && !paused)
		espl_rung_table_trial_ended(&search->table, trial, how);
	else /* a paused trial is as good as at its budget */
		espl_rung_table_trial_ended_as(&search->table, trial, ESPL_END_BUDGET,
		    predict_loss(search, trial, course, paused));
	return ESPL_OK;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct spottune *search = self;
	struct espl_rung_table *table = &search->table;
	espl_status status;

	ESPL_ASSERT(search != NULL && search->magic == SPOTTUNE_MAGIC);
	if (table->group == ESPL_NONE && !table->over && table->rung_count > 1)
		espl_logf(table->host, ESPL_INFO,
		    "%u trials train %llu of %llu iterations, the best %u of them to the end",
		    table->rungs[0].trials, (unsigned long long)table->rungs[0].until,
		    (unsigned long long)search->iterations, table->rungs[1].trials);
	status = espl_rung_table_plugin_next_group(table, view, sink, error);
	if (status == ESPL_OK && table->stage > 0)
		free_courses(search); /* all are predicted */
	return status;
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, spottune) = {
	ESPL_HEAD(ESPL_ALGORITHM, "spottune"),
	.version = "0.1",
	.summary = "SpotTune: predict each trial's end from theta of its curve, finish the best",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
