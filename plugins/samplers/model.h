/* model.h - a sampler: uniform at first, then a model's suggestions, with a share of uniform ones.
 *
 * Use: model_init, model_tell and model_ask in the entries of a plugin, model_free.
 */
#ifndef SAMPLERS_MODEL_H
#define SAMPLERS_MODEL_H
#include "gp.h"
#include "samples.h"
#include "tpe.h"

enum { MODEL_TPE = 1, MODEL_GP = 2, MODEL_BOTH = 3 };

/* The first options of every sampler, MODEL_STARTUP and MODEL_RANDOM. */
/* clang-format off */
#define MODEL_OPTIONS(least_) \
	{ .name = "startup", .help = "number of configurations drawn uniformly before the model " \
	  "is used, including those of 'first' and of an earlier run", .type = ESPL_OPT_INT, \
	  .fallback = "10", .min = "0", .max = "1000000000" }, \
	{ .name = "random_fraction", .help = "fraction of configurations drawn uniformly instead " \
	  "of from the model" least_, .type = ESPL_OPT_REAL, .fallback = "0", .min = "0", \
	  .max = "1" }
/* clang-format on */
enum { MODEL_STARTUP, MODEL_RANDOM, MODEL_OPTION_COUNT };
#define MODEL_MAGIC 0x6d6f6465u

struct model_setup {
	uint32_t kind;       /* MODEL_* */
	uint32_t candidates; /* of the Parzen estimator */
	uint64_t startup;
	double random_fraction;      /* of suggestions */
	double conditional_fraction; /* the same, where parameters have conditions, if greater */
	double top;                  /* fraction that is good, for the Parzen estimator */
};
struct model {
	uint32_t magic; /* MODEL_MAGIC */
	struct model_setup setup;
	struct samples samples;
	struct tpe tpe;
	struct gp gp;
};

/* Call model_free also after a failure. */
espl_status model_init(struct model *, const struct espl_host *, const struct model_setup *,
    struct espl_error *);
void model_free(struct model *);
espl_status model_tell(struct model *, const struct espl_sample *, struct espl_error *);
espl_status model_ask(struct model *, uint32_t count, double *values, struct espl_error *);

/* ---- the entries of a plugin whose instance is a struct model, allocated --------------------- */

/* startup and random_fraction come from the configuration. */
espl_status model_plugin_create(const struct espl_host *, const struct espl_config *,
    struct model_setup, void **self, struct espl_error *);
void model_plugin_destroy(void *self);
extern const struct espl_sampler_ops model_plugin_ops;

#endif
