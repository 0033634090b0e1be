/* tpe.c - see tpe.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tpe.h"

#define KERNELS_MAX (TPE_BAD_MAX + TPE_PENDING_MAX + 1)
#define ROOT_2PI 2.5066282746310005
#define RECENT 25u /* points whose weight is whole; older ones fade */

static int
init_kernels(struct tpe_kernels *k, uint32_t axis_count)
{
	size_t cells = ((size_t)axis_count + 1) * KERNELS_MAX;

	k->points = calloc(cells, sizeof *k->points);
	k->widths = calloc(cells, sizeof *k->widths);
	k->scales = calloc(cells, sizeof *k->scales);
	k->norms = calloc(cells, sizeof *k->norms);
	k->weights = calloc(KERNELS_MAX, sizeof *k->weights);
	return k->points != NULL && k->widths != NULL && k->scales != NULL && k->norms != NULL &&
	    k->weights != NULL;
}

static void
free_kernels(struct tpe_kernels *k)
{
	free(k->points);
	free(k->widths);
	free(k->scales);
	free(k->norms);
	free(k->weights);
}

espl_status
tpe_init(struct tpe *tpe, struct samples *samples, double top, uint32_t candidates,
    struct espl_error *error)
{
	uint32_t rows = candidates > SAMPLES_REST_MAX ? candidates : SAMPLES_REST_MAX;

	memset(tpe, 0, sizeof *tpe);
	tpe->samples = samples;
	tpe->top = top;
	tpe->candidates = candidates;
	portable_table_init(&tpe->table);
	tpe->points = calloc(((size_t)samples->axis_count + 1) * rows, sizeof *tpe->points);
	tpe->sums = calloc(KERNELS_MAX, sizeof *tpe->sums);
	tpe->sorted = calloc(KERNELS_MAX, sizeof *tpe->sorted);
	tpe->rows = calloc(KERNELS_MAX, sizeof *tpe->rows);
	return init_kernels(&tpe->good, samples->axis_count) &&
		init_kernels(&tpe->bad, samples->axis_count) && tpe->points != NULL &&
		tpe->sums != NULL && tpe->sorted != NULL && tpe->rows != NULL
	    ? ESPL_OK
	    : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

void
tpe_free(struct tpe *tpe)
{
	free_kernels(&tpe->good);
	free_kernels(&tpe->bad);
	free(tpe->is_good);
	free(tpe->points);
	free(tpe->sums);
	free(tpe->sorted);
	free(tpe->rows);
}

/* ---- densities ------------------------------------------------------------------------------- */

static int
number_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The distance from a point to its farther neighbor, or, at an end, to its only one. */
static double
width_at(const double *sorted, uint32_t count, double point)
{
	uint32_t low = 0, high = count;
	double left, right;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (sorted[middle] < point)
			low = middle + 1;
		else
			high = middle;
	}
	left = point - (low > 0 ? sorted[low - 1] : 0);
	right = (low + 1 < count ? sorted[low + 1] : 1) - point;
	if (count > 1 && low == 0)
		return right;
	if (count > 1 && low + 1 >= count)
		return left;
	return left > right ? left : right;
}

static void
fit_axis(const struct tpe *tpe, struct tpe_kernels *k, uint32_t axis)
{
	double *points = &k->points[(size_t)axis * KERNELS_MAX];
	double least = 1.0 / (k->count + 2 > 100 ? 100 : k->count + 2);
	uint32_t i, active = 0;

	for (i = 0; i < k->count; i++)
		if (!isnan(points[i]))
			tpe->sorted[active++] = points[i];
	qsort(tpe->sorted, active, sizeof *tpe->sorted, number_order);
	for (i = 0; i < k->count; i++) {
		size_t at = (size_t)axis * KERNELS_MAX + i;
		double width, mass;

		if (isnan(points[i]))
			continue;
		width = width_at(tpe->sorted, active, points[i]);
		width = width < least ? least : width > 1 ? 1 : width;
		mass = portable_table_normal(&tpe->table, (1 - points[i]) / width) -
		    portable_table_normal(&tpe->table, -points[i] / width);
		k->widths[at] = width;
		k->scales[at] = 1 / width;
		k->norms[at] = -portable_log(width * ROOT_2PI * mass);
	}
}

