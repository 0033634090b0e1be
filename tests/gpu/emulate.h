/* emulate.h - CUDA kernels, and the few calls of its runtime that fashion_cuda makes, on a CPU, so
 * that its arithmetic is tested on machines without a GPU.
 *
 * Included before a .cu file that is compiled as plain C++. The threads of a block run one after
 * another; in a kernel with barriers each has its own stack and is suspended at the barrier.
 */
#ifndef EMULATE_H
#define EMULATE_H
#include <cuda_runtime.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

/* A launch: captured in a graph if one is being captured, otherwise executed when the stream is
 * queried. */
void emulate_queue(const std::function<void()> &work);
void emulate_queue_again(const std::function<bool()> &work); /* called until it is true */
unsigned emulate_capture(void); /* number of the graph that is being captured, 0 none */
bool emulate_launchable(dim3 grid, dim3 block); /* else cudaGetLastError tells */
void emulate_grid(dim3 grid, dim3 block, bool barriers, const std::function<void()> &thread);
void emulate_barrier(void);

extern uint3 emulate_thread, emulate_block_index;
extern dim3 emulate_block, emulate_grid_size;
#define threadIdx emulate_thread
#define blockIdx emulate_block_index
#define blockDim emulate_block
#define gridDim emulate_grid_size

#undef __shared__
#define __shared__ static /* blocks run one after another */
#define __syncthreads emulate_barrier
#define __syncwarp emulate_barrier /* all warps of a block make the same ones */

static inline float
__uint_as_float(unsigned v)
{
	float f;

	memcpy(&f, &v, sizeof f);
	return f;
}
using std::isfinite;
using std::isnan;

/* Those with barriers are known by name. */
static inline bool
emulate_waits(const char *kernel)
{
	return strcmp(kernel, "judge_rows") == 0 || strncmp(kernel, "multiply_tiles", 14) == 0;
}

template <class K, class... A>
static void
emulate_launch(const char *name, K kernel, dim3 grid, dim3 block, A... arguments)
{
	bool waits = emulate_waits(name);

	if (emulate_launchable(grid, block))
		emulate_queue(
		    [=]() { emulate_grid(grid, block, waits, [=]() { kernel(arguments...); }); });
}
#define LAUNCH(kernel_, grid_, block_, stream_, ...) \
	((void)(stream_), emulate_launch(#kernel_, kernel_, dim3(grid_), dim3(block_), __VA_ARGS__))

/* The tensor cores: the first lane of a warp holds all of a tile. */
namespace nvcuda
{
namespace wmma
{
struct matrix_a {
};
struct matrix_b {
};
struct accumulator {
};
struct row_major {
};
struct col_major {
};
enum layout_t { mem_row_major, mem_col_major };
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
	float v[16][16];
};
static inline bool
first_lane(void)
{
	return threadIdx.x % 32u == 0;
}
/* A tile is loaded from and stored to memory aligned to 32 bytes, with rows aligned to 16. */
static inline void
aligned(const void *at, size_t pitch)
{
	if ((size_t)at % 32u != 0 || pitch % 16u != 0)
		abort();
}

template <class F>
static inline void
fill_fragment(F &f, float value)
{
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++)
			f.v[i][j] = value;
}
template <class T>
static inline void
load_matrix_sync(fragment<matrix_a, 16, 16, 16, T, row_major> &f, const T *from, unsigned pitch)
{
	aligned(from, pitch * sizeof *from);
	for (unsigned i = 0; first_lane() && i < 16; i++)
		for (unsigned k = 0; k < 16; k++)
			f.v[i][k] = (float)from[i * pitch + k];
}
template <class T>
static inline void
load_matrix_sync(fragment<matrix_b, 16, 16, 16, T, col_major> &f, const T *from, unsigned pitch)
{
	aligned(from, pitch * sizeof *from);
	for (unsigned n = 0; first_lane() && n < 16; n++)
		for (unsigned k = 0; k < 16; k++)
			f.v[k][n] = (float)from[n * pitch + k];
}
template <class D, class A, class B>
static inline void
mma_sync(D &d, const A &a, const B &b, const D &c)
{
	for (int i = 0; first_lane() && i < 16; i++)
		for (int j = 0; j < 16; j++) {
			float sum = c.v[i][j];

			for (int k = 0; k < 16; k++)
				sum += a.v[i][k] * b.v[k][j];
			d.v[i][j] = sum;
		}
}
template <class F>
static inline void
store_matrix_sync(float *to, const F &f, unsigned pitch, layout_t)
{
	aligned(to, pitch * sizeof *to);
	for (unsigned i = 0; first_lane() && i < 16; i++)
		for (unsigned j = 0; j < 16; j++)
			to[i * pitch + j] = f.v[i][j];
}
} // namespace wmma
} // namespace nvcuda
#endif
