/* space.c - points of the search space: unit cube to values and back, conditions, settings.
 *
 * Values are rounded to 12 significant decimal digits (of the range where the scale is linear, of
 * the value where it is logarithmic). So the value in a trial's JSON is bit for bit the one that
 * the algorithm chose, and from_unit(to_unit(x)) gives x again although exp(log(x)) does not.
 */
#include <math.h>
#include <string.h>
#include <inttypes.h>
#include "base/assert.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "model/space_impl.h"

#define DIGITS 12

static const double tens[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
	1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* 10^k for k >= 0, the same on every platform. */
static double
power_of_ten(int k)
{
	double result = 1.0;

	for (; k > 22; k -= 22)
		result *= tens[22];
	return result * tens[k];
}

/* floor(v) for |v| < 2^63, without a call. */
static double
floor_value(double v)
{
	double cut = (double)(int64_t)v;

	return cut > v ? cut - 1.0 : cut;
}

/* v rounded to a multiple of 10^grid. */
static double
to_grid(double v, int grid)
{
	double scale;

	if (grid < -280 || grid > 280)
		return v;
	if (grid < 0) {
		scale = power_of_ten(-grid);
		if (fabs(v) * scale > 9e15) /* already finer than a double can be */
			return v;
		return floor_value(v * scale + 0.5) / scale;
	}
	scale = power_of_ten(grid);
	return floor(v / scale + 0.5) * scale;
}

/* Exponent e with 10^e <= v < 10^(e+1); v > 0. */
static int
exponent_of_ten(double v)
{
	int e, power;

	(void)frexp(v, &power); /* 2^(power-1) <= v: the estimate is right or one too low */
	e = (int)floor((power - 1) * 0.30102999566398120);
	if (e >= 0 ? e < 300 && v >= power_of_ten(e + 1)
		   : e > -300 && v * power_of_ten(-e - 1) >= 1.0)
		e++;
	return e;
}

static double
clamp_value(double v, double low, double high)
{
	return v < low ? low : v > high ? high : v;
}

/* Of a normal distribution with mean 0 and standard deviation 1: the share below z. */
static double
share_below(double z)
{
	return erfc(-z * 0.70710678118654752) / 2;
}

/* The z below which there is this share: by halves, then by Halley's method. */
static double
normal_at(double share)
{
	double low = -ESPL__NORMAL_MOST - 1, high = ESPL__NORMAL_MOST + 1, z = 0;

	for (int i = 0; i < 8; i++) {
		z = (low + high) / 2;
		if (share_below(z) < share)
			low = z;
		else
			high = z;
	}
	for (int i = 0; i < 4; i++) {
		double density = exp(-z * z / 2) * 0.39894228040143268;
		double step = (share_below(z) - share) / density;

		z -= step / (1 + z * step / 2);
	}
	return z;
}

/* Are values spread evenly over the range? */
static int
is_even(const struct espl__param *p)
{
	return p->pub.scale == ESPL_LINEAR && !(p->sd > 0);
}

void
espl__param_prepare(struct espl__param *p)
{
	struct espl_param *pub = &p->pub;
	double span = pub->high - pub->low, low, high;
	double most = fmax(fabs(pub->low), fabs(pub->high));

	if (pub->type == ESPL_CHOICE || pub->type == ESPL_ORDINAL) {
		pub->levels = pub->label_count;
		return;
	}
	p->step = pub->quantum > 0 ? pub->quantum : pub->type == ESPL_INT ? 1.0 : 0.0;
	p->top = pub->high;
	/* Decimal digits of the range, but no finer than what doubles hold at its far end. */
	p->grid = exponent_of_ten(span) - (DIGITS - 1);
	if (p->grid < exponent_of_ten(most) - (DIGITS + 1))
		p->grid = exponent_of_ten(most) - (DIGITS + 1);
	if (p->step > 0) {
		double n = floor(span / p->step + 1e-9);

		pub->levels = (uint64_t)n + 1;
		p->top = pub->low + n * p->step;
		if (pub->type == ESPL_REAL)
			p->top = clamp_value(to_grid(p->top, p->grid), pub->low, pub->high);
	}
	if (is_even(p))
		return;
	/* Half a step beyond the ends, so that the end levels get their fair part. */
	low = pub->low - p->step / 2;
	high = p->top + p->step / 2;
	if (pub->scale != ESPL_LINEAR && !(low > 0))
		low = pub->low / 2;
	p->edge_low = pub->scale == ESPL_LINEAR ? low : log(low);
	p->edge_high = pub->scale == ESPL_LINEAR ? high : log(high);
	p->share_low = p->sd > 0 ? share_below((p->edge_low - p->mean) / p->sd) : 0;
	p->share_high = p->sd > 0 ? share_below((p->edge_high - p->mean) / p->sd) : 1;
}

/* Where values are not spread evenly: the value as a real number, not rounded yet. */
static double
curved_value(const struct espl__param *p, double u)
{
	double x;

	if (p->sd > 0)
		x = clamp_value(p->mean +
			p->sd * normal_at(p->share_low + u * (p->share_high - p->share_low)),
		    p->edge_low, p->edge_high);
	else if (p->pub.scale == ESPL_LOG)
		x = p->edge_low + u * (p->edge_high - p->edge_low);
	else
		return p->pub.low + p->top - exp(p->edge_high - u * (p->edge_high - p->edge_low));
	return p->pub.scale == ESPL_LOG ? exp(x) : x;
}

static double
value_of_level(const struct espl__param *p, double k)
{
	double v;

	k = clamp_value(k, 0.0, (double)(p->pub.levels - 1));
	v = p->pub.low + k * p->step;
	if (p->pub.type == ESPL_REAL)
		v = clamp_value(to_grid(v, p->grid), p->pub.low, p->pub.high);
	return v;
}

/* Rounding of a value that is no level. */
static double
round_value(const struct espl__param *p, double v)
{
	int grid = p->grid;

	if (v <= p->pub.low || v >= p->pub.high) /* the user's own digits */
		return clamp_value(v, p->pub.low, p->pub.high);
	if (p->pub.scale == ESPL_LOG && v > 0)
		grid = exponent_of_ten(v) - (DIGITS - 1);
	return clamp_value(to_grid(v, grid), p->pub.low, p->pub.high);
}

/* The level or value at u, which is clamped to [0, 1]. */
static double
find_value(const struct espl__param *p, double u)
{
	double n = (double)p->pub.levels, v;

	u = clamp_value(u, 0.0, 1.0);
	if (p->pub.type == ESPL_CHOICE || p->pub.type == ESPL_ORDINAL)
		return fmin(n - 1, floor(u * n));
	if (is_even(p)) {
		if (p->step > 0)
			return value_of_level(p, fmin(n - 1, floor(u * n)));
		return round_value(p, p->pub.low + u * (p->pub.high - p->pub.low));
	}
	v = curved_value(p, u);
	if (p->step == 0)
		return round_value(p, v);
	if (v >= 1e12) { /* beyond this exp(log(v)) is not sure of the last digits */
		int grid = exponent_of_ten(v) - (DIGITS - 1);

		v = to_grid(v, grid);
		if (v >= to_grid(p->top, grid))
			return p->top;
	}
	return value_of_level(p, floor((v - p->pub.low) / p->step + 0.5));
}

double
espl__param_unit(const struct espl__param *p, double v)
{
	const struct espl_param *pub = &p->pub;
	double n = (double)pub->levels, x;

	if (pub->type == ESPL_CHOICE || pub->type == ESPL_ORDINAL)
		return (v + 0.5) / n;
	if (p->step == 0 && (v == pub->low || v == pub->high))
		return v == pub->high ? 1.0 : 0.0;
	if (is_even(p)) {
		if (p->step > 0)
			return (floor((v - pub->low) / p->step + 0.5) + 0.5) / n;
		return (v - pub->low) / (pub->high - pub->low);
	}
	if (p->sd > 0 && (pub->scale == ESPL_LINEAR || v > 0)) {
		x = pub->scale == ESPL_LOG ? log(v) : v;
		return (share_below((x - p->mean) / p->sd) - p->share_low) /
		    (p->share_high - p->share_low);
	}
	x = pub->scale == ESPL_LOG ? v : pub->low + p->top - v;
	if (!(x > 0)) /* outside of the bounds, where the logarithm ends */
		return pub->scale == ESPL_LOG ? 0.0 : 1.0;
	if (pub->scale == ESPL_LOG)
		return (log(x) - p->edge_low) / (p->edge_high - p->edge_low);
	return (p->edge_high - log(x)) / (p->edge_high - p->edge_low);
}

double
espl__param_snap(const struct espl__param *p, double v)
{
	if (p->pub.type == ESPL_CHOICE || p->pub.type == ESPL_ORDINAL)
		return clamp_value(floor(v + 0.5), 0.0, (double)(p->pub.label_count - 1));
	v = clamp_value(v, p->pub.low, p->pub.high);
	/* A whole number is a level already; the difference to a distant bound would be rounded. */
	if (p->pub.type == ESPL_INT && p->step == 1.0 && v == floor(v))
		return v;
	if (p->step > 0)
		return value_of_level(p, floor((v - p->pub.low) / p->step + 0.5));
	return round_value(p, v);
}

int
espl__param_active(const struct espl__space *s, uint32_t param, const double *values)
{
	const struct espl_param *p = &s->params[param].pub;
	uint32_t i = 0;

	ESPL__CHECK(s, SPACE);
	while (i < p->when_count) {
		uint32_t of = p->when[i].param;
		int met = 0;

		for (; i < p->when_count && p->when[i].param == of; i++)
			met |= values[of] == p->when[i].value; /* NaN: inactive, never equal */
		if (!met)
			return 0;
	}
	return 1;
}

uint32_t
espl__param_label(const struct espl__param *p, const char *text, double number)
{
	for (uint32_t i = 0; i < p->pub.label_count; i++)
		if (strcmp(p->labels[i].text, text) == 0)
			return i;
	for (uint32_t i = 0; i < p->pub.label_count; i++)
		if (p->labels[i].kind == ESPL__LABEL_NUMBER && p->labels[i].number == number)
			return i;
	return ESPL_ANY;
}

/* ---- what plugins see -------------------------------------------------------------------- */

static uint32_t
view_find(const struct espl_space *view, const char *name)
{
	const struct espl__space *s = view->ctx;

	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(s->params[i].pub.name, name) == 0)
			return i;
	return ESPL_ANY;
}

