/* build_space.c - the kit's search space: parameters made by calls, with the space's functions.
 */
#include <math.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "kit.h"

static double
round_to(const struct espl_param *p, double value)
{
	if (p->type == ESPL_INT)
		value = floor(value + 0.5);
	else if (p->quantum > 0)
		value = p->low + p->quantum * floor((value - p->low) / p->quantum + 0.5);
	return value < p->low ? p->low : value > p->high ? p->high : value;
}

static double
from_u(const struct espl_param *p, double u)
{
	double span = p->high - p->low;

	if (p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL)
		return fmin(floor(u * p->label_count), p->label_count - 1.0);
	if (p->scale == ESPL_LOG)
		return round_to(p, p->low * pow(p->high / p->low, u));
	if (p->scale == ESPL_REVERSE_LOG)
		return round_to(p, p->high + p->low - p->low * pow(p->high / p->low, 1 - u));
	return round_to(p, p->low + span * u);
}

static double
to_u(const struct espl_param *p, double value)
{
	double u;

	if (p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL)
		return (value + 0.5) / p->label_count;
	if (p->high <= p->low)
		return 0.5;
	if (p->scale == ESPL_LOG)
		u = log(value / p->low) / log(p->high / p->low);
	else if (p->scale == ESPL_REVERSE_LOG)
		u = 1 - log((p->high + p->low - value) / p->low) / log(p->high / p->low);
	else
		u = (value - p->low) / (p->high - p->low);
	return fmin(fmax(u, 0.0), 1.0);
}

/* Do its conditions hold?  All that come before are already known in values. */
static int
is_active(const struct espl_param *p, const double *values)
{
	uint32_t i, k;

	for (i = 0; i < p->when_count; i++) {
		int any = 0;

		for (k = 0; k < p->when_count; k++)
			any |= p->when[k].param == p->when[i].param &&
			    values[p->when[k].param] == p->when[k].value;
		if (!any)
			return 0;
	}
	return 1;
}

static uint32_t
space_find(const struct espl_space *space, const char *name)
{
	uint32_t i;

	for (i = 0; i < space->param_count; i++)
		if (strcmp(space->params[i]->name, name) == 0)
			return i;
	return ESPL_ANY;
}

static double
space_value(const struct espl_space *space, uint32_t param, double u)
{
	return param < space->param_count ? from_u(space->params[param], u) : NAN;
}

static espl_status
space_from_unit(const struct espl_space *space, const double *unit, double *values)
{
	uint32_t i;

	for (i = 0; i < space->param_count; i++) {
		if (!(unit[i] >= 0 && unit[i] <= 1))
			return ESPL_E_BUG;
		values[i] =
		    is_active(space->params[i], values) ? from_u(space->params[i], unit[i]) : NAN;
	}
	return ESPL_OK;
}

static espl_status
space_to_unit(const struct espl_space *space, const double *values, double *unit)
{
	uint32_t i;

	for (i = 0; i < space->param_count; i++)
		unit[i] = isnan(values[i]) ? NAN : to_u(space->params[i], values[i]);
	return ESPL_OK;
}

static espl_status
space_snap(const struct espl_space *space, double *values, uint32_t *missing)
{
	uint32_t i;

	for (i = 0; i < space->param_count; i++) {
		const struct espl_param *p = space->params[i];

		if (!is_active(p, values)) {
			values[i] = NAN;
		} else if (isnan(values[i])) {
			if (missing != NULL)
				*missing = i;
			return ESPL_E_UNKNOWN;
		} else if (p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL) {
			values[i] = fmin(fmax(floor(values[i] + 0.5), 0), p->label_count - 1.0);
		} else {
			values[i] = round_to(p, values[i]);
		}
	}
	return ESPL_OK;
}

static uint64_t
space_hash(const struct espl_space *space, const double *values)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325), bits; /* FNV-1a over words */
	uint32_t i;

	for (i = 0; i < space->param_count; i++) {
		double value = isnan(values[i]) ? (double)NAN : values[i] + 0.0;

		memcpy(&bits, &value, sizeof bits);
		hash = (hash ^ bits) * UINT64_C(0x100000001b3);
		hash ^= hash >> 29;
	}
	return hash;
}

