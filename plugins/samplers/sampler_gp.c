/* sampler_gp.c - a Gaussian process: takes the configuration with the greatest expected
 * improvement.  The model is gp.h.  Where parameters have conditions a fifth is drawn uniformly:
 * otherwise a wrong branch, once taken for the best, would be kept.
 */
#include "model.h"

static const struct espl_option options[] = {
	MODEL_OPTIONS("; where parameters have conditions at least a fifth"),
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	static const struct model_setup setup = {
		.kind = MODEL_GP,
		.conditional_fraction = 0.2,
	};

	return model_plugin_create(host, config, setup, self, error);
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
