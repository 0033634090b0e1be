/* fashion_cuda_kernels.cu - the work of a step that is no matrix product: images to columns,
 * pooling, ReLU, dropout, the judgement, the optimiser, and the ways back.
 *
 * Masks and orders are the very ones of fashion_cnn: functions of seed, iteration and image.  No
 * kernel adds by atomics: the same gang computes the same, to the bit.
 */
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include "fashion_cuda.h"

/* A test that runs the kernels on a CPU has a launch of its own. */
#ifndef LAUNCH
#define LAUNCH(kernel_, grid_, block_, stream_, ...) \
	kernel_<<<(grid_), (block_), 0, (stream_)>>>(__VA_ARGS__)
#endif

#define BLOCK 256u

typedef struct fashion_cuda_state state_t;
typedef struct fashion_cuda_source source_t;
typedef struct fashion_cuda_update update_t;
typedef fashion_cuda_bf16 bf16;

struct __align__(16) eight
{
	bf16 v[8];
}; /* written at once */

static inline unsigned
count_blocks(uint64_t threads, unsigned block)
{
	uint64_t n = (threads + block - 1) / block;

	return n > 0x7fffffffu ? 0x7fffffffu : (unsigned)n;
}

static __device__ __forceinline__ float
to_float(bf16 v)
{
	return __uint_as_float((uint32_t)v << 16);
}

