/* fashion_net.c - a small convolutional network on one shard of images: two convolutions with
 * maximum pooling and ReLU, dropout, perhaps a hidden layer, ten outputs with softmax.
 *
 * Activations lie channel by channel, [channel][image][y][x], so that a convolution over a whole
 * shard is one sgemm on its unrolled input.  The results of a shard depend on nothing but the
 * shard: the shapes handed to sgemm are the same wherever and with whomever it is computed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cblas.h>
#include "fashion.h"

/* of one convolution, per shard */
struct layer {
	float *columns; /* [in * kernel^2][images * side^2] */
	float *full;    /* [out][images * side^2] before pooling; its gradient */
	float *pooled;  /* [out][images * pooled^2] after ReLU; its gradient */
	uint8_t *from;  /* which of the pool's places was the largest */
};

struct fashion_work {
	const struct fashion_net *net;
	uint32_t images_max;
	float *input;    /* [images][28 * 28] */
	uint8_t *labels; /* [images] */
	struct layer layer[2];
	float *grad_columns;  /* of the second convolution */
	float *features;      /* [images][dense in], with dropout */
	float *mask;          /* [images][features]: 0, or 1 / (1 - dropout) */
	float *hidden;        /* [images][hidden] after ReLU */
	float *grad_features; /* [images][features] or [images][hidden] */
	float *grad_hidden;
	float *logits;   /* [images][10]; after forward: the loss's gradient */
	float grey[256]; /* a pixel as the network sees it */
};

static uint32_t
square_of(uint32_t v)
{
	return v * v;
}

/* ---- workspace ------------------------------------------------------------------------- */

struct fashion_work *
fashion_work_new(const struct fashion_net *net, uint32_t images_max)
{
	struct fashion_work *w = calloc(1, sizeof *w);
	size_t n = images_max;
	size_t features = net->dense[0].out > 0 ? net->dense[0].in : net->dense[1].in;
	size_t hidden = net->dense[0].out > 0 ? net->dense[0].out : 1;
	int good;

	if (w == NULL)
		return NULL;
	w->net = net;
	w->images_max = images_max;
	good = (w->input = malloc(n * FASHION_PIXELS * sizeof(float))) != NULL &&
	    (w->labels = malloc(n)) != NULL &&
	    (w->features = malloc(n * features * sizeof(float))) != NULL &&
	    (w->grad_features = malloc(n * features * sizeof(float))) != NULL &&
	    (w->mask = malloc(n * features * sizeof(float))) != NULL &&
	    (w->hidden = malloc(n * hidden * sizeof(float))) != NULL &&
	    (w->grad_hidden = malloc(n * hidden * sizeof(float))) != NULL &&
	    (w->logits = malloc(n * FASHION_LABELS * sizeof(float))) != NULL;
	for (int i = 0; good && i < 2; i++) {
		const struct fashion_conv *c = &net->conv[i];
		struct layer *l = &w->layer[i];
		size_t columns = n * c->in * square_of(c->kernel) * square_of(c->side);

		good = (l->columns = malloc(columns * sizeof(float))) != NULL &&
		    (l->full = malloc(n * c->out * square_of(c->side) * sizeof(float))) != NULL &&
		    (l->pooled = malloc(n * c->out * square_of(c->pooled) * sizeof(float))) !=
			NULL &&
		    (l->from = malloc(n * c->out * square_of(c->pooled))) != NULL;
		if (good && i == 1)
			good = (w->grad_columns = malloc(columns * sizeof(float))) != NULL;
	}
	if (!good) {
		fashion_work_free(w);
		return NULL;
	}
	for (int i = 0; i < 256; i++) /* mean and spread of the training set */
		w->grey[i] = ((float)i / 255.0f - 0.2860f) / 0.3530f;
	return w;
}

void
fashion_work_free(struct fashion_work *w)
{
	if (w == NULL)
		return;
	for (int i = 0; i < 2; i++) {
		free(w->layer[i].columns);
		free(w->layer[i].full);
		free(w->layer[i].pooled);
		free(w->layer[i].from);
	}
	free(w->input);
	free(w->labels);
	free(w->grad_columns);
	free(w->features);
	free(w->grad_features);
	free(w->mask);
	free(w->hidden);
	free(w->grad_hidden);
	free(w->logits);
	free(w);
}

static uint32_t
feature_count(const struct fashion_net *net)
{
	return net->dense[0].out > 0 ? net->dense[0].in : net->dense[1].in;
}

