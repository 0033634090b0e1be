/* algorithm_sobol.c - Sobol's quasi-random sequence, scrambled: configurations that fill the space evenly.
 *
 * As `random`, but of the first 2^m points one lies in each 2^m-th of every parameter's scale, and pairs of
 * parameters are covered nearly as evenly: few trials are wasted on what was tried already.
 *
 * Direction numbers: Joe and Kuo (sobol_table.h).  Points in Gray code order: Antonov and Saleev (1979).
 * Scrambling: a random lower-triangular matrix of bits and a digital shift for each dimension (Matousek,
 * J. Complexity 14, 1998), which keeps the sequence's evenness and makes every point uniform; the
 * stream of the plugin seeds it.  Owen's nested scrambling would need memory that grows with the points.
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include "shared.h"
#include "sobol_table.h"

#define DIGITS 53			/* of a point: what a double holds               */
#define WORDS 32			/* points: 2^32, more than an experiment can have */

enum { TRIALS, ITERATIONS_MAX, SCRAMBLE };

static const struct espl_option options[] = {
	{ .name = "trials", .help = "how many configurations to try; 0: as many as the deadline "
	  "or the budget allows", .type = ESPL_OPT_INT, .fallback = "0", .min = "0",
	  .max = "1000000000" },
	{ .name = "iterations_max", .help = "iterations that each of them trains",
	  .type = ESPL_OPT_INT, .fallback = "1", .min = "1", .max = "1000000000000" },
	{ .name = "scramble", .help = "false: the plain sequence, the same for every seed, which "
	  "begins at the lowest corner", .type = ESPL_OPT_BOOL, .fallback = "true" },
};

struct axis {				/* one dimension */
	uint64_t words[WORDS];		/* direction numbers                                */
	uint64_t at;			/* the present point, DIGITS bits                   */
};
struct sobol {
	const struct espl_host  *host;
	const struct espl_space *space;
	const struct espl_first *first;	/* NULL: the user has none */
	struct axis *axes;
	double   *unit, *values;
	uint64_t  trials;		/* 0 no limit */
	uint64_t  iterations;
	uint64_t  added, points, group;	/* points: of the sequence, used so far             */
	uint32_t  scramble;
};

static void
destroy(void *self)
{
	struct sobol *sobol = self;

	free(sobol->axes);
	free(sobol->unit);
	free(sobol->values);
	free(sobol);
}

/* Direction numbers of a dimension: m_1 .. m_degree from the table, the others by its polynomial. */
static void
make_axis(struct axis *axis, uint32_t dimension)
{
	const struct sobol_row *row = dimension > 0 ? &sobol_table[dimension - 1] : NULL;
	uint64_t m[WORDS];
	uint32_t i, k, degree = row != NULL ? row->degree : 0;

	for (i = 0; i < WORDS; i++) {
		if (row == NULL) {
			m[i] = 1;
		} else if (i < degree) {
			m[i] = row->m[i];
		} else {
			m[i] = m[i - degree] ^ m[i - degree] << degree;
			for (k = 1; k < degree; k++)
				if ((row->inner >> (degree - 1 - k) & 1) != 0)
					m[i] ^= m[i - k] << k;
		}
		axis->words[i] = m[i] << (DIGITS - 1 - i);
	}
	axis->at = 0;
}

static uint32_t
odd_bits(uint64_t bits)
{
	bits ^= bits >> 32;
	bits ^= bits >> 16;
	bits ^= bits >> 8;
	bits ^= bits >> 4;
	return 0x6996u >> (bits & 15) & 1;
}

/* Every digit becomes itself plus a random choice of the digits before it; then all are shifted. */
static void
scramble(const struct espl_host *host, struct axis *axis)
{
	uint64_t rows[DIGITS];
	uint32_t i, k;

	for (k = 0; k < DIGITS; k++) {
		uint64_t own = UINT64_C(1) << k;	/* the digits before it are the bits above */

		rows[k] = own | (host->random(host) & (((UINT64_C(1) << DIGITS) - 1) ^ (own * 2 - 1)));
	}
	for (i = 0; i < WORDS; i++) {
		uint64_t word = 0;

		for (k = 0; k < DIGITS; k++)
			word |= (uint64_t)odd_bits(rows[k] & axis->words[i]) << k;
		axis->words[i] = word;
	}
	axis->at = host->random(host) >> (64 - DIGITS);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
       struct espl_error *error)
{
	struct sobol *sobol = calloc(1, sizeof *sobol);
	espl_status status = ESPL_OK;

