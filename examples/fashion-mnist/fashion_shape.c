/* fashion_shape.c - the shape of the network and where a trial starts: what any implementation of
 * it shares.
 */
#include <math.h>
#include <string.h>
#include "fashion.h"

static uint32_t
square_of(uint32_t v)
{
	return v * v;
}

static uint32_t
conv_shape(struct fashion_conv *c, uint32_t offset)
{
	c->side = (c->in_side + 2 * c->pad - c->kernel) / c->stride + 1;
	c->pooled = c->side / c->pool;
	c->weights = offset;
	c->bias = c->weights + c->out * c->in * square_of(c->kernel);
	return c->bias + c->out;
}

static uint32_t
dense_shape(struct fashion_dense *d, uint32_t in, uint32_t out, uint32_t offset)
{
	d->in = in;
	d->out = out;
	d->weights = offset;
	d->bias = offset + in * out;
	return d->bias + out;
}

void
fashion_net_shape(struct fashion_net *net, uint32_t width, uint32_t hidden, float dropout)
{
	uint32_t offset, features;

	*net = (struct fashion_net){ .dropout = dropout };
	net->conv[0] = (struct fashion_conv){ .in = 1,
		.out = width,
		.in_side = FASHION_SIDE,
		.kernel = 5,
		.stride = 1,
		.pad = 0,
		.pool = 2 };
	offset = conv_shape(&net->conv[0], 0);
	net->conv[1] = (struct fashion_conv){ .in = width,
		.out = 2 * width,
		.in_side = net->conv[0].pooled,
		.kernel = 3,
		.stride = 1,
		.pad = 0,
		.pool = 2 };
	offset = conv_shape(&net->conv[1], offset);
	features = net->conv[1].out * square_of(net->conv[1].pooled);
	if (hidden > 0)
		offset = dense_shape(&net->dense[0], features, hidden, offset);
	net->count =
	    dense_shape(&net->dense[1], hidden > 0 ? hidden : features, FASHION_LABELS, offset);
}

/* Uniform in +-limit. */
static void
scatter_uniform(float *to, uint32_t count, uint64_t key, float limit)
{
	for (uint32_t i = 0; i < count; i++) {
		double u = (double)(fashion_mix(key + i) >> 11) * 0x1.0p-53;

		to[i] = limit * (float)(2.0 * u - 1.0);
	}
}

void
fashion_net_start(const struct fashion_net *net, uint64_t seed, float *params)
{
	uint64_t key = fashion_mix(seed ^ UINT64_C(0x77656967687473));

	memset(params, 0, net->count * sizeof *params);
	for (int i = 0; i < 2; i++) {
		const struct fashion_conv *c = &net->conv[i];
		uint32_t in = c->in * square_of(c->kernel);

		scatter_uniform(params + c->weights, c->out * in, fashion_mix(key + (uint64_t)i),
		    sqrtf(6.0f / (float)in));
	}
	for (int i = 0; i < 2; i++) {
		const struct fashion_dense *d = &net->dense[i];

		if (d->out > 0)
			scatter_uniform(params + d->weights, d->out * d->in,
			    fashion_mix(key + 2u + (uint64_t)i),
			    sqrtf((i == 0 ? 6.0f : 3.0f) / (float)d->in));
	}
}
