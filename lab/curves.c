/* curves.c - espalier-curves: how well learning-curve extrapolators predict recorded curves, and
 * rank trials by their predictions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "plugins/algorithms/spottune/extrapolate.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "cli/cli.h"
#include "input/input.h"
#include "report/results_read.h"

#define POINTS_MIN 10u /* of a curve that is judged */
#define GROUP 16u      /* trials ranked together, as in SpotTune's experiments */
#define GROUPS 1000u   /* of them, drawn at random */
#define FILE_MAX ((size_t)1 << 30)

static const char *const all_kinds[] = { "last", "damped", "earlycurve", "slaq", "power" };
#define KINDS (sizeof all_kinds / sizeof all_kinds[0])

struct curve {
	struct espl_point *points;
	uint32_t count;
	double end;       /* its last value, less is better */
	double predicted; /* the same, of the extrapolator that is judged */
};
struct figures {
	double error;              /* median of |predicted - end| / |end| */
	double top1, top3, regret; /* NaN: fewer than GROUP curves */
	double stages;             /* share of prefixes in which a second stage was found */
	double fitted;             /* share whose prediction is that of a fit */
};
struct judged {
	const struct espl__args *args;
	char *metric;
	double ceiling; /* 0: none */
	int64_t seed;
	struct curve *curves;
	uint32_t count, left_out;
	size_t cap;
	double *errors; /* [count] */
};

/* ---- reading ------------------------------------------------------------------------------ */

/* A run's own metric and goal hold unless the command line says otherwise. */
static espl_status
read_run(struct judged *j, const char *path, struct espl__buf *text, struct espl__diag *diag)
{
	struct espl__reading *r;
	espl_status status = espl__reading_open(path, &r, diag);

	if (status != ESPL_OK)
		return status;
	if (j->metric == NULL && r->totals.metric != NULL)
		j->metric = espl__strdup(r->totals.metric);
	if (r->totals.maximize && j->ceiling <= 0) {
		status =
		    espl__fail(diag, ESPL_E_CONFIG, "'%s' is maximized in '%s'", j->metric, path);
		espl__hint(diag, "give its largest possible value, such as --ceiling 1");
	}
	espl__reading_free(r);
	return status == ESPL_OK ? espl__recorded_curves(path, j->metric, text, diag) : status;
}

static espl_status
find_metric(struct judged *j, const struct espl__curves *table, uint32_t *metric,
    struct espl__diag *diag)
{
	uint32_t count = espl__curves_metric_count(table);

	*metric = 0;
	if (j->metric == NULL)
		j->metric = espl__strdup(espl__curves_metric(table, 0));
	while (*metric < count && strcmp(espl__curves_metric(table, *metric), j->metric) != 0)
		++*metric;
	if (*metric < count)
		return ESPL_OK;
	(void)espl__fail(diag, ESPL_E_CONFIG, "'%s' has no metric '%s'", j->args->positional[0],
	    j->metric);
	espl__hint(diag, "its first metric is '%s'", espl__curves_metric(table, 0));
	return ESPL_E_CONFIG;
}

/* A curve with a value that is not finite, or with few points, cannot be judged. */
static void
take_curve(struct judged *j, const struct espl__curves *table, uint32_t row, uint32_t metric)
{
	uint32_t count = espl__curves_points(table, row, metric, NULL);
	struct curve c = { .count = count };

	c.points = espl__realloc(NULL, (size_t)count + 1, sizeof *c.points);
	(void)espl__curves_points(table, row, metric, c.points);
	for (uint32_t i = 0; i < count && c.count > 0; i++)
		if (!isfinite(c.points[i].y))
			c.count = 0;
	if (c.count < POINTS_MIN) {
		free(c.points);
		j->left_out++;
		return;
	}
	if (c.points[0].x < 1) /* iterations from 0 */
		for (uint32_t i = 0; i < count; i++)
			c.points[i].x++;
	c.end = c.points[count - 1].y;
	c.end = j->ceiling > 0 ? j->ceiling - c.end : c.end;
	ESPL__GROW(j->curves, j->cap, j->count + 1);
	j->curves[j->count++] = c;
}

