/* trainable_counting_ones.c - count the ones: variables c0, c1, ... of 0 or 1 and variables
 * x0, x1, ... in [0, 1], of which iteration z shows the mean of z coin throws (the BOHB paper's
 * problem; or, with the option throws, of so many times z).  As many of each as the search space
 * names, from 0 on without a gap.
 */
#include "problem.h"

static const struct espl_option options[] = {
	PROBLEM_OPTIONS("0.0", "bias added to the loss at iteration 0, decreasing to 0 at the last",
	    "1.0", "strength of the noise of the coins; 0: none"),
	PROBLEM_REGRET,
	{ .name = "throws",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "1000000",
	    .help = "number of throws of each coin per iteration",
	    .flags = ESPL_OPT_EXPERIMENTAL }
};

struct counting {
	struct problem problem; /* first: what the trials see */
	int64_t throws;
};

static espl_status
counting_ones_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct counting *c = calloc(1, sizeof *c);

	(void)host;
	if (c == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	problem_read(&c->problem, config);
	c->throws = config->values[PROBLEM_REGRET_AT + 1].as.i;
	*self = c;
	return ESPL_OK;
}

/* Reads PREFIX0, PREFIX1, ... into x; how many there are. */
static espl_status
read_series(struct problem_trial *t, char prefix, uint32_t *count, struct espl_error *error)
{
	char name[16];

	for (*count = 0;; ++*count) {
		const struct espl_setting *setting;
		double v;

		snprintf(name, sizeof name, "%c%u", prefix, *count);
		setting = problem_setting(t->context, name);
		if (setting == NULL)
			return ESPL_OK;
		v = problem_number(setting);
		if (t->count == PROBLEM_VALUES)
			return espl_fail(error, ESPL_E_CONFIG, "more than %u variables",
			    PROBLEM_VALUES);
		if (!(v >= 0 && v <= 1) || (prefix == 'c' && v != 0 && v != 1))
			return espl_fail(error, ESPL_E_CONFIG, "parameter '%s' is '%s', not %s",
			    name, setting->text, prefix == 'c' ? "0 or 1" : "in [0, 1]");
		t->x[t->count++] = v;
	}
}

struct ones {
	struct problem_trial base;
	uint32_t choices;
};

static espl_status
counting_ones_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	struct ones *o = calloc(1, sizeof *o);
	uint32_t reals;
	espl_status st;

	if (o == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	o->base.magic = PROBLEM_TRIAL_MAGIC;
	o->base.problem = self;
	o->base.context = context;
	o->base.z_max = problem_z_max(self, context);
	st = read_series(&o->base, 'c', &o->choices, error);
	if (st == ESPL_OK)
		st = read_series(&o->base, 'x', &reals, error);
	if (st == ESPL_OK && o->base.count == 0)
		st = espl_fail(error, ESPL_E_CONFIG,
		    "the search space lacks parameters of this problem: c0, c1, ... or x0, x1, "
		    "...");
	if (st != ESPL_OK) {
		free(o);
		return st;
	}
	*trial = o;
	return ESPL_OK;
}

static espl_status
counting_ones_step(void *trial, uint64_t iteration, struct espl_report_sink *sink,
    struct espl_error *error)
{
	struct ones *o = trial;
	struct problem_trial *t = &o->base;
	double z = fmin((double)iteration, t->z_max), sum = 0.0, exact = 0.0;
	uint64_t throws = (uint64_t)z * (uint64_t)((const struct counting *)t->problem)->throws;

	(void)error;
	ESPL_ASSERT(t->magic == PROBLEM_TRIAL_MAGIC && t->count > 0 && o->choices <= t->count);
	for (uint32_t i = 0; i < t->count; i++) {
		double mean = t->x[i];

		if (i >= o->choices && t->problem->noise > 0) {
			uint64_t heads = 0;

			for (uint64_t k = 0; k < throws; k++)
				heads += problem_uniform(t->context->seed, iteration,
					     (uint64_t)i << 32 | k) < t->x[i];
			mean += t->problem->noise * ((double)heads / (double)throws - t->x[i]);
		}
		sum += mean;
		exact += t->x[i];
	}
	t->done = iteration;
	return problem_report(t, sink, -sum + t->problem->bias * (1.0 - z / t->z_max),
	    1.0 - exact / t->count);
}

PROBLEM_SUITS(counting_ones)

static const struct espl_trainable_ops ops = PROBLEM_OPS(counting_ones);

ESPL_PLUGIN(trainable, counting_ones) = { ESPL_HEAD(ESPL_TRAINABLE, "counting_ones"),
	.version = "0.1",
	.summary = "test problem: count the ones among c0.. (0 or 1) and x0.. (coins)",
	.caps = ESPL_CAP_PURE, ESPL_OPTIONS(options), .ops = &ops.head,
	.create = counting_ones_create, .destroy = problem_destroy };
