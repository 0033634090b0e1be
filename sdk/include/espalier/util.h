/* espalier SDK: util.h - small static inline functions, compiled into each plugin. */
#ifndef ESPALIER_UTIL_H
#define ESPALIER_UTIL_H
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <espalier/host.h>
#include <espalier/space.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Does the user allow this valid configuration?  See espl_space.allowed. */
static inline int
espl_space_allows(const struct espl_space *space, const double *values)
{
	return !ESPL_KNOWS(struct espl_space, space, allowed) || space->allowed == NULL ||
	    space->allowed(space, values);
}

/* Fills *error (unless NULL or already filled) and returns status: return espl_fail(...). */
static inline espl_status ESPL_PRINTF(3, 4)
    espl_fail(struct espl_error *error, espl_status status, const char *format, ...)
{
	if (error != NULL && error->status == ESPL_OK) {
		va_list list;
		error->status = status;
		va_start(list, format);
		(void)vsnprintf(error->text, sizeof error->text, format, list);
		va_end(list);
	}
	return status;
}

/* Like espl_fail, but also records the option at fault, so that the host can print FILE:LINE. */
static inline espl_status
espl_blame(struct espl_error *error, uint32_t option, const char *text)
{
	if (error != NULL && error->status == ESPL_OK)
		error->option = option;
	return espl_fail(error, ESPL_E_CONFIG, "%s", text);
}

/* Adds a hint to the failure just recorded, unless it has one already: return espl_hint(error,
 * espl_blame(error, RUNGS, "no rungs"), "raise 'eta'"). */
static inline espl_status ESPL_PRINTF(3, 4)
    espl_hint(struct espl_error *error, espl_status status, const char *format, ...)
{
	if (error != NULL && error->status == status && status != ESPL_OK &&
	    error->hint[0] == '\0') {
		va_list list;
		va_start(list, format);
		(void)vsnprintf(error->hint, sizeof error->hint, format, list);
		va_end(list);
	}
	return status;
}

static inline void ESPL_PRINTF(3, 4)
    espl_logf(const struct espl_host *host, espl_level level, const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	host->log(host, level, text);
}

/* Does the run follow these rules (ESPL_RULES_*), or did it begin with earlier ones? */
static inline int
espl_follows(const struct espl_host *host, uint32_t rules)
{
	return !ESPL_KNOWS(struct espl_host, host, rules) || host->rules == 0 ||
	    host->rules >= rules;
}

/* Uniform in [0, 1), 53 bits: the same on every platform. */
static inline double
espl_uniform(const struct espl_host *host)
{
	return (double)(host->random(host) >> 11) * 0x1.0p-53;
}

/* A random configuration: uniform over the unit cube.  unit and values are the caller's, each of
 * param_count elements; unit holds the draw on return.  Always takes param_count random numbers. */
static inline espl_status
espl_draw(const struct espl_host *host, const struct espl_space *space, double *unit,
    double *values)
{
	uint32_t i;

	for (i = 0; i < space->param_count; i++)
		unit[i] = espl_uniform(host);
	return space->from_unit(space, unit, values);
}

struct espl_score {
	double loss; /* NaN: none; ranked last */
	uint64_t trial;
};

/* For qsort, best first: lower loss first, NaN last, ties by id.  A total order, so the order of
 * arrival does not matter. */
static inline int
espl_score_order(const void *a, const void *b)
{
	const struct espl_score *x = (const struct espl_score *)a;
	const struct espl_score *y = (const struct espl_score *)b;
	int bad_x = isnan(x->loss) ? 1 : 0, bad_y = isnan(y->loss) ? 1 : 0;

	if (bad_x != bad_y)
		return bad_x - bad_y;
	if (!bad_x && x->loss < y->loss)
		return -1;
	if (!bad_x && x->loss > y->loss)
		return 1;
	return x->trial < y->trial ? -1 : x->trial > y->trial ? 1 : 0;
}

/* ns -> seconds, for estimates. */
static inline double
espl_seconds(espl_span span)
{
	return (double)span / 1e9;
}

#ifdef __cplusplus
}
#endif
#endif