static espl_status
read_curves(struct judged *j, struct espl__diag *diag)
{
	const char *path = j->args->positional[0];
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__curves *table = NULL;
	struct stat st;
	uint32_t metric;
	espl_status status = stat(path, &st) == 0 && S_ISDIR(st.st_mode)
	    ? read_run(j, path, &text, diag)
	    : espl__file_read(path, FILE_MAX, &text, diag);

	if (status == ESPL_OK)
		status = espl__curves_parse(path, &text, NULL, &table, diag);
	if (status == ESPL_OK)
		status = find_metric(j, table, &metric, diag);
	for (uint32_t row = 0; status == ESPL_OK && row < espl__curves_rows(table); row++)
		take_curve(j, table, row, metric);
	if (status == ESPL_OK && j->count == 0)
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' has no curve of '%s' with at least %u points, all finite", path,
		    j->metric, POINTS_MIN);
	j->errors = espl__realloc(NULL, (size_t)j->count + 1, sizeof *j->errors);
	espl__curves_free(table);
	espl__buf_free(&text);
	return status;
}

/* ---- judging ------------------------------------------------------------------------------ */

static int
compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
median_of(double *list, uint32_t count)
{
	qsort(list, count, sizeof *list, compare_reals);
	return count % 2 == 1 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

static void
predict_all(struct judged *j, const struct espl_extrapolator *e, double share, struct figures *f)
{
	uint32_t staged = 0, fitted = 0;

	for (uint32_t i = 0; i < j->count; i++) {
		struct curve *c = &j->curves[i];
		/* 0.7 of 10 points are 7. */
		uint32_t known = (uint32_t)(share * c->count * (1 + 1e-12));
		double value;

		known = known > 0 ? known : 1;
		fitted += espl_extrapolate(e, c->points, known, c->points[c->count - 1].x,
			      &value) == ESPL_EXTRAPOLATED_FIT;
		staged += e->stages && espl_curve_stages(e, c->points, known, NULL, 0) > 1;
		c->predicted = e->ceiling > 0 ? e->ceiling - value : value;
		j->errors[i] =
		    c->predicted == c->end ? 0 : fabs(c->predicted - c->end) / fabs(c->end);
	}
	f->error = median_of(j->errors, j->count);
	f->stages = (double)staged / j->count;
	f->fitted = (double)fitted / j->count;
}

/* GROUP different curves: the first of a shuffle of all. */
static void
draw_group(struct espl__rng *rng, uint32_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < GROUP; i++) {
		uint32_t at = i + (uint32_t)(espl__rng_uniform(rng) * (count - i));
		uint32_t swap = order[i];

		order[i] = order[at];
		order[at] = swap;
	}
}

/* How many of the group are predicted to end before curve `one`; ties by position in the file. */
static uint32_t
rank_of(const struct judged *j, const uint32_t *group, uint32_t one)
{
	uint32_t before = 0;

	for (uint32_t i = 0; i < GROUP; i++) {
		double d = j->curves[group[i]].predicted - j->curves[one].predicted;

		before += d < 0 || (d == 0 && group[i] < one);
	}
	return before;
}

static void
rank_groups(struct judged *j, struct figures *f)
{
	uint32_t *order = espl__realloc(NULL, (size_t)j->count + 1, sizeof *order);
	uint32_t first = 0, third = 0, regrets = 0;
	struct espl__rng rng;
	double regret = 0;

	f->top1 = f->top3 = f->regret = NAN;
	for (uint32_t i = 0; i < j->count; i++)
		order[i] = i;
	/* The same groups for every extrapolator. */
	espl__rng_seed(&rng, (uint64_t)j->seed, "curves");
	for (uint32_t g = 0; g < GROUPS && j->count >= GROUP; g++) {
		uint32_t chosen = 0, best_rank = GROUP;
		double best = INFINITY;

		draw_group(&rng, order, j->count);
		for (uint32_t i = 0; i < GROUP; i++)
			best = fmin(best, j->curves[order[i]].end);
		for (uint32_t i = 0; i < GROUP; i++) {
			uint32_t rank = rank_of(j, order, order[i]);

			chosen = rank == 0 ? order[i] : chosen;
			if (j->curves[order[i]].end == best && rank < best_rank)
				best_rank = rank;
		}
		first += best_rank == 0;
		third += best_rank < 3;
		if (best == 0)
			continue; /* no relative regret */
		regret += (j->curves[chosen].end - best) / fabs(best);
		regrets++;
	}
	if (j->count >= GROUP) {
		f->top1 = (double)first / GROUPS;
		f->top3 = (double)third / GROUPS;
		f->regret = regrets > 0 ? regret / regrets : NAN;
	}
	free(order);
}

