/* interrupt_adapt.c - a logistic regression that learns while it predicts; see interrupt_learn.h.
 *
 * It begins with the empirical share of the past 48 hours and changes as far as the market's past
 * shows that other terms predict better. Weights have a normal prior, and each minute whose hour is
 * over updates them (an extended Kalman filter, which is the Laplace approximation one sample at a
 * time). So it needs no training period and follows a market that changes.
 */
#include <math.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "interrupt_learn.h"

#define STEP 7u        /* minutes between two samples */
#define PRIOR_SD 0.7   /* of each weight */
#define WARM (2u * 60) /* minutes of history before the first sample */

static double
apply_sigmoid(double z)
{
	z = z < -30 ? -30 : z > 30 ? 30 : z;
	return 1 / (1 + exp(-z));
}

static double
weigh_terms(const struct espl_adapted *a, const double terms[ESPL_TERMS])
{
	double z = 0;

	for (uint32_t i = 0; i < ESPL_TERMS; i++)
		z += a->weights[i] * terms[i];
	return apply_sigmoid(z);
}

/* Hours of neighbors overlap: a sample counts as the part of an hour that is its own. */
static void
learn_sample(struct espl_adapted *a, const double terms[ESPL_TERMS], int yes)
{
	const double part = STEP / 60.0;
	double p = weigh_terms(a, terms), gain[ESPL_TERMS], sum = 0, scale;

	for (uint32_t i = 0; i < ESPL_TERMS; i++) {
		gain[i] = 0;
		for (uint32_t k = 0; k < ESPL_TERMS; k++)
			gain[i] += a->spread[i][k] * terms[k];
		sum += gain[i] * terms[i];
	}
	scale = part * fmax(p * (1 - p), 1e-6);
	scale /= 1 + scale * sum;
	for (uint32_t i = 0; i < ESPL_TERMS; i++)
		for (uint32_t k = 0; k < ESPL_TERMS; k++)
			a->spread[i][k] -= gain[i] * gain[k] * scale;
	scale = part * (yes - p) * (1 - scale * sum);
	for (uint32_t i = 0; i < ESPL_TERMS; i++)
		a->weights[i] += gain[i] * scale;
}

/* splitmix64 of a minute, uniform in [0, 1): a sample does not depend on when it is taken. */
static double
draw_minute(uint64_t seed, int64_t minute)
{
	uint64_t z = seed + (uint64_t)minute * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

double
espl_adapted_ask(struct espl_adapted *a, const struct espl_price_grid *grid, double margin)
{
	int64_t from = grid->first + WARM, until = grid->first + grid->risen;
	double terms[ESPL_TERMS];

	if (grid->risen == 0)
		return NAN;
	if (!a->started) {
		a->started = 1;
		a->weights[0] = 1;
		for (uint32_t i = 0; i < ESPL_TERMS; i++)
			a->spread[i][i] = PRIOR_SD * PRIOR_SD;
	}
	if (a->next < from)
		a->next = from;
	/* With margins around the one that is asked for. */
	for (; a->next < until; a->next += STEP) {
		uint32_t i = (uint32_t)(a->next - grid->first);
		double m = margin * exp2(4 * draw_minute(a->seed, a->next) - 2);

		espl_learned_terms(grid, i, m, terms);
		learn_sample(a, terms, grid->rises[i] > (espl_money)llround(m * (double)ESPL_USD));
	}
	ESPL_ASSERT(grid->count > 0 && a->started);
	espl_learned_terms(grid, grid->count - 1, margin, terms);
	return weigh_terms(a, terms);
}
