/* algorithm_bohb.c - BOHB: Hyperband's brackets, with configurations from a model.
 *
 * Falkner, Klein, Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML
 * 2018). The model is kde.h, the walk brackets.h.  Asynchronous: a configuration is drawn when it
 * could train at once, from all results until then, and the next bracket begins while GPUs are
 * free; synchronous (the SyncBOHB of Fluid, MLSys 2021): brackets follow one another, each drawn as
 * a whole when it begins.  Departures are told in docs/algorithms.md.
 */
#include <math.h>
#include <stdlib.h>
#include "../brackets.h"
#include "kde.h"

enum { MODE = BRACKETS_OPTION_COUNT, KDE };
enum { ASYNC, SYNC };

static const struct espl_option options[] = {
	BRACKETS_OPTIONS,
	{ .name = "mode",
	    .help = "async: draw a configuration when it can start, and begin the next bracket as "
		    "soon as GPUs are free; sync: run one bracket after the other, and draw its "
		    "configurations when it begins",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "async|sync",
	    .fallback = "async" },
	KDE_OPTIONS("0.3333333333333333", "0", "64"),
};

#define BOHB_MAGIC 0x52392d82u

struct bohb {
	uint32_t magic; /* BOHB_MAGIC */
	struct brackets brackets;
	struct kde kde;
	uint64_t *budgets; /* [budget_count]: where rungs end */
	uint32_t budget_count;
};

static void
destroy(void *self)
{
	struct bohb *bohb = self;

	ESPL_ASSERT(bohb != NULL && bohb->magic == BOHB_MAGIC);
	bohb->magic = 0;
	brackets_free(&bohb->brackets);
	kde_free(&bohb->kde);
	free(bohb->budgets);
	free(bohb);
}

static espl_status
suggest_values(void *ctx, uint32_t kind, double *values, struct espl_error *error)
{
	struct bohb *bohb = ctx;

	ESPL_ASSERT(bohb != NULL && bohb->magic == BOHB_MAGIC);
	(void)kind;
	return kde_suggest(&bohb->kde, values, error);
}

static espl_status
list_budgets(struct bohb *bohb, struct espl_error *error)
{
	const struct brackets *b = &bohb->brackets;
	uint32_t i, k, count = 0;

	for (i = 0; i < b->kind_count; i++)
		count += b->kinds[i].rung_count;
	bohb->budgets = calloc(count, sizeof *bohb->budgets);
	if (bohb->budgets == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < b->kind_count; i++)
		for (k = 0; k < b->kinds[i].rung_count; k++)
			bohb->budgets[bohb->budget_count++] = b->kinds[i].rungs[k].until;
	return ESPL_OK;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_value *values = config->values;
	int sync = values[MODE].as.i == SYNC;
	struct brackets_setup setup = {
		.rule = BRACKETS_WHOLE,
		.order = sync ? BRACKETS_SEQUENCE : BRACKETS_OVERLAP,
		.lazy = !sync,
	};
	struct kde_setup model;
	struct bohb *bohb;
	espl_status status = brackets_read(values, &setup, error);

	if (status != ESPL_OK)
		return status;
	bohb = calloc(1, sizeof *bohb);
	if (bohb == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	bohb->magic = BOHB_MAGIC;
	kde_read(&values[KDE], &model);
	status = kde_init(&bohb->kde, host, &model, error);
	if (status == ESPL_OK)
		status = brackets_init(&bohb->brackets, host, &setup, suggest_values, bohb, error);
	if (status == ESPL_OK)
		status = list_budgets(bohb, error);
	if (status == ESPL_E_CONFIG && error != NULL && error->option == ESPL_ANY)
		error->option = setup.trials > 0 || setup.passes > 0 ? BRACKETS_ITERATIONS_MIN
								     : BRACKETS_PASSES;
	if (status != ESPL_OK) {
		destroy(bohb);
		return status;
	}
	*self = bohb;
	return ESPL_OK;
}

static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct bohb *bohb = self;

	ESPL_ASSERT(bohb != NULL && bohb->magic == BOHB_MAGIC);
	return brackets_spec(&bohb->brackets, sink, error);
}

/* A trial that says itself that it is complete would not get any better with more iterations. */
static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct bohb *bohb = self;

	ESPL_ASSERT(bohb != NULL && bohb->magic == BOHB_MAGIC);
	(void)sink;
	brackets_ended(&bohb->brackets, trial, how);
	if (how != ESPL_END_BUDGET && how != ESPL_END_ITSELF && how != ESPL_END_FAILED)
		return ESPL_OK;
	return kde_observe(&bohb->kde, trial->budget, trial->id,
	    how == ESPL_END_FAILED ? (double)NAN : trial->loss, trial->values, error);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct bohb *bohb = self;
	espl_status status = kde_earlier(&bohb->kde, bohb->budgets, bohb->budget_count, error);

	ESPL_ASSERT(bohb != NULL && bohb->magic == BOHB_MAGIC);
	return status == ESPL_OK ? brackets_next(&bohb->brackets, view, sink, error) : status;
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, bohb) = {
	ESPL_HEAD(ESPL_ALGORITHM, "bohb"),
	.version = "0.1",
	.summary = "BOHB: Hyperband guided by a model of good and bad configurations",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