/* ---- printing ----------------------------------------------------------------------------- */

static void
put_figure(double value, const char *format, struct espl__buf *b)
{
	char text[32] = "-";

	if (isfinite(value))
		(void)snprintf(text, sizeof text, format, value);
	espl__print(b, "  %7s", text);
}

static void
put_row(const char *name, double share, const struct figures *f, int json, struct espl__buf *b)
{
	if (!json) {
		espl__print(b, "%-40s  %5g", name, share);
		put_figure(f->error, "%.4f", b);
		put_figure(f->top1, "%.3f", b);
		put_figure(f->top3, "%.3f", b);
		put_figure(f->regret, "%.4f", b);
		put_figure(f->stages, "%.3f", b);
		put_figure(f->fitted, "%.3f", b);
		espl__print(b, "\n");
		return;
	}
	espl__json_open(b, NULL, '{');
	espl__json_text(b, "extrapolator", name);
	espl__json_real(b, "at", share);
	espl__json_real(b, "median_error", f->error);
	espl__json_real(b, "top1", f->top1);
	espl__json_real(b, "top3", f->top3);
	espl__json_real(b, "regret", f->regret);
	espl__json_real(b, "staged", f->stages);
	espl__json_real(b, "fitted", f->fitted);
	espl__print(b, "}");
}

static void
put_head(const struct judged *j, int json, struct espl__buf *b)
{
	if (json) {
		espl__json_open(b, NULL, '{');
		espl__json_text(b, "file", j->args->positional[0]);
		espl__json_text(b, "metric", j->metric);
		espl__json_real(b, "ceiling", j->ceiling > 0 ? j->ceiling : NAN);
		espl__json_int(b, "curves", j->count);
		espl__json_int(b, "left_out", j->left_out);
		espl__json_int(b, "groups", j->count >= GROUP ? GROUPS : 0);
		espl__json_open(b, "results", '[');
		return;
	}
	espl__print(b, "%u curves of ", j->count);
	espl__print_clean(b, j->metric);
	if (j->left_out > 0)
		espl__print(b, ", %u left out (fewer than %u points, or values not finite)",
		    j->left_out, POINTS_MIN);
	if (j->count >= GROUP)
		espl__print(b, "\nranked in %u random groups of %u", GROUPS, GROUP);
	else
		espl__print(b, "\nnot ranked: %u curves are needed", GROUP);
	espl__print(b, "\n\n%-40s  %5s  %7s  %7s  %7s  %7s  %7s  %7s\n", "extrapolator", "at",
	    "error", "top-1", "top-3", "regret", "staged", "fitted");
}

/* ---- the command line --------------------------------------------------------------------- */

static espl_status
judge_one(struct judged *j, const char *name, const char *share_text, int json, struct espl__buf *b,
    struct espl__diag *diag)
{
	struct espl_extrapolator e;
	struct figures f;
	char text[256];
	double share = 0;
	const char *wrong = espl_extrapolator_read(&e, name, text, sizeof text);

	if (wrong != NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "--extrapolate: %s", wrong);
	if (espl__parse_real(share_text, &share) != 0 || !(share > 0 && share <= 1))
		return espl__fail(diag, ESPL_E_CONFIG,
		    "--at: '%s' is not a number above 0 and up to 1", share_text);
	e.ceiling = j->ceiling;
	predict_all(j, &e, share, &f);
	rank_groups(j, &f);
	put_row(name, share, &f, json, b);
	return ESPL_OK;
}