static double
view_value(const struct espl_space *view, uint32_t param, double u)
{
	const struct espl__space *s = view->ctx;

	if (param >= s->count || !(u >= 0.0 && u <= 1.0))
		return NAN;
	return find_value(&s->params[param], u);
}

static espl_status
view_from_unit(const struct espl_space *view, const double *unit, double *values)
{
	const struct espl__space *s = view->ctx;

	for (uint32_t i = 0; i < s->count; i++) {
		if (!espl__param_active(s, i, values))
			values[i] = NAN;
		else if (unit[i] >= 0.0 && unit[i] <= 1.0)
			values[i] = find_value(&s->params[i], unit[i]);
		else
			return ESPL_E_REJECTED;
	}
	return ESPL_OK;
}

static espl_status
view_to_unit(const struct espl_space *view, const double *values, double *unit)
{
	const struct espl__space *s = view->ctx;

	for (uint32_t i = 0; i < s->count; i++) {
		if (isnan(values[i]))
			unit[i] = NAN;
		else
			unit[i] = clamp_value(espl__param_unit(&s->params[i], values[i]), 0.0, 1.0);
	}
	return ESPL_OK;
}

static espl_status
view_snap(const struct espl_space *view, double *values, uint32_t *missing)
{
	const struct espl__space *s = view->ctx;

	for (uint32_t i = 0; i < s->count; i++) {
		if (!espl__param_active(s, i, values)) {
			values[i] = NAN;
		} else if (isnan(values[i])) {
			if (missing != NULL)
				*missing = i;
			return ESPL_E_UNKNOWN;
		} else {
			values[i] = espl__param_snap(&s->params[i], values[i]);
		}
	}
	return ESPL_OK;
}

