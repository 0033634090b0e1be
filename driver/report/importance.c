/* importance.c - reads the trials' parameters and metrics as a table of numbers for fANOVA. */
#include "report/importance.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "report/fanova.h"

#define PARAMS_MAX 1000u
#define CELLS_MAX 48000u /* of the table: what takes about a second */

struct param {
	const json_t *values; /* labels, or NULL: a number */
	const char *name, *scale;
	double low, high;
	int is_ordinal;
};
struct table {
	struct param *params;
	json_t *space;
	uint32_t columns, rows, rows_max;
	double *values; /* [column * rows_max + row]; NaN: inactive */
	double *metric;
	uint32_t *labels;
};

/* ---- the space ------------------------------------------------------------------------------ */

static int
read_param(const json_t *from, struct param *to)
{
	const char *type = json_string_value(json_object_get(from, "type"));

	to->name = json_string_value(json_object_get(from, "name"));
	to->scale = json_string_value(json_object_get(from, "scale"));
	to->low = json_number_value(json_object_get(from, "low"));
	to->high = json_number_value(json_object_get(from, "high"));
	to->values = json_object_get(from, "values");
	to->is_ordinal = type != NULL && strcmp(type, "ordinal") == 0;
	if (to->name == NULL || type == NULL)
		return 0;
	return to->values != NULL ? json_array_size(to->values) > 0
				  : to->scale != NULL && to->high > to->low;
}

static espl_status
read_space(struct espl__reading *r, int64_t experiment, struct table *t, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT value FROM meta WHERE key = CASE ?1 WHEN 0 THEN 'space'"
	    " ELSE 'space/' || ?1 END",
	    experiment, -1, diag);
	const json_t *param;
	const char *text;
	size_t i;
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	more = espl__reading_next(r, st, diag);
	text = more == 1 ? (const char *)sqlite3_column_text(st, 0) : NULL;
	t->space = text != NULL ? json_loads(text, 0, NULL) : NULL;
	(void)sqlite3_finalize(st);
	t->params = espl__alloc((json_array_size(t->space) + 1) * sizeof *t->params);
	json_array_foreach (t->space, i, param)
		if (t->columns < PARAMS_MAX && read_param(param, &t->params[t->columns]))
			t->columns++;
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* ---- the trials ----------------------------------------------------------------------------- */

static int
is_label(const json_t *label, const json_t *value)
{
	const char *text = json_string_value(label);

	if (json_is_number(label))
		return json_is_number(value) && json_is_real(label) == json_is_real(value) &&
		    json_number_value(label) == json_number_value(value);
	/* Earlier versions kept all labels as text. */
	if (json_is_boolean(value) && !json_is_boolean(label))
		return text != NULL && strcmp(text, json_is_true(value) ? "true" : "false") == 0;
	if (json_is_number(value))
		return text != NULL && strtod(text, NULL) == json_number_value(value);
	return json_equal(label, value);
}

/* A number from 0 to 1, or the number of a label; NaN: there is none. */
static double
place_value(const struct param *p, const json_t *value)
{
	double v = json_number_value(value), at;
	size_t count = json_array_size(p->values), label;

	if (p->values != NULL) {
		for (label = 0; label < count; label++)
			if (is_label(json_array_get(p->values, label), value))
				return p->is_ordinal && count > 1
				    ? (double)label / (double)(count - 1)
				    : (double)label;
		return NAN;
	}
	if (!json_is_number(value))
		return NAN;
	at = (v - p->low) / (p->high - p->low);
	if (strcmp(p->scale, "log") == 0)
		at = log(v / p->low) / log(p->high / p->low);
	else if (strcmp(p->scale, "reverse-log") == 0)
		at = 1 - log((p->low + p->high - v) / p->low) / log(p->high / p->low);
	return isnan(at) ? NAN : at < 0 ? 0 : at > 1 ? 1 : at;
}

static void
add_row(struct table *t, const char *text, double metric)
{
	json_t *params = text != NULL ? json_loads(text, 0, NULL) : NULL;

	for (uint32_t n = 0; n < t->columns; n++)
		t->values[(size_t)n * t->rows_max + t->rows] =
		    place_value(&t->params[n], json_object_get(params, t->params[n].name));
	t->metric[t->rows++] = metric;
	json_decref(params);
}

