/* algorithm_sha.c - successive halving: train many a little, keep the best 1/eta, train on.
 *
 * Two readings of the rungs are in use: the textbook's, where rung k ends at r*eta^k iterations,
 * and RubberBand's (EuroSys'21, fig. 6 and table 3), where stage k adds r*eta^k iterations.
 * The walk up the rungs is espalier/kit/rung_table.h; here is only the table.
 */
#include <espalier/kit/rung_table.h>
#include "shared.h"

enum { TRIALS, ITERATIONS_MIN, ITERATIONS_MAX, ETA, RUNGS, REPEATS, SAMPLER };
enum { CUMULATIVE, INCREMENTAL };

static const struct espl_option options[] = {
	{ .name = "trials",
	    .help = "number of configurations in the first rung",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000",
	    .flags = ESPL_OPT_REQUIRED },
	SHARED_OPTIONS_CUTS("", "3"),
	{ .name = "rungs",
	    .help = "cumulative: rung k ends at iterations_min * eta^k; incremental: rung k adds "
		    "that many iterations (as in RubberBand)",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "cumulative|incremental",
	    .fallback = "cumulative" },
	ESPL_TRIED_OPTION,
	ESPL_SAMPLER_OPTION,
};

/* a * b, or `most` if that is less: both are at least 1, so every overflow is detected. */
static uint64_t
multiply_capped(uint64_t a, uint64_t b, uint64_t most)
{
	return a > most / b ? most : a * b;
}

/* The last rung is the one with a single trial, or that reaches iterations_max; it runs to
 * iterations_max whatever the rule says. */
static espl_status
fill_rungs(struct espl_rung_table *table, const struct espl_config *config,
    struct espl_error *error)
{
	uint64_t first = (uint64_t)config->values[ITERATIONS_MIN].as.i;
	uint64_t last = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	uint64_t eta = (uint64_t)config->values[ETA].as.i;
	uint64_t trials = (uint64_t)config->values[TRIALS].as.i;
	espl_status status;
	uint64_t done = 0, power = first; /* power = first * eta^k, at most last */
	int cumulative = config->values[RUNGS].as.i == CUMULATIVE;

	ESPL_ASSERT(first > 0 && eta >= 2 && trials > 0);
	if (first > last)
		return shared_check_range(first, last, ITERATIONS_MIN, error);
	status = espl_rung_table_limit(table, &config->values[REPEATS], trials, &trials, error);
	if (status != ESPL_OK)
		return status;
	for (;;) {
		uint64_t until = cumulative ? power : power > last - done ? last : done + power;

		if (trials == 1 || until > last)
			until = last;
		status = espl_rung_table_add(table, (uint32_t)trials, until, error);
		if (status != ESPL_OK || until == last)
			return status;
		done = until;
		power = multiply_capped(power, eta, last);
		trials = trials / eta > 1 ? trials / eta : 1;
	}
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	return espl_rung_table_plugin_create(host, config, fill_rungs, self, error);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	const struct espl_rung_table *table = self;

	if (table->group == ESPL_NONE && !table->over)
		shared_tell_rungs(table->host, &table->rungs[0].until, sizeof table->rungs[0],
		    table->rung_count, "");
	return espl_rung_table_plugin_next_group(self, view, sink, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = espl_rung_table_plugin_on_trial_end,
	.spec = espl_rung_table_plugin_spec,
};

ESPL_PLUGIN(algorithm, sha) = {
	ESPL_HEAD(ESPL_ALGORITHM, "sha"),
	.version = "0.1",
	.summary = "successive halving: the best 1/eta of each rung are promoted",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = espl_rung_table_plugin_destroy,
};
