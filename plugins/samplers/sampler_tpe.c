/* sampler_tpe.c - a tree-structured Parzen estimator: draws near the best tenth of the results, and
 * takes the candidate where they are densest in comparison with the others.  The model is tpe.h.
 */
#include "model.h"

enum { TOP_PERCENT = MODEL_OPTION_COUNT, CANDIDATES };

static const struct espl_option options[] = {
	MODEL_OPTIONS(""),
	{ .name = "top_percent",
	    .help = "percentage of the results that count as good, at most 25 of them",
	    .type = ESPL_OPT_INT,
	    .fallback = "10",
	    .min = "1",
	    .max = "99" },
	{ .name = "candidates",
	    .help = "number of points drawn near the good ones; the best one is used",
	    .type = ESPL_OPT_INT,
	    .fallback = "24",
	    .min = "1",
	    .max = "10000" },
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct model_setup setup = { .kind = MODEL_TPE };

	setup.top = 0.01 * (double)config->values[TOP_PERCENT].as.i;
	setup.candidates = (uint32_t)config->values[CANDIDATES].as.i;
	return model_plugin_create(host, config, setup, self, error);
}

ESPL_PLUGIN(sampler, tpe) = {
	ESPL_HEAD(ESPL_SAMPLER, "tpe"),
	.version = "0.1",
	.summary =
	    "tree-structured Parzen estimator: draws near the best tenth of the configurations",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &model_plugin_ops.head,
	.create = create,
	.destroy = model_plugin_destroy,
};
