/* fashion_cuda_net.c - the shapes of the networks, where their parameters lie, and what is done in
 * which order.
 *
 * The same functions make a step of either network, and of a part of the validation: convolutions
 * first, if there are any, then dense layers.  A graph of CUDA's is what they queue while one is
 * captured.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fashion_cuda.h"

enum {
	OUTPUT,
	WEIGHTS,
	INPUT
}; /* what a product is for: a layer's output, gradients of the others */

struct fashion_cuda_work {
	const struct fashion_cuda_net *net;
	uint32_t rows;              /* at most */
	uint32_t *images;           /* of each row */
	fashion_cuda_bf16 *weights; /* the parameters, narrow */
	float *gradient;
	struct {
		/* full: before pooling; then its gradient */
		fashion_cuda_bf16 *columns, *full;
		uint8_t *place;
	} conv[2];
	fashion_cuda_bf16 *pooled; /* of the first convolution */
	fashion_cuda_bf16 *in[FASHION_CUDA_DENSE];
	fashion_cuda_bf16 *out[FASHION_CUDA_DENSE]; /* before ReLU; then its gradient */
	float *logits;
	fashion_cuda_bf16 *back; /* gradient of an input, or of columns */
};

/* ---- shapes ------------------------------------------------------------------------------- */

/* Each layer's weights begin where cuBLASLt likes them to. */
static uint64_t
room_for(struct fashion_cuda_net *net, uint64_t count)
{
	uint64_t at = net->count;

	net->count += (count + 127u) / 128u * 128u;
	return at;
}

static void
add_dense(struct fashion_cuda_net *net, uint32_t in, uint32_t out)
{
	struct fashion_cuda_dense *d = &net->dense[net->dense_count++];

	d->in = in;
	d->out = out;
	d->ins = fashion_cuda_up(in + 1u);
	d->outs = out == FASHION_LABELS ? FASHION_CUDA_LOGITS : fashion_cuda_up(out);
	d->weights = room_for(net, (uint64_t)d->outs * d->ins);
}

void
fashion_cuda_net_cnn(struct fashion_cuda_net *net, const struct fashion_net *as)
{
	*net = (struct fashion_cuda_net){ .conv_count = 2, .dropout = as->dropout };
	for (int i = 0; i < 2; i++) {
		const struct fashion_conv *from = &as->conv[i];
		struct fashion_cuda_conv *c = &net->conv[i];

		c->in = from->in;
		c->out = from->out;
		c->outs = fashion_cuda_up(from->out);
		c->in_side = from->in_side;
		c->kernel = from->kernel;
		c->side = from->side;
		c->pooled = from->pooled;
		c->columns = fashion_cuda_up(from->in * from->kernel * from->kernel + 1u);
		c->weights = room_for(net, (uint64_t)c->outs * c->columns);
	}
	for (int i = 0; i < 2; i++)
		if (as->dense[i].out > 0)
			add_dense(net, as->dense[i].in, as->dense[i].out);
}

void
fashion_cuda_net_mlp(struct fashion_cuda_net *net, uint32_t width, uint32_t depth)
{
	*net = (struct fashion_cuda_net){ .conv_count = 0 };
	for (uint32_t i = 0; i < depth; i++)
		add_dense(net, i == 0 ? FASHION_PIXELS : width, width);
	add_dense(net, width, FASHION_LABELS);
}

/* Calls `each` with the places of one parameter: of fashion_cnn's, and here. */
static void
pair_places(const struct fashion_cuda_net *net, const struct fashion_net *as,
    void (*each)(uint64_t theirs, uint64_t ours, void *context), void *context)
{
	uint32_t d = 0;

	for (int i = 0; i < 2; i++) {
		const struct fashion_cuda_conv *c = &net->conv[i];
		uint32_t taps = c->kernel * c->kernel;

		for (uint32_t o = 0; o < c->out; o++) {
			uint64_t row = c->weights + (uint64_t)o * c->columns;

			for (uint32_t k = 0; k < c->in * taps; k++) /* theirs: channel by channel */
				each(as->conv[i].weights + o * c->in * taps + k,
				    row + k % taps * c->in + k / taps, context);
			each(as->conv[i].bias + o, row + c->in * taps, context);
		}
	}
	for (int i = 0; i < 2; i++) {
		const struct fashion_cuda_dense *l = &net->dense[d];

		if (as->dense[i].out == 0)
			continue;
		for (uint32_t o = 0; o < l->out; o++) {
			for (uint32_t k = 0; k < l->in; k++)
				each(as->dense[i].weights + o * l->in + k,
				    l->weights + (uint64_t)o * l->ins + k, context);
			each(as->dense[i].bias + o, l->weights + (uint64_t)o * l->ins + l->in,
			    context);
		}
		d++;
	}
}