static espl_status
judge_all(struct judged *j, int json, struct espl__buf *b, struct espl__diag *diag)
{
	static const char *const usual[] = { "0.7" };
	const char **names, **shares;
	uint32_t named = espl__arg_all(j->args, "extrapolate", &names);
	uint32_t at = espl__arg_all(j->args, "at", &shares);
	uint32_t kinds = named > 0 ? named : KINDS;
	espl_status status = ESPL_OK;

	put_head(j, json, b);
	for (uint32_t s = 0; s < (at > 0 ? at : 1) && status == ESPL_OK; s++) {
		const char *share = at > 0 ? shares[s] : usual[0];

		/* The last value stands beside what was asked for. */
		if (named > 0 && strcmp(names[0], "last") != 0)
			status = judge_one(j, "last", share, json, b, diag);
		for (uint32_t k = 0; k < kinds && status == ESPL_OK; k++)
			status =
			    judge_one(j, named > 0 ? names[k] : all_kinds[k], share, json, b, diag);
	}
	if (json)
		espl__print(b, "]}\n");
	free(names);
	free(shares);
	return status;
}

static int
curves_run(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct judged j = { .args = args };
	struct espl__buf b = { NULL, 0, 0 };
	const char *ceiling = espl__arg(args, "ceiling"), *metric = espl__arg(args, "metric");
	espl_status status = espl__arg_number(args, "seed", 0, INT64_MAX, 1, &j.seed, &diag);
	int result;

	if (status == ESPL_OK && ceiling != NULL &&
	    (espl__parse_real(ceiling, &j.ceiling) != 0 || !(j.ceiling > 0)))
		status = espl__fail(&diag, ESPL_E_CONFIG,
		    "--ceiling: '%s' is not a positive number", ceiling);
	j.metric = metric != NULL ? espl__strdup(metric) : NULL;
	if (status == ESPL_OK)
		status = read_curves(&j, &diag);
	if (status == ESPL_OK)
		status = judge_all(&j, espl__arg(args, "json") != NULL, &b, &diag);
	result = status == ESPL_OK ? espl__cli_print(&b) : espl__cli_fail(&diag);
	for (uint32_t i = 0; i < j.count; i++)
		free(j.curves[i].points);
	free(j.curves);
	free(j.errors);
	free(j.metric);
	espl__buf_free(&b);
	return result;
}

static const struct espl__flag curves_flags[] = {
	{ "extrapolate", 'x', "KIND[,OPTION=VALUE...]",
	    "an extrapolator to evaluate: last, damped, earlycurve, slaq or power (repeatable; "
	    "default: each)" },
	{ "at", 'a', "SHARE", "share of each curve that is known (repeatable; default: 0.7)" },
	{ "metric", 'm', "NAME", "metric to predict (default: the first, or the run's objective)" },
	{ "ceiling", 'c', "X", "the metric increases, at most to X: evaluate X minus the metric" },
	{ "seed", 0, "N", "random seed of the groups (default: 1)" },
	{ "json", 'j', NULL, "print only JSON on standard output" }, { NULL, 0, NULL, NULL }
};
static const struct espl__verb curves = { "curves",
	"FILE|DIR [--extrapolate KIND[,OPTION=VALUE...]]... [--at SHARE]... [--metric NAME] "
	"[--ceiling X] [--seed N] [--json]",
	"evaluate learning-curve extrapolation on recorded curves",
	"Predicts the end of each curve from its beginning, and prints the median relative error\n"
	"of the predictions.  Then ranks random groups of 16 curves: top-1 is the share of groups\n"
	"in which the best curve was predicted to be the best, top-3 that in which it was among\n"
	"the best three, regret how much worse the chosen curve ends than the best, relative to\n"
	"it.  The last value is always shown for comparison.  FILE is a CSV of curves, DIR a run\n"
	"directory.  The algorithm `spottune` ranks trials with these extrapolators.\n",
	curves_flags, 1, 1, curves_run };

int
main(int argc, char **argv)
{
	return espl__main_one(&curves, argc, argv);
}