/* Rows, in the order in which they were told; older ones than the last 25 count less. */
static void
fit_kernels(const struct tpe *tpe, struct tpe_kernels *k, const uint32_t *rows, uint32_t count)
{
	const struct samples *s = tpe->samples;
	uint32_t a, i, fading = count > RECENT ? count - RECENT : 0;
	double sum = 1;

	ESPL_ASSERT(count < KERNELS_MAX);
	k->count = count;
	for (i = 0; i < count; i++) {
		double part = fading > 1 ? (double)i / (fading - 1) : 1;
		double weight = i < fading ? 1.0 / count + part * (1 - 1.0 / count) : 1;

		k->weights[i] = weight;
		sum += weight;
		for (a = 0; a < s->axis_count; a++)
			k->points[(size_t)a * KERNELS_MAX + i] = samples_row(s, rows[i])[a];
	}
	k->weights[count] = 1;
	for (i = 0; i <= count; i++)
		k->weights[i] = portable_log(k->weights[i] / sum);
	for (a = 0; a < s->axis_count; a++)
		if (s->axes[a].labels == 0)
			fit_axis(tpe, k, a);
}

static void
add_labels(const struct samples_axis *axis, const struct tpe_kernels *k, const double *points,
    double x, double *sums)
{
	double part = 1.0 / (k->count + 1), rest = 1 + axis->labels * part;
	double same = portable_log((1 + part) / rest), other = portable_log(part / rest);
	double even = -portable_log(axis->labels);
	uint32_t i;

	for (i = 0; i < k->count; i++)
		sums[i] += isnan(points[i]) ? even : points[i] == x ? same : other;
	sums[k->count] += even;
}

/* Of an ordered axis: at a point, or of its cell where that is wide beside the kernel. */
static void
add_numbers(const struct tpe *tpe, const struct samples_axis *axis, const struct tpe_kernels *k,
    size_t from, double x, double *sums)
{
	uint32_t i, cell = axis->levels > 0 ? samples_cell(axis, x) : 0;
	double low = axis->levels > 0 ? axis->edges[cell] : 0;
	double high = axis->levels > 0 ? axis->edges[cell + 1] : 0;
	double spread = high > low ? portable_log(high - low) : 0;

	for (i = 0; i < k->count; i++) {
		double t = (k->points[from + i] - x) * k->scales[from + i], mass = 0;

		if (isnan(k->points[from + i])) {
			sums[i] += spread;
			continue;
		}
		if (high - low > 0.5 * k->widths[from + i])
			mass = portable_table_normal(&tpe->table,
				   (high - k->points[from + i]) * k->scales[from + i]) -
			    portable_table_normal(&tpe->table,
				(low - k->points[from + i]) * k->scales[from + i]);
		if (mass > 1e-5) /* the kernel's factor without that of its height */
			sums[i] += portable_log(mass * ROOT_2PI * k->widths[from + i]) +
			    k->norms[from + i];
		else
			sums[i] += spread - 0.5 * t * t + k->norms[from + i];
	}
	sums[k->count] += spread;
}

/* The logarithm of a density at a point. */
static double
log_density(const struct tpe *tpe, const struct tpe_kernels *k, const double *point)
{
	const struct samples *s = tpe->samples;
	double most = -HUGE_VAL, sum = 0;
	uint32_t a, i;

	memcpy(tpe->sums, k->weights, (k->count + (size_t)1) * sizeof *tpe->sums);
	for (a = 0; a < s->axis_count; a++) {
		size_t from = (size_t)a * KERNELS_MAX;

		if (isnan(point[a]))
			continue;
		if (s->axes[a].labels > 0)
			add_labels(&s->axes[a], k, &k->points[from], point[a], tpe->sums);
		else
			add_numbers(tpe, &s->axes[a], k, from, point[a], tpe->sums);
	}
	for (i = 0; i <= k->count; i++)
		most = tpe->sums[i] > most ? tpe->sums[i] : most;
	for (i = 0; i <= k->count; i++)
		sum += tpe->sums[i] - most > -40 ? portable_exp(tpe->sums[i] - most) : 0;
	return most + portable_log(sum);
}

/* ---- a suggestion ---------------------------------------------------------------------------- */

