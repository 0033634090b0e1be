/* algorithm_stages.c - a search whose shape is declared stage by stage.
 *
 * stages = ( (32, 1), (10, 3), (3, 9), (1, 37) ): 32 trials train 1 iteration, the best 10 of them
 * 3 more, and so on (RubberBand's ExperimentSpec, EuroSys'21, fig. 6). Where a stage is wider than
 * the one before it, new configurations join and train that stage's iterations.
 */
#include <espalier/kit/assert.h>
#include <espalier/kit/rung_table.h>

enum { STAGES, REPEATS };
enum { TRIALS, ITERATIONS, COLUMNS };

static const struct espl_option columns[] = {
	{ .name = "trials",
	    .help = "number of trials in the stage: the best of the previous stage, and new ones "
		    "if it had fewer",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000",
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "iterations",
	    .help = "number of iterations per trial in this stage",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000000000",
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	{ .name = "stages",
	    .help = "list of (trials, iterations of that stage)",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = COLUMNS,
	    .flags = ESPL_OPT_REQUIRED },
	ESPL_TRIED_OPTION,
};

static espl_status
blame_row(struct espl_error *error, uint32_t row, const char *text)
{
	if (error != NULL && error->status == ESPL_OK)
		error->row = row;
	return espl_blame(error, STAGES, text);
}

/* How many configurations join at the stages together. */
static uint64_t
count_newcomers(const struct espl_table *table)
{
	uint64_t before = 0, sum = 0;
	uint32_t row;

	for (row = 0; row < table->row_count; row++) {
		uint64_t trials =
		    (uint64_t)table->cells[(size_t)row * table->column_count + TRIALS].as.i;

		sum += trials > before ? trials - before : 0;
		before = trials;
	}
	return sum;
}

static espl_status
fill_rungs(struct espl_rung_table *rungs, const struct espl_config *config,
    struct espl_error *error)
{
	const struct espl_table *table = config->values[STAGES].as.table;
	espl_status status = ESPL_OK;
	uint64_t done = 0, left;
	uint32_t row, before = 0;

	rungs->grows = 1;
	if (table == NULL || table->row_count == 0)
		return espl_blame(error, STAGES, "'stages' needs at least one stage");
	ESPL_ASSERT(table->column_count == COLUMNS);
	status = espl_rung_table_limit(rungs, &config->values[REPEATS], count_newcomers(table),
	    &left, error);
	for (row = 0; row < table->row_count && status == ESPL_OK; row++) {
		const struct espl_value *cells = table->cells + (size_t)row * table->column_count;
		uint64_t trials = (uint64_t)cells[TRIALS].as.i;

		if (trials > before && trials - before > left)
			trials = before + left; /* the space has no more */
		left -= trials > before ? trials - before : 0;
		before = (uint32_t)trials;
		if ((uint64_t)cells[ITERATIONS].as.i > INT64_MAX - done)
			return blame_row(error, row, "the sum of the iterations is too large");
		done += (uint64_t)cells[ITERATIONS].as.i;
		status = espl_rung_table_add(rungs, before, done, error);
	}
	return status;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	return espl_rung_table_plugin_create(host, config, fill_rungs, self, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = espl_rung_table_plugin_next_group,
	.on_trial_end = espl_rung_table_plugin_on_trial_end,
	.spec = espl_rung_table_plugin_spec,
};

ESPL_PLUGIN(algorithm, stages) = {
	ESPL_HEAD(ESPL_ALGORITHM, "stages"),
	.version = "0.1",
	.summary = "explicit stages: the number of trials and iterations of each stage",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = espl_rung_table_plugin_destroy,
};
