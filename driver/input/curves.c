/* curves.c - the table of recorded curves: read once, then asked by row and iteration. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/assert.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "input/csv.h"
#include "input/input.h"
#include "model/space_impl.h"

#define FILE_MAX ((size_t)1 << 30)
#define ROWS_MAX (1u << 24)

#define FAIL(c_, diag_, ...) \
	espl__fail_at((diag_), ESPL_E_CONFIG, (c_)->file, (c_)->line, __VA_ARGS__)

struct point {
	uint64_t iteration;
	uint32_t row, zero;
};
struct row {
	uint64_t name;
	uint32_t first, count;
}; /* points [first, first + count) */

#define ESPL__CURVES_MAGIC 0x65737470u
struct espl__curves {
	uint32_t magic; /* ESPL__CURVES_MAGIC */
	const struct espl__space *space;
	uint32_t params, metrics;
	struct espl__names names; /* of the metrics */
	struct row *rows;
	uint32_t row_count, row_cap;
	double *values, *units; /* [row][param] */
	double *asked;          /* [param]: where the configuration asked for lies */
	size_t value_cap;
	struct point *points;
	double *numbers; /* [point][metrics + 1]: the last one is the seconds */
	uint32_t point_count, point_cap;
	size_t number_cap;
	struct espl__map by_name, by_hash; /* -> row + 1 as a pointer */
};

struct columns {
	uint32_t *param;  /* [column]: parameter; or ESPL_ANY */
	uint32_t *metric; /* [column]: metric; metrics: seconds; or ESPL_ANY */
	uint32_t config, iteration, count;
};

/* ---- header ---------------------------------------------------------------------------- */

static espl_status
param_column(const struct espl__csv *c, const struct espl__curves *t, uint32_t i,
    struct columns *cols, struct espl__diag *diag)
{
	const char *name = c->fields[i];
	const struct espl__setting *item;

	if (t->space == NULL)
		return ESPL_OK; /* parameters are not wanted */
	item = espl__space_item(t->space, name);
	if (item == NULL) {
		FAIL(c, diag, "the space has no parameter '%s'", name);
		for (uint32_t k = 0; k < t->space->item_count; k++)
			if (espl__nearest(name, &t->space->items[k].name, 1) != NULL)
				espl__hint(diag, "did you mean '%s'?", t->space->items[k].name);
		espl__hint(diag,
		    "columns before 'iteration' are parameters, columns after it are metrics");
		return ESPL_E_CONFIG;
	}
	for (uint32_t k = 0; k < i; k++)
		if (item->param != ESPL_ANY && cols->param[k] == item->param)
			return FAIL(c, diag, "duplicate column '%s'", name);
	cols->param[i] = item->param; /* ESPL_ANY: a constant, nothing to compare */
	return ESPL_OK;
}

static espl_status
metric_column(const struct espl__csv *c, struct espl__curves *t, uint32_t i, struct columns *cols,
    struct espl__diag *diag)
{
	const char *name = c->fields[i];

	if (name[0] == '\0')
		return FAIL(c, diag, "column %u has no name", i + 1);
	if (strcmp(name, "seconds") == 0) {
		for (uint32_t k = 0; k < i; k++)
			if (cols->metric[k] == UINT32_MAX - 1)
				return FAIL(c, diag, "duplicate column 'seconds'");
		cols->metric[i] = UINT32_MAX - 1;
		return ESPL_OK;
	}
	if (espl__names_find(&t->names, name) != ESPL_ANY)
		return FAIL(c, diag, "duplicate column '%s'", name);
	cols->metric[i] = espl__names_add(&t->names, name);
	return ESPL_OK;
}

static espl_status
read_header(const struct espl__csv *c, struct espl__curves *t, struct columns *cols,
    struct espl__diag *diag)
{
	espl_status st;

