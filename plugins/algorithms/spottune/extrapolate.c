/* extrapolate.c - see extrapolate.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "curve_fit.h"

#define POINTS_MIN 5u /* four coefficients need one more */
#define STEADY 5u     /* changes before a stage */
/* Weights halve with each tenth of the prefix: exp2(-10) at its begin. */
#define HALVINGS 10.0
#define DAMPED_MOST 0.2

/* ---- options ------------------------------------------------------------------------------ */

struct word {
	const char *name;
	uint32_t value;
};
static const struct word kinds[] = { { "last", ESPL_EXTRAPOLATE_LAST },
	{ "earlycurve", ESPL_EXTRAPOLATE_EARLYCURVE }, { "slaq", ESPL_EXTRAPOLATE_SLAQ },
	{ "power", ESPL_EXTRAPOLATE_POWER }, { "damped", ESPL_EXTRAPOLATE_DAMPED }, { NULL, 0 } };
static const struct word steps[] = { { "local", 1 }, { "global", 0 }, { NULL, 0 } };
static const struct word weights[] = { { "recent", 1 }, { "uniform", 0 }, { NULL, 0 } };
static const struct word anchors[] = { { "last", 1 }, { "none", 0 }, { NULL, 0 } };

static const struct word *
find_word(const struct word *words, const char *text, size_t length)
{
	for (; words->name != NULL; words++)
		if (strlen(words->name) == length && memcmp(words->name, text, length) == 0)
			return words;
	return NULL;
}

/* A positive decimal number: digits, perhaps with a point.  The C library's would depend on the
 * locale. */
static int
read_threshold(const char *text, size_t length, double *to)
{
	double value = 0, unit = 1;
	size_t digits = 0, points = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] >= '0' && text[i] <= '9') {
			value = 10 * value + (text[i] - '0');
			unit *= points > 0 ? 10 : 1;
			digits++;
		} else if (text[i] == '.') {
			points++;
		} else {
			return 0;
		}
	}
	if (digits == 0 || digits > 15 || points > 1 || value <= 0)
		return 0;
	*to = value / unit;
	return 1;
}

/* One NAME=VALUE of `length` characters.  0: it is none of this kind. */
static int
read_option(struct espl_extrapolator *e, const char *text, size_t length)
{
	const char *equals = memchr(text, '=', length), *value = equals + 1;
	const struct word *word = NULL;
	size_t left, name;

	if (equals == NULL || e->kind == ESPL_EXTRAPOLATE_LAST ||
	    e->kind == ESPL_EXTRAPOLATE_DAMPED)
		return 0;
	name = (size_t)(equals - text);
	left = length - name - 1;
	if (e->kind == ESPL_EXTRAPOLATE_EARLYCURVE) {
		if (name == 2 && memcmp(text, "xi", 2) == 0)
			return read_threshold(value, left, &e->xi);
		if (name == 3 && memcmp(text, "eps", 3) == 0)
			return read_threshold(value, left, &e->eps);
		if (name == 4 && memcmp(text, "step", 4) == 0 &&
		    (word = find_word(steps, value, left)) != NULL)
			e->local = word->value;
	}
	if (name == 7 && memcmp(text, "weights", 7) == 0 &&
	    (word = find_word(weights, value, left)) != NULL)
		e->recent = word->value;
	if (name == 6 && memcmp(text, "anchor", 6) == 0 &&
	    (word = find_word(anchors, value, left)) != NULL)
		e->anchored = word->value;
	return word != NULL;
}

const char *
espl_extrapolator_read(struct espl_extrapolator *e, const char *words, char *text, size_t size)
{
	size_t length = strcspn(words, ",");
	const struct word *kind = find_word(kinds, words, length);

	memset(e, 0, sizeof *e);
	if (kind == NULL) {
		(void)snprintf(text, size,
		    "'%.*s' is not an extrapolator (last, earlycurve, slaq, power or damped)",
		    (int)(length < 40 ? length : 40), words);
		return text;
	}
	e->kind = kind->value;
	e->stages = e->local = e->kind == ESPL_EXTRAPOLATE_EARLYCURVE;
	e->recent = e->kind != ESPL_EXTRAPOLATE_EARLYCURVE;
	e->xi = 0.1;
	e->eps = 0.05;
	while (words[length] == ',') {
		words += length + 1;
		length = strcspn(words, ",");
		if (!read_option(e, words, length)) {
			(void)snprintf(text, size, "'%.*s' is not an option of %s%s",
			    (int)(length < 40 ? length : 40), words, kind->name,
			    e->kind == ESPL_EXTRAPOLATE_EARLYCURVE
				? " (xi=X, eps=X, step=local|global, weights=recent|uniform, "
				  "anchor=last|none)"
				: e->kind == ESPL_EXTRAPOLATE_LAST ||
				    e->kind == ESPL_EXTRAPOLATE_DAMPED
				? ", which has none"
				: " (weights=recent|uniform, anchor=last|none)");
			return text;
		}
	}
	return NULL;
}