struct ends {
	const float *from;
	float *to;
};

static void
to_ours(uint64_t theirs, uint64_t ours, void *context)
{
	struct ends *e = context;

	e->to[ours] = e->from[theirs];
}

static void
to_theirs(uint64_t theirs, uint64_t ours, void *context)
{
	struct ends *e = context;

	e->to[theirs] = e->from[ours];
}

void
fashion_cuda_net_place(const struct fashion_cuda_net *net, const struct fashion_net *as,
    const float *from, float *to)
{
	struct ends e = { from, to };

	memset(to, 0, net->count * sizeof *to);
	pair_places(net, as, to_ours, &e);
}

void
fashion_cuda_net_unplace(const struct fashion_cuda_net *net, const struct fashion_net *as,
    const float *from, float *to)
{
	struct ends e = { from, to };

	pair_places(net, as, to_theirs, &e);
}

void
fashion_cuda_net_start_mlp(const struct fashion_cuda_net *net, uint64_t seed, float *params)
{
	memset(params, 0, net->count * sizeof *params);
	for (uint32_t d = 0; d < net->dense_count; d++) {
		const struct fashion_cuda_dense *l = &net->dense[d];
		uint64_t key = fashion_mix(fashion_mix(seed ^ UINT64_C(0x77656967687473)) + d);
		double limit = sqrt((d + 1u < net->dense_count ? 6.0 : 3.0) / l->in);

		for (uint32_t o = 0; o < l->out; o++)
			for (uint32_t k = 0; k < l->in; k++) {
				double u =
				    (double)(fashion_mix(key + (uint64_t)o * l->in + k) >> 11) *
				    0x1.0p-53;

				params[l->weights + (uint64_t)o * l->ins + k] =
				    (float)(limit * (2.0 * u - 1.0));
			}
	}
}

/* ---- memory ------------------------------------------------------------------------------- */

void *
fashion_cuda_take(struct fashion_cuda_arena *arena, uint64_t bytes)
{
	char *at = arena->base != NULL ? arena->base + arena->bytes : NULL;

	arena->bytes += (bytes + 255u) / 256u * 256u;
	return at;
}

struct fashion_cuda_work *
fashion_cuda_work_new(const struct fashion_cuda_net *net, uint32_t rows_max)
{
	struct fashion_cuda_work *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->net = net;
	w->rows = rows_max;
	return w;
}

void
fashion_cuda_work_place(struct fashion_cuda_work *w, struct fashion_cuda_arena *arena)
{
	const struct fashion_cuda_net *net = w->net;
	uint64_t rows = w->rows, size = sizeof(fashion_cuda_bf16), back = 0;

	w->images = fashion_cuda_take(arena, rows * sizeof *w->images);
	w->weights = fashion_cuda_take(arena, net->count * size);
	w->gradient =
	    fashion_cuda_take(arena, (net->count + 2u * FASHION_CUDA_PARTS) * sizeof *w->gradient);
	for (uint32_t i = 0; i < net->conv_count; i++) {
		const struct fashion_cuda_conv *c = &net->conv[i];
		uint64_t places = rows * c->side * c->side;

		w->conv[i].columns = fashion_cuda_take(arena, places * c->columns * size);
		w->conv[i].full = fashion_cuda_take(arena, places * c->outs * size);
		w->conv[i].place = fashion_cuda_take(arena, rows * c->pooled * c->pooled * c->outs);
		if (i == 0)
			w->pooled =
			    fashion_cuda_take(arena, rows * c->pooled * c->pooled * c->outs * size);
		else
			back = places * c->columns;
	}
	for (uint32_t d = 0; d < net->dense_count; d++) {
		const struct fashion_cuda_dense *l = &net->dense[d];

		w->in[d] = fashion_cuda_take(arena, rows * l->ins * size);
		w->out[d] = fashion_cuda_take(arena, rows * l->outs * size);
		back = rows * l->ins > back ? rows * l->ins : back;
	}
	w->logits = fashion_cuda_take(arena, rows * FASHION_CUDA_LOGITS * sizeof *w->logits);
	w->back = fashion_cuda_take(arena, back * size);
}

