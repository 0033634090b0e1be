/* fashion_cuda.h - the parts of the fashion_cuda trainable.
 *
 *   trainable_fashion_cuda.c  settings, memory, state: what the host asks for
 *   fashion_cuda_iterate.c    an iteration, alone or in a gang (with fashion_cuda_trial.h)
 *   fashion_cuda_net.c        the network's shape, and the order of the work of one step
 *   fashion_cuda_kernels.cu   what is no matrix product
 *   fashion_cuda_products.c   the matrix products: by cuBLASLt, or by
 *   fashion_cuda_products.cu  tensor core kernels of our own, where there is no cuBLASLt
 *
 * All matrices lie row by row.  A layer's weights are [out][in + 1]: the last column is the bias,
 * and its input has a column of ones, so that a product makes the bias's gradient, too.  Rows and
 * columns are filled up with zeros to multiples of 8, which is what the tensor cores want; they
 * stay zero.
 */
#ifndef FASHION_CUDA_H
#define FASHION_CUDA_H
#include <cuda_runtime_api.h>
#include <stdint.h>
#include "fashion.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t fashion_cuda_bf16; /* the upper half of a float */

#define FASHION_CUDA_PARTS 16u         /* sums of the loss that end a gradient */
#define FASHION_CUDA_LOGITS 16u        /* labels, filled up */
#define FASHION_CUDA_DENSE 10u         /* layers at most */
#define FASHION_CUDA_NOBODY UINT32_MAX /* in `images`: a row beyond the last image */

static inline uint32_t
fashion_cuda_up(uint32_t v)
{
	return (v + 7u) / 8u * 8u;
}

/* ---- shapes ------------------------------------------------------------------------------- */

/* square convolution, then the maximum of 2 x 2 */
struct fashion_cuda_conv {
	uint32_t in, out, outs; /* channels; outs: filled up */
	uint32_t in_side, kernel, side, pooled;
	uint32_t columns; /* in * kernel^2 + 1, filled up */
	uint64_t weights; /* offset into the parameters */
};
struct fashion_cuda_dense {
	uint32_t in, out, ins, outs; /* ins: in + 1, filled up */
	uint64_t weights;
};
struct fashion_cuda_net {
	uint32_t conv_count; /* 0 or 2 */
	uint32_t dense_count;
	struct fashion_cuda_conv conv[2];
	struct fashion_cuda_dense dense[FASHION_CUDA_DENSE];
	uint64_t count; /* of all parameters, a multiple of 128 */
	float dropout;  /* share of the second convolution's features */
};

/* ---- what is on the GPU -------------------------------------------------------------------- */

/* Written by the host before an iteration; a step counts itself, so that one graph does for all. */
struct fashion_cuda_state {
	uint64_t key;       /* of the dropout masks */
	uint32_t next, now; /* the batch to be begun; the one whose gradient is there */
	double loss, right; /* sums over the batches that are done */
};

/* which images a step takes */
struct fashion_cuda_source {
	const uint8_t *pixels, *labels;
	const uint32_t *order; /* NULL: as they lie */
	/* row r of batch b is number base + b * stride + r < limit */
	uint32_t base, stride, limit;
};

struct fashion_cuda_update {
	float *params, *velocity, *square;
	/* [count], then FASHION_CUDA_PARTS of loss and of right ones */
	const float *gradient;
	const float *rates;         /* of each batch; of adam: with its correction */
	fashion_cuda_bf16 *weights; /* what the products read */
	uint64_t count;
	float momentum;
	int adam;
};

/* A launch is a call that only queues its work: what fails is seen by cudaGetLastError. */
void fashion_cuda_unroll_image(const struct fashion_cuda_conv *, const struct fashion_cuda_source *,
    const struct fashion_cuda_state *, uint32_t rows, uint32_t *images, fashion_cuda_bf16 *columns,
    cudaStream_t);
void fashion_cuda_flat_image(uint32_t ins, const struct fashion_cuda_source *,
    const struct fashion_cuda_state *, uint32_t rows, uint32_t *images, fashion_cuda_bf16 *to,
    cudaStream_t);
void fashion_cuda_unroll(const struct fashion_cuda_conv *, const fashion_cuda_bf16 *input,
    uint32_t ins, uint32_t rows, fashion_cuda_bf16 *columns, cudaStream_t);
/* Maximum and ReLU; `place`: which of the four it was, 4 if ReLU let nothing pass. */
void fashion_cuda_pool(const struct fashion_cuda_conv *, const fashion_cuda_bf16 *full,
    uint32_t rows, fashion_cuda_bf16 *pooled, uint8_t *place, cudaStream_t);
/* The same into one row per image, with dropout if `state` is not NULL, and a one at its end. */
void fashion_cuda_pool_rows(const struct fashion_cuda_conv *, const fashion_cuda_bf16 *full,
    uint32_t rows, float dropout, const struct fashion_cuda_state *, const uint32_t *images,
    uint32_t ins, fashion_cuda_bf16 *features, uint8_t *place, cudaStream_t);
void fashion_cuda_unpool_rows(const struct fashion_cuda_conv *, const fashion_cuda_bf16 *gradient,
    uint32_t ins, const uint8_t *place, uint32_t rows, float dropout,
    const struct fashion_cuda_state *, const uint32_t *images, fashion_cuda_bf16 *full,
    cudaStream_t);
/* From the unrolled gradient of the convolution `above` to that of this one before pooling. */
void fashion_cuda_roll_unpool(const struct fashion_cuda_conv *,
    const struct fashion_cuda_conv *above, const fashion_cuda_bf16 *columns, const uint8_t *place,
    uint32_t rows, fashion_cuda_bf16 *full, cudaStream_t);