/* ---- stages ------------------------------------------------------------------------------- */

static double
value_of(const struct espl_extrapolator *e, const struct espl_point *point)
{
	return e->ceiling > 0 ? e->ceiling - point->y : point->y;
}

static int
is_known(const struct espl_point *point)
{
	return isfinite(point->x) && isfinite(point->y);
}

/* Walks along a curve and sees where stages begin. */
struct walk {
	double value;    /* of the point before */
	uint32_t known;  /* points so far */
	uint32_t steady; /* changes below eps in a row */
};

/* Does the point begin a stage? */
static int
advance_walk(struct walk *walk, const struct espl_extrapolator *e, double value)
{
	double change = walk->known == 0 ? 0
	    : value == walk->value       ? 0
					 : fabs(value - walk->value) / fabs(walk->value);
	int begins = walk->known == 0 || (change > e->xi && walk->steady >= STEADY);

	walk->steady = walk->known > 0 && change < e->eps ? walk->steady + 1 : 0;
	walk->value = value;
	walk->known++;
	return begins;
}

uint32_t
espl_curve_stages(const struct espl_extrapolator *e, const struct espl_point *points,
    uint32_t count, uint32_t *starts, uint32_t room)
{
	struct walk walk = { 0, 0, 0 };
	uint32_t stages = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!is_known(&points[i]) || !advance_walk(&walk, e, value_of(e, &points[i])))
			continue;
		if (stages < room)
			starts[stages] = i;
		stages++;
	}
	return stages;
}

int
espl_curve_flat(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count,
    double rate)
{
	double after = 0;
	uint32_t changes = 0;

	for (uint32_t i = count, known = 0; i-- > 0 && changes < STEADY; known++) {
		double value = value_of(e, &points[i]);

		if (!is_known(&points[i]))
			return 0;
		if (known > 0 && value != after && !(fabs(after - value) < rate * fabs(value)))
			return 0;
		changes += known > 0;
		after = value;
	}
	return changes == STEADY;
}

/* ---- predictions -------------------------------------------------------------------------- */

/* What is known of a curve, and what a fit needs of it. */
struct prefix {
	uint32_t known;  /* points */
	uint32_t from;   /* index of the first point to be fitted */
	uint32_t fitted; /* points from there */
	int negative;
	double last, last_x, most; /* last value, its x; the largest value */
	double origin;             /* k = x - origin, in units of `unit` */
	double unit;
};

static struct prefix
look_at(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count)
{
	struct prefix p = { .most = -INFINITY };
	struct walk walk = { 0, 0, 0 };

	for (uint32_t i = 0; i < count; i++) {
		double value = value_of(e, &points[i]);

		if (!is_known(&points[i]))
			continue;
		p.known++;
		p.negative |= !(value >= 0) || !(points[i].x > 0);
		p.most = value > p.most ? value : p.most;
		p.last = value;
		p.last_x = points[i].x;
		p.fitted++;
		if ((advance_walk(&walk, e, value) && e->stages) || p.known == 1) {
			p.from = i;
			p.fitted = 1;
		}
	}
	p.origin = e->local && p.known > 0 ? points[p.from].x - 1 : 0;
	p.unit = p.last_x - p.origin;
	return p;
}