void
fashion_work_image(struct fashion_work *w, const struct fashion_data *data, uint32_t index,
    uint32_t at, uint64_t key)
{
	const uint8_t *from = data->pixels + (size_t)index * FASHION_PIXELS;
	float *to = w->input + (size_t)at * FASHION_PIXELS;
	uint32_t features = feature_count(w->net);
	float *mask = w->mask + (size_t)at * features;
	float dropout = w->net->dropout;

	for (uint32_t i = 0; i < FASHION_PIXELS; i++)
		to[i] = w->grey[from[i]];
	w->labels[at] = data->labels[index];
	if (key == 0 || !(dropout > 0)) {
		for (uint32_t i = 0; i < features; i++)
			mask[i] = 1.0f;
		return;
	}
	for (uint32_t i = 0; i < features; i++) {
		float u = (float)(fashion_mix(key + i) >> 40) * 0x1.0p-24f;

		mask[i] = u < dropout ? 0.0f : 1.0f / (1.0f - dropout);
	}
}

/* ---- convolution ---------------------------------------------------------------------------- */

/* First and one past the last output place for which place * stride + shift lies in [0, side). */
static void
clip_range(const struct fashion_conv *c, int shift, int *first, int *last)
{
	int stride = (int)c->stride, side = (int)c->in_side;

	*first = shift < 0 ? (-shift + stride - 1) / stride : 0;
	*last = side - shift > 0 ? (side - shift + stride - 1) / stride : 0;
	if (*last > (int)c->side)
		*last = (int)c->side;
	if (*first > *last)
		*first = *last;
}

/* Unrolls the input ([channel][image][y][x]) so that the convolution becomes a product. */
static void
unroll_input(const struct fashion_conv *c, const float *input, uint32_t images, float *columns)
{
	uint32_t plane = square_of(c->in_side), side = c->side;
	float *to = columns;

	for (uint32_t row = 0; row < c->in * square_of(c->kernel); row++) {
		uint32_t channel = row / square_of(c->kernel);
		int dy = (int)(row / c->kernel % c->kernel) - (int)c->pad;
		int dx = (int)(row % c->kernel) - (int)c->pad, first, last, top, bottom;
		const float *image = input + (size_t)channel * images * plane;

		clip_range(c, dx, &first, &last);
		clip_range(c, dy, &top, &bottom);
		for (uint32_t n = 0; n < images; n++, image += plane) {
			for (int y = 0; y < (int)side; y++, to += side) {
				const float *line =
				    image + (y * (int)c->stride + dy) * (int)c->in_side + dx;

				if (y < top || y >= bottom) {
					memset(to, 0, side * sizeof *to);
					continue;
				}
				for (int x = 0; x < first; x++)
					to[x] = 0.0f;
				if (c->stride == 1)
					memcpy(to + first, line + first,
					    (size_t)(last - first) * sizeof *to);
				else
					for (int x = first; x < last; x++)
						to[x] = line[x * (int)c->stride];
				for (int x = last; x < (int)side; x++)
					to[x] = 0.0f;
			}
		}
	}
}

/* The reverse: adds every unrolled place back to where it came from. */
static void
roll_gradient(const struct fashion_conv *c, const float *columns, uint32_t images, float *input)
{
	uint32_t plane = square_of(c->in_side), side = c->side;
	const float *from = columns;

	memset(input, 0, (size_t)c->in * images * plane * sizeof *input);
	for (uint32_t row = 0; row < c->in * square_of(c->kernel); row++) {
		uint32_t channel = row / square_of(c->kernel);
		int dy = (int)(row / c->kernel % c->kernel) - (int)c->pad;
		int dx = (int)(row % c->kernel) - (int)c->pad, first, last, top, bottom;
		float *image = input + (size_t)channel * images * plane;

		clip_range(c, dx, &first, &last);
		clip_range(c, dy, &top, &bottom);
		for (uint32_t n = 0; n < images; n++, image += plane) {
			for (int y = 0; y < (int)side; y++, from += side) {
				float *line =
				    image + (y * (int)c->stride + dy) * (int)c->in_side + dx;

				if (y < top || y >= bottom)
					continue;
				for (int x = first; x < last; x++)
					line[x * (int)c->stride] += from[x];
			}
		}
	}
}