	cols->count = c->count;
	cols->param = espl__alloc(c->count * sizeof *cols->param);
	cols->metric = espl__alloc(c->count * sizeof *cols->metric);
	cols->iteration = 0;
	memset(cols->param, 0xff, c->count * sizeof *cols->param);
	memset(cols->metric, 0xff, c->count * sizeof *cols->metric);
	if (strcmp(c->fields[0], "config") != 0) {
		FAIL(c, diag, "the first column is '%s', not 'config'", c->fields[0]);
		espl__hint(diag, "header: config,PARAMETERS,iteration,METRICS[,seconds]");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 1; i < c->count; i++) {
		if (cols->iteration == 0 && strcmp(c->fields[i], "iteration") == 0)
			cols->iteration = i;
		else if (cols->iteration == 0 &&
		    (st = param_column(c, t, i, cols, diag)) != ESPL_OK)
			return st;
		else if (cols->iteration != 0 &&
		    (st = metric_column(c, t, i, cols, diag)) != ESPL_OK)
			return st;
	}
	if (cols->iteration == 0)
		return FAIL(c, diag, "there is no column 'iteration'");
	t->metrics = t->names.count;
	if (t->metrics == 0)
		return FAIL(c, diag, "there is no metric column after 'iteration'");
	for (uint32_t i = 0; i < c->count; i++)
		if (cols->metric[i] == UINT32_MAX - 1)
			cols->metric[i] = t->metrics;
	for (uint32_t p = 0; p < t->params; p++) {
		uint32_t i = 0;

		while (i < c->count && cols->param[i] != p)
			i++;
		if (i == c->count) {
			FAIL(c, diag, "there is no column for parameter '%s'",
			    t->space->params[p].pub.name);
			espl__hint(diag,
			    "every parameter of the space needs a column before 'iteration'");
			return ESPL_E_CONFIG;
		}
	}
	return ESPL_OK;
}

/* ---- lines ------------------------------------------------------------------------------- */

/* Recorded values may lie outside of the space's bounds, but labels must be known. */
static espl_status
param_value(const struct espl__csv *c, const struct espl__param *p, const char *text, double *to,
    struct espl__diag *diag)
{
	double v = NAN;
	int numeric = espl__csv_number(text, &v) == 0;
	uint32_t k;

	*to = NAN;
	if (text[0] == '\0')
		return ESPL_OK; /* inactive */
	if (p->labels == NULL) {
		if (!numeric)
			return FAIL(c, diag, "'%s' is not a value of '%s'", text, p->pub.name);
		*to = v;
		return ESPL_OK;
	}
	k = espl__param_label(p, text, numeric ? v : NAN);
	if (k == ESPL_ANY) {
		FAIL(c, diag, "'%s' is not one of the values of '%s'", text, p->pub.name);
		text = espl__nearest(text, p->pub.labels, p->pub.label_count);
		if (text != NULL)
			espl__hint(diag, "did you mean '%s'?", text);
		return ESPL_E_CONFIG;
	}
	*to = k;
	return ESPL_OK;
}

