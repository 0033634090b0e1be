/* The gradient of the LSTM network against central differences, in double. */
#include <criterion/criterion.h>
#define REAL double
#include "plugins/allocators/spottune/lstm_net.h"

#define ROWS 3u
#define STEPS 7u
#define HIDDEN 8u

static double
weigh_loss(struct net *net)
{
	static const double weights[ROWS] = { 0.7, 0.3, 0.9 };
	double loss = 0;

	net_forward(net, ROWS);
	for (uint32_t i = 0; i < ROWS; i++) {
		double p = 1 / (1 + exp(-net->logit[i]));

		loss -= weights[i] * (i % 2 == 0 ? log(p) : log(1 - p));
	}
	return loss;
}

static void
check_gradient(int present)
{
	struct net *net = net_make(HIDDEN, STEPS, present, ROWS, 7);
	double d[ROWS], worst = 0;
	uint64_t seed = 3;
	uint32_t checked = 0, i;

	cr_assert_not_null(net);
	for (i = 0; i < STEPS * ROWS * NET_IN; i++)
		net->x[i] = 2 * net_draw(&seed) - 1;
	for (i = 0; i < ROWS * NET_IN; i++)
		net->now[i] = 2 * net_draw(&seed) - 1;
	(void)weigh_loss(net);
	for (i = 0; i < ROWS; i++) {
		static const double weights[ROWS] = { 0.7, 0.3, 0.9 };

		d[i] = weights[i] * (1 / (1 + exp(-net->logit[i])) - (i % 2 == 0));
	}
	net_backward(net, ROWS, d);
	for (i = 0; i < net->count; i++) {
		double kept = net->w[i], step = 1e-5, up, down, slope, off;

		net->w[i] = kept + step;
		up = weigh_loss(net);
		net->w[i] = kept - step;
		down = weigh_loss(net);
		net->w[i] = kept;
		slope = (up - down) / (2 * step);
		if (fabs(slope) < 1e-6) {
			cr_expect_lt(fabs(net->g[i]), 1e-5, "parameter %u", i);
			continue;
		}
		off = fabs(slope - net->g[i]) / fabs(slope);
		worst = off > worst ? off : worst;
		checked++;
	}
	cr_log_info("%u of %u parameters, worst relative error %.2g\n", checked, net->count, worst);
	cr_expect_lt(worst, 1e-4, "worst relative error %g", worst);
	cr_expect_gt(checked, net->count / 2, "only %u of %u", checked, net->count);
	net_free(net);
}

Test(lstm, gradient_of_one_sequence)
{
	check_gradient(0);
}

Test(lstm, gradient_with_the_present_apart)
{
	check_gradient(1);
}

Test(lstm, exponential)
{
	for (double x = -39; x < 39; x += 0.0137)
		cr_expect_lt(fabs(net_exp(x) / exp(x) - 1), 1e-12, "%g", x);
}

/* Four at once give the same as one by one: what is predicted does not depend on the way. */
Test(lstm, fours_are_as_ones)
{
	for (double x = -45; x < 45; x += 0.0137) {
		net_four v = { x, -x, x / 3, x * x };

		net_exp_four(&v);
		cr_assert_eq(v[0], net_exp(x), "%g", x);
		cr_assert_eq(v[1], net_exp(-x), "%g", x);
		cr_assert_eq(v[2], net_exp(x / 3), "%g", x);
		cr_assert_eq(v[3], net_exp(x * x), "%g", x);
	}
}
