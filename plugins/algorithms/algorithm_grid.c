/* algorithm_grid.c - grid search: every combination of the parameters' values, once.
 * The combinations are made by combinations.c.
 */
#include <stdlib.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include "combinations.h"

enum { ITERATIONS_MAX, POINTS, LEVELS_MAX };

static const struct espl_option options[] = {
	{ .name = "iterations_max",
	    .help = "number of iterations per configuration",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "1000000000000" },
	COMBINATIONS_OPTIONS(""),
};

#define GRID_MAGIC 0x7d843153u

struct grid {
	uint32_t magic; /* GRID_MAGIC */
	struct combinations all;
	uint64_t iterations, left, group; /* left: configurations to be added */
	int finished;
};

static void
destroy(void *self)
{
	struct grid *grid = self;

	ESPL_ASSERT(grid != NULL && grid->magic == GRID_MAGIC);
	grid->magic = 0;
	combinations_free(&grid->all);
	free(grid);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct grid *grid = calloc(1, sizeof *grid);
	espl_status status;

	if (grid == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	grid->magic = GRID_MAGIC;
	grid->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	grid->group = ESPL_NONE;
	status = combinations_init(&grid->all, host, (uint64_t)config->values[POINTS].as.i,
	    (uint64_t)config->values[LEVELS_MAX].as.i, error);
	if (status != ESPL_OK) {
		destroy(grid);
		return status;
	}
	grid->left = grid->all.total;
	*self = grid;
	return ESPL_OK;
}

static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct grid *grid = self;
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);

	ESPL_ASSERT(grid != NULL && grid->magic == GRID_MAGIC);
	ESPL_ASSERT(grid->all.total > 0);
	(void)error;
	stage.trials = (uint32_t)grid->all.total;
	stage.iterations = grid->iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.flags = ESPL_SPEC_OPEN;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct grid *grid = self;
	uint64_t want = view->want, trial;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(grid != NULL && grid->magic == GRID_MAGIC);
	if (grid->finished)
		return ESPL_OK;
	ESPL_ASSERT(grid->left > 0);
	if (grid->group == ESPL_NONE) {
		struct espl_group group = ESPL_INIT(struct espl_group);

		group.flags = ESPL_GROUP_OPEN;
		status = sink->begin(sink, &group, &grid->group);
	}
	/* Something must ask for GPUs, or there will never be any. */
	if (want == 0 && view->running == 0 && view->waiting == 0)
		want = 1;
	for (; want > 0 && status == ESPL_OK; want--) {
		struct espl_start start = ESPL_INIT(struct espl_start);

		start.how = ESPL_FRESH;
		start.budget = grid->iterations;
		status = combinations_next(&grid->all, &start.values, error);
		if (status == ESPL_OK)
			status = sink->add(sink, grid->group, &start, &trial);
		if (status == ESPL_OK && --grid->left == 0) {
			grid->finished = 1;
			return sink->finish(sink);
		}
	}
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "a configuration of the grid was rejected");
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, grid) = {
	ESPL_HEAD(ESPL_ALGORITHM, "grid"),
	.version = "0.1",
	.summary = "grid search: try every combination of parameter values once",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