static int
is_same_number(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

/* The row of this line's configuration, a new one at first sight. */
static espl_status
find_row(const struct espl__csv *c, struct espl__curves *t, const struct columns *cols,
    double *values, uint32_t *row, struct espl__diag *diag)
{
	uint64_t key = espl__digest(0, c->fields[0], strlen(c->fields[0]));
	void *known = espl__map_get(&t->by_name, key);

	for (uint32_t i = 1; i < cols->count; i++) {
		uint32_t p = cols->param[i];
		espl_status st;

		if (p == ESPL_ANY)
			continue;
		st = param_value(c, &t->space->params[p], c->fields[i], &values[p], diag);
		if (st != ESPL_OK)
			return st;
	}
	if (known != NULL) {
		*row = (uint32_t)((uintptr_t)known - 1);
		for (uint32_t p = 0; p < t->params; p++)
			if (!is_same_number(values[p], t->values[(size_t)*row * t->params + p]))
				return FAIL(c, diag,
				    "configuration '%s' has a different '%s' than before",
				    c->fields[0], t->space->params[p].pub.name);
		return ESPL_OK;
	}
	if (t->row_count == ROWS_MAX)
		return FAIL(c, diag, "more than %u configurations", ROWS_MAX);
	*row = t->row_count++;
	ESPL__GROW(t->rows, t->row_cap, t->row_count);
	ESPL__GROW(t->values, t->value_cap, (size_t)t->row_count * (t->params + 1));
	t->rows[*row] = (struct row){ key, 0, 0 };
	memcpy(t->values + (size_t)*row * t->params, values, t->params * sizeof *values);
	espl__map_set(&t->by_name, key, (void *)((uintptr_t)*row + 1));
	return ESPL_OK;
}

static espl_status
read_line(const struct espl__csv *c, struct espl__curves *t, const struct columns *cols,
    double *values, struct espl__diag *diag)
{
	struct point p = { 0, 0, 0 };
	int64_t iteration;
	double *to;
	espl_status st;

	if (c->count != cols->count)
		return FAIL(c, diag, "%u fields, but the header has %u", c->count, cols->count);
	if (espl__parse_int(c->fields[cols->iteration], &iteration) != 0 || iteration < 0)
		return FAIL(c, diag, "'%s' is not an iteration number", c->fields[cols->iteration]);
	p.iteration = (uint64_t)iteration;
	st = find_row(c, t, cols, values, &p.row, diag);
	if (st != ESPL_OK)
		return st;
	if (t->point_count == UINT32_MAX - 8)
		return FAIL(c, diag, "too many lines");
	ESPL__GROW(t->points, t->point_cap, t->point_count + 1);
	ESPL__GROW(t->numbers, t->number_cap, (size_t)(t->point_count + 1) * (t->metrics + 1));
	to = t->numbers + (size_t)t->point_count * (t->metrics + 1);
	to[t->metrics] = NAN;
	for (uint32_t i = cols->iteration + 1; i < cols->count; i++) {
		double *at = &to[cols->metric[i]];

		if (espl__csv_number(c->fields[i], at) != 0)
			return FAIL(c, diag, "'%s' is not a number", c->fields[i]);
		if (cols->metric[i] == t->metrics && *at < 0)
			return FAIL(c, diag, "seconds are negative");
	}
	/* Rising within a configuration; its last point so far is found through `first`. */
	if (t->rows[p.row].count > 0 && t->points[t->rows[p.row].first].iteration >= p.iteration) {
		FAIL(c, diag, "iteration %llu of configuration '%s' does not follow %llu",
		    (unsigned long long)p.iteration, c->fields[0],
		    (unsigned long long)t->points[t->rows[p.row].first].iteration);
		espl__hint(diag, "the iterations of a configuration must increase");
		return ESPL_E_CONFIG;
	}
	t->rows[p.row].first = t->point_count;
	t->rows[p.row].count++;
	t->points[t->point_count++] = p;
	return ESPL_OK;
}

/* ---- what makes asking quick -------------------------------------------------------------- */

/* Brings the points of a row together, in order. */
static void
gather_points(struct espl__curves *t)
{
	struct point *points = espl__realloc(NULL, (size_t)t->point_count + 1, sizeof *points);
	size_t width = t->metrics + 1u;
	double *numbers =
	    espl__realloc(NULL, ((size_t)t->point_count + 1) * width, sizeof *numbers);
	uint32_t at = 0;

	for (uint32_t r = 0; r < t->row_count; r++) {
		t->rows[r].first = at;
		at += t->rows[r].count;
		t->rows[r].count = 0;
	}
	for (uint32_t i = 0; i < t->point_count; i++) {
		struct row *r = &t->rows[t->points[i].row];
		uint32_t to = r->first + r->count++;

		points[to] = t->points[i];
		memcpy(numbers + to * width, t->numbers + i * width, width * sizeof *numbers);
	}
	free(t->points);
	free(t->numbers);
	t->points = points;
	t->numbers = numbers;
}

static void
index_rows(struct espl__curves *t)
{
	const struct espl_space *view = &t->space->view;
	double *snapped = espl__alloc((t->params + 1u) * sizeof *snapped);

	t->asked = espl__alloc((t->params + 1u) * sizeof *t->asked);
	t->units = espl__alloc(((size_t)t->row_count * t->params + 1) * sizeof *t->units);
	for (uint32_t r = 0; r < t->row_count; r++) {
		const double *values = t->values + (size_t)r * t->params;
		uint64_t hash;

		for (uint32_t p = 0; p < t->params; p++)
			t->units[(size_t)r * t->params + p] = isnan(values[p])
			    ? NAN
			    : espl__param_unit(&t->space->params[p], values[p]);
		/* What the space would make of it is what algorithms will ask for. */
		memcpy(snapped, values, t->params * sizeof *snapped);
		if (view->snap(view, snapped, NULL) != ESPL_OK)
			continue;
		hash = view->hash(view, snapped);
		if (espl__map_get(&t->by_hash, hash) == NULL)
			espl__map_set(&t->by_hash, hash, (void *)((uintptr_t)r + 1));
	}
	free(snapped);
}

static espl_status
read_all(struct espl__csv *c, struct espl__curves *t, struct columns *cols, struct espl__diag *diag)
{
	double *values = espl__alloc((t->params + 1u) * sizeof *values);
	int more;
	espl_status st = espl__csv_next(c, &more, diag);

	if (st == ESPL_OK && !more) {
		c->line = 1;
		st = FAIL(c, diag, "the curves file is empty");
	}
	if (st == ESPL_OK)
		st = read_header(c, t, cols, diag);
	while (st == ESPL_OK) {
		st = espl__csv_next(c, &more, diag);
		if (st != ESPL_OK || !more)
			break;
		st = read_line(c, t, cols, values, diag);
	}
	if (st == ESPL_OK && t->row_count == 0)
		st = FAIL(c, diag, "the curves file has a header but no rows");
	free(values);
	return st;
}

espl_status
espl__curves_parse(const char *name, struct espl__buf *text, const struct espl__space *space,
    struct espl__curves **out, struct espl__diag *diag)
{
	struct espl__curves *t = espl__alloc(sizeof *t);
	struct columns cols = { NULL, NULL, 0, 0, 0 };
	struct espl__csv csv;
	espl_status st;

	if (space != NULL)
		ESPL__CHECK(space, SPACE);
	t->magic = ESPL__CURVES_MAGIC;
	*out = NULL;
	t->space = space;
	t->params = space != NULL ? space->count : 0;
	espl__csv_open(&csv, name, text);
	st = read_all(&csv, t, &cols, diag);
	espl__csv_close(&csv);
	free(cols.param);
	free(cols.metric);
	if (st != ESPL_OK) {
		espl__curves_free(t);
		return st;
	}
	gather_points(t);
	if (space != NULL)
		index_rows(t);
	*out = t;
	return ESPL_OK;
}

espl_status
espl__curves_load(const char *path, const struct espl__space *space, struct espl__curves **out,
    struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status st = espl__file_read(path, FILE_MAX, &text, diag);

	*out = NULL;
	if (st == ESPL_OK)
		st = espl__curves_parse(path, &text, space, out, diag);
	espl__buf_free(&text);
	return st;
}

espl_status
espl__curves_of(const struct espl__trial_config *trial, const struct espl__space *space,
    struct espl__curves **out, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status st;

	if (trial->curves_text == NULL)
		return espl__curves_load(trial->curves, space, out, diag);
	espl__print(&text, "%s", trial->curves_text);
	st = espl__curves_parse(trial->curves, &text, space, out, diag);
	espl__buf_free(&text);
	return st;
}

void
espl__curves_free(struct espl__curves *t)
{
	if (t == NULL)
		return;
	espl__names_free(&t->names);
	espl__map_free(&t->by_name);
	espl__map_free(&t->by_hash);
	free(t->rows);
	free(t->values);
	free(t->units);
	free(t->asked);
	free(t->points);
	free(t->numbers);
	t->magic = 0;
	free(t);
}

/* ---- asking -------------------------------------------------------------------------------- */

uint32_t
espl__curves_nearest(const struct espl__curves *t, const double *values)
{
	const struct espl_space *view = &t->space->view;
	void *exact = espl__map_get(&t->by_hash, view->hash(view, values));
	double least = INFINITY;
	uint32_t best = 0;

	ESPL__CHECK(t, CURVES);
	if (exact != NULL)
		return (uint32_t)((uintptr_t)exact - 1);
	for (uint32_t p = 0; p < t->params; p++)
		t->asked[p] =
		    isnan(values[p]) ? NAN : espl__param_unit(&t->space->params[p], values[p]);
	for (uint32_t r = 0; r < t->row_count; r++) {
		const double *unit = t->units + (size_t)r * t->params;
		double sum = 0.0;

		for (uint32_t p = 0; p < t->params && sum < least; p++) {
			double d;

			if (isnan(t->asked[p]) || isnan(unit[p]))
				continue;
			d = unit[p] - t->asked[p];
			/* Labels without order are equal or one apart. */
			if (t->space->params[p].pub.type == ESPL_CHOICE)
				d = fabs(d) > 1e-9;
			sum += d * d;
		}
		if (sum < least) {
			least = sum;
			best = r;
		}
	}
	return best;
}

uint32_t
espl__curves_metric_count(const struct espl__curves *t)
{
	ESPL__CHECK(t, CURVES);
	return t->metrics;
}

const char *
espl__curves_metric(const struct espl__curves *t, uint32_t metric)
{
	ESPL__CHECK(t, CURVES);
	return metric < t->metrics ? t->names.names[metric] : "";
}

/* Number of the row's points at or before the iteration. */
static uint32_t
count_until(const struct espl__curves *t, const struct row *r, uint64_t iteration)
{
	uint32_t low = 0, high = r->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (t->points[r->first + mid].iteration <= iteration)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

double
espl__curves_value(const struct espl__curves *t, uint32_t row, uint32_t metric, uint64_t iteration)
{
	const struct row *r = &t->rows[row];
	uint32_t n = count_until(t, r, iteration);

	ESPL__CHECK(t, CURVES);
	if (n == 0 || metric >= t->metrics)
		return NAN;
	return t->numbers[(size_t)(r->first + n - 1) * (t->metrics + 1u) + metric];
}

double
espl__curves_seconds(const struct espl__curves *t, uint32_t row, uint64_t iteration)
{
	const struct row *r = &t->rows[row];
	/* A point determines the length of the iterations that lead to it. */
	uint32_t n = iteration > 0 ? count_until(t, r, iteration - 1) : 0;

	ESPL__CHECK(t, CURVES);
	if (n >= r->count)
		n = r->count - 1;
	return t->numbers[(size_t)(r->first + n) * (t->metrics + 1u) + t->metrics];
}

uint32_t
espl__curves_rows(const struct espl__curves *t)
{
	ESPL__CHECK(t, CURVES);
	return t->row_count;
}

uint32_t
espl__curves_points(const struct espl__curves *t, uint32_t row, uint32_t metric,
    struct espl_point *to)
{
	const struct row *r = &t->rows[row];

	ESPL__CHECK(t, CURVES);
	for (uint32_t i = 0; i < r->count && to != NULL; i++)
		to[i] = (struct espl_point){ (double)t->points[r->first + i].iteration,
			t->numbers[(size_t)(r->first + i) * (t->metrics + 1u) + metric] };
	return r->count;
}

uint64_t
espl__curves_last(const struct espl__curves *t, uint32_t row)
{
	const struct row *r = &t->rows[row];

	ESPL__CHECK(t, CURVES);
	return t->points[r->first + r->count - 1].iteration;
}
