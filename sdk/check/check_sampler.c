/* check_sampler.c - check-plugin for samplers: are suggestions configurations of the space, and the
 * same after the same results?
 */
#include <math.h>
#include <stdlib.h>

#include <espalier/sampler.h>

#include "check/check_kit.h"

#define ROUNDS 24u
#define AT_ONCE 3u

static void
tell_sample(struct espl__check *check, uint64_t trial, espl_sample_state state, double loss,
    const double *values)
{
	const struct espl_sampler_ops *ops = (const void *)check->instance->ops;
	struct espl_sample sample = ESPL_INIT(struct espl_sample);
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	sample.state = state;
	sample.trial = trial;
	sample.iteration = 1;
	sample.loss = loss;
	sample.cost = NAN;
	sample.values = values;
	status = ops->tell(check->instance->self, &sample, &error);
	if (status != ESPL_OK)
		espl__check_error(check, "tell: status %d: %.200s", status, error.text);
}

/* A round: a few are asked for together, start together, and end: one fails, one is not a number.
 */
static void
ask_round(struct espl__check *check, uint64_t round, double *values)
{
	const struct espl_sampler_ops *ops = (const void *)check->instance->ops;
	const struct espl_space *space = espl_kit_space(check->kit);
	struct espl_wish wish = ESPL_INIT(struct espl_wish);
	struct espl_error error = ESPL_INIT(struct espl_error);
	uint64_t i, trial = round * AT_ONCE;
	espl_status status;
	uint32_t missing;

	wish.count = round % 2 == 0 ? AT_ONCE : 1;
	wish.iteration = 1;
	espl__check_step(check, "ask, round %llu", (unsigned long long)round);
	status = ops->ask(check->instance->self, &wish, values, &error);
	if (status != ESPL_OK) {
		espl__check_error(check, "ask: status %d: %.200s", status, error.text);
		return;
	}
	for (i = 0; i < wish.count; i++) {
		double *own = &values[i * space->param_count];

		check->digest = check->digest * 31 + space->hash(space, own);
		if (space->snap(space, own, &missing) != ESPL_OK)
			espl__check_error(check,
			    "ask: a configuration without the active parameter '%s'",
			    space->params[missing]->name);
		tell_sample(check, trial + i, ESPL_SAMPLE_PENDING, NAN, own);
	}
	for (i = 0; i < wish.count; i++)
		tell_sample(check, trial + i,
		    round % 5 == 3 ? ESPL_SAMPLE_FAILED : ESPL_SAMPLE_SEEN,
		    round % 7 == 5 || round % 5 == 3 ? NAN : (double)((trial + i) * 7 % 11),
		    &values[i * space->param_count]);
}

static int
run_script(struct espl__check *check, uint64_t *digest)
{
	double *values;
	int made;

	espl__check_world(check, 0);
	made = espl__check_open(check);
	check->digest = 0;
	if (made) {
		values = calloc(((size_t)espl_kit_space(check->kit)->param_count + 1) * AT_ONCE,
		    sizeof *values);
		for (uint64_t round = 0; round < ROUNDS && values != NULL; round++)
			ask_round(check, round, values);
		free(values);
	}
	*digest = check->digest;
	espl__check_close(check);
	return made;
}

static void
live_once(struct espl__check *check)
{
	uint64_t digest;

	(void)run_script(check, &digest);
}

void
espl__check_sampler(struct espl__check *check)
{
	uint64_t one, two;
	unsigned before = espl__check_found(check);

	if (!run_script(check, &one))
		return;
	if (espl__check_found(check) == before)
		espl__check_ok(check, "ask: configurations of the space, also after failures");
	(void)run_script(check, &two);
	if (one != two)
		espl__check_error(check,
		    "not deterministic: the same results led to different configurations");
	else
		espl__check_ok(check,
		    "deterministic: the same results lead to the same configurations");
	espl__check_leaks(check, live_once);
}
