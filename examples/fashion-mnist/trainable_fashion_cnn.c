/* trainable_fashion_cnn.c - a small convolutional network on Fashion-MNIST: the main example, and
 * the proof that elasticity changes no result.
 *
 * An iteration is one pass over the training images in an order drawn for it.  Every batch is cut
 * into SHARDS equal shards, whatever the gang; ranks compute shares of them and sum_shards adds
 * them in their fixed order.  Order, dropout and start are functions of (seed, iteration, image).
 * So the weights after n iterations are the same to the bit on one worker or eight, resized or
 * restored from a checkpoint in between.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cblas.h>
#include "fashion.h"

#define SHARDS      8u
#define CHECK_SHARD 50u			/* images of a shard of the validation                */
#define DATA        "/usr/share/datasets/fashion-mnist"

static const struct espl_option options[] = {
	{ .name = "data", .type = ESPL_OPT_STRING, .fallback = DATA,
	  .help = "folder of train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz" },
	{ .name = "train", .type = ESPL_OPT_INT, .fallback = "6000", .min = "8", .max = "59000",
	  .help = "images trained on: the first ones of the training set" },
	{ .name = "validate", .type = ESPL_OPT_INT, .fallback = "2000", .min = "1", .max = "50000",
	  .help = "images validated on: the last ones of the training set" },
	{ .name = "schedule", .type = ESPL_OPT_CHOICE, .fallback = "cosine",
	  .choices = "constant|cosine",
	  .help = "the learning rate over the search's iterations; cosine falls to a fiftieth" }
};
enum { CONSTANT, COSINE };

struct fashion {			/* the instance: its trials share the images           */
	const char *folder;
	uint32_t    train, validate;
	int         schedule;
	struct fashion_data *data;	/* read when the first trial opens                    */
};

struct counters { uint64_t iterations, updates; };

struct trial {
	const struct espl_trial_context *context;
	const struct fashion_data *data;
	struct fashion_net net;
	struct fashion_work *work;
	float    learning_rate, momentum;
	int      adam, schedule;
	uint32_t batch, each;		/* images of a batch, of a shard                      */
	uint32_t *order;		/* of this iteration's images                         */
	float   *shards;		/* [SHARDS][net.count + 2]: gradient, loss, right ones */
	float   *sum;			/* [net.count + 2]                                    */
	double  *checks;		/* [shards of the validation][2]                      */
	/* the regions */
	float   *params, *velocity, *square;	/* square: adam only                          */
	struct counters counters;
};

static espl_status
fashion_create(const struct espl_host *host, const struct espl_config *config, void **self,
               struct espl_error *error)
{
	struct fashion *f = calloc(1, sizeof *f);

