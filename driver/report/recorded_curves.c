/* recorded_curves.c - what the trials of a run reported, as a CSV of curves (results_read.h). */
#include "report/results_read.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_value.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "input/input.h"

struct pace {
	double sum;
	uint64_t count;
}; /* seconds of iterations, on one GPU */
struct writer {
	struct espl__reading *r;
	struct espl__buf *to;
	struct espl__diag *diag;
	struct espl__names names; /* of parameters, in order of appearance */
	struct espl__map rows;    /* trial + 1 -> its fields, "ID,VALUE,VALUE" */
	struct espl__arena arena;
	int64_t metric;                      /* number of its name */
	const struct espl__profile *profile; /* of a replay */
	int64_t asked;                       /* iterations of a replay */
	struct espl__buf *cut;
	struct espl__names metrics; /* of a replay; [0] is the objective */
	double *values;             /* [metrics] */
	struct espl__map paces;     /* of a replay: trial + 1 -> its pace */
	struct pace all;            /* of all trials */
};

/* ---- which metric ------------------------------------------------------------------------- */

static espl_status
no_metric(struct writer *w, const char *metric, struct espl__names *known)
{
	struct espl__buf b = { NULL, 0, 0 };

	(void)espl__fail(w->diag, ESPL_E_CONFIG, "its trials did not report the metric '%s'",
	    metric);
	for (uint32_t i = 0; i < known->count && i < 12; i++)
		espl__print(&b, "%s'%s'", i > 0 ? ", " : "", known->names[i]);
	if (known->count > 0)
		espl__hint(w->diag, "they reported %s%s", espl__buf_text(&b),
		    known->count > 12 ? " and others" : "");
	else
		espl__hint(w->diag, "its trials did not report anything");
	espl__buf_free(&b);
	return ESPL_E_CONFIG;
}

static espl_status
find_metric(struct writer *w, const char *metric)
{
	sqlite3_stmt *st = espl__reading_query(w->r,
	    "SELECT id, name FROM metric_names ORDER BY id", -1, -1, w->diag);
	struct espl__names known = { 0 };
	espl_status status = ESPL_OK;
	int more = -1;

	w->metric = -1;
	while (st != NULL && (more = espl__reading_next(w->r, st, w->diag)) == 1) {
		const char *name = (const char *)sqlite3_column_text(st, 1);

		if (name == NULL)
			continue;
		(void)espl__names_add(&known, name);
		if (strcmp(name, metric) == 0)
			w->metric = sqlite3_column_int64(st, 0);
	}
	(void)sqlite3_finalize(st);
	if (more < 0)
		status = ESPL_E_CONFIG;
	else if (w->metric < 0)
		status = no_metric(w, metric, &known);
	espl__names_free(&known);
	return status;
}

/* ---- configurations ----------------------------------------------------------------------- */

static void
put_value(struct espl__buf *b, const json_t *value)
{
	struct espl__buf text = { NULL, 0, 0 };

	espl__json_value_text(value, &text);
	espl__earlier_field(b, espl__buf_text(&text));
	espl__buf_free(&text);
}

/* What is done with the parameters of each trial. */
typedef void take_fn(struct writer *, int64_t trial, json_t *params);

static void
take_names(struct writer *w, int64_t trial, json_t *params)
{
	const char *name;
	json_t *value;

	(void)trial;
	json_object_foreach (params, name, value)
		(void)espl__names_add(&w->names, name);
}

static void
take_values(struct writer *w, int64_t trial, json_t *params)
{
	struct espl__buf b = { NULL, 0, 0 };

	espl__print(&b, "%lld", (long long)trial);
	for (uint32_t i = 0; i < w->names.count; i++) {
		const json_t *value = json_object_get(params, w->names.names[i]);

		espl__put_u8(&b, ',');
		if (value != NULL)
			put_value(&b, value);
	}
	espl__map_set(&w->rows, (uint64_t)trial + 1,
	    espl__arena_strdup(&w->arena, espl__buf_text(&b)));
	espl__buf_free(&b);
}

