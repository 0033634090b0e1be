/* reference.c - does fashion_cuda compute what fashion_cnn does?  And how fast?
 *
 *     reference [--data FOLDER] [--train N] [--iterations N] [--products ENGINE]
 *               [--graph step|none] [--bench SECONDS [--repeat N] [--batch N]]
 *
 * Compares the loss and gradient of a batch with the CPU's, for networks of all shapes; the curve
 * of a trial with fashion_cnn's; and a trial that is restored from its state with one that was not
 * interrupted.  Prints TAP, then with --bench one JSON object a line.  Without a GPU the same
 * program runs with emulated kernels.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "fashion_cuda_trial.h"
#include "rig.h"

extern const struct espl_plugin trainable_fashion_cuda_LTX_espalier_plugin;
extern const struct espl_plugin trainable_fashion_cnn_LTX_espalier_plugin;

static struct arguments {
	const char *data;
	uint32_t train, iterations;
	double bench;
	uint32_t repeat, batch; /* batch 0: all */
	int products, graph;
} given = { "/usr/share/datasets/fashion-mnist", 8000, 3, 0, 1, 0, FASHION_CUDA_AUTO,
	FASHION_CUDA_STEP_GRAPH };

static struct rig rig;
static int number, failures;

static void __attribute__((format(printf, 2, 3))) check(int good, const char *format, ...)
{
	va_list list;

	printf("%sok %d - ", good ? "" : "not ", ++number);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf("\n");
	failures += !good;
}

static void __attribute__((noreturn)) stop(const char *what, const struct espl_error *error)
{
	printf("Bail out! %s: %s\n", what,
	    error != NULL && error->text[0] != '\0' ? error->text : "failed");
	exit(1);
}

static double
now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one batch ---------------------------------------------------------------------------- */

/* the loss and gradient of a batch of `images`: by the GPU, and by the CPU */
struct batch {
	uint32_t images;
	uint64_t count; /* of parameters, as the CPU has them */
	float *gradient, *wanted;
	double loss, wanted_loss, right, wanted_right;
};

static double
distance(const struct batch *b)
{
	double off = 0, all = 0;

	for (uint64_t i = 0; i < b->count; i++) {
		double d = (double)b->gradient[i] - (double)b->wanted[i];

		off += d * d;
		all += (double)b->wanted[i] * (double)b->wanted[i];
	}
	return sqrt(off / all);
}

/* Where a value near zero is rounded to the other side of ReLU's kink, its gradient appears or
 * disappears as a whole. That causes most of the difference in networks with dense hidden layers,
 * not rounding itself.
 */
static void
judge(const struct batch *b, int bends, const char *name)
{
	double off = distance(b), loss = fabs(b->loss - b->wanted_loss) / b->wanted_loss;

	check(off < (bends ? 0.1 : 0.02),
	    "%s: the gradient is the CPU's but for %.4f of its length", name, off);
	check(loss < 0.01, "%s: a loss of %.5f, the CPU says %.5f", name, b->loss / b->images,
	    b->wanted_loss / b->images);
	check(fabs(b->right - b->wanted_right) <= 0.03 * b->images + 1,
	    "%s: %g right answers, the CPU has %g", name, b->right, b->wanted_right);
}

#define KEY UINT64_C(0x1234567) /* of the masks */

/* A rank's share of a step of this network on the GPU, without an update; `params` and `gradient`
 * in the GPU's layout. */
static void
gpu_batch(const struct fashion_cuda_net *net, const struct fashion_data *data, const float *params,
    struct batch *b, uint32_t first, uint32_t rows, float *gradient)
{
	struct fashion_cuda_arena arena = { NULL, 0 };
	struct fashion_cuda_work *work = fashion_cuda_work_new(net, rows > 0 ? rows : 1);
	struct fashion_cuda_engine *engine;
	struct fashion_cuda_state state = { .key = KEY }, *states;
	struct fashion_cuda_task task;
	struct espl_error error = ESPL_INIT(struct espl_error);
	cudaStream_t stream = rig.device.stream;
	float parts[2 * FASHION_CUDA_PARTS];
	uint64_t images = (uint64_t)data->train + data->validate;
	uint8_t *pixels, *labels;
	void *base, *workspace;

