/* problem.h - what the test problems share: their settings by name, repeatable noise, and the one
 * region that is their state.
 *
 * Noise is a function of (seed, iteration, draw) alone: fresh for every trial and iteration, and
 * the same on whatever machine, gang or retry the iteration is run.
 */
#ifndef PROBLEM_H
#define PROBLEM_H
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/trainable.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>

#ifdef __GNUC__
#define PROBLEM_UNUSED __attribute__((unused))
#else
#define PROBLEM_UNUSED
#endif

/* ---- noise ------------------------------------------------------------------------------- */

static inline uint64_t
problem_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Uniform in (0, 1). */
static PROBLEM_UNUSED double
problem_uniform(uint64_t seed, uint64_t iteration, uint64_t draw)
{
	uint64_t bits = problem_mix(problem_mix(problem_mix(seed) ^ iteration) ^ draw);

	return ((double)(bits >> 12) + 0.5) * 0x1.0p-52;
}

static PROBLEM_UNUSED double
problem_normal(uint64_t seed, uint64_t iteration, uint64_t draw)
{
	double u = problem_uniform(seed, iteration, 2 * draw);
	double v = problem_uniform(seed, iteration, 2 * draw + 1);

	return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- settings ------------------------------------------------------------------------------ */

/* A setting's number, be it a number or a label that reads as one; NaN otherwise. */
static PROBLEM_UNUSED double
problem_number(const struct espl_setting *setting)
{
	char *end;
	double v;

	if (!isnan(setting->value))
		return setting->value;
	if (setting->text == NULL || setting->text[0] == '\0')
		return NAN;
	v = strtod(setting->text, &end);
	return *end == '\0' ? v : NAN;
}

static PROBLEM_UNUSED const struct espl_setting *
problem_setting(const struct espl_trial_context *context, const char *name)
{
	for (uint32_t i = 0; i < context->setting_count; i++)
		if (strcmp(context->settings[i].name, name) == 0)
			return &context->settings[i];
	return NULL;
}

/* All `names` as numbers; E_CONFIG names every one that is missing. */
static PROBLEM_UNUSED espl_status
problem_settings(const struct espl_trial_context *context, const char *const *names, uint32_t count,
    double *values, struct espl_error *error)
{
	char missing[160] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct espl_setting *setting = problem_setting(context, names[i]);

		if (setting != NULL) {
			values[i] = problem_number(setting);
			if (!isfinite(values[i]))
				return espl_fail(error, ESPL_E_CONFIG,
				    "parameter '%s' is '%s', not a number", names[i],
				    setting->text);
			continue;
		}
		if (at < sizeof missing)
			at += (size_t)snprintf(missing + at, sizeof missing - at, "%s%s",
			    at > 0 ? ", " : "", names[i]);
	}
	if (at > 0)
		return espl_fail(error, ESPL_E_CONFIG,
		    "the search space lacks parameters of this problem: %s", missing);
	return ESPL_OK;
}

/* ---- an instance with the options bias, noise, z_max, and perhaps regret ------------------- */

#define PROBLEM_MAGIC 0x70726f62u
#define PROBLEM_TRIAL_MAGIC 0x70747269u

struct problem {
	uint32_t magic; /* PROBLEM_MAGIC */
	double bias, noise;
	int64_t z_max;
	int regret; /* is it reported? */
};

/* clang-format off */
#define PROBLEM_OPTIONS(bias_, bias_help_, noise_, noise_help_) \
	{ .name = "bias", .type = ESPL_OPT_REAL, .fallback = (bias_), .help = bias_help_, \
	  .flags = ESPL_OPT_EXPERIMENTAL }, \
	{ .name = "noise", .type = ESPL_OPT_REAL, .fallback = (noise_), .min = "0", \
	  .help = noise_help_, .flags = ESPL_OPT_EXPERIMENTAL }, \
	{ .name = "z_max", .type = ESPL_OPT_INT, .fallback = "0", .min = "0", \
	  .help = "iteration at which the value is exact; 0: the last one of the search", \
	  .flags = ESPL_OPT_EXPERIMENTAL }
/* clang-format on */

/* Behind PROBLEM_OPTIONS, for problems whose least value is known. */
/* clang-format off */
#define PROBLEM_REGRET \
	{ .name = "regret", .type = ESPL_OPT_BOOL, .fallback = "false", \
	  .help = "also report 'regret', the excess of the exact value over the " \
	          "minimum (counting_ones: divided by the number of variables)", \
	  .flags = ESPL_OPT_EXPERIMENTAL }
/* clang-format on */
#define PROBLEM_REGRET_AT 3u