static espl_status
each_trial(struct writer *w, take_fn *take)
{
	sqlite3_stmt *st =
	    espl__reading_query(w->r, "SELECT id, params FROM trials ORDER BY id", -1, -1, w->diag);
	int more = -1;

	while (st != NULL && (more = espl__reading_next(w->r, st, w->diag)) == 1) {
		const char *text = (const char *)sqlite3_column_text(st, 1);
		json_t *params = text != NULL ? json_loads(text, 0, NULL) : NULL;

		if (!json_is_object(params)) {
			json_decref(params);
			(void)espl__fail(w->diag, ESPL_E_CONFIG,
			    "results.db is damaged: trial %lld has no parameters",
			    (long long)sqlite3_column_int64(st, 0));
			more = -1;
			break;
		}
		take(w, sqlite3_column_int64(st, 0), params);
		json_decref(params);
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_CONFIG : ESPL_OK;
}

/* ---- reports ------------------------------------------------------------------------------ */

static void
put_names(struct writer *w)
{
	espl__print(w->to, "config");
	for (uint32_t i = 0; i < w->names.count; i++) {
		espl__put_u8(w->to, ',');
		espl__earlier_field(w->to, w->names.names[i]);
	}
}

static void
write_header(struct writer *w, const char *metric)
{
	put_names(w);
	espl__print(w->to, ",iteration,");
	espl__earlier_field(w->to, metric);
	espl__put_u8(w->to, '\n');
}

static espl_status
write_reports(struct writer *w)
{
	static const char objective[] = "SELECT trial, iteration, metric FROM reports"
					" ORDER BY at_s, trial, iteration";
	static const char other[] =
	    "SELECT m.trial, m.iteration, m.value FROM metrics m JOIN reports r"
	    " ON r.trial = m.trial AND r.iteration = m.iteration WHERE m.name_id = ?1"
	    " ORDER BY r.at_s, m.trial, m.iteration";
	sqlite3_stmt *st = w->metric == 0
	    ? espl__reading_query(w->r, objective, -1, -1, w->diag)
	    : espl__reading_query(w->r, other, w->metric, -1, w->diag);
	char room[32];
	int more = -1;

	while (st != NULL && (more = espl__reading_next(w->r, st, w->diag)) == 1) {
		const char *row =
		    espl__map_get(&w->rows, (uint64_t)sqlite3_column_int64(st, 0) + 1);
		double value = espl__reading_real(st, 2);

		if (row != NULL)
			espl__print(w->to, "%s,%lld,%s\n", row,
			    (long long)sqlite3_column_int64(st, 1),
			    isnan(value) ? "nan" : espl__format_real(value, room));
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_CONFIG : ESPL_OK;
}

/* ---- a replay ----------------------------------------------------------------------------- */

/* All that was reported, the run's own objective first (number 0). */
static espl_status
take_metrics(struct writer *w)
{
	sqlite3_stmt *st =
	    espl__reading_query(w->r, "SELECT name FROM metric_names ORDER BY id", -1, -1, w->diag);
	int more = -1;

	while (st != NULL && (more = espl__reading_next(w->r, st, w->diag)) == 1)
		(void)espl__names_add(&w->metrics, (const char *)sqlite3_column_text(st, 0));
	(void)sqlite3_finalize(st);
	w->values = espl__alloc((w->metrics.count + 1) * sizeof *w->values);
	return more < 0 ? ESPL_E_CONFIG : ESPL_OK;
}

/* A metric of this name would be read as the length of iterations. */
static int
left_out(const struct writer *w, uint32_t metric)
{
	return strcmp(w->metrics.names[metric], "seconds") == 0;
}

static const char reports[] =
    "SELECT r.trial, r.iteration, r.at_s, r.metric, r.gpus, r.packing, (SELECT max(running_s) FROM "
    "gangs g WHERE g.trial = r.trial AND g.running_s <= r.at_s)"
    " FROM reports r ORDER BY r.trial, r.iteration";
struct before {
	int64_t trial, iteration;
	double at;
};

/* What each iteration of this report (a row of `reports`) would have taken on one GPU; NaN: not
 * known. *first: it is a gang's first one, which the start of the processes is part of. */
static double
seconds_of(const struct writer *w, sqlite3_stmt *st, const struct before *before, int *first)
{
	int64_t trial = sqlite3_column_int64(st, 0), iteration = sqlite3_column_int64(st, 1);
	double at = espl__reading_real(st, 2), since = espl__reading_real(st, 6);
	struct espl_share share = { .gpus = (uint32_t)sqlite3_column_int64(st, 4),
		.packing = (uint32_t)sqlite3_column_int64(st, 5) };
	int64_t done = before->trial == trial ? before->iteration : 0;

	*first = before->trial != trial || before->at <= since;
	if (!*first)
		since = before->at;
	return iteration > done && at > since
	    ? (at - since) / (double)(iteration - done) * espl__profile_speed(w->profile, share)
	    : NAN;
}

static struct before
read_before(sqlite3_stmt *st)
{
	return (struct before){ sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
		espl__reading_real(st, 2) };
}

/* The mean length of the iterations of each trial, and of all trials, without the first ones of
 * gangs. */
static espl_status
take_paces(struct writer *w)
{
	sqlite3_stmt *st = espl__reading_query(w->r, reports, -1, -1, w->diag);
	struct before before = { -1, 0, 0 };
	int more = -1, first;

	while (st != NULL && (more = espl__reading_next(w->r, st, w->diag)) == 1) {
		uint64_t key = (uint64_t)sqlite3_column_int64(st, 0) + 1;
		struct pace *pace = espl__map_get(&w->paces, key);
		double seconds = seconds_of(w, st, &before, &first);

		before = read_before(st);
		if (first || isnan(seconds))
			continue;
		if (pace == NULL) {
			pace = espl__arena_alloc(&w->arena, sizeof *pace);
			*pace = (struct pace){ 0, 0 };
			espl__map_set(&w->paces, key, pace);
		}
		pace->sum += seconds;
		pace->count++;
		w->all.sum += seconds;
		w->all.count++;
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_CONFIG : ESPL_OK;
}

/* A simulation adds the start itself: a gang's first iteration lasts as long as the trial's others
 * do, or as all. */
static double
replace_start_time(const struct writer *w, int64_t trial, double seconds)
{
	const struct pace *pace = espl__map_get(&w->paces, (uint64_t)trial + 1);

	if (pace == NULL)
		pace = &w->all;
	return pace->count > 0 ? pace->sum / (double)pace->count : seconds;
}

static void
put_line(struct writer *w, const char *row, int64_t iteration, double seconds)
{
	char room[32];

	espl__print(w->to, "%s,%lld", row, (long long)iteration);
	for (uint32_t i = 0; i < w->metrics.count; i++)
		if (!left_out(w, i))
			espl__print(w->to, ",%s",
			    isnan(w->values[i]) ? "nan" : espl__format_real(w->values[i], room));
	espl__print(w->to, ",%s\n", isnan(seconds) ? "" : espl__format_real(seconds, room));
}

/* Both statements are in order of trial and iteration. */
static espl_status
write_replay(struct writer *w)
{
	static const char others[] = "SELECT trial, iteration, name_id, value FROM metrics"
				     " ORDER BY trial, iteration, name_id";
	sqlite3_stmt *st = espl__reading_query(w->r, reports, -1, -1, w->diag);
	sqlite3_stmt *of = st != NULL ? espl__reading_query(w->r, others, -1, -1, w->diag) : NULL;
	struct before before = { -1, 0, 0 };
	int more = -1, first, other = of != NULL ? espl__reading_next(w->r, of, w->diag) : -1;

	while (other >= 0 && (more = espl__reading_next(w->r, st, w->diag)) == 1) {
		int64_t trial = sqlite3_column_int64(st, 0),
			iteration = sqlite3_column_int64(st, 1);
		const char *row = espl__map_get(&w->rows, (uint64_t)trial + 1);

		for (uint32_t i = 0; i < w->metrics.count; i++)
			w->values[i] = NAN;
		w->values[0] = espl__reading_real(st, 3);
		while (other == 1 && sqlite3_column_int64(of, 0) == trial &&
		    sqlite3_column_int64(of, 1) == iteration) {
			int64_t name = sqlite3_column_int64(of, 2);

			if (name > 0 && name < w->metrics.count)
				w->values[name] = espl__reading_real(of, 3);
			other = espl__reading_next(w->r, of, w->diag);
		}
		double seconds = seconds_of(w, st, &before, &first);
		if (row != NULL)
			put_line(w, row, iteration,
			    first ? replace_start_time(w, trial, seconds) : seconds);
		before = read_before(st);
	}
	(void)sqlite3_finalize(st);
	(void)sqlite3_finalize(of);
	return more < 0 || other < 0 ? ESPL_E_CONFIG : ESPL_OK;
}

static void
replay_header(struct writer *w)
{
	put_names(w);
	espl__print(w->to, ",iteration");
	for (uint32_t i = 0; i < w->metrics.count; i++)
		if (!left_out(w, i)) {
			espl__put_u8(w->to, ',');
			espl__earlier_field(w->to, w->metrics.names[i]);
		}
	espl__print(w->to, ",seconds\n");
}

/* Curves that would have gone on: neither had their trials trained all of their iterations, nor had
 * the algorithm stopped them. */
static espl_status
report_cut(struct writer *w)
{
	sqlite3_stmt *st = espl__reading_query(w->r,
	    "SELECT count(*), total(cut), max(CASE WHEN cut THEN last END) FROM (SELECT "
	    "max(r.iteration) AS last, max(r.iteration) < ?1 AND"
	    " t.state NOT IN ('completed', 'stopped early') AS cut"
	    " FROM reports r JOIN trials t ON t.id = r.trial GROUP BY r.trial)",
	    w->asked, -1, w->diag);
	int more = st != NULL ? espl__reading_next(w->r, st, w->diag) : -1;

	if (more == 1 && sqlite3_column_int64(st, 1) > 0)
		espl__print(w->cut,
		    "%s in '%s' did not finish: %lld of %lld curves end early, the longest of "
		    "them at iteration %lld; a trial is complete where its curve ends",
		    strcmp(w->r->totals.status, "done") == 0 ? "trials of the run" : "the run",
		    w->r->dir, sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 0),
		    sqlite3_column_int64(st, 2));
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_CONFIG : ESPL_OK;
}

static espl_status
all_curves(struct writer *w, const char *metric)
{
	espl_status status;

	if (espl__reading_pool(w->r)) {
		(void)espl__fail(w->diag, ESPL_E_CONFIG,
		    "it is a pool, and its trials belong to several experiments");
		espl__hint(w->diag,
		    "only the curves of a run of a single experiment can be replayed");
		return ESPL_E_CONFIG;
	}
	status = take_metrics(w);
	if (status == ESPL_OK)
		status = take_paces(w);
	if (status == ESPL_OK && strcmp(metric, "seconds") == 0)
		status = espl__fail(w->diag, ESPL_E_CONFIG,
		    "its metric is called 'seconds', which in a curves file is the duration of an "
		    "iteration");
	if (status != ESPL_OK)
		return status;
	replay_header(w);
	status = write_replay(w);
	return status == ESPL_OK ? report_cut(w) : status;
}

/* ---- both --------------------------------------------------------------------------------- */

static espl_status
write_all(struct writer *w, const char *dir, const char *metric)
{
	espl_status status = espl__reading_open(dir, &w->r, w->diag);

	if (status != ESPL_OK)
		return status;
	status = find_metric(w, metric);
	if (status == ESPL_OK)
		status = each_trial(w, take_names);
	if (status == ESPL_OK && espl__names_find(&w->names, "iteration") != ESPL_ANY)
		status = espl__fail(w->diag, ESPL_E_CONFIG,
		    "it has a parameter called 'iteration', which is also the name of a column in "
		    "a curves file");
	if (status == ESPL_OK)
		status = each_trial(w, take_values);
	if (status == ESPL_OK && w->profile != NULL) {
		status = all_curves(w, metric);
	} else if (status == ESPL_OK) {
		write_header(w, metric);
		status = write_reports(w);
	}
	return status;
}

static espl_status
free_writer(struct writer *w, espl_status status)
{
	espl__names_free(&w->names);
	espl__names_free(&w->metrics);
	free(w->values);
	espl__map_free(&w->rows);
	espl__map_free(&w->paces);
	espl__arena_free(&w->arena);
	espl__reading_free(w->r);
	return status;
}

espl_status
espl__recorded_curves(const char *dir, const char *metric, struct espl__buf *to,
    struct espl__diag *diag)
{
	struct writer w = { .to = to, .diag = diag };

	return free_writer(&w, write_all(&w, dir, metric));
}

espl_status
espl__recorded_replay(const char *dir, const char *metric, const struct espl__profile *profile,
    int64_t asked, struct espl__buf *to, struct espl__buf *cut, struct espl__diag *diag)
{
	struct writer w = { .to = to,
		.diag = diag,
		.profile = profile,
		.asked = asked,
		.cut = cut };

	return free_writer(&w, write_all(&w, dir, metric));
}
