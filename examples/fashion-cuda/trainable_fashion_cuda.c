/* trainable_fashion_cuda.c - Fashion-MNIST on GPUs: the network of fashion_cnn, and a wider one
 * that gains from a gang.
 *
 * The images are on the GPU, and all memory is one piece taken when the trial opens. Order, masks
 * and start are those of fashion_cnn, and a batch is one whatever the gang: the curves are the same
 * but for the rounding to bf16.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "fashion_cuda_trial.h"

static const struct espl_option options[] = { FASHION_OPTIONS,
	{ .name = "network",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "cnn",
	    .choices = "cnn|mlp",
	    .help = "network; cnn: that of fashion_cnn; mlp: `depth` dense layers of `width`, "
		    "large enough for several GPUs" },
	{ .name = "products",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "auto",
	    .choices = "auto|cublaslt|own",
	    .help = "implementation of matrix products; auto: cuBLASLt if its library is found" },
	{ .name = "graph",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "step",
	    .choices = "step|parts|none",
	    .help = "run a step, including the sum over the gang, as one CUDA graph, or as two "
		    "with the sum in between; none: kernel by kernel" } };
enum { NETWORK = FASHION_OPTION_COUNT, PRODUCTS, GRAPH };

static espl_status
fashion_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct fashion_cuda *f = calloc(1, sizeof *f);

	(void)host;
	if (f == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	fashion_init(&f->common, config->values);
	f->network = (int)config->values[NETWORK].as.i;
	f->products = (int)config->values[PRODUCTS].as.i;
	f->graph = (int)config->values[GRAPH].as.i;
	*self = f;
	return ESPL_OK;
}

static void
fashion_destroy(void *self)
{
	struct fashion_cuda *f = self;

	if (f == NULL)
		return;
	fashion_data_free(f->common.data);
	free(f);
}

/* ---- settings ------------------------------------------------------------------------------ */

enum { WIDTH = FASHION_KNOBS, HIDDEN, DROPOUT, DEPTH, KNOBS };

static espl_status
read_settings(struct fashion_cuda_trial *t, struct espl_error *error)
{
	const int cnn = t->fashion->network == FASHION_CUDA_CNN;
	struct fashion_knob knobs[KNOBS] = { [FASHION_RATE] = { "learning_rate", NAN, 1e-9, 10, 0 },
		[FASHION_MOMENTUM] = { "momentum", 0.9, 0, 0.9999, 0 },
		[FASHION_BATCH] = { "batch_size", cnn ? 64 : 8192, FASHION_SHARDS,
		    cnn ? 8192 : 59000, 1 },
		[WIDTH] = { "width", cnn ? 8 : 4096, 1, cnn ? 128 : 16384, 1 },
		[HIDDEN] = { cnn ? "hidden" : NULL, 0, 0, 4096, 1 },
		[DROPOUT] = { cnn ? "dropout" : NULL, 0, 0, 0.95, 0 },
		[DEPTH] = { cnn ? NULL : "depth", 3, 1, FASHION_CUDA_DENSE - 1, 1 } };
	const struct fashion_told told = { "fashion_cuda",
		cnn ? "its cnn has learning_rate, momentum, width, hidden, dropout"
		    : "its mlp has learning_rate, momentum, width, depth",
		knobs, KNOBS };
	espl_status st =
	    fashion_course_read(&t->course, &t->fashion->common, t->context, &told, error);

	if (st != ESPL_OK)
		return st;
	if (cnn) {
		fashion_net_shape(&t->as, (uint32_t)knobs[WIDTH].value,
		    (uint32_t)knobs[HIDDEN].value, (float)knobs[DROPOUT].value);
		fashion_cuda_net_cnn(&t->net, &t->as);
	} else {
		fashion_cuda_net_mlp(&t->net, (uint32_t)knobs[WIDTH].value,
		    (uint32_t)knobs[DEPTH].value);
	}
	return ESPL_OK;
}

/* ---- opening and closing --------------------------------------------------------------- */

static void
fashion_close(void *trial)
{
	struct fashion_cuda_trial *t = trial;

	if (t == NULL)
		return;
	fashion_cuda_drop_graphs(t);
	if (t->engine != NULL) {
		fashion_cuda_task_free(t->engine, &t->learn);
		fashion_cuda_task_free(t->engine, &t->check);
	}
	fashion_cuda_engine_free(t->engine);
	fashion_cuda_work_free(t->work);
	for (int i = 0; i < 2; i++) {
		if (t->marks[i] != NULL)
			(void)cudaEventDestroy(t->marks[i]);
		if (t->orders[i] != NULL)
			(void)cudaFreeHost(t->orders[i]);
	}
	if (t->rates_host != NULL)
		(void)cudaFreeHost(t->rates_host);
	if (t->pinned != NULL)
		(void)cudaFreeHost(t->pinned);
	if (t->arena.base != NULL)
		(void)cudaFree(t->arena.base);
	free(t);
}