/* Up to where each trial's metric counts: "?1" is the experiment. */
#define LAST \
	"WITH last AS (SELECT trial, max(iteration) AS at FROM reports" \
	" WHERE abs(metric) < 1e150 AND (?1 = 0 OR trial >> 40 = ?1) GROUP BY trial)"

static espl_status
read_rows(struct espl__reading *r, int64_t experiment, int64_t iteration, struct table *t,
    struct espl__diag *diag)
{
	char *sql = espl__format(LAST
	    "SELECT params, metric FROM (SELECT params, (SELECT metric FROM reports"
	    "  WHERE trial = t.id AND iteration <= ?2 AND abs(metric) < 1e150"
	    "  ORDER BY iteration DESC LIMIT 1) AS metric,"
	    "  row_number() OVER (ORDER BY t.id) AS n, count(*) OVER () AS of"
	    "  FROM trials t JOIN last ON last.trial = t.id WHERE at >= ?2)"
	    " WHERE of <= %u OR n * %u / of > (n - 1) * %u / of",
	    t->rows_max, t->rows_max, t->rows_max);
	sqlite3_stmt *st = espl__reading_query(r, sql, experiment, iteration, diag);
	int more = -1;

	free(sql);
	while (st != NULL && (more = espl__reading_next(r, st, diag)) == 1)
		if (t->rows < t->rows_max)
			add_row(t, (const char *)sqlite3_column_text(st, 0),
			    sqlite3_column_double(st, 1));
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* Where a parameter is inactive: its mean, or its most frequent label. */
static void
fill_column(struct table *t, uint32_t n)
{
	const struct param *p = &t->params[n];
	double *values = t->values + (size_t)n * t->rows_max, sum = 0, otherwise = 0;
	size_t labels = json_array_size(p->values), count = 0;
	uint32_t *times = espl__alloc((labels + 1) * sizeof *times);

	t->labels[n] = p->is_ordinal ? 0 : (uint32_t)labels;
	for (uint32_t i = 0; i < t->rows; i++) {
		if (isnan(values[i]))
			continue;
		sum += values[i];
		count++;
		if (t->labels[n] > 0 && ++times[(size_t)values[i]] > times[(size_t)otherwise])
			otherwise = values[i];
	}
	if (t->labels[n] == 0 && count > 0)
		otherwise = sum / (double)count;
	for (uint32_t i = 0; i < t->rows; i++)
		values[i] = isnan(values[i]) ? otherwise : values[i];
	free(times);
}

/* ---- the answer ----------------------------------------------------------------------------- */

static int
compare_shares(const void *a, const void *b)
{
	const struct espl__importance *x = a, *y = b;

	return x->share > y->share ? -1 : x->share < y->share ? 1 : strcmp(x->name, y->name);
}

static void
compute_shares(struct table *t, struct espl__importances *to)
{
	double *shares = espl__alloc((t->columns + (size_t)1) * sizeof *shares), sum = 0;
	struct espl__fanova data = { t->rows, t->columns, t->values, t->labels, t->metric };

	for (uint32_t n = 0; n < t->columns; n++) {
		fill_column(t, n);
		/* without gaps */
		memmove(t->values + (size_t)n * t->rows, t->values + (size_t)n * t->rows_max,
		    t->rows * sizeof *t->values);
	}
	espl__fanova(&data, shares);
	to->trials = t->rows;
	to->list = espl__alloc((t->columns + (size_t)1) * sizeof *to->list);
	for (uint32_t n = 0; n < t->columns; n++) {
		to->list[n].name = espl__strdup(t->params[n].name);
		to->list[n].share = shares[n];
		sum += shares[n];
	}
	to->count = t->columns;
	qsort(to->list, to->count, sizeof *to->list, compare_shares);
	if (!(sum > 0)) /* nothing varies */
		espl__importances_free(to);
	free(shares);
}

/* The furthest iteration that half of the trials reached; -1: none reported. */
static espl_status
find_iteration(struct espl__reading *r, int64_t experiment, int64_t *iteration,
    struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    LAST "SELECT at FROM last ORDER BY at DESC LIMIT 1"
		 " OFFSET (SELECT (count(*) - 1) / 2 FROM last)",
	    experiment, -1, diag);
	int more = st != NULL ? espl__reading_next(r, st, diag) : -1;