	(void)host;
	if (f == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	f->folder = config->values[0].as.s;
	f->train = (uint32_t)config->values[1].as.i;
	f->validate = (uint32_t)config->values[2].as.i;
	f->schedule = (int)config->values[3].as.i;
	*self = f;
	return ESPL_OK;
}

static void
fashion_destroy(void *self)
{
	struct fashion *f = self;

	if (f == NULL)
		return;
	fashion_data_free(f->data);
	free(f);
}

/* ---- settings ------------------------------------------------------------------------------ */

struct knob { const char *name; double value, low, high; int whole; };
enum { RATE, MOMENTUM, WIDTH, HIDDEN, DROPOUT, BATCH, KNOBS };

static espl_status
read_knob(struct knob *k, const struct espl_setting *s, struct espl_error *error)
{
	char *end = NULL;

	k->value = s->value;
	if (isnan(k->value) && s->text != NULL && s->text[0] != '\0') {
		k->value = strtod(s->text, &end);
		if (*end != '\0')
			k->value = NAN;
	}
	if (!(k->value >= k->low && k->value <= k->high) ||
	    (k->whole && k->value != floor(k->value)))
		return espl_fail(error, ESPL_E_CONFIG,
				 "parameter '%s' is '%s', not a%s number from %g "
		                 "to %g", k->name, s->text, k->whole ? " whole" : "", k->low, k->high);
	return ESPL_OK;
}

static espl_status
read_settings(struct trial *t, const struct espl_trial_context *context, struct espl_error *error)
{
	struct knob knobs[KNOBS] = {
		[RATE] = { "learning_rate", NAN, 1e-9, 10, 0 },
		[MOMENTUM] = { "momentum", 0.9, 0, 0.9999, 0 },
		[WIDTH] = { "width", 8, 1, 128, 1 },
		[HIDDEN] = { "hidden", 0, 0, 4096, 1 },
		[DROPOUT] = { "dropout", 0, 0, 0.95, 0 },
		[BATCH] = { "batch_size", 64, SHARDS, 1024, 1 }
	};

	for (uint32_t i = 0; i < context->setting_count; i++) {
		const struct espl_setting *s = &context->settings[i];
		espl_status st;
		int k = 0;

		if (strcmp(s->name, "optimizer") == 0) {
			t->adam = strcmp(s->text, "adam") == 0;
			if (!t->adam && strcmp(s->text, "sgd") != 0)
				return espl_fail(error, ESPL_E_CONFIG,
				                 "optimizer '%s' is neither 'sgd' nor 'adam'", s->text);
			continue;
		}
		while (k < KNOBS && strcmp(knobs[k].name, s->name) != 0)
			k++;
		if (k == KNOBS)
			return espl_fail(error, ESPL_E_CONFIG,
					 "fashion_cnn has no parameter '%s': only "
			                 "learning_rate, momentum, width, hidden, dropout, batch_size, "
			                 "optimizer", s->name);
		st = read_knob(&knobs[k], s, error);
		if (st != ESPL_OK)
			return st;
	}
	if (isnan(knobs[RATE].value))
		return espl_fail(error, ESPL_E_CONFIG,
		                 "the search space lacks what fashion_cnn needs: learning_rate");
	t->batch = (uint32_t)knobs[BATCH].value;
	if (t->batch % SHARDS != 0 || t->batch > t->data->train)
		return espl_fail(error, ESPL_E_CONFIG,
				 "batch_size %u must be a multiple of %u and at most "
		                 "the %u training images", t->batch, SHARDS, t->data->train);
	t->each = t->batch / SHARDS;
	t->learning_rate = (float)knobs[RATE].value;
	t->momentum = (float)knobs[MOMENTUM].value;
	fashion_net_shape(&t->net, (uint32_t)knobs[WIDTH].value, (uint32_t)knobs[HIDDEN].value,
	                  (float)knobs[DROPOUT].value);
	return ESPL_OK;
}

/* ---- opening and closing --------------------------------------------------------------- */

static void
fashion_close(void *trial)
{
	struct trial *t = trial;

	if (t == NULL)
		return;
	fashion_work_free(t->work);
	free(t->order);
	free(t->shards);
	free(t->sum);
	free(t->checks);
	free(t->params);
	free(t->velocity);
	free(t->square);
	free(t);
}

static uint32_t
check_shards(const struct trial *t)
{
	return (t->data->validate + CHECK_SHARD - 1) / CHECK_SHARD;
}

/* Everything the steps will need. */
static espl_status
get_memory(struct trial *t, struct espl_error *error)
{
	size_t vector = t->net.count + 2u;

	t->work = fashion_work_new(&t->net, t->each > CHECK_SHARD ? t->each : CHECK_SHARD);
	t->order = calloc(t->data->train, sizeof *t->order);
	t->shards = calloc(SHARDS * vector, sizeof *t->shards);
	t->sum = calloc(vector, sizeof *t->sum);
	t->checks = calloc(2 * (size_t)check_shards(t), sizeof *t->checks);
	t->params = calloc(vector, sizeof *t->params);
	t->velocity = calloc(vector, sizeof *t->velocity);
	t->square = calloc(vector, sizeof *t->square);
	if (t->work == NULL || t->order == NULL || t->shards == NULL || t->sum == NULL ||
	    t->checks == NULL || t->params == NULL || t->velocity == NULL || t->square == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	return ESPL_OK;
}

static espl_status
fashion_open(void *self, const struct espl_trial_context *context, void **trial,
             struct espl_error *error)
{
	struct fashion *f = self;
	struct trial   *t;
	espl_status     st;

	if (f->data == NULL) {
		st = fashion_data_load(f->folder, f->train, f->validate, &f->data, error);
		if (st != ESPL_OK)
			return st;
	}
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	/* One thread: threads of its own would add in an order of their own. */
	openblas_set_num_threads(1);
	t->context = context;
	t->data = f->data;
	t->schedule = f->schedule;
	st = read_settings(t, context, error);
	if (st == ESPL_OK)
		st = get_memory(t, error);
	if (st != ESPL_OK) {
		fashion_close(t);
		return st;
	}
	fashion_net_start(&t->net, context->seed, t->params);
	*trial = t;
	return ESPL_OK;
}

static espl_status
fashion_regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct trial *t = trial;
	uint64_t bytes = (uint64_t)t->net.count * sizeof(float);
	espl_status st;

	(void)error;
	st = sink->region(sink, "params", t->params, bytes, ESPL_CPU);
	if (st == ESPL_OK)
		st = sink->region(sink, "velocity", t->velocity, bytes, ESPL_CPU);
	if (st == ESPL_OK && t->adam)
		st = sink->region(sink, "square", t->square, bytes, ESPL_CPU);
	if (st == ESPL_OK)
		st = sink->region(sink, "counters", &t->counters, sizeof t->counters, ESPL_CPU);
	return st;
}

static espl_status
fashion_resize(void *trial, const struct espl_trial_context *context, struct espl_error *error)
{
	struct trial *t = trial;

	(void)error;
	t->context = context;
	return ESPL_OK;
}

static espl_status
fashion_resized(void *trial, struct espl_error *error)
{
	(void)trial;
	(void)error;
	return ESPL_OK;
}

/* ---- an iteration ----------------------------------------------------------------------- */

/* The order of the images in this iteration: drawn anew, from nothing but seed and iteration. */
static void
shuffle(struct trial *t, uint64_t iteration)
{
	uint64_t key = fashion_mix(fashion_mix(t->context->seed ^ UINT64_C(0x6f72646572)) ^ iteration);

	for (uint32_t i = 0; i < t->data->train; i++)
		t->order[i] = i;
	for (uint32_t i = t->data->train - 1; i > 0; i--) {
		uint32_t k = (uint32_t)(fashion_mix(key + i) % (i + 1u)), held = t->order[i];

		t->order[i] = t->order[k];
		t->order[k] = held;
	}
}

/* Which of `total` shards are this rank's: [*first, *first + *mine). */
static void
share(const struct espl_comm *comm, uint32_t total, uint32_t *first, uint32_t *mine)
{
	*first = (uint32_t)((uint64_t)total * comm->rank / comm->world);
	*mine = (uint32_t)((uint64_t)total * (comm->rank + 1u) / comm->world) - *first;
}

/* The learning rate of one batch of `batches`. */
static float
rate_now(const struct trial *t, uint64_t iteration, uint32_t batch, uint32_t batches)
{
	double last = (double)t->context->iterations_max;
	double at = ((double)iteration - 1 + (double)batch / batches) / last;

	if (t->schedule == CONSTANT || !(last >= 1))
		return t->learning_rate;
	at = at > 1.0 ? 1.0 : at;
	return t->learning_rate * (float)(0.51 + 0.49 * cos(3.14159265358979323846 * at));
}

/* sgd: velocity = momentum * velocity + g.  adam: the same momentum as its first decay. */
static void
update(struct trial *t, float rate)
{
	float momentum = t->momentum, keep = 0.999f;

	t->counters.updates++;
	if (!t->adam) {
		for (uint32_t i = 0; i < t->net.count; i++) {
			t->velocity[i] = momentum * t->velocity[i] + t->sum[i];
			t->params[i] -= rate * t->velocity[i];
		}
		return;
	}
	rate *= (float)(sqrt(1.0 - pow((double)keep, (double)t->counters.updates)) /
	                (1.0 - pow((double)momentum, (double)t->counters.updates)));
	for (uint32_t i = 0; i < t->net.count; i++) {
		float g = t->sum[i];

		t->velocity[i] = momentum * t->velocity[i] + (1.0f - momentum) * g;
		t->square[i] = keep * t->square[i] + (1.0f - keep) * g * g;
		t->params[i] -= rate * t->velocity[i] / (sqrtf(t->square[i]) + 1e-7f);
	}
}

/* One batch: this rank's shards, their sum over the gang, the update that all ranks make alike. */
static espl_status
learn(struct trial *t, uint64_t iteration, uint32_t batch, float rate)
{
	const struct espl_comm *comm = t->context->comm;
	uint64_t key = fashion_mix(fashion_mix(t->context->seed ^ UINT64_C(0x6d61736b)) ^ iteration);
	uint32_t first, mine, vector = t->net.count + 2u;
	espl_status st;

	share(comm, SHARDS, &first, &mine);
	for (uint32_t s = 0; s < mine; s++) {
		const uint32_t *images = t->order + (size_t)batch * t->batch + (first + s) * t->each;
		float *to = t->shards + (size_t)s * vector;
		double loss, right;

		for (uint32_t i = 0; i < t->each; i++)
			fashion_work_image(t->work, t->data, images[i], i,
			                   fashion_mix(key ^ images[i]) | 1u);
		fashion_forward(t->work, t->params, t->each, &loss, &right);
		fashion_backward(t->work, t->params, t->each, 1.0f / (float)t->batch, to);
		to[t->net.count] = (float)loss;
		to[t->net.count + 1] = (float)right;
	}
	st = comm->sum_shards(comm, t->shards, t->sum, vector, ESPL_F32, first, mine, SHARDS);
	if (st == ESPL_OK)
		update(t, rate);
	return st;
}

/* Loss and share of right answers on the images held out. */
static espl_status
check(struct trial *t, double *loss, double *right)
{
	const struct espl_comm *comm = t->context->comm;
	uint32_t first, mine, total = check_shards(t);
	double   sum[2] = { 0.0, 0.0 };
	espl_status st;

	share(comm, total, &first, &mine);
	for (uint32_t s = 0; s < mine; s++) {
		uint32_t from = (first + s) * CHECK_SHARD, count = CHECK_SHARD;

		if (from + count > t->data->validate)
			count = t->data->validate - from;
		for (uint32_t i = 0; i < count; i++)
			fashion_work_image(t->work, t->data, t->data->train + from + i, i, 0);
		fashion_forward(t->work, t->params, count, &t->checks[2 * s],
				&t->checks[2 * s + 1]);
	}
	st = comm->sum_shards(comm, t->checks, sum, 2, ESPL_F64, first, mine, total);
	*loss = sum[0] / t->data->validate;
	*right = sum[1] / t->data->validate;
	return st;
}

static espl_status
fashion_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
             struct espl_error *error)
{
	struct trial *t = trial;
	uint32_t batches = t->data->train / t->batch;
	double   train_loss = 0.0, loss, right;
	espl_status st = ESPL_OK;

