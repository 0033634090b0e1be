/* trainable_mine.c - a trainable to begin with: linear regression by gradient descent.
 *
 * A worker process hosts one rank of the trial's gang.  All ranks call step together; each works
 * on its part of the same global batch and the gradients are summed, so that the number of GPUs
 * (or CPU slots) changes the speed and not what is learned.  The state is declared as regions
 * of memory, so that espalier takes care of checkpoints, restarts and resizes.
 *
 *	cc -shared -fPIC $(pkg-config --cflags espalier) -o trainable_mine.so trainable_mine.c
 *
 * In the configuration: trial = { trainable = "mine"; options = { samples = 512; }; };  and a
 * parameter `lr` in the space.  It reports `loss`.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/trainable.h>
#include <espalier/util.h>

enum { SAMPLES };
#define WIDTH 8u

static const struct espl_option options[] = {
	{ .name = "samples",
	    .help = "number of rows of the generated data set",
	    .type = ESPL_OPT_INT,
	    .fallback = "512",
	    .min = "1",
	    .max = "1000000" },
};

/* one in each worker process */
struct mine {
	uint64_t samples;
};
struct trial {
	const struct mine *mine;
	const struct espl_trial_context *context; /* valid until close */
	double lr;
	double weights[WIDTH];      /* the whole state */
	double gradient[WIDTH + 1]; /* and the loss behind it; scratch */
};

static void
destroy(void *self)
{
	free(self);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct mine *mine = calloc(1, sizeof *mine);

	(void)host;
	if (mine == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	mine->samples = (uint64_t)config->values[SAMPLES].as.i;
	*self = mine;
	return ESPL_OK;
}

/* Numbers in [-1, 1) that depend on nothing but their place: every rank and every start of the
 * trial sees the same data. */
static double
made_up(uint64_t row, uint64_t column)
{
	uint64_t z = (row * WIDTH + column + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1.0p-52 - 1.0;
}

static espl_status
open_trial(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	struct trial *t = calloc(1, sizeof *t);
	uint32_t i;

	if (t == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	t->mine = self;
	t->context = context;
	t->lr = NAN;
	for (i = 0; i < context->setting_count; i++)
		if (strcmp(context->settings[i].name, "lr") == 0)
			t->lr = context->settings[i].value;
	if (isnan(t->lr))
		t->lr = 0.1; /* the space has none: a default of our own */
	*trial = t;
	return ESPL_OK;
}

static void
close_trial(void *trial)
{
	free(trial);
}

static espl_status
step(void *trial, uint64_t iteration, struct espl_report_sink *sink, struct espl_error *error)
{
	struct trial *t = trial;
	const struct espl_comm *comm = t->context->comm;
	uint64_t row, first, last;
	uint32_t i;
	espl_status status;

	(void)iteration;
	/* This rank's rows: the parts differ by one at most and together are everything. */
	first = t->mine->samples * comm->rank / comm->world;
	last = t->mine->samples * (comm->rank + 1) / comm->world;
	memset(t->gradient, 0, sizeof t->gradient);
	for (row = first; row < last; row++) {
		double off = 0;

		for (i = 0; i < WIDTH; i++) /* the truth is the weights 1, 2, 3, ... */
			off += (t->weights[i] - (i + 1.0)) * made_up(row, i);
		for (i = 0; i < WIDTH; i++)
			t->gradient[i] += off * made_up(row, i);
		t->gradient[WIDTH] += off * off;
	}
	status = comm->allreduce(comm, t->gradient, t->gradient, WIDTH + 1, ESPL_F64, ESPL_SUM);
	if (status == ESPL_OK)
		status = comm->wait(comm);
	if (status != ESPL_OK) /* ESPL_E_PEER: a rank is gone; return at once */
		return espl_fail(error, status, "the gradients could not be summed");
	for (i = 0; i < WIDTH; i++)
		t->weights[i] -= t->lr * t->gradient[i] / (double)t->mine->samples;
	return sink->metric(sink, "loss", t->gradient[WIDTH] / (double)t->mine->samples);
}

/* Names, order and sizes must be the same on every rank, for every number of them. */
static espl_status
regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct trial *t = trial;

	(void)error;
	return sink->region(sink, "weights", t->weights, sizeof t->weights, ESPL_CPU);
}

/* Optional: change the number of ranks without a restart.  Nothing here depends on it. */
static espl_status
resize(void *trial, const struct espl_trial_context *context, struct espl_error *error)
{
	struct trial *t = trial;

	(void)error;
	t->context = context;
	return ESPL_OK;
}

static espl_status
resized(void *trial, struct espl_error *error)
{
	(void)trial;
	(void)error;
	return ESPL_OK;
}

static const struct espl_trainable_ops ops = {
	ESPL_TABLE(struct espl_trainable_ops),
	.open = open_trial,
	.close = close_trial,
	.step = step,
	.regions = regions,
	.resize = resize,
	.resized = resized,
};

ESPL_PLUGIN(trainable, mine) = {
	ESPL_HEAD(ESPL_TRAINABLE, "mine"),
	.version = "0.1",
	.summary = "linear regression by gradient descent, data parallel",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
