/* trainable_sleep.c - an iteration that takes a configured time, to compare predictions with real
 * runs.
 *
 * An iteration lasts iteration_s divided by the gang's width; the loss follows from the parameter
 * x alone. In simulation (no scratch directory) nothing is slept: the virtual clock does it.
 */
#include <errno.h>
#include <time.h>
#include "problem.h"

static const struct espl_option options[] = {
	{ .name = "iteration_s",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "86400",
	    .help = "seconds per iteration on one GPU; overridden by a parameter iteration_s" },
	{ .name = "open_s",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "86400",
	    .help = "seconds to open a trial",
	    .flags = ESPL_OPT_EXPERIMENTAL }
};

#define SLEEPER_MAGIC 0x736c6570u
#define NAP_MAGIC 0x6e617070u

struct sleeper {
	uint32_t magic; /* SLEEPER_MAGIC */
	double iteration_s, open_s;
};

struct nap {
	uint32_t magic; /* NAP_MAGIC */
	const struct espl_trial_context *context;
	double x, iteration_s;
	uint64_t done; /* the region */
};

static espl_status
sleep_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct sleeper *s = calloc(1, sizeof *s);

	(void)host;
	if (s == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	s->magic = SLEEPER_MAGIC;
	s->iteration_s = config->values[0].as.r;
	s->open_s = config->values[1].as.r;
	*self = s;
	return ESPL_OK;
}

/* Interruptions neither shorten nor lengthen it. */
static espl_status
rest_seconds(const struct espl_trial_context *context, double seconds, struct espl_error *error)
{
	struct timespec left;

	if (context->scratch == NULL || context->scratch[0] == '\0' || !(seconds > 0))
		return ESPL_OK;
	left.tv_sec = (time_t)seconds;
	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) != 0)
		if (errno != EINTR)
			return espl_fail(error, ESPL_E_REMOTE, "nanosleep: %s", strerror(errno));
	return ESPL_OK;
}

static espl_status
sleep_open(void *self, const struct espl_trial_context *context, void **trial,
    struct espl_error *error)
{
	static const char *const names[] = { "x" };
	const struct sleeper *s = self;
	const struct espl_setting *setting = problem_setting(context, "iteration_s");
	struct nap *n = calloc(1, sizeof *n);
	espl_status st;

	ESPL_ASSERT(s != NULL && s->magic == SLEEPER_MAGIC);
	if (n == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	n->magic = NAP_MAGIC;
	n->context = context;
	n->iteration_s = setting != NULL ? problem_number(setting) : s->iteration_s;
	st = problem_settings(context, names, 1, &n->x, error);
	if (st == ESPL_OK && !(n->iteration_s >= 0 && n->iteration_s <= 86400))
		st = espl_fail(error, ESPL_E_CONFIG,
		    "parameter 'iteration_s' is '%s', not a number of seconds up to a day",
		    setting->text);
	if (st == ESPL_OK)
		st = rest_seconds(context, s->open_s, error);
	if (st != ESPL_OK) {
		free(n);
		return st;
	}
	*trial = n;
	return ESPL_OK;
}

static espl_status
sleep_step(void *trial, uint64_t iteration, struct espl_report_sink *sink, struct espl_error *error)
{
	struct nap *n = trial;
	uint32_t world = n->context->comm != NULL ? n->context->comm->world : 1;
	espl_status st;

	ESPL_ASSERT(n->magic == NAP_MAGIC);
	if (iteration != n->done + 1)
		return espl_fail(error, ESPL_E_BUG,
		    "iteration %llu follows %llu; the state belongs to another trial",
		    (unsigned long long)iteration, (unsigned long long)n->done);
	st = rest_seconds(n->context, n->iteration_s / (world > 0 ? world : 1), error);
	if (st == ESPL_OK && world > 1)
		st = n->context->comm->barrier(n->context->comm);
	if (st != ESPL_OK)
		return st;
	n->done = iteration;
	return sink->metric(sink, "loss", (n->x - 0.3) * (n->x - 0.3) + 1.0 / (double)iteration);
}

static espl_status
sleep_regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct nap *n = trial;

	(void)error;
	ESPL_ASSERT(n != NULL && n->magic == NAP_MAGIC);
	return sink->region(sink, "done", &n->done, sizeof n->done, ESPL_CPU);
}

static espl_status
sleep_resize(void *trial, const struct espl_trial_context *context, struct espl_error *error)
{
	struct nap *n = trial;

	(void)error;
	ESPL_ASSERT(n != NULL && n->magic == NAP_MAGIC && context != NULL);
	n->context = context;
	return ESPL_OK;
}

static void
sleep_close(void *trial)
{
	struct nap *n = trial;

	ESPL_ASSERT(n != NULL && n->magic == NAP_MAGIC);
	n->magic = 0;
	free(n);
}

static void
sleep_destroy(void *self)
{
	struct sleeper *s = self;

	ESPL_ASSERT(s != NULL && s->magic == SLEEPER_MAGIC);
	s->magic = 0;
	free(s);
}

PROBLEM_SUITS(sleep)

static const struct espl_trainable_ops ops = { ESPL_TABLE(struct espl_trainable_ops),
	.open = sleep_open, .close = sleep_close, .step = sleep_step, .regions = sleep_regions,
	.resize = sleep_resize, .resized = problem_resized, .suits = sleep_suits };

ESPL_PLUGIN(trainable, sleep) = { ESPL_HEAD(ESPL_TRAINABLE, "sleep"), .version = "0.1",
	.summary =
	    "sleep iteration_s seconds per iteration, divided by the size of the gang; loss from x",
	ESPL_OPTIONS(options), .ops = &ops.head, .create = sleep_create, .destroy = sleep_destroy };
