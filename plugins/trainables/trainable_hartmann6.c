/* trainable_hartmann6.c - the six-dimensional Hartmann function at a fidelity, as in
 * mf-prior-bench's MFHartmann6: far from the optimum's shape and noisy at first, exact at z_max.
 * Parameters x0 ... x5 in [0, 1]; the least loss is -3.322368011415515.
 */
#include "problem.h"

static const double scale[4] = { 1.0, 1.2, 3.0, 3.2 };
static const double width[4][6] = { { 10.0, 3.0, 17.0, 3.5, 1.7, 8.0 },
	{ 0.05, 10.0, 17.0, 0.1, 8.0, 14.0 }, { 3.0, 3.5, 1.7, 10.0, 17.0, 8.0 },
	{ 17.0, 8.0, 0.05, 10.0, 0.1, 14.0 } };
static const double centre[4][6] = { { 1312, 1696, 5569, 124, 8283, 5886 },
	{ 2329, 4135, 8307, 3736, 1004, 9991 }, { 2348, 1451, 3522, 2883, 3047, 6650 },
	{ 4047, 8828, 8732, 5743, 1091, 381 } };

static const struct espl_option options[] = {
	PROBLEM_OPTIONS("2.5",
	    "shift of the heights of the peaks at the first iteration (4: severe)", "2.0",
	    "strength of the noise at the first iteration (5: severe)"),
	PROBLEM_REGRET
};

static espl_status
hartmann6_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	static const char *const names[] = { "x0", "x1", "x2", "x3", "x4", "x5" };
	struct problem_trial *t = problem_open(self, context, error);
	espl_status st;

	if (t == NULL)
		return ESPL_E_NOMEM;
	st = problem_settings(context, names, 6, t->x, error);
	if (st != ESPL_OK) {
		problem_close(t);
		return st;
	}
	*trial = t;
	return ESPL_OK;
}

#define LEAST -3.322368011415515

/* The function with its peaks `less` lower. */
static double
hartmann6(const double *x, double less)
{
	double value = 0.0;

	for (int i = 0; i < 4; i++) {
		double sum = 0.0;

		for (int j = 0; j < 6; j++) {
			double d = x[j] - 1e-4 * centre[i][j];

			sum += width[i][j] * d * d;
		}
		value -= (scale[i] - less) * exp(-sum);
	}
	return value;
}

static espl_status
hartmann6_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
    struct espl_error *error)
{
	struct problem_trial *t = trial;
	double z = fmin((double)iteration, t->z_max), u, loss;

	(void)error;
	ESPL_ASSERT(t->magic == PROBLEM_TRIAL_MAGIC && iteration > 0);
	u = t->z_max > 1 ? log(z) / log(t->z_max) : 1.0;
	loss = hartmann6(t->x, t->problem->bias * (1.0 - u));
	loss +=
	    fabs(problem_normal(t->context->seed, iteration, 0)) * t->problem->noise * (1.0 - u);
	t->done = iteration;
	return problem_report(t, sink, loss, hartmann6(t->x, 0.0) - LEAST);
}

PROBLEM_SUITS(hartmann6)

static const struct espl_trainable_ops ops = PROBLEM_OPS(hartmann6);

ESPL_PLUGIN(trainable, hartmann6) = { ESPL_HEAD(ESPL_TRAINABLE, "hartmann6"), .version = "0.1",
	.summary =
	    "test problem: Hartmann's function of x0..x5, biased and noisy at low iterations",
	.caps = ESPL_CAP_PURE, ESPL_OPTIONS(options), .ops = &ops.head, .create = problem_create,
	.destroy = problem_destroy };