static uint64_t
view_hash(const struct espl_space *view, const double *values)
{
	const struct espl__space *s = view->ctx;
	uint64_t digest = s->count;

	for (uint32_t i = 0; i < s->count; i++) {
		double v = values[i] == 0.0 ? 0.0 : values[i]; /* -0 is 0 */
		uint64_t bits = UINT64_C(0x7ff8000000000000);
		uint8_t bytes[8];

		if (!isnan(v))
			memcpy(&bits, &v, sizeof bits);
		for (int k = 0; k < 8; k++)
			bytes[k] = (uint8_t)(bits >> (8 * k));
		digest = espl__digest(digest, bytes, sizeof bytes);
	}
	return digest;
}

void
espl__space_ready(struct espl__space *s)
{
	ESPL__CHECK(s, SPACE);
	s->pubs = espl__arena_alloc(&s->arena, (s->count + 1) * sizeof *s->pubs);
	for (uint32_t i = 0; i < s->count; i++)
		s->pubs[i] = &s->params[i].pub;
	s->view = (struct espl_space){ .size = sizeof s->view,
		.param_count = s->count,
		.ctx = s,
		.params = s->pubs,
		.find = view_find,
		.value = view_value,
		.from_unit = view_from_unit,
		.to_unit = view_to_unit,
		.snap = view_snap,
		.hash = view_hash };
}

