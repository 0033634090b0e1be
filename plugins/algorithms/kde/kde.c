/* kde.c - observations by budget, which of them are good, and the choice among candidates; see
 * kde.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kde.h"

/* Densities below this say no more than "none here". */
#define LEAST_DENSITY 1e-32

void
kde_read(const struct espl_value *values, struct kde_setup *setup)
{
	memset(setup, 0, sizeof *setup);
	setup->random_fraction = values[KDE_RANDOM_FRACTION].as.r;
	setup->factor = values[KDE_FACTOR].as.r;
	setup->width_min = values[KDE_WIDTH_MIN].as.r;
	setup->top_percent = (uint32_t)values[KDE_TOP_PERCENT].as.i;
	setup->min_points = (uint32_t)values[KDE_MIN_POINTS].as.i;
	setup->candidates = (uint32_t)values[KDE_CANDIDATES].as.i;
	setup->points = (uint32_t)values[KDE_POINTS].as.i;
}

static espl_status
make_axes(struct kde *kde)
{
	uint32_t a;

	kde->axes = calloc((size_t)kde->axis_count + 1, sizeof *kde->axes);
	if (kde->axes == NULL)
		return ESPL_E_NOMEM;
	for (a = 0; a < kde->axis_count; a++) {
		const struct espl_param *param = kde->space->params[a];

		if (param->type == ESPL_CHOICE || param->type == ESPL_ORDINAL)
			kde->axes[a].labels = param->label_count;
		kde->axes[a].ordered = param->type == ESPL_ORDINAL;
		kde->axes[a].conditional = param->when_count > 0;
	}
	return ESPL_OK;
}

espl_status
kde_init(struct kde *kde, const struct espl_host *host, const struct kde_setup *setup,
    struct espl_error *error)
{
	const struct espl_experiment *experiment = host->service(host, ESPL_EXPERIMENT);
	uint32_t least;
	int failed;

	ESPL_ASSERT(setup->candidates > 0 && setup->top_percent <= 100);
	memset(kde, 0, sizeof *kde);
	kde->host = host;
	kde->setup = *setup;
	kde->space = host->service(host, ESPL_SPACE);
	if (kde->space == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "this host does not provide the search space");
	/* The history costs memory for every report: only where something is to be learned from it.
	 */
	if (experiment != NULL && (experiment->flags & ESPL_EXPERIMENT_EARLIER) != 0)
		kde->earlier = host->service(host, ESPL_HISTORY);
	kde->axis_count = kde->space->param_count;
	least = kde->axis_count + 1;
	if (kde->setup.min_points < least)
		kde->setup.min_points = least;
	if (kde->setup.points < least)
		kde->setup.points = least;
	kde->unit = calloc(least, sizeof *kde->unit);
	kde->densities = calloc(setup->candidates, sizeof *kde->densities);
	kde->candidates = calloc((size_t)setup->candidates * least, sizeof *kde->candidates);
	failed = kde->unit == NULL || kde->densities == NULL || kde->candidates == NULL ||
	    make_axes(kde) != ESPL_OK ||
	    kde_density_init(&kde->good, kde->axes, kde->axis_count, kde->setup.points) !=
		ESPL_OK ||
	    kde_density_init(&kde->bad, kde->axes, kde->axis_count, kde->setup.points) != ESPL_OK;
	return failed ? espl_fail(error, ESPL_E_NOMEM, "out of memory") : ESPL_OK;
}

static void
free_budget(struct kde_budget *budget)
{
	free(budget->points);
	free(budget->losses);
	free(budget->keys);
	free(budget->ranking);
}

void
kde_free(struct kde *kde)
{
	uint32_t i;

	for (i = 0; i < kde->budget_count; i++)
		free_budget(&kde->budgets[i]);
	free(kde->budgets);
	kde_density_free(&kde->good);
	kde_density_free(&kde->bad);
	free(kde->axes);
	free(kde->unit);
	free(kde->candidates);
	free(kde->densities);
}

