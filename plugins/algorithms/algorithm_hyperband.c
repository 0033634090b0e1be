/* algorithm_hyperband.c - Hyperband (Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar, JMLR 2018).
 *
 * Successive halving with several trade-offs between many configurations and long training: bracket
 * s begins with about eta^s (S + 1) / (s + 1) configurations at iterations_max / eta^s iterations
 * each, s = S .. 0. The table and its traversal are in brackets.h; the options are here.
 *
 * Beyond the paper: iterations are whole numbers, rounded down; brackets may run side by side, or
 * overlap as in HpBandSter; `trials` ends the search after exactly that many configurations, with a
 * smaller last bracket. If trials of a rung failed, as many as planned are promoted while there are
 * any.
 */
#include <stdlib.h>
#include "brackets.h"

enum { KINDS = BRACKETS_OPTION_COUNT, ORDER, ROUNDING, SAMPLER };

static const struct espl_option options[] = {
	BRACKETS_OPTIONS,
	{ .name = "brackets",
	    .help = "use only the first N brackets, which have the most configurations; 0: all",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "64" },
	{ .name = "order",
	    .help = "sequence: one bracket after the other; side-by-side: all at once; overlap: "
		    "start the next bracket as soon as GPUs are free",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "sequence|side-by-side|overlap",
	    .fallback = "sequence" },
	{ .name = "rounding",
	    .help = "number of configurations in bracket s of S: (S+1) eta^s / (s+1), rounded up "
		    "(paper), or with (S+1) / (s+1) rounded down or up first",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "paper|down|up",
	    .fallback = "paper" },
	ESPL_SAMPLER_OPTION,
};

static void
destroy(void *self)
{
	brackets_free(self);
	free(self);
}

/* Which option is to blame for what brackets_init refused? */
static void
blame_option(const struct brackets_setup *setup, struct espl_error *error)
{
	if (error == NULL || error->status != ESPL_E_CONFIG || error->option != ESPL_ANY)
		return;
	error->option = setup->trials > 0 || setup->passes > 0 ? BRACKETS_ITERATIONS_MIN
	    : setup->order == BRACKETS_BESIDE                  ? ORDER
							       : BRACKETS_PASSES;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct brackets_setup setup = {
		.kinds = (uint32_t)config->values[KINDS].as.i,
		.rule = (uint32_t)config->values[ROUNDING].as.i,
		.order = (uint32_t)config->values[ORDER].as.i,
	};
	struct brackets *b;
	espl_status status = brackets_read(config->values, &setup, error);

	if (status != ESPL_OK)
		return status;
	b = calloc(1, sizeof *b);
	if (b == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = brackets_init(b, host, &setup, NULL, NULL, error);
	if (status != ESPL_OK) {
		blame_option(&setup, error);
		destroy(b);
		return status;
	}
	*self = b;
	return ESPL_OK;
}

static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	return brackets_spec(self, sink, error);
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct brackets *b = self;

	(void)sink;
	brackets_ended(b, trial, how);
	return espl_sampling_ended(b->sampling, trial, how, error);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	return brackets_next(self, view, sink, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, hyperband) = {
	ESPL_HEAD(ESPL_ALGORITHM, "hyperband"),
	.version = "0.1",
	.summary =
	    "Hyperband: successive halving in brackets, from many short trials to few long ones",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