/* Neighbors are averaged where there are more points than are fitted. */
static void
take_samples(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count,
    const struct prefix *p, struct espl_samples *s)
{
	uint32_t taken = 0;
	double span = p->last_x - points[p->from].x;

	s->count = p->fitted < ESPL_EXTRAPOLATE_POINTS ? p->fitted : ESPL_EXTRAPOLATE_POINTS;
	memset(s->w, 0, s->count * sizeof *s->w);
	for (uint32_t i = p->from; i < count; i++) {
		double x = (points[i].x - p->origin) / p->unit, w = 1;
		uint32_t at = (uint32_t)((uint64_t)taken * s->count / p->fitted);

		if (!is_known(&points[i]))
			continue;
		taken++;
		if (e->recent && span > 0)
			w = exp2(-HALVINGS * (p->last_x - points[i].x) / span);
		if (s->w[at] == 0)
			s->x[at] = s->y[at] = 0;
		s->x[at] += w * x;
		s->y[at] += w * (value_of(e, &points[i]) / p->most);
		s->w[at] += w;
	}
	ESPL_ASSERT(taken == p->fitted);
	for (uint32_t i = 0; i < s->count; i++) {
		s->x[i] /= s->w[i];
		s->y[i] /= s->w[i];
	}
}

/* By how much the last value is below the least of the first `share` of the prefix.  Not the value
 * at that point: it may be a spike. */
static double
progress_since(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count,
    const struct prefix *p, double share)
{
	double least = INFINITY, first = points[p->from].x;

	for (uint32_t i = p->from; i < count; i++)
		if (is_known(&points[i]) && points[i].x <= first + share * (p->last_x - first))
			least = fmin(least, value_of(e, &points[i]));
	return least > p->last ? least - p->last : 0;
}

/* Half of the expected fall, but no more than the value fell of late, and no more than
 * DAMPED_MOST of it for each length of the prefix still ahead: undamped fits of noisy curves
 * predict far too much, and a search would then prefer the noisiest trials. */
static double
damp_change(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count,
    const struct prefix *p, double change, double at)
{
	double limits[] = { progress_since(e, points, count, p, 0.5),
		progress_since(e, points, count, p, 0.75),
		DAMPED_MOST * p->last * (at - p->last_x) / p->last_x };

	change /= 2;
	for (uint32_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
		change = change < limits[i] ? change : limits[i];
	return change;
}

static double
fit_and_predict(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count,
    const struct prefix *p, double at)
{
	struct espl_samples s;
	double x = (at - p->origin) / p->unit, end, now, c[4];

	take_samples(e, points, count, p, &s);
	if (e->kind == ESPL_EXTRAPOLATE_POWER || e->kind == ESPL_EXTRAPOLATE_DAMPED) {
		(void)espl_fit_power(&s, c);
		end = espl_power_at(c, x);
		now = espl_power_at(c, 1);
	} else {
		(void)espl_fit_inverse(&s, c);
		end = espl_inverse_at(c, x);
		now = espl_inverse_at(c, 1);
	}
	if (e->kind == ESPL_EXTRAPOLATE_DAMPED)
		return p->last - damp_change(e, points, count, p, (now - end) * p->most, at);
	return e->anchored ? p->last - (now - end) * p->most : end * p->most;
}

uint32_t
espl_extrapolate(const struct espl_extrapolator *e, const struct espl_point *points, uint32_t count,
    double at, double *prediction)
{
	struct prefix p = look_at(e, points, count);
	uint32_t how = ESPL_EXTRAPOLATED_FIT;
	double value = p.last;

	ESPL_ASSERT(e->kind >= ESPL_EXTRAPOLATE_LAST && e->kind <= ESPL_EXTRAPOLATE_DAMPED);
	if (p.known == 0) {
		how = ESPL_EXTRAPOLATED_NONE;
		value = INFINITY;
	} else if (e->kind == ESPL_EXTRAPOLATE_LAST || !(at > p.last_x)) {
		how = ESPL_EXTRAPOLATED_LAST;
	} else if (p.negative) {
		how = ESPL_EXTRAPOLATED_RANGE;
	} else if (p.fitted < POINTS_MIN) {
		how = ESPL_EXTRAPOLATED_FEW;
	} else if (p.most > 0) {
		value = fit_and_predict(e, points, count, &p, at);
		ESPL_ASSERT(!isnan(value));
		value = value < 0 ? 0 : value > p.most ? p.most : value;
	}
	*prediction = e->ceiling > 0 ? e->ceiling - value : value;
	return how;
}