/* Everything that steps will need; of a gang of any size. */
static void
place_arrays(struct fashion_cuda_trial *t)
{
	const struct fashion *f = &t->fashion->common;
	uint64_t bytes = t->net.count * sizeof(float), images = (uint64_t)f->train + f->validate;

	t->arena.bytes = 0;
	t->params = fashion_cuda_take(&t->arena, bytes);
	t->velocity = fashion_cuda_take(&t->arena, bytes);
	t->square = t->course.adam ? fashion_cuda_take(&t->arena, bytes) : NULL;
	t->states = fashion_cuda_take(&t->arena, 2 * sizeof *t->states);
	t->rates = fashion_cuda_take(&t->arena, t->course.batches * sizeof *t->rates);
	t->order = fashion_cuda_take(&t->arena, f->train * sizeof *t->order);
	t->labels = fashion_cuda_take(&t->arena, images);
	t->pixels = fashion_cuda_take(&t->arena, images * FASHION_PIXELS);
	t->workspace = fashion_cuda_take(&t->arena, FASHION_CUDA_WORKSPACE);
	fashion_cuda_work_place(t->work, &t->arena);
}

static espl_status
get_gpu_memory(struct fashion_cuda_trial *t, struct espl_error *error)
{
	const struct espl_device *device = t->context->device;
	size_t left = 0, all = 0;
	cudaError_t code;
	void *base = NULL;

	place_arrays(t);
	if (device->memory_limit > 0 && t->arena.bytes > device->memory_limit)
		return espl_fail(error, ESPL_E_LIMIT,
		    "the trial needs %llu MiB of GPU %u, but its share is %llu MiB",
		    (unsigned long long)(t->arena.bytes >> 20), device->ordinal,
		    (unsigned long long)(device->memory_limit >> 20));
	code = cudaMalloc(&base, t->arena.bytes);
	if (code == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &all) == cudaSuccess)
		return espl_fail(error, ESPL_E_NOMEM,
		    "the trial needs %llu MiB of GPU %u, but only %llu of %llu MiB are free",
		    (unsigned long long)(t->arena.bytes >> 20), device->ordinal,
		    (unsigned long long)(left >> 20), (unsigned long long)(all >> 20));
	if (code != cudaSuccess)
		return fashion_cuda_failed(t, code, "cudaMalloc", error);
	t->arena.base = base;
	place_arrays(t);
	code = cudaMemsetAsync(base, 0, t->arena.bytes, t->stream);
	return code == cudaSuccess ? ESPL_OK
				   : fashion_cuda_failed(t, code, "cudaMemsetAsync", error);
}

static espl_status
get_memory(struct fashion_cuda_trial *t, struct espl_error *error)
{
	cudaError_t code = cudaSetDevice((int)t->context->device->ordinal);
	uint32_t rows = t->course.batch > FASHION_CUDA_CHECK ? t->course.batch : FASHION_CUDA_CHECK;

	t->work = fashion_cuda_work_new(&t->net, rows);
	if (t->work == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (int i = 0; i < 2; i++) {
		if (code == cudaSuccess)
			code = cudaMallocHost((void **)&t->orders[i],
			    t->fashion->common.train * sizeof *t->order);
		if (code == cudaSuccess)
			code = cudaEventCreateWithFlags(&t->marks[i], cudaEventDisableTiming);
	}
	if (code == cudaSuccess)
		code =
		    cudaMallocHost((void **)&t->rates_host, t->course.batches * sizeof *t->rates);
	if (code == cudaSuccess)
		code = cudaMallocHost((void **)&t->pinned, sizeof *t->pinned);
	if (code != cudaSuccess)
		return fashion_cuda_failed(t, code, "allocating memory", error);
	return get_gpu_memory(t, error);
}

/* What this rank alone has queued is waited for without keeping the processor busy. */
static espl_status
finish_alone(struct fashion_cuda_trial *t, struct espl_error *error)
{
	const struct timespec moment = { 0, 50000 };
	cudaError_t code;

	while ((code = cudaStreamQuery(t->stream)) == cudaErrorNotReady)
		(void)nanosleep(&moment, NULL);
	return code == cudaSuccess ? ESPL_OK
				   : fashion_cuda_failed(t, code, "the work on its stream", error);
}

static espl_status
fill_arrays(struct fashion_cuda_trial *t, struct espl_error *error)
{
	const struct fashion_data *data = t->fashion->common.data;
	size_t images = (size_t)data->train + data->validate, bytes = t->net.count * sizeof(float);
	float *params = malloc(bytes), *theirs = NULL;
	espl_status status = ESPL_OK;
	cudaError_t code;

	if (t->fashion->network == FASHION_CUDA_CNN)
		theirs = malloc(t->as.count * sizeof *theirs);
	if (params == NULL || (theirs == NULL && t->fashion->network == FASHION_CUDA_CNN)) {
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	} else {
		if (theirs != NULL) {
			fashion_net_start(&t->as, t->context->seed, theirs);
			fashion_cuda_net_place(&t->net, &t->as, theirs, params);
		} else {
			fashion_cuda_net_start_mlp(&t->net, t->context->seed, params);
		}
		code = cudaMemcpyAsync(t->params, params, bytes, cudaMemcpyHostToDevice, t->stream);
		if (code == cudaSuccess)
			code = cudaMemcpyAsync(t->pixels, data->pixels, images * FASHION_PIXELS,
			    cudaMemcpyHostToDevice, t->stream);
		if (code == cudaSuccess)
			code = cudaMemcpyAsync(t->labels, data->labels, images,
			    cudaMemcpyHostToDevice, t->stream);
		status = code == cudaSuccess
		    ? finish_alone(t, error)
		    : fashion_cuda_failed(t, code, "cudaMemcpyAsync", error);
	}
	free(theirs);
	free(params);
	return status;
}

static espl_status
fashion_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	struct fashion_cuda *f = self;
	struct fashion_cuda_trial *t;
	espl_status st;

	if (context->device->kind != ESPL_CUDA || context->device->stream == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "fashion_cuda runs only on GPUs");
	st = fashion_load(&f->common, error);
	if (st != ESPL_OK)
		return st;
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	t->fashion = f;
	t->context = context;
	t->stream = context->device->stream;
	st = read_settings(t, error);
	if (st == ESPL_OK)
		st = get_memory(t, error);
	if (st == ESPL_OK)
		st = fashion_cuda_engine_new((enum fashion_cuda_engines)f->products, t->workspace,
		    t->stream, &t->engine, error);
	if (st == ESPL_OK)
		st = fill_arrays(t, error);
	if (st != ESPL_OK) {
		fashion_close(t);
		return st;
	}
	*trial = t;
	return ESPL_OK;
}