	*iteration = more == 1 ? sqlite3_column_int64(st, 0) : -1;
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__importances_find(struct espl__reading *r, int64_t experiment, struct espl__importances *to,
    struct espl__diag *diag)
{
	struct table t = { .rows = 0 };
	espl_status status = read_space(r, experiment, &t, diag);

	memset(to, 0, sizeof *to);
	if (status == ESPL_OK)
		status = find_iteration(r, experiment, &to->iteration, diag);
	if (status == ESPL_OK && t.columns > 0 && to->iteration >= 0) {
		t.rows_max = CELLS_MAX / (t.columns + 12);
		t.values = espl__alloc((size_t)t.columns * t.rows_max * sizeof *t.values);
		t.metric = espl__alloc((size_t)t.rows_max * sizeof *t.metric);
		t.labels = espl__alloc(t.columns * sizeof *t.labels);
		status = read_rows(r, experiment, to->iteration, &t, diag);
		if (status == ESPL_OK)
			compute_shares(&t, to);
	}
	free(t.values);
	free(t.metric);
	free(t.labels);
	free(t.params);
	json_decref(t.space);
	return status;
}

void
espl__importances_free(struct espl__importances *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		free(p->list[i].name);
	free(p->list);
	memset(p, 0, sizeof *p);
}

/* ---- export --------------------------------------------------------------------------------- */

/* The first experiment of a pool behind `last`; 0: there is none. */
static int64_t
find_experiment(struct espl__reading *r, int64_t last)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT id FROM experiments WHERE id > ?1 ORDER BY id LIMIT 1", last, -1, NULL);
	int64_t id =
	    st != NULL && espl__reading_next(r, st, NULL) == 1 ? sqlite3_column_int64(st, 0) : 0;

	(void)sqlite3_finalize(st);
	return id;
}

/* Of a search, then of the experiments of a pool: each with its rows. */
static espl_status
put_all(struct espl__reading *r,
    void (*put)(struct espl__buf *, int64_t experiment, const struct espl__importances *,
	const struct espl__importance *),
    FILE *to, struct espl__diag *diag)
{
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__importances found;
	espl_status status = ESPL_OK;
	int64_t experiment = espl__reading_pool(r) ? find_experiment(r, 0) : 0;

	do {
		status = espl__importances_find(r, experiment, &found, diag);
		for (uint32_t i = 0; status == ESPL_OK && i < found.count; i++)
			put(&b, experiment, &found, &found.list[i]);
		if (status == ESPL_OK)
			espl__importances_free(&found);
		experiment = experiment > 0 ? find_experiment(r, experiment) : 0;
	} while (status == ESPL_OK && experiment > 0);
	if (b.size > 0)
		(void)fwrite(b.data, 1, b.size, to);
	espl__buf_free(&b);
	return status;
}

static void
put_csv(struct espl__buf *b, int64_t experiment, const struct espl__importances *all,
    const struct espl__importance *one)
{
	espl__print_csv(b, one->name, "");
	espl__print(b, ",");
	espl__print_number(b, one->share);
	espl__print(b, ",%u,%lld,", all->trials, (long long)all->iteration);
	if (experiment > 0)
		espl__print(b, "%lld", (long long)experiment);
	espl__print(b, "\n");
}

static void
put_json(struct espl__buf *b, int64_t experiment, const struct espl__importances *all,
    const struct espl__importance *one)
{
	espl__print(b, b->size > 0 ? ", {" : "{");
	espl__json_text(b, "parameter", one->name);
	espl__json_real(b, "importance", one->share);
	espl__json_int(b, "trials", all->trials);
	espl__json_int(b, "iteration", all->iteration);
	if (experiment > 0)
		espl__json_int(b, "experiment", experiment);
	espl__print(b, "}");
}

espl_status
espl__importances_csv(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	(void)fputs("parameter,importance,trials,iteration,experiment\n", to);
	return put_all(r, put_csv, to, diag);
}

espl_status
espl__importances_json(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	espl_status status;

	(void)fputs("[", to);
	status = put_all(r, put_json, to, diag);
	(void)fputs("]", to);
	return status;
}