/* ---- observations ---------------------------------------------------------------------------- */

/* How many of them are good, and how many bad: the rest, except the worst ones that rounding leaves
 * out. */
static void
split_good_bad(const struct kde *kde, const struct kde_budget *budget, uint32_t *good,
    uint32_t *bad)
{
	uint64_t n = budget->count, percent = kde->setup.top_percent, least = kde->setup.min_points;
	uint64_t some = percent * n / 100, others = (100 - percent) * n / 100;

	ESPL_ASSERT(budget->finite <= budget->count);
	if (some < least)
		some = least;
	if (some > budget->finite)
		some = budget->finite; /* what failed is never good */
	if (others < least)
		others = least;
	if (others > n - some)
		others = n - some;
	*good = (uint32_t)some;
	*bad = (uint32_t)others;
	ESPL_ASSERT((uint64_t)*good + *bad <= budget->count);
}

static int
is_enough(const struct kde *kde, const struct kde_budget *budget)
{
	uint32_t good, bad;

	split_good_bad(kde, budget, &good, &bad);
	return budget->count >= kde->setup.min_points && good > kde->axis_count &&
	    bad > kde->axis_count;
}

/* The record of a budget, made if there is none.  NULL: out of memory. */
static struct kde_budget *
budget_of(struct kde *kde, uint64_t budget)
{
	struct kde_budget *budgets;
	uint32_t i = 0;

	while (i < kde->budget_count && kde->budgets[i].budget < budget)
		i++;
	if (i < kde->budget_count && kde->budgets[i].budget == budget)
		return &kde->budgets[i];
	budgets = realloc(kde->budgets, ((size_t)kde->budget_count + 1) * sizeof *budgets);
	if (budgets == NULL)
		return NULL;
	kde->budgets = budgets;
	memmove(&budgets[i + 1], &budgets[i], (kde->budget_count - i) * sizeof *budgets);
	memset(&budgets[i], 0, sizeof budgets[i]);
	budgets[i].budget = budget;
	kde->budget_count++;
	return &budgets[i];
}

static int
grow_array(void **array, size_t count, size_t size)
{
	void *larger = realloc(*array, count * size);

	if (larger != NULL)
		*array = larger;
	return larger != NULL;
}

/* Room for one row more; 0: out of memory. */
static int
make_room(const struct kde *kde, struct kde_budget *b)
{
	void *points = b->points, *losses = b->losses, *keys = b->keys, *ranking = b->ranking;
	size_t room = b->room < 16 ? 16 : (size_t)b->room + b->room / 2;
	int made;

	if (b->count < b->room)
		return 1;
	made = room < UINT32_MAX && grow_array(&losses, room, sizeof *b->losses) &&
	    grow_array(&keys, room, sizeof *b->keys) &&
	    grow_array(&ranking, room, sizeof *b->ranking) &&
	    grow_array(&points, room, (kde->axis_count + (size_t)1) * sizeof *b->points);
	b->points = points;
	b->losses = losses;
	b->keys = keys;
	b->ranking = ranking;
	if (made)
		b->room = (uint32_t)room;
	return made;
}

static int
is_before(const struct kde_budget *b, uint32_t row, uint32_t other)
{
	return b->losses[row] != b->losses[other] ? b->losses[row] < b->losses[other]
						  : b->keys[row] < b->keys[other];
}

/* Puts the newest row where it belongs in the ranking. */
static void
rank_newest(struct kde_budget *b)
{
	uint32_t low = 0, high = b->count, row = b->count;

	ESPL_ASSERT(b->count < b->room);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (is_before(b, b->ranking[middle], row))
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&b->ranking[low + 1], &b->ranking[low], (b->count - low) * sizeof *b->ranking);
	b->ranking[low] = row;
	b->count++;
}

