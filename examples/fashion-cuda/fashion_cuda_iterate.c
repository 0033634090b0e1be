/* fashion_cuda_iterate.c - an iteration of fashion_cuda: a graph of CUDA's, begun once for each
 * batch, which counts the batches itself; nothing is waited for before the iteration is over.
 *
 * NCCL gives up no communicator that a graph still refers to, neither by finalising nor by aborting
 * it.  So a gang captures its graph anew in each iteration, and lets go of it before it waits for
 * the stream.
 */
#include <string.h>
#include <time.h>
#include "fashion_cuda_trial.h"

#define AHEAD 64u               /* steps of a trial on one GPU queued before looking again */
#define BUSY INT64_C(100000)    /* ns of waiting without sleeping */
#define SLOW INT64_C(500000000) /* ns after which a gang is asked whether it is whole */

espl_status
fashion_cuda_failed(const struct fashion_cuda_trial *t, cudaError_t code, const char *call,
    struct espl_error *error)
{
	return espl_fail(error, code == cudaErrorMemoryAllocation ? ESPL_E_NOMEM : ESPL_E_REMOTE,
	    "rank %u, GPU %u: %s: %s", t->context->comm->rank, t->context->device->ordinal, call,
	    cudaGetErrorString(code));
}

void
fashion_cuda_drop_graphs(struct fashion_cuda_trial *t)
{
	if (t->graph != NULL)
		/* one that runs still is freed when it is done */
		(void)cudaGraphExecDestroy(t->graph);
	if (t->tail != NULL)
		(void)cudaGraphExecDestroy(t->tail);
	t->graph = t->tail = NULL;
}

/* ---- a gang's shares ---------------------------------------------------------------------- */

/* The work of a step and of a part of the validation, and who multiplies what in it. */
static espl_status
plan_tasks(struct fashion_cuda_trial *t, struct espl_error *error)
{
	const struct fashion *f = &t->fashion->common;
	const struct espl_comm *comm = t->context->comm;
	struct fashion_cuda_task *learn = &t->learn, *check = &t->check;
	uint32_t first, mine;
	espl_status status;

	fashion_cuda_task_free(t->engine, learn);
	fashion_cuda_task_free(t->engine, check);
	mine = fashion_share(comm, t->course.batch, &first);
	*learn = (struct fashion_cuda_task){ .source = { t->pixels, t->labels, t->order, first,
						 t->course.batch, f->train },
		.state = &t->states[0],
		.rows = mine,
		.scale = 1.0f / (float)t->course.batch,
		.learns = 1 };
	mine = fashion_share(comm, f->validate, &first);
	*check =
	    (struct fashion_cuda_task){ .source = { t->pixels, t->labels, NULL, f->train + first,
					    mine < FASHION_CUDA_CHECK ? mine : FASHION_CUDA_CHECK,
					    f->train + first + mine },
		    .state = &t->states[1],
		    .rows = mine < FASHION_CUDA_CHECK ? mine : FASHION_CUDA_CHECK };
	t->check_parts = (mine + FASHION_CUDA_CHECK - 1u) / FASHION_CUDA_CHECK;
	status = fashion_cuda_task_plan(t->work, t->engine, learn, error);
	if (status == ESPL_OK)
		status = fashion_cuda_task_plan(t->work, t->engine, check, error);
	/* What cuBLASLt loads when it multiplies first, and the connections that the first sum of a
	 * communicator makes, are none of a graph's.  Of what this computes nothing is used. */
	if (status == ESPL_OK)
		status = fashion_cuda_task_run(t->work, t->engine, learn, t->stream, error);
	if (status == ESPL_OK && comm->world > 1)
		status = comm->allreduce(comm, fashion_cuda_work_gradient(t->work),
		    fashion_cuda_work_gradient(t->work), t->net.count + 2u * FASHION_CUDA_PARTS,
		    ESPL_F32, ESPL_SUM);
	t->planned = status == ESPL_OK;
	return status;
}

/* ---- graphs ------------------------------------------------------------------------------- */

static espl_status
sum_gradient(struct fashion_cuda_trial *t)
{
	const struct espl_comm *comm = t->context->comm;
	float *gradient = fashion_cuda_work_gradient(t->work);

	return comm->allreduce(comm, gradient, gradient, t->net.count + 2u * FASHION_CUDA_PARTS,
	    ESPL_F32, ESPL_SUM);
}