static PROBLEM_UNUSED void
problem_read(struct problem *p, const struct espl_config *config)
{
	ESPL_ASSERT(config->count >= PROBLEM_REGRET_AT);
	p->magic = PROBLEM_MAGIC;
	p->bias = config->values[0].as.r;
	p->noise = config->values[1].as.r;
	p->z_max = config->values[2].as.i;
	p->regret =
	    config->count > PROBLEM_REGRET_AT && config->values[PROBLEM_REGRET_AT].as.i != 0;
}

static PROBLEM_UNUSED espl_status
problem_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct problem *p = calloc(1, sizeof *p);

	(void)host;
	if (p == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	problem_read(p, config);
	*self = p;
	return ESPL_OK;
}

static PROBLEM_UNUSED void
problem_destroy(void *self)
{
	struct problem *p = self;

	ESPL_ASSERT(p != NULL && p->magic == PROBLEM_MAGIC);
	p->magic = 0;
	free(p);
}

/* The last fidelity, at least 1. */
static PROBLEM_UNUSED double
problem_z_max(const struct problem *p, const struct espl_trial_context *context)
{
	double z_max = p->z_max > 0 ? (double)p->z_max : (double)context->iterations_max;

	ESPL_ASSERT(p->magic == PROBLEM_MAGIC);
	return z_max >= 1 ? z_max : 1.0;
}

/* ---- a trial without a state but the iterations it has done ------------------------------ */

#define PROBLEM_VALUES 256u
struct problem_trial {
	uint32_t magic; /* PROBLEM_TRIAL_MAGIC */
	const struct problem *problem;
	const struct espl_trial_context *context;
	uint64_t done; /* the region */
	double z_max;
	uint32_t count;
	double x[PROBLEM_VALUES];
};

static PROBLEM_UNUSED struct problem_trial *
problem_open(void *self, const struct espl_trial_context *context, struct espl_error *error)
{
	struct problem_trial *t = malloc(sizeof *t);

	if (t == NULL) {
		(void)espl_fail(error, ESPL_E_NOMEM, "out of memory");
		return NULL;
	}
	memset(t, 0, offsetof(struct problem_trial, x)); /* the caller fills in x */
	t->magic = PROBLEM_TRIAL_MAGIC;
	t->problem = self;
	t->context = context;
	t->z_max = problem_z_max(self, context);
	return t;
}

/* Reports the metrics of an iteration. */
static PROBLEM_UNUSED espl_status
problem_report(const struct problem_trial *t, struct espl_report_sink *sink, double loss,
    double regret)
{
	espl_status st = sink->metric(sink, "loss", loss);

	ESPL_ASSERT(t->magic == PROBLEM_TRIAL_MAGIC && t->problem->magic == PROBLEM_MAGIC);
	return st == ESPL_OK && t->problem->regret ? sink->metric(sink, "regret", regret) : st;
}

static PROBLEM_UNUSED void
problem_close(void *trial)
{
	struct problem_trial *t = trial;

	ESPL_ASSERT(t != NULL && t->magic == PROBLEM_TRIAL_MAGIC);
	t->magic = 0;
	free(t);
}

static PROBLEM_UNUSED espl_status
problem_regions(void *trial, struct espl_region_sink *sink, struct espl_error *error)
{
	struct problem_trial *t = trial;

	(void)error;
	ESPL_ASSERT(t != NULL && t->magic == PROBLEM_TRIAL_MAGIC);
	return sink->region(sink, "done", &t->done, sizeof t->done, ESPL_CPU);
}

static PROBLEM_UNUSED espl_status
problem_resize(void *trial, const struct espl_trial_context *context, struct espl_error *error)
{
	struct problem_trial *t = trial;

	(void)error;
	ESPL_ASSERT(t != NULL && t->magic == PROBLEM_TRIAL_MAGIC && context != NULL);
	t->context = context;
	return ESPL_OK;
}

static PROBLEM_UNUSED espl_status
problem_resized(void *trial, struct espl_error *error)
{
	(void)trial;
	(void)error;
	return ESPL_OK;
}

typedef espl_status problem_open_fn(void *, const struct espl_trial_context *, void **,
    struct espl_error *);

/* Problems read their settings when they open, and do nothing else then. */
static PROBLEM_UNUSED espl_status
problem_try(void *self, const struct espl_trial_context *context, problem_open_fn *open,
    struct espl_error *error)
{
	void *trial = NULL;
	espl_status status = open(self, context, &trial, error);

	free(trial);
	return status;
}

/* The entry `suits` of a problem. */
#define PROBLEM_SUITS(name_) \
	static espl_status name_##_suits(void *self, const struct espl_trial_context *context, \
	    struct espl_error *error) \
	{ \
		return problem_try(self, context, name_##_open, error); \
	}

#define PROBLEM_OPS(name_) \
	{ \
		ESPL_TABLE(struct espl_trainable_ops), \
		    .open = name_##_open, .close = problem_close, .step = name_##_step, \
		    .regions = problem_regions, .resize = problem_resize, \
		    .resized = problem_resized, .suits = name_##_suits \
	}
#endif