/* Maximum of each pool, then ReLU; `from` remembers the place. */
static void
pool_relu(const struct fashion_conv *c, const float *full, uint32_t images, float *pooled,
    uint8_t *from)
{
	uint32_t planes = c->out * images, side = c->side, to = 0;

	for (uint32_t p = 0; p < planes; p++, full += square_of(side)) {
		for (uint32_t y = 0; y < c->pooled; y++) {
			for (uint32_t x = 0; x < c->pooled; x++, to++) {
				const float *corner = full + y * c->pool * side + x * c->pool;
				float most = corner[0];
				uint8_t best = 0;

				for (uint32_t k = 1; k < square_of(c->pool); k++) {
					float v = corner[k / c->pool * side + k % c->pool];

					best = v > most ? (uint8_t)k : best;
					most = v > most ? v : most;
				}
				pooled[to] = most > 0.0f ? most : most != most ? most : 0.0f;
				from[to] = best;
			}
		}
	}
}

/* The gradient of the pooled values goes to the place each came from, where ReLU let it pass. */
static void
unpool_gradient(const struct fashion_conv *c, const float *gradient, const float *pooled,
    const uint8_t *from, uint32_t images, float *full)
{
	uint32_t planes = c->out * images, side = c->side, at = 0;

	memset(full, 0, (size_t)planes * square_of(side) * sizeof *full);
	for (uint32_t p = 0; p < planes; p++, full += square_of(side))
		for (uint32_t y = 0; y < c->pooled; y++)
			for (uint32_t x = 0; x < c->pooled; x++, at++) {
				uint32_t k = from[at];

				full[(y * c->pool + k / c->pool) * side + x * c->pool +
				    k % c->pool] = pooled[at] > 0.0f ? gradient[at] : 0.0f;
			}
}

static void
conv_forward(const struct fashion_conv *c, struct layer *l, const float *params, const float *input,
    uint32_t images)
{
	uint32_t places = images * square_of(c->side), in = c->in * square_of(c->kernel);

	unroll_input(c, input, images, l->columns);
	for (uint32_t o = 0; o < c->out; o++)
		for (uint32_t i = 0; i < places; i++)
			l->full[(size_t)o * places + i] = params[c->bias + o];
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)c->out, (int)places, (int)in,
	    1.0f, params + c->weights, (int)in, l->columns, (int)places, 1.0f, l->full,
	    (int)places);
	pool_relu(c, l->full, images, l->pooled, l->from);
}

/* `gradient` is that of the pooled values; input NULL: nobody asks for the input's. */
static void
conv_backward(const struct fashion_conv *c, struct layer *l, const float *params,
    const float *gradient, uint32_t images, float *to, float *columns, float *input)
{
	uint32_t places = images * square_of(c->side), in = c->in * square_of(c->kernel);

	unpool_gradient(c, gradient, l->pooled, l->from, images, l->full);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)c->out, (int)in, (int)places,
	    1.0f, l->full, (int)places, l->columns, (int)places, 0.0f, to + c->weights, (int)in);
	for (uint32_t o = 0; o < c->out; o++) {
		float sum = 0.0f;

		for (uint32_t i = 0; i < places; i++)
			sum += l->full[(size_t)o * places + i];
		to[c->bias + o] = sum;
	}
	if (input == NULL)
		return;
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)in, (int)places, (int)c->out,
	    1.0f, params + c->weights, (int)in, l->full, (int)places, 0.0f, columns, (int)places);
	roll_gradient(c, columns, images, input);
}

/* ---- dense layers -------------------------------------------------------------------------- */

static void
dense_forward(const struct fashion_dense *d, const float *params, const float *in, uint32_t images,
    float *out)
{
	for (uint32_t n = 0; n < images; n++)
		memcpy(out + (size_t)n * d->out, params + d->bias, d->out * sizeof *out);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)images, (int)d->out, (int)d->in,
	    1.0f, in, (int)d->in, params + d->weights, (int)d->in, 1.0f, out, (int)d->out);
}

static void
dense_backward(const struct fashion_dense *d, const float *params, const float *in,
    const float *gradient, uint32_t images, float *to, float *grad_in)
{
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)d->out, (int)d->in, (int)images,
	    1.0f, gradient, (int)d->out, in, (int)d->in, 0.0f, to + d->weights, (int)d->in);
	for (uint32_t o = 0; o < d->out; o++) {
		float sum = 0.0f;

		for (uint32_t n = 0; n < images; n++)
			sum += gradient[(size_t)n * d->out + o];
		to[d->bias + o] = sum;
	}
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)images, (int)d->in, (int)d->out,
	    1.0f, gradient, (int)d->out, params + d->weights, (int)d->in, 0.0f, grad_in,
	    (int)d->in);
}