/* This budget has a model from now on: lesser ones are of no use any more. */
static void
forget_below(struct kde *kde, uint64_t budget)
{
	uint32_t i, gone = 0;

	while (kde->budgets[gone].budget < budget)
		free_budget(&kde->budgets[gone++]);
	ESPL_ASSERT(gone < kde->budget_count && kde->budgets[gone].budget == budget);
	for (i = gone; i < kde->budget_count; i++)
		kde->budgets[i - gone] = kde->budgets[i];
	kde->budget_count -= gone;
	kde->modelled = 1;
}

static espl_status
observe_loss(struct kde *kde, uint64_t budget, uint64_t key, double loss, const double *values,
    struct espl_error *error)
{
	struct kde_budget *b;
	espl_status status;
	uint32_t a;
	float *row;

	ESPL_ASSERT(!kde->modelled || kde->budget_count > 0);
	if (kde->modelled && budget < kde->budgets[0].budget)
		return ESPL_OK;
	status = kde->space->to_unit(kde->space, values, kde->unit);
	if (status != ESPL_OK)
		return espl_fail(error, status,
		    "an observed configuration does not belong to this space");
	b = budget_of(kde, budget);
	if (b == NULL || !make_room(kde, b))
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u observations",
		    b != NULL ? b->count : 0);
	row = &b->points[(size_t)b->count * kde->axis_count];
	for (a = 0; a < kde->axis_count; a++)
		row[a] = (float)(kde->axes[a].labels > 0 ? values[a] : kde->unit[a]);
	b->losses[b->count] = isfinite(loss) ? loss : (double)INFINITY;
	b->keys[b->count] = key;
	b->finite += isfinite(loss) ? 1 : 0;
	rank_newest(b);
	if (is_enough(kde, b)) {
		forget_below(kde, budget);
		kde->stale = 1;
	}
	return ESPL_OK;
}

espl_status
kde_observe(struct kde *kde, uint64_t budget, uint64_t trial, double loss, const double *values,
    struct espl_error *error)
{
	/* Behind all rows of an earlier run. */
	return observe_loss(kde, budget, UINT64_C(1) << 63 | trial, loss, values, error);
}

/* Only observations after as many iterations as this search trains its trials are useful for the
 * model. */
static void
report_earlier(const struct kde *kde, uint64_t others, const uint64_t *budgets, uint32_t count)
{
	uint64_t least = budgets[0], most = budgets[0];
	uint32_t i;

	ESPL_ASSERT(count > 0);
	for (i = 1; i < count; i++) {
		least = budgets[i] < least ? budgets[i] : least;
		most = budgets[i] > most ? budgets[i] : most;
	}
	if (kde->learned == 0)
		espl_logf(kde->host, ESPL_WARN,
		    "the model cannot use the earlier run: none of its %llu observations is "
		    "at an iteration at which this search compares trials (%llu to %llu)",
		    (unsigned long long)others, (unsigned long long)least,
		    (unsigned long long)most);
	else
		espl_logf(kde->host, ESPL_INFO,
		    "the model starts with %llu observation%s of an earlier run%s",
		    (unsigned long long)kde->learned, kde->learned == 1 ? "" : "s",
		    others > 0 ? "; the others are at iterations at which this search does not "
				 "compare trials"
			       : "");
}

espl_status
kde_earlier(struct kde *kde, const uint64_t *budgets, uint32_t count, struct espl_error *error)
{
	const struct espl_history *history = kde->earlier;
	const struct espl_observation *o;
	espl_status status = ESPL_OK;
	uint64_t at, others = 0;

	kde->earlier = NULL;
	for (at = 0; history != NULL && status == ESPL_OK; at++) {
		uint32_t i = 0;

		o = history->at(history, at);
		if (o == NULL || (o->flags & ESPL_OBSERVED_EARLIER) == 0)
			break;
		while (i < count && budgets[i] != o->iteration)
			i++;
		if (i == count) {
			others++;
			continue;
		}
		status = observe_loss(kde, o->iteration, at, o->loss, o->values, error);
		kde->learned++;
	}
	if (history != NULL && kde->learned + others > 0)
		report_earlier(kde, others, budgets, count);
	return status;
}

