/* algorithm_grid.c - grid search: every combination of the parameters' values, once.
 *
 * An odometer with one digit a parameter.  A parameter that its conditions switch off turns no
 * digit, so no configuration comes twice; conditions look back only, so the digits before a
 * parameter already say whether it is on.  Memory is O(parameters), whatever the grid's size.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>

enum { ITERATIONS_MAX, POINTS, LEVELS_MAX };
#define GRID_MAX 1000000u /* as many trials as an experiment may have */

static const struct espl_option options[] = {
	{ .name = "iterations_max",
	    .help = "number of iterations per configuration",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "1000000000000" },
	{ .name = "points",
	    .help = "number of values per continuous parameter, evenly spaced on its scale, "
		    "including both ends",
	    .type = ESPL_OPT_INT,
	    .fallback = "3",
	    .min = "1",
	    .max = "100000" },
	{ .name = "levels_max",
	    .help = "maximum number of values per integer or quantized parameter, evenly spaced on "
		    "its scale; 0: use all values",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "100000" },
};

/* one parameter */
struct axis {
	double *points; /* values, if they are picked; NULL: computed */
	uint64_t count; /* how many values */
	uint64_t digit; /* the present one */
};
#define GRID_MAGIC 0x7d843153u

struct grid {
	uint32_t magic; /* GRID_MAGIC */
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_first *first; /* NULL: the user has none */
	struct axis *axes;
	double *values;
	uint64_t *seen; /* hashes of the user's points, sorted */
	uint64_t iterations, total, group;
	uint32_t seen_count, given; /* given: user's points already added */
	int begun, over;            /* of the odometer */
	int finished;
};

static void
destroy(void *self)
{
	struct grid *grid = self;
	uint32_t i;

	ESPL_ASSERT(grid != NULL && grid->magic == GRID_MAGIC);
	grid->magic = 0;
	for (i = 0; grid->axes != NULL && i < grid->space->param_count; i++)
		free(grid->axes[i].points);
	free(grid->axes);
	free(grid->values);
	free(grid->seen);
	free(grid);
}

/* Value number `digit` of a parameter. */
static double
value_of_digit(const struct grid *grid, uint32_t param, uint64_t digit)
{
	const struct espl_param *p = grid->space->params[param];

	ESPL_ASSERT(param < grid->space->param_count && digit < grid->axes[param].count);
	if (grid->axes[param].points != NULL)
		return grid->axes[param].points[digit];
	if (p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL)
		return (double)digit;
	return p->low + (double)digit * (p->quantum > 0 ? p->quantum : 1.0);
}

/* Picks `points` values evenly on the parameter's scale; coarse ones may fall together. */
static espl_status
pick_points(struct grid *grid, uint32_t param, uint64_t points, struct espl_error *error)
{
	struct axis *axis = &grid->axes[param];
	uint64_t i;

	ESPL_ASSERT(points > 0 && axis->points == NULL);
	axis->points = calloc((size_t)points, sizeof *axis->points);
	if (axis->points == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < points; i++) {
		double u = points == 1 ? 0.5 : (double)i / (double)(points - 1);
		double value = grid->space->value(grid->space, param, u);

		if (axis->count == 0 || value != axis->points[axis->count - 1])
			axis->points[axis->count++] = value;
	}
	return ESPL_OK;
}

static espl_status
make_axes(struct grid *grid, const struct espl_config *config, struct espl_error *error)
{
	uint64_t points = (uint64_t)config->values[POINTS].as.i;
	uint64_t most = (uint64_t)config->values[LEVELS_MAX].as.i;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < grid->space->param_count && status == ESPL_OK; i++) {
		const struct espl_param *p = grid->space->params[i];
		int labels = p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL;

		if (p->levels == 0)
			status = pick_points(grid, i, points, error);
		else if (!labels && most > 0 && p->levels > most)
			status = pick_points(grid, i, most, error);
		else
			grid->axes[i].count = p->levels;
	}
	return status;
}

/* The configuration the odometer shows; what is switched off becomes NaN. */
static espl_status
read_odometer(struct grid *grid, struct espl_error *error)
{
	uint32_t i, missing = ESPL_ANY;
	espl_status status;

	for (i = 0; i < grid->space->param_count; i++)
		grid->values[i] = value_of_digit(grid, i, grid->axes[i].digit);
	status = grid->space->snap(grid->space, grid->values, &missing);
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "the space rejected a configuration of the grid");
}

/* Turns to the next combination, the last parameter fastest; sets over behind the last. */
static espl_status
turn_odometer(struct grid *grid, struct espl_error *error)
{
	uint32_t i = grid->space->param_count;

	if (!grid->begun) {
		grid->begun = 1;
		return read_odometer(grid, error);
	}
	while (i-- > 0) {
		struct axis *axis = &grid->axes[i];

		if (!isnan(grid->values[i]) && axis->digit + 1 < axis->count) {
			axis->digit++;
			return read_odometer(grid, error);
		}
		axis->digit = 0;
	}
	grid->over = 1;
	return ESPL_OK;
}