	for (int twice = 0; twice < 2; twice++) {
		if (twice && cudaMalloc(&base, arena.bytes) != cudaSuccess)
			stop("memory on the GPU", NULL);
		arena = (struct fashion_cuda_arena){ twice ? base : NULL, 0 };
		states = fashion_cuda_take(&arena, sizeof *states);
		workspace = fashion_cuda_take(&arena, FASHION_CUDA_WORKSPACE);
		labels = fashion_cuda_take(&arena, images);
		pixels = fashion_cuda_take(&arena, images * FASHION_PIXELS);
		fashion_cuda_work_place(work, &arena);
	}
	(void)cudaMemcpyAsync(states, &state, sizeof state, cudaMemcpyHostToDevice, stream);
	(void)cudaMemcpyAsync(labels, data->labels, images, cudaMemcpyHostToDevice, stream);
	(void)cudaMemcpyAsync(pixels, data->pixels, images * FASHION_PIXELS, cudaMemcpyHostToDevice,
	    stream);
	(void)cudaMemcpyAsync(fashion_cuda_work_gradient(work), params, net->count * sizeof *params,
	    cudaMemcpyHostToDevice, stream);
	fashion_cuda_narrow(fashion_cuda_work_gradient(work), fashion_cuda_work_weights(work),
	    net->count, stream);
	if (fashion_cuda_engine_new((enum fashion_cuda_engines)given.products, workspace, stream,
		&engine, &error) != ESPL_OK)
		stop("products", &error);
	task = (struct fashion_cuda_task){ .source = { pixels, labels, NULL, first, b->images,
					       b->images },
		.state = states,
		.rows = rows,
		.scale = 1.0f / (float)b->images,
		.learns = 1 };
	if (fashion_cuda_task_plan(work, engine, &task, &error) != ESPL_OK ||
	    fashion_cuda_task_run(work, engine, &task, stream, &error) != ESPL_OK)
		stop("a step", &error);
	if (rig.comm->wait(rig.comm) != ESPL_OK ||
	    rig_to_host(&rig, gradient, fashion_cuda_work_gradient(work),
		net->count * sizeof *gradient) != 0 ||
	    rig_to_host(&rig, parts, fashion_cuda_work_gradient(work) + net->count, sizeof parts) !=
		0)
		stop("the work on the GPU", NULL);
	b->loss = b->right = 0;
	for (uint32_t i = 0; i < FASHION_CUDA_PARTS; i++) {
		b->loss += (double)parts[i];
		b->right += (double)parts[FASHION_CUDA_PARTS + i];
	}
	fashion_cuda_task_free(engine, &task);
	fashion_cuda_engine_free(engine);
	fashion_cuda_work_free(work);
	(void)cudaFree(base);
}

static void
get_vectors(struct batch *b, uint64_t count)
{
	b->count = count;
	b->gradient = calloc(count, sizeof *b->gradient);
	b->wanted = calloc(count, sizeof *b->wanted);
	if (b->gradient == NULL || b->wanted == NULL)
		stop("out of memory", NULL);
}

/* Three ranks' shares, one of which is empty, add up to the result of one rank. */
static void
gang_batch(const struct fashion_cuda_net *net, const struct fashion_data *data, const float *params,
    const float *whole, uint32_t images)
{
	const uint32_t shares[] = { images / 3, images - images / 3, 0 };
	struct batch b = { .images = images };
	uint32_t first = 0;
	float *part = calloc(net->count, sizeof *part);

	get_vectors(&b, net->count);
	if (part == NULL)
		stop("out of memory", NULL);
	for (int r = 0; r < 3; first += shares[r++]) {
		gpu_batch(net, data, params, &b, first, shares[r], part);
		for (uint64_t i = 0; i < net->count; i++)
			b.gradient[i] += part[i];
	}
	memcpy(b.wanted, whole, net->count * sizeof *whole);
	check(distance(&b) < 0.001,
	    "shares of %u, %u and no images come to the same gradient, but for %.6f of its length",
	    shares[0], shares[1], distance(&b));
	free(part), free(b.gradient), free(b.wanted);
}

