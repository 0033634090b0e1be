/* fashion_cuda_trial.h - a trial of fashion_cuda: what opening makes and iterating uses. */
#ifndef FASHION_CUDA_TRIAL_H
#define FASHION_CUDA_TRIAL_H
#include "fashion_cuda.h"

#define FASHION_CUDA_CHECK 1024u /* images of a part of the validation, at most */

enum fashion_cuda_network { FASHION_CUDA_CNN, FASHION_CUDA_MLP };
enum fashion_cuda_graphs {
	FASHION_CUDA_STEP_GRAPH,
	FASHION_CUDA_PARTS_GRAPH,
	FASHION_CUDA_NO_GRAPH
};

/* the instance */
struct fashion_cuda {
	struct fashion common;
	int network, products, graph;
};

/* host memory that the GPU reads and writes */
struct fashion_cuda_pinned {
	struct fashion_cuda_state states[2], results[2];
};

struct fashion_cuda_trial {
	const struct fashion_cuda *fashion;
	const struct espl_trial_context *context;
	cudaStream_t stream;
	struct fashion_net as; /* cnn: fashion_cnn's own */
	struct fashion_cuda_net net;
	struct fashion_cuda_work *work;
	struct fashion_cuda_engine *engine;
	struct fashion_cuda_task learn, check;
	int planned; /* the tasks are those of this gang */
	uint32_t check_parts;
	cudaGraphExec_t graph, tail; /* tail: the update, if it is on its own */
	cudaEvent_t marks[2];
	struct fashion_course course;
	/* on the GPU, one piece */
	struct fashion_cuda_arena arena;
	uint8_t *pixels, *labels;
	uint32_t *order;                   /* of this iteration's images */
	float *rates;                      /* of its batches */
	struct fashion_cuda_state *states; /* of learning, of checking */
	void *workspace;
	/* on the host, pinned */
	struct fashion_cuda_pinned *pinned;
	uint32_t *orders[2]; /* of odd and even iterations: one is made ahead */
	uint64_t ordered[2]; /* the iteration whose order it is, 0: none's */
	float *rates_host;
	/* the regions */
	float *params, *velocity, *square;
	struct fashion_counters counters;
};

/* fashion_cuda_iterate.c: one pass over the images; its sums are in pinned->results when it is
 * over. */
espl_status fashion_cuda_iterate(struct fashion_cuda_trial *, uint64_t iteration,
    struct espl_error *);
void fashion_cuda_drop_graphs(struct fashion_cuda_trial *);
espl_status fashion_cuda_failed(const struct fashion_cuda_trial *, cudaError_t, const char *call,
    struct espl_error *);
#endif