/* ---- the densities --------------------------------------------------------------------------- */

/* Rows `from` up to `until` of the ranking, or an even sample of them. */
static void
fill_density(const struct kde *kde, const struct kde_budget *b, struct kde_density *density,
    uint32_t from, uint32_t until)
{
	uint64_t i, count = until - from, some = count;
	uint32_t a;

	ESPL_ASSERT(from < until && until <= b->count);
	if (some > kde->setup.points)
		some = kde->setup.points;
	kde_density_begin(density, (uint32_t)some);
	for (i = 0; i < some; i++) {
		uint32_t row = b->ranking[from + i * count / some];
		const float *point = &b->points[(size_t)row * kde->axis_count];

		for (a = 0; a < kde->axis_count; a++)
			density->points[(size_t)a * density->room + i] = (double)point[a];
	}
	kde_density_impute(density, kde->host);
	kde_density_fit(density, kde->setup.width_min);
}

int
kde_fit(struct kde *kde)
{
	uint32_t good, bad;

	if (kde->modelled && kde->stale) {
		split_good_bad(kde, &kde->budgets[0], &good, &bad);
		fill_density(kde, &kde->budgets[0], &kde->good, 0, good);
		fill_density(kde, &kde->budgets[0], &kde->bad, good, good + bad);
		kde->stale = 0;
	}
	return (int)kde->modelled;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* Draws candidates; the number of the one where the good ones are densest. */
static uint32_t
draw_candidates(struct kde *kde)
{
	uint32_t i, densest = 0;

	for (i = 0; i < kde->setup.candidates; i++) {
		double *x = &kde->candidates[(size_t)i * kde->axis_count];

		kde_density_draw(&kde->good, kde->host, kde->setup.factor, x);
		kde->densities[i] = fmax(kde_density_at(&kde->good, x, HUGE_VAL), LEAST_DENSITY);
		if (kde->densities[i] > kde->densities[densest])
			densest = i;
	}
	return densest;
}

/* The candidate with the least bad / good, the first of equals.  Beginning with one that is likely
 * to be it, the sums of most others can stop early. */
static uint32_t
best_candidate(const struct kde *kde, uint32_t densest)
{
	uint32_t i, best = densest;
	double least = HUGE_VAL;

	ESPL_ASSERT(densest < kde->setup.candidates);
	for (i = 0; i <= kde->setup.candidates; i++) {
		uint32_t c = i == 0 ? densest : i - 1;
		double good = kde->densities[c], ratio;

		if (i > 0 && c == densest)
			continue;
		ratio = fmax(kde_density_at(&kde->bad,
				 &kde->candidates[(size_t)c * kde->axis_count], least * good),
			    LEAST_DENSITY) /
		    good;
		if (ratio < least || (ratio == least && c < best)) {
			least = ratio;
			best = c;
		}
	}
	return best;
}

espl_status
kde_suggest(struct kde *kde, double *values, struct espl_error *error)
{
	const double *x;
	espl_status status;
	uint32_t a;

	if (!kde->modelled || espl_uniform(kde->host) < kde->setup.random_fraction) {
		status = espl_draw(kde->host, kde->space, kde->unit, values);
	} else {
		kde_fit(kde);
		x = &kde->candidates[(size_t)best_candidate(kde, draw_candidates(kde)) *
		    kde->axis_count];
		for (a = 0; a < kde->axis_count; a++)
			kde->unit[a] =
			    kde->axes[a].labels > 0 ? (x[a] + 0.5) / kde->axes[a].labels : x[a];
		status = kde->space->from_unit(kde->space, kde->unit, values);
	}
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "no configuration could be drawn");
}
