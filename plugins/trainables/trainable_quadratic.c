/* trainable_quadratic.c - noisy gradient descent on a quadratic bowl: a problem with a state, so
 * that what a checkpoint carries, and what population based training copies, matters.
 * theta in R^10 starts at 1; parameter lr; loss = 0.5 sum theta_i^2 / i.
 */
#include "problem.h"

#define DIMENSION 10

static const struct espl_option options[] = { PROBLEM_OPTIONS("0.0",
    "bias added to the loss at iteration 0, decreasing to 0 at the last", "0.5",
    "strength of the noise of the gradient") };

struct quadratic {
	struct problem_trial base;
	double theta[DIMENSION]; /* the region, with base.done */
};

static espl_status
quadratic_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	static const char *const names[] = { "lr" };
	struct quadratic *q = calloc(1, sizeof *q);
	espl_status st;

	if (q == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	q->base.magic = PROBLEM_TRIAL_MAGIC;
	q->base.problem = self;
	q->base.context = context;
	q->base.z_max = problem_z_max(self, context);
	for (int i = 0; i < DIMENSION; i++)
		q->theta[i] = 1.0;
	st = problem_settings(context, names, 1, q->base.x, error);
	if (st != ESPL_OK) {
		free(q);
		return st;
	}
	*trial = q;
	return ESPL_OK;
}

static espl_status
quadratic_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
    struct espl_error *error)
{
	struct quadratic *q = trial;
	struct problem_trial *t = &q->base;
	double z = fmin((double)iteration, t->z_max), loss = 0.0;

	ESPL_ASSERT(t->magic == PROBLEM_TRIAL_MAGIC);
	if (iteration != t->done + 1)
		return espl_fail(error, ESPL_E_BUG,
		    "iteration %llu follows %llu; the state belongs to another trial",
		    (unsigned long long)iteration, (unsigned long long)t->done);
	for (int i = 0; i < DIMENSION; i++) {
		double h = 1.0 / (i + 1);
		double noise = problem_normal(t->context->seed, iteration, (uint64_t)i);

		q->theta[i] -= t->x[0] * (h * q->theta[i] + sqrt(h) * t->problem->noise * noise);
		loss += 0.5 * h * q->theta[i] * q->theta[i];
	}
	t->done = iteration;
	return sink->metric(sink, "loss", loss + t->problem->bias * (1.0 - z / t->z_max));
}

static espl_status
quadratic_regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct quadratic *q = trial;
	espl_status st = problem_regions(&q->base, sink, error);

	if (st != ESPL_OK)
		return st;
	return sink->region(sink, "theta", q->theta, sizeof q->theta, ESPL_CPU);
}

PROBLEM_SUITS(quadratic)

static const struct espl_trainable_ops ops = { ESPL_TABLE(struct espl_trainable_ops),
	.open = quadratic_open, .close = problem_close, .step = quadratic_step,
	.regions = quadratic_regions, .resize = problem_resize, .resized = problem_resized,
	.suits = quadratic_suits };

ESPL_PLUGIN(trainable, quadratic) = { ESPL_HEAD(ESPL_TRAINABLE, "quadratic"), .version = "0.1",
	.summary =
	    "test problem: noisy gradient descent with step size lr and a state to checkpoint",
	.caps = ESPL_CAP_PURE, ESPL_OPTIONS(options), .ops = &ops.head, .create = problem_create,
	.destroy = problem_destroy };