/* The convolutional network, against fashion_cnn's own arithmetic. */
static void
cnn_batch(const struct fashion_data *data, uint32_t width, uint32_t hidden, float dropout,
    uint32_t images)
{
	struct fashion_net as;
	struct fashion_cuda_net net;
	struct fashion_work *work;
	struct batch b = { .images = images };
	float *theirs, *ours, *gradient;
	char name[100];

	fashion_net_shape(&as, width, hidden, dropout);
	fashion_cuda_net_cnn(&net, &as);
	get_vectors(&b, as.count);
	theirs = calloc(as.count, sizeof *theirs);
	ours = calloc(net.count, sizeof *ours);
	gradient = calloc(net.count, sizeof *gradient);
	work = fashion_work_new(&as, images);
	if (theirs == NULL || ours == NULL || gradient == NULL || work == NULL)
		stop("out of memory", NULL);
	fashion_net_start(&as, 4711, theirs);
	/* Biases begin as zero; here they are to be seen. */
	for (uint32_t i = 0; i < as.count; i++)
		theirs[i] += theirs[i] == 0.0f ? 0.05f * (float)(i % 7) - 0.1f : 0.0f;
	fashion_cuda_net_place(&net, &as, theirs, ours);
	gpu_batch(&net, data, ours, &b, 0, images, gradient);
	gang_batch(&net, data, ours, gradient, images);
	fashion_cuda_net_unplace(&net, &as, gradient, b.gradient);
	for (uint32_t i = 0; i < images; i++)
		fashion_work_image(work, data, i, i, fashion_mix(KEY ^ i) | 1u);
	fashion_forward(work, theirs, images, &b.wanted_loss, &b.wanted_right);
	fashion_backward(work, theirs, images, 1.0f / (float)images, b.wanted);
	(void)snprintf(name, sizeof name, "cnn width %u, hidden %u, dropout %g, %u images", width,
	    hidden, (double)dropout, images);
	judge(&b, hidden > 0, name);
	fashion_work_free(work);
	free(theirs), free(ours), free(gradient), free(b.gradient), free(b.wanted);
}

/* ---- the wide network --------------------------------------------------------------------- */

static void
mlp_batch(const struct fashion_data *data, uint32_t width, uint32_t depth, uint32_t images)
{
	struct fashion_cuda_net net;
	struct batch b = { .images = images };
	float *params;
	char name[100];

	fashion_cuda_net_mlp(&net, width, depth);
	get_vectors(&b, net.count);
	params = calloc(net.count, sizeof *params);
	if (params == NULL)
		stop("out of memory", NULL);
	fashion_cuda_net_start_mlp(&net, 4711, params);
	gpu_batch(&net, data, params, &b, 0, images, b.gradient);
	for (uint32_t i = 0; i < images; i++)
		rig_plain_image(&net, data->pixels + (size_t)i * FASHION_PIXELS, data->labels[i],
		    params, 1.0 / images, b.wanted, &b.wanted_loss, &b.wanted_right);
	(void)snprintf(name, sizeof name, "mlp width %u, depth %u, %u images", width, depth,
	    images);
	judge(&b, 1, name);
	free(params), free(b.gradient), free(b.wanted);
}

/* ---- whole trials ------------------------------------------------------------------------- */

struct sink {
	struct espl_report_sink sink;
	double accuracy, loss, train_loss;
};

static espl_status
metric(struct espl_report_sink *sink, const char *name, double value)
{
	struct sink *s = (struct sink *)sink;

	*(strcmp(name, "val_accuracy") == 0     ? &s->accuracy
		: strcmp(name, "val_loss") == 0 ? &s->loss
						: &s->train_loss) = value;
	return ESPL_OK;
}

static espl_status
finished(struct espl_report_sink *sink)
{
	(void)sink;
	return ESPL_OK;
}

/* a trial and its host */
struct run {
	const struct espl_plugin *plugin;
	const struct espl_trainable_ops *ops;
	struct espl_value values[8];
	struct espl_config config;
	struct espl_device cpu;
	struct espl_trial_context context;
	void *self, *trial;
};

