/* sampling.c - see espalier/kit/sampling.h. */
#include <math.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/sampling.h>

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
	sample.loss = sample.cost = NAN;
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
	sample.cost = trial->gpu_s;
	sample.values = trial->values;
	return sampling->tell(sampling, &sample, error);
}
