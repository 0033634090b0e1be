/* algorithm_stages.c - a search whose shape is spelled out stage by stage.
 *
 * stages = ( (32, 1), (10, 3), (3, 9), (1, 37) ): 32 trials train 1 iteration, the best 10 of
 * them 3 more, and so on (RubberBand's ExperimentSpec, EuroSys'21, fig. 6).
 */
#include <espalier/ladder.h>

enum { STAGES };
enum { TRIALS, ITERATIONS, COLUMNS };

static const struct espl_option columns[] = {
	{ .name = "trials", .help = "trials of the stage: the best of the stage before",
	  .type = ESPL_OPT_INT, .min = "1", .max = "1000000000", .flags = ESPL_OPT_REQUIRED },
	{ .name = "iterations", .help = "iterations that each of them trains in this stage",
	  .type = ESPL_OPT_INT, .min = "1", .max = "1000000000000",
	  .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	{ .name = "stages", .help = "list of (trials, iterations of that stage)",
	  .type = ESPL_OPT_TABLE, .columns = columns, .column_count = COLUMNS,
	  .flags = ESPL_OPT_REQUIRED },
};

struct stages {
	struct espl_ladder ladder;
};

static espl_status
blame_row(struct espl_error *error, uint32_t row, const char *text)
{
	if (error != NULL && error->status == ESPL_OK)
		error->row = row;
	return espl_blame(error, STAGES, text);
}

static espl_status
lay_rungs(struct stages *stages, const struct espl_config *config, struct espl_error *error)
{
	const struct espl_table *table = config->values[STAGES].as.table;
	espl_status status = ESPL_OK;
	uint64_t done = 0;
	int64_t  before = INT64_MAX;
	uint32_t row;

	if (table == NULL || table->row_count == 0)
		return espl_blame(error, STAGES, "'stages' needs at least one stage");
	for (row = 0; row < table->row_count && status == ESPL_OK; row++) {
		const struct espl_value *cells = table->cells + (size_t)row * table->column_count;

		if (cells[TRIALS].as.i > before)
			return blame_row(error, row, "a stage has more trials than the stage "
			                 "before it: only survivors go on");
		if ((uint64_t)cells[ITERATIONS].as.i > INT64_MAX - done)
			return blame_row(error, row, "the iterations add up to too many");
		before = cells[TRIALS].as.i;
		done += (uint64_t)cells[ITERATIONS].as.i;
		status = espl_ladder_rung(&stages->ladder, (uint32_t)before, done, error);
	}
	return status;
}

static void
destroy(void *self)
{
	struct stages *stages = self;

	espl_ladder_free(&stages->ladder);
	free(stages);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
       struct espl_error *error)
{
	struct stages *stages = calloc(1, sizeof *stages);
	espl_status status;

	if (stages == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = espl_ladder_init(&stages->ladder, host, error);
	if (status == ESPL_OK)
		status = lay_rungs(stages, config, error);
	if (status != ESPL_OK) {
		destroy(stages);
		return status;
	}
	*self = stages;
	return ESPL_OK;
}

static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	struct stages *stages = self;

	return espl_ladder_spec(&stages->ladder, sink, error);
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
             struct espl_search_sink *sink, struct espl_error *error)
{
	struct stages *stages = self;

	(void)sink;
	(void)error;
	espl_ladder_ended(&stages->ladder, trial, how);
	return ESPL_OK;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
           struct espl_error *error)
{
	struct stages *stages = self;
	struct espl_ladder *ladder = &stages->ladder;
	espl_status status;

	if (ladder->over)
		return ESPL_OK;
	if (ladder->group == ESPL_NONE)
		return espl_ladder_begin(ladder, sink, error);
	if ((view->why & ESPL_ASK_GROUP) == 0 || view->group != ladder->group)
		return ESPL_OK;
	status = espl_ladder_climb(ladder, sink, error);
	if (status == ESPL_OK && ladder->over)
		status = sink->finish(sink);
	return status;
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, stages) = {
	ESPL_HEAD(ESPL_ALGORITHM, "stages"),
	.version = "0.1",
	.summary = "stages spelled out: so many trials, so many iterations, the best go on",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
