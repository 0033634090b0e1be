/* trainable_fashion_cnn.c - a small convolutional network on Fashion-MNIST: the main example, and
 * the proof that elasticity changes no result.
 *
 * An iteration is one pass over the training images in an order drawn for it.  Every batch is cut
 * into FASHION_SHARDS equal shards, whatever the gang; ranks compute shares of them and sum_shards
 * adds them in their fixed order.  Order, dropout and start are functions of (seed, iteration,
 * image). So the weights after n iterations are the same to the bit on one worker or eight, resized
 * or restored from a checkpoint in between.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cblas.h>
#include "fashion.h"

#define CHECK_SHARD 50u /* images of a shard of the validation */

static const struct espl_option options[] = { FASHION_OPTIONS };

struct trial {
	const struct espl_trial_context *context;
	const struct fashion_data *data;
	struct fashion_course course;
	struct fashion_net net;
	struct fashion_work *work;
	uint32_t each;   /* images of a shard */
	uint32_t *order; /* of this iteration's images */
	/* [FASHION_SHARDS][net.count + 2]: gradient, loss, right ones */
	float *shards;
	float *sum;     /* [net.count + 2] */
	double *checks; /* [shards of the validation][2] */
	/* the regions */
	float *params, *velocity, *square; /* square: adam only */
	struct fashion_counters counters;
};

static espl_status
fashion_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct fashion *f = calloc(1, sizeof *f);

	(void)host;
	if (f == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	fashion_init(f, config->values);
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

enum { WIDTH = FASHION_KNOBS, HIDDEN, DROPOUT, KNOBS };

static espl_status
read_settings(struct trial *t, const struct fashion *f, struct espl_error *error)
{
	struct fashion_knob knobs[KNOBS] = { [FASHION_RATE] = { "learning_rate", NAN, 1e-9, 10, 0 },
		[FASHION_MOMENTUM] = { "momentum", 0.9, 0, 0.9999, 0 },
		[FASHION_BATCH] = { "batch_size", 64, FASHION_SHARDS, 1024, 1 },
		[WIDTH] = { "width", 8, 1, 128, 1 },
		[HIDDEN] = { "hidden", 0, 0, 4096, 1 },
		[DROPOUT] = { "dropout", 0, 0, 0.95, 0 } };
	const struct fashion_told told = { "fashion_cnn",
		"only learning_rate, momentum, width, hidden, dropout", knobs, KNOBS };
	espl_status st = fashion_course_read(&t->course, f, t->context, &told, error);

	if (st != ESPL_OK)
		return st;
	t->each = t->course.batch / FASHION_SHARDS;
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
	t->shards = calloc(FASHION_SHARDS * vector, sizeof *t->shards);
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
	struct trial *t;
	espl_status st = fashion_load(f, error);

	if (st != ESPL_OK)
		return st;
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	/* One thread: several threads would add in an order of their own. */
	openblas_set_num_threads(1);
	t->context = context;
	t->data = f->data;
	st = read_settings(t, f, error);
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

	(void)error;
	return fashion_name_regions(sink,
	    &(struct fashion_regions){ t->params, t->velocity, t->course.adam ? t->square : NULL,
		(uint64_t)t->net.count * sizeof(float), ESPL_CPU, &t->counters });
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

/* sgd: velocity = momentum * velocity + g.  adam: the same momentum as its first decay, its
 * correction in the rate. */
static void
update_params(struct trial *t, float rate)
{
	float momentum = t->course.momentum, keep = 0.999f;

	t->counters.updates++;
	if (!t->course.adam) {
		for (uint32_t i = 0; i < t->net.count; i++) {
			t->velocity[i] = momentum * t->velocity[i] + t->sum[i];
			t->params[i] -= rate * t->velocity[i];
		}
		return;
	}
	for (uint32_t i = 0; i < t->net.count; i++) {
		float g = t->sum[i];

		t->velocity[i] = momentum * t->velocity[i] + (1.0f - momentum) * g;
		t->square[i] = keep * t->square[i] + (1.0f - keep) * g * g;
		t->params[i] -= rate * t->velocity[i] / (sqrtf(t->square[i]) + 1e-7f);
	}
}

/* One batch: this rank's shards, their sum over the gang, the update that all ranks make alike. */
static espl_status
learn_batch(struct trial *t, uint64_t iteration, uint32_t batch, float rate)
{
	const struct espl_comm *comm = t->context->comm;
	uint64_t key = fashion_mask_key(t->context->seed, iteration);
	uint32_t first, mine = fashion_share(comm, FASHION_SHARDS, &first),
			vector = t->net.count + 2u;
	espl_status st;

	for (uint32_t s = 0; s < mine; s++) {
		const uint32_t *images =
		    t->order + (size_t)batch * t->course.batch + (first + s) * t->each;
		float *to = t->shards + (size_t)s * vector;
		double loss, right;

		for (uint32_t i = 0; i < t->each; i++)
			fashion_work_image(t->work, t->data, images[i], i,
			    fashion_mix(key ^ images[i]) | 1u);
		fashion_forward(t->work, t->params, t->each, &loss, &right);
		fashion_backward(t->work, t->params, t->each, 1.0f / (float)t->course.batch, to);
		to[t->net.count] = (float)loss;
		to[t->net.count + 1] = (float)right;
	}
	st = comm->sum_shards(comm, t->shards, t->sum, vector, ESPL_F32, first, mine,
	    FASHION_SHARDS);
	if (st == ESPL_OK)
		update_params(t, rate);
	return st;
}

/* Loss and share of right answers on the images held out. */
static espl_status
check_validation(struct trial *t, double *loss, double *right)
{
	const struct espl_comm *comm = t->context->comm;
	uint32_t total = check_shards(t), first, mine = fashion_share(comm, total, &first);
	double sum[2] = { 0.0, 0.0 };
	espl_status st;

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
	const struct fashion_course *course = &t->course;
	double train_loss = 0.0, loss, right;
	espl_status st = fashion_next(&t->counters, iteration, error);

	if (st != ESPL_OK)
		return st;
	fashion_order(t->context->seed, iteration, t->order, t->data->train);
	for (uint32_t b = 0; b < course->batches && st == ESPL_OK; b++) {
		st = learn_batch(t, iteration, b,
		    fashion_rate(course, (double)t->context->iterations_max, iteration, b,
			t->counters.updates + 1));
		train_loss += (double)t->sum[t->net.count];
	}
	if (st == ESPL_OK)
		st = check_validation(t, &loss, &right);
	if (st != ESPL_OK)
		return st;
	t->counters.iterations = iteration;
	return fashion_report(sink, right, loss,
	    train_loss / ((double)course->batches * course->batch));
}

static espl_status
fashion_suits(void *self, const struct espl_trial_context *context, struct espl_error *error)
{
	struct trial trial = { .context = context };

	return read_settings(&trial, self, error);
}

static const struct espl_trainable_ops ops = { ESPL_TABLE(struct espl_trainable_ops),
	.open = fashion_open, .close = fashion_close, .step = fashion_step,
	.regions = fashion_regions, .resize = fashion_resize, .resized = fashion_resized,
	.suits = fashion_suits };

ESPL_PLUGIN(trainable, fashion_cnn) = { ESPL_HEAD(ESPL_TRAINABLE, "fashion_cnn"), .version = "0.1",
	.summary =
	    "a convolutional network on Fashion-MNIST, with bit-identical results on any gang",
	.caps = ESPL_CAP_PURE | ESPL_CAP_EXAMPLE, ESPL_OPTIONS(options), .ops = &ops.head,
	.create = fashion_create, .destroy = fashion_destroy };