void
fashion_cuda_work_free(struct fashion_cuda_work *w)
{
	free(w);
}

fashion_cuda_bf16 *
fashion_cuda_work_weights(struct fashion_cuda_work *w)
{
	return w->weights;
}

float *
fashion_cuda_work_gradient(struct fashion_cuda_work *w)
{
	return w->gradient;
}

/* ---- products ------------------------------------------------------------------------------ */

/* The three products of a layer: `rows` inputs of `ins` elements become as many outputs of `outs`.
 */
struct layer {
	uint32_t at, rows, ins, outs;
	uint64_t weights;
	fashion_cuda_bf16 *in, *out;
	float *logits; /* of the last layer */
	int first;     /* nobody asks for its input's gradient */
};

static espl_status
plan_layer(struct fashion_cuda_work *w, struct fashion_cuda_engine *engine,
    struct fashion_cuda_task *t, const struct layer *l, struct espl_error *error)
{
	fashion_cuda_bf16 *weights = w->weights + l->weights;
	const struct fashion_cuda_product all[3] = {
		[OUTPUT] = { FASHION_CUDA_NT, l->rows, l->outs, l->ins, l->in, weights,
		    l->logits != NULL ? (void *)l->logits : l->out, l->logits != NULL, NULL },
		[WEIGHTS] = { FASHION_CUDA_TN, l->outs, l->ins, l->rows, l->out, l->in,
		    w->gradient + l->weights, 1, NULL },
		[INPUT] = { FASHION_CUDA_NN, l->rows, l->ins, l->outs, l->out, weights, w->back, 0,
		    NULL }
	};
	espl_status status = ESPL_OK;

	for (int i = 0; i < 3 && status == ESPL_OK; i++) {
		t->products[i][l->at] = all[i];
		if ((i != OUTPUT && !t->learns) || (i == INPUT && l->first))
			continue;
		status = fashion_cuda_product_plan(engine, &t->products[i][l->at], error);
	}
	return status;
}

espl_status
fashion_cuda_task_plan(struct fashion_cuda_work *w, struct fashion_cuda_engine *engine,
    struct fashion_cuda_task *t, struct espl_error *error)
{
	const struct fashion_cuda_net *net = w->net;
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < net->conv_count && status == ESPL_OK && t->rows > 0; i++) {
		const struct fashion_cuda_conv *c = &net->conv[i];
		struct layer l = { i, t->rows * c->side * c->side, c->columns, c->outs, c->weights,
			w->conv[i].columns, w->conv[i].full, NULL, i == 0 };

		status = plan_layer(w, engine, t, &l, error);
	}
	for (uint32_t d = 0; d < net->dense_count && status == ESPL_OK && t->rows > 0; d++) {
		const struct fashion_cuda_dense *e = &net->dense[d];
		struct layer l = { 2u + d, t->rows, e->ins, e->outs, e->weights, w->in[d],
			w->out[d], d + 1u == net->dense_count ? w->logits : NULL,
			d == 0 && net->conv_count == 0 };

		status = plan_layer(w, engine, t, &l, error);
	}
	return status;
}

void
fashion_cuda_task_free(struct fashion_cuda_engine *engine, struct fashion_cuda_task *t)
{
	for (int i = 0; i < 3; i++)
		for (uint32_t l = 0; l < FASHION_CUDA_DENSE + 2u; l++)
			fashion_cuda_product_free(engine, &t->products[i][l]);
}

/* ---- the work of a step --------------------------------------------------------------------- */

static espl_status
run_product(struct fashion_cuda_engine *engine, const struct fashion_cuda_task *t, int what,
    uint32_t layer, espl_status before, struct espl_error *error)
{
	return before != ESPL_OK
	    ? before
	    : fashion_cuda_product_run(engine, &t->products[what][layer], error);
}

