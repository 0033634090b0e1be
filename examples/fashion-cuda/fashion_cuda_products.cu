/* fashion_cuda_products.cu - matrix products of bf16 with sums in float, by the tensor cores, for
 * machines without cuBLASLt.
 *
 * A block of four warps makes 64 rows of the result, 16 or 64 columns wide; each warp 16 rows.
 * Where the result is small and the sums are long (the gradients of weights) several blocks share a
 * sum: their parts go to the workspace and are added in order.
 */
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>
#include "fashion_cuda.h"

#ifndef LAUNCH
#define LAUNCH(kernel_, grid_, block_, stream_, ...) \
	kernel_<<<(grid_), (block_), 0, (stream_)>>>(__VA_ARGS__)
#endif

#define WARPS 4u
#define ROWS 64u           /* of a block */
#define DEPTH 32u          /* of one step along the sum */
#define PITCH (DEPTH + 8u) /* fewer bank conflicts, still 16 bytes */
#define ENOUGH 264u        /* blocks that fill a large GPU twice */

typedef fashion_cuda_bf16 bf16;

/* Where element (i, k) of an operand is: at[i * along + k * across]; one of the two is 1. */
struct operand {
	const bf16 *at;
	uint64_t along, across;
	uint32_t count;
};

/* `size` x DEPTH elements from (from, k0) on, zeros beyond the ends; threads go along what lies in
 * order. */
static __device__ void
fetch_tile(const struct operand &o, uint32_t size, uint32_t from, uint32_t k0, uint32_t k_end,
    bf16 *to)
{
	for (uint32_t t = threadIdx.x; t < size * DEPTH; t += WARPS * 32u) {
		uint32_t i = o.across == 1u ? t / DEPTH : t % size;
		uint32_t k = o.across == 1u ? t % DEPTH : t / size;
		bf16 v = 0;

		if (from + i < o.count && k0 + k < k_end)
			v = o.at[(uint64_t)(from + i) * o.along + (uint64_t)(k0 + k) * o.across];
		to[i * PITCH + k] = v;
	}
}

template <unsigned N>
static __global__ void
multiply_tiles(struct operand a, struct operand b, uint32_t k_all, uint32_t k_part, void *c,
    int whole, int wide)
{
	using namespace nvcuda;
	__shared__ __align__(128) bf16 as[ROWS * PITCH];
	__shared__ __align__(128) bf16 bs[N * PITCH];
	__shared__ __align__(128) float cs[WARPS * 256u];
	uint32_t warp = threadIdx.x / 32u, lane = threadIdx.x % 32u;
	uint32_t m0 = blockIdx.x * ROWS, n0 = blockIdx.y * N;
	uint32_t k0 = blockIdx.z * k_part, k_end = k0 + k_part < k_all ? k0 + k_part : k_all;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[N / 16u];
	uint64_t shift = (uint64_t)blockIdx.z * a.count * b.count;

	for (unsigned j = 0; j < N / 16u; j++)
		wmma::fill_fragment(sum[j], 0.0f);
	for (uint32_t k = k0; k < k_end; k += DEPTH) {
		fetch_tile(a, ROWS, m0, k, k_end, as);
		fetch_tile(b, N, n0, k, k_end, bs);
		__syncthreads();
		for (uint32_t d = 0; d < DEPTH; d += 16u) {
			wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major>
			    fa;

			wmma::load_matrix_sync(fa,
			    (const __nv_bfloat16 *)(as + warp * 16u * PITCH + d), PITCH);
			for (unsigned j = 0; j < N / 16u; j++) {
				wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16,
				    wmma::col_major>
				    fb;

				wmma::load_matrix_sync(fb,
				    (const __nv_bfloat16 *)(bs + j * 16u * PITCH + d), PITCH);
				wmma::mma_sync(sum[j], fa, fb, sum[j]);
			}
		}
		__syncthreads();
	}
	for (unsigned j = 0; j < N / 16u; j++) {
		wmma::store_matrix_sync(cs + warp * 256u, sum[j], 16, wmma::mem_row_major);
		__syncwarp();
		for (uint32_t e = lane; e < 256u; e += 32u) {
			uint32_t m = m0 + warp * 16u + e / 16u, n = n0 + j * 16u + e % 16u;
			float v = cs[warp * 256u + e];

			if (m >= a.count || n >= b.count)
				continue;
			if (!whole || wide)
				((float *)c)[shift + (uint64_t)m * b.count + n] = v;
			else
				((bf16 *)c)[(uint64_t)m * b.count + n] =
				    __bfloat16_as_ushort(__float2bfloat16_rn(v));
		}
		__syncwarp();
	}
}

static __global__ void
add_parts(const float *parts, uint32_t count, uint64_t each, void *c, int wide)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0.0f;

	if (i >= each)
		return;
	for (uint32_t p = 0; p < count; p++)
		sum += parts[p * each + i];
	if (wide)
		((float *)c)[i] = sum;
	else
		((bf16 *)c)[i] = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
}

extern "C" void
fashion_cuda_own_product(const struct fashion_cuda_product *p, void *workspace, cudaStream_t stream)
{
	struct operand a = { p->a, p->k, 1u, p->m }, b = { p->b, p->k, 1u, p->n };
	uint64_t each = (uint64_t)p->m * p->n, room = FASHION_CUDA_WORKSPACE / sizeof(float) / each;
	uint32_t columns = p->n > 16u ? 64u : 16u, tiles, parts, part;

	if (p->way != FASHION_CUDA_NT) { /* b [k][n] */
		b.along = 1u;
		b.across = p->n;
	}
	if (p->way == FASHION_CUDA_TN) { /* a [k][m] */
		a.along = 1u;
		a.across = p->m;
	}
	tiles = (p->m + ROWS - 1u) / ROWS * ((p->n + columns - 1u) / columns);
	parts = tiles < ENOUGH ? ENOUGH / tiles : 1u;
	parts = parts < p->k / 256u ? parts : p->k / 256u;
	parts = parts < room ? parts : (uint32_t)room;
	parts = parts > 0 ? parts : 1u;
	part = ((p->k + parts - 1u) / parts + DEPTH - 1u) / DEPTH * DEPTH;
	parts = (p->k + part - 1u) / part;
	{
		dim3 grid((p->m + ROWS - 1u) / ROWS, (p->n + columns - 1u) / columns, parts);
		void *to = parts > 1u ? workspace : p->c;

		if (columns == 16u)
			LAUNCH(multiply_tiles<16>, grid, WARPS * 32u, stream, a, b, p->k, part, to,
			    parts == 1u, p->wide);
		else
			LAUNCH(multiply_tiles<64>, grid, WARPS * 32u, stream, a, b, p->k, part, to,
			    parts == 1u, p->wide);
	}
	if (parts > 1u)
		LAUNCH(add_parts, (unsigned)((each + 255u) / 256u), 256u, stream,
		    (const float *)workspace, parts, each, p->c, p->wide);
}