static const double *
first_at(const struct espl_first *first, uint32_t index)
{
	const struct espl_kit *kit = first->ctx;

	ESPL_ASSERT(kit != NULL && kit->magic == KIT_MAGIC);
	return index < first->count ? kit->points[index] : NULL;
}

void
espl__kit_space_init(struct espl_kit *kit)
{
	kit->space.size = (uint32_t)sizeof kit->space;
	kit->space.ctx = kit;
	kit->space.find = space_find;
	kit->space.value = space_value;
	kit->space.from_unit = space_from_unit;
	kit->space.to_unit = space_to_unit;
	kit->space.snap = space_snap;
	kit->space.hash = space_hash;
	kit->first.size = (uint32_t)sizeof kit->first;
	kit->first.ctx = kit;
	kit->first.at = first_at;
}

/* ---- making parameters ------------------------------------------------------------------- */

static struct espl_param *
add_param(struct espl_kit *kit, const char *name, espl_param_type type)
{
	struct espl_param *param = espl__kit_alloc(kit, sizeof *param);
	uint32_t n = kit->space.param_count;

	if (kit->plugin != NULL || kit->first.count > 0)
		espl__kit_stop("parameters come before the user's points and the plugin");
	param->size = (uint32_t)sizeof *param;
	param->type = type;
	param->scale = ESPL_LINEAR;
	param->name = espl__kit_text(kit, name, strlen(name));
	param->fallback = NAN;
	kit->params = espl__kit_more(kit, kit->params, n, sizeof *kit->params);
	kit->params[n] = param;
	kit->space.params = (const struct espl_param *const *)kit->params;
	kit->space.param_count = n + 1;
	return param;
}

void
espl_kit_real(struct espl_kit *kit, const char *name, double low, double high, espl_scale scale,
    double quantum)
{
	struct espl_param *p = add_param(kit, name, ESPL_REAL);

	ESPL_ASSERT(low <= high && quantum >= 0);
	p->scale = scale;
	p->low = low;
	p->high = high;
	p->quantum = quantum;
	p->levels = quantum > 0 ? (uint64_t)floor((high - low) / quantum + 1e-9) + 1 : 0;
}

void
espl_kit_int(struct espl_kit *kit, const char *name, int64_t low, int64_t high, espl_scale scale)
{
	struct espl_param *p = add_param(kit, name, ESPL_INT);

	ESPL_ASSERT(low <= high);
	p->scale = scale;
	p->low = (double)low;
	p->high = (double)high;
	p->levels = (uint64_t)(high - low) + 1;
}

void
espl_kit_choice(struct espl_kit *kit, const char *name, const char *labels)
{
	struct espl_param *p = add_param(kit, name, ESPL_CHOICE);
	const char **list = NULL;
	size_t length;

	for (; *labels != '\0'; labels += length + (labels[length] == '|')) {
		length = strcspn(labels, "|");
		list = espl__kit_more(kit, list, p->label_count, sizeof *list);
		list[p->label_count++] = espl__kit_text(kit, labels, length);
	}
	p->labels = list;
	p->levels = p->label_count;
}

void
espl_kit_when(struct espl_kit *kit, const char *parent, double value)
{
	uint32_t n = kit->space.param_count, at = space_find(&kit->space, parent);
	struct espl_param *param;
	struct espl_when *when;

	if (n == 0 || at >= n - 1)
		espl__kit_stop("espl_kit_when: no such earlier parameter");
	param = kit->params[n - 1];
	when = espl__kit_more(kit, param->when, param->when_count, sizeof *when);
	when[param->when_count].param = at;
	when[param->when_count].zero = 0;
	when[param->when_count].value = value;
	param->when = when;
	param->when_count++;
}

void
espl_kit_first(struct espl_kit *kit, const double *values)
{
	size_t size = kit->space.param_count * sizeof *values;
	double *copy = espl__kit_alloc(kit, size + sizeof *values);

	memcpy(copy, values, size);
	kit->points = espl__kit_more(kit, kit->points, kit->first.count, sizeof *kit->points);
	kit->points[kit->first.count++] = copy;
}

const struct espl_space *
espl_kit_space(struct espl_kit *kit)
{
	return &kit->space;
}