static void
run_open(struct run *r, const struct espl_plugin *plugin, const struct espl_setting *settings,
    uint32_t count, int network, uint32_t train, uint64_t seed)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	int gpu = plugin == &trainable_fashion_cuda_LTX_espalier_plugin;

	memset(r, 0, sizeof *r);
	r->plugin = plugin;
	r->ops = (const struct espl_trainable_ops *)(const void *)plugin->ops;
	r->values[0].as.s = given.data;
	r->values[1].as.i = train;
	r->values[2].as.i = given.bench > 0 ? 64 : given.train / 4 < 2000 ? given.train / 4 : 2000;
	r->values[3].as.i = 1; /* cosine */
	r->values[4].as.i = network;
	r->values[5].as.i = given.products;
	r->values[6].as.i = given.graph;
	r->config =
	    (struct espl_config){ sizeof r->config, plugin->option_count, "check", r->values };
	r->cpu = (struct espl_device){ .size = sizeof r->cpu,
		.kind = ESPL_CPU,
		.packing = 1,
		.threads = 1,
		.uuid = "" };
	r->context = (struct espl_trial_context){ .size = sizeof r->context,
		.setting_count = count,
		.settings = settings,
		.seed = seed,
		.budget = 100,
		.iterations_max = 1000,
		.device = gpu ? &rig.device : &r->cpu,
		.comm = gpu ? rig.comm : rig_cpu_comm(),
		.scratch = "" };
	if (plugin->create(NULL, &r->config, &r->self, &error) != ESPL_OK ||
	    r->ops->open(r->self, &r->context, &r->trial, &error) != ESPL_OK)
		stop(plugin->name, &error);
}

static struct sink
run_step(struct run *r, uint64_t iteration)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct sink s = { .sink = { sizeof s.sink, 0, metric, finished } };

	if (r->ops->step(r->trial, iteration, &s.sink, &error) != ESPL_OK)
		stop(r->plugin->name, &error);
	return s;
}

static void
run_close(struct run *r)
{
	r->ops->close(r->trial);
	r->plugin->destroy(r->self);
}

#define NUMBER(name_, text_, value_) \
	{ \
		name_, text_, value_ \
	}

/* Several seeds tell what the noise is. */
static void
curves(const char *optimizer, double rate)
{
	const struct espl_setting settings[] = { NUMBER("learning_rate", "", rate),
		NUMBER("width", "8", 8), NUMBER("batch_size", "32", 32),
		NUMBER("dropout", "0.2", 0.2), { "optimizer", optimizer, NAN } };
	double worst = 0, noise = 0, first = 0;

	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct run gpu, cpu;
		struct sink g = { .accuracy = 0 }, c = g;

		run_open(&gpu, &trainable_fashion_cuda_LTX_espalier_plugin, settings, 5, 0,
		    given.train, seed);
		run_open(&cpu, &trainable_fashion_cnn_LTX_espalier_plugin, settings, 5, 0,
		    given.train, seed);
		for (uint32_t i = 1; i <= given.iterations; i++) {
			g = run_step(&gpu, i);
			c = run_step(&cpu, i);
			printf("# %s, seed %d, iteration %u: training %.4f (CPU %.4f), validation "
			       "%.4f (%.4f), right %.4f (%.4f)\n",
			    optimizer, (int)seed, i, g.train_loss, c.train_loss, g.loss, c.loss,
			    g.accuracy, c.accuracy);
			if (fabs(g.train_loss - c.train_loss) > worst)
				worst = fabs(g.train_loss - c.train_loss);
		}
		if (seed == 1)
			first = c.train_loss;
		else
			noise = fabs(c.train_loss - first);
		check(fabs(g.accuracy - c.accuracy) < 0.03 + 2.0 / (double)gpu.values[2].as.i,
		    "%s: seed %d ends at %.4f, on the CPU at %.4f", optimizer, (int)seed,
		    g.accuracy, c.accuracy);
		run_close(&gpu);
		run_close(&cpu);
	}
	check(worst < (noise > 0.02 ? noise : 0.02),
	    "%s: training losses differ by %.4f at most, those of two seeds by %.4f", optimizer,
	    worst, noise);
}

/* ---- state -------------------------------------------------------------------------------- */

struct copy {
	struct espl_region_sink sink;
	void *at[8];
	uint64_t bytes[8];
	espl_device_kind where[8];
	uint32_t count;
};

