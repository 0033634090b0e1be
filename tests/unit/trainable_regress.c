/* trainable_regress.c - data parallel regression for tests: a gang cuts the batch into as many
 * parts as it has ranks, so its sums depend on its size in the last digits, and on nothing else.
 *
 * REGRESS_PACE_MS in its environment: how long an iteration takes, shared by the gang.
 * With AS_BYTES the state is what save and load carry, else regions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/trainable.h>

#define SIZE 513u
#define BATCH 64u
#define STATE (2 * SIZE * sizeof(float) + 2 * sizeof(uint64_t))

struct trial {
	const struct espl_trial_context *context;
	float weight[SIZE], speed[SIZE]; /* the state: these, */
	uint64_t done, random;           /* and these */
	float slope[SIZE], x[SIZE];
};

static espl_status
regress_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	(void)error;
	*self = malloc(1);
	return *self != NULL ? ESPL_OK : ESPL_E_NOMEM;
}

static void
regress_destroy(void *self)
{
	free(self);
}

static uint64_t
next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static float
uniform(uint64_t *state)
{
	return (float)((double)(next(state) >> 11) / 9007199254740992.0 * 2.0 - 1.0);
}

static espl_status
regress_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	struct trial *t = calloc(1, sizeof *t);

	(void)self;
	(void)error;
	if (t == NULL)
		return ESPL_E_NOMEM;
	t->context = context;
	t->random = context->seed;
	for (uint32_t i = 0; i < SIZE; i++)
		t->weight[i] = 0.05f * uniform(&t->random);
	*trial = t;
	return ESPL_OK;
}

static void
regress_close(void *trial)
{
	free(trial);
}

/* One example's part of the slope; what it is depends on its number alone. */
static float
example(struct trial *t, uint64_t key)
{
	float sum = 0.0f, want = 0.0f, error;

	for (uint32_t i = 0; i < SIZE; i++) {
		t->x[i] = uniform(&key);
		sum += t->weight[i] * t->x[i];
		want += (i % 7 == 0 ? 0.2f : -0.05f) * t->x[i];
	}
	error = tanhf(sum) - tanhf(want);
	for (uint32_t i = 0; i < SIZE; i++)
		t->slope[i] += error * t->x[i] / BATCH;
	return error * error;
}

static espl_status
regress_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
    struct espl_error *error)
{
	static const char *const names[] = { "w0", "w1", "w2", "w3" };
	struct trial *t = trial;
	const struct espl_comm *c = t->context->comm;
	uint64_t key = next(&t->random);
	const char *pace = getenv("REGRESS_PACE_MS");
	double loss = 0.0, length = 0.0;
	espl_status status;

	(void)error;
	if (iteration != t->done + 1)
		return ESPL_E_BUG;
	if (pace != NULL) {
		int64_t ns = strtoll(pace, NULL, 10) * 1000000 / c->world;
		struct timespec span = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

		(void)nanosleep(&span, NULL);
	}
	memset(t->slope, 0, sizeof t->slope);
	for (uint32_t i = c->rank; i < BATCH; i += c->world)
		loss += (double)example(t, key + i * UINT64_C(0x632be59bd9b4e019));
	status = c->allreduce(c, t->slope, t->slope, SIZE, ESPL_F32, ESPL_SUM);
	if (status == ESPL_OK)
		status = c->reduce_host(c, &loss, 1, ESPL_SUM);
	if (status != ESPL_OK)
		return status;
	for (uint32_t i = 0; i < SIZE; i++) {
		t->speed[i] = 0.8f * t->speed[i] - 0.5f * t->slope[i];
		t->weight[i] += t->speed[i];
		length += (double)t->weight[i] * (double)t->weight[i];
	}
	t->done = iteration;
	for (uint32_t i = 0; i < 4 && status == ESPL_OK; i++)
		status = sink->metric(sink, names[i], (double)t->weight[i * 128]);
	if (status == ESPL_OK)
		status = sink->metric(sink, "length", sqrt(length));
	return status == ESPL_OK ? sink->metric(sink, "loss", loss / BATCH) : status;
}

#ifdef AS_BYTES
static espl_status
regress_save(void *trial, struct espl_byte_sink *sink, struct espl_error *error)
{
	(void)error;
	return sink->write(sink, ((struct trial *)trial)->weight, STATE);
}

static espl_status
regress_load(void *trial, struct espl_byte_source *source, struct espl_error *error)
{
	(void)error;
	return source->read(source, ((struct trial *)trial)->weight, STATE);
}
#else
static espl_status
regress_regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct trial *t = trial;
	espl_status status = sink->region(sink, "weight", t->weight, sizeof t->weight, ESPL_CPU);

	(void)error;
	if (status == ESPL_OK)
		status = sink->region(sink, "speed", t->speed, sizeof t->speed, ESPL_CPU);
	if (status == ESPL_OK)
		status = sink->region(sink, "done", &t->done, sizeof t->done, ESPL_CPU);
	return status == ESPL_OK
	    ? sink->region(sink, "random", &t->random, sizeof t->random, ESPL_CPU)
	    : status;
}
#endif

static espl_status
regress_resize(void *trial, const struct espl_trial_context *context, struct espl_error *error)
{
	(void)error;
	((struct trial *)trial)->context = context;
	return ESPL_OK;
}

static espl_status
regress_resized(void *trial, struct espl_error *error)
{
	(void)trial;
	(void)error;
	return ESPL_OK;
}

static const struct espl_trainable_ops ops = { ESPL_TABLE(struct espl_trainable_ops),
	.open = regress_open, .close = regress_close, .step = regress_step,
	.resize = regress_resize, .resized = regress_resized,
#ifdef AS_BYTES
	.save = regress_save, .load = regress_load
#else
	.regions = regress_regions
#endif
};

#ifdef AS_BYTES
ESPL_PLUGIN(trainable, regress_bytes) = { ESPL_HEAD(ESPL_TRAINABLE, "regress_bytes"),
#else
ESPL_PLUGIN(trainable, regress) = { ESPL_HEAD(ESPL_TRAINABLE, "regress"),
#endif
	.version = "0.1", .summary = "data parallel regression, for tests", .ops = &ops.head,
	.create = regress_create, .destroy = regress_destroy };
