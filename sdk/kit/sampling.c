/* sampling.c - see espalier/kit/sampling.h. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/sampling.h>
#include <espalier/util.h>

/* Trials to begin with while there are no results.  More would not be chosen by the model. */
#define LEARNS_FROM 10u

espl_status
espl_sampling_draw(void *sampling, double *values, struct espl_error *error)
{
	const struct espl_sampling *s = (const struct espl_sampling *)sampling;
	struct espl_wish wish;

	ESPL_ASSERT(s != NULL);
	memset(&wish, 0, sizeof wish);
	wish.size = (uint32_t)sizeof wish;
	wish.count = 1;
	return s->ask(s, &wish, values, error);
}

espl_status
espl_sampling_started(const struct espl_sampling *sampling, uint64_t trial, uint64_t iteration,
    const double *values, struct espl_error *error)
{
	struct espl_sample sample;

	if (sampling == NULL)
		return ESPL_OK;
	memset(&sample, 0, sizeof sample);
	sample.size = (uint32_t)sizeof sample;
	sample.state = ESPL_SAMPLE_PENDING;
	sample.trial = trial;
	sample.iteration = iteration;
	sample.loss = sample.cost = sample.objective = sample.shortfall = NAN;
	sample.values = values;
	return sampling->tell(sampling, &sample, error);
}

espl_status
espl_sampling_ended(const struct espl_sampling *sampling, const struct espl_trial *trial,
    espl_end how, struct espl_error *error)
{
	struct espl_sample sample;

	if (sampling == NULL)
		return ESPL_OK;
	memset(&sample, 0, sizeof sample);
	sample.size = (uint32_t)sizeof sample;
	sample.state = how == ESPL_END_FAILED ? ESPL_SAMPLE_FAILED : ESPL_SAMPLE_SEEN;
	sample.trial = trial->id;
	sample.iteration = trial->iteration;
	sample.loss = how == ESPL_END_FAILED ? NAN : trial->loss;
	sample.objective = sample.shortfall = NAN;
	if (trial->size > offsetof(struct espl_trial, shortfall)) {
		sample.objective = trial->objective;
		sample.shortfall = trial->shortfall;
	}
	sample.cost = trial->gpu_s;
	sample.values = trial->values;
	return sampling->tell(sampling, &sample, error);
}

/* The most GPUs that the plan in force uses in any stage; 0: there is no plan. */
static uint64_t
espl_sampling_planned(const struct espl_plan *plan)
{
	uint64_t gpus = 0;
	uint32_t i;

	for (i = 0; plan != NULL && i < plan->stage_count; i++)
		if (gpus < plan->stages[i]->gpus)
			gpus = plan->stages[i]->gpus;
	return gpus;
}

uint64_t
espl_sampling_room(const struct espl_host *host, const struct espl_search_view *view,
    uint64_t trials)
{
	uint64_t active = (uint64_t)view->running + view->waiting, most = LEARNS_FROM, gpus;
	const struct espl_experiment *e;

	if (active + view->want < trials || !espl_follows(host, ESPL_RULES_SAMPLERS))
		return view->want;
	e = (const struct espl_experiment *)host->service(host, ESPL_EXPERIMENT);
	gpus = e != NULL ? espl_sampling_planned(e->plan) : 0;
	if (most < gpus)
		most = gpus;
	if (most < view->gpus)
		most = view->gpus;
	if (active >= most)
		return 0;
	return view->want < most - active ? view->want : most - active;
}
