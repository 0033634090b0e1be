/* sampler_auto.c - two models over the same results: each suggestion is that of a Gaussian process
 * (gp.h) or of a Parzen estimator (tpe.h), by the toss of a coin.  The former is far ahead on
 * smooth losses, the latter on rugged ones and where conditions prevail; and each explores what the
 * other would miss.
 */
#include "model.h"

static const struct espl_option options[] = {
	MODEL_OPTIONS("; where parameters have conditions at least a tenth"),
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	static const struct model_setup setup = {
		.kind = MODEL_BOTH,
		.top = 0.1,
		.candidates = 24,
		.conditional_fraction = 0.1,
	};

	return model_plugin_create(host, config, setup, self, error);
}

ESPL_PLUGIN(sampler, auto) = {
	ESPL_HEAD(ESPL_SAMPLER, "auto"),
	.version = "0.1",
	.summary = "a Gaussian process and a Parzen estimator in turn, over the same results",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &model_plugin_ops.head,
	.create = create,
	.destroy = model_plugin_destroy,
};
