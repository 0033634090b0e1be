/* algorithm_sobol.c - Sobol's quasi-random sequence, scrambled: configurations that fill the space
 * evenly.
 *
 * As `random`, but of the first 2^m points one lies in each 2^m-th of every parameter's scale, and
 * pairs of parameters are covered nearly as evenly: few trials are wasted on what was tried
 * already.
 *
 * Direction numbers: Joe and Kuo (sobol_table.h).  Points in Gray code order: Antonov and Saleev
 * (1979). Scrambling: a random lower-triangular matrix of bits and a digital shift for each
 * dimension (Matousek, J. Complexity 14, 1998), which keeps the sequence's evenness and makes every
 * point uniform; the stream of the plugin seeds it.  Owen's nested scrambling would need memory
 * that grows with the points.
 */
#include <stdlib.h>
#include <espalier/util.h>
#include "shared.h"
#include "sobol_table.h"

#define DIGITS 53 /* of a point: what a double holds */
#define WORDS 32  /* points: 2^32, more than an experiment can have */

enum { TRIALS, ITERATIONS_MAX, SCRAMBLE, REPEATS };

static const struct espl_option options[] = {
	SHARED_OPTION_TRIALS,
	SHARED_OPTION_ITERATIONS,
	{ .name = "scramble",
	    .help = "randomize the sequence; false: the plain sequence, which is the same for "
		    "every seed and starts at the lowest corner",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true" },
	ESPL_TRIED_OPTION,
};

/* one dimension */
struct axis {
	uint64_t words[WORDS]; /* direction numbers */
	uint64_t at;           /* the present point, DIGITS bits */
};
#define SOBOL_MAGIC 0x7e4a9849u

struct sobol {
	uint32_t magic; /* SOBOL_MAGIC */
	struct shared shared;
	struct axis *axes;
	uint64_t iterations;
	uint64_t points; /* of the sequence, used so far */
	uint32_t scramble, begun;
};

static void
destroy(void *self)
{
	struct sobol *sobol = self;

	ESPL_ASSERT(sobol != NULL && sobol->magic == SOBOL_MAGIC);
	sobol->magic = 0;
	free(sobol->axes);
	shared_free(&sobol->shared);
	free(sobol);
}

/* Direction numbers of a dimension: m_1 .. m_degree from the table, the others by its polynomial.
 */
static void
make_axis(struct axis *axis, uint32_t dimension)
{
	const struct sobol_row *row = dimension > 0 ? &sobol_table[dimension - 1] : NULL;
	uint64_t m[WORDS];
	uint32_t i, k, degree = row != NULL ? row->degree : 0;

	ESPL_ASSERT(dimension < SOBOL_DIMENSIONS && degree < WORDS);
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
scramble_axis(const struct espl_host *host, struct axis *axis)
{
	uint64_t rows[DIGITS];
	uint32_t i, k;

	for (k = 0; k < DIGITS; k++) {
		/* the digits before it are the bits above */
		uint64_t own = UINT64_C(1) << k;

		rows[k] =
		    own | (host->random(host) & (((UINT64_C(1) << DIGITS) - 1) ^ (own * 2 - 1)));
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
	uint32_t params;
	espl_status status;

	if (sobol == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	sobol->magic = SOBOL_MAGIC;
	sobol->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	sobol->scramble = config->values[SCRAMBLE].as.i != 0;
	status = shared_init(&sobol->shared, host, (uint64_t)config->values[TRIALS].as.i, TRIALS,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status == ESPL_OK) {
		params = sobol->shared.space->param_count;
		if (params > SOBOL_DIMENSIONS)
			status = espl_hint(error,
			    espl_fail(error, ESPL_E_CONFIG,
				"the space has %u parameters, but this Sobol sequence supports at "
				"most %u",
				params, SOBOL_DIMENSIONS),
			    "use = \"random\" supports any number");
		else if ((sobol->axes = calloc((size_t)params + 1, sizeof *sobol->axes)) == NULL)
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

	ESPL_ASSERT(sobol != NULL && sobol->magic == SOBOL_MAGIC);
	(void)error;
	return shared_spec(&sobol->shared, sobol->iterations, sink);
}

/* The next point: one direction number more or less in each dimension. */
static espl_status
next_point(void *ctx, double *values, struct espl_error *error)
{
	struct sobol *sobol = ctx;
	const struct espl_space *space = sobol->shared.space;
	uint32_t i, k = 0;
	uint64_t index = sobol->points++;

	ESPL_ASSERT(sobol->magic == SOBOL_MAGIC && sobol->begun);
	(void)error;
	while (index > 0 && (index >> k & 1) == 0)
		k++;
	for (i = 0; i < space->param_count; i++) {
		if (index > 0)
			sobol->axes[i].at ^= sobol->axes[i].words[k % WORDS];
		sobol->shared.unit[i] = (double)sobol->axes[i].at * 0x1.0p-53;
	}
	return space->from_unit(space, sobol->shared.unit, values);
}

static espl_status
add_one(void *self, struct espl_search_sink *sink, struct espl_error *error)
{
	struct sobol *sobol = self;
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status = shared_values(&sobol->shared, next_point, sobol, &start.values, error);
	uint64_t trial;

	ESPL_ASSERT(sobol != NULL && sobol->magic == SOBOL_MAGIC);
	start.how = ESPL_FRESH;
	start.budget = sobol->iterations;
	return status == ESPL_OK ? sink->add(sink, sobol->shared.group, &start, &trial) : status;
}

static void
lay_axes(struct sobol *sobol)
{
	uint32_t i;

	ESPL_ASSERT(sobol->axes != NULL && !sobol->begun);
	for (i = 0; i < sobol->shared.space->param_count; i++) {
		make_axis(&sobol->axes[i], i);
		if (sobol->scramble)
			scramble_axis(sobol->shared.host, &sobol->axes[i]);
	}
	sobol->begun = 1;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct sobol *sobol = self;

	ESPL_ASSERT(sobol != NULL && sobol->magic == SOBOL_MAGIC);
	if (!sobol->begun)
		lay_axes(sobol);
	return shared_fill(&sobol->shared, shared_want(&sobol->shared, view),
	    sobol->shared.trials > 0, add_one, sobol, sink, error);
}

static espl_status
extend(void *self, const struct espl_extension *more, struct espl_error *error)
{
	struct sobol *sobol = self;

	ESPL_ASSERT(sobol != NULL && sobol->magic == SOBOL_MAGIC);
	return shared_extend(&sobol->shared, more, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.spec = spec,
	.extend = extend,
};

ESPL_PLUGIN(algorithm, sobol) = {
	ESPL_HEAD(ESPL_ALGORITHM, "sobol"),
	.version = "0.1",
	.summary =
	    "scrambled Sobol sequence: evenly spread configurations, each trained to the end",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