/* Softmax and cross entropy; the logits become the gradient of the loss's sum. */
static void
judge_logits(float *logits, const uint8_t *labels, uint32_t images, double *loss, double *right)
{
	*loss = *right = 0.0;
	for (uint32_t n = 0; n < images; n++, logits += FASHION_LABELS) {
		float most = logits[0], sum = 0.0f;
		uint32_t best = 0;

		for (uint32_t i = 1; i < FASHION_LABELS; i++)
			if (logits[i] > most) {
				most = logits[i];
				best = i;
			}
		/* A network that has diverged is right about nothing. */
		*right += best == labels[n] && isfinite(most) && !isnan(logits[labels[n]]);
		*loss += (double)(most - logits[labels[n]]);
		for (uint32_t i = 0; i < FASHION_LABELS; i++) {
			logits[i] = expf(logits[i] - most);
			sum += logits[i];
		}
		*loss += log((double)sum);
		for (uint32_t i = 0; i < FASHION_LABELS; i++)
			logits[i] = logits[i] / sum - (i == labels[n] ? 1.0f : 0.0f);
	}
}

/* Between the second convolution's layout and one row per image, times the dropout mask: into rows,
 * or back. */
static void
mask_features(const struct fashion_work *w, uint32_t images, int into_rows, const float *from,
    float *to)
{
	const struct fashion_conv *c = &w->net->conv[1];
	uint32_t each = square_of(c->pooled), features = feature_count(w->net);

	for (uint32_t o = 0; o < c->out; o++)
		for (uint32_t n = 0; n < images; n++)
			for (uint32_t i = 0; i < each; i++) {
				size_t row = (size_t)n * features + o * each + i;
				size_t layer = ((size_t)o * images + n) * each + i;

				if (into_rows)
					to[row] = w->mask[row] * from[layer];
				else
					to[layer] = w->mask[row] * from[row];
			}
}

void
fashion_forward(struct fashion_work *w, const float *params, uint32_t images, double *loss,
    double *right)
{
	const struct fashion_net *net = w->net;
	const float *last = w->features;

	conv_forward(&net->conv[0], &w->layer[0], params, w->input, images);
	conv_forward(&net->conv[1], &w->layer[1], params, w->layer[0].pooled, images);
	mask_features(w, images, 1, w->layer[1].pooled, w->features);
	if (net->dense[0].out > 0) {
		size_t count = (size_t)images * net->dense[0].out;

		dense_forward(&net->dense[0], params, w->features, images, w->hidden);
		for (size_t i = 0; i < count; i++)
			w->hidden[i] = w->hidden[i] < 0.0f ? 0.0f : w->hidden[i];
		last = w->hidden;
	}
	dense_forward(&net->dense[1], params, last, images, w->logits);
	judge_logits(w->logits, w->labels, images, loss, right);
}

void
fashion_backward(struct fashion_work *w, const float *params, uint32_t images, float scale,
    float *gradient)
{
	const struct fashion_net *net = w->net;
	struct layer *first = &w->layer[0], *second = &w->layer[1];

	for (uint32_t i = 0; i < images * FASHION_LABELS; i++)
		w->logits[i] *= scale;
	if (net->dense[0].out > 0) {
		size_t count = (size_t)images * net->dense[0].out;

		dense_backward(&net->dense[1], params, w->hidden, w->logits, images, gradient,
		    w->grad_hidden);
		for (size_t i = 0; i < count; i++)
			w->grad_hidden[i] = w->hidden[i] > 0.0f ? w->grad_hidden[i] : 0.0f;
		dense_backward(&net->dense[0], params, w->features, w->grad_hidden, images,
		    gradient, w->grad_features);
	} else {
		dense_backward(&net->dense[1], params, w->features, w->logits, images, gradient,
		    w->grad_features);
	}
	mask_features(w, images, 0, w->grad_features, w->features); /* free by now */
	/* The second layer's unrolled input has served once its weights' gradient is made: the
	 * gradient of the first layer's output, which is smaller, takes its place. */
	conv_backward(&net->conv[1], second, params, w->features, images, gradient, w->grad_columns,
	    second->columns);
	conv_backward(&net->conv[0], first, params, second->columns, images, gradient, NULL, NULL);
}
