/* rig_plain.c - the simplest implementation of fashion_cuda's wide network on one image, in double
 * precision. */
#include <math.h>
#include <string.h>
#include "rig.h"

static double
judge_plainly(const double *logits, uint32_t label, double scale, double *gradient, double *right)
{
	double most = logits[0], sum = 0;
	uint32_t best = 0;

	for (uint32_t i = 1; i < FASHION_LABELS; i++)
		if (logits[i] > most) {
			most = logits[i];
			best = i;
		}
	for (uint32_t i = 0; i < FASHION_LABELS; i++)
		sum += exp(logits[i] - most);
	for (uint32_t i = 0; i < FASHION_LABELS; i++)
		gradient[i] = (exp(logits[i] - most) / sum - (i == label)) * scale;
	*right += best == label;
	return most - logits[label] + log(sum);
}

#define WIDEST 800u
void
rig_plain_image(const struct fashion_cuda_net *net, const uint8_t *pixels, uint32_t label,
    const float *params, double scale, float *gradient, double *loss, double *right)
{
	static double in[FASHION_CUDA_DENSE + 1][WIDEST], back[WIDEST], next[WIDEST];
	uint32_t last = net->dense_count - 1;

	for (uint32_t i = 0; i < FASHION_PIXELS; i++)
		in[0][i] = (double)(((float)pixels[i] / 255.0f - 0.2860f) / 0.3530f);
	for (uint32_t d = 0; d <= last; d++) {
		const struct fashion_cuda_dense *l = &net->dense[d];

		for (uint32_t o = 0; o < l->out; o++) {
			const float *w = params + l->weights + (uint64_t)o * l->ins;
			double sum = (double)w[l->in];

			for (uint32_t i = 0; i < l->in; i++)
				sum += (double)w[i] * in[d][i];
			in[d + 1][o] = d == last || sum > 0 ? sum : 0;
		}
	}
	*loss += judge_plainly(in[last + 1], label, scale, back, right);
	for (uint32_t d = last + 1; d-- > 0;) {
		const struct fashion_cuda_dense *l = &net->dense[d];

		memset(next, 0, sizeof next);
		for (uint32_t o = 0; o < l->out; o++) {
			uint64_t row = l->weights + (uint64_t)o * l->ins;

			for (uint32_t i = 0; i < l->in; i++) {
				gradient[row + i] += (float)(back[o] * in[d][i]);
				next[i] += back[o] * (double)params[row + i];
			}
			gradient[row + l->in] += (float)back[o];
		}
		for (uint32_t i = 0; i < l->in; i++)
			back[i] = in[d][i] > 0 ? next[i] : 0;
	}
}