/* To the nearest, ties to even, as the hardware's conversion. */
static __device__ __forceinline__ bf16
to_bf16(float v)
{
	return __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

static __device__ __forceinline__ uint64_t
mix_bits(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static __device__ __forceinline__ uint64_t
place_of_thread(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Mean and spread of the training set, as on the CPU. */
static __device__ __forceinline__ bf16
normalize_pixel(uint8_t pixel)
{
	return to_bf16(((float)pixel / 255.0f - 0.2860f) / 0.3530f);
}

static __device__ __forceinline__ uint32_t
image_of(const source_t &s, uint32_t batch, uint32_t row)
{
	uint64_t at = s.base + (uint64_t)batch * s.stride + row;

	if (at >= s.limit)
		return FASHION_CUDA_NOBODY;
	return s.order != NULL ? s.order[at] : (uint32_t)at;
}

/* A thread makes eight elements of one row of the columns; the first of an image tells which it is.
 */
static __global__ void
unroll_image(source_t source, const state_t *state, uint32_t rows, uint32_t side, uint32_t kernel,
    uint32_t columns, uint32_t *images, bf16 *to)
{
	uint32_t at = (uint32_t)place_of_thread();
	uint32_t parts = columns / 8u, part = at % parts, taps = kernel * kernel;
	uint32_t place = at / parts;
	uint32_t x = place % side, y = place / side % side;
	uint32_t row = place / (side * side);
	uint32_t image;
	const uint8_t *from;
	struct eight out;

	if (row >= rows)
		return;
	image = image_of(source, state->next, (uint32_t)row);
	if (part == 0 && x == 0 && y == 0)
		images[row] = image;
	from =
	    source.pixels + (uint64_t)(image == FASHION_CUDA_NOBODY ? 0u : image) * FASHION_PIXELS;
	for (uint32_t i = 0; i < 8u; i++) {
		uint32_t tap = part * 8u + i;

		if (tap < taps)
			out.v[i] = normalize_pixel(
			    from[(y + tap / kernel) * FASHION_SIDE + x + tap % kernel]);
		else
			out.v[i] = to_bf16(tap == taps ? 1.0f : 0.0f);
	}
	*(struct eight *)(to + place * columns + part * 8u) = out;
}

static __global__ void
flat_image(source_t source, const state_t *state, uint32_t rows, uint32_t ins, uint32_t *images,
    bf16 *to)
{
	uint32_t at = (uint32_t)place_of_thread();
	uint32_t parts = ins / 8u, part = at % parts, image;
	uint32_t row = at / parts;
	const uint8_t *from;
	struct eight out;

	if (row >= rows)
		return;
	image = image_of(source, state->next, (uint32_t)row);
	if (part == 0)
		images[row] = image;
	from =
	    source.pixels + (uint64_t)(image == FASHION_CUDA_NOBODY ? 0u : image) * FASHION_PIXELS;
	for (uint32_t i = 0; i < 8u; i++) {
		uint32_t pixel = part * 8u + i;

		if (pixel < FASHION_PIXELS)
			out.v[i] = normalize_pixel(from[pixel]);
		else
			out.v[i] = to_bf16(pixel == FASHION_PIXELS ? 1.0f : 0.0f);
	}
	*(struct eight *)(to + row * ins + part * 8u) = out;
}

/* ---- convolutions ------------------------------------------------------------------------- */

/* The input is [row][y][x][ins]; channels beyond `in` are left out. */
static __global__ void
unroll_input(const bf16 *input, uint32_t rows, uint32_t in, uint32_t ins, uint32_t in_side,
    uint32_t side, uint32_t kernel, uint32_t columns, bf16 *to)
{
	uint32_t at = (uint32_t)place_of_thread();
	uint32_t parts = columns / 8u, part = at % parts, taps = in * kernel * kernel;
	uint32_t place = at / parts;
	uint32_t x = place % side, y = place / side % side;
	uint32_t row = place / (side * side);
	struct eight out;

	if (row >= rows)
		return;
	for (uint32_t i = 0; i < 8u; i++) {
		uint32_t k = part * 8u + i, tap = k / in, c = k % in;

		if (k < taps)
			out.v[i] = input[((row * in_side + y + tap / kernel) * in_side + x +
					     tap % kernel) *
				ins +
			    c];
		else
			out.v[i] = to_bf16(k == taps ? 1.0f : 0.0f);
	}
	*(struct eight *)(to + place * columns + part * 8u) = out;
}

/* The largest of the four values of one pooled place, after ReLU. */
static __device__ __forceinline__ float
most_of(const bf16 *full, uint32_t row, uint32_t side, uint32_t outs, uint32_t py, uint32_t px,
    uint32_t o, uint8_t *place)
{
	float most = 0.0f;
	uint8_t best = 0;

	for (uint32_t k = 0; k < 4u; k++) {
		float v = to_float(
		    full[((row * side + 2u * py + k / 2u) * side + 2u * px + k % 2u) * outs + o]);

		if (k == 0 || v > most) {
			most = v;
			best = (uint8_t)k;
		}
	}
	*place = most > 0.0f ? best : 4u;
	return most > 0.0f || most != most ? most : 0.0f;
}

static __global__ void
pool_image(const bf16 *full, uint32_t rows, uint32_t side, uint32_t pooled, uint32_t outs, bf16 *to,
    uint8_t *place)
{
	uint32_t at = (uint32_t)place_of_thread(), there = at / outs;
	uint32_t o = at % outs, px = there % pooled, py = there / pooled % pooled;
	uint32_t row = there / (pooled * pooled);

	if (row >= rows)
		return;
	to[at] = to_bf16(most_of(full, row, side, outs, py, px, o, &place[at]));
}

/* 0, or 1 / (1 - dropout): as on the CPU. */
static __device__ __forceinline__ float
mask_of(uint64_t state_key, uint32_t image, uint32_t feature, float dropout)
{
	uint64_t key = mix_bits(state_key ^ image) | 1u;
	float u = (float)(uint32_t)(mix_bits(key + feature) >> 40) * 0x1.0p-24f;

	return u < dropout ? 0.0f : 1.0f / (1.0f - dropout);
}

/* Threads go along the full channels, so that reading is in order; the rows are short. */
static __global__ void
pool_rows(const bf16 *full, uint32_t rows, uint32_t side, uint32_t pooled, uint32_t out,
    uint32_t outs, float dropout, const state_t *state, const uint32_t *images, uint32_t ins,
    bf16 *features, uint8_t *place)
{
	uint32_t at = (uint32_t)place_of_thread(), there = at / outs;
	uint32_t o = at % outs, area = pooled * pooled, spot = there % area;
	uint32_t row = there / area;
	float v;

	if (row >= rows)
		return;
	v = most_of(full, row, side, outs, spot / pooled, spot % pooled, o, &place[at]);
	if (o < out) {
		uint32_t feature = o * area + spot;

		if (state != NULL && dropout > 0.0f)
			v *= mask_of(state->key, images[row], feature, dropout);
		features[row * ins + feature] = to_bf16(v);
	}
	if (spot == 0 && o == 0)
		for (uint32_t i = out * area; i < ins; i++)
			features[row * ins + i] = to_bf16(i == out * area ? 1.0f : 0.0f);
}

static __global__ void
unpool_rows(const bf16 *gradient, uint32_t ins, const uint8_t *place, uint32_t rows, uint32_t side,
    uint32_t pooled, uint32_t out, uint32_t outs, float dropout, const state_t *state,
    const uint32_t *images, bf16 *full)
{
	uint32_t at = (uint32_t)place_of_thread(), there = at / outs;
	uint32_t o = at % outs, x = there % side, y = there / side % side;
	uint32_t row = there / (side * side);
	uint32_t spot = y / 2u * pooled + x / 2u;
	float v = 0.0f;

	if (row >= rows)
		return;
	if (o < out && place[(row * pooled * pooled + spot) * outs + o] == (y % 2u) * 2u + x % 2u) {
		uint32_t feature = o * pooled * pooled + spot;

		v = to_float(gradient[row * ins + feature]);
		if (dropout > 0.0f)
			v *= mask_of(state->key, images[row], feature, dropout);
	}
	full[at] = to_bf16(v);
}

/* What the layer above has unrolled is added up where it came from, and goes on to the place of the
 * pool that was the largest. */
static __global__ void
roll_unpool(const bf16 *columns, uint32_t width, uint32_t above_side, uint32_t kernel,
    const uint8_t *place, uint32_t rows, uint32_t side, uint32_t pooled, uint32_t out,
    uint32_t outs, bf16 *full)
{
	uint32_t at = (uint32_t)place_of_thread(), there = at / outs;
	uint32_t o = at % outs, x = there % side, y = there / side % side;
	uint32_t row = there / (side * side);
	uint32_t py = y / 2u, px = x / 2u;
	float sum = 0.0f;

	if (row >= rows)
		return;
	if (o < out &&
	    place[((row * pooled + py) * pooled + px) * outs + o] == (y % 2u) * 2u + x % 2u)
		for (uint32_t tap = 0; tap < kernel * kernel; tap++) {
			uint32_t dy = tap / kernel, dx = tap % kernel;

			if (py < dy || px < dx || py - dy >= above_side || px - dx >= above_side)
				continue;
			sum += to_float(
			    columns[((row * above_side + py - dy) * above_side + px - dx) * width +
				tap * out + o]);
		}
	full[at] = to_bf16(sum);
}

/* ---- dense layers ------------------------------------------------------------------------- */

static __global__ void
apply_relu(const bf16 *full, uint32_t rows, uint32_t out, uint32_t outs, uint32_t ins, bf16 *to)
{
	uint32_t at = (uint32_t)place_of_thread(), row = at / ins;
	uint32_t i = at % ins;
	float v = i == out ? 1.0f : 0.0f;

	if (row >= rows)
		return;
	if (i < out) {
		v = to_float(full[row * outs + i]);
		v = v < 0.0f ? 0.0f : v;
	}
	to[at] = to_bf16(v);
}

static __global__ void
relu_back(const bf16 *gradient, const bf16 *passed, uint32_t rows, uint32_t out, uint32_t outs,
    uint32_t ins, bf16 *full)
{
	uint32_t at = (uint32_t)place_of_thread(), row = at / outs;
	uint32_t i = at % outs;
	bf16 v = 0;

	if (row >= rows)
		return;
	if (i < out && to_float(passed[row * ins + i]) > 0.0f)
		v = gradient[row * ins + i];
	full[at] = v;
}

/* ---- judgement ---------------------------------------------------------------------------- */

/* Of one image: its loss, whether it is right, and the logits' gradient. */
static __device__ void
judge_row(const float *logits, uint32_t label, float scale, bf16 *gradient, float *loss,
    float *right)
{
	float most = logits[0], sum = 0.0f, e[FASHION_LABELS];
	uint32_t best = 0;

	for (uint32_t i = 1; i < FASHION_LABELS; i++)
		if (logits[i] > most) {
			most = logits[i];
			best = i;
		}
	/* A network that has diverged is right about nothing. */
	*right += best == label && isfinite(most) && !isnan(logits[label]) ? 1.0f : 0.0f;
	for (uint32_t i = 0; i < FASHION_LABELS; i++) {
		e[i] = expf(logits[i] - most);
		sum += e[i];
	}
	*loss += most - logits[label] + logf(sum);
	for (uint32_t i = 0; gradient != NULL && i < FASHION_CUDA_LOGITS; i++)
		gradient[i] = to_bf16(
		    i < FASHION_LABELS ? (e[i] / sum - (i == label ? 1.0f : 0.0f)) * scale : 0.0f);
}

static __global__ void
judge_rows(const float *logits, const uint8_t *labels, const uint32_t *images, uint32_t rows,
    float scale, bf16 *gradient, float *parts, state_t *state, int adds)
{
	__shared__ float losses[BLOCK], rights[BLOCK];
	float loss = 0.0f, right = 0.0f;

	for (uint64_t row = place_of_thread(); row < rows;
	     row += (uint64_t)gridDim.x * blockDim.x) {
		bf16 *to = gradient != NULL ? gradient + row * FASHION_CUDA_LOGITS : NULL;

		if (images[row] != FASHION_CUDA_NOBODY)
			judge_row(logits + row * FASHION_CUDA_LOGITS, labels[images[row]], scale,
			    to, &loss, &right);
		else
			for (uint32_t i = 0; to != NULL && i < FASHION_CUDA_LOGITS; i++)
				to[i] = 0;
	}
	losses[threadIdx.x] = loss;
	rights[threadIdx.x] = right;
	__syncthreads();
	for (uint32_t half = BLOCK / 2u; half > 0; half /= 2u) {
		if (threadIdx.x < half) {
			losses[threadIdx.x] += losses[threadIdx.x + half];
			rights[threadIdx.x] += rights[threadIdx.x + half];
		}
		__syncthreads();
	}
	if (threadIdx.x != 0)
		return;
	if (!adds) {
		parts[blockIdx.x] = losses[0];
		parts[FASHION_CUDA_PARTS + blockIdx.x] = rights[0];
	} else { /* one block */
		state->loss += losses[0];
		state->right += rights[0];
	}
	/* all that read `next` come before this kernel, all that read `now` after it */
	if (blockIdx.x == 0) {
		state->now = state->next;
		state->next++;
	}
}

/* ---- the optimiser ------------------------------------------------------------------------ */

static __global__ void
update_step(update_t u, state_t *state)
{
	float rate = u.rates[state->now];

	for (uint64_t i = place_of_thread(); i < u.count; i += (uint64_t)gridDim.x * blockDim.x) {
		float g = u.gradient[i], v, p = u.params[i];

		if (!u.adam) {
			v = u.momentum * u.velocity[i] + g;
			p -= rate * v;
		} else {
			float s = 0.999f * u.square[i] + (1.0f - 0.999f) * g * g;

			v = u.momentum * u.velocity[i] + (1.0f - u.momentum) * g;
			u.square[i] = s;
			p -= rate * v / (sqrtf(s) + 1e-7f);
		}
		u.velocity[i] = v;
		u.params[i] = p;
		u.weights[i] = to_bf16(p);
	}
	if (place_of_thread() == 0) {
		double loss = 0.0, right = 0.0;

		for (uint32_t i = 0; i < FASHION_CUDA_PARTS; i++) {
			loss += (double)u.gradient[u.count + i];
			right += (double)u.gradient[u.count + FASHION_CUDA_PARTS + i];
		}
		state->loss += loss;
		state->right += right;
	}
}

static __global__ void
narrow_all(const float *from, bf16 *to, uint64_t count)
{
	for (uint64_t i = place_of_thread(); i < count; i += (uint64_t)gridDim.x * blockDim.x)
		to[i] = to_bf16(from[i]);
}

/* ---- launches ----------------------------------------------------------------------------- */

#define LAUNCH_FOR(kernel_, threads_, stream_, ...) \
	do { \
		uint64_t threads__ = (threads_); \
		if (threads__ > 0) \
			LAUNCH(kernel_, count_blocks(threads__, BLOCK), BLOCK, stream_, \
			    __VA_ARGS__); \
	} while (0)

extern "C" void
fashion_cuda_unroll_image(const struct fashion_cuda_conv *c,
    const struct fashion_cuda_source *source, const struct fashion_cuda_state *state, uint32_t rows,
    uint32_t *images, fashion_cuda_bf16 *columns, cudaStream_t stream)
{
	LAUNCH_FOR(unroll_image, (uint64_t)rows * c->side * c->side * (c->columns / 8u), stream,
	    *source, state, rows, c->side, c->kernel, c->columns, images, columns);
}

extern "C" void
fashion_cuda_flat_image(uint32_t ins, const struct fashion_cuda_source *source,
    const struct fashion_cuda_state *state, uint32_t rows, uint32_t *images, fashion_cuda_bf16 *to,
    cudaStream_t stream)
{
	LAUNCH_FOR(flat_image, (uint64_t)rows * (ins / 8u), stream, *source, state, rows, ins,
	    images, to);
}

extern "C" void
fashion_cuda_unroll(const struct fashion_cuda_conv *c, const fashion_cuda_bf16 *input, uint32_t ins,
    uint32_t rows, fashion_cuda_bf16 *columns, cudaStream_t stream)
{
	LAUNCH_FOR(unroll_input, (uint64_t)rows * c->side * c->side * (c->columns / 8u), stream,
	    input, rows, c->in, ins, c->in_side, c->side, c->kernel, c->columns, columns);
}

extern "C" void
fashion_cuda_pool(const struct fashion_cuda_conv *c, const fashion_cuda_bf16 *full, uint32_t rows,
    fashion_cuda_bf16 *pooled, uint8_t *place, cudaStream_t stream)
{
	LAUNCH_FOR(pool_image, (uint64_t)rows * c->pooled * c->pooled * c->outs, stream, full, rows,
	    c->side, c->pooled, c->outs, pooled, place);
}

extern "C" void
fashion_cuda_pool_rows(const struct fashion_cuda_conv *c, const fashion_cuda_bf16 *full,
    uint32_t rows, float dropout, const struct fashion_cuda_state *state, const uint32_t *images,
    uint32_t ins, fashion_cuda_bf16 *features, uint8_t *place, cudaStream_t stream)
{
	LAUNCH_FOR(pool_rows, (uint64_t)rows * c->pooled * c->pooled * c->outs, stream, full, rows,
	    c->side, c->pooled, c->out, c->outs, dropout, state, images, ins, features, place);
}

extern "C" void
fashion_cuda_unpool_rows(const struct fashion_cuda_conv *c, const fashion_cuda_bf16 *gradient,
    uint32_t ins, const uint8_t *place, uint32_t rows, float dropout,
    const struct fashion_cuda_state *state, const uint32_t *images, fashion_cuda_bf16 *full,
    cudaStream_t stream)
{
	LAUNCH_FOR(unpool_rows, (uint64_t)rows * c->side * c->side * c->outs, stream, gradient, ins,
	    place, rows, c->side, c->pooled, c->out, c->outs, dropout, state, images, full);
}

extern "C" void
fashion_cuda_roll_unpool(const struct fashion_cuda_conv *c, const struct fashion_cuda_conv *above,
    const fashion_cuda_bf16 *columns, const uint8_t *place, uint32_t rows, fashion_cuda_bf16 *full,
    cudaStream_t stream)
{
	LAUNCH_FOR(roll_unpool, (uint64_t)rows * c->side * c->side * c->outs, stream, columns,
	    above->columns, above->side, above->kernel, place, rows, c->side, c->pooled, c->out,
	    c->outs, full);
}

extern "C" void
fashion_cuda_relu(const struct fashion_cuda_dense *d, const fashion_cuda_bf16 *full, uint32_t rows,
    uint32_t ins, fashion_cuda_bf16 *to, cudaStream_t stream)
{
	LAUNCH_FOR(apply_relu, (uint64_t)rows * ins, stream, full, rows, d->out, d->outs, ins, to);
}

extern "C" void
fashion_cuda_relu_back(const struct fashion_cuda_dense *d, const fashion_cuda_bf16 *gradient,
    const fashion_cuda_bf16 *passed, uint32_t rows, uint32_t ins, fashion_cuda_bf16 *full,
    cudaStream_t stream)
{
	LAUNCH_FOR(relu_back, (uint64_t)rows * d->outs, stream, gradient, passed, rows, d->out,
	    d->outs, ins, full);
}

extern "C" void
fashion_cuda_judge(const float *logits, const uint8_t *labels, const uint32_t *images,
    uint32_t rows, float scale, fashion_cuda_bf16 *gradient, float *parts,
    struct fashion_cuda_state *state, int adds, cudaStream_t stream)
{
	LAUNCH(judge_rows, adds ? 1u : FASHION_CUDA_PARTS, BLOCK, stream, logits, labels, images,
	    rows, scale, gradient, parts, state, adds);
}

extern "C" void
fashion_cuda_step(const struct fashion_cuda_update *u, struct fashion_cuda_state *state,
    cudaStream_t stream)
{
	unsigned grid = count_blocks(u->count, BLOCK);

	LAUNCH(update_step, grid < 2048u ? grid : 2048u, BLOCK, stream, *u, state);
}

extern "C" void
fashion_cuda_narrow(const float *from, fashion_cuda_bf16 *to, uint64_t count, cudaStream_t stream)
{
	unsigned grid = count_blocks(count, BLOCK);

	LAUNCH(narrow_all, grid < 2048u ? grid : 2048u, BLOCK, stream, from, to, count);
}