	if (sobol == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	sobol->host = host;
	sobol->space = host->service(host, ESPL_SPACE);
	sobol->first = host->service(host, ESPL_FIRST);
	sobol->trials = (uint64_t)config->values[TRIALS].as.i;
	sobol->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	sobol->scramble = config->values[SCRAMBLE].as.i != 0;
	sobol->group = ESPL_NONE;
	if (sobol->space == NULL)
		status = espl_fail(error, ESPL_E_UNSUPPORTED, "this host offers no search space");
	else if (sobol->space->param_count > SOBOL_DIMENSIONS)
		status = espl_fail(error, ESPL_E_CONFIG, "the space has %u parameters; Sobol's "
		                   "sequence is known here for %u: use 'random'",
		                   sobol->space->param_count, SOBOL_DIMENSIONS);
	else if (sobol->trials == 0 && !shared_has_end(host))
		status = espl_blame(error, TRIALS, "the search would never end: give 'trials', or "
		                    "the experiment a deadline or a budget");
	if (status == ESPL_OK) {
		size_t count = (size_t)sobol->space->param_count + 1;

		sobol->axes = calloc(count, sizeof *sobol->axes);
		sobol->unit = calloc(count, sizeof *sobol->unit);
		sobol->values = calloc(count, sizeof *sobol->values);
		if (sobol->axes == NULL || sobol->unit == NULL || sobol->values == NULL)
			status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	if (status != ESPL_OK) {
		destroy(sobol);
		return status;
	}
	*self = sobol;
	return ESPL_OK;
}

/* One stage, where the number of trials is known: enough for a planner. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct sobol *sobol = self;
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);

	(void)error;
	if (sobol->trials == 0)
		return ESPL_OK;
	stage.trials = (uint32_t)sobol->trials;
	stage.iterations = sobol->iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

/* The next point: one direction number more or less in each dimension. */
static espl_status
next_point(struct sobol *sobol)
{
	uint32_t i, k = 0;
	uint64_t index = sobol->points++;

	while (index > 0 && (index >> k & 1) == 0)
		k++;
	for (i = 0; i < sobol->space->param_count; i++) {
		if (index > 0)
			sobol->axes[i].at ^= sobol->axes[i].words[k % WORDS];
		sobol->unit[i] = (double)sobol->axes[i].at * 0x1.0p-53;
	}
	return sobol->space->from_unit(sobol->space, sobol->unit, sobol->values);
}

static espl_status
add_one(struct sobol *sobol, struct espl_search_sink *sink)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status = ESPL_OK;
	uint64_t    trial;

	start.how = ESPL_FRESH;
	start.budget = sobol->iterations;
	start.values = sobol->values;
	if (sobol->first != NULL && sobol->added < sobol->first->count)
		start.values = sobol->first->at(sobol->first, (uint32_t)sobol->added);
	else
		status = next_point(sobol);
	if (status == ESPL_OK)
		status = sink->add(sink, sobol->group, &start, &trial);
	if (status == ESPL_OK)
		sobol->added++;
	return status;
}

static espl_status
begin(struct sobol *sobol, struct espl_search_sink *sink)
{
	struct espl_group group = ESPL_INIT(struct espl_group);
	uint32_t i;

	for (i = 0; i < sobol->space->param_count; i++) {
		make_axis(&sobol->axes[i], i);
		if (sobol->scramble)
			scramble(sobol->host, &sobol->axes[i]);
	}
	group.flags = ESPL_GROUP_OPEN;
	group.bracket = group.stage = sobol->trials > 0 ? 0 : ESPL_ANY;
	return sink->begin(sink, &group, &sobol->group);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
           struct espl_error *error)
{
	struct sobol *sobol = self;
	uint64_t    want = view->want;
	espl_status status = ESPL_OK;

	if (sobol->trials > 0 && sobol->added == sobol->trials)
		return ESPL_OK;
	if (sobol->group == ESPL_NONE)
		status = begin(sobol, sink);
	/* Something must ask for GPUs, or there will never be any. */
	if (want == 0 && view->running == 0 && view->waiting == 0)
		want = 1;
	for (; want > 0 && status == ESPL_OK; want--) {
		status = add_one(sobol, sink);
		if (status == ESPL_OK && sobol->added == sobol->trials)
			return sink->finish(sink);
	}
	return status == ESPL_OK ? status :
		espl_fail(error, status, "trial %llu was refused",
		          (unsigned long long)sobol->added);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, sobol) = {
	ESPL_HEAD(ESPL_ALGORITHM, "sobol"),
	.version = "0.1",
	.summary = "scrambled Sobol points: spread evenly, each trained to the end",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
