/* sampler_gp.c - a Gaussian process: takes the configuration with the greatest expected
 * improvement.  The model is gp.h.  Where parameters have conditions a fifth is drawn uniformly:
 * otherwise a wrong branch, once taken for the best, would be kept.
 */
#include "model.h"

enum { STARTUP, RANDOM };

static const struct espl_option options[] = {
	MODEL_OPTION_STARTUP,
	{ .name = "random_fraction",
	    .help = "fraction of configurations drawn uniformly instead of from the model; where "
		    "parameters have conditions at least a fifth",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1" },
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct model_setup setup = {
		.kind = MODEL_GP,
		.top = 0.1,
		.candidates = 24,
		.conditional_fraction = 0.2,
	};

	setup.startup = (uint64_t)config->values[STARTUP].as.i;
	setup.random_fraction = config->values[RANDOM].as.r;
	return model_plugin_create(host, &setup, self, error);
}

ESPL_PLUGIN(sampler, gp) = {
	ESPL_HEAD(ESPL_SAMPLER, "gp"),
	.version = "0.1",
	.summary = "Gaussian process: the configuration with the greatest expected improvement",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &model_plugin_ops.head,
	.create = create,
	.destroy = model_plugin_destroy,
};
