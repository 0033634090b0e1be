/* trainable_branin.c - Branin's function at a fidelity, in the form of BOCA and Dragonfly, with
 * noise that fades.  Parameters x1 in [-5, 10], x2 in [0, 15]; the least loss is 0.397887.
 */
#include "problem.h"

static const struct espl_option options[] = {
	PROBLEM_OPTIONS("1.0", "strength of the shift of the coefficients at low iterations", "1.0",
	    "strength of the noise, at most sqrt(0.05)"),
	PROBLEM_REGRET
};

static espl_status
branin_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	static const char *const names[] = { "x1", "x2" };
	struct problem_trial *t = problem_open(self, context, error);
	espl_status st;

	if (t == NULL)
		return ESPL_E_NOMEM;
	st = problem_settings(context, names, 2, t->x, error);
	if (st != ESPL_OK) {
		problem_close(t);
		return st;
	}
	*trial = t;
	return ESPL_OK;
}

#define LEAST 0.39788735772973816

/* The function with its coefficients `far` off. */
static double
branin(double x1, double x2, double far)
{
	static const double pi = 3.14159265358979323846;
	double b = 5.1 / (4 * pi * pi) - 0.01 * far;
	double c = 5.0 / pi - 0.1 * far;
	double s = 1.0 / (8 * pi) + 0.005 * far;
	double square = x2 - b * x1 * x1 + c * x1 - 6.0;

	return square * square + 10.0 * (1.0 - s) * cos(x1) + 10.0;
}

static espl_status
branin_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
    struct espl_error *error)
{
	struct problem_trial *t = trial;
	double q = fmin((double)iteration, t->z_max) / t->z_max;
	double loss = branin(t->x[0], t->x[1], t->problem->bias * (1.0 - q));

	(void)error;
	ESPL_ASSERT(t->magic == PROBLEM_TRIAL_MAGIC && iteration > 0);
	loss += sqrt(0.05) * t->problem->noise * (1.0 - q) *
	    problem_normal(t->context->seed, iteration, 0);
	t->done = iteration;
	return problem_report(t, sink, loss, branin(t->x[0], t->x[1], 0.0) - LEAST);
}

PROBLEM_SUITS(branin)

static const struct espl_trainable_ops ops = PROBLEM_OPS(branin);

ESPL_PLUGIN(trainable, branin) = { ESPL_HEAD(ESPL_TRAINABLE, "branin"), .version = "0.1",
	.summary = "test problem: Branin's function of x1, x2, shifted and noisy at low iterations",
	.caps = ESPL_CAP_PURE, ESPL_OPTIONS(options), .ops = &ops.head, .create = problem_create,
	.destroy = problem_destroy };