void fashion_cuda_relu(const struct fashion_cuda_dense *, const fashion_cuda_bf16 *full,
    uint32_t rows, uint32_t ins, fashion_cuda_bf16 *to, cudaStream_t);
void fashion_cuda_relu_back(const struct fashion_cuda_dense *, const fashion_cuda_bf16 *gradient,
    const fashion_cuda_bf16 *passed, uint32_t rows, uint32_t ins, fashion_cuda_bf16 *full,
    cudaStream_t);
/* Softmax and cross entropy.  The logits' gradient times `scale`, the sums of this step to `parts`;
 * counts the batch.  adds: there is no gradient to be made, the sums go to the state at once. */
void fashion_cuda_judge(const float *logits, const uint8_t *labels, const uint32_t *images,
    uint32_t rows, float scale, fashion_cuda_bf16 *gradient, float *parts,
    struct fashion_cuda_state *, int adds, cudaStream_t);
void fashion_cuda_step(const struct fashion_cuda_update *, struct fashion_cuda_state *,
    cudaStream_t);
void fashion_cuda_narrow(const float *from, fashion_cuda_bf16 *to, uint64_t count, cudaStream_t);

/* ---- matrix products ------------------------------------------------------------------------ */

/* c is [m][n], each row of `columns` elements */
enum fashion_cuda_way {
	FASHION_CUDA_NT, /* a [m][k] times b [n][k] transposed: a layer's output */
	FASHION_CUDA_NN, /* a [m][k] times b [k][n]: its input's gradient */
	FASHION_CUDA_TN  /* a [k][m] transposed times b [k][n]: its weights' */
};
struct fashion_cuda_product {
	enum fashion_cuda_way way;
	uint32_t m, n, k;
	const fashion_cuda_bf16 *a, *b;
	void *c;
	int wide;   /* c is float, else bf16 */
	void *plan; /* the engine's, NULL before it has been made */
};
struct fashion_cuda_engine;
enum fashion_cuda_engines { FASHION_CUDA_AUTO, FASHION_CUDA_CUBLASLT, FASHION_CUDA_OWN };

#define FASHION_CUDA_WORKSPACE ((size_t)32 << 20)

/* auto: cuBLASLt if its library is there, which is told on standard error if it is not. */
espl_status fashion_cuda_engine_new(enum fashion_cuda_engines, void *workspace, cudaStream_t,
    struct fashion_cuda_engine **, struct espl_error *);
void fashion_cuda_engine_free(struct fashion_cuda_engine *);
/* Not while a graph is captured. */
espl_status fashion_cuda_product_plan(struct fashion_cuda_engine *, struct fashion_cuda_product *,
    struct espl_error *);
espl_status fashion_cuda_product_run(struct fashion_cuda_engine *,
    const struct fashion_cuda_product *, struct espl_error *);
void fashion_cuda_product_free(struct fashion_cuda_engine *, struct fashion_cuda_product *);
/* fashion_cuda_products.cu */
void fashion_cuda_own_product(const struct fashion_cuda_product *, void *workspace, cudaStream_t);

/* ---- fashion_cuda_net.c ---------------------------------------------------------------------- */

struct fashion_cuda_work; /* the memory of a step */
/* a step, or a part of the validation */
struct fashion_cuda_task {
	struct fashion_cuda_source source;
	struct fashion_cuda_state *state;
	uint32_t rows; /* of this rank, may be 0 */
	float scale;   /* of the gradient */
	int learns;    /* 0: forward alone */
	/* by what for, and layer */
	struct fashion_cuda_product products[3][FASHION_CUDA_DENSE + 2];
};

/* The network of fashion_cnn. */
void fashion_cuda_net_cnn(struct fashion_cuda_net *, const struct fashion_net *);
/* `depth` layers of `width` with ReLU, and the output. */
void fashion_cuda_net_mlp(struct fashion_cuda_net *, uint32_t width, uint32_t depth);
/* The parameters that the network of fashion_cnn has, in their places here, and back. */
void fashion_cuda_net_place(const struct fashion_cuda_net *, const struct fashion_net *,
    const float *from, float *to);
void fashion_cuda_net_unplace(const struct fashion_cuda_net *, const struct fashion_net *,
    const float *from, float *to);
void fashion_cuda_net_start_mlp(const struct fashion_cuda_net *, uint64_t seed, float *params);

/* All memory of a trial on the GPU is one piece.  base NULL: it is only counted how much that is.
 */
struct fashion_cuda_arena {
	char *base;
	uint64_t bytes;
};
void *fashion_cuda_take(struct fashion_cuda_arena *, uint64_t bytes);
struct fashion_cuda_work *fashion_cuda_work_new(const struct fashion_cuda_net *, uint32_t rows_max);
void fashion_cuda_work_place(struct fashion_cuda_work *, struct fashion_cuda_arena *);
void fashion_cuda_work_free(struct fashion_cuda_work *);
fashion_cuda_bf16 *fashion_cuda_work_weights(struct fashion_cuda_work *);
float *fashion_cuda_work_gradient(struct fashion_cuda_work *);
void fashion_cuda_task_free(struct fashion_cuda_engine *, struct fashion_cuda_task *);
espl_status fashion_cuda_task_plan(struct fashion_cuda_work *, struct fashion_cuda_engine *,
    struct fashion_cuda_task *, struct espl_error *);
/* Queues forward, judgement and, if it learns, backward: the gradient is there when that is done.
 */
espl_status fashion_cuda_task_run(struct fashion_cuda_work *, struct fashion_cuda_engine *,
    const struct fashion_cuda_task *, cudaStream_t, struct espl_error *);
#ifdef __cplusplus
}
#endif
#endif