	if (iteration != t->counters.iterations + 1)
		return espl_fail(error, ESPL_E_BUG,
				 "iteration %llu follows %llu: the state is another's",
		                 (unsigned long long)iteration,
		                 (unsigned long long)t->counters.iterations);
	shuffle(t, iteration);
	for (uint32_t b = 0; b < batches && st == ESPL_OK; b++) {
		st = learn(t, iteration, b, rate_now(t, iteration, b, batches));
		train_loss += (double)t->sum[t->net.count];
	}
	if (st == ESPL_OK)
		st = check(t, &loss, &right);
	if (st != ESPL_OK)
		return st;
	t->counters.iterations = iteration;
	st = sink->metric(sink, "val_accuracy", right);
	if (st == ESPL_OK)
		st = sink->metric(sink, "val_loss", loss);
	if (st == ESPL_OK)
		st = sink->metric(sink, "train_loss", train_loss / ((double)batches * t->batch));
	return st;
}

static const struct espl_trainable_ops ops = {
	ESPL_TABLE(struct espl_trainable_ops), .open = fashion_open, .close = fashion_close,
	.step = fashion_step, .regions = fashion_regions, .resize = fashion_resize,
	.resized = fashion_resized
};

ESPL_PLUGIN(trainable, fashion_cnn) = {
	ESPL_HEAD(ESPL_TRAINABLE, "fashion_cnn"), .version = "0.1",
	.summary = "a convolutional network on Fashion-MNIST; the same to the bit on any gang",
	.caps = ESPL_CAP_PURE, ESPL_OPTIONS(options), .ops = &ops.head,
	.create = fashion_create, .destroy = fashion_destroy
};