/* The good rows, in order of time. */
static espl_status
mark_good(struct tpe *tpe, uint32_t *good, struct espl_error *error)
{
	const struct samples *s = tpe->samples;
	uint32_t i;

	if (tpe->is_room < s->count) {
		uint8_t *larger = realloc(tpe->is_good, s->room);

		if (larger == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		tpe->is_good = larger;
		tpe->is_room = s->room;
	}
	memset(tpe->is_good, 0, s->count);
	*good = (uint32_t)ceil(tpe->top * s->ranked - 1e-9);
	*good = *good > TPE_GOOD_MAX ? TPE_GOOD_MAX : *good;
	*good = *good > s->finite ? s->finite : *good; /* what failed is never good */
	for (i = 0; i < *good; i++)
		tpe->is_good[s->ranking[i]] = 1;
	return ESPL_OK;
}

static void
fit_both(struct tpe *tpe, uint32_t good)
{
	const struct samples *s = tpe->samples;
	uint64_t others = s->ranked - good, seen = 0;
	uint64_t some = others > TPE_BAD_MAX ? TPE_BAD_MAX : others;
	uint32_t i, n = 0;

	for (i = 0; i < s->count && n < good; i++)
		if (tpe->is_good[i])
			tpe->rows[n++] = i;
	fit_kernels(tpe, &tpe->good, tpe->rows, n);
	for (i = 0, n = 0; i < s->count; i++) {
		if (tpe->is_good[i] || s->states[i] == ESPL_SAMPLE_PENDING)
			continue;
		if ((seen + 1) * some / others > seen * some / others)
			tpe->rows[n++] = i;
		seen++;
	}
	for (i = 0; i < s->pending_count && i < TPE_PENDING_MAX; i++)
		tpe->rows[n++] = s->pending[i];
	fit_kernels(tpe, &tpe->bad, tpe->rows, n);
}

/* A point from one of the good kernels. */
static void
draw_point(const struct tpe *tpe, double *point)
{
	const struct samples *s = tpe->samples;
	const struct tpe_kernels *k = &tpe->good;
	double u = espl_uniform(s->host), x;
	uint32_t a, chosen = 0;

	for (; chosen < k->count && (u -= portable_exp(k->weights[chosen])) >= 0; chosen++)
		;
	for (a = 0; a < s->axis_count; a++) {
		size_t at = (size_t)a * KERNELS_MAX + chosen;
		double part = 1.0 / (k->count + 1);

		if (chosen == k->count || isnan(k->points[at])) {
			point[a] = samples_draw_axis(s, a);
		} else if (s->axes[a].labels > 0) {
			x = samples_draw_axis(s, a);
			point[a] = espl_uniform(s->host) * (1 + s->axes[a].labels * part) < 1
			    ? k->points[at]
			    : x;
		} else {
			do
				x = k->points[at] + k->widths[at] * samples_normal(s->host);
			while (!(x >= 0 && x <= 1));
			point[a] = x;
		}
	}
}

/* Untried configurations, if few are left; else drawn ones. */
static espl_status
make_candidates(struct tpe *tpe, uint32_t *count, struct espl_error *error)
{
	struct samples *s = tpe->samples;
	espl_status status = espl_tried_rest(&s->tried, SAMPLES_REST_MAX, s->rest, count, error);
	uint32_t i;

	for (i = 0; i < *count && status == ESPL_OK; i++)
		status = samples_point(s, &s->rest[(size_t)i * s->axis_count],
		    &tpe->points[(size_t)i * s->axis_count]);
	if (status != ESPL_OK || *count > 0)
		return status;
	for (i = 0; i < tpe->candidates && status == ESPL_OK; i++) {
		double *point = &tpe->points[(size_t)i * s->axis_count];

		draw_point(tpe, point);
		status = samples_decode(s, point, s->configuration);
	}
	*count = tpe->candidates;
	return status;
}

/* The best candidate that was not tried; or the best. */
static espl_status
choose_candidate(struct tpe *tpe, uint32_t count, double *values, struct espl_error *error)
{
	struct samples *s = tpe->samples;
	double most = -HUGE_VAL;
	espl_status status = ESPL_OK;
	uint32_t i, a;
	int chosen_tried = 1;

	for (i = 0; i < count && status == ESPL_OK; i++) {
		double *point = &tpe->points[(size_t)i * s->axis_count];
		double gain =
		    log_density(tpe, &tpe->good, point) - log_density(tpe, &tpe->bad, point);
		int tried;

		for (a = 0; a < s->axis_count; a++)
			if (isnan(point[a]))
				point[a] = 0; /* switched off again when it is decoded */
		status = samples_decode(s, point, s->configuration);
		tried = espl_tried_has(&s->tried, s->configuration);
		if (i > 0 && (tried > chosen_tried || (tried == chosen_tried && gain <= most)))
			continue;
		most = gain;
		chosen_tried = tried;
		if (s->axis_count > 0)
			memcpy(values, s->configuration, s->axis_count * sizeof *values);
	}
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "no configuration could be drawn");
}

espl_status
tpe_suggest(struct tpe *tpe, double *values, struct espl_error *error)
{
	uint32_t good = 0, count = 0;
	espl_status status = mark_good(tpe, &good, error);

	if (status != ESPL_OK)
		return status;
	fit_both(tpe, good);
	status = make_candidates(tpe, &count, error);
	return status == ESPL_OK ? choose_candidate(tpe, count, values, error) : status;
}