static espl_status
run_forward(struct fashion_cuda_work *w, struct fashion_cuda_engine *engine,
    const struct fashion_cuda_task *t, cudaStream_t stream, struct espl_error *error)
{
	const struct fashion_cuda_net *net = w->net;
	const struct fashion_cuda_conv *one = &net->conv[0], *two = &net->conv[1];
	espl_status status = ESPL_OK;

	if (net->conv_count == 0) {
		fashion_cuda_flat_image(net->dense[0].ins, &t->source, t->state, t->rows, w->images,
		    w->in[0], stream);
	} else {
		fashion_cuda_unroll_image(one, &t->source, t->state, t->rows, w->images,
		    w->conv[0].columns, stream);
		status = run_product(engine, t, OUTPUT, 0, status, error);
		fashion_cuda_pool(one, w->conv[0].full, t->rows, w->pooled, w->conv[0].place,
		    stream);
		fashion_cuda_unroll(two, w->pooled, one->outs, t->rows, w->conv[1].columns, stream);
		status = run_product(engine, t, OUTPUT, 1, status, error);
		fashion_cuda_pool_rows(two, w->conv[1].full, t->rows, net->dropout,
		    t->learns ? t->state : NULL, w->images, net->dense[0].ins, w->in[0],
		    w->conv[1].place, stream);
	}
	for (uint32_t d = 0; d < net->dense_count; d++) {
		status = run_product(engine, t, OUTPUT, 2u + d, status, error);
		if (d + 1u < net->dense_count)
			fashion_cuda_relu(&net->dense[d], w->out[d], t->rows,
			    net->dense[d + 1u].ins, w->in[d + 1u], stream);
	}
	return status;
}

static espl_status
run_backward(struct fashion_cuda_work *w, struct fashion_cuda_engine *engine,
    const struct fashion_cuda_task *t, cudaStream_t stream, struct espl_error *error)
{
	const struct fashion_cuda_net *net = w->net;
	espl_status status = ESPL_OK;

	for (uint32_t d = net->dense_count; d-- > 0;) {
		status = run_product(engine, t, WEIGHTS, 2u + d, status, error);
		if (d > 0 || net->conv_count > 0)
			status = run_product(engine, t, INPUT, 2u + d, status, error);
		if (d > 0)
			fashion_cuda_relu_back(&net->dense[d - 1u], w->back, w->in[d], t->rows,
			    net->dense[d].ins, w->out[d - 1u], stream);
	}
	if (net->conv_count == 0)
		return status;
	fashion_cuda_unpool_rows(&net->conv[1], w->back, net->dense[0].ins, w->conv[1].place,
	    t->rows, net->dropout, t->state, w->images, w->conv[1].full, stream);
	status = run_product(engine, t, WEIGHTS, 1, status, error);
	status = run_product(engine, t, INPUT, 1, status, error);
	fashion_cuda_roll_unpool(&net->conv[0], &net->conv[1], w->back, w->conv[0].place, t->rows,
	    w->conv[0].full, stream);
	return run_product(engine, t, WEIGHTS, 0, status, error);
}

espl_status
fashion_cuda_task_run(struct fashion_cuda_work *w, struct fashion_cuda_engine *engine,
    const struct fashion_cuda_task *t, cudaStream_t stream, struct espl_error *error)
{
	uint32_t last = w->net->dense_count - 1u;
	espl_status status = ESPL_OK;
	cudaError_t failure;

	if (t->rows > 0)
		status = run_forward(w, engine, t, stream, error);
	else if (t->learns)
		(void)cudaMemsetAsync(w->gradient, 0, w->net->count * sizeof *w->gradient, stream);
	fashion_cuda_judge(w->logits, t->source.labels, w->images, t->rows, t->scale,
	    t->learns ? w->out[last] : NULL, w->gradient + w->net->count, t->state, !t->learns,
	    stream);
	if (t->rows > 0 && t->learns && status == ESPL_OK)
		status = run_backward(w, engine, t, stream, error);
	failure = cudaGetLastError();
	if (status == ESPL_OK && failure != cudaSuccess)
		status = espl_fail(error, ESPL_E_REMOTE, "cannot launch a kernel: %s",
		    cudaGetErrorString(failure));
	return status;
}
