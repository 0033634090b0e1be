/* model.c - see model.h. */
#include <stdlib.h>
#include <string.h>
#include "model.h"

espl_status
model_init(struct model *model, const struct espl_host *host, const struct model_setup *setup,
    struct espl_error *error)
{
	espl_status status;

	memset(model, 0, sizeof *model);
	model->magic = MODEL_MAGIC;
	model->setup = *setup;
	status = samples_init(&model->samples, host, error);
	if (status == ESPL_OK && (setup->kind & MODEL_TPE) != 0)
		status =
		    tpe_init(&model->tpe, &model->samples, setup->top, setup->candidates, error);
	if (status == ESPL_OK && (setup->kind & MODEL_GP) != 0)
		status = gp_init(&model->gp, &model->samples, error);
	if (model->samples.conditional &&
	    model->setup.random_fraction < setup->conditional_fraction)
		model->setup.random_fraction = setup->conditional_fraction;
	return status;
}

void
model_free(struct model *model)
{
	ESPL_ASSERT(model->magic == MODEL_MAGIC);
	model->magic = 0;
	gp_free(&model->gp);
	tpe_free(&model->tpe);
	samples_free(&model->samples);
}

espl_status
model_tell(struct model *model, const struct espl_sample *sample, struct espl_error *error)
{
	ESPL_ASSERT(model->magic == MODEL_MAGIC);
	return samples_tell(&model->samples, sample, error);
}

/* Nothing to learn from yet: too few results, or none with a number. */
static int
is_early(const struct model *model)
{
	const struct samples *s = &model->samples;

	return s->ranked < 2 || s->finite == 0 || s->axis_count == 0 ||
	    (uint64_t)s->ranked + s->pending_count < model->setup.startup;
}

static espl_status
suggest_one(struct model *model, double *values, struct espl_error *error)
{
	struct samples *s = &model->samples;
	uint32_t kind = model->setup.kind;
	espl_status status = samples_rank(s, error);

	if (status != ESPL_OK)
		return status;
	if (is_early(model) ||
	    (model->setup.random_fraction > 0 &&
		espl_uniform(s->host) < model->setup.random_fraction))
		return espl_draw(s->host, s->space, s->unit, values);
	if (kind == MODEL_BOTH)
		kind = espl_uniform(s->host) < 0.5 ? MODEL_TPE : MODEL_GP;
	return kind == MODEL_TPE ? tpe_suggest(&model->tpe, values, error)
				 : gp_suggest(&model->gp, values, error);
}

espl_status
model_ask(struct model *model, uint32_t count, double *values, struct espl_error *error)
{
	struct samples *s = &model->samples;
	espl_status status = samples_earlier(s, error);
	uint32_t i, expected = 0;

	ESPL_ASSERT(model->magic == MODEL_MAGIC);
	for (i = 0; i < count && status == ESPL_OK; i++) {
		double *at = &values[(size_t)i * s->axis_count];

		status = suggest_one(model, at, error);
		if (status == ESPL_OK && i + 1 < count) {
			status = samples_expect(s, at, error);
			expected += status == ESPL_OK;
		}
	}
	samples_withdraw(s, expected);
	return status;
}

/* ---- a plugin -------------------------------------------------------------------------------- */

espl_status
model_plugin_create(const struct espl_host *host, const struct espl_config *config,
    struct model_setup setup, void **self, struct espl_error *error)
{
	struct model *model = malloc(sizeof *model);
	espl_status status;

	if (model == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	setup.startup = (uint64_t)config->values[MODEL_STARTUP].as.i;
	setup.random_fraction = config->values[MODEL_RANDOM].as.r;
	status = model_init(model, host, &setup, error);
	if (status != ESPL_OK) {
		model_plugin_destroy(model);
		return status;
	}
	*self = model;
	return ESPL_OK;
}

void
model_plugin_destroy(void *self)
{
	model_free(self);
	free(self);
}

static espl_status
tell(void *self, const struct espl_sample *sample, struct espl_error *error)
{
	return model_tell(self, sample, error);
}

static espl_status
ask(void *self, const struct espl_wish *wish, double *values, struct espl_error *error)
{
	return model_ask(self, wish->count, values, error);
}

const struct espl_sampler_ops model_plugin_ops = {
	ESPL_TABLE(struct espl_sampler_ops),
	.tell = tell,
	.ask = ask,
};