static espl_status
region(struct espl_region_sink *sink, const char *name, void *data, uint64_t bytes,
    espl_device_kind where)
{
	struct copy *c = (struct copy *)sink;

	(void)name;
	c->at[c->count] = data;
	c->bytes[c->count] = bytes;
	c->where[c->count++] = where;
	return ESPL_OK;
}

static struct copy
regions(struct run *r)
{
	struct copy c = { .sink = { sizeof c.sink, 0, region } };
	struct espl_error error = ESPL_INIT(struct espl_error);

	if (r->ops->regions(r->trial, &c.sink, &error) != ESPL_OK)
		stop("regions", &error);
	return c;
}

static void
taken_up(void)
{
	const struct espl_setting settings[] = { NUMBER("learning_rate", "", 0.002),
		NUMBER("width", "5", 5), NUMBER("batch_size", "32", 32),
		NUMBER("dropout", "0.3", 0.3), NUMBER("hidden", "20", 20),
		{ "optimizer", "adam", NAN } };
	struct run one, two;
	struct copy from, to;
	struct sink a, b;
	uint32_t train = given.train < 2000 ? given.train : 2000;

	run_open(&one, &trainable_fashion_cuda_LTX_espalier_plugin, settings, 6, 0, train, 9);
	run_open(&two, &trainable_fashion_cuda_LTX_espalier_plugin, settings, 6, 0, train, 9);
	(void)run_step(&one, 1);
	from = regions(&one);
	to = regions(&two);
	for (uint32_t i = 0; i < from.count; i++)
		if (cudaMemcpyAsync(to.at[i], from.at[i], from.bytes[i],
			from.where[i] == ESPL_CPU ? cudaMemcpyHostToHost : cudaMemcpyDeviceToDevice,
			rig.device.stream) != cudaSuccess)
			stop("a copy", NULL);
	if (rig.comm->wait(rig.comm) != ESPL_OK)
		stop("a copy", NULL);
	a = run_step(&one, 2);
	b = run_step(&two, 2);
	check(from.count == 4 && a.train_loss == b.train_loss && a.loss == b.loss &&
		a.accuracy == b.accuracy,
	    "a trial taken up from its state goes on the same, to the bit (%.6f, %.6f)",
	    a.train_loss, b.train_loss);
	run_close(&one);
	run_close(&two);
}

/* The kernels of a step, called one by one, do what the graph of them does. */
static void
without_graph(void)
{
	const struct espl_setting settings[] = { NUMBER("learning_rate", "", 0.02),
		NUMBER("width", "5", 5), NUMBER("batch_size", "32", 32) };
	const int graph = given.graph;
	uint32_t train = given.train < 2000 ? given.train : 2000;
	double loss[2];

	for (int i = 0; i < 2; i++) {
		struct run r;

		given.graph = i == 0 ? FASHION_CUDA_STEP_GRAPH : FASHION_CUDA_NO_GRAPH;
		run_open(&r, &trainable_fashion_cuda_LTX_espalier_plugin, settings, 3, 0, train, 4);
		(void)run_step(&r, 1);
		loss[i] = run_step(&r, 2).train_loss;
		run_close(&r);
	}
	given.graph = graph;
	check(loss[0] == loss[1],
	    "a trial without a graph learns the same, to the bit (%.6f, %.6f)", loss[0], loss[1]);
}

/* ---- speed -------------------------------------------------------------------------------- */

static void
bench(const char *name, int network, const struct espl_setting *settings, uint32_t count,
    uint32_t batch)
{
	struct run r;
	uint32_t train = given.train / batch * batch;
	uint64_t iteration = 1;
	double from, opened;

	if (train == 0)
		return;
	from = now();
	run_open(&r, &trainable_fashion_cuda_LTX_espalier_plugin, settings, count, network, train,
	    1);
	opened = now() - from;
	(void)run_step(&r, iteration++);
	for (uint32_t i = 0; i < given.repeat; i++) {
		uint64_t steps = 0;
		double took;

		from = now();
		do {
			(void)run_step(&r, iteration++);
			steps += train / batch;
			took = now() - from;
		} while (took < given.bench);
		printf("{\"figure\": \"steps\", \"network\": \"%s\", \"batch\": %u, "
		       "\"steps_a_second\": %.1f, \"open_s\": %.4f, \"products\": \"%s\", "
		       "\"graph\": \"%s\"}\n",
		    name, batch, (double)steps / took, opened,
		    given.products == FASHION_CUDA_OWN            ? "own"
			: given.products == FASHION_CUDA_CUBLASLT ? "cublaslt"
								  : "auto",
		    given.graph == FASHION_CUDA_NO_GRAPH ? "none" : "step");
		fflush(stdout);
	}
	run_close(&r);
}