static espl_status
fashion_regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct fashion_cuda_trial *t = trial;

	(void)error;
	return fashion_name_regions(sink,
	    &(struct fashion_regions){ t->params, t->velocity, t->square,
		t->net.count * sizeof(float), ESPL_CUDA, &t->counters });
}

static espl_status
fashion_resize(void *trial, const struct espl_trial_context *context, struct espl_error *error)
{
	struct fashion_cuda_trial *t = trial;

	(void)error;
	t->context = context;
	fashion_cuda_drop_graphs(t);
	t->planned = 0;
	return ESPL_OK;
}

/* Every step begins with what the parameters are by then. */
static espl_status
fashion_resized(void *trial, struct espl_error *error)
{
	(void)trial;
	(void)error;
	return ESPL_OK;
}

static espl_status
fashion_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
    struct espl_error *error)
{
	struct fashion_cuda_trial *t = trial;
	const struct espl_comm *comm = t->context->comm;
	const struct fashion *f = &t->fashion->common;
	double checked[2];
	espl_status st = fashion_next(&t->counters, iteration, error);

	if (st == ESPL_OK)
		st = fashion_cuda_iterate(t, iteration, error);
	if (st != ESPL_OK)
		return st;
	checked[0] = t->pinned->results[1].loss;
	checked[1] = t->pinned->results[1].right;
	st = comm->reduce_host(comm, checked, 2, ESPL_SUM);
	if (st != ESPL_OK)
		return st;
	t->counters.iterations = iteration;
	t->counters.updates += t->course.batches;
	return fashion_report(sink, checked[1] / f->validate, checked[0] / f->validate,
	    t->pinned->results[0].loss / ((double)t->course.batches * t->course.batch));
}

static espl_status
fashion_suits(void *self, const struct espl_trial_context *context, struct espl_error *error)
{
	struct fashion_cuda_trial trial = { .context = context, .fashion = self };

	return read_settings(&trial, error);
}

static const struct espl_trainable_ops ops = { ESPL_TABLE(struct espl_trainable_ops),
	.open = fashion_open, .close = fashion_close, .step = fashion_step,
	.regions = fashion_regions, .resize = fashion_resize, .resized = fashion_resized,
	.suits = fashion_suits };

ESPL_PLUGIN(trainable, fashion_cuda) = { ESPL_HEAD(ESPL_TRAINABLE, "fashion_cuda"),
	.version = "0.1", .summary = "the network of fashion_cnn, or a wide one, on NVIDIA GPUs",
	.caps = ESPL_CAP_PURE | ESPL_CAP_EXAMPLE | ESPL_NEED_CUDA, ESPL_OPTIONS(options),
	.ops = &ops.head, .create = fashion_create, .destroy = fashion_destroy };