void
espl__space_free(struct espl__space *s)
{
	if (s == NULL)
		return;
	for (uint32_t i = 0; i < s->rule_count; i++)
		espl__expr_free(s->rules[i]);
	free(s->rules);
	espl__arena_free(&s->arena);
	s->magic = 0;
	free(s);
}

const struct espl_space *
espl__space_view(const struct espl__space *s)
{
	ESPL__CHECK(s, SPACE);
	return &s->view;
}

uint32_t
espl__space_count(const struct espl__space *s)
{
	ESPL__CHECK(s, SPACE);
	return s->count;
}

const struct espl__setting *
espl__space_item(const struct espl__space *s, const char *name)
{
	ESPL__CHECK(s, SPACE);
	for (uint32_t i = 0; i < s->item_count; i++)
		if (strcmp(s->items[i].name, name) == 0)
			return &s->items[i];
	return NULL;
}

/* ---- settings and JSON ----------------------------------------------------------------- */

#define NUMBER_ROOM 32

static void
number_text(const struct espl__param *p, double value, char room[NUMBER_ROOM])
{
	if (p->pub.type == ESPL_INT)
		snprintf(room, NUMBER_ROOM, "%" PRId64, (int64_t)value);
	else
		espl__format_value(value, room);
}

/* The label in force, or NULL where the item is a number. */
static const struct espl__label *
item_label(const struct espl__space *s, const struct espl__setting *item, double value)
{
	const struct espl__param *p;

	if (item->param == ESPL_ANY)
		return &item->constant;
	p = &s->params[item->param];
	if (p->labels == NULL)
		return NULL;
	return &p->labels[(uint32_t)clamp_value(value, 0.0, (double)(p->pub.label_count - 1))];
}

void
espl__space_settings(const struct espl__space *s, const double *values, struct espl__settings *out)
{
	ESPL__CHECK(s, SPACE);
	out->list = espl__alloc((s->item_count + 1) * sizeof *out->list);
	out->room = espl__alloc((size_t)(s->item_count + 1) * NUMBER_ROOM);
	out->count = 0;
	for (uint32_t i = 0; i < s->item_count; i++) {
		const struct espl__setting *item = &s->items[i];
		double value = item->param == ESPL_ANY ? 0.0 : values[item->param];
		char *room = out->room + (size_t)i * NUMBER_ROOM;
		const struct espl__label *label;
		struct espl_setting *setting;

		if (isnan(value))
			continue;
		setting = &out->list[out->count++];
		setting->name = item->name;
		label = item_label(s, item, value);
		if (label != NULL) {
			setting->text = label->text;
			setting->value = label->number;
		} else {
			number_text(&s->params[item->param], value, room);
			setting->text = room;
			setting->value = value;
		}
	}
}

void
espl__settings_free(struct espl__settings *settings)
{
	free(settings->list);
	free(settings->room);
	*settings = (struct espl__settings){ NULL, 0, NULL };
}

static void
print_item(const struct espl__space *s, const struct espl__setting *item, double value,
    struct espl__buf *to)
{
	const struct espl__label *label = item_label(s, item, value);
	char room[NUMBER_ROOM];

	if (label == NULL) {
		number_text(&s->params[item->param], value, room);
		espl__print(to, "%s", room);
	} else if (label->kind == ESPL__LABEL_TEXT) {
		espl__print_json(to, label->text);
	} else {
		espl__print(to, "%s", label->text);
	}
}

void
espl__space_json(const struct espl__space *s, const double *values, struct espl__buf *to)
{
	ESPL__CHECK(s, SPACE);
	espl__print(to, "{");
	for (uint32_t i = 0; i < s->item_count; i++) {
		const struct espl__setting *item = &s->items[i];
		double value = item->param == ESPL_ANY ? 0.0 : values[item->param];

		if (isnan(value))
			continue;
		espl__json_key(to, item->name);
		print_item(s, item, value, to);
	}
	espl__print(to, "}");
}

void
espl__space_value_json(const struct espl__space *s, uint32_t param, double value,
    struct espl__buf *to)
{
	const struct espl__setting item = { .param = param };

	ESPL__CHECK(s, SPACE);
	ESPL__ASSERT(param < s->count && !isnan(value));
	print_item(s, &item, value, to);
}