static void
benches(void)
{
	static const uint32_t batches[] = { 64, 128, 1024 };

	for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
		char text[20];
		struct espl_setting narrow[] = { NUMBER("learning_rate", "", 0.01),
			NUMBER("width", "8", 8), NUMBER("batch_size", text, batches[i]) };
		struct espl_setting wide[] = { NUMBER("learning_rate", "", 0.01),
			NUMBER("width", "32", 32), NUMBER("hidden", "128", 128),
			NUMBER("batch_size", text, batches[i]) };

		(void)snprintf(text, sizeof text, "%u", batches[i]);
		if (given.batch == 0 || given.batch == batches[i])
			bench("cnn, width 8", 0, narrow, 3, batches[i]);
		if (given.batch == 0)
			bench("cnn, width 32, hidden 128", 0, wide, 4, batches[i]);
	}
	if (given.batch == 0) {
		struct espl_setting mlp[] = { NUMBER("learning_rate", "", 0.01),
			NUMBER("width", "4096", 4096), NUMBER("depth", "3", 3),
			NUMBER("batch_size", "8192", 8192) };

		bench("mlp, width 4096, depth 3", 1, mlp, 4, 8192);
		mlp[3].text = "2048", mlp[3].value = 2048;
		bench("mlp, width 4096, depth 3", 1, mlp, 4, 2048);
	}
}

/* ---- main -------------------------------------------------------------------------- */

static int
read_arguments(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			return -1;
		if (strcmp(argv[i], "--data") == 0)
			given.data = argv[i + 1];
		else if (strcmp(argv[i], "--train") == 0)
			given.train = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--iterations") == 0)
			given.iterations = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--bench") == 0)
			given.bench = strtod(argv[i + 1], NULL);
		else if (strcmp(argv[i], "--repeat") == 0)
			given.repeat = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--graph") == 0)
			given.graph = strcmp(argv[i + 1], "none") == 0 ? FASHION_CUDA_NO_GRAPH
								       : FASHION_CUDA_STEP_GRAPH;
		else if (strcmp(argv[i], "--batch") == 0)
			given.batch = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--products") == 0)
			given.products = strcmp(argv[i + 1], "own") == 0 ? FASHION_CUDA_OWN
			    : strcmp(argv[i + 1], "cublaslt") == 0       ? FASHION_CUDA_CUBLASLT
									 : FASHION_CUDA_AUTO;
		else
			return -1;
	}
	return given.train >= 64 ? 0 : -1;
}

int
main(int argc, char **argv)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct fashion_data *data;
	const char *why;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (read_arguments(argc, argv) != 0) {
		fprintf(stderr,
		    "usage: reference [--data FOLDER] [--train N] [--iterations N] [--products "
		    "auto|cublaslt|own] [--graph step|none] [--bench SECONDS [--repeat N] [--batch "
		    "N]]\n");
		return 2;
	}
	if (fashion_data_load(given.data, 64, 16, &data, &error) != ESPL_OK) {
		printf("1..0 # SKIP %s\n", error.text);
		return 0;
	}
	why = rig_open(&rig);
	if (why != NULL) {
		printf("1..0 # SKIP %s\n", why);
		fashion_data_free(data);
		return 0;
	}
	if (rig.emulated)
		given.products = FASHION_CUDA_OWN;
	if (given.bench > 0) {
		benches();
	} else {
		cnn_batch(data, 8, 0, 0.0f, 64);
		cnn_batch(data, 5, 0, 0.25f, 40);
		cnn_batch(data, 3, 21, 0.4f, 17);
		mlp_batch(data, 64, 1, 32);
		mlp_batch(data, 30, 3, 19);
		taken_up();
		without_graph();
		curves("sgd", 0.02);
		curves("adam", 0.002);
		printf("1..%d\n", number);
	}
	fashion_data_free(data);
	rig_close(&rig);
	return failures > 0;
}