static void
update_params(struct fashion_cuda_trial *t)
{
	const struct fashion_cuda_update u = { t->params, t->velocity, t->square,
		fashion_cuda_work_gradient(t->work), t->rates, fashion_cuda_work_weights(t->work),
		t->net.count, t->course.momentum, t->course.adam };

	fashion_cuda_step(&u, &t->states[0], t->stream);
}

enum { LEARN = 1, SUM = 2, UPDATE = 4 };

static espl_status
capture_graph(struct fashion_cuda_trial *t, int what, cudaGraphExec_t *to, struct espl_error *error)
{
	cudaGraph_t graph = NULL;
	espl_status status = ESPL_OK;
	/* NCCL works in a thread of its own: the capture is not to mind what that does. */
	cudaError_t code = cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeRelaxed);

	if (code != cudaSuccess)
		return fashion_cuda_failed(t, code, "cudaStreamBeginCapture", error);
	if (what & LEARN)
		status = fashion_cuda_task_run(t->work, t->engine, &t->learn, t->stream, error);
	if (status == ESPL_OK && (what & SUM))
		status = sum_gradient(t);
	if (status == ESPL_OK && (what & UPDATE))
		update_params(t);
	code = cudaStreamEndCapture(t->stream, &graph); /* ends it after a failure, too */
	if (status == ESPL_OK && code == cudaSuccess)
		code = cudaGraphInstantiate(to, graph, 0);
	if (graph != NULL)
		(void)cudaGraphDestroy(graph);
	return status != ESPL_OK ? status
	    : code == cudaSuccess
	    ? ESPL_OK
	    : fashion_cuda_failed(t, code, "creating a graph of a step", error);
}

static int
in_parts(const struct fashion_cuda_trial *t)
{
	return t->fashion->graph == FASHION_CUDA_PARTS_GRAPH && t->context->comm->world > 1;
}

static espl_status
capture_step(struct fashion_cuda_trial *t, struct espl_error *error)
{
	espl_status status;

	if (t->graph != NULL || t->fashion->graph == FASHION_CUDA_NO_GRAPH)
		return ESPL_OK;
	if (!in_parts(t))
		return capture_graph(t, LEARN | SUM | UPDATE, &t->graph, error);
	status = capture_graph(t, LEARN, &t->graph, error);
	return status == ESPL_OK ? capture_graph(t, UPDATE, &t->tail, error) : status;
}

/* NCCL's hold on a graph ends with the graph. */
static void
let_go(struct fashion_cuda_trial *t)
{
	if (t->context->comm->world > 1 && !in_parts(t))
		fashion_cuda_drop_graphs(t);
}

/* ---- an iteration ----------------------------------------------------------------------- */

static void
shuffle_order(struct fashion_cuda_trial *t, uint64_t iteration)
{
	if (t->ordered[iteration % 2] == iteration)
		return;
	fashion_order(t->context->seed, iteration, t->orders[iteration % 2],
	    t->fashion->common.train);
	t->ordered[iteration % 2] = iteration;
}

/* Order, rates and state of this iteration to the GPU. */
static espl_status
begin_iteration(struct fashion_cuda_trial *t, uint64_t iteration, struct espl_error *error)
{
	struct fashion_cuda_pinned *p = t->pinned;
	cudaError_t code;

	shuffle_order(t, iteration);
	for (uint32_t b = 0; b < t->course.batches; b++)
		t->rates_host[b] = fashion_rate(&t->course, (double)t->context->iterations_max,
		    iteration, b, t->counters.updates + b + 1u);
	memset(p, 0, sizeof *p);
	p->states[0].key = fashion_mask_key(t->context->seed, iteration);
	code = cudaMemcpyAsync(t->order, t->orders[iteration % 2],
	    t->fashion->common.train * sizeof *t->order, cudaMemcpyHostToDevice, t->stream);
	if (code == cudaSuccess)
		code = cudaMemcpyAsync(t->rates, t->rates_host,
		    t->course.batches * sizeof *t->rates, cudaMemcpyHostToDevice, t->stream);
	if (code == cudaSuccess)
		code = cudaMemcpyAsync(t->states, p->states, sizeof p->states,
		    cudaMemcpyHostToDevice, t->stream);
	fashion_cuda_narrow(t->params, fashion_cuda_work_weights(t->work), t->net.count, t->stream);
	if (code == cudaSuccess)
		code = cudaGetLastError();
	return code == cudaSuccess ? ESPL_OK
				   : fashion_cuda_failed(t, code, "starting an iteration", error);
}