static int
hash_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int
was_given(const struct grid *grid)
{
	uint64_t hash;

	if (grid->seen_count == 0)
		return 0;
	hash = grid->space->hash(grid->space, grid->values);
	return bsearch(&hash, grid->seen, grid->seen_count, sizeof hash, hash_order) != NULL;
}

/* The user's points, the same one twice counted once, are tried before the grid. */
static espl_status
note_first(struct grid *grid, struct espl_error *error)
{
	uint32_t i, kept = 0;

	if (grid->first == NULL || grid->first->count == 0)
		return ESPL_OK;
	grid->seen = calloc(grid->first->count, sizeof *grid->seen);
	if (grid->seen == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < grid->first->count; i++)
		grid->seen[i] = grid->space->hash(grid->space, grid->first->at(grid->first, i));
	qsort(grid->seen, grid->first->count, sizeof *grid->seen, hash_order);
	for (i = 0; i < grid->first->count; i++)
		if (kept == 0 || grid->seen[i] != grid->seen[kept - 1])
			grid->seen[kept++] = grid->seen[i];
	grid->seen_count = kept;
	return ESPL_OK;
}

/* Runs the odometer once through, so that the size is known before anything trains. */
static espl_status
count_all(struct grid *grid, struct espl_error *error)
{
	espl_status status = turn_odometer(grid, error);
	uint32_t i;

	grid->total = grid->seen_count;
	for (; status == ESPL_OK && !grid->over; status = turn_odometer(grid, error)) {
		grid->total += was_given(grid) ? 0 : 1;
		if (grid->total > GRID_MAX) {
			return espl_hint(error,
			    espl_fail(error, ESPL_E_CONFIG,
				"the grid has more than %u configurations", GRID_MAX),
			    "lower 'points', set 'levels_max', set a quantum for parameters, or "
			    "use 'random'");
		}
	}
	grid->begun = grid->over = 0;
	for (i = 0; i < grid->space->param_count; i++)
		grid->axes[i].digit = 0;
	return status;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct grid *grid = calloc(1, sizeof *grid);
	espl_status status = ESPL_OK;
	size_t count;

	if (grid == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	grid->magic = GRID_MAGIC;
	grid->host = host;
	grid->space = host->service(host, ESPL_SPACE);
	grid->first = host->service(host, ESPL_FIRST);
	grid->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	grid->group = ESPL_NONE;
	if (grid->space == NULL) {
		destroy(grid);
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "this host does not provide the search space");
	}
	count = (size_t)grid->space->param_count + 1;
	grid->axes = calloc(count, sizeof *grid->axes);
	grid->values = calloc(count, sizeof *grid->values);
	if (grid->axes == NULL || grid->values == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (status == ESPL_OK)
		status = make_axes(grid, config, error);
	if (status == ESPL_OK)
		status = note_first(grid, error);
	if (status == ESPL_OK)
		status = count_all(grid, error);
	if (status != ESPL_OK) {
		destroy(grid);
		return status;
	}
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
	ESPL_ASSERT(grid->total > 0);
	(void)error;
	stage.trials = (uint32_t)grid->total;
	stage.iterations = grid->iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

/* Was point `index` of the user's already listed before? */
static int
is_repeat(const struct grid *grid, uint32_t index)
{
	uint64_t hash = grid->space->hash(grid->space, grid->first->at(grid->first, index));
	uint32_t i;

	ESPL_ASSERT(index < grid->first->count);
	for (i = 0; i < index; i++)
		if (grid->space->hash(grid->space, grid->first->at(grid->first, i)) == hash)
			return 1;
	return 0;
}

/* The next configuration, or NULL when all have been given out. */
static espl_status
take_next(struct grid *grid, const double **values, struct espl_error *error)
{
	espl_status status;

	*values = NULL;
	while (grid->first != NULL && grid->given < grid->first->count) {
		uint32_t index = grid->given++;

		if (!is_repeat(grid, index)) {
			*values = grid->first->at(grid->first, index);
			return ESPL_OK;
		}
	}
	do {
		status = turn_odometer(grid, error);
	} while (status == ESPL_OK && !grid->over && was_given(grid));
	if (status == ESPL_OK && !grid->over)
		*values = grid->values;
	return status;
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
	ESPL_ASSERT(grid->total > 0);
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
		status = take_next(grid, &start.values, error);
		if (status == ESPL_OK)
			status = sink->add(sink, grid->group, &start, &trial);
		if (status == ESPL_OK && --grid->total == 0) {
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