static int64_t
read_clock(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits until the GPU has passed this mark.  A gang has one step at a time on the GPU: the driver
 * blocks in cudaGraphLaunch while an earlier launch of that graph runs, and if a rank was lost that
 * launch never ends. */
static espl_status
catch_up(struct fashion_cuda_trial *t, cudaEvent_t mark, struct espl_error *error)
{
	const struct espl_comm *comm = t->context->comm;
	const struct timespec moment = { 0, 20000 };
	int64_t from = read_clock();
	cudaError_t code;
	espl_status status;

	while ((code = cudaEventQuery(mark)) == cudaErrorNotReady &&
	    (comm->world == 1 || read_clock() - from < SLOW))
		if (read_clock() - from > BUSY)
			(void)nanosleep(&moment, NULL);
	if (code == cudaSuccess)
		return ESPL_OK;
	if (code != cudaErrorNotReady)
		return fashion_cuda_failed(t, code, "the work on its stream", error);
	let_go(t);
	status = comm->wait(comm);
	return status == ESPL_OK ? capture_step(t, error) : status;
}

/* Each kernel by a call of its own. */
static espl_status
launch_kernels(struct fashion_cuda_trial *t, struct espl_error *error)
{
	espl_status status = fashion_cuda_task_run(t->work, t->engine, &t->learn, t->stream, error);
	cudaError_t code;

	if (status == ESPL_OK)
		status = sum_gradient(t);
	if (status != ESPL_OK)
		return status;
	update_params(t);
	code = cudaGetLastError();
	return code == cudaSuccess ? ESPL_OK : fashion_cuda_failed(t, code, "a step", error);
}

static espl_status
launch_graph(struct fashion_cuda_trial *t, struct espl_error *error)
{
	cudaError_t code = cudaGraphLaunch(t->graph, t->stream);
	espl_status status = ESPL_OK;

	if (code == cudaSuccess && t->tail != NULL) {
		status = sum_gradient(t);
		if (status == ESPL_OK)
			code = cudaGraphLaunch(t->tail, t->stream);
	}
	return status != ESPL_OK  ? status
	    : code == cudaSuccess ? ESPL_OK
				  : fashion_cuda_failed(t, code, "cudaGraphLaunch", error);
}

static espl_status
learn_batches(struct fashion_cuda_trial *t, struct espl_error *error)
{
	const int gang = t->context->comm->world > 1;
	espl_status status = capture_step(t, error);

	for (uint32_t b = 0; b < t->course.batches && status == ESPL_OK; b++) {
		cudaEvent_t mark = t->marks[gang ? 0 : b / AHEAD % 2];

		if (gang ? b > 0 : b >= 2 * AHEAD && b % AHEAD == 0)
			status = catch_up(t, mark, error);
		if (status == ESPL_OK)
			status =
			    t->graph != NULL ? launch_graph(t, error) : launch_kernels(t, error);
		if (status == ESPL_OK && (gang || b % AHEAD == 0)) {
			cudaError_t code = cudaEventRecord(mark, t->stream);

			if (code != cudaSuccess)
				status = fashion_cuda_failed(t, code, "cudaEventRecord", error);
		}
	}
	return status;
}

/* Queues the validation, and what brings the sums to the host. */
static espl_status
check_validation(struct fashion_cuda_trial *t, struct espl_error *error)
{
	espl_status status = ESPL_OK;
	cudaError_t code;

	for (uint32_t i = 0; i < t->check_parts && status == ESPL_OK; i++)
		status = fashion_cuda_task_run(t->work, t->engine, &t->check, t->stream, error);
	if (status != ESPL_OK)
		return status;
	code = cudaMemcpyAsync(t->pinned->results, t->states, sizeof t->pinned->results,
	    cudaMemcpyDeviceToHost, t->stream);
	return code == cudaSuccess ? ESPL_OK
				   : fashion_cuda_failed(t, code, "cudaMemcpyAsync", error);
}

espl_status
fashion_cuda_iterate(struct fashion_cuda_trial *t, uint64_t iteration, struct espl_error *error)
{
	const struct espl_comm *comm = t->context->comm;
	espl_status status = t->planned ? ESPL_OK : plan_tasks(t, error);

	if (status == ESPL_OK)
		status = begin_iteration(t, iteration, error);
	if (status == ESPL_OK)
		status = learn_batches(t, error);
	if (status == ESPL_OK)
		status = check_validation(t, error);
	if (status == ESPL_OK)
		shuffle_order(t, iteration + 1); /* while the GPU is busy */
	let_go(t);
	return status == ESPL_OK ? comm->wait(comm) : status;
}
